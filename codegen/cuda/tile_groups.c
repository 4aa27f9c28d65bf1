// The ops on tiles of a product by groups of four warps, as CUDA C: copies, products, sums of rows,
// and results computed from the sums.
//
// A thread that multiplies holds pairs of neighbouring sums, and computes the results (any fused
// expression, any number of results) pair by pair. A warp has 16 rows of 64 columns at a time.
#include "codegen/cuda/tile_print.h"
#include "codegen/tile/wgmma.h"

enum { STAGE = BOX * STEP }; // the elements of a box

const char *group_rows(RolePrint *w)
{
    const Tile *left = &w->p->tile[0];
    if (!left->of_group) return left->name;
    return emit_text(w->e, "%s + group * %d", left->name,
                     left->along_k ? w->p->side_m * LINE : left->bytes / w->p->warps_m);
}

// -- operands -------------------------------------------------------------------------------------

static const char *origin_of(const Tile *t)
{
    return t->stays ? "0" : t->axis == 1 ? "origin_m" : "origin_n";
}

// The mbarrier that counts the bytes of the tile's copies.
static const char *filled(const Tile *t)
{
    return t->stays ? "stays" : "full + place";
}

// Copies 64 channels of one pixel of each window: one copy if they are along k, otherwise one for
// every 64 indices of the tile along the operand's own axis. If k is divided among blocks or
// groups, steps may be beyond the last column; there an image number out of range makes the copy
// fill in zeros. Strips of the left operand: copies all pixels of a line of each window, those at
// the tile's positions and some after them.
static void load_windows(RolePrint *w, const Tile *t, int side, const char *to, const char *first)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const BodyWindows *g = b->dot.windows[t->axis - 1];
    const BodyStrips *strips = t->axis == 1 ? wgmma_strips(b) : NULL;
    const bool one = t->along_k || side == STEP, shares = wgmma_shares(&b->sched);
    const char *names[2] = {e->axis[t->axis], e->axis[b->col]}, *origin = origin_of(t);
    const char *place = "", *tap = "";
    const char *there = emit_text(e, "%s < %lld", first, extent_of(b, b->col));
    e->axis[t->axis] = one ? origin : emit_text(e, "(%s + i)", origin);
    e->axis[b->col] = shares ? emit_text(e, "(%s ? %s : 0)", there, first) : first;
    for (int i = 0; i < g->axes; i++) {
        place =
            emit_text(e, "%s, %s", place, emit_index(e, (strips ? strips->place : g->place)[i]));
        tap = emit_text(e, "%s, %s", tap, strips && !i ? "0" : emit_index(e, g->tap[i]));
    }
    const char *image = emit_index(e, strips ? strips->image : g->image),
               *channel = emit_index(e, g->channel);
    e->axis[t->axis] = names[0];
    e->axis[b->col] = names[1];
    if (shares) image = emit_text(e, "%s ? %s : %lld", there, image, (long long)g->map.rows);
    if (!one) {
        emit(e, "#pragma unroll");
        emit(e, "for (int i = 0; i < %d; i += %d)", side, STEP);
    }
    emit(e, "%snc_copy_windows%s(%s%s, %s_map, %s%s, %s%s, %s);", one ? "" : "    ",
         g->axes == 3 ? "3" : "", to, one ? "" : emit_text(e, " + i * %d", LINE), t->name, channel,
         place, image, tap, filled(t));
}

// A step is 64 channels of a pixel or, over strips, of a line of the windows: declares its first
// column. If the weights have groups, it takes only the channels of those of the tile's columns.
void group_first(RolePrint *w)
{
    const Body *b = w->e->body;
    const BodyStrips *s = wgmma_strips(b);
    const int64_t deep = s ? s->deep : b->dot.deep, own = wgmma_chunks(b),
                  chunks = own ? own : deep / STEP, line = s ? s->pixels * deep : deep;
    const char *first = emit_plus(w->e, emit_part(w->e, "step", chunks, 0, line),
                                  emit_part(w->e, "step", 1, chunks, STEP));
    if (own && b->dot.channels == b->dot.results)
        first = emit_text(w->e, "%s + origin_n", first);
    else if (own)
        first = emit_text(w->e, "%s + origin_n / %lld * %lld", first, (long long)b->dot.results,
                          (long long)b->dot.channels);
    emit(w->e, "const int first = %s;", first);
}

