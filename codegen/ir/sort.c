// Rows sorted in shared memory: how much of it they need, and which rows are.
#include "codegen/ir/body.h"

enum { LEAST = 64 };

int64_t sort_padded(int64_t cols)
{
    int64_t n = LEAST;
    while (n < cols) n *= 2;
    return n;
}

int64_t sort_bytes(int64_t cols, DType t, bool places)
{
    const int key = math_bytes(t) < 4 ? 4 : math_bytes(t);
    return sort_padded(cols) * (places ? key + 4 : key);
}

bool sort_fits(const Target *t, int64_t cols, DType type)
{
    if (cols < LEAST || cols > INT32_MAX) return false;
    return t->kind != TARGET_CUDA || sort_bytes(cols, type, true) <= t->shared_per_block;
}

bool sort_in_block(const Target *t, int64_t rows, int64_t cols, DType type)
{
    return sort_fits(t, cols, type) && (cols <= RADIX_TILE || rows >= t->units);
}
