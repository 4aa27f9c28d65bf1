// Limits of typical devices, from the vendors' published tables; rates are measured upper limits.
#include <math.h>

#include "ir/target.h"

enum {
    ALL_EPILOGUES =
        EPI_BIAS | EPI_RELU | EPI_GELU | EPI_GELU_AUX | EPI_DGELU | EPI_CASTS | EPI_RESIDUAL
};

static bool cpu_fma(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma");
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

Target target_cpu(int cores, bool matmul_library)
{
    if (cores < 1) cores = 1;
    return (Target){
        .kind = TARGET_CPU,
        .name = "cpu",
        .units = cores,
        .threads_per_block = 1,
        .threads_per_unit = 1,
        .warp = 1,
        .shared_per_block = 32 << 10, // fits into the first-level cache of a core
        .shared_per_unit = 32 << 10,
        .registers_per_unit = 32,
        .max_cluster = 1,
        .l2_bytes = 1 << 20,
        .bytes_per_second = 12e9 * cores,
        .f32_flops = 50e9 * cores,
        .bf16_flops = 25e9 * cores,
        .matmul_library = matmul_library,
        .max_kernel_args = 1024, // kernels get their arguments as one array
        .fma = cpu_fma(),
    };
}

Target target_cuda(int arch, bool matmul_library)
{
    Target t = {
        .kind = TARGET_CUDA,
        .name = "sm_80",
        .arch = 80,
        .units = 108,
        .threads_per_block = 1024,
        .threads_per_unit = 2048,
        .warp = 32,
        .shared_per_block = 163 << 10,
        .shared_per_unit = 164 << 10,
        .registers_per_unit = 65536,
        .max_cluster = 1,
        .l2_bytes = 40 << 20,
        .bytes_per_second = 1.7e12,
        .f32_flops = 19.5e12,
        .bf16_flops = 280e12,
        .matmul_library = matmul_library,
        .epilogues = ALL_EPILOGUES, // generated products have them, too
        .max_kernel_args = 256,     // 4 KB of kernel parameters hold 512 pointers
        .fma = true,
        .column_flight = 64 << 10,
        .row_flight = 48 << 10,
        .turn_flight = 80 << 10,
        .row_slice = 32 << 10,
        .block_bytes = 3 << 10,
        .few_bytes = 2 << 20,
        .few_block_bytes = 256 << 10,
        .part_bytes = 64 << 10,
    };
    if ((arch > 80 && arch < 90 && arch != 87) || arch >= 120) { // workstation GPUs
        t.arch = arch;
        t.threads_per_unit = 1536;
        t.shared_per_block = 99 << 10;
        t.shared_per_unit = 100 << 10;
    }
    if (arch >= 90 && arch < 120) { // H200
        t.name = "sm_90";
        t.arch = 90;
        t.units = 132;
        t.shared_per_block = 227 << 10;
        t.shared_per_unit = 228 << 10;
        t.max_cluster = 8;
        t.widest_cluster = 16;
        t.l2_bytes = 60 << 20;
        t.bytes_per_second = 4.2e12;
        t.f32_flops = 67e12;
        t.bf16_flops = 790e12;
        t.group_products = arch < 100;
    }
    if (arch >= 100 && arch < 120) { // B200
        t.name = "sm_100";
        t.arch = 100;
        t.units = 148;
        t.l2_bytes = 126 << 20;
        t.bytes_per_second = 7.2e12;
        t.f32_flops = 75e12;
        t.bf16_flops = 1600e12;
    }
    return t;
}

void target_resize(Target *t, int units)
{
    double ratio = (double)units / t->units;
    t->f32_flops *= ratio;
    t->bf16_flops *= ratio;
    t->l2_bytes = (int64_t)((double)t->l2_bytes * ratio);
    t->units = units;
}

bool target_sums_on_the_way(const Target *t, double bytes)
{
    return bytes > (double)t->l2_bytes / 2;
}

bool target_small_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    if (t->kind != TARGET_CUDA || m > 1 << 20 || n > 1 << 20 || batch > 1 << 20) return false;
    int64_t tiles = (m + 31) / 32 * ((n + 31) / 32) * batch;
    return tiles > 0 && tiles < t->units && k > 0 && k <= 1024;
}

