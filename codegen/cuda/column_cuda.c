// Column reductions as CUDA C: the kept axis is the contiguous one. A thread has a vector of
// neighbouring results and loops over columns, with several loads in flight. The threads of a team
// have the same results; they are combined through shared memory, blocks through partial results in
// device memory.
#include <string.h>

#include "codegen/cuda/print_cuda.h"

typedef struct Columns {
    Vectors v;
    const char *base;    // the first of this thread's neighbouring results
    const char *lo, *hi; // this block's columns
    const char *row;     // the axis's own name
    long long rows, tiles;
    int across;         // number of teams of a block, for adjacent vectors of results
    bool exact;         // every thread has results
    bool shifted;       // rows are not aligned: a thread's vectors start before the tile
    uint64_t *walked;   // by instruction: the loop over the columns needs it
    bool fetched;       // the results' other plain loads were issued before that loop
    const char *leader; // the condition for a thread to store results
} Columns;

static bool over_columns(const Emit *e, int load)
{
    return inst_over(&e->body->insts.at[load], e->body->col);
}

// Whether a load over the columns depends only on positions, so that it can be issued early.
static bool streams(const Emit *e, int load)
{
    const Inst *v = &e->body->insts.at[load];
    bool asks = v->skips || (v->pred >= 0 && inst_placed(e->body, v->pred));
    return over_columns(e, load) && ((asks && !v->ix->has_value && !v->stage) || is_plain(e, load));
}

// Whether such a load is issued for several columns before their arithmetic.
static bool ahead(const Emit *e, int load)
{
    return e->body->sched.unroll > 1 && streams(e, load);
}

// Whether a load is the same for all columns and can be issued before the loop.
static bool hoisted(const Emit *e, int load)
{
    return !over_columns(e, load) && is_plain(e, load);
}

// The vector loads of a shifted loop: loads over the columns that the shift aligns.
static bool is_shifted(const Emit *e, int load)
{
    const Body *b = e->body;
    const Inst *x = &b->insts.at[load];
    const bool lanes = x->pred >= 0 && inst_over(&b->insts.at[x->pred], 0);
    return streams(e, load) && !lanes && column_shifts(b, x->ix, b->sched.vector);
}

// Whether a shifted loop keeps a load in registers, because it is the same for all columns; it is
// loaded element by element.
static bool near(const Emit *e, const Columns *c, int load)
{
    const Inst *v = &e->body->insts.at[load];
    return c->shifted && v->kind == KI_LOAD && e->live[load] && hoisted(e, load) && v->axes & 1 &&
           c->walked[load] && e->body->bufs.at[v->buf].kind == KA_NODE;
}

// The instructions that reductions and stores over the columns need. All others are left to the
// thread that stores the results, because it may have already written a cell that another thread
// would read.
static uint64_t *mark_walked(const Emit *e)
{
    const Body *b = e->body;
    uint64_t *needed = NEW_ARRAY(e->arena, uint64_t, b->insts.n + 1);
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (store_over(b, s, b->col)) store_mark(s, true, needed);
    }
    for (uint32_t i = b->insts.n; i-- > 0;) { // backwards: operands precede their users
        const Inst *v = &b->insts.at[i];
        bool sum = v->kind == KI_REDUCE && v->axis == b->col && e->live[i];
        if (needed[i] || sum) inst_mark(b, (int)i, true, needed);
    }
    return needed;
}

// Single elements are vectors of one element, so that they are issued early, too.
static bool is_single(const Emit *e, int load)
{
    return streams(e, load) && e->body->bufs.at[e->body->insts.at[load].buf].kind == KA_NODE;
}

static int64_t part_columns(const Body *b)
{
    int64_t each = b->part ? b->part : ceil_div(b->axis[b->col].extent, b->sched.split);
    // Parts begin at columns where the rows have the same alignment as at the first one.
    return b->uneven ? (each + COLUMN_SHIFTS - 1) / COLUMN_SHIFTS * COLUMN_SHIFTS : each;
}

