// Error bounds of sums, products of many factors and contractions: K roundings in any order.
//
// Adding K terms t in some order rounds K - 1 partial sums, none larger than sum |t|, so the error
// is never more than K u sum |t|. The roundings of different terms have either sign and grow like
// the square root of their number. Those of equal terms are alike, since each meets partial sums on
// the same grid. With n the number of times that a term occurs, the terms therefore count as
// sqrt(sum n^2), which is between sqrt(K) and K.
#include <float.h>
#include <string.h>

#include "ir/axes.h"
#include "ir/bound_ops.h"

// Whether all elements of v are whole numbers, for any values within their errors.
static bool are_whole(const Value *v)
{
    int64_t n = type_count(&v->type);
    for (int64_t i = 0; i < n && value_is_float(v); i++) {
        if (v->f[i] != rint(v->f[i])) return false;
        for (int side = 0; side < 2 && v->error[side]; side++)
            if (v->error[side][i] != rint(v->error[side][i])) return false;
    }
    return true;
}

// -- equal terms ----------------------------------------------------------------------------------

// An entry of a hash table that counts equal numbers, with open addressing and at least twice as
// many slots as numbers. A slot is in use if it has the number of the current round, so the table
// need not be cleared.
typedef struct Tally {
    double value;
    int64_t n, round;
} Tally;

static Tally *tally_of(Tally *table, int bits, int64_t round, double value)
{
    uint64_t key;
    memcpy(&key, &value, sizeof key);
    uint64_t at = key * 0x9e3779b97f4a7c15u >> (64 - bits), last = ((uint64_t)1 << bits) - 1;
    while (table[at].round == round && table[at].value != value) at = (at + 1) & last;
    if (table[at].round != round) table[at] = (Tally){value, 0, round};
    return &table[at];
}

// Offsets of the elements that differ only in their index on these axes, relative to the first one.
static int64_t *offsets(Arena *a, const Type *t, const int64_t *axes, int naxes, int64_t *count)
{
    int64_t own[MAX_RANK], n = 1, *at = NEW_ARRAY(a, int64_t, type_extent(t, axes, naxes) + 1);
    type_strides(t, own);
    for (int k = naxes; k-- > 0; n *= t->dim[axes[k]])
        for (int64_t i = n * t->dim[axes[k]]; i-- > 0;) at[i] = at[i % n] + i / n * own[axes[k]];
    *count = n;
    return at;
}

static int other_axes(const Type *t, const int64_t *axes, int naxes, int64_t *other)
{
    int n = 0;
    for (int i = 0; i < t->rank; i++) {
        bool taken = false;
        for (int k = 0; k < naxes; k++) taken |= axes[k] == i;
        if (!taken) other[n++] = i;
    }
    return n;
}

typedef struct Alike {
    double *times; // how often the element's value occurs in its sum; 1 for elements that are 0
    double *pairs; // by index on the other axes: the sum of [times] over the terms of that sum
} Alike;

// Counts equal elements among those that are summed over the given axes.
static Alike alike(Arena *a, const Value *v, const int64_t *axes, int naxes, const int64_t *kept,
                   int nkept)
{
    int64_t K, sums, *at = offsets(a, &v->type, axes, naxes, &K);
    int64_t *begin = offsets(a, &v->type, kept, nkept, &sums);
    Alike out = {NEW_ARRAY(a, double, K *sums + 1), NEW_ARRAY(a, double, sums + 1)};
    int bits = 1;
    while (((int64_t)1 << bits) < 2 * K) bits++;
    Tally *table = NEW_ARRAY(a, Tally, (int64_t)1 << bits), **of = NEW_ARRAY(a, Tally *, K + 1);
    for (int64_t s = 0; s < sums; s++) {
        for (int64_t k = 0; k < K; k++) {
            double x = value_get(v, begin[s] + at[k]);
            x = isnan(x) ? INFINITY : x == 0 ? 0 : x; // (both zeros count as one value)
            of[k] = tally_of(table, bits, s + 1, x);
            of[k]->n += of[k]->n == 0 || x != 0;
        }
        for (int64_t k = 0; k < K; k++) {
            out.times[begin[s] + at[k]] = (double)of[k]->n;
            out.pairs[s] += (double)of[k]->n;
        }
    }
    return out;
}

