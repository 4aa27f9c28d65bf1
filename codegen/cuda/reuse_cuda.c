// Maps that read vectors along their innermost axis again and again (a bias, the statistics of
// columns), as CUDA C: a thread stays at one place of that axis and takes several of the outer
// positions, so that it reads those vectors once.
#include "codegen/cuda/print_cuda.h"

static uint64_t outer_axes(const Body *b)
{
    return (1ull << (b->npar - 1)) - 1;
}

// Loads that stay the same from position to position and wait for nothing.
static bool hoisted(const Emit *e, int load)
{
    return is_plain(e, load) && !(e->body->insts.at[load].axes & outer_axes(e->body));
}

static bool ahead(const Emit *e, int load)
{
    return is_plain(e, load) && !hoisted(e, load);
}

// Opens a loop over the positions of a thread, up to where their axes are known.
static void open_position(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *t = int_type(e);
    emit_open(e, 0);
    const char *block =
        reuse_tiles(b) > 1 ? emit_text(e, "(block / %lld)", (long long)reuse_tiles(b)) : "block";
    emit_line(e, e->scope, "const %s at = (%s)%s * %d + u * %d + member;", t, t, block,
              s->unroll * s->team, s->team);
    emit_open(e, outer_axes(b));
    int64_t stride = 1;
    for (int i = b->npar - 1; i-- > 0;) {
        const char *q = stride == 1 ? "at" : emit_text(e, "nc_quo(at, %lld)", (long long)stride);
        emit_line(e, e->scope, "const %s %s = %s;", t, e->axis[i],
                  i == 0 ? q : emit_text(e, "nc_rem(%s, %lld)", q, (long long)b->axis[i].extent));
        stride *= b->axis[i].extent;
    }
}

static void close_position(Emit *e, Scope *outer)
{
    const Body *b = e->body;
    int64_t positions = 1;
    for (int i = 0; i < b->npar - 1; i++) positions *= b->axis[i].extent;
    emit_close(e, emit_text(e, "if (at < %lld) {", (long long)positions), "}");
    emit_line(e, outer, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int u = 0; u < %d; u++) {", b->sched.unroll), "}");
}

static void print_lanes(Emit *e, const Vectors *v, const char *axis, const char *base)
{
    int inner = e->body->npar - 1;
    open_stores(e, v, -1);
    emit_open(e, 1ull << inner);
    emit_line(e, e->scope, "const %s %s = %s + lane;", int_type(e), axis, base);
    e->axis[inner] = axis;
    for (int i = 0; i < v->nloads; i++)
        e->element[v->loads[i]] = emit_text(e, "%s%s.at[lane]", slot_name(e, v->loads[i]),
                                            ahead(e, v->loads[i]) ? "[u]" : "");
    lane_stores(e, v, -1);
    close_lane_loop(e, v->width);
    e->axis[inner] = base;
    flush_stores(e, v, -1);
}

void reuse_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int inner = b->npar - 1, across = s->threads / s->team;
    Vectors v = find_vectors(e, inner, s->vector);
    Scope *root = e->scope;
    const char *t = int_type(e), *axis = e->axis[inner], *base = emit_text(e, "%s_first", axis);
    emit_line(e, root, "const int member = threadIdx.x / %d;", across);
    const char *tile = reuse_tiles(b) > 1 ? emit_text(e, "block %% %lld * %d + ",
                                                      (long long)reuse_tiles(b), across)
                                          : "";
    emit_line(e, root, "const %s %s = (%s)(%sthreadIdx.x %% %d) * %d;", t, base, t, tile, across,
              s->vector);
    if (b->axis[inner].extent / s->vector % across)
        emit_line(e, root, "if (%s >= %lld) return;", base, (long long)b->axis[inner].extent);
    e->axis[inner] = base;
    bool any = false;
    for (int i = 0; i < v.nloads; i++) {
        int load = v.loads[i];
        if (hoisted(e, load)) print_vector_load(e, &v, load, slot_name(e, load), true);
        if (!ahead(e, load)) continue;
        any = true;
        emit_line(e, root, "%s %s[%d];",
                  vec_type(e, b->bufs.at[b->insts.at[load].buf].type, v.width), slot_name(e, load),
                  s->unroll);
    }
    if (any) {
        open_position(e);
        for (int i = 0; i < v.nloads; i++)
            if (ahead(e, v.loads[i]))
                print_vector_load(e, &v, v.loads[i],
                                  emit_text(e, "%s[u]", slot_name(e, v.loads[i])), false);
        close_position(e, root);
    }
    open_position(e);
    for (int i = 0; i < v.nloads; i++)
        if (!is_plain(e, v.loads[i]))
            print_vector_load(e, &v, v.loads[i], slot_name(e, v.loads[i]), true);
    print_lanes(e, &v, axis, base);
    close_position(e, root);
    for (int i = 0; i < v.nloads; i++) e->element[v.loads[i]] = NULL;
    e->axis[inner] = axis;
}
