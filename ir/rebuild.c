// Copying graphs: old -> new maps, liveness, inlining.
#include "ir/door.h"

#include <string.h>

Remap remap_begin(const Graph *src, Graph *dst)
{
    graph_reserve(dst, src->nodes.n);
    return (Remap){.src = src,
                   .dst = dst,
                   .map = NEW_ARRAY(dst->arena, Node *, src->nodes.n + 1),
                   .twin = NEW_ARRAY(dst->arena, Node *, src->nodes.n + 1)};
}

static bool same_symbols(const Type *a, const Type *b)
{
    return !memcmp(a->sym, b->sym, sizeof a->sym);
}

// Copies names of dimensions that type inference cannot know (of leaves) from the old type.
static void keep_symbols(Node *n, const Node *old)
{
    if (same_symbols(&n->type, &old->type) || !type_equal(&n->type, &old->type)) return;
    for (int i = 0; i < n->type.rank; i++)
        if (!n->type.sym[i]) n->type.sym[i] = old->type.sym[i];
}

// Whether an unnamed axis of [of] could now get the name of an operand's axis of the same size.
static bool may_be_named(const Type *of, const Type *operand)
{
    static const Type nameless;
    if (same_symbols(operand, &nameless)) return false;
    for (int i = 0; i < operand->rank; i++)
        for (int k = 0; operand->sym[i] && k < of->rank; k++)
            if (!of->sym[k] && of->dim[k] == operand->dim[i]) return true;
    return false;
}

// Whether the type rule would give the same type for args: most rules depend only on the operands'
// types, and these are unchanged.
static bool types_repeat(const Graph *src, const Node *old, Node *const *args)
{
    if (src->nodes.at[old->id] != old || old->nregions || node_has(old, OPF_RESULT)) return false;
    for (uint32_t i = 0; i < old->nargs; i++) {
        const Type *t = &args[i]->type, *was = &old->args[i]->type;
        if (!type_equal(t, was) || !same_symbols(t, was) || may_be_named(&old->type, t) ||
            node_is_poison(args[i]))
            return false;
    }
    return !node_is_poison(old);
}

// [stands]: the old type is still right, and there is nothing to fold.
static Node *copy_node(Graph *dst, const Graph *src, const Node *old, Node *const *map, Role role,
                       bool stands)
{
    Node *few[8], **args = few;
    if (old->nargs > 8) args = NEW_ARRAY(dst->arena, Node *, old->nargs);
    for (uint32_t i = 0; i < old->nargs; i++) args[i] = map[old->args[i]->id];
    Loc loc = dst->loc;
    Role before = dst->role;
    const char *scope = dst->scope;
    dst->loc = old->loc;
    dst->role = role;
    dst->scope = old->scope;
    dst->name = old->name;
    Node *n = stands || types_repeat(src, old, args)
                  ? graph_repeat(dst, src, old, args, !stands)
                  : graph_region_node(dst, old->op, args, (int)old->nargs, old->attrs, old->regions,
                                      (int)old->nregions);
    dst->loc = loc;
    dst->role = before;
    dst->scope = scope;
    keep_symbols(n, old);
    return n;
}

// Whether all nodes that old depends on were copied unchanged: then folding finds nothing that it
// did not find when old was created. *stands: the type rule would give the same type, too.
static bool operands_repeat(const Remap *r, const Node *old, bool *stands)
{
    // (Only for nodes of src itself, not modified copies; in a plain graph nothing has been
    // folded.)
    *stands = !r->src->plain && r->src->nodes.at[old->id] == old && !node_is_poison(old);
    bool repeat = *stands;
    for (uint32_t i = 0; i < old->nargs && repeat; i++) {
        uint32_t id = old->args[i]->id;
        repeat = r->twin[id] && r->twin[id] == r->map[id];
        *stands = repeat && *stands && !may_be_named(&old->type, &r->map[id]->type);
    }
    return repeat;
}

