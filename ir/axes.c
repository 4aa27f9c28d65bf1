#include "ir/axes.h"

#include <math.h>

#include "ir/door.h"
#include "ir/scalar.h"

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

int axis_in_memory(const Node *n, int64_t axis)
{
    for (; n->op == OP_permute; n = n->args[0]) axis = attr_ints(n, ATTR_perm, NULL)[axis];
    return (int)axis;
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
    const int64_t *axes =
        attr_ints(n, n->op == OP_dot || n->op == OP_repair ? ATTR_contract_a : ATTR_axes, &count);
    return type_extent(&n->args[0]->type, axes, count);
}

static bool is_among(const int64_t *axes, int n, int64_t axis)
{
    for (int i = 0; i < n; i++)
        if (axes[i] == axis) return true;
    return false;
}

bool axes_leave_columns(const Type *t, const int64_t *axes, int naxes)
{
    for (int i = t->rank - 1; i >= 0; i--)
        if (t->dim[i] != 1) return !is_among(axes, naxes, i);
    return false;
}

TargetSums scatter_sizes(const Node *scatter)
{
    const int64_t axis = attr_int(scatter, ATTR_axis, 0);
    double v;
    return (TargetSums){.places = scatter->type.dim[axis],
                        .elements = type_count(&scatter->type),
                        .count = scatter->args[2]->type.dim[axis],
                        .onto_constant = node_const_value(scatter->args[0], &v),
                        .onto_cell = node_has(scatter->args[0], OPF_CELL)};
}

bool broadcast_repeats(const Node *b, const int64_t *axes, int naxes)
{
    int nd;
    const int64_t *dims = attr_ints(b, ATTR_dims, &nd);
    for (int i = 0; i < nd; i++)
        if (b->args[0]->type.dim[i] != 1 && is_among(axes, naxes, dims[i])) return false;
    return true;
}

Node *broadcast_without(Graph *g, const Node *b, const int64_t *axes, int naxes)
{
    int nd, kept = 0, rank = 0;
    const int64_t *dims = attr_ints(b, ATTR_dims, &nd);
    int64_t dim[MAX_RANK], to[MAX_RANK], shape[MAX_RANK];
    for (int i = 0; i < nd; i++) {
        if (is_among(axes, naxes, dims[i])) continue;
        int before = 0;
        for (int k = 0; k < naxes; k++) before += axes[k] < dims[i];
        dim[kept] = b->args[0]->type.dim[i];
        to[kept++] = dims[i] - before;
    }
    for (int i = 0; i < b->type.rank; i++)
        if (!is_among(axes, naxes, i)) shape[rank++] = b->type.dim[i];
    Node *v = graph_reshape(g, b->args[0], kept, dim);
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, shape, rank);
    attr_set_ints(g, &at, ATTR_dims, to, kept);
    return graph_node(g, OP_broadcast, &v, 1, &at);
}

double axes_identity(Op reduces, DType t)
{
    const Accumulate acc = op_info(reduces)->acc;
    if (acc == ACC_SUM || acc == ACC_PROD) return acc == ACC_PROD;
    const double end = acc == ACC_MIN ? INFINITY : -INFINITY;
    return dtype_is_float(t) ? end : (double)scalar_to_int(t, end);
}
