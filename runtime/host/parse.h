// Internal: parsers of whole files in memory, for their readers and their fuzzers.
#ifndef RUNTIME_PARSE_H
#define RUNTIME_PARSE_H

#include "runtime/data.h"

// Tensors point into bytes.
RtCode rt_safetensors_parse(Arena *a, const char *path, const unsigned char *bytes, size_t n,
                            RtTensors *out, RtError *e);
// Sections point into bytes. check: compare checksums (a fuzzer gets further without).
RtCode rt_container_parse(Arena *a, const char *path, const unsigned char *bytes, size_t n,
                          bool check, RtSection **out, int *count, RtError *e);

#endif
