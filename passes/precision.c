// The precision policy over the graph: which matmuls read low-precision operands.
//
//   f32, tf32  the graph stays as it is; tf32 is a property of the library calls, set by codegen
//   bf16       every f32 matmul reads bf16 operands
//   f16        the same with f16, where the entry scales its losses (it reads @loss_scale);
//              elsewhere backward matmuls stay f32, because small gradients vanish in f16
//
// Products are accumulated in f32, a bias is added to the f32 sum, and the result is rounded to the
// low type: activations and their gradients cost two bytes to store and to read. Results that are
// read elementwise by an update, an output or a loop (above all the gradients of parameters) are
// not rounded. Parameters, optimizer state, statistics and losses stay f32. The cast of an operand
// goes below its transposes, pads and windows, so that there is one. For a product of few results,
// which reads them in place, it also goes below slices with a stride of what is rounded anyway.
// Other backward readers of such an operand (a bias gradient, the slope of a ReLU) read the rounded
// value too. autocast(x) is rounded as a matmul's operand is, in the forward and the backward part.
//
// Requires: gradients expanded (roles are known). Keeps: shapes, the types of everything but
// operands. Breaks: nothing.
#include <string.h>

#include "ir/axes.h"
#include "passes/passes.h"
#include "passes/regions.h"

typedef struct Policy {
    const Target *target; // may be NULL
    DType low;
    bool forward_only;
} Policy;

static bool in_reach(const Node *n, Op op, const Policy *p)
{
    if (n->op != op || n->type.dtype != DT_F32) return false;
    return !p->forward_only || n->role == ROLE_FORWARD;
}

static bool wants_low(const Node *n, const Policy *p)
{
    return in_reach(n, OP_dot, p) && n->args[0]->type.dtype == DT_F32 &&
           n->args[1]->type.dtype == DT_F32;
}

static bool is_rounded(const Node *n, const Policy *p)
{
    return in_reach(n, OP_autocast, p);
}

static const Node *behind(const Node *n)
{
    while (node_has(n, OPF_MOVES)) n = n->args[0];
    return n;
}

// Facts about the nodes of one graph before it is rebuilt, by id.
typedef struct Facts {
    bool *operand; // a matmul or autocast reads a rounded copy of it
    bool *round;   // a matmul, or its sum with a bias, whose result is rounded
} Facts;

// Whether n adds a bias, a vector along the last axes, to the matmul [dot], and is its only reader.
static bool adds_bias(const Node *n, const Node *dot)
{
    const Node *other = n->args[n->args[0] == dot];
    return n->op == OP_add && n->args[0] != n->args[1] && other->op == OP_broadcast &&
           other->args[0]->type.rank > 0;
}

// Whether n, in the backward part, reads the rounded copy of operand k that a matmul reads.
static bool reads_rounded(const Facts *f, const Node *n, uint32_t k)
{
    const Node *x = behind(n->args[k]);
    if (n->role != ROLE_BACKWARD || x->type.dtype != DT_F32 || !f->operand[x->id] ||
        node_class(x) == CLS_LEAF)
        return false;
    return node_class(n) == CLS_REDUCE ||
           (node_class(n) == CLS_ELEMENTWISE && x->role == ROLE_FORWARD);
}

static Facts facts_of(Graph *g, const Policy *p)
{
    uint32_t count = g->nodes.n + 1;
    Facts f = {NEW_ARRAY(g->arena, bool, count), NEW_ARRAY(g->arena, bool, count)};
    bool *exact = NEW_ARRAY(g->arena, bool, count), *live = NEW_ARRAY(g->arena, bool, count);
    uint32_t *users = NEW_ARRAY(g->arena, uint32_t, count);
    const Node **user = NEW_ARRAY(g->arena, const Node *, count);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->results.n; i++) exact[g->results.at[i]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        OpClass c = node_class(n);
        if (!live[i]) continue;
        bool passes_on = c == CLS_ELEMENTWISE || c == CLS_VIEW;
        for (uint32_t k = 0; k < n->nargs; k++) {
            uint32_t a = n->args[k]->id;
            exact[a] |= c == CLS_ROOT || n->nregions > 0 || n->role == ROLE_UPDATE ||
                        (passes_on && exact[i]);
            users[a]++;
            user[a] = n;
            if (wants_low(n, p) || is_rounded(n, p)) f.operand[behind(n->args[k])->id] = true;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i], *end = n;
        if (!live[i] || !wants_low(n, p) || exact[i]) continue;
        if (users[i] == 1 && adds_bias(user[i], n)) end = user[i];
        f.round[end->id] = true;
    }
    return f;
}

// Whether n takes every second place of an axis, or fewer, as a convolution with a stride does.
static bool is_strided(const Node *n)
{
    int rank;
    const int64_t *stride = n->op == OP_slice ? attr_ints(n, ATTR_stride, &rank) : NULL;
    for (int i = 0; stride && i < rank; i++)
        if (stride[i] > 1) return true;
    return false;
}

