// Runs that are part of a CUDA graph of the caller's: launched with other contents of the same
// memory, among runs outside of it, beside sessions that run one by one; and what cannot be part
// of one. On the first GPU, which may be the host's shim.
#include "lib/lib.h"
#include "tests/unit/api.h"
#include "tests/unit/driver.h"

static const char text[] =
    "dim n = 4\n"
    "model few(a: f32[n, 5], b: f32[n, 5]) {\n"
    "    return y = a * b + 1, s = sum(a, 1)\n"
    "}\n"
    "model many(a: f32[n, 5], b: f32[n, 5]) {\n"
    "    v = a\n"
    "    for i in 0..12 { v = cumsum(matmul(matmul(v, transpose(b)) / 16, b), 0) }\n"
    "    return y = v, s = sum(v + b, 1)\n"
    "}\n"
    "model large(a: f32[n, 5], b: f32[n, 5]) {\n"
    "    v = matmul(reshape(a, [n * 5, 1]), reshape(b, [1, n * 5]))\n"
    "    for i in 0..3 { v = cumsum(matmul(v, v) / 16, 0) }\n"
    "    return y = a + sum(v), s = sum(b, 1)\n"
    "}\n"
    "model counts(a: f32[n, 5], b: f32[n, 5]) {\n"
    "    state total: f32[n, 5] = 0\n"
    "    total <- total + a\n"
    "    return y = total * b, s = sum(total, 1)\n"
    "}\n"
    "model draws(a: f32[n, 5], b: f32[n, 5]) {\n"
    "    return y = a + uniform([n, 5], 0, 1), s = sum(b, 1) + normal([n], 1)\n"
    "}\n"
    "model never(a: f32[n, 5], b: f32[n, 5]) { return y = a - b, s = sum(a, 1) }\n"
    "model looks(a: f32[n, 5], i: i32[n]) { return y = a[i] }\n"
    "model trusts(a: f32[n, 5], i: i32[n] in 0..4) { return y = a[i] }\n"
    "model ranged(a: f32[n, 5], i: i32[n] in 9..13) { return y = a[i - 9] }\n";

enum { N = 4, ALL = N * 5, BUFFERS = 3, ROUNDS = 60 };

static struct {
    int (*alloc)(unsigned long long *, size_t);
    int (*in)(unsigned long long, const void *, size_t);
    int (*out)(void *, unsigned long long, size_t);
    int (*stream)(void **, unsigned);
    int (*sync)(void *);
    int (*begin)(void *, int);
    int (*end)(void *, void **);
    int (*nodes)(void *, void *, size_t *);
    int (*instantiate)(void **, void *, unsigned long long);
    int (*launch)(void *, void *);
    int (*destroy)(void *);
    int (*drop)(void *);
} cu;
static void *stream; // the caller's

static bool open_driver(void)
{
    void *lib = driver_open();
    if (!lib) return false;
    *(void **)&cu.alloc = dlsym(lib, "cuMemAlloc_v2");
    *(void **)&cu.in = dlsym(lib, "cuMemcpyHtoD_v2");
    *(void **)&cu.out = dlsym(lib, "cuMemcpyDtoH_v2");
    *(void **)&cu.stream = dlsym(lib, "cuStreamCreate");
    *(void **)&cu.sync = dlsym(lib, "cuStreamSynchronize");
    *(void **)&cu.begin = dlsym(lib, "cuStreamBeginCapture_v2");
    *(void **)&cu.end = dlsym(lib, "cuStreamEndCapture");
    *(void **)&cu.nodes = dlsym(lib, "cuGraphGetNodes");
    *(void **)&cu.instantiate = dlsym(lib, "cuGraphInstantiateWithFlags");
    *(void **)&cu.launch = dlsym(lib, "cuGraphLaunch");
    *(void **)&cu.drop = dlsym(lib, "cuGraphDestroy");
    *(void **)&cu.destroy = dlsym(lib, "cuGraphExecDestroy");
    return !cu.stream(&stream, 1);
}

static char *memory(size_t bytes)
{
    unsigned long long at = 0;
    CHECK(!cu.alloc(&at, bytes));
    char *zeros = calloc(1, bytes);
    CHECK(zeros && !cu.in(at, zeros, bytes));
    free(zeros);
    return (char *)(uintptr_t)at;
}

