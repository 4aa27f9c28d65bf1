// A contraction as CUDA C: a block takes a tile of the result, operands go through shared memory,
// each of its 16 x 16 threads holds a small square of sums. The next tile of the operands is
// fetched into registers while this one is multiplied. Operands and results are any fused
// expressions.
#include "codegen/print.h"

// Fetches a tile_k x side tile of operand [inst] (axis: its own axis of the result) into regs.
static void fetch(Emit *e, int inst, int axis, int side, const char *origin, const char *regs)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int64_t along_k = 0;
    const Inst *v = &b->insts.at[inst];
    while (v->kind == KI_CAST || (v->kind == KI_EW && v->na > 0)) v = &b->insts.at[v->a[0]];
    bool k_first = v->kind == KI_LOAD && ix_stride(v->ix, b->col, &along_k) && along_k == 1;
    const char *a = e->axis[axis], *k = e->axis[b->col], *t = b->sched.wide ? "int64_t" : "int";
    Scope *out = e->scope;
    emit_open(e, 0);
    emit_line(e, e->scope, "const int slot = u * %d + threadIdx.x;", s->threads);
    const char *row =
        k_first ? emit_text(e, "slot / %d", s->tile_k) : emit_text(e, "slot %% %d", side);
    const char *col =
        k_first ? emit_text(e, "slot %% %d", s->tile_k) : emit_text(e, "slot / %d", side);
    emit_line(e, e->scope, "const %s %s = %s + %s, %s = next + %s;", t, a, origin, row, k, col);
    emit_line(e, e->scope, "%s[u] = 0;", regs);
    emit_open(e, 1ull << axis | 1ull << b->col);
    const char *x = emit_value(e, inst);
    emit_line(e, e->scope, "%s[u] = %s;", regs, x);
    emit_close(e,
               emit_text(e, "if (%s < %lld && %s < %lld) {", a, (long long)b->axis[axis].extent, k,
                         (long long)b->axis[b->col].extent),
               "}");
    emit_line(e, out, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int u = 0; u < %d; u++) {", s->tile_k * side / s->threads),
               "}");
}

static void put(Emit *e, int inst, int side, const char *regs, const char *shared)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int64_t along_k = 0;
    const Inst *v = &b->insts.at[inst];
    while (v->kind == KI_CAST || (v->kind == KI_EW && v->na > 0)) v = &b->insts.at[v->a[0]];
    bool k_first = v->kind == KI_LOAD && ix_stride(v->ix, b->col, &along_k) && along_k == 1;
    emit_line(e, e->scope, "#pragma unroll");
    emit_line(e, e->scope, "for (int u = 0; u < %d; u++) {", s->tile_k * side / s->threads);
    emit_line(e, e->scope, "    const int slot = u * %d + threadIdx.x;", s->threads);
    if (k_first)
        emit_line(e, e->scope, "    %s[slot %% %d][slot / %d] = %s[u];", shared, s->tile_k,
                  s->tile_k, regs);
    else
        emit_line(e, e->scope, "    %s[slot / %d][slot %% %d] = %s[u];", shared, side, side, regs);
    emit_line(e, e->scope, "}");
}

// Eight warps multiply every eighth column of the tile each; their sums meet in shared memory, in
// order.
static void multiply_small(Emit *e, const char *t)
{
    const Schedule *s = &e->body->sched;
    Scope *in = e->scope;
    emit_line(e, in, "if (first >= 0) {");
    emit_line(e, in, "    #pragma unroll 8");
    emit_line(e, in, "    for (int kk = warp; kk < %d; kk += 8) {", s->tile_k);
    emit_line(e, in, "        %s x[4], y[2];", t);
    emit_line(e, in, "        #pragma unroll");
    emit_line(e, in, "        for (int i = 0; i < 4; i++)");
    emit_line(e, in, "            x[i] = left[kk][lane / 8 * 4 + i];");
    emit_line(e, in, "        #pragma unroll");
    emit_line(e, in, "        for (int j = 0; j < 2; j++)");
    emit_line(e, in, "            y[j] = right[kk][lane %% 8 * 2 + j];");
    emit_line(e, in, "        #pragma unroll");
    emit_line(e, in, "        for (int i = 0; i < 8; i++)");
    emit_line(e, in, "            acc[i] = acc[i] + x[i / 2] * y[i %% 2];");
    emit_line(e, in, "    }");
    emit_line(e, in, "}");
}

