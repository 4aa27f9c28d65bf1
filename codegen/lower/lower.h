// Private to lowering: graph nodes to kernel IR. A rule (value_*) emits the element of a node at an
// index. Its value matters only where [pred] holds (-1: everywhere).
#ifndef CODEGEN_LOWER_H
#define CODEGEN_LOWER_H

#include "codegen/ir/body.h"
#include "ir/range.h"

typedef struct Lower {
    LowerCtx *ctx;
    Graph *graph;
    Body *body;
    IdMap memo, buf_of; // buf_of: hash of node and kind -> index in body->bufs
    const Group *group;
    int depth;
    bool one_pass;       // sqdev along the columns is computed in one pass, without the mean first
    const Node *call;    // the call, or the loop in one kernel, whose region is the graph
    const Ix *iteration; // of that loop; NULL: it is a call
    const int *carried;  // ... and its KI_CARRIED, by carried value
    int64_t lanes;       // ... and the length of the axis over which rows are added up; 0: none
    const Ix *lane;      // ... and the row's place along it
    bool early;          // sums along the columns do not wait for a factor of their row
    struct LowerCuts *cuts; // where the values of a map change from one operand to the next
    // The body's product. Its last contracted axis is extended to [channels] elements, of which the
    // additional ones are zeros; 0: not extended.
    const Node *product;
    int64_t channels;
    // While a reshape of a stored node is lowered: its shape, and the index of the element.
    const Type *seen;
    const Ix *const *seen_at;
    bool failed;
} Lower;

// -- lower_body.c ---------------------------------------------------------------------------------
typedef VEC(Body *) BodyList;
Lower lower_begin(LowerCtx *ctx, Graph *g, const Group *group);
// Lowers the element of [n] at idx and stores it.
void lower_out(Lower *l, const Node *n, const Ix *const *idx);
void lower_finish(Lower *l); // assigns stages after all stores were added
// Lowers the outs over the rows and columns of a reduction; each out has an element per row, or per
// row and column. *folded: include the group's sums over rows; set to false if that is not
// possible.
enum { ONE_PASS = 1, EARLY = 2 }; // how: see Lower
Lower lower_over(LowerCtx *ctx, Graph *g, const Group *group, const Node *head, Node *const *outs,
                 int n, int how, bool *folded);
// Lowers the outs, which have the index space of the contraction, over its batch, m, n and k.
// [folded]: also sums over the rows of its left operand or of its result.
Lower lower_product(LowerCtx *ctx, Graph *g, const Group *group, const Node *dot, Node *const *outs,
                    int n, bool folded);
// The same for a matrix times a vector, or any product with short sums: each result is a row.
Lower lower_vector_product(LowerCtx *ctx, Graph *g, const Group *group, const Node *dot,
                           Node *const *outs, int n);

// -- lower_taps.c: a sum over windows, as a body with several results per row. false: it is not
// such a sum, or some outs are not computed element by element from its results.
bool lower_several(LowerCtx *ctx, Graph *g, const Group *group, const Node *head, Node *const *outs,
                   int n, Lower *l);
// A window on which the elementwise code of this value depends (with the same axes), even if parts
// of that code are stored; NULL: there is none.
const Node *lower_window_below(const Node *n);

// -- lower_attention.c: a call's region (passes/attention/). *ordered: the bodies must run one
// after the other.
bool lower_attention(LowerCtx *ctx, const Group *group, BodyList *out, bool *ordered);

// -- lower_recurrence.c: a loop that runs as one kernel (passes/recurrences.c)
bool lower_recurrence(LowerCtx *ctx, const Group *group, BodyList *out);

// -- lower_sweep.c: sums over the rows of a row body ----------------------------------------------
// Adds the folded outs of the group to a body with these rows and columns. false: theirs differ.
bool lower_folds(Lower *l, const Ix *row, const Ix *col);
// Whether the folded outs depend on the contraction's result, rather than on its left operand.
bool lower_folds_result(const Lower *l, const Node *dot);
// For a scheduled body with folds: numbers its scratch buffers from [*scratch] on, and creates a
// body that combines the partial sums and computes what follows, to be run afterwards. false: an
// error was reported.
bool lower_joined(LowerCtx *ctx, Graph *g, Body *sweep, int *scratch, Body **out);

// -- lower_value.c: a node's element at an index --------------------------------------------------
int lower_value(Lower *l, const Node *n, const Ix *const *idx, int pred);
// The same of an operand of the call or loop whose region is lowered.
int lower_value_given(Lower *l, const Node *given, const Ix *const *idx, int pred);
// From now on, [value] is the node's element at idx.
void lower_known(Lower *l, const Node *n, const Ix *const *idx, int value);

