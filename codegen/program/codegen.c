// Module with fused graphs -> Program: cells, constants, and for each entry its steps and memory
// plan.
#include "codegen/codegen.h"

#include <string.h>

#include "codegen/program/gen.h"
#include "codegen/program/plan.h"

void gen_internal(Gen *g, Loc loc, const char *what)
{
    Diag *d = diag_error(g->diags, loc, "internal error while generating code: %s", what);
    diag_note(g->diags, d,
              "this is a fault of the compiler, not of the model; --skip-passes fuse may avoid it");
    g->failed = true;
}

static ProgType gen_type(const Type *t)
{
    ProgType p = {.dtype = (ProgDType)t->dtype, .rank = t->rank};
    for (int i = 0; i < t->rank; i++) p.dim[i] = t->dim[i];
    return p;
}

ProgArg gen_arg(int32_t buffer)
{
    return (ProgArg){.kind = PA_BUFFER, .index = buffer};
}

int32_t gen_buffer(GenEntry *e, ProgRegion region, int32_t index, int64_t bytes, const Type *type,
                   const char *name, const char *loc)
{
    ProgBuffer b = {.name = name, .region = region, .index = index, .bytes = bytes, .loc = loc};
    if (type)
        b.type = gen_type(type);
    else
        b.type = (ProgType){.dtype = PD_U8, .rank = 1, .dim = {bytes}};
    vec_push(e->gen->arena, &e->buffers, b);
    return (int32_t)e->buffers.n - 1;
}

int32_t gen_const(GenEntry *e, const Value *v, const char *name, const char *loc)
{
    Gen *g = e->gen;
    int64_t bytes = type_bytes(&v->type);
    void *data = arena_alloc(g->arena, (size_t)bytes + 1);
    value_to_bytes(v, data);
    vec_push(g->arena, &g->consts, ((ProgConst){.type = gen_type(&v->type), .data = data}));
    return gen_buffer(e, PR_CONST, (int32_t)g->consts.n - 1, bytes, &v->type, name, loc);
}

ProgArg gen_temp(GenEntry *e, const Type *type, const char *name, Loc loc)
{
    return gen_arg(
        gen_buffer(e, PR_ARENA, 0, type_bytes(type), type, name, loc_text(e->gen->diags, loc)));
}

ProgArg gen_bytes(GenEntry *e, int64_t bytes, const char *name)
{
    return gen_arg(gen_buffer(e, PR_ARENA, 0, bytes, NULL, name, ""));
}

ProgArg gen_cell(GenEntry *e, const char *cell)
{
    Module *m = e->gen->module;
    const Cell *c = module_cell(m, cell);
    if (!c) {
        gen_internal(e->gen, e->entry->loc,
                     arena_printf(e->gen->arena, "no cell is called `%s`", cell));
        return (ProgArg){.kind = (ProgArgKind)PLACE_NONE};
    }
    ptrdiff_t i = c - m->cells.at;
    if (!e->cell_buffer[i])
        e->cell_buffer[i] = gen_buffer(e, PR_CELL, (int32_t)i, type_bytes(&c->type), &c->type,
                                       c->name, loc_text(e->gen->diags, c->loc)) +
                            1;
    return gen_arg(e->cell_buffer[i] - 1);
}

int32_t gen_kernel(Gen *g, const ProgKernel *k, const char *contract)
{
    ProgKernel n = *k;
    uint64_t at;
    while (idmap_get(&g->kernel_of, n.identity, &at)) {
        const ProgKernel *o = &g->generated.at[at];
        if ((o->text == n.text || !strcmp(o->text, n.text)) &&
            !memcmp(o->grid, n.grid, sizeof n.grid) && !memcmp(o->block, n.block, sizeof n.block) &&
            o->shared_bytes == n.shared_bytes && o->cluster == n.cluster && o->nmaps == n.nmaps &&
            !memcmp(o->maps, n.maps, sizeof n.maps))
            return (int32_t)at;
        n.identity = hash_mix(n.identity, 1);
    }
    if (!n.file) n.file = "";
    for (int i = 2; strmap_has(&g->names, n.name); i++)
        n.name = arena_printf(g->arena, "%s_%d", k->name, i);
    strmap_set(&g->names, n.name, (void *)n.name);
    idmap_set(&g->kernel_of, n.identity, g->kernels.n);
    vec_push(g->arena, &g->generated, n);
    if (g->options->override && contract) {
        g->options->override(g->options->override_ctx, &n, contract);
        if (n.text != k->text) n.identity = hash_mix(n.identity, hash_str(n.text));
    }
    vec_push(g->arena, &g->kernels, n);
    return (int32_t)g->kernels.n - 1;
}

