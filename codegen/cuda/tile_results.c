// Results computed from the sums of a product, as CUDA C, by vectors of neighbours in a row.
#include "codegen/cuda/tile_print.h"

// By instruction: whether results need it besides the sum.
static const uint64_t *mark_results(const Emit *e)
{
    const Body *b = e->body;
    uint64_t *needed = NEW_ARRAY(e->arena, uint64_t, b->insts.n + 1);
    for (uint32_t i = 0; i < b->stores.n; i++) store_mark(&b->stores.at[i], true, needed);
    for (uint32_t i = b->insts.n; i-- > 0;)
        if (needed[i] && (int)i != b->dot.sum) inst_mark(b, (int)i, true, needed);
    return needed;
}

Vectors result_vectors(const Emit *e, int width)
{
    const Body *b = e->body;
    const uint64_t *needed = mark_results(e);
    Vectors v = find_vectors(e, 2, b->axis[2].extent % width == 0 ? width : 1);
    int kept = 0;
    for (int i = 0; i < v.nloads; i++) {
        const Inst *x = &b->insts.at[v.loads[i]];
        if (needed[v.loads[i]] && !inst_over(x, b->col) && b->bufs.at[x->buf].kind != KA_LOOP_INDEX)
            v.loads[kept++] = v.loads[i];
    }
    v.nloads = kept;
    return v;
}

const char *result_inside(Emit *e, const char *base, int64_t high)
{
    const Body *b = e->body;
    int64_t m = b->axis[1].extent, n = b->axis[2].extent;
    return emit_and(e, emit_below(e, e->axis[1], m, m % high == 0),
                    emit_below(e, base, n, n % b->sched.tile.n == 0));
}

static void add_to_sums(Emit *e, const char *added, const char *lane)
{
    for (uint32_t i = 0, n = 0; i < e->body->stores.n; i++) {
        const BodyStore *s = &e->body->stores.at[i];
        if (!s->fold) continue;
        const char *sum = emit_text(e, "%s[%u][%s]", added, n++, lane);
        const char *more = emit_taken(e, s->fold->op, e->body->bufs.at[s->buf].type, sum, s->value);
        emit(e, "%s = %s;", sum, more);
    }
}

void result_vector(Emit *e, Vectors *v, const ResultVector *r)
{
    const Body *b = e->body;
    const char *axis = e->axis[2];
    bool whole = b->axis[2].extent % r->width == 0;
    v->base = r->base;
    for (int i = r->early; i < v->nloads; i++) print_slot(e, v, v->loads[i]);
    if (whole) open_stores(e, v, -1);
    if (r->joined) emit(e, "%s", r->joined);
    emit_open(e, 0);
    const char *lane = emit_count("lane", r->width);
    emit_int(e, axis, "%s", emit_plus(e, r->base, lane));
    emit_open(e, 1ull << 2)->guard = !whole;
    for (int i = 0; i < v->nloads; i++)
        e->element[v->loads[i]] =
            emit_text(e, "%s%s.at[%s]", slot_name(e, v->loads[i]),
                      i < r->early ? emit_text(e, "[%s]", r->slot) : "", lane);
    emit_bind(e, b->dot.sum, e->scope, r->sum);
    lane_stores(e, v, -1);
    if (r->added) add_to_sums(e, r->added, lane);
    operand_close(e, whole, axis, b->axis[2].extent);
    emit_times(e, "lane", r->width);
    if (!whole) return;
    if (r->store)
        r->store(e, v);
    else
        flush_stores(e, v, -1);
}
