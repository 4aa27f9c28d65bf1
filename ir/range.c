// Ranges of integers: interval arithmetic, with one rule for each name in the range column of
// ops.def.
#include "ir/range.h"

#include "ir/scalar.h"

#define DEPTH 12 // operands looked at: they may be shared, so paths may be many

Range range_of_type(DType t)
{
    switch (t) {
    case DT_BOOL: return (Range){0, 1};
    case DT_U8: return (Range){0, UINT8_MAX};
    case DT_U32: return (Range){0, UINT32_MAX};
    case DT_I32: return (Range){INT32_MIN, INT32_MAX};
    default: return (Range){INT64_MIN, INT64_MAX};
    }
}

bool range_within(Range r, Range in)
{
    return r.low >= in.low && r.high <= in.high;
}

static Range join(Range a, Range b)
{
    return (Range){min_i(a.low, b.low), max_i(a.high, b.high)};
}

// -- the rules ------------------------------------------------------------------------------------

// Range of the result if operand k is a whole number in a[k]; false: unknown.
typedef bool RangeRule(const Range *a, Range *out);

static bool range_add(const Range *a, Range *out)
{
    return !__builtin_add_overflow(a[0].low, a[1].low, &out->low) &&
           !__builtin_add_overflow(a[0].high, a[1].high, &out->high);
}

static bool range_sub(const Range *a, Range *out)
{
    return !__builtin_sub_overflow(a[0].low, a[1].high, &out->low) &&
           !__builtin_sub_overflow(a[0].high, a[1].low, &out->high);
}

static bool range_mul(const Range *a, Range *out)
{
    int64_t p[4];
    if (__builtin_mul_overflow(a[0].low, a[1].low, &p[0]) ||
        __builtin_mul_overflow(a[0].low, a[1].high, &p[1]) ||
        __builtin_mul_overflow(a[0].high, a[1].low, &p[2]) ||
        __builtin_mul_overflow(a[0].high, a[1].high, &p[3]))
        return false;
    *out = (Range){p[0], p[0]};
    for (int i = 1; i < 4; i++) *out = join(*out, (Range){p[i], p[i]});
    return true;
}

static bool range_neg(const Range *a, Range *out)
{
    if (a[0].low == INT64_MIN) return false;
    *out = (Range){-a[0].high, -a[0].low};
    return true;
}

static bool range_abs(const Range *a, Range *out)
{
    if (a[0].low == INT64_MIN) return false;
    *out = (Range){max_i(0, max_i(a[0].low, -a[0].high)), max_i(a[0].high, -a[0].low)};
    return true;
}

static bool range_minimum(const Range *a, Range *out)
{
    *out = (Range){min_i(a[0].low, a[1].low), min_i(a[0].high, a[1].high)};
    return true;
}

static bool range_maximum(const Range *a, Range *out)
{
    *out = (Range){max_i(a[0].low, a[1].low), max_i(a[0].high, a[1].high)};
    return true;
}

static bool range_select(const Range *a, Range *out)
{
    *out = join(a[1], a[2]);
    return true;
}

static bool range_mod(const Range *a, Range *out)
{
    if (a[1].low <= 0) return false;
    *out = a[0].low >= 0 && a[0].high < a[1].low ? a[0] : (Range){0, a[1].high - 1};
    return true;
}

static bool range_mulhi(const Range *a, Range *out) // operands and result are u32
{
    *out = (Range){(int64_t)(((uint64_t)a[0].low * (uint64_t)a[1].low) >> 32),
                   (int64_t)(((uint64_t)a[0].high * (uint64_t)a[1].high) >> 32)};
    return a[0].low >= 0 && a[1].low >= 0;
}

static bool range_shr(const Range *a, Range *out)
{
    if (a[0].low < 0 || a[1].low < 0 || a[1].high > 31) return false;
    *out = (Range){a[0].low >> a[1].high, a[0].high >> a[1].low};
    return true;
}

static bool range_bit_and(const Range *a, Range *out)
{
    *out = (Range){0, min_i(a[0].high, a[1].high)};
    return a[0].low >= 0 && a[1].low >= 0;
}

#define range_any NULL

static RangeRule *const rules[OP_COUNT] = {
#define EW(id, arity, flags, rule, gradient, range, ...) [OP_##id] = range_##range,
#define OP(id, ...)
#include "ir/ops.def"
#undef EW
#undef OP
};

