// The public interface as a program that embeds netc uses it: every call, and what it does with
// mistakes. Everything runs on the CPU.
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/netc.h"
#include "tests/unit/unit.h"

static const char model[] = "use nn\n"
                            "use optim\n"
                            "dim batch = 8\n"
                            "setting rate = 0.1\n"
                            "model line(x: f32[batch, 3], t: f32[batch]) {\n"
                            "    y = reshape(linear(x, 1) as fc, [batch])\n"
                            "    return loss = mean((y - t) * (y - t)), y\n"
                            "}\n"
                            "train line {\n"
                            "    minimize loss\n"
                            "    update sgd(lr = rate, momentum = 0.9)\n"
                            "}\n";

static netc_context *ctx;
static char dir[64];

static const char *file(const char *name)
{
    static char path[8][128];
    static int turn;
    char *out = path[turn++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", dir, name);
    return out;
}

// The call succeeded; its error is printed when not.
static bool fine(netc_status status, netc_error **err)
{
    if (status != NETC_OK) printf("unexpected: %s\n", netc_error_text(*err));
    netc_error_free(*err);
    *err = NULL;
    return status == NETC_OK;
}

// The call failed with this status and its text holds these words.
static bool refused(netc_status status, netc_status wanted, netc_error **err, const char *words)
{
    const char *text = netc_error_text(*err), *json = netc_error_json(*err);
    bool ok = status == wanted && *err && netc_error_status(*err) == wanted &&
              strstr(text, words) && json[0] == '[' && strstr(json, "\"message\"") &&
              *netc_error_colored(*err);
    if (!ok) printf("status %d, wanted %d with '%s': %s\n", (int)status, (int)wanted, words, text);
    netc_error_free(*err);
    *err = NULL;
    return ok;
}

#define FINE(call)                   CHECK(fine((call), &err))
#define REFUSED(status, words, call) CHECK(refused((call), (status), &err, (words)))

static netc_program *compiled(const char *text)
{
    netc_program *p = NULL;
    netc_error *err = NULL;
    FINE(netc_compile_text(ctx, "line.net", text, NULL, &p, &err));
    return p;
}

static netc_session *opened(netc_program *p, int64_t seed, netc_session *share)
{
    NETC_INIT(netc_session_options, o);
    netc_session *s = NULL;
    netc_error *err = NULL;
    o.seed = seed;
    o.share = share;
    FINE(netc_session_create(p, "cpu", &o, &s, &err));
    return s;
}

typedef struct Points { // y = 1 x0 + 2 x1 - 3 x2 + 0.5
    float x[40][3], t[40];
} Points;

static void draw(Points *p)
{
    unsigned state = 7;
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 3; k++)
            p->x[i][k] = (float)((state = state * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1;
        p->t[i] = p->x[i][0] + 2 * p->x[i][1] - 3 * p->x[i][2] + 0.5f;
    }
}

static netc_tensor floats(void *data, int rank, int64_t a, int64_t b)
{
    return (netc_tensor){.dtype = NETC_F32, .rank = rank, .dim = {a, b}, .data = data};
}

static void bind_points(netc_session *s, const char *entry, Points *p)
{
    netc_error *err = NULL;
    netc_tensor x = floats(p->x, 2, 8, 3), t = floats(p->t, 1, 8, 0);
    FINE(netc_bind(s, entry, "x", &x, &err));
    FINE(netc_bind(s, entry, "t", &t, &err));
}

static float loss_of(netc_session *s, const char *entry)
{
    float loss = -1;
    netc_error *err = NULL;
    netc_tensor t = floats(&loss, 0, 0, 0);
    FINE(netc_read(s, entry, "loss", &t, &err));
    return loss;
}

static void compile_errors(void)
{
    netc_program *p = NULL;
    netc_error *err = NULL;
    netc_status status = netc_compile_text(
        ctx, "bad.net",
        "use nn\nmodel m(x: f32[4, 8]) {\n    y = linaer(x, 3) as fc\n    z = x + zz\n"
        "    return y, z\n}\n",
        NULL, &p, &err);
    CHECK(status == NETC_INVALID && !p && netc_error_status(err) == NETC_INVALID);
    CHECK(strstr(netc_error_text(err), "bad.net:3:") &&
          strstr(netc_error_text(err), "did you mean 'linear'"));
    CHECK(strstr(netc_error_text(err), "bad.net:4:"));
    CHECK(!strstr(netc_error_text(err), "\033[") && strstr(netc_error_colored(err), "\033["));
    CHECK(strstr(netc_error_json(err), "\"line\":3"));
    // The first error wins.
    char *before = strdup(netc_error_text(err));
    CHECK(netc_compile_text(ctx, "worse.net", "model", NULL, &p, &err) == NETC_INVALID);
    CHECK(!strcmp(before, netc_error_text(err)));
    free(before);
    netc_error_free(err);
    err = NULL;
    CHECK(netc_compile_text(ctx, "bad.net", "model", NULL, &p, NULL) ==
          NETC_INVALID); // no error wanted
    REFUSED(NETC_INVALID, "nowhere.net", netc_compile_file(ctx, "nowhere.net", NULL, &p, &err));
    REFUSED(NETC_INVALID, "empty.net", netc_compile_text(ctx, "empty.net", "", NULL, &p, &err));
    NETC_INIT(netc_compile_options, o);
    o.precision = "f8";
    REFUSED(NETC_INVALID, "f8", netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.precision = NULL;
    o.target = "tpu";
    REFUSED(NETC_INVALID, "tpu", netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.target = NULL;
    const char *define = "batsh=4";
    o.defines = &define;
    o.ndefines = 1;
    REFUSED(NETC_INVALID, "did you mean", netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    CHECK(netc_error_status(NULL) == NETC_OK && !*netc_error_text(NULL) &&
          !strcmp(netc_error_json(NULL), "[]"));
    netc_error_free(NULL), netc_session_free(NULL), netc_program_release(NULL),
        netc_context_free(NULL);
}

static void ports(void)
{
    netc_program *p = compiled(model);
    netc_error *err = NULL;
    netc_port port;
    bool line = false, train = false;
    for (int i = 0; i < netc_entry_count(p); i++) {
        line = line || !strcmp(netc_entry_name(p, i), "line");
        train = train || !strcmp(netc_entry_name(p, i), "train");
    }
    CHECK(line && train && !netc_entry_name(p, 99) && !netc_entry_name(p, -1));
    CHECK(netc_input_count(p, "line") == 2 && netc_output_count(p, "line") == 2);
    CHECK(netc_input_count(p, "nowhere") == -1 && netc_output_count(p, "nowhere") == -1);
    FINE(netc_input_info(p, "line", 0, &port, &err));
    CHECK(!strcmp(port.name, "x") && port.dtype == NETC_F32 && port.rank == 2 && port.dim[0] == 8 &&
          port.dim[1] == 3);
    FINE(netc_output_info(p, "line", 1, &port, &err));
    CHECK(!strcmp(port.name, "y") && port.rank == 1 && port.dim[0] == 8);
    REFUSED(NETC_INVALID, "2 inputs", netc_input_info(p, "line", 2, &port, &err));
    REFUSED(NETC_INVALID, "nowhere", netc_output_info(p, "nowhere", 0, &port, &err));
    NETC_INIT(netc_compile_options, o);
    const char *define = "batch=5";
    netc_program *small = NULL;
    o.defines = &define;
    o.ndefines = 1;
    FINE(netc_compile_text(ctx, "line.net", model, &o, &small, &err));
    FINE(netc_input_info(small, "train", 0, &port, &err));
    CHECK(port.dim[0] == 5 && port.data);
    netc_program_release(small);
    netc_program_release(p);
}

static void run_and_read(void)
{
    netc_program *p = compiled(model);
    netc_session *s = opened(p, 0, NULL);
    netc_program_release(p); // the session keeps it
    netc_error *err = NULL;
    Points points;
    draw(&points);
    CHECK(!strncmp(netc_session_device(s), "cpu", 3));
    REFUSED(NETC_INVALID, "has no value", netc_run(s, "line", 1, &err));
    bind_points(s, "line", &points);
    netc_tensor bad = floats(points.x, 2, 8, 4), t = floats(points.t, 1, 8, 0);
    REFUSED(NETC_INVALID, "f32[8, 3]", netc_bind(s, "line", "x", &bad, &err));
    bad = (netc_tensor){.dtype = NETC_F64, .rank = 2, .dim = {8, 3}, .data = points.x};
    REFUSED(NETC_INVALID, "f64[8, 3]", netc_bind(s, "line", "x", &bad, &err));
    bad = (netc_tensor){
        .dtype = NETC_F32, .rank = 2, .dim = {8, 3}, .data = points.x, .on_device = true};
    REFUSED(NETC_INVALID, "CPU", netc_bind(s, "line", "x", &bad, &err));
    bad = (netc_tensor){.dtype = NETC_F32, .rank = 99, .data = points.x};
    REFUSED(NETC_INVALID, "rank 99", netc_bind(s, "line", "x", &bad, &err));
    REFUSED(NETC_INVALID, "did you mean 'line'", netc_bind(s, "lin", "x", &t, &err));
    REFUSED(NETC_INVALID, "no input 'q'", netc_bind(s, "line", "q", &t, &err));
    FINE(netc_run(s, "line", 1, &err));
    FINE(netc_sync(s, &err));
    float y[8], w[3], b, loss = loss_of(s, "line"), sum = 0;
    netc_tensor ty = floats(y, 1, 8, 0), tw = floats(w, 2, 1, 3), tb = floats(&b, 1, 1, 0);
    FINE(netc_read(s, "line", "y", &ty, &err));
    FINE(netc_state_read(s, "fc.weight", &tw, &err));
    FINE(netc_state_read(s, "fc.bias", &tb, &err));
    for (int i = 0; i < 8; i++) {
        float e = points.x[i][0] * w[0] + points.x[i][1] * w[1] + points.x[i][2] * w[2] + b;
        CHECK(fabsf(e - y[i]) < 1e-5f);
        sum += (y[i] - points.t[i]) * (y[i] - points.t[i]) / 8;
    }
    CHECK(fabsf(sum - loss) < 1e-5f);
    ty = floats(y, 1, 7, 0);
    REFUSED(NETC_INVALID, "f32[8]", netc_read(s, "line", "y", &ty, &err));
    REFUSED(NETC_INVALID, "no output", netc_read(s, "line", "z", &ty, &err));
    // Binding again reads the other array.
    netc_tensor other = floats(points.x[8], 2, 8, 3);
    FINE(netc_bind(s, "line", "x", &other, &err));
    FINE(netc_run(s, "line", 1, &err));
    CHECK(loss_of(s, "line") != loss);

    bind_points(s, "train", &points);
    FINE(netc_run(s, "train", 200, &err));
    CHECK(loss_of(s, "train") < 1e-3f);
    // Settings, without compiling anything again.
    double rate = 0;
    FINE(netc_get(s, "rate", &rate, &err));
    CHECK(fabs(rate - 0.1) < 1e-6);
    FINE(netc_set(s, "rate", 0, &err));
    FINE(netc_get(s, "rate", &rate, &err));
    CHECK(rate == 0);
    float w0[3], w1[3];
    netc_tensor t0 = floats(w0, 2, 1, 3), t1 = floats(w1, 2, 1, 3);
    FINE(netc_state_read(s, "fc.weight", &t0, &err));
    FINE(netc_run(s, "train", 3, &err));
    FINE(netc_state_read(s, "fc.weight", &t1, &err));
    CHECK(!memcmp(w0, w1, sizeof w0));
    REFUSED(NETC_INVALID, "did you mean 'rate'", netc_set(s, "rat", 1, &err));
    REFUSED(NETC_INVALID, "no setting", netc_get(s, "fc.weight", &rate, &err));
    netc_session_free(s);
}

static void state(void)
{
    netc_program *p = compiled(model);
    netc_session *s = opened(p, 1, NULL), *fresh = opened(p, 2, NULL);
    netc_error *err = NULL;
    float w[3] = {1, 2, -3}, v[3];
    netc_tensor t = floats(w, 2, 1, 3), tv = floats(v, 2, 1, 3), bad = floats(w, 2, 3, 1);
    bool weight = false;
    netc_port port;
    for (int i = 0; i < netc_state_count(s); i++) {
        FINE(netc_state_info(s, i, &port, &err));
        weight = weight || (!strcmp(port.name, "fc.weight") && port.rank == 2 && port.dim[1] == 3);
    }
    CHECK(weight);
    REFUSED(NETC_INVALID, "99", netc_state_info(s, 99, &port, &err));
    REFUSED(NETC_INVALID, "-1", netc_state_info(s, -1, &port, &err));
    FINE(netc_state_write(s, "fc.weight", &t, &err));
    FINE(netc_state_read(s, "fc.weight", &tv, &err));
    CHECK(!memcmp(w, v, sizeof w));
    REFUSED(NETC_INVALID, "f32[1, 3]", netc_state_write(s, "fc.weight", &bad, &err));
    REFUSED(NETC_INVALID, "did you mean 'fc.weight'", netc_state_read(s, "fc.wieght", &tv, &err));

    FINE(netc_state_save(s, file("a.safetensors"), &err));
    FINE(netc_state_load(fresh, file("a.safetensors"), NULL, &err));
    FINE(netc_state_read(fresh, "fc.weight", &tv, &err));
    CHECK(!memcmp(w, v, sizeof w));
    REFUSED(NETC_INVALID, "nowhere", netc_state_save(s, "/proc/nowhere/a.safetensors", &err));
    REFUSED(NETC_INVALID, "missing.safetensors",
            netc_state_load(s, file("missing.safetensors"), NULL, &err));

    // Another model's checkpoint changes nothing; every difference is listed.
    netc_program *other =
        compiled("use nn\nuse optim\ndim batch = 8\nmodel line(x: f32[batch, 3], t: f32[batch]) {\n"
                 "    y = reshape(linear(x, 1) as head, [batch])\n"
                 "    return loss = mean((y - t) * (y - t)), y\n}\n");
    netc_session *o = opened(other, 3, NULL);
    float before[3], after[3];
    netc_tensor t0 = floats(before, 2, 1, 3), t1 = floats(after, 2, 1, 3);
    FINE(netc_state_read(o, "head.weight", &t0, &err));
    REFUSED(NETC_INVALID, "head.bias", netc_state_load(o, file("a.safetensors"), NULL, &err));
    FINE(netc_state_read(o, "head.weight", &t1, &err));
    CHECK(!memcmp(before, after, sizeof before));
    // Renamed on the way in it fits.
    NETC_INIT(netc_load_options, lo);
    const char *map = "fc.*=head.*";
    lo.map = &map;
    lo.nmap = 1;
    lo.weights_only = true;
    FINE(netc_state_load(o, file("a.safetensors"), &lo, &err));
    FINE(netc_state_read(o, "head.weight", &t1, &err));
    CHECK(!memcmp(w, after, sizeof w));
    map = "fc.weight=head.weight";
    REFUSED(NETC_INVALID, "head.bias", netc_state_load(o, file("a.safetensors"), &lo, &err));
    lo.allow_missing = true;
    FINE(netc_state_write(o, "head.weight", &t0, &err));
    FINE(netc_state_load(o, file("a.safetensors"), &lo, &err));
    FINE(netc_state_read(o, "head.weight", &t1, &err));
    CHECK(!memcmp(w, after, sizeof w));
    map = "nonsense";
    REFUSED(NETC_INVALID, "nonsense", netc_state_load(o, file("a.safetensors"), &lo, &err));

    // Hot reloading: same names and types are carried over.
    int carried = -1;
    netc_session *young = opened(p, 9, NULL);
    FINE(netc_adopt(young, s, &carried, &err));
    FINE(netc_state_read(young, "fc.weight", &tv, &err));
    CHECK(!memcmp(w, v, sizeof w) && carried >= 2);
    FINE(netc_adopt(o, s, &carried, &err));
    CHECK(carried == 0);
    netc_session_free(young);
    netc_session_free(o);
    netc_session_free(fresh);
    netc_session_free(s);
    netc_program_release(other);
    netc_program_release(p);
}

static void sharing(void)
{
    netc_program *p = compiled(model);
    netc_session *a = opened(p, 1, NULL), *b = opened(p, 2, a);
    netc_error *err = NULL;
    Points points;
    draw(&points);
    bind_points(a, "train", &points);
    bind_points(b, "line", &points);
    FINE(netc_run(a, "train", 200, &err));
    FINE(netc_sync(a, &err));
    FINE(netc_run(b, "line", 1, &err));
    CHECK(loss_of(b, "line") < 1e-3f);
    netc_session_free(a); // the parameters live on in b
    FINE(netc_run(b, "line", 1, &err));
    CHECK(loss_of(b, "line") < 1e-3f);
    netc_session_free(b);
    netc_program_release(p);
}

typedef struct Worker {
    netc_program *p;
    float w[3];
    bool ok;
} Worker;

static void *work(void *arg)
{
    Worker *k = arg;
    netc_session *s = NULL;
    netc_error *err = NULL;
    Points points;
    draw(&points);
    netc_tensor x = floats(points.x, 2, 8, 3), t = floats(points.t, 1, 8, 0),
                w = floats(k->w, 2, 1, 3);
    k->ok = !netc_session_create(k->p, "cpu", NULL, &s, &err) &&
            !netc_bind(s, "train", "x", &x, &err) && !netc_bind(s, "train", "t", &t, &err) &&
            !netc_run(s, "train", 50, &err) && !netc_state_read(s, "fc.weight", &w, &err);
    if (err) printf("a thread: %s\n", netc_error_text(err));
    netc_error_free(err);
    netc_session_free(s);
    return NULL;
}

static void threads(void)
{
    Worker k[4];
    pthread_t t[4];
    netc_program *p = compiled(model);
    for (int i = 0; i < 4; i++) {
        k[i] = (Worker){.p = p};
        CHECK(!pthread_create(&t[i], NULL, work, &k[i]));
    }
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 4; i++) CHECK(k[i].ok && !memcmp(k[i].w, k[0].w, sizeof k[0].w));
    netc_program_release(p);
}

typedef struct Hooks {
    int resolved, lines, events, starts, ends, pieces;
    int64_t cancel_at, step;
    bool saw_total;
} Hooks;

static char *resolve(void *user, const char *from, const char *name, size_t *length)
{
    static const char text[] = "fn twice(x) {\n    return 2 * x\n}\n";
    Hooks *h = user;
    h->resolved += !strcmp(from, "main.net");
    if (strcmp(name, "double.net")) return NULL;
    *length = sizeof text - 1;
    return strdup(text);
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

static void hooks(void)
{
    Hooks h = {0};
    netc_error *err = NULL;
    netc_context *c = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    NETC_INIT(netc_context_options, o);
    o.cache_dir = file("cache");
    o.resolve = resolve;
    o.log = note;
    o.cancel = cancel;
    o.user = &h;
    FINE(netc_context_create(&o, &c, &err));
    FINE(netc_compile_text(c, "main.net",
                           "use \"double.net\"\nmodel m(x: f32[4]) {\n    return y = twice(x)\n}\n",
                           NULL, &p, &err));
    CHECK(h.resolved > 0);
    NETC_INIT(netc_session_options, so);
    so.parallel_for = in_pieces;
    so.parallel_user = &h;
    FINE(netc_session_create(p, "cpu", &so, &s, &err));
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    netc_tensor tx = floats(x, 1, 4, 0), ty = floats(y, 1, 4, 0);
    FINE(netc_bind(s, "m", "x", &tx, &err));
    FINE(netc_run(s, "m", 1, &err));
    FINE(netc_read(s, "m", "y", &ty, &err));
    CHECK(y[0] == 2 && y[3] == 8);
    netc_session_free(s);
    netc_program_release(p);
    REFUSED(NETC_INVALID, "other.net",
            netc_compile_text(c, "main.net",
                              "use \"other.net\"\nmodel m(x: f32[4]) {\n    "
                              "return y = x\n}\n",
                              NULL, &p, &err));

    // A program with enough work is spread over the host's own threads.
    h.pieces = 0;
    FINE(netc_compile_text(c, "wide.net",
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

    // Cancelled in training: the step is finished, the state saved.
    static Points points;
    draw(&points);
    netc_dataset *d = NULL;
    netc_tensor all = floats(points.x, 2, 40, 3), targets = floats(points.t, 1, 40, 0);
    FINE(netc_dataset_create(c, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &all, &err));
    FINE(netc_dataset_add_array(d, "t", &targets, &err));
    FINE(netc_compile_text(c, "line.net", model, NULL, &p, &err));
    FINE(netc_session_create(p, "cpu", NULL, &s, &err));
    NETC_INIT(netc_train_options, to);
    to.data = d;
    to.steps = 1000000;
    to.report_every = 5;
    to.save = file("cancel.safetensors");
    to.event = on_event;
    to.user = &h;
    h.cancel_at = 20;
    REFUSED(NETC_CANCELLED, "stopped after step", netc_train(s, &to, &err));
    CHECK(h.starts == 1 && h.ends == 1 && h.saw_total && h.step >= 20 && h.step < 1000000);
    CHECK(!access(file("cancel.safetensors"), R_OK));
    h.cancel_at = 0;
    to.resume = to.save;
    to.steps = h.step + 10;
    int64_t from = h.step;
    FINE(netc_train(s, &to, &err));
    CHECK(h.step == from + 10);

    // The last partial batch is evaluated as a smaller one: 40 = 8 * 5; 37 leaves 5.
    netc_dataset *few = NULL;
    netc_tensor x37 = floats(points.x, 2, 37, 3), t37 = floats(points.t, 1, 37, 0);
    FINE(netc_dataset_create(c, &few, &err));
    FINE(netc_dataset_add_array(few, "x", &x37, &err));
    FINE(netc_dataset_add_array(few, "t", &t37, &err));
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
        double e =
            points.x[i][0] * w[0] + points.x[i][1] * w[1] + points.x[i][2] * w[2] + b - points.t[i];
        want += e * e / 37;
    }
    CHECK_MSG(n == 1 && fabs(m[0].value - want) <= 1e-5 * want + 1e-12, "%g, wanted %g", m[0].value,
              want);
    netc_free(m);
    netc_dataset_free(few);

    // Data that do not fit the model.
    FINE(netc_dataset_create(c, &few, &err));
    FINE(netc_dataset_add_array(few, "x", &x37, &err));
    to.resume = NULL;
    to.save = NULL;
    to.data = few;
    REFUSED(NETC_INVALID, "'t'", netc_train(s, &to, &err));
    FINE(netc_dataset_add_array(few, "t", &targets, &err));
    REFUSED(NETC_INVALID, "37", netc_train(s, &to, &err));
    to.data = NULL;
    REFUSED(NETC_INVALID, "data", netc_train(s, &to, &err));
    netc_dataset_free(few);
    netc_dataset_free(d);
    netc_session_free(s);
    netc_program_release(p);
    netc_context_free(c);
}

static void no_spawn(void)
{
    netc_error *err = NULL;
    netc_context *c = NULL;
    netc_program *p = NULL, *image = NULL;
    netc_session *s = NULL;
    NETC_INIT(netc_context_options, o);
    o.cache_dir = "";
    o.no_spawn = true;
    FINE(netc_context_create(&o, &c, &err));
    FINE(netc_compile_text(c, "line.net", model, NULL, &p, &err));
    REFUSED(NETC_ENVIRONMENT, "compiler", netc_session_create(p, "cpu", NULL, &s, &err));
    netc_program_release(p);

    // A model.bin carries the object: it runs where nothing may be started.
    NETC_INIT(netc_compile_options, co);
    co.target = "cpu";
    FINE(netc_compile_text(ctx, "line.net", model, &co, &p, &err));
    netc_session *weights = opened(p, 5, NULL);
    FINE(netc_program_save(p, file("m.bin"), NULL, weights, &err));
    FINE(netc_compile_file(c, file("m.bin"), NULL, &image, &err));
    FINE(netc_session_create(image, "cpu", NULL, &s, &err));
    float a[3], b[3];
    netc_tensor ta = floats(a, 2, 1, 3), tb = floats(b, 2, 1, 3);
    FINE(netc_state_read(weights, "fc.weight", &ta, &err));
    FINE(netc_state_read(s, "fc.weight", &tb, &err));
    CHECK(!memcmp(a, b, sizeof a));
    Points points;
    draw(&points);
    bind_points(s, "train", &points);
    FINE(netc_run(s, "train", 200, &err));
    CHECK(loss_of(s, "train") < 1e-3f);
    netc_session_free(s);
    netc_session_free(weights);
    netc_program_release(image);
    netc_program_release(p);
    netc_context_free(c);
    p = compiled(model);
    REFUSED(NETC_INVALID, "nowhere", netc_program_save(p, "/proc/nowhere/m.bin", NULL, NULL, &err));
    netc_program_release(p);
}

typedef struct DlTensor { // DLPack 0.8
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DlTensor;
typedef struct DlManaged {
    DlTensor t;
    void *manager;
    void (*deleter)(struct DlManaged *);
} DlManaged;

static void count_deletion(DlManaged *m)
{
    ++*(int *)m->manager;
}

static void dlpack(void)
{
    netc_program *p = compiled(model);
    netc_session *s = opened(p, 0, NULL);
    netc_error *err = NULL;
    Points points;
    draw(&points);
    int64_t shape[2] = {8, 3}, strides[2] = {1, 8}, dense[2] = {3, 1};
    int deleted = 0;
    DlManaged m = {{points.x, 1, 0, 2, 2, 32, 1, shape, strides, 0}, &deleted, count_deletion};
    REFUSED(NETC_INVALID, "(3, 1)", netc_bind_dlpack(s, "line", "x", &m, &err));
    m.t.strides = dense;
    m.t.lanes = 4;
    REFUSED(NETC_INVALID, "lanes", netc_bind_dlpack(s, "line", "x", &m, &err));
    m.t.lanes = 1;
    m.t.device_type = 7;
    REFUSED(NETC_INVALID, "device", netc_bind_dlpack(s, "line", "x", &m, &err));
    m.t.device_type = 1;
    CHECK(!deleted); // a refused tensor stays the caller's
    FINE(netc_bind_dlpack(s, "line", "x", &m, &err));
    netc_tensor t = floats(points.t, 1, 8, 0), x = floats(points.x, 2, 8, 3);
    FINE(netc_bind(s, "line", "t", &t, &err));
    FINE(netc_run(s, "line", 1, &err));
    void *out = NULL;
    FINE(netc_read_dlpack(s, "line", "y", &out, &err));
    DlManaged *y = out;
    float direct[8];
    netc_tensor ty = floats(direct, 1, 8, 0);
    FINE(netc_read(s, "line", "y", &ty, &err));
    CHECK(y && y->t.ndim == 1 && y->t.shape[0] == 8 && y->t.code == 2 && y->t.bits == 32 &&
          y->t.device_type == 1);
    CHECK(y && !memcmp((char *)y->t.data + y->t.byte_offset, direct, sizeof direct));
    if (y) y->deleter(y);
    REFUSED(NETC_INVALID, "no output", netc_read_dlpack(s, "line", "q", &out, &err));
    FINE(netc_bind(s, "line", "x", &x, &err)); // unbinds the DLPack tensor
    CHECK(deleted == 1);
    FINE(netc_bind_dlpack(s, "line", "x", &m, &err));
    FINE(netc_bind_dlpack(s, "line", "x", &m, &err)); // the same one again: nothing happens
    CHECK(deleted == 1);
    netc_session_free(s);
    CHECK(deleted == 2);
    netc_program_release(p);
}

static void tools(void)
{
    netc_program *p = compiled(model);
    netc_error *err = NULL;
    char *text = NULL;
    FINE(netc_check(p, "cpu", 0, &text, &err));
    CHECK(text && strstr(text, "fused") && strstr(text, "fc.weight"));
    netc_free(text), text = NULL;
    FINE(netc_format(ctx, "a.net", "model m( x:f32[4] ){return y=x*2}", &text, &err));
    CHECK(text && strstr(text, "y = x * 2"));
    netc_free(text), text = NULL;
    REFUSED(NETC_INVALID, "a.net:1:", netc_format(ctx, "a.net", "model m(", &text, &err));
    static const char *const stages[] = {"ast", "ir", "grad", "fused", "plan", "cuda", "c", "dot"};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        FINE(netc_program_emit(p, stages[i], &text, &err));
        CHECK_MSG(text && strlen(text) > 100, "%s", stages[i]);
        netc_free(text), text = NULL;
    }
    REFUSED(NETC_INVALID, "did you mean 'plan'", netc_program_emit(p, "plam", &text, &err));
    FINE(netc_program_inspect(p, "cpu", NULL, false, true, &text, &err));
    CHECK(text && text[0] == '{');
    netc_free(text), text = NULL;
    netc_session *s = opened(p, 0, NULL);
    netc_time *times = NULL;
    int n = 0;
    FINE(netc_profile(s, "train", 3, &times, &n, &err));
    CHECK(n > 0 && times[0].seconds >= 0 && times[0].name[0]);
    netc_free(times);
    CHECK(netc_graph_kernels(s, "train") == -1);
    netc_session_free(s);
    netc_program_release(p);

    float values[6] = {1, 2, 3, 4, 5, 6};
    netc_tensor t = floats(values, 2, 2, 3), back = {0};
    FINE(netc_array_write(file("a.npy"), &t, &err));
    FINE(netc_array_read(file("a.npy"), &back, &err));
    CHECK(back.dtype == NETC_F32 && back.rank == 2 && back.dim[0] == 2 && back.dim[1] == 3);
    CHECK(back.data && !memcmp(back.data, values, sizeof values));
    netc_free(back.data);
    REFUSED(NETC_INVALID, "nothing.npy", netc_array_read(file("nothing.npy"), &back, &err));
    CHECK(!strcmp(netc_version(), "0.1.0") && netc_abi() == NETC_ABI);
    CHECK(!strcmp(netc_dtype_name(NETC_BF16), "bf16") && netc_dtype_size(NETC_I64) == 8);
}

// A step that fails a check changes nothing, and the session goes on.
static void failing_step(void)
{
    netc_program *p = compiled("model m(x: f32[4]) {\n    assert all(x > 0), \"x must be "
                               "positive\"\n    return y = log(x)\n}\n");
    netc_error *err = NULL;
    netc_session *s = opened(p, 0, NULL);
    float x[4] = {1, 2, -3, 4}, good[4] = {1, 1, 1, 1};
    netc_tensor t = floats(x, 1, 4, 0), g = floats(good, 1, 4, 0);
    FINE(netc_bind(s, "m", "x", &t, &err));
    netc_status status = netc_run(s, "m", 1, &err);
    if (status == NETC_OK) status = netc_sync(s, &err);
    REFUSED(NETC_CHECK_FAILED, "x must be positive", status);
    FINE(netc_bind(s, "m", "x", &g, &err));
    FINE(netc_run(s, "m", 1, &err));
    FINE(netc_sync(s, &err));
    netc_session_free(s);
    netc_program_release(p);
}

int main(void)
{
    snprintf(dir, sizeof dir, "/tmp/netc_api.XXXXXX");
    if (!mkdtemp(dir)) return perror(dir), 1;
    netc_error *err = NULL;
    FINE(netc_context_create(NULL, &ctx, &err));
    compile_errors();
    ports();
    run_and_read();
    state();
    sharing();
    threads();
    hooks();
    allocator();
    no_spawn();
    dlpack();
    tools();
    failing_step();
    netc_context_free(ctx);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command)) printf("cannot remove %s\n", dir);
    return unit_done();
}
