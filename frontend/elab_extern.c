// extern fn f(x) from "f.cu" { … } grad(dy) { … }: user-written kernels become a node that holds
// their text, their launches and, as regions, their reference and their gradient.
#include <string.h>

#include "base/names.h"
#include "base/plain.h"
#include "frontend/elab.h"

enum {
    MOST_THREADS = 1024,
    MOST_DEEP = 64,
    MOST_ACROSS = 65535
}; // limits of a block and of a
   // grid

typedef struct Extern {
    Elab *e;
    Fn *fn;
    const Stmt *s;
    Val *args; // by parameter
    Span span; // of the call
    Scope *scope;
    VEC(const char *) names; // of operands, then results
    VEC(Node *) operands;
    VEC(Type) results;
    VEC(int64_t) launch; // value of the attribute
    Buf kernels, symbols;
    const char *source, *cpu;
    Graph *region[2];
} Extern;

// -- the text -------------------------------------------------------------------------------------

static bool word_char(char c)
{
    return plain_alnum(c) || c == '_';
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n)
        if ((p == text || !word_char(p[-1])) && !word_char(p[n])) return true;
    return false;
}

// The text of the file after a line that names the file. Each file is read only once.
static const char *read_text(Extern *x, const char *name, Span span)
{
    Elab *e = x->e;
    const char *path = name;
    size_t len = 0;
    const char *text = file_text(e, x->fn->file, name, &len, &path);
    if (!text) {
        fail(e, span, "cannot read '%s'", path ? path : name);
        return NULL;
    }
    if (memchr(text, 0, len)) {
        fail(e, span, "'%s' is not text: it holds a zero byte", path ? path : name);
        return NULL;
    }
    const char *key = arena_strdup(e->arena, path ? path : name);
    const char *known = strmap_get(&e->texts, key);
    if (known) return known;
    path = key;
    uint32_t source = source_add(e->diags, path, text, len, false);
    path = e->diags->sources.at[source].shown;
    Buf b = buf_new(e->arena);
    buf_str(&b, "#line 1 \"");
    for (const char *p = path; *p; p++) buf_printf(&b, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    buf_str(&b, "\"\n");
    buf_bytes(&b, text, len);
    strmap_set(&e->texts, key, b.data);
    return b.data;
}

// -- launches -------------------------------------------------------------------------------------

static bool read_sizes(Extern *x, const Item *item, int64_t *out, int most)
{
    Val v = eval(x->e, item->value);
    int n = 1;
    if (v.kind == V_POISON) return false;
    if (v.kind == V_LIST || v.kind == V_TUPLE)
        return to_ints(x->e, &v, item->value->span, out, most, &n);
    return to_int(x->e, &v, item->value->span, item->name, out);
}

static bool check_launch(Extern *x, const Stmt *s, const int64_t size[EXTERN_LAUNCH])
{
    static const char *const axes = "xyz";
    const int64_t most[] = {INT32_MAX,    MOST_ACROSS,  MOST_ACROSS,
                            MOST_THREADS, MOST_THREADS, MOST_DEEP};
    for (int i = 0; i < 6; i++) {
        const char *what = i < 3 ? "grid" : "block";
        if (size[i] < 1)
            return fail(x->e, s->span, "a %s of %lld along %c launches nothing", what,
                        (long long)size[i], axes[i % 3]),
                   false;
        if (size[i] > most[i])
            return fail(x->e, s->span, "a %s of %lld along %c; a GPU takes %lld at most", what,
                        (long long)size[i], axes[i % 3], (long long)most[i]),
                   false;
    }
    int64_t threads = size[3] * size[4] * size[5];
    if (threads > MOST_THREADS)
        return fail(x->e, s->span, "a block of %lld threads; a GPU takes %d at most",
                    (long long)threads, MOST_THREADS),
               false;
    if (size[6] < 0 || size[6] > INT32_MAX)
        return fail(x->e, s->span, "%lld bytes of shared memory", (long long)size[6]), false;
    return true;
}

// Prints a number, a bool or an element type as C++ source.
static bool print_constant(Extern *x, const Expr *arg, bool types)
{
    Val v = eval(x->e, arg);
    switch (v.kind) {
    case V_POISON: return false;
    case V_INT:
        buf_printf(&x->kernels, v.i == (int32_t)v.i ? "%lld" : "%lldll", (long long)v.i);
        return true;
    case V_FLOAT: buf_printf(&x->kernels, "%a", v.f); return true;
    case V_BOOL: buf_str(&x->kernels, v.b ? "true" : "false"); return true;
    default: break;
    }
    Diag *d = error_at(x->e, arg->span, "%s cannot be passed to a kernel", val_text(x->e, &v));
    diag_note(
        x->e->diags, d,
        types ? "the numbers in brackets must be known at compile time"
              : "a kernel takes operands and outputs, by name, and numbers known at compile time");
    return false;
}

// Prints scan_fwd[9](x, y, 6) as scan_fwd<9>($0,$2,6).
static bool print_call(Extern *x, const Stmt *s)
{
    Elab *e = x->e;
    buf_printf(&x->kernels, "%s%s", x->kernels.len ? " " : "", s->name);
    const Expr *list = s->expr;
    bool many = list && list->kind == EXPR_TUPLE;
    for (uint32_t i = 0; list && i < (many ? list->items.n : 1); i++) {
        buf_char(&x->kernels, i ? ',' : '<');
        if (!print_constant(x, many ? list->items.at[i].value : list, true)) return false;
    }
    buf_str(&x->kernels, list ? ">(" : "(");
    for (uint32_t i = 0; i < s->names.n; i++) {
        const Expr *arg = s->names.at[i].value;
        uint32_t at = 0;
        if (s->names.at[i].name) {
            fail(e, s->names.at[i].name_span,
                 "a kernel takes its arguments in order, without names");
            return false;
        }
        if (i) buf_char(&x->kernels, ',');
        while (at < x->names.n && (arg->kind != EXPR_NAME || strcmp(x->names.at[at], arg->text)))
            at++;
        if (at < x->names.n)
            buf_printf(&x->kernels, "$%u", at);
        else if (!print_constant(x, arg, false))
            return false;
    }
    buf_char(&x->kernels, ')');
    return true;
}

static bool read_launch(Extern *x, const Stmt *s)
{
    static const char *const keys[] = {"grid", "block", "shared"};
    Elab *e = x->e;
    int64_t size[EXTERN_LAUNCH] = {1, 1, 1, 1, 1, 1, 0};
    bool given[3] = {false};
    if (!has_word(x->source, s->name)) {
        fail(e, s->name_span, "'%s' has no kernel '%s'", x->s->text, s->name);
        return false;
    }
    if (!print_call(x, s)) return false;
    for (uint32_t i = 0; i < s->items.n; i++) {
        const Item *item = &s->items.at[i];
        size_t k = 0;
        while (k < 3 && strcmp(item->name, keys[k])) k++;
        if (k == 3 || given[k]) {
            fail(e, item->name_span, k == 3 ? "a launch has no '%s'%s" : "'%s' is given twice%s",
                 item->name, k == 3 ? advise_near(item->name, keys, 3).text : "");
            return false;
        }
        given[k] = true;
        if (!read_sizes(x, item, &size[3 * k], k < 2 ? 3 : 1)) return false;
    }
    if (!given[0] || !given[1]) {
        fail(e, s->span, "a launch needs its grid and its block: grid = …, block = …");
        return false;
    }
    if (!check_launch(x, s, size)) return false;
    for (int i = 0; i < EXTERN_LAUNCH; i++) vec_push(e->arena, &x->launch, size[i]);
    return true;
}

// -- regions --------------------------------------------------------------------------------------

static const Stmt *find(const Extern *x, StmtKind kind)
{
    for (uint32_t i = 0; i < x->s->body->stmts.n; i++)
        if (x->s->body->stmts.at[i]->kind == kind) return x->s->body->stmts.at[i];
    return NULL;
}

static bool once(Extern *x, StmtKind kind, const char *what, bool needed)
{
    const Stmt *first = find(x, kind);
    if (!first && needed)
        return fail(x->e, x->s->name_span, "'%s' has no %s", x->fn->name, what), false;
    for (uint32_t i = 0; i < x->s->body->stmts.n; i++) {
        const Stmt *s = x->s->body->stmts.at[i];
        if (s->kind == kind && s != first)
            return fail(x->e, s->span, "'%s' has a %s already", x->fn->name, what), false;
    }
    return true;
}

void text_frame(Elab *e, const Fn *fn, const Stmt *s, Span call, Scope *scope, Frame *f)
{
    *f = (Frame){.up = e->frame, .fn = s, .name = fn->name, .file = fn->file};
    f->id = ++e->frames;
    f->vars = strmap_new(e->arena);
    f->scope = scope;
    f->call = loc_add(e->diags, call, e->frame->call, fn->name);
    f->result = val_none();
    e->frame = f;
}

// Binds the parameters inside a region: tensors become parameters of the region.
static void bind_operands(Extern *x, Region *r)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < x->s->params.n; i++) {
        bool tensor = at < x->operands.n && !strcmp(x->names.at[at], x->s->params.at[i].name);
        Val v = tensor ? val_node(region_param(x->e, r, &x->operands.at[at++]->type)) : x->args[i];
        name_bind(x->e, x->s->params.at[i].name, v);
    }
}

