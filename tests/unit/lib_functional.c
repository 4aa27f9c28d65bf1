// Models compiled as functions, and their gradients, for hosts that differentiate: against what
// follows by hand.
#include <math.h>

#include "tests/unit/api.h"

static netc_program *compiled_as(const char *text, const netc_compile_options *o)
{
    netc_program *p = NULL;
    netc_error *err = NULL;
    FINE(netc_compile_text(ctx, "line.net", text, o, &p, &err));
    return p;
}

static void bind(netc_session *s, const char *input, float *data, int rank, int64_t a, int64_t b)
{
    netc_error *err = NULL;
    netc_tensor t = floats(data, rank, a, b);
    FINE(netc_bind(s, "line", input, &t, &err));
}

static void fetch(netc_session *s, const char *output, float *data, int rank, int64_t a, int64_t b)
{
    netc_error *err = NULL;
    netc_tensor t = floats(data, rank, a, b);
    FINE(netc_read(s, "line", output, &t, &err));
}

static bool near(const float *got, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) < 1e-5 * (1 + fabs(want[i])))) return false;
    return true;
}

static const char *const pattern[] = {"fc.*"}, *const all[] = {"x", "fc.weight", "fc.bias"};

static void function_and_gradients(void)
{
    NETC_INIT(netc_compile_options, o);
    netc_error *err = NULL;
    o.arguments = pattern;
    o.narguments = 1;
    netc_program *f = compiled_as(model, &o);
    o.gradients = all;
    o.ngradients = 3;
    netc_program *d = compiled_as(model, &o), *plain = compiled(model);
    CHECK(netc_entry_count(f) == 2 && netc_input_count(f, "line") == 4);
    CHECK(netc_input_count(d, "line") == 6 && netc_output_count(d, "line") == 3);
    CHECK(netc_entry_effects(plain, "line") == NETC_ENTRY_READS &&
          netc_entry_effects(plain, "train") & NETC_ENTRY_WRITES &&
          !netc_entry_effects(f, "line") && !netc_entry_effects(d, "line") &&
          netc_entry_effects(d, "none") == -1);
    netc_session *s = opened(f, 1, NULL), *g = opened(d, 1, NULL);
    CHECK(netc_state_count(s) == 1); // the setting: parameters are not the session's
    Points p;
    draw(&p);
    float w[3] = {0.5f, -1, 2}, b[1] = {0.25f}, cy[8], cl[1] = {3}, y[8], loss[1];
    for (int i = 0; i < 8; i++) cy[i] = (float)(i - 3);
    netc_session *both[] = {s, g};
    for (int k = 0; k < 2; k++) {
        bind_points(both[k], "line", &p);
        bind(both[k], "fc.weight", w, 2, 1, 3);
        bind(both[k], "fc.bias", b, 1, 1, 0);
    }
    bind(g, "@d.y", cy, 1, 8, 0);
    bind(g, "@d.loss", cl, 0, 0, 0);
    FINE(netc_run(s, "line", 1, &err));
    FINE(netc_run(g, "line", 1, &err));
    double want_y[8], want_loss = 0, dw[3] = {0}, db[1] = {0}, dx[24];
    for (int i = 0; i < 8; i++) {
        want_y[i] = b[0];
        for (int k = 0; k < 3; k++) want_y[i] += (double)w[k] * p.x[i][k];
        double e = want_y[i] - p.t[i], dy = cy[i] + cl[0] * e / 4;
        want_loss += e * e / 8;
        db[0] += dy;
        for (int k = 0; k < 3; k++) dw[k] += dy * p.x[i][k], dx[3 * i + k] = dy * w[k];
    }
    float got_w[3], got_b[1], got_x[24];
    fetch(s, "y", y, 1, 8, 0);
    fetch(s, "loss", loss, 0, 0, 0);
    fetch(g, "fc.weight", got_w, 2, 1, 3);
    fetch(g, "fc.bias", got_b, 1, 1, 0);
    fetch(g, "x", got_x, 2, 8, 3);
    CHECK(near(y, want_y, 8) && near(loss, &want_loss, 1));
    CHECK(near(got_w, dw, 3) && near(got_b, db, 1) && near(got_x, dx, 24));
    netc_session_free(g);
    netc_session_free(s);
    netc_program_release(plain);
    netc_program_release(d);
    netc_program_release(f);
}

