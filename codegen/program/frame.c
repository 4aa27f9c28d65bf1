// Turns one graph into steps: makes items from the fused launches, orders them, and binds each
// item's kernels to buffers. A value is updated in place if that is proved safe here: every other
// read of the old value comes before, the kernel itself reads only the element that it then writes,
// and no check comes after.
#include "codegen/program/gen.h"
#include "ir/loop.h"

#include <string.h>

int64_t node_bytes(const Node *n)
{
    int64_t bytes = 0;
    int results = node_result_count(n);
    for (int i = 0; i < results; i++) {
        Type t = node_result_type(n, i);
        bytes += type_bytes(&t);
    }
    return bytes;
}

Frame *frame_new(GenEntry *e, Graph *g, int depth)
{
    Arena *a = e->gen->arena;
    Frame *f = NEW(a, Frame);
    f->e = e;
    f->g = g;
    f->depth = depth;
    f->cursor = -1;
    f->place = NEW_ARRAY(a, ProgArg, g->nodes.n + 1);
    f->results = NEW_ARRAY(a, ProgArg *, g->nodes.n + 1);
    f->commits = NEW_ARRAY(a, uint8_t, g->nodes.n + 1);
    f->begun = NEW_ARRAY(a, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) f->place[i].kind = (ProgArgKind)PLACE_NONE;
    return f;
}

// Creates a constant with all elements of a const node.
static int32_t const_place(Frame *f, const Node *n)
{
    GenEntry *e = f->e;
    Value v = value_new(e->gen->arena, &n->type);
    value_from_const(&v, n);
    return gen_const(e, &v, n->name ? n->name : "const", loc_text(e->gen->diags, n->loc));
}

// The memory of a node; PLACE_NONE if it has none.
static ProgArg frame_where(Frame *f, const Node *n)
{
    if (node_has(n, OPF_RESULT)) {
        const Node *from = n->args[0];
        ProgArg *r = f->results[from->id];
        if (r) return r[attr_int(n, ATTR_index, 0)];
    } else if (node_class(n) == CLS_REGION && f->results[n->id]) {
        return f->results[n->id][0];
    } else if (node_has(n, OPF_LITERAL) && (int)f->place[n->id].kind == PLACE_NONE) {
        f->place[n->id] = gen_arg(const_place(f, n));
    }
    return f->place[n->id];
}

ProgArg frame_memory(Frame *f, const Node *n)
{
    ProgArg p = frame_where(f, n);
    if ((int)p.kind != PA_LOOP_INDEX) return p;
    // In the loop at depth d, iteration i reads element i of 0, 1, 2, ... The place stays what it
    // is: kernels take the number itself.
    if (f->counter.stride[p.index]) return f->counter;
    Type t = type_make(DT_I64, 1, &p.value); // the trip count, kept in value
    Value v = value_new(f->e->gen->arena, &t);
    for (int64_t i = 0; i < p.value; i++) v.i[i] = i;
    ProgArg q = gen_arg(gen_const(f->e, &v, "iteration", ""));
    q.stride[p.index] = (int64_t)sizeof(int64_t);
    return f->counter = q;
}

void frame_sink(Frame *f, Sink s)
{
    s.item = UINT32_MAX;
    vec_push(f->e->gen->arena, &f->sinks, s);
}

static bool is_stored(const Frame *f, const Node *n)
{
    return f->g->fusion->group_of[n->id] != 0;
}

static const Node *owner(const Node *n) // the node that computes a value: for a `get`, the region
                                        // op
{
    return node_has(n, OPF_RESULT) ? n->args[0] : n;
}

// Whether it is a result of a loop. (Results of a call are stored by its kernel.)
static bool of_loop(const Node *n)
{
    return owner(n)->op == OP_loop && !runs_as_kernel(owner(n));
}

bool frame_assembles(const Frame *f, const Node *n)
{
    uint32_t at = f->g->fusion->group_of[n->id];
    return at && f->g->fusion->groups.at[at - 1].assembled;
}

// -- items ----------------------------------------------------------------------------------------

typedef struct Walk {
    Frame *f;
    uint32_t *seen; // by node id: mark of the traversal
    uint32_t stamp;
    VEC(const Node *) stack;
} Walk;

