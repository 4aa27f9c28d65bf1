// A contraction as C: a task computes a tile of the result. Operands are first packed into small
// arrays, the left one for several groups of columns, and sums stay in vector registers, four rows
// by two vectors at a time. Operands and results may be any fused expressions.
#include "codegen/c/print_c.h"

static const char *tile_loop(Emit *e, int axis, const char *from, const char *to)
{
    return emit_text(e, "for (long %s = %s; %s < %s; %s++) {", e->axis[axis], from, e->axis[axis],
                     to, e->axis[axis]);
}

// Packs operand [inst], along its axis and the columns first_k..last_k, into array[k][side].
static void pack(Emit *e, int inst, int axis, int side, const char *array, const char *first,
                 const char *last)
{
    const Body *b = e->body;
    int64_t stride = 0;
    const Inst *v = inst_first(b, inst);
    bool k_inner = v->kind == KI_LOAD && ix_stride(v->ix, b->col, &stride) && stride == 1;
    const char *a = e->axis[axis], *k = e->axis[b->col];
    const int inner = k_inner ? b->col : axis;
    emit_open(e, 1ull << (k_inner ? axis : b->col));
    const char *from = k_inner ? "first_k" : first, *to = k_inner ? "last_k" : last;
    c_take_half(e, (uint32_t)(v - b->insts.at), inner, -1, from, to);
    c_open_loop(e, inner, c_period(e, inner, ROUND));
    const char *x = emit_value(e, inst);
    emit(e, "%s[(%s - first_k) * %d + %s - %s] = %s;", array, k, side, a, first, x);
    c_close_loop(e, from, to, false, !k_inner && c_plain_over(e, axis) ? C_SIMD : "");
    c_give_halves(e, inner, from, to);
    emit_end(e, "%s",
             k_inner ? tile_loop(e, axis, first, last) : tile_loop(e, b->col, "first_k", "last_k"));
}

// Suffix of the prelude's function that multiplies packed tiles, four rows by two vectors at a
// time.
static const char *tile_suffix(DType t)
{
    return t == DT_F32 ? "f" : t == DT_F64 ? "d" : t == DT_I64 ? "l" : t == DT_U32 ? "u" : "i";
}

// The terms of an index that depend on [axes]; or, if [but], all others with the constant.
static const char *part_of_place(Emit *e, const Ix *x, uint64_t axes, bool but)
{
    IxCtx *c = e->body->ix;
    const Ix *sum = ix_const(c, but ? x->constant : 0);
    for (int i = 0; i < x->n; i++)
        if (!(x->at[i].term->axes & axes) == but)
            sum = ix_add(c, sum, ix_scale(c, ix_term(c, x->at[i].term), x->at[i].coeff));
    return emit_index(e, sum);
}

// Whether a store is contiguous along the axis.
static bool store_runs_along(const Body *b, int axis)
{
    int64_t stride;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].ix && ix_stride(b->stores.at[i].ix, axis, &stride) && stride == 1)
            return true;
    return false;
}

// Packs the tile of the right operand for all rows of a task. If the operand's rows are adjacent in
// memory and no longer than the tile, they are read in place, with what follows each of them,
// except at the end of the buffer.
static void right_tile(Emit *e, int inst, int cols, int wide)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[inst];
    int64_t pitch, step;
    const bool lies = v->kind == KI_LOAD && v->type == b->insts.at[b->dot.sum].acc && v->pred < 0 &&
                      !v->ix->has_value && ix_stride(v->ix, cols, &step) && step == 1 &&
                      ix_stride(v->ix, b->col, &pitch) && pitch > 0 && pitch <= wide &&
                      b->axis[cols].extent <= wide;
    const char *t = type_math(b->insts.at[b->dot.sum].acc);
    emit(e, "const %s *from = right;", t);
    emit(e, "long step = %d;", wide);
    if (!lies) {
        pack(e, inst, cols, wide, "right", "first_n", "last_n");
        return;
    }
    const int axes[2] = {cols, b->col};
    const char *first = turn_begin(e, v->buf, v->ix, axes, (const char *[]){"first_n", "first_k"}),
               *last =
                   turn_begin(e, v->buf, v->ix, axes, (const char *[]){"first_n", "(last_k - 1)"});
    emit_open(e, 0);
    pack(e, inst, cols, wide, "right", "first_n", "last_n");
    emit_close(e,
               emit_text(e, "if (%s + %d > %s + %lld) {", last, wide, e->buf_name[v->buf],
                         (long long)b->bufs.at[v->buf].elems),
               "} else {");
    emit(e, "    from = %s;", first);
    emit(e, "    step = %lld;", (long long)pitch);
    emit(e, "}");
}

