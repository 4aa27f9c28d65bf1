// Products, and sums, largest and least elements, of random sizes and types: generated kernels
// beside loops written out here, and to the bit the same by one thread and by several. Sizes are
// such that tiles, vectors, turns and rounds end in all ways. On the device DEVICE (cpu).
#include <math.h>
#include <stdio.h>

#include "tests/unit/api.h"

enum { PRODUCTS = 48, REDUCTIONS = 48, MODELS = PRODUCTS + REDUCTIONS, MOST = 1 << 17 };

static unsigned seed = 20261128;

static int any(int least, int most)
{
    seed = seed * 1664525u + 1013904223u;
    return least + (int)(seed >> 8) % (most - least + 1);
}

static const char *const types[] = {"f32", "f64", "f16", "bf16"};
enum { F32, F64, F16, BF16 };
static const int bytes[] = {4, 8, 2, 2};
static const netc_dtype dtypes[] = {NETC_F32, NETC_F64, NETC_F16, NETC_BF16};

// y = matmul(a, b) of a batch; or y = max, min or sum over some axes of a, or of a + b, where b is
// a row along the last one.
typedef struct Model {
    int type, form;
    int batch, m, n, k; // products
    bool row;
    int rank, dim[4], axes; // reductions: bits
    int64_t count[3];       // elements of the inputs and of the result
} Model;

static Model all[MODELS];
static char text[MODELS * 300];
static double in[2][MOST], want[MOST];
static char raw[2][MOST * 8], out[2][MOST * 8];

// Short, as vectors are long, or more than a few of these.
static int any_size(void)
{
    switch (any(0, 3)) {
    case 0: return any(1, 5);
    case 1: return any(6, 36);
    case 2: return any(1, 3) * 16 + any(-1, 1);
    default: return any(37, 140);
    }
}

static size_t say_product(Model *p, char *at, size_t n, int number)
{
    enum { TURN_A = 1, TURN_B = 2, MORE = 4 };
    *p = (Model){.type = any(0, 4) % 4, .form = any(0, 7), .batch = any(0, 3) ? 1 : any(2, 9)};
    p->m = any_size(), p->n = any_size(), p->k = any_size();
    if (any(0, 3) == 0) p->n = any(1, 8);
    if (any(0, 5) == 0) p->k = any(1, 700);
    if (any(0, 5) == 0) p->m = any(300, 900);
    while ((int64_t)p->batch * p->m * (p->k + p->n) > MOST) p->m = (p->m + 1) / 2;
    while ((int64_t)p->batch * p->n * p->k > MOST) p->n = (p->n + 1) / 2;
    const int b = p->batch, m = p->m, k = p->k, c = p->n;
    p->count[0] = (int64_t)b * m * k, p->count[1] = (int64_t)b * k * c;
    p->count[2] = (int64_t)b * m * c;
    const bool ta = p->form & TURN_A, tb = p->form & TURN_B;
    return (size_t)snprintf(
        at, n,
        "model m%d(a: %s[%d, %d, %d], b: %s[%d, %d, %d]) { return y = %smatmul(%s, %s)%s }\n",
        number, types[p->type], b, ta ? k : m, ta ? m : k, types[p->type], b, tb ? c : k,
        tb ? k : c, p->form & MORE ? "maximum(" : "", ta ? "transpose(a, [0, 2, 1])" : "a",
        tb ? "transpose(b, [0, 2, 1])" : "b", p->form & MORE ? ", 0)" : "");
}

static void product(const Model *p)
{
    for (int b = 0, at = 0; b < p->batch; b++)
        for (int i = 0; i < p->m; i++)
            for (int j = 0; j < p->n; j++, at++) {
                const double *x = in[0] + (int64_t)b * p->m * p->k,
                             *y = in[1] + (int64_t)b * p->k * p->n;
                double sum = 0;
                for (int k = 0; k < p->k; k++)
                    sum += x[p->form & 1 ? k * p->m + i : i * p->k + k] *
                           y[p->form & 2 ? j * p->k + k : k * p->n + j];
                want[at] = p->form & 4 && sum < 0 ? 0 : sum;
            }
}

