// The op table as data.
#ifndef IR_OP_H
#define IR_OP_H

#include <stdbool.h>
#include <stdint.h>

typedef enum Op {
#define EW(id, ...) OP_##id,
#define OP(id, ...) OP_##id,
#include "ir/ops.def"
#undef EW
#undef OP
    OP_COUNT
} Op;

typedef enum OpClass {
    CLS_ELEMENTWISE,
    CLS_VIEW,
    CLS_REDUCE,
    CLS_DOT,
    CLS_INDEX,
    CLS_SCAN,
    CLS_LEAF,
    CLS_REGION,
    CLS_META,
    CLS_ROOT
} OpClass;

enum OpFlags {
    OPF_COMMUTES = 1 << 0,   // f(a, b) == f(b, a)
    OPF_ASSOC = 1 << 1,      // exact in integers only
    OPF_IDEMPOTENT = 1 << 2, // f(a, a) == a
    OPF_COSTLY = 1 << 3,     // a transcendental: about twenty times an addition
    OPF_CONVERTS = 1 << 4,   // the printers spell it by operand and result type
    OPF_SMOOTH = 1 << 5,     // small errors of the operands stay small: relative to the largest
    OPF_APPROX = 1 << 6,     // CUDA has a cheaper form for 16-bit results: its helper, _16
    OPF_STRIDES = 1 << 7,    // a view of one operand that strides express (ir/strides.c)
    OPF_PERMUTES = 1 << 8,   // ... in which each element of the operand stands once
    OPF_ORDER = 1 << 9,      // a view that keeps the order of what it takes: all, parts or repeats
    OPF_MEMORY = 1 << 10,    // a leaf that lies in memory (a const: when it has a value an element)
    OPF_CELL = 1 << 11,      // ... of a cell
    OPF_WHOLE = 1 << 12,     // computed by a kernel or a call of its own, and stored: an anchor
    OPF_ADDRESSES = 1 << 13, // its operands lie in memory: nothing is computed on the way to it
    OPF_CHECKS = 1 << 14,    // can fail on the device (a gather: unless its index is proved)
    OPF_EXACT = 1 << 15,     // of 16-bit floats, in any arithmetic: nothing is rounded
    OPF_PIECES = 1 << 16,    // each element comes from one operand: maps store it piece by piece
    OPF_BOUNDED = 1 << 17,   // by 1: the cheaper form's error is relative to that
    OPF_WAVE = 1 << 18,      // within -1..1, as its slope and its curvature are
    OPF_MADE = 1 << 19,      // a leaf that is computed from its place, in no memory
    OPF_DRAWN = 1 << 20,     // ... by a random generator: about a hundred additions
    OPF_LITERAL = 1 << 21,   // a leaf whose values are known while compiling
    OPF_MOVES = 1 << 22,     // a view: elementwise code before it does no more work than behind it
    OPF_RESULT = 1 << 23,    // one of the results of its operand, a region op
    OPF_EFFECT = 1 << 24,    // a root that stores nothing
    OPF_KERNEL = 1 << 25,    // a region op that is run once, by kernels which store its results
    OPF_COPIES = 1 << 26,    // each element is one of an operand of its type, whatever its value
    OPF_PART = 1 << 27,      // its first operand, but for a part, which is its second
    OPF_LINEAR = 1 << 28,    // in each operand by itself, so that it rises or falls all the way
    OPF_LATE = 1 << 29,      // floats may be rounded to a narrower type before or behind it
};

// What a reduction keeps while it runs.
typedef enum Accumulate {
    ACC_NONE, // no reduction
    ACC_SUM,
    ACC_PROD,
    ACC_MAX,
    ACC_MIN,
    ACC_PLACE,   // the largest value and where it stands
    ACC_MOMENTS, // count, mean and the sum of squared deviations from it
    ACC_COUNT
} Accumulate;

// The type rule of an elementwise op: what it takes and makes (ir/infer_elementwise.c).
typedef enum ElementRule {
    EW_NONE, // not elementwise
    EW_arith,
    EW_float,
    EW_compare,
    EW_test,
    EW_logic,
    EW_bits,
    EW_u32,
    EW_select,
    EW_same,
    EW_cast
} ElementRule;

enum { VARIADIC = -1 };

typedef enum AttrKey {
#define ATTR(id, kind) ATTR_##id,
#include "ir/attrs.def"
#undef ATTR
    ATTR_COUNT
} AttrKey;

typedef enum AttrKind { AK_INT, AK_INTS, AK_FLOAT, AK_STR, AK_DTYPE } AttrKind;

typedef struct OpInfo {
    const char *name;
    int arity; // or VARIADIC
    OpClass class;
    unsigned flags;
    Accumulate acc;
    ElementRule rule;
    const char *expr;                     // elementwise: the expression's text; else NULL
    const char *attrs;                    // names as in the table; elementwise: ""
    uint64_t attr_required, attr_allowed; // bit per AttrKey
} OpInfo;

extern const OpInfo op_table[OP_COUNT];
static inline const OpInfo *op_info(Op op)
{
    return &op_table[op];
}
bool op_keeps_one(Op reduction); // one value, which joins with others of its kind one by one
bool op_is_flat(Op op);          // constant almost everywhere: the gradient column says zero
bool op_parse(const char *name, Op *out);
const char *attr_name(AttrKey k);
AttrKind attr_kind(AttrKey k);
bool attr_parse(const char *name, AttrKey *out);

#endif
