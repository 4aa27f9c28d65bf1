// train M { minimize loss; clip f; update opt for set; accumulate n }: takes gradients, clips, updates.
// Each `minimize` opens a group: its set of parameters, their gradients, and the updates that follow.
#include <fnmatch.h>
#include <string.h>

#include "frontend/elab.h"

typedef VEC(ECell *) CellList;
typedef VEC(Node *) NodeList;

struct TrainState {
    Frame *frame;
    const Stmt *model;
    EFile *model_file;
    ModelInputs inputs;
    const char *batch;
    int64_t accumulate;
    Val *input;        // the model's inputs, whole
    Seq *first;        // outputs of the first elaboration: what is reported
    uint32_t from;     // elaborations from this one on define the model's parameters
    NodeList seen;     // value of each cell when the model was last elaborated
    NodeList entry;    // and before the first
    bool ran, minimized;
    bool open;         // a group is open
    Span group;
    bool updating;     // an update of the group has run
    CellList set;
    NodeList grad;
};

static CellList all_params(Elab *e, TrainState *t)
{
    CellList out = {0};
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (c->cell.kind == CELL_PARAM && !c->cell.frozen && c->defined_in >= t->from)
            vec_push(e->arena, &out, c);
    }
    return out;
}

// -- the model ---------------------------------------------------------------------------------------
static void bind_outputs(Elab *e, TrainState *t, const Seq *outputs)
{
    for (uint32_t i = 0; i < outputs->n; i++) {
        Val *slot = NEW(e->arena, Val);
        *slot = outputs->at[i];
        strmap_set(&t->frame->vars, outputs->names[i], slot);
    }
}

static NodeList snapshot(Elab *e)
{
    NodeList out = {0};
    for (uint32_t i = 0; i < e->cell_list.n; i++) vec_push(e->arena, &out, e->cell_list.at[i]->cur);
    return out;
}

static bool is_state(const ECell *c)
{
    return c->cell.kind == CELL_STATE || c->cell.kind == CELL_SCRATCH;
}

// Did a parameter change since the model was elaborated?
static bool stale(Elab *e, const TrainState *t)
{
    for (uint32_t i = 0; i < e->cell_list.n && i < t->seen.n; i++) {
        const ECell *c = e->cell_list.at[i];
        if (c->cell.kind == CELL_PARAM && c->written && c->cur != t->seen.at[i]) return true;
    }
    return false;
}

static Seq *run_model(Elab *e, TrainState *t, Val *inputs)
{
    Role role = e->g->role;
    StrMap sites = e->sites;
    e->g->role = ROLE_FORWARD;
    e->sites = strmap_new(e->arena); // the same draws each time
    if (!t->from) t->from = e->elaborations + 1;
    Val v = model_run(e, t->model, t->model_file, inputs, t->model->name_span);
    e->sites = sites;
    e->g->role = role;
    return v.kind == V_POISON ? NULL : v.seq;
}

// Elaborates the model where the train block needs its outputs: at first, and again once parameters
// changed. States are written by the first elaboration only.
static bool need_model(Elab *e, TrainState *t)
{
    if (t->ran && !stale(e, t)) return true;
    NodeList written = {0};
    VEC(bool) flags = {0};
    bool again = t->ran;
    if (again) {
        for (uint32_t i = 0; i < e->cell_list.n; i++) {
            ECell *c = e->cell_list.at[i];
            vec_push(e->arena, &written, c->cur);
            vec_push(e->arena, &flags, c->written);
            if (!is_state(c)) continue;
            c->cur = i < t->entry.n ? t->entry.at[i] : NULL;
            c->written = false;
        }
        e->replay = true;
    } else {
        t->entry = snapshot(e);
    }
    Seq *outputs = run_model(e, t, t->input);
    e->replay = false;
    for (uint32_t i = 0; i < written.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (!is_state(c)) continue;
        c->cur = written.at[i];
        c->written = flags.at[i];
    }
    t->ran = true;
    t->seen = snapshot(e);
    if (!outputs) return false;
    if (!t->first) t->first = outputs;
    bind_outputs(e, t, outputs);
    return true;
}

