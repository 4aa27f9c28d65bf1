// Rows and sums over rows in one pass, as CUDA C: teams of threads walk over rows in a fixed
// pattern. A thread has the same columns in every row; it holds their sums in registers, and copies
// its share of the next rows to shared memory while it computes this one. Nobody else reads that
// share, so no barrier guards it. Each block stores one part of every sum; the kernel behind it
// joins the parts in order.
//
// Where rows start anywhere, a vector still has to be aligned. The rows of one team all start
// equally far from such a place (sweep_plan.c), so its threads have the same columns in all of
// them: whole vectors between "head" and "end", and an element of the edges each.
#include <string.h>

#include "codegen/cuda/print_cuda.h"

enum { MOST_TOGETHER = 4 };

typedef struct Sweep {
    Emit *e;                     // of the row that is printed
    Emit *of_row[MOST_TOGETHER]; // the rows of a turn: each has values of its own
    int row;                     // its number in the turn
    const Body *b;
    Vectors v;
    const char *t;           // of index arithmetic
    const char *col, *first; // a column, and the first one of a vector
    long long rows, cols;
    long long step;       // rows from one of a team's to its next one
    int teams;            // of a block
    bool uneven;          // rows that start anywhere
    bool even;            // every team has a row each time around
    int rare;             // Body.rare, where few rows go through it; 0: all do
    bool skewed;          // of_row[1] is the next row, whose first stage is printed a turn early
    bool in_row;          // printed now: the loop over rows
    bool edges;           // printed now: the edges
    const uint64_t *uses; // by instruction: the stages that need it
    int site, sites;      // joins across a team: those printed, how many there are in a row
} Sweep;

static bool over_rows(const Sweep *w, int load)
{
    return w->b->insts.at[load].axes >> 0 & 1;
}

// Held: copied ahead, or once where all rows share it.
static bool is_held(const Sweep *w, int load)
{
    return sweep_held(w->b, &w->b->insts.at[load]);
}

static bool in_registers(const Sweep *w, int load)
{
    return !over_rows(w, load) && w->b->sched.row.keep_in == KEEP_REGISTERS;
}

static DType loaded_type(const Sweep *w, int load)
{
    return w->b->bufs.at[w->b->insts.at[load].buf].type;
}

static const char *loaded_place(Sweep *w, int load)
{
    const Inst *x = &w->b->insts.at[load];
    return emit_text(w->e, "%s + (%s)", w->e->buf_name[x->buf], emit_index(w->e, x->ix));
}

static const char *in_tile(const Sweep *w)
{
    return w->b->sched.row.keep > 1 ? "[tile]" : "[0]";
}

// -- rows of a turn -------------------------------------------------------------------------------

static void take_row(Sweep *w, int r)
{
    Scope *s = w->e->scope;
    w->row = r;
    w->e = w->of_row[r];
    w->e->scope = s;
}

static void *copied(Arena *a, const void *from, size_t bytes)
{
    return memcpy(arena_alloc(a, bytes), from, bytes);
}

// Row r of a turn, with names that end in what no other name ends in.
static Emit *another_row(const Emit *e, int r)
{
    Emit *o = copied(e->arena, e, sizeof *e);
    size_t n = e->body->insts.n + 1;
    o->bind = copied(e->arena, e->bind, n * sizeof *e->bind);
    o->name = NEW_ARRAY(e->arena, const char *, n);
    o->element = NEW_ARRAY(e->arena, const char *, n);
    o->inverse = NEW_ARRAY(e->arena, const char *, n);
    o->inverse_in = NEW_ARRAY(e->arena, Scope *, n);
    o->axis = copied(e->arena, e->axis, BODY_MAX_AXES * sizeof *e->axis);
    const char *end = emit_text(o, "_r%d", r);
    for (size_t i = 0; i + 1 < n; i++) {
        size_t have = e->name[i] ? strlen(e->name[i]) : 0, tail = strlen(end);
        if (have < tail || strcmp(e->name[i] + have - tail, end) != 0) continue;
        end = emit_text(o, "_%s", end);
        i = (size_t)-1; // again from the first
    }
    for (size_t i = 0; i + 1 < n; i++)
        if (e->name[i]) o->name[i] = emit_text(o, "%s%s", e->name[i], end);
    o->axis[0] = emit_text(o, "%s%s", e->axis[0], end);
    return o;
}

