// An entry in a session: its buffers, and the arguments of its steps in the form that the device
// takes. They are recomputed when an address changes, not at every step.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"

enum { ALIGN = 256 };

static size_t room(size_t bytes)
{
    return bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
}

static bool moves(const ProgStep *s)
{
    for (int i = 0; i < s->nargs; i++) {
        if (s->args[i].kind == PA_LOOP_INDEX) return true;
        for (int d = 0; d < s->depth; d++)
            if (s->args[i].kind == PA_BUFFER && s->args[i].stride[d]) return true;
    }
    return false;
}

// Number of launches per execution, saturating.
static int64_t count_launches(const ProgEntry *e, int first, int last, int depth)
{
    int64_t n = 0;
    for (int i = first; i < last && n < INT32_MAX; i++) {
        const ProgStep *s = &e->steps[i];
        if (s->kind != PS_LOOP) {
            n++;
            continue;
        }
        if (depth < PROG_MAX_LOOP_DEPTH) {
            int64_t body = count_launches(e, s->first_step, s->last_step, depth + 1);
            n += s->count > 0 && body > INT32_MAX / s->count ? INT32_MAX : body * s->count;
        }
        i = s->last_step - 1;
    }
    return n;
}

static RtCode find_written(RtBound *b, RtEntry *en, RtError *err)
{
    const Program *p = b->program->p;
    bool *written = calloc((size_t)p->ncells + 1, sizeof *written);
    en->written = calloc((size_t)p->ncells + 1, sizeof *en->written);
    if (written && en->written) {
        program_written(p, en->e, written);
        for (int i = 0; i < p->ncells; i++)
            if (written[i]) en->written[en->nwritten++] = b->cell[i];
    }
    free(written);
    return written && en->written ? RT_OK : rt_fail(err, RT_OOM, "out of memory");
}

RtCode rt_entry_init(RtBound *b, RtEntry *en, const ProgEntry *e, RtError *err)
{
    en->e = e;
    en->bound = b;
    size_t nargs = 0;
    for (int i = 0; i < e->nsteps; i++) nargs += (size_t)e->steps[i].nargs;
    size_t nin = (size_t)e->ninputs + 1;
    en->step = calloc((size_t)e->nsteps + 1, sizeof *en->step);
    en->slot = calloc(nargs + 1, sizeof *en->slot);
    en->base = calloc(nargs + 1, sizeof *en->base);
    en->argv = calloc(nargs + 1, sizeof *en->argv);
    size_t nout = (size_t)e->noutputs + 1;
    en->output = calloc(nout, sizeof *en->output);
    en->stored = calloc(nout, sizeof *en->stored);
    en->own_output = calloc(nout, sizeof *en->own_output);
    en->late_output = calloc(nout, sizeof *en->late_output);
    en->input = calloc(nin, sizeof *en->input);
    en->own_input = calloc(nin, sizeof *en->own_input);
    en->roams = calloc(nin, sizeof *en->roams);
    en->strays = calloc(nout, sizeof *en->strays);
    en->then = calloc(nout, sizeof *en->then);
    en->data = calloc(nin, sizeof *en->data);
    en->row_bytes = calloc(nin, sizeof *en->row_bytes);
    if (!en->step || !en->slot || !en->base || !en->argv || !en->output || !en->stored ||
        !en->own_output || !en->late_output || !en->input || !en->own_input || !en->roams ||
        !en->strays || !en->then || !en->data || !en->row_bytes)
        return rt_fail(err, RT_OOM, "out of memory");
    int at = 0;
    for (int i = 0; i < e->nsteps; i++) {
        const ProgStep *step = &e->steps[i];
        en->step[i] = (RtStep){step, at, moves(step)};
        at += step->nargs;
    }
    if (find_written(b, en, err)) return err->code;
    en->launches = count_launches(e, 0, e->nsteps, 0);
    if (e->cursor)
        for (int i = 0; i < b->program->p->ncells; i++)
            if (!strcmp(b->program->p->cells[i].name, e->cursor)) en->cursor = b->cell[i];
    return RT_OK;
}