// -- which parameters the loss reaches --------------------------------------------------------------------
// For each node of e->g, the node it was reached from (itself for the loss), through gradients only or
// through anything.
static Node **reach(Elab *e, Node *loss, bool through_all)
{
    Graph *g = e->g;
    Node **from = NEW_ARRAY(e->arena, Node *, g->nodes.n);
    from[loss->id] = loss;
    for (uint32_t i = loss->id + 1; i-- > 0;) { // topological: users come after
        Node *n = g->nodes.at[i];
        if (!from[i]) continue;
        if (!through_all && n != loss && !strcmp(op_gradient_rule(n->op), "zero")) continue;
        for (uint32_t k = 0; k < n->nargs; k++)
            if (!from[n->args[k]->id]) from[n->args[k]->id] = n;
    }
    return from;
}

// One error for all parameters of the set that the loss does not reach, showing why for the first.
static void no_gradient(Elab *e, TrainState *t, const NodeList *at, Node **reached, uint32_t known,
                        Node *loss, Span span)
{
    Buf b = buf_new(e->arena);
    uint32_t n = 0, first = 0;
    for (uint32_t i = 0; i < t->set.n; i++) {
        if (at->at[i]->id < known && reached[at->at[i]->id]) continue;
        if (!n) first = i;
        if (n++ < 6) buf_printf(&b, "%s'%s'", n > 1 ? ", " : "", t->set.at[i]->cell.name);
    }
    Diag *d = error_at(e, span, "parameter%s %s%s receive%s no gradient from this loss",
                       n == 1 ? "" : "s", b.data, n > 6 ? ", …" : "", n == 1 ? "s" : "");
    ECell *c = t->set.at[first];
    Node *p = at->at[first];
    if (c->cell.loc)
        diag_note_span(e->diags, d, loc_user_span(e->diags, c->cell.loc), "defined here");
    Node **from = p->id <= loss->id ? reach(e, loss, true) : NULL;
    for (Node *n = from ? from[p->id] : NULL; n; n = from[n->id]) {
        if (!strcmp(op_gradient_rule(n->op), "zero")) {
            diag_note_span(e->diags, d, loc_user_span(e->diags, n->loc),
                           "the path to the loss goes through '%s', which passes no gradient",
                           op_info(n->op)->name);
            break;
        }
        if (n == loss) break;
    }
    diag_note(e->diags, d, "mark it frozen, or choose the parameters: minimize … over params(…)");
}

static Node *loss_of(Elab *e, const Stmt *s)
{
    Val v = eval(e, s->expr);
    if (v.kind == V_POISON) return NULL;
    Node *loss = to_tensor(e, &v, DT_COUNT, s->expr->span);
    if (!loss) return NULL;
    if (loss->type.rank || !dtype_is_float(loss->type.dtype)) {
        Diag *d = error_at(e, s->expr->span, "minimize needs a float scalar, found %s",
                           type_text(e, &loss->type));
        diag_note(e->diags, d, "mean(…) or sum(…) makes one");
        return NULL;
    }
    return loss;
}

// -- sets -------------------------------------------------------------------------------------------------
static bool pattern_is(const Val *v) // a string or a list of them
{
    uint32_t n;
    if (v->kind == V_STRING) return true;
    if (v->kind != V_LIST || !seq_length(v, &n)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (v->seq->at[i].kind != V_STRING) return false;
    return n > 0;
}

static bool matches(const Val *pattern, const ECell *c)
{
    if (pattern->kind == V_STRING) return !fnmatch(pattern->s, c->cell.name, 0);
    for (uint32_t i = 0; i < pattern->seq->n; i++)
        if (!fnmatch(pattern->seq->at[i].s, c->cell.name, 0)) return true;
    return false;
}

static bool set_of(Elab *e, const Expr *x, CellList *out)
{
    Val v = eval(e, x);
    uint32_t n = 1;
    if (v.kind == V_POISON) return false;
    bool many = seq_length(&v, &n);
    *out = (CellList){0};
    IdMap known = idmap_new(e->arena);
    for (uint32_t i = 0; i < n; i++) {
        Val item = many ? seq_item(e, &v, i) : v;
        if (item.kind != V_CELL || item.cell->cell.kind != CELL_PARAM) {
            fail(e, x->span, "expected parameters, as params('*.weight') gives, found %s",
                 val_text(e, &item));
            return false;
        }
        if (idmap_get(&known, (uintptr_t)item.cell, NULL)) continue;
        idmap_set(&known, (uintptr_t)item.cell, 1);
        vec_push(e->arena, out, item.cell);
    }
    return true;
}

static CellList candidates(Elab *e)
{
    CellList out = {0};
    if (e->train && e->train->open) return e->train->set;
    if (e->train && e->train->ran) return all_params(e, e->train);
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (c->cell.kind == CELL_PARAM && c->defined_in == e->elaboration)
            vec_push(e->arena, &out, c);
    }
    return out;
}

