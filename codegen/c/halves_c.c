// 16-bit floats that are contiguous along a vector loop are converted to floats before it and
// back after it (nc_floats_of, nc_halves_of), because compilers do not vectorise the processor's
// conversions. The loop runs in pieces. A piece has either as many elements as a vector, all
// written out so that they stay in registers, or a few hundred, if the functions are so costly that
// separate loops pay off (levels_c.c).
#include "codegen/c/print_c.h"

// An access of 16-bit floats that is contiguous along the axis of the loop, in the stage. Numbers
// of accesses count the instructions first, then the stores.
typedef struct Run {
    const char *array;
    const Ix *at;
    int buf;
} Run;

// Whether the stage uses a load for anything but a maximum or minimum of its stored form. stage <
// 0: the body has no columns, so no stages.
static bool is_computed_of(const Emit *e, int load, int stage)
{
    const Body *b = e->body;
    const uint64_t *uses = stage < 0 ? NULL : body_stage_uses(e->arena, b);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        const bool reduces = v->kind == KI_REDUCE && v->axis == b->col;
        const bool here = stage < 0 || (reduces ? v->stage - 1 == stage : uses[i] >> stage & 1);
        for (int k = 0; k < v->na; k++)
            if (e->live[i] && here && v->a[k] == load && !c_stored_order(e, (int)i)) return true;
    }
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].value == load) return true;
    return false;
}

static bool is_run(Emit *e, uint32_t i, int axis, int stage, Run *out)
{
    const Body *b = e->body;
    int64_t step;
    if (b->sched.variant == RUN_BESIDE) return false; // its rows are transposed
    if (i < b->insts.n) {
        const Inst *v = &b->insts.at[i];
        if (!e->live[i] || e->moved[i] || v->kind != KI_LOAD || v->pred >= 0 || v->ix->has_value ||
            v->keep || b->bufs.at[v->buf].type != DT_F16 || e->element[i] ||
            !is_computed_of(e, (int)i, stage))
            return false;
        *out = (Run){emit_text(e, "%s_floats", e->name[i]), v->ix, v->buf};
    } else {
        const BodyStore *s = &b->stores.at[i - b->insts.n];
        if (s->buf < 0 || e->moved[s->value] || s->guard || s->joins || s->ix->has_value ||
            e->place[i - b->insts.n] || (store_over(b, s, b->col) ? s->stage != stage : stage >= 0))
            return false;
        *out = (Run){emit_text(e, "out%u_floats", i - b->insts.n), s->ix, s->buf};
    }
    return b->bufs.at[out->buf].type == DT_F16 && ix_stride(out->at, axis, &step) && step == 1;
}

bool c_any_halves(Emit *e, int axis, int stage)
{
    Run r;
    for (uint32_t i = 0; i < e->body->insts.n + e->body->stores.n; i++)
        if (is_run(e, i, axis, stage, &r)) return true;
    return false;
}

bool c_fits_few(Emit *e, int axis, int stage)
{
    const Body *b = e->body;
    bool rounds = stage >= 0; // there is something to convert; otherwise a loop of vectors without
                              // pieces is as good
    Run r;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (!e->live[i]) continue;
        if (v->keep || c_stored_order(e, (int)i)) return false;
        if (v->kind == KI_LOAD && inst_over(v, axis) && dtype_info[v->type].bits < 32 &&
            !is_run(e, i, axis, stage, &r))
            return false;
    }
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (s->buf < 0 || !store_over(b, s, axis)) continue;
        const bool run = is_run(e, b->insts.n + i, axis, stage, &r);
        rounds |= run;
        if (dtype_info[b->bufs.at[s->buf].type].bits < 32 && !run) return false;
    }
    return rounds;
}

static const char *begin_of(Emit *e, const Run *r, int axis, const char *first)
{
    return turn_begin(e, r->buf, r->at, (int[]){axis, axis}, (const char *[]){first, first});
}