// Strips of the right operand: copies the positions of a step, of dy (left) or, with some positions
// after them, of x (right). Positions are counted in dy; the map of x has its own first pixel and
// step, which are undone for dy.
static void load_counted(RolePrint *w, const Tile *t, const char *to, const char *first)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const BodyWindows *g = b->dot.windows[1];
    const bool right = t->axis == 2;
    const char *names[2] = {e->axis[2], e->axis[b->col]}, *channel = "origin_m", *place[2],
               *down = "0";
    e->axis[2] = "origin_n";
    e->axis[b->col] = first;
    for (int i = 0; i < 2; i++) {
        const Ix *x = g->strips.place[i];
        if (!right)
            x = ix_div(b->ix, ix_add(b->ix, x, ix_const(b->ix, -g->map.first[i])), g->map.step[i]);
        place[i] = emit_index(e, x);
    }
    const char *image = emit_index(e, g->strips.image);
    if (right) channel = emit_index(e, g->channel), down = emit_index(e, g->tap[1]);
    e->axis[2] = names[0];
    e->axis[b->col] = names[1];
    emit(e, "nc_copy_windows(%s, %s_map, %s, %s, %s, %s, 0, %s, %s);", to, t->name, channel,
         place[0], place[1], image, down, filled(t));
}

// Copies the tile of a step, whose first column is [first], to [to].
static void load_tile(RolePrint *w, const Tile *t, const char *to, const char *first)
{
    Emit *e = w->e;
    const Schedule *s = &e->body->sched;
    int side = t->axis == 1 ? s->tile.m : wgmma_wide(e->body), by = t->peers ? s->cluster : 1;
    const char *origin = origin_of(t), *share = "0", *behind = "0";
    if (wgmma_right_strips(e->body)) {
        load_counted(w, t, to, first);
        return;
    }
    if (t->windows) {
        load_windows(w, t, side, to, first);
        return;
    }
    const char *map =
        emit_text(e, "%s_map%s", t->name, t->axis == 1 && w->apart > 1 ? ".of[rest]" : "");
    const char *copy = t->peers       ? emit_text(e, "nc_copy_box_to(%d, ", (1 << by) - 1)
                       : w->batch > 1 ? "nc_copy_box4("
                                      : "nc_copy_box(",
               *plane = w->batch > 1 ? emit_text(e, ", %s, 0", e->axis[0]) : "";
    if (t->peers) { // this block's share of the box's lines
        int lines = (t->along_k ? side : STEP) / by;
        behind = emit_scaled(e, "rank", lines * LINE);
        share = emit_scaled(e, "rank", lines);
    }
    if (t->along_k) {
        const char *row = t->axis == 1 ? emit_part(e, origin, w->apart, 0, 1) : origin;
        emit(e, "%s%s, %s, %s, %s%s, %s);", copy, emit_plus(e, to, behind), map, first,
             emit_plus(e, row, share), plane, filled(t));
        return;
    }
    const bool one = side == STEP;
    if (!one) {
        emit(e, "#pragma unroll");
        emit(e, "for (int i = 0; i < %d; i += %d)", side, STEP);
        to = emit_plus(e, to, emit_scaled(e, "i", LINE));
        origin = emit_plus(e, origin, "i");
    }
    if (group_uneven(e->body)) first = emit_text(e, "%s - shift", first);
    emit(e, "%s%s%s, %s, %s, %s%s, %s);", one ? "" : "    ", copy, emit_plus(e, to, behind), map,
         origin, emit_plus(e, first, share), plane, filled(t));
}