static Val list_of(Elab *e, const CellList *l)
{
    Val v = val_seq(e, V_LIST, l->n);
    for (uint32_t i = 0; i < l->n; i++) v.seq->at[i] = val_cell(l->at[i]);
    return v;
}

Val train_params(Elab *e, const Call *c)
{
    int64_t rank = -1;
    Type shape = {0};
    Val pattern = val_missing(&c->arg[0]) ? val_string("*") : c->arg[0];
    if (!pattern_is(&pattern))
        return fail(e, c->arg_span[0], "params takes a pattern like \"*.weight\" or a list of them, "
                                       "found %s", val_text(e, &pattern));
    bool shaped = !val_missing(&c->arg[2]);
    if (!val_missing(&c->arg[1]) && !to_int(e, &c->arg[1], c->arg_span[1], "the rank", &rank))
        return val_poison();
    if (shaped && !to_shape(e, &c->arg[2], c->arg_span[2], &shape)) return val_poison();
    CellList all = candidates(e), out = {0};
    for (uint32_t i = 0; i < all.n; i++)
        if (matches(&pattern, all.at[i]) && (rank < 0 || all.at[i]->cell.type.rank == rank) &&
            (!shaped || shape_equal(&all.at[i]->cell.type, &shape)))
            vec_push(e->arena, &out, all.at[i]);
    if (!out.n) {
        Diag *d = error_at(e, c->span, "no parameter matches %s",
                           pattern.kind == V_STRING
                               ? arena_printf(e->arena, "'%s'", pattern.s) : "these patterns");
        Buf b = buf_new(e->arena);
        for (uint32_t i = 0; i < all.n && i < 12; i++)
            buf_printf(&b, "%s%s", i ? ", " : "", all.at[i]->cell.name);
        diag_note(e->diags, d, "there are: %s%s", all.n ? b.data : "none yet",
                  all.n > 12 ? ", …" : "");
        return val_poison();
    }
    return list_of(e, &out);
}

Val train_rest(Elab *e, Span span)
{
    TrainState *t = e->train;
    CellList out = {0};
    if (!t->open) {
        CellList all = all_params(e, t);
        for (uint32_t i = 0; i < all.n; i++)
            if (!all.at[i]->updated) vec_push(e->arena, &out, all.at[i]);
    }
    for (uint32_t i = 0; t->open && i < t->set.n; i++)
        if (t->set.at[i]->in_set) vec_push(e->arena, &out, t->set.at[i]);
    if (!out.n) return fail(e, span, "no parameter is left for 'rest'");
    return list_of(e, &out);
}

// -- minimize -----------------------------------------------------------------------------------------------
static void close_group(Elab *e, TrainState *t)
{
    if (!t->open) return;
    t->open = false;
    Buf b = buf_new(e->arena);
    int missing = 0;
    for (uint32_t i = 0; i < t->set.n; i++) {
        if (t->set.at[i]->in_set && missing++ < 8)
            buf_printf(&b, "%s'%s'", missing > 1 ? ", " : "", t->set.at[i]->cell.name);
        t->set.at[i]->in_set = false;
    }
    if (e->diags->errors) return; // an update that failed left its parameters
    if (!t->updating)
        fail(e, t->group, "nothing updates the parameters after this; add 'update sgd(lr = 0.1)'");
    else if (missing)
        fail(e, t->group, "%s%s %s no update; add 'update … for rest'", b.data,
             missing > 8 ? ", …" : "", missing == 1 ? "has" : "have");
}

static bool choose_set(Elab *e, TrainState *t, const Stmt *s)
{
    if (s->set) {
        if (!set_of(e, s->set, &t->set)) return false;
    } else {
        t->set = all_params(e, t);
    }
    for (uint32_t i = 0; i < t->set.n; i++) {
        ECell *c = t->set.at[i];
        if (c->updated) {
            fail(e, s->span, "parameter '%s' was updated by an earlier minimize; choose the "
                             "parameters of each: minimize … over params(…)", c->cell.name);
            return false;
        }
        c->in_set = true;
        c->set_at = i;
    }
    if (t->set.n) return true;
    fail(e, s->span, "model '%s' has no parameters to train", t->model->name);
    return false;
}

