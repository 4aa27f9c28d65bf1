#include "ir/axes.h"

const AttrKey dot_keys[2][2] = {{ATTR_batch_a, ATTR_contract_a}, {ATTR_batch_b, ATTR_contract_b}};

DotAxes dot_axes(const Node *dot, int side)
{
    DotAxes d = {0};
    bool taken[MAX_RANK] = {0};
    const int64_t *b = attr_ints(dot, dot_keys[side][0], &d.nbatch);
    const int64_t *c = attr_ints(dot, dot_keys[side][1], &d.ncontract);
    for (int i = 0; i < d.nbatch; i++) taken[d.batch[i] = b[i]] = true;
    for (int i = 0; i < d.ncontract; i++) taken[d.contract[i] = c[i]] = true;
    for (int i = 0; i < dot->args[side]->type.rank; i++)
        if (!taken[i]) d.free[d.nfree++] = i;
    return d;
}

DotSizes dot_sizes(const Node *dot)
{
    const Type *a = &dot->args[0]->type, *b = &dot->args[1]->type;
    DotAxes x = dot_axes(dot, 0), y = dot_axes(dot, 1);
    return (DotSizes){.batch = type_extent(a, x.batch, x.nbatch),
                      .m = type_extent(a, x.free, x.nfree),
                      .n = type_extent(b, y.free, y.nfree),
                      .k = type_extent(a, x.contract, x.ncontract)};
}

int64_t reduced_count(const Node *n)
{
    int count;
    const int64_t *axes = attr_ints(n, n->op == OP_dot ? ATTR_contract_a : ATTR_axes, &count);
    return type_extent(&n->args[0]->type, axes, count);
}