// Declares the accumulators of reduction r. [walking]: those of a thread's loop over its columns;
// squared deviations have a special form there (NcRun).
static void declare(Emit *e, int r, int width, bool walking)
{
    const Inst *v = &e->body->insts.at[r];
    const char *acc = acc_name(e, r), *start = acc_start(e, v);
    if (walking && inst_runs(v)) {
        emit(e, "NcRun<%s> %s_run[%d] = {};", type_math(acc_type(v)), e->name[r], width);
    } else if (width == 1) {
        emit(e, "%s %s[1] = {%s};", acc_struct(e, v), acc, start);
    } else {
        emit(e, "%s %s[%d];", acc_struct(e, v), acc, width);
        emit(e, "#pragma unroll");
        emit(e, "for (int lane = 0; lane < %d; lane++) %s[lane] = %s;", width, acc, start);
    }
}

static void add_column(Emit *e, const Columns *c, int r, const char *column, const char *taken)
{
    const Inst *v = &e->body->insts.at[r];
    const char *lane = emit_count("lane", c->v.width);
    if (inst_runs(v)) {
        const char *x = emit_value(e, v->a[0]);
        const char *run = emit_text(e, "%s_run[%s]", e->name[r], lane);
        emit(e, "if (%s%s == 0) %s.pivot = %s;", e->body->sched.unroll > 1 ? "u == 0 && " : "",
             taken, run, x);
        emit(e, "nc_add(%s, %s);", run, x);
    } else {
        const char *acc = emit_text(e, "%s[%s]", acc_name(e, r), lane);
        emit(e, "%s = %s;", acc, acc_step(e, v, acc, column));
    }
}

static bool any_runs(const Body *b, const int *r, int n)
{
    for (int i = 0; i < n; i++)
        if (inst_runs(&b->insts.at[r[i]])) return true;
    return false;
}

// If reduction number [sum] is a sum of the same values as a sum of squared deviations, it follows
// from the latter's accumulator: the number of that reduction; otherwise -1.
static int squares_of(const Body *b, const int *r, int n, int sum)
{
    const Inst *v = &b->insts.at[r[sum]];
    for (int i = 0; i < n && op_info(v->op)->acc == ACC_SUM; i++) {
        const Inst *q = &b->insts.at[r[i]];
        if (inst_runs(q) && q->a[0] == v->a[0] && q->acc == v->acc) return i;
    }
    return -1;
}

// Squared deviations: moves the pivots to the mean, repeatedly during the loop; after it (last)
// converts the accumulators to the form in which they are combined.
static void settle(Emit *e, const int *r, int n, int width, const char *taken, bool last)
{
    const Body *b = e->body;
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        int from = squares_of(b, r, n, i);
        const char *t = type_math(acc_type(v)), *name = e->name[r[i]];
        if (!inst_runs(v) && (from < 0 || !last)) continue;
        const char *lane = emit_count("lane", width);
        if (last) emit(e, "%s %s_acc[%d];", acc_struct(e, v), name, width);
        if (!last)
            emit_each(e, "lane", width, "nc_settle(%s_run[%s], (%s)%s, nc_share((%s)1, (%s)%s));",
                      name, lane, t, taken, t, t, taken);
        else
            emit_each(e, "lane", width, "%s_acc[%s] = %s(%s_run[%s], (%s)%s);", name, lane,
                      from < 0 ? "nc_moments" : "nc_total", from < 0 ? name : e->name[r[from]],
                      lane, t, taken);
    }
}

// Combines the threads of each team; if more stages follow, all of them get the result.
static void join(Emit *e, const Columns *c, int r)
{
    const Body *b = e->body;
    const char *op = inst_acc(&b->insts.at[r])->functor;
    if (c->shifted)
        emit(e, "%s[0] = nc_aside<%s, %d, %d>(%s, nc_shared, shift);", acc_name(e, r), op,
             c->across, b->sched.team, acc_name(e, r));
    else
        emit(e, "nc_above<%s, %d, %d, %s>(%s, nc_shared);", op, c->across, b->sched.team,
             b->nstages > 1 ? "true" : "false", acc_name(e, r));
}

// Combines squared deviations of the threads of each team: once they have the same pivot they are
// simply added, without the divisions that combining moments needs. Returns the number of columns
// of the block.
static const char *join_runs(Emit *e, const Columns *c, const int *r, int n, const char *taken)
{
    const Body *b = e->body;
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        if (!inst_runs(v)) continue;
        emit(e, "nc_level<%d>(%s_run, (%s)%s, nc_shared);", c->across, e->name[r[i]],
             type_math(acc_type(v)), taken);
        emit(e, "nc_above<NcRuns, %d, %d, %s>(%s_run, nc_shared);", c->across, b->sched.team,
             b->nstages > 1 ? "true" : "false", e->name[r[i]]);
    }
    return emit_text(e, "(%s - %s)", c->hi, c->lo);
}

