// Reductions over any axes (every such row of the op table), products, and what runs along an axis.
#include <math.h>
#include <string.h>

#include "tests/fuzz/programs/programs.h"

// -- reductions -----------------------------------------------------------------------------------

// An earlier reduction, whose operand and axes another one may share: they become one kernel. -1:
// there is none.
static int earlier(Maker *m)
{
    int found = -1, n = 0;
    for (int i = 0; i < m->d->n; i++)
        if (op_info(m->d->at[i].op)->class == CLS_REDUCE && random_below(&m->random, ++n) == 0)
            found = i;
    return found;
}

// As axes_of reads it.
static void along_longest(const Type *t, Statement *s)
{
    uint32_t longest = 0;
    for (int i = 1; i < t->rank; i++)
        if (t->dim[i] > t->dim[longest]) longest = (uint32_t)i;
    s->raw[0] = 1u << longest;
    s->raw[1] |= 1;
}

static bool choose_reduce(Maker *m, Statement *s)
{
    static const Op ops[] = {
#define EW(...)
#define OP(...)
#define RE(id, ...) OP_##id,
#include "ir/ops.def"
#undef EW
#undef OP
    };
    const int n = sizeof ops / sizeof *ops;
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->op = random_chance(&m->random, 40) ? OP_sum : ops[random_below(&m->random, n)];
    s->n = 1;
    int dice = random_below(&m->random, 100), other = dice % 5 < 2 ? earlier(m) : -1;
    if (other >= 0) {
        const Statement *o = &m->d->at[other];
        memcpy(s->raw, o->raw, sizeof s->raw);
        s->arg[0] = o->arg[0];
        if (random_chance(&m->random, 60)) // places and sums have loops of their own
            s->op = o->op == OP_argmax ? OP_sum : OP_argmax;
        return true;
    }
    s->arg[0] = pick_class(m, dice < 80 ? CLASS_FLOAT : dice < 95 ? CLASS_INT : CLASS_BOOL, 1);
    if (s->arg[0] >= 0 && random_chance(&m->random, 30))
        along_longest(&m->d->at[s->arg[0]].type, s);
    return s->arg[0] >= 0;
}

static int axes_of(const Statement *s, int rank, int64_t *axes)
{
    int n = 0;
    if (op_info(s->op)->acc == ACC_PLACE) { // of several axes the first
        for (axes[0] = 0; axes[0] + 1 < rank && !(s->raw[0] >> axes[0] & 1);) axes[0]++;
        return 1;
    }
    if (s->raw[1] % 4 == 0) { // one end, which most programs sum over
        axes[0] = s->raw[0] % 2 ? rank - 1 : 0;
        return 1;
    }
    for (int i = 0; i < rank; i++)
        if (s->raw[0] >> i & 1) axes[n++] = i;
    if (!n) axes[n++] = rank - 1;
    return n;
}

static bool keeps(const Statement *s)
{
    return s->raw[2] % 3 == 0 && op_info(s->op)->acc != ACC_PLACE;
}

static void sample_reduce(const Draft *d, Statement *s, double count)
{
    const Statement *a = operand(d, s, 0);
    double mean = 0, high = -INFINITY, low = INFINITY, square = 0;
    for (int k = 0; k < SAMPLES; k++) {
        mean += a->sample[k] / SAMPLES;
        square += a->sample[k] * a->sample[k] / SAMPLES;
        high = fmax(high, a->sample[k]);
        low = fmin(low, a->sample[k]);
    }
    double spread = sqrt(fmax(square - mean * mean, 0) * count);
    for (int k = 0; k < SAMPLES; k++) {
        double turn = (k - 3.5) / 2;
        switch (op_info(s->op)->acc) {
        case ACC_SUM: s->sample[k] = mean * count + turn * spread; break;
        case ACC_PROD: s->sample[k] = pow(fmax(fabs(high), fabs(low)), fmin(count, 64)); break;
        case ACC_MAX: s->sample[k] = high - k * 0.1 * (high - low); break;
        case ACC_MIN: s->sample[k] = low + k * 0.1 * (high - low); break;
        case ACC_MOMENTS: s->sample[k] = (square - mean * mean) * count * (0.5 + 0.1 * k); break;
        default: s->sample[k] = floor(count * k / SAMPLES);
        }
    }
}

static bool derive_reduce(const Draft *d, Statement *s)
{
    const Type *t = &operand(d, s, 0)->type;
    const Accumulate acc = op_info(s->op)->acc;
    int64_t axes[MAX_RANK];
    if (!t->rank || (acc == ACC_MOMENTS && !dtype_is_float(t->dtype))) return false;
    if (t->dtype == DT_BOOL && acc != ACC_SUM) return false;
    int n = axes_of(s, t->rank, axes), at = 0;
    s->type = (Type){.dtype = t->dtype};
    for (int i = 0; i < t->rank; i++) {
        if (at < n && axes[at] == i) {
            at++;
            if (!keeps(s)) continue;
            s->type.dim[s->type.rank++] = 1;
        } else {
            s->type.dim[s->type.rank++] = t->dim[i];
        }
    }
    if (acc == ACC_PLACE) s->type.dtype = DT_I32;
    if ((acc == ACC_SUM || acc == ACC_PROD) && !dtype_is_float(t->dtype)) s->type.dtype = DT_I64;
    sample_reduce(d, s, (double)type_extent(t, axes, n));
    s->smooth =
        dtype_is_float(s->type.dtype) ? operand(d, s, 0)->smooth | 1ull << number_of(d, s) : 0;
    return true;
}

