// Compares the gradients of every loss of the train entry with finite differences, in double
// precision.
//
// A value under stop_gradient (also a parameter that an earlier `update` has changed) counts as a
// constant there, so it becomes a leaf here: its value is computed once and held while other values
// are perturbed.
#include <string.h>

#include "ir/check.h"
#include "lib/check/check.h"

enum { SMALL_BATCH = 4 }; // examples; few, since the evaluator is slow

typedef struct Leaves { // nodes of the train graph that become leaves, and their names
    Arena *arena;
    IdMap name_of; // node id -> const char *
    VEC(const Node *) nodes;
} Leaves;

static const char *leaf_name(Leaves *l, const Node *n)
{
    uint64_t name;
    if (idmap_get(&l->name_of, n->id, &name)) return (const char *)(uintptr_t)name;
    const char *text = arena_printf(l->arena, "%s:%u", n->name ? n->name : "held", n->id);
    idmap_set(&l->name_of, n->id, (uint64_t)(uintptr_t)text);
    vec_push(l->arena, &l->nodes, n);
    return text;
}

// The name of a gradient with respect to n: that of the cell or input, or of the leaf that n
// becomes.
static const char *variable_name(Leaves *l, const Node *n)
{
    return node_has(n, OPF_CELL) || n->op == OP_input ? attr_str(n, ATTR_name) : leaf_name(l, n);
}

// The gradients of y, and the level of the variable of each: how many other variables are on the
// longest way to it. Variables of one level are not computed from each other, so they can be leaves
// of one graph. (A leaf that is computed from a variable would cut off the gradient of that.)
typedef struct Gradients {
    VEC(Node *) grads;
    uint32_t *level; // by node
    uint32_t levels;
} Gradients;

static Gradients gradients_of(Checking *c, const Graph *g, const Node *y)
{
    Gradients s = {.level = NEW_ARRAY(c->arena, uint32_t, g->nodes.n + 1)};
    bool *variable = NEW_ARRAY(c->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op != OP_grad || n->args[0] != y) continue;
        vec_push(c->arena, &s.grads, n);
        variable[n->args[1]->id] = true;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op != OP_stop_gradient) // a leaf of every graph
            for (uint32_t k = 0; k < n->nargs; k++) {
                uint32_t before = n->args[k]->id, level = s.level[before] + variable[before];
                if (s.level[i] < level) s.level[i] = level;
            }
        if (variable[i] && s.levels <= s.level[i]) s.levels = s.level[i] + 1;
    }
    return s;
}

// Finds the nodes that become leaves: what counts as constant, and the variables of the gradients.
// Variables of other gradients, such as one taken inside of the loss, are not replaced.
static void find_leaves(Leaves *l, const Graph *g, Node *const *grads, int n)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_stop_gradient) leaf_name(l, g->nodes.at[i]);
    for (int i = 0; i < n; i++) variable_name(l, grads[i]->args[1]);
}

// Copies what [want] depends on to a new graph, with the leaves as inputs. images: the copies of
// [want].
static Graph *copy_needed(Checking *c, Graph *g, const Leaves *l, Node *const *want, int n,
                          Node **images)
{
    Graph *out = graph_new(c->arena, g->diags, g->symbols);
    bool *need = NEW_ARRAY(c->arena, bool, g->nodes.n + 1);
    for (int i = 0; i < n; i++) need[want[i]->id] = true;
    Remap r = remap_begin(g, out);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *node = g->nodes.at[i];
        if (!need[i] || idmap_get(&l->name_of, i, NULL)) continue;
        for (uint32_t k = 0; k < node->nargs; k++) need[node->args[k]->id] = true;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        uint64_t name;
        if (!need[i]) continue;
        if (idmap_get(&l->name_of, i, &name))
            r.map[i] =
                graph_input(out, (const char *)(uintptr_t)name, &g->nodes.at[i]->type, "arg");
        else
            remap_node(&r, g->nodes.at[i]);
    }
    for (int i = 0; i < n; i++) images[i] = r.map[want[i]->id];
    return out;
}

static void give_inputs(Checking *c, const Graph *g, EvalEnv *env)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_input)
            strmap_set(&env->inputs, attr_str(g->nodes.at[i], ATTR_name),
                       checking_input(c, g->nodes.at[i]));
}

