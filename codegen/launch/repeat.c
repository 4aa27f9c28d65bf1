// A launch that differs from an earlier one of its graph only in its nodes, as those of equal
// layers do, reuses its kernels with its own nodes in place of the earlier ones.
//
// Everything that lowering can see of a launch is written down as words, with nodes numbered in the
// order in which they are met: the groups; what they compute, down to values that are stored
// elsewhere; and, of the stored values, what lowering reads of them (views and casts, and integers,
// whose ranges follow from their operands). Launches with equal words have equal kernels. Names are
// left out, except those that appear in kernel names; texts keep the names of the first launch, as
// those of equal kernels do (launch.c).
#include <stdlib.h>
#include <string.h>

#include "codegen/launch/launch.h"

enum { MOST_GROUPS = 128, MOST_NODES = 6000 }; // limits of a launch that is compared with others

typedef VEC(const Node *) Nodes;

typedef struct Known { // a launch that was lowered
    const uint64_t *words;
    uint32_t nwords;
    Nodes nodes;
    const uint32_t *by_id; // the numbers of nodes outside of regions, in the order of their ids
    Group *const *groups;
    const LoweredKernel *kernels;
    int nkernels;
    IdMap number; // by node; filled on first use
} Known;

struct Repeats { // for one graph
    Repeats *next;
    Arena *arena;
    const Graph *graph;
    bool windows; // the graph has windows
    IdMap known;
    // The current launch:
    uint32_t stamp;
    uint64_t *met;      // by node id: the stamp and the number
    uint32_t *own;      // by node id: the stamp, for what its groups compute in any case
    uint32_t *group_at; // by group id: the stamp, for groups of the launch
    VEC(uint64_t) words;
    Nodes nodes;  // by number
    Nodes inside; // nodes of regions; their numbers follow
    uint64_t hash;
};

static Repeats *of_graph(LowerCtx *ctx, const Graph *g)
{
    for (Repeats *r = ctx->repeats; r; r = r->next)
        if (r->graph == g) return r;
    Arena *a = ctx->arena;
    Repeats *r = NEW(a, Repeats);
    *r = (Repeats){.next = ctx->repeats, .arena = a, .graph = g, .known = idmap_new(a)};
    for (uint32_t i = 0; i < g->nodes.n && !r->windows; i++)
        r->windows = g->nodes.at[i]->op == OP_window;
    r->met = NEW_ARRAY(a, uint64_t, g->nodes.n + 1);
    r->own = NEW_ARRAY(a, uint32_t, g->nodes.n + 1);
    r->group_at = NEW_ARRAY(a, uint32_t, g->fusion->groups.n + 1);
    ctx->repeats = r;
    return r;
}

// -- words ----------------------------------------------------------------------------------------

static void put(Repeats *r, uint64_t word)
{
    vec_push(r->arena, &r->words, word);
}

// Appends the number of a node; 0: NULL.
static void put_node(Repeats *r, const Node *n)
{
    if (!n) return put(r, 0);
    uint64_t *met = &r->met[n->id];
    if (*met >> 32 != r->stamp) {
        *met = (uint64_t)r->stamp << 32 | r->nodes.n;
        vec_push(r->arena, &r->nodes, n);
    }
    put(r, (*met & UINT32_MAX) + 1);
}

// Hash of a path without its indices, as in the names of kernels (names.c).
static uint64_t path_hash(const char *s)
{
    uint64_t h = 1;
    for (const char *p = s; *p;) {
        size_t n = strcspn(p, ".");
        if (strspn(p, "0123456789") < n) h = hash_bytes(p, n, h);
        p += n + (p[n] == '.');
    }
    return h;
}

// [named]: kernels may get its name.
static void put_attrs(Repeats *r, const Node *n, bool named)
{
    put(r, (uint64_t)n->attrs->n);
    for (int i = 0; i < n->attrs->n; i++) {
        const AttrValue *v = &n->attrs->at[i];
        put(r, (uint64_t)v->key);
        if (attr_kind(v->key) == AK_INTS) {
            put(r, (uint64_t)v->n);
            for (int32_t k = 0; k < v->n; k++) put(r, (uint64_t)v->ints[k]);
        } else if (attr_kind(v->key) != AK_STR) {
            put(r, (uint64_t)v->i); // (the bits of floats)
        } else if (v->key != ATTR_name) {
            put(r, hash_str(v->s));
        } else if (named) {
            put(r, path_hash(v->s));
        }
    }
}

