// The hooks of the public interface: files of `use`, notes, cancel, events, the caller's threads
// and the caller's memory. Everything runs on the CPU.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/api.h"

typedef struct Hooks {
    int resolved, lines, events, starts, ends, pieces;
    int64_t cancel_at, step;
    bool saw_total;
} Hooks;

static char *resolve(void *user, const char *from, const char *name, size_t *length)
{
    static const char *const files[][2] = {
        {"double.net", "fn twice(x) {\n    return 2 * x\n}\n"},
        {"own.cu", "__global__ void own(const float *x, float *y) { y[0] = x[0]; }\n"},
        {"own.c", "void own(const float *x, float *y, int n)\n"
                  "{ for (int i = 0; i < n; i++) y[i] = 3 * x[i]; }\n"},
    };
    Hooks *h = user;
    h->resolved += !strcmp(from, "main.net");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (strcmp(name, files[i][0])) continue;
        *length = strlen(files[i][1]);
        return strdup(files[i][1]);
    }
    return NULL;
}

static void note(void *user, const char *line)
{
    ((Hooks *)user)->lines += *line != 0;
}

static bool cancel(void *user)
{
    Hooks *h = user;
    return h->cancel_at && h->step >= h->cancel_at;
}

static void on_event(void *user, const netc_event *e)
{
    Hooks *h = user;
    h->events++;
    h->step = e->step;
    h->starts += e->kind == NETC_EVENT_START && e->text && strstr(e->text, "parameters");
    h->ends += e->kind == NETC_EVENT_END;
    h->saw_total = e->total > 0;
}

static void in_pieces(void *user, long n, void (*body)(void *arg, long begin, long end), void *arg)
{
    ((Hooks *)user)->pieces++;
    body(arg, 0, n / 2);
    body(arg, n / 2, n);
}

typedef struct Owned { // by an allocator of the caller's
    int live, given;
    size_t most;
    bool crooked;
} Owned;

static void *own_alloc(void *user, const char *device, size_t bytes)
{
    Owned *o = user;
    void *p = NULL;
    if (strcmp(device, "cpu") || (o->most && bytes > o->most) || posix_memalign(&p, 256, bytes + 8))
        return NULL;
    o->live++;
    o->given++;
    return o->crooked ? (char *)p + 8 : p;
}

static void own_free(void *user, const char *device, void *p)
{
    Owned *o = user;
    (void)device;
    o->live--;
    free(o->crooked ? (char *)p - 8 : p);
}

// Device memory comes from the caller, all of it, and goes back.
static void allocator(void)
{
    netc_error *err = NULL;
    netc_program *p = compiled("model m(x: f32[4]) {\n"
                               "    param w: f32[4] = 3\n    return y = x * w\n}\n");
    netc_session *s = NULL;
    Owned o = {0};
    NETC_INIT(netc_session_options, so);
    so.device_alloc = own_alloc;
    REFUSED(NETC_INVALID, "together", netc_session_create(p, "cpu", &so, &s, &err));
    so.device_free = own_free;
    so.alloc_user = &o;
    FINE(netc_session_create(p, "cpu", &so, &s, &err));
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    netc_tensor tx = floats(x, 1, 4, 0), ty = floats(y, 1, 4, 0);
    FINE(netc_bind(s, "m", "x", &tx, &err));
    FINE(netc_run(s, "m", 1, &err));
    FINE(netc_read(s, "m", "y", &ty, &err));
    CHECK(y[0] == 3 && y[3] == 12);
    CHECK(o.given > 0 && o.live > 0);
    netc_session_free(s);
    CHECK(o.live == 0);
    o.most = 1;
    REFUSED(NETC_OUT_OF_MEMORY, "own allocator", netc_session_create(p, "cpu", &so, &s, &err));
    o = (Owned){.crooked = true};
    REFUSED(NETC_INVALID, "aligned to 256", netc_session_create(p, "cpu", &so, &s, &err));
    CHECK(o.live == 0 && o.given > 0);
    netc_program_release(p);
}

// A device opened ahead is taken by the session of its name, and closed with the context otherwise.
static void prepared(void)
{
    netc_error *err = NULL;
    netc_context *c = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    FINE(netc_context_create(NULL, &c, &err));
    netc_context_prepare(c, "cpu");
    netc_context_prepare(c, "cuda:7"); // ignored
    FINE(
        netc_compile_text(c, "m.net", "model m(x: f32[4]) { return y = x * 2 }\n", NULL, &p, &err));
    for (int i = 0; i < 2; i++) {
        FINE(netc_session_create(p, "cpu", NULL, &s, &err));
        netc_session_free(s);
    }
    netc_context_prepare(c, "tpu");
    REFUSED(NETC_INVALID, "no device 'tpu'", netc_session_create(p, "tpu", NULL, &s, &err));
    netc_program_release(p);
    netc_context_prepare(c, "auto");
    netc_context_free(c);
}