static void put(char *at, const void *from, size_t bytes)
{
    CHECK(!cu.sync(stream) && !cu.in((uintptr_t)at, from, bytes));
}

static void get(void *to, const char *at, size_t bytes)
{
    CHECK(!cu.sync(stream) && !cu.out(to, (uintptr_t)at, bytes));
}

// Of all threads: the strictest, as torch begins one.
static void capture(void)
{
    CHECK(!cu.begin(stream, 0));
}

static size_t nodes; // of the last graph that was captured

static void *captured(void)
{
    void *graph = NULL, *exec = NULL;
    int r = cu.end(stream, &graph);
    if (graph) CHECK(!cu.nodes(graph, NULL, &nodes));
    CHECK_MSG(r == 0 && graph && !cu.instantiate(&exec, graph, 0), "the capture ended with %d", r);
    if (graph) CHECK(!cu.drop(graph));
    return exec;
}

static netc_session *begun_with(const char *from, const char *skip, const char *precision,
                                netc_session *share, void *on)
{
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    NETC_INIT(netc_session_options, so);
    o.skip_passes = skip;
    o.precision = precision;
    so.seed = 3;
    so.stream = on;
    so.share = share;
    FINE(netc_compile_text(ctx, "capture.net", from, &o, &p, &err));
    FINE(netc_session_create(p, "cuda:0", &so, &s, &err));
    netc_program_release(p);
    return s;
}

static netc_session *begun(const char *from, bool ours)
{
    return begun_with(from, NULL, NULL, NULL, ours ? NULL : stream);
}

static netc_tensor matrix(void *at, bool on_device)
{
    netc_tensor t = floats(at, 2, N, 5);
    t.on_device = on_device;
    return t;
}

static netc_tensor column(void *at, bool on_device)
{
    netc_tensor t = floats(at, 1, N, 0);
    t.on_device = on_device;
    return t;
}

typedef struct Places { // of an entry's inputs and outputs, on the device
    char *a, *b, *y, *s;
} Places;

static Places places(void)
{
    return (Places){memory(256), memory(256), memory(256), memory(256)};
}

static void bind(netc_session *s, const char *entry, const Places *at)
{
    netc_error *err = NULL;
    netc_tensor a = matrix(at->a, true), b = matrix(at->b, true), y = matrix(at->y, true),
                sum = column(at->s, true);
    FINE(netc_bind(s, entry, "a", &a, &err));
    FINE(netc_bind(s, entry, "b", &b, &err));
    FINE(netc_bind_output(s, entry, "y", &y, &err));
    FINE(netc_bind_output(s, entry, "s", &sum, &err));
}

static void run(netc_session *s, const char *entry, const Places *at)
{
    netc_error *err = NULL;
    bind(s, entry, at);
    FINE(netc_after(s, stream, &err));
    FINE(netc_run(s, entry, 1, &err));
    FINE(netc_before(s, stream, &err));
}

static void *graph_of(netc_session *s, const char *entry, const Places *at)
{
    run(s, entry, at);
    capture();
    run(s, entry, at);
    CHECK(netc_capturing(s));
    void *exec = captured();
    CHECK(!netc_capturing(s));
    return exec;
}

// The same from and to the host's memory.
static void run_plain(netc_session *s, const char *entry, float (*x)[ALL], float *y, float *sum)
{
    netc_error *err = NULL;
    netc_tensor a = matrix(x[0], false), b = matrix(x[1], false), to = matrix(y, false),
                ts = column(sum, false);
    FINE(netc_bind(s, entry, "a", &a, &err));
    FINE(netc_bind(s, entry, "b", &b, &err));
    FINE(netc_bind_output(s, entry, "y", NULL, &err));
    FINE(netc_bind_output(s, entry, "s", NULL, &err));
    FINE(netc_run(s, entry, 1, &err));
    FINE(netc_read(s, entry, "y", &to, &err));
    FINE(netc_read(s, entry, "s", &ts, &err));
}

