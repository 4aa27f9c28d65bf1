
// A kernel's first words: it waits until the one before it has ended and what that wrote is seen; from
// then on the next kernel of the stream may be brought to the device. (Not before: the blocks of all
// kernels to come would crowd it, each waiting for those in front.) No load is moved above the branch,
// as it might be above the wait alone.
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

// A load before the first words, of what is there already. From the second-level cache: the first
// one may hold what was there an execution ago (with ordinary loads of read-only memory in this
// place the steps of a perceptron came out different on an H200).
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

// All blocks of a cluster, all of their threads, wait for each other; what was written before is
// seen after. Devices before sm_90 have no clusters and are never asked.
NC_FN void nc_cluster_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n\t"
                 "barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
// The last words of a block whose shared memory others of the cluster read: they have used what they
// read. What was written before need not be seen: waiting for stores to arrive would take longer.
NC_FN void nc_cluster_leave()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed;\n\t"
                 "barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
// A block must not write to another's shared memory before that runs: all arrive where they begin,
// and the first join waits for it.
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
// writes its value to all of them. Every join of a kernel, numbered from 0 by Site, has memory of
// its own, so that one barrier is enough.
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

// Of 256 neighbouring threads of a block: they wait for each other.
NC_FN void nc_part_wait() { asm volatile("bar.sync %0, 256;" ::"r"(1 + threadIdx.x / 256) : "memory"); }
// nc_team for these threads, in the same order.
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