// y of the model m of four floats, on the CPU.
static void run_four(netc_program *p, const netc_session_options *so, float y[4])
{
    netc_error *err = NULL;
    netc_session *s = NULL;
    float x[4] = {1, 2, 3, 4};
    netc_tensor tx = floats(x, 1, 4, 0), ty = floats(y, 1, 4, 0);
    FINE(netc_session_create(p, "cpu", so, &s, &err));
    FINE(netc_bind(s, "m", "x", &tx, &err));
    FINE(netc_run(s, "m", 1, &err));
    FINE(netc_read(s, "m", "y", &ty, &err));
    netc_session_free(s);
}

static netc_context *hooked(Hooks *h)
{
    netc_error *err = NULL;
    netc_context *c = NULL;
    NETC_INIT(netc_context_options, o);
    o.cache_dir = file("cache");
    o.resolve = resolve;
    o.log = note;
    o.cancel = cancel;
    o.user = h;
    FINE(netc_context_create(&o, &c, &err));
    return c;
}

static void used_files(void)
{
    Hooks h = {0};
    netc_error *err = NULL;
    netc_context *c = hooked(&h);
    netc_program *p = NULL;
    float y[4] = {0};
    FINE(netc_compile_text(c, "main.net",
                           "use \"double.net\"\nmodel m(x: f32[4]) {\n    return y = twice(x)\n}\n",
                           NULL, &p, &err));
    CHECK(h.resolved > 0);
    run_four(p, NULL, y);
    CHECK(y[0] == 2 && y[3] == 8);
    netc_program_release(p);
    // Kernels of a model's own come from there too.
    FINE(netc_compile_text(c, "main.net",
                           "extern fn own(x) from \"own.cu\" {\n"
                           "    out y: f32[shape(x)]\n"
                           "    launch own(x, y, dim(x, 0)) grid = 1, block = 32\n"
                           "    reference { return 3 * x }\n"
                           "    cpu \"own.c\"\n"
                           "}\nmodel m(x: f32[4]) {\n    return y = own(x)\n}\n",
                           NULL, &p, &err));
    run_four(p, NULL, y);
    CHECK(y[0] == 3 && y[3] == 12);
    netc_program_release(p);
    REFUSED(NETC_INVALID, "other.net",
            netc_compile_text(c, "main.net",
                              "use \"other.net\"\nmodel m(x: f32[4]) {\n    "
                              "return y = x\n}\n",
                              NULL, &p, &err));
    netc_context_free(c);
}

static void dump_note(void *user, const char *line)
{
    *(int *)user += strstr(line, "the graphs are not dumped: ") != NULL;
}

// A dump that cannot be written is one note, and no error.
static void lost_dump(void)
{
    int notes = 0;
    netc_error *err = NULL;
    netc_context *c = NULL;
    netc_program *p = NULL;
    NETC_INIT(netc_context_options, co);
    co.log = dump_note;
    co.user = &notes;
    FINE(netc_context_create(&co, &c, &err));
    NETC_INIT(netc_compile_options, o);
    o.dump_dir = file("none");
    o.target = "cpu";
    FINE(netc_compile_text(c, "main.net", model, &o, &p, &err));
    char *text = NULL;
    FINE(netc_program_emit(p, "c", &text, &err));
    CHECK(notes == 1);
    netc_free(text);
    netc_program_release(p);
    netc_context_free(c);
}

// A program with enough work is spread over the host's own threads.
static void own_threads(void)
{
    Hooks h = {0};
    netc_error *err = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    NETC_INIT(netc_session_options, so);
    so.parallel_for = in_pieces;
    so.parallel_user = &h;
    FINE(netc_compile_text(ctx, "wide.net",
                           "model m(x: f32[1000, 1000]) {\n    return y = sum(exp(x) * 2, -1)\n}\n",
                           NULL, &p, &err));
    FINE(netc_session_create(p, "cpu", &so, &s, &err));
    float *big = calloc(1000000, sizeof *big), *sums = calloc(1000, sizeof *sums);
    netc_tensor tb = floats(big, 2, 1000, 1000), ts = floats(sums, 1, 1000, 0);
    FINE(netc_bind(s, "m", "x", &tb, &err));
    FINE(netc_run(s, "m", 1, &err));
    FINE(netc_read(s, "m", "y", &ts, &err));
    CHECK(h.pieces > 0 && sums[0] == 2000 && sums[999] == 2000);
    free(big), free(sums);
    netc_session_free(s);
    netc_program_release(p);
}

// The first n points; t has its own number.
static netc_dataset *points_of(netc_context *c, Points *points, int64_t n, int64_t nt)
{
    netc_error *err = NULL;
    netc_dataset *d = NULL;
    netc_tensor x = floats(points->x, 2, n, 3), t = floats(points->t, 1, nt, 0);
    FINE(netc_dataset_create(c, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &x, &err));
    if (nt) FINE(netc_dataset_add_array(d, "t", &t, &err));
    return d;
}