static bool read_outputs(Extern *x)
{
    Elab *e = x->e;
    for (uint32_t i = 0; i < x->s->body->stmts.n; i++) {
        const Stmt *s = x->s->body->stmts.at[i];
        Type t;
        if (s->kind != STMT_OUT) continue;
        for (uint32_t k = 0; k < x->s->params.n + x->results.n; k++) {
            uint32_t of = k - x->s->params.n;
            const char *other =
                k < x->s->params.n ? x->s->params.at[k].name : x->names.at[x->operands.n + of];
            if (!strcmp(other, s->name))
                return fail(e, s->name_span, "there is a '%s' before this one", s->name), false;
        }
        if (!eval_type(e, s->type, &t)) return false;
        vec_push(e->arena, &x->results, t);
        vec_push(e->arena, &x->names, s->name);
    }
    return x->results.n ||
           (fail(e, x->s->name_span, "'%s' has no output: out y: f32[…]", x->fn->name), false);
}

// Makes the values of a body results of the region, after checking that they have the wanted number
// and types.
static bool take_results(Extern *x, Region *r, Val v, const Type *const *want, uint32_t n,
                         bool gradient)
{
    Elab *e = x->e;
    const char *what = gradient ? "gradient" : "reference";
    Span span = gradient ? x->s->gbody->span : find(x, STMT_REFERENCE)->span;
    uint32_t found = 1;
    if (v.kind == V_POISON) return false;
    bool many = v.kind == V_TUPLE && seq_length(&v, &found);
    if (v.kind == V_NONE && (!gradient || !e->frame->returned)) found = 0;
    if (found != n) {
        fail(e, span, "the %s of '%s' must return %u value%s, one for each %s, found %u", what,
             x->fn->name, n, n == 1 ? "" : "s", gradient ? "tensor it takes" : "output", found);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        Val item = many ? v.seq->at[i] : v;
        Node *y = gradient ? own_gradient(e, &item, want[i], span)
                           : to_tensor(e, &item, want[i]->dtype, span);
        if (!y) return false;
        at_span(e, span);
        if (y->type.rank == 0) y = graph_broadcast_to(e->g, y, want[i]);
        if (dtype_is_float(y->type.dtype) && dtype_is_float(want[i]->dtype))
            y = graph_cast(e->g, y, want[i]->dtype);
        if (!type_equal(&y->type, want[i])) {
            fail(e, span, "the %s of '%s' must give %s for '%s', found %s", what, x->fn->name,
                 type_text(e, want[i]), x->names.at[gradient ? i : x->operands.n + i],
                 type_text(e, &y->type));
            return false;
        }
        vec_push(e->arena, &r->g->results, y);
    }
    return true;
}