// [strided]: below slices with a stride, too.
static Node *lowered(Graph *g, Node *x, DType low, bool strided)
{
    enum { MOST = 16 };
    const Node *views[MOST];
    int n = 0;
    while ((node_has(x, OPF_MOVES) || (strided && is_strided(x))) && n < MOST) {
        views[n++] = x;
        x = x->args[0];
    }
    Node *y = graph_cast(g, x, low);
    while (n) {
        const Node *v = views[--n];
        Node *args[2] = {y};
        for (uint32_t k = 1; k < v->nargs; k++) args[k] = graph_cast(g, v->args[k], low);
        y = graph_node(g, v->op, args, (int)v->nargs, v->attrs);
    }
    return y;
}

// n rounded to the low type and widened again.
static Node *rounded(Graph *g, Node *x, DType low)
{
    return graph_cast(g, lowered(g, x, low, false), DT_F32);
}

typedef struct Lowering {
    Graph *dst;
    Remap *map;
    const Policy *policy;
    Facts facts;
} Lowering;

// The sum of a matmul and a bias; the matmul library reads the bias in the type of the result.
static Node *biased(const Lowering *l, const Node *n)
{
    Node *args[2];
    for (int k = 0; k < 2; k++) {
        const Node *a = n->args[k];
        args[k] = l->map->map[a->id];
        if (a->op != OP_broadcast) continue;
        Node *vector = rounded(l->dst, l->map->map[a->args[0]->id], l->policy->low);
        args[k] = graph_node(l->dst, OP_broadcast, &vector, 1, a->attrs);
    }
    return graph_node(l->dst, OP_add, args, 2, n->attrs);
}

static bool has_few_results(const Target *t, const Node *dot)
{
    const DotSizes x = dot_sizes(dot);
    return t && target_few_results(t, x.batch, x.m, x.n, x.k);
}

// Whether the value behind x, a view with a stride, is rounded in any case. (Otherwise rounding
// only what x takes of it is less work.)
static bool views_rounded(const Lowering *l, const Node *x)
{
    while (node_has(x, OPF_MOVES) || is_strided(x)) x = x->args[0];
    return l->facts.operand[x->id] || is_rounded(x, l->policy);
}

static Node *lower_node(const Lowering *l, const IdMap *done, const Node *n)
{
    Graph *dst = l->dst;
    DType low = l->policy->low;
    const bool dot = wants_low(n, l->policy),
               few = dot && n->role == ROLE_FORWARD && has_few_results(l->policy->target, n);
    if (is_rounded(n, l->policy)) {
        Node *stored = lowered(dst, l->map->map[n->args[0]->id], low, false);
        if (!stored->name) stored->name = n->name;
        return graph_cast(dst, stored, DT_F32);
    }
    Node **args = NEW_ARRAY(dst->arena, Node *, n->nargs + 1);
    Graph **regions = NEW_ARRAY(dst->arena, Graph *, n->nregions + 1);
    for (uint32_t k = 0; k < n->nregions; k++) regions[k] = rebuilt(done, n->regions[k]);
    for (uint32_t k = 0; k < n->nargs; k++) {
        Node *x = l->map->map[n->args[k]->id];
        args[k] = x;
        if (dot) args[k] = lowered(dst, x, low, few && views_rounded(l, n->args[k]));
        if (reads_rounded(&l->facts, n, k)) args[k] = rounded(dst, x, low);
    }
    Node *y;
    if (n->op == OP_add && l->facts.round[n->id]) {
        y = biased(l, n);
    } else {
        dst->name = n->name;
        y = graph_region_node(dst, n->op, args, (int)n->nargs, n->attrs, regions, (int)n->nregions);
    }
    if (!l->facts.round[n->id]) return y;
    Node *stored = lowered(dst, y, low, false);
    if (!stored->name) stored->name = y->name ? y->name : n->name;
    return graph_cast(dst, stored, DT_F32);
}

static Graph *lower_precision(void *ctx, const IdMap *done, Graph *g)
{
    const Policy *p = ctx;
    bool needed = false;
    for (uint32_t i = 0; i < g->nodes.n && !needed; i++) {
        const Node *n = g->nodes.at[i];
        needed = wants_low(n, p) || is_rounded(n, p);
        for (uint32_t k = 0; k < n->nregions; k++)
            needed |= rebuilt(done, n->regions[k]) != n->regions[k];
    }
    if (!needed) return g;
    Graph *dst = graph_beside(g);
    Remap r = remap_begin(g, dst);
    Lowering l = {.dst = dst, .map = &r, .policy = p, .facts = facts_of(g, p)};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        bool reads = false;
        for (uint32_t k = 0; k < n->nargs; k++) reads |= reads_rounded(&l.facts, n, k);
        bool kept = !reads && !l.facts.round[i] && !wants_low(n, p) && !is_rounded(n, p);
        if (!n->nregions && kept) {
            remap_node(&r, n);
            continue;
        }
        graph_stamp(dst, n, NULL);
        r.map[n->id] = lower_node(&l, done, n);
    }
    return remap_end(&r);
}

static bool scales_loss(const Graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op == OP_state && !strcmp(attr_str(n, ATTR_name), CELL_LOSS_SCALE)) return true;
    }
    return false;
}

Graph *pass_precision(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (o->precision == PREC_F32 || o->precision == PREC_TF32) return g;
    Policy p = {.target = o->target, .low = DT_BF16};
    if (o->precision == PREC_F16) p.low = DT_F16, p.forward_only = !scales_loss(g);
    return over_regions(g, lower_precision, &p);
}
