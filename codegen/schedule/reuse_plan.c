// Whether a map loops over its outer positions: only if the values along the innermost axis that
// are the same at all of them outweigh the rest of its traffic, and a thread has the registers to
// keep them.
#include "codegen/schedule/plans.h"

enum {
    BLOCK = 256,
    KEPT_REGISTERS = 96, // the most
    GOOD_REGISTERS = 64, // vectors are narrower if they need more
    FLIGHT_REGISTERS = 32
};

// Bytes per element: of vector loads that vary over the innermost axis only, and of all others.
static void count_bytes(const Body *b, int *kept, int *streamed)
{
    int inner = b->npar - 1;
    uint64_t outer = (1ull << inner) - 1;
    int64_t stride;
    *kept = *streamed = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_LOAD || !(v->axes >> inner & 1) || inst_nested(b, v)) continue;
        int bytes = element_bytes(b, v->buf);
        bool vector = v->pred < 0 && !v->ix->has_value && ix_stride(v->ix, inner, &stride) &&
                      stride == 1 && ix_aligned(v->ix, inner, b->sched.vector);
        if (v->axes & outer)
            *streamed += bytes;
        else if (vector)
            *kept += bytes;
    }
}

bool reuse_possible(const Body *b)
{
    return b->npar > 1 && !b->sched.map.transpose && b->sched.vector > 1;
}

static int walk_across(const Body *b)
{
    int64_t vectors = b->axis[b->npar - 1].extent / b->sched.vector;
    return (int)ceil_div(vectors, ceil_div(vectors, BLOCK));
}

int64_t reuse_tiles(const Body *b)
{
    return ceil_div(b->axis[b->npar - 1].extent / b->sched.vector, walk_across(b));
}

void reuse_derive(Body *b)
{
    Schedule *s = &b->sched;
    int64_t positions = 1;
    for (int i = 0; i < b->npar - 1; i++) positions *= b->axis[i].extent;
    s->team = BLOCK / walk_across(b);
    s->threads = walk_across(b) * s->team;
    s->blocks = reuse_tiles(b) * ceil_div(positions, (int64_t)s->unroll * s->team);
}

void plan_reuse(const Target *t, Body *b)
{
    Schedule *s = &b->sched;
    int kept, streamed;
    count_bytes(b, &kept, &streamed);
    int64_t device = (int64_t)t->units * t->threads_per_unit;
    if (!reuse_possible(b) || kept <= streamed || body_rows(b) / s->vector < device) return;
    int vector = s->vector;
    while (vector > 2 && vector * kept > 4 * GOOD_REGISTERS) vector /= 2;
    if (vector * kept > 4 * KEPT_REGISTERS) return;
    s->vector = vector;
    s->map.reuse = 1;
    for (s->unroll = 8; s->unroll > 2; s->unroll /= 2)
        if (s->unroll * s->vector * streamed <= 4 * FLIGHT_REGISTERS) break;
}
