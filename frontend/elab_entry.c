// Entries: inputs, outputs, and one graph each for init, train, eval and every model.
#include <string.h>

#include "frontend/elab_survey.h"
#include "base/names.h"

// The dimension variable that is the size of axis 0, or NULL.
static const char *batch_name(Elab *e, EFile *f, const Param *p)
{
    if (!p->type || !p->type->has_shape || !p->type->dims.n) return NULL;
    const Expr *x = p->type->dims.at[0];
    if (x->kind != EXPR_NAME) return NULL;
    Global *g = global_find(e, f, x->text, x->span, false);
    return g && g->stmt->kind == STMT_DIM ? x->text : NULL;
}

bool input_range(Elab *e, const Param *p, ModelInput *in)
{
    if (!p->type->low) return true;
    Val low = eval(e, p->type->low), high = eval(e, p->type->high);
    in->has_range = true;
    if (!to_int(e, &low, p->type->low->span, "the start of a range", &in->low) ||
        !to_int(e, &high, p->type->high->span, "the end of a range", &in->high))
        return false;
    if (!dtype_is_int(in->type.dtype)) {
        fail(e, p->type->span, "only integers can have a range; '%s' is %s", p->name,
             dtype_info[in->type.dtype].name);
        return false;
    }
    if (in->low < in->high) return true;
    fail(e, p->type->span, "the range %lld..%lld is empty", (long long)in->low,
         (long long)in->high);
    return false;
}

bool model_inputs(Elab *e, const Stmt *model, EFile *f, ModelInputs *out, const char **batch)
{
    Frame frame = {.up = e->frame, .name = model->name, .file = f, .id = ++e->frames};
    frame.vars = strmap_new(e->arena);
    frame.scope = scope_child(e, NULL, "", false);
    e->frame = &frame;
    bool ok = true;
    *batch = NULL;
    for (uint32_t i = 0; i < model->params.n; i++) {
        const Param *p = &model->params.at[i];
        ModelInput in = {.name = p->name, .span = p->span};
        if (!p->type || !p->type->dtype) {
            fail(e, p->span, "the input '%s' of a model needs a type, as in %s: f32[batch, 3]",
                 p->name, p->name);
            ok = false;
            continue;
        }
        if (p->otherwise) {
            Diag *d = error_at(e, p->otherwise->span, "an input of a model has no default");
            diag_note(e->diags, d,
                      "whoever runs it gives it a value; a const, a setting or a function's "
                      "parameter may have a default");
            ok = false;
        }
        if (!eval_type(e, p->type, &in.type) || !input_range(e, p, &in)) {
            ok = false;
            continue;
        }
        const char *name = batch_name(e, f, p);
        if (name && !*batch) *batch = name;
        in.data = name && !strcmp(name, *batch);
        vec_push(e->arena, out, in);
    }
    e->frame = frame.up;
    return ok;
}

int64_t batch_size(Elab *e, const char *batch)
{
    const DimBinding *d = batch ? strmap_get(&e->dims, batch) : NULL;
    return d ? d->value : 1;
}

Node *make_input(Elab *e, const ModelInput *in, int64_t rows)
{
    Attrs a = {0};
    Type t = in->type;
    if (rows > 0 && in->data) t.dim[0] = rows;
    attr_set_str(e->g, &a, ATTR_name, in->name);
    attr_set_ints(e->g, &a, ATTR_shape, t.dim, t.rank);
    attr_set_int(&a, ATTR_dtype, t.dtype);
    attr_set_str(e->g, &a, ATTR_kind, in->data ? "data" : "arg");
    if (in->has_range) {
        attr_set_int(&a, ATTR_low_bound, in->low);
        attr_set_int(&a, ATTR_high_bound, in->high);
    }
    at_span(e, in->span);
    Node *n = graph_node(e->g, OP_input, NULL, 0, &a);
    memcpy(n->type.sym, t.sym, sizeof t.sym);
    return n;
}

// Returns the results as a tuple in which all have names.
static Val named_results(Elab *e, Val v, const Stmt *model)
{
    if (v.kind == V_POISON) return v;
    if (v.kind == V_NONE)
        return fail(e, model->name_span, "model '%s' returns nothing", model->name);
    uint32_t n = 1;
    bool many = v.kind == V_TUPLE;
    if (many) n = v.seq->n;
    Val out = val_seq(e, V_TUPLE, n);
    out.seq->names = NEW_ARRAY(e->arena, const char *, n + 1);
    if (many) out.seq->spans = v.seq->spans;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = many && v.seq->names ? v.seq->names[i] : NULL;
        if (!name) name = n == 1 ? "out" : arena_printf(e->arena, "out%u", i);
        out.seq->at[i] = many ? v.seq->at[i] : v;
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(name, out.seq->names[j]))
                return fail(e, model->name_span, "two results of model '%s' are named '%s'",
                            model->name, name);
        out.seq->names[i] = name;
        if (out.seq->at[i].kind == V_POISON) return val_poison();
    }
    return out;
}

