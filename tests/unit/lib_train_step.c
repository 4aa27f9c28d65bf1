// Training programs, evaluated: optimizers against their formulas, accumulation against one large
// batch, several minimize in order, schedules, clipping, states.
#include <math.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/eval.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

typedef struct Run {
    Arena *a;
    Diags *d;
    Module *m;
    StrMap cells;
    EvalResult last;
    uint32_t random;
} Run;

static void report(Run *r, const char *what)
{
    Buf b = buf_new(r->a);
    diags_render(r->d, &b, false);
    CHECK_MSG(false, "%s\n%s", what, b.data ? b.data : "");
}

static double next_random(Run *r)
{
    r->random = r->random * 1664525u + 1013904223u;
    return (r->random >> 8) / 16777216.0;
}

static Value *new_value(Run *r, const Type *t)
{
    Value *v = NEW(r->a, Value);
    *v = value_new(r->a, t);
    return v;
}

static bool run_entry(Run *r, const char *name)
{
    Entry *e = module_entry(r->m, name);
    EvalEnv env = {.arena = r->a, .inputs = strmap_new(r->a), .cells = r->cells};
    for (uint32_t i = 0; i < e->graph->nodes.n; i++) {
        Node *n = e->graph->nodes.at[i];
        if (n->op != OP_input) continue;
        Value *v = new_value(r, &n->type);
        int64_t high = attr_int(n, ATTR_high_bound, 256);
        for (int64_t k = 0; k < type_count(&n->type); k++) {
            double x = next_random(r);
            if (dtype_is_float(n->type.dtype))
                v->f[k] = 2 * x - 1;
            else
                v->i[k] = (int64_t)(x * (double)high);
        }
        strmap_set(&env.inputs, attr_str(n, ATTR_name), v);
    }
    memset(&r->last, 0, sizeof r->last);
    if (!eval_graph(e->graph, &env, &r->last)) {
        report(r, "cannot be evaluated");
        return false;
    }
    CHECK(!r->last.failed_assert);
    for (uint32_t i = 0; i < r->last.assigns.n; i++)
        strmap_set(&r->cells, r->last.assigns.entry[i].key, r->last.assigns.entry[i].value);
    return true;
}

static bool start(Run *r, const char *text, const Define *defines, uint32_t n)
{
    static const Target target = {0};
    FrontendOptions o = {.defines = defines, .ndefines = n};
    PassOptions p = {.target = &target, .stop_before = "fuse"};
    *r = (Run){.a = arena_new(), .random = 1};
    r->d = diags_new(r->a);
    r->m = frontend_compile(r->a, r->d, "step.net", text, strlen(text), &o);
    if (!r->m || !passes_run(r->m, &p, NULL)) {
        report(r, "does not compile");
        return false;
    }
    r->cells = strmap_new(r->a);
    for (uint32_t i = 0; i < r->m->cells.n; i++) {
        const Cell *c = &r->m->cells.at[i];
        Value *v = new_value(r, &c->type);
        for (int64_t k = 0; k < type_count(&c->type); k++) {
            if (dtype_is_float(c->type.dtype))
                v->f[k] = c->initial;
            else
                v->i[k] = (int64_t)c->initial;
        }
        if (!strcmp(c->name, CELL_TOTAL)) v->i[0] = 10;
        if (!strcmp(c->name, CELL_EPOCH_STEPS)) v->i[0] = 2;
        strmap_set(&r->cells, c->name, v);
    }
    return run_entry(r, "init");
}

static double cell(Run *r, const char *name, int64_t i)
{
    Value *v = strmap_get(&r->cells, name);
    CHECK_MSG(v != NULL, "there is no cell '%s'", name);
    return v ? value_get(v, i) : 0;
}

static double output(Run *r, const char *name)
{
    Value *v = strmap_get(&r->last.outputs, name);
    CHECK_MSG(v != NULL, "there is no output '%s'", name);
    return v ? value_get(v, 0) : 0;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * (1 + fabs(b));
}

// -- optimizers: loss = sum(w * c) + sum(w^2) / 2, gradient c + w ---------------------------------
typedef struct Ref {
    double p, m, v;
} Ref;
typedef void Step(Ref *s, double g, int t); // t counts from 1

