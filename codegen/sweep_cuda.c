// Rows and sums over rows in one pass, as CUDA C: teams of threads walk over rows in a fixed
// pattern. A thread has the same columns in every row; it holds their sums in registers, and the
// loads of the next row are in flight while it computes this one. Each block stores one part of
// every sum; the kernel behind it joins the parts in order.
#include <string.h>

#include "codegen/print_cuda.h"

typedef struct Sweep {
    Emit *e;
    const Body *b;
    Vectors v;
    const char *t;           // of index arithmetic
    const char *col, *first; // a column, and the first one of a vector
    int64_t rows, cols;
    int teams;       // of a block
    bool whole;      // every thread has columns in every tile
    bool even;       // every team has a row each time around
    int site, sites; // joins across a team: those printed, how many there are in a row
} Sweep;

static bool over_rows(const Sweep *w, int load)
{
    return w->b->insts.at[load].axes >> 0 & 1;
}

static bool is_early(const Sweep *w, int load)
{
    return w->b->insts.at[load].keep;
}

// The loop over a thread's tiles: one vector of columns each.
static void open_tiles(Sweep *w, uint64_t axes)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    emit_open(e, axes);
    const char *at = s->keep > 1 ? emit_text(e, "(tile * %d + member)", s->team) : "member";
    emit_line(e, e->scope, "const %s %s = %s%s;", w->t, w->first, at,
              s->vector > 1 ? emit_text(e, " * %d", s->vector) : "");
    if (!w->whole) emit_open(e, axes);
    e->axis[w->b->col] = w->first;
}

static void close_tiles(Sweep *w)
{
    Emit *e = w->e;
    int keep = w->b->sched.keep;
    e->axis[w->b->col] = w->col;
    if (!w->whole)
        emit_close(e, emit_text(e, "if (%s < %lld) {", w->first, (long long)w->cols), "}");
    if (keep > 1) emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e, keep > 1 ? emit_text(e, "for (int tile = 0; tile < %d; tile++) {", keep) : "{",
               "}");
}

static const char *in_tile(const Sweep *w)
{
    return w->b->sched.keep > 1 ? "[tile]" : "[0]";
}

// Fetches early loads into [prefix]: those of a row, or those all rows share.
static void print_fetch(Sweep *w, const char *suffix, bool of_row)
{
    Emit *e = w->e;
    open_tiles(w, 0);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (is_early(w, at) && over_rows(w, at) == of_row)
            emit_line(e, e->scope, "%s%s%s = nc_%s<%d>(%s + (%s));", slot_name(e, at), suffix,
                      in_tile(w),
                      of_row && !w->b->bufs.at[w->b->insts.at[at].buf].written ? "fetch" : "load",
                      w->v.width, e->buf_name[w->b->insts.at[at].buf],
                      emit_index(e, w->b->insts.at[at].ix));
    }
    close_tiles(w);
}

static void declare_slots(Sweep *w, Scope *s, const char *suffix, bool of_row)
{
    Emit *e = w->e;
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        DType t = w->b->bufs.at[w->b->insts.at[at].buf].type;
        if (is_early(w, at) && over_rows(w, at) == of_row)
            emit_line(e, s, "%s %s%s[%d];", vec_type(e, t, w->v.width), slot_name(e, at), suffix,
                      w->b->sched.keep);
    }
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
        emit_line(e, e->scope, "NcVec<%s, %d> part%u[%d]; // %s over the rows of this block",
                  fold_type(w, x), s->vector, i, s->keep, op_info(x->fold->op)->name);
        emit_line(e, e->scope, "nc_fill<%d>(part%u, %s);", s->keep, i,
                  emit_identity(e, x->fold->op, w->b->bufs.at[x->buf].type));
    }
}

// -- joins across a team
// -------------------------------------------------------------------------

static bool joins_several(const Sweep *w, const Inst *x)
{
    return w->b->sched.team > 1 && !inst_acc(x)->place;
}

static bool one_join(const Inst *a, const Inst *b)
{
    return a->op == b->op && acc_type(a) == acc_type(b);
}

// How many joins a row takes: reductions of one kind and stage share one.
static int count_sites(Sweep *w)
{
    int sites = 0;
    for (int stage = 0; stage < w->b->nstages; stage++) {
        int n;
        const int *r = stage_reductions(w->e, stage, &n);
        for (int i = 0; i < n; i++) {
            const Inst *x = &w->b->insts.at[r[i]];
            bool first = joins_several(w, x);
            for (int k = 0; k < i && first; k++) first = !one_join(x, &w->b->insts.at[r[k]]);
            sites += first;
        }
    }
    return sites;
}