// In a loop over the lanes: binds the results of earlier stages and the loaded elements.
static void bind_lane(Emit *e, const Columns *c, int stage, bool column)
{
    const Body *b = e->body;
    const char *lane = emit_count("lane", c->v.width);
    for (int s = 0; s < stage; s++) {
        int n;
        const int *r = stage_reductions(e, s, &n);
        for (int i = 0; i < n; i++) {
            const Inst *v = &b->insts.at[r[i]];
            const char *at = emit_text(e, "%s[%s]", acc_name(e, r[i]), lane);
            emit_declare(e, e->name[r[i]], "const %s %s = %s;", type_math(v->type), e->name[r[i]],
                         acc_result(e, v, at));
            emit_bind(e, r[i], e->scope, e->name[r[i]]);
        }
    }
    for (int i = 0; column && i < (int)b->insts.n; i++)
        if (near(e, c, i)) e->element[i] = emit_text(e, "%s_near[%s]", e->name[i], lane);
    for (int i = 0; i < c->v.nloads; i++) {
        int load = c->v.loads[i];
        e->element[load] = NULL;
        if (b->insts.at[load].stage > stage || (over_columns(e, load) && !column)) continue;
        bind_element(e, &c->v, load, ahead(e, load) ? "[u]" : "");
    }
}

static void open_results(Emit *e, const Columns *c)
{
    emit_open(e, 1);
    const char *at = c->v.width > 1 ? emit_text(e, "%s + lane", c->base) : c->base;
    // A shifted vector may extend into neighbouring tiles; indices are clamped to existing results.
    if (c->shifted && c->v.width > 1) at = emit_text(e, "nc_within(%s, %lld)", at, c->rows);
    if (at != c->row) emit_int(e, c->row, "%s", at);
}

static void close_results(Emit *e, const Columns *c)
{
    release_elements(e, &c->v);
    for (int i = 0; i < (int)e->body->insts.n; i++)
        if (near(e, c, i)) e->element[i] = NULL;
    close_lanes(e, &c->v);
}

// Prints, in the innermost scope, the vector loads that have not been issued yet: for the columns
// of a stage, or (-1) for the results.
static void print_late_loads(Emit *e, const Columns *c, int stage)
{
    for (int i = 0; i < c->v.nloads; i++) {
        int load = c->v.loads[i];
        bool early = hoisted(e, load);
        if (stage >= 0 &&
            (ahead(e, load) || early || !c->walked[load] || e->body->insts.at[load].stage > stage))
            continue;
        if (stage < 0 && (over_columns(e, load) || (early && (c->walked[load] || c->fetched))))
            continue;
        print_slot(e, &c->v, load);
    }
}

// The columns that a thread loads at a time, from [first] on.
static Steps flight_of(Emit *e, const Columns *c, const char *first)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Steps f = {.count = 1};
    if (s->unroll > 1)
        f = steps_at(e, "u", s->unroll, e->axis[b->col],
                     emit_text(e, "%s + u * %d", first, s->team), c->hi, 0);
    f.axes = 1ull << b->col;
    return f;
}

// Whether each thread has all columns, and few: then the loop is unrolled completely, so that
// positions computed from column numbers are constants.
static bool written_out(const Body *b, const Columns *c)
{
    return b->sched.team == 1 && b->sched.unroll > 1 && column_short(b) && !strcmp(c->lo, "0");
}

