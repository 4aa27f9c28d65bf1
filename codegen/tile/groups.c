// The tile program of a product of bf16 or f16 matrices by groups of four warps (wgmma, sm_90).
//
// Blocks are persistent: each computes one tile of the result after another. One thread keeps a
// ring of operand tiles filled by bulk copies, as far ahead as shared memory allows. Two groups
// multiply straight from the ring: both the same tile (each half of its rows), or each a tile of
// its own, so that one multiplies while the other runs its epilogue. The blocks of a cluster
// compute tiles below each other, and each copies its share of the right operand to all of them
// (multicast). Two warps that have nothing to copy can sum the rows of the left operand.
//
// Alternatively, the blocks of a cluster divide the contracted axis of a tile (WGMMA_SPLIT,
// split-k), for few tiles with long sums, such as gradients of weights. Each block multiplies its
// range and leaves its partial sums in shared memory, in place of the ring. Then each computes the
// results of its share of the rows: it reads all partial sums of these rows, also from the other
// blocks' shared memory, and adds them in a fixed order. So results are the same to the bit,
// nothing passes through device memory, and there is one launch. Copies for the next tile begin
// only after that, so there should be one tile per block, or few. The groups of a block can divide
// its steps as well (WGMMA_STEPS), alternately. Results are stored by rows, so that a tile may have
// any width.
//
// If results need other tensors besides their sums (a residual, the mask of a gradient), the sums
// of one part at a time pass through shared memory, so that each thread has eight neighbours of a
// row: it loads 16 bytes of each tensor at a time, for several rows before the first is used, and
// stores as many (wgmma_by_rows). As registers allow, the loads of the first parts begin before the
// products, and the loads of the others the same number of parts ahead.
//
// Sums over the rows of a result that passes through shared memory, such as the statistics of a
// norm after a convolution, are computed from there: a lane of a warp has two neighbouring columns
// of each 64, adds up the rows of each part, and keeps the sums in registers from tile to tile,
// since all tiles of a block have the same columns (wgmma_derive). Each warp stores its sums after
// the last tile. If results are stored by rows, sums of any values are possible, as in the gradient
// of a norm: a thread adds up its elements of a part, and of the four lanes with the same eight
// columns each keeps one of the sums.
//
// Steps in which the right operand is zero are skipped (BodyWindows.live).
//
// A step over windows in images may contain all pixels of a line of the windows (WGMMA_STRIPS). The
// left tile is then a strip of the image with a few more rows than a tile; the products of each
// pixel read it at another row offset. The tiles of the right operand for these pixels follow one
// another, or the whole right operand stays in shared memory if there is only one column of tiles
// (wgmma_stays). The rows of a tile are positions, some of which are no results
// (ir/body_strips.c), so staged results are stored by the threads of a warp. (Bulk stores that
// begin before a line are illegal.)
#include "codegen/tile/tile.h"
#include "codegen/tile/wgmma.h"

// SUMMERS: warps that sum rows. REGISTERS: of one thread of each of the three warpgroups together.
enum { SUMMERS = 2, REGISTERS = 504 };

#define ATOM(n, name, type, multiply, pack)                                                        \
    {                                                                                              \
        name, type, 0, ATOM_ROWS, n, 16, NULL, multiply, pack                                      \
    }
#define ATOMS(...)                                                                                 \
    ATOM(32, __VA_ARGS__), ATOM(64, __VA_ARGS__), ATOM(96, __VA_ARGS__), ATOM(128, __VA_ARGS__),   \
        ATOM(160, __VA_ARGS__), ATOM(192, __VA_ARGS__), ATOM(256, __VA_ARGS__)

static const TileAtom atoms[] = {
    ATOMS("wgmma of bf16", DT_BF16, "nc_product_b", "nc_pack_b"),
    ATOMS("wgmma of f16", DT_F16, "nc_product_h", "nc_pack_h"),
};

static const TileAtom *atom_of(const Body *b)
{
    for (size_t i = 0; i < sizeof atoms / sizeof *atoms; i++)
        if (atoms[i].operand == b->insts.at[b->dot.a].from && atoms[i].n == b->sched.tile.n)
            return &atoms[i];
    return NULL;
}

bool wgmma_has_atom(int n)
{
    for (size_t i = 0; i < sizeof atoms / sizeof *atoms; i++)
        if (atoms[i].n == n) return true;
    return false;
}

// Adds a tile behind the memory that others have.
static int add_behind(TileProgram *p, Tile t)
{
    t.offset = p->shared;
    p->shared += t.places * t.bytes;
    return tile_add(p, t);
}

