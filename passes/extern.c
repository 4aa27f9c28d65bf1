// User-written kernels that the target cannot run are replaced by their reference graphs.
//
// Requires: gradients expanded. Keeps: every value, as the reference defines it; types, names.
// Breaks: for a GPU, user-written elementwise functions become `native`, which the evaluator cannot
// compute. For a CPU, calls without C text are inlined.
#include "passes/passes.h"
#include "passes/regions.h"

typedef struct Inline {
    const PassOptions *options;
    const IdMap *done;
    IdMap results; // by node, of calls that are inlined
} Inline;

static bool runs(const PassOptions *o, const Node *n)
{
    if (o->references || n->op == OP_own) return false;
    return o->target->kind == TARGET_CUDA || attr_find(n, ATTR_cpu);
}

static bool gives_way(void *ctx, const Node *n)
{
    const Inline *x = ctx;
    return (n->op == OP_extern || n->op == OP_own) && !runs(x->options, n);
}

static Node *inlined(void *ctx, Graph *dst, Node *n, Node *const *map)
{
    Inline *x = ctx;
    uint64_t at;
    if (node_has(n, OPF_RESULT) && idmap_get(&x->results, (uint64_t)(uintptr_t)n->args[0], &at))
        return ((Node **)(uintptr_t)at)[attr_int(n, ATTR_index, 0)];
    if (!gives_way(x, n)) return NULL;
    Node **args = NEW_ARRAY(dst->arena, Node *, n->nargs + 1);
    if (n->op == OP_own && !x->options->references && x->options->target->kind == TARGET_CUDA) {
        for (uint32_t k = 0; k < n->nargs; k++) args[k] = map[n->args[k]->id];
        Attrs text = {0};
        attr_set_str(dst, &text, ATTR_text, attr_str(n, ATTR_text));
        graph_stamp(dst, n, NULL);
        return graph_node(dst, OP_native, args, (int)n->nargs, &text);
    }
    Node **results = NEW_ARRAY(dst->arena, Node *, node_result_count(n));
    for (uint32_t k = 0; k < n->nargs; k++) args[k] = map[n->args[k]->id];
    graph_stamp(dst, n, NULL);
    uint32_t first = dst->nodes.n;
    graph_inline(dst, rebuilt(x->done, n->regions[0]), args, results);
    for (uint32_t i = first; i < dst->nodes.n; i++) dst->nodes.at[i]->role = n->role;
    idmap_set(&x->results, (uint64_t)(uintptr_t)n, (uint64_t)(uintptr_t)results);
    return results[0];
}

static Graph *inline_in(void *ctx, const IdMap *done, Graph *g)
{
    Inline *x = ctx;
    x->done = done;
    return rewrite_nodes(g, done, gives_way, inlined, x);
}

Graph *pass_extern(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target) return g;
    Inline x = {.options = o, .results = idmap_new(g->arena)};
    return over_regions(g, inline_in, &x);
}
