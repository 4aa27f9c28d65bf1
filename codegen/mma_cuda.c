// A contraction of bf16 or f16 operands on tensor cores, as CUDA C: tile_cuda.c's plan with mma
// instead of multiplications. Operands go to shared memory as 16-bit elements, laid out the way
// they come from memory: along the columns, or along the result's axis (then ldmatrix turns them).
//
// Operands that are plain aligned arrays are copied asynchronously, several tiles ahead. Any other
// expression is computed into registers, eight elements at once, while the tile before it is
// multiplied. The sums of a warp pass through shared memory once more, so that what follows them
// (any fused expression, any number of results) is read and written by whole vectors.
#include "codegen/wgmma.h"

enum { VECTOR = 8, WARPS_M = 2, WARPS_N = 4, AHEAD = 4 };

// A 16-bit float that the body widens before multiplying; DT_BOOL: something else.
static DType narrow_type(const Body *b, int inst)
{
    const Inst *v = &b->insts.at[inst];
    if (v->kind != KI_CAST || (v->from != DT_BF16 && v->from != DT_F16)) return DT_BOOL;
    return v->from;
}

bool mma_fits(const Body *b)
{
    DType a = narrow_type(b, b->dot.a);
    return a != DT_BOOL && a == narrow_type(b, b->dot.b) && b->insts.at[b->dot.sum].acc == DT_F32;
}

typedef struct Operand {
    const char *name, *origin; // "left", "origin_m"
    int inst, axis;            // the 16-bit value; 1: m, 2: n
    bool along_k;              // neighbours in memory are columns
    bool plain;                // aligned vectors of a buffer
    int side, pitch;           // extent along its axis; elements between rows in shared memory
} Operand;

static Operand operand_of(const Body *b, int axis)
{
    const Schedule *s = &b->sched;
    Operand o = {.name = axis == 1 ? "left" : "right",
                 .origin = axis == 1 ? "origin_m" : "origin_n",
                 .inst = b->insts.at[axis == 1 ? b->dot.a : b->dot.b].a[0],
                 .axis = axis,
                 .side = axis == 1 ? s->tile_m : s->tile_n};
    const Inst *v = &b->insts.at[o.inst];
    while (v->kind == KI_CAST || (v->kind == KI_EW && v->na > 0)) v = &b->insts.at[v->a[0]];
    int64_t by_k = 0, by_axis = 0;
    bool load = v->kind == KI_LOAD && !v->ix->has_value;
    o.along_k = !load || !ix_stride(v->ix, axis, &by_axis) || by_axis != 1 ||
                (ix_stride(v->ix, b->col, &by_k) && by_k == 1);
    int inner = o.along_k ? b->col : axis;
    int64_t step = 0;
    o.plain = load && v == &b->insts.at[o.inst] && v->pred < 0 && ix_stride(v->ix, inner, &step) &&
              step == 1 && ix_aligned(v->ix, inner, VECTOR) && b->axis[inner].extent % VECTOR == 0;
    o.pitch = (o.along_k ? s->tile_k : o.side) + VECTOR;
    return o;
}

static int tile_elements(const Body *b, const Operand *o)
{
    return (o->along_k ? o->side : b->sched.tile_k) * o->pitch;
}

static int tiles_ahead(const Operand *a, const Operand *b)
{
    return a->plain && b->plain ? AHEAD : 2;
}

int mma_shared_bytes(const Body *b)
{
    Operand x = operand_of(b, 1), y = operand_of(b, 2);
    int operands = 2 * tiles_ahead(&x, &y) * (tile_elements(b, &x) + tile_elements(b, &y));
    int sums = WARPS_M * WARPS_N * 16 * (b->sched.tile_n / WARPS_N + 4) * 4;
    return operands > sums ? operands : sums;
}

