// A contraction as CUDA C: a block takes a tile of the result, operands go through shared memory,
// each of its 16 x 16 threads holds a small square of sums. The next tile of the operands is
// fetched into registers while this one is multiplied. Operands and results are any fused
// expressions.
#include "codegen/print.h"

// Whether neighbours along the contracted axis are neighbours in the operand's memory: then threads
// next to each other take these.
static bool runs_along_k(const Body *b, int inst)
{
    int64_t step = 0;
    const Inst *v = &b->insts.at[inst];
    while (v->kind == KI_CAST || (v->kind == KI_EW && v->na > 0)) v = &b->insts.at[v->a[0]];
    return v->kind == KI_LOAD && ix_stride(v->ix, b->col, &step) && step == 1;
}

// Closes a scope that runs where both axes are inside their extents.
static void close_inside(Emit *e, int first, int second)
{
    const Body *b = e->body;
    emit_close(e,
               emit_text(e, "if (%s < %lld && %s < %lld) {", e->axis[first],
                         (long long)b->axis[first].extent, e->axis[second],
                         (long long)b->axis[second].extent),
               "}");
}

// Fetches a tile_k x side tile of operand [inst] (axis: its own axis of the result) into regs.
static void fetch(Emit *e, int inst, int axis, int side, const char *origin, const char *regs)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    bool along_k = runs_along_k(b, inst);
    const char *a = e->axis[axis], *k = e->axis[b->col], *t = b->sched.wide ? "int64_t" : "int";
    Scope *out = e->scope;
    emit_open(e, 0);
    emit_line(e, e->scope, "const int slot = u * %d + threadIdx.x;", s->threads);
    const char *row =
        along_k ? emit_text(e, "slot / %d", s->tile_k) : emit_text(e, "slot %% %d", side);
    const char *col =
        along_k ? emit_text(e, "slot %% %d", s->tile_k) : emit_text(e, "slot / %d", side);
    emit_line(e, e->scope, "const %s %s = %s + %s, %s = next + %s;", t, a, origin, row, k, col);
    emit_line(e, e->scope, "%s[u] = 0;", regs);
    emit_open(e, 1ull << axis | 1ull << b->col);
    const char *x = emit_value(e, inst);
    emit_line(e, e->scope, "%s[u] = %s;", regs, x);
    close_inside(e, axis, b->col);
    emit_line(e, out, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int u = 0; u < %d; u++) {", s->tile_k * side / s->threads),
               "}");
}

static void put(Emit *e, int inst, int side, const char *regs, const char *shared)
{
    const Schedule *s = &e->body->sched;
    emit_line(e, e->scope, "#pragma unroll");
    emit_line(e, e->scope, "for (int u = 0; u < %d; u++) {", s->tile_k * side / s->threads);
    emit_line(e, e->scope, "    const int slot = u * %d + threadIdx.x;", s->threads);
    if (runs_along_k(e->body, inst))
        emit_line(e, e->scope, "    %s[slot %% %d][slot / %d] = %s[u];", shared, s->tile_k,
                  s->tile_k, regs);
    else
        emit_line(e, e->scope, "    %s[slot / %d][slot %% %d] = %s[u];", shared, side, side, regs);
    emit_line(e, e->scope, "}");
}

// The loop over tiles of the contracted axis: multiply prints what becomes of the tile at first,
// while the next one is fetched.
static void over_tiles(Emit *e, const char *t, void (*multiply)(Emit *e, const char *t))
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *it = int_type(e);
    long long k = (long long)b->axis[b->col].extent;
    emit_open(e, 0);
    emit_line(e, e->scope,
              "const %s next = first + %d; // fetched while the tile at first is multiplied", it,
              s->tile_k);
    emit_open(e, 0);
    fetch(e, b->dot.a, 1, s->tile_m, "origin_m", "left_next");
    fetch(e, b->dot.b, 2, s->tile_n, "origin_n", "right_next");
    emit_close(e, emit_text(e, "if (next < %lld) {", k), "}");
    Scope *in = e->scope;
    multiply(e, t);
    emit_line(e, in, "__syncthreads();");
    put(e, b->dot.a, s->tile_m, "left_next", "left");
    put(e, b->dot.b, s->tile_n, "right_next", "right");
    emit_line(e, in, "__syncthreads();");
    emit_close(e,
               emit_text(e, "for (%s first = -%d; first < %lld; first += %d) {", it, s->tile_k, k,
                         s->tile_k),
               "}");
}

