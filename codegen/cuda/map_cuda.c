// Maps as CUDA C: a thread processes vectors of the innermost axis. If a map reads the same vectors
// along that axis for many outer positions (a bias, the statistics of columns), its thread has
// several of these positions and one vector (reuse_cuda), so that it loads these vectors once.
#include "codegen/cuda/print_cuda.h"

typedef struct Map {
    Vectors v;        // v.base: a vector's first index along the innermost axis
    const char *axis; // the name of this axis
    Stacks stacks;    // if it has no vectors: neighbours that each element loads or stores
    Steps steps;      // the thread's vectors; j: a vector's number
    // By instruction: loads of all steps that are issued before everything else; loads that are
    // issued before the steps, or before the wait for the preceding kernel.
    bool *ahead, *early;
} Map;

static Map map_begin(Emit *e)
{
    const Body *b = e->body;
    const int inner = b->npar - 1;
    Map m = {.v = find_vectors(e, inner, b->sched.vector), .axis = e->axis[inner]};
    if (b->sched.vector == 1) m.stacks = body_stacks(e->arena, b, e->live);
    m.ahead = NEW_ARRAY(e->arena, bool, b->insts.n + 1);
    m.early = NEW_ARRAY(e->arena, bool, b->insts.n + 1);
    return m;
}

// Opens the loop over the steps.
static void open_vectors(Emit *e, const Map *m)
{
    load_steps(e, &m->v, m->ahead, &m->steps);
    open_steps(e, &m->steps);
    e->scope->guard = true;
}

// Computes a vector, for whose step the early loads have been printed.
static void print_vector(Emit *e, const Map *m)
{
    const Vectors *v = &m->v;
    for (int i = 0; i < v->nloads; i++)
        if (!m->ahead[v->loads[i]] && !m->early[v->loads[i]]) print_slot(e, v, v->loads[i]);
    open_stores(e, v, -1);
    open_lanes(e, v, m->axis);
    for (int i = 0; i < v->nloads; i++)
        bind_element(e, v, v->loads[i], m->ahead[v->loads[i]] ? "[u]" : "");
    lane_stores(e, v, -1);
    close_lanes(e, v);
    flush_stores(e, v, -1);
}

static void print_element(Emit *e, Map *m)
{
    m->v.stacks = &m->stacks;
    load_stacks(e, &m->stacks);
    lane_stores(e, &m->v, -1);
    release_stacks(e, &m->stacks);
}

// -- one vector after the other -------------------------------------------------------------------

// If each thread has exactly one vector or element, and none remain: the loads that may be issued
// before the wait, which is then printed after them. false: there are none.
static bool find_early(Emit *e, Map *m)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    if (!e->follow || s->unroll > 1 || (s->vector > 1 && b->npar < 2) || b->commits) return false;
    const bool *known = known_early(e->kernel, b);
    bool any = false;
    for (uint32_t i = 0; i < b->insts.n && s->vector == 1; i++)
        any |= e->live[i] && known[i] && b->insts.at[i].kind == KI_LOAD &&
               !inst_nested(b, &b->insts.at[i]);
    for (int i = 0; i < m->v.nloads; i++) {
        const int at = m->v.loads[i];
        any |= m->early[at] = known[at] && is_plain(e, at);
    }
    return any;
}

