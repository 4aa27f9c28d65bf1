// Loss scaling. In f16 small gradients vanish, so losses are multiplied by a scale before they are
// differentiated, and the gradients that the program sees are divided by it. The scale is a cell. A
// step whose loss or gradients are not finite is skipped (it writes back what it read) and halves
// the scale; GROW_AFTER steps in a row without that double it. Since the scale is a power of two,
// scaling does not round in f32. All of this is part of the graph, so the host takes no part in it.
#include "frontend/elab_train.h"

enum { GROW_AFTER = 2000, LEAST = 1, MOST = 1 << 24 };

// Other entries take gradients unscaled, in f32. So does the body of a function with its own
// gradient, which gets cotangents that are scaled already.
static bool scales_loss(const Elab *e)
{
    return e->options->scale_loss && e->kind == ENTRY_TRAIN && e->root != e->init &&
           !e->own_gradients;
}

static Node *scale_now(Elab *e, DType t, Span span)
{
    return graph_cast(e->g, cell_read(e, cell_control(e, CELL_LOSS_SCALE), span), t);
}

// Products with the scale are computed in f32 or f64, since f16 might overflow.
static DType wide(const Node *n)
{
    return n->type.dtype == DT_F64 ? DT_F64 : DT_F32;
}

Node *loss_scaled(Elab *e, Node *loss, Span span)
{
    if (!scales_loss(e)) return loss;
    DType t = wide(loss);
    return graph_binary(e->g, OP_mul, graph_cast(e->g, loss, t), scale_now(e, t, span));
}

Node *gradient_unscaled(Elab *e, Node *gradient, Span span)
{
    if (!scales_loss(e) || node_is_poison(gradient)) return gradient;
    DType t = wide(gradient);
    Node *share = graph_binary(e->g, OP_div, graph_const(e->g, t, 1), scale_now(e, t, span));
    Node *d = graph_binary(e->g, OP_mul, graph_cast(e->g, gradient, t), share);
    return graph_cast(e->g, d, gradient->type.dtype);
}

// The largest magnitude of x, or NaN if there is one.
static Node *largest(Graph *g, Node *x)
{
    int64_t axes[MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) axes[i] = i;
    x = graph_unary(g, OP_abs, x);
    return x->type.rank ? graph_reduce(g, OP_max, x, axes, x->type.rank, false) : x;
}

void train_finite(Elab *e, TrainState *t, const Stmt *s, Node *value, const char *what)
{
    const char *name = s->expr->kind == EXPR_NAME ? s->expr->text : "the loss";
    Graph *g = e->g;
    at_span(e, s->expr->span);
    Node *finite = graph_unary(g, OP_isfinite, value);
    if (scales_loss(e)) {
        t->finite = t->finite ? graph_binary(g, OP_and, t->finite, finite) : finite;
        Node *least = graph_const(g, DT_F32, LEAST);
        Node *falls = graph_binary(g, OP_gt, scale_now(e, DT_F32, s->expr->span), least);
        finite = graph_binary(g, OP_or, finite, falls);
    }
    graph_root(g, OP_assert, finite, arena_printf(e->arena, "%s%s is not finite", what, name));
}

void train_unscale(Elab *e, TrainState *t, const Stmt *s)
{
    if (!scales_loss(e)) return;
    Role role = e->g->role;
    Node *most = NULL;
    e->g->role = ROLE_UPDATE;
    for (uint32_t i = 0; i < t->grad.n; i++) {
        Node **d = &t->grad.at[i];
        Node *m = graph_cast(e->g, largest(e->g, *d), DT_F64);
        *d = gradient_unscaled(e, *d, s->expr->span);
        most = most ? graph_binary(e->g, OP_maximum, most, m) : m;
    }
    train_finite(e, t, s, most, "the gradient of ");
    e->g->role = role;
}

void scale_commits(Elab *e, Node *finite)
{
    Graph *g = e->g;
    Role role = g->role;
    Span nowhere = {0};
    ECell *scale_cell = cell_control(e, CELL_LOSS_SCALE);
    ECell *good_cell = cell_control(e, CELL_GOOD_STEPS);
    ECell *skipped_cell = cell_control(e, CELL_SKIPPED);
    g->role = ROLE_UPDATE;
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (c->written) cell_set(e, c, graph_select(g, finite, c->cur, cell_on_entry(e, c)));
    }
    g->loc = 0;
    Node *scale = cell_read(e, scale_cell, nowhere);
    Node *skipped = cell_read(e, skipped_cell, nowhere);
    Node *zero = graph_const_int(g, DT_I64, 0), *one = graph_const_int(g, DT_I64, 1);
    Node *good = graph_binary(g, OP_add, cell_read(e, good_cell, nowhere), one);
    Node *grows = graph_binary(g, OP_ge, good, graph_const_int(g, DT_I64, GROW_AFTER));
    Node *grown = graph_binary(g, OP_mul, scale, graph_const(g, DT_F32, 2));
    Node *halved = graph_binary(g, OP_mul, scale, graph_const(g, DT_F32, 0.5));
    grown = graph_binary(g, OP_minimum, grown, graph_const(g, DT_F32, MOST));
    halved = graph_binary(g, OP_maximum, halved, graph_const(g, DT_F32, LEAST));
    grown = graph_select(g, grows, grown, scale);
    good = graph_select(g, grows, zero, good);
    cell_set(e, scale_cell, graph_select(g, finite, grown, halved));
    cell_set(e, good_cell, graph_select(g, finite, good, zero));
    Node *more = graph_binary(g, OP_add, skipped, one);
    cell_set(e, skipped_cell, graph_select(g, finite, skipped, more));
    g->role = role;
}
