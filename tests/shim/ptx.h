// PTX instructions as functions, named after the instruction ('.' and ':' become '_'), with its
// operands in their order; rewrite.c calls them. An instruction without one does not compile: add
// it here.
typedef unsigned char ShimU8;
typedef unsigned short ShimU16;
typedef unsigned ShimU32;
typedef unsigned long long ShimU64;

// -- conversions
static inline float shim_half(ShimU16 h)
{
    ShimU32 w = (ShimU32)(h & 0x7fff) << 13;
    float f = __uint_as_float(w) * 0x1p112f;
    ShimU32 u = __float_as_uint(f) | ((h & 0x7fff) >= 0x7c00 ? 0x7f800000u : 0);
    return __uint_as_float(u | (ShimU32)(h & 0x8000) << 16);
}
static inline ShimU16 shim_to_half(float a)
{
    ShimU32 u = __float_as_uint(a), x = u & 0x7fffffffu;
    ShimU32 tiny = __float_as_uint(__uint_as_float(x) + 0.5f) - 0x3f000000u;
    ShimU32 normal = (x + 0xc8000fffu + (x >> 13 & 1)) >> 13;
    ShimU32 big = x > 0x7f800000u ? 0x7fffu : 0x7c00u;
    ShimU32 h = x >= 0x47800000u ? big : x < 0x38800000u ? tiny : normal;
    return (ShimU16)(h | (u >> 16 & 0x8000u));
}
static inline float shim_brain(ShimU16 h)
{
    return __uint_as_float((ShimU32)h << 16);
}
static inline ShimU16 shim_to_brain(float a)
{
    ShimU32 u = __float_as_uint(a), r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    return (ShimU16)(a != a ? 0x7fffu : r);
}
#define ptx_cvt_f32_f16(d, a)           ((d) = shim_half(a))
#define ptx_cvt_rn_f16_f32(d, a)        ((d) = shim_to_half(a))
#define ptx_cvt_f32_bf16(d, a)          ((d) = shim_brain(a))
#define ptx_cvt_rn_bf16_f32(d, a)       ((d) = shim_to_brain(a))
#define ptx_cvt_rn_f16x2_f32(d, hi, lo) ((d) = (ShimU32)shim_to_half(hi) << 16 | shim_to_half(lo))
#define ptx_cvt_rn_bf16x2_f32(d, hi, lo)                                                           \
    ((d) = (ShimU32)shim_to_brain(hi) << 16 | shim_to_brain(lo))
static inline ShimU32 shim_to_tf32(float a) // to nearest, ties to even
{
    ShimU32 u = __float_as_uint(a);
    return a != a ? 0x7fffe000u : (u + 0xfffu + (u >> 13 & 1)) & 0xffffe000u;
}
#define ptx_cvt_rn_tf32_f32(d, a)  ((d) = shim_to_tf32(a))
#define ptx_cvt_rna_tf32_f32(d, a) ((d) = (__float_as_uint(a) + 0x1000u) & 0xffffe000u)

// -- fast math
#define ptx_ex2_approx_ftz_f32(d, a)   ((d) = exp2f(a))
#define ptx_ex2_approx_f32(d, a)       ((d) = exp2f(a))
#define ptx_lg2_approx_ftz_f32(d, a)   ((d) = log2f(a))
#define ptx_lg2_approx_f32(d, a)       ((d) = log2f(a))
#define ptx_rcp_approx_ftz_f32(d, a)   ((d) = 1 / (a))
#define ptx_rcp_approx_f32(d, a)       ((d) = 1 / (a))
#define ptx_rsqrt_approx_f32(d, a)     ((d) = 1 / sqrtf(a))
#define ptx_rsqrt_approx_ftz_f32(d, a) ((d) = 1 / sqrtf(a))
#define ptx_sqrt_approx_f32(d, a)      ((d) = sqrtf(a))
#define ptx_sqrt_approx_ftz_f32(d, a)  ((d) = sqrtf(a))
#define ptx_tanh_approx_f32(d, a)      ((d) = tanhf(a))
#define ptx_div_approx_f32(d, a, b)    ((d) = (a) / (b))
#define ptx_div_full_f32(d, a, b)      ((d) = (a) / (b))
#define ptx_min_f32(d, a, b)           ((d) = fminf(a, b))
#define ptx_max_f32(d, a, b)           ((d) = fmaxf(a, b))
#define ptx_min_NaN_f32(d, a, b)       ((d) = (a) != (a) || (b) != (b) ? __builtin_nanf("") : fminf(a, b))
#define ptx_max_NaN_f32(d, a, b)       ((d) = (a) != (a) || (b) != (b) ? __builtin_nanf("") : fmaxf(a, b))

