// A contraction as C: a task takes a tile of the result; operands are packed into small arrays
// first, the left one for several groups of columns, and sums stay in vector registers, four rows
// by two vectors at a time. Operands and results are any fused expressions.
#include "codegen/c/print_c.h"

// Packs operand [inst] over its axis and the columns first_k..last_k into array[k][side].
static void pack(Emit *e, int inst, int axis, int side, const char *array, const char *first,
                 const char *last)
{
    const Body *b = e->body;
    int64_t stride = 0;
    const Inst *v = &b->insts.at[inst];
    while (v->kind == KI_CAST || (v->kind == KI_EW && v->na > 0)) v = &b->insts.at[v->a[0]];
    bool k_inner = v->kind == KI_LOAD && ix_stride(v->ix, b->col, &stride) && stride == 1;
    const char *a = e->axis[axis], *k = e->axis[b->col];
    const char *over_k = emit_text(e, "for (long %s = first_k; %s < last_k; %s++) {", k, k, k);
    const char *over_a = emit_text(e, "for (long %s = %s; %s < %s; %s++) {", a, first, a, last, a);
    emit_open(e, 1ull << (k_inner ? axis : b->col));
    emit_open(e, 1ull << (k_inner ? b->col : axis));
    const char *x = emit_value(e, inst);
    emit_line(e, e->scope, "%s[(%s - first_k) * %d + %s - %s] = %s;", array, k, side, a, first, x);
    const char *simd = !k_inner && c_plain_over(e, axis)
                           ? emit_text(e, "#pragma omp simd\n%*s", e->scope->up->indent * 4, "")
                           : "";
    emit_close(e, k_inner ? over_k : emit_text(e, "%s%s", simd, over_a), "}");
    emit_close(e, k_inner ? over_a : over_k, "}");
}

// Of the prelude's function that multiplies packed tiles, four rows by two vectors at a time.
static const char *tile_suffix(DType t)
{
    return t == DT_F32 ? "f" : t == DT_F64 ? "d" : t == DT_I64 ? "l" : t == DT_U32 ? "u" : "i";
}

int64_t tile_c(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
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
    emit_line(e, e->scope, "%s", end);
    pack(e, b->dot.b, 2, columns, "right", "from_n", "to_n");
    emit_line(e, e->scope, "for (long i = 0; i < last_m - first_m; i += 4)");
    emit_line(e, e->scope,
              "    nc_tile_%s(sums[group * %d + i], left + i, %d, right, last_k - first_k);",
              suffix, s->tile.m, s->tile.m);
    emit_close(e, each, "}");
    emit_close(e,
               emit_text(e, "for (long first_k = 0; first_k < %lld; first_k += %d) {",
                         (long long)cols, s->tile.k),
               "}");
    emit_open(e, 0);
    emit_line(e, e->scope, "%s", end);
    emit_line(e, e->scope, "const %s *const flat = (const %s *)sums[group * %d];", t, t, s->tile.m);
    emit_open(e, 1ull << 1);
    emit_open(e, 1ull << 2);
    emit_bind(
        e, b->dot.sum, e->scope,
        emit_text(e, "flat[(%s - first_m) * %d + %s - from_n]", e->axis[1], columns, e->axis[2]));
    emit_stores(e, -1);
    emit_close(e,
               emit_text(e, "%sfor (long %s = from_n; %s < to_n; %s++) {",
                         c_plain_over(e, 2)
                             ? emit_text(e, "#pragma omp simd\n%*s", e->scope->up->indent * 4, "")
                             : "",
                         e->axis[2], e->axis[2], e->axis[2]),
               "}");
    emit_close(e,
               emit_text(e, "for (long %s = first_m; %s < last_m; %s++) {", e->axis[1], e->axis[1],
                         e->axis[1]),
               "}");
    emit_close(e, each, "}");
    Scope *root = task->up;
    emit_line(e, root, "%s left_tile[%d] __attribute__((aligned(64))) = {0};", t,
              s->tile.k * s->tile.m);
    emit_line(e, root, "%s right_tile[%d] __attribute__((aligned(64))) = {0};", t,
              s->tile.k * columns);
    emit_close(e, "for (long task = begin; task < end; task++) {", "}");
    return b->axis[0].extent * tiles_m * tiles_n;
}
