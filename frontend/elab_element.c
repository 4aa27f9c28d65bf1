// fn f(a) = cuda "…" reference … grad "…": a user-defined elementwise function becomes a node that
// holds its text and, as regions, its reference and its gradient.
#include <string.h>

#include "base/plain.h"
#include "frontend/elab.h"

enum { MOST_OPERANDS = 3 };

typedef struct Element {
    Elab *e;
    Fn *fn;
    const Stmt *s;
    Val *args; // by parameter
    Span span; // of the call
    Scope *scope;
    Node *operand[MOST_OPERANDS]; // all of one type
    uint32_t param[MOST_OPERANDS];
    int n;
} Element;

// -- text -----------------------------------------------------------------------------------------

static bool word_char(char c)
{
    return plain_alnum(c) || c == '_';
}

// The text with $k in place of operand k, and with numbers that are known at compile time.
static const char *element_text(Element *x, const char *text, Span span)
{
    Elab *e = x->e;
    Buf b = buf_new(e->arena);
    for (const char *p = text; *p;) {
        if (*p == '$' || *p == '\n' || *p == '"' || *p == '#' || *p == ';') {
            fail(e, span, "a text in CUDA must be one expression: it cannot contain %s",
                 *p == '\n' ? "a line end" : arena_printf(e->arena, "'%c'", *p));
            return NULL;
        }
        size_t n = 0;
        while (word_char(p[n])) n++;
        uint32_t i = 0;
        while (n && i < x->s->params.n &&
               (strlen(x->s->params.at[i].name) != n || strncmp(x->s->params.at[i].name, p, n)))
            i++;
        bool name = n && i < x->s->params.n && (p == text || p[-1] != '.');
        int k = 0;
        while (name && k < x->n && x->param[k] != i) k++;
        const Val *v = name ? &x->args[i] : NULL;
        if (name && k < x->n)
            buf_printf(&b, "$%d", k);
        else if (name && v->kind == V_INT)
            buf_printf(&b, "(%lld)", (long long)v->i);
        else if (name && v->kind == V_FLOAT)
            buf_printf(&b, "(float)(%a)", v->f);
        else if (name && v->kind == V_BOOL)
            buf_str(&b, v->b ? "true" : "false");
        else
            buf_bytes(&b, p, n ? n : 1);
        p += n ? n : 1;
    }
    if (!b.len) fail(e, span, "this text is empty");
    return b.len ? b.data : NULL;
}

// -- values ---------------------------------------------------------------------------------------

// The reference expression for these operands, cast to the type of the operands.
static Node *reference(Element *x, Node *const *on)
{
    Elab *e = x->e;
    Frame f;
    text_frame(x->e, x->fn, x->s, x->span, x->scope, &f);
    for (uint32_t i = 0; i < x->s->params.n; i++) {
        int k = 0;
        while (k < x->n && x->param[k] != i) k++;
        name_bind(e, x->s->params.at[i].name, k < x->n ? val_node(on[k]) : x->args[i]);
    }
    Val v = eval(e, x->s->expr);
    e->frame = f.up;
    const Type *t = &x->operand[0]->type;
    Node *y = v.kind == V_POISON ? NULL : to_tensor(e, &v, t->dtype, x->s->expr->span);
    if (!y) return NULL;
    at_span(e, x->s->expr->span);
    if (y->type.rank == 0) y = graph_broadcast_to(e->g, y, t);
    if (dtype_is_float(y->type.dtype)) y = graph_cast(e->g, y, t->dtype);
    if (type_equal(&y->type, t)) return y;
    fail(e, x->s->expr->span,
         "'%s' gives one element of its type for each element of %s, its reference gives %s",
         x->fn->name, type_text(e, t), type_text(e, &y->type));
    return NULL;
}

static Node *total(Elab *e, Node *y)
{
    int64_t axes[MAX_RANK];
    for (int i = 0; i < y->type.rank; i++) axes[i] = i;
    return y->type.rank ? graph_reduce(e->g, OP_sum, y, axes, y->type.rank, false) : y;
}

static Region *region_begin(Element *x, Node **on)
{
    Region *r = region_open(x->e);
    r->no_cells = true;
    for (int k = 0; k < x->n; k++) on[k] = region_param(x->e, r, &x->operand[k]->type);
    return r;
}

static bool region_end(Element *x, Region *r, Node *result)
{
    if (result) vec_push(x->e->arena, &r->g->results, result);
    region_close(x->e, r);
    if (!result || !r->outer.n) return result;
    fail(x->e, x->s->expr->span, "'%s' can use only its arguments", x->fn->name);
    return false;
}

static Node *node(Element *x, Node *const *on, const char *text, Graph **regions, int n)
{
    Attrs attrs = {0};
    attr_set_str(x->e->g, &attrs, ATTR_name, x->fn->name);
    attr_set_str(x->e->g, &attrs, ATTR_text, text);
    at_span(x->e, x->span);
    return graph_region_node(x->e->g, OP_own, on, x->n, &attrs, regions, n);
}