// Launches of a graph of each entry, runs with the same and with other memory, and from the host's,
// in any order, beside a session that never is part of a graph.
static void test_random(bool ours, unsigned seed)
{
    static const char *const entries[] = {"few", "many", "counts", "draws", "large"};
    enum { GRAPHS = 4 }; // [large] is only run, and takes more memory than was there
    netc_error *err = NULL;
    netc_session *s = begun(text, ours), *plain = begun(text, true);
    Places at[GRAPHS], other[BUFFERS];
    void *graph[GRAPHS];
    size_t size[GRAPHS];
    float x[2][ALL] = {{0}}, have[2][ALL], want[2][ALL];
    for (int i = 0; i < BUFFERS; i++) other[i] = places();
    for (int i = 0; i < GRAPHS; i++) {
        at[i] = places();
        graph[i] = graph_of(s, entries[i], &at[i]);
        size[i] = nodes;
        run_plain(plain, entries[i], x, want[0], want[1]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int entry = below(&seed, round < ROUNDS / 2 ? GRAPHS : GRAPHS + 1);
        int how = entry == GRAPHS ? 1 + below(&seed, 2) : below(&seed, 4);
        for (int i = 0; i < 2; i++)
            for (int e = 0; e < ALL; e++) x[i][e] = (float)below(&seed, 2000) / 1000 - 1;
        if (how == 3 && below(&seed, 2)) { // anew, when its inputs have come from elsewhere, too
            CHECK(!cu.destroy(graph[entry]));
            capture();
            run(s, entries[entry], &at[entry]);
            graph[entry] = captured();
            CHECK_MSG(nodes == size[entry], "'%s' has %zu nodes, before %zu", entries[entry], nodes,
                      size[entry]);
        }
        const Places *p = how == 1 && (entry == GRAPHS || below(&seed, 2))
                              ? &other[below(&seed, BUFFERS)]
                              : &at[entry % GRAPHS];
        if (how == 2) {
            run_plain(s, entries[entry], x, have[0], have[1]);
        } else {
            put(p->a, x[0], sizeof x[0]);
            put(p->b, x[1], sizeof x[1]);
            if (how == 1)
                run(s, entries[entry], p);
            else
                CHECK(!cu.launch(graph[entry], stream));
            get(have[0], p->y, sizeof have[0]);
            get(have[1], p->s, N * sizeof have[1][0]);
        }
        run_plain(plain, entries[entry], x, want[0], want[1]);
        CHECK_MSG(!memcmp(have[0], want[0], sizeof have[0]) &&
                      !memcmp(have[1], want[1], N * sizeof have[1][0]),
                  "round %d, '%s', way %d: y is %g and not %g ...", round, entries[entry], how,
                  (double)have[0][0], (double)want[0][0]);
    }
    netc_tensor one = matrix(have[0], false), two = matrix(want[0], false);
    FINE(netc_state_read(s, "total", &one, &err));
    FINE(netc_state_read(plain, "total", &two, &err));
    CHECK(!memcmp(have[0], want[0], sizeof have[0]));
    for (int i = 0; i < GRAPHS; i++) CHECK(!cu.destroy(graph[i]));
    netc_session_free(s);
    netc_session_free(plain);
}

// Two sessions in one graph, the second of what the first one gives; several executions of a run.
static void test_chain(void)
{
    netc_error *err = NULL;
    netc_session *s = begun(text, true), *t = begun(text, true), *plain = begun(text, true);
    Places first = places(), second = places();
    second.a = first.y;
    float x[2][ALL], y[ALL], sum[ALL], have[ALL];
    run(s, "few", &first);
    run(t, "counts", &second);
    capture();
    run(s, "few", &first);
    bind(t, "counts", &second);
    FINE(netc_after(t, stream, &err));
    FINE(netc_run(t, "counts", 2, &err));
    FINE(netc_before(t, stream, &err));
    void *graph = captured();
    for (int i = 0; i < ALL; i++) x[0][i] = 1, x[1][i] = 0;
    run_plain(plain, "counts", x, y, sum); // the first run's: few of zeros is 1
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < ALL; i++) x[0][i] = (float)(i + round), x[1][i] = (float)i / 4;
        put(first.a, x[0], sizeof x[0]);
        put(first.b, x[1], sizeof x[1]);
        put(second.b, x[1], sizeof x[1]);
        CHECK(!cu.launch(graph, stream));
        get(have, second.y, sizeof have);
        run_plain(plain, "few", x, y, sum);
        memcpy(x[0], y, sizeof y);
        for (int i = 0; i < 2; i++) run_plain(plain, "counts", x, y, sum);
        CHECK(!memcmp(have, y, sizeof y));
    }
    CHECK(!cu.destroy(graph));
    netc_session_free(s);
    netc_session_free(t);
    netc_session_free(plain);
}

