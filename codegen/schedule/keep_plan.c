// Which values a stage keeps for later ones on the CPU: costly values of each element, such as
// softmax's exponentials. They are kept on the task's stack or, if that is too small or would make
// tasks narrow, where a result of the same element is stored later.
#include "codegen/schedule/plans.h"

enum {
    KEPT_ROW = 64 << 10,      // most bytes of a task's stack, for a row
    KEPT_COLUMNS = 128 << 10, // ... for the columns of a task: half of a small L2 cache
};

static int bytes_on_stack(const Body *b)
{
    int bytes = 0;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].keep && !b->insts.at[i].kept_at)
            bytes += dtype_info[b->insts.at[i].type].bits / 8;
    return bytes;
}

// Marks the costly values over the columns that more than one stage needs; returns their bytes per
// element. [together]: a task processes rows together, so values that all rows share cost little.
static int keep_costly(Arena *a, Body *b, bool together)
{
    uint64_t *stages = body_stage_uses(a, b);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        b->insts.at[i].keep = false;
        b->insts.at[i].kept_at = 0;
    }
    for (uint32_t i = 0; i < b->insts.n; i++) {
        Inst *v = &b->insts.at[i];
        if (v->kind != KI_EW || !(op_info(v->op)->flags & OPF_COSTLY) || !(v->axes >> b->col & 1) ||
            (v->type != DT_F32 && v->type != DT_F64) || !(stages[i] & (stages[i] - 1)) ||
            (together && !(v->axes & 1)))
            continue;
        v->keep = true;
        v->first_use = __builtin_ctzll(stages[i]);
    }
    return bytes_on_stack(b);
}

// Whether the value can be kept in a store's buffer: each of its elements has an element of its own
// there, of the same type, and nothing else uses it until the last use of the value.
static bool is_free(const Body *b, uint32_t store, const Inst *v, int last_use)
{
    const BodyStore *s = &b->stores.at[store];
    if (s->buf < 0 || s->joins || s->guard || s->fold || s->ix->has_value || s->stage < last_use)
        return false;
    const BodyBuf *to = &b->bufs.at[s->buf];
    if (to->kind != KA_NODE || to->read || to->in_place || to->type != v->type) return false;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (i != store && b->stores.at[i].buf == s->buf) return false;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].kept_at == (int)store + 1) return false;
    for (int i = 0; i < b->naxes; i++)
        if (b->axis[i].extent > 1 && v->axes >> i & 1 && !(s->ix->axes >> i & 1)) return false;
    return true;
}

// If the only use of the value is a cast to 16 bits, as the results have: that cast; otherwise the
// value itself.
static uint32_t narrowed(const Body *b, uint32_t value)
{
    uint32_t cast = value, users = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        for (int k = 0; k < v->na; k++) users += v->a[k] == (int)value;
        if (v->kind == KI_CAST && v->a[0] == (int)value) cast = i;
    }
    for (uint32_t i = 0; i < b->stores.n; i++) users += b->stores.at[i].value == (int)value;
    const DType t = b->insts.at[cast].type;
    return users == 1 && b->insts.at[value].type == DT_F32 && (t == DT_BF16 || t == DT_F16) ? cast
                                                                                            : value;
}

static void keep_in_results(Arena *a, Body *b)
{
    uint64_t *stages = body_stage_uses(a, b);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        if (!b->insts.at[i].keep || b->insts.at[i].kept_at) continue;
        const uint32_t kept = narrowed(b, i);
        Inst *in = &b->insts.at[kept];
        uint32_t s = 0;
        while (s < b->stores.n && !is_free(b, s, in, 63 - __builtin_clzll(stages[kept]))) s++;
        if (s == b->stores.n) continue;
        b->insts.at[i].keep = false;
        in->keep = true;
        in->first_use = __builtin_ctzll(stages[kept]);
        in->kept_at = (int)s + 1;
    }
}

void keep_row(Arena *a, Body *b)
{
    const int64_t cols = b->axis[b->col].extent, beside = rows_beside(a, b);
    int64_t bytes = b->nstages > 1 ? keep_costly(a, b, beside > 0) * cols : 0;
    b->sched.task = beside;
    if (bytes > KEPT_ROW && !beside) {
        keep_in_results(a, b);
        bytes = bytes_on_stack(b) * cols;
    }
    if (beside) bytes *= beside;
    if (bytes > 0 && bytes <= KEPT_ROW) b->sched.shared_bytes = (int)bytes;
}

bool columns_fit(const Body *b, int64_t rows)
{
    return !b->sched.shared_bytes ||
           rows * bytes_on_stack(b) * b->axis[b->col].extent <= KEPT_COLUMNS;
}

// Kept values should stay in the L2 cache, so such tasks have few rows.
void keep_columns(Arena *a, Body *b)
{
    enum { LEAST = 16, MOST = 512 };
    if (b->nstages < 2 || b->serial_cols || !keep_costly(a, b, true)) return;
    keep_in_results(a, b);
    const int64_t column = bytes_on_stack(b) * b->axis[b->col].extent;
    int64_t rows = MOST;
    while (rows > LEAST && rows * column > KEPT_COLUMNS) rows /= 2;
    if (!column || rows * column > KEPT_COLUMNS) return;
    b->sched.task = at_most(b->sched.task, rows);
    b->sched.shared_bytes = (int)(b->sched.task * column);
}
