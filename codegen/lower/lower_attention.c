// Attention: the region of a call (passes/attention/attention_kernel.c describes it) to bodies.
//
// A region's results are dots over the columns, of weights and values: two for the gradients of
// keys and values, which share the scores. Their body has the axes batch, rows, one for each
// result's head dimension, and columns. The weights are computed from scores, dots over the head
// dimension: reductions over axes of their own.
#include "codegen/lower/lower.h"
#include "ir/axes.h"

// Limit of the head dimensions of all results, whose sums a thread must hold. Beyond it, each
// product has a kernel of its own.
enum { MOST_HEADS = 256 };

typedef struct Outer { // a product over the columns
    const Node *dot;
    int side; // the operand with its weights
    DotAxes weight, value;
    int64_t width; // of the head dimension
} Outer;

// By id of a node of the region: the products it depends on.
typedef struct Roots {
    bool *dot;            // it depends on a product
    const Node **product; // the last product it depends on other than through a sum along the
                          // columns
} Roots;

static Roots find_roots(Arena *a, const Graph *region)
{
    Roots r = {NEW_ARRAY(a, bool, region->nodes.n + 1),
               NEW_ARRAY(a, const Node *, region->nodes.n + 1)};
    for (uint32_t i = 0; i < region->nodes.n; i++) {
        const Node *n = region->nodes.at[i];
        r.dot[i] = node_class(n) == CLS_DOT;
        if (r.dot[i]) r.product[i] = n;
        for (uint32_t k = 0; k < n->nargs; k++) {
            r.dot[i] |= r.dot[n->args[k]->id];
            if (!r.product[i] && node_class(n) != CLS_REDUCE)
                r.product[i] = r.product[n->args[k]->id];
        }
    }
    return r;
}

static bool find_outer(const Roots *r, const Node *dot, Outer *o)
{
    *o = (Outer){.dot = dot, .side = r->dot[dot->args[0]->id] ? 0 : 1};
    o->weight = dot_axes(dot, o->side);
    o->value = dot_axes(dot, 1 - o->side);
    if (o->weight.ncontract != 1 || o->weight.nfree != 1 || o->value.nfree != 1) return false;
    o->width = dot->args[1 - o->side]->type.dim[o->value.free[0]];
    return true;
}

// Maps idx, an index of [from], to the index of n, which is computed from it. false: not possible.
static bool carry(Lower *l, const Roots *r, const Node *n, const Node *from, const Ix **idx)
{
    IxCtx *c = l->body->ix;
    if (n == from) return true;
    uint32_t k = 0;
    while (k < n->nargs && r->product[n->args[k]->id] != from) k++;
    if (k == n->nargs || !carry(l, r, n->args[k], from, idx)) return false;
    const Type *in = &n->args[k]->type, *out = &n->type;
    if (node_class(n) == CLS_ELEMENTWISE) return true;
    int v = lower_value(l, n->args[k], idx, -1), count;
    const Ix *to[MAX_RANK];
    if (n->op == OP_permute) {
        const int64_t *perm = attr_ints(n, ATTR_perm, &count);
        for (int i = 0; i < count; i++) to[i] = idx[perm[i]];
    } else if (node_keeps_all(n)) {
        ix_delinear(c, ix_linear(c, idx, in->dim, in->rank), out->dim, out->rank, to);
    } else {
        return false;
    }
    for (int i = 0; i < out->rank; i++) idx[i] = to[i];
    lower_known(l, n, idx, v);
    return true;
}

// The index of element [flat] of a part in the concatenation into which it is stored.
static const Ix *within(Lower *l, const ConcatPart *part, int64_t count, const Ix *flat)
{
    IxCtx *c = l->body->ix;
    const Type *t = &part->whole->type;
    int64_t dim[MAX_RANK], axis = attr_int(part->whole, ATTR_axis, 0);
    const Ix *idx[MAX_RANK];
    for (int i = 0; i < t->rank; i++) dim[i] = t->dim[i];
    dim[axis] = count / (type_count(t) / t->dim[axis]);
    ix_delinear(c, flat, dim, t->rank, idx);
    idx[axis] = ix_add(c, idx[axis], ix_const(c, part->at));
    return ix_linear(c, idx, t->dim, t->rank);
}