bool target_row_by_row(const Target *t, int64_t m, int64_t n, int64_t k)
{
    enum { SHORT = 4, BESIDE = 2 };
    return t->kind != TARGET_CUDA && (m == 1 || n == 1 || (k <= SHORT && n >= BESIDE));
}

bool target_narrow_product(const Target *t, int64_t n)
{
    return t->kind != TARGET_CUDA && n <= 16;
}

// FEW_SIDE: at most so many rows or columns are few; also the edge of a library's tile.
// LEAST_SHARED: length of the shortest sums that several warps share.
enum { FEW_SIDE = 64, LEAST_SHARED = 128 };

static int64_t library_tiles(int64_t batch, int64_t m, int64_t n)
{
    return batch * ((m + FEW_SIDE - 1) / FEW_SIDE) * ((n + FEW_SIDE - 1) / FEW_SIDE);
}

// A contraction much longer than its result is wide is usually a gradient of weights, where many
// blocks share the contracted axis.
static bool is_much_longer(int64_t m, int64_t n, int64_t k)
{
    enum { MUCH = 1024, MUCH_LONGER = 16 };
    return k > MUCH && k / MUCH_LONGER > (m > n ? m : n);
}

bool target_few_rows(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    enum { TILE = 32, LONG = 1 << 17 };
    const int64_t few = m < n ? m : n, many = m < n ? n : m, tiles = library_tiles(batch, m, n);
    if (k < LEAST_SHARED || is_much_longer(m, n, k)) return false;
    return t->kind == TARGET_CUDA && tiles > 0 && few <= FEW_SIDE && many <= LONG &&
           (tiles < t->units || (few <= TILE && batch == 1)); // (one row of tiles: each weight is
                                                              // read once)
}

bool target_idle_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    const int64_t tiles = library_tiles(batch, m, n);
    return t->kind == TARGET_CUDA && tiles > 0 && tiles < t->units && k >= LEAST_SHARED;
}

// Measured on an H200 with the convolutions of ResNet-18 for 1 to 16 images. Tiles of warps read
// operands often and are limited by the second cache; larger tiles pass through shared memory. For
// long sums these have to be in parts, which a second kernel adds.
bool target_few_results(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    enum { LEAST = 32, LONG = 1024, UNITS = 132 };
    const double flops = 2.0 * (double)batch * (double)m * (double)n * (double)k,
                 most = k < LONG ? 250e6 : 700e6;
    const int64_t tiles = library_tiles(batch, m, n);
    return t->kind == TARGET_CUDA && tiles > 0 && tiles < t->units && k >= LEAST &&
           !is_much_longer(m, n, k) && flops <= most * t->units / UNITS;
}

bool target_divides_sums(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    enum { LONG = 8192, TILE_M = 16, TILE_N = 8, CLUSTER = 8 };
    const int64_t tiles = batch * ((m + TILE_M - 1) / TILE_M) * ((n + TILE_N - 1) / TILE_N);
    return t->kind == TARGET_CUDA && k >= LONG && tiles * CLUSTER <= t->units;
}

int64_t target_idle_share(const Target *t, int64_t batch, int64_t m, int64_t n)
{
    const int64_t tiles = library_tiles(batch, m, n);
    return tiles > 0 && tiles < t->units ? t->units / tiles : 1;
}

bool target_long_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    const double seconds = 40e-6, flops = 2.0 * (double)m * (double)n * (double)k * (double)batch;
    return flops >= seconds * t->bf16_flops;
}

double target_product_flops(const Target *t, bool half, bool tf32)
{
    if (half) return t->bf16_flops;
    return tf32 && t->kind == TARGET_CUDA ? t->bf16_flops / 2 : t->f32_flops; // tf32 has half the
                                                                              // rate of 16-bit
                                                                              // floats
}

// 30 GB/s per multiprocessor. f32: fitted to 48 products on an H100, each with 60 schedules, with
// operands in the cache; schedules chosen by this take 4 % (TF32) and 7 % longer than the best
// ones. 16 bits: fitted to the steps of text generation, whose weights come from memory.
double target_warp_tiles_seconds(const Target *t, int64_t blocks, double bytes, int cluster,
                                 bool half)
{
    const double rate = 30e9, joining = half ? 1.1e-6 : 2.2e-6;
    double turns = (double)blocks / t->units;
    if (half) turns = (double)((blocks + t->units - 1) / t->units);
    double took = (turns > 1 ? turns : 1) * bytes / rate;
    for (; cluster > 1; cluster /= 2) took += joining;
    return took;
}