static void print_reduce(const Draft *d, const Statement *s, Buf *out)
{
    int64_t axes[MAX_RANK];
    int n = axes_of(s, operand(d, s, 0)->type.rank, axes);
    buf_printf(out, "    v%d = %s(", number_of(d, s), op_info(s->op)->name);
    print_operand(d, s, 0, out);
    buf_str(out, ", ");
    if (n == 1)
        buf_printf(out, "%lld", (long long)axes[0]);
    else
        print_list(axes, n, out);
    buf_str(out, keeps(s) ? ", keep = true)\n" : ")\n");
}

// -- products -------------------------------------------------------------------------------------

static bool multiplies(const Statement *s, const void *arg)
{
    const Type *a = arg;
    if (!dtype_is_float(s->type.dtype) || s->type.rank < 2 || a->rank < 2) return false;
    if (s->type.dim[s->type.rank - 2] != a->dim[a->rank - 1]) return false;
    for (int i = 3; i <= s->type.rank && i <= a->rank; i++) {
        int64_t x = s->type.dim[s->type.rank - i], y = a->dim[a->rank - i];
        if (x != y && x != 1 && y != 1) return false;
    }
    return true;
}

static bool choose_matmul(Maker *m, Statement *s)
{
    s->n = 2;
    s->raw[0] = (uint32_t)random_next(&m->random);
    s->arg[0] = pick_class(m, CLASS_FLOAT, 2);
    if (s->arg[0] < 0) return false;
    const Statement *a = &m->d->at[s->arg[0]];
    s->arg[1] = random_chance(&m->random, 60) ? pick(m, multiplies, &a->type) : -1;
    if (s->arg[1] >= 0) return true;
    Type t = a->type;
    int drop = t.rank > 2 && random_chance(&m->random, 50) ? t.rank - 2 : 0;
    memmove(t.dim, t.dim + drop, (size_t)(t.rank - drop) * sizeof *t.dim);
    t.rank = (uint8_t)(t.rank - drop);
    t.dim[t.rank - 2] = t.dim[t.rank - 1];
    t.dim[t.rank - 1] = some_dim(m);
    s->arg[1] = append_leaf(m, a->type.dtype, t.rank, t.dim);
    return s->arg[1] >= 0;
}

static bool derive_matmul(const Draft *d, Statement *s)
{
    const Statement *a = operand(d, s, 0), *b = operand(d, s, 1);
    DType t;
    if (!multiplies(b, &a->type) || !dtype_join(a->type.dtype, b->type.dtype, &t)) return false;
    const Type *longer = a->type.rank >= b->type.rank ? &a->type : &b->type;
    s->type = *longer;
    s->type.dtype = t;
    for (int i = 1; i <= longer->rank; i++) {
        int64_t x = i <= a->type.rank ? a->type.dim[a->type.rank - i] : 1;
        int64_t y = i <= b->type.rank ? b->type.dim[b->type.rank - i] : 1;
        s->type.dim[longer->rank - i] = i == 1 ? y : i == 2 ? x : x > y ? x : y;
    }
    double k = (double)a->type.dim[a->type.rank - 1];
    for (int i = 0; i < SAMPLES; i++)
        s->sample[i] = a->sample[i] * b->sample[(i + 3) % SAMPLES] * sqrt(k);
    s->smooth = a->smooth | b->smooth | 1ull << number_of(d, s);
    return true;
}

static void print_matmul(const Draft *d, const Statement *s, Buf *out)
{
    buf_printf(out, "    v%d = matmul(", number_of(d, s));
    print_operand(d, s, 0, out);
    buf_str(out, ", ");
    print_operand(d, s, 1, out);
    buf_str(out, ")\n");
}

// einsum("abc,bz->azc", a, b): along any axis, with the result's axes in any order half of the
// time.

static int axis_of(const Statement *s, const Type *a)
{
    return (int)(s->raw[0] % a->rank);
}

// order[i]: which of a's axes is axis i of the result.
static void result_order(const Statement *s, int rank, int *order)
{
    uint32_t left = s->raw[1] / 2;
    for (int i = 0; i < rank; i++) order[i] = i;
    for (int i = rank - 1; i > 0 && s->raw[1] % 2; left /= (uint32_t)(i + 1), i--) {
        const int other = (int)(left % (uint32_t)(i + 1)), was = order[i];
        order[i] = order[other];
        order[other] = was;
    }
}

