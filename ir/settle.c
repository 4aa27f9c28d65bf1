// Settling: rebuilds a plain graph through graph_node, which now folds and shares nodes.
#include <stdlib.h>

#include "ir/door.h"

typedef struct Settle {
    Remap r;
    bool *asked;        // by id: a live gradient is taken with respect to it
    int64_t *variables; // number of variables so far, in all graphs of the entry
} Settle;

static Settle begin(const Graph *src, int64_t *variables)
{
    Graph *dst = graph_beside(src);
    Settle s = {.r = remap_begin(src, dst), .variables = variables};
    bool *live = NEW_ARRAY(src->arena, bool, src->nodes.n + 1);
    s.asked = NEW_ARRAY(src->arena, bool, src->nodes.n + 1);
    graph_mark_live(src, live);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        const Node *n = src->nodes.at[i];
        if (n->op == OP_grad && live[i]) s.asked[n->args[1]->id] = true;
    }
    return s;
}

static Graph *settled(const Graph *src, int64_t *variables);
static Graph *settled_body(const Settle *around, Node *loop);

// Copies a node with settled regions, and adds a `variable` if a gradient is taken with respect to
// it. Leaves in memory need none: they are not shared with other values.
static void settle_node(Settle *s, const Node *old)
{
    Graph *dst = s->r.dst;
    Node copy = *old;
    if (old->nregions) copy.regions = NEW_ARRAY(dst->arena, Graph *, old->nregions);
    for (uint32_t k = 0; k < old->nregions; k++)
        copy.regions[k] =
            old->op == OP_loop ? settled_body(s, &copy) : settled(old->regions[k], s->variables);
    Node *n = remap_node(&s->r, old->nregions ? &copy : old);
    if (!s->asked[old->id] || node_has(old, OPF_MEMORY)) return;
    Attrs at = {0};
    attr_set_int(&at, ATTR_index, (*s->variables)++);
    graph_stamp(dst, old, old->name);
    s->r.map[old->id] = graph_node(dst, OP_variable, &n, 1, &at);
}

// Settles all remaining nodes, also dead ones, so that names and the order of nodes do not depend
// on which outputs there are; then drops the dead ones.
static Graph *rest(Settle *s)
{
    for (uint32_t i = 0; i < s->r.src->nodes.n; i++)
        if (!s->r.map[i]) settle_node(s, s->r.src->nodes.at[i]);
    return graph_drop_dead(remap_end(&s->r));
}

static Graph *settled(const Graph *src, int64_t *variables)
{
    Settle s = begin(src, variables);
    return rest(&s);
}

Graph *graph_settle(const Graph *plain)
{
    int64_t variables = 0;
    return settled(plain, &variables);
}

// -- loops ----------------------------------------------------------------------------------------

// A captured value that the body need not get as a parameter: a scalar float constant, which is
// created again, or a value that another parameter has already. Otherwise NULL.
static Node *known_inside(Graph *body, IdMap *inside, const Node *value)
{
    uint64_t known;
    double v;
    if (idmap_get(inside, (uint64_t)(uintptr_t)value, &known)) return (Node *)(uintptr_t)known;
    if (value->op != OP_const || value->type.rank || dtype_is_int(value->type.dtype) ||
        !node_const_value(value, &v))
        return NULL;
    return graph_const(body, value->type.dtype, v);
}

// The settled body of a loop. [loop] is a copy of the node; operands that the body does not need as
// parameters are removed from it. A captured value with respect to which the body differentiates
// keeps a parameter of its own.
static Graph *settled_body(const Settle *around, Node *loop)
{
    const Graph *src = around->r.src, *body = src->nodes.at[loop->id]->regions[0];
    const int64_t moved = attr_int(loop, ATTR_carried, 0) + attr_int(loop, ATTR_scanned, 0);
    Arena *a = src->arena;
    Settle s = begin(body, around->variables);
    Graph *dst = s.r.dst;
    IdMap inside = idmap_new(a);
    Node **args = NEW_ARRAY(a, Node *, loop->nargs + 1);
    uint32_t nargs = 0;
    for (uint32_t i = 0; i < body->params.n; i++) { // parameter 0 is the iteration number
        const Node *p = body->params.at[i];
        Node *value = i ? around->r.map[loop->args[i - 1]->id] : NULL;
        const bool shared = i > moved && !s.asked[p->id];
        graph_stamp(dst, p, NULL);
        Node *in = shared ? known_inside(dst, &inside, value) : NULL;
        if (!in) {
            dst->name = p->name;
            in = graph_region_param(dst, &p->type);
            for (int k = 0; k < p->type.rank; k++) in->type.sym[k] = p->type.sym[k];
            if (shared) idmap_set(&inside, (uint64_t)(uintptr_t)value, (uint64_t)(uintptr_t)in);
            if (i) args[nargs++] = loop->args[i - 1];
        }
        s.r.map[p->id] = in;
    }
    loop->args = args;
    loop->nargs = nargs;
    return rest(&s);
}

// -- one value ------------------------------------------------------------------------------------

static int by_id(const void *a, const void *b)
{
    const uint32_t x = (*(Node *const *)a)->id, y = (*(Node *const *)b)->id;
    return (x > y) - (x < y);
}

bool graph_known_value(Graph *plain, Node *n, double *v)
{
    Graph *dst = graph_beside(plain);
    IdMap image = idmap_new(plain->arena);
    VEC(Node *) below = {0};
    vec_push(plain->arena, &below, n);
    for (uint32_t i = 0; i < below.n; i++)
        for (uint32_t k = 0; k < below.at[i]->nargs; k++) {
            Node *x = below.at[i]->args[k];
            if (idmap_get(&image, (uint64_t)(uintptr_t)x, NULL)) continue;
            idmap_set(&image, (uint64_t)(uintptr_t)x, 0);
            vec_push(plain->arena, &below, x);
        }
    qsort(below.at, below.n, sizeof *below.at, by_id);
    Node *last = NULL;
    for (uint32_t i = 0; i < below.n; i++) {
        const Node *old = below.at[i];
        Node **args = NEW_ARRAY(plain->arena, Node *, old->nargs + 1);
        for (uint32_t k = 0; k < old->nargs; k++) {
            uint64_t x;
            idmap_get(&image, (uint64_t)(uintptr_t)old->args[k], &x);
            args[k] = (Node *)(uintptr_t)x;
        }
        last = graph_region_node(dst, old->op, args, (int)old->nargs, old->attrs, old->regions,
                                 (int)old->nregions);
        idmap_set(&image, (uint64_t)(uintptr_t)old, (uint64_t)(uintptr_t)last);
    }
    return node_const_value(last, v);
}
