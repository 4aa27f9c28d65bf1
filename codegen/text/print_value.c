// Instructions and stores as text, each in the outermost loop where everything it depends on is
// known.
#include "base/plain.h"
#include "codegen/text/accumulator.h"
#include "codegen/text/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *emit_literal(const Emit *e, DType t, int64_t i, double f)
{
    Arena *a = e->arena;
    if (t == DT_BOOL) return i ? "true" : "false";
    if (t == DT_I64)
        return i == INT64_MIN
                   ? (e->cuda ? "(-9223372036854775807ll - 1)" : "(-9223372036854775807l - 1)")
                   : arena_printf(a, e->cuda ? "%lldll" : "%lldl", (long long)i);
    if (t == DT_U32) return arena_printf(a, "%uu", (unsigned)i);
    if (!dtype_is_float(t))
        return i == INT32_MIN ? "(-2147483647 - 1)" : arena_printf(a, "%lld", (long long)i);
    if (isnan(f)) return t == DT_F64 ? "(double)NC_NAN" : "NC_NAN";
    if (isinf(f))
        return arena_printf(a, "%s%sNC_INF", f < 0 ? "-" : "", t == DT_F64 ? "(double)" : "");
    char text[64];
    if (t == DT_F64) {
        for (int p = 15; p <= 17; p++) {
            plain_format(text, sizeof text, "%.*g", p, f);
            if (plain_double(text, NULL) == f) break;
        }
    } else {
        for (int p = 6; p <= 9; p++) {
            plain_format(text, sizeof text, "%.*g", p, (double)(float)f);
            if (plain_float(text, NULL) == (float)f) break;
        }
        if (isinf((float)f)) return f < 0 ? "-NC_INF" : "NC_INF";
    }
    const char *dot = strpbrk(text, ".e") ? "" : ".0";
    return arena_printf(a, "%s%s%s", text, dot, t == DT_F64 ? "" : "f");
}

static bool is_moved(const Emit *e, int at)
{
    return e->moved && e->moved[at];
}

