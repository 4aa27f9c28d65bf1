// Inputs read and outputs stored where the caller's memory is, whose addresses change between runs:
// beside a session that is given everything anew and asked for everything. DEVICE=cuda:0 runs it
// there, the memory being the GPU's.
#include "tests/unit/api.h"
#include "tests/unit/driver.h"

// [few] is one launch or two, [many] too many to be enqueued one by one.
static const char text[] =
    "dim n = 3\n"
    "model few(a: f32[n, 5], b: f32[n, 5]) {\n"
    "    return y = a * b + 1, s = sum(a, 1)\n"
    "}\n"
    "model many(a: f32[n, 5], b: f32[n, 5]) {\n"
    "    v = a\n"
    "    for i in 0..12 { v = cumsum(matmul(matmul(v, transpose(b)) / 16, b), 0) }\n"
    "    return y = v, s = sum(v + b, 1)\n"
    "}\n"
    "model looks(a: f32[n, 5], i: i32[n]) {\n"
    "    return y = a[i]\n"
    "}\n";

enum { MOST = 40, BUFFERS = 4, ROOM = 1024 };

static const char *device;
static bool cuda;
static struct {
    int (*alloc)(unsigned long long *, size_t);
    int (*in)(unsigned long long, const void *, size_t);
    int (*out)(void *, unsigned long long, size_t);
} cu;

static bool open_memory(void)
{
    void *lib = driver_open();
    if (!lib) return false;
    *(void **)&cu.alloc = dlsym(lib, "cuMemAlloc_v2");
    *(void **)&cu.in = dlsym(lib, "cuMemcpyHtoD_v2");
    *(void **)&cu.out = dlsym(lib, "cuMemcpyDtoH_v2");
    return cu.alloc && cu.in && cu.out;
}

static char *memory(void)
{
    static const char zeros[ROOM];
    unsigned long long at = 0;
    if (!cuda) return calloc(1, ROOM);
    return cu.alloc(&at, ROOM) || cu.in(at, zeros, ROOM) ? NULL : (char *)(uintptr_t)at;
}

static void put(char *at, const float *from, int n)
{
    if (cuda)
        CHECK(!cu.in((uintptr_t)at, from, sizeof *from * (size_t)n));
    else
        memcpy(at, from, sizeof *from * (size_t)n);
}

static void get(float *to, const char *at, int n)
{
    if (cuda)
        CHECK(!cu.out(to, (uintptr_t)at, sizeof *to * (size_t)n));
    else
        memcpy(to, at, sizeof *to * (size_t)n);
}

static netc_session *begun(int n)
{
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    char rows[16];
    const char *const defines[] = {rows};
    snprintf(rows, sizeof rows, "n=%d", n);
    o.defines = defines;
    o.ndefines = 1;
    FINE(netc_compile_text(ctx, "places.net", text, &o, &p, &err));
    FINE(netc_session_create(p, device, NULL, &s, &err));
    netc_program_release(p);
    return s;
}

static netc_tensor tensor(void *at, int n, int columns, bool on_device)
{
    return (netc_tensor){.dtype = NETC_F32,
                         .rank = columns ? 2 : 1,
                         .dim = {n, columns},
                         .data = at,
                         .on_device = on_device};
}

static void test_against_copies(int n, const char *entry, unsigned seed)
{
    static const char *const in[] = {"a", "b"}, *const out[] = {"y", "s"};
    static const int columns[] = {5, 0};
    netc_error *err = NULL;
    netc_session *s = begun(n), *plain = begun(n);
    char *from[2][BUFFERS], *to[2][BUFFERS];
    int stays[2] = {below(&seed, 2), below(&seed, 2)}; // addresses of one input change
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < BUFFERS; k++) from[i][k] = memory(), to[i][k] = memory();
    for (int round = 0; round < MOST; round++) {
        float x[2][ROOM], want[ROOM], have[ROOM];
        char *place[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++) {
            int k = stays[i] && round < MOST / 2 ? 0 : below(&seed, BUFFERS);
            for (int e = 0; e < n * 5; e++) x[i][e] = (float)below(&seed, 2000) / 1000 - 1;
            bool here = below(&seed, 5) == 0; // from the host
            put(from[i][k], x[i], n * 5);
            netc_tensor t = tensor(here ? (void *)x[i] : from[i][k], n, 5, cuda && !here),
                        same = tensor(x[i], n, 5, false);
            FINE(netc_bind(s, entry, in[i], &t, &err));
            FINE(netc_bind(plain, entry, in[i], &same, &err));
            if (below(&seed, 3)) place[i] = to[i][below(&seed, BUFFERS)];
            t = tensor(place[i], n, columns[i], cuda);
            FINE(netc_bind_output(s, entry, out[i], place[i] ? &t : NULL, &err));
        }
        FINE(netc_after(s, NULL, &err));
        FINE(netc_run(s, entry, 1 + below(&seed, 2), &err));
        FINE(netc_before(s, NULL, &err));
        FINE(netc_run(plain, entry, 1, &err));
        for (int i = 0; i < 2; i++) {
            int count = columns[i] ? n * 5 : n;
            netc_tensor t = tensor(want, n, columns[i], false);
            FINE(netc_read(plain, entry, out[i], &t, &err));
            if (place[i] && below(&seed, 2)) {
                get(have, place[i], count); // on the default stream
            } else {
                t.data = have;
                FINE(netc_read(s, entry, out[i], &t, &err));
            }
            CHECK_MSG(!memcmp(have, want, sizeof *have * (size_t)count),
                      "%s, n %d, round %d: '%s' is %g and not %g ...", entry, n, round, out[i],
                      (double)have[0], (double)want[0]);
        }
    }
    netc_session_free(s);
    netc_session_free(plain);
    for (int i = 0; i < 2 && !cuda; i++)
        for (int k = 0; k < BUFFERS; k++) free(from[i][k]), free(to[i][k]);
}

