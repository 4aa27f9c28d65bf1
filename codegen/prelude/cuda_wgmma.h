
// -- products of four warps on tensor cores (wgmma), and the bulk copies that load their operands. Only
// sm_90 has these instructions; kernels for other devices do not use them.
struct alignas(64) NcMap { // a tensor map, which the driver creates
    char opaque[128];
};
template <int N> struct NcMaps { // of a matrix whose rows N apart have the same alignment
    NcMap of[N];
};
// mbarriers: a phase ends when [arrivals] threads have arrived and the bytes that were announced have
// arrived, too. A wait is for the end of the phase of the given parity.
NC_FN void nc_bar_init(uint64_t *bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(nc_shared_place(bar)), "r"(arrivals) : "memory");
}
// Initialises the mbarriers of all places of a ring, by one thread.
template <int Places> NC_FN void nc_ring_begin(uint64_t *full, int fillers, uint64_t *empty, int readers)
{
    for (int i = 0; i < Places; i++) {
        nc_bar_init(full + i, fillers);
        nc_bar_init(empty + i, readers);
    }
}
// Called by all threads of the block, or cluster, before they use the mbarriers that one initialised.
NC_FN void nc_bars_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    nc_cluster_wait();
}
NC_FN void nc_bar_expect(uint64_t *bar, int bytes) // arrives and announces bytes
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 : : "r"(nc_shared_place(bar)), "r"(bytes) : "memory");
}
NC_FN void nc_bar_wait(uint64_t *bar, int parity)
{
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                 : : "r"(nc_shared_place(bar)), "r"(parity) : "memory");
}
NC_FN void nc_bar_arrive(uint64_t *bar, int block) // at the mbarrier of that block of the cluster
{
    asm volatile("{ .reg .b32 at; mapa.shared::cluster.u32 at, %0, %1; "
                 "mbarrier.arrive.shared::cluster.b64 _, [at]; }"
                 : : "r"(nc_shared_place(bar)), "r"(block) : "memory");
}
// The same with release semantics in the cluster: orders this thread's writes to shared memory and reads
// of other blocks', and those of threads it waited for. nc_bar_hear waits with acquire semantics.
NC_FN void nc_bar_tell(uint64_t *bar, int block)
{
    asm volatile("{ .reg .b32 at; mapa.shared::cluster.u32 at, %0, %1; "
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [at]; }"
                 : : "r"(nc_shared_place(bar)), "r"(block) : "memory");
}
NC_FN void nc_bar_hear(uint64_t *bar, int parity)
{
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                 : : "r"(nc_shared_place(bar)), "r"(parity) : "memory");
}
// The start of the dynamic shared memory for bulk copies, aligned to 1024 bytes as their swizzle needs.
NC_FN uint8_t *nc_bulk_shared() { return (uint8_t *)nc_shared + (1024 - nc_shared_place(nc_shared) % 1024) % 1024; }
// Starts copying the map's box at column x, row y; the mbarrier counts its bytes.
NC_FN void nc_copy_box(uint8_t *to, const NcMap &map, int x, int y, uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 : : "r"(nc_shared_place(to)), "l"(&map), "r"(nc_shared_place(bar)), "r"(x), "r"(y) : "memory");
}
// The same, to the same address in all blocks of the cluster whose bit is set.
NC_FN void nc_copy_box_to(uint16_t blocks, uint8_t *to, const NcMap &map, int x, int y, uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;"
                 : : "r"(nc_shared_place(to)), "l"(&map), "r"(nc_shared_place(bar)), "r"(x), "r"(y), "h"(blocks) : "memory");
}
// nc_copy_box for a map of several matrices, numbered by p and q.
NC_FN void nc_copy_box4(uint8_t *to, const NcMap &map, int x, int y, int p, int q, uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
                 : : "r"(nc_shared_place(to)), "l"(&map), "r"(nc_shared_place(bar)), "r"(x), "r"(y), "r"(p), "r"(q) : "memory");
}
// Copies 64 channels, from c on, of one pixel of each of the map's neighbouring windows: the first window begins
// at pixel x, y of image n; [right] and [down] give the pixel's position in every window.
NC_FN void nc_copy_windows(uint8_t *to, const NcMap &map, int c, int x, int y, int n, int right, int down, uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 : : "r"(nc_shared_place(to)), "l"(&map), "r"(nc_shared_place(bar)), "r"(c), "r"(x), "r"(y), "r"(n),
                     "h"((uint16_t)right), "h"((uint16_t)down) : "memory");
}
// ... of images of planes: plane z, and the pixel so many planes further on.
NC_FN void nc_copy_windows3(uint8_t *to, const NcMap &map, int c, int x, int y, int z, int n, int right, int down, int deeper, uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};"
                 : : "r"(nc_shared_place(to)), "l"(&map), "r"(nc_shared_place(bar)), "r"(c), "r"(x), "r"(y), "r"(z), "r"(n),
                     "h"((uint16_t)right), "h"((uint16_t)down), "h"((uint16_t)deeper) : "memory");
}
// Four warps release registers, or allocate them: from now on a thread has N.
template <int N> NC_FN void nc_registers_give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(N)); }
template <int N> NC_FN void nc_registers_take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N)); }
// The descriptor of an operand in shared memory, which consists of boxes of swizzled 128-byte rows: along
// k (boxes with all rows of the operand), or along the other axis (boxes with [rows] rows along k).
NC_FN uint64_t nc_operand(const uint8_t *p, int rows = 64)
{
    return (nc_shared_place(p) & 0x3ffff) >> 4 | (uint64_t)(rows * 8) << 16 | 64ull << 32 | 1ull << 62;
}
// c (64 x N) += a (64 x 16) b (16 x N), or = if not [add]. Ka, Kb: 0 if the operand's rows are along k,
// 1 if along the other axis. Thread t of the 128 has columns 8 j + t % 4 * 2 and the next one of row
// t / 32 * 16 + t % 32 / 4 in c[4 j], c[4 j + 1], and of the row 8 further down in c[4 j + 2], c[4 j + 3].
#define NC_REGS8(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])
#define NC_REGS32(i) NC_REGS8(i), NC_REGS8(i + 8), NC_REGS8(i + 16), NC_REGS8(i + 24)
#define NC_REGS64(i) NC_REGS32(i), NC_REGS32(i + 32)
#define NC_REGS96(i) NC_REGS64(i), NC_REGS32(i + 64)
#define NC_NAMES8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NC_NAMES16 NC_NAMES8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NC_NAMES24 NC_NAMES16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NC_NAMES32 NC_NAMES24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NC_NAMES40 NC_NAMES32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NC_NAMES48 NC_NAMES40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NC_NAMES56 NC_NAMES48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NC_NAMES64 NC_NAMES56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define NC_NAMES72 NC_NAMES64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define NC_NAMES80 NC_NAMES72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define NC_NAMES88 NC_NAMES80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define NC_NAMES96 NC_NAMES88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define NC_NAMES104 NC_NAMES96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define NC_NAMES112 NC_NAMES104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define NC_NAMES120 NC_NAMES112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define NC_NAMES128 NC_NAMES120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define NC_PRODUCT(name, type, n, names, a_, b_, add_, ta, tb, ...)                                    \
    template <int Ka, int Kb> NC_FN void name(float (&c)[n / 2], uint64_t a, uint64_t b, bool add)      \
    {                                                                                                 \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " add_ ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
                     " {" names "}, " a_ ", " b_ ", p, 1, 1, " ta ", " tb "; }"                         \
                     : __VA_ARGS__ : "l"(a), "l"(b), "r"((int)add), "n"(Ka), "n"(Kb));                  \
    }
