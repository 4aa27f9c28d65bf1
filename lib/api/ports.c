// The interface of a program: its entries with their inputs and outputs.
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "lib/lib.h"

// Whether one of the texts is equal.
static bool among(const char *const *at, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(at[i], name)) return true;
    return false;
}

bool entry_left_out(const netc_program *p, const char *name)
{
    const Embedded *e = p->embedded;
    if (!e || !e->nentries || among(e->entries, e->nentries, name)) return false;
    if (p->decls->trains && (!strcmp(name, "train") || !strcmp(name, "eval"))) return true;
    return among(p->decls->models.at, (int)p->decls->models.n, name);
}

static netc_status left_out(const netc_program *p, const char *name, netc_error **err)
{
    const Embedded *e = p->embedded;
    char list[400] = "";
    for (int i = 0; i < e->nentries; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? "," : "", e->entries[i]);
    }
    return lib_fail(err, NETC_INVALID,
                    "%s has no entry '%s': it was written with --entries %s; write it again with "
                    "'%s', or compile its source here with --rebuild",
                    e->path, name, list, name);
}

netc_status no_entry(const netc_program *p, const Program *in, const char *name, netc_error **err)
{
    const char *names[64];
    size_t n = 0;
    if (entry_left_out(p, name)) return left_out(p, name, err);
    for (int i = 0; i < in->nentries && n < 64; i++)
        if (!program_is_hidden(&in->entries[i])) names[n++] = in->entries[i].name;
    bool trains = p->decls && p->decls->trains; // (the train entry may be among those left out)
    if (!trains && (!strcmp(name, "train") || !strcmp(name, "eval")))
        return lib_fail(err, NETC_INVALID,
                        "%s has no entry '%s': it has no block 'train MODEL { minimize ... }'",
                        p->name, name);
    return lib_fail(err, NETC_INVALID, "%s has no entry '%s'%s", p->name, name,
                    advise(name, names, n).text);
}

static netc_status entry_of(netc_program *p, const char *name, const ProgEntry **out,
                            netc_error **err)
{
    Build *b;
    netc_status status = build_any(p, &b, err);
    if (status != NETC_OK) return status;
    *out = program_entry(b->program, name);
    return *out ? NETC_OK : no_entry(p, b->program, name, err);
}

int netc_entry_count(netc_program *p)
{
    Build *b;
    if (build_any(p, &b, NULL) != NETC_OK) return 0;
    int n = b->program->nentries;
    while (n > 0 && program_is_hidden(&b->program->entries[n - 1]))
        n--; // not shown: not run by
             // callers
    return n;
}

const char *netc_entry_name(netc_program *p, int i)
{
    Build *b;
    if (i < 0 || i >= netc_entry_count(p) || build_any(p, &b, NULL) != NETC_OK) return NULL;
    return b->program->entries[i].name;
}

int netc_input_count(netc_program *p, const char *entry)
{
    const ProgEntry *e;
    return entry_of(p, entry, &e, NULL) == NETC_OK ? e->ninputs : -1;
}

int netc_output_count(netc_program *p, const char *entry)
{
    const ProgEntry *e;
    return entry_of(p, entry, &e, NULL) == NETC_OK ? e->noutputs : -1;
}

netc_tensor tensor_of(const ProgType *t, void *data)
{
    netc_tensor out = {.dtype = (netc_dtype)t->dtype, .rank = t->rank, .data = data};
    memcpy(out.dim, t->dim, sizeof out.dim);
    return out;
}

static netc_port port_of(const char *name, const ProgType *t, bool data)
{
    netc_port port = {.name = name, .dtype = (netc_dtype)t->dtype, .rank = t->rank, .data = data};
    memcpy(port.dim, t->dim, sizeof port.dim);
    return port;
}

netc_status netc_input_info(netc_program *p, const char *entry, int i, netc_port *out,
                            netc_error **err)
{
    const ProgEntry *e;
    netc_status status = entry_of(p, entry, &e, err);
    if (status != NETC_OK) return status;
    if (i < 0 || i >= e->ninputs)
        return lib_fail(err, NETC_INVALID, "'%s' has %d input%s; there is no number %d", entry,
                        e->ninputs, plural(e->ninputs), i);
    *out = port_of(e->inputs[i].name, &e->inputs[i].type, e->inputs[i].data);
    return NETC_OK;
}

static const ProgInput *input_of(const ProgEntry *e, const char *name)
{
    for (int i = 0; i < e->ninputs; i++)
        if (!strcmp(e->inputs[i].name, name)) return &e->inputs[i];
    return NULL;
}

bool program_first_input(const Program *p, int i, ProgInput *out)
{
    const ProgEntry *first = program_entry(p, PROG_FIRST_BATCH), *step = program_entry(p, "train");
    for (int k = 0; first && step && k < first->ninputs; k++) {
        if (input_of(step, first->inputs[k].name) || i--) continue;
        *out = first->inputs[k];
        if (out->data) out->type.dim[0] *= step->batch / first->batch; // (it may accumulate)
        return true;
    }
    return false;
}

bool netc_first_input(netc_program *p, int i, netc_port *out)
{
    Build *b;
    ProgInput in;
    if (build_any(p, &b, NULL) != NETC_OK || !program_first_input(b->program, i, &in)) return false;
    *out = port_of(in.name, &in.type, in.data);
    return true;
}

const char *netc_declared_input(netc_program *p, const char *entry, int i)
{
    const ProgEntry *e;
    if (i < 0 || !p->decls || p->settings.functional || entry_of(p, entry, &e, NULL) != NETC_OK)
        return NULL;
    bool trains = e->kind == PK_TRAIN || e->kind == PK_EVAL;
    const char *model = trains ? p->decls->trains : e->name;
    for (uint32_t k = 0; model && k < p->decls->inputs.n; k++) {
        const InputDecl *d = &p->decls->inputs.at[k];
        if (!strcmp(d->model, model) && !i--) return d->name;
    }
    return NULL;
}

netc_status netc_output_info(netc_program *p, const char *entry, int i, netc_port *out,
                             netc_error **err)
{
    const ProgEntry *e;
    netc_status status = entry_of(p, entry, &e, err);
    if (status != NETC_OK) return status;
    if (i < 0 || i >= e->noutputs)
        return lib_fail(err, NETC_INVALID, "'%s' has %d output%s; there is no number %d", entry,
                        e->noutputs, plural(e->noutputs), i);
    *out = port_of(e->outputs[i].name, &e->outputs[i].type, false);
    return NETC_OK;
}

int netc_entry_effects(netc_program *p, const char *entry)
{
    const ProgEntry *e;
    if (entry_of(p, entry, &e, NULL) != NETC_OK) return -1;
    int effects = e->nchecks ? NETC_ENTRY_CHECKS : 0;
    for (int i = 0; i < e->nsteps; i++)
        for (int k = 0; k < e->steps[i].nargs; k++) {
            const ProgArg *a = &e->steps[i].args[k];
            if (a->kind == PA_BUFFER && e->buffers[a->index].region == PR_CELL)
                effects |= a->written ? NETC_ENTRY_WRITES : NETC_ENTRY_READS;
        }
    return effects;
}
