// train M { minimize loss; clip f; update opt for set; accumulate n }: takes gradients, clips them
// and updates parameters. Each `minimize` opens a group: its set of parameters, their gradients,
// and the updates that follow.
#include <string.h>

#include "base/plain.h"
#include "base/names.h"
#include "frontend/elab_train.h"

// -- the model ------------------------------------------------------------------------------------
void train_bind(Elab *e, TrainState *t, const Seq *outputs)
{
    for (uint32_t i = 0; i < outputs->n; i++) {
        Val *slot = NEW(e->arena, Val);
        *slot = outputs->at[i];
        strmap_set(&t->frame->vars, outputs->names[i], slot);
    }
}

NodeList train_cells(Elab *e)
{
    NodeList out = {0};
    for (uint32_t i = 0; i < e->cell_list.n; i++) vec_push(e->arena, &out, e->cell_list.at[i]->cur);
    return out;
}

bool is_state(const ECell *c)
{
    return c->cell.kind == CELL_STATE || c->cell.kind == CELL_SCRATCH;
}

// Whether a parameter changed since the model was elaborated.
static bool stale(Elab *e, const TrainState *t)
{
    for (uint32_t i = 0; i < e->cell_list.n && i < t->seen.n; i++) {
        const ECell *c = e->cell_list.at[i];
        if (c->cell.kind == CELL_PARAM && c->written && c->cur != t->seen.at[i]) return true;
    }
    return false;
}

Seq *train_model(Elab *e, TrainState *t, Val *inputs)
{
    Role role = e->g->role;
    StrMap sites = e->sites;
    e->g->role = ROLE_FORWARD;
    e->sites = strmap_new(e->arena); // the model draws the same random numbers each time
    if (!t->from) t->from = e->elaborations + 1;
    Val v = model_run(e, t->model, t->model_file, inputs, t->model->name_span);
    e->sites = sites;
    e->g->role = role;
    return v.kind == V_POISON ? NULL : v.seq;
}

// Elaborates the model when the train block first needs its outputs, and again after parameters
// changed. Only the first elaboration writes states.
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
        t->entry = train_cells(e);
    }
    Seq *outputs = train_model(e, t, t->input);
    e->replay = false;
    for (uint32_t i = 0; i < written.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (!is_state(c)) continue;
        c->cur = written.at[i];
        c->written = flags.at[i];
    }
    t->ran = true;
    t->seen = train_cells(e);
    if (!outputs) return false;
    if (!t->first) t->first = outputs;
    train_bind(e, t, outputs);
    return true;
}

// -- which parameters the loss reaches ------------------------------------------------------------

// For each node of e->g, the node from which a backward traversal reached it (for the loss, the
// loss itself). Follows only operands that get gradients, or all.
static Node **reach(Elab *e, Node *loss, bool through_all)
{
    Graph *g = e->g;
    Node **from = NEW_ARRAY(e->arena, Node *, g->nodes.n);
    from[loss->id] = loss;
    for (uint32_t i = loss->id + 1; i-- > 0;) { // in reverse order, so that users come before
                                                // operands
        Node *n = g->nodes.at[i];
        if (!from[i]) continue;
        if (!through_all && n != loss && op_is_flat(n->op)) continue;
        for (uint32_t k = 0; k < n->nargs; k++)
            if (!from[n->args[k]->id]) from[n->args[k]->id] = n;
    }
    return from;
}

// Reports one error for all parameters of the set that the loss does not depend on, with a reason
// for the first.
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
        if (op_is_flat(n->op)) {
            diag_note_span(e->diags, d, loc_user_span(e->diags, n->loc),
                           "the path to the loss goes through '%s', which passes no gradient",
                           op_info(n->op)->name);
            break;
        }
        if (n == loss) break;
    }
    diag_note(e->diags, d, "mark it frozen, or choose the parameters: minimize … over params(…)");
}

// Reports that `minimize` names something that the model does not return.
static bool no_such_result(Elab *e, const TrainState *t, const Expr *x)
{
    Val v;
    if (x->kind != EXPR_NAME || !t->first || name_try(e, x->text, x->span, &v)) return false;
    Buf b = buf_new(e->arena);
    for (uint32_t i = 0; i < t->first->n; i++)
        buf_printf(&b, "%s'%s'", i ? ", " : "", t->first->names[i]);
    Advice near = advise_near(x->text, t->first->names, t->first->n);
    if (*near.text)
        fail(e, x->span, "unknown name '%s'%s", x->text, near.text);
    else
        fail(e, x->span, "unknown name '%s'; model '%s' returns %s", x->text, t->model->name,
             b.data);
    return true;
}