static size_t output_room(const ProgEntry *e, int i)
{
    return room((size_t)prog_type_bytes(&e->outputs[i].type));
}

// Allocates the error record and memory for the outputs that the caller has not placed.
static RtCode give_block(RtSession *s, RtEntry *en, RtError *err)
{
    const RtDeviceOps *ops = s->device->ops;
    const ProgEntry *e = en->e;
    size_t bytes = room(sizeof(ProgError));
    void *seen = NULL;
    for (int i = 0; i < e->noutputs; i++)
        if (!en->output[i]) bytes += output_room(e, i);
    if (!ops->unified && !en->seen && ops->host_alloc(s->device, sizeof *en->seen, &seen, err))
        return err->code;
    if (seen) en->seen = seen;
    if (ops->alloc(s->device, bytes, "outputs", &en->output_block, err) ||
        ops->zero(s->stream, en->output_block, bytes, NULL, err))
        return err->code;
    en->error = en->output_block;
    char *p = (char *)en->output_block + room(sizeof(ProgError));
    for (int i = 0; i < e->noutputs; i++) {
        if (en->output[i]) continue;
        en->output[i] = en->own_output[i] = p;
        p += output_room(e, i);
    }
    return RT_OK;
}

static RtCode give_outputs(RtSession *s, RtEntry *en, RtError *err)
{
    const RtDeviceOps *ops = s->device->ops;
    if (!en->output_block && give_block(s, en, err)) return err->code;
    for (int i = 0; i < en->e->noutputs; i++) { // no longer placed by the caller
        void **own = &en->late_output[i];
        if (en->output[i]) continue;
        if (ops->alloc(s->device, output_room(en->e, i), "outputs", own, err)) return err->code;
        en->output[i] = en->own_output[i] = *own;
    }
    return RT_OK;
}

// Allocates the session's arena for temporaries, which all entries share.
static RtCode grow_arena(RtSession *s, const ProgEntry *e, RtError *err)
{
    size_t need = (size_t)e->arena_bytes;
    if (need <= s->arena_bytes) return RT_OK;
    char what[160];
    snprintf(what, sizeof what, "temporaries of '%s'", e->name);
    const RtDeviceOps *ops = s->device->ops;
    // Frees the old arena first, since both may not fit. Work that uses it must have ended.
    if (ops->stream_sync(s->stream, err)) return err->code;
    for (RtBound *b = s->bound; b; b = b->next)
        for (int i = 0; i < b->program->p->nentries; i++) rt_entry_unresolve(s, &b->entry[i]);
    if (s->pinned && rt_arena_keep(s, err)) return err->code;
    ops->free(s->device, s->arena);
    s->arena = NULL;
    s->arena_bytes = 0;
    if (ops->alloc(s->device, need, what, &s->arena, err)) return err->code;
    s->arena_bytes = need;
    return RT_OK;
}

RtCode rt_entry_memory(RtSession *s, RtEntry *en, RtError *e)
{
    RtCode code = give_outputs(s, en, e);
    if (!code) code = grow_arena(s, en->e, e);
    if (code == RT_OOM) rt_oom_explain(s, en->bound->program->p, en->e, e);
    return code;
}

void rt_entry_free(RtSession *s, RtEntry *en)
{
    const RtDeviceOps *ops = s->device->ops;
    if (!en->e) return;
    rt_entry_unresolve(s, en);
    if (en->data) rt_data_release(s, en);
    for (int i = 0; en->own_input && i < en->e->ninputs; i++)
        ops->free(s->device, en->own_input[i]);
    for (int i = 0; en->late_output && i < en->e->noutputs; i++)
        ops->free(s->device, en->late_output[i]);
    ops->free(s->device, en->output_block);
    if (en->seen) ops->host_free(s->device, en->seen);
    rt_rows_free(s, en);
    ops->free(s->device, en->identity);
    free(en->step), free(en->slot), free(en->base), free(en->argv), free(en->output),
        free(en->input);
    free(en->stored), free(en->own_output), free(en->late_output);
    free(en->strays), free(en->then), free(en->written);
    free(en->own_input), free(en->roams), free(en->data), free(en->row_bytes);
    rt_lives_free(en->lives);
}

