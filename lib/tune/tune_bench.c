// Runs one launch alone on a device: its buffers; compiling, comparing and timing candidates.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "lib/tune/tune.h"
#include "runtime/device.h"

// -- lowering -------------------------------------------------------------------------------------

static void not_taken(void *ctx, uint64_t body, const char *why, bool stale)
{
    (void)ctx, (void)body, (void)why, (void)stale; // the cost model's schedule is used instead
}

bool bench_lower(Bench *b, const char *(*find)(void *ctx, uint64_t key), void *ctx, Candidate *out)
{
    ScheduleSource source = {.find = find, .wrong = not_taken, .ctx = ctx};
    LowerCtx lower = b->launch->ctx;
    lower.arena = b->arena;
    lower.schedules = find ? &source : NULL;
    out->nkernels = lower_launch(&lower, b->launch->graph, b->launch->groups, b->launch->ngroups,
                                 &out->kernels);
    return out->nkernels > 0;
}

static const BodyBuf *buffer_behind(const LoweredKernel *k, const KernelArg *a)
{
    for (int n = 0; n < k->nbodies; n++)
        for (uint32_t i = 0; i < k->body[n]->bufs.n; i++) {
            const BodyBuf *u = &k->body[n]->bufs.at[i];
            if (u->kind == a->kind && u->node == a->node) return u;
        }
    return NULL;
}

// The bound below which a check requires elements of this buffer to be; 0: none.
static int64_t checked_bound(const LoweredKernel *k, const KernelArg *a)
{
    for (int n = 0; n < k->nbodies; n++) {
        const Body *body = k->body[n];
        for (uint32_t i = 0; i < body->insts.n; i++) {
            const Inst *v = &body->insts.at[i];
            if (v->kind != KI_CHECK) continue;
            const Inst *from = &body->insts.at[v->a[0]];
            while (from->kind == KI_CAST) from = &body->insts.at[from->a[0]];
            if (from->kind == KI_LOAD && body->bufs.at[from->buf].node == a->node) return v->bound;
        }
    }
    return 0;
}

static uint64_t arg_key(const KernelArg *a)
{
    return hash_mix((uint64_t)a->kind + 1, (uint64_t)(uintptr_t)a->node);
}

int bench_buffer(const Bench *b, const KernelArg *a)
{
    uint64_t at;
    return idmap_get(&b->buffer_of, arg_key(a), &at) ? (int)at : -1;
}

static int64_t smallest_data(const LaunchRecord *l)
{
    int64_t least = l->ctx.entry->batch > 0 ? l->ctx.entry->batch : 1;
    const Graph *g = l->ctx.entry->graph;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_input && g->nodes.at[i]->type.rank > 0 &&
            g->nodes.at[i]->type.dim[0] < least)
            least = g->nodes.at[i]->type.dim[0];
    return least;
}

static RtMicrobenchBuffer describe(const Bench *b, const LoweredKernel *k, const KernelArg *a)
{
    RtMicrobenchBuffer o = {.written = a->written, .low = 0, .high = 2};
    int64_t batch = b->launch->ctx.entry->batch;
    switch (a->kind) {
    case KA_ERROR:
        return (RtMicrobenchBuffer){PD_I64, sizeof(ProgError) / 8, MICROBENCH_ZERO, 0, 0, true};
    case KA_CURSOR: return (RtMicrobenchBuffer){PD_I64, 1, MICROBENCH_ZERO, 0, 0, false};
    case KA_ROWS:
        return (RtMicrobenchBuffer){PD_I32, batch > 0 ? batch : 1,    MICROBENCH_NUMBERS,
                                    0,      smallest_data(b->launch), false};
    default: break;
    }
    const BodyBuf *u = buffer_behind(k, a);
    o.type = u ? (ProgDType)u->type : PD_U8;
    o.count = u ? u->elems : 0;
    if (o.type == PD_U8) o.high = 256;
    if (o.count == 1) o.low = 1; // a step or a total, by which something may be divided
    int64_t bound = checked_bound(k, a);
    if (bound > 0) o.low = 0, o.high = bound;
    if (a->node->op == OP_input && attr_find(a->node, ATTR_high_bound)) {
        o.low = attr_int(a->node, ATTR_low_bound, 0);
        o.high = attr_int(a->node, ATTR_high_bound, 1);
    }
    return o;
}

static void find_buffers(Bench *b)
{
    VEC(RtMicrobenchBuffer) all = {0};
    b->buffer_of = idmap_new(b->arena);
    for (int k = 0; k < b->base.nkernels; k++)
        for (int i = 0; i < b->base.kernels[k].nargs; i++) {
            const KernelArg *a = &b->base.kernels[k].args[i];
            uint64_t at;
            if (a->kind == KA_INT || a->kind == KA_LOOP_INDEX || a->kind == KA_SCRATCH) continue;
            if (idmap_get(&b->buffer_of, arg_key(a), &at)) {
                all.at[at].written |= a->written;
                continue;
            }
            idmap_set(&b->buffer_of, arg_key(a), all.n);
            vec_push(b->arena, &all, describe(b, &b->base.kernels[k], a));
        }
    b->buffer = all.at;
    b->nbuffers = (int)all.n;
}

