// Cells: the named values a session keeps between runs.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"
#include "runtime/exec/exec_cells.h"

enum { ALIGN = 256 };

RtCells *rt_cells_new(RtDevice *d)
{
    RtCells *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    if (pthread_mutex_init(&c->lock, NULL)) {
        free(c);
        return NULL;
    }
    if (pthread_mutex_init(&c->preparing, NULL)) {
        pthread_mutex_destroy(&c->lock);
        free(c);
        return NULL;
    }
    atomic_init(&c->refs, 1);
    c->device = d;
    return c;
}

static void free_cells(RtCell **cell, int n)
{
    for (int i = 0; i < n; i++) {
        free(cell[i]->name);
        free(cell[i]);
    }
    free(cell);
}

void rt_cells_release(RtCells *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1) return;
    for (int i = 0; i < c->nblocks; i++) c->device->ops->free(c->device, c->block[i]);
    free_cells(c->cell, c->n);
    free_cells(c->prepared, c->nprepared);
    free(c->block);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->preparing);
    free(c);
}

static RtCell *find(RtCell *const *cell, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(cell[i]->name, name)) return cell[i];
    return NULL;
}

RtCell *rt_cells_find(RtCells *c, const char *name)
{
    pthread_mutex_lock(&c->lock);
    RtCell *found = find(c->cell, c->n, name);
    pthread_mutex_unlock(&c->lock);
    return found;
}

static void fill(const ProgCell *c, void *to, size_t bytes)
{
    _Alignas(8) char v[8] = {0};
    size_t size = (size_t)prog_dtype_bytes(c->type.dtype);
    prog_store(c->type.dtype, v, c->initial);
    for (size_t i = 0; i + size <= bytes; i += size) memcpy((char *)to + i, v, size);
}

static RtCell *append(RtCell ***cell, int *n, int *cap, const ProgCell *info, RtError *e)
{
    if (*n == *cap) {
        int most = *cap ? 2 * *cap : 32;
        RtCell **more = realloc(*cell, (size_t)most * sizeof *more);
        if (!more) return rt_fail(e, RT_OOM, "out of memory"), NULL;
        *cell = more;
        *cap = most;
    }
    RtCell *x = calloc(1, sizeof *x);
    if (x) x->name = strdup(info->name);
    if (!x || !x->name) {
        free(x);
        return rt_fail(e, RT_OOM, "out of memory"), NULL;
    }
    x->info = *info;
    x->info.name = x->name;
    x->waits = info->first_batch || program_told(info);
    x->bytes = (size_t)prog_type_bytes(&info->type);
    return (*cell)[(*n)++] = x;
}

static size_t room(size_t bytes)
{
    return bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
}

// The cell with the name of [info] in its table; if [make], creates it if necessary.
static RtCell *entered(RtCells *c, const ProgCell *info, bool make, RtError *e)
{
    bool prepared = info->kind == PC_PREPARED;
    RtCell ***cell = prepared ? &c->prepared : &c->cell;
    int *n = prepared ? &c->nprepared : &c->n;
    RtCell *x = find(*cell, *n, info->name);
    return x || !make ? x : append(cell, n, prepared ? &c->prepared_cap : &c->cap, info, e);
}

// Sets initial values of the cells [first, c->n), whose memory is zeroed.
static RtCode give_values(RtCells *c, RtStream *stream, int first, RtError *e)
{
    const RtDeviceOps *ops = c->device->ops;
    size_t total = 0, at = 0;
    for (int i = first; i < c->n; i++)
        if (c->cell[i]->info.initial != 0) total += room(c->cell[i]->bytes);
    char *host = ops->unified ? NULL : malloc(total + 1);
    if (!ops->unified && !host)
        return rt_fail(e, RT_OOM, "out of memory: %zu bytes for initial values", total);
    RtCode code = RT_OK;
    for (int i = first; i < c->n && !code; i++) {
        const RtCell *x = c->cell[i];
        if (x->info.initial == 0) continue;
        char *to = ops->unified ? x->at : host + at;
        fill(&x->info, to, x->bytes);
        if (!ops->unified && x->bytes)
            code = ops->copy(stream, x->at, to, x->bytes, RT_H2D, NULL, e);
        at += room(x->bytes);
    }
    RtCode behind = ops->stream_sync(stream, e); // waits, since streams of other sessions may read
                                                 // them next
    free(host);
    return code ? code : behind;
}

