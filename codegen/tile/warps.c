// The tile program of a small contraction on tensor cores, built for low latency: a warp computes a
// tile of the result, or divides the contracted axis of a tile with other warps, and loads its
// operands from device memory into registers. Only the partial sums of warps that share a tile, in
// one block or in all blocks of a cluster, pass through shared memory. Operands are f32, multiplied
// as tf32, or 16-bit floats.
#include "codegen/tile/tile.h"

bool warp_narrow(const Body *b)
{
    return mma_fits(b);
}

int warp_columns(const Body *b)
{
    return warp_narrow(b) ? 8 : 4;
}

int warp_rows(const Body *b, int axis)
{
    return (axis == 1 ? b->sched.tile.m : b->sched.tile.n) / 8;
}

int warp_sharing(const Body *b)
{
    return b->sched.tile.share * b->sched.cluster;
}

int64_t warp_all_chunks(const Body *b)
{
    return ceil_div(ceil_div(b->axis[b->col].extent, 4 * warp_columns(b)), warp_sharing(b));
}

int warp_chunks(const Body *b)
{
    const Schedule *s = &b->sched;
    // With several resident blocks a thread has half the registers, which hold its sums, too.
    const int sums = s->tile.m * s->tile.n / 32,
              registers = warp_narrow(b) && s->resident > 1 ? 96 - sums : 96;
    int64_t n = warp_all_chunks(b), most = registers / (4 * (warp_rows(b, 1) + warp_rows(b, 2)));
    int64_t stretches = ceil_div(n, most); // of equal numbers of chunks
    return stretches ? (int)ceil_div(n, stretches) : 1;
}

static Tile operand(const Body *b, int axis)
{
    Tile t = {.name = axis == 1 ? "left" : "right", .layout = L_OPERAND, .places = 1};
    t.axis = axis;
    t.inst = axis == 1 ? b->dot.a : b->dot.b;
    t.along_k = operand_along_k(b, t.inst, warp_columns(b));
    t.type = warp_narrow(b) ? narrow_type(b, t.inst) : DT_F32;
    if (warp_narrow(b)) {
        t.inst = b->insts.at[t.inst].a[0]; // the 16-bit operand of the cast to f32
        t.plain = tile_copies(b, t.inst, t.type, t.along_k ? b->col : axis,
                              t.along_k ? warp_columns(b) : warp_rows(b, axis));
    }
    t.lines = 8 * warp_rows(b, axis);
    t.line = 4 * warp_columns(b) * warp_chunks(b);
    return t;
}

// The values that results need besides the sums are loaded first: their loads are in flight while
// the product is computed.
void tile_warps(const Body *b, TileProgram *p)
{
    const Schedule *s = &b->sched;
    *p = (TileProgram){.body = b, .atom = tile_atom(b), .type = DT_F32, .cluster = s->cluster};
    p->vector = warp_columns(b);
    p->warps_m = s->threads / 32 / s->tile.share;
    p->warps_n = 1;
    p->warps_k = s->tile.share;
    p->side_m = s->tile.m;
    p->side_n = s->tile.n;
    int64_t chunks = warp_all_chunks(b);
    p->steps = chunks ? ceil_div(chunks, warp_chunks(b)) : 1;
    int left = tile_add(p, operand(b, 1)), right = tile_add(p, operand(b, 2));
    int acc = tile_registers(p, "sums", L_SUMS, DT_F32, p->side_m, p->side_n), sums = acc;
    int rest = tile_registers(p, "rest", L_RESULTS, DT_F32, 0, 0);
    if (s->tile.share > 1)
        sums = tile_add(p, tile_rows("parts", L_ROWS, DT_F32, s->threads / 32 * s->tile.m,
                                     s->tile.n, s->tile.n));
    tile_load(p, BY_BODY, rest);
    tile_do(p, T_FILL, acc, NO_TILE);
    tile_begin(p, T_LOOP, p->steps);
    tile_load(p, BY_BODY, left);
    tile_load(p, BY_BODY, right);
    tile_mma(p, BY_BODY, acc, left, right);
    tile_end(p);
    if (sums != acc) tile_do(p, T_MOVE, sums, acc);
    tile_do(p, T_MAP, NO_TILE, sums);
}
