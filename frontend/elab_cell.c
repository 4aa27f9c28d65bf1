// Cells: parameters, states, settings and the runtime's own scalars; reading, writing, initial
// values.
#include <string.h>

#include "frontend/elab_survey.h"
#include "base/names.h"

static ECell *cell_find(Elab *e, const char *name)
{
    return strmap_get(&e->cells, name);
}

static ECell *cell_new(Elab *e, const Cell *cell)
{
    ECell *c = NEW(e->arena, ECell);
    c->cell = *cell;
    c->index = e->cell_list.n;
    c->model = e->model;
    c->in_model = e->model != NULL;
    vec_push(e->arena, &e->cell_list, c);
    strmap_set(&e->cells, cell->name, c);
    return c;
}

ECell *cell_control(Elab *e, const char *name)
{
    ECell *c = cell_find(e, name);
    if (c) return c;
    bool sum = !strncmp(name, "@sum.", 5) || !strncmp(name, "@items.", 7);
    Cell cell = {.name = name,
                 .kind = sum ? CELL_SCRATCH : CELL_CONTROL,
                 .type = type_scalar(sum ? DT_F64 : DT_I64)};
    if (!strcmp(name, CELL_LOSS_SCALE))
        cell = (Cell){name, CELL_STATE, type_scalar(DT_F32), .initial = 65536};
    else if (!strcmp(name, CELL_GOOD_STEPS) || !strcmp(name, CELL_SKIPPED))
        cell.kind = CELL_STATE;
    return cell_new(e, &cell);
}

// Cells that the runtime makes have names that begin with '@'. A safetensors file keeps its own
// entries under "__metadata__", so a tensor of that name could be written but not read.
static bool reserved(Elab *e, Loc at, const char *name)
{
    if (*name != '@' && strcmp(name, "__metadata__") != 0) return false;
    diag_error(e->diags, at, "the name '%s' is reserved for %s: choose another", name,
               *name == '@' ? "the runtime" : "checkpoints");
    return true;
}

ECell *cell_counter(Elab *e, const char *name, const Type *t)
{
    ECell *c = cell_find(e, name);
    return c ? c : cell_new(e, &(Cell){.name = name, .kind = CELL_SCRATCH, .type = *t});
}

ECell *cell_setting(Elab *e, const Stmt *s, EFile *f)
{
    ECell *known = cell_find(e, s->name);
    if (known || reserved(e, loc_add(e->diags, s->span, 0, NULL), s->name)) return known;
    Frame frame = {.up = e->frame, .name = s->name, .file = f, .id = ++e->frames};
    frame.vars = strmap_new(e->arena);
    frame.scope = scope_child(e, NULL, "", false);
    frame.call = e->frame ? e->frame->call : 0;
    const Val *given = strmap_get(&e->defines, s->name);
    e->frame = &frame;
    Val v = given ? *given : eval(e, s->expr);
    double initial;
    ECell *c = NULL;
    if (val_number(&v, &initial))
        c = cell_new(e, &(Cell){.name = s->name,
                                .kind = CELL_SETTING,
                                .type = type_scalar(DT_F32),
                                .initial = initial,
                                .loc = loc_add(e->diags, s->span, 0, NULL)});
    else if (v.kind != V_POISON)
        fail_defined(e, s, s->span, "a setting must be a number", val_text(e, &v));
    e->frame = frame.up;
    return c;
}

// -- reading --------------------------------------------------------------------------------------
Node *cell_on_entry(Elab *e, const ECell *c)
{
    Graph *g = e->root;
    Role role = g->role;
    Loc loc = g->loc;
    if (c->cell.loc) g->loc = c->cell.loc;
    g->role = ROLE_FORWARD;
    Op op = c->cell.kind == CELL_PARAM ? OP_param : OP_state;
    Node *n = graph_leaf_cell(g, op, c->cell.name, &c->cell.type);
    g->role = role;
    g->loc = loc;
    return n;
}

static void cell_begin(Elab *e, ECell *c, Span span)
{
    if (c->cur) return;
    Loc outer = e->root->loc;
    e->root->loc = e->g->loc;
    c->cur = cell_on_entry(e, c);
    e->root->loc = outer;
    at_span(e, span);
}

