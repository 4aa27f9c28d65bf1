// The source of a build's schedules: a checkpoint's choice table, else the model's tuning file,
// else the cache of measurements on this device, else the cost model.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/ir/body.h"
#include "lib/api/tuning.h"

RtKey schedule_cache_key(const char *device, uint64_t body)
{
    RtKey k = rt_key_start("schedule 1");
    rt_key_str(&k, device);
    rt_key_bytes(&k, &body, sizeof body);
    return k;
}

bool build_is_main(const Build *b)
{
    return !*b->define && !*b->entry;
}

static const char *find(void *ctx, uint64_t key)
{
    Schedules *s = ctx;
    Build *b = s->b;
    uint64_t known;
    if (!s->device) return NULL;
    if (idmap_get(&s->taken, key, &known)) return (const char *)(uintptr_t)known;
    const char *text = NULL;
    const TuneEntry *e = s->given  ? tune_find(s->given, key, s->device)
                         : s->file ? tune_find(s->file, key, s->device)
                                   : NULL;
    if (e) text = e->schedule;
    if (e && !s->given) s->of_file++;
    void *bytes;
    size_t n;
    if (!e && !s->given && b->cuda && s->p->cuda_model && !s->p->settings.locked &&
        rt_cache_get(&s->p->context->compile, schedule_cache_key(s->device, key), b->arena, &bytes,
                     &n)) {
        text = arena_strndup(b->arena, bytes, n);
        s->of_cache++;
    }
    idmap_set(&s->taken, key, (uint64_t)(uintptr_t)text);
    return text;
}

// A line in the user's file that cannot be used is an error. If it is merely outdated, it is only
// noted, unless the program is locked.
static void wrong(void *ctx, uint64_t key, const char *why, bool stale)
{
    Schedules *s = ctx;
    const TuneEntry *e = s->given || !s->file ? NULL : tune_find(s->file, key, s->device);
    idmap_set(&s->taken, key, 0);
    if (!e) return;
    if (stale && !s->p->settings.locked)
        lib_log(s->p->context, "note: %s:%d: kernel %s: %s; the line is ignored", s->file->path,
                e->line, e->name, why);
    else
        diag_error(s->b->module->diags, 0, "%s:%d: kernel %s: %s", s->file->path, e->line, e->name,
                   why);
}

const char *schedules_device(const netc_program *p, const Build *b, bool *several)
{
    *several = false;
    if (!b->cuda) return "cpu";
    if (p->cuda_model) return p->cuda_model;
    const char *first = NULL;
    for (uint32_t i = 0; p->tuning && i < p->tuning->kernels.n; i++) {
        const char *d = p->tuning->kernels.at[i].device;
        if (!strcmp(d, "cpu")) continue;
        *several |= first && strcmp(first, d);
        if (!first) first = d;
    }
    return first;
}

void schedules_begin(netc_program *p, Build *b, Schedules *s, ScheduleSource *source)
{
    bool several;
    *s = (Schedules){.p = p, .b = b, .file = p->tuning};
    s->device = schedules_device(p, b, &several);
    if (several)
        lib_log(p->context, "note: %s has schedules for several devices; those for %s are used",
                p->tuning->path, s->device);
    if (b->choices) {
        TuneFile *given = NEW(b->arena, TuneFile);
        tune_parse(b->arena, NULL, b->choices, strlen(b->choices), given);
        s->given = given;
    }
    s->taken = idmap_new(b->arena);
    *source = (ScheduleSource){find, wrong, s};
}

static int entries_for(const TuneFile *t, const char *device)
{
    int n = 0;
    for (uint32_t i = 0; i < t->kernels.n; i++)
        n += device && !strcmp(t->kernels.at[i].device, device);
    return n;
}

// The kernels that have no line, as text for --locked; or NULL. (Lines without a kernel are
// allowed: they may belong to other sizes.)
static const char *unlocked(const Schedules *s, const char *const *names, int missing)
{
    Arena *a = s->b->arena;
    Buf o = buf_new(a);
    for (int i = 0; i < missing && i < 8; i++)
        buf_printf(&o, "\n  kernel %s has no line for %s", names[i],
                   s->device ? s->device : "any CUDA device");
    if (missing > 8) buf_printf(&o, "\n  and %d more", missing - 8);
    return o.len ? o.data : NULL;
}

