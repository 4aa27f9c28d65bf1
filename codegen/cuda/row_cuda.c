// Rows as CUDA C: a team of threads processes a row, stage by stage. Values that several stages
// read are kept in registers, or in shared memory, which the first stage fills; otherwise they are
// read again.
//
// Loads that depend on positions only are issued [unroll] vectors before they are used. Sums of
// exponentials relative to a maximum of the same stage (Inst.under) are rescaled whenever it grows.
#include <string.h>

#include "codegen/cuda/print_cuda.h"

enum { EARLY_LOADS = 8 };

typedef struct Rows {
    Emit *e;
    Vectors v;            // width 1: single elements
    bool uneven;          // vectors are between columns "head" and "end"; the others are edges
    int64_t least;        // a lower bound of the columns between lo and hi; 0: unknown
    const uint64_t *uses; // by instruction: the stages that need it, as bits
    const bool *known;    // by instruction: it is loaded before the preceding kernel ends; or NULL
    const char *c, *base, *lo, *hi, *t; // lo, hi: the range of columns of this block's vectors
} Rows;

// -- loads ----------------------------------------------------------------------------------------

static bool over(const Rows *r, int load)
{
    return inst_over(&r->e->body->insts.at[load], r->e->body->col);
}

static bool used(const Rows *r, int load, int stage)
{
    return r->uses[load] >> stage % 64 & 1;
}

static bool kept(const Rows *r, int load)
{
    const Schedule *s = &r->e->body->sched;
    return r->e->body->insts.at[load].keep && (s->row.keep || s->shared_bytes);
}

static const char *row_name(Emit *e, int load)
{
    return emit_text(e, "%s_row", e->name[load]);
}

static bool is_single(const Emit *e, int load)
{
    return inst_over(&e->body->insts.at[load], e->body->col) && is_plain(e, load);
}

// -- rows that are not aligned --------------------------------------------------------------------

static void find_uneven(Rows *r)
{
    const Body *b = r->e->body;
    int width = b->sched.vector;
    bool *any = NEW_ARRAY(r->e->arena, bool, b->insts.n + 1);
    r->v = (Vectors){.axis = b->col, .width = width, .any = any, .moved = -1};
    for (uint32_t i = 0; i < b->insts.n && r->v.nloads < MAX_VECTORS; i++) {
        const Inst *x = &b->insts.at[i];
        int64_t stride;
        if (!r->e->live[i] || x->kind != KI_LOAD || !over(r, (int)i) || x->pred >= 0 ||
            inst_nested(b, x) || !ix_stride(x->ix, b->col, &stride) || stride != 1)
            continue;
        const int bytes = element_bytes(b, x->buf);
        const bool aligned = body_aligned(b, x->ix, width),
                   movable = !b->bufs.at[x->buf].in_place && (bytes == 2 || bytes == 4);
        if (width * bytes > 32 || (!aligned && !movable)) continue;
        any[i] = !aligned;
        r->v.loads[r->v.nloads++] = (int)i;
    }
    store_between(r->e, &r->v);
}

static void keep_edges(Rows *r)
{
    Emit *e = r->e;
    Scope *row = e->scope;
    open_edge(e);
    for (int i = 0; i < r->v.nloads; i++) {
        const int load = r->v.loads[i];
        if (!kept(r, load)) continue;
        const char *name = emit_text(e, "%s_edge", e->name[load]);
        emit_line(e, row, "%s %s = 0;", type_storage(load_dtype(e->body, load)), name);
        emit(e, "%s = %s;", name, emit_element(e, load));
    }
    close_edge(e, NULL);
}

// Loads of single values per row. Those whose index is known are issued before everything else;
// those whose index is itself loaded (a label's logit), before the last stage, so that no thread
// waits for them. They are converted later, because converting would wait for the load.
static void print_early(Rows *r, bool computed_place)
{
    Emit *e = r->e;
    const Body *b = e->body;
    int n = 0;
    for (uint32_t i = 0; i < b->insts.n && n < EARLY_LOADS; i++) {
        const Inst *x = &b->insts.at[i];
        if (!e->live[i] || x->kind != KI_LOAD || x->stage > 0 || x->pred >= 0 || x->axes != 1 ||
            x->ix->has_value != computed_place || (e->bind[i].scope && e->bind[i].scope->open))
            continue;
        DType t = b->bufs.at[x->buf].type;
        const bool converted = t != DT_BOOL && !strcmp(type_storage(t), type_math(t));
        const char *name = converted ? e->name[i] : emit_text(e, "%s_early", e->name[i]);
        emit(e, "const %s %s = %s[%s];", type_storage(t), name, e->buf_name[x->buf],
             emit_index(e, x->ix));
        if (converted)
            emit_bind(e, (int)i, e->scope, name);
        else
            e->element[i] = name;
        n++;
    }
}

