// Used by all printers of bodies, for CUDA C and for C: which instructions are needed, names, and
// scopes of text, one per loop.
#include "base/plain.h"
#include "codegen/text/accumulator.h"
#include "codegen/text/print.h"

#include <string.h>

const char *type_storage(DType t)
{
    return dtype_info[t].c_storage;
}
const char *type_math(DType t)
{
    return dtype_info[t].c_math;
}

// What a buffer is called: after the node that it contains, or for what it is.
static const char *buffer_name(Emit *e, const BodyBuf *f)
{
    switch (f->kind) {
    case KA_ERROR: return "error";
    case KA_ROWS: return "rows";
    case KA_CURSOR: return "cursor";
    case KA_LOOP_INDEX: return "iteration";
    case KA_SCRATCH: return "partial";
    case KA_INT: return "number";
    default: break;
    }
    if (!f->node) return NULL;
    const char *model = f->node->name ? f->node->name : attr_str(f->node, ATTR_name);
    return emit_text(e, "%s%s",
                     model ? name_identifier(e->arena, model) : op_info(f->node->op)->name,
                     f->written ? "_out" : "_in");
}

// What a temporary is called: after its node, or for what it is.
static const char *value_name(Emit *e, uint32_t i)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[i];
    if (v->node) {
        const char *model = v->node->name;
        if (!model && v->kind == KI_LOAD) model = attr_str(v->node, ATTR_name);
        return model ? name_identifier(e->arena, model)
                     : emit_text(e, "%s_%u", op_info(v->node->op)->name, i);
    }
    if (v->kind == KI_LOAD && b->bufs.at[v->buf].kind == KA_CURSOR) return "first_row";
    if (v->kind == KI_LOAD && b->bufs.at[v->buf].kind == KA_ROWS)
        return emit_text(e, "data_row_%u", i);
    if (v->kind == KI_LOAD) return emit_text(e, "element_%u", i);
    if (v->kind == KI_INDEX) return emit_text(e, "position_%u", i);
    if (v->type == DT_BOOL) return emit_text(e, "inside_%u", i);
    return emit_text(e, "%s_%u", v->kind == KI_EW ? op_info(v->op)->name : "value", i);
}

// Chooses the names of buffers and temporaries: b12 and v12, or if pretty the model's.
static void choose_names(Emit *e)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->bufs.n; i++) {
        const char *s = buffer_name(e, &b->bufs.at[i]);
        if (!e->pretty && b->bufs.at[i].kind == KA_NODE) s = NULL;
        if (s && strmap_has(e->names, s)) s = e->pretty ? emit_text(e, "%s_%u", s, i) : NULL;
        if (!s || strmap_has(e->names, s)) s = emit_text(e, "b%u", i);
        strmap_set(e->names, s, e);
        e->buf_name[i] = s;
    }
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const char *s = e->pretty ? value_name(e, i) : emit_text(e, "v%u", i);
        while (strmap_has(e->names, s)) s = emit_text(e, "%s_%u", s, i);
        strmap_set(e->names, s, e);
        e->name[i] = s;
    }
}

Emit emit_begin(const Kernel *k, const Body *b, bool pretty, bool cuda)
{
    Arena *a = k->arena;
    Emit e = {.arena = a, .kernel = k, .body = b, .pretty = pretty, .cuda = cuda};
    e.bind = NEW_ARRAY(a, Binding, b->insts.n + 1);
    e.name = NEW_ARRAY(a, const char *, b->insts.n + 1);
    e.element = NEW_ARRAY(a, const char *, b->insts.n + 1);
    e.place = NEW_ARRAY(a, const char *, b->stores.n + 1);
    e.converted = NEW_ARRAY(a, bool, b->insts.n + b->stores.n + 1);
    e.live = body_live(a, b);
    e.moved = cuda ? NULL : body_moved(a, b);
    e.axis = NEW_ARRAY(a, const char *, BODY_MAX_AXES);
    e.buf_name = NEW_ARRAY(a, const char *, b->bufs.n + 1);
    e.own_axis = NEW_ARRAY(a, const char *, BODY_MAX_AXES);
    for (int i = 0; i < b->naxes; i++) e.own_axis[i] = e.axis[i] = arena_printf(a, "i%d", i);
    e.names = NEW(a, StrMap);
    e.quotients = NEW(a, StrMap);
    *e.names = strmap_new(a);
    *e.quotients = strmap_new(a);
    e.inverse = NEW_ARRAY(a, const char *, b->insts.n + 1);
    e.inverse_in = NEW_ARRAY(a, Scope *, b->insts.n + 1);
    e.where = "";
    choose_names(&e);
    e.scope = NULL;
    return e;
}

