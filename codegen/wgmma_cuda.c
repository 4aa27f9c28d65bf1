// A contraction of bf16 or f16 matrices on the tensor cores of sm_90, as CUDA C: four warps
// multiply together, straight from shared memory, which bulk copies fill.
//
// A block stays on its multiprocessor and takes tile after tile. One thread keeps a ring of tiles
// of the operands filled, as far ahead as shared memory goes. Two groups of four warps multiply:
// both the same tile (each half of its rows), or each a tile of its own, so that one multiplies
// while the other computes what follows from its sums. The blocks of a cluster take tiles below
// each other: each copies its share of the right operand to all of them.
//
// A thread holds pairs of neighbours of the sums, and computes what follows (any fused expression,
// any number of results) pair by pair. 16-bit results pass through shared memory once more, within
// a warp, and are written from there by bulk copies as well, while the warp goes on.
#include "codegen/wgmma.h"

// SUMMERS: warps that add up the left operand's rows.
enum { ROWS = 64, STAGE = BOX * STEP, SUMMERS = 2 };

static int place_bytes(const Schedule *s)
{
    return (s->tile_m + s->tile_n) * LINE;
}

// Rows of the tile of one group.
static int tile_rows(const Schedule *s)
{
    return s->wgmma == WGMMA_SHARED ? s->tile_m / GROUPS : s->tile_m;
}

static const char *parameter(Emit *e, const ProgMap *m, const char *name)
{
    const char *type = m->apart > 1 ? emit_text(e, "NcMaps<%d>", m->apart) : "NcMap";
    return emit_text(e, ", const __grid_constant__ %s %s", type, name);
}

const char *wgmma_parameters(Emit *e)
{
    ProgMap m;
    bool along_k;
    const char *all = "";
    for (int axis = 1; axis <= 2; axis++) {
        group_operand(e->body, axis, &m, &along_k);
        all = emit_text(e, "%s%s", all, parameter(e, &m, axis == 1 ? "left_map" : "right_map"));
    }
    for (uint32_t i = 0; i < e->body->stores.n; i++)
        if (group_result(e->body, i, &m))
            all = emit_text(e, "%s%s", all, parameter(e, &m, emit_text(e, "out%u_map", i)));
    return all;
}

// The copies of one step's tile of an operand, whose place begins at [to].
static void print_copy(Emit *e, int axis, const char *to)
{
    const Schedule *s = &e->body->sched;
    ProgMap m;
    bool along_k, shared = axis == 2 && s->cluster > 1;
    group_operand(e->body, axis, &m, &along_k);
    const char *origin = axis == 1 ? "origin_m" : "origin_n", *map = axis == 2 ? "right_map"
                                                                     : m.apart > 1
                                                                         ? "left_map.of[rest]"
                                                                         : "left_map";
    int side = axis == 1 ? s->tile_m : s->tile_n;
    const char *copy =
        shared ? emit_text(e, "nc_copy_box_to(%d, ", (1 << s->cluster) - 1) : "nc_copy_box(";
    Scope *in = e->scope;
    if (along_k) {
        const char *part = shared        ? emit_text(e, " + rank * %d", side / s->cluster)
                           : m.apart > 1 ? emit_text(e, " / %d", m.apart)
                                         : "";
        emit_line(e, in, "%s%s%s, %s, first, %s%s, full + place);", copy, to,
                  shared ? emit_text(e, " + rank * %d", side / s->cluster * LINE) : "", map, origin,
                  part);
        return;
    }
    emit_line(e, in, "#pragma unroll");
    emit_line(e, in, "for (int i = 0; i < %d; i += %d)", side, STEP);
    emit_line(e, in, "    %s%s + i * %d%s, %s, %s + i, first%s%s, full + place);", copy, to, LINE,
              shared ? emit_text(e, " + rank * %d", STEP / s->cluster * LINE) : "", map, origin,
              group_uneven(e->body) ? " - shift" : "",
              shared ? emit_text(e, " + rank * %d", STEP / s->cluster) : "");
}

