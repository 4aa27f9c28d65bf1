// The windows that convolutions and pooling are made of.
#include "frontend/elab.h"

// Reads one integer for each of n axes, or one for all of them.
static bool each_axis(Elab *e, const Call *c, int i, const char *what, int n, int64_t *out)
{
    int count = 1;
    out[0] = 1;
    if (!val_missing(&c->arg[i]) && !to_ints(e, &c->arg[i], c->arg_span[i], out, MAX_RANK, &count))
        return false;
    if (count != n && count != 1) {
        fail(e, c->arg_span[i], "%d %s for %d ax%ss", count, what, n, n == 1 ? "i" : "e");
        return false;
    }
    for (int k = 0; k < count; k++)
        if (out[k] < 1 || out[k] > INT32_MAX) {
            fail(e, c->arg_span[i], "%s of windows must be 1 or more, found %lld", what,
                 (long long)out[k]);
            return false;
        }
    for (int k = count; k < n; k++) out[k] = out[0];
    return true;
}

// window(x, axes, sizes, stride = 1, dilation = 1)
static Val run_window(Elab *e, const Call *c)
{
    static const AttrKey keys[] = {ATTR_axes, ATTR_sizes, ATTR_stride, ATTR_dilation};
    static const char *const what[] = {"axes", "sizes", "strides", "dilations"};
    Node *x = tensor_arg(e, c, 0);
    int64_t v[4][MAX_RANK];
    int n;
    if (!x || !to_ints(e, &c->arg[1], c->arg_span[1], v[0], MAX_RANK, &n)) return val_poison();
    for (int i = 0; i < n; i++) {
        if (v[0][i] < 0) v[0][i] += x->type.rank;
        if (v[0][i] < 0 || v[0][i] >= x->type.rank || (i && v[0][i] <= v[0][i - 1]))
            return fail(e, c->arg_span[1],
                        "the axes of a window are axes of %s, in ascending order",
                        type_text(e, &x->type));
    }
    for (int k = 1; k < 4; k++)
        if (!each_axis(e, c, k + 1, what[k], n, v[k])) return val_poison();
    Attrs attrs = {0};
    for (int k = 0; k < 4; k++) attr_set_ints(e->g, &attrs, keys[k], v[k], n);
    at_span(e, c->span);
    return val_node(graph_node(e->g, OP_window, &x, 1, &attrs));
}

const Builtin window_builtins[] = {
    {"window", "x axes sizes stride? dilation?", run_window},
    {0},
};
