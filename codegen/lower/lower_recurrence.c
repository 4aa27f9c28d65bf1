// A loop that runs as one kernel (passes/recurrences.c): its iterations are the columns of a body,
// in order, and the elements of its carried values are the rows.
#include <string.h>

#include "codegen/lower/lower.h"
#include "ir/loop.h"

// The index of a value's element that belongs to the row; of a value without the last axis, that of
// all rows along it.
static void element(const Lower *l, const Ix *row, int64_t rows, const Type *t, const Ix **idx)
{
    int64_t dim[MAX_RANK + 1];
    const Ix *at[MAX_RANK + 1];
    const bool whole = type_count(t) == rows;
    memcpy(dim, t->dim, sizeof t->dim);
    dim[t->rank] = l->lanes;
    ix_delinear(l->body->ix, row, dim, t->rank + !whole, at);
    memcpy(idx, at, sizeof *at * (size_t)t->rank);
}

// The carried values at the beginning of an iteration. [first]: their index.
static const int *carried_values(Lower *l, const Ix *row, int64_t rows)
{
    const Node *loop = l->call;
    const int64_t n = attr_int(loop, ATTR_carried, 0);
    int *carried = NEW_ARRAY(l->ctx->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        const Node *initial = loop->args[i];
        const Ix *idx[MAX_RANK];
        element(l, row, rows, &initial->type, idx);
        carried[i] = lower_inst(l, (Inst){.kind = KI_CARRIED,
                                          .type = initial->type.dtype,
                                          .na = 1,
                                          .a = {lower_value_given(l, initial, idx, -1)},
                                          .axis = l->body->col,
                                          .buf = i, // values with equal beginnings are different
                                          .node = initial});
    }
    return carried;
}

static int first_lane(Lower *l)
{
    const int lane = lower_index(l, l->lane);
    return lower_two(l, OP_eq, DT_BOOL, lane, lower_const_int(l, l->body->insts.at[lane].type, 0));
}

bool lower_recurrence(LowerCtx *ctx, const Group *group, BodyList *out)
{
    const Node *loop = group->anchor;
    Graph *region = loop->regions[0];
    const int64_t carried = attr_int(loop, ATTR_carried, 0), count = attr_int(loop, ATTR_count, 0),
                  rows = recurrence_shape(loop).elements;
    Lower l = lower_begin(ctx, region, group);
    IxCtx *c = l.body->ix;
    const Ix *row = ix_axis(c, lower_new_axis(&l, rows), rows), *idx[MAX_RANK];
    l.call = loop;
    l.body->npar = 1;
    l.body->serial_cols = true;
    l.body->col = lower_new_axis(&l, count);
    const RecurrenceShape shape = recurrence_shape(loop);
    if (recurrence_meets(region, (uint32_t)carried))
        l.body->meets = shape.row->dim[shape.row->rank - 1];
    else
        l.lanes = shape.lanes;
    const int64_t together = l.body->meets ? l.body->meets : l.lanes;
    l.lane = together ? ix_mod(c, row, together) : NULL;
    l.carried = carried_values(&l, row, rows);
    l.iteration = ix_axis(c, l.body->col, count);
    if (attr_int(loop, ATTR_reverse, 0))
        l.iteration = ix_add(c, ix_const(c, count - 1), ix_scale(c, l.iteration, -1));
    for (int i = 0; i < carried; i++) {
        const Node *next = region->results.at[i];
        element(&l, row, rows, &next->type, idx);
        const int v = lower_cast(&l, lower_value(&l, next, idx, -1), next->type.dtype, NULL);
        vec_push(ctx->arena, &l.body->stores,
                 (BodyStore){.buf = -1, .value = v, .carries = 1 + l.carried[i]});
    }
    for (uint32_t k = 0; k < group->outs.n; k++) {
        const Node *stored = group->outs.at[k];
        const int i = node_has(stored, OPF_RESULT) ? (int)attr_int(stored, ATTR_index, 0) : 0;
        const Node *result = region->results.at[i];
        const Type *t = &stored->type;
        element(&l, row, rows, &result->type, idx + (i >= carried));
        if (i >= carried) idx[0] = l.iteration;
        const int v = i < carried ? lower_inst(&l, (Inst){.kind = KI_LAST,
                                                          .type = t->dtype,
                                                          .na = 1,
                                                          .a = {l.carried[i]},
                                                          .axis = l.body->col,
                                                          .node = stored})
                                  : lower_value(&l, result, idx + 1, -1);
        lower_store(&l, lower_buf(&l, KA_NODE, stored, t->dtype, type_count(t)),
                    ix_linear(c, idx, t->dim, t->rank), v);
        if (type_count(&result->type) < rows) // one of the rows along the last axis stores it
            l.body->stores.at[l.body->stores.n - 1].guard = 1 + first_lane(&l);
        lower_committed(&l, stored);
    }
    if (l.failed) return lower_failed(&l, loop);
    lower_finish(&l);
    if (l.body->nstages < 1) l.body->nstages = 1;
    vec_push(ctx->arena, out, l.body);
    return true;
}
