// Dividing the work of an entry among several devices. Every device runs the same graph, on its
// part of the batch. What an entry reads and what it results in is whole on every device.
#ifndef PASSES_SHARD_H
#define PASSES_SHARD_H

#include "ir/graph.h"

typedef enum ShareKind {
    SHARE_WHOLE, // every device has all of it
    SHARE_PART,  // device d has part d of [axis], which is divided evenly
    SHARE_TERM,  // every device has a term; the value is their sum
} ShareKind;

// What a device has of a value.
typedef struct Share {
    ShareKind kind;
    int axis; // SHARE_PART
    // In the share of a result that is whole: the reduction that makes it so from what each device
    // computes; OP_COUNT: every device computes all of it.
    Op joins;
} Share;

static inline Share share_whole(void)
{
    return (Share){.kind = SHARE_WHOLE, .joins = OP_COUNT};
}
static inline Share share_part(int axis)
{
    return (Share){.kind = SHARE_PART, .axis = axis, .joins = OP_COUNT};
}
static inline Share share_term(void)
{
    return (Share){.kind = SHARE_TERM, .joins = OP_COUNT};
}
bool share_same(Share a, Share b);

// How often the values of a graph are read, its results included, and by which node last; by id.
typedef struct Uses {
    uint32_t *n;
    const Node **by;
} Uses;

// shard_rules.c: what a device has of x, which is no loop and no result of one, if it has shares
// [in] of its operands; need[k]: the share of operand k from which it computes that. A view, or
// what is ordered along an axis, that is a part though it needs operand 0 whole is computed whole
// and then cut (shard_is_cut).
Share share_rule(const Node *x, const Share *in, const Uses *uses, int64_t devices, Share *need);
bool shard_is_cut(const Node *x, Share as, const Share *need);
// The axis of [to] that is divided if [axis] of [from] is, the elements being in the same order;
// -1: none.
int share_reshaped(const Type *from, const Type *to, int axis, int64_t devices);

// shard_local.c: whether the part of an index along an axis that device d has, for every d, only
// names places of part d of an axis whose parts have [size] elements.
bool shard_is_local(const Node *index, int axis, int64_t size, int64_t devices);

// A graph while it is rewritten; arrays by id of the nodes of src.
typedef struct Sharding {
    const Graph *src;
    Graph *dst;
    int64_t devices;
    Node *device; // in dst: the number of the device, i64 []
    Share *share; // what a device has
    Node **own;   // ... its image
    Node **whole; // images of all of it and of a part of it, where they exist
    Node **part;
    int *part_axis;
    Node ***results; // images of the results of a loop, in their shares
} Sharding;

// shard_form.c: images in another share.
Node *shard_whole(Sharding *s, const Node *x);
Node *shard_part(Sharding *s, const Node *x, int axis);
Node *shard_cut(Sharding *s, Node *whole, int axis);    // the device's part of it
Node *shard_form(Sharding *s, const Node *x, Share as); // (a term: only what has that share)
// [own] of every device, flat: (devices, elements); and that of device d.
Node *shard_of_all(Sharding *s, Node *own);
Node *shard_row(Sharding *s, Node *all, int64_t d);
// The rows of [all] combined, in their order on every device.
Node *shard_combine(Sharding *s, Node *all, Op op);
// The value whose terms, or partial results of another reduction, the devices have.
Node *shard_join(Sharding *s, Node *own, Op reduction);

// shard_build.c: the image of x, which is no loop and no result of one, in share [as].
Node *shard_build(Sharding *s, const Node *x, Share as, const Share *need);

// shard_loop.c
// What a device has of the parameters and of the results of a loop.
typedef struct LoopShares {
    Share *param, *result; // param[0] is the counter's
} LoopShares;
LoopShares shard_loop_shares(const Node *loop, const Share *in, int64_t devices);
void shard_loop(Sharding *s, const Node *loop, const LoopShares *of);

// shard.c
// By id: shares of all values of a graph, given those of its parameters (NULL: an entry's graph).
Share *shard_find(const Graph *g, const Share *param, int64_t devices);
// Creates the images of all nodes that have none, and the roots.
void shard_nodes(Sharding *s);
Sharding shard_begin(const Graph *src, Graph *dst, int64_t devices, Share *shares);

#endif
