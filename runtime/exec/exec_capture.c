// Runs inside a CUDA graph of the caller: while the caller captures the session's stream, the steps
// of a run become nodes of the graph, with the present addresses of its inputs and outputs, and run
// with every launch of the graph, without the host. A run that needs the host at each launch is
// refused before anything is recorded.
//
// The session is not told about launches. So its memory stays where it was when it was recorded;
// cells that a launch may have written count as changed; and other uses of these cells, or of the
// memory of these sessions, wait for the whole device unless the caller has ordered them.
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/exec.h"

RtCode rt_enter_captured(RtSession *s, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    if (ops->enter(s->device, e)) return e->code;
    // A capture, even one by another thread, may forbid threads to allocate memory or to wait.
    if (ops->capture_allow && !s->entered)
        s->was_allowed = ops->capture_allow(s->device, RT_ALLOW_ALL);
    s->entered++;
    return RT_OK;
}

void rt_leave(RtSession *s)
{
    const RtDeviceOps *ops = s->device->ops;
    if (--s->entered == 0 && ops->capture_allow) ops->capture_allow(s->device, s->was_allowed);
    ops->leave(s->device);
}

bool rt_is_captured(const RtSession *s)
{
    const RtDeviceOps *ops = s->device->ops;
    return ops->captured && s->stream && ops->captured(s->stream);
}

RtCode rt_enter(RtSession *s, RtError *e)
{
    if (rt_enter_captured(s, e)) return e->code;
    if (!rt_is_captured(s)) return RT_OK;
    rt_leave(s);
    return rt_fail(e, RT_USER,
                   "the session's stream is being captured into a CUDA graph, in which only runs "
                   "of entries can be: end the capture first");
}

bool rt_captured(RtSession *s)
{
    RtError ignored = {0};
    if (!s->device->ops->captured || rt_enter_captured(s, &ignored)) return false;
    bool is = rt_is_captured(s);
    rt_leave(s);
    return is;
}

// -- what cannot be captured ----------------------------------------------------------------------

static RtEntry *prepares(const RtEntry *en)
{
    const Program *p = en->bound->program->p;
    int at = program_preparing(p, en->e);
    return at < 0 ? NULL : &en->bound->entry[at];
}

static bool has_memory(const RtSession *s, const RtEntry *en)
{
    for (int i = 0; i < en->nwritten; i++)
        if (en->written[i]->bytes && !en->written[i]->at) return false;
    return en->output_block && (size_t)en->e->arena_bytes <= s->arena_bytes;
}

static bool is_placed(const RtEntry *en, int output)
{
    const void *at = en->output[output];
    return en->then[output] || (at && at != en->own_output[output]) ||
           !prog_type_bytes(&en->e->outputs[output].type);
}

static RtCode check_memory(const RtEntry *en, const RtInput *in, int n, RtError *e)
{
    const ProgEntry *x = en->e;
    for (int i = 0; i < n; i++)
        if (!in[i].device && in[i].data)
            return rt_fail(e, RT_USER,
                           "input '%s' of '%s' lies in the host's memory, which a CUDA graph would "
                           "read again at each launch: give memory of the device, which you fill "
                           "before a launch",
                           in[i].name, x->name);
    for (int i = 0; i < x->noutputs; i++)
        if (!is_placed(en, i))
            return rt_fail(e, RT_USER,
                           "output '%s' of '%s' has no place in the device's memory where a launch "
                           "of the CUDA graph could leave it: give it one (netc_bind_output, out=)",
                           x->outputs[i].name, x->name);
    return RT_OK;
}

// Refuses entries with checks: a failed check prevents writes and is reported to the host, but the
// host would not read the report of a graph launch.
static RtCode check_checks(const RtEntry *en, RtError *e)
{
    const ProgEntry *x = en->e;
    if (!x->nchecks) return RT_OK;
    const ProgCheck *c = &x->checks[0];
    const char *advice = c->kind == CHECK_INDEX
                             ? "state the range of the indices where they are declared (i: i32[n] "
                               "in 0..10): then nothing is checked"
                             : "call it outside the graph";
    return rt_fail(e, RT_USER,
                   "'%s' cannot be captured into a CUDA graph: it checks its values%s%s, and a "
                   "launch of the graph could not report what it finds; %s",
                   x->name, c->loc && *c->loc ? " at " : "", c->loc ? c->loc : "", advice);
}

