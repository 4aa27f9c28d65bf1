// Leaves, random numbers, states, functions of the standard library and loops.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/programs/programs.h"

static void draw_raw(Maker *m, Statement *s)
{
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
}

// -- leaves ---------------------------------------------------------------------------------------

// What elements of an input may be: as fill_input() of trial.c makes them. By the name's letter:
// n normal, q quarters, s small, w wide, i of 0 to 63, x the ends of the type.
static void leaf_samples(Statement *s)
{
    static const double normal[SAMPLES] = {-2.3, -1.1, -0.4, -0.02, 0.2, 0.7, 1.6, 2.9};
    static const double scale[] = {1, 1, 0.01, 30, 1, 1};
    uint32_t fill = s->raw[0] % FILLS;
    bool real = dtype_is_float(s->type.dtype);
    for (int k = 0; k < SAMPLES; k++) {
        double v = normal[(k + s->raw[1]) % SAMPLES] * scale[fill];
        if (!real) v = fill == 4 ? 9 * k : fill == 3 ? v * 1000 : fabs(v);
        s->sample[k] = s->type.dtype == DT_BOOL ? k % 2 : real ? v : trunc(v);
    }
}

static bool choose_input(Maker *m, Statement *s)
{
    static const DType types[] = {DT_F32, DT_F32, DT_F32, DT_F32, DT_F32, DT_F16, DT_BF16,
                                  DT_F64, DT_I32, DT_I32, DT_I64, DT_U32, DT_U8,  DT_BOOL};
    draw_raw(m, s);
    s->leaf = (Type){.dtype = types[random_below(&m->random, 14)]};
    s->leaf.rank = (uint8_t)(random_chance(&m->random, 10) ? 0 : 1 + random_below(&m->random, 3));
    for (int i = 0; i < s->leaf.rank; i++) s->leaf.dim[i] = some_dim(m);
    if (dtype_is_float(s->leaf.dtype)) s->raw[0] = "\0\0\0\1\1\2\3"[s->raw[0] % 7] & 7;
    if (m->wild && random_chance(&m->random, 30)) s->raw[0] = FILLS - 1;
    return type_count(&s->leaf) <= m->most;
}

static bool derive_input(const Draft *d, Statement *s)
{
    s->type = s->leaf;
    s->smooth = dtype_is_float(s->type.dtype) ? 1ull << number_of(d, s) : 0;
    leaf_samples(s);
    return true;
}

static void print_input(const Draft *d, const Statement *s, Buf *out)
{
    (void)d, (void)s, (void)out; // stands among the model's parameters
}

// Values that the program makes by itself.
static bool choose_made(Maker *m, Statement *s)
{
    if (!choose_input(m, s)) return false;
    static const DType types[] = {DT_F32, DT_F32, DT_F32, DT_F32, DT_I32, DT_BOOL};
    s->leaf.dtype = types[s->raw[2] % 6];
    s->raw[0] = 0;
    return true;
}

static void print_made(const Draft *d, const Statement *s, Buf *out)
{
    const Type *t = &s->type;
    const int i = number_of(d, s), axis = t->rank ? (int)(s->raw[4] % t->rank) : 0;
    const bool real = t->dtype == DT_F32;
    Buf shape = buf_new(out->arena);
    print_list(t->dim, t->rank, &shape);
    unsigned way = s->raw[3] % 5;
    if (real && way == 3)
        buf_printf(out, "    param p%d_%d: f32%s = uniform(-1, 1)\n", d->number, i, shape.data);
    buf_printf(out, "    v%d = %s", i, real && d->wide ? "cast(" : "");
    if (t->dtype == DT_BOOL)
        buf_printf(out, "bernoulli(%s, 0.%u)", shape.data, 1 + s->raw[4] % 9);
    else if (!real)
        buf_printf(out, "cast(iota(%s, %d) * %u, i32)", shape.data, axis, s->raw[5] % 7);
    else if (way == 0)
        buf_printf(out, "uniform(%s, -2, 2)", shape.data);
    else if (way == 1)
        buf_printf(out, "normal(%s, 1)", shape.data);
    else if (way == 2)
        buf_printf(out, "full(%s, 0.75)", shape.data);
    else if (way == 3)
        buf_printf(out, "p%d_%d", d->number, i);
    else
        buf_printf(out, "cast(iota(%s, %d) %% 7, f32) * 0.25", shape.data, axis);
    buf_str(out, real && d->wide ? ", f64)\n" : "\n");
}

static bool derive_made(const Draft *d, Statement *s)
{
    bool iota = s->leaf.dtype == DT_I32 || (s->leaf.dtype == DT_F32 && s->raw[3] % 5 == 4);
    return derive_input(d, s) && (s->leaf.rank || !iota);
}

// -- asserts --------------------------------------------------------------------------------------

