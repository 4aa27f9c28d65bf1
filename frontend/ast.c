// Constructors of the syntax tree, and the rules about where a construct may appear that are not
// part of the grammar.
#include "frontend/syntax.h"
#include <string.h>

#include "base/map.h"

Span span_join(Span a, Span b)
{
    return (Span){a.source, a.begin, b.end > a.end ? b.end : a.end};
}

Expr *expr_new(Parser *p, ExprKind kind, Span span)
{
    Expr *e = NEW(p->arena, Expr);
    e->kind = kind;
    e->span = e->op_span = span;
    e->depth = 1;
    return e;
}

Expr *expr_token(Parser *p, ExprKind kind, const Token *t)
{
    Expr *e = expr_new(p, kind, t->span);
    e->text = t->text;
    if (kind == EXPR_INT) e->i = t->i;
    if (kind == EXPR_FLOAT) e->f = t->f;
    return e;
}

void expr_holds(Parser *p, Expr *e, const Expr *child)
{
    if (!child || child->depth < e->depth) return;
    e->depth = child->depth + 1;
    if (e->depth == MAX_EXPR_DEPTH)
        diag_span(
            p->diags, e->span,
            "this expression is more than %d operations deep: give parts of it names of their own",
            MAX_EXPR_DEPTH);
}

Expr *expr_unary(Parser *p, UnaryOp op, Span op_span, Expr *a)
{
    Span span = span_join(op_span, a->span);
    bool number =
        (a->kind == EXPR_INT || a->kind == EXPR_FLOAT) && a->span.begin == a->op_span.begin;
    if (op == UN_NEG && number) { // makes a negative literal, so that -0.0 and the smallest integer
                                  // can be written
        a->i = -a->i;
        a->f = -a->f;
        a->span = a->op_span = span;
        return a;
    }
    Expr *e = expr_new(p, EXPR_UNARY, span);
    e->op_span = op_span;
    e->unary = op;
    e->a = a;
    expr_holds(p, e, a);
    return e;
}

Expr *expr_binary(Parser *p, BinaryOp op, Span op_span, Expr *a, Expr *b)
{
    Expr *e = expr_new(p, EXPR_BINARY, span_join(a->span, b->span));
    e->op_span = op_span;
    e->binary = op;
    e->a = a;
    e->b = b;
    expr_holds(p, e, a);
    expr_holds(p, e, b);
    return e;
}

Expr *expr_postfix(Parser *p, ExprKind kind, Expr *a, Span end)
{
    Expr *e = expr_new(p, kind, span_join(a->span, end));
    e->a = a;
    expr_holds(p, e, a);
    return e;
}

Expr *expr_scoped(Parser *p, ExprKind kind, Expr *a, Span op_span, ScopeName *scope)
{
    Expr *e = expr_postfix(p, kind, a, scope->span);
    e->op_span = span_join(op_span, scope->span);
    e->scope = scope;
    return e;
}

Expr *expr_tuple(Parser *p, const Exprs *values)
{
    Expr *first = values->list.at[0];
    if (values->list.n == 1) return first;
    Expr *e =
        expr_new(p, EXPR_TUPLE, span_join(first->span, values->list.at[values->list.n - 1]->span));
    for (uint32_t k = 0; k < values->list.n; k++) {
        vec_push(p->arena, &e->items, (Item){.value = values->list.at[k]});
        expr_holds(p, e, values->list.at[k]);
    }
    return e;
}

void type_range(Parser *p, TypeExpr *t, Expr *range)
{
    if (range->kind != EXPR_RANGE) {
        diag_span(p->diags, range->span, "expected a range of values such as 0..10");
        return;
    }
    t->low = range->lo;
    t->high = range->hi;
}

void attach_attrs(Parser *p, Expr *call, const Items *attrs, Span end)
{
    if (call->kind != EXPR_CALL || call->regions.n) {
        diag_span(p->diags, span_join(call->span, end),
                  "'@{...}' belongs after the arguments of a call");
        return;
    }
    VEC_TAKE(call->attrs, attrs->list);
    call->span = span_join(call->span, end);
}

void attach_region(Parser *p, Expr *call, Block *region)
{
    if (call->kind != EXPR_CALL) {
        diag_span(p->diags, region->span, "a region belongs after a call");
        return;
    }
    vec_push(p->arena, &call->regions, region);
    call->span = span_join(call->span, region->span);
}