// -- a stage --------------------------------------------------------------------------------------

// The maximum of the stage relative to which other reductions of it are (Inst.under); -1: none.
static int find_online(const Rows *r, int stage)
{
    const Inst *insts = r->e->body->insts.at;
    int n, max = -1;
    const int *red = stage_reductions(r->e, stage, &n);
    for (int i = 0; i < n; i++)
        if (insts[red[i]].under) max = insts[red[i]].under - 1;
    return max;
}

// For one vector: updates the maximum, then adds the exponentials relative to it, and stores what
// the stage stores.
static void print_online(Rows *r, int stage, int max)
{
    Emit *e = r->e;
    const Body *b = e->body;
    int n;
    const int *red = stage_reductions(e, stage, &n);
    const char *m = e->name[max];
    emit(e, "float %s_top = %s_acc;", m, m);
    open_lanes(e, &r->v, r->c);
    const char *x = emit_value(e, b->insts.at[max].a[0]);
    emit(e, "%s_top = nc_max(%s_top, %s);", m, m, x);
    close_lanes(e, &r->v);
    emit(e, "const float %s_now = %s_top == -NC_INF ? 0.0f : %s_top;", m, m, m);
    for (int i = 0; i < n; i++)
        if (red[i] != max) emit(e, "%s_acc *= nc_exp_16(%s_acc - %s_now);", e->name[red[i]], m, m);
    emit(e, "%s_acc = %s_top;", m, m);
    const char *now = emit_text(e, "%s_now", m);
    emit_bind(e, max, e->scope, now);
    for (uint32_t i = 0; i < b->insts.n; i++) { // casts of a 16-bit maximum to f32
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_CAST && v->a[0] == max && v->type == DT_F32)
            emit_bind(e, (int)i, e->scope, now);
    }
    open_lanes(e, &r->v, r->c);
    for (int i = 0; i < n; i++)
        if (red[i] != max)
            emit(e, "%s_acc += %s;", e->name[red[i]], emit_value(e, b->insts.at[red[i]].a[0]));
    lane_stores(e, &r->v, stage);
    close_lanes(e, &r->v);
}

// A comparison that is true for one column only (Inst.once) and known in the stage; -1: none.
static int find_pick(const Rows *r, int stage)
{
    const Body *b = r->e->body;
    for (uint32_t i = 0; i < b->insts.n && r->v.width > 1; i++) {
        const Inst *v = &b->insts.at[i];
        if (!v->once || !r->e->live[i] || !used(r, (int)i, stage)) continue;
        if (b->insts.at[v->a[0]].stage <= stage && b->insts.at[v->a[1]].stage <= stage)
            return (int)i;
    }
    return -1;
}

static void print_lanes(Rows *r, int stage)
{
    Emit *e = r->e;
    open_lanes(e, &r->v, r->c);
    accumulate(e, stage, r->c);
    lane_stores(e, &r->v, stage);
    close_lanes(e, &r->v);
}

// Only one vector of a row contains the picked column; for the others, the comparison is false for
// all elements.
static void print_picked(Rows *r, int stage, int pick)
{
    Emit *e = r->e;
    const Body *b = e->body;
    const Inst *v = &b->insts.at[pick];
    int index = v->once - 1;
    const char *at = emit_value(e, v->a[1 - index]);
    const char *first = emit_index_at(e, b->insts.at[v->a[index]].ix, b->col, r->base);
    emit_open(e, 0);
    print_lanes(r, stage);
    emit_end(e, "if (%s >= %s && %s < %s + %d) {", at, first, at, first, r->v.width);
    emit_open(e, 0);
    emit_bind(e, pick, e->scope, "false");
    print_lanes(r, stage);
    emit_end(e, "else {");
}

