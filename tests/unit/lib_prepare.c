// What is computed once for a model's parameters follows them, whatever changes them: beside a
// program that prepares nothing, to the bit. DEVICE=cuda:0 runs it there.
#include "tests/unit/api.h"

enum { IN = 160, OUT = 240, ROWS = 4 };

static const char text[] =
    "use optim\n"
    "setting scale = 1\n"
    "fn weight() {\n"
    "    param w: f32[160, 240] = normal(0.1)\n"
    "    return w\n"
    "}\n"
    "fn average() {\n"
    "    state slow: f32[160, 240] = 0.125\n"
    "    return slow\n"
    "}\n"
    "model net(x: f32[4, 160]) {\n"
    "    y = matmul(x, (weight() as \"\") * scale) + matmul(x, average() as \"\")\n"
    "    return y, loss = mean(y * y)\n"
    "}\n"
    "model again(x: f32[4, 160]) {\n"
    "    return y = matmul(x + 1, (weight() as \"\") * scale)\n"
    "}\n"
    "fn halve() {\n"
    "    state slow: f32[160, 240] = 0.125\n"
    "    slow <- slow * 0.5 + 0.25\n"
    "    return slow\n"
    "}\n"
    "model moves(x: f32[4, 160]) { return y = matmul(x, halve() as \"\") }\n"
    "train net {\n"
    "    minimize loss\n"
    "    update sgd(lr = 0.5)\n"
    "}\n";

static const char *device;

static unsigned below(unsigned *seed, unsigned n) // 0..n - 1 (Numerical Recipes' generator)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % n;
}

static void fill(float *at, int n, unsigned *seed)
{
    for (int i = 0; i < n; i++) at[i] = (float)below(seed, 2001) / 1000 - 1;
}

static netc_program *compile(const char *skip)
{
    netc_program *p = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    o.precision = "bf16";
    o.skip_passes = skip;
    FINE(netc_compile_text(ctx, "prepare.net", text, &o, &p, &err));
    return p;
}

static netc_session *begun(netc_program *p, netc_session *share)
{
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_session_options, o);
    o.seed = 3;
    o.share = share;
    FINE(netc_session_create(p, device, &o, &s, &err));
    return s;
}

static void run(netc_session *s, const char *entry, float *x, float *y)
{
    netc_error *err = NULL;
    netc_tensor in = floats(x, 2, ROWS, IN), out = floats(y, 2, ROWS, OUT);
    FINE(netc_bind(s, entry, "x", &in, &err));
    FINE(netc_run(s, entry, 1, &err));
    if (y) FINE(netc_read(s, entry, "y", &out, &err));
}

static void write_state(netc_session *s, const char *name, float *at, int rows, int columns)
{
    netc_error *err = NULL;
    netc_tensor t = floats(at, rows ? 2 : 0, rows, columns);
    FINE(netc_state_write(s, name, &t, &err));
}

static void same(netc_session *const *s, const char *entry, unsigned *seed)
{
    static float x[ROWS * IN], y[2][ROWS * OUT];
    fill(x, ROWS * IN, seed);
    for (int i = 0; i < 2; i++) run(s[i], entry, x, y[i]);
    if (!strcmp(device, "cpu")) {
        CHECK(!memcmp(y[0], y[1], sizeof y[0]));
        return;
    }
    float worst = 0; // products of a GPU may add up in another order
    for (int i = 0; i < ROWS * OUT; i++) {
        float d = y[0][i] - y[1][i];
        worst = d > worst ? d : -d > worst ? -d : worst;
    }
    CHECK(worst < 0.1f);
}

// Steps, evaluations, writes and runs in any order; every session shares its cells with another.
static void follows_its_cells(void)
{
    static float w[IN * OUT], x[ROWS * IN];
    const char *const entries[] = {"net", "again", "moves"};
    netc_program *p[2] = {compile(NULL), compile("prepare")};
    netc_session *s[2][2];
    for (int i = 0; i < 2; i++) {
        s[0][i] = begun(p[i], NULL);
        s[1][i] = begun(p[i], s[0][i]);
    }
    netc_error *err = NULL;
    FINE(netc_run(s[0][0], "prepare.again", 1, &err));
    unsigned seed = 20261123;
    int sharing = 0;
    for (int step = 0; step < 120; step++) {
        netc_session *const *now = s[sharing];
        float scale = (float)below(&seed, 7) - 3;
        switch (below(&seed, 8)) {
        case 0:
            fill(x, ROWS * IN, &seed);
            for (int i = 0; i < 2; i++) run(now[i], "train", x, NULL);
            break;
        case 1:
            fill(w, IN * OUT, &seed);
            for (int i = 0; i < 2; i++) write_state(now[i], step % 2 ? "w" : "slow", w, IN, OUT);
            break;
        case 2:
            for (int i = 0; i < 2; i++) write_state(now[i], "scale", &scale, 0, 0);
            break;
        case 3: sharing = !sharing; break;
        default: same(now, entries[below(&seed, 3)], &seed);
        }
    }
    CHECK(netc_state_count(s[0][0]) == netc_state_count(s[0][1])); // what is prepared is no state
    CHECK(netc_entry_count(p[0]) == netc_entry_count(p[1]));
    CHECK(refused(netc_run(s[0][0], "prepare.none", 1, &err), NETC_INVALID, &err, "no entry"));
    FINE(netc_run(s[0][0], "prepare.net", 1, &err)); // harmless, before and after its model
    same(s[0], "net", &seed);
    for (int i = 0; i < 2; i++) {
        netc_session_free(s[1][i]);
        netc_session_free(s[0][i]);
        netc_program_release(p[i]);
    }
}

// From a file, in which the prepared cells stand as nothing but names.
static void kept_in_a_file(void)
{
    netc_error *err = NULL;
    netc_program *p[2] = {compile("prepare"), NULL};
    netc_program *whole = compile(NULL);
    netc_session *s[2], *first = begun(whole, NULL);
    unsigned seed = 5;
    static float w[IN * OUT];
    fill(w, IN * OUT, &seed);
    write_state(first, "w", w, IN, OUT);
    FINE(netc_program_save(whole, file("prepared.bin"), "sm_90", first, &err));
    FINE(netc_compile_file(ctx, file("prepared.bin"), NULL, &p[1], &err));
    for (int i = 0; i < 2; i++) s[i] = begun(p[i], NULL);
    write_state(s[0], "w", w, IN, OUT);
    for (int i = 0; i < 4; i++) {
        fill(w, IN * OUT, &seed);
        for (int k = 0; k < 2 && i; k++) write_state(s[k], "slow", w, IN, OUT);
        if (i) same(s, i % 2 ? "net" : "again", &seed);
    }
    netc_session_free(first);
    netc_program_release(whole);
    for (int i = 0; i < 2; i++) {
        netc_session_free(s[i]);
        netc_program_release(p[i]);
    }
}

int main(void)
{
    device = getenv("DEVICE") ? getenv("DEVICE") : "cpu";
    return api_main((void (*const[])(void)){follows_its_cells, kept_in_a_file, NULL});
}
