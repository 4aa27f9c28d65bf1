// Free values: which of them share one elementwise kernel, and which are dear enough to be stored
// instead of computed by everyone who reads them.
//
// A walk against program order collects for every free value who computes it and how many elements
// of it that makes. Stored free values of equal size that compute something in common become one
// map.
#include "passes/fuse.h"

enum { NOBODY = 0, MANY = UINT32_MAX };

uint32_t fuse_map_of(const Fuse *f, uint32_t id)
{
    while (f->map[id] != id + 1) {
        f->map[id] = f->map[f->map[id] - 1];
        id = f->map[id] - 1;
    }
    return id;
}

static const Type *space(const Node *n)
{
    return node_class(n) == CLS_ROOT ? &n->args[0]->type : &n->type;
}

static bool is_map_node(const Fuse *f, const Node *n)
{
    return f->mat[n->id] && !f->cluster[n->id] && !f->absorbed[n->id] && !fuse_is_anchor(n) &&
           n->op != OP_get;
}

static bool is_sink(const Node *n)
{
    return node_class(n) == CLS_ROOT && n->op != OP_assert;
}

typedef struct Who { // computes a free value
    uint32_t id;     // of a map's representative, a cluster, an anchor; NOBODY, MANY
    bool map;
} Who;

typedef struct Decide {
    Fuse *f;
    Who *who;
    float *evals; // elements computed by all who compute it
    float *users;
    float *flops; // an element, down to stored values
    float *bytes; // all of it
} Decide;

static double count_of(const Node *n)
{
    return (double)type_count(&n->type);
}

static bool is_free(const Fuse *f, const Node *n)
{
    return f->live[n->id] && !f->mat[n->id] && !f->cluster[n->id] && !f->absorbed[n->id] &&
           node_class(n) != CLS_LEAF && node_class(n) != CLS_ROOT && n->op != OP_get &&
           !fuse_is_anchor(n);
}

static double op_flops(const Node *n)
{
    if (node_class(n) == CLS_VIEW) return 0;
    if (n->op == OP_random) return 100;
    if (node_class(n) == CLS_ELEMENTWISE)
        return op_info(n->op)->flags & OPF_COSTLY || n->op == OP_pow ? 20 : 1;
    return 2;
}

// A scalar is computed once a thread, not once an element.
static double scalar_share(const Fuse *f)
{
    return f->target && f->target->kind == TARGET_CUDA ? 1.0 / 4 : 1.0 / 1024;
}

static void costs(Decide *d)
{
    Fuse *f = d->f;
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        const Node *n = f->g->nodes.at[i];
        if (!f->live[i] || (node_class(n) == CLS_LEAF && n->op != OP_random)) continue;
        double flops = op_flops(n), bytes = 0;
        for (uint32_t k = 0; k < n->nargs; k++) {
            const Node *a = n->args[k];
            bool stored = f->mat[a->id] || fuse_in_memory(f, a) || a->op == OP_input;
            if (!stored) flops += d->flops[a->id] * (a->type.rank == 0 ? scalar_share(f) : 1);
            bytes += stored ? (double)type_bytes(&a->type) : d->bytes[a->id];
        }
        // A kernel that computes what a reduction feeds starts from there.
        d->flops[i] = (float)(flops < 1e12 ? flops : 1e12);
        d->bytes[i] = (float)(bytes < 1e15 ? bytes : 1e15);
    }
}

// Two maps may be one kernel: same number of elements, and neither waits for the other.
static bool joinable(const Fuse *f, uint32_t a, uint32_t b)
{
    const Node *x = f->g->nodes.at[a], *y = f->g->nodes.at[b];
    if (type_count(space(x)) != type_count(space(y))) return false;
    if ((x->op == OP_assert) != (y->op == OP_assert)) return false;
    return f->level[a] == f->level[b] || (is_sink(x) && is_sink(y));
}

static void unite(Fuse *f, uint32_t a, uint32_t b)
{
    a = fuse_map_of(f, a);
    b = fuse_map_of(f, b);
    if (a == b) return;
    // The lower id stays: it is the first in program order.
    if (a > b) {
        uint32_t t = a;
        a = b;
        b = t;
    }
    f->map[b] = a + 1;
    int32_t level = f->level[a] > f->level[b] ? f->level[a] : f->level[b];
    f->level[a] = f->level[b] = level;
}

// A scalar spread out is nothing that kernels gain by sharing: a network's parameters all have the
// learning rate in common.
static bool worth_sharing(const Node *n)
{
    while (node_class(n) == CLS_VIEW && type_count(&n->type) > 1) n = n->args[0];
    return type_count(&n->type) > 1;
}

