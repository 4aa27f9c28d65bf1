// Copies of the cells that an entry writes, in host memory: what evaluation wrote is put back, and
// training goes back to the last step whose values were sound.
#include <stdlib.h>
#include <string.h>

#include "lib/api/keep.h"
#include "runtime/host/file.h"

typedef struct KeptCell {
    const ProgCell *cell;
    size_t bytes;
    void *data;
    bool exempt; // held such values already when it was first copied
} KeptCell;

struct Kept {
    netc_session *s;
    int n;
    KeptCell *cell;
    void *scratch; // as large as the largest
    bool first;
};

static netc_status find_cells(Kept *k, const Program *p, const ProgEntry *e, bool own,
                              netc_error **err)
{
    bool *written = malloc((size_t)p->ncells + 1);
    size_t total = 0, most = 1, free_bytes, all;
    k->cell = calloc((size_t)p->ncells + 1, sizeof *k->cell);
    if (!written || !k->cell) return free(written), OUT_OF_MEMORY(err);
    program_written(p, e, written);
    for (int i = 0; i < p->ncells; i++) {
        const ProgCell *c;
        if (!written[i] || !session_cell(k->s, p->cells[i].name, &c)) continue;
        if (!own && c->name[0] == '@') continue;
        size_t bytes = (size_t)prog_type_bytes(&c->type);
        k->cell[k->n++] = (KeptCell){.cell = c, .bytes = bytes};
        total += bytes;
        if (bytes > most) most = bytes;
    }
    free(written);
    if (total > (64u << 20) && rt_host_memory(&free_bytes, &all) && total + most > free_bytes)
        return OUT_OF_MEMORY(err);
    for (int i = 0; i < k->n; i++)
        if (!(k->cell[i].data = malloc(k->cell[i].bytes + 1))) return OUT_OF_MEMORY(err);
    k->scratch = malloc(most);
    return k->scratch ? NETC_OK : OUT_OF_MEMORY(err);
}

netc_status kept_new(netc_session *s, const Program *p, const ProgEntry *e, bool own, Kept **out,
                     netc_error **err)
{
    Kept *k = *out = calloc(1, sizeof *k);
    if (!k) return OUT_OF_MEMORY(err);
    k->s = s;
    k->first = true;
    netc_status status = find_cells(k, p, e, own, err);
    if (status == NETC_OK) status = kept_take(k, err);
    if (status != NETC_OK) {
        kept_free(k);
        *out = NULL;
    }
    return status;
}

void kept_free(Kept *k)
{
    if (!k) return;
    for (int i = 0; i < k->n; i++) free(k->cell[i].data);
    free(k->cell);
    free(k->scratch);
    free(k);
}

// The largest magnitude of n floats as bits: those of an infinity are all of the exponent's, a
// NaN's are more. In rows of a known length, which compilers make vectors of.
#define LARGEST(name, T)                                                                           \
    static T name(const T *v, size_t n)                                                            \
    {                                                                                              \
        enum { ROW = 32 };                                                                         \
        const T sign = (T)((T)1 << (8 * sizeof(T) - 1));                                           \
        T most[ROW] = {0}, all = 0;                                                                \
        for (; n >= ROW; v += ROW, n -= ROW)                                                       \
            for (int k = 0; k < ROW; k++) {                                                        \
                T bits = (T)(v[k] & (T)~sign);                                                     \
                most[k] = bits > most[k] ? bits : most[k];                                         \
            }                                                                                      \
        for (size_t k = 0; k < n; k++) {                                                           \
            T bits = (T)(v[k] & (T)~sign);                                                         \
            all = bits > all ? bits : all;                                                         \
        }                                                                                          \
        for (int k = 0; k < ROW; k++) all = most[k] > all ? most[k] : all;                         \
        return all;                                                                                \
    }
LARGEST(largest16, uint16_t)
LARGEST(largest32, uint32_t)
LARGEST(largest64, uint64_t)

// (an infinity may be what a model's own state means: a running minimum)
bool cell_is_sound(const ProgCell *c, const void *data)
{
    size_t n = (size_t)(prog_type_bytes(&c->type) / prog_dtype_bytes(c->type.dtype));
    uint64_t most, infinity;
    switch (c->type.dtype) {
    case PD_F16: most = largest16(data, n), infinity = 0x7c00; break;
    case PD_BF16: most = largest16(data, n), infinity = 0x7f80; break;
    case PD_F32: most = largest32(data, n), infinity = 0x7f800000; break;
    case PD_F64: most = largest64(data, n), infinity = 0x7ffull << 52; break;
    default: return true;
    }
    return c->kind == PC_STATE && !c->optimizer ? most <= infinity : most < infinity;
}

// Scratch states are not kept beyond training, and those of the runtime are its own business.
static bool looked_at(const KeptCell *c)
{
    return !c->exempt && c->cell->name[0] != '@' && c->cell->kind != PC_SCRATCH;
}

netc_status kept_take(Kept *k, netc_error **err)
{
    RtError e = {0};
    for (int i = 0; i < k->n; i++) {
        KeptCell *c = &k->cell[i];
        if (rt_cell_read(k->s->rt, c->cell->name, c->data, c->bytes, &e))
            return lib_fail_rt(err, &e);
        if (k->first) c->exempt = !cell_is_sound(c->cell, c->data);
    }
    k->first = false;
    return NETC_OK;
}

netc_status kept_put_back(Kept *k, netc_error **err)
{
    RtError e = {0};
    for (int i = 0; i < k->n; i++)
        if (rt_cell_write(k->s->rt, k->cell[i].cell->name, k->cell[i].data, k->cell[i].bytes, &e))
            return lib_fail_rt(err, &e);
    return NETC_OK;
}

netc_status kept_unsound(Kept *k, const char **cell, netc_error **err)
{
    *cell = NULL;
    for (int i = 0; i < k->n && !*cell; i++) {
        const KeptCell *c = &k->cell[i];
        RtError e = {0};
        if (!looked_at(c)) continue;
        if (rt_cell_read(k->s->rt, c->cell->name, k->scratch, c->bytes, &e))
            return lib_fail_rt(err, &e);
        if (!cell_is_sound(c->cell, k->scratch)) *cell = c->cell->name;
    }
    return NETC_OK;
}
