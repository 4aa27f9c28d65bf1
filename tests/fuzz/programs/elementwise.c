// Every elementwise row of the op table, by its type rule.
#include <math.h>
#include <string.h>

#include "tests/fuzz/programs/programs.h"

static DTypeClass class_for(Maker *m, Op op)
{
    int dice = random_below(&m->random, 100);
    switch (op_info(op)->rule) {
    case EW_logic: return CLASS_BOOL;
    case EW_bits:
    case EW_u32: return CLASS_INT;
    case EW_compare: return dice < 50 ? CLASS_FLOAT : dice < 90 ? CLASS_INT : CLASS_BOOL;
    case EW_arith: return dice < 75 ? CLASS_FLOAT : CLASS_INT;
    case EW_select:
    case EW_same:
    case EW_cast: return dice < 60 ? CLASS_FLOAT : dice < 85 ? CLASS_INT : CLASS_BOOL;
    default: return CLASS_FLOAT;
    }
}

typedef struct Partner {
    const Statement *of;
    DTypeClass class;
    const Type *beside;
} Partner;

static bool fits_beside(const Statement *s, const void *arg)
{
    const Partner *p = arg;
    Type t;
    return s != p->of && class_of(s) == p->class && shape_broadcast(&s->type, p->beside, &t);
}

// A leaf that broadcasts against [t]: some axes of size 1, some leading ones missing.
static int leaf_beside(Maker *m, const Type *t, DType dtype)
{
    Type leaf = *t;
    int drop = random_chance(&m->random, 40) ? random_below(&m->random, t->rank + 1) : 0;
    leaf.rank = (uint8_t)(t->rank - drop);
    for (int i = 0; i < leaf.rank; i++)
        leaf.dim[i] = random_chance(&m->random, 20) ? 1 : t->dim[i + drop];
    return append_leaf(m, dtype, leaf.rank, leaf.dim);
}

static int partner(Maker *m, const Statement *s, DTypeClass class, bool literal)
{
    int dice = random_below(&m->random, 100);
    if (literal && dice < (class == CLASS_BOOL ? 5 : 25)) return LITERAL;
    Partner p = {s, class, &s->type};
    int i = dice < 85 ? pick(m, fits_beside, &p) : -1;
    if (i >= 0) return i;
    return leaf_beside(m, &s->type,
                       class_of(s) == class  ? s->type.dtype
                       : class == CLASS_BOOL ? DT_BOOL
                                             : DT_F32);
}

static bool is_u32(const Statement *s, const void *arg)
{
    (void)arg;
    return s->type.dtype == DT_U32;
}

static int first_operand(Maker *m, Op op, DTypeClass class)
{
    if (op_info(op)->rule != EW_u32) return pick_class(m, class, 0);
    int i = pick(m, is_u32, NULL);
    return i >= 0 ? i : append_cast(m, pick_class(m, CLASS_INT, 0), DT_U32);
}

static Op some_op(Maker *m)
{
    static const Op ops[] = {
#define EW(id, ...) OP_##id,
#define OP(...)
#include "ir/ops.def"
#undef EW
#undef OP
    };
    const int n = sizeof ops / sizeof *ops;
    Op op = ops[random_below(&m->random, n)];
    if (random_chance(&m->random, 50)) // values that matter later
        while (!(op_info(op)->flags & OPF_SMOOTH)) op = ops[random_below(&m->random, n)];
    return op;
}

static bool choose(Maker *m, Statement *s)
{
    s->op = some_op(m);
    s->n = op_info(s->op)->arity;
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    DTypeClass class = class_for(m, s->op);
    int value = op_info(s->op)->rule == EW_select ? 1 : 0; // the first operand that is no condition
    s->arg[value] = first_operand(m, s->op, class);
    if (s->arg[value] < 0) return false;
    for (int i = 0; i < s->n; i++) {
        if (i == value) continue;
        const Statement *beside = &m->d->at[s->arg[value]];
        DTypeClass c = i < value ? CLASS_BOOL : class;
        s->arg[i] = i > value && random_chance(&m->random, 8) ? s->arg[value]
                                                              : partner(m, beside, c, i > value);
        if (s->arg[i] < LITERAL || (s->arg[i] == LITERAL && i < value)) return false;
        if (op_info(s->op)->rule == EW_u32 && s->arg[i] != LITERAL) s->arg[i] = s->arg[value];
    }
    return true;
}