// for (...) over the tiles this block takes; in it origin_m and origin_n; where rows begin anywhere
// also the number of the tile's map and where its rows begin in it.
static Scope *open_tiles(Emit *e)
{
    const Schedule *s = &e->body->sched;
    int64_t across = (e->body->axis[2].extent + s->tile_n - 1) / s->tile_n;
    Scope *in = emit_open(e, 0);
    const char *rank = s->cluster > 1 ? emit_text(e, " * %d + rank", s->cluster) : "";
    emit_line(e, in, "const int origin_n = tile %% %lld * %d;", (long long)across, s->tile_n);
    ProgMap m;
    bool along_k;
    group_operand(e->body, 1, &m, &along_k);
    if (m.apart > 1) {
        emit_line(e, in, "const int rest = tile / %lld %% %d;", (long long)across, m.apart);
        emit_line(e, in, "const int origin_m = (tile / %lld%s) * %d + rest;",
                  (long long)across * m.apart, rank, s->tile_m * m.apart);
    } else {
        emit_line(e, in, "const int origin_m = (tile / %lld%s) * %d;", (long long)across, rank,
                  s->tile_m);
    }
    if (group_uneven(e->body))
        emit_line(e, in, "const int shift = (%s%d) %% 8;",
                  m.apart > 1 ? emit_text(e, "rest * %d + ", (int)(m.pitch % 8)) : "",
                  (int)(m.offset % 8));
    return in;
}

static void close_tiles(Emit *e)
{
    const Schedule *s = &e->body->sched;
    emit_close(e,
               emit_text(e, "for (int tile = first_tile; tile < %lld; tile += %lld) {",
                         (long long)wgmma_tiles(e->body), (long long)(s->blocks / s->cluster)),
               "}");
}

static void print_next_place(Emit *e)
{
    emit_line(e, e->scope, "if (++place == %d) place = 0, parity ^= 1;", e->body->sched.ring);
}

// Two warps add up the rows of the left operand's tiles, 32 columns each. Tiles side by side read
// the same ones, so each takes its share of the steps.
static void print_sums(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int64_t k = b->axis[b->col].extent;
    long long across = ceil_div(b->axis[2].extent, s->tile_n);
    bool brain = b->insts.at[b->dot.a].from == DT_BF16;
    emit_open(e, 0);
    emit_line(e, e->scope, "int place = 0, parity = 0;");
    emit_line(
        e, e->scope,
        "const int piece = (warp %% 2 * 4 + thread / 8 ^ thread %% 8) * 16 + thread %% 8 * %d;",
        LINE);
    open_tiles(e);
    emit_line(e, e->scope, "int due = tile %% %lld; // 0: the step is this tile's", across);
    emit_open(e, 0);
    Scope *in = e->scope;
    emit_line(e, in, "float sum[8] = {};");
    emit_line(e, in, "nc_bar_wait(full + place, parity);");
    emit_line(e, in,
              "if (due == 0) nc_sum_rows_%s<%d>(sum, nc_shared_place(ring + place * %d + piece));",
              brain ? "b" : "h", s->tile_m, place_bytes(s));
    emit_line(e, in, "__syncwarp();");
    emit_line(e, in, "if (thread == 0) nc_bar_arrive(empty + place, %s);",
              s->cluster > 1 ? "rank" : "0");
    emit_line(e, in, "if (due == 0) {");
    emit_line(e, in, "    nc_sums_joined(sum);");
    emit_line(e, in, "    #pragma unroll");
    emit_line(e, in, "    for (int j = 0; j < 4; j++) {");
    emit_line(e, in, "        const int i = first + (warp %% 2 * 4 + j) * 8 + thread * 2;");
    emit_line(e, in, "        const NcVec<float, 2> pair = {sum[2 * j], sum[2 * j + 1]};");
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].fold)
            emit_line(e, in,
                      "        if (thread < 4 && origin_m < %lld && i < %lld) nc_store<2>(%s + "
                      "((%s)(origin_m / %d) * %lld + i), pair);",
                      (long long)b->axis[1].extent, (long long)k, e->buf_name[b->stores.at[i].buf],
                      int_type(e), s->tile_m, (long long)k);
    emit_line(e, in, "    }");
    emit_line(e, in, "}");
    emit_line(e, in, "if (++due == %lld) due = 0;", across);
    print_next_place(e);
    emit_close(e,
               emit_text(e, "for (int first = 0; first < %lld; first += %d) {", (long long)k, STEP),
               "}");
    close_tiles(e);
    emit_close(e, emit_text(e, "if (warp >= %d) {", 4 - SUMMERS), "}");
}

