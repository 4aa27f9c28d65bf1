// Transposes and reshapes around a dot taken over as its axes.
#include "passes/dot.h"

static Node *dot_with(Graph *g, const Node *dot, Node *const *args, const AttrKey *keys,
                      const int64_t **axes, const int *counts)
{
    Attrs at = dot->attrs;
    for (int i = 0; i < 4; i++) attr_set_ints(g, &at, keys[i], axes[i], counts[i]);
    return graph_node(g, OP_dot, args, 2, &at);
}

static const AttrKey dot_keys[2][4] = {
    {ATTR_batch_a, ATTR_contract_a, ATTR_batch_b, ATTR_contract_b},
    {ATTR_batch_b, ATTR_contract_b, ATTR_batch_a, ATTR_contract_a},
};

Node *dot_without_permutes(Graph *g, const Node *n, Node *const *from)
{
    Node *args[2] = {from[0], from[1]};
    const int64_t *axes[4];
    int64_t own[4][MAX_RANK];
    int counts[4];
    bool changed = false;
    for (int i = 0; i < 4; i++) axes[i] = attr_ints(n, dot_keys[0][i], &counts[i]);
    for (int side = 0; side < 2; side++) {
        if (args[side]->op != OP_permute) continue;
        int rank;
        const int64_t *perm = attr_ints(args[side], ATTR_perm, &rank);
        bool used[MAX_RANK] = {0}, ordered = true;
        for (int k = 2 * side; k < 2 * side + 2; k++)
            for (int i = 0; i < counts[k]; i++) used[axes[k][i]] = true;
        int64_t last = -1;
        for (int i = 0; i < rank; i++) {
            if (used[i]) continue;
            ordered &= perm[i] > last;
            last = perm[i];
        }
        if (!ordered) continue;
        for (int k = 2 * side; k < 2 * side + 2; k++) {
            for (int i = 0; i < counts[k]; i++) own[k][i] = perm[axes[k][i]];
            axes[k] = own[k];
        }
        args[side] = args[side]->args[0];
        changed = true;
    }
    return changed ? dot_with(g, n, args, dot_keys[0], axes, counts) : NULL;
}

Node *permuted_dot(Graph *g, const Node *permute, const Node *dot)
{
    const int64_t *axes[4], *perm;
    int counts[4], rank;
    for (int i = 0; i < 4; i++) axes[i] = attr_ints(dot, dot_keys[0][i], &counts[i]);
    perm = attr_ints(permute, ATTR_perm, &rank);
    int nb = counts[0], fa = dot->args[0]->type.rank - nb - counts[1], fb = rank - nb - fa;
    for (int i = 0; i < rank; i++)
        if (perm[i] != (i < nb ? i : i < nb + fb ? i + fa : i - fb)) return NULL;
    return dot_with(g, dot, (Node *[]){dot->args[1], dot->args[0]}, dot_keys[1], axes, counts);
}
