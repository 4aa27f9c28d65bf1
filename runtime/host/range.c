// Whether integers lie in the range an input declares.
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

#define SCAN(T)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
        int64_t v = (int64_t)((const T *)data)[i];                                                 \
        if (v < low || v >= high) return outside(i, row, v, low, high, what, e);                   \
    }                                                                                              \
    return RT_OK

RtCode rt_range_check(ProgDType t, const void *data, int64_t n, int64_t row, int64_t low,
                      int64_t high, const char *what, RtError *e)
{
    switch (t) {
    case PD_BOOL:
    case PD_U8:
        if (low <= 0 && high > 255) return RT_OK;
        SCAN(uint8_t);
    case PD_I32: SCAN(int32_t);
    case PD_U32: SCAN(uint32_t);
    case PD_I64: SCAN(int64_t);
    default: return RT_OK;
    }
}