Node *cell_read(Elab *e, ECell *c, Span span)
{
    at_span(e, span);
    // While initial values are elaborated, a cell is read as its initial value: see ECell.init.
    if (e->root == e->init) return own(e, cell_on_entry(e, c), span);
    c->in_model |= e->model != NULL;
    cell_begin(e, c, span);
    return own_cell(e, c, span);
}

// step, epoch, total and updates as f32.
Node *control_f32(Elab *e, const char *name, Span span)
{
    bool total = !strcmp(name, "total");
    Node *n = cell_read(e, cell_control(e, total ? CELL_TOTAL : CELL_STEP), span);
    if (n && e->options->scale_loss && !strcmp(name, "updates")) {
        Node *skipped = cell_read(e, cell_control(e, CELL_SKIPPED), span);
        n = skipped ? graph_binary(e->g, OP_sub, n, skipped) : NULL;
    }
    if (n && !strcmp(name, "epoch")) {
        Node *each = cell_read(e, cell_control(e, CELL_EPOCH_STEPS), span);
        each = graph_binary(e->g, OP_maximum, each, graph_const_int(e->g, DT_I64, 1));
        n = graph_binary(e->g, OP_floordiv, n, each);
    }
    return n ? graph_cast(e->g, n, DT_F32) : NULL;
}

// A cell by its path, looked up in the current scope and then in enclosing ones.
Val path_value(Elab *e, const char *path, Span span)
{
    for (Scope *s = e->frame ? e->frame->scope : NULL; s; s = s->up) {
        const char *up = scope_path(e, s);
        ECell *c = cell_find(e, *up ? arena_printf(e->arena, "%s.%s", up, path) : path);
        if (c && c->cell.kind != CELL_CONTROL) return with_value(e, c, span);
    }
    ECell *c = cell_find(e, path);
    return c && c->cell.kind != CELL_CONTROL ? with_value(e, c, span) : (Val){.kind = V_ABSENT};
}

// -- defining -------------------------------------------------------------------------------------

// The initial value of a cell may depend on the inputs of a model: then it is computed from the
// first batch (cell.first_batch). The init graph, which only needs its type, has a placeholder for
// it.
bool cell_of_inputs(Elab *e, Node *n)
{
    IdMap seen = idmap_new(e->arena);
    VEC(const Node *) list = {0};
    vec_push(e->arena, &list, n);
    for (uint32_t i = 0; e->model && i < list.n; i++) {
        const Node *x = list.at[i];
        if (x->op == OP_input || x->op == OP_region_param)
            return true; // the parameter of a loop
                         // may be an input
        for (uint32_t k = 0; k < x->nargs; k++) {
            if (idmap_get(&seen, (uintptr_t)x->args[k], NULL)) continue;
            idmap_set(&seen, (uintptr_t)x->args[k], 1);
            vec_push(e->arena, &list, x->args[k]);
        }
    }
    return false;
}

Node *cell_stand_in(Elab *e, const Node *n)
{
    e->reads_inputs = true;
    return graph_leaf_cell(e->init, OP_state, "", &n->type);
}

// Evaluates the initial value in the current graph.
static Val initial_value(Elab *e, ECell *c, const Expr *x)
{
    Scope *outer = e->frame->scope;
    e->frame->scope = scope_child(e, NULL, c->cell.name, false);
    Val v = eval(e, x);
    c->cell.begins = val_source(e, &v, x->span);
    if (v.kind == V_FN) { // such as uniform(-a, a), which still needs a shape
        Val shape = val_seq(e, V_LIST, c->cell.type.rank);
        for (int i = 0; i < c->cell.type.rank; i++) {
            shape.seq->at[i] = val_int(c->cell.type.dim[i]);
            shape.seq->at[i].sym = c->cell.type.sym[i];
        }
        v = call_leading(e, v, &shape, 1, x->span, scope_child(e, e->frame->scope, "", false));
    }
    e->frame->scope = outer;
    return v;
}

