// Data files and checkpoints: IDX (also gz), CIFAR binary, .npy, raw tokens, images, safetensors.
#ifndef RUNTIME_DATA_H
#define RUNTIME_DATA_H

#include "runtime/runtime.h"

// Examples that stay in their files: windows of tokens, images.
typedef struct RtSource RtSource;
struct RtSource {
    // So many rows, one after the other. RT_USER: a file does not hold what it did, or something
    // outside of the range that was asked for.
    RtCode (*rows)(const RtSource *s, const int32_t *rows, int64_t n, void *to, RtError *e);
    void (*range)(RtSource *s, int64_t low, int64_t high); // looked at as rows are read
    int64_t step; // how many rows behind it the example begins that begins where this one ends
    void (*free)(RtSource *s);
};
typedef struct RtArray { // a whole file in memory
    ProgType type;       // axis 0: examples
    void *data;          // owned; rt_array_free
    size_t bytes;
    RtSource *source; // instead of data: the examples stay in files
} RtArray;
RtCode rt_array_row(const RtArray *a, int64_t row, void *to, RtError *e);

// Reads a file by its contents (magic), else by suffix. [part] picks a tensor of a file that holds
// several ("images" or "labels" of a CIFAR-10 batch), or says how to read what has no header:
// "u16", "u32", or "raw" (as it is, even where it looks like a known format); path may be several
// files joined by commas, concatenated along axis 0. wanted (may be NULL): the element type and the
// shape of one example the model asks for, dims < 0 free; used for raw files and for complete error
// messages. Truncated, wrong-typed, wrong-shaped files: RT_USER with both shapes.
RtCode rt_array_read(const char *path, const char *part, const ProgType *wanted, RtArray *out,
                     RtError *e);
// The same in steps: the files that a path names; reading them on a thread of its own meanwhile (a
// hint; pipes wait); the array.
typedef struct RtFiles RtFiles;
RtFiles *rt_files_new(const char *path); // NULL: no memory
// A folder with arrays in files: a path that names all of these, in the order of their names. Each
// holds examples along axis 0, or as .npy or .npz one.
bool rt_folder_of_arrays(const char *path);
void rt_files_begin(RtFiles *f);
// Windows of tokens may begin at any of them; what is no plain file of tokens is then RT_USER.
void rt_files_anywhere(RtFiles *f);
// What the first bytes say of all that is there. false: only reading it tells.
bool rt_files_type(const RtFiles *f, const char *part, ProgType *type);
RtCode rt_files_array(RtFiles *f, const char *part, const ProgType *wanted, RtArray *out,
                      RtError *e);
void rt_files_free(RtFiles *f);
void rt_array_free(RtArray *a);
// RT_USER naming file, first offending example and value when an integer is outside low..high (one
// past the largest). Of tokens that stay in files: when they are read.
RtCode rt_array_check_range(const RtArray *a, const char *path, int64_t low, int64_t high,
                            RtError *e);
bool rt_csv_named(const char *path); // a table as text: .csv, .tsv
bool rt_npz_named(const char *path);
// As text, a line for each index of axis 0; an .npz of named arrays.
RtCode rt_csv_write(const char *path, const ProgType *type, const void *data, RtError *e);
RtCode rt_npy_write(const char *path, const ProgType *type, const void *data, RtError *e);

// -- sets of images: a folder of PNG and JPEG files a class, WebDataset's tar archives -------------
typedef struct RtImages RtImages;
bool rt_images_named(const char *path); // a folder, or .tar files joined by commas
// Lists it; nothing is decoded yet. resize: images of any size are scaled and cut to what is
// wanted. skip_bad: those that cannot be decoded are left out, of labels too.
RtCode rt_images_open(const char *path, bool resize, bool skip_bad, RtImages **out, RtError *e);
void rt_images_free(RtImages *s);
// What the part will be, from the list and the first image. wanted: of one example, dims < 0 free.
RtCode rt_images_type(RtImages *s, const char *part, const ProgType *wanted, ProgType *out,
                      RtError *e);