Val model_run(Elab *e, const Stmt *model, EFile *f, Val *inputs, Span span)
{
    uint32_t outer = e->elaboration;
    const char *outer_model = e->model;
    Frame frame = {.up = e->frame, .fn = model, .name = model->name, .file = f};
    frame.id = ++e->frames;
    frame.vars = strmap_new(e->arena);
    frame.scope = scope_child(e, NULL, "", false);
    if (e->frame && e->frame->call)
        frame.call = loc_add(e->diags, span, e->frame->call, model->name);
    frame.result = val_none();
    e->elaboration = ++e->elaborations;
    e->model = model->name;
    e->frame = &frame;
    for (uint32_t i = 0; i < model->params.n; i++) {
        survey_value(e, model->params.at[i].span, &inputs[i]);
        name_bind(e, model->params.at[i].name, inputs[i]);
    }
    uint32_t errors = e->diags->errors;
    exec_block(e, model->body);
    Val v = e->diags->errors == errors ? named_results(e, frame.result, model) : val_poison();
    e->frame = frame.up;
    e->elaboration = outer;
    e->model = outer_model;
    return v;
}

// Assigns cell + n to a control cell.
static void advance(Elab *e, ECell *c, int64_t n)
{
    Node *now = cell_read(e, c, (Span){0});
    e->g->loc = 0;
    cell_set(e, c, graph_binary(e->g, OP_add, now, graph_const_int(e->g, DT_I64, n)));
}

// Adds the sums that the runtime reports for outputs. tallied: the result of tally_reached.
static void scalar_sums(Elab *e, const char *entry, const Seq *outputs, int64_t batch,
                        const bool *tallied)
{
    Span nowhere = {0};
    Role role = e->g->role;
    e->g->role = ROLE_UPDATE;
    for (uint32_t i = 0; i < outputs->n; i++) {
        Node *value = outputs->at[i].kind == V_TENSOR ? outputs->at[i].node : NULL;
        if (value && tallied[value->id] && e->kind == ENTRY_EVAL)
            tally_keep(e, entry, outputs->names[i], value);
        if (!value || value->type.rank || tallied[value->id]) continue;
        const char *name = arena_printf(e->arena, "@sum.%s.%s", entry, outputs->names[i]);
        ECell *c = cell_control(e, name);
        Node *sum = cell_read(e, c, nowhere);
        e->g->loc = value->loc;
        Node *v = graph_cast(e->g, value, DT_F64);
        v = graph_binary(e->g, OP_mul, v, graph_const(e->g, DT_F64, (double)batch));
        cell_set(e, c, graph_binary(e->g, OP_add, sum, v));
    }
    ECell *items = cell_control(e, arena_printf(e->arena, "@items.%s", entry));
    Node *n = cell_read(e, items, nowhere);
    e->g->loc = 0;
    cell_set(e, items, graph_binary(e->g, OP_add, n, graph_const(e->g, DT_F64, (double)batch)));
    e->g->role = role;
}

// The names of the taps among the graph's roots.
static StrMap tap_names(Elab *e)
{
    StrMap names = strmap_new(e->arena);
    for (uint32_t i = 0; i < e->g->roots.n; i++) {
        Node *root = e->g->roots.at[i];
        const char *name = root->op == OP_output ? attr_str(root, ATTR_name) : NULL;
        if (name) strmap_set(&names, name, root);
    }
    return names;
}

// Creates output roots. training: only of scalars, and none that depend on a tally. Returns
// tally_reached.
static const bool *output_roots(Elab *e, Seq *outputs, bool training)
{
    for (uint32_t i = 0; i < outputs->n; i++) {
        Span span = outputs->spans ? outputs->spans[i] : (Span){0};
        Node *n = to_tensor(e, &outputs->at[i], DT_COUNT, span);
        if (n) outputs->at[i] = val_node(n);
    }
    const bool *tallied = tally_reached(e, 0);
    StrMap taps = tap_names(e);
    for (uint32_t i = 0; i < outputs->n; i++) {
        Span span = outputs->spans ? outputs->spans[i] : (Span){0};
        Node *n = outputs->at[i].kind == V_TENSOR ? outputs->at[i].node : NULL;
        if (!n || (training && (n->type.rank || tallied[n->id]))) continue;
        if (strmap_has(&taps, outputs->names[i])) {
            fail(e, span, "'%s' is tapped already; give the tap another name: tap … as NAME",
                 outputs->names[i]);
            continue;
        }
        e->g->loc = n->loc;
        graph_root(e->g, OP_output, n, outputs->names[i]);
    }
    return tallied;
}

