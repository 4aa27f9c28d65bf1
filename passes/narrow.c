// A scratch state whose values are only read rounded to 16 bits is stored in 16 bits: it is rounded
// when it is written instead of when it is read. A key-value cache takes half the memory and half
// the bandwidth.
//
// Between the state and the roundings only ops that copy elements are allowed (views, OPF_COPIES).
// A checkpoint has the types that the model declares, so only scratch states change, and all
// entries of the module have to agree.
//
// Requires: precision chosen. Keeps: every value but the state itself to the bit. Breaks: nothing.
#include <string.h>

#include "ir/scalar.h"
#include "passes/passes.h"

// Whether elements of operand k become elements of n; other operands are conditions and indices.
static bool copies(const Node *n, uint32_t k)
{
    return (node_class(n) == CLS_VIEW || node_has(n, OPF_COPIES)) &&
           n->args[k]->type.dtype == n->type.dtype;
}

typedef struct Narrow {
    const Module *m;
    DType low;
    bool *cell;  // by cell: still a candidate
    bool *read;  // by cell: a reader rounds it
    bool *holds; // by id in the current graph: has elements of candidates
} Narrow;

static int64_t cell_of(const Narrow *w, const Node *n, bool leaf)
{
    bool names = leaf ? n->op == OP_state : n->op == OP_assign;
    const Cell *c = names ? module_cell(w->m, attr_str(n, ATTR_name)) : NULL;
    return c ? c - w->m->cells.at : -1;
}

static void mark_holders(Narrow *w, const Graph *g)
{
    w->holds = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        int64_t c = cell_of(w, n, true);
        w->holds[i] = c >= 0 && w->cell[c];
        for (uint32_t k = 0; k < n->nargs && !n->nregions; k++)
            w->holds[i] |= n->type.dtype == DT_F32 && copies(n, k) && w->holds[n->args[k]->id];
    }
}

// Sets of[cell] to [value] for every candidate that n has elements of. Returns whether any entry
// changed.
static bool mark_cells(const Narrow *w, const Graph *g, const Node *n, bool *of, bool value)
{
    bool *seen = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), any = false;
    seen[n->id] = true;
    for (uint32_t i = n->id + 1; i-- > 0;) {
        const Node *x = g->nodes.at[i];
        if (!seen[i] || !w->holds[i]) continue;
        int64_t c = cell_of(w, x, true);
        if (c >= 0) {
            any |= of[c] != value;
            of[c] = value;
        }
        for (uint32_t k = 0; k < x->nargs; k++) seen[x->args[k]->id] |= copies(x, k);
    }
    return any;
}

// Removes the candidates that this graph reads or writes unrounded. Returns whether there were any.
static bool look(Narrow *w, const Graph *g)
{
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), changed = false;
    graph_mark_live(g, live);
    mark_holders(w, g);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        int64_t target = cell_of(w, n, false);
        for (uint32_t k = 0; live[i] && k < n->nargs; k++) {
            const Node *a = n->args[k];
            if (!w->holds[a->id]) continue;
            bool rounds = n->op == OP_cast && n->type.dtype == w->low;
            bool kept = target >= 0 ? w->cell[target] : w->holds[i] && copies(n, k);
            if (rounds) mark_cells(w, g, a, w->read, true);
            if (!rounds && !kept) changed |= mark_cells(w, g, a, w->cell, false);
        }
    }
    return changed;
}

static bool fits(const Cell *c, DType low)
{
    return c->kind == CELL_SCRATCH && c->type.dtype == DT_F32 && *c->name != '@' &&
           scalar_round(low, c->initial) == c->initial;
}

// Chooses the states that are stored in the low type and changes the types of their cells.
static void choose(Module *m, DType low)
{
    Narrow w = {.m = m,
                .low = low,
                .cell = NEW_ARRAY(m->arena, bool, m->cells.n + 1),
                .read = NEW_ARRAY(m->arena, bool, m->cells.n + 1)};
    bool any = false;
    for (uint32_t i = 0; i < m->cells.n; i++) any |= w.cell[i] = fits(&m->cells.at[i], low);
    for (bool again = any; again;) {
        again = false;
        memset(w.read, 0, (m->cells.n + 1) * sizeof *w.read);
        for (uint32_t i = 0; i < m->entries.n; i++) again |= look(&w, m->entries.at[i].graph);
        for (uint32_t i = 0; i < m->cells.n && !again; i++) // unread ones gain nothing
            if (w.cell[i] && !w.read[i]) again = true, w.cell[i] = false;
    }
    for (uint32_t i = 0; i < m->cells.n; i++)
        if (w.cell[i]) m->cells.at[i].type.dtype = low;
}

static bool is_narrow(const Module *m, const Node *n, bool leaf)
{
    Narrow w = {.m = m};
    int64_t c = cell_of(&w, n, leaf);
    if (c < 0 || m->cells.at[c].kind != CELL_SCRATCH) return false;
    return m->cells.at[c].type.dtype != (leaf ? n->type.dtype : n->args[0]->type.dtype);
}

static Graph *rewrite(Graph *g, const Module *m, DType low)
{
    bool *narrow = NEW_ARRAY(g->arena, bool, g->nodes.n + 1), any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        narrow[i] = is_narrow(m, n, true);
        for (uint32_t k = 0; k < n->nargs && !n->nregions; k++)
            narrow[i] |= n->type.dtype == DT_F32 && copies(n, k) && narrow[n->args[k]->id];
        any |= narrow[i] || is_narrow(m, n, false);
    }
    if (!any) return g;
    Graph *dst = graph_beside(g);
    Remap r = remap_begin(g, dst);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        bool root = is_narrow(m, n, false);
        bool rounds = n->op == OP_cast && n->type.dtype == low && narrow[n->args[0]->id];
        if (rounds) r.map[i] = r.map[n->args[0]->id]; // has the low type already
        if (rounds || (!narrow[i] && !root)) {
            remap_node(&r, n);
            continue;
        }
        Attrs at = attrs_copy(n->attrs);
        Node **args = NEW_ARRAY(dst->arena, Node *, n->nargs + 1);
        for (uint32_t k = 0; k < n->nargs; k++) {
            args[k] = r.map[n->args[k]->id];
            graph_stamp(dst, n, NULL);
            if (root || copies(n, k)) args[k] = graph_cast(dst, args[k], low);
        }
        if (n->op == OP_state) attr_set_int(&at, ATTR_dtype, low);
        graph_stamp(dst, n, n->name);
        r.map[i] = graph_node(dst, n->op, args, (int)n->nargs, &at);
    }
    return remap_end(&r);
}

Graph *pass_narrow(Graph *g, Module *m, const PassOptions *o)
{
    if (o->precision == PREC_F32 || o->precision == PREC_TF32) return g;
    DType low = o->precision == PREC_F16 ? DT_F16 : DT_BF16;
    if (m->entries.n && m->entries.at[0].graph == g) choose(m, low); // once for all entries
    return rewrite(g, m, low);
}
