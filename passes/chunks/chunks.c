// A large matmul whose rows are reduced is computed in chunks of rows, so that the logits of a
// language model and their gradient are never whole in memory.
//
// A HEAD is a dot of shape (rows, columns), the elementwise code on it, reductions of its rows, and
// what these compute in turn, down to values that are small (a few a row; the gradient of the left
// operand) or summed over all rows (the gradients of the right operand and of a bias). It becomes a
// loop over chunks of rows; a remainder of rows follows the loop. A head is refused, and the reason
// noted for `--why`, if something large in it is read outside: an output, a sum over rows of
// another kind, random numbers.
//
// Requires: gradients expanded, precision chosen; runs after the passes that change values. Keeps:
// every value up to the order of additions in sums over rows (accumulated in f32 or wider). Breaks:
// nothing.
#include "passes/chunks/chunks.h"
#include "passes/regions.h"

// Under a memory limit, dots larger than 1/WHOLE_SHARE of it are computed in chunks of so many rows
// that a chunk takes 1/ROUND_SHARE: a few thousand rows, which a GPU multiplies nearly as fast as
// all.
enum { WHOLE_SHARE = 8, ROUND_SHARE = 16, LEAST_ROWS = 2048, STEP = 128 };

// Dots of more bytes than this are computed in chunks.
static int64_t whole_bytes(const PassOptions *o)
{
    if (o->chunk_bytes) return o->chunk_bytes;
    return o->memory_limit > 0 ? o->memory_limit / WHOLE_SHARE : INT64_MAX;
}

// Bytes per row of the dot as it is stored: in a narrower type if its only reader is a cast.
static int64_t row_bytes(const Head *h)
{
    int64_t own = dtype_info[h->seed->type.dtype].bits / 8, most = 0;
    for (uint32_t i = h->seed->id + 1; i < h->g->nodes.n; i++) {
        const Node *n = h->g->nodes.at[i];
        for (uint32_t k = 0; k < n->nargs && h->live[i]; k++) {
            if (n->args[k] != h->seed) continue;
            int64_t bytes = n->op == OP_cast ? dtype_info[n->type.dtype].bits / 8 : own;
            most = bytes > most ? bytes : most;
        }
    }
    return h->cols * (most && most < own ? most : own);
}

// Rows per chunk; 0: one chunk is enough. A divisor of the rows close to the limit is preferred.
static int64_t rows_at_once(const Head *h, const PassOptions *o)
{
    int64_t row = row_bytes(h);
    int64_t most = o->chunk_bytes ? o->chunk_bytes : o->memory_limit / ROUND_SHARE;
    int64_t step = o->chunk_bytes ? 1 : STEP, least = o->chunk_bytes ? 1 : LEAST_ROWS;
    int64_t each = most / row / step * step;
    if (each < least) each = least;
    if (each >= h->rows) return 0;
    for (int64_t d = each; d >= step && d > each / 2; d -= step)
        if (h->rows % d == 0) return d;
    int64_t even = h->rows / ((h->rows + each - 1) / each) / step * step; // chunks of nearly equal
                                                                          // size
    return even > each / 2 ? even : each;
}

// Records the refusal, unless it is recorded already.
static void refuse(Entry *entry, const Head *h)
{
    for (uint32_t i = 0; entry && i < entry->refused.n; i++) {
        const Unfused *u = &entry->refused.at[i];
        if (u->cause == WHY_WHOLE && u->producer->loc == h->refused_at->loc && u->a == h->rows)
            return;
    }
    if (!entry) return;
    const Unfused why = {.producer = graph_keep(h->g, h->refused_at),
                         .consumer = graph_keep(h->g, h->refused_by),
                         .cause = WHY_WHOLE,
                         .a = h->rows,
                         .b = h->cols};
    vec_push(h->g->kept, &entry->refused, why);
}

// A copy of the graph in which the first head is a loop; NULL: there is no head.
static Graph *next_head(Graph *g, Entry *entry, const PassOptions *o)
{
    bool *live = NEW_ARRAY(g->arena, bool, g->nodes.n + 1);
    graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!live[i] || n->op != OP_dot || type_bytes(&n->type) <= whole_bytes(o)) continue;
        Head h;
        bool refused, found = head_find(&h, g, n, live, &refused);
        if (refused && !found) refuse(entry, &h);
        int64_t each = found ? rows_at_once(&h, o) : 0;
        if (each) return head_build(&h, each);
    }
    return NULL;
}

Graph *pass_chunks(Graph *g, Module *m, const PassOptions *o)
{
    Entry *entry = NULL;
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (m->entries.at[i].graph == g) entry = &m->entries.at[i];
    const RegionList all = regions_innermost_first(g);
    IdMap done = idmap_new(g->arena);
    for (uint32_t i = 0; i < all.at.n; i++) {
        const RegionVisit *v = &all.at.at[i];
        Graph *new = rewrite_nodes(v->g, &done, NULL, NULL, NULL);
        bool plain = !v->owner || v->owner->op == OP_loop; // (regions of calls are not considered)
        for (Graph *next = plain ? new : NULL; next; next = next_head(new, entry, o)) new = next;
        if (new != v->g) idmap_set(&done, (uint64_t)(uintptr_t)v->g, (uint64_t)(uintptr_t) new);
    }
    return rebuilt(&done, g);
}
