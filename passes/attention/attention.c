// Attention: the dot of queries (rows) and keys (columns), elementwise code on the scores, a
// softmax over the columns and the dot with the values become one kernel, the gradient two, and the
// scores (rows, columns) are never stored. Each kernel is a `call` whose region has the form
// described in attention_kernel.c. What does not match is left as it is, and the reason is noted
// for `--why`.
//
// attention_find.c finds softmaxes and their readers, attention_terms.c brings what the dots read
// into the form of sums of products, attention_kernel.c writes the regions. This file decides which
// softmaxes are taken, and rebuilds the graph around the calls in topological order.
//
// Requires: gradients expanded, precision chosen; runs after all passes that change values. Keeps:
// every value within the rounding of the operands' type (scores between two kernels would be
// rounded to 16 bits, here they are not; the backward part recomputes the probabilities). Breaks:
// later passes may not look into a call.
#include "passes/attention/attention.h"
#include "passes/regions.h"

typedef struct Context {
    const PassOptions *o;
    Entry *entry; // or NULL
} Context;

typedef struct Plan {
    Users users;
    const PassOptions *o;
    VEC(Core *) cores;
    VEC(Kernel *) kernels;
    Kernel **of; // by id of the end of an outer product: its kernel
    Graph *dst;
    Remap map;
    const IdMap *done;
} Plan;

static Kernel *add_kernel(Plan *p, Core *c, OuterKind kind, Outer *o)
{
    Kernel *k = NEW(p->users.g->arena, Kernel);
    *k = (Kernel){.core = c, .kind = kind, .outer = {o}, .nouters = 1};
    vec_push(p->users.g->arena, &p->kernels, k);
    return k;
}

// Creates the kernels of a softmax: those of the forward part, one that loops over queries, one
// that loops over keys.
static void plan_kernels(Plan *p, Core *c)
{
    uint32_t first = p->kernels.n;
    Kernel *keys = NULL;
    bool backward = false;
    for (int i = 0; i < c->nouters; i++) backward |= c->outer[i].kind != OUT_FORWARD;
    for (int i = 0; i < c->nouters; i++) {
        Outer *o = &c->outer[i];
        if (o->kind == OUT_KEY && keys && keys->nouters < 2) {
            keys->outer[keys->nouters++] = o;
            continue;
        }
        Kernel *k = add_kernel(p, c, o->kind, o);
        if (o->kind == OUT_KEY) keys = k;
        k->lse = o->kind == OUT_FORWARD && backward && !c->lse;
        if (k->lse) c->lse = k;
        k->rows = loop_rows(c, o->kind, p->o);
    }
    for (uint32_t i = first; i < p->kernels.n; i++) {
        if (kernel_write(p->kernels.at[i])) continue;
        core_refuse(c, WHY_FORM, p->kernels.at[i]->outer[0]->dot, 0, 0);
        p->kernels.n = first;
        return;
    }
    c->planned = true;
}

// -- what a kernel waits for ----------------------------------------------------------------------

typedef VEC(Node *) Nodes;

// Pushes the nodes of the old graph that n, or the kernel that computes it, reads.
static void push_needs(const Plan *p, const Node *n, Nodes *work)
{
    Arena *a = p->users.g->arena;
    const Kernel *k = p->of[n->id];
    for (uint32_t i = 0; !k && i < n->nargs; i++) vec_push(a, work, n->args[i]);
    for (uint32_t i = 0; k && i < k->args.n; i++) {
        const Arg *arg = &k->args.at[i];
        if (arg->old) {
            vec_push(a, work, arg->old);
        } else if (!arg->row) {
            vec_push(a, work, outer_end(k->core->lse->outer[0]));
        } else {
            const Factor *f = &k->rowdots.at[arg->row - 1];
            vec_push(a, work, outer_end(&k->core->outer[f->outer]));
            vec_push(a, work, f->op->base);
        }
    }
}

enum { UNSEEN, ENTERED, DONE }; // states of a traversal from readers to operands

// Marks what the roots need. Returns a node that depends on itself, which is possible since a
// kernel computes several products at once; NULL if there is none.
static const Node *mark_needed(const Plan *p, uint8_t *state)
{
    Nodes work = {0};
    Graph *g = p->users.g;
    for (uint32_t i = 0; i < g->roots.n; i++) vec_push(g->arena, &work, g->roots.at[i]);
    for (uint32_t i = 0; i < g->results.n; i++) vec_push(g->arena, &work, g->results.at[i]);
    while (work.n) {
        const Node *n = work.at[work.n - 1];
        uint32_t before = work.n;
        if (state[n->id] != UNSEEN) {
            state[n->id] = DONE;
            work.n--;
            continue;
        }
        state[n->id] = ENTERED;
        push_needs(p, n, &work);
        for (uint32_t i = before; i < work.n; i++)
            if (state[work.at[i]->id] == ENTERED) return work.at[i];
    }
    return NULL;
}

// -- deciding -------------------------------------------------------------------------------------

