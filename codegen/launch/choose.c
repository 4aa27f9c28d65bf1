// Groups to bodies: the axes of the loop nest for a group's outs, and the way to lower them, chosen
// by comparing the schedules that result.
#include "codegen/lower/lower.h"
#include "codegen/ir/reduction.h"
#include "codegen/launch/launch.h"
#include "codegen/schedule/plans.h"
#include "codegen/tile/wgmma.h"
#include "ir/axes.h"

// The node of a class, with the most elements, that the outs depend on inside the group: the
// reduction whose rows and columns a body has, or the contraction around which a tiled body is
// built.
static const Node *lead(LowerCtx *ctx, Graph *g, const Group *group, OpClass class,
                        Node *const *outs, int n)
{
    VEC(const Node *) work = {0};
    IdMap seen = idmap_new(ctx->arena);
    const Node *best = NULL;
    for (int i = 0; i < n; i++) vec_push(ctx->arena, &work, outs[i]);
    while (work.n) {
        const Node *v = work.at[--work.n];
        if (idmap_get(&seen, v->id, NULL)) continue;
        idmap_set(&seen, v->id, 1);
        uint32_t stored = g->fusion->group_of[v->id];
        if ((stored && stored - 1 != group->id && !group_computes(group, v)) ||
            node_class(v) == CLS_LEAF || node_class(v) == CLS_REGION || node_has(v, OPF_RESULT))
            continue;
        if (node_class(v) == class) {
            int64_t a = type_count(&v->args[0]->type),
                    b = best ? type_count(&best->args[0]->type) : -1;
            if (a > b || (a == b && v->id < best->id)) best = v;
        }
        for (uint32_t i = 0; i < v->nargs; i++) vec_push(ctx->arena, &work, v->args[i]);
    }
    return best;
}

static Lower scheduled(Lower l)
{
    if (!l.failed) schedule_body(l.ctx, l.body);
    return l;
}

static bool fits_rows(const Node *n, int64_t rows, int64_t cols, bool *over_cols)
{
    int64_t count = type_count(lower_space(n));
    *over_cols = count != rows;
    return count == rows || count == rows * cols;
}

// [folded]: the group's sums over rows become part of the first body, if they have the same rows.
static bool lower_rows(LowerCtx *ctx, Graph *g, const Group *group, Node *const *outs, int n,
                       bool folded, BodyList *out)
{
    if (n == 0 && folded)
        return lower_rows(ctx, g, group, group->folded.at, (int)group->folded.n, false, out);
    if (n == 0) return true;
    const Node *head = lead(ctx, g, group, CLS_REDUCE, outs, n);
    if (!head) {
        // No reduction is left: maps, one for each index space.
        VEC(Node *) like = {0}, rest = {0};
        for (int i = 0; i < n; i++)
            if (type_count(lower_space(outs[i])) == type_count(lower_space(outs[0])))
                vec_push(ctx->arena, &like, outs[i]);
            else
                vec_push(ctx->arena, &rest, outs[i]);
        return lower_map(ctx, g, group, like.at, (int)like.n, NULL, out) &&
               lower_rows(ctx, g, group, rest.at, (int)rest.n, folded, out);
    }
    int64_t rows = type_count(&head->type), cols = reduced_count(head);
    VEC(Node *) mine = {0}, rest = {0};
    bool over_cols;
    for (int i = 0; i < n; i++)
        if (fits_rows(outs[i], rows, cols, &over_cols))
            vec_push(ctx->arena, &mine, outs[i]);
        else
            vec_push(ctx->arena, &rest, outs[i]);
    if (mine.n ==
        0) { // the reduction is inside of a different space: a loop in each of its elements
        Node *first = outs[0];
        return lower_map(ctx, g, group, &first, 1, NULL, out) &&
               lower_rows(ctx, g, group, outs + 1, n - 1, folded, out);
    }
    Lower several;
    if (!folded && lower_several(ctx, g, group, head, mine.at, (int)mine.n, &several) &&
        scheduled(several).body->sched.kind == SCHED_COLUMN) {
        vec_push(ctx->arena, out, several.body);
        return lower_rows(ctx, g, group, rest.at, (int)rest.n, folded, out);
    }
    bool fold = folded;
    Lower l = scheduled(lower_over(ctx, g, group, head, mine.at, (int)mine.n, ONE_PASS, &fold));
    if (!l.failed && l.body->sched.kind != SCHED_COLUMN && reduces_with(l.body, ACC_MOMENTS)) {
        fold = folded;
        l = scheduled(lower_over(ctx, g, group, head, mine.at, (int)mine.n, 0, &fold));
    }
    if (!l.failed && l.body->sched.kind == SCHED_SWEEP && l.body->nstages > 3) {
        bool rest = folded;
        Lower early =
            scheduled(lower_over(ctx, g, group, head, mine.at, (int)mine.n, EARLY, &rest));
        if (!early.failed && rest == fold && sweep_saves(early.body)) l = early;
    }
    if (l.failed) return lower_failed(&l, outs[0]);
    folded = fold;
    vec_push(ctx->arena, out, l.body);
    return lower_rows(ctx, g, group, rest.at, (int)rest.n, folded, out);
}

// -- contractions ---------------------------------------------------------------------------------