// acc + x * y: of floats in one operation.
static const char *added(Emit *e, const char *acc, const char *x, const char *y)
{
    bool fused = dtype_is_float(e->body->insts.at[e->body->dot.sum].acc);
    return emit_text(e, fused ? "nc_fma(%s, %s, %s)" : "%s * %s + %s", x, y, acc);
}

// -- 16 x 16: a result a thread -------------------------------------------------------------------

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
    emit_line(e, in, "            acc[i] = %s;", added(e, "acc[i]", "x[i / 2]", "y[i % 2]"));
    emit_line(e, in, "    }");
    emit_line(e, in, "}");
}

static void tile_small(Emit *e, const char *t)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Scope *top = e->scope;
    emit_line(e, top, "const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;");
    emit_line(e, top, "%s (*const left)[17] = (%s (*)[17])nc_shared;", t, t);
    emit_line(e, top, "%s (*const right)[17] = left + %d;", t, s->tile_k);
    emit_line(e, top, "%s (*const sums)[256] = (%s (*)[256])(right + %d);", t, t, s->tile_k);
    emit_line(e, top, "%s left_next[%d], right_next[%d], acc[8] = {};", t, s->tile_k / 16,
              s->tile_k / 16);
    over_tiles(e, t, multiply_small);
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
              "const %s %s = origin_m + threadIdx.x / 16, %s = origin_n + threadIdx.x %% 16;",
              int_type(e), e->axis[1], e->axis[2]);
    emit_open(e, 1ull << 1 | 1ull << 2)->guard = true;
    emit_bind(e, b->dot.sum, e->scope, "sum");
    emit_stores(e, -1);
    close_inside(e, 1, 2);
}

// -- larger: a square of results a thread ---------------------------------------------------------

// Neighbours a thread takes at once: its square is made of squares of so many.
static int together(const Schedule *s)
{
    return s->each < 4 ? s->each : 4;
}

static void multiply_square(Emit *e, const char *t)
{
    const Schedule *s = &e->body->sched;
    int w = together(s);
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
    emit_line(e, in, "                acc[i][j] = %s;", added(e, "acc[i][j]", "x[i]", "y[j]"));
    emit_line(e, in, "    }");
    emit_line(e, in, "}");
}

static void store_square(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *it = int_type(e);
    int w = together(s);
    Scope *top = e->scope;
    emit_open(e, 0);
    emit_line(e, e->scope, "const %s %s = origin_m + i / %d * %d + ty * %d + i %% %d;", it,
              e->axis[1], w, 16 * w, w, w);
    emit_line(e, e->scope, "const %s %s = origin_n + j / %d * %d + tx * %d + j %% %d;", it,
              e->axis[2], w, 16 * w, w, w);
    emit_open(e, 1ull << 1 | 1ull << 2)->guard = true;
    emit_bind(e, b->dot.sum, e->scope, "acc[i][j]");
    emit_stores(e, -1);
    close_inside(e, 1, 2);
    emit_line(e, top, "#pragma unroll");
    emit_close(
        e,
        emit_text(
            e, "for (int i = 0; i < %d; i++)\n%*s#pragma unroll\n%*sfor (int j = 0; j < %d; j++) {",
            s->each, top->indent * 4, "", top->indent * 4, "", s->each),
        "}");
}

static void tile_square(Emit *e, const char *t)
{
    const Schedule *s = &e->body->sched;
    Scope *top = e->scope;
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
    over_tiles(e, t, multiply_square);
    store_square(e);
}

// Whose tile it is: the batch and where the tile begins.
static void place_tile(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    long long tiles_m = (long long)ceil_div(b->axis[1].extent, s->tile_m);
    long long tiles_n = (long long)ceil_div(b->axis[2].extent, s->tile_n);
    emit_line(e, e->scope, "const %s %s = block / %lld;", int_type(e), e->axis[0],
              tiles_m * tiles_n);
    emit_line(e, e->scope,
              "const int origin_m = block / %lld %% %lld * %d, origin_n = block %% %lld * %d;",
              tiles_n, tiles_m, s->tile_m, tiles_n, s->tile_n);
}

void tile_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    if (s->share || s->wgmma || s->staged || s->mma) {
        (s->share ? small_cuda : s->wgmma ? wgmma_cuda : tile_program_cuda)(e);
        return;
    }
    const char *t = type_math(b->insts.at[b->dot.sum].acc);
    emit_open(e, 1); // batch
    e->scope->indent--;
    place_tile(e);
    (s->each ? tile_square : tile_small)(e, t);
    emit_close(e, NULL, NULL);
}
