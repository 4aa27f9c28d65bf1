// Small dots get generated kernels instead of a library call: their operands may be any cheap
// expression, and elementwise code after them is fused into the kernel.
//
// A generated dot is a cluster of its own: values of its result's shape are added to it as long as
// they do not depend on anything later. An operand that both parts of a training step read is
// computed twice, inside the forward dot and, stored, for the backward part, so that the dot does
// not wait until it is stored.
#include <string.h>

#include "ir/axes.h"
#include "passes/fuse/fuse.h"
#include "passes/regions.h"

enum { MOST_CHAIN = 12 }; // operations of an operand that a contraction computes itself

// Whether n is windows of one pixel with a stride, such as every second pixel of an image, with all
// channels. Bulk copies read them from images of one to three axes (codegen/ir/body_windows.c),
// products of few results ([few]) from any value.
static bool is_apart(const PassOptions *o, const Node *n, bool few)
{
    enum { UNIT = 8 };
    const int channels = n->type.rank - 1;
    if (n->op != OP_slice || channels < 1 || n->type.dim[channels] % UNIT) return false;
    const int64_t *stride = attr_ints(n, ATTR_stride, NULL);
    const bool copied = o->target->group_products && dtype_info[n->type.dtype].bits == 16 &&
                        channels >= 2 && channels <= 4 && stride[0] == 1;
    bool apart = false;
    for (int i = 0; i < channels; i++) apart |= stride[i] > 1;
    return apart && stride[channels] == 1 && (few || copied);
}

// Whether a product over windows reads its operand through n. On the CPU, offsets are the sum of a
// row offset and a column offset (codegen/c/tile_c.c), so an image with zero padding is stored with
// it.
static bool sees_through(const PassOptions *o, const Node *n)
{
    return node_class(n) == CLS_VIEW && n->op != OP_concat &&
           (o->target->kind == TARGET_CUDA || n->op != OP_pad);
}

// The value that n takes windows of, looking through views before and after; NULL: n has no
// windows. [few]: for a product of few results.
static Node *behind_windows(const PassOptions *o, Node *n, bool few)
{
    bool windows = false;
    for (; sees_through(o, n); n = n->args[0]) windows |= n->op == OP_window || is_apart(o, n, few);
    return windows ? n : NULL;
}

static int long_axes(const Node *n)
{
    int count = 0;
    for (int i = 0; i < n->type.rank; i++) count += n->type.dim[i] > 1;
    return count;
}

// Whether the CPU can compute the offsets of windows as such sums: no axis of the image is merged
// from several and split again by a reshape, and the image has an address.
static bool lies_apart(const PassOptions *o, const Node *n)
{
    for (; sees_through(o, n); n = n->args[0])
        if (n->op == OP_reshape && long_axes(n) < long_axes(n->args[0])) return false;
    return !node_is_data(n);
}

static bool takes_windows(const PassOptions *o, const Node *n)
{
    while (n->op != OP_window && sees_through(o, n)) n = n->args[0];
    return n->op == OP_window;
}

// In a backward part of several images, and for gradients of 1x1 weights, larger tiles are faster:
// their parts are added by the kernel of the updates.
bool fuse_few_results(const PassOptions *o, const Node *dot)
{
    enum { FLOPS = 100000000 };
    const DType t = dot->args[0]->type.dtype;
    const DotSizes x = dot_sizes(dot);
    if (dot->role != ROLE_FORWARD &&
        ((!takes_windows(o, dot->args[0]) && !takes_windows(o, dot->args[1])) ||
         2.0 * (double)x.batch * (double)x.m * (double)x.n * (double)x.k > FLOPS))
        return false;
    return pass_on_tensor_cores(o, t) && target_few_results(o->target, x.batch, x.m, x.n, x.k);
}

// Stored windows would contain each element as often as they overlap.
bool fuse_reads_windows(const PassOptions *o, const Node *dot)
{
    const DType t = dot->args[0]->type.dtype;
    const bool cuda = o->target->kind == TARGET_CUDA;
    const bool double_sum = attr_int(dot, ATTR_accumulate, DT_F32) == DT_F64;
    if (t != dot->args[1]->type.dtype || double_sum != (t == DT_F64) ||
        !(t == DT_F32 || (cuda ? t == DT_BF16 || t == DT_F16 : t == DT_F64)))
        return false;
    const DotSizes size = dot_sizes(dot);
    const bool few = fuse_few_results(o, dot);
    for (int k = 0; k < 2; k++)
        if (behind_windows(o, dot->args[k], few) &&
            (cuda || (size.m > 1 && size.n > 1 && lies_apart(o, dot->args[k]))))
            return true;
    return false;
}

bool fuse_generated(const PassOptions *o, const Node *dot)
{
    if (!o || !o->target || dot->op != OP_dot) return false;
    if (fuse_reads_windows(o, dot)) return true;
    DotSizes x = dot_sizes(dot);
    return dot->args[0]->type.dtype == DT_F32 && dot->args[1]->type.dtype == DT_F32 &&
           dot->type.dtype == DT_F32 && attr_int(dot, ATTR_accumulate, DT_F32) == DT_F32 &&
           target_generated_product(o->target, x.batch, x.m, x.n, x.k, o->precision == PREC_TF32);
}

