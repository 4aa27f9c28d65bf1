// Drafts: deriving, what is live, text.
#include <math.h>
#include <string.h>

#include "tests/fuzz/programs/programs.h"

const char draft_header[] =
    "use nn\n"
    "use conv\n"
    "fn straight(x) { return round(x * 4) / 4 } grad(dy) { return dy }\n"
    "fn gated(x, y) { return tanh(x) * y } grad(dy) { return dy * y, dy * x }\n"
    "fn apart(x) { return x } grad(dy) { return dy }\n\n";

bool draft_derive(Draft *d)
{
    for (int i = 0; i < d->n; i++)
        if (!d->at[i].kind->derive(d, &d->at[i])) return false;
    return true;
}

void draft_live(Draft *d)
{
    for (int i = d->n - 1; i >= 0; i--) {
        Statement *s = &d->at[i];
        bool live = s->output;
        for (int k = i + 1; k < d->n && !live; k++)
            for (int a = 0; a < d->at[k].n; a++) live |= d->at[k].live && d->at[k].arg[a] == i;
        s->live = live;
    }
}

int number_of(const Draft *d, const Statement *s)
{
    return (int)(s - d->at);
}

double literal_value(const Statement *s, int i, DType t)
{
    static const double floats[] = {0.5, 2, -1.5, 0.1, 1, 3, -0.25, 0.01, 0, 10};
    static const double ints[] = {1, 2, 3, 5, 7, 0, -1, -3};
    uint32_t choice = s->raw[i];
    if (dtype_is_float(t)) return floats[choice % 10];
    if (t == DT_BOOL) return choice % 2;
    return ints[choice % (t == DT_U8 || t == DT_U32 ? 6 : 8)];
}

// n3, q3_f16: how it is filled and, where that is not the type itself, to what it is rounded.
static void print_input_name(const Statement *s, int number, Buf *out)
{
    static const char fills[] = "nqswix";
    buf_printf(out, "%c%d", fills[s->raw[0] % FILLS], number);
    if (dtype_is_float(s->type.dtype) && s->type.dtype != DT_F32)
        buf_printf(out, "_%s", dtype_info[s->type.dtype].name);
}

void name_of(const Draft *d, const Statement *s, Buf *out)
{
    int i = number_of(d, s);
    if (s->kind == &kind_input)
        print_input_name(s, i, out);
    else
        buf_printf(out, "v%d", i);
}

void print_operand(const Draft *d, const Statement *s, int i, Buf *out)
{
    const Statement *a = operand(d, s, i);
    if (a) {
        name_of(d, a, out);
        return;
    }
    DType t = DT_F32; // as the other operands have it
    for (int k = s->n - 1; k >= 0; k--)
        if (operand(d, s, k)) t = operand(d, s, k)->type.dtype;
    for (int k = 1; k < s->n && s->op == OP_select; k++)
        if (operand(d, s, k)) t = operand(d, s, k)->type.dtype;
    double v = literal_value(s, i, t);
    if (t == DT_BOOL)
        buf_str(out, v ? "true" : "false");
    else if (dtype_is_float(t))
        buf_double(out, v);
    else
        buf_printf(out, "%d", (int)v);
}

void print_list(const int64_t *v, int n, Buf *out)
{
    buf_char(out, '[');
    for (int i = 0; i < n; i++) buf_printf(out, "%s%lld", i ? ", " : "", (long long)v[i]);
    buf_char(out, ']');
}

void derive_same(const Draft *d, Statement *s)
{
    const Statement *a = operand(d, s, 0);
    if (!a) return; // the first operand is never a literal here
    memcpy(s->sample, a->sample, sizeof s->sample);
    s->smooth = a->smooth | 1ull << number_of(d, s);
}

// The size of axis 0 of the first input for which that is even: what the model calls its batch, which
// several devices divide. 0: there is none.
static int64_t batch_of(const Draft *d)
{
    for (int i = 0; i < d->n; i++) {
        const Statement *s = &d->at[i];
        if (s->kind == &kind_input && s->live && s->type.rank && s->type.dim[0] % 2 == 0)
            return s->type.dim[0];
    }
    return 0;
}

static void print_shape(const Draft *d, const Type *t, int64_t batch, Buf *out)
{
    if (!t->rank || t->dim[0] != batch) {
        print_list(t->dim, t->rank, out);
        return;
    }
    buf_printf(out, "[rows%d", d->number);
    for (int i = 1; i < t->rank; i++) buf_printf(out, ", %lld", (long long)t->dim[i]);
    buf_char(out, ']');
}

static void print_inputs(const Draft *d, Buf *out)
{
    bool first = true;
    const int64_t batch = batch_of(d);
    for (int i = 0; i < d->n; i++) {
        const Statement *s = &d->at[i];
        if (s->kind != &kind_input || !s->live) continue;
        if (!first) buf_str(out, ", ");
        first = false;
        name_of(d, s, out);
        buf_printf(out, ": %s", type_name(d, s->type.dtype));
        print_shape(d, &s->type, batch, out);
        // A range stated, as indices have it; fill 4 draws from 0 to 63.
        if (dtype_is_int(s->type.dtype) && s->raw[0] % FILLS == 4 && s->raw[1] % 2)
            buf_str(out, " in 0..64");
    }
}

void draft_print(const Draft *d, Buf *out)
{
    if (batch_of(d)) buf_printf(out, "dim rows%d = %lld\n", d->number, (long long)batch_of(d));
    buf_printf(out, "model m%d(", d->number);
    print_inputs(d, out);
    buf_str(out, ") {\n");
    bool twice[MAX_STATEMENTS] = {false};
    for (int i = 0; i < d->n; i++) {
        const Statement *s = &d->at[i];
        if (!s->live || s->kind == &kind_input) continue;
        s->kind->print(d, s, out);
        twice[i] = apart_print(d, s, out);
    }
    buf_str(out, "    return ");
    bool first = true;
    for (int i = 0; i < d->n; i++) {
        if (!d->at[i].output) continue;
        buf_printf(out, "%so%d = ", first ? "" : ", ", i);
        name_of(d, &d->at[i], out);
        first = false;
    }
    for (int i = 0; i < d->n; i++)
        if (twice[i])
            buf_printf(out, ", " TWICE_ONCE "%d = v%d, " TWICE_AGAIN "%d = w%d", i, i, i, i);
    buf_str(out, "\n}\n\n");
}
