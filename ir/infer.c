// Type inference: checks what all ops have in common, then calls the op's rule.
#include "ir/infer.h"

#include <stdarg.h>

static const char *op_name(const Infer *in)
{
    return op_info(in->op)->name;
}

const char *infer_show(const Infer *in, const Type *t)
{
    Buf b = buf_new(in->arena);
    type_print(&b, t, in->symbols);
    return b.data;
}

bool infer_fail(const Infer *in, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = arena_vprintf(in->arena, fmt, args);
    va_end(args);
    diag_error(in->diags, in->loc, "%s: %s", op_name(in), text);
    return false;
}

const Type *infer_arg(const Infer *in, int i)
{
    return &in->args[i]->type;
}

bool infer_needs(const Infer *in, int i, bool ok, const char *what)
{
    return ok || infer_fail(in, "needs %s, found %s", what, infer_show(in, infer_arg(in, i)));
}

// -- attributes -----------------------------------------------------------------------------------

bool infer_axes_valid(const Infer *in, const int64_t *axes, int n, const Type *t)
{
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0 || axes[i] >= t->rank)
            return infer_fail(in, "axis %lld is outside %s", (long long)axes[i], infer_show(in, t));
        if (i && axes[i] <= axes[i - 1]) return infer_fail(in, "axes must be ascending, each once");
    }
    return true;
}

bool infer_shape_from(Infer *in, AttrKey key, DType dtype)
{
    int n;
    const int64_t *dim = attrs_ints(in->attrs, key, &n);
    if (n > MAX_RANK) return infer_fail(in, "%d axes, at most %d are supported", n, MAX_RANK);
    for (int i = 0; i < n; i++)
        if (dim[i] < 0)
            return infer_fail(in, "axis %d has the negative size %lld", i, (long long)dim[i]);
    in->out = type_make(dtype, n, dim);
    return true;
}

bool infer_list_of_rank(const Infer *in, AttrKey key, const int64_t **list, int rank)
{
    int n;
    *list = attrs_ints(in->attrs, key, &n);
    return n == rank || infer_fail(in, "%s has %d entries for %d axes", attr_name(key), n, rank);
}

bool infer_dtype_attr(const Infer *in, AttrKey key, DType *out)
{
    int64_t v = attrs_int(in->attrs, key, -1);
    *out = (DType)v;
    return (v >= 0 && v < DT_COUNT) || infer_fail(in, "%s is not an element type", attr_name(key));
}

bool infer_set_axis(Infer *in, int to, const Type *from, int axis)
{
    if (to >= MAX_RANK) return infer_fail(in, "the result has more than %d axes", MAX_RANK);
    in->out.dim[to] = from->dim[axis];
    in->out.sym[to] = from->sym[axis];
    in->out.rank = (uint8_t)(to + 1);
    return true;
}

// -- the table ------------------------------------------------------------------------------------

static bool (*const rules[OP_COUNT])(Infer *) = {
#define EW(id, arity, flags, rule, ...)        infer_##rule,
#define OP(id, arity, class, flags, rule, ...) infer_##rule,
#include "ir/ops.def"
#undef EW
#undef OP
};

static bool attrs_valid(const Infer *in)
{
    const OpInfo *info = op_info(in->op);
    const Attrs *a = in->attrs;
    uint64_t present = 0;
    for (int i = 0; i < a->n; i++) present |= 1ull << a->at[i].key;
    uint64_t missing = info->attr_required & ~present, unknown = present & ~info->attr_allowed;
    if (missing)
        return infer_fail(in, "lacks @{%s=...}", attr_name((AttrKey)__builtin_ctzll(missing)));
    if (unknown) return infer_fail(in, "takes no %s", attr_name((AttrKey)__builtin_ctzll(unknown)));
    return true;
}

bool infer_type(Infer *in)
{
    const OpInfo *info = op_info(in->op);
    if (info->arity != VARIADIC && info->arity != in->nargs)
        return infer_fail(in, "takes %d operands, found %d", info->arity, in->nargs);
    if (!attrs_valid(in)) return false;
    if (in->nregions && info->class != CLS_REGION) return infer_fail(in, "takes no region");
    if (!rules[in->op](in)) return false;
    int64_t bytes = 8;
    for (int i = 0; i < in->out.rank; i++)
        if (__builtin_mul_overflow(bytes, in->out.dim[i], &bytes) || bytes > INT64_MAX / 16)
            return infer_fail(in, "the result %s is too large", infer_show(in, &in->out));
    return true;
}