static void visit(Walk *w, const Node *n)
{
    if (w->seen[n->id] == w->stamp) return;
    w->seen[n->id] = w->stamp;
    vec_push(w->f->e->gen->arena, &w->stack, n);
}

bool region_checks(Arena *a, const Node *region_op)
{
    VEC(const Node *) work = {0};
    vec_push(a, &work, region_op);
    while (work.n) {
        const Node *op = work.at[--work.n];
        for (uint32_t k = 0; k < op->nregions; k++)
            for (uint32_t i = 0; i < op->regions[k]->nodes.n; i++) {
                const Node *n = op->regions[k]->nodes.at[i];
                if ((node_class(n) == CLS_INDEX && n->op != OP_repair) || node_has(n, OPF_EFFECT))
                    return true;
                if (n->nregions) vec_push(a, &work, n);
            }
    }
    return false;
}

// Collects everything that a group reads: traverses from what it stores to stored nodes and leaves.
static void group_reads(Walk *w, Item *it, const Group *gr)
{
    Frame *f = w->f;
    Arena *a = f->e->gen->arena;
    const Entry *entry = f->e->entry;
    w->stamp++;
    w->stack.n = 0;
    for (uint32_t i = 0; i < gr->outs.n; i++) visit(w, gr->outs.at[i]);
    if (gr->anchor) visit(w, gr->anchor);
    while (w->stack.n) {
        const Node *n = w->stack.at[--w->stack.n];
        const Node *o = owner(n);
        bool own =
            f->g->fusion->group_of[n->id] == gr->id + 1 || o == gr->anchor || group_computes(gr, n);
        if (!own && (is_stored(f, n) || node_class(o) == CLS_REGION)) {
            vec_push(a, &it->uses, o->id);
            continue;
        }
        if (node_has(n, OPF_MEMORY)) {
            vec_push(a, &it->leaves, n->id);
            if (node_is_data(n) && entry->rows) it->reads_cursor = true;
        }
        if (node_has(n, OPF_RESULT))
            visit(w, n->args[0]);
        else
            for (uint32_t i = 0; i < n->nargs; i++) visit(w, n->args[i]);
    }
    if (gr->kind == GROUP_LOOP && region_checks(a, gr->anchor)) it->checks = true;
}

static void unique(Ids *v, uint32_t *mark, uint32_t stamp)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++)
        if (mark[v->at[i]] != stamp) {
            mark[v->at[i]] = stamp;
            v->at[n++] = v->at[i];
        }
    v->n = n;
}

static bool make_items(Frame *f)
{
    Arena *a = f->e->gen->arena;
    const Fusion *fusion = f->g->fusion;
    uint32_t *item_of = NEW_ARRAY(a, uint32_t, fusion->launches + 1); // by launch: item + 1
    Walk w = {.f = f, .seen = NEW_ARRAY(a, uint32_t, f->g->nodes.n + 1)};
    for (uint32_t i = 0; i < fusion->groups.n; i++) { // in program order
        Group *gr = &fusion->groups.at[i];
        if (gr->launch >= fusion->launches) {
            gen_internal(f->e->gen, f->g->loc, "a group without a launch");
            return false;
        }
        if (!item_of[gr->launch] || f->e->gen->options->no_side_by_side) {
            Item it = {.sink = -1};
            vec_push(a, &f->items, it);
            item_of[gr->launch] = f->items.n;
        }
        Item *it = &f->items.at[item_of[gr->launch] - 1];
        vec_push(a, &it->groups, gr);
        for (uint32_t k = 0; k < gr->outs.n; k++) vec_push(a, &it->defs, owner(gr->outs.at[k])->id);
        if (gr->kind == GROUP_LOOP) vec_push(a, &it->defs, gr->anchor->id);
        group_reads(&w, it, gr);
    }
    uint32_t *mark = NEW_ARRAY(a, uint32_t, f->g->nodes.n + 1), stamp = 0;
    uint32_t *producer = NEW_ARRAY(a, uint32_t, f->g->nodes.n + 1); // by node id: item + 1
    for (uint32_t i = 0; i < f->items.n; i++) {
        Item *it = &f->items.at[i];
        unique(&it->defs, mark, ++stamp);
        unique(&it->uses, mark, ++stamp);
        unique(&it->leaves, mark, ++stamp);
        for (uint32_t k = 0; k < it->defs.n; k++) producer[it->defs.at[k]] = i + 1;
    }
    for (uint32_t k = 0; k < f->sinks.n; k++) {
        Sink *s = &f->sinks.at[k];
        if (s->root && is_stored(f, s->root))
            s->stored = s->root;
        else if (is_stored(f, s->value) && !of_loop(s->value))
            s->stored = s->value;
        if (s->stored) {
            s->item = producer[owner(s->stored)->id] - 1;
            vec_push(a, &f->items.at[s->item].sinks, k);
            continue;
        }
        Item it = {.sink = (int32_t)k}; // copies a leaf or a result of a loop
        const Node *o = owner(s->value);
        if (node_class(o) == CLS_REGION || is_stored(f, o))
            vec_push(a, &it.uses, o->id);
        else if (node_class(o) == CLS_LEAF)
            vec_push(a, &it.leaves, o->id);
        else {
            gen_internal(f->e->gen, s->value->loc, "a result that no kernel stores");
            return false;
        }
        vec_push(a, &f->items, it);
    }
    return true;
}

