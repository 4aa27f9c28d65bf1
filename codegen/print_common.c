// Instructions to text, and in which loop each is placed: the same for CUDA C and for C.
#include "codegen/accumulator.h"
#include "codegen/print.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *type_storage(DType t)
{
    return dtype_info[t].c_storage;
}
const char *type_math(DType t)
{
    return dtype_info[t].c_math;
}

bool store_over(const Body *b, const BodyStore *s, int axis)
{
    return inst_over(&b->insts.at[s->value], axis) ||
           (axis >= 0 && s->ix && (s->ix->axes >> axis & 1));
}

static void mark_ix(Emit *e, const Ix *x, int *work, int *n)
{
    for (int i = 0; x && x->has_value && i < x->n; i++) {
        const IxTerm *t = x->at[i].term;
        if (t->kind == IT_VALUE && !e->live[t->id]) {
            e->live[t->id] = true;
            work[(*n)++] = t->id;
        } else if (t->e) {
            mark_ix(e, t->e, work, n);
        }
    }
}

static void mark_live(Emit *e)
{
    const Body *b = e->body;
    int *work = NEW_ARRAY(e->arena, int, b->insts.n + 1), n = 0;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        for (int k = 0; k < 2; k++) {
            int v = k ? s->guard - 1 : s->value;
            if (v >= 0 && !e->live[v]) {
                e->live[v] = true;
                work[n++] = v;
            }
        }
        mark_ix(e, s->ix, work, &n);
    }
    while (n) {
        const Inst *v = &b->insts.at[work[--n]];
        for (int i = 0; i <= v->na; i++) {
            int a = i < v->na ? v->a[i] : v->kind == KI_LOAD || v->kind == KI_CHECK ? v->pred : -1;
            if (a >= 0 && !e->live[a]) {
                e->live[a] = true;
                work[n++] = a;
            }
        }
        mark_ix(e, v->ix, work, &n);
        if (v->kind == KI_REDUCE && v->axis != b->col) e->nested[v->axis] = true;
    }
}