// One loop over this thread's columns; after it the accumulators have the block's results.
static void print_stage(Emit *e, const Columns *c, int stage)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *col = e->axis[b->col], *first = s->unroll > 1 ? emit_text(e, "%s_first", col) : col;
    const Steps flight = flight_of(e, c, first);
    int n;
    const int *r = stage_reductions(e, stage, &n);
    const bool squares = any_runs(b, r, n);
    const char *taken = stage ? emit_text(e, "taken_%d", stage) : "taken";
    for (int i = 0; i < n; i++)
        if (squares_of(b, r, n, i) < 0) declare(e, r[i], c->v.width, true);
    if (squares) emit(e, "int %s = 0, %s_due = 0; // columns so far", taken, taken);
    bool *early = NEW_ARRAY(e->arena, bool, b->insts.n + 1);
    for (int i = 0; i < c->v.nloads; i++) early[c->v.loads[i]] = ahead(e, c->v.loads[i]);
    emit_open(e, s->unroll > 1 ? 0 : flight.axes);
    load_steps(e, &c->v, early, &flight);
    open_steps(e, &flight);
    print_late_loads(e, c, stage);
    open_stores(e, &c->v, stage);
    open_results(e, c);
    bind_lane(e, c, stage, true);
    for (int i = 0; i < n; i++)
        if (squares_of(b, r, n, i) < 0) add_column(e, c, r[i], col, taken);
    lane_stores(e, &c->v, stage);
    close_results(e, c);
    flush_stores(e, &c->v, stage);
    if (squares) emit(e, "%s++;", taken);
    close_steps(e, &flight);
    if (squares) { // whenever the number of columns has doubled
        emit_open(e, 0);
        settle(e, r, n, c->v.width, taken, false);
        emit(e, "%s_due = 2 * %s;", taken, taken);
        emit_end(e, "if (%s >= %s_due) {", taken, taken);
    }
    if (written_out(b, c)) emit_line(e, e->scope->up, "#pragma unroll");
    emit_loop(e, int_type(e), first, emit_text(e, "%s + member", c->lo), c->hi,
              s->team * s->unroll);
    bool runs = squares && !c->shifted && s->team > 1;
    if (runs) taken = join_runs(e, c, r, n, taken);
    settle(e, r, n, c->v.width, taken, true);
    for (int i = 0; i < n; i++)
        if (!runs || (!inst_runs(&b->insts.at[r[i]]) && squares_of(b, r, n, i) < 0))
            join(e, c, r[i]);
}

static const char *partial_at(Emit *e, const Columns *c)
{
    return emit_text(e, "part * %lld + %s", c->rows, c->base);
}

// Stores the partial results for the second kernel.
static void store_partial(Emit *e, const Columns *c)
{
    int n, w = c->v.width;
    const int *r = stage_reductions(e, 0, &n);
    emit_open(e, 0);
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *v = &e->body->insts.at[r[i]];
        const Accumulator *a = inst_acc(v);
        for (int p = 0; p < a->nparts; p++, k++) {
            const char *buf = emit_scratch(e, k), *field = a->parts[p] ? a->parts[p] : "";
            const char *t = type_math(acc_part_type(v, p));
            emit_open(e, 0);
            const char *lane = emit_count("lane", w);
            emit(e, "NcVec<%s, %d> all;", t, w);
            emit_each(e, "lane", w, "all.at[%s] = %s%s[%s]%s;", lane,
                      strcmp(t, type_math(acc_type(v))) ? emit_text(e, "(%s)", t) : "",
                      acc_name(e, r[i]), lane, field);
            emit(e, "nc_store<%d>(%s, all);", w, emit_address(e, buf, partial_at(e, c)));
            emit_end(e, "{");
        }
    }
    emit_end(e, "if (%s) {", c->leader);
}

// The second kernel: combines the parts in order.
static void load_partials(Emit *e, const Columns *c)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int n, w = c->v.width;
    const int *r = stage_reductions(e, 0, &n);
    for (int i = 0; i < n; i++) declare(e, r[i], w, false);
    emit_open(e, 0);
    if (any_runs(b, r, n)) { // the number of columns of the part
        long long cols = b->axis[b->col].extent, part = part_columns(b);
        emit(e, "const %s left = %lld - part * %lld;", int_type(e), cols, part);
        emit(e, "const %s count = left > %lld ? %lld : left > 0 ? left : 0;", int_type(e), part,
             part);
    }
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        const char *name = e->name[r[i]], *lane = emit_count("lane", w),
                   *acc = emit_text(e, "%s[%s]", acc_name(e, r[i]), lane), *part[2] = {"", ""};
        for (int p = 0; p < inst_acc(v)->nparts; p++, k++) {
            emit(e, "const NcVec<%s, %d> %s_part%d = nc_load<%d>(%s);",
                 type_math(acc_part_type(v, p)), w, name, p, w,
                 emit_address(e, emit_scratch(e, k), partial_at(e, c)));
            part[p] = emit_text(e, "%s_part%d.at[%s]", name, p, lane);
        }
        emit_each(e, "lane", w, "%s = %s;", acc,
                  acc_join(e, v, acc, acc_of_parts(e, v, part[0], part[1], "count")));
    }
    emit_line(e, e->scope->up, "#pragma unroll 8");
    emit_loop(e, int_type(e), "part", "member", emit_number(e, s->split), s->team);
    for (int i = 0; i < n; i++) join(e, c, r[i]);
}

