// Products over axes that lie between others. With x (B, H, W, C), w (W, L), and y (B, H, L, C):
//
//     y = transpose(w) x     x as one matrix is (B, H, C) by (W): the library cannot read it in
//                            place, nor store y in this order
//     dw = x transpose(dy)   sums over B, H and C, between which the others lie
//
// As products of a batch, for each b and h, nothing has to be copied: w is the same for all of
// them, and dw is the sum of their results. But each product is smaller. The fewest leading axes
// that suffice become axes of the batch, where copies take longer than what this costs.
#include "ir/axes.h"
#include "passes/dot.h"
#include "passes/fuse/fuse.h"
#include "passes/regions.h"

typedef struct Lead { // how a dot is computed
    int axes;         // so many axes become axes of the batch; 0: it stays as it is
    bool summed;      // they are contracted, those with the largest strides;
    int side;         // otherwise the first free axes of this operand
    bool swap;        // the operands are exchanged
} Lead;

typedef struct Batch {
    const PassOptions *options;
    uint32_t *readers; // by id
    bool *stored;      // by id: read by something else than elementwise code
    bool *by_rows;     // by id: elementwise code of sums, of rows as a rule
    Lead *lead;        // by id of a dot, or of what permutes it
} Batch;

// The dot that [n], which is it or permutes its result, computes; NULL: none, or others read it.
static const Node *dot_of(const Batch *b, const Node *n)
{
    const Node *dot = n->op == OP_permute ? n->args[0] : n;
    return dot->op == OP_dot && (dot == n || b->readers[dot->id] == 1) ? dot : NULL;
}

static int append(int *list, int n, int first, int count)
{
    for (int i = 0; i < count; i++) list[n++] = first + i;
    return n;
}

// Whether the result, in the order that n gives it, has the first free axes of this operand in
// front, followed by those of the other and the rest, in any order of the two.
static bool ordered(const Node *n, const DotAxes *x, Lead *lead)
{
    const int64_t *perm = n->op == OP_permute ? attr_ints(n, ATTR_perm, NULL) : NULL;
    const int begin[2] = {0, x[0].nfree}, side = lead->side, other = !side,
              rest = x[side].nfree - lead->axes;
    for (int order = 0; order < 2; order++) {
        int want[MAX_RANK], at = append(want, 0, begin[side], lead->axes);
        if (order) at = append(want, at, begin[other], x[other].nfree);
        at = append(want, at, begin[side] + lead->axes, rest);
        if (!order) append(want, at, begin[other], x[other].nfree);
        bool same = true;
        for (int i = 0; i < n->type.rank; i++) same &= (perm ? perm[i] : i) == want[i];
        lead->swap = side ^ order;
        if (same) return true;
    }
    return false;
}

// The operand (W, L) as one of a batch of so many axes, for all of which it is the same.
static Node *repeated(Graph *g, Node *w, const Node *x, const DotAxes *of_x, int axes)
{
    Type wide = {.dtype = w->type.dtype, .rank = w->type.rank + axes};
    for (int i = 0; i < axes; i++) wide.dim[i] = x->type.dim[of_x->free[i]];
    for (int i = axes; i < wide.rank; i++) wide.dim[i] = w->type.dim[i - axes];
    return graph_broadcast_to(g, w, &wide);
}

static Node *of_free_axes(Graph *g, const Node *dot, Node *const *from, Lead lead)
{
    DotAxes d[2] = {dot_axes(dot, 0), dot_axes(dot, 1)};
    DotAxes *x = &d[lead.side], *w = &d[!lead.side];
    Node *args[2] = {from[0], from[1]};
    args[!lead.side] = repeated(g, from[!lead.side], from[lead.side], x, lead.axes);
    x->nbatch = w->nbatch = lead.axes;
    for (int i = 0; i < lead.axes; i++) {
        x->batch[i] = x->free[i];
        w->batch[i] = i;
    }
    for (int i = 0; i < w->ncontract; i++) w->contract[i] += lead.axes;
    return dot_with(g, dot, (Node *[]){args[lead.swap], args[!lead.swap]}, d, lead.swap);
}

