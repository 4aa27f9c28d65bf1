// Sessions: a program's state on a device, bindings, runs and reads.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/tuning.h"

static netc_status load(netc_session *s, Build *b, Loaded **out, netc_error **err)
{
    RtError e = {0};
    Loaded *l = calloc(1, sizeof *l);
    if (!l) return OUT_OF_MEMORY(err);
    l->build = b;
    // Another thread may be adding images for a model.bin.
    pthread_mutex_lock(&b->compiling);
    const RtImage *images = b->images;
    int nimages = b->nimages;
    pthread_mutex_unlock(&b->compiling);
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
    if (rt_program_load(s->device, l->own ? l->own : b->program, images, nimages, &o, &l->rt, &e) ||
        rt_session_attach(s->rt, l->rt, &e)) {
        rt_program_free(l->rt);
        free(l->own);
        free(l);
        return lib_fail_rt(err, &e);
    }
    l->next = s->loaded;
    s->loaded = l;
    *out = l;
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
    // A table without a line says that the cost model's schedules were used.
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
    const char *names[64], *near;
    size_t n = 0;
    for (int i = 0; i < p->nentries && n < 64; i++) names[n++] = p->entries[i].name;
    near = suggest(entry, names, n);
    return lib_fail(err, NETC_INVALID, "%s has no entry '%s'%s%s%s", s->program->name, entry,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
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
    if (!session_cell(s, cell, &c)) return NETC_OK; // the model does not read it
    return rt_cell_write(s->rt, cell, &value, sizeof value, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status session_write_weights(netc_session *s, const RtTensors *t, netc_error **err)
{
    for (int i = 0; i < t->n; i++) {
        const ProgCell *c;
        RtError e = {0};
        if (!session_cell(s, t->at[i].name, &c)) continue;
        size_t n = (size_t)prog_type_bytes(&c->type);
        if (n != (size_t)prog_type_bytes(&t->at[i].type))
            return lib_fail(err, NETC_INVALID, "the weights in %s do not fit its own program",
                            s->program->name);
        if (rt_cell_write(s->rt, c->name, t->at[i].data, n, &e)) return lib_fail_rt(err, &e);
    }
    return NETC_OK;
}

static netc_status initialise(netc_session *s, netc_error **err)
{
    Loaded *l;
    netc_status status = session_loaded(s, "", "", &l, err);
    if (status == NETC_OK) status = schedules_locked(s->program, l->build, err);
    if (status == NETC_OK) status = session_set_control(s, "@seed", s->seed, err);
    if (status == NETC_OK && program_entry(l->build->program, "init")) {
        RtError e = {0};
        if (rt_run(s->rt, l->rt, "init", NULL, 0, 1, &e) || rt_sync(s->rt, &e))
            status = lib_fail_rt(err, &e);
    }
    if (status == NETC_OK && s->program->weights)
        status = session_write_weights(s, s->program->weights, err);
    return status;
}

// Builds for CUDA take the schedules that were measured on this device.
static void learn_device(netc_program *p, RtDevice *d)
{
    pthread_mutex_lock(&p->lock);
    if (rt_device_is_cuda(d) && !p->cuda_model) p->cuda_model = strdup(rt_device_model(d));
    if (rt_device_is_cuda(d) && !p->cuda_arch) sscanf(rt_device_target(d), "sm_%d", &p->cuda_arch);
    pthread_mutex_unlock(&p->lock);
}

netc_status netc_session_create(netc_program *p, const char *device, const netc_session_options *o,
                                netc_session **out, netc_error **err)
{
    netc_session_options options = {0};
    if (o) memcpy(&options, o, o->size < sizeof options ? o->size : sizeof options);
    if (!options.device_alloc != !options.device_free)
        return lib_fail(err, NETC_INVALID, "device_alloc and device_free are given together");
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
    netc_status status = e.code ? lib_fail_rt(err, &e) : NETC_OK;
    if (status == NETC_OK) {
        learn_device(p, s->device);
        snprintf(s->device_text, sizeof s->device_text, "%s %s", rt_device_name(s->device),
                 rt_device_model(s->device));
        Loaded *l;
        status = options.share ? session_loaded(s, "", "", &l, err) : initialise(s, err);
    }
    if (status != NETC_OK) {
        netc_session_free(s);
        return status;
    }
    *out = s;
    return NETC_OK;
}

// The part of DLPack's ABI that is needed to give a tensor back.
typedef struct DlManaged {
    unsigned char tensor[48];
    void *manager;
    void (*deleter)(struct DlManaged *self);
} DlManaged;

static void release(Bound *b)
{
    DlManaged *m = b->dlpack;
    if (m && m->deleter) m->deleter(m);
    b->dlpack = NULL;
}

void netc_session_free(netc_session *s)
{
    if (!s) return;
    if (s->rt) rt_session_free(s->rt); // before the programs that it has attached
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
    for (Bound *b = s->bound, *next; b; b = next) {
        next = b->next;
        release(b);
        free(b->entry);
        free(b->input);
        free(b);
    }
    netc_program_release(s->program);
    free(s->choices);
    free(s);
}

const char *netc_session_device(const netc_session *s)
{
    return s->device_text;
}

static ProgType type_of(const netc_tensor *t)
{
    ProgType p = {.dtype = (ProgDType)t->dtype, .rank = t->rank};
    for (int i = 0; i < t->rank && i < PROG_MAX_RANK; i++) p.dim[i] = t->dim[i];
    return p;
}

netc_status same_type(const char *what, const char *name, const ProgType *want,
                      const netc_tensor *t, netc_error **err)
{
    if (t->rank < 0 || t->rank > PROG_MAX_RANK)
        return lib_fail(err, NETC_INVALID,
                        "the tensor given for %s '%s' has rank %d; there are at most %d axes", what,
                        name, t->rank, PROG_MAX_RANK);
    ProgType have = type_of(t);
    bool equal = have.dtype == want->dtype && have.rank == want->rank &&
                 !memcmp(have.dim, want->dim, sizeof have.dim);
    if (equal) return NETC_OK;
    char a[160], b[160];
    prog_type_text(a, sizeof a, want);
    prog_type_text(b, sizeof b, &have);
    return lib_fail(err, NETC_INVALID, "%s '%s' is %s, the tensor given is %s", what, name, a, b);
}

static const ProgInput *find_input(const ProgEntry *e, const char *input, netc_error **err)
{
    const char *names[64], *near;
    size_t n = 0;
    for (int i = 0; i < e->ninputs; i++) {
        if (!strcmp(e->inputs[i].name, input)) return &e->inputs[i];
        if (n < 64) names[n++] = e->inputs[i].name;
    }
    near = suggest(input, names, n);
    lib_fail(err, NETC_INVALID, "'%s' has no input '%s'%s%s%s", e->name, input,
             near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return NULL;
}

netc_status netc_bind(netc_session *s, const char *entry, const char *input, const netc_tensor *t,
                      netc_error **err)
{
    Loaded *l;
    const ProgEntry *en;
    netc_status status = session_entry(s, entry, &l, &en, err);
    if (status != NETC_OK) return status;
    const ProgInput *in = find_input(en, input, err);
    if (!in) return NETC_INVALID;
    status = same_type("input", input, &in->type, t, err);
    if (status != NETC_OK) return status;
    if (t->on_device && !rt_device_is_cuda(s->device))
        return lib_fail(err, NETC_INVALID, "'%s' is a device pointer, the session runs on the CPU",
                        input);
    // Kernels read 16 bytes at a time, and the matmul library is told so.
    if (t->on_device && (uintptr_t)t->data % 16)
        return lib_fail(err, NETC_INVALID,
                        "the device pointer for '%s' must be aligned to 16 bytes", input);
    RtError e = {0};
    if (t->on_device && rt_device_owns(s->device, t->data, (size_t)prog_type_bytes(&in->type), &e))
        return lib_fail(err, NETC_INVALID, "the device pointer for '%s': %s", input, e.text);
    Bound *b = s->bound;
    while (b && (strcmp(b->entry, entry) || strcmp(b->input, input))) b = b->next;
    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b) return OUT_OF_MEMORY(err);
        b->entry = strdup(entry);
        b->input = strdup(input);
        if (!b->entry || !b->input) {
            free(b->entry), free(b->input), free(b);
            return OUT_OF_MEMORY(err);
        }
        b->next = s->bound;
        s->bound = b;
    }
    release(b);
    b->data = t->data;
    b->device = t->on_device;
    return NETC_OK;
}

netc_status netc_run(netc_session *s, const char *entry, int64_t times, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    netc_status status = session_entry(s, entry, &l, &e, err);
    if (status != NETC_OK) return status;
    RtInput *in = calloc((size_t)e->ninputs + 1, sizeof *in);
    if (!in) return OUT_OF_MEMORY(err);
    int n = 0;
    for (int i = 0; i < e->ninputs && status == NETC_OK; i++) {
        const Bound *b = s->bound;
        while (b && (strcmp(b->entry, entry) || strcmp(b->input, e->inputs[i].name))) b = b->next;
        if (b)
            in[n++] = (RtInput){b->input, b->data, b->device};
        else
            status = lib_fail(
                err, NETC_INVALID,
                "input '%s' of '%s' has no value; bind it first (netc run: --input %s=FILE, or "
                "ask only for outputs that do not need it: --output NAME=FILE)",
                e->inputs[i].name, entry, e->inputs[i].name);
    }
    RtError re = {0};
    if (status == NETC_OK && rt_run(s->rt, l->rt, entry, in, n, times, &re))
        status = lib_fail_rt(err, &re);
    free(in);
    return status;
}

netc_status netc_sync(netc_session *s, netc_error **err)
{
    RtError e = {0};
    return rt_sync(s->rt, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status netc_read(netc_session *s, const char *entry, const char *output, netc_tensor *t,
                      netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    netc_status status = session_entry(s, entry, &l, &e, err);
    if (status != NETC_OK) return status;
    for (int i = 0; i < e->noutputs; i++) {
        if (strcmp(e->outputs[i].name, output)) continue;
        status = same_type("output", output, &e->outputs[i].type, t, err);
        if (status != NETC_OK) return status;
        RtError re = {0};
        if (rt_sync(s->rt, &re) ||
            rt_output_read(s->rt, l->rt, entry, output, t->data,
                           (size_t)prog_type_bytes(&e->outputs[i].type), &re))
            return lib_fail_rt(err, &re);
        return NETC_OK;
    }
    return lib_fail(err, NETC_INVALID, "'%s' has no output '%s'", entry, output);
}

static netc_status setting(netc_session *s, const char *name, netc_error **err)
{
    const ProgCell *c;
    if (session_cell(s, name, &c) && c->kind == PC_SETTING) return NETC_OK;
    const char *names[64], *near;
    size_t n = 0;
    for (int i = 0; i < rt_cell_count(s->rt) && n < 64; i++)
        if (rt_cell_info(s->rt, i)->kind == PC_SETTING) names[n++] = rt_cell_info(s->rt, i)->name;
    near = suggest(name, names, n);
    if (!n)
        return lib_fail(
            err, NETC_INVALID,
            "%s declares no settings, so there is no '%s'; write 'setting %s = VALUE' in it",
            s->program->name, name, name);
    return lib_fail(err, NETC_INVALID, "%s has no setting '%s'; %s '%s'%s", s->program->name, name,
                    near ? "did you mean" : "there is", near ? near : names[0],
                    near    ? "?"
                    : n > 1 ? " and others"
                            : "");
}

netc_status netc_set(netc_session *s, const char *name, double value, netc_error **err)
{
    netc_status status = setting(s, name, err);
    float v = (float)value;
    RtError e = {0};
    if (status != NETC_OK) return status;
    return rt_cell_write(s->rt, name, &v, sizeof v, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status netc_get(netc_session *s, const char *name, double *value, netc_error **err)
{
    netc_status status = setting(s, name, err);
    float v = 0;
    RtError e = {0};
    if (status != NETC_OK) return status;
    if (rt_cell_read(s->rt, name, &v, sizeof v, &e)) return lib_fail_rt(err, &e);
    *value = v;
    return NETC_OK;
}

int netc_graph_kernels(netc_session *s, const char *entry)
{
    Loaded *l;
    const ProgEntry *e;
    if (session_entry(s, entry, &l, &e, NULL) != NETC_OK) return -1;
    return rt_graph_kernel_nodes(s->rt, l->rt, entry);
}
