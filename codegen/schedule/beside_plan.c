// Short rows on the CPU: vectors run across rows, whose elements are transposed when they are
// loaded and stored.
#include "codegen/schedule/plans.h"

enum {
    // Rows of up to this many columns are short. Longer rows fill vectors themselves, but the lanes
    // of these must be combined, which costs more for a maximum and most for its index.
    SHORT = 24,
    SHORT_LARGEST = 64, // ... with a maximum or minimum of the row
    SHORT_PLACE = 127,  // ... or with its index: longer rows have another form (row_c.c)
    LEAST_ROWS = 16,
    MOST_BESIDE = 64,
    FIRST_CACHE = 24 << 10, // bytes of the L1 cache for a task's arrays
    STACK = 64 << 10,
};

int64_t beside_pitch(const Body *b, const Ix *place)
{
    int64_t along, pitch;
    if (!place || !ix_stride(place, b->col, &along) || along != 1) return 0;
    return ix_stride(place, 0, &pitch) && pitch > 1 ? pitch : 0;
}

// Whether an access can use vectors across rows. plain: it is unconditional, so it may transpose.
static bool goes_across(const Body *b, const Ix *place, bool plain)
{
    const uint64_t both = 1ull | 1ull << b->col;
    int64_t step;
    if (!place || (place->axes & both) != both) return true;
    return (plain && beside_pitch(b, place)) ||
           (ix_stride(place, 0, &step) && step <= 1 && step >= 0);
}

static bool inst_across(const Body *b, const Inst *v)
{
    switch (v->kind) {
    case KI_LOAD: return goes_across(b, v->ix, v->pred < 0);
    case KI_REDUCE: return v->axis == b->col;
    case KI_CHECK:
    case KI_ASSERT:
    case KI_SCAN:
    case KI_BIN:
    case KI_SORT: return false;
    default: return true;
    }
}

// Bytes of a task's stack for each row.
static int64_t row_bytes(const Body *b)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_LOAD && beside_pitch(b, v->ix)) bytes += math_bytes(v->type);
        if (v->keep) bytes += math_bytes(v->type);
    }
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (s->buf >= 0 && beside_pitch(b, s->ix)) bytes += math_bytes(b->bufs.at[s->buf].type);
    }
    return bytes * b->axis[b->col].extent;
}

bool beside_fits(const Body *b, int64_t rows)
{
    return rows == LEAST_ROWS || rows * row_bytes(b) <= STACK;
}

static int64_t short_row(const Body *b)
{
    if (reduces_with(b, ACC_PLACE)) return SHORT_PLACE;
    return reduces_with(b, ACC_MAX) || reduces_with(b, ACC_MIN) ? SHORT_LARGEST : SHORT;
}

int64_t rows_beside(Arena *a, const Body *b)
{
    if (b->serial_cols || b->npar != 1 || b->axis[b->col].extent > short_row(b) ||
        b->axis[0].extent < LEAST_ROWS)
        return 0;
    const bool *live = body_live(a, b);
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (live[i] && !inst_across(b, &b->insts.at[i])) return 0;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (s->buf < 0 || s->joins || !goes_across(b, s->ix, !s->guard)) return 0;
    }
    int64_t rows = MOST_BESIDE;
    while (rows > LEAST_ROWS && rows * row_bytes(b) > FIRST_CACHE) rows /= 2;
    return rows;
}
