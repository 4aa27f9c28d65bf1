// Groups of devices: code, launches and graphs.
#include <stdlib.h>
#include <string.h>

#include "runtime/device/group.h"

// Which arguments of a kernel, or of the steps of a product, are addresses.
typedef struct Args {
    int n;
    bool *address;
} Args;

typedef struct GroupModule {
    Group *g;
    RtModule *m[GROUP_MOST];
    Arena *arena;
    Program others; // for members except 0, with the choices of member 0
    Args *kernel, *gemm;
} GroupModule;

static GroupModule *module_of(const RtModule *m)
{
    return (GroupModule *)(uintptr_t)m;
}

static Args args_of(Arena *a, const ProgArg *args, int n)
{
    Args out = {n, NEW_ARRAY(a, bool, n + 1)};
    for (int i = 0; i < n; i++) out.address[i] = args[i].kind == PA_BUFFER;
    return out;
}

static void find_args(GroupModule *m, const Program *p)
{
    m->kernel = NEW_ARRAY(m->arena, Args, p->nkernels + 1);
    m->gemm = NEW_ARRAY(m->arena, Args, p->ngemms + 1);
    // (a program that is only measured has no steps)
    for (int i = 0; i < p->ngemms; i++) {
        m->gemm[i] =
            (Args){prog_gemm_args(&p->gemms[i]), NEW_ARRAY(m->arena, bool, PROG_MAX_GEMM_ARGS)};
        memset(m->gemm[i].address, true, (size_t)m->gemm[i].n);
    }
    for (int i = 0; i < p->nentries; i++)
        for (int k = 0; k < p->entries[i].nsteps; k++) {
            const ProgStep *s = &p->entries[i].steps[k];
            if (s->kind == PS_KERNEL) m->kernel[s->index] = args_of(m->arena, s->args, s->nargs);
            if (s->kind != PS_GEMM) continue;
            const ProgGemm *g = &p->gemms[s->index];
            m->gemm[s->index] = args_of(m->arena, s->args, s->nargs);
            if (g->follower)
                m->kernel[g->follower - 1] = args_of(
                    m->arena, s->args + prog_gemm_args(g) + g->kernel_args, g->follower_args);
        }
}

void group_module_free(RtModule *module)
{
    GroupModule *m = module_of(module);
    RtError ignored = {0};
    for (int d = 0; d < m->g->n; d++) {
        if (!m->m[d] || group_enter(m->g, d, &ignored)) continue;
        m->g->one->module_free(m->m[d]);
        group_leave(m->g, d);
    }
    arena_free(m->arena);
}

static RtCode load(GroupModule *m, const Program *p, const RtImage *images, int nimages,
                   const RtCompileOptions *o, RtError *e)
{
    Group *g = m->g;
    for (int d = 0; d < g->n && !e->code; d++) {
        if (group_enter(g, d, e)) break;
        g->one->module_new(g->member[d], d ? &m->others : p, images, nimages, o, &m->m[d], e);
        group_leave(g, d);
        // The others use the same algorithms, so that all compute the same bits.
        if (d || e->code) continue;
        m->others = *p;
        m->others.choices = g->one->module_choices(m->m[0], m->arena);
    }
    return e->code;
}

