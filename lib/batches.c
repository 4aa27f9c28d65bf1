// Further batches that a model.bin is compiled for. Beside the main builds it holds some of all
// entries under one more definition, "batch=1"; they become the main ones where what is asked for
// has the values that it has in them.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/tuning.h"

static bool is_further(const Build *b)
{
    return *b->define && !*b->entry && !b->choices;
}

// The one dimension that is the batch of the entries, and its size.
static netc_status find_dim(const Program *p, const ProgDim **out, netc_error **err)
{
    *out = NULL;
    for (int i = 0; i < p->nentries; i++)
        for (int k = 0; k < p->entries[i].ndims; k++) {
            const ProgDim *d = &p->entries[i].dims[k];
            if (!d->batch) continue;
            if (*out && strcmp((*out)->name, d->name))
                return lib_fail(err, NETC_INVALID,
                                "there are two batches, '%s' and '%s': compile the models one by "
                                "one, or for one size with -D",
                                (*out)->name, d->name);
            *out = d;
        }
    return *out ? NETC_OK
                : lib_fail(err, NETC_INVALID,
                           "no model has a batch to choose: axis 0 of its inputs is no dim");
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

// Under the program's settings and [define], does each of "name=value" have that value?
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

// What the main builds were made under, as a definition of the same name.
static const char *main_define(netc_program *p, const Build *b, const char *define)
{
    size_t n = strcspn(define, "=");
    for (int i = 0; i < b->program->nentries; i++)
        for (int k = 0; k < b->program->entries[i].ndims; k++) {
            const ProgDim *d = &b->program->entries[i].dims[k];
            if (strlen(d->name) == n && !strncmp(d->name, define, n))
                return arena_printf(p->arena, "%s=%" PRId64, d->name, d->value);
        }
    return "?"; // of a damaged file; nothing asks for it
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

bool batches_choose(netc_program *p, const char **asked, int n)
{
    if (has_values(p, "", asked, n)) return true;
    for (const Build *b = p->builds; b; b = b->next)
        if (is_further(b) && has_values(p, b->define, asked, n)) {
            make_main(p, arena_strdup(p->arena, b->define));
            return true;
        }
    return false;
}
