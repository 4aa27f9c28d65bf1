// Kernels edited by hand: MODEL.kernels/NAME.cu replaces the kernel NAME.
#ifndef LIB_EJECT_H
#define LIB_EJECT_H

#include "lib/lib.h"

typedef struct EditedKernel {
    const char *name, *path, *text;
    const char *contract; // the arguments it was written for
    const char *function;
    uint32_t grid[3], block[3], shared;
    bool used; // by the build under way
} EditedKernel;

struct EditedKernels {
    VEC(EditedKernel) at;
};

// Reads the files of the program's folder, if it has one, into p->edited.
netc_status edited_load(netc_program *p, netc_error **err);
const EditedKernel *edited_find(const netc_program *p, const char *name); // NULL: not edited

// CodegenOptions.override, and what is to be said after code generation: a file that no kernel
// fits is an error.
typedef struct EditedContext {
    netc_program *p;
    Build *b;
} EditedContext;
void edited_override(void *ctx, ProgKernel *k, const char *contract);
void edited_end(EditedContext *c);

#endif