// The slope with respect to operand k, computed by its text; its reference is the derivative of the
// function's reference.
static Node *slope(Element *x, Node *const *on, int k, const Item *item)
{
    Node *in[MOST_OPERANDS];
    const char *text = element_text(x, item->value->text, item->value->span);
    if (!text) return NULL;
    Region *r = region_begin(x, in);
    Node *y = reference(x, in), *d = NULL;
    if (y) d = graph_node(x->e->g, OP_grad, (Node *[]){total(x->e, y), in[k]}, 2, &(Attrs){0});
    return region_end(x, r, d) ? node(x, on, text, &r->g, 1) : NULL;
}

// The gradient region. Its parameters: operands, the result, its cotangent.
static Graph *gradient(Element *x)
{
    Elab *e = x->e;
    Node *on[MOST_OPERANDS], *d[MOST_OPERANDS] = {0};
    Region *r = region_begin(x, on);
    region_param(e, r, &x->operand[0]->type);
    Node *dy = region_param(e, r, &x->operand[0]->type), *y = NULL;
    bool ok = true;
    if (!x->s->items.n) {
        y = reference(x, on);
        if (y) y = total(e, graph_binary(e->g, OP_mul, y, dy));
        ok = y != NULL;
    }
    for (int k = 0; k < x->n && ok; k++) {
        if (y) {
            d[k] = graph_node(e->g, OP_grad, (Node *[]){y, on[k]}, 2, &(Attrs){0});
        } else {
            d[k] = slope(x, on, k, &x->s->items.at[x->param[k]]);
            if (d[k]) d[k] = graph_binary(e->g, OP_mul, d[k], dy);
        }
        ok = d[k] != NULL;
        if (ok) vec_push(e->arena, &r->g->results, d[k]);
    }
    region_close(e, r);
    return ok ? r->g : NULL;
}

// -- the call -------------------------------------------------------------------------------------

// Broadcasts all operands to one shape.
static bool spread(Element *x)
{
    Type t = x->operand[0]->type;
    for (int k = 1; k < x->n; k++) {
        const Type *u = &x->operand[k]->type;
        Type wide = u->rank > t.rank ? *u : t;
        const Type *other = u->rank > t.rank ? &t : u;
        for (int i = 0; i < other->rank; i++) {
            int at = wide.rank - other->rank + i;
            if (wide.dim[at] == 1) wide.dim[at] = other->dim[i], wide.sym[at] = other->sym[i];
        }
        t = wide;
    }
    at_span(x->e, x->span);
    for (int k = 0; k < x->n; k++) {
        x->operand[k] = graph_broadcast_to(x->e->g, x->operand[k], &t);
        if (node_is_poison(x->operand[k])) return false;
    }
    return true;
}

static bool take_operands(Element *x, const Span *spans)
{
    Elab *e = x->e;
    Val tensor[MOST_OPERANDS];
    Span at[MOST_OPERANDS];
    for (uint32_t i = 0; i < x->s->params.n; i++) {
        if (!val_is_tensor(&x->args[i])) continue;
        if (x->n == MOST_OPERANDS) {
            fail(e, x->span, "'%s' is called with more than %d tensors", x->fn->name,
                 MOST_OPERANDS);
            return false;
        }
        tensor[x->n] = x->args[i];
        at[x->n] = spans[i];
        x->param[x->n++] = i;
    }
    if (!x->n) return true;
    if (!join_operands(e, x->fn->name, tensor, at, x->n, x->operand, x->span)) return false;
    if (!dtype_is_float(x->operand[0]->type.dtype)) {
        fail(e, x->span, "'%s' is computed in floats, found %s", x->fn->name,
             type_text(e, &x->operand[0]->type));
        return false;
    }
    return spread(x);
}

Val call_element(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope)
{
    const Stmt *s = fn->stmt;
    Element x = {.e = e, .fn = fn, .s = s, .args = args, .span = span, .scope = scope};
    if (s->items.n && s->items.n != s->params.n)
        return fail(e, s->name_span, "'%s' takes %u argument%s and has %u gradient%s", fn->name,
                    s->params.n, s->params.n == 1 ? "" : "s", s->items.n,
                    s->items.n == 1 ? "" : "s");
    Frame f;
    text_frame(e, x.fn, x.s, x.span, x.scope, &f);
    bool ok = fn_bind(e, fn, args, spans);
    Val known = val_none();
    if (ok) ok = take_operands(&x, spans);
    if (ok && !x.n) known = eval(e, s->expr); // all operands are known at compile time
    e->frame = f.up;
    if (!ok || !x.n) return ok ? known : val_poison();
    const char *text = element_text(&x, s->cuda, s->text_span);
    if (!text) return val_poison();
    Node *on[MOST_OPERANDS];
    Region *r = region_begin(&x, on);
    if (!region_end(&x, r, reference(&x, on))) return val_poison();
    Graph *regions[2] = {r->g, gradient(&x)};
    if (!regions[1]) return val_poison();
    Node *n = node(&x, x.operand, text, regions, 2);
    return node_is_poison(n) ? val_poison() : val_node(graph_result(e->g, n, 0));
}
