// Any bytes as an .npy file; what is read is also cut into windows.
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
    if (rt_npy_parse("data", &b, &a, &e) == RT_OK) {
        if ((int64_t)a.bytes != prog_type_bytes(&a.type)) abort();
        if (a.type.rank == 1) rt_array_windows("data", &a, 1 + (int64_t)(n % 7), &e);
        rt_array_free(&a);
    } else {
        if (!e.text[0]) abort();
        free(b.at);
    }
    return 0;
}
