// Groups of devices: opening, memory, streams, events, and exchanges between the members.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/group.h"

RtCode group_enter(Group *g, int d, RtError *e)
{
    return g->one->enter(g->member[d], e);
}

void group_leave(Group *g, int d)
{
    g->one->leave(g->member[d]);
}

// -- memory ---------------------------------------------------------------------------------------

// The number of blocks that begin at p or before.
static int blocks_until(const Group *g, const char *p)
{
    int low = 0, high = g->nblocks;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (g->block[mid].at[0] <= p)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void *group_address(Group *g, int d, const void *p)
{
    char *at = (char *)(uintptr_t)p;
    if (!d || !p) return at;
    pthread_mutex_lock(&g->lock);
    const int i = blocks_until(g, at) - 1;
    // (an end of a block is no address of the next)
    if (i >= 0 && (size_t)(at - g->block[i].at[0]) <= g->block[i].bytes)
        at = g->block[i].at[d] + (at - g->block[i].at[0]);
    pthread_mutex_unlock(&g->lock);
    return at;
}

static void release(Group *g, Block *b)
{
    RtError ignored = {0};
    for (int d = 0; d < g->n; d++) {
        if (!b->at[d] || group_enter(g, d, &ignored)) continue;
        g->one->free(g->member[d], b->at[d]);
        group_leave(g, d);
    }
}

static bool add_block(Group *g, const Block *b)
{
    pthread_mutex_lock(&g->lock);
    if (g->nblocks == g->cap) {
        const int most = g->cap ? 2 * g->cap : 32;
        Block *more = realloc(g->block, (size_t)most * sizeof *more);
        if (more) g->block = more, g->cap = most;
    }
    const bool fits = g->nblocks < g->cap;
    if (fits) {
        const int i = blocks_until(g, b->at[0]);
        memmove(g->block + i + 1, g->block + i, (size_t)(g->nblocks - i) * sizeof *g->block);
        g->block[i] = *b;
        g->nblocks++;
    }
    pthread_mutex_unlock(&g->lock);
    return fits;
}

static RtCode group_alloc(RtDevice *device, size_t bytes, const char *what, void **out, RtError *e)
{
    Group *g = group_of(device);
    Block b = {.bytes = bytes};
    *out = NULL;
    for (int d = 0; d < g->n; d++) {
        void *at = NULL;
        if (group_enter(g, d, e)) break;
        g->one->alloc(g->member[d], bytes, what, &at, e);
        group_leave(g, d);
        b.at[d] = at;
        if (e->code) break;
    }
    if (!e->code && !add_block(g, &b)) rt_fail(e, RT_OOM, "out of memory");
    if (e->code)
        release(g, &b);
    else
        *out = b.at[0];
    return e->code;
}

static void group_free(RtDevice *device, void *p)
{
    Group *g = group_of(device);
    Block b = {0};
    if (!p) return;
    pthread_mutex_lock(&g->lock);
    const int i = blocks_until(g, p) - 1;
    if (i >= 0 && g->block[i].at[0] == p) {
        b = g->block[i];
        g->nblocks--;
        memmove(g->block + i, g->block + i + 1, (size_t)(g->nblocks - i) * sizeof *g->block);
    }
    pthread_mutex_unlock(&g->lock);
    release(g, &b);
}

static bool group_memory(RtDevice *device, size_t *free_bytes, size_t *total_bytes)
{
    Group *g = group_of(device);
    *free_bytes = *total_bytes = SIZE_MAX;
    for (int d = 0; d < g->n; d++) {
        size_t avail, total;
        RtError e = {0};
        if (group_enter(g, d, &e)) return false;
        const bool known = g->one->memory(g->member[d], &avail, &total);
        group_leave(g, d);
        if (!known) return false;
        if (avail < *free_bytes) *free_bytes = avail;
        if (total < *total_bytes) *total_bytes = total;
    }
    // (the members of a group of CPUs share the host's)
    if (!g->one->cuda) *free_bytes /= (size_t)g->n;
    return true;
}

static RtCode group_owns(RtDevice *d, const void *p, size_t bytes, RtError *e)
{
    (void)bytes;
    return rt_fail(e, RT_USER,
                   "%p is memory of the caller's on one device; a session on %s takes and gives "
                   "tensors in the host's memory",
                   p, d->name);
}

static RtCode group_host_alloc(RtDevice *d, size_t bytes, void **out, RtError *e)
{
    return group_of(d)->one->host_alloc(group_of(d)->member[0], bytes, out, e);
}

static void group_host_free(RtDevice *d, void *p)
{
    group_of(d)->one->host_free(group_of(d)->member[0], p);
}

// -- streams --------------------------------------------------------------------------------------

// Does the same for every member, with [own] and [one] its stream and its functions.
#define EACH_MEMBER(stream, call)                                                                  \
    do {                                                                                           \
        GroupStream *each_ = group_stream(stream);                                                 \
        Group *g = each_->g;                                                                       \
        const RtDeviceOps *one = g->one;                                                           \
        for (int d = 0; d < g->n; d++) {                                                           \
            RtStream *own = each_->s[d];                                                           \
            if (group_enter(g, d, e)) return e->code;                                              \
            RtCode code_ = call;                                                                   \
            group_leave(g, d);                                                                     \
            if (code_) return code_;                                                               \
        }                                                                                          \
        return RT_OK;                                                                              \
    } while (0)

static RtCode group_stream_sync(RtStream *s, RtError *e)
{
    EACH_MEMBER(s, one->stream_sync(own, e));
}

static RtCode group_copy(RtStream *s, void *to, const void *from, size_t bytes, RtCopyKind kind,
                         const void *gate, RtError *e)
{
    Group *group = group_stream(s)->g;
    if (kind == RT_D2H) {
        if (group_enter(group, 0, e)) return e->code;
        group->one->copy(group_stream(s)->s[0], to, from, bytes, kind, gate, e);
        group_leave(group, 0);
        return e->code;
    }
    EACH_MEMBER(s, one->copy(own, group_address(g, d, to),
                             kind == RT_H2D ? from : group_address(g, d, from), bytes, kind,
                             group_address(g, d, gate), e));
}

static RtCode group_zero(RtStream *s, void *to, size_t bytes, const void *gate, RtError *e)
{
    EACH_MEMBER(s, one->zero(own, group_address(g, d, to), bytes, group_address(g, d, gate), e));
}

static RtCode group_spoil(RtStream *s, void *to, size_t bytes, RtError *e)
{
    EACH_MEMBER(s, one->spoil(own, group_address(g, d, to), bytes, e));
}

static RtCode group_copy_kernel(RtStream *s, void *to, const void *from, size_t bytes, RtError *e)
{
    EACH_MEMBER(
        s, one->copy_kernel(own, group_address(g, d, to), group_address(g, d, from), bytes, e));
}

static RtCode group_wait(RtStream *s, double seconds, RtError *e)
{
    EACH_MEMBER(s, one->wait(own, seconds, e));
}

static size_t words_bytes(const Group *g)
{
    return sizeof(RtRoom) + 2 * (size_t)g->n * RT_ROOM_WORDS * sizeof(uint32_t);
}

// Frees the stream's room, or keeps it until the device is closed.
static void leave_room(GroupStream *s)
{
    Group *g = s->g;
    if (!s->exchanged) {
        group_free(&g->base, s->room);
        return;
    }
    pthread_mutex_lock(&g->lock);
    void **more = realloc(g->kept, (size_t)(g->nkept + 1) * sizeof *more);
    if (more) g->kept = more, g->kept[g->nkept++] = s->room;
    pthread_mutex_unlock(&g->lock);
}

static void group_stream_free(RtStream *stream)
{
    GroupStream *s = group_stream(stream);
    RtError ignored = {0};
    if (!s) return;
    for (int d = 0; d < s->g->n; d++) {
        if (group_enter(s->g, d, &ignored)) continue;
        if (s->here[d]) s->g->one->event_free(s->here[d]);
        if (s->s[d]) s->g->one->stream_free(s->s[d]);
        group_leave(s->g, d);
    }
    if (s->room) leave_room(s);
    free(s);
}

static RtCode make_room(GroupStream *s, RtError *e)
{
    Group *g = s->g;
    RtRoom head = {0};
    void *room = NULL;
    if (group_alloc(&g->base, words_bytes(g) + (size_t)g->n * sizeof(ProgError),
                    "exchanges between devices", &room, e))
        return e->code;
    s->room = room;
    for (int d = 0; d < g->n; d++) head.room[d] = (uintptr_t)group_address(g, d, room);
    return group_copy((RtStream *)s, room, &head, sizeof head, RT_H2D, NULL, e)
               ? e->code
               : group_stream_sync((RtStream *)s, e);
}

static RtCode group_stream_new(RtDevice *device, const RtSessionOptions *o, RtStream **out,
                               RtError *e)
{
    Group *g = group_of(device);
    *out = NULL;
    if (o && o->stream)
        return rt_fail(e, RT_USER,
                       "a session on %s cannot run on a stream of the caller's, which "
                       "belongs to one device",
                       device->name);
    GroupStream *s = calloc(1, sizeof *s);
    if (!s) return rt_fail(e, RT_OOM, "out of memory");
    s->g = g;
    for (int d = 0; d < g->n && !e->code; d++) {
        if (group_enter(g, d, e)) break;
        if (!g->one->stream_new(g->member[d], o, &s->s[d], e))
            g->one->event_new(g->member[d], &s->here[d], e);
        group_leave(g, d);
    }
    if (!e->code) make_room(s, e);
    if (e->code)
        group_stream_free((RtStream *)s);
    else
        *out = (RtStream *)s;
    return e->code;
}

// -- events ---------------------------------------------------------------------------------------

typedef struct GroupEvent {
    Group *g;
    RtEvent *v[GROUP_MOST];
} GroupEvent;

static void group_event_free(RtEvent *event)
{
    GroupEvent *v = (GroupEvent *)event;
    if (!v) return;
    RtError ignored = {0};
    for (int d = 0; d < v->g->n; d++) {
        if (!v->v[d] || group_enter(v->g, d, &ignored)) continue;
        v->g->one->event_free(v->v[d]);
        group_leave(v->g, d);
    }
    free(v);
}

static RtCode group_event_new(RtDevice *device, RtEvent **out, RtError *e)
{
    Group *g = group_of(device);
    GroupEvent *v = calloc(1, sizeof *v);
    *out = NULL;
    if (!v) return rt_fail(e, RT_OOM, "out of memory");
    v->g = g;
    for (int d = 0; d < g->n && !e->code; d++) {
        if (group_enter(g, d, e)) break;
        g->one->event_new(g->member[d], &v->v[d], e);
        group_leave(g, d);
    }
    if (e->code)
        group_event_free((RtEvent *)v);
    else
        *out = (RtEvent *)v;
    return e->code;
}

static RtCode group_event_record(RtEvent *v, RtStream *s, RtError *e)
{
    EACH_MEMBER(s, one->event_record(((GroupEvent *)v)->v[d], own, e));
}

static RtCode group_event_wait(RtStream *s, RtEvent *v, RtError *e)
{
    EACH_MEMBER(s, one->event_wait(own, ((GroupEvent *)v)->v[d], e));
}

static RtCode group_event_sync(RtEvent *event, RtError *e)
{
    GroupEvent *v = (GroupEvent *)event;
    for (int d = 0; d < v->g->n && !e->code; d++) {
        if (group_enter(v->g, d, e)) break;
        v->g->one->event_sync(v->v[d], e);
        group_leave(v->g, d);
    }
    return e->code;
}

static RtCode group_event_seconds(RtEvent *begin, RtEvent *end, double *seconds, RtError *e)
{
    GroupEvent *a = (GroupEvent *)begin, *b = (GroupEvent *)end;
    return a->g->one->event_seconds(a->v[0], b->v[0], seconds, e);
}

// -- between the members --------------------------------------------------------------------------

static RtCode arrive(GroupStream *s, RtError *e)
{
    EACH_MEMBER((RtStream *)s, one->event_record(s->here[d], own, e));
}

static RtCode await(GroupStream *s, int k, RtError *e)
{
    EACH_MEMBER((RtStream *)s, d == k ? RT_OK : one->event_wait(own, s->here[k], e));
}

RtCode group_meet(GroupStream *s, RtError *e)
{
    if (arrive(s, e)) return e->code;
    for (int k = 0; k < s->g->n; k++)
        if (await(s, k, e)) return e->code;
    return RT_OK;
}

RtCode group_fork(GroupStream *s, RtError *e)
{
    if (group_enter(s->g, 0, e)) return e->code;
    s->g->one->event_record(s->here[0], s->s[0], e);
    group_leave(s->g, 0);
    return e->code ? e->code : await(s, 0, e);
}

RtCode group_join(GroupStream *s, RtError *e)
{
    EACH_MEMBER((RtStream *)s, !d ? RT_OK
                               : one->event_record(s->here[d], own, e)
                                   ? e->code
                                   : one->event_wait(s->s[0], s->here[d], e));
}

static RtCode collect(GroupStream *s, char *to, const char *from, size_t bytes, bool each, int k,
                      RtError *e)
{
    const char *source = group_address(s->g, k, from);
    EACH_MEMBER((RtStream *)s,
                one->copy(own, (char *)group_address(g, d, to) + (size_t)k * bytes,
                          each ? source + (size_t)d * bytes : source, bytes, RT_D2D, NULL, e));
}

static RtCode trade(GroupStream *s, void *to, const void *from, size_t bytes, bool each, RtError *e)
{
    const unsigned words = (unsigned)(bytes / sizeof(uint32_t));
    EACH_MEMBER((RtStream *)s,
                one->trade(own, group_address(g, d, s->room), group_address(g, d, to),
                           group_address(g, d, from), words, each, g->n, d, e));
}

static RtCode wait_for_each_other(GroupStream *s, RtError *e)
{
    return s->g->direct ? trade(s, s->room, s->room, 0, false, e) : group_meet(s, e);
}

static RtCode group_exchange(RtStream *stream, void *to, const void *from, size_t bytes, bool each,
                             RtError *e)
{
    GroupStream *s = group_stream(stream);
    const bool words = !(((uintptr_t)to | (uintptr_t)from | bytes) % sizeof(uint32_t));
    s->exchanged = true;
    if (s->g->direct && words && bytes <= RT_ROOM_WORDS * sizeof(uint32_t))
        return trade(s, to, from, bytes, each, e);
    if (wait_for_each_other(s, e)) return e->code;
    for (int k = 0; k < s->g->n; k++)
        if (collect(s, to, from, bytes, each, k, e)) return e->code;
    return wait_for_each_other(s, e);
}

static RtCode group_agree(RtStream *s, void *record, RtError *e)
{
    char *errors = group_stream(s)->room + words_bytes(group_stream(s)->g);
    if (group_exchange(s, errors, record, sizeof(ProgError), false, e)) return e->code;
    EACH_MEMBER(
        s, one->take_error(own, group_address(g, d, record), group_address(g, d, errors), g->n, e));
}

static void *group_number(RtDevice *d)
{
    return group_of(d)->number;
}

// -- opening --------------------------------------------------------------------------------------

static RtCode no_open(int ordinal, RtDevice **out, RtError *e)
{
    (void)ordinal;
    *out = NULL;
    return rt_fail(e, RT_ENV, "a group is opened from devices");
}

static void group_close(RtDevice *device)
{
    Group *g = group_of(device);
    for (int i = 0; i < g->nkept; i++) group_free(device, g->kept[i]);
    free(g->kept);
    if (g->number) group_free(device, g->number);
    for (int d = 0; d < g->n; d++)
        if (g->member[d]) g->one->close(g->member[d]);
    free(g->block);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static RtCode enter_first(RtDevice *d, RtError *e)
{
    return group_enter(group_of(d), 0, e);
}

static void leave_first(RtDevice *d)
{
    group_leave(group_of(d), 0);
}

static RtDeviceOps functions(const RtDeviceOps *one)
{
    return (RtDeviceOps){
        .cuda = one->cuda,
        .args_by_address = one->args_by_address,
        .open = no_open,
        .close = group_close,
        .memory = group_memory,
        .enter = enter_first,
        .leave = leave_first,
        .alloc = group_alloc,
        .free = group_free,
        .owns = group_owns,
        .host_alloc = group_host_alloc,
        .host_free = group_host_free,
        .stream_new = group_stream_new,
        .stream_free = group_stream_free,
        .stream_sync = group_stream_sync,
        .copy = group_copy,
        .zero = group_zero,
        .spoil = group_spoil,
        .event_new = group_event_new,
        .event_free = group_event_free,
        .event_record = group_event_record,
        .event_wait = group_event_wait,
        .event_sync = group_event_sync,
        .event_seconds = group_event_seconds,
        .module_new = group_module_new,
        .module_free = group_module_free,
        .module_choices = group_choices,
        .module_defect = one->module_defect ? group_defect : NULL,
        .launch = group_launch,
        .gemm = group_gemm,
        .gemm_kernel = one->gemm_kernel ? group_gemm_kernel : NULL,
        .gemm_scratch = one->gemm_scratch ? group_gemm_scratch : NULL,
        .capture_begin = one->capture_begin ? group_capture_begin : NULL,
        .capture_end = group_capture_end,
        .graph_launch = group_graph_launch,
        .graph_free = one->graph_free,
        .copy_kernel = group_copy_kernel,
        .wait = one->wait ? group_wait : NULL,
        .kernel_info = one->kernel_info ? group_kernel_info : NULL,
        .exchange = group_exchange,
        .agree = group_agree,
        .number = group_number,
    };
}

// Writes the members' numbers, and lets them read each other's memory.
static RtCode connect(Group *g, RtError *e)
{
    if (group_alloc(&g->base, sizeof(int64_t), "the number of a device", &g->number, e))
        return e->code;
    g->direct = g->one->trade != NULL;
    for (int d = 0; d < g->n && !e->code; d++) {
        const int64_t number = d;
        RtStream *s = NULL;
        if (group_enter(g, d, e)) break;
        for (int k = 0; k < g->n && g->one->reach && !e->code; k++) {
            bool direct = true;
            if (k != d) g->one->reach(g->member[d], g->member[k], &direct, e);
            g->direct = g->direct && direct;
        }
        if (!e->code && !g->one->stream_new(g->member[d], NULL, &s, e) &&
            !g->one->copy(s, group_address(g, d, g->number), &number, sizeof number, RT_H2D, NULL,
                          e))
            g->one->stream_sync(s, e);
        if (s) g->one->stream_free(s);
        group_leave(g, d);
    }
    return e->code;
}

RtCode rt_group_open(const char *name, RtDevice *const *members, int n, RtDevice **out, RtError *e)
{
    *out = NULL;
    Group *g = calloc(1, sizeof *g);
    if (!g || pthread_mutex_init(&g->lock, NULL)) {
        free(g);
        return rt_fail(e, RT_OOM, "out of memory");
    }
    g->one = members[0]->ops;
    g->ops = functions(g->one);
    g->base = *members[0];
    g->base.ops = &g->ops;
    g->base.count = n;
    snprintf(g->base.name, sizeof g->base.name, "%s", name);
    for (int d = 0; d < n; d++) {
        if (members[d]->units < g->base.units) g->base.units = members[d]->units;
        if (members[d]->ops != g->one || strcmp(members[d]->target, members[0]->target))
            rt_fail(e, RT_USER,
                    "%s is %s and %s is %s: devices that share the work of a step are "
                    "of one kind",
                    members[0]->name, members[0]->target, members[d]->name, members[d]->target);
    }
    if (!e->code) {
        memcpy(g->member, members, (size_t)n * sizeof *members);
        g->n = n;
        connect(g, e);
    }
    if (e->code) {
        g->n = 0; // the caller closes the members
        group_close(&g->base);
        return e->code;
    }
    *out = &g->base;
    return RT_OK;
}