void group_load(RolePrint *w, const TileOp *op)
{
    Emit *e = w->e;
    const Tile *t = &w->p->tile[op->dst];
    const BodyStrips *strips = wgmma_strips(e->body);
    if (!strips || t->axis == 1) {
        load_tile(w, t, t->name, "first");
        return;
    }
    const int bytes = wgmma_wide(e->body) * LINE; // the tile of one pixel
    if (t->stays) {
        emit_open(e, 0);
        group_first(w);
    }
    emit_open(e, 0);
    emit(e, "const int column = first + pixel * %lld;", (long long)strips->deep);
    emit(e, "uint8_t *const to = %s + %s;", t->name,
         t->stays ? emit_text(e, "(step * %d + pixel) * %d", strips->pixels, bytes)
                  : emit_text(e, "pixel * %d", bytes));
    load_tile(w, t, "to", "column");
    emit_end(e, "for (int pixel = 0; pixel < %d; pixel++) {", strips->pixels);
    if (t->stays) emit_end(e, "for (int step = 0; step < %lld; step++) {", (long long)w->p->steps);
}

// acc += left right, with as many columns (k) at a time as the atom has. Strips: for all pixels of
// a line of the windows, each of which begins some rows further down in the left tile.
void group_multiply(RolePrint *w, const TileOp *op)
{
    Emit *e = w->e;
    const TileAtom *atom = w->p->atom;
    const Tile *x = &w->p->tile[op->a], *y = &w->p->tile[op->b];
    const BodyStrips *s = wgmma_strips(e->body);
    const char *in = "", *left = "", *right = "", *first = "step + k";
    if (s) {
        emit(e, "#pragma unroll");
        emit(e, "for (int pixel = 0; pixel < %d; pixel++)", s->pixels);
        in = "    ";
        left = emit_text(e, " + %s * %d",
                         s->last_first ? emit_text(e, "(%d - pixel)", s->pixels - 1) : "pixel",
                         s->apart * LINE / 16);
        right = emit_text(e, " + pixel * %d", wgmma_wide(e->body) * LINE / 16);
        first = "step + pixel + k";
    }
    emit(e, "%s#pragma unroll", in);
    emit(e, "%sfor (int k = 0; k < %d; k++)", in, STEP / atom->k);
    in = emit_text(e, "%s    ", in);
    if (w->below > 1) {
        emit(e, "%s#pragma unroll", in);
        emit(e, "%sfor (int i = 0; i < %d; i++)", in, w->below);
        in = emit_text(e, "%s    ", in);
    }
    emit(e, "%s%s<%d, %d>(acc[%s], x%s + k * %d%s, y%s + k * %d, %s > 0);", in, atom->multiply,
         !x->along_k, !y->along_k, w->below > 1 ? "i" : "0", left, x->along_k ? 2 : LINE,
         w->below > 1 ? emit_text(e, " + i * %d", atom->m * LINE / 16) : "", right,
         y->along_k ? 2 : LINE, first);
}

// Tiles in the same row of tiles read the same rows of the left operand, so each sums these rows in
// its share of the steps.
void group_reduce(RolePrint *w, const TileOp *op)
{
    Emit *e = w->e;
    const Tile *t = &w->p->tile[op->a];
    emit(e, "float sum[8] = {};");
    emit(e, "if (due == 0) nc_sum_rows_%s<%d>(sum, nc_shared_place(left + piece));",
         t->type == DT_BF16 ? "b" : "h", t->lines);
}

void group_row_sums(RolePrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    long long k = extent_of(b, b->col);
    emit(e, "if (due == 0) {");
    emit(e, "    nc_sums_joined(sum);");
    emit(e, "    #pragma unroll");
    emit(e, "    for (int j = 0; j < 4; j++) {");
    emit(e, "        const int i = first + (warp %% 2 * 4 + j) * 8 + thread * 2;");
    emit(e, "        const NcVec<float, 2> pair = {sum[2 * j], sum[2 * j + 1]};");
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].fold)
            emit(e,
                 "        if (thread < 4 && origin_m < %lld && i < %lld) nc_store<2>(%s + "
                 "((%s)(origin_m / %d) * %lld + i), pair);",
                 extent_of(b, 1), k, e->buf_name[b->stores.at[i].buf], int_type(e), b->sched.tile.m,
                 k);
    emit(e, "    }");
    emit(e, "}");
}

