// Element types, shapes and the Type of a tensor.
#ifndef IR_TYPE_H
#define IR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef enum DType {
#define DTYPE(id, ...) DT_##id,
#include "ir/dtypes.def"
#undef DTYPE
    DT_COUNT
} DType;

typedef enum DTypeClass { CLASS_BOOL, CLASS_INT, CLASS_FLOAT } DTypeClass;

typedef struct DTypeInfo {
    const char *name;
    int bits; // storage
    DTypeClass class;
    const char *c_storage, *c_math, *safetensors, *npy;
} DTypeInfo;

extern const DTypeInfo dtype_info[DT_COUNT];

static inline bool dtype_is_float(DType t)
{
    return dtype_info[t].class == CLASS_FLOAT;
}
static inline bool dtype_is_int(DType t)
{
    return dtype_info[t].class == CLASS_INT;
}
bool dtype_parse(const char *name, DType *out); // "f32" -> DT_F32
// The type sums and matmuls accumulate in: f32 for the narrow floats, i32 or wider for integers.
DType dtype_accumulator(DType t);
// The common type of two tensors, or false when they meet only through a cast.
bool dtype_join(DType a, DType b, DType *out);

enum { MAX_RANK = 8 };

// The name of a dimension ("batch"), kept with its size for messages; it does not count for
// equality.
typedef uint16_t Sym; // index into the module's symbol names; 0 for none

typedef struct Type {
    DType dtype;
    uint8_t rank;
    Sym sym[MAX_RANK];
    int64_t dim[MAX_RANK]; // entries past rank are 0
} Type;

Type type_scalar(DType t);
Type type_make(DType t, int rank, const int64_t *dim);
static inline bool shape_equal(const Type *a, const Type *b) // dims
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++) same = a->dim[i] == b->dim[i];
    return same;
}
static inline bool type_equal(const Type *a, const Type *b) // dtype and dims
{
    return a->dtype == b->dtype && shape_equal(a, b);
}
int64_t type_count(const Type *t); // elements; 1 for a scalar
int64_t type_bytes(const Type *t);
int64_t type_extent(const Type *t, const int64_t *axes, int n); // product of the sizes of these
                                                                // axes
void type_strides(const Type *t, int64_t stride[MAX_RANK]);     // between neighbours, row-major
// Right-aligned broadcasting of a and b into out (dtype from a); false when they do not fit.
bool shape_broadcast(const Type *a, const Type *b, Type *out);
// "f32[128, 784]"; with names "f32[batch=128, 784]". symbols may be NULL.
void type_print(Buf *b, const Type *t, const char *const *symbols);

#endif
