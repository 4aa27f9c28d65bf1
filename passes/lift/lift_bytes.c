// How much memory lifted code takes. Elementwise code and views are fused into what reads them and
// take none, but for three readers that need them in memory: products and their kin, loops, and
// reductions of what was computed from another reduction along other axes (a softmax of columns of
// a softmax of rows).
#include <string.h>

#include "passes/lift/lift.h"

static bool is_fused(const Node *x)
{
    const OpClass c = node_class(x);
    return c == CLS_ELEMENTWISE || c == CLS_VIEW || c == CLS_LEAF;
}

int64_t lift_bytes(const Node *x)
{
    if (is_fused(x)) return 0;
    int64_t bytes = type_bytes(&x->type);
    for (uint32_t k = 0; k < x->nargs && node_class(x) != CLS_REDUCE; k++)
        if (x->args[k]->op != OP_region_param) bytes += type_bytes(&x->args[k]->type);
    return bytes;
}

int64_t lift_room(const Node *loop, const Graph *body, int64_t most, int64_t limit)
{
    const int64_t count = attr_int(loop, ATTR_count, 1);
    const uint32_t carried = (uint32_t)attr_int(loop, ATTR_carried, 0),
                   scanned = (uint32_t)attr_int(loop, ATTR_scanned, 0);
    int64_t bytes = 0;
    for (uint32_t k = 0; k < scanned; k++)
        bytes += type_bytes(&body->params.at[1 + carried + k]->type);
    for (uint32_t i = carried; i < body->results.n; i++)
        bytes += type_bytes(&body->results.at[i]->type);
    if (bytes < most / count) bytes = most / count;
    return limit && bytes > limit / count ? limit / count : bytes;
}

// Whether reductions go along the same axes of equal shapes, so that one kernel may keep a row.
static bool same_rows(const Node *a, const Node *b)
{
    int na, nb;
    const int64_t *x = attr_ints(a, ATTR_axes, &na), *y = attr_ints(b, ATTR_axes, &nb);
    const Type *s = &a->args[0]->type, *t = &b->args[0]->type;
    return na == nb && s->rank == t->rank && !memcmp(x, y, (size_t)na * sizeof *x) &&
           !memcmp(s->dim, t->dim, (size_t)s->rank * sizeof *s->dim);
}

// The reductions that a value is computed from by fused code.
typedef struct Reduced {
    const Node *by; // one of them, or NULL
    bool mixed;     // others go along other rows
} Reduced;

static Reduced joined(const Node *x, const Reduced *of)
{
    Reduced r = {0};
    for (uint32_t k = 0; k < x->nargs; k++) {
        const Reduced *a = &of[x->args[k]->id];
        r.mixed |= a->mixed || (a->by && r.by && !same_rows(a->by, r.by));
        if (a->by) r.by = a->by;
    }
    return r;
}

static int64_t loop_bytes(const Node *x, const bool *varies)
{
    const Graph *body = x->regions[0];
    const uint32_t carried = (uint32_t)attr_int(x, ATTR_carried, 0);
    int64_t bytes = lift_body_bytes(body, NULL);
    for (uint32_t k = carried; k < x->nargs; k++) {
        const Node *a = x->args[k];
        if (is_fused(a) && node_class(a) != CLS_LEAF && (!varies || varies[a->id]))
            bytes += type_bytes(&a->type);
    }
    for (uint32_t i = 0; i < body->results.n; i++)
        bytes +=
            type_bytes(&body->results.at[i]->type) * (i < carried ? 1 : attr_int(x, ATTR_count, 0));
    return bytes;
}

int64_t lift_body_bytes(const Graph *body, const bool *varies)
{
    Reduced *of = NEW_ARRAY(body->arena, Reduced, body->nodes.n + 1);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        if (varies && !varies[i]) continue;
        bytes += x->op == OP_loop ? loop_bytes(x, varies) : lift_bytes(x);
        if (is_fused(x)) of[i] = joined(x, of);
        if (node_class(x) != CLS_REDUCE) continue;
        const Reduced *a = &of[x->args[0]->id];
        if (is_fused(x->args[0]) && a->by && (a->mixed || !same_rows(a->by, x)))
            bytes += type_bytes(&x->args[0]->type);
        of[i].by = x;
    }
    return bytes;
}
