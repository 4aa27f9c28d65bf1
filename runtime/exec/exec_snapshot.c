// The values of cells at one moment, copied on the device, which is fast, and read from there while
// the session continues.
#include <stdlib.h>

#include "runtime/exec/exec.h"
#include "runtime/exec/exec_cells.h"

enum {
    ALIGN = 256,
    LEAST_FREE = 8
}; // LEAST_FREE: a snapshot takes at most 1 / LEAST_FREE of the
   // free memory

struct RtSnapshot {
    RtDevice *device;
    RtStream *stream; // a stream of its own
    char *block;
    int n;
    size_t *at, *bytes; // by cell
};

void rt_snapshot_free(RtSnapshot *p)
{
    RtError ignored = {0};
    if (!p) return;
    if (p->device->ops->enter(p->device, &ignored) == RT_OK) {
        p->device->ops->stream_free(p->stream);
        p->device->ops->free(p->device, p->block);
        p->device->ops->leave(p->device);
    }
    free(p->at);
    free(p->bytes);
    free(p);
}

static RtCode take(RtSession *s, RtSnapshot *p, RtCell *const *cell, size_t total, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    void *block;
    if (rt_replays_wait(s, e) || ops->stream_new(s->device, NULL, &p->stream, e) ||
        ops->alloc(s->device, total, "a copy of states", &block, e))
        return e->code;
    p->block = block;
    for (int i = 0; i < p->n; i++)
        if (p->bytes[i] &&
            ops->copy(s->stream, p->block + p->at[i], cell[i]->at, p->bytes[i], RT_D2D, NULL, e))
            return e->code;
    return ops->stream_sync(s->stream, e);
}

bool rt_snapshot_new(RtSession *s, const char *const *names, int n, RtSnapshot **out)
{
    const RtDeviceOps *ops = s->device->ops;
    RtError e = {0};
    size_t total = 0, avail = 0, all = 0;
    RtSnapshot *p = calloc(1, sizeof *p);
    RtCell **cell = calloc((size_t)n + 1, sizeof *cell);
    bool ok = p && cell && !ops->unified;
    *out = NULL;
    if (ok) {
        *p = (RtSnapshot){.device = s->device,
                          .n = n,
                          .at = calloc((size_t)n + 1, sizeof *p->at),
                          .bytes = calloc((size_t)n + 1, sizeof *p->bytes)};
        ok = p->at && p->bytes;
    }
    for (int i = 0; i < n && ok; i++) {
        cell[i] = rt_cells_find(s->cells, names[i]);
        ok = cell[i] != NULL;
        if (!ok) break;
        p->at[i] = total;
        p->bytes[i] = cell[i]->bytes;
        total += (cell[i]->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (ok && total && rt_enter(s, &e) == RT_OK) {
        ok = ops->memory(s->device, &avail, &all) && total <= avail / LEAST_FREE &&
             take(s, p, cell, total, &e) == RT_OK;
        rt_leave(s);
    } else {
        ok = false;
    }
    free(cell);
    if (ok) return *out = p, true;
    if (p && p->device)
        rt_snapshot_free(p);
    else
        free(p);
    return false;
}

RtCode rt_snapshot_read(RtSnapshot *p, int cell, void *to, RtError *e)
{
    const RtDeviceOps *ops = p->device->ops;
    if (!p->bytes[cell]) return RT_OK;
    if (ops->enter(p->device, e)) return e->code;
    RtCode code = ops->copy(p->stream, to, p->block + p->at[cell], p->bytes[cell], RT_D2H, NULL, e);
    if (!code) code = ops->stream_sync(p->stream, e);
    ops->leave(p->device);
    return code;
}