// Stores the result of the region that is the group's out [k] at idx.
static void store(Lower *l, const Node *result, uint32_t k, const Ix *const *idx)
{
    const Type *t = &result->type;
    const Node *stored = l->group->outs.at[k];
    const ConcatPart *part = l->group->parts ? &l->group->parts[k] : NULL;
    bool in_whole = part && part->whole;
    const Node *to = in_whole ? part->whole : stored;
    int v = lower_value(l, result, idx, -1);
    int buf = lower_buf(l, KA_NODE, to, t->dtype, type_count(&to->type));
    const Ix *at = ix_linear(l->body->ix, idx, t->dim, t->rank);
    if (in_whole) {
        at = within(l, part, type_count(t), at);
        l->body->bufs.at[buf].part += type_count(t);
    }
    lower_store(l, buf, at, v);
    lower_committed(l, stored);
}

// Lowers the results of the call that depend on these products, and if [rows] those that depend on
// rows alone, as one body.
static bool lower_products(LowerCtx *ctx, const Group *group, const Roots *r, const Outer *o, int n,
                           bool rows, BodyList *out)
{
    const Node *call = group->anchor;
    Graph *region = call->regions[0];
    Lower l = lower_begin(ctx, region, group);
    IxCtx *c = l.body->ix;
    l.call = call;
    const Type *w = &o->dot->args[o->side]->type;
    const int nb = o->weight.nbatch;
    int64_t dim[MAX_RANK], batch = 1, height = w->dim[o->weight.free[0]];
    for (int i = 0; i < nb; i++) batch *= dim[i] = w->dim[o->weight.batch[i]];
    const Ix *b = ix_axis(c, lower_new_axis(&l, batch), batch), *of[MAX_RANK];
    const Ix *row = ix_axis(c, lower_new_axis(&l, height), height);
    ix_delinear(c, b, dim, nb, of);
    l.body->npar = 2 + n;
    int head[MOST_PRODUCTS];
    for (int k = 0; k < n; k++) head[k] = lower_new_axis(&l, o[k].width);
    l.body->col = lower_new_axis(&l, w->dim[o->weight.contract[0]]);
    for (uint32_t i = 0; i < group->outs.n; i++) {
        const Node *stored = group->outs.at[i];
        int index = node_has(stored, OPF_RESULT) ? (int)attr_int(stored, ATTR_index, 0) : 0;
        const Node *result = region->results.at[index], *dot = r->product[result->id];
        const Ix *idx[MAX_RANK];
        if (!dot && rows) {
            const int64_t all[2] = {batch, height};
            const Ix *at[2] = {b, row};
            ix_delinear(c, ix_linear(c, at, all, 2), result->type.dim, result->type.rank, idx);
            store(&l, result, i, idx);
        }
        for (int k = 0; k < n && dot; k++) {
            if (o[k].dot != dot) continue;
            const Ix *place = ix_axis(c, head[k], o[k].width);
            for (int j = 0; j < nb; j++) idx[j] = of[j];
            idx[nb] = o[k].side ? place : row;
            idx[nb + 1] = o[k].side ? row : place;
            if (!carry(&l, r, result, dot, idx)) l.failed = true;
            if (!l.failed) store(&l, result, i, idx);
        }
    }
    if (l.failed || !attention_find(l.body)) return lower_failed(&l, call);
    if (ctx->target->kind == TARGET_CUDA && l.body->attention.tensor)
        l.body->attention.tensor = ctx->tf32 ? TENSOR_TF32 : TENSOR_F32;
    lower_finish(&l);
    vec_push(ctx->arena, out, l.body);
    return true;
}

bool lower_attention(LowerCtx *ctx, const Group *group, BodyList *out, bool *ordered)
{
    const Graph *region = group->anchor->regions[0];
    const Roots r = find_roots(ctx->arena, region);
    Outer o[MOST_PRODUCTS];
    int n = 0;
    int64_t heads = 0;
    for (uint32_t i = 0; i < region->results.n; i++) {
        const Node *dot = r.product[region->results.at[i]->id];
        bool known = !dot;
        for (int k = 0; k < n; k++) known |= o[k].dot == dot;
        if (known) continue;
        if (n == MOST_PRODUCTS || !find_outer(&r, dot, &o[n])) {
            Lower l = lower_begin(ctx, (Graph *)region, group);
            return lower_failed(&l, group->anchor);
        }
        heads += o[n++].width;
    }
    if (heads <= MOST_HEADS) return lower_products(ctx, group, &r, o, n, true, out);
    *ordered = true;
    for (int k = 0; k < n; k++)
        if (!lower_products(ctx, group, &r, &o[k], 1, k == 0, out)) return false;
    return true;
}