static void say(const Schedules *s, int kernels, int without)
{
    const netc_context *c = s->p->context;
    if (s->of_cache)
        lib_log(c,
                "schedules measured on %s before: %d (the cache); -v with --cache-dir '' leaves "
                "them out",
                s->device, s->of_cache);
    if (!s->file || s->given) return;
    int lines = entries_for(s->file, s->device);
    if (s->of_file)
        lib_log(c, "note: %s: measured schedules for %d of %d kernels (%s)", s->file->path,
                kernels - without, kernels, s->device);
    else if (s->file->kernels.n && !lines && (s->b->cuda ? s->device != NULL : false))
        lib_log(c, "note: %s holds no schedules for %s; it is ignored", s->file->path, s->device);
    else if (lines && !s->p->settings.nentries)
        lib_log(c,
                "note: %s: none of its %d kernels is in this model; it was made for another model "
                "or for other sizes, and is ignored",
                s->file->path, lines);
}

void schedules_end(Schedules *s, Program *p)
{
    Build *b = s->b;
    Arena *a = b->arena;
    Buf table = buf_new(a);
    const char **missing = NEW_ARRAY(a, const char *, b->launches.n * 8 + 1);
    int kernels = 0, without = 0, named = 0;
    IdMap seen = idmap_new(a);
    StrMap names = strmap_new(a); // of missing kernels, whose bodies share a name
    buf_str(&table, p->choices);
    if (table.len && table.data[table.len - 1] != '\n') buf_char(&table, '\n');
    for (uint32_t i = 0; s->file && !s->given && i < s->file->others.n; i++)
        buf_printf(&table, "%s\n", s->file->others.at[i]);
    for (uint32_t i = 0; i < b->launches.n; i++) {
        const LaunchRecord *r = &b->launches.at[i];
        if (r->ctx.entry->kind == ENTRY_INIT) continue; // runs only once
        for (int k = 0; k < r->nkernels; k++)
            for (int n = 0; n < r->kernels[k].nbodies; n++) {
                uint64_t key = r->kernels[k].body[n]->key, text;
                if (idmap_get(&seen, key, NULL)) continue;
                idmap_set(&seen, key, 1);
                kernels++;
                const char *name = r->kernels[k].prog.name;
                if (idmap_get(&s->taken, key, &text) && text) {
                    TuneEntry e = {.name = name,
                                   .device = s->device,
                                   .schedule = (const char *)(uintptr_t)text,
                                   .key = key};
                    tune_print_line(&e, false, &table);
                    continue;
                }
                without++;
                if (strmap_get(&names, name)) continue;
                strmap_set(&names, name, (void *)(uintptr_t)name);
                if (named++ < 8) missing[named - 1] = name;
            }
    }
    p->choices = table.data ? table.data : "";
    if (!build_is_main(b)) return;
    say(s, kernels, without);
    b->unlocked = unlocked(s, missing, named);
}

// "DEVICE: SCHEDULE" in the line of a kernel, with its length in *n. NULL: there is no line.
static const char *chosen(const char *table, uint64_t key, size_t *n)
{
    char id[32];
    snprintf(id, sizeof id, " %016llx @ ", (unsigned long long)key);
    const char *at = strstr(table, id);
    if (at) at += strlen(id), *n = strcspn(at, "\n");
    return at;
}

static bool same_line(const char *a, const char *b, uint64_t key)
{
    size_t na = 0, nb = 0;
    const char *x = chosen(a, key, &na), *y = chosen(b, key, &nb);
    return !x == !y && na == nb && (!x || !memcmp(x, y, na));
}

bool schedules_same(const Build *b, const char *choices)
{
    const char *own = b->program->choices;
    for (uint32_t i = 0; i < b->launches.n; i++)
        for (int k = 0; k < b->launches.at[i].nkernels; k++)
            for (int n = 0; n < b->launches.at[i].kernels[k].nbodies; n++)
                if (!same_line(own, choices, b->launches.at[i].kernels[k].body[n]->key))
                    return false;
    // A build from a model.bin has no launches, so its table is compared.
    for (const char *line = own, *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        const char *id = strncmp(line, "kernel ", 7) ? NULL : strchr(line + 7, ' ');
        if (id && id < end && !same_line(own, choices, strtoull(id + 1, NULL, 16))) return false;
    }
    return true;
}

netc_status schedules_locked(netc_program *p, const Build *b, netc_error **err)
{
    if (!p->settings.locked || !b->unlocked) return NETC_OK;
    return lib_fail(err, NETC_INVALID,
                    "--locked: %s lacks kernels of %s; 'netc tune %s' measures them%s",
                    p->tuning ? p->tuning->path : "the tuning file", p->name, p->name, b->unlocked);
}

netc_status schedules_locked_both(netc_program *p, const Build *cpu, const Build *cuda,
                                  netc_error **err)
{
    int lines = p->tuning ? entries_for(p->tuning, "cpu") : 0,
        others = p->tuning ? (int)p->tuning->kernels.n - lines : 0;
    netc_status status = NETC_OK;
    if (cuda && (others || !lines)) status = schedules_locked(p, cuda, err);
    if (cpu && status == NETC_OK && (lines || !others)) status = schedules_locked(p, cpu, err);
    return status;
}