// The same with a in registers: of the same rows, columns t % 4 * 2 and the next one, and those 8 further on.
#define NC_LEFT_PRODUCT(name, type, n, names, a0, a1, a2, a3, b_, add_, tb, ...)                       \
    template <int Kb> NC_FN void name(float (&c)[n / 2], const uint32_t (&a)[4], uint64_t b, bool add)  \
    {                                                                                                 \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " add_ ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
                     " {" names "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b_ ", p, 1, 1, " tb "; }"       \
                     : __VA_ARGS__ : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(Kb)); \
    }
#define NC_PRODUCTS(n, names, o0, o1, o2, o3, o4, o5, o6, ...)                                          \
    NC_PRODUCT(nc_product_b, "bf16", n, names, o0, o1, o2, o3, o4, __VA_ARGS__)                         \
    NC_PRODUCT(nc_product_h, "f16", n, names, o0, o1, o2, o3, o4, __VA_ARGS__)                          \
    NC_LEFT_PRODUCT(nc_product_left_b, "bf16", n, names, o0, o1, o2, o3, o4, o5, o6, __VA_ARGS__)       \
    NC_LEFT_PRODUCT(nc_product_left_h, "f16", n, names, o0, o1, o2, o3, o4, o5, o6, __VA_ARGS__)
