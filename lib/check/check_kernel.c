// netc check --kernel: compares one kernel as it is compiled now, edited or with another schedule,
// with the generated kernel under the cost model's schedule: their results and their times.
#include <stdlib.h>
#include <string.h>

#include "lib/api/eject.h"
#include "lib/tune/tune.h"

typedef struct CheckKernel {
    netc_program *p;
    const char *kernel;
    netc_session *session;
    Build *build;
    Arena *arena;
    netc_error **err;
    netc_status status;
    Buf out;
    bool ok;
} CheckKernel;

static const ProgKernel *program_kernel(const Program *p, const char *name)
{
    for (int i = 0; i < p->nkernels; i++)
        if (!strcmp(p->kernels[i].name, name)) return &p->kernels[i];
    return NULL;
}

// Replaces the texts of the launch's kernels by those in the program.
static bool as_compiled(CheckKernel *v, const LaunchRecord *r, Candidate *c)
{
    bool same = true;
    c->nkernels = r->nkernels;
    c->kernels = NEW_ARRAY(v->arena, LoweredKernel, r->nkernels + 1);
    c->reorders = true;
    for (int k = 0; k < r->nkernels; k++) {
        const ProgKernel *p = program_kernel(v->build->program, r->kernels[k].prog.name);
        c->kernels[k] = r->kernels[k];
        if (p) c->kernels[k].prog = *p;
        if (edited_find(v->p, r->kernels[k].prog.name)) same = false;
    }
    return same;
}

static void compare(CheckKernel *v, const LaunchRecord *r)
{
    RtError e = {0};
    bool cuda = rt_device_is_cuda(v->session->device);
    Bench b = {.context = v->p->context,
               .device = v->session->device,
               .device_name = cuda ? rt_device_model(v->session->device) : "cpu",
               .like = v->build->program,
               .launch = r,
               .arena = v->arena};
    Candidate c = {0}, *one = &c;
    bool generated = as_compiled(v, r, &c);
    double noise = 0;
    if (!bench_open(&b, &e)) {
        bench_compile(&b, &one, 1);
        if (!c.wrong) bench_check(&b, &c);
        if (!c.wrong) bench_duel(&b, &b.base, &c, &noise, &e);
    }
    const Target *t = r->ctx.target;
    const Body *base = b.base.nkernels ? b.base.kernels[0].body[0] : NULL;
    if (c.no_memory) {
        v->status = OUT_OF_MEMORY(v->err);
    } else if (e.code) {
        v->status = lib_fail_rt(v->err, &e);
    } else {
        buf_printf(&v->out, "kernel %s on %s\n", v->kernel, netc_session_device(v->session));
        buf_printf(&v->out, "  generated  %10.2f us  %s\n", b.base.seconds * 1e6,
                   schedule_text(v->arena, base, t, false));
        const EditedKernel *edited = edited_find(v->p, v->kernel);
        buf_printf(&v->out, "  compiled   %10.2f us  %s\n", c.seconds * 1e6,
                   edited       ? edited->path
                   : !generated ? "beside an edited kernel of its launch"
                                : schedule_text(v->arena, r->kernels[0].body[0], t, false));
        if (c.wrong)
            buf_printf(&v->out, "  WRONG: %s\n", c.wrong);
        else
            buf_printf(&v->out,
                       "  results agree; times of one call, measured alternately, cold cache, "
                       "noise %.2f us\n",
                       noise * 1e6);
        v->ok = !c.wrong;
    }
    bench_release(&c);
    bench_close(&b);
}

static void check(void *arg)
{
    CheckKernel *v = arg;
    const LaunchLog *log = &v->build->launches;
    v->out = buf_new(v->arena);
    for (uint32_t i = 0; i < log->n; i++)
        for (int k = 0; k < log->at[i].nkernels; k++) {
            if (lib_names_kernel(v->kernel, log->at[i].kernels[k].prog.name)) {
                v->kernel = log->at[i].kernels[k].prog.name;
                compare(v, &log->at[i]);
                return;
            }
        }
    v->status = lib_no_kernel(v->err, v->build->program, v->kernel);
}

netc_status netc_check_kernel(netc_program *p, const char *device, const char *kernel,
                              char **report, netc_error **err)
{
    CheckKernel v = {.p = p, .kernel = kernel, .err = err};
    *report = NULL;
    if (p->embedded)
        return lib_fail(err, NETC_INVALID, "%s is compiled already; check its .net source",
                        p->embedded->path);
    v.status = netc_session_create(p, device, NULL, &v.session, err);
    if (v.status == NETC_OK)
        v.status = build_get(p, rt_device_is_cuda(v.session->device), "", "", &v.build, err);
    if (v.status == NETC_OK) {
        v.arena = arena_new();
        if (!v.arena || !lib_guarded(v.arena, check, &v)) v.status = OUT_OF_MEMORY(err);
        if (v.status == NETC_OK) *report = strdup(v.out.data);
        arena_free(v.arena);
    }
    netc_session_free(v.session);
    if (v.status != NETC_OK) return v.status;
    if (!*report) return OUT_OF_MEMORY(err);
    return v.ok ? NETC_OK
                : lib_fail(err, NETC_CHECK_FAILED, "%s: kernel %s differs from the generated one",
                           p->name, kernel);
}
