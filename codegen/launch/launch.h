// From groups to kernels.
#ifndef CODEGEN_LAUNCH_H
#define CODEGEN_LAUNCH_H

#include "codegen/ir/body.h"
#include "codegen/lower/lower.h"

// choose.c: bodies for one group, in the order they must run when [*ordered] comes back true (else
// side by side), with their schedules. false: reported.
bool launch_bodies(LowerCtx *ctx, Graph *g, const Group *group, BodyList *out, bool *ordered);

// extern.c: kernels of the model's own text, in the order of their launches. -1: reported.
int lower_extern(LowerCtx *ctx, const Graph *g, const Group *group, LoweredKernel **out);

// Whom to blame for what the body computes.
Loc kernel_loc(const Body *b);

// repeat.c: the kernels of an equal launch before this one, for this one's nodes; 0: there is none.
int launch_repeats(LowerCtx *ctx, Graph *g, Group *const *groups, int ngroups, LoweredKernel **out);
// What the launch that was just asked for came to.
void launch_remember(LowerCtx *ctx, Group *const *groups, int ngroups, const LoweredKernel *kernels,
                     int n);

#endif
