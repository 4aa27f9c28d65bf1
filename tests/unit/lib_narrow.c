// Scratch states that are only read rounded are kept in 16 bits (tests/net/fuse/narrow.net says
// which); no output is another: beside the same program without the pass, to the bit, over many
// executions.
#include <stdio.h>

#include "tests/unit/api.h"

enum { D = 16, T = 12, RUNS = 30 };

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    CHECK(f && text && fread(text, 1, (1 << 16) - 1, f) > 0);
    if (f) fclose(f);
    return text;
}

static netc_session *begun(const char *text, const char *skip, netc_program **p)
{
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    o.precision = "bf16";
    o.skip_passes = skip;
    FINE(netc_compile_text(ctx, "narrow.net", text, &o, p, &err));
    FINE(netc_session_create(*p, "cpu", NULL, &s, &err));
    return s;
}

static void same_digits(void)
{
    netc_error *err = NULL;
    char *text = read_text("tests/net/fuse/narrow.net");
    netc_program *p[2];
    netc_session *s[2] = {begun(text, NULL, &p[0]), begun(text, "narrow", &p[1])};
    static float x[D], y[2][T * T];
    unsigned seed = 77;
    for (int run = 0; run < RUNS; run++) {
        int32_t at = (int32_t)(((seed = seed * 1664525u + 1013904223u) >> 8) % T);
        for (int i = 0; i < D; i++)
            x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1;
        netc_tensor in = floats(x, 1, D, 0), turn = {.dtype = NETC_I32, .data = &at};
        for (int i = 0; i < 2; i++) {
            FINE(netc_bind(s[i], "step", "x", &in, &err));
            FINE(netc_bind(s[i], "step", "at", &turn, &err));
            FINE(netc_run(s[i], "step", 1, &err));
        }
        for (int k = 0; k < netc_output_count(p[0], "step"); k++) {
            netc_port port;
            FINE(netc_output_info(p[0], "step", k, &port, &err));
            memset(y, 0, sizeof y);
            for (int i = 0; i < 2; i++) {
                netc_tensor out = {.dtype = port.dtype, .rank = port.rank, .data = y[i]};
                memcpy(out.dim, port.dim, sizeof port.dim);
                FINE(netc_read(s[i], "step", port.name, &out, &err));
            }
            CHECK(!memcmp(y[0], y[1], sizeof y[0]));
            CHECK(run < RUNS - 5 || y[0][0] != 0 || y[0][1] != 0 || y[0][T - 1] != 0);
        }
    }
    for (int i = 0; i < 2; i++) {
        netc_session_free(s[i]);
        netc_program_release(p[i]);
    }
    free(text);
}

int main(void)
{
    return api_main((void (*const[])(void)){same_digits, NULL});
}
