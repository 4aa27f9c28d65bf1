// Which kernels test the error record. A kernel that stores new values in cells does nothing after
// a check has failed, so that a failed step changes no cell. What else it would store stays
// undefined then, and an index among it, known to be in range, could be anything. So a kernel that
// stores what others read does not test the record: it stores its values elsewhere, and they are
// copied to their cells at the end, which tests it.
//
// All values that may be stored in cells are lowered as if they were, since the order of launches
// depends on the kernels (frame.c). Kernels for which this turns out to be wrong are lowered again.
#include "codegen/program/gen.h"

static void find_readers(Frame *f)
{
    f->reader = NEW_ARRAY(f->e->gen->arena, uint32_t, f->g->nodes.n + 1);
    for (uint32_t i = 0; i < f->items.n; i++) {
        const Item *it = &f->items.at[i];
        f->checks |= it->checks;
        for (uint32_t k = 0; k < it->uses.n; k++) {
            uint32_t *r = &f->reader[it->uses.at[k]];
            *r = *r && *r != i + 1 ? UINT32_MAX : i + 1;
        }
    }
}

static Sink *cell_sink(Frame *f, const Item *it, const Node *stored)
{
    for (uint32_t k = 0; k < it->sinks.n; k++) {
        Sink *s = &f->sinks.at[it->sinks.at[k]];
        if (s->cell && s->stored == stored) return s;
    }
    return NULL;
}

// Whether other items read what the group would leave undefined. A value stored in its cell is not:
// readers find the old value. But an index may be known to be in range only if it is the new one.
static bool leaves_undefined(Frame *f, const Item *it, const Group *gr)
{
    const uint32_t own = (uint32_t)(it - f->items.at) + 1;
    for (uint32_t k = 0; k < gr->outs.n; k++) {
        const Node *n = gr->outs.at[k];
        if (gr->parts && gr->parts[k].whole) n = gr->parts[k].whole;
        const Sink *s = cell_sink(f, it, n);
        const uint32_t reader = f->reader[n->id];
        if (reader && reader != own && !(s && s->in_place && dtype_is_float(n->type.dtype)))
            return true;
    }
    return false;
}

static bool stores_part(const Item *it, const Node *stored)
{
    for (int i = 0; i < it->nkernels; i++)
        for (int k = 0; k < it->kernels[i].nargs; k++) {
            const KernelArg *a = &it->kernels[i].args[k];
            if (a->updates && a->node == stored) return true;
        }
    return false;
}

bool frame_ungate(Frame *f, const Item *it)
{
    bool changed = false;
    if (!it->sinks.n) return false;
    if (!f->reader) find_readers(f);
    for (uint32_t i = 0; i < it->groups.n; i++) {
        const Group *gr = it->groups.at[i];
        const bool undefined = f->checks && leaves_undefined(f, it, gr);
        for (uint32_t k = 0; k < gr->outs.n; k++) {
            const Node *n = gr->outs.at[k];
            Sink *s = cell_sink(f, it, n);
            if (!s || !f->commits[n->id] || !(undefined || (!s->in_place && stores_part(it, n))))
                continue;
            if (s->in_place) frame_copies(f, s);
            f->commits[n->id] = COMMIT_NONE;
            changed = true;
        }
    }
    return changed;
}
