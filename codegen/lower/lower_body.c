// Bodies of row and column reductions and of contractions, from the values that they store (outs).
#include <string.h>

#include "codegen/ir/reduction.h"
#include "codegen/lower/lower.h"
#include "ir/axes.h"

Lower lower_begin(LowerCtx *ctx, Graph *g, const Group *group)
{
    Lower l = {.ctx = ctx, .graph = g, .group = group};
    l.memo = idmap_new(ctx->arena);
    l.body = NEW(ctx->arena, Body);
    l.body->ix = ix_new(ctx->arena);
    l.body->col = l.body->error_buf = l.body->dot.sum = -1;
    l.body->group = group;
    l.body->in_loop = ctx->is_region;
    return l;
}

bool lower_failed(const Lower *l, const Node *n)
{
    diag_error(l->ctx->diags, n->loc,
               "no kernel can be generated for this %s: its expression is too large",
               op_info(n->op)->name);
    return false;
}

bool lower_commits(const LowerCtx *ctx, const Node *n)
{
    return ctx->commits ? ctx->commits[n->id] != COMMIT_NONE : n->op == OP_assign;
}

void lower_committed(Lower *l, const Node *n)
{
    if (!lower_commits(l->ctx, n)) return;
    l->body->commits = true;
    lower_error_buf(l);
}

bool lower_changes_part(const LowerCtx *ctx, const Node *n)
{
    return ctx->commits && ctx->commits[n->id] == COMMIT_PART;
}

const Type *lower_space(const Node *n)
{
    return node_class(n) == CLS_ROOT ? &n->args[0]->type : &n->type;
}

// Lowers the element of an out at idx and stores it.
void lower_out(Lower *l, const Node *n, const Ix *const *idx)
{
    const Type *t = lower_space(n);
    int v = lower_value(l, node_has(n, OPF_EFFECT) ? n->args[0] : n, idx, -1);
    if (node_has(n, OPF_EFFECT)) {
        const char *message = attr_str(n, ATTR_message);
        int check = lower_check(l, CHECK_ASSERT, message ? message : "assertion", n->loc, 0);
        lower_error_buf(l);
        l->body->can_fail = true;
        v = lower_inst(l, (Inst){.kind = KI_ASSERT,
                                 .type = DT_BOOL,
                                 .na = 1,
                                 .a = {v},
                                 .buf = check,
                                 .ix = ix_linear(l->body->ix, idx, t->dim, t->rank),
                                 .node = n});
        vec_push(l->ctx->arena, &l->body->stores, (BodyStore){.buf = -1, .value = v});
        return;
    }
    int buf = lower_buf(l, KA_NODE, n, t->dtype, type_count(t));
    lower_store(l, buf, ix_linear(l->body->ix, idx, t->dim, t->rank), v);
    lower_committed(l, n);
}

static int rare_stage(const Body *b)
{
    for (int stage = 1; stage < b->nstages; stage++) {
        int needed = 0, unless = 0;
        for (uint32_t i = 0; i < b->insts.n; i++) {
            const Inst *v = &b->insts.at[i];
            if (v->kind == KI_REDUCE && v->axis == b->col && v->stage == stage + 1)
                *(v->unless ? &unless : &needed) += 1;
        }
        if (unless && !needed) return stage;
    }
    return 0;
}

void lower_finish(Lower *l)
{
    Body *b = l->body;
    b->nstages = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_REDUCE && v->axis == b->col && v->stage > b->nstages)
            b->nstages = v->stage;
    }
    b->rare = rare_stage(b);
    for (uint32_t i = 0; i < b->stores.n; i++) {
        BodyStore *s = &b->stores.at[i];
        const Inst *v = &b->insts.at[s->value];
        int place = lower_ix_stage(l, s->ix);
        s->stage = v->stage > place ? v->stage : place;
        if (s->guard && b->insts.at[s->guard - 1].stage > s->stage)
            s->stage = b->insts.at[s->guard - 1].stage;
        if (!store_over(b, s, b->col)) continue;
        if (b->rare && s->stage == b->rare) s->stage++;
        if (s->stage >= b->nstages) b->nstages = s->stage + 1;
    }
}

// -- reductions -----------------------------------------------------------------------------------

