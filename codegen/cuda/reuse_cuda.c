// Maps that read the same vectors along their innermost axis for many outer positions (a bias, the
// statistics of columns), as CUDA C: a thread processes several outer positions for one vector of
// that axis, so that it loads these vectors once.
#include "codegen/cuda/print_cuda.h"

static uint64_t outer_axes(const Body *b)
{
    return (1ull << (b->npar - 1)) - 1;
}

// Whether a load is the same for all outer positions and can be issued first.
static bool hoisted(const Emit *e, int load)
{
    return is_plain(e, load) && !(e->body->insts.at[load].axes & outer_axes(e->body));
}

static bool ahead(const Emit *e, int load)
{
    return e->body->sched.unroll > 1 && is_plain(e, load) && !hoisted(e, load);
}

// The outer positions of a thread.
static Steps positions_of(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *block = emit_part(e, block_number(e), reuse_tiles(b), 0, s->unroll * s->team);
    int64_t positions = 1;
    for (int i = 0; i < b->npar - 1; i++) positions *= b->axis[i].extent;
    Steps p = {.index = "u", .count = s->unroll, .axes = outer_axes(b)};
    const char *number = b->npar == 2 ? e->axis[0] : "at"; // the only outer axis
    if (b->npar > 2) p.number = number;
    p.stride = 1;
    p.naxes = b->npar - 1;
    p.place = emit_text(e, "const %s %s = %s%s + member;", int_type(e), number, block,
                        p.count > 1 ? emit_text(e, " + %s", emit_part(e, "u", 1, 0, s->team)) : "");
    p.guard = steps_guard(e, &p, number, emit_text(e, "%lld", (long long)positions), 0);
    return p;
}

static void print_lanes(Emit *e, const Vectors *v, const char *axis, const char *base)
{
    int inner = e->body->npar - 1;
    open_stores(e, v, -1);
    emit_open(e, 1ull << inner);
    const char *lane = emit_count("lane", v->width);
    emit_int(e, axis, "%s", emit_plus(e, base, lane));
    for (int i = 0; i < v->nloads; i++)
        e->element[v->loads[i]] = emit_text(e, "%s%s.at[%s]", slot_name(e, v->loads[i]),
                                            ahead(e, v->loads[i]) ? "[u]" : "", lane);
    lane_stores(e, v, -1);
    close_lane_loop(e, v->width);
    flush_stores(e, v, -1);
}

void reuse_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int inner = b->npar - 1, across = s->threads / s->team;
    Vectors v = find_vectors(e, inner, s->vector);
    const char *axis = e->axis[inner], *base = emit_text(e, "%s_first", axis);
    emit(e, "const int member = threadIdx.x / %d;", across);
    const char *tile = emit_part(e, block_number(e), 1, reuse_tiles(b), across),
               *own = emit_plus(e, tile, emit_text(e, "threadIdx.x %% %d", across));
    if (s->vector > 1 && reuse_tiles(b) > 1) own = emit_text(e, "(%s)", own);
    emit_int(e, base, "%s", emit_part(e, own, 1, 0, s->vector));
    if (b->axis[inner].extent / s->vector % across)
        emit(e, "if (%s >= %lld) return;", base, extent_of(b, inner));
    v.base = base;
    bool any = false, *early = NEW_ARRAY(e->arena, bool, b->insts.n + 1);
    for (int i = 0; i < v.nloads; i++) {
        int load = v.loads[i];
        if (hoisted(e, load)) print_slot(e, &v, load);
        any |= early[load] = ahead(e, load);
    }
    const Steps positions = positions_of(e);
    if (any) load_steps(e, &v, early, &positions);
    open_steps(e, &positions);
    for (int i = 0; i < v.nloads; i++)
        if (!ahead(e, v.loads[i]) && !hoisted(e, v.loads[i])) print_slot(e, &v, v.loads[i]);
    print_lanes(e, &v, axis, base);
    close_steps(e, &positions);
    for (int i = 0; i < v.nloads; i++) e->element[v.loads[i]] = NULL;
}
