// The first elements of rows in order, as CUDA C: the warps of a row's team are offered its columns
// and hold the first of them (NcFirst), then the first warp stores the first of all.
#include "codegen/cuda/print_cuda.h"

void first_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const int at = body_sort(b), team = s->team, tile = team * s->unroll;
    const Inst *v = &b->insts.at[at];
    const long long cols = extent_of(b, b->col), first = body_first(b), held = first_held(b) / 32,
                    waiting = s->threads;
    const char *col = e->axis[b->col], *x = e->name[at], *type = type_math(v->acc);
    print_row_number(e, block_number(e));
    open_row(e);
    emit(e, "%s *const %s_key = (%s *)nc_shared;", type, x, type);
    emit(e, "int *const %s_from = (int *)(%s_key + %lld);", x, x, (long long)first_room(b));
    emit(e, "NcFirst<%lld, %lld, %s, %s> %s_first;", first, held, v->down ? "true" : "false", type,
         x);
    emit(e,
         "nc_first_begin(%s_first, %s_key + threadIdx.x / 32 * 32, %s_from + threadIdx.x / 32 * "
         "32);",
         x, x, x);
    Steps own = {.index = "u", .count = s->unroll, .axes = 1ull << b->col};
    own.place = emit_text(e, "const int %s = %s_tile + %smember;", col, col,
                          s->unroll > 1 ? emit_text(e, "u * %d + ", team) : "");
    const Steps none = {.index = "u", .count = s->unroll};
    if (cols % tile) own.guard = emit_text(e, "%s < %lld", col, cols);
    emit_open(e, 0);
    emit(e, "%s %s_new[%d];", type, x, s->unroll);
    emit(e, "int %s_place[%d];", x, s->unroll);
    if (own.guard) {
        open_steps(e, &none);
        emit(e, "%s_new%s = 0;", x, steps_slot(e, &none));
        emit(e, "%s_place%s = NC_NONE;", x, steps_slot(e, &none));
        close_steps(e, &none);
    }
    open_steps(e, &own);
    const char *value = emit_value(e, v->a[0]), *slot = steps_slot(e, &own);
    emit(e, "%s_new%s = %s;", x, slot, value);
    emit(e, "%s_place%s = %s;", x, slot, col);
    close_steps(e, &own);
    emit(e, "nc_first_offer(%s_first, %s_new, %s_place);", x, x, x);
    emit_loop(e, "int", emit_text(e, "%s_tile", col), "0", emit_number(e, cols), tile);
    emit(e, "nc_first_end<%d>(%s_first, %s_key + %lld, %s_from + %lld);", team, x, x, waiting, x,
         waiting);
    // Lane l of the first warp has numbers l, 32 + l, ...
    Steps result = {.index = "u", .count = (int)held, .axes = 1ull << b->col};
    result.place = emit_text(e, "const int %s = %smember;", col, held > 1 ? "32 * u + " : "");
    result.guard = emit_text(e, "%s%s%s < %lld", all_have_rows(b) ? "" : "mine && ",
                             team > 32 ? "member < 32 && " : "", col, first);
    open_steps(e, &result);
    emit(e, "const %s %s = %s_first.%s%s;", type_math(v->type), x, x, v->places ? "from" : "key",
         steps_slot(e, &result));
    emit_bind(e, at, e->scope, x);
    emit_stores(e, 0);
    close_steps(e, &result);
    emit_close(e, NULL, NULL);
}
