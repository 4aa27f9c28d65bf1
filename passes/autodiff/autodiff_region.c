// Gradients of calls with a hand-written gradient, and of loops.
//
// The forward loop also stacks the carried values at the start of each iteration, and results of
// dots that are no larger than what it moves anyway. The backward loop runs in reverse, recomputes
// each iteration from these, and carries the cotangents of the carried values and one accumulator
// for every captured value. If iterations of the forward loop may not take place (ATTR_runs), it
// stacks which did, and only these take place backwards.
#include "passes/autodiff/autodiff.h"
#include "passes/regions.h"

void grad_call_region(Rule *r)
{
    Node *n = r->n;
    Graph *g = r->g, *rule = n->regions[1];
    uint32_t nres = n->regions[0]->results.n, cotangents = rule->params.n - nres;
    Node **args = NEW_ARRAY(g->arena, Node *, n->nargs + 2 * nres);
    Node **results = NEW_ARRAY(g->arena, Node *, n->nargs + 1);
    for (uint32_t i = 0; i < n->nargs; i++) args[i] = n->args[i];
    for (uint32_t i = n->nargs; i < cotangents; i++)
        args[i] = graph_result(g, n, (int)(i - n->nargs));
    for (uint32_t i = 0; i < nres; i++) {
        Type t = rule->params.at[cotangents + i]->type;
        Node *d = r->dres[i];
        args[cotangents + i] = d ? graph_cast(g, d, t.dtype) : zeros_like(g, &t);
    }
    uint32_t first = g->nodes.n;
    graph_inline(g, rule, args, results);
    for (uint32_t i = first; i < g->nodes.n; i++) g->nodes.at[i]->role = ROLE_BACKWARD;
    for (uint32_t i = 0; i < n->nargs; i++)
        if (rule_wants(r, i)) rule_give(r, i, graph_cast(g, results[i], n->args[i]->type.dtype));
}

typedef VEC(Node *) Nodes;

// The dots of the body whose results are stacked for the backward loop, provided that all together
// take no more memory per iteration than what the loop carries, scans and stacks. (Larger ones,
// such as the logits of a chunk of rows, are recomputed.)
static Nodes kept_products(const Node *loop, const Graph *body)
{
    Arena *a = body->arena;
    uint32_t moved = (uint32_t)(attr_int(loop, ATTR_carried, 0) + attr_int(loop, ATTR_scanned, 0));
    bool *varies = NEW_ARRAY(a, bool, body->nodes.n + 1); // differs between iterations
    int64_t room = 0;
    Nodes kept = {0};
    for (uint32_t i = 1; i <= moved; i++) room += type_bytes(&body->params.at[i]->type);
    for (uint32_t i = (uint32_t)attr_int(loop, ATTR_carried, 0); i < body->results.n; i++)
        room += type_bytes(&body->results.at[i]->type);
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        Node *n = body->nodes.at[i];
        varies[i] =
            n->op == OP_region_param ? attr_int(n, ATTR_index, 0) <= moved : n->nregions > 0;
        for (uint32_t k = 0; k < n->nargs; k++) varies[i] |= varies[n->args[k]->id];
        if (node_class(n) != CLS_DOT || !varies[i] || n->type.rank == MAX_RANK ||
            type_bytes(&n->type) > room)
            continue;
        room -= type_bytes(&n->type);
        vec_push(a, &kept, n);
    }
    return kept;
}

// The loop with additional stacked results: its carried values, the kept dots, and, if iterations
// may not take place, whether they did.
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
    Graph *copy = graph_inside(g);
    Node **args = NEW_ARRAY(g->arena, Node *, body->params.n + 1);
    Node **results = NEW_ARRAY(g->arena, Node *, body->results.n + 1);
    for (uint32_t i = 0; i < body->params.n; i++) {
        args[i] = graph_region_param(copy, &body->params.at[i]->type);
        if (!args[i]->name) args[i]->name = body->params.at[i]->name;
    }
    Node **image = graph_inline(copy, body, args, results);
    for (uint32_t i = 0; i < body->results.n; i++)
        vec_push(copy->arena, &copy->results, results[i]);
    int64_t carried = attr_int(n, ATTR_carried, 0);
    for (int64_t i = 0; i < carried; i++) vec_push(copy->arena, &copy->results, args[1 + i]);
    Nodes kept = kept_products(n, body);
    for (uint32_t i = 0; i < kept.n; i++)
        vec_push(copy->arena, &copy->results,
                 image[kept.at[i]->id] ? image[kept.at[i]->id]
                                       : graph_full_like(copy, kept.at[i], 0));
    const int64_t runs = attr_int(n, ATTR_runs, -1);
    if (runs >= 0) vec_push(copy->arena, &copy->results, results[runs]);
    Role role = g->role;
    g->role = n->role;
    g->name = n->name;
    Node *loop = graph_region_node(g, OP_loop, n->args, (int)n->nargs, n->attrs, &copy, 1);
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

