// Views: the same elements under other indices.
#include <string.h>

#include "tests/fuzz/programs/programs.h"

enum { MOST_AXES = 5 };

static bool any_ranked(const Statement *s, const void *least)
{
    return s->type.rank >= *(const int *)least;
}

static bool choose_ranked(Maker *m, Statement *s, int least)
{
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->n = 1;
    s->arg[0] = random_chance(&m->random, 85) ? pick_class(m, CLASS_FLOAT, least)
                                              : pick(m, any_ranked, &least);
    return s->arg[0] >= 0;
}

static bool choose_any(Maker *m, Statement *s)
{
    return choose_ranked(m, s, 0);
}
static bool choose_axes(Maker *m, Statement *s)
{
    return choose_ranked(m, s, 1);
}
static bool choose_two_axes(Maker *m, Statement *s)
{
    return choose_ranked(m, s, 2);
}

static void begin(const Draft *d, const Statement *s, const char *call, Buf *out)
{
    buf_printf(out, "    v%d = %s", number_of(d, s), call);
    print_operand(d, s, 0, out);
}

// -- reshape --------------------------------------------------------------------------------------

static void insert_axis(Type *t, int at, int64_t size)
{
    memmove(t->dim + at + 1, t->dim + at, (size_t)(t->rank - at) * sizeof *t->dim);
    t->dim[at] = size;
    t->rank++;
}

static void remove_axis(Type *t, int at)
{
    memmove(t->dim + at, t->dim + at + 1, (size_t)(t->rank - at - 1) * sizeof *t->dim);
    t->dim[--t->rank] = 0;
}

static int64_t divisor(int64_t n, uint32_t choice)
{
    int64_t found[64], k = 0;
    for (int64_t f = 1; f * f <= n && k < 62; f++) {
        if (n % f) continue;
        found[k++] = f;
        found[k++] = n / f;
    }
    return found[choice % (uint64_t)k];
}

static bool derive_reshape(const Draft *d, Statement *s)
{
    Type t = operand(d, s, 0)->type;
    int64_t count = type_count(&t);
    int axis = t.rank ? (int)(s->raw[1] % t.rank) : 0;
    switch (s->raw[0] % 5) {
    case 0: // one axis
        t = type_make(t.dtype, 1, &count);
        break;
    case 1: // two neighbours become one
        if (axis + 1 >= t.rank) return false;
        t.dim[axis] *= t.dim[axis + 1];
        remove_axis(&t, axis + 1);
        break;
    case 2: { // one becomes two
        if (!t.rank || t.rank >= MOST_AXES) return false;
        int64_t f = divisor(t.dim[axis], s->raw[2]);
        t.dim[axis] /= f;
        insert_axis(&t, axis, f);
        break;
    }
    case 3:
        if (t.rank >= MOST_AXES) return false;
        insert_axis(&t, axis, 1);
        break;
    default:
        for (axis = 0; axis < t.rank && t.dim[axis] != 1;) axis++;
        if (axis == t.rank) return false;
        remove_axis(&t, axis);
    }
    s->type = t;
    derive_same(d, s);
    return true;
}

static void print_shaped(const Draft *d, const Statement *s, Buf *out, const char *call)
{
    begin(d, s, call, out);
    buf_str(out, ", ");
    print_list(s->type.dim, s->type.rank, out);
    buf_str(out, ")\n");
}

static void print_reshape(const Draft *d, const Statement *s, Buf *out)
{
    print_shaped(d, s, out, "reshape(");
}

// -- transpose, broadcast, reverse ----------------------------------------------------------------

static void permutation(const Statement *s, int rank, int64_t *perm)
{
    Random r = {s->raw[0]};
    for (int i = 0; i < rank; i++) perm[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int k = random_below(&r, i + 1);
        int64_t swap = perm[i];
        perm[i] = perm[k];
        perm[k] = swap;
    }
}

static bool derive_transpose(const Draft *d, Statement *s)
{
    const Type *t = &operand(d, s, 0)->type;
    int64_t perm[MAX_RANK];
    permutation(s, t->rank, perm);
    s->type = *t;
    for (int i = 0; i < t->rank; i++) s->type.dim[i] = t->dim[perm[i]];
    derive_same(d, s);
    return t->rank > 0;
}