static void put_type(Repeats *r, const Type *t)
{
    put(r, (uint64_t)t->dtype << 8 | t->rank);
    for (int i = 0; i < t->rank; i++) put(r, (uint64_t)t->dim[i]);
}

static void put_form(Repeats *r, const Node *n, bool named)
{
    put(r, (uint64_t)n->op << 32 | (uint64_t)n->role << 24 | n->nargs);
    put_type(r, &n->type);
    put_attrs(r, n, named);
    if (named) put(r, n->name ? path_hash(n->name) : 0);
}

// false: the region contains regions itself.
static bool put_region(Repeats *r, const Graph *region)
{
    put(r, (uint64_t)region->nodes.n << 32 | region->params.n);
    for (uint32_t i = 0; i < region->nodes.n; i++) {
        const Node *n = region->nodes.at[i];
        if (n->nregions) return false;
        put_form(r, n, false);
        for (uint32_t k = 0; k < n->nargs; k++) put(r, n->args[k]->id);
        vec_push(r->arena, &r->inside, n);
    }
    for (uint32_t i = 0; i < region->params.n; i++) put(r, region->params.at[i]->id);
    put(r, region->results.n);
    for (uint32_t i = 0; i < region->results.n; i++) put(r, region->results.at[i]->id);
    return true;
}

static bool is_own(const Repeats *r, const Node *n)
{
    uint32_t group = r->graph->fusion->group_of[n->id];
    return r->own[n->id] == r->stamp || (group && r->group_at[group - 1] == r->stamp);
}

// Whether the launch computes the node if something that it computes reads it.
static bool is_computed(const Repeats *r, const Node *n)
{
    if (node_has(n, OPF_RESULT)) return is_own(r, n->args[0]);
    if (node_class(n) == CLS_REGION) return is_own(r, n);
    return node_class(n) == CLS_LEAF || !r->graph->fusion->group_of[n->id] || is_own(r, n);
}

// Whether lowering may look at the operands of a node that is read from memory.
static bool is_transparent(const Node *n)
{
    return node_class(n) == CLS_VIEW || n->op == OP_cast ||
           (node_class(n) == CLS_ELEMENTWISE && !dtype_is_float(n->type.dtype));
}

static void put_nodes(Repeats *r, Node *const *nodes, uint32_t n)
{
    put(r, n);
    for (uint32_t i = 0; i < n; i++) put_node(r, nodes[i]);
}

static void put_group(Repeats *r, const Group *g)
{
    put(r, (uint64_t)g->kind << 32 | (uint64_t)g->epilogue << 1 | g->assembled);
    put_nodes(r, g->outs.at, g->outs.n);
    put_nodes(r, g->folded.at, g->folded.n);
    put_nodes(r, g->inner, (uint32_t)g->ninner);
    Node *const others[] = {g->anchor, g->bias, g->residual, g->aux, g->prologue_a, g->prologue_b};
    put_nodes(r, others, sizeof others / sizeof *others);
    put(r, g->parts != NULL);
    for (uint32_t i = 0; i < g->outs.n && g->parts; i++) {
        put_node(r, g->parts[i].whole);
        put(r, (uint64_t)g->parts[i].at);
    }
}

static void mark_own(Repeats *r, Group *const *groups, int ngroups)
{
    r->stamp++;
    r->words.n = r->nodes.n = r->inside.n = 0;
    for (int i = 0; i < ngroups; i++) {
        const Group *g = groups[i];
        r->group_at[g->id] = r->stamp;
        if (g->anchor) r->own[g->anchor->id] = r->stamp;
        for (int k = 0; k < g->ninner; k++) r->own[g->inner[k]->id] = r->stamp;
    }
}

static void put_node_form(const LowerCtx *ctx, Repeats *r, const Node *n, bool computed)
{
    bool own = is_own(r, n);
    put(r, (uint64_t)(ctx->commits ? ctx->commits[n->id] : COMMIT_NONE) << 3 |
               (uint64_t)(r->graph->fusion->group_of[n->id] != 0) << 2 | (uint64_t)own << 1 |
               computed);
    put_form(r, n, own);
}

