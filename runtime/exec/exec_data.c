// Data sets bound to entries, the row tables through which they are read, and runs.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "runtime/exec/exec.h"
#include "runtime/host/range.h"
#include "base/names.h"

static int find_input(const ProgEntry *e, const char *name, RtError *err)
{
    const char *names[64];
    size_t n = 0;
    for (int i = 0; i < e->ninputs; i++) {
        if (!strcmp(e->inputs[i].name, name)) return i;
        if (n < 64) names[n++] = e->inputs[i].name;
    }
    rt_fail(err, RT_USER, "'%s' has no input '%s'%s", e->name, name, advise(name, names, n).text);
    return -1;
}

static void unuse(RtSession *s, RtData *d)
{
    if (!d || --d->users) return;
    RtData **p = &s->data;
    while (*p && *p != d) p = &(*p)->next;
    if (*p) *p = d->next;
    if (d->at != d->host) s->device->ops->free(s->device, d->at);
    free(d);
}

void rt_data_release(RtSession *s, RtEntry *en)
{
    for (int i = 0; i < en->e->ninputs; i++) {
        unuse(s, en->data[i]);
        en->data[i] = NULL;
    }
    rt_stage_free(s, en);
}

// Whether an array may be stored on the device: a tenth of its memory must stay free.
static bool fits(RtSession *s, size_t bytes)
{
    size_t free_bytes, total;
    const RtDeviceOps *ops = s->device->ops;
    return !ops->memory(s->device, &free_bytes, &total) || bytes + total / 10 <= free_bytes;
}

// A hash of 256 pages, to notice that a freed array was replaced by another one at the same
// address.
static uint64_t fingerprint(const void *host, size_t bytes)
{
    enum { PAGE = 4096, PAGES = 256 };
    if (bytes <= PAGE * PAGES) return hash_bytes(host, bytes, 0);
    uint64_t h = 0;
    size_t stride = (bytes - PAGE) / (PAGES - 1);
    for (size_t i = 0; i < PAGES; i++) h = hash_bytes((const char *)host + i * stride, PAGE, h);
    return h;
}

// Copies an array to the device if it fits; otherwise it stays on the host and is streamed.
static RtCode upload(RtSession *s, RtData *d, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    RtError no_room = {0};
    if (d->source) return RT_OK;
    if (ops->unified) d->at = (void *)d->host;
    if (d->at || !d->bytes || !fits(s, d->bytes)) return RT_OK;
    if (ops->alloc(s->device, d->bytes, "data set", &d->at, &no_room)) return RT_OK;
    // Waits for the copy, since the caller may free the array after unbinding it.
    if (!ops->copy(s->stream, d->at, d->host, d->bytes, RT_H2D, NULL, e) &&
        !ops->stream_sync(s->stream, e))
        return RT_OK;
    ops->free(s->device, d->at);
    d->at = NULL;
    return e->code;
}

static RtData *use(RtSession *s, const RtDataBinding *b, size_t bytes, RtError *e)
{
    const void *host = b->source ? (const void *)b->source : b->data;
    uint64_t print = s->device->ops->unified || b->source ? 0 : fingerprint(host, bytes);
    RtData *d = s->data;
    while (d && (d->host != host || d->bytes != bytes || d->print != print)) d = d->next;
    if (!d) {
        d = calloc(1, sizeof *d);
        if (!d) return rt_fail(e, RT_OOM, "out of memory"), NULL;
        *d = (RtData){
            .next = s->data, .host = host, .source = b->source, .bytes = bytes, .print = print};
        s->data = d;
    }
    d->users++;
    if (upload(s, d, e) == RT_OK) return d;
    unuse(s, d);
    return NULL;
}

static RtCode grow_rows(RtSession *s, RtEntry *en, int64_t n, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    if (n <= en->rows_cap) return RT_OK;
    if (ops->stream_sync(s->stream, e)) return e->code;
    if (en->rows_now == en->rows) rt_entry_unresolve(s, en);
    rt_rows_free(s, en);
    size_t bytes = (size_t)n * sizeof *en->rows;
    void *p, *pinned;
    if (ops->alloc(s->device, bytes, "row table", &p, e)) return e->code;
    en->rows = p;
    if (ops->host_alloc(s->device, bytes, &pinned, e)) return e->code;
    en->rows_pinned = pinned;
    en->rows_cap = n;
    return RT_OK;
}

void rt_rows_free(RtSession *s, RtEntry *en)
{
    s->device->ops->free(s->device, en->rows);
    if (en->rows_pinned) s->device->ops->host_free(s->device, en->rows_pinned);
    en->rows = en->rows_pinned = NULL;
    en->rows_cap = 0;
}

