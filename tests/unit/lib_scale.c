// Loss scaling in f16: what it saves, what a skipped step leaves, and that the program means the
// same as in f32. DEVICE=cuda:0 runs it there.
#include <math.h>

#include "tests/unit/api.h"

// A regression whose loss is times [factor], by [how].
static const char *regression(const char *factor, const char *how)
{
    static char text[1024];
    snprintf(text, sizeof text,
             "use nn\nuse optim\ndim batch = 8\n"
             "model line(x: f32[batch, 3], t: f32[batch]) {\n"
             "    state seen: f32[] = 0\n"
             "    seen <- seen + mean(x) + 1\n"
             "    h = tanh(linear(x, 6) as fc1)\n"
             "    y = reshape(linear(h, 1) as fc2, [batch])\n"
             "    return loss = %s * mean(square(y - t))\n"
             "}\n"
             "train line {\n%s\n}\n",
             factor, how);
    return text;
}

static netc_session *begun(const char *text, const char *precision, Points *p)
{
    netc_program *program = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_compile_options, o);
    NETC_INIT(netc_session_options, so);
    const char *device = getenv("DEVICE") ? getenv("DEVICE") : "cpu";
    o.precision = precision;
    so.seed = 3;
    FINE(netc_compile_text(ctx, "scale.net", text, &o, &program, &err));
    FINE(netc_session_create(program, device, &so, &s, &err));
    netc_program_release(program);
    if (s && p) bind_points(s, "train", p);
    return s;
}

static void steps(netc_session *s, int64_t n)
{
    netc_error *err = NULL;
    FINE(netc_run(s, "train", n, &err));
    FINE(netc_sync(s, &err));
}

static netc_tensor scalar(netc_dtype t, void *data)
{
    return (netc_tensor){.dtype = t, .data = data};
}

static double scale(netc_session *s)
{
    float v = 0;
    netc_tensor t = scalar(NETC_F32, &v);
    netc_error *err = NULL;
    FINE(netc_state_read(s, "@loss_scale", &t, &err));
    return v;
}

static long long count(netc_session *s, const char *cell)
{
    int64_t v = -1;
    netc_tensor t = scalar(NETC_I64, &v);
    netc_error *err = NULL;
    FINE(netc_state_read(s, cell, &t, &err));
    return (long long)v;
}

static void set_scale(netc_session *s, float v, int64_t good)
{
    netc_tensor t = scalar(NETC_F32, &v), g = scalar(NETC_I64, &good);
    netc_error *err = NULL;
    FINE(netc_state_write(s, "@loss_scale", &t, &err));
    FINE(netc_state_write(s, "@good_steps", &g, &err));
}

enum { MOST = 256 };
// Every saved f32 cell that [keep] wants, one after the other.
static int values(netc_session *s, bool (*keep)(const char *name), float *out)
{
    int n = 0;
    netc_error *err = NULL;
    for (int i = 0; i < netc_state_count(s); i++) {
        netc_port p;
        FINE(netc_state_info(s, i, &p, &err));
        if (p.dtype != NETC_F32 || !keep(p.name)) continue;
        netc_tensor t = {.dtype = p.dtype, .rank = p.rank, .data = out + n};
        memcpy(t.dim, p.dim, sizeof t.dim);
        int count = 1;
        for (int k = 0; k < p.rank; k++) count *= (int)p.dim[k];
        if (n + count > MOST) break;
        FINE(netc_state_read(s, p.name, &t, &err));
        n += count;
    }
    return n;
}

static bool any(const char *name)
{
    (void)name;
    return true;
}

static bool of_model(const char *name)
{
    return name[0] != '@';
}

static bool parameter(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && (!strcmp(end, ".weight") || !strcmp(end, ".bias"));
}

static bool of_generator(const char *name)
{
    return name[0] == 'G';
}

// The parameters of both agree to what f16 rounding leaves, and are finite.
static void alike(netc_session *a, netc_session *b, double tolerance, const char *what)
{
    float va[MOST], vb[MOST];
    int n = values(a, parameter, va), m = values(b, parameter, vb);
    double worst = 0;
    CHECK(n == m && n > 0);
    for (int i = 0; i < n && i < m; i++) {
        double d = fabs((double)va[i] - (double)vb[i]) / (0.1 + fabs((double)vb[i]));
        if (!(d <= worst)) worst = d;
    }
    CHECK_MSG(worst <= tolerance, "%s: the parameters differ by %g", what, worst);
}