// The array with the sums of the rows of a task, or of some of them.
typedef struct Sums {
    const char *first, *last; // the range of these rows
    int rows, cols, wide;
} Sums;

// Prints the stores of the results, in the order of memory.
static void store_sums(Emit *e, const Sums *s)
{
    const Body *b = e->body;
    const int inner = store_runs_along(b, s->rows) ? s->rows : s->cols, outer = 3 - inner;
    const char *from[] = {[1] = "first_n", "first_n"}, *to[] = {[1] = "last_n", "last_n"};
    from[s->rows] = s->first, to[s->rows] = s->last;
    emit_open(e, 1ull << outer);
    c_open_loop(e, inner, c_period(e, inner, ROUND));
    emit_bind(e, b->dot.sum, e->scope,
              emit_text(e, "sums[(%s - %s) * %d + %s - first_n]", e->axis[s->rows], s->first,
                        s->wide, e->axis[s->cols]));
    emit_stores(e, -1);
    c_close_loop(e, from[inner], to[inner], false, c_plain_over(e, inner) ? C_SIMD : "");
    emit_end(e, "%s", tile_loop(e, outer, from[outer], to[outer]));
}

// The store if the results are just the sums, in the same order with rows [pitch] apart. Otherwise
// NULL.
static const BodyStore *stores_sums(const Body *b, int rows, int64_t *pitch)
{
    const BodyStore *s = &b->stores.at[0];
    int64_t along;
    const bool plain = b->stores.n == 1 && !b->commits && s->buf >= 0 && s->value == b->dot.sum &&
                       !s->guard && !s->joins && !s->fold && !s->ix->has_value;
    return plain && !b->bufs.at[s->buf].in_place &&
                   b->bufs.at[s->buf].type == b->insts.at[b->dot.sum].acc &&
                   ix_stride(s->ix, 3 - rows, &along) && along == 1 &&
                   ix_stride(s->ix, rows, pitch) && *pitch > 0
               ? s
               : NULL;
}