static void add_user(Decide *d, const Node *a, Who w, double evals, double users)
{
    Fuse *f = d->f;
    Who *mine = &d->who[a->id];
    d->evals[a->id] += (float)evals;
    if (w.id == MANY || mine->id == MANY) {
        *mine = (Who){MANY, false};
        d->users[a->id] += (float)users;
        return;
    }
    if (w.map) w.id = fuse_map_of(f, w.id - 1) + 1;
    if (mine->map) mine->id = fuse_map_of(f, mine->id - 1) + 1;
    if (mine->id == NOBODY) {
        *mine = w;
        d->users[a->id] = (float)users;
    } else if (mine->id != w.id || mine->map != w.map) {
        if (mine->map && w.map && worth_sharing(a) &&
            type_count(&a->type) == type_count(space(f->g->nodes.at[w.id - 1])) &&
            joinable(f, mine->id - 1, w.id - 1)) {
            unite(f, mine->id - 1, w.id - 1);
            mine->id = fuse_map_of(f, w.id - 1) + 1;
            return;
        }
        *mine = (Who){MANY, false};
        d->users[a->id] += (float)users;
    }
}

// Is storing n cheaper than computing it wherever it is read?
static bool store_pays(const Decide *d, const Node *n)
{
    const Fuse *f = d->f;
    const Target *t = f->target;
    uint32_t id = n->id;
    if (d->flops[id] == 0 && node_class(n) == CLS_VIEW && d->users[id] <= 1) return false;
    double rate = t && t->f32_flops > 0 ? t->f32_flops : 1e11;
    double speed = t && t->bytes_per_second > 0 ? t->bytes_per_second : 1e10;
    double launch = t && t->kind == TARGET_CUDA ? 2.5e-6 : 3e-6;
    double users = d->users[id] > 1 ? d->users[id] : 1, count = count_of(n);
    double evals = d->evals[id] * (n->type.rank == 0 ? scalar_share(f) : 1);
    double again = (evals - count) * d->flops[id] / (rate / 8) + (users - 1) * d->bytes[id] / speed;
    double stored = (1 + users) * (double)type_bytes(&n->type) / speed + launch;
    return again > 2 * stored && evals > count;
}

bool fuse_decide(Fuse *f)
{
    uint32_t n = f->g->nodes.n + 1;
    Decide d = {.f = f};
    d.who = NEW_ARRAY(f->a, Who, n);
    d.evals = NEW_ARRAY(f->a, float, n);
    d.users = NEW_ARRAY(f->a, float, n);
    d.flops = NEW_ARRAY(f->a, float, n);
    d.bytes = NEW_ARRAY(f->a, float, n);
    f->map = NEW_ARRAY(f->a, uint32_t, n);
    for (uint32_t i = 0; i + 1 < n; i++) f->map[i] = i + 1;
    costs(&d);
    bool more = f->again;
    // Sinks may be computed late: the last level of all, so that every update shares one launch.
    int32_t last = 0;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (f->live[i] && f->level[i] > last) last = f->level[i];
    for (uint32_t i = 0; i + 1 < n; i++)
        if (f->live[i] && is_map_node(f, f->g->nodes.at[i]) && is_sink(f->g->nodes.at[i]))
            f->level[i] = last;
    for (uint32_t i = n - 1; i-- > 0;) {
        Node *x = f->g->nodes.at[i];
        if (!f->live[i] || f->absorbed[i] || node_class(x) == CLS_LEAF || x->op == OP_get) continue;
        Who w;
        double evals = count_of(x), users = 1;
        if (is_free(f, x)) {
            w = d.who[i];
            evals = d.evals[i];
            users = d.users[i];
            if (!f->forced[i] && store_pays(&d, x)) {
                f->forced[i] = more = true;
                f->cost_users[i] = (uint32_t)users;
                f->cost_flops[i] = d.flops[i];
            }
            if (f->forced[i]) { // stored from the next round on: computed once
                w = (Who){i + 1, true};
                evals = count_of(x);
                users = 1;
            }
        } else if (f->cluster[i]) {
            w = (Who){fuse_cluster(f, x), false};
            if (node_class(x) == CLS_REDUCE) evals = count_of(x->args[0]);
        } else if (is_map_node(f, x)) {
            w = (Who){i + 1, true};
            if (node_class(x) == CLS_ROOT) evals = (double)type_count(space(x));
        } else {
            w = (Who){n + i, false}; // an anchor
        }
        for (uint32_t k = 0; k < x->nargs; k++) {
            Node *a = x->args[k];
            if (!is_free(f, a) && !(is_map_node(f, a) && f->live[a->id])) continue;
            if (is_free(f, a)) add_user(&d, a, w, evals, users);
        }
    }
    return more;
}
