// Merge sort on CUDA of rows too long for shared memory: runs that fit are sorted there, then pairs
// of neighbouring runs are merged until a row is one run. What is sorted are indices within the
// row; values are read through them. For each element a binary search counts the elements of the
// other run that come before it, which gives its position in the merged run. Ties are broken by
// index, so the sort is stable.
#include <math.h>

#include "codegen/lower/lower.h"

enum { RUN = 4096 };

typedef struct Merge {
    LowerCtx *ctx;
    Graph *g;
    const Group *group;
    const Node *n;
    int64_t axis, rows, cols;
    bool down;
} Merge;

static int choose(Lower *l, int condition, int a, int b)
{
    DType t = l->body->insts.at[a].type;
    return lower_ew(l, OP_select, t, (int[]){condition, a, b}, 3, NULL);
}

// The operand's element in a row.
static int element(const Merge *m, Lower *l, const Ix *row, const Ix *col, int pred)
{
    const Ix *at[MAX_RANK];
    lower_around(l->body->ix, &m->n->args[0]->type, m->axis, row, col, at);
    return lower_value(l, m->n->args[0], at, pred);
}

// Whether a comes before b in the order, not considering positions. NaN is last (if descending,
// first).
static int before(const Merge *m, Lower *l, int a, int b)
{
    DType t = l->body->insts.at[a].type;
    int first = m->down ? b : a, second = m->down ? a : b;
    int less = lower_two(l, OP_lt, DT_BOOL, first, second);
    if (!dtype_is_float(t)) return less;
    int odd = lower_two(l, OP_ne, DT_BOOL, second, second),
        even = lower_two(l, OP_eq, DT_BOOL, first, first);
    return lower_two(l, OP_or, DT_BOOL, less, lower_two(l, OP_and, DT_BOOL, odd, even));
}

// A value that is not before any other; elements with it are last because of their positions.
static int behind_all(const Merge *m, Lower *l, DType t)
{
    Inst v = {.kind = KI_CONST, .type = t};
    if (dtype_is_float(t))
        v.fvalue = m->down ? -(double)INFINITY : (double)NAN;
    else if (m->down)
        v.ivalue = t == DT_I32 ? INT32_MIN : t == DT_I64 ? INT64_MIN : 0;
    else
        v.ivalue = t == DT_I32   ? INT32_MAX
                   : t == DT_I64 ? INT64_MAX
                   : t == DT_U32 ? UINT32_MAX
                   : t == DT_U8  ? 255
                                 : 1;
    return lower_inst(l, v);
}

// One of two scratch buffers of positions, which are used alternately.
static int places(const Merge *m, Lower *l, int which)
{
    int buf = lower_buf(l, KA_SCRATCH, NULL, DT_I32, m->rows * m->cols);
    l->body->bufs.at[buf].scratch = which;
    return buf;
}

static const Ix *flat(const Merge *m, Lower *l, const Ix *row, const Ix *col)
{
    IxCtx *c = l->body->ix;
    return ix_add(c, ix_scale(c, row, m->cols), col);
}

static bool finish(const Merge *m, Lower *l, BodyList *out)
{
    if (l->failed) return lower_failed(l, m->n);
    lower_finish(l);
    vec_push(m->ctx->arena, out, l->body);
    return true;
}

// Sorts runs of [run] columns; the last run of a row may be shorter.
static bool sort_runs(const Merge *m, int64_t run, BodyList *out)
{
    Lower l = lower_begin(m->ctx, m->g, m->group);
    IxCtx *c = l.body->ix;
    int64_t runs = ceil_div(m->cols, run), all = m->rows * runs;
    DType t = m->n->args[0]->type.dtype;
    const Ix *line = ix_axis(c, lower_new_axis(&l, all), all);
    l.body->npar = 1;
    l.body->serial_cols = true;
    l.body->col = lower_new_axis(&l, run);
    const Ix *row = ix_div(c, line, runs), *first = ix_scale(c, ix_mod(c, line, runs), run);
    const Ix *col = ix_add(c, first, ix_axis(c, l.body->col, run));
    int inside = -1, v;
    if (m->cols % run) {
        int at = lower_index(&l, col);
        int end = lower_const_int(&l, l.body->insts.at[at].type, m->cols);
        inside = lower_two(&l, OP_lt, DT_BOOL, at, end);
    }
    v = element(m, &l, row, col, inside);
    if (inside >= 0) v = choose(&l, inside, v, behind_all(m, &l, t));
    v = lower_inst(&l, (Inst){.kind = KI_SORT,
                              .type = DT_I32,
                              .acc = t,
                              .na = 1,
                              .a = {v},
                              .axis = l.body->col,
                              .down = m->down,
                              .places = true,
                              .node = m->n});
    v = lower_two(&l, OP_add, DT_I32, v, lower_cast(&l, lower_index(&l, first), DT_I32, NULL));
    lower_store(&l, places(m, &l, 0), flat(m, &l, row, col), v);
    l.body->stores.at[0].guard = inside + 1;
    return finish(m, &l, out);
}

