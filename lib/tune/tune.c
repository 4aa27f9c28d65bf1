// netc_tune: decides which launches to search and in which order, and writes the tuning file.
#include "lib/tune/tune.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/api/synthetic.h"
#include "runtime/device.h"

static const char unfinished[] = "not finished";

typedef struct Work { // a launch to search
    const LaunchRecord *launch;
    double share;
} Work;

typedef struct Tuner {
    netc_program *p;
    const char *device;
    netc_tune_options o;
    netc_session *session;
    Build *build;
    Arena *arena;
    TuneFile file;
    IdMap chosen;
    IdMap entry_of; // Body.key -> index in file.kernels, + 1
    double end;
    int folder; // file descriptor of the lock on the file's folder while the file is updated, or -1
    netc_tune_event at;
    netc_error **err;
    netc_status status;
} Tuner;

static bool stop(void *ctx)
{
    const Tuner *t = ctx;
    const netc_context_options *o = &t->p->context->o;
    return clock_now() > t->end || (o->cancel && o->cancel(o->user));
}

static void tell(Tuner *t, netc_tune_kind kind)
{
    t->at.kind = kind;
    if (t->o.event) t->o.event(t->o.user, &t->at);
}

static void skipped(void *ctx, const char *schedule, const char *why)
{
    Tuner *t = ctx;
    t->at.schedule = schedule;
    t->at.text = why;
    tell(t, NETC_TUNE_SKIPPED);
}

static const char *device_name(const netc_session *s)
{
    return rt_device_is_cuda(s->device) ? rt_device_model(s->device) : "cpu";
}

// -- the file -------------------------------------------------------------------------------------

// Whether two lines are about the same product. The kernel that was compared with the library may
// differ.
static bool same_key(const char *a, const char *b)
{
    static const char candidate[] = " or kernel ";
    const char *x = strstr(a, candidate), *y = strstr(b, candidate);
    size_t skip = sizeof candidate - 1 + 16, n = x ? (size_t)(x - a) : strcspn(a, ":"),
           m = y ? (size_t)(y - b) : strcspn(b, ":");
    if (!x != !y || n != m || strncmp(a, b, n)) return false;
    return !x || (strlen(x) > skip && strlen(y) > skip && same_key(x + skip, y + skip));
}

// Adds a line about a product. An existing line is replaced only if [newer].
static void take_line(Tuner *t, const char *text, bool newer)
{
    uint32_t i = 0;
    while (i < t->file.others.n && !same_key(t->file.others.at[i], text)) i++;
    if (i == t->file.others.n)
        vec_push(t->arena, &t->file.others, text);
    else if (newer)
        t->file.others.at[i] = text;
}

// Records the choices that are currently in use for products.
static void take_choices(Tuner *t)
{
    const Loaded *l = t->session->loaded;
    const char *line = l ? rt_choices(l->rt, t->arena) : "";
    for (const char *end; *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        const char *text = arena_strndup(t->arena, line, (size_t)(end - line));
        if (*text && strncmp(text, "kernel ", 7)) take_line(t, text, true);
    }
}

// Adds lines that were written to the file in the meantime by another run or by hand.
static void take_added(Tuner *t)
{
    void *bytes = NULL;
    size_t n = 0;
    RtError e = {0};
    TuneFile now;
    if (rt_file_read(t->arena, t->o.file, &bytes, &n, &e) ||
        tune_parse(t->arena, t->o.file, bytes, n, &now))
        return; // missing or damaged: it is written again
    for (uint32_t i = 0; i < now.kernels.n; i++)
        if (!tune_find(&t->file, now.kernels.at[i].key, now.kernels.at[i].device))
            vec_push(t->arena, &t->file.kernels, now.kernels.at[i]);
    for (uint32_t i = 0; i < now.others.n; i++) take_line(t, now.others.at[i], false);
}

// Removes lines of this device that belong to no kernel of the model.
static void prune(Tuner *t)
{
    uint32_t kept = 0;
    IdMap have = idmap_new(t->arena);
    for (uint32_t i = 0; i < t->build->launches.n; i++) {
        const LaunchRecord *r = &t->build->launches.at[i];
        for (int k = 0; k < r->nkernels; k++)
            for (int n = 0; n < r->kernels[k].nbodies; n++)
                idmap_set(&have, r->kernels[k].body[n]->key, 1);
    }
    for (uint32_t i = 0; i < t->file.kernels.n; i++) {
        const TuneEntry *e = &t->file.kernels.at[i];
        if (strcmp(e->device, t->device) || idmap_get(&have, e->key, NULL))
            t->file.kernels.at[kept++] = *e;
    }
    t->file.kernels.n = kept;
}

static void unlock(Tuner *t)
{
    if (t->folder >= 0) close(t->folder);
    t->folder = -1;
}