Stmt *stmt_new(Parser *p, StmtKind kind, Span span)
{
    Stmt *s = NEW(p->arena, Stmt);
    s->kind = kind;
    s->span = span;
    return s;
}

Stmt *stmt_named(Parser *p, StmtKind kind, Span span, const Token *name)
{
    Stmt *s = stmt_new(p, kind, span);
    s->name = name->text;
    s->name_span = name->span;
    return s;
}

void stmt_targets(Parser *p, Stmt *s, const Exprs *targets)
{
    s->names.at = NEW_ARRAY(p->arena, Item, targets->list.n);
    s->names.cap = targets->list.n;
    for (uint32_t k = 0; k < targets->list.n; k++) {
        const Expr *e = targets->list.at[k];
        if (e->kind == EXPR_INDEX || e->kind == EXPR_MEMBER)
            diag_span(
                p->diags, e->span,
                "'=' names a value; to write a parameter, a state or a part of one, use '<-'; "
                "of another value, scatter(x, index, part) is one with another part");
        else if (e->kind != EXPR_NAME)
            diag_span(p->diags, e->span, "only a name can be on the left of '='");
        vec_push(p->arena, &s->names, (Item){e->text, e->span, NULL});
    }
}

static bool top_level_kind(StmtKind k)
{
    return (k >= STMT_USE && k <= STMT_MODULE);
}

static bool in_train_kind(StmtKind k)
{
    return k >= STMT_MINIMIZE;
}

static bool in_extern_kind(StmtKind k)
{
    return k >= STMT_OUT && k <= STMT_CPU;
}

static void check_extern(Parser *p, const Block *b)
{
    for (uint32_t k = 0; k < b->stmts.n; k++)
        if (!in_extern_kind(b->stmts.at[k]->kind))
            diag_span(p->diags, b->stmts.at[k]->span,
                      "an extern fn holds 'out', 'launch', 'reference' and 'cpu'; code in the "
                      "language belongs in its 'reference { … }'");
}

static void check_block(Parser *p, const Block *b, bool train)
{
    for (uint32_t k = 0; b && k < b->stmts.n; k++) {
        const Stmt *s = b->stmts.at[k];
        if (top_level_kind(s->kind))
            diag_span(p->diags, s->name_span,
                      "'%s' is declared inside a block; declarations belong at the top level",
                      s->name);
        if (in_extern_kind(s->kind))
            diag_span(p->diags, s->span, "this statement belongs in an 'extern fn'");
        if (in_train_kind(s->kind) && !train)
            diag_span(p->diags, s->span, "this statement belongs in a 'train' block");
        check_block(p, s->body, train);
        check_block(p, s->orelse, train);
    }
}

static void check_params(Parser *p, const Param *at, uint32_t n, bool callable)
{
    StrMap seen = strmap_new(p->arena);
    if (callable && n > MAX_PARAMS)
        diag_span(p->diags, at[MAX_PARAMS].span, "a function has at most %d parameters, not %u",
                  MAX_PARAMS, n);
    for (uint32_t i = 0; i < n; i++) {
        if (strmap_has(&seen, at[i].name))
            diag_span(p->diags, at[i].span, "there is a '%s' before this one", at[i].name);
        strmap_set(&seen, at[i].name, (void *)at);
    }
}

void check_places(Parser *p, const File *f)
{
    for (uint32_t k = 0; k < f->stmts.n; k++) {
        const Stmt *s = f->stmts.at[k];
        if (s->kind == STMT_LET && s->names.n && s->names.at[0].name)
            diag_span(p->diags, s->span,
                      "a statement outside of a function or model; for a compile-time value write "
                      "'const %s = ...'",
                      s->names.at[0].name);
        else if (!top_level_kind(s->kind))
            diag_span(p->diags, s->span, "a statement outside of a function or model");
        check_params(p, s->params.at, s->params.n, s->kind == STMT_FN);
        check_params(p, s->gparams.at, s->gparams.n, true);
        if (s->kind == STMT_FN && s->text) {
            check_extern(p, s->body);
            for (uint32_t i = 0; i < s->body->stmts.n; i++)
                check_block(p, s->body->stmts.at[i]->body, false);
        } else {
            check_block(p, s->body, s->kind == STMT_TRAIN);
        }
        check_block(p, s->gbody, false);
    }
}