// What a gradient depends on and a call may change is given by the one and taken by the other.
// Of y = x x w: the gradients of 2 x w d e, which is the gradient with respect to x times e.
static void second(void)
{
    static const char text[] = "model line(x: f32[2], w: f32[2]) { return y = x * x * w }\n";
    NETC_INIT(netc_compile_options, o);
    netc_error *err = NULL;
    static const char *const none[] = {NULL}, *const of[] = {"x", "w", "@d.y"};
    o.arguments = none;
    o.gradients = of;
    o.ngradients = 3;
    o.second = of;
    o.nsecond = 1;
    netc_program *p = compiled_as(text, &o);
    CHECK(netc_input_count(p, "line") == 4 && netc_output_count(p, "line") == 3);
    netc_session *s = opened(p, 1, NULL);
    float x[2] = {3, -1}, w[2] = {2, 5}, d[2] = {1, 10}, e[2] = {1, 2}, got[2];
    bind(s, "x", x, 1, 2, 0);
    bind(s, "w", w, 1, 2, 0);
    bind(s, "@d.y", d, 1, 2, 0);
    bind(s, "@dd.x", e, 1, 2, 0);
    FINE(netc_run(s, "line", 1, &err));
    const double want[3][2] = {{4, 200}, {6, -40}, {12, -20}}; // 2 w d e, 2 x d e, 2 x w e
    for (int i = 0; i < 3; i++) {
        fetch(s, of[i], got, 1, 2, 0);
        CHECK(near(got, want[i], 2));
    }
    netc_session_free(s);
    netc_program_release(p);
    static const char *const wrong[] = {"@d.z"};
    o.second = wrong;
    REFUSED(NETC_INVALID, "no float input '@d.z'",
            netc_compile_text(ctx, "line.net", text, &o, &p, &err));
}

static void states(void)
{
    static const char text[] = "model line(x: f32[2]) {\n"
                               "    state k: f32 = 3\n"
                               "    state unread: f32 = 3\n"
                               "    param fixed: f32[2] = 2 frozen\n"
                               "    k <- k + 1\n"
                               "    unread <- unread + 1\n"
                               "    return y = x * fixed * k, n = unread\n"
                               "}\n";
    NETC_INIT(netc_compile_options, o);
    netc_error *err = NULL;
    static const char *const any[] = {"*"}, *const y[] = {"y"};
    o.arguments = any;
    o.narguments = 1;
    o.outputs = y;
    o.noutputs = 1;
    o.keep = true;
    netc_program *f = compiled_as(text, &o);
    o.gradients = any;
    o.ngradients = 1;
    netc_program *d = compiled_as(text, &o);
    CHECK(netc_input_count(f, "line") == 1 && netc_output_count(f, "line") == 2); // y, @was.k
    CHECK(netc_input_count(d, "line") == 2 && netc_output_count(d, "line") == 1); // not x itself
    CHECK(netc_entry_effects(f, "line") == (NETC_ENTRY_READS | NETC_ENTRY_WRITES) &&
          netc_entry_effects(d, "line") == NETC_ENTRY_READS);
    netc_session *s = opened(f, 1, NULL), *g = opened(d, 1, s);
    float x[2] = {1, 1}, was[1] = {0}, c[2] = {1, 10}, dx[2];
    bind(s, "x", x, 1, 2, 0);
    FINE(netc_run(s, "line", 1, &err));
    fetch(s, "@was.k", was, 0, 0, 0);
    FINE(netc_run(s, "line", 1, &err));
    CHECK(was[0] == 3);
    bind(g, "@was.k", was, 0, 0, 0);
    bind(g, "@d.y", c, 1, 2, 0);
    FINE(netc_run(g, "line", 1, &err));
    fetch(g, "x", dx, 1, 2, 0);
    CHECK(dx[0] == 8 && dx[1] == 80); // of the first run: 2 (k + 1)
    netc_session_free(g);
    netc_session_free(s);
    netc_program_release(d);
    netc_program_release(f);
    o.states = true; // taken and given: nothing is changed
    d = compiled_as(text, &o);
    o.ngradients = 0;
    f = compiled_as(text, &o);
    CHECK(netc_input_count(f, "line") == 3); // x, @was.k, @was.unread
    CHECK(netc_output_count(f, "line") == 3 && netc_input_count(d, "line") == 2);
    CHECK(netc_entry_effects(f, "line") == NETC_ENTRY_READS);
    s = opened(f, 1, NULL);
    float k[1] = {6}, unread[1] = {-1}, now[1], y_of[2];
    bind(s, "x", x, 1, 2, 0);
    bind(s, "@was.k", k, 0, 0, 0);
    bind(s, "@was.unread", unread, 0, 0, 0);
    FINE(netc_run(s, "line", 2, &err)); // as often as one likes
    fetch(s, "y", y_of, 1, 2, 0);
    fetch(s, "@now.k", now, 0, 0, 0);
    CHECK(y_of[0] == 14 && now[0] == 7);
    fetch(s, "@now.unread", now, 0, 0, 0);
    CHECK(now[0] == 0);
    netc_session_free(s);
    netc_program_release(d);
    netc_program_release(f);
}

enum { ROWS = 8, WIDE = 64, MOST = 2 * WIDE * WIDE };

