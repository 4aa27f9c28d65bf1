// The tables at the start of training, and the watched statistics.
#include "lib/train/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"

static void row(Buf *b, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void row(Buf *b, const char *name, const char *fmt, ...)
{
    char value[400];
    va_list args;
    va_start(args, fmt);
    plain_vformat(value, sizeof value, fmt, args);
    va_end(args);
    buf_printf(b, "| %-14s | %s", name, value);
    buf_pad(b, 48 - buf_columns(value), ' ');
    buf_str(b, " |\n");
}

static void rule(Buf *b)
{
    buf_char(b, '+'), buf_pad(b, 16, '-'), buf_char(b, '+'), buf_pad(b, 50, '-'), buf_str(b, "+\n");
}

static void memory_row(Buf *b, const char *what, int64_t bytes)
{
    if (bytes >= 1 << 20)
        row(b, what, "%10.1f MiB", (double)bytes / (1 << 20));
    else
        row(b, what, "%10.1f KiB", (double)bytes / (1 << 10));
}

typedef struct Report {
    const Run *run;
    Arena *arena;
    netc_error **err;
    netc_status status;
    char *text;
} Report;

static int64_t cell_bytes(const netc_session *s, ProgCellKind kind, bool optimizer)
{
    int64_t sum = 0;
    for (int i = 0; i < rt_cell_count(s->rt); i++) {
        const ProgCell *c = rt_cell_info(s->rt, i);
        if (c->kind == kind && c->optimizer == optimizer) sum += prog_type_bytes(&c->type);
    }
    return sum;
}

static void write_report(void *arg)
{
    Report *out = arg;
    const Run *r = out->run;
    Buf b = buf_new(out->arena);
    const netc_train_options *o = r->o;
    const Settings *set = &r->s->program->settings;
    int64_t params = 0;
    int tensors = 0;
    for (int i = 0; i < rt_cell_count(r->s->rt); i++) {
        const ProgCell *c = rt_cell_info(r->s->rt, i);
        if (c->kind != PC_PARAM) continue;
        params += prog_type_bytes(&c->type) / prog_dtype_bytes(c->type.dtype);
        tensors++;
    }
    rule(&b);
    row(&b, "model", "%s (%s)", r->l->build->program->model, r->s->program->name);
    const FileDecls *decls = r->s->program->decls;
    char name[sizeof(Position){0}.program];
    program_trains(r->s->program, name, sizeof name);
    if (decls && decls->programs.n > 1) row(&b, "program", "%s", name);
    row(&b, "parameters", "%" PRId64 " in %d tensor%s", params, tensors, plural(tensors));
    row(&b, "device", "%s", r->s->device_text);
    netc_metric scale[SCALE_METRICS];
    int scaled = 0;
    out->status = scale_metrics(r->s, scale, &scaled, out->err);
    if (out->status != NETC_OK) return;
    if (scaled)
        row(&b, "precision", "%s, losses times %g", precision_text(set->precision), scale[0].value);
    else
        row(&b, "precision", "%s", precision_text(set->precision));
    for (int i = 0; i < r->e->ndims; i++)
        row(&b, r->e->dims[i].name, "%" PRId64, r->e->dims[i].value);
    for (int i = 0; i < set->ndefines; i++) row(&b, i ? "" : "defined", "%s", set->defines[i]);
    if (o->data)
        row(&b, "steps", "%" PRId64 " of %" PRId64 " example%s, %" PRId64 " an epoch", r->total,
            r->e->batch, plural(r->e->batch), r->steps_per_epoch);
    else
        row(&b, "steps", "%" PRId64 ", without data", r->total);
    row(&b, "seed", "%" PRId64 "%s", r->s->seed, o->no_shuffle ? ", not shuffled" : "");
    row(&b, "checkpoint", "%s",
        o->save ? o->save : "none; --save FILE.safetensors keeps the result");
    if (r->best.metric)
        row(&b, "best", "eval_%s, the %s", r->best.metric,
            r->best.largest ? "largest" : "smallest");
    if (o->save_best) row(&b, "", "%s", r->best.path);
    if (o->patience)
        row(&b, "patience", "%" PRId64 " evaluation%s", o->patience, plural(o->patience));
    if (o->resume) row(&b, "resumed", "%s", o->resume);
    int launches = r->e->nsteps;
    row(&b, "launches", "%d a step%s", launches,
        rt_device_is_cuda(r->s->device) ? ", one CUDA graph" : "");
    row(&b, "compiled", "%.0f ms", r->l->build->seconds * 1e3);
    rule(&b);
    memory_row(&b, "parameters", cell_bytes(r->s, PC_PARAM, false));
    int64_t states = cell_bytes(r->s, PC_STATE, false);
    if (states) memory_row(&b, "states", states);
    memory_row(&b, "optimizer", cell_bytes(r->s, PC_STATE, true));
    memory_row(&b, "temporaries", r->e->arena_bytes);
    int64_t inputs = 0;
    for (int i = 0; o->data && i < r->e->ninputs; i++) {
        const RtArray *a = dataset_find(o->data, r->e->inputs[i].name);
        if (a && !a->source) inputs += (int64_t)a->bytes;
    }
    memory_row(&b, "data set", inputs);
    rule(&b);
    out->text = strdup(b.data);
}

netc_status training_report(const Run *run, char **text, netc_error **err)
{
    Report r = {.run = run, .arena = arena_new(), .err = err};
    if (!r.arena) return OUT_OF_MEMORY(err);
    bool ok = lib_guarded(r.arena, write_report, &r);
    arena_free(r.arena);
    *text = r.text;
    if (r.status != NETC_OK) return r.status;
    return ok && r.text ? NETC_OK : OUT_OF_MEMORY(err);
}

enum { STATS = 5, NAME_ROOM = 160 };

static void statistics(const ProgType *t, const void *data, double out[STATS])
{
    int64_t size = prog_dtype_bytes(t->dtype), n = prog_type_bytes(t) / size, bad = 0;
    double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double v = prog_load(t->dtype, (const char *)data + i * size);
        if (!isfinite(v)) {
            bad++;
            continue;
        }
        sum += v;
        squares += v * v;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    double good = (double)(n - bad), mean = good > 0 ? sum / good : NAN;
    double variance = good > 0 ? squares / good - mean * mean : NAN;
    out[0] = mean;
    out[1] = sqrt(variance > 0 ? variance : 0);
    out[2] = low;
    out[3] = high;
    out[4] = (double)bad;
}

// Whether the pattern matches the name or a scope that contains it: "h.*.attn" matches everything
// in each attn.
static bool watches(const char *pattern, const char *name)
{
    char part[512];
    for (size_t n = strcspn(name, ".");; n += 1 + strcspn(name + n + 1, ".")) {
        if (n >= sizeof part) return false;
        memcpy(part, name, n);
        part[n] = 0;
        if (plain_match(pattern, part)) return true;
        if (!name[n]) return false;
    }
}

typedef struct Watched {
    const char **at;
    int n;
} Watched;

static void watch_add(Watched *w, const char *name)
{
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->at[i], name)) return;
    w->at[w->n++] = name;
}