static bool captures_nothing(Extern *x, const Region *r, Span span)
{
    if (!r->outer.n) return true;
    fail(x->e, span, "'%s' can use only its arguments: pass %s%s%s as one", x->fn->name,
         r->outer.at[0]->name ? "'" : "", r->outer.at[0]->name ? r->outer.at[0]->name : "the value",
         r->outer.at[0]->name ? "'" : "");
    return false;
}

static bool reference_region(Extern *x)
{
    Elab *e = x->e;
    const Stmt *s = find(x, STMT_REFERENCE);
    Region *r = region_open(e);
    r->no_cells = true;
    Frame f;
    text_frame(x->e, x->fn, x->s, x->span, x->scope, &f);
    bind_operands(x, r);
    bool ok = read_outputs(x);
    for (uint32_t i = 0; ok && i < x->s->body->stmts.n; i++)
        if (x->s->body->stmts.at[i]->kind == STMT_LAUNCH)
            ok = read_launch(x, x->s->body->stmts.at[i]);
    const Type **want = NEW_ARRAY(e->arena, const Type *, x->results.n + 1);
    for (uint32_t i = 0; i < x->results.n; i++) want[i] = &x->results.at[i];
    if (ok) exec_block(e, s->body);
    ok = ok && !e->stopped && take_results(x, r, f.result, want, x->results.n, false) &&
         captures_nothing(x, r, s->span);
    e->frame = f.up;
    region_close(e, r);
    x->region[0] = r->g;
    return ok;
}

