// The C prelude's functions against the C library in more digits: over random bits, over everyday
// numbers and at special ones, with fused products and without; and an element alone has the bits
// it has in a vector.
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/kernel.h"
#include "tests/unit/unit.h"

enum { N = 20011, SETS = 4 };

typedef struct Function {
    const char *name;
    long double (*right)(long double);
    bool narrow;        // f32
    double error[SETS]; // the largest allowed, in units of the last place: of each set of inputs
} Function;

static long double sigmoidl(long double a)
{
    return a >= 0 ? 1 / (1 + expl(-a)) : expl(a) / (1 + expl(a));
}

static long double rsqrtl(long double a)
{
    return 1 / sqrtl(a);
}
static long double seventhl(long double a)
{
    return a / 7;
}

// Sets: random bits; within -1..1; within -40..40; near multiples of a quarter turn. Of twelve
// million numbers in -40..40 the worst were 1.57 (sin, cos) and 7.95 (erf, near 3.6).
static const Function functions[] = {
    {"sin_f", sinl, true, {1.6, 1.6, 1.6, 1.6}},
    {"cos_f", cosl, true, {1.6, 1.6, 1.6, 1.6}},
    {"sin_called_f", sinl, true, {1.6, 1.6, 1.6, 1.6}},
    {"cos_called_f", cosl, true, {1.6, 1.6, 1.6, 1.6}},
    {"exp_f", expl, true, {2, 2, 2, 2}},
    {"log_f", logl, true, {2, 2, 2, 2}},
    {"expm1_f", expm1l, true, {3, 3, 3, 3}},
    {"log1p_f", log1pl, true, {4, 4, 4, 4}},
    {"tanh_f", tanhl, true, {3, 3, 3, 3}},
    {"erf_f", erfl, true, {8, 8, 8, 8}},
    {"sigmoid_f", sigmoidl, true, {4, 4, 4, 4}},
    {"rsqrt_f", rsqrtl, true, {1.5, 1.5, 1.5, 1.5}},
    {"seventh_f", seventhl, true, {1.5, 0.5, 0.5, 0.5}},
    {"sin_d", sinl, false, {1.5, 1.5, 1.5, 1.5}},
    {"cos_d", cosl, false, {1.5, 1.5, 1.5, 1.5}},
    {"sin_called_d", sinl, false, {1.5, 1.5, 1.5, 1.5}},
    {"cos_called_d", cosl, false, {1.5, 1.5, 1.5, 1.5}},
    {"exp_d", expl, false, {1, 1, 1, 1}},
    {"expm1_d", expm1l, false, {2, 2, 2, 2}},
    {"log_d", logl, false, {1, 1, 1, 1}},
    {"log1p_d", log1pl, false, {1.5, 1.5, 1.5, 1.5}},
    {"tanh_d", tanhl, false, {3, 3, 3, 3}},
    {"erf_d", erfl, false, {2, 2, 2, 2}},
    {"sigmoid_d", sigmoidl, false, {2.5, 2.5, 2.5, 2.5}},
};

static uint64_t state = 20261122;
static uint64_t bits(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state ^ state >> 29) * 0xbf58476d1ce4e5b9ull;
}

static double special(int i, bool narrow)
{
    static const double all[] = {0,         -0.0,        1,        -1,       INFINITY,
                                 -INFINITY, NAN,         0.5,      -0.5,     2,
                                 1e-30,     -1e-30,      88.8,     -104,     709.9,
                                 -745.2,    22,          6,        4,        0.625,
                                 -0.347,    0.7854,      0x1p-126, 0x1p-149, 0x1.fffffep127,
                                 1.5,       -0.99999994, 1e22};
    static const double wide[] = {0x1p-1022, 0x1p-1074, 0x1.fffffffffffffp1023, -1 + 0x1p-53};
    const int n = sizeof all / sizeof *all, m = sizeof wide / sizeof *wide;
    return narrow || i % (n + m) < n ? all[i % n] : wide[i % (n + m) - n];
}

static double input(int set, int i, bool narrow)
{
    uint64_t u = bits();
    double share = (double)(u >> 11) * 0x1p-53, v;
    if (i % 50 == 0) return special(i / 50, narrow);
    if (set == 0) {
        if (narrow) {
            float f;
            uint32_t w = (uint32_t)(u >> 32);
            memcpy(&f, &w, 4);
            return f;
        }
        memcpy(&v, &u, 8);
        return v;
    }
    if (set == 1) return share * 2 - 1;
    if (set == 2) return share * 80 - 40;
    return (double)(i / 3) * 1.57079632679489661923 * (1 + (i % 3 - 1) * 0x1p-24);
}