// What cannot be part of a graph says so, and is not in it: the capture goes on.
static void test_refused(void)
{
    netc_error *err = NULL;
    netc_session *s = begun(text, true), *other = begun(text, true);
    Places at = places();
    float x[2][ALL] = {{0}}, y[ALL], sum[ALL];
    int32_t rows[N] = {3, 1, 0, 2};
    char *index = memory(256);
    netc_tensor i = {.dtype = NETC_I32, .rank = 1, .dim = {N}, .data = index, .on_device = true},
                a = matrix(at.a, true), here = matrix(x[0], false), to = matrix(at.y, true),
                read = matrix(y, false);
    for (int e = 0; e < ALL; e++) x[0][e] = (float)e;
    put(index, rows, sizeof rows);
    put(at.a, x[0], sizeof x[0]);
    for (int k = 0; k < 2; k++) {
        const char *entry = k ? "looks" : "trusts";
        FINE(netc_bind(s, entry, "a", &a, &err));
        FINE(netc_bind(s, entry, "i", &i, &err));
        FINE(netc_bind_output(s, entry, "y", &to, &err));
        FINE(netc_run(s, entry, 1, &err));
    }
    run(s, "few", &at);
    FINE(netc_sync(s, &err));
    bind(s, "never", &at);
    capture();
    FINE(netc_after(s, stream, &err));
    REFUSED(NETC_INVALID, "'never' has not run yet", netc_run(s, "never", 1, &err));
    REFUSED(NETC_INVALID, "'looks' cannot be captured into a CUDA graph: it checks its values at",
            netc_run(s, "looks", 1, &err));
    FINE(netc_bind(s, "few", "a", &here, &err));
    REFUSED(NETC_INVALID, "input 'a' of 'few' lies in the host's memory",
            netc_run(s, "few", 1, &err));
    FINE(netc_bind(s, "few", "a", &a, &err));
    FINE(netc_bind_output(s, "few", "y", NULL, &err));
    REFUSED(NETC_INVALID, "output 'y' of 'few' has no place", netc_run(s, "few", 1, &err));
    FINE(netc_bind_output(s, "few", "y", &to, &err));
    REFUSED(NETC_INVALID, "over its input",
            (bind(s, "few", &(Places){at.a, at.b, at.a, at.s}), netc_run(s, "few", 1, &err)));
    bind(s, "few", &at);
    REFUSED(NETC_INVALID, "being captured", netc_sync(s, &err));
    REFUSED(NETC_INVALID, "being captured", netc_read(s, "few", "y", &read, &err));
    REFUSED(NETC_INVALID, "being captured", netc_state_read(s, "total", &read, &err));
    REFUSED(NETC_INVALID, "being captured", netc_state_write(s, "total", &read, &err));
    CHECK(netc_capturing(s) && !netc_capturing(other));
    run_plain(other, "large", x, y, sum); // runs now, beside the capture
    FINE(netc_run(s, "trusts", 1, &err));
    FINE(netc_before(s, stream, &err));
    void *graph = captured();
    x[0][0] = 100;
    put(at.a, x[0], sizeof x[0]);
    CHECK(!cu.launch(graph, stream));
    get(y, at.y, sizeof y);
    for (int k = 0; k < N; k++) CHECK(!memcmp(y + 5 * k, x[0] + 5 * rows[k], 5 * sizeof *y));
    // A graph that may run at any time cannot be waited for while another one is captured.
    capture();
    REFUSED(NETC_INVALID, "before or after the capture", netc_state_read(s, "total", &read, &err));
    void *none = NULL;
    if (!cu.end(stream, &none)) CHECK(!cu.drop(none)); // it is lost, or empty
    FINE(netc_state_read(s, "total", &read, &err));
    CHECK(!cu.destroy(graph));
    netc_session_free(s);
    netc_session_free(other);
}

typedef struct DlManaged { // DLPack 0.8
    struct {
        void *data;
        int32_t device_type, device_id, ndim;
        uint8_t code, bits;
        uint16_t lanes;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } t;
    void *manager;
    void (*deleter)(struct DlManaged *self);
} DlManaged;

