// Values as tensors, sizes and numbers, each with an error that says what was expected.
#include <math.h>
#include <string.h>

#include "frontend/elab.h"

bool int_fits(DType t, int64_t v)
{
    switch (t) {
    case DT_U8: return v >= 0 && v <= UINT8_MAX;
    case DT_I32: return v >= INT32_MIN && v <= INT32_MAX;
    case DT_U32: return v >= 0 && v <= UINT32_MAX;
    default: return true;
    }
}

// Whether a number is a value of type t; false after reporting an error.
static bool suits(Elab *e, const Val *v, DType t, Span span)
{
    const char *name = dtype_info[t].name;
    if (t == DT_BOOL)
        fail(e, span,
             "%s cannot be combined with bool values; compare (x != 0) or cast to get a bool",
             val_text(e, v));
    else if (dtype_is_float(t) || (v->kind == V_INT && int_fits(t, v->i)))
        return true;
    else if (v->kind == V_FLOAT)
        fail(e, span,
             "%s cannot be combined with %s values; integers become floats only through a cast: "
             "cast(…, f32)",
             val_text(e, v), name);
    else
        fail(e, span, "%lld does not fit into %s", (long long)v->i, name);
    return false;
}

// A weak number as a scalar of type t; NULL after reporting.
static Node *weak_const(Elab *e, const Val *v, DType t, Span span)
{
    if (v->kind == V_BOOL) {
        if (t == DT_BOOL) return graph_const(e->g, t, v->b);
        const char *name = dtype_info[t].name;
        fail(e, span, "%s cannot be combined with %s values; write cast(…, %s)", val_text(e, v),
             name, name);
        return NULL;
    }
    if (!suits(e, v, t, span)) return NULL;
    if (dtype_is_float(t)) return graph_const(e->g, t, v->kind == V_INT ? (double)v->i : v->f);
    return graph_const_int(e->g, t, v->i);
}

// Converts numbers and nested lists of numbers to the elements of a constant tensor of type t.
// Bools are 0 and 1 in any type, and 0 and 1 are bools.
static bool list_flatten(Elab *e, const Val *v, int depth, Type *t, int64_t *bits, int64_t cap,
                         int64_t *n, Span span)
{
    uint32_t len;
    if (!seq_length(v, &len)) {
        double x;
        if (depth != t->rank || *n >= cap || !(v->kind == V_BOOL || val_number(v, &x))) {
            fail(e, span,
                 "a list can be used as a tensor only if it holds numbers in rows of the same "
                 "length; found %s",
                 val_text(e, v));
            return false;
        }
        bool truth = v->kind == V_BOOL;
        if (!truth && t->dtype == DT_BOOL) truth = v->kind == V_INT && (v->i == 0 || v->i == 1);
        if (!truth && !suits(e, v, t->dtype, span)) return false;
        if (v->kind == V_BOOL) x = v->b;
        if (dtype_is_float(t->dtype))
            memcpy(&bits[(*n)++], &x, sizeof x);
        else
            bits[(*n)++] = v->kind == V_BOOL ? v->b : v->i;
        return true;
    }
    if (depth >= t->rank || t->dim[depth] != len) {
        fail(e, span, "a list can be used as a tensor only if its rows have the same length");
        return false;
    }
    for (uint32_t i = 0; i < len; i++) {
        Val item = seq_item(e, v, i);
        if (!list_flatten(e, &item, depth + 1, t, bits, cap, n, span)) return false;
    }
    return true;
}

static bool list_has(Elab *e, const Val *v, ValKind k, int depth)
{
    uint32_t len;
    if (depth > MAX_RANK || !seq_length(v, &len)) return v->kind == k;
    for (uint32_t i = 0; i < len; i++) {
        Val item = seq_item(e, v, i);
        if (list_has(e, &item, k, depth + 1)) return true;
        if (v->kind == V_RANGE) break;
    }
    return false;
}

// The type of a number, or of a list of them, that no other operand gives a type.
static DType list_type(Elab *e, const Val *v)
{
    return list_has(e, v, V_FLOAT, 0) ? DT_F32 : list_has(e, v, V_BOOL, 0) ? DT_BOOL : DT_I32;
}