// Whether the sums over rows in a contraction's body are of its left operand as it is read, and the
// schedule's tiles pass where they can be computed.
static bool folds_left(const Body *b)
{
    const Inst *left = &b->insts.at[b->dot.a];
    if (b->sched.variant != RUN_GROUPS || body_folds_results(b) || !wgmma_sums(b)) return false;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (s->fold &&
            (s->fold->op != OP_sum || inst_uncast(b, s->value) != &b->insts.at[left->a[0]]))
            return false;
    }
    return true;
}

// Lowers the contraction as one tiled body if all outs have its index space and nothing else is
// summed except, in addition, the rows of its left operand or of its result.
static bool lower_dot(LowerCtx *ctx, Graph *g, const Group *group, Node *const *outs, int n,
                      bool folded, BodyList *out, bool *done)
{
    const Node *dot = lead(ctx, g, group, CLS_DOT, outs, n);
    *done = false;
    if (!dot) return true;
    for (int i = 0; i < n; i++)
        if (type_count(lower_space(outs[i])) != type_count(&dot->type) ||
            node_has(outs[i], OPF_EFFECT))
            return true;
    if (type_count(&dot->type) == 0) return true;
    const DotSizes size = dot_sizes(dot);
    bool vector = target_row_by_row(ctx->target, size.m, size.n, size.k);
    Lower l = scheduled(vector ? lower_vector_product(ctx, g, group, dot, outs, n)
                               : lower_product(ctx, g, group, dot, outs, n, folded));
    if (l.failed || (folded && !folds_left(l.body) && !wgmma_adds_columns(l.body)))
        return true; // each element is computed separately instead
    *done = true;
    vec_push(ctx->arena, out, l.body);
    return true;
}

// -- entry points ---------------------------------------------------------------------------------

static bool lower_group(LowerCtx *ctx, Graph *g, const Group *group, BodyList *out, bool *ordered)
{
    *ordered = false;
    if (group->kind == GROUP_CALL)
        return group->anchor->op == OP_loop ? lower_recurrence(ctx, group, out)
                                            : lower_attention(ctx, group, out, ordered);
    if (group->kind == GROUP_SCATTER) {
        *ordered = true;
        return lower_scatter(ctx, g, group, group->anchor, out);
    }
    if (group->kind == GROUP_SCAN) {
        const Node *n = group->anchor;
        int64_t cols = n->args[0]->type.dim[attr_int(n, ATTR_axis, 0)];
        const int64_t first = attr_int(n, ATTR_first, 0);
        const Type *t = &n->args[0]->type;
        const int64_t rows = type_count(t) / cols;
        const bool cuda = ctx->target->kind == TARGET_CUDA;
        if (op_info(n->op)->running || (first  ? first_fits(cols, first)
                                   : cuda ? sort_in_block(ctx->target, rows, cols, t->dtype)
                                          : sort_fits(ctx->target, cols, t->dtype)))
            return lower_ordered(ctx, g, group, n, out);
        *ordered = cuda && cols >= 64 && cols <= INT32_MAX / 4 && !first;
        return (*ordered ? lower_radix : lower_sort)(ctx, g, group, n, out);
    }
    // Sums over rows that are computed in addition are stored by another body.
    bool folds = group->folded.n && ctx->target->kind == TARGET_CUDA;
    VEC(Node *) outs = {0};
    for (uint32_t i = 0; i < group->outs.n; i++) {
        bool folded = false;
        for (uint32_t k = 0; k < group->folded.n && folds; k++)
            folded |= group->folded.at[k] == group->outs.at[i];
        if (!folded) vec_push(ctx->arena, &outs, group->outs.at[i]);
    }
    if (group->kind == GROUP_ROW || group->kind == GROUP_COLUMN)
        return lower_rows(ctx, g, group, outs.at, (int)outs.n, folds, out);
    bool done = false;
    if (group->kind == GROUP_DOT &&
        !lower_dot(ctx, g, group, outs.at, (int)outs.n, folds, out, &done))
        return false;
    if (done) return true;
    // Maps: a body for each index space. The largest comes first, since others may be like its
    // pieces.
    NodeList left = {0};
    for (uint32_t i = 0; i < group->outs.n; i++) vec_push(ctx->arena, &left, group->outs.at[i]);
    while (left.n) {
        NodeList like = {0}, rest = {0};
        int64_t most = 0;
        for (uint32_t i = 0; i < left.n; i++) {
            int64_t count = type_count(lower_space(left.at[i]));
            if (count > most) most = count;
        }
        for (uint32_t i = 0; i < left.n; i++)
            if (type_count(lower_space(left.at[i])) == most)
                vec_push(ctx->arena, &like, left.at[i]);
            else
                vec_push(ctx->arena, &rest, left.at[i]);
        if (!lower_map(ctx, g, group, like.at, (int)like.n, &rest, out)) return false;
        left = rest;
    }
    return true;
}

bool launch_bodies(LowerCtx *ctx, Graph *g, const Group *group, BodyList *out, bool *ordered)
{
    uint32_t first = out->n;
    if (!lower_group(ctx, g, group, out, ordered)) return false;
    for (uint32_t i = first; i < out->n; i++)
        if (!out->at[i]->sched.threads) schedule_body(ctx, out->at[i]);
    return true;
}
