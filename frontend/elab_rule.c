// fn f(x) { … } grad(dy) { … }: functions with their own gradient, as regions. Both bodies are
// elaborated twice: once to learn what they capture, once with that declared, so that the two
// regions agree on their parameters.
#include <string.h>

#include "frontend/elab.h"

typedef struct Key { // what the elaborator asks for to read a captured value
    const void *key;
    Node *captured;
} Key;

typedef struct Call2 {
    Fn *fn;
    Val *args; // by parameter
    const Span *spans;
    Span span;
    Scope *scope;
    Node **tensor; // by parameter; NULL if not a tensor
    VEC(Node *) captured;
    VEC(Key) keys;
    VEC(Node *) results; // of the forward region, for their types
    VEC(Node *) asserts; // what its body asserts, further results of the region
    VEC(const char *) texts;
    bool tuple;
} Call2;

Node *own_gradient(Elab *e, const Val *v, const Type *t, Span span)
{
    if (v->kind != V_NONE) return to_tensor(e, v, t->dtype, span);
    Node *zero = dtype_is_int(t->dtype) ? graph_const_int(e->g, t->dtype, 0)
                                        : graph_const(e->g, t->dtype, 0);
    return graph_broadcast_to(e->g, zero, t);
}

static bool take_results(Elab *e, Call2 *c, Region *r, Val v, bool backward)
{
    const Stmt *s = c->fn->stmt;
    uint32_t n = 1;
    if (v.kind == V_POISON) return false;
    bool many = v.kind == V_TUPLE && seq_length(&v, &n);
    if (!backward) {
        c->tuple = many;
        c->results.n = 0;
        for (uint32_t i = 0; i < n; i++) {
            Val item = many ? v.seq->at[i] : v;
            Node *t = to_tensor(e, &item, DT_COUNT, c->span);
            if (!t) return false;
            vec_push(e->arena, &r->g->results, t);
            vec_push(e->arena, &c->results, t);
        }
        c->asserts.n = c->texts.n = 0;
        for (uint32_t i = 0; i < r->assert_cond.n; i++) {
            vec_push(e->arena, &r->g->results, r->assert_cond.at[i]);
            vec_push(e->arena, &c->asserts, r->assert_cond.at[i]);
            vec_push(e->arena, &c->texts, r->assert_text.at[i]);
        }
        return true;
    }
    uint32_t at = 0, tensors = 0;
    for (uint32_t i = 0; i < s->params.n; i++) tensors += c->tensor[i] != NULL;
    // Also a list of them, as grad(y, [a, b]) returns. (Of one tensor, a list is its elements.)
    uint32_t items;
    if (tensors > 1 && v.kind == V_LIST && seq_length(&v, &items) && items == tensors) {
        many = true;
        n = items;
    }
    if (n != tensors) {
        fail(e, s->span,
             tensors == 1 ? "the gradient of '%s' must return %u value, for its tensor, found %u"
                          : "the gradient of '%s' must return one value for each of its %u "
                            "tensors, found %u",
             c->fn->name, tensors, n);
        return false;
    }
    for (uint32_t i = 0; i < s->params.n; i++) {
        if (!c->tensor[i]) continue;
        const Type *t = &c->tensor[i]->type;
        Val item = many ? v.seq->at[at] : v;
        at++;
        Node *g = own_gradient(e, &item, t, s->span);
        if (!g) return false;
        at_span(e, s->span);
        if (g->type.rank == 0) g = graph_broadcast_to(e->g, g, t);
        if (!type_equal(&g->type, t)) {
            fail(e, s->span, "the gradient for '%s' of '%s' must be %s, found %s",
                 s->params.at[i].name, c->fn->name, type_text(e, t), type_text(e, &g->type));
            return false;
        }
        vec_push(e->arena, &r->g->results, g);
    }
    Val none = val_none();
    for (uint32_t i = 0; i < c->captured.n; i++) // captured values are constants for the rule
        vec_push(e->arena, &r->g->results,
                 own_gradient(e, &none, &c->captured.at[i]->type, s->span));
    return true;
}