static RtCode bind(RtSession *s, RtEntry *en, const RtDataBinding *b, int n, int64_t examples,
                   RtError *e)
{
    const ProgEntry *x = en->e;
    bool streamed = false;
    en->nrows = 0; // the table belonged to the previous data set; rt_rows_set sets the new one
    for (int k = 0; k < x->ninputs; k++) { // inputs that are not bound again may have fewer
                                           // examples
        bool again = false;
        for (int i = 0; i < n; i++) again |= !strcmp(b[i].input, x->inputs[k].name);
        if (again) continue;
        unuse(s, en->data[k]);
        en->data[k] = NULL;
    }
    for (int i = 0; i < n; i++) {
        int k = find_input(x, b[i].input, e);
        if (k < 0) return e->code;
        const ProgInput *in = &x->inputs[k];
        int64_t row =
            in->type.rank && in->type.dim[0] ? prog_type_bytes(&in->type) / in->type.dim[0] : 0;
        if (b[i].row_bytes != row)
            return rt_fail(e, RT_USER,
                           "an example of '%s' has %" PRId64 " bytes, the data %" PRId64, in->name,
                           row, b[i].row_bytes);
        size_t bytes;
        if (__builtin_mul_overflow((size_t)examples, (size_t)row, &bytes))
            return rt_fail(e, RT_USER, "the data for '%s' are too big", in->name);
        int64_t width = prog_dtype_bytes(in->type.dtype);
        if (in->has_range && !b[i].source &&
            rt_range_check(in->type.dtype, b[i].data, (int64_t)bytes / width, row / width, in->low,
                           in->high, in->name, e))
            return e->code;
        RtData *d = use(s, &b[i], bytes, e);
        if (!d) return e->code;
        unuse(s, en->data[k]);
        en->data[k] = d;
        en->row_bytes[k] = row;
        streamed |= !d->at && bytes;
    }
    en->examples = examples;
    // If one input is streamed, all are: the ring buffer has one numbering of rows.
    rt_stage_free(s, en);
    if (streamed && rt_stage_new(s, en, e)) return e->code;
    return RT_OK;
}

RtCode rt_data_bind(RtSession *s, RtProgram *p, const char *entry, const RtDataBinding *b, int n,
                    int64_t examples, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    if (!en->e->rows)
        return rt_fail(e, RT_USER, "'%s' does not read its inputs from a data set", entry);
    if (examples < 0 || examples > INT32_MAX)
        return rt_fail(e, RT_USER, "%" PRId64 " examples: a data set holds at most %d", examples,
                       INT32_MAX);
    if (rt_enter(s, e)) return e->code;
    // Allocates memory before the first of many steps.
    RtCode code = n ? rt_entry_memory(s, en, e) : RT_OK;
    if (!code) code = bind(s, en, b, n, examples, e);
    rt_leave(s);
    return code;
}

RtCode rt_cursor_rewind(RtSession *s, RtEntry *en, RtError *e)
{
    RtCell *c = en->cursor;
    if (!c) return RT_OK;
    c->known = true;
    c->position = 0;
    return c->bytes ? s->device->ops->zero(s->stream, c->at, c->bytes, NULL, e) : RT_OK;
}

static RtCode set_rows(RtSession *s, RtEntry *en, const int32_t *rows, int64_t n, RtError *e)
{
    for (int64_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= en->examples)
            return rt_fail(e, RT_USER, "row %d of the data of '%s' does not exist: it has %" PRId64,
                           rows[i], en->e->name, en->examples);
    if (n > 0 && grow_rows(s, en, n, e)) return e->code;
    en->nrows = n;
    if (en->stage) {
        if (rt_stage_rows(s, en, rows, n, e)) return e->code;
    } else if (n > 0) {
        if (s->device->ops->stream_sync(s->stream, e))
            return e->code; // waits for the previous
                            // copy
        memcpy(en->rows_pinned, rows, (size_t)n * sizeof *rows);
        if (s->device->ops->copy(s->stream, en->rows, en->rows_pinned, (size_t)n * sizeof *rows,
                                 RT_H2D, NULL, e))
            return e->code;
    }
    return rt_cursor_rewind(s, en, e);
}

RtCode rt_rows_set(RtSession *s, RtProgram *p, const char *entry, const int32_t *rows, int64_t n,
                   RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    if (!en->e->rows) return rt_fail(e, RT_USER, "'%s' has no table of rows", entry);
    if (n < 0) return rt_fail(e, RT_USER, "a table of %" PRId64 " rows", n);
    if (rt_enter(s, e)) return e->code;
    RtCode code = set_rows(s, en, rows, n, e);
    rt_leave(s);
    return code;
}

