// Values along a short last axis that are computed from each other at shifted positions become one
// value for each position, without the axis:
//
//     b[..., :-1] + b[..., 1:]   becomes   b0 + b1, b1 + b2, ...
//
// Examples are the recursion of B-splines, differences of neighbours, and running sums of a few
// bins. Element by element, each kernel would compute a value again for every position at which it
// is read, and would have to compute positions and what depends on them alone. Here a thread has a
// whole row of the axis: what positions share is computed once, positions are constants, and sums
// along the axis stay in the thread. Where something needs the axis (the operand of a product, an
// output), the values are stacked; the kernel stores them as vectors (codegen/ir/stacks.c).
//
// The backward part computes cheap forward values again (`clone`), since storing all positions
// takes longer. The pass `recompute` would not: it counts the operations of a chain.
//
// Requires: gradients expanded, precision chosen. Keeps: every value; sums along the axis are
// added in order of the positions. Breaks: nothing.
#include "ir/axes.h"
#include "passes/passes.h"
#include "passes/regions.h"

enum {
    MOST = 16,             // elements of a short axis
    LEAST_COUNT = 1 << 12, // elements of the value that is read at shifted positions
    LEAST_DEPTH = 2,       // such values in a chain: of one, little is computed again
    LEAST_NARROW = 3,      // the same if rows that are stored are not a multiple of LEAST_BYTES
    LEAST_BYTES = 8,
    MOST_DEPTH = 8,     // more are not counted
    MOST_VALUES = 2048, // values that replace those connected with it
};

typedef enum Part { APART, FIXED, SPLIT, SUMMED } Part; // see Short.part

typedef struct Short {
    const Graph *src;
    Remap r;
    bool *live;
    Node ***readers; // by id: the live nodes that read it
    uint32_t *nreaders;
    // By id. FIXED: of positions and constants only, one axis. SPLIT: replaced by one value for
    // each position. SUMMED: a reduction along the axis of such a value. APART: anything else.
    uint8_t *part;
    bool *seen;     // by id: it has been looked at
    uint8_t *depth; // by id: the most values read at shifted positions in a chain that ends here
    // By id: its value at each position; for the backward part, if that computes it again.
    Node ***at[2];
} Short;

static int last_axis(const Node *n)
{
    return n->type.rank - 1;
}

static int64_t extent_of(const Node *n)
{
    return n->type.rank ? n->type.dim[n->type.rank - 1] : 0;
}

static bool is_short(const Node *n)
{
    return n->type.rank && extent_of(n) <= MOST;
}

// -- what can be split ----------------------------------------------------------------------------

// Whether the axes of a reduction include the last one of its operand; *others: others, too.
static bool reduces_last(const Node *n, bool *others)
{
    int naxes;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    *others = naxes > 1;
    return naxes && axes[naxes - 1] == last_axis(n->args[0]);
}

// The operation by which values of positions are combined; OP_COUNT: there is none.
static Op joining(const Node *n)
{
    switch (n->op) {
    case OP_sum: return OP_add;
    case OP_prod: return OP_mul;
    case OP_max: return OP_maximum;
    case OP_min: return OP_minimum;
    default: return op_info(n->op)->running ? op_info(n->op)->joins : OP_COUNT;
    }
}

static bool is_summed(const Node *n)
{
    bool others;
    return node_class(n) == CLS_REDUCE && joining(n) != OP_COUNT && n->type.dtype != DT_BOOL &&
           is_short(n->args[0]) && reduces_last(n, &others);
}

// Whether a slice or a pad leaves all axes but the last as they are.
static bool only_last(const Node *n, AttrKey low, AttrKey high, bool slice)
{
    const int64_t *a = attr_ints(n, low, NULL), *b = attr_ints(n, high, NULL);
    const int last = last_axis(n);
    for (int i = 0; i < last; i++)
        if (a[i] || b[i] != (slice ? n->args[0]->type.dim[i] : 0)) return false;
    return slice || (a[last] >= 0 && b[last] >= 0);
}