// d loss / d p for every parameter of the set, in the current graph.
static bool take_gradients(Elab *e, TrainState *t, const Stmt *s, Node *loss, NodeList *out)
{
    Span span = s->expr->span;
    NodeList at = {0};
    bool ok = true;
    for (uint32_t i = 0; i < t->set.n; i++)
        vec_push(e->arena, &at, cell_read(e, t->set.at[i], span));
    Node **from = reach(e, loss, false);
    uint32_t known = e->g->nodes.n;
    for (uint32_t i = 0; i < t->set.n; i++) {
        Node *p = at.at[i];
        if (!p) return false;
        ok &= p->id < known && from[p->id];
    }
    if (!ok) {
        no_gradient(e, t, &at, from, known, loss, span);
        return false;
    }
    at_span(e, span);
    for (uint32_t i = 0; i < t->set.n; i++) {
        Node *g = graph_node(e->g, OP_grad, (Node *[]){loss, at.at[i]}, 2, NULL);
        if (node_is_poison(g)) return false;
        if (!g->name) g->name = arena_printf(e->arena, "d%s", t->set.at[i]->cell.name);
        vec_push(e->arena, out, g);
    }
    return true;
}

static void assert_finite(Elab *e, const Stmt *s, Node *loss)
{
    const char *name = s->expr->kind == EXPR_NAME ? s->expr->text : "the loss";
    at_span(e, s->expr->span);
    graph_root(e->g, OP_assert, graph_unary(e->g, OP_isfinite, loss),
               arena_printf(e->arena, "%s is not finite", name));
}

static void begin_group(TrainState *t, const Stmt *s)
{
    t->open = true;
    t->updating = false;
    t->group = s->span;
    t->grad = (NodeList){0};
    t->set = (CellList){0};
}

// -- accumulate ------------------------------------------------------------------------------------------
// One round of the loop over micro-batches: the model on a slice, its loss, the gradients.
typedef struct Micro {
    CellList states;  // what the model writes
    Seq *outputs;     // of the trial, for their types
    VEC(uint32_t) scalars; // outputs whose mean is taken
    NodeList init;    // carried: gradient sums, states, output sums
} Micro;

static bool is_scalar_output(const Val *v)
{
    return v->kind == V_TENSOR && v->node->type.rank == 0 && v->node->type.dtype != DT_BOOL;
}

// A trial elaboration in a graph of its own: defines the cells, tells what is written and returned.
static bool trial(Elab *e, TrainState *t, const Stmt *s, Micro *m)
{
    Graph *root = e->root;
    NodeList cur = snapshot(e);
    VEC(bool) flags = {0};
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        vec_push(e->arena, &flags, c->written);
        c->cur = NULL;
        c->written = false;
    }
    e->root = e->g = graph_new(e->arena, e->diags, e->module->symbols.at);
    Val *inputs = NEW_ARRAY(e->arena, Val, t->inputs.n + 1);
    for (uint32_t i = 0; i < t->inputs.n; i++)
        inputs[i] = val_node(make_input(e, &t->inputs.at[i], 0));
    m->outputs = run_model(e, t, inputs);
    bool ok = m->outputs != NULL;
    if (ok) {
        bind_outputs(e, t, m->outputs);
        t->ran = true;
        ok = choose_set(e, t, s);
        Node *loss = ok ? loss_of(e, s) : NULL;
        NodeList grads = {0};
        ok = loss && take_gradients(e, t, s, loss, &grads);
        for (uint32_t i = 0; i < m->outputs->n; i++)
            if (is_scalar_output(&m->outputs->at[i])) vec_push(e->arena, &m->scalars, i);
    }
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (c->written && is_state(c)) vec_push(e->arena, &m->states, c);
        c->cur = i < cur.n ? cur.at[i] : NULL;
        c->written = i < flags.n && flags.at[i];
    }
    e->root = e->g = root;
    return ok;
}

static Node *zeros(Elab *e, const Type *t)
{
    return graph_broadcast_to(e->g, graph_const(e->g, t->dtype, 0), t);
}

