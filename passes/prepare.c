// Values that an inference entry computes from parameters alone are computed once, not in every
// execution: weights cast to a matmul's 16-bit operands, or in the order in which they are read.
// They become cells that an entry of their own assigns; the runtime runs it when a cell it reads
// has changed since (runtime/exec/exec_prepare.c).
//
// Models only: in training, parameters change with every step. Only large values, none larger than
// the cells it is computed from, so that at most the memory of these is taken again; under a memory
// limit none at all.
//
// Requires: precision chosen, gradients expanded; the passes that match products have run. Keeps:
// every value to the bit. Breaks: later passes see cells in place of these computations.
#include <string.h>

#include "ir/door.h"
#include "passes/prepare.h"

enum { LEAST_BYTES = 1 << 16, MOST_BELOW = 256 };

static bool *written_cells(const Module *m, const Graph *g)
{
    bool *written = NEW_ARRAY(m->arena, bool, m->cells.n + 1);
    for (uint32_t i = 0; i < g->roots.n; i++) {
        const Node *root = g->roots.at[i];
        const Cell *c = root->op == OP_assign ? module_cell(m, attr_str(root, ATTR_name)) : NULL;
        if (c) written[c - m->cells.at] = true;
    }
    return written;
}

static bool lasts(const Module *m, const bool *written, const Node *leaf)
{
    if (node_has(leaf, OPF_LITERAL)) return true;
    if (node_has(leaf, OPF_MADE)) return !node_has(leaf, OPF_DRAWN);
    const Cell *c = node_has(leaf, OPF_CELL) ? module_cell(m, attr_str(leaf, ATTR_name)) : NULL;
    return c && !written[c - m->cells.at] &&
           (c->kind == CELL_PARAM || c->kind == CELL_STATE || c->kind == CELL_SETTING);
}

bool *prepare_finds(const Module *m, const Entry *e, const PassOptions *o)
{
    if (e->kind != ENTRY_MODEL || o->memory_limit || pass_skipped(o, "prepare")) return NULL;
    const Graph *g = e->graph;
    bool *found = NEW_ARRAY(m->arena, bool, g->nodes.n + 1), *written = written_cells(m, g);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        OpClass c = node_class(n);
        found[i] = c == CLS_LEAF
                       ? lasts(m, written, n)
                       : c == CLS_ELEMENTWISE || c == CLS_VIEW || c == CLS_REDUCE || c == CLS_DOT;
        for (uint32_t k = 0; k < n->nargs; k++) found[i] &= found[n->args[k]->id];
    }
    return found;
}

// The smallest value from which readers compute n for free (by a cast, a reshape, a broadcast): its
// bytes are what a reader loads.
static const Node *narrowest(const Node *n)
{
    const Node *best = n;
    while (n->op == OP_cast || n->op == OP_reshape || n->op == OP_broadcast) {
        n = n->args[0];
        if (type_bytes(&n->type) < type_bytes(&best->type)) best = n;
    }
    return best;
}

static bool is_view_of_leaf(const Node *n)
{
    while (node_class(n) == CLS_VIEW && n->nargs == 1) n = n->args[0];
    return node_class(n) == CLS_LEAF;
}

// Bytes of the cells from which n is computed; 0: too many nodes to look at.
static int64_t bytes_below(const Node *n)
{
    const Node *seen[MOST_BELOW];
    int count = 0;
    int64_t bytes = 0;
    seen[count++] = n;
    for (int i = 0; i < count; i++) {
        if (node_has(seen[i], OPF_CELL)) bytes += type_bytes(&seen[i]->type);
        for (uint32_t k = 0; k < seen[i]->nargs; k++) {
            bool known = false;
            for (int j = 0; j < count && !known; j++) known = seen[j] == seen[i]->args[k];
            if (known) continue;
            if (count == MOST_BELOW) return 0;
            seen[count++] = seen[i]->args[k];
        }
    }
    return bytes;
}

