// Convolutions and pooling, their gradients and the gradients of weights, in one to three
// dimensions, at random sizes, strides, dilations and paddings, some of more rows, columns and
// channels than one task, tile or vector takes: beside loops written out here, and to the bit the
// same by one thread and by several. On the device DEVICE (cpu).
#include <math.h>
#include <stdio.h>

#include "tests/unit/api.h"

enum { MODELS = 20, MOST = 1 << 18 };

static unsigned seed = 20261125;

static int any(int least, int most)
{
    seed = seed * 1664525u + 1013904223u;
    return least + (int)(seed >> 8) % (most - least + 1);
}

// Axes that are not there have one element, and windows of one.
typedef struct Sizes {
    int n, b, c, o;
    int size[3], kernel[3], stride[3], dilation[3], low[3], high[3], places[3];
    int pool[3], step[3], pooled[3];
} Sizes;

static Sizes any_sizes(int number)
{
    Sizes s = {.n = any(1, 3)};
    const bool deep = number % 4 == 1, wide = number % 4 == 2; // many terms, many places
    s.b = number % 3 ? any(1, 3) : 1;
    s.c = deep ? any(120, 160) : any(1, 9);
    s.o = number % 5 == 3 ? any(17, 40) : any(1, 11);
    for (int i = 0; i < 3; i++) {
        const bool there = i >= 3 - s.n;
        s.kernel[i] = !there ? 1
                             : any(deep && s.n == 1 ? 9
                                   : deep           ? 3
                                                    : 1,
                                   deep      ? s.n == 1 ? 11 : 3
                                   : s.n > 2 ? 3
                                             : 5);
        s.stride[i] = there ? any(1, 3) : 1;
        s.dilation[i] = there && any(0, 2) == 0 ? 2 : 1;
        s.low[i] = there ? any(0, 3) : 0;
        s.high[i] = there ? any(0, 2) : 0;
        const int reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
        int least = reach - s.low[i] - s.high[i];
        if (least < 2) least = there ? 2 : 1;
        const int more = !there ? 0 : !wide ? 6 : s.n == 1 ? 3000 : s.n == 2 ? 60 : 12;
        s.size[i] = least + any(more / 2, more);
        s.places[i] = (s.size[i] + s.low[i] + s.high[i] - reach) / s.stride[i] + 1;
        s.pool[i] = there ? any(1, s.size[i] < 5 ? 2 : s.n > 2 ? 2 : 5) : 1;
        s.step[i] = there ? any(1, 3) : 1;
        s.pooled[i] = (s.size[i] - s.pool[i]) / s.step[i] + 1;
    }
    return s;
}

static size_t say_dims(char *at, size_t room, const char *before, int first, const int *dim, int n,
                       int last)
{
    size_t k = (size_t)snprintf(at, room, "%s%d", before, first);
    for (int i = 3 - n; i < 3; i++) k += (size_t)snprintf(at + k, room - k, ", %d", dim[i]);
    return k + (size_t)snprintf(at + k, room - k, ", %d]", last);
}

static size_t say_list(char *at, size_t room, const char *before, const int *of, int n)
{
    size_t k = (size_t)snprintf(at, room, "%s[", before);
    for (int i = 3 - n; i < 3; i++)
        k += (size_t)snprintf(at + k, room - k, "%s%d", i > 3 - n ? ", " : "", of[i]);
    return k + (size_t)snprintf(at + k, room - k, "]");
}

