// The public interface as a program that embeds netc uses it: every call, and what it does with
// mistakes. Everything runs on the CPU.
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/api.h"

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
    REFUSED(NETC_INVALID, "no entry 'nowhere'; there are ",
            netc_output_info(p, "nowhere", 0, &port, &err));
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
    bad = floats(points.x, 2, 5, 3);
    REFUSED(NETC_INVALID, "f32[5, 3]; compile it with batch=5 for this batch",
            netc_bind(s, "line", "x", &bad, &err));
    bad = (netc_tensor){.dtype = NETC_F64, .rank = 2, .dim = {8, 3}, .data = points.x};
    REFUSED(NETC_INVALID, "f64[8, 3]", netc_bind(s, "line", "x", &bad, &err));
    bad = (netc_tensor){
        .dtype = NETC_F32, .rank = 2, .dim = {8, 3}, .data = points.x, .on_device = true};
    REFUSED(NETC_INVALID, "CPU", netc_bind(s, "line", "x", &bad, &err));
    bad = (netc_tensor){.dtype = NETC_F32, .rank = 99, .data = points.x};
    REFUSED(NETC_INVALID, "rank 99", netc_bind(s, "line", "x", &bad, &err));
    REFUSED(NETC_INVALID, "did you mean 'line'", netc_bind(s, "lin", "x", &t, &err));
    REFUSED(NETC_INVALID, "no input 'q'", netc_bind(s, "line", "q", &t, &err));
    float y[8], w[3], b;
    netc_tensor ty = floats(y, 1, 8, 0), tw = floats(w, 2, 1, 3), tb = floats(&b, 1, 1, 0);
    REFUSED(NETC_INVALID, "cannot be run -1 times", netc_run(s, "line", -1, &err));
    REFUSED(NETC_INVALID, "has not been run yet", netc_read(s, "line", "y", &ty, &err));
    FINE(netc_run(s, "line", 1, &err));
    FINE(netc_sync(s, &err));
    float loss = loss_of(s, "line"), sum = 0;
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
    REFUSED(NETC_INVALID, "no output 'z'; there are '", netc_read(s, "line", "z", &ty, &err));
    ty = floats(NULL, 1, 8, 0);
    REFUSED(NETC_INVALID, "'y' has no data", netc_read(s, "line", "y", &ty, &err));
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
    REFUSED(NETC_INVALID, "no output 'q'; there are '",
            netc_read_dlpack(s, "line", "q", &out, &err));
    FINE(netc_bind(s, "line", "x", &x, &err)); // unbinds the DLPack tensor
    CHECK(deleted == 1);
    FINE(netc_bind_dlpack(s, "line", "x", &m, &err));
    FINE(netc_bind_dlpack(s, "line", "x", &m, &err)); // the same one again: nothing happens
    CHECK(deleted == 1);
    FINE(netc_bind_dlpack(s, "train", "x", &m, &err)); // to a second entry, too
    FINE(netc_bind(s, "line", "x", &x, &err));
    CHECK(deleted == 1);
    FINE(netc_bind_dlpack(s, "line", "x", &m, &err));
    netc_session_free(s);
    CHECK(deleted == 2);
    netc_program_release(p);

    // An input that the requested outputs do not need is not kept. A scalar may have no shape.
    static const char *const outputs[] = {"y"};
    NETC_INIT(netc_compile_options, o);
    o.outputs_of = "m";
    o.outputs = outputs;
    o.noutputs = 1;
    FINE(netc_compile_text(ctx, "scalar.net",
                           "model m(a: f32[], x: f32[8, 3]) { return y = a * 2, z = sum(x) }\n", &o,
                           &p, &err));
    s = opened(p, 0, NULL);
    FINE(netc_bind_dlpack(s, "m", "x", &m, &err));
    CHECK(deleted == 3);
    float a = 4, twice = 0;
    DlManaged scalar = {{&a, 1, 0, 0, 2, 32, 1, NULL, NULL, 0}, &deleted, count_deletion};
    netc_tensor ta = floats(&twice, 0, 0, 0);
    FINE(netc_bind_dlpack(s, "m", "a", &scalar, &err));
    FINE(netc_run(s, "m", 1, &err));
    FINE(netc_read(s, "m", "y", &ta, &err));
    CHECK(twice == 8);
    netc_session_free(s);
    CHECK(deleted == 4);
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
    NETC_INIT(netc_inspect_options, io);
    io.target = "cpu", io.json = true;
    FINE(netc_inspect(p, &io, &text, &err));
    CHECK(text && text[0] == '{');
    netc_free(text), text = NULL;
    io.other = p;
    FINE(netc_inspect(p, &io, &text, &err));
    CHECK(text && strstr(text, "\"changed\":0,\"rescheduled\":0") && !strstr(text, "\"same\":0"));
    netc_free(text), text = NULL;
    netc_session *s = opened(p, 0, NULL);
    netc_profile_result *profile = NULL;
    NETC_INIT(netc_time_options, timing);
    timing.repeats = 3, timing.steps = 4;
    FINE(netc_profile(s, "train", &timing, &profile, &err));
    CHECK(profile && profile->nsteps > 0 && profile->steps[0].seconds >= 0);
    CHECK(profile && profile->whole.steps == 4 && profile->whole.repeats == 3);
    netc_free(profile);
    netc_times times;
    FINE(netc_time(s, "train", &timing, &times, &err));
    CHECK(times.low <= times.median && times.median <= times.high && times.median > 0);
    timing.steps = -1;
    REFUSED(NETC_INVALID, "steps must be 0", netc_time(s, "train", &timing, &times, &err));
    REFUSED(NETC_INVALID, "did you mean 'train'", netc_time(s, "tran", NULL, &times, &err));
    netc_memory memory;
    FINE(netc_session_memory(s, "train", &memory, &err));
    CHECK(memory.parameters > 0);
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

