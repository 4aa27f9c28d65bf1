// A matrix-vector product becomes an elementwise product and a sum, that is a reduction: it runs at
// memory bandwidth and can be fused with the operations before and after it. A library call, in
// contrast, reads stored operands and stores its result, and generating a token takes hundreds of
// calls. The same for products of many tiny matrices (rotations of points, 5 x 5 by 5 x 5), of
// which a library computes one per block.
//
// Requires: gradients expanded, precision chosen; attention has matched its products. Runs only on
// a GPU. In training, of products with a vector only those of a batch of matrices (capsules that
// vote): the library would take them one after the other, and copies of matrices whose batch has no
// single stride.
// Keeps: every value within rounding (the same factors and accumulator type, another order of
// summation), except that rows that a softmax's mask excludes count as zeros even where they are
// NaN. Breaks: nothing.
#include "ir/axes.h"
#include "passes/prepare.h"
#include "passes/regions.h"
#include "passes/vectors.h"

typedef struct Vectors {
    Graph *top;     // of the entry
    bool batches;   // only products with a batch
    bool *prepared; // by id of its nodes, or NULL
} Vectors;

typedef struct Rewriting { // for one graph
    bool batches;          // only products with a batch
    const bool *prepared;
    uint32_t *uses, *by_products; // see SpreadTo
} Rewriting;

// A smaller product costs next to nothing and can share a launch with others.
enum { LEAST_ELEMENTS = 4096 };

static bool reads_windows(const Node *n)
{
    for (; node_class(n) == CLS_VIEW && n->nargs == 1; n = n->args[0])
        if (n->op == OP_window) return true;
    return false;
}

// The side of [dot] that is a vector (for each batch index); -1: none, or not worth it.
static int vector_side(const Rewriting *r, const Node *dot)
{
    if (dot->op != OP_dot) return -1;
    DotSizes s = dot_sizes(dot);
    if (r->batches && s.batch == 1) return -1;
    DType sum = (DType)attr_int(dot, ATTR_accumulate, DT_F32);
    if ((s.m != 1 && s.n != 1) || s.k < 2) return -1;
    if (s.batch * s.m * s.n * s.k < LEAST_ELEMENTS) return -1;
    if (sum != DT_F32 && sum != DT_F64) return -1;
    for (int k = 0; k < 2; k++)
        if (!dtype_is_float(dot->args[k]->type.dtype) || reads_windows(dot->args[k])) return -1;
    return s.m == 1 ? 0 : 1;
}

// The order of the matrix's axes in the sum: as stored, or with the summed axes last.
typedef struct Order {
    int rank, nsummed;
    int64_t perm[MAX_RANK];   // of the matrix
    int64_t from[MAX_RANK];   // by permuted axis: the vector's axis; -1: none
    int64_t summed[MAX_RANK]; // permuted axes
    int64_t result[MAX_RANK]; // permutes the remaining axes into the order of the dot's result
} Order;

static int index_of(int64_t axis, const int64_t *axes, int n)
{
    for (int i = 0; i < n; i++)
        if (axes[i] == axis) return i;
    return -1;
}

static Order order_of(const Node *dot, int vector, bool summed_last)
{
    DotAxes v = dot_axes(dot, vector), m = dot_axes(dot, !vector);
    Order o = {.rank = dot->args[!vector]->type.rank};
    int left[MAX_RANK] = {0}, nleft = 0, n = 0;
    for (int pass = 0; pass < 1 + summed_last; pass++)
        for (int axis = 0; axis < o.rank; axis++) {
            bool summed = index_of(axis, m.contract, m.ncontract) >= 0;
            if (!summed_last || summed == pass) o.perm[n++] = axis;
        }
    for (int i = 0; i < o.rank; i++) {
        int b = index_of(o.perm[i], m.batch, m.nbatch);
        int c = index_of(o.perm[i], m.contract, m.ncontract);
        o.from[i] = b >= 0 ? v.batch[b] : c >= 0 ? v.contract[c] : -1;
        if (c >= 0)
            o.summed[o.nsummed++] = i;
        else
            left[o.perm[i]] = nleft++;
    }
    for (int i = 0; i < m.nbatch; i++) o.result[i] = left[m.batch[i]];
    for (int i = 0; i < m.nfree; i++) o.result[m.nbatch + i] = left[m.free[i]];
    return o;
}