// Writes the file, with lines that were added to it in the meantime; if [pruned], without lines
// that belong to no kernel. The lock keeps other tuners from writing in between.
static bool write_file(Tuner *t, bool pruned)
{
    Buf out = buf_new(t->arena);
    RtError e = {0};
    t->folder = rt_file_lock_folder(t->o.file);
    take_added(t);
    if (pruned) prune(t);
    tune_print(t->arena, &t->file, &out);
    RtCode code = rt_file_write(t->o.file, out.data, out.len, &e);
    unlock(t);
    if (code) t->status = lib_fail_rt(t->err, &e);
    return !code;
}

// Checks before measuring that the folder can be written.
static bool can_write(Tuner *t)
{
    char *copy = arena_strdup(t->arena, t->o.file);
    const char *dir = dirname(copy);
    if (!access(dir, W_OK | X_OK)) return true;
    t->status = lib_fail(t->err, NETC_ENVIRONMENT,
                         "the folder %s cannot be written, so no measurement could be kept; "
                         "--tune-file FILE names another place",
                         dir);
    return false;
}

static void read_file(Tuner *t)
{
    void *bytes = NULL;
    size_t n = 0;
    RtError e = {0};
    if (access(t->o.file, F_OK)) return;
    if (rt_file_read(t->arena, t->o.file, &bytes, &n, &e)) {
        t->status = lib_fail_rt(t->err, &e);
        return;
    }
    const char *wrong = tune_parse(t->arena, t->o.file, bytes, n, &t->file);
    if (wrong) t->status = lib_fail(t->err, NETC_INVALID, "%s", wrong);
}

static void set_entry(Tuner *t, const TuneEntry *e)
{
    TuneEntry *old = tune_find(&t->file, e->key, e->device);
    if (old)
        *old = *e;
    else
        vec_push(t->arena, &t->file.kernels, *e);
}

// -- what to search -------------------------------------------------------------------------------

static bool known(const Tuner *t, uint64_t key)
{
    const TuneEntry *e = tune_find(&t->file, key, t->device);
    return e && !strstr(e->note, unfinished);
}

static bool all_in(const IdMap *keys, const LaunchRecord *r)
{
    for (int k = 0; k < r->nkernels; k++)
        for (int n = 0; n < r->kernels[k].nbodies; n++)
            if (!idmap_get(keys, r->kernels[k].body[n]->key, NULL)) return false;
    return true;
}

static bool is_called(const LaunchRecord *r, const char *name)
{
    for (int k = 0; k < r->nkernels; k++)
        if (lib_names_kernel(name, r->kernels[k].prog.name)) return true;
    return false;
}

static int by_share(const void *a, const void *b)
{
    const Work *x = a, *y = b;
    if (x->share != y->share) return x->share < y->share ? 1 : -1;
    return (x->launch > y->launch) - (x->launch < y->launch); // in the program's order
}

static double floor_of(const LaunchRecord *r)
{
    double t = 1e-6;
    for (int k = 0; k < r->nkernels; k++) t += r->kernels[k].prog.floor_seconds;
    return t;
}

// Seconds that one execution of the entry spends in each kernel, timed one by one.
static double *time_steps(Tuner *t, const char *entry, double *total)
{
    Loaded *l;
    const ProgEntry *e;
    const Program *p = t->build->program;
    double *seconds = NEW_ARRAY(t->arena, double, p->nkernels + 1);
    t->status = session_entry(t->session, entry, &l, &e, t->err);
    if (t->status == NETC_OK) t->status = synthetic_bind(t->session, entry, 0, t->arena, t->err);
    if (t->status == NETC_OK) t->status = session_made_up_lengths(t->session, t->err);
    if (t->status == NETC_OK) t->status = netc_run(t->session, entry, 2, t->err);
    if (t->status == NETC_OK) t->status = netc_sync(t->session, t->err);
    if (t->status != NETC_OK) return seconds;
    RtProfileOptions o = {.repeats = 5, .seconds = 1};
    RtProfile r = {0};
    RtError re = {0};
    if (rt_profile(t->session->rt, l->rt, entry, &o, t->arena, &r, &re)) {
        t->status = lib_fail_rt(t->err, &re);
        return seconds;
    }
    for (int i = 0; i < r.nsteps; i++) {
        const ProgStep *s = &e->steps[r.steps[i].step];
        double all = r.steps[i].seconds * r.steps[i].calls;
        *total += all;
        if (s->kind == PS_KERNEL) seconds[s->index] += all;
        if (s->kind == PS_GEMM && p->gemms[s->index].kernel)
            seconds[p->gemms[s->index].kernel - 1] += all;
    }
    return seconds;
}