static Alike alike_over(Arena *a, const Value *v, const int64_t *axes, int naxes)
{
    int64_t kept[MAX_RANK];
    int nkept = other_axes(&v->type, axes, naxes, kept);
    return alike(a, v, axes, naxes, kept, nkept);
}

// -- what adding up loses -------------------------------------------------------------------------

typedef struct Terms {
    double count, pairs, size; // K, sum n^2, sum |terms|
    bool whole;                // all terms are whole numbers
} Terms;

// Error of a sum in type t. Sums of whole numbers are exact while the type can represent them.
static double lost(DType t, const Terms *s)
{
    double u = bound_epsilon(t), most = larger(s->count, BOUND_SLACK);
    if (!dtype_is_float(t) || (s->whole && s->size * u < 2)) return 0;
    return s->size > bound_largest(t) ? INFINITY : u * s->size * smaller(4 * sqrt(s->pairs), most);
}

static DType accumulator(const Node *n)
{
    return (DType)attr_int(n, ATTR_accumulate, dtype_accumulator(n->type.dtype));
}

// Adds the rounding error of element i as a sum of these terms.
static void add_lost(const Node *n, Value *out, int64_t i, const Terms *s)
{
    double v = value_get(out, i), error[] = {out->error[BELOW][i], out->error[ABOVE][i]};
    double sum = lost(accumulator(n), s);
    bool rounds = s->size > 0 || error[BELOW] + error[ABOVE] > 0;
    if (isfinite(v) && !s->whole && rounds && value_is_float(out))
        sum += bound_lost(n->type.dtype, v);
    if (s->size == fabs(v)) {
        bound_add_rounding(error, v, sum); // all terms have the same sign
    } else {
        error[BELOW] += sum;
        error[ABOVE] += sum;
    }
    for (int k = 0; k < 2; k++) out->error[k][i] = error[k];
}

// For each result of a reduction, how many of its terms are uncertain.
static const double *doubts(Eval *e, const Node *n, const Value *v, const Value *out)
{
    return bound_rerun(e, eval_sum, n, (Value *[]){bound_part(e, v, DOUBT)}, &out->type);
}

// -- sums -----------------------------------------------------------------------------------------

// Sums the errors of the terms. Returns whether rounding errors must be added, too.
static bool sum_errors(Eval *e, const Node *n, const Value *v, Value *out, int64_t K)
{
    if (!v->error[0] && (!value_is_float(out) || K < 2)) return false;
    value_errors(e->env->arena, out);
    for (int side = 0; side < 2 && v->error[side]; side++)
        out->error[side] = bound_over(e, n, v, (Part)side, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) // inf, but possibly also -inf
        if (!isfinite(value_get(out, i)) && larger(out->error[0][i], out->error[1][i]) == INFINITY)
            out->error[0][i] = out->error[1][i] = INFINITY;
    return K > 1 && value_is_float(out);
}

void bound_sum(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    Terms s = {.count = (double)reduced_count(n), .whole = are_whole(v)};
    int naxes;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes), count = type_count(&out->type);
    if (sum_errors(e, n, v, out, reduced_count(n))) {
        const double *size = bound_over(e, n, v, MAGNITUDE, out);
        const double *pairs = alike_over(e->env->arena, v, axes, naxes).pairs;
        for (int64_t i = 0; i < count; i++) {
            s.size = size[i], s.pairs = pairs[i];
            add_lost(n, out, i, &s);
        }
    }
    if (out->error[0] && bound_marks_maximum(n->args[0]))
        for (int64_t i = 0; i < count; i++)
            out->error[BELOW][i] = smaller(out->error[BELOW][i], larger(value_get(out, i) - 1, 0));
}