// -- moves and logic
#define ptx_mov_u32(d, a)            ((d) = (a))
#define ptx_mov_b32(d, a)            ((d) = (a))
#define ptx_mov_u64(d, a)            ((d) = (a))
#define ptx_mov_b64(d, a)            ((d) = (a))
#define ptx_selp_u32(d, a, b, p)     ((d) = (p) ? (a) : (b))
#define ptx_selp_b32(d, a, b, p)     ((d) = (p) ? (a) : (b))
#define ptx_setp_ne_b32(p, a, b)     ((p) = (a) != (b))
#define ptx_setp_ne_u32(p, a, b)     ((p) = (a) != (b))
#define ptx_setp_eq_u32(p, a, b)     ((p) = (a) == (b))
#define ptx_cvta_to_shared_u64(d, a) ((d) = shim_shared_number((const void *)(a)))
#define SREG_cluster_ctarank         shim_cluster_rank()
#define SREG_cluster_nctarank        shim_cluster_size()
#define SREG_cluster_nctaid_x        shim_cluster_size()
#define SREG_cluster_ctaid_x         shim_cluster_rank()
#define SREG_nctaid_x                gridDim.x
#define SREG_laneid                  shim_lane()

// -- barriers
#define ptx_bar_sync(number, ...) shim_sync_some(number, shim_count(__VA_ARGS__), __LINE__, true)
#define ptx_barrier_sync(number, ...)                                                              \
    shim_sync_some(number, shim_count(__VA_ARGS__), __LINE__, true)
#define ptx_bar_arrive(number, n)                    shim_sync_some(number, n, __LINE__, false)
#define ptx_barrier_cluster_arrive()                 shim_cluster_arrive()
#define ptx_barrier_cluster_wait()                   shim_cluster_wait()
#define ptx_barrier_cluster_arrive_aligned()         shim_cluster_arrive()
#define ptx_barrier_cluster_arrive_release()         shim_cluster_arrive()
#define ptx_barrier_cluster_arrive_relaxed()         shim_cluster_arrive()
#define ptx_barrier_cluster_arrive_release_aligned() shim_cluster_arrive()
#define ptx_barrier_cluster_wait_aligned()           shim_cluster_wait()
#define ptx_barrier_cluster_wait_acquire()           shim_cluster_wait()
#define ptx_barrier_cluster_wait_acquire_aligned()   shim_cluster_wait()
static inline int shim_count(int n = -1)
{
    return n < 0 ? (int)(blockDim.x * blockDim.y * blockDim.z) : n;
}
#define ptx_fence_acq_rel_gpu()     shim_fence()
#define ptx_fence_acq_rel_cluster() shim_fence()
#define ptx_fence_sc_gpu()          shim_fence()
#define ptx_membar_gl()             shim_fence()
#define ptx_membar_cta()            shim_fence()
#define ptx_nanosleep_u32(n)        shim_pause()
#define ptx_trap()                  shim_trap("trap")
#define ptx_griddepcontrol_wait()   shim_follow()
#define ptx_griddepcontrol_launch_dependents()

// -- memory: addresses are integers or pointers
template <class T, class P> static inline T &shim_at(P p)
{
    return *(T *)(uintptr_t)p;
}
template <class T, class P> static inline T &shim_shared_ref(P p)
{
    return *(T *)shim_shared_at((unsigned)(uintptr_t)p);
}
#define ptx_mapa_shared__cluster_u32(d, a, rank)                                                   \
    ((d) = shim_shared_number(shim_cluster_map(shim_shared_at((unsigned)(a)), rank)))