// Sets the shares: from the time of steps of the training entry. Other entries come last, ordered
// by their minimum times. If the model is not trained, all shares are by minimum times.
static void find_shares(Tuner *t, Work *w, int n)
{
    const Program *p = t->build->program;
    const char *train = NULL;
    const double *seconds = NULL;
    double total = 0, floors = 0;
    for (int i = 0; i < p->nentries; i++)
        if (p->entries[i].kind == PK_TRAIN) train = p->entries[i].name;
    if (train) seconds = time_steps(t, train, &total);
    for (int i = 0; i < n; i++) floors += floor_of(w[i].launch);
    for (int i = 0; i < n; i++) {
        const LaunchRecord *r = w[i].launch;
        bool trained = train && total > 0 && !strcmp(r->ctx.entry->name, train);
        for (int k = 0; k < p->nkernels && trained; k++)
            if (is_called(r, p->kernels[k].name)) w[i].share += seconds[k] / total;
        if (!trained) w[i].share = floor_of(r) / floors * (train ? 1e-6 : 1);
    }
}

static Work *find_work(Tuner *t, int *count)
{
    const LaunchLog *log = &t->build->launches;
    Work *w = NEW_ARRAY(t->arena, Work, log->n + 1);
    int n = 0;
    IdMap listed = idmap_new(t->arena);
    for (uint32_t i = 0; i < t->file.kernels.n; i++)
        if (idmap_get(&t->chosen, t->file.kernels.at[i].key, NULL))
            idmap_set(&listed, t->file.kernels.at[i].key, 1);
    for (uint32_t i = 0; i < log->n; i++) {
        const LaunchRecord *r = &log->at[i];
        if (r->ctx.entry->kind == ENTRY_INIT) continue; // runs only once
        if (t->o.kernel && !is_called(r, t->o.kernel)) continue;
        if (all_in(&listed, r)) continue; // known already, or equal to one in the list
        for (int k = 0; k < r->nkernels; k++)
            for (int i = 0; i < r->kernels[k].nbodies; i++)
                idmap_set(&listed, r->kernels[k].body[i]->key, 1);
        w[n++].launch = r;
    }
    for (uint32_t i = 0; i < log->n && t->o.kernel && !n; i++)
        if (is_called(&log->at[i], t->o.kernel)) {
            t->status = lib_fail(
                t->err, NETC_INVALID,
                "kernel %s computes initial values: it runs once, and is not tuned", t->o.kernel);
            return NULL;
        }
    if (t->o.kernel && !n) {
        t->status = lib_no_kernel(t->err, t->build->program, t->o.kernel);
        return NULL;
    }
    if (n) find_shares(t, w, n);
    qsort(w, (size_t)n, sizeof *w, by_share);
    *count = n;
    return w;
}

// -- one launch -----------------------------------------------------------------------------------

static void keep(Tuner *t, const Bench *b, const Search *s)
{
    const Candidate *base = &b->base;
    int number = 0;
    for (int k = 0; k < base->nkernels; k++)
        for (int n = 0; n < base->kernels[k].nbodies; n++, number++) {
            uint64_t key = base->kernels[k].body[n]->key, text;
            if (!idmap_get(&t->chosen, key, &text)) continue;
            bool several = base->kernels[0].nbodies > 1;
            const char *name = b->launch->kernels[0].prog.name;
            TuneEntry e = {.name = several ? arena_printf(t->arena, "%s/%d", name, n) : name,
                           .device = t->device,
                           .schedule = (const char *)(uintptr_t)text,
                           .key = key};
            const TuneEntry *old = tune_find(&t->file, key, t->device);
            if (old && several && !strcmp(old->schedule, e.schedule)) continue; // the same schedule
            e.note = arena_printf(t->arena, "%.2f -> %.2f us%s%s", s->before * 1e6, s->after * 1e6,
                                  s->finished ? "" : ", ", s->finished ? "" : unfinished);
            set_entry(t, &e);
            rt_cache_put(&t->p->context->compile, schedule_cache_key(t->device, key), e.schedule,
                         strlen(e.schedule));
            t->at.schedule = e.schedule;
        }
}

