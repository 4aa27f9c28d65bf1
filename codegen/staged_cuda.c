// A contraction of f32 on tensor cores, of middle size, as CUDA C: a block takes a tile of the
// result whose operands pass through a ring of tiles in shared memory. Operands that are plain
// aligned arrays are copied asynchronously, others are computed into registers and put there. The
// blocks of a cluster may share the columns (k) of a tile: each has sums of its own, in shared
// memory, of which each then joins and finishes a share of the rows.
//
// A warp takes 32 x 32 results. As in small_cuda.c, which columns meet in one instruction does not
// matter as long as both operands agree: thread 4 g + t takes columns 4 t .. 4 t + 3 of a chunk of
// 16, and the rows 4 g .. 4 g + 3. So either is a vector of shared memory. Vectors change places
// within their line (by exclusive or), so that those a warp reads at once lie in different banks.
#include "codegen/print_cuda.h"

enum { VECTOR = 4, CHUNK = 16, SIDE = STAGED_SIDE };

typedef struct Operand {
    const char *name, *origin; // "left", "origin_m"
    int inst, axis;            // 1: m, 2: n
    bool along_k;              // neighbours in memory are columns
    bool plain;                // aligned vectors of a buffer
    int side;                  // extent of its tile along its axis
    int line;                  // elements that lie side by side in shared memory
} Operand;

static Operand operand_of(const Body *b, int axis)
{
    const Schedule *s = &b->sched;
    Operand o = {.name = axis == 1 ? "left" : "right",
                 .origin = axis == 1 ? "origin_m" : "origin_n",
                 .inst = axis == 1 ? b->dot.a : b->dot.b,
                 .axis = axis,
                 .side = axis == 1 ? s->tile_m : s->tile_n};
    const Inst *v = &b->insts.at[o.inst];
    o.along_k = operand_along_k(b, o.inst);
    int inner = o.along_k ? b->col : axis;
    int64_t step = 0;
    o.plain = v->kind == KI_LOAD && b->bufs.at[v->buf].type == DT_F32 && v->pred < 0 &&
              b->bufs.at[v->buf].kind != KA_LOOP_INDEX && !v->ix->has_value &&
              ix_stride(v->ix, inner, &step) && step == 1 && ix_aligned(v->ix, inner, VECTOR) &&
              b->axis[inner].extent % VECTOR == 0;
    o.line = o.along_k ? s->tile_k : o.side;
    return o;
}

static int64_t tiles_along(const Body *b, int axis)
{
    int side = axis == 1 ? b->sched.tile_m : b->sched.tile_n;
    return (b->axis[axis].extent + side - 1) / side;
}

static int vectors_a_thread(const Schedule *s, const Operand *o)
{
    return (o->side * s->tile_k / VECTOR + s->threads - 1) / s->threads;
}

// In a loop over u: the line and the vector in it that this thread fetches.
static void place_vector(Emit *e, const Operand *o)
{
    const Schedule *s = &e->body->sched;
    int row = o->line / VECTOR;
    emit_line(e, e->scope, "const int slot = u * %d + threadIdx.x;", s->threads);
    emit_line(e, e->scope, "const int line = slot / %d, part = slot %% %d;", row, row);
}

// Where that vector lies in the tile.
static const char *place_in_tile(Emit *e, const Operand *o)
{
    return o->along_k ? emit_text(e, "line * %d + (part ^ line / 4 %% 2 * 4) * 4", o->line)
                      : emit_text(e, "line * %d + (part ^ line / 4 %% 4 * 2) * 4", o->line);
}

static void close_vectors(Emit *e, const Operand *o)
{
    const Schedule *s = &e->body->sched;
    int n = o->side * s->tile_k / VECTOR;
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e,
               emit_text(e, "for (int u = 0; u < %d%s; u++) {", vectors_a_thread(s, o),
                         n % s->threads
                             ? emit_text(e, " && u * %d + threadIdx.x < %d", s->threads, n)
                             : ""),
               "}");
}

// The axes of the vector: its line's, and its first element's under the name [first].
static void name_axes(Emit *e, const Operand *o, const char *first)
{
    const Body *b = e->body;
    const char *t = b->sched.wide ? "int64_t" : "int", *k = e->axis[b->col],
               *own = e->axis[o->axis];
    emit_line(e, e->scope, "const %s %s = %s + line;", t, o->along_k ? own : k,
              o->along_k ? o->origin : "next");
    emit_line(e, e->scope, "const %s %s = %s + part * %d;", t, first,
              o->along_k ? "next" : o->origin, VECTOR);
}

