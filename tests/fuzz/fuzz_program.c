// program_read on anything: refused, or a program that prints and survives being written and read.
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Arena *a = arena_new();
    jmp_buf oom;
    if (!a) return 0;
    if (setjmp(oom)) {
        arena_free(a);
        return 0;
    }
    arena_on_oom(a, &oom);
    const char *error;
    Program *p = program_read(a, bytes, n, &error);
    if (!p && !error) abort();
    if (p) {
        Buf text = buf_new(a), again = buf_new(a);
        program_print(p, &text);
        program_write(p, &again);
        if (again.len != n || memcmp(again.data, bytes, n) != 0) abort();
    }
    if (arena_bytes(a) > (64 << 10) + 200 * n) abort(); // memory is bounded by the input
    arena_free(a);
    return 0;
}
