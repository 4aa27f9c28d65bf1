// Running the steps of an entry, one by one.

#include "runtime/exec/exec.h"

typedef struct Run {
    RtSession *s;
    RtEntry *en;
    const RtObserver *o;
    int64_t iteration[PROG_MAX_LOOP_DEPTH];
    int64_t round[PROG_MAX_LOOP_DEPTH]; // the same, but counts up also in loops that run backwards
    bool ended;                         // the innermost loop, whose flag stays false
    RtError *e;
} Run;

// Updates the arguments of a step inside loops for the current iterations.
static void move_arguments(Run *r, const RtStep *st)
{
    bool by_address = r->s->device->ops->args_by_address;
    for (int k = 0; k < st->s->nargs; k++) {
        const ProgArg *a = &st->s->args[k];
        int at = st->first_arg + k;
        RtSlot *slot = &r->en->slot[at];
        if (a->kind == PA_LOOP_INDEX) {
            slot->v = r->iteration[a->index];
        } else if (a->kind == PA_BUFFER) {
            char *p = r->en->base[at].p;
            for (int d = 0; d < st->s->depth; d++) p += r->iteration[d] * a->stride[d];
            slot->p = p;
            if (!by_address) r->en->argv[at] = p;
        }
    }
}

static RtCode do_step(Run *r, int i)
{
    const RtDeviceOps *ops = r->s->device->ops;
    RtEntry *en = r->en;
    const RtStep *st = &en->step[i];
    const ProgStep *s = st->s;
    RtModule *m = en->bound->program->module;
    RtSlot *slot = en->slot + st->first_arg;
    RtStream *stream = r->o && r->o->stream ? r->o->stream : r->s->stream;
    const void *gate = s->commits ? en->error : NULL;
    if (rt_lives_begin(r->s, en, i, r->round, stream, r->e)) return r->e->code;
    if (st->moves) move_arguments(r, st);
    switch (s->kind) {
    case PS_KERNEL: return ops->launch(stream, m, s->index, en->argv + st->first_arg, r->e);
    case PS_GEMM: // what follows it is in do_behind
        if (gate && ops->unified && en->error->code) return RT_OK;
        return ops->gemm(stream, m, s->index, slot, r->e);
    case PS_COPY:
        if (!s->bytes) return RT_OK;
        return ops->copy(stream, slot[1].p, slot[0].p, (size_t)s->bytes, RT_D2D, gate, r->e);
    case PS_ZERO:
        if (!s->bytes) return RT_OK;
        return ops->zero(stream, slot[0].p, (size_t)s->bytes, gate, r->e);
    case PS_EXCHANGE:
        if (!s->bytes) return RT_OK;
        return ops->exchange(stream, slot[1].p, slot[0].p, (size_t)s->bytes, s->count, r->e);
    case PS_AGREE: return ops->agree(stream, slot[0].p, r->e);
    case PS_SKIP:
    case PS_LOOP: break;
    }
    return RT_OK;
}

static RtCode do_behind(Run *r, int i)
{
    const RtStep *st = &r->en->step[i];
    const Program *p = r->en->bound->program->p;
    const ProgGemm *g = &p->gemms[st->s->index];
    RtStream *stream = r->o && r->o->stream ? r->o->stream : r->s->stream;
    int arg = st->first_arg + prog_gemm_args(g) + g->kernel_args;
    return r->s->device->ops->launch(stream, r->en->bound->program->module, g->follower - 1,
                                     r->en->argv + arg, r->e);
}

static RtCode whole_step(Run *r, int i)
{
    if (do_step(r, i)) return r->e->code;
    return rt_step_kernel(r->s, r->en, i, true) < 0 ? RT_OK : do_behind(r, i);
}

// Runs step i or a part of it, with calls to the observer.
static RtCode watched(Run *r, int number, RtCode (*what)(Run *r, int i), int i)
{
    const RtObserver *o = r->o;
    if (o && o->before && o->before(o->ctx, r->en, number, r->e)) return r->e->code;
    if (what(r, i)) return r->e->code;
    return o && o->after ? o->after(o->ctx, r->en, number, r->e) : RT_OK;
}

int rt_step_kernel(const RtSession *s, const RtEntry *en, int step, bool behind)
{
    const RtDeviceOps *ops = s->device->ops;
    const ProgStep *st = en->step[step].s;
    if (st->kind == PS_KERNEL) return behind ? -1 : st->index;
    if (st->kind != PS_GEMM || !ops->gemm_kernel) return -1;
    return ops->gemm_kernel(en->bound->program->module, st->index, behind);
}

int rt_entry_parts(const RtEntry *en)
{
    return 2 * en->e->nsteps;
}

static RtCode steps(Run *r, int first, int last, int depth)
{
    const ProgEntry *e = r->en->e;
    bool parts = r->o && r->o->parts;
    for (int i = first; i < last; i++) {
        const ProgStep *s = r->en->step[i].s;
        if (s->kind == PS_LOOP) {
            if (depth >= PROG_MAX_LOOP_DEPTH)
                return rt_fail(r->e, RT_USER, "loops nest more than %d deep", PROG_MAX_LOOP_DEPTH);
            for (int64_t n = 0; n < s->count && !r->ended; n++) {
                r->round[depth] = n;
                r->iteration[depth] = s->reverse ? s->count - 1 - n : n;
                if (steps(r, s->first_step, s->last_step, depth + 1)) return r->e->code;
            }
            r->ended = false;
            i = s->last_step - 1;
            continue;
        }
        if (watched(r, i, parts ? do_step : whole_step, i)) return r->e->code;
        if (s->kind == PS_SKIP && !*(const bool *)r->en->slot[r->en->step[i].first_arg].p) {
            r->ended = !s->args[0].stride[depth - 1]; // the same flag in every iteration
            return RT_OK;
        }
        if (parts && rt_step_kernel(r->s, r->en, i, true) >= 0 &&
            watched(r, e->nsteps + i, do_behind, i))
            return r->e->code;
    }
    return RT_OK;
}

RtCode rt_entry_steps(RtSession *s, RtEntry *en, const RtObserver *o, RtError *e)
{
    Run r = {.s = s, .en = en, .o = o, .e = e};
    return steps(&r, 0, en->e->nsteps, 0);
}
