// Targets: limits of devices, and what the costs of one say of others of its kind.
#include <math.h>

#include "ir/target.h"
#include "tests/unit/unit.h"

// Clusters leave multiprocessors idle, and none is in two of them; a slice of a device holds fewer.
static void clusters(const Target *t)
{
    for (int blocks = 1; blocks <= t->max_cluster; blocks++) {
        int64_t n = target_clusters(t, blocks);
        CHECK_MSG(n >= 1 && (n * blocks <= t->units || n == 1), "%d blocks: %lld", blocks,
                  (long long)n);
        CHECK(blocks == 1 || n <= target_clusters(t, blocks - 1));
    }
    CHECK(target_clusters(t, 1) == t->units);
}

// A 3x3 convolution of [rows] places by [groups] of as many channels and results.
static TargetGroups groups_of(int64_t groups, int64_t channels, int64_t rows)
{
    const double products = 9.0 * (double)(rows * channels * channels);
    return (TargetGroups){groups, channels, channels, rows, products, false, true};
}

// Those of ResNeXt-50 for 128 images are faster as dense ones, for one image the widest are not.
static void grouped_convolutions(const Target *t)
{
    static const int64_t side[] = {56, 28, 14, 7};
    for (int i = 0; i < 4; i++) {
        TargetGroups x = groups_of(32, 4 << i, 128 * side[i] * side[i]);
        CHECK_MSG(target_merges_groups(t, &x), "%d channels", 4 << i);
        x.repaired = true;
        CHECK_MSG(target_merges_groups(t, &x), "%d channels, predictions", 4 << i);
    }
    TargetGroups few = groups_of(32, 32, 49), wide = groups_of(16, 64, 25088),
                 full = groups_of(32, 32, 25088);
    const Target cpu = target_cpu(8, true);
    CHECK(!target_merges_groups(t, &few) && !target_merges_groups(t, &wide));
    full.half = false; // no bulk copies for TF32, and half the rate
    CHECK(!target_merges_groups(t, &full));
    full = groups_of(32, 4, 401408);
    CHECK(!target_merges_groups(&cpu, &full));
    full.rows = 0;
    CHECK(!target_merges_groups(t, &full));
}

// Predictions, 8 groups, 4 convolutions each: those that were faster by groups, in us.
static void grouped_predictions(const Target *t)
{
    static const struct {
        int channels;
        bool merged;
    } of[] = {{8, true},   {16, true},  {32, true}, // 182 and 344, 285 and 525, 457 and 825
              {48, false}, {56, false},             // 1745 and 1372, 2823 and 1844
              {64, false}, {128, false}};           // 878 and 920, 2108 and 2153
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        TargetGroups x = groups_of(8, of[i].channels, 128 * 28 * 28);
        x.repaired = true;
        CHECK_MSG(target_merges_groups(t, &x) == of[i].merged, "%d channels", of[i].channels);
    }
}

// Windows of few channels: those that were clearly faster stored, in a training step, and those
// that were not.
static bool stores(const Target *t, int64_t places, int64_t terms, int64_t results, int products,
                   int64_t stored, bool lines)
{
    const TargetPatches x = {terms, places, stored, lines, results};
    const TargetPatchTimes s = target_patch_times(t, &x);
    return products * s.gathered > 1.2 * (products * s.stored + s.copied);
}

static void patches(const Target *t)
{
    CHECK(stores(t, 1605632, 147, 64, 1, 168, true)); // 760 us gathered, 395 stored
    CHECK(stores(t, 401408, 147, 64, 1, 168, true));  // 198, 111
    CHECK(stores(t, 131072, 36, 320, 1, 40, false));  // 73, 45
    CHECK(stores(t, 262144, 150, 48, 1, 160, true));  // 102, 64
    CHECK(stores(t, 802816, 27, 32, 2, 32, false));   // 68 and 240, 79 and 80 with a copy each
    CHECK(!stores(t, 100352, 25, 32, 1, 32, false));  // 8, 11
    CHECK(!stores(t, 100352, 25, 32, 2, 32, false));  // 16, 18
    CHECK(!stores(t, 524288, 27, 64, 1, 32, false));  // 53, 54
}

static bool in_bins(const Target *t, int64_t places, int64_t count, bool constant, bool cell)
{
    const TargetSums x = {places, 64 * places, count, constant, cell};
    return target_sums_in_bins(t, &x);
}

static bool sorts(const Target *t, int64_t places, int64_t elements, int64_t count)
{
    const TargetSums x = {places, elements, count, false, false};
    int bits = 0;
    while (places >> bits) bits++;
    return target_sums_seconds(t, &x) - target_ordered_sums_seconds(t, &x) >
           target_sort_seconds(count, bits);
}

static bool counts(const Target *t, int64_t places, int64_t columns, int64_t count)
{
    const TargetSums x = {places, columns * places, count, false, false};
    int bits = 0;
    while (places >> bits) bits++;
    const double ordered = target_ordered_sums_seconds(t, &x) + target_sort_seconds(count, bits);
    return target_integer_sums_seconds(t, &x) < fmin(target_sums_seconds(t, &x), ordered);
}

