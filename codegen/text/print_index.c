// Index expressions to text.
#include "codegen/text/print.h"

#include <stdlib.h>
#include <string.h>

static const char *index_text(Emit *e, const Ix *x, bool wide);

// A quotient or remainder of the axis of a loop that stays within one period, expressed by what is
// constant there.
static const char *round_text(Emit *e, const IxTerm *t)
{
    const Ix *of = t->e;
    if (!e->period || t->by % e->period || of->n != 1 || of->constant || of->at[0].coeff != 1 ||
        of->at[0].term->kind != IT_AXIS || of->at[0].term->id != e->round_axis)
        return NULL;
    const char *axis = e->axis[e->round_axis];
    if (t->kind == IT_DIV)
        return arena_printf(e->arena, "nc_quo(%s, %lld)", e->round, (long long)t->by);
    if (t->by == e->period) return arena_printf(e->arena, "(%s - %s)", axis, e->round);
    return arena_printf(e->arena, "(nc_rem(%s, %lld) + %s - %s)", e->round, (long long)t->by, axis,
                        e->round);
}

// Whether a value is computed from a condition.
static bool from_condition(const Body *b, int at)
{
    const Inst *v = &b->insts.at[at];
    if (v->type == DT_BOOL) return true;
    if (v->kind != KI_EW && v->kind != KI_CAST && v->kind != KI_CHECK) return false;
    for (int i = 0; i < v->na; i++)
        if (from_condition(b, v->a[i])) return true;
    return false;
}

// Whether a scope inside of [from] declares the name anew.
static bool hidden(const Emit *e, const Scope *from, const char *name)
{
    for (const Scope *s = e->scope; s && s != from; s = s->up)
        for (uint32_t i = 0; i < s->declared.n; i++)
            if (!strcmp(s->declared.at[i].name, name)) return true;
    return false;
}

// CUDA: the variable of a quotient or remainder of [of], which is declared once per scope: where
// the axes are known or, for places of vectors, which are other names of an axis, in the innermost
// scope.
static const char *quotient(Emit *e, const IxTerm *t, const char *of, const char *text, bool wide)
{
    const bool plain = of[strspn(of, "abcdefghijklmnopqrstuvwxyz_0123456789")] == 0;
    uint64_t known_axes = 0;
    for (const Scope *s = e->scope; s; s = s->up) known_axes |= s->axes;
    bool placed = t->axes & ~known_axes;
    for (int i = 0; i < e->body->naxes; i++)
        placed |= t->axes >> i & 1 && strcmp(e->axis[i], e->own_axis[i]);
    const bool number = plain && of[0] >= '0' && of[0] <= '9'; // (of an axis that is 0 here)
    if (t->e->has_value || !t->axes || number || (placed && (e->in_value || !plain))) return text;
    const char *key = placed ? emit_text(e, "place %s", text) : text;
    Scope *home = placed ? e->scope : home_of(e, t->axes);
    Binding *known = strmap_get(e->quotients, key);
    if (known && known->scope->open && (placed || known->scope->depth >= home->depth) &&
        !(placed && hidden(e, known->scope, of)))
        return known->text;
    const bool div = t->kind == IT_DIV;
    const char *name = plain ? emit_text(e, "%s_%s_%lld", of, div ? "by" : "mod", (long long)t->by)
                             : emit_text(e, div ? "quotient_%lld" : "rest_%lld", (long long)t->by);
    while (strmap_has(e->names, name)) name = emit_text(e, "%s_", name);
    strmap_set(e->names, name, home);
    emit_declare_in(e, home, name,
                    emit_text(e, "const %s %s = %s;", wide ? "int64_t" : "int", name, text));
    known = NEW(e->arena, Binding);
    *known = (Binding){home, name};
    strmap_set(e->quotients, key, known);
    return name;
}

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
        if (!e->cuda && from_condition(e->body, t->id))
            return arena_printf(e->arena, "nc_place(%s)", v);
        return vt == DT_I64 && e->cuda ? v : arena_printf(e->arena, "%s%s", widen, v);
    }
    case IT_DIV:
    case IT_MOD: {
        const char *round = round_text(e, t);
        if (round) return round;
        bool inner = t->e->low < INT32_MIN || t->e->high > INT32_MAX || (wide && !e->cuda);
        const char *of = index_text(e, t->e, inner);
        // The printed division is unsigned, so a multiple of the divisor is added if the dividend
        // can be negative.
        long long by = t->by, up = t->e->low < 0 ? (-t->e->low + by - 1) / by : 0;
        if (up) of = arena_printf(e->arena, "%s + %lld", of, up * by);
        const char *text =
            arena_printf(e->arena, "%s(%s, %lld)", t->kind == IT_DIV ? "nc_quo" : "nc_rem", of, by);
        if (up && t->kind == IT_DIV) text = arena_printf(e->arena, "%s - %lld", text, up);
        const char *name = e->cuda ? quotient(e, t, of, text, inner) : text;
        if (name == text && up && t->kind == IT_DIV) name = arena_printf(e->arena, "(%s)", text);
        if (!e->cuda || inner == wide) return name;
        return arena_printf(e->arena, wide ? "(int64_t)%s" : "(int)%s", name);
    }
    }
    return "0";
}

