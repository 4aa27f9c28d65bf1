// Rows and sums over rows in one pass, as CUDA C: teams of threads iterate over rows in a fixed
// pattern. A thread has the same columns in every row. It holds their sums over the rows in
// registers, and copies its share of the next rows to shared memory while it computes this one. No
// other thread reads that share, so it needs no barrier. Each block stores one partial result of
// every sum; a second kernel combines these in order.
//
// Vectors must be aligned even if rows are not. All rows of a team have the same misalignment
// (sweep_plan.c), so its threads have the same columns in all of them: whole vectors between "head"
// and "end", and a single element each at the edges.
#include <string.h>

#include "codegen/cuda/sweep_cuda.h"

// -- a stage --------------------------------------------------------------------------------------

// Binds the elements of loads, in the scope of a lane or of the edges.
static void bind_elements(Sweep *w, int stage)
{
    Emit *e = w->e;
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (w->b->insts.at[at].stage > stage || !inst_over(&w->b->insts.at[at], w->b->col))
            continue;
        const bool held = sweep_is_held(w, at), fixed = held && sweep_in_registers(w, at);
        Emit *own = sweep_over_rows(w, at) ? e : w->of_row[0]; // of what all rows share
        if (w->edges)
            e->element[at] = held ? emit_text(e, "%s_edge", own->name[at]) : NULL;
        else
            e->element[at] =
                emit_text(e, "%s%s.at[%s]", slot_name(fixed ? own : e, at),
                          fixed ? sweep_in_tile(w) : "", emit_count("lane", w->b->sched.vector));
    }
}

// The stage's code for one column.
static void print_column(Sweep *w, const Vectors *v, int stage)
{
    bind_elements(w, stage);
    accumulate(w->e, stage, w->col);
    sweep_print_folds(w, stage);
    lane_stores(w->e, v, stage);
}

// The stage for one row, up to the combination of its sums across the team.
static void print_row_stage(Sweep *w, int stage)
{
    Emit *e = w->e;
    const int together = w->b->sched.sweep.together;
    const char *slot = emit_plus(e, emit_scaled(e, "slot", together), emit_number(e, w->row));
    if (w->skewed && w->row) slot = w->in_row ? "after" : "0";
    declare_accumulators(e, stage);
    sweep_open_tiles(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (!inst_over(&w->b->insts.at[at], w->b->col) || w->b->insts.at[at].stage > stage)
            continue;
        if (!sweep_is_held(w, at))
            print_slot(e, &w->v, at);
        else if (!sweep_in_registers(w, at) && w->uses[at] >> stage % 64 & 1)
            emit(e, "const %s %s = nc_load<%d>(%s);", slot_type(e, &w->v, at), slot_name(e, at),
                 w->v.width, sweep_hold_place(w, at, slot));
    }
    open_stores(e, &w->v, stage);
    e->axis[w->b->col] = w->col;
    open_lanes(e, &w->v, w->col);
    print_column(w, &w->v, stage);
    close_lanes(e, &w->v);
    e->axis[w->b->col] = w->first;
    flush_stores(e, &w->v, stage);
    sweep_close_tiles(w);
    if (w->uneven) {
        Vectors single = w->v;
        memset(single.store, 0, sizeof single.store);
        sweep_open_edges(w);
        print_column(w, &single, stage);
        sweep_close_edges(w);
    }
}

static void print_stage(Sweep *w, int stage)
{
    int n;
    const Sum *sums = sweep_sums_at_once(w, stage, &n);
    for (int i = 0; i < w->b->sched.sweep.together; i++) {
        sweep_take_row(w, i);
        print_row_stage(w, stage);
    }
    if (w->skewed && stage == 1) {
        sweep_take_row(w, 1);
        print_row_stage(w, 0);
    }
    sweep_take_row(w, 0);
    sweep_print_joins(w, sums, n);
}

// A stage that is left out if none of the turn's rows needs its sums; this is the same for all
// threads of a team. (Its combination across the team can reuse shared memory, because it is always
// between two others.)
static void print_rare(Sweep *w)
{
    int n;
    const Sum *sums = sweep_sums_at_once(w, w->rare, &n);
    Scope *row = w->e->scope;
    Buf unless = buf_new(w->e->arena);
    for (int i = 0; i < n; i++) {
        const Inst *x = &w->b->insts.at[sums[i].r];
        sweep_take_row(w, sums[i].row);
        buf_printf(&unless, "%s%s", i ? " && " : "", emit_value(w->e, x->unless - 1));
        emit_line(w->e, row, "%s %s = 0;", type_math(x->type), w->e->name[sums[i].r]);
    }
    sweep_take_row(w, 0);
    emit_open(w->e, 0);
    print_stage(w, w->rare);
    emit_end(w->e, "if (!(%s)) {", unless.data);
    for (int i = 0; i < n; i++) {
        Emit *e = w->of_row[sums[i].row];
        emit_bind(e, sums[i].r, row, e->name[sums[i].r]);
    }
}

// Skewed: the first stage of the first row; the loop passes such sums on from row to row.
static void print_ahead(Sweep *w)
{
    Emit *e = w->of_row[1];
    int n;
    Sum *sums = sweep_sums_at_once(w, 0, &n);
    for (int i = 0; i < n; i++) {
        sums[i].row = 1;
        emit(w->e, "%s %s;", type_math(w->b->insts.at[sums[i].r].type), e->name[sums[i].r]);
    }
    emit(w->e, "nc_copied<%d>();", w->b->sched.sweep.ahead - 2);
    sweep_take_row(w, 1);
    emit_open(e, 1);
    emit_int(e, e->axis[0], "begin");
    print_row_stage(w, 0);
    sweep_print_joins(w, sums, n);
    emit_end(e, "{");
    sweep_take_row(w, 0);
}