static Node *permuted(Graph *g, Node *x, const int64_t *perm)
{
    for (int i = 0; i < x->type.rank; i++)
        if (perm[i] != i) return graph_permute(g, x, perm);
    return x;
}

// The vector broadcast to the shape of the matrix m.
static Node *broadcast_vector(Graph *g, const Order *o, Node *v, const Type *m)
{
    int64_t perm[MAX_RANK], dim[MAX_RANK];
    bool used[MAX_RANK] = {0};
    int n = 0;
    for (int i = 0; i < o->rank; i++) {
        dim[i] = o->from[i] >= 0 ? m->dim[i] : 1;
        if (o->from[i] >= 0) used[perm[n++] = o->from[i]] = true;
    }
    for (int i = 0; i < v->type.rank; i++) // of size 1
        if (!used[i]) perm[n++] = i;
    return graph_broadcast_to(g, graph_reshape(g, permuted(g, v, perm), o->rank, dim), m);
}

// If x is a masked softmax, exp(where(mask, scores, -inf) - ...) / ...: the mask in the shape of x;
// elsewhere x is 0. NULL: no mask is known.
static Node *mask_of(Graph *g, const Node *x, Node *const *map)
{
    enum { MOST_VIEWS = 8 };
    const Node *view[MOST_VIEWS];
    int n = 0;
    double v;
    bool exponential = false;
    for (;; x = x->args[0]) {
        if (x->op == OP_reshape || x->op == OP_permute) {
            if (n == MOST_VIEWS) return NULL;
            view[n++] = x;
        } else if (x->op == OP_exp) {
            exponential = true;
        } else if (x->op == OP_select) {
            break;
        } else if (x->op != OP_cast && !(x->op == OP_sub && exponential) &&
                   !(x->op == OP_div && !exponential)) {
            return NULL;
        }
    }
    if (!exponential || !node_const_value(x->args[2], &v) || v > -1e300) return NULL;
    Node *mask = map[x->args[0]->id];
    for (; n; n--) mask = graph_node(g, view[n - 1]->op, &mask, 1, view[n - 1]->attrs);
    return mask;
}

// Whether the product is computed from its operands broadcast to all of its factors: one that sums
// over nothing (the gradient of a product with a vector) is elementwise, and tiny matrices of a
// large batch are sums.
static bool is_broadcast(const Node *dot)
{
    enum { TINY = 512, MANY = 1024 }; // multiplications of a matrix; matrices
    if (dot->op != OP_dot || !dtype_is_float(dot->type.dtype) || reads_windows(dot->args[0]) ||
        reads_windows(dot->args[1]))
        return false;
    const DotSizes s = dot_sizes(dot);
    if (s.k == 1) return type_count(&dot->type) >= LEAST_ELEMENTS;
    return s.batch >= MANY && s.m > 1 && s.n > 1 && s.m * s.n * s.k <= TINY &&
           dot->type.rank + dot_axes(dot, 0).ncontract <= MAX_RANK;
}

// Operand [side] broadcast to [whole], the dot's result followed by what is summed: its free axes
// follow those of the batch, the left operand's first.
static Node *broadcast_factor(Graph *g, const Node *dot, int side, Node *x, const Type *whole)
{
    const DotAxes own = dot_axes(dot, side), other = dot_axes(dot, !side);
    int64_t perm[MAX_RANK], dim[MAX_RANK];
    int n = 0, rank = 0;
    for (int i = 0; i < own.nbatch; i++) dim[rank++] = x->type.dim[perm[n++] = own.batch[i]];
    for (int i = 0; side && i < other.nfree; i++) dim[rank++] = 1;
    for (int i = 0; i < own.nfree; i++) dim[rank++] = x->type.dim[perm[n++] = own.free[i]];
    for (int i = 0; !side && i < other.nfree; i++) dim[rank++] = 1;
    for (int i = 0; i < own.ncontract; i++) {
        perm[n++] = own.contract[i];
        if (rank < whole->rank) dim[rank++] = x->type.dim[own.contract[i]];
    }
    x = graph_reshape(g, permuted(g, graph_cast(g, x, whole->dtype), perm), rank, dim);
    return graph_broadcast_to(g, x, whole);
}

