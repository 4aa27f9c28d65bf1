// Matrix products by cuBLASLt against sums in double: types, transposes, batches, every epilogue;
// the choice table. Operands are small multiples of 1/8, so that every type holds them exactly and
// f32 sums are exact.
#include <math.h>

#include "runtime/cuda/cuda.h"
#include "tests/unit/cuda_program.h"
#include "tests/unit/unit.h"

static RtDevice *device;
static int unit_skipped;

// -- numbers --------------------------------------------------------------------------------------
static uint16_t
to_f16(double v) // values with at most 11 significant bits, 0 or |v| in 2^-14..65504
{
    int exp;
    double f = frexp(fabs(v), &exp);
    if (v == 0) return 0;
    return (uint16_t)((v < 0 ? 0x8000 : 0) | ((exp + 14) << 10) | ((int)(f * 2048) & 1023));
}

static double from_f16(uint16_t h)
{
    int exp = h >> 10 & 31, frac = h & 1023;
    double v = exp ? ldexp(1024 + frac, exp - 25) : ldexp(frac, -24);
    return h & 0x8000 ? -v : v;
}

static void put(void *p, ProgDType t, int64_t i, double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    switch (t) {
    case PD_F64: ((double *)p)[i] = v; break;
    case PD_F32: ((float *)p)[i] = f; break;
    case PD_BF16: ((uint16_t *)p)[i] = (uint16_t)(bits >> 16); break;
    default: ((uint16_t *)p)[i] = to_f16(v); break;
    }
}

static double get(const void *p, ProgDType t, int64_t i)
{
    uint32_t bits = 0;
    float f;
    switch (t) {
    case PD_F64: return ((const double *)p)[i];
    case PD_F32: return ((const float *)p)[i];
    case PD_BF16:
        bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        memcpy(&f, &bits, 4);
        return f;
    default: return from_f16(((const uint16_t *)p)[i]);
    }
}

static double half_step(ProgDType t) // relative rounding
{
    return t == PD_F64 ? 1e-14 : t == PD_F32 ? 1e-6 : t == PD_BF16 ? 1.0 / 256 : 1.0 / 2048;
}

static uint64_t seed = 1;

