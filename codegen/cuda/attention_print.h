// Declarations shared by the files that print attention.
#ifndef CODEGEN_TILE_ATTENTION_PRINT_H
#define CODEGEN_TILE_ATTENTION_PRINT_H

#include "codegen/cuda/tile_print.h"

// Whether tiles use all columns, masked ones included: never; if the variable "blind" is set, which
// says that the tile may have rows whose columns are all masked; always.
typedef enum AttentionWhole { WHOLE_NEVER, WHOLE_SOME, WHOLE_ALL } AttentionWhole;

typedef struct AttentionPrint {
    Emit *e;
    const TileProgram *p;
    int rows, cols; // of a thread's scores
    bool masks;     // the last tile of columns extends beyond the last column
    AttentionRange range;
    bool again; // run again with all columns if the mask turns out not to be below all scores
    // By groups of four warps:
    bool groups;
    bool down;  // they process the columns from the last to the first
    bool edge;  // the tile being printed is one that the mask usually cuts
    bool pairs; // a block computes tiles in pairs
    AttentionWhole whole;
    const char *step; // the op's step: "step"; before the loop "0", after it "steps"
} AttentionPrint;

// attention_print.c: what both kinds print
AttentionPrint attention_begin(Emit *e, const TileProgram *p);
bool attention_down(const AttentionPrint *w);            // the last rows have the most columns
AttentionWhole attention_blind(const AttentionPrint *w); // which tiles need masked columns
void attention_whole(AttentionPrint *w);                 // declares "blind" for a tile
// Declares "first" and "steps": the first column that a tile of rows needs, and its steps.
void attention_columns(AttentionPrint *w);
void attention_statistics(AttentionPrint *w);
// Sets "low" if the scores of some row of the tile are not all above the mask.
void attention_judge(AttentionPrint *w);
void attention_results(AttentionPrint *w);
// attention_groups_print.c: the program by groups of four warps
void attention_groups_cuda(Emit *e, const TileProgram *p);

// attention_weights.c: the weights of one tile of scores; "next" is the first of its columns.
void attention_weights(AttentionPrint *w);
// The condition that some element of the warp's tile, or (all) every one, is within the bounds.
const char *attention_within(AttentionPrint *w, bool all);
// [text] plus [by] times the bound's run-time terms, which attention_columns declares.
const char *attention_shifted(AttentionPrint *w, const char *text, int64_t by, int bound);

#endif
