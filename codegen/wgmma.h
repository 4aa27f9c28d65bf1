// What the files of products by groups of warps share.
#ifndef CODEGEN_WGMMA_H
#define CODEGEN_WGMMA_H

#include "codegen/print_cuda.h"

// STEP: columns (k) of a place in the ring; LINE: bytes of its rows. BOX: rows of STEP results that
// a warp writes at once.
enum { STEP = 64, LINE = STEP * 2, BOX = 16 };

// -- wgmma_maps.c: the matrices as bulk copies see them; without boxes, which follow from the
// schedule. false: they cannot.
bool group_operand(const Body *b, int axis, ProgMap *m, bool *along_k); // 1: left, 2: right
bool group_result(const Body *b, uint32_t store, ProgMap *m);
// Rows of a tile are so many apart: those of a map each (ProgMap.apart).
int group_apart(const Body *b);
// The left operand's rows begin anywhere: its tiles begin up to seven columns before them.
bool group_uneven(const Body *b);

#endif
