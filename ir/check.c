// Compares gradients with finite differences.
#include "ir/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/eval_ops.h"
#include "ir/philox.h"

enum { DIRECTIONS = 8, COORDINATES = 32, REDRAWS = 6 };

// With a step of 1e-4, both the rounding error of a loss of about 1 (1e-16 / step) and the
// curvature that extrapolation leaves (step^4) are far below the tolerance. Larger losses get
// larger steps.
static double first_step(double loss)
{
    return 1e-4 * fmin(sqrt(fmax(1, fabs(loss))), 50);
}

static double tolerance(double a, double b)
{
    return 1e-6 * fmax(fabs(a), fabs(b)) + 1e-9;
}

typedef struct Check {
    const Graph *graph; // only what the loss needs
    const Node *loss;   // the output node in graph
    EvalEnv env;        // with maps of its own, so that a leaf can be replaced
    Value **base;       // values at the unperturbed point, by node id
    bool *stale;        // by node id: depends on the leaf being probed
    uint64_t seed, draws;
    Arena *scratch; // of one evaluation; empty between them
    bool failed;
} Check;

// -- the loss along a line ------------------------------------------------------------------------

// The part of g that the output [name] needs; NULL if there is no such output.
static Graph *only_output(const Graph *g, const char *name, const Node **loss)
{
    const Node *root = NULL;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        const Node *n = g->roots.at[i];
        if (n->op == OP_output && !strcmp(attr_str(n, ATTR_name), name)) root = n;
    }
    if (!root) return NULL;
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n);
    live[root->id] = true;
    for (uint32_t i = root->id + 1; i-- > 0;)
        for (uint32_t k = 0; live[i] && k < g->nodes.at[i]->nargs; k++)
            live[g->nodes.at[i]->args[k]->id] = true;
    Graph *out = graph_beside(g);
    Remap r = remap_begin(g, out);
    for (uint32_t i = 0; i <= root->id; i++)
        if (live[i]) *loss = remap_node(&r, g->nodes.at[i]);
    return out;
}

static void mark_stale(Check *c, const char *leaf)
{
    for (uint32_t i = 0; i < c->graph->nodes.n; i++) {
        const Node *n = c->graph->nodes.at[i];
        bool named = node_has(n, OPF_CELL) || n->op == OP_input;
        c->stale[i] = named && !strcmp(attr_str(n, ATTR_name), leaf);
        for (uint32_t k = 0; k < n->nargs; k++) c->stale[i] |= c->stale[n->args[k]->id];
    }
}

// The loss with the leaf set to x + t * d.
static double loss_at(Check *c, Value *leaf, const double *x, const double *d, double t)
{
    int64_t n = type_count(&leaf->type);
    if (!c->stale[c->loss->id]) return value_get(c->base[c->loss->id], 0); // does not depend on it
    for (int64_t i = 0; i < n; i++) leaf->f[i] = x[i] + t * d[i];
    double v = NAN;
    EvalEnv env = c->env;
    env.arena = c->scratch;
    EvalResult r;
    if (eval_graph_again(c->graph, &env, &r, c->base, c->stale, NULL))
        v = value_get(strmap_get(&r.outputs, attr_str(c->loss, ATTR_name)), 0);
    else
        c->failed = true;
    arena_empty(c->scratch);
    return v;
}

