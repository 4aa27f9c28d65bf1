// Loop-invariant code motion.
//
// These values are hoisted, because it pays off: operands of contractions (they would be stored in
// every iteration), values that need a contraction, a reduction or a costly function, and values
// with fewer bytes than the captured values they are computed from. Other elementwise code and all
// views stay: they are fused into the kernels that read them. The cost is memory for the hoisted
// values, which have no more elements than the captured values.
//
// Requires: gradients expanded, precision chosen (most of what loops repeat are casts of weights).
// Keeps: every value to the bit. Breaks: nothing.
#include "passes/passes.h"
#include "passes/regions.h"

typedef struct Loop {
    Graph *body;
    bool *invariant; // by node id: loop-invariant
    bool *hoisted;   // by node id: hoisted, with its invariant operands
    bool any;
} Loop;

static bool is_invariant(const bool *invariant, const Node *n, int64_t captured)
{
    if (n->op == OP_region_param) return attr_int(n, ATTR_index, 0) > captured;
    if (n->nregions || node_has(n, OPF_CELL | OPF_EFFECT | OPF_DRAWN | OPF_CHECKS) ||
        node_class(n) == CLS_ROOT)
        return false;
    for (uint32_t k = 0; k < n->nargs; k++)
        if (!invariant[n->args[k]->id]) return false;
    return true;
}

// By id, for invariant values: elements and bytes of the captured values from which they are
// computed, and whether a costly operation is needed.
typedef struct Inputs {
    int64_t elements, bytes;
    bool costly;
} Inputs;

static int64_t at_most(int64_t n) // limits a sum: a value that is read along several paths counts
                                  // each time
{
    return n < INT64_MAX / 4 ? n : INT64_MAX / 4;
}

static Inputs inputs_of(const Inputs *inputs, const Node *n)
{
    OpClass c = node_class(n);
    Inputs m = {.costly =
                    c == CLS_DOT || c == CLS_REDUCE || c == CLS_SCAN || node_has(n, OPF_COSTLY)};
    if (n->op == OP_region_param) m.elements = type_count(&n->type), m.bytes = type_bytes(&n->type);
    for (uint32_t k = 0; k < n->nargs; k++) {
        const Inputs *a = &inputs[n->args[k]->id];
        m.elements = at_most(m.elements + a->elements);
        m.bytes = at_most(m.bytes + a->bytes);
        m.costly |= a->costly;
    }
    return m;
}

static Loop find(const Node *loop, Graph *body)
{
    int64_t captured = attr_int(loop, ATTR_carried, 0) + attr_int(loop, ATTR_scanned, 0);
    uint32_t n = body->nodes.n;
    Arena *a = body->arena;
    Loop l = {body, NEW_ARRAY(a, bool, n + 1), NEW_ARRAY(a, bool, n + 1), false};
    Inputs *inputs = NEW_ARRAY(a, Inputs, n + 1);
    bool *wanted = NEW_ARRAY(a, bool, n + 1), // read by something that stays in the loop
        *product = NEW_ARRAY(a, bool, n + 1); // read by a product, through views
    for (uint32_t i = 0; i < n; i++) {
        l.invariant[i] = is_invariant(l.invariant, body->nodes.at[i], captured);
        if (l.invariant[i]) inputs[i] = inputs_of(inputs, body->nodes.at[i]);
    }
    for (uint32_t i = 0; i < body->results.n; i++) wanted[body->results.at[i]->id] = true;
    for (uint32_t i = n; i-- > 0;) {
        const Node *x = body->nodes.at[i];
        bool view = node_has(x, OPF_STRIDES), leaf = !x->nargs;
        l.hoisted[i] = l.invariant[i] && wanted[i] && !view && !leaf &&
                       type_count(&x->type) <= inputs[i].elements &&
                       (product[i] || inputs[i].costly || type_bytes(&x->type) < inputs[i].bytes);
        l.any |= l.hoisted[i];
        for (uint32_t k = 0; k < x->nargs; k++) {
            uint32_t arg = x->args[k]->id;
            wanted[arg] |= !l.invariant[i] || (wanted[i] && !l.hoisted[i]);
            product[arg] |= node_class(x) == CLS_DOT || (view && product[i]);
        }
    }
    return l;
}

// The operands of the loop, followed by the hoisted values, computed in dst.
static Node **operands(Graph *dst, const Loop *l, const Node *loop, Node *const *map, int *nargs)
{
    Graph *body = l->body;
    Node **args = NEW_ARRAY(dst->arena, Node *, loop->nargs + body->nodes.n + 1);
    Remap r = remap_begin(body, dst);
    *nargs = 0;
    for (uint32_t k = 0; k < loop->nargs; k++) {
        args[(*nargs)++] = map[loop->args[k]->id];
        r.map[body->params.at[k + 1]->id] = args[k];
    }
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        if (l->invariant[i] && body->nodes.at[i]->op != OP_region_param)
            remap_node(&r, body->nodes.at[i]);
        if (l->hoisted[i]) args[(*nargs)++] = r.map[i];
    }
    return args;
}

// The body with parameters instead of the hoisted values.
static Graph *body_without(const Loop *l)
{
    Graph *old = l->body, *body = graph_beside(old);
    Remap r = remap_begin(old, body);
    for (uint32_t i = 0; i < old->params.n; i++) {
        const Node *p = old->params.at[i];
        graph_stamp(body, p, NULL);
        r.map[p->id] = graph_region_param(body, &p->type);
        node_pass_name(p, r.map[p->id]);
    }
    for (uint32_t i = 0; i < old->nodes.n; i++) {
        Node *n = old->nodes.at[i];
        if (l->hoisted[i]) {
            graph_stamp(body, n, NULL);
            r.map[i] = graph_region_param(body, &n->type);
            node_pass_name(n, r.map[i]);
        }
    }
    for (uint32_t i = 0; i < old->nodes.n; i++) remap_node(&r, old->nodes.at[i]);
    return graph_drop_dead(remap_end(&r));
}

static Graph *take_out(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    bool needed = any_rebuilt(done, g);
    Loop *loop = NEW_ARRAY(g->arena, Loop, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (n->op == OP_loop) loop[i] = find(n, rebuilt(done, n->regions[0]));
        needed |= loop[i].any;
    }
    if (!needed) return g;
    Graph *dst = graph_beside(g);
    Remap r = remap_begin(g, dst);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!loop[i].any) {
            remap_with_regions(&r, done, n, &needed);
            continue;
        }
        int nargs;
        Node **args = operands(dst, &loop[i], n, r.map, &nargs);
        Graph *body = body_without(&loop[i]);
        graph_stamp(dst, n, n->name);
        r.map[i] = graph_region_node(dst, OP_loop, args, nargs, n->attrs, &body, 1);
        node_pass_name(n, r.map[i]);
    }
    return graph_drop_dead(remap_end(&r));
}

Graph *pass_invariants(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    (void)o;
    return over_regions(g, take_out, NULL);
}
