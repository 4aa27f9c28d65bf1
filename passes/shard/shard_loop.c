// Loops: every device runs all iterations, on its part of the values.
#include "passes/shard/shard.h"

typedef struct Loop {
    const Node *n;
    const Graph *body;
    uint32_t carried, scanned;
} Loop;

static Loop loop_of(const Node *n)
{
    return (Loop){n, n->regions[0], (uint32_t)attr_int(n, ATTR_carried, 0),
                  (uint32_t)attr_int(n, ATTR_scanned, 0)};
}

static bool is_read_once(const Graph *body, const Node *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < body->nodes.n; i++)
        for (uint32_t k = 0; k < body->nodes.at[i]->nargs; k++)
            n += body->nodes.at[i]->args[k] == p;
    return n == 1;
}

// The first guess for carried value k: sums that begin with 0 may be carried as terms.
static Share carried_share(const Loop *l, uint32_t k, Share in)
{
    double v;
    const Node *begin = l->n->args[k];
    if (dtype_accumulator(begin->type.dtype) == begin->type.dtype &&
        dtype_is_float(begin->type.dtype) && node_const_value(begin, &v) && v == 0 &&
        is_read_once(l->body, l->body->params.at[k + 1]))
        return share_term();
    return in.kind == SHARE_TERM ? share_whole() : in;
}

// Iterations of which every device has a part are computed by all devices, each for its part of the
// first axis of what is scanned.
static Share scanned_share(const Type *t, Share in, int64_t devices)
{
    if (in.kind != SHARE_PART) return share_whole();
    if (in.axis) return share_part(in.axis - 1);
    return t->rank && t->dim[0] % devices == 0 ? share_part(0) : share_whole();
}

// Corrects the shares of carried values; false: they are consistent.
static bool correct(const Loop *l, const Share *of, LoopShares *s, bool *fixed)
{
    bool changed = false;
    for (uint32_t k = 0; k < l->carried; k++) {
        const Share next = of[l->body->results.at[k]->id], was = s->param[k + 1];
        if (fixed[k] || share_same(next, was)) continue;
        if (was.kind == SHARE_PART && next.kind == SHARE_WHOLE) continue; // (its part is taken)
        s->param[k + 1] = was.kind != SHARE_PART && next.kind == SHARE_PART ? next : share_whole();
        fixed[k] = was.kind == SHARE_PART || next.kind != SHARE_PART;
        changed = changed || !share_same(was, s->param[k + 1]);
    }
    return changed;
}

LoopShares shard_loop_shares(const Node *loop, const Share *in, int64_t devices)
{
    const Loop l = loop_of(loop);
    const Graph *body = l.body;
    LoopShares s = {NEW_ARRAY(body->arena, Share, body->params.n + 1),
                    NEW_ARRAY(body->arena, Share, body->results.n + 1)};
    bool *fixed = NEW_ARRAY(body->arena, bool, l.carried + 1);
    s.param[0] = share_whole();
    for (uint32_t k = 0; k < loop->nargs; k++)
        s.param[k + 1] = k < l.carried ? carried_share(&l, k, in[k])
                         : k < l.carried + l.scanned
                             ? scanned_share(&body->params.at[k + 1]->type, in[k], devices)
                         : in[k].kind == SHARE_TERM ? share_whole()
                                                    : in[k];
    const Share *of;
    do of = shard_find(body, s.param, devices);
    while (correct(&l, of, &s, fixed));
    for (uint32_t i = 0; i < body->results.n; i++) {
        s.result[i] = i < l.carried ? s.param[i + 1] : of[body->results.at[i]->id];
        if (i >= l.carried && s.result[i].kind == SHARE_PART) s.result[i].axis++;
    }
    return s;
}

static Type type_of_share(Type t, Share as, int64_t devices)
{
    if (as.kind != SHARE_PART) return t;
    t.dim[as.axis] /= devices;
    t.sym[as.axis] = 0;
    return t;
}

static Graph *shard_body(const Loop *l, const LoopShares *of, int64_t devices)
{
    const Graph *body = l->body;
    Graph *dst = graph_beside(body);
    Sharding s = shard_begin(body, dst, devices, shard_find(body, of->param, devices));
    dst->role = l->n->role;
    for (uint32_t i = 0; i < body->params.n; i++) {
        const Node *p = body->params.at[i];
        const Type t = type_of_share(p->type, of->param[i], devices);
        graph_stamp(dst, p, NULL);
        s.own[p->id] = graph_region_param(dst, &t);
        node_pass_name(p, s.own[p->id]);
        if (of->param[i].kind == SHARE_WHOLE) s.whole[p->id] = s.own[p->id];
    }
    const Type number = type_scalar(DT_I64);
    s.device = graph_region_param(dst, &number);
    shard_nodes(&s);
    for (uint32_t i = 0; i < body->results.n; i++) {
        const Node *r = body->results.at[i];
        const Share as = i < l->carried ? of->param[i + 1] : s.share[r->id];
        vec_push(dst->arena, &dst->results, shard_form(&s, r, as));
    }
    return dst;
}

void shard_loop(Sharding *s, const Node *x, const LoopShares *of)
{
    const Loop l = loop_of(x);
    Node **args = NEW_ARRAY(s->dst->arena, Node *, x->nargs + 2);
    for (uint32_t k = 0; k < x->nargs; k++) {
        Share as = of->param[k + 1];
        if (k >= l.carried && k < l.carried + l.scanned && as.kind == SHARE_PART) as.axis++;
        // (a term that begins with 0)
        args[k] =
            as.kind == SHARE_TERM ? shard_whole(s, x->args[k]) : shard_form(s, x->args[k], as);
    }
    args[x->nargs] = s->device;
    Graph *body = shard_body(&l, of, s->devices);
    graph_stamp(s->dst, x, x->name);
    Node *loop = graph_region_node(s->dst, OP_loop, args, (int)x->nargs + 1, x->attrs, &body, 1);
    Node **results = NEW_ARRAY(s->dst->arena, Node *, l.body->results.n + 1);
    for (uint32_t i = 0; i < l.body->results.n; i++)
        results[i] = graph_result(s->dst, loop, (int)i);
    s->results[x->id] = results;
    s->own[x->id] = results[0];
    if (of->result[0].kind == SHARE_WHOLE) s->whole[x->id] = results[0];
}
