// What the files that lower groups and values share. A rule (value_*) gives the element of a node
// of its ops at an index, where [pred] holds (-1: everywhere); elsewhere any value will do.
#ifndef CODEGEN_LOWER_H
#define CODEGEN_LOWER_H

#include "codegen/kernel_ir.h"

// -- lower_body.c
bool lower_failed(const Lower *l, const Node *n); // reports it; false
bool lower_commits(const LowerCtx *ctx, const Node *n);
const Type *lower_space(const Node *n); // an out is computed over: asserts look at their operand

// -- lower_map.c: bodies for outs of one number of elements, none of which needs a reduction over
// rows. false: reported.
bool lower_map(LowerCtx *ctx, Graph *g, const Group *group, Node *const *outs, int n,
               BodyList *out);
// The value of n changes from one operand to the next where e reaches bound: a map may be cut
// there.
void lower_cut(Lower *l, const Node *n, const Ix *const *idx, const Ix *e, int64_t bound);

// -- lower_ordered.c: a body or several of a group's anchor. false: reported.
bool lower_ordered(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out);
bool lower_sort(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out);
// The same of rows that are long, on CUDA (lower_merge.c).
bool lower_merge(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out);
// Stores the value of n at a place; the body is done.
bool lower_deliver(Lower *l, const Node *n, const Ix *place, int value, BodyList *out);
// Splits a shape at an axis: at[axis] = col, the others from the row's flat index.
void lower_around(IxCtx *c, const Type *t, int64_t axis, const Ix *row, const Ix *col,
                  const Ix **at);
int64_t lower_rows_around(const Type *t, int64_t axis);
bool lower_scatter(LowerCtx *ctx, Graph *g, const Group *group, Node *n, BodyList *out);

// -- lower_inst.c
int lower_index(Lower *l, const Ix *e); // an index as a value
int lower_both(Lower *l, int a, int b); // of predicates; -1: always true
int lower_select(Lower *l, int cond, int a, int b, const Node *n);
// The range an integer instruction is known to stay in.
bool lower_range(const Lower *l, int at, int64_t *low, int64_t *high);

// -- lower_value.c
bool lower_is_buffer(const Lower *l, const Node *n); // read from memory, not computed here

// -- lower_view.c
int value_view(Lower *l, const Node *n, const Ix *const *idx, int pred); // and indexed accesses

// -- lower_reduce.c
int value_reduce(Lower *l, const Node *n, const Ix *const *idx, int pred);
int value_dot(Lower *l, const Node *n, const Ix *const *idx, int pred);

#endif