// A place of the ring has the left operand's tile, followed by the right one's.
static int add_operand(TileProgram *p, int axis)
{
    const Body *b = p->body;
    const Schedule *s = &b->sched;
    int given = axis == 1 ? b->dot.a : b->dot.b, side = axis == 1 ? s->tile.m : wgmma_wide(b);
    Tile t = {.name = axis == 1 ? "left" : "right", .layout = L_BULK, .axis = axis};
    const GroupOperand x = group_operand(b, axis);
    t.along_k = x.along_k;
    t.windows = x.map.image[0];
    t.type = p->type;
    t.inst = b->insts.at[given].a[0];
    t.lines = t.along_k ? side : axis == 2 ? wgmma_right_rows(b) : STEP;
    t.line = t.along_k ? STEP : side;
    t.pitch = STEP;
    t.places = s->tile.ring;
    t.bytes = wgmma_tile_bytes(b, axis);
    t.apart = wgmma_place_apart(b);
    t.offset = axis == 1 ? 0 : wgmma_right_offset(b);
    t.plain = true;
    t.of_group = axis == 1 && p->warps_m > 1;
    t.peers = axis == 2 && p->cluster > 1 && !p->split;
    if (axis == 1 || !wgmma_stays(b)) return tile_add(p, t);
    t.stays = true;
    t.places = 1;
    t.apart = t.bytes;
    return add_behind(p, t);
}

// The tile in which 16-bit results are staged for bulk copies, if there are any.
static int add_boxes(TileProgram *p)
{
    const Body *b = p->body;
    int staged = wgmma_staged(b);
    if (!staged) return NO_TILE;
    Tile t = {.name = "boxes", .layout = L_BULK, .type = p->type, .of_warp = true};
    t.lines = GROUPS * GROUP_WARPS * staged * BOX;
    t.line = t.pitch = STEP;
    t.places = wgmma_stages(b);
    t.bytes = t.lines * LINE;
    return add_behind(p, t);
}

// The tile for the sums of one part of each warp's results.
static int add_part(TileProgram *p)
{
    Tile t = tile_rows("sums", L_ROWS, DT_F32, GROUPS * GROUP_WARPS * BOX, STEP, STEP);
    t.of_warp = true;
    return add_behind(p, t);
}

// The tile in place of the ring in which the block adds the warps' sums: a line per warp and sum.
static int add_joint(TileProgram *p)
{
    const int n = p->side_n, lines = wgmma_joint_bytes(p->body) / (n * 4);
    return tile_add(p, tile_rows("joint", L_JOINT, DT_F32, lines, n, n));
}

static void add_roles(TileProgram *p)
{
    const Body *b = p->body;
    int own = wgmma_registers(b), rest = REGISTERS - GROUPS * own;
    p->role[p->nroles++] = (TileRole){"copies", 0, 1, rest, .thread = true};
    if (body_folds_left(b))
        p->role[p->nroles++] =
            (TileRole){"row sums", GROUP_WARPS - SUMMERS, SUMMERS, rest, .thread = false};
    p->role[p->nroles++] = (TileRole){"products",
                                      GROUP_WARPS,
                                      GROUPS * GROUP_WARPS,
                                      own,
                                      .groups = GROUPS,
                                      .turns = p->warps_m == 1 && p->warps_k == 1,
                                      .steps = p->warps_k > 1};
}

// If k is divided: the tile for the sums of each group, in place of the ring.
static int add_rows(TileProgram *p)
{
    const Tile t = tile_rows("sums", L_ROWS, DT_F32, p->warps_k * p->body->sched.tile.m, p->side_n,
                             wgmma_pitch(&p->body->sched));
    if (t.bytes > p->shared) p->shared = t.bytes;
    return tile_add(p, t);
}

static int add_rest(TileProgram *p)
{
    return tile_registers(p, "rest", L_RESULTS, DT_F32, 0, 0);
}

// Begins the loop over the block's tiles.
static void begin_tiles(TileProgram *p)
{
    const Schedule *s = &p->body->sched;
    tile_begin(p, T_TILES, wgmma_tiles(p->body))->count = (int)(s->blocks / s->cluster);
}

// -- roles ----------------------------------------------------------------------------------------

static void copies(TileProgram *p, int left, int right)
{
    const bool stays = p->tile[right].stays;
    tile_role(p, 0);
    if (stays) tile_load(p, BY_BULK, right);
    begin_tiles(p);
    tile_begin(p, T_LOOP, p->steps);
    tile_load(p, BY_BULK, left);
    if (!stays) tile_load(p, BY_BULK, right);
    tile_end(p);
    tile_end(p);
}