static bool by_atomics(const Target *t, int64_t places, int64_t columns, int64_t count)
{
    const TargetSums x = {places, columns * places, count, false, false};
    return target_atomic_sums_seconds(t, &x) < target_sums_seconds(t, &x);
}

// Updates by index: those that took long on an H200, and those that did not.
static void updates(const Target *t)
{
    const Target cpu = target_cpu(8, true);
    // us sorted, and not: 357, 564; 166, 860; 175, 399; 73, 319; 168, 400; 60, 116; 86, 131; 76,
    // 121; 42, 81; 36, 57; 50, 103; 47, 68; 58, 109; 63, 168
    CHECK(sorts(t, 100003, 100003, 5000011) && sorts(t, 100000, 4000000, 1000000));
    CHECK(sorts(t, 50257, 50257 * 768, 32768) && sorts(t, 50257, 50257 * 129, 100003));
    CHECK(sorts(t, 300007, 600014, 2000003) && sorts(t, 30011, 240088, 500009));
    CHECK(sorts(t, 20011, 20011 * 64, 200003) && sorts(t, 30011, 30011, 1000003));
    CHECK(sorts(t, 10007, 160112, 300007) && sorts(t, 2708, 2708 * 64, 10556));
    CHECK(sorts(t, 19717, 19717 * 128, 88648) && sorts(t, 5003, 5003 * 40, 20011));
    CHECK(sorts(t, 10007, 10007 * 512, 30011) && sorts(t, 1000003, 2000006, 300007));
    CHECK(sorts(t, 8192, 8192 * 1024, 40960) &&
          sorts(t, 2003, 2003 * 256, 100003)); // 95, 269; 87, 97
    CHECK(!sorts(t, 4096, 4096 * 128, 131072) &&
          !sorts(t, 4096, 4096 * 64, 65536));  // 103, 81; 69, 45
    CHECK(!sorts(t, 8192, 8192 * 32, 200003)); // 199, 76
    // 28, 21; 155, 23; 292, 29; 150, 24; 443, 15; 58, 28; 34, 27; 223, 61
    CHECK(!sorts(t, 5003, 5003 * 16, 50021) && !sorts(t, 128, 128 * 384, 16384));
    CHECK(!sorts(t, 1000, 64000, 100003) && !sorts(t, 512, 65536, 50021));
    CHECK(!sorts(t, 300, 9600, 30011) && !sorts(t, 64, 1024, 100003));
    CHECK(!sorts(t, 20011, 60033, 20011) && !sorts(t, 1009, 1009, 1000003));
    // us as sums of integers, and otherwise: 144, 357; 120, 168; 67, 87; 42, 75; 17, 36; 39, 63; 8,
    // 25; 8, 36; 21, 47; 5, 19; 736, 2551; 776, 1371
    CHECK(counts(t, 100003, 1, 5000011) && counts(t, 300007, 2, 2000003));
    CHECK(counts(t, 4001, 1, 1000003) && counts(t, 30011, 1, 1000003));
    CHECK(counts(t, 2708, 64, 10556) && counts(t, 1000003, 2, 300007));
    CHECK(counts(t, 20011, 3, 20011) && counts(t, 2708, 32, 5003));
    CHECK(counts(t, 5003, 40, 20011) && counts(t, 20000, 1, 20000));
    CHECK(counts(t, 1000003, 1, 30000011) && counts(t, 524288, 2, 16000003));
    // 693, 166; 79, 60; 71, 42; 91, 75; 127, 61; 139, 28; 65, 44; 94, 29; 722, 47; 2366, 516
    CHECK(!counts(t, 100000, 40, 1000000) && !counts(t, 30011, 8, 500009));
    CHECK(!counts(t, 10007, 16, 300007) && !counts(t, 8192, 32, 200003));
    CHECK(!counts(t, 1009, 1, 1000003) && !counts(t, 64, 16, 100003));
    CHECK(!counts(t, 4096, 64, 65536) && !counts(t, 1000, 64, 100003));
    CHECK(!counts(t, 65, 384, 16384)); // 102, 20
    CHECK(counts(t, 96, 64, 384) && counts(t, 256, 128, 2048)); // 4, 8; 10, 36
    CHECK(!counts(t, 100, 3, 1000003) && !counts(t, 256, 1, 10000019));
    // Integers, us by atomics and in bins: 63, 564; 235, 856; 31, 94; 6, 57; 10, 168; 3, 36; 321,
    // 7097
    CHECK(by_atomics(t, 100003, 1, 5000011) && by_atomics(t, 100000, 40, 1000000));
    CHECK(by_atomics(t, 4001, 1, 1000003) && by_atomics(t, 2708, 64, 10556));
    CHECK(by_atomics(t, 1000003, 2, 300007) && by_atomics(t, 2708, 32, 5003));
    CHECK(by_atomics(t, 1000003, 1, 30000011));
    // 87, 61; 73, 28; 2624, 516; 696, 47
    CHECK(!by_atomics(t, 1009, 1, 1000003) && !by_atomics(t, 64, 16, 100003));
    CHECK(!by_atomics(t, 256, 1, 10000019) && !by_atomics(t, 100, 3, 1000003));
    CHECK(target_finds_last_updates(t, 16384, 81924)); // 890 us
    CHECK(!target_finds_last_updates(t, 16, 1 << 30) && !target_finds_last_updates(t, 16, 64));
    CHECK(in_bins(t, 100, 25, false, false) && !in_bins(t, 100, 24, false, false));
    CHECK(in_bins(t, 100003, 8192, false, false) && !in_bins(t, 1000003, 2048, false, false));
    CHECK(in_bins(t, 100, 24, true, false) && !in_bins(t, 100, 0, true, false));
    CHECK(in_bins(t, 100000, 8192, false, true) && !in_bins(t, 100000, 32, false, true));
    CHECK(!in_bins(&cpu, 100, 1000, true, false));
}

