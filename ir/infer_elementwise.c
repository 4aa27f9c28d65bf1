// Type rules of elementwise ops.
#include <string.h>

#include "ir/infer.h"

// Checks that the operands from [first] on have the same shape and element type, which the result
// gets.
static bool alike(Infer *in, int first)
{
    in->out = *infer_arg(in, 0);
    in->out.dtype = infer_arg(in, first)->dtype;
    for (int i = 1; i < in->nargs; i++) {
        const Type *t = infer_arg(in, i);
        if (!shape_equal(t, infer_arg(in, 0))) {
            if (in->nargs == 2)
                return infer_fail(in, "%s and %s do not broadcast",
                                  infer_show(in, infer_arg(in, 0)), infer_show(in, t));
            return infer_fail(in, "%s, %s and %s do not broadcast",
                              infer_show(in, infer_arg(in, 0)), infer_show(in, infer_arg(in, 1)),
                              infer_show(in, infer_arg(in, 2)));
        }
        if (i > first && t->dtype != infer_arg(in, first)->dtype)
            return infer_fail(in, "%s and %s have different element types; cast one of them",
                              infer_show(in, infer_arg(in, first)), infer_show(in, t));
        for (int k = 0; k < t->rank; k++)
            if (!in->out.sym[k]) in->out.sym[k] = t->sym[k];
    }
    return true;
}

bool infer_arith(Infer *in)
{
    return alike(in, 0) &&
           infer_needs(in, 0, infer_arg(in, 0)->dtype != DT_BOOL, "numbers (use cast for a bool)");
}

bool infer_float(Infer *in)
{
    return alike(in, 0) && infer_needs(in, 0, dtype_is_float(infer_arg(in, 0)->dtype),
                                       "floats (use cast for an integer)");
}

bool infer_native(Infer *in)
{
    if (in->nargs < 1 || in->nargs > 3) return infer_fail(in, "takes one to three operands");
    const char *text = attrs_find(in->attrs, ATTR_text)->s;
    for (const char *p = text; (p = strchr(p, '$')); p++)
        if (p[1] < '0' || p[1] >= '0' + in->nargs)
            return infer_fail(in, "the text names a value that is none of %d", in->nargs);
    return infer_float(in);
}

bool infer_compare(Infer *in)
{
    if (!alike(in, 0)) return false;
    in->out.dtype = DT_BOOL;
    return true;
}

bool infer_test(Infer *in)
{
    return infer_float(in) && infer_compare(in);
}

bool infer_logic(Infer *in)
{
    return alike(in, 0) && infer_needs(in, 0, infer_arg(in, 0)->dtype == DT_BOOL, "bool");
}

bool infer_bits(Infer *in)
{
    return alike(in, 0) && infer_needs(in, 0, dtype_is_int(infer_arg(in, 0)->dtype), "integers");
}

bool infer_u32(Infer *in)
{
    return alike(in, 0) && infer_needs(in, 0, infer_arg(in, 0)->dtype == DT_U32, "u32");
}

bool infer_select(Infer *in)
{
    return alike(in, 1) &&
           infer_needs(in, 0, infer_arg(in, 0)->dtype == DT_BOOL, "a bool condition");
}

// Elementwise ops, and others whose result has their operand's type: reverse, output, assign.
bool infer_same(Infer *in)
{
    in->out = *infer_arg(in, 0);
    int n;
    const int64_t *axes = attrs_ints(in->attrs, ATTR_axes, &n);
    if (!infer_axes_valid(in, axes, n, infer_arg(in, 0))) return false;
    const AttrValue *axis = attrs_find(in->attrs, ATTR_axis);
    return !axis || infer_axes_valid(in, &axis->i, 1, infer_arg(in, 0));
}

bool infer_cast(Infer *in)
{
    DType t;
    if (!infer_dtype_attr(in, ATTR_dtype, &t)) return false;
    in->out = *infer_arg(in, 0);
    in->out.dtype = t;
    return true;
}

bool infer_assert(Infer *in)
{
    return infer_same(in) && infer_needs(in, 0, infer_arg(in, 0)->dtype == DT_BOOL, "bool");
}
