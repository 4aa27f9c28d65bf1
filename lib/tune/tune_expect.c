// What a launch should store in its buffers, each element with its permitted error: computed by the
// evaluator with its bound (ir/bound.h) from the contents of the microbenchmark's other buffers.
//
// Only where the evaluator, which is slow, needs at most about a second: buffers must be small
// enough to be read as a whole, and nothing may depend on a row table or on the iteration of a
// loop.
#include <stdlib.h>
#include <string.h>

#include "ir/axes.h"
#include "lib/tune/tune.h"

enum {
    MOST_ELEMENTS = 1 << 22,
    PRODUCTS = 32
}; // PRODUCTS: multiplications that cost as much as
   // another element

typedef struct Expect {
    Bench *b;
    Arena *scratch;
    Value **known; // by node id: contents of buffers that are not written
    int *buffer;   // by node id: 1 + the buffer to which it is written
    bool *needed;
} Expect;

static double cost_of(const Node *n)
{
    double elements = (double)type_count(&n->type);
    if (node_class(n) == CLS_REDUCE) return (double)type_count(&n->args[0]->type);
    return node_class(n) == CLS_DOT ? elements * (1 + (double)reduced_count(n) / PRODUCTS)
                                    : elements;
}

static Value *read_value(Expect *x, int buffer, const Node *n)
{
    void *bytes = NULL;
    size_t size = 0;
    RtError e = {0};
    Value *v = NEW(x->scratch, Value);
    *v = value_new(x->scratch, &n->type);
    bool whole = !rt_microbench_read(x->b->bench, buffer, &bytes, &size, &e) &&
                 (int64_t)size == type_bytes(&n->type);
    if (whole) value_from_bytes(v, bytes);
    free(bytes);
    return whole ? v : NULL;
}

// Finds the values of the kernels' arguments. false: some are not nodes of the graph.
static bool find_values(Expect *x)
{
    const Candidate *c = &x->b->base;
    for (int k = 0; k < c->nkernels; k++)
        for (int i = 0; i < c->kernels[k].nargs; i++) {
            const KernelArg *a = &c->kernels[k].args[i];
            if (a->kind == KA_ROWS || a->kind == KA_CURSOR || a->kind == KA_LOOP_INDEX)
                return false;
            if (a->kind != KA_NODE) continue;
            const int buffer = bench_buffer(x->b, a);
            const uint32_t id = a->node->id;
            if (x->b->buffer[buffer].written)
                x->buffer[id] = buffer + 1;
            else if (!x->known[id] && !(x->known[id] = read_value(x, buffer, a->node)))
                return false;
        }
    return true;
}

// Marks what must be evaluated for the buffers. false: it is too expensive, or depends on unknown
// values.
static bool find_needed(Expect *x, const Graph *g)
{
    double cost = 0;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        if (!x->buffer[i] && !x->needed[i]) continue;
        x->needed[i] = !x->known[i];
        if (!x->needed[i]) continue;
        bool leaf = node_class(n) == CLS_LEAF && (op_info(n->op)->flags & OPF_MEMORY);
        if (leaf || node_class(n) == CLS_REGION || node_has(n, OPF_RESULT)) return false;
        for (uint32_t k = 0; k < n->nargs; k++) x->needed[n->args[k]->id] = true;
        if ((cost += cost_of(n)) > MOST_ELEMENTS) return false;
    }
    return true;
}

static Value *copy_of(Arena *a, const Value *v)
{
    size_t bytes = (size_t)type_count(&v->type) * sizeof *v->f;
    Value *out = NEW(a, Value);
    *out = value_new(a, &v->type);
    memcpy(out->f, v->f, bytes); // or i, which has the same size
    for (int side = 0; side < 2 && v->error[side]; side++) {
        out->error[side] = arena_alloc(a, bytes);
        memcpy(out->error[side], v->error[side], bytes);
    }
    return out;
}

static void evaluate(void *arg)
{
    Expect *x = arg;
    Bench *b = x->b;
    const Graph *g = b->launch->graph;
    x->known = NEW_ARRAY(x->scratch, Value *, g->nodes.n + 1);
    x->buffer = NEW_ARRAY(x->scratch, int, g->nodes.n + 1);
    x->needed = NEW_ARRAY(x->scratch, bool, g->nodes.n + 1);
    if (!find_values(x) || !find_needed(x, g)) return;
    EvalEnv env = {.arena = x->scratch,
                   .inputs = strmap_new(x->scratch),
                   .cells = strmap_new(x->scratch),
                   .bound = true,
                   .tf32 = b->launch->ctx.tf32};
    EvalResult result;
    Value **all = NEW_ARRAY(x->scratch, Value *, g->nodes.n + 1);
    if (!eval_graph_again(g, &env, &result, x->known, x->needed, all)) return;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (x->buffer[i]) b->want[x->buffer[i] - 1] = copy_of(b->arena, all[i]);
}

void bench_expect(Bench *b)
{
    Expect x = {.b = b, .scratch = arena_new()};
    b->want = NEW_ARRAY(b->arena, const Value *, b->nbuffers + 1);
    if (!x.scratch || !lib_guarded(x.scratch, evaluate, &x))
        memset(b->want, 0, (size_t)b->nbuffers * sizeof *b->want);
    arena_free(x.scratch);
}