static EvalEnv environment(Checking *c, Module *m, const Graph *train)
{
    EvalEnv env = {
        .arena = c->arena, .inputs = strmap_new(c->arena), .cells = strmap_new(c->arena)};
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *cell = &m->cells.at[i];
        Value *v = NEW(c->arena, Value);
        *v = value_new(c->arena, &cell->type);
        // The loss scale is 1: finite differences need a loss near 1.
        double x = !strcmp(cell->name, CELL_SEED)          ? (double)c->seed
                   : !strcmp(cell->name, CELL_STEP)        ? 3
                   : !strcmp(cell->name, CELL_TOTAL)       ? 100
                   : !strcmp(cell->name, CELL_EPOCH_STEPS) ? 10
                   : !strcmp(cell->name, CELL_LOSS_SCALE)  ? 1
                                                           : cell->initial;
        for (int64_t k = 0; k < type_count(&cell->type); k++) {
            if (dtype_is_float(cell->type.dtype))
                v->f[k] = x;
            else
                v->i[k] = (int64_t)x;
        }
        strmap_set(&env.cells, cell->name, v);
    }
    for (uint32_t k = 0; k < m->entries.n; k++) {
        EvalResult r = {0};
        if (m->entries.at[k].kind != ENTRY_INIT) continue;
        give_inputs(c, m->entries.at[k].graph, &env);
        if (!eval_graph(m->entries.at[k].graph, &env, &r)) continue;
        for (uint32_t i = 0; i < r.assigns.n; i++)
            strmap_set(&env.cells, r.assigns.entry[i].key, r.assigns.entry[i].value);
    }
    give_inputs(c, train, &env);
    return env;
}

// Evaluates the leaves once, from a graph that has them all as outputs.
static bool hold_values(Checking *c, Module *m, Graph *g, const Leaves *l, const PassOptions *po,
                        EvalEnv *env)
{
    Leaves none = {.arena = c->arena, .name_of = idmap_new(c->arena)};
    int n = (int)l->nodes.n;
    if (!n) return true;
    Node **want = NEW_ARRAY(c->arena, Node *, n), **images = NEW_ARRAY(c->arena, Node *, n);
    for (int i = 0; i < n; i++) want[i] = g->nodes.at[l->nodes.at[i]->id];
    Graph *v = copy_needed(c, g, &none, want, n, images);
    for (int i = 0; i < n; i++) {
        uint64_t name;
        idmap_get(&l->name_of, want[i]->id, &name);
        graph_root(v, OP_output, images[i], (const char *)(uintptr_t)name);
    }
    EvalResult r = {0};
    v = pass_autodiff(v, m, po);
    if (g->diags->errors || !eval_graph(v, env, &r)) return false;
    for (uint32_t i = 0; i < r.outputs.n; i++)
        strmap_set(&env->inputs, r.outputs.entry[i].key, r.outputs.entry[i].value);
    return true;
}

// What makes a gradient differ from finite differences though it is as the model says: functions
// with a gradient of their own, and values in iterations that are not held. A line for each, once.
static void name_exceptions(Checking *c, const Graph *g, bool in_loop, StrMap *said)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        bool own = n->op == OP_call && n->nregions == 2;
        const char *line = NULL, *at = loc_text(g->diags, n->loc);
        if (own)
            line =
                arena_printf(c->arena,
                             "note: '%s' (%s) has a gradient of its own; if that is not meant to "
                             "be the derivative (straight through), a difference is no error\n",
                             attr_str(n, ATTR_name), at);
        else if (in_loop && n->op == OP_stop_gradient)
            line = arena_printf(c->arena,
                                "note: %s: in a loop, finite differences follow also what "
                                "'stop_gradient' or a state leaves out of the gradient\n",
                                at);
        if (line && !strmap_has(said, line)) buf_str(c->out, line);
        if (line) strmap_set(said, line, c);
        for (uint32_t k = 0; k < n->nregions - own; k++)
            name_exceptions(c, n->regions[k], in_loop || n->op == OP_loop, said);
    }
}