static const char layers[] =
    "use nn\n"
    "model line(x: f32[8, 64], t: f32[8, 64]) {\n"
    "    h = gelu(linear(x, 128) as up)\n"
    "    a = attention(reshape(x, [1, 1, 8, 64]), reshape(x, [1, 1, 8, 64]),\n"
    "        reshape(linear(h, 64) as values, [1, 1, 8, 64]), causal = true)\n"
    "    y = linear(reshape(a, [8, 64]), 64, use_bias = false) as down\n"
    "    return loss = mean((y - t) * (y - t)), best = argmax(y)\n"
    "}\n";

static void bind_port(netc_session *s, const netc_port *p, void *data)
{
    netc_error *err = NULL;
    netc_tensor t = {.dtype = p->dtype, .rank = p->rank, .data = data};
    memcpy(t.dim, p->dim, sizeof t.dim);
    FINE(netc_bind(s, "line", p->name, &t, &err));
}

static int64_t size_of(const netc_port *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->rank; i++) n *= p->dim[i];
    return n;
}

// Numbers that depend on the name alone.
static void invent(const netc_port *p, float *to)
{
    unsigned state = 5;
    for (const char *c = p->name; *c; c++) state = state * 31 + (unsigned)*c;
    for (int64_t i = 0; i < size_of(p); i++)
        to[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1;
}

// The gradients with what is kept and with what is computed again. Returns how many are kept.
static int with_kept(const char *precision, netc_dtype type, double tolerance)
{
    static float memory[4][40][MOST];
    netc_error *err = NULL;
    netc_port port;
    static const char *const any[] = {"*"}, *const loss[] = {"loss"};
    NETC_INIT(netc_compile_options, o);
    o.precision = precision;
    o.arguments = any;
    o.narguments = 1;
    o.keep = true;
    netc_program *f = compiled_as(layers, &o);
    o.gradients = any;
    o.ngradients = 1;
    o.outputs = loss;
    o.noutputs = 1;
    netc_program *d = compiled_as(layers, &o);
    o.keep = false;
    netc_program *again = compiled_as(layers, &o);
    netc_session *s = opened(f, 1, NULL), *both[2] = {opened(d, 1, NULL), opened(again, 1, NULL)};
    int nin = netc_input_count(f, "line"), nout = netc_output_count(f, "line"), kept = 0;
    for (int i = 0; i < nin; i++) {
        FINE(netc_input_info(f, "line", i, &port, &err));
        invent(&port, memory[0][i]);
        bind_port(s, &port, memory[0][i]);
    }
    FINE(netc_run(s, "line", 1, &err));
    for (int k = 0; k < 2; k++) {
        netc_program *p = k ? again : d;
        for (int i = 0; i < netc_input_count(p, "line"); i++) {
            FINE(netc_input_info(p, "line", i, &port, &err));
            invent(&port, memory[1 + k][i]);
            if (!strncmp(port.name, "@kept.", 6)) {
                netc_tensor t = {.dtype = port.dtype, .rank = port.rank, .data = memory[1 + k][i]};
                memcpy(t.dim, port.dim, sizeof t.dim);
                FINE(netc_read(s, "line", port.name, &t, &err));
                CHECK(k == 0 && port.dtype == type);
                kept++;
            }
            bind_port(both[k], &port, memory[1 + k][i]);
        }
        FINE(netc_run(both[k], "line", 1, &err));
    }
    CHECK(nout == 2 + kept);
    CHECK(netc_output_count(d, "line") == netc_output_count(again, "line") && nin == 7);
    for (int i = 0; i < netc_output_count(d, "line"); i++) {
        double most = 0, worst = 0;
        for (int k = 0; k < 2; k++) {
            FINE(netc_output_info(d, "line", i, &port, &err));
            netc_tensor t = {.dtype = port.dtype, .rank = port.rank, .data = memory[3][k]};
            memcpy(t.dim, port.dim, sizeof t.dim);
            FINE(netc_read(both[k], "line", port.name, &t, &err));
        }
        for (int64_t e = 0; e < size_of(&port); e++) {
            most = fmax(most, fabs(memory[3][1][e]));
            worst = fmax(worst, fabs(memory[3][0][e] - memory[3][1][e]));
        }
        CHECK_MSG(most > 0 && worst <= tolerance * most, "%s: %g of %g", port.name, worst, most);
    }
    for (int k = 0; k < 2; k++) netc_session_free(both[k]);
    netc_session_free(s);
    netc_program_release(again);
    netc_program_release(d);
    netc_program_release(f);
    return kept;
}

// Layers are kept, scores are not.
static void keeps(void)
{
    CHECK(with_kept(NULL, NETC_F32, 1e-6) == 3);
    CHECK(with_kept("bf16", NETC_BF16, 0.02) == 3);
}

static void refusals(void)
{
    static const char *const wrong[] = {"fc.wieght"}, *const integer[] = {"i"};
    static const char whole[] = "model whole(i: i32[2], x: f32[2]) { return n = i + argmax(x) }\n";
    netc_program *p = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    o.arguments = wrong;
    o.narguments = 1;
    REFUSED(NETC_INVALID, "'line' has no parameter 'fc.wieght'; did you mean 'fc.weight'?",
            netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.narguments = -1;
    REFUSED(NETC_INVALID, "cannot be negative",
            netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.narguments = 0;
    o.outputs_of = "train";
    REFUSED(NETC_INVALID, "'train' is not a model",
            netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.outputs_of = "lnie";
    REFUSED(NETC_INVALID, "no entry 'lnie'",
            netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.outputs_of = NULL;
    o.gradients = all; // its parameters are no arguments
    o.ngradients = 3;
    REFUSED(NETC_INVALID, "no float input 'fc.weight'",
            netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.gradients = integer;
    o.ngradients = 1;
    REFUSED(NETC_INVALID, "no float input 'i'",
            netc_compile_text(ctx, "whole.net", whole, &o, &p, &err));
    o.gradients = all; // "x", the first
    REFUSED(NETC_INVALID, "so it has no gradient",
            netc_compile_text(ctx, "whole.net", whole, &o, &p, &err));
}

// Several calls at once: y and its gradients for three x and one w, and of three w.
static void mapped(void)
{
    static const char text[] = "model line(x: f32[2], w: f32[2], i: i32[]) {\n"
                               "    return y = sum(x * x * w) * x[i]\n}\n";
    static const char *const none[] = {NULL}, *const wanted[] = {"x", "w"};
    static const char *const many[] = {"x", "@d.y"}, *const wrong[] = {"z"};
    NETC_INIT(netc_compile_options, o);
    netc_error *err = NULL;
    o.arguments = none;
    o.mapped = many;
    o.nmapped = 1;
    o.calls = 3;
    netc_program *p = compiled_as(text, &o), *q = NULL;
    o.gradients = wanted;
    o.ngradients = 2;
    o.nmapped = 2;
    netc_program *d = compiled_as(text, &o);
    netc_session *s = opened(p, 1, NULL), *g = opened(d, 1, NULL), *both[] = {s, g};
    float x[6] = {3, -1, 2, 4, 0.5f, 1}, w[2] = {2, 5}, dy[3] = {1, 2, -1}, y[3], dx[6], dw[6];
    double want_y[3], want_x[6], want_w[6];
    int32_t i = 1;
    for (int k = 0; k < 2; k++) {
        netc_tensor index = {.dtype = NETC_I32, .data = &i};
        bind(both[k], "x", x, 2, 3, 2);
        bind(both[k], "w", w, 1, 2, 0);
        FINE(netc_bind(both[k], "line", "i", &index, &err));
    }
    bind(g, "@d.y", dy, 1, 3, 0);
    FINE(netc_run(s, "line", 1, &err));
    FINE(netc_run(g, "line", 1, &err));
    for (int k = 0; k < 3; k++) {
        const double a = x[2 * k], b = x[2 * k + 1], sum = a * a * w[0] + b * b * w[1];
        want_y[k] = sum * b;
        want_x[2 * k] = dy[k] * 2 * a * w[0] * b;
        want_x[2 * k + 1] = dy[k] * (2 * b * w[1] * b + sum);
        want_w[2 * k] = dy[k] * a * a * b;
        want_w[2 * k + 1] = dy[k] * b * b * b;
    }
    fetch(s, "y", y, 1, 3, 0);
    fetch(g, "x", dx, 2, 3, 2);
    fetch(g, "w", dw, 2, 3, 2);
    CHECK(near(y, want_y, 3) && near(dx, want_x, 6) && near(dw, want_w, 6));
    i = 2; // what one call may not, several may not
    FINE(netc_run(s, "line", 1, &err));
    REFUSED(NETC_CHECK_FAILED, "index of gather: 2", netc_sync(s, &err));
    o.calls = 0;
    REFUSED(NETC_INVALID, "how many slices they have",
            netc_compile_text(ctx, "line.net", text, &o, &q, &err));
    o.calls = 3;
    o.mapped = wrong;
    o.nmapped = 1;
    REFUSED(NETC_INVALID, "'line' has no input 'z'",
            netc_compile_text(ctx, "line.net", text, &o, &q, &err));
    netc_session_free(g);
    netc_session_free(s);
    netc_program_release(d);
    netc_program_release(p);
}

int main(void)
{
    void (*const tests[])(void) = {
        function_and_gradients, second, states, keeps, mapped, refusals, NULL};
    return api_main(tests);
}
