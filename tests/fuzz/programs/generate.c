// A draft from a seed: values first, then statements over them until there are enough.
#include <math.h>
#include <string.h>

#include "tests/fuzz/programs/programs.h"

#define KINDS(X)                                                                                   \
    X(input)                                                                                       \
    X(elementwise)                                                                                 \
    X(reshape)                                                                                     \
    X(transpose)                                                                                   \
    X(broadcast)                                                                                   \
    X(reverse)                                                                                     \
    X(slice)                                                                                       \
    X(pad)                                                                                         \
    X(window)                                                                                      \
    X(convolve)                                                                                    \
    X(concat)                                                                                      \
    X(steps)                                                                                       \
    X(stack)                                                                                       \
    X(reduce)                                                                                      \
    X(matmul) X(einsum) X(scan) X(gather) X(scatter) X(dynamic) X(made) X(state) X(assert)         \
        X(standard) X(loop) X(grad)
#define DECLARE(name) extern const Kind kind_##name;
#define ROW(name)     &kind_##name,
KINDS(DECLARE)
static const Kind *const all_kinds[] = {KINDS(ROW)};

typedef struct SizeRow {
    int statements, most_statements;
    int64_t most; // elements of a value
    double work;
    int nsizes;
    int64_t sizes[24];
} SizeRow;
static const SizeRow size_rows[SIZE_CLASSES] = {
    [SIZE_TINY] = {3, 10, 600, 2e4, 9, {1, 2, 3, 4, 5, 7, 8, 9, 1}},
    [SIZE_SMALL] = {4,
                    16,
                    20000,
                    1e6,
                    18,
                    {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}},
    [SIZE_ROWS] = {4, 12, 600000, 1.5e7, 22, {1,    3,    5,    17,   31,    32,   33,   4097,
                                              5003, 64,   65,   129,  257,   384,  1000, 1024,
                                              2049, 4096, 8192, 8193, 24576, 60000}},
    [SIZE_LARGE] = {4, 12, 1 << 24, 4e8, 20, {1,    3,    8,     31,    33,     65,    127,
                                              256,  384,  512,   768,   1000,   1024,  1025,
                                              2048, 4096, 32768, 49152, 131072, 500000}},
};

int64_t some_dim(Maker *m)
{
    return m->dims[random_below(&m->random, m->ndims)];
}

int pick(Maker *m, bool (*fits)(const Statement *s, const void *arg), const void *arg)
{
    int found[MAX_STATEMENTS], n = 0;
    for (int i = 0; i < m->d->n; i++)
        if (fits(&m->d->at[i], arg)) found[n++] = i;
    if (!n) return -1;
    double u = random_unit(&m->random);
    return found[n - 1 - (int)(u * u * n)];
}

typedef struct Wanted {
    DTypeClass class;
    int least_rank;
} Wanted;

static bool fits_class(const Statement *s, const void *arg)
{
    const Wanted *w = arg;
    return class_of(s) == w->class && s->type.rank >= w->least_rank;
}

int pick_class(Maker *m, DTypeClass c, int least_rank)
{
    Wanted w = {c, least_rank};
    int i = pick(m, fits_class, &w);
    if (i >= 0 || c == CLASS_FLOAT) {
        if (i >= 0) return i;
        int64_t dim[] = {some_dim(m), some_dim(m)};
        return append_leaf(m, DT_F32, 2, dim);
    }
    // From what is there, by a comparison or a cast.
    int from = pick_class(m, CLASS_FLOAT, least_rank);
    if (from < 0) return -1;
    return c == CLASS_BOOL ? append_op(m, OP_gt, from, LITERAL, LITERAL)
                           : append_cast(m, from, random_chance(&m->random, 70) ? DT_I32 : DT_U8);
}

double draft_work(const Draft *d, const Statement *s)
{
    double work = (double)type_count(&s->type);
    for (int i = 0; i < s->n; i++)
        if (operand(d, s, i)) work += (double)type_count(&operand(d, s, i)->type);
    extern const Kind kind_matmul, kind_einsum, kind_convolve, kind_steps, kind_grad;
    if (s->kind == &kind_steps) work *= 16;
    if (s->kind == &kind_matmul) {
        const Type *a = &operand(d, s, 0)->type;
        work += (double)type_count(&s->type) * (double)a->dim[a->rank - 1];
    }
    if (s->kind == &kind_einsum)
        work += (double)type_count(&s->type) * (double)operand(d, s, 1)->type.dim[0];
    if (s->kind == &kind_convolve) {
        const Type *w = &operand(d, s, 1)->type;
        work += (double)type_count(&s->type) * (double)type_count(w) / (double)w->dim[0];
    }
    if (s->kind == &kind_grad) // once more all it goes through, twice as dear
        for (int i = 0; i < s->arg[0]; i++)
            if (operand(d, s, 0)->smooth >> i & 1) work += 2 * draft_work(d, &d->at[i]);
    return work;
}