void group_sums(RolePrint *w, const TileOp *op)
{
    const Tile *t = &w->p->tile[op->dst];
    if (t->of_warp) {
        const int wide = w->p->side_n, whole = wide / STEP; // the last part may have half a box
        emit(w->e, "nc_put_part(sums, acc[%s] + %s, %s);", emit_part(w->e, "part", 1, w->below, 1),
             emit_part(w->e, "part", w->below, 0, STEP / 2),
             wide % STEP ? emit_text(w->e, "part / %d < %d ? 16 : 8", w->below, whole) : "16");
        return;
    }
    emit(w->e, "nc_settled(acc);");
    emit(w->e, "nc_put_group<%d>(sums + group * %d, acc);", t->pitch, w->p->side_m * t->pitch);
}

// -- results --------------------------------------------------------------------------------------

// The number of a position in the part; the row of the result follows from it.
void group_place(Emit *e)
{
    const BodyStrips *s = wgmma_strips(e->body);
    const long long pitch = s->pitch, results = s->results;
    emit(e, "const %s place = part_m + row, along = place %% %lld;", int_type(e), pitch);
    emit_int(e, e->axis[1], "place / %lld * %lld + along", pitch, results);
}

void group_part(RolePrint *w, const char *part)
{
    Emit *e = w->e;
    const char *column = emit_part(e, part, w->below, 0, STEP),
               *row = emit_plus(e, emit_part(e, part, 1, w->below, w->p->atom->m),
                                emit_scaled(e, "warp", BOX));
    if (w->p->warps_m > 1) row = emit_plus(e, emit_scaled(e, "group", w->p->side_m), row);
    if (w->apart > 1) row = emit_text(e, "(%s) * %d", row, w->apart);
    emit(e, "const int part_m = origin_m + %s, part_n = origin_n + %s;", row, column);
    if (!w->boxes) return;
    const char *place = emit_part(e, part, 1, w->boxes->places, wgmma_staged(e->body) * STAGE);
    emit(e, "uint16_t *const box = %s;", emit_plus(e, "boxes", place));
}

// Pairs of results: kept in registers for this warp's boxes, or stored to memory.
static void store_pairs(Emit *e, Vectors *v)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        if (!group_boxed(b, i)) continue;
        v->store[i] = false;
        emit(e, "pairs%u[pair %% 4] = %s(out%u).at.of[0];", i,
             packs(b->bufs.at[b->stores.at[i].buf].type), i);
    }
    flush_stores(e, v, -1);
}

// Stores four pairs of each thread: 16 columns of the box, whose 16-byte vectors are swizzled by
// the row.
static void put_pairs(RolePrint *w)
{
    Emit *e = w->e;
    int n = 0;
    if (!w->boxes) return;
    emit(e, "if (pair %% 4 == 3) {");
    for (uint32_t i = 0; i < e->body->stores.n; i++)
        if (group_boxed(e->body, i))
            emit(e, "    nc_put_matrices4<%d>(to ^ pair / 4 * 32, pairs%u);", STAGE * 2 * n++, i);
    emit(e, "}");
}

int64_t group_high(const Body *b)
{
    if (wgmma_strips(b)) return b->axis[1].extent + 1; // tiles consist of positions
    return (int64_t)b->sched.tile.m * b->sched.cluster * group_apart(b);
}