// Whether the row that is printed is there; NULL: always.
static const char *row_guard(const Sweep *w)
{
    if (!w->in_row) return NULL;
    return w->row ? emit_text(w->e, "more_%d", w->row) : w->even ? NULL : "mine";
}

// A thread's tiles: one vector of columns each.
static Steps tiles_of(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    const char *row = row_guard(w);
    Steps t = {.index = "tile", .count = s->row.keep};
    const char *at = t.count > 1 ? emit_text(e, "(tile * %d + member)", s->team) : "member";
    t.place = emit_text(e, "const %s %s = %s%s%s;", w->t, w->first, w->uneven ? "head + " : "", at,
                        s->vector > 1 ? emit_text(e, " * %d", s->vector) : "");
    int64_t least = w->uneven ? least_between(w->b, w->cols) : w->cols;
    t.guard = steps_guard(e, &t, w->first, w->uneven ? "end" : emit_text(e, "%lld", w->cols),
                          least / ((int64_t)s->team * s->vector));
    if (row) t.guard = t.guard ? emit_text(e, "%s && (%s)", row, t.guard) : row;
    return t;
}

static void open_tiles(Sweep *w)
{
    const Steps t = tiles_of(w);
    open_steps(w->e, &t);
    w->e->axis[w->b->col] = w->first;
}

static void close_tiles(Sweep *w)
{
    const Steps t = tiles_of(w);
    w->e->axis[w->b->col] = w->col;
    close_steps(w->e, &t);
}

// A thread's element of the edges.
static void open_edges(Sweep *w)
{
    open_edge(w->e);
    w->edges = true;
}

static void close_edges(Sweep *w)
{
    close_edge(w->e, row_guard(w));
    w->edges = false;
}

// -- what a thread holds --------------------------------------------------------------------------

static const char *hold_name(Sweep *w, int load)
{
    return emit_text(w->e, "%s_%s", w->of_row[0]->name[load], over_rows(w, load) ? "rows" : "held");
}

// Elements of one row in a thread's share of shared memory, from one vector of it to the next.
static int vector_step(const Sweep *w)
{
    return w->b->sched.threads * w->b->sched.vector;
}

// What all rows share: in registers, or the element of the edges.
static const char *shared_slot(Sweep *w, int load, bool edge)
{
    return edge ? emit_text(w->e, "%s_edge", w->of_row[0]->name[load])
                : emit_text(w->e, "%s%s", slot_name(w->of_row[0], load), in_tile(w));
}

static const char *hold_place(Sweep *w, int load, const char *slot)
{
    const Schedule *s = &w->b->sched;
    const char *tile = s->row.keep > 1 ? emit_text(w->e, " + tile * %d", vector_step(w)) : "";
    const char *row =
        over_rows(w, load) ? emit_text(w->e, " + %s * %d", slot, s->row.keep * vector_step(w)) : "";
    return emit_text(w->e, "%s%s%s", hold_name(w, load), row, tile);
}

static void declare_held(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    int64_t offset = 0;
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        const char *t = type_storage(loaded_type(w, at));
        if (!is_held(w, at)) continue;
        if (in_registers(w, at)) {
            emit(e, "%s %s[%d];", vec_type(e, loaded_type(w, at), w->v.width), slot_name(e, at),
                 s->row.keep);
        } else {
            emit(e, "%s *const %s = (%s *)((char *)nc_shared + %lld) + threadIdx.x * %d;", t,
                 hold_name(w, at), t, (long long)offset, w->v.width);
            offset += sweep_held_bytes(w->b, &w->b->insts.at[at]);
        }
        for (int r = 0; w->uneven && r < (over_rows(w, at) ? s->sweep.together : 1); r++)
            emit(e, "%s %s_edge%s = 0;", t, w->of_row[r]->name[at],
                 over_rows(w, at) ? "_next" : "");
    }
}