static Node *list_const(Elab *e, const Val *v, DType weak, Span span)
{
    bool tensors = list_has(e, v, V_TENSOR, 0) || list_has(e, v, V_CELL, 0);
    if (tensors) {
        fail(e, span, "expected a tensor, found a list of tensors; use stack or concat");
        return NULL;
    }
    DType t = weak != DT_COUNT ? weak : list_type(e, v);
    Type type = {.dtype = t};
    Val at = *v;
    uint32_t len;
    while (seq_length(&at, &len)) {
        if (!len || type.rank >= MAX_RANK) {
            fail(e, span, "expected a tensor, found %s", val_text(e, v));
            return NULL;
        }
        type.dim[type.rank++] = len;
        at = seq_item(e, &at, 0);
    }
    if (v->kind == V_RANGE) {
        Val last = val_int(v->range.hi - 1);
        if (!suits(e, &last, t, span)) return NULL;
        Attrs attrs = {0};
        attr_set_ints(e->g, &attrs, ATTR_shape, type.dim, 1);
        attr_set_int(&attrs, ATTR_dtype, t);
        attr_set_int(&attrs, ATTR_axis, 0);
        Node *n = graph_node(e->g, OP_iota, NULL, 0, &attrs);
        Val lo = val_int(v->range.lo);
        if (!v->range.lo) return n;
        Node *c = weak_const(e, &lo, t, span);
        return c ? graph_binary(e->g, OP_add, n, c) : NULL;
    }
    int64_t count = 1, n = 0; // (no overflow: at most 2^20 times a length below 2^32)
    for (int i = 0; i < type.rank; i++) {
        count *= type.dim[i];
        if (!list_fits(e, (uint64_t)count, span)) return NULL;
    }
    int64_t *bits = NEW_ARRAY(e->arena, int64_t, count);
    if (!list_flatten(e, v, 0, &type, bits, count, &n, span)) return NULL;
    Attrs attrs = {0};
    attr_set_ints(e->g, &attrs, ATTR_shape, type.dim, type.rank);
    attr_set_int(&attrs, ATTR_dtype, t);
    attr_set_ints(e->g, &attrs, ATTR_values, bits, (int)count);
    return graph_node(e->g, OP_const, NULL, 0, &attrs);
}

Node *to_tensor(Elab *e, const Val *v, DType weak, Span span)
{
    switch (v->kind) {
    case V_POISON: return NULL;
    case V_TENSOR: return own(e, v->node, span);
    case V_CELL: return cell_read(e, v->cell, span);
    case V_INT: return weak_const(e, v, weak == DT_COUNT ? DT_I64 : weak, span);
    case V_FLOAT: return weak_const(e, v, weak == DT_COUNT ? DT_F32 : weak, span);
    case V_BOOL: return weak_const(e, v, weak == DT_COUNT ? DT_BOOL : weak, span);
    case V_LIST:
    case V_RANGE: return list_const(e, v, weak, span);
    case V_NONE:
        fail(e, span, "expected a tensor, found none, the result of a function without 'return'");
        return NULL;
    default: fail(e, span, "expected a tensor, found %s", val_text(e, v)); return NULL;
    }
}

void fail_defined(Elab *e, const Stmt *definition, Span use, const char *text, const char *found)
{
    Loc at = loc_add(e->diags, definition->span, 0, NULL);
    Diag *d = diag_error(e->diags, at, "%s, and '%s' is %s", text, definition->name, found);
    Loc loc = loc_add(e->diags, use, e->frame ? e->frame->call : 0, NULL);
    Span from = loc_user_span(e->diags, loc);
    for (uint32_t i = 0; i < e->options->ndefines; i++) {
        const Define *given = &e->options->defines[i];
        bool wins = !given->from_data || !strmap_has(&e->define_used, given->name);
        if (wins && !strcmp(given->name, definition->name))
            diag_note(e->diags, d, "by %s%s=%s", given->from_data ? "the data: " : "-D ",
                      given->name, given->value);
    }
    if (from.source != definition->span.source || from.begin != definition->span.begin)
        diag_note_span(e->diags, d, from, "used here");
}

// Reports a value that is not suitable: at the definition of the const that it is, or where it is
// used.
static void unsuitable(Elab *e, const Val *v, Span span, const char *text)
{
    if (v->constant)
        fail_defined(e, e->constants.at[v->constant - 1], span, text, val_text(e, v));
    else
        fail(e, span, "%s, found %s", text, val_text(e, v));
}

bool to_int(Elab *e, const Val *v, Span span, const char *what, int64_t *out)
{
    if (v->kind == V_INT) return *out = v->i, true;
    if (v->kind == V_FLOAT && v->f == floor(v->f) && fabs(v->f) < 0x1p53)
        return *out = (int64_t)v->f, true;
    if (v->kind == V_POISON) return false;
    if (val_is_tensor(v))
        fail(e, span, "%s must be an integer known at compile time, found %s", what,
             val_text(e, v));
    else
        unsuitable(e, v, span, arena_printf(e->arena, "%s must be an integer", what));
    return false;
}

