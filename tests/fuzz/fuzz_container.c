// Any bytes as a model.bin, without its checksums, which a fuzzer cannot guess; then, in a program
// section, any bytes as a Program.
#include <stdlib.h>
#include <string.h>

#include "runtime/host/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    Arena *a = arena_new();
    RtSection *s;
    RtError e = {0};
    int count;
    jmp_buf oom;
    if (!a || setjmp(oom)) {
        if (a) arena_free(a);
        return 0;
    }
    arena_on_oom(a, &oom);
    unsigned char *copy = malloc(n ? n : 1);
    if (copy) {
        if (n) memcpy(copy, data, n);
        if (rt_container_parse(a, "data", copy, n, false, &s, &count, &e) == RT_OK) {
            volatile unsigned sum = 0;
            for (int i = 0; i < count; i++) {
                const char *wrong = NULL;
                for (size_t k = 0; k < s[i].size; k++)
                    sum += ((const unsigned char *)s[i].bytes)[k];
                Program *p = program_read(a, s[i].bytes, s[i].size, &wrong);
                if (!p && !wrong) abort();
            }
        } else if (!e.text[0]) {
            abort();
        }
        const char *wrong = NULL;
        program_read(a, copy, n, &wrong);
        free(copy);
    }
    arena_free(a);
    return 0;
}
