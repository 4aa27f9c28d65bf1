// Any bytes as a safetensors file. Every byte of every tensor it yields is touched.
#include <stdlib.h>
#include <string.h>

#include "runtime/host/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    Arena *a = arena_new();
    RtTensors t = {.arena = a};
    RtError e = {0};
    jmp_buf oom;
    if (!a || setjmp(oom)) {
        if (a) arena_free(a);
        return 0;
    }
    arena_on_oom(a, &oom);
    unsigned char *copy = malloc(n + 1); // so that a read past the end is seen
    if (copy) {
        if (n) memcpy(copy, data, n);
        copy = realloc(copy, n ? n : 1);
        if (rt_safetensors_parse(a, "data", copy, n, &t, &e) == RT_OK) {
            volatile unsigned sum = 0;
            for (int i = 0; i < t.n; i++)
                for (int64_t k = 0; k < prog_type_bytes(&t.at[i].type); k++)
                    sum += ((const unsigned char *)t.at[i].data)[k];
        } else if (!e.text[0]) {
            abort();
        }
        free(copy);
    }
    arena_free(a);
    return 0;
}