// Adds what the pattern matches. States of netc and of optimizers must be named in full.
static void watch_match(netc_session *s, const ProgEntry *e, const char *pattern, Watched *out)
{
    const ProgCell *c;
    if (session_cell(s, pattern, &c)) return watch_add(out, c->name);
    for (int k = 0; k < e->noutputs; k++)
        if (!strcmp(e->outputs[k].name, pattern)) return watch_add(out, e->outputs[k].name);
    for (int k = 0; k < rt_cell_count(s->rt); k++) {
        c = rt_cell_info(s->rt, k);
        if (state_is_named(c) && !c->optimizer && watches(pattern, c->name))
            watch_add(out, c->name);
    }
    for (int k = 0; k < e->noutputs; k++)
        if (watches(pattern, e->outputs[k].name)) watch_add(out, e->outputs[k].name);
}

netc_status watch_names(netc_session *s, const ProgEntry *e, const char *const *patterns, int n,
                        const char ***out, int *nout, netc_error **err)
{
    size_t most = (size_t)rt_cell_count(s->rt) + (size_t)e->noutputs;
    Watched w = {calloc(most + 1, sizeof *w.at), 0};
    if (!w.at) return OUT_OF_MEMORY(err);
    for (int i = 0, before; i < n; i++) {
        before = w.n;
        watch_match(s, e, patterns[i], &w);
        bool again = false; // everything that it matches was matched before
        for (int k = 0; k < before; k++) again = again || watches(patterns[i], w.at[k]);
        if (w.n > before || again) continue;
        size_t count = 0;
        for (int k = 0; k < rt_cell_count(s->rt); k++)
            if (state_is_named(rt_cell_info(s->rt, k)))
                w.at[count++] = rt_cell_info(s->rt, k)->name;
        for (int k = 0; k < e->noutputs; k++) w.at[count++] = e->outputs[k].name;
        lib_fail(err, NETC_INVALID,
                 "nothing to watch: there is no parameter, state, output or tap '%s'%s%s",
                 patterns[i], advise(patterns[i], w.at, count).text,
                 accumulated(e) > 1 ? "; taps cannot be watched in a step of several micro-batches"
                                    : "");
        free(w.at);
        return NETC_INVALID;
    }
    *out = w.at;
    *nout = w.n;
    return NETC_OK;
}