static bool choose_einsum(Maker *m, Statement *s)
{
    for (int i = 0; i < 2; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->n = 2;
    if (random_chance(&m->random, 60)) { // over an axis between others, whose order stays
        int64_t sizes[] = {some_dim(m), some_dim(m), some_dim(m), some_dim(m)};
        const int rank = 3 + (int)random_below(&m->random, 2);
        s->arg[0] = append_leaf(m, DT_F32, rank, sizes);
        s->raw[0] = 1 + random_below(&m->random, (uint32_t)rank - 2);
        s->raw[1] = 0;
    } else {
        s->arg[0] = pick_class(m, CLASS_FLOAT, 2);
    }
    if (s->arg[0] < 0) return false;
    const Type *a = &m->d->at[s->arg[0]].type;
    int64_t dim[] = {a->dim[axis_of(s, a)], some_dim(m)};
    s->arg[1] = append_leaf(m, a->dtype, 2, dim);
    return s->arg[1] >= 0;
}

static bool derive_einsum(const Draft *d, Statement *s)
{
    const Statement *a = operand(d, s, 0), *b = operand(d, s, 1);
    int order[MAX_RANK];
    if (!dtype_is_float(a->type.dtype) || a->type.rank < 2 || b->type.rank != 2 ||
        b->type.dtype != a->type.dtype || b->type.dim[0] != a->type.dim[axis_of(s, &a->type)])
        return false;
    result_order(s, a->type.rank, order);
    s->type = a->type;
    for (int i = 0; i < a->type.rank; i++) {
        const bool summed = order[i] == axis_of(s, &a->type);
        s->type.dim[i] = summed ? b->type.dim[1] : a->type.dim[order[i]];
    }
    for (int i = 0; i < SAMPLES; i++)
        s->sample[i] = a->sample[i] * b->sample[(i + 3) % SAMPLES] * sqrt((double)b->type.dim[0]);
    s->smooth = a->smooth | b->smooth | 1ull << number_of(d, s);
    return true;
}

static void print_einsum(const Draft *d, const Statement *s, Buf *out)
{
    const Type *a = &operand(d, s, 0)->type;
    const int summed = axis_of(s, a);
    int order[MAX_RANK];
    result_order(s, a->rank, order);
    buf_printf(out, "    v%d = einsum(\"", number_of(d, s));
    for (int i = 0; i < a->rank; i++) buf_printf(out, "%c", 'a' + i);
    buf_printf(out, ",%cz->", 'a' + summed);
    for (int i = 0; i < a->rank; i++)
        buf_printf(out, "%c", order[i] == summed ? 'z' : 'a' + order[i]);
    buf_str(out, "\", ");
    print_operand(d, s, 0, out);
    buf_str(out, ", ");
    print_operand(d, s, 1, out);
    buf_str(out, ")\n");
}

// -- along an axis --------------------------------------------------------------------------------

static bool choose_scan(Maker *m, Statement *s)
{
    static const Op ops[] = {OP_sort, OP_argsort, OP_cumsum, OP_cumprod, OP_cummax, OP_cummin};
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->op = ops[random_below(&m->random, 6)];
    s->n = 1;
    s->arg[0] = pick_class(m, random_chance(&m->random, 80) ? CLASS_FLOAT : CLASS_INT, 1);
    return s->arg[0] >= 0;
}

static bool derive_scan(const Draft *d, Statement *s)
{
    s->type = operand(d, s, 0)->type;
    if (!s->type.rank || s->type.dtype == DT_BOOL) return false;
    int64_t n = s->type.dim[s->raw[0] % s->type.rank];
    derive_same(d, s);
    if (s->op == OP_argsort) {
        s->type.dtype = DT_I32;
        s->smooth = 0;
        for (int k = 0; k < SAMPLES; k++) s->sample[k] = (double)(n * k / SAMPLES);
    }
    for (int k = 0; s->op == OP_cumsum && k < SAMPLES; k++) s->sample[k] *= sqrt((double)n);
    return true;
}

static void print_scan(const Draft *d, const Statement *s, Buf *out)
{
    buf_printf(out, "    v%d = %s(", number_of(d, s), op_info(s->op)->name);
    print_operand(d, s, 0, out);
    buf_printf(out, ", %d", (int)(s->raw[0] % s->type.rank));
    const bool runs = op_info(s->op)->running, excludes = s->op == OP_cumsum || s->op == OP_cumprod;
    if (!runs && s->raw[1] % 2) buf_str(out, ", descending = true");
    if (excludes && s->raw[1] % 2) buf_str(out, ", exclusive = true");
    if (runs && s->raw[2] % 2) buf_str(out, ", reverse = true");
    buf_str(out, ")\n");
}

const Kind kind_reduce = {"reduce", 14, choose_reduce, derive_reduce, print_reduce};
const Kind kind_matmul = {"matmul", 6, choose_matmul, derive_matmul, print_matmul};
const Kind kind_einsum = {"einsum", 3, choose_einsum, derive_einsum, print_einsum};
const Kind kind_scan = {"scan", 3, choose_scan, derive_scan, print_scan};