static int inner_axis(const Body *b, const Operand *o)
{
    return o->along_k ? b->col : o->axis;
}

static bool inside(const Body *b, const Operand *o, int axis) // all tiles are, along the axis
{
    const Schedule *s = &b->sched;
    return axis == b->col ? b->axis[axis].extent % ((int64_t)s->tile_k * s->cluster) == 0
                          : b->axis[axis].extent % o->side == 0;
}

// Starts copying the tile at column "next" to place "place" of the ring.
static void copy_tile(Emit *e, const Operand *o)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[o->inst];
    emit_open(e, 1ull << o->axis | 1ull << b->col);
    place_vector(e, o);
    name_axes(e, o, e->axis[inner_axis(b, o)]);
    const char *from = emit_index(e, v->ix);
    Buf there = buf_new(e->arena);
    int axes[] = {o->axis, b->col};
    for (int i = 0; i < 2; i++)
        if (!inside(b, o, axes[i]))
            buf_printf(&there, "%s%s < %lld", there.len ? " && " : "", e->axis[axes[i]],
                       (long long)b->axis[axes[i]].extent);
    emit_line(e, e->scope, "nc_copy16(%s + place * %d + %s, %s + (%s), %s);", o->name,
              o->side * b->sched.tile_k, place_in_tile(e, o), e->buf_name[v->buf], from,
              there.len ? there.data : "true");
    close_vectors(e, o);
}

// Computes the tile at column "next" into registers.
static void fetch_tile(Emit *e, const Operand *o)
{
    const Body *b = e->body;
    int inner = inner_axis(b, o), outer = o->along_k ? o->axis : b->col;
    const char *first = emit_text(e, "%s_first", e->axis[inner]);
    emit_open(e, 0);
    place_vector(e, o);
    name_axes(e, o, first);
    emit_line(e, e->scope, "%s_next[u] = {};", o->name);
    emit_open(e, 1ull << outer); // what only the line decides may be a lookup: none outside
    operand_vector(e, o->inst, inner, VECTOR, inside(b, o, inner), first,
                   emit_text(e, "%s_next[u].at[v]", o->name));
    operand_close(e, inside(b, o, outer), e->axis[outer], b->axis[outer].extent);
    close_vectors(e, o);
}

static bool rounds(const Body *b) // operands are rounded once, in shared memory
{
    return b->dot.tensor == TENSOR_TF32;
}

static void put_tile(Emit *e, const Operand *o)
{
    emit_open(e, 0);
    place_vector(e, o);
    emit_line(e, e->scope, "nc_store<%d>(%s + place * %d + %s, %s%s_next[u]%s);", VECTOR, o->name,
              o->side * e->body->sched.tile_k, place_in_tile(e, o),
              rounds(e->body) ? "nc_rounded(" : "", o->name, rounds(e->body) ? ")" : "");
    close_vectors(e, o);
}

// Rounds what this thread has copied to place "place" of the ring: all of it is read before any is
// written, so that the reads are in flight together.
static void round_tile(Emit *e, const Operand *o, bool write)
{
    const Schedule *s = &e->body->sched;
    if (!write)
        emit_line(e, e->scope, "NcVec<float, 4> %s_raw[%d];", o->name, vectors_a_thread(s, o));
    emit_open(e, 0);
    place_vector(e, o);
    const char *at =
        emit_text(e, "%s + place * %d + %s", o->name, o->side * s->tile_k, place_in_tile(e, o));
    if (write)
        emit_line(e, e->scope, "nc_store<%d>(%s, nc_rounded(%s_raw[u]));", VECTOR, at, o->name);
    else
        emit_line(e, e->scope, "%s_raw[u] = nc_load<%d>((const float *)%s);", o->name, VECTOR, at);
    close_vectors(e, o);
}

// Vectors of a chunk of an operand that thread 4 g + t multiplies.
static void load_operand(Emit *e, const Operand *o, const char *warp, const char *to)
{
    int elements = o->side * e->body->sched.tile_k;
    emit_line(e, e->scope, "#pragma unroll");
    emit_line(e, e->scope, "for (int i = 0; i < 4; i++)");
    if (o->along_k)
        emit_line(e, e->scope,
                  "    %s[i] = nc_load<4>((const float *)%s + place * %d + (%s + lane / 4 * 4 + i) "
                  "* %d + "
                  "((c * 4 + lane %% 4) ^ lane / 4 %% 2 * 4) * 4);",
                  to, o->name, elements, warp, o->line);
    else
        emit_line(e, e->scope,
                  "    %s[i] = nc_load<4>((const float *)%s + place * %d + (c * 16 + lane %% 4 * 4 "
                  "+ i) * %d + "
                  "((%s / 4 + lane / 4) ^ lane %% 4 * 2) * 4);",
                  to, o->name, elements, o->line, warp);
}