static void count_deletion(DlManaged *m)
{
    ++*(int *)m->manager;
}

// DLPack tensors that were replaced are deleted when what is queued has read them, and some are
// before the caller waits.
static void test_deleted(void)
{
    enum { MANY = 40 };
    netc_error *err = NULL;
    netc_session *s = begun(text, true);
    Places at = places();
    int64_t shape[2] = {N, 5};
    int deleted = 0;
    DlManaged m[MANY];
    for (int i = 0; i < MANY; i++)
        m[i] = (DlManaged){{at.a, 2, 0, 2, 2, 32, 1, shape, NULL, 0}, &deleted, count_deletion};
    bind(s, "few", &at);
    for (int i = 0; i < 2; i++) {
        FINE(netc_bind_dlpack(s, "few", "a", &m[i], &err));
        FINE(netc_run(s, "few", 1, &err));
        CHECK(!deleted);
    }
    FINE(netc_sync(s, &err));
    CHECK(deleted == 1);
    for (int i = 2; i < MANY; i++) {
        FINE(netc_bind_dlpack(s, "few", "a", &m[i], &err));
        FINE(netc_run(s, "few", 1, &err));
    }
    CHECK(deleted > MANY / 2 && deleted < MANY - 1);
    capture();
    FINE(netc_after(s, stream, &err));
    bind(s, "few", &at);
    int before = deleted;
    REFUSED(NETC_INVALID, "being captured", netc_sync(s, &err));
    CHECK(deleted == before);
    FINE(netc_before(s, stream, &err));
    CHECK(!cu.destroy(captured()));
    FINE(netc_sync(s, &err));
    CHECK(deleted == MANY);
    FINE(netc_bind_dlpack(s, "few", "a", &m[0], &err));
    netc_session_free(s);
    CHECK(deleted == MANY + 1);
}

// A step of training looks at its loss.
static void test_training(void)
{
    netc_error *err = NULL;
    netc_session *s = begun(model, true);
    netc_tensor x = floats(memory(256), 2, 8, 3), t = floats(memory(256), 1, 8, 0),
                loss = floats(memory(256), 0, 0, 0);
    x.on_device = t.on_device = loss.on_device = true;
    FINE(netc_bind(s, "train", "x", &x, &err));
    FINE(netc_bind(s, "train", "t", &t, &err));
    FINE(netc_bind_output(s, "train", "loss", &loss, &err));
    FINE(netc_run(s, "train", 1, &err));
    capture();
    FINE(netc_after(s, stream, &err));
    REFUSED(NETC_INVALID, "'train' cannot be captured into a CUDA graph: it checks its values at",
            netc_run(s, "train", 1, &err));
    FINE(netc_before(s, stream, &err));
    CHECK(!cu.destroy(captured()));
    FINE(netc_sync(s, &err));
    netc_session_free(s);
}