// Whether each position of n is computed from positions of its operands.
static bool can_split(const Node *n)
{
    int naxes;
    bool others;
    if (!is_short(n)) return false;
    for (uint32_t k = 0; k < n->nargs; k++)
        if (n->args[k]->type.rank && extent_of(n->args[k]) > MOST) return false;
    if (node_class(n) == CLS_ELEMENTWISE) return true;
    if (op_info(n->op)->running) return attr_int(n, ATTR_axis, 0) == last_axis(n);
    switch (n->op) {
    case OP_slice: return only_last(n, ATTR_start, ATTR_limit, true);
    case OP_pad: return only_last(n, ATTR_low, ATTR_high, false);
    case OP_concat: return attr_int(n, ATTR_axis, 0) == last_axis(n);
    case OP_reverse: return *attr_ints(n, ATTR_axes, &naxes) == last_axis(n) && naxes == 1;
    case OP_permute: return attr_ints(n, ATTR_perm, NULL)[last_axis(n)] == last_axis(n);
    case OP_reshape: return n->args[0]->type.rank && extent_of(n->args[0]) == extent_of(n);
    default:
        return node_class(n) == CLS_REDUCE && joining(n) != OP_COUNT && !reduces_last(n, &others);
    }
}

// Whether n, or all that reads it through views and casts, needs its operand in memory anyway.
static bool stores(const Short *s, const Node *n)
{
    enum { MOST_VIEWS = 32 };
    const Node *work[MOST_VIEWS] = {n};
    for (int nwork = 1; nwork;) {
        const Node *x = work[--nwork];
        const OpClass c = node_class(x);
        if (c == CLS_DOT || c == CLS_ROOT || c == CLS_REGION) continue;
        if (!node_has(x, OPF_STRIDES) && x->op != OP_cast) return false;
        for (uint32_t i = 0; i < s->nreaders[x->id]; i++) {
            if (nwork == MOST_VIEWS) return false;
            work[nwork++] = s->readers[x->id][i];
        }
    }
    return true;
}

// Whether everything that reads n can read its positions, or needs it in memory.
static bool readers_can(const Short *s, const Node *n)
{
    const bool small = type_count(&n->type) < LEAST_COUNT || extent_of(n) == 1;
    for (uint32_t i = 0; i < s->nreaders[n->id]; i++) {
        const Node *x = s->readers[n->id][i];
        if (!can_split(x) && !is_summed(x) && !small && !stores(s, x)) return false;
    }
    return true;
}

// -- what is split --------------------------------------------------------------------------------

// Whether n is computed of positions and constants alone.
static bool is_fixed(const Short *s, const Node *n)
{
    double v;
    if (n->type.rank != 1 || !is_short(n)) return false;
    if (n->op == OP_iota) return true;
    if (!can_split(n) || !n->nargs) return false;
    for (uint32_t k = 0; k < n->nargs; k++)
        if (s->part[n->args[k]->id] != FIXED && !node_const_value(n->args[k], &v)) return false;
    return true;
}

// At which positions of n a reader reads it, as bits, and how far these are from its own positions.
// false: the reader is not one that decides about a split.
static bool positions_read(const Node *reader, const Node *n, uint32_t *positions, int64_t *shift)
{
    const int last = last_axis(n);
    *positions = (1u << extent_of(n)) - 1;
    *shift = 0;
    if (!can_split(reader)) return false;
    if (reader->op == OP_pad) *shift = -attr_ints(reader, ATTR_low, NULL)[last];
    if (reader->op != OP_slice)
        return reader->op == OP_pad || node_class(reader) == CLS_ELEMENTWISE;
    *shift = attr_ints(reader, ATTR_start, NULL)[last];
    *positions &= (1u << attr_ints(reader, ATTR_limit, NULL)[last]) - (1u << *shift);
    return attr_ints(reader, ATTR_stride, NULL)[last] == 1;
}

// Whether n is computed, and read several times at positions that are shifted.
static bool is_shifted(const Short *s, const Node *n)
{
    if (!is_short(n) || n->type.rank < 2 || type_count(&n->type) < LEAST_COUNT) return false;
    if (op_info(n->op)->running && can_split(n)) return true;
    if (node_class(n) != CLS_ELEMENTWISE) return false;
    const uint32_t nreaders = s->nreaders[n->id];
    for (uint32_t i = 0; i < nreaders; i++)
        for (uint32_t k = 0; k < i; k++) {
            uint32_t a, b;
            int64_t from, to;
            if (positions_read(s->readers[n->id][i], n, &a, &from) &&
                positions_read(s->readers[n->id][k], n, &b, &to) && from != to && a & b)
                return true;
        }
    return false;
}

// Whether something reads n that needs the axis.
static bool is_needed(const Short *s, const Node *n)
{
    for (uint32_t i = 0; i < s->nreaders[n->id]; i++) {
        const Node *x = s->readers[n->id][i];
        if (!can_split(x) && !is_summed(x)) return true;
    }
    for (uint32_t i = 0; i < s->src->results.n; i++)
        if (s->src->results.at[i] == n) return true;
    return false;
}