static bool micro_body(Elab *e, TrainState *t, const Stmt *s, Micro *m, Region *r, Node *i,
                       NodeList *carried, Val *inputs)
{
    Node *n = graph_const_int(e->g, DT_I64, t->accumulate);
    Node *step = cell_read(e, cell_control(e, CELL_STEP), s->span);
    e->micro_step = graph_binary(e->g, OP_add, graph_binary(e->g, OP_mul, step, n), i);
    Seq *outputs = run_model(e, t, inputs);
    if (!outputs) return false;
    bind_outputs(e, t, outputs);
    Node *loss = loss_of(e, s);
    NodeList grads = {0};
    if (!loss || !take_gradients(e, t, s, loss, &grads)) return false;
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
    // The loss too, when it is not one of the outputs.
    vec_push(e->arena, &r->g->results,
             graph_binary(e->g, OP_add, carried->at[at], graph_cast(e->g, loss, DT_F32)));
    for (uint32_t k = 0; k < r->assert_cond.n; k++)
        vec_push(e->arena, &r->g->results, r->assert_cond.at[k]);
    return true;
}

static bool minimize_accumulated(Elab *e, TrainState *t, const Stmt *s)
{
    Micro m = {0};
    bool again = t->first != NULL;
    if (again) e->replay = true;
    if (!again) t->entry = snapshot(e);
    if (!trial(e, t, s, &m)) return false;
    at_span(e, s->span);
    Loc loc = e->g->loc;
    Type scalar = type_scalar(DT_F32);
    for (uint32_t i = 0; i < t->set.n; i++)
        vec_push(e->arena, &m.init, zeros(e, &t->set.at[i]->cell.type));
    for (uint32_t i = 0; i < m.states.n; i++) {
        ECell *c = m.states.at[i];
        Node *cur = c->cur;
        if (again) c->cur = c->index < t->entry.n ? t->entry.at[c->index] : NULL;
        vec_push(e->arena, &m.init, cell_read(e, c, s->span));
        if (again) c->cur = cur;
    }
    for (uint32_t i = 0; i < m.scalars.n + 1; i++) vec_push(e->arena, &m.init, zeros(e, &scalar));
    // Inputs: (n * batch, ...) as (n, batch, ...), a slice a round.
    NodeList scanned = {0};
    Val *inputs = NEW_ARRAY(e->arena, Val, t->inputs.n + 1);
    for (uint32_t i = 0; i < t->inputs.n; i++) {
        const ModelInput *in = &t->inputs.at[i];
        inputs[i] = t->input[i];
        if (!in->data) continue;
        int64_t dim[MAX_RANK] = {t->accumulate};
        memcpy(dim + 1, in->type.dim, (MAX_RANK - 1) * sizeof *dim);
        if (in->type.rank == MAX_RANK) {
            fail(e, in->span, "accumulate needs inputs of at most %d axes", MAX_RANK - 1);
            return false;
        }
        vec_push(e->arena, &scanned,
                 graph_reshape(e->g, t->input[i].node, in->type.rank + 1, dim));
    }
    Region *r = region_open(e);
    Type index = type_scalar(DT_I64);
    Node *i = region_param(e, r, &index);
    NodeList carried = {0}, state_cur = {0};
    for (uint32_t k = 0; k < m.init.n; k++)
        vec_push(e->arena, &carried, region_param(e, r, &m.init.at[k]->type));
    for (uint32_t k = 0; k < t->inputs.n; k++)
        if (t->inputs.at[k].data) inputs[k] = val_node(region_param(e, r, &t->inputs.at[k].type));
    VEC(bool) state_written = {0};
    for (uint32_t k = 0; k < m.states.n; k++) {
        ECell *c = m.states.at[k];
        vec_push(e->arena, &state_cur, c->cur);
        vec_push(e->arena, &state_written, c->written);
        c->cur = carried.at[t->set.n + k];
        c->written = false;
    }
    bool ok = micro_body(e, t, s, &m, r, i, &carried, inputs);
    e->micro_step = NULL;
    region_close(e, r);
    for (uint32_t k = 0; k < m.states.n; k++) {
        m.states.at[k]->cur = state_cur.at[k];
        m.states.at[k]->written = state_written.at[k];
    }
    e->replay = false;
    if (!ok) return false;
    e->g->loc = loc;
    Node *loop = loop_node(e, r, t->accumulate, m.init.at, m.init.n, scanned.at, scanned.n);
    if (node_is_poison(loop)) return false;
    // Means of gradients and outputs; the states as the last round leaves them.
    int at = 0;
    double share = 1 / (double)t->accumulate;
    for (uint32_t k = 0; k < t->set.n; k++) {
        Node *sum = graph_result(e->g, loop, at++);
        vec_push(e->arena, &t->grad,
                 graph_binary(e->g, OP_mul, sum, graph_const(e->g, sum->type.dtype, share)));
    }
    for (uint32_t k = 0; k < m.states.n; k++) {
        Node *last = graph_result(e->g, loop, at++);
        if (again) continue;
        m.states.at[k]->cur = last;
        m.states.at[k]->written = true;
        m.states.at[k]->writer = e->frame->id;
    }
    Val v = val_seq(e, V_TUPLE, m.scalars.n);
    v.seq->names = NEW_ARRAY(e->arena, const char *, m.scalars.n + 1);
    for (uint32_t k = 0; k < m.scalars.n + 1; k++) {
        Node *sum = graph_result(e->g, loop, at++);
        Node *mean = graph_binary(e->g, OP_mul, sum, graph_const(e->g, DT_F32, share));
        if (k == m.scalars.n) {
            assert_finite(e, s, mean);
            break;
        }
        v.seq->at[k] = val_node(mean);
        v.seq->names[k] = m.outputs->names[m.scalars.at[k]];
    }
    for (uint32_t k = 0; k < r->assert_cond.n && !again; k++)
        region_assert(e, graph_result(e->g, loop, at++), r->assert_text.at[k]);
    // Other outputs live in the loop only.
    for (uint32_t k = 0; k < m.outputs->n; k++) {
        Val *slot = NEW(e->arena, Val);
        *slot = val_poison();
        strmap_set(&t->frame->vars, m.outputs->names[k], slot);
    }
    if (!t->first) t->first = v.seq;
    bind_outputs(e, t, v.seq);
    t->seen = snapshot(e);
    return true;
}

