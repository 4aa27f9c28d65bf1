// Elements found by computed indices: gather, scatter, dynamic slices.
#include <string.h>

#include "tests/fuzz/programs/programs.h"

// A list of positions on an axis of [size]: an integer value brought into range, or, where the
// operand is LITERAL, computed from nothing.
static int64_t count_of(const Draft *d, const Statement *s, int i)
{
    static const int64_t counts[] = {1, 2, 3, 7, 8, 16, 33, 65};
    const Statement *a = operand(d, s, i);
    return a ? type_count(&a->type) : counts[s->raw[4] % 8];
}

static void print_positions(const Draft *d, const Statement *s, int i, int64_t size, Buf *out)
{
    const Statement *a = operand(d, s, i);
    if (!a) {
        buf_printf(out, "cast((iota([%lld], 0) * %u + %u) %% %lld, i32)",
                   (long long)count_of(d, s, i), s->raw[3] % 97 + 1, s->raw[5] % 11,
                   (long long)size);
    } else {
        buf_str(out, a->type.dtype == DT_U8 ? "cast(" : "");
        print_operand(d, s, i, out);
        buf_printf(out, "%s %% %lld", a->type.dtype == DT_U8 ? ", i32)" : "", (long long)size);
    }
}

static bool is_index(const Statement *s, const void *most_rank)
{
    return dtype_is_int(s->type.dtype) && s->type.rank <= *(const int *)most_rank &&
           type_count(&s->type) <= 4096;
}

static bool is_row_index(const Statement *s, const void *arg)
{
    (void)arg;
    return dtype_is_int(s->type.dtype) && s->type.rank == 1;
}

static int some_index(Maker *m, int most_rank, bool row)
{
    if (random_chance(&m->random, 40)) return LITERAL;
    int i = pick(m, row ? is_row_index : is_index, &most_rank);
    if (i >= 0 || random_chance(&m->random, 50)) return i >= 0 ? i : LITERAL;
    int64_t n = some_dim(m);
    return append_leaf(m, DT_I32, 1, &n);
}

static int axis_of(const Statement *s, int rank)
{
    return (int)(s->raw[0] % (unsigned)rank);
}

// -- gather ---------------------------------------------------------------------------------------

static bool choose_gather(Maker *m, Statement *s)
{
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->n = 2;
    s->arg[0] = pick_class(m, random_chance(&m->random, 85) ? CLASS_FLOAT : CLASS_INT, 1);
    if (s->arg[0] < 0) return false;
    s->arg[1] = some_index(m, 2, false);
    return s->arg[1] >= LITERAL;
}

static bool derive_gather(const Draft *d, Statement *s)
{
    const Type *x = &operand(d, s, 0)->type;
    const Statement *index = operand(d, s, 1);
    int64_t n = count_of(d, s, 1);
    Type picks = index ? index->type : type_make(DT_I32, 1, &n);
    if (!x->rank || x->rank - 1 + picks.rank > 5 || !dtype_is_int(picks.dtype)) return false;
    int axis = axis_of(s, x->rank);
    s->type = (Type){.dtype = x->dtype};
    for (int i = 0; i < x->rank; i++) {
        if (i != axis) s->type.dim[s->type.rank++] = x->dim[i];
        for (int k = 0; i == axis && k < picks.rank; k++)
            s->type.dim[s->type.rank++] = picks.dim[k];
    }
    derive_same(d, s);
    return true;
}

static void print_gather(const Draft *d, const Statement *s, Buf *out)
{
    const Type *x = &operand(d, s, 0)->type;
    int axis = axis_of(s, x->rank);
    buf_printf(out, "    v%d = gather(", number_of(d, s));
    print_operand(d, s, 0, out);
    buf_str(out, ", ");
    print_positions(d, s, 1, x->dim[axis], out);
    buf_printf(out, ", %d)\n", axis);
}

// -- scatter --------------------------------------------------------------------------------------

static bool same_type(const Statement *s, const void *type)
{
    return type_equal(&s->type, type);
}

// A value of exactly this type.
static int some_of(Maker *m, const Type *t)
{
    int i = random_chance(&m->random, 60) ? pick(m, same_type, t) : -1;
    return i >= 0 ? i : append_leaf(m, t->dtype, t->rank, t->dim);
}

static bool choose_scatter(Maker *m, Statement *s)
{
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    static const Op scatters[] = {OP_scatter, OP_scatter_max, OP_scatter_min};
    s->op = random_chance(&m->random, 60) ? OP_scatter_add : scatters[s->raw[0] % 3];
    s->n = 3;
    s->arg[0] = pick_class(m, random_chance(&m->random, 90) ? CLASS_FLOAT : CLASS_INT, 1);
    if (s->arg[0] < 0) return false;
    s->arg[1] = some_index(m, 1, true);
    if (s->arg[1] < LITERAL) return false;
    Type t = m->d->at[s->arg[0]].type;
    t.dim[axis_of(s, t.rank)] = count_of(m->d, s, 1);
    s->arg[2] = type_count(&t) <= m->most ? some_of(m, &t) : -1;
    return s->arg[2] >= 0;
}