// Processes one vector of columns, after its loads.
static void print_vector(Rows *r, int stage)
{
    Emit *e = r->e;
    int online = find_online(r, stage), pick = online < 0 ? find_pick(r, stage) : -1;
    if (r->v.width > 1) open_stores(e, &r->v, stage);
    if (online >= 0)
        print_online(r, stage, online);
    else if (pick >= 0)
        print_picked(r, stage, pick);
    else
        print_lanes(r, stage);
    if (r->v.width > 1) flush_stores(e, &r->v, stage);
}

// A row in registers: [keep] tiles, of one vector per thread.
static Steps tiles_of(Rows *r)
{
    Emit *e = r->e;
    const Schedule *s = &e->body->sched;
    const char *at = emit_plus(e, r->lo, member_column(e));
    Steps t = steps_at(e, "tile", s->row.keep, r->base, at, r->hi,
                       r->least / ((int64_t)s->team * s->vector));
    t.placed = r->base;
    return t;
}

// Loads the kept values: those loaded before the preceding kernel ends ([early]), or all others.
static void fill_registers(Rows *r, bool early)
{
    Emit *e = r->e;
    const Steps tiles = tiles_of(r);
    bool *keep = NEW_ARRAY(e->arena, bool, e->body->insts.n + 1);
    for (int i = 0; i < r->v.nloads; i++) {
        const int load = r->v.loads[i];
        keep[load] = kept(r, load) && (r->known && r->known[load]) == early;
    }
    load_steps(e, &r->v, keep, &tiles);
}

static void stage_in_registers(Rows *r, int stage)
{
    Emit *e = r->e;
    const Steps tiles = tiles_of(r);
    open_steps(e, &tiles);
    for (int i = 0; i < r->v.nloads; i++) {
        int load = r->v.loads[i];
        if (!over(r, load) || !used(r, load, stage)) continue;
        if (!kept(r, load)) print_slot(e, &r->v, load);
        bind_element(e, &r->v, load, kept(r, load) ? steps_slot(e, &tiles) : "");
    }
    print_vector(r, stage);
    close_steps(e, &tiles);
}

// A stage that streams its row from memory or, in later stages, kept values from shared memory.
typedef struct Stream {
    int stage;
    bool fills;        // stores kept values into shared memory
    bool *ahead;       // by instruction: loads to issue ahead
    int unroll;        // vectors that a thread has in flight
    const char *chunk; // the name of the first column of these vectors
    const char *near;  // "if (column is in shared memory) ", or "" if all columns are
} Stream;

// Whether the stage has to load it: for itself, or for later stages that read it in shared memory.
static bool wants(const Rows *r, const Stream *s, int load)
{
    return used(r, load, s->stage) || (s->fills && kept(r, load));
}

static Stream stream_of(Rows *r, int stage, bool fills)
{
    Emit *e = r->e;
    const Body *b = e->body;
    Stream s = {.stage = stage, .fills = fills, .unroll = 1, .near = ""};
    s.ahead = NEW_ARRAY(e->arena, bool, b->insts.n + 1);
    for (int i = 0; i < r->v.nloads; i++) {
        int load = r->v.loads[i];
        // Values that all rows share are in a cache: issuing them ahead would only take registers.
        bool streams = over(r, load) && (b->insts.at[load].axes & ((1ull << b->npar) - 1)) != 0;
        s.ahead[load] =
            streams && wants(r, &s, load) && is_plain(e, load) && (fills || !kept(r, load));
        if (s.ahead[load]) s.unroll = b->sched.unroll;
    }
    if (b->sched.row.cols < row_columns(b))
        s.near = emit_text(e, "if (%s < %s + %lld) ", r->base, r->lo, (long long)b->sched.row.cols);
    s.chunk = s.unroll > 1 ? emit_text(e, "%s_chunk", r->c) : r->base;
    return s;
}

// The vectors that a thread loads at a time.
static Steps flight_of(Rows *r, const Stream *s)
{
    Emit *e = r->e;
    if (s->unroll == 1) return (Steps){.count = 1};
    const char *at = emit_text(e, "%s + u * %d", s->chunk, e->body->sched.team * r->v.width);
    return steps_at(e, "u", s->unroll, r->base, at, r->hi, 0);
}