void group_map(RolePrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const char *base = emit_text(e, "%s_first", e->axis[2]);
    if (w->boxes) emit(e, "const uint32_t to = nc_place_anew(box + at);");
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (group_boxed(b, i)) emit(e, "uint32_t pairs%u[4];", i);
    emit_open(e, 0);
    const int wide = w->p->side_n;
    if (wide % STEP) // the last part is narrower
        emit(e, "if (part / %d * %d + pair / 2 * 8 >= %d) continue;", w->below, STEP, wide);
    emit(e, "const int row = pair %% 2 * 8 + thread / 4, from = pair / 2 * 8 + thread %% 4 * 2;");
    emit(e, "const float *const sums = acc[%s] + %s + pair * 2;",
         emit_part(e, "part", 1, w->below, 1), emit_part(e, "part", w->below, 0, STEP / 2));
    const BodyStrips *strips = wgmma_strips(b);
    if (strips) {
        group_place(e);
        emit_int(e, base, "part_n + from");
        emit_open(e, 0);
    } else {
        emit(e, "const %s %s = part_m + row%s, %s = part_n + from;", int_type(e), e->axis[1],
             w->apart > 1 ? emit_text(e, " * %d", w->apart) : "", base);
    }
    emit_open(e, 1ull << 1)->guard = true; // in range
    Vectors v = result_vectors(e, 2);
    result_vector(e, &v, &(ResultVector){base, 2, .sum = "sums[lane]", .store = store_pairs});
    emit_if(e, result_inside(e, base, group_high(b)));
    if (strips) emit_end(e, "if (along < %lld) {", (long long)strips->results);
    put_pairs(w);
    emit_times(e, "pair", 16);
}

// The threads store the positions that are results, 16 bytes of a row each.
static void store_strips(RolePrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const char *across = e->axis[2];
    int n = 0;
    emit_open(e, 7)->guard = true;
    emit(e, "const int row = i * 4 + thread / 8;");
    group_place(e);
    e->axis[2] = "column";
    emit(e, "const int column = part_n + thread %% 8 * 8;");
    const char *end = emit_number(e, extent_of(b, 2));
    if (w->p->side_n % STEP) end = emit_text(e, "min(origin_n + %d, %s)", w->p->side_n, end);
    emit(e, "if (along >= %lld || %s >= %lld || %s >= %s) continue;",
         (long long)wgmma_strips(b)->results, e->axis[1], extent_of(b, 1), e->axis[2], end);
    for (uint32_t i = 0; i < b->stores.n; i++) {
        if (!group_boxed(b, i)) continue;
        const BodyStore *s = &b->stores.at[i];
        emit(e,
             "nc_store<8>(%s, nc_load<8>(box + %d + row * %d + (thread %% 8 ^ row %% "
             "8) * 8));",
             emit_address(e, e->buf_name[s->buf], emit_index(e, s->ix)), STAGE * n++, STEP);
    }
    emit_times(e, "i", BOX / 4);
    e->axis[2] = across;
}

// One thread of a warp issues the bulk stores of the warp's boxes.
void group_store(RolePrint *w)
{
    Emit *e = w->e;
    int n = 0;
    if (wgmma_strips(e->body)) {
        store_strips(w);
        return;
    }
    emit(e, "if (thread == 0) {");
    for (uint32_t i = 0; i < e->body->stores.n; i++) {
        if (!group_boxed(e->body, i)) continue;
        emit(e, "    nc_write_box(out%u_map%s, box%s, part_n, part_m%s);", i,
             w->apart > 1 ? ".of[rest]" : "", n ? emit_text(e, " + %d", STAGE * n) : "",
             w->apart > 1 ? emit_text(e, " / %d", w->apart) : "");
        n++;
    }
    emit(e, "    nc_boxes_end();");
    emit(e, "}");
}

// -- the kernel's tensor maps ---------------------------------------------------------------------

static const char *parameter(Emit *e, const ProgMap *m, const char *name)
{
    const char *type = m->apart > 1 ? emit_text(e, "NcMaps<%d>", m->apart) : "NcMap";
    return emit_text(e, ", const __grid_constant__ %s %s", type, name);
}

const char *wgmma_parameters(Emit *e)
{
    ProgMap m;
    const char *all = "";
    for (int axis = 1; axis <= 2; axis++) {
        m = group_operand(e->body, axis).map;
        all = emit_text(e, "%s%s", all, parameter(e, &m, axis == 1 ? "left_map" : "right_map"));
    }
    for (uint32_t i = 0; i < e->body->stores.n && !wgmma_strips(e->body); i++)
        if (group_result(e->body, i, &m))
            all = emit_text(e, "%s%s", all, parameter(e, &m, emit_text(e, "out%u_map", i)));
    return all;
}