static void search_one(Tuner *t, const Work *w)
{
    RtError e = {0};
    Arena *a = arena_new();
    jmp_buf oom;
    if (!a) {
        t->status = OUT_OF_MEMORY(t->err);
        return;
    }
    Bench b = {.context = t->p->context,
               .device = t->session->device,
               .device_name = t->device,
               .like = t->build->program,
               .launch = w->launch,
               .arena = a,
               .use_cache = !t->o.again};
    Search s = {.bench = &b,
                .stop = stop,
                .skipped = skipped,
                .ctx = t,
                .chosen = &t->chosen,
                .skip_known = true};
    t->at.kernel = w->launch->kernels[0].prog.name;
    t->at.share = w->share;
    if (setjmp(oom)) {
        rt_fail(&e, RT_OOM, "out of memory");
    } else {
        arena_on_oom(a, &oom);
        if (!bench_open(&b, &e)) search_launch(&s, &e);
    }
    if (e.code) {
        t->at.done++;
        skipped(t, NULL, e.text);
    } else {
        t->at.done++;
        t->at.before = s.before;
        t->at.after = s.after;
        t->at.tried = s.tried;
        t->at.finished = s.finished;
        t->at.text = NULL;
        keep(t, &b, &s);
        tell(t, NETC_TUNE_KERNEL);
    }
    bench_close(&b);
    arena_free(a);
}

// Kernels that were compared with the library may have new schedules, so these comparisons are
// repeated.
static void choose_again(Tuner *t)
{
    const Program *p = t->build->program;
    Buf table = buf_new(t->arena);
    bool any = false;
    for (int i = 0; i < p->ngemms; i++) any |= p->gemms[i].kernel > 0;
    if (!any) return;
    for (uint32_t i = 0; i < t->file.kernels.n; i++)
        tune_print_line(&t->file.kernels.at[i], false, &table);
    for (uint32_t i = 0; i < t->file.others.n; i++)
        buf_printf(&table, "%s\n", t->file.others.at[i]);
    t->status = session_use_choices(t->session, table.data ? table.data : "", t->err);
    if (t->status == NETC_OK) take_choices(t);
    if (t->status == NETC_OK) write_file(t, false);
}

static void tune(void *arg)
{
    Tuner *t = arg;
    int n = 0;
    t->chosen = idmap_new(t->arena);
    if (!can_write(t)) return;
    if (t->status == NETC_OK) read_file(t);
    if (t->status == NETC_OK)
        t->status = netc_session_create(t->p, t->device, NULL, &t->session, t->err);
    if (t->status == NETC_OK)
        t->status =
            build_get(t->p, rt_device_is_cuda(t->session->device), "", "", &t->build, t->err);
    if (t->status != NETC_OK) return;
    t->device = device_name(t->session);
    t->at.device = netc_session_device(t->session);
    for (uint32_t i = 0; i < t->file.kernels.n; i++) {
        const TuneEntry *e = &t->file.kernels.at[i];
        if (!strcmp(e->device, t->device) && known(t, e->key) && !t->o.again && !t->o.kernel)
            idmap_set(&t->chosen, e->key, (uint64_t)(uintptr_t)e->schedule);
    }
    Work *w = find_work(t, &n);
    if (t->status != NETC_OK) return;
    t->at.total = n;
    tell(t, NETC_TUNE_START);
    t->end = clock_now() + t->o.seconds;
    take_choices(t);
    if (!write_file(t, t->o.prune)) return;
    for (int i = 0; i < n && t->status == NETC_OK && !stop(t); i++) {
        search_one(t, &w[i]);
        if (t->status == NETC_OK) write_file(t, false);
    }
    if (t->status == NETC_OK && t->at.done) choose_again(t);
    t->at.finished = t->at.done == t->at.total;
    t->at.text = t->o.file;
    if (t->status == NETC_OK) tell(t, NETC_TUNE_END);
}

netc_status netc_tune(netc_program *p, const char *device, const netc_tune_options *o,
                      netc_error **err)
{
    Tuner t = {.p = p, .device = device, .folder = -1, .err = err};
    netc_status status = TAKE_OPTIONS(netc_tune_options, &t.o, o, err);
    if (status != NETC_OK) return status;
    if (t.o.seconds == 0) t.o.seconds = 60;
    if (!(t.o.seconds > 0)) return lib_fail(err, NETC_INVALID, "a budget must be more than 0");
    if (device && strchr(device, ','))
        return lib_fail(err, NETC_INVALID,
                        "schedules are measured on one device, not on %s; several then use them, too",
                        device);
    if (p->embedded)
        return lib_fail(err, NETC_INVALID,
                        "%s is compiled already; tune its .net source, and compile it again",
                        p->embedded->path);
    if (p->settings.locked)
        return lib_fail(err, NETC_INVALID,
                        "a locked program keeps the schedules it has; tune it without --locked");
    if (!t.o.file) t.o.file = p->settings.tune_file;
    if (!t.o.file || !*t.o.file)
        return lib_fail(err, NETC_INVALID,
                        "there is no file to write the schedules to; name one (--tune-file FILE)");
    t.arena = arena_new();
    if (!t.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(t.arena, tune, &t)) t.status = OUT_OF_MEMORY(err);
    unlock(&t);
    netc_session_free(t.session);
    arena_free(t.arena);
    return t.status;
}
