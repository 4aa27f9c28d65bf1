// What random numbers depend on, seen from outside: the execution of the entry, the step and the
// micro-batch; not how often other entries ran, nor where training was resumed. DEVICE=cuda:0 runs
// it there.
#include "tests/unit/api.h"

// [last] and [before] keep what the two latest executions of the model drew.
static const char *noisy(const char *how)
{
    static char text[1024];
    snprintf(text, sizeof text,
             "use nn\nuse optim\ndim batch = 8\n"
             "model line(x: f32[batch, 3], t: f32[batch]) {\n"
             "    state last: f32[4] = 0\n"
             "    state before: f32[4] = 0\n"
             "    z = normal([4], 1)\n"
             "    before <- last\n"
             "    last <- z\n"
             "    y = reshape(linear(dropout(x, 0.5), 1) as fc, [batch])\n"
             "    return loss = mean(square(y + z[0] - t))\n"
             "}\n"
             "model sample() { return z = uniform([16], 0, 1) }\n"
             "model other() { return z = uniform([16], 0, 1) }\n"
             "train line {\n%s\nminimize loss\nupdate sgd(lr = 0.01)\n}\n",
             how);
    return text;
}

static netc_session *begun(const char *text, int64_t seed)
{
    netc_program *program = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    NETC_INIT(netc_session_options, so);
    const char *device = getenv("DEVICE") ? getenv("DEVICE") : "cpu";
    so.seed = seed;
    FINE(netc_compile_text(ctx, "noisy.net", text, NULL, &program, &err));
    FINE(netc_session_create(program, device, &so, &s, &err));
    netc_program_release(program);
    return s;
}

enum { WORDS = 16 };
static void drawn(netc_session *s, const char *entry, int64_t times, float *out)
{
    netc_error *err = NULL;
    netc_tensor t = floats(out, 1, WORDS, 0);
    FINE(netc_run(s, entry, times, &err));
    FINE(netc_read(s, entry, "z", &t, &err));
}

static bool same(const float *a, const float *b, int n)
{
    return !memcmp(a, b, sizeof *a * (size_t)n);
}

static void test_executions(void)
{
    netc_session *a = begun(noisy(""), 3), *b = begun(noisy(""), 3), *c = begun(noisy(""), 4);
    float x[3][WORDS], y[WORDS];
    for (int i = 0; i < 3; i++) drawn(a, "sample", 1, x[i]);
    CHECK(!same(x[0], x[1], WORDS) && !same(x[1], x[2], WORDS) && !same(x[0], x[2], WORDS));
    drawn(b, "other", 2, y); // counts for itself
    drawn(b, "sample", 1, y);
    CHECK(same(x[0], y, WORDS));
    drawn(b, "sample", 2, y); // two in a row are two
    CHECK(same(x[2], y, WORDS));
    drawn(c, "sample", 1, y);
    CHECK(!same(x[0], y, WORDS)); // another seed
    netc_session_free(a), netc_session_free(b), netc_session_free(c);
}

static void latest(netc_session *s, float *before, float *last)
{
    netc_error *err = NULL;
    netc_tensor b = floats(before, 1, 4, 0), l = floats(last, 1, 4, 0);
    FINE(netc_state_read(s, "before", &b, &err));
    FINE(netc_state_read(s, "last", &l, &err));
}

// Steps of one launch draw what steps of several do; so do the micro-batches of a step.
static void test_steps(void)
{
    static const char *const how[] = {"", "accumulate 2"};
    static const int batches[] = {1, 2}, steps[] = {2, 1};
    Points p;
    float before[4], last[4], first[4], second[4];
    draw(&p);
    for (int k = 0; k < 2; k++) {
        netc_session *s = begun(noisy(how[k]), 3);
        netc_error *err = NULL;
        netc_tensor x = floats(p.x, 2, 8 * batches[k], 3), t = floats(p.t, 1, 8 * batches[k], 0);
        FINE(netc_bind(s, "train", "x", &x, &err));
        FINE(netc_bind(s, "train", "t", &t, &err));
        FINE(netc_run(s, "train", steps[k], &err));
        latest(s, before, last);
        CHECK(!same(before, last, 4));
        // A count of step * n + micro-batch: both ways, the first two counts.
        if (k) CHECK(same(before, first, 4) && same(last, second, 4));
        memcpy(first, before, sizeof first), memcpy(second, last, sizeof second);
        FINE(netc_run(s, "train", steps[k], &err));
        latest(s, before, last);
        CHECK(!same(first, before, 4) && !same(second, last, 4) && !same(before, last, 4));
        netc_session_free(s);
    }
}

