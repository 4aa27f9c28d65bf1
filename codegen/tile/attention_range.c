// The range of columns that attention needs for a row. If a mask depends on positions only (causal,
// a sliding window), tiles of columns that are completely masked are neither read nor multiplied.
//
// A score that is set to minus infinity by a condition on positions has weight 0, so its value does
// not matter. The same holds for a finite number far below all other scores, which many models use
// instead; then the kernel checks that it is far below, and uses all columns if it is not.
// Conditions are comparisons of row and column with each other, with constants and with integers
// that are the same for all rows and columns (how much of a cache is filled, the length of a text,
// where this part of the columns begins), combined by `and`. A row whose columns are all masked
// with minus infinity is NaN either way.
#include "codegen/tile/tile.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_PLACE = 1 << 24 };  // up to here integers are exact as floats
enum { HIGHEST_MASK = -10000 }; // the number that models with 16-bit floats use as minus infinity

// Expressions are graphs with shared parts, so the number of paths may be exponential: the search
// gives up after this many visits.
enum { MOST_VISITS = 4096 };

typedef struct Look {
    const Body *b;
    int left;
} Look;

// A linear function of row and column, an integer known at run time, and an index over the batch:
// the left side of a bound.
typedef AttentionBound Linear;

static bool small(const Linear *x)
{
    return llabs(x->row) < MOST_PLACE && llabs(x->col) < MOST_PLACE &&
           llabs(x->constant) < MOST_PLACE;
}

static bool linear_index(const Body *b, const Ix *ix, Linear *out)
{
    int64_t row, col;
    IxCtx *c = b->ix;
    if (ix->has_value || !ix_stride(ix, 1, &row) || !ix_stride(ix, b->col, &col)) return false;
    const Ix *rest = ix_add(c, ix, ix_const(c, -ix->constant));
    rest = ix_add(c, rest, ix_scale(c, ix_axis(c, 1, b->axis[1].extent), -row));
    rest = ix_add(c, rest, ix_scale(c, ix_axis(c, b->col, b->axis[b->col].extent), -col));
    if (rest->axes & ~1ull || rest->low <= -MOST_PLACE || rest->high >= MOST_PLACE) return false;
    *out = (Linear){row, col, ix->constant, -1, 0, rest->n ? rest : NULL, .side = 1, .inst = -1};
    return true;
}

// Whether it loads an integer that is the same for all rows and columns of a batch element.
static bool is_shift(const Look *k, const Inst *v)
{
    return (v->type == DT_I32 || v->type == DT_I64) && v->kind == KI_LOAD && v->pred < 0 &&
           !v->ix->has_value && !(v->axes & (1ull << 1 | 1ull << k->b->col));
}

// x + by * y. false: the sum would have two integers known at run time, or two batch indices.
static bool add_up(const Linear *x, int by, const Linear *y, Linear *out)
{
    if ((x->shift >= 0 && y->shift >= 0) || (x->batch && y->batch)) return false;
    *out = *x;
    out->row += by * y->row;
    out->col += by * y->col;
    out->constant += by * y->constant;
    if (x->shift < 0) out->shift = y->shift, out->sign = by * y->sign;
    if (!x->batch) out->batch = y->batch, out->side = by * y->side;
    return small(out);
}

static bool linear(Look *k, int inst, Linear *out)
{
    const Body *b = k->b;
    if (k->left-- <= 0) return false;
    const Inst *v = &b->insts.at[inst];
    Linear x, y = {.shift = -1};
    bool exact = v->type == DT_I32 || v->type == DT_I64 || v->type == DT_F32 || v->type == DT_F64;
    if (!exact) return false;
    if (v->kind == KI_INDEX) return linear_index(b, v->ix, out) && small(out);
    if (is_shift(k, v)) {
        *out = (Linear){.shift = inst, .sign = 1};
        return true;
    }
    if (v->kind == KI_CAST) return linear(k, v->a[0], out);
    if (v->kind == KI_CONST) {
        bool whole = !dtype_is_float(v->type) ||
                     (fabs(v->fvalue) < MOST_PLACE && floor(v->fvalue) == v->fvalue);
        *out =
            (Linear){.constant = dtype_is_float(v->type) && whole ? (int64_t)v->fvalue : v->ivalue,
                     .shift = -1};
        return whole && small(out);
    }
    if (v->kind != KI_EW || (v->op != OP_add && v->op != OP_sub && v->op != OP_neg)) return false;
    if (!linear(k, v->a[0], &x) || (v->na > 1 && !linear(k, v->a[1], &y))) return false;
    if (v->op == OP_neg) return add_up(&y, -1, &x, out);
    return add_up(&x, v->op == OP_sub ? -1 : 1, &y, out);
}

