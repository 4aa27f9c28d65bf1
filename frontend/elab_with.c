// `f(x) with F`: the layers of a call with other weights. Wherever its body reads a parameter p, it
// reads F(p) instead: an average, a target network's copy, p with a low-rank change. F is called
// once for each parameter, at the place of the call; the states and parameters of F are named after
// p, as those of an update are.
#include <string.h>

#include "frontend/elab.h"

bool eval_waiting(Elab *e, const Expr *x, Val *fn, const char **as)
{
    bool named = x->kind == EXPR_AS;
    *fn = eval(e, named ? x->a : x);
    *as = named ? scope_name_text(e, x->scope) : NULL;
    return fn->kind != V_POISON && (*as || !named);
}

With *with_new(Elab *e, const Expr *x)
{
    With *w = NEW(e->arena, With);
    *w = (With){.up = e->with, .span = x->span, .g = e->g, .region = e->region};
    if (!eval_waiting(e, x, &w->fn, &w->as) || w->fn.kind == V_NONE) return NULL;
    w->values = idmap_new(e->arena);
    if (w->fn.kind == V_FN) return w;
    fail(e, x->span, "'with' takes a function of a parameter, like ema, or none; found %s",
         val_text(e, &w->fn));
    return NULL;
}

With *with_entry(Elab *e, const Expr *x)
{
    Frame frame = {.up = e->frame, .name = "train", .file = e->files.at[0], .id = ++e->frames};
    frame.vars = strmap_new(e->arena);
    frame.scope = scope_child(e, NULL, "", false);
    e->frame = &frame;
    With *w = with_new(e, x);
    e->frame = frame.up;
    return w;
}

// F(p), converted to a tensor of the type of p.
static Val replaced(Elab *e, const With *w, ECell *c, Span span)
{
    Val p = with_value(e, c, span);
    if (p.kind == V_POISON) return p;
    Scope *scope = scope_child(e, NULL, c->cell.name, false);
    scope->of_cell = true;
    if (w->as) scope = scope_child(e, scope, w->as, false);
    Val v = call_leading(e, w->fn, &p, 1, w->span, scope);
    const char *missing = v.kind == V_FN ? fn_missing(e, v.fn) : NULL;
    if (missing) return fail(e, w->span, "'%s' still needs %s", v.fn->name, missing);
    if (v.kind == V_POISON) return v;
    Node *n = to_tensor(e, &v, c->cell.type.dtype, w->span);
    if (!n || type_equal(&n->type, &c->cell.type)) return n ? val_node(n) : val_poison();
    return fail(e, w->span, "the weights for '%s' must be %s, found %s", c->cell.name,
                type_text(e, &c->cell.type), type_text(e, &n->type));
}

Val with_value(Elab *e, ECell *c, Span span)
{
    With *w = e->with;
    uint64_t known;
    if (!w || c->cell.kind != CELL_PARAM) return val_cell(c);
    if (idmap_get(&w->values, (uintptr_t)c, &known)) return *(Val *)(uintptr_t)known;
    Graph *g = e->g;
    Region *region = e->region;
    uint32_t elaboration = e->elaboration;
    Val *v = NEW(e->arena, Val);
    e->with = w->up;
    e->g = w->g;
    e->region = w->region;
    e->elaboration = ++e->elaborations; // other calls and updates may define the same states
    *v = replaced(e, w, c, span);
    idmap_set(&w->values, (uintptr_t)c, (uintptr_t)v);
    e->with = w;
    e->g = g;
    e->region = region;
    e->elaboration = elaboration;
    return *v;
}

// A state on which the value depends and which training leaves as it was, or NULL.
static const char *untrained(Elab *e, Node *n)
{
    IdMap seen = idmap_new(e->arena);
    VEC(const Node *) list = {0};
    vec_push(e->arena, &list, n);
    for (uint32_t i = 0; i < list.n; i++) {
        const Node *x = list.at[i];
        const char *name = x->op == OP_state ? attr_str(x, ATTR_name) : NULL;
        const ECell *c = name ? strmap_get(&e->cells, name) : NULL;
        if (c && c->cell.kind == CELL_STATE && !c->trained) return name;
        for (uint32_t k = 0; k < x->nargs; k++) {
            if (idmap_get(&seen, (uintptr_t)x->args[k], NULL)) continue;
            idmap_set(&seen, (uintptr_t)x->args[k], 1);
            vec_push(e->arena, &list, x->args[k]);
        }
    }
    return NULL;
}

void with_tell_untrained(Elab *e, const With *w)
{
    const char *first = NULL;
    int n = 0;
    uint64_t known;
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        const ECell *c = e->cell_list.at[i];
        if (!c->trained || !idmap_get(&w->values, (uintptr_t)c, &known)) continue;
        const Val *v = (const Val *)(uintptr_t)known;
        const char *name = v->kind == V_TENSOR ? untrained(e, v->node) : NULL;
        if (name && !n++) first = name;
    }
    if (!n) return;
    Loc at = loc_add(e->diags, w->span, 0, NULL);
    const char *more = n > 1 ? arena_printf(e->arena, " and %d more", n - 1) : "";
    vec_push(
        e->arena, &e->module->notes,
        arena_printf(e->arena,
                     "note: %s: evaluations read '%s'%s in place of trained parameters, and no "
                     "step changes %s: use the function as an update, too, after the "
                     "optimizer's ('update ema for params()')",
                     loc_text(e->diags, at), first, more, n > 1 ? "them" : "it"));
}