bool to_bool(Elab *e, const Val *v, Span span, const char *what, bool *out)
{
    if (v->kind == V_BOOL) return *out = v->b, true;
    if (v->kind == V_POISON) return false;
    if (val_is_tensor(v)) {
        Diag *d =
            error_at(e, span, "%s must be known at compile time, found %s", what, val_text(e, v));
        diag_note(e->diags, d, "a choice made at run time is where(condition, a, b)");
    } else {
        fail(e, span, "%s must be true or false, found %s", what, val_text(e, v));
    }
    return false;
}

bool to_axis(Elab *e, const Val *v, Span span, int rank, int *out)
{
    int64_t i;
    if (!to_int(e, v, span, "an axis", &i)) return false;
    if (i < -rank || i >= rank) {
        fail(e, span, "there is no axis %lld in a tensor with %d ax%ss", (long long)i, rank,
             rank == 1 ? "i" : "e");
        return false;
    }
    *out = (int)(i < 0 ? i + rank : i);
    return true;
}

// More elements than fit into any memory, but few enough that derived numbers do not overflow.
static const int64_t most_elements = (int64_t)1 << 40;

bool check_size(Elab *e, const Type *t, Span span)
{
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] <= 0) {
            fail(e, span, "the size of axis %d is %lld; sizes must be positive", i,
                 (long long)t->dim[i]);
            return false;
        }
        if (__builtin_mul_overflow(count, t->dim[i], &count) || count > most_elements) {
            // (of a shape alone, the element type is not known yet)
            fail(e, span, "a tensor %s is too large: it has at most 2^40 elements",
                 strchr(type_text(e, t), '['));
            return false;
        }
    }
    return true;
}

bool to_shape(Elab *e, const Val *v, Span span, Type *out)
{
    uint32_t n = 1;
    out->rank = 0;
    if (v->kind == V_POISON) return false;
    bool many = seq_length(v, &n);
    if (n > MAX_RANK) {
        fail(e, span, "a tensor has at most %d axes, found %u", MAX_RANK, n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        Val item = many ? seq_item(e, v, i) : *v;
        int64_t size;
        if (!to_int(e, &item, span, "a size", &size)) return false;
        if (size <= 0 && item.constant) {
            unsuitable(e, &item, span, "a size must be positive");
            return false;
        }
        out->sym[i] = item.kind == V_INT ? item.sym : 0;
        out->dim[i] = size;
        out->rank++;
    }
    return check_size(e, out, span);
}

bool to_ints(Elab *e, const Val *v, Span span, int64_t *out, int max, int *n)
{
    uint32_t len = 1;
    if (v->kind == V_POISON) return false;
    bool many = seq_length(v, &len);
    if (len > (uint32_t)max) {
        fail(e, span, "at most %d integers fit here, found %u", max, len);
        return false;
    }
    for (uint32_t i = 0; i < len; i++) {
        Val item = many ? seq_item(e, v, i) : *v;
        if (!to_int(e, &item, span, "an element", &out[i])) return false;
    }
    *n = (int)len;
    return true;
}

bool join_operands(Elab *e, const char *what, Val *v, const Span *span, int n, Node **out, Span at)
{
    DType t = DT_COUNT;
    int from = -1;
    for (int i = 0; i < n; i++) {
        if (v[i].kind == V_POISON) return false;
        if (!val_is_tensor(&v[i])) continue;
        out[i] = to_tensor(e, &v[i], DT_COUNT, span[i]);
        if (!out[i]) return false;
        if (t == DT_COUNT) {
            t = out[i]->type.dtype;
            from = i;
        } else if (!dtype_join(t, out[i]->type.dtype, &t)) {
            const Type *a = &out[from]->type, *b = &out[i]->type;
            const Type *narrow = dtype_is_float(a->dtype) ? b : a;
            const Type *wide = dtype_is_float(a->dtype) ? a : b;
            Diag *d = error_at(e, at, "'%s' of %s and %s", what, type_text(e, a), type_text(e, b));
            diag_note(e->diags, d,
                      "integers, bools and floats can be combined only after a cast: cast(…, %s) "
                      "of the %s operand",
                      dtype_info[wide->dtype].name, dtype_info[narrow->dtype].name);
            return false;
        }
    }
    if (t == DT_COUNT) { // only for numbers and lists
        for (int i = 0; i < n; i++) {
            DType own = list_type(e, &v[i]);
            if (t == DT_COUNT || own == DT_F32 || (t == DT_BOOL && own == DT_I32)) t = own;
        }
    }
    for (int i = 0; i < n; i++) {
        if (!val_is_tensor(&v[i])) {
            out[i] = to_tensor(e, &v[i], t, span[i]);
            if (!out[i]) return false;
        }
        if (out[i]->type.dtype != t) {
            at_span(e, at);
            out[i] = graph_cast(e->g, out[i], t);
        }
    }
    return true;
}
