// Any bytes as a data file of any kind: gzip, CIFAR-10, tokens, text, or what they look like. The
// last byte says what the model wants.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/data/data_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const parts[] = {NULL, "images", "u32", "u16"};
    static const int64_t dims[] = {-1, 1, 3, 32};
    if (n < 1) return 0;
    uint8_t how = data[--n];
    ProgType wanted = {.dtype = (ProgDType)(how % PD_COUNT), .rank = how >> 4 & 3};
    for (int i = 0; i < wanted.rank; i++) wanted.dim[i] = dims[(how + i) & 3];
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    RtArray a;
    RtError e = {0};
    if (write(fd, data, n) == (ssize_t)n) {
        if (rt_array_read(path, parts[how >> 6], how & 8 ? &wanted : NULL, &a, &e) == RT_OK) {
            if ((int64_t)a.bytes != prog_type_bytes(&a.type)) abort();
            rt_array_free(&a);
        } else if (!e.text[0] || a.data) {
            abort();
        }
    }
    close(fd);
    return 0;
}
