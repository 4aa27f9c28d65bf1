// The element of a node at an index: the one recursion lowering consists of. Views change the
// index, leaves and values other kernels wrote are loads, reductions introduce an axis.
#include <string.h>

#include "codegen/accumulator.h"
#include "codegen/kernel_ir.h"

enum { MAX_DEPTH = 4000 };

// -- instructions
// ------------------------------------------------------------------------------------

int lower_ix_stage(const Lower *l, const Ix *e)
{
    int stage = 0;
    if (!e || !e->has_value) return 0;
    for (int i = 0; i < e->n; i++) {
        const IxTerm *t = e->at[i].term;
        int s = t->kind == IT_VALUE ? l->body->insts.at[t->id].stage : lower_ix_stage(l, t->e);
        stage = s > stage ? s : stage;
    }
    return stage;
}

int lower_inst(Lower *l, Inst i)
{
    Body *b = l->body;
    i.axes |= i.ix ? i.ix->axes : 0;
    int stage = lower_ix_stage(l, i.ix);
    uint64_t h = hash_mix(i.kind, hash_mix(i.type, i.op));
    for (int k = 0; k < i.na; k++) {
        i.axes |= b->insts.at[i.a[k]].axes;
        if (b->insts.at[i.a[k]].stage > stage) stage = b->insts.at[i.a[k]].stage;
        h = hash_mix(h, (uint64_t)i.a[k]);
    }
    bool guarded = i.kind == KI_LOAD || i.kind == KI_CHECK;
    if (guarded && i.pred >= 0) {
        i.axes |= b->insts.at[i.pred].axes;
        if (b->insts.at[i.pred].stage > stage) stage = b->insts.at[i.pred].stage;
    }
    if (i.kind == KI_REDUCE) {
        i.axes &= ~(1ull << i.axis);
        if (i.axis == b->col) {
            stage++;
            i.axes |= (1ull << b->npar) - 1; // known once a row, even when there is one row
        }
    }
    if (i.kind == KI_SCAN || i.kind == KI_SORT) i.axes |= 1ull << i.axis | ((1ull << b->npar) - 1);
    i.stage = stage;
    h = hash_mix(h, hash_mix((uint64_t)(guarded ? i.pred : -1), (uint64_t)(uintptr_t)i.ix));
    h = hash_mix(h, hash_mix((uint64_t)i.buf, hash_mix((uint64_t)i.axis, (uint64_t)i.lane)));
    h = hash_mix(h, hash_mix((uint64_t)i.from, hash_mix((uint64_t)i.acc, 0)));
    uint64_t bits;
    memcpy(&bits, &i.fvalue, sizeof bits);
    h = hash_mix(h, hash_mix(hash_mix(bits, (uint64_t)i.ivalue), (uint64_t)i.bound));
    uint64_t at;
    if (idmap_get(&l->memo, h, &at)) return (int)at;
    vec_push(l->ctx->arena, &b->insts, i);
    idmap_set(&l->memo, h, b->insts.n - 1);
    return (int)b->insts.n - 1;
}

int lower_const_int(Lower *l, DType t, int64_t v)
{
    if (dtype_is_float(t))
        return lower_inst(l, (Inst){.kind = KI_CONST, .type = t, .fvalue = (double)v});
    return lower_inst(l, (Inst){.kind = KI_CONST, .type = t, .ivalue = v});
}

int lower_ew(Lower *l, Op op, DType type, const int *a, int na, const Node *node)
{
    Inst i = {.kind = KI_EW, .type = type, .op = op, .na = na, .node = node};
    memcpy(i.a, a, sizeof *a * (size_t)na);
    return lower_inst(l, i);
}

int lower_cast(Lower *l, int a, DType to, const Node *node)
{
    DType from = l->body->insts.at[a].type;
    if (from == to) return a;
    return lower_inst(
        l, (Inst){.kind = KI_CAST, .type = to, .from = from, .na = 1, .a = {a}, .node = node});
}

static int index_inst(Lower *l, const Ix *e)
{
    DType t = e->low >= INT32_MIN && e->high <= INT32_MAX ? DT_I32 : DT_I64;
    int64_t v;
    if (ix_is_const(e, &v)) return lower_const_int(l, t, v);
    return lower_inst(l, (Inst){.kind = KI_INDEX, .type = t, .ix = e});
}