// One that holds, whatever the values are, and that nobody can know to hold.
static bool derive_assert(const Draft *d, Statement *s)
{
    if (!dtype_is_float(operand(d, s, 0)->type.dtype)) return false;
    s->type = type_scalar(DT_BOOL);
    return true;
}

static void print_assert(const Draft *d, const Statement *s, Buf *out)
{
    int i = number_of(d, s);
    buf_printf(out, "    v%d = all(or(isfinite(", i);
    print_operand(d, s, 0, out);
    buf_str(out, "), not(isfinite(");
    print_operand(d, s, 0, out);
    buf_printf(out, "))))\n    assert v%d, \"holds\"\n", i);
}

// -- states ---------------------------------------------------------------------------------------

// A state of the operand's type; it is written, and read before and after.
static bool choose_state(Maker *m, Statement *s)
{
    draw_raw(m, s);
    s->n = 1;
    s->arg[0] = pick_class(m, random_chance(&m->random, 90) ? CLASS_FLOAT : CLASS_INT, 0);
    return s->arg[0] >= 0;
}

static bool derive_state(const Draft *d, Statement *s)
{
    s->type = operand(d, s, 0)->type;
    derive_same(d, s);
    s->smooth = dtype_is_float(s->type.dtype) ? 1ull << number_of(d, s) : 0;
    return true;
}

static void print_state(const Draft *d, const Statement *s, Buf *out)
{
    const Type *t = &s->type;
    const bool flag = t->dtype == DT_BOOL, parts = !flag && t->rank && s->raw[0] % 3 == 0;
    const int at = parts ? (int)(s->raw[3] % (uint64_t)t->dim[0]) : 0;
    char c[32], index[16] = "";
    snprintf(c, sizeof c, "c%d_%d", d->number, number_of(d, s));
    if (parts) snprintf(index, sizeof index, "[%d]", at);
    buf_printf(out, "    state %s: %s", c, type_name(d, t->dtype));
    print_list(t->dim, t->rank, out);
    if (flag)
        buf_str(out, " = false\n");
    else
        buf_printf(out, " = %u\n", s->raw[1] % 3);
    buf_printf(out, "    %s%s <- ", c, index);
    print_operand(d, s, 0, out);
    buf_str(out, index);
    if (!flag && s->raw[2] % 2) buf_printf(out, " - %s%s", c, index);
    buf_printf(out, "\n    v%d = %s\n", number_of(d, s), c);
}

// -- the standard library -------------------------------------------------------------------------

enum Shape { SAME, WITHOUT_AXIS, WITH_AXIS_ONE, SCALAR, LINEAR };
typedef struct Standard {
    const char *before, *after; // of the operand; %a is the axis, %w a width, %p a scope's name,
                                // %t the type of floats
    enum Shape shape;
    bool last, unit; // the axis is the last; elements are at most about 3
} Standard;
static const Standard standards[] = {
    {"softmax(", ", %a)", SAME, false, true},
    {"log_softmax(", ", %a)", SAME, false, false},
    {"logsumexp(", ", %a)", WITHOUT_AXIS, false, false},
    {"layer_norm(", ", affine = false)", SAME, true, true},
    {"mean(", ", %a)", WITHOUT_AXIS, false, false},
    {"mean(", ", %a, keep = true)", WITH_AXIS_ONE, false, false},
    {"mean(", ")", SCALAR, false, false},
    {"variance(", ", %a)", WITHOUT_AXIS, false, false},
    {"variance(", ", %a, keep = true)", WITH_AXIS_ONE, false, false},
    {"gelu(", ")", SAME, false, false},
    {"gelu_tanh(", ")", SAME, false, false},
    {"silu(", ")", SAME, false, false},
    {"softplus(", ")", SAME, false, false},
    {"relu(", ")", SAME, false, false},
    {"leaky_relu(", ")", SAME, false, false},
    {"elu(", ")", SAME, false, false},
    {"straight(", ")", SAME, false, false},
    {"lgamma(2.5 + 2 * tanh(", "))", SAME, false, true},
    {"digamma(2.5 + tanh(", "))", SAME, false, true},
    {"erfinv(0.9 * tanh(", "))", SAME, false, true},
    {"square(", ")", SAME, false, false},
    {"clamp(", ", -1, 1)", SAME, false, true},
    {"cast(argmin(", ", %a), %t) * 0.1", WITHOUT_AXIS, false, true},
    {"mse(", ", 0.5)", SCALAR, false, false},
    {"huber(", ", 0.25)", SCALAR, false, false},
    {"bce_with_logits(", ", 1)", SCALAR, false, false},
    {"dropout(", ", 0.5)", SAME, false, false},
    {"(linear(", ", %w) as %p)", LINEAR, true, false},
    {"(layer_norm(", ") as %p)", SAME, true, true},
    {"(rms_norm(", ") as %p)", SAME, true, true},
    {"(batch_norm(", ") as %p)", SAME, true, false},
    // batch normalisation as a training step does it
    {"fold(", ", %a)", SAME, false, true},
};