// Whether lowering finds windows in the elementwise code before a sum, even if it is stored.
static bool sums_windows(const Repeats *r, const Node *n)
{
    return r->windows && n->op == OP_sum && lower_window_below(n->args[0]);
}

// Describes the launch by words. false: it is not worth it, or the words cannot describe it.
static bool write_down(const LowerCtx *ctx, Repeats *r, Group *const *groups, int ngroups)
{
    mark_own(r, groups, ngroups);
    put(r, (uint64_t)ctx->part << 1 | ctx->is_region);
    put(r, (uint64_t)ngroups);
    for (int i = 0; i < ngroups; i++) put_group(r, groups[i]);
    for (uint32_t i = 0; i < r->nodes.n; i++) {
        const Node *n = r->nodes.at[i];
        if (r->nodes.n > MOST_NODES) return false;
        bool computed = is_computed(r, n);
        put_node_form(ctx, r, n, computed);
        if (computed && sums_windows(r, n)) return false;
        for (uint32_t k = 0; k < n->nargs && computed; k++) put_node(r, n->args[k]);
        for (uint32_t k = 0; k < n->nregions && computed; k++)
            if (!put_region(r, n->regions[k])) return false;
    }
    for (uint32_t i = 0, inside = r->nodes.n; i < r->nodes.n; i++) { // what is read from memory
        const Node *n = r->nodes.at[i];
        if (r->nodes.n > MOST_NODES) return false;
        if (i < inside && is_computed(r, n)) continue;
        if (i >= inside) put_node_form(ctx, r, n, false);
        for (uint32_t k = 0; k < n->nargs && is_transparent(n); k++) put_node(r, n->args[k]);
    }
    r->hash = r->words.n;
    for (uint32_t i = 0; i < r->words.n; i++) { // (words with equal hashes are compared)
        r->hash = (r->hash ^ r->words.at[i]) * 0x9e3779b97f4a7c15u;
        r->hash ^= r->hash >> 32;
    }
    return true;
}

// -- kernels of an earlier launch, for the current one --------------------------------------------

