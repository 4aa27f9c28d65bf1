// Maps as CUDA C: a thread takes vectors of the innermost axis.
#include "codegen/cuda/print_cuda.h"

// Splits vector number "j" into the axes; the innermost gets its first element under the name base.
static void print_axes(Emit *e, int width, const char *base)
{
    const Body *b = e->body;
    int inner = b->npar - 1;
    const char *t = int_type(e);
    if (b->npar == 1) {
        emit_line(e, e->scope, "const %s %s = j%s;", t, base,
                  width > 1 ? emit_text(e, " * %d", width) : "");
        return;
    }
    const char *left = "j";
    int64_t extent = b->axis[inner].extent / width;
    emit_line(e, e->scope, "const %s %s = nc_rem(%s, %lld)%s;", t, base, left, (long long)extent,
              width > 1 ? emit_text(e, " * %d", width) : "");
    int64_t stride = extent;
    for (int i = inner; i-- > 0;) {
        const char *q = stride == 1 ? "j" : emit_text(e, "nc_quo(j, %lld)", (long long)stride);
        emit_line(e, e->scope, "const %s %s = %s;", t, e->axis[i],
                  i == 0 ? q : emit_text(e, "nc_rem(%s, %lld)", q, (long long)b->axis[i].extent));
        stride *= b->axis[i].extent;
    }
}

typedef struct Map {
    Vectors v;
    const char *axis, *base; // names: the innermost axis, the first of a vector's places along it
    const char *limit;       // vectors there are
    const char *number;      // declares the vector's number j
} Map;

static Map map_of(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *t = int_type(e);
    Map m = {.v = find_vectors(e, b->npar - 1, s->vector), .axis = e->axis[b->npar - 1]};
    m.base = s->vector > 1 ? emit_text(e, "%s_first", m.axis) : m.axis;
    m.limit = b->npar > 1     ? emit_text(e, "%lld", (long long)(body_rows(b) / s->vector))
              : s->vector > 1 ? emit_text(e, "n / %d", s->vector)
                              : "n";
    m.number = s->unroll == 1
                   ? emit_text(e, "const %s j = (%s)block * %d + threadIdx.x;", t, t, s->threads)
                   : emit_text(e, "const %s j = ((%s)block * %d + u) * %d + threadIdx.x;", t, t,
                               s->unroll, s->threads);
    return m;
}

static void close_unrolled(Emit *e)
{
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int u = 0; u < %d; u++) {", e->body->sched.unroll), "}");
}

// Prints vector loads of the plain or of the other kind, where the axes are known.
static void map_loads(Emit *e, const Map *m, bool plain, bool ahead)
{
    const Vectors *v = &m->v;
    e->axis[v->axis] = m->base;
    for (int i = 0; i < v->nloads; i++) {
        if (ahead && is_plain(e, v->loads[i]) != plain) continue;
        const char *slot = slot_name(e, v->loads[i]);
        bool early = ahead && plain;
        print_vector_load(e, v, v->loads[i], early ? emit_text(e, "%s[u]", slot) : slot, !early);
    }
    e->axis[v->axis] = m->axis;
}

// All loads that need nothing but their place, before the first value is computed.
static void prefetch_loads(Emit *e, const Map *m)
{
    const Body *b = e->body;
    const Vectors *v = &m->v;
    for (int i = 0; i < v->nloads; i++)
        if (is_plain(e, v->loads[i]))
            emit_line(e, e->scope, "%s %s[%d];",
                      vec_type(e, b->bufs.at[b->insts.at[v->loads[i]].buf].type, v->width),
                      slot_name(e, v->loads[i]), b->sched.unroll);
    emit_open(e, (1ull << v->axis) - 1); // loop over u
    emit_line(e, e->scope, "%s", m->number);
    emit_open(e, 0); // in range
    print_axes(e, b->sched.vector, m->base);
    map_loads(e, m, true, true);
    emit_close(e, emit_text(e, "if (j < %s) {", m->limit), "}");
    close_unrolled(e);
}

static void map_vector(Emit *e, const Map *m, bool ahead)
{
    const Vectors *v = &m->v;
    map_loads(e, m, false, ahead);
    open_stores(e, v, -1);
    emit_open(e, 1ull << v->axis);
    emit_line(e, e->scope, "const %s %s = %s + lane;", int_type(e), m->axis, m->base);
    print_lane(e, v, ahead ? "[u]" : "");
    lane_stores(e, v, -1);
    close_lane_loop(e, v->width);
    e->axis[v->axis] = m->base;
    flush_stores(e, v, -1);
    e->axis[v->axis] = m->axis;
}

// The last elements, fewer than a vector.
static void map_tail(Emit *e, const Map *m)
{
    const char *t = int_type(e);
    const Vectors none = {.axis = m->v.axis, .width = 1};
    for (int i = 0; i < m->v.nloads; i++) e->element[m->v.loads[i]] = NULL;
    emit_open(e, 1ull << m->v.axis);
    emit_line(e, e->scope, "const %s %s = n - 1 - (%s)threadIdx.x;", t, m->axis, t);
    lane_stores(e, &none, -1);
    emit_close(e, emit_text(e, "if (block == 0 && threadIdx.x < n %% %d) {", m->v.width), "}");
}

void map_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const uint64_t inner = 1ull << (b->npar - 1);
    Map m = map_of(e);
    bool ahead = false;
    emit_prefetch(e, 0);
    emit_follow(e);
    for (int i = 0; i < m.v.nloads && s->unroll > 1; i++) ahead |= is_plain(e, m.v.loads[i]);
    if (ahead) prefetch_loads(e, &m);
    if (s->unroll > 1) emit_open(e, 0);
    emit_line(e, e->scope, "%s", m.number);
    emit_open(e, (inner - 1) | (s->vector > 1 ? 0 : inner)); // in range
    e->scope->guard = true;
    print_axes(e, s->vector, m.base);
    if (s->vector > 1)
        map_vector(e, &m, ahead);
    else
        lane_stores(e, &m.v, -1);
    emit_close(e, emit_text(e, "if (j < %s) {", m.limit), "}");
    if (s->unroll > 1) close_unrolled(e);
    if (b->npar == 1 && s->vector > 1) map_tail(e, &m);
}