bool entry_wanted(const Elab *e, const char *name)
{
    if (!e->options->nentries) return true;
    for (uint32_t i = 0; i < e->options->nentries; i++)
        if (!strcmp(e->options->entries[i], name)) return true;
    return false;
}

static void begin(Elab *e, EntryKind kind, const char *name)
{
    cells_begin_entry(e);
    e->root = e->g = elab_graph(e);
    e->region = NULL;
    e->kind = kind;
    e->entry = name;
    e->runs = NULL;
    e->tallied.n = 0;
    e->pass = 0;
    e->training = kind == ENTRY_TRAIN || (kind == ENTRY_MODEL && e->options->training);
    e->replay = false;
}

// Whether something that the entry computes depends on an input that takes examples.
static bool reads_data(Elab *e, const Graph *g)
{
    bool *live = NEW_ARRAY(e->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->roots.n; i++) live[g->roots.at[i]->args[0]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) { // (an operand comes before what reads it)
        const Node *n = g->nodes.at[i];
        if (!live[i]) continue;
        if (node_is_data(n)) return true;
        for (uint32_t k = 0; k < n->nargs; k++) live[n->args[k]->id] = true;
    }
    return false;
}

static void finish(Elab *e, Entry *entry, const char *batch, Span span, bool wanted)
{
    if (e->diags->errors) return;
    cells_assign_roots(e);
    if (entry->rows && !reads_data(e, e->root)) {
        entry->rows = false;
        entry->cursor = NULL;
    }
    entry->graph = e->root;
    entry->loc = loc_add(e->diags, span, 0, NULL);
    for (uint32_t i = 0; i < e->dims.n; i++) {
        DimBinding d = *(DimBinding *)e->dims.entry[i].value;
        d.is_batch = batch && !strcmp(batch, d.name);
        vec_push(e->arena, &entry->dims, d);
    }
    if (!wanted) return;
    entry->graph = graph_settle(e->root);
    vec_push(e->arena, &e->module->entries, *entry);
}

static bool any_data(const ModelInputs *in)
{
    for (uint32_t i = 0; i < in->n; i++)
        if (in->at[i].data) return true;
    return false;
}

// with: the function of an `evaluate with`, or NULL.
static void entry_model(Elab *e, const Stmt *model, EFile *f, EntryKind kind, const char *name,
                        bool wanted, const Stmt *with)
{
    begin(e, kind, name);
    ModelInputs in = {0};
    const char *batch;
    if (!model_inputs(e, model, f, &in, &batch)) return;
    Val *inputs = NEW_ARRAY(e->arena, Val, in.n + 1);
    for (uint32_t i = 0; i < in.n; i++) inputs[i] = val_node(make_input(e, &in.at[i], 0));
    e->with = with ? with_entry(e, with->expr) : NULL;
    Val v = model_run(e, model, f, inputs, model->name_span);
    if (e->with) with_tell_untrained(e, e->with);
    e->with = NULL;
    if (v.kind == V_POISON || e->diags->errors) return;
    const bool *tallied = output_roots(e, v.seq, false);
    Entry entry = {.name = name, .kind = kind, .batch = batch_size(e, batch)};
    if (kind == ENTRY_EVAL) {
        entry.rows = any_data(&in);
        scalar_sums(e, name, v.seq, entry.batch, tallied);
        if (entry.rows) {
            entry.cursor = CELL_EVAL_CURSOR;
            e->g->role = ROLE_UPDATE;
            advance(e, cell_control(e, CELL_EVAL_CURSOR), entry.batch);
        }
    }
    e->g->role = ROLE_UPDATE;
    if (e->runs) advance(e, e->runs, 1);
    e->g->role = ROLE_FORWARD;
    finish(e, &entry, batch, model->name_span, wanted);
}