static Node *as_broadcast(Graph *g, const Node *dot, Node *const *map)
{
    const DotAxes left = dot_axes(dot, 0);
    Type whole = dot->type;
    int64_t summed[MAX_RANK];
    int nsummed = 0;
    whole.dtype = (DType)attr_int(dot, ATTR_accumulate, DT_F32);
    for (int i = 0; i < left.ncontract && reduced_count(dot) > 1; i++) {
        summed[nsummed++] = whole.rank;
        whole.dim[whole.rank++] = dot->args[0]->type.dim[left.contract[i]];
    }
    Node *factor[2];
    graph_stamp(g, dot, NULL);
    for (int k = 0; k < 2; k++)
        factor[k] = broadcast_factor(g, dot, k, map[dot->args[k]->id], &whole);
    Node *product = graph_binary(g, OP_mul, factor[0], factor[1]);
    if (nsummed) product = graph_reduce(g, OP_sum, product, summed, nsummed, false);
    return graph_cast(g, product, dot->type.dtype);
}

static bool has_vector(void *ctx, const Node *n)
{
    return vector_side(ctx, n) >= 0 || is_broadcast(n);
}

// The factor with the vector in the elementwise product, in the order o and shape m.
static Node *vector_factor(const Rewriting *r, Graph *g, const Node *dot, int side, const Order *o,
                           const Type *m, Node *const *map)
{
    const Node *vector = dot->args[side];
    if (m->rank == 2 && o->nsummed == 1 && o->summed[0] == 1 && dot_sizes(dot).batch == 1) {
        const SpreadTo to = {m->dim[0], map, r->uses, r->by_products};
        Node *spread = vector_spread(g, vector, &to);
        if (spread) return graph_cast(g, spread, m->dtype);
    }
    return broadcast_vector(g, o, graph_cast(g, map[vector->id], m->dtype), m);
}

static Node *as_sum(void *ctx, Graph *g, Node *dot, Node *const *map)
{
    const Rewriting *r = ctx;
    if (is_broadcast(dot)) return as_broadcast(g, dot, map);
    int vector = vector_side(r, dot);
    if (vector < 0) return NULL;
    graph_stamp(g, dot, NULL);
    DType type = (DType)attr_int(dot, ATTR_accumulate, DT_F32);
    const Node *matrix = dot->args[!vector];
    // A prepared operand can be stored in the order that suits its reader.
    Order o = order_of(dot, vector, r->prepared && r->prepared[matrix->id]);
    Node *factors[2];
    Node *m = graph_cast(g, permuted(g, map[matrix->id], o.perm), type);
    factors[vector] = vector_factor(r, g, dot, vector, &o, &m->type, map);
    // Masked elements of the other operand are not read, even if they are NaN (as in attention).
    Node *mask = mask_of(g, dot->args[vector], map);
    if (mask)
        m = graph_select(g, broadcast_vector(g, &o, mask, &m->type), m, graph_const(g, type, 0));
    factors[!vector] = m;
    Node *product = graph_binary(g, OP_mul, factors[0], factors[1]);
    Node *sum = graph_reduce(g, OP_sum, product, o.summed, o.nsummed, false);
    sum = graph_reshape(g, permuted(g, sum, o.result), dot->type.rank, dot->type.dim);
    return graph_cast(g, sum, dot->type.dtype);
}

static void count_uses(const Graph *g, Rewriting *r)
{
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    r->uses = NEW_ARRAY(g->arena, uint32_t, g->nodes.n + 1);
    r->by_products = NEW_ARRAY(g->arena, uint32_t, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        bool product = vector_side(r, n) >= 0;
        for (uint32_t k = 0; k < n->nargs && live[i]; k++) {
            r->uses[n->args[k]->id]++;
            r->by_products[n->args[k]->id] += product;
        }
    }
    for (uint32_t i = 0; i < g->results.n; i++) r->uses[g->results.at[i]->id]++;
}

static Graph *vectors_graph(void *ctx, const IdMap *done, Graph *g)
{
    const Vectors *v = ctx;
    Rewriting r = {.batches = v->batches, .prepared = g == v->top ? v->prepared : NULL};
    count_uses(g, &r);
    return rewrite_nodes(g, done, has_vector, as_sum, &r);
}

Graph *pass_vectors(Graph *g, Module *m, const PassOptions *o)
{
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Entry *e = &m->entries.at[i];
        if (e->graph != g) continue;
        const bool model = e->kind == ENTRY_MODEL;
        Vectors v = {g, !model, model ? prepare_finds(m, e, o) : NULL};
        return over_regions(g, vectors_graph, &v);
    }
    return g;
}