// One load of the current vector: already issued, from shared memory, or from memory.
static void stream_load(Rows *r, const Stream *s, int load)
{
    Emit *e = r->e;
    const char *slot = slot_name(e, load);
    bool in_flight = s->unroll > 1 && s->ahead[load];
    if (!in_flight && kept(r, load) && !s->fills) {
        emit(e, "%s %s;", slot_type(e, &r->v, load), slot);
        emit(e, "%s%s = nc_load<%d>(%s + %s);", s->near, slot, r->v.width, row_name(e, load),
             r->base);
        if (*s->near) {
            emit_open(e, 0);
            print_vector_load(e, &r->v, load, slot);
            emit_end(e, "else {");
        }
    } else if (!in_flight) {
        print_slot(e, &r->v, load);
    }
    if (s->fills && kept(r, load))
        emit(e, "%snc_store<%d>(%s + %s, %s%s);", s->near, r->v.width, row_name(e, load), r->base,
             slot, in_flight ? "[u]" : "");
    bind_element(e, &r->v, load, in_flight ? "[u]" : "");
}

static void stage_in_stream(Rows *r, int stage, bool fills)
{
    Emit *e = r->e;
    const Body *b = e->body;
    const Stream s = stream_of(r, stage, fills);
    const int team = b->sched.team, width = r->v.width;
    const char *start = emit_plus(e, r->lo, emit_scaled(e, team == 1 ? "0" : "member", width));
    emit_open(e, 0);
    const Steps flight = flight_of(r, &s);
    if (s.unroll > 1) load_steps(e, &r->v, s.ahead, &flight);
    open_steps(e, &flight);
    bool ahead = false, writes = false;
    for (int i = 0; i < r->v.nloads; i++) {
        int load = r->v.loads[i];
        ahead |= s.ahead[load];
        if (over(r, load) && wants(r, &s, load)) stream_load(r, &s, load);
    }
    print_vector(r, stage);
    for (uint32_t i = 0; i < b->stores.n; i++)
        writes |= store_over(b, &b->stores.at[i], b->col) && b->stores.at[i].stage == stage;
    close_steps(e, &flight);
    if (s.unroll == 1 && (!writes || !ahead))
        emit_line(e, e->scope->up, "#pragma unroll %d", writes ? 2 : 4);
    emit_loop(e, r->t, s.chunk, start, r->hi, team * width * s.unroll);
}

// The stage's first unaligned load whose vectors are all misaligned by the same amount; -1: none.
// The stage is then compiled for each of the four possible amounts.
static int first_moved(const Rows *r, int stage)
{
    const Body *b = r->e->body;
    for (int i = 0; i < r->v.nloads && b->sched.row.margin; i++) {
        const int load = r->v.loads[i], bytes = element_bytes(b, b->insts.at[load].buf);
        if (r->v.any && r->v.any[load] && r->v.width * bytes % 16 == 0 && used(r, load, stage))
            return load;
    }
    return -1;
}

// A stage, for all vectors of the row.
static void print_vectors(Rows *r, int stage, bool fills)
{
    Emit *e = r->e;
    const char *ways = NULL;
    r->v.moved = first_moved(r, stage);
    if (r->v.moved >= 0) {
        const Inst *x = &e->body->insts.at[r->v.moved];
        ways = emit_text(
            e, "if (words == nc_words(%s)) {",
            emit_address(e, e->buf_name[x->buf], emit_index_at(e, x->ix, e->body->col, r->lo)));
        emit_open(e, 0);
        emit_open(e, 0);
    }
    if (e->body->sched.row.keep)
        stage_in_registers(r, stage);
    else
        stage_in_stream(r, stage, fills);
    if (!ways) return;
    emit_end(e, "%s", ways);
    emit_times(e, "words", 4);
}

static void print_stage(Rows *r, int stage, bool fills)
{
    Emit *e = r->e;
    int n;
    const int *red = stage_reductions(e, stage, &n);
    declare_accumulators(e, stage);
    print_vectors(r, stage, fills);
    if (r->uneven) {
        Rows edge = *r;
        edge.v.width = 1;
        edge.base = edge.v.base = r->c;
        memset(edge.v.store, 0, sizeof edge.v.store);
        open_edge(r->e);
        for (int i = 0; i < r->v.nloads; i++)
            e->element[r->v.loads[i]] =
                kept(r, r->v.loads[i]) ? emit_text(e, "%s_edge", e->name[r->v.loads[i]]) : NULL;
        print_vector(&edge, stage);
        close_edge(r->e, NULL);
    }
    for (int i = 0; i < n; i++) {
        int under = e->body->insts.at[red[i]].under;
        const char *max = under ? e->name[under - 1] : "";
        if (under) emit(e, "%s_acc *= nc_exp_16(%s_acc - %s);", e->name[red[i]], max, max);
        print_joined(e, red[i]);
    }
}

