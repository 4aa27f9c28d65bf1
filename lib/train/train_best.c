// The best evaluation so far: its checkpoint is kept in addition to the latest one, and training
// stops early when no later evaluation was better for some time. The best result is recorded in
// every checkpoint, so that resumed training continues with it.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/names.h"
#include "base/plain.h"
#include "lib/train/train.h"
#include "runtime/data.h"

// For a metric without ":min" or ":max", its name decides.
static bool smaller_is_better(const char *metric)
{
    static const char *const small[] = {"loss", "err", "perplexity", "nll", "mse", "mae", "cost"};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (strstr(metric, small[i])) return true;
    return false;
}

static netc_status unknown_metric(const ProgEntry *e, const char *metric, netc_error **err)
{
    const char *names[64];
    size_t n = 0;
    for (int i = 0; i < e->noutputs && n < 64; i++)
        if (!e->outputs[i].type.rank) names[n++] = e->outputs[i].name;
    return lib_fail(err, NETC_INVALID, "evaluations have no scalar '%s'%s", metric,
                    advise(metric, names, n).text);
}

static char *beside(const char *path)
{
    static const char *const ends[] = {".safetensors.index.json", ".safetensors", ""};
    char *out;
    size_t n = strlen(path), i = 0;
    while (strlen(ends[i]) > n || strcmp(path + n - strlen(ends[i]), ends[i])) i++;
    int head = (int)(n - strlen(ends[i]));
    return asprintf(&out, "%.*s.best%s", head, path, ends[i]) < 0 ? NULL : out;
}

static bool better(const Best *b, double value)
{
    if (isnan(value)) return false;
    return b->step < 0 || (b->largest ? value > b->value : value < b->value);
}

// -- as text, in a checkpoint ---------------------------------------------------------------------

// Writes VALUE STEP WAITED SEEN min|max METRIC, with the value as bits.
static void write_record(const Best *b, char *out, size_t n)
{
    *out = 0;
    uint64_t bits;
    memcpy(&bits, &b->value, sizeof bits);
    if (b->metric && b->seen >= 0)
        snprintf(out, n, "%016" PRIx64 " %" PRId64 " %" PRId64 " %" PRId64 " %s %s", bits, b->step,
                 b->waited, b->seen, b->largest ? "max" : "min", b->metric);
}

static netc_status read_record(Best *b, const char *text, const char *path, netc_context *c,
                               netc_error **err)
{
    char way[4], *metric = NULL;
    uint64_t bits;
    int64_t step, waited, seen;
    if (!*text) return NETC_OK;
    bool sound = sscanf(text, "%16" SCNx64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %3s %ms", &bits,
                        &step, &waited, &seen, way, &metric) == 6;
    netc_status status = NETC_OK;
    if (!sound)
        status = lib_fail(err, NETC_INVALID, "%s is damaged: its netc.best is '%s'", path, text);
    else if (!strcmp(metric, b->metric) && !strcmp(way, b->largest ? "max" : "min"))
        memcpy(&b->value, &bits, sizeof bits), b->step = step, b->waited = waited, b->seen = seen;
    else
        lib_log(c, "note: the best evaluation in %s is by %s:%s; by %s:%s it starts again", path,
                metric, way, b->metric, b->largest ? "max" : "min");
    free(metric);
    return status;
}

// -------------------------------------------------------------------------------------------------

netc_status best_plan(Run *r, const ProgEntry *e, const char *record, netc_error **err)
{
    const netc_train_options *o = r->o;
    Best *b = &r->best;
    const char *asked = o->save_best ? o->save_best : "loss";
    b->step = b->seen = -1;
    if (o->patience < 0)
        return lib_fail(err, NETC_INVALID, "a patience of %" PRId64 "; it must be 0 or more",
                        o->patience);
    if (o->save_best && !o->save)
        return lib_fail(err, NETC_INVALID,
                        "--save-best needs --save FILE: the best is kept beside the last");
    const char *wants = o->save_best    ? "--save-best"
                        : o->patience   ? "--patience"
                        : o->eval_every ? "--eval-every"
                                        : NULL;
    if (wants && !r->eval.data)
        return lib_fail(err, NETC_INVALID,
                        "%s needs evaluations, but nothing is evaluated; give --eval-data "
                        "NAME=FILE or --split S",
                        wants);
    if (!o->save_best && !o->patience) return NETC_OK;
    if (!strncmp(asked, "eval_", 5)) asked += 5;
    size_t n = strcspn(asked, ":");
    b->metric = strndup(asked, n);
    if (o->save_best) b->path = beside(o->save);
    if (!b->metric || (o->save_best && !b->path)) return OUT_OF_MEMORY(err);
    if (asked[n] && strcmp(asked + n, ":min") && strcmp(asked + n, ":max"))
        return lib_fail(err, NETC_INVALID,
                        "'%s': after the name of an output write :min or :max, which is better",
                        asked);
    b->largest = asked[n] ? !strcmp(asked + n, ":max") : !smaller_is_better(b->metric);
    bool known = false;
    for (int i = 0; i < e->noutputs; i++)
        known = known || (!e->outputs[i].type.rank && !strcmp(e->outputs[i].name, b->metric));
    if (!known) return unknown_metric(e, b->metric, err);
    if (b->path) rt_checkpoint_sweep(b->path);
    return read_record(b, record, o->resume ? o->resume : "", r->s->context, err);
}

bool best_waits(const Run *r)
{
    return !r->o->patience || r->best.waited < r->o->patience;
}

netc_status best_look(Run *r, const netc_metric *m, int n, netc_error **err)
{
    Best *b = &r->best;
    if (!b->metric) return NETC_OK;
    b->seen = r->step;
    b->waited++;
    for (int i = 0; i < n; i++) {
        if (strcmp(m[i].name + strlen("eval_"), b->metric) || !better(b, m[i].value)) continue;
        b->value = m[i].value;
        b->step = r->step;
        b->waited = 0;
    }
    if (b->waited || !b->path) return NETC_OK;
    netc_status status = run_sound(r, err);
    if (status == NETC_OK) status = run_write(r, b->path, err);
    b->written = b->written || status == NETC_OK;
    return status;
}

void best_position(const Run *r, Position *at)
{
    write_record(&r->best, at->best, sizeof at->best);
}

void best_text(const Run *r, char *out, size_t n)
{
    const Best *b = &r->best;
    size_t len = 0;
    *out = 0;
    if (!b->metric) return;
    if (!best_waits(r))
        len = (size_t)snprintf(out, n,
                               "stopped early: %" PRId64 " evaluation%s without a better one; ",
                               b->waited, b->waited > 1 ? "s" : "");
    if (len >= n) return;
    if (b->step < 0) {
        snprintf(out + len, n - len, "no evaluation gave a number for %s", b->metric);
        return;
    }
    bool there = b->path && (b->written || !access(b->path, F_OK));
    plain_format(out + len, n - len, "best eval_%s %.6g at step %" PRId64 "%s%s", b->metric,
                 b->value, b->step, there ? ", in " : "", there ? b->path : "");
}

void best_free(Best *b)
{
    free(b->metric);
    free(b->path);
}
