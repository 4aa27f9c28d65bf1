// Shared by the type rules. There is one function for each name in the column of ops.def. A rule
// checks operands and attributes and fills in->out, or reports one error that names the op and the
// types, and returns false.
#ifndef IR_INFER_H
#define IR_INFER_H

#include "ir/door.h"

#define EW(id, arity, flags, rule, ...)        bool infer_##rule(Infer *in);
#define OP(id, arity, class, flags, rule, ...) bool infer_##rule(Infer *in);
#include "ir/ops.def"
#undef EW
#undef OP

bool infer_fail(const Infer *in, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *infer_show(const Infer *in, const Type *t); // "f32[batch=128, 784]"
const Type *infer_arg(const Infer *in, int i);
// Returns [ok]; if false, reports that operand i is not [what].
bool infer_needs(const Infer *in, int i, bool ok, const char *what);
// Checks that the axes are axes of t, in ascending order and without repetition.
bool infer_axes_valid(const Infer *in, const int64_t *axes, int n, const Type *t);
bool infer_shape_from(Infer *in, AttrKey key, DType dtype); // sets out to the sizes of an attribute
bool infer_list_of_rank(const Infer *in, AttrKey key, const int64_t **list, int rank);
bool infer_dtype_attr(const Infer *in, AttrKey key, DType *out);
// Copies an axis of [from] to out.
bool infer_set_axis(Infer *in, int to, const Type *from, int axis);

#endif
