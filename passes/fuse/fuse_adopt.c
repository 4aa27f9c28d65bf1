// What a row kernel computes anyway is stored by it.
//
// In `s = x + g; y = layer_norm(s)` the sum s would be a map of its own, which reads what the row
// kernel would read instead of s: it is one more store of the kernel for y. Only where the value
// has all rows and columns of a reduction over the last axes, so that its elements are computed in
// memory order. Outputs have no readers, so this adds no dependence between groups; other values
// are taken over where all other readers come later than the row kernel (the next residual sum,
// the backward part).
#include "ir/axes.h"
#include "passes/fuse/fuse.h"

static bool takes_outputs(const Cluster *c)
{
    return c->kind == GROUP_ROW && c->trailing && c->open;
}

// The cluster (index + 1) that computes n; 0: its readers compute it, as for values of maps that
// are not stored.
static uint32_t computed_by(const Fuse *f, const Node *n)
{
    uint32_t c = fuse_cluster(f, n);
    return c && (f->mat[n->id] || f->clusters.at[c - 1].kind != GROUP_MAP) ? c : 0;
}

static bool is_stored_map(const Fuse *f, const Node *n)
{
    uint32_t c = computed_by(f, n);
    return c && f->clusters.at[c - 1].kind == GROUP_MAP && node_class(n) == CLS_ELEMENTWISE &&
           !f->late[n->id] && !f->becomes[n->id] && !f->checked[n->id];
}

// By id, of free values and maps: the row cluster (index + 1) that reads it element by element.
static uint32_t *find_readers(const Fuse *f)
{
    Graph *g = f->g;
    uint32_t *reader = NEW_ARRAY(f->a, uint32_t, g->nodes.n + 1);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        Node *n = g->nodes.at[i];
        if (!f->live[i]) continue;
        OpClass class = node_class(n);
        uint32_t c = computed_by(f, n);
        if (!c && !f->mat[i] && (class == CLS_ELEMENTWISE || node_keeps_all(n))) c = reader[i];
        if (!c || !takes_outputs(&f->clusters.at[c - 1])) continue;
        const Cluster *k = &f->clusters.at[c - 1];
        if (class != CLS_ELEMENTWISE && class != CLS_REDUCE && !node_keeps_all(n)) continue;
        for (uint32_t j = 0; j < n->nargs; j++) {
            const Node *a = n->args[j];
            bool is_free = !f->mat[a->id] && !computed_by(f, a);
            if (type_count(&a->type) == k->rows * k->cols && (is_free || is_stored_map(f, a)))
                reader[a->id] = c;
        }
    }
    return reader;
}

static void give_to(Fuse *f, const Node *n, uint32_t cluster)
{
    f->cluster[n->id] = cluster;
    f->pos[n->id] = POS_FULL;
    f->level[n->id] = f->clusters.at[cluster - 1].level;
}

// -- values with other readers --------------------------------------------------------------------

// The earliest kernel that reads a value, and the earliest level of all other readers.
typedef struct Readers {
    int32_t first, others;
    uint32_t cluster; // the first one, index + 1; 0: no cluster
} Readers;

static void add_reader(Readers *r, int32_t level, uint32_t cluster)
{
    if (cluster && cluster == r->cluster) return;
    if (level < r->first) {
        r->others = r->first;
        r->first = level;
        r->cluster = cluster;
    } else if (level < r->others) {
        r->others = level;
    }
}

static Readers *find_levels(const Fuse *f)
{
    Graph *g = f->g;
    Readers *r = NEW_ARRAY(f->a, Readers, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) r[i] = (Readers){INT32_MAX, INT32_MAX, 0};
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        Node *n = g->nodes.at[i];
        if (!f->live[i]) continue;
        const uint32_t c = computed_by(f, n);
        const bool computed = f->mat[i] || c || f->absorbed[i] || fuse_is_anchor(n) ||
                              node_has(n, OPF_RESULT) || node_class(n) == CLS_ROOT;
        for (uint32_t k = 0; k < n->nargs; k++) {
            Readers *a = &r[n->args[k]->id];
            if (computed) {
                add_reader(a, f->level[i], c);
            } else {
                add_reader(a, r[i].first, r[i].cluster);
                add_reader(a, r[i].others, 0);
            }
        }
    }
    return r;
}

// Whether n follows a product whose kernel includes elementwise code after it, or may include it if
// the runtime measures that this is faster (codegen/matmul/candidate.c).
static bool follows_taker(const Fuse *f, const Node *n)
{
    enum { MOST = 16 };
    Node *seen[MOST];
    int count = 0;
    for (uint32_t k = 0; k < n->nargs; k++) fuse_push_new(seen, &count, MOST, n->args[k]);
    for (int i = 0; i < count; i++) {
        const Node *x = seen[i];
        const Node *dot = f->absorbed[x->id] ? f->absorbed[x->id] : x;
        if (dot->op == OP_dot) {
            const DotSizes s = dot_sizes(dot);
            if (fuse_generated(f->options, dot) ||
                target_long_product(f->target, s.batch, s.m, s.n, s.k) ||
                target_few_rows(f->target, s.batch, s.m, s.n, s.k))
                return true;
        } else if (!f->mat[x->id]) {
            for (uint32_t k = 0; k < x->nargs; k++)
                if (!fuse_push_new(seen, &count, MOST, x->args[k])) return true;
        }
    }
    return false;
}

static void adopt_stored(Fuse *f, const uint32_t *reader)
{
    Graph *g = f->g;
    const Readers *levels = find_levels(f);
    uint32_t *members = NEW_ARRAY(f->a, uint32_t, f->clusters.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (f->live[i]) members[computed_by(f, g->nodes.at[i])]++;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const uint32_t c = reader[i];
        if (!f->live[i] || !c || !is_stored_map(f, n) || members[computed_by(f, n)] != 1) continue;
        const int32_t level = f->clusters.at[c - 1].level;
        // (a later kernel would keep the operands of n in memory until then)
        if (levels[i].cluster != c || levels[i].others <= level || f->level[i] + 1 < level)
            continue;
        if (!follows_taker(f, n)) give_to(f, n, c);
    }
}

void fuse_adopt(Fuse *f)
{
    Graph *g = f->g;
    const uint32_t *reader = find_readers(f);
    for (uint32_t i = 0; i < g->roots.n; i++) {
        Node *r = g->roots.at[i];
        const Node *a = r->args[0];
        if (r->op != OP_output || !f->live[r->id] || !f->mat[r->id] || f->cluster[r->id] ||
            !reader[a->id] || f->mat[a->id] || f->checked[a->id] ||
            node_class(a) != CLS_ELEMENTWISE)
            continue;
        give_to(f, r, reader[a->id]);
    }
    if (f->target && f->target->kind == TARGET_CUDA) adopt_stored(f, reader);
}