// One thread keeps the ring filled.
static void print_copies(Emit *e)
{
    const Schedule *s = &e->body->sched;
    emit_open(e, 0);
    Scope *copies = e->scope;
    emit_line(e, copies, "nc_registers_give<%d>();", 504 - 2 * wgmma_registers(e->body));
    emit_open(e, 0);
    emit_line(e, e->scope, "int place = 0, parity = 1;");
    open_tiles(e);
    emit_open(e, 0);
    emit_line(e, e->scope, "nc_bar_wait(empty + place, parity);");
    emit_line(e, e->scope, "nc_bar_expect(full + place, %d);", place_bytes(s));
    emit_line(e, e->scope, "uint8_t *const left = ring + place * %d, *const right = left + %d;",
              place_bytes(s), s->tile_m * LINE);
    print_copy(e, 1, "left");
    print_copy(e, 2, "right");
    print_next_place(e);
    emit_close(e,
               emit_text(e, "for (int first = 0; first < %lld; first += %d) {",
                         (long long)wgmma_steps(e->body) * STEP, STEP),
               "}");
    close_tiles(e);
    emit_close(e, "if (threadIdx.x == 0) {", "}");
    if (body_folds(e->body)) print_sums(e);
    emit_line(e, copies, "__syncwarp();");
    emit_close(e, "if (group < 0) {", "} else {");
}

// The sums of a tile: acc.
static void print_products(Emit *e, int64_t steps)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    ProgMap m;
    bool ka, kb;
    group_operand(b, 1, &m, &ka);
    group_operand(b, 2, &m, &kb);
    bool brain = b->insts.at[b->dot.a].from == DT_BF16;
    int high = tile_rows(s);
    Scope *tile = e->scope;
    emit_line(e, tile, "float acc[%d][%d];", high / ROWS, s->tile_n / 2);
    emit_line(e, tile, "int place = taken %% %d, parity = taken / %d %% 2, before = 0;", s->ring,
              s->ring);
    emit_line(e, tile, "taken += %lld;", (long long)steps);
    bool own = s->wgmma == WGMMA_OWN;
    if (own) emit_line(e, tile, "if (tile != first_tile) nc_turn_wait(group);");
    emit_open(e, 0);
    Scope *in = e->scope;
    emit_line(e, in, "const uint8_t *const left = ring + place * %d;", place_bytes(s));
    emit_line(e, in, "const uint64_t x = nc_operand(left%s), y = nc_operand(left + %d);",
              s->wgmma == WGMMA_SHARED ? emit_text(e, " + group * %d", high * LINE) : "",
              s->tile_m * LINE);
    emit_line(e, in, "nc_bar_wait(full + place, parity);");
    if (own) // (the parity of a place says which round it is in only to those one round behind)
        emit_line(e, in, "if (step == %lld && tile + %lld < %lld) nc_turn_pass(group ^ 1);",
                  (long long)steps - 1, (long long)(s->blocks / s->cluster),
                  (long long)wgmma_tiles(b));
    if (group_uneven(b))
        emit_line(e, in, "if (step == 0 && shift > 0) nc_clear_before<%d>(left%s, shift, group);",
                  high, s->wgmma == WGMMA_SHARED ? emit_text(e, " + group * %d", high * LINE) : "");
    emit_line(e, in, "nc_products_begin();");
    emit_line(e, in, "#pragma unroll");
    emit_line(e, in, "for (int kk = 0; kk < 4; kk++)");
    emit_line(e, in, "    #pragma unroll");
    emit_line(e, in, "    for (int i = 0; i < %d; i++)", high / ROWS);
    emit_line(
        e, in,
        "        nc_product_%s<%d, %d>(acc[i], x + kk * %d + i * %d, y + kk * %d, step + kk > 0);",
        brain ? "b" : "h", !ka, !kb, ka ? 2 : 128, ROWS * LINE / 16, kb ? 2 : 128);
    emit_line(e, in, "nc_products_end();");
    emit_line(e, in, "nc_products_done<1>();");
    emit_line(e, in, "if (step > 0 && thread < %d) nc_bar_arrive(empty + before, thread);",
              s->cluster);
    emit_line(e, in, "before = place;");
    print_next_place(e);
    emit_close(e, emit_text(e, "for (int step = 0; step < %lld; step++) {", (long long)steps), "}");
    emit_line(e, tile, "nc_products_done<0>();");
    emit_line(e, tile, "#pragma unroll");
    emit_line(e, tile, "for (int i = 0; i < %d; i++) nc_settled(acc[i]);", high / ROWS);
    emit_line(e, tile, "if (thread < %d) nc_bar_arrive(empty + before, thread);", s->cluster);
}