// Merges runs of [run] columns, a power of two, to runs twice as long: from one buffer of positions
// to the other, or to the result the last time.
static bool merge_runs(const Merge *m, int64_t run, int from, BodyList *out)
{
    Lower l = lower_begin(m->ctx, m->g, m->group);
    IxCtx *c = l.body->ix;
    DType it = DT_I32;
    const Ix *row = ix_axis(c, lower_new_axis(&l, m->rows), m->rows);
    const Ix *col = ix_axis(c, lower_new_axis(&l, m->cols), m->cols);
    l.body->npar = 2;
    int in = places(m, &l, from);
    l.body->bufs.at[in].read = true;
    int mine = lower_inst(
        &l,
        (Inst){.kind = KI_LOAD, .type = it, .buf = in, .pred = -1, .ix = flat(m, &l, row, col)});
    const Ix *at = ix_value(c, mine, 0, m->cols - 1, l.body->insts.at[mine].axes);
    int x = element(m, &l, row, at, -1);
    int here = lower_index(&l, col), within = lower_index(&l, ix_mod(c, col, 2 * run));
    int width = lower_const_int(&l, it, run), zero = lower_const_int(&l, it, 0);
    int left = lower_two(&l, OP_lt, DT_BOOL, within, width);
    int first = lower_two(&l, OP_sub, it, here, within); // index of the first run of both
    int other = lower_two(&l, OP_add, it, first, choose(&l, left, width, zero));
    int rest = lower_two(&l, OP_sub, it, lower_const_int(&l, it, m->cols), other);
    int length = lower_two(&l, OP_maximum, it, lower_two(&l, OP_minimum, it, rest, width), zero),
        count = zero;
    for (int64_t step = run; step; step /= 2) {
        int t = lower_two(&l, OP_add, it, count, lower_const_int(&l, it, step));
        int exists = lower_two(&l, OP_le, DT_BOOL, t, length);
        int place = lower_two(&l, OP_add, it, other,
                              lower_two(&l, OP_sub, it, t, lower_const_int(&l, it, 1)));
        const Ix *there = ix_value(c, place, 0, m->cols - 1, l.body->insts.at[place].axes);
        int theirs = lower_inst(&l, (Inst){.kind = KI_LOAD,
                                           .type = it,
                                           .buf = in,
                                           .pred = exists,
                                           .ix = flat(m, &l, row, there)});
        there = ix_value(c, theirs, 0, m->cols - 1, l.body->insts.at[theirs].axes);
        int y = element(m, &l, row, there, exists);
        int behind = choose(&l, left, before(m, &l, y, x), lower_not(&l, before(m, &l, x, y)));
        count = choose(&l, lower_two(&l, OP_and, DT_BOOL, exists, behind), t, count);
    }
    // (an element of the right run comes after the left run's element that has its present
    // position)
    int moved = lower_two(&l, OP_sub, it, count, choose(&l, left, zero, width));
    int place = lower_two(&l, OP_add, it, here, moved);
    const Ix *to = ix_value(c, place, 0, m->cols - 1, l.body->insts.at[place].axes);
    if (run * 2 < m->cols) {
        lower_store(&l, places(m, &l, 1 - from), flat(m, &l, row, to), mine);
        return finish(m, &l, out);
    }
    const Ix *idx[MAX_RANK];
    const Type *t = &m->n->type;
    lower_around(c, t, m->axis, row, to, idx);
    int v = m->n->op == OP_argsort ? lower_cast(&l, mine, t->dtype, m->n) : x;
    return lower_deliver(&l, m->n, ix_linear(c, idx, t->dim, t->rank), v, out);
}

bool lower_merge(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out)
{
    const Type *t = &n->args[0]->type;
    Merge m = {.ctx = ctx, .g = g, .group = group, .n = n, .axis = attr_int(n, ATTR_axis, 0)};
    m.rows = lower_rows_around(t, m.axis);
    m.cols = t->dim[m.axis];
    m.down = attr_int(n, ATTR_descending, 0) != 0;
    int64_t run = RUN;
    int from = 0;
    while (!sort_fits(ctx->target, run, t->dtype)) run /= 2;
    if (!sort_runs(&m, run, out)) return false;
    for (; run < m.cols; run *= 2, from = 1 - from)
        if (!merge_runs(&m, run, from, out)) return false;
    return true;
}
