// What a product by groups of warps does with tiles, as CUDA C: copies, products, sums of rows, and
// what follows from the sums.
//
// A thread that multiplies holds pairs of neighbours of the sums, and computes what follows (any
// fused expression, any number of results) pair by pair: 16 rows of 64 neighbours at a time a warp.
#include "codegen/cuda/tile_print.h"
#include "codegen/tile/wgmma.h"

enum { STAGE = BOX * STEP }; // elements of a box

static bool together(const RolePrint *w)
{
    return w->p->warps_m > 1;
}

// The left operand's rows that this group multiplies.
const char *group_rows(RolePrint *w)
{
    const Tile *left = &w->p->tile[0];
    if (!left->of_group) return left->name;
    return emit_text(w->e, "%s + group * %d", left->name, left->bytes / w->p->warps_m);
}

// -- operands -------------------------------------------------------------------------------------

static const char *origin_of(const Tile *t)
{
    return t->axis == 1 ? "origin_m" : "origin_n";
}

// A pixel of each window, and 64 channels of it: one copy where these go along the columns, else
// one for every 64 of the tile's rows. Beyond the last column, in what blocks share, there is no
// image.
static void load_windows(RolePrint *w, const Tile *t, const BodyWindows *g, int side)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const bool one = t->along_k || side == STEP, shares = wgmma_shares(&b->sched);
    const char *names[2] = {e->axis[t->axis], e->axis[b->col]}, *origin = origin_of(t), *text[6];
    const char *there = emit_text(e, "first < %lld", (long long)b->axis[b->col].extent);
    e->axis[t->axis] = one ? origin : emit_text(e, "(%s + i)", origin);
    e->axis[b->col] = shares ? emit_text(e, "(%s ? first : 0)", there) : "first";
    for (int i = 0; i < 3; i++) text[i] = emit_index(e, g->place[i]);
    for (int i = 0; i < 2; i++) text[3 + i] = emit_index(e, g->tap[i]);
    text[5] = emit_index(e, g->channel);
    e->axis[t->axis] = names[0];
    e->axis[b->col] = names[1];
    if (shares) text[2] = emit_text(e, "%s ? %s : %lld", there, text[2], (long long)g->map.rows);
    if (!one) {
        emit_line(e, e->scope, "#pragma unroll");
        emit_line(e, e->scope, "for (int i = 0; i < %d; i += %d)", side, STEP);
    }
    emit_line(e, e->scope, "%snc_copy_windows(%s%s, %s_map, %s, %s, %s, %s, %s, %s, full + place);",
              one ? "" : "    ", t->name, one ? "" : emit_text(e, " + i * %d", LINE), t->name,
              text[5], text[0], text[1], text[2], text[3], text[4]);
}

// The copies of one step's tile to its place.
void group_load(RolePrint *w, const TileOp *op)
{
    Emit *e = w->e;
    const Tile *t = &w->p->tile[op->dst];
    const Schedule *s = &e->body->sched;
    int side = t->axis == 1 ? s->tile.m : wgmma_wide(e->body), by = t->peers ? s->cluster : 1;
    const char *origin = origin_of(t), *share = "", *behind = "";
    if (t->windows) {
        load_windows(w, t, e->body->dot.windows[t->axis - 1], side);
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
        behind = emit_text(e, " + rank * %d", lines * LINE);
        share = emit_text(e, " + rank * %d", lines);
    }
    if (t->along_k) {
        if (t->axis == 1 && w->apart > 1) share = emit_text(e, " / %d", w->apart);
        emit_line(e, e->scope, "%s%s%s, %s, first, %s%s%s, full + place);", copy, t->name, behind,
                  map, origin, share, plane);
        return;
    }
    bool one = side == STEP;
    if (!one) {
        emit_line(e, e->scope, "#pragma unroll");
        emit_line(e, e->scope, "for (int i = 0; i < %d; i += %d)", side, STEP);
    }
    emit_line(e, e->scope, "%s%s%s%s%s, %s, %s%s, first%s%s%s, full + place);", one ? "" : "    ",
              copy, t->name, one ? "" : emit_text(e, " + i * %d", LINE), behind, map, origin,
              one ? "" : " + i", group_uneven(e->body) ? " - shift" : "", share, plane);
}

void group_clear(RolePrint *w)
{
    emit_line(w->e, w->e->scope, "nc_clear_before<%d>(%s, shift);", w->p->side_m, group_rows(w));
}

// acc += left right, in columns of the atom.
void group_multiply(RolePrint *w, const TileOp *op)
{
    Emit *e = w->e;
    const TileAtom *atom = w->p->atom;
    const Tile *x = &w->p->tile[op->a], *y = &w->p->tile[op->b];
    bool one = w->below == 1;
    emit_line(e, e->scope, "#pragma unroll");
    emit_line(e, e->scope, "for (int k = 0; k < %d; k++)", STEP / atom->k);
    if (!one) {
        emit_line(e, e->scope, "    #pragma unroll");
        emit_line(e, e->scope, "    for (int i = 0; i < %d; i++)", w->below);
    }
    emit_line(e, e->scope, "%s%s<%d, %d>(acc[%s], x + k * %d%s, y + k * %d, step + k > 0);",
              one ? "    " : "        ", atom->multiply, !x->along_k, !y->along_k, one ? "0" : "i",
              x->along_k ? 2 : LINE, one ? "" : emit_text(e, " + i * %d", atom->m * LINE / 16),
              y->along_k ? 2 : LINE);
}

