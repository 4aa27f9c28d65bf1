// Calls: binding arguments, partial application, the body of a user's function.
#include <string.h>

#include "frontend/elab_survey.h"
#include "base/names.h"

static void add_param(Sig *s, const char *name, bool required)
{
    if (s->n < MAX_PARAMS) s->p[s->n++] = (struct SigParam){name, required};
}

static void add_words(Elab *e, Sig *s, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, " ");
        bool any = words[len - 1] == '*', optional = any || words[len - 1] == '?';
        const char *name = arena_strndup(e->arena, words, len - optional);
        do add_param(s, name, !optional);
        while (any && s->n < MAX_PARAMS);
        words += len;
        while (*words == ' ') words++;
    }
}

const Sig *fn_signature(Elab *e, const Fn *fn)
{
    static const char *const operands[] = {"", "a", "a b", "a b c"};
    uint32_t most = fn->stmt ? fn->stmt->params.n : MAX_PARAMS;
    Sig *s = arena_alloc(e->arena, sizeof *s + most * sizeof *s->p);
    for (uint32_t i = 0; fn->stmt && i < most; i++)
        add_param(s, fn->stmt->params.at[i].name, !fn->stmt->params.at[i].otherwise);
    if (fn->builtin) add_words(e, s, fn->builtin->params);
    if (fn->is_op)
        add_words(e, s,
                  op_info(fn->op)->class == CLS_REDUCE ? "x axis? keep?"
                                                       : operands[op_info(fn->op)->arity]);
    return s;
}

static const char *sig_text(Elab *e, const Fn *fn)
{
    const Sig *s = fn->sig;
    Buf b = buf_new(e->arena);
    buf_printf(&b, "%s(", fn->name);
    for (int i = 0; i < s->n; i++) {
        bool any = i + 1 < s->n && s->p[i].name == s->p[i + 1].name;
        buf_printf(&b, "%s%s%s", i ? ", " : "", any ? "" : s->p[i].name,
                   any                ? "…"
                   : s->p[i].required ? ""
                                      : " = …");
        if (any) break;
    }
    buf_char(&b, ')');
    return b.data;
}

const char *fn_missing(Elab *e, const Fn *fn)
{
    const Sig *s = fn->sig;
    Buf b = buf_new(e->arena);
    for (int i = 0; i < s->n; i++)
        if (s->p[i].required && (!fn->bound || fn->bound[i].kind == V_ABSENT))
            buf_printf(&b, "%s'%s'", b.len ? ", " : "", s->p[i].name);
    return b.len ? b.data : NULL;
}

const char *fn_lack(Elab *e, const Fn *fn)
{
    const char *missing = fn_missing(e, fn);
    if (!missing) return NULL;
    const Sig *s = fn->sig;
    int needs = 0, has = 0;
    for (int i = 0; i < s->n; i++) {
        needs += s->p[i].required;
        has += s->p[i].required && fn->bound && fn->bound[i].kind != V_ABSENT;
    }
    // It is not known which argument is missing, since fewer arguments than required are taken as
    // the last ones.
    return has ? arena_printf(e->arena, "has %d of the %d arguments that it needs: %s", has, needs,
                              sig_text(e, fn))
               : arena_printf(e->arena, "still needs %s", missing);
}

static bool bind_named(Elab *e, const Fn *fn, const Sig *s, const Arg *a, Val *out, Span *spans)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->p[i].name, a->name)) continue;
        if (out[i].kind != V_ABSENT) {
            fail(e, a->name_span, "'%s' is given twice to %s", a->name, sig_text(e, fn));
            return false;
        }
        out[i] = a->v;
        spans[i] = a->span;
        return true;
    }
    const char *names[MAX_PARAMS];
    for (int i = 0; i < s->n; i++) names[i] = s->p[i].name;
    Diag *d = error_at(e, a->name_span, "'%s' has no argument '%s'%s", fn->name, a->name,
                       advise_near(a->name, names, (size_t)s->n).text);
    diag_note(e->diags, d, "it is %s", sig_text(e, fn));
    return false;
}