static bool choose_standard(Maker *m, Statement *s)
{
    draw_raw(m, s);
    s->n = 1;
    s->arg[0] = pick_class(m, CLASS_FLOAT, 1);
    return s->arg[0] >= 0;
}

static const Standard *standard_of(const Statement *s, int rank, int *axis)
{
    const Standard *f = &standards[s->raw[0] % (sizeof standards / sizeof *standards)];
    *axis = f->last || s->raw[2] % 2 ? rank - 1 : (int)(s->raw[1] % (unsigned)rank);
    return f;
}

static int64_t width_of(const Statement *s)
{
    static const int64_t widths[] = {1, 2, 3, 5, 8, 16, 17, 33, 64, 65};
    return widths[s->raw[3] % 10];
}

static bool derive_standard(const Draft *d, Statement *s)
{
    const Type *x = &operand(d, s, 0)->type;
    int axis;
    if (!x->rank) return false;
    const Standard *f = standard_of(s, x->rank, &axis);
    derive_same(d, s);
    s->type = *x;
    if (f->shape == SCALAR) s->type = type_scalar(x->dtype);
    if (f->shape == WITH_AXIS_ONE) s->type.dim[axis] = 1;
    if (f->shape == LINEAR && x->rank < 2) return false;
    if (f->shape == LINEAR) s->type.dim[axis] = width_of(s);
    if (strstr(f->after, "%p")) // with parameters, which are f32
        if (!dtype_join(x->dtype, DT_F32, &s->type.dtype)) return false;
    if (f->shape == WITHOUT_AXIS) {
        memmove(s->type.dim + axis, s->type.dim + axis + 1,
                (size_t)(x->rank - axis - 1) * sizeof *x->dim);
        s->type.dim[--s->type.rank] = 0;
    }
    if (!strncmp(f->before, "cast", 4)) {
        s->type.dtype = DT_F32;
        s->smooth = 1ull << number_of(d, s);
    }
    if (!strcmp(f->before, "layer_norm(") && x->dtype == DT_F64) return false; // eps alone is f32
    for (int k = 0; f->unit && k < SAMPLES; k++) s->sample[k] = tanh(s->sample[k]);
    for (int k = 0; !strcmp(f->before, "square(") && k < SAMPLES; k++) s->sample[k] *= s->sample[k];
    for (int k = 0; !strcmp(f->before, "variance(") && k < SAMPLES; k++)
        s->sample[k] *= s->sample[k];
    return true;
}

static void print_standard(const Draft *d, const Statement *s, Buf *out)
{
    int axis;
    const Standard *f = standard_of(s, operand(d, s, 0)->type.rank, &axis);
    if (!strcmp(f->before, "fold(")) {
        Buf x = buf_new(out->arena);
        print_operand(d, s, 0, &x);
        buf_printf(out,
                   "    v%d = (%s - mean(%s, %d, keep = true)) * rsqrt(variance(%s, %d, keep = "
                   "true) + 0.001)\n",
                   number_of(d, s), x.data, x.data, axis, x.data, axis);
        return;
    }
    buf_printf(out, "    v%d = %s", number_of(d, s), f->before);
    print_operand(d, s, 0, out);
    for (const char *p = f->after; *p; p++) {
        if (*p != '%') {
            buf_char(out, *p);
            continue;
        }
        switch (*++p) {
        case 'a': buf_printf(out, "%d", axis); break;
        case 't': buf_str(out, type_name(d, DT_F32)); break;
        case 'w': buf_printf(out, "%d", (int)width_of(s)); break;
        default: buf_printf(out, "p%d_%d", d->number, number_of(d, s));
        }
    }
    buf_char(out, '\n');
}

// -- loops ----------------------------------------------------------------------------------------

// Of a round: what becomes of the carried value c by the slice x, at round i.
static const char *const steps[] = {
    "tanh(c) + x",
    "c * 0.5 + x",
    "sin(c) * x",
    "maximum(c, x)",
    "c * sigmoid(x)",
    "0.3 * c - x",
    "tanh(x + mean(c))",
    "where(x > c, x, 0.5 * c)",
    "0.5 * c + x * cast(uniform(shape(x), 0, 1), dtype(x))",
    "softmax(reshape(c + x, [-1]), 0)[0] * x",
    "tanh(c) * cast(i + 1, dtype(x)) * 0.1 - reverse(reshape(x, [-1]), 0)[0]",
    "0.5 * c + sort(reshape(x, [-1]))[0] * x",
    "reshape(x, [-1])[cast(i % 2, i32) * 0] * 0.5 + 0.2 * c",
    "0.2 * c + x * scatter_add(zeros([3], dtype(x)), cast((cast(iota([3], 0), i64) * 2 + i) % 3, i32), cast([1, 2, 3], dtype(x)) * 0.1)[cast((i + 1) % 3, i32)]",
    "0.3 * c + cumsum(reshape(x, [-1]))[0] * tanh(x)",
};
enum { STEPS = sizeof steps / sizeof *steps };