// The backward loop under construction. Its operands, and the parameters of its body after the
// counter, are: carried: the cotangents of carried values, the accumulators of captured ones and,
// if iterations may not take place, a flag; scanned: the stacked carried values, the scanned ones,
// the cotangents of stacked results and which iterations took place; captured: the captured values.
typedef struct Backward {
    Rule *r;
    Graph *body;                // of the forward loop
    Graph *back;                // the body of the backward loop
    uint32_t carried, captured; // operands of the forward loop with indices from carried to
                                // captured are scanned
    Node **dcarried;            // by carried value: its parameter; NULL for integers
    Node **acc;                 // by operand: its accumulator; NULL if no gradient is needed
    Node **dstack;              // by result: the current slice of its cotangent
    Node *took_place;           // whether the iteration did; NULL: all do
    Node **in;                  // arguments of the recomputed iteration
    Node **again;               // by node of the forward body: its image in back
    Nodes operands;
    uint32_t bcarried, bscanned;
} Backward;

static Node *parameter(Backward *b, const Type *t, Node *operand)
{
    vec_push(b->r->g->arena, &b->operands, operand);
    return graph_region_param(b->back, t);
}

static void add_parameters(Backward *b, Node *forward)
{
    Rule *r = b->r;
    Node *n = r->n;
    Graph *g = r->g;
    Arena *a = g->arena;
    uint32_t nres = b->body->results.n;
    Type counter = type_scalar(DT_I64);
    b->dcarried = NEW_ARRAY(a, Node *, b->carried + 1);
    b->acc = NEW_ARRAY(a, Node *, n->nargs + 1);
    b->dstack = NEW_ARRAY(a, Node *, nres + 1);
    b->in = NEW_ARRAY(a, Node *, n->nargs + 1);
    b->in[0] = graph_region_param(b->back, &counter);
    for (uint32_t j = 0; j < b->carried; j++) {
        Type t = n->args[j]->type;
        if (dtype_is_float(t.dtype))
            b->dcarried[j] = parameter(b, &t, r->dres[j] ? r->dres[j] : zeros_like(g, &t));
    }
    for (uint32_t k = b->captured; k < n->nargs; k++)
        if (rule_wants(r, k))
            b->acc[k] = parameter(b, &n->args[k]->type, zeros_like(g, &n->args[k]->type));
    const bool conditional = attr_find(n, ATTR_runs) != NULL;
    const Type flag = type_scalar(DT_BOOL);
    if (conditional) parameter(b, &flag, graph_const(g, DT_BOOL, 1));
    b->bcarried = b->operands.n;
    for (uint32_t j = 0; j < b->carried; j++)
        b->in[1 + j] = parameter(b, &n->args[j]->type, graph_result(g, forward, (int)(nres + j)));
    for (uint32_t k = b->carried; k < b->captured; k++) {
        Type t = slice_type(&n->args[k]->type);
        b->in[1 + k] = parameter(b, &t, n->args[k]);
    }
    for (uint32_t j = b->carried; j < nres; j++) {
        if (!r->dres[j]) continue;
        Type t = slice_type(&r->dres[j]->type);
        b->dstack[j] = parameter(b, &t, r->dres[j]);
    }
    if (conditional) {
        const int last = node_result_count(forward) - 1;
        b->took_place = parameter(b, &flag, graph_result(g, forward, last));
    }
    b->bscanned = b->operands.n - b->bcarried;
    for (uint32_t k = b->captured; k < n->nargs; k++)
        b->in[1 + k] = parameter(b, &n->args[k]->type, n->args[k]);
}

