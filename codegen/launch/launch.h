// From groups to kernels.
#ifndef CODEGEN_LAUNCH_H
#define CODEGEN_LAUNCH_H

#include "codegen/ir/body.h"
#include "codegen/lower/lower.h"

// choose.c: bodies for one group, in the order they must run when [*ordered] comes back true (else
// side by side), with their schedules. false: reported.
bool launch_bodies(LowerCtx *ctx, Graph *g, const Group *group, BodyList *out, bool *ordered);

#endif