// Without a run before, and with temporaries for each graph, so that they could be launched side by
// side: each writes its own, and the session's stay free for other runs.
static void test_temporaries(void)
{
    netc_error *err = NULL;
    netc_session *s = begun(text, true), *plain = begun(text, true);
    Places at[2] = {places(), places()};
    float x[2][ALL], want[2][ALL], have[ALL];
    int64_t bytes = netc_temporaries(s, "many");
    CHECK(bytes > 0 && netc_temporaries(s, "none") == -1);
    char *own[2], *before = malloc((size_t)bytes), *now = malloc((size_t)bytes);
    void *graph[2];
    memset(before, 0x55, (size_t)bytes);
    REFUSED(NETC_INVALID, "'counts' changes states", netc_warm_up(s, "counts", &err));
    REFUSED(NETC_INVALID, "'looks' changes states, checks", netc_warm_up(s, "looks", &err));
    REFUSED(NETC_INVALID, "no entry 'none'", netc_warm_up(s, "none", &err));
    for (int i = 0; i < 2; i++) {
        own[i] = memory((size_t)bytes);
        FINE(netc_warm_up(s, "many", &err));
        FINE(netc_bind_temporaries(s, "many", own[i], (size_t)bytes, &err));
        capture();
        run(s, "many", &at[i]);
        graph[i] = captured();
        put(own[i], before, (size_t)bytes);
        run(s, "many", &at[i]); // not captured, with the same inputs and outputs
        get(now, own[i], (size_t)bytes);
        CHECK(!memcmp(now, before, (size_t)bytes));
    }
    FINE(netc_bind_temporaries(s, "many", NULL, 0, &err));
    for (int e = 0; e < ALL; e++) x[0][e] = x[1][e] = (float)e / 4;
    FINE(netc_warm_up(s, "few", &err)); // leaves nothing of its own
    netc_tensor in = matrix(x[0], false), out = matrix(have, false);
    FINE(netc_bind(s, "few", "a", &in, &err));
    FINE(netc_bind(s, "few", "b", &in, &err));
    FINE(netc_run(s, "few", 1, &err));
    FINE(netc_read(s, "few", "y", &out, &err));
    run_plain(plain, "few", x, want[0], want[1]);
    CHECK(!memcmp(have, want[0], sizeof have));
    REFUSED(NETC_INVALID, "bytes, 1 were given", netc_bind_temporaries(s, "many", own[0], 1, &err));
    REFUSED(NETC_INVALID, "aligned to 256",
            netc_bind_temporaries(s, "many", own[0] + 16, (size_t)bytes, &err));
    REFUSED(NETC_INVALID, "its allocation ends",
            netc_bind_temporaries(s, "many", own[0], 1 << 30, &err));
    for (int round = 0; round < 4; round++) {
        int i = round % 2;
        for (int e = 0; e < ALL; e++) x[0][e] = (float)(e + round), x[1][e] = (float)(e % 7) / 8;
        put(at[i].a, x[0], sizeof x[0]);
        put(at[i].b, x[1], sizeof x[1]);
        for (int k = 0; k < 2; k++) put(own[k], before, (size_t)bytes);
        CHECK(!cu.launch(graph[i], stream));
        get(have, at[i].y, sizeof have);
        run_plain(plain, "many", x, want[0], want[1]);
        CHECK(!memcmp(have, want[0], sizeof have));
        for (int k = 0; k < 2; k++) {
            get(now, own[k], (size_t)bytes);
            CHECK(!memcmp(now, before, (size_t)bytes) == (k != i));
        }
        run_plain(s, "many", x, have, want[1]); // in the session's own
        CHECK(!memcmp(have, want[0], sizeof have));
    }
    for (int i = 0; i < 2; i++) CHECK(!cu.destroy(graph[i]));
    // Indices in the least of their range.
    Places to = places();
    char *index = memory(256);
    netc_tensor a = matrix(to.a, true), y = matrix(to.y, true),
                rows = {.dtype = NETC_I32, .rank = 1, .dim = {N}, .data = index, .on_device = true};
    FINE(netc_warm_up(s, "ranged", &err));
    FINE(netc_sync(s, &err));
    FINE(netc_bind(s, "ranged", "a", &a, &err));
    FINE(netc_bind(s, "ranged", "i", &rows, &err));
    FINE(netc_bind_output(s, "ranged", "y", &y, &err));
    capture();
    FINE(netc_after(s, stream, &err));
    FINE(netc_run(s, "ranged", 1, &err));
    FINE(netc_before(s, stream, &err));
    CHECK(!cu.destroy(captured()));
    free(before), free(now);
    netc_session_free(s);
    netc_session_free(plain);
}

// -- what is computed once for parameters ---------------------------------------------------------
enum { IN = 160, OUT = 240, ROWS = 4 };

static const char prepared[] =
    "model net(x: f32[4, 160]) {\n"
    "    param w: f32[160, 240] = normal(0.1)\n"
    "    return y = matmul(x, w * 2) + matmul(x, slow() as \"\")\n"
    "}\n"
    "fn slow() {\n"
    "    state slow: f32[160, 240] = 0.125\n"
    "    return slow\n"
    "}\n"
    "fn flip() {\n"
    "    state slow: f32[160, 240] = 0.125\n"
    "    slow <- 0.5 - slow\n"
    "    return slow\n"
    "}\n"
    "model moves(x: f32[4, 160]) { return y = matmul(x, flip() as \"\") }\n";