// The operands broadcast; those from the first value on join their types.
static bool join(const Draft *d, const Statement *s, int from, Type *out)
{
    bool shaped = false, typed = false;
    for (int i = 0; i < s->n; i++) {
        const Statement *a = operand(d, s, i);
        if (!a) continue;
        if (i < from && a->type.dtype != DT_BOOL) return false;
        DType t = typed ? out->dtype : a->type.dtype;
        if (i >= from && typed && !dtype_join(t, a->type.dtype, &t)) return false;
        Type shape = a->type;
        if (shaped && !shape_broadcast(&a->type, out, &shape)) return false;
        *out = shape;
        out->dtype = t;
        shaped = true;
        typed |= i >= from;
    }
    return typed;
}

static bool takes(ElementRule rule, DType t)
{
    switch (rule) {
    case EW_arith: return t != DT_BOOL;
    case EW_float:
    case EW_test: return dtype_is_float(t);
    case EW_logic: return t == DT_BOOL;
    case EW_bits: return dtype_is_int(t);
    case EW_u32: return t == DT_U32;
    default: return true;
    }
}

static int64_t as_integer(double v)
{
    return v != v ? 0 : v > 0x1p62 ? INT64_MAX / 2 : v < -0x1p62 ? -(INT64_MAX / 2) : (int64_t)v;
}

static void sample(const Draft *d, Statement *s, DType operands)
{
    for (int k = 0; k < SAMPLES; k++) {
        Scalar v[3] = {{0}};
        for (int i = 0; i < s->n; i++) {
            const Statement *a = operand(d, s, i);
            int turn = i && a && s->arg[i] != s->arg[0] ? 3 * i : 0;
            double x = a ? a->sample[(k + turn) % SAMPLES] : literal_value(s, i, operands);
            DType t = s->op == OP_select && i == 0 ? DT_BOOL : operands;
            if (dtype_is_float(t))
                v[i].f = x;
            else
                v[i].i = as_integer(x);
        }
        Scalar r = s->op == OP_cast
                       ? scalar_cast(operands, s->type.dtype, v[0], true)
                       : scalar_apply(s->op, operands, s->type.dtype, v[0], v[1], v[2], true);
        s->sample[k] = dtype_is_float(s->type.dtype) ? r.f : (double)r.i;
    }
}

static bool derive(const Draft *d, Statement *s)
{
    const ElementRule rule = op_info(s->op)->rule;
    Type t = {0};
    if (!join(d, s, rule == EW_select ? 1 : 0, &t) || !takes(rule, t.dtype)) return false;
    DType operands = t.dtype;
    if (rule == EW_compare || rule == EW_test) t.dtype = DT_BOOL;
    if (rule == EW_cast) t.dtype = (DType)(s->raw[2] % DT_COUNT);
    s->type = t;
    sample(d, s, operands);
    s->smooth = 1ull << number_of(d, s);
    if (dtype_is_float(t.dtype) && !op_is_flat(s->op))
        for (int i = rule == EW_select ? 1 : 0; i < s->n; i++)
            if (operand(d, s, i)) s->smooth |= operand(d, s, i)->smooth;
    if (!dtype_is_float(t.dtype)) s->smooth = 0;
    return true;
}

static void print(const Draft *d, const Statement *s, Buf *out)
{
    buf_printf(out, "    v%d = %s(", number_of(d, s), op_info(s->op)->name);
    for (int i = 0; i < s->n; i++) {
        if (i) buf_str(out, ", ");
        print_operand(d, s, i, out);
    }
    if (s->op == OP_cast) buf_printf(out, ", %s", type_name(d, s->type.dtype));
    buf_str(out, ")\n");
}

const Kind kind_elementwise = {"elementwise", 40, choose, derive, print};
