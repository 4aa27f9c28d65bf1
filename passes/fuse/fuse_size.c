// How much a kernel computes for one element of a free value. A value that is read at several
// places (a stencil, a step of a parallel scan or of a butterfly) is computed at each of them,
// together with everything it depends on. So the work grows exponentially along a chain of such
// steps.
#include <string.h>

#include "ir/door.h"
#include "passes/fuse/fuse.h"

enum {
    MOST = 512, // values times positions: compilers take very long for more
    TABLE = 4 * MOST,
    SPREAD = 64,    // from this many on, too big if
    MOST_TIMES = 6, // each is computed more often than this on average;
    TIMES = 3,      // counts as a cost if each is computed this often
};

typedef struct At { // a value, and the position at which it is read
    const Node *n;
    uint64_t place;
} At;

typedef struct Walk {
    At at[MOST]; // those found so far, visited in this order
    int n, values;
    uint16_t table[TABLE], value[TABLE]; // index + 1, by value and position; by value
} Walk;

static bool is_new_value(Walk *w, const Node *n)
{
    for (uint64_t h = hash_mix(n->id, 0);; h++) {
        uint16_t i = w->value[h % TABLE];
        if (i && w->at[i - 1].n == n) return false;
        if (i) continue;
        w->value[h % TABLE] = (uint16_t)w->n;
        return true;
    }
}

// false: no space left.
static bool meet(Walk *w, const Node *n, uint64_t place)
{
    for (uint64_t h = hash_mix(n->id, place);; h++) {
        uint16_t i = w->table[h % TABLE];
        if (i && w->at[i - 1].n == n && w->at[i - 1].place == place) return true;
        if (i) continue;
        if (w->n == MOST) return false;
        w->at[w->n++] = (At){n, place};
        w->table[h % TABLE] = (uint16_t)w->n;
        w->values += is_new_value(w, n);
        return true;
    }
}

// The position at which n, computed at [place], reads operand k. Positions are equal if the same
// views lead to them; a view and its inverse do not cancel.
static uint64_t place_of(const Node *n, uint32_t k, uint64_t place)
{
    bool view = node_class(n) == CLS_VIEW;
    if ((!view && node_class(n) != CLS_INDEX) || node_keeps_all(n)) return place;
    const Type *t = &n->args[0]->type;
    uint64_t h = hash_mix(hash_mix(n->op, attrs_hash(n->attrs, place)), k);
    if (!view && k == 0)
        for (uint32_t i = 1; i < n->nargs; i++) h = hash_mix(h, n->args[i]->id);
    return hash_bytes(t->dim, sizeof *t->dim * (size_t)t->rank, h);
}

int fuse_size(const Fuse *f, const Node *n, bool *spread, bool *too_big)
{
    Walk w;
    w.n = w.values = 0;
    memset(w.table, 0, sizeof w.table);
    memset(w.value, 0, sizeof w.value);
    meet(&w, n, 0);
    *too_big = false;
    for (int i = 0; i < w.n && !*too_big; i++) {
        const Node *x = w.at[i].n;
        if (node_class(x) == CLS_LEAF || (x != n && fuse_stored(f, x))) continue;
        for (uint32_t k = 0; k < x->nargs && !*too_big; k++)
            *too_big = !meet(&w, x->args[k], place_of(x, k, w.at[i].place));
    }
    // (An element of a value made of pieces is an element of one piece; pieces are stored one by
    // one.)
    bool pieces = node_has(n, OPF_PIECES);
    if (w.n >= SPREAD && w.n > MOST_TIMES * w.values && !pieces) *too_big = true;
    *spread = w.n >= TIMES * w.values && !pieces;
    return w.n;
}
