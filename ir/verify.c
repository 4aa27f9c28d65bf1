// Checks every invariant of a graph (passes/runner.c says when) and reports the first violation.
#include <stdarg.h>
#include <string.h>

#include "ir/door.h"

__attribute__((format(printf, 4, 5))) static bool broken(const Graph *g, const char *after,
                                                         const Node *n, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(g->arena, fmt, args);
    va_end(args);
    if (n)
        diag_error(g->diags, n->loc, "internal error: after %s, v%u (%s) %s", after, n->id,
                   n->op < OP_COUNT ? op_info(n->op)->name : "?", text);
    else
        diag_error(g->diags, 0, "internal error: after %s, %s", after, text);
    return false;
}

static bool member(const Graph *g, const Node *n)
{
    return n && n->id < g->nodes.n && g->nodes.at[n->id] == n;
}

static bool attrs_sorted(const Attrs *a)
{
    for (int i = 0; i < a->n; i++) {
        if (a->at[i].key >= ATTR_COUNT) return false;
        if (i && a->at[i].key <= a->at[i - 1].key) return false;
    }
    return a->n >= 0 && a->n <= (int)(sizeof a->at / sizeof a->at[0]);
}

static bool verify(const Graph *g, const char *after, const Graph *owner);

static bool node_holds(const Graph *g, const char *after, Node *n, uint32_t id)
{
    if (!n) return broken(g, after, NULL, "node %u is missing", id);
    if (n->op >= OP_COUNT) return broken(g, after, n, "has no op");
    if (n->id != id) return broken(g, after, n, "stands at %u", id);
    if (n->op == OP_poison) return broken(g, after, n, "is left of an earlier error");
    if ((unsigned)n->role >= ROLE_COUNT) return broken(g, after, n, "has no role");
    for (uint32_t k = 0; k < n->nargs; k++) {
        if (!member(g, n->args[k]))
            return broken(g, after, n, "has operand %u from another graph", k);
        if (n->args[k]->id >= id)
            return broken(g, after, n, "stands before its operand v%u", n->args[k]->id);
    }
    if (!attrs_sorted(n->attrs)) return broken(g, after, n, "has unsorted attributes");
    for (uint32_t k = 0; k < n->nregions; k++) {
        if (!n->regions[k]) return broken(g, after, n, "lacks region %u", k);
        if (!verify(n->regions[k], after, g)) return false;
    }
    Infer in = {.arena = g->arena, .diags = g->diags, .symbols = g->symbols, .loc = n->loc};
    in.op = n->op;
    in.args = n->args;
    in.nargs = (int)n->nargs;
    in.attrs = n->attrs;
    in.regions = n->regions;
    in.nregions = (int)n->nregions;
    if (!infer_type(&in)) return broken(g, after, n, "does not fit its operands (see above)");
    if (!type_equal(&in.out, &n->type)) {
        Buf b = buf_new(g->arena);
        type_print(&b, &n->type, g->symbols);
        buf_str(&b, ", its rule gives ");
        type_print(&b, &in.out, g->symbols);
        return broken(g, after, n, "has type %s", b.data);
    }
    return true;
}

typedef VEC(struct Named {
    Op op;
    StrMap names; // names used by nodes of this op
}) NamedList;

static StrMap *names_of(Arena *a, NamedList *list, Op op)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i].op == op) return &list->at[i].names;
    vec_push(a, list, (struct Named){op, strmap_new(a)});
    return &list->at[list->n - 1].names;
}

// Checks where leaves and roots may be: inputs and roots in entries, parameters in regions. Names
// of inputs, outputs and assigned cells must be unique.
static bool place_holds(const Graph *g, const char *after, const Node *n, const Graph *owner,
                        NamedList *named)
{
    bool root = node_class(n) == CLS_ROOT;
    bool outer = node_has(n, OPF_CELL) || n->op == OP_input;
    if (owner && (root || outer)) return broken(g, after, n, "stands in a region");
    if (!owner && n->op == OP_region_param && !g->params.n)
        return broken(g, after, n, "stands outside a region");
    if (!root && !outer) return true;
    const char *name = attr_str(n, ATTR_name);
    if (!name) return true;
    StrMap *names = names_of(g->arena, named, n->op);
    uint32_t before = names->n;
    strmap_set(names, name, (void *)n);
    if (names->n == before) return broken(g, after, n, "is the second of name '%s'", name);
    return true;
}

static bool verify(const Graph *g, const char *after, const Graph *owner)
{
    uint32_t roots = 0, params = 0;
    NamedList named = {0};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!node_holds(g, after, n, i) || !place_holds(g, after, n, owner, &named)) return false;
        if (node_class(n) == CLS_ROOT && (roots >= g->roots.n || g->roots.at[roots++] != n))
            return broken(g, after, n, "is not in its turn among the roots");
        if (n->op == OP_region_param && (params >= g->params.n || g->params.at[params++] != n))
            return broken(g, after, n, "is not in its turn among the parameters");
        if (n->op == OP_region_param && attr_int(n, ATTR_index, -1) != (int64_t)params - 1)
            return broken(g, after, n, "has the wrong index");
    }
    if (roots != g->roots.n)
        return broken(g, after, NULL, "%u roots are no nodes", g->roots.n - roots);
    if (params != g->params.n) return broken(g, after, NULL, "a parameter is no node");
    for (uint32_t i = 0; i < g->results.n; i++)
        if (!member(g, g->results.at[i]))
            return broken(g, after, NULL, "result %u is no node of its region", i);
    return true;
}

bool graph_verify(const Graph *g, const char *after_what)
{
    return verify(g, after_what, NULL);
}