#define ptx_mapa_u64(d, a, rank)         ((d) = (ShimU64)shim_cluster_map((void *)(uintptr_t)(a), rank))
#define ptx_ld_shared__cluster_f32(d, a) ((d) = shim_shared_ref<float>(a))
#define ptx_ld_shared__cluster_f64(d, a) ((d) = shim_shared_ref<double>(a))
#define ptx_ld_shared__cluster_u32(d, a) ((d) = shim_shared_ref<ShimU32>(a))
#define ptx_ld_shared__cluster_b32(d, a) ((d) = shim_shared_ref<ShimU32>(a))
#define ptx_ld_shared__cluster_u64(d, a) ((d) = shim_shared_ref<ShimU64>(a))
#define ptx_ld_shared__cluster_b64(d, a) ((d) = shim_shared_ref<ShimU64>(a))
#define ptx_st_shared__cluster_f32(a, v) (shim_shared_ref<float>(a) = (v))
#define ptx_st_shared__cluster_f64(a, v) (shim_shared_ref<double>(a) = (v))
#define ptx_st_shared__cluster_u32(a, v) (shim_shared_ref<ShimU32>(a) = (v))
#define ptx_st_shared__cluster_b32(a, v) (shim_shared_ref<ShimU32>(a) = (v))
#define ptx_st_shared__cluster_u64(a, v) (shim_shared_ref<ShimU64>(a) = (v))
#define ptx_st_shared__cluster_b64(a, v) (shim_shared_ref<ShimU64>(a) = (v))
template <class A, class P> static inline void shim_ld4(A &a, A &b, A &c, A &d, P p)
{
    uint4 v = shim_at<uint4>(p);
    a = shim_bits<A>(v.x), b = shim_bits<A>(v.y), c = shim_bits<A>(v.z), d = shim_bits<A>(v.w);
}
template <class A, class P> static inline void shim_st4(P p, A a, A b, A c, A d)
{
    uint4 v = {shim_bits<ShimU32>(a), shim_bits<ShimU32>(b), shim_bits<ShimU32>(c),
               shim_bits<ShimU32>(d)};
    shim_at<uint4>(p) = v;
}
template <class A, class P> static inline void shim_ld2(A &a, A &b, P p)
{
    uint2 v = shim_at<uint2>(p);
    a = shim_bits<A>(v.x), b = shim_bits<A>(v.y);
}
#define ptx_ld_global_nc_L1__no_allocate_v4_u32                    shim_ld4
#define ptx_ld_global_nc_L1__no_allocate_v4_b32                    shim_ld4
#define ptx_ld_global_nc_L1__no_allocate_v4_f32                    shim_ld4
#define ptx_ld_global_nc_L1__no_allocate_v2_u32                    shim_ld2
#define ptx_ld_global_nc_v4_u32                                    shim_ld4
#define ptx_ld_global_nc_v4_f32                                    shim_ld4
#define ptx_ld_global_cs_v4_u32                                    shim_ld4
#define ptx_ld_global_cg_v4_u32                                    shim_ld4
#define ptx_ld_global_v4_u32                                       shim_ld4
#define ptx_ld_global_v4_f32                                       shim_ld4
#define ptx_ld_global_v2_u32                                       shim_ld2
#define ptx_st_global_v4_u32                                       shim_st4
#define ptx_st_global_cs_v4_u32                                    shim_st4
#define ptx_st_global_L1__no_allocate_v4_u32                       shim_st4
#define ptx_createpolicy_fractional_L2__evict_last_b64(d, share)   ((d) = 0)
#define ptx_ld_global_L2__cache_hint_v4_u32(a, b, c, d, p, policy) shim_ld4(a, b, c, d, p)
#define ptx_ld_global_L2__cache_hint_v2_u32(a, b, p, policy)       shim_ld2(a, b, p)
#define ptx_ld_acquire_gpu_u32(d, p)                                                               \
    ((d) = (ShimU32)shim_atomic((void *)(uintptr_t)(p), 4, 'r', 0, 0))
#define ptx_ld_acquire_gpu_b32                   ptx_ld_acquire_gpu_u32
#define ptx_ld_acquire_gpu_global_u32            ptx_ld_acquire_gpu_u32
#define ptx_ld_global_acquire_gpu_u32            ptx_ld_acquire_gpu_u32
#define ptx_ld_volatile_global_u32               ptx_ld_acquire_gpu_u32
#define ptx_ld_relaxed_gpu_global_u32            ptx_ld_acquire_gpu_u32
#define ptx_st_release_gpu_u32(p, v)             shim_atomic((void *)(uintptr_t)(p), 4, 'w', v, 0)
#define ptx_st_release_gpu_global_u32            ptx_st_release_gpu_u32
#define ptx_st_global_release_gpu_u32            ptx_st_release_gpu_u32
#define ptx_red_release_gpu_global_add_u32(p, v) shim_atomic((void *)(uintptr_t)(p), 4, '+', v, 0)
#define ptx_red_release_gpu_add_u32              ptx_red_release_gpu_global_add_u32
#define ptx_red_add_release_gpu_global_u32       ptx_red_release_gpu_global_add_u32
#define ptx_atom_add_release_gpu_global_u32(d, p, v)                                               \
    ((d) = (ShimU32)shim_atomic((void *)(uintptr_t)(p), 4, '+', v, 0))
#define ptx_atom_add_acq_rel_gpu_global_u32 ptx_atom_add_release_gpu_global_u32
#define ptx_atom_acq_rel_gpu_global_add_u32 ptx_atom_add_release_gpu_global_u32
#define ptx_atom_add_acq_rel_gpu_u32        ptx_atom_add_release_gpu_global_u32

// -- asynchronous instructions take effect where something waits for them (late.h), or at once
#include "late.h"
static inline void shim_late_wait(int kind, int but)
{
    ShimLate e;
    while (shim_late && shim_late_due(kind, but, &e)) e.run(&e);
}