static void run_prepared(netc_session *s, const char *entry, char *x, char *y)
{
    netc_error *err = NULL;
    netc_tensor in = floats(x, 2, ROWS, IN), out = floats(y, 2, ROWS, OUT);
    in.on_device = out.on_device = true;
    FINE(netc_bind(s, entry, "x", &in, &err));
    FINE(netc_bind_output(s, entry, "y", &out, &err));
    FINE(netc_after(s, stream, &err));
    FINE(netc_run(s, entry, 1, &err));
    FINE(netc_before(s, stream, &err));
}

// Launches see parameters as they are then, and what launches write is seen by other runs.
static void test_prepared(unsigned seed)
{
    static const char *const entries[] = {"net", "moves"};
    static float w[IN * OUT], x[ROWS * IN], have[ROWS * OUT], want[ROWS * OUT];
    netc_error *err = NULL;
    netc_session *s = begun_with(prepared, NULL, "bf16", NULL, NULL),
                 *plain = begun_with(prepared, "prepare", "bf16", NULL, NULL);
    char *at = memory(sizeof x), *to[2] = {memory(sizeof have), memory(sizeof have)};
    void *graph[2];
    FINE(netc_run(s, "prepare.net", 1, &err)); // there is something to prepare
    // Another session's, which has not had to prepare it.
    netc_session *t = begun_with(prepared, NULL, "bf16", s, NULL);
    run_prepared(t, "net", at, to[0]);
    capture();
    run_prepared(t, "net", at, to[0]);
    CHECK(!cu.destroy(captured()));
    netc_session_free(t);
    for (int i = 0; i < 2; i++) {
        run_prepared(s, entries[i], at, to[0]);
        run_prepared(plain, entries[i], at, to[1]);
        capture();
        run_prepared(s, entries[i], at, to[0]);
        graph[i] = captured();
    }
    for (int round = 0; round < 100; round++) {
        int entry = below(&seed, 2);
        if (below(&seed, 8) == 0) {
            netc_tensor t = floats(w, 2, IN, OUT);
            for (int i = 0; i < IN * OUT; i++) w[i] = (float)below(&seed, 2000) / 1000 - 1;
            FINE(netc_state_write(s, round % 2 ? "w" : "slow", &t, &err));
            FINE(netc_state_write(plain, round % 2 ? "w" : "slow", &t, &err));
        }
        for (int i = 0; i < ROWS * IN; i++) x[i] = (float)below(&seed, 2000) / 1000 - 1;
        put(at, x, sizeof x);
        if (below(&seed, 8) > (entry ? 0 : 4)) // mostly launches that write, runs that read
            CHECK(!cu.launch(graph[entry], stream));
        else
            run_prepared(s, entries[entry], at, to[0]);
        run_prepared(plain, entries[entry], at, to[1]);
        get(have, to[0], sizeof have);
        get(want, to[1], sizeof want);
        float worst = 0; // products may add up in another order
        for (int i = 0; i < ROWS * OUT; i++) {
            float d = have[i] - want[i];
            worst = d > worst ? d : -d > worst ? -d : worst;
        }
        CHECK_MSG(worst < 0.1f, "round %d: '%s' is off by %g", round, entries[entry],
                  (double)worst);
    }
    for (int i = 0; i < 2; i++) CHECK(!cu.destroy(graph[i]));
    netc_session_free(s);
    netc_session_free(plain);
}

// A program that is compiled for CUDA before a GPU is known is compiled again for the session's.
static void test_target(void)
{
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    o.target = "cuda";
    FINE(netc_compile_text(ctx, "capture.net", text, &o, &p, &err));
    CHECK(p->builds && p->builds->any_gpu);
    FINE(netc_session_create(p, "cuda:0", NULL, &s, &err));
    CHECK(s->loaded && !s->loaded->build->any_gpu);
    netc_session_free(s);
    netc_program_release(p);
}

int main(void)
{
    netc_error *err = NULL;
    if (!open_driver()) {
        printf("skipped: no GPU\n");
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    FINE(netc_context_create(NULL, &ctx, &err));
    for (unsigned seed = 1; seed <= 2; seed++)
        for (int ours = 0; ours < 2; ours++) test_random(ours, seed);
    test_chain();
    test_refused();
    test_target();
    test_deleted();
    test_training();
    test_temporaries();
    test_prepared(5);
    netc_context_free(ctx);
    return unit_done();
}