// Positional arguments fill the open parameters from the left. If there are fewer than required
// parameters, they are the last required ones, and the call returns a function that needs the first
// ones.
static bool bind(Elab *e, const Fn *fn, const Sig *s, const Arg *args, uint32_t n, Span span,
                 Val *out, Span *spans, bool *partial)
{
    int positional = 0, required = 0, open = 0;
    bool named[MAX_PARAMS] = {false};
    for (int i = 0; i < s->n; i++) {
        out[i] = fn->bound ? fn->bound[i] : (Val){.kind = V_ABSENT};
        spans[i] = span;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (args[i].name && !bind_named(e, fn, s, &args[i], out, spans)) return false;
        positional += !args[i].name;
    }
    for (int i = 0; i < s->n; i++) {
        named[i] = out[i].kind != V_ABSENT && !(fn->bound && fn->bound[i].kind != V_ABSENT);
        open += out[i].kind == V_ABSENT;
        required += out[i].kind == V_ABSENT && s->p[i].required;
    }
    if (positional > open) {
        Diag *d = error_at(e, span, "'%s' takes at most %d argument%s here, found %d", fn->name,
                           open, open == 1 ? "" : "s", positional);
        diag_note(e->diags, d, "it is %s", sig_text(e, fn));
        return false;
    }
    int skip = positional < required ? required - positional : 0;
    bool only_required = skip > 0;
    int slot = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (args[i].name) continue;
        for (;; slot++) {
            if (named[slot] && !only_required) {
                fail(e, args[i].span, "'%s' of %s is given by position and by name",
                     s->p[slot].name, sig_text(e, fn));
                return false;
            }
            if (out[slot].kind != V_ABSENT) continue;
            if (only_required && !s->p[slot].required) continue;
            if (skip > 0) {
                skip--;
                continue;
            }
            break;
        }
        spans[slot] = args[i].span;
        out[slot++] = args[i].v;
    }
    *partial = false;
    for (int i = 0; i < s->n; i++) *partial |= out[i].kind == V_ABSENT && s->p[i].required;
    return true;
}

// Checks the declared type of a parameter. A name in it that is unknown so far becomes the size of
// that axis.
static bool check_param_type(Elab *e, const Param *p, Val *v, Span span)
{
    DType want;
    if (!p->type->dtype) return true;
    if (!eval_dtype(e, p->type, &want)) return false;
    Node *n = to_tensor(e, v, want, span);
    if (!n) return false;
    if (v->kind != V_CELL) *v = val_node(n);
    if (n->type.dtype != want) {
        fail(e, span, "'%s' must be %s, found %s", p->name, dtype_info[want].name,
             type_text(e, &n->type));
        return false;
    }
    if (!p->type->has_shape) return true;
    if (p->type->dims.n != n->type.rank) {
        fail(e, span, "'%s' must have %u ax%s, found %s", p->name, p->type->dims.n,
             p->type->dims.n == 1 ? "is" : "es", type_text(e, &n->type));
        return false;
    }
    for (uint32_t i = 0; i < p->type->dims.n; i++) {
        const Expr *dim = p->type->dims.at[i];
        Val size;
        if (dim->kind == EXPR_NAME && !name_try(e, dim->text, dim->span, &size)) {
            Val bound = val_int(n->type.dim[i]);
            bound.sym = n->type.sym[i];
            name_bind(e, dim->text, bound);
            continue;
        }
        int64_t want_size;
        size = eval(e, dim);
        if (!to_int(e, &size, dim->span, "a size", &want_size)) return false;
        if (want_size != n->type.dim[i]) {
            fail(e, span, "axis %u of '%s' must be %lld, found %s", i, p->name,
                 (long long)want_size, type_text(e, &n->type));
            return false;
        }
    }
    return true;
}