static bool repeats(const Node *n, const Node *old, Node *const *map)
{
    bool same = n->op == old->op && n->nargs == old->nargs && n->nregions == old->nregions &&
                attrs_equal(n->attrs, old->attrs);
    for (uint32_t i = 0; i < old->nargs && same; i++) same = n->args[i] == map[old->args[i]->id];
    for (uint32_t i = 0; i < old->nregions && same; i++) same = n->regions[i] == old->regions[i];
    return same;
}

Node *remap_node(Remap *r, const Node *old)
{
    Node **slot = &r->map[old->id];
    if (*slot) return *slot;
    bool stands, repeat = operands_repeat(r, old, &stands);
    *slot = copy_node(r->dst, r->src, old, r->map, old->role, stands);
    if (repeat && repeats(*slot, old, r->map)) r->twin[old->id] = *slot;
    return *slot;
}

Graph *remap_end(Remap *r)
{
    Graph *dst = r->dst;
    for (uint32_t i = 0; i < r->src->results.n; i++)
        vec_push(dst->arena, &dst->results, r->map[r->src->results.at[i]->id]);
    dst->loc = 0;
    dst->role = ROLE_FORWARD;
    dst->scope = NULL;
    dst->name = NULL;
    return dst;
}

void graph_stamp(Graph *g, const Node *n, const char *name)
{
    g->loc = n->loc;
    g->role = n->role;
    g->scope = n->scope;
    g->name = name;
}

void node_pass_name(const Node *from, Node *to)
{
    if (from->name && !to->name && node_class(to) != CLS_LEAF) to->name = from->name;
}

void graph_mark_live(const Graph *g, bool *live)
{
    for (uint32_t i = 0; i < g->roots.n; i++) live[g->roots.at[i]->id] = true;
    for (uint32_t i = 0; i < g->results.n; i++) live[g->results.at[i]->id] = true;
    for (uint32_t i = 0; i < g->params.n; i++) live[g->params.at[i]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) { // in reverse, since operands have smaller ids
        if (!live[i]) continue;
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs; k++) live[n->args[k]->id] = true;
    }
}

Graph *graph_copy_live(Graph *src)
{
    Graph *dst = graph_beside(src);
    bool *live = NEW_ARRAY(src->arena, bool, src->nodes.n + 1);
    graph_mark_live(src, live);
    Remap r = remap_begin(src, dst);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        Node *old = src->nodes.at[i];
        if (!live[i]) continue;
        if (!old->nregions) {
            remap_node(&r, old);
            continue;
        }
        Node copy = *old; // the same node with regions without dead code
        copy.regions = NEW_ARRAY(src->arena, Graph *, old->nregions);
        for (uint32_t k = 0; k < old->nregions; k++)
            copy.regions[k] = graph_copy_live(old->regions[k]);
        r.map[i] = copy_node(dst, src, &copy, r.map, old->role, false);
    }
    remap_end(&r);
    dst->loc = src->loc;
    dst->role = src->role;
    return dst;
}

Graph *graph_drop_dead(Graph *g)
{
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!live[i]) continue;
        for (uint32_t k = 0; k < n->nregions; k++) n->regions[k] = graph_copy_live(n->regions[k]);
        n->id = kept;
        g->nodes.at[kept++] = n;
    }
    g->nodes.n = kept;
    graph_drop_index(g);
    return g;
}

Node **graph_inline(Graph *dst, Graph *region, Node *const *args, Node **results)
{
    bool *live = NEW_ARRAY(dst->arena, bool, region->nodes.n + 1);
    Node **map = NEW_ARRAY(dst->arena, Node *, region->nodes.n + 1);
    graph_mark_live(region, live);
    for (uint32_t i = 0; i < region->params.n; i++) map[region->params.at[i]->id] = args[i];
    for (uint32_t i = 0; i < region->nodes.n; i++) {
        const Node *old = region->nodes.at[i];
        // Nodes inlined into the backward pass or an update get its role.
        Role role = old->role > dst->role ? old->role : dst->role;
        if (live[i] && !map[i]) map[i] = copy_node(dst, region, old, map, role, false);
    }
    for (uint32_t i = 0; i < region->results.n; i++) results[i] = map[region->results.at[i]->id];
    return map;
}
