// Gradients of calls with a gradient of their own, and of loops.
//
// A loop runs forward stacking what it carried at the start of each iteration. The backward loop
// runs the other way round, computes an iteration again from that, and carries the cotangents of
// the carried values and one accumulator for every captured value.
#include "passes/autodiff.h"
#include "passes/regions.h"

void grad_call_region(Rule *r)
{
    Node *n = r->n;
    Graph *g = r->g, *rule = n->regions[1];
    uint32_t nres = n->regions[0]->results.n;
    Node **args = NEW_ARRAY(g->arena, Node *, n->nargs + nres);
    Node **results = NEW_ARRAY(g->arena, Node *, n->nargs);
    for (uint32_t i = 0; i < n->nargs; i++) args[i] = n->args[i];
    for (uint32_t i = 0; i < nres; i++) {
        Type t = rule->params.at[n->nargs + i]->type;
        Node *d = r->dres[i];
        args[n->nargs + i] = d ? graph_cast(g, d, t.dtype) : zeros_like(g, &t);
    }
    uint32_t first = g->nodes.n;
    graph_inline(g, rule, args, results);
    for (uint32_t i = first; i < g->nodes.n; i++) g->nodes.at[i]->role = ROLE_BACKWARD;
    for (uint32_t i = 0; i < n->nargs; i++)
        if (rule_wants(r, i)) rule_give(r, i, graph_cast(g, results[i], n->args[i]->type.dtype));
}

// The loop with its carried values stacked behind its other results.
static Node *augmented_loop(Rule *r)
{
    Node *n = r->n;
    Graph *g = r->g, *body = n->regions[0];
    uint64_t key = (uint64_t)(uintptr_t)g, v;
    IdMap *map;
    if (idmap_get(&r->s->ad->augmented, key, &v)) {
        map = (IdMap *)(uintptr_t)v;
        if (idmap_get(map, n->id, &v)) return g->nodes.at[v];
    } else {
        map = NEW(g->arena, IdMap);
        *map = idmap_new(g->arena);
        idmap_set(&r->s->ad->augmented, key, (uint64_t)(uintptr_t)map);
    }
    Graph *copy = graph_new(g->arena, g->diags, g->symbols);
    Node **args = NEW_ARRAY(g->arena, Node *, body->params.n + 1);
    Node **results = NEW_ARRAY(g->arena, Node *, body->results.n + 1);
    for (uint32_t i = 0; i < body->params.n; i++) {
        args[i] = region_param_add(copy, &body->params.at[i]->type);
        if (!args[i]->name) args[i]->name = body->params.at[i]->name;
    }
    graph_inline(copy, body, args, results);
    for (uint32_t i = 0; i < body->results.n; i++) vec_push(g->arena, &copy->results, results[i]);
    int64_t carried = attr_int(n, ATTR_carried, 0);
    for (int64_t i = 0; i < carried; i++) vec_push(g->arena, &copy->results, args[1 + i]);
    Role role = g->role;
    g->role = n->role;
    g->name = n->name;
    Node *loop = graph_region_node(g, OP_loop, n->args, (int)n->nargs, &n->attrs, &copy, 1);
    g->role = role;
    idmap_set(map, n->id, loop->id);
    return loop;
}

static Type slice_type(const Type *stacked)
{
    Type t = type_make(stacked->dtype, stacked->rank - 1, stacked->dim + 1);
    for (int i = 0; i < t.rank; i++) t.sym[i] = stacked->sym[i + 1];
    return t;
}