// Recomputes an iteration, then differentiates it; the results of the body are the cotangents of
// its arguments.
static void sweep_iteration(Backward *b)
{
    Rule *r = b->r;
    Node *n = r->n;
    Graph *back = b->back;
    Arena *a = back->arena;
    Node **out = NEW_ARRAY(a, Node *, b->body->results.n + 1);
    b->again = graph_inline(back, b->body, b->in, out);
    Sweep s = sweep_begin(r->s->ad, back, back->nodes.n);
    VEC(Node *) variables = {0};
    for (uint32_t k = 0; k < n->nargs; k++)
        if (k < b->carried ? b->dcarried[k] != NULL : rule_wants(r, k))
            vec_push(a, &variables, b->in[1 + k]);
    sweep_mark(&s, variables.at, variables.n);
    for (uint32_t j = 0; j < b->body->results.n; j++) {
        Node *d = j < b->carried ? b->dcarried[j] : b->dstack[j];
        if (d) sweep_seed(&s, out[j], d);
    }
    sweep_run(&s);
    back->role = ROLE_BACKWARD;
    for (uint32_t j = 0; j < b->carried; j++) {
        if (!b->dcarried[j]) continue;
        Node *d = s.cot[b->in[1 + j]->id];
        vec_push(a, &back->results, d ? d : zeros_like(back, &n->args[j]->type));
    }
    for (uint32_t k = b->captured; k < n->nargs; k++) {
        if (!b->acc[k]) continue;
        Node *d = s.cot[b->in[1 + k]->id];
        vec_push(a, &back->results, d ? graph_binary(back, OP_add, b->acc[k], d) : b->acc[k]);
    }
    if (b->took_place) vec_push(a, &back->results, b->took_place);
    for (uint32_t k = b->carried; k < b->captured; k++) {
        if (!rule_wants(r, k)) continue;
        Node *d = s.cot[b->in[1 + k]->id];
        Type t = slice_type(&n->args[k]->type);
        vec_push(a, &back->results, d ? d : zeros_like(back, &t));
    }
}

// Replaces recomputed dots in the backward body by the stacked results of kept dots, as scanned
// values, where it needs them.
static void take_kept(Backward *b, Node *forward)
{
    Graph *old = b->back;
    Arena *a = old->arena;
    Nodes kept = kept_products(b->r->n, b->body), operands = {0};
    bool *live = NEW_ARRAY(a, bool, old->nodes.n + 1);
    uint32_t captured = b->bcarried + b->bscanned, first = b->body->results.n + b->carried;
    graph_mark_live(old, live);
    Graph *new = graph_beside(old);
    Remap r = remap_begin(old, new);
    for (uint32_t i = 0;; i++) { // parameter i is operand i - 1
        for (uint32_t k = 0; i == captured + 1 && k < kept.n; k++) {
            Node *x = b->again[kept.at[k]->id];
            if (!x || !live[x->id] || r.map[x->id]) continue;
            r.map[x->id] = graph_region_param(new, &x->type);
            vec_push(a, &operands, graph_result(b->r->g, forward, (int)(first + k)));
        }
        if (i > b->operands.n) break;
        const Node *p = old->params.at[i];
        r.map[p->id] = graph_region_param(new, &p->type);
        if (i) vec_push(a, &operands, b->operands.at[i - 1]);
    }
    for (uint32_t i = 0; i < old->nodes.n; i++)
        if (live[i]) remap_node(&r, old->nodes.at[i]);
    Loc loc = old->loc;
    b->bscanned += operands.n - b->operands.n;
    b->back = remap_end(&r);
    b->back->role = ROLE_BACKWARD;
    b->back->loc = loc;
    b->operands = operands;
}

void grad_loop_region(Rule *r)
{
    Node *n = r->n;
    Graph *g = r->g;
    Backward b = {.r = r, .body = n->regions[0]};
    b.carried = (uint32_t)attr_int(n, ATTR_carried, 0);
    b.captured = b.carried + (uint32_t)attr_int(n, ATTR_scanned, 0);
    Node *forward = augmented_loop(r);
    if (node_is_poison(forward)) return;
    b.back = graph_inside(g);
    b.back->role = ROLE_BACKWARD;
    b.back->loc = n->loc;
    add_parameters(&b, forward);
    sweep_iteration(&b);
    if (b.back->results.n == (b.took_place != NULL)) return;
    take_kept(&b, forward);

    Attrs at = {0};
    attr_set_int(&at, ATTR_count, attr_int(n, ATTR_count, 0));
    attr_set_int(&at, ATTR_carried, b.bcarried);
    attr_set_int(&at, ATTR_scanned, b.bscanned);
    if (!attr_int(n, ATTR_reverse, 0)) attr_set_int(&at, ATTR_reverse, 1);
    if (b.took_place) attr_set_int(&at, ATTR_runs, b.bcarried - 1);
    if (n->name) g->name = arena_printf(g->kept, "d_%s", n->name);
    Node *loop = graph_region_node(g, OP_loop, b.operands.at, (int)b.operands.n, &at, &b.back, 1);
    if (node_is_poison(loop)) return;
    int result = 0;
    for (uint32_t j = 0; j < b.carried; j++) {
        if (!b.dcarried[j]) continue;
        if (rule_wants(r, j)) rule_give(r, j, graph_result(g, loop, result));
        result++;
    }
    for (uint32_t k = b.captured; k < n->nargs; k++)
        if (b.acc[k]) rule_give(r, k, graph_result(g, loop, result++));
    result += b.took_place != NULL;
    for (uint32_t k = b.carried; k < b.captured; k++)
        if (rule_wants(r, k)) rule_give(r, k, graph_result(g, loop, result++));
}