static void write_text(const Sizes *s, char *t, size_t room)
{
    size_t n = (size_t)snprintf(t, room, "use conv\nmodel m(");
    n += say_dims(t + n, room - n, "x: f32[", s->b, s->size, s->n, s->c);
    n += say_dims(t + n, room - n, ", k: f32[", s->o, s->kernel, s->n, s->c);
    n += say_dims(t + n, room - n, ", g: f32[", s->b, s->places, s->n, s->o);
    n += say_dims(t + n, room - n, ", h: f32[", s->b, s->pooled, s->n, s->c);
    n += say_list(t + n, room - n, ") {\n    y = convolve(x, k, stride = ", s->stride, s->n);
    n += say_list(t + n, room - n, ", dilation = ", s->dilation, s->n);
    n += (size_t)snprintf(t + n, room - n, ", padding = [");
    for (int i = 3 - s->n; i < 3; i++)
        n += (size_t)snprintf(t + n, room - n, "%s[%d, %d]", i > 3 - s->n ? ", " : "", s->low[i],
                              s->high[i]);
    n += say_list(t + n, room - n, "])\n    p = max_pool(x, ", s->pool, s->n);
    n += say_list(t + n, room - n, ", stride = ", s->step, s->n);
    snprintf(t + n, room - n,
             ")\n    return y, dx = grad(sum(y * g), x), dk = grad(sum(y * g), k), p,\n"
             "           dp = grad(sum(p * h), x)\n}\n");
}

// -- the same, written out ------------------------------------------------------------------------
enum { X, K, G, H, INPUTS, Y = 0, DX, DK, P, DP, OUTPUTS };
static float in[INPUTS][MOST], out[2][OUTPUTS][MOST], want[OUTPUTS][MOST];
static int64_t count[OUTPUTS];

// The place in x of a window's element; -1: outside.
static int64_t place(const Sizes *s, int image, const int *at, const int *k, const int *stride,
                     const int *dilation, const int *low)
{
    int64_t p = image;
    for (int i = 0; i < 3; i++) {
        const int v = at[i] * stride[i] + k[i] * dilation[i] - low[i];
        if (v < 0 || v >= s->size[i]) return -1;
        p = p * s->size[i] + v;
    }
    return p * s->c;
}

#define EACH(a, dim)                                                                               \
    for (a[0] = 0; a[0] < (dim)[0]; a[0]++)                                                        \
        for (a[1] = 0; a[1] < (dim)[1]; a[1]++)                                                    \
            for (a[2] = 0; a[2] < (dim)[2]; a[2]++)

static void convolve(const Sizes *s)
{
    int at[3], k[3];
    int64_t y = 0;
    for (int image = 0; image < s->b; image++) EACH(at, s->places)
    for (int o = 0; o < s->o; o++, y++) {
        int64_t w = (int64_t)o * s->kernel[0] * s->kernel[1] * s->kernel[2] * s->c;
        EACH(k, s->kernel)
        {
            const int64_t x = place(s, image, at, k, s->stride, s->dilation, s->low);
            for (int c = 0; c < s->c; c++, w++) {
                if (x < 0) continue;
                want[Y][y] += in[X][x + c] * in[K][w];
                want[DX][x + c] += in[G][y] * in[K][w];
                want[DK][w] += in[G][y] * in[X][x + c];
            }
        }
    }
    count[Y] = y;
}

static void pool(const Sizes *s)
{
    static const int one[3] = {1, 1, 1}, none[3] = {0};
    int at[3], k[3];
    int64_t y = 0;
    for (int image = 0; image < s->b; image++) EACH(at, s->pooled)
    for (int c = 0; c < s->c; c++, y++) {
        int64_t first = -1;
        EACH(k, s->pool)
        {
            const int64_t x = place(s, image, at, k, s->step, one, none) + c;
            if (first < 0 || in[X][x] > in[X][first] || (isnan(in[X][x]) && !isnan(in[X][first])))
                first = x;
        }
        want[P][y] = in[X][first];
        want[DP][first] += in[H][y];
    }
    count[P] = y;
}