// -- copies to shared memory
static inline void shim_async_now(const ShimLate *e)
{
    char *d = (char *)e->p;
    if (shim_late) shim_came(d, (ShimU64)e->n);
    for (int i = 0; i < e->n; i += 4) {
        ShimU32 v = e->add < 0 || i < e->add ? *(const ShimU32 *)(e->a + (ShimU64)i) : 0;
        *(ShimU32 *)(d + i) = v;
    }
}
static inline void shim_async(unsigned to, ShimU64 from, int bytes, int given = -1)
{
    ShimLate e = {};
    e.p = shim_shared_at(to), e.a = from, e.n = bytes, e.add = given;
    e.run = shim_async_now;
    if (shim_late) {
        shim_coming(e.p, (ShimU64)bytes, 1);
        shim_late_add(LATE_COPIES, &e);
    } else {
        shim_async_now(&e);
    }
}
#define ptx_cp_async_cg_shared_global(to, from, ...) shim_async(to, (ShimU64)(from), __VA_ARGS__)
#define ptx_cp_async_ca_shared_global(to, from, ...) shim_async(to, (ShimU64)(from), __VA_ARGS__)
#define ptx_cp_async_cg_shared_global_L2__128B       ptx_cp_async_cg_shared_global
#define ptx_cp_async_commit_group()                  shim_late_commit(LATE_COPIES)
#define ptx_cp_async_wait_group(n)                   shim_late_wait(LATE_COPIES, n)
#define ptx_cp_async_wait_all()                      (shim_late_commit(LATE_COPIES), shim_late_wait(LATE_COPIES, 0))

// -- matrix products of a warp
#include "matrix.h"
template <int Kind>
static __attribute__((no_sanitize("thread"))) float4
shim_mma(ShimU32 a0, ShimU32 a1, ShimU32 a2, ShimU32 a3, ShimU32 b0, ShimU32 b1, float c0, float c1,
         float c2, float c3)
{
    ShimU32 a[] = {a0, a1, a2, a3}, b[] = {b0, b1};
    float d[] = {c0, c1, c2, c3};
    shim_matrix(d, a, b, Kind);
    return make_float4(d[0], d[1], d[2], d[3]);
}
#define SHIM_MMA(kind, d0, d1, d2, d3, ...)                                                        \
    do {                                                                                           \
        float4 shim_d = shim_mma<kind>(__VA_ARGS__);                                               \
        d0 = shim_d.x, d1 = shim_d.y, d2 = shim_d.z, d3 = shim_d.w;                                \
    } while (0)
#define ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(...) SHIM_MMA(SHIM_HALF, __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(...)                               \
    SHIM_MMA(SHIM_BRAIN, __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32(...) SHIM_MMA(SHIM_TF32, __VA_ARGS__)
static inline void shim_ldmatrix(ShimU32 *d, int n, bool turned, unsigned address)
{
    int lane = shim_lane();
    const ShimU64 *rows = shim_shuffle_all(0xffffffffu, address);
    for (int m = 0; m < n; m++) {
        // row r of matrix m begins at the address that lane 8 m + r gives
        if (turned) {
            ShimU32 v = 0;
            for (int h = 0; h < 2; h++) {
                const char *row = (char *)shim_shared_at((unsigned)rows[m * 8 + lane % 4 * 2 + h]);
                v |= (ShimU32) * (const ShimU16 *)(row + lane / 4 * 2) << 16 * h;
            }
            d[m] = v;
        } else {
            const char *row = (char *)shim_shared_at((unsigned)rows[m * 8 + lane / 4]);
            d[m] = *(const ShimU32 *)(row + lane % 4 * 4);
        }
    }
}
#define SHIM_LDMATRIX(name, turned)                                                                \
    static inline void name##_x4_##turned(ShimU32 &a, ShimU32 &b, ShimU32 &c, ShimU32 &d,          \
                                          unsigned p)                                              \
    {                                                                                              \
        ShimU32 v[4];                                                                              \
        shim_ldmatrix(v, 4, turned, p);                                                            \
        a = v[0], b = v[1], c = v[2], d = v[3];                                                    \
    }                                                                                              \
    static inline void name##_x2_##turned(ShimU32 &a, ShimU32 &b, unsigned p)                      \
    {                                                                                              \
        ShimU32 v[2];                                                                              \
        shim_ldmatrix(v, 2, turned, p);                                                            \
        a = v[0], b = v[1];                                                                        \
    }