// Fitted to 22 convolutions of 40 to 650 MFLOP on an H200, each with 16 schedules: with these
// choices they take 1.5 % longer than with the best ones.
double target_windows_seconds(const Target *t, int64_t blocks, double bytes, int cluster)
{
    const double rate = 70e9, begin = 1.2e-6, joining = 1.35e-6;
    const double turns = (double)blocks / t->units;
    double took = begin + (turns > 1 ? turns : 1) * bytes / rate;
    for (; cluster > 1; cluster /= 2) took += joining;
    return took;
}

// The least time of an f32 product by tiles of 16 x 16 or 32 x 32, one per warp.
static double warp_product_seconds(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    double least = 1;
    for (int side = 16; side <= 32; side *= 2)
        for (int cluster = 1; cluster <= t->max_cluster; cluster *= 2) {
            const int64_t tiles = batch * ((m + side - 1) / side) * ((n + side - 1) / side);
            const double bytes = 8.0 * side * (double)k / cluster,
                         took =
                             target_warp_tiles_seconds(t, tiles * cluster, bytes, cluster, false);
            if (took < least) least = took;
        }
    return least;
}

// Measured on an H200, whose tensor cores mostly wait for shared memory: 0.6 TFLOP/s per
// multiprocessor, a third more with two blocks on it, unless the bandwidth of the L2 cache is the
// limit. With clusters of four and more blocks, 120 blocks run at once instead of 132.
double target_tiles_seconds(const Target *t, int64_t blocks, int m, int n, double columns,
                            int parts)
{
    const double begin = 1e-6, joining = 1.1e-6, rate = 0.095 * t->bf16_flops / t->units,
                 cache = 1.65 * t->bytes_per_second, line = 60e9;
    int64_t units = parts > 2 && t->units > 1 ? t->units * 10 / 11 : t->units;
    double each = (double)((blocks + units - 1) / units);
    double multiplied = each * 2 * m * n * columns / (each > 1 ? 1.35 * rate : rate),
           fetched = (double)blocks * 4 * (m + n) * columns / cache,
           took = begin + (multiplied > fetched ? multiplied : fetched) + each * 8 * m * n / line;
    for (; parts > 1; parts /= 2) took += joining;
    return took;
}

// Time of cuBLASLt for products with few results, where blocks share the contracted axis. On an
// H100, 24 products take 0.9 to 1.6 times as long. A generated kernel is compared with this
// estimate.
static double library_idle_seconds(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k,
                                   bool tf32)
{
    const double elements = (double)batch * ((double)m * (double)k + (double)k * (double)n),
                 flops = 2.0 * (double)batch * (double)m * (double)n * (double)k,
                 rate = tf32 ? 0.2 * t->bf16_flops : 0.8 * t->f32_flops,
                 fetched = 4 * elements / (0.6 * t->bytes_per_second);
    return 5e-6 + (flops / rate > fetched ? flops / rate : fetched);
}

bool target_quick_product(int64_t batch, int64_t m, int64_t n, int64_t k)
{
    return 2.0 * (double)batch * (double)m * (double)n * (double)k < 20e6;
}

bool target_generated_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k,
                              bool tf32)
{
    if (target_small_product(t, batch, m, n, k)) return true;
    const bool idle = target_idle_product(t, batch, m, n, k);
    double flops = 2.0 * (double)batch * (double)m * (double)n * (double)k, least = 1;
    if (t->kind != TARGET_CUDA || !(tf32 || idle) || flops <= 0 || flops > 1e12) return false;
    if (target_quick_product(batch, m, n, k)) return true;
    if (idle) least = warp_product_seconds(t, batch, m, n, k);
    int64_t tiles = batch * ((m + 63) / 64) * ((n + 31) / 32);
    for (int parts = 1; tf32 && parts <= t->max_cluster; parts *= 2) {
        double took = target_tiles_seconds(t, tiles * parts, 64, 32, (double)k / parts, parts);
        if (took < least) least = took;
    }
    if (idle) return least < library_idle_seconds(t, batch, m, n, k, tf32);
    // begin: time that a library call takes at least. saved: time of the surrounding kernels that
    // the generated product includes.
    const double begin = 4.8e-6, saved = 1e-6;
    return least < begin + flops / (0.25 * t->bf16_flops) + saved;
}