// Row [row] and column [col] of four of the operand loaded.
static const char *element(Emit *e, const Operand *o, const char *of, const char *row,
                           const char *col)
{
    return o->along_k ? emit_text(e, "%s[%s].at[%s]", of, row, col)
                      : emit_text(e, "%s[%s].at[%s]", of, col, row);
}

// Multiplies the tile in place "place" of the ring.
static void multiply(Emit *e, const Operand *a, const Operand *b)
{
    const Schedule *s = &e->body->sched;
    const char *mma = rounds(e->body) ? "nc_mma_tf32" : "nc_mma_f32";
    int share = staged_sharing(s), chunks = s->tile_k / CHUNK;
    emit_open(e, 0);
    emit_line(e, e->scope, "NcVec<float, 4> x[4], y[4];");
    load_operand(e, a, "warp_m", "x");
    load_operand(e, b, "warp_n", "y");
    emit_line(e, e->scope, "#pragma unroll");
    emit_line(e, e->scope, "for (int i = 0; i < 16; i++) { // two columns, tiles of 16 x 8");
    emit_line(e, e->scope, "    const int q = i / 8 * 2, m = i / 4 %% 2, n = i %% 4;");
    emit_line(e, e->scope, "    %s(sums[m][n], %s, %s,", mma, element(e, a, "x", "2 * m", "q"),
              element(e, a, "x", "2 * m + 1", "q"));
    emit_line(e, e->scope, "        %s, %s, %s, %s);", element(e, a, "x", "2 * m", "q + 1"),
              element(e, a, "x", "2 * m + 1", "q + 1"), element(e, b, "y", "n", "q"),
              element(e, b, "y", "n", "q + 1"));
    emit_line(e, e->scope, "}");
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e,
               share > 1 ? emit_text(e, "for (int c = warp %% %d; c < %d; c += %d) {", share,
                                     chunks, share)
                         : emit_text(e, "for (int c = 0; c < %d; c++) {", chunks),
               "}");
}

// In the loop over u of finish: the place of a vector of results; opens the scope where it is one.
static void open_results(Emit *e, int rows, const char *base)
{
    const Schedule *s = &e->body->sched;
    const char *t = s->wide ? "int64_t" : "int";
    int row = s->tile_n / VECTOR;
    emit_open(e, 0);
    emit_line(e, e->scope, "const int slot = u * %d + threadIdx.x;", s->threads);
    emit_line(e, e->scope, "const int row = %sslot / %d, from = slot %% %d * %d;",
              s->cluster > 1 ? emit_text(e, "part * %d + ", rows) : "", row, row, VECTOR);
    emit_line(e, e->scope, "const %s %s = origin_m + row;", t, e->axis[1]);
    emit_line(e, e->scope, "const %s %s = origin_n + from;", t, base);
    emit_open(e, 1ull << 1);
}

static void close_results(Emit *e, int rows, const char *base)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int n = rows * s->tile_n / VECTOR;
    emit_close(e,
               emit_text(e, "if (%s < %lld && %s < %lld) {", e->axis[1],
                         (long long)b->axis[1].extent, base, (long long)b->axis[2].extent),
               "}");
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e,
               emit_text(e, "for (int u = 0; u < %d%s; u++) {", (n + s->threads - 1) / s->threads,
                         n % s->threads
                             ? emit_text(e, " && u * %d + threadIdx.x < %d", s->threads, n)
                             : ""),
               "}");
}

// The sums of all who share the columns, in a fixed order.
static void join_sums(Emit *e)
{
    const Schedule *s = &e->body->sched;
    int parts = s->cluster * staged_sharing(s), share = staged_sharing(s);
    emit_line(e, e->scope, "NcVec<float, 4> sum = {};");
    emit_line(e, e->scope, "#pragma unroll");
    emit_line(e, e->scope, "for (int w = 0; w < %d; w++) {", parts);
    const char *from =
        emit_text(e, "all + (w %% %d * %d + row) * %d + from", share, s->tile_m, staged_pitch(s));
    if (s->cluster > 1) from = emit_text(e, "nc_of_block(%s, first_part + w / %d)", from, share);
    emit_line(e, e->scope, "    const NcVec<float, 4> more = nc_load<4>(%s);", from);
    emit_line(e, e->scope, "    #pragma unroll");
    emit_line(e, e->scope, "    for (int v = 0; v < 4; v++) sum.at[v] = sum.at[v] + more.at[v];");
    emit_line(e, e->scope, "}");
}

