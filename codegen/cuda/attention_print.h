// What the files that print attention share.
#ifndef CODEGEN_TILE_ATTENTION_PRINT_H
#define CODEGEN_TILE_ATTENTION_PRINT_H

#include "codegen/cuda/tile_print.h"

// Whether a tile takes all columns there are, and what is hidden counts: no; where "blind"; yes.
typedef enum AttentionWhole { WHOLE_NEVER, WHOLE_SOME, WHOLE_ALL } AttentionWhole;

typedef struct AttentionPrint {
    Emit *e;
    const TileProgram *p;
    int rows, cols; // of scores, that a thread has
    bool masks;     // the last tile of columns reaches beyond them
    AttentionRange range;
    bool again; // with all columns, where the mask is no lower than scores: known at the end
    // By groups of warps:
    bool groups;
    bool down;  // they take the last columns first
    bool edge;  // a tile that the mask cuts, most often
    bool pairs; // a block takes tiles two by two
    AttentionWhole whole;
    const char *step; // the number of the op's: in no loop the first one's, or behind the last
} AttentionPrint;

// attention_print.c: what both kinds print
AttentionPrint attention_begin(Emit *e, const TileProgram *p);
bool attention_down(const AttentionPrint *w);            // the last rows have most columns
AttentionWhole attention_blind(const AttentionPrint *w); // of groups: what the mask asks for
void attention_whole(AttentionPrint *w);                 // ... of a tile: "blind"
void attention_columns(AttentionPrint *w); // the first column that counts, and how many tiles do
void attention_statistics(AttentionPrint *w);
void attention_judge(
    AttentionPrint *w); // of a tile: whether rows' scores are not all above the mask
void attention_results(AttentionPrint *w);
// attention_groups_print.c: the program of groups of warps
void attention_groups_cuda(Emit *e, const TileProgram *p);

// attention_weights.c: the weights of one tile of scores, at "next", the first of its columns.
void attention_weights(AttentionPrint *w);
// Whether some place of the warp's tile, or (all) every one, is within the bounds, as a condition.
const char *attention_within(AttentionPrint *w, bool all);
int attention_same_shift(const AttentionPrint *w, int bound); // the first bound that has it
int attention_same_batch(const AttentionPrint *w, int bound);
// ... and [by] times what the run and the batch add to the bound, which attention_columns has
// printed.
const char *attention_shifted(AttentionPrint *w, const char *text, int64_t by, int bound);

#endif