// What all rows share, once.
static void fetch_shared(Sweep *w)
{
    Emit *e = w->e;
    Vectors shared = w->v;
    bool *any = NEW_ARRAY(e->arena, bool, w->b->insts.n + 1);
    for (int i = 0; i < w->v.nloads; i++) any[w->v.loads[i]] = w->uneven;
    shared.any = any;
    open_tiles(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (!is_held(w, at) || over_rows(w, at)) continue;
        const char *slot = in_registers(w, at) ? emit_text(e, "%s%s", slot_name(e, at), in_tile(w))
                                               : slot_name(e, at);
        if (!in_registers(w, at))
            emit(e, "%s %s;", vec_type(e, loaded_type(w, at), w->v.width), slot);
        print_vector_load(e, &shared, at, slot, false);
        if (!in_registers(w, at))
            emit(e, "nc_store<%d>(%s, %s);", w->v.width, hold_place(w, at, ""), slot);
    }
    close_tiles(w);
    if (!w->uneven) return;
    open_edges(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (is_held(w, at) && !over_rows(w, at))
            emit(e, "%s_edge = *(%s);", e->name[at], loaded_place(w, at));
    }
    close_edges(w);
}

// Copies of the row "next", if there is one, into a slot.
static void print_copies(Sweep *w, const char *slot)
{
    Emit *e = w->e;
    const char *row = e->axis[0];
    emit_open(e, 0);
    e->axis[0] = "next";
    open_tiles(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (is_held(w, at) && over_rows(w, at))
            emit(e, "nc_copy<%d>(%s, %s);", w->v.width, hold_place(w, at, slot),
                 loaded_place(w, at));
    }
    close_tiles(w);
    e->axis[0] = row;
    emit_end(e, "if (next < %lld) {", w->rows);
}

// Copies of a turn's rows, the first of which is [begin], into their slots.
static void print_turn(Sweep *w, const char *begin, const char *slot)
{
    Emit *e = w->e;
    int together = w->b->sched.sweep.together;
    emit_open(e, 0);
    emit(e, "const %s next = %s%s;", w->t, begin,
         together > 1 ? emit_text(e, " + r * %lld", w->step) : "");
    print_copies(w, together > 1 ? emit_text(e, "(%s * %d + r)", slot, together) : slot);
    emit_end(e, "%s",
             together > 1 ? emit_text(e, "for (int r = 0; r < %d; r++) {", together) : "{");
    emit(e, "nc_copies_end();");
}

// Elements of the edges are no copies: registers hold those of the next turn, whose first row is
// [next].
static void fetch_edges(Sweep *w, const char *next)
{
    Emit *e = w->e;
    const char *row = e->axis[0];
    if (w->row) next = emit_text(e, "(%s + %lld)", next, w->step * w->row);
    emit_open(e, 0);
    open_edges(w);
    e->axis[0] = next;
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (is_held(w, at) && over_rows(w, at))
            emit(e, "%s_edge_next = *(%s);", e->name[at], loaded_place(w, at));
    }
    e->axis[0] = row;
    close_edges(w);
    emit_end(e, "if (%s < %lld) {", next, w->rows);
}

static const char *fold_type(const Sweep *w, const BodyStore *s)
{
    return type_math(w->b->bufs.at[s->buf].type);
}

static void declare_folds(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    for (uint32_t i = 0; i < w->b->stores.n; i++) {
        const BodyStore *x = &w->b->stores.at[i];
        if (!x->fold) continue;
        const char *zero = emit_identity(e, x->fold->op, w->b->bufs.at[x->buf].type);
        emit(e, "NcVec<%s, %d> part%u[%d]; // %s over the rows of this block", fold_type(w, x),
             s->vector, i, s->row.keep, op_info(x->fold->op)->name);
        emit(e, "nc_fill<%d>(part%u, %s);", s->row.keep, i, zero);
        if (w->uneven) emit(e, "%s part%u_edge = %s;", fold_type(w, x), i, zero);
    }
}