// What becomes of the sums, a vector of neighbours in n at a time.
static void finish(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    enum { MOST_AHEAD = 64 }; // values a thread fetches before the sums are joined
    const char *t = s->wide ? "int64_t" : "int", *axis = e->axis[2],
               *base = emit_text(e, "%s_first", axis);
    int rows = s->tile_m / s->cluster;
    int each = (rows * s->tile_n / VECTOR + s->threads - 1) / s->threads;
    bool whole = b->axis[2].extent % VECTOR == 0;
    const bool *operand = operand_expression(e, b->dot.a, b->dot.b);
    Scope *top = e->scope;
    emit_line(e, top, "__syncthreads(); // the operands have been read");
    emit_line(e, top, "float *const all = (float *)nc_shared;");
    emit_line(e, top,
              "float *const own = all + %s(warp_m + lane / 4 * 4) * %d + warp_n + lane %% 4 * 8;",
              staged_sharing(s) > 1 ? emit_text(e, "warp %% %d * %d + ", staged_sharing(s),
                                                s->tile_m * staged_pitch(s))
                                    : "",
              staged_pitch(s));
    emit_line(e, top, "#pragma unroll");
    emit_line(e, top, "for (int i = 0; i < 8; i++) {");
    emit_line(e, top, "    NcVec<float, 4> v;");
    emit_line(e, top, "    #pragma unroll");
    emit_line(e, top, "    for (int n = 0; n < 4; n++) v.at[n] = sums[i / 4][n][i %% 4];");
    emit_line(e, top, "    nc_store<4>(own + i / 2 * %d + i %% 2 * 4, v);", staged_pitch(s));
    emit_line(e, top, "}");
    Vectors v = find_vectors(e, 2, whole ? VECTOR : 1);
    int kept = 0, ahead = 0;
    for (int i = 0; i < v.nloads; i++) {
        const Inst *x = &b->insts.at[v.loads[i]];
        if (!inst_over(x, b->col) && !operand[v.loads[i]] &&
            b->bufs.at[x->buf].kind != KA_LOOP_INDEX)
            v.loads[kept++] = v.loads[i];
    }
    v.nloads = kept;
    for (int i = 0; i < v.nloads; i++) // those that are fetched ahead come first
        if (is_plain(e, v.loads[i]) && (ahead + 1) * VECTOR * each <= MOST_AHEAD) {
            int load = v.loads[i];
            v.loads[i] = v.loads[ahead];
            v.loads[ahead++] = load;
        }
    for (int i = 0; i < ahead; i++)
        emit_line(e, top, "%s %s[%d];",
                  vec_type(e, b->bufs.at[b->insts.at[v.loads[i]].buf].type, VECTOR),
                  slot_name(e, v.loads[i]), each);
    if (ahead) {
        open_results(e, rows, base);
        e->axis[2] = base;
        for (int i = 0; i < ahead; i++)
            print_vector_load(e, &v, v.loads[i], emit_text(e, "%s[u]", slot_name(e, v.loads[i])),
                              false);
        e->axis[2] = axis;
        close_results(e, rows, base);
    }
    if (b->commits)
        emit_line(e, top, "if (failed) return; // a check has failed: nothing is committed");
    emit_line(e, top, s->cluster > 1 ? "nc_cluster_wait();" : "__syncthreads();");
    open_results(e, rows, base);
    Scope *vector = e->scope;
    e->axis[2] = base;
    for (int i = ahead; i < v.nloads; i++)
        print_vector_load(e, &v, v.loads[i], slot_name(e, v.loads[i]), true);
    e->axis[2] = axis;
    if (whole) open_stores(e, &v, -1);
    join_sums(e);
    emit_open(e, 0);
    emit_line(e, e->scope, "const %s %s = %s + lane;", t, axis, base);
    emit_open(e, 1ull << 2);
    for (int i = 0; i < v.nloads; i++)
        e->element[v.loads[i]] =
            emit_text(e, "%s%s.at[lane]", slot_name(e, v.loads[i]), i < ahead ? "[u]" : "");
    emit_bind(e, b->dot.sum, e->scope, "sum.at[lane]");
    lane_stores(e, &v, -1);
    operand_close(e, whole, axis, b->axis[2].extent);
    emit_close(e,
               emit_text(e, "#pragma unroll\n%*sfor (int lane = 0; lane < %d; lane++) {",
                         vector->indent * 4, "", VECTOR),
               "}");
    if (whole) {
        e->axis[2] = base;
        flush_stores(e, &v, -1);
        e->axis[2] = axis;
    }
    close_results(e, rows, base);
    if (s->cluster > 1) emit_line(e, top, "nc_cluster_wait(); // the others have read these sums");
}