// Converts the value to the cell's type; NULL after reporting an error.
static Node *initial_node(Elab *e, const ECell *c, const Val *v, const Expr *x)
{
    const Type *t = &c->cell.type;
    Node *n = to_tensor(e, v, t->dtype, x->span);
    DType joined;
    at_span(e, x->span);
    if (n && n->type.dtype != t->dtype) {
        if (dtype_is_float(n->type.dtype) != dtype_is_float(t->dtype) &&
            !dtype_join(n->type.dtype, t->dtype, &joined)) {
            fail(e, x->span, "'%s' is %s, its initial value %s", c->cell.name, type_text(e, t),
                 type_text(e, &n->type));
            return NULL;
        }
        n = graph_cast(e->g, n, t->dtype);
    }
    if (n) n = graph_broadcast_to(e->g, n, t);
    return n && !node_is_poison(n) ? n : NULL;
}

typedef struct Place { // where nodes are created
    Graph *g, *root;
    Region *region;
    With *with;
} Place;

static Place move(Elab *e, Place to)
{
    Place from = {e->g, e->root, e->region, e->with};
    e->g = to.g;
    e->root = to.root;
    e->region = to.region;
    e->with = to.with;
    return from;
}

// Sets the initial value of a cell: a number if it is constant, otherwise a node of the init graph.
static bool define_initial(Elab *e, ECell *c, const Expr *x)
{
    if (!x) return true;
    bool outer = e->reads_inputs;
    e->reads_inputs = false;
    Place from = move(e, (Place){e->init, e->init, NULL, NULL});
    Val v = initial_value(e, c, x);
    bool ok = v.kind != V_POISON;
    double number;
    if (ok && val_number(&v, &number) && !(dtype_is_int(c->cell.type.dtype) && v.kind == V_FLOAT)) {
        c->cell.initial = number;
    } else if (ok && v.kind == V_BOOL) {
        c->cell.initial = v.b;
    } else if (ok) {
        Node *n = initial_node(e, c, &v, x);
        ok = n != NULL;
        if (ok && graph_known_value(e->init, n, &number))
            c->cell.initial = number;
        else if (ok && e->reads_inputs)
            c->cell.first_batch = true;
        else if (ok)
            c->init = n;
    }
    e->reads_inputs = outer;
    move(e, from);
    return ok;
}

// In ENTRY_FIRST_BATCH, code after the definition reads the initial value as the cell's value.
static bool define_first(Elab *e, ECell *c, const Expr *x)
{
    Place from = move(e, (Place){e->root, e->root, NULL, NULL});
    Val v = initial_value(e, c, x);
    if (v.kind != V_POISON) c->first = initial_node(e, c, &v, x);
    move(e, from);
    c->cur = c->first;
    return c->first != NULL;
}

// The source place for errors about a name: the call that opened its scope, otherwise the
// definition.
static Loc blame(Elab *e, Span span)
{
    return e->frame->call ? e->frame->call : loc_add(e->diags, span, 0, NULL);
}

static ECell *clash(Elab *e, const Stmt *s, ECell *c, Scope *scope)
{
    const char *what = s->kind == STMT_PARAM ? "parameter" : "state";
    Diag *d = diag_error(e->diags, blame(e, s->name_span), "%s '%s' is already defined", what,
                         c->cell.name);
    if (c->cell.loc)
        diag_note_span(e->diags, d, loc_user_span(e->diags, c->cell.loc), "first here");
    const char *name = *scope_path(e, scope) ? scope_path(e, scope) : "name";
    const char *q = strchr(name, '.') ? "\"" : ""; // paths are written in quotes
    diag_note(e->diags, d,
              "name each call, as in … as %s%s2%s (in a 'for': as \"%s{i}\"); to share one "
              "set of parameters write … reuse %s%s%s",
              q, name, q, name, q, name, q);
    return NULL;
}

// A layer 'w' beside a parameter 'w' can have a state 'w.m', and so can the update of 'w'.
static ECell *two_owners(Elab *e, const ECell *c, Span span)
{
    Diag *d = diag_error(e->diags, blame(e, span),
                         "'%s' is the name of two tensors: one of a call in a model, and one that "
                         "an update, or 'with', gives to a parameter",
                         c->cell.name);
    if (c->cell.loc)
        diag_note_span(e->diags, d, loc_user_span(e->diags, c->cell.loc), "first here");
    diag_note(e->diags, d, "give the call another name (… as NAME) than the parameter has");
    return NULL;
}

