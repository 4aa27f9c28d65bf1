// Maps as CUDA C: a thread processes vectors of the innermost axis.
#include "codegen/cuda/print_cuda.h"

typedef struct Map {
    Vectors v;
    const char *axis, *base; // names: the innermost axis, a vector's first index along it
    Steps steps;             // the thread's vectors; j: a vector's number
    bool ahead;              // plain loads of all steps are issued before everything else
    const bool *early;       // by instruction: loaded before the preceding kernel ends; or NULL
} Map;

// If each thread has exactly one vector or element, and none remain: the loads that may be issued
// before the wait, which is then printed after them. NULL: there are none.
static const bool *find_early(Emit *e, const Vectors *v)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    if (!e->follow || s->unroll > 1 || (s->vector > 1 && b->npar < 2) || b->commits) return NULL;
    const bool *known = known_early(e->kernel, b);
    bool *early = NEW_ARRAY(e->arena, bool, b->insts.n + 1), any = false;
    for (uint32_t i = 0; i < b->insts.n && s->vector == 1; i++)
        any |= early[i] = e->live[i] && known[i] && b->insts.at[i].kind == KI_LOAD &&
                          !inst_nested(b, &b->insts.at[i]);
    for (int i = 0; i < v->nloads; i++) {
        const int at = v->loads[i];
        early[at] = known[at] && is_plain(e, at);
        any |= early[at];
    }
    return any ? early : NULL;
}

static Map map_of(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const int inner = b->npar - 1;
    const int64_t extent = b->axis[inner].extent / s->vector;
    const char *t = int_type(e), *by = s->vector > 1 ? emit_text(e, " * %d", s->vector) : "";
    Map m = {.v = find_vectors(e, inner, s->vector), .axis = e->axis[inner]};
    m.base = m.v.base = s->vector > 1 ? emit_text(e, "%s_first", m.axis) : m.axis;
    for (int i = 0; i < m.v.nloads; i++) m.ahead |= s->unroll > 1 && is_plain(e, m.v.loads[i]);
    m.steps = (Steps){.index = "u", .count = s->unroll, .stride = extent, .naxes = inner};
    // (A thread's only axis is its number.)
    const char *number = b->npar == 1 && s->vector == 1 ? m.axis : "j";
    m.steps.number = "j";
    m.steps.axes = ((1ull << inner) - 1) | (s->vector > 1 ? 0 : 1ull << inner);
    const char *limit = emit_text(e, "%lld", (long long)(body_rows(b) / s->vector)),
               *block = block_number(e);
    if (b->npar == 1) limit = s->vector > 1 ? emit_text(e, "n / %d", s->vector) : "n";
    if (s->unroll > 1) block = emit_text(e, "(%s * %d + u)", block, s->unroll);
    m.steps.guard = steps_guard(e, &m.steps, number, limit, 0);
    m.steps.place =
        emit_text(e, "const %s %s = %s * %d + threadIdx.x;", t, number, block, s->threads);
    m.steps.inside = number == m.axis ? NULL
                     : b->npar == 1   ? emit_text(e, "const %s %s = j%s;", t, m.base, by)
                                      : emit_text(e, "const %s %s = nc_rem(j, %lld)%s;", t, m.base,
                                                  (long long)extent, by);
    return m;
}

static void map_vector(Emit *e, const Map *m)
{
    const Vectors *v = &m->v;
    for (int i = 0; i < v->nloads && m->early; i++)
        if (m->early[v->loads[i]]) print_slot(e, v, v->loads[i]);
    if (m->early) emit_follow(e);
    for (int i = 0; i < v->nloads; i++)
        if ((!m->ahead || !is_plain(e, v->loads[i])) && !(m->early && m->early[v->loads[i]]))
            print_slot(e, v, v->loads[i]);
    open_stores(e, v, -1);
    emit_open(e, 1ull << v->axis);
    emit_int(e, m->axis, "%s + lane", m->base);
    print_lane(e, v, m->ahead ? "[u]" : "");
    lane_stores(e, v, -1);
    close_lane_loop(e, v->width);
    flush_stores(e, v, -1);
}

// The last elements, which do not fill a vector.
static void map_tail(Emit *e, const Map *m)
{
    const Vectors none = {.axis = m->v.axis, .width = 1};
    for (int i = 0; i < m->v.nloads; i++) e->element[m->v.loads[i]] = NULL;
    emit_open(e, 1ull << m->v.axis);
    emit_int(e, m->axis, "n - 1 - threadIdx.x");
    lane_stores(e, &none, -1);
    emit_end(e, "if (block == 0 && threadIdx.x < n %% %d) {", m->v.width);
}

void map_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Map m = map_of(e);
    emit_prefetch(e, 0);
    m.early = find_early(e, &m.v);
    if (!m.early) emit_follow(e);
    if (m.ahead) {
        bool *ahead = NEW_ARRAY(e->arena, bool, b->insts.n + 1);
        for (int i = 0; i < m.v.nloads; i++) ahead[m.v.loads[i]] = is_plain(e, m.v.loads[i]);
        load_steps(e, &m.v, ahead, &m.steps);
    }
    if (s->unroll == 1) { // the only step
        emit(e, "%s", m.steps.place);
        m.steps.place = NULL;
    }
    open_steps(e, &m.steps);
    e->scope->guard = true;
    if (s->vector > 1) {
        map_vector(e, &m);
    } else {
        if (m.early) emit_prefetch(e, UINT64_MAX);
        emit_follow(e);
        lane_stores(e, &m.v, -1);
    }
    close_steps(e, &m.steps);
    if (b->npar == 1 && s->vector > 1) map_tail(e, &m);
}