static void print_transpose(const Draft *d, const Statement *s, Buf *out)
{
    int64_t perm[MAX_RANK];
    permutation(s, s->type.rank, perm);
    begin(d, s, "transpose(", out);
    buf_str(out, ", ");
    print_list(perm, s->type.rank, out);
    buf_str(out, ")\n");
}

static bool derive_broadcast(const Draft *d, Statement *s)
{
    static const int64_t sizes[] = {2, 3, 5, 8, 17, 33};
    Type t = operand(d, s, 0)->type;
    int64_t size = sizes[s->raw[0] % 6];
    int axis = 0;
    while (axis < t.rank && t.dim[axis] != 1) axis++;
    if (axis < t.rank && s->raw[1] % 2)
        t.dim[axis] = size;
    else if (t.rank < MOST_AXES)
        insert_axis(&t, 0, size);
    else
        return false;
    s->type = t;
    derive_same(d, s);
    return true;
}

static void print_broadcast(const Draft *d, const Statement *s, Buf *out)
{
    print_shaped(d, s, out, "broadcast(");
}

static bool derive_reverse(const Draft *d, Statement *s)
{
    s->type = operand(d, s, 0)->type;
    derive_same(d, s);
    return s->type.rank > 0;
}

static void print_reverse(const Draft *d, const Statement *s, Buf *out)
{
    begin(d, s, "reverse(", out);
    buf_printf(out, ", %d)\n", (int)(s->raw[0] % s->type.rank));
}

// -- slice ----------------------------------------------------------------------------------------

typedef struct Cut {
    int64_t start, limit, stride;
    bool whole, one;
} Cut;

static Cut cut_of(const Statement *s, int axis, int64_t size)
{
    Random r = {hash_axis(s->raw[0], axis)};
    int kind = random_below(&r, 10);
    Cut c = {0, size, 1, false, false};
    int64_t a = (int64_t)(random_next(&r) >> 1) % size, b = (int64_t)(random_next(&r) >> 1) % size;
    if (kind < 4) {
        c.whole = true;
    } else if (kind < 5 && axis != (int)(s->raw[1] % MAX_RANK)) {
        c = (Cut){a, a + 1, 1, false, true};
    } else {
        c.start = a < b ? a : b;
        c.limit = (a < b ? b : a) + 1;
        if (kind < 6) c.start = 1 < c.limit ? 1 : 0, c.limit = size; // all but the first
        if (kind == 9) c.stride = 2 + random_below(&r, 2);
    }
    return c;
}

static bool derive_slice(const Draft *d, Statement *s)
{
    const Type *t = &operand(d, s, 0)->type;
    s->type = *t;
    s->type.rank = 0;
    for (int i = 0; i < t->rank; i++) {
        Cut c = cut_of(s, i, t->dim[i]);
        if (!c.one) s->type.dim[s->type.rank++] = (c.limit - c.start + c.stride - 1) / c.stride;
    }
    for (int i = s->type.rank; i < MAX_RANK; i++) s->type.dim[i] = 0;
    derive_same(d, s);
    return t->rank > 0;
}

static void print_slice(const Draft *d, const Statement *s, Buf *out)
{
    const Type *t = &operand(d, s, 0)->type;
    begin(d, s, "", out);
    buf_char(out, '[');
    for (int i = 0; i < t->rank; i++) {
        Cut c = cut_of(s, i, t->dim[i]);
        if (i) buf_str(out, ", ");
        if (c.one)
            buf_printf(out, "%lld", (long long)c.start);
        else if (c.whole)
            buf_char(out, ':');
        else
            buf_printf(out, "%lld:%lld", (long long)c.start, (long long)c.limit);
        if (c.stride != 1) buf_printf(out, ":%lld", (long long)c.stride);
    }
    buf_str(out, "]\n");
}

// -- pad, concat, stack ---------------------------------------------------------------------------

static int64_t padding(const Statement *s, int axis, int side)
{
    static const int64_t sizes[] = {0, 0, 0, 1, 1, 2, 7};
    Random r = {hash_axis(s->raw[0], axis) + (uint64_t)side};
    return sizes[random_below(&r, 7)];
}

static bool derive_pad(const Draft *d, Statement *s)
{
    s->type = operand(d, s, 0)->type;
    for (int i = 0; i < s->type.rank; i++) s->type.dim[i] += padding(s, i, 0) + padding(s, i, 1);
    derive_same(d, s);
    s->sample[0] = literal_value(s, 1, s->type.dtype);
    return s->type.rank > 0;
}

