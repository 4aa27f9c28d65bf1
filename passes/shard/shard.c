// The pass `shard`: several devices share the work of a step. Inputs are read by their parts of the
// batch, and what is computed from these is divided, too, where an operation can be; sums over the
// batch, such as gradients of weights, are joined by an exchange between the devices. So the
// program means the same as on one device, but for the order in which sums are added up.
#include <string.h>

#include "passes/passes.h"
#include "passes/shard/shard.h"

static Uses find_uses(const Graph *g)
{
    const Uses uses = {NEW_ARRAY(g->arena, uint32_t, g->nodes.n + 1),
                       NEW_ARRAY(g->arena, const Node *, g->nodes.n + 1)};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        for (uint32_t k = 0; k < x->nargs; k++)
            uses.n[x->args[k]->id]++, uses.by[x->args[k]->id] = x;
    }
    for (uint32_t i = 0; i < g->results.n; i++) uses.n[g->results.at[i]->id]++;
    return uses;
}

// Whether axis 0 of x counts examples, which can be divided evenly.
static bool is_divided(const Node *x, int64_t devices)
{
    return node_is_data(x) && x->type.rank && x->type.dim[0] % devices == 0;
}

Share *shard_find(const Graph *g, const Share *param, int64_t devices)
{
    Share *of = NEW_ARRAY(g->arena, Share, g->nodes.n + 1);
    const Uses uses = find_uses(g);
    Share **results = NEW_ARRAY(g->arena, Share *, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        Share *in = NEW_ARRAY(g->arena, Share, 2 * x->nargs + 1), *need = in + x->nargs;
        for (uint32_t k = 0; k < x->nargs; k++) in[k] = of[x->args[k]->id];
        if (x->op == OP_region_param) {
            of[i] = param[attr_int(x, ATTR_index, 0)];
        } else if (x->op == OP_input) {
            of[i] = is_divided(x, devices) ? share_part(0) : share_whole();
        } else if (x->op == OP_loop) {
            results[i] = shard_loop_shares(x, in, devices).result;
            of[i] = results[i][0];
        } else if (node_has(x, OPF_RESULT)) {
            const Share *r = results[x->args[0]->id];
            of[i] = r ? r[attr_int(x, ATTR_index, 0)] : share_whole();
        } else {
            of[i] = share_rule(x, in, &uses, devices, need);
        }
    }
    return of;
}

Sharding shard_begin(const Graph *src, Graph *dst, int64_t devices, Share *shares)
{
    Arena *a = dst->arena;
    const size_t n = src->nodes.n + 1;
    return (Sharding){.src = src,
                      .dst = dst,
                      .devices = devices,
                      .share = shares,
                      .own = NEW_ARRAY(a, Node *, n),
                      .whole = NEW_ARRAY(a, Node *, n),
                      .part = NEW_ARRAY(a, Node *, n),
                      .part_axis = NEW_ARRAY(a, int, n),
                      .results = NEW_ARRAY(a, Node **, n)};
}

static void image(Sharding *s, const Node *x, const Uses *uses)
{
    Share *in = NEW_ARRAY(s->dst->arena, Share, 2 * x->nargs + 1), *need = in + x->nargs;
    for (uint32_t k = 0; k < x->nargs; k++) in[k] = s->share[x->args[k]->id];
    if (x->op == OP_loop) {
        const LoopShares of = shard_loop_shares(x, in, s->devices);
        shard_loop(s, x, &of);
        return;
    }
    Node *y;
    if (node_has(x, OPF_RESULT) && s->results[x->args[0]->id])
        y = s->results[x->args[0]->id][attr_int(x, ATTR_index, 0)];
    else
        y = shard_build(s, x, share_rule(x, in, uses, s->devices, need), need);
    if (x->op == OP_input) memcpy(y->type.sym, x->type.sym, sizeof x->type.sym);
    s->own[x->id] = y;
    if (s->share[x->id].kind == SHARE_WHOLE) s->whole[x->id] = y;
}

void shard_nodes(Sharding *s)
{
    const Uses uses = find_uses(s->src);
    for (uint32_t i = 0; i < s->src->nodes.n; i++) {
        const Node *x = s->src->nodes.at[i];
        if (s->own[i] || node_class(x) == CLS_ROOT) continue;
        if (x->op == OP_input && s->share[i].kind == SHARE_PART) {
            graph_stamp(s->dst, x, x->name);
            s->whole[i] = graph_node(s->dst, x->op, NULL, 0, x->attrs);
            memcpy(s->whole[i]->type.sym, x->type.sym, sizeof x->type.sym);
            s->own[i] = shard_part(s, x, 0);
        } else {
            image(s, x, &uses);
        }
    }
    for (uint32_t i = 0; i < s->src->roots.n; i++) {
        const Node *r = s->src->roots.at[i];
        Node *value = shard_whole(s, r->args[0]);
        graph_stamp(s->dst, r, r->name);
        graph_node(s->dst, r->op, &value, 1, r->attrs);
    }
    s->dst->loc = s->src->loc;
    s->dst->role = s->src->role;
    s->dst->scope = s->dst->name = NULL;
}

static bool any_data(const Graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (node_is_data(g->nodes.at[i])) return true;
    return false;
}

static bool any_divided(const Graph *g, int64_t devices)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_input && is_divided(g->nodes.at[i], devices)) return true;
    return false;
}

static const Entry *entry_of(const Module *m, const Graph *g)
{
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (m->entries.at[i].graph == g) return &m->entries.at[i];
    return NULL;
}

// The dim that counts the examples of a (micro-)batch; NULL: a number does.
static const DimBinding *batch_dim(const Entry *entry)
{
    for (uint32_t i = 0; i < entry->dims.n; i++)
        if (entry->dims.at[i].is_batch) return &entry->dims.at[i];
    return NULL;
}

// Whether it is a training step of which the devices cannot share the work.
static bool is_odd_step(const Graph *g, const Entry *entry, int devices)
{
    if (!entry || entry->kind != ENTRY_TRAIN || !any_data(g)) return false;
    const DimBinding *batch = batch_dim(entry);
    return (batch ? batch->value : entry->batch) % devices != 0;
}

static void refuse(const Graph *g, const Entry *entry, int devices)
{
    const DimBinding *batch = batch_dim(entry);
    const int64_t examples = batch ? batch->value : entry->batch;
    Diag *d = diag_error(g->diags, entry->loc,
                         "the %sbatch of %lld examples cannot be divided among %d devices",
                         examples < entry->batch ? "micro-" : "", (long long)examples, devices);
    if (batch)
        diag_note(g->diags, d, "choose a multiple of %d: -D %s=%lld", devices, batch->name,
                  (long long)((batch->value / devices + 1) * devices));
}

Graph *pass_shard(Graph *g, Module *m, const PassOptions *o)
{
    const Entry *entry = entry_of(m, g);
    if (o->devices < 2 || o->references) return g;
    if (is_odd_step(g, entry, o->devices) && !o->odd_batch) {
        refuse(g, entry, o->devices);
        return g;
    }
    if (!any_divided(g, o->devices)) return g;
    Sharding s = shard_begin(g, graph_beside(g), o->devices, shard_find(g, NULL, o->devices));
    Attrs number = {0};
    attr_set_int(&number, ATTR_low_bound, 0);
    attr_set_int(&number, ATTR_high_bound, o->devices);
    s.device = graph_node(s.dst, OP_device, NULL, 0, &number);
    shard_nodes(&s);
    return graph_drop_dead(s.dst);
}
