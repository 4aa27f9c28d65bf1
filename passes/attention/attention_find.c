// Finds softmaxes over dots, and the dots that read them.
//
// The search begins at a sum of exponentials over one axis. The exponent, up to values constant
// along a row, are the scores; they have to read a dot of rows and columns. Downstream of the
// exponentials, through elementwise code and views, every dot that contracts rows or columns is one
// that a kernel computes.
#include <stdlib.h>
#include <string.h>

#include "passes/attention/attention.h"

enum { MOST_SPLITS = 8, LEAST_ROWS = 32, LEAST_COLS = 32 };

Users users_of(Graph *g)
{
    uint32_t count = g->nodes.n;
    Users u = {.g = g,
               .live = NEW_ARRAY(g->arena, bool, count + 1),
               .first = NEW_ARRAY(g->arena, uint32_t, count + 2)};
    graph_mark_live(g, u.live);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; u.live[i] && k < g->nodes.at[i]->nargs; k++)
            u.first[g->nodes.at[i]->args[k]->id + 1]++;
    for (uint32_t i = 0; i < g->results.n; i++) u.first[g->results.at[i]->id + 1]++;
    for (uint32_t i = 0; i < count; i++) u.first[i + 1] += u.first[i];
    u.user = NEW_ARRAY(g->arena, Node *, u.first[count] + 1);
    uint32_t *next = NEW_ARRAY(g->arena, uint32_t, count + 1);
    memcpy(next, u.first, count * sizeof *next);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; u.live[i] && k < g->nodes.at[i]->nargs; k++)
            u.user[next[g->nodes.at[i]->args[k]->id]++] = g->nodes.at[i];
    for (uint32_t i = 0; i < g->results.n; i++) u.user[next[g->results.at[i]->id]++] = NULL;
    return u;
}

bool core_refuse(Core *c, UnfusedCause why, const Node *at, int64_t a, int64_t b)
{
    c->refused = true;
    const Node *scores = c->inner[0]->name ? c->inner[0] : c->e;
    c->why = (Unfused){.producer = scores, .consumer = at, .cause = why, .a = a, .b = b};
    return false;
}

// -- on demand: a softmax is local, and a graph holds one a layer ---------------------------------

// Whether the exponentials depend on n.
static bool is_below(Core *c, const Node *n)
{
    if (n->id >= c->e->id) return n == c->e;
    if (!c->below.n) {
        idmap_set(&c->below, c->e->id, 1);
        c->lowest = c->e->id + 1;
    }
    while (c->lowest > n->id + 1) {
        const Node *reader = c->g->nodes.at[--c->lowest];
        for (uint32_t k = 0; idmap_get(&c->below, reader->id, NULL) && k < reader->nargs; k++)
            idmap_set(&c->below, reader->args[k]->id, 1);
    }
    return idmap_get(&c->below, n->id, NULL);
}

bool core_hot(Core *c, const Node *n)
{
    VEC(const Node *) work = {0};
    int64_t count = type_count(&c->e->type);
    uint64_t hot = 0;
    vec_push(c->g->arena, &work, n);
    while (work.n) {
        const Node *x = work.at[work.n - 1];
        if (idmap_get(&c->hot, x->id, &hot)) {
            work.n--;
            continue;
        }
        uint32_t before = work.n;
        OpClass class = node_class(x);
        hot = x == c->e || (x->op == OP_dot && type_count(&x->type) == count && !is_below(c, x));
        if (class == CLS_ELEMENTWISE || class == CLS_VIEW || class == CLS_REDUCE)
            for (uint32_t k = 0; !hot && k < x->nargs; k++)
                if (!idmap_get(&c->hot, x->args[k]->id, &hot))
                    vec_push(c->g->arena, &work, x->args[k]);
        if (hot || work.n == before) idmap_set(&c->hot, x->id, hot);
    }
    return hot;
}