// -- where values are stored ----------------------------------------------------------------------

static bool same_place(const ProgArg *a, const ProgArg *b)
{
    return a->kind == b->kind && a->index == b->index && (int)a->kind == PA_BUFFER;
}

// By buffer: 1 + the last position at which an item reads it as a leaf, that is, its old value.
static uint32_t *last_reads(Frame *f)
{
    uint32_t *last = NEW_ARRAY(f->e->gen->arena, uint32_t, f->e->buffers.n + 1);
    for (uint32_t i = 0; i < f->items.n; i++) {
        const Item *it = &f->items.at[i];
        for (uint32_t k = 0; k < it->leaves.n; k++) {
            const ProgArg *p = &f->place[it->leaves.at[k]];
            if ((int)p->kind == PA_BUFFER && last[p->index] <= it->position)
                last[p->index] = it->position + 1;
        }
        if (it->reads_cursor && f->cursor >= 0 && last[f->cursor] <= it->position)
            last[f->cursor] = it->position + 1;
    }
    return last;
}

static bool reads_leaf(const Frame *f, const Item *it, const ProgArg *target)
{
    for (uint32_t k = 0; k < it->leaves.n; k++)
        if (same_place(&f->place[it->leaves.at[k]], target)) return true;
    return it->reads_cursor && target->index == f->cursor;
}

// Whether the item is lowered to kernels (not a library call or a loop).
static bool is_lowered(Frame *f, const Item *it)
{
    const Group *gr = it->groups.at[0];
    if (gr->kind == GROUP_LOOP || (gr->anchor && gr->anchor->op == OP_exchange)) return false;
    const GemmFrom from = frame_gemms(f);
    return !(it->groups.n == 1 && gr->kind == GROUP_DOT && gemm_possible(&from, gr));
}

static const char *value_name(const Node *n)
{
    return n->name ? n->name : op_info(n->op)->name;
}

// User-written kernels do not read the error record and need aligned outputs, so a value for a
// cell, or for an unaligned slice, is stored elsewhere and copied.
static bool needs_copy(const Frame *f, const Item *it, const Sink *s)
{
    const Node *anchor = it->groups.at[0]->anchor;
    if (!anchor || anchor->op != OP_extern) return false;
    return s->commit || (f->depth > 0 && type_bytes(&s->value->type) % 16);
}

