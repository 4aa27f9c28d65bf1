// Statements of functions and models.
#include <string.h>

#include "frontend/elab_survey.h"

enum { MAX_UNROLLED = 4 * 1000 * 1000 };

// A tensor keeps the first name that the model gives it, which kernels and errors use. A name given
// by the standard library is replaced by one of the model.
static void name_node(Elab *e, const char *name, const Val *v)
{
    if (v->kind != V_TENSOR || !strcmp(name, "_") || node_class(v->node) == CLS_LEAF) return;
    bool library = e->frame->file->library;
    uint64_t of_library = 0;
    idmap_get(&e->std_names, (uintptr_t)v->node, &of_library);
    if (v->node->name && (library || !of_library)) return;
    const char *path = scope_path(e, e->frame->scope);
    v->node->name = *path ? arena_printf(e->arena, "%s.%s", path, name) : name;
    if (library != (bool)of_library) idmap_set(&e->std_names, (uintptr_t)v->node, library);
}

// A name for a cell is bound to its current value: later writes do not change it.
static Val snapshot(Elab *e, Val v, Span span)
{
    if (v.kind != V_CELL) return v;
    return val_node(cell_read(e, v.cell, span));
}

static bool is_argument(const Frame *f, const char *name)
{
    for (uint32_t i = 0; f->fn && i < f->fn->params.n; i++)
        if (!strcmp(f->fn->params.at[i].name, name)) return true;
    return false;
}

// `s = …` where s is a cell defined here, or the parameter that an update is called for, was meant
// as `s <- …`. Another function's argument may be given a new value, whether the caller passed a
// cell or not.
static bool hides_cell(Elab *e, const char *name, Span span)
{
    const Frame *f = e->frame;
    const Val *old = strmap_get(&f->vars, name);
    if (!old || old->kind != V_CELL) return false;
    const char *path = scope_path(e, f->scope);
    const char *full = *path ? arena_printf(e->arena, "%s.%s", path, name) : name;
    bool own = !is_argument(f, name) && !strcmp(full, old->cell->cell.name);
    bool update = e->g->role == ROLE_UPDATE && f->fn && !f->up->fn && f->fn->params.n &&
                  !strcmp(f->fn->params.at[0].name, name);
    if (!own && !update) return false;
    fail(e, span, "'%s' is a %s; write '%s <- …' to change it", name,
         old->cell->cell.kind == CELL_PARAM ? "parameter" : "state", name);
    return true;
}

static void exec_let(Elab *e, const Stmt *s)
{
    bool one = s->names.n == 1;
    Val v = eval_named(e, s->expr, one ? s->names.at[0].name : NULL);
    v = bounded(e, v, s->expr->span);
    if (one) {
        const Item *item = &s->names.at[0];
        if (hides_cell(e, item->name, item->name_span)) return;
        v = snapshot(e, v, s->expr->span);
        survey_value(e, item->name_span, &v);
        name_assign(e, item->name, item->name_span, v);
        name_node(e, item->name, &v);
        return;
    }
    uint32_t n;
    bool fits = seq_length(&v, &n) && n == s->names.n;
    if (!fits && v.kind != V_POISON)
        fail(e, s->expr->span, "%u names for %s", s->names.n, val_text(e, &v));
    for (uint32_t i = 0; i < s->names.n; i++) {
        Val item = fits ? snapshot(e, seq_item(e, &v, i), s->expr->span) : val_poison();
        survey_value(e, s->names.at[i].name_span, &item);
        name_assign(e, s->names.at[i].name, s->names.at[i].name_span, item);
        name_node(e, s->names.at[i].name, &item);
    }
}

// `return a, b = f(x)` returns a value a and, as b, all that f returns. If there is no a, both were
// meant to be results of f.
static void note_results_of_call(Elab *e, const Stmt *s, uint32_t i)
{
    const Item *last = &s->items.at[s->items.n - 1];
    bool names = last->name && last->value->kind == EXPR_CALL && e->diags->list.n;
    for (uint32_t k = 0; k + 1 < s->items.n; k++)
        names = names && !s->items.at[k].name && s->items.at[k].value->kind == EXPR_NAME;
    if (names && i + 1 < s->items.n)
        diag_note_span(e->diags, &e->diags->list.at[e->diags->list.n - 1], last->name_span,
                       "a name in a return stands for one value; to return those of one call, "
                       "name them on a line before");
}