// The start operand of a dynamic slice or update as an index, clamped to 0..=limit.
const Ix *lower_start(Lower *l, const Node *start, int64_t limit);

// -- lower_inst.c: the parts of a body ------------------------------------------------------------
int lower_buf(Lower *l, KernelArgKind kind, const Node *n, DType type, int64_t elems);
int lower_error_buf(Lower *l);
int lower_ix_stage(const Lower *l, const Ix *e); // e may be NULL: 0
int lower_inst(Lower *l, Inst i);                // appends the instruction, or finds an equal one
int lower_ew(Lower *l, Op op, DType type, const int *a, int na, const Node *node);
int lower_two(Lower *l, Op op, DType type, int a, int b); // of two operands, without a node
int lower_not(Lower *l, int a);
int lower_const_int(Lower *l, DType t, int64_t v);
int lower_cast(Lower *l, int a, DType to, const Node *node);
int lower_new_axis(Lower *l, int64_t extent);
// The KA_INT buffer with a random op's site, or with the number of a new check.
int lower_site(Lower *l, int64_t site);
int lower_check(Lower *l, ProgCheckKind kind, const char *message, Loc loc, int64_t bound);
void lower_store(Lower *l, int buf, const Ix *ix, int value);

// -- lower_body.c
bool lower_failed(const Lower *l, const Node *n); // reports an error for n; returns false
bool lower_commits(const LowerCtx *ctx, const Node *n);
void lower_committed(Lower *l, const Node *n); // n is stored: if in a cell, not after an error
// Whether n is stored in the cell that its first operand is, so that only what changes is written.
bool lower_changes_part(const LowerCtx *ctx, const Node *n);
// The index space in which an out is computed: for asserts, that of their operand.
const Type *lower_space(const Node *n);

// -- lower_map.c: bodies for outs with the same number of elements, none of which needs a reduction
// over rows. rest: the group's other outs, or NULL; those that these bodies store, too, are removed
// from it. false: an error was reported.
typedef VEC(Node *) NodeList;
bool lower_map(LowerCtx *ctx, Graph *g, const Group *group, Node *const *outs, int n,
               NodeList *rest, BodyList *out);
// Records that the value of n changes from one operand to another where e reaches bound, so that a
// map may be cut there.
void lower_cut(Lower *l, const Node *n, const Ix *const *idx, const Ix *e, int64_t bound);

// -- lower_ordered.c: one or several bodies for a group's anchor. false: an error was reported.
bool lower_ordered(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out);
bool lower_sort(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out);
// The same for long rows on CUDA (lower_radix.c).
bool lower_radix(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out);
// Stores the value of n at an index and finishes the body.
bool lower_deliver(Lower *l, const Node *n, const Ix *place, int value, BodyList *out);
// Splits an index of a shape at an axis: at[axis] = col; the other indices come from the flat index
// of the row.
void lower_around(IxCtx *c, const Type *t, int64_t axis, const Ix *row, const Ix *col,
                  const Ix **at);
int64_t lower_rows_around(const Type *t, int64_t axis);
bool lower_scatter(LowerCtx *ctx, Graph *g, const Group *group, Node *n, BodyList *out);
// The index of update [at], checked and clamped; valid if [pred] is true.
int lower_place(Lower *l, Node *n, const Ix *at, int pred);
bool lower_bins(LowerCtx *ctx, Graph *g, const Group *group, Node *n,
                BodyList *out); // lower_bins.c

// -- lower_inst.c
int lower_index(Lower *l, const Ix *e); // an index as a value
int lower_both(Lower *l, int a, int b); // conjunction of conditions; -1: always true
int lower_select(Lower *l, int cond, int a, int b, const Node *n);

// -- lower_range.c: ranges of integer instructions
Range lower_range(const Lower *l, int at);  // range of its values
const Ix *lower_index_of(Lower *l, int at); // its value as an index
// -- lower_value.c
// Whether the node is read from memory instead of being computed here.
bool lower_is_buffer(const Lower *l, const Node *n);

// -- lower_view.c
int lower_compare(Lower *l, const Ix *e, Op op, int64_t bound);
int value_view(Lower *l, const Node *n, const Ix *const *idx, int pred); // also indexed accesses

// -- lower_reduce.c
int value_reduce(Lower *l, const Node *n, const Ix *const *idx, int pred);
int value_dot(Lower *l, const Node *n, const Ix *const *idx, int pred);
int value_repair(Lower *l, const Node *n, const Ix *const *idx, int pred);

#endif