// e < bound or e >= bound, for what the range does not decide. -1: always true.
static int compare(Lower *l, const Ix *e, Op op, int64_t bound)
{
    if (op == OP_lt ? e->high < bound : e->low >= bound) return -1;
    int a[2] = {index_inst(l, e)};
    DType t = l->body->insts.at[a[0]].type;
    a[1] = lower_const_int(l, t, bound);
    return lower_ew(l, op, DT_BOOL, a, 2, NULL);
}

static int both(Lower *l, int a, int b)
{
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return a == b ? a : lower_ew(l, OP_and, DT_BOOL, (int[]){a, b}, 2, NULL);
}

int lower_new_axis(Lower *l, int64_t extent)
{
    Body *b = l->body;
    if (b->naxes == BODY_MAX_AXES) {
        l->failed = true;
        return b->naxes - 1;
    }
    b->axis[b->naxes].extent = extent;
    return b->naxes++;
}

int lower_buf(Lower *l, KernelArgKind kind, const Node *n, DType type, int64_t elems)
{
    Body *b = l->body;
    uint64_t at,
        key = (uint64_t)(uintptr_t)n * 8 + (uint64_t)kind; // nodes are 16 bytes apart at least
    if (!l->buf_of.arena) l->buf_of = idmap_new(l->ctx->arena);
    if (kind != KA_SCRATCH && idmap_get(&l->buf_of, key, &at)) return (int)at;
    if (kind != KA_SCRATCH) idmap_set(&l->buf_of, key, b->bufs.n);
    vec_push(l->ctx->arena, &b->bufs,
             (BodyBuf){.kind = kind, .node = n, .type = type, .elems = elems});
    return (int)b->bufs.n - 1;
}

int lower_error_buf(Lower *l)
{
    return l->body->error_buf = lower_buf(l, KA_ERROR, NULL, DT_U8, 0);
}

static int lower_int(Lower *l, int purpose, int64_t value)
{
    uint64_t at, key = hash_mix((uint64_t)purpose * 8 + 1, (uint64_t)value);
    if (!l->buf_of.arena) l->buf_of = idmap_new(l->ctx->arena);
    if (idmap_get(&l->buf_of, key, &at)) return (int)at;
    vec_push(l->ctx->arena, &l->body->bufs,
             (BodyBuf){.kind = KA_INT, .type = DT_I64, .elems = 1, .value = value, .read = true});
    idmap_set(&l->buf_of, key, l->body->bufs.n - 1);
    return (int)l->body->bufs.n - 1;
}

int lower_site(Lower *l, int64_t site)
{
    return lower_int(l, 1, site);
}

int lower_check(Lower *l, ProgCheckKind kind, const char *message, Loc loc, int64_t bound)
{
    LowerCtx *c = l->ctx;
    const char *where = loc_text(c->diags, loc);
    for (uint32_t i = 0; i < c->checks.n; i++) {
        ProgCheck *p = &c->checks.at[i];
        if (p->kind == kind && p->bound == bound && !strcmp(p->message, message) &&
            !strcmp(p->loc, where))
            return lower_int(l, 2, i + 1);
    }
    vec_push(c->arena, &c->checks,
             (ProgCheck){.kind = kind, .message = message, .loc = where, .bound = bound});
    return lower_int(l, 2, c->checks.n);
}

void lower_store(Lower *l, int buf, const Ix *ix, int value)
{
    l->body->bufs.at[buf].written = true;
    vec_push(l->ctx->arena, &l->body->stores, (BodyStore){.buf = buf, .ix = ix, .value = value});
}

// -- integer values as indices
// -----------------------------------------------------------------------

