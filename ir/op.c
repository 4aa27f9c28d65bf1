// The op table and the attribute table, built by the preprocessor from ops.def and attrs.def.
#include "ir/op.h"

#include <stddef.h>
#include <string.h>

// Abbreviations for the flags column.
enum {
    COMMUTES = OPF_COMMUTES,
    ASSOC = OPF_ASSOC,
    IDEMPOTENT = OPF_IDEMPOTENT,
    COSTLY = OPF_COSTLY,
    CONVERTS = OPF_CONVERTS,
    SMOOTH = OPF_SMOOTH,
    LINEAR = OPF_LINEAR,
    LATE = OPF_LATE,
    APPROX = OPF_APPROX,
    BOUNDED = OPF_BOUNDED,
    WAVE = OPF_WAVE,
    STRIDES = OPF_STRIDES,
    PERMUTES = OPF_PERMUTES,
    MOVES = OPF_MOVES,
    ORDER = OPF_ORDER,
    MEMORY = OPF_MEMORY,
    CELL = OPF_CELL,
    WHOLE = OPF_WHOLE,
    ADDRESSES = OPF_ADDRESSES,
    CHECKS = OPF_CHECKS,
    PIECES = OPF_PIECES,
    EXACT = OPF_EXACT,
    MADE = OPF_MADE,
    DRAWN = OPF_DRAWN,
    LITERAL = OPF_LITERAL,
    RESULT = OPF_RESULT,
    EFFECT = OPF_EFFECT,
    KERNEL = OPF_KERNEL,
    COPIES = OPF_COPIES,
    PART = OPF_PART,
    SCATTERS = OPF_SCATTERS,
};

#define BIT(key) (1ull << ATTR_##key)

// The attributes column is a row of NEED(id) and MAY(id), which are defined differently for each
// table. Every op may have the attribute `clone`.
const OpInfo op_table[OP_COUNT] = {
#define NEED(key) " " #key
#define MAY(key)  " " #key "?"
#define EW(id, n, f, type_rule, gradient, range, expression)                                       \
    [OP_##id].name = #id, [OP_##id].arity = n, [OP_##id].class = CLS_ELEMENTWISE,                  \
    [OP_##id].flags = f, [OP_##id].rule = EW_##type_rule, [OP_##id].expr = #expression,            \
    [OP_##id].attrs = "",
#define OP(id, n, c, f, rule, gradient, attributes)                                                \
    [OP_##id].name = #id, [OP_##id].arity = n, [OP_##id].class = CLS_##c, [OP_##id].flags = f,     \
    [OP_##id].attrs = "" attributes,
#define RE(id, accumulator, rule, gradient, attributes)                                            \
    [OP_##id].acc = ACC_##accumulator, OP(id, 1, REDUCE, 0, rule, gradient, attributes)
#define SC(id, with, all, gradient)                                                                \
    [OP_##id].running = true, [OP_##id].joins = OP_##with, [OP_##id].reduces = OP_##all,           \
    OP(id, 1, SCAN, WHOLE, running, gradient, NEED(axis) MAY(exclusive) MAY(reverse))
#include "ir/ops.def"
#undef NEED
#undef MAY
#undef EW
#undef OP

#define NEED(key) | BIT(key)
#define MAY(key)
#define EW(id, n, f, ...)                           [OP_##id].attr_required = (f)&CONVERTS ? BIT(dtype) : 0,
#define OP(id, n, c, f, rule, gradient, attributes) [OP_##id].attr_required = 0 attributes,
#include "ir/ops.def"
#undef MAY
#undef EW
#undef OP

#define MAY(key) | BIT(key)
#define EW(id, n, f, ...)                                                                          \
    [OP_##id].attr_allowed =                                                                       \
        BIT(clone) | ((f)&CONVERTS ? BIT(dtype) : 0) | ((f)&APPROX ? BIT(approx) : 0),
#define OP(id, n, c, f, rule, gradient, attributes) [OP_##id].attr_allowed = BIT(clone) attributes,
#include "ir/ops.def"
#undef NEED
#undef MAY
#undef EW
#undef OP
};

static const struct {
    const char *name;
    AttrKind kind;
} attrs[ATTR_COUNT] = {
#define ATTR(id, kind) {#id, AK_##kind},
#include "ir/attrs.def"
#undef ATTR
};
_Static_assert(ATTR_COUNT <= 64, "attribute masks are 64 bits");

bool op_keeps_one(Op reduction)
{
    Accumulate acc = op_table[reduction].acc;
    return acc != ACC_NONE && acc != ACC_PLACE && acc != ACC_MOMENTS;
}

Op op_joining(Op reduction)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (op_table[op].running && op_table[op].reduces == reduction) return op_table[op].joins;
    return OP_COUNT;
}

Op op_reducing(Op joins)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (op_table[op].running && op_table[op].joins == joins) return op_table[op].reduces;
    return OP_COUNT;
}

bool op_is_flat(Op op)
{
    static const char *const gradient[OP_COUNT] = {
#define EW(id, n, flags, rule, gradient, ...)    [OP_##id] = #gradient,
#define OP(id, n, c, flags, rule, gradient, ...) [OP_##id] = #gradient,
#include "ir/ops.def"
#undef EW
#undef OP
    };
    return !strcmp(gradient[op], "zero");
}

bool op_parse(const char *name, Op *out)
{
    for (int i = 0; i < OP_COUNT; i++) {
        if (*op_table[i].name != *name || strcmp(op_table[i].name, name)) continue;
        *out = (Op)i;
        return true;
    }
    return false;
}

const char *attr_name(AttrKey k)
{
    return attrs[k].name;
}

AttrKind attr_kind(AttrKey k)
{
    return attrs[k].kind;
}

bool attr_parse(const char *name, AttrKey *out)
{
    for (int i = 0; i < ATTR_COUNT; i++) {
        if (strcmp(attrs[i].name, name)) continue;
        *out = (AttrKey)i;
        return true;
    }
    return false;
}
