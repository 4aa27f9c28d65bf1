// Running sums along the columns by a team of threads: a tile of the row at a time, each thread
// some columns beside each other, added up across the team (nc_scan) and to what came before.
#include "codegen/cuda/print_cuda.h"

// In the innermost scope, over this thread's columns of a tile: begins the loop, and ends it.
static void open_columns(Emit *e)
{
    const char *col = e->axis[e->body->col];
    emit_open(e, 0);
    emit_line(e, e->scope, "const %s %s = %s_first + u;", int_type(e), col, col);
    emit_open(e, 1ull << e->body->col);
}

static void close_columns(Emit *e, Scope *tile, const char *hi)
{
    emit_close(e, emit_text(e, "if (%s < %s) {", e->axis[e->body->col], hi), "}");
    emit_line(e, tile, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int u = 0; u < %d; u++) {", e->body->sched.unroll), "}");
}

void scan_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int at = body_scan(b), per_block = s->threads / s->team;
    const Inst *v = &b->insts.at[at];
    long long rows = body_rows(b), cols = b->axis[b->col].extent;
    const char *t = int_type(e), *col = e->axis[b->col], *x = e->name[at],
               *type = type_math(v->acc), *hi = emit_text(e, "%lld", cols);
    Scope *outer = e->scope;
    emit_line(e, outer, "const int member = threadIdx.x %% %d;", s->team);
    emit_line(e, outer, "const %s row = (%s)block%s;", t, t,
              per_block == 1 ? "" : emit_text(e, " * %d + threadIdx.x / %d", per_block, s->team));
    bool exact = rows % per_block == 0;
    if (!exact) {
        emit_line(e, outer, "const bool mine = row < %lld;", rows);
        emit_line(e, outer, "const %s hi = mine ? %lld : 0;", t, cols);
        hi = "hi";
    }
    emit_open(e, 1);
    e->scope->indent = outer->indent;
    emit_line(e, e->scope, "const %s %s = %s;", t, e->axis[0],
              exact ? "row" : emit_text(e, "mine ? row : %lld", rows - 1));
    emit_line(e, e->scope, "%s %s_acc = 0; // of the tiles before", type, x);
    Scope *tile = emit_open(e, 0);
    emit_line(e, tile, "const %s %s_first = %s_tile + member * %d;", t, col, col, s->unroll);
    emit_line(e, tile, "%s %s_at[%d], %s_sum = 0, %s_all;", type, x, s->unroll, x, x);
    open_columns(e);
    const char *value = emit_value(e, v->a[0]);
    emit_line(e, e->scope, "%s_sum = %s_sum + (%s_at[u] = %s);", x, x, x, value);
    close_columns(e, tile, hi);
    emit_line(e, tile, "%s %s_run = %s_acc + nc_scan<%d>(%s_sum, %s_all);", type, x, x, s->team, x,
              x);
    emit_line(e, tile, "%s_acc = %s_acc + %s_all;", x, x, x);
    open_columns(e);
    if (v->exclusive) emit_line(e, e->scope, "const %s %s = %s_run;", type, x, x);
    emit_line(e, e->scope, "%s_run = %s_run + %s_at[u];", x, x, x);
    if (!v->exclusive) emit_line(e, e->scope, "const %s %s = %s_run;", type, x, x);
    emit_bind(e, at, e->scope, x);
    emit_stores(e, 0);
    close_columns(e, tile, hi);
    emit_close(e,
               emit_text(e, "for (%s %s_tile = 0; %s_tile < %lld; %s_tile += %d) {", t, col, col,
                         cols, col, s->team * s->unroll),
               "}");
    emit_close(e, NULL, NULL);
}
