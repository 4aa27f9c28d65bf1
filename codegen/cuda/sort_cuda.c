// Sorts as CUDA C: a block sorts a row in shared memory (nc_sort). Longer rows are merged from runs
// sorted like this (lower_merge.c); short ones are sorted by counting (lower_ordered.c).
#include "codegen/cuda/print_cuda.h"

// Opens the scope of a loop over the columns below [end], divided among the block's threads.
// Returns the head of the loop, with which the scope is closed.
static const char *open_columns(Emit *e, int64_t end)
{
    const char *col = e->axis[e->body->col];
    emit_open(e, 1ull << e->body->col);
    return emit_text(e, "for (int %s = threadIdx.x; %s < %lld; %s += %d) {", col, col,
                     (long long)end, col, e->body->sched.threads);
}

void sort_cuda(Emit *e)
{
    const Body *b = e->body;
    int at = body_sort(b), threads = b->sched.threads;
    const Inst *v = &b->insts.at[at];
    long long cols = b->axis[b->col].extent, n = sort_padded(cols);
    const char *col = e->axis[b->col], *x = e->name[at], *type = type_math(v->acc);
    emit_open(e, 1);
    e->scope->indent = e->scope->up->indent;
    emit_int(e, e->axis[0], "block");
    emit(e, "%s *const %s_key = (%s *)nc_shared;", type, x, type);
    emit(e, "int *const %s_from = (int *)(%s_key + %lld);", x, x, n);
    const char *head = open_columns(e, cols);
    emit(e, "%s_key[%s] = %s;", x, col, emit_value(e, v->a[0]));
    emit_end(e, "%s", head);
    emit(e, "nc_sort<%lld, %d, %s>(%s_key, %s_from, %lld);", n, threads, v->down ? "true" : "false",
         x, x, cols);
    head = open_columns(e, cols);
    emit(e, "const %s %s = %s_%s[%s];", type_math(v->type), x, x, v->places ? "from" : "key", col);
    emit_bind(e, at, e->scope, x);
    emit_stores(e, 0);
    emit_end(e, "%s", head);
    emit_close(e, NULL, NULL);
}
