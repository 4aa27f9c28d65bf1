// The graph: nodes in topological order, created only by graph_node. A graph belongs to an entry of
// a Module or is a region of a node. Passes build a new graph from the old one (old -> new map);
// they never patch one.
#ifndef IR_GRAPH_H
#define IR_GRAPH_H

#include "base/diag.h"
#include "base/map.h"
#include "ir/op.h"
#include "ir/type.h"

typedef struct Node Node;
typedef struct Graph Graph;

typedef struct AttrValue {
    AttrKey key;
    int32_t n; // INTS: length
    union {
        int64_t i; // INT, DTYPE
        double f;  // FLOAT; compared by bits
        const char *s;
        const int64_t *ints;
    };
} AttrValue;

typedef struct Attrs {
    int n; // sorted by key
    AttrValue at[8];
} Attrs;

// Builders of an Attrs value: Attrs a = {0}; attr_set_ints(g, &a, ATTR_axes, axes, 1);
void attr_set_int(Attrs *a, AttrKey k, int64_t v); // INT and DTYPE
void attr_set_float(Attrs *a, AttrKey k, double v);
void attr_set_str(Graph *g, Attrs *a, AttrKey k, const char *s);
void attr_set_ints(Graph *g, Attrs *a, AttrKey k, const int64_t *v, int n);
void attr_remove(Attrs *a, AttrKey k);
Attrs attrs_copy(const Attrs *a); // a copy of a node's attributes that can be changed

// The part of a step that a node belongs to; used by the precision policy and the report.
typedef enum Role { ROLE_FORWARD, ROLE_BACKWARD, ROLE_UPDATE, ROLE_COUNT } Role;

struct Node {
    Op op;
    Role role;
    uint32_t id; // index in graph->nodes
    uint32_t nargs;
    Type type; // of result 0; the results of region ops with several are read through `get`
    Node **args;
    const Attrs *attrs; // shared by copies; allocated only as long as it has values
    Graph **regions;    // call: 1 or 2, loop: 1; else NULL
    uint32_t nregions;
    uint64_t form; // hash of op and attributes; private to graph.c
    Loc loc;
    const char *name;  // the model's name for it ("fc1.h", "logits"), or NULL; for readable kernels
    const char *scope; // scope of parameter names where the model created it ("h.0.attn"), or NULL
};

struct Graph {
    Arena *arena; // for the nodes, and for analyses of them
    Arena *kept;  // shared with graphs that are built from this one: attributes, names, regions
    Diags *diags;
    const char *const *symbols; // names of Sym; may be NULL
    VEC(Node *) nodes;          // topological: args have smaller ids
    VEC(Node *) roots;          // class ROOT, in program order (also members of nodes)
    // A region's interface; empty for an entry's graph.
    VEC(Node *) params; // region_param nodes, in order
    VEC(Node *) results;
    // Each operation is a node of its own: nothing is folded, and only leaves in memory are shared.
    // Graphs are elaborated like this because any value may be differentiated later; graph_settle
    // turns the result into the graph that passes work on.
    bool plain;
    // Context that is copied to new nodes; set by whoever builds the graph.
    Loc loc;
    Role role;
    const char *scope;        // used by the frontend only; NULL in passes
    const char *name;         // given to the next new node, then cleared
    struct GraphIndex *index; // hash-consing, private to graph.c
    struct Fusion *fusion;    // set by the fuse pass (ir/fusion.h), else NULL
};

Graph *graph_new(Arena *a, Diags *d, const char *const *symbols); // both arenas are [a]
Graph *graph_beside(const Graph *g);             // an empty graph in the arenas of g
Graph *graph_inside(const Graph *g);             // an empty region for nodes of g
Node *graph_keep(const Graph *g, const Node *n); // a copy without operands that outlives g

// The only constructor of nodes: infers the type, folds, looks for an equal node, and otherwise
// appends one (but see Graph.plain). Never returns NULL: if the operands do not fit, it reports an
// error with both shapes at g->loc and returns a poison node. args and attrs are copied. Leaves,
// roots and region ops are created here, too.
Node *graph_node(Graph *g, Op op, Node *const *args, int nargs, const Attrs *attrs);
// Creates a region op. It takes ownership of the regions; they are not copied.
Node *graph_region_node(Graph *g, Op op, Node *const *args, int nargs, const Attrs *attrs,
                        Graph **regions, int nregions);
// Result [index]: a `get`, or the node itself.
Node *graph_result(Graph *g, Node *region_op, int index);
int node_result_count(const Node *n); // region ops: results; else 1
Type node_result_type(const Node *n, int index);

// -- conveniences over graph_node (ir/build.c) ----------------------------------------------------

