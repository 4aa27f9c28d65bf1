// Built-in functions convolutions are made of: windows, and contractions with named axes.
#include <string.h>

#include "frontend/elab.h"

// -- windows --------------------------------------------------------------------------------------

// A number for each of n axes, or one for all of them.
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

// -- contractions ---------------------------------------------------------------------------------

typedef struct Labels { // a letter for each axis
    const char *at;
    int n;
} Labels;

static int place_of(const Labels *l, char label)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i] == label) return i;
    return -1;
}

static bool is_label(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// "ij,jk->ik": two lists of letters, and the result's. Each letter stands once in a list.
static bool read_labels(Elab *e, const Call *c, const char *text, Labels *out)
{
    static const char *const end[] = {",", "->", ""};
    const char *p = text;
    for (int k = 0; k < 3; k++) {
        out[k] = (Labels){.at = p};
        for (; is_label(*p); p++, out[k].n++) {
            if (place_of(&out[k], *p) < 0) continue;
            fail(e, c->arg_span[0], "'%c' stands twice among the axes of one tensor in \"%s\"", *p,
                 text);
            return false;
        }
        size_t length = strlen(end[k]);
        if (strncmp(p, end[k], length) || (!length && *p)) {
            fail(e, c->arg_span[0],
                 "expected a letter for each axis as in \"ij,jk->ik\", found \"%s\"", text);
            return false;
        }
        p += length;
    }
    for (int i = 0; i < out[2].n; i++)
        if (place_of(&out[0], out[2].at[i]) < 0 && place_of(&out[1], out[2].at[i]) < 0) {
            fail(e, c->arg_span[0], "'%c' of the result is no axis of an operand in \"%s\"",
                 out[2].at[i], text);
            return false;
        }
    return true;
}

// Sums over the axes that neither the other operand nor the result has.
static Node *sum_alone(Elab *e, Node *x, Labels *own, const Labels *other, const Labels *result)
{
    int64_t axes[MAX_RANK];
    char *kept = NEW_ARRAY(e->arena, char, own->n + 1);
    int n = 0, rank = 0;
    for (int i = 0; i < own->n; i++) {
        if (place_of(other, own->at[i]) < 0 && place_of(result, own->at[i]) < 0)
            axes[n++] = i;
        else
            kept[rank++] = own->at[i];
    }
    if (!n) return x;
    *own = (Labels){kept, rank};
    return graph_reduce(e->g, OP_sum, x, axes, n, false);
}

// einsum("ij,jk->ik", a, b)
static Val run_einsum(Elab *e, const Call *c)
{
    Labels l[3];
    Node *n[2];
    if (c->arg[0].kind == V_POISON) return val_poison();
    if (c->arg[0].kind != V_STRING)
        return fail(e, c->arg_span[0], "expected text as \"ij,jk->ik\", found %s",
                    val_text(e, &c->arg[0]));
    if (!read_labels(e, c, c->arg[0].s, l) ||
        !join_operands(e, "einsum", c->arg + 1, c->arg_span + 1, 2, n, c->span))
        return val_poison();
    for (int k = 0; k < 2; k++)
        if (n[k]->type.rank != l[k].n)
            return fail(e, c->arg_span[k + 1], "\"%.*s\" names %d axes, found %s", l[k].n, l[k].at,
                        l[k].n, type_text(e, &n[k]->type));
    for (int i = 0; i < l[0].n; i++) {
        int k = place_of(&l[1], l[0].at[i]);
        if (k >= 0 && n[0]->type.dim[i] != n[1]->type.dim[k])
            return fail(e, c->span, "'%c' is %lld in %s and %lld in %s", l[0].at[i],
                        (long long)n[0]->type.dim[i], type_text(e, &n[0]->type),
                        (long long)n[1]->type.dim[k], type_text(e, &n[1]->type));
    }
    at_span(e, c->span);
    DType out = n[0]->type.dtype;
    for (int k = 0; k < 2; k++) n[k] = sum_alone(e, n[k], &l[k], &l[1 - k], &l[2]);
    int64_t batch[2][MAX_RANK], contract[2][MAX_RANK], perm[MAX_RANK];
    char order[2 * MAX_RANK];
    int nbatch = 0, ncontract = 0, rank = 0;
    for (int i = 0; i < l[0].n; i++) {
        int k = place_of(&l[1], l[0].at[i]);
        if (k < 0) continue;
        bool kept = place_of(&l[2], l[0].at[i]) >= 0;
        (kept ? batch : contract)[0][kept ? nbatch : ncontract] = i;
        (kept ? batch : contract)[1][kept ? nbatch++ : ncontract++] = k;
        if (kept) order[rank++] = l[0].at[i];
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < l[k].n; i++)
            if (place_of(&l[1 - k], l[k].at[i]) < 0) order[rank++] = l[k].at[i];
    if (rank > MAX_RANK)
        return fail(e, c->span, "a tensor has at most %d axes, the result would have %d", MAX_RANK,
                    rank);
    Node *y = graph_dot(e->g, n[0], n[1], batch[0], batch[1], nbatch, contract[0], contract[1],
                        ncontract, out);
    const Labels made = {order, rank};
    for (int i = 0; i < rank; i++) perm[i] = place_of(&made, l[2].at[i]);
    return val_node(graph_permute(e->g, y, perm));
}

const Builtin window_builtins[] = {
    {"window", "x axes sizes stride? dilation?", run_window},
    {"einsum", "axes a b", run_einsum},
    {0},
};
