// Random recurrences with gradients, on the CPU. In f32 they give what the same loops unrolled
// give: what is carried lies in a stack or in a place of its own, is updated in place or copied. In
// bf16 no bit depends on whether what loops carry and stack is rounded inside of them.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/unit/api.h"

enum { PROGRAMS = 2, LOOPS = 6, MOST = 4096, CARRIED = 3 };

static uint32_t pick(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 12) % n;
}

typedef struct Text {
    char at[1 << 17];
    size_t n;
} Text;

static void put(Text *t, const char *form, ...) __attribute__((format(printf, 2, 3)));
static void put(Text *t, const char *form, ...)
{
    va_list args;
    va_start(args, form);
    t->n += (size_t)vsnprintf(t->at + t->n, sizeof t->at - t->n, form, args);
    va_end(args);
    CHECK(t->n < sizeof t->at);
}

typedef struct Recurrence {
    uint32_t seed;
    int carried, steps, batch, width;
    bool before[CARRIED], after[CARRIED], last[CARRIED]; // of each carried value, what is read
} Recurrence;

static Recurrence recurrence(uint32_t *state)
{
    static const int widths[] = {4, 8, 3, 16};
    Recurrence r = {.carried = 1 + (int)pick(state, CARRIED),
                    .steps = 1 + (int)pick(state, 5),
                    .batch = 1 + (int)pick(state, 4),
                    .width = widths[pick(state, 4)]};
    for (int i = 0; i < CARRIED; i++) {
        r.before[i] = pick(state, 3) == 0;
        r.after[i] = i == 0 || pick(state, 2);
        r.last[i] = pick(state, 2);
    }
    r.seed = *state;
    return r;
}

// The statements of an iteration, over a, c0, c1, ..., w.
static void put_body(Text *t, const Recurrence *r, bool unrolled)
{
    static const char stack[] = "        b%d = b%d + [c%d]\n", emit[] = "        emit b%d = c%d\n";
    uint32_t state = r->seed;
    for (int i = 0; i < r->carried; i++)
        if (r->before[i] && unrolled) put(t, stack, i, i, i);
    for (int i = 0; i < r->carried; i++)
        if (r->before[i] && !unrolled) put(t, emit, i, i);
    for (int i = 0; i < r->carried; i++) {
        int j = (int)pick(&state, (uint32_t)r->carried),
            k = (int)pick(&state, (uint32_t)r->carried);
        put(t, "        n%d = ", i);
        switch (pick(&state, 6)) {
        case 0: put(t, "tanh(a + matmul(c%d, w))\n", j); break;
        case 1: put(t, "c%d * sigmoid(a) + 0.5 * c%d\n", j, k); break;
        case 2: put(t, "tanh(matmul(tanh(c%d), w) + c%d)\n", j, k); break;
        case 3: put(t, "c%d\n", j); break;
        case 4: put(t, "matmul(c%d, w) * 0.5\n", j); break;
        default: put(t, "matmul(c%d, w)\n", j); break;
        }
    }
    for (int i = 0; i < r->carried; i++) put(t, "        c%d = n%d\n", i, i);
    for (int i = 0; i < r->carried; i++)
        if (r->after[i])
            put(t, unrolled ? "        e%d = e%d + [c%d]\n" : "        emit e%d = c%d\n", i, i, i);
}

static void put_model(Text *t, const Recurrence *r, int number, bool unrolled)
{
    put(t, "model %s%d(x: f32[%d, %d, %d], u: f32[%d, %d], w: f32[%d, %d]) {\n",
        unrolled ? "plain" : "looped", number, r->steps, r->batch, r->width, r->batch, r->width,
        r->width, r->width);
    for (int i = 0; i < r->carried; i++) {
        put(t, i % 2 ? "    c%d = zeros([%d, %d])\n" : "    c%d = u\n", i, r->batch, r->width);
        if (unrolled && r->before[i]) put(t, "    b%d = []\n", i);
        if (unrolled && r->after[i]) put(t, "    e%d = []\n", i);
    }
    if (unrolled) {
        put(t, "    for t in 0..%d {\n        a = x[t]\n", r->steps);
    } else {
        put(t, "    loop t in 0..%d carry c0", r->steps);
        for (int i = 1; i < r->carried; i++) put(t, ", c%d", i);
        put(t, " over a = x {\n");
    }
    put_body(t, r, unrolled);
    put(t, "    }\n    loss = sum(x) * 0\n");
    Text out = {.n = 0};
    for (int i = 0; i < r->carried; i++) {
        if (unrolled && r->before[i]) put(t, "    b%d = stack(b%d)\n", i, i);
        if (unrolled && r->after[i]) put(t, "    e%d = stack(e%d)\n", i, i);
        // In bf16 products read them rounded, as the next layer would.
        if (r->after[i]) put(t, "    loss = loss + sum(matmul(e%d, w) * e%d)\n", i, i);
        if (r->before[i]) put(t, "    y%d = matmul(b%d, w)\n", i, i), put(&out, ", y%d", i);
        if (r->last[i]) put(t, "    loss = loss + sum(c%d * c%d)\n", i, i);
        if (r->last[i]) put(&out, ", c%d", i);
    }
    put(t,
        "    dx, dw, du = grad(loss, x), grad(loss, w), grad(loss, u)\n"
        "    return loss, dx, dw, du%s\n}\n",
        out.at);
}