// Tiles side by side read the same rows of the left operand, so each takes its share of the steps.
void group_reduce(RolePrint *w, const TileOp *op)
{
    Emit *e = w->e;
    const Tile *t = &w->p->tile[op->a];
    emit_line(e, e->scope, "float sum[8] = {};");
    emit_line(e, e->scope, "if (due == 0) nc_sum_rows_%s<%d>(sum, nc_shared_place(left + piece));",
              t->type == DT_BF16 ? "b" : "h", t->lines);
}

void group_row_sums(RolePrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    Scope *in = e->scope;
    long long k = b->axis[b->col].extent;
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
                      (long long)b->axis[1].extent, k, e->buf_name[b->stores.at[i].buf],
                      int_type(e), b->sched.tile.m, k);
    emit_line(e, in, "    }");
    emit_line(e, in, "}");
}

void group_sums(RolePrint *w, const TileOp *op)
{
    const Tile *t = &w->p->tile[op->dst];
    emit_line(w->e, w->e->scope, "nc_settled(acc);");
    emit_line(w->e, w->e->scope, "nc_put_group<%d>(sums + group * %d, acc);", t->pitch,
              w->p->side_m * t->pitch);
}

// -- results --------------------------------------------------------------------------------------

static bool is_staged(const Body *b, uint32_t store)
{
    ProgMap m;
    return group_result(b, store, &m);
}

// Where this part of the results is, and its boxes in shared memory.
void group_part(RolePrint *w)
{
    Emit *e = w->e;
    Scope *in = e->scope;
    const char *row =
                   w->below > 1 ? emit_text(e, "part %% %d * %d + ", w->below, w->p->atom->m) : "",
               *column = number(e, "part", w->below, 0, STEP);
    if (together(w)) row = emit_text(e, "group * %d + %s", w->p->side_m, row);
    row = emit_text(e, "%swarp * %d", row, BOX);
    if (w->apart > 1) row = emit_text(e, "(%s) * %d", row, w->apart);
    emit_line(e, in, "const int part_m = origin_m + %s, part_n = origin_n + %s;", row, column);
    if (!w->boxes) return;
    const char *place = w->boxes->places > 1 ? emit_text(e, " + part %% %d * %d", w->boxes->places,
                                                         wgmma_staged(e->body) * STAGE)
                                             : "";
    emit_line(e, in, "uint16_t *const box = boxes%s;", place);
}

// Pairs of neighbours: kept for this warp's boxes, or to where they belong.
static void store_pairs(Emit *e, Vectors *v)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        if (!is_staged(b, i)) continue;
        DType t = b->bufs.at[b->stores.at[i].buf].type;
        v->store[i] = false;
        emit_line(e, e->scope, "pairs%u[pair %% 4] = %s(out%u).at.of[0];", i,
                  t == DT_BF16 ? "nc_pack_b" : "nc_pack_h", i);
    }
    flush_stores(e, v, -1);
}

// Four pairs of a thread: 16 columns of the box, whose 16-byte pieces are exchanged by the row.
static void put_pairs(RolePrint *w)
{
    Emit *e = w->e;
    int n = 0;
    if (!w->boxes) return;
    emit_line(e, e->scope, "if (pair %% 4 == 3) {");
    for (uint32_t i = 0; i < e->body->stores.n; i++)
        if (is_staged(e->body, i))
            emit_line(e, e->scope, "    nc_put_matrices4<%d>(to ^ pair / 4 * 32, pairs%u);",
                      STAGE * 2 * n++, i);
    emit_line(e, e->scope, "}");
}

void group_map(RolePrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const char *base = emit_text(e, "%s_first", e->axis[2]);
    Scope *in = e->scope;
    if (w->boxes) emit_line(e, in, "const uint32_t to = nc_place_anew(box + at);");
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (is_staged(b, i)) emit_line(e, in, "uint32_t pairs%u[4];", i);
    emit_open(e, 0);
    emit_line(e, e->scope,
              "const int row = pair %% 2 * 8 + thread / 4, from = pair / 2 * 8 + thread %% 4 * 2;");
    emit_line(e, e->scope, "const float *const sums = acc[%s] + %s + pair * 2;",
              w->below > 1 ? emit_text(e, "part %% %d", w->below) : "0",
              number(e, "part", w->below, 0, STEP / 2));
    emit_line(e, e->scope, "const %s %s = part_m + row%s, %s = part_n + from;", int_type(e),
              e->axis[1], w->apart > 1 ? emit_text(e, " * %d", w->apart) : "", base);
    finish_vector(e, base, 2, (int64_t)b->sched.tile.m * b->sched.cluster * w->apart, "sums[lane]",
                  store_pairs);
    put_pairs(w);
    emit_line(e, in, "#pragma unroll");
    emit_close(e, "for (int pair = 0; pair < 16; pair++) {", "}");
}

// The boxes that a warp has in shared memory: one thread starts their copies.
void group_store(RolePrint *w)
{
    Emit *e = w->e;
    int n = 0;
    emit_line(e, e->scope, "if (thread == 0) {");
    for (uint32_t i = 0; i < e->body->stores.n; i++) {
        if (!is_staged(e->body, i)) continue;
        emit_line(e, e->scope, "    nc_write_box(out%u_map%s, box%s, part_n, part_m%s);", i,
                  w->apart > 1 ? ".of[rest]" : "", n ? emit_text(e, " + %d", STAGE * n) : "",
                  w->apart > 1 ? emit_text(e, " / %d", w->apart) : "");
        n++;
    }
    emit_line(e, e->scope, "    nc_boxes_end();");
    emit_line(e, e->scope, "}");
}

// -- the kernel's maps ----------------------------------------------------------------------------

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
