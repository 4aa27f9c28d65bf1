// From groups to kernels.
#ifndef CODEGEN_LAUNCH_H
#define CODEGEN_LAUNCH_H

#include "codegen/ir/body.h"
#include "codegen/lower/lower.h"

// choose.c: bodies for one group, with their schedules. *ordered: they must run in this order;
// otherwise they run concurrently. false: an error was reported.
bool launch_bodies(LowerCtx *ctx, Graph *g, const Group *group, BodyList *out, bool *ordered);

// extern.c: user-written kernels in the order of their launches. -1: an error was reported.
int lower_extern(LowerCtx *ctx, const Graph *g, const Group *group, LoweredKernel **out);

// The source line that the body computes.
Loc kernel_loc(const Body *b);

// repeat.c: the kernels of an equal earlier launch, with the nodes of this one; 0: there is none.
int launch_repeats(LowerCtx *ctx, Graph *g, Group *const *groups, int ngroups, LoweredKernel **out);
// Records the kernels of the launch that launch_repeats was last called for.
void launch_remember(LowerCtx *ctx, Group *const *groups, int ngroups, const LoweredKernel *kernels,
                     int n);

#endif
