// Sums over the rows within a row body, or within a contraction, of its left operand or of its
// result: the body stores one partial sum a block, or a tile of rows (BodyStore.fold), and
// a second body adds the partial sums and computes what follows column by column.
#include "codegen/ir/reduction.h"
#include "codegen/lower/lower.h"
#include "ir/axes.h"

typedef VEC(const Node *) Folds;

// Whether all axes that a reduction sums over are outside of those that it keeps.
static bool over_rows(const Node *r)
{
    int n;
    const int64_t *axes = attr_ints(r, ATTR_axes, &n);
    const Type *t = &r->args[0]->type;
    bool kept = false;
    for (int i = 0, k = 0; i < t->rank; i++) {
        bool reduced = k < n && axes[k] == i;
        k += reduced;
        if (t->dim[i] == 1) continue;
        if (reduced && kept) return false;
        kept |= !reduced;
    }
    return true;
}

// Whether the node is read from memory, not computed by the group.
static bool is_beside(const Lower *l, const Node *n)
{
    const uint32_t stored = l->graph->fusion->group_of[n->id];
    return node_class(n) == CLS_LEAF || node_has(n, OPF_RESULT) ||
           (stored && stored - 1 != l->group->id && !group_computes(l->group, n));
}

// A traversal from the folded outs of a group to what they depend on; visits each node once.
typedef struct Walk {
    const Lower *l;
    VEC(const Node *) work;
    IdMap seen;
} Walk;

static Walk walk_begin(const Lower *l)
{
    Walk w = {.l = l, .seen = idmap_new(l->ctx->arena)};
    for (uint32_t i = 0; i < l->group->folded.n; i++)
        vec_push(l->ctx->arena, &w.work, l->group->folded.at[i]);
    return w;
}

static const Node *walk_next(Walk *w)
{
    while (w->work.n) {
        const Node *n = w->work.at[--w->work.n];
        if (idmap_get(&w->seen, n->id, NULL)) continue;
        idmap_set(&w->seen, n->id, 1);
        return n;
    }
    return NULL;
}

static void walk_behind(Walk *w, const Node *n)
{
    for (uint32_t i = 0; i < n->nargs; i++) vec_push(w->l->ctx->arena, &w->work, n->args[i]);
}

// The reductions on which the folded outs of a group depend. false: some are not over these rows
// and columns.
static bool find_folds(const Lower *l, int64_t rows, int64_t cols, Folds *out)
{
    Walk w = walk_begin(l);
    for (const Node *n; (n = walk_next(&w));) {
        if (is_beside(l, n)) continue;
        if (node_class(n) != CLS_REDUCE) {
            walk_behind(&w, n);
            continue;
        }
        if (type_count(&n->type) != cols || reduced_count(n) != rows || !over_rows(n) ||
            accumulator(n->op)->place || n->type.dtype == DT_BOOL)
            return false;
        vec_push(l->ctx->arena, out, n);
    }
    return out->n > 0;
}

bool lower_folds_result(const Lower *l, const Node *dot)
{
    Walk w = walk_begin(l);
    for (const Node *n; (n = walk_next(&w));) {
        if (n == dot) return true;
        if (!is_beside(l, n)) walk_behind(&w, n);
    }
    return false;
}

// The number of values that a reduction stores for combination: the parts of its accumulator and,
// if needed, the number of rows.
static int kept_of(const Node *fold)
{
    return accumulator(fold->op)->nparts + accumulator(fold->op)->runs;
}

bool lower_folds(Lower *l, const Ix *row, const Ix *col)
{
    IxCtx *c = l->body->ix;
    int64_t dim[2] = {row->high + 1, col->high + 1};
    Folds folds = {0};
    if (dim[0] < 2 || dim[1] < 2 || !find_folds(l, dim[0], dim[1], &folds)) return false;
    const Ix *at[MAX_RANK], *flat = ix_linear(c, (const Ix *[]){row, col}, dim, 2);
    for (uint32_t i = 0; i < folds.n; i++) {
        const Node *n = folds.at[i], *x = n->args[0];
        DType acc = acc_type_of(n);
        ix_delinear(c, flat, x->type.dim, x->type.rank, at);
        int v = lower_cast(l, lower_value(l, x, at, -1), acc, NULL);
        for (int kept = 0; kept < kept_of(n); kept++) {
            lower_store(l, lower_buf(l, KA_SCRATCH, NULL, acc, 0), col, v);
            BodyStore *s = &l->body->stores.at[l->body->stores.n - 1];
            s->fold = n;
            s->kept = kept;
        }
    }
    return true;
}

// The number of partial results that a scheduled body with folds stores for each.
static int64_t body_parts(const Body *b)
{
    if (body_folds_results(b))
        return b->sched.blocks / ceil_div(b->axis[2].extent, b->sched.tile.n);
    return b->sched.kind == SCHED_TILE ? ceil_div(b->axis[1].extent, b->sched.tile.m)
                                       : b->sched.blocks;
}

// Loads a partial sum, from a scratch buffer of its own with one element per part and column.
static int load_kept(Lower *l, BodyBuf *from, const Ix *place, int64_t elems, int *scratch)
{
    from->scratch = (*scratch)++;
    from->elems = elems;
    int buf = lower_buf(l, KA_SCRATCH, NULL, from->type, from->elems);
    l->body->bufs.at[buf].scratch = from->scratch;
    l->body->bufs.at[buf].read = true;
    return lower_inst(
        l, (Inst){.kind = KI_LOAD, .type = from->type, .buf = buf, .pred = -1, .ix = place});
}

bool lower_joined(LowerCtx *ctx, Graph *g, Body *sweep, int *scratch, Body **out)
{
    Lower l = lower_begin(ctx, g, sweep->group);
    Body *b = l.body;
    IxCtx *c = b->ix;
    const int kept = body_folds_results(sweep) ? 2 : sweep->col;
    int64_t cols = sweep->axis[kept].extent, parts = body_parts(sweep);
    const Ix *col = ix_axis(c, lower_new_axis(&l, cols), cols), *at[MAX_RANK];
    b->npar = 1;
    b->joins = true;
    b->col = lower_new_axis(&l, parts);
    const Ix *place = ix_add(c, ix_scale(c, ix_axis(c, b->col, parts), cols), col);
    for (uint32_t i = 0; i < sweep->stores.n; i++) {
        const BodyStore *s = &sweep->stores.at[i];
        if (!s->fold || s->kept) continue;
        const DType t = sweep->bufs.at[s->buf].type;
        Inst all = {.kind = KI_REDUCE, .op = s->fold->op, .type = t, .acc = t, .axis = b->col};
        all.node = s->fold;
        for (; all.na < kept_of(s->fold); all.na++)
            all.a[all.na] =
                load_kept(&l, &sweep->bufs.at[s[all.na].buf], place, parts * cols, scratch);
        int v = lower_cast(&l, lower_inst(&l, all), s->fold->type.dtype, s->fold);
        ix_delinear(c, col, s->fold->type.dim, s->fold->type.rank, at);
        lower_known(&l, s->fold, at, v);
    }
    for (uint32_t i = 0; i < sweep->group->folded.n; i++) {
        const Node *n = sweep->group->folded.at[i];
        const Type *t = node_class(n) == CLS_ROOT ? &n->args[0]->type : &n->type;
        ix_delinear(c, col, t->dim, t->rank, at);
        lower_out(&l, n, at);
    }
    if (l.failed) {
        diag_error(ctx->diags, sweep->group->folded.at[0]->loc,
                   "no kernel can be generated for what is computed from this sum over rows");
        return false;
    }
    lower_finish(&l);
    *out = b;
    return true;
}