// -- runs -----------------------------------------------------------------------------------------
static void run(const char *text, const char *threads, float (*result)[MOST])
{
    static const char *const inputs[] = {"x", "k", "g", "h"}, *const outputs[] = {"y", "dx", "dk",
                                                                                  "p", "dp"};
    const char *device = getenv("DEVICE");
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    setenv("OMP_NUM_THREADS", threads, 1);
    FINE(netc_compile_text(ctx, "convolve.net", text, NULL, &p, &err));
    FINE(netc_session_create(p, device ? device : "cpu", NULL, &s, &err));
    for (int i = 0; i < INPUTS; i++) {
        netc_port port;
        for (int k = 0; k < netc_input_count(p, "m"); k++) {
            FINE(netc_input_info(p, "m", k, &port, &err));
            if (!strcmp(port.name, inputs[i])) break;
        }
        netc_tensor t = {.dtype = NETC_F32, .rank = port.rank, .data = in[i]};
        memcpy(t.dim, port.dim, sizeof port.dim);
        FINE(netc_bind(s, "m", inputs[i], &t, &err));
    }
    FINE(netc_run(s, "m", 1, &err));
    for (int i = 0; i < OUTPUTS; i++) {
        netc_port port;
        for (int k = 0; k < netc_output_count(p, "m"); k++) {
            FINE(netc_output_info(p, "m", k, &port, &err));
            if (!strcmp(port.name, outputs[i])) break;
        }
        netc_tensor t = {.dtype = NETC_F32, .rank = port.rank, .data = result[i]};
        memcpy(t.dim, port.dim, sizeof port.dim);
        count[i] = 1;
        for (int k = 0; k < port.rank; k++) count[i] *= port.dim[k];
        CHECK(count[i] <= MOST);
        FINE(netc_read(s, "m", outputs[i], &t, &err));
    }
    netc_session_free(s);
    netc_program_release(p);
}

static void fill(bool whole)
{
    for (int i = 0; i < INPUTS; i++)
        for (int k = 0; k < MOST; k++)
            in[i][k] = whole ? (float)any(-2, 2) : (float)any(-9999, 9999) / 7777; // whole: exact
}

static void random_sizes(void)
{
    static const char *const name[] = {"y", "dx", "dk", "p", "dp"};
    for (int number = 0; number < MODELS; number++) {
        char text[2000];
        const Sizes s = any_sizes(number);
        const int failures = unit_failed;
        write_text(&s, text, sizeof text);
        fill(true);
        for (int k = 0; k < MOST && number % 2; k += any(20, 60))
            in[X][k] = in[X][k] < 0 ? -2.0f : 2.0f;
        memset(want, 0, sizeof want);
        convolve(&s);
        pool(&s);
        const int64_t ys = count[Y], ps = count[P];
        run(text, "3", out[0]);
        CHECK(count[Y] == ys && count[P] == ps);
        for (int i = 0; i < OUTPUTS; i++) {
            int64_t k = 0;
            while (k < count[i] && out[0][i][k] == want[i][k]) k++;
            CHECK_MSG(k == count[i], "%s[%lld] is %g, not %g", name[i], (long long)k, out[0][i][k],
                      want[i][k]);
        }
        fill(false);
        run(text, "1", out[0]);
        run(text, "3", out[1]);
        for (int i = 0; i < OUTPUTS; i++)
            CHECK_MSG(!memcmp(out[0][i], out[1][i], sizeof(float) * (size_t)count[i]),
                      "%s: other bits by three threads", name[i]);
        if (unit_failed > failures) printf("%s", text);
    }
}

// The first of equals, and of NaN, takes the gradient.
static void not_numbers(void)
{
    const Sizes s = {.n = 2,
                     .b = 2,
                     .c = 5,
                     .o = 1,
                     .size = {1, 7, 9},
                     .kernel = {1, 1, 1},
                     .stride = {1, 1, 1},
                     .dilation = {1, 1, 1},
                     .places = {1, 7, 9},
                     .pool = {1, 3, 2},
                     .step = {1, 2, 1},
                     .pooled = {1, 3, 8}};
    char text[2000];
    write_text(&s, text, sizeof text);
    fill(true);
    for (int k = 0; k < MOST; k += any(1, 5)) in[X][k] = any(0, 1) ? NAN : -INFINITY;
    memset(want, 0, sizeof want);
    pool(&s);
    run(text, "2", out[0]);
    for (int i = P; i <= DP; i++)
        for (int64_t k = 0; k < count[i]; k++)
            CHECK_MSG(out[0][i][k] == want[i][k] || (isnan(out[0][i][k]) && isnan(want[i][k])),
                      "output %d[%lld] is %g, not %g", i, (long long)k, out[0][i][k], want[i][k]);
}

int main(void)
{
    return api_main((void (*const[])(void)){random_sizes, not_numbers, NULL});
}
