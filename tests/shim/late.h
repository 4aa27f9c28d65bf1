// What asynchronous instructions have begun and may not yet have done: copies of cp.async, bulk
// copies, products of four warps. They take effect as late as the program allows: where a thread
// waits for them. SHIM_EARLY=1: at once. Included by kernels too (ptx.h): no header of the system.
#ifndef TESTS_SHIM_LATE_H
#define TESTS_SHIM_LATE_H

enum { LATE_COPIES, LATE_PRODUCTS, LATE_BOXES, LATE_KINDS }; // that threads wait for in groups

typedef struct ShimLate {
    void *p;                 // copies: to; products: the sums
    unsigned long long a, b; // copies: from; products: operands
    unsigned long long map[16];
    void (*run)(const struct ShimLate *e); // in the thread that waits
    int n, k[2], add, kind;
    unsigned place, bar; // boxes: in shared memory
    int x, y;
    unsigned group; // filled in here
} ShimLate;

#ifdef __cplusplus
extern "C" {
#endif
extern int shim_late; // 0: what follows is not used
// Of the thread that runs: begins one, ends its group, takes the next one of all groups but the
// last [but]. Products of a group begin behind a fence.
void shim_late_add(int kind, const ShimLate *e);
void shim_late_commit(int kind);
int shim_late_due(int kind, int but, ShimLate *e);
void shim_late_fence(void); // wgmma.fence
// Boxes that come to the block of that rank of the cluster; one that a barrier of the block that
// runs waits for.
void shim_late_box(unsigned rank, const ShimLate *e);
int shim_late_box_due(unsigned bar, ShimLate *e);

// memory.c: shared memory that a copy has yet to write (nobody may look at it), has written, has
// yet to read (nobody may change it), has read. ordered: what other threads did there must come
// before.
void shim_coming(void *p, unsigned long long bytes, int ordered);
void shim_came(void *p, unsigned long long bytes);
void shim_leaving(void *p, unsigned long long bytes);
void shim_left(void *p, unsigned long long bytes);
// Tensor cores and bulk copies look there: nothing is still coming, and what threads wrote is
// behind their fence.
void shim_proxy_reads(const void *p, unsigned long long bytes);
void shim_proxy_fence(void);     // of the thread that runs
void shim_thread_wrote(void *p); // a word, past the hooks
#ifdef __cplusplus
}
#endif

#endif
