// Any bytes as a file of tokens whose windows stay in it. The last byte says what the model wants.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/data/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const parts[] = {NULL, "u16", "u32", "raw"};
    if (n < 1) return 0;
    uint8_t how = data[--n];
    ProgType wanted = {.dtype = (ProgDType)(how % PD_COUNT), .rank = 1, .dim = {how >> 4 & 7}};
    char path[64];
    const char *paths[] = {path, path};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    RtArray a;
    RtError e = {0};
    if (write(fd, data, n) == (ssize_t)n) {
        RtCode code = rt_tokens_open(paths, 2, parts[how >> 3 & 3], &wanted, how >> 7, 0, &a, &e);
        if ((code != RT_OK) != (e.text[0] != 0) || (code && a.source)) abort();
        char *row = a.source ? malloc(a.bytes / (size_t)a.type.dim[0]) : NULL;
        if (a.source) rt_array_check_range(&a, path, 0, 1 << 20, &e);
        for (int64_t i = 0; row && i < a.type.dim[0]; i++)
            if (rt_array_row(&a, i, row, &e) && !e.text[0]) abort();
        free(row);
        rt_array_free(&a);
    }
    close(fd);
    return 0;
}