Scope *emit_open(Emit *e, uint64_t axes)
{
    Scope *s = NEW(e->arena, Scope);
    s->up = e->scope;
    s->axes = axes;
    s->depth = e->scope ? e->scope->depth + 1 : 0;
    s->indent = e->scope ? e->scope->indent + 1 : 1;
    s->open = true;
    s->text = buf_new(e->arena);
    return e->scope = s;
}

// Adds one or several lines with the scope's indentation.
static void print_lines(Scope *s, const char *text)
{
    for (const char *end; *text; text = end) {
        end = strchrnul(text, '\n');
        wrap_line(&s->text, s->indent * 4, text, (size_t)(end - text));
        end += *end == '\n';
    }
}

const char *emit_text(Emit *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *s = arena_vprintf(e->arena, fmt, args);
    va_end(args);
    return s;
}

const char *emit_number(Emit *e, int64_t n)
{
    return emit_text(e, "%lld", (long long)n);
}

void emit_scan(Emit *e, int r, const char *acc, const char *x)
{
    const Inst *v = &e->body->insts.at[r];
    const char *t = type_math(v->type), *name = e->name[r];
    if (v->exclusive) emit(e, "const %s %s = %s;", t, name, acc);
    emit(e, "%s = %s;", acc, emit_combine(e, v->op, v->acc, acc, x));
    if (!v->exclusive) emit(e, "const %s %s = %s;", t, name, acc);
    emit_bind(e, r, e->scope, name);
}

const char *emit_scratch(Emit *e, int nth)
{
    for (uint32_t i = 0; i < e->body->bufs.n; i++)
        if (e->body->bufs.at[i].kind == KA_SCRATCH && nth-- == 0) return e->buf_name[i];
    return "0";
}

const char *int_type(const Emit *e)
{
    return e->body->sched.wide ? "int64_t" : "int";
}

const char *block_number(const Emit *e)
{
    return e->body->sched.wide ? "(int64_t)block" : "block";
}

void emit_line(Emit *e, Scope *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_lines(s, arena_vprintf(e->arena, fmt, args));
    va_end(args);
}

void emit(Emit *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_lines(e->scope, arena_vprintf(e->arena, fmt, args));
    va_end(args);
}

void emit_declare_in(Emit *e, Scope *s, const char *name, const char *line)
{
    const size_t begin = s->text.len;
    print_lines(s, line);
    vec_push(e->arena, &s->declared, (Declared){name, begin, s->text.len});
}

void emit_declare(Emit *e, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    emit_declare_in(e, e->scope, name, arena_vprintf(e->arena, fmt, args));
    va_end(args);
}

void emit_int(Emit *e, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *value = arena_vprintf(e->arena, fmt, args);
    va_end(args);
    emit_declare_in(e, e->scope, name, emit_text(e, "const %s %s = %s;", int_type(e), name, value));
}

static bool in_word(char c)
{
    return plain_alnum(c) || c == '_';
}

bool text_uses(const char *text, const char *name)
{
    const size_t len = strlen(name);
    for (const char *p = text; (p = strstr(p, name)); p += len)
        if (!in_word(p[len]) && (p == text || !in_word(p[-1]))) return true;
    return false;
}

static void drop_unused(Scope *s)
{
    while (s->declared.n) { // from the last on: a line may have the only use of an earlier one
        const Declared d = s->declared.at[--s->declared.n];
        if (text_uses(s->text.data + d.end, d.name)) continue;
        memmove(s->text.data + d.begin, s->text.data + d.end, s->text.len - d.end + 1);
        s->text.len -= d.end - d.begin;
        s->lone_begin -= d.begin < s->lone_begin ? d.end - d.begin : 0;
        s->lone_end -= d.begin < s->lone_end ? d.end - d.begin : 0;
    }
}

// A block at the end of a scope ends with it, and so do its variables.
static void drop_braces(Emit *e)
{
    Scope *s = e->scope;
    if (s->lone_end <= s->lone_begin || s->lone_end != s->text.len) return;
    const char *begin = s->text.data + s->lone_begin, *from = strchr(begin, '\n') + 1;
    const char *to = s->text.data + s->text.len - (s->indent * 4 + 2); // the line "}"
    const char *before = arena_strndup(e->arena, s->text.data, s->lone_begin),
               *block = arena_strndup(e->arena, from, (size_t)(to - from));
    if (needs_braces(e->arena, block, s->indent * 4 + 4, before)) return;
    s->text.len = s->lone_begin;
    s->text.data[s->text.len] = 0;
    append_outdented(&s->text, block);
}

void emit_finish(Emit *e)
{
    drop_unused(e->scope);
    drop_braces(e);
}