static void entry_train(Elab *e, const TrainProgram *p, bool wanted)
{
    begin(e, ENTRY_TRAIN, "train");
    Entry entry = {.name = "train", .kind = ENTRY_TRAIN, .batch = 1};
    TrainResult r = train_elaborate(e, p);
    if (e->diags->errors || !r.outputs) return;
    const bool *tallied = output_roots(e, r.outputs, true);
    entry.batch = batch_size(e, r.batch) * r.accumulate;
    scalar_sums(e, "train", r.outputs, entry.batch, tallied);
    if (r.finite) scale_commits(e, r.finite);
    e->g->role = ROLE_UPDATE;
    advance(e, cell_control(e, CELL_STEP), 1);
    if (any_data(&r.inputs)) {
        entry.rows = true;
        entry.cursor = CELL_CURSOR;
        advance(e, cell_control(e, CELL_CURSOR), entry.batch);
    }
    e->g->role = ROLE_FORWARD;
    for (uint32_t i = 0; i < e->cell_list.n; i++)
        e->cell_list.at[i]->trained = e->cell_list.at[i]->written;
    finish(e, &entry, r.batch, p->train->span, wanted);
}

// Sets the level of each node of the init graph: the length of the longest chain of cells it
// depends on in which the value of each is computed from the one before. Returns the largest level.
static uint32_t init_levels(Elab *e, uint32_t *level)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < e->init->nodes.n; i++) { // in topological order
        const Node *n = e->init->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs; k++)
            if (level[n->args[k]->id] > level[i]) level[i] = level[n->args[k]->id];
        const ECell *c = n->op == OP_param || n->op == OP_state
                             ? strmap_get(&e->cells, attr_str(n, ATTR_name))
                             : NULL;
        if (!c || c->cell.kind == CELL_CONTROL) continue;
        level[i] = 1 + (c->init ? level[c->init->id] : 0);
    }
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        const Node *n = e->cell_list.at[i]->init;
        if (n && level[n->id] > most) most = level[n->id];
    }
    return most;
}

// The entry that assigns the cells whose initial values have this level.
static Entry entry_init(Elab *e, const uint32_t *levels, uint32_t level)
{
    Entry entry = {.name = level ? arena_printf(e->arena, "init.%u", level) : "init",
                   .kind = ENTRY_INIT,
                   .batch = 1};
    e->root = e->g = e->init;
    e->g->roots.n = 0;
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (!c->init || levels[c->init->id] != level) continue;
        e->g->loc = c->cell.loc;
        graph_root(e->g, OP_assign, c->init, c->cell.name);
    }
    for (uint32_t i = 0; i < e->dims.n; i++)
        vec_push(e->arena, &entry.dims, *(DimBinding *)e->dims.entry[i].value);
    entry.graph = graph_settle(e->init);
    return entry;
}

// Adds the init entry at the front, and the entries for higher levels at the end.
static void entries_init(Elab *e)
{
    uint32_t *levels = NEW_ARRAY(e->arena, uint32_t, e->init->nodes.n + 1);
    uint32_t most = init_levels(e, levels);
    Entry first = entry_init(e, levels, 0);
    vec_push(e->arena, &e->module->entries, first);
    Entry *at = e->module->entries.at;
    memmove(at + 1, at, (e->module->entries.n - 1) * sizeof *at);
    at[0] = first;
    for (uint32_t i = 1; i <= most; i++) {
        Entry next = entry_init(e, levels, i);
        vec_push(e->arena, &e->module->entries, next);
    }
}

// Elaborates the trained model again, to compute the cells that depend on the first batch.
static void entry_first_batch(Elab *e, const TrainProgram *p)
{
    bool any = false;
    for (uint32_t i = 0; i < e->cell_list.n; i++) any |= e->cell_list.at[i]->cell.first_batch;
    if (!any) return;
    begin(e, ENTRY_TRAIN, ENTRY_FIRST_BATCH);
    ModelInputs in = {0};
    const char *batch;
    if (!model_inputs(e, p->model, p->file, &in, &batch)) return;
    Val *inputs = NEW_ARRAY(e->arena, Val, in.n + 1);
    for (uint32_t i = 0; i < in.n; i++) inputs[i] = val_node(make_input(e, &in.at[i], 0));
    e->first_batch = true;
    model_run(e, p->model, p->file, inputs, p->model->name_span);
    e->first_batch = false;
    e->root->roots.n = 0;
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        const ECell *c = e->cell_list.at[i];
        if (!c->first) continue;
        e->g->loc = c->cell.loc;
        graph_root(e->g, OP_assign, c->first, c->cell.name);
    }
    if (!e->root->roots.n) return;
    for (uint32_t i = 0; i < e->cell_list.n; i++) e->cell_list.at[i]->written = false;
    Entry entry = {.name = ENTRY_FIRST_BATCH,
                   .kind = ENTRY_INIT,
                   .batch = batch_size(e, batch),
                   .rows = any_data(&in)};
    if (entry.rows) entry.cursor = CELL_CURSOR;
    finish(e, &entry, batch, p->train->span, true);
}

