// Which inputs of an entry are needed for which outputs, for programs that are loaded to compute
// only a few of them.
#include <string.h>

#include "codegen/program/gen.h"

typedef struct Needs {
    Arena *arena;
    uint32_t words;    // of a set of inputs, one bit each
    uint64_t **of;     // by node id
    uint64_t *always;  // inputs that are needed for any output
    bool indices_fail; // the device checks some indices
} Needs;

static void add(const Needs *s, uint64_t *to, const uint64_t *from)
{
    for (uint32_t w = 0; w < s->words; w++) to[w] |= from[w];
}

// Whether n is an input, possibly behind casts and views.
static bool is_input(const Node *n)
{
    while (n->nargs == 1 && (node_class(n) == CLS_VIEW || n->op == OP_cast)) n = n->args[0];
    return n->op == OP_input;
}

// An input that is not needed is replaced by zeros, or by the smallest value of its range. An index
// computed from that could fail its check and stop the execution, so such inputs are always needed.
static void add_checked(const Needs *s, const Node *n)
{
    if (!s->indices_fail) return;
    if (node_class(n) == CLS_INDEX && n->op != OP_repair && !is_input(n->args[1]))
        add(s, s->always, s->of[n->args[1]->id]);
    if (n->nregions && region_checks(s->arena, n)) add(s, s->always, s->of[n->id]);
}

static bool has(const uint64_t *set, int32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static int32_t find_input(const ProgEntry *e, const char *name)
{
    int32_t i = 0;
    while (i < e->ninputs && strcmp(e->inputs[i].name, name)) i++;
    return i;
}

void entry_needs(Arena *a, const Graph *g, ProgEntry *e)
{
    Needs s = {.arena = a, .words = (uint32_t)e->ninputs / 64 + 1};
    s.of = NEW_ARRAY(a, uint64_t *, g->nodes.n + 1);
    s.always = NEW_ARRAY(a, uint64_t, s.words);
    for (int32_t i = 0; i < e->nchecks; i++)
        s.indices_fail = s.indices_fail || e->checks[i].kind == CHECK_INDEX;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        s.of[i] = NEW_ARRAY(a, uint64_t, s.words);
        for (uint32_t k = 0; k < n->nargs; k++) add(&s, s.of[i], s.of[n->args[k]->id]);
        int32_t in = n->op == OP_input ? find_input(e, attr_str(n, ATTR_name)) : e->ninputs;
        if (in < e->ninputs) s.of[i][in / 64] |= (uint64_t)1 << (in % 64);
        add_checked(&s, n);
    }
    for (uint32_t r = 0; r < g->roots.n; r++)
        if (g->roots.at[r]->op != OP_output) add(&s, s.always, s.of[g->roots.at[r]->id]);
    for (int32_t i = 0; i < e->ninputs; i++) {
        ProgInput *in = &e->inputs[i];
        in->always = has(s.always, i);
        in->outputs = NEW_ARRAY(a, int32_t, e->noutputs + 1);
        int32_t out = 0; // outputs are numbered in the order of their roots
        for (uint32_t r = 0; r < g->roots.n; r++)
            if (g->roots.at[r]->op == OP_output) {
                if (has(s.of[g->roots.at[r]->id], i)) in->outputs[in->noutputs++] = out;
                out++;
            }
    }
}
