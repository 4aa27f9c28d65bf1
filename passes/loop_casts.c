// Values that cross a loop's border only to be rounded are rounded before they cross it.
//
// A value that a loop carries or stacks and that is read only through casts to one smaller float
// type (possibly through views) is rounded by the body where it is computed: that kernel stores
// half the bytes, and no iteration begins with the cast of a carried value that a product reads. If
// the carried value is also needed unrounded, in the loop or after it, both forms are carried if a
// product reads a cast of it. A stacked result that becomes equal to another one, or to what the
// loop scans, is removed.
//
// Requires: precision chosen. Keeps: every value to the bit. Breaks: nothing.
#include "passes/passes.h"
#include "passes/regions.h"

// How a value is read: not at all, in several ways, or otherwise only rounded to this type.
enum { NOBODY = -1, SEVERAL = -2 };

typedef struct Loop {
    Node *n;
    Graph *body;
    uint32_t ncarried, nscanned;
    int *result; // by result: how it is read after the loop
    int *param;  // by operand: its new type; SEVERAL: unchanged
    bool *both;  // by carried value: it is carried twice, in its old type and rounded; casts of it
                 // read the latter
    bool any;
} Loop;

typedef struct Casts {
    const IdMap *done;
    Graph *g;
    const bool *live;
    int *how;   // by id: how it is read
    Loop *loop; // by id
} Casts;

static void read_as(int *how, int as)
{
    if (as != NOBODY) *how = *how == NOBODY || *how == as ? as : SEVERAL;
}

// How n, which is itself read as [how], reads its operand.
static int reads_as(const Node *n, int how)
{
    DType to = n->type.dtype;
    if (n->op == OP_cast) {
        DType from = n->args[0]->type.dtype;
        bool rounds = dtype_is_float(to) && dtype_is_float(from) &&
                      dtype_info[to].bits < dtype_info[from].bits;
        return rounds ? (int)to : SEVERAL;
    }
    return node_class(n) == CLS_VIEW && n->nargs == 1 ? how : SEVERAL;
}

// -- one loop -------------------------------------------------------------------------------------

// How the body reads its values if its results are read as given. product: by id, whether a product
// reads it, through views and casts.
static void read_body(const Loop *l, int *how, bool *product)
{
    const Graph *g = l->body;
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) how[i] = NOBODY, product[i] = false;
    for (uint32_t i = 0; i < g->roots.n; i++) live[g->roots.at[i]->id] = true;
    for (uint32_t i = 0; i < g->results.n; i++) {
        int as = i >= l->ncarried ? l->result[i] : l->both[i] ? SEVERAL : l->param[i];
        if (i >= l->ncarried && as == NOBODY) continue;
        live[g->results.at[i]->id] = true;
        read_as(&how[g->results.at[i]->id], as);
    }
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; live[i] && k < n->nargs; k++) {
            uint32_t arg = n->args[k]->id;
            live[arg] = true;
            read_as(&how[arg], reads_as(n, how[i]));
            bool through = node_class(n) == CLS_VIEW || n->op == OP_cast;
            product[arg] |= node_class(n) == CLS_DOT || (through && product[i]);
        }
    }
}

// Whether n rounds carried value k; *to is set to the type.
static bool rounds(const Loop *l, const Node *n, uint32_t k, int *to)
{
    const bool of = n->op == OP_cast && n->args[0] == l->body->params.at[1 + k];
    *to = of ? reads_as(n, NOBODY) : SEVERAL;
    return *to >= 0;
}

// The type to which carried value k is rounded for a product; SEVERAL: none.
static int for_product(const Loop *l, const bool *product, uint32_t k)
{
    int to = SEVERAL;
    for (uint32_t i = 0; i < l->body->nodes.n; i++)
        if (product[i] && rounds(l, l->body->nodes.at[i], k, &to)) return to;
    return SEVERAL;
}

