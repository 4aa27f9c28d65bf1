// Expressions.
#include <string.h>

#include "frontend/elab_survey.h"
#include "base/names.h"

// Limits of the nesting of expressions and calls, and of the C stack that it takes: threads have at
// least 1 MiB.
enum { MAX_DEPTH = 1200, MAX_STACK = 640 << 10 };

static Val deep_error(Elab *e, Span span)
{
    return fail(e, span, "expressions or calls are nested too deeply here, %d in one another",
                e->depth);
}

static Span op_span(const Expr *x)
{
    return x->op_span.end ? x->op_span : x->span;
}

Val eval_named(Elab *e, const Expr *x, const char *name)
{
    const char *outer = e->frame->let_name;
    e->frame->let_name = name;
    Val v = eval(e, x);
    e->frame->let_name = outer;
    return v;
}

bool eval_bool(Elab *e, const Expr *x, const char *what, bool *out)
{
    Val v = eval(e, x);
    return to_bool(e, &v, x->span, what, out);
}

bool eval_dtype(Elab *e, const TypeExpr *t, DType *out)
{
    Val v;
    if (!t->dtype) {
        fail(e, t->span, "an element type is missing, as in f32[3]");
        return false;
    }
    if (dtype_parse(t->dtype, out)) return true;
    if (name_try(e, t->dtype, t->span, &v) && v.kind == V_DTYPE) return *out = v.dtype, true;
    const char *names[DT_COUNT];
    for (int i = 0; i < DT_COUNT; i++) names[i] = dtype_info[i].name;
    fail(e, t->span, "unknown element type '%s'%s", t->dtype,
         advise(t->dtype, names, DT_COUNT).text);
    return false;
}

Val eval_size(Elab *e, const Expr *x)
{
    uint32_t outer = e->sizing;
    e->sizing = e->frame->id;
    Val v = eval(e, x);
    e->sizing = outer;
    return v;
}

bool eval_type(Elab *e, const TypeExpr *t, Type *out)
{
    *out = (Type){0};
    if (!eval_dtype(e, t, &out->dtype)) return false;
    bool ok = true;
    for (uint32_t i = 0; i < t->dims.n; i++) {
        Val v = eval_size(e, t->dims.at[i]);
        Type part = {0};
        // A list is several axes, as in f32[shape(p)].
        uint32_t len;
        if (v.kind == V_POISON) {
            ok = false;
            continue;
        }
        if (seq_length(&v, &len) && len == 0) continue;
        if (!to_shape(e, &v, t->dims.at[i]->span, &part)) {
            ok = false;
            continue;
        }
        for (int j = 0; j < part.rank; j++) {
            if (out->rank >= MAX_RANK) {
                fail(e, t->span, "a tensor has at most %d axes", MAX_RANK);
                return false;
            }
            out->sym[out->rank] = part.sym[j];
            out->dim[out->rank++] = part.dim[j];
        }
    }
    return ok && check_size(e, out, t->span);
}

// Appends a.b.c or h[0].weight as text. Returns NULL if x is not of this form.
static bool path_text(Elab *e, const Expr *x, Buf *b)
{
    if (x->kind == EXPR_NAME) {
        buf_str(b, x->text);
        return true;
    }
    if (x->kind == EXPR_MEMBER) {
        if (!path_text(e, x->a, b)) return false;
        buf_printf(b, ".%s", x->text);
        return true;
    }
    if (x->kind == EXPR_INDEX && x->items.n == 1) {
        const Expr *i = x->items.at[0].value;
        if (i->kind != EXPR_INT && i->kind != EXPR_NAME && i->kind != EXPR_STRING &&
            i->kind != EXPR_BINARY)
            return false;
        if (!path_text(e, x->a, b)) return false;
        uint32_t errors = e->diags->errors;
        Val v;
        if (i->kind == EXPR_NAME) {
            if (!name_try(e, i->text, i->span, &v)) return false;
        } else {
            v = eval(e, i);
        }
        if (e->diags->errors != errors) return false;
        if (v.kind == V_INT)
            buf_printf(b, ".%lld", (long long)v.i);
        else if (v.kind == V_STRING)
            buf_printf(b, ".%s", v.s);
        else
            return false;
        return true;
    }
    return false;
}

