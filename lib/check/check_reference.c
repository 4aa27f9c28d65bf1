// The evaluator's results for every entry, computed once for all variants that are compared with
// them. Each execution starts from cells that the evaluator knows, so that no result of a device is
// ever an operand.
#include <string.h>

#include "lib/check/check.h"
#include "lib/api/synthetic.h"
#include "ir/scalar.h"

// LATER_STEP: a step after the warm-up of a learning-rate schedule.
enum {
    LATER_STEP = 500,
    ALL_STEPS = 1000,
    EPOCH_STEPS = 10,
    MORE_EXAMPLES = 5,
    LARGER = 4,
    DISTURBED = 3
};

static Value *constant(Checking *c, const Type *t, double x)
{
    Value *v = NEW(c->arena, Value);
    *v = value_new(c->arena, t);
    for (int64_t k = 0; k < type_count(t); k++) {
        if (dtype_is_float(t->dtype))
            v->f[k] = scalar_round(t->dtype, x);
        else
            v->i[k] = (int64_t)x;
    }
    return v;
}

static StrMap first_cells(Checking *c, const Module *m)
{
    StrMap cells = strmap_new(c->arena);
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *cell = &m->cells.at[i];
        double x = !strcmp(cell->name, CELL_SEED)          ? (double)c->seed
                   : !strcmp(cell->name, CELL_TOTAL)       ? ALL_STEPS
                   : !strcmp(cell->name, CELL_EPOCH_STEPS) ? EPOCH_STEPS
                                                           : cell->initial;
        strmap_set(&cells, cell->name, constant(c, &cell->type, x));
    }
    return cells;
}

// The cells for an execution: new values for some, without error bounds.
static StrMap next_cells(Checking *c, const Module *m, const StrMap *cells, const StrMap *assigns,
                         bool parameters)
{
    StrMap out = strmap_new(c->arena);
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *cell = &m->cells.at[i];
        Value *v = strmap_get(cells, cell->name);
        const Value *next = strmap_get(assigns, cell->name);
        if (next && (parameters || cell->kind != CELL_PARAM)) {
            v = NEW(c->arena, Value);
            *v = *next;
            v->error[0] = v->error[1] = NULL;
        }
        strmap_set(&out, cell->name, v);
    }
    return out;
}

static void set_control(Checking *c, StrMap *cells, const char *name, double x)
{
    const Value *v = strmap_get(cells, name);
    if (v) strmap_set(cells, name, constant(c, &v->type, x));
}

// Gives cells that an entry writes but does not read other values, so that a missing write is
// noticed.
static void disturb(Checking *c, const Graph *g, StrMap *cells)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const char *name = n->op == OP_assign ? attr_str(n, ATTR_name) : NULL;
        const Value *v = name ? strmap_get(cells, name) : NULL;
        bool read = false;
        for (uint32_t k = 0; k < g->nodes.n; k++)
            read |= name && node_has(g->nodes.at[k], OPF_CELL) &&
                    !strcmp(attr_str(g->nodes.at[k], ATTR_name), name);
        if (v && !read) strmap_set(cells, name, constant(c, &v->type, DISTURBED));
    }
}

// Makes parameters larger, and different in every element, since init may leave them all zero or
// one.
static void enlarge(Checking *c, const Module *m, StrMap *cells)
{
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *cell = &m->cells.at[i];
        const Value *v = strmap_get(cells, cell->name);
        if (cell->kind != CELL_PARAM || !dtype_is_float(cell->type.dtype)) continue;
        Value *larger = constant(c, &cell->type, 0);
        for (int64_t k = 0; k < type_count(&cell->type); k++)
            larger->f[k] = LARGER * v->f[k] + (double)(k % 7 - 3) / 32;
        void *bytes = arena_alloc(c->arena, (size_t)type_bytes(&cell->type) + 1);
        value_to_bytes(larger, bytes);
        value_from_bytes(larger, bytes); // rounds to the cell's type
        strmap_set(cells, cell->name, larger);
    }
}