// Allocates and initialises the cells [first, c->n).
static RtCode give_memory(RtCells *c, RtStream *stream, int first, RtError *e)
{
    const RtDeviceOps *ops = c->device->ops;
    size_t total = 0;
    for (int i = first; i < c->n; i++) total += room(c->cell[i]->bytes);
    if (!total) return RT_OK;
    void **blocks = realloc(c->block, (size_t)(c->nblocks + 1) * sizeof *blocks);
    if (!blocks) return rt_fail(e, RT_OOM, "out of memory");
    c->block = blocks;
    void *at;
    if (ops->alloc(c->device, total, "parameters and states", &at, e)) return e->code;
    c->block[c->nblocks++] = at;
    size_t offset = 0;
    for (int i = first; i < c->n; i++) {
        c->cell[i]->at = (char *)at + offset;
        offset += room(c->cell[i]->bytes);
    }
    // Memory is zeroed on the device: most cells are zero, which may be gigabytes, and need not be
    // copied from the host.
    if (ops->zero(stream, at, total, NULL, e)) return e->code;
    return give_values(c, stream, first, e);
}

RtCode rt_cells_attach(RtCells *c, RtStream *stream, const Program *p, RtCell **out, RtError *e)
{
    pthread_mutex_lock(&c->lock);
    int first = c->n;
    RtCode code = RT_OK;
    // Checks all existing cells before any is added.
    for (int i = 0; i < p->ncells && !code; i++) {
        RtCell *x = entered(c, &p->cells[i], false, e);
        if (x && !prog_type_equal(&x->info.type, &p->cells[i].type)) {
            char have[160], want[160];
            prog_type_text(have, sizeof have, &x->info.type);
            prog_type_text(want, sizeof want, &p->cells[i].type);
            code = rt_fail(e, RT_USER, "'%s' is %s in this session, the program expects %s",
                           x->name, have, want);
        }
    }
    for (int i = 0; i < p->ncells && !code; i++) {
        out[i] = entered(c, &p->cells[i], true, e);
        if (!out[i]) code = e->code;
    }
    if (!code) code = give_memory(c, stream, first, e);
    if (code)
        while (c->n > first) {
            free(c->cell[--c->n]->name);
            free(c->cell[c->n]);
        }
    pthread_mutex_unlock(&c->lock);
    return code;
}

RtCode rt_cell_memory(RtCells *c, RtCell *x, RtError *e)
{
    void *at = NULL;
    pthread_mutex_lock(&c->lock);
    void **blocks = realloc(c->block, (size_t)(c->nblocks + 1) * sizeof *blocks);
    if (blocks) c->block = blocks;
    RtCode code = !blocks
                      ? rt_fail(e, RT_OOM, "out of memory")
                      : c->device->ops->alloc(c->device, room(x->bytes), "prepared values", &at, e);
    if (!code) x->at = c->block[c->nblocks++] = at;
    pthread_mutex_unlock(&c->lock);
    return code;
}

static RtCell *named(RtSession *s, const char *name, size_t n, RtError *e)
{
    RtCell *c = rt_cells_find(s->cells, name);
    if (!c) {
        rt_fail(e, RT_USER, "the session has no parameter or state '%s'", name);
    } else if (c->bytes != n) {
        rt_fail(e, RT_USER, "'%s' has %zu bytes, %zu were given", name, c->bytes, n);
        c = NULL;
    }
    return c;
}

RtCode rt_cell_write(RtSession *s, const char *cell, const void *bytes, size_t n, RtError *e)
{
    RtCell *c = named(s, cell, n, e);
    const RtDeviceOps *ops = s->device->ops;
    if (!c) return e->code;
    if (!n) return RT_OK;
    if (rt_enter(s, e)) return e->code;
    RtCode code = rt_replays_wait(s, e);
    if (!code) code = ops->copy(s->stream, c->at, bytes, n, RT_H2D, NULL, e);
    if (!code) code = ops->stream_sync(s->stream, e);
    rt_leave(s);
    c->known = false; // (it may be a cursor)
    c->waits = false;
    rt_cell_changed(s, c);
    return code;
}

RtCode rt_cell_read(RtSession *s, const char *cell, void *bytes, size_t n, RtError *e)
{
    RtCell *c = named(s, cell, n, e);
    const RtDeviceOps *ops = s->device->ops;
    if (!c) return e->code;
    if (!n) return RT_OK;
    if (rt_enter(s, e)) return e->code;
    RtCode code = rt_replays_wait(s, e);
    if (!code) code = ops->copy(s->stream, bytes, c->at, n, RT_D2H, NULL, e);
    if (!code) code = ops->stream_sync(s->stream, e);
    rt_leave(s);
    return code;
}

int rt_cell_count(const RtSession *s)
{
    pthread_mutex_lock(&s->cells->lock);
    int n = s->cells->n;
    pthread_mutex_unlock(&s->cells->lock);
    return n;
}

const ProgCell *rt_cell_info(const RtSession *s, int i)
{
    pthread_mutex_lock(&s->cells->lock);
    const ProgCell *c = &s->cells->cell[i]->info;
    pthread_mutex_unlock(&s->cells->lock);
    return c;
}
