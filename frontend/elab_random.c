// Random numbers. A draw is a few Philox words (ir/philox.h), a function of
//     seed      the cell @seed;
//     site      the path of its scope and its number there, so that equal layers draw different
//               numbers and adding a layer elsewhere changes none;
//     count     the number of the entry's execution and the iteration of every enclosing loop, so
//               that no two updates, micro-batches or iterations draw the same numbers;
//     element   its index in the tensor.
// All of these are values of the graph, so the backward loop, which computes an iteration again
// from its number, draws the same numbers as the forward loop.
#include <string.h>

#include "frontend/elab.h"

// The number of executions of the entry so far: updates when training, 0 in init, otherwise a
// counter of its own.
static Node *executions(Elab *e, Span span)
{
    if (e->root == e->init) return graph_const_int(e->g, DT_I64, 0);
    ECell *c = cell_control(e, CELL_STEP);
    if (e->kind != ENTRY_TRAIN)
        c = e->runs = cell_control(e, arena_printf(e->arena, CELL_RUNS "%s", e->entry));
    return cell_read(e, c, span);
}

// Adds the iteration of each enclosing loop as a digit, count * rounds + round, the outermost
// first: a number with a mixed radix.
static Node *add_rounds(Elab *e, const Region *r, Node *count, Span span)
{
    if (!r || !count) return count;
    count = add_rounds(e, r->up, count, span);
    if (!count || !r->round) return count;
    Node *round = own(e, r->round, span);
    if (!round) return NULL;
    Node *rounds = graph_const_int(e->g, DT_I64, r->rounds);
    count = graph_binary(e->g, OP_mul, count, rounds);
    return graph_binary(e->g, OP_add, count, round);
}

Val random_bits(Elab *e, const Call *c)
{
    Type t = {0};
    int64_t lanes = 1;
    if (!to_shape(e, &c->arg[0], c->arg_span[0], &t)) return val_poison();
    if (!val_missing(&c->arg[1]) &&
        !to_int(e, &c->arg[1], c->arg_span[1], "the number of words", &lanes))
        return val_poison();
    if (lanes < 1 || lanes > 4)
        return fail(e, c->arg_span[1], "a draw gives 1 to 4 words, not %lld", (long long)lanes);
    int64_t bits = lanes == 1 ? 32 : lanes == 2 ? 64 : 128;
    if (!val_missing(&c->arg[2]) && !to_int(e, &c->arg[2], c->arg_span[2], "the bits", &bits))
        return val_poison();
    if (!val_missing(&c->arg[2]) && (lanes != 1 || (bits != 16 && bits != 32)))
        return fail(e, c->arg_span[2], "a draw of one word has 16 or 32 bits");
    const char *path = scope_path(e, e->frame->scope);
    uintptr_t ordinal = (uintptr_t)strmap_get(&e->sites, path);
    strmap_set(&e->sites, path, (void *)(ordinal + 1));
    uint64_t site = hash_mix(hash_str(path), ordinal) & INT64_MAX;
    Node *seed = cell_read(e, cell_control(e, CELL_SEED), c->span);
    Node *count = add_rounds(e, e->region, executions(e, c->span), c->span);
    if (!seed || !count) return val_poison();
    at_span(e, c->span);
    Val v = val_seq(e, V_TUPLE, (uint32_t)lanes);
    for (int64_t lane = 0; lane < lanes; lane++) {
        Attrs attrs = {0};
        attr_set_ints(e->g, &attrs, ATTR_shape, t.dim, t.rank);
        attr_set_int(&attrs, ATTR_dtype, DT_U32);
        attr_set_int(&attrs, ATTR_site, (int64_t)site);
        attr_set_int(&attrs, ATTR_bits, bits);
        attr_set_int(&attrs, ATTR_lane, lane);
        Node *n = graph_node(e->g, OP_random, (Node *[]){seed, count}, 2, &attrs);
        memcpy(n->type.sym, t.sym, sizeof t.sym);
        v.seq->at[lane] = val_node(n);
    }
    return lanes == 1 ? v.seq->at[0] : v;
}