static void collect_cells(Elab *e)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < e->cell_list.n; i++) {
            Cell *c = &e->cell_list.at[i]->cell;
            c->optimizer =
                !e->cell_list.at[i]->in_model && (c->kind == CELL_STATE || c->kind == CELL_SETTING);
            if ((c->kind == CELL_PARAM) == (pass == 0)) module_add_cell(e->module, c);
        }
}

// Reports requested entries that do not exist.
static bool unknown_entries(Elab *e, const char *const *known, uint32_t n)
{
    bool any = false;
    for (uint32_t i = 0; i < e->options->nentries; i++) {
        const char *name = e->options->entries[i];
        bool found = false;
        for (uint32_t j = 0; j < n; j++) found |= !strcmp(known[j], name);
        if (found) continue;
        any = true;
        if (!strcmp(name, "train") || !strcmp(name, "eval")) {
            diag_error(e->diags, 0,
                       "%s has no entry '%s': it has no block 'train MODEL { minimize ... }'",
                       e->files.at[0]->name, name);
            break;
        }
        diag_error(e->diags, 0, "%s has no entry '%s'%s", e->files.at[0]->name, name,
                   advise(name, known, n).text);
    }
    return any;
}

// If the whole file is compiled, errors in train blocks that were not chosen are reported, too.
// Their elaboration has no other effect.
static void other_programs(Elab *e, const Stmt *chosen)
{
    const File *ast = e->files.at[0]->ast;
    for (uint32_t i = 0; i < ast->stmts.n && !e->diags->errors; i++) {
        TrainProgram other;
        const Stmt *s = ast->stmts.at[i];
        if (s->kind != STMT_TRAIN || s == chosen || !program_of(e, s, &other)) continue;
        Before b = elab_before(e);
        uint32_t again = e->module->again.n;
        entry_train(e, &other, false);
        elab_forget(e, &b);
        e->module->again.n = again;
    }
}

void entries_elaborate(Elab *e)
{
    EFile *main = e->files.at[0];
    TrainProgram program;
    if (!program_choose(e, &program)) return;
    VEC(const char *) known = {0};
    vec_push(e->arena, &known, "init");
    if (program.train) {
        vec_push(e->arena, &known, "train");
        vec_push(e->arena, &known, "eval");
    }
    for (uint32_t i = 0; i < main->ast->stmts.n; i++)
        if (main->ast->stmts.at[i]->kind == STMT_MODEL)
            vec_push(e->arena, &known, main->ast->stmts.at[i]->name);
    if (unknown_entries(e, known.at, known.n)) return;
    if (known.n == 1) {
        Span top = {.source = main->ast->source};
        diag_span(e->diags, top, "this file has no model: nothing to compile");
        return;
    }
    // For init, all entries that define cells are elaborated in a fixed order: the first definition
    // of a cell gives its initial value.
    bool init = entry_wanted(e, "init"), defined = false;
    if (program.train && (init || entry_wanted(e, "train"))) {
        Before b = elab_before(e);
        entry_train(e, &program, entry_wanted(e, "train"));
        defined = entry_wanted(e, "train") || elab_forgive(e, &b, "train");
    }
    if (program.train && !e->diags->errors && entry_wanted(e, "eval"))
        entry_model(e, program.model, program.file, ENTRY_EVAL, "eval", true,
                    program_evaluate(program.train));
    for (uint32_t i = 0; i < main->ast->stmts.n && !e->diags->errors; i++) {
        const Stmt *s = main->ast->stmts.at[i];
        bool wanted = s->kind == STMT_MODEL && entry_wanted(e, s->name);
        if (s->kind != STMT_MODEL || (!init && !wanted)) continue;
        if (!wanted && s == program.model && defined) continue; // its cells are defined already
        Before b = elab_before(e);
        entry_model(e, s, main, ENTRY_MODEL, s->name, wanted, NULL);
        if (!wanted) elab_forgive(e, &b, s->name);
    }
    if (!e->options->nentries) other_programs(e, program.train);
    if (e->diags->errors) return;
    if (init) entries_init(e);
    if (init && program.train && entry_wanted(e, "train")) entry_first_batch(e, &program);
    collect_cells(e);
}
