// A device's limits as plain data for fusion, scheduling and planning. No device is opened.
#ifndef IR_TARGET_H
#define IR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

typedef enum TargetKind { TARGET_CPU, TARGET_CUDA } TargetKind;

enum TargetEpilogue { // what a matmul can compute after the product
    EPI_BIAS = 1,
    EPI_RELU = 2,
    EPI_GELU = 4,       // forward, any combination with bias
    EPI_GELU_AUX = 16,  // also stores what the backward pass needs
    EPI_DGELU = 64,     // in the backward pass
    EPI_CASTS = 256,    // rounds the f32 sum to the operands' type when it is stored
    EPI_RESIDUAL = 512, // adds a tensor of the result's size and type before the activation
};

typedef struct Target {
    TargetKind kind;
    const char *name; // "cpu", "sm_90"
    int arch;         // 80, 90, 100; 0 on the CPU
    int units;        // multiprocessors or cores
    int threads_per_block, threads_per_unit, warp;
    int64_t shared_per_block, shared_per_unit; // bytes
    int registers_per_unit;
    int max_cluster;    // blocks; 1 if the device has no clusters
    int widest_cluster; // blocks, if a kernel asks for it; may not run on every device of this kind
    int64_t l2_bytes;
    double bytes_per_second, f32_flops, bf16_flops; // measured maxima, for the lower bounds in
                                                    // kernels' comments
    bool matmul_library;                            // cuBLASLt or OpenBLAS is available
    unsigned epilogues;                             // TargetEpilogue bits
    int max_kernel_args;
    bool fma;            // a multiplication and an addition are one operation, as fast as either
    bool group_products; // groups of four warps multiply together from shared memory (wgmma)
    // Bytes that a streaming kernel should have in flight: column sums, per multiprocessor; rows,
    // per block; rows that are copied ahead, per multiprocessor. row_slice: the largest part of a
    // row that one block should hold; a longer row is divided among the blocks of a cluster.
    int column_flight, row_flight, turn_flight, row_slice;
    int block_bytes; // bytes that a block should read at least; otherwise it ends before the next
                     // one has started
    // few_bytes: up to this size, one kernel of few blocks reads as fast as two kernels of many;
    // few_block_bytes: unless a block reads more than this.
    // part_bytes: the smallest part of the columns for which a second kernel pays.
    int64_t few_bytes, few_block_bytes, part_bytes;
} Target;

Target target_cpu(int cores, bool matmul_library);
// The limits of a typical device of that architecture.
Target target_cuda(int arch, bool matmul_library);
void target_resize(Target *t, int units); // for another device of the same kind

