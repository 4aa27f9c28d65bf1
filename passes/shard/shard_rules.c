// What a device has of a result, given what it has of the operands. An op without a rule here is
// computed by every device from whole operands.
#include "passes/shard/shard.h"

bool share_same(Share a, Share b)
{
    return a.kind == b.kind && (a.kind != SHARE_PART || a.axis == b.axis);
}

typedef struct Rule {
    const Node *x;
    const Share *in;
    const Uses *uses;
    int64_t devices;
    Share *need;
} Rule;

static bool is_part(const Rule *r, uint32_t k)
{
    return r->in[k].kind == SHARE_PART;
}

// Whether operand k may stay a term: joined once for this result, not once for it and once for
// other readers.
static bool stays_term(const Rule *r, uint32_t k)
{
    return r->in[k].kind == SHARE_TERM && r->uses->n[r->x->args[k]->id] == 1;
}

static Share all_parts(const Rule *r, int axis)
{
    for (uint32_t k = 0; k < r->x->nargs; k++) r->need[k] = share_part(axis);
    return share_part(axis);
}

static bool contains(const int64_t *v, int n, int64_t x)
{
    for (int i = 0; i < n; i++)
        if (v[i] == x) return true;
    return false;
}

static int place_in(const int64_t *v, int n, int64_t x)
{
    for (int i = 0; i < n; i++)
        if (v[i] == x) return i;
    return -1;
}

// -- elementwise ----------------------------------------------------------------------------------

static Share elementwise(const Rule *r)
{
    const Node *x = r->x;
    for (uint32_t k = 0; k < x->nargs; k++)
        if (is_part(r, k)) return all_parts(r, r->in[k].axis);
    if (!dtype_is_float(x->type.dtype) || x->type.dtype != x->args[0]->type.dtype)
        return share_whole();
    const bool sum = x->op == OP_add || x->op == OP_sub || x->op == OP_neg;
    bool all = true;
    int terms = 0;
    for (uint32_t k = 0; k < x->nargs; k++) all &= stays_term(r, k), terms += stays_term(r, k);
    // A sum of terms, or a term multiplied by what is whole.
    if (!(sum && all) && !(x->op == OP_mul && terms == 1)) return share_whole();
    for (uint32_t k = 0; k < x->nargs; k++)
        if (stays_term(r, k)) r->need[k] = share_term();
    return share_term();
}

// -- views ----------------------------------------------------------------------------------------

static int64_t before(const Type *t, int axis)
{
    int64_t n = 1;
    for (int i = 0; i < axis; i++) n *= t->dim[i];
    return n;
}

int share_reshaped(const Type *from, const Type *to, int axis, int64_t devices)
{
    const int64_t outer = before(from, axis);
    for (int i = 0; i < to->rank; i++)
        if (to->dim[i] > 1 && before(to, i) == outer) return to->dim[i] % devices ? -1 : i;
    return -1;
}

static int view_axis(const Rule *r, int axis)
{
    const Node *x = r->x;
    int n;
    const Type *t = &x->args[0]->type;
    switch (x->op) {
    case OP_reshape: return share_reshaped(t, &x->type, axis, r->devices);
    case OP_permute: return place_in(attr_ints(x, ATTR_perm, &n), x->type.rank, axis);
    case OP_broadcast: return (int)attr_ints(x, ATTR_dims, &n)[axis];
    case OP_slice: {
        const int64_t *start = attr_ints(x, ATTR_start, &n),
                      *stride = attr_ints(x, ATTR_stride, &n);
        return !start[axis] && stride[axis] == 1 && x->type.dim[axis] == t->dim[axis] ? axis : -1;
    }
    case OP_pad: return x->type.dim[axis] == t->dim[axis] ? axis : -1;
    case OP_concat: return attr_int(x, ATTR_axis, 0) == axis ? -1 : axis;
    case OP_reverse: {
        const int64_t *axes = attr_ints(x, ATTR_axes, &n);
        return contains(axes, n, axis) ? -1 : axis;
    }
    case OP_window: { // behind the last of its axes stand those within a window
        const int64_t *axes = attr_ints(x, ATTR_axes, &n);
        return contains(axes, n, axis) ? -1 : axis > axes[n - 1] ? axis + n : axis;
    }
    default: return -1;
    }
}

// The axis of a result that takes the place of the divided axis of an operand, but of which a
// device needs more than its part of that; -1: none that can be divided.
static int mixed_axis(const Rule *r, int axis)
{
    const Type *from = &r->x->args[0]->type, *to = &r->x->type;
    if (r->x->op == OP_reshape) { // the first axis that it is split into, or that it is part of
        const int64_t outer = before(from, axis), all = outer * from->dim[axis];
        for (axis = to->rank - 1; axis > 0 && before(to, axis) > outer;) axis--;
        while (axis + 1 < to->rank && to->dim[axis] % r->devices && before(to, axis + 1) < all)
            axis++;
    }
    return axis < to->rank && to->dim[axis] % r->devices == 0 ? axis : -1;
}