Node *train_loss(Elab *e, const Stmt *s)
{
    if (no_such_result(e, e->train, s->expr)) return NULL;
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

// -- minimize -------------------------------------------------------------------------------------
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
    if (e->diags->errors) return; // a failed update has left parameters without updates
    if (!t->updating)
        fail(e, t->group, "nothing updates the parameters after this; add 'update sgd(lr = 0.1)'");
    else if (missing)
        fail(e, t->group, "%s%s %s no update; add 'update … for rest'", b.data,
             missing > 8 ? ", …" : "", missing == 1 ? "has" : "have");
}

bool train_choose(Elab *e, TrainState *t, const Stmt *s)
{
    if (s->set) {
        if (!train_set(e, s->set, &t->set)) return false;
    } else {
        t->set = train_all(e, t);
    }
    for (uint32_t i = 0; i < t->set.n; i++) {
        t->set.at[i]->in_set = true;
        t->set.at[i]->set_at = i;
    }
    if (t->set.n) return true;
    fail(e, s->span, "model '%s' has no parameters to train", t->model->name);
    return false;
}

// The gradients of the loss with respect to all parameters of the set, in the current graph.
bool train_gradients(Elab *e, TrainState *t, const Stmt *s, Node *loss, NodeList *out)
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
    loss = loss_scaled(e, loss, span);
    at_span(e, span);
    for (uint32_t i = 0; i < t->set.n; i++) {
        Node *g = graph_node(e->g, OP_grad, (Node *[]){loss, at.at[i]}, 2, NULL);
        if (node_is_poison(g)) return false;
        if (!g->name) g->name = arena_printf(e->arena, "d%s", t->set.at[i]->cell.name);
        vec_push(e->arena, out, g);
    }
    return true;
}

static void begin_group(TrainState *t, const Stmt *s)
{
    t->open = true;
    t->updating = false;
    t->group = s->span;
    t->grad = (NodeList){0};
    t->set = (CellList){0};
}

static void exec_minimize(Elab *e, TrainState *t, const Stmt *s)
{
    close_group(e, t);
    t->minimized = true;
    if (t->accumulate == 1 && !need_model(e, t)) return;
    begin_group(t, s);
    t->open = false; // params() in `over` chooses from all parameters
    if (t->accumulate > 1) {
        t->open = train_accumulated(e, t, s);
        if (t->open) train_unscale(e, t, s);
        return;
    }
    Node *loss = train_loss(e, s);
    bool ok = loss && train_choose(e, t, s);
    if (ok) {
        train_finite(e, t, s, loss, "");
        ok = train_gradients(e, t, s, loss, &t->grad);
    }
    if (ok) train_unscale(e, t, s);
    t->open = ok;
}