Range range_of_op(Op op, DType t, const Range *a, bool *exact)
{
    Range r, all = range_of_type(t);
    *exact = rules[op] && rules[op](a, &r) && range_within(r, all);
    return *exact ? r : all;
}

static Range of_node(const Node *n, int depth);

// Copies of elements of the operands in the mask.
static Range of_copies(const Node *n, unsigned operands, int depth)
{
    Range r = {INT64_MAX, INT64_MIN};
    for (uint32_t i = 0; i < n->nargs; i++)
        if (operands >> i & 1) r = join(r, of_node(n->args[i], depth - 1));
    return r;
}

static Range of_elementwise(const Node *n, int depth)
{
    Range all = range_of_type(n->type.dtype), a[3];
    bool exact;
    if (n->nargs > 3) return all;
    for (uint32_t i = 0; i < n->nargs; i++) {
        if (dtype_is_float(n->args[i]->type.dtype)) return all;
        a[i] = of_node(n->args[i], depth - 1);
    }
    if (n->op == OP_cast) return range_within(a[0], all) ? a[0] : all;
    return range_of_op(n->op, n->type.dtype, a, &exact);
}

static Range places(const Node *of, int64_t axis)
{
    return (Range){0, of->type.dim[axis] - 1};
}

// A result whose range no operand determines.
static bool of_itself(const Node *n, Range *out)
{
    int count, rank;
    double v;
    const int64_t *list = attr_ints(n, ATTR_values, &count);
    *out = (Range){attr_int(n, ATTR_low_bound, 0), attr_int(n, ATTR_high_bound, 0) - 1};
    if (attr_find(n, ATTR_high_bound) && attr_find(n, ATTR_low_bound)) return true;
    if (n->op == OP_iota) *out = places(n, attr_int(n, ATTR_axis, 0));
    if (n->op == OP_argmax) *out = places(n->args[0], attr_ints(n, ATTR_axes, &rank)[0]);
    if (n->op == OP_argsort) *out = places(n->args[0], attr_int(n, ATTR_axis, 0));
    if (n->op == OP_iota || n->op == OP_argmax || n->op == OP_argsort) return true;
    if (n->op == OP_const && list && count) {
        *out = (Range){list[0], list[0]};
        for (int i = 1; i < count; i++) *out = join(*out, (Range){list[i], list[i]});
        return true;
    }
    if (!node_const_value(n, &v) || v < -0x1p52 || v > 0x1p52) return false;
    *out = (Range){(int64_t)v, (int64_t)v};
    return true;
}

static Range of_node(const Node *n, int depth)
{
    enum { MOST_PARTS = 3, FIRST = 1, SECOND = 2, THIRD = 4, ALL = 7 };
    Range r, all = range_of_type(n->type.dtype);
    if (of_itself(n, &r)) return range_within(r, all) ? r : all;
    if (!depth) return all;
    switch (n->op) {
    case OP_max:
    case OP_min:
    case OP_sort:
    case OP_gather:
    case OP_dynamic_slice: return of_copies(n, FIRST, depth);
    case OP_dynamic_update: return of_copies(n, FIRST | SECOND, depth);
    case OP_scatter:
    case OP_scatter_max:
    case OP_scatter_min: return of_copies(n, FIRST | THIRD, depth);
    default: break;
    }
    if (node_class(n) == CLS_VIEW && n->nargs <= MOST_PARTS) return of_copies(n, ALL, depth);
    return node_class(n) == CLS_ELEMENTWISE ? of_elementwise(n, depth) : all;
}

Range range_of_node(const Node *n)
{
    return of_node(n, DEPTH);
}

int range_bits(const Node *n)
{
    const Range r = range_of_node(n);
    const int all = dtype_info[n->type.dtype].bits;
    int bits = 1;
    while (bits < all && bits < 63 && r.high >> bits) bits++;
    return r.low < 0 ? all : bits;
}

bool range_index_may_fail(const Node *n)
{
    if (n->op != OP_gather && !node_has(n, OPF_SCATTERS)) return false;
    const Type *t = &n->args[0]->type; // (a scatter's result has this type, too)
    const Range all = {0, t->dim[attr_int(n, ATTR_axis, 0)] - 1};
    return !range_within(range_of_node(n->args[1]), all);
}