void bound_cumsum(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    const int64_t axis = attr_int(n, ATTR_axis, 0), K = n->type.dim[axis];
    if (!sum_errors(e, n, v, out, K)) return;
    Terms s = {.count = (double)K, .whole = are_whole(v)};
    const double *size = bound_over(e, n, v, MAGNITUDE, out);
    const double *pairs = alike_over(e->env->arena, v, &axis, 1).pairs;
    int64_t inner = 1;
    for (int k = (int)axis + 1; k < n->type.rank; k++) inner *= n->type.dim[k];
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        s.size = size[i], s.pairs = pairs[i / (K * inner) * inner + i % inner];
        add_lost(n, out, i, &s);
    }
}

// All updates of a row and the row's old value are terms of one sum. Equal terms are counted among
// all updates of the column, which is an upper bound.
void bound_scatter_add(Eval *e, const Node *n, Value *const *args, Value *out)
{
    bound_scatter(e, n, args, out);
    if (!value_is_float(out)) return;
    if (!out->error[0]) value_errors(e->env->arena, out);
    Arena *a = e->env->arena;
    const int64_t axis = attr_int(n, ATTR_axis, 0), count = type_count(&out->type);
    Value *sizes[] = {bound_part(e, args[0], MAGNITUDE), args[1],
                      bound_part(e, args[2], MAGNITUDE)};
    Value none = value_new(a, &sizes[0]->type), ones = value_new(a, &sizes[2]->type);
    for (int64_t i = 0; i < type_count(&ones.type); i++) ones.f[i] = 1;
    Value *unit[] = {&none, args[1], &ones};
    const double *size = bound_rerun(e, eval_scatter_add, n, sizes, &out->type);
    const double *times = bound_rerun(e, eval_scatter_add, n, unit, &out->type);
    const double *pairs = alike_over(a, args[2], &axis, 1).pairs;
    Terms s = {.whole = are_whole(args[0]) && are_whole(args[2])};
    int64_t inner = 1, K = n->type.dim[axis];
    for (int k = (int)axis + 1; k < n->type.rank; k++) inner *= n->type.dim[k];
    for (int64_t i = 0; i < count; i++) {
        if (times[i] == 0) continue;
        s.count = times[i] + 1, s.size = size[i];
        s.pairs = pairs[i / (K * inner) * inner + i % inner] + 1;
        add_lost(n, out, i, &s);
    }
}

// The sum of (d + e)^2, where e is the error of the deviation d, differs from D, the sum of d^2, by
// at most 2 sqrt(D E) + E (Cauchy-Schwarz), where E is the sum of e^2. e has a part from the
// element itself and one from the mean, which is the same for all. Equal elements have equal
// squares.
void bound_sqdev(Eval *e, const Node *n, Value *const *args, Value *out)
{
    int naxes;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    double *reach =
        bound_rerun(e, eval_sum, n, (Value *[]){bound_part(e, args[0], REACH_SQUARE)}, &out->type);
    const double *doubt = doubts(e, n, args[0], out);
    const double K = (double)reduced_count(n);
    const double *size =
        bound_rerun(e, eval_sum, n, (Value *[]){bound_part(e, args[0], MAGNITUDE)}, &out->type);
    const double *pairs = alike_over(e->env->arena, args[0], axes, naxes).pairs;
    value_errors(e->env->arena, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        if (!isfinite(out->f[i])) {
            out->error[BELOW][i] = out->error[ABOVE][i] = doubt[i] > 0 ? INFINITY : 0;
            continue;
        }
        Terms all = {.count = K, .pairs = pairs[i], .size = size[i]};
        double v = out->f[i], mean = lost(accumulator(n), &all) / K;
        double off = sqrt(reach[i]) + sqrt(K) * mean,
               error = (v > 0 ? 2 * sqrt(v) * off : 0) + off * off;
        Terms s = {.count = K, .pairs = pairs[i], .size = v};
        out->error[BELOW][i] = smaller(error, v);
        out->error[ABOVE][i] = error;
        add_lost(n, out, i, &s);
    }
}

