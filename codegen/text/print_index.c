// Index expressions to text.
#include "codegen/text/print.h"

#include <stdlib.h>

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
        if (up && t->kind == IT_DIV) text = arena_printf(e->arena, "(%s - %lld)", text, up);
        if (!e->cuda || inner == wide) return text;
        return arena_printf(e->arena, wide ? "(int64_t)%s" : "(int)%s", text);
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

static const char *index_text(Emit *e, const Ix *x, bool wide)
{
    Buf b = buf_new(e->arena);
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