static int64_t longest_sum(const Candidate *c)
{
    int64_t longest = 1;
    for (int k = 0; k < c->nkernels; k++)
        for (int n = 0; n < c->kernels[k].nbodies; n++) {
            const Body *body = c->kernels[k].body[n];
            for (uint32_t i = 0; i < body->insts.n; i++) {
                const Inst *v = &body->insts.at[i];
                int64_t extent = v->kind == KI_REDUCE ? body->axis[v->axis].extent : 1;
                if (extent > longest) longest = extent;
            }
        }
    return longest;
}

// The distance of neighbouring numbers, relative to their size, of the coarsest type to which it
// rounds values on the way; 0: to none of 16 bits.
static double coarsest_rounding(const Candidate *c)
{
    double coarsest = 0;
    for (int k = 0; k < c->nkernels; k++)
        for (int n = 0; n < c->kernels[k].nbodies; n++) {
            const Body *body = c->kernels[k].body[n];
            for (uint32_t i = 0; i < body->insts.n; i++) {
                const Inst *v = &body->insts.at[i];
                if (v->kind != KI_CAST || (v->type != DT_BF16 && v->type != DT_F16)) continue;
                coarsest = fmax(coarsest, v->type == DT_BF16 ? 0x1p-7 : 0x1p-10);
            }
        }
    return coarsest;
}

// Creates the calls of a compiled candidate with the microbenchmark's buffers. false: it has an
// unknown argument.
static bool make_trial(Bench *b, Candidate *c)
{
    RtMicrobenchCall *calls = NEW_ARRAY(b->arena, RtMicrobenchCall, c->nkernels + 1);
    IdMap scratch = idmap_new(b->arena); // number -> bytes + 1
    int64_t bytes = 0;
    for (int k = 0; k < c->nkernels; k++) {
        const LoweredKernel *l = &c->kernels[k];
        RtMicrobenchArg *args = NEW_ARRAY(b->arena, RtMicrobenchArg, l->nargs + 1);
        calls[k] = (RtMicrobenchCall){c->first + k, l->nargs, args};
        for (int i = 0; i < l->nargs; i++) {
            const KernelArg *a = &l->args[i];
            uint64_t at;
            if (a->kind == KA_INT) {
                args[i] = (RtMicrobenchArg){MICROBENCH_VALUE, 0, a->value};
            } else if (a->kind == KA_LOOP_INDEX) {
                args[i] = (RtMicrobenchArg){MICROBENCH_VALUE, 0, 0};
            } else if (a->kind == KA_SCRATCH) {
                if (!idmap_get(&scratch, (uint64_t)a->scratch, &at)) {
                    at = (uint64_t)bytes;
                    idmap_set(&scratch, (uint64_t)a->scratch, at);
                    bytes += (a->scratch_bytes + 255) / 256 * 256;
                }
                args[i] = (RtMicrobenchArg){MICROBENCH_SCRATCH, 0, (int64_t)at};
            } else if (bench_buffer(b, a) >= 0) {
                args[i] = (RtMicrobenchArg){MICROBENCH_BUFFER, bench_buffer(b, a), 0};
            } else {
                return false;
            }
        }
    }
    c->trial = (RtTrial){c->rt, calls, c->nkernels, bytes};
    return true;
}

// -- compiling ------------------------------------------------------------------------------------

static RtCode load(Bench *b, Candidate *const *c, int n, RtError *e)
{
    int kernels = 0;
    for (int i = 0; i < n; i++) kernels += c[i]->nkernels;
    Program *p = NEW(b->arena, Program);
    *p = (Program){.arena = b->arena,
                   .model = b->like->model,
                   .target = b->like->target,
                   .cuda = b->like->cuda,
                   .prelude = b->like->prelude,
                   .choices = ""};
    p->kernels = NEW_ARRAY(b->arena, ProgKernel, kernels + 1);
    for (int i = 0; i < n; i++) {
        c[i]->first = p->nkernels;
        for (int k = 0; k < c[i]->nkernels; k++) p->kernels[p->nkernels++] = c[i]->kernels[k].prog;
    }
    RtProgram *rt;
    RtCode code = rt_program_load(b->device, p, NULL, 0, &b->context->compile, &rt, e);
    for (int i = 0; i < n && !code; i++) {
        c[i]->rt = rt;
        c[i]->owner = i == 0;
        if (!make_trial(b, c[i])) c[i]->wrong = "it reads a value the default does not";
    }
    return code;
}

