// Snapshots, in host memory, of the cells that an entry writes: evaluation restores what it wrote,
// and training goes back to the last step whose values were finite.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib/api/keep.h"
#include "runtime/host/file.h"

typedef struct KeptCell {
    const ProgCell *cell;
    size_t bytes;
    void *data;
    bool exempt; // its first copy had such values already
} KeptCell;

// Larger copies are transferred to the host by a separate thread, from a snapshot on the device.
#define LARGE (64u << 20)

struct Kept {
    netc_session *s;
    int n;
    KeptCell *cell;
    void *scratch; // as large as the largest cell
    size_t bytes;  // of all cells
    bool first;
    bool copying; // a thread fills [data] from the snapshot
    pthread_t thread;
    RtSnapshot *snapshot;
    RtError e;             // of the thread
    atomic_bool under_way; // the thread is running
    double seconds;        // duration of the last copy
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
    k->bytes = total;
    if (total > LARGE && rt_host_memory(&free_bytes, &all) && total + most > free_bytes)
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
    atomic_init(&k->under_way, false);
    netc_status status = find_cells(k, p, e, own, err);
    if (status == NETC_OK) status = kept_take(k, err);
    if (status != NETC_OK) {
        kept_free(k);
        *out = NULL;
    }
    return status;
}

// Waits for a copy in progress.
static netc_status wait_for_copy(Kept *k, netc_error **err)
{
    if (!k->copying) return NETC_OK;
    pthread_join(k->thread, NULL);
    k->copying = false;
    return k->e.code ? lib_fail_rt(err, &k->e) : NETC_OK;
}

double kept_seconds(const Kept *k)
{
    return atomic_load(&k->under_way) ? INFINITY : k->seconds;
}

void kept_free(Kept *k)
{
    if (!k) return;
    wait_for_copy(k, NULL);
    for (int i = 0; i < k->n; i++) free(k->cell[i].data);
    free(k->cell);
    free(k->scratch);
    free(k);
}

// The largest magnitude of n floats, as bits. An infinity has all bits of the exponent set, and a
// NaN is larger. Reads a fixed number at a time, so that compilers vectorize it.
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

// (a model's own state may contain infinities on purpose, such as a running minimum)
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

// Whether the cell is checked: not scratch states, which exist only during training, nor those of
// the runtime.
static bool looked_at(const KeptCell *c)
{
    return !c->exempt && c->cell->name[0] != '@' && c->cell->kind != PC_SCRATCH;
}

// Fills [data], from the snapshot if there is one.
static RtCode copy_cells(Kept *k, RtError *e)
{
    double begin = clock_now();
    for (int i = 0; i < k->n; i++) {
        KeptCell *c = &k->cell[i];
        if (k->snapshot ? rt_snapshot_read(k->snapshot, i, c->data, e)
                        : rt_cell_read(k->s->rt, c->cell->name, c->data, c->bytes, e))
            return e->code;
        if (k->first) c->exempt = !cell_is_sound(c->cell, c->data);
    }
    k->seconds = clock_now() - begin;
    k->first = false;
    return RT_OK;
}

static void *copy_beside(void *arg)
{
    Kept *k = arg;
    copy_cells(k, &k->e);
    rt_snapshot_free(k->snapshot);
    k->snapshot = NULL;
    atomic_store(&k->under_way, false);
    return NULL;
}

static bool take_snapshot(Kept *k)
{
    const char **names = calloc((size_t)k->n + 1, sizeof *names);
    for (int i = 0; i < k->n && names; i++) names[i] = k->cell[i].cell->name;
    bool ok = names && rt_snapshot_new(k->s->rt, names, k->n, &k->snapshot);
    free(names);
    return ok;
}

netc_status kept_take(Kept *k, netc_error **err)
{
    RtError e = {0};
    netc_status status = wait_for_copy(k, err);
    if (status != NETC_OK) return status;
    if (k->bytes > LARGE && take_snapshot(k)) {
        atomic_store(&k->under_way, true);
        k->e = (RtError){0};
        k->copying = pthread_create(&k->thread, NULL, copy_beside, k) == 0;
        if (!k->copying) copy_beside(k);
        return k->e.code && !k->copying ? lib_fail_rt(err, &k->e) : NETC_OK;
    }
    return copy_cells(k, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status kept_put_back(Kept *k, netc_error **err)
{
    RtError e = {0};
    netc_status status = wait_for_copy(k, err);
    if (status != NETC_OK) return status;
    for (int i = 0; i < k->n; i++)
        if (rt_cell_write(k->s->rt, k->cell[i].cell->name, k->cell[i].data, k->cell[i].bytes, &e))
            return lib_fail_rt(err, &e);
    return NETC_OK;
}

netc_status kept_unsound(Kept *k, const char **cell, netc_error **err)
{
    *cell = NULL;
    netc_status status = wait_for_copy(k, err); // afterwards it is known which cells are exempt
    if (status != NETC_OK) return status;
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
