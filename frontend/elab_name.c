// Names: locals, the file's and the used files' top level, built-ins; scopes of parameter names.
#include <math.h>
#include <string.h>

#include "frontend/elab.h"

Sym sym_of(Elab *e, const char *dim)
{
    void *at = strmap_get(&e->sym_index, dim);
    if (at) return (Sym)(uintptr_t)at;
    if (e->module->symbols.n >= UINT16_MAX) return 0;
    vec_push(e->arena, &e->module->symbols, dim);
    strmap_set(&e->sym_index, dim, (void *)(uintptr_t)(e->module->symbols.n - 1));
    return (Sym)(e->module->symbols.n - 1);
}

// -- top level ------------------------------------------------------------------------------------
Global *global_find(Elab *e, EFile *f, const char *name, Span span, bool report)
{
    const uint64_t hash = hash_str(name);
    Global *own = strmap_get_hashed(&f->globals, name, hash);
    if (own) return own;
    Global *found = NULL;
    EFile *from = NULL;
    for (uint32_t i = 0; i < f->uses.n; i++) {
        EFile *u = f->uses.at[i];
        Global *g = strmap_get_hashed(&u->globals, name, hash);
        if (!g || g == found) continue;
        if (found && report) {
            fail(e, span, "'%s' is defined by both '%s' and '%s'; write %s.%s", name, from->name,
                 u->name, u->name, name);
            return found;
        }
        found = g;
        from = u;
    }
    if (!found && e->core && f != e->core) found = strmap_get_hashed(&e->core->globals, name, hash);
    return found;
}

// The dimension's value: from -D, otherwise from data, otherwise its default.
static Val dim_value(Elab *e, Global *g, Span span)
{
    const char *name = g->stmt->name;
    DimBinding *b = strmap_get(&e->dims, name);
    if (!b) {
        b = NEW(e->arena, DimBinding);
        b->name = name;
        Val *given = strmap_get(&e->defines, name), v;
        if (given) {
            v = *given;
            b->from = strmap_has(&e->define_used, name) ? DIM_FLAG : DIM_DATA;
        } else if (g->stmt->expr) {
            v = eval(e, g->stmt->expr);
            b->from = DIM_DEFAULT;
        } else {
            if (e->allow_unbound) return val_poison();
            Diag *d = error_at(e, span, "dimension '%s' is not bound", name);
            diag_note_span(e->diags, d, g->stmt->span, "declared here");
            diag_note(e->diags, d,
                      "give it with -D %s=…, by the data, or by a default: "
                      "dim %s = …",
                      name, name);
            return val_poison();
        }
        double size;
        if (v.kind == V_POISON) return v;
        if (!val_number(&v, &size) || !(size > 0 && size < 0x1p63 && size == floor(size))) {
            fail_defined(e, g->stmt, span, "a dimension must be a positive integer",
                         val_text(e, &v));
            return val_poison();
        }
        b->value = v.kind == V_INT ? v.i : (int64_t)size;
        strmap_set(&e->dims, name, b);
    }
    Val v = val_int(b->value);
    v.sym = sym_of(e, name);
    return v;
}

static Val fn_of(Elab *e, Global *g)
{
    Fn *fn = NEW(e->arena, Fn);
    fn->name = g->stmt->name;
    fn->stmt = g->stmt;
    fn->file = g->file;
    fn->sig = fn_signature(e, fn);
    return (Val){.kind = V_FN, .fn = fn};
}

// Remembers that the value is that of a const, so that errors can refer to its definition.
static void note_constant(Elab *e, const Global *g, Val *v)
{
    if (g->file->library || e->constants.n >= UINT16_MAX) return;
    vec_push(e->arena, &e->constants, g->stmt);
    v->constant = (uint16_t)e->constants.n;
}

// Top-level expressions see only the top level of their own file.
static Val eval_global(Elab *e, Global *g, Span span)
{
    Frame frame = {.up = e->frame, .name = g->stmt->name, .file = g->file, .id = ++e->frames};
    frame.vars = strmap_new(e->arena);
    frame.scope = scope_child(e, NULL, "", false);
    frame.call = loc_add(e->diags, span, e->frame ? e->frame->call : 0, g->stmt->name);
    e->frame = &frame;
    Val v;
    const Val *given = strmap_get(&e->defines, g->stmt->name);
    if (g->stmt->kind == STMT_DIM)
        v = dim_value(e, g, span);
    else if (g->stmt->kind == STMT_CONST && given && !g->file->library)
        v = *given;
    else
        v = eval_named(e, g->stmt->expr, g->stmt->name);
    e->frame = frame.up;
    if (g->stmt->kind == STMT_CONST) note_constant(e, g, &v);
    return v;
}

