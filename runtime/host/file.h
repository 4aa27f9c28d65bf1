// Internal: whole files.
#ifndef RUNTIME_FILE_H
#define RUNTIME_FILE_H

#include "runtime/data.h"

typedef struct RtPart {
    const void *bytes;
    size_t n;
} RtPart;
// Writes several parts, one after the other, as rt_file_write does.
RtCode rt_file_write_parts(const char *path, const RtPart *parts, int nparts, RtError *e);
// Writes a file in pieces: begin, put, end. Until the end, path has its previous contents.
typedef struct RtWriter {
    const char *path;
    int fd, mode;         // mode: of the previous file; -1: none
    char *to, *temporary; // NULL: written directly, such as a pipe
} RtWriter;
RtCode rt_writer_begin(RtWriter *w, const char *path, RtError *e);
RtCode rt_writer_put(RtWriter *w, const void *bytes, size_t n, RtError *e);
RtCode rt_writer_put_at(RtWriter *w, uint64_t at, const void *bytes, size_t n,
                        RtError *e);                                          // a file
RtCode rt_writer_again(RtWriter *w, const void *bytes, size_t n, RtError *e); // replaces what was
                                                                              // written before
RtCode rt_writer_end(RtWriter *w, RtCode code, RtError *e); // code: the result so far
// Writes an array as .npy in pieces: the header, then some of its elements at a time.
enum { RT_NPY_HEAD = 512 };
RtCode rt_npy_head(const char *path, const ProgType *type, char head[RT_NPY_HEAD], size_t *size,
                   RtError *e);
void *rt_npy_wide(const void *bf16, size_t n); // as f32, malloc'ed; NULL: no memory
RtCode rt_npy_put(RtWriter *w, ProgDType type, const void *data, size_t bytes, RtError *e);
// Writes arrays of an .npz in pieces: first all names and types, then the elements of each array in
// order, then the end, which frees it. code: the result so far.
typedef struct RtNpzPart RtNpzPart;
typedef struct RtNpz {
    RtWriter file;
    RtNpzPart *part;
    int n;
} RtNpz;
RtCode rt_npz_begin(RtNpz *z, const char *path, const RtTensor *t, int n, RtError *e);
RtCode rt_npz_put(RtNpz *z, int i, const void *data, size_t bytes, RtError *e);
RtCode rt_npz_end(RtNpz *z, RtCode code, RtError *e);
// Writes rows of a table as text.
RtCode rt_csv_put(RtWriter *w, const ProgType *type, const void *data, RtError *e);
// Calls make with a new arena; if memory runs out, this is reported as an error of writing [path].
RtCode rt_file_compose(const char *path, RtCode (*make)(Arena *a, const void *what),
                       const void *what, RtError *e);

typedef struct RtBytes {
    unsigned char *at; // malloc'ed
    size_t n;
    bool packed; // the file is compressed
} RtBytes;
// The whole file. If it is gzip, decompressed, up to [most] + 1 bytes.
RtCode rt_bytes_read(const char *path, size_t most, RtBytes *out, RtError *e);
// The same for the rest of an open file, which messages call [name].
RtCode rt_bytes_read_open(int fd, const char *name, size_t most, RtBytes *out, RtError *e);
// Reads up to n bytes from the beginning of a regular file, decompressed, to b->at. *most: an upper
// bound of its size. false: there is no such file.
bool rt_bytes_head(const char *path, size_t n, RtBytes *b, double *most);
// The whole file, without decompression.
RtCode rt_bytes_read_raw(const char *path, RtBytes *out, RtError *e);

// Opens a new file for writing under a name derived from [path]: its last six characters are
// replaced. Its mode is [mode] without the process's umask. -1: errno says why.
int rt_file_new(char *path, unsigned mode);

// sweep.c. Creates a file next to [path] that will be renamed to it. Returns its name, malloc'ed,
// or NULL. *fd: open and locked; -1: errno has the reason.
char *rt_file_beside(const char *path, unsigned mode, int *fd);
// Removes such files if the process that created them was killed.
void rt_file_sweep(const char *path);
// Creates a folder for temporary files. path ends in six X, which are replaced. Returns a
// descriptor that keeps it locked, or -1: errno has the reason. Folders of such names, with the
// files in them, are removed if the process that created them was killed.
int rt_folder_temporary(char *path);

bool rt_host_memory(size_t *free_bytes, size_t *total_bytes);

#endif