// Whether a contraction is so small that its time is latency. A generated kernel then takes about
// half the time of a library call, and its prologue and epilogue cost nothing.
bool target_small_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// Whether a product of 16-bit floats has so few rows or columns that it waits for memory, and sums
// long enough to be shared by several warps. One tile per warp is then faster than tiles that pass
// through shared memory.
bool target_few_rows(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// The same for f32: whether a product has so few results that a library leaves multiprocessors
// idle.
bool target_idle_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// Whether a generated product has so few results, as in a convolution of one image, that one tile
// per warp is faster than larger tiles. Operands are 16-bit floats, or f32 rounded to TF32.
bool target_few_results(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// Whether the sums of a generated product are so long, and its tiles so few, that a cluster of
// blocks has to divide each.
bool target_divides_sums(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// How many times the library's tiles of such a product fit on the device; 1 for other products.
int64_t target_idle_share(const Target *t, int64_t batch, int64_t m, int64_t n);
// Whether the CPU computes a product without tiles and without a library, which would reorder
// operands that are read only once: products with a vector (one sum per result), and short sums
// (several results at a time).
bool target_row_by_row(const Target *t, int64_t m, int64_t n, int64_t k);
// Whether an f32 product has so few columns, or an f64 product half as many, that generated tiles,
// which read the left operand in place, are faster than the CPU's library.
bool target_narrow_product(const Target *t, int64_t n);

// Whether a product of 16-bit floats takes so long that a generated kernel is compiled and timed
// against the library.
bool target_long_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);

// Whether an f32 contraction is generated although the library could compute it: if it is small, or
// if it is of medium size with TF32 allowed. The library then multiplies faster, but loses more by
// its overhead and by the surrounding kernels, which the generated kernel includes.
bool target_generated_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k,
                              bool tf32);
// Operations per second that products of 16-bit floats (half) or of f32 can reach.
double target_product_flops(const Target *t, bool half, bool tf32);
// Whether a generated product is so large that its tiles need shared memory and the whole device.
bool target_tiled_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// Whether a product has so few operations that it takes hardly more time than its launch.
bool target_quick_product(int64_t batch, int64_t m, int64_t n, int64_t k);
// Products read and write 16-bit floats in groups of this many.
enum { TARGET_UNIT = 8 };
// Seconds of the library for a product of 16-bit floats ([half]) or tf32. inner_odd: the contracted
// axis or the last axis of the result is no multiple of 16 bytes of the operands; outer_odd:
// another axis of an operand is none.
double target_library_seconds(const Target *t, bool half, double flops, bool inner_odd,
                              bool outer_odd);
// Seconds of the library for a batch of aligned products that move so many bytes, if that takes
// longer: small results fill its tiles only in part.
double target_batch_seconds(const Target *t, bool half, int64_t batch, int64_t m, int64_t n,
                            int64_t k, double bytes);
// Seconds by which a product is slower than the library with aligned operands if it reads, in
// place, a left operand whose rows are not aligned; on devices with group_products.
double target_uneven_seconds(const Target *t, double flops);
// Seconds by which the library is slower at a product of tf32 if the contracted axis is contiguous
// in neither operand; on devices with group_products.
double target_strided_seconds(const Target *t, double flops);
double target_move_seconds(const Target *t, double bytes); // of a kernel that only copies
// Whether a kernel is so short that hiding its launch pays.
bool target_brief(const Target *t, double bytes, double flops);
// Whether a kernel should also compute sums over the rows of its result, which has so many bytes.
// If the result fits into half of the L2 cache, another kernel reads it from there in no more time.
bool target_sums_on_the_way(const Target *t, double bytes);
// How many clusters of so many blocks run on the device at once.
int64_t target_clusters(const Target *t, int blocks);
// Share of the tensor cores' rate that mma.sync reaches on large tiles.
double target_mma_share(const Target *t);

// Costs of products by groups of four warps, in elements of a tile that could be multiplied in that
// time.
typedef enum TargetSharing { // who shares the contracted axis of a tile
    SHARE_NONE,
    SHARE_GROUPS, // the groups of a block
    SHARE_BLOCKS, // the blocks of a cluster
    SHARE_BOTH,
} TargetSharing;
int target_tile_edge(const Target *t, TargetSharing by);  // columns by which a tile seems wider
                                                          // than it is
double target_joining(const Target *t, TargetSharing by); // adding the partial sums of those that
                                                          // shared it
int target_line_elements(const Target *t);                // copying a line of memory
// Bulk copies of windows copy 64 channels of a pixel at a time. Returns the number of channels to
// multiply for each pixel: rounded up to the next multiple and filled with zeros, or unchanged if
// such copies are not used or the additional products cost more. lines: neighbouring windows share
// the pixels of a line, which is copied once; the zeros then cost less than computing the
// addresses.
int64_t target_copied_channels(const Target *t, int64_t channels, int64_t results, bool lines);
typedef struct TargetGroups {          // a convolution by groups of channels, or a gradient of one
    int64_t groups, channels, results; // of a group: in the image and in the result
    int64_t rows;                      // places of all images
    double products;                   // of a group
    bool repaired; // outside of a training step: results that are not finite are computed again
    bool half;     // of 16-bit floats; otherwise of f32 rounded to TF32
} TargetGroups;
// Whether it is faster as a convolution of all channels, with weights of 0 between groups.
bool target_merges_groups(const Target *t, const TargetGroups *x);
// Whether products of (rows, K) with weights of so many columns each become one with all of them.
bool target_joins_products(const Target *t, int64_t rows, int64_t cols);
typedef struct TargetPatches { // a product of 16-bit floats with windows of few channels
    int64_t terms, places;     // of a window; the number of windows
    int64_t stored;            // terms of a window that are stored
    bool lines;                // each line of a window is filled up, not only the window
    int64_t results;           // for each window, or for each term
} TargetPatches;
typedef struct TargetPatchTimes { // estimated seconds
    double gathered;              // of the product, which loads every element of a window alone
    double stored, copied;        // of the product with stored windows; of storing them
} TargetPatchTimes;
TargetPatchTimes target_patch_times(const Target *t, const TargetPatches *x);
// Estimated seconds of a product on tensor cores with one tile per warp, by [blocks] that read
// [bytes] each; each tile is shared by the [cluster] blocks of a cluster.
double target_warp_tiles_seconds(const Target *t, int64_t blocks, double bytes, int cluster,
                                 bool half);
// The same of 16-bit floats over windows, which the second-level cache holds.
double target_windows_seconds(const Target *t, int64_t blocks, double bytes, int cluster);
// ... with tiles of m x n, by [blocks] of [columns] contracted columns each; the sums of [parts]
// blocks are added up.
double target_tiles_seconds(const Target *t, int64_t blocks, int m, int n, double columns,
                            int parts);
// Float updates that are added to a tensor by index.
typedef struct TargetSums {
    int64_t places, elements, count; // indices; elements of the tensor; number of updates
    bool onto_constant, onto_cell;   // what the tensor is
} TargetSums;

// Whether they are added in bins in shared memory, which write the whole result, or (onto_cell)
// what changes. If there are few updates, the tensor is copied, unless it is a cell, and updated in
// memory, which is cheaper.
bool target_sums_in_bins(const Target *t, const TargetSums *x);
// Ranges of so many updates of fewer than 32 columns each, for which partial sums take as long as
// looking for the updates of a block. sums: all places and columns.
int64_t target_narrow_ranges(int64_t count, int64_t sums);
// The estimated time of such sums; and if the updates are sorted by place.
double target_sums_seconds(const Target *t, const TargetSums *x);
double target_ordered_sums_seconds(const Target *t, const TargetSums *x);
// ... and as sums of integers by atomics (passes/scatter_integers.c).
double target_integer_sums_seconds(const Target *t, const TargetSums *x);
// The estimated time of sums of integers by atomics.
double target_atomic_sums_seconds(const Target *t, const TargetSums *x);
// The estimated time in which so many indices are sorted by one kernel, each short row by itself.
double target_sort_rows_seconds(int64_t count);
// The estimated time in which so many indices that differ in so many bits are sorted.
double target_sort_seconds(int64_t count, int bits);
// Of a sort's rows of so many elements, whether finding the first ones in order is faster.
enum { SORT_FIRST_MOST = 128 };
bool target_finds_first(const Target *t, int64_t cols, int64_t first);
// Whether a scatter of [count] updates into [bytes] bytes, of which the last one of each place
// remains, is faster if every element reads the last update of its place, instead of storing one
// update after another.
bool target_finds_last_updates(const Target *t, int64_t count, int64_t bytes);
// What the descriptor of bulk copies from images with 2 or 3 axes can express: how far a window's
// first position may be from either end of the image (less than this; -limit is possible), and the
// largest offset of a pixel within a window.
int target_most_corner(int axes);
int target_most_offset(int axes);

#endif
