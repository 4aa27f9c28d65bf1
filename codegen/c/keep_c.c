// Values that one stage keeps for later ones on the CPU: costly values of each element, on the
// stack or where a result is stored later, and values of rows that columns need.
#include "codegen/c/print_c.h"

static bool is_kept(const Emit *e, uint32_t i)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[i];
    return e->live[i] && v->keep && (v->kept_at || b->sched.shared_bytes);
}

void c_declare_kept(Emit *e, int64_t elements)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (is_kept(e, i) && !b->insts.at[i].kept_at)
            emit(e, "%s %s_kept[%lld] NC_LINES;", type_storage(b->insts.at[i].type), e->name[i],
                 (long long)elements);
}

// The memory in which the value for the current element is kept.
static const char *kept(Emit *e, uint32_t i, const char *at)
{
    const Body *b = e->body;
    if (!b->insts.at[i].kept_at) return emit_text(e, "%s_kept[%s]", e->name[i], at);
    const BodyStore *s = &b->stores.at[b->insts.at[i].kept_at - 1];
    return emit_text(e, "%s[%s]", e->buf_name[s->buf], emit_index(e, s->ix));
}

void c_recall(Emit *e, int stage, const char *at)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (is_kept(e, i) && b->insts.at[i].first_use < stage) e->element[i] = kept(e, i, at);
}

void c_remember(Emit *e, int stage, const char *at)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (!is_kept(e, i) || v->first_use != stage) continue;
        const char *value = emit_value(e, v->kind == KI_CAST ? v->a[0] : (int)i);
        emit(e, "%s = %s;", kept(e, i, at), emit_stored(e, v->type, value));
    }
}

// The first stage whose columns need a value of the row that costs more than a load; -1: none.
static int first_need(const Emit *e, const uint64_t *stages, uint32_t i)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[i];
    const bool computed = v->kind == KI_EW || v->kind == KI_CAST ||
                          (v->kind == KI_LOAD && (v->pred >= 0 || v->ix->has_value));
    if (!e->live[i] || !computed || !stages[i] || !(v->axes & 1) || v->axes >> b->col & 1)
        return -1;
    return __builtin_ctzll(stages[i]);
}

// (Bools are kept as int: bytes that select among floats keep gcc from using vectors.)
bool c_declare_rows(Emit *e, int stage)
{
    const Body *b = e->body;
    const uint64_t *stages = body_stage_uses(e->arena, b);
    bool any = false;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        if (first_need(e, stages, i) != stage) continue;
        const DType type = b->insts.at[i].type;
        emit(e, "%s %s_rows[%lld] NC_LINES;", type == DT_BOOL ? "int" : type_math(type), e->name[i],
             (long long)b->sched.task);
        any = true;
    }
    return any;
}

void c_remember_rows(Emit *e, int stage)
{
    const Body *b = e->body;
    const uint64_t *stages = body_stage_uses(e->arena, b);
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (first_need(e, stages, i) == stage)
            emit(e, "%s_rows[%s - first] = %s;", e->name[i], e->axis[0], emit_value(e, (int)i));
}

void c_recall_rows(Emit *e, int stage)
{
    const Body *b = e->body;
    const uint64_t *stages = body_stage_uses(e->arena, b);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const int first = first_need(e, stages, i);
        if (first >= 0 && first < stage)
            emit_bind(e, (int)i, e->scope,
                      emit_text(e, "%s_rows[%s - first]", e->name[i], e->axis[0]));
    }
}
