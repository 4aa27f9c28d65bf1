// Bodies of attention, as its region is lowered to: scores that are weighted as they are.
#ifndef TESTS_UNIT_ATTENTION_BODY_H
#define TESTS_UNIT_ATTENTION_BODY_H

#include "tests/unit/tile.h"

typedef struct Case {
    const char *name;
    int scores, results;
    bool shared; // the values are the columns that scores are made of
    DType type;
    int64_t rows, cols, head;
    Schedule sched;
    bool masked; // weights are of scores below a diagonal, or a number
} Case;

enum { BATCH, ROWS, RESULT, COLS = RESULT + MOST_PRODUCTS, HEAD };

static inline int add(Arena *a, Body *b, Inst i)
{
    for (int k = 0; k < i.na; k++) i.axes |= b->insts.at[i.a[k]].axes;
    if (i.kind == KI_REDUCE) i.axes &= ~(1ull << i.axis);
    vec_push(a, &b->insts, i);
    return (int)b->insts.n - 1;
}

// Element (batch, place along [axis], place along [head]) of matrix number [buf], as a product
// takes it.
static inline int factor(Arena *a, Body *b, const Case *c, int buf, int axis, int head)
{
    const int64_t lines = b->axis[axis].extent;
    const Ix *at[3] = {ix_axis(b->ix, BATCH, 2), ix_axis(b->ix, axis, lines),
                       ix_axis(b->ix, head, c->head)};
    const int64_t dim[3] = {2, lines, c->head};
    int v = add(a, b,
                (Inst){.kind = KI_LOAD,
                       .type = c->type,
                       .pred = -1,
                       .buf = buf,
                       .ix = ix_linear(b->ix, at, dim, 3),
                       .axes = 1ull << BATCH | 1ull << axis | 1ull << head});
    if (c->type == DT_F32) return v;
    return add(a, b, (Inst){.kind = KI_CAST, .type = DT_F32, .from = c->type, .na = 1, .a = {v}});
}

static inline int product(Arena *a, Body *b, int x, int y, int axis, const Node *dot)
{
    int p = add(a, b, (Inst){.kind = KI_EW, .op = OP_mul, .type = DT_F32, .na = 2, .a = {x, y}});
    Inst sum = {.kind = KI_REDUCE, .op = OP_sum, .type = DT_F32, .acc = DT_F32, .na = 1, .a = {p}};
    sum.axis = axis;
    sum.node = dot;
    return add(a, b, sum);
}

// exp((row >= column ? score : -1e9) - a number of the row)
static inline int weight(Arena *a, Body *b, int score)
{
    Inst row = {.kind = KI_INDEX, .type = DT_I32, .axes = 1ull << ROWS},
         col = {.kind = KI_INDEX, .type = DT_I32, .axes = 1ull << COLS},
         of_row = {.kind = KI_LOAD, .type = DT_F32, .pred = -1, .buf = 5, .axes = 1ull << ROWS};
    row.ix = of_row.ix = ix_axis(b->ix, ROWS, b->axis[ROWS].extent);
    col.ix = ix_axis(b->ix, COLS, b->axis[COLS].extent);
    int x = add(a, b, row), y = add(a, b, col);
    int sees = add(a, b, (Inst){.kind = KI_EW, .op = OP_ge, .na = 2, .a = {x, y}});
    int below = add(a, b, (Inst){.kind = KI_CONST, .type = DT_F32, .fvalue = -1e9});
    Inst seen = {
        .kind = KI_EW, .op = OP_select, .type = DT_F32, .na = 3, .a = {sees, score, below}};
    x = add(a, b, seen);
    y = add(a, b, of_row);
    x = add(a, b, (Inst){.kind = KI_EW, .op = OP_sub, .type = DT_F32, .na = 2, .a = {x, y}});
    return add(a, b, (Inst){.kind = KI_EW, .op = OP_exp, .type = DT_F32, .na = 1, .a = {x}});
}

static inline Body *body_of(Arena *a, const Case *c, const Node *dot)
{
    Body *b = NEW(a, Body);
    const int64_t extent[] = {2, c->rows, c->head, c->head, c->cols, c->head, c->head};
    b->ix = ix_new(a);
    b->dot.sum = b->error_buf = -1;
    b->npar = RESULT + c->results;
    b->col = COLS;
    b->naxes = HEAD + MOST_PRODUCTS;
    for (int i = 0; i < b->naxes; i++) b->axis[i].extent = extent[i];
    for (int i = 0; i < 3 * MOST_PRODUCTS; i++)
        vec_push(a, &b->bufs, (BodyBuf){.kind = KA_NODE, .type = c->type, .elems = 1 << 20});
    int score[MOST_PRODUCTS];
    for (int i = 0; i < c->scores; i++)
        score[i] = product(a, b, factor(a, b, c, i, ROWS, HEAD + i),
                           factor(a, b, c, 2 + i, COLS, HEAD + i), HEAD + i, dot);
    if (c->masked) score[0] = weight(a, b, score[0]);
    if (c->masked && c->scores > 1)
        score[1] = add(
            a, b,
            (Inst){
                .kind = KI_EW, .op = OP_mul, .type = DT_F32, .na = 2, .a = {score[0], score[1]}});
    for (int i = 0; i < c->results; i++)
        product(a, b, score[i], factor(a, b, c, c->shared ? 2 + i : 4 + i, COLS, RESULT + i), COLS,
                dot);
    return b;
}

#endif