// Runs [s] until a step is not skipped; how many were.
static int until_good(netc_session *s)
{
    int skipped = 0;
    do steps(s, 1);
    while (count(s, "@good_steps") == 0 && ++skipped < 40);
    return skipped;
}

// Gradients below f16's smallest number: scaled they train as in f32, unscaled they vanish.
static void test_underflow(void)
{
    Points p;
    draw(&p);
    const char *text = regression("1e-9", "minimize loss\nupdate sgd(lr = 1e8)");
    netc_session *wide = begun(text, "f32", &p), *half = begun(text, "f16", &p);
    netc_session *unscaled = begun(text, "f16", &p);
    float before[MOST], after[MOST];
    int n = values(unscaled, of_model, before);
    set_scale(unscaled, 1, 0);
    steps(unscaled, 1);
    CHECK(values(unscaled, of_model, after) == n);
    for (int i = 0; i < n; i++) CHECK(before[i] == after[i] || i == n - 1 || i < 2);
    float first = loss_of(unscaled, "train");
    steps(wide, 60), steps(half, 60);
    alike(half, wide, 0.02, "underflow");
    CHECK(loss_of(half, "train") < 0.1f * first && count(half, "@skipped") == 0);
    netc_session_free(wide), netc_session_free(half), netc_session_free(unscaled);
}

// Gradients too large for the first scales: steps that change nothing but the scale.
static void test_overflow(void)
{
    Points p;
    draw(&p);
    const char *text = regression("1000", "minimize loss\nupdate adamw(lr = 0.01)");
    netc_session *wide = begun(text, "f32", &p), *half = begun(text, "f16", &p);
    float before[MOST], after[MOST];
    int n = values(half, of_model, before);
    steps(half, 1);
    CHECK(values(half, of_model, after) == n && !memcmp(before, after, sizeof *after * (size_t)n));
    CHECK(scale(half) == 32768 && count(half, "@skipped") == 1 && count(half, "@step") == 1);
    int skipped = 1 + until_good(half);
    CHECK(skipped > 2 && skipped < 17 && scale(half) == ldexp(65536, -skipped));
    CHECK(count(half, "@skipped") == skipped && count(half, "@step") == skipped + 1);
    // Bias correction counts updates, not steps: as if the skipped ones had not been.
    steps(wide, 1);
    alike(half, wide, 0.002, "the first update");
    steps(half, 20), steps(wide, 20);
    CHECK(count(half, "@skipped") == skipped && count(half, "@good_steps") == 21);
    alike(half, wide, 0.05, "twenty updates");
    netc_session_free(wide), netc_session_free(half);
}

// A session that goes on from a checkpoint in the middle of skipping ends with the same bits, and
// so does one that enqueues all steps at once.
static void test_resume(void)
{
    Points p;
    draw(&p);
    const char *text = regression("1000", "minimize loss\nupdate adamw(lr = 0.01)");
    netc_session *whole = begun(text, "f16", &p), *part = begun(text, "f16", &p);
    netc_session *rest = begun(text, "f16", &p);
    netc_error *err = NULL;
    steps(whole, 30);
    for (int i = 0; i < 3; i++) steps(part, 1);
    FINE(netc_state_save(part, file("scale.safetensors"), &err));
    FINE(netc_state_load(rest, file("scale.safetensors"), NULL, &err));
    CHECK(scale(rest) == 8192 && count(rest, "@skipped") == 3);
    steps(rest, 27);
    float a[MOST], b[MOST];
    int n = values(whole, any, a);
    CHECK(values(rest, any, b) == n && !memcmp(a, b, sizeof *a * (size_t)n));
    CHECK(count(rest, "@good_steps") == count(whole, "@good_steps"));
    // Without a scale in the file it starts again; f32 passes over one.
    netc_session *wide = begun(text, "f32", &p);
    FINE(netc_state_load(wide, file("scale.safetensors"), NULL, &err));
    FINE(netc_state_save(wide, file("wide.safetensors"), &err));
    FINE(netc_state_load(rest, file("wide.safetensors"), NULL, &err));
    CHECK(scale(rest) == 65536 && count(rest, "@skipped") == 0 && count(rest, "@good_steps") == 0);
    netc_session_free(whole), netc_session_free(part);
    netc_session_free(rest), netc_session_free(wide);
}