static void print_joins(Sweep *w, Scope *row, const int *r, int n)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    for (int i = 0; i < n; i++) {
        const Inst *x = &w->b->insts.at[r[i]];
        const char *acc = emit_text(e, "%s_acc", e->name[r[i]]);
        if (e->bind[r[i]].scope == row) continue;
        if (!joins_several(w, x)) {
            const char *all = s->team == 1 ? acc
                                           : emit_text(e, "nc_team<%s, %d>(%s)",
                                                       inst_acc(x)->functor, s->team, acc);
            emit_line(e, row, "const %s %s = %s;", type_math(x->type), e->name[r[i]],
                      acc_joined(e, x, acc, all));
            emit_bind(e, r[i], row, e->name[r[i]]);
            continue;
        }
        Buf list = buf_new(e->arena);
        int count = 0;
        for (int k = i; k < n; k++)
            if (one_join(x, &w->b->insts.at[r[k]]))
                buf_printf(&list, "%s%s_acc", count++ ? ", " : "", e->name[r[k]]);
        const char *name = emit_text(e, "%s_all", e->name[r[i]]);
        emit_line(e, row, "%s %s[%d] = {%s};", type_math(acc_type(x)), name, count, list.data);
        emit_line(e, row, "nc_teams<%s, %d, %d, %s>(%s);", inst_acc(x)->functor, s->team, w->site++,
                  w->sites == 1 ? "true" : "false", name);
        for (int k = i, at = 0; k < n; k++) {
            const Inst *y = &w->b->insts.at[r[k]];
            if (!one_join(x, y)) continue;
            emit_line(e, row, "const %s %s = %s[%d];", type_math(y->type), e->name[r[k]], name,
                      at++);
            emit_bind(e, r[k], row, e->name[r[k]]);
        }
    }
}

// -- a stage
// --------------------------------------------------------------------------------------

static void bind_elements(Sweep *w, int stage)
{
    Emit *e = w->e;
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (w->b->insts.at[at].stage > stage || !inst_over(&w->b->insts.at[at], w->b->col))
            continue;
        e->element[at] =
            emit_text(e, "%s%s.at[lane]", slot_name(e, at), is_early(w, at) ? in_tile(w) : "");
    }
}

static void print_folds(Sweep *w, int stage)
{
    Emit *e = w->e;
    for (uint32_t i = 0; i < w->b->stores.n; i++) {
        const BodyStore *s = &w->b->stores.at[i];
        if (!s->fold || s->stage != stage) continue;
        DType t = w->b->bufs.at[s->buf].type;
        const char *part = emit_text(e, "part%u%s.at[lane]", i, in_tile(w));
        const char *sum = emit_combine(e, s->fold->op, t, part, emit_value(e, s->value));
        emit_line(e, e->scope, "%s = %s;", part,
                  w->even ? sum : emit_text(e, "mine ? %s : %s", sum, part));
    }
}

static void print_stage(Sweep *w, int stage)
{
    Emit *e = w->e;
    Scope *row = e->scope;
    int n;
    const int *r = stage_reductions(e, stage, &n);
    e->stages = 1ull << stage % 64;
    for (int i = 0; i < n; i++) declare_accumulator(e, row, r[i]);
    open_tiles(w, 0);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (!is_early(w, at) && inst_over(&w->b->insts.at[at], w->b->col) &&
            w->b->insts.at[at].stage <= stage)
            print_vector_load(e, &w->v, at, slot_name(e, at), true);
    }
    open_stores(e, &w->v, stage);
    emit_open(e, 1ull << w->b->col);
    e->axis[w->b->col] = w->col;
    emit_line(e, e->scope, "const %s %s = %s + lane;", w->t, w->col, w->first);
    bind_elements(w, stage);
    for (int i = 0; i < n; i++) accumulate(e, r[i], w->col);
    print_folds(w, stage);
    lane_stores(e, &w->v, stage);
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int lane = 0; lane < %d; lane++) {", w->b->sched.vector), "}");
    e->axis[w->b->col] = w->first;
    flush_stores(e, &w->v, stage);
    close_tiles(w);
    print_joins(w, row, r, n);
}

// -- the parts
// ------------------------------------------------------------------------------------