static void ref_sgd(Ref *s, double g, int t)
{
    (void)t;
    s->p -= 0.1 * g;
}
static void ref_momentum(Ref *s, double g, int t)
{
    (void)t;
    s->m = 0.9 * s->m + g + 0.01 * s->p;
    s->p -= 0.1 * s->m;
}
static void ref_nesterov(Ref *s, double g, int t)
{
    (void)t;
    s->m = 0.9 * s->m + g;
    s->p -= 0.1 * (g + 0.9 * s->m);
}
static void moments(Ref *s, double g)
{
    s->m = 0.9 * s->m + (1 - 0.9) * g;
    s->v = 0.999 * s->v + (1 - 0.999) * g * g;
}
static double adam_move(const Ref *s, int t)
{
    double m = s->m / (1 - pow(0.9, t)), v = s->v / (1 - pow(0.999, t));
    return m / (sqrt(v) + 1e-8);
}
static void ref_adam(Ref *s, double g, int t)
{
    moments(s, g);
    s->p -= 0.1 * adam_move(s, t);
}
static void ref_adamw(Ref *s, double g, int t)
{
    moments(s, g);
    s->p -= 0.1 * (adam_move(s, t) + 0.05 * s->p);
}
static void ref_rmsprop(Ref *s, double g, int t)
{
    (void)t;
    s->v = 0.99 * s->v + (1 - 0.99) * g * g;
    s->p -= 0.1 * g / (sqrt(s->v) + 1e-8);
}
static void ref_adagrad(Ref *s, double g, int t)
{
    (void)t;
    s->v += g * g;
    s->p -= 0.1 * g / (sqrt(s->v) + 1e-10);
}
static void ref_clipped(Ref *s, double g, int t)
{
    (void)t;
    s->p -= 0.1 * fmax(-0.5, fmin(0.5, g));
}
static void ref_cosine(Ref *s, double g, int t)
{
    int step = t - 1; // two steps of warm-up, ten in all
    double lr = step < 2 ? 0.1 * (step + 1) / 2 : 0.05 * (1 + cos(M_PI * (step - 2) / 8));
    s->p -= lr * g;
}
static void ref_decay(Ref *s, double g, int t)
{
    s->p -= 0.1 * pow(0.5, (t - 1) / 2) * g;
}
static void ref_epoch(Ref *s, double g, int t)
{
    s->p -= 0.1 * ((t - 1) / 2) * g; // two steps an epoch
}

static void test_optimizer(const char *update, Step *step)
{
    Run r;
    Arena *a = arena_new();
    const char *text =
        arena_printf(a,
                     "use optim\n"
                     "model m() {\n"
                     "    param w: f32[3] = [0.5, -1.0, 2.0]\n"
                     "    return loss = sum(w * [1.0, -2.0, 0.25]) + sum(w * w) / 2\n"
                     "}\n"
                     "train m { minimize loss\n%s\n}\n",
                     update);
    if (!start(&r, text, NULL, 0)) return;
    Ref ref[3] = {{.p = 0.5}, {.p = -1}, {.p = 2}};
    const double c[3] = {1, -2, 0.25};
    for (int t = 1; t <= 6; t++) {
        CHECK(run_entry(&r, "train"));
        for (int i = 0; i < 3; i++) {
            step(&ref[i], c[i] + ref[i].p, t);
            CHECK_MSG(near(cell(&r, "w", i), ref[i].p), "%s: step %d: w[%d] = %.9g, wanted %.9g",
                      update, t, i, cell(&r, "w", i), ref[i].p);
        }
    }
    CHECK(cell(&r, CELL_STEP, 0) == 6 && cell(&r, "@items.train", 0) == 6);
    arena_free(r.a);
    arena_free(a);
}

// -- accumulate -----------------------------------------------------------------------------------
static const char two_layers[] =
    "use nn\nuse optim\nconst n = 1\ndim batch = 8\n"
    "model m(x: f32[batch, 4], y: u8[batch] in 0..3) {\n"
    "    state seen: f32[] = 0\n"
    "    seen <- seen + 1\n"
    "    h = relu(linear(x, 5) as fc1)\n"
    "    assert all(h >= 0), \"relu\"\n"
    "    logits = linear(h, 3) as fc2\n"
    "    return loss = cross_entropy(logits, y), accuracy = accuracy(logits, y), logits\n"
    "}\n"
    "train m {\n"
    "    accumulate n\n    minimize loss\n    clip clip_global_norm(0.5)\n    update adam(lr = "
    "0.1)\n"
    "}\n";