// By id: values that are computed with a costly function or random numbers and are small compared
// with the scores (slopes of heads, a table of biases, a mask of tokens hidden at random). They are
// stored rather than recomputed for every score. The same for all scores of one size.
static const bool *find_outside(Users *u, int64_t count)
{
    enum { MOST_BYTES = 64 << 20, SHARE = 8 };
    const Graph *g = u->g;
    for (uint32_t i = 0; i < u->outside.n; i++)
        if (u->outside.at[i].count == count) return u->outside.at[i].is;
    bool *scores = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), // depends on products of the size of
                                                              // the scores
        *dear = NEW_ARRAY(g->arena, bool, g->nodes.n + 1),
         *outside = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        OpClass class = node_class(n);
        int64_t size = type_count(&n->type);
        bool computed = class == CLS_ELEMENTWISE || class == CLS_VIEW;
        bool small = size * SHARE <= count && size * 4 <= MOST_BYTES;
        scores[i] = (node_has(n, OPF_DRAWN) && !small) || (n->op == OP_dot && size == count);
        dear[i] = node_has(n, OPF_COSTLY | OPF_DRAWN);
        for (uint32_t k = 0; k < n->nargs; k++) {
            scores[i] |= (computed || class == CLS_REDUCE) && scores[n->args[k]->id];
            dear[i] |= computed && dear[n->args[k]->id];
        }
        if (!computed) continue;
        outside[i] = dear[i] && !scores[i] && small;
    }
    vec_push(g->arena, &u->outside, (Outside){count, outside});
    return outside;
}

// -- what reads them ------------------------------------------------------------------------------

// The casts and views after the dot that have no other readers.
static void find_tail(const Core *c, Outer *o, const Users *u)
{
    const Node *n = o->dot;
    bool cast = true;
    while (o->ntail < MOST_TAIL && u->first[n->id + 1] - u->first[n->id] == 1) {
        Node *user = u->user[u->first[n->id]];
        if (!user) return;
        // The division of the softmax, which the kernel computes in any case.
        bool by_total = cast && !o->divided && user->op == OP_div && user->args[0] == n &&
                        o->kind == OUT_QUERY && is_total(c, user->args[1], &o->result);
        cast &= user->op == OP_cast || by_total;
        if (!by_total && !node_has(user, OPF_PERMUTES) && !is_rounding(user)) return;
        o->divided |= by_total;
        o->tail[o->ntail++] = user;
        n = user;
    }
}

static bool add_outer(Core *c, const Users *u, Node *dot, int side, const Place *p)
{
    Outer o = {.dot = dot, .side = side, .place = *p};
    int over;
    if (!outer_dot(&c->space, dot, side, p, &o.other, &o.result, &o.rest, &over)) return true;
    if (c->nouters == MOST_OUTERS) return core_refuse(c, WHY_FORM, dot, 0, 0);
    o.kind = over == space_row(&c->space) ? OUT_KEY : OUT_QUERY;
    find_tail(c, &o, u);
    int at = c->nouters++;
    for (; at > 0 && c->outer[at - 1].dot->id > dot->id; at--) c->outer[at] = c->outer[at - 1];
    c->outer[at] = o;
    return true;
}

static bool find_outers(Core *c, const Users *u)
{
    Seen *seen = NEW_ARRAY(u->g->arena, Seen, MOST_SEEN);
    int count = 0;
    push_seen(seen, &count, c->e, &c->place);
    for (int i = 0; i < c->nprobs; i++) push_seen(seen, &count, c->prob[i], &c->place);
    for (int i = 0; i < count; i++) {
        const Node *n = seen[i].n;
        for (uint32_t k = u->first[n->id]; k < u->first[n->id + 1]; k++) {
            Node *user = u->user[k];
            Place above;
            if (!user) continue;
            if (user->op == OP_dot) {
                for (int side = 0; side < 2; side++)
                    if (user->args[side] == n && user->args[0] != user->args[1] &&
                        !add_outer(c, u, user, side, &seen[i].place))
                        return false;
            } else if (node_class(user) == CLS_ELEMENTWISE || node_has(user, OPF_PERMUTES)) {
                bool fits = place_above(&c->space, user, &seen[i].place, &above, &c->split);
                if (!fits && c->split.atom >= 0) return false;
                if (fits && !push_seen(seen, &count, user, &above))
                    return core_refuse(c, WHY_FORM, user, 0, 0);
            }
        }
    }
    return true;
}