SHIM_LDMATRIX(shim_ldm, false)
SHIM_LDMATRIX(shim_ldm, true)
#define ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16       shim_ldm_x4_false
#define ptx_ldmatrix_sync_aligned_m8n8_x2_shared_b16       shim_ldm_x2_false
#define ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16 shim_ldm_x4_true
#define ptx_ldmatrix_sync_aligned_m8n8_x2_trans_shared_b16 shim_ldm_x2_true
static inline void shim_stmatrix(unsigned address, ShimU32 a, ShimU32 b, ShimU32 c, ShimU32 d)
{
    const ShimU32 v[] = {a, b, c, d};
    int lane = shim_lane();
    for (int m = 0; m < 4; m++) {
        unsigned row = __shfl_sync(0xffffffffu, address, m * 8 + lane / 4);
        if (row % 16) shim_trap("a row of stmatrix that is not aligned");
        *(ShimU32 *)((char *)shim_shared_at(row) + lane % 4 * 4) = v[m];
    }
}
#define ptx_stmatrix_sync_aligned_m8n8_x4_shared_b16            shim_stmatrix
#define ptx_ldmatrix_sync_aligned_m8n8_x4_shared__cta_b16       shim_ldm_x4_false
#define ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared__cta_b16 shim_ldm_x4_true

// -- barriers that also count bytes: a word in shared memory, 8 bits phase, 12 bits arrivals of a
// phase, 12 bits still missing, 32 bits bytes still missing
static __attribute__((no_sanitize("thread"))) void shim_bar_count(unsigned at, int arrivals,
                                                                  long long bytes)
{
    ShimU64 *bar = (ShimU64 *)shim_shared_at(at), v = *bar;
    unsigned phase = (unsigned)(v & 255), all = (unsigned)(v >> 8 & 4095);
    int missing = (int)(v >> 20 & 4095) - arrivals;
    int wanted = (int)(ShimU32)(v >> 32) + (int)bytes;
    if (missing < 0) shim_trap("more arrive at an mbarrier than it was made for");
    if (!missing && !wanted) phase = (phase + 1) & 255, missing = (int)all;
    v = (ShimU64)(ShimU32)wanted << 32 | (ShimU64)missing << 20 | (ShimU64)all << 8 | phase;
    shim_atomic(bar, 8, 'w', v, 0);
}
static inline bool shim_bar_ended(unsigned at, int parity)
{
    ShimLate e;
    if (shim_late && (int)(*(volatile unsigned char *)shim_shared_at(at) & 1) == parity &&
        shim_late_box_due(at, &e))
        e.run(&e);
    return (int)(shim_atomic(shim_shared_at(at), 8, 'r', 0, 0) & 1) != parity;
}
#define ptx_mbarrier_init_shared__cta_b64(at, n)                                                   \
    shim_atomic(shim_shared_at(at), 8, 'w', (ShimU64)(n) << 20 | (ShimU64)(n) << 8, 0)
// Others may see it before the thread does anything else.
static inline void shim_bar_arrive(unsigned at)
{
    shim_bar_count(at, 1, 0);
    if (shim_late) shim_pause();
}
#define ptx_mbarrier_arrive_shared__cta_b64(state, at)                     shim_bar_arrive(at)
#define ptx_mbarrier_arrive_shared__cluster_b64(state, at)                 shim_bar_arrive(at)
#define ptx_mbarrier_arrive_release_cluster_shared__cluster_b64(state, at) shim_bar_arrive(at)
#define ptx_mbarrier_arrive_expect_tx_shared__cta_b64(state, at, bytes)    shim_bar_count(at, 1, bytes)
#define ptx_mbarrier_try_wait_parity_shared__cta_b64(done, at, parity)                             \
    ((done) = shim_bar_ended(at, parity))
#define ptx_mbarrier_try_wait_parity_acquire_cluster_shared__cta_b64(done, at, parity)             \
    ((done) = shim_bar_ended(at, parity))
#define ptx_fence_mbarrier_init_release_cluster()
#define ptx_setmaxnreg_dec_sync_aligned_u32(n)
#define ptx_setmaxnreg_inc_sync_aligned_u32(n)