// part: "images", "stream" (images that stay in their files), "labels"; NULL: by what is wanted.
// Images take memory up to [most] bytes, else they stay in their files, and *s must outlive the
// array. They are decoded by threads, the same bits whatever their number.
RtCode rt_images_array(RtImages *s, const char *part, const ProgType *wanted, size_t most,
                       RtArray *out, RtError *e);
// How many were left out as bad, and what was wrong with the first (NULL: none was).
int64_t rt_images_bad(const RtImages *s, const char **first);
// RT_USER: the classes of one are not those of the other.
RtCode rt_images_agree(const RtImages *a, const char *a_path, const RtImages *b, const char *b_path,
                       RtError *e);

// The order of examples in an epoch: a permutation, a function of seed and epoch alone.
void rt_shuffle(int32_t *rows, int64_t n, int64_t seed, int64_t epoch);
// n of the rows 0..count, any of them as often as it comes, from seed and epoch alone.
void rt_draw_rows(int32_t *rows, int64_t n, int64_t count, int64_t seed, int64_t epoch);

// -- safetensors ----------------------------------------------------------------------------------
typedef struct RtTensor {
    const char *name;
    ProgType type;
    const void *data;
} RtTensor;
RtCode rt_npz_write(const char *path, const RtTensor *t, int n, RtError *e);
typedef struct RtTensors {
    Arena *arena;
    int n;
    RtTensor *at;
    int nmeta; // __metadata__
    const char **meta_keys, **meta_values;
    void **owned; // the files
    int nowned;
} RtTensors;
// Written to a temporary file beside path, synced, renamed: path holds the old or the new file,
// never a part. A full disk: RT_ENV, and the old file is intact.
RtCode rt_safetensors_write(const char *path, const RtTensor *t, int n,
                            const char *const *meta_keys, const char *const *meta_values, int nmeta,
                            RtError *e);
// Of several files as one: path is a Hugging Face index ("model.safetensors.index.json"), or a
// folder with one or with a model.safetensors.
RtCode rt_safetensors_read(Arena *a, const char *path, RtTensors *out, RtError *e);
void rt_tensors_free(RtTensors *t);
bool rt_names_index(const char *path); // rather than a file of tensors
RtCode rt_npz_read(Arena *a, const char *path, RtTensors *out, RtError *e); // all of its arrays
// A checkpoint in parts, each by rt_safetensors_write, and their index last: until it is there,
// path is the index of the old parts, which are left alone. Then those are removed. Paths for n
// parts beside the index, none of them a part of the one that is there.
const char **rt_index_parts(Arena *a, const char *index, int n);
typedef struct RtIndexed {
    const char *name;
    int64_t bytes;
    int part;
} RtIndexed;
RtCode rt_index_write(const char *index, const RtIndexed *t, int n, const char *const *parts,
                      int nparts, RtError *e);
// The same atomic write for any bytes (model.bin, choice tables).
RtCode rt_file_write(const char *path, const void *bytes, size_t n, RtError *e);
RtCode rt_file_read(Arena *a, const char *path, void **bytes, size_t *n, RtError *e);
// Waits until no other process has the folder of [path], for a file that is read, changed and
// written: closing the descriptor gives it back. -1: this file system has no locks.
int rt_file_lock_folder(const char *path);

// -- model.bin: a checksummed container of named sections -----------------------------------------
#define RT_CONTAINER_MAGIC "\x89netcbn" // the first 8 bytes, the zero included
typedef struct RtSection {
    const char *name; // "source", "program cuda", "program cpu", "image sm_90 <identity>", ...
    const void *bytes;
    size_t size;
} RtSection;
RtCode rt_container_write(const char *path, const RtSection *s, int n, RtError *e);
bool rt_container_recognise(const void *bytes, size_t n); // by its magic
// Every length, offset and checksum is verified. bytes point into memory owned by the arena.
RtCode rt_container_read(Arena *a, const char *path, RtSection **out, int *n, RtError *e);

#endif