NC_PRODUCTS(16, NC_NAMES8, "%8", "%9", "%10", "%11", "%12", "%13", "%14", NC_REGS8(0))
NC_PRODUCTS(32, NC_NAMES16, "%16", "%17", "%18", "%19", "%20", "%21", "%22", NC_REGS8(0), NC_REGS8(8))
NC_PRODUCTS(48, NC_NAMES24, "%24", "%25", "%26", "%27", "%28", "%29", "%30", NC_REGS8(0), NC_REGS8(8), NC_REGS8(16))
NC_PRODUCTS(64, NC_NAMES32, "%32", "%33", "%34", "%35", "%36", "%37", "%38", NC_REGS32(0))
NC_PRODUCTS(80, NC_NAMES40, "%40", "%41", "%42", "%43", "%44", "%45", "%46", NC_REGS32(0), NC_REGS8(32))
NC_PRODUCTS(96, NC_NAMES48, "%48", "%49", "%50", "%51", "%52", "%53", "%54", NC_REGS32(0), NC_REGS8(32), NC_REGS8(40))
NC_PRODUCTS(112, NC_NAMES56, "%56", "%57", "%58", "%59", "%60", "%61", "%62", NC_REGS32(0), NC_REGS8(32), NC_REGS8(40), NC_REGS8(48))
NC_PRODUCTS(128, NC_NAMES64, "%64", "%65", "%66", "%67", "%68", "%69", "%70", NC_REGS64(0))
NC_PRODUCTS(144, NC_NAMES72, "%72", "%73", "%74", "%75", "%76", "%77", "%78", NC_REGS64(0), NC_REGS8(64))
NC_PRODUCTS(160, NC_NAMES80, "%80", "%81", "%82", "%83", "%84", "%85", "%86", NC_REGS64(0), NC_REGS8(64), NC_REGS8(72))
NC_PRODUCTS(176, NC_NAMES88, "%88", "%89", "%90", "%91", "%92", "%93", "%94", NC_REGS64(0), NC_REGS8(64), NC_REGS8(72), NC_REGS8(80))
NC_PRODUCTS(192, NC_NAMES96, "%96", "%97", "%98", "%99", "%100", "%101", "%102", NC_REGS96(0))
NC_PRODUCTS(208, NC_NAMES104, "%104", "%105", "%106", "%107", "%108", "%109", "%110", NC_REGS96(0), NC_REGS8(96))
NC_PRODUCTS(224, NC_NAMES112, "%112", "%113", "%114", "%115", "%116", "%117", "%118", NC_REGS96(0), NC_REGS8(96), NC_REGS8(104))
NC_PRODUCTS(240, NC_NAMES120, "%120", "%121", "%122", "%123", "%124", "%125", "%126", NC_REGS96(0), NC_REGS8(96), NC_REGS8(104), NC_REGS8(112))
NC_PRODUCTS(256, NC_NAMES128, "%128", "%129", "%130", "%131", "%132", "%133", "%134", NC_REGS96(0), NC_REGS32(96))
// One of two groups of four warps waits until the other passes the turn to it.
NC_FN void nc_turn_wait(int group) { asm volatile("bar.sync %0, 256;" : : "r"(1 + group) : "memory"); }
NC_FN void nc_turn_pass(int group) { asm volatile("bar.arrive %0, 256;" : : "r"(1 + group) : "memory"); }
// The 128 threads of a group wait for each other.
NC_FN void nc_group_wait(int group) { asm volatile("bar.sync %0, 128;" : : "r"(3 + group) : "memory"); }
// The 256 threads of both groups wait for each other. (Its barrier is not one of nc_turn_wait's, because
// one group may be here before the other has taken its last turn.)
NC_FN void nc_groups_wait() { asm volatile("bar.sync 5, 256;" : : : "memory"); }
// Whether any thread of the block votes yes; for one vote. Not __syncthreads_or or another barrier of the
// block, for which all warps must execute the same instruction: roles execute different code.
struct NcVote {
    uint64_t all; // mbarrier at which every thread arrives
    uint32_t any;
};
NC_FN void nc_vote_begin(NcVote *vote, int threads)
{
    nc_bar_init(&vote->all, threads);
    vote->any = 0;
}
NC_FN bool nc_any_role(NcVote *vote, bool is)
{
    if (is) atomicOr(&vote->any, 1u);
    nc_bar_tell(&vote->all, 0);
    nc_bar_hear(&vote->all, 0);
    return *(volatile uint32_t *)&vote->any;
}
// Makes this thread's writes to shared memory visible to products and bulk copies that are issued after
// it, by this thread or by threads that synchronise with it afterwards.
NC_FN void nc_fence_written() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }
// Four warps clear the first [columns] (less than 8) of Rows rows of an operand along k.
template <int Rows> NC_FN void nc_clear_before(const uint8_t *rows, int columns)
{
    const int row = threadIdx.x % 128;
    if (row < Rows)
        for (int i = 0; i < 4; i++) {
            const uint32_t left = columns <= 2 * i ? 0xffffffffu : columns == 2 * i + 1 ? 0xffff0000u : 0;
            asm volatile("red.shared.and.b32 [%0], %1;"
                         : : "r"(nc_shared_place(rows + row * 128 + row % 8 * 16 + i * 4)), "r"(left) : "memory");
        }
}
// Products are asynchronous. begin: before a product whose registers threads have used; end: after some
// products, commits them as a group; done<N>: waits until only the last N groups may be pending.
NC_FN void nc_products_begin() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
NC_FN void nc_products_end() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
template <int N> NC_FN void nc_products_done() { asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory"); }
// Keeps the compiler from moving uses of the sums of finished products above this.
template <int M, int N> NC_FN void nc_settled(float (&c)[M][N])
{
#pragma unroll
    for (int i = 0; i < M * N; i++) asm volatile("" : "+f"(c[i / N][i % N]) : : "memory");
}
// Scores and results of attention: the same registers in the shape of a product's sums.
template <int N> NC_FN float (&nc_flat(float (&c)[1][N][4]))[4 * N] { return *(float (*)[4 * N])c; }
template <int N> NC_FN void nc_settled(float (&c)[1][N][4])
{
#pragma unroll
    for (int i = 0; i < 4 * N; i++) asm volatile("" : "+f"(c[0][i / 4][i % 4]) : : "memory");
}
// Stores the sums of a group (64 M x 2 N) to rows in shared memory, Pitch apart.
template <int Pitch, int M, int N> NC_FN void nc_put_group(float *rows, const float (&c)[M][N])
{
    const int thread = threadIdx.x % 128;
    float *const to = rows + (thread / 32 * 16 + thread % 32 / 4) * Pitch + thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < M * N / 2; i++) {
        const int m = i / (N / 2), j = i % (N / 2);
        const NcVec<float, 2> pair = {c[m][2 * j], c[m][2 * j + 1]};
        nc_store<2>(to + (m * 64 + j % 2 * 8) * Pitch + j / 2 * 8, pair);
    }
}
// Stores 16 rows of 64 sums of a warp ([pairs] of each thread) to its part of shared memory; nc_of_part
// loads eight neighbours. Groups of eight are swizzled by the row, to avoid bank conflicts.
NC_FN void nc_put_part(float *part, const float *sums, int pairs)
{
    const int thread = threadIdx.x % 32, row = thread / 4;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        if (i >= pairs) continue; // the tile is narrower
        const NcVec<float, 2> pair = {sums[2 * i], sums[2 * i + 1]};
        nc_store<2>(part + (row + i % 2 * 8) * 64 + (i / 2 ^ row) * 8 + thread % 4 * 2, pair);
    }
}
NC_FN NcVec<float, 8> nc_of_part(const float *part, int row, int from)
{
    return nc_load<8>(part + row * 64 + (from ^ row % 8 * 8));
}
// Sums Rows rows of 64 elements, copied as boxes along k: 32 of their columns, as four pieces of eight.
// Thread 8 i + r passes the address of piece i of row r. Its sums are those of columns 8 j + t % 4 * 2
// and the next one (piece j) over every eighth row from t / 4 on; nc_sums_joined adds all rows'.
#define NC_SUM_ROWS(name, wide)                                                                       \
    template <int Rows> NC_FN void name(float (&sum)[8], uint32_t place)                              \
    {                                                                                                 \
        _Pragma("unroll") for (int row = 0; row < Rows; row += 64) {                                  \
            uint32_t x[8][4];                                                                         \
            _Pragma("unroll") for (int i = 0; i < 8; i++)                                             \
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"       \
                             : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])             \
                             : "r"(place + (row + i * 8) * 128) : "memory");                          \
            _Pragma("unroll") for (int i = 0; i < 8; i++)                                             \
                _Pragma("unroll") for (int j = 0; j < 4; j++) {                                       \
                    sum[2 * j] += wide((uint16_t)x[i][j]);                                            \
                    sum[2 * j + 1] += wide((uint16_t)(x[i][j] >> 16));                                \
                }                                                                                     \
        }                                                                                             \
    }
NC_SUM_ROWS(nc_sum_rows_b, nc_b2f)
NC_SUM_ROWS(nc_sum_rows_h, nc_h2f)
NC_FN void nc_sums_joined(float (&sum)[8])
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        for (int mask = 4; mask < 32; mask *= 2) sum[j] += nc_shuffle(sum[j], mask);
}
// Adds four sums of eight columns over the lanes that have the same columns, with Line lanes (4 or 8)
// per row; a lane keeps sum number lane / 8.
template <int Line>
NC_FN void nc_add_rows(float (&kept)[8], const float (&sum)[4][8], int lane)
{
    const bool high = lane & 16, odd = lane & 8;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float even_half = high ? sum[2][j] : sum[0][j], odd_half = high ? sum[3][j] : sum[1][j];
        even_half += nc_shuffle(high ? sum[0][j] : sum[2][j], 16);
        odd_half += nc_shuffle(high ? sum[1][j] : sum[3][j], 16);
        float all = (odd ? odd_half : even_half) + nc_shuffle(odd ? even_half : odd_half, 8);
        if (Line == 4) all += nc_shuffle(all, 4);
        kept[j] += all;
    }
}
// A lane's sums over rows of two neighbouring columns of results; rows: how many it has added.
struct NcTotals {
    NcRun<float> of[2];
    int rows;
};
// Adds those of 16 rows of a warp's box, of 64 columns, that are results. The rows are positions from
// [place] on, below [end]; of every Pitch positions the first Results are results. (Addresses are
// computed anew: there are too few registers to keep them from tile to tile.)
#define NC_ADD_BOX(name, widen)                                                                       \
    template <int Results, int Pitch>                                                                 \
    NC_FN void name(NcTotals &t, const uint16_t *box, int place, int end)                             \
    {                                                                                                 \
        int thread = threadIdx.x % 32;                                                                \
        asm volatile("" : "+r"(thread));                                                              \
        const int along = place % Pitch, before = t.rows;                                             \
        const int first = along < Results ? 0 : Pitch - along; /* the first result */                 \
        if (before == 0 && first < 16 && place + first < end)                                         \
            for (int j = 0; j < 2; j++)                                                               \
                t.of[j].pivot =                                                                       \
                    widen(box[first * 64 + (thread / 4 ^ first % 8) * 8 + thread % 4 * 2 + j]);       \
        _Pragma("unroll") for (int row = 0; row < 16; row++)                                          \
        {                                                                                             \
            const int at = along + row, in = Pitch < 16 ? at % Pitch : at < Pitch ? at : at - Pitch;  \
            const bool is = in < Results && place + row < end;                                        \
            const NcVec<uint16_t, 2> x =                                                              \
                nc_load<2>(box + row * 64 + (thread / 4 ^ row % 8) * 8 + thread % 4 * 2);             \
            t.rows += is;                                                                             \
            for (int j = 0; j < 2; j++) nc_add(t.of[j], is ? widen(x.at[j]) : t.of[j].pivot);         \
        }                                                                                             \
        if ((before ^ t.rows) <= before) return; /* goes on whenever the count has doubled */         \
        const float n = (float)t.rows, share = nc_share(1.0f, n);                                     \
        for (int j = 0; j < 2; j++) nc_settle(t.of[j], n, share);                                     \
    }