// Computed by every device from whole operands, of which it goes on with its part: what follows is
// divided again.
static Share part_of_whole(const Rule *r)
{
    for (uint32_t k = 0; k < r->x->nargs; k++) {
        const int axis = is_part(r, k) ? mixed_axis(r, r->in[k].axis) : -1;
        if (axis >= 0) return share_part(axis);
    }
    return share_whole();
}

static Share view(const Rule *r)
{
    const Node *x = r->x;
    for (uint32_t k = 0; k < x->nargs; k++) {
        const int to = is_part(r, k) ? view_axis(r, r->in[k].axis) : -1;
        if (to < 0) continue;
        r->need[k] = r->in[k];
        if (x->op == OP_concat) return all_parts(r, to);
        return share_part(to);
    }
    if (node_has(x, OPF_PERMUTES) && stays_term(r, 0)) return r->need[0] = share_term();
    return part_of_whole(r);
}

// -- reductions and what is ordered along an axis -------------------------------------------------

// Terms of 16 bits would be rounded before they are added up: these are joined at once.
static Share sum_of_parts(const Node *x)
{
    if (x->type.dtype == DT_BF16 || x->type.dtype == DT_F16)
        return (Share){.kind = SHARE_WHOLE, .joins = OP_sum};
    return share_term();
}

static Share reduce(const Rule *r)
{
    const Node *x = r->x;
    int n, below = 0;
    const int64_t *axes = attr_ints(x, ATTR_axes, &n);
    if (x->op == OP_sum && stays_term(r, 0)) return r->need[0] = share_term();
    if (!is_part(r, 0)) return share_whole();
    const int axis = r->in[0].axis;
    r->need[0] = r->in[0];
    if (!contains(axes, n, axis)) {
        for (int i = 0; i < n; i++) below += axes[i] < axis;
        return share_part(axis - below);
    }
    switch (x->op) {
    case OP_sum: return sum_of_parts(x);
    case OP_sqdev: // (built from two sums)
    case OP_max:
    case OP_min:
    case OP_prod: return (Share){.kind = SHARE_WHOLE, .joins = x->op};
    default: r->need[0] = share_whole(); return share_whole();
    }
}

static Share ordered(const Rule *r)
{
    if (!is_part(r, 0)) return share_whole();
    if (r->in[0].axis == attr_int(r->x, ATTR_axis, 0)) return part_of_whole(r);
    return r->need[0] = r->in[0];
}

// -- products -------------------------------------------------------------------------------------

// Where the free axis [axis] of operand k is in the result; -1: it is none.
static int free_axis(const Node *x, int k, int axis)
{
    int nb, nc;
    const int64_t *batch = attr_ints(x, k ? ATTR_batch_b : ATTR_batch_a, &nb),
                  *contract = attr_ints(x, k ? ATTR_contract_b : ATTR_contract_a, &nc);
    if (contains(batch, nb, axis) || contains(contract, nc, axis)) return -1;
    int at = nb;
    if (k) at += x->args[0]->type.rank - nb - nc;
    for (int i = 0; i < axis; i++) at += !contains(batch, nb, i) && !contains(contract, nc, i);
    return at;
}

static Share product(const Rule *r)
{
    const Node *x = r->x;
    const AttrKey batch[] = {ATTR_batch_a, ATTR_batch_b},
                  contract[] = {ATTR_contract_a, ATTR_contract_b};
    for (int k = 0; k < 2; k++) {
        if (!is_part(r, (uint32_t)k)) continue;
        int n, m;
        const int axis = r->in[k].axis;
        r->need[k] = r->in[k];
        const int64_t *mine = attr_ints(x, batch[k], &n), *other = attr_ints(x, batch[!k], &m);
        int at = place_in(mine, n, axis);
        if (at >= 0) {
            r->need[!k] = share_part((int)other[at]);
            return share_part(at);
        }
        mine = attr_ints(x, contract[k], &n), other = attr_ints(x, contract[!k], &m);
        if ((at = place_in(mine, n, axis)) >= 0) {
            r->need[!k] = share_part((int)other[at]);
            return sum_of_parts(x);
        }
        return share_part(free_axis(x, k, axis));
    }
    return share_whole();
}

// -- access by index ------------------------------------------------------------------------------

// Whether part [at] of the index of x names places of a device's part of the indexed axis only, so
// that this can be divided.
static bool stays_in_part(const Rule *r, int at)
{
    const Type *data = &r->x->args[0]->type, *index = &r->x->args[1]->type;
    const int64_t n = data->dim[attr_int(r->x, ATTR_axis, 0)];
    return index->rank && index->dim[at] % r->devices == 0 && n % r->devices == 0 &&
           shard_is_local(r->x->args[1], at, n / r->devices, r->devices);
}

