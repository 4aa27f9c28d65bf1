// Any bytes as an IDX file, gzip'ed or not known to be one.
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    RtBytes b = {malloc(n + 1), n};
    RtArray a;
    RtError e = {0};
    if (!b.at) return 0;
    if (n) memcpy(b.at, data, n);
    rt_idx_recognise("data", &b);
    if (rt_idx_parse("data", &b, &a, &e) == RT_OK) {
        if ((int64_t)a.bytes != prog_type_bytes(&a.type)) abort();
        rt_array_check_range(&a, "data", 0, 10, &e);
        rt_array_free(&a);
    } else {
        if (!e.text[0]) abort();
        free(b.at);
    }
    return 0;
}