static void test_refused(void)
{
    netc_error *err = NULL;
    netc_session *s = begun(3);
    float host[16] = {0};
    char *at = memory(), *other = memory();
    netc_tensor a = tensor(at, 3, 5, cuda), b = tensor(other, 3, 5, cuda), y = a,
                sum = tensor(at + 16, 3, 0, cuda), wrong = tensor(at, 2, 5, cuda),
                here = tensor(host, 3, 5, !cuda);
    REFUSED(NETC_INVALID, "no output 'z'", netc_bind_output(s, "few", "z", &y, &err));
    REFUSED(NETC_INVALID, "output 'y' is f32[3, 5], the tensor given is f32[2, 5]",
            netc_bind_output(s, "few", "y", &wrong, &err));
    REFUSED(NETC_INVALID, cuda ? "must be on cuda:0" : "is a device pointer",
            netc_bind_output(s, "few", "y", &here, &err));
    FINE(netc_bind(s, "few", "a", &a, &err));
    FINE(netc_bind(s, "few", "b", &b, &err));
    FINE(netc_bind_output(s, "few", "y", &y, &err));
    REFUSED(NETC_INVALID, "over its input 'a'", netc_run(s, "few", 1, &err));
    char *place = memory();
    y.data = place;
    FINE(netc_bind_output(s, "few", "y", &y, &err));
    sum.data = place + 48; // the last three of y's fifteen, and one more
    FINE(netc_bind_output(s, "few", "s", &sum, &err));
    REFUSED(NETC_INVALID, "in the same memory", netc_run(s, "few", 1, &err));
    FINE(netc_bind_output(s, "few", "s", NULL, &err));
    REFUSED(NETC_INVALID, "has not been run yet", netc_read(s, "few", "y", &y, &err));
    FINE(netc_run(s, "few", 1, &err));
    FINE(netc_bind_output(s, "few", "y", NULL, &err)); // what the last run stored is still read
    float ones[15], have[15];
    for (int i = 0; i < 15; i++) ones[i] = 1;
    netc_tensor t = tensor(have, 3, 5, false);
    FINE(netc_read(s, "few", "y", &t, &err));
    CHECK(!memcmp(have, ones, sizeof have));
    netc_session_free(s);
    if (!cuda) free(at), free(other), free(place);
}

// An index outside, which a device pointer's contents may be, comes at the next wait; once.
static void test_late_error(void)
{
    netc_error *err = NULL;
    netc_session *s = begun(3);
    int32_t i[3] = {0, 1, 3};
    char *at = memory(), *index = memory(), *place = memory();
    netc_tensor a = tensor(at, 3, 5, cuda), y = tensor(place, 3, 5, cuda), rows = {.rank = 1};
    rows =
        (netc_tensor){.dtype = NETC_I32, .rank = 1, .dim = {3}, .data = index, .on_device = cuda};
    put(index, (const float *)(void *)i, 3);
    FINE(netc_bind(s, "looks", "a", &a, &err));
    FINE(netc_bind(s, "looks", "i", &rows, &err));
    FINE(netc_bind_output(s, "looks", "y", &y, &err));
    FINE(netc_run(s, "looks", 1, &err));
    FINE(netc_before(s, NULL, &err));
    REFUSED(NETC_CHECK_FAILED, "3 at element 2 is outside", netc_sync(s, &err));
    FINE(netc_sync(s, &err));
    netc_session_free(s);
    if (!cuda) free(at), free(index), free(place);
}

int main(void)
{
    netc_error *err = NULL;
    device = getenv("DEVICE") ? getenv("DEVICE") : "cpu";
    cuda = !strncmp(device, "cuda", 4);
    if (cuda && !open_memory()) {
        printf("skipped: no NVIDIA driver\n");
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    FINE(netc_context_create(NULL, &ctx, &err));
    for (unsigned seed = 1; seed <= (cuda ? 2u : 3u); seed++) {
        test_against_copies((int)(seed * seed), "few", seed);
        test_against_copies((int)(seed * seed), "many", seed);
    }
    test_refused();
    test_late_error();
    netc_context_free(ctx);
    return unit_done();
}