static void set_ends(Plan *p)
{
    p->of = NEW_ARRAY(p->users.g->arena, Kernel *, p->users.g->nodes.n + 1);
    for (uint32_t i = 0; i < p->kernels.n; i++)
        for (int k = 0; k < p->kernels.at[i]->nouters; k++)
            p->of[outer_end(p->kernels.at[i]->outer[k])->id] = p->kernels.at[i];
}

// The node, other than views and elementwise code, that reads n through these.
static const Node *reader_of(const Plan *p, const Node *n, const uint8_t *live)
{
    for (;;) {
        const Node *next = NULL;
        for (uint32_t i = p->users.first[n->id]; i < p->users.first[n->id + 1]; i++) {
            const Node *u = p->users.user[i];
            if (u && live[u->id] && !p->of[u->id]) next = u;
        }
        if (!next) return n;
        n = next;
        if (node_class(n) != CLS_ELEMENTWISE && node_class(n) != CLS_VIEW) return n;
    }
}

// Removes the kernels of refused softmaxes.
static void drop_refused(Plan *p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->kernels.n; i++)
        if (!p->kernels.at[i]->core->refused) p->kernels.at[kept++] = p->kernels.at[i];
    p->kernels.n = kept;
    set_ends(p);
}

// Refuses a softmax if two products of one of its kernels depend on each other.
static void refuse_circle(Plan *p, const uint8_t *state)
{
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        const Kernel *k = p->kernels.at[i];
        for (int o = 0; o < k->nouters; o++)
            if (state[outer_end(k->outer[o])->id] == ENTERED)
                core_refuse(k->core, WHY_FORM, k->outer[o]->dot, 0, 0);
    }
}

// Refuses softmaxes whose scores have other readers, which need them stored. Repeated until nothing
// changes, since what a refused one reads may be the scores of another.
static void decide(Plan *p)
{
    set_ends(p);
    for (bool again = true; again;) {
        uint8_t *state = NEW_ARRAY(p->users.g->arena, uint8_t, p->users.g->nodes.n + 1);
        bool circle = again = mark_needed(p, state) != NULL;
        if (circle) refuse_circle(p, state);
        for (uint32_t i = 0; i < p->cores.n && !circle; i++) {
            Core *c = p->cores.at[i];
            const Node *stored = state[c->e->id] ? c->e : NULL;
            for (int k = 0; k < c->ninner && !stored; k++)
                if (state[c->inner[k]->id]) stored = c->inner[k];
            if (c->refused || !c->planned || !stored) continue;
            core_refuse(c, WHY_SCORES, reader_of(p, stored, state), 0, 0);
            again = true;
        }
        if (again) drop_refused(p);
    }
}

// -- rebuilding -----------------------------------------------------------------------------------

// The result of a kernel's product in f32, before the casts and views that the kernel applies.
static Node *before_tail(Plan *p, const Outer *o)
{
    Graph *g = p->dst;
    Node *x = p->map.map[outer_end(o)->id];
    for (int i = o->ntail; i-- > 0;) {
        const Node *t = o->tail[i];
        if (t->op == OP_permute) {
            int64_t back[MAX_RANK];
            const int64_t *perm = attr_ints(t, ATTR_perm, NULL);
            for (int k = 0; k < t->type.rank; k++) back[perm[k]] = k;
            x = graph_permute(g, x, back);
        } else if (t->op == OP_reshape) {
            x = graph_reshape(g, x, t->args[0]->type.rank, t->args[0]->type.dim);
        }
    }
    return graph_cast(g, x, DT_F32);
}

// The sum over the head dimension of the product of what factor f reads and a forward result.
static Node *row_dot(Plan *p, const Core *c, const Factor *f)
{
    Graph *g = p->dst;
    const Outer *o = &c->outer[f->outer];
    Lift l = {.a = g->arena, .g = g, .space = c->space};
    graph_stamp(g, f->op->x, NULL);
    Node *u = lift_canonical(&l, before_tail(p, o), &o->result, o->rest);
    Node *d = operand_views(g, f->op, p->map.map[f->op->base->id]);
    d = lift_canonical(&l, graph_cast(g, d, DT_F32), &f->op->place, (int)f->op->rest);
    d = lift_spread(&l, d, place_atoms(&f->op->place), f->atoms);
    Node *product = graph_binary(g, OP_mul, u, d);
    int64_t last = product->type.rank - 1;
    g->name = "row_sums";
    return graph_reduce(g, OP_sum, product, &last, 1, false);
}

static Node *argument(Plan *p, const Kernel *k, const Arg *arg)
{
    if (arg->old) {
        Node *n = p->map.map[arg->old->id];
        graph_stamp(p->dst, arg->old, NULL);
        n = graph_cast(p->dst, n, arg->type);
        for (int i = arg->nviews; i-- > 0;)
            n = graph_node(p->dst, arg->view[i]->op, &n, 1, arg->view[i]->attrs);
        return arg->nperm ? graph_permute(p->dst, n, arg->perm) : n;
    }
    if (arg->row) return row_dot(p, k->core, &k->rowdots.at[arg->row - 1]);
    return k->core->lse->lse_made;
}