// The directional derivative along d: central differences at three steps, extrapolated from each
// two neighbouring ones. Returns false if the function does not seem to be smooth there: the
// extrapolated slopes disagree, or the difference of the one-sided slopes does not shrink with the
// step.
static bool difference(Check *c, Value *leaf, const double *x, const double *d, double h,
                       double *slope)
{
    double f0 = value_get(c->base[c->loss->id], 0), central[3], bend[3];
    for (int i = 0; i < 3; i++) {
        double step = h / (1 << i);
        double up = loss_at(c, leaf, x, d, step), down = loss_at(c, leaf, x, d, -step);
        central[i] = (up - down) / (2 * step);
        bend[i] = (up - 2 * f0 + down) / step; // difference of the one-sided slopes
    }
    double wide = (4 * central[1] - central[0]) / 3, narrow = (4 * central[2] - central[1]) / 3;
    double allowed = tolerance(wide, narrow) / 2 + 16 * DBL_EPSILON * fabs(f0) / h; // plus rounding
    *slope = wide;
    return fabs(wide - narrow) <= allowed && fabs(bend[0] - 2 * bend[1]) <= allowed &&
           fabs(bend[1] - 2 * bend[2]) <= 2 * allowed;
}

// -- probes ---------------------------------------------------------------------------------------

static double uniform(Check *c) // in (0, 1)
{
    return (philox_word(c->seed, 0, 0, c->draws++, 32, 0) + 0.5) / 4294967296.0;
}

// A random unit vector, or the axis of [coordinate].
static void draw(Check *c, double *d, int64_t n, int64_t coordinate)
{
    memset(d, 0, (size_t)n * sizeof *d);
    if (coordinate >= 0) {
        d[coordinate] = 1;
        return;
    }
    double length = 0;
    for (int64_t i = 0; i < n; i++) {
        d[i] = sqrt(-2 * log(uniform(c))) * cos(2 * M_PI * uniform(c));
        length += d[i] * d[i];
    }
    for (int64_t i = 0; i < n; i++) d[i] /= sqrt(length);
}

static void record(CheckTensor *t, const CheckProbe *p)
{
    double off = fabs(p->difference - p->gradient);
    double error = off / tolerance(p->difference, p->gradient);
    if (!(error <= 1)) t->failed++; // NaN fails, too
    if (t->kept++ == 0 || !(error <= t->error)) {
        t->error = error;
        t->worst = *p;
    }
}

static void check_tensor(Check *c, const Value *at, const Value *gradient, CheckTensor *t)
{
    Arena *a = c->env.arena;
    int64_t n = type_count(&at->type);
    int coordinates = n < COORDINATES ? (int)n : COORDINATES;
    double *d = NEW_ARRAY(a, double, n + 1);
    Value moved = value_new(a, &at->type), *leaf = &moved;
    StrMap *map = strmap_has(&c->env.cells, t->name) ? &c->env.cells : &c->env.inputs;
    strmap_set(map, t->name, leaf);
    mark_stale(c, t->name);
    t->probes = n ? DIRECTIONS + coordinates : 0;
    for (int k = 0; k < t->probes && !c->failed; k++) {
        for (int redraw = 0; redraw <= REDRAWS && !c->failed; redraw++) {
            double h = first_step(value_get(c->base[c->loss->id], 0)) / (1 << redraw % 3);
            CheckProbe p = {.coordinate = -1};
            if (k >= DIRECTIONS) // every element of a small tensor, random ones otherwise
                p.coordinate =
                    n <= COORDINATES ? k - DIRECTIONS : (int64_t)(uniform(c) * (double)n);
            draw(c, d, n, p.coordinate);
            if (!difference(c, leaf, at->f, d, h, &p.difference)) continue;
            for (int64_t i = 0; i < n; i++) p.gradient += gradient->f[i] * d[i];
            record(t, &p);
            break;
        }
    }
    // An infinite or NaN gradient of a finite loss is wrong also where no probe is kept.
    for (int64_t i = 0; i < n && !t->failed; i++)
        if (!isfinite(gradient->f[i])) {
            t->failed = 1;
            t->error = INFINITY;
            t->worst = (CheckProbe){i, NAN, gradient->f[i]};
        }
    strmap_set(map, t->name, (void *)at);
    t->verdict = t->failed ? CHECK_BAD : t->kept * 10 >= t->probes * 9 ? CHECK_OK : CHECK_UNDECIDED;
}

// -- the whole graph ------------------------------------------------------------------------------