static void exec_clip(Elab *e, TrainState *t, const Stmt *s)
{
    if (!t->open) {
        if (!e->diags->errors) fail(e, s->span, "clip comes after minimize");
        return;
    }
    if (t->updating) {
        fail(e, s->span, "clip must come before the updates that use it");
        return;
    }
    Role role = e->g->role;
    e->g->role = ROLE_UPDATE;
    Val fn = eval(e, s->expr), list = val_seq(e, V_LIST, t->grad.n);
    for (uint32_t i = 0; i < t->grad.n; i++) list.seq->at[i] = val_node(t->grad.at[i]);
    Val out = call_leading(e, fn, &list, 1, s->expr->span, scope_child(e, NULL, "clip", false));
    uint32_t n;
    if (out.kind != V_POISON && (!seq_length(&out, &n) || n != t->grad.n))
        fail(e, s->expr->span,
             "clip takes a function from the list of gradients to a list as long; "
             "this returns %s",
             val_text(e, &out));
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

static uint32_t reported(const Elab *e)
{
    return e->diags->errors + e->diags->repeats;
}

// as: the name of the update, which its states have after the parameter's name; or NULL.
static void apply_update(Elab *e, Val fn, const char *as, ECell *c, Node *grad, const Stmt *s)
{
    Span span = s->expr->span;
    Val args[2] = {val_cell(c), val_node(grad)};
    uint32_t before = reported(e), writes = e->writes;
    Scope *scope = scope_child(e, NULL, c->cell.name, false);
    scope->of_cell = true;
    if (as) scope = scope_child(e, scope, as, false);
    Val v = call_leading(e, fn, args, 2, span, scope);
    const char *missing = v.kind == V_FN ? fn_missing(e, v.fn) : NULL;
    if (missing)
        fail(e, span, "the update '%s' still needs %s", v.fn->name, missing);
    else if (v.kind != V_POISON && e->writes == writes && reported(e) == before) // (otherwise an
                                                                                 // error explains
                                                                                 // it)
        fail(e, span,
             "this update writes neither the parameter nor a state: its function needs p <- …");
    if (c->pass != e->pass) return; // such as an average, which does not change the parameter
    if (!c->in_set && !s->set) {
        Diag *d = error_at(e, s->span, "parameter '%s' is updated already", c->cell.name);
        diag_note(e->diags, d,
                  "'for rest' updates the remaining parameters; 'for params()' updates all of them "
                  "again");
    }
    c->in_set = false;
    c->updated = true;
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
    e->pass++;
    e->elaboration = ++e->elaborations; // states defined by an earlier update may be defined again
    e->g->role = ROLE_UPDATE;
    Val fn;
    const char *as;
    bool ok = eval_waiting(e, s->expr, &fn, &as) && (!s->set || train_set(e, s->set, &chosen));
    if (ok && fn.kind != V_FN) {
        fail(e, s->expr->span,
             "update needs a function of a parameter and its gradient, like "
             "sgd(lr = 0.1), found %s",
             val_text(e, &fn));
        ok = false;
    }
    uint32_t errors = e->diags->errors;
    for (uint32_t i = 0; ok && i < chosen.n && e->diags->errors == errors; i++) {
        uint32_t at = chosen.at[i]->set_at;
        if (at >= t->set.n || t->set.at[at] != chosen.at[i])
            fail(e, s->span, "parameter '%s' is not in the set this minimize runs over",
                 chosen.at[i]->cell.name);
        else
            apply_update(e, fn, as, chosen.at[i], t->grad.at[at], s);
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

// Whether the pattern names a layer: a scope with parameters, or one that encloses such a scope.
static bool names_layer(Elab *e, TrainState *t, const char *pattern)
{
    CellList all = train_all(e, t);
    for (uint32_t i = 0; i < all.n; i++) {
        const char *name = all.at[i]->cell.name;
        for (size_t n = strcspn(name, "."); name[n]; n += 1 + strcspn(name + n + 1, "."))
            if (plain_match(pattern, arena_strndup(e->arena, name, n))) return true;
    }
    return false;
}

static void exec_recompute(Elab *e, TrainState *t, const Stmt *s)
{
    Val v = eval(e, s->expr);
    if (v.kind == V_POISON) return;
    if (v.kind != V_STRING)
        fail(e, s->expr->span,
             "recompute takes a pattern of layers, as in recompute \"h.*\"; found %s",
             val_text(e, &v));
    else
        vec_push(e->arena, &t->recomputed, ((Recomputed){v.s, s->expr->span}));
}

// Layers are known only after the model was elaborated.
static void choose_layers(Elab *e, TrainState *t)
{
    for (uint32_t i = 0; i < t->recomputed.n && !e->diags->errors; i++) {
        const Recomputed *r = &t->recomputed.at[i];
        if (!names_layer(e, t, r->pattern))
            fail(e, r->span, "no layer with parameters is called '%s'", r->pattern);
        else
            vec_push(e->arena, &e->module->again, r->pattern);
    }
}

static void make_inputs(Elab *e, TrainState *t)
{
    if (t->input) return;
    t->input = NEW_ARRAY(e->arena, Val, t->inputs.n + 1);
    for (uint32_t i = 0; i < t->inputs.n; i++)
        t->input[i] =
            val_node(make_input(e, &t->inputs.at[i], t->accumulate * batch_size(e, t->batch)));
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
        t->frame->returned = true; // further statements would only cause more errors
        return true;
    }
    switch (s->kind) {
    case STMT_MINIMIZE: exec_minimize(e, t, s); return true;
    case STMT_CLIP: exec_clip(e, t, s); return true;
    case STMT_UPDATE: exec_update(e, t, s); return true;
    case STMT_RECOMPUTE: exec_recompute(e, t, s); return true;
    case STMT_EVALUATE:
        if (s != program_evaluate(t->train))
            fail(e, s->span,
                 "'evaluate with' can be used once in a train block, and only directly in it");
        return true;
    default: return false;
    }
}

TrainResult train_elaborate(Elab *e, const TrainProgram *p)
{
    TrainResult out = {.accumulate = 1};
    TrainState t = {.train = p->train, .model = p->model, .model_file = p->file, .accumulate = 1};
    Frame frame = {.name = "train", .file = e->files.at[0], .id = ++e->frames};
    frame.vars = strmap_new(e->arena);
    frame.scope = scope_child(e, NULL, "train", false);
    frame.result = val_none();
    t.frame = &frame;
    if (!model_inputs(e, t.model, t.model_file, &t.inputs, &t.batch)) return out;
    e->frame = &frame;
    e->train = &t;
    e->elaboration = ++e->elaborations;
    exec_block(e, p->train->body);
    close_group(e, &t);
    choose_layers(e, &t);
    if (!t.minimized && !e->diags->errors)
        fail(e, p->train->span,
             "this train block minimizes nothing; add 'minimize loss' and "
             "'update sgd(lr = 0.1)'");
    e->train = NULL;
    e->frame = NULL;
    out.outputs = t.first;
    out.inputs = t.inputs;
    out.batch = t.batch;
    out.accumulate = t.accumulate;
    out.finite = t.finite;
    return out;
}