static void set_input(RtSession *s, RtEntry *en, int k, const void *p)
{
    if (en->input[k] == p) return;
    rt_entry_unresolve(s, en);
    en->input[k] = p;
}

static void set_table(RtSession *s, RtEntry *en, const int32_t *rows)
{
    if (en->rows_now == rows) return;
    rt_entry_unresolve(s, en);
    en->rows_now = rows;
}

// Whether an argument is used directly. Graphs contain addresses: if an entry has so many launches
// that a graph is faster, and the address changes, the argument is copied.
static bool in_place(RtSession *s, RtEntry *en, int k, const RtInput *in)
{
    const void *now = en->input[k];
    if (s->device->ops->unified || en->captured) return true;
    if (!in->device || en->roams[k]) return false;
    en->roams[k] =
        now && now != in->data && now != en->own_input[k] && en->launches > RT_FEW_LAUNCHES;
    return !en->roams[k];
}

// Uses an argument of rt_run directly, or copies it to the entry's own buffer.
static RtCode take_input(RtSession *s, RtEntry *en, int k, const RtInput *in, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    const ProgInput *x = &en->e->inputs[k];
    size_t bytes = (size_t)prog_type_bytes(&x->type);
    int64_t width = prog_dtype_bytes(x->type.dtype), row = (int64_t)bytes / width;
    if (x->type.rank && x->type.dim[0]) row /= x->type.dim[0];
    // Contents of device memory are not checked.
    if (x->has_range && !in->device &&
        rt_range_check(x->type.dtype, in->data, (int64_t)bytes / width, row, x->low, x->high,
                       x->name, e))
        return e->code;
    if (in_place(s, en, k, in)) {
        set_input(s, en, k, in->data);
        return RT_OK;
    }
    if (!en->own_input[k] &&
        ops->alloc(s->device, bytes ? bytes : 1, x->name, &en->own_input[k], e))
        return e->code;
    set_input(s, en, k, en->own_input[k]);
    if (!bytes) return RT_OK;
    return ops->copy(s->stream, en->own_input[k], in->data, bytes, in->device ? RT_D2D : RT_H2D,
                     NULL, e);
}

static RtCode take_identity(RtSession *s, RtEntry *en, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    int64_t n = en->e->batch > 0 ? en->e->batch : 1;
    for (int i = 0; i < en->e->ninputs; i++) {
        const ProgType *t = &en->e->inputs[i].type;
        if (en->e->inputs[i].data && t->rank && t->dim[0] > n) n = t->dim[0];
    }
    if (!en->identity) {
        void *p;
        int32_t *host = malloc((size_t)n * sizeof *host);
        if (!host) return rt_fail(e, RT_OOM, "out of memory");
        for (int64_t i = 0; i < n; i++) host[i] = (int32_t)i;
        RtCode code = ops->alloc(s->device, (size_t)n * sizeof *host, "row table", &p, e);
        if (!code) {
            en->identity = p;
            code = ops->copy(s->stream, p, host, (size_t)n * sizeof *host, RT_H2D, NULL, e);
            if (!code) code = ops->stream_sync(s->stream, e);
        }
        free(host);
        if (code) return code;
    }
    set_table(s, en, en->identity);
    return RT_OK;
}

// Checks that the bound rows suffice for [times] executions.
static RtCode check_rows(RtSession *s, RtEntry *en, int64_t times, RtError *e)
{
    RtCell *c = en->cursor;
    int64_t need, left;
    if (c && !c->known) {
        if (s->device->ops->copy(s->stream, &c->position, c->at, sizeof c->position, RT_D2H, NULL,
                                 e) ||
            s->device->ops->stream_sync(s->stream, e))
            return e->code;
        c->known = true;
    }
    left = en->nrows - (c ? c->position : 0);
    if (!c) times = times > 0;
    if (c && c->position < 0) left = -1;
    if (__builtin_mul_overflow(times, en->e->batch, &need) || need > left)
        return rt_fail(e, RT_USER,
                       "%" PRId64 " batches of %" PRId64
                       " rows were requested from '%s', but %" PRId64 " rows of its table are left",
                       times, en->e->batch, en->e->name, left < 0 ? 0 : left);
    return RT_OK;
}

