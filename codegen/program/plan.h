// The memory plan of an entry, and its independent verifier.
#ifndef CODEGEN_PLAN_H
#define CODEGEN_PLAN_H

#include <stdbool.h>

#include "codegen/program.h"

enum { PLAN_ALIGN = 256 }; // sizes and offsets are multiples of this, also when peaks are computed
static inline int64_t plan_round(int64_t bytes)
{
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

typedef struct PlanItem { // a block of memory for a closed interval of steps
    int64_t bytes;
    int32_t first, last;
    int32_t idle_first, idle_last; // an interval in which it holds no data; 0, 0: none
    int64_t offset;                // result
} PlanItem;

// -- pack.c
// Places the items so that items that are live at the same time do not overlap. Returns the bytes
// of the arena.
int64_t plan_pack(Arena *a, PlanItem *items, uint32_t n);
// The most bytes that are live at the same time.
int64_t plan_lower_bound(Arena *a, const PlanItem *items, uint32_t n);

// -- plan.c
// Sets first, last, offset of every PR_ARENA buffer and arena_bytes.
void plan_memory(Arena *a, ProgEntry *e, bool no_reuse);
// -- plan_verify.c
// Returns NULL if the plan is valid; otherwise what is wrong, in the arena. Sets e->peak_bytes.
// Shares no code with the planner: liveness is computed from the steps again.
const char *plan_verify(Arena *a, ProgEntry *e);

#endif