// Distance in units of the last place of the right result.
static double distance(double y, long double right, bool narrow)
{
    double nearest = narrow ? (double)(float)right : (double)right;
    if (isnan(nearest)) return isnan(y) ? 0 : INFINITY;
    if (y == nearest) return !signbit(y) == !signbit(nearest) || y != 0 ? 0 : INFINITY;
    if (isinf(nearest) || isinf(y)) { // the largest number for infinity, or the other way round
        double most = narrow ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
        return fabs(y) >= most && fabs(nearest) >= most && (y > 0) == (nearest > 0) ? 1 : INFINITY;
    }
    int e;
    frexp(nearest, &e);
    int least = narrow ? -149 : -1074, last = e - (narrow ? 24 : 53);
    return (double)fabsl(((long double)y - right) / ldexpl(1, last < least ? least : last));
}

typedef void Loop(const void *x, void *y, long n);

static void check_set(const Function *f, int set, Loop *loop, const char *flags)
{
    static double x[N], y[N], alone;
    static float xf[N], yf[N], alone_f;
    double worst = 0, where = 0;
    bool same = true;
    for (int i = 0; i < N; i++) {
        x[i] = input(set, i, f->narrow);
        xf[i] = (float)x[i];
        if (f->narrow) x[i] = xf[i];
    }
    loop(f->narrow ? (void *)xf : (void *)x, f->narrow ? (void *)yf : (void *)y, N);
    for (int i = 0; i < N; i++) {
        if (f->narrow) {
            loop(&xf[i], &alone_f, 1);
            same &= !memcmp(&alone_f, &yf[i], 4) || (alone_f != alone_f && yf[i] != yf[i]);
            y[i] = yf[i];
        } else {
            loop(&x[i], &alone, 1);
            same &= !memcmp(&alone, &y[i], 8) || (alone != alone && y[i] != y[i]);
        }
        double d = distance(y[i], f->right(x[i]), f->narrow);
        if (!(d <= worst)) {
            worst = d;
            where = x[i];
        }
    }
    if (getenv("SHOW")) printf("%-10s set %d: %.3f at %a%s\n", f->name, set, worst, where, flags);
    CHECK_MSG(worst <= f->error[set], "%s, set %d%s: off by %.3f of the last place at %a", f->name,
              set, flags, worst, where);
    CHECK_MSG(same, "%s, set %d%s: an element alone differs", f->name, set, flags);
}

// pow against the C library's in long double: everyday bases and exponents, random bits, and every
// pair of special numbers.
typedef void Loop2(const float *x, const float *b, float *y, long n);
static void check_pow(Loop2 *loop, const char *flags)
{
    static const float special[] = {0,     -0.0f,    1,         -1,        2,         -2,
                                    0.5f,  -3,       INFINITY,  -INFINITY, NAN,       0x1p-149f,
                                    3,     0x1p127f, 16777215,  16777216,  -16777218, 1.5f,
                                    -2.5f, 1e10f,    0x1p-126f, 127,       -149,      0.33333334f};
    enum { MOST = 24 };
    static float x[N], b[N], y[N];
    double worst = 0, at[2] = {0};
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i % 3 ? fabs(input(2, i + 1, true)) : input(0, i + 1, true));
        b[i] = (float)(i % 2 ? input(2, i + 1, true) : (double)(int)(bits() % 41) - 20);
        if (i < MOST * MOST) {
            x[i] = special[i % MOST];
            b[i] = special[i / MOST];
        }
    }
    loop(x, b, y, N);
    for (int i = 0; i < N; i++) {
        double d = distance(y[i], powl(x[i], b[i]), true);
        if (d <= worst) continue;
        worst = d;
        at[0] = x[i];
        at[1] = b[i];
    }
    CHECK_MSG(worst <= 1.25, "pow%s: off by %.3f of the last place at %a, %a", flags, worst, at[0],
              at[1]);
}

