// Column reductions and short rows as C: one task computes a tile of neighbouring rows.
#include "codegen/text/accumulator.h"
#include "codegen/c/print_c.h"

// The result for a row, from the array with the sums of a stage.
static const char *sum_of(Emit *e, int r)
{
    const char *acc = emit_text(e, "%s[%s - first]", e->name[r], e->axis[0]);
    if (c_stored_order(e, r)) return c_order_result(e, r, acc);
    return c_float_sum(&e->body->insts.at[r]) ? emit_text(e, "(float)%s", acc) : acc;
}

// Binds the values of a row that earlier stages have computed.
static void bind_earlier(Emit *e, int stage)
{
    c_recall_rows(e, stage);
    for (int s = 0; s < stage; s++) {
        int n;
        const int *r = stage_reductions(e, s, &n);
        for (int i = 0; i < n; i++)
            if (e->body->insts.at[r[i]].kind == KI_REDUCE)
                emit_bind(e, r[i], e->scope, sum_of(e, r[i]));
    }
}

// How the loop over the rows of a tile is printed.
typedef struct Rounds {
    int64_t period;
    bool whole, simd; // whole: tiles begin and end at multiples of the period; simd: as vectors
} Rounds;

static void close_tile_loop(Emit *e, const Rounds *r)
{
    c_close_pieces(e, "first", "last", r->whole, r->simd ? C_SIMD : "");
}

// Declares the arrays with the sums of a stage, one element per row of the tile. Sums of more than
// 1024 columns are doubles.
static void declare_sums(Emit *e, Scope *task, const int *r, int n, int64_t part, const char *lo)
{
    const Body *b = e->body;
    const long long tile = b->sched.task;
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        const char *t = c_float_sum(v) && part > 1024 ? "double" : c_acc_type(v->acc),
                   *name = e->name[r[i]];
        if (v->kind == KI_REDUCE && inst_acc(v)->place) {
            emit_line(e, task, "%s %s_best[%lld] NC_LINES;", t, name, tile);
            t = "int32_t";
        }
        const bool ordered = c_stored_order(e, r[i]);
        if (ordered) t = "int16_t";
        const char *array = v->kind == KI_SCAN ? emit_text(e, "%s_acc", name) : name;
        emit_line(e, task, "%s %s[%lld] NC_LINES;", t, array, tile);
        emit_line(e, task, "for (long k = 0; k < last - first; k++) {");
        emit_line(e, task, "    %s[k] = %s;", array,
                  ordered ? c_order_start(e, r[i]) : c_start(e, v, lo));
        if (v->kind == KI_REDUCE && inst_acc(v)->place)
            emit_line(e, task, "    %s_best[k] = %s;", name, emit_identity(e, v->op, v->acc));
        emit_line(e, task, "}");
    }
}

// Adds the element at the current row and column to the sums of a stage.
static void accumulate(Emit *e, const int *r, int n)
{
    const Body *b = e->body;
    for (int i = 0; i < n; i++) {
        const char *scan = b->insts.at[r[i]].kind == KI_SCAN ? "_acc" : "", *name = e->name[r[i]];
        const char *acc = emit_text(e, "%s%s[%s - first]", name, scan, e->axis[0]);
        if (c_stored_order(e, r[i]))
            c_order_accumulate(e, r[i], acc);
        else
            c_accumulate(e, r[i], acc, emit_text(e, "%s_best[%s - first]", name, e->axis[0]),
                         e->axis[b->col]);
    }
}

// If a stage has at most FEW_INSTS instructions and nothing but reductions, loading and storing the
// sums takes as long as adding, so each iteration adds the elements of several columns.
enum { TOGETHER = 4 };

static bool is_light(Emit *e, const Rounds *rounds, const int *r, int n)
{
    const Body *b = e->body;
    return b->sched.variant == RUN_COLUMNS && rounds->simd && !rounds->period &&
           !c_any_halves(e, 0, 0) && b->axis[b->col].extent >= 4 * TOGETHER && c_is_light(b, r, n);
}

