// Kernels edited by hand: MODEL.kernels/NAME.cu replaces the kernel NAME.
#ifndef LIB_EJECT_H
#define LIB_EJECT_H

#include "lib/lib.h"

typedef struct EditedKernel {
    const char *name, *path, *text;
    const char *contract; // the arguments for which it was written
    const char *function;
    uint32_t grid[3], block[3], shared;
    bool used; // by the current build
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

#endif