static bool recursive(Elab *e, const Fn *fn, Span span)
{
    for (Frame *f = e->frame; f; f = f->up) {
        if (f->fn != fn->stmt) continue;
        Diag *d = error_at(e, span, "'%s' calls itself; recursion is not allowed", fn->name);
        if (f->gradient)
            diag_note(e->diags, d,
                      "it is called by its own gradient: write what both compute as another "
                      "function, and call that in both");
        else
            diag_note(e->diags, d, "a 'for' unrolls at compile time, a 'loop' repeats at run time");
        return true;
    }
    return false;
}

bool fn_bind(Elab *e, const Fn *fn, Val *args, const Span *spans)
{
    const Stmt *s = fn->stmt;
    for (uint32_t i = 0; i < s->params.n; i++) {
        const Param *p = &s->params.at[i];
        if (args[i].kind == V_ABSENT) {
            args[i] = eval(e, p->otherwise);
            if (args[i].kind == V_POISON) return false;
        }
        if (p->type && s->kind == STMT_FN && !check_param_type(e, p, &args[i], spans[i]))
            return false;
        args[i] = bounded(e, args[i], spans[i]);
        if (args[i].kind == V_POISON) return false;
        survey_value(e, p->span, &args[i]);
        name_bind(e, p->name, args[i]);
    }
    return true;
}

static bool run_body(Elab *e, Fn *fn, Val *args, const Span *spans)
{
    if (!fn_bind(e, fn, args, spans)) return false;
    exec_block(e, fn->stmt->body);
    return !e->stopped;
}

Val fn_body(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope)
{
    Frame frame = {.up = e->frame, .fn = fn->stmt, .name = fn->name, .file = fn->file};
    frame.id = ++e->frames;
    frame.vars = strmap_new(e->arena);
    frame.scope = scope;
    frame.call = loc_add(e->diags, span, e->frame->call, fn->name);
    frame.result = val_none();
    e->frame = &frame;
    bool ok = run_body(e, fn, args, spans);
    e->frame = frame.up;
    return ok ? frame.result : val_poison();
}

static Val call_model(Elab *e, Fn *fn, Val *args, const Span *spans, Span span)
{
    for (uint32_t i = 0; i < fn->stmt->params.n; i++) {
        const Param *p = &fn->stmt->params.at[i];
        Type t;
        if (!p->type || !eval_type(e, p->type, &t)) return val_poison();
        Node *n = to_tensor(e, &args[i], t.dtype, spans[i]);
        if (!n) return val_poison();
        if (!type_equal(&n->type, &t))
            return fail(e, spans[i], "input '%s' of model '%s' is %s, found %s", p->name, fn->name,
                        type_text(e, &t), type_text(e, &n->type));
        args[i] = val_node(n);
    }
    Val v = model_run(e, fn->stmt, fn->file, args, span);
    return v.kind == V_TUPLE && v.seq->n == 1 ? v.seq->at[0] : v; // a single result is not a tuple
}

// Calls a function with all required arguments. scope NULL: that of the name being defined,
// otherwise that of the function's name.
static Val call_bound(Elab *e, Fn *fn, Val *bound, Span *spans, int n, Span span, Scope *scope)
{
    if (fn->is_op && op_info(fn->op)->class == CLS_ELEMENTWISE)
        return apply_op(e, fn->op, bound, spans, n, span);
    Call c = {.span = span, .arg = bound, .arg_span = spans};
    if (fn->is_op) return apply_reduce(e, fn->op, &c);
    if (fn->builtin) {
        // For a built-in, `as` names the scope of its random draws.
        Scope *outer = e->frame->scope;
        uint32_t first = e->g->nodes.n;
        if (scope) e->frame->scope = scope;
        Val v = fn->builtin->run(e, &c);
        e->frame->scope = outer;
        return val_apart(e, v, first);
    }
    if (recursive(e, fn, span)) return val_poison();
    if (fn->stmt->kind == STMT_MODEL) return call_model(e, fn, bound, spans, span);
    if (!scope) {
        const char *name = e->frame->let_name ? e->frame->let_name : fn->name;
        scope = scope_child(e, e->frame->scope, name, false);
    }
    if (fn->stmt->cuda) return call_element(e, fn, bound, spans, span, scope);
    if (fn->stmt->text) return call_extern(e, fn, bound, spans, span, scope);
    if (fn->stmt->flag) return call_with_gradient(e, fn, bound, spans, span, scope);
    return fn_body(e, fn, bound, spans, span, scope);
}

