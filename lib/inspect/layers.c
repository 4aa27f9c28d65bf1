// Assigns a model's parameters and values to layers.
#include "lib/inspect/layers.h"

#include <ctype.h>
#include <string.h>

typedef struct Layers {
    Arena *a;
    Layer *top;
    StrMap of_scope; // path -> Layer *: the innermost layer that contains it
} Layers;

size_t layer_name(const char *path)
{
    size_t n = strcspn(path, ".");
    size_t digits = path[n] ? strspn(path + n + 1, "0123456789") : 0;
    bool number = digits && (path[n + 1 + digits] == '.' || !path[n + 1 + digits]);
    return number ? n + 1 + digits : n;
}

static Layer *child(Layer *l, const char *name, size_t n)
{
    for (uint32_t i = 0; i < l->below.n; i++)
        if (!strncmp(l->below.at[i]->name, name, n) && !l->below.at[i]->name[n])
            return l->below.at[i];
    return NULL;
}

static void add_param(Layers *s, const Cell *c)
{
    Layer *l = s->top;
    const char *at = c->name;
    for (;;) {
        l->params += type_count(&c->type);
        l->param_bytes += type_bytes(&c->type);
        if (c->frozen) l->frozen += type_count(&c->type);
        size_t n = layer_name(at);
        if (!at[n]) return; // the rest is the parameter's own name
        Layer *next = child(l, at, n);
        if (!next) {
            next = NEW(s->a, Layer);
            *next = (Layer){.name = arena_strndup(s->a, at, n), .up = l};
            vec_push(s->a, &l->below, next);
        }
        l = next;
        at += n + 1;
    }
}

static Layer *layer_of(Layers *s, const Node *n)
{
    const char *path = n->scope ? n->scope : "";
    Layer *l = strmap_get(&s->of_scope, path), *next = s->top;
    if (l) return l;
    for (const char *at = path; next && *at;) {
        size_t len = layer_name(at);
        l = next;
        next = child(l, at, len);
        at += len + (at[len] == '.');
    }
    l = next ? next : l;
    strmap_set(&s->of_scope, path, l);
    return l;
}

static double flops_of(const Node *n)
{
    double k = 1;
    int axes;
    const int64_t *axis;
    switch (node_class(n)) {
    case CLS_DOT:
        axis = attr_ints(n, ATTR_contract_a, &axes);
        for (int i = 0; i < axes; i++) k *= (double)n->args[0]->type.dim[axis[i]];
        return 2 * k * (double)type_count(&n->type);
    case CLS_ELEMENTWISE: return n->op == OP_cast ? 0 : (double)type_count(&n->type);
    case CLS_REDUCE: return (double)type_count(&n->args[0]->type);
    default: return 0;
    }
}

static bool holds(const Layer *l, const Layer *below)
{
    while (below && below != l) below = below->up;
    return below;
}

// Counts n's value, which is read in layer [to], as an output of every layer around it that does
// not contain [to].
static void hand_over(const Node *n, Layer *from, const Layer *to, bool *counted)
{
    if (from == to || node_class(n) == CLS_LEAF) return;
    for (Layer *l = from; l && !holds(l, to); l = l->up)
        if (!l->out || n->id > l->out->id) l->out = n;
    for (Layer *l = from; l && !*counted; l = l->up) l->activations += type_bytes(&n->type);
    *counted = true;
}

// Whether n depends on inputs or parameters. Values computed from constants only, such as masks and
// positions, are shared by layers and belong to none.
static bool varies(const Node *n, const bool *known)
{
    if (node_class(n) == CLS_LEAF) return n->op != OP_const && n->op != OP_iota;
    for (uint32_t k = 0; k < n->nargs; k++)
        if (known[n->args[k]->id]) return true;
    return false;
}

// times: iterations of the enclosing loops. Values inside a loop are not read outside of it.
static void add_graph(Layers *s, const Graph *g, double times)
{
    bool *counted = NEW_ARRAY(s->a, bool, g->nodes.n + 1);
    bool *varying = NEW_ARRAY(s->a, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        varying[i] = varies(n, varying);
        if (n->role != ROLE_FORWARD || !varying[i]) continue;
        Layer *l = node_class(n) == CLS_ROOT ? s->top : layer_of(s, n);
        double flops = times * flops_of(n);
        for (Layer *up = l; up; up = up->up) up->flops += (int64_t)flops;
        for (uint32_t k = 0; k < n->nargs; k++)
            if (varying[n->args[k]->id])
                hand_over(n->args[k], layer_of(s, n->args[k]), l, &counted[n->args[k]->id]);
        // (if a function has its own gradient, the first region is the function)
        if (n->nregions)
            add_graph(s, n->regions[0],
                      n->op == OP_loop ? times * (double)attr_int(n, ATTR_count, 1) : times);
    }
}

Layer *layers_of(Arena *a, const Module *m, const Graph *g)
{
    Layers s = {.a = a, .top = NEW(a, Layer), .of_scope = strmap_new(a)};
    *s.top = (Layer){.name = m->name};
    for (uint32_t i = 0; i < m->cells.n; i++)
        if (m->cells.at[i].kind == CELL_PARAM) add_param(&s, &m->cells.at[i]);
    add_graph(&s, g, 1);
    return s.top;
}

bool layers_equal(const Layer *x, const Layer *y)
{
    if (x->params != y->params || x->frozen != y->frozen || x->param_bytes != y->param_bytes ||
        x->flops != y->flops || x->activations != y->activations || x->below.n != y->below.n ||
        !x->out != !y->out || (x->out && !type_equal(&x->out->type, &y->out->type)))
        return false;
    for (uint32_t i = 0; i < x->below.n; i++)
        if (strcmp(x->below.at[i]->name, y->below.at[i]->name) ||
            !layers_equal(x->below.at[i], y->below.at[i]))
            return false;
    return true;
}