bool target_tiled_product(const Target *t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    return !target_small_product(t, batch, m, n, k) && !target_quick_product(batch, m, n, k);
}

// Share of the rate with aligned sizes that the library reaches if the contracted axis or the
// result's last axis is odd (on an H200: 16-bit floats 100 to 150 of 760 TFLOP/s, tf32 68 to 133 of
// 380), and if only another axis of an operand is odd (430 of 760, 110 of 255).
#define ODD_SHARE   0.2
#define ODD_TF32    0.33
#define OTHER_SHARE 0.55
#define OTHER_TF32  0.45
#define UNEVEN_LOSS 0.15
#define LAUNCH      1.5e-6

double target_library_seconds(const Target *t, bool half, double flops, bool inner_odd,
                              bool outer_odd)
{
    double share = inner_odd   ? half ? ODD_SHARE : ODD_TF32
                   : outer_odd ? half ? OTHER_SHARE : OTHER_TF32
                               : 1;
    return flops / target_product_flops(t, half, true) / share;
}

// tile: what each takes a multiprocessor at least in 16 bits; 0.7 to 1.5 us on an H200.
double target_batch_seconds(const Target *t, bool half, int64_t batch, int64_t m, int64_t n,
                            int64_t k, double bytes)
{
    const double tile = 0.7e-6, tiles = (double)library_tiles(batch, m, n),
                 flops = 2 * tiles * FEW_SIDE * FEW_SIDE * (double)k,
                 least = half && t->kind == TARGET_CUDA ? tiles / t->units * tile : 0,
                 computes = least + target_library_seconds(t, half, flops, false, false),
                 moves = target_move_seconds(t, bytes / 2);
    return computes > moves ? computes : moves;
}

double target_uneven_seconds(const Target *t, double flops)
{
    return UNEVEN_LOSS * flops / t->bf16_flops;
}

double target_strided_seconds(const Target *t, double flops)
{
    const double LOSS = 0.5; // on an H200: 140 to 240 of 280 to 400 TFLOP/s
    return LOSS * flops / target_product_flops(t, false, true);
}

bool target_brief(const Target *t, double bytes, double flops)
{
    const double SHORT = 8e-6; // at the device's rates; products count as other operations
    return bytes / t->bytes_per_second <= SHORT && flops / t->f32_flops <= SHORT;
}

double target_move_seconds(const Target *t, double bytes)
{
    return 2 * bytes / t->bytes_per_second + LAUNCH;
}

// -- products by groups of four warps -------------------------------------------------------------

// A cluster must fit into one group of multiprocessors (GPC). The table has the number of clusters
// of 1, 2, ... blocks that an H200 runs at once.
int64_t target_clusters(const Target *t, int blocks)
{
    static const int held[] = {132, 66, 39, 30, 22, 17, 15, 15};
    enum { UNITS = 132, LARGEST = sizeof held / sizeof *held };
    int64_t clusters = blocks <= LARGEST ? (int64_t)t->units * held[blocks - 1] / UNITS : 0;
    return clusters > 0 ? clusters : 1;
}

double target_mma_share(const Target *t)
{
    return t->arch < 90 ? 0.75 : 0.35; // (limit of the mma.sync instruction; measured)
}

// On an H200 tiles of width 128 are a few percent slower per element than those of width 192, and
// those of 64 a sixth slower than those of 128. Blocks that share the contracted axis wait longer
// for their tiles, since neighbouring blocks read different ones.
int target_tile_edge(const Target *t, TargetSharing by)
{
    (void)t;
    return by == SHARE_NONE ? 32 : by == SHARE_GROUPS ? 42 : 56;
}

// 1.3, 4 and 5.3 us on an H200.
double target_joining(const Target *t, TargetSharing by)
{
    static const double took[] = {
        [SHARE_NONE] = 0, [SHARE_GROUPS] = 80e3, [SHARE_BLOCKS] = 240e3, [SHARE_BOTH] = 320e3};
    (void)t;
    return took[by];
}

