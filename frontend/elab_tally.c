// tally(x): a sum over all examples of an evaluation instead of one batch. In an eval entry the sum
// is a cell that the runtime clears when an evaluation begins; elsewhere tally(x) is x of the
// current batch. An output that is computed from such sums is not a mean over batches: eval reports
// its value after the last batch, and training, which has no sum over a data set, does not report
// it.
#include <string.h>

#include "frontend/elab.h"

Val run_tally(Elab *e, const Call *c)
{
    Node *x = tensor_arg(e, c, 0);
    if (!x) return val_poison();
    if (e->root == e->init)
        return fail(e, c->span,
                    "tally(x) sums over an evaluation, so an initial value cannot use it");
    if (e->g != e->root && e->kind == ENTRY_EVAL)
        return fail(e, c->span,
                    "tally(x) sums over batches: it cannot be used inside a loop or in a function "
                    "with its own gradient");
    at_span(e, c->span);
    x = graph_cast(e->g, x, dtype_is_float(x->type.dtype) ? DT_F64 : DT_I64);
    x = graph_unary(e->g, OP_stop_gradient, x); // a node of its own, not shared with another output
    if (e->kind == ENTRY_EVAL) {
        const char *name = arena_printf(e->arena, "%s%s.%u", CELL_TALLY, e->entry, e->tallied.n);
        ECell *sum = cell_counter(e, name, &x->type);
        Node *before = cell_read(e, sum, c->span);
        if (!before) return val_poison();
        x = graph_binary(e->g, OP_add, before, x);
        cell_set(e, sum, x);
    }
    if (e->g == e->root) vec_push(e->arena, &e->tallied, x); // (micro-batches have none)
    return val_node(x);
}

bool *tally_reached(Elab *e, uint32_t from)
{
    Graph *g = e->root;
    bool *reached = NEW_ARRAY(e->arena, bool, g->nodes.n + 1);
    for (uint32_t i = from; i < e->tallied.n; i++) reached[e->tallied.at[i]->id] = true;
    for (uint32_t i = 0; i < g->nodes.n; i++) // in topological order
        for (uint32_t k = 0; k < g->nodes.at[i]->nargs; k++)
            reached[i] = reached[i] || reached[g->nodes.at[i]->args[k]->id];
    return reached;
}

void tally_keep(Elab *e, const char *entry, const char *output, Node *n)
{
    const char *name = arena_printf(e->arena, "%s%s.%s", CELL_LAST, entry, output);
    cell_set(e, cell_counter(e, name, &n->type), n);
}