bool fuse_tiled(const PassOptions *o, const Node *dot)
{
    if (!fuse_generated(o, dot)) return false;
    DotSizes x = dot_sizes(dot);
    return target_tiled_product(o->target, x.batch, x.m, x.n, x.k);
}

static bool is_step(const Node *n) // of a chain
{
    OpClass c = node_class(n);
    return (c == CLS_ELEMENTWISE && !node_has(n, OPF_COSTLY)) || c == CLS_VIEW;
}

// The number of operations of the chain that ends with n; MOST_CHAIN + 1: too many. *base: the
// chain reads a value that is not a leaf.
static int chain_length(Node *n, bool *base)
{
    enum { MOST = 2 * MOST_CHAIN + 2 };
    Node *seen[MOST];
    int nseen = 0, count = 0;
    seen[nseen++] = n;
    for (int i = 0; i < nseen; i++) {
        if (!is_step(seen[i])) {
            *base |= node_class(seen[i]) != CLS_LEAF;
            continue;
        }
        count += node_class(seen[i]) == CLS_ELEMENTWISE;
        for (uint32_t k = 0; k < seen[i]->nargs; k++)
            if (!fuse_push_new(seen, &nseen, MOST, seen[i]->args[k])) return MOST_CHAIN + 1;
    }
    return count;
}

// Each element of a windowed operand is read once per window and tile, so the value itself is
// stored, and only views of it are computed in the kernel.
Node *fuse_read(const PassOptions *o, const Node *dot, int side)
{
    Node *n = dot->args[side];
    if (!fuse_reads_windows(o, dot)) {
        while (node_has(n, OPF_STRIDES)) n = n->args[0];
        return n;
    }
    while (sees_through(o, n)) n = n->args[0];
    return n;
}

bool fuse_inlines(const PassOptions *o, const Node *dot, int side)
{
    bool base = false;
    if (fuse_reads_windows(o, dot)) return false;
    int n = chain_length(dot->args[side], &base);
    // Otherwise every tile along the other side would recompute it.
    if (n && !base && fuse_tiled(o, dot)) return false;
    // (A value computed only from leaves could be stored long before the backward part.)
    return n <= MOST_CHAIN && (base || dot->role == ROLE_FORWARD);
}

typedef struct Split {
    Graph *src, *dst;
    Remap map;
    IdMap clone; // old id -> new id
} Split;

// Clones the chain that ends with n for one reader: at most MOST_CHAIN operations and as many
// views.
static Node *again(Split *s, const Node *n)
{
    uint64_t id;
    if (!is_step(n)) return s->map.map[n->id];
    if (idmap_get(&s->clone, n->id, &id)) return s->dst->nodes.at[id];
    Node *args[8];
    if (n->nargs > 8) return s->map.map[n->id];
    for (uint32_t k = 0; k < n->nargs; k++) args[k] = again(s, n->args[k]);
    Attrs at = attrs_copy(n->attrs);
    if (node_class(n) == CLS_ELEMENTWISE) attr_set_int(&at, ATTR_clone, 2);
    graph_stamp(s->dst, n, n->name);
    Node *c = graph_node(s->dst, n->op, args, (int)n->nargs, &at);
    idmap_set(&s->clone, n->id, c->id);
    return c;
}

Graph *fuse_split_operands(Graph *g, const PassOptions *o)
{
    uint32_t n = g->nodes.n + 1;
    bool *backward = NEW_ARRAY(g->arena, bool, n), any = false;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *x = g->nodes.at[i];
        for (uint32_t k = 0; k < x->nargs; k++)
            backward[x->args[k]->id] |= x->role != ROLE_FORWARD || (is_step(x) && backward[i]);
    }
    bool *split[2] = {NEW_ARRAY(g->arena, bool, n), NEW_ARRAY(g->arena, bool, n)};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        if (x->role != ROLE_FORWARD || !fuse_generated(o, x) || fuse_tiled(o, x) ||
            fuse_reads_windows(o, x))
            continue;
        for (int k = 0; k < 2; k++) {
            bool base = false;
            int length = chain_length(x->args[k], &base);
            split[k][i] = length > 0 && length <= MOST_CHAIN && !base && backward[x->args[k]->id];
            any |= split[k][i];
        }
    }
    if (!any) return g;
    Split s = {.src = g, .dst = graph_beside(g)};
    s.map = remap_begin(g, s.dst);
    s.clone = idmap_new(g->arena);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *x = g->nodes.at[i];
        if (!split[0][i] && !split[1][i]) {
            remap_node(&s.map, x);
            continue;
        }
        Node *args[2];
        for (int k = 0; k < 2; k++)
            args[k] = split[k][i] ? again(&s, x->args[k]) : s.map.map[x->args[k]->id];
        graph_stamp(s.dst, x, x->name);
        s.map.map[i] = graph_node(s.dst, x->op, args, 2, x->attrs);
    }
    return graph_drop_dead(remap_end(&s.map));
}