// -- joins across a team --------------------------------------------------------------------------

static bool joins_several(const Sweep *w, const Inst *x)
{
    return w->b->sched.team > 1 && !inst_acc(x)->place;
}

static bool one_join(const Inst *a, const Inst *b)
{
    return a->op == b->op && acc_type(a) == acc_type(b);
}

typedef struct Sum {
    int row, r; // of the turn; the reduction
} Sum;

// What joins at once: the reductions of a stage, of all rows of a turn; or, skewed, those of the
// first two stages, each of a row of its own.
static Sum *sums_at_once(const Sweep *w, int stage, int *n)
{
    int count, later = 0, together = w->b->sched.sweep.together;
    const int *r = stage_reductions(w->e, stage, &count), *next = NULL;
    if (w->skewed && w->in_row && stage == 1) next = stage_reductions(w->e, 0, &later);
    Sum *sums = NEW_ARRAY(w->e->arena, Sum, count * together + later + 1);
    *n = 0;
    for (int i = 0; i < count; i++)
        for (int q = 0; q < together; q++) sums[(*n)++] = (Sum){q, r[i]};
    for (int i = 0; i < later; i++) sums[(*n)++] = (Sum){1, next[i]};
    return sums;
}

// How many joins a row takes: reductions of one kind share one.
static int count_sites(const Sweep *w)
{
    int sites = 0;
    for (int stage = w->skewed; stage < w->b->nstages; stage++) {
        int n;
        const Sum *sums = sums_at_once(w, stage, &n);
        for (int i = 0; i < n && (!w->rare || stage != w->rare); i++) {
            const Inst *x = &w->b->insts.at[sums[i].r];
            bool first = joins_several(w, x);
            for (int k = 0; k < i && first; k++) first = !one_join(x, &w->b->insts.at[sums[k].r]);
            sites += first;
        }
    }
    return sites;
}

static bool is_rare(const Sweep *w, int r)
{
    return w->rare && w->b->insts.at[r].stage == w->rare + 1;
}

// Sums of the next row outlive this one, and those of a rare stage the stage.
static void bind_joined(Sweep *w, Scope *row, Sum s, const char *value)
{
    Emit *e = w->of_row[s.row];
    const char *type = emit_text(e, "const %s ", type_math(w->b->insts.at[s.r].type));
    bool declared = (w->skewed && s.row) || is_rare(w, s.r);
    emit_line(e, row, "%s%s = %s;", declared ? "" : type, e->name[s.r], value);
    emit_bind(e, s.r, row, e->name[s.r]);
}

// In as few joins as there are kinds of sums.
static void print_joins(Sweep *w, Scope *row, const Sum *sums, int n)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    for (int i = 0; i < n; i++) {
        const Inst *x = &w->b->insts.at[sums[i].r];
        if (w->of_row[sums[i].row]->bind[sums[i].r].scope == row) continue;
        if (!joins_several(w, x)) {
            const char *acc = emit_text(e, "%s_acc", w->of_row[sums[i].row]->name[sums[i].r]);
            const char *all = s->team == 1 ? acc
                                           : emit_text(e, "nc_team<%s, %d>(%s)",
                                                       inst_acc(x)->functor, s->team, acc);
            bind_joined(w, row, sums[i], acc_joined(e, x, acc, all));
            continue;
        }
        Buf list = buf_new(e->arena);
        int count = 0;
        for (int k = i; k < n; k++)
            if (one_join(x, &w->b->insts.at[sums[k].r]))
                buf_printf(&list, "%s%s_acc", count++ ? ", " : "",
                           w->of_row[sums[k].row]->name[sums[k].r]);
        const char *name = emit_text(e, "%s_all", e->name[sums[i].r]);
        emit_line(e, row, "%s %s[%d] = {%s};", type_math(acc_type(x)), name, count, list.data);
        int slots = w->sites > 1 || is_rare(w, sums[i].r) ? 1 : s->sweep.ahead;
        emit_line(e, row, "nc_teams<%s, %d, %d, %d>(%s%s);", inst_acc(x)->functor, s->team,
                  w->site++, slots, name, slots > 1 && w->in_row ? ", slot" : "");
        count = 0;
        for (int k = i; k < n; k++)
            if (one_join(x, &w->b->insts.at[sums[k].r]))
                bind_joined(w, row, sums[k], emit_text(e, "%s[%d]", name, count++));
    }
}