// Reads one operand in place: an address for each of its rows, plus an offset for each column. If
// the results are just the sums, these are computed directly in the result, except at the edges,
// where a tile is not complete. Otherwise, if there are few columns, some rows are stored at a
// time, so that their sums stay in the first-level cache.
static int64_t in_place_c(Emit *e, int rows)
{
    enum { SOME = 48 };
    const Body *b = e->body;
    const int cols = 3 - rows, most = rows == 1 ? b->sched.tile.m : b->sched.tile.n,
              wide = rows == 1 ? b->sched.tile.n : b->sched.tile.m, step = b->sched.tile.k;
    const int left = rows == 1 ? b->dot.a : b->dot.b, right = rows == 1 ? b->dot.b : b->dot.a;
    const long long m = b->axis[rows].extent, n = b->axis[cols].extent, k = b->axis[b->col].extent;
    const long long tiles_m = ceil_div(m, most), tiles_n = ceil_div(n, wide);
    const bool once = k <= step; // all columns fit in one step
    const Inst *x = &b->insts.at[left];
    const char *r = e->axis[rows], *c = e->axis[b->col];
    emit_open(e, 1); // batch
    Scope *task = e->scope, *root = task->up;
    const DType acc = b->insts.at[b->dot.sum].acc;
    const char *t = type_math(acc), *kind = emit_text(e, "%d_%s", wide, tile_suffix(acc));
    emit_line(e, root, "%s right[%d] NC_LINES = {0};", t, step * wide);
    emit_line(e, root, "%s sums[%d] NC_LINES;", t, (once ? SOME : most) * wide);
    // (gcc 12.2 stores the rest of a round of places by an aligned vector of 32 bytes, but does not
    // align the arrays for it)
    emit_line(e, root, "const %s *row[%d] NC_LINES;", t, most);
    emit_line(e, root, "long at[%d] NC_LINES;", step);
    emit_line(e, task, "const long %s = task / %lld;", e->axis[0], tiles_m * tiles_n);
    emit_line(e, task,
              "const long first_m = task / %lld %% %lld * %d, first_n = task %% %lld * %d;",
              tiles_n, tiles_m, most, tiles_n, wide);
    emit_line(e, task, "const long last_m = first_m + %d < %lld ? first_m + %d : %lld;", most, m,
              most, m);
    emit_line(e, task, "const long last_n = first_n + %d < %lld ? first_n + %d : %lld;", wide, n,
              wide, n);
    int64_t pitch;
    const BodyStore *direct = stores_sums(b, rows, &pitch);
    const char *sums_from = direct ? "whole_m" : "first_m";
    if (direct)
        emit_line(e, task,
                  "const long whole_m = last_n - first_n == %d ? last_m - (last_m - first_m) %% "
                  "NC_ROWS_OF_%s : first_m;",
                  wide, kind);
    c_open_loop(e, rows, c_period(e, rows, ROUND));
    emit(e, "row[%s - first_m] = %s + (%s);", r, e->buf_name[x->buf],
         part_of_place(e, x->ix, 1ull << b->col, true));
    c_close_loop(e, "first_m", "last_m", false, "");
    emit_line(e, task, "for (long k = last_m - first_m; k %% NC_ROWS_OF_%s; k++)", kind);
    emit_line(e, task, "    row[k] = row[k - 1];");
    emit_open(e, 0);
    emit(e, "const long last_k = first_k + %d < %lld ? first_k + %d : %lld;", step, k, step, k);
    c_open_loop(e, b->col, c_period(e, b->col, ROUND));
    emit(e, "at[%s - first_k] = %s;", c, part_of_place(e, x->ix, 1ull << b->col, false));
    c_close_loop(e, "first_k", "last_k", false, C_SIMD);
    right_tile(e, right, cols, wide);
    const char *rest = "row + i, at, from, step, last_k - first_k";
    if (direct) {
        const char *place = turn_begin(e, direct->buf, direct->ix, (const int[]){rows, cols},
                                       (const char *[]){"(first_m + i)", "first_n"});
        emit(e, "for (long i = 0; i < whole_m - first_m; i += NC_ROWS_OF_%s)", kind);
        emit(e, "    nc_rows_%s(%s, %lld, first_k > 0, %s);", kind, place, (long long)pitch, rest);
    }
    const Sums part = {once ? "some_m" : sums_from, once ? "end_m" : "last_m", rows, cols, wide};
    if (once) {
        emit_open(e, 0);
        emit(e, "const long end_m = some_m + %d < last_m ? some_m + %d : last_m;", SOME, SOME);
    }
    emit(e, "for (long i = %s - first_m; i < %s - first_m; i += NC_ROWS_OF_%s)", part.first,
         part.last, kind);
    emit(e, "    nc_rows_%s(sums + (i + first_m - %s) * %d, %d, first_k > 0, %s);", kind,
         part.first, wide, wide, rest);
    if (once) {
        store_sums(e, &part);
        emit_end(e, "for (long some_m = %s; some_m < last_m; some_m += %d) {", sums_from, SOME);
    }
    emit_end(e, "for (long first_k = 0; first_k < %lld; first_k += %d) {", k, step);
    if (!once) store_sums(e, &part);
    emit_end(e, "for (long task = begin; task < end; task++) {");
    return b->axis[0].extent * tiles_m * tiles_n;
}