// -- products of many factors ---------------------------------------------------------------------

// Of prod and cumprod. Factors may be multiplied in any order. The product of all factors above 1
// is the largest partial product: it may overflow even if the whole product does not, and then meet
// a zero from a partial product that underflowed. An underflow loses at most the smallest number,
// times the factors above 1.
void bound_prod(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    if (!v->error[0] && !value_is_float(out)) return;
    const double *size = bound_over(e, n, v, MAGNITUDE, out);
    const double *high = bound_over(e, n, v, LARGEST, out);
    const double *grown = bound_over(e, n, v, GROWING, out);
    const double *shrunk = bound_over(e, n, v, SHRINKING, out);
    const double *doubt = doubts(e, n, v, out);
    DType acc = accumulator(n);
    const bool runs = op_info(n->op)->running;
    double K = (double)(runs ? n->type.dim[attr_int(n, ATTR_axis, 0)] : reduced_count(n)),
           least = bound_rounding(acc, 0);
    value_errors(e->env->arena, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        double x = value_get(out, i), error[2] = {0};
        bool real = value_is_float(out), over = real && grown[i] > bound_largest(acc);
        if (isnan(x)) out->error[BELOW][i] = out->error[ABOVE][i] = doubt[i] > 0 ? INFINITY : 0;
        if (isnan(x)) continue; // (inf * 0, either of which may be another number)
        if (isfinite(x)) bound_admit(error, size[i], high[i]);
        if (over && (isfinite(x) || shrunk[i] < least)) error[ABOVE] = INFINITY;
        if (real && isfinite(x) && K > 1)
            error[ABOVE] += larger(K, BOUND_SLACK) * bound_epsilon(acc) * size[i] +
                            (shrunk[i] < least ? K * least * grown[i] : 0) +
                            bound_lost(n->type.dtype, x);
        for (int side = 0; side < 2; side++) out->error[side][i] = error[ABOVE];
    }
}

// -- contractions ---------------------------------------------------------------------------------

// Element i of a contraction depends on this row of the left operand and this column of the right.
static void row_and_column(const DotSizes *d, int64_t i, int64_t place[2])
{
    place[0] = i / d->n;
    place[1] = i / d->n / d->m * d->n + i % d->n;
}

static Alike alike_in(Arena *a, const Node *n, const Value *v, int side)
{
    DotAxes x = dot_axes(n, side);
    int64_t kept[MAX_RANK];
    for (int i = 0; i < x.nbatch; i++) kept[i] = x.batch[i];
    for (int i = 0; i < x.nfree; i++) kept[x.nbatch + i] = x.free[i];
    return alike(a, v, x.contract, x.ncontract, kept, x.nbatch + x.nfree);
}

static double *by_side(Eval *e, const Node *n, Value *x, Value *y, int side, const Value *out)
{
    return bound_rerun(e, eval_dot, n, side ? (Value *[]){y, x} : (Value *[]){x, y}, &out->type);
}

static bool are_zero(const Value *v)
{
    int64_t i = 0, n = type_count(&v->type);
    while (i < n && v->f[i] == 0) i++;
    return i == n;
}

// The sum of x y over the contracted axes, with each x multiplied by how often its value occurs.
static double *weighed(Eval *e, const Node *n, Value *x, const Alike *in, Value *y, int side,
                       const Value *out)
{
    for (int64_t i = 0; i < type_count(&x->type); i++) x->f[i] *= in->times[i];
    return by_side(e, n, x, y, side, out);
}