// -- bulk copies of boxes. Byte b of a 128-byte row is where tensor cores look for it: its 16-byte
// piece exchanged by the row's number.
static inline unsigned shim_turned(unsigned at)
{
    return at ^ (at >> 7 & 7) << 4;
}
// memory.c: shared memory that they have filled; no thread wrote it, so that none races with it.
extern "C" void shim_bulk_place(void *p, size_t bytes);
// In the block it comes to.
static __attribute__((no_sanitize("thread"))) void shim_box_now(const ShimLate *e)
{
    const ShimU64 *m = e->map;
    for (unsigned r = 0; r < m[5]; r++) {
        for (unsigned c = 0; c < m[4]; c++) {
            ShimU64 x = (ShimU64)(long long)(e->x + (int)c),
                    y = (ShimU64)(long long)(e->y +
                                             (int)r); // before the first is far beyond the last
            *(ShimU16 *)shim_shared_at(shim_turned(e->place + r * 128 + c * 2)) =
                x < m[1] && y < m[2] ? *(const ShimU16 *)(m[0] + y * m[3] + x * 2) : 0;
        }
        shim_bulk_place(shim_shared_at(e->place + r * 128), 128);
    }
    shim_bar_count(e->bar, 0, -(long long)(m[4] * m[5] * 2));
}
static __attribute__((no_sanitize("thread"))) void shim_box(unsigned blocks, unsigned to,
                                                            ShimU64 map, int x, int y, unsigned bar,
                                                            int p = 0, int q = 0)
{
    ShimLate e = {};
    const ShimU64 *m = (const ShimU64 *)map;
    e.x = x, e.y = y, e.run = shim_box_now;
    for (int i = 0; i < 6; i++) e.map[i] = m[i];
    if (m[15]) shim_trap("a box of a map of windows");
    if (p < 0 || q < 0 || (ShimU64)p >= m[6] || (ShimU64)q >= m[7])
        shim_trap("a box of no plane of its map"); // (zeros on a device)
    e.map[0] += (ShimU64)p * m[8] + (ShimU64)q * m[9];
    if (to % 1024) shim_trap("a bulk copy to a place that is no multiple of 1024");
    for (unsigned block = 0; block < shim_cluster_size(); block++) {
        if (!(blocks >> block & 1)) continue;
        char *p = (char *)shim_shared_at(to), *b = (char *)shim_shared_at(bar);
        if (block != shim_cluster_rank())
            p = (char *)shim_cluster_map(p, block), b = (char *)shim_cluster_map(b, block);
        e.place = shim_shared_number(p), e.bar = shim_shared_number(b);
        if (!shim_late) {
            shim_box_now(&e);
            continue;
        }
        shim_coming(p, e.map[5] * 128, 0);
        shim_late_box(block, &e);
    }
}
#define ptx_cp_async_bulk_tensor_2d_shared__cluster_global_mbarrier__complete_tx__bytes(to, map,   \
                                                                                        x, y, bar) \
    shim_box(1u << shim_cluster_rank(), to, (ShimU64)(map), x, y, bar)
#define ptx_cp_async_bulk_tensor_2d_shared__cluster_global_mbarrier__complete_tx__bytes_multicast__cluster( \
    to, map, x, y, bar, blocks)                                                                             \
    shim_box(blocks, to, (ShimU64)(map), x, y, bar)

#define ptx_cp_async_bulk_tensor_4d_shared__cluster_global_mbarrier__complete_tx__bytes(           \
    to, map, x, y, p, q, bar)                                                                      \
    shim_box(1u << shim_cluster_rank(), to, (ShimU64)(map), x, y, bar, p, q)