static ECell *cell_define(Elab *e, const Stmt *s, CellKind kind, const char *full, const Type *t,
                          Scope *scope)
{
    ECell *c = cell_find(e, full);
    Span span = s->name_span.end ? s->name_span : s->span;
    bool of_cell = scope && scope->of_cell;
    if (c) {
        if (c->of_cell != of_cell) return two_owners(e, c, span);
        bool reuse = scope && scope->reuse;
        if (c->defined_in == e->elaboration && !reuse) return clash(e, s, c, scope);
        if (!type_equal(&c->cell.type, t) || (kind == CELL_PARAM) != (c->cell.kind == CELL_PARAM)) {
            Diag *d = error_at(e, span, "'%s' is %s here, but was defined as %s", full,
                               type_text(e, t), type_text(e, &c->cell.type));
            if (c->cell.loc)
                diag_note_span(e->diags, d, loc_user_span(e->diags, c->cell.loc), "first here");
            diag_note(e->diags, d,
                      "parameters of one name are shared; their shapes and types "
                      "must agree");
            return NULL;
        }
        c->defined_in = e->elaboration;
        if (!e->first_batch || !c->cell.first_batch || c->first) return c;
        return define_first(e, c, s->expr) ? c : NULL;
    }
    if (scope && scope->reuse) {
        const char **names = NEW_ARRAY(e->arena, const char *, e->cell_list.n + 1);
        for (uint32_t i = 0; i < e->cell_list.n; i++) names[i] = e->cell_list.at[i]->cell.name;
        diag_error(e->diags, blame(e, span), "nothing named '%s' to reuse%s", full,
                   advise(full, names, e->cell_list.n).text);
        return NULL;
    }
    if (reserved(e, blame(e, span), full)) return NULL;
    c = cell_new(e, &(Cell){.name = full,
                            .kind = kind,
                            .type = *t,
                            .frozen = s->kind == STMT_PARAM && s->flag,
                            .loc = loc_add(e->diags, span, e->frame->call, NULL)});
    c->defined_in = e->elaboration;
    c->of_cell = of_cell;
    return define_initial(e, c, s->expr) ? c : NULL;
}

void exec_param(Elab *e, const Stmt *s)
{
    Type t;
    name_bind(e, s->name, val_poison());
    if (e->root == e->init) {
        fail(e, s->span, "an initial value cannot define parameters");
        return;
    }
    for (Region *r = e->region; r; r = r->up)
        if (r->no_cells) {
            fail(
                e, s->span,
                "a function with its own gradient cannot hold parameters; pass '%s' as an argument",
                s->name);
            return;
        }
    if (!s->type) {
        fail(e, s->span, "'%s' needs a type, as in %s: f32[3]", s->name, s->name);
        return;
    }
    if (!eval_type(e, s->type, &t)) return;
    if (s->kind == STMT_PARAM && !dtype_is_float(t.dtype)) {
        fail(e, s->type->span, "a parameter is trained and must be a float; use 'state' for %s",
             type_text(e, &t));
        return;
    }
    const char *path = scope_path(e, e->frame->scope);
    const char *full = *path ? arena_printf(e->arena, "%s.%s", path, s->name) : s->name;
    CellKind kind = s->kind == STMT_PARAM ? CELL_PARAM : s->flag ? CELL_SCRATCH : CELL_STATE;
    ECell *c = cell_define(e, s, kind, full, &t, e->frame->scope);
    if (!c) return;
    survey_value(e, s->name_span, &(Val){.kind = V_CELL, .cell = c});
    name_bind(e, s->name, with_value(e, c, s->name_span.end ? s->name_span : s->span));
}

// -- writing --------------------------------------------------------------------------------------
void cell_set(Elab *e, ECell *c, Node *n)
{
    c->cur = n;
    c->written = true;
    c->writer = e->frame ? e->frame->id : 0;
    c->with = e->with;
    c->pass = e->pass;
    e->writes++;
}