static Val member(Elab *e, const Expr *x)
{
    Buf b = buf_new(e->arena);
    if (path_text(e, x, &b)) {
        Val v = path_value(e, b.data, x->span);
        if (v.kind != V_ABSENT) return v;
        // The first name of a path need not be a value.
        const Expr *root = x->a;
        while (root->kind == EXPR_MEMBER || root->kind == EXPR_INDEX) root = root->a;
        Val any;
        if (root->kind == EXPR_NAME && !name_try(e, root->text, root->span, &any)) {
            const char **names = NEW_ARRAY(e->arena, const char *, e->cell_list.n + 1);
            uint32_t n = 0;
            for (uint32_t i = 0; i < e->cell_list.n; i++)
                names[n++] = e->cell_list.at[i]->cell.name;
            Diag *d = error_at(e, x->span, "no parameter or state '%s' is defined up to here%s",
                               b.data, advise(b.data, names, n).text);
            const char *instead = foreign_name(x->text, false); // such as torch.cat, F.relu
            if (name_try(e, x->text, x->span, &any) && any.kind == V_FN)
                diag_note(e->diags, d, "the function is '%s', as in %s(x)", x->text, x->text);
            else if (instead)
                diag_note(e->diags, d, "%s", instead);
            return val_poison();
        }
    }
    Val v = eval(e, x->a);
    if (v.kind == V_POISON) return v;
    if (v.kind == V_FILE) {
        Global *g = strmap_get(&v.file->globals, x->text);
        if (g) return global_value(e, g, x->span);
        const char **names = NEW_ARRAY(e->arena, const char *, v.file->globals.n + 1);
        for (uint32_t i = 0; i < v.file->globals.n; i++) names[i] = v.file->globals.entry[i].key;
        return fail(e, op_span(x), "'%s' defines no '%s'%s", v.file->name, x->text,
                    advise(x->text, names, v.file->globals.n).text);
    }
    if (v.kind == V_TUPLE && v.seq->names) {
        for (uint32_t i = 0; i < v.seq->n; i++)
            if (v.seq->names[i] && !strcmp(v.seq->names[i], x->text)) return v.seq->at[i];
        const char **names = NEW_ARRAY(e->arena, const char *, v.seq->n + 1);
        uint32_t n = 0;
        for (uint32_t i = 0; i < v.seq->n; i++)
            if (v.seq->names[i]) names[n++] = v.seq->names[i];
        return fail(e, op_span(x), "there is no result named '%s'%s", x->text,
                    advise(x->text, names, n).text);
    }
    Diag *d = error_at(e, op_span(x), "%s has no member '%s'", val_text(e, &v), x->text);
    Val f;
    const char *instead = foreign_name(x->text, true);
    if (instead)
        diag_note(e->diags, d, "%s", instead);
    else if (name_try_around(e, x->text, x->span, &f) && f.kind == V_FN)
        diag_note(e->diags, d,
                  "functions are called with their first argument in brackets: %s(x, ...)",
                  x->text);
    return val_poison();
}

static Val binary_logic(Elab *e, const Expr *x, Val a)
{
    // Operators on values known at compile time short-circuit.
    if (a.kind == V_BOOL && a.b == (x->binary == BIN_OR)) return a;
    Val b = eval(e, x->b);
    return binary_values(e, x->binary, a, b, x->a->span, x->b->span, op_span(x));
}

// Chains (a + b + c + …) may be long, so they are evaluated by iteration, not by recursion.
static Val binary(Elab *e, const Expr *x)
{
    VEC(const Expr *) spine = {0};
    const Expr *at = x;
    for (; at->kind == EXPR_BINARY; at = at->a) vec_push(e->arena, &spine, at);
    Val v = eval(e, at);
    for (uint32_t i = spine.n; i-- > 0;) {
        const Expr *s = spine.at[i];
        if (s->binary == BIN_AND || s->binary == BIN_OR) {
            v = binary_logic(e, s, v);
            continue;
        }
        Val b = eval(e, s->b);
        v = binary_values(e, s->binary, v, b, s->a->span, s->b->span, op_span(s));
    }
    return v;
}

static Val unary(Elab *e, const Expr *x)
{
    Val v = eval(e, x->a);
    if (v.kind == V_FLOAT && x->unary == UN_NEG) return val_float(-v.f);
    return apply_op(e, x->unary == UN_NEG ? OP_neg : OP_not, &v, &x->a->span, 1, op_span(x));
}

static Val items(Elab *e, const Expr *x, ValKind kind)
{
    VEC(Val) v = {0};
    for (uint32_t i = 0; i < x->items.n; i++) {
        Val item = eval(e, x->items.at[i].value);
        if (item.kind == V_POISON) return item;
        vec_push(e->arena, &v, item);
    }
    Val seq = val_seq(e, kind, v.n);
    for (uint32_t i = 0; i < v.n; i++) seq.seq->at[i] = v.at[i];
    return seq;
}