static void tile_small(Emit *e, const char *t, const char *it)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Scope *top = e->scope;
    int64_t k = b->axis[b->col].extent;
    emit_line(e, top, "const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;");
    emit_line(e, top, "%s (*const left)[17] = (%s (*)[17])nc_shared;", t, t);
    emit_line(e, top, "%s (*const right)[17] = left + %d;", t, s->tile_k);
    emit_line(e, top, "%s (*const sums)[256] = (%s (*)[256])(right + %d);", t, t, s->tile_k);
    emit_line(e, top, "%s left_next[%d], right_next[%d], acc[8] = {};", t, s->tile_k / 16,
              s->tile_k / 16);
    emit_open(e, 0);
    emit_line(e, e->scope,
              "const %s next = first + %d; // fetched while the tile at first is multiplied", it,
              s->tile_k);
    emit_open(e, 0);
    fetch(e, b->dot.a, 1, 16, "origin_m", "left_next");
    fetch(e, b->dot.b, 2, 16, "origin_n", "right_next");
    emit_close(e, emit_text(e, "if (next < %lld) {", (long long)k), "}");
    Scope *in = e->scope;
    multiply_small(e, t);
    emit_line(e, in, "__syncthreads();");
    put(e, b->dot.a, 16, "left_next", "left");
    put(e, b->dot.b, 16, "right_next", "right");
    emit_line(e, in, "__syncthreads();");
    emit_close(e,
               emit_text(e, "for (%s first = -%d; first < %lld; first += %d) {", it, s->tile_k,
                         (long long)k, s->tile_k),
               "}");
    emit_line(e, top, "#pragma unroll");
    emit_line(e, top, "for (int i = 0; i < 8; i++)");
    emit_line(e, top,
              "    sums[warp][(lane / 8 * 4 + i / 2) * 16 + lane %% 8 * 2 + i %% 2] = acc[i];");
    emit_line(e, top, "__syncthreads();");
    emit_line(e, top, "%s sum = 0;", t);
    emit_line(e, top, "#pragma unroll");
    emit_line(e, top, "for (int w = 0; w < 8; w++)");
    emit_line(e, top, "    sum = sum + sums[w][threadIdx.x];");
    emit_line(e, top,
              "const %s %s = origin_m + threadIdx.x / 16, %s = origin_n + threadIdx.x %% 16;", it,
              e->axis[1], e->axis[2]);
    emit_open(e, 1ull << 1 | 1ull << 2);
    emit_bind(e, b->dot.sum, e->scope, "sum");
    emit_stores(e, -1);
    emit_close(e,
               emit_text(e, "if (%s < %lld && %s < %lld) {", e->axis[1],
                         (long long)b->axis[1].extent, e->axis[2], (long long)b->axis[2].extent),
               "}");
    emit_close(e, NULL, NULL);
}

