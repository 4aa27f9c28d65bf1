// Finds the op that causes a loss that is not finite. A failed step commits nothing, so the session
// still holds the state from before the step: the reference evaluator repeats the step and finds
// the first bad value.
#include "lib/train/diagnose.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"

typedef struct Replay {
    netc_session *s;
    const Entry *entry;
    netc_dataset *data;
    const int32_t *rows; // of this step's batch; NULL: the first examples in order
    int64_t step;
    Arena *arena;
    netc_error **err;
    netc_status status;
} Replay;

static Value *cell_value(Replay *r, const ProgCell *c, RtError *e)
{
    Type t = type_make((DType)c->type.dtype, c->type.rank, c->type.dim);
    size_t n = (size_t)prog_type_bytes(&c->type);
    void *bytes = arena_alloc(r->arena, n);
    if (rt_cell_read(r->s->rt, c->name, bytes, n, e)) return NULL;
    Value *v = NEW(r->arena, Value);
    *v = value_new(r->arena, &t);
    value_from_bytes(v, bytes);
    return v;
}

static Value *batch_value(Replay *r, const Node *input)
{
    const RtArray *a = r->data ? dataset_find(r->data, attr_str(input, ATTR_name)) : NULL;
    int64_t batch = input->type.rank ? input->type.dim[0] : 0;
    if (!a || !batch || !a->type.dim[0]) return NULL;
    size_t row = a->bytes / (size_t)a->type.dim[0];
    char *bytes = arena_array(r->arena, (size_t)batch, row);
    for (int64_t i = 0; i < batch; i++) {
        int64_t from = r->rows ? r->rows[i] : i;
        if (from < 0 || from >= a->type.dim[0]) return NULL;
        RtError e = {0};
        if (rt_array_row(a, from, bytes + (size_t)i * row, &e)) return NULL;
    }
    Value *v = NEW(r->arena, Value);
    *v = value_new(r->arena, &input->type);
    value_from_bytes(v, bytes);
    return v;
}

// What the first bad value is: a value of the data or of a parameter or state, or a result.
static const char *what_is_bad(const Replay *r, const Node *bad, const EvalEnv *env)
{
    const char *name = bad->op == OP_input || bad->op == OP_param || bad->op == OP_state
                           ? attr_str(bad, ATTR_name)
                           : NULL;
    if (!name)
        return arena_printf(r->arena, "the result of '%s'%s%s%s", op_info(bad->op)->name,
                            bad->name ? " (" : "", bad->name ? bad->name : "",
                            bad->name ? ")" : "");
    if (bad->op != OP_input)
        return arena_printf(r->arena, "in %s '%s', as the step began",
                            bad->op == OP_param ? "parameter" : "state", name);
    const Value *v = strmap_get(&env->inputs, name);
    const int64_t n = type_count(&v->type), batch = v->type.rank ? v->type.dim[0] : 1;
    int64_t at = 0;
    while (at < n - 1 && isfinite(value_get(v, at))) at++;
    const int64_t row = at / (n / batch);
    return arena_printf(r->arena, "%g in example %" PRId64 " of the data of input '%s'",
                        value_get(v, at), r->rows ? r->rows[row] : row, name);
}

static void replay(void *arg)
{
    Replay *r = arg;
    const Graph *g = r->entry->graph;
    EvalEnv env = {.arena = r->arena,
                   .inputs = strmap_new(r->arena),
                   .cells = strmap_new(r->arena),
                   .round = true};
    RtError e = {0};
    for (int i = 0; i < rt_cell_count(r->s->rt); i++) {
        const ProgCell *c = rt_cell_info(r->s->rt, i);
        Value *v = cell_value(r, c, &e);
        if (!v) return;
        strmap_set(&env.cells, c->name, v);
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op != OP_input) continue;
        Value *v = batch_value(r, n);
        if (!v) return;
        strmap_set(&env.inputs, attr_str(n, ATTR_name), v);
    }
    EvalResult result = {0};
    if (!eval_graph(g, &env, &result) || !result.first_nonfinite) return;
    const Node *bad = result.first_nonfinite;
    // Diagnostics of its own with the build's sources: the build is shared and must not change.
    Diags *d = diags_new(r->arena);
    d->sources.at = g->diags->sources.at;
    d->sources.n = g->diags->sources.n;
    d->locs.at = g->diags->locs.at;
    d->locs.n = g->diags->locs.n;
    Diag *diag = diag_error(d, bad->loc,
                            "the loss, its gradient or an update is not finite at step %" PRId64
                            "; the first value that is not "
                            "is %s",
                            r->step, what_is_bad(r, bad, &env));
    diag_note(d, diag,
              "nothing of this step was kept: parameters and states are those of step %" PRId64,
              r->step);
    r->status = lib_fail_diags(r->err, NETC_CHECK_FAILED, d);
}

netc_status diagnose_nonfinite(netc_session *s, Build *b, const char *entry, netc_dataset *data,
                               const int32_t *rows, int64_t step, netc_error **err)
{
    const Entry *e = b->module ? module_entry(b->module, entry) : NULL;
    Arena *a = e ? arena_new() : NULL;
    if (!a) return NETC_OK;
    Replay r = {
        .s = s, .entry = e, .data = data, .rows = rows, .step = step, .arena = a, .err = err};
    lib_guarded(a, replay, &r);
    arena_free(a);
    return r.status;
}