// Builds the gradient region. Its parameters: the operands, the results, one cotangent per result.
static bool gradient_region(Extern *x)
{
    Elab *e = x->e;
    const Stmt *s = x->s;
    if (s->gparams.n != x->results.n) {
        fail(e, s->gbody->span,
             "the gradient of '%s' takes %u value%s, the function has %u output%s", x->fn->name,
             s->gparams.n, s->gparams.n == 1 ? "" : "s", x->results.n,
             x->results.n == 1 ? "" : "s");
        return false;
    }
    Region *r = region_open(e);
    r->no_cells = true;
    Frame f;
    text_frame(x->e, x->fn, x->s, x->span, x->scope, &f);
    bind_operands(x, r);
    for (uint32_t i = 0; i < x->results.n; i++)
        name_bind(e, x->names.at[x->operands.n + i],
                  val_node(region_param(e, r, &x->results.at[i])));
    for (uint32_t i = 0; i < x->results.n; i++)
        name_bind(e, s->gparams.at[i].name, val_node(region_param(e, r, &x->results.at[i])));
    exec_block(e, s->gbody);
    const Type **want = NEW_ARRAY(e->arena, const Type *, x->operands.n + 1);
    for (uint32_t i = 0; i < x->operands.n; i++) want[i] = &x->operands.at[i]->type;
    bool ok = !e->stopped && take_results(x, r, f.result, want, x->operands.n, true) &&
              captures_nothing(x, r, s->gbody->span);
    e->frame = f.up;
    region_close(e, r);
    x->region[1] = r->g;
    return ok;
}

// -- the call -------------------------------------------------------------------------------------