static Val call_value(Elab *e, Val callee, const Arg *args, uint32_t n, Span span, Scope *scope)
{
    if (callee.kind == V_POISON || out_of_bounds(e, span)) return val_poison();
    if (callee.kind != V_FN) return fail(e, span, "%s cannot be called", val_text(e, &callee));
    Fn *fn = callee.fn;
    const Sig *s = fn->sig;
    Val *bound = NEW_ARRAY(e->arena, Val, s->n + 1);
    Span *spans = NEW_ARRAY(e->arena, Span, s->n + 1);
    bool partial;
    if (!bind(e, fn, s, args, n, span, bound, spans, &partial)) return val_poison();
    for (int i = 0; i < s->n; i++)
        if (bound[i].kind == V_POISON) return val_poison();
    if (partial) {
        Fn *waiting = NEW(e->arena, Fn);
        *waiting = *fn;
        waiting->bound = bound;
        return (Val){.kind = V_FN, .fn = waiting};
    }
    bool training = e->training;
    e->training = training && !fn->evaluated;
    Val v = call_bound(e, fn, bound, spans, s->n, span, scope);
    e->training = training;
    return v;
}

Val call_leading(Elab *e, Val callee, const Val *v, uint32_t n, Span span, Scope *scope)
{
    Arg *args = NEW_ARRAY(e->arena, Arg, n + 1);
    const Sig *s = callee.kind == V_FN ? callee.fn->sig : NULL;
    for (uint32_t i = 0; i < n; i++)
        args[i] = (Arg){.span = span,
                        .name_span = span,
                        .v = v[i],
                        .name = s && (int)n <= s->n ? s->p[i].name : NULL};
    return call_value(e, callee, args, n, span, scope);
}

static Val call_site(Elab *e, const CallSite *at, Val callee, const Arg *args, uint32_t n)
{
    const char *name = at->scope ? scope_name_text(e, at->scope) : NULL;
    Scope *scope = name ? scope_child(e, e->frame->scope, name, at->reuse) : NULL;
    With *outer = e->with, *with = at->with ? with_new(e, at->with) : NULL;
    if (with) e->with = with;
    Val v = call_value(e, callee, args, n, at->call->span, scope);
    e->with = outer;
    return v;
}

static Val no_function(Elab *e, const Expr *x, const Val *callee)
{
    Diag *d = error_at(e, x->span, "%s cannot be called", val_text(e, callee));
    Val hidden;
    if (x->a->kind == EXPR_NAME && name_try_around(e, x->a->text, x->a->span, &hidden) &&
        hidden.kind == V_FN)
        diag_note(e->diags, d,
                  "'%s' names a value here, which hides the function; give it another name",
                  x->a->text);
    return val_poison();
}

Val call_expr(Elab *e, const CallSite *at)
{
    const Expr *x = at->call;
    Val callee = eval(e, x->a);
    if (callee.kind == V_POISON) {
        // Reports errors in the arguments, too.
        for (uint32_t i = 0; i < x->items.n; i++) eval(e, x->items.at[i].value);
        return callee;
    }
    if (callee.kind != V_FN) return no_function(e, x, &callee);
    uint32_t n = x->items.n;
    Arg *args = NEW_ARRAY(e->arena, Arg, n + 1);
    bool ok = true;
    for (uint32_t i = 0; i < n; i++) {
        const Item *item = &x->items.at[i];
        args[i].name = item->name;
        args[i].name_span = item->name_span;
        args[i].v = eval(e, item->value);
        args[i].span = item->value->span;
        ok &= args[i].v.kind != V_POISON;
    }
    return ok ? call_site(e, at, callee, args, n) : val_poison();
}