static Node *of_terms(Graph *g, const Node *dot, Node *const *from, Lead lead)
{
    DotAxes d[2] = {dot_axes(dot, 0), dot_axes(dot, 1)};
    int order[MAX_RANK];
    fuse_dot_contracts(dot, order);
    for (int side = 0; side < 2; side++) {
        const DotAxes was = d[side];
        DotAxes *x = &d[side];
        x->nbatch += lead.axes;
        x->ncontract -= lead.axes;
        for (int i = 0; i < was.nbatch; i++) x->batch[lead.axes + i] = was.batch[i];
        for (int i = 0; i < lead.axes; i++) x->batch[i] = was.contract[order[i]];
        for (int i = 0; i < x->ncontract; i++) x->contract[i] = was.contract[order[lead.axes + i]];
    }
    return dot_with(g, dot, from, d, false);
}

// The product of a batch; if lead.summed, its results are still to be added up.
static Node *batched(Graph *g, const Node *dot, Node *const *from, Lead lead)
{
    return lead.summed ? of_terms(g, dot, from, lead) : of_free_axes(g, dot, from, lead);
}

static double seconds(const Target *t, const Node *dot)
{
    const DotSizes s = dot_sizes(dot);
    int64_t bytes = type_bytes(&dot->type);
    for (int side = 0; side < 2; side++) {
        const Node *x = dot->args[side];
        bytes += type_bytes(x->op == OP_broadcast ? &x->args[0]->type : &x->type);
    }
    const bool half = dtype_info[dot->args[0]->type.dtype].bits == 16;
    return target_batch_seconds(t, half, s.batch, s.m, s.n, s.k, (double)bytes);
}

// A GPU's kernel of elementwise code stores its results in any order, and reads others, at little
// cost, unless it computes them by rows. Loops on a CPU would go through memory with a stride.
static bool copies_operand(const Batch *b, const Node *dot, int side)
{
    const Node *x = dot->args[side];
    if (!fuse_dot_needs_order(dot, side) || fuse_generated(b->options, dot)) return false;
    const bool ordered =
        node_class(x) == CLS_ELEMENTWISE && !b->by_rows[x->id] && b->readers[x->id] == 1;
    return !ordered || b->options->target->kind == TARGET_CPU;
}

static bool copies_result(const Batch *b, const Node *n)
{
    return n->op == OP_permute && (b->stored[n->id] || b->options->target->kind == TARGET_CPU);
}

// Whether the innermost axes of an operand or of the result, those that are one axis for the
// library, are no multiple of what tensor cores read at a time. (Partial sums are few.)
static bool uneven(const PassOptions *o, const Node *dot, bool summed)
{
    enum { PIECE = 16 };
    const DType t = dot->args[0]->type.dtype;
    const int64_t unit = PIECE * 8 / dtype_info[t].bits;
    const DotSizes s = dot_sizes(dot);
    bool any = !summed && s.n % unit != 0;
    for (int side = 0; side < 2; side++) {
        const Node *x = dot->args[side];
        const DotAxes d = dot_axes(dot, side);
        if (x->op == OP_broadcast) continue; // small
        const bool inner =
            d.ncontract && axis_in_memory(x, d.contract[d.ncontract - 1]) == x->type.rank - 1;
        any |= (inner ? s.k : side ? s.n : s.m) % unit != 0;
    }
    return pass_on_tensor_cores(o, t) && any;
}

// Whether [new], of a batch, takes less time than the dot whose result n is.
static bool pays(const Batch *b, const Node *n, const Node *dot, const Node *new, bool summed)
{
    const Target *t = b->options->target;
    double copies = 0, sum = 0;
    if (copies_result(b, n)) copies += target_move_seconds(t, (double)type_bytes(&n->type));
    for (int side = 0; side < 2; side++)
        if (copies_operand(b, dot, side))
            copies += target_move_seconds(t, (double)type_bytes(&dot->args[side]->type));
    if (summed) sum = target_move_seconds(t, (double)type_bytes(&new->type) / 2);
    if (fuse_generated(b->options, dot) && !fuse_generated(b->options, new)) return false;
    if (uneven(b->options, new, summed) && !fuse_generated(b->options, new)) return false;
    return copies > 0 && seconds(t, new) + sum < seconds(t, dot) + copies;
}

