// A model for a host with its own automatic differentiation: a function of the model's inputs and
// of parameters passed as arguments, or the vector-Jacobian product of that function.
//
// The gradients take the function's arguments, a cotangent for each float output ("@d.Z"), and the
// values that the states it depends on had when it began ("@was.S"). With [keep] the function
// returns those states, so that its gradients can be computed after they have been overwritten, and
// the residuals of kept.c. The gradients write no cells and check nothing. With [states] the
// function also takes those states as inputs and returns the states that it writes ("@now.S")
// instead of writing them.
#include <string.h>

#include "base/plain.h"
#include "lib/api/kept.h"

#define COTANGENT "@d."
#define AGAIN     "@dd." // prefix of the cotangents of gradients
#define STATE     "@was."
#define WRITTEN   "@now."

typedef struct Making {
    const Settings *s;
    Module *m;
    Entry *e;
} Making;

static bool matches(const char *const *patterns, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (plain_match(patterns[i], name)) return true;
    return false;
}

// Whether the parameter is an argument of the function. Patterns do not match frozen parameters;
// full names do.
static bool is_argument(const Making *k, const Node *n)
{
    if (n->op != OP_param) return false;
    const char *name = attr_str(n, ATTR_name);
    if (!module_cell(k->m, name)->frozen) return matches(k->s->arguments, k->s->narguments, name);
    for (int i = 0; i < k->s->narguments; i++)
        if (!strcmp(k->s->arguments[i], name)) return true;
    return false;
}

typedef struct Names {
    const char **at;
    size_t n;
} Names;

static bool has(const Names *known, const char *name)
{
    for (size_t i = 0; i < known->n; i++)
        if (!strcmp(known->at[i], name)) return true;
    return false;
}

// Reports names that are not patterns and do not exist.
static void check_names(const Making *k, const char *what, const char *const *names, int n,
                        const Names *known)
{
    for (int i = 0; i < n; i++)
        if (!strpbrk(names[i], "*?[") && !has(known, names[i]))
            diag_error(k->m->diags, k->e->loc, "'%s' has no %s '%s'%s", k->e->name, what, names[i],
                       advise(names[i], known->at, known->n).text);
}

static bool wanted(const Making *k, const Node *root)
{
    return root->op != OP_output || output_wanted(k->s, attr_str(root, ATTR_name));
}

static bool gives_gradient(const Making *k, const Node *root)
{
    return root->op == OP_output && wanted(k, root) && dtype_is_float(root->type.dtype);
}

// Checks that the requested names exist in the model.
static bool check(const Making *k)
{
    const Graph *g = k->e->graph;
    Names inputs = {NEW_ARRAY(g->arena, const char *, g->nodes.n + 1), 0};
    Names params = {NEW_ARRAY(g->arena, const char *, g->nodes.n + 1), 0};
    Names floats = {NEW_ARRAY(g->arena, const char *, g->nodes.n + 1), 0};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const char *name = attr_str(n, ATTR_name);
        if (n->op == OP_input) inputs.at[inputs.n++] = name;
        if (n->op == OP_param) params.at[params.n++] = name;
        if ((n->op == OP_input || is_argument(k, n)) && dtype_is_float(n->type.dtype))
            floats.at[floats.n++] = name;
    }
    check_names(k, "parameter", k->s->arguments, k->s->narguments, &params);
    for (uint32_t i = 0; i < g->roots.n && k->s->nsecond; i++)
        if (gives_gradient(k, g->roots.at[i]))
            floats.at[floats.n++] =
                arena_printf(g->arena, COTANGENT "%s", attr_str(g->roots.at[i], ATTR_name));
    check_names(k, "float input", k->s->second, k->s->nsecond, &floats);
    check_names(k, "float input", k->s->gradients, k->s->ngradients, &floats);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (is_argument(k, g->nodes.at[i]) && has(&inputs, attr_str(g->nodes.at[i], ATTR_name)))
            diag_error(k->m->diags, g->nodes.at[i]->loc,
                       "'%s' is both an input and a parameter of '%s': rename one of them",
                       attr_str(g->nodes.at[i], ATTR_name), k->e->name);
    return !k->m->diags->errors;
}

// The type in which the function takes a state. A counter of the runtime ("@runs.next", i64)
// becomes i32, for hosts without 64-bit integers.
static DType state_type(const Making *k, const char *name, DType t)
{
    return k->s->states && *name == '@' && t == DT_I64 ? DT_I32 : t;
}

// Whether the state is an argument. The seed belongs to the session and does not change.
static bool is_passed(const Making *k, const Node *n)
{
    return n->op == OP_state && !(k->s->states && !strcmp(attr_str(n, ATTR_name), "@seed"));
}

static Node *state_input(const Making *k, Graph *g, const Node *n)
{
    const char *name = attr_str(n, ATTR_name);
    Type t = n->type;
    t.dtype = state_type(k, name, t.dtype);
    Node *in = graph_input(g, arena_printf(g->arena, STATE "%s", name), &t, "arg");
    return t.dtype == n->type.dtype ? in : graph_cast(g, in, n->type.dtype);
}