// Tensors become operands; numbers known at compile time become constants in the text.
static bool take_arguments(Extern *x, const Span *spans)
{
    Elab *e = x->e;
    Frame f;
    text_frame(x->e, x->fn, x->s, x->span, x->scope, &f);
    bool ok = fn_bind(e, x->fn, x->args, spans);
    e->frame = f.up;
    Buf constants = buf_new(e->arena);
    for (uint32_t i = 0; ok && i < x->s->params.n; i++) {
        const char *name = x->s->params.at[i].name;
        const Val *v = &x->args[i];
        if (val_is_tensor(v)) {
            Node *n = to_tensor(e, v, DT_COUNT, spans[i]);
            if (!n) return false;
            vec_push(e->arena, &x->operands, n);
            vec_push(e->arena, &x->names, name);
        } else if (v->kind == V_INT) {
            buf_printf(&constants, " %s=%lld", name, (long long)v->i);
        } else if (v->kind == V_FLOAT) {
            buf_printf(&constants, " %s=%a", name, v->f);
        } else if (v->kind == V_BOOL) {
            buf_printf(&constants, " %s=%s", name, v->b ? "true" : "false");
        }
    }
    x->symbols = buf_new(e->arena);
    if (constants.len) buf_str(&x->symbols, constants.data);
    return ok;
}

static Val made(Extern *x)
{
    Elab *e = x->e;
    Buf operands = buf_new(e->arena);
    for (uint32_t i = 0; i < x->names.n; i++)
        buf_printf(&operands, "%s%s", i ? " " : "", x->names.at[i]);
    if (x->symbols.len) buf_str(&operands, x->symbols.data);
    at_span(e, x->span);
    Attrs attrs = {0};
    attr_set_str(e->g, &attrs, ATTR_name, x->fn->name);
    attr_set_str(e->g, &attrs, ATTR_source, x->source);
    attr_set_str(e->g, &attrs, ATTR_operands, operands.data);
    attr_set_str(e->g, &attrs, ATTR_kernels, x->kernels.data);
    attr_set_ints(e->g, &attrs, ATTR_launch, x->launch.at, (int)x->launch.n);
    if (x->cpu) attr_set_str(e->g, &attrs, ATTR_cpu, x->cpu);
    Node *n = graph_region_node(e->g, OP_extern, x->operands.at, (int)x->operands.n, &attrs,
                                x->region, x->s->flag ? 2 : 1);
    if (node_is_poison(n)) return val_poison();
    if (x->results.n == 1) return val_node(graph_result(e->g, n, 0));
    Val v = val_seq(e, V_TUPLE, x->results.n);
    for (uint32_t i = 0; i < x->results.n; i++)
        v.seq->at[i] = val_node(graph_result(e->g, n, (int)i));
    return v;
}

Val call_extern(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope)
{
    Extern *x = NEW(e->arena, Extern);
    *x = (Extern){.e = e, .fn = fn, .s = fn->stmt, .args = args, .span = span, .scope = scope};
    const Stmt *cpu = find(x, STMT_CPU);
    x->kernels = buf_new(e->arena);
    if (!once(x, STMT_REFERENCE, "reference", true) || !once(x, STMT_CPU, "file for a CPU", false))
        return val_poison();
    if (!find(x, STMT_LAUNCH)) return fail(e, fn->stmt->name_span, "'%s' has no launch", fn->name);
    x->source = read_text(x, fn->stmt->text, fn->stmt->text_span);
    if (cpu) x->cpu = read_text(x, cpu->text, cpu->text_span);
    if (!x->source || (cpu && !x->cpu) || !take_arguments(x, spans)) return val_poison();
    enum { MOST_NESTED = 5 }; // gradients of gradients
    if (e->own_gradients >= MOST_NESTED)
        return fail(e, span, "functions with their own gradient are nested more than %d deep",
                    MOST_NESTED);
    e->own_gradients++;
    bool ok = reference_region(x) && (!fn->stmt->flag || gradient_region(x));
    e->own_gradients--;
    return ok ? made(x) : val_poison();
}