// The range an integer instruction is known to stay in.
static bool inst_range(const Lower *l, int at, int64_t *low, int64_t *high)
{
    const Inst *i = &l->body->insts.at[at];
    int64_t value;
    switch (i->kind) {
    case KI_CONST: *low = *high = i->ivalue; return !dtype_is_float(i->type);
    case KI_INDEX:
        *low = i->ix->low;
        *high = i->ix->high;
        return true;
    case KI_CHECK:
        *low = 0;
        *high = i->bound - 1;
        return true;
    case KI_CAST:
        return !dtype_is_float(i->from) && i->type != DT_U8 && inst_range(l, i->a[0], low, high);
    case KI_REDUCE:
        *low = 0;
        *high = l->body->axis[i->axis].extent - 1;
        return inst_acc(i)->place;
    case KI_LOAD: {
        const Node *n = l->body->bufs.at[i->buf].node;
        if (!n || !attr_find(n, ATTR_high_bound) || !attr_find(n, ATTR_low_bound)) {
            *low = 0;
            *high = 255;
            return i->type == DT_U8;
        }
        *low = attr_int(n, ATTR_low_bound, 0);
        *high = attr_int(n, ATTR_high_bound, 0) - 1;
        if (i->pred >= 0) { // 0 where the guard fails
            *low = *low < 0 ? *low : 0;
            *high = *high > 0 ? *high : 0;
        }
        return true;
    }
    default: return value = 0, (void)value, false;
    }
}

// The value of an index operand as an index in 0..bound, checked when its range does not prove it.
static const Ix *checked(Lower *l, const Node *node, int v, int64_t bound, int pred)
{
    int64_t low, high;
    if (!inst_range(l, v, &low, &high) || low < 0 || high >= bound) {
        const char *what = arena_printf(l->ctx->arena, "index of %s", op_info(node->op)->name);
        int check = lower_check(l, CHECK_INDEX, what, node->loc, bound);
        lower_error_buf(l);
        l->body->can_fail = true;
        v = lower_inst(l, (Inst){.kind = KI_CHECK,
                                 .type = l->body->insts.at[v].type,
                                 .na = 1,
                                 .a = {v},
                                 .pred = pred,
                                 .buf = check,
                                 .bound = bound,
                                 .node = node});
        low = 0;
        high = bound > 0 ? bound - 1 : 0;
    }
    if (l->body->insts.at[v].kind == KI_INDEX) return l->body->insts.at[v].ix;
    if (l->body->insts.at[v].kind == KI_CONST)
        return ix_const(l->body->ix, l->body->insts.at[v].ivalue);
    return ix_value(l->body->ix, v, low, high, l->body->insts.at[v].axes);
}

// The start operand of a dynamic slice as an index, clamped to 0..=limit.
static const Ix *clamped(Lower *l, const Node *start, int64_t limit)
{
    const Ix *none[1] = {0};
    int v = lower_value(l, start, none, -1);
    DType t = start->type.dtype;
    int a[2] = {v, lower_const_int(l, t, 0)};
    v = lower_ew(l, OP_maximum, t, a, 2, NULL);
    int m[2] = {v, lower_const_int(l, t, limit)};
    v = lower_ew(l, OP_minimum, t, m, 2, NULL);
    return ix_value(l->body->ix, v, 0, limit, l->body->insts.at[v].axes);
}

// -- leaves
// --------------------------------------------------------------------------------------------

static int load(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    const LowerCtx *x = l->ctx;
    const Type *t = &n->type;
    const Ix *at = ix_linear(c, idx, t->dim, t->rank);
    int buf = lower_buf(l, KA_NODE, n, t->dtype, type_count(t));
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
    }
    l->body->bufs.at[buf].read = true;
    return lower_inst(
        l,
        (Inst){.kind = KI_LOAD, .type = t->dtype, .buf = buf, .pred = pred, .ix = at, .node = n});
}