static void light_columns(Emit *e, const char *lo, const char *hi, const Rounds *rounds,
                          const int *r, int n)
{
    const int col = e->body->col;
    const char *c = e->axis[col];
    emit_open(e, 0);
    c_open_loop(e, 0, 0);
    for (int k = 0; k < TOGETHER; k++) {
        e->axis[col] = emit_text(e, "(%s + %d)", c, k);
        emit_open(e, 1ull << col);
        accumulate(e, r, n);
        emit_end(e, "{");
    }
    e->axis[col] = c;
    close_tile_loop(e, rounds);
    emit_end(e, "for (long %s = %s; %s + %d <= %s; %s += %d) {", c, lo, c, TOGETHER, hi, c,
             TOGETHER);
}

static void column_stage(Emit *e, int stage, const char *lo, const char *hi, int64_t part,
                         const Rounds *rounds)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col];
    const char *at =
        emit_text(e, "%s * %lld + %s - first", c, (long long)b->sched.task, e->axis[0]);
    int n;
    const int *r = stage_reductions(e, stage, &n);
    declare_sums(e, e->scope, r, n, part, lo);
    if (c_declare_rows(e, stage)) {
        c_open_loop(e, 0, rounds->period);
        bind_earlier(e, stage);
        c_remember_rows(e, stage);
        close_tile_loop(e, rounds);
    }
    const char *from = lo;
    if (is_light(e, rounds, r, n)) {
        light_columns(e, lo, hi, rounds, r, n);
        from = emit_text(e, "%s - (%s - %s) %% %d", hi, hi, lo, TOGETHER);
    }
    emit_open(e, 1ull << b->col);
    c_open_pieces(e, 0, rounds->period, stage, rounds->simd);
    bind_earlier(e, stage);
    c_recall_rows(e, stage + 1);
    c_recall(e, stage, at);
    turn_elements(e);
    accumulate(e, r, n);
    emit_stores(e, stage);
    c_remember(e, stage, at);
    close_tile_loop(e, rounds);
    emit_end(e, "for (long %s = %s; %s < %s; %s++) {", c, from, c, hi, c);
}

static void store_parts(Emit *e)
{
    int n;
    const int *r = stage_reductions(e, 0, &n);
    for (int i = 0, k = 0; i < n; i++) {
        emit(e, "%s[%s] = %s;", emit_scratch(e, k++), c_part_place(e, "part"), e->bind[r[i]].text);
        if (inst_acc(&e->body->insts.at[r[i]])->place)
            emit(e, "%s[%s] = %s_best[%s - first];", emit_scratch(e, k++), c_part_place(e, "part"),
                 e->name[r[i]], e->axis[0]);
    }
}

// Whether there are so few columns (such as those of the windows of a pooling or a convolution)
// that they are written out one after the other in one loop over the rows, with sums in registers.
static bool is_few(const Body *b)
{
    enum { COLUMNS = 16, INSTS = 1024, INSTS_WINDOWS = 4096 };
    const int64_t cols = b->axis[b->col].extent;
    return b->sched.variant == RUN_COLUMNS && column_short(b) &&
           cols * b->nstages * (int64_t)b->insts.n <= (cols <= COLUMNS ? INSTS : INSTS_WINDOWS);
}

// (Sums of neighbouring rows are independent, so fused operations do not form long chains.)
static void few_accumulate(Emit *e, int r)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[r];
    const char *acc = emit_text(e, "%s_acc", e->name[r]);
    if (v->kind == KI_REDUCE && !inst_acc(v)->place)
        emit(e, "%s = %s;", acc, emit_fused(e, v->op, v->acc, acc, v->a[0]));
    else
        c_accumulate(e, r, acc, emit_text(e, "%s_best", e->name[r]), e->axis[b->col]);
}

static void few_stage(Emit *e, int stage)
{
    const Body *b = e->body;
    int n;
    const int *r = stage_reductions(e, stage, &n);
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        const bool place = v->kind == KI_REDUCE && inst_acc(v)->place;
        emit(e, "%s %s_acc = %s;", place ? "int32_t" : c_acc_type(v->acc), e->name[r[i]],
             c_start(e, v, "0"));
        if (place)
            emit(e, "%s %s_best = %s;", c_acc_type(v->acc), e->name[r[i]],
                 emit_identity(e, v->op, v->acc));
    }
    const char *c = e->axis[b->col];
    for (int64_t k = 0; k < b->axis[b->col].extent; k++) {
        e->axis[b->col] = emit_text(e, "%lld", (long long)k);
        emit_open(e, 1ull << b->col);
        for (int i = 0; i < n; i++) few_accumulate(e, r[i]);
        emit_stores(e, stage);
        emit_end(e, "{");
    }
    e->axis[b->col] = c;
    for (int i = 0; i < n; i++)
        if (b->insts.at[r[i]].kind == KI_REDUCE)
            emit_bind(e, r[i], e->scope, emit_text(e, "%s_acc", e->name[r[i]]));
}