// While this holds; of what every loop has.
static const char *const conditions[] = {
    "i < 3",
    "i % 4 < 2",
    "cast(sum(x), f32) < 1",
    "not any(x > 2)",
    "(i < 1) or (cast(reshape(x, [-1])[0], f32) < 0.5)",
};
enum { CONDITIONS = sizeof conditions / sizeof *conditions };

static bool choose_loop(Maker *m, Statement *s)
{
    draw_raw(m, s);
    s->n = 1;
    s->arg[0] = pick_class(m, CLASS_FLOAT, 1); // scanned
    return s->arg[0] >= 0;
}

static bool derive_loop(const Draft *d, Statement *s)
{
    const Type *x = &operand(d, s, 0)->type;
    if (!x->rank || x->dim[0] > 40) return false;
    derive_same(d, s);
    s->type = *x;
    if (s->raw[0] % 2) { // the carried value, not what every round emits
        memmove(s->type.dim, s->type.dim + 1, (size_t)(x->rank - 1) * sizeof *x->dim);
        s->type.dim[--s->type.rank] = 0;
    }
    double scale = s->raw[1] % STEPS == 0 ? (double)x->dim[0] : 2;
    for (int k = 0; k < SAMPLES; k++) s->sample[k] *= scale;
    return true;
}

// A step's pattern, its letters c, x and i (words of one letter) with the statement's number.
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static void print_step(const char *pattern, int number, Buf *out)
{
    for (const char *p = pattern; *p; p++) {
        bool word = strchr("cxi", *p) && (p == pattern || !is_word(p[-1])) && !is_word(p[1]);
        buf_char(out, *p);
        if (word) buf_printf(out, "%d", number);
    }
}

static void print_loop(const Draft *d, const Statement *s, Buf *out)
{
    const Type *x = &operand(d, s, 0)->type;
    const int i = number_of(d, s);
    const bool writes = s->raw[3] % 2 == 0; // a state, in each round
    if (writes) {
        buf_printf(out, "    state q%d_%d: %s", d->number, i, type_name(d, x->dtype));
        print_list(x->dim + 1, x->rank - 1, out);
        buf_str(out, " = 0\n");
    }
    const bool carries = s->raw[0] % 2 || s->raw[4] % 2; // else every round begins anew
    if (carries) {
        buf_printf(out, "    c%d = zeros(", i);
        print_list(x->dim + 1, x->rank - 1, out);
        buf_printf(out, ", %s)\n", type_name(d, x->dtype));
    }
    buf_printf(out, "    loop i%d in 0..%lld ", i, (long long)x->dim[0]);
    if (carries) buf_printf(out, "carry c%d ", i);
    buf_printf(out, "over x%d = ", i);
    print_operand(d, s, 0, out);
    if (s->raw[4] / 2 % 3 == 0) {
        buf_str(out, " while ");
        print_step(conditions[s->raw[4] / 8 % CONDITIONS], i, out);
    }
    buf_str(out, " {\n");
    if (!carries) buf_printf(out, "        c%d = 0.4 * x%d\n", i, i);
    buf_printf(out, "        c%d = ", i);
    print_step(steps[s->raw[1] % STEPS], i, out);
    if (s->raw[2] % 3 == 0)
        buf_printf(out, "\n        c%d = c%d + cast(i%d, %s) * 0.01", i, i, i,
                   type_name(d, x->dtype));
    if (writes)
        buf_printf(out, "\n        q%d_%d <- 0.5 * q%d_%d + c%d", d->number, i, d->number, i, i);
    buf_printf(out, "\n        emit e%d = c%d * 0.5", i, i);
    if (writes) buf_printf(out, " + q%d_%d * 0.25", d->number, i);
    buf_printf(out, "\n    }\n    v%d = %c%d\n", i, s->raw[0] % 2 ? 'c' : 'e', i);
}

const Kind kind_input = {"input", 4, choose_input, derive_input, print_input};
const Kind kind_made = {"made", 3, choose_made, derive_made, print_made};
const Kind kind_assert = {"assert", 1, choose_state, derive_assert, print_assert};
const Kind kind_state = {"state", 2, choose_state, derive_state, print_state};
const Kind kind_standard = {"standard", 9, choose_standard, derive_standard, print_standard};
const Kind kind_loop = {"loop", 3, choose_loop, derive_loop, print_loop};
