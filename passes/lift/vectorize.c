// Vectorization of loops: a loop that carries nothing from one iteration to the next, or only sums,
// products and extremes of its iterations, is computed for all iterations at once.
//
//     loop over x = xs, l = ls {                       p = matmul(xs, w)            (B, N)
//         p = matmul(x, w)                  becomes    g = xs[:, :, none] * d[:, none, :]
//         emit g = grad(loss(p, l), w)                 with the gradient d of all losses
//     }
//
// So gradients of single examples, rows of a Hessian, members of an ensemble take as many kernels
// as one of them. Loops within the loop stay, and are computed for all of its iterations.
//
// Requires: gradients expanded, precision chosen. Keeps: every value up to the order of additions.
// Breaks: nothing. The cost is memory for all iterations of what is multiplied, summed or indexed:
// as many bytes as the loop reads and stacks anyway, or MOST_BYTES_*, or an eighth of a memory
// limit. On the CPU, an iteration that takes more than MOST_CACHED is left alone: its calls cost
// little beside its work, and its data stay in the cache. Loops of micro-batches, which exist for
// the sake of memory, stay.
#include "passes/lift/lift.h"
#include "passes/passes.h"
#include "passes/regions.h"

enum { MOST_NODES = 8000 };
#define MOST_BYTES_CUDA (2LL << 30)
#define MOST_BYTES_CPU  (256LL << 20)
#define MOST_CACHED     (128LL << 10)

typedef struct Room {
    int64_t most;  // bytes that all iterations of a loop may take, unless it reads and stacks more
    int64_t each;  // that one may take
    int64_t limit; // that all may take at most; 0: no limit
} Room;

typedef struct Loop {
    const Node *n;
    Graph *body;
    uint32_t ncarried, nscanned;
    int64_t count;
    Varying varies;
} Loop;

// How carried value k comes about: it is joined with a term of each iteration, a, -a or a * b.
// reduce: the reduction of all terms; OP_COUNT: the value stays what it is.
typedef struct Fold {
    Op joins, reduce;
    const Node *a, *b;
    bool negative;
} Fold;

// False: it is more than that, or another value is computed from it.
static bool find_fold(const Loop *l, uint32_t k, const uint32_t *readers, Fold *out)
{
    const Node *was = l->body->params.at[1 + k], *next = l->body->results.at[k];
    *out = (Fold){.joins = next->op, .reduce = OP_COUNT};
    if (next == was) return true;
    if (readers[was->id] != 1 || readers[next->id] != 1) return false;
    if (next->op == OP_fma && next->args[2] == was) {
        out->joins = OP_add, out->a = next->args[0], out->b = next->args[1];
    } else if (next->op == OP_sub && next->args[0] == was) {
        out->joins = OP_add, out->a = next->args[1], out->negative = true;
    } else if (next->nargs == 2 && (next->args[0] == was || next->args[1] == was)) {
        out->a = next->args[next->args[0] == was];
    }
    out->reduce = op_reducing(out->joins);
    return out->a && out->reduce != OP_COUNT;
}

static Varying find_varying(const Loop *l)
{
    Varying v = lift_varying(l->body);
    lift_param_varies(l->body, 0, 1, &v);
    for (uint32_t k = 0; k < l->nscanned; k++)
        lift_param_varies(l->body, 1 + l->ncarried + k, LIFT_UNKNOWN, &v);
    lift_find_varying(l->body, &v);
    return v;
}

static bool can(const Loop *l, const Room *room)
{
    const Graph *body = l->body;
    if (!l->count || attr_int(l->n, ATTR_apart, 0) || body->roots.n || body->nodes.n > MOST_NODES)
        return false;
    const uint32_t *readers = live_readers(body);
    Fold fold;
    for (uint32_t k = 0; k < l->ncarried; k++)
        if (!find_fold(l, k, readers, &fold)) return false;
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        const bool lifted = x->op == OP_loop          ? lift_can_loop(x, &l->varies)
                            : node_has(x, OPF_RESULT) ? true
                                                      : lift_can(x, &l->varies);
        if (!lifted) return false;
    }
    const int64_t bytes = lift_body_bytes(body, l->varies.is);
    return bytes <= room->each && bytes <= lift_room(l->n, body, room->most, room->limit);
}