Val global_value(Elab *e, Global *g, Span span)
{
    if (g->state == GLOBAL_DONE) return g->value;
    if (g->state == GLOBAL_RUNNING)
        return fail(e, span, "'%s' is defined by itself", g->stmt->name);
    switch (g->stmt->kind) {
    case STMT_FN:
    case STMT_MODEL: g->value = fn_of(e, g); break;
    case STMT_SETTING: {
        ECell *c = cell_setting(e, g->stmt, g->file);
        g->value = c ? val_cell(c) : val_poison();
        break;
    }
    case STMT_DIM:
    case STMT_CONST:
        g->state = GLOBAL_RUNNING;
        g->value = eval_global(e, g, span);
        if (g->value.kind == V_TENSOR) {
            g->value = fail(e, g->stmt->span, "a const is known at compile time; '%s' is a tensor",
                            g->stmt->name);
        }
        break;
    default: return fail(e, span, "'%s' is not a value", g->stmt->name);
    }
    g->state = GLOBAL_DONE;
    return g->value;
}

// -- lookup ---------------------------------------------------------------------------------------
static bool special_name(Elab *e, const char *name, Span span, Val *out)
{
    DType t;
    if (!strcmp(name, "none")) return *out = val_none(), true;
    if (!strcmp(name, "training")) return *out = val_bool(e->training), true;
    if (!strcmp(name, "pi")) return *out = val_float(3.14159265358979323846), true;
    if (!strcmp(name, "inf")) return *out = val_float(__builtin_inf()), true;
    if (!strcmp(name, "nan")) return *out = val_float(__builtin_nan("")), true;
    if (!strcmp(name, "step") || !strcmp(name, "epoch") || !strcmp(name, "total") ||
        !strcmp(name, "updates")) {
        return *out = val_node(control_f32(e, name, span)), true;
    }
    if (e->train && !strcmp(name, "rest")) return *out = train_rest(e, span), true;
    if (dtype_parse(name, &t)) return *out = (Val){.kind = V_DTYPE, .dtype = t}, true;
    return false;
}

static Fn *builtin_fn(Elab *e, const char *name)
{
    const Builtin *b = builtin_find(name);
    Op op = OP_COUNT;
    bool is_op = !b && op_parse(name, &op) &&
                 (op_info(op)->class == CLS_ELEMENTWISE || op_info(op)->class == CLS_REDUCE) &&
                 op != OP_cast && op_info(op)->arity != VARIADIC;
    if (!b && !is_op) return NULL;
    Fn *fn = NEW(e->arena, Fn);
    *fn = (Fn){.name = arena_strdup(e->arena, name), .builtin = b, .op = op, .is_op = is_op};
    fn->sig = fn_signature(e, fn);
    strmap_set(&e->builtins, fn->name, fn);
    return fn;
}

// The loop whose body assigns names of this function's frame: r if it is such a loop, otherwise
// NULL.
static Region *loop_of_names(const Elab *e, Region *r)
{
    return r && r->frame == e->frame ? r : NULL;
}

static void loops_read(Elab *e, const char *name)
{
    for (Region *r = loop_of_names(e, e->region); r; r = loop_of_names(e, r->up)) {
        if (strmap_has(&r->own, name)) return;
        strmap_set(&r->borrowed, name, r);
    }
}

bool name_try(Elab *e, const char *name, Span span, Val *out)
{
    Val *local = strmap_get(&e->frame->vars, name);
    if (local) return loops_read(e, name), *out = *local, true;
    return name_try_around(e, name, span, out);
}

bool name_try_around(Elab *e, const char *name, Span span, Val *out)
{
    Global *g = global_find(e, e->frame->file, name, span, true);
    if (g) return *out = global_value(e, g, span), true;
    for (uint32_t i = 0; i < e->frame->file->uses.n; i++) {
        EFile *u = e->frame->file->uses.at[i];
        if (!strcmp(u->name, name)) return *out = (Val){.kind = V_FILE, .file = u}, true;
    }
    Fn *fn = strmap_get(&e->builtins, name);
    if (!fn && special_name(e, name, span, out)) return true;
    if (!fn) fn = builtin_fn(e, name);
    *out = (Val){.kind = V_FN, .fn = fn};
    return fn;
}

Val name_value(Elab *e, const char *name, Span span)
{
    Val v;
    if (name_try(e, name, span, &v)) return v;
    const Stmt *fn = e->frame->fn; // models and train blocks may use the names of a model's
                                   // parameters
    if (fn ? fn->kind == STMT_MODEL : e->train != NULL) {
        v = path_value(e, name, span);
        if (v.kind != V_ABSENT) return v;
    }
    return name_unknown(e, name, span, e->sizing == e->frame->id);
}