// Copies the graph's nodes without its roots. Parameters that are arguments become inputs, after
// those of the model; so do states if [states]. names: names of nodes by id, or NULL.
static Remap begin(const Making *k, bool states, const char **names)
{
    Graph *src = k->e->graph, *g = graph_beside(src);
    Remap r = remap_begin(src, g);
    for (uint32_t i = 0; i < src->nodes.n; i++)
        if (src->nodes.at[i]->op == OP_input) remap_node(&r, src->nodes.at[i]);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        const Node *n = src->nodes.at[i];
        const char *name = attr_str(n, ATTR_name);
        graph_stamp(g, n, NULL);
        if (is_argument(k, n))
            r.map[i] = graph_input(g, name, &n->type, "arg");
        else if ((states || k->s->states) && is_passed(k, n))
            r.map[i] = state_input(k, g, n);
        else if (node_class(n) != CLS_ROOT)
            remap_node(&r, n);
        if (names && names[i]) r.map[i]->name = names[i];
    }
    return r;
}

static Node *whole_sum(Graph *g, Node *n)
{
    int64_t axes[MAX_RANK];
    for (int i = 0; i < n->type.rank; i++) axes[i] = i;
    return n->type.rank ? graph_reduce(g, OP_sum, n, axes, n->type.rank, false) : n;
}

// The value to differentiate: the sum of the float outputs, each multiplied by its cotangent. NULL:
// there is none.
static Node *weighted(const Making *k, Remap *r)
{
    Graph *g = r->dst;
    Node *sum = NULL;
    DType wide = DT_F32;
    for (uint32_t i = 0; i < r->src->roots.n; i++)
        if (r->src->roots.at[i]->type.dtype == DT_F64) wide = DT_F64;
    for (uint32_t i = 0; i < r->src->roots.n; i++) {
        const Node *root = r->src->roots.at[i];
        if (!gives_gradient(k, root)) continue;
        graph_stamp(g, root, NULL);
        Node *z = r->map[root->args[0]->id];
        const char *name = arena_printf(g->arena, COTANGENT "%s", attr_str(root, ATTR_name));
        Node *d = graph_input(g, name, &root->type, "arg");
        Node *one =
            whole_sum(g, graph_binary(g, OP_mul, graph_cast(g, z, wide), graph_cast(g, d, wide)));
        sum = sum ? graph_binary(g, OP_add, sum, one) : one;
    }
    return sum;
}

// Whether gradients with respect to x are requested: x is a float input or argument or, for second
// derivatives, a cotangent, and one of the patterns matches its name.
static bool varies_by(const Making *k, const Node *x, const char *const *patterns, int npatterns)
{
    const char *name = x->op == OP_input ? attr_str(x, ATTR_name) : "@";
    bool cotangent = k->s->nsecond && !strncmp(name, COTANGENT, strlen(COTANGENT));
    return (*name != '@' || cotangent) && dtype_is_float(x->type.dtype) &&
           matches(patterns, npatterns, name);
}

// The value to differentiate for second derivatives: the sum of y's gradients with respect to
// everything that [second] names, each multiplied by its cotangent. NULL: there is none.
static Node *weighted_again(const Making *k, Graph *g, Node *y)
{
    Node *sum = NULL;
    DType wide = y ? y->type.dtype : DT_F32;
    for (uint32_t i = 0, own = g->nodes.n; i < own && y; i++) {
        Node *x = g->nodes.at[i];
        if (!varies_by(k, x, k->s->second, k->s->nsecond)) continue;
        graph_stamp(g, x, NULL);
        const char *name = arena_printf(g->arena, AGAIN "%s", attr_str(x, ATTR_name));
        Node *dx = graph_node(g, OP_grad, (Node *[]){y, x}, 2, NULL);
        Node *d = graph_input(g, name, &x->type, "arg");
        Node *one =
            whole_sum(g, graph_binary(g, OP_mul, graph_cast(g, dx, wide), graph_cast(g, d, wide)));
        sum = sum ? graph_binary(g, OP_add, sum, one) : one;
    }
    return sum;
}

// By id: names for the values that are worth keeping for the gradients; others NULL.
static const char **names_of_kept(const Making *k)
{
    const Graph *g = k->e->graph;
    bool *varies = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        varies[i] = n->op == OP_input;
        for (uint32_t a = 0; a < n->nargs; a++) varies[i] |= varies[n->args[a]->id];
    }
    return kept_names(g, varies);
}

// The type in which kept activations are stored.
static DType kept_type(const Making *k)
{
    return k->s->precision == PREC_BF16 ? DT_BF16 : DT_COUNT;
}