RtCode rt_capture_ready(RtSession *s, RtEntry *en, const RtInput *in, int n, RtError *e)
{
    const ProgEntry *x = en->e;
    const RtEntry *before = prepares(en);
    if (check_checks(en, e) || (before && check_checks(before, e))) return e->code;
    bool direct = false; // batches are given as arguments
    for (int i = 0; i < n; i++)
        for (int k = 0; k < x->ninputs; k++)
            direct |= x->inputs[k].data && !strcmp(x->inputs[k].name, in[i].name);
    if (x->rows && !direct)
        return rt_fail(e, RT_USER,
                       "'%s' reads batches of a data set, which the host chooses: it cannot be "
                       "captured into a CUDA graph",
                       x->name);
    if (!en->ran || (x->rows && !en->identity) || !has_memory(s, en) ||
        (before && !has_memory(s, before)))
        return rt_fail(e, RT_USER,
                       "'%s' has not run yet, and the first run gives it memory and loads what it "
                       "calls: run it once before it is captured into a CUDA graph",
                       x->name);
    if (check_memory(en, in, n, e)) return e->code;
    // A graph has fixed addresses, so outputs are stored directly in the caller's memory.
    for (int i = 0; i < x->noutputs; i++) {
        if (!en->then[i] || en->output[i] == en->then[i]) continue;
        rt_entry_unresolve(s, en);
        en->output[i] = en->then[i];
    }
    return RT_OK;
}

// -- recording ------------------------------------------------------------------------------------

// Tells other threads that these cells may change without notice from now on.
static void mark(RtSession *s, RtEntry *en)
{
    s->pinned |= !en->temporaries;
    for (int i = 0; i < en->nwritten; i++) atomic_store(&en->written[i]->replayed, true);
    atomic_store(&s->cells->replays, true);
}

// Records an execution; temporaries: memory that no other run uses, or NULL.
static RtCode record(RtSession *s, RtEntry *en, void *temporaries, RtError *e)
{
    en->captured = true;
    en->temporaries = temporaries;
    if (temporaries) rt_entry_unresolve(s, en);
    rt_entry_resolve(s, en);
    RtCode code = rt_entry_steps(s, en, NULL, e);
    if (temporaries) rt_entry_unresolve(s, en);
    return code;
}

RtCode rt_capture_steps(RtSession *s, RtEntry *en, bool rewind, int64_t times, RtError *e)
{
    RtEntry *before = prepares(en);
    mark(s, en);
    // The cells from which values are prepared may differ at each launch, so that is recorded, too.
    if (before) {
        RtCode code = record(s, before, en->temporaries, e);
        before->captured = false;
        before->temporaries = NULL;
        if (code) return code;
    }
    for (int64_t i = 0; i < times; i++) {
        if (rewind && rt_cursor_rewind(s, en, e)) return e->code;
        if (record(s, en, en->temporaries, e)) return e->code;
    }
    if (en->cursor) en->cursor->known = false;
    return RT_OK;
}

int64_t rt_temporaries(RtSession *s, RtProgram *p, const char *entry)
{
    RtError ignored = {0};
    const RtEntry *en = rt_entry_find(s, p, entry, &ignored);
    const RtEntry *before = en ? prepares(en) : NULL;
    if (!en) return -1;
    return before && before->e->arena_bytes > en->e->arena_bytes ? before->e->arena_bytes
                                                                 : en->e->arena_bytes;
}

RtCode rt_temporaries_place(RtSession *s, RtProgram *p, const char *entry, void *at, RtError *e)
{
    RtEntry *en = rt_entry_find(s, p, entry, e);
    if (!en) return e->code;
    en->temporaries = at;
    return RT_OK;
}

// -- work concurrent with launches ----------------------------------------------------------------

RtCode rt_replays_wait(RtSession *s, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    if (!ops->sync_all || !atomic_load(&s->cells->replays)) return RT_OK;
    return ops->sync_all(s->device, e);
}

RtCode rt_arena_keep(RtSession *s, RtError *e)
{
    void **kept = realloc(s->kept, (size_t)(s->nkept + 1) * sizeof *kept);
    if (!kept) return rt_fail(e, RT_OOM, "out of memory");
    s->kept = kept;
    s->kept[s->nkept++] = s->arena;
    s->arena = NULL;
    s->pinned = false; // no graph uses the next arena yet
    return RT_OK;
}
