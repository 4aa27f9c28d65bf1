// Inserting ops before and after the ops of a program; for the files that synchronise programs.
#ifndef CODEGEN_TILE_SYNC_H
#define CODEGEN_TILE_SYNC_H

#include "codegen/tile/tile.h"

enum { MOST_INSERTED = 8 };

typedef struct Inserted {
    TileOp op[MOST_INSERTED];
    int n;
} Inserted;

typedef struct Sync {
    TileProgram from; // the program as it was built
    TileProgram *p;   // the result: mbarriers are added to it directly, ops by sync_end
    Inserted before[TILE_MOST_OPS + 1], behind[TILE_MOST_OPS + 1];
} Sync;

void sync_begin(Sync *s, TileProgram *p);
// Insert an op before or after op i of Sync.from; the op's tiles are set to NO_TILE.
void sync_before(Sync *s, int i, TileOp op);
void sync_behind(Sync *s, int i, TileOp op);
// Op i is a wgmma product: inserts the fence for its sums before it and a commit right after it.
void sync_product(Sync *s, int i);
void sync_end(Sync *s);

#endif