// Chooses the memory for each value that the item stores.
static void choose_places(Frame *f, const Item *it, const uint32_t *last, uint32_t last_check)
{
    bool lowered = it->lowered;
    for (uint32_t k = 0; k < it->sinks.n; k++) {
        Sink *s = &f->sinks.at[it->sinks.at[k]];
        ProgArg *at = &f->place[s->stored->id];
        if (!s->commit || (int)at->kind != PLACE_NONE || needs_copy(f, it, s)) continue;
        // A library call does not read the error record, and may read its operands in any order.
        if (!lowered && (reads_leaf(f, it, &s->target) || (s->cell && last_check != UINT32_MAX)))
            continue;
        if (s->cell && last_check != UINT32_MAX && it->position <= last_check) continue;
        if (last[s->target.index] > it->position + 1) continue;
        *at = s->target;
        s->in_place = s->done = true;
    }
    for (uint32_t k = 0; k < it->sinks.n; k++) {
        Sink *s = &f->sinks.at[it->sinks.at[k]];
        ProgArg *at = &f->place[s->stored->id];
        if (s->commit || (int)at->kind != PLACE_NONE || needs_copy(f, it, s)) continue;
        *at = s->target;
        s->done = true;
    }
    for (uint32_t i = 0; i < it->groups.n; i++) {
        const Group *gr = it->groups.at[i];
        for (uint32_t k = 0; k < gr->outs.n; k++) {
            const Node *n = gr->outs.at[k];
            if (node_has(n, OPF_EFFECT) || of_loop(n)) continue;
            if (gr->parts && gr->parts[k].whole) n = gr->parts[k].whole;
            if ((int)f->place[n->id].kind == PLACE_NONE)
                f->place[n->id] = gen_temp(f->e, &n->type, value_name(n), n->loc);
        }
    }
}

// -- kernels --------------------------------------------------------------------------------------

void frame_copies(Frame *f, Sink *s)
{
    s->in_place = s->done = false;
    f->place[s->stored->id] =
        gen_temp(f->e, &s->stored->type, value_name(s->stored), s->stored->loc);
}

// A kernel may write a cell that it reads only if each element is first read by the thread that
// writes it. Otherwise the item's in-place sinks get a temporary.
static void withdraw_updates(Frame *f, const Item *it, const LoweredKernel *ks, int n)
{
    Arena *a = f->e->gen->arena;
    IdMap by_node = idmap_new(a), by_buffer = idmap_new(a); // to the index in it->sinks
    struct {
        int kernel, arg;
        bool unsafe;
    } *w = arena_array(a, it->sinks.n + 1, sizeof *w);
    for (uint32_t j = 0; j < it->sinks.n; j++) {
        const Sink *s = &f->sinks.at[it->sinks.at[j]];
        w[j].kernel = -1;
        if (!s->in_place) continue;
        idmap_set(&by_node, s->stored->id, j);
        idmap_set(&by_buffer, (uint64_t)s->target.index, j);
    }
    uint64_t j;
    for (int k = 0; k < n && by_node.n; k++) {
        const KernelArg *args = ks[k].args;
        for (int i = 0; i < ks[k].nargs; i++)
            if (args[i].kind == KA_NODE && args[i].written &&
                idmap_get(&by_node, args[i].node->id, &j))
                w[j].kernel = k, w[j].arg = i;
        for (int i = 0; i < ks[k].nargs; i++) {
            uint64_t buffer = (uint64_t)f->cursor;
            if (args[i].kind != KA_CURSOR) {
                if (args[i].kind != KA_NODE || args[i].written) continue;
                if (idmap_get(&by_node, args[i].node->id, NULL)) continue; // reads the new value
                ProgArg p = frame_where(f, args[i].node);
                if ((int)p.kind != PA_BUFFER) continue;
                buffer = (uint64_t)p.index;
            }
            if (!idmap_get(&by_buffer, buffer, &j) || w[j].kernel < 0) continue;
            bool own = w[j].kernel == k && args[i].kind == KA_NODE && args[i].same_as >= 0 &&
                       args[i].same_as == args[w[j].arg].same_as;
            if (!own) w[j].unsafe = true;
        }
    }
    for (uint32_t i = 0; i < it->sinks.n; i++) {
        if (w[i].unsafe) frame_copies(f, &f->sinks.at[it->sinks.at[i]]);
    }
}

