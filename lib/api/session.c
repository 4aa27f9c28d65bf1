// Sessions: a program's state on a device, and the builds that are loaded there.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/api/tuning.h"

typedef struct Waiting {
    netc_program *program;
    Build *build;
} Waiting;

// Waits for images from the thread that compiles the build's kernels, or that adds images for a
// model.bin.
static void await_images(void *ctx, const RtImage **images, int *n)
{
    const Waiting *w = ctx;
    precompile_wait(w->program, w->build);
    pthread_mutex_lock(&w->build->compiling);
    *images = w->build->images;
    *n = w->build->nimages;
    pthread_mutex_unlock(&w->build->compiling);
}

static netc_status load(netc_session *s, Build *b, Loaded **out, netc_error **err)
{
    RtError e = {0};
    Loaded *l = calloc(1, sizeof *l);
    if (!l) return OUT_OF_MEMORY(err);
    l->build = b;
    if (s->choices) {
        l->own = malloc(sizeof *l->own);
        if (!l->own) {
            free(l);
            return OUT_OF_MEMORY(err);
        }
        *l->own = *b->program;
        l->own->choices = s->choices;
    }
    RtCompileOptions o = s->context->compile;
    o.locked = s->program->settings.locked && !s->choices && build_is_main(b);
    if (atomic_load(&b->ahead) == getpid()) o.coming = b->coming;
    o.await = await_images;
    o.await_ctx = &(Waiting){s->program, b};
    if (rt_program_load(s->device, l->own ? l->own : b->program, NULL, 0, &o, &l->rt, &e) ||
        rt_session_attach(s->rt, l->rt, &e)) {
        rt_program_free(l->rt);
        free(l->own);
        free(l);
        return build_fail(s->program, b, &e, err);
    }
    l->next = s->loaded;
    s->loaded = l;
    *out = l;
    context_log_phases(s->context);
    return NETC_OK;
}

netc_status session_loaded(netc_session *s, const char *define, const char *entry, Loaded **out,
                           netc_error **err)
{
    Build *b;
    netc_status status = build_get_chosen(s->program, rt_device_is_cuda(s->device), define, entry,
                                          s->choices, &b, err);
    if (status != NETC_OK) return status;
    for (Loaded *l = s->loaded; l; l = l->next)
        if (l->build == b) return *out = l, NETC_OK;
    return load(s, b, out, err);
}

netc_status session_use_choices(netc_session *s, const char *choices, netc_error **err)
{
    if (s->choices) return NETC_OK;
    // A table without lines means that the cost model's schedules were used.
    if (!*choices && (!s->loaded || schedules_same(s->loaded->build, choices))) return NETC_OK;
    s->choices = strdup(choices);
    if (!s->choices) return OUT_OF_MEMORY(err);
    Build *b;
    Loaded *l;
    netc_status status =
        build_get_chosen(s->program, rt_device_is_cuda(s->device), "", "", s->choices, &b, err);
    return status == NETC_OK ? load(s, b, &l, err) : status;
}

netc_status session_entry(netc_session *s, const char *entry, Loaded **l, const ProgEntry **e,
                          netc_error **err)
{
    netc_status status = session_loaded(s, "", "", l, err);
    if (status != NETC_OK) return status;
    const Program *p = (*l)->build->program;
    *e = program_entry(p, entry);
    if (*e) return NETC_OK;
    return no_entry(s->program, p, entry, err);
}

netc_status session_may_run(const netc_session *s, const ProgEntry *e, netc_error **err)
{
    if (!s->training || e->kind != PK_TRAIN) return NETC_OK;
    return lib_fail(err, NETC_INVALID,
                    "this session is being trained: its event hook cannot run '%s', too", e->name);
}

bool session_cell(const netc_session *s, const char *name, const ProgCell **out)
{
    for (int i = 0; i < rt_cell_count(s->rt); i++) {
        const ProgCell *c = rt_cell_info(s->rt, i);
        if (!strcmp(c->name, name)) return *out = c, true;
    }
    return false;
}

netc_status session_set_control(netc_session *s, const char *cell, int64_t value, netc_error **err)
{
    const ProgCell *c;
    RtError e = {0};
    if (!session_cell(s, cell, &c)) return NETC_OK; // the model does not use it
    return rt_cell_write(s->rt, cell, &value, sizeof value, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status session_made_up_lengths(netc_session *s, netc_error **err)
{
    netc_status status = session_set_control(s, CELL_TOTAL, 100000, err);
    return status == NETC_OK ? session_set_control(s, CELL_EPOCH_STEPS, 1000, err) : status;
}

static const void *find_weight(void *ctx, const ProgCell *c)
{
    const RtTensors *t = ctx;
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->at[i].name, c->name)) return t->at[i].data;
    return NULL;
}

static netc_status session_write_weights(netc_session *s, const RtTensors *t, netc_error **err)
{
    for (int i = 0; i < t->n; i++) {
        const ProgCell *c;
        if (session_cell(s, t->at[i].name, &c) &&
            prog_type_bytes(&c->type) != prog_type_bytes(&t->at[i].type))
            return lib_fail(err, NETC_INVALID, "the weights in %s do not fit its own program",
                            s->program->name);
    }
    return state_put(s, &(StateSource){find_weight, (void *)(uintptr_t)t}, err);
}

