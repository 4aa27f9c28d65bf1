// Registers, local and shared memory of a kernel, from its cubin.
#ifndef RUNTIME_CUBIN_H
#define RUNTIME_CUBIN_H

#include "runtime/runtime.h"

// Reads the resources of the kernel with the name [symbol] from a cubin for architecture arch (90):
// fills registers, local_bytes and the shared_bytes that are fixed at compile time. false: this is
// not a cubin with such a kernel, or it is damaged.
bool rt_cubin_info(const void *bytes, size_t n, int arch, const char *symbol, RtKernelInfo *out);

#endif