static size_t say_reduction(Model *r, char *at, size_t n, int number)
{
    static const char *const name[] = {"max", "min", "sum"};
    *r = (Model){.type = any(0, 3), .form = any(0, 2), .row = any(0, 1), .rank = any(1, 4)};
    int64_t count = 1;
    for (int i = 0; i < r->rank; i++) {
        r->dim[i] = any(0, 4) ? any_size() : any(1, 1500);
        while (count * r->dim[i] > MOST) r->dim[i] = (r->dim[i] + 1) / 2;
        count *= r->dim[i];
    }
    r->axes = any(1, (1 << r->rank) - 1);
    if (number % 8 == 0) { // cut into parts that begin within a row of b
        r->rank = 2, r->axes = 3, r->row = true;
        r->dim[0] = any(100, 127), r->dim[1] = any(700, 1000);
    }
    r->count[0] = r->count[2] = 1;
    size_t len = (size_t)snprintf(at, n, "model m%d(a: %s[", number, types[r->type]);
    for (int i = 0; i < r->rank; i++) {
        len += (size_t)snprintf(at + len, n - len, "%s%d", i ? ", " : "", r->dim[i]);
        r->count[0] *= r->dim[i];
        if (!(r->axes >> i & 1)) r->count[2] *= r->dim[i];
    }
    r->count[1] = r->row ? r->dim[r->rank - 1] : 0;
    if (r->row)
        len += (size_t)snprintf(at + len, n - len, "], b: %s[%d", types[r->type], (int)r->count[1]);
    len += (size_t)snprintf(at + len, n - len, "]) { return y = %s(%s, [", name[r->form],
                            r->row ? "a + b" : "a");
    for (int i = 0, some = 0; i < r->rank; i++)
        if (r->axes >> i & 1)
            len += (size_t)snprintf(at + len, n - len, "%s%d", some++ ? ", " : "", i);
    return len + (size_t)snprintf(at + len, n - len, "]) }\n");
}

static void reduction(const Model *r)
{
    static const double start[] = {-INFINITY, INFINITY, 0};
    for (int64_t i = 0; i < r->count[2]; i++) want[i] = start[r->form];
    for (int64_t i = 0; i < r->count[0]; i++) {
        int64_t to = 0, rest = i, step = 1;
        for (int a = r->rank; a-- > 0; rest /= r->dim[a])
            if (!(r->axes >> a & 1)) {
                to += rest % r->dim[a] * step;
                step *= r->dim[a];
            }
        const double x = in[0][i] + (r->row ? in[1][i % r->count[1]] : 0), was = want[to];
        want[to] = isnan(was) || r->form == 2 ? was + x
                   : isnan(x)                 ? x
                   : r->form == 0             ? fmax(was, x)
                                              : fmin(was, x);
    }
}

// Quarters of small numbers, infinity and NaN, which all types have.
static void put(int type, char *to, double x)
{
    const float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t h = (uint16_t)(u >> 16);
    if (type == F16) {
        const uint32_t size = u & 0x7fffffff;
        h = (uint16_t)((u >> 16 & 0x8000) | (size == 0            ? 0
                                             : size >= 0x7f800000 ? 0x7c00 | (size > 0x7f800000)
                                                                  : (size - 0x38000000) >> 13));
    }
    if (type == F32) memcpy(to, &f, 4);
    if (type == F64) memcpy(to, &x, 8);
    if (type == F16 || type == BF16) memcpy(to, &h, 2);
}

static double got(int type, const char *at)
{
    float f;
    double d;
    uint16_t h;
    uint32_t u;
    memcpy(&h, at, 2);
    u = (uint32_t)h << 16;
    if (type == F32) memcpy(&u, at, 4);
    memcpy(&f, &u, 4);
    memcpy(&d, at, 8);
    if (type == F64) return d;
    if (type != F16) return (double)f;
    const int e = h >> 10 & 31, digits = h & 1023;
    const double size = e == 31 ? (digits ? NAN : INFINITY)
                        : e     ? ldexp(1024 + digits, e - 25)
                                : ldexp(digits, -24);
    return h >> 15 ? -size : size;
}