static netc_status initialise(netc_session *s, netc_error **err)
{
    Loaded *l;
    netc_status status = session_loaded(s, "", "", &l, err);
    if (status == NETC_OK) status = schedules_locked(s->program, l->build, err);
    if (status == NETC_OK) status = session_set_control(s, CELL_SEED, s->seed, err);
    const Program *p = status == NETC_OK ? l->build->program : NULL;
    for (int i = 0; p && i < p->nentries && status == NETC_OK; i++) { // in order
        RtError e = {0};
        const ProgEntry *en = &p->entries[i];
        if (en->kind != PK_INIT || program_prepares(en) || program_reads_first(en)) continue;
        if (rt_run(s->rt, l->rt, en->name, NULL, 0, 1, &e) || rt_sync(s->rt, &e))
            status = lib_fail_rt(err, &e);
    }
    if (status == NETC_OK && s->program->weights)
        status = session_write_weights(s, s->program->weights, err);
    return status;
}

// Makes the session use the other session's cells. A seed that only this program reads gets the
// other session's value.
static netc_status join(netc_session *s, netc_session *other, netc_error **err)
{
    const ProgCell *c;
    Loaded *l;
    bool known = session_cell(other, CELL_SEED, &c);
    s->seed = other->seed;
    netc_status status = session_loaded(s, "", "", &l, err);
    return status == NETC_OK && !known ? session_set_control(s, CELL_SEED, s->seed, err) : status;
}

// Records the first GPU on which a program is used.
static void learn_gpu(netc_program *p, const char *model, int arch, int units)
{
    pthread_mutex_lock(&p->lock);
    if (!p->cuda_model) p->cuda_model = strdup(model);
    if (!p->cuda_arch) p->cuda_arch = arch, p->cuda_units = units;
    pthread_mutex_unlock(&p->lock);
}

bool program_learn_prepared(netc_program *p)
{
    RtGpu gpu;
    bool known = preparing_gpu(p->context, &gpu);
    if (known) learn_gpu(p, gpu.model, gpu.arch, gpu.units);
    return known;
}

void program_learn_gpu(netc_program *p)
{
    RtGpu gpu;
    if (rt_cuda_gpu(0, &gpu)) learn_gpu(p, gpu.model, gpu.arch, gpu.units);
}

static void learn_device(netc_program *p, RtDevice *d)
{
    int arch;
    if (rt_device_is_cuda(d) && sscanf(rt_device_target(d), "sm_%d", &arch) == 1)
        learn_gpu(p, rt_device_model(d), arch, rt_device_units(d));
}

netc_status netc_session_create(netc_program *p, const char *device, const netc_session_options *o,
                                netc_session **out, netc_error **err)
{
    netc_session_options options = {0};
    netc_status status = TAKE_OPTIONS(netc_session_options, &options, o, err);
    if (status != NETC_OK) return status;
    if (!options.device_alloc != !options.device_free)
        return lib_fail(err, NETC_INVALID, "device_alloc and device_free must be given together");
    netc_session *s = calloc(1, sizeof *s);
    if (!s) return OUT_OF_MEMORY(err);
    s->program = netc_program_retain(p);
    s->context = p->context;
    s->seed = options.seed;
    RtError e = {0};
    if (options.share) {
        s->shared_device = options.share->shared_device;
        atomic_fetch_add(&s->shared_device->refs, 1);
    } else if ((s->shared_device = calloc(1, sizeof *s->shared_device))) {
        atomic_init(&s->shared_device->refs, 1);
        RtAllocator a = {options.device_alloc, options.device_free, options.alloc_user};
        RtDevice **d = &s->shared_device->device;
        device = device && *device ? device : "auto";
        *d = a.alloc ? NULL : prepared_device(s->context, device);
        if (!*d) rt_device_open(device, a.alloc ? &a : NULL, d, &e);
    } else {
        netc_session_free(s);
        return OUT_OF_MEMORY(err);
    }
    s->device = s->shared_device->device;
    RtSessionOptions ro = {.share = options.share ? options.share->rt : NULL,
                           .stream = options.stream,
                           .parallel_for = options.parallel_for,
                           .parallel_user = options.parallel_user};
    if (!e.code) rt_session_new(s->device, &ro, &s->rt, &e);
    status = e.code ? lib_fail_rt(err, &e) : NETC_OK;
    if (status == NETC_OK) {
        learn_device(p, s->device);
        snprintf(s->device_text, sizeof s->device_text, "%s %s", rt_device_name(s->device),
                 rt_device_model(s->device));
        status = options.share ? join(s, options.share, err) : initialise(s, err);
    }
    if (status != NETC_OK) {
        netc_session_free(s);
        return status;
    }
    *out = s;
    return NETC_OK;
}

void netc_session_free(netc_session *s)
{
    if (!s) return;
    if (s->rt) rt_session_free(s->rt); // before the programs attached to it
    s->rt = NULL;
    for (Loaded *l = s->loaded, *next; l; l = next) {
        next = l->next;
        rt_program_free(l->rt);
        free(l->own);
        free(l);
    }
    SharedDevice *sd = s->shared_device;
    if (sd && atomic_fetch_sub(&sd->refs, 1) == 1) {
        if (sd->device) rt_device_close(sd->device);
        free(sd);
    }
    bound_free(s);
    netc_program_release(s->program);
    for (int i = 0; i < s->ngiven; i++) free(s->given[i]);
    free(s->given);
    free(s->choices);
    free(s);
}

const char *netc_session_device(const netc_session *s)
{
    return s->device_text;
}

int netc_graph_kernels(netc_session *s, const char *entry)
{
    Loaded *l;
    const ProgEntry *e;
    if (session_entry(s, entry, &l, &e, NULL) != NETC_OK) return -1;
    return rt_graph_kernel_nodes(s->rt, l->rt, entry);
}
