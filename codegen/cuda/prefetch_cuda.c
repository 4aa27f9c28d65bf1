// What a kernel may load before the preceding kernel has ended.
//
// A kernel that is launched early (nc_follow) may read at once whatever no running kernel writes.
// If it reads a result of the same execution, all kernels before the one that computed this result
// have ended, because that one waited for them before it let others start. Among them are all
// kernels that wrote cells, inputs and the row table for this execution; and a kernel that writes a
// cell comes after all that read it. So the leaves of the graph are available, and what depends
// only on them: the weights that a product reads, the labels of the batch's rows, a learning rate.
//
// In a loop, such a result is one of the same iteration. The values that an iteration starts with
// were computed before it, and so by a kernel that has ended, too: carried values by the previous
// iteration, scanned and captured ones before the loop. The latter are available to every kernel of
// a loop that carries a value: its initial value is copied or cleared after all kernels before the
// loop, and nothing starts early after a step that is not a kernel.
#include "codegen/cuda/print_cuda.h"

static bool is_leaf(const BodyBuf *u)
{
    if (u->kind == KA_ROWS || u->kind == KA_CURSOR) return true;
    return u->kind == KA_NODE && !u->written && node_in_memory(u->node);
}

static bool reads_results(const Kernel *k)
{
    for (int i = 0; i < k->nbodies; i++)
        for (uint32_t j = 0; j < k->body[i]->bufs.n; j++) {
            const BodyBuf *u = &k->body[i]->bufs.at[j];
            if (u->kind == KA_NODE && u->read && !node_in_memory(u->node)) return true;
        }
    return false;
}

static bool known_place(const bool *known, const Ix *x)
{
    for (int i = 0; x && x->has_value && i < x->n; i++) {
        const IxTerm *t = x->at[i].term;
        if (t->kind == IT_VALUE ? !known[t->id] : !known_place(known, t->e)) return false;
    }
    return true;
}

// For a kernel that reads no result: whether the buffer is a loop's parameter that is captured or
// scanned, not carried from iteration to iteration.
static bool there_before(const Kernel *k, const BodyBuf *u)
{
    return k->ctx->initial && u->kind == KA_NODE && u->node->op == OP_region_param &&
           !carried_between(k->ctx, u);
}

const bool *known_early(const Kernel *k, const Body *b)
{
    bool *known = NEW_ARRAY(k->arena, bool, b->insts.n + 1), results = reads_results(k);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        const BodyBuf *from = v->kind == KI_LOAD ? &b->bufs.at[v->buf] : NULL;
        bool plain = v->kind == KI_CONST || v->kind == KI_INDEX || v->kind == KI_EW ||
                     v->kind == KI_CAST ||
                     (from && is_leaf(from) && (results || there_before(k, from)));
        for (int j = 0; j < v->na; j++) plain &= known[v->a[j]];
        if (v->kind == KI_LOAD && v->pred >= 0) plain &= known[v->pred];
        known[i] = plain && known_place(known, v->ix);
    }
    return known;
}

bool prefetches(const Kernel *k, const Body *b)
{
    const ScheduleVariant runs = b->sched.variant;
    bool fits = runs == RUN_WARP_TILES || runs == RUN_MAP ||
                (runs == RUN_ROWS && k->phase != PHASE_COMBINE);
    if (!fits) return false;
    const bool *known = known_early(k, b);
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (known[i] && b->insts.at[i].kind == KI_LOAD) return true;
    return false;
}

void emit_prefetch(Emit *e, uint64_t axes)
{
    const Body *b = e->body;
    const bool *known = known_early(e->kernel, b);
    for (uint32_t i = 0; i < b->insts.n && e->follow; i++) {
        const Inst *v = &b->insts.at[i];
        bool loads = v->kind == KI_LOAD && !b->bufs.at[v->buf].in_place;
        if (e->live[i] && known[i] && loads && !(v->axes & ~axes)) emit_value(e, (int)i);
    }
}

void emit_follow(Emit *e)
{
    if (e->follow) emit(e, "%s", e->follow);
    if (e->check) emit(e, "%s", e->check);
    if (e->follow) e->floor = e->scope;
    e->follow = e->check = NULL;
}