static bool derive_scatter(const Draft *d, Statement *s)
{
    const Statement *x = operand(d, s, 0), *index = operand(d, s, 1), *u = operand(d, s, 2);
    Type t = x->type;
    if (!t.rank || t.dtype == DT_BOOL) return false;
    t.dim[axis_of(s, t.rank)] = count_of(d, s, 1);
    if (!type_equal(&t, &u->type)) return false;
    if (index && (index->type.rank != 1 || !dtype_is_int(index->type.dtype))) return false;
    s->type = x->type;
    derive_same(d, s);
    s->smooth |= u->smooth;
    for (int k = 0; k < SAMPLES; k += 2) s->sample[k] = u->sample[k] * 3;
    return true;
}

static void print_scatter(const Draft *d, const Statement *s, Buf *out)
{
    const Type *x = &operand(d, s, 0)->type;
    int axis = axis_of(s, x->rank);
    buf_printf(out, "    v%d = %s(", number_of(d, s), op_info(s->op)->name);
    print_operand(d, s, 0, out);
    buf_str(out, ", ");
    print_positions(d, s, 1, x->dim[axis], out);
    buf_str(out, ", ");
    print_operand(d, s, 2, out);
    buf_printf(out, ", %d)\n", axis);
}

// -- dynamic slices -------------------------------------------------------------------------------

static bool is_int_scalar(const Statement *s, const void *arg)
{
    (void)arg;
    return s->type.rank == 0 && (s->type.dtype == DT_I32 || s->type.dtype == DT_I64);
}

static int64_t part_of(const Statement *s, int axis, int64_t size)
{
    return 1 + (int64_t)(hash_axis(s->raw[1], axis) >> 20) % size;
}

static bool choose_dynamic(Maker *m, Statement *s)
{
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->op = random_chance(&m->random, 50) ? OP_dynamic_slice : OP_dynamic_update;
    s->n = s->op == OP_dynamic_slice ? 2 : 3;
    s->arg[0] = pick_class(m, random_chance(&m->random, 85) ? CLASS_FLOAT : CLASS_INT, 1);
    if (s->arg[0] < 0) return false;
    s->arg[1] = pick(m, is_int_scalar, NULL); // where on one axis; the others' are literals
    if (s->arg[1] < 0) s->arg[1] = append_leaf(m, DT_I32, 0, NULL);
    if (s->arg[1] < 0 || s->n == 2) return s->n == 2 && s->arg[1] >= 0;
    Type t = m->d->at[s->arg[0]].type;
    for (int i = 0; i < t.rank; i++) t.dim[i] = part_of(s, i, t.dim[i]);
    s->arg[2] = some_of(m, &t);
    return s->arg[2] >= 0;
}

static bool derive_dynamic(const Draft *d, Statement *s)
{
    Type t = operand(d, s, 0)->type;
    if (!t.rank || !is_int_scalar(operand(d, s, 1), NULL)) return false;
    derive_same(d, s);
    s->type = t;
    for (int i = 0; i < t.rank; i++) t.dim[i] = part_of(s, i, t.dim[i]);
    if (s->n == 2) {
        s->type = t;
        return true;
    }
    const Statement *part = operand(d, s, 2);
    s->smooth |= part->smooth;
    for (int k = 0; k < SAMPLES; k += 2) s->sample[k] = part->sample[k];
    return type_equal(&t, &part->type);
}

static void print_dynamic(const Draft *d, const Statement *s, Buf *out)
{
    const Type *x = &operand(d, s, 0)->type;
    int64_t sizes[MAX_RANK];
    buf_printf(out, "    v%d = %s(", number_of(d, s), op_info(s->op)->name);
    print_operand(d, s, 0, out);
    if (s->n == 3) {
        buf_str(out, ", ");
        print_operand(d, s, 2, out);
    }
    buf_str(out, ", [");
    for (int i = 0; i < x->rank; i++) {
        sizes[i] = part_of(s, i, x->dim[i]);
        if (i) buf_str(out, ", ");
        if (i == (int)(s->raw[0] % x->rank))
            print_operand(d, s, 1, out);
        else
            buf_printf(out, "%d", (int)(hash_axis(s->raw[2], i) % (uint64_t)x->dim[i]));
    }
    buf_char(out, ']');
    if (s->n == 2) {
        buf_str(out, ", ");
        print_list(sizes, x->rank, out);
    }
    buf_str(out, ")\n");
}

const Kind kind_gather = {"gather", 5, choose_gather, derive_gather, print_gather};
const Kind kind_scatter = {"scatter", 4, choose_scatter, derive_scatter, print_scatter};
const Kind kind_dynamic = {"dynamic", 3, choose_dynamic, derive_dynamic, print_dynamic};