static RtCode take_inputs(RtSession *s, RtEntry *en, const RtInput *in, int n, bool *direct,
                          RtError *e)
{
    const ProgEntry *x = en->e;
    *direct = false; // (data are given as arguments)
    for (int i = 0; i < n; i++) {
        int k = find_input(x, in[i].name, e);
        if (k < 0) return e->code;
        *direct |= x->inputs[k].data;
    }
    for (int k = 0; k < x->ninputs; k++) {
        const RtInput *given = NULL;
        for (int i = 0; i < n; i++)
            if (!strcmp(in[i].name, x->inputs[k].name)) given = &in[i];
        if (given) {
            if (take_input(s, en, k, given, e)) return e->code;
        } else if (x->rows && x->inputs[k].data && !*direct && en->data[k]) {
            if (!en->stage) set_input(s, en, k, en->data[k]->at);
        } else {
            return rt_fail(e, RT_USER, "input '%s' of '%s' was given no data", x->inputs[k].name,
                           x->name);
        }
    }
    return RT_OK;
}

static bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y + (uintptr_t)b_bytes && y < x + (uintptr_t)a_bytes;
}

// Checks that memory in which the caller wants outputs does not overlap inputs or other outputs.
static RtCode check_places(const RtEntry *en, const RtInput *in, int n, RtError *e)
{
    const ProgEntry *x = en->e;
    for (int i = 0; i < x->noutputs; i++) {
        const ProgOutput *o = &x->outputs[i];
        int64_t bytes = prog_type_bytes(&o->type);
        if (!en->output[i] || en->output[i] == en->own_output[i]) continue;
        for (int k = 0; k < n; k++) {
            int at = find_input(x, in[k].name, e);
            if (at < 0) return e->code;
            if (overlap(en->output[i], bytes, in[k].data, prog_type_bytes(&x->inputs[at].type)))
                return rt_fail(e, RT_USER,
                               "output '%s' of '%s' is to be stored over its input '%s': give it "
                               "memory of its own",
                               o->name, x->name, in[k].name);
        }
        for (int k = 0; k < i; k++)
            if (en->output[k] &&
                overlap(en->output[i], bytes, en->output[k], prog_type_bytes(&x->outputs[k].type)))
                return rt_fail(e, RT_USER,
                               "outputs '%s' and '%s' of '%s' are to be stored in the same memory",
                               x->outputs[k].name, o->name, x->name);
    }
    return RT_OK;
}

static RtCode copy_strays(RtSession *s, RtEntry *en, RtError *e)
{
    RtCode code = RT_OK;
    for (int i = 0; i < en->e->noutputs && !code; i++)
        if (en->then[i] && en->then[i] != en->output[i])
            code = s->device->ops->copy(s->stream, en->then[i], en->output[i],
                                        (size_t)prog_type_bytes(&en->e->outputs[i].type), RT_D2D,
                                        NULL, e);
    return code;
}

static RtCode run(RtSession *s, RtEntry *en, const RtInput *in, int n, int64_t times, RtError *e)
{
    bool direct, ordered = s->theirs || s->met;
    if (check_places(en, in, n, e)) return e->code;
    if (!en->captured &&
        ((!ordered && rt_replays_wait(s, e)) || rt_prepare(s, en, e) || rt_entry_memory(s, en, e)))
        return e->code;
    if (take_inputs(s, en, in, n, &direct, e)) return e->code;
    bool table = en->e->rows && !direct;
    if (table && check_rows(s, en, times, e)) return e->code;
    if (table) set_table(s, en, en->rows);
    if (en->e->rows && direct && take_identity(s, en, e)) return e->code;
    if (table && en->stage) return rt_stage_run(s, en, times, e);
    bool rewind = en->e->rows && direct; // each execution reads the same rows
    if (en->captured) return rt_capture_steps(s, en, rewind, times, e);
    rt_entry_resolve(s, en);
    bool unified = s->device->ops->unified;
    for (int64_t i = 0, done; i < times; i += done) {
        if (rewind && rt_cursor_rewind(s, en, e)) return e->code;
        if (rt_entry_some(s, en, rewind ? 1 : times - i, &done, e)) return e->code;
        if (unified && en->error->code) break; // (the others would change nothing)
    }
    if (table && en->cursor) en->cursor->position += times * en->e->batch;
    if (rewind && en->cursor) en->cursor->known = false;
    return times ? copy_strays(s, en, e) : RT_OK;
}

RtCode rt_run(RtSession *s, RtProgram *p, const char *entry, const RtInput *inputs, int n,
              int64_t times, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    if (rt_enter_captured(s, e)) return e->code;
    en->captured = rt_is_captured(s);
    RtCode code = en->captured ? rt_capture_ready(s, en, inputs, n, e) : RT_OK;
    if (!code) code = run(s, en, inputs, n, times, e);
    en->captured = s->met = false;
    rt_leave(s);
    return code;
}