// Adds the bound left >= right + least of two instructions, which follows from comparison [inst].
static void add_bound(Look *k, int left, int right, int64_t least, AttentionRange *r, int inst,
                      bool holds)
{
    Linear x, y, d;
    if (r->n == ATTENTION_BOUNDS || !linear(k, left, &x) || !linear(k, right, &y)) return;
    if (!add_up(&x, -1, &y, &d) || (d.col != 1 && d.col != -1)) return;
    d.constant -= least;
    d.inst = inst;
    d.holds = holds;
    r->at[r->n++] = d;
}

// Adds the bounds that follow from the condition if it is true, or (!holds) if it is false.
static void add_condition(Look *k, int inst, bool holds, AttentionRange *r)
{
    const Inst *v = &k->b->insts.at[inst];
    if (v->kind != KI_EW || k->left-- <= 0) return;
    const int x = v->a[0], y = v->a[1];
    switch (v->op) {
    case OP_not: add_condition(k, x, !holds, r); return;
    case OP_and:
    case OP_or:
        if ((v->op == OP_and) != holds) return; // only one of the two need hold: no bound follows
        add_condition(k, x, holds, r);
        add_condition(k, y, holds, r);
        return;
    case OP_ge:
    case OP_gt:
    case OP_le:
    case OP_lt: { // x >= y or x > y, or with x and y exchanged; their negations are y > x, y >= x
        const bool strict = v->op == OP_gt || v->op == OP_lt,
                   turned = (v->op == OP_le || v->op == OP_lt) == holds;
        add_bound(k, turned ? y : x, turned ? x : y, strict == holds, r, inst, holds);
        return;
    }
    default: return;
    }
}

static bool is_number(const Body *b, int inst, double number)
{
    const Inst *v = &b->insts.at[inst];
    return v->kind == KI_CONST && dtype_is_float(v->type) && v->fvalue == number;
}

// Whether the value is 0 wherever [exp] is 0, whatever its other operands are.
static bool vanishes(Look *k, int inst, int exp)
{
    const Body *b = k->b;
    if (k->left-- <= 0) return false;
    const Inst *v = &b->insts.at[inst];
    if (inst == exp || is_number(b, inst, 0)) return true;
    if (v->kind == KI_CAST) return vanishes(k, v->a[0], exp);
    if (v->kind != KI_EW) return false;
    switch (v->op) {
    case OP_mul: return vanishes(k, v->a[0], exp) || vanishes(k, v->a[1], exp);
    case OP_div:
    case OP_neg: return vanishes(k, v->a[0], exp);
    case OP_add:
    case OP_sub: return vanishes(k, v->a[0], exp) && vanishes(k, v->a[1], exp);
    case OP_select: return vanishes(k, v->a[1], exp) && vanishes(k, v->a[2], exp);
    case OP_fma:
        return (vanishes(k, v->a[0], exp) || vanishes(k, v->a[1], exp)) &&
               vanishes(k, v->a[2], exp);
    default: return false;
    }
}

// The exponential of scores that is a factor of all weights; -1: there is none.
static int common_exp(const Body *b)
{
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        const uint64_t scores = 1ull << 1 | 1ull << b->col;
        if (v->kind != KI_EW || v->op != OP_exp || (v->axes & scores) != scores) continue;
        bool all = true;
        for (int k = 0; k < b->attention.nouts; k++)
            all &= vanishes(&(Look){b, MOST_VISITS}, b->attention.out[k].weight, (int)i);
        if (all) return (int)i;
    }
    return -1;
}