netc_status netc_watched(netc_session *s, const char *const *patterns, int n, const char ***names,
                         int *count, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    *names = NULL;
    *count = 0;
    netc_status status = session_entry(s, "train", &l, &e, err);
    return status == NETC_OK ? watch_names(s, e, patterns, n, names, count, err) : status;
}

netc_status watch_metrics(netc_session *s, Loaded *l, const char *const *watch, int n,
                          netc_metric **out, int *nout, netc_error **err)
{
    static const char *const suffix[STATS] = {"mean", "std", "min", "max", "nonfinite"};
    const ProgEntry *e = program_entry(l->build->program, "train");
    *nout = 0;
    *out = NULL;
    if (!n) return NETC_OK;
    netc_metric *m = calloc((size_t)n * STATS, sizeof *m + NAME_ROOM);
    if (!m) return OUT_OF_MEMORY(err);
    char *text = (char *)(m + n * STATS);
    for (int i = 0; i < n; i++) {
        const ProgCell *c;
        const ProgType *type = session_cell(s, watch[i], &c) ? &c->type : NULL;
        bool cell = type != NULL;
        for (int k = 0; !type && k < e->noutputs; k++)
            if (!strcmp(e->outputs[k].name, watch[i])) type = &e->outputs[k].type;
        size_t bytes = (size_t)prog_type_bytes(type);
        void *data = malloc(bytes ? bytes : 1);
        RtError re = {0};
        if (data && cell)
            rt_cell_read(s->rt, watch[i], data, bytes, &re);
        else if (data)
            rt_output_read(s->rt, l->rt, e->name, watch[i], data, bytes, &re);
        double v[STATS];
        if (data && !re.code) statistics(type, data, v);
        free(data);
        if (!data || re.code) {
            free(m);
            return re.code ? lib_fail_rt(err, &re) : OUT_OF_MEMORY(err);
        }
        for (int k = 0; k < STATS; k++, text += NAME_ROOM) {
            snprintf(text, NAME_ROOM, "%s.%s", watch[i], suffix[k]);
            m[(*nout)++] = (netc_metric){text, v[k]};
        }
    }
    *out = m;
    return NETC_OK;
}

netc_status scale_metrics(netc_session *s, netc_metric out[SCALE_METRICS], int *n, netc_error **err)
{
    const ProgCell *c;
    float scale = 0;
    int64_t skipped = 0;
    RtError e = {0};
    *n = 0;
    if (!session_cell(s, "@loss_scale", &c) || !session_cell(s, "@skipped", &c)) return NETC_OK;
    if (rt_cell_read(s->rt, "@loss_scale", &scale, sizeof scale, &e) ||
        rt_cell_read(s->rt, "@skipped", &skipped, sizeof skipped, &e))
        return lib_fail_rt(err, &e);
    out[(*n)++] = (netc_metric){"loss_scale", scale};
    out[(*n)++] = (netc_metric){"skipped", (double)skipped};
    return NETC_OK;
}
