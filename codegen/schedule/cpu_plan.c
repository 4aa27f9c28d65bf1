// The cost model on the CPU: tasks that fit in the caches, and parts of rows if there are too few.
#include "codegen/schedule/plans.h"

static void cpu_map(const Target *t, Body *b)
{
    int64_t inner = b->axis[b->npar - 1].extent;
    b->sched.task = inner > 8192 ? 4096 : inner > 0 ? inner : 1;
    b->sched.map.transpose = body_rows(b) >= 1024 ? schedule_transposed_axis(b, t) + 1 : 0;
}

// Whether the operand's index is a sum of a term that depends on rows and one that depends on
// columns, like that of windows in an image.
static bool lies_apart(const Body *b, const Inst *v)
{
    const uint64_t col = 1ull << b->col;
    if (v->kind != KI_LOAD || v->type != b->insts.at[b->dot.sum].acc || v->pred >= 0 ||
        v->ix->has_value)
        return false;
    for (int i = 0; i < v->ix->n; i++) {
        const uint64_t axes = v->ix->at[i].term->axes;
        if (axes & col && axes & ~col) return false;
    }
    return true;
}

// Whether each row is contiguous along the columns.
static bool lies_along(const Body *b, int inst)
{
    int64_t along;
    return ix_stride(b->insts.at[inst].ix, b->col, &along) && along == 1;
}

static double reads_of_each(const Body *b, int inst, int axis)
{
    const BodyBuf *from = &b->bufs.at[b->insts.at[inst].buf];
    return (double)b->axis[0].extent * (double)b->axis[axis].extent *
           (double)b->axis[b->col].extent / (double)(from->elems > 0 ? from->elems : 1);
}

int tile_in_place(const Body *b)
{
    const DType acc = b->insts.at[b->dot.sum].acc;
    if (acc != DT_F32 && acc != DT_F64) return 0;
    const bool left = lies_apart(b, &b->insts.at[b->dot.a]),
               right = lies_apart(b, &b->insts.at[b->dot.b]);
    if (left && right)
        return reads_of_each(b, b->dot.a, 1) >= reads_of_each(b, b->dot.b, 2) ? 1 : 2;
    return left ? 1 : right ? 2 : 0;
}

// The tile if the operand with axis [rows] is read in place. The other operand is packed once for
// all rows of a task, so tasks have many rows.
static void cpu_rows(Body *b, int rows)
{
    enum { UNIT = 24, MOST = 40 * UNIT, TASKS = 64, COLUMNS = 384 };
    Schedule *s = &b->sched;
    const int cols = 3 - rows;
    const int64_t m = b->axis[rows].extent, n = b->axis[cols].extent, k = b->axis[b->col].extent;
    const int narrow = 32 / math_bytes(b->insts.at[b->dot.sum].acc); // elements of a vector
    int wide = n > narrow ? 2 * narrow : narrow;
    if (n <= narrow / 2 && narrow == 8 && lies_along(b, rows == 1 ? b->dot.a : b->dot.b))
        wide = narrow / 2; // with several rows in a vector
    // Twice as wide if that adds little padding.
    if (ceil_div(n, 2 * wide) * 14 <= ceil_div(n, wide) * 8) wide *= 2;
    const int64_t each = ceil_div(m * ceil_div(n, wide) * b->axis[0].extent, TASKS);
    int64_t most = each < MOST ? ceil_div(each, UNIT) * UNIT : MOST;
    if (most < 8 * UNIT) most = 8 * UNIT;
    if (m > 0) most = ceil_div(ceil_div(m, ceil_div(m, most)), UNIT) * UNIT; // tasks of equal size
    s->tile.m = (int)(rows == 1 ? most : wide);
    s->tile.n = (int)(rows == 1 ? wide : most);
    const int columns = wide > 2 * narrow ? COLUMNS / 2 : COLUMNS; // as the L1 cache holds
    s->tile.k = (int)ceil_div(k, ceil_div(k > 0 ? k : 1, columns));
    if (s->tile.k < 1) s->tile.k = 1;
}

// Splits change the order of additions, so they depend on shapes only, not on the number of cores.
static void cpu_tile(Body *b)
{
    Schedule *s = &b->sched;
    const int columns = tile_columns(b), rows = tile_in_place(b);
    if (rows) {
        cpu_rows(b, rows);
        return;
    }
    int64_t tiles = ceil_div(b->axis[1].extent, 32) * ceil_div(b->axis[2].extent, columns);
    s->tile.m = 32;
    s->tile.n = tiles * b->axis[0].extent >= 64 ? 4 * columns : columns;
    s->tile.k = 128; // both operands of a step fit in the L1 cache
}

static void cpu_row(Arena *a, Body *b)
{
    int64_t rows = body_rows(b), cols = b->axis[b->col].extent;
    b->sched.split = 1;
    keep_row(a, b);
    if (b->sched.task) return;
    if (schedule_can_split(b) && rows < 16 && cols >= 65536)
        b->sched.split = at_most(64, cols / 16384);
}

static void cpu_column(Arena *a, Body *b)
{
    int64_t rows = body_rows(b), cols = b->axis[b->col].extent;
    b->sched.task = at_most(rows > 0 ? rows : 1, 512);
    keep_columns(a, b);
    b->sched.split = 1;
    if (schedule_can_split(b) && rows < 4096 && cols >= 64 && rows * cols >= 65536)
        b->sched.split = at_most(16, cols / 32);
}

void plan_cpu(Arena *a, const Target *t, Body *b)
{
    switch (b->sched.kind) {
    case SCHED_TILE: cpu_tile(b); break;
    case SCHED_MAP: cpu_map(t, b); break;
    case SCHED_ROW: cpu_row(a, b); break;
    default: cpu_column(a, b); break;
    }
}