NC_ADD_BOX(nc_add_box_b, nc_b2f)
NC_ADD_BOX(nc_add_box_h, nc_h2f)
// An address in shared memory, computed anew here: there are too few registers to keep it.
NC_FN uint32_t nc_place_anew(const void *p)
{
    uint32_t place = nc_shared_place(p);
    asm volatile("" : "+r"(place));
    return place;
}
// The inverse of nc_matrices4: stores four matrices, each row Behind bytes after the address that a
// thread passes.
template <int Behind> NC_FN void nc_put_matrices4(uint32_t place, const uint32_t *r)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0 + %5], {%1, %2, %3, %4};"
                 : : "r"(place), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "n"(Behind) : "memory");
}
// Starts copying a box from shared memory to the map's matrix at column x, row y, without elements beyond
// its edges, after other threads have written the box and executed nc_fence_written. nc_boxes_end commits
// copies as a group; nc_boxes_read<N> waits until all groups but the last N have been read.
NC_FN void nc_write_box(const NcMap &map, const uint16_t *from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                 : : "l"(&map), "r"(nc_shared_place(from)), "r"(x), "r"(y) : "memory");
}
NC_FN void nc_boxes_end() { asm volatile("cp.async.bulk.commit_group;" : : : "memory"); }
template <int N> NC_FN void nc_boxes_read() { asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(N) : "memory"); }