// -- a stage --------------------------------------------------------------------------------------

// Where the elements of held loads are, in the lane scope or at an edge.
static void bind_elements(Sweep *w, int stage)
{
    Emit *e = w->e;
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (w->b->insts.at[at].stage > stage || !inst_over(&w->b->insts.at[at], w->b->col))
            continue;
        bool held = is_held(w, at);
        if (w->edges)
            e->element[at] = !held              ? NULL
                             : over_rows(w, at) ? emit_text(e, "%s_edge", e->name[at])
                                                : shared_slot(w, at, true);
        else
            e->element[at] = emit_text(e, "%s.at[lane]",
                                       held && in_registers(w, at) ? shared_slot(w, at, false)
                                                                   : slot_name(e, at));
    }
}

static void print_folds(Sweep *w, int stage)
{
    Emit *e = w->e;
    for (uint32_t i = 0; i < w->b->stores.n; i++) {
        const BodyStore *s = &w->b->stores.at[i];
        if (!s->fold || s->stage != stage) continue;
        DType t = w->b->bufs.at[s->buf].type;
        const char *part = w->edges ? emit_text(e, "part%u_edge", i)
                                    : emit_text(e, "part%u%s.at[lane]", i, in_tile(w));
        const char *sum = emit_taken(e, s->fold->op, t, part, s->value);
        emit(e, "%s = %s;", part, sum);
    }
}

// What the stage does with one column.
static void print_column(Sweep *w, const Vectors *v, int stage)
{
    int n;
    const int *r = stage_reductions(w->e, stage, &n);
    bind_elements(w, stage);
    for (int i = 0; i < n; i++) accumulate(w->e, r[i], w->col);
    print_folds(w, stage);
    lane_stores(w->e, v, stage);
}

// The stage of one row, but for its joins.
static void print_row_stage(Sweep *w, int stage)
{
    Emit *e = w->e;
    Scope *row = e->scope;
    int n, together = w->b->sched.sweep.together;
    const char *slot = together > 1 ? emit_text(e, "(slot * %d + %d)", together, w->row) : "slot";
    if (w->skewed && w->row) slot = w->in_row ? "after" : "0";
    const int *r = stage_reductions(e, stage, &n);
    for (int i = 0; i < n; i++) declare_accumulator(e, row, r[i]);
    open_tiles(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (!inst_over(&w->b->insts.at[at], w->b->col) || w->b->insts.at[at].stage > stage)
            continue;
        if (!is_held(w, at))
            print_vector_load(e, &w->v, at, slot_name(e, at), true);
        else if (!in_registers(w, at) && w->uses[at] >> stage % 64 & 1)
            emit(e, "const %s %s = nc_load<%d>(%s);", vec_type(e, loaded_type(w, at), w->v.width),
                 slot_name(e, at), w->v.width, hold_place(w, at, slot));
    }
    open_stores(e, &w->v, stage);
    emit_open(e, 1ull << w->b->col);
    e->axis[w->b->col] = w->col;
    emit_int(e, w->col, "%s + lane", w->first);
    print_column(w, &w->v, stage);
    emit_times(e, "lane", w->b->sched.vector);
    e->axis[w->b->col] = w->first;
    flush_stores(e, &w->v, stage);
    close_tiles(w);
    if (w->uneven) {
        Vectors single = w->v;
        memset(single.store, 0, sizeof single.store);
        open_edges(w);
        print_column(w, &single, stage);
        close_edges(w);
    }
}

