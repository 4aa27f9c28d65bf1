// Sorts as CUDA C: a block sorts a row (nc_sort_items), or moves a chunk of a longer row
// by a digit (lower_radix.c). Short rows are sorted by counting (lower_ordered.c).
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
    if (v->places) emit(e, "int *const %s_from = (int *)(%s_key + %lld);", x, x, n);
    const char *head = open_columns(e, cols);
    emit(e, "%s_key[%s] = %s;", x, col, emit_value(e, v->a[0]));
    emit_end(e, "%s", head);
    const char *how = emit_text(e, "%lld, %d, %s", n, threads, v->down ? "true" : "false");
    if (v->places)
        emit(e, "nc_sort_places<%s>(%s_key, %s_from, %lld);", how, x, x, cols);
    else
        emit(e, "nc_sort_values<%s>(%s_key, %lld);", how, x, cols);
    head = open_columns(e, cols);
    emit(e, "const %s %s = %s_%s[%s];", type_math(v->type), x, x, v->places ? "from" : "key", col);
    emit_bind(e, at, e->scope, x);
    emit_stores(e, 0);
    emit_end(e, "%s", head);
    emit_close(e, NULL, NULL);
}

// A block counts the elements of its chunk with each digit, or (places) moves them to the places
// that the counts of all chunks of the row leave for them.
void radix_cuda(Emit *e)
{
    const Body *b = e->body;
    const int at = body_sort(b), each = b->sched.unroll;
    const Inst *v = &b->insts.at[at];
    const long long chunk = b->axis[b->col].extent, chunks = ceil_div(v->bound, chunk),
                    digits = 1ll << v->bits;
    const char *col = e->axis[b->col], *x = e->name[at], *type = type_math(v->acc),
               *line = e->axis[0], *by = emit_text(e, "%d, %s", v->low, v->down ? "true" : "false");
    emit_open(e, 1);
    e->scope->indent = e->scope->up->indent;
    emit_int(e, line, "block");
    const char *number = chunks > 1 ? emit_text(e, "(int)(%s %% %lld)", line, chunks) : "0";
    emit(e, "const auto %s_digits = nc_radix<%d, %d>(nc_shared);", x, b->sched.threads, v->bits);
    if (v->places)
        emit(e, "nc_radix_begin(%s_digits, %s + %s * %lld, %lld, %s);", x, e->buf_name[v->buf],
             chunks > 1 ? emit_text(e, "%s / %lld", line, chunks) : line, chunks * digits, chunks,
             number);
    else
        emit(e, "nc_radix_clear(%s_digits);", x);
    emit_open(e, 0);
    Steps steps = {.index = "u", .count = each, .axes = 1ull << b->col};
    steps.place = emit_text(e, "const int %s = %s_tile + nc_radix_column<%d>(u);", col, col, each);
    emit(e, "%s %s_new[%d];", type, x, each);
    if (v->places) emit(e, "int %s_from[%d], %s_to[%d];", x, each, x, each);
    open_steps(e, &steps);
    const char *slot = steps_slot(e, &steps), *value = emit_value(e, v->a[0]);
    emit(e, "%s_new%s = %s;", x, slot, value);
    if (v->places) {
        value = v->na > 1 ? emit_value(e, v->a[1]) : "0";
        emit(e, "%s_from%s = %s;", x, slot, value);
    }
    close_steps(e, &steps);
    emit(e, "const int %s_left = %lld - %s_tile%s;", x, (long long)v->bound, col,
         chunks > 1 ? emit_text(e, " - %s * %lld", number, chunk) : "");
    if (v->places) {
        emit(e, "nc_radix_move<%s>(%s_digits, %s_new, %s_from, %s_left, %s_to);", by, x, x, x, x,
             x);
        steps.place = emit_text(e, "const int %s = %s_tile + u * %d + threadIdx.x;", col, col,
                                b->sched.threads);
        steps.placed = col;
        if (v->bound % chunk) steps.guard = emit_text(e, "%s - %s_tile < %s_left", col, col, x);
        open_steps(e, &steps);
        emit_bind(e, v->a[0], e->scope, emit_text(e, "%s_new%s", x, slot));
        if (v->na > 1) emit_bind(e, v->a[1], e->scope, emit_text(e, "%s_from%s", x, slot));
        emit_bind(e, at, e->scope, emit_text(e, "%s_to%s", x, slot));
        emit_stores(e, 0);
        close_steps(e, &steps);
    } else {
        emit(e, "nc_radix_count<%s>(%s_digits, %s_new, %s_left);", by, x, x, x);
    }
    emit_loop(e, "int", emit_text(e, "%s_tile", col), "0", emit_number(e, chunk), RADIX_TILE);
    if (!v->places) {
        emit(e, "__syncthreads();");
        const char *head = open_columns(e, digits);
        emit(e, "const int %s = nc_radix_total(%s_digits, %s);", x, x, col);
        emit_bind(e, at, e->scope, x);
        emit_stores(e, 0);
        emit_end(e, "%s", head);
    }
    emit_close(e, NULL, NULL);
}
