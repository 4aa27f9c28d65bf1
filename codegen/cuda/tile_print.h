// Declarations shared by the files that print tile programs as CUDA C.
#ifndef CODEGEN_TILE_PRINT_H
#define CODEGEN_TILE_PRINT_H

#include "codegen/cuda/print_cuda.h"
#include "codegen/tile/tile.h"

// The names of a set of tiles (bits).
static inline const char *tile_names(Emit *e, const TileProgram *p, uint32_t tiles)
{
    const char *s = "";
    for (int i = 0; i < p->ntiles; i++)
        if (tiles >> i & 1) s = emit_text(e, "%s%s%s", s, *s ? ", " : "", p->tile[i].name);
    return s;
}
// A comment for a wait, " // left, right: there": which tiles it is for.
static inline const char *tile_reason(Emit *e, const TileProgram *p, const TileOp *op)
{
    if (!op->filled && !op->freed) return "";
    return emit_text(e, " // %s: %s", tile_names(e, p, op->filled ? op->filled : op->freed),
                     op->filled ? "there" : "free");
}
// A loop over "u" that distributes [n] slots over [threads] threads: opens the scope of one of this
// thread's slots, number "slot"; closes it with the loop around it.
void slots_open(Emit *e, int threads, const char *thread);
void slots_close(Emit *e, int n, int threads, const char *thread);
static inline int tile_elements(const Tile *t) // elements from one place to the next
{
    return t->lines * t->pitch;
}

// -- tile_print.c: a barrier of a program without roles
void tile_barrier(Emit *e, const TileProgram *p, const TileOp *op);

// -- tile_rows.c: results computed from rows of sums in shared memory
typedef struct RowPrint {
    Emit *e;
    const TileProgram *p;
    // The loads that results need; the first [early] of them come before the sums are added.
    Vectors results;
    int early;
} RowPrint;
// The early loads that results need besides the sums, and the test of the error record.
void rows_rest(RowPrint *w, const Tile *sums);
void rows_map(RowPrint *w, const Tile *sums);
// The same for parts of the results, each in a scope that knows "part_m" and "part_n".
void rows_declare_part(RowPrint *w, const Tile *sums);
void rows_load_part(RowPrint *w, const Tile *sums, const char *part);

// -- tile_warps.c: the whole text of a program with a tile per warp
void tile_warps_cuda(Emit *e, const TileProgram *p);

// -- tile_roles.c: the whole text of a program with roles
void tile_roles_cuda(Emit *e, const TileProgram *p);

// -- tile_groups.c: its ops on tiles
typedef struct RolePrint {
    Emit *e;
    const TileProgram *p;
    const Tile *boxes; // the tile for staged results; NULL: none
    int below;         // how many blocks of 64 rows a group's sums have
    long long across;  // number of tiles along n
    long long down;    // ... along m, of each product
    long long batch;   // number of products
    int apart;         // a tile has every [apart]th row (ProgMap.apart)
    RowPrint rows;     // if results are computed from rows of sums in shared memory
} RolePrint;
const char *group_rows(RolePrint *w); // the rows of the left operand that this group multiplies
void group_load(RolePrint *w, const TileOp *op);
void group_first(RolePrint *w); // of strips or groups: the first column of step "step"
void group_multiply(RolePrint *w, const TileOp *op);
void group_reduce(RolePrint *w, const TileOp *op);
void group_sums(RolePrint *w, const TileOp *op); // to rows in shared memory
void group_row_sums(RolePrint *w);
// The position of a part of the results, and its boxes in shared memory; computes results into
// these boxes or to memory; stores the boxes to memory.
void group_part(RolePrint *w, const char *part);
void group_place(Emit *e);         // strips: declares "along" (in the line) and axis 1
int64_t group_high(const Body *b); // rows from one tile to the next
void group_map(RolePrint *w);
void group_store(RolePrint *w);

// -- tile_totals.c: sums of columns of results, which a warp keeps in registers from tile to tile.
// Adds the rows of the boxes to them; moves them to shared memory; stores the block's sums.
void group_add(RolePrint *w);
void group_totals_kept(RolePrint *w, const Tile *joint);
void group_totals(RolePrint *w, const Tile *joint);

// -- tile_operands.c: an operand's tile, in a scope that knows "next", the first column of its
// iteration.
// Issues asynchronous copies to place "place" of the ring.
void operand_copy(Emit *e, const TileProgram *p, const Tile *t);
// Computes the tile into the array "NAME_next" of registers, from subscript [first] on; moves them
// to the tile.
void operand_fetch(Emit *e, const TileProgram *p, const Tile *t, const char *first);
void operand_put(Emit *e, const TileProgram *p, const Tile *t, const char *first);
// The condition that the element at the axes' indices exists and is loaded; "": always.
// rows_inside, columns_inside: those of all tiles are inside of the matrix.
const char *operand_there(Emit *e, const Tile *t, bool rows_inside, bool columns_inside);

// -- tile_plain.c: the ops of products without tensor cores
const char *plain_type(const TileProgram *p);
void plain_fetch(Emit *e, const Tile *t);
void plain_put(Emit *e, const Tile *t);
void plain_fill(Emit *e, const TileProgram *p);
void plain_multiply(RowPrint *w, const TileOp *op);
void plain_move(RowPrint *w, const TileOp *op);
void plain_map(Emit *e, const TileProgram *p);

// -- tile_results.c
// The loads that results of neighbours along axis 2 need besides their sums.
Vectors result_vectors(const Emit *e, int width);
typedef struct ResultVector {
    const char *base; // the index of the first along axis 2
    int width;
    int early;          // the first [early] loads have been done, into arrays
    const char *slot;   // the subscript of these arrays
    const char *joined; // a line that computes the sums; NULL: they are known
    const char *sum;    // the sum of this "lane"
    const char *added;  // an array of arrays, by sum over rows and "lane", to add to; NULL: none
    void (*store)(Emit *e, Vectors *v); // stores whole vectors of results; NULL: to memory
} ResultVector;
void result_vector(Emit *e, Vectors *v, const ResultVector *r);
// The condition that a vector's first position is within the result; [high]: rows from one tile to
// the next. It is empty if the result consists of whole tiles, so that the code of several vectors
// may overlap.
const char *result_inside(Emit *e, const char *base, int64_t high);

#endif