static Val range(Elab *e, const Expr *x)
{
    Val lo = eval(e, x->lo ? x->lo : x->a), hi = eval(e, x->hi ? x->hi : x->b);
    Val v = {.kind = V_RANGE};
    if (val_is_tensor(&hi)) {
        Diag *d = error_at(e, x->span,
                           "the end of a range must be an integer known at compile time, found %s",
                           val_text(e, &hi));
        diag_note(e->diags, d,
                  "a number of iterations that is data ends a loop early: 'loop i in 0..100 carry "
                  "x while i < n'");
        return val_poison();
    }
    if (!to_int(e, &lo, x->span, "the start of a range", &v.range.lo) ||
        !to_int(e, &hi, x->span, "the end of a range", &v.range.hi))
        return val_poison();
    int64_t count;
    if (v.range.hi > v.range.lo &&
        (__builtin_sub_overflow(v.range.hi, v.range.lo, &count) || count > UINT32_MAX))
        return fail(e, x->span, "the range %lld..%lld has 2^32 numbers or more",
                    (long long)v.range.lo, (long long)v.range.hi);
    return v;
}

static Val cond(Elab *e, const Expr *x)
{
    bool c;
    if (!eval_bool(e, x->a, "the condition of 'if'", &c)) return val_poison();
    return eval(e, c ? x->b : x->c);
}

// A call with suffixes in any order, at most one scope name and one `with`.
static Val scoped(Elab *e, const Expr *x)
{
    CallSite at = {0};
    const Expr *odd = NULL; // a suffix that does not fit what it follows
    for (at.call = x; !odd && at.call->kind != EXPR_CALL; at.call = at.call->a) {
        const Expr *c = at.call;
        if (c->kind == EXPR_WITH && !at.with)
            at.with = c->b;
        else if ((c->kind == EXPR_AS || c->kind == EXPR_REUSE) && !at.scope)
            at.scope = c->scope, at.reuse = c->kind == EXPR_REUSE;
        else
            odd = x;
    }
    if (!odd) return call_expr(e, &at);
    if (at.with)
        return fail(e, x->span,
                    "'with' applies a function to the parameters of a call; what is before it is "
                    "not a call, or already has one: x + (f(x) with ema)");
    const char *word = x->kind == EXPR_AS ? "as" : "reuse", *name = scope_name_text(e, x->scope);
    return fail(e, x->scope->span,
                "'%s' names the parameters of a call, and what is before it is not a call as a "
                "whole; put the call in brackets: x + (f(x) %s %s)",
                word, word, name ? name : "name");
}

static Val call(Elab *e, const Expr *x)
{
    uint32_t outer = e->sizing;
    e->sizing = 0; // a size may contain a call, but sizes within that call are evaluated normally
    Val v = call_expr(e, &(CallSite){.call = x});
    e->sizing = outer;
    return v;
}

static Val eval_inner(Elab *e, const Expr *x)
{
    switch (x->kind) {
    case EXPR_INT: return val_int(x->i);
    case EXPR_FLOAT: return val_float(x->f);
    case EXPR_BOOL: return val_bool(x->i != 0);
    case EXPR_STRING: return val_string(x->text);
    case EXPR_NAME: return name_value(e, x->text, x->span);
    case EXPR_MEMBER: return member(e, x);
    case EXPR_UNARY: return unary(e, x);
    case EXPR_BINARY: return binary(e, x);
    case EXPR_CALL: return call(e, x);
    case EXPR_INDEX: {
        Val base = eval(e, x->a);
        return base.kind == V_POISON ? base : index_value(e, x, base);
    }
    case EXPR_LIST: return items(e, x, V_LIST);
    case EXPR_TUPLE: return items(e, x, V_TUPLE);
    case EXPR_RANGE: return range(e, x);
    case EXPR_AS:
    case EXPR_REUSE:
    case EXPR_WITH: return scoped(e, x);
    case EXPR_COND: return cond(e, x);
    case EXPR_SLICE:
    case EXPR_ELLIPSIS: return fail(e, x->span, "a slice can be used only inside x[…]");
    case EXPR_ERROR: return val_poison();
    }
    return val_poison();
}

Val eval(Elab *e, const Expr *x)
{
    intptr_t used = (intptr_t)e->stack - (intptr_t)__builtin_frame_address(0);
    if (e->depth >= MAX_DEPTH || used > MAX_STACK) return deep_error(e, x->span);
    e->depth++;
    Val v = eval_inner(e, x);
    if (e->options->survey) survey_value(e, x->span, &v);
    e->depth--;
    return v;
}