// Lowers the outs, which all fit, over the rows and columns of a reduction. *folded: see
// lower_rows; set to false if the sums over rows are included.
Lower lower_over(LowerCtx *ctx, Graph *g, const Group *group, const Node *head, Node *const *mine,
                 int n, int how, bool *folded)
{
    Lower l = lower_begin(ctx, g, group);
    IxCtx *c = l.body->ix;
    const Type *x = &head->args[0]->type;
    int64_t rows = type_count(&head->type), cols = reduced_count(head);
    int r = lower_new_axis(&l, rows);
    l.one_pass = how & ONE_PASS && ctx->target->kind == TARGET_CUDA;
    l.early = how & EARLY;
    l.body->npar = 1;
    l.body->col = lower_new_axis(&l, cols);
    int count;
    const int64_t *axes = attr_ints(head, ATTR_axes, &count);
    int64_t kept_dim[MAX_RANK], red_dim[MAX_RANK];
    int nk = 0, nr = 0;
    for (int i = 0; i < x->rank; i++)
        if (nr < count && axes[nr] == i)
            red_dim[nr++] = x->dim[i];
        else
            kept_dim[nk++] = x->dim[i];
    const Ix *kept[MAX_RANK], *sub[MAX_RANK], *at[MAX_RANK], *idx[MAX_RANK];
    const Ix *row = ix_axis(c, r, rows);
    ix_delinear(c, row, kept_dim, nk, kept);
    ix_delinear(c, ix_axis(c, l.body->col, cols), red_dim, nr, sub);
    for (int i = 0, a = 0, k = 0; i < x->rank; i++)
        at[i] = a < count && axes[a] == i ? sub[a++] : kept[k++];
    const Ix *flat = ix_linear(c, at, x->dim, x->rank);
    for (int i = 0; i < n; i++) {
        const Type *t = lower_space(mine[i]);
        bool over_cols = type_count(t) != rows;
        if (over_cols && shape_equal(t, x)) {
            lower_out(&l, mine[i], at);
        } else {
            ix_delinear(c, over_cols ? flat : row, t->dim, t->rank, idx);
            lower_out(&l, mine[i], idx);
        }
    }
    if (*folded && lower_folds(&l, row, ix_axis(c, l.body->col, cols))) *folded = false;
    if (!l.failed) lower_finish(&l);
    return l;
}

// -- contractions ---------------------------------------------------------------------------------

static bool type_is_half(DType t)
{
    return t == DT_BF16 || t == DT_F16;
}

// Whether the body is a matrix product: a single sum of products, each factor of which does not
// depend on one axis of the result. Sets Body.dot.
static bool find_product(Body *b)
{
    uint64_t m = 1ull << 1, n = 1ull << 2;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_REDUCE || v->axis != b->col) continue;
        const Inst *p = &b->insts.at[v->a[0]];
        if (b->dot.sum >= 0 || v->op != OP_sum || p->kind != KI_EW || p->op != OP_mul) return false;
        b->dot.sum = (int)i;
        b->dot.a = p->a[0];
        b->dot.b = p->a[1];
    }
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (!s->fold && s->ix && s->ix->axes >> b->col & 1) return false;
    }
    if (b->dot.sum < 0 || b->insts.at[b->dot.a].axes & n || b->insts.at[b->dot.b].axes & m)
        return false;
    return true;
}

static int64_t last_summed(const Node *dot)
{
    const DotAxes axes = dot_axes(dot, 0);
    return axes.contract[axes.ncontract - 1];
}

// Whether neighbouring windows share the pixels of a line.
static bool lines_in_copies(const Attrs *window)
{
    const WindowAxes w = window_axes(window);
    return w.n > 1 && w.size[w.n - 1] > 1 && w.stride[w.n - 1] == 1;
}

// Bulk copies of windows copy 64 channels of a pixel (ir/body_windows.c). If a dot contracts pixels
// with a number of channels that is no multiple of 64, the contracted axis is extended to the next
// multiple: copies from outside of a tensor are zeros. Returns that number of channels; 0: not
// necessary, or too expensive.
static int64_t counted_channels(const LowerCtx *ctx, const Node *dot)
{
    const DotSizes size = dot_sizes(dot);
    if (size.batch > 1) return 0;
    for (int k = 0; k < 2; k++) {
        const Node *x = dot->args[k];
        const DotAxes axes = dot_axes(dot, k);
        if (x->op != OP_window || !type_is_half(x->type.dtype) ||
            dot->args[!k]->type.dtype != x->type.dtype || axes.ncontract < 2)
            continue;
        const int64_t channels = x->type.dim[x->type.rank - 1];
        bool pixels = false;
        for (int i = 0; i < axes.ncontract; i++)
            pixels |= axes.contract[i] == window_axes(x->attrs).at;
        const int64_t counted = target_copied_channels(ctx->target, channels, size.m * size.n,
                                                       lines_in_copies(x->attrs));
        if (pixels && axes.contract[axes.ncontract - 1] == x->type.rank - 1 && counted > channels)
            return counted;
    }
    return 0;
}