Node *stored_as(Elab *e, Node *n, const Type *t, const char *name, Span span)
{
    if (n->type.dtype == t->dtype) return n;
    if (dtype_is_float(n->type.dtype) && dtype_is_float(t->dtype))
        return graph_cast(e->g, n, t->dtype);
    const char *what = name ? arena_printf(e->arena, "'%s'", name) : "what is written";
    Diag *d = error_at(e, span, "%s is %s, the new value %s", what, type_text(e, t),
                       type_text(e, &n->type));
    diag_note(e->diags, d, "write cast(…, %s)", dtype_info[t->dtype].name);
    return NULL;
}

static void cell_write(Elab *e, ECell *c, Val v, Span span, Span value_span)
{
    const Type *t = &c->cell.type;
    if (c->cell.kind == CELL_SETTING || c->cell.kind == CELL_CONTROL) {
        fail(e, span, "'%s' is set from outside and cannot be written", c->cell.name);
        return;
    }
    if (e->root == e->init) {
        fail(e, span, "an initial value cannot write '%s'", c->cell.name);
        return;
    }
    // An `update` continues with what the one before it has written, and so does a call that shares
    // a state, such as a batch norm that is applied twice, unless their weights differ.
    if (c->written && c->writer != e->frame->id && (!c->pass || c->pass == e->pass) &&
        (c->cell.kind == CELL_PARAM || c->with != e->with)) {
        Diag *d = error_at(e, span, "'%s' is written by two calls", c->cell.name);
        if (c->cell.kind != CELL_PARAM)
            diag_note(e->diags, d,
                      "one of them runs with other weights (with …), whose statistics would mix "
                      "with the layer's own. evaluated(f)(…) calls f as outside of training: it "
                      "reads running statistics and writes none");
        return;
    }
    c->in_model |= e->model != NULL;
    Node *n = to_tensor(e, &v, t->dtype, value_span);
    if (!n) return;
    at_span(e, span);
    if (!(n = stored_as(e, n, t, c->cell.name, span))) return;
    Type both;
    if (!shape_broadcast(&n->type, t, &both) || !shape_equal(&both, t)) {
        fail(e, span, "'%s' is %s, the new value %s", c->cell.name, type_text(e, t),
             type_text(e, &n->type));
        return;
    }
    n = graph_unary(e->g, OP_stop_gradient, graph_broadcast_to(e->g, n, t));
    cell_begin(e, c, span);
    if (loops_carry(e, c))
        cell_set(e, c, n);
    else
        fail(e, span,
             "'%s' is written in a function with its own gradient; return the value and write it "
             "where the function is called",
             c->cell.name);
}

void cell_leaves_loop(Elab *e, ECell *c, Node *n)
{
    if (loops_carry(e, c)) c->cur = n; // (always possible, since the loop could write the cell)
}

void exec_update_cell(Elab *e, const Stmt *s)
{
    const Expr *target = s->target, *index = NULL;
    if (target->kind == EXPR_INDEX) index = target, target = target->a;
    uint32_t errors = e->diags->errors;
    Val cell = eval(e, target);
    if (cell.kind == V_POISON) return;
    if (cell.kind != V_CELL) {
        bool named = e->region && target->kind == EXPR_NAME && e->diags->errors == errors;
        if (named && path_value(e, target->text, target->span).kind == V_CELL)
            fail(e, target->span,
                 "'%s' is a value that the loop carries; to write the state of that name, do not "
                 "carry it",
                 target->text);
        else if (e->diags->errors == errors)
            fail(e, target->span, "<- writes a state or a parameter, found %s; %s",
                 val_text(e, &cell),
                 index ? "a value cannot be changed; compute a new one: scatter(x, index, values), "
                         "where(condition, a, x)"
                       : "= gives a name to a value");
        return;
    }
    Val v = eval(e, s->expr);
    if (v.kind == V_POISON) return;
    if (index) {
        Node *base = cell_read(e, cell.cell, target->span);
        if (!base) return;
        v = index_update(e, index, base, v);
        if (v.kind == V_POISON) return;
    }
    cell_write(e, cell.cell, v, s->target->span, s->expr->span);
}

void cells_begin_entry(Elab *e)
{
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        c->cur = NULL;
        c->written = c->updated = c->in_set = false;
    }
    e->sites = strmap_new(e->arena);
}

void cells_assign_roots(Elab *e)
{
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (c->written) graph_root(e->root, OP_assign, c->cur, c->cell.name);
    }
}