void name_assign(Elab *e, const char *name, Span span, Val v)
{
    bool lost = false;
    for (Region *r = loop_of_names(e, e->region); r; r = loop_of_names(e, r->up))
        lost |= strmap_has(&r->borrowed, name) && !strmap_has(&r->own, name);
    if (lost && v.kind != V_POISON) {
        Diag *d = error_at(e, span,
                           "'%s' is assigned in a loop that does not carry it: every iteration "
                           "would start with its value from before the loop",
                           name);
        diag_note(e->diags, d,
                  "loop … carry %s passes it from iteration to iteration; a value that only one "
                  "iteration uses needs another name",
                  name);
    }
    name_bind(e, name, v);
}

void name_bind(Elab *e, const char *name, Val v)
{
    if (!strcmp(name, "_")) return;
    Region *loop = loop_of_names(e, e->region);
    if (loop) strmap_set(&loop->own, name, loop);
    Val *slot = strmap_get(&e->frame->vars, name);
    if (!slot) {
        slot = NEW(e->arena, Val);
        strmap_set(&e->frame->vars, name, slot);
    }
    *slot = v;
}

// -- scopes of parameter names --------------------------------------------------------------------
Scope *scope_child(Elab *e, Scope *up, const char *name, bool reuse)
{
    Scope *s = NEW(e->arena, Scope);
    s->up = up;
    s->name = name;
    s->reuse = reuse || (up && up->reuse);
    s->of_cell = up && up->of_cell;
    return s;
}

const char *scope_path(Elab *e, Scope *s)
{
    if (!s) return "";
    if (!s->path) {
        const char *up = scope_path(e, s->up);
        if (!*s->name)
            s->path = up;
        else
            s->path = *up ? arena_printf(e->arena, "%s.%s", up, s->name) : s->name;
    }
    return s->path;
}

// Appends the value of the expression in braces in a quoted name.
static bool put_expression(Elab *e, Buf *out, const char *text, size_t n, Span span)
{
    const char *line = arena_printf(e->arena, "const it = %.*s\n", (int)n, text);
    uint32_t before = e->diags->list.n;
    File *f = parse_source(e->arena, e->diags,
                           source_add(e->diags, "(in a name)", line, strlen(line), false));
    if (e->diags->list.n != before)
        return diag_note_span(e->diags, &e->diags->list.at[before], span, "in this name"), false;
    if (f->stmts.n != 1 || f->stmts.at[0]->kind != STMT_CONST)
        return fail(e, span, "braces in a name hold one expression, as in \"h.{i}\""), false;
    Val v = eval(e, f->stmts.at[0]->expr);
    int64_t number;
    if (e->diags->list.n != before)
        diag_note_span(e->diags, &e->diags->list.at[before], span, "in this name");
    if (v.kind == V_STRING) return buf_str(out, v.s), true;
    if (v.kind == V_POISON || !to_int(e, &v, span, "a number in a name", &number)) return false;
    buf_printf(out, "%lld", (long long)number);
    return true;
}

// Appends a part of a name, with the values of expressions such as "h.{i}" inserted.
static bool put_part(Elab *e, Buf *out, const char *text, Span span)
{
    for (const char *at; (at = strchr(text, '{')); text = at + 1) {
        buf_printf(out, "%.*s", (int)(at - text), text);
        const char *end = strchr(at, '}');
        if (!end) return fail(e, span, "'{' in a name has no '}'"), false;
        if (!put_expression(e, out, at + 1, (size_t)(end - at - 1), span)) return false;
        at = end;
    }
    buf_str(out, text);
    return true;
}

const char *scope_name_text(Elab *e, const ScopeName *s)
{
    Buf b = buf_new(e->arena);
    for (uint32_t i = 0; i < s->parts.n; i++) {
        if (i) buf_char(&b, '.');
        if (!put_part(e, &b, s->parts.at[i].text, s->span)) return NULL;
        if (!s->parts.at[i].index) continue;
        Val v = eval(e, s->parts.at[i].index);
        if (v.kind == V_STRING) {
            buf_printf(&b, ".%s", v.s);
            continue;
        }
        int64_t at;
        if (!to_int(e, &v, s->parts.at[i].index->span, "the index of a name", &at)) return NULL;
        buf_printf(&b, ".%lld", (long long)at);
    }
    return b.data ? b.data : ""; // `as ""`: its parameters are directly in the enclosing scope
}