// The groups of a product that merge_groups has made of a grouped one (Body.dot).
static void find_groups(Lower *l, const Node *dot)
{
    int n;
    const int64_t *groups = attr_ints(dot, ATTR_groups, &n);
    const DotAxes axes = dot_axes(dot, 1);
    const Type *image = &dot->args[0]->type;
    if (n != 2 || axes.nbatch || axes.nfree != 1 || last_summed(dot) != image->rank - 1) return;
    l->body->dot.deep = l->channels ? l->channels : image->dim[image->rank - 1];
    l->body->dot.channels = groups[0];
    l->body->dot.results = groups[1];
}

// Lowers the outs, which have the index space of the contraction, over batch, m, n and k. [folded]:
// also sums over the rows of its left operand or of its result.
Lower lower_product(LowerCtx *ctx, Graph *g, const Group *group, const Node *dot, Node *const *outs,
                    int n, bool folded)
{
    const DotSizes whole = dot_sizes(dot);
    const int64_t size[3] = {whole.batch, whole.m, whole.n};
    Lower l = lower_begin(ctx, g, group);
    IxCtx *c = l.body->ix;
    const Ix *axis[3], *idx[MAX_RANK];
    for (int i = 0; i < 3; i++) axis[i] = ix_axis(c, lower_new_axis(&l, size[i]), size[i]);
    l.body->npar = 3;
    l.product = dot;
    l.channels = counted_channels(ctx, dot);
    int64_t k = whole.k;
    if (l.channels) k = k / dot->args[0]->type.dim[last_summed(dot)] * l.channels;
    l.body->col = lower_new_axis(&l, k);
    const Ix *flat = ix_linear(c, axis, size, 3);
    for (int i = 0; i < n; i++) {
        ix_delinear(c, flat, lower_space(outs[i])->dim, lower_space(outs[i])->rank, idx);
        lower_out(&l, outs[i], idx);
    }
    const Ix *kept = folded && lower_folds_result(&l, dot) ? axis[2] : ix_axis(c, l.body->col, k);
    if (l.failed || (folded && !lower_folds(&l, axis[1], kept)) || !find_product(l.body)) {
        l.failed = true;
        return l;
    }
    find_groups(&l, dot);
    const DType ta = dot->args[0]->type.dtype, tb = dot->args[1]->type.dtype;
    bool narrow = type_is_half(ta) && type_is_half(tb); // exact as tf32
    if (ctx->target->kind == TARGET_CUDA && l.body->insts.at[l.body->dot.sum].acc == DT_F32)
        l.body->dot.tensor = narrow                         ? TENSOR_TF32
                             : ta != DT_F32 || tb != DT_F32 ? 0
                             : ctx->tf32                    ? TENSOR_TF32
                                                            : TENSOR_F32;
    if (narrow && ctx->target->group_products) body_windows(ctx->arena, l.body);
    lower_finish(&l);
    return l;
}

// Lowers a matrix-vector product, or another product with short sums: each result is a row.
Lower lower_vector_product(LowerCtx *ctx, Graph *g, const Group *group, const Node *dot,
                           Node *const *outs, int n)
{
    Lower l = lower_begin(ctx, g, group);
    int64_t rows = type_count(&dot->type);
    const Ix *row = ix_axis(l.body->ix, lower_new_axis(&l, rows), rows), *idx[MAX_RANK];
    const DotSizes size = dot_sizes(dot);
    l.body->npar = 1;
    l.body->beside = size.m > 1 && size.n > 1;
    l.body->col = lower_new_axis(&l, size.k);
    for (int i = 0; i < n; i++) {
        const Type *t = lower_space(outs[i]);
        ix_delinear(l.body->ix, row, t->dim, t->rank, idx);
        lower_out(&l, outs[i], idx);
    }
    if (!l.failed) lower_finish(&l);
    return l;
}
