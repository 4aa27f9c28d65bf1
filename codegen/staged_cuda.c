// A contraction of f32 on tensor cores, of middle size, as CUDA C: a block takes a tile of the
// result whose operands pass through a ring of tiles in shared memory. Operands that are plain
// aligned arrays are copied asynchronously, others are computed into registers and put there. The
// blocks of a cluster may share the columns (k) of a tile: each has sums of its own, in shared
// memory, of which each then joins and finishes a share of the rows.
//
// A warp takes 32 x 32 results, eight columns at a time. What thread 4 g + t holds of an operand
// for an instruction comes to neighbouring registers as it lies in shared memory: of an operand
// along the columns as 8 x 4 matrices; of the other kind, where rows 2 g and 2 g + 1 of the left
// one are neighbours, as pairs, and of the right one element by element. Vectors change places
// within their line (by exclusive or), so that those a warp reads at once lie in different banks.
#include "codegen/print_cuda.h"

enum { VECTOR = 4, CHUNK = 8, SIDE = STAGED_SIDE, DOWN = SIDE / 16, ACROSS = SIDE / 8 };

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
    return ceil_div(b->axis[axis].extent, side);
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
    return emit_text(e, "line * %d + (part ^ %s) * 4", o->line,
                     o->along_k ? "line % 8" : "line % 4 * 2");
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
    const char *t = b->sched.wide ? "int64_t" : "int", *k = e->axis[b->col],
               *own = e->axis[o->axis];
    emit_line(e, e->scope, "const %s %s = %s + line;", t, o->along_k ? own : k,
              o->along_k ? o->origin : "next");
    emit_line(e, e->scope, "const %s %s = %s + part * %d;", t, o->along_k ? k : own,
              o->along_k ? "next" : o->origin, VECTOR);
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

// Where in registers vector u of a computed tile is, of those that are fetched together.
static const char *kept(Emit *e, const Operand *o)
{
    return emit_text(e, "at * %d + u", vectors_a_thread(&e->body->sched, o));
}

// Names a place along an axis; one outside becomes the last [width] inside.
static void name_inside(Emit *e, int axis, const char *name, const char *place, int width)
{
    const char *t = e->body->sched.wide ? "int64_t" : "int";
    long long last = (long long)e->body->axis[axis].extent - width;
    emit_line(e, e->scope, "const %s %s = %s < %lld ? %s : %lld;", t, name, place, last, place,
              last);
}

// Computes the tile at column "next" into registers. What lies outside is read at the edge and,
// along the columns, put there as zeros: loads behind branches would not be in flight together.
static void fetch_tile(Emit *e, const Operand *o)
{
    const Body *b = e->body;
    int inner = inner_axis(b, o), outer = o->along_k ? o->axis : b->col;
    const char *first = emit_text(e, "%s_first", e->axis[inner]),
               *to = emit_text(e, "%s_next[%s]", o->name, kept(e, o)),
               *line = emit_text(e, "%s + line", o->along_k ? o->origin : "next"),
               *part = emit_text(e, "%s + part * %d", o->along_k ? "next" : o->origin, VECTOR);
    // A vector is in or out as a whole.
    int width = b->axis[inner].extent % VECTOR == 0 ? VECTOR : 1;
    bool whole = inside(b, o, inner);
    emit_open(e, 0);
    place_vector(e, o);
    name_inside(e, outer, e->axis[outer], line, 1);
    if (width == VECTOR)
        name_inside(e, inner, first, part, VECTOR);
    else
        emit_line(e, e->scope, "const %s %s = %s;", b->sched.wide ? "int64_t" : "int", first, part);
    emit_line(e, e->scope, "%s = {};", to);
    emit_open(e, 1ull << outer); // what only the line decides may be a lookup
    operand_vector(e, o->inst, inner, VECTOR, whole || width == VECTOR, first,
                   emit_text(e, "%s.at[v]", to));
    emit_close(e, "{", "}");
    if (!inside(b, o, b->col) && (!o->along_k || width == VECTOR))
        emit_line(e, e->scope, "if (%s >= %lld) %s = {};", o->along_k ? part : line,
                  (long long)b->axis[b->col].extent, to);
    close_vectors(e, o);
}

