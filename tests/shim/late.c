// The queues of asynchronous instructions (late.h): of each thread those that it waits for in
// groups, of each block the boxes that its barriers wait for.
#include <stdlib.h>
#include <string.h>

#include "tests/shim/late.h"
#include "tests/shim/shim.h"

int shim_late = 1;

typedef struct Queue {
    ShimLate *at;
    unsigned first, n, room;
    unsigned group; // that is open
} Queue;

struct LateThread {
    Queue of[LATE_KINDS];
    bool fenced; // products may begin
};
struct LateBlock {
    Queue boxes;
};

static void add(Queue *q, const ShimLate *e)
{
    if (q->n == q->room) {
        q->room = q->room ? 2 * q->room : 16;
        q->at = realloc(q->at, q->room * sizeof *q->at);
        if (!q->at) abort();
    }
    q->at[q->n] = *e;
    q->at[q->n++].group = q->group;
}

static LateThread *mine(void)
{
    LateThread **t = shim_late_thread();
    if (!*t && !(*t = calloc(1, sizeof **t))) abort();
    return *t;
}

void shim_late_add(int kind, const ShimLate *e)
{
    LateThread *t = mine();
    if (kind == LATE_PRODUCTS && !t->fenced)
        shim_fault("a product of four warps without a fence before its group, by thread %u of "
                   "block %u",
                   shim_actor.id & 1023, shim_actor.id >> 10);
    add(&t->of[kind], e);
}

void shim_late_fence(void)
{
    mine()->fenced = true;
}

void shim_late_commit(int kind)
{
    LateThread *t = mine();
    t->of[kind].group++;
    if (kind == LATE_PRODUCTS) t->fenced = false;
}

int shim_late_due(int kind, int but, ShimLate *e)
{
    Queue *q = &mine()->of[kind];
    if (q->first == q->n || (int)(q->group - q->at[q->first].group) <= but) return 0;
    *e = q->at[q->first++];
    if (q->first == q->n) q->first = q->n = 0;
    return 1;
}

void shim_late_box(unsigned rank, const ShimLate *e)
{
    LateBlock **b = shim_late_block(rank);
    if (!*b && !(*b = calloc(1, sizeof **b))) abort();
    add(&(*b)->boxes, e);
}

int shim_late_box_due(unsigned bar, ShimLate *e)
{
    LateBlock *b = *shim_late_block(shim_cluster_rank());
    unsigned able = 0, pick = 0;
    for (unsigned i = 0; b && i < b->boxes.n; i++)
        if (b->boxes.at[i].bar == bar && !shim_random(++able)) pick = i;
    if (!able) return 0;
    *e = b->boxes.at[pick];
    b->boxes.at[pick] = b->boxes.at[--b->boxes.n];
    return 1;
}

const char *shim_late_end_thread(LateThread *t)
{
    if (!t) return NULL;
    bool products = t->of[LATE_PRODUCTS].n > 0, boxes = t->of[LATE_BOXES].n > 0;
    for (int k = 0; k < LATE_KINDS; k++) t->of[k].first = t->of[k].n = t->of[k].group = 0;
    t->fenced = false;
    return boxes      ? "bulk copies that still read its shared memory"
           : products ? "products that nobody has waited for"
                      : NULL;
}

bool shim_late_end_block(LateBlock *b)
{
    bool left = b && b->boxes.n;
    if (b) b->boxes.n = 0;
    return left;
}

void shim_late_free(LateThread *t, LateBlock *b)
{
    for (int k = 0; k < LATE_KINDS && t; k++) free(t->of[k].at);
    if (b) free(b->boxes.at);
    free(t);
    free(b);
}