static void *address(RtSession *s, const RtEntry *en, const ProgBuffer *b)
{
    char *p = NULL;
    switch (b->region) {
    case PR_ARENA: p = en->captured && en->temporaries ? en->temporaries : s->arena; break;
    case PR_CELL: p = en->bound->cell[b->index]->at; break;
    case PR_INPUT: p = (char *)en->input[b->index]; break;
    case PR_OUTPUT: p = en->output[b->index]; break;
    case PR_CONST: p = en->bound->program->consts[b->index]; break;
    case PR_ERROR: p = (char *)en->error; break;
    case PR_ROWS: p = (char *)en->rows_now; break;
    case PR_DEVICE: p = s->device->ops->number(s->device); break;
    }
    return p ? p + b->offset : NULL;
}

bool rt_step_scratch(const RtSession *s, const RtEntry *en, const ProgStep *step, int arg,
                     size_t *bytes)
{
    const RtDeviceOps *ops = s->device->ops;
    const ProgGemm *g = step->kind == PS_GEMM ? &en->bound->program->p->gemms[step->index] : NULL;
    if (s->spoils) return false; // (all that was planned is filled)
    if (!g || !g->workspace || arg + 1 != prog_gemm_args(g) || !ops->gemm_scratch) return false;
    *bytes = ops->gemm_scratch(en->bound->program->module, step->index);
    return true;
}

// Offset at which step [i] begins to use the workspace that was planned for it. All products share
// the same planned memory, but most algorithms need only a few bytes. These get different offsets
// near its end, so that products can run concurrently.
static size_t scratch_shift(const RtSession *s, const RtEntry *en, int i, int arg)
{
    enum { PLACES = 64 };
    const ProgStep *step = en->step[i].s;
    size_t need, planned = (size_t)en->e->buffers[step->args[arg].index].bytes;
    if (!rt_step_scratch(s, en, step, arg, &need) || !need || room(need) > planned) return 0;
    size_t last = (planned - room(need)) / ALIGN * ALIGN,
           before = room(need) * (size_t)(i % PLACES);
    return before <= last ? last - before : last;
}

void rt_entry_resolve(RtSession *s, RtEntry *en)
{
    if (en->resolved) return;
    bool by_address = s->device->ops->args_by_address;
    for (int i = 0; i < en->e->nsteps; i++) {
        const ProgStep *step = en->step[i].s;
        for (int k = 0; k < step->nargs; k++) {
            const ProgArg *a = &step->args[k];
            int at = en->step[i].first_arg + k;
            RtSlot *slot = &en->slot[at];
            if (a->kind == PA_BUFFER) {
                char *p = address(s, en, &en->e->buffers[a->index]);
                slot->p = p ? p + a->value + scratch_shift(s, en, i, k) : NULL;
            } else {
                slot->v = a->kind == PA_INT ? a->value : 0;
            }
            en->base[at] = *slot;
            en->argv[at] = by_address || a->kind != PA_BUFFER ? slot : slot->p;
        }
    }
    en->resolved = true;
    en->warm = false;
}

void rt_entry_unresolve(RtSession *s, RtEntry *en)
{
    rt_graphs_free(s, en);
    en->resolved = en->warm = false;
}

void rt_entry_enqueued(RtEntry *en)
{
    en->error_dirty = true;
    en->failed = false;
    memcpy(en->stored, en->output, (size_t)en->e->noutputs * sizeof *en->stored);
}