static void exec_return(Elab *e, const Stmt *s)
{
    Frame *f = e->frame;
    f->returned = true;
    if (s->items.n == 0) {
        f->result = val_none();
        return;
    }
    bool model = f->fn && f->fn->kind == STMT_MODEL, named = model;
    Val v = val_seq(e, V_TUPLE, s->items.n);
    v.seq->names = NEW_ARRAY(e->arena, const char *, s->items.n);
    Span *spans = NEW_ARRAY(e->arena, Span, s->items.n);
    v.seq->spans = spans;
    for (uint32_t i = 0; i < s->items.n; i++) {
        const Item *item = &s->items.at[i];
        spans[i] = item->value->span;
        const char *name = item->name;
        if (!name && model && item->value->kind == EXPR_NAME) name = item->value->text;
        uint32_t errors = e->diags->list.n;
        Val r = name ? eval_named(e, item->value, name) : eval(e, item->value);
        if (e->diags->list.n > errors) note_results_of_call(e, s, i);
        if (model) r = snapshot(e, r, item->value->span);
        if (item->name) name_node(e, item->name, &r);
        v.seq->at[i] = r;
        v.seq->names[i] = name;
        named |= item->name != NULL;
    }
    if (!named) v.seq->names = NULL;
    f->result = s->items.n == 1 && !named ? v.seq->at[0] : v;
}

static void bind_loop_names(Elab *e, const Stmt *s, Val item)
{
    uint32_t n;
    if (s->names.n == 1) {
        survey_value(e, s->names.at[0].name_span, &item);
        name_bind(e, s->names.at[0].name, item);
        return;
    }
    bool fits = seq_length(&item, &n) && n == s->names.n;
    if (!fits) fail(e, s->span, "%u names for %s", s->names.n, val_text(e, &item));
    for (uint32_t i = 0; i < s->names.n; i++)
        name_bind(e, s->names.at[i].name, fits ? seq_item(e, &item, i) : val_poison());
}

static void exec_for(Elab *e, const Stmt *s)
{
    Val over = eval(e, s->expr);
    uint32_t n;
    if (over.kind == V_POISON) return;
    if (val_is_tensor(&over)) {
        fail(e, s->expr->span,
             "'for' unrolls over a list or a range known at compile time, found "
             "%s; a 'loop' runs over a tensor",
             val_text(e, &over));
        return;
    }
    if (!seq_length(&over, &n)) {
        fail(e, s->expr->span, "'for' needs a list or a range, found %s", val_text(e, &over));
        return;
    }
    for (uint32_t i = 0; i < n && !e->frame->returned; i++) {
        if (++e->unrolled > MAX_UNROLLED) {
            fail(e, s->expr->span,
                 "'for' unrolls at compile time, and this is too much: more than %d iterations; a "
                 "'loop' repeats at run time",
                 MAX_UNROLLED);
            return;
        }
        uint32_t errors = e->diags->errors;
        bind_loop_names(e, s, seq_item(e, &over, i));
        exec_block(e, s->body);
        if (e->diags->errors != errors) return; // further iterations would only repeat the error
    }
}

static void exec_if(Elab *e, const Stmt *s)
{
    bool c;
    if (!eval_bool(e, s->expr, "the condition of 'if'", &c)) {
        // The result of a library function is then unknown; errors caused by this would not help
        // the user.
        if (e->frame->file->library) e->frame->returned = true, e->frame->result = val_poison();
        return;
    }
    if (c)
        exec_block(e, s->body);
    else if (s->orelse)
        exec_block(e, s->orelse);
}

static void exec_tap(Elab *e, const Stmt *s)
{
    Val v = eval(e, s->expr);
    const char *name = NULL;
    if (s->scope)
        name = scope_name_text(e, s->scope);
    else if (s->expr->kind == EXPR_NAME)
        name = s->expr->text;
    else if (v.kind != V_POISON)
        fail(e, s->span, "a tap needs a name: tap … as name");
    if (!name || v.kind == V_POISON) return;
    if (e->region) {
        if (!region_is_micro(e->region))
            fail(e, s->span, "a tap inside a loop; emit the value and tap it after the loop");
        return;
    }
    Node *n = to_tensor(e, &v, DT_COUNT, s->expr->span);
    if (!n || e->root == e->init) return;
    bool top = e->train && !e->frame->fn; // taps of a train block are named without a scope
    const char *path = top ? "" : scope_path(e, e->frame->scope);
    const char *full = *path ? arena_printf(e->arena, "%s.%s", path, name) : name;
    for (uint32_t i = 0; i < e->root->roots.n; i++) {
        const char *other = attr_str(e->root->roots.at[i], ATTR_name);
        if (e->root->roots.at[i]->op == OP_output && other && !strcmp(other, full)) {
            if (!e->replay) fail(e, s->span, "two taps or outputs are named '%s'", full);
            return;
        }
    }
    Attrs attrs = {0};
    attr_set_str(e->g, &attrs, ATTR_name, full);
    attr_set_str(e->g, &attrs, ATTR_kind, "tap");
    at_span(e, s->span);
    graph_node(e->g, OP_output, &n, 1, &attrs);
}