static void print_stage(Sweep *w, int stage)
{
    int n;
    const Sum *sums = sums_at_once(w, stage, &n);
    for (int i = 0; i < w->b->sched.sweep.together; i++) {
        take_row(w, i);
        print_row_stage(w, stage);
    }
    if (w->skewed && stage == 1) {
        take_row(w, 1);
        print_row_stage(w, 0);
    }
    take_row(w, 0);
    print_joins(w, w->e->scope, sums, n);
}

// A stage that is left out where none of the turn's rows needs its sums, which all threads of a
// team know alike. (A join of its own between two others: they keep its memory apart.)
static void print_rare(Sweep *w)
{
    int n;
    const Sum *sums = sums_at_once(w, w->rare, &n);
    Scope *row = w->e->scope;
    Buf unless = buf_new(w->e->arena);
    for (int i = 0; i < n; i++) {
        const Inst *x = &w->b->insts.at[sums[i].r];
        take_row(w, sums[i].row);
        buf_printf(&unless, "%s%s", i ? " && " : "", emit_value(w->e, x->unless - 1));
        emit_line(w->e, row, "%s %s = 0;", type_math(x->type), w->e->name[sums[i].r]);
    }
    take_row(w, 0);
    emit_open(w->e, 0);
    print_stage(w, w->rare);
    emit_end(w->e, "if (!(%s)) {", unless.data);
    for (int i = 0; i < n; i++) {
        Emit *e = w->of_row[sums[i].row];
        emit_bind(e, sums[i].r, row, e->name[sums[i].r]);
    }
}

// Skewed: the first stage of the first row, whose sums the loop hands on from row to row.
static void print_ahead(Sweep *w)
{
    Emit *e = w->of_row[1];
    int n;
    Sum *sums = sums_at_once(w, 0, &n);
    for (int i = 0; i < n; i++) {
        sums[i].row = 1;
        emit_line(e, w->e->scope, "%s %s;", type_math(w->b->insts.at[sums[i].r].type),
                  e->name[sums[i].r]);
    }
    emit_line(e, w->e->scope, "nc_copied<%d>();", w->b->sched.sweep.ahead - 2);
    take_row(w, 1);
    emit_open(e, 1);
    emit_int(e, e->axis[0], "begin");
    print_row_stage(w, 0);
    print_joins(w, e->scope, sums, n);
    emit_end(e, "{");
    take_row(w, 0);
}

// -- the parts ------------------------------------------------------------------------------------

// One part a block: from registers to scratch. Several teams join through shared memory first, and
// vectors that scratch is not aligned for go through it, to be stored element next to element. (On
// an H200 layer norm backward of bf16[8000, 12289] takes 155 us, and 178 where each lane stores
// eight elements one by one, in 32 sectors a warp.)
static void print_parts(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    Scope *outer = e->scope;
    for (uint32_t i = 0; i < w->b->stores.n; i++) {
        const BodyStore *x = &w->b->stores.at[i];
        if (!x->fold) continue;
        const char *t = fold_type(w, x), *to = e->buf_name[x->buf];
        int bytes = math_bytes(w->b->bufs.at[x->buf].type);
        bool joined = w->teams > 1 || (w->uneven && s->shared_bytes >= w->cols * bytes);
        const char *share = emit_text(e, "%s + (%s)block * %lld", to, w->t, w->cols);
        if (joined) {
            const char *team = emit_text(e, " + team * %lld", w->cols);
            emit_line(e, outer, "__syncthreads();");
            share = emit_text(e, "(%s *)nc_shared%s", t, w->teams > 1 ? team : "");
        }
        open_tiles(w);
        if (!w->uneven && s->vector * bytes <= 32) {
            emit(e, "nc_store<%d>(%s + %s, part%u%s);", s->vector, share, w->first, i, in_tile(w));
        } else {
            emit(e, "#pragma unroll");
            emit(e, "for (int lane = 0; lane < %d; lane++)", s->vector);
            emit(e, "    (%s)[%s + lane] = part%u%s.at[lane];", share, w->first, i, in_tile(w));
        }
        close_tiles(w);
        if (w->uneven)
            emit_line(e, outer, "if (member < edges) (%s)[edge] = part%u_edge;", share, i);
        if (!joined) continue;
        emit_line(e, outer, "__syncthreads();");
        emit_open(e, 0);
        emit(e, "%s all = ((%s *)nc_shared)[c];", t, t);
        if (w->teams > 1) {
            const char *next = emit_text(e, "((%s *)nc_shared)[k * %lld + c]", t, w->cols);
            emit(e, "for (int k = 1; k < %d; k++)", w->teams);
            emit(e, "    all = %s;",
                 emit_combine(e, x->fold->op, w->b->bufs.at[x->buf].type, "all", next));
        }
        emit(e, "%s[(%s)block * %lld + c] = all;", to, w->t, w->cols);
        emit_end(e, "for (int c = threadIdx.x; c < %lld; c += %d) {", w->cols, s->threads);
    }
}