// Chooses which values the loop carries and scans rounded. scans: by scanned operand, whether its
// type may change. A carried value is assumed to be read only rounded until a reader in the body is
// found that reads it otherwise.
static void choose(Loop *l, const bool *scans)
{
    const Graph *g = l->body;
    int *how = NEW_ARRAY(g->arena, int, g->nodes.n + 1);
    bool *product = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t k = 0; k < l->n->nargs; k++) l->param[k] = k < l->ncarried ? NOBODY : SEVERAL;
    for (uint32_t k = 0; k < l->ncarried; k++) l->both[k] = false;
    for (bool changed = true; changed;) {
        changed = false;
        read_body(l, how, product);
        for (uint32_t k = 0; k < l->ncarried; k++) {
            int as = how[g->params.at[1 + k]->id];
            if (as == l->param[k] || l->both[k]) continue;
            l->param[k] = l->param[k] == NOBODY ? as : SEVERAL;
            changed = true;
        }
        for (uint32_t k = 0; k < l->ncarried && !changed; k++) {
            int as = l->param[k], to = SEVERAL;
            bool only = as == NOBODY || (as >= 0 && (l->result[k] == NOBODY || l->result[k] == as));
            if (only || l->both[k]) continue; // otherwise it is needed unrounded, too
            to = for_product(l, product, k);
            l->both[k] = to >= 0;
            l->param[k] = to;
            changed = to != as || l->both[k];
        }
    }
    read_body(l, how, product);
    for (uint32_t k = 0; k < l->nscanned; k++)
        if (scans[k]) l->param[l->ncarried + k] = how[g->params.at[1 + l->ncarried + k]->id];
    l->any = false;
    for (uint32_t k = 0; k < l->n->nargs; k++) {
        if (l->param[k] < 0) l->param[k] = SEVERAL;
        l->any |= l->param[k] != SEVERAL;
    }
    for (uint32_t i = l->ncarried; i < g->results.n; i++) l->any |= l->result[i] >= 0;
}

// -- the surrounding graph ------------------------------------------------------------------------

// Whether n is a result of a loop; sets *of to the loop.
static bool is_result(const Node *n, const Node **of, uint32_t *index)
{
    *of = node_has(n, OPF_RESULT) ? n->args[0] : n;
    *index = node_has(n, OPF_RESULT) ? (uint32_t)attr_int(n, ATTR_index, 0) : 0;
    return (*of)->op == OP_loop && (*of != n || node_result_count(n) == 1);
}

static Loop loop_of(const Casts *c, Node *n)
{
    Arena *a = c->g->arena;
    Loop l = {.n = n,
              .body = rebuilt(c->done, n->regions[0]),
              .ncarried = (uint32_t)attr_int(n, ATTR_carried, 0),
              .nscanned = (uint32_t)attr_int(n, ATTR_scanned, 0)};
    l.result = NEW_ARRAY(a, int, l.body->results.n + 1);
    l.param = NEW_ARRAY(a, int, n->nargs + 1);
    l.both = NEW_ARRAY(a, bool, l.ncarried + 1);
    for (uint32_t i = 0; i < l.body->results.n; i++) l.result[i] = NOBODY;
    return l;
}

// One traversal from the last node to the first, so that all readers of a loop are known when its
// types are chosen. kept: by id of a loop, which scanned operands keep their type.
static void sweep(Casts *c, bool *const *kept)
{
    const Graph *g = c->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        c->how[i] = NOBODY;
        if (g->nodes.at[i]->op == OP_loop) c->loop[i] = loop_of(c, g->nodes.at[i]);
    }
    for (uint32_t i = 0; i < g->results.n; i++) read_as(&c->how[g->results.at[i]->id], SEVERAL);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i], *of;
        uint32_t index;
        if (!c->live[i]) continue;
        Loop *l = &c->loop[i];
        if (is_result(n, &of, &index)) c->loop[of->id].result[index] = c->how[i];
        if (n->op == OP_loop) {
            bool *scans = NEW_ARRAY(g->arena, bool, l->nscanned + 1);
            for (uint32_t k = 0; k < l->nscanned; k++) scans[k] = !kept[i][k];
            choose(l, scans);
        }
        for (uint32_t k = 0; k < n->nargs && !node_has(n, OPF_RESULT); k++) {
            bool scanned = n->op == OP_loop && k >= l->ncarried && k < l->ncarried + l->nscanned;
            read_as(&c->how[n->args[k]->id], scanned ? l->param[k] : reads_as(n, c->how[i]));
        }
    }
}