// Windows in images of two axes or three: a row is a pixel of the next window, which begins one
// step further on, at the first place of the next line behind the last one, of the next plane, and
// so on; zero outside of the image.
struct ShimAxis { // of a map's images
    long long size, pitch, first, last, step;
};
static inline int shim_axes(const ShimU64 *m, ShimAxis *axis)
{
    const int n = (int)m[15];
    for (int i = 0; i < n; i++) {
        const long long where = (long long)m[10 + i];
        axis[i] = {(long long)(i ? m[5 + i] : m[2]), (long long)(i ? m[7 + i] : m[3]),
                   where << 40 >> 40, where << 16 >> 40, where >> 48};
    }
    return n;
}
// The first window begins at e->y, the halves of e->a, of image e->n; e->b, 16 bits an axis, says
// how much further on its pixel is.
static __attribute__((no_sanitize("thread"))) void shim_windows_now(const ShimLate *e)
{
    const ShimU64 *m = e->map;
    ShimAxis axis[3];
    const int axes = shim_axes(m, axis);
    long long at[3] = {e->y, (int)e->a, (int)(e->a >> 32)}, n = e->n;
    const ShimU64 images = m[axes == 3 ? 13 : 7], pitch = m[axes == 3 ? 14 : 9];
    for (unsigned r = 0; r < m[5]; r++) {
        bool in = (ShimU64)n < images;
        ShimU64 from = m[0] + (ShimU64)n * pitch;
        for (int i = 0; i < axes; i++) {
            const long long pixel = at[i] + (int)(e->b >> 16 * i & 0xffff);
            in &= pixel >= 0 && pixel < axis[i].size;
            from += (ShimU64)(pixel * axis[i].pitch);
        }
        for (unsigned c = 0; c < m[4]; c++) {
            ShimU64 channel = (ShimU64)(long long)(e->x + (int)c);
            *(ShimU16 *)shim_shared_at(shim_turned(e->place + r * 128 + c * 2)) =
                in && channel < m[1] ? *(const ShimU16 *)(from + channel * 2) : 0;
        }
        shim_bulk_place(shim_shared_at(e->place + r * 128), 128);
        int i = 0;
        for (; i < axes && (at[i] += axis[i].step) > axis[i].last; i++) at[i] = axis[i].first;
        n += i == axes;
    }
    shim_bar_count(e->bar, 0, -(long long)(m[4] * m[5] * 2));
}
static __attribute__((no_sanitize("thread"))) void shim_windows(unsigned to, ShimU64 map, int axes,
                                                                int c, const int *at, int n,
                                                                unsigned bar, const int *further)
{
    ShimLate e = {};
    const ShimU64 *m = (const ShimU64 *)map;
    ShimAxis axis[3];
    if ((int)m[15] != axes || shim_axes(m, axis) != axes)
        shim_trap("a copy of windows of a map of other dimensions");
    for (int i = 0; i < axes; i++) {
        if (!axis[i].step || at[i] < axis[i].first || at[i] > axis[i].last ||
            (at[i] - axis[i].first) % axis[i].step)
            shim_trap("a copy of windows that begins where none does");
        if (further[i] < 0 || further[i] > (axes == 3 ? 31 : 255))
            shim_trap("a copy of windows beyond what it can say");
        e.b |= (ShimU64)further[i] << 16 * i;
    }
    if (n < 0 || c < 0) shim_trap("a copy of windows beyond what it can say");
    if (to % 1024) shim_trap("a bulk copy to a place that is no multiple of 1024");
    for (int i = 0; i < 16; i++) e.map[i] = m[i];
    e.x = c, e.y = at[0], e.n = n, e.run = shim_windows_now;
    e.a = (ShimU32)at[1] | (ShimU64)(ShimU32)(axes == 3 ? at[2] : 0) << 32;
    char *p = (char *)shim_shared_at(to), *b = (char *)shim_shared_at(bar);
    e.place = shim_shared_number(p), e.bar = shim_shared_number(b);
    if (!shim_late) {
        shim_windows_now(&e);
        return;
    }
    shim_coming(p, e.map[5] * 128, 0);
    shim_late_box(shim_cluster_rank(), &e);
}
static inline void shim_windows2(unsigned to, ShimU64 map, int c, int x, int y, int n, unsigned bar,
                                 int right, int down)
{
    const int at[2] = {x, y}, further[2] = {right, down};
    shim_windows(to, map, 2, c, at, n, bar, further);
}
static inline void shim_windows3(unsigned to, ShimU64 map, int c, int x, int y, int z, int n,
                                 unsigned bar, int right, int down, int deeper)
{
    const int at[3] = {x, y, z}, further[3] = {right, down, deeper};
    shim_windows(to, map, 3, c, at, n, bar, further);
}
#define ptx_cp_async_bulk_tensor_4d_shared__cluster_global_im2col_mbarrier__complete_tx__bytes(    \
    to, map, c, x, y, n, bar, right, down)                                                         \
    shim_windows2(to, (ShimU64)(map), c, x, y, n, bar, right, down)
#define ptx_cp_async_bulk_tensor_5d_shared__cluster_global_im2col_mbarrier__complete_tx__bytes(    \
    to, map, c, x, y, z, n, bar, right, down, deeper)                                              \
    shim_windows3(to, (ShimU64)(map), c, x, y, z, n, bar, right, down, deeper)

// What bulk copies have written may be cleared before it is multiplied.
static __attribute__((no_sanitize("thread"))) void shim_clear(unsigned at, ShimU32 left)
{
    if (shim_late) shim_thread_wrote(shim_shared_at(at));
    *(ShimU32 *)shim_shared_at(at) &= left;
}
#define ptx_red_shared_and_b32(at, left) shim_clear(at, left)