static Graph *gradients(const Making *k, const char *const *patterns, int npatterns)
{
    Remap r = begin(k, true, k->s->keep ? names_of_kept(k) : NULL);
    Graph *g = r.dst;
    Node *y = weighted(k, &r);
    uint32_t own = g->nodes.n;
    if (k->s->nsecond) y = weighted_again(k, g, y);
    for (uint32_t i = 0; i < own && y; i++) {
        Node *x = g->nodes.at[i];
        if (!varies_by(k, x, patterns, npatterns)) continue;
        graph_stamp(g, x, NULL);
        Node *dx = graph_node(g, OP_grad, (Node *[]){y, x}, 2, NULL);
        graph_root(g, OP_output, dx, attr_str(x, ATTR_name));
    }
    g = graph_drop_dead(remap_end(&r));
    if (!k->s->keep || g->diags->errors) return g;
    g = pass_autodiff(g, k->m, &(PassOptions){.precision = k->s->precision});
    return g->diags->errors ? g : kept_taken(g, kept_type(k));
}

// Adds outputs with the values that the gradients may use.
static void give_kept(const Making *k, Remap *r)
{
    static const char *const all[] = {"*"};
    Diags *diags = k->m->diags;
    uint32_t errors = diags->errors, known = diags->list.n;
    const Graph *src = k->e->graph, *d = gradients(k, all, 1);
    if (diags->errors != errors) { // it has no gradients; reported when they are requested
        diags->errors = errors;
        diags->list.n = known;
        return;
    }
    const char **kept = names_of_kept(k);
    StrMap taken = strmap_new(src->arena);
    for (uint32_t i = 0; i < d->nodes.n; i++)
        if (d->nodes.at[i]->op == OP_input)
            strmap_set(&taken, attr_str(d->nodes.at[i], ATTR_name), d->nodes.at[i]);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        const Node *n = src->nodes.at[i];
        const char *name = kept[i];
        if (n->op == OP_state) name = arena_printf(src->arena, STATE "%s", attr_str(n, ATTR_name));
        if (!name || !strmap_has(&taken, name) || (n->op == OP_state && k->s->states)) continue;
        graph_stamp(r->dst, n, NULL);
        Node *v = n->op == OP_state ? r->map[i] : kept_given(r->dst, r->map[i], kept_type(k));
        graph_root(r->dst, OP_output, v, name);
    }
}

// Makes the new value of a state an output instead of writing it.
static void give_written(const Making *k, Remap *r, const Node *assign)
{
    const char *name = attr_str(assign, ATTR_name);
    Node *v = r->map[assign->args[0]->id];
    DType t = state_type(k, name, v->type.dtype);
    graph_stamp(r->dst, assign, NULL);
    if (t != v->type.dtype) v = graph_cast(r->dst, v, t);
    graph_root(r->dst, OP_output, v, arena_printf(r->dst->arena, WRITTEN "%s", name));
}

static Graph *function(const Making *k)
{
    Remap r = begin(k, false, NULL);
    for (uint32_t i = 0; i < r.src->roots.n; i++) {
        const Node *root = r.src->roots.at[i];
        if (k->s->states && root->op == OP_assign &&
            module_cell(k->m, attr_str(root, ATTR_name))->kind != CELL_PARAM)
            give_written(k, &r, root);
        else if (wanted(k, root))
            remap_node(&r, root);
    }
    if (k->s->keep) give_kept(k, &r);
    return graph_drop_dead(remap_end(&r));
}

static bool has_gradient(const Making *k)
{
    for (uint32_t i = 0; i < k->e->graph->roots.n; i++)
        if (gives_gradient(k, k->e->graph->roots.at[i])) return true;
    diag_error(k->m->diags, k->e->loc, "'%s' has no float output, so it has no gradient",
               k->e->name);
    return false;
}

// Replaces the function by that of several slices.
static bool map_calls(const Making *k)
{
    const Graph *g = k->e->graph;
    Names inputs = {NEW_ARRAY(g->arena, const char *, g->nodes.n + 1), 0};
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_input)
            inputs.at[inputs.n++] = attr_str(g->nodes.at[i], ATTR_name);
    check_names(k, "input", k->s->mapped, k->s->nmapped, &inputs);
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (g->roots.at[i]->op == OP_assign) {
            diag_error(k->m->diags, k->e->loc,
                       "'%s' changes '%s', so it cannot be computed for several calls at once: "
                       "with states, it takes and returns its states",
                       k->e->name, attr_str(g->roots.at[i], ATTR_name));
            break;
        }
    if (k->m->diags->errors) return false;
    k->e->graph = mapped_graph(k->s, k->e->graph);
    return !k->m->diags->errors;
}

bool functional_make(const Settings *s, const char *only, Module *m)
{
    Making k = {s, m, NULL};
    if (!outputs_entry(s, only, m, &k.e)) return false;
    if (!k.e) return true;
    if (k.e->kind != ENTRY_MODEL)
        return diag_error(m->diags, 0, "'%s' is not a model: it cannot be compiled as a function",
                          k.e->name),
               false;
    if (!check(&k) || !outputs_known(s, m, k.e) || (s->ngradients && !has_gradient(&k)))
        return false;
    k.e->graph = s->ngradients ? gradients(&k, s->gradients, s->ngradients) : function(&k);
    if (m->diags->errors || (s->calls && !map_calls(&k))) return false;
    const char *names[] = {"init", k.e->name};
    module_keep(m, names, 2);
    return true;
}