bool column_commits_late(const Body *b)
{
    return b->sched.variant == RUN_COLUMNS && b->sched.split == 1 && !body_stores_columns(b, -1);
}

// The loads that results need besides their sums are issued before the loop: the moments of an
// update take as long to arrive as the gradient.
static bool prefetch(Emit *e, const Columns *c)
{
    enum { MOST_AHEAD = 48 }; // elements that a thread loads
    const Body *b = e->body;
    int given[MAX_VECTORS], n = 0;
    for (int i = 0; i < c->v.nloads; i++)
        if (hoisted(e, c->v.loads[i]) && !c->walked[c->v.loads[i]]) given[n++] = c->v.loads[i];
    if (!column_commits_late(b) || c->shifted || n * c->v.width > MOST_AHEAD) return false;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (e->live[i] && b->insts.at[i].kind == KI_LOAD && !b->insts.at[i].axes &&
            is_plain(e, (int)i))
            emit_value(e, (int)i);
    if (!n) return true;
    for (int i = 0; i < n; i++)
        emit(e, "%s %s;", slot_type(e, &c->v, given[i]), slot_name(e, given[i]));
    emit_open(e, 0);
    for (int i = 0; i < n; i++) print_vector_load(e, &c->v, given[i], slot_name(e, given[i]));
    emit_end(e, "if (%s) {", c->leader);
    return true;
}

// Whether the loops of other threads read what a thread overwrites: the first one of a team, or,
// after a shifted loop, any.
static bool overwrites_read(Emit *e, const Columns *c)
{
    const Body *b = e->body;
    bool found = false;
    for (uint32_t i = 0; i < b->insts.n; i++)
        found |= b->insts.at[i].kind == KI_LOAD && c->walked[i] &&
                 b->bufs.at[b->insts.at[i].buf].in_place;
    return found && (b->sched.team > 1 || c->shifted);
}

// Stores of results, by the first thread of each team.
static void print_results(Emit *e, const Columns *c)
{
    const Body *b = e->body;
    if (!body_stores_rows(b)) return;
    if (overwrites_read(e, c)) emit(e, "__syncthreads(); // all have read what is overwritten");
    if (b->commits && column_commits_late(b)) stop_if_failed(e);
    emit_open(e, 0);
    print_late_loads(e, c, -1);
    open_stores(e, &c->v, -1);
    open_results(e, c);
    bind_lane(e, c, b->nstages, false);
    lane_stores(e, &c->v, -1);
    close_results(e, c);
    flush_stores(e, &c->v, -1);
    emit_end(e, "if (%s) {", c->leader);
}

static void declare_base(Emit *e, const Columns *c, const char *tile)
{
    const int vector = e->body->sched.vector;
    const char *t = int_type(e),
               *of = c->tiles > 1 ? emit_text(e, "%s * %d + ", tile, c->across) : "";
    const char *at = emit_text(e, "%sthreadIdx.x %% %d", of, c->across);
    if (vector > 1) at = emit_text(e, *of ? "(%s) * %d" : "%s * %d", at, vector);
    emit(e, "%s%s %s = %s;", c->exact ? "const " : "", t, c->base, at);
    if (c->exact) return;
    emit(e, "const bool mine = %s < %lld; // the others have nothing to read", c->base, c->rows);
    emit(e, "if (!mine) %s = %lld;", c->base, c->rows - vector);
}

// A thread's columns have the same alignment, because their distances are multiples of the vector;
// so the shift depends on the thread only.
static void declare_shift(Emit *e, const Columns *c, const char *tile)
{
    const Body *b = e->body;
    const char *t = int_type(e), *own = e->axis[0];
    int width = b->sched.vector;
    emit(e, "const %s tile = %s * %d;", t, tile, column_tile(b));
    e->axis[0] = "tile";
    emit(e, "const int shift = (int)(%s) & %d;", emit_index_at(e, b->uneven, b->col, "member"),
         width - 1);
    e->axis[0] = own;
    emit_int(e, c->base, "tile - shift + threadIdx.x %% %d * %d", c->across, width);
    emit(e, "const bool mine = %s < %lld && %s < tile + %d;", c->base, c->rows, c->base,
         column_tile(b));
}