static void put_tile(Emit *e, const Operand *o)
{
    emit_open(e, 0);
    place_vector(e, o);
    emit_line(e, e->scope, "nc_store<%d>(%s + place * %d + %s, %s_next[%s]);", VECTOR, o->name,
              o->side * e->body->sched.tile_k, place_in_tile(e, o), o->name, kept(e, o));
    close_vectors(e, o);
}

static bool rounds(const Body *b) // operands are rounded where they are multiplied
{
    return b->dot.tensor == TENSOR_TF32;
}

// What a thread multiplies of eight columns c of an operand, for an instruction each.
static void load_operand(Emit *e, const Operand *o, const char *to)
{
    const char *warp = o->axis == 1 ? "warp_m" : "warp_n",
               *tile = emit_text(e, "%s + place * %d", o->name, o->side * e->body->sched.tile_k);
    int n = o->axis == 1 ? DOWN : ACROSS;
    Scope *in = e->scope;
    emit_line(e, in, "#pragma unroll");
    if (o->along_k && o->axis == 1) {
        emit_line(e, in, "for (int i = 0; i < %d; i++)", n);
        emit_line(e, in, "    nc_matrices4(%s[i], %s + (%s + i * 16 + lane %% 16) * %d +", to, tile,
                  warp, o->line);
        emit_line(e, in, "        ((c * 2 + lane / 16) ^ lane %% 8) * 4);");
    } else if (o->along_k) {
        emit_line(e, in, "for (int i = 0; i < %d; i += 2)", n);
        emit_line(e, in,
                  "    nc_matrices4(%s[i], %s + (%s + i * 8 + lane / 16 * 8 + lane %% 8) * %d +",
                  to, tile, warp, o->line);
        emit_line(e, in, "        ((c * 2 + lane / 8 %% 2) ^ lane %% 8) * 4);");
    } else {
        emit_line(e, in, "for (int i = 0; i < %d; i++) {", 2 * n);
        const char *line =
            emit_text(e, "%s + (c * 8 + i %% 2 * 4 + lane %% 4) * %d", tile, o->line);
        if (o->axis == 1) {
            emit_line(e, in, "    const NcVec<float, 2> pair = nc_load<2>((const float *)%s +",
                      line);
            emit_line(e, in,
                      "        ((%s / 4 + i / 2 * 4 + lane / 8) ^ lane %% 4 * 2) * 4 + "
                      "lane / 4 %% 2 * 2);",
                      warp);
            for (int j = 0; j < 2; j++)
                emit_line(e, in, "    %s[i / 2][i %% 2 * 2 + %d] = nc_bits(pair.at[%d]);", to, j,
                          j);
        } else {
            emit_line(e, in, "    %s[i / 2][i %% 2] = nc_bits((%s)[", to, line);
            emit_line(e, in,
                      "        ((%s / 4 + i / 2 * 2 + lane / 16) ^ lane %% 4 * 2) * 4 + "
                      "lane / 4 %% 4]);",
                      warp);
        }
        emit_line(e, in, "}");
    }
    if (!rounds(e->body)) return;
    emit_line(e, in, "#pragma unroll");
    emit_line(e, in, "for (int i = 0; i < %d; i++) nc_round_tf32(%s[i]);", n, to);
}