static Share gather(const Rule *r)
{
    const Node *x = r->x;
    const int axis = (int)attr_int(x, ATTR_axis, 0), rank = x->args[1]->type.rank;
    const int at = is_part(r, 1) ? r->in[1].axis : 0;
    if (is_part(r, 0) && r->in[0].axis == axis && stays_in_part(r, at)) {
        r->need[0] = r->in[0], r->need[1] = share_part(at);
        return share_part(axis + at);
    }
    if (is_part(r, 1)) {
        r->need[1] = r->in[1];
        return share_part(axis + r->in[1].axis);
    }
    if (!is_part(r, 0)) return share_whole();
    if (r->in[0].axis == axis) { // any element of the whole, by a part of the indices
        if (!rank || x->args[1]->type.dim[0] % r->devices) return share_whole();
        r->need[1] = share_part(0);
        return share_part(axis);
    }
    r->need[0] = r->in[0];
    return share_part(r->in[0].axis < axis ? r->in[0].axis : r->in[0].axis + rank - 1);
}

// Whether it takes less to tell all devices the updates than to add up what each makes of its own:
// few rows of a large table. (What is added to another term is exchanged with it.)
static bool has_few_updates(const Rule *r)
{
    const Node *x = r->x, *by = r->uses->by[x->id];
    if (r->uses->n[x->id] == 1 && by && (by->op == OP_add || by->op == OP_sub)) return false;
    return type_bytes(&x->args[1]->type) + type_bytes(&x->args[2]->type) < type_bytes(&x->type);
}

// scatter(data, index, updates): divided along an axis that they have in common or, if the updates
// of each part stay in it, along the indexed one; or, for sums, each device adds its part of the
// updates to its term.
static Share scatter(const Rule *r)
{
    const Node *x = r->x;
    const int axis = (int)attr_int(x, ATTR_axis, 0);
    for (uint32_t k = 0; k < 3; k += 2) {
        if (!is_part(r, k) || r->in[k].axis == axis) continue;
        r->need[0] = r->need[2] = r->in[k];
        return r->in[k];
    }
    const bool divided = is_part(r, 1) || (is_part(r, 2) && r->in[2].axis == axis);
    if (divided && stays_in_part(r, 0)) {
        r->need[1] = share_part(0);
        return r->need[0] = r->need[2] = share_part(axis);
    }
    if (x->op != OP_scatter_add || !divided) return share_whole();
    double v;
    const Share out = sum_of_parts(x);
    const bool joins = out.kind == SHARE_TERM && stays_term(r, 0);
    if (!joins && has_few_updates(r)) return share_whole();
    r->need[1] = share_part(0), r->need[2] = share_part(axis);
    if (joins) return r->need[0] = share_term();
    if (out.kind == SHARE_TERM && node_const_value(x->args[0], &v) && v == 0) return out;
    return (Share){.kind = SHARE_WHOLE, .joins = OP_sum};
}

static Share slice_or_update(const Rule *r)
{
    const Node *x = r->x;
    const uint32_t tensors = x->op == OP_dynamic_update ? 2 : 1;
    for (uint32_t k = 0; k < tensors; k++) {
        const int axis = r->in[k].axis;
        if (!is_part(r, k)) continue;
        const int64_t all = x->args[0]->type.dim[axis];
        const Type *cut = tensors == 2 ? &x->args[1]->type : &x->type;
        if (cut->dim[axis] != all) continue;
        for (uint32_t i = 0; i < tensors; i++) r->need[i] = share_part(axis);
        return share_part(axis);
    }
    return share_whole();
}

Share share_rule(const Node *x, const Share *in, const Uses *uses, int64_t devices, Share *need)
{
    const Rule r = {x, in, uses, devices, need};
    for (uint32_t k = 0; k < x->nargs; k++) need[k] = share_whole();
    switch (x->op) {
    case OP_gather: return gather(&r);
    case OP_dynamic_slice:
    case OP_dynamic_update: return slice_or_update(&r);
    default: break;
    }
    switch (node_class(x)) {
    case CLS_ELEMENTWISE: return elementwise(&r);
    case CLS_VIEW: return view(&r);
    case CLS_REDUCE: return reduce(&r);
    case CLS_SCAN: return ordered(&r);
    case CLS_DOT: return attr_find(x, ATTR_groups) ? share_whole() : product(&r);
    case CLS_INDEX: return node_has(x, OPF_SCATTERS) ? scatter(&r) : share_whole();
    default: return share_whole();
    }
}

bool shard_is_cut(const Node *x, Share as, const Share *need)
{
    return as.kind == SHARE_PART && need[0].kind == SHARE_WHOLE &&
           (node_class(x) == CLS_VIEW || node_class(x) == CLS_SCAN);
}
