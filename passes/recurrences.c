// On a GPU, a loop whose carried values are computed element by element runs as one kernel: a
// thread keeps its elements of them in registers through all iterations. Otherwise each iteration
// launches kernels, which takes microseconds, however few elements they have.
//
//     h = loop t in 0..T carry h over x, a { h = a * h + x  emit h }
//
// This includes the backward loop of such a loop, running means, returns of rewards, and
// linear recurrences. An element must depend on no other element of a carried value, or on those of
// its row of up to 1024: sums over short rows are computed by neighbouring threads, and shifted
// rows (CTC, stencils) are in shared memory, a row a block. What does not depend on carried values
// may be read at any index (a slice, a broadcast).
//
// Requires: gradients expanded. Keeps: every value to the bit, but for the order of the terms of
// such a sum. Breaks: nothing. The loop remains a loop, marked one_kernel, which fusion and
// lowering treat as a call (codegen/lower/lower_recurrence.c).
#include <string.h>

#include "passes/passes.h"
#include "passes/recurrences.h"
#include "passes/regions.h"

// Values that a thread carries, and operations of an iteration, so that they fit into registers.
enum { MOST_CARRIED = 24, MOST_OPERATIONS = 400 };

static bool is_plain(const Node *n)
{
    switch (node_class(n)) {
    case CLS_ELEMENTWISE: return n->op != OP_own;
    case CLS_VIEW: return true;
    case CLS_LEAF:
        return n->op == OP_region_param || !(node_in_memory(n) || node_has(n, OPF_DRAWN));
    default: return false;
    }
}

bool recurrence_stores(const Type *t, RecurrenceShape s)
{
    const int64_t n = type_count(t);
    return n == s.elements || (s.lanes && n * s.lanes == s.elements && t->rank < MAX_RANK);
}

// Whether the type is that of a carried value but for the length of the last axis.
static bool in_rows(const Type *t, RecurrenceShape s)
{
    if (!s.row || t->rank != s.row->rank) return false;
    return !memcmp(t->dim, s.row->dim, sizeof *t->dim * (size_t)(t->rank - 1));
}

static bool stays_in_row(const Node *n, RecurrenceShape s)
{
    int k;
    const int64_t *axes = attr_ints(n, ATTR_axes, &k), last = n->type.rank - 1;
    if (n->op == OP_concat && attr_int(n, ATTR_axis, 0) != last) return false;
    if (n->op == OP_reverse && (k != 1 || axes[0] != last)) return false;
    return recurrence_shifts(n) && in_rows(&n->type, s) && in_rows(&n->args[0]->type, s);
}

// Whether n has all axes of its operand, or of its result, and the last one besides.
static bool spreads_last(const Node *n, RecurrenceShape s)
{
    int k;
    const Type *t = &n->type;
    const int64_t *dims = attr_ints(n, ATTR_dims, &k);
    return k == t->rank - 1 && (k == 0 || dims[k - 1] == k - 1) && s.lanes == t->dim[k] &&
           type_count(&n->args[0]->type) * s.lanes == type_count(t);
}
static bool sums_last(const Node *n, RecurrenceShape s)
{
    int k;
    const Type *t = &n->args[0]->type;
    const int64_t *axes = attr_ints(n, ATTR_axes, &k);
    const bool f64 = t->dtype == DT_F64;
    return k == 1 && axes[0] == t->rank - 1 && s.lanes == t->dim[axes[0]] &&
           (f64 || t->dtype == DT_F32) && attr_int(n, ATTR_accumulate, t->dtype) == t->dtype;
}

// Whether n, computed from carried values, has in each element only the same element of these, or
// all of those along the last axis, or, with [s.row], others along it.
static bool keeps_elements(const Node *n, RecurrenceShape s)
{
    if (recurrence_shifts(n)) return stays_in_row(n, s);
    if (node_class(n) == CLS_ELEMENTWISE && in_rows(&n->type, s)) return true;
    if (!recurrence_stores(&n->type, s)) return false;
    if (n->op == OP_sum) return type_count(&n->args[0]->type) == s.elements && sums_last(n, s);
    if (n->op == OP_broadcast) return spreads_last(n, s);
    return node_class(n) == CLS_ELEMENTWISE || node_keeps_all(n);
}

bool recurrence_takes(const Node *x, bool moving, RecurrenceShape s)
{
    if (x->nregions) return false;
    if (moving && x->op == OP_sum) return keeps_elements(x, s);
    return is_plain(x) && (!moving || !x->nargs || keeps_elements(x, s));
}

// Whether a block has shared memory for a row of each carried value, twice: the current values, and
// the next ones.
static bool rows_fit(const Graph *body, uint32_t carried, RecurrenceShape s)
{
    enum { SHARED_BYTES = 40 << 10 }; // of 48 KB
    int64_t bytes = 0;
    for (uint32_t i = 0; i < carried; i++) {
        const Type *t = &body->results.at[i]->type;
        if (t->rank != s.row->rank || type_count(t) != s.elements || !in_rows(t, s)) return false;
        bytes += 2 * t->dim[t->rank - 1] * (dtype_info[t->dtype].bits < 32 ? 4 : 8);
    }
    return bytes <= SHARED_BYTES;
}

bool recurrence_body(const Graph *body, uint32_t carried, RecurrenceShape s)
{
    const bool meets = s.row && recurrence_meets(body, carried);
    if (meets) s.lanes = 0;
    if (meets && !rows_fit(body, carried, s)) return false;
    if (!meets) s.row = NULL;
    if (carried < 1 || carried > MOST_CARRIED || !s.elements || body->roots.n ||
        body->nodes.n > 4 * MOST_OPERATIONS)
        return false;
    for (uint32_t i = 0; i < body->results.n; i++)
        if (!recurrence_stores(&body->results.at[i]->type, s)) return false;
    bool *live = NEW_ARRAY(body->arena, bool, body->nodes.n + 1),
         *moving = recurrence_moving(body, carried);
    graph_mark_live(body, live);
    int operations = 0;
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        if (!live[i]) continue;
        if (!recurrence_takes(x, moving[i], s)) return false;
        operations += node_class(x) == CLS_ELEMENTWISE;
    }
    return operations <= MOST_OPERATIONS;
}

static bool is_recurrence(void *ctx, const Node *n)
{
    (void)ctx;
    return n->op == OP_loop && !attr_int(n, ATTR_one_kernel, 0) && attr_int(n, ATTR_count, 0) > 1 &&
           recurrence_body(n->regions[0], (uint32_t)attr_int(n, ATTR_carried, 0),
                           recurrence_shape(n));
}

static Node *marked(void *ctx, Graph *g, Node *n, Node *const *map)
{
    if (!is_recurrence(ctx, n)) return NULL;
    Node **args = NEW_ARRAY(g->arena, Node *, n->nargs + 1);
    for (uint32_t i = 0; i < n->nargs; i++) args[i] = map[n->args[i]->id];
    Attrs attrs = attrs_copy(n->attrs);
    attr_set_int(&attrs, ATTR_one_kernel, 1);
    graph_stamp(g, n, n->name);
    return graph_region_node(g, OP_loop, args, (int)n->nargs, &attrs, n->regions, 1);
}

static Graph *mark(void *ctx, const IdMap *done, Graph *g)
{
    return rewrite_nodes(g, done, is_recurrence, marked, ctx);
}

Graph *pass_recurrences(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    if (!o->target || o->target->kind != TARGET_CUDA) return g;
    return over_regions(g, mark, NULL);
}