// The name that the model gives to the result of a kernel.
static const char *name_of(const Outer *o)
{
    for (int i = o->ntail; i-- > 0;)
        if (o->tail[i]->name) return o->tail[i]->name;
    return o->dot->name ? o->dot->name : "attention";
}

static void make_kernel(Plan *p, Kernel *k)
{
    static const char *const names[] = {
        [OUT_FORWARD] = "attention", [OUT_QUERY] = "attention_dq", [OUT_KEY] = "attention_dkv"};
    Graph *g = p->dst;
    Attrs at = {0};
    Node **args = NEW_ARRAY(g->arena, Node *, k->args.n + 1);
    for (uint32_t i = 0; i < k->args.n; i++) args[i] = argument(p, k, &k->args.at[i]);
    graph_stamp(g, k->outer[0]->dot, NULL);
    Node *made[3], *call = NULL;
    if (k->rows) {
        loop_make(g, k, args, made);
    } else {
        attr_set_str(g, &at, ATTR_name, names[k->kind]);
        call = graph_region_node(g, OP_call, args, (int)k->args.n, &at, &k->region, 1);
    }
    if (k->core->parts) {
        for (int i = 0; i < 3; i++) made[i] = graph_result(g, call, i);
        made[0] = kernel_joined(g, k->core, k->outer[0], made);
        call = NULL;
    }
    for (int i = 0; i < k->nouters; i++) {
        const Node *end = outer_end(k->outer[i]);
        graph_stamp(g, end, name_of(k->outer[i]));
        Node *x = call ? graph_result(g, call, i) : made[i];
        if (!x->name) x->name = name_of(k->outer[i]);
        p->map.map[end->id] = graph_cast(g, x, end->type.dtype);
    }
    if (!k->lse) return;
    k->lse_made = call ? graph_result(g, call, k->nouters) : made[k->nouters];
    if (!k->lse_made->name) k->lse_made->name = "lse";
}

static void build(Plan *p, Node *n, bool *any)
{
    Nodes work = {0};
    Arena *a = p->dst->arena;
    vec_push(a, &work, n);
    while (work.n) {
        Node *x = work.at[work.n - 1];
        uint32_t before = work.n;
        if (!p->map.map[x->id]) push_needs(p, x, &work);
        uint32_t kept = before;
        for (uint32_t i = before; i < work.n; i++)
            if (!p->map.map[work.at[i]->id]) work.at[kept++] = work.at[i];
        work.n = kept;
        if (work.n > before) continue;
        work.n--;
        if (p->map.map[x->id]) continue;
        if (p->of[x->id])
            make_kernel(p, p->of[x->id]);
        else
            remap_with_regions(&p->map, p->done, x, any);
    }
}

// What of g becomes kernels.
static Plan plan(const Context *c, const IdMap *done, Graph *g)
{
    Plan p = {.users = users_of(g), .o = c->o, .done = done};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        Core *core = p.users.live[i] && n->op == OP_sum ? core_find(&p.users, n, c->o) : NULL;
        bool loops = c->o->target->kind != TARGET_CUDA;
        if (!core || (loops && !loop_rows(core, OUT_FORWARD, c->o))) continue;
        vec_push(g->arena, &p.cores, core);
        if (!core->refused) plan_kernels(&p, core);
    }
    decide(&p);
    return p;
}

// The same, of g with longer head dimensions if more becomes kernels.
static Plan plan_padded(const Context *c, const IdMap *done, Graph *g)
{
    enum { MOST_ROUNDS = 2 * MOST_INNER }; // each pads one product of every softmax
    Plan best = plan(c, done, g), p = best;
    for (int i = 0; i < MOST_ROUNDS; i++) {
        Graph *padded = attention_heads(p.users.g, p.cores.at, p.cores.n);
        if (!padded) break;
        p = plan(c, done, padded);
        if (p.kernels.n > best.kernels.n) best = p;
    }
    return best;
}

static Graph *take(void *ctx, const IdMap *done, Graph *given)
{
    const Context *c = ctx;
    bool any = any_rebuilt(done, given);
    Plan p = plan_padded(c, done, given);
    Graph *g = p.users.g;
    for (uint32_t i = 0; c->entry && i < p.cores.n; i++) {
        Unfused why = p.cores.at[i]->why;
        if (!p.cores.at[i]->refused) continue;
        why.producer = graph_keep(g, why.producer);
        why.consumer = graph_keep(g, why.consumer);
        vec_push(g->kept, &c->entry->refused, why);
    }
    if (!p.kernels.n && !any) return given;
    p.dst = graph_beside(g);
    p.map = remap_begin(g, p.dst);
    for (uint32_t i = 0; i < g->params.n; i++) remap_node(&p.map, g->params.at[i]);
    uint8_t *needed = NEW_ARRAY(g->arena, uint8_t, g->nodes.n + 1);
    mark_needed(&p, needed);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (needed[i]) build(&p, g->nodes.at[i], &any);
    return graph_drop_dead(remap_end(&p.map));
}

Graph *pass_attention(Graph *g, Module *m, const PassOptions *o)
{
    Context c = {.o = o};
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (m->entries.at[i].graph == g) c.entry = &m->entries.at[i];
    return o->target ? over_regions(g, take, &c) : g;
}
