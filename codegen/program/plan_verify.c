// Verifies a memory plan by simulating the steps: every byte of the arena records which buffer
// wrote it last, and a read must find its own buffer. Loops are simulated for three iterations, so
// that values passed to the next iteration are seen, and one iteration has another before and after
// it. The peak is counted on the same trace backwards. Nothing here uses the planner's liveness or
// shares its code.
#include "codegen/program/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct Run { // consecutive bytes that were last written by one buffer
    int64_t from, to;
    int32_t owner;
} Run;

typedef struct Shadow {
    Arena *arena;
    VEC(Run) runs; // ascending; bytes that were never written are in no run
} Shadow;

static uint32_t run_at(const Shadow *s, int64_t byte) // the first run that ends after the byte
{
    uint32_t lo = 0, hi = s->runs.n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (s->runs.at[mid].to <= byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void write_run(Shadow *s, int64_t from, int64_t to, int32_t owner)
{
    uint32_t i = run_at(s, from), j = i;
    Run before = {0}, after = {0};
    if (i < s->runs.n && s->runs.at[i].from < from)
        before = (Run){s->runs.at[i].from, from, s->runs.at[i].owner};
    while (j < s->runs.n && s->runs.at[j].from < to) {
        if (s->runs.at[j].to > to) after = (Run){to, s->runs.at[j].to, s->runs.at[j].owner};
        j++;
    }
    Run with[3];
    uint32_t n = 0;
    if (before.to) with[n++] = before;
    with[n++] = (Run){from, to, owner};
    if (after.to) with[n++] = after;
    uint32_t old = s->runs.n, left = old - j;
    while (s->runs.n < i + n + left) vec_push(s->arena, &s->runs, (Run){0});
    memmove(&s->runs.at[i + n], &s->runs.at[j], left * sizeof(Run));
    memcpy(&s->runs.at[i], with, n * sizeof(Run));
    s->runs.n = i + n + left;
}

// The buffer that has overwritten bytes of [owner] in this range; -1: all are its own; -2: some
// were never written.
static int32_t foreign(const Shadow *s, int64_t from, int64_t to, int32_t owner)
{
    for (uint32_t i = run_at(s, from); from < to; i++) {
        if (i >= s->runs.n || s->runs.at[i].from > from) return -2;
        if (s->runs.at[i].owner != owner) return s->runs.at[i].owner;
        from = s->runs.at[i].to;
    }
    return -1;
}

typedef struct Trace {
    int32_t step;
    bool enters; // the loop step itself, before the first iteration
} Trace;
typedef VEC(Trace) TraceVec;

// Lists the steps in the order of execution, with at most three iterations of each loop. Loops are
// nested at most PROG_MAX_LOOP_DEPTH deep, so this is at most 6561 times the number of steps.
static void unroll(Arena *a, const ProgEntry *e, TraceVec *t)
{
    int32_t loop[PROG_MAX_LOOP_DEPTH + 1], left[PROG_MAX_LOOP_DEPTH + 1], depth = 0;
    for (int32_t i = 0;;) {
        while (depth && i >= e->steps[loop[depth - 1]].last_step) {
            if (left[depth - 1]-- > 0)
                i = e->steps[loop[depth - 1]].first_step;
            else
                depth--;
        }
        if (i >= e->nsteps) return;
        vec_push(a, t, (Trace){i, e->steps[i].kind == PS_LOOP});
        if (e->steps[i].kind == PS_LOOP) {
            const ProgStep *s = &e->steps[i];
            if (s->count < 1 || depth >= PROG_MAX_LOOP_DEPTH) {
                i = s->last_step;
                continue;
            }
            loop[depth] = i;
            left[depth++] = s->count > 3 ? 2 : (int32_t)s->count - 1;
        }
        i++;
    }
}

static const char *complain(Arena *a, const ProgEntry *e, int32_t step, int32_t mine, int32_t other)
{
    const char *name = e->steps[step].name ? e->steps[step].name : "";
    if (other == -2)
        return arena_printf(a, "step %d (%s) reads `%s`, which nothing has written yet", step, name,
                            e->buffers[mine].name);
    return arena_printf(a, "step %d (%s) needs `%s`, but `%s` lies in its place", step, name,
                        e->buffers[mine].name, e->buffers[other].name);
}

static const char *play(Arena *a, const ProgEntry *e, const TraceVec *t)
{
    Shadow shadow = {.arena = a};
    for (uint32_t i = 0; i < t->n; i++) {
        const ProgStep *s = &e->steps[t->at[i].step];
        for (int32_t k = 0; k < s->nargs; k++) {
            const ProgArg *arg = &s->args[k];
            if (arg->kind != PA_BUFFER || (arg->written && !arg->joins)) continue;
            const ProgBuffer *b = &e->buffers[arg->index];
            if (b->region != PR_ARENA || !b->bytes) continue;
            int32_t other = foreign(&shadow, b->offset, b->offset + b->bytes, arg->index);
            if (other != -1) return complain(a, e, t->at[i].step, arg->index, other);
        }
        for (int32_t k = 0; k < s->nargs; k++) {
            const ProgArg *arg = &s->args[k];
            if (arg->kind != PA_BUFFER || !arg->written) continue;
            const ProgBuffer *b = &e->buffers[arg->index];
            if (b->region != PR_ARENA || !b->bytes) continue;
            if (b->offset < 0 || b->bytes > e->arena_bytes - b->offset)
                return arena_printf(a, "`%s` lies outside the arena", b->name);
            write_run(&shadow, b->offset, b->offset + b->bytes, arg->index);
        }
        for (int32_t k = 0; k < s->nargs; k++) { // arguments of one step must not overlap, either
            const ProgArg *arg = &s->args[k];
            if (arg->kind != PA_BUFFER) continue;
            const ProgBuffer *b = &e->buffers[arg->index];
            if (b->region != PR_ARENA || !b->bytes) continue;
            int32_t other = foreign(&shadow, b->offset, b->offset + b->bytes, arg->index);
            if (other != -1) return complain(a, e, t->at[i].step, arg->index, other);
        }
    }
    return NULL;
}

static int64_t granules(const ProgBuffer *b)
{
    return b->region == PR_ARENA ? (b->bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN : 0;
}

// The maximum over all steps of the bytes of temporaries that are arguments or hold a value that is
// needed later.
static int64_t peak(Arena *a, const ProgEntry *e, const TraceVec *t)
{
    uint32_t *first = NEW_ARRAY(a, uint32_t, e->nbuffers + 1); // position in the trace + 1
    bool *live = NEW_ARRAY(a, bool, e->nbuffers + 1);
    int32_t *moved = NEW_ARRAY(a, int32_t, e->nbuffers + 1); // the outermost loop with which it
                                                             // advances, + 1
    bool *begun = NEW_ARRAY(a, bool, e->nbuffers + 1); // written before that loop: an initial value
    int32_t loop[PROG_MAX_LOOP_DEPTH + 1];
    uint32_t entered[PROG_MAX_LOOP_DEPTH + 1];
    for (uint32_t i = 0; i < t->n; i++) {
        const ProgStep *s = &e->steps[t->at[i].step];
        if (s->kind == PS_LOOP && s->depth <= PROG_MAX_LOOP_DEPTH)
            loop[s->depth] = t->at[i].step, entered[s->depth] = i + 1;
        for (int32_t k = 0; k < s->nargs; k++) {
            if (s->args[k].kind != PA_BUFFER) continue;
            int32_t b = s->args[k].index;
            if (!first[b]) first[b] = i + 1;
            for (int d = 0; d < s->depth && !moved[b] && s->args[k].written; d++)
                if (s->args[k].stride[d]) moved[b] = loop[d] + 1, begun[b] = first[b] < entered[d];
        }
    }
    // Lists of buffers by the loop with which they advance. They become live when it is entered, or
    // at the first step that accesses them before.
    int32_t *head = NEW_ARRAY(a, int32_t, e->nsteps + 1),
            *next = NEW_ARRAY(a, int32_t, e->nbuffers + 1);
    for (int32_t b = 0; b < e->nbuffers; b++)
        if (moved[b] && !begun[b]) {
            next[b] = head[moved[b] - 1];
            head[moved[b] - 1] = b + 1;
        }
    int64_t now = 0, most = 0;
    for (uint32_t i = t->n; i-- > 0;) {
        const ProgStep *s = &e->steps[t->at[i].step];
        for (int32_t k = 0; k < s->nargs; k++) { // needed later, or accessed here
            const ProgArg *arg = &s->args[k];
            if (arg->kind != PA_BUFFER || live[arg->index]) continue;
            live[arg->index] = true;
            now += granules(&e->buffers[arg->index]);
        }
        if (now > most) most = now;
        for (int32_t k = 0; k < s->nargs; k++) {
            const ProgArg *arg = &s->args[k];
            if (arg->kind != PA_BUFFER || !live[arg->index]) continue;
            bool read = arg->joins, born = first[arg->index] == i + 1;
            born |= begun[arg->index] && t->at[first[arg->index] - 1].step == t->at[i].step;
            for (int32_t j = 0; j < s->nargs; j++)
                read = read || (s->args[j].kind == PA_BUFFER && s->args[j].index == arg->index &&
                                (!s->args[j].written || s->args[j].joins));
            if (born || (!read && !moved[arg->index])) {
                live[arg->index] = false;
                now -= granules(&e->buffers[arg->index]);
            }
        }
        if (t->at[i].enters)
            for (int32_t b = head[t->at[i].step]; b; b = next[b - 1])
                if (live[b - 1]) {
                    live[b - 1] = false;
                    now -= granules(&e->buffers[b - 1]);
                }
    }
    return most;
}

const char *plan_verify(Arena *a, ProgEntry *e)
{
    TraceVec t = {0};
    unroll(a, e, &t);
    e->peak_bytes = peak(a, e, &t);
    return play(a, e, &t);
}