static double draw(void) // -1, -7/8 .. 1
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((int)(seed >> 40) % 17 - 8) / 8.0;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double dgelu(double x)
{
    double u = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = tanh(u);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

// -- one case -------------------------------------------------------------------------------------
typedef struct Case {
    ProgDType in, out;
    bool tf32, ta, tb;
    int64_t m, n, k, batch;
    ProgEpilogue forward, backward; // backward: a second product that uses the first one's aux
    bool may_lack;                  // the library need not have this combination
} Case;

static bool has_bias(ProgEpilogue e)
{
    return e == PE_BIAS || e == PE_RELU_BIAS || e == PE_GELU_BIAS || e == PE_GELU_AUX_BIAS;
}

static const char *const epilogue_names[] = {
    "none", "bias", "relu", "relu_bias", "gelu", "gelu_bias", "gelu_aux_bias", "dgelu", "gelu_aux"};

static void name_case(const Case *c, char *out, size_t n)
{
    snprintf(out, n, "%s->%s%s %c%c %lldx%lldx%lld batch %lld %s%s%s", prog_dtype_name(c->in),
             prog_dtype_name(c->out), c->tf32 ? " tf32" : "", c->ta ? 't' : 'n', c->tb ? 't' : 'n',
             (long long)c->m, (long long)c->n, (long long)c->k, (long long)c->batch,
             epilogue_names[c->forward], c->backward ? " + " : "",
             c->backward ? epilogue_names[c->backward] : "");
}

static ProgGemm gemm_of(const Case *c, ProgEpilogue ep)
{
    ProgGemm g = {.name = "hand_gemm",
                  .loc = "hand.net:9",
                  .a_type = c->in,
                  .b_type = c->in,
                  .c_type = c->out,
                  .compute = c->in == PD_F64 ? PD_F64 : PD_F32,
                  .tf32 = c->tf32,
                  .trans_a = c->ta,
                  .trans_b = c->tb,
                  .m = c->m,
                  .n = c->n,
                  .k = c->k,
                  .lda = c->ta ? c->m : c->k,
                  .ldb = c->tb ? c->k : c->n,
                  .ldc = c->n,
                  .batch = c->batch,
                  .stride_a = c->m * c->k,
                  .stride_b = c->k * c->n,
                  .stride_c = c->m * c->n,
                  .epilogue = ep,
                  .workspace = 4 << 20,
                  .choice_key = ep == c->forward ? "gemm hand 1" : "gemm hand 2"};
    return g;
}

// The program: c = epilogue(a b); with backward also d = epilogue'(a b, aux). Slots as ProgGemm
// says.
static int build(Hand *h, const Case *c)
{
    hand_init(h);
    int a = hand_input(h, "a", hand_vector(c->in, c->batch * c->m * c->k));
    int b = hand_input(h, "b", hand_vector(c->in, c->batch * c->k * c->n));
    int out = hand_output(h, "c", hand_vector(c->out, c->batch * c->m * c->n));
    h->gemm[0] = gemm_of(c, c->forward);
    int bias = has_bias(c->forward) ? hand_input(h, "bias", hand_vector(c->out, c->n)) : -1;
    int aux = hand_temp(h, "aux", hand_vector(PD_U8, c->m * c->n * prog_dtype_bytes(c->out)));
    int ws = hand_temp(h, "workspace", hand_vector(PD_U8, 4 << 20));
    h->p.ngemms = 1;
    if (c->forward == PE_GELU_AUX)
        hand_step(h, PS_GEMM, 0, 5, a, b, out, aux, ws);
    else if (c->forward == PE_GELU_AUX_BIAS)
        hand_step(h, PS_GEMM, 0, 6, a, b, out, bias, aux, ws);
    else if (bias >= 0)
        hand_step(h, PS_GEMM, 0, 5, a, b, out, bias, ws);
    else
        hand_step(h, PS_GEMM, 0, 4, a, b, out, ws);
    if (!c->backward) return bias;
    int d = hand_output(h, "d", hand_vector(c->out, c->m * c->n));
    h->gemm[1] = gemm_of(c, c->backward);
    h->p.ngemms = 2;
    hand_step(h, PS_GEMM, 1, 5, a, b, d, aux, ws);
    return bias;
}

static void reference(const Case *c, const double *a, const double *b, double *out)
{
    for (int64_t t = 0; t < c->batch; t++)
        for (int64_t i = 0; i < c->m; i++)
            for (int64_t j = 0; j < c->n; j++) {
                double s = 0;
                for (int64_t k = 0; k < c->k; k++)
                    s += a[t * c->m * c->k + (c->ta ? k * c->m + i : i * c->k + k)] *
                         b[t * c->k * c->n + (c->tb ? j * c->k + k : k * c->n + j)];
                out[(t * c->m + i) * c->n + j] = s;
            }
}

typedef struct Data {
    double *a, *b, *bias, *sum; // host values
    void *ta, *tb, *tbias, *out, *out2;
} Data;

static double expected(const Case *c, ProgEpilogue ep, const Data *d, int64_t i)
{
    double s = d->sum[i], pre = s + d->bias[i % c->n];
    switch (ep) {
    case PE_BIAS: return pre;
    case PE_RELU: return s > 0 ? s : 0;
    case PE_RELU_BIAS: return pre > 0 ? pre : 0;
    case PE_GELU:
    case PE_GELU_AUX: return gelu(s);
    case PE_GELU_BIAS:
    case PE_GELU_AUX_BIAS: return gelu(pre);
    case PE_DGELU: return s * dgelu(c->forward == PE_GELU_AUX ? s : pre);
    default: return s;
    }
}

static void compare(const char *name, const Case *c, ProgEpilogue ep, const Data *d,
                    const void *got)
{
    bool smooth = ep == PE_GELU || ep == PE_GELU_BIAS || ep == PE_GELU_AUX_BIAS ||
                  ep == PE_GELU_AUX || ep == PE_DGELU;
    double worst = 0;
    int64_t at = -1, n = c->batch * c->m * c->n;
    for (int64_t i = 0; i < n; i++) {
        double want = expected(c, ep, d, i), v = get(got, c->out, i);
        double pre = fabs(d->sum[i]) + fabs(d->bias[i % c->n]);
        double tol = half_step(c->out) * (fabs(want) + 1e-3) * 1.01;
        // with split sums the library rounds the product to the type of c before the epilogue
        if (ep != PE_NONE) tol += half_step(c->out) * fabs(d->sum[i]);
        // gelu: the library's tanh is an approximation, and aux is rounded to the type of c
        if (smooth) tol += (2e-3 + 4 * half_step(c->out)) * (1 + pre);
        double err = isnan(v) ? INFINITY : fabs(v - want) / tol;
        if (err > worst) {
            worst = err;
            at = i;
        }
    }
    CHECK_MSG(worst <= 1, "%s (%s): element %lld is %g, expected %g", name, epilogue_names[ep],
              (long long)at, get(got, c->out, at), expected(c, ep, d, at));
}

static void execute(const char *name, const Case *c, Loaded *l, Data *d, int bias)
{
    RtError e = {0};
    int64_t nout = c->batch * c->m * c->n;
    size_t width = (size_t)prog_dtype_bytes(c->out);
    RtInput in[] = {{"a", d->ta, false}, {"b", d->tb, false}, {"bias", d->tbias, false}};
    for (int round = 0; round < 2; round++) { // the second as a graph
        CHECK_MSG(rt_run(l->s, l->p, "main", in, bias >= 0 ? 3 : 2, 2, &e) == RT_OK, "%s: %s", name,
                  e.text);
        CHECK_MSG(rt_sync(l->s, &e) == RT_OK, "%s: %s", name, e.text);
        if (e.code) return;
        CHECK(rt_output_read(l->s, l->p, "main", "c", d->out, (size_t)nout * width, &e) == RT_OK);
        compare(name, c, c->forward, d, d->out);
        if (c->backward) {
            CHECK(rt_output_read(l->s, l->p, "main", "d", d->out2, (size_t)nout * width, &e) ==
                  RT_OK);
            compare(name, c, c->backward, d, d->out2);
        }
    }
    const char *why = "";
    CHECK_MSG(rt_uses_cuda_graph(l->s, l->p, "main", &why), "%s: %s", name, why);
}

static void run_case(const Case *c)
{
    char name[160];
    Hand h;
    Loaded l;
    RtError e = {0};
    name_case(c, name, sizeof name);
    int bias = build(&h, c);
    int64_t na = c->batch * c->m * c->k, nb = c->batch * c->k * c->n, nc = c->batch * c->m * c->n;
    Data d = {calloc((size_t)na, 8),    calloc((size_t)nb, 8),  calloc((size_t)c->n, 8),
              calloc((size_t)nc, 8),    malloc((size_t)na * 8), malloc((size_t)nb * 8),
              malloc((size_t)c->n * 8), malloc((size_t)nc * 8), malloc((size_t)nc * 8)};
    for (int64_t i = 0; i < na; i++) put(d.ta, c->in, i, d.a[i] = draw());
    for (int64_t i = 0; i < nb; i++) put(d.tb, c->in, i, d.b[i] = draw());
    if (has_bias(c->forward))
        for (int64_t i = 0; i < c->n; i++) // never the negative of a sum: relu has no kink to hit
            put(d.tbias, c->out, i, d.bias[i] = draw() + 1.0 / 128);
    reference(c, d.a, d.b, d.sum);
    RtCode code = hand_load(device, &h, NULL, 0, NULL, &l, &e);
    if (code == RT_ENV && c->may_lack && strstr(e.text, "no algorithm") &&
        strstr(e.text, "hand.net:9")) {
        printf("skipped: %s: the library has none\n", name);
        unit_skipped++;
    } else {
        CHECK_MSG(code == RT_OK, "%s: %s", name, e.text);
        if (!code) execute(name, c, &l, &d, bias);
    }
    hand_unload(&l);
    free(d.a), free(d.b), free(d.bias), free(d.sum), free(d.ta), free(d.tb), free(d.tbias),
        free(d.out);
    free(d.out2);
}

// What was measured is a line; loading with it takes it over without measuring.
static void test_choices(void)
{
    const Case c = {PD_F32, PD_F32, false, false,        true,    128,
                    128,    784,    1,     PE_RELU_BIAS, PE_NONE, false};
    Hand h;
    Loaded l;
    RtError e = {0};
    Arena *a = arena_new();
    build(&h, &c);
    h.p.choices = "other thing: 7\n";
    CHECK_MSG(hand_load(device, &h, NULL, 0, NULL, &l, &e) == RT_OK, "%s", e.text);
    if (e.code) return;
    const char *first = arena_strdup(a, rt_choices(l.p, a));
    hand_unload(&l);
    printf("%s", first);
    CHECK(!strncmp(first, "other thing: 7\ngemm hand 1", 26) &&
          strstr(first, rt_device_model(device)));
    char *changed = arena_strdup(a, first), *other = strstr(changed, "gemm hand 1");
    h.p.choices = first;
    CHECK(hand_load(device, &h, NULL, 0, NULL, &l, &e) == RT_OK);
    CHECK(!strcmp(rt_choices(l.p, a), first));
    hand_unload(&l);
    // A damaged line is measured again.
    char *hex = strchr(other, ':') + 2;
    memset(hex, 'f', 128);
    h.p.choices = changed;
    CHECK_MSG(hand_load(device, &h, NULL, 0, NULL, &l, &e) == RT_OK, "%s", e.text);
    CHECK(strcmp(rt_choices(l.p, a), changed) != 0);
    hand_unload(&l);
    arena_free(a);
}

int main(void)
{
    RtError e = {0};
    const char *require = getenv("REQUIRE_GPU");
    if (rt_device_open("cuda:0", NULL, &device, &e)) {
        bool fail = require && !strcmp(require, "1");
        printf("%s: %s\n0 passed, %d failed, %d skipped\n", fail ? "failed" : "skipped", e.text,
               fail, !fail);
        return fail;
    }
    static const struct {
        ProgDType in, out;
        bool tf32;
    } types[] = {{PD_F32, PD_F32, false},   {PD_F32, PD_F32, true},  {PD_F64, PD_F64, false},
                 {PD_BF16, PD_BF16, false}, {PD_F16, PD_F16, false}, {PD_BF16, PD_F32, false}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        Case c = {.in = types[t].in, .out = types[t].out, .tf32 = types[t].tf32, .batch = 1};
        // shapes and transposes, plain
        static const int64_t shapes[][4] = {{128, 128, 784, 1}, {128, 10, 128, 1}, {5, 7, 3, 1},
                                            {1, 33, 64, 1},     {64, 1, 17, 1},    {12, 20, 40, 3}};
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int tr = 0; tr < 4; tr++) {
                c.m = shapes[s][0], c.n = shapes[s][1], c.k = shapes[s][2], c.batch = shapes[s][3];
                c.ta = tr & 1, c.tb = tr >> 1;
                bool odd = c.in != PD_F32 && c.in != PD_F64 && (c.m | c.n | c.k) % 2;
                c.may_lack = odd;
                run_case(&c);
            }
        if (c.in == PD_F64) continue;
        // epilogues on what a linear layer does: x (m, k) times w (n, k) transposed
        static const int64_t layers[][3] = {{128, 128, 784}, {128, 10, 128}, {96, 72, 40}};
        for (size_t s = 0; s < sizeof layers / sizeof *layers; s++)
            for (int ep = PE_BIAS; ep <= PE_GELU_AUX; ep++) {
                if (ep == PE_DGELU) continue; // a gradient
                c = (Case){types[t].in, types[t].out,     types[t].tf32, false,
                           true,        layers[s][0],     layers[s][1],  layers[s][2],
                           1,           (ProgEpilogue)ep, PE_NONE,       false};
                c.may_lack = ep > PE_RELU_BIAS;
                if (ep == PE_GELU_AUX_BIAS || ep == PE_GELU_AUX) c.backward = PE_DGELU;
                run_case(&c);
            }
    }
    test_choices();
    rt_device_close(device);
    printf("%d passed, %d failed, %d skipped\n", unit_passed, unit_failed, unit_skipped);
    return unit_failed != 0;
}
