// Kernels edited by hand: MODEL.kernels/NAME.cu replaces the kernel NAME.
#ifndef LIB_EJECT_H
#define LIB_EJECT_H

#include "lib/lib.h"

typedef struct EditedKernel {
    const char *name, *path, *text;
    const char *contract; // the arguments for which it was written
    const char *function;
    uint32_t grid[3], block[3], shared;
    bool used;    // by the current build
    bool missing; // a build of some entries has no such kernel; the whole model may have one
} EditedKernel;

struct EditedKernels {
    VEC(EditedKernel) at;
};

// Reads the files in the program's folder of edited kernels, if it has one, into p->edited.
netc_status edited_load(netc_program *p, netc_error **err);
const EditedKernel *edited_find(const netc_program *p, const char *name); // NULL: not edited

// For CodegenOptions.override, and for the report after code generation: a file that belongs to no
// kernel is an error.
typedef struct EditedContext {
    netc_program *p;
    Build *b;
} EditedContext;
void edited_override(void *ctx, ProgKernel *k, const char *contract);
void edited_end(EditedContext *c);
// Whether edited kernels are missing in the last build, which has only some of the model's entries.
bool edited_missing(const netc_program *p);
// For CodegenOptions.override of a build of the whole model that only looks for the missing ones.
void edited_look(void *ctx, ProgKernel *k, const char *contract);
// Reports those that are still missing as an error. whole: the whole model could be compiled;
// otherwise they are only noted.
netc_status edited_report(netc_program *p, Build *b, bool whole, netc_error **err);

#endif
