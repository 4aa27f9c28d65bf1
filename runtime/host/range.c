// Whether integers are in the range an input declares.
#include <inttypes.h>

#include "runtime/host/range.h"

static RtCode outside(int64_t i, int64_t row, int64_t v, int64_t low, int64_t high,
                      const char *what, RtError *e)
{
    if (high == low + 1)
        return rt_fail(e, RT_USER,
                       "%s: example %" PRId64 " holds %" PRId64 ", only %" PRId64 " is allowed",
                       what, row > 0 ? i / row : i, v, low);
    return rt_fail(e, RT_USER,
                   "%s: example %" PRId64 " holds %" PRId64
                   ", the model says its values are in %" PRId64 "..%" PRId64 " (%" PRId64
                   " to %" PRId64 ")",
                   what, row > 0 ? i / row : i, v, low, high, low, high - 1);
}

// Tests whole blocks without a branch per number, in a loop with a constant count that compilers
// vectorize. If a number of a block is out of range, a second loop finds it.
#define SCAN(T, least, most)                                                                       \
    do {                                                                                           \
        const T *x = data, from = low < least ? least : (T)low,                                    \
                to = high > most ? most : (T)(high - 1);                                           \
        const bool some = low <= most && high > least; /* numbers of the type */                   \
        for (int64_t i = 0, end; i < n; i = end) {                                                 \
            end = i + BLOCK < n ? i + BLOCK : n;                                                   \
            if (some && end - i == BLOCK) {                                                        \
                T out = 0;                                                                         \
                for (int k = 0; k < BLOCK; k++) out |= (T)((x[i + k] < from) | (x[i + k] > to));   \
                if (!out) continue;                                                                \
            }                                                                                      \
            for (; i < end; i++)                                                                   \
                if ((int64_t)x[i] < low || (int64_t)x[i] >= high)                                  \
                    return outside(i, row, (int64_t)x[i], low, high, what, e);                     \
        }                                                                                          \
        return RT_OK;                                                                              \
    } while (0)

RtCode rt_range_check(ProgDType t, const void *data, int64_t n, int64_t row, int64_t low,
                      int64_t high, const char *what, RtError *e)
{
    enum { BLOCK = 1024 };
    switch (t) {
    case PD_BOOL:
    case PD_U8:
        if (low <= 0 && high > 255) return RT_OK;
        SCAN(uint8_t, 0, UINT8_MAX);
    case PD_I32: SCAN(int32_t, INT32_MIN, INT32_MAX);
    case PD_U32: SCAN(uint32_t, 0, UINT32_MAX);
    case PD_I64: SCAN(int64_t, INT64_MIN, INT64_MAX);
    default: return RT_OK;
    }
}