// In a loop over u: the vector number [slot] of the tile at column "next", its first element under
// the axes' names.
static void place_vector(Emit *e, const Operand *o)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *t = s->wide ? "int64_t" : "int";
    int row = (o->along_k ? s->tile_k : o->side) / VECTOR; // vectors of one
    emit_line(e, e->scope, "const int slot = u * %d + threadIdx.x;", s->threads);
    const char *major = emit_text(e, "slot / %d", row),
               *minor = emit_text(e, "slot %% %d * %d", row, VECTOR);
    emit_line(e, e->scope, "const %s %s = %s + %s, %s = next + %s;", t, e->axis[o->axis], o->origin,
              o->along_k ? major : minor, e->axis[b->col], o->along_k ? minor : major);
}

static int vectors_of(const Body *b, const Operand *o)
{
    return o->side * b->sched.tile_k / VECTOR;
}

static void close_vectors(Emit *e, const Operand *o)
{
    const Schedule *s = &e->body->sched;
    int n = vectors_of(e->body, o);
    Scope *out = e->scope->up;
    emit_line(e, out, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int u = 0; u < %d; u++) {", (n + s->threads - 1) / s->threads),
               "}");
}

// Where vector [slot] lies in the tile.
static const char *place_in_tile(Emit *e, const Operand *o)
{
    int row = (o->along_k ? e->body->sched.tile_k : o->side) / VECTOR;
    return emit_text(e, "slot / %d * %d + slot %% %d * %d", row, o->pitch, row, VECTOR);
}

static const char *in_range(Emit *e, const Operand *o)
{
    const Body *b = e->body;
    return emit_text(e, "%s < %lld && %s < %lld", e->axis[o->axis],
                     (long long)b->axis[o->axis].extent, e->axis[b->col],
                     (long long)b->axis[b->col].extent);
}

static const char *guard_slot(Emit *e, const Operand *o)
{
    int n = vectors_of(e->body, o);
    return n % e->body->sched.threads ? emit_text(e, "if (slot < %d) ", n) : "";
}

// Starts copying the tile at column "next" into [slot] of the ring.
static void copy_tile(Emit *e, const Operand *o, const char *ring)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[o->inst];
    emit_open(e, 1ull << o->axis | 1ull << b->col);
    place_vector(e, o);
    const char *from = emit_index(e, v->ix);
    emit_line(e, e->scope, "%snc_copy16(%s + %s * %d + %s, %s + (%s), %s);", guard_slot(e, o),
              o->name, ring, tile_elements(b, o), place_in_tile(e, o), e->buf_name[v->buf], from,
              in_range(e, o));
    close_vectors(e, o);
}

// Computes the tile at column "next" into registers.
static void fetch_tile(Emit *e, const Operand *o, DType type)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[o->inst];
    const char *t = b->sched.wide ? "int64_t" : "int";
    int inner = o->along_k ? b->col : o->axis;
    emit_open(e, o->plain ? 1ull << o->axis | 1ull << b->col : 0);
    place_vector(e, o);
    emit_line(e, e->scope, "%s_next[u] = {};", o->name);
    if (o->plain) {
        const char *from = emit_index(e, v->ix);
        emit_line(e, e->scope, "if (%s) %s_next[u] = nc_load<%d>(%s + (%s));", in_range(e, o),
                  o->name, VECTOR, e->buf_name[v->buf], from);
        close_vectors(e, o);
        return;
    }
    // each element by itself, with its own bounds
    emit_line(e, e->scope, "NcVec<float, %d> %s_of;", VECTOR, o->name);
    Scope *vector = e->scope;
    const char *axis = e->axis[inner], *first = emit_text(e, "%s_first", axis);
    emit_line(e, vector, "const %s %s = %s;", t, first, axis);
    emit_open(e, 0);
    emit_line(e, e->scope, "const %s %s = %s + lane;", t, axis, first);
    emit_line(e, e->scope, "%s_of.at[lane] = 0;", o->name);
    emit_open(e, 1ull << o->axis | 1ull << b->col);
    const char *x = emit_value(e, o->inst);
    emit_line(e, e->scope, "%s_of.at[lane] = %s;", o->name, x);
    emit_close(e, emit_text(e, "if (%s) {", in_range(e, o)), "}");
    close_lane_loop(e, VECTOR);
    emit_line(e, vector, "%s_next[u] = %s(%s_of);", o->name,
              type == DT_BF16 ? "nc_pack_b" : "nc_pack_h", o->name);
    close_vectors(e, o);
}

