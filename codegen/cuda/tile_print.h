// Tile programs as CUDA C: what the files tile_*.c share.
#ifndef CODEGEN_TILE_PRINT_H
#define CODEGEN_TILE_PRINT_H

#include "codegen/cuda/print_cuda.h"
#include "codegen/tile/tile.h"

// What "(x / by % over * times)" is, without what changes nothing.
static inline const char *number(Emit *e, const char *x, int64_t by, int64_t over, int64_t times)
{
    if (over == 1) return "0";
    const char *s = by == 1 ? x : emit_text(e, "%s / %lld", x, (long long)by);
    if (over) s = emit_text(e, "%s %% %lld", s, (long long)over);
    return times == 1 ? s : emit_text(e, "%s * %lld", s, (long long)times);
}

// Names of tiles, a bit each.
static inline const char *tile_names(Emit *e, const TileProgram *p, uint32_t tiles)
{
    const char *s = "";
    for (int i = 0; i < p->ntiles; i++)
        if (tiles >> i & 1) s = emit_text(e, "%s%s%s", s, *s ? ", " : "", p->tile[i].name);
    return s;
}
// " // left, right: there", of what a wait is for.
static inline const char *tile_reason(Emit *e, const TileProgram *p, const TileOp *op)
{
    if (!op->filled && !op->freed) return "";
    return emit_text(e, " // %s: %s", tile_names(e, p, op->filled ? op->filled : op->freed),
                     op->filled ? "there" : "free");
}
// Of [n] parts of something this thread of so many takes every [threads]th: opens the scope that
// takes one, number "slot"; closes the loop over "u" around it.
void slots_open(Emit *e, int threads, const char *thread);
void slots_close(Emit *e, int n, int threads, const char *thread);
static inline int tile_elements(const Tile *t) // from place to place
{
    return t->lines * t->pitch;
}

// -- tile_print.c: a barrier, of programs without roles
void tile_barrier(Emit *e, const TileProgram *p, const TileOp *op);

// -- tile_rows.c: results of sums that lie in shared memory by rows
typedef struct RowPrint {
    Emit *e;
    const TileProgram *p;
    // Loads of what results need, the [early] first of them before the sums are joined.
    Vectors results;
    int early;
} RowPrint;
// Loads of what results need besides the sums, before these are joined; and whether to go on.
void rows_rest(RowPrint *w, const Tile *sums);
void rows_map(RowPrint *w, const Tile *sums);
// The same for parts of the results, each in a scope that knows "part_m" and "part_n".
void rows_declare_part(RowPrint *w, const Tile *sums);
void rows_load_part(RowPrint *w, const Tile *sums, const char *part);

// -- tile_warps.c: the whole text, of a program of warp tiles
void tile_warps_cuda(Emit *e, const TileProgram *p);

// -- tile_roles.c: the whole kernel's text, of a program with roles
void tile_roles_cuda(Emit *e, const TileProgram *p);

// -- tile_groups.c: its ops on tiles
typedef struct RolePrint {
    Emit *e;
    const TileProgram *p;
    const Tile *boxes; // NULL: none
    int below;         // 64 rows each: parts of a group's sums that lie below each other
    long long across;  // tiles side by side
    long long down;    // ... and below each other, of each product
    long long batch;   // products beside each other
    int apart;         // rows of a tile are so many apart
    RowPrint rows;     // of a tile whose columns blocks share
} RolePrint;
const char *group_rows(RolePrint *w); // the left operand's, that this group multiplies
void group_load(RolePrint *w, const TileOp *op);
void group_strip(RolePrint *w); // which columns step "step" has
void group_clear(RolePrint *w);
void group_multiply(RolePrint *w, const TileOp *op);
void group_reduce(RolePrint *w, const TileOp *op);
void group_sums(RolePrint *w, const TileOp *op); // to rows of shared memory
void group_row_sums(RolePrint *w);
// Where that part of the results is, and its boxes in shared memory; results to these, or to
// memory; the boxes to memory.
void group_part(RolePrint *w, const char *part);
void group_place(Emit *e, const char *place); // strips: "along" the line, and axis 1
void group_map(RolePrint *w);
void group_store(RolePrint *w);

// -- tile_totals.c: sums of columns of results, which a warp keeps from tile to tile: none yet;
// with the rows of the boxes; for the block to join; to memory, joined
void group_totals_begin(RolePrint *w);
void group_add(RolePrint *w);
void group_totals_kept(RolePrint *w, const Tile *joint);
void group_totals(RolePrint *w, const Tile *joint);

// -- tile_operands.c: an operand's tile, in a scope that knows "next", the first column of its
// iteration
// Begins copying it to place "place" of the ring.
void operand_copy(Emit *e, const TileProgram *p, const Tile *t);
// Computes it into registers, from number [first] on of those that are named; moves these there.
void operand_fetch(Emit *e, const TileProgram *p, const Tile *t, const char *first);
void operand_put(Emit *e, const TileProgram *p, const Tile *t, const char *first);
int operand_vectors(const TileProgram *p, const Tile *t); // that a thread fetches

// -- tile_plain.c: the ops of products without tensor cores
const char *plain_type(const TileProgram *p);
void plain_fetch(Emit *e, const Tile *t);
void plain_put(Emit *e, const Tile *t);
void plain_fill(Emit *e, const TileProgram *p);
void plain_multiply(Emit *e, const TileProgram *p, const TileOp *op);
void plain_move(Emit *e, const TileProgram *p, const TileOp *op);
void plain_map(Emit *e, const TileProgram *p);

// -- tile_results.c
// The loads that results of neighbours along axis 2 need besides their sums.
Vectors result_vectors(const Emit *e, int width);
typedef struct ResultVector {
    const char *base; // the first's place along axis 2
    int width;
    int early;          // loads that there are already, the first ones
    const char *slot;   // ... of the arrays that they are in
    const char *joined; // a line that makes the sums known; NULL: they are
    const char *sum;    // the sum of this "lane"
    const char *added;  // an array of sums over rows, each of this "lane"; NULL: they are not here
    void (*store)(Emit *e, Vectors *v); // of whole vectors of results; NULL: to memory
} ResultVector;
void result_vector(Emit *e, Vectors *v, const ResultVector *r);
// Whether that place of the result is one, as a condition: tiles are [high] rows apart. (Those that
// end with the result need no test: what follows from several vectors may overlap.)
const char *result_inside(Emit *e, const char *base, int64_t high);

#endif