static void exec_minimize(Elab *e, TrainState *t, const Stmt *s)
{
    close_group(e, t);
    t->minimized = true;
    if (t->accumulate > 1) {
        begin_group(t, s);
        t->open = minimize_accumulated(e, t, s);
        return;
    }
    if (!need_model(e, t)) return;
    begin_group(t, s);
    t->open = false; // params() in `over` chooses from all
    Node *loss = loss_of(e, s);
    bool ok = loss && choose_set(e, t, s);
    if (ok) {
        assert_finite(e, s, loss);
        ok = take_gradients(e, t, s, loss, &t->grad);
    }
    t->open = ok;
}

static void exec_clip(Elab *e, TrainState *t, const Stmt *s)
{
    if (!t->open) {
        if (!e->diags->errors) fail(e, s->span, "clip comes after minimize");
        return;
    }
    if (t->updating) {
        fail(e, s->span, "clip comes before the updates it serves");
        return;
    }
    Role role = e->g->role;
    e->g->role = ROLE_UPDATE;
    Val fn = eval(e, s->expr), list = val_seq(e, V_LIST, t->grad.n);
    for (uint32_t i = 0; i < t->grad.n; i++) list.seq->at[i] = val_node(t->grad.at[i]);
    Val out = call_leading(e, fn, &list, 1, s->expr->span, scope_child(e, NULL, "clip", false));
    uint32_t n;
    if (out.kind != V_POISON && (!seq_length(&out, &n) || n != t->grad.n))
        fail(e, s->expr->span, "clip takes a function from the list of gradients to a list as long; "
                               "this returns %s", val_text(e, &out));
    for (uint32_t i = 0; i < t->grad.n && out.kind != V_POISON && !e->diags->errors; i++) {
        Val item = seq_item(e, &out, i);
        Node *g = to_tensor(e, &item, DT_COUNT, s->expr->span);
        if (g && !type_equal(&g->type, &t->grad.at[i]->type))
            fail(e, s->expr->span, "the clipped gradient of '%s' is %s, it was %s",
                 t->set.at[i]->cell.name, type_text(e, &g->type),
                 type_text(e, &t->grad.at[i]->type));
        else if (g)
            t->grad.at[i] = g;
    }
    e->g->role = role;
}

static void apply_update(Elab *e, Val fn, ECell *c, Node *grad, const Stmt *s)
{
    if (!c->in_set) {
        fail(e, s->span, "parameter '%s' is updated twice; 'for rest' selects what is left",
             c->cell.name);
        return;
    }
    c->in_set = false;
    c->updated = true;
    Span span = s->expr->span;
    Val args[2] = {val_cell(c), val_node(grad)};
    Val v = call_leading(e, fn, args, 2, span, scope_child(e, NULL, c->cell.name, false));
    const char *missing = v.kind == V_FN ? fn_missing(e, v.fn) : NULL;
    if (missing)
        fail(e, span, "the update '%s' still waits for %s", v.fn->name, missing);
    else if (v.kind != V_POISON && !c->written)
        fail(e, span, "this update does not write the parameter: its function needs p <- …");
}