static int by_word(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

// Numbers of nodes in the order of their ids: lowering compares ids (the first of two equal
// reductions determines the body).
static const uint32_t *order_of(Repeats *r)
{
    const uint32_t n = r->nodes.n;
    uint64_t *keys = NEW_ARRAY(r->arena, uint64_t, n + 1);
    uint32_t *order = NEW_ARRAY(r->arena, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) keys[i] = (uint64_t)r->nodes.at[i]->id << 32 | i;
    qsort(keys, n, sizeof *keys, by_word);
    for (uint32_t i = 0; i < n; i++) order[i] = (uint32_t)keys[i];
    return order;
}

static bool same_order(const Repeats *r, const uint32_t *order)
{
    for (uint32_t i = 1; i < r->nodes.n; i++)
        if (r->nodes.at[order[i - 1]]->id > r->nodes.at[order[i]]->id) return false;
    return true;
}

static bool is_equal(const Repeats *r, const Known *k)
{
    return k->nwords == r->words.n &&
           !memcmp(k->words, r->words.at, k->nwords * sizeof *k->words) && same_order(r, k->by_id);
}

typedef struct Taking {
    Repeats *r;
    Known *known;
    Group *const *groups;
    int ngroups;
    struct {
        const Body *of;
        Body *body;
    } bodies[2 * MOST_GROUPS]; // a body may be in two kernels
    int nbodies;
    bool failed; // the earlier kernels contain something that the words did not describe
} Taking;

static void number_nodes(Arena *a, Known *k)
{
    if (k->number.arena) return;
    k->number = idmap_new(a);
    for (uint32_t i = 0; i < k->nodes.n; i++)
        idmap_set(&k->number, (uint64_t)(uintptr_t)k->nodes.at[i], i);
}

static const Node *image(Taking *t, const Node *n)
{
    uint64_t i;
    if (!n) return NULL;
    if (!idmap_get(&t->known->number, (uint64_t)(uintptr_t)n, &i)) return t->failed = true, n;
    return i < t->r->nodes.n ? t->r->nodes.at[i] : t->r->inside.at[i - t->r->nodes.n];
}

#define COPY_VEC(a, v)                                                                             \
    do {                                                                                           \
        (v)->at = memcpy(arena_array((a), (v)->n + 1, sizeof *(v)->at), (v)->at,                   \
                         (v)->n * sizeof *(v)->at);                                                \
        (v)->cap = (v)->n + 1;                                                                     \
    } while (0)

static Body *own_body(Taking *t, const Body *of)
{
    for (int i = 0; i < t->nbodies; i++)
        if (t->bodies[i].of == of) return t->bodies[i].body;
    Arena *a = t->r->arena;
    Body *b = NEW(a, Body);
    *b = *of;
    if (b->insts.n) COPY_VEC(a, &b->insts);
    if (b->stores.n) COPY_VEC(a, &b->stores);
    if (b->bufs.n) COPY_VEC(a, &b->bufs);
    for (uint32_t i = 0; i < b->insts.n; i++) b->insts.at[i].node = image(t, b->insts.at[i].node);
    for (uint32_t i = 0; i < b->stores.n; i++)
        b->stores.at[i].fold = image(t, b->stores.at[i].fold);
    for (uint32_t i = 0; i < b->bufs.n; i++) b->bufs.at[i].node = image(t, b->bufs.at[i].node);
    int g = 0;
    while (g < t->ngroups && t->known->groups[g] != of->group) g++;
    if (g == t->ngroups || t->nbodies == (int)(sizeof t->bodies / sizeof *t->bodies))
        return t->failed = true, b;
    b->group = t->groups[g];
    t->bodies[t->nbodies].of = of;
    t->bodies[t->nbodies++].body = b;
    return b;
}

static LoweredKernel own_kernel(Taking *t, const LoweredKernel *of)
{
    Arena *a = t->r->arena;
    LoweredKernel k = *of;
    k.args = NEW_ARRAY(a, KernelArg, k.nargs + 1);
    memcpy(k.args, of->args, (size_t)k.nargs * sizeof *k.args);
    for (int i = 0; i < k.nargs; i++) k.args[i].node = image(t, k.args[i].node);
    k.body = NEW_ARRAY(a, Body *, k.nbodies + 1);
    for (int i = 0; i < k.nbodies; i++) k.body[i] = own_body(t, of->body[i]);
    k.loc = kernel_loc(k.body[0]);
    return k;
}

int launch_repeats(LowerCtx *ctx, Graph *g, Group *const *groups, int ngroups, LoweredKernel **out)
{
    Repeats *r = ctx->printed && ngroups <= MOST_GROUPS ? of_graph(ctx, g) : NULL;
    uint64_t at;
    ctx->repeat = NULL;
    if (!r || !write_down(ctx, r, groups, ngroups)) return 0;
    ctx->repeat = r;
    if (!idmap_get(&r->known, r->hash, &at)) return 0;
    Known *k = (Known *)(uintptr_t)at;
    if (!is_equal(r, k)) return 0;
    number_nodes(r->arena, k);
    Taking t = {.r = r, .known = k, .groups = groups, .ngroups = ngroups};
    *out = NEW_ARRAY(r->arena, LoweredKernel, k->nkernels);
    for (int i = 0; i < k->nkernels; i++) (*out)[i] = own_kernel(&t, &k->kernels[i]);
    return t.failed ? 0 : k->nkernels;
}

void launch_remember(LowerCtx *ctx, Group *const *groups, int ngroups, const LoweredKernel *kernels,
                     int n)
{
    Repeats *r = ctx->repeat;
    if (!r || !n || idmap_get(&r->known, r->hash, NULL)) return;
    Arena *a = r->arena;
    Known *k = NEW(a, Known);
    uint64_t *words = NEW_ARRAY(a, uint64_t, r->words.n);
    k->words = memcpy(words, r->words.at, r->words.n * sizeof *words);
    k->nwords = r->words.n;
    for (uint32_t i = 0; i < r->nodes.n; i++) vec_push(a, &k->nodes, r->nodes.at[i]);
    for (uint32_t i = 0; i < r->inside.n; i++) vec_push(a, &k->nodes, r->inside.at[i]);
    k->by_id = order_of(r);
    Group **own = NEW_ARRAY(a, Group *, ngroups);
    k->groups = memcpy(own, groups, (size_t)ngroups * sizeof *own);
    LoweredKernel *kept = NEW_ARRAY(a, LoweredKernel, n); // (the caller renames its own kernels)
    k->kernels = memcpy(kept, kernels, (size_t)n * sizeof *kept);
    k->nkernels = n;
    idmap_set(&r->known, r->hash, (uint64_t)(uintptr_t)k);
}