ProgStep *gen_step(GenEntry *e, ProgStepKind kind, int nargs, int depth, const char *name, Loc loc)
{
    Arena *a = e->gen->arena;
    ProgStep s = {.kind = kind, .nargs = nargs, .depth = depth, .name = name};
    s.args = NEW_ARRAY(a, ProgArg, nargs + 1);
    s.loc = loc_text(e->gen->diags, loc);
    vec_push(a, &e->steps, s);
    return &e->steps.at[e->steps.n - 1];
}

void gen_zero(GenEntry *e, ProgArg at, int64_t bytes, int depth, const char *name, Loc loc)
{
    ProgStep *s = gen_step(e, PS_ZERO, 1, depth, name, loc);
    s->args[0] = at;
    s->args[0].written = true;
    s->bytes = bytes;
}

void gen_copy(GenEntry *e, ProgArg from, ProgArg to, int64_t bytes, int depth, bool commits,
              const char *name, Loc loc)
{
    if (bytes == 0) return;
    ProgStep *s = gen_step(e, PS_COPY, 2, depth, name, loc);
    s->args[0] = from;
    s->args[0].written = false;
    s->args[1] = to;
    s->args[1].written = true;
    s->bytes = bytes;
    s->commits = commits;
}

const char *gen_contract(GenEntry *e, const ProgArg *args, int nargs)
{
    Buf b = buf_new(e->gen->arena);
    for (int i = 0; i < nargs; i++) {
        if (i) buf_str(&b, "; ");
        if ((int)args[i].kind != PA_BUFFER) {
            buf_str(&b, "i64 value");
            continue;
        }
        const ProgType *t = &e->buffers.at[args[i].index].type;
        buf_str(&b, args[i].written ? "write " : "read ");
        buf_str(&b, prog_dtype_name(t->dtype));
        for (int j = 0; j < t->rank; j++) {
            buf_str(&b, j ? ", " : "[");
            buf_int(&b, t->dim[j]);
        }
        buf_str(&b, t->rank ? "]" : "[]");
    }
    return b.data;
}

// -- entries --------------------------------------------------------------------------------------

static void entry_leaves(GenEntry *e, Frame *f)
{
    Gen *g = e->gen;
    const Graph *graph = f->g;
    bool *live = NEW_ARRAY(g->arena, bool, graph->nodes.n + 1);
    graph_mark_live(graph, live);
    for (uint32_t i = 0; i < graph->nodes.n; i++) {
        const Node *n = graph->nodes.at[i];
        if (!live[i]) continue;
        if (node_has(n, OPF_CELL)) {
            f->place[i] = gen_cell(e, attr_str(n, ATTR_name));
        } else if (n->op == OP_device) {
            f->place[i] =
                gen_arg(gen_buffer(e, PR_DEVICE, 0, type_bytes(&n->type), &n->type, "@device", ""));
        } else if (n->op == OP_input) {
            ProgInput in = {
                .name = attr_str(n, ATTR_name),
                .type = gen_type(&n->type),
                .data = node_is_data(n),
                .has_range = attr_find(n, ATTR_low_bound) && attr_find(n, ATTR_high_bound),
                .low = attr_int(n, ATTR_low_bound, 0),
                .high = attr_int(n, ATTR_high_bound, 0),
                .batch_axis_micro = 1,
            };
            vec_push(g->arena, &e->inputs, in);
            f->place[i] =
                gen_arg(gen_buffer(e, PR_INPUT, (int32_t)e->inputs.n - 1, type_bytes(&n->type),
                                   &n->type, in.name, loc_text(g->diags, n->loc)));
        }
    }
    if (e->entry->rows && e->entry->cursor) f->cursor = gen_cell(e, e->entry->cursor).index;
}

static bool entry_roots(GenEntry *e, Frame *f)
{
    Gen *g = e->gen;
    for (uint32_t i = 0; i < f->g->roots.n; i++) {
        const Node *r = f->g->roots.at[i];
        Sink s = {.root = r, .value = r->args[0]};
        if (r->op == OP_output) {
            const char *kind = attr_str(r, ATTR_kind);
            ProgOutput out = {.name = attr_str(r, ATTR_name),
                              .type = gen_type(&r->type),
                              .tap = kind && !strcmp(kind, "tap")};
            vec_push(g->arena, &e->outputs, out);
            s.target =
                gen_arg(gen_buffer(e, PR_OUTPUT, (int32_t)e->outputs.n - 1, type_bytes(&r->type),
                                   &r->type, out.name, loc_text(g->diags, r->loc)));
        } else if (r->op == OP_assign) {
            s.target = gen_cell(e, attr_str(r, ATTR_name));
            s.commit = s.cell = true;
            if ((int)s.target.kind == PLACE_NONE) return false;
        } else if (!f->g->fusion || !f->g->fusion->group_of[r->id]) {
            gen_internal(g, r->loc, "an assertion that no kernel checks");
            return false;
        } else {
            continue;
        }
        frame_sink(f, s);
    }
    return true;
}