// Whether a thread that has a row of n stores it with many narrow accesses.
static bool is_narrow(const Short *s, const Node *n)
{
    return extent_of(n) * (dtype_info[n->type.dtype].bits / 8) % LEAST_BYTES && is_needed(s, n);
}

// Splits [seed] and all that is connected with it, if all of that can be split.
static bool split_from(Short *s, Node *seed)
{
    Arena *a = s->src->arena;
    VEC(Node *) work = {0};
    int64_t values = 0;
    int depth = 0;
    bool can = true, narrow = false;
    s->seen[seed->id] = true;
    vec_push(a, &work, seed);
    for (uint32_t i = 0; i < work.n; i++) {
        Node *n = work.at[i];
        if (is_summed(n)) continue;
        can &= readers_can(s, n);
        narrow |= is_narrow(s, n);
        depth = s->depth[n->id] > depth ? s->depth[n->id] : depth;
        values += extent_of(n);
        for (uint32_t k = 0; k < s->nreaders[n->id]; k++) {
            Node *x = s->readers[n->id][k];
            if (s->seen[x->id] || (!can_split(x) && !is_summed(x))) continue;
            s->seen[x->id] = true;
            vec_push(a, &work, x);
        }
        for (uint32_t k = 0; k < n->nargs; k++) {
            Node *x = n->args[k];
            if (s->seen[x->id] || s->part[x->id] == FIXED || !can_split(x) ||
                type_count(&x->type) < LEAST_COUNT || !readers_can(s, x))
                continue;
            s->seen[x->id] = true;
            vec_push(a, &work, x);
        }
    }
    if (!can || values > MOST_VALUES || depth < (narrow ? LEAST_NARROW : LEAST_DEPTH)) return false;
    for (uint32_t i = 0; i < work.n; i++)
        s->part[work.at[i]->id] = is_summed(work.at[i]) ? SUMMED : SPLIT;
    return true;
}

static void find_readers(Short *s)
{
    const Graph *g = s->src;
    const uint32_t n = g->nodes.n + 1;
    s->live = NEW_ARRAY(g->arena, bool, n);
    s->readers = NEW_ARRAY(g->arena, Node **, n);
    s->nreaders = NEW_ARRAY(g->arena, uint32_t, n);
    graph_mark_live(g, s->live);
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t i = 0; i < g->nodes.n && fill; i++) {
            s->readers[i] = NEW_ARRAY(g->arena, Node *, s->nreaders[i] + 1);
            s->nreaders[i] = 0;
        }
        for (uint32_t i = 0; i < g->nodes.n; i++) {
            Node *x = g->nodes.at[i];
            for (uint32_t k = 0; k < x->nargs && s->live[i]; k++) {
                const uint32_t of = x->args[k]->id, at = s->nreaders[of]++;
                if (fill) s->readers[of][at] = x;
            }
        }
    }
}

// Returns whether there is anything to split.
static bool find_parts(Short *s)
{
    const Graph *g = s->src;
    bool any = false, wanted = false;
    for (uint32_t i = 0; i < g->nodes.n && !wanted; i++)
        wanted = is_short(g->nodes.at[i]) && type_count(&g->nodes.at[i]->type) >= LEAST_COUNT;
    if (!wanted) return false;
    find_readers(s);
    s->part = NEW_ARRAY(g->arena, uint8_t, g->nodes.n + 1);
    s->seen = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    s->depth = NEW_ARRAY(g->arena, uint8_t, g->nodes.n + 1);
    bool *shifted = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!s->live[i]) continue;
        if (is_fixed(s, n)) s->part[i] = FIXED;
        shifted[i] = is_shifted(s, n);
        for (uint32_t k = 0; k < n->nargs && can_split(n); k++)
            if (s->depth[n->args[k]->id] > s->depth[i]) s->depth[i] = s->depth[n->args[k]->id];
        s->depth[i] += shifted[i] && s->depth[i] < MOST_DEPTH;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (shifted[i] && !s->seen[i]) any |= split_from(s, g->nodes.at[i]);
    return any;
}

// -- values of positions --------------------------------------------------------------------------

