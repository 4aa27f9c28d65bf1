// Loads and stores of one element by a thread that are neighbours in memory, such as the values of
// all positions of a short axis: a vector of them is one access.
#include "codegen/ir/body.h"

enum { MOST = 16 }; // elements of a vector

typedef struct Place { // of a load or a store that may be a member of a stack
    int buf;           // -1: it may not, or is a member of one
    const Ix *at;
    // In vectors of the width that is tried: the first element of its vector, and which one it is.
    // NULL: it is not always the same one.
    const Ix *begin;
    int lane;
} Place;

static void find_vector(const Body *b, Place *p, int width)
{
    p->begin = NULL;
    if (p->buf < 0 || width * element_bytes(b, p->buf) > 16 || b->bufs.at[p->buf].elems % width ||
        !buf_begins(b, p->buf, width))
        return;
    for (int i = 0; i < p->at->n; i++)
        if (p->at->at[i].coeff % width) return;
    p->lane = (int)((p->at->constant % width + width) % width);
    p->begin = ix_add(b->ix, p->at, ix_const(b->ix, -p->lane));
}

// Joins places that share a vector of the width, if they are at least [least] of its elements.
// Returns the bytes of these.
static int join(const Body *b, Place *p, int n, int width, int least, Stack *of)
{
    int bytes = 0;
    for (int i = 0; i < n; i++) find_vector(b, &p[i], width);
    for (int i = 0; i < n; i++) {
        const Ix *begin = p[i].begin;
        const int buf = p[i].buf;
        uint32_t lanes = 0;
        int members = 0;
        for (int k = i; k < n && begin; k++) {
            if (p[k].begin != begin || p[k].buf != buf) continue;
            members += !(lanes >> p[k].lane & 1);
            lanes |= 1u << p[k].lane;
        }
        if (members < least) continue;
        for (int k = i; k < n; k++) {
            if (p[k].begin != begin || p[k].buf != buf) continue;
            of[k] = (Stack){i, p[k].lane, width};
            p[k].buf = -1;
            p[k].begin = NULL;
        }
        bytes += members * element_bytes(b, buf);
    }
    return bytes;
}

Stacks body_stacks(Arena *a, const Body *b, const bool *live)
{
    const int n = (int)b->insts.n, nstores = (int)b->stores.n;
    Stacks s = {NEW_ARRAY(a, Stack, n + 1), NEW_ARRAY(a, Stack, nstores + 1), 0};
    Place *loads = NEW_ARRAY(a, Place, n + 1), *stores = NEW_ARRAY(a, Place, nstores + 1);
    const uint64_t rows = (1ull << b->npar) - 1;
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[i];
        const bool can = v->kind == KI_LOAD && live[i] && v->pred < 0 && !inst_nested(b, v);
        loads[i] = (Place){.buf = can && v->axes & rows ? v->buf : -1, .at = v->ix};
    }
    for (int i = 0; i < nstores; i++) {
        const BodyStore *v = &b->stores.at[i];
        const bool can = v->buf >= 0 && v->ix && !v->joins && !v->guard && !v->fold;
        stores[i] = (Place){.buf = can ? v->buf : -1, .at = v->ix};
    }
    for (int width = MOST; width > 1; width /= 2) {
        s.bytes += join(b, loads, n, width, width > 2 ? width / 2 : 2, s.load);
        s.bytes += join(b, stores, nstores, width, width, s.store);
    }
    return s;
}