// A second training counts its own steps, skipped and not: `updates` are not below 0, where the
// bias correction of Adam would divide by 0.
static void test_again(void)
{
    Points p;
    draw(&p);
    netc_session *s =
        begun(regression("1000", "minimize loss\nupdate adamw(lr = 0.01)"), "f16", NULL);
    netc_error *err = NULL;
    netc_dataset *d = NULL;
    netc_tensor x = floats(p.x, 2, 40, 3), t = floats(p.t, 1, 40, 0);
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &x, &err));
    FINE(netc_dataset_add_array(d, "t", &t, &err));
    NETC_INIT(netc_train_options, o);
    o.data = d;
    o.steps = 30;
    FINE(netc_train(s, &o, &err));
    CHECK(count(s, "@skipped") > 2 && count(s, "@step") == 30);
    double first = scale(s);
    FINE(netc_train(s, &o, &err));
    CHECK(count(s, "@skipped") == 0 && count(s, "@step") == 30 && scale(s) == first);
    netc_session_free(s);
    netc_dataset_free(d);
}

static void test_growth(void)
{
    Points p;
    draw(&p);
    netc_session *s = begun(regression("1", "minimize loss\nupdate sgd(lr = 0.01)"), "f16", &p);
    set_scale(s, 64, 1998);
    steps(s, 1);
    CHECK(scale(s) == 64 && count(s, "@good_steps") == 1999);
    steps(s, 1);
    CHECK(scale(s) == 128 && count(s, "@good_steps") == 0 && count(s, "@skipped") == 0);
    set_scale(s, 16777216, 1999);
    steps(s, 1);
    CHECK(scale(s) <= 16777216);
    netc_session_free(s);
}

// What no scale helps against is an error as in f32, once the scale has fallen.
static void test_hopeless(void)
{
    Points p;
    draw(&p);
    netc_error *err = NULL;
    netc_session *s = begun(regression("1", "minimize loss\nupdate sgd(lr = 0.01)"), "f16", &p);
    p.x[3][1] = INFINITY;
    bind_points(s, "train", &p);
    FINE(netc_run(s, "train", 40, &err));
    REFUSED(NETC_CHECK_FAILED, "loss is not finite", netc_sync(s, &err));
    CHECK(scale(s) == 1 && count(s, "@skipped") == 16 && count(s, "@step") == 16);
    netc_session_free(s);
    s = begun("use optim\nmodel root() { param w: f32[2] = 0\nreturn loss = sum(sqrt(w)) }\n"
              "train root { minimize loss\nupdate sgd(lr = 1) }\n",
              "f16", NULL);
    FINE(netc_run(s, "train", 40, &err));
    REFUSED(NETC_CHECK_FAILED, "the gradient of loss is not finite", netc_sync(s, &err));
    CHECK(scale(s) == 1 && count(s, "@skipped") == 16);
    netc_session_free(s);
}

// A host's own steps commit a gradient that is not finite under a loss that is; it can ask.
static void test_asking(void)
{
    netc_error *err = NULL;
    netc_session *s = begun("use optim\n"
                            "model root() {\n"
                            "    param w: f32[40] = 0\n"
                            "    param v: f32[2] = 1\n"
                            "    state least: f32[] = inf\n"
                            "    least <- least + 1\n"
                            "    return loss = sum(sqrt(w)) + sum(v)\n"
                            "}\n"
                            "train root { minimize loss\nupdate sgd(lr = 0.1, momentum = 0.9) }\n",
                            "f32", NULL);
    FINE(netc_state_check(s, &err)); // an infinity of the model's own means what it means
    steps(s, 1);
    REFUSED(NETC_CHECK_FAILED, "values that are not finite are in ", netc_state_check(s, &err));
    netc_status status = netc_state_check(s, &err);
    CHECK(status == NETC_CHECK_FAILED && strstr(netc_error_text(err), "'w'") &&
          !strstr(netc_error_text(err), "'v'") && !strstr(netc_error_text(err), "least"));
    netc_error_free(err), err = NULL;
    float w[40] = {0};
    netc_tensor t = {.dtype = NETC_F32, .rank = 1, .dim = {40}, .data = w};
    FINE(netc_state_write(s, "w", &t, &err));
    w[39] = NAN;
    FINE(netc_state_write(s, "w", &t, &err));
    REFUSED(NETC_CHECK_FAILED, "'w'", netc_state_check(s, &err));
    CHECK(netc_state_check(s, NULL) == NETC_CHECK_FAILED);
    netc_session_free(s);
}

