// Further batch sizes that a model.bin is compiled for. In addition to the main builds it holds
// builds of all entries under one more definition, such as "batch=1"; one of these replaces the
// main build if it matches the caller's definitions.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/tuning.h"

static bool is_further(const Build *b)
{
    return *b->define && !*b->entry && !b->choices;
}

// Finds the dimension that is the batch of the entries, with its size.
static netc_status find_dim(const Program *p, const ProgDim **out, netc_error **err)
{
    *out = NULL;
    for (int i = 0; i < p->nentries; i++)
        for (int k = 0; k < p->entries[i].ndims; k++) {
            const ProgDim *d = &p->entries[i].dims[k];
            if (!d->batch) continue;
            if (*out && strcmp((*out)->name, d->name))
                return lib_fail(err, NETC_INVALID,
                                "the models have different batches, '%s' and '%s': compile them "
                                "one by one, or for one size with -D",
                                (*out)->name, d->name);
            *out = d;
        }
    return *out ? NETC_OK
                : lib_fail(err, NETC_INVALID,
                           "no model has a batch to choose: axis 0 of its inputs is not a dim");
}

netc_status batches_wanted(const netc_program *p, const Build *own, Batches *out, netc_error **err)
{
    const Settings *s = &p->settings;
    const ProgDim *dim;
    netc_status status = NETC_OK;
    out->n = 0;
    if (s->nbatches) status = find_dim(own->program, &dim, err);
    for (int i = 0; i < s->nbatches && status == NETC_OK; i++) {
        if (s->batches[i] == dim->value) continue;
        if (out->n == MOST_BATCHES || s->batches[i] < 1)
            return lib_fail(err, NETC_INVALID, "a batch of %" PRId64 " is %s", s->batches[i],
                            s->batches[i] < 1 ? "none" : "one too many");
        snprintf(out->define[out->n++], sizeof *out->define, "%s=%" PRId64, dim->name,
                 s->batches[i]);
    }
    for (const Build *b = p->builds; b && out->n < MOST_BATCHES; b = b->next) {
        bool known = !is_further(b) || strlen(b->define) >= sizeof *out->define;
        for (int i = 0; i < out->n && !known; i++) known = !strcmp(out->define[i], b->define);
        if (!known) strcpy(out->define[out->n++], b->define);
    }
    return status;
}

// Whether, under the program's settings and [define], each name in "name=value" has that value.
static bool has_values(netc_program *p, const char *define, const char **asked, int n)
{
    Settings *s = &p->settings, own = *s;
    FrontendOptions now = lib_frontend_options(p, p->arena, define, "");
    s->defines = asked, s->ndefines = n, s->ndata = 0;
    FrontendOptions then = lib_frontend_options(p, p->arena, "", "");
    *s = own;
    return !frontend_redefines(p->arena, p->name, p->text, p->len, &now, then.defines,
                               then.ndefines);
}

// The value that the dimension in [define] has in the main builds, as a definition.
static const char *main_define(netc_program *p, const Build *b, const char *define)
{
    size_t n = strcspn(define, "=");
    for (int i = 0; i < b->program->nentries; i++)
        for (int k = 0; k < b->program->entries[i].ndims; k++) {
            const ProgDim *d = &b->program->entries[i].dims[k];
            if (strlen(d->name) == n && !strncmp(d->name, define, n))
                return arena_printf(p->arena, "%s=%" PRId64, d->name, d->value);
        }
    return "?"; // only in a damaged file; not used
}

static void make_main(netc_program *p, const char *define)
{
    for (Build *b = p->builds; b; b = b->next) {
        if (build_is_main(b))
            b->define = main_define(p, b, define);
        else if (!strcmp(b->define, define))
            b->define = "";
    }
    Settings *s = &p->settings;
    Settings one = {.defines = &define, .ndefines = 1};
    const char **all = NEW_ARRAY(p->arena, const char *, s->ndefines + 1);
    int n = 0;
    for (int i = 0; i < s->ndefines; i++)
        if (!settings_define(&one, s->defines[i])) all[n++] = s->defines[i];
    all[n++] = define;
    s->defines = all;
    s->ndefines = n;
}

// The build in the file that has these values, preferably a main one; or NULL.
static const Build *having(netc_program *p, const char **asked, int n)
{
    const Build *b = p->builds;
    while (b && !build_is_main(b)) b = b->next;
    if (!b || has_values(p, "", asked, n)) return b;
    b = p->builds;
    while (b && !(is_further(b) && has_values(p, b->define, asked, n))) b = b->next;
    return b;
}

int64_t batches_piece(const netc_program *p, const ProgEntry *e, int64_t n)
{
    const char *dim = batch_dim(e);
    const size_t len = dim ? strlen(dim) : 0;
    int64_t piece = 0;
    for (const Build *b = p->embedded ? p->builds : NULL; b && dim; b = b->next) {
        if (!is_further(b) || b->module || strncmp(b->define, dim, len) || b->define[len] != '=')
            continue;
        int64_t size = strtoll(b->define + len + 1, NULL, 10);
        if (size <= n && size > piece) piece = size;
    }
    return piece ? piece : n;
}

// Writes "batch=4, batch=1": the batches for which the file has code. "" if there are none.
static void list_held(const netc_program *p, char *out, size_t n)
{
    const Build *own = p->builds;
    while (own && (!build_is_main(own) || own->module)) own = own->next;
    const ProgDim *dim = NULL;
    *out = 0;
    if (!own || find_dim(own->program, &dim, NULL) != NETC_OK) return;
    size_t len = (size_t)snprintf(out, n, "%s=%" PRId64, dim->name, dim->value);
    for (const Build *b = p->builds; b; b = b->next)
        if (is_further(b) && !b->module && b->cuda == own->cuda && len < n)
            len += (size_t)snprintf(out + len, n - len, ", %s", b->define);
}

// Records the requested batch if the file has no code for it.
static void note_lacking(netc_program *p, const char **asked, int n)
{
    char held[400];
    list_held(p, held, sizeof held);
    size_t name = strcspn(held, "=");
    for (int i = 0; i < n && *held; i++)
        if (!strncmp(asked[i], held, name + 1) && !having(p, &asked[i], 1)) {
            p->embedded->lacks = arena_strdup(p->arena, asked[i]);
            p->embedded->holds = arena_strdup(p->arena, held);
        }
}

bool batches_choose(netc_program *p, const char **asked, int n)
{
    const Build *b = having(p, asked, n);
    p->embedded->unfit = !b;
    if (!b) note_lacking(p, asked, n);
    if (b && is_further(b)) make_main(p, arena_strdup(p->arena, b->define));
    return b != NULL;
}

bool batches_why(const netc_program *p, const Build *b, char *out, size_t n)
{
    const Embedded *e = p->embedded;
    const char *lacks = e->lacks ? e->lacks : b->define, *size = strchr(lacks, '=');
    char held[400];
    if (!e->lacks) list_held(p, held, sizeof held);
    bool number = size && size[1] && !size[1 + strspn(size + 1, "0123456789")];
    if (*lacks && (e->lacks || *held))
        snprintf(out, n,
                 "its code is for %s, not for %s; 'netc MODEL -o FILE --batch %s', on a machine "
                 "with a compiler, makes a file that has it",
                 e->lacks ? e->holds : held, lacks, number ? size + 1 : "N");
    else
        snprintf(out, n, "its code is for other values than those given with -D or by the data");
    return e->unfit || *lacks;
}
