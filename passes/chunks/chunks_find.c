// What a head consists of. Downstream of the dot: elementwise code, views, reductions and dots that
// keep rows apart, as long as something large still follows or has just been read; sums over the
// rows. Upstream of these: large operands that are cheap to compute are recomputed in the loop.
#include "passes/chunks/chunks.h"

enum {
    WIDE = 2
}; // times the contracted length; so the gradient of the left operand does not count as large

static int64_t leading(const Type *t, int axes)
{
    int64_t n = 1;
    for (int i = 0; i < axes; i++) n *= t->dim[i];
    return n;
}

static bool large(const Head *h, const Node *n)
{
    return type_count(&n->type) >= h->rows * h->cols / 2;
}

// The smallest number of leading axes whose sizes multiply to the number of rows; 0: none.
static int row_axes(const Head *h, const Type *t)
{
    for (int p = 1; p <= t->rank; p++)
        if (leading(t, p) == h->rows) return p;
    return 0;
}

// -- products -------------------------------------------------------------------------------------

static bool starts_with(const int64_t *axes, int n, int prefix)
{
    if (n < prefix) return false;
    for (int i = 0; i < prefix; i++)
        if (axes[i] != i) return false;
    return true;
}

// Whether both operands are contracted over exactly their row axes, in the same order.
static bool sums_rows(const Node *dot, int prefix)
{
    const DotAxes a = dot_axes(dot, 0), b = dot_axes(dot, 1);
    return !a.nbatch && starts_with(a.contract, a.ncontract, prefix) &&
           starts_with(b.contract, b.ncontract, prefix);
}

// Whether the left operand's rows are the result's rows.
static bool keeps_rows(const Node *dot, int prefix)
{
    const DotAxes a = dot_axes(dot, 0);
    return !a.nbatch && starts_with(a.free, a.nfree, prefix);
}

// -- parts ----------------------------------------------------------------------------------------

static bool is_part(const Head *h, const Node *n)
{
    return h->part[n->id] == PART_ROWS;
}

static int prefix_of_operands(const Head *h, const Node *n)
{
    int p = 0;
    for (uint32_t k = 0; k < n->nargs; k++)
        if (is_part(h, n->args[k])) {
            if (p && p != h->prefix[n->args[k]->id]) return 0;
            p = h->prefix[n->args[k]->id];
        }
    return p;
}

static bool within_row(const Node *n, AttrKey key, int prefix)
{
    int count;
    const int64_t *axes = attr_ints(n, key, &count);
    return count && axes[0] >= prefix;
}

static bool cuts_rows(const Node *slice, int prefix)
{
    const int64_t *start = attr_ints(slice, ATTR_start, NULL),
                  *limit = attr_ints(slice, ATTR_limit, NULL),
                  *stride = attr_ints(slice, ATTR_stride, NULL);
    for (int i = 0; i < prefix; i++)
        if (start[i] || limit[i] != slice->args[0]->type.dim[i] || stride[i] != 1) return true;
    return false;
}

static bool pads_rows(const Node *pad, int prefix)
{
    const int64_t *low = attr_ints(pad, ATTR_low, NULL), *high = attr_ints(pad, ATTR_high, NULL);
    for (int i = 0; i < prefix; i++)
        if (low[i] || high[i]) return true;
    return false;
}

// How many axes of a broadcast's operand are among the first [prefix] axes of its result.
static int broadcast_axes(const Node *broadcast, int prefix)
{
    int count, n = 0;
    const int64_t *dims = attr_ints(broadcast, ATTR_dims, &count);
    while (n < count && dims[n] < prefix) n++;
    return n;
}

// How many axes of the result of a broadcast are rows if the first [operand] axes of its operand
// are; 0: it adds axes of size above 1 among them.
static int broadcast_prefix(const Head *h, const Node *n, int operand)
{
    for (int p = 1; p <= n->type.rank; p++)
        if (broadcast_axes(n, p) == operand && leading(&n->type, p) == h->rows) return p;
    return 0;
}

// The part of n, which has operands that are parts of the head. *prefix: how many of its axes are
// rows.
static Part classify(const Head *h, const Node *n, int *prefix)
{
    int p = *prefix = prefix_of_operands(h, n), count;
    if (!p) return PART_NONE;
    switch (node_class(n)) {
    case CLS_ELEMENTWISE: return PART_ROWS;
    case CLS_REDUCE:
        if (within_row(n, ATTR_axes, p)) return PART_ROWS;
        attr_ints(n, ATTR_axes, &count);
        return n->op == OP_sum && dtype_is_float(n->type.dtype) &&
                       starts_with(attr_ints(n, ATTR_axes, NULL), count, p)
                   ? PART_SUM
                   : PART_NONE;
    case CLS_DOT:
        if (sums_rows(n, p)) return PART_SUM;
        return is_part(h, n->args[0]) && !is_part(h, n->args[1]) && keeps_rows(n, p) ? PART_ROWS
                                                                                     : PART_NONE;
    case CLS_VIEW: break;
    default: return PART_NONE;
    }
    switch (n->op) {
    case OP_reshape: *prefix = row_axes(h, &n->type); return *prefix ? PART_ROWS : PART_NONE;
    case OP_permute:
        return starts_with(attr_ints(n, ATTR_perm, NULL), n->type.rank, p) ? PART_ROWS : PART_NONE;
    case OP_broadcast: *prefix = broadcast_prefix(h, n, p); return *prefix ? PART_ROWS : PART_NONE;
    case OP_slice: return cuts_rows(n, p) ? PART_NONE : PART_ROWS;
    case OP_pad: return pads_rows(n, p) || is_part(h, n->args[1]) ? PART_NONE : PART_ROWS;
    default: return PART_NONE;
    }
}

