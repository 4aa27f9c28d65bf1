// What a kernel that computes a product could also compute: a map over the same elements that reads
// its result and runs right after it, or sums over the rows of its left operand. For a product over
// windows, which no library computes, also sums over the rows of its result.
#include "codegen/program/gen.h"

static bool has(const Ids *v, uint32_t id)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->at[i] == id) return true;
    return false;
}

static bool is_product(const Frame *f, const Item *it)
{
    return it->sink < 0 && !it->lowered && it->groups.at[0]->kind == GROUP_DOT && f->depth == 0;
}

static bool may_be_follower(const Frame *f, const Item *it, GroupKind kind)
{
    if (!it->lowered || it->groups.n != 1 || it->groups.at[0]->kind != kind || it->checks)
        return false;
    for (int i = 0; i < it->nkernels; i++)
        if (it->kernels[i].commits) return false;
    for (uint32_t i = 0; i < it->sinks.n; i++)
        if (f->sinks.at[it->sinks.at[i]].commit) return false;
    return true;
}

static const Type *space_of(const Node *n)
{
    return node_class(n) == CLS_ROOT ? &n->args[0]->type : &n->type;
}

static double stored_bytes(const Group *gr)
{
    double bytes = 0;
    for (uint32_t i = 0; i < gr->outs.n; i++) {
        const Type *t = space_of(gr->outs.at[i]);
        bytes += (double)type_count(t) * dtype_info[t->dtype].bits / 8;
    }
    return bytes;
}

// Whether the item is a generated product whose kernel may also sum over the rows of its result,
// and reading the result again takes longer.
static bool adds_results(const Frame *f, const Item *it)
{
    return may_be_follower(f, it, GROUP_DOT) && f->depth == 0 && it->nkernels == 1 &&
           frame_adds_columns(it->kernels) &&
           target_sums_on_the_way(f->e->gen->target, stored_bytes(it->groups.at[0]));
}

// Whether the item is sums over the rows of the product's left operand, all inputs of which are
// known when the product runs.
static bool sums_rows(const Frame *f, const Item *product, const Node *left, const Item *it)
{
    if (!may_be_follower(f, it, GROUP_COLUMN) ||
        !(has(&it->uses, left->id) || has(&it->leaves, left->id)))
        return false;
    for (uint32_t i = 0; i < it->uses.n; i++)
        if (!has(&product->uses, it->uses.at[i])) return false;
    const Group *gr = it->groups.at[0];
    for (uint32_t i = 0; i < gr->outs.n; i++)
        if (type_count(space_of(gr->outs.at[i])) >= type_count(&left->type)) return false;
    return true;
}

// Whether the item is sums over the rows of what the product's kernel stores, possibly with other
// operands.
static bool sums_results(const Frame *f, const Item *product, const Item *it)
{
    if (!may_be_follower(f, it, GROUP_COLUMN)) return false;
    bool reads = false;
    for (uint32_t i = 0; i < it->uses.n; i++) reads |= has(&product->defs, it->uses.at[i]);
    const Group *gr = product->groups.at[0], *next = it->groups.at[0];
    for (uint32_t i = 0; i < next->outs.n; i++)
        if (type_count(space_of(next->outs.at[i])) >= type_count(&gr->anchor->type)) return false;
    return reads;
}

// Whether everything that the item reads is stored by items up to position [at]. [by]: node id ->
// item.
static bool known_by(const Frame *f, const IdMap *by, const Item *it, uint32_t at)
{
    uint64_t from;
    for (uint32_t i = 0; i < it->uses.n; i++)
        if (idmap_get(by, it->uses.at[i], &from) && f->items.at[from].position > at) return false;
    return true;
}

const Item *frame_follower(Frame *f, uint32_t at)
{
    const Item *it = &f->items.at[f->order[at]],
               *next = at + 1 < f->items.n ? &f->items.at[f->order[at + 1]] : NULL;
    if (next && adds_results(f, it)) return sums_results(f, it, next) ? next : NULL;
    if (!next || !is_product(f, it)) return NULL;
    const Group *gr = it->groups.at[0];
    const Node *left = frame_gemm_sums(f, gr);
    if (left && sums_rows(f, it, left, next)) return next;
    if (!may_be_follower(f, next, GROUP_MAP) || next->nkernels != 1) return NULL;
    bool reads = false;
    for (uint32_t i = 0; i < gr->outs.n; i++)
        for (uint32_t k = 0; k < next->uses.n; k++) reads |= next->uses.at[k] == gr->outs.at[i]->id;
    for (uint32_t i = 0; i < next->groups.at[0]->outs.n; i++) {
        const Node *n = next->groups.at[0]->outs.at[i];
        if (type_count(space_of(n)) != type_count(&gr->anchor->type)) return NULL;
    }
    return reads ? next : NULL;
}

// Whether what an item stores is read up to position [last].
static bool read_until(const Frame *f, const Item *it, uint32_t last)
{
    for (uint32_t at = 0; at <= last; at++)
        for (uint32_t i = 0; i < it->defs.n; i++)
            if (has(&f->items.at[f->order[at]].uses, it->defs.at[i])) return true;
    return false;
}

static void move(Frame *f, uint32_t from, uint32_t to)
{
    uint32_t *order = f->order, moved = order[from], step = from < to ? 1 : UINT32_MAX;
    for (; from != to; from += step) {
        order[from] = order[from + step];
        f->items.at[order[from]].position = from;
    }
    order[to] = moved;
    f->items.at[moved].position = to;
}

void frame_bring_sums(Frame *f)
{
    VEC(const Item *) columns = {0}; // items that may be such sums
    IdMap by = idmap_new(f->e->gen->arena);
    for (uint32_t i = 0; i < f->items.n; i++) {
        Item *it = &f->items.at[f->order[i]];
        it->position = i;
        for (uint32_t k = 0; k < it->defs.n; k++) idmap_set(&by, it->defs.at[k], f->order[i]);
        if (may_be_follower(f, it, GROUP_COLUMN)) vec_push(f->e->gen->arena, &columns, it);
    }
    for (uint32_t at = 0; at < f->items.n; at++) {
        const Item *it = &f->items.at[f->order[at]], *first = NULL;
        const bool results = adds_results(f, it);
        const Node *left = is_product(f, it) ? frame_gemm_sums(f, it->groups.at[0]) : NULL;
        if (!(left || results) || frame_follower(f, at)) continue;
        for (uint32_t k = 0; k < columns.n; k++) {
            const Item *sums = columns.at[k];
            const bool fits = results ? sums_results(f, it, sums) && known_by(f, &by, sums, at)
                                      : sums_rows(f, it, left, sums);
            if ((!first || sums->position < first->position) && fits &&
                (sums->position > at || !read_until(f, sums, at)))
                first = sums;
        }
        if (first) move(f, first->position, first->position < at ? at : at + 1);
    }
}
