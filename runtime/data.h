// Data files and checkpoints: IDX (also gz), CIFAR binary, .npy, raw tokens, images, safetensors.
#ifndef RUNTIME_DATA_H
#define RUNTIME_DATA_H

#include "runtime/runtime.h"

// Examples that stay in files: windows of tokens, or images.
typedef struct RtSource RtSource;
struct RtSource {
    // Reads n rows in the given order. RT_USER: a file has changed, or a value is out of range.
    RtCode (*rows)(const RtSource *s, const int32_t *rows, int64_t n, void *to, RtError *e);
    void (*range)(RtSource *s, int64_t low, int64_t high); // range that is checked when rows are
                                                           // read
    int64_t step; // distance in rows to the example that begins where this one ends
    void (*free)(RtSource *s);
};
typedef struct RtArray { // a whole file in memory
    ProgType type;       // axis 0: examples
    void *data;          // owned; rt_array_free
    size_t bytes;
    RtSource *source; // instead of data: the examples stay in files
} RtArray;
RtCode rt_array_row(const RtArray *a, int64_t row, void *to, RtError *e);

// Reads a file, recognised by its contents (magic), else by its suffix. [part] selects a tensor of
// a file that holds several ("images" or "labels" of a CIFAR-10 batch), or says how to read a file
// without a header: "u16", "u32", or "raw" (as it is, even if it looks like a known format). path
// may be several files joined by commas, which are concatenated along axis 0. wanted (may be NULL):
// the element type and the shape of one example that the model expects, dims < 0 free; used for raw
// files and in error messages. Truncated files and wrong types or shapes: RT_USER with both shapes.
RtCode rt_array_read(const char *path, const char *part, const ProgType *wanted, RtArray *out,
                     RtError *e);
// The same in steps: open the files of a path; optionally start reading them in another thread
// (pipes are not read yet); get the array.
typedef struct RtFiles RtFiles;
RtFiles *rt_files_new(const char *path); // NULL: no memory
// Whether path is a folder of arrays, which stands for all of its files in the order of their
// names. Each has examples along axis 0, or, as .npy or .npz, is one example.
bool rt_folder_of_arrays(const char *path);
void rt_files_begin(RtFiles *f);
// Windows of tokens may begin at any token; other files than plain token files are then RT_USER.
void rt_files_anywhere(RtFiles *f);
// The type of the whole array, from the beginning of its files. false: only known after reading.
bool rt_files_type(const RtFiles *f, const char *part, ProgType *type);
RtCode rt_files_array(RtFiles *f, const char *part, const ProgType *wanted, RtArray *out,
                      RtError *e);
void rt_files_free(RtFiles *f);
void rt_array_free(RtArray *a);
// If an integer is outside low..high (high: one past the largest): RT_USER, naming the file, the
// first such example and its value. Tokens that stay in files are checked when they are read.
RtCode rt_array_check_range(const RtArray *a, const char *path, int64_t low, int64_t high,
                            RtError *e);
bool rt_csv_named(const char *path); // whether it is a text table: .csv, .tsv
bool rt_npz_named(const char *path);
// rt_csv_write writes text, one line for each index of axis 0; rt_npz_write an .npz of named
// arrays.
RtCode rt_csv_write(const char *path, const ProgType *type, const void *data, RtError *e);
RtCode rt_npy_write(const char *path, const ProgType *type, const void *data, RtError *e);

// -- sets of images: one folder of PNG and JPEG files per class, or WebDataset's tar archives -----
typedef struct RtImages RtImages;
bool rt_images_named(const char *path); // a folder, or .tar files joined by commas
// Lists the images; nothing is decoded yet. resize: images of any size are scaled and cropped to
// the requested size. skip_bad: images that cannot be decoded are skipped, also in labels.
RtCode rt_images_open(const char *path, bool resize, bool skip_bad, RtImages **out, RtError *e);
void rt_images_free(RtImages *s);
// The type of the part, from the list and the first image. wanted: of one example, dims < 0 free.
RtCode rt_images_type(RtImages *s, const char *part, const ProgType *wanted, ProgType *out,
                      RtError *e);
// part: "images", "stream" (images that stay in their files) or "labels"; NULL: chosen by the
// wanted type. Images of up to [most] bytes are held in memory; otherwise they stay in their files,
// and *s must outlive the array. They are decoded by several threads; the result does not depend on
// their number.
RtCode rt_images_array(RtImages *s, const char *part, const ProgType *wanted, size_t most,
                       RtArray *out, RtError *e);
// The number of images skipped as bad, and the error of the first (NULL: none).
int64_t rt_images_bad(const RtImages *s, const char **first);
// RT_USER if the two have different classes.
RtCode rt_images_agree(const RtImages *a, const char *a_path, const RtImages *b, const char *b_path,
                       RtError *e);

// The order of examples in an epoch: a permutation that depends only on seed and epoch.
void rt_shuffle(int32_t *rows, int64_t n, int64_t seed, int64_t epoch);
// Draws n of the rows 0..count with replacement; depends only on seed and epoch.
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
// Writes to a temporary file next to path, syncs it and renames it: path holds the old or the
// new file, never a part. If the disk is full: RT_ENV, and the old file is intact.
RtCode rt_safetensors_write(const char *path, const RtTensor *t, int n,
                            const char *const *meta_keys, const char *const *meta_values, int nmeta,
                            RtError *e);
// Reads several files as one: path is a Hugging Face index ("model.safetensors.index.json"), or a
// folder with an index or a model.safetensors.
RtCode rt_safetensors_read(Arena *a, const char *path, RtTensors *out, RtError *e);
void rt_tensors_free(RtTensors *t);
bool rt_names_index(const char *path); // whether the name is that of an index, not of a file of
                                       // tensors
// Removes what killed saves of this checkpoint have left, also of its parts.
void rt_checkpoint_sweep(const char *path);
RtCode rt_npz_read(Arena *a, const char *path, RtTensors *out, RtError *e); // all of its arrays
// For a checkpoint in parts: returns paths for n parts next to the index, none of which the current
// index uses. Each part is written by rt_safetensors_write, and the index last. Until then path is
// the index of the old parts, which are kept; afterwards they are removed.
const char **rt_index_parts(Arena *a, const char *index, int n);
typedef struct RtIndexed {
    const char *name;
    int64_t bytes;
    int part;
} RtIndexed;
RtCode rt_index_write(const char *index, const RtIndexed *t, int n, const char *const *parts,
                      int nparts, RtError *e);
// Writes any bytes (model.bin, choice tables) in the same atomic way.
RtCode rt_file_write(const char *path, const void *bytes, size_t n, RtError *e);
// Whether a file can be written there: creates a temporary one beside it and removes it. Pipes
// are refused: opening one waits for its reader.
RtCode rt_file_try(const char *path, RtError *e);
RtCode rt_file_read(Arena *a, const char *path, void **bytes, size_t *n, RtError *e);
// Locks the folder of [path] while a file is read, changed and written; waits for other processes.
// Closing the descriptor unlocks it. -1: the file system has no locks.
int rt_file_lock_folder(const char *path);

// -- model.bin: a checksummed container of named sections -----------------------------------------
#define RT_CONTAINER_MAGIC "\x89netcbn" // the first 8 bytes, including the zero
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
