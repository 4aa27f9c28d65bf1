// The element of a node at an index, by the one recursion that lowering consists of. Views change
// the index; leaves and values stored by other kernels are loads; reductions introduce an axis.
#include <string.h>

#include "codegen/lower/lower.h"

enum { MAX_DEPTH = 4000 };

// -- leaves ---------------------------------------------------------------------------------------

// The index along each axis, from which windows in images are recognised
// (codegen/ir/body_windows.c).
static const Ix *const *places_of(const Lower *l, const Type *t, const Ix *const *idx)
{
    if (dtype_info[t->dtype].bits != 16 || t->rank < 3) return NULL;
    const Ix **at = NEW_ARRAY(l->ctx->arena, const Ix *, (size_t)t->rank);
    memcpy(at, idx, sizeof *idx * t->rank);
    return at;
}

// Whether an element is there, and the same for all elements of an axis of which the predicate
// excludes some: without it, the element is loaded once for the axis.
static bool is_shared(const Lower *l, const Ix *at, int64_t elements, int pred)
{
    return at->low >= 0 && at->high < elements && l->body->insts.at[pred].axes & ~at->axes;
}

static int load(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    const LowerCtx *x = l->ctx;
    const Type *t = &n->type;
    const Ix *at = ix_linear(c, idx, t->dim, t->rank);
    int buf = lower_buf(l, KA_NODE, n, t->dtype, type_count(t));
    Inst v = {.kind = KI_LOAD, .type = t->dtype, .buf = buf, .pred = pred, .node = n};
    v.at = places_of(l, t, idx);
    if (l->seen) v.seen = l->seen, v.seen_at = places_of(l, l->seen, l->seen_at);
    if (node_is_data(n) && x->entry->rows && t->rank > 0) {
        // Element (i, ...) of the batch is row rows[cursor + i] of the data set.
        const Ix *row = idx[0];
        if (x->entry->cursor) {
            int cb = lower_buf(l, KA_CURSOR, NULL, DT_I64, 1);
            l->body->bufs.at[cb].read = true;
            int cur = lower_inst(
                l,
                (Inst){
                    .kind = KI_LOAD, .type = DT_I64, .buf = cb, .pred = -1, .ix = ix_const(c, 0)});
            row = ix_add(c, row, ix_value(c, cur, 0, INT32_MAX, 0));
        }
        int rb = lower_buf(l, KA_ROWS, NULL, DT_I32, INT32_MAX);
        l->body->bufs.at[rb].read = true;
        int r = lower_inst(
            l, (Inst){.kind = KI_LOAD, .type = DT_I32, .buf = rb, .pred = pred, .ix = row});
        const Ix *first[MAX_RANK];
        memcpy(first, idx, sizeof *idx * t->rank);
        first[0] = ix_value(c, r, 0, INT32_MAX, l->body->insts.at[r].axes);
        at = ix_linear(c, first, t->dim, t->rank);
        v.at = v.seen_at = NULL;
    }
    l->body->bufs.at[buf].read = true;
    v.ix = at;
    if (pred >= 0 && is_shared(l, at, type_count(t), pred)) v.pred = -1;
    return lower_inst(l, v);
}

bool lower_is_buffer(const Lower *l, const Node *n)
{
    const Fusion *f = l->graph->fusion;
    if (node_class(n) == CLS_REGION || node_has(n, OPF_RESULT)) return true;
    if (f->group_of[n->id] && node_class(n) != CLS_LEAF)
        return f->group_of[n->id] - 1 != l->group->id && !group_computes(l->group, n);
    return node_in_memory(n);
}

static int value_const(Lower *l, const Node *n)
{
    DType t = n->type.dtype;
    Inst i = {.kind = KI_CONST, .type = t};
    if (dtype_is_float(t))
        i.fvalue = attr_float(n, ATTR_value, 0);
    else if (attr_find(n, ATTR_ivalue))
        i.ivalue = attr_int(n, ATTR_ivalue, 0);
    else
        i.ivalue = (int64_t)attr_float(n, ATTR_value, 0);
    return lower_inst(l, i);
}

