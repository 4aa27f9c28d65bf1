// Module with fused graphs -> Program.
#ifndef CODEGEN_CODEGEN_H
#define CODEGEN_CODEGEN_H

#include "codegen/kernel.h"
#include "codegen/program.h"
#include "ir/fusion.h"
#include "ir/module.h"
#include "ir/target.h"

// A lowered launch, recorded so that it can be lowered again with other schedules.
typedef struct LaunchRecord {
    LowerCtx ctx; // a copy, without checks
    Graph *graph;
    Group *const *groups;
    int ngroups;
    LoweredKernel *kernels; // with the names they have in the Program
    int nkernels;
} LaunchRecord;
typedef VEC(LaunchRecord) LaunchLog;

typedef struct StepRecord { // the groups that a step of the program computes; loops have none
    const Entry *entry;
    int32_t step;
    const Graph *graph; // the groups' graph: the entry's or a region's
    Group *const *groups;
    int ngroups;
} StepRecord;
typedef VEC(StepRecord) StepLog; // ordered by entry, then step

typedef struct CodegenOptions {
    const Target *target;
    bool no_reuse;        // every temporary has memory of its own, for bisection
    bool no_side_by_side; // one launch per group
    bool print_each;      // print kernels equal to earlier ones, too; the program is the same
    bool tf32;            // f32 contractions may use tensor cores
    int devices;          // that share the work of a step; 0 or 1: one
    const char *choices;  // choice table to store in the program, or NULL
    const ScheduleSource *schedules; // NULL: the cost model's
    LaunchLog *log;                  // receives every lowered launch, or NULL
    StepLog *steps;                  // receives what every step computes, or NULL
    // May replace a generated kernel by an edited one: its text, function and launch. contract: the
    // arguments it is called with.
    void (*override)(void *ctx, ProgKernel *k, const char *contract);
    void *override_ctx;
} CodegenOptions;

// NULL on error, reported through m->diags.
Program *codegen(Module *m, const CodegenOptions *o);

#endif