int target_line_elements(const Target *t)
{
    (void)t;
    return 80; // 1.6 ns on an H200
}

// Measured without lines on an H200: convolutions of 96 and 200 channels became 1.15 to 1.5 times
// as fast, those of 80 stayed the same, those of 24 became less than half as fast. With lines on an
// H100, those of 24 to 80 channels became 0.99 to 3.1 times as fast.
int64_t target_copied_channels(const Target *t, int64_t channels, int64_t results, bool lines)
{
    enum { STEP = 64, TILE = 64 };
    const int64_t next = (channels + STEP - 1) / STEP * STEP;
    const bool pays = lines ? next <= channels * 3 : channels > STEP && next * 3 <= channels * 4;
    return t->group_products && pays && channels % TARGET_UNIT == 0 &&
                   results >= (int64_t)TILE * STEP * t->units
               ? next
               : channels;
}

// Measured on an H200 with 3x3 convolutions of 128 images, forward and both gradients: 32 groups of
// 4, 8, 16 and 32 channels take 11, 67, 80 and 93 GFLOP/s of each multiprocessor. They wait for
// what their tiles gather, single elements if the channels do not fill 16 bytes, and each element
// meets the results of one group only.
static bool has_vectors(const TargetGroups *x)
{
    enum { VECTOR = 16 };
    return x->channels * (x->half ? 2 : 4) % VECTOR == 0;
}

static double grouped_seconds(const Target *t, const TargetGroups *x)
{
    enum { WIDE = 64, TILE = 128 };
    const double tiles = 0.3, most = 80e9, vectors = 8.4e9, elements = 2.75e9,
                 n = (double)(x->results < TILE ? x->results : TILE);
    double rate = n * (has_vectors(x) ? vectors : elements);
    if (rate > most) rate = most;
    if (x->results >= WIDE) rate = tiles * n / TILE * t->bf16_flops / t->units;
    return 2 * x->products * (double)x->groups / (rate * t->units * (x->half ? 1 : 0.5));
}

// How many groups each group's channels are multiplied with: those of a tile's columns if they have
// whole steps of channels (wgmma_chunks), otherwise all.
static double groups_met(const TargetGroups *x)
{
    enum { STEP = 64, WIDEST = 256 };
    for (int64_t n = STEP; n <= WIDEST; n += STEP)
        if (n % x->results == 0 && n / x->results * x->channels % STEP == 0 &&
            n / x->results < x->groups)
            return (double)(n / x->results);
    return (double)x->groups;
}

// Of the tensor cores' rate, convolutions reach 0.88 on an H200 by bulk copies, with all
// multiprocessors busy. [gathered] is fuse_dot.c's estimate of the others.
static double merged_seconds(const Target *t, const TargetGroups *x)
{
    enum { STEP = 64, TILE = 64 };
    const double copied = 0.8, gathered = 0.35, groups = (double)x->groups;
    const int64_t channels = x->groups * x->channels, results = x->groups * x->results,
                  counted = target_copied_channels(t, channels, x->rows * results, false),
                  tiles = ((x->rows + TILE - 1) / TILE) * ((results + TILE - 1) / TILE),
                  turns = (tiles + t->units - 1) / t->units;
    const bool copies =
        t->group_products && x->half && counted % STEP == 0 && results % TARGET_UNIT == 0;
    const double rate = (copies ? copied * (double)channels / (double)counted : gathered) *
                        t->bf16_flops * (x->half ? 1 : 0.5),
                 busy = (double)tiles / (double)(turns * t->units),
                 weights = x->products / (double)x->rows * groups * groups;
    // In a training step the gradient of the weights decides, in which all groups meet.
    const double met = copies && x->repaired ? groups_met(x) : groups;
    return 2 * x->products * groups * met / (rate * busy) +
           target_move_seconds(t, weights * (x->half ? 2 : 4));
}

bool target_joins_products(const Target *t, int64_t rows, int64_t cols)
{
    enum { TILE = 128 };
    return t->kind == TARGET_CUDA &&
           (rows + TILE - 1) / TILE * ((cols + TILE - 1) / TILE) < t->units;
}