// Tasks of a few rows. A thread processes as many at once as it has, up to the size of its arrays:
// so accesses are long with few threads, and with many threads all have work.
typedef struct Tasks {
    long long rows, most;
} Tasks;

static Tasks tasks_of(const Body *b, long long tile)
{
    enum { ROWS = 32 };
    if (b->sched.variant != RUN_COLUMNS || tile < 2 * ROWS) return (Tasks){tile, 1};
    return (Tasks){ROWS, tile < b->axis[0].extent ? tile / ROWS : ceil_div(tile, ROWS)};
}

int64_t column_c(Emit *e, bool partial)
{
    const Body *b = e->body;
    const bool few = !partial && is_few(b);
    Rounds rounds = {.period = c_period(e, 0, few ? ROUND / 2 : ROUND)};
    const long long rows = b->axis[0].extent, cols = b->axis[b->col].extent;
    long long tile = b->sched.task;
    if (rounds.period && rounds.period <= tile) {
        tile -= tile % rounds.period;
        rounds.whole = true;
    }
    rounds.simd = c_plain_over(e, 0);
    const long long split = partial ? b->sched.split : 1, part = ceil_div(cols, split);
    const char *lo = partial ? "lo" : "0", *hi = partial ? "hi" : emit_text(e, "%lld", cols);
    bool rest = partial;
    emit_open(e, 0);
    Scope *task = e->scope;
    const Tasks tasks = split > 1 || rounds.period ? (Tasks){tile, 1} : tasks_of(b, tile);
    const char *loop = "for (long task = begin; task < end; task++) {";
    emit_line(e, task, "const long first = task / %lld * %lld;", split, tasks.rows);
    if (tasks.most > 1) {
        loop = "for (long task = begin, next; task < end; task = next) {";
        emit_line(e, task, "next = task + %lld < end ? task + %lld : end;", tasks.most, tasks.most);
        emit_line(e, task, "const long last = next * %lld < %lld ? next * %lld : %lld;", tasks.rows,
                  rows, tasks.rows, rows);
    } else {
        emit_line(e, task, "const long last = first + %lld < %lld ? first + %lld : %lld;", tile,
                  rows, tile, rows);
    }
    if (partial) {
        emit_line(e, task, "const long part = task %% %lld;", split);
        emit_line(e, task, "const long lo = part * %lld < %lld ? part * %lld : %lld;", part, cols,
                  part, cols);
        emit_line(e, task, "const long hi = lo + %lld < %lld ? lo + %lld : %lld;", part, cols, part,
                  cols);
    }
    if (few) {
        c_open_loop(e, 0, rounds.period);
        for (int s = 0; s < b->nstages; s++) few_stage(e, s);
        emit_stores(e, -1);
        close_tile_loop(e, &rounds);
        emit_end(e, "%s", loop);
        return rows > 0 ? ceil_div(rows, tasks.rows) : 0;
    }
    turn_in(e);
    c_declare_kept(e, cols * b->sched.task);
    for (int s = 0; s < b->nstages; s++) column_stage(e, s, lo, hi, part, &rounds);
    for (uint32_t i = 0; i < b->stores.n; i++) rest |= !store_over(b, &b->stores.at[i], b->col);
    if (rest) {
        c_open_loop(e, 0, rounds.period);
        bind_earlier(e, b->nstages);
        if (partial)
            store_parts(e);
        else
            emit_stores(e, -1);
        close_tile_loop(e, &rounds);
    }
    turn_out(e);
    emit_end(e, "%s", loop);
    return rows > 0 ? ceil_div(rows, tasks.rows) * split : 0;
}
