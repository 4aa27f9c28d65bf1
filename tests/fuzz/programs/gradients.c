// Gradients, and the same ones by another way.
#include <math.h>
#include <string.h>

#include "tests/fuzz/programs/programs.h"

static bool reaches_another(const Statement *s, const void *arg)
{
    (void)arg;
    return dtype_is_float(s->type.dtype) && (s->smooth & (s->smooth - 1));
}

static bool has_one_operand(const Statement *s, const void *arg)
{
    return reaches_another(s, arg) && s->n == 1;
}

// x, and a y of it in which x is easily lost: the same op on x, which may undo it (-(-a)), or x
// times what equals it. False: nothing fits here.
static bool choose_lost(Maker *m, Statement *s)
{
    int x = pick(m, has_one_operand, NULL);
    if (x < 0) return false;
    Statement again = m->d->at[x];
    const bool same = random_chance(&m->random, 30);
    if (!same) again.arg[0] = x;
    int y = append(m, &again);
    if (same && y >= 0) y = append_op(m, OP_mul, x, y, 0);
    s->arg[0] = y;
    s->arg[1] = x;
    return y >= 0 && m->d->at[y].smooth >> x & 1;
}

static bool choose_grad(Maker *m, Statement *s)
{
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->n = 2;
    if (random_chance(&m->random, 30) && choose_lost(m, s)) return true;
    s->arg[0] = pick(m, reaches_another, NULL);
    if (s->arg[0] < 0) return false;
    // A leaf mostly; else anything on the way.
    int found[64], n = 0;
    for (int pass = random_chance(&m->random, 75) ? 0 : 1; pass < 2 && !n; pass++)
        for (int i = 0; i < s->arg[0]; i++)
            if (m->d->at[s->arg[0]].smooth >> i & 1 && (pass || m->d->at[i].n == 0)) found[n++] = i;
    if (!n) return false;
    s->arg[1] = found[random_below(&m->random, n)];
    return true;
}

static unsigned loss_of(const Draft *d, const Statement *s)
{
    return operand(d, s, 0)->type.rank ? s->raw[0] % 4 : s->raw[0] % 2 * 2;
}

// What sum and mean of something linear are derived to depends on nothing, and deriving that once
// more is an error where a parameter is: so only gradients of the other losses count as smooth.
static bool derive_grad(const Draft *d, Statement *s)
{
    const Statement *y = operand(d, s, 0), *x = operand(d, s, 1);
    if (s->arg[1] >= s->arg[0] || !(y->smooth >> s->arg[1] & 1)) return false;
    s->type = x->type;
    for (int k = 0; k < SAMPLES; k++) s->sample[k] = fmin(fabs(y->sample[k]) + 1, 50) * (k - 3.5);
    s->smooth = 1ull << number_of(d, s);
    if (loss_of(d, s) > 1) s->smooth |= y->smooth;
    return true;
}

static void print_grad(const Draft *d, const Statement *s, Buf *out)
{
    static const char *const losses[] = {"sum(", "mean(", "sum(sin(", "mean(square("};
    unsigned way = loss_of(d, s);
    buf_printf(out, "    v%d = grad(%s", number_of(d, s), losses[way]);
    print_operand(d, s, 0, out);
    buf_str(out, way > 1 ? ")), " : "), ");
    print_operand(d, s, 1, out);
    buf_str(out, ")\n");
}

const Kind kind_grad = {"grad", 6, choose_grad, derive_grad, print_grad};

// -- by another way ----------------------------------------------------------------------------------

// A gradient by a value in the middle, once more by another way. The value is handed through a
// function with a gradient of its own, which no graph looks through, and what depends on it is
// printed again on top of that: so the second gradient is by a value that nothing folds, cancels or
// shares. The evaluator cannot tell a wrong gradient, since it is given the same graph as the
// device; the two beside each other can (trial.c).

// Not the same when it stands there twice: cells, parameters, random numbers.
static bool stands_once(const char *text)
{
    static const char *const marks[] = {" state ", " as ", "dropout(", "assert ", "uniform("};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(text, marks[i])) return true;
    return false;
}

// What lies between x and y and depends on x, a bit each.
static uint64_t between(const Draft *d, int x, int y)
{
    uint64_t on = 1ull << x;
    for (int i = x + 1; i <= y; i++)
        for (int k = 0; k < d->at[i].n; k++)
            if (d->at[i].live && d->at[i].arg[k] >= 0 && on >> d->at[i].arg[k] & 1) on |= 1ull << i;
    return on;
}

bool apart_print(const Draft *d, const Statement *s, Buf *out)
{
    if (s->kind != &kind_grad || operand(d, s, 1)->kind == &kind_input) return false;
    const int x = s->arg[1], y = s->arg[0], number = number_of(d, s);
    const uint64_t on = between(d, x, y);
    Buf again = buf_new(out->arena), keep = buf_new(out->arena), back = buf_new(out->arena);
    for (int i = x; i <= y; i++) {
        if (!(on >> i & 1)) continue;
        buf_printf(&keep, "    k%d_%d = v%d\n", number, i, i);
        buf_printf(&back, "    v%d = k%d_%d\n", i, number, i);
        if (i > x) d->at[i].kind->print(d, &d->at[i], &again);
    }
    if (again.data && stands_once(again.data)) return false;
    s->kind->print(d, s, &again);
    buf_str(out, keep.data);
    buf_printf(out, "    k%d = v%d\n    v%d = apart(v%d)\n", number, number, x, x);
    buf_str(out, again.data);
    buf_printf(out, "    w%d = v%d\n    v%d = k%d\n", number, number, number, number);
    buf_str(out, back.data);
    return true;
}
