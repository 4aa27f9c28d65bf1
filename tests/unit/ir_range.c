// Ranges of integers: what an op gives of operands within their ranges, as the device computes it,
// stays in the range, and where that is called exact nothing ran over the type.
#include "tests/unit/ir_common.h"

#include "ir/range.h"
#include "ir/scalar.h"

static uint64_t state = 77;

static uint64_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 20;
}

// Small ones most of the time, else up to the ends of the type.
static int64_t number_in(Range all)
{
    int64_t v =
        next() % 4 ? (int64_t)(next() % 41) - 12 : scalar_wrap(DT_I64, (int64_t)(next() << 22));
    if (next() % 9 == 0) v = next() % 2 ? all.low : all.high;
    return v < all.low ? all.low : v > all.high ? all.high : v;
}

static int64_t pick(Range r)
{
    if (next() % 3 == 0) return next() % 2 ? r.low : r.high;
    uint64_t count = (uint64_t)r.high - (uint64_t)r.low + 1;
    return count ? (int64_t)((uint64_t)r.low + (next() * 1048583 + next()) % count)
                 : (int64_t)next();
}

static void ops(void)
{
    static const Op op[] = {OP_add,     OP_sub,     OP_mul,    OP_neg,     OP_abs,
                            OP_minimum, OP_maximum, OP_select, OP_mod,     OP_mulhi,
                            OP_shr,     OP_bit_and, OP_bit_or, OP_floordiv};
    static const DType type[] = {DT_U8, DT_I32, DT_U32, DT_I64};
    int exact_ones = 0;
    for (int trial = 0; trial < 60000; trial++) {
        Op o = op[next() % (sizeof op / sizeof *op)];
        DType t = o == OP_mulhi ? DT_U32 : type[next() % 4];
        Range r[3], all = range_of_type(t);
        int64_t v[3];
        for (int k = 0; k < 3; k++) {
            Range within = o == OP_select && k == 0 ? range_of_type(DT_BOOL) : all;
            int64_t a = number_in(within), b = number_in(within);
            r[k] = (Range){a < b ? a : b, a < b ? b : a};
            v[k] = pick(r[k]);
        }
        bool exact;
        Range of = range_of_op(o, t, r, &exact);
        Scalar s = scalar_apply(o, t, t, (Scalar){.i = v[0]}, (Scalar){.i = v[1]},
                                (Scalar){.i = v[2]}, true);
        int64_t have = scalar_wrap(t, s.i);
        CHECK(have >= of.low && have <= of.high);
        CHECK(range_within(of, all));
        exact_ones += exact;
        int64_t sum;
        if (exact && o == OP_add) CHECK(!__builtin_add_overflow(v[0], v[1], &sum) && sum == have);
        if (exact && o == OP_mul) CHECK(!__builtin_mul_overflow(v[0], v[1], &sum) && sum == have);
    }
    CHECK(exact_ones > 20000);
}

int main(void)
{
    ops();
    return unit_done();
}
