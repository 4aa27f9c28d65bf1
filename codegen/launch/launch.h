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

#endif
