// accumulate n: a loop over micro-batches that carries sums of gradients and outputs, and the
// model's own states.
#include <string.h>

#include "frontend/elab_train.h"

// One iteration of the loop over micro-batches: the model on a slice of the batch, its loss, the
// gradients.
typedef struct Micro {
    CellList states;       // states that the model writes
    Seq *outputs;          // of the trial elaboration, for their types
    VEC(uint32_t) scalars; // outputs whose mean is taken
    NodeList init; // initial values of what is carried: sums of gradients, states, sums of outputs
} Micro;

static bool is_scalar_output(const Val *v)
{
    return v->kind == V_TENSOR && v->node->type.rank == 0 && v->node->type.dtype != DT_BOOL;
}

// Elaborates the model in a graph of its own to define its cells and find out what it writes and
// returns.
static bool trial(Elab *e, TrainState *t, const Stmt *s, Micro *m)
{
    Graph *root = e->root;
    NodeList cur = train_cells(e);
    VEC(bool) flags = {0};
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        vec_push(e->arena, &flags, c->written);
        c->cur = NULL;
        c->written = false;
    }
    uint32_t tallies = e->tallied.n;
    e->root = e->g = elab_graph(e);
    Val *inputs = NEW_ARRAY(e->arena, Val, t->inputs.n + 1);
    for (uint32_t i = 0; i < t->inputs.n; i++)
        inputs[i] = val_node(make_input(e, &t->inputs.at[i], 0));
    m->outputs = train_model(e, t, inputs);
    bool ok = m->outputs != NULL;
    if (ok) {
        train_bind(e, t, m->outputs);
        t->ran = true;
        ok = train_choose(e, t, s);
        Node *loss = ok ? train_loss(e, s) : NULL;
        NodeList grads = {0};
        ok = loss && train_gradients(e, t, s, loss, &grads);
        const bool *tallied = tally_reached(e, tallies);
        for (uint32_t i = 0; i < m->outputs->n; i++) {
            const Val *v = &m->outputs->at[i];
            if (is_scalar_output(v) && !tallied[v->node->id]) vec_push(e->arena, &m->scalars, i);
        }
    }
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (c->written && is_state(c)) vec_push(e->arena, &m->states, c);
        c->cur = i < cur.n ? cur.at[i] : NULL;
        c->written = i < flags.n && flags.at[i];
    }
    e->tallied.n = tallies; // removes those of the trial
    e->root = e->g = root;
    return ok;
}

static Node *zeros(Elab *e, const Type *t)
{
    return graph_broadcast_to(e->g, graph_const(e->g, t->dtype, 0), t);
}

static bool micro_body(Elab *e, TrainState *t, const Stmt *s, Micro *m, Region *r,
                       NodeList *carried, Val *inputs)
{
    Seq *outputs = train_model(e, t, inputs);
    if (!outputs) return false;
    train_bind(e, t, outputs);
    Node *loss = train_loss(e, s);
    NodeList grads = {0};
    if (!loss || !train_gradients(e, t, s, loss, &grads)) return false;
    uint32_t at = 0;
    for (uint32_t k = 0; k < grads.n; k++, at++)
        vec_push(e->arena, &r->g->results,
                 graph_binary(e->g, OP_add, carried->at[at], grads.at[k]));
    for (uint32_t k = 0; k < m->states.n; k++, at++)
        vec_push(e->arena, &r->g->results, m->states.at[k]->cur);
    for (uint32_t k = 0; k < m->scalars.n; k++, at++) {
        Node *v = to_tensor(e, &outputs->at[m->scalars.at[k]], DT_F32, s->span);
        if (!v) return false;
        vec_push(e->arena, &r->g->results,
                 graph_binary(e->g, OP_add, carried->at[at],
                              graph_cast(e->g, v, carried->at[at]->type.dtype)));
    }
    // The sum of the loss comes last, even if the loss is one of the outputs.
    vec_push(e->arena, &r->g->results,
             graph_binary(e->g, OP_add, carried->at[at], graph_cast(e->g, loss, DT_F32)));
    for (uint32_t k = 0; k < r->assert_cond.n; k++)
        vec_push(e->arena, &r->g->results, r->assert_cond.at[k]);
    return true;
}

// Initial values of what the loop carries: zeros for sums, current values for states. again: values
// that states had when the entry began, since every `minimize` runs the model from there.
static void start_values(Elab *e, TrainState *t, const Stmt *s, Micro *m, bool again)
{
    Type scalar = type_scalar(DT_F32);
    for (uint32_t i = 0; i < t->set.n; i++)
        vec_push(e->arena, &m->init, zeros(e, &t->set.at[i]->cell.type));
    for (uint32_t i = 0; i < m->states.n; i++) {
        ECell *c = m->states.at[i];
        Node *cur = c->cur;
        if (again) c->cur = c->index < t->entry.n ? t->entry.at[c->index] : NULL;
        vec_push(e->arena, &m->init, cell_read(e, c, s->span));
        if (again) c->cur = cur;
    }
    for (uint32_t i = 0; i < m->scalars.n + 1; i++) vec_push(e->arena, &m->init, zeros(e, &scalar));
}