static void exec_update(Elab *e, TrainState *t, const Stmt *s)
{
    if (!t->open) {
        if (!e->diags->errors) fail(e, s->span, "update comes after minimize");
        return;
    }
    CellList chosen = t->set;
    Role role = e->g->role;
    t->updating = true;
    e->g->role = ROLE_UPDATE;
    Val fn = eval(e, s->expr);
    bool ok = fn.kind != V_POISON && (!s->set || set_of(e, s->set, &chosen));
    if (ok && fn.kind != V_FN) {
        fail(e, s->expr->span, "update needs a function of a parameter and its gradient, like "
                               "sgd(lr = 0.1), found %s", val_text(e, &fn));
        ok = false;
    }
    uint32_t errors = e->diags->errors;
    for (uint32_t i = 0; ok && i < chosen.n && e->diags->errors == errors; i++) {
        uint32_t at = chosen.at[i]->set_at;
        if (at >= t->set.n || t->set.at[at] != chosen.at[i])
            fail(e, s->span, "parameter '%s' is not in the set this minimize runs over",
                 chosen.at[i]->cell.name);
        else
            apply_update(e, fn, chosen.at[i], t->grad.at[at], s);
    }
    e->g->role = role;
}

static void exec_accumulate(Elab *e, TrainState *t, const Stmt *s)
{
    Val v = eval(e, s->expr);
    int64_t n;
    if (!to_int(e, &v, s->expr->span, "the number of micro-batches", &n)) return;
    if (n < 1 || n > 65536) {
        fail(e, s->expr->span, "accumulate takes 1 to 65536 micro-batches, found %lld",
             (long long)n);
        return;
    }
    if (t->ran) {
        fail(e, s->span, "accumulate comes first in a train block");
        return;
    }
    t->accumulate = n;
}

static void make_inputs(Elab *e, TrainState *t)
{
    if (t->input) return;
    t->input = NEW_ARRAY(e->arena, Val, t->inputs.n + 1);
    for (uint32_t i = 0; i < t->inputs.n; i++)
        t->input[i] = val_node(make_input(e, &t->inputs.at[i],
                                          t->accumulate * batch_size(e, t->batch)));
}

bool exec_train_stmt(Elab *e, const Stmt *s)
{
    TrainState *t = e->train;
    if (e->frame != t->frame) return false;
    if (s->kind == STMT_ACCUMULATE) {
        exec_accumulate(e, t, s);
        return true;
    }
    make_inputs(e, t);
    if (t->accumulate == 1 && !t->ran && !need_model(e, t)) {
        t->frame->returned = true; // nothing below makes sense
        return true;
    }
    switch (s->kind) {
    case STMT_MINIMIZE: exec_minimize(e, t, s); return true;
    case STMT_CLIP: exec_clip(e, t, s); return true;
    case STMT_UPDATE: exec_update(e, t, s); return true;
    default: return false;
    }
}

TrainResult train_elaborate(Elab *e, const Stmt *train, EFile *f)
{
    TrainResult out = {.accumulate = 1};
    Global *g = global_find(e, f, train->name, train->name_span, false);
    TrainState t = {.model = g->stmt, .model_file = g->file, .accumulate = 1};
    Frame frame = {.name = "train", .file = f, .id = ++e->frames};
    frame.vars = strmap_new(e->arena);
    frame.scope = scope_child(e, NULL, "train", false);
    frame.result = val_none();
    t.frame = &frame;
    if (!model_inputs(e, t.model, t.model_file, &t.inputs, &t.batch)) return out;
    e->frame = &frame;
    e->train = &t;
    e->elaboration = ++e->elaborations;
    exec_block(e, train->body);
    close_group(e, &t);
    if (!t.minimized && !e->diags->errors)
        fail(e, train->span, "this train block minimizes nothing; add 'minimize loss' and "
                             "'update sgd(lr = 0.1)'");
    e->train = NULL;
    e->frame = NULL;
    out.outputs = t.first;
    out.inputs = t.inputs;
    out.batch = t.batch;
    out.accumulate = t.accumulate;
    return out;
}