void staged_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Operand x = operand_of(b, 1), y = operand_of(b, 2);
    const Operand *operand[] = {&x, &y};
    const char *it = s->wide ? "int64_t" : "int";
    int64_t across = tiles_along(b, 2), per_batch = tiles_along(b, 1) * across;
    int64_t step = (int64_t)s->tile_k * s->cluster,
            steps = (b->axis[b->col].extent + step - 1) / step;
    int wide = s->tile_n / SIDE, share = staged_sharing(s), ahead = s->staged - 1;
    emit_open(e, 1); // batch
    Scope *top = e->scope;
    top->indent--;
    emit_line(e, top, "const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;");
    emit_line(e, top, "const int warp_m = warp / %d * %d, warp_n = warp / %d %% %d * %d;",
              share * wide, SIDE, share, wide, SIDE);
    const char *tile = "block";
    if (s->cluster > 1) {
        emit_line(e, top, "const int part = block %% %d, first_part = nc_cluster_rank() - part;",
                  s->cluster);
        tile = emit_text(e, "(block / %d)", s->cluster);
    }
    emit_line(e, top, "const %s %s = %s / %lld;", it, e->axis[0], tile, (long long)per_batch);
    emit_line(e, top, "const int origin_m = %s / %lld %% %lld * %d, origin_n = %s %% %lld * %d;",
              tile, (long long)across, (long long)tiles_along(b, 1), s->tile_m, tile,
              (long long)across, s->tile_n);
    emit_line(e, top, "float *const left = (float *)nc_shared, *const right = left + %d;",
              s->staged * s->tile_m * s->tile_k);
    emit_line(e, top, "float sums[2][4][4] = {};");
    for (int i = 0; i < 2; i++)
        if (!operand[i]->plain)
            emit_line(e, top, "NcVec<float, 4> %s_next[%d];", operand[i]->name,
                      vectors_a_thread(s, operand[i]));
    emit_open(e, 0); // over the columns, a tile at a time
    Scope *in = e->scope;
    emit_line(e, in, "if (step >= 0) __syncthreads(); // the tile of this step is there");
    emit_open(e, 0);
    const char *more = emit_text(e, "if (step + %d < %lld) {", ahead, (long long)steps);
    emit_line(e, e->scope, "const %s next = (%s)(step + %d) * %lld%s;", it, it, ahead,
              (long long)step, s->cluster > 1 ? emit_text(e, " + part * %d", s->tile_k) : "");
    emit_line(e, e->scope, "const int place = (step + %d) %% %d;", ahead, s->staged);
    for (int i = 0; i < 2; i++)
        if (operand[i]->plain)
            copy_tile(e, operand[i]);
        else
            fetch_tile(e, operand[i]);
    emit_close(e, more, "}");
    emit_line(e, in, "nc_copies_end();");
    emit_open(e, 0);
    emit_line(e, e->scope, "const int place = step %% %d;", s->staged);
    multiply(e, &x, &y);
    emit_close(e, "if (step >= 0) {", "}");
    if (!x.plain || !y.plain) {
        emit_open(e, 0);
        emit_line(e, e->scope, "const int place = (step + %d) %% %d;", ahead, s->staged);
        for (int i = 0; i < 2; i++)
            if (!operand[i]->plain) put_tile(e, operand[i]);
        emit_close(e, more, "}");
    }
    emit_open(e, 0); // what this thread has copied of the next tile
    emit_line(e, e->scope, "nc_copied<%d>();", ahead - 1);
    emit_line(e, e->scope, "const int place = (step + 1) %% %d;", s->staged);
    for (int i = 0; i < 4; i++)
        if (operand[i % 2]->plain && rounds(b)) round_tile(e, operand[i % 2], i / 2);
    emit_close(e, emit_text(e, "if (step + 1 >= 0 && step + 1 < %lld) {", (long long)steps), "}");
    emit_close(e,
               emit_text(e, "for (int step = %d; step < %lld; step++) {", -ahead, (long long)steps),
               "}");
    finish(e);
    emit_close(e, NULL, NULL);
}