// Names of temporaries: canonical v12, or the model's own where it has one.
static void choose_names(Emit *e)
{
    const Body *b = e->body;
    StrMap used = strmap_new(e->arena);
    for (uint32_t i = 0; i < b->bufs.n; i++) {
        const BodyBuf *f = &b->bufs.at[i];
        const char *s = f->kind == KA_ERROR        ? "error"
                        : f->kind == KA_ROWS       ? "rows"
                        : f->kind == KA_CURSOR     ? "cursor"
                        : f->kind == KA_LOOP_INDEX ? "iteration"
                        : f->kind == KA_SCRATCH    ? "partial"
                        : f->kind == KA_INT        ? "number"
                                                   : NULL;
        const char *model = f->node && f->node->name ? f->node->name : NULL;
        if (!model && f->node) model = attr_str(f->node, ATTR_name);
        if (e->pretty && !s && model)
            s = arena_printf(e->arena, "%s%s", name_identifier(e->arena, model),
                             f->written ? "_out" : "_in");
        if (!s || !e->pretty || strmap_has(&used, s)) s = arena_printf(e->arena, "b%u", i);
        strmap_set(&used, s, e);
        e->buf_name[i] = s;
    }
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        const char *s = NULL;
        if (e->pretty && v->node) {
            const char *model = v->node->name;
            if (!model && v->kind == KI_LOAD) model = attr_str(v->node, ATTR_name);
            s = model ? name_identifier(e->arena, model)
                      : arena_printf(e->arena, "%s_%u", op_info(v->node->op)->name, i);
            if (strmap_has(&used, s)) s = arena_printf(e->arena, "%s_%u", s, i);
        }
        if (!s) s = arena_printf(e->arena, "v%u", i);
        strmap_set(&used, s, e);
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
    e.live = NEW_ARRAY(a, bool, b->insts.n + 1);
    e.axis = NEW_ARRAY(a, const char *, BODY_MAX_AXES);
    e.nested = NEW_ARRAY(a, bool, BODY_MAX_AXES);
    e.buf_name = NEW_ARRAY(a, const char *, b->bufs.n + 1);
    for (int i = 0; i < b->naxes; i++) e.axis[i] = arena_printf(a, "i%d", i);
    e.inverse = NEW_ARRAY(a, const char *, b->insts.n + 1);
    e.inverse_in = NEW_ARRAY(a, Scope *, b->insts.n + 1);
    e.full = cuda ? body_precision(a, b) : NULL;
    e.stages = ~0ull;
    e.where = "";
    mark_live(&e);
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

static void line(Scope *s, int indent, const char *text)
{
    buf_pad(&s->text, indent * 4, ' ');
    buf_str(&s->text, text);
    buf_char(&s->text, '\n');
}

const char *emit_text(Emit *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *s = arena_vprintf(e->arena, fmt, args);
    va_end(args);
    return s;
}

const char *int_type(const Emit *e)
{
    return e->body->sched.wide ? "int64_t" : "int";
}

void emit_line(Emit *e, Scope *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    line(s, s->indent, arena_vprintf(e->arena, fmt, args));
    va_end(args);
}

void emit_close(Emit *e, const char *head, const char *tail)
{
    Scope *s = e->scope;
    s->open = false;
    e->scope = s->up;
    if (head) line(s->up, s->up->indent, head);
    buf_bytes(&s->up->text, s->text.data, s->text.len);
    if (tail) line(s->up, s->up->indent, tail);
}

void emit_bind(Emit *e, int inst, Scope *s, const char *text)
{
    e->bind[inst] = (Binding){s, text};
}

// -- index expressions
// ---------------------------------------------------------------------------------

static const char *index_text(Emit *e, const Ix *x, bool wide);

static const char *term_text(Emit *e, const IxTerm *t, bool wide)
{
    const char *widen = e->cuda ? "(int64_t)" : "(long)";
    switch (t->kind) {
    case IT_AXIS:
        return wide && e->cuda ? arena_printf(e->arena, "(int64_t)%s", e->axis[t->id])
                               : e->axis[t->id];
    case IT_VALUE: {
        const char *v = emit_value(e, t->id);
        DType vt = e->body->insts.at[t->id].type;
        if (e->cuda && !wide)
            return vt == DT_I64 || vt == DT_U32 ? arena_printf(e->arena, "(int)%s", v) : v;
        return vt == DT_I64 && e->cuda ? v : arena_printf(e->arena, "%s%s", widen, v);
    }
    case IT_DIV:
    case IT_MOD: {
        bool inner = t->e->low < INT32_MIN || t->e->high > INT32_MAX || wide;
        const char *of = index_text(e, t->e, inner);
        // The printed division is unsigned: what can be negative is moved up by whole divisors
        // first.
        long long by = t->by, up = t->e->low < 0 ? (-t->e->low + by - 1) / by : 0;
        if (up) of = arena_printf(e->arena, "%s + %lld", of, up * by);
        const char *text =
            arena_printf(e->arena, "%s(%s, %lld)", t->kind == IT_DIV ? "nc_quo" : "nc_rem", of, by);
        if (up && t->kind == IT_DIV) text = arena_printf(e->arena, "(%s - %lld)", text, up);
        return inner && !wide && e->cuda ? arena_printf(e->arena, "(int)%s", text) : text;
    }
    }
    return "0";
}

static const char *index_text(Emit *e, const Ix *x, bool wide)
{
    Buf b = buf_new(e->arena);
    // largest strides first, as one writes them
    int n = x->n, *order = NEW_ARRAY(e->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && llabs(x->at[order[k - 1]].coeff) < llabs(x->at[i].coeff); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < n; i++) {
        int64_t c = x->at[order[i]].coeff;
        const char *t = term_text(e, x->at[order[i]].term, wide);
        buf_str(&b, b.len ? (c < 0 ? " - " : " + ") : c < 0 ? "-" : "");
        if (c == 1 || c == -1)
            buf_str(&b, t);
        else
            buf_printf(&b, "%s * %lld", t, (long long)llabs(c));
    }
    if (x->constant || !b.len) {
        if (b.len)
            buf_printf(&b, " %c %lld", x->constant < 0 ? '-' : '+', (long long)llabs(x->constant));
        else
            buf_printf(&b, "%lld", (long long)x->constant);
    }
    return b.data;
}

static bool is_wide(const Ix *x)
{
    int64_t span = llabs(x->constant);
    for (int i = 0; i < x->n; i++) { // every partial sum must fit
        int64_t c = llabs(x->at[i].coeff), h = llabs(x->at[i].term->high),
                l = llabs(x->at[i].term->low);
        h = h > l ? h : l;
        if (h && c > (INT64_MAX - span) / h) return true;
        span += c * h;
    }
    return span > INT32_MAX;
}

const char *emit_index(Emit *e, const Ix *x)
{
    return index_text(e, x, is_wide(x));
}

// -- instructions
// ----------------------------------------------------------------------------------------

const char *emit_literal(Arena *a, DType t, int64_t i, double f)
{
    if (t == DT_BOOL) return i ? "true" : "false";
    if (t == DT_I64)
        return i == INT64_MIN ? "(-9223372036854775807ll - 1)"
                              : arena_printf(a, "(int64_t)%lldll", (long long)i);
    if (t == DT_U32) return arena_printf(a, "%uu", (unsigned)i);
    if (!dtype_is_float(t))
        return i == INT32_MIN ? "(-2147483647 - 1)" : arena_printf(a, "%lld", (long long)i);
    if (isnan(f)) return t == DT_F64 ? "(double)NC_NAN" : "NC_NAN";
    if (isinf(f))
        return arena_printf(a, "%s%sNC_INF", f < 0 ? "-" : "", t == DT_F64 ? "(double)" : "");
    char text[64];
    if (t == DT_F64) {
        for (int p = 15; p <= 17; p++) {
            snprintf(text, sizeof text, "%.*g", p, f);
            if (strtod(text, NULL) == f) break;
        }
    } else {
        for (int p = 6; p <= 9; p++) {
            snprintf(text, sizeof text, "%.*g", p, (double)(float)f);
            if (strtof(text, NULL) == (float)f) break;
        }
        if (isinf((float)f)) return f < 0 ? "-NC_INF" : "NC_INF";
    }
    const char *dot = strpbrk(text, ".e") ? "" : ".0";
    return arena_printf(a, "%s%s%s", text, dot, t == DT_F64 ? "" : "f");
}

const char *emit_load(Emit *e, const Inst *v, const char *element)
{
    switch (v->type) {
    case DT_BF16: return arena_printf(e->arena, "nc_b2f(%s)", element);
    case DT_F16: return arena_printf(e->arena, "nc_h2f(%s)", element);
    case DT_BOOL: return arena_printf(e->arena, "%s != 0", element);
    default: return element;
    }
}

const char *emit_stored(Emit *e, DType t, const char *value)
{
    switch (t) {
    case DT_BF16: return arena_printf(e->arena, "nc_f2b(%s)", value);
    case DT_F16: return arena_printf(e->arena, "nc_f2h(%s)", value);
    case DT_BOOL:
    case DT_U8: return arena_printf(e->arena, "(uint8_t)%s", value);
    default: return value;
    }
}

static const char *cast_text(Emit *e, const Inst *v, const char *x)
{
    DType to = v->type, from = v->from;
    const char *name = NULL;
    switch (to) {
    case DT_BOOL: return arena_printf(e->arena, "%s != 0", x);
    case DT_BF16: return arena_printf(e->arena, "nc_round_bf16((float)%s)", x);
    case DT_F16: return arena_printf(e->arena, "nc_round_f16((float)%s)", x);
    case DT_U8: name = "u8"; break;
    case DT_I32: name = "i32"; break;
    case DT_U32: name = "u32"; break;
    case DT_I64: name = "i64"; break;
    default: return arena_printf(e->arena, "(%s)%s", type_math(to), x);
    }
    if (dtype_is_float(from)) return arena_printf(e->arena, "nc_to_%s(%s)", name, x);
    return arena_printf(e->arena, "(%s)%s", type_storage(to), x);
}

// Whether the cheaper form of v is good enough in the stage that is printed.
static bool approximate(const Emit *e, int at)
{
    const Inst *v = &e->body->insts.at[at];
    if (!e->full || !(op_info(v->op)->flags & OPF_APPROX) || strcmp(type_math(v->type), "float"))
        return false;
    return !(e->full[at] & (inst_over(v, e->body->col) ? e->stages : ~0ull));
}

// The op's expression with a, b, c replaced by the operands.
static const char *ew_text(Emit *e, int at, const char *const *x)
{
    const Inst *v = &e->body->insts.at[at];
    const char *p = op_info(v->op)->expr, *form = approximate(e, at) ? "_16" : "";
    Buf b = buf_new(e->arena);
    bool compares = v->type == DT_BOOL;
    if (v->type == DT_U8 && !compares) buf_str(&b, "(uint8_t)(");
    while (*p) {
        if (isalpha((unsigned char)*p) || *p == '_') {
            const char *q = p;
            while (isalnum((unsigned char)*q) || *q == '_') q++;
            if (q - p == 1 && *p >= 'a' && *p <= 'c' && *p - 'a' < v->na)
                buf_str(&b, x[*p - 'a']);
            else
                buf_printf(&b, "%.*s%s", (int)(q - p), p, strncmp(p, "nc_", 3) ? "" : form);
            p = q;
        } else {
            buf_char(&b, *p++);
        }
    }
    if (v->type == DT_U8 && !compares) buf_char(&b, ')');
    return b.data;
}

// Division by what stands outside the loop that divides: there the reciprocal is taken once.
static const char *divided(Emit *e, const Inst *v, const char *const *x, const Scope *home)
{
    int by = v->a[1];
    Scope *s = e->bind[by].scope;
    if (!e->cuda || v->op != OP_div || strcmp(type_math(v->type), "float")) return NULL;
    const Inst *c = &e->body->insts.at[by];
    if (c->kind == KI_CONST) {
        float b = (float)c->fvalue, size = b < 0 ? -b : b;
        if (!dtype_is_float(c->type) || !(size > 0x1p-20f && size < 0x1p20f)) return NULL;
        return arena_printf(e->arena, "nc_divide_by(%s, %s, %s)", x[0], x[1],
                            emit_literal(e->arena, DT_F32, 0, (double)(1 / b)));
    }
    if (s->depth >= home->depth) return NULL;
    if (e->inverse_in[by] != s || !s->open) {
        e->inverse[by] = arena_printf(e->arena, "%s_inverse", e->name[by]);
        e->inverse_in[by] = s;
        emit_line(e, s, "const NcInverse %s = nc_inverse(%s);", e->inverse[by], x[1]);
    }
    return arena_printf(e->arena, "nc_divide(%s, %s)", x[0], e->inverse[by]);
}

// The outermost open scope in which [axes] are all known.
static Scope *home_of(const Emit *e, uint64_t axes)
{
    Scope *s = e->scope;
    uint64_t have = 0;
    for (Scope *k = s; k; k = k->up) have |= k->axes;
    axes &= have;
    while (s->up) {
        if (axes & s->axes) return s;
        s = s->up;
    }
    return s;
}

static Scope *deeper(Scope *a, Scope *b)
{
    return b && b->depth > a->depth ? b : a;
}

// The innermost guard around the open scope; NULL: none.
static Scope *guard_of(const Emit *e)
{
    Scope *s = e->scope;
    while (s && !s->guard) s = s->up;
    return s;
}

static Scope *scope_of_ix(Emit *e, const Ix *x, Scope *s)
{
    for (int i = 0; x && x->has_value && i < x->n; i++) {
        const IxTerm *t = x->at[i].term;
        if (t->kind == IT_VALUE) {
            emit_value(e, t->id);
            s = deeper(s, e->bind[t->id].scope);
        } else if (t->e) {
            s = scope_of_ix(e, t->e, s);
        }
    }
    return s;
}

// A reduction over an axis of its own: a loop right where its result is needed.
static void emit_nested(Emit *e, int at, Scope *home)
{
    const Inst *v = &e->body->insts.at[at];
    Scope *back = e->scope;
    const char *acc = e->name[at], *t = type_math(v->acc), *axis = e->axis[v->axis];
    const char *it =
        e->cuda ? (e->body->axis[v->axis].extent > INT32_MAX ? "int64_t" : "int") : "long";
    e->scope = home;
    bool arg = inst_acc(v)->place;
    const char *best = arg ? arena_printf(e->arena, "%s_value", acc) : acc;
    emit_open(e, 1ull << v->axis);
    const char *x = emit_value(e, v->a[0]);
    if (arg) {
        emit_line(e, e->scope, "if (%s == 0 || %s > %s || (%s != %s && %s == %s)) {", axis, x, best,
                  x, x, best, best);
        emit_line(e, e->scope, "    %s = %s;", best, x);
        emit_line(e, e->scope, "    %s = (int32_t)%s;", acc, axis);
        emit_line(e, e->scope, "}");
    } else {
        emit_line(e, e->scope, "%s = %s;", acc, emit_combine(e, v->op, v->acc, acc, x));
    }
    // (operands that do not vary over the axis went to home already, before the loop)
    emit_line(e, home, "%s %s = %s;", t, best, emit_identity(e, v->op, v->acc));
    if (arg) emit_line(e, home, "int32_t %s = 0;", acc);
    emit_close(e,
               arena_printf(e->arena, "for (%s %s = 0; %s < %lld; %s++) {", it, axis, axis,
                            (long long)e->body->axis[v->axis].extent, axis),
               "}");
    e->scope = back;
    emit_bind(e, at, home, acc);
}

static const char *location_comment(Emit *e, const Inst *v)
{
    if (!e->pretty || !v->node || !v->node->loc) return "";
    const char *where = loc_text(e->kernel->ctx->diags, v->node->loc);
    if (!strcmp(where, e->where)) return "";
    e->where = where;
    return *where ? arena_printf(e->arena, " // %s", where) : "";
}

const char *emit_value(Emit *e, int at)
{
    if (e->bind[at].scope && e->bind[at].scope->open) return e->bind[at].text;
    const Inst *v = &e->body->insts.at[at];
    const char *x[4] = {0};
    if (v->kind == KI_CONST) {
        Scope *root = e->scope;
        while (root->up) root = root->up;
        emit_bind(e, at, root, emit_literal(e->arena, v->type, v->ivalue, v->fvalue));
        return e->bind[at].text;
    }
    Scope *home = home_of(e, v->axes);
    if (e->element[at]) {
        emit_line(e, home, "const %s %s = %s;%s", type_math(v->type), e->name[at],
                  emit_load(e, v, e->element[at]), location_comment(e, v));
        emit_bind(e, at, home, e->name[at]);
        return e->name[at];
    }
    if (v->kind == KI_REDUCE) {
        emit_nested(e, at, home);
        return e->bind[at].text;
    }
    for (int i = 0; i < v->na; i++) {
        x[i] = emit_value(e, v->a[i]);
        home = deeper(home, e->bind[v->a[i]].scope);
    }
    const char *pred = NULL;
    if ((v->kind == KI_LOAD || v->kind == KI_CHECK) && v->pred >= 0) {
        pred = emit_value(e, v->pred);
        home = deeper(home, e->bind[v->pred].scope);
    }
    home = scope_of_ix(e, v->ix, home);
    if (v->kind == KI_LOAD && e->body->bufs.at[v->buf].in_place) home = deeper(home, guard_of(e));
    const char *text = "";
    switch (v->kind) {
    case KI_INDEX: text = emit_index(e, v->ix); break;
    case KI_LOAD:
        if (e->body->bufs.at[v->buf].kind == KA_LOOP_INDEX) {
            text = e->buf_name[v->buf];
            break;
        }
        text = emit_load(
            e, v, arena_printf(e->arena, "%s[%s]", e->buf_name[v->buf], emit_index(e, v->ix)));
        if (pred)
            text = arena_printf(e->arena, "%s ? %s : %s", pred, text,
                                emit_literal(e->arena, v->type, 0, 0));
        break;
    case KI_EW:
        text = divided(e, v, x, home);
        if (!text) text = ew_text(e, at, x);
        break;
    case KI_CAST: text = cast_text(e, v, x[0]); break;
    case KI_RANDOM:
        text = arena_printf(e->arena, "nc_random(%s, %s, %s, (uint64_t)(%s), %d)", x[0], x[1],
                            e->buf_name[v->buf], emit_index(e, v->ix), v->lane);
        break;
    case KI_CHECK:
        text = arena_printf(e->arena, "(%s)nc_check(%s, %s, (int64_t)%s, %lldll)",
                            type_math(v->type), e->buf_name[e->body->error_buf],
                            e->buf_name[v->buf], x[0], (long long)v->bound);
        if (pred) text = arena_printf(e->arena, "%s ? %s : 0", pred, text);
        break;
    case KI_ASSERT:
        text = arena_printf(e->arena, "nc_assert(%s, %s, %s, (int64_t)(%s))",
                            e->buf_name[e->body->error_buf], e->buf_name[v->buf], x[0],
                            emit_index(e, v->ix));
        break;
    default: text = "0"; break;
    }
    if (v->kind == KI_ASSERT) {
        emit_line(e, home, "%s;%s", text, location_comment(e, v));
        emit_bind(e, at, home, "true");
        return "true";
    }
    emit_line(e, home, "const %s %s = %s;%s", type_math(v->type), e->name[at], text,
              location_comment(e, v));
    emit_bind(e, at, home, e->name[at]);
    return e->name[at];
}

int emit_unrounded(const Emit *e, const BodyStore *s)
{
    const Inst *v = &e->body->insts.at[s->value];
    DType t = e->body->bufs.at[s->buf].type;
    bool rounds = v->kind == KI_CAST && v->type == t && (t == DT_BF16 || t == DT_F16) && !s->add;
    return rounds && !strcmp(type_math(v->from), "float") ? v->a[0] : s->value;
}

void emit_store(Emit *e, const BodyStore *s)
{
    const Body *b = e->body;
    const char *v = emit_value(e, emit_unrounded(e, s));
    const char *buf = e->buf_name[s->buf], *ix = emit_index(e, s->ix);
    DType t = b->bufs.at[s->buf].type;
    if (s->add) {
        Inst old = {.type = t};
        const char *was = emit_load(e, &old, arena_printf(e->arena, "%s[%s]", buf, ix));
        v = arena_printf(e->arena, "(%s + %s)", was, v);
    }
    const char *only =
        s->guard ? arena_printf(e->arena, "if (%s) ", emit_value(e, s->guard - 1)) : "";
    emit_line(e, e->scope, "%s%s[%s] = %s;", only, buf, ix, emit_stored(e, t, v));
}

void emit_stores(Emit *e, int stage)
{
    const Body *b = e->body;
    // every value first: an output may lie where an input of the same element lay
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < b->stores.n; i++) {
            const BodyStore *s = &b->stores.at[i];
            bool over = store_over(b, s, b->col);
            if (over ? s->stage != stage : stage >= 0) continue;
            if (pass == 0) {
                emit_value(e, s->buf < 0 ? s->value : emit_unrounded(e, s));
                if (s->ix) emit_index(e, s->ix);
            } else if (s->buf >= 0) {
                emit_store(e, s);
            }
        }
}

const int *stage_reductions(const Emit *e, int stage, int *n)
{
    const Body *b = e->body;
    int *out = NEW_ARRAY(e->arena, int, b->insts.n + 1);
    *n = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (e->live[i] && b->col >= 0 &&
            ((v->kind == KI_REDUCE && v->axis == b->col && v->stage == stage + 1) ||
             (v->kind == KI_SCAN && v->stage == stage)))
            out[(*n)++] = (int)i;
    }
    return out;
}