static bool generate_entry(Gen *g, const Entry *entry, ProgEntry *out)
{
    Arena *a = g->arena;
    GenEntry *e = NEW(a, GenEntry);
    e->gen = g;
    e->entry = entry;
    e->cell_buffer = NEW_ARRAY(a, int32_t, g->module->cells.n + 1);
    e->lower.arena = a;
    e->lower.diags = g->diags;
    e->lower.target = g->target;
    e->lower.module = g->module;
    e->lower.entry = entry;
    e->lower.tf32 = g->options->tf32;
    e->lower.schedules = g->options->schedules;
    e->lower.printed = g->options->print_each ? NULL : &g->printed;
    Frame *f = frame_new(e, entry->graph, 0);
    entry_leaves(e, f);
    if (!entry_roots(e, f) || !frame_generate(f)) return false;
    gen_gate_copies(e);

    out->name = entry->name;
    out->kind = (ProgEntryKind)entry->kind;
    out->ninputs = (int32_t)e->inputs.n;
    out->inputs = e->inputs.at;
    out->noutputs = (int32_t)e->outputs.n;
    out->outputs = e->outputs.at;
    out->nbuffers = (int32_t)e->buffers.n;
    out->buffers = e->buffers.at;
    out->nsteps = (int32_t)e->steps.n;
    out->steps = e->steps.at;
    out->nchecks = (int32_t)e->lower.checks.n;
    out->checks = e->lower.checks.at;
    g->prelude_parts |= e->lower.prelude_parts;
    out->ndims = (int32_t)entry->dims.n;
    out->dims = NEW_ARRAY(a, ProgDim, entry->dims.n + 1);
    for (uint32_t i = 0; i < entry->dims.n; i++) {
        const DimBinding *d = &entry->dims.at[i];
        out->dims[i] = (ProgDim){.name = d->name, .value = d->value, .batch = d->is_batch};
    }
    out->rows = entry->rows;
    out->cursor = entry->cursor;
    out->batch = entry->batch;
    entry_needs(a, entry->graph, out);
    plan_memory(a, out, g->options->no_reuse);
    const char *wrong = plan_verify(a, out);
    if (wrong) {
        gen_internal(g, entry->loc,
                     arena_printf(a, "the memory plan of `%s`: %s", entry->name, wrong));
        return false;
    }
    return true;
}

static ProgCellKind cell_kind(CellKind k)
{
    switch (k) {
    case CELL_PARAM: return PC_PARAM;
    case CELL_STATE: return PC_STATE;
    case CELL_SCRATCH: return PC_SCRATCH;
    case CELL_SETTING: return PC_SETTING;
    case CELL_CONTROL: return PC_CONTROL;
    case CELL_PREPARED: return PC_PREPARED;
    }
    return PC_STATE;
}

Program *codegen(Module *m, const CodegenOptions *o)
{
    Arena *a = m->arena;
    Gen *g = NEW(a, Gen);
    g->arena = a;
    g->diags = m->diags;
    g->module = m;
    g->options = o;
    g->target = o->target;
    g->kernel_of = idmap_new(a);
    g->printed = idmap_new(a);
    g->names = strmap_new(a);
    uint32_t errors = m->diags->errors;
    Program *p = NEW(a, Program);
    p->arena = a;
    p->model = m->name ? m->name : "";
    p->cuda = o->target->kind == TARGET_CUDA;
    p->devices = o->devices > 1 ? o->devices : 1;
    p->target = arena_strdup(a, o->target->name);
    p->choices = o->choices ? o->choices : "";
    p->ncells = (int32_t)m->cells.n;
    p->cells = NEW_ARRAY(a, ProgCell, m->cells.n + 1);
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *c = &m->cells.at[i];
        p->cells[i] = (ProgCell){.name = c->name,
                                 .kind = cell_kind(c->kind),
                                 .type = gen_type(&c->type),
                                 .initial = c->initial,
                                 .frozen = c->frozen,
                                 .optimizer = c->optimizer,
                                 .first_batch = c->first_batch};
    }
    p->nentries = (int32_t)m->entries.n;
    p->entries = NEW_ARRAY(a, ProgEntry, m->entries.n + 1);
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (!generate_entry(g, &m->entries.at[i], &p->entries[i])) {
            if (m->diags->errors == errors)
                gen_internal(g, m->entries.at[i].loc, "an entry failed without a reason");
            return NULL;
        }
    p->prelude = lower_prelude(a, o->target, g->prelude_parts);
    p->nkernels = (int32_t)g->kernels.n;
    p->kernels = g->kernels.at;
    p->ngemms = (int32_t)g->gemms.n;
    p->gemms = g->gemms.at;
    p->nconsts = (int32_t)g->consts.n;
    p->consts = g->consts.at;
    const char *wrong = program_validate(p);
    if (wrong) gen_internal(g, 0, wrong);
    return g->failed || m->diags->errors != errors ? NULL : p;
}