// The step is finished, the state saved; resumed, training goes on from there.
static void cancelled(netc_session *s, netc_train_options *to, Hooks *h)
{
    netc_error *err = NULL;
    to->steps = 1000000;
    to->report_every = 5;
    to->save = file("cancel.safetensors");
    to->event = on_event;
    to->user = h;
    h->cancel_at = 20;
    REFUSED(NETC_CANCELLED, "stopped after step", netc_train(s, to, &err));
    CHECK(h->starts == 1 && h->ends == 1 && h->saw_total && h->step >= 20 && h->step < 1000000);
    CHECK(!access(file("cancel.safetensors"), R_OK));
    h->cancel_at = 0;
    to->resume = to->save;
    to->steps = h->step + 10;
    int64_t from = h->step;
    FINE(netc_train(s, to, &err));
    CHECK(h->step == from + 10);
}

// An evaluation ends when it is told to, that of the last step too, and leaves nothing to the next.
static void evaluation_stopped(netc_session *s, netc_dataset *d, Hooks *h)
{
    netc_error *err = NULL;
    netc_metric *m = NULL, *again = NULL;
    int n = 0;
    NETC_INIT(netc_train_options, to);
    to.data = to.eval_data = d;
    to.steps = h->cancel_at = 20;
    to.save = file("stopped.safetensors");
    to.event = on_event;
    to.user = h;
    h->step = 0;
    REFUSED(NETC_CANCELLED, "stopped after step 20 of 20; saved to", netc_train(s, &to, &err));
    CHECK(!access(to.save, R_OK));
    REFUSED(NETC_CANCELLED, "evaluation was stopped", netc_evaluate(s, d, &m, &n, &err));
    h->cancel_at = 0;
    FINE(netc_evaluate(s, d, &m, &n, &err));
    FINE(netc_evaluate(s, d, &again, &n, &err));
    CHECK(n == 1 && m[0].value == again[0].value);
    netc_free(m);
    netc_free(again);
}

// The last partial batch is evaluated as a smaller one: 40 = 8 * 5; 37 leaves 5.
static void partial_batch(netc_context *c, netc_session *s, Points *points)
{
    netc_error *err = NULL;
    netc_dataset *few = points_of(c, points, 37, 37);
    netc_metric *m = NULL;
    int n = 0;
    FINE(netc_evaluate(s, few, &m, &n, &err));
    CHECK(n == 1 && !strcmp(m[0].name, "loss"));
    float w[3], b;
    netc_tensor tw = floats(w, 2, 1, 3), tbias = floats(&b, 1, 1, 0);
    FINE(netc_state_read(s, "fc.weight", &tw, &err));
    FINE(netc_state_read(s, "fc.bias", &tbias, &err));
    double want = 0;
    for (int i = 0; i < 37; i++) {
        const float *x = points->x[i];
        double e = x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + b - points->t[i];
        want += e * e / 37;
    }
    CHECK_MSG(n == 1 && fabs(m[0].value - want) <= 1e-5 * want + 1e-12, "%g, wanted %g", m[0].value,
              want);
    netc_free(m);
    netc_dataset_free(few);
}

static void data_that_do_not_fit(netc_context *c, netc_session *s, Points *points)
{
    netc_error *err = NULL;
    netc_dataset *one = points_of(c, points, 37, 0), *uneven = points_of(c, points, 37, 40);
    NETC_INIT(netc_train_options, to);
    to.data = one;
    REFUSED(NETC_INVALID, "'t'", netc_train(s, &to, &err));
    to.data = uneven;
    REFUSED(NETC_INVALID, "37", netc_train(s, &to, &err));
    to.data = NULL;
    REFUSED(NETC_INVALID, "data", netc_train(s, &to, &err));
    netc_dataset_free(one);
    netc_dataset_free(uneven);
}

static void training(void)
{
    static Points points;
    Hooks h = {0};
    netc_error *err = NULL;
    netc_context *c = hooked(&h);
    netc_program *p = NULL;
    netc_session *s = NULL;
    draw(&points);
    netc_dataset *d = points_of(c, &points, 40, 40);
    FINE(netc_compile_text(c, "line.net", model, NULL, &p, &err));
    FINE(netc_session_create(p, "cpu", NULL, &s, &err));
    NETC_INIT(netc_train_options, to);
    to.data = d;
    cancelled(s, &to, &h);
    evaluation_stopped(s, d, &h);
    partial_batch(c, s, &points);
    data_that_do_not_fit(c, s, &points);
    netc_dataset_free(d);
    netc_session_free(s);
    netc_program_release(p);
    netc_context_free(c);
}

int main(void)
{
    void (*const tests[])(void) = {used_files, lost_dump, own_threads, training,
                                   allocator,  prepared,  NULL};
    return api_main(tests);
}