// An elementwise op; inserts right-aligned broadcasting. The dtypes must already agree.
Node *graph_ew(Graph *g, Op op, Node *const *args, int nargs);
Node *graph_unary(Graph *g, Op op, Node *a);
Node *graph_binary(Graph *g, Op op, Node *a, Node *b);
Node *graph_select(Graph *g, Node *cond, Node *a, Node *b);
Node *graph_const(Graph *g, DType t, double v);              // scalar; integers too when exact
Node *graph_const_int(Graph *g, DType t, int64_t v);         // scalar
Node *graph_full_like(Graph *g, const Node *like, double v); // const of like's type and shape
Node *graph_cast(Graph *g, Node *a, DType t);
Node *graph_broadcast_to(Graph *g, Node *a, const Type *shape); // right-aligned
Node *graph_reshape(Graph *g, Node *a, int rank, const int64_t *dim);
Node *graph_permute(Graph *g, Node *a, const int64_t *perm);
Node *graph_iota(Graph *g, DType t, const int64_t *dim, int rank, int64_t axis);
// An op whose only attribute is an axis: gather, scatter and its variants, sorts.
Node *graph_along(Graph *g, Op op, Node *const *args, int nargs, int64_t axis);
// An index of an axis of [size] as t, to compute another index of: the step fails if it is outside of
// 0..size, although the other may be within its own.
Node *graph_place(Graph *g, Node *index, int64_t size, DType t);
Node *graph_reduce(Graph *g, Op op, Node *a, const int64_t *axes, int naxes, bool keep_dims);
// Sums [a] down to the shape of [like], undoing a right-aligned broadcast.
Node *graph_sum_to(Graph *g, Node *a, const Type *like);
// The first [extent] elements along an axis; if there are fewer, zeros are added.
Node *graph_resized(Graph *g, Node *a, int64_t axis, int64_t extent);
Node *graph_slice(Graph *g, Node *a, const int64_t *start, const int64_t *limit,
                  const int64_t *stride);
Node *graph_dot(Graph *g, Node *a, Node *b, const int64_t *batch_a, const int64_t *batch_b,
                int nbatch, const int64_t *contract_a, const int64_t *contract_b, int ncontract,
                DType out);
Node *graph_matmul(Graph *g, Node *a, Node *b); // (..., M, K) x (..., K, N), batch axes broadcast
Node *graph_input(Graph *g, const char *name, const Type *t, const char *kind);
Node *graph_leaf_cell(Graph *g, Op param_or_state, const char *name, const Type *t);
Node *graph_region_param(Graph *region, const Type *t); // appended to the region's parameters
// An output, assign or assert; for assert, name is the message.
Node *graph_root(Graph *g, Op op, Node *value, const char *name);

enum { EXTERN_LAUNCH = 7 }; // numbers of a launch of `extern`: grid, block, shared memory

// -- reading --------------------------------------------------------------------------------------
const AttrValue *attr_find(const Node *n, AttrKey k); // NULL when absent
int64_t attr_int(const Node *n, AttrKey k, int64_t otherwise);
double attr_float(const Node *n, AttrKey k, double otherwise);
const char *attr_str(const Node *n, AttrKey k);                 // NULL when absent
const int64_t *attr_ints(const Node *n, AttrKey k, int *count); // NULL and 0 when absent
static inline OpClass node_class(const Node *n)
{
    return op_info(n->op)->class;
}
static inline bool node_has(const Node *n, unsigned flags) // one of these OPF_*
{
    return op_info(n->op)->flags & flags;
}
static inline bool node_keeps_all(const Node *n) // a view of all elements in their order: a reshape
{
    return node_has(n, OPF_PERMUTES) && node_has(n, OPF_ORDER);
}
bool node_in_memory(const Node *n); // a leaf that is read from a buffer
bool node_is_data(const Node *n);   // an input whose rows may be read through the row table
static inline bool node_is_poison(const Node *n)
{
    return n->op == OP_poison;
}
// If n is a const whose elements are all equal, possibly broadcast: sets *v and returns true.
bool node_const_value(const Node *n, double *v);

// -- rebuilding -----------------------------------------------------------------------------------

// A Remap maps old nodes to new ones while a pass copies a graph. remap_node creates the same op on
// the mapped operands in dst and keeps loc, role, name and attributes; regions are shared, not
// copied.
typedef struct Remap {
    const Graph *src;
    Graph *dst;
    Node **map;  // by old id; NULL: not yet copied
    Node **twin; // private; by old id: the image, if it is the same op on images that are, too
} Remap;
Remap remap_begin(const Graph *src, Graph *dst);
// Copies a node that is not mapped yet; its operands must be mapped.
Node *remap_node(Remap *r, const Node *old);
Graph *remap_end(Remap *r); // dst, with the images of src's results, and its context cleared
// New nodes of g replace n: they get its source location and role; the next one gets [name].
void graph_stamp(Graph *g, const Node *n, const char *name);
void node_pass_name(const Node *from, Node *to); // if [to] has no name; leaves keep their own
Graph *graph_copy_live(Graph *src); // only what the roots (or results) need; the dead-code pass
// The same in place; only for a caller that has just built the graph and holds no ids.
Graph *graph_drop_dead(Graph *g);
// Folds and shares the live nodes of a plain graph, including its regions. A value with respect to
// which gradients are taken becomes a node `variable`, which no folding rule looks through and to
// which no node is equal. So exactly the values that were computed from it depend on it.
Graph *graph_settle(const Graph *plain);
// node_const_value of the node that n, in a plain graph, becomes when settled.
bool graph_known_value(Graph *plain, Node *n, double *v);
// Sets live[id]; the caller provides nodes.n zeroed entries.
void graph_mark_live(const Graph *g, bool *live);
// Appends the region's nodes to dst with its parameters replaced by args; results[i] receives the
// images of its results. Returns all images by node id; NULL for nodes that nothing needs.
Node **graph_inline(Graph *dst, Graph *region, Node *const *args, Node **results);

// -- checking and printing ------------------------------------------------------------------------

// Checks every invariant above; reports the first violation through diags and returns false.
bool graph_verify(const Graph *g, const char *after_what);
// Structural equality of what the roots compute (names, locs and ids aside).
bool graph_equal(const Graph *a, const Graph *b);
void graph_dot_text(const Graph *g, Buf *out); // Graphviz

#endif
