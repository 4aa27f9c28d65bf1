// Products without tensor cores as CUDA C: operands of any type, element by element. A thread has a
// square of the sums; or, in tiles of 16 x 16 whose columns (k) the warps divide, eight partial
// sums, which are added in shared memory.
#include "codegen/cuda/tile_print.h"

const char *plain_type(const TileProgram *p)
{
    return type_math(p->type);
}

static const char *slot_part(Emit *e, const Tile *t, bool column)
{
    return t->along_k ? emit_text(e, column ? "slot %% %d" : "slot / %d", t->lines)
                      : emit_text(e, column ? "slot / %d" : "slot %% %d", t->line);
}

static void close_slots(Emit *e, const Tile *t)
{
    slots_close(e, t->lines * t->line, e->body->sched.threads, "threadIdx.x");
}

void plain_fetch(Emit *e, const Tile *t)
{
    const Body *b = e->body;
    const char *own = e->axis[t->axis], *k = e->axis[b->col];
    slots_open(e, b->sched.threads, "threadIdx.x");
    emit(e, "const %s %s = %s + %s, %s = next + %s;", int_type(e), own,
         t->axis == 1 ? "origin_m" : "origin_n", slot_part(e, t, false), k, slot_part(e, t, true));
    emit(e, "%s_next[u] = 0;", t->name);
    emit_open(e, 1ull << t->axis | 1ull << b->col);
    const char *x = emit_value(e, t->inst);
    emit(e, "%s_next[u] = %s;", t->name, x);
    emit_end(e, "if (%s < %lld && %s < %lld) {", own, extent_of(b, t->axis), k,
             extent_of(b, b->col));
    close_slots(e, t);
}

void plain_put(Emit *e, const Tile *t)
{
    slots_open(e, e->body->sched.threads, "threadIdx.x");
    emit(e, "%s[%s%s%s * %d + %s] = %s_next[u];", t->name, t->along_k ? "(" : "",
         slot_part(e, t, true), t->along_k ? ")" : "", t->pitch, slot_part(e, t, false), t->name);
    close_slots(e, t);
}

void plain_fill(Emit *e, const TileProgram *p)
{
    if (p->each)
        emit(e, "%s acc[%d][%d] = {};", plain_type(p), p->each, p->each);
    else
        emit(e, "%s acc[8] = {};", plain_type(p));
}

void plain_multiply(RowPrint *w, const TileOp *op)
{
    const Tile *left = &w->p->tile[op->a], *right = &w->p->tile[op->b];
    emit(w->e, "if (step >= 0) nc_multiply_%s<%d, %d, %d>(acc, left, right);",
         w->p->each ? "square" : "shared", left->lines, left->pitch, right->pitch);
}

void plain_move(RowPrint *w, const TileOp *op)
{
    const char *type = plain_type(w->p), *shared = emit_text(w->e, "(%s *)nc_shared", type);
    const int offset = w->p->tile[op->dst].offset / math_bytes(w->p->type);
    emit(w->e, "%s *const sums = %s;", type, emit_plus(w->e, shared, emit_number(w->e, offset)));
    emit(w->e, "nc_put_shared(sums, acc);");
}

static void close_results(Emit *e)
{
    const Body *b = e->body;
    emit_stores(e, -1);
    emit_end(e, "if (%s < %lld && %s < %lld) {", e->axis[1], extent_of(b, 1), e->axis[2],
             extent_of(b, 2));
}

void plain_map(Emit *e, const TileProgram *p)
{
    const Body *b = e->body;
    const char *t = int_type(e);
    const int wide = p->each < 4 ? p->each : 4; // contiguous rows or columns of the square
    if (!p->each) {
        emit(e, "const %s sum = nc_joined_shared(sums);", plain_type(p));
        emit(e, "const %s %s = origin_m + threadIdx.x / 16, %s = origin_n + threadIdx.x %% 16;", t,
             e->axis[1], e->axis[2]);
        emit_open(e, 1ull << 1 | 1ull << 2)->guard = true;
        emit_bind(e, b->dot.sum, e->scope, "sum");
        close_results(e);
        return;
    }
    emit_open(e, 0);
    for (int i = 1; i <= 2; i++)
        emit_int(e, e->axis[i], "origin_%s + nc_in_square<%d>(%s, threadIdx.x %s 16)",
                 i == 1 ? "m" : "n", wide, i == 1 ? "i" : "j", i == 1 ? "/" : "%");
    emit_open(e, 1ull << 1 | 1ull << 2)->guard = true;
    emit_bind(e, b->dot.sum, e->scope, "acc[i][j]");
    close_results(e);
    emit_unrolled(e, "for (int i = 0; i < %d; i++)\n#pragma unroll\nfor (int j = 0; j < %d; j++) {",
                  p->each, p->each);
}