// Whether x is what a carried value becomes, which nothing else reads.
static bool is_next(const Loop *l, const Node *x)
{
    for (uint32_t k = 0; k < l->ncarried; k++)
        if (l->body->results.at[k] == x) return true;
    return false;
}

// Carried value k at the end, from what it begins with.
static Node *folded(Lift *lift, const Loop *l, uint32_t k, const uint32_t *readers, Node *begin)
{
    Graph *g = lift->dst;
    const Node *next = l->body->results.at[k];
    const int64_t iterations = 0;
    Fold f;
    if (!find_fold(l, k, readers, &f) || !f.a) return begin;
    graph_stamp(g, next, NULL);
    // (one rounding to 16 bits: the sum of the terms may be much larger than the total)
    const DType own = begin->type.dtype, t = dtype_is_float(own) ? dtype_accumulator(own) : own;
    Node *terms = graph_cast(g, lift_result(lift, f.a), t);
    if (f.b) terms = graph_binary(g, OP_mul, terms, graph_cast(g, lift_result(lift, f.b), t));
    if (f.negative) terms = graph_unary(g, OP_neg, terms);
    terms = graph_cast(g, graph_reduce(g, f.reduce, terms, &iterations, 1, false), t);
    graph_stamp(g, next, next->name);
    return graph_cast(g, graph_binary(g, f.joins, graph_cast(g, begin, t), terms), own);
}

// The results of the loop, computed in dst.
static Node **vectorize(Graph *dst, const Loop *l, Node *const *map)
{
    Graph *body = l->body;
    const uint32_t *readers = live_readers(body);
    Lift lift = {.dst = dst,
                 .count = l->count,
                 .image = NEW_ARRAY(dst->arena, Node *, body->nodes.n + 1),
                 .first = NEW_ARRAY(dst->arena, Node *, body->nodes.n + 1),
                 .varies = l->varies,
                 .results = NEW_ARRAY(dst->arena, Node **, body->nodes.n + 1)};
    Node **result = NEW_ARRAY(dst->arena, Node *, body->results.n + 1);
    lift_counter(&lift, body);
    for (uint32_t k = 0; k < l->n->nargs; k++)
        lift.image[body->params.at[1 + k]->id] = map[l->n->args[k]->id];
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        if (!lift.image[i] && readers[i] && !is_next(l, x)) lift_node(&lift, x);
    }
    for (uint32_t i = 0; i < body->results.n; i++)
        result[i] = i < l->ncarried ? folded(&lift, l, i, readers, map[l->n->args[i]->id])
                                    : lift_result(&lift, body->results.at[i]);
    return result;
}

static Graph *replace(void *ctx, const IdMap *done, Graph *g)
{
    bool any = any_rebuilt(done, g);
    Loop *loop = NEW_ARRAY(g->arena, Loop, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op != OP_loop) continue;
        Loop l = {.n = n,
                  .body = rebuilt(done, n->regions[0]),
                  .ncarried = (uint32_t)attr_int(n, ATTR_carried, 0),
                  .nscanned = (uint32_t)attr_int(n, ATTR_scanned, 0),
                  .count = attr_int(n, ATTR_count, 0)};
        l.varies = find_varying(&l);
        if (!can(&l, ctx)) continue;
        loop[i] = l;
        any = true;
    }
    if (!any) return g;
    Remap r = remap_begin(g, graph_beside(g));
    Node ***result = NEW_ARRAY(g->arena, Node **, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (loop[i].n)
            result[i] = vectorize(r.dst, &loop[i], r.map), r.map[i] = result[i][0];
        else if (node_has(n, OPF_RESULT) && result[n->args[0]->id])
            r.map[i] = result[n->args[0]->id][attr_int(n, ATTR_index, 0)];
        else
            remap_with_regions(&r, done, n, &any);
    }
    return graph_drop_dead(remap_end(&r));
}

Graph *pass_vectorize(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    const bool cuda = o->target && o->target->kind == TARGET_CUDA;
    Room room = {cuda ? MOST_BYTES_CUDA : MOST_BYTES_CPU, cuda ? INT64_MAX : MOST_CACHED,
                 o->memory_limit / 8};
    return over_regions(g, replace, &room);
}