// States that begin as functions of others follow what was loaded or carried over, unless that
// brought them; nobody is offered the entries that compute them.
static void derived(void)
{
    static const char text[] =
        "use nn\n"
        "dim batch = 8\n"
        "model line(x: f32[batch, 3], t: f32[batch]) {\n"
        "    y = reshape(linear(x, 1) as fc, [batch])\n"
        "    state slow: f32[1, 3] = fc.weight\n"
        "    state twice: f32[1, 3] = 2 * slow\n"
        "    return loss = mean((y - t) * (y - t)) + sum(slow - slow) + sum(twice - twice)\n"
        "}\n";
    netc_program *plain = compiled(model), *p = compiled(text);
    netc_session *from = opened(plain, 1, NULL), *s = opened(p, 2, NULL), *t = opened(p, 3, NULL);
    netc_error *err = NULL;
    float w[3], slow[3], twice[3], given[3] = {5, 6, 7};
    netc_tensor tw = floats(w, 2, 1, 3), ts = floats(slow, 2, 1, 3), tt = floats(twice, 2, 1, 3),
                tg = floats(given, 2, 1, 3);
    CHECK(netc_entry_count(p) == 2 && !netc_entry_name(p, 2));
    FINE(netc_state_read(from, "fc.weight", &tw, &err));
    FINE(netc_state_save(from, file("plain.safetensors"), &err));
    for (int way = 0; way < 2; way++) {
        netc_session *to = way ? t : s;
        FINE(way ? netc_state_load(to, file("plain.safetensors"), NULL, &err)
                 : netc_adopt(to, from, NULL, &err));
        FINE(netc_state_read(to, "slow", &ts, &err));
        FINE(netc_state_read(to, "twice", &tt, &err));
        CHECK(!memcmp(w, slow, sizeof w) && twice[0] == 2 * w[0] && twice[2] == 2 * w[2]);
    }
    FINE(netc_state_write(s, "slow", &tg, &err));
    FINE(netc_adopt(t, s, NULL, &err));
    FINE(netc_state_read(t, "slow", &ts, &err));
    FINE(netc_state_read(t, "twice", &tt, &err));
    CHECK(!memcmp(given, slow, sizeof given) && twice[1] == 2 * w[1]);
    netc_session_free(t);
    netc_session_free(s);
    netc_session_free(from);
    netc_program_release(p);
    netc_program_release(plain);
}

// "train" takes an input that only an initial value reads, until that has been computed.
static void first_batch(void)
{
    static const char *const text =
        "use nn\nuse optim\ndim batch = 8\n"
        "model line(x: f32[batch, 3], start: f32[batch, 3]) {\n"
        "    state center: f32[3] = mean(start, 0)\n"
        "    return loss = mean(square(linear(x - center, 1) as fc))\n}\n"
        "train line {\n    accumulate 2\n    minimize loss\n    update sgd(lr = 0.1)\n}\n";
    netc_program *p = compiled(text);
    netc_session *s = opened(p, 0, NULL);
    netc_error *err = NULL;
    netc_port port;
    float x[16][3], start[16][3], center[3], want[3] = {0};
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 3; k++) {
            x[i][k] = (float)(i - k) / 8, start[i][k] = (float)(i * k);
            if (i < 8) want[k] += start[i][k] / 8; // of the first micro-batch
        }
    CHECK(netc_input_count(p, "train") == 1 && !netc_first_input(p, 1, &port));
    CHECK(netc_first_input(p, 0, &port) && !strcmp(port.name, "start") && port.dim[0] == 16);
    netc_tensor tx = floats(x, 2, 16, 3), ts = floats(start, 2, 16, 3),
                few = floats(start, 2, 8, 3), tc = floats(center, 1, 3, 0);
    FINE(netc_bind(s, "train", "x", &tx, &err));
    REFUSED(NETC_INVALID, "f32[16, 3]", netc_bind(s, "train", "start", &few, &err));
    FINE(netc_bind(s, "train", "start", &ts, &err));
    FINE(netc_bind(s, "train", "start", NULL, &err));
    REFUSED(NETC_INVALID, "input 'start' of 'train' has no value", netc_run(s, "train", 1, &err));
    FINE(netc_bind(s, "train", "start", &ts, &err));
    FINE(netc_run(s, "train", 1, &err));
    FINE(netc_bind(s, "train", "start", NULL, &err));
    FINE(netc_run(s, "train", 1, &err));
    FINE(netc_state_read(s, "center", &tc, &err));
    for (int k = 0; k < 3; k++) CHECK(fabsf(center[k] - want[k]) < 1e-5f);
    netc_session_free(s);
    netc_program_release(p);
}

int main(void)
{
    void (*const tests[])(void) = {compile_errors, ports,       run_and_read, state, sharing,
                                   threads,        no_spawn,    dlpack,       tools, failing_step,
                                   derived,        first_batch, NULL};
    return api_main(tests);
}
