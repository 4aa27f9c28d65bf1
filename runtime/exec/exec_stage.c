// Data sets that do not fit on the device. A ring of chunks there, each some batches long, is
// filled from pinned host memory on a separate stream while the previous chunk is consumed. The
// entry sees ordinary arrays: the ring is its data set, and its row table is j mod (rows of the
// ring), which never changes.
#include <stdlib.h>
#include <string.h>

#include "runtime/data.h"
#include "runtime/exec/exec.h"

enum { CHUNKS = 3, CHUNK_BYTES = 32 << 20 };

struct RtStage {
    RtStream *copies;
    int64_t chunk;        // rows per chunk: a multiple of the batch
    char *pinned[CHUNKS]; // all inputs of a chunk, one after the other
    void **ring;          // on the device, by input
    RtEvent *filled[CHUNKS], *used[CHUNKS];
    bool was_filled[CHUNKS], was_used[CHUNKS];
    int32_t *rows;          // row numbers in the data set
    int64_t rows_cap, next; // next: the first row that is not in the ring buffer yet
};

void rt_stage_free(RtSession *s, RtEntry *en)
{
    RtStage *g = en->stage;
    const RtDeviceOps *ops = s->device->ops;
    RtError e = {0};
    if (!g) return;
    rt_entry_unresolve(s, en);
    ops->stream_sync(s->stream, &e);
    if (g->copies) ops->stream_sync(g->copies, &e);
    for (int i = 0; i < CHUNKS; i++) {
        if (g->pinned[i]) ops->host_free(s->device, g->pinned[i]);
        if (g->filled[i]) ops->event_free(g->filled[i]);
        if (g->used[i]) ops->event_free(g->used[i]);
    }
    for (int i = 0; g->ring && i < en->e->ninputs; i++) {
        if (en->input[i] == g->ring[i]) en->input[i] = NULL;
        ops->free(s->device, g->ring[i]);
    }
    if (g->copies) ops->stream_free(g->copies);
    free(g->ring);
    free(g->rows);
    free(g);
    en->stage = NULL;
}

RtCode rt_stage_new(RtSession *s, RtEntry *en, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    RtDevice *d = s->device;
    RtStage *g = calloc(1, sizeof *g);
    if (!g) return rt_fail(e, RT_OOM, "out of memory");
    en->stage = g;
    g->ring = calloc((size_t)en->e->ninputs + 1, sizeof *g->ring);
    if (!g->ring) return rt_fail(e, RT_OOM, "out of memory");
    int64_t row = 0, batch = en->e->batch > 0 ? en->e->batch : 1;
    for (int i = 0; i < en->e->ninputs; i++)
        if (en->data[i]) row += en->row_bytes[i];
    // At most an eighth of the examples.
    int64_t batches = row > 0 ? CHUNK_BYTES / row / batch : 1, most = en->examples / batch / 8;
    if (batches > most) batches = most;
    g->chunk = batch * (batches > 0 ? batches : 1);
    RtCode code = ops->stream_new(d, NULL, &g->copies, e);
    for (int i = 0; i < CHUNKS && !code; i++) {
        void *p = NULL;
        code = ops->host_alloc(d, (size_t)(g->chunk * row) + 1, &p, e);
        g->pinned[i] = p;
        if (!code) code = ops->event_new(d, &g->filled[i], e);
        if (!code) code = ops->event_new(d, &g->used[i], e);
    }
    for (int i = 0; i < en->e->ninputs && !code; i++)
        if (en->data[i])
            code = ops->alloc(d, (size_t)(CHUNKS * g->chunk * en->row_bytes[i]) + 1,
                              "batches on their way", &g->ring[i], e);
    if (code) rt_stage_free(s, en);
    return code;
}