void grad_loop_region(Rule *r)
{
    Node *n = r->n;
    Graph *g = r->g, *body = n->regions[0];
    Arena *a = g->arena;
    uint32_t ncarried = (uint32_t)attr_int(n, ATTR_carried, 0);
    uint32_t nscanned = (uint32_t)attr_int(n, ATTR_scanned, 0), nargs = n->nargs;
    uint32_t nres = body->results.n, ncaptured = nargs - ncarried - nscanned;
    Node *forward = augmented_loop(r);
    if (node_is_poison(forward)) return;

    // Parameters of the backward body, with the operands of the backward loop beside them.
    Graph *bb = graph_new(a, g->diags, g->symbols);
    bb->role = ROLE_BACKWARD;
    bb->loc = n->loc;
    Type counter = type_scalar(DT_I64);
    VEC(Node *) operands = {0};
    Node **dcarried = NEW_ARRAY(a, Node *, ncarried + 1); // parameters, NULL for integers
    Node **acc = NEW_ARRAY(a, Node *, nargs + 1);         // by operand: its accumulator
    Node **dstack = NEW_ARRAY(a, Node *, nres + 1);
    Node **in = NEW_ARRAY(a, Node *, nargs + 1); // arguments of the recomputed body
    in[0] = region_param_add(bb, &counter);
    for (uint32_t j = 0; j < ncarried; j++) {
        Type t = n->args[j]->type;
        if (!dtype_is_float(t.dtype)) continue;
        dcarried[j] = region_param_add(bb, &t);
        vec_push(a, &operands, r->dres[j] ? r->dres[j] : zeros_like(g, &t));
    }
    for (uint32_t k = ncarried + nscanned; k < nargs; k++) {
        if (!rule_wants(r, k)) continue;
        acc[k] = region_param_add(bb, &n->args[k]->type);
        vec_push(a, &operands, zeros_like(g, &n->args[k]->type));
    }
    uint32_t bcarried = operands.n;
    for (uint32_t j = 0; j < ncarried; j++) {
        in[1 + j] = region_param_add(bb, &n->args[j]->type);
        vec_push(a, &operands, graph_result(g, forward, (int)(nres + j)));
    }
    for (uint32_t k = ncarried; k < ncarried + nscanned; k++) {
        Type t = slice_type(&n->args[k]->type);
        in[1 + k] = region_param_add(bb, &t);
        vec_push(a, &operands, n->args[k]);
    }
    for (uint32_t j = ncarried; j < nres; j++) {
        if (!r->dres[j]) continue;
        Type t = slice_type(&r->dres[j]->type);
        dstack[j] = region_param_add(bb, &t);
        vec_push(a, &operands, r->dres[j]);
    }
    uint32_t bscanned = operands.n - bcarried;
    for (uint32_t k = ncarried + nscanned; k < nargs; k++) {
        in[1 + k] = region_param_add(bb, &n->args[k]->type);
        vec_push(a, &operands, n->args[k]);
    }

    // One iteration again, then its sweep.
    Node **out = NEW_ARRAY(a, Node *, nres + 1);
    graph_inline(bb, body, in, out);
    Sweep s = sweep_begin(r->s->ad, bb, bb->nodes.n);
    VEC(Node *) variables = {0};
    for (uint32_t k = 0; k < nargs; k++)
        if (k < ncarried ? dcarried[k] != NULL : rule_wants(r, k))
            vec_push(a, &variables, in[1 + k]);
    sweep_mark(&s, variables.at, variables.n);
    for (uint32_t j = 0; j < nres; j++) {
        Node *d = j < ncarried ? dcarried[j] : dstack[j];
        if (d) sweep_seed(&s, out[j], d);
    }
    sweep_run(&s);
    bb->role = ROLE_BACKWARD;

    for (uint32_t j = 0; j < ncarried; j++) {
        if (!dcarried[j]) continue;
        Node *d = s.cot[in[1 + j]->id];
        vec_push(a, &bb->results, d ? d : zeros_like(bb, &n->args[j]->type));
    }
    for (uint32_t k = ncarried + nscanned; k < nargs; k++) {
        if (!acc[k]) continue;
        Node *d = s.cot[in[1 + k]->id];
        vec_push(a, &bb->results, d ? graph_binary(bb, OP_add, acc[k], d) : acc[k]);
    }
    for (uint32_t k = ncarried; k < ncarried + nscanned; k++) {
        if (!rule_wants(r, k)) continue;
        Node *d = s.cot[in[1 + k]->id];
        Type t = slice_type(&n->args[k]->type);
        vec_push(a, &bb->results, d ? d : zeros_like(bb, &t));
    }
    if (!bb->results.n) return;

    Attrs at = {0};
    attr_set_int(&at, ATTR_count, attr_int(n, ATTR_count, 0));
    attr_set_int(&at, ATTR_carried, bcarried);
    attr_set_int(&at, ATTR_scanned, bscanned);
    if (!attr_int(n, ATTR_reverse, 0)) attr_set_int(&at, ATTR_reverse, 1);
    if (n->name) g->name = arena_printf(a, "d_%s", n->name);
    Node *loop = graph_region_node(g, OP_loop, operands.at, (int)operands.n, &at, &bb, 1);
    if (node_is_poison(loop)) return;
    int result = 0;
    for (uint32_t j = 0; j < ncarried; j++) {
        if (!dcarried[j]) continue;
        if (rule_wants(r, j)) rule_give(r, j, graph_result(g, loop, result));
        result++;
    }
    for (uint32_t k = ncarried + nscanned; k < ncarried + nscanned + ncaptured; k++)
        if (acc[k]) rule_give(r, k, graph_result(g, loop, result++));
    for (uint32_t k = ncarried; k < ncarried + nscanned; k++)
        if (rule_wants(r, k)) rule_give(r, k, graph_result(g, loop, result++));
}