// One part a block: from registers to scratch; several teams join through shared memory first.
static void print_parts(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    Scope *outer = e->scope;
    for (uint32_t i = 0; i < w->b->stores.n; i++) {
        const BodyStore *x = &w->b->stores.at[i];
        if (!x->fold) continue;
        const char *t = fold_type(w, x), *to = e->buf_name[x->buf];
        const char *share = emit_text(e, "%s + (%s)block * %lld", to, w->t, (long long)w->cols);
        if (w->teams > 1) {
            emit_line(e, outer, "__syncthreads();");
            share = emit_text(e, "(%s *)nc_shared + team * %lld", t, (long long)w->cols);
        }
        open_tiles(w, 0);
        if (s->vector * math_bytes(w->b->bufs.at[x->buf].type) <= 32) {
            emit_line(e, e->scope, "nc_store<%d>(%s + %s, part%u%s);", s->vector, share, w->first,
                      i, in_tile(w));
        } else {
            emit_line(e, e->scope, "#pragma unroll");
            emit_line(e, e->scope, "for (int lane = 0; lane < %d; lane++)", s->vector);
            emit_line(e, e->scope, "    (%s)[%s + lane] = part%u%s.at[lane];", share, w->first, i,
                      in_tile(w));
        }
        close_tiles(w);
        if (w->teams == 1) continue;
        emit_line(e, outer, "__syncthreads();");
        emit_open(e, 0);
        emit_line(e, e->scope, "%s all = ((%s *)nc_shared)[c];", t, t);
        emit_line(e, e->scope, "for (int k = 1; k < %d; k++)", w->teams);
        emit_line(
            e, e->scope, "    all = %s;",
            emit_combine(e, x->fold->op, w->b->bufs.at[x->buf].type, "all",
                         emit_text(e, "((%s *)nc_shared)[k * %lld + c]", t, (long long)w->cols)));
        emit_line(e, e->scope, "%s[(%s)block * %lld + c] = all;", to, w->t, (long long)w->cols);
        emit_close(e,
                   emit_text(e, "for (int c = threadIdx.x; c < %lld; c += %d) {",
                             (long long)w->cols, s->threads),
                   "}");
    }
}

void sweep_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Sweep w = {.e = e, .b = b, .rows = body_rows(b), .cols = b->axis[b->col].extent};
    w.t = s->wide ? "int64_t" : "int";
    w.col = e->axis[b->col];
    w.first = emit_text(e, "%s_first", w.col);
    w.teams = s->threads / s->team;
    w.whole = w.cols % ((int64_t)s->team * s->vector) == 0;
    bool full = w.rows % w.teams == 0;
    w.even = full || s->team >= 32; // the threads of a warp leave together
    w.v = find_vectors(e, b->col, s->vector);
    w.v.width = s->vector;
    w.sites = count_sites(&w);
    for (uint32_t i = 0; s->vector == 1 && i < b->insts.n && w.v.nloads < MAX_VECTORS; i++)
        if (e->live[i] && b->insts.at[i].keep) w.v.loads[w.v.nloads++] = (int)i;
    const char *row = e->axis[0];
    Scope *outer = e->scope;
    long long step = (long long)s->blocks * w.teams;
    emit_line(e, outer, "const int member = threadIdx.x%s;",
              w.teams > 1 ? emit_text(e, " %% %d", s->team) : "");
    if (w.teams > 1) emit_line(e, outer, "const int team = threadIdx.x / %d;", s->team);
    const char *own = w.teams > 1 ? " + team" : "",
               *last = emit_text(e, "%lld", (long long)w.rows - 1);
    declare_slots(&w, outer, "", false);
    print_fetch(&w, "", false);
    declare_folds(&w);
    declare_slots(&w, outer, "_next", true);
    emit_line(e, outer, "%s next = (%s)block%s%s;", w.t, w.t,
              w.teams > 1 ? emit_text(e, " * %d", w.teams) : "", own);
    const char *clamp = emit_text(e, "next = next < %s ? next : %s;", last, last);
    if (!full) emit_line(e, outer, "%s", clamp);
    e->axis[0] = "next";
    print_fetch(&w, "_next", true);
    emit_open(e, 1);
    Scope *loop = e->scope;
    if (!w.even) {
        emit_line(e, loop, "const %s row = base%s;", w.t, own);
        emit_line(e, loop, "const bool mine = row < %lld; // the others compute the last row again",
                  (long long)w.rows);
        emit_line(e, loop, "const %s %s = mine ? row : %s;", w.t, row, last);
    }
    declare_slots(&w, loop, "", true);
    open_tiles(&w, 0);
    for (int i = 0; i < w.v.nloads; i++)
        if (is_early(&w, w.v.loads[i]) && over_rows(&w, w.v.loads[i]))
            emit_line(e, e->scope, "%s%s = %s_next%s;", slot_name(e, w.v.loads[i]), in_tile(&w),
                      slot_name(e, w.v.loads[i]), in_tile(&w));
    close_tiles(&w);
    const char *base = w.even ? row : "base";
    emit_open(e, 0);
    emit_line(e, e->scope, "next = %s + %lld%s;", base, step, w.even ? "" : own);
    if (!w.even) emit_line(e, e->scope, "%s", clamp);
    e->axis[0] = "next";
    print_fetch(&w, "_next", true);
    emit_close(e, emit_text(e, "if (%s + %lld < %lld) {", base, step, (long long)w.rows), "}");
    e->axis[0] = row;
    for (int i = 0; i < b->nstages; i++) print_stage(&w, i);
    print_row_stores(e, w.even ? "member == 0" : "mine && member == 0");
    emit_close(e,
               emit_text(e, "for (%s %s = (%s)block%s%s; %s < %lld; %s += %lld) {", w.t, base, w.t,
                         w.teams > 1 ? emit_text(e, " * %d", w.teams) : "", w.even ? own : "", base,
                         (long long)w.rows, base, step),
               "}");
    print_parts(&w);
}