RtCode rt_stage_rows(RtSession *s, RtEntry *en, const int32_t *rows, int64_t n, RtError *e)
{
    RtStage *g = en->stage;
    const RtDeviceOps *ops = s->device->ops;
    if (ops->stream_sync(s->stream, e)) return e->code;
    if (n > g->rows_cap) {
        int32_t *more = realloc(g->rows, (size_t)n * sizeof *more);
        if (!more) return rt_fail(e, RT_OOM, "out of memory");
        g->rows = more;
        g->rows_cap = n;
    }
    if (n) memcpy(g->rows, rows, (size_t)n * sizeof *rows);
    g->next = 0;
    int32_t *table = malloc((size_t)(n ? n : 1) * sizeof *table);
    if (!table) return rt_fail(e, RT_OOM, "out of memory");
    for (int64_t i = 0; i < n; i++) table[i] = (int32_t)(i % (CHUNKS * g->chunk));
    RtCode code = RT_OK;
    if (n) code = ops->copy(s->stream, en->rows, table, (size_t)n * sizeof *table, RT_H2D, NULL, e);
    if (!code) code = ops->stream_sync(s->stream, e);
    free(table);
    return code;
}

// Fills the chunk that begins at row [g->next], and makes the entry's stream wait for it.
static RtCode fill(RtSession *s, RtEntry *en, RtError *e)
{
    RtStage *g = en->stage;
    const RtDeviceOps *ops = s->device->ops;
    int at = (int)(g->next / g->chunk % CHUNKS);
    int64_t left = en->nrows - g->next, n = left < g->chunk ? left : g->chunk;
    // Pinned memory is reused when its copy has ended; a chunk on the device when it was consumed.
    if (g->was_filled[at] && ops->event_sync(g->filled[at], e)) return e->code;
    if (g->was_used[at] && ops->event_wait(g->copies, g->used[at], e)) return e->code;
    char *p = g->pinned[at];
    for (int k = 0; k < en->e->ninputs; k++) {
        size_t row = (size_t)en->row_bytes[k];
        if (!en->data[k] || !row || !n) continue;
        const char *host = en->data[k]->host;
        const RtSource *source = en->data[k]->source;
        const int32_t *rows = g->rows + g->next;
        if (source && source->rows(source, rows, n, p, e)) return e->code;
        for (int64_t i = 0; i < n && !source; i++)
            memcpy(p + (size_t)i * row, host + (size_t)rows[i] * row, row);
        char *to = (char *)g->ring[k] + (size_t)at * (size_t)g->chunk * row;
        if (ops->copy(g->copies, to, p, (size_t)n * row, RT_H2D, NULL, e)) return e->code;
        p += (size_t)n * row;
    }
    if (ops->event_record(g->filled[at], g->copies, e) ||
        ops->event_wait(s->stream, g->filled[at], e))
        return e->code;
    g->was_filled[at] = true;
    g->next += g->chunk;
    return RT_OK;
}

RtCode rt_stage_run(RtSession *s, RtEntry *en, int64_t times, RtError *e)
{
    RtStage *g = en->stage;
    const RtDeviceOps *ops = s->device->ops;
    for (int k = 0; k < en->e->ninputs; k++) {
        if (!en->data[k] || en->input[k] == g->ring[k]) continue;
        rt_entry_unresolve(s, en);
        en->input[k] = g->ring[k];
    }
    rt_entry_resolve(s, en);
    int64_t position = en->cursor ? en->cursor->position : 0, batch = en->e->batch;
    // If reading continues elsewhere (as in a resumed epoch), begins with the chunk that contains
    // the position.
    if (position / g->chunk * g->chunk > g->next || position + g->chunk < g->next) {
        if (ops->stream_sync(s->stream, e)) return e->code; // waits until no chunk is in use
        g->next = position / g->chunk * g->chunk;
    }
    for (int64_t i = 0, done; i < times; i++) {
        // (A batch can be in two chunks only if the position is not a multiple of the batch.)
        while (g->next < position + batch && g->next < en->nrows)
            if (fill(s, en, e)) return e->code;
        if (rt_entry_some(s, en, 1, &done, e)) return e->code;
        position += batch;
        // Marks the chunk as consumed; the next one is filled while this one is used.
        if (position % g->chunk < batch) {
            int at = (int)((position - 1) / g->chunk % CHUNKS);
            if (ops->event_record(g->used[at], s->stream, e)) return e->code;
            g->was_used[at] = true;
        }
        if (g->next < en->nrows && g->next - position < g->chunk && fill(s, en, e)) return e->code;
    }
    if (en->cursor) en->cursor->position = position;
    return RT_OK;
}