bool frame_bind(Frame *f, const KernelArg *a, ProgArg *out, IdMap *scratch)
{
    GenEntry *e = f->e;
    uint64_t at;
    switch (a->kind) {
    case KA_NODE:
        *out = frame_memory(f, a->node);
        if (a->written && frame_assembles(f, a->node)) {
            out->joins = f->begun[a->node->id];
            f->begun[a->node->id] = true;
        }
        break;
    case KA_ERROR:
        if (!e->error_buffer)
            e->error_buffer = gen_buffer(e, PR_ERROR, 0, sizeof(ProgError), NULL, "error", "") + 1;
        *out = gen_arg(e->error_buffer - 1);
        e->checked = e->checked || a->written;
        break;
    case KA_ROWS:
        if (!e->rows_buffer) {
            Type t = type_scalar(DT_I32);
            e->rows_buffer = gen_buffer(e, PR_ROWS, 0, 0, &t, "rows", "") + 1;
        }
        *out = gen_arg(e->rows_buffer - 1);
        break;
    case KA_CURSOR: *out = gen_cell(e, e->entry->cursor); break;
    case KA_LOOP_INDEX:
        *out = frame_where(f, a->node);
        out->value = 0;
        break;
    case KA_INT: *out = (ProgArg){.kind = PA_INT, .value = a->value}; break;
    case KA_SCRATCH: {
        int64_t elems = a->scratch_bytes / (dtype_info[a->scratch_type].bits / 8);
        if (!idmap_get(scratch, (uint64_t)a->scratch, &at)) {
            Type t = type_make(a->scratch_type, 1, &elems);
            *out = gen_temp(e, &t, "scratch", 0);
            at = (uint64_t)out->index;
            idmap_set(scratch, (uint64_t)a->scratch, at);
        }
        *out = gen_arg((int32_t)at);
        ProgBuffer *b = &e->buffers.at[at];
        if (b->bytes < a->scratch_bytes) {
            b->type.dim[0] = elems;
            b->bytes = a->scratch_bytes;
        }
        break;
    }
    }
    out->written = a->written;
    return (int)out->kind != PLACE_NONE;
}

void frame_log(const Frame *f, Group *const *groups, int ngroups, LoweredKernel *kernels,
               int nkernels)
{
    const Gen *g = f->e->gen;
    if (!g->options->log || (groups[0]->anchor && groups[0]->anchor->op == OP_extern)) return;
    LaunchRecord r = {f->e->lower, f->g, groups, ngroups, kernels, nkernels};
    r.ctx.schedules = NULL;
    r.ctx.printed = NULL;
    r.ctx.repeats = r.ctx.repeat = NULL;
    r.ctx.checks.at = NULL;
    r.ctx.checks.n = r.ctx.checks.cap = 0;
    vec_push(g->arena, g->options->log, r);
}

void frame_unlog(const Frame *f, const LoweredKernel *kernels)
{
    LaunchLog *log = f->e->gen->options->log;
    uint32_t n = 0;
    for (uint32_t i = 0; log && i < log->n; i++)
        if (log->at[i].kernels != kernels) log->at[n++] = log->at[i];
    if (log) log->n = n;
}

void frame_lowers(Frame *f)
{
    f->e->lower.commits = f->commits;
    f->e->lower.is_region = f->depth > 0;
    f->e->lower.carried = f->loop ? attr_int(f->loop, ATTR_carried, 0) : 0;
    f->e->lower.initial = false;
    for (int i = 0; i < f->e->lower.carried; i++) // (loops.c stores initial values last)
        f->e->lower.initial |= type_bytes(&f->loop->args[i]->type) > 0;
}

static bool lower_item(Frame *f, Item *it)
{
    LowerCtx *c = &f->e->lower;
    it->nkernels = lower_launch(c, f->g, it->groups.at, (int)it->groups.n, &it->kernels);
    if (it->nkernels < 0) return false;
    frame_log(f, it->groups.at, (int)it->groups.n, it->kernels, it->nkernels);
    return true;
}

// Whether the stored value is the old value of its own cell except for a part, or for some indices.
static bool changes_part(const Frame *f, const Sink *s)
{
    const Node *n = s->stored;
    return (node_has(n, OPF_PART) || node_has(n, OPF_SCATTERS)) && node_has(n->args[0], OPF_CELL) &&
           same_place(&f->place[n->args[0]->id], &s->target);
}