// ok: whether the body, or the gradient, has returned what it must.
static Region *body_region(Elab *e, Call2 *c, bool backward, bool final, bool *ok)
{
    const Stmt *s = c->fn->stmt;
    Region *r = region_open(e);
    r->no_cells = true;
    r->again = final;
    Val *args = NEW_ARRAY(e->arena, Val, s->params.n + 1);
    for (uint32_t i = 0; i < s->params.n; i++)
        args[i] = c->tensor[i] ? val_node(region_param(e, r, &c->tensor[i]->type)) : c->args[i];
    for (uint32_t i = 0; i < c->captured.n; i++) {
        Node *in = region_param(e, r, &c->captured.at[i]->type);
        idmap_set(&r->inner, (uintptr_t)c->captured.at[i], (uintptr_t)in);
        for (uint32_t k = 0; k < c->keys.n; k++)
            if (c->keys.at[k].captured == c->captured.at[i])
                idmap_set(&r->inner, (uintptr_t)c->keys.at[k].key, (uintptr_t)in);
    }
    if (!backward) {
        r->asserts = true;
        Fn plain = *c->fn;
        Val v = fn_body(e, &plain, args, c->spans, c->span, c->scope);
        *ok = take_results(e, c, r, v, false);
        return r;
    }
    Frame frame = {.up = e->frame, .fn = s, .name = c->fn->name, .file = c->fn->file};
    frame.id = ++e->frames;
    frame.vars = strmap_new(e->arena);
    frame.scope = c->scope;
    frame.call = loc_add(e->diags, c->span, e->frame->call, c->fn->name);
    frame.result = val_none();
    frame.gradient = true;
    e->frame = &frame;
    if (!fn_bind(e, c->fn, args, c->spans)) { // (the body has reported why)
        *ok = false;
        e->frame = frame.up;
        return r;
    }
    for (uint32_t i = 0; i < s->gparams.n && i < c->results.n; i++)
        name_bind(e, s->gparams.at[i].name, val_node(region_param(e, r, &c->results.at[i]->type)));
    for (uint32_t i = 0; i < c->asserts.n; i++) region_param(e, r, &c->asserts.at[i]->type);
    exec_block(e, s->gbody);
    Val v = frame.returned ? frame.result
                           : fail(e, s->span, "the gradient of '%s' returns nothing", c->fn->name);
    *ok = take_results(e, c, r, v, true);
    e->frame = frame.up;
    return r;
}

static bool no_gradient(Elab *e, const Call2 *c, const char *what, const char *name, Span span)
{
    Diag *d = error_at(e, span, "no gradient would flow to %s%s, as '%s' has its own gradient",
                       what, name ? arena_printf(e->arena, " '%s'", name) : "", c->fn->name);
    diag_note(e->diags, d,
              "which is that of its tensor arguments: pass each tensor as one, and return none "
              "for what has no gradient");
    return false;
}

// A rule has no gradient for values that the body reads beside its arguments, so such a value is
// one that needs none.
static bool captures_constants(Elab *e, const Call2 *c, const Region *r)
{
    for (const Region *up = r->up; up; up = up->up)
        if (up->again) return true; // what it captures was looked at when it was elaborated first
    for (uint32_t i = 0; i < r->outer.n; i++) {
        const ECell *cell = r->cell.at[i];
        const Node *n = region_origin(r->up, r->outer.at[i]);
        if (!dtype_is_float(n->type.dtype)) continue;
        if (cell && cell->cell.kind == CELL_PARAM && !cell->cell.frozen)
            return no_gradient(e, c, "parameter", cell->cell.name, c->span);
        if (cell || n->op == OP_const || n->op == OP_state || n->op == OP_stop_gradient) continue;
        const char *name = n->name ? n->name : attr_str(n, ATTR_name);
        return no_gradient(e, c, name ? "the value" : "a value in one of its arguments", name,
                           c->span);
    }
    return true;
}

// Whether a list holds floats that a gradient could flow to.
static bool lists_floats(const Val *v)
{
    if (v->kind == V_CELL) return true;
    if (v->kind == V_TENSOR)
        return dtype_is_float(v->node->type.dtype) && v->node->op != OP_stop_gradient;
    if (v->kind != V_LIST && v->kind != V_TUPLE) return false;
    for (uint32_t i = 0; i < v->seq->n; i++)
        if (lists_floats(&v->seq->at[i])) return true;
    return false;
}