// Multiplies the tile in place "place" of the ring.
static void multiply(Emit *e, const Operand *a, const Operand *b)
{
    const Schedule *s = &e->body->sched;
    int share = staged_sharing(s), chunks = s->tile_k / CHUNK;
    emit_open(e, 0);
    emit_line(e, e->scope, "uint32_t x[%d][4], y[%d][2];", DOWN, ACROSS);
    load_operand(e, a, "x");
    load_operand(e, b, "y");
    emit_line(e, e->scope, "#pragma unroll");
    emit_line(e, e->scope, "for (int i = 0; i < %d; i++)", DOWN * ACROSS);
    emit_line(e, e->scope, "    %s(sums[i / %d][i %% %d], x[i / %d], y[i %% %d]);",
              rounds(e->body) ? "nc_mma_tf32" : "nc_mma_f32", ACROSS, ACROSS, ACROSS, ACROSS);
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e,
               share > 1 ? emit_text(e, "for (int c = warp %% %d; c < %d; c += %d) {", share,
                                     chunks, share)
                         : emit_text(e, "for (int c = 0; c < %d; c++) {", chunks),
               "}");
}

// A warp's sums to shared memory. Rows of the left operand that lie side by side there were taken
// by pairs.
static void put_sums(Emit *e, bool pairs)
{
    const Schedule *s = &e->body->sched;
    int share = staged_sharing(s), pitch = staged_pitch(e->body);
    Scope *in = e->scope;
    emit_line(e, in,
              "float *const own = all + %s(warp_m + lane / 4%s) * %d + warp_n + lane %% 4 * 2;",
              share > 1 ? emit_text(e, "warp %% %d * %d + ", share, s->tile_m * pitch) : "",
              pairs ? " * 2" : "", pitch);
    emit_line(e, in, "#pragma unroll");
    emit_line(e, in, "for (int i = 0; i < %d; i++) {", DOWN * ACROSS * 2);
    emit_line(e, in, "    const int m = i / %d, n = i / 2 %% %d, h = i %% 2;", 2 * ACROSS, ACROSS);
    emit_line(e, in, "    const NcVec<float, 2> v = {sums[m][n][h * 2], sums[m][n][h * 2 + 1]};");
    emit_line(e, in, "    nc_store<2>(own + (m * 16 + h%s) * %d + n * 8, v);", pairs ? "" : " * 8",
              pitch);
    emit_line(e, in, "}");
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
    const char *from = emit_text(e, "all + (w %% %d * %d + row) * %d + from", share, s->tile_m,
                                 staged_pitch(e->body));
    if (s->cluster > 1) from = emit_text(e, "nc_of_block(%s, first_part + w / %d)", from, share);
    emit_line(e, e->scope, "    const NcVec<float, 4> more = nc_load<4>(%s);", from);
    emit_line(e, e->scope, "    #pragma unroll");
    emit_line(e, e->scope, "    for (int v = 0; v < 4; v++) sum.at[v] = sum.at[v] + more.at[v];");
    emit_line(e, e->scope, "}");
}

// What becomes of the sums, a vector of neighbours in n at a time.
static void finish(Emit *e, const Operand *left)
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
    put_sums(e, !left->along_k);
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
    close_lane_loop(e, VECTOR);
    if (whole) {
        e->axis[2] = base;
        flush_stores(e, &v, -1);
        e->axis[2] = axis;
    }
    close_results(e, rows, base);
    if (s->cluster > 1) emit_line(e, top, "nc_cluster_leave(); // the others have read these sums");
}

// The column that the tile of a step begins at.
static void print_next(Emit *e, const char *step, int64_t columns)
{
    const Schedule *s = &e->body->sched;
    const char *t = s->wide ? "int64_t" : "int";
    emit_line(e, e->scope, "const %s next = (%s)%s * %lld%s;", t, t, step, (long long)columns,
              s->cluster > 1 ? emit_text(e, " + part * %d", s->tile_k) : "");
}