// Marks everything that is computed row by row, to the end of the graph.
static void grow(Head *h, bool *after)
{
    const Graph *g = h->g;
    after[h->seed->id] = true;
    h->part[h->seed->id] = PART_ROWS;
    h->prefix[h->seed->id] = (int8_t)row_axes(h, &h->seed->type);
    for (uint32_t i = h->seed->id + 1; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        bool rows = false, others = false;
        for (uint32_t k = 0; k < n->nargs; k++) {
            rows |= is_part(h, n->args[k]);
            others |= after[n->args[k]->id] && !is_part(h, n->args[k]);
        }
        after[i] = rows || others;
        int prefix;
        if (!h->live[i] || !rows || others) continue;
        h->part[i] = classify(h, n, &prefix);
        h->prefix[i] = (int8_t)prefix;
    }
}

static bool reads_large(const Head *h, const Node *n)
{
    for (uint32_t k = 0; k < n->nargs; k++)
        if (is_part(h, n->args[k]) && large(h, n->args[k])) return true;
    return false;
}

// Whether n narrows a part that reads something large, so that the result of n is stored.
static bool narrows(const Head *h, const Node *n)
{
    const Node *x = n->op == OP_cast ? n->args[0] : NULL;
    return x && is_part(h, x) && reads_large(h, x) && type_bytes(&n->type) < type_bytes(&x->type);
}

// Removes parts that are not large, read nothing large, and are not needed by one that is kept.
static void trim(Head *h)
{
    const Graph *g = h->g;
    bool *leads = NEW_ARRAY(g->arena, bool, g->nodes.n + 1); // something large is computed from it
    bool *kept = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);  // large, reads something large, or
                                                             // read by one that is kept
    for (uint32_t i = g->nodes.n; i-- > h->seed->id;) {
        const Node *n = g->nodes.at[i];
        if (h->part[i] == PART_ROWS) leads[i] |= large(h, n);
        for (uint32_t k = 0; k < n->nargs && leads[i]; k++)
            if (is_part(h, n->args[k])) leads[n->args[k]->id] = true;
    }
    for (uint32_t i = g->nodes.n; i-- > h->seed->id;) {
        const Node *n = g->nodes.at[i];
        kept[i] |= n == h->seed || leads[i] || reads_large(h, n) || narrows(h, n);
        if (h->part[i] && !kept[i]) h->part[i] = PART_NONE;
        for (uint32_t k = 0; k < n->nargs && h->part[i]; k++)
            if (is_part(h, n->args[k])) kept[n->args[k]->id] = true;
    }
}

// -- what parts read ------------------------------------------------------------------------------

int head_broadcast_axes(const Head *h, const Node *broadcast)
{
    return broadcast_axes(broadcast, h->prefix[broadcast->id]);
}

bool head_reads_rows(const Head *h, const Node *n, uint32_t k)
{
    if (n->op == OP_pad) return k == 0;
    if (n->op == OP_dot) return h->part[n->id] == PART_SUM || k == 0;
    return n->op != OP_broadcast || head_broadcast_axes(h, n) > 0;
}

// How many axes of operand k, which is read row by row, are rows; 0: the rows are not its first
// axes.
static int operand_prefix(const Head *h, const Node *n, uint32_t k)
{
    const Type *t = &n->args[k]->type;
    int p = h->prefix[n->id];
    if (n->op == OP_reshape) return row_axes(h, t);
    if (n->op == OP_broadcast) p = head_broadcast_axes(h, n);
    if (n->op == OP_dot) {
        const Node *other = n->args[1 - k];
        p = is_part(h, other) ? h->prefix[other->id] : p;
    }
    return t->rank >= p && leading(t, p) == h->rows ? p : 0;
}

// Whether n is recomputed in the loop rather than stored; not for random numbers and reductions.
static bool cheap(const Node *n)
{
    return node_class(n) == CLS_ELEMENTWISE || n->op == OP_broadcast || n->op == OP_reshape;
}

static bool made_by_rows(const Head *h, const Node *n, int prefix)
{
    double v;
    if (node_const_value(n, &v)) return n->op == OP_const || n->op == OP_broadcast;
    if (n->op == OP_iota) return attr_int(n, ATTR_axis, 0) >= prefix || prefix == 1;
    return large(h, n) && cheap(n);
}

