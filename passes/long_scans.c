// Running reductions along a long axis of few rows are computed in pieces on a GPU, where a row
// belongs to one block, or, along an axis that is not the last, to one thread:
//
//     cumsum(x)   becomes   p = the pieces of x; s = cumsum of their sums, exclusive;
//                           cumsum(s added to the first element of each piece, along the pieces)
//
// and cumprod, cummax and cummin in the same way. x is read twice, and only the sums of the pieces
// are stored in addition. A row whose length has no suitable divisor is filled up with zeros (with
// what a product or a maximum of nothing gives).
//
// Requires: gradients expanded. Keeps: every value; sums are added in another order. Breaks:
// nothing.
#include "ir/axes.h"
#include "ir/target.h"
#include "passes/passes.h"
#include "passes/regions.h"

enum {
    // A row by a block (the last axis): rows that are worth dividing, blocks and elements of
    // pieces.
    LONG_ROW = 1 << 15,
    BLOCKS_PER_UNIT = 8,
    ROW_PIECE = 1 << 12,
    // A row by a thread (other axes).
    LONG_COLUMN = 1 << 10,
    THREADS_PER_UNIT = 512,
    COLUMN_PIECE = 1 << 7,
};

typedef struct Cut {
    int64_t axis, pieces, length; // pieces * length is the extent of the axis or more
} Cut;

// About [most] pieces: as many as divide [extent], if there are between half and twice as many.
static int64_t near_divisor(int64_t extent, int64_t most)
{
    for (int64_t i = 0; i <= most / 2; i++) {
        if (extent % (most - i) == 0) return most - i;
        if (extent % (most + i) == 0) return most + i;
    }
    return most;
}

// How a running reduction is divided. false: it stays as it is.
static bool find_cut(const Target *t, const Node *n, Cut *cut)
{
    if (!op_info(n->op)->running || n->type.rank == MAX_RANK) return false;
    int64_t rows = 1;
    cut->axis = attr_int(n, ATTR_axis, 0);
    const int64_t extent = n->type.dim[cut->axis];
    for (int i = 0; i < n->type.rank; i++) rows *= i == cut->axis ? 1 : n->type.dim[i];
    const bool last = cut->axis == n->type.rank - 1;
    const int64_t workers = (int64_t)t->units * (last ? BLOCKS_PER_UNIT : THREADS_PER_UNIT),
                  least = last ? ROW_PIECE : COLUMN_PIECE;
    if (extent < (last ? LONG_ROW : LONG_COLUMN) || rows > workers / 8) return false;
    int64_t pieces = workers / rows;
    if (pieces > extent / least) pieces = extent / least;
    cut->pieces = near_divisor(extent, pieces);
    cut->length = (extent + cut->pieces - 1) / cut->pieces;
    return true;
}

static Node *running(Graph *g, Op op, Node *x, int64_t axis, bool down, bool exclusive)
{
    Attrs at = {0};
    attr_set_int(&at, ATTR_axis, axis);
    if (down) attr_set_int(&at, ATTR_reverse, 1);
    if (exclusive) attr_set_int(&at, ATTR_exclusive, 1);
    return graph_node(g, op, &x, 1, &at);
}

// x with [none] behind its elements along an axis, [extent] in all. late: moved on by one, so that
// a running sum becomes an exclusive one; down: of a sum that begins at the end.
static Node *filled(Graph *g, Node *x, int64_t axis, int64_t extent, bool late, bool down,
                    double none)
{
    int64_t begin[MAX_RANK] = {0}, end[MAX_RANK], one[MAX_RANK], low[MAX_RANK] = {0},
            high[MAX_RANK] = {0};
    for (int i = 0; i < x->type.rank; i++) end[i] = x->type.dim[i], one[i] = 1;
    if (late && down) begin[axis]++;
    if (late && !down) end[axis]--, low[axis]++;
    high[axis] = extent - low[axis] - (end[axis] - begin[axis]);
    if (!low[axis] && !high[axis]) return x;
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_low, low, x->type.rank);
    attr_set_ints(g, &at, ATTR_high, high, x->type.rank);
    if (late) x = graph_slice(g, x, begin, end, one);
    return graph_node(g, OP_pad, (Node *[]){x, graph_const(g, x->type.dtype, none)}, 2, &at);
}

// The running reduction [n] of x, divided.
static Node *divided(Graph *g, const Node *n, Node *x, const Cut *c)
{
    const bool down = attr_int(n, ATTR_reverse, 0), late = attr_int(n, ATTR_exclusive, 0);
    const int64_t axis = c->axis, inside = axis + 1, extent = n->type.dim[axis];
    const OpInfo *op = op_info(n->op);
    x = graph_cast(
        g, x, dtype_is_float(n->type.dtype) ? dtype_accumulator(n->type.dtype) : n->type.dtype);
    x = filled(g, x, axis, c->pieces * c->length, late, down,
               axes_identity(op->reduces, x->type.dtype));
    int64_t dim[MAX_RANK], whole[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < n->type.rank; i++) {
        whole[i] = x->type.dim[i];
        dim[rank++] = i == axis ? c->pieces : whole[i];
        if (i == axis) dim[rank++] = c->length;
    }
    x = graph_reshape(g, x, rank, dim);
    Node *sums = graph_cast(g, graph_reduce(g, op->reduces, x, &inside, 1, true), x->type.dtype);
    sums = running(g, n->op, sums, axis, down, true);
    Node *at = graph_iota(g, DT_I32, dim, rank, inside);
    Node *first =
        graph_binary(g, OP_eq, at, graph_full_like(g, at, down ? (double)c->length - 1 : 0));
    x = graph_select(g, first, graph_binary(g, op->joins, x, sums), x);
    Node *y = graph_reshape(g, running(g, n->op, x, inside, down, false), n->type.rank, whole);
    return graph_cast(g, graph_resized(g, y, axis, extent), n->type.dtype);
}

static bool is_long(void *ctx, const Node *n)
{
    return find_cut(ctx, n, &(Cut){0});
}

static Node *replaced(void *ctx, Graph *g, Node *n, Node *const *map)
{
    Cut cut;
    if (!find_cut(ctx, n, &cut)) return NULL;
    graph_stamp(g, n, NULL);
    Node *y = divided(g, n, map[n->args[0]->id], &cut);
    node_pass_name(n, y);
    return y;
}

static Graph *cut_graph(void *ctx, const IdMap *done, Graph *g)
{
    return rewrite_nodes(g, done, is_long, replaced, ctx);
}

Graph *pass_long_scans(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, cut_graph, (void *)(uintptr_t)o->target);
}
