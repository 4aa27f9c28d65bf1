// What the files that print attention share.
#ifndef CODEGEN_TILE_ATTENTION_PRINT_H
#define CODEGEN_TILE_ATTENTION_PRINT_H

#include "codegen/cuda/tile_print.h"

typedef struct AttentionPrint {
    Emit *e;
    const TileProgram *p;
    int rows, cols; // of scores, that a thread has
    bool masks;     // the last tile of columns reaches beyond them
    AttentionRange range;
    bool again; // with all columns, where the mask is no lower than scores: known at the end
} AttentionPrint;

// attention_weights.c: the weights of one tile of scores, at "next", the first of its columns.
void attention_weights(AttentionPrint *w);
// Whether some place of the warp's tile, or (all) every one, is within the bounds, as a condition.
const char *attention_within(AttentionPrint *w, bool all);

#endif