// Whether a term of a wide sum must be widened: an int times its coefficient could overflow, or the
// sum so far if no term of it has been widened.
static bool widens(const Emit *e, const IxTerm *t, int64_t c, int64_t *span, bool *widened)
{
    if (!e->cuda) return true;
    const int64_t high = llabs(t->high) > llabs(t->low) ? llabs(t->high) : llabs(t->low);
    const int64_t most = high && llabs(c) > INT32_MAX / high ? INT64_MAX / 2 : llabs(c) * high;
    const DType type = t->kind == IT_VALUE ? e->body->insts.at[t->id].type : DT_I32;
    bool widen = type == DT_I64 || type == DT_U32 || most > INT32_MAX;
    *span = *span > INT32_MAX || most > INT32_MAX ? INT64_MAX / 2 : *span + most;
    widen |= !*widened && *span > INT32_MAX;
    *widened |= widen;
    return widen;
}

// The smallest stride of the index if another load is near it, within that stride; otherwise 0. Of
// loads at i * 1000 and i * 1000 + 1, gcc makes a group of 1000 neighbours, most of which nothing
// reads, and spends minutes on their permutations, unless it does not know the stride.
static int64_t sparse_stride(const Emit *e, const Ix *x)
{
    enum { WIDE = 32 };
    const Body *b = e->body;
    int64_t least = x->n ? INT64_MAX : 0;
    for (int k = 0; k < x->n; k++)
        if (llabs(x->at[k].coeff) < least) least = llabs(x->at[k].coeff);
    for (uint32_t i = 0; i < b->insts.n && least >= WIDE; i++) {
        const Inst *v = &b->insts.at[i];
        if (!e->live[i] || v->kind != KI_LOAD || v->ix == x || v->ix->n != x->n) continue;
        bool beside = llabs(v->ix->constant - x->constant) < least;
        for (int k = 0; k < x->n && beside; k++)
            beside = v->ix->at[k].term == x->at[k].term && v->ix->at[k].coeff == x->at[k].coeff;
        if (beside) return least;
    }
    return 0;
}

// C: the name of a stride that the compiler does not know.
static const char *hidden_stride(Emit *e, int64_t stride)
{
    const char *name = emit_text(e, "stride_%lld", (long long)stride);
    Scope *root = e->scope;
    while (root->up) root = root->up;
    if (strmap_has(e->names, name)) return name;
    strmap_set(e->names, name, root);
    emit_declare_in(e, root, name,
                    emit_text(e, "const long %s = nc_place(%lld);", name, (long long)stride));
    return name;
}

static const char *index_text(Emit *e, const Ix *x, bool wide)
{
    Buf b = buf_new(e->arena);
    const int64_t sparse = e->cuda ? 0 : sparse_stride(e, x);
    bool widened = false;
    int64_t span = llabs(x->constant);
    // Largest strides first, as usual.
    int n = x->n, *order = NEW_ARRAY(e->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && llabs(x->at[order[k - 1]].coeff) < llabs(x->at[i].coeff); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < n; i++) {
        int64_t c = x->at[order[i]].coeff;
        const IxTerm *term = x->at[order[i]].term;
        const bool widen = wide && widens(e, term, c, &span, &widened);
        const char *t = term_text(e, term, widen);
        buf_str(&b, b.len ? (c < 0 ? " - " : " + ") : c < 0 ? "-" : "");
        if (c == 1 || c == -1)
            buf_str(&b, t);
        else if (llabs(c) == sparse)
            buf_printf(&b, "%s * %s", t, hidden_stride(e, sparse));
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
    for (int i = 0; i < x->n; i++) { // partial sums must not overflow
        int64_t c = llabs(x->at[i].coeff), h = llabs(x->at[i].term->high),
                l = llabs(x->at[i].term->low);
        h = h > l ? h : l;
        if (h && c > (INT64_MAX - span) / h) return true;
        span += c * h;
    }
    return span > INT32_MAX;
}

const char *emit_index_at(Emit *e, const Ix *x, int axis, const char *place)
{
    const char *own = e->axis[axis];
    e->axis[axis] = place;
    const char *text = emit_index(e, x);
    e->axis[axis] = own;
    return text;
}

const char *emit_index(Emit *e, const Ix *x)
{
    return index_text(e, x, is_wide(x));
}