static void test_accumulate(void)
{
    Run whole, parts;
    Define big[] = {{"batch", "32", false}}, small[] = {{"n", "4", false}, {"batch", "8", true}};
    if (!start(&whole, two_layers, big, 1) || !start(&parts, two_layers, small, 2)) return;
    CHECK(module_entry(parts.m, "train")->batch == 32);
    for (int t = 0; t < 3; t++) {
        CHECK(run_entry(&whole, "train") && run_entry(&parts, "train"));
        CHECK(near(output(&whole, "loss"), output(&parts, "loss")));
        CHECK(near(output(&whole, "accuracy"), output(&parts, "accuracy")));
        for (int i = 0; i < 5; i++)
            CHECK(fabs(cell(&whole, "fc1.weight", i) - cell(&parts, "fc1.weight", i)) < 1e-5);
    }
    CHECK(cell(&whole, "seen", 0) == 3 && cell(&parts, "seen", 0) == 12);
    CHECK(cell(&parts, CELL_CURSOR, 0) == 96 && cell(&parts, "@items.train", 0) == 96);
    CHECK(near(cell(&parts, "@sum.train.loss", 0), cell(&whole, "@sum.train.loss", 0)));
    arena_free(whole.a);
    arena_free(parts.a);
}

// -- several minimize: the second sees what the first did; states are written once ----------------
static void test_in_order(void)
{
    Run r;
    const char *text = "use optim\n"
                       "model m() {\n"
                       "    param a: f32[] = 1\n"
                       "    param b: f32[] = 1\n"
                       "    state runs: f32[] = 0\n"
                       "    runs <- runs + 1\n"
                       "    return first = a * a, second = a * b * b\n"
                       "}\n"
                       "train m {\n"
                       "    minimize first over [a]\n"
                       "    update sgd(lr = 0.25)\n"
                       "    minimize second over params(\"b\")\n"
                       "    update sgd(lr = 0.1)\n"
                       "}\n";
    if (!start(&r, text, NULL, 0)) return;
    CHECK(run_entry(&r, "train"));
    CHECK(near(cell(&r, "a", 0), 0.5));               // 1 - 0.25 * 2
    CHECK(near(cell(&r, "b", 0), 1 - 0.1 * 2 * 0.5)); // sees a = 0.5
    CHECK(cell(&r, "runs", 0) == 1 && near(output(&r, "second"), 1));
    arena_free(r.a);
}

static void test_clip_norm(void)
{
    Run r;
    const char *text =
        "use optim\n"
        "model m() {\n"
        "    param a: f32[] = 0\n"
        "    param b: f32[] = 0 frozen\n"
        "    param c: f32[2] = 0\n"
        "    return loss = 3 * a + b + sum(c * [4.0, 0.0])\n"
        "}\n"
        "train m { minimize loss\n clip clip_global_norm(1)\n update sgd(lr = 1) }\n";
    if (!start(&r, text, NULL, 0)) return;
    CHECK(run_entry(&r, "train"));
    CHECK(fabs(cell(&r, "a", 0) + 0.6) < 1e-5 && fabs(cell(&r, "c", 0) + 0.8) < 1e-5);
    CHECK(cell(&r, "b", 0) == 0 && !module_cell(r.m, "b.velocity"));
    arena_free(r.a);
}

// Gradients as expressions, of gradients, and by a function's own rule.
static void test_grad(void)
{
    Run r;
    const char *text = "fn through(x) { return minimum(x, 1) } grad(dy) { return 10 * dy }\n"
                       "model m() {\n"
                       "    x = tensor([2.0, 3.0])\n"
                       "    d = grad(sum(x * x * x), x)\n"
                       "    return first = d[1], second = grad(sum(d), x)[0],\n"
                       "           own = grad(sum(through(x)), x)[0]\n"
                       "}\n";
    if (!start(&r, text, NULL, 0) || !run_entry(&r, "m")) return;
    CHECK(near(output(&r, "first"), 27) && near(output(&r, "second"), 12));
    CHECK(near(output(&r, "own"), 10));
    arena_free(r.a);
}

int main(void)
{
    test_optimizer("update sgd(lr = 0.1)", ref_sgd);
    test_optimizer("update sgd(lr = 0.1, momentum = 0.9, weight_decay = 0.01)", ref_momentum);
    test_optimizer("update sgd(lr = 0.1, momentum = 0.9, nesterov = true)", ref_nesterov);
    test_optimizer("update adam(lr = 0.1)", ref_adam);
    test_optimizer("update adamw(lr = 0.1, weight_decay = 0.05)", ref_adamw);
    test_optimizer("update rmsprop(lr = 0.1)", ref_rmsprop);
    test_optimizer("update adagrad(lr = 0.1)", ref_adagrad);
    test_optimizer("clip clip_value(0.5)\nupdate sgd(lr = 0.1)", ref_clipped);
    test_optimizer("update sgd(lr = cosine(0.1, steps = total, warmup = 2))", ref_cosine);
    test_optimizer("update sgd(lr = step_decay(0.1, every = 2, factor = 0.5))", ref_decay);
    test_optimizer("update sgd(lr = 0.1 * epoch)", ref_epoch);
    test_accumulate();
    test_in_order();
    test_clip_norm();
    test_grad();
    return unit_done();
}