// Pairs of neighbours: kept for this warp's part of shared memory, or to where they belong.
static void store_pairs(Emit *e, Vectors *v)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        if (!group_result(b, i, &(ProgMap){0})) continue;
        DType t = b->bufs.at[b->stores.at[i].buf].type;
        v->store[i] = false;
        emit_line(e, e->scope, "pairs%u[pair %% 4] = %s(out%u).at.of[0];", i,
                  t == DT_BF16 ? "nc_pack_b" : "nc_pack_h", i);
    }
    flush_stores(e, v, -1);
}

// Four pairs of a thread: 16 columns of the box, laid out as bulk copies expect it, 16-byte pieces
// exchanged by the row.
static void print_pairs(Emit *e)
{
    const Body *b = e->body;
    int n = 0;
    if (!wgmma_staged(b)) return;
    emit_line(e, e->scope, "if (pair %% 4 == 3) {");
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (group_result(b, i, &(ProgMap){0}))
            emit_line(e, e->scope, "    nc_put_matrices4<%d>(place ^ pair / 4 * 32, pairs%u);",
                      STAGE * 2 * n++, i);
    emit_line(e, e->scope, "}");
}

// The boxes that a warp has in shared memory: one thread starts their copies.
static void print_boxes(Emit *e, Scope *in)
{
    const Body *b = e->body;
    int n = 0;
    emit_line(e, in, "nc_box_written();");
    emit_line(e, in, "__syncwarp();");
    emit_line(e, in, "if (thread == 0) {");
    int apart = group_apart(b);
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (group_result(b, i, &(ProgMap){0}))
            emit_line(e, in, "    nc_write_box(out%u_map%s, box + %d, part_n, part_m%s);", i,
                      apart > 1 ? ".of[rest]" : "", STAGE * n++,
                      apart > 1 ? emit_text(e, " / %d", apart) : "");
    emit_line(e, in, "    nc_boxes_end();");
    emit_line(e, in, "}");
}

// What follows from the sums of a tile: 16 rows of 64 neighbours at a time a warp.
static void print_results(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *t = int_type(e), *base = emit_text(e, "%s_first", e->axis[2]);
    int high = tile_rows(s), below = high / ROWS; // parts below each other share columns: first
    const char *first = s->wgmma == WGMMA_SHARED ? emit_text(e, "group * %d + ", high) : "";
    int apart = group_apart(b);
    const char *each = apart > 1 ? emit_text(e, " * %d", apart) : "";
    Scope *tile = e->scope;
    emit_open(e, 0);
    Scope *in = e->scope;
    const char *above = emit_text(e, "%spart %% %d * %d + warp * 16", first, below, ROWS);
    if (apart > 1) above = emit_text(e, "(%s)%s", above, each);
    emit_line(e, in, "const int part_m = origin_m + %s, part_n = origin_n + part / %d * 64;", above,
              below);
    if (wgmma_staged(b)) {
        emit_line(e, in, "uint16_t *const box = stage + part %% %d * %d;", wgmma_stages(b),
                  wgmma_staged(b) * STAGE);
        emit_line(e, in, "nc_boxes_read<%d>(); // what was there before", wgmma_stages(b) - 1);
        emit_line(e, in, "__syncwarp();");
        emit_line(e, in, "const uint32_t place = nc_place_anew(box + at);");
        for (uint32_t i = 0; i < b->stores.n; i++)
            if (group_result(b, i, &(ProgMap){0})) emit_line(e, in, "uint32_t pairs%u[4];", i);
    }
    emit_open(e, 0);
    emit_line(e, e->scope,
              "const int row = pair %% 2 * 8 + thread / 4, from = pair / 2 * 8 + thread %% 4 * 2;");
    emit_line(e, e->scope, "const float *const sums = acc[part %% %d] + part / %d * 32 + pair * 2;",
              below, below);
    emit_line(e, e->scope, "const %s %s = part_m + row%s, %s = part_n + from;", t, e->axis[1], each,
              base);
    finish_vector(e, base, 2, (int64_t)s->tile_m * s->cluster * group_apart(b), "sums[lane]",
                  store_pairs);
    print_pairs(e);
    emit_line(e, in, "#pragma unroll");
    emit_close(e, "for (int pair = 0; pair < 16; pair++) {", "}");
    if (wgmma_staged(b)) print_boxes(e, in);
    emit_line(e, tile, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int part = 0; part < %d; part++) {", below * s->tile_n / 64),
               "}");
}