RtCode group_module_new(RtDevice *device, const Program *p, const RtImage *images, int nimages,
                        const RtCompileOptions *o, RtModule **out, RtError *e)
{
    Arena *a = arena_new();
    jmp_buf oom;
    *out = NULL;
    if (!a || setjmp(oom)) {
        arena_free(a);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    arena_on_oom(a, &oom);
    GroupModule *m = NEW(a, GroupModule);
    m->g = group_of(device);
    m->arena = a;
    find_args(m, p);
    load(m, p, images, nimages, o, e);
    arena_on_oom(a, NULL);
    if (e->code)
        group_module_free((RtModule *)m);
    else
        *out = (RtModule *)m;
    return e->code;
}

const char *group_choices(RtModule *m, Arena *a)
{
    return module_of(m)->g->one->module_choices(module_of(m)->m[0], a);
}

const char *group_defect(const RtModule *m)
{
    return module_of(m)->g->one->module_defect(module_of(m)->m[0]);
}

int group_gemm_kernel(const RtModule *m, int gemm, bool behind)
{
    return module_of(m)->g->one->gemm_kernel(module_of(m)->m[0], gemm, behind);
}

size_t group_gemm_scratch(const RtModule *m, int gemm)
{
    return module_of(m)->g->one->gemm_scratch(module_of(m)->m[0], gemm);
}

RtCode group_kernel_info(RtModule *m, int kernel, RtKernelInfo *out, RtError *e)
{
    return module_of(m)->g->one->kernel_info(module_of(m)->m[0], kernel, out, e);
}

// -- launches -------------------------------------------------------------------------------------

static RtCode launch_on(GroupStream *s, const GroupModule *m, int d, int kernel, void *const *argv,
                        RtSlot *slot, void **own, RtError *e)
{
    Group *g = s->g;
    const Args *args = &m->kernel[kernel];
    for (int i = 0; i < args->n; i++) {
        own[i] = argv[i];
        if (!args->address[i]) continue;
        const void *p = g->one->args_by_address ? ((const RtSlot *)argv[i])->p : argv[i];
        slot[i].p = group_address(g, d, p);
        own[i] = g->one->args_by_address ? (void *)&slot[i] : slot[i].p;
    }
    if (group_enter(g, d, e)) return e->code;
    g->one->launch(s->s[d], m->m[d], kernel, own, e);
    group_leave(g, d);
    return e->code;
}

RtCode group_launch(RtStream *stream, RtModule *module, int kernel, void *const *argv, RtError *e)
{
    GroupStream *s = group_stream(stream);
    const GroupModule *m = module_of(module);
    const size_t n = (size_t)m->kernel[kernel].n + 1;
    RtSlot *slot = calloc(n, sizeof *slot);
    void **own = calloc(n, sizeof *own);
    if (!slot || !own) rt_fail(e, RT_OOM, "out of memory");
    for (int d = 0; d < s->g->n && !e->code; d++) launch_on(s, m, d, kernel, argv, slot, own, e);
    free(slot);
    free(own);
    return e->code;
}

RtCode group_gemm(RtStream *stream, RtModule *module, int gemm, const RtSlot *slots, RtError *e)
{
    GroupStream *s = group_stream(stream);
    const GroupModule *m = module_of(module);
    Group *g = s->g;
    const Args *args = &m->gemm[gemm];
    RtSlot own[PROG_MAX_GEMM_ARGS];
    for (int d = 0; d < g->n && !e->code; d++) {
        for (int i = 0; i < args->n; i++) {
            own[i] = slots[i];
            if (args->address[i]) own[i].p = group_address(g, d, slots[i].p);
        }
        if (group_enter(g, d, e)) break;
        g->one->gemm(s->s[d], m->m[d], gemm, own, e);
        group_leave(g, d);
    }
    return e->code;
}

// -- graphs ---------------------------------------------------------------------------------------
// One graph with the work of all members: the streams of the others join the capture of the first
// one's.

RtCode group_capture_begin(RtStream *stream, RtError *e)
{
    GroupStream *s = group_stream(stream);
    if (group_enter(s->g, 0, e)) return e->code;
    RtCode code = s->g->one->capture_begin(s->s[0], e);
    group_leave(s->g, 0);
    return code ? code : group_fork(s, e);
}

RtCode group_capture_end(RtStream *stream, RtGraph **out, int *kernel_nodes, RtError *e)
{
    GroupStream *s = group_stream(stream);
    RtError joining = {0};
    *out = NULL;
    *kernel_nodes = 0;
    group_join(s, &joining);
    if (group_enter(s->g, 0, e)) return e->code;
    RtCode code = s->g->one->capture_end(s->s[0], out, kernel_nodes, e);
    group_leave(s->g, 0);
    if (!code && joining.code) *e = joining;
    return e->code;
}

RtCode group_graph_launch(RtStream *stream, RtGraph *graph, RtError *e)
{
    GroupStream *s = group_stream(stream);
    if (group_join(s, e) || group_enter(s->g, 0, e)) return e->code;
    s->g->one->graph_launch(s->s[0], graph, e);
    group_leave(s->g, 0);
    return e->code ? e->code : group_fork(s, e);
}