const char *bench_first_line(Arena *a, const char *text)
{
    size_t n = strcspn(text, "\n");
    return arena_strndup(a, text, n > 300 ? 300 : n);
}

void bench_compile(Bench *b, Candidate *const *c, int n)
{
    Candidate **todo = NEW_ARRAY(b->arena, Candidate *, n + 1);
    int count = 0;
    for (int i = 0; i < n; i++)
        if (!c[i]->rt && !c[i]->wrong && !(c[i]->seconds > 0)) todo[count++] = c[i];
    RtError together = {0};
    // Equal kernels have the same symbol, which must be unique in a C object.
    if (count > 1 && b->like->cuda && !load(b, todo, count, &together)) return;
    for (int i = 0; i < count; i++) {
        RtError e = {0};
        if (!load(b, &todo[i], 1, &e)) continue;
        todo[i]->wrong = bench_first_line(b->arena, e.text);
        todo[i]->no_memory = e.code == RT_OOM;
    }
}

void bench_release(Candidate *c)
{
    if (c->owner) rt_program_free(c->rt);
    c->rt = NULL;
    c->owner = false;
}

// -- times of before ------------------------------------------------------------------------------

static RtKey time_key(const Bench *b, const Candidate *c)
{
    RtKey k = rt_key_start("kernel time 1");
    rt_key_str(&k, b->device_name);
    rt_key_str(&k, b->like->prelude);
    for (int i = 0; i < c->nkernels; i++) {
        const ProgKernel *p = &c->kernels[i].prog;
        rt_key_str(&k, p->text);
        rt_key_bytes(&k, p->grid, sizeof p->grid);
        rt_key_bytes(&k, p->block, sizeof p->block);
    }
    for (int i = 0; i < b->nbuffers; i++) rt_key_bytes(&k, &b->buffer[i].count, sizeof(int64_t));
    return k;
}

bool bench_cached(Bench *b, Candidate *c)
{
    void *bytes;
    size_t n;
    if (!b->use_cache || !rt_cache_get(&b->context->compile, time_key(b, c), b->arena, &bytes, &n))
        return false;
    const char *text = arena_strndup(b->arena, bytes, n);
    c->seconds = plain_double(text, NULL);
    return c->seconds > 0;
}

static void remember(Bench *b, const Candidate *c)
{
    char text[64];
    plain_format(text, sizeof text, "%.9g", c->seconds);
    rt_cache_put(&b->context->compile, time_key(b, c), text, strlen(text));
}

// -- measuring ------------------------------------------------------------------------------------

void bench_measure(Bench *b, Candidate *c)
{
    RtError e = {0};
    double spread;
    if (c->wrong || c->seconds > 0 || !c->rt || !bench_check(b, c)) return;
    if (rt_microbench_time(b->bench, &c->trial, &c->seconds, &spread, &e))
        c->wrong = bench_first_line(b->arena, e.text);
    else
        remember(b, c);
}

RtCode bench_duel(Bench *b, Candidate *x, Candidate *y, double *noise, RtError *e)
{
    enum { TURNS = 3 };
    double best[2] = {INFINITY, INFINITY}, worst[2] = {0, 0}, t, spread;
    for (int i = 0; i < 2 * TURNS; i++) {
        if (rt_microbench_time(b->bench, i % 2 ? &y->trial : &x->trial, &t, &spread, e))
            return e->code;
        if (t < best[i % 2]) best[i % 2] = t;
        if (t > worst[i % 2]) worst[i % 2] = t;
    }
    x->seconds = best[0];
    y->seconds = best[1];
    *noise = fmax(worst[0] - best[0], worst[1] - best[1]) / 2;
    return RT_OK;
}

// -- opening --------------------------------------------------------------------------------------

RtCode bench_open(Bench *b, RtError *e)
{
    Candidate *base = &b->base;
    *base = (Candidate){0};
    if (!bench_lower(b, NULL, NULL, base))
        return rt_fail(e, RT_ENV, "the launch cannot be lowered again");
    find_buffers(b);
    b->longest = longest_sum(base);
    b->coarsest = coarsest_rounding(base);
    if (load(b, &base, 1, e)) return e->code;
    if (base->wrong) return rt_fail(e, RT_ENV, "%s", base->wrong);
    if (rt_microbench_new(b->device, b->buffer, b->nbuffers, &b->bench, e)) return e->code;
    double spread;
    if (!bench_keep_reference(b, e)) return e->code;
    if (bench_cached(b, base)) return RT_OK;
    if (rt_microbench_time(b->bench, &base->trial, &base->seconds, &spread, e)) return e->code;
    remember(b, base);
    return RT_OK;
}

void bench_close(Bench *b)
{
    bench_release(&b->base);
    for (int i = 0; i < b->nbuffers && b->reference; i++) free(b->reference[i]);
    rt_microbench_free(b->bench);
    b->bench = NULL;
}
