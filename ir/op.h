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
    OPF_COSTLY = 1 << 3,     // a transcendental function: costs about twenty additions
    OPF_CONVERTS = 1 << 4,   // the printers write it depending on operand and result type
    OPF_SMOOTH = 1 << 5, // small errors of the operands stay small relative to the largest operand
    // CUDA has a faster form for 16-bit results: its helper with the suffix _16.
    OPF_APPROX = 1 << 6,
    OPF_STRIDES = 1 << 7,  // a view of one operand that strides express (ir/strides.c)
    OPF_PERMUTES = 1 << 8, // ... in which each element of the operand occurs once
    OPF_ORDER = 1 << 9,    // a view that keeps the order of the elements: all, some, or repeated
    OPF_MEMORY = 1 << 10,  // a leaf that lies in memory (a const: if it has one value per element)
    OPF_CELL = 1 << 11,    // ... that is a cell
    OPF_WHOLE = 1 << 12,   // computed by a kernel or a call of its own and stored: an anchor
    // Its operands must lie in memory: nothing is computed while they are read.
    OPF_ADDRESSES = 1 << 13,
    // Can fail on the device (a gather: unless its index is proved to be in range).
    OPF_CHECKS = 1 << 14,
    OPF_EXACT = 1 << 15,   // exact on 16-bit floats in any arithmetic: nothing is rounded
    OPF_PIECES = 1 << 16,  // each element comes from one operand: maps store it piece by piece
    OPF_BOUNDED = 1 << 17, // results within -1..1: the faster form's error is relative to 1
    OPF_WAVE = 1 << 18,    // results, slope and curvature within -1..1
    OPF_MADE = 1 << 19,    // a leaf that is computed from its index and is not in memory
    OPF_DRAWN = 1 << 20,   // ... by a random generator: costs about a hundred additions
    OPF_LITERAL = 1 << 21, // a leaf whose values are known at compile time
    OPF_MOVES = 1 << 22,   // a view: elementwise code costs no more before it than after it
    OPF_RESULT = 1 << 23,  // one of the results of its operand, a region op
    OPF_EFFECT = 1 << 24,  // a root that stores nothing
    OPF_KERNEL = 1 << 25,  // a region op that runs once, in kernels that store its results
    OPF_COPIES = 1 << 26,  // each element is copied from an operand of its type, whatever its value
    OPF_PART = 1 << 27,    // its first operand with a part replaced by the second
    OPF_LINEAR = 1 << 28,  // linear in each operand, hence monotonic in it
    OPF_LATE = 1 << 29,    // floats may be rounded to a narrower type before or after it
    OPF_SCATTERS = 1 << 30, // its first operand, changed where its second, indices, says
};

// The accumulator of a reduction.
typedef enum Accumulate {
    ACC_NONE, // no reduction
    ACC_SUM,
    ACC_PROD,
    ACC_MAX,
    ACC_MIN,
    ACC_PLACE,   // the largest value and its index
    ACC_MOMENTS, // count, mean and the sum of squared deviations from it
    ACC_COUNT
} Accumulate;

// The type rule of an elementwise op: its operands and result (ir/infer_elementwise.c).
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
    bool running;      // a running reduction:
    Op joins, reduces; // what combines two elements, and what reduces all
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
// Its accumulator is one value, which combines with others of its kind.
bool op_keeps_one(Op reduction);
// The op that combines two partial results of a reduction, and the reduction of an op that does;
// OP_COUNT: none.
Op op_joining(Op reduction);
Op op_reducing(Op joins);
bool op_is_flat(Op op); // constant almost everywhere: the gradient column says zero
bool op_parse(const char *name, Op *out);
const char *attr_name(AttrKey k);
AttrKind attr_kind(AttrKey k);
bool attr_parse(const char *name, AttrKey *out);

#endif