void c_take_half(Emit *e, uint32_t i, int axis, int stage, const char *first, const char *last)
{
    const uint32_t n = e->body->insts.n;
    Run r;
    if (!is_run(e, i, axis, stage, &r)) return;
    emit(e, "float %s[%d] NC_LINES;", r.array, e->few ? C_FEW : C_PIECE);
    if (i < n)
        emit(e, "nc_%sfloats_of(%s, %s, %s - %s);", e->few ? "few_" : "", r.array,
             begin_of(e, &r, axis, first), last, first);
    *(i < n ? &e->element[i] : &e->place[i - n]) =
        emit_text(e, "%s[%s - %s]", r.array, e->axis[axis], first);
    e->converted[i] = true;
}

void c_take_halves(Emit *e, int axis, int stage, const char *first, const char *last)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n + b->stores.n; i++)
        c_take_half(e, i, axis, stage, first, last);
}

void c_give_halves(Emit *e, int axis, const char *first, const char *last)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n + b->stores.n; i++) {
        if (!e->converted[i]) continue;
        e->converted[i] = false;
        if (i < b->insts.n) {
            e->element[i] = NULL;
            continue;
        }
        const BodyStore *s = &b->stores.at[i - b->insts.n];
        const Run r = {emit_text(e, "out%u_floats", i - b->insts.n), s->ix, s->buf};
        emit(e, "nc_%shalves_of(%s, %s, %s - %s);", e->few ? "few_" : "",
             begin_of(e, &r, axis, first), r.array, last, first);
        e->place[i - b->insts.n] = NULL;
    }
}

void c_open_pieces(Emit *e, int axis, int64_t period, int stage, bool simd)
{
    const char *c = e->axis[axis];
    e->pieces = !period && simd && c_any_halves(e, axis, stage);
    if (e->pieces) {
        e->few = c_fits_few(e, axis, stage);
        emit_open(e, 0);
        c_take_halves(e, axis, stage, emit_text(e, "piece_%s", c), emit_text(e, "piece_end_%s", c));
    }
    c_open_loop(e, axis, period);
}

void c_close_pieces(Emit *e, const char *from, const char *to, bool whole, const char *pragma)
{
    if (!e->pieces) {
        c_close_loop(e, from, to, whole, pragma);
        return;
    }
    const int axis = e->round_axis;
    const char *first = emit_text(e, "piece_%s", e->axis[axis]),
               *last = emit_text(e, "piece_end_%s", e->axis[axis]);
    c_close_loop(e, first, last, false, pragma);
    c_give_halves(e, axis, first, last);
    c_close_piece(e, first, last, from, to);
    e->pieces = false;
}

// Prints pieces of C_FEW elements, and the remainder after them.
static void close_few(Emit *e, const char *first, const char *last, const char *from,
                      const char *to)
{
    const Buf piece = e->scope->text;
    Scope *out = e->scope->up;
    emit_line(e, out, "{");
    emit_line(e, out, "long %s = %s;", first, from);
    emit_end(e, "for (; %s + %d <= %s; %s += %d) {\n    const long %s = %s + %d;", first, C_FEW, to,
             first, C_FEW, last, first, C_FEW);
    emit_line(e, out, "if (%s < %s) {", first, to);
    emit_line(e, out, "    const long %s = %s;", last, to);
    buf_bytes(&out->text, piece.data, piece.len);
    emit_line(e, out, "}");
    emit_line(e, out, "}");
}

void c_close_piece(Emit *e, const char *first, const char *last, const char *from, const char *to)
{
    if (e->few) {
        e->few = false;
        close_few(e, first, last, from, to);
        return;
    }
    emit_end(e,
             "for (long %s = %s; %s < %s; %s += %d) {\n"
             "    const long %s = %s + %d < %s ? %s + %d : %s;",
             first, from, first, to, first, C_PIECE, last, first, C_PIECE, to, first, C_PIECE, to);
}
