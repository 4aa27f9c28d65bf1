// netc profile: where a step's time goes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

typedef struct ProfileArgs {
    Common common;
    Timing timing;
    const char *device, *entry, *trace;
    bool json, cold;
} ProfileArgs;

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double floors(const netc_profile_result *r)
{
    double sum = 0;
    for (int i = 0; i < r->nsteps; i++) sum += r->steps[i].floor * r->steps[i].calls;
    return sum;
}

// -- text -----------------------------------------------------------------------------------------
static void print_time(FILE *out, double seconds, int width)
{
    if (seconds < 1e-2)
        fprintf(out, "%*.2f us", width, seconds * 1e6);
    else
        fprintf(out, "%*.2f ms", width, seconds * 1e3);
}

// Prints a rate in [unit], or "-" if it is unknown.
static void print_rate(FILE *out, double amount, double seconds, double unit)
{
    if (amount > 0 && seconds > 0)
        fprintf(out, " %8.1f", amount / seconds / unit);
    else
        fprintf(out, " %8s", "-");
}

static void print_known(FILE *out, int width, int v)
{
    if (v >= 0)
        fprintf(out, " %*d", width, v);
    else
        fprintf(out, " %*s", width, "-");
}

static void print_step(FILE *out, const netc_profile_result *r, const netc_step *s, double unit)
{
    double all = s->seconds * s->calls;
    print_time(out, s->seconds, 9);
    fprintf(out, " %5d %6.1f", s->calls, 100 * share(all, r->sum));
    print_rate(out, s->bytes, s->seconds, 1e9);
    print_rate(out, s->flops, s->seconds, unit);
    if (s->seconds > 0 && s->floor > 0)
        fprintf(out, " %6.1f%%", 100 * s->floor / s->seconds);
    else
        fprintf(out, " %7s", "-");
    print_known(out, 4, s->registers);
    print_known(out, 6, s->shared_bytes);
    print_known(out, 5, s->local_bytes);
    if (s->occupancy >= 0)
        fprintf(out, " %4.0f%%", 100 * s->occupancy);
    else
        fprintf(out, " %5s", "-");
    fprintf(out, "  %s  %s\n", s->name, s->line);
}

// Explains why the total is not the sum of the steps.
static void explain(FILE *out, const netc_profile_result *r)
{
    const netc_times *w = &r->whole;
    int calls = 0;
    for (int i = 0; i < r->nsteps; i++) calls += r->steps[i].calls;
    if (w->graph)
        fprintf(
            out,
            "enqueued as a CUDA graph: %d kernel nodes per execution, %d execution%s per launch\n",
            w->graph_kernels, w->graph_steps, w->graph_steps == 1 ? "" : "s");
    else
        fprintf(out, "enqueued call by call: %s\n", w->why_not);
    if (*w->way) fprintf(out, "executions enqueued together: %s\n", w->way);
    print_time(out, w->median, 10);
    fprintf(out, "  one execution, %lld in a row, median of %lld (quartiles", (long long)w->steps,
            (long long)w->repeats);
    print_time(out, w->low, 8), fputs(" to", out), print_time(out, w->high, 8);
    fputs(")\n", out);
    double bound = floors(r);
    print_time(out, bound, 10);
    fprintf(out, "  the sum of the floors of its calls: %.1f %% of the execution\n",
            100 * share(bound, w->median));
    double launches = r->empty * calls, rest = w->median - (r->sum - launches);
    print_time(out, r->sum, 10);
    fprintf(out, "  the sum of its %d calls, each timed alone\n", calls);
    if (r->empty > 0) {
        print_time(out, launches, 10);
        fputs("  of that is launch overhead: events around an empty launch read", out);
        print_time(out, r->empty, 5), fputs(", and", out), print_time(out, r->pair, 5);
        fputs(" around nothing, which is subtracted\n", out);
    }
    print_time(out, fabs(rest), 10);
    fprintf(out, "  the execution takes this much %s than the calls%s: %s\n",
            rest < 0 ? "less" : "more", r->empty > 0 ? " without launch overhead" : "",
            rest < 0   ? "calls overlap or find their data in the cache"
            : w->graph ? "edges of the graph, gaps"
                       : "launching, gaps");
    print_time(out, r->apart, 10);
    fprintf(out, "  the calls one after another with events between them, from start to end\n");
}