// Measured on an H200 with 3x3 convolutions in bf16 without gradients, 8 groups of 8 to 128
// channels and 32 of 4 to 32: by groups, each result takes a time for each pixel of its window;
// from 64 channels on, tensor cores are busy in either form. The merged ones take a time for each
// result, which is looked at, besides that of their products.
static bool merges_repaired(const Target *t, const TargetGroups *x)
{
    enum { WIDE = 64, UNITS = 132 };
    const double vectors = 1.05e-12, elements = 3.1e-12, looked_at = 4e-12, rows = (double)x->rows,
                 device = (double)UNITS / t->units,
                 results = device * rows * (double)(x->groups * x->results),
                 pixels = x->products / (rows * (double)(x->channels * x->results)),
                 grouped = results * pixels * (has_vectors(x) ? vectors : elements);
    return x->results < WIDE && merged_seconds(t, x) + results * looked_at < grouped;
}

bool target_merges_groups(const Target *t, const TargetGroups *x)
{
    if (t->kind != TARGET_CUDA || x->rows <= 0) return false;
    return x->repaired ? merges_repaired(t, x) : merged_seconds(t, x) < grouped_seconds(t, x);
}

// Measured on an H200: 3x3 to 7x7 windows of 1 to 6 channels, 12,544 to 1,605,632 of them, with 32
// to 320 results. Gathered: a time for each term, in steps of 32, and for each result of it (too
// long for 16 results, 150 us instead of 83, and for 4 channels, 43 instead of 29).
TargetPatchTimes target_patch_times(const Target *t, const TargetPatches *x)
{
    enum { STEP = 32, UNITS = 132 };
    const double term = 1.9e-12, result = 2.1e-14, copying = x->lines ? 3e12 : 1.8e12,
                 launch = 2e-6, places = (double)x->places, results = (double)x->results,
                 steps = ceil((double)x->terms / STEP) * STEP, filled = (double)x->stored,
                 device = (double)UNITS / t->units;
    return (TargetPatchTimes){
        .gathered = device * places * steps * (term + result * results),
        .stored = launch + 2 * places * (filled + results) / t->bytes_per_second,
        .copied = device * 2 * places * filled / copying + 2 * launch,
    };
}

// On an H200, an update in memory that follows the one before takes this long; of 64 columns, which
// are updated at the same time, a quarter.
#define UPDATE_SECONDS 5e-8

bool target_sums_in_bins(const Target *t, const TargetSums *x)
{
    const double shared_rate = 1e13, launch = 5e-6, // bins are cleared and read
        updates = (double)x->count * UPDATE_SECONDS, bytes = 4 * (double)x->elements;
    if (t->kind != TARGET_CUDA || !x->count) return false;
    if (x->onto_constant || x->count >= x->places / 4) return true;
    return x->onto_cell ? updates > launch + bytes / shared_rate
                        : updates / 4 > launch + 2 * bytes / t->bytes_per_second;
}

// Seconds on an H200 in which a block looks at as many indices as it has threads.
#define LOOK_SECONDS 1.8e-7
// ... and in which a partial sum is written and read.
#define PARTIAL_SECONDS 2e-12

int64_t target_narrow_ranges(int64_t count, int64_t sums)
{
    const double look = LOOK_SECONDS / 256;
    return (int64_t)sqrt(look * (double)count / (PARTIAL_SECONDS * (double)sums));
}

// Fitted to 34 shapes measured on an H200 (bench/results/h200_20261130b.md): each block looks at
// all indices of its range, and a team of its threads adds the updates of its places one after
// another. The sizes of blocks are those of codegen/lower/lower_bins.c.
double target_sums_seconds(const Target *t, const TargetSums *x)
{
    enum { BIN_BYTES = 96 << 10, WARP = 32, THREADS = 256 };
    const double resident = 2.0 * t->units, n = (double)x->count,
                 cols = (double)x->elements / (double)x->places, across = ceil(cols / THREADS),
                 team = WARP * ceil(cols / across / WARP), teams = floor(THREADS / team),
                 apart = cols < WARP ? cols : across * team, // each thread has a column
        bytes = 4 * (double)x->places * apart;
    const double blocks = ceil(bytes / BIN_BYTES / across) * across,
                 most = cols < WARP ? (double)target_narrow_ranges(x->count, x->elements)
                                    : n / (2 * (double)x->places),
                 ranges = fmax(1, floor(fmin(resident / blocks, most))),
                 turns = ceil(blocks * ranges / resident),
                 look = turns * n / ranges / (teams * team) * LOOK_SECONDS;
    if (cols < WARP) {
        const double launch = 5e-6, sum = 6e-11,
                     update = 5e-11 * (1 + fmin(1, (double)x->places / 8192)) * (1 + cols / 8),
                     partial = ranges > 1 ? ranges * (double)x->elements * PARTIAL_SECONDS : 0;
        return launch + look + partial + n * update + (double)x->elements * sum;
    }
    const double launch = 1e-5, cached = 3e7, update = 4 * n * cols < cached ? 1.4e-7 : 2.8e-7;
    return launch + look + turns * n / (blocks / across * ranges * teams) * update;
}