// Converts from the stored to the arithmetic type.
static const char *emit_load(Emit *e, DType t, const char *element)
{
    switch (t) {
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
    if (from == DT_BOOL && to != DT_BOOL && !e->cuda) // gcc vectorizes this, but not a cast
        return arena_printf(e->arena, "%s ? %s : %s", x, emit_literal(e, to, 1, 1),
                            emit_literal(e, to, 0, 0));
    const char *as_float = strcmp(type_math(from), "float") ? "(float)" : "";
    switch (to) {
    case DT_BOOL: return arena_printf(e->arena, "%s != 0", x);
    case DT_BF16: return arena_printf(e->arena, "nc_round_bf16(%s%s)", as_float, x);
    case DT_F16: return arena_printf(e->arena, "nc_round_f16(%s%s)", as_float, x);
    case DT_U8: name = "u8"; break;
    case DT_I32: name = "i32"; break;
    case DT_U32: name = "u32"; break;
    case DT_I64: name = "i64"; break;
    default: return arena_printf(e->arena, "(%s)%s", type_math(to), x);
    }
    if (dtype_is_float(from)) return arena_printf(e->arena, "nc_to_%s(%s)", name, x);
    return arena_printf(e->arena, "(%s)%s", type_storage(to), x);
}

// CUDA: the unsigned type to use for a sum, product or negation of signed integers, which must wrap
// on overflow; NULL: not such an operation. (C is compiled with -fwrapv.)
static const char *wraps_in(const Emit *e, const Inst *v)
{
    bool plain = op_info(v->op)->rule == EW_arith && !strstr(op_info(v->op)->expr, "nc_");
    if (!e->cuda || !plain) return NULL;
    return v->type == DT_I32 ? "uint32_t" : v->type == DT_I64 ? "uint64_t" : NULL;
}

// The user-written expression, in which $0, $1, $2 are the operands.
static const char *own_text(Emit *e, const Inst *v, const char *const *x)
{
    Buf b = buf_new(e->arena);
    buf_printf(&b, "(%s)(", type_math(v->type));
    for (const char *p = v->text; *p; p++) {
        if (*p == '$')
            buf_printf(&b, "(%s)", x[*++p - '0']); // (checked by infer_native)
        else
            buf_char(&b, *p);
    }
    buf_char(&b, ')');
    return b.data;
}

// Whether an operand is a constant, which takes the type of the other operand.
static bool takes_type(const Emit *e, const Inst *v, int operand)
{
    const Inst *i = e->body->insts.at;
    return v->na == 2 && i[v->a[operand]].kind == KI_CONST && i[v->a[!operand]].kind != KI_CONST;
}

// The op's expression with a, b, c replaced by the operands.
static const char *ew_text(Emit *e, int at, const char *const *x)
{
    const Inst *v = &e->body->insts.at[at];
    if (v->text) return own_text(e, v, x);
    const bool wave = !e->cuda && op_info(v->op)->flags & OPF_WAVE;
    e->waves += wave;
    const char *text = op_info(v->op)->expr, *p = text,
               *form = e->cuda && v->approx ? "_16"
                       : wave && e->called  ? "_called"
                                            : "";
    Buf b = buf_new(e->arena);
    const char *unsigned_type = wraps_in(e, v);
    const char *result = v->type == DT_U8 ? "uint8_t" : unsigned_type ? type_math(v->type) : NULL;
    const char *cast = unsigned_type ? arena_printf(e->arena, "(%s)", unsigned_type) : "";
    if (result) buf_printf(&b, "(%s)(", result);
    while (*p) {
        if (plain_alpha(*p) || *p == '_') {
            const char *q = p;
            bool minus = p > text && p[-1] == '-'; // (-x with a negative number must not become --)
            while (plain_alnum(*q) || *q == '_') q++;
            if (q - p == 1 && *p >= 'a' && *p <= 'c' && *p - 'a' < v->na)
                buf_printf(&b, minus && *x[*p - 'a'] == '-' ? "%s(%s)" : "%s%s",
                           takes_type(e, v, *p - 'a') ? "" : cast, x[*p - 'a']);
            else
                buf_printf(&b, "%.*s%s", (int)(q - p), p, strncmp(p, "nc_", 3) ? "" : form);
            p = q;
        } else {
            buf_char(&b, *p++);
        }
    }
    if (result) buf_char(&b, ')');
    return b.data;
}

// The text of a division for which a reciprocal is computed once (Inst.quotient): for a constant,
// in the text; on CUDA, for a repeated value, if possible outside of the loop that divides. NULL:
// the op's own expression.
static const char *divided(Emit *e, const Inst *v, const char *const *x)
{
    int by = v->a[1];
    Scope *s = e->bind[by].scope;
    if (v->quotient == QUOTIENT || (!e->cuda && v->quotient == QUOTIENT_REPEATED)) return NULL;
    if (v->quotient != QUOTIENT_REPEATED) {
        const float inverse = 1 / (float)e->body->insts.at[by].fvalue;
        const char *times = emit_literal(e, DT_F32, 0, (double)inverse);
        if (e->cuda && v->approx) return arena_printf(e->arena, "%s * %s", x[0], times);
        return arena_printf(e->arena, "nc_divide_%sby(%s, %s, %s)",
                            v->quotient == QUOTIENT_WHOLE_BY_CONST ? "whole_" : "", x[0], x[1],
                            times);
    }
    if (e->inverse_in[by] != s || !s->open) {
        e->inverse[by] = arena_printf(e->arena, "%s_inverse", e->name[by]);
        e->inverse_in[by] = s;
        emit_line(e, s, "const NcInverse %s = nc_inverse(%s);", e->inverse[by], x[1]);
    }
    return arena_printf(e->arena, "nc_divide(%s, %s)", x[0], e->inverse[by]);
}

Scope *home_of(const Emit *e, uint64_t axes)
{
    Scope *s = e->scope;
    uint64_t have = 0;
    for (Scope *k = s; k; k = k->up) have |= k->axes;
    axes &= have;
    while (s->up) {
        if (axes & s->axes || s == e->floor) return s;
        s = s->up;
    }
    return s;
}

static Scope *deeper(Scope *a, Scope *b)
{
    return b && b->depth > a->depth ? b : a;
}

// The innermost guarded scope that contains the open one; NULL: none.
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

// Prints a reduction over an axis of its own: a loop where its result is needed, which hardly any
// element executes if it has an [unless].
static void emit_nested(Emit *e, int at, Scope *home)
{
    const Inst *v = &e->body->insts.at[at];
    Scope *back = e->scope;
    const char *acc = e->name[at], *t = type_math(v->acc), *axis = e->axis[v->axis];
    const char *it =
        e->cuda ? (e->body->axis[v->axis].extent > INT32_MAX ? "int64_t" : "int") : "long";
    const char *unless = v->unless ? emit_value(e, v->unless - 1) : NULL;
    if (unless) home = deeper(home, e->bind[v->unless - 1].scope);
    e->scope = home;
    if (unless) emit_open(e, 0);
    bool arg = inst_acc(v)->place;
    const char *best = arg ? arena_printf(e->arena, "%s_value", acc) : acc;
    emit_open(e, 1ull << v->axis);
    if (arg) {
        const char *x = emit_value(e, v->a[0]);
        emit(e, "if (%s == 0 || %s > %s || (%s != %s && %s == %s)) {", axis, x, best, x, x, best,
             best);
        emit(e, "    %s = %s;", best, x);
        emit(e, "    %s = (int32_t)%s;", acc, axis);
        emit(e, "}");
    } else {
        emit(e, "%s = %s;", acc, emit_taken(e, v->op, v->acc, acc, v->a[0]));
    }
    // (operands that do not depend on the axis have been printed in home, before the loop)
    emit_line(e, home, "%s %s = %s;", t, best, emit_identity(e, v->op, v->acc));
    if (arg) emit_line(e, home, "int32_t %s = 0;", acc);
    if (unless && e->cuda) emit_line(e, e->scope->up, "#pragma unroll 1");
    emit_end(e, "for (%s %s = 0; %s < %lld; %s++) {", it, axis, axis,
             (long long)e->body->axis[v->axis].extent, axis);
    if (unless) emit_end(e, "if (!%s) {", unless);
    e->scope = back;
    emit_bind(e, at, home, acc);
}

static const char *location_comment(Emit *e, const Inst *v)
{
    if (!e->pretty || !v->node || !v->node->loc) return "";
    const char *where = loc_text(e->kernel->ctx->diags, v->node->loc);
    if (!strcmp(where, e->where)) return "";
    e->where = where;
    return *where && *where != ':' ? arena_printf(e->arena, " // %s", where) : "";
}

static const char *load_text(Emit *e, int at, const char *pred)
{
    const Inst *v = &e->body->insts.at[at];
    const char *buf = e->buf_name[v->buf];
    if (e->body->bufs.at[v->buf].kind == KA_LOOP_INDEX) return buf;
    const char *text = e->follow ? emit_text(e, "nc_prefetch<1>(%s).at[0]",
                                             emit_address(e, buf, emit_index(e, v->ix)))
                                 : emit_text(e, "%s[%s]", buf, emit_index(e, v->ix));
    if (is_moved(e, at)) return text;
    text = emit_load(e, v->type, text);
    if (!pred) return text;
    return arena_printf(e->arena, "%s ? %s : %s", pred, text, emit_literal(e, v->type, 0, 0));
}

static const char *check_text(Emit *e, const Inst *v, const char *x, const char *pred)
{
    const char *text =
        arena_printf(e->arena, "(%s)nc_check(%s, %s, %s, %lld, %s)", type_math(v->type),
                     e->buf_name[e->body->error_buf], e->buf_name[v->buf], x, (long long)v->bound,
                     emit_index(e, v->ix));
    return pred ? arena_printf(e->arena, "%s ? %s : 0", pred, text) : text;
}

// The expression of an instruction with operands x.
static const char *value_text(Emit *e, int at, const char *const *x, const char *pred)
{
    const Inst *v = &e->body->insts.at[at];
    switch (v->kind) {
    case KI_INDEX: return emit_index(e, v->ix);
    case KI_LOAD: return load_text(e, at, pred);
    case KI_EW: {
        const char *text = divided(e, v, x);
        return text ? text : ew_text(e, at, x);
    }
    case KI_CAST: return cast_text(e, v, x[0]);
    case KI_RANDOM: return emit_draw(e, at, x[0], x[1]);
    case KI_CHECK: return check_text(e, v, x[0], pred);
    case KI_ASSERT:
        return arena_printf(e->arena, "nc_assert(%s, %s, %s, %s)", e->buf_name[e->body->error_buf],
                            e->buf_name[v->buf], x[0], emit_index(e, v->ix));
    case KI_NEIGHBOUR: {
        const char *at = emit_index(e, v->ix);
        if (v->ix->low < 0 || v->ix->high >= e->body->meets)
            at = arena_printf(e->arena, "nc_within(%s, %lld)", at, (long long)e->body->meets);
        return arena_printf(e->arena, "%s_row[%s & 1][%s]", e->name[v->a[0]], e->axis[e->body->col],
                            at);
    }
    case KI_LANES:
        return arena_printf(e->arena, "nc_sum_lanes<%d, %s>(%s)", v->lane,
                            body_rows(e->body) % 32 ? "false" : "true", x[0]);
    default: return "0";
    }
}

static const char *declare(Emit *e, int at, Scope *home, const char *text)
{
    const Inst *v = &e->body->insts.at[at];
    emit_line(e, home, "const %s %s = %s;%s",
              is_moved(e, at) ? type_storage(v->type) : type_math(v->type), e->name[at], text,
              location_comment(e, v));
    emit_bind(e, at, home, e->name[at]);
    return e->name[at];
}

// Whether an index is that of an axis, which needs no other name.
static bool is_own_axis(const Emit *e, const Inst *v)
{
    const Ix *x = v->ix;
    return e->cuda && v->kind == KI_INDEX && v->type == (e->body->sched.wide ? DT_I64 : DT_I32) &&
           x->n == 1 && !x->constant && x->at[0].coeff == 1 && x->at[0].term->kind == IT_AXIS;
}

// Whether a cast is only of the type that the operand is stored in: it has that of the result
// already.
static bool is_no_cast(const Emit *e, const Inst *v)
{
    return e->cuda && v->kind == KI_CAST && v->type == DT_F32 &&
           (v->from == DT_BF16 || v->from == DT_F16);
}

const char *emit_value(Emit *e, int at)
{
    if (e->bind[at].scope && e->bind[at].scope->open) return e->bind[at].text;
    const Inst *v = &e->body->insts.at[at];
    if (v->kind == KI_CONST) {
        Scope *root = e->scope;
        while (root->up) root = root->up;
        emit_bind(e, at, root, emit_literal(e, v->type, v->ivalue, v->fvalue));
        return e->bind[at].text;
    }
    Scope *home = home_of(e, v->axes);
    if (e->element[at])
        return declare(e, at, home,
                       e->converted[at] || is_moved(e, at) ? e->element[at]
                                                           : emit_load(e, v->type, e->element[at]));
    if (v->kind == KI_REDUCE) {
        emit_nested(e, at, home);
        return e->bind[at].text;
    }
    const char *x[4] = {0}, *pred = NULL;
    for (int i = 0; i < v->na; i++) {
        x[i] = emit_value(e, v->a[i]);
        home = deeper(home, e->bind[v->a[i]].scope);
    }
    if ((v->kind == KI_LOAD || v->kind == KI_CHECK) && v->pred >= 0) {
        pred = emit_value(e, v->pred);
        home = deeper(home, e->bind[v->pred].scope);
        if (!strcmp(pred, "true")) pred = NULL;
    }
    home = scope_of_ix(e, v->ix, home);
    if (v->kind == KI_LOAD && e->body->bufs.at[v->buf].in_place) home = deeper(home, guard_of(e));
    const bool in_value = e->in_value;
    e->in_value = true;
    const char *text = value_text(e, at, x, pred);
    e->in_value = in_value;
    if (is_own_axis(e, v) || is_no_cast(e, v)) {
        if (v->kind == KI_CAST) text = x[0];
        emit_bind(e, at, home, text);
        return text;
    }
    if (v->kind != KI_ASSERT) return declare(e, at, home, text);
    emit_line(e, home, "%s;%s", text, location_comment(e, v));
    emit_bind(e, at, home, "true");
    return "true";
}

int emit_unrounded(const Emit *e, const BodyStore *s)
{
    const Inst *v = &e->body->insts.at[s->value];
    DType t = e->body->bufs.at[s->buf].type;
    bool rounds = v->kind == KI_CAST && v->type == t && (t == DT_BF16 || t == DT_F16) && !s->joins;
    return rounds && !strcmp(type_math(v->from), "float") ? v->a[0] : s->value;
}

void emit_store(Emit *e, const BodyStore *s)
{
    const Body *b = e->body;
    const char *v = emit_value(e, emit_unrounded(e, s));
    const char *buf = e->buf_name[s->buf], *ix = emit_index(e, s->ix);
    DType t = b->bufs.at[s->buf].type;
    if (s->joins && !s->atomic) {
        const char *was = emit_load(e, t, arena_printf(e->arena, "%s[%s]", buf, ix));
        if (dtype_info[t].bits < 16) was = arena_printf(e->arena, "(%s)%s", type_math(t), was);
        v = arena_printf(e->arena, "(%s)", emit_combine(e, (Op)(s->joins - 1), t, was, v));
    }
    const char *only =
        s->guard ? arena_printf(e->arena, "if (%s) ", emit_value(e, s->guard - 1)) : "";
    if (s->atomic) {
        const Op op = (Op)(s->joins - 1);
        const char *kind = op == OP_sum ? "Add" : op == OP_max ? "Max" : "Min";
        // (CUDA adds integers of 64 bits without a sign, which have the same bits)
        const char *as = t != DT_I64 ? "" : op == OP_sum ? "(uint64_t *)" : "(int64_t *)";
        emit(e, "%s%s%s(%s&%s[%s], %s);", only, dtype_is_float(t) ? "nc_atomic" : "atomic", kind,
             as, buf, ix, v);
        return;
    }
    emit(e, "%s%s[%s] = %s;", only, buf, ix, is_moved(e, s->value) ? v : emit_stored(e, t, v));
}

void emit_stores(Emit *e, int stage)
{
    const Body *b = e->body;
    // All values are printed before the stores, since an output may share memory with an input.
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < b->stores.n; i++) {
            const BodyStore *s = &b->stores.at[i];
            bool over = store_over(b, s, b->col);
            if (over ? s->stage != stage : stage >= 0) continue;
            if (pass == 0) {
                emit_value(e, s->buf < 0 ? s->value : emit_unrounded(e, s));
                if (s->ix) emit_index(e, s->ix);
            } else if (s->buf >= 0 && e->place[i]) {
                const char *v = emit_value(e, emit_unrounded(e, s));
                const bool converted = e->converted[b->insts.n + i] || is_moved(e, s->value);
                emit(e, "%s = %s;", e->place[i],
                     converted ? v : emit_stored(e, b->bufs.at[s->buf].type, v));
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
