// Properties of a body that do not depend on a schedule.
#include "codegen/ir/body.h"

DType math_type(DType t)
{
    return t == DT_U8 ? DT_I32 : t == DT_BF16 || t == DT_F16 ? DT_F32 : t;
}

int math_bytes(DType t)
{
    return dtype_info[math_type(t)].bits / 8;
}

int64_t body_rows(const Body *b)
{
    int64_t n = 1;
    for (int i = 0; i < b->npar; i++) n *= b->axis[i].extent;
    return n;
}

bool store_over(const Body *b, const BodyStore *s, int axis)
{
    uint64_t axes = b->insts.at[s->value].axes | (s->ix ? s->ix->axes : 0);
    return axis >= 0 && ((s->joins && axis == b->col) || (axes >> axis & 1));
}

bool body_stores_columns(const Body *b, int buf)
{
    for (uint32_t i = 0; i < b->stores.n; i++)
        if ((buf < 0 || b->stores.at[i].buf == buf) && store_over(b, &b->stores.at[i], b->col))
            return true;
    return false;
}

bool body_stores_rows(const Body *b)
{
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (!store_over(b, &b->stores.at[i], b->col)) return true;
    return false;
}

// Work list of body_live; each instruction enters it once.
typedef struct Live {
    bool *seen;
    int *work, n;
} Live;

static void need(Live *l, int at)
{
    if (at < 0 || l->seen[at]) return;
    l->seen[at] = true;
    l->work[l->n++] = at;
}

static void need_place(Live *l, const Ix *x)
{
    for (int i = 0; x && x->has_value && i < x->n; i++) {
        const IxTerm *t = x->at[i].term;
        if (t->kind == IT_VALUE)
            need(l, t->id);
        else if (t->e)
            need_place(l, t->e);
    }
}

void ix_mark(const Ix *x, uint64_t bits, uint64_t *marks)
{
    for (int i = 0; x && x->has_value && i < x->n; i++) {
        const IxTerm *t = x->at[i].term;
        if (t->kind == IT_VALUE)
            marks[t->id] |= bits;
        else
            ix_mark(t->e, bits, marks);
    }
}

void inst_mark(const Body *b, int inst, uint64_t bits, uint64_t *marks)
{
    const Inst *v = &b->insts.at[inst];
    for (int i = 0; i < v->na; i++) marks[v->a[i]] |= bits;
    if ((v->kind == KI_LOAD || v->kind == KI_CHECK) && v->pred >= 0) marks[v->pred] |= bits;
    ix_mark(v->ix, bits, marks);
}

void store_mark(const BodyStore *s, uint64_t bits, uint64_t *marks)
{
    marks[s->value] |= bits;
    if (s->guard) marks[s->guard - 1] |= bits;
    ix_mark(s->ix, bits, marks);
}

const Inst *inst_uncast(const Body *b, int inst)
{
    while (b->insts.at[inst].kind == KI_CAST) inst = b->insts.at[inst].a[0];
    return &b->insts.at[inst];
}

bool body_skips(const Body *b)
{
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].skips) return true;
    return false;
}

bool inst_streams(const Body *b, const Inst *v)
{
    int64_t step;
    bool aligned;
    uint64_t rows = (1ull << b->npar) - 1;
    if (v->kind != KI_LOAD || !(v->axes >> b->col & 1) || !(v->axes & rows)) return false;
    if (v->pred >= 0 && !v->skips) return false;
    return !(ix_run(v->ix, 0, 2, &step, &aligned) && !step) || v->axes & rows & ~1ull;
}

const bool *body_live(Arena *a, const Body *b)
{
    return body_live_without(a, b, -1);
}

// Whether a store of 8-bit or 16-bit numbers copies a load unchanged.
static bool moves(const Body *b, const BodyStore *s)
{
    const Inst *v = &b->insts.at[s->value];
    return v->kind == KI_LOAD && v->pred < 0 && s->buf >= 0 && !s->joins && !s->fold &&
           (v->type == DT_U8 || v->type == DT_BF16 || v->type == DT_F16) &&
           b->bufs.at[v->buf].type == v->type && b->bufs.at[s->buf].type == v->type;
}

static bool *live_without(Arena *a, const Body *b, int choice, bool moved)
{
    Live l = {.seen = NEW_ARRAY(a, bool, b->insts.n + 1),
              .work = NEW_ARRAY(a, int, b->insts.n + 1)};
    for (uint32_t i = 0; i < b->stores.n; i++) {
        if (!moved || !moves(b, &b->stores.at[i])) need(&l, b->stores.at[i].value);
        need(&l, b->stores.at[i].guard - 1);
        need_place(&l, b->stores.at[i].ix);
    }
    while (l.n) {
        int at = l.work[--l.n];
        const Inst *v = &b->insts.at[at];
        for (int i = 0; i < v->na; i++)
            if (at != choice || i != 1) need(&l, v->a[i]);
        if (v->kind == KI_LOAD || v->kind == KI_CHECK) need(&l, v->pred);
        need_place(&l, v->ix);
    }
    return l.seen;
}

const bool *body_live_without(Arena *a, const Body *b, int choice)
{
    return live_without(a, b, choice, false);
}

const bool *body_moved(Arena *a, const Body *b)
{
    bool *moved = NEW_ARRAY(a, bool, b->insts.n + 1), *computed = live_without(a, b, -1, true);
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        moved[s->value] = moves(b, s) && !computed[s->value];
    }
    return moved;
}

