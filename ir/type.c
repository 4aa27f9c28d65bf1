// Element types and shapes.
#include "ir/type.h"

#include <string.h>

const DTypeInfo dtype_info[DT_COUNT] = {
#define DTYPE(id, name, bits, class, storage, math, st, npy)                                       \
    {name, bits, CLASS_##class, storage, math, st, npy},
#include "ir/dtypes.def"
#undef DTYPE
};

bool dtype_parse(const char *name, DType *out)
{
    for (int i = 0; i < DT_COUNT; i++) {
        if (strcmp(dtype_info[i].name, name)) continue;
        *out = (DType)i;
        return true;
    }
    return false;
}

DType dtype_accumulator(DType t)
{
    if (dtype_is_float(t)) return t == DT_F64 ? DT_F64 : DT_F32;
    return dtype_info[t].bits < 32 ? DT_I32 : t;
}

bool dtype_join(DType a, DType b, DType *out)
{
    *out = a;
    if (a == b) return true;
    DType low = a < b ? a : b, high = a < b ? b : a;
    if (dtype_is_float(low) && dtype_is_float(high)) {
        *out = low == DT_BF16 && high == DT_F16 ? DT_F32 : high;
        return true;
    }
    if (dtype_is_int(low) && dtype_is_int(high)) {
        *out = low == DT_I32 && high == DT_U32 ? DT_I64 : high;
        return true;
    }
    return false;
}

Type type_scalar(DType t)
{
    return (Type){.dtype = t};
}

Type type_make(DType t, int rank, const int64_t *dim)
{
    Type out = {.dtype = t, .rank = (uint8_t)(rank > MAX_RANK ? MAX_RANK : rank)};
    for (int i = 0; i < out.rank; i++) out.dim[i] = dim[i];
    return out;
}

int64_t type_count(const Type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

int64_t type_extent(const Type *t, const int64_t *axes, int n)
{
    int64_t extent = 1;
    for (int i = 0; i < n; i++) extent *= t->dim[axes[i]];
    return extent;
}

void type_strides(const Type *t, int64_t stride[MAX_RANK])
{
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= t->dim[i];
    }
}

int64_t type_bytes(const Type *t)
{
    return (type_count(t) * dtype_info[t->dtype].bits + 7) / 8;
}

bool shape_broadcast(const Type *a, const Type *b, Type *out)
{
    Type t = {.dtype = a->dtype, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < t.rank; i++) {
        int ia = i - (t.rank - a->rank), ib = i - (t.rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        if (da != db && da != 1 && db != 1) return false;
        bool from_a = ia >= 0 && da != 1;
        t.dim[i] = from_a ? da : db;
        if (ia >= 0 && a->dim[ia] == t.dim[i]) t.sym[i] = a->sym[ia];
        if (!t.sym[i] && ib >= 0 && b->dim[ib] == t.dim[i]) t.sym[i] = b->sym[ib];
    }
    *out = t;
    return true;
}

void type_print(Buf *b, const Type *t, const char *const *symbols)
{
    buf_str(b, dtype_info[t->dtype].name);
    buf_char(b, '[');
    for (int i = 0; i < t->rank; i++) {
        if (i) buf_str(b, ", ");
        if (symbols && t->sym[i]) buf_printf(b, "%s=", symbols[t->sym[i]]);
        buf_printf(b, "%lld", (long long)t->dim[i]);
    }
    buf_char(b, ']');
}
