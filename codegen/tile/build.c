// Functions that append tiles and ops to a tile program.
#include "codegen/tile/tile.h"

int tile_add(TileProgram *p, Tile t)
{
    p->tile[p->ntiles] = t;
    return p->ntiles++;
}

int tile_registers(TileProgram *p, const char *name, TileLayout layout, DType type, int lines,
                   int line)
{
    return tile_add(p, (Tile){name, layout, type, lines, line, .places = 1});
}

Tile tile_rows(const char *name, TileLayout layout, DType type, int lines, int line, int pitch)
{
    return (Tile){name, layout, type, lines,
                  line, pitch,  1,    .bytes = lines * pitch * math_bytes(type)};
}

int tile_memory(const TileProgram *p)
{
    int bytes = 0;
    for (int i = 0; i < p->ntiles; i++)
        if (tile_shared(&p->tile[i])) bytes += p->tile[i].places * p->tile[i].bytes;
    return bytes;
}

void tile_op(TileProgram *p, TileOp op)
{
    p->op[p->nops++] = op;
}

TileOp *tile_do(TileProgram *p, TileKind kind, int dst, int a)
{
    tile_op(p, (TileOp){kind, .dst = dst, .a = a, .b = NO_TILE});
    return &p->op[p->nops - 1];
}

TileOp *tile_load(TileProgram *p, TileHow how, int dst)
{
    TileOp *op = tile_do(p, T_LOAD, dst, NO_TILE);
    op->how = how;
    return op;
}

TileOp *tile_mma(TileProgram *p, TileHow how, int dst, int a, int b)
{
    TileOp *op = tile_do(p, T_MMA, dst, a);
    op->how = how;
    op->b = b;
    return op;
}

TileOp *tile_begin(TileProgram *p, TileKind kind, int64_t trips)
{
    TileOp *op = tile_do(p, kind, NO_TILE, NO_TILE);
    op->trips = trips;
    return op;
}

void tile_end(TileProgram *p)
{
    tile_do(p, T_END, NO_TILE, NO_TILE);
}

void tile_role(TileProgram *p, int role)
{
    tile_do(p, T_ROLE, NO_TILE, NO_TILE)->role = role;
}

int tile_end_of(const TileProgram *p, int i)
{
    for (int depth = 0;; i++) {
        depth += tile_begins(&p->op[i]);
        depth -= p->op[i].kind == T_END;
        if (!depth) return i;
    }
}

int tile_next_role(const TileProgram *p, int i)
{
    while (i < p->nops && p->op[i].kind != T_ROLE) i++;
    return i;
}

bool tile_has(const TileProgram *p, int from, int to, TileKind kind)
{
    for (int i = from; i < to; i++)
        if (p->op[i].kind == kind) return true;
    return false;
}