static bool pays(const Node *n)
{
    return !is_view_of_leaf(n) && type_bytes(&n->type) >= LEAST_BYTES &&
           type_bytes(&n->type) <= bytes_below(n);
}

// chosen: by id, the values to prepare. false: there are none.
static bool choose(const Graph *g, const bool *found, bool *chosen)
{
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), any = false;
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (!live[i] || found[i] || node_class(n) == CLS_ROOT) continue;
        for (uint32_t k = 0; k < n->nargs; k++) {
            const Node *a = found[n->args[k]->id] ? narrowest(n->args[k]) : NULL;
            if (!a || chosen[a->id] || !pays(a)) continue;
            chosen[a->id] = any = true;
        }
    }
    return any;
}

// The name of the cell for a value: the same in every entry that reads it.
static const char *cell_name(Module *m, const Graph *g, const Node *n, uint64_t *hash)
{
    uint32_t i = n->id + 1; // begins with the first node without a hash
    while (i > 0 && !hash[i - 1]) i--;
    for (; i <= n->id; i++) {
        const Node *x = g->nodes.at[i];
        uint64_t h = hash_mix(hash_str(op_info(x->op)->name), (uint64_t)x->type.dtype);
        for (uint32_t k = 0; k < x->nargs; k++) h = hash_mix(h, hash[x->args[k]->id]);
        hash[i] = attrs_hash(x->attrs, h) | 1;
    }
    return arena_printf(m->arena, CELL_PREPARED_PREFIX "%016llx", (unsigned long long)hash[n->id]);
}

static void add_entry(Module *m, const Entry *e, Graph *g)
{
    Entry prepare = {.name = arena_printf(m->arena, ENTRY_PREPARE_PREFIX "%s", e->name),
                     .kind = ENTRY_INIT,
                     .graph = g,
                     .dims = e->dims,
                     .batch = 1,
                     .loc = e->loc};
    vec_push(m->arena, &m->entries, prepare);
}

// Assigns the chosen values to cells in an entry of its own; the new graph reads those cells
// instead.
static Graph *prepare(Module *m, const Entry *e, const bool *chosen)
{
    Graph *g = e->graph, *dst = graph_beside(g), *before = graph_inside(g);
    Remap to = remap_begin(g, dst), first = remap_begin(g, before);
    uint64_t *hash = NEW_ARRAY(g->arena, uint64_t, g->nodes.n + 1);
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!live[i]) continue;
        if (!chosen[i]) {
            remap_node(&to, n);
            continue;
        }
        const char *name = cell_name(m, g, n, hash);
        if (!module_cell(m, name))
            module_add_cell(
                m, &(Cell){.name = name, .kind = CELL_PREPARED, .type = n->type, .loc = n->loc});
        graph_stamp(dst, n, n->name);
        to.map[i] = graph_leaf_cell(dst, OP_state, name, &n->type);
    }
    remap_end(&to);
    bool *below = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        below[i] |= chosen[i] && live[i];
        for (uint32_t k = 0; below[i] && k < g->nodes.at[i]->nargs; k++)
            below[g->nodes.at[i]->args[k]->id] = true;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (below[i]) remap_node(&first, g->nodes.at[i]);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (!chosen[i] || !live[i]) continue;
        graph_stamp(before, g->nodes.at[i], NULL);
        graph_root(before, OP_assign, first.map[i], cell_name(m, g, g->nodes.at[i], hash));
    }
    before->loc = 0;
    before->role = ROLE_FORWARD;
    Graph *prepared = graph_drop_dead(before), *rest = graph_drop_dead(dst);
    add_entry(m, e, prepared);
    return rest;
}

Graph *pass_prepare(Graph *g, Module *m, const PassOptions *o)
{
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Entry *e = &m->entries.at[i];
        if (e->graph != g) continue;
        bool *found = prepare_finds(m, e, o);
        bool *chosen = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
        return found && choose(g, found, chosen) ? prepare(m, e, chosen) : g;
    }
    return g;
}