static void put_tile(Emit *e, const Operand *o, const char *ring)
{
    emit_open(e, 0);
    emit_line(e, e->scope, "const int slot = u * %d + threadIdx.x;", e->body->sched.threads);
    emit_line(e, e->scope, "%snc_store<%d>(%s + %s * %d + %s, %s_next[u]);", guard_slot(e, o),
              VECTOR, o->name, ring, tile_elements(e->body, o), place_in_tile(e, o), o->name);
    close_vectors(e, o);
}

// Multiplies the tile in [ring] of the ring: 16 columns at a time from shared memory to registers.
static void multiply(Emit *e, const Operand *a, const Operand *b, DType type, const char *ring)
{
    const Body *body = e->body;
    const Schedule *s = &body->sched;
    Scope *in = e->scope;
    int mt = s->tile_m / WARPS_M / 16, nt = s->tile_n / WARPS_N / 8;
    emit_line(e, in, "#pragma unroll");
    emit_line(e, in, "for (int kk = 0; kk < %d; kk += 16) {", s->tile_k);
    emit_line(e, in, "    uint32_t x[%d][4], y[%d][2];", mt, nt);
    emit_line(e, in, "    #pragma unroll");
    emit_line(e, in, "    for (int i = 0; i < %d; i++)", mt);
    const char *base = emit_text(e, "left + (%s) * %d", ring, tile_elements(body, a));
    if (a->along_k)
        emit_line(e, in,
                  "        nc_matrices4(x[i], %s + (warp_m + i * 16 + thread %% 16) * %d + kk + "
                  "thread / 16 * 8);",
                  base, a->pitch);
    else
        emit_line(e, in,
                  "        nc_turned4(x[i], %s + (kk + thread / 16 * 8 + thread %% 8) * %d + "
                  "warp_m + i * 16 + thread / 8 %% 2 * 8);",
                  base, a->pitch);
    base = emit_text(e, "right + (%s) * %d", ring, tile_elements(body, b));
    // four matrices are two neighbours in n, two matrices one
    int by = nt > 1 ? 2 : 1;
    emit_line(e, in, "    #pragma unroll");
    emit_line(e, in, "    for (int j = 0; j < %d; j += %d)", nt, by);
    const char *n = emit_text(e, "warp_n + j * 8%s", nt > 1 ? " + thread / 16 * 8" : "");
    if (b->along_k)
        emit_line(e, in,
                  "        nc_matrices%d(y[j], %s + (%s + thread %% 8) * %d + kk + thread / 8 %% 2 "
                  "* 8);",
                  2 * by, base, n, b->pitch);
    else
        emit_line(e, in,
                  "        nc_turned%d(y[j], %s + (kk + thread / 8 %% 2 * 8 + thread %% 8) * %d + "
                  "%s);",
                  2 * by, base, b->pitch, n);
    emit_line(e, in, "    #pragma unroll");
    emit_line(e, in, "    for (int i = 0; i < %d; i++)", mt);
    emit_line(e, in, "        #pragma unroll");
    emit_line(e, in, "        for (int j = 0; j < %d; j++)", nt);
    emit_line(e, in, "            nc_mma_%s(acc[i][j], x[i], y[j]);", type == DT_BF16 ? "b" : "h");
    emit_line(e, in, "}");
}