// The operand's broadcast to the shape of [view], whose axes are [dims], without the last axis.
static Node *broadcast_rows(Graph *g, Node *x, const Node *view, const int64_t *dims)
{
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_shape, view->type.dim, last_axis(view));
    attr_set_ints(g, &at, ATTR_dims, dims, x->type.rank);
    return graph_node(g, OP_broadcast, &x, 1, &at);
}

// x[..., j], without the last axis; [n]: the old node of x.
static Node *sliced(Graph *g, Node *x, const Node *n, int64_t j)
{
    int64_t start[MAX_RANK] = {0}, limit[MAX_RANK], stride[MAX_RANK];
    const int last = last_axis(n);
    for (int i = 0; i <= last; i++) limit[i] = n->type.dim[i], stride[i] = 1;
    start[last] = j;
    limit[last] = j + 1;
    return graph_reshape(g, graph_slice(g, x, start, limit, stride), last, n->type.dim);
}

static bool is_later(const Node *n)
{
    return n->role != ROLE_FORWARD;
}

// The value of n at position j; [again]: as the backward part computes it.
static Node *value_at(Short *s, const Node *n, int64_t j, bool again)
{
    Graph *g = s->r.dst;
    double v;
    if (s->at[again][n->id]) return s->at[again][n->id][j];
    if (s->at[0][n->id]) return s->at[0][n->id][j];
    if (node_const_value(n, &v)) {
        Node like = *n;
        like.type.rank--;
        return graph_full_like(g, &like, v);
    }
    if (n->op != OP_broadcast) return sliced(g, s->r.map[n->id], n, j);
    const Node *x = n->args[0];
    const int64_t *dims = attr_ints(n, ATTR_dims, NULL);
    const bool along = x->type.rank && dims[x->type.rank - 1] == last_axis(n);
    return broadcast_rows(g, along ? value_at(s, x, j, again) : s->r.map[x->id], n, dims);
}

static Node *like_rows(Graph *g, const Node *n, Op op, Node *x)
{
    if (op == OP_permute) return graph_permute(g, x, attr_ints(n, ATTR_perm, NULL));
    if (op == OP_reshape) return graph_reshape(g, x, last_axis(n), n->type.dim);
    return graph_node(g, op, &x, 1, n->attrs); // a reduction of other axes
}

// The value of a node at position j, from those of its operands.
static Node *split_at(Short *s, const Node *n, int64_t j, bool clone)
{
    Graph *g = s->r.dst;
    const bool again = clone || is_later(n);
    const Node *x = n->nargs ? n->args[0] : NULL;
    const int last = last_axis(n);
    switch (n->op) {
    case OP_iota: return graph_cast(g, graph_const_int(g, DT_I32, j), n->type.dtype);
    case OP_slice: {
        const int64_t *start = attr_ints(n, ATTR_start, NULL),
                      *stride = attr_ints(n, ATTR_stride, NULL);
        return value_at(s, x, start[last] + j * stride[last], again);
    }
    case OP_pad: {
        const int64_t from = j - attr_ints(n, ATTR_low, NULL)[last];
        if (from >= 0 && from < extent_of(x)) return value_at(s, x, from, again);
        return broadcast_rows(g, s->r.map[n->args[1]->id], n, NULL);
    }
    case OP_concat: {
        uint32_t k = 0;
        for (; j >= extent_of(n->args[k]); k++) j -= extent_of(n->args[k]);
        return value_at(s, n->args[k], j, again);
    }
    case OP_reverse: return value_at(s, x, extent_of(n) - 1 - j, again);
    case OP_permute:
    case OP_reshape: return like_rows(g, n, n->op, value_at(s, x, j, again));
    default: break;
    }
    if (node_class(n) == CLS_REDUCE) return like_rows(g, n, n->op, value_at(s, x, j, again));
    Node **args = NEW_ARRAY(g->arena, Node *, n->nargs);
    for (uint32_t k = 0; k < n->nargs; k++) args[k] = value_at(s, n->args[k], j, again);
    Attrs at = attrs_copy(n->attrs);
    if (clone) attr_set_int(&at, ATTR_clone, 1);
    return graph_node(g, n->op, args, (int)n->nargs, &at);
}

// The type in which values are added up, or multiplied.
static DType joined_type(const Node *n)
{
    const Op op = joining(n);
    return op == OP_add || op == OP_mul
               ? (DType)attr_int(n, ATTR_accumulate, dtype_accumulator(n->type.dtype))
               : n->type.dtype;
}