// Whether the value is a constant that masks scores.
static bool is_mask(const Body *b, int inst)
{
    const Inst *v = inst_uncast(b, inst);
    return v->kind == KI_CONST && dtype_is_float(v->type) && v->fvalue <= HIGHEST_MASK;
}

// Narrows the indices low..high along an axis to those with step * index >= least.
static void narrow(int64_t step, int64_t least, int64_t *low, int64_t *high)
{
    int64_t size = llabs(step), up = least > 0 ? ceil_div(least, size) : -(-least / size);
    if (!step && least > 0)
        *high = *low - 1;
    else if (step > 0 && up > *low)
        *low = up;
    else if (step < 0 && -up < *high)
        *high = -up;
}

// Sets r->blind and r->blind_end: the first query (an index along that axis) for which all keys are
// masked, and one past the last.
static void find_blind(const Body *b, AttentionRange *r, int queries)
{
    const int keys = queries == 1 ? b->col : 1;
    r->blind = r->blind_end = 0;
    for (int64_t q = 0; q < b->axis[queries].extent; q++) {
        int64_t low = 0, high = b->axis[keys].extent - 1;
        for (int i = 0; i < r->n; i++) {
            const AttentionBound *x = &r->at[i];
            int64_t own = queries == 1 ? x->row : x->col, other = queries == 1 ? x->col : x->row;
            narrow(other, -x->constant - own * q, &low, &high);
        }
        if (low <= high) continue;
        if (!r->blind_end) r->blind = q;
        r->blind_end = q + 1;
    }
}

static void drop_shifted(AttentionRange *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        if (r->at[i].shift < 0 && !r->at[i].batch) r->at[n++] = r->at[i];
    r->n = n;
}

AttentionRange attention_range(const Body *b)
{
    AttentionRange r = {.n = 0, .mask = -INFINITY, .statistic = -1};
    int exp = common_exp(b);
    if (exp < 0) return r;
    const Inst *v = &b->insts.at[b->insts.at[exp].a[0]];
    if (v->kind != KI_EW || v->op != OP_sub) return r;
    r.statistic = v->a[1];
    v = &b->insts.at[v->a[0]];
    while (v->kind == KI_EW && v->op == OP_select) {
        bool otherwise = is_mask(b, v->a[2]), there = is_mask(b, v->a[1]);
        if (otherwise == there) break;
        int before = r.n;
        add_condition(&(Look){b, MOST_VISITS}, v->a[0], otherwise, &r);
        if (r.n > before) r.mask = fmax(r.mask, inst_uncast(b, v->a[otherwise ? 2 : 1])->fvalue);
        v = &b->insts.at[v->a[otherwise ? 1 : 2]];
    }
    // Here the rows without any unmasked column must be known at compile time: with minus infinity
    // their gradients are NaN, in every sum that contains them; with a number they need all
    // columns. So bounds known only at run time are dropped.
    if (b->attention.high < 0 || !isinf(r.mask)) drop_shifted(&r);
    int queries = b->insts.at[r.statistic].axes >> b->col & 1 ? b->col : 1;
    if (r.n && (b->attention.high < 0 || !isinf(r.mask))) find_blind(b, &r, queries);
    if (b->attention.high < 0 && isinf(r.mask) && r.blind_end) r.n = 0;
    for (int i = r.n; i-- > 0;)
        for (int k = i; k < r.n; k++) {
            if (r.at[k].shift == r.at[i].shift) r.at[k].first_shift = i;
            if (r.at[k].batch == r.at[i].batch) r.at[k].first_batch = i;
        }
    return r;
}

int64_t attention_columns_at(const Body *b, const AttentionRange *r, int64_t origin)
{
    int64_t from = 0, to = b->axis[b->col].extent;
    for (int i = 0; i < r->n; i++) {
        const AttentionBound *x = &r->at[i];
        int64_t row = origin + (x->row > 0 ? b->sched.tile.m - 1 : 0);
        int64_t bound = x->row * row + x->constant;
        if (x->col > 0 && -bound > from) from = -bound;
        if (x->col < 0 && bound + 1 < to) to = bound + 1;
    }
    return to > from ? to - from : 0;
}
