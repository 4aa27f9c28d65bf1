// Attention of few queries and many keys, as when a text is written token by token: the columns are
// divided into parts, each of which is an index of the batch, so that all of a GPU has something to
// read. A part gives its rows' greatest score, the sum of the exponentials below that, and the
// product with the values; what joins them is ordinary code (Dao et al., "Flash-Decoding for
// long-context inference", 2023).
#include <float.h>

#include "passes/attention/attention.h"

// Parts are so large that what is stored for each is small compared with what it reads, and so many
// that a large GPU has several blocks per multiprocessor.
enum { LEAST_COLUMNS = 2048, LEAST_PART = 512, LEAST_BLOCKS = 256, MOST_BLOCKS = 4096 };

int64_t attention_parts(const Core *c)
{
    const Space *s = &c->space;
    int64_t cols = s->size[space_col(s)], batch = 1, part = 1024;
    const Type *t = &c->inner[0]->args[0]->type;
    if (cols < LEAST_COLUMNS || dtype_info[t->dtype].bits != 16) return 0;
    if (c->space.n + 2 > MAX_RANK)
        return 0; // needs one axis for the parts and one for the
                  // contracted dimension
    for (int i = 0; i < space_row(s); i++) batch *= s->size[i];
    while (part > LEAST_PART && (cols % part || batch * (cols / part) < LEAST_BLOCKS)) part /= 2;
    while (part * 2 < cols && cols % (part * 2) == 0 && batch * (cols / part) > MOST_BLOCKS)
        part *= 2;
    return cols % part ? 0 : cols / part;
}

Node *parts_divide(Graph *g, Node *x, int axis, int64_t parts)
{
    int64_t dim[MAX_RANK + 1] = {0}, perm[MAX_RANK + 1] = {0};
    int rank = x->type.rank, rows = rank - 2;
    for (int i = 0; i < rank; i++) dim[i < axis ? i : i + 1] = x->type.dim[i];
    dim[axis] = parts;
    dim[axis + 1] /= parts;
    x = graph_reshape(g, x, rank + 1, dim);
    if (axis == rows) return x;
    for (int i = 0; i <= rank; i++) perm[i] = i == rows ? axis : i == axis ? rows : i;
    return graph_permute(g, x, perm);
}

Node *parts_undo(Graph *g, Node *x)
{
    int64_t dim[MAX_RANK] = {0}, perm[MAX_RANK] = {0};
    int rank = x->type.rank;
    for (int i = 0; i < rank; i++) perm[i] = i;
    perm[rank - 3] = rank - 2;
    perm[rank - 2] = rank - 3;
    x = graph_permute(g, x, perm);
    for (int i = 0; i < rank - 2; i++) dim[i] = x->type.dim[i];
    dim[rank - 2] = x->type.dim[rank - 2] * x->type.dim[rank - 1];
    return graph_reshape(g, x, rank - 1, dim);
}

Node *parts_high(Graph *g, Node *high)
{
    return graph_binary(g, OP_maximum, high, graph_const(g, DT_F32, -FLT_MAX));
}

Node *parts_spread(Graph *g, Node *x, const Type *to)
{
    int64_t dims[MAX_RANK] = {0};
    Attrs at = {0};
    for (int i = 0; i < x->type.rank; i++) dims[i] = i;
    attr_set_ints(g, &at, ATTR_shape, to->dim, to->rank);
    attr_set_ints(g, &at, ATTR_dims, dims, x->type.rank);
    return graph_node(g, OP_broadcast, &x, 1, &at);
}

// [high] and [total] are broadcast to the shape of [sum] first, so that all reductions are over one
// shape and hence in one kernel.
Node *parts_join(Graph *g, Node *sum, Node *high, Node *total)
{
    int64_t part = sum->type.rank - 3;
    high = parts_spread(g, high, &sum->type);
    total = parts_spread(g, total, &sum->type);
    Node *most = graph_reduce(g, OP_max, high, &part, 1, true);
    Node *share = graph_unary(
        g, OP_exp, graph_binary(g, OP_sub, high, graph_broadcast_to(g, most, &high->type)));
    total = graph_reduce(g, OP_sum, graph_binary(g, OP_mul, share, total), &part, 1, false);
    sum = graph_reduce(g, OP_sum, graph_binary(g, OP_mul, share, sum), &part, 1, false);
    return graph_binary(g, OP_div, sum, total);
}
