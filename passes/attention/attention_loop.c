// Attention where there is no fused kernel for it: a loop over chunks of rows with ordinary dots
// and a softmax in it, so that memory is linear in the sequence lengths.
#include "passes/attention/attention.h"

enum { WHOLE_BYTES = 32 << 20, LEAST_ROWS = 16 };

int64_t loop_rows(const Core *c, OuterKind kind, const PassOptions *o)
{
    int64_t bytes = 4, most = o->attention_bytes ? o->attention_bytes : WHOLE_BYTES;
    if (o->target->kind == TARGET_CUDA) return 0;
    for (int i = 0; i < c->space.n; i++) bytes *= c->space.size[i];
    if (bytes <= most) return 0;
    int64_t all = c->space.size[kind == OUT_KEY ? space_col(&c->space) : space_row(&c->space)];
    int64_t rows = most / (bytes / all);
    rows = rows / LEAST_ROWS * LEAST_ROWS;
    if (rows < LEAST_ROWS) rows = LEAST_ROWS;
    return rows < all ? rows : all;
}

// Concatenates stacked chunks of rows, x of shape (iterations, ...), along axis [at]. If the rows
// are not a multiple of the chunk, the first rows of the last iteration repeat rows of the one
// before.
static Node *put_together(Graph *g, Node *x, int at, int64_t all)
{
    int64_t perm[MAX_RANK + 1], dim[MAX_RANK + 1], count = x->type.dim[0];
    int rank = x->type.rank - 1;
    int64_t rows = x->type.dim[at + 1], even = (count - 1) * rows;
    for (int i = 0; i < rank; i++) {
        perm[i < at ? i : i + 1] = i + 1;
        dim[i] = i == at ? count * rows : x->type.dim[i + 1];
    }
    perm[at] = 0;
    x = graph_reshape(g, graph_permute(g, x, perm), rank, dim);
    if (all == count * rows) return x;
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], stride[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        limit[i] = dim[i];
        stride[i] = 1;
    }
    limit[at] = even;
    Node *part[2] = {graph_slice(g, x, start, limit, stride)};
    start[at] = count * rows - (all - even);
    limit[at] = count * rows;
    part[1] = graph_slice(g, x, start, limit, stride);
    Attrs axis = {0};
    attr_set_int(&axis, ATTR_axis, at);
    return graph_node(g, OP_concat, part, 2, &axis);
}

void loop_make(Graph *g, Kernel *k, Node *const *args, Node **result)
{
    const Core *c = k->core;
    const Space *s = &c->space;
    int64_t all = s->size[k->kind == OUT_KEY ? space_col(s) : space_row(s)];
    Attrs at = {0};
    attr_set_int(&at, ATTR_count, (all + k->rows - 1) / k->rows);
    attr_set_int(&at, ATTR_carried, 0);
    attr_set_int(&at, ATTR_scanned, 0);
    Node *loop = graph_region_node(g, OP_loop, args, (int)k->args.n, &at, &k->region, 1);
    for (int i = 0; i < k->nouters + k->lse; i++) {
        Node *x = graph_result(g, loop, i);
        bool lse = i == k->nouters;
        x = put_together(g, x, x->type.rank - (lse ? 2 : 3), all);
        result[i] = lse ? x : kernel_views(g, c, k->outer[i], x);
    }
}
