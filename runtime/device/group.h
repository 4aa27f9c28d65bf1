// A device that is a group of devices, which run the same work on their own memory. Private to
// group*.c.
//
// An address of the group is one of member 0; the other members have a block of the same size for
// every allocation, and addresses are translated where work is enqueued. What is copied from the
// host goes to all members, what is copied to it comes from member 0.
#ifndef RUNTIME_GROUP_H
#define RUNTIME_GROUP_H

#include <pthread.h>

#include "runtime/device.h"

enum { GROUP_MOST = PROG_MAX_DEVICES };

typedef struct Block {
    char *at[GROUP_MOST]; // by member
    size_t bytes;
} Block;

typedef struct Group {
    RtDevice base;
    RtDeviceOps ops; // base.ops; those that the members lack are NULL
    const RtDeviceOps *one;
    RtDevice *member[GROUP_MOST];
    int n;
    pthread_mutex_t lock; // guards the blocks
    Block *block;         // by at[0]
    int nblocks, cap;
    void *number; // on each member: its number
    bool direct;  // kernels of the members can wait for each other
    void **kept;  // rooms that outlive their streams
    int nkept;
} Group;

typedef struct GroupStream {
    Group *g;
    RtStream *s[GROUP_MOST];
    RtEvent *here[GROUP_MOST]; // for waiting for each other
    char *room;                // RtRoom, behind it ProgError[members]
    bool exchanged;            // graphs may use the room
} GroupStream;

static inline Group *group_of(RtDevice *d)
{
    return (Group *)d;
}
static inline GroupStream *group_stream(RtStream *s)
{
    return (GroupStream *)s;
}

// The address for member d; the same for 0 and for what is no memory of the group.
void *group_address(Group *g, int d, const void *p);
RtCode group_enter(Group *g, int d, RtError *e); // makes member d current
void group_leave(Group *g, int d);
// Makes the work that follows wait: on each member for all work before it on every member; on the
// others for that on member 0; on member 0 for that on the others.
RtCode group_meet(GroupStream *s, RtError *e);
RtCode group_fork(GroupStream *s, RtError *e);
RtCode group_join(GroupStream *s, RtError *e);

// group_code.c
RtCode group_module_new(RtDevice *d, const Program *p, const RtImage *images, int nimages,
                        const RtCompileOptions *o, RtModule **out, RtError *e);
void group_module_free(RtModule *m);
const char *group_choices(RtModule *m, Arena *a);
const char *group_defect(const RtModule *m);
RtCode group_launch(RtStream *s, RtModule *m, int kernel, void *const *argv, RtError *e);
RtCode group_gemm(RtStream *s, RtModule *m, int gemm, const RtSlot *slots, RtError *e);
int group_gemm_kernel(const RtModule *m, int gemm, bool behind);
size_t group_gemm_scratch(const RtModule *m, int gemm);
RtCode group_kernel_info(RtModule *m, int kernel, RtKernelInfo *out, RtError *e);
RtCode group_capture_begin(RtStream *s, RtError *e);
RtCode group_capture_end(RtStream *s, RtGraph **out, int *kernel_nodes, RtError *e);
RtCode group_graph_launch(RtStream *s, RtGraph *graph, RtError *e);

#endif