// What the box in shared memory consists of: each of its 16-byte pieces, for which it is asked.
static inline void shim_box_pieces(const ShimLate *e, void (*what)(void *, ShimU64))
{
    for (unsigned r = 0; r < e->map[5]; r++)
        for (unsigned c = 0; c < e->map[4]; c += 8)
            what(shim_shared_at(shim_turned(e->place + r * 128 + c * 2)), 16);
}
static inline void shim_box_out_now(const ShimLate *e)
{
    const ShimU64 *m = e->map;
    if (shim_late) shim_box_pieces(e, shim_left);
    for (unsigned r = 0; r < m[5]; r++)
        for (unsigned c = 0; c < m[4]; c++)
            if ((ShimU64)(e->x + (int)c) < m[1] && (ShimU64)(e->y + (int)r) < m[2])
                *(ShimU16 *)(m[0] + (ShimU64)(e->y + (int)r) * m[3] +
                             (ShimU64)(e->x + (int)c) * 2) =
                    *(const ShimU16 *)shim_shared_at(shim_turned(e->place + r * 128 + c * 2));
}
static inline void shim_box_out(ShimU64 map, int x, int y, unsigned from)
{
    ShimLate e = {};
    e.x = x, e.y = y, e.place = from, e.run = shim_box_out_now;
    for (int i = 0; i < 6; i++) e.map[i] = ((const ShimU64 *)map)[i];
    if (from % 128) shim_trap("a bulk copy from a place that is no multiple of 128");
    if (!shim_late) {
        shim_box_out_now(&e);
        return;
    }
    shim_box_pieces(&e, [](void *p, ShimU64 n) { shim_proxy_reads(p, n); });
    shim_box_pieces(&e, shim_leaving);
    shim_late_add(LATE_BOXES, &e);
}
#define ptx_fence_proxy_async_shared__cta() shim_proxy_fence()
#define ptx_cp_async_bulk_tensor_2d_global_shared__cta_bulk_group(map, x, y, from)                 \
    shim_box_out((ShimU64)(map), x, y, from)
#define ptx_cp_async_bulk_commit_group()     shim_late_commit(LATE_BOXES)
#define ptx_cp_async_bulk_wait_group_read(n) shim_late_wait(LATE_BOXES, n)

// -- products of four warps, each thread its own sums
template <int N, int Kind, class... A>
static __attribute__((no_sanitize("thread"))) void shim_product(A &&...a)
{
    // N / 2 sums; two operands, or four registers and one; whether to add, 1, 1, operands' kinds
    void *const at[] = {(void *)&a...}, *const *in = at + N / 2;
    const bool registers = sizeof...(A) == N / 2 + 9;
    ShimLate e = {};
    for (int i = 0; i < N / 2; i++)
        if ((float *)at[i] != (float *)at[0] + i) shim_trap("sums of a product that are no array");
    e.p = at[0], e.n = N, e.kind = Kind;
    if (registers) {
        for (int r = 0; r < 4; r++) e.map[1 + r / 2] |= (ShimU64) * (ShimU32 *)in[r] << r % 2 * 32;
        e.b = *(ShimU64 *)in[4], e.add = *(bool *)in[5], e.k[1] = *(int *)in[8];
        e.run = shim_left_product_now;
    } else {
        e.a = *(ShimU64 *)in[0], e.b = *(ShimU64 *)in[1], e.add = *(bool *)in[2];
        e.k[0] = *(int *)in[5], e.k[1] = *(int *)in[6];
        e.run = shim_product_now;
    }
    if (shim_late)
        shim_late_add(LATE_PRODUCTS, &e);
    else
        e.run(&e);
}
#define SHIM_PRODUCT(n, type, kind)                                                                \
    template <class... A>                                                                          \
    static inline void ptx_wgmma_mma_async_sync_aligned_m64n##n##k16_f32_##type##_##type(A &&...a) \
    {                                                                                              \
        shim_product<n, kind>(a...);                                                               \
    }
#define SHIM_PRODUCTS(type, kind)                                                                  \
    SHIM_PRODUCT(16, type, kind)                                                                   \
    SHIM_PRODUCT(32, type, kind)                                                                   \
    SHIM_PRODUCT(48, type, kind)                                                                   \
    SHIM_PRODUCT(64, type, kind)                                                                   \
    SHIM_PRODUCT(80, type, kind)                                                                   \
    SHIM_PRODUCT(96, type, kind)                                                                   \
    SHIM_PRODUCT(112, type, kind)                                                                  \
    SHIM_PRODUCT(128, type, kind)                                                                  \
    SHIM_PRODUCT(144, type, kind)                                                                  \
    SHIM_PRODUCT(160, type, kind)                                                                  \
    SHIM_PRODUCT(176, type, kind)                                                                  \
    SHIM_PRODUCT(192, type, kind)                                                                  \
    SHIM_PRODUCT(208, type, kind)                                                                  \
    SHIM_PRODUCT(224, type, kind)                                                                  \
    SHIM_PRODUCT(240, type, kind)                                                                  \
    SHIM_PRODUCT(256, type, kind)
SHIM_PRODUCTS(bf16, SHIM_BRAIN)
SHIM_PRODUCTS(f16, SHIM_HALF)
#define ptx_wgmma_fence_sync_aligned()        shim_late_fence()
#define ptx_wgmma_commit_group_sync_aligned() shim_late_commit(LATE_PRODUCTS)
// (the lanes of a warp wait together: none goes on while another still multiplies)
#define ptx_wgmma_wait_group_sync_aligned(n)                                                       \
    (shim_late_wait(LATE_PRODUCTS, n), (void)shim_vote(0xffffffffu, true))
