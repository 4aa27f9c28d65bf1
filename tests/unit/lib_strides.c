// Gradients of convolutions' inputs and of what zeros stand around, at random strides, dilations,
// paddings and sizes in one to three dimensions: for any v, the gradient times v is what the loss,
// which is linear, makes of v. On the device DEVICE (cpu).
#include <math.h>
#include <stdio.h>

#include "tests/unit/api.h"

enum { MODELS = 24, MOST = 1 << 14 };

static unsigned seed = 20261124;

static int any(int least, int most)
{
    seed = seed * 1664525u + 1013904223u;
    return least + (int)(seed >> 8) % (most - least + 1);
}

typedef struct Text {
    char at[MODELS * 1000];
    size_t n;
} Text;

#define SAY(t, ...)                                                                                \
    ((t)->n += (size_t)snprintf((t)->at + (t)->n, sizeof(t)->at - (t)->n, __VA_ARGS__))

static void say_list(Text *t, const char *name, const int *of, int n)
{
    SAY(t, "    %s = [", name);
    for (int i = 0; i < n; i++) SAY(t, "%s%d", i ? ", " : "", of[i]);
    SAY(t, "]\n");
}

static void say_shape(Text *t, const char *name, int first, const int *dim, int n, int last)
{
    SAY(t, "%s: f32[%d", name, first);
    for (int i = 0; i < n; i++) SAY(t, ", %d", dim[i]);
    SAY(t, ", %d]", last);
}

static void say_model(Text *t, int number)
{
    int n = any(1, 3), size[3], kernel[3], stride[3], dilation[3], low[3], high[3], padded[3],
        places[3], b = any(1, 2), c = any(1, 4), o = any(1, 4);
    bool meet = false; // (windows that do not are other views, which see through what is padded)
    for (int i = 0; i < n; i++) {
        kernel[i] = any(1, n > 2 ? 4 : 6);
        stride[i] = any(1, 4);
        dilation[i] = any(1, 3) > 2 ? 2 : 1;
        low[i] = any(0, 4);
        high[i] = any(0, 3);
        int reach = (kernel[i] - 1) * dilation[i] + 1, least = reach - low[i] - high[i];
        size[i] = any(least > 1 ? least : 1, (least > 1 ? least : 1) + (n > 2 ? 4 : 9));
        padded[i] = size[i] + low[i] + high[i];
        meet |= kernel[i] > 1 && (dilation[i] > 1 || stride[i] != kernel[i]);
        places[i] = (padded[i] - reach) / stride[i] + 1;
    }
    SAY(t, "model m%d(", number);
    say_shape(t, "x", b, size, n, c);
    say_shape(t, ", v", b, size, n, c);
    say_shape(t, ", u", b, padded, n, c);
    say_shape(t, ", k", o, kernel, n, c);
    say_shape(t, ", g", b, places, n, o);
    SAY(t, ") {\n");
    say_list(t, "steps", stride, n);
    say_list(t, "apart", dilation, n);
    SAY(t, "    around = [");
    for (int i = 0; i < n; i++) SAY(t, "%s[%d, %d]", i ? ", " : "", low[i], high[i]);
    SAY(t,
        "]\n    low, high = [0], [0]\n"
        "    for a in around { low, high = low + [a[0]], high + [a[1]] }\n"
        "    p = %s\n"
        "    return dx = sum(grad(onto(x, k, g, steps, around, apart), x) * v),\n"
        "           of_v = onto(v, k, g, steps, around, apart),\n"
        "           dp = sum(grad(onto(p, k, g, steps, \"valid\", apart), p) * u),\n"
        "           of_u = onto(u, k, g, steps, \"valid\", apart)\n}\n",
        meet ? "pad(x, low + [0], high + [0])" : "u");
}

static float of_model(netc_session *s, const char *entry, const char *name)
{
    netc_error *err = NULL;
    float y = NAN;
    netc_tensor out = {.dtype = NETC_F32, .data = &y};
    FINE(netc_read(s, entry, name, &out, &err));
    return y;
}

static void run_model(netc_program *p, netc_session *s, int number)
{
    static float data[MOST];
    char entry[8];
    netc_error *err = NULL;
    snprintf(entry, sizeof entry, "m%d", number);
    for (int k = 0; k < netc_input_count(p, entry); k++) {
        netc_port port;
        FINE(netc_input_info(p, entry, k, &port, &err));
        netc_tensor in = {.dtype = port.dtype, .rank = port.rank, .data = data};
        memcpy(in.dim, port.dim, sizeof port.dim);
        int64_t n = 1;
        for (int i = 0; i < port.rank; i++) n *= port.dim[i];
        CHECK(n <= MOST);
        for (int64_t i = 0; i < n && i < MOST; i++) data[i] = (float)any(-2, 2); // sums are exact
        FINE(netc_bind(s, entry, port.name, &in, &err));
    }
    FINE(netc_run(s, entry, 1, &err));
    float dx = of_model(s, entry, "dx"), v = of_model(s, entry, "of_v"),
          dp = of_model(s, entry, "dp"), u = of_model(s, entry, "of_u");
    CHECK_MSG(dx == v && dp == u, "%s: %g is not %g, or %g not %g", entry, dx, v, dp, u);
}

static void adjoint(void)
{
    static Text t;
    const char *device = getenv("DEVICE");
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    SAY(&t, "use conv\nfn onto(x, k, g, steps, around, apart) {\n"
            "    return sum(convolve(x, k, stride = steps, padding = around, dilation = apart) * "
            "g)\n}\n");
    for (int i = 0; i < MODELS; i++) say_model(&t, i);
    FINE(netc_compile_text(ctx, "strides.net", t.at, NULL, &p, &err));
    FINE(netc_session_create(p, device ? device : "cpu", NULL, &s, &err));
    int failures = unit_failed;
    for (int i = 0; i < MODELS; i++) run_model(p, s, i);
    if (unit_failed > failures) printf("%s", t.at);
    netc_session_free(s);
    netc_program_release(p);
}

int main(void)
{
    return api_main((void (*const[])(void)){adjoint, NULL});
}
