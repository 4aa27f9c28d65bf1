// A recurrence as CUDA C (codegen/lower/lower_recurrence.c): a thread per row keeps the carried
// values in registers. Several iterations are unrolled, so that what they read, which does not
// depend on carried values, is in flight at the same time.
#include "codegen/cuda/print_cuda.h"

// Declares the carried values before the first iteration.
static void print_first(Emit *e)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_CARRIED || !e->live[i]) continue;
        emit(e, "%s %s = %s;", type_math(v->type), e->name[i], emit_value(e, v->a[0]));
        emit_bind(e, (int)i, e->scope, e->name[i]);
    }
}

// All next values are known before one of them replaces the current one.
static void print_next(Emit *e)
{
    const Body *b = e->body;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < b->stores.n; i++) {
            const BodyStore *s = &b->stores.at[i];
            if (!s->carries || !e->live[s->carries - 1]) continue; // (nothing reads it)
            const char *name = e->name[s->carries - 1];
            if (!pass)
                emit(e, "const %s %s_next = %s;", type_math(b->insts.at[s->carries - 1].type), name,
                     emit_value(e, s->value));
            else
                emit(e, "%s = %s_next;", name, name);
        }
}

void recurrence_cuda(Emit *e)
{
    const Body *b = e->body;
    const Vectors none = {.width = 1};
    const char *leader = print_row_number(e, block_number(e)), *c = e->axis[b->col];
    open_row(e);
    print_first(e);
    emit_open(e, 1ull << b->col);
    lane_stores(e, &none, 0);
    print_next(e);
    if (b->sched.unroll > 1) emit_line(e, e->scope->up, "#pragma unroll %d", b->sched.unroll);
    emit_loop(e, int_type(e), c, "0", emit_number(e, extent_of(b, b->col)), 1);
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].kind == KI_LAST && e->live[i])
            emit_bind(e, (int)i, e->scope, e->name[b->insts.at[i].a[0]]);
    print_row_stores(e, leader);
    emit_close(e, NULL, NULL);
}