bool body_access(const Body *b, uint32_t i, int axis, Access *out)
{
    int64_t stride;
    int buf;
    if (i < b->insts.n) {
        const Inst *v = &b->insts.at[i];
        *out = (Access){.at = v->ix};
        buf = v->kind == KI_LOAD ? v->buf : -1;
    } else {
        const BodyStore *s = &b->stores.at[i - b->insts.n];
        *out = (Access){.at = s->ix, .stores = true, .folds = s->fold};
        buf = s->buf;
    }
    if (buf < 0 || !ix_stride(out->at, axis, &stride) || stride != 1) return false;
    out->buf = buf;
    out->bytes = element_bytes(b, buf);
    return true;
}

// The smallest divisor of the axis in quotients and remainders, which divides all others; 0: there
// is none; -1: they do not divide each other.
static int64_t period_of(const Ix *x, int axis, int64_t period)
{
    for (int i = 0; x && i < x->n && period >= 0; i++) {
        const IxTerm *t = x->at[i].term;
        if (t->kind != IT_DIV && t->kind != IT_MOD) continue;
        int64_t by = t->by;
        const Ix *of = t->e;
        if (of->n == 1 && of->constant == 0 && of->at[0].coeff == 1 &&
            of->at[0].term->kind == IT_AXIS && of->at[0].term->id == axis)
            period = !period || period % by == 0 ? by : by % period == 0 ? period : -1;
        else
            period = period_of(of, axis, period);
    }
    return period;
}

int64_t body_period(const Body *b, const bool *live, int axis)
{
    int64_t period = 0;
    for (uint32_t i = 0; i < b->insts.n && period >= 0; i++)
        if (live[i]) period = period_of(b->insts.at[i].ix, axis, period);
    for (uint32_t i = 0; i < b->stores.n && period >= 0; i++)
        period = period_of(b->stores.at[i].ix, axis, period);
    return period;
}

bool body_begins(const Body *b)
{
    bool all = true;
    for (uint32_t i = 0; i < b->bufs.n; i++)
        all &= buf_begins(b, (int)i, 16 * 8 / dtype_info[b->bufs.at[i].type].bits);
    return all;
}

bool body_folds(const Body *b)
{
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].fold) return true;
    return false;
}

bool body_folds_left(const Body *b)
{
    return body_folds(b) && !body_folds_results(b);
}

bool body_folds_results(const Body *b)
{
    for (uint32_t i = 0; i < b->stores.n && b->dot.sum >= 0; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (s->fold && s->ix && s->ix->axes >> 2 & 1) return true;
    }
    return false;
}

int body_sort(const Body *b)
{
    for (uint32_t i = 0; i < b->insts.n && b->serial_cols; i++)
        if (b->insts.at[i].kind == KI_SORT) return (int)i;
    return -1;
}

int64_t body_first(const Body *b)
{
    const int at = body_sort(b);
    return at < 0 ? 0 : b->insts.at[at].ivalue;
}

bool body_recurs(const Body *b)
{
    for (uint32_t i = 0; i < b->stores.n && b->serial_cols; i++)
        if (b->stores.at[i].carries) return true;
    return false;
}

int body_scan(const Body *b)
{
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].kind == KI_SCAN) return (int)i;
    return -1;
}

// The type of a 16-bit float that the body widens before multiplying; DT_BOOL: another value.
DType narrow_type(const Body *b, int inst)
{
    const Inst *v = &b->insts.at[inst];
    if (v->kind != KI_CAST || (v->from != DT_BF16 && v->from != DT_F16)) return DT_BOOL;
    return v->from;
}

bool mma_fits(const Body *b)
{
    DType a = narrow_type(b, b->dot.a);
    return a != DT_BOOL && a == narrow_type(b, b->dot.b) && b->insts.at[b->dot.sum].acc == DT_F32;
}

bool inst_steady(const Body *b, int inst, int axis, int width)
{
    const Inst *v = &b->insts.at[inst];
    int64_t step;
    bool aligned, steady = true;
    if (!(v->axes >> axis & 1)) return true;
    if (v->kind == KI_INDEX) return ix_run(v->ix, axis, width, &step, &aligned) && !step;
    if (v->kind != KI_EW && v->kind != KI_CAST) return false;
    for (int i = 0; i < v->na; i++) steady = steady && inst_steady(b, v->a[i], axis, width);
    return steady;
}

bool inst_placed(const Body *b, int inst)
{
    const Inst *v = &b->insts.at[inst];
    if (v->kind == KI_INDEX) return !v->ix->has_value;
    bool placed = v->kind == KI_CONST || v->kind == KI_EW || v->kind == KI_CAST;
    for (int i = 0; i < v->na; i++) placed = placed && inst_placed(b, v->a[i]);
    return placed;
}

const Inst *inst_first(const Body *b, int inst)
{
    const Inst *v = &b->insts.at[inst];
    while (v->kind == KI_CAST || (v->kind == KI_EW && v->na > 0)) v = &b->insts.at[v->a[0]];
    return v;
}

bool operand_along_k(const Body *b, int inst, int width)
{
    int64_t step;
    bool aligned;
    const Inst *v = inst_first(b, inst);
    return v->kind != KI_LOAD || (ix_run(v->ix, b->col, width, &step, &aligned) && step == 1);
}