static void fill(const Model *p, bool exact, bool special)
{
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < p->count[i]; k++) {
            double x = exact ? any(-8, 8) / 4.0 : any(-999, 999) / 64.0;
            if (special && any(0, 40) == 0) x = any(0, 1) ? INFINITY : -INFINITY;
            if (special && any(0, 300) == 0) x = any(0, 1) ? NAN : -NAN;
            in[i][k] = x;
            put(p->type, raw[i] + k * bytes[p->type], x);
        }
}

static void run(netc_program *p, netc_session *s, int number, char *result)
{
    const Model *m = &all[number];
    char entry[16];
    netc_error *err = NULL;
    netc_port port;
    snprintf(entry, sizeof entry, "m%d", number);
    for (int i = 0; i < netc_input_count(p, entry); i++) {
        FINE(netc_input_info(p, entry, i, &port, &err));
        netc_tensor t = {.dtype = dtypes[m->type], .rank = port.rank};
        t.data = raw[port.name[0] - 'a'];
        memcpy(t.dim, port.dim, sizeof port.dim);
        FINE(netc_bind(s, entry, port.name, &t, &err));
    }
    FINE(netc_run(s, entry, 1, &err));
    FINE(netc_output_info(p, entry, 0, &port, &err));
    netc_tensor t = {.dtype = dtypes[m->type], .rank = port.rank, .data = result};
    memcpy(t.dim, port.dim, sizeof port.dim);
    FINE(netc_read(s, entry, "y", &t, &err));
}

// Of exact sums each element, as the type has it; of others the bits by one thread and by three.
static void check(netc_program *p, netc_session *const *s, int number)
{
    const Model *m = &all[number];
    const bool products = number < PRODUCTS, order = !products && m->form < 2;
    fill(m, true, order && number % 2);
    if (products)
        product(m);
    else
        reduction(m);
    run(p, s[1], number, out[1]);
    int64_t k = 0;
    for (; k < m->count[2]; k++) {
        const double y = got(m->type, out[1] + k * bytes[m->type]);
        const double scale = m->type == F16 ? 0x1p-11 : m->type == BF16 ? 0x1p-8 : 0;
        const bool same = isinf(y) || isnan(y) ? y == want[k] || (isnan(y) && isnan(want[k]))
                                               : fabs(y - want[k]) <= scale * fabs(want[k]);
        if (!same) break;
    }
    CHECK_MSG(k == m->count[2], "m%d: y[%lld] is %g, not %g", number, (long long)k,
              got(m->type, out[1] + k * bytes[m->type]), want[k]);
    fill(m, false, false);
    for (int i = 0; i < 2; i++) run(p, s[i], number, out[i]);
    CHECK_MSG(!memcmp(out[0], out[1], (size_t)(m->count[2] * bytes[m->type])),
              "m%d: other bits by three threads", number);
}

static void sizes(void)
{
    const char *device = getenv("DEVICE");
    netc_program *p[2] = {NULL, NULL};
    netc_session *s[2] = {NULL, NULL};
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    o.no_matmul_library = true;
    size_t n = 0;
    for (int i = 0; i < MODELS; i++)
        n += (i < PRODUCTS ? say_product : say_reduction)(&all[i], text + n, sizeof text - n, i);
    for (int i = 0; i < 2; i++) {
        setenv("OMP_NUM_THREADS", i ? "3" : "1", 1);
        FINE(netc_compile_text(ctx, "sizes.net", text, &o, &p[i], &err));
        FINE(netc_session_create(p[i], device ? device : "cpu", NULL, &s[i], &err));
    }
    const int failures = unit_failed;
    for (int i = 0; i < MODELS && p[1] && s[1]; i++) check(p[1], s, i);
    if (unit_failed > failures) printf("%s", text);
    for (int i = 0; i < 2; i++) {
        netc_session_free(s[i]);
        netc_program_release(p[i]);
    }
}

int main(void)
{
    return api_main((void (*const[])(void)){sizes, NULL});
}
