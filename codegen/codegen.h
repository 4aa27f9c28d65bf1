// Module with fused graphs -> Program.
#ifndef CODEGEN_CODEGEN_H
#define CODEGEN_CODEGEN_H

#include "codegen/kernel.h"
#include "codegen/program.h"
#include "ir/fusion.h"
#include "ir/module.h"
#include "ir/target.h"

// A launch as it was lowered, so that it can be lowered again under other schedules.
typedef struct LaunchRecord {
    LowerCtx ctx; // a copy, without checks
    Graph *graph;
    Group *const *groups;
    int ngroups;
    LoweredKernel *kernels; // names are those of the Program
    int nkernels;
} LaunchRecord;
typedef VEC(LaunchRecord) LaunchLog;

typedef struct StepRecord { // which groups a step of the program computes; loops have none
    const Entry *entry;
    int32_t step;
    const Graph *graph; // theirs: the entry's or a region's
    Group *const *groups;
    int ngroups;
} StepRecord;
typedef VEC(StepRecord) StepLog; // by entry, then step

typedef struct CodegenOptions {
    const Target *target;
    bool no_reuse;                   // every temporary its own place, for bisecting
    bool no_side_by_side;            // one launch a group
    bool print_each;                 // kernels like earlier ones, too; the program is the same
    bool tf32;                       // f32 contractions may use tensor cores
    const char *choices;             // choice table to carry along, or NULL
    const ScheduleSource *schedules; // NULL: the cost model's
    LaunchLog *log;                  // NULL, or what was lowered is added to it
    StepLog *steps;                  // NULL, or what steps compute is added to it
    // May put an edited kernel in a generated one's place: its text, function and launch. contract:
    // the arguments it is called with.
    void (*override)(void *ctx, ProgKernel *k, const char *contract);
    void *override_ctx;
} CodegenOptions;

// NULL on error, reported through m->diags.
Program *codegen(Module *m, const CodegenOptions *o);

#endif