static void row_sums(TileProgram *p, int left)
{
    int sum = tile_registers(p, "sum", L_SUMS, DT_F32, 1, STEP);
    tile_role(p, 1);
    begin_tiles(p);
    tile_begin(p, T_LOOP, p->steps);
    tile_do(p, T_REDUCE, sum, left);
    tile_do(p, T_MAP, NO_TILE, sum);
    tile_end(p);
    tile_end(p);
}

// Computes and stores the results of a group's sums, part by part. [part]: the tile that the sums,
// or the results, pass through, or NO_TILE; [totals]: their column sums, or NO_TILE.
static void store_parts(TileProgram *p, int acc, int part, int rest, int totals)
{
    const int parts = wgmma_parts(p->body), ahead = wgmma_ahead(p->body);
    tile_begin(p, T_LOOP, parts);
    if (rest != NO_TILE) {
        if (ahead && ahead < parts) tile_load(p, BY_BODY, rest)->shift = ahead;
        tile_do(p, T_MOVE, part, acc);
        if (!ahead) tile_load(p, BY_BODY, rest); // to registers that the moved sums have freed
        tile_do(p, T_MAP, totals, part);
    } else {
        tile_do(p, T_MAP, part, acc);
        if (totals != NO_TILE) tile_do(p, T_REDUCE, totals, part);
        if (part != NO_TILE)
            tile_do(p, T_STORE, NO_TILE, part)->how = wgmma_strips(p->body) ? BY_BODY : BY_BULK;
    }
    tile_end(p);
}

static void products(TileProgram *p, int left, int right, int acc, int part)
{
    const Body *b = p->body;
    // In its totals each warp sums the columns of its results.
    const int totals = wgmma_adds_columns(b)
                           ? tile_registers(p, "totals", L_TOTALS, DT_F32, 1, p->side_n)
                           : NO_TILE,
              rest = wgmma_by_rows(b) ? add_rest(p) : NO_TILE;
    tile_role(p, p->nroles - 1);
    if (totals != NO_TILE) tile_do(p, T_FILL, totals, NO_TILE);
    begin_tiles(p);
    tile_do(p, T_FILL, acc, NO_TILE);
    if (wgmma_ahead(b)) {
        tile_begin(p, T_LOOP, wgmma_ahead(b));
        tile_load(p, BY_BODY, rest);
        tile_end(p);
    }
    tile_begin(p, T_LOOP, p->steps / p->warps_k);
    if (group_uneven(b)) tile_do(p, T_CLEAR, left, NO_TILE)->when = THE_FIRST;
    tile_mma(p, BY_TENSOR, acc, left, right);
    tile_end(p);
    if (p->split) { // other blocks read the sums, and results follow from the sums of all blocks
        const int sums = add_rows(p);
        tile_do(p, T_MOVE, sums, acc);
        tile_load(p, BY_BODY, add_rest(p));
        tile_do(p, T_MAP, NO_TILE, sums);
    } else {
        store_parts(p, acc, part, rest, totals);
    }
    tile_end(p);
    if (totals == NO_TILE) return;
    const int joint = add_joint(p);
    tile_do(p, T_MOVE, joint, totals);
    tile_do(p, T_MAP, NO_TILE, joint);
}

void tile_groups(const Body *b, TileProgram *p)
{
    const Schedule *s = &b->sched;
    const bool by_rows = wgmma_by_rows(b), split = wgmma_shares(s);
    *p = (TileProgram){.body = b, .atom = atom_of(b), .cluster = s->cluster, .split = split};
    p->vector = by_rows ? 8 : split ? 4 : 2; // how results are stored: by rows, or by pairs
    p->type = p->atom->operand;
    p->warps_k = s->tile.wgmma == WGMMA_STEPS ? GROUPS : 1;
    p->warps_m = wgmma_together(s) ? GROUPS : 1;
    p->warps_n = 1;
    p->side_m = s->tile.m / p->warps_m;
    p->side_n = s->tile.n;
    p->steps = wgmma_steps(b);
    p->skips = wgmma_skips(b) != NULL;
    p->shared = s->tile.ring * wgmma_place_apart(b);
    int left = add_operand(p, 1), right = add_operand(p, 2),
        part = by_rows ? add_part(p) : add_boxes(p);
    int acc = tile_registers(p, "acc", L_SUMS, DT_F32, p->side_m, p->side_n);
    add_roles(p);
    copies(p, left, right);
    if (body_folds_left(b)) row_sums(p, left);
    products(p, left, right, acc, part);
}