// Lowers kernels before items are ordered, since the order depends on which of them can fail. Every
// value that may be stored in a cell is lowered as if it were (gates.c).
static bool lower_items(Frame *f)
{
    for (uint32_t k = 0; k < f->sinks.n; k++) {
        const Sink *s = &f->sinks.at[k];
        if (s->cell && s->stored)
            f->commits[s->stored->id] = changes_part(f, s) ? COMMIT_PART : COMMIT_WHOLE;
    }
    frame_lowers(f);
    for (uint32_t i = 0; i < f->items.n; i++) {
        Item *it = &f->items.at[i];
        it->lowered = it->sink < 0 && is_lowered(f, it);
        if (!it->lowered || it->groups.at[0]->assembled) continue;
        if (!lower_item(f, it)) return false;
        for (int k = 0; k < it->nkernels; k++)
            for (int j = 0; j < it->kernels[k].nargs; j++) {
                const KernelArg *a = &it->kernels[k].args[j];
                if (a->kind == KA_ERROR && a->written) it->checks = true;
            }
    }
    return true;
}

bool frame_kernels(Frame *f, LoweredKernel *ks, int n, IdMap *scratch)
{
    GenEntry *e = f->e;
    Gen *g = e->gen;
    for (int k = 0; k < n; k++) {
        ProgStep *s = gen_step(e, PS_KERNEL, ks[k].nargs, f->depth, ks[k].prog.name, ks[k].loc);
        ProgArg *args = s->args;
        s->commits = ks[k].commits;
        for (int i = 0; i < ks[k].nargs; i++)
            if (!frame_bind(f, &ks[k].args[i], &args[i], scratch)) {
                const KernelArg *a = &ks[k].args[i];
                gen_internal(g, ks[k].loc,
                             arena_printf(g->arena, "kernel %s reads a value without a buffer (%s)",
                                          ks[k].prog.name,
                                          a->node ? value_name(a->node) : "a scratch buffer"));
                return false;
            }
        if (g->options->log) ks[k].contract = gen_contract(e, args, ks[k].nargs);
        int32_t index = gen_kernel(g, &ks[k].prog, ks[k].contract);
        e->steps.at[e->steps.n - 1].index = index;
        e->steps.at[e->steps.n - 1].name = ks[k].prog.name = g->kernels.at[index].name;
    }
    return true;
}

// [*sums]: sums over the rows of a product's result; set to NULL if they do not become part of the
// step.
static bool emit_kernels(Frame *f, Item *it, const Item **sums)
{
    int n = 0;
    bool again = frame_ungate(f, it);
    LoweredKernel *both = *sums ? frame_with_sums(f, it, *sums, &n) : NULL;
    if (both) {
        IdMap parts = idmap_new(f->e->gen->arena);
        return frame_kernels(f, both, n, &parts);
    }
    *sums = NULL;
    do {
        if (again) frame_unlog(f, it->kernels);
        if (again && !lower_item(f, it)) return false;
        withdraw_updates(f, it, it->kernels, it->nkernels);
    } while ((again = frame_ungate(f, it)));
    if (frame_convolution(f, it)) return true;
    IdMap scratch = idmap_new(f->e->gen->arena);
    return frame_kernels(f, it->kernels, it->nkernels, &scratch);
}

// -- sinks that are copied ------------------------------------------------------------------------

// Copies what the item stored to those sinks that are elsewhere.
static void copy_outputs(Frame *f, const Item *it)
{
    for (uint32_t k = 0; k < it->sinks.n; k++) {
        Sink *s = &f->sinks.at[it->sinks.at[k]];
        if (s->commit || s->done) continue;
        gen_copy(f->e, f->place[s->stored->id], s->target, node_bytes(s->stored), f->depth, false,
                 value_name(s->value), s->value->loc);
        s->done = true;
    }
}

static bool overwritten(const Frame *f, const ProgArg *p) // whether a commit writes it
{
    for (uint32_t k = 0; k < f->sinks.n; k++)
        if (f->sinks.at[k].commit && same_place(&f->sinks.at[k].target, p)) return true;
    return false;
}

static bool copy_leaf(Frame *f, Sink *s)
{
    ProgArg from = frame_memory(f, s->value);
    int64_t bytes = type_bytes(&s->value->type);
    if ((int)from.kind == PLACE_NONE) {
        gen_internal(f->e->gen, s->value->loc, "a result without a place");
        return false;
    }
    if (prog_arg_same(&from, &s->target)) {
        s->done = true; // the old value stays
    } else if (!s->commit) {
        gen_copy(f->e, from, s->target, bytes, f->depth, false, value_name(s->value),
                 s->value->loc);
        s->done = true;
    } else if (overwritten(f, &from)) { // its old value is needed after it may have been
                                        // overwritten
        ProgArg t = gen_temp(f->e, &s->value->type, value_name(s->value), s->value->loc);
        gen_copy(f->e, from, t, bytes, f->depth, false, value_name(s->value), s->value->loc);
        s->from = t;
    } else {
        s->from = from;
    }
    return true;
}