// What is moved by vectors: held loads, other loads where rows are aligned, and stores.
static void find_moves(Sweep *w)
{
    const Body *b = w->b;
    const Schedule *s = &b->sched;
    if (w->uneven || s->vector == 1) {
        w->v = (Vectors){.axis = b->col, .width = s->vector};
        for (uint32_t i = 0; i < b->insts.n && w->v.nloads < MAX_VECTORS; i++)
            if (w->e->live[i] && sweep_held(b, &b->insts.at[i])) w->v.loads[w->v.nloads++] = (int)i;
    } else {
        w->v = find_vectors(w->e, b->col, s->vector);
    }
    if (w->uneven) store_between(w->e, &w->v);
}

// The first stage of this row is done.
static void take_ahead(Sweep *w)
{
    int n;
    const int *r = stage_reductions(w->e, 0, &n);
    for (int i = 0; i < n; i++)
        bind_joined(w, w->e->scope, (Sum){0, r[i]}, w->of_row[1]->name[r[i]]);
}

// The rows of this turn, and what registers hold of their edges; the edges of the next turn.
static void declare_turn(Sweep *w, const char *now)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    for (int r = 1; r < s->sweep.together + w->skewed; r++) {
        const char *place = emit_text(e, "%s + %lld", now, w->step * r);
        emit(e, "const bool more_%d = %s < %lld;", r, place, w->rows);
        emit_int(e, w->of_row[r]->axis[0], "more_%d ? %s : %s", r, place, now);
    }
    for (int r = 0; w->uneven && r < s->sweep.together; r++) {
        take_row(w, r);
        for (int i = 0; i < w->v.nloads; i++) {
            int at = w->v.loads[i];
            if (over_rows(w, at))
                emit(w->e, "const %s %s_edge = %s_edge_next;", type_storage(loaded_type(w, at)),
                     w->e->name[at], w->e->name[at]);
        }
        fetch_edges(w, emit_text(e, "(%s + %lld)", now, w->step * s->sweep.together));
    }
    take_row(w, 0);
}

static Sweep sweep_of(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Sweep w = {.e = e, .b = b, .rows = body_rows(b), .cols = b->axis[b->col].extent};
    w.of_row[0] = e;
    w.skewed = s->skew;
    w.rare = s->team >= 32 ? b->rare : 0;
    for (int r = 1; r < s->sweep.together + w.skewed; r++) w.of_row[r] = another_row(e, r);
    w.t = int_type(e);
    w.col = e->axis[b->col];
    w.first = emit_text(e, "%s_first", w.col);
    w.teams = s->threads / s->team;
    w.step = (long long)s->blocks * w.teams;
    w.uneven = b->uneven && s->vector > 1;
    w.uses = body_stage_uses(e->arena, b);
    bool full = w.rows % w.teams == 0;
    w.even = full || s->team >= 32; // the threads of a warp leave together
    w.in_row = true;
    w.sites = count_sites(&w);
    w.in_row = false;
    find_moves(&w);
    return w;
}