void wgmma_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    int64_t steps = wgmma_steps(b);
    int arrivals = (s->wgmma == WGMMA_SHARED ? GROUPS : 1) * 4 * s->cluster;
    if (body_folds(b)) arrivals += SUMMERS;
    emit_open(e, 1); // batch: one
    Scope *top = e->scope;
    top->indent--;
    emit_line(e, top, "const int %s = 0;", e->axis[0]);
    emit_line(e, top,
              "const int group = (int)threadIdx.x / 128 - 1; // -1: copies, others: multiply");
    emit_line(e, top, "const int warp = threadIdx.x / 32 %% 4, thread = threadIdx.x %% 32;");
    if (s->cluster > 1) emit_line(e, top, "const int rank = nc_cluster_rank();");
    emit_line(e, top, "const int first_tile = block%s;",
              s->cluster > 1 ? emit_text(e, " / %d", s->cluster) : "");
    emit_line(e, top, "uint8_t *const ring = nc_bulk_shared();");
    int boxes = wgmma_stages(b) * wgmma_staged(b) * STAGE; // of a warp
    if (boxes)
        emit_line(e, top,
                  "uint16_t *const stage = (uint16_t *)(ring + %d) + (threadIdx.x / 32 - 4) * %d;",
                  s->ring * place_bytes(s), boxes);
    emit_line(e, top, "uint64_t *const full = (uint64_t *)(ring + %d), *const empty = full + %d;",
              s->ring * place_bytes(s) + boxes * 2 * GROUPS * 4, s->ring);
    emit_line(e, top, "if (threadIdx.x == 0)");
    emit_line(e, top, "    for (int i = 0; i < %d; i++) {", s->ring);
    emit_line(e, top, "        nc_bar_init(full + i, 1);");
    emit_line(e, top, "        nc_bar_init(empty + i, %d);", arrivals);
    emit_line(e, top, "    }");
    emit_line(e, top, "nc_bars_ready();");
    print_copies(e);
    emit_open(e, 0);
    Scope *group = e->scope;
    emit_line(e, group, "nc_registers_take<%d>();", wgmma_registers(b));
    emit_line(e, group, "int taken = 0; // steps");
    if (s->wgmma == WGMMA_OWN) emit_line(e, group, "int turn = 0;");
    if (boxes)
        emit_line(
            e, group,
            "const int at = thread %% 16 * 64 + (thread / 16 ^ thread %% 8) * 8; // in a box");
    open_tiles(e);
    if (s->wgmma == WGMMA_OWN) {
        emit_line(e, e->scope, "turn ^= 1;");
        emit_line(e, e->scope, "if (turn == group) { // the other group's");
        emit_line(e, e->scope, "    taken += %lld;", (long long)steps);
        emit_line(e, e->scope, "    continue;");
        emit_line(e, e->scope, "}");
    }
    print_products(e, steps);
    print_results(e);
    close_tiles(e);
    if (boxes) emit_line(e, group, "nc_boxes_read<0>();");
    emit_close(e, NULL, "}");
    if (s->cluster > 1)
        emit_line(e, top,
                  "nc_cluster_wait(); // none leaves while another arrives at its barriers");
    emit_close(e, NULL, NULL);
}