static bool made_whole(const Head *h, const Node *n)
{
    double v;
    if (n->op == OP_iota || (n->op == OP_const && node_const_value(n, &v))) return true;
    if (!cheap(n) || h->part[n->id]) return false;
    for (uint32_t k = 0; k < n->nargs; k++)
        if (n->args[k]->op != OP_iota && n->args[k]->op != OP_const) return false;
    return true;
}

static bool refuse(Head *h, const Node *at, const Node *by)
{
    h->refused_at = at;
    h->refused_by = by;
    return false;
}

// Records how the operands of n are read. false: a loop cannot read one of them in this way.
static bool read_operands(Head *h, const Node *n)
{
    for (uint32_t k = 0; k < n->nargs; k++) {
        const Node *x = n->args[k];
        if (!head_reads_rows(h, n, k)) {
            if (is_part(h, x)) return refuse(h, x, n);
            if (!h->whole[x->id])
                h->whole[x->id] = READ_TAKEN; // (READ_MADE is decided when x is
                                              // visited)
            continue;
        }
        if (is_part(h, x)) continue;
        int p = operand_prefix(h, n, k);
        if (!p || (h->by_rows[x->id] && h->prefix[x->id] != p)) return refuse(h, x, n);
        h->prefix[x->id] = (int8_t)p;
        h->by_rows[x->id] = READ_TAKEN;
    }
    return true;
}

// From the last node to the first, so that all readers of a node are visited before it.
static bool find_reads(Head *h)
{
    for (uint32_t i = h->g->nodes.n; i-- > 0;) {
        const Node *n = h->g->nodes.at[i];
        if (h->part[i] && !read_operands(h, n)) return false;
        if (h->by_rows[i] && made_by_rows(h, n, h->prefix[i])) {
            h->by_rows[i] = READ_MADE;
            if (!read_operands(h, n)) return false;
        }
        // (Values in memory can be read there; a computed value would have to be stored for the
        // loop.)
        if (h->by_rows[i] == READ_TAKEN && large(h, n) && !node_in_memory(n) && n->op != OP_dot)
            return refuse(h, n, h->seed);
        if (h->whole[i] && made_whole(h, n)) {
            h->whole[i] = READ_MADE;
            for (uint32_t k = 0; k < n->nargs; k++) h->whole[n->args[k]->id] = READ_TAKEN;
        }
    }
    return true;
}

// -- the whole ------------------------------------------------------------------------------------

// Results of the loop with rows are stored for all rows, so they must be small.
static bool find_leaving(Head *h)
{
    for (uint32_t i = h->seed->id + 1; i < h->g->nodes.n; i++) {
        const Node *n = h->g->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs && h->live[i] && !h->part[i]; k++) {
            const Node *x = n->args[k];
            if (!is_part(h, x)) continue;
            h->leaves[x->id] = true;
            if (!large(h, x)) continue;
            return refuse(h, x, n);
        }
    }
    for (uint32_t i = 0; i < h->g->results.n; i++) {
        const Node *x = h->g->results.at[i];
        if (!is_part(h, x)) continue;
        h->leaves[x->id] = true;
        if (large(h, x)) return refuse(h, x, x);
    }
    return true;
}

// Whether the rows are reduced. If not, it is an ordinary layer.
static bool reduces(const Head *h)
{
    for (uint32_t i = h->seed->id + 1; i < h->g->nodes.n; i++) {
        const Node *n = h->g->nodes.at[i];
        if (h->part[i] == PART_ROWS && node_class(n) == CLS_REDUCE && large(h, n->args[0]))
            return true;
    }
    return false;
}

// Outside of the loop, operands and results with rows have two axes, (chunks, rows), instead of the
// axes of the rows, and must not exceed the maximal rank.
static bool fits_ranks(const Head *h)
{
    for (uint32_t i = 0; i < h->g->nodes.n; i++)
        if ((h->leaves[i] || h->by_rows[i] == READ_TAKEN) &&
            h->g->nodes.at[i]->type.rank - h->prefix[i] + 2 > MAX_RANK)
            return false;
    return true;
}

bool head_find(Head *h, Graph *g, Node *seed, bool *live, bool *refused)
{
    const uint32_t n = g->nodes.n + 1;
    const DotAxes a = dot_axes(seed, 0);
    Arena *arena = g->arena;
    *refused = false;
    *h = (Head){.g = g, .seed = seed, .live = live};
    h->part = NEW_ARRAY(arena, Part, n);
    h->by_rows = NEW_ARRAY(arena, Read, n);
    h->whole = NEW_ARRAY(arena, Read, n);
    h->prefix = NEW_ARRAY(arena, int8_t, n);
    h->leaves = NEW_ARRAY(arena, bool, n);
    h->rows = leading(&seed->type, a.nfree);
    h->cols = h->rows ? type_count(&seed->type) / h->rows : 0;
    if (h->cols < WIDE * dot_sizes(seed).k + 1) return false;
    if (!a.nfree || !keeps_rows(seed, a.nfree) || h->rows < 2 || h->cols < 2) return false;
    grow(h, NEW_ARRAY(arena, bool, n));
    trim(h);
    if (!reduces(h)) return false;
    *refused = true;
    if (!find_leaving(h) || !find_reads(h)) return false;
    *refused = false;
    return fits_ranks(h);
}
