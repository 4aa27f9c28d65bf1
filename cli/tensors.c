// Tensors as text.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/half.h"
#include "cli/cli.h"

size_t tensor_elements(const netc_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

const char *tensor_type(const netc_tensor *t, char *out, size_t n)
{
    size_t len = (size_t)snprintf(out, n, "%s[", netc_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && len < n; i++)
        len += (size_t)snprintf(out + len, n - len, "%s%" PRId64, i ? ", " : "", t->dim[i]);
    if (len < n) snprintf(out + len, n - len, "]");
    return out;
}

void print_element(const netc_tensor *t, size_t i, bool all)
{
    const void *d = t->data;
    double v = 0;
    switch (t->dtype) {
    case NETC_F32: v = ((const float *)d)[i]; break;
    case NETC_F64: v = ((const double *)d)[i]; break;
    case NETC_F16: v = half_value(((const uint16_t *)d)[i], HALF_F16); break;
    case NETC_BF16: v = half_value(((const uint16_t *)d)[i], HALF_BF16); break;
    case NETC_I32: printf("%" PRId32, ((const int32_t *)d)[i]); return;
    case NETC_I64: printf("%" PRId64, ((const int64_t *)d)[i]); return;
    case NETC_U32: printf("%" PRIu32, ((const uint32_t *)d)[i]); return;
    case NETC_U8: printf("%u", ((const uint8_t *)d)[i]); return;
    case NETC_BOOL:
        fputs(all                       ? ((const uint8_t *)d)[i] ? "true" : "false"
              : ((const uint8_t *)d)[i] ? "1"
                                        : "0",
              stdout);
        return;
    }
    bool wide = t->dtype == NETC_F64;
    if (all && !isfinite(v)) // JSON has no number for it
        printf("\"%s\"", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    else if (all)
        printf("%.*g", wide ? 17 : 9, v);
    else
        printf("%.*g", wide ? 9 : 6, v);
}