static void exec_assert(Elab *e, const Stmt *s)
{
    Val v = eval(e, s->expr);
    if (v.kind == V_POISON) return;
    if (v.kind == V_BOOL) {
        if (!v.b) fail(e, s->expr->span, "assertion failed: %s", s->name);
        return;
    }
    Node *n = to_tensor(e, &v, DT_COUNT, s->expr->span);
    if (!n || e->root == e->init || e->replay) return;
    if (n->type.dtype != DT_BOOL) {
        fail(e, s->expr->span, "assert needs a bool, found %s", type_text(e, &n->type));
        return;
    }
    at_span(e, s->span);
    region_assert(e, n, s->name);
}

// How to continue a statement on the line of s, where s begins like the rest of a sum.
static const char *if_continued(Elab *e, const Stmt *s)
{
    return e->diags->sources.at[s->span.source].text[s->span.begin] == '-'
               ? " or, to continue the line before, end that line with '-'"
               : "";
}

static void exec_expr(Elab *e, const Stmt *s)
{
    const uint32_t effects = e->effects;
    Val v = eval(e, s->expr);
    const char *lack = v.kind == V_FN ? fn_lack(e, v.fn) : NULL;
    bool call = s->expr->kind == EXPR_CALL || s->expr->kind == EXPR_AS ||
                s->expr->kind == EXPR_REUSE || s->expr->kind == EXPR_WITH;
    if (lack && call)
        fail(e, s->span, "this call does nothing: '%s' %s", v.fn->name, lack);
    else if (v.kind != V_POISON && (!call || (v.kind != V_NONE && e->effects == effects)))
        fail(e, s->span, "this value is not used; give it a name with =%s", if_continued(e, s));
}

// Whether a statement does more than give values. An `if` of a user's function does: it may choose
// whether to report an error.
static bool has_effect(const Elab *e, const Stmt *s)
{
    switch (s->kind) {
    case STMT_UPDATE_CELL:
    case STMT_PARAM:
    case STMT_STATE:
    case STMT_TAP:
    case STMT_ASSERT: return true;
    case STMT_IF: return !e->frame->file->library;
    default: return false;
    }
}

void exec(Elab *e, const Stmt *s)
{
    if (out_of_bounds(e, s->span)) {
        e->frame->returned = true;
        return;
    }
    e->effects += has_effect(e, s);
    if (e->train && exec_train_stmt(e, s)) return;
    switch (s->kind) {
    case STMT_LET: exec_let(e, s); break;
    case STMT_UPDATE_CELL: exec_update_cell(e, s); break;
    case STMT_EXPR: exec_expr(e, s); break;
    case STMT_RETURN: exec_return(e, s); break;
    case STMT_FOR: exec_for(e, s); break;
    case STMT_IF: exec_if(e, s); break;
    case STMT_PARAM:
    case STMT_STATE: exec_param(e, s); break;
    case STMT_LOOP: exec_loop(e, s); break;
    case STMT_EMIT: exec_emit(e, s); break;
    case STMT_TAP: exec_tap(e, s); break;
    case STMT_ASSERT: exec_assert(e, s); break;
    default: fail(e, s->span, "this statement does not belong here"); break;
    }
}

void exec_block(Elab *e, const Block *b)
{
    for (uint32_t i = 0; i < b->stmts.n && !e->frame->returned; i++) {
        const Stmt *s = b->stmts.at[i], *next = i + 1 < b->stmts.n ? b->stmts.at[i + 1] : NULL;
        if (s->kind == STMT_RETURN && next) // most likely a result whose comma was forgotten
            fail(e, next->span,
                 "this is behind a 'return' and has no effect; results that go on in the next line "
                 "need a comma before it%s",
                 if_continued(e, next));
        exec(e, s);
    }
}