// Whether n is, behind views, a stacked result whose type the choice changed.
static bool is_rounded(const Casts *c, const Node *n)
{
    const Node *of;
    uint32_t index;
    if (c->how[n->id] < 0) return false;
    while (node_class(n) == CLS_VIEW && n->nargs == 1) n = n->args[0];
    return is_result(n, &of, &index) && index >= c->loop[of->id].ncarried;
}

// Chooses for all loops of the graph. An operand that a loop scans is rounded only if another loop
// stacks it rounded, so that nothing is stored for it.
static bool choose_all(Casts *c)
{
    const Graph *g = c->g;
    bool **kept = NEW_ARRAY(g->arena, bool *, g->nodes.n + 1), any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_loop)
            kept[i] = NEW_ARRAY(g->arena, bool, g->nodes.at[i]->nargs + 1);
    for (bool again = true; again;) {
        again = any = false;
        sweep(c, kept);
        for (uint32_t i = 0; i < g->nodes.n; i++) {
            const Loop *l = &c->loop[i];
            if (!l->n || !c->live[i]) continue;
            any |= l->any;
            for (uint32_t k = 0; k < l->nscanned; k++) {
                const uint32_t at = l->ncarried + k;
                if (l->param[at] == SEVERAL || is_rounded(c, l->n->args[at])) continue;
                again = kept[i][k] = true;
            }
        }
    }
    return any;
}

// -- rebuilding -----------------------------------------------------------------------------------

static Node *rounded(Graph *g, Node *x, int to)
{
    double v;
    graph_stamp(g, x, x->name);
    if (!node_const_value(x, &v)) return graph_cast(g, x, (DType)to);
    Node like = *x; // (not a cast of a uniform value)
    like.type.dtype = (DType)to;
    return graph_full_like(g, &like, v);
}

// Builds the new body. args: operands of the new loop, *nargs of them.
static Graph *new_body(const Loop *l, Graph *dst, Node *const *map, Node **args, int *nargs)
{
    Graph *old = l->body, *body = graph_beside(old);
    Remap r = remap_begin(old, body);
    Node **twin = NEW_ARRAY(old->arena, Node *, l->ncarried + 1); // carried a second time, rounded
    *nargs = 0;
    graph_stamp(body, old->params.at[0], NULL);
    r.map[old->params.at[0]->id] = graph_region_param(body, &old->params.at[0]->type);
    for (uint32_t k = 0, more = 0; k < l->n->nargs || more < l->ncarried;) {
        // Order: carried values, those carried a second time, then the others.
        bool again = k >= l->ncarried && more < l->ncarried;
        uint32_t i = again ? more++ : k++;
        if (again && !l->both[i]) continue;
        const Node *p = old->params.at[1 + i];
        bool as_is = l->param[i] == SEVERAL || (i < l->ncarried && l->both[i] && !again);
        Type t = p->type;
        if (!as_is) t.dtype = (DType)l->param[i];
        graph_stamp(body, p, NULL);
        Node *in = graph_region_param(body, &t);
        if (!again) r.map[p->id] = in;
        if (again) twin[i] = in;
        for (uint32_t at = 0; at < old->nodes.n && again; at++) {
            int to;
            if (rounds(l, old->nodes.at[at], i, &to) && to == l->param[i]) r.map[at] = in;
        }
        if (!in->name) in->name = p->name;
        Node *arg = map[l->n->args[i]->id];
        args[(*nargs)++] = arg->type.dtype == t.dtype ? arg : rounded(dst, arg, (int)t.dtype);
    }
    bool *live = NEW_ARRAY(old->arena, bool, old->nodes.n + 1);
    graph_mark_live(old, live);
    for (uint32_t i = 0; i < old->nodes.n; i++)
        if (live[i]) remap_node(&r, old->nodes.at[i]);
    for (uint32_t i = 0; i < old->results.n; i++) {
        const Node *was = old->results.at[i];
        const uint32_t begins = was->op == OP_region_param
                                    ? (uint32_t)attr_int(was, ATTR_index, 0) - 1
                                    : UINT32_MAX; // of which carried value
        Node *y = r.map[was->id];
        int to = i < l->ncarried ? (l->both[i] ? SEVERAL : l->param[i]) : l->result[i];
        const bool second = begins < l->ncarried && twin[begins] && to == l->param[begins];
        vec_push(body->arena, &body->results,
                 second   ? twin[begins]
                 : to < 0 ? y
                          : rounded(body, y, to));
        for (uint32_t k = 0; i + 1 == l->ncarried && k < l->ncarried; k++)
            if (l->both[k]) {
                Node *x = r.map[old->results.at[k]->id];
                vec_push(body->arena, &body->results, rounded(body, x, l->param[k]));
            }
    }
    return graph_drop_dead(body);
}

