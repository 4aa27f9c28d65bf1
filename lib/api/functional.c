// A model for a host that differentiates it: a function of its inputs and of parameters that are
// arguments, or the gradients of that function.
//
// The function gives, beside its outputs, the states that they depend on as they were when it
// began ("@was.S"), so that its gradients can be computed later, whatever has been written since.
// The gradients take the function's arguments, those states and a cotangent a float output
// ("@d.Z"). They compute the forward part again, and write and check nothing.
#include <string.h>

#include "base/plain.h"
#include "lib/lib.h"

#define COTANGENT "@d."
#define STATE     "@was."

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

// A pattern does not mean parameters that are frozen, a whole name does.
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

// Reports names, none of them a pattern, that are not known.
static void check_names(const Making *k, const char *what, const char *const *names, int n,
                        const Names *known)
{
    for (int i = 0; i < n; i++)
        if (!strpbrk(names[i], "*?[") && !has(known, names[i]))
            diag_error(k->m->diags, k->e->loc, "'%s' has no %s '%s'%s", k->e->name, what, names[i],
                       advise(names[i], known->at, known->n).text);
}

// What is asked for must be there in the whole of the model.
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
    check_names(k, "float input", k->s->gradients, k->s->ngradients, &floats);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (is_argument(k, g->nodes.at[i]) && has(&inputs, attr_str(g->nodes.at[i], ATTR_name)))
            diag_error(k->m->diags, g->nodes.at[i]->loc,
                       "'%s' is an input and a parameter of '%s': give one another name",
                       attr_str(g->nodes.at[i], ATTR_name), k->e->name);
    return !k->m->diags->errors;
}

// The graph's nodes without its roots: parameters that are arguments are inputs, behind the
// model's own, and, with [states], so are states.
static Remap begin(const Making *k, bool states)
{
    Graph *src = k->e->graph, *g = graph_new(src->arena, src->diags, src->symbols);
    Remap r = remap_begin(src, g);
    for (uint32_t i = 0; i < src->nodes.n; i++)
        if (src->nodes.at[i]->op == OP_input) remap_node(&r, src->nodes.at[i]);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        const Node *n = src->nodes.at[i];
        const char *name = attr_str(n, ATTR_name);
        graph_stamp(g, n, NULL);
        if (is_argument(k, n))
            r.map[i] = graph_input(g, name, &n->type, "arg");
        else if (states && n->op == OP_state)
            r.map[i] = graph_input(g, arena_printf(g->arena, STATE "%s", name), &n->type, "arg");
        else if (node_class(n) != CLS_ROOT)
            remap_node(&r, n);
    }
    return r;
}

static bool gives_gradient(const Node *root)
{
    return root->op == OP_output && dtype_is_float(root->type.dtype);
}

static Graph *function(const Making *k)
{
    Remap r = begin(k, false);
    Graph *src = k->e->graph, floats = *src; // what the float outputs depend on
    floats.roots.at = NEW_ARRAY(src->arena, Node *, src->roots.n + 1);
    floats.roots.n = 0;
    for (uint32_t i = 0; i < src->roots.n; i++)
        if (gives_gradient(src->roots.at[i])) floats.roots.at[floats.roots.n++] = src->roots.at[i];
    bool *needed = NEW_ARRAY(src->arena, bool, src->nodes.n + 1);
    graph_mark_live(&floats, needed);
    for (uint32_t i = 0; i < src->roots.n; i++) remap_node(&r, src->roots.at[i]);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        const Node *n = src->nodes.at[i];
        if (n->op != OP_state || !needed[i]) continue;
        graph_stamp(r.dst, n, NULL);
        graph_root(r.dst, OP_output, r.map[i],
                   arena_printf(src->arena, STATE "%s", attr_str(n, ATTR_name)));
    }
    return remap_end(&r);
}

static Node *whole_sum(Graph *g, Node *n)
{
    int64_t axes[MAX_RANK];
    for (int i = 0; i < n->type.rank; i++) axes[i] = i;
    return n->type.rank ? graph_reduce(g, OP_sum, n, axes, n->type.rank, false) : n;
}

// What the gradients are of: the sum of the float outputs, each times its cotangent. NULL: none.
static Node *weighted(Remap *r)
{
    Graph *g = r->dst;
    Node *sum = NULL;
    DType wide = DT_F32;
    for (uint32_t i = 0; i < r->src->roots.n; i++)
        if (r->src->roots.at[i]->type.dtype == DT_F64) wide = DT_F64;
    for (uint32_t i = 0; i < r->src->roots.n; i++) {
        const Node *root = r->src->roots.at[i];
        if (!gives_gradient(root)) continue;
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

static Graph *gradients(const Making *k)
{
    Remap r = begin(k, true);
    Graph *g = r.dst;
    uint32_t own = g->nodes.n;
    Node *y = weighted(&r);
    if (!y)
        diag_error(g->diags, k->e->loc, "'%s' has no float output: nothing of it has a gradient",
                   k->e->name);
    for (uint32_t i = 0; i < own && y; i++) {
        Node *x = g->nodes.at[i];
        const char *name = x->op == OP_input ? attr_str(x, ATTR_name) : "@";
        if (*name == '@' || !dtype_is_float(x->type.dtype) ||
            !matches(k->s->gradients, k->s->ngradients, name))
            continue;
        graph_stamp(g, x, NULL);
        graph_root(g, OP_output, graph_node(g, OP_grad, (Node *[]){y, x}, 2, NULL), name);
    }
    return remap_end(&r);
}

bool functional_make(const Settings *s, const char *only, Module *m)
{
    Making k = {s, m, NULL};
    if (!outputs_entry(s, only, m, &k.e)) return false;
    if (!k.e) return true;
    if (k.e->kind != ENTRY_MODEL)
        return diag_error(m->diags, 0, "'%s' is no model: it cannot be made a function", k.e->name),
               false;
    if (!check(&k) || (s->noutputs && !outputs_keep(s, only, m))) return false;
    k.e->graph = graph_copy_live(s->ngradients ? gradients(&k) : function(&k));
    if (m->diags->errors) return false;
    const char *names[] = {"init", k.e->name};
    module_keep(m, names, 2);
    return true;
}