static int value_random(Lower *l, const Node *n, const Ix *const *idx)
{
    IxCtx *c = l->body->ix;
    const Ix *none[1] = {0}, *more = ix_const(c, 0);
    int counts, seed = lower_value(l, n->args[0], none, -1),
                count = lower_value(l, n->args[1], none, -1);
    const int64_t *stride = attr_ints(n, ATTR_stride, &counts);
    for (int k = 0; k < counts; k++) more = ix_add(c, more, ix_scale(c, idx[k], stride[k]));
    if (counts)
        count = lower_two(l, OP_add, DT_I64, count, lower_cast(l, lower_index(l, more), DT_I64, n));
    return lower_inst(
        l, (Inst){.kind = KI_RANDOM,
                  .type = n->type.dtype,
                  .na = 2,
                  .a = {seed, count},
                  .buf = lower_site(l, attr_int(n, ATTR_site, 0)),
                  .ivalue = attr_int(n, ATTR_bits, 32),
                  .lane = (int)attr_int(n, ATTR_lane, 0),
                  .ix = ix_linear(c, idx + counts, n->type.dim + counts, n->type.rank - counts),
                  .node = n});
}

static int value_leaf(Lower *l, const Node *n, const Ix *const *idx)
{
    if (n->op == OP_const) return value_const(l, n);
    if (n->op == OP_iota)
        return lower_cast(l, lower_index(l, idx[attr_int(n, ATTR_axis, 0)]), n->type.dtype, n);
    return value_random(l, n, idx);
}

// -- elements of nodes ----------------------------------------------------------------------------

static int value_elementwise(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const OpInfo *info = op_info(n->op);
    int a[4];
    for (uint32_t i = 0; i < n->nargs; i++) a[i] = lower_value(l, n->args[i], idx, pred);
    if (info->flags & OPF_CONVERTS) {
        // A value may have more digits than its type (bf16 sums are held in f32).
        DType from = n->args[0]->type.dtype;
        if (from == n->type.dtype) return a[0];
        return lower_inst(l, (Inst){.kind = KI_CAST,
                                    .type = n->type.dtype,
                                    .from = from,
                                    .na = 1,
                                    .a = {a[0]},
                                    .node = n});
    }
    if (info->expr && !strcmp(info->expr, "a")) return a[0];
    // 16-bit floats are computed in f32 and rounded, as if they were stored in memory.
    DType t = n->type.dtype;
    bool rounds = dtype_info[t].bits == 16 && !(info->flags & OPF_EXACT);
    Inst i = {.kind = KI_EW,
              .type = rounds ? DT_F32 : t,
              .op = n->op,
              .text = attr_str(n, ATTR_text),
              .na = (int)n->nargs,
              .approx = attr_int(n, ATTR_approx, 0),
              .repeats = n->args[n->nargs - 1]->op == OP_broadcast,
              .node = rounds ? NULL : n};
    memcpy(i.a, a, sizeof *a * n->nargs);
    return lower_cast(l, lower_inst(l, i), t, n);
}

// A sum over the last axis, whose elements are those of neighbouring rows (lower_recurrence.c).
static int value_lanes(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const Ix *at[MAX_RANK];
    memcpy(at, idx, sizeof *idx * n->type.rank);
    at[n->type.rank] = l->lane;
    return lower_inst(l, (Inst){.kind = KI_LANES,
                                .type = n->type.dtype,
                                .na = 1,
                                .a = {lower_value(l, n->args[0], at, pred)},
                                .axis = l->body->col,
                                .lane = (int)l->lanes,
                                .node = n});
}

static int compute(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    switch (node_class(n)) {
    case CLS_ELEMENTWISE: return value_elementwise(l, n, idx, pred);
    case CLS_VIEW:
    case CLS_INDEX: return value_view(l, n, idx, pred);
    case CLS_REDUCE: return l->lanes ? value_lanes(l, n, idx, pred) : value_reduce(l, n, idx, pred);
    case CLS_DOT: return value_dot(l, n, idx, pred);
    case CLS_LEAF: return value_leaf(l, n, idx);
    case CLS_ROOT: return lower_value(l, n->args[0], idx, pred);
    default: break;
    }
    l->failed = true;
    return lower_const_int(l, n->type.dtype, 0);
}

