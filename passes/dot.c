// Folds permutes of a dot's operands and result into the dot's axis attributes.
#include "ir/axes.h"
#include "passes/dot.h"

Node *dot_with(Graph *g, const Node *dot, Node *const *args, const DotAxes *axes, bool swap)
{
    Attrs at = attrs_copy(dot->attrs);
    for (int side = 0; side < 2; side++) {
        const DotAxes *d = &axes[side ^ swap];
        attr_set_ints(g, &at, dot_keys[side][0], d->batch, d->nbatch);
        attr_set_ints(g, &at, dot_keys[side][1], d->contract, d->ncontract);
    }
    return graph_node(g, OP_dot, args, 2, &at);
}

Node *dot_without_permutes(Graph *g, const Node *n, Node *const *from)
{
    Node *args[2] = {from[0], from[1]};
    DotAxes axes[2] = {dot_axes(n, 0), dot_axes(n, 1)};
    bool changed = false;
    for (int side = 0; side < 2; side++) {
        if (args[side]->op != OP_permute) continue;
        DotAxes *d = &axes[side];
        const int64_t *perm = attr_ints(args[side], ATTR_perm, NULL);
        bool ordered = true;
        for (int i = 1; i < d->nfree; i++) ordered &= perm[d->free[i]] > perm[d->free[i - 1]];
        if (!ordered) continue;
        for (int i = 0; i < d->nbatch; i++) d->batch[i] = perm[d->batch[i]];
        for (int i = 0; i < d->ncontract; i++) d->contract[i] = perm[d->contract[i]];
        args[side] = args[side]->args[0];
        changed = true;
    }
    return changed ? dot_with(g, n, args, axes, false) : NULL;
}

Node *permuted_dot(Graph *g, const Node *permute, const Node *dot)
{
    const DotAxes axes[2] = {dot_axes(dot, 0), dot_axes(dot, 1)};
    int rank, nb = axes[0].nbatch, fa = axes[0].nfree, fb = axes[1].nfree;
    const int64_t *perm = attr_ints(permute, ATTR_perm, &rank);
    for (int i = 0; i < rank; i++)
        if (perm[i] != (i < nb ? i : i < nb + fb ? i + fa : i - fb)) return NULL;
    return dot_with(g, dot, (Node *[]){dot->args[1], dot->args[0]}, axes, true);
}