static int by_cost(const void *a, const void *b)
{
    const netc_step *x = *(const netc_step *const *)a, *y = *(const netc_step *const *)b;
    double p = x->seconds * x->calls, q = y->seconds * y->calls;
    if (p != q) return p < q ? 1 : -1;
    return (x > y) - (x < y);
}

static void print_profile(FILE *out, const char *model, const char *entry, const char *device,
                          bool cold, const netc_profile_result *r)
{
    bool gpu = !strncmp(device, "cuda", 4);
    const char *flops = gpu ? "TFLOP/s" : "GFLOP/s";
    double unit = gpu ? 1e12 : 1e9;
    fprintf(out, "%s, entry '%s', on %s\n", model, entry, device);
    fprintf(out, "this device copies %.0f GB/s", r->copy_rate / 1e9);
    const struct {
        const char *type;
        double rate;
    } rates[] = {{"f32", r->f32}, {"tf32", r->tf32}, {"f16", r->f16}, {"bf16", r->bf16}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (rates[i].rate > 0)
            fprintf(out, ", multiplies %s matrices at %.1f %s", rates[i].type, rates[i].rate / unit,
                    flops);
    fprintf(out, " (measured now)\ncache: %s\n\n",
            cold ? "emptied before each call"
                 : "as the previous call left it; calls that read from it can exceed 100 % of the "
                   "floor");
    fprintf(out, "%12s %5s %6s %8s %8s %7s %4s %6s %5s %5s  %s\n", "time a call", "calls", "share",
            "GB/s", flops, "floor", "regs", "shared", "local", "occ.", "name and line");
    const netc_step **order = calloc((size_t)r->nsteps + 1, sizeof *order);
    for (int i = 0; order && i < r->nsteps; i++) order[i] = &r->steps[i];
    if (order) qsort(order, (size_t)r->nsteps, sizeof *order, by_cost);
    for (int i = 0; order && i < r->nsteps; i++) print_step(out, r, order[i], unit);
    free(order);
    fputc('\n', out);
    explain(out, r);
}

// -- JSON -----------------------------------------------------------------------------------------
static void number(Json *j, const char *key, double v)
{
    json_key(j, key), json_double(j, v);
}

static void known(Json *j, const char *key, double v)
{
    json_key(j, key);
    if (v >= 0)
        json_double(j, v);
    else
        json_null(j);
}

static void rate(Json *j, const char *key, double amount, double seconds, double unit)
{
    known(j, key, amount > 0 && seconds > 0 ? amount / seconds / unit : -1);
}

static void step_json(Json *j, const netc_profile_result *r, const netc_step *s)
{
    json_object(j);
    json_key(j, "name"), json_string(j, s->name);
    json_key(j, "kind"), json_string(j, s->kind);
    json_key(j, "line"), json_string(j, s->line);
    json_key(j, "schedule"), json_string(j, s->schedule);
    json_key(j, "step"), json_int(j, s->place);
    json_key(j, "calls"), json_int(j, s->calls);
    number(j, "seconds", s->seconds), number(j, "low", s->low), number(j, "high", s->high);
    number(j, "share", share(s->seconds * s->calls, r->sum));
    number(j, "bytes", s->bytes), number(j, "flops", s->flops);
    rate(j, "gb_per_s", s->bytes, s->seconds, 1e9);
    rate(j, "tflop_per_s", s->flops, s->seconds, 1e12);
    number(j, "floor_seconds", s->floor);
    known(j, "floor_share", s->seconds > 0 ? s->floor / s->seconds : -1);
    known(j, "registers", s->registers), known(j, "shared_bytes", s->shared_bytes);
    known(j, "local_bytes", s->local_bytes), known(j, "threads", s->threads);
    known(j, "occupancy", s->occupancy);
    json_end(j);
}

static void profile_json(Json *j, const char *model, const char *entry, const char *device,
                         bool cold, const netc_profile_result *r)
{
    const netc_times *w = &r->whole;
    json_object(j);
    json_key(j, "model"), json_string(j, model);
    json_key(j, "entry"), json_string(j, entry);
    json_key(j, "device"), json_string(j, device);
    json_key(j, "cache"), json_string(j, cold ? "cold" : "warm");
    number(j, "copy_bytes_per_s", r->copy_rate);
    json_key(j, "matmul_flops_per_s"), json_object(j);
    if (r->f32 > 0) number(j, "f32", r->f32);
    if (r->tf32 > 0) number(j, "tf32", r->tf32);
    if (r->f16 > 0) number(j, "f16", r->f16);
    if (r->bf16 > 0) number(j, "bf16", r->bf16);
    json_end(j);
    number(j, "seconds", w->median), number(j, "low", w->low), number(j, "high", w->high);
    json_key(j, "steps_in_a_row"), json_int(j, w->steps);
    json_key(j, "repeats"), json_int(j, w->repeats);
    json_key(j, "items"), json_int(j, w->items);
    json_key(j, "cuda_graph"), json_bool(j, w->graph);
    known(j, "graph_kernels", w->graph ? w->graph_kernels : -1);
    known(j, "graph_steps", w->graph ? w->graph_steps : -1);
    json_key(j, "way"), json_string(j, w->way);
    number(j, "floor_seconds", floors(r)), number(j, "floor_share", share(floors(r), w->median));
    number(j, "sum_seconds", r->sum), number(j, "apart_seconds", r->apart);
    number(j, "empty_launch_seconds", r->empty), number(j, "event_pair_seconds", r->pair);
    json_key(j, "steps"), json_array(j);
    for (int i = 0; i < r->nsteps; i++) step_json(j, r, &r->steps[i]);
    json_end(j), json_end(j);
}

// -- the trace: the format that chrome://tracing and ui.perfetto.dev read -------------------------
static void trace_event(Json *j, const char *name, int thread, double begin, double seconds)
{
    json_object(j);
    json_key(j, "name"), json_string(j, name);
    json_key(j, "ph"), json_string(j, "X");
    json_key(j, "pid"), json_int(j, 1);
    json_key(j, "tid"), json_int(j, thread);
    number(j, "ts", begin * 1e6), number(j, "dur", seconds * 1e6);
    json_key(j, "args"), json_object(j); // closed by the caller, with the event
}

static void trace_name(Json *j, const char *what, int thread, const char *name)
{
    json_object(j);
    json_key(j, "name"), json_string(j, what);
    json_key(j, "ph"), json_string(j, "M");
    json_key(j, "pid"), json_int(j, 1);
    json_key(j, "tid"), json_int(j, thread);
    json_key(j, "args"), json_object(j), json_key(j, "name"), json_string(j, name);
    json_end(j), json_end(j);
}

static void profile_trace(Json *j, const char *model, const char *entry, const char *device,
                          const netc_profile_result *r)
{
    enum { WHOLE = 1, APART = 2 };
    json_object(j);
    json_key(j, "displayTimeUnit"), json_string(j, "ns");
    json_key(j, "traceEvents"), json_array(j);
    trace_name(j, "process_name", 0, device);
    trace_name(j, "thread_name", WHOLE,
               r->whole.graph ? "as enqueued: one CUDA graph" : "as enqueued");
    trace_name(j, "thread_name", APART, "call by call, events around each");
    trace_event(j, entry, WHOLE, 0, r->whole.median);
    json_key(j, "model"), json_string(j, model);
    json_end(j), json_end(j);
    for (int i = 0; i < r->nslices; i++) {
        const netc_slice *v = &r->slices[i];
        const netc_step *s = &r->steps[v->step];
        trace_event(j, s->name, APART, v->begin, v->seconds);
        json_key(j, "line"), json_string(j, s->line);
        number(j, "bytes", s->bytes), number(j, "flops", s->flops);
        rate(j, "gb_per_s", s->bytes, v->seconds, 1e9);
        known(j, "floor_share", v->seconds > 0 ? s->floor / v->seconds : -1);
        if (*s->schedule) json_key(j, "schedule"), json_string(j, s->schedule);
        json_end(j), json_end(j);
    }
    json_end(j), json_end(j);
}

// -- the verb -------------------------------------------------------------------------------------
typedef enum Form { FORM_JSON, FORM_TRACE } Form;

static char *form(Form what, const char *model, const char *entry, const char *device, bool cold,
                  const netc_profile_result *r)
{
    Arena *a = arena_new();
    if (!a) return NULL;
    jmp_buf oom;
    if (setjmp(oom)) {
        arena_free(a);
        return NULL;
    }
    arena_on_oom(a, &oom);
    Buf b = buf_new(a);
    Json j = json_writer(&b);
    if (what == FORM_JSON)
        profile_json(&j, model, entry, device, cold, r);
    else
        profile_trace(&j, model, entry, device, r);
    buf_char(&b, '\n');
    char *text = strdup(b.data);
    arena_free(a);
    return text;
}

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    ProfileArgs *a = args;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_dataset *d = NULL;
    netc_profile_result *r = NULL;
    NETC_INIT(netc_time_options, o);
    time_options(&a->timing, &o);
    o.cold = a->cold;
    const StringList entries = {&a->entry, a->entry ? 1 : 0};
    netc_context_prepare(ctx, a->device);
    netc_status status = open_data(ctx, &a->timing.data, NULL, &d, err);
    o.data = d;
    if (status == NETC_OK)
        status = open_program(&a->common, ctx, device_target(a->device), device_count(a->device),
                              &entries, d, NULL, &p, err);
    const char *entry = status == NETC_OK ? entry_of(p, a->entry) : NULL;
    if (status == NETC_OK) status = netc_session_create(p, a->device, NULL, &s, err);
    if (status == NETC_OK) status = netc_profile(s, entry, &o, &r, err);
    const char *device = s ? netc_session_device(s) : "", *model = a->common.words.at[0];
    if (status == NETC_OK && a->json) {
        char *text = form(FORM_JSON, model, entry, device, a->cold, r);
        if (text) fputs(text, stdout);
        status = text ? NETC_OK : NETC_OUT_OF_MEMORY;
        free(text);
    } else if (status == NETC_OK) {
        print_profile(stdout, model, entry, device, a->cold, r);
    }
    if (status == NETC_OK && a->trace) {
        char *text = form(FORM_TRACE, model, entry, device, a->cold, r);
        if (!text) status = NETC_OUT_OF_MEMORY;
        if (text && !write_text(a->trace, text)) status = NETC_ENVIRONMENT;
        free(text);
    }
    netc_free(r);
    netc_session_free(s);
    netc_program_release(p);
    netc_dataset_free(d);
    return status;
}

int verb_profile(int argc, char **argv)
{
    ProfileArgs a = {.timing = timing_default()};
    const Option options[] = {
        device_option(&a.device),
        {"--entry", "-e", OPT_STRING, &a.entry, "NAME",
         "which entry (default train, else the first model)"},
        data_option(&a.timing.data),
        steps_option(&a.timing),
        repeats_option(&a.timing),
        seed_option(&a.timing.seed, "random seed of made-up data (default 0)"),
        {"--cold", NULL, OPT_FLAG, &a.cold, NULL, "empty the cache before each call"},
        {"--trace", NULL, OPT_OUTPUT, &a.trace, "FILE",
         "write a trace for ui.perfetto.dev (Chrome's trace events)"},
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "print JSON"},
    };
    int code;
    if (!read_command("profile", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    if (a.trace && !output_named(a.trace, ".json", "a trace is written", &code)) {
        free_command(OPTIONS(options), &a.common);
        return code;
    }
    return run_command(OPTIONS(options), &a.common, run, &a);
}