static void print_near(Emit *e, const Columns *c)
{
    const Body *b = e->body;
    for (int i = 0; i < (int)b->insts.n; i++) {
        if (!near(e, c, i)) continue;
        const Inst *v = &b->insts.at[i];
        emit(e, "%s %s_near[%d];", type_storage(b->bufs.at[v->buf].type), e->name[i], c->v.width);
        const char *lane = emit_count("lane", c->v.width),
                   *place =
                       emit_text(e, "nc_within(%s, %lld)", emit_plus(e, c->base, lane), c->rows);
        emit_each(e, "lane", c->v.width, "%s_near[%s] = %s[%s];", e->name[i], lane,
                  e->buf_name[v->buf], emit_index_at(e, v->ix, 0, place));
    }
}

static Columns columns_of(Emit *e, KernelPhase phase)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Columns c = {.rows = body_rows(b), .across = s->threads / s->team, .row = e->axis[0]};
    const int64_t vectors = c.rows / s->vector;
    c.base = s->vector > 1 ? emit_text(e, "%s_first", c.row) : c.row;
    c.exact = vectors % c.across == 0;
    c.shifted = b->uneven && s->vector > 1;
    c.tiles = c.shifted ? column_tiles(b) : ceil_div(vectors, c.across);
    c.leader = c.exact ? "member == 0" : "mine && member == 0";
    c.v = c.shifted ? (Vectors){.axis = 0, .width = s->vector, .open = true}
                    : find_vectors(e, 0, s->vector);
    c.v.streams = true;
    c.v.base = c.base;
    if (c.shifted || s->vector == 1) add_loads(e, &c.v, c.shifted ? is_shifted : is_single);
    c.walked =
        phase == PHASE_COMBINE ? NEW_ARRAY(e->arena, uint64_t, b->insts.n + 1) : mark_walked(e);
    return c;
}

// Declares which results and, if [parts], which part of the columns this thread has.
static void declare_place(Emit *e, const Columns *c, bool parts)
{
    const int team = e->body->sched.team;
    const char *tile =
        c->tiles > 1 ? block_number(e) : "0"; // "0": blocks are numbered by their part
    emit_declare(e, "member", "const int member = %s;",
                 team > 1 ? emit_text(e, "threadIdx.x / %d", c->across) : "0");
    if (parts && c->tiles > 1) {
        emit_int(e, "part", "block / %lld", c->tiles);
        tile = emit_text(e, "%s %% %lld", tile, c->tiles);
    } else if (parts) {
        emit_int(e, "part", "block");
    }
    (c->shifted ? declare_shift : declare_base)(e, c, tile);
}

static void print_stages(Emit *e, Columns *c, bool parts)
{
    const Body *b = e->body;
    c->lo = parts ? "lo" : "0";
    c->hi = parts ? "hi" : emit_number(e, extent_of(b, b->col));
    if (parts) declare_part(e, part_columns(b));
    if ((!c->exact && !written_out(b, c)) || c->shifted)
        c->hi = emit_text(e, "(mine ? %s : 0)", c->hi);
    c->fetched = prefetch(e, c);
    for (int i = 0; i < b->nstages; i++) print_stage(e, c, i);
}

// After a shifted loop a thread has one result.
static void take_own(Emit *e, Columns *c)
{
    c->base = emit_text(e, "%s_own", c->row);
    c->v = (Vectors){.axis = 0, .width = 1, .base = c->base};
    emit_int(e, c->base, "tile + threadIdx.x");
    c->leader =
        emit_text(e, "threadIdx.x < %d && %s < %lld", column_tile(e->body), c->base, c->rows);
}

void column_cuda(Emit *e, KernelPhase phase)
{
    Columns c = columns_of(e, phase);
    const bool parts = phase == PHASE_PARTIAL && e->body->sched.split > 1;
    declare_place(e, &c, parts);
    for (int i = 0; i < c.v.nloads; i++)
        if (hoisted(e, c.v.loads[i]) && c.walked[c.v.loads[i]]) print_slot(e, &c.v, c.v.loads[i]);
    for (int i = 0; i < c.v.nloads; i++)
        if (c.walked[c.v.loads[i]] && shares_vector(e, c.v.loads[i]))
            print_choice(e, &c.v, c.v.loads[i]);
    print_near(e, &c);
    if (phase == PHASE_COMBINE)
        load_partials(e, &c);
    else
        print_stages(e, &c, parts);
    if (c.shifted) take_own(e, &c);
    (parts ? store_partial : print_results)(e, &c);
}