void emit_close(Emit *e, const char *head, const char *tail)
{
    Scope *s = e->scope;
    emit_finish(e);
    s->open = false;
    e->scope = s->up;
    const bool lone = head && !strcmp(head, "{") && tail && s->indent == s->up->indent + 1;
    if (lone && !needs_braces(e->arena, s->text.data, s->indent * 4, NULL)) {
        append_outdented(&s->up->text, s->text.data);
        return;
    }
    const size_t begin = s->up->text.len;
    if (head) print_lines(s->up, head);
    buf_bytes(&s->up->text, s->text.data, s->text.len);
    if (tail) print_lines(s->up, tail);
    if (lone) s->up->lone_begin = begin, s->up->lone_end = s->up->text.len;
}

void emit_end(Emit *e, const char *head, ...)
{
    va_list args;
    va_start(args, head);
    emit_close(e, arena_vprintf(e->arena, head, args), "}");
    va_end(args);
}

void emit_unrolled(Emit *e, const char *head, ...)
{
    va_list args;
    va_start(args, head);
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e, arena_vprintf(e->arena, head, args), "}");
    va_end(args);
}

void emit_times(Emit *e, const char *name, int64_t n)
{
    if (n == 1) // (code that does not use emit_count may contain the name)
        emit_end(e, text_uses(e->scope->text.data, name) ? "{\n    const int %s = 0;" : "{", name);
    else
        emit_unrolled(e, "for (int %s = 0; %s < %lld; %s++) {", name, name, (long long)n, name);
}

void emit_loop(Emit *e, const char *type, const char *name, const char *from, const char *end,
               int64_t by)
{
    emit_end(e, "for (%s %s = %s; %s < %s; %s += %lld) {", type, name, from, name, end, name,
             (long long)by);
}

const char *emit_count(const char *name, int64_t n)
{
    return n == 1 ? "0" : name;
}

void emit_each(Emit *e, const char *name, int64_t n, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *statement = arena_vprintf(e->arena, fmt, args);
    va_end(args);
    if (n == 1) {
        emit(e, "%s", statement);
        return;
    }
    const char *head =
        emit_text(e, "for (int %s = 0; %s < %lld; %s++)", name, name, (long long)n, name);
    emit(e, "#pragma unroll\n%s%s%s", head,
         strlen(head) + strlen(statement) + (size_t)e->scope->indent * 4 < 100 ? " " : "\n    ",
         statement);
}

const char *emit_plus(Emit *e, const char *x, const char *y)
{
    return !strcmp(x, "0") ? y : !strcmp(y, "0") ? x : emit_text(e, "%s + %s", x, y);
}

const char *emit_scaled(Emit *e, const char *x, int64_t times)
{
    if (!times || !strcmp(x, "0")) return "0";
    return times == 1 ? x : emit_text(e, "%s * %lld", x, (long long)times);
}

const char *emit_part(Emit *e, const char *x, int64_t by, int64_t over, int64_t times)
{
    if (over == 1 || !strcmp(x, "0")) return "0";
    if (by > 1) x = emit_text(e, "%s / %lld", x, (long long)by);
    if (over) x = emit_text(e, "%s %% %lld", x, (long long)over);
    return emit_scaled(e, x, times);
}

const char *emit_address(Emit *e, const char *buf, const char *index)
{
    return strcmp(index, "0") ? emit_text(e, "&%s[%s]", buf, index) : buf;
}

const char *emit_element(Emit *e, int load)
{
    const Inst *x = &e->body->insts.at[load];
    return emit_text(e, "%s[%s]", e->buf_name[x->buf], emit_index(e, x->ix));
}

const char *emit_place(Emit *e, int load)
{
    const Inst *x = &e->body->insts.at[load];
    return emit_address(e, e->buf_name[x->buf], emit_index(e, x->ix));
}

void emit_settle(Emit *e)
{
    Scope *s = e->scope;
    buf_bytes(&s->up->text, s->text.data, s->text.len);
    s->text = buf_new(e->arena);
    s->declared.n = 0;
}

const char *emit_and(Emit *e, const char *x, const char *y)
{
    return !*x ? y : !*y ? x : emit_text(e, "%s && %s", x, y);
}

const char *emit_below(Emit *e, const char *at, int64_t end, bool certain)
{
    return certain ? "" : emit_text(e, "%s < %lld", at, (long long)end);
}

const char *emit_clamped(Emit *e, const char *at, int64_t last, bool certain)
{
    return certain ? at : emit_text(e, "nc_min(%s, %lld)", at, (long long)last);
}

void emit_if(Emit *e, const char *condition)
{
    emit_end(e, "%s", *condition ? emit_text(e, "if (%s) {", condition) : "{");
}

void emit_bind(Emit *e, int inst, Scope *s, const char *text)
{
    e->bind[inst] = (Binding){s, text};
}
