// The steps of an entry as netc inspect lists and compares them.
#ifndef LIB_ITEMS_H
#define LIB_ITEMS_H

#include "lib/inspect/cost.h"
#include "lib/lib.h"

typedef struct Item { // a step that does something; loops are in the calls of what they repeat
    const ProgStep *step;
    const char *name, *kind, *line, *schedule;
    const char *types; // of the tensors read and written: "u8 f32 -> bf16"; of a product its sizes
                       // and how it multiplies: "128x10x784 bf16 bf16 -> f32", "..., tf32"
    int64_t calls;     // in one execution of the entry
    Cost cost;         // of one call
    double floor;      // of all calls
    RtKernelInfo info; // -1: not known
    int64_t blocks;    // of a GPU kernel's launch; 0
    const ProgKernel *k; // NULL: no kernel
} Item;

typedef struct Items {
    const ProgEntry *e;
    Item *at;
    int n;
    int64_t calls, bytes, flops; // of all
    double floor;
} Items;

// Floors by the rates of the target that the program is for.
Items items_of(Arena *a, const Build *b, const ProgEntry *e);
void items_by_cost(Items *t); // the dearest first
Target target_of_program(const Program *p);
// From the cubin for the program's architecture, or else for any, that the build carries: *image.
// NULL: none; nothing is known.
RtKernelInfo kernel_info(const Build *b, const ProgKernel *k, const Target *t,
                         const RtImage **image);

#endif