// Keys are not compared with what they are hashes of, so pointers and small numbers are only mixed
// into a hash: hash_mix of one number into another is equal for some pairs.
static uint64_t value_key(const Node *n, const Ix *const *idx, int pred)
{
    uint64_t h = hash_mix(hash_mix(0x51ed, (uint64_t)(uintptr_t)n), (uint64_t)pred);
    for (int i = 0; i < n->type.rank; i++) h = hash_mix(h, (uint64_t)(uintptr_t)idx[i]);
    return h;
}

void lower_known(Lower *l, const Node *n, const Ix *const *idx, int value)
{
    idmap_set(&l->memo, value_key(n, idx, -1), (uint64_t)value);
}

int lower_value_given(Lower *l, const Node *given, const Ix *const *idx, int pred)
{
    double v;
    const DType t = given->type.dtype;
    if (node_const_value(given, &v)) // stored by nothing
        return lower_inst(l, dtype_is_float(t)
                                 ? (Inst){.kind = KI_CONST, .type = t, .fvalue = v}
                                 : (Inst){.kind = KI_CONST, .type = t, .ivalue = (int64_t)v});
    return node_class(given) == CLS_LEAF && !node_in_memory(given) ? compute(l, given, idx, pred)
                                                                   : load(l, given, idx, pred);
}

// A parameter of a loop that runs as one kernel. Whatever reads an element of a carried value does
// so for the same element of a result (passes/recurrences.c), so [idx] is the thread's, or for one
// of its row.
static int value_in_iteration(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const int64_t at = attr_int(n, ATTR_index, 0) - 1, carried = attr_int(l->call, ATTR_carried, 0),
                  scanned = attr_int(l->call, ATTR_scanned, 0);
    if (at < 0) return lower_cast(l, lower_index(l, l->iteration), n->type.dtype, n);
    if (at < carried) {
        const Ix *last = n->type.rank ? idx[n->type.rank - 1] : NULL;
        if (!l->body->meets || last == l->lane) return l->carried[at];
        return lower_inst(l, (Inst){.kind = KI_NEIGHBOUR,
                                    .type = n->type.dtype,
                                    .na = 1,
                                    .a = {l->carried[at]},
                                    .axis = l->body->col,
                                    .ix = last,
                                    .node = l->call->args[at]});
    }
    const Ix *slice[MAX_RANK + 1] = {l->iteration};
    memcpy(slice + 1, idx, sizeof *idx * n->type.rank);
    return lower_value_given(l, l->call->args[at], at < carried + scanned ? slice : idx, pred);
}

int lower_value(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    uint64_t h = value_key(n, idx, pred), at;
    if (idmap_get(&l->memo, h, &at)) return (int)at;
    int v;
    if (n->op == OP_region_param && l->iteration) {
        v = value_in_iteration(l, n, idx, pred);
    } else if (n->op == OP_region_param && l->call) {
        v = lower_value_given(l, l->call->args[attr_int(n, ATTR_index, 0)], idx, pred);
    } else if (n->op == OP_region_param && l->ctx->is_region && attr_int(n, ATTR_index, 0) == 0 &&
               n->type.rank == 0 && n->type.dtype == DT_I64) {
        int buf = lower_buf(l, KA_LOOP_INDEX, n, DT_I64, 1);
        l->body->bufs.at[buf].read = true;
        v = lower_inst(l, (Inst){.kind = KI_LOAD,
                                 .type = DT_I64,
                                 .buf = buf,
                                 .pred = -1,
                                 .ix = ix_const(l->body->ix, 0),
                                 .node = n});
    } else if (lower_is_buffer(l, n)) {
        v = load(l, n, idx, pred);
    } else if (l->depth >= MAX_DEPTH || l->failed) {
        l->failed = true;
        v = lower_const_int(l, n->type.dtype, 0);
    } else {
        l->depth++;
        v = compute(l, n, idx, pred);
        l->depth--;
    }
    idmap_set(&l->memo, h, (uint64_t)v);
    return v;
}