static bool readable(const Node *dot)
{
    return !fuse_dot_needs_order(dot, 0) && !fuse_dot_needs_order(dot, 1);
}

// The least number of leading axes, contracted ones if lead.summed, otherwise free ones of
// lead.side, that makes n a product without copies. [tried] holds what is only tried.
static bool find(const Batch *b, Graph *tried, const Node *n, const Node *dot, Lead *lead)
{
    const DotAxes axes[2] = {dot_axes(dot, 0), dot_axes(dot, 1)};
    const int most = lead->summed ? axes[0].ncontract : axes[lead->side].nfree,
              rank = lead->summed ? dot->type.rank : dot->args[!lead->side]->type.rank;
    for (lead->axes = 1; lead->axes < most && rank + lead->axes <= MAX_RANK; lead->axes++) {
        if (!lead->summed && !ordered(n, axes, lead)) continue;
        const Node *new = batched(tried, dot, dot->args, *lead);
        if (readable(new) && pays(b, n, dot, new, lead->summed)) return true;
    }
    return false;
}

// How n, a dot or what permutes one, is computed.
static Lead lead_of(const Batch *b, Graph *tried, const Node *n)
{
    const Node *dot = dot_of(b, n);
    Lead stays = {0}, first = {.side = 0}, second = {.side = 1}, summed = {.summed = true};
    if (!dot || (n == dot && readable(dot)) || attr_find(dot, ATTR_groups)) return stays;
    const DotAxes x = dot_axes(dot, 0), y = dot_axes(dot, 1);
    const bool shared = !x.nbatch && x.nfree && y.nfree; // by all products of a batch
    if (shared && find(b, tried, n, dot, &first)) return first;
    if (shared && find(b, tried, n, dot, &second)) return second;
    const bool adds = n == dot && attr_int(dot, ATTR_accumulate, DT_F32) == dot->type.dtype;
    return adds && find(b, tried, n, dot, &summed) ? summed : stays;
}

static bool is_batched(void *ctx, const Node *n)
{
    const Batch *b = ctx;
    return b->lead[n->id].axes > 0;
}

static Node *rebuild(void *ctx, Graph *g, Node *n, Node *const *map)
{
    const Batch *b = ctx;
    if (!is_batched(ctx, n)) return NULL;
    const Node *dot = dot_of(b, n);
    graph_stamp(g, n, NULL);
    Node *from[2] = {map[dot->args[0]->id], map[dot->args[1]->id]};
    const Lead lead = b->lead[n->id];
    int64_t first[MAX_RANK];
    for (int i = 0; i < lead.axes; i++) first[i] = i;
    Node *y = batched(g, dot, from, lead);
    return lead.summed ? graph_reduce(g, OP_sum, y, first, lead.axes, false) : y;
}

static void look(Batch *b, const Graph *g)
{
    for (uint32_t i = 0; i < g->results.n; i++) b->stored[g->results.at[i]->id] = true;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const OpClass c = node_class(n);
        b->by_rows[i] = c == CLS_REDUCE;
        for (uint32_t k = 0; k < n->nargs; k++) {
            b->stored[n->args[k]->id] |= c != CLS_ELEMENTWISE;
            b->by_rows[i] |= (c == CLS_ELEMENTWISE || c == CLS_VIEW) && b->by_rows[n->args[k]->id];
        }
    }
}

static Graph *batch_graph(void *ctx, const IdMap *done, Graph *g)
{
    const uint32_t n = g->nodes.n + 1;
    Batch b = {ctx, live_readers(g), NEW_ARRAY(g->arena, bool, n), NEW_ARRAY(g->arena, bool, n),
               NEW_ARRAY(g->arena, Lead, n)};
    Graph *tried = graph_inside(g);
    look(&b, g);
    for (uint32_t i = 0; i < g->nodes.n; i++) b.lead[i] = lead_of(&b, tried, g->nodes.at[i]);
    return rewrite_nodes(g, done, is_batched, rebuild, &b);
}

Graph *fuse_batch(Graph *g, const PassOptions *o)
{
    const bool may = o && o->target && o->target->matmul_library;
    return may ? over_regions(g, batch_graph, (void *)o) : g;
}