static int by_id(const void *x, const void *y)
{
    const Node *const *a = x, *const *b = y;
    return (*a)->id < (*b)->id ? -1 : (*a)->id > (*b)->id;
}

// Finds exponentials that depend on the sum other than through a dot. Does not look at other
// softmaxes.
static void find_probabilities(Core *c, const Users *u)
{
    VEC(Node *) reads = {0};
    IdMap seen = idmap_new(u->g->arena);
    vec_push(u->g->arena, &reads, c->sum);
    for (uint32_t i = 0; i < reads.n; i++) {
        uint32_t id = reads.at[i]->id;
        for (uint32_t k = u->first[id]; k < u->first[id + 1]; k++) {
            Node *user = u->user[k];
            if (!user || user->op == OP_dot || idmap_get(&seen, user->id, NULL)) continue;
            idmap_set(&seen, user->id, 1);
            vec_push(u->g->arena, &reads, user);
        }
    }
    qsort(reads.at, reads.n, sizeof *reads.at, by_id);
    c->nprobs = 0;
    for (uint32_t i = 1; i < reads.n && c->nprobs < MOST_PROBS; i++) // (reads.at[0] is the sum)
        if (core_hot(c, reads.at[i]) && is_probability(c, reads.at[i]))
            c->prob[c->nprobs++] = reads.at[i];
}

static int64_t rest_size(const Operand *o)
{
    return o->x->type.dim[o->rest];
}

// Whether kernels take a head dimension of n. side, axis: see OddHead.
static bool size_fits(Core *c, Node *at, int64_t n, DType t, int side, int64_t axis)
{
    const int64_t unit = t == DT_F32 ? 4 : 8;
    if (n % unit == 0 && n <= PASS_LONGEST_HEAD) return true;
    if (n < PASS_LONGEST_HEAD) c->odd = (OddHead){at, side, axis, unit};
    return core_refuse(c, WHY_HEAD, at, n, unit);
}

static bool head_fits(Core *c, Node *at, const Operand *op, int side, const PassOptions *o)
{
    return o->target->kind != TARGET_CUDA ||
           size_fits(c, at, rest_size(op), op->type, side, op->rest);
}

// Expands the operands of each dot; those of the forward part come first in program order.
static bool classify(Core *c, const PassOptions *o)
{
    bool kernels = o->target->kind == TARGET_CUDA;
    DType type = c->inner[0]->args[0]->type.dtype;
    for (int i = 0; i < c->nouters; i++) {
        Outer *u = &c->outer[i];
        const Node *dot = NULL; // the other product: a kernel has at most one, with one element
                                // type
        bool dots = false, fits = terms_of(c, u->dot->args[u->side], &u->place, &u->terms);
        if (c->split.atom >= 0) return false;
        Factor total = total_factor(c, operand_total(c, &u->other) - u->divided);
        for (int t = 0; t < u->terms.n; t++) {
            u->terms.t[t].c *= u->other.factor;
            if (total.power) fits &= term_push(&u->terms.t[t], &total);
        }
        u->other.factor = 1;
        if (!fits || !u->terms.n) return core_refuse(c, WHY_FORM, u->dot, 0, 0);
        for (int t = 0; t < u->terms.n; t++) {
            bool prob = false;
            for (int k = 0; k < u->terms.t[t].n; k++) {
                const Factor *f = &u->terms.t[t].f[k];
                if (f->kind == F_TOTAL) fits = false;
                if (f->kind == F_DOT) {
                    dots = true;
                    fits &= f->power == 1;
                    if (kernels) fits &= (!dot || dot == f->key) && f->op[0].type == type;
                    dot = f->key;
                    bool known = false;
                    for (int j = 0; j < c->ninner; j++) known |= c->inner[j] == f->n;
                    if (!known && c->ninner == MOST_INNER) fits = false;
                    if (!known && fits) c->inner[c->ninner++] = f->n;
                    for (int j = 0; j < 2; j++)
                        if (!head_fits(c, f->n, &f->op[j], -1, o)) return false;
                }
                prob |= f->kind == F_PROB && f->power == 1;
            }
            fits &= prob;
        }
        if (u->kind == OUT_QUERY && !dots) u->kind = OUT_FORWARD;
        if (u->kind == OUT_FORWARD) fits &= u->terms.n == 1;
        if (kernels) fits &= u->other.type == type;
        if (!fits) return core_refuse(c, WHY_FORM, u->dot, 0, 0);
        if (!head_fits(c, u->dot, &u->other, !u->side, o)) return false;
    }
    bool forward = false;
    for (int i = 0; i < c->nouters; i++) forward |= c->outer[i].kind == OUT_FORWARD;
    return forward || core_refuse(c, WHY_FORM, c->outer[0].dot, 0, 0);
}

