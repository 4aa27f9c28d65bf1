// Internal: the readers of data files. Each takes ownership of b->at if it succeeds and leaves it
// if it fails; path is for messages.
#ifndef RUNTIME_DATA_READ_H
#define RUNTIME_DATA_READ_H

#include "runtime/host/file.h"

// Checks that the type needs exactly the bytes after a header of [head] bytes; otherwise reports
// that the file is damaged, truncated or too long, with both sizes.
RtCode rt_size_check(const char *path, const RtBytes *b, size_t head, const ProgType *t,
                     RtError *e);

bool rt_idx_recognise(const char *path, const RtBytes *b);
// The type of a whole file, from its first bytes, and the offset of its elements. false: not enough
// bytes.
bool rt_idx_type(const RtBytes *b, ProgType *t, size_t *head);
bool rt_npy_type(const RtBytes *b, ProgType *t, size_t *head);
RtCode rt_idx_parse(const char *path, RtBytes *b, RtArray *out, RtError *e);
bool rt_npy_recognise(const RtBytes *b);
RtCode rt_npy_parse(const char *path, RtBytes *b, RtArray *out, RtError *e);
// Reads a table. part: a column by name or number, or "first-last"; NULL: all columns. A line must
// have as many as an example has elements.
RtCode rt_csv_parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                    RtArray *out, RtError *e);
// part: the array's name; NULL: the only one.
RtCode rt_npz_parse(const char *path, const char *part, RtBytes *b, RtArray *out, RtError *e);
bool rt_cifar_recognise(const char *path, const char *part, const RtBytes *b);
RtCode rt_cifar_parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                      RtArray *out, RtError *e);
// Whether the file's name says nothing about its format: /dev/stdin, /dev/fd/63, a pipe. Then text
// is a table if the input is of floats or a column was requested, and a zip archive an .npz.
bool rt_path_unnamed(const char *path);
bool rt_text_recognise(const RtBytes *b); // lines of text, by the first 4096 bytes
bool rt_zip_recognise(const RtBytes *b);
// Whether it is compressed and not named like a file of plain elements: then its bytes are not read
// as elements.
bool rt_raw_refused(const char *path, const RtBytes *b);
// RT_USER with advice if the file, of which these are at least the first bytes, has a format that
// cannot be read (data_foreign.c). can_be_raw: the caller could request the part "raw".
RtCode rt_foreign_check(const char *path, const RtBytes *b, bool can_be_raw, RtError *e);
// Elements without a header: of the requested type; bytes if none is requested or the file is .txt.
RtCode rt_raw_parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                    RtArray *out, RtError *e);
// Turns a one-dimensional array of integers into overlapping windows of [width]: window i begins at
// element i * (width - 1), so the last element of a window (a target) is the first of the next (an
// input).
RtCode rt_array_windows(const char *path, RtArray *a, int64_t width, RtError *e);

// Ignores ".gz" at the end of path.
bool rt_path_ends(const char *path, const char *suffix);
// The same for several suffixes, ignoring case; each is followed by a space: ".csv .tsv ".
bool rt_path_named(const char *path, const char *suffixes);

#endif