// Which rows this block's teams begin with, and where their edges are.
static void declare_place(Sweep *w)
{
    Emit *e = w->e;
    const int team = w->b->sched.team;
    const char *row = e->axis[0];
    if (w->teams > 1) {
        emit(e, "const int member = threadIdx.x %% %d;", team);
        emit(e, "const int team = threadIdx.x / %d;", team);
        emit(e, "const %s begin = (%s)block * %d + team;", w->t, w->t, w->teams);
    } else {
        emit(e, "const int member = threadIdx.x;");
        emit(e, "const %s begin = (%s)block;", w->t, w->t);
    }
    if (!w->uneven) return;
    e->axis[0] = "begin"; // (the edges are the same in every row of the team)
    declare_edges(e, "0", emit_text(e, "%lld", w->cols));
    e->axis[0] = row;
}

// What is there before the first turn: copies of the turns before the last, edges, what all rows
// share, no sums yet.
static void print_begin(Sweep *w, long long turn)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    declare_held(w);
    if (s->sweep.ahead) {
        emit_open(e, 0);
        print_turn(w, emit_text(e, "begin + slot * %lld", turn), "slot");
        emit_end(e, "for (int slot = 0; slot < %d; slot++) {", s->sweep.ahead - 1);
    }
    for (int r = 0; w->uneven && r < s->sweep.together; r++) {
        take_row(w, r);
        fetch_edges(w, "begin");
    }
    take_row(w, 0);
    fetch_shared(w);
    declare_folds(w);
    if (w->skewed) print_ahead(w);
    if (s->sweep.ahead) emit(e, "int slot = 0; // of this turn in shared memory");
}

// Waits for this turn's copies and begins those of the last one.
static void print_copied(Sweep *w, const char *now, long long turn)
{
    Emit *e = w->e;
    const int ahead = w->b->sched.sweep.ahead;
    if (!ahead) return;
    if (!w->skewed) emit(e, "nc_copied<%d>();", ahead - 2);
    emit(e, "const int freed = slot ? slot - 1 : %d;", ahead - 1);
    print_turn(w, emit_text(e, "%s + %lld", now, turn * (ahead - 1)), "freed");
    if (!w->skewed) return;
    emit(e, "nc_copied<%d>(); // the next row's, too", ahead - 2);
    emit(e, "const int after = slot + 1 < %d ? slot + 1 : 0;", ahead);
}

// The rows of a turn, stage by stage.
static void print_rows(Sweep *w)
{
    w->in_row = true;
    if (w->skewed) take_ahead(w);
    for (int i = w->skewed; i < w->b->nstages; i++)
        if (w->rare && i == w->rare)
            print_rare(w);
        else
            print_stage(w, i);
    w->in_row = false;
    print_row_stores(w->e, w->even ? "member == 0" : "mine && member == 0");
    for (int r = 1; r < w->b->sched.sweep.together; r++) {
        take_row(w, r);
        print_row_stores(w->e, emit_text(w->e, "more_%d && member == 0", r));
    }
    take_row(w, 0);
}

void sweep_cuda(Emit *e)
{
    Sweep w = sweep_of(e);
    const Schedule *s = &e->body->sched;
    const long long turn = w.step * s->sweep.together, rows = w.rows;
    const char *row = e->axis[0], *now = w.even ? row : "row";
    declare_place(&w);
    print_begin(&w, turn);
    emit_open(e, 1);
    if (!w.even) {
        emit(e, "const bool mine = row < %lld;", rows);
        emit_int(e, row, "mine ? row : %lld", rows - 1);
    }
    print_copied(&w, now, turn);
    declare_turn(&w, now);
    print_rows(&w);
    if (s->sweep.ahead) emit(e, "slot = slot + 1 < %d ? slot + 1 : 0;", s->sweep.ahead);
    // (teams that share a warp stay as long as the block's first one has a row)
    const char *first = w.even ? now : w.teams > 1 ? "row - team" : "row";
    emit_end(e, "for (%s %s = begin; %s < %lld; %s += %lld) {", w.t, now, first, rows, now, turn);
    print_parts(&w);
}