// Fills the row table with a random permutation of the examples, repeated.
static void draw_rows(Checking *c, Execution *x)
{
    x->examples = x->entry->batch + MORE_EXAMPLES;
    x->nrows = 3 * x->entry->batch;
    x->cursor = x->entry->cursor ? x->entry->batch : 0;
    x->rows = NEW_ARRAY(c->arena, int32_t, x->nrows + 1);
    int32_t *order = NEW_ARRAY(c->arena, int32_t, x->examples);
    for (int64_t i = 0; i < x->examples; i++) order[i] = (int32_t)i;
    for (int64_t i = x->examples - 1; i > 0; i--) {
        int64_t k = (int64_t)(hash_mix((uint64_t)i, (uint64_t)c->seed) % (uint64_t)(i + 1));
        int32_t t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (int64_t i = 0; i < x->nrows; i++) x->rows[i] = order[i % x->examples];
}

// Creates the values of an input: as they are bound, and (seen) as the entry reads them.
static void give_input(Checking *c, Execution *x, const Node *n, StrMap *seen)
{
    Given *g = NEW(c->arena, Given);
    bool by_rows = x->rows && node_is_data(n);
    int64_t row = n->type.rank ? type_bytes(&n->type) / (n->type.dim[0] ? n->type.dim[0] : 1) : 0;
    Type t = n->type;
    if (by_rows) t.dim[0] = x->examples;
    g->name = attr_str(n, ATTR_name);
    g->bytes = checking_data(c, n, &t, x->round);
    g->row_bytes = by_rows ? row : 0;
    strmap_set(&x->inputs, g->name, g);
    char *bytes = g->bytes;
    if (by_rows) {
        bytes = arena_alloc(c->arena, (size_t)type_bytes(&n->type) + 1);
        for (int64_t i = 0; i < n->type.dim[0]; i++)
            memcpy(bytes + i * row, g->bytes + x->rows[x->cursor + i] * row, (size_t)row);
    }
    Value *v = NEW(c->arena, Value);
    *v = value_new(c->arena, &n->type);
    value_from_bytes(v, bytes);
    strmap_set(seen, g->name, v);
}

static Value *copied(Arena *a, const Value *v)
{
    Value *y = NEW(a, Value);
    const size_t count = (size_t)type_count(&v->type);
    *y = value_new(a, &v->type);
    memcpy(y->f, v->f, count * sizeof *v->f);
    for (int side = 0; side < 2; side++) {
        if (!v->error[side]) continue;
        y->error[side] = NEW_ARRAY(a, double, count);
        memcpy(y->error[side], v->error[side], count * sizeof(double));
    }
    return y;
}

// The results alone outlive the evaluation, whose arena is emptied.
static StrMap kept_values(Arena *a, const StrMap *of)
{
    StrMap out = strmap_new(a);
    for (uint32_t i = 0; i < of->n; i++)
        strmap_set(&out, of->entry[i].key, copied(a, of->entry[i].value));
    return out;
}

// Evaluates the entry with [cells]. by_rows: it reads the second batch of a data set; otherwise its
// inputs are bound.
static Execution *evaluate(Checking *c, const Entry *entry, StrMap cells, CheckRound round,
                           bool by_rows)
{
    Graph *g = entry->graph;
    Execution *x = NEW(c->arena, Execution);
    *x =
        (Execution){.entry = entry, .inputs = strmap_new(c->arena), .cells = cells, .round = round};
    Arena *scratch = arena_inside(c->arena);
    EvalEnv env = {.arena = scratch,
                   .inputs = strmap_new(c->arena),
                   .bound = true,
                   .tf32 = c->p->settings.precision == PREC_TF32};
    if (by_rows) draw_rows(c, x);
    if (entry->cursor) set_control(c, &x->cells, entry->cursor, (double)x->cursor);
    env.cells = x->cells;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_input) give_input(c, x, g->nodes.at[i], &env.inputs);
    if (!eval_graph(g, &env, &x->want)) c->status = lib_fail_diags(c->err, NETC_INTERNAL, g->diags);
    x->want.outputs = kept_values(c->arena, &x->want.outputs);
    x->want.assigns = kept_values(c->arena, &x->want.assigns);
    arena_empty(scratch);
    return x;
}

// Keeps a later execution if it fails no assertion and is finite, or the first one is not finite,
// either.
static bool kept(Checking *c, Reference *out, const Execution *first, Execution *later)
{
    if (later->want.failed_assert) return false;
    if (later->want.first_nonfinite && !first->want.first_nonfinite) return false;
    vec_push(c->arena, out, later);
    return true;
}

static void evaluate_entry(Checking *c, const Module *m, const Entry *entry, const StrMap *begin,
                           Reference *out)
{
    StrMap none = strmap_new(c->arena);
    Execution *x = evaluate(c, entry, next_cells(c, m, begin, &none, true), ROUND_FIRST, false);
    vec_push(c->arena, out, x);
    bool stateless = !x->want.assigns.n && !entry->rows;
    for (CheckRound r = ROUND_UNEVEN; stateless && r <= ROUND_SMALL && c->status == NETC_OK; r++) {
        StrMap cells = next_cells(c, m, &x->cells, &none, true);
        enlarge(c, m, &cells);
        if (kept(c, out, x, evaluate(c, entry, cells, r, false))) break;
    }
    if (stateless) return;
    // States are mostly zeros at first, and results with these say little. A training step on
    // made-up data may give useless parameters, so parameters are enlarged instead, which makes
    // gradients larger, too, unless this fails.
    for (int larger = 1; larger >= 0 && c->status == NETC_OK; larger--) {
        StrMap moved = next_cells(c, m, &x->cells, &x->want.assigns, false);
        if (larger) enlarge(c, m, &moved);
        if (entry->kind == ENTRY_TRAIN) set_control(c, &moved, CELL_STEP, LATER_STEP);
        if (kept(c, out, x, evaluate(c, entry, moved, ROUND_MOVED, entry->rows))) return;
    }
}

Reference *check_reference(Checking *c, const Module *m)
{
    Reference *r = NEW(c->arena, Reference);
    StrMap cells = first_cells(c, m);
    for (uint32_t i = 0; i < m->entries.n && c->status == NETC_OK; i++) {
        const Entry *entry = &m->entries.at[i];
        if (entry->kind != ENTRY_INIT) continue;
        disturb(c, entry->graph, &cells);
        Execution *x = evaluate(c, entry, cells, ROUND_FIRST, false);
        vec_push(c->arena, r, x);
        cells = next_cells(c, m, &x->cells, &x->want.assigns, true);
    }
    for (uint32_t i = 0; i < m->entries.n && c->status == NETC_OK; i++)
        if (m->entries.at[i].kind != ENTRY_INIT) evaluate_entry(c, m, &m->entries.at[i], &cells, r);
    return r;
}