// Values that neither overflow nor lose themselves, unless the draft is a wild one.
static bool in_range(const Maker *m, const Statement *s)
{
    if (!dtype_is_float(s->type.dtype) || m->wild) return true;
    double limit = s->type.dtype == DT_F16 ? 500 : 1e5;
    for (int k = 0; k < SAMPLES; k++)
        if (!(fabs(s->sample[k]) <= limit)) return false;
    return true;
}

int append(Maker *m, const Statement *given)
{
    Draft *d = m->d;
    if (d->n >= MAX_STATEMENTS) return -1;
    Statement *s = &d->at[d->n];
    *s = *given;
    for (int i = 0; i < s->n; i++)
        if (s->arg[i] < LITERAL || s->arg[i] >= d->n) return -1;
    if (!s->kind->derive(d, s) || type_count(&s->type) > m->most || s->type.rank > 6) return -1;
    double work = draft_work(d, s);
    if (!in_range(m, s) || m->work + work > m->most_work) return -1;
    m->work += work;
    return d->n++;
}

int append_leaf(Maker *m, DType t, int rank, const int64_t *dim)
{
    Statement s = {.kind = &kind_input, .leaf = type_make(t, rank, dim)};
    s.raw[0] = "\0\0\0\1\1\2"[random_below(&m->random, 6)];
    if (!dtype_is_float(t)) s.raw[0] = (uint32_t)random_below(&m->random, 5);
    s.raw[1] = (uint32_t)random_next(&m->random);
    return append(m, &s);
}

int append_op(Maker *m, Op op, int a, int b, int c)
{
    Statement s = {.kind = &kind_elementwise, .op = op, .n = op_info(op)->arity, .arg = {a, b, c}};
    return append(m, &s);
}

int append_cast(Maker *m, int a, DType t)
{
    Statement s = {.kind = &kind_elementwise, .op = OP_cast, .n = 1, .arg = {a}};
    s.raw[2] = t;
    return a < 0 ? -1 : append(m, &s);
}

// The same statement over operands of a kinder range.
static int append_guarded(Maker *m, Statement *s)
{
    for (int i = 0; i < s->n; i++) {
        const Statement *a = operand(m->d, s, i);
        if (!a || !dtype_is_float(a->type.dtype)) continue;
        int guard = random_chance(&m->random, 50) ? append_op(m, OP_tanh, s->arg[i], 0, 0)
                                                  : append_op(m, OP_abs, s->arg[i], 0, 0);
        if (guard >= 0 && m->d->at[guard].op == OP_abs)
            guard = append_op(m, OP_add, guard, LITERAL, LITERAL); // literal 0: 0.5
        if (guard < 0) return -1;
        s->arg[i] = guard;
        int done = append(m, s);
        if (done >= 0) return done;
    }
    return -1;
}

static const Kind *some_kind(Maker *m)
{
    int total = 0, n = sizeof all_kinds / sizeof *all_kinds;
    for (int i = 0; i < n; i++) total += all_kinds[i]->weight;
    int at = random_below(&m->random, total), i = 0;
    while (at >= all_kinds[i]->weight) at -= all_kinds[i++]->weight;
    return all_kinds[i];
}

// What nobody reads, and now and then something in the middle.
static void choose_outputs(Maker *m)
{
    Draft *d = m->d;
    bool used[MAX_STATEMENTS] = {false};
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->at[i].n; k++)
            if (d->at[i].arg[k] >= 0) used[d->at[i].arg[k]] = true;
    for (int i = 0; i < d->n; i++)
        d->at[i].output =
            d->at[i].kind != &kind_input && (!used[i] || random_chance(&m->random, 15));
    draft_live(d);
}

Draft draft_make(uint64_t seed, enum SizeClass size, int number)
{
    Draft d = {.number = number, .size = size};
    const SizeRow *row = &size_rows[size];
    Maker m = {.d = &d, .random = {seed * 0x9e3779b97f4a7c15u + (uint64_t)size}};
    m.most = row->most;
    m.most_work = row->work;
    m.wild = random_chance(&m.random, 4);
    m.ndims = 2 + random_below(&m.random, 3);
    for (int i = 0; i < m.ndims; i++) m.dims[i] = row->sizes[random_below(&m.random, row->nsizes)];
    int64_t dim[] = {some_dim(&m), some_dim(&m)};
    for (int k = 0; append_leaf(&m, DT_F32, 2, dim) < 0 && k < 50; k++)
        dim[k % 2] = row->sizes[random_below(&m.random, row->nsizes)];
    int want = row->statements + random_below(&m.random, row->most_statements - row->statements);
    for (int tries = 0; tries < 6 * want && d.n < want; tries++) {
        Statement s = {.kind = some_kind(&m)};
        if (!s.kind->choose(&m, &s)) continue;
        if (append(&m, &s) < 0 && s.kind == &kind_elementwise) append_guarded(&m, &s);
    }
    bool any = false;
    for (int i = 0; i < d.n; i++) any |= d.at[i].kind != &kind_input;
    if (!any) append_op(&m, OP_neg, 0, 0, 0);
    choose_outputs(&m);
    return d;
}