// Whether a gradient can flow into a result; otherwise `grad` is not looked at.
static bool differentiable(const Call2 *c)
{
    for (uint32_t i = 0; i < c->results.n; i++)
        if (dtype_is_float(c->results.at[i]->type.dtype)) return true;
    return false;
}

static bool both_regions(Elab *e, Call2 *c, Region *region[2], bool final)
{
    for (int k = 0; k < 2; k++) {
        bool ok;
        region[k] = body_region(e, c, k == 1, final, &ok);
        region_close(e, region[k]);
        if (!ok || (k == 0 && !final && !captures_constants(e, c, region[0]))) return false;
        if (final) continue;
        if (k == 0 && c->fn->stmt->gparams.n != c->results.n) {
            fail(e, c->fn->stmt->span,
                 "the gradient of '%s' takes %u value%s, the function "
                 "returns %u",
                 c->fn->name, c->fn->stmt->gparams.n, c->fn->stmt->gparams.n == 1 ? "" : "s",
                 c->results.n);
            return false;
        }
        if (!differentiable(c)) return true;
    }
    for (int k = 0; k < 2 && !final; k++)
        for (uint32_t i = 0; i < region[k]->outer.n; i++) {
            vec_push(e->arena, &c->keys, ((Key){region[k]->key.at[i], region[k]->outer.at[i]}));
            bool known = false;
            for (uint32_t j = 0; j < c->captured.n; j++)
                known |= c->captured.at[j] == region[k]->outer.at[i];
            if (!known) vec_push(e->arena, &c->captured, region[k]->outer.at[i]);
        }
    return true;
}

Val call_with_gradient(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope)
{
    const Stmt *s = fn->stmt;
    Call2 c = {.fn = fn, .args = args, .spans = spans, .span = span, .scope = scope};
    c.tensor = NEW_ARRAY(e->arena, Node *, s->params.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->params.n; i++) {
        if (!val_is_tensor(&args[i])) continue;
        c.tensor[i] = to_tensor(e, &args[i], DT_COUNT, spans[i]);
        if (!c.tensor[i]) return val_poison();
        n++;
    }
    for (uint32_t i = 0; i < s->params.n && !n; i++)
        if (lists_floats(&args[i])) {
            no_gradient(e, &c, "the tensors of", s->params.at[i].name, spans[i]);
            return val_poison();
        }
    if (!n)
        return fn_body(e, fn, args, spans, span, scope); // all arguments are known at compile
                                                         // time
    Region *region[2];
    uint32_t errors = e->diags->errors;
    enum { MAX_NESTED = 5 }; // every level elaborates its body twice
    if (e->own_gradients >= MAX_NESTED)
        return fail(e, span, "functions with their own gradient are nested more than %d deep",
                    MAX_NESTED);
    e->own_gradients++;
    bool ok = both_regions(e, &c, region, false) && e->diags->errors == errors;
    bool plain = ok && !differentiable(&c);
    ok = ok && !plain && both_regions(e, &c, region, true);
    e->own_gradients--;
    if (plain) return fn_body(e, fn, args, spans, span, scope);
    if (!ok) return val_poison();
    Node **operand = NEW_ARRAY(e->arena, Node *, n + c.captured.n + 1);
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->params.n; i++)
        if (c.tensor[i]) operand[at++] = c.tensor[i];
    for (uint32_t i = 0; i < c.captured.n; i++) operand[at++] = c.captured.at[i];
    at_span(e, span);
    Attrs attrs = {0};
    attr_set_str(e->g, &attrs, ATTR_name, fn->name);
    Graph *graphs[2] = {region[0]->g, region[1]->g};
    Node *call = graph_region_node(e->g, OP_call, operand, (int)at, &attrs, graphs, 2);
    if (node_is_poison(call)) return val_poison();
    for (uint32_t i = 0; i < c.asserts.n; i++)
        region_assert(e, graph_result(e->g, call, (int)(c.results.n + i)), c.texts.at[i]);
    if (!c.tuple) return val_node(graph_result(e->g, call, 0));
    Val v = val_seq(e, V_TUPLE, c.results.n);
    for (uint32_t i = 0; i < c.results.n; i++)
        v.seq->at[i] = val_node(graph_result(e->g, call, (int)i));
    return v;
}