// Whether that place of the result is one. (Tiles that end with the result need no test: what
// follows from several vectors may overlap.)
static const char *finish_range(Emit *e, const char *base)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int64_t m = b->axis[1].extent, n = b->axis[2].extent,
            high = (int64_t)s->tile_m * (s->cluster > 1 ? s->cluster : 1) *
                   (s->wgmma ? group_apart(b) : 1);
    const char *row = m % high ? emit_text(e, "%s < %lld", e->axis[1], (long long)m) : "",
               *col = n % s->tile_n ? emit_text(e, "%s < %lld", base, (long long)n) : "";
    if (!*row && !*col) return "{";
    return emit_text(e, "if (%s%s%s) {", row, *row && *col ? " && " : "", col);
}

static void store_vectors(Emit *e, Vectors *v)
{
    flush_stores(e, v, -1);
}

// In a scope that knows axis 1 and, as [base], the first of [width] neighbours along axis 2: what
// the body makes of the sums, of which [sum] is the one of this "lane". store: prints what is done
// with whole vectors of results.
void finish_vector(Emit *e, const char *base, int width, const char *sum,
                   void (*store)(Emit *e, Vectors *v))
{
    const Body *b = e->body;
    const char *axis = e->axis[2];
    int64_t n = b->axis[2].extent;
    bool whole = n % width == 0;
    emit_open(e, 1ull << 1)->guard = true; // in range
    Vectors v = find_vectors(e, 2, whole ? width : 1);
    int kept = 0;
    for (int i = 0; i < v.nloads; i++) // not the operands
        if (!inst_over(&b->insts.at[v.loads[i]], b->col)) v.loads[kept++] = v.loads[i];
    v.nloads = kept;
    e->axis[2] = base;
    for (int i = 0; i < v.nloads; i++)
        print_vector_load(e, &v, v.loads[i], slot_name(e, v.loads[i]), true);
    e->axis[2] = axis;
    if (whole) open_stores(e, &v, -1);
    emit_open(e, 0);
    emit_line(e, e->scope, "const %s %s = %s + lane;", int_type(e), axis, base);
    emit_open(e, 1ull << 2)->guard = !whole;
    print_lane(e, &v, "");
    emit_bind(e, b->dot.sum, e->scope, sum);
    lane_stores(e, &v, -1);
    emit_close(e, whole ? "{" : emit_text(e, "if (%s < %lld) {", axis, (long long)n), "}");
    close_lane_loop(e, width);
    if (whole) {
        e->axis[2] = base;
        store(e, &v);
        e->axis[2] = axis;
    }
    emit_close(e, finish_range(e, base), "}");
}

// What the body makes of the sums, from shared memory, a vector of neighbours in n a thread.
static void finish_sums(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *t = s->wide ? "int64_t" : "int", *axis = e->axis[2],
               *base = emit_text(e, "%s_first", axis);
    int mt = s->tile_m / WARPS_M / 16, wide = s->tile_n / WARPS_N, pitch = wide + 4;
    Scope *top = e->scope;
    emit_line(e, top, "__syncthreads();");
    emit_line(e, top, "float *const sums = (float *)nc_shared + threadIdx.x / 32 * %d;",
              16 * pitch);
    emit_open(e, 0); // 16 rows of a warp's part
    Scope *rows = e->scope;
    emit_line(e, rows, "__syncwarp();");
    emit_line(e, rows, "#pragma unroll");
    emit_line(e, rows, "for (int j = 0; j < %d; j++)", wide / 8);
    emit_line(e, rows, "    #pragma unroll");
    emit_line(e, rows, "    for (int h = 0; h < 4; h++)");
    emit_line(e, rows,
              "        sums[(thread / 4 + h / 2 * 8) * %d + j * 8 + thread %% 4 * 2 + h %% 2] = "
              "acc[i][j][h];",
              pitch);
    emit_line(e, rows, "__syncwarp();");
    emit_open(e, 0); // vectors
    emit_line(e, e->scope, "const int row = slot / %d, from = slot %% %d * %d;", wide / VECTOR,
              wide / VECTOR, VECTOR);
    emit_line(e, e->scope, "const %s %s = origin_m + warp_m + i * 16 + row;", t, e->axis[1]);
    emit_line(e, e->scope, "const %s %s = origin_n + warp_n + from;", t, base);
    finish_vector(e, base, VECTOR, emit_text(e, "sums[row * %d + from + lane]", pitch),
                  store_vectors);
    emit_close(e,
               emit_text(e, "for (int slot = thread; slot < %d; slot += 32) {", 16 * wide / VECTOR),
               "}");
    emit_line(e, top, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int i = 0; i < %d; i++) {", mt), "}");
}

