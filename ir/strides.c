#include "ir/strides.h"

#include <string.h>

static Strides row_major(const Type *t)
{
    Strides s = {.rank = t->rank};
    memcpy(s.dim, t->dim, sizeof s.dim);
    type_strides(t, s.step);
    return s;
}

bool strides_row_major(const Strides *s)
{
    int64_t step = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        if (s->dim[i] != 1 && s->step[i] != step) return false;
        step *= s->dim[i];
    }
    return true;
}

bool strides_run(const Strides *s, const int64_t *axes, int n, int64_t *extent, int64_t *step)
{
    *extent = 1;
    *step = 0;
    for (int i = n - 1; i >= 0; i--) {
        int64_t d = s->dim[axes[i]], st = s->step[axes[i]];
        if (d == 1) continue;
        if (*extent == 1)
            *step = st;
        else if (st != *step * *extent)
            return false;
        *extent *= d;
    }
    return true;
}

// -- views: one function per op that has the flag STRIDES in its row ------------------------------

// Expresses a reshape without moving elements: old and new axes are grouped from the left so that
// groups have equal extents, and the old axes of each group must be mergeable into one axis.
static bool reshape(Strides *s, const Node *n)
{
    const Type *t = &n->type;
    Strides out = {.rank = t->rank};
    int i = 0, j = 0;
    while (i < s->rank || j < t->rank) {
        int i0 = i, j0 = j;
        int64_t a = i < s->rank ? s->dim[i++] : 1, b = j < t->rank ? t->dim[j++] : 1;
        while (a != b) {
            if (a < b) {
                if (i >= s->rank) return false;
                a *= s->dim[i++];
            } else {
                if (j >= t->rank) return false;
                b *= t->dim[j++];
            }
        }
        int64_t axes[MAX_RANK], extent, step;
        for (int k = i0; k < i; k++) axes[k - i0] = k;
        if (!strides_run(s, axes, i - i0, &extent, &step)) return false;
        if (extent == 1) step = 1;
        for (int k = j - 1; k >= j0; k--) {
            out.dim[k] = t->dim[k];
            out.step[k] = step;
            step *= t->dim[k];
        }
    }
    *s = out;
    return true;
}

static bool permute(Strides *s, const Node *n)
{
    const Strides in = *s;
    const int64_t *perm = attr_ints(n, ATTR_perm, NULL);
    for (int i = 0; i < s->rank; i++) {
        s->dim[i] = in.dim[perm[i]];
        s->step[i] = in.step[perm[i]];
    }
    return true;
}

static bool broadcast(Strides *s, const Node *n)
{
    const Strides in = *s;
    const int64_t *dims = attr_ints(n, ATTR_dims, NULL);
    *s = (Strides){.rank = n->type.rank};
    memcpy(s->dim, n->type.dim, sizeof s->dim);
    for (int i = 0; i < in.rank; i++)
        if (in.dim[i] == s->dim[dims[i]]) s->step[dims[i]] = in.step[i];
    return true;
}

static bool (*const rules[OP_COUNT])(Strides *, const Node *) = {
    [OP_reshape] = reshape, [OP_permute] = permute, [OP_broadcast] = broadcast};

bool strides_through(const Node *n, const Node *stored, Strides *out)
{
    enum { MOST = 64 };
    const Node *views[MOST];
    int count = 0;
    for (; n != stored; n = n->args[0]) {
        if (!node_has(n, OPF_STRIDES) || count == MOST) return false;
        views[count++] = n;
    }
    *out = row_major(&stored->type);
    while (count-- > 0)
        if (!rules[views[count]->op](out, views[count])) return false;
    return true;
}