static void copy_commits(Frame *f)
{
    for (uint32_t k = 0; k < f->sinks.n; k++) {
        Sink *s = &f->sinks.at[k];
        if (s->done) continue;
        ProgArg from = s->stored ? f->place[s->stored->id] : s->from;
        gen_copy(f->e, from, s->target, type_bytes(&s->value->type), f->depth, s->cell,
                 value_name(s->value), s->value->loc);
        s->done = true;
    }
}

bool frame_wanted(const Frame *f, const Node *n, const Item *reader)
{
    for (uint32_t i = 0; i < f->items.n; i++)
        for (uint32_t k = 0; k < f->items.at[i].uses.n && &f->items.at[i] != reader; k++)
            if (f->items.at[i].uses.at[k] == n->id) return true;
    for (uint32_t i = 0; i < f->sinks.n; i++)
        if (f->sinks.at[i].stored == n || f->sinks.at[i].value == n) return true;
    return false;
}

// [*follower]: may become part of the step; set to NULL if it does not.
static bool emit_item(Frame *f, Item *it, const Item **follower)
{
    const Item *follows = *follower;
    *follower = NULL;
    if (it->sink >= 0) return copy_leaf(f, &f->sinks.at[it->sink]);
    Group *gr = it->groups.at[0];
    if (gr->kind == GROUP_LOOP) {
        for (uint32_t i = 0; i < it->groups.n; i++)
            if (!loop_generate(f, it->groups.at[i])) return false;
        return true;
    }
    if (gr->anchor && gr->anchor->op == OP_exchange) return frame_exchange(f, gr);
    if (!it->lowered) {
        *follower = follows;
        return frame_product(f, gr, follower);
    }
    *follower = follows;
    return emit_kernels(f, it, follower);
}

// Records what the steps from [first] on compute: the item or, for kernels after a product's call,
// its follower.
static void log_steps(const Frame *f, const Item *it, const Item *follower, uint32_t first)
{
    const GenEntry *e = f->e;
    StepLog *log = e->gen->options->steps;
    if (!log || it->sink >= 0 || it->groups.at[0]->kind == GROUP_LOOP) return;
    for (uint32_t i = first; i < e->steps.n; i++) {
        const bool behind = e->steps.at[i].kind == PS_KERNEL && (!it->lowered || i > first);
        const Item *of = follower && behind ? follower : it;
        StepRecord r = {e->entry, (int32_t)i, f->g, of->groups.at, (int)of->groups.n};
        vec_push(e->gen->arena, log, r);
    }
}

bool frame_generate(Frame *f)
{
    if (!f->g->fusion) {
        gen_internal(f->e->gen, f->g->loc, "a graph without fused groups");
        return false;
    }
    if (!make_items(f) || !lower_items(f)) return false;
    order_items(f);
    if (!f->order) {
        gen_internal(f->e->gen, f->g->loc, "fused groups wait for each other in a circle");
        return false;
    }
    frame_bring_sums(f);
    uint32_t last_check = UINT32_MAX;
    for (uint32_t i = 0; i < f->items.n; i++)
        if (f->items.at[f->order[i]].checks) last_check = i;
    uint32_t *last = last_reads(f);
    bool agreed = false;
    for (uint32_t i = 0; i < f->items.n; i++) {
        Item *it = &f->items.at[f->order[i]];
        const Item *follower = frame_follower(f, i);
        uint32_t first = f->e->steps.n;
        if (it->sink < 0) choose_places(f, it, last, last_check);
        if (follower) choose_places(f, follower, last, last_check);
        if (!emit_item(f, it, &follower)) return false;
        log_steps(f, it, follower, first);
        copy_outputs(f, it);
        if (follower) copy_outputs(f, follower), i++;
        // (no cell is written before, and other devices may have failed)
        if (i >= last_check && !agreed && !f->depth) frame_agree(f), agreed = true;
    }
    copy_commits(f);
    return true;
}
