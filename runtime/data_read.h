// Internal: the readers of data files. Each takes over b->at when it succeeds and leaves it when it
// fails; path is for messages.
#ifndef RUNTIME_DATA_READ_H
#define RUNTIME_DATA_READ_H

#include "runtime/file.h"

bool rt_idx_recognise(const char *path, const RtBytes *b);
// What the first bytes of a file say of all of it. false: not enough.
bool rt_idx_type(const RtBytes *b, ProgType *t);
bool rt_npy_type(const RtBytes *b, ProgType *t);
RtCode rt_idx_parse(const char *path, RtBytes *b, RtArray *out, RtError *e);
bool rt_npy_recognise(const RtBytes *b);
RtCode rt_npy_parse(const char *path, RtBytes *b, RtArray *out, RtError *e);
bool rt_cifar_recognise(const char *path, const char *part, const RtBytes *b);
RtCode rt_cifar_parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                      RtArray *out, RtError *e);
// Elements without a header: of the type wanted; bytes when nothing is wanted or the file is .txt.
RtCode rt_raw_parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                    RtArray *out, RtError *e);
// A one-dimensional array of integers as overlapping windows of [width]: window i begins at element
// i * (width - 1), so that the last element of one, a target, is the first of the next, an input.
RtCode rt_array_windows(const char *path, RtArray *a, int64_t width, RtError *e);

// ".gz" at the end of path is not looked at.
bool rt_path_ends(const char *path, const char *suffix);

#endif