int64_t tile_c(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const int rows = tile_in_place(b);
    if (rows) return in_place_c(e, rows);
    DType acc = b->insts.at[b->dot.sum].acc;
    const char *t = type_math(acc);
    int64_t m = b->axis[1].extent, n = b->axis[2].extent, cols = b->axis[b->col].extent;
    int64_t tiles_m = (m + s->tile.m - 1) / s->tile.m, tiles_n = (n + s->tile.n - 1) / s->tile.n;
    const char *suffix = tile_suffix(math_type(acc));
    emit_open(e, 1); // batch
    Scope *task = e->scope;
    emit_line(e, task, "const long %s = task / %lld;", e->axis[0], (long long)(tiles_m * tiles_n));
    emit_line(e, task,
              "const long first_m = task / %lld %% %lld * %d, first_n = task %% %lld * %d;",
              (long long)tiles_n, (long long)tiles_m, s->tile.m, (long long)tiles_n, s->tile.n);
    emit_line(e, task, "const long last_m = first_m + %d < %lld ? first_m + %d : %lld;", s->tile.m,
              (long long)m, s->tile.m, (long long)m);
    emit_line(e, task, "const long last_n = first_n + %d < %lld ? first_n + %d : %lld;", s->tile.n,
              (long long)n, s->tile.n, (long long)n);
    const int columns = tile_columns(b), groups = s->tile.n / columns;
    const char *each = emit_text(e,
                                 "for (long group = 0, from_n = first_n; from_n < last_n; group++, "
                                 "from_n += %d) {",
                                 columns);
    const char *end = emit_text(e, "const long to_n = from_n + %d < last_n ? from_n + %d : last_n;",
                                columns, columns);
    emit_line(e, task, "nc_vector_%s sums[%d][2];", suffix, groups * s->tile.m);
    emit_line(e, task, "%s *const left = left_tile, *const right = (%s *)right_tile;", t, t);
    emit_line(e, task, "memset(sums, 0, sizeof sums);");
    emit_open(e, 0);
    Scope *in = e->scope;
    emit_line(e, in, "const long last_k = first_k + %d < %lld ? first_k + %d : %lld;", s->tile.k,
              (long long)cols, s->tile.k, (long long)cols);
    pack(e, b->dot.a, 1, s->tile.m, "left", "first_m", "last_m");
    emit_open(e, 0);
    emit(e, "%s", end);
    pack(e, b->dot.b, 2, columns, "right", "from_n", "to_n");
    emit(e, "for (long i = 0; i < last_m - first_m; i += 4)");
    emit(e, "    nc_tile_%s(sums[group * %d + i], left + i, %d, right, last_k - first_k);", suffix,
         s->tile.m, s->tile.m);
    emit_end(e, "%s", each);
    emit_end(e, "for (long first_k = 0; first_k < %lld; first_k += %d) {", (long long)cols,
             s->tile.k);
    emit_open(e, 0);
    emit(e, "%s", end);
    emit(e, "const %s *const flat = (const %s *)sums[group * %d];", t, t, s->tile.m);
    emit_open(e, 1ull << 1);
    for (uint32_t i = 0; i < b->insts.n + b->stores.n; i++) // except of the operands
        if (i >= b->insts.n || !inst_over(&b->insts.at[i], b->col))
            c_take_half(e, i, 2, -1, "from_n", "to_n");
    emit_open(e, 1ull << 2);
    emit_bind(
        e, b->dot.sum, e->scope,
        emit_text(e, "flat[(%s - first_m) * %d + %s - from_n]", e->axis[1], columns, e->axis[2]));
    emit_stores(e, -1);
    emit_end(e, "%sfor (long %s = from_n; %s < to_n; %s++) {",
             c_plain_over(e, 2) ? "#pragma omp simd\n" : "", e->axis[2], e->axis[2], e->axis[2]);
    c_give_halves(e, 2, "from_n", "to_n");
    emit_end(e, "for (long %s = first_m; %s < last_m; %s++) {", e->axis[1], e->axis[1], e->axis[1]);
    emit_end(e, "%s", each);
    Scope *root = task->up;
    emit_line(e, root, "%s left_tile[%d] NC_LINES = {0};", t, s->tile.k * s->tile.m);
    emit_line(e, root, "%s right_tile[%d] NC_LINES = {0};", t, s->tile.k * columns);
    emit_end(e, "for (long task = begin; task < end; task++) {");
    return b->axis[0].extent * tiles_m * tiles_n;
}
