// Running reductions along the columns by a team of threads, as CUDA C, one tile of the row at a
// time. Each thread has some adjacent columns of the tile; what it makes of these is scanned across
// the team (nc_scan) and combined with the tiles before.
#include "codegen/cuda/print_cuda.h"

void scan_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int at = body_scan(b);
    const Inst *v = &b->insts.at[at];
    long long cols = extent_of(b, b->col);
    const char *t = int_type(e), *col = e->axis[b->col], *x = e->name[at],
               *type = type_math(v->acc);
    print_row_number(e, block_number(e));
    open_row(e);
    const char *none = emit_identity(e, v->op, v->acc);
    emit(e, "%s %s_acc = %s; // of the tiles before", type, x, none);
    Steps own = {.index = "u", .count = s->unroll, .axes = 1ull << b->col};
    own.place = emit_text(e, "const %s %s = %s_first%s;", t, col, col, own.count > 1 ? " + u" : "");
    own.guard = emit_text(e, "%s%s < %lld", all_have_rows(b) ? "" : "mine && ", col, cols);
    emit_open(e, 0);
    emit(e, "const %s %s_first = %s_tile + member * %d;", t, col, col, s->unroll);
    emit(e, "%s %s_at[%d], %s_own = %s, %s_all;", type, x, s->unroll, x, none, x);
    open_steps(e, &own);
    const char *value = emit_value(e, v->a[0]), *slot = steps_slot(e, &own);
    const char *own_all = emit_text(e, "%s_own", x), *acc = emit_text(e, "%s_acc", x),
               *run = emit_text(e, "%s_run", x), *at_slot = emit_text(e, "%s_at%s", x, slot);
    emit(e, "%s = %s;", at_slot, value);
    emit(e, "%s = %s;", own_all, emit_combine(e, v->op, v->acc, own_all, at_slot));
    close_steps(e, &own);
    const char *before = emit_text(e, "nc_scan<%s, %d>(%s, %s, %s_all)", inst_acc(v)->functor,
                                   s->team, own_all, none, x);
    emit(e, "%s %s = %s;", type, run, emit_combine(e, v->op, v->acc, acc, before));
    emit(e, "%s = %s;", acc, emit_combine(e, v->op, v->acc, acc, emit_text(e, "%s_all", x)));
    open_steps(e, &own);
    if (v->exclusive) emit(e, "const %s %s = %s_run;", type, x, x);
    emit(e, "%s = %s;", run, emit_combine(e, v->op, v->acc, run, at_slot));
    if (!v->exclusive) emit(e, "const %s %s = %s_run;", type, x, x);
    emit_bind(e, at, e->scope, x);
    emit_stores(e, 0);
    close_steps(e, &own);
    emit_loop(e, t, emit_text(e, "%s_tile", col), "0", emit_number(e, cols), s->team * s->unroll);
    emit_close(e, NULL, NULL);
}