static bool is_buffer(const Lower *l, const Node *n)
{
    const Fusion *f = l->graph->fusion;
    if (node_class(n) == CLS_REGION || n->op == OP_get) return true;
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

static int value_leaf(Lower *l, const Node *n, const Ix *const *idx)
{
    IxCtx *c = l->body->ix;
    if (n->op == OP_const) return value_const(l, n);
    if (n->op == OP_iota)
        return lower_cast(l, index_inst(l, idx[attr_int(n, ATTR_axis, 0)]), n->type.dtype, n);
    // random
    const Ix *none[1] = {0};
    int seed = lower_value(l, n->args[0], none, -1), step = lower_value(l, n->args[1], none, -1);
    return lower_inst(l, (Inst){.kind = KI_RANDOM,
                                .type = n->type.dtype,
                                .na = 2,
                                .a = {seed, step},
                                .buf = lower_site(l, attr_int(n, ATTR_site, 0)),
                                .lane = (int)attr_int(n, ATTR_lane, 0),
                                .ix = ix_linear(c, idx, n->type.dim, n->type.rank),
                                .node = n});
}

// -- views
// ---------------------------------------------------------------------------------------------

static int select_value(Lower *l, int cond, int a, int b, const Node *n)
{
    return lower_ew(l, OP_select, n->type.dtype, (int[]){cond, a, b}, 3, n);
}

static int value_pad(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    int count, inside = -1;
    const int64_t *low = attr_ints(n, ATTR_low, &count);
    const Ix *at[MAX_RANK], *none[1] = {0};
    for (int i = 0; i < n->type.rank; i++) {
        at[i] = ix_add(c, idx[i], ix_const(c, -low[i]));
        inside = both(l, inside, compare(l, at[i], OP_ge, 0));
        inside = both(l, inside, compare(l, at[i], OP_lt, n->args[0]->type.dim[i]));
    }
    int v = lower_value(l, n->args[0], at, both(l, pred, inside));
    if (inside < 0) return v;
    return select_value(l, inside, v, lower_value(l, n->args[1], none, -1), n);
}

static int value_concat(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    int64_t axis = attr_int(n, ATTR_axis, 0), end = n->type.dim[axis];
    int v = -1;
    for (uint32_t i = n->nargs; i-- > 0;) {
        int64_t begin = end - n->args[i]->type.dim[axis];
        const Ix *e = idx[axis], *at[MAX_RANK];
        if (begin == end || e->low >= end || e->high < begin) {
            end = begin;
            continue;
        }
        memcpy(at, idx, sizeof *idx * n->type.rank);
        at[axis] = ix_add(c, e, ix_const(c, -begin));
        int below = compare(l, e, OP_lt, end), above = compare(l, e, OP_ge, begin);
        int p = lower_value(l, n->args[i], at, both(l, pred, both(l, below, above)));
        v = v < 0 ? p : select_value(l, below, p, v, n);
        end = begin;
    }
    return v < 0 ? lower_const_int(l, n->type.dtype, 0) : v;
}

static int value_view(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    const Node *x = n->args[0];
    const Ix *at[MAX_RANK];
    int count;
    switch (n->op) {
    case OP_reshape:
        ix_delinear(c, ix_linear(c, idx, n->type.dim, n->type.rank), x->type.dim, x->type.rank, at);
        break;
    case OP_permute: {
        const int64_t *perm = attr_ints(n, ATTR_perm, &count);
        for (int i = 0; i < n->type.rank; i++) at[perm[i]] = idx[i];
        break;
    }
    case OP_broadcast: {
        const int64_t *dims = attr_ints(n, ATTR_dims, &count);
        for (int i = 0; i < x->type.rank; i++)
            at[i] = x->type.dim[i] == 1 ? ix_const(c, 0) : idx[dims[i]];
        break;
    }
    case OP_slice: {
        const int64_t *start = attr_ints(n, ATTR_start, &count);
        const int64_t *stride = attr_ints(n, ATTR_stride, &count);
        for (int i = 0; i < n->type.rank; i++)
            at[i] = ix_add(c, ix_scale(c, idx[i], stride ? stride[i] : 1), ix_const(c, start[i]));
        break;
    }
    case OP_reverse: {
        const int64_t *axes = attr_ints(n, ATTR_axes, &count);
        memcpy(at, idx, sizeof *idx * n->type.rank);
        for (int i = 0; i < count; i++)
            at[axes[i]] =
                ix_add(c, ix_const(c, n->type.dim[axes[i]] - 1), ix_scale(c, idx[axes[i]], -1));
        break;
    }
    case OP_pad: return value_pad(l, n, idx, pred);
    case OP_concat: return value_concat(l, n, idx, pred);
    default: l->failed = true; return lower_const_int(l, n->type.dtype, 0);
    }
    return lower_value(l, x, at, pred);
}

// -- indexed access
// --------------------------------------------------------------------------------------

static int value_index(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    const Node *x = n->args[0];
    const Ix *at[MAX_RANK];
    int rank = x->type.rank;
    if (n->op == OP_gather) {
        int64_t axis = attr_int(n, ATTR_axis, 0);
        int irank = n->args[1]->type.rank;
        int v = lower_value(l, n->args[1], idx + axis, pred);
        memcpy(at, idx, sizeof *idx * (size_t)axis);
        at[axis] = checked(l, n, v, x->type.dim[axis], pred);
        for (int i = (int)axis + 1; i < rank; i++) at[i] = idx[i + irank - 1];
        return lower_value(l, x, at, pred);
    }
    if (n->op == OP_dynamic_slice) {
        for (int i = 0; i < rank; i++)
            at[i] = ix_add(c, idx[i], clamped(l, n->args[1 + i], x->type.dim[i] - n->type.dim[i]));
        return lower_value(l, x, at, pred);
    }
    if (n->op == OP_dynamic_update) {
        const Node *u = n->args[1];
        int inside = -1;
        for (int i = 0; i < rank; i++) {
            const Ix *start = clamped(l, n->args[2 + i], x->type.dim[i] - u->type.dim[i]);
            at[i] = ix_add(c, idx[i], ix_scale(c, start, -1));
            inside = both(l, inside, compare(l, at[i], OP_ge, 0));
            inside = both(l, inside, compare(l, at[i], OP_lt, u->type.dim[i]));
        }
        int v = lower_value(l, u, at, both(l, pred, inside));
        return inside < 0 ? v : select_value(l, inside, v, lower_value(l, x, idx, pred), n);
    }
    l->failed = true;
    return lower_const_int(l, n->type.dtype, 0);
}

// -- reductions
// ------------------------------------------------------------------------------------------

// The axis a reduction over [extent] elements runs along: the body's columns when what is kept
// varies over rows only, else an axis of its own.
static int reduction_axis(Lower *l, int64_t extent, uint64_t kept)
{
    const Body *b = l->body;
    uint64_t rows = (1ull << b->npar) - 1;
    if (b->col >= 0 && !b->serial_cols && b->axis[b->col].extent == extent && !(kept & ~rows))
        return b->col;
    return lower_new_axis(l, extent);
}

static uint64_t axes_of(const Lower *l, const Ix *const *idx, int n, int pred)
{
    uint64_t axes = pred < 0 ? 0 : l->body->insts.at[pred].axes;
    for (int i = 0; i < n; i++) axes |= idx[i]->axes;
    return axes;
}

// A sum over axis [q] of where(k == i, v, 0), with i the position along it and k known before the
// loop, is v at k: no loop. -1: it is not that.
static int value_picked(Lower *l, const Node *n, const Ix **at, int along, int q, int pred)
{
    const Node *x = n->args[0];
    if (n->op != OP_sum || x->op != OP_select || is_buffer(l, x)) return -1;
    const Body *b = l->body;
    int hit = lower_value(l, x->args[0], at, pred), key = -1;
    int zero = lower_value(l, x->args[2], at, pred);
    Inst eq = b->insts.at[hit], z = b->insts.at[zero];
    if (eq.kind != KI_EW || eq.op != OP_eq || z.kind != KI_CONST || z.fvalue != 0 || z.ivalue != 0)
        return -1;
    for (int k = 0; k < 2; k++) {
        const Inst *i = &b->insts.at[eq.a[k]], *other = &b->insts.at[eq.a[1 - k]];
        if (i->kind == KI_INDEX && i->ix == at[along] && !(other->axes >> q & 1) &&
            !dtype_is_float(other->type) && other->kind != KI_INDEX)
            key = eq.a[1 - k];
    }
    int64_t low, high, extent = b->axis[q].extent;
    if (key < 0 || !extent) return -1;
    DType t = b->insts.at[key].type;
    int inside = -1;
    if (!inst_range(l, key, &low, &high) || low < 0 || high >= extent) { // elsewhere the sum is 0
        int first = lower_const_int(l, t, 0), last = lower_const_int(l, t, extent - 1);
        inside = both(l, lower_ew(l, OP_ge, DT_BOOL, (int[]){key, first}, 2, NULL),
                      lower_ew(l, OP_le, DT_BOOL, (int[]){key, last}, 2, NULL));
        key = lower_ew(l, OP_maximum, t, (int[]){key, first}, 2, NULL);
        key = lower_ew(l, OP_minimum, t, (int[]){key, last}, 2, NULL);
    }
    const Ix *place = ix_value(l->body->ix, key, 0, extent - 1, b->insts.at[key].axes);
    if (b->insts.at[key].kind == KI_CONST) place = ix_const(l->body->ix, b->insts.at[key].ivalue);
    const Ix *to[MAX_RANK];
    memcpy(to, at, sizeof *to * x->type.rank);
    to[along] = place;
    int v = lower_value(l, x->args[1], to, pred);
    return inside < 0 ? v : select_value(l, inside, v, zero, x);
}

// Where the operand of a reduction is read; returns the axis it runs over.
static int reduced_at(Lower *l, const Node *n, const Ix *const *idx, int pred, const Ix **at)
{
    IxCtx *c = l->body->ix;
    int count;
    const int64_t *axes = attr_ints(n, ATTR_axes, &count);
    int64_t extent = 1, dim[MAX_RANK];
    for (int i = 0; i < count; i++) extent *= dim[i] = n->args[0]->type.dim[axes[i]];
    int q = reduction_axis(l, extent, axes_of(l, idx, n->type.rank, pred));
    const Ix *sub[MAX_RANK];
    ix_delinear(c, ix_axis(c, q, extent), dim, count, sub);
    for (int i = 0, r = 0, k = 0; i < n->args[0]->type.rank; i++)
        at[i] = r < count && axes[r] == i ? sub[r++] : idx[k++];
    return q;
}

// Squared deviations as two sums, one after the other.
static int value_sqdev(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    DType t = dtype_accumulator(n->type.dtype);
    int mean = -1, sum = -1;
    for (int round = 0; round < 2; round++) {
        const Ix *at[MAX_RANK];
        Inst r = {.kind = KI_REDUCE, .op = OP_sum, .na = 1, .type = t, .acc = t, .node = n};
        r.axis = reduced_at(l, n, idx, pred, at);
        int64_t count = l->body->axis[r.axis].extent;
        r.a[0] = lower_cast(l, lower_value(l, n->args[0], at, pred), t, NULL);
        if (round) {
            int d = lower_ew(l, OP_sub, t, (int[]){r.a[0], mean}, 2, NULL);
            r.a[0] = lower_ew(l, OP_mul, t, (int[]){d, d}, 2, NULL);
        }
        sum = lower_inst(l, r);
        Inst share = {.kind = KI_CONST, .type = t, .fvalue = count ? 1.0 / (double)count : 0};
        if (!round) mean = lower_ew(l, OP_mul, t, (int[]){sum, lower_inst(l, share)}, 2, NULL);
    }
    return lower_cast(l, sum, n->type.dtype, n);
}

static int value_reduce(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const Node *x = n->args[0];
    const Ix *at[MAX_RANK];
    int q = reduced_at(l, n, idx, pred, at), count, v = -1;
    const int64_t *axes = attr_ints(n, ATTR_axes, &count);
    if (op_info(n->op)->acc == ACC_MOMENTS && (!l->one_round || q != l->body->col))
        return value_sqdev(l, n, idx, pred);
    if (count == 1) v = value_picked(l, n, at, (int)axes[0], q, pred);
    if (v >= 0) return lower_cast(l, v, n->type.dtype, n);
    v = lower_value(l, x, at, pred);
    DType acc = acc_type_of(n), out = n->type.dtype;
    v = lower_cast(l, v, acc, NULL);
    Inst i = {.kind = KI_REDUCE, .op = n->op, .na = 1, .a = {v}, .axis = q, .acc = acc, .node = n};
    i.type = inst_acc(&i)->place ? DT_I32 : acc;
    return lower_cast(l, lower_inst(l, i), out, n);
}

static int value_dot(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    IxCtx *c = l->body->ix;
    const Node *x[2] = {n->args[0], n->args[1]};
    static const AttrKey batch_key[2] = {ATTR_batch_a, ATTR_batch_b};
    static const AttrKey contract_key[2] = {ATTR_contract_a, ATTR_contract_b};
    int nb = 0, nc = 0, v[2], next = 0;
    const int64_t *contract = attr_ints(n, ATTR_contract_a, &nc);
    int64_t extent = 1, dim[MAX_RANK];
    for (int i = 0; i < nc; i++) extent *= dim[i] = x[0]->type.dim[contract[i]];
    int q = reduction_axis(l, extent, axes_of(l, idx, n->type.rank, pred));
    const Ix *sub[MAX_RANK], *at[MAX_RANK];
    ix_delinear(c, ix_axis(c, q, extent), dim, nc, sub);
    attr_ints(n, ATTR_batch_a, &nb);
    next = nb;
    DType acc = (DType)attr_int(n, ATTR_accumulate, dtype_accumulator(n->type.dtype));
    for (int s = 0; s < 2; s++) {
        int count;
        const int64_t *batch = attr_ints(n, batch_key[s], &count);
        contract = attr_ints(n, contract_key[s], &count);
        memset(at, 0, sizeof at);
        for (int i = 0; i < nb; i++) at[batch[i]] = idx[i];
        for (int i = 0; i < nc; i++) at[contract[i]] = sub[i];
        for (int i = 0; i < x[s]->type.rank; i++)
            if (!at[i]) at[i] = idx[next++];
        v[s] = lower_cast(l, lower_value(l, x[s], at, pred), acc, NULL);
    }
    int p = lower_ew(l, OP_mul, acc, v, 2, NULL);
    int r = lower_inst(l, (Inst){.kind = KI_REDUCE,
                                 .op = OP_sum,
                                 .na = 1,
                                 .a = {p},
                                 .axis = q,
                                 .acc = acc,
                                 .type = acc,
                                 .node = n});
    return lower_cast(l, r, n->type.dtype, n);
}

// -- the door
// ----------------------------------------------------------------------------------------------

static int value_elementwise(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    const OpInfo *info = op_info(n->op);
    int a[4];
    for (uint32_t i = 0; i < n->nargs; i++) a[i] = lower_value(l, n->args[i], idx, pred);
    if (info->flags & OPF_CONVERTS) {
        // a value may be known more precisely than its type says (bf16 sums held in f32)
        DType from = n->args[0]->type.dtype;
        if (from == n->type.dtype) return a[0];
        return lower_inst(l, (Inst){.kind = KI_CAST,
                                    .type = n->type.dtype,
                                    .from = from,
                                    .na = 1,
                                    .a = {a[0]},
                                    .node = n});
    }
    if (!strcmp(info->expr, "a")) return a[0];
    return lower_ew(l, n->op, n->type.dtype, a, (int)n->nargs, n);
}

static int compute(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    switch (node_class(n)) {
    case CLS_ELEMENTWISE: return value_elementwise(l, n, idx, pred);
    case CLS_VIEW: return value_view(l, n, idx, pred);
    case CLS_REDUCE: return value_reduce(l, n, idx, pred);
    case CLS_DOT: return value_dot(l, n, idx, pred);
    case CLS_INDEX: return value_index(l, n, idx, pred);
    case CLS_LEAF: return value_leaf(l, n, idx);
    case CLS_ROOT: return lower_value(l, n->args[0], idx, pred);
    default: break;
    }
    l->failed = true;
    return lower_const_int(l, n->type.dtype, 0);
}

static uint64_t value_key(const Node *n, const Ix *const *idx, int pred)
{
    uint64_t h = hash_mix((uint64_t)(uintptr_t)n, (uint64_t)pred + 0x51ed);
    for (int i = 0; i < n->type.rank; i++) h = hash_mix(h, (uint64_t)(uintptr_t)idx[i]);
    return h;
}

void lower_known(Lower *l, const Node *n, const Ix *const *idx, int value)
{
    idmap_set(&l->memo, value_key(n, idx, -1), (uint64_t)value);
}

int lower_value(Lower *l, const Node *n, const Ix *const *idx, int pred)
{
    uint64_t h = value_key(n, idx, pred), at;
    if (idmap_get(&l->memo, h, &at)) return (int)at;
    int v;
    if (n->op == OP_region_param && l->ctx->is_region && attr_int(n, ATTR_index, 0) == 0 &&
        n->type.rank == 0 && n->type.dtype == DT_I64) {
        int buf = lower_buf(l, KA_LOOP_INDEX, n, DT_I64, 1);
        l->body->bufs.at[buf].read = true;
        v = lower_inst(l, (Inst){.kind = KI_LOAD,
                                 .type = DT_I64,
                                 .buf = buf,
                                 .pred = -1,
                                 .ix = ix_const(l->body->ix, 0),
                                 .node = n});
    } else if (is_buffer(l, n)) {
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