static Map map_of(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const int inner = b->npar - 1;
    const int64_t extent = b->axis[inner].extent / s->vector;
    Map m = map_begin(e);
    m.v.base = s->vector > 1 ? emit_text(e, "%s_first", m.axis) : m.axis;
    for (int i = 0; i < m.v.nloads; i++)
        m.ahead[m.v.loads[i]] = s->unroll > 1 && is_plain(e, m.v.loads[i]);
    // (A thread's only axis is its number.)
    const char *number = b->npar == 1 && s->vector == 1 ? m.axis : "j", *block = block_number(e),
               *limit = emit_number(e, body_rows(b) / s->vector);
    if (b->npar == 1) limit = s->vector > 1 ? emit_text(e, "n / %d", s->vector) : "n";
    if (s->unroll > 1) block = emit_text(e, "(%s * %d + u)", block, s->unroll);
    m.steps = steps_at(e, "u", s->unroll, number,
                       emit_text(e, "%s * %d + threadIdx.x", block, s->threads), limit, 0);
    m.steps.number = "j";
    m.steps.stride = extent;
    m.steps.naxes = inner;
    m.steps.axes = ((1ull << inner) - 1) | (s->vector > 1 ? 0 : 1ull << inner);
    const char *at = b->npar == 1 ? "j" : emit_text(e, "nc_rem(j, %lld)", (long long)extent);
    if (number != m.axis)
        m.steps.inside =
            emit_text(e, "const %s %s = %s;", int_type(e), m.v.base, emit_scaled(e, at, s->vector));
    return m;
}

// The last elements, which do not fill a vector.
static void map_tail(Emit *e, const Map *m)
{
    const Vectors none = {.axis = m->v.axis, .width = 1};
    release_elements(e, &m->v);
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
    const bool early = find_early(e, &m);
    if (!early) emit_follow(e);
    if (s->unroll == 1) { // the only step
        emit(e, "%s", m.steps.place);
        m.steps.place = NULL;
    }
    open_vectors(e, &m);
    for (int i = 0; i < m.v.nloads; i++)
        if (m.early[m.v.loads[i]]) print_slot(e, &m.v, m.v.loads[i]);
    // (Loads of reductions, which are computed in loops of their own, stay in these.)
    if (s->vector == 1 && early) emit_prefetch(e, (1ull << b->npar) - 1);
    emit_follow(e);
    if (s->vector > 1)
        print_vector(e, &m);
    else
        print_element(e, &m);
    close_steps(e, &m.steps);
    if (b->npar == 1 && s->vector > 1) map_tail(e, &m);
}

// -- one vector at several outer positions --------------------------------------------------------

// The outer positions of a thread.
static Steps positions_of(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const int64_t positions = body_rows(b) / b->axis[b->npar - 1].extent;
    const char *number = b->npar == 2 ? e->axis[0] : "at"; // the only outer axis
    const char *block = emit_part(e, block_number(e), reuse_tiles(b), 0, s->unroll * s->team);
    if (s->unroll > 1) block = emit_text(e, "%s + %s", block, emit_scaled(e, "u", s->team));
    Steps p = steps_at(e, "u", s->unroll, number, emit_text(e, "%s + member", block),
                       emit_number(e, positions), 0);
    p.axes = (1ull << (b->npar - 1)) - 1;
    if (b->npar > 2) p.number = number;
    p.stride = 1;
    p.naxes = b->npar - 1;
    return p;
}

void reuse_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const int inner = b->npar - 1, across = s->threads / s->team;
    Map m = map_begin(e);
    m.v.base = emit_text(e, "%s_first", m.axis);
    emit(e, "const int member = threadIdx.x / %d;", across);
    const char *tile = emit_part(e, block_number(e), 1, reuse_tiles(b), across),
               *own = emit_plus(e, tile, emit_text(e, "threadIdx.x %% %d", across));
    if (s->vector > 1 && reuse_tiles(b) > 1) own = emit_text(e, "(%s)", own);
    emit_int(e, m.v.base, "%s", emit_scaled(e, own, s->vector));
    if (b->axis[inner].extent / s->vector % across)
        emit(e, "if (%s >= %lld) return;", m.v.base, extent_of(b, inner));
    m.steps = positions_of(e);
    for (int i = 0; i < m.v.nloads; i++) {
        const int load = m.v.loads[i];
        // those that are the same for all outer positions
        m.early[load] = is_plain(e, load) && !(b->insts.at[load].axes & m.steps.axes);
        m.ahead[load] = s->unroll > 1 && is_plain(e, load) && !m.early[load];
        if (m.early[load]) print_slot(e, &m.v, load);
    }
    open_vectors(e, &m);
    print_vector(e, &m);
    close_steps(e, &m.steps);
    release_elements(e, &m.v);
}
