// Maps whose operands are contiguous along another axis than the results: they run by tiles of the
// two axes, and operands are transposed when a tile is loaded, so that whole lines of memory are
// read and written.
#include "codegen/c/print_c.h"

enum {
    ACROSS = 32,
    ALONG = 64
}; // size of a tile: along the contiguous axis of the operands,
   // along the innermost axis

// The stride of a load along the innermost axis if it is contiguous along the other axis; 0: it
// need not be transposed.
static int64_t pitch_of(const Emit *e, uint32_t i, int across)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[i];
    int64_t pitch, step;
    if (!e->live[i] || v->kind != KI_LOAD || v->pred >= 0 || v->ix->has_value ||
        b->bufs.at[v->buf].in_place)
        return 0;
    return ix_stride(v->ix, b->npar - 1, &pitch) && ix_stride(v->ix, across, &step) && step == 1 &&
                   pitch > 1
               ? pitch
               : 0;
}

// Prints the range of an axis in tile number [tile], as first_ and last_ of the axis.
static void part_of(Emit *e, int axis, const char *tile, int size)
{
    const char *name = e->axis[axis];
    const long long extent = e->body->axis[axis].extent;
    emit(e, "const long first_%s = %s * %d;", name, tile, size);
    emit(e, "const long last_%s = first_%s + %d < %lld ? first_%s + %d : %lld;", name, name, size,
         extent, name, size, extent);
}

int64_t turned_map_c(Emit *e)
{
    const Body *b = e->body;
    const int along = b->npar - 1, across = b->sched.map.transpose - 1;
    const char *i = e->axis[along], *p = e->axis[across];
    const int64_t columns = ceil_div(b->axis[along].extent, ALONG);
    int64_t tiles = columns * ceil_div(b->axis[across].extent, ACROSS), pitch;
    emit_open(e, ((1ull << along) - 1) & ~(1ull << across));
    Scope *task = e->scope;
    part_of(e, along, emit_text(e, "(task %% %lld)", (long long)columns), ALONG);
    part_of(e, across,
            emit_text(e, "(task / %lld %% %lld)", (long long)columns, (long long)(tiles / columns)),
            ACROSS);
    for (int k = along; k-- > 0;) {
        if (k == across) continue;
        const long long extent = b->axis[k].extent;
        emit_line(e, task, "const long %s = task / %lld %% %lld;", e->axis[k], (long long)tiles,
                  extent);
        tiles *= extent;
    }
    const char *begin[2] = {emit_text(e, "first_%s", p), emit_text(e, "first_%s", i)};
    for (uint32_t k = 0; k < b->insts.n; k++) {
        if (!(pitch = pitch_of(e, k, across))) continue;
        const Inst *v = &b->insts.at[k];
        emit_line(e, task, "%s %s_turned[%d] NC_LINES;", type_storage(b->bufs.at[v->buf].type),
                  e->name[k], ACROSS * ALONG);
        emit_line(e, task,
                  "nc_turn_%d(%s, %lld, last_%s - first_%s, last_%s - first_%s, %s_turned, %d);",
                  turn_bits(b, v->buf), turn_begin(e, v->buf, v->ix, (int[]){across, along}, begin),
                  (long long)pitch, i, i, p, p, e->name[k], ALONG);
    }
    emit_open(e, 1ull << across);
    for (uint32_t k = 0; k < b->insts.n; k++)
        if (pitch_of(e, k, across))
            e->element[k] = emit_text(e, "%s_turned[(%s - first_%s) * %d + %s - first_%s]",
                                      e->name[k], p, p, ALONG, i, i);
    const char *from = emit_text(e, "first_%s", i), *to = emit_text(e, "last_%s", i);
    if (!c_levels(e, along, from, to)) {
        const bool simd = c_plain_over(e, along);
        c_open_pieces(e, along, c_period(e, along, ROUND), -1, simd);
        emit_stores(e, -1);
        c_close_pieces(e, from, to, false, simd ? C_SIMD : "");
    }
    emit_end(e, "for (long %s = first_%s; %s < last_%s; %s++) {", p, p, p, p, p);
    emit_end(e, "for (long task = begin; task < end; task++) {");
    return tiles;
}