// Reshapes inputs from (n * batch, ...) to (n, batch, ...): one slice per iteration.
static bool slice_inputs(Elab *e, TrainState *t, NodeList *scanned)
{
    for (uint32_t i = 0; i < t->inputs.n; i++) {
        const ModelInput *in = &t->inputs.at[i];
        if (!in->data) continue;
        int64_t dim[MAX_RANK] = {t->accumulate};
        memcpy(dim + 1, in->type.dim, (MAX_RANK - 1) * sizeof *dim);
        if (in->type.rank == MAX_RANK) {
            fail(e, in->span, "accumulate needs inputs of at most %d axes", MAX_RANK - 1);
            return false;
        }
        vec_push(e->arena, scanned, graph_reshape(e->g, t->input[i].node, in->type.rank + 1, dim));
    }
    return true;
}

// Builds the loop's region. While its body is elaborated, the model's states are carried values.
static bool micro_region(Elab *e, TrainState *t, const Stmt *s, Micro *m, Region **region)
{
    Region *r = *region = region_open(e);
    Type index = type_scalar(DT_I64);
    r->round = region_param(e, r, &index);
    r->rounds = t->accumulate;
    NodeList carried = {0}, state_cur = {0};
    Val *inputs = NEW_ARRAY(e->arena, Val, t->inputs.n + 1);
    for (uint32_t k = 0; k < m->init.n; k++)
        vec_push(e->arena, &carried, region_param(e, r, &m->init.at[k]->type));
    for (uint32_t k = 0; k < t->inputs.n; k++)
        inputs[k] = t->inputs.at[k].data ? val_node(region_param(e, r, &t->inputs.at[k].type))
                                         : t->input[k];
    VEC(bool) state_written = {0};
    for (uint32_t k = 0; k < m->states.n; k++) {
        ECell *c = m->states.at[k];
        vec_push(e->arena, &state_cur, c->cur);
        vec_push(e->arena, &state_written, c->written);
        c->cur = carried.at[t->set.n + k];
        c->written = false;
    }
    bool ok = micro_body(e, t, s, m, r, &carried, inputs);
    region_close(e, r);
    for (uint32_t k = 0; k < m->states.n; k++) {
        m->states.at[k]->cur = state_cur.at[k];
        m->states.at[k]->written = state_written.at[k];
    }
    return ok;
}

// Takes means of gradients and outputs, the states after the last iteration, and asserts. Returns
// the outputs.
static Seq *take_results(Elab *e, TrainState *t, const Stmt *s, Micro *m, const Region *r,
                         Node *loop, bool again)
{
    int at = 0;
    double share = 1 / (double)t->accumulate;
    for (uint32_t k = 0; k < t->set.n; k++) {
        Node *sum = graph_result(e->g, loop, at++);
        vec_push(e->arena, &t->grad,
                 graph_binary(e->g, OP_mul, sum, graph_const(e->g, sum->type.dtype, share)));
    }
    for (uint32_t k = 0; k < m->states.n; k++) {
        Node *last = graph_result(e->g, loop, at++);
        if (!again) cell_set(e, m->states.at[k], last);
    }
    Val v = val_seq(e, V_TUPLE, m->scalars.n);
    v.seq->names = NEW_ARRAY(e->arena, const char *, m->scalars.n + 1);
    for (uint32_t k = 0; k < m->scalars.n + 1; k++) {
        Node *sum = graph_result(e->g, loop, at++);
        Node *mean = graph_binary(e->g, OP_mul, sum, graph_const(e->g, DT_F32, share));
        if (k == m->scalars.n) {
            train_finite(e, t, s, mean, "");
            break;
        }
        v.seq->at[k] = val_node(mean);
        v.seq->names[k] = m->outputs->names[m->scalars.at[k]];
    }
    for (uint32_t k = 0; k < r->assert_cond.n && !again; k++)
        region_assert(e, graph_result(e->g, loop, at++), r->assert_text.at[k]);
    return v.seq;
}

bool train_accumulated(Elab *e, TrainState *t, const Stmt *s)
{
    Micro m = {0};
    NodeList scanned = {0};
    Region *r;
    bool again = t->first != NULL;
    if (again) e->replay = true;
    if (!again) t->entry = train_cells(e);
    if (!trial(e, t, s, &m)) return false;
    at_span(e, s->span);
    Loc loc = e->g->loc;
    start_values(e, t, s, &m, again);
    if (!slice_inputs(e, t, &scanned)) return false;
    bool ok = micro_region(e, t, s, &m, &r);
    e->replay = false;
    if (!ok) return false;
    e->g->loc = loc;
    Node *loop = loop_node(e, r, t->accumulate, m.init.at, m.init.n, scanned.at, scanned.n, -1);
    if (node_is_poison(loop)) return false;
    Seq *means = take_results(e, t, s, &m, r, loop, again);
    // Other outputs exist only in the loop.
    for (uint32_t k = 0; k < m.outputs->n; k++) {
        Val *slot = NEW(e->arena, Val);
        *slot = val_poison();
        strmap_set(&t->frame->vars, m.outputs->names[k], slot);
    }
    if (!t->first) t->first = means;
    train_bind(e, t, means);
    t->seen = train_cells(e);
    return true;
}