// The tiles of the first [n] steps. Those that are computed are fetched several at a time, so that
// their loads are in flight together.
static void print_first_tiles(Emit *e, const Operand *const *operand, int n, int64_t columns)
{
    enum { MOST_FETCHED = 16 }; // vectors of a thread
    const Schedule *s = &e->body->sched;
    Scope *top = e->scope;
    emit_open(e, 0);
    print_next(e, "place", columns);
    for (int i = 0; i < 2; i++)
        if (operand[i]->plain) copy_tile(e, operand[i]);
    emit_line(e, e->scope, "nc_copies_end();");
    emit_close(e, emit_text(e, "for (int place = 0; place < %d; place++) {", n), "}");
    for (int i = 0; i < 2; i++) {
        if (operand[i]->plain) continue;
        int each = vectors_a_thread(s, operand[i]),
            together = each >= MOST_FETCHED ? 1 : MOST_FETCHED / each;
        if (together > n) together = n;
        emit_line(e, top, "NcVec<float, 4> %s_next[%d];", operand[i]->name, together * each);
        const char *loop =
            emit_text(e, "for (int at = 0; at < %d && first + at < %d; at++) {", together, n);
        emit_open(e, 0);
        Scope *group = e->scope;
        for (int pass = 0; pass < 2; pass++) {
            emit_line(e, group, "#pragma unroll");
            emit_open(e, 0);
            emit_line(e, e->scope, "const int place = first + at;");
            if (pass == 0) {
                print_next(e, "place", columns);
                fetch_tile(e, operand[i]);
            } else {
                put_tile(e, operand[i]);
            }
            emit_close(e, loop, "}");
        }
        emit_line(e, top, "#pragma unroll");
        emit_close(e, emit_text(e, "for (int first = 0; first < %d; first += %d) {", n, together),
                   "}");
    }
}

void staged_cuda(Emit *e)
{
    // Steps; of more, so many that a step's place is a number. Where several blocks share a
    // multiprocessor none: they have few registers, and each works while others wait.
    enum { MOST_UNROLLED = 16 };
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Operand x = operand_of(b, 1), y = operand_of(b, 2);
    const Operand *operand[] = {&x, &y};
    const char *it = s->wide ? "int64_t" : "int";
    int64_t across = tiles_along(b, 2), per_batch = tiles_along(b, 1) * across;
    int64_t step = (int64_t)s->tile_k * s->cluster, steps = ceil_div(b->axis[b->col].extent, step);
    int wide = s->tile_n / SIDE, share = staged_sharing(s),
        ahead = steps <= s->staged ? (int)steps : s->staged - 1;
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
    emit_line(e, top, "float sums[%d][%d][4] = {};", DOWN, ACROSS);
    print_first_tiles(e, operand, ahead, step);
    emit_settle(e);  // numbers that the results need are fetched while these tiles come
    emit_open(e, 0); // over the columns, a tile at a time
    Scope *in = e->scope;
    emit_line(e, in, "nc_copied<%d>();", ahead - 1);
    emit_line(e, in, "__syncthreads(); // the tile of this step is there");
    bool more = ahead < steps;
    const char *later = emit_text(e, "if (step + %d < %lld) {", ahead, (long long)steps);
    if (more) {
        emit_open(e, 0);
        print_next(e, emit_text(e, "(step + %d)", ahead), step);
        emit_line(e, e->scope, "const int place = (step + %d) %% %d, at = 0;", ahead, s->staged);
        for (int i = 0; i < 2; i++)
            if (operand[i]->plain)
                copy_tile(e, operand[i]);
            else
                fetch_tile(e, operand[i]);
        emit_close(e, later, "}");
    }
    emit_line(e, in, "nc_copies_end();");
    emit_open(e, 0);
    emit_line(e, e->scope, "const int place = step %% %d;", s->staged);
    multiply(e, &x, &y);
    emit_close(e, "{", "}");
    if (more && (!x.plain || !y.plain)) {
        emit_open(e, 0);
        emit_line(e, e->scope, "const int place = (step + %d) %% %d, at = 0;", ahead, s->staged);
        for (int i = 0; i < 2; i++)
            if (!operand[i]->plain) put_tile(e, operand[i]);
        emit_close(e, later, "}");
    }
    emit_line(e, top, "#pragma unroll %d",
              s->resident > 1          ? 1
              : steps <= MOST_UNROLLED ? (int)steps
                                       : s->staged);
    emit_close(e, emit_text(e, "for (int step = 0; step < %lld; step++) {", (long long)steps), "}");
    finish(e, &x);
    emit_close(e, NULL, NULL);
}