static bool is_held(const Emit *e, int load)
{
    return sweep_held(e->body, &e->body->insts.at[load]);
}

// Finds what uses vectors: held loads, other loads if rows are aligned, and stores.
static void find_moves(Sweep *w)
{
    const Body *b = w->b;
    const Schedule *s = &b->sched;
    if (w->uneven || s->vector == 1) {
        w->v = (Vectors){.axis = b->col, .width = s->vector};
        add_loads(w->e, &w->v, is_held);
    } else {
        w->v = find_vectors(w->e, b->col, s->vector);
    }
    w->v.base = w->first;
    if (w->uneven) store_between(w->e, &w->v);
}

// The sums of this row's first stage were computed a turn ago.
static void take_ahead(Sweep *w)
{
    int n;
    const int *r = stage_reductions(w->e, 0, &n);
    for (int i = 0; i < n; i++) sweep_bind_joined(w, (Sum){0, r[i]}, w->of_row[1]->name[r[i]]);
}

// Declares the rows of this turn and their elements at the edges; loads those of the next turn.
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
        sweep_take_row(w, r);
        for (int i = 0; i < w->v.nloads; i++) {
            int at = w->v.loads[i];
            if (sweep_over_rows(w, at))
                emit(w->e, "const %s %s_edge = %s_edge_next;", type_storage(load_dtype(w->b, at)),
                     w->e->name[at], w->e->name[at]);
        }
        sweep_fetch_edges(w, emit_text(e, "(%s + %lld)", now, w->step * s->sweep.together));
    }
    sweep_take_row(w, 0);
}

static Sweep sweep_of(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Sweep w = {.e = e, .b = b, .rows = body_rows(b), .cols = b->axis[b->col].extent};
    w.of_row[0] = e;
    w.skewed = s->skew;
    w.rare = s->team >= 32 ? b->rare : 0;
    for (int r = 1; r < s->sweep.together + w.skewed; r++) w.of_row[r] = sweep_another_row(e, r);
    w.t = int_type(e);
    w.col = e->axis[b->col];
    w.first = emit_text(e, "%s_first", w.col);
    w.teams = s->threads / s->team;
    w.step = (long long)s->blocks * w.teams;
    w.uneven = b->uneven && s->vector > 1;
    w.uses = body_stage_uses(e->arena, b);
    bool full = w.rows % w.teams == 0;
    w.even = full || s->team >= 32; // all threads of a warp leave the loop together
    w.in_row = true;
    w.sites = sweep_count_sites(&w);
    w.in_row = false;
    find_moves(&w);
    return w;
}

// Declares the first row of each of this block's teams, and the edges.
static void declare_place(Sweep *w)
{
    Emit *e = w->e;
    const int team = w->b->sched.team;
    const char *row = e->axis[0];
    if (w->teams > 1) {
        emit(e, "const int member = threadIdx.x %% %d;", team);
        emit(e, "const int team = threadIdx.x / %d;", team);
        emit(e, "const %s begin = %s * %d + team;", w->t, block_number(e), w->teams);
    } else {
        emit(e, "const int member = threadIdx.x;");
        emit(e, "const %s begin = block;", w->t);
    }
    if (!w->uneven) return;
    e->axis[0] = "begin"; // the edges are the same in every row of the team
    declare_edges(e, "0", emit_number(e, w->cols));
    e->axis[0] = row;
}

// Before the first turn: starts the copies for all slots but the last, loads the edges and what all
// rows share, and clears the sums over the rows.
static void print_begin(Sweep *w, long long turn)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    sweep_declare_held(w);
    if (s->sweep.ahead) {
        emit_open(e, 0);
        const int slots = s->sweep.ahead - 1;
        const char *slot = emit_count("slot", slots);
        sweep_print_turn(w, emit_plus(e, "begin", emit_scaled(e, slot, turn)), slot);
        emit_end(e, slots == 1 ? "{" : "for (int slot = 0; slot < %d; slot++) {", slots);
    }
    for (int r = 0; w->uneven && r < s->sweep.together; r++) {
        sweep_take_row(w, r);
        sweep_fetch_edges(w, "begin");
    }
    sweep_take_row(w, 0);
    sweep_fetch_shared(w);
    sweep_declare_folds(w);
    if (w->skewed) print_ahead(w);
    if (s->sweep.ahead) emit(e, "int slot = 0; // of this turn in shared memory");
}

// Waits for this turn's copies, and starts those of a later turn in the slot that became free.
static void print_copied(Sweep *w, const char *now, long long turn)
{
    Emit *e = w->e;
    const int ahead = w->b->sched.sweep.ahead;
    if (!ahead) return;
    if (!w->skewed) emit(e, "nc_copied<%d>();", ahead - 2);
    emit(e, "const int freed = slot ? slot - 1 : %d;", ahead - 1);
    sweep_print_turn(w, emit_text(e, "%s + %lld", now, turn * (ahead - 1)), "freed");
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
        sweep_take_row(w, r);
        print_row_stores(w->e, emit_text(w->e, "more_%d && member == 0", r));
    }
    sweep_take_row(w, 0);
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
    // Teams that share a warp stay in the loop as long as the block's first team has a row.
    const char *first = w.even ? now : w.teams > 1 ? "row - team" : "row";
    emit_end(e, "for (%s %s = begin; %s < %lld; %s += %lld) {", w.t, now, first, rows, now, turn);
    sweep_print_parts(&w);
}