int main(void)
{
    Target t = target_cuda(90, true), slice = t, old = target_cuda(80, true);
    clusters(&t);
    patches(&t);
    updates(&t);
    target_resize(&slice, 26);
    CHECK(slice.f32_flops < t.f32_flops / 5 && slice.bytes_per_second == t.bytes_per_second);
    CHECK(target_sums_on_the_way(&slice, 8e6) && !target_sums_on_the_way(&t, 8e6));
    clusters(&slice);
    // Who shares a tile's columns joins sums; groups of a block in less than blocks do.
    CHECK(target_joining(&t, SHARE_NONE) == 0);
    for (TargetSharing by = SHARE_GROUPS; by <= SHARE_BOTH; by++) {
        CHECK(target_joining(&t, by) > target_joining(&t, by - 1));
        CHECK(target_tile_edge(&t, by) >= target_tile_edge(&t, by - 1));
    }
    CHECK(target_mma_share(&old) > target_mma_share(&t)); // mma.sync cannot feed the faster ones
    CHECK(target_brief(&t, 30e6, 1e8) && !target_brief(&t, 40e6, 1e8));
    CHECK(!target_brief(&t, 30e6, 1e9) && target_brief(&slice, 30e6, 1e8));
    // Few rows or columns, with sums not much longer than results: text generation, a small head.
    CHECK(target_few_rows(&t, 1, 32, 768, 3072) && target_few_rows(&t, 1, 200, 10, 304));
    CHECK(target_few_rows(&t, 1, 32, 50257, 768) && !target_few_rows(&t, 1, 64, 50257, 768));
    CHECK(!target_few_rows(&t, 1, 65, 65, 768) && !target_few_rows(&t, 1, 32, 768, 64));
    CHECK(!target_few_rows(&t, 1, 64, 576, 524288) && !target_few_rows(&t, 384, 1, 64, 1024));
    CHECK(target_warp_tiles_seconds(&t, 96, 2e5, 1, true) >
          target_warp_tiles_seconds(&t, 96, 1e5, 4, true));
    CHECK(target_warp_tiles_seconds(&t, 96, 5e4, 1, false) <
          target_warp_tiles_seconds(&t, 96, 2.5e4, 2, false));
    // Convolutions of one image, and of eight where the sums are long; none of a training step.
    CHECK(target_few_results(&t, 1, 1024, 64, 576) && target_few_results(&t, 1, 128, 512, 4608));
    CHECK(!target_few_results(&t, 1, 8192, 64, 576) && !target_few_results(&t, 1, 64, 576, 65536));
    CHECK(!target_few_results(&t, 1, 1024, 64, 27) &&
          !target_few_results(&slice, 1, 1024, 64, 576));
    CHECK(target_windows_seconds(&t, 128, 7.4e4, 1) < target_windows_seconds(&t, 128, 7.4e4, 2));
    CHECK(target_windows_seconds(&t, 256, 7.4e4, 1) > target_windows_seconds(&t, 128, 7.4e4, 1));
    // f32: results so few that a library leaves most of the device idle, whichever side is short.
    CHECK(target_idle_product(&t, 1, 64, 512, 2048) && target_idle_product(&t, 1, 512, 8, 65536));
    CHECK(!target_idle_product(&t, 1, 4096, 4096, 512) && !target_idle_product(&t, 1, 64, 64, 64));
    CHECK(target_idle_share(&t, 1, 64, 512) == t.units / 8 &&
          target_idle_share(&t, 1, 4096, 4096) == 1);
    CHECK(target_generated_product(&t, 1, 64, 2048, 512, false) &&
          target_generated_product(&t, 1, 64, 2048, 512, true));
    CHECK(!target_generated_product(&t, 1, 250, 600, 1200, false) && // timed beside a library's
          !target_generated_product(&t, 1, 96, 512, 8192, true));
    CHECK(!target_generated_product(&t, 1, 512, 768, 32768, false) &&
          !target_generated_product(&t, 1, 512, 768, 32768, true));
    CHECK(target_move_seconds(&t, 84e6) > 2 * 84e6 / t.bytes_per_second);
    grouped_convolutions(&t);
    grouped_predictions(&t);
    return unit_done();
}