// Checks gradients of y whose variables are of one level.
static bool check_level(Checking *c, Module *m, Graph *g, Node *y, Node *const *grads, int n,
                        const PassOptions *po, EvalEnv *env)
{
    Leaves leaves = {.arena = c->arena, .name_of = idmap_new(c->arena)}, *l = &leaves;
    find_leaves(l, g, grads, n);
    if (!hold_values(c, m, g, l, po, env)) return false;
    Node **images = NEW_ARRAY(c->arena, Node *, n);
    Graph *forward = copy_needed(c, g, l, &y, 1, images), *written = forward;
    graph_root(forward, OP_output, images[0], "loss");
    Graph *backward = copy_needed(c, g, l, grads, n, images);
    for (int i = 0; i < n; i++)
        graph_root(backward, OP_output, images[i],
                   arena_printf(c->arena, "grad:%s", variable_name(l, grads[i]->args[1])));
    forward = pass_autodiff(forward, m, po);
    backward = pass_autodiff(backward, m, po);
    CheckReport report = {0};
    if (g->diags->errors ||
        !check_gradients(forward, "loss", backward, env, (uint64_t)c->seed + 1, &report))
        return false;
    if (report.infinite) {
        c->status = lib_fail(c->err, NETC_CHECK_FAILED, "%s: the loss is infinite or NaN%s",
                             loc_text(g->diags, y->loc), checking_made_up);
        return true;
    }
    check_print(&report, c->out);
    StrMap said = strmap_new(c->arena);
    if (!report.ok) name_exceptions(c, written, false, &said);
    c->ok = c->ok && report.ok;
    c->partly += report.partly;
    c->none += report.none;
    return true;
}

// Checks all gradients of one loss y.
static bool check_loss(Checking *c, Module *m, Graph *g, Node *y, const PassOptions *po,
                       EvalEnv *env)
{
    Gradients all = gradients_of(c, g, y);
    buf_printf(c->out, "gradients of %s (%s)\n", y->name ? y->name : "the loss",
               loc_text(g->diags, y->loc));
    bool ran = true;
    for (uint32_t level = 0; ran && c->status == NETC_OK && level < all.levels; level++) {
        VEC(Node *) grads = {0};
        for (uint32_t i = 0; i < all.grads.n; i++)
            if (all.level[all.grads.at[i]->args[1]->id] == level)
                vec_push(c->arena, &grads, all.grads.at[i]);
        ran = check_level(c, m, g, y, grads.at, (int)grads.n, po, env);
    }
    return ran;
}

// The module with a small batch or, if the model does not allow that (another size is a number that
// must match the batch), with its own.
static Module *small_module(Checking *c, const char *dim, Diags **d)
{
    Module *m = NULL;
    if (dim) m = checking_try(c, arena_printf(c->arena, "%s=%d", dim, SMALL_BATCH), d);
    return m ? m : checking_module(c, "", d);
}

void check_all_gradients(Checking *c)
{
    Build *b;
    c->status = build_any(c->p, &b, c->err);
    const ProgEntry *e = c->status == NETC_OK ? program_entry(b->program, "train") : NULL;
    if (!e) return;
    const char *dim = NULL;
    for (int i = 0; i < e->ndims; i++)
        if (e->dims[i].batch && e->dims[i].value > SMALL_BATCH) dim = e->dims[i].name;
    Diags *d;
    Module *m = small_module(c, dim, &d);
    if (!m) return;
    Graph *g = module_entry(m, "train")->graph;
    Target target = target_cpu(1, true);
    PassOptions po = {.target = &target};
    EvalEnv env = environment(c, m, g);
    bool ran = true;
    IdMap done = idmap_new(c->arena);
    for (uint32_t i = 0; ran && c->status == NETC_OK && i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op != OP_grad || idmap_get(&done, n->args[0]->id, NULL)) continue;
        idmap_set(&done, n->args[0]->id, 1);
        ran = check_loss(c, m, g, n->args[0], &po, &env);
    }
    if (!ran)
        c->status = lib_fail_diags(c->err, NETC_INTERNAL, d);
    else if (!done.n)
        buf_str(c->out,
                "gradients: taken inside a loop (accumulate); checked by the model without it\n");
}
