// Symbolic index expressions against plain integers: whatever is simplified, values stay the same.
#include <stdlib.h>

#include "codegen/ir/index.h"
#include "tests/unit/unit.h"

static int64_t value_of(const Ix *e, const int64_t *axis);

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t term_value(const IxTerm *t, const int64_t *axis)
{
    switch (t->kind) {
    case IT_AXIS: return axis[t->id];
    case IT_VALUE: return axis[t->id];
    case IT_DIV: return floor_div(value_of(t->e, axis), t->by);
    case IT_MOD: return value_of(t->e, axis) - floor_div(value_of(t->e, axis), t->by) * t->by;
    }
    return 0;
}

static int64_t value_of(const Ix *e, const int64_t *axis)
{
    int64_t v = e->constant;
    for (int i = 0; i < e->n; i++) v += e->at[i].coeff * term_value(e->at[i].term, axis);
    return v;
}

static int pick(uint64_t *s, int n)
{
    *s = *s * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((*s >> 33) % (uint64_t)n);
}

// What ix_run says of each aligned run that begins at or before the point.
static int check_runs(const Ix *e, const int64_t *extent, const int64_t *point, int round)
{
    int found = 0;
    for (int axis = 0; axis < 3; axis++)
        for (int64_t width = 2; width <= 8; width *= 2) {
            int64_t at[3] = {point[0], point[1], point[2]}, step;
            bool aligned;
            if (extent[axis] % width || !ix_run(e, axis, width, &step, &aligned)) continue;
            found += step == 1;
            at[axis] -= at[axis] % width;
            int64_t first = value_of(e, at);
            if (step && aligned) CHECK_MSG(first % width == 0, "round %d: not aligned", round);
            for (int64_t i = 1; i < width; i++) {
                at[axis]++;
                CHECK_MSG(value_of(e, at) == first + i * step, "round %d: no run of %lld", round,
                          (long long)width);
            }
        }
    return found;
}

// Random expressions built beside the function they stand for.
static void random_expressions(Arena *a)
{
    uint64_t seed = 7;
    int runs = 0;
    for (int round = 0; round < 3000; round++) {
        IxCtx *c = ix_new(a);
        static const int extents[] = {1, 2, 3, 4, 5, 8, 12, 17, 28, 64};
        int64_t extent[3], point[4][3], want[4];
        for (int i = 0; i < 3; i++) extent[i] = extents[pick(&seed, 10)];
        for (int p = 0; p < 4; p++)
            for (int i = 0; i < 3; i++) point[p][i] = pick(&seed, (int)extent[i]);
        const Ix *e = ix_axis(c, 0, extent[0]);
        for (int p = 0; p < 4; p++) want[p] = point[p][0];
        for (int step = 0; step < 8; step++) {
            int what = pick(&seed, 5), k = 1 + pick(&seed, 12), axis = pick(&seed, 3);
            const Ix *x = ix_axis(c, axis, extent[axis]);
            if (what == 0)
                e = ix_add(c, e, ix_scale(c, x, k));
            else if (what == 1)
                e = ix_scale(c, e, k);
            else if (what == 2)
                e = ix_div(c, e, k);
            else if (what == 3)
                e = ix_mod(c, e, k);
            else
                e = ix_add(c, e, ix_const(c, k - 6));
            for (int p = 0; p < 4; p++) {
                int64_t v = want[p], q = floor_div(v, k);
                want[p] = what == 0   ? v + k * point[p][axis]
                          : what == 1 ? v * k
                          : what == 2 ? q
                          : what == 3 ? v - q * k
                                      : v + k - 6;
                int64_t got = value_of(e, point[p]);
                CHECK_MSG(got == want[p], "round %d step %d: %lld, not %lld", round, step,
                          (long long)got, (long long)want[p]);
                CHECK_MSG(got >= e->low && got <= e->high,
                          "round %d step %d: %lld outside its range", round, step, (long long)got);
                if (got != want[p]) return;
            }
        }
        for (int p = 0; p < 4; p++) runs += check_runs(e, extent, point[p], round);
    }
    CHECK_MSG(runs > 100, "%d runs", runs);
}

static void simplifications(Arena *a)
{
    IxCtx *c = ix_new(a);
    const Ix *i = ix_axis(c, 0, 10), *j = ix_axis(c, 1, 8), *n = ix_axis(c, 2, 24 * 35);
    const Ix *flat = ix_add(c, ix_scale(c, i, 8), j);
    CHECK(ix_div(c, flat, 8) == i); // (8 i + j) / 8 = i
    CHECK(ix_mod(c, flat, 8) == j);
    // a flat index taken apart and put together again, through two shapes
    const int64_t one[] = {24, 35}, two[] = {4, 6, 7, 5};
    const Ix *parts[4];
    ix_delinear(c, n, one, 2, parts);
    CHECK(ix_linear(c, parts, one, 2) == n);
    ix_delinear(c, n, two, 4, parts);
    CHECK(ix_linear(c, parts, two, 4) == n);
    // nested quotients
    CHECK(ix_div(c, ix_div(c, n, 5), 7) == ix_div(c, n, 35));
    CHECK(ix_mod(c, ix_mod(c, n, 35), 5) == ix_mod(c, n, 5));
    int64_t stride;
    CHECK(ix_stride(flat, 0, &stride) && stride == 8);
    CHECK(ix_stride(flat, 2, &stride) && stride == 0);
    CHECK(!ix_stride(ix_div(c, n, 5), 2, &stride));
    CHECK(ix_mergeable(flat, 0, 1, 8) && !ix_mergeable(flat, 1, 0, 10));
    // a convolution's element: places, then taps and channels of one axis
    const Ix *k = ix_axis(c, 3, 9 * 16);
    const Ix *tap = ix_add(c, ix_scale(c, ix_mod(c, ix_div(c, k, 16), 3), 16), ix_mod(c, k, 16));
    bool aligned;
    CHECK(ix_run(ix_add(c, ix_scale(c, i, 16), tap), 3, 8, &stride, &aligned) && stride == 1 &&
          aligned);
    CHECK(ix_run(ix_div(c, k, 48), 3, 8, &stride, &aligned) && stride == 0);
    CHECK(!ix_run(ix_mod(c, k, 12), 3, 8, &stride, &aligned));
    CHECK(ix_aligned(ix_add(c, ix_scale(c, i, 8), j), 1, 4) &&
          !ix_aligned(ix_add(c, flat, ix_const(c, 2)), 1, 4));
}

// Terms are found by a hash of where their operand lies and of the divisor, and nothing else: no
// two of many may share one.
static void many_terms(Arena *a)
{
    enum { SUMS = 1000, DIVISORS = 64 };
    int wrong = 0;
    for (int round = 0; round < 30; round++) {
        IxCtx *c = ix_new(a);
        const Ix *n = ix_axis(c, 0, 1 << 20), *m = ix_axis(c, 1, 1 << 10), *sum[SUMS];
        const int64_t at[2] = {987654, 321};
        for (int k = 1; k < SUMS; k++) sum[k] = ix_add(c, n, ix_scale(c, m, k)); // lie side by side
        for (int64_t by = SUMS; by < SUMS + DIVISORS; by++)
            for (int k = 1; k < SUMS; k++)
                wrong += ix_at(ix_div(c, sum[k], by), at) != floor_div(ix_at(sum[k], at), by);
    }
    CHECK_MSG(!wrong, "%d quotients are those of other terms", wrong);
}

int main(void)
{
    Arena *a = arena_new();
    many_terms(a);
    random_expressions(a);
    simplifications(a);
    arena_free(a);
    return unit_done();
}