void tile_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    if (s->share || s->wgmma) {
        (s->share ? small_cuda : wgmma_cuda)(e);
        return;
    }
    if (s->staged) {
        staged_cuda(e);
        return;
    }
    const char *t = type_math(b->insts.at[b->dot.sum].acc), *it = s->wide ? "int64_t" : "int";
    int64_t m = b->axis[1].extent, n = b->axis[2].extent, k = b->axis[b->col].extent;
    int64_t tiles_m = (m + s->tile_m - 1) / s->tile_m, tiles_n = (n + s->tile_n - 1) / s->tile_n;
    int w = s->each < 4 ? s->each : 4; // neighbours a thread takes at once
    emit_open(e, 1);                   // batch
    Scope *top = e->scope;
    top->indent--;
    emit_line(e, top, "const %s %s = block / %lld;", it, e->axis[0],
              (long long)(tiles_m * tiles_n));
    emit_line(e, top,
              "const int origin_m = block / %lld %% %lld * %d, origin_n = block %% %lld * %d;",
              (long long)tiles_n, (long long)tiles_m, s->tile_m, (long long)tiles_n, s->tile_n);
    if (s->mma) {
        mma_cuda(e);
        return;
    }
    if (!s->each) {
        tile_small(e, t, it);
        return;
    }
    emit_line(e, top, "const int tx = threadIdx.x %% 16, ty = threadIdx.x / 16;");
    emit_line(e, top, "%s (*const left)[%d] = (%s (*)[%d])nc_shared;", t, s->tile_m + 4, t,
              s->tile_m + 4);
    emit_line(e, top, "%s (*const right)[%d] = (%s (*)[%d])(left + %d);", t, s->tile_n + 4, t,
              s->tile_n + 4, s->tile_k);
    emit_line(e, top, "%s left_next[%d], right_next[%d], acc[%d][%d];", t,
              s->tile_k * s->tile_m / s->threads, s->tile_k * s->tile_n / s->threads, s->each,
              s->each);
    emit_line(e, top, "#pragma unroll");
    emit_line(e, top, "for (int i = 0; i < %d; i++)", s->each * s->each);
    emit_line(e, top, "    acc[i / %d][i %% %d] = 0;", s->each, s->each);
    emit_open(e, 0);
    emit_line(e, e->scope,
              "const %s next = first + %d; // fetched while the tile at first is multiplied", it,
              s->tile_k);
    emit_open(e, 0);
    fetch(e, b->dot.a, 1, s->tile_m, "origin_m", "left_next");
    fetch(e, b->dot.b, 2, s->tile_n, "origin_n", "right_next");
    emit_close(e, emit_text(e, "if (next < %lld) {", (long long)k), "}");
    Scope *in = e->scope;
    emit_line(e, in, "if (first >= 0) {");
    emit_line(e, in, "    #pragma unroll");
    emit_line(e, in, "    for (int kk = 0; kk < %d; kk++) {", s->tile_k);
    emit_line(e, in, "        %s x[%d], y[%d];", t, s->each, s->each);
    emit_line(e, in, "        #pragma unroll");
    emit_line(e, in, "        for (int i = 0; i < %d; i++) {", s->each);
    emit_line(e, in, "            x[i] = left[kk][i / %d * %d + ty * %d + i %% %d];", w, 16 * w, w,
              w);
    emit_line(e, in, "            y[i] = right[kk][i / %d * %d + tx * %d + i %% %d];", w, 16 * w, w,
              w);
    emit_line(e, in, "        }");
    emit_line(e, in, "        #pragma unroll");
    emit_line(e, in, "        for (int i = 0; i < %d; i++)", s->each);
    emit_line(e, in, "            #pragma unroll");
    emit_line(e, in, "            for (int j = 0; j < %d; j++)", s->each);
    emit_line(e, in, "                acc[i][j] = acc[i][j] + x[i] * y[j];");
    emit_line(e, in, "    }");
    emit_line(e, in, "}");
    emit_line(e, in, "__syncthreads();");
    put(e, b->dot.a, s->tile_m, "left_next", "left");
    put(e, b->dot.b, s->tile_n, "right_next", "right");
    emit_line(e, in, "__syncthreads();");
    emit_close(e,
               emit_text(e, "for (%s first = -%d; first < %lld; first += %d) {", it, s->tile_k,
                         (long long)k, s->tile_k),
               "}");
    emit_open(e, 0);
    emit_line(e, e->scope, "const %s %s = origin_m + i / %d * %d + ty * %d + i %% %d;", it,
              e->axis[1], w, 16 * w, w, w);
    emit_line(e, e->scope, "const %s %s = origin_n + j / %d * %d + tx * %d + j %% %d;", it,
              e->axis[2], w, 16 * w, w, w);
    emit_open(e, 1ull << 1 | 1ull << 2);
    emit_bind(e, b->dot.sum, e->scope, "acc[i][j]");
    emit_stores(e, -1);
    emit_close(e,
               emit_text(e, "if (%s < %lld && %s < %lld) {", e->axis[1], (long long)m, e->axis[2],
                         (long long)n),
               "}");
    emit_line(e, top, "#pragma unroll");
    emit_close(
        e,
        emit_text(
            e, "for (int i = 0; i < %d; i++)\n%*s#pragma unroll\n%*sfor (int j = 0; j < %d; j++) {",
            s->each, top->indent * 4, "", top->indent * 4, "", s->each),
        "}");
    emit_close(e, NULL, NULL);
}
