// Chains of steps that each read a value at several places: stencils, rolls, scans by doubling.
// Computed wherever it is read, what such a chain is made of would grow by a factor a step.
#include <stdio.h>

#include "tests/fuzz/programs/programs.h"

enum { SHAPES = 4 };

static bool choose_steps(Maker *m, Statement *s)
{
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->n = 1;
    s->arg[0] = pick_class(m, CLASS_FLOAT, 1);
    return s->arg[0] >= 0;
}

static int axis_of(const Statement *s)
{
    return (int)(s->raw[0] % (uint32_t)s->type.rank);
}

// Every step is a mean of elements, or of some and zeros: values stay within those of the operand.
static bool derive_steps(const Draft *d, Statement *s)
{
    const Statement *x = operand(d, s, 0);
    if (!x->type.rank || !dtype_is_float(x->type.dtype)) return false;
    s->type = x->type;
    derive_same(d, s);
    return s->type.dim[axis_of(s)] > 2;
}

static void print_at(const char *of, int axis, const char *part, Buf *out)
{
    buf_printf(out, "%s[", of);
    for (int i = 0; i < axis; i++) buf_str(out, ":, ");
    buf_printf(out, "%s]", part);
}

static void print_padded(const Draft *d, const Statement *s, int low, int high, const char *part,
                         Buf *out)
{
    int64_t before[MAX_RANK] = {0}, after[MAX_RANK] = {0};
    int axis = axis_of(s);
    before[axis] = low;
    after[axis] = high;
    buf_str(out, "pad(");
    name_of(d, s, out);
    buf_str(out, ", ");
    print_list(before, s->type.rank, out);
    buf_str(out, ", ");
    print_list(after, s->type.rank, out);
    print_at(")", axis, part, out);
}

static void print_steps(const Draft *d, const Statement *s, Buf *out)
{
    int axis = axis_of(s), v = number_of(d, s);
    long long n = (long long)s->type.dim[axis];
    char name[16], part[32];
    snprintf(name, sizeof name, "v%d", v);
    buf_printf(out, "    %s = ", name);
    print_operand(d, s, 0, out);
    buf_printf(out, "\n    for q in 0..%u { %s = 0.5 * %s + ", 2 + s->raw[1] % 7, name, name);
    switch (s->raw[2] % SHAPES) {
    case 0:
        buf_str(out, "0.5 * ");
        print_padded(d, s, 1, 0, ":-1", out);
        break;
    case 1:
        buf_str(out, "0.25 * ");
        print_padded(d, s, 1, 1, "2:", out);
        buf_str(out, " + 0.25 * ");
        print_padded(d, s, 1, 1, ":-2", out);
        break;
    case 2:
        buf_printf(out, "0.5 * gather(%s, (iota(%lld) + 2 ** q) %% %lld, %d)", name, n, n, axis);
        break;
    default:
        snprintf(part, sizeof part, "1 + q %% %lld:", n - 1);
        buf_str(out, "0.5 * concat([");
        print_at(name, axis, part, out);
        snprintf(part, sizeof part, ":1 + q %% %lld", n - 1);
        buf_str(out, ", ");
        print_at(name, axis, part, out);
        buf_printf(out, "], %d)", axis);
    }
    buf_str(out, " }\n");
}

const Kind kind_steps = {"steps", 3, choose_steps, derive_steps, print_steps};