// The loop in dst. result: by result of the old loop, its replacement.
static void rebuild(Graph *dst, const Loop *l, Node *const *map, Node **result)
{
    Node *n = l->n, **args = NEW_ARRAY(dst->arena, Node *, n->nargs + l->ncarried + 1);
    int nargs;
    Graph *body = new_body(l, dst, map, args, &nargs);
    uint32_t more = (uint32_t)nargs - n->nargs, carried = l->ncarried + more;
    Attrs at = attrs_copy(n->attrs);
    attr_set_int(&at, ATTR_carried, carried);
    graph_stamp(dst, n, n->name);
    Node *loop = graph_region_node(dst, OP_loop, args, nargs, &at, &body, 1);
    for (uint32_t i = 0; i < l->body->results.n; i++) {
        uint32_t k = i < l->ncarried ? i : i + more, first = carried;
        const Node *y = body->results.at[k];
        while (first < k && body->results.at[first] != y) first++;
        int64_t scanned = y->op == OP_region_param ? attr_int(y, ATTR_index, 0) - 1 : -1;
        if (k >= carried && scanned >= carried && scanned < carried + l->nscanned)
            result[i] = args[scanned];
        else
            result[i] = graph_result(dst, loop, (int)(k < carried ? k : first));
    }
}

static Graph *round_first(void *ctx, const IdMap *done, Graph *g)
{
    (void)ctx;
    bool loops = false, other = any_rebuilt(done, g);
    for (uint32_t i = 0; i < g->nodes.n; i++) loops |= g->nodes.at[i]->op == OP_loop;
    if (!loops && !other) return g;
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    Casts c = {done, g, live, NEW_ARRAY(g->arena, int, g->nodes.n + 1),
               NEW_ARRAY(g->arena, Loop, g->nodes.n + 1)};
    if (!choose_all(&c) && !other) return g;
    Graph *dst = graph_beside(g);
    Remap r = remap_begin(g, dst);
    Node ***result = NEW_ARRAY(g->arena, Node **, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!live[i]) continue; // (its operands may have another type now)
        if (c.loop[i].any) {
            result[i] = NEW_ARRAY(g->arena, Node *, c.loop[i].body->results.n + 1);
            rebuild(dst, &c.loop[i], r.map, result[i]);
            r.map[i] = result[i][0];
        } else if (node_has(n, OPF_RESULT) && result[n->args[0]->id]) {
            r.map[i] = result[n->args[0]->id][attr_int(n, ATTR_index, 0)];
        } else {
            remap_with_regions(&r, done, n, &other);
        }
    }
    return graph_drop_dead(remap_end(&r));
}

Graph *pass_loop_casts(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    (void)o;
    return over_regions(g, round_first, NULL);
}
