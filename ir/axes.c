#include "ir/axes.h"
#include "ir/door.h"

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

WindowAxes window_axes(const Attrs *attrs)
{
    WindowAxes w;
    w.axis = attrs_ints(attrs, ATTR_axes, &w.n);
    w.size = attrs_ints(attrs, ATTR_sizes, NULL);
    w.stride = attrs_ints(attrs, ATTR_stride, NULL);
    w.dilation = attrs_ints(attrs, ATTR_dilation, NULL);
    w.at = w.n ? (int)w.axis[w.n - 1] + 1 : 0;
    return w;
}

int64_t window_places(int64_t extent, int64_t size, int64_t stride, int64_t dilation)
{
    int64_t span = (size - 1) * dilation + 1;
    return extent < span ? 0 : (extent - span) / stride + 1;
}

int64_t reduced_count(const Node *n)
{
    int count;
    const int64_t *axes = attr_ints(n, n->op == OP_dot ? ATTR_contract_a : ATTR_axes, &count);
    return type_extent(&n->args[0]->type, axes, count);
}
