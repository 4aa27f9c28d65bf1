// On a GPU, an update of a parameter by a gradient that only some of its rows have changes these
// rows where they are, as gradient descent does with an embedding:
//
//     w - c * scatter_add(0, index, u)   becomes   scatter_add(w, index, -c * u)
//
// for a number c, and sums of such terms, whose indices are concatenated. The rest of w is neither
// read nor written (codegen/lower/lower_bins.c), nor is there a gradient of the size of w.
//
// Requires: gradients expanded. Keeps: finite values within rounding (the sum of a row's updates is
// added to w, as before). Breaks: nothing.
#include "ir/target.h"
#include "passes/passes.h"
#include "passes/regions.h"

enum { MOST_TERMS = 8, MOST_FACTORS = 4 };

typedef struct Term { // sign * factors * scatter_add(0, index, updates)
    const Node *sum, *factor[MOST_FACTORS];
    int nfactors;
    bool negative;
} Term;

typedef struct Update {
    const Node *cell;
    Term term[MOST_TERMS];
    int n;
} Update;

typedef struct Rows {
    const Target *target;
    const uint32_t *readers; // by id
} Rows;

static const Node *uniform(const Node *n) // the only number in n; NULL: it may have several
{
    double v;
    if (node_const_value(n, &v)) return n;
    return n->op == OP_broadcast && type_count(&n->args[0]->type) == 1 ? n->args[0] : NULL;
}

static bool is_sum_of_rows(const Node *n)
{
    double zero;
    return n->op == OP_scatter_add && node_const_value(n->args[0], &zero) && zero == 0;
}

// Collects the terms of n, the sign of all being [t]'s. false: it is something else.
static bool find_terms(const Rows *r, const Node *n, Term t, Update *x)
{
    for (;;) {
        if (r->readers[n->id] != 1) return false;
        if (is_sum_of_rows(n)) {
            if (x->n == MOST_TERMS) return false;
            t.sum = n;
            x->term[x->n++] = t;
            return true;
        }
        if (n->op == OP_neg) {
            t.negative = !t.negative;
            n = n->args[0];
        } else if (n->op == OP_mul && t.nfactors < MOST_FACTORS) {
            const int k = uniform(n->args[0]) ? 0 : 1;
            if (!(t.factor[t.nfactors++] = uniform(n->args[k]))) return false;
            n = n->args[!k];
        } else if (n->op == OP_add || n->op == OP_sub) {
            if (!find_terms(r, n->args[0], t, x)) return false;
            t.negative ^= n->op == OP_sub;
            n = n->args[1];
        } else {
            return false;
        }
    }
}

static bool is_cell(const Node *n)
{
    return node_has(n, OPF_CELL);
}

// Whether it pays: the updates are few, and all along one axis.
static bool are_few(const Update *x)
{
    const int64_t axis = attr_int(x->term[0].sum, ATTR_axis, 0);
    int64_t updates = 0;
    for (int i = 0; i < x->n; i++) {
        const Node *n = x->term[i].sum;
        if (attr_int(n, ATTR_axis, 0) != axis ||
            n->args[1]->type.dtype != x->term[0].sum->args[1]->type.dtype)
            return false;
        updates += n->args[2]->type.dim[axis];
    }
    return updates <= x->cell->type.dim[axis] / 2;
}

static bool find_update(const Rows *r, const Node *n, Update *x)
{
    *x = (Update){0};
    if ((n->op != OP_add && n->op != OP_sub) || !dtype_is_float(n->type.dtype)) return false;
    const int k = n->op == OP_add && is_cell(n->args[1]);
    x->cell = n->args[k];
    return is_cell(x->cell) && find_terms(r, n->args[!k], (Term){.negative = n->op == OP_sub}, x) &&
           are_few(x);
}

static bool is_update(void *ctx, const Node *n)
{
    Update x;
    return find_update(ctx, n, &x);
}

static Node *scaled(Graph *g, const Term *t, Node *const *map)
{
    Node *u = map[t->sum->args[2]->id];
    for (int i = 0; i < t->nfactors; i++) {
        double v;
        Node *c = node_const_value(t->factor[i], &v)
                      ? graph_const(g, u->type.dtype, v)
                      : graph_reshape(g, map[t->factor[i]->id], 0, NULL);
        u = graph_binary(g, OP_mul, u, c);
    }
    return t->negative ? graph_unary(g, OP_neg, u) : u;
}

static Node *joined(Graph *g, Node *const *part, int n, int64_t axis)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, axis);
    return n == 1 ? part[0] : graph_node(g, OP_concat, part, n, &at);
}

static Node *rewritten(void *ctx, Graph *g, Node *n, Node *const *map)
{
    Update x;
    if (!find_update(ctx, n, &x)) return NULL;
    Node *index[MOST_TERMS], *updates[MOST_TERMS];
    const int64_t axis = attr_int(x.term[0].sum, ATTR_axis, 0);
    graph_stamp(g, n, NULL);
    for (int i = 0; i < x.n; i++) {
        index[i] = map[x.term[i].sum->args[1]->id];
        updates[i] = scaled(g, &x.term[i], map);
    }
    Node *args[] = {map[x.cell->id], joined(g, index, x.n, 0), joined(g, updates, x.n, axis)};
    return graph_along(g, OP_scatter_add, args, 3, axis);
}

static Graph *rewrite_graph(void *ctx, const IdMap *done, Graph *g)
{
    Rows r = {ctx, live_readers(g)};
    return rewrite_nodes(g, done, is_update, rewritten, &r);
}

Graph *pass_row_updates(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, rewrite_graph, (void *)(uintptr_t)o->target);
}