// Whether a forward product sums over the columns.
static bool is_read(const Core *c)
{
    bool read = false;
    for (int i = 0; i < c->nouters; i++)
        read |= c->outer[i].kind != OUT_KEY && c->outer[i].dot->role == ROLE_FORWARD;
    return read;
}

static bool sizes_fit(Core *c, const PassOptions *o)
{
    int64_t rows = c->space.size[space_row(&c->space)], cols = c->space.size[space_col(&c->space)];
    if (o->target->kind != TARGET_CUDA) return true;
    for (int i = 0; i < c->ninner; i++) {
        Node *n = c->inner[i];
        if (!size_fits(c, n, reduced_count(n), n->args[0]->type.dtype, -1, 0)) return false;
    }
    c->parts = rows < LEAST_ROWS ? attention_parts(c) : 0;
    return c->parts || (rows >= LEAST_ROWS && cols >= LEAST_COLS) ||
           core_refuse(c, WHY_SHORT, c->e, rows, cols);
}

// Parts of the columns are combined after a kernel that computes only the result, so not if there
// are gradients.
static bool parts_fit(Core *c)
{
    if (!c->parts || (c->nouters == 1 && c->outer[0].kind == OUT_FORWARD)) return true;
    return core_refuse(c, WHY_SHORT, c->e, c->space.size[space_row(&c->space)],
                       c->space.size[space_col(&c->space)]);
}

static bool find(Core *c, Users *u, const PassOptions *o)
{
    c->ninner = c->nouters = 0;
    c->split.atom = -1;
    c->times = NULL;
    if (!core_products(c, u)) return false;
    c->scratch = lift_begin(u->g, graph_beside(u->g), &c->space, false);
    core_scores(c);
    c->outside = c->scratch.outside = find_outside(u, type_count(&c->e->type));
    find_probabilities(c, u);
    if (!find_outers(c, u) || !is_read(c)) return false;
    if (c->ninner > 1) return core_refuse(c, WHY_FORM, c->inner[1], 0, 0);
    return sizes_fit(c, o) && classify(c, o) && parts_fit(c);
}

Core *core_find(Users *u, Node *sum, const PassOptions *o)
{
    Node *e = uncast_float(sum->args[0]);
    if (sum->op != OP_sum || e->op != OP_exp || e->type.dtype == DT_F64) return NULL;
    Core *c = NEW(u->g->arena, Core);
    c->g = u->g; // (field by field, since Core is large and zeroed already)
    c->e = e;
    c->sum = sum;
    c->few = o->target->kind == TARGET_CUDA;
    c->below = idmap_new(u->g->arena);
    c->hot = idmap_new(u->g->arena);
    if (!core_space(c)) return NULL;
    for (int i = 0; i < MOST_SPLITS; i++) {
        if (find(c, u, o) || c->refused) return is_read(c) ? c : NULL;
        if (c->split.atom < 0 || !core_split(c)) return NULL;
    }
    return NULL;
}
