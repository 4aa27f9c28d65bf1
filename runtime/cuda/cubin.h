// Registers, local and shared memory of a kernel, from its cubin.
#ifndef RUNTIME_CUBIN_H
#define RUNTIME_CUBIN_H

#include "runtime/runtime.h"

// [symbol] is the kernel's name in the cubin, arch the architecture it is for (90). Fills
// registers, local_bytes and the shared_bytes fixed when it was compiled. false: this is no cubin
// with such a kernel, or it is damaged.
bool rt_cubin_info(const void *bytes, size_t n, int arch, const char *symbol, RtKernelInfo *out);

#endif
