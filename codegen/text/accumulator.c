// The accumulators of reductions as text.
#include "codegen/text/accumulator.h"

#include <math.h>

const char *emit_identity(Emit *e, Op op, DType t)
{
    const Accumulator *a = accumulator(op);
    if (a->start == START_ZERO) return emit_literal(e, t, 0, 0);
    if (a->start == START_ONE) return emit_literal(e, t, 1, 1);
    bool low = a->start == START_LOW;
    if (dtype_is_float(t)) return emit_literal(e, t, 0, low ? -INFINITY : INFINITY);
    int64_t least = t == DT_I32 ? INT32_MIN : t == DT_I64 ? INT64_MIN : 0;
    int64_t most = t == DT_I32   ? INT32_MAX
                   : t == DT_I64 ? INT64_MAX
                   : t == DT_U32 ? UINT32_MAX
                   : t == DT_U8  ? 255
                                 : 1;
    return emit_literal(e, t, low ? least : most, 0);
}

const char *emit_combine(Emit *e, Op op, DType t, const char *acc, const char *v)
{
    const Accumulator *a = accumulator(op);
    return arena_printf(e->arena, t == DT_BOOL && a->bool_step ? a->bool_step : a->step, acc, v);
}

const char *emit_fused(Emit *e, Op op, DType t, const char *acc, int value)
{
    const Inst *x = &e->body->insts.at[value];
    bool product = x->kind == KI_EW && x->op == OP_mul && x->type == t;
    if (!product || accumulator(op)->start != START_ZERO || !(t == DT_F32 || t == DT_F64))
        return emit_combine(e, op, t, acc, emit_value(e, value));
    const char *a = emit_value(e, x->a[0]), *b = emit_value(e, x->a[1]),
               *f = e->cuda       ? "nc_fma"
                    : t == DT_F32 ? "NC_MADF"
                                  : "NC_MADD";
    return arena_printf(e->arena, "%s(%s, %s, %s)", f, a, b, acc);
}

const char *emit_taken(Emit *e, Op op, DType t, const char *acc, int value)
{
    return e->cuda ? emit_fused(e, op, t, acc, value)
                   : emit_combine(e, op, t, acc, emit_value(e, value));
}

// -- CUDA -----------------------------------------------------------------------------------------

DType acc_type(const Inst *v)
{
    return v->acc == DT_BOOL ? DT_I32 : v->acc;
}

const char *acc_struct(Emit *e, const Inst *v)
{
    const char *t = type_math(acc_type(v)), *type = inst_acc(v)->type;
    return type ? arena_printf(e->arena, type, t) : t;
}

const char *acc_start(Emit *e, const Inst *v)
{
    const Accumulator *a = inst_acc(v);
    if (a->runs) return emit_text(e, "%s{}", acc_struct(e, v));
    const char *least = emit_identity(e, v->op, v->acc);
    return a->place ? acc_of_parts(e, v, "0x7fffffffffffffffll", least, NULL) : least;
}

const char *acc_of_parts(Emit *e, const Inst *v, const char *part0, const char *part1,
                         const char *count)
{
    const Accumulator *a = inst_acc(v);
    const char *type = acc_struct(e, v);
    if (a->place) return emit_text(e, "%s{%s, %s}", type, part1, part0);
    if (a->runs)
        return emit_text(e, "%s{(%s)%s, %s, %s}", type, type_math(acc_type(v)), count, part0,
                         part1);
    return part0;
}

const char *acc_join(Emit *e, const Inst *v, const char *a, const char *b)
{
    const Accumulator *acc = inst_acc(v);
    return acc->step ? emit_combine(e, v->op, acc_type(v), a, b)
                     : emit_text(e, "%s::of(%s, %s)", acc->functor, a, b);
}

const char *acc_step(Emit *e, const Inst *v, const char *acc, const char *place)
{
    if (v->na > 1)
        return acc_join(e, v, acc,
                        acc_of_parts(e, v, emit_value(e, v->a[0]), emit_value(e, v->a[1]),
                                     emit_value(e, v->a[2])));
    if (!inst_acc(v)->place) return emit_taken(e, v->op, acc_type(v), acc, v->a[0]);
    return acc_join(e, v, acc, acc_of_parts(e, v, place, emit_value(e, v->a[0]), NULL));
}

const char *acc_result(Emit *e, const Inst *v, const char *acc)
{
    const Accumulator *a = inst_acc(v);
    if (!a->result) return acc;
    return emit_text(e, "%s%s%s", a->place ? "(int32_t)" : "", acc, a->result);
}

const char *acc_joined(Emit *e, const Inst *v, const char *acc, const char *all)
{
    return inst_acc(v)->result ? acc_result(e, v, emit_text(e, "(%s = %s)", acc, all)) : all;
}