// As above. A block adds the updates of its places one after another, and those of a place cannot
// be divided if they are few.
double target_ordered_sums_seconds(const Target *t, const TargetSums *x)
{
    enum { BYTES = 16 << 10, WARP = 32, THREADS = 256 };
    const double n = (double)x->count, places = (double)x->places,
                 cols = (double)x->elements / places, across = ceil(cols / THREADS);
    if (cols < WARP) return 5e-6 + n * 2.5e-11 * (1 + cols / 8) + n / places * 1.5e-7;
    const double blocks = ceil(places * ceil(cols / across) * 4 / BYTES),
                 moved = 4 * (n * cols + 2 * (double)x->elements);
    return 1e-5 + n / blocks * 7e-8 + moved / t->bytes_per_second;
}

// Fitted to 25 shapes measured on an H200 (bench/results/h200_20261130c.md). Atomics are made in
// the second-level cache, those of the same 32 bytes one after another.
double target_atomic_sums_seconds(const Target *t, const TargetSums *x)
{
    enum { UNITS = 132, SECTOR = 8 };
    const double launch = 2e-6, n = (double)x->count, places = (double)x->places,
                 cols = (double)x->elements / places, same = cols < SECTOR ? 7e-8 : 4e-8,
                 each = (double)UNITS / t->units * (4.5e-12 + 7.5e-12 / cols);
    return launch + n * cols * each + n / places * same +
           12 * (double)x->elements / t->bytes_per_second;
}

// As above, for the largest update of each place and for the sum.
double target_integer_sums_seconds(const Target *t, const TargetSums *x)
{
    enum { UNITS = 132 };
    const double launch = 5e-6, n = (double)x->count, places = (double)x->places,
                 cols = (double)x->elements / places, same = 8e-8,
                 each = (double)UNITS / t->units * (1.4e-11 + 1.4e-11 / cols);
    return launch + n * cols * each + n / places * same +
           40 * (double)x->elements / t->bytes_per_second;
}

// By the bytes of the keys and positions, several times over; not measured.
double target_sort_rows_seconds(int64_t count)
{
    const double launch = 5e-6, each = 2e-11;
    return launch + each * (double)count;
}

// Measured on an H200: the two kernels of a digit take 11 us for 10,000 elements, 25 for a million
// and 79 for 5 million.
double target_sort_seconds(int64_t count, int bits)
{
    const double digit = 1e-5, each = 1.4e-11;
    return ceil(bits / 8.0) * (digit + each * (double)count);
}

// On a GPU, in the worst order, 32 elements take a merge with those held. On a CPU, elements that
// come before the last one held are inserted: of a row in random order, first * (1 + log(cols /
// first)). In the worst order all are, which for 64 takes up to four times as long as the sort (by
// bytes).
bool target_finds_first(const Target *t, int64_t cols, int64_t first)
{
    enum { LEAST = 64, CPU_MOST = 64 };
    if (cols < LEAST || first <= 0) return false;
    return t->kind == TARGET_CUDA ? first <= SORT_FIRST_MOST && first <= cols / 2
                                  : first <= CPU_MOST && first <= cols / 16;
}

// On an H200, 16,384 updates one after another take 890 us.
bool target_finds_last_updates(const Target *t, int64_t count, int64_t bytes)
{
    const double launches = 5e-6;
    return (double)count * UPDATE_SECONDS > 2 * (double)bytes / t->bytes_per_second + launches;
}

int target_most_corner(int axes)
{
    return axes == 3 ? 16 : 128;
}

int target_most_offset(int axes)
{
    return axes == 3 ? 31 : 255;
}
