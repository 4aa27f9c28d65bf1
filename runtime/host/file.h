// Internal: whole files.
#ifndef RUNTIME_FILE_H
#define RUNTIME_FILE_H

#include "runtime/data.h"

typedef struct RtPart {
    const void *bytes;
    size_t n;
} RtPart;
// rt_file_write of several parts, one after the other.
RtCode rt_file_write_parts(const char *path, const RtPart *parts, int nparts, RtError *e);
// The same, written piece by piece: begin, put, end. Until the end, path holds its previous
// contents.
typedef struct RtWriter {
    const char *path;
    int fd, mode;         // mode: of the previous file; -1: there was none
    char *to, *temporary; // NULL: a pipe or the like, written directly
} RtWriter;
RtCode rt_writer_begin(RtWriter *w, const char *path, RtError *e);
RtCode rt_writer_put(RtWriter *w, const void *bytes, size_t n, RtError *e);
RtCode rt_writer_put_at(RtWriter *w, uint64_t at, const void *bytes, size_t n,
                        RtError *e);                                          // a file
RtCode rt_writer_again(RtWriter *w, const void *bytes, size_t n, RtError *e); // from the beginning
RtCode rt_writer_end(RtWriter *w, RtCode code, RtError *e); // code: what came of it so far
// An array as .npy in pieces: the header, and some of its elements.
enum { RT_NPY_HEAD = 512 };
RtCode rt_npy_head(const char *path, const ProgType *type, char head[RT_NPY_HEAD], size_t *size,
                   RtError *e);
void *rt_npy_wide(const void *bf16, size_t n); // as f32, malloc'ed; NULL: no memory
RtCode rt_npy_put(RtWriter *w, ProgDType type, const void *data, size_t bytes, RtError *e);
// Arrays of an .npz in pieces: all their names and types (without data), the elements of one in its
// order, and the end, which frees it; code: the result so far.
typedef struct RtNpzPart RtNpzPart;
typedef struct RtNpz {
    RtWriter file;
    RtNpzPart *part;
    int n;
} RtNpz;
RtCode rt_npz_begin(RtNpz *z, const char *path, const RtTensor *t, int n, RtError *e);
RtCode rt_npz_put(RtNpz *z, int i, const void *data, size_t bytes, RtError *e);
RtCode rt_npz_end(RtNpz *z, RtCode code, RtError *e);
// Rows of a table as text.
RtCode rt_csv_put(RtWriter *w, const ProgType *type, const void *data, RtError *e);
// Calls make with a new arena; running out of memory is an error of writing [path].
RtCode rt_file_compose(const char *path, RtCode (*make)(Arena *a, const void *what),
                       const void *what, RtError *e);

typedef struct RtBytes {
    unsigned char *at; // malloc'ed
    size_t n;
    bool packed; // in the file they are compressed
} RtBytes;
// The whole file, decompressed if it is gzip: then at most [most] bytes and one.
RtCode rt_bytes_read(const char *path, size_t most, RtBytes *out, RtError *e);
// The same for the rest of an open file, which messages call [name].
RtCode rt_bytes_read_open(int fd, const char *name, size_t most, RtBytes *out, RtError *e);
// Reads up to n bytes from the beginning of a regular file, decompressed, to b->at, and returns an
// upper bound of its size. false: there is no such file.
bool rt_bytes_head(const char *path, size_t n, RtBytes *b, double *most);
// The whole file as it is.
RtCode rt_bytes_read_raw(const char *path, RtBytes *out, RtError *e);

// Opens a new file for writing under a name derived from [path]: its last six characters are
// replaced. Its mode is [mode] without the process's umask. -1: errno says why.
int rt_file_new(char *path, unsigned mode);

// sweep.c. A new file beside [path] that will be renamed to it: returns its name, malloc'ed, or
// NULL. *fd: open and locked, or -1 with errno.
char *rt_file_beside(const char *path, unsigned mode, int *fd);
// Removes such files whose process was killed.
void rt_file_sweep(const char *path);

bool rt_host_memory(size_t *free_bytes, size_t *total_bytes);

#endif