// The error of rounding f32 operands to tf32, at most 2^-10 of each product. The errors of
// different terms count as independent, those of equal elements as equal; together they are at most
// the sum of all.
static void add_tf32(Eval *e, const Node *n, Value *const *v, const Alike in[2], const double *size,
                     Value *out)
{
    double *square[2];
    for (int k = 0; k < 2; k++)
        square[k] = weighed(e, n, bound_part(e, v[k], SQUARE), &in[k],
                            bound_part(e, v[1 - k], SQUARE), k, out);
    for (int64_t i = 0; i < type_count(&out->type); i++) {
        double either = BOUND_SLACK * sqrt(square[0][i] + square[1][i]);
        double lost = 0x1p-10 * smaller(either, 2.01 * size[i]);
        for (int side = 0; side < 2; side++) out->error[side][i] += lost;
    }
}

// (a + da)(b + db) - a b is at most da (b + db) + a db. These errors count as independent, so they
// add as the root of the sum of their squares, except where elements of an operand are equal.
// Errors of elements that are off by a whole step are few, and either 0 or complete: they are added
// up.
void bound_dot(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *a = args[0], *b = args[1];
    bool real = value_is_float(out);
    if (!real && !a->error[0] && !b->error[0]) return;
    int64_t count = type_count(&out->type), place[2];
    DotSizes shape = dot_sizes(n);
    Alike in[2] = {alike_in(e->env->arena, n, a, 0), alike_in(e->env->arena, n, b, 1)};
    Terms s = {.count = (double)reduced_count(n), .whole = are_whole(a) && are_whole(b)};
    value_errors(e->env->arena, out);
    double *below = out->error[BELOW], *above = out->error[ABOVE];
    for (int side = 0; side < 2; side++) {
        if (!args[side]->error[0]) continue;
        Value *x = bound_part(e, args[side], ERROR_SQUARE);
        Value *y = bound_part(e, args[1 - side], side ? SQUARE : LARGEST_SQUARE);
        double *sum = weighed(e, n, x, &in[side], y, side, out);
        for (int64_t i = 0; i < count; i++) below[i] += sum[i];
        x = bound_part(e, args[side], STEP);
        if (are_zero(x)) continue;
        y = bound_part(e, args[1 - side], LARGEST);
        for (int64_t i = 0; i < type_count(&y->type); i++) // inf times a possible 0 may be
                                                           // anything; so may 0 times a possible
                                                           // inf
            y->f[i] = smaller(larger(y->f[i], DBL_MIN), DBL_MAX);
        sum = by_side(e, n, x, y, side, out);
        for (int64_t i = 0; i < count; i++) above[i] += sum[i];
    }
    Value *sizes[] = {bound_part(e, a, MAGNITUDE), bound_part(e, b, MAGNITUDE)};
    double *size = bound_rerun(e, eval_dot, n, sizes, &out->type);
    for (int64_t i = 0; i < count; i++) {
        above[i] += isnan(below[i]) ? 0 : sqrt(below[i]); // NaN is inf times no error
        if (above[i] > bound_largest(n->type.dtype)) above[i] = INFINITY;
        below[i] = above[i];
        row_and_column(&shape, i, place);
        s.size = size[i], s.pairs = smaller(in[0].pairs[place[0]], in[1].pairs[place[1]]);
        add_lost(n, out, i, &s);
    }
    if (e->env->tf32 && a->type.dtype == DT_F32 && b->type.dtype == DT_F32)
        add_tf32(e, n, args, in, size, out);
}

void bound_repair(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *y = args[2];
    Type dot;
    int64_t *place;
    eval_repair_places(e->env->arena, n, &dot, &place);
    Value exact = value_new(e->env->arena, &dot);
    eval_dot(e, n, args, &exact);
    bound_dot(e, n, args, &exact);
    if (!exact.error[0] && !y->error[0]) return;
    value_errors(e->env->arena, out);
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < type_count(&out->type); i++) {
            const double own = y->error[0] ? y->error[side][i] : 0,
                         other = exact.error[0] ? exact.error[side][place[i]] : 0;
            out->error[side][i] = larger(own, other);
        }
}