typedef struct Ran {
    int noutputs;
    long n[16];
    float at[16][MOST];
} Ran;

static bool run(netc_session *s, netc_program *p, const char *entry, const Recurrence *r, Ran *out)
{
    netc_error *err = NULL;
    static float x[MOST], u[MOST], w[MOST];
    uint32_t state = 7;
    for (int i = 0; i < MOST; i++) {
        x[i] = (float)pick(&state, 2001) / 1000 - 1;
        u[i] = (float)pick(&state, 2001) / 1000 - 1;
        w[i] = ((float)pick(&state, 2001) / 1000 - 1) / (float)r->width;
    }
    netc_tensor in[] = {
        {.dtype = NETC_F32, .rank = 3, .dim = {r->steps, r->batch, r->width}, .data = x},
        {.dtype = NETC_F32, .rank = 2, .dim = {r->batch, r->width}, .data = u},
        {.dtype = NETC_F32, .rank = 2, .dim = {r->width, r->width}, .data = w}};
    static const char *const names[] = {"x", "u", "w"};
    bool ok = true;
    for (int i = 0; i < 3; i++) ok &= fine(netc_bind(s, entry, names[i], &in[i], &err), &err);
    ok = ok && fine(netc_run(s, entry, 1, &err), &err);
    out->noutputs = ok ? netc_output_count(p, entry) : 0;
    for (int k = 0; k < out->noutputs; k++) {
        netc_port port;
        ok &= fine(netc_output_info(p, entry, k, &port, &err), &err);
        netc_tensor y = {.dtype = port.dtype, .rank = port.rank, .data = out->at[k]};
        memcpy(y.dim, port.dim, sizeof port.dim);
        out->n[k] = 1;
        for (int i = 0; i < port.rank; i++) out->n[k] *= (long)port.dim[i];
        CHECK(port.dtype == NETC_F32 && out->n[k] <= MOST);
        ok &= fine(netc_read(s, entry, port.name, &y, &err), &err);
    }
    return ok;
}

static bool equal(const Ran *a, const Ran *b, double tolerance)
{
    bool ok = a->noutputs == b->noutputs && a->noutputs;
    for (int k = 0; k < a->noutputs && ok; k++) {
        double most = 1;
        ok = a->n[k] == b->n[k];
        for (long i = 0; i < a->n[k] && ok; i++) most = fmax(most, fabs(a->at[k][i]));
        for (long i = 0; i < a->n[k] && ok; i++)
            ok = fabs(a->at[k][i] - b->at[k][i]) <= tolerance * most;
    }
    return ok;
}

static netc_session *opened_as(const char *text, const char *precision, const char *skip,
                               netc_program **p)
{
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    o.precision = precision;
    o.skip_passes = skip;
    FINE(netc_compile_text(ctx, "loops.net", text, &o, p, &err));
    if (*p) FINE(netc_session_create(*p, "cpu", NULL, &s, &err));
    return s;
}

static void programs(void)
{
    static Text t;
    static Ran ran[2];
    uint32_t state = 20;
    for (int i = 0; i < PROGRAMS; i++) {
        Recurrence r[LOOPS];
        t.n = 0;
        for (int k = 0; k < LOOPS; k++) {
            r[k] = recurrence(&state);
            put_model(&t, &r[k], k, false);
            put_model(&t, &r[k], k, true);
        }
        netc_program *p[3] = {NULL};
        netc_session *s[3] = {opened_as(t.at, "f32", NULL, &p[0]),
                              opened_as(t.at, "bf16", NULL, &p[1]),
                              opened_as(t.at, "bf16", "loop_casts", &p[2])};
        for (int k = 0; k < LOOPS && s[0] && s[1] && s[2]; k++) {
            char looped[16], plain[16];
            snprintf(looped, sizeof looped, "looped%d", k);
            snprintf(plain, sizeof plain, "plain%d", k);
            CHECK_MSG(run(s[0], p[0], looped, &r[k], &ran[0]) &&
                          run(s[0], p[0], plain, &r[k], &ran[1]) && equal(&ran[0], &ran[1], 1e-5),
                      "program %d: %s is not what it is unrolled:\n%s", i, looped, t.at);
            CHECK_MSG(run(s[1], p[1], looped, &r[k], &ran[0]) &&
                          run(s[2], p[2], looped, &r[k], &ran[1]) && equal(&ran[0], &ran[1], 0),
                      "program %d: %s has other bits without loop_casts:\n%s", i, looped, t.at);
        }
        for (int k = 0; k < 3; k++) {
            netc_session_free(s[k]);
            netc_program_release(p[k]);
        }
    }
}

int main(void)
{
    return api_main((void (*const[])(void)){programs, NULL});
}
