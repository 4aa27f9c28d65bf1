// Whether integers lie in a range, which whole blocks are looked through for at once: of every
// type, random ranges, also beyond the type's, and numbers of elements, beside a loop that asks
// each.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/range.h"
#include "tests/unit/unit.h"

enum { MOST = 5000, ROUNDS = 2000 };

static unsigned seed = 20261128;

static int any(int least, int most)
{
    seed = seed * 1664525u + 1013904223u;
    return least + (int)(seed >> 8) % (most - least + 1);
}

// One of the type's ends, a small number, or one that only 64 bits hold.
static int64_t any_bound(void)
{
    static const int64_t far[] = {INT64_MIN, INT32_MIN,        -1,         0,         255, 256,
                                  INT32_MAX, (int64_t)1 << 31, UINT32_MAX, INT64_MAX, 1,   2};
    return any(0, 1) ? any(-20, 300) : far[any(0, 11)];
}

static int64_t number(ProgDType t, const char *at, int64_t i)
{
    switch (t) {
    case PD_I32: return ((const int32_t *)(const void *)at)[i];
    case PD_U32: return ((const uint32_t *)(const void *)at)[i];
    case PD_I64: return ((const int64_t *)(const void *)at)[i];
    default: return ((const uint8_t *)at)[i];
    }
}

static void put(ProgDType t, char *at, int64_t i, int64_t v)
{
    switch (t) {
    case PD_I32: ((int32_t *)(void *)at)[i] = (int32_t)v; break;
    case PD_U32: ((uint32_t *)(void *)at)[i] = (uint32_t)v; break;
    case PD_I64: ((int64_t *)(void *)at)[i] = v; break;
    default: ((uint8_t *)at)[i] = (uint8_t)v; break;
    }
}

int main(void)
{
    static const ProgDType types[] = {PD_U8, PD_I32, PD_U32, PD_I64, PD_BOOL};
    static int64_t data[MOST];
    char *at = (char *)data, want[64];
    for (int round = 0; round < ROUNDS; round++) {
        const ProgDType t = types[any(0, 4)];
        const int64_t n = any(0, 3) ? any(0, MOST) : any(0, 4) * 1024, row = any(1, 40),
                      low = any_bound();
        int64_t high = any_bound(), first = 0;
        if (high <= low) high = low < INT64_MAX ? low + 1 : INT64_MAX;
        if (high <= low) continue;
        const int64_t most = t == PD_BOOL ? 1 : high - 1;
        for (int64_t i = 0; i < n; i++) put(t, at, i, any(0, 1) || low < 0 ? low : most);
        for (int k = any(0, 2); k > 0 && n; k--)
            put(t, at, any(0, (int)n - 1), t == PD_BOOL ? 1 : any_bound());
        while (first < n && number(t, at, first) >= low && number(t, at, first) < high) first++;
        RtError e = {0};
        const RtCode code = rt_range_check(t, at, n, row, low, high, "x", &e);
        CHECK((code == RT_OK) == (first == n));
        if (first == n || code == RT_OK) continue;
        snprintf(want, sizeof want, "example %" PRId64 " holds %" PRId64 ",", first / row,
                 number(t, at, first));
        CHECK_MSG(strstr(e.text, want), "%s: not '%s'", e.text, want);
    }
    printf("%d passed, %d failed, 0 skipped\n", unit_passed, unit_failed);
    return unit_failed != 0;
}
