// What the files that synchronise tile programs share: ops that are put in front of the ops of a
// program, and behind them.
#ifndef CODEGEN_TILE_SYNC_H
#define CODEGEN_TILE_SYNC_H

#include "codegen/tile/tile.h"

enum { MOST_INSERTED = 8 };

typedef struct Inserted {
    TileOp op[MOST_INSERTED];
    int n;
} Inserted;

typedef struct Sync {
    TileProgram from; // as it was built
    TileProgram *p;   // as it becomes: mbarriers at once, ops by sync_end
    Inserted before[TILE_MOST_OPS + 1], behind[TILE_MOST_OPS + 1];
} Sync;

void sync_begin(Sync *s, TileProgram *p);
// Their ops name no tiles to read or write.
void sync_before(Sync *s, int i, TileOp op);
void sync_behind(Sync *s, int i, TileOp op);
// Op i is a product of groups of warps: a fence for its sums; it is a group of its own.
void sync_product(Sync *s, int i);
void sync_end(Sync *s);

#endif
