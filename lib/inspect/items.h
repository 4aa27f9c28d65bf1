// The steps of an entry as netc inspect lists and compares them.
#ifndef LIB_ITEMS_H
#define LIB_ITEMS_H

#include "lib/inspect/cost.h"
#include "lib/lib.h"

typedef struct Item { // a step that launches something; loops only multiply the calls of the steps
                      // in them
    const ProgStep *step;
    const char *name, *kind, *line, *schedule;
    const char *types;   // of the tensors read and written: "u8 f32 -> bf16"; for a product, its
                         // sizes and types: "128x10x784 bf16 bf16 -> f32", "..., tf32"
    int64_t calls;       // per execution of the entry
    Cost cost;           // of one call
    double floor;        // of all calls
    RtKernelInfo info;   // -1: unknown
    int64_t blocks;      // of a GPU kernel's launch, otherwise 0
    const ProgKernel *k; // NULL: not a kernel
} Item;

typedef struct Items {
    const ProgEntry *e;
    Item *at;
    int n;
    int64_t calls, bytes, flops; // of all items
    double floor;
} Items;

// Minimum times are computed with the rates of the program's target.
Items items_of(Arena *a, const Build *b, const ProgEntry *e);
void items_by_cost(Items *t); // most expensive first
Target target_of_program(const Program *p);
// Reads the build's cubin for the program's architecture, or otherwise for any. *image: that cubin;
// NULL: there is none, and all fields are unknown.
RtKernelInfo kernel_info(const Build *b, const ProgKernel *k, const Target *t,
                         const RtImage **image);

#endif
