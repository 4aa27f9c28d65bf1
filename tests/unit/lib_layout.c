// Gradients of pooling and shuffled pixels before convolutions: stored as the image that is read
// (passes/layout.c), and as they are computed, to the bit, at random sizes; on the device DEVICE
// (cpu). And that the pass does change what is stored.
#include <stdio.h>

#include "tests/unit/api.h"

enum { MOST = 1 << 16, PROGRAMS = 12 };

static unsigned seed = 20261124;

static int any(int least, int most)
{
    seed = seed * 1664525u + 1013904223u;
    return least + (int)(seed >> 8) % (most - least + 1);
}

// Pooling of any size and stride between two convolutions, behind what shuffles channels to pixels.
static void write_pooled(char *text, size_t room)
{
    int b = any(1, 3), h = any(3, 9), w = any(3, 9), c = any(1, 5), o = any(1, 6), p = any(2, 3);
    int step = any(1, p), k = any(1, 3);
    snprintf(text, room,
             "use conv\n"
             "use nn\n"
             "model m(x: f32[%d, %d, %d, %d], k: f32[%d, %d, %d, %d], g: f32[%d, 3, 3, %d]) {\n"
             "    y = transpose(reshape(gelu(x * 3), [%d, %d, %d, 2, 2, %d]), [0, 1, 3, 2, 4, 5])\n"
             "    z = convolve(reshape(y, [%d, %d, %d, %d]), k)\n"
             "    r = convolve(gelu(max_pool(z, %d, stride = %d) * 2), g)\n"
             "    t = sum(sin(r))\n"
             "    return r, dx = grad(t, x), dk = grad(t, k), dg = grad(t, g)\n"
             "}\n",
             b, h, w, 4 * c, o, k, k, c, o, o, b, h, w, c, b, 2 * h, 2 * w, c, p, step);
}

// Shuffled pixels between two convolutions, of which the first has a bias: it and its gradient are
// read by sums, too.
static void write_shuffled(char *text, size_t room)
{
    int b = any(1, 3), h = any(3, 9), w = any(3, 9), c = any(1, 5), o = any(1, 6), f = any(2, 3);
    snprintf(
        text, room,
        "use conv\n"
        "model m(x: f32[%d, %d, %d, %d], k: f32[%d, 3, 3, %d], g: f32[%d, 3, 3, %d], d: f32[%d]) "
        "{\n"
        "    r = convolve(pixel_shuffle(convolve(x, k) + d, %d), g)\n"
        "    t = sum(sin(r))\n"
        "    return r, dx = grad(t, x), dk = grad(t, k), dg = grad(t, g), dd = grad(t, d)\n"
        "}\n",
        b, h, w, c, f * f * o, c, any(1, 6), o, f * f * o, f);
}

static netc_session *begun(const char *text, const char *skip, netc_program **p)
{
    const char *device = getenv("DEVICE");
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    o.skip_passes = skip;
    FINE(netc_compile_text(ctx, "layout.net", text, &o, p, &err));
    FINE(netc_session_create(*p, device ? device : "cpu", NULL, &s, &err));
    return s;
}

static void bind_all(netc_session *const s[2], netc_program *p)
{
    static float data[4][MOST];
    netc_error *err = NULL;
    for (int k = 0; k < netc_input_count(p, "m"); k++) {
        netc_port port;
        FINE(netc_input_info(p, "m", k, &port, &err));
        netc_tensor in = {.dtype = port.dtype, .rank = port.rank, .data = data[k]};
        memcpy(in.dim, port.dim, sizeof port.dim);
        int64_t n = 1;
        for (int i = 0; i < port.rank; i++) n *= port.dim[i];
        CHECK(n <= MOST);
        for (int64_t i = 0; i < n && i < MOST; i++) data[k][i] = (float)any(-1000, 1000) / 700;
        for (int i = 0; i < 2; i++) FINE(netc_bind(s[i], "m", port.name, &in, &err));
    }
}

static void same_bits(void (*write)(char *text, size_t room))
{
    static float y[2][MOST];
    static char text[2000];
    int other = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        netc_error *err = NULL;
        netc_program *p[2];
        char *plan[2] = {NULL, NULL};
        write(text, sizeof text);
        netc_session *s[2] = {begun(text, NULL, &p[0]), begun(text, "layout", &p[1])};
        bind_all(s, p[0]);
        for (int k = 0; k < 2; k++) {
            FINE(netc_run(s[k], "m", 1, &err));
            FINE(netc_program_emit(p[k], "plan", &plan[k], &err));
        }
        other += plan[0] && plan[1] && strcmp(plan[0], plan[1]) != 0;
        for (int k = 0; k < netc_output_count(p[0], "m"); k++) {
            netc_port port;
            bool some = false;
            FINE(netc_output_info(p[0], "m", k, &port, &err));
            memset(y, 0, sizeof y);
            for (int j = 0; j < 2; j++) {
                netc_tensor out = {.dtype = port.dtype, .rank = port.rank, .data = y[j]};
                memcpy(out.dim, port.dim, sizeof port.dim);
                FINE(netc_read(s[j], "m", port.name, &out, &err));
            }
            for (int j = 0; j < MOST; j++) some |= y[0][j] != 0;
            if (!some || memcmp(y[0], y[1], sizeof y[0])) printf("%s of\n%s", port.name, text);
            CHECK(some && !memcmp(y[0], y[1], sizeof y[0]));
        }
        for (int k = 0; k < 2; k++) {
            netc_session_free(s[k]);
            netc_program_release(p[k]);
            netc_free(plan[k]);
        }
    }
    CHECK(other > 0);
}

static void pooled(void)
{
    same_bits(write_pooled);
}

static void shuffled(void)
{
    same_bits(write_shuffled);
}

int main(void)
{
    return api_main((void (*const[])(void)){pooled, shuffled, NULL});
}