// Clipping, a gradient as an expression and its tap see gradients without the scale.
static void test_unscaled(void)
{
    Points p;
    draw(&p);
    const char *text = regression("20", "minimize loss\n"
                                        "tap grad(loss, fc1.weight) as slope\n"
                                        "clip clip_global_norm(max_norm = 0.1)\n"
                                        "update sgd(lr = 1)");
    netc_session *wide = begun(text, "f32", &p), *half = begun(text, "f16", &p);
    netc_error *err = NULL;
    int skipped = until_good(half);
    CHECK(skipped > 0);
    steps(wide, 1);
    float a[18], b[18];
    netc_tensor ta = floats(a, 2, 6, 3), tb = floats(b, 2, 6, 3);
    FINE(netc_read(wide, "train", "slope", &ta, &err));
    FINE(netc_read(half, "train", "slope", &tb, &err));
    double largest = 0;
    for (int i = 0; i < 18; i++) largest = fmax(largest, fabs((double)a[i]));
    CHECK(largest > 1);
    for (int i = 0; i < 18; i++) CHECK(fabs((double)a[i] - (double)b[i]) < 0.01 * largest);
    alike(half, wide, 0.005, "clipped");
    netc_session_free(wide), netc_session_free(half);
}

static void test_accumulate(void)
{
    Points p;
    draw(&p);
    const char *text = regression(
        "300", "accumulate 4\nminimize loss\nclip clip_global_norm(1.0)\n"
               "update adam(lr = 0.01) for params(rank = 2)\nupdate sgd(lr = 0.01) for rest");
    netc_session *s[2] = {begun(text, "f32", NULL), begun(text, "f16", NULL)};
    netc_error *err = NULL;
    for (int k = 0; k < 2; k++) {
        netc_tensor x = floats(p.x, 2, 32, 3), t = floats(p.t, 1, 32, 0);
        FINE(netc_bind(s[k], "train", "x", &x, &err));
        FINE(netc_bind(s[k], "train", "t", &t, &err));
    }
    CHECK(until_good(s[1]) > 0);
    steps(s[0], 1);
    alike(s[1], s[0], 0.005, "accumulated");
    netc_session_free(s[0]), netc_session_free(s[1]);
}

// Two minimize: when the first overflows, the second's parameters stay as they were too.
static void test_game(void)
{
    static const char text[] =
        "use nn\nuse optim\ndim batch = 8\n"
        "model game(x: f32[batch, 3], t: f32[batch]) {\n"
        "    fake = linear(normal([batch, 2], 1), 3) as G\n"
        "    d_real = linear(x, 1) as D\n"
        "    d_fake = linear(stop_gradient(fake), 1) reuse D\n"
        "    g_fake = linear(fake, 1) reuse D\n"
        "    return d_loss = 1e4 * (bce_with_logits(d_real, 1) + bce_with_logits(d_fake, 0)) + "
        "0 * sum(t),\n"
        "           g_loss = bce_with_logits(g_fake, 1)\n"
        "}\n"
        "train game {\n"
        "    minimize d_loss over params(\"D.*\")\n    update sgd(lr = 1e-5)\n"
        "    minimize g_loss over params(\"G.*\")\n    update sgd(lr = 0.1)\n"
        "}\n";
    Points p;
    draw(&p);
    netc_session *wide = begun(text, "f32", &p), *half = begun(text, "f16", &p);
    float before[MOST], after[MOST];
    int n = values(half, of_generator, before);
    steps(half, 1);
    CHECK(scale(half) == 32768);
    CHECK(values(half, of_generator, after) == n &&
          !memcmp(before, after, sizeof *after * (size_t)n));
    int skipped = 1 + until_good(half);
    // The draws of a step depend on its number.
    int64_t step = skipped;
    netc_tensor t = scalar(NETC_I64, &step);
    netc_error *err = NULL;
    FINE(netc_state_write(wide, "@step", &t, &err));
    steps(wide, 1);
    alike(half, wide, 0.002, "the game");
    CHECK(values(half, of_generator, after) == n &&
          memcmp(before, after, sizeof *after * (size_t)n));
    netc_session_free(wide), netc_session_free(half);
}

int main(void)
{
    static void (*const tests[])(void) = {
        test_underflow, test_overflow, test_resume,     test_again, test_growth, test_hopeless,
        test_asking,    test_unscaled, test_accumulate, test_game,  NULL};
    return api_main(tests);
}
