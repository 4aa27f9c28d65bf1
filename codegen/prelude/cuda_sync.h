
// The wait of a kernel that is launched early (programmatic dependent launch): until the preceding kernel
// has ended and its writes are visible. Only then may the next kernel be launched, or the blocks of all
// later kernels would fill the device, each waiting for the ones before. The branch keeps the compiler
// from moving loads above the wait, which it might do otherwise.
#define nc_follow() if (nc_followed()) return
NC_FN bool nc_followed()
{
#if __CUDA_ARCH__ >= 900
    uint32_t blocks;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(blocks) :: "memory");
    return blocks == 0; // never
#else
    return false;
#endif
}

// A load before nc_follow, of memory that the preceding kernel does not write. It bypasses the L1 cache,
// which may still contain values of the previous execution (with ordinary read-only loads here, steps of
// a perceptron gave different results on an H200).
template <int N, class T> NC_FN NcVec<T, N> nc_prefetch(const T *p)
{
    NcMove<T, N> m;
    if constexpr (sizeof(m.raw) == 32) {
        m.raw.low = __ldcg((const uint4 *)p);
        m.raw.high = __ldcg((const uint4 *)p + 1);
    } else {
        m.raw = __ldcg((const decltype(m.raw) *)p);
    }
    return m.v;
}

// All threads of all blocks of a cluster wait for each other; writes before are visible after it.
// Devices before sm_90 have no clusters; kernels for them do not call it.
NC_FN void nc_cluster_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n\t"
                 "barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
// The wait at the end of a block whose shared memory other blocks of the cluster read, until they have
// read it. Writes before it need not become visible, since waiting for stores would take longer.
NC_FN void nc_cluster_leave()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed;\n\t"
                 "barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
// A block must not write to another block's shared memory before that block runs: all arrive at their
// start, and the first nc_cluster waits for this.
NC_FN void nc_cluster_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
// A shared variable of another block of the cluster.
template <class T> NC_FN T *nc_of_block(T *p, int block)
{
#if __CUDA_ARCH__ >= 900
    uint64_t at;
    asm("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"((uint64_t)p), "r"(block));
    return (T *)at;
#else
    return p;
#endif
}
// This block's number in its cluster.
NC_FN int nc_cluster_rank()
{
    uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return (int)rank;
}

// nc_team over a block of N threads, and then over the C blocks of the cluster in order: each
// writes its value to all of them. Each call in a kernel, numbered from 0 by Site, has its own
// memory, so that one barrier is enough.
template <class Op, int N, int C, int Site, class T> NC_FN T nc_cluster(T v)
{
    __shared__ T part[C];
    v = nc_team<Op, N, Site % 2>(v);
#if __CUDA_ARCH__ >= 900
    if (Site == 0) asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
    if (threadIdx.x < C) *nc_of_block(&part[blockIdx.x % C], (int)threadIdx.x) = v;
    nc_cluster_wait();
    v = part[0];
#pragma unroll
    for (int k = 1; k < C; k++) v = Op::of(v, part[k]);
    return v;
}

// 256 neighbouring threads of a block wait for each other.
NC_FN void nc_part_wait() { asm volatile("bar.sync %0, 256;" ::"r"(1 + threadIdx.x / 256) : "memory"); }
// nc_team for 256 such threads, in the same order.
template <class Op, int N, int Slot = -1, class T> NC_FN T nc_part_team(T v)
{
    if constexpr (N <= 32) {
        return nc_team<Op, N>(v);
    } else {
        constexpr int W = N / 32;
        __shared__ T part[4][W];
        T *mine = part[threadIdx.x / 256];
        int at = threadIdx.x % 256;
        v = nc_team<Op, 32>(v);
        nc_part_wait();
        if (at % 32 == 0) mine[at / 32] = v;
        nc_part_wait();
        v = mine[W > 4 ? at % W : 0];
        if constexpr (W > 4) {
#pragma unroll
            for (int m = W / 2; m > 0; m /= 2) v = Op::of(v, nc_shuffle(v, m));
        } else {
#pragma unroll
            for (int k = 1; k < W; k++) v = Op::of(v, mine[k]);
        }
        return v;
    }
}
struct NcPartWait {
    NC_FN void all() { nc_part_wait(); }
};
template <class Op, int X, int Y, bool All, int V, class T>
NC_FN void nc_part_above(T (&v)[V], void *memory)
{
    nc_join_above<Op, X, Y, All, NcPartWait>(v, memory, (int)(threadIdx.x % 256));
}