// After the block's place in the result is known: the whole rest of the kernel.
void mma_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    DType type = narrow_type(b, b->dot.a);
    Operand x = operand_of(b, 1), y = operand_of(b, 2);
    int ring = tiles_ahead(&x, &y), mt = s->tile_m / WARPS_M / 16, nt = s->tile_n / WARPS_N / 8;
    const char *it = s->wide ? "int64_t" : "int";
    int64_t steps = (b->axis[b->col].extent + s->tile_k - 1) / s->tile_k;
    Scope *top = e->scope;
    emit_line(e, top, "const int thread = threadIdx.x %% 32;");
    emit_line(e, top,
              "const int warp_m = threadIdx.x / %d * %d, warp_n = threadIdx.x / 32 %% %d * %d;",
              32 * WARPS_N, s->tile_m / WARPS_M, WARPS_N, s->tile_n / WARPS_N);
    emit_line(e, top, "uint16_t *const left = (uint16_t *)nc_shared, *const right = left + %d;",
              ring * tile_elements(b, &x));
    emit_line(e, top, "float acc[%d][%d][4] = {};", mt, nt);
    bool async = x.plain && y.plain;
    if (!async)
        emit_line(e, top, "NcVec<uint16_t, %d> left_next[%d], right_next[%d];", VECTOR,
                  (vectors_of(b, &x) + s->threads - 1) / s->threads,
                  (vectors_of(b, &y) + s->threads - 1) / s->threads);
    emit_open(e, 0); // over the columns, a tile at a time
    Scope *step = e->scope;
    if (async) {
        emit_line(e, step, "if (step >= 0) {");
        emit_line(e, step, "    nc_copied<%d>(); // the tile of this step is there", ring - 2);
        emit_line(e, step, "    __syncthreads();");
        emit_line(e, step, "}");
        emit_open(e, 0);
        emit_line(e, e->scope, "const %s next = (%s)(step + %d) * %d;", it, it, ring - 1,
                  s->tile_k);
        emit_line(e, e->scope, "const int place = (step + %d) %% %d;", ring - 1, ring);
        copy_tile(e, &x, "place");
        copy_tile(e, &y, "place");
        emit_close(e, emit_text(e, "if (step + %d < %lld) {", ring - 1, (long long)steps), "}");
        emit_line(e, step, "nc_copies_end();");
    } else {
        emit_open(e, 0);
        emit_line(e, e->scope, "const %s next = (%s)(step + 1) * %d;", it, it, s->tile_k);
        fetch_tile(e, &x, type);
        fetch_tile(e, &y, type);
        emit_close(e, emit_text(e, "if (step + 1 < %lld) {", (long long)steps), "}");
    }
    emit_open(e, 0);
    multiply(e, &x, &y, type, emit_text(e, "step %% %d", ring));
    emit_close(e, "if (step >= 0) {", "}");
    if (!async) {
        emit_open(e, 0);
        emit_line(e, e->scope, "const int place = (step + 1) %% %d;", ring);
        put_tile(e, &x, "place");
        put_tile(e, &y, "place");
        emit_close(e, emit_text(e, "if (step + 1 < %lld) {", (long long)steps), "}");
        emit_line(e, step, "__syncthreads();");
    }
    emit_close(e,
               emit_text(e, "for (int step = %d; step < %lld; step++) {", async ? 1 - ring : -1,
                         (long long)steps),
               "}");
    finish_sums(e);
    emit_close(e, NULL, NULL);
}