static StrMap copy_map(Arena *a, const StrMap *m)
{
    StrMap out = strmap_new(a);
    for (uint32_t i = 0; i < m->n; i++) strmap_set(&out, m->entry[i].key, m->entry[i].value);
    return out;
}

static bool refuse(const Graph *g, Loc loc, const char *what, const char *name)
{
    diag_error(g->diags, loc, "checking gradients: %s '%s'", what, name);
    return false;
}

bool check_gradients(const Graph *forward, const char *loss, const Graph *gradients,
                     const EvalEnv *env, uint64_t seed, CheckReport *out)
{
    static const char prefix[] = "grad:";
    Arena *a = env->arena;
    Check c = {.seed = seed, .scratch = arena_inside(a)};
    c.env = (EvalEnv){
        .arena = a, .inputs = copy_map(a, &env->inputs), .cells = copy_map(a, &env->cells)};
    memset(out, 0, sizeof *out);
    out->ok = true;
    c.graph = only_output(forward, loss, &c.loss);
    if (!c.graph) return refuse(forward, 0, "the graph has no output", loss);
    if (c.loss->type.rank || !dtype_is_float(c.loss->type.dtype))
        return refuse(forward, c.loss->loc, "no float scalar is the output", loss);
    EvalResult at_point, result;
    c.base = NEW_ARRAY(a, Value *, c.graph->nodes.n + 1);
    c.stale = NEW_ARRAY(a, bool, c.graph->nodes.n + 1);
    if (!eval_graph_all(c.graph, &c.env, &at_point, c.base)) return false;
    out->infinite = !isfinite(value_get(c.base[c.loss->id], 0));
    if (out->infinite) return true;
    if (!eval_graph(gradients, &c.env, &result)) return false;
    for (uint32_t i = 0; i < result.outputs.n && !c.failed; i++) {
        const char *name = result.outputs.entry[i].key;
        if (strncmp(name, prefix, sizeof prefix - 1)) continue;
        const Value *g = result.outputs.entry[i].value;
        CheckTensor t = {.name = name + sizeof prefix - 1};
        const Value *leaf = strmap_get(&env->cells, t.name);
        if (!leaf) leaf = strmap_get(&env->inputs, t.name);
        if (!leaf || !value_is_float(leaf)) return refuse(gradients, 0, "no float leaf is", t.name);
        if (!shape_equal(&leaf->type, &g->type))
            return refuse(gradients, 0, "the gradient has another shape than", t.name);
        check_tensor(&c, leaf, g, &t);
        out->ok &= t.verdict != CHECK_BAD;
        if (t.verdict == CHECK_UNDECIDED) *(t.kept ? &out->partly : &out->none) += 1;
        vec_push(a, &out->tensors, t);
    }
    return !c.failed;
}

void check_print(const CheckReport *r, Buf *out)
{
    static const char *const names[] = {"ok", "BAD", "part"};
    for (uint32_t i = 0; i < r->tensors.n; i++) {
        const CheckTensor *t = &r->tensors.at[i];
        if (t->verdict == CHECK_UNDECIDED && !t->kept) {
            buf_printf(out, "none %-32s   0 of %3d probes: all cross a kink\n", t->name, t->probes);
            continue;
        }
        buf_printf(out, "%-4s %-32s %3d of %3d probes, worst error %.2g of the allowed%s\n",
                   names[t->verdict], t->name, t->kept, t->probes, t->error,
                   t->verdict == CHECK_UNDECIDED ? "; the others cross a kink" : "");
        if (t->verdict != CHECK_BAD) continue;
        if (t->worst.coordinate < 0)
            buf_str(out, "     along a random direction");
        else
            buf_printf(out, "     at element %lld", (long long)t->worst.coordinate);
        buf_printf(out, ": finite differences %.12g, gradient %.12g\n", t->worst.difference,
                   t->worst.gradient);
    }
}
