// The contents of memory while a product and the code around it are measured: numbers of both signs
// where any will do, since the speed of a large product depends on its operands through the power
// that the device may draw; and values that keep the kernels' contract where they rely on more. Row
// tables are not checked, so they hold valid rows. A step whose error record is set commits
// nothing, so it is clear. Indices are in range, so that no check fails.
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "runtime/cuda/cuda_bench.h"

enum { SEED = 1 << 17, BLOCK = 1 << 20 }; // bytes generated on the host, which are repeated

static int64_t least_rows(const ProgEntry *en)
{
    int64_t least = en->batch > 0 ? en->batch : 1;
    for (int i = 0; i < en->ninputs; i++) {
        const ProgInput *x = &en->inputs[i];
        if (x->data && x->type.rank > 0 && x->type.dim[0] < least) least = x->type.dim[0];
    }
    return least > 0 ? least : 1;
}

int64_t cuda_operand_bytes(const ProgEntry *en, const ProgBuffer *b)
{
    int64_t rows = en->batch > 0 ? en->batch : 1;
    if (b->region != PR_ROWS) return b->bytes;
    for (int i = 0; i < en->ninputs; i++) {
        const ProgInput *x = &en->inputs[i];
        int64_t micro = x->batch_axis_micro > 1 ? x->batch_axis_micro : 1;
        if (x->data && x->type.rank > 0 && x->type.dim[0] * micro > rows)
            rows = x->type.dim[0] * micro;
    }
    return rows * (int64_t)sizeof(int32_t);
}

// A bound below which all integers are valid indices in the entry.
static int64_t least_bound(const ProgEntry *en)
{
    int64_t least = 256;
    for (int i = 0; i < en->nchecks; i++)
        if (en->checks[i].kind == CHECK_INDEX && en->checks[i].bound < least)
            least = en->checks[i].bound;
    return least > 0 ? least : 1;
}

// The range low..high of integers that a buffer may contain. false: it need not be restricted.
static bool range_of(const GemmBench *b, const ProgBuffer *of, int64_t *low, int64_t *high)
{
    const ProgInput *x = of->region == PR_INPUT ? &b->entry->inputs[of->index] : NULL;
    *low = 0;
    *high = of->region == PR_ROWS       ? least_rows(b->entry)
            : of->type.dtype == PD_BOOL ? 2
                                        : least_bound(b->entry);
    if (x && x->has_range) {
        *low = x->low;
        *high = x->high > x->low ? x->high : x->low + 1;
    }
    bool typed = of->region == PR_ROWS || of->bytes == prog_type_bytes(&of->type);
    return typed && of->type.dtype < PD_BF16;
}

// The value for a counter, a seed, a scale or a setting: that at the beginning of training; but
// counters are 1, as if some steps were done and some were left.
static double value_of(const GemmBench *b, const ProgCell *c)
{
    bool cursor = b->entry->cursor && !strcmp(b->entry->cursor, c->name);
    return cursor ? 0 : c->initial == 0 && c->kind == PC_CONTROL ? 1 : c->initial;
}

// Fills [bytes] of memory with the [n] bytes at [host], repeated.
static bool repeat(GemmBench *b, CuPtr to, const void *host, size_t n, size_t bytes)
{
    CuDriver *cu = &b->d->cu;
    size_t done = bytes < n ? bytes : n;
    bool ok =
        !done || (cu->copy_h2d(to, host, done, b->s) == CU_OK && cu->stream_sync(b->s) == CU_OK);
    for (size_t more; ok && done < bytes; done += more) {
        more = bytes - done < done ? bytes - done : done;
        ok = cu->copy_d2d(to + done, to, more, b->s) == CU_OK;
    }
    return ok;
}

// Fills memory with 16-bit patterns: any low byte, and a high byte that gives a magnitude from 2^-7
// to 2 in every float type except f64.
static bool fill_numbers(GemmBench *b)
{
    uint16_t *seed = malloc(SEED);
    uint32_t state = 12345;
    if (!seed) return false;
    for (int i = 0; i < SEED / 2; i++) {
        state = state * 1664525u + 1013904223u;
        seed[i] = (uint16_t)((state >> 8 & 0x83ff) | 0x3c00);
    }
    bool ok = repeat(b, b->block, seed, SEED, b->bytes);
    free(seed);
    return ok;
}

// Fills the memory [to] of a buffer if it cannot contain arbitrary numbers.
static bool fill_buffer(GemmBench *b, const ProgBuffer *of, CuPtr to)
{
    size_t size = (size_t)prog_dtype_bytes(of->type.dtype);
    size_t bytes = (size_t)cuda_operand_bytes(b->entry, of), n = bytes < BLOCK ? bytes : BLOCK;
    const Program *p = b->m->p;
    int64_t low, high;
    bool ranged = range_of(b, of, &low, &high);
    const ProgCell *cell = of->region == PR_CELL ? &p->cells[of->index] : NULL;
    bool known = cell && (cell->kind == PC_CONTROL || cell->kind == PC_SETTING);
    if (of->region == PR_CONST) return repeat(b, to, p->consts[of->index].data, bytes, bytes);
    if (of->region != PR_ERROR && !ranged && !known) return true;
    char *host = calloc(n + 1, 1);
    if (!host) return false;
    for (size_t i = 0; i < n / size && of->region != PR_ERROR; i++) {
        uint64_t any = hash_mix((uint64_t)of->index + 1, i) >> 16;
        prog_store(of->type.dtype, host + i * size,
                   known ? value_of(b, cell)
                         : (double)(low + (int64_t)(any % (uint64_t)(high - low))));
    }
    bool ok = repeat(b, to, host, n, bytes);
    free(host);
    return ok;
}

bool cuda_operands_fill(GemmBench *b)
{
    bool ok = fill_numbers(b);
    for (int i = 0; b->step && i < b->nslots && ok; i++) {
        const ProgArg *a = &b->step->args[i];
        if (a->kind == PA_BUFFER)
            ok = fill_buffer(b, &b->entry->buffers[a->index], (CuPtr)(uintptr_t)b->slot[i].p);
    }
    return ok && b->d->cu.stream_sync(b->s) == CU_OK;
}