// The same of f64, with results of every size and powers of bases near 1.
typedef void Loop2d(const double *x, const double *b, double *y, long n);
static void check_pow_d(Loop2d *loop, const char *flags)
{
    static const double special[] = {
        0,         -0.0,  1,         -1,   2,        -2,      0.5,        -3,         INFINITY,
        -INFINITY, NAN,   0x1p-1074, 3,    0x1p1023, 0x1p53,  0x1p53 - 1, -0x1p52,    1.5,
        -2.5,      1e300, 0x1p-1022, 1023, -1074,    1.0 / 3, -1e-300,    1 - 0x1p-53};
    enum { MOST = sizeof special / sizeof *special };
    static double x[N], b[N], y[N];
    double worst = 0, at[2] = {0};
    for (int i = 0; i < N; i++) {
        double share = input(1, 3 * i + 1, false), other = input(1, 3 * i + 2, false);
        x[i] = i % 3 == 0   ? input(0, 3 * i + 1, false)
               : i % 3 == 1 ? exp(share * 3)
                            : 1 + share * 1e-3;
        b[i] = i % 3 == 0 ? (i % 2 ? share : trunc(share * 30)) : other * (i % 3 == 1 ? 240 : 1e6);
        if (i < MOST * MOST) {
            x[i] = special[i % MOST];
            b[i] = special[i / MOST];
        }
    }
    loop(x, b, y, N);
    for (int i = 0; i < N; i++) {
        double d = distance(y[i], powl(x[i], b[i]), false);
        if (d <= worst) continue;
        worst = d;
        at[0] = x[i];
        at[1] = b[i];
    }
    CHECK_MSG(worst <= 1.3, "pow of f64%s: off by %.3f of the last place at %a, %a", flags, worst,
              at[0], at[1]);
}

