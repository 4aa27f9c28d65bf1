// A device's limits as plain data for fusion, scheduling and planning. No device is opened.
#ifndef IR_TARGET_H
#define IR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

typedef enum TargetKind { TARGET_CPU, TARGET_CUDA } TargetKind;

enum TargetEpilogue { // what a matmul can compute behind the product
    EPI_BIAS = 1,
    EPI_RELU = 2,
    EPI_GELU = 4,      // forward, any combination with bias
    EPI_GELU_AUX = 16, // also stores what the backward needs
    EPI_DGELU = 64,    // backward
    EPI_CASTS = 256,   // an f32 sum rounded to the operands' type as it is stored
};

typedef struct Target {
    TargetKind kind;
    const char *name; // "cpu", "sm_90"
    int arch;         // 80, 90, 100; 0 on the CPU
    int units;        // multiprocessors or cores
    int threads_per_block, threads_per_unit, warp;
    int64_t shared_per_block, shared_per_unit; // bytes
    int registers_per_unit;
    int max_cluster;    // 1 where there are none
    int widest_cluster; // where a kernel asks for it; may not fit every device of its kind
    int64_t l2_bytes;
    double bytes_per_second, f32_flops, bf16_flops; // measured ceilings, for floors in comments
    bool matmul_library;                            // cuBLASLt / OpenBLAS will be there
    unsigned epilogues;                             // TargetEpilogue bits
    int max_kernel_args;
    bool fma;            // a product and a sum are one operation, as fast as either
    bool group_products; // four warps multiply together from shared memory (wgmma)
    // What kernels that stream should have under way, in bytes: sums of columns on a
    // multiprocessor, a block's row, rows that a multiprocessor copies ahead; and of a row that
    // blocks share, each one's slice.
    int column_flight, row_flight, turn_flight, row_slice;
    int block_bytes; // that a block should read, or it is gone before the next one is there
    // What one kernel of few blocks reads as fast as two of many; and a second kernel's cost, as
    // bytes that each part of the columns should have.
    int64_t few_bytes, part_bytes;
} Target;

Target target_cpu(int cores, bool matmul_library);
// The limits of a typical device of that architecture.
Target target_cuda(int arch, bool matmul_library);
void target_resize(Target *t, int units); // another device of its kind

// A contraction so small that its time is latency: the generated kernel takes about half of what a
// library does, and its prologue and epilogue cost nothing.
bool target_small_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// Products of 16-bit floats with few rows or few columns, which wait for memory, and sums long
// enough that warps can share them: a tile a warp is faster than tiles that pass through shared
// memory.
bool target_few_rows(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// The same of f32: products of so few results that a library leaves multiprocessors idle.
bool target_idle_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// Generated products of so few results, as in a convolution of one image, that a tile a warp is
// faster than larger tiles. Operands are 16-bit floats, or f32 rounded to TF32.
bool target_few_results(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// How many times the tiles of such a product have room on the device; 1 for any other.
int64_t target_idle_share(const Target *t, int64_t batch, int64_t m, int64_t n);
// Products that the CPU computes without tiles or a library, which would bring operands into order
// that it reads once: of a vector, a sum each; and of short sums, so many results side by side.
bool target_row_by_row(const Target *t, int64_t m, int64_t n, int64_t k);
// f32 products of so few columns, or f64 ones of half as many, that generated tiles, which read the
// left operand where it lies, are faster than the CPU's library.
bool target_narrow_product(const Target *t, int64_t n);

// One of 16-bit floats that takes so long that a generated kernel is timed beside the library's:
// shorter ones are not worth the compilation.
bool target_long_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);

// A contraction of f32 that is generated though a library has it: a small one, or, where TF32 is
// allowed, a middling one, which a library multiplies faster, but not by as much as it takes to
// begin and as the kernels take that the generated one makes part of itself.
bool target_generated_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k,
                              bool tf32);
// Operations a second that products of 16-bit floats, or of f32, can reach.
double target_product_flops(const Target *t, bool half, bool tf32);
// Of those that are generated: so large that its tiles take shared memory and time of the whole
// device for themselves.
bool target_tiled_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k);
// Of so few operations that it takes hardly more time than its launch.
bool target_quick_product(int64_t batch, int64_t m, int64_t n, int64_t k);
// Products read and write 16-bit floats so many at a time.
enum { TARGET_UNIT = 8 };
// Seconds of a product of 16-bit floats by the library. inner_odd: the contracted axis or the
// result's last one is no multiple of TARGET_UNIT; outer_odd: another axis of an operand is.
double target_library_seconds(const Target *t, double flops, bool inner_odd, bool outer_odd);
// Seconds that a product loses to the library on aligned operands when it reads a left operand of
// rows that start anywhere as it lies, on devices with group_products.
double target_uneven_seconds(const Target *t, double flops);
double target_move_seconds(const Target *t, double bytes); // by a kernel that does nothing else
// Whether a kernel is over so soon that its launch is worth hiding.
bool target_brief(const Target *t, double bytes, double flops);
// Whether a kernel whose result has so many bytes should take sums over its rows on the way: while
// half of the second cache holds it, another kernel reads it from there in no more time.
bool target_sums_on_the_way(const Target *t, double bytes);
// Clusters of so many blocks that the device holds at once.
int64_t target_clusters(const Target *t, int blocks);
// Of the tensor cores' rate, what mma.sync reaches on large tiles.
double target_mma_share(const Target *t);

// Products by groups of four warps, counted in elements of a tile that are multiplied meanwhile.
typedef enum TargetSharing { // of a tile's columns
    SHARE_NONE,
    SHARE_GROUPS, // by the groups of a block
    SHARE_BLOCKS, // by the blocks of a cluster
    SHARE_BOTH,
} TargetSharing;
int target_tile_edge(const Target *t, TargetSharing by);  // how much wider a tile seems by its time
double target_joining(const Target *t, TargetSharing by); // the sums of those that shared it
int target_line_elements(const Target *t);                // a line of memory, copied
// Bulk copies of windows have 64 channels of a pixel. How many are counted of a pixel with so many,
// in a product of so many results: the next multiple, with zeros, or as many as there are where
// such copies are not made or what is added costs more. lines: neighbouring windows share the
// pixels of a line, which one copy has: then zeros cost less than computing the places.
int64_t target_copied_channels(const Target *t, int64_t channels, int64_t results, bool lines);
// Seconds of a product with a tile a warp, by [blocks] that fetch [bytes] each; [cluster] blocks
// share a tile. half: of 16-bit floats, whose weights come from memory.
double target_warp_tiles_seconds(const Target *t, int64_t blocks, double bytes, int cluster,
                                 bool half);
// The same of 16-bit floats over windows, which the second cache holds.
double target_windows_seconds(const Target *t, int64_t blocks, double bytes, int cluster);
// Seconds of a product in tiles of m x n on tensor cores, by so many blocks of so many columns
// each; the sums of so many parts are joined.
double target_tiles_seconds(const Target *t, int64_t blocks, int m, int n, double columns,
                            int parts);

#endif
