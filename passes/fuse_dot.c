// What belongs to a contraction: the bias and activation its library call folds in, and operands that
// have an address.
#include "passes/fuse.h"

static bool only_user(const Fuse *f, const Node *n)
{
    return f->uses[n->id] == 1 && f->user[n->id];
}

// The other operand of a two-operand node.
static Node *other_operand(const Node *n, const Node *one)
{
    return n->args[0] == one ? n->args[1] : n->args[0];
}

// A vector along the last axis, the same for every row; NULL when n is something else.
static Node *bias_vector(const Node *n)
{
    if (n->op != OP_broadcast) return NULL;
    Node *b = n->args[0];
    int count;
    const int64_t *dims = attr_ints(n, ATTR_dims, &count);
    int last = n->type.rank - 1;
    for (int i = 0; i < b->type.rank; i++)
        if (b->type.dim[i] != 1 && dims[i] != last) return NULL;
    double v;
    if (type_count(&b->type) != n->type.dim[last] || node_const_value(b, &v)) return NULL;
    return b;
}

// The dot's only free axis of its second operand is the last one of the result.
static bool columns_are_b(const Node *dot)
{
    int nb, nc;
    attr_ints(dot, ATTR_batch_b, &nb);
    attr_ints(dot, ATTR_contract_b, &nc);
    return dot->args[1]->type.rank - nb - nc == 1;
}

static void epilogue_of(Fuse *f, Node *dot)
{
    unsigned can = f->target && f->target->matmul_library ? f->target->epilogues : 0;
    f->epilogue[dot->id] = dot;
    if (!(can & EPI_BIAS) || !only_user(f, dot) || !columns_are_b(dot)) return;
    Node *n = f->user[dot->id], *end = NULL, *bias = NULL;
    unsigned bits = 0;
    if (n->op == OP_add && n->args[0] != n->args[1]) bias = bias_vector(other_operand(n, dot));
    if (bias) {
        end = n;
        bits = EPI_BIAS;
        if (!only_user(f, n)) n = NULL;
        else n = f->user[n->id];
    }
    double zero;
    if (n && n->op == OP_maximum && (can & EPI_RELU)) {
        Node *x = bias ? end : dot;
        if ((n->args[0] == x || n->args[1] == x) &&
            node_const_value(other_operand(n, x), &zero) && zero == 0) {
            if (bias) f->absorbed[end->id] = dot;
            end = n;
            bits |= EPI_RELU;
        }
    }
    if (!end) return;
    f->absorbed[dot->id] = f->absorbed[end->id] = dot;
    f->epilogue[dot->id] = end;
    f->epilogue_bits[dot->id] = bits;
    f->bias[dot->id] = bias;
}

void fuse_epilogues(Fuse *f)
{
    for (uint32_t i = 0; i < f->g->nodes.n; i++)
        if (f->live[i] && f->g->nodes.at[i]->op == OP_dot) epilogue_of(f, f->g->nodes.at[i]);
}

static bool is_row_data(const Node *n, bool rows)
{
    const char *kind = n->op == OP_input ? attr_str(n, ATTR_kind) : NULL;
    return rows && kind && kind[0] == 'd';
}

static bool wants_address(const Node *n)
{
    return n->op == OP_dot || n->op == OP_loop || n->op == OP_sort || n->op == OP_argsort;
}

// Inputs read through the row table have no address: before a matmul or a loop they are copied.
Graph *fuse_legalize(Graph *g, bool rows)
{
    bool needed = false;
    for (uint32_t i = 0; i < g->nodes.n && rows && !needed; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs && wants_address(n); k++)
            needed |= is_row_data(n->args[k], rows);
    }
    if (!needed) return g;
    Graph *dst = graph_new(g->arena, g->diags, g->symbols);
    Remap r = remap_begin(g, dst);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        bool wrap = false;
        for (uint32_t k = 0; k < n->nargs && wants_address(n); k++)
            wrap |= is_row_data(n->args[k], rows);
        if (!wrap) {
            remap_node(&r, n);
            continue;
        }
        Node **args = NEW_ARRAY(g->arena, Node *, n->nargs);
        for (uint32_t k = 0; k < n->nargs; k++) {
            Node *x = r.map[n->args[k]->id];
            dst->loc = n->args[k]->loc;
            dst->role = n->role;
            dst->name = NULL;
            args[k] = is_row_data(n->args[k], rows) ? graph_unary(dst, OP_stop_gradient, x) : x;
            if (args[k] != x && !args[k]->name) args[k]->name = attr_str(n->args[k], ATTR_name);
        }
        dst->loc = n->loc;
        dst->role = n->role;
        dst->name = n->name;
        r.map[n->id] = graph_region_node(dst, n->op, args, (int)n->nargs, &n->attrs, n->regions,
                                         (int)n->nregions);
    }
    for (uint32_t i = 0; i < g->results.n; i++)
        vec_push(g->arena, &dst->results, r.map[g->results.at[i]->id]);
    dst->loc = 0;
    dst->role = ROLE_FORWARD;
    dst->name = NULL;
    return dst;
}