// A running reduction of the operand's values.
static void split_running(Short *s, const Node *n, Node **at)
{
    Graph *g = s->r.dst;
    const int64_t extent = extent_of(n);
    const bool down = attr_int(n, ATTR_reverse, 0), late = attr_int(n, ATTR_exclusive, 0);
    const DType type = joined_type(n);
    const Op op = joining(n);
    Node *sum = NULL;
    for (int64_t i = 0; i < extent; i++) {
        const int64_t j = down ? extent - 1 - i : i;
        Node *x = graph_cast(g, value_at(s, n->args[0], j, is_later(n)), type), *before = sum;
        sum = sum ? graph_binary(g, op, sum, x) : x;
        if (late && !before)
            before = graph_full_like(g, x, axes_identity(op_info(n->op)->reduces, type));
        at[j] = graph_cast(g, late ? before : sum, n->type.dtype);
    }
}

// [again]: for the backward part, which reads costly values of the forward part from memory.
static void split_node(Short *s, const Node *n, bool again)
{
    Graph *g = s->r.dst;
    if (again && (node_has(n, OPF_COSTLY) || op_info(n->op)->running)) return;
    Node **at = NEW_ARRAY(g->arena, Node *, extent_of(n));
    graph_stamp(g, n, NULL);
    if (again) g->role = ROLE_BACKWARD;
    if (op_info(n->op)->running) {
        split_running(s, n, at);
    } else {
        for (int64_t j = 0; j < extent_of(n); j++) {
            at[j] = split_at(s, n, j, again);
            if (node_class(n) == CLS_ELEMENTWISE) node_pass_name(n, at[j]);
        }
    }
    s->at[again][n->id] = at;
}

// A reduction along the axis: the values of its positions combined, and then along its other axes.
static Node *summed(Short *s, const Node *n)
{
    Graph *g = s->r.dst;
    const Node *x = n->args[0];
    const DType type = joined_type(n);
    const bool again = is_later(n);
    Node *y = NULL;
    int naxes;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    graph_stamp(g, n, NULL);
    for (int64_t j = 0; j < extent_of(x); j++) {
        Node *v = graph_cast(g, value_at(s, x, j, again), type);
        y = y ? graph_binary(g, joining(n), y, v) : v;
    }
    if (naxes > 1) y = graph_reduce(g, n->op, y, axes, naxes - 1, false);
    y = graph_cast(g, y, n->type.dtype);
    node_pass_name(n, y);
    return y;
}

static Node *stacked(Short *s, const Node *n)
{
    Graph *g = s->r.dst;
    const int64_t extent = extent_of(n);
    Node **part = NEW_ARRAY(g->arena, Node *, extent);
    Type one = n->type;
    one.dim[last_axis(n)] = 1;
    for (int64_t j = 0; j < extent; j++)
        part[j] = graph_reshape(g, s->at[0][n->id][j], one.rank, one.dim);
    if (extent == 1) return part[0];
    graph_stamp(g, n, n->name);
    return graph_along(g, OP_concat, part, (int)extent, last_axis(n));
}

// Whether something reads n that is not split.
static bool is_read_whole(const Short *s, const Node *n)
{
    for (uint32_t i = 0; i < s->nreaders[n->id]; i++) {
        const uint8_t part = s->part[s->readers[n->id][i]->id];
        if (part != SPLIT && part != SUMMED) return true;
    }
    return is_needed(s, n);
}

static Graph *split_graph(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    Short s = {.src = g};
    const bool any = find_parts(&s);
    if (!any) return rewrite_nodes(g, done, NULL, NULL, NULL);
    s.r = remap_begin(g, graph_beside(g));
    for (int k = 0; k < 2; k++) s.at[k] = NEW_ARRAY(g->arena, Node **, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        bool other = false;
        if (!s.live[i] && n->nargs) continue;
        if (s.part[i] == SUMMED) {
            s.r.map[i] = summed(&s, n);
            continue;
        }
        if (s.part[i] == SPLIT || s.part[i] == FIXED) split_node(&s, n, false);
        if (s.part[i] == SPLIT && !is_later(n)) split_node(&s, n, true);
        if (s.part[i] != SPLIT)
            remap_with_regions(&s.r, done, n, &other);
        else if (is_read_whole(&s, n))
            s.r.map[i] = stacked(&s, n);
    }
    return graph_drop_dead(remap_end(&s.r));
}

Graph *pass_short_axes(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    const bool threads = o->target && o->target->kind == TARGET_CUDA;
    return threads ? over_regions(g, split_graph, NULL) : g;
}