static void print_pad(const Draft *d, const Statement *s, Buf *out)
{
    begin(d, s, "pad(", out);
    for (int side = 0; side < 2; side++) {
        int64_t n[MAX_RANK];
        for (int i = 0; i < s->type.rank; i++) n[i] = padding(s, i, side);
        buf_str(out, ", ");
        print_list(n, s->type.rank, out);
    }
    Statement filled = *s; // the value is a literal beside the operand
    filled.n = 2;
    filled.arg[1] = LITERAL;
    buf_str(out, ", ");
    print_operand(d, &filled, 1, out);
    buf_str(out, ")\n");
}

typedef struct Beside {
    Type type;
    int axis; // which may differ; -1: none
} Beside;

static bool fits_concat(const Statement *s, const void *arg)
{
    const Beside *b = arg;
    if (s->type.rank != b->type.rank || s->type.dtype != b->type.dtype) return false;
    for (int i = 0; i < b->type.rank; i++)
        if (i != b->axis && s->type.dim[i] != b->type.dim[i]) return false;
    return true;
}

static bool choose_parts(Maker *m, Statement *s, bool along)
{
    if (!choose_ranked(m, s, along ? 1 : 0)) return false;
    Beside b = {.type = m->d->at[s->arg[0]].type, .axis = -1};
    if (along) b.axis = (int)(s->raw[0] % b.type.rank);
    s->n = 2 + random_below(&m->random, 3);
    for (int i = 1; i < s->n; i++) s->arg[i] = pick(m, fits_concat, &b);
    return true;
}

static bool choose_concat(Maker *m, Statement *s)
{
    return choose_parts(m, s, true);
}
static bool choose_stack(Maker *m, Statement *s)
{
    return choose_parts(m, s, false);
}

static bool derive_parts(const Draft *d, Statement *s, bool along)
{
    Beside b = {.type = operand(d, s, 0)->type, .axis = -1};
    if (along && !b.type.rank) return false;
    if (along) b.axis = (int)(s->raw[0] % b.type.rank);
    derive_same(d, s);
    s->type = b.type;
    for (int i = 1; i < s->n; i++) {
        const Statement *a = operand(d, s, i);
        if (!fits_concat(a, &b)) return false;
        if (along) s->type.dim[b.axis] += a->type.dim[b.axis];
        for (int k = i; k < SAMPLES; k += s->n) s->sample[k] = a->sample[k];
        s->smooth |= a->smooth;
    }
    if (along) return true;
    if (s->type.rank >= MOST_AXES) return false;
    insert_axis(&s->type, (int)(s->raw[0] % (s->type.rank + 1u)), s->n);
    return true;
}

static bool derive_concat(const Draft *d, Statement *s)
{
    return derive_parts(d, s, true);
}
static bool derive_stack(const Draft *d, Statement *s)
{
    return derive_parts(d, s, false);
}

static void print_parts(const Draft *d, const Statement *s, Buf *out, const char *call, int axis)
{
    begin(d, s, call, out);
    for (int i = 1; i < s->n; i++) {
        buf_str(out, ", ");
        print_operand(d, s, i, out);
    }
    buf_printf(out, "], %d)\n", axis);
}

static void print_concat(const Draft *d, const Statement *s, Buf *out)
{
    print_parts(d, s, out, "concat([", (int)(s->raw[0] % s->type.rank));
}
static void print_stack(const Draft *d, const Statement *s, Buf *out)
{
    print_parts(d, s, out, "stack([", (int)(s->raw[0] % s->type.rank));
}

const Kind kind_reshape = {"reshape", 5, choose_any, derive_reshape, print_reshape};
const Kind kind_transpose = {"transpose", 4, choose_two_axes, derive_transpose, print_transpose};
const Kind kind_broadcast = {"broadcast", 3, choose_any, derive_broadcast, print_broadcast};
const Kind kind_reverse = {"reverse", 3, choose_axes, derive_reverse, print_reverse};
const Kind kind_slice = {"slice", 6, choose_axes, derive_slice, print_slice};
const Kind kind_pad = {"pad", 3, choose_axes, derive_pad, print_pad};
const Kind kind_concat = {"concat", 4, choose_concat, derive_concat, print_concat};
const Kind kind_stack = {"stack", 2, choose_stack, derive_stack, print_stack};