static void check_flags(Arena *a, const char *dir, const char *flags)
{
    const int n = sizeof functions / sizeof *functions;
    Target cpu = target_cpu(2, false);
    const char *src = arena_printf(a, "%s/m.c", dir),
               *so = arena_printf(a, "%s/m%s.so", dir, flags);
    FILE *f = fopen(src, "w");
    fputs(lower_prelude(a, &cpu, 0), f);
    fputs("NC_FN float nc_seventh_f(float a) { return nc_divide_by(a, 7, 1.0f / 7); }\n", f);
    for (int i = 0; i < n; i++) {
        const char *t = functions[i].narrow ? "float" : "double", *name = functions[i].name;
        fprintf(f,
                "void %s(const %s *restrict x, %s *restrict y, long n)\n{\n"
                "    #pragma omp simd\n    for (long i = 0; i < n; i++) y[i] = nc_%s(x[i]);\n}\n",
                name, t, t, name);
    }
    fputs(
        "void pow_f(const float *restrict x, const float *restrict b, float *restrict y, long n)\n"
        "{\n    #pragma omp simd\n    for (long i = 0; i < n; i++) y[i] = nc_pow_f(x[i], "
        "b[i]);\n}\n"
        "void pow_d(const double *restrict x, const double *restrict b, double *restrict y, long n)"
        "\n{\n    #pragma omp simd\n    for (long i = 0; i < n; i++) y[i] = nc_pow_d(x[i], "
        "b[i]);\n}\n"
        // What is left of f32 in a half, there and back by its bits and in arithmetic: how many
        // differ of those around where a digit is dropped, for every sign, exponent and leading
        // digits.
        "long halves(void)\n{\n    long wrong = 0;\n"
        "    static const uint32_t ends[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x1fff};\n"
        "    for (uint32_t u = 0; u < 1u << 19; u++)\n        for (int k = 0; k < 6; k++) {\n"
        "            float a = nc_from_bits(u << 13 | ends[k]), x = nc_round_f16(a), y = "
        "nc_h2f(nc_f2h(a));\n"
        "            wrong += nc_bits(x) != nc_bits(y) && (x == x || y == y);\n        }\n"
        "    return wrong;\n}\n"
        // Runs of halves as floats and back, and floats as halves: all halves, and floats around
        // where digits are dropped, NaN too, in runs of every length; how many are not those of the
        // functions of one element, to the bit (of rounded NaNs: not NaN).
        "long runs(void)\n{\n    long wrong = 0;\n    uint32_t u = 1;\n"
        "    for (long n = 0, at = 0; at < 1 << 17; at += n, n = n % 61 + 1) {\n"
        "        uint16_t h[64], back[64];\n        float f[64], x[64], round[64];\n"
        "        for (long k = 0; k < n; k++) {\n"
        "            h[k] = (uint16_t)(at + k);\n            u = u * 1664525u + 1013904223u;\n"
        "            static const uint32_t ends[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x1fff};\n"
        "            uint32_t exact = nc_bits(nc_h2f((uint16_t)(u >> 16)));\n"
        "            x[k] = round[k] = nc_from_bits(u >> 8 & 1 ? exact | ends[(u >> 9) % 6]\n"
        "                                         : u >> 10 & 1 ? exact + 0xfff : u);\n        }\n"
        "        nc_floats_of(f, h, n);\n        nc_halves_of(back, x, n);\n"
        "        nc_round_halves(round, n);\n"
        "        for (long k = 0; k < n; k++) {\n"
        "            float r = nc_h2f(nc_f2h(x[k]));\n"
        "            wrong += nc_bits(f[k]) != nc_bits(nc_h2f(h[k])) || back[k] != nc_f2h(x[k]) "
        "||\n"
        "                     (nc_bits(round[k]) != nc_bits(r) && (round[k] == round[k] || r == "
        "r));\n"
        "        }\n    }\n    return wrong;\n}\n"
        // Pairs whose order as integers is not that of nc_max_f, or that do not come back.
        "long orders(const float *x, long n)\n{\n    long wrong = 0;\n"
        "    for (long i = 0; i + 1 < n; i++) {\n"
        "        float a = x[i], b = x[i + 1], top = nc_max_f(a, b);\n"
        "        float y = nc_in_order_f(nc_max_i(nc_order_f(a), nc_order_f(b)));\n"
        "        double z = nc_in_order_d(nc_max_l(nc_order_d(a), nc_order_d(b)));\n"
        "        wrong += (y != top && (y == y || top == top)) || (z != top && (z == z || top == "
        "top));\n    }\n"
        // ... and of 16-bit floats: all of them, each beside 16 others.
        "    for (uint32_t u = 0; u < 1u << 20; u++) {\n"
        "        uint16_t p = (uint16_t)u, q = (uint16_t)(u * 40503u >> 4);\n"
        "        float top = nc_max_f(nc_h2f(p), nc_h2f(q)), wide = nc_max_f(nc_b2f(p), "
        "nc_b2f(q));\n"
        "        float y = nc_in_order_h(nc_max_s(nc_order_h(p), nc_order_h(q)));\n"
        "        float z = nc_in_order_b(nc_max_s(nc_order_b(p), nc_order_b(q)));\n"
        "        wrong += (y != top && (y == y || top == top)) || (z != wide && (z == z || wide == "
        "wide));\n    }\n    return wrong;\n}\n",
        f);
    fclose(f);
    // as runtime/cpu/cpu_cc.c compiles kernels
    int rc = system(arena_printf(
        a,
        "${CC:-cc} -std=gnu17 -O2 -ftree-vectorize %s -fopenmp-simd -ffp-contract=off -fPIC "
        "-fno-math-errno -fno-trapping-math --param=max-jump-thread-duplication-stmts=0 -w -shared "
        "-o '%s' %s -lm",
        flags, so, src));
    CHECK_MSG(rc == 0, "cc failed on %s", src);
    void *lib = rc == 0 ? dlopen(so, RTLD_NOW) : NULL;
    for (int i = 0; lib && i < n; i++) {
        Loop *loop;
        *(void **)&loop = dlsym(lib, functions[i].name);
        for (int set = 0; set < SETS; set++) check_set(&functions[i], set, loop, flags);
    }
    Loop2 *pow = NULL;
    if (lib) *(void **)&pow = dlsym(lib, "pow_f");
    if (pow) check_pow(pow, flags);
    Loop2d *wide_pow = NULL;
    if (lib) *(void **)&wide_pow = dlsym(lib, "pow_d");
    if (wide_pow) check_pow_d(wide_pow, flags);
    long (*halves)(void) = NULL, (*runs)(void) = NULL, (*orders)(const float *, long) = NULL;
    if (lib) *(void **)&halves = dlsym(lib, "halves");
    if (lib) *(void **)&runs = dlsym(lib, "runs");
    if (lib) *(void **)&orders = dlsym(lib, "orders");
    static float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)input(i % 3 ? 0 : 2, i, true);
    if (halves) CHECK_MSG(halves() == 0, "%ld halves%s", halves(), flags);
    if (runs) CHECK_MSG(runs() == 0, "%ld halves in runs%s", runs(), flags);
    if (orders) CHECK_MSG(orders(x, N) == 0, "%ld pairs out of order%s", orders(x, N), flags);
    unlink(src);
    unlink(so);
}

int main(void)
{
    Arena *a = arena_new();
    char dir[] = "/tmp/netc_math_XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    check_flags(a, dir, " -march=native");
    check_flags(a, dir, ""); // no fused products on x86
    rmdir(dir);
    arena_free(a);
    return unit_done();
}
