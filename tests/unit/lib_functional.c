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
    REFUSED(NETC_INVALID, "not negative", netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.narguments = 0;
    o.outputs_of = "train";
    REFUSED(NETC_INVALID, "'train' is no model",
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
    REFUSED(NETC_INVALID, "nothing of it has a gradient",
            netc_compile_text(ctx, "whole.net", whole, &o, &p, &err));
}

int main(void)
{
    void (*const tests[])(void) = {function_and_gradients, states, refusals, NULL};
    return api_main(tests);
}