// -- the body -------------------------------------------------------------------------------------

static void declare_rows(Rows *r)
{
    Emit *e = r->e;
    const Body *b = e->body;
    int64_t offset = 0;
    for (int i = 0; i < r->v.nloads; i++) {
        int load = r->v.loads[i];
        if (!kept(r, load)) continue;
        const char *t = type_storage(load_dtype(b, load));
        emit(e, "%s *const %s = %s%s;", t, row_name(e, load), in_shared(e, t, offset),
             strcmp(r->lo, "0") ? emit_text(e, " - %s", r->lo) : "");
        offset += ceil_div(b->sched.row.cols * element_bytes(b, b->insts.at[load].buf), 16) * 16;
    }
}

// Stores the results for this block's part of the columns, for the second kernel.
static void print_parts(Rows *r, const char *leader)
{
    Emit *e = r->e;
    int n;
    const int *red = stage_reductions(e, 0, &n);
    emit_open(e, 0);
    for (int i = 0, k = 0; i < n; i++) store_parts(e, red[i], &k, part_of_row(e));
    emit_end(e, "if (%s) {", leader);
}

// The columns of this block, if several blocks share a row.
static void print_part(Rows *r, long long blocks, bool partial)
{
    Emit *e = r->e;
    const Body *b = e->body;
    long long cols = extent_of(b, b->col);
    long long part = partial ? ceil_div(ceil_div(cols, blocks), 16) * 16 : row_columns(b);
    emit(e, "const %s part = block %% %lld;", r->t, blocks);
    declare_part(e, part);
    r->lo = "lo";
    r->hi = "hi";
    r->least = cols == part * blocks ? part : 0;
}

static void find_loads(Rows *r)
{
    Emit *e = r->e;
    const Schedule *s = &e->body->sched;
    if (r->uneven) {
        find_uneven(r);
        r->v.base = r->base;
        declare_edges(e, r->lo, r->hi);
        r->least = r->least ? least_between(e->body, r->least) : 0;
        r->lo = "head";
        r->hi = "end";
        return;
    }
    r->v = find_vectors(e, e->body->col, s->vector);
    r->v.width = s->vector;
    r->v.base = r->base;
    // Weights, which are used once, leave the L1 cache to the vector, which all rows use.
    r->v.streams = row_meets_vector(e->body) && (e->body->nstages == 1 || s->row.keep);
    if (s->vector == 1) add_loads(e, &r->v, is_single);
}

void row_cuda(Emit *e, KernelPhase phase)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    bool partial = phase == PHASE_PARTIAL && s->split > 1;
    long long shared = partial ? s->split : s->cluster; // blocks that share a row
    Rows r = {.e = e, .c = e->axis[b->col], .t = int_type(e), .lo = "0"};
    r.base = s->vector > 1 ? emit_text(e, "%s_first", r.c) : r.c;
    r.hi = emit_number(e, extent_of(b, b->col));
    r.uses = body_stage_uses(e->arena, b);
    r.least = b->axis[b->col].extent;
    r.uneven = b->uneven && s->vector > 1;
    const char *leader = print_row_number(e, emit_part(e, block_number(e), shared, 0, 1));
    if (shared > 1) print_part(&r, shared, partial);
    if (s->cluster > 1) {
        emit(e, "nc_cluster_begin();");
        leader = "part == 0 && member == 0";
    }
    open_row(e);
    find_loads(&r);
    if (s->shared_bytes) declare_rows(&r);
    emit_prefetch(e, 1);
    if (s->row.keep && e->follow && !r.uneven) {
        r.known = known_early(e->kernel, b);
        fill_registers(&r, true);
    }
    emit_follow(e);
    print_early(&r, false);
    if (r.uneven && (s->row.keep || s->shared_bytes)) keep_edges(&r);
    if (s->row.keep) fill_registers(&r, false);
    for (int i = 0; i < b->nstages; i++) {
        if (i > 0 && i + 1 == b->nstages) print_early(&r, true);
        print_stage(&r, i, i == 0 && s->shared_bytes > 0);
    }
    if (partial)
        print_parts(&r, leader);
    else
        print_row_stores(e, leader);
    emit_close(e, NULL, NULL);
}
