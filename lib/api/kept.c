// The residuals that a function keeps for its gradients: dots of a value that depends on the inputs
// and one that does not. These are layers, whose results are small compared with their work. Dots
// of two dependent values, such as the scores of attention, are large compared with their work and
// are recomputed, as is everything else. A bias is added first, because the activation after it
// reads the sum.
//
// Gradients are taken of the whole function; only then is the forward part cut at the residuals, so
// that cotangents pass through them.
#include "lib/api/kept.h"

#include <string.h>

enum { SHORT = 64 }; // products with fewer terms can be recomputed as fast as they are read

static int64_t terms(const Node *dot)
{
    int n;
    const int64_t *axes = attr_ints(dot, ATTR_contract_a, &n);
    int64_t count = 1;
    for (int i = 0; i < n; i++) count *= dot->args[0]->type.dim[axes[i]];
    return count;
}

const char **kept_names(const Graph *g, const bool *varies)
{
    const char **names = NEW_ARRAY(g->arena, const char *, g->nodes.n + 1);
    uint32_t *users = NEW_ARRAY(g->arena, uint32_t, g->nodes.n + 1);
    Node **user = NEW_ARRAY(g->arena, Node *, g->nodes.n + 1); // by id: the last user
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i]->nargs; k++) {
            users[g->nodes.at[i]->args[k]->id]++;
            user[g->nodes.at[i]->args[k]->id] = g->nodes.at[i];
        }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op != OP_dot || !dtype_is_float(n->type.dtype) || terms(n) < SHORT ||
            varies[n->args[0]->id] == varies[n->args[1]->id])
            continue;
        const Node *sum = users[i] == 1 ? user[i] : NULL;
        if (sum && sum->op == OP_add && varies[sum->args[0]->id] != varies[sum->args[1]->id])
            n = sum;
        names[n->id] = arena_printf(g->arena, KEPT "%u", n->id);
    }
    return names;
}

static DType stored_as(const Type *t, DType low)
{
    return low != DT_COUNT && t->dtype == DT_F32 ? low : t->dtype;
}

Node *kept_given(Graph *g, Node *value, DType low)
{
    return graph_cast(g, value, stored_as(&value->type, low));
}

Graph *kept_taken(Graph *src, DType low)
{
    Graph *g = graph_beside(src);
    Remap r = remap_begin(src, g);
    for (uint32_t i = 0; i < src->nodes.n; i++) {
        const Node *n = src->nodes.at[i];
        if (!n->name || strncmp(n->name, KEPT, strlen(KEPT)) || node_class(n) == CLS_LEAF) {
            remap_node(&r, n);
            continue;
        }
        Type t = n->type;
        t.dtype = stored_as(&n->type, low);
        graph_stamp(g, n, NULL);
        r.map[i] = graph_cast(g, graph_input(g, n->name, &t, "arg"), n->type.dtype);
    }
    return graph_drop_dead(remap_end(&r));
}