typedef struct Seen { // what evaluations gave, in order
    double loss[16];
    int n;
} Seen;

static void event(void *user, const netc_event *e)
{
    Seen *seen = user;
    for (int i = 0; e->kind == NETC_EVENT_EVAL && i < e->nmetrics && seen->n < 16; i++)
        seen->loss[seen->n++] = e->metrics[i].value;
}

static netc_dataset *dataset(Points *p, int n)
{
    netc_dataset *d = NULL;
    netc_error *err = NULL;
    netc_tensor x = floats(p->x, 2, n, 3), t = floats(p->t, 1, n, 0);
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &x, &err));
    FINE(netc_dataset_add_array(d, "t", &t, &err));
    return d;
}

static void trained(netc_session *s, netc_dataset *d, int64_t steps, const char *save,
                    const char *resume, Seen *seen)
{
    NETC_INIT(netc_train_options, o);
    netc_error *err = NULL;
    o.data = o.eval_data = d;
    o.steps = steps;
    o.eval_every = 2;
    o.save = save;
    o.resume = resume;
    o.event = event;
    o.user = seen;
    FINE(netc_train(s, &o, &err));
}

// Resumed training draws what it would have drawn, and so do its evaluations.
static void test_resume(void)
{
    Points p;
    draw(&p);
    netc_dataset *d = dataset(&p, 40);
    netc_session *whole = begun(noisy(""), 3), *part = begun(noisy(""), 3),
                 *rest = begun(noisy(""), 5);
    Seen a = {0}, b = {0};
    trained(whole, d, 8, NULL, NULL, &a);
    trained(part, d, 4, file("part.safetensors"), NULL, &b);
    trained(rest, d, 8, NULL, file("part.safetensors"), &b);
    CHECK(a.n == 4 && b.n == 4);
    for (int i = 0; i < 4; i++) CHECK(a.loss[i] == b.loss[i]);
    float w[2][3];
    netc_error *err = NULL;
    netc_session *ends[] = {whole, rest};
    for (int i = 0; i < 2; i++) {
        netc_tensor t = floats(w[i], 2, 1, 3);
        FINE(netc_state_read(ends[i], "fc.weight", &t, &err));
    }
    CHECK(same(w[0], w[1], 3));
    netc_session_free(whole), netc_session_free(part), netc_session_free(rest);
    netc_dataset_free(d);
}

static double evaluated(netc_session *s, netc_dataset *d)
{
    netc_metric *m = NULL;
    int n = 0;
    netc_error *err = NULL;
    FINE(netc_evaluate(s, d, &m, &n, &err));
    double loss = n ? m[0].value : -1;
    free(m);
    return loss;
}

// Batches of an evaluation draw apart; evaluating again draws the same.
static void test_evaluation(void)
{
    Points p = {0};
    netc_dataset *one = dataset(&p, 8), *three = dataset(&p, 24); // equal examples
    netc_session *s = begun(noisy(""), 3);
    double first = evaluated(s, one), all = evaluated(s, three);
    CHECK(first != all);
    CHECK(evaluated(s, one) == first && evaluated(s, three) == all);
    netc_session_free(s);
    netc_dataset_free(one), netc_dataset_free(three);
}

int main(void)
{
    static void (*const tests[])(void) = {test_executions, test_steps, test_resume, test_evaluation,
                                          NULL};
    return api_main(tests);
}
