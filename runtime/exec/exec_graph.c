// Records an entry: one execution as a graph, and several executions as one graph, since a launch
// from the host costs about as much as a small kernel. The larger graph is recorded in more than
// one way, all with bitwise equal results; the first launches show which is fastest. A remainder
// runs in graphs of powers of two, recorded in that way when they are first needed.
#include <stdio.h>
#include <stdlib.h>

#include "base/plain.h"
#include "runtime/exec/exec.h"

enum {
    MOST_LAUNCHES = 20000, // recording more would take longer than it saves
    MOST_NODES = 200,      // in a graph of several executions
    MOST_TIMES = 32,
};
// Limit of the estimated time of such a graph: beyond it, the launch costs nothing in comparison,
// and longer graphs can rarely be used.
#define MOST_SECONDS 2e-3
#define BYTES        5e12 // per second, about the rate of the fastest devices
#define FLOPS        1e15

// RtEntry.way: steps one after the other, or concurrently if they are independent.
enum { UNKNOWN, ONE_ROW, SIDE_BY_SIDE, WAYS, ROUNDS = 3 };
enum { PARTS = 5 }; // 1 << PARTS is MOST_TIMES

struct RtMany {
    int times; // executions per graph
    RtGraph *graph[WAYS];
    RtEvent *begin, *end;
    int measured; // launches timed so far
    double best[WAYS];
    RtGraph *part[PARTS]; // part[i]: graph of 1 << i executions, i > 0
    bool parts_failed;
};

// Records [times] executions. NULL: failed; why has the reason.
static RtGraph *record(RtSession *s, RtEntry *en, int times, int *nodes, char *why, size_t n)
{
    const RtDeviceOps *ops = s->device->ops;
    RtError begin = {0}, steps = {0}, end = {0};
    RtBranches *b = rt_exchanges(en) ? rt_branches_new(s, en) : NULL;
    RtGraph *g = b ? rt_branches_record(s, en, b, times, nodes) : NULL;
    rt_branches_free(b);
    if (g) return g;
    if (ops->capture_begin(s->stream, &begin) == RT_OK) {
        for (int i = 0; i < times && !steps.code; i++) rt_entry_steps(s, en, NULL, &steps);
        ops->capture_end(s->stream, &g, nodes, &end);
        if (steps.code && g) {
            ops->graph_free(g);
            g = NULL;
        }
    }
    const RtError *e = begin.code ? &begin : steps.code ? &steps : &end;
    if (!g) snprintf(why, n, "recording failed: %.200s", e->text);
    return g;
}

// Records one execution. If that fails, this is no error: the reason is kept, and steps are
// enqueued one by one.
static void record_one(RtSession *s, RtEntry *en)
{
    if (en->launches > MOST_LAUNCHES)
        snprintf(en->why_not, sizeof en->why_not, "%lld launches are too many to record",
                 (long long)en->launches);
    else
        en->graph = record(s, en, 1, &en->graph_nodes, en->why_not, sizeof en->why_not);
}

static RtGraph *record_way(RtSession *s, RtEntry *en, int way, int times)
{
    char why[256];
    int n;
    if (way == ONE_ROW) return times > 1 ? record(s, en, times, &n, why, sizeof why) : NULL;
    if (rt_exchanges(en)) return NULL;
    RtBranches *b = rt_branches_new(s, en);
    RtGraph *g = b ? rt_branches_record(s, en, b, times, &n) : NULL;
    rt_branches_free(b);
    return g;
}

static RtGraph *graph_of(const RtEntry *en, int way)
{
    RtGraph *g = en->many->graph[way];
    return !g && way == ONE_ROW && en->many->times == 1 ? en->graph : g;
}

// Estimated seconds per execution at these rates, with loop bodies counted once.
static double seconds_about(const RtEntry *en)
{
    const Program *p = en->bound->program->p;
    double seconds = 0;
    for (int i = 0; i < en->e->nsteps; i++) {
        const ProgStep *step = &en->e->steps[i];
        if (step->kind == PS_GEMM) {
            const ProgGemm *g = &p->gemms[step->index];
            seconds += 2.0 * (double)g->m * (double)g->n * (double)g->k * (double)g->batch / FLOPS;
        } else if (step->kind == PS_KERNEL) {
            const ProgKernel *k = &p->kernels[step->index];
            seconds += (double)(k->bytes_read + k->bytes_written) / BYTES;
        }
    }
    return seconds;
}

// Records graphs of several executions if the run is long enough to gain from it. If that fails, it
// is not tried again.
static void record_many(RtSession *s, RtEntry *en, int64_t left)
{
    const RtDeviceOps *ops = s->device->ops;
    int64_t nodes = en->launches > en->graph_nodes ? en->launches : en->graph_nodes;
    int64_t times = nodes > 0 ? MOST_NODES / nodes : MOST_TIMES;
    double seconds = seconds_about(en);
    if (times > MOST_TIMES) times = MOST_TIMES;
    if ((double)times * seconds > MOST_SECONDS) times = (int64_t)(MOST_SECONDS / seconds);
    if (times < 1) times = 1;
    if (left < 2 * times) return;
    RtMany *m = calloc(1, sizeof *m);
    if (!m) return; // continues with graphs of one execution
    en->many = m;
    m->times = (int)times;
    int ways = 0, any = ONE_ROW;
    for (int way = ONE_ROW; way < WAYS; way++) {
        if (en->way && en->way != way) continue;
        m->graph[way] = record_way(s, en, way, m->times);
        if (!graph_of(en, way)) continue;
        ways++;
        any = way;
    }
    RtError e = {0};
    if (ways < 2 || ops->event_new(s->device, &m->begin, &e) ||
        ops->event_new(s->device, &m->end, &e))
        en->way = ways < 2 ? any : ONE_ROW;
}

// Keeps the fastest way.
static void choose(RtSession *s, RtEntry *en)
{
    const RtDeviceOps *ops = s->device->ops;
    RtMany *m = en->many;
    int best = ONE_ROW;
    for (int way = ONE_ROW; way < WAYS; way++)
        if (graph_of(en, way) && (!graph_of(en, best) || m->best[way] < 0.99 * m->best[best]))
            best = way;
    en->way = best;
    for (int way = ONE_ROW; way < WAYS; way++) en->way_seconds[way] = m->best[way] / m->times;
    for (int way = ONE_ROW; way < WAYS; way++) {
        if (way == best || !m->graph[way]) continue;
        ops->graph_free(m->graph[way]);
        m->graph[way] = NULL;
    }
}

// The largest graph that fits into [left] remaining executions; *times: number of its executions.
// NULL: none.
static RtGraph *graph_of_part(RtSession *s, RtEntry *en, int64_t left, int64_t *times)
{
    RtMany *m = en->many;
    for (int i = PARTS - 1; i > 0 && !m->parts_failed; i--) {
        *times = 1 << i;
        if (*times > left || *times >= m->times) continue;
        if (!m->part[i]) m->part[i] = record_way(s, en, en->way, (int)*times);
        m->parts_failed = !m->part[i]; // not tried again
        return m->part[i];
    }
    return NULL;
}

// Launches the graph of the next way twice and times the second launch, which is enqueued while the
// first one runs.
static RtCode measure(RtSession *s, RtEntry *en, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    RtMany *m = en->many;
    int way = ONE_ROW, ways = 0, turn;
    for (int w = ONE_ROW; w < WAYS; w++) ways += graph_of(en, w) != NULL;
    turn = m->measured % ways;
    while (!graph_of(en, way) || turn-- > 0) way++;
    RtGraph *g = graph_of(en, way);
    double seconds;
    if (ops->graph_launch(s->stream, g, e) || ops->event_record(m->begin, s->stream, e) ||
        ops->graph_launch(s->stream, g, e) || ops->event_record(m->end, s->stream, e) ||
        ops->event_sync(m->end, e) || ops->event_seconds(m->begin, m->end, &seconds, e))
        return e->code;
    if (m->measured < ways || seconds < m->best[way]) m->best[way] = seconds;
    if (++m->measured == ways * ROUNDS) choose(s, en);
    return RT_OK;
}

void rt_graphs_free(RtSession *s, RtEntry *en)
{
    const RtDeviceOps *ops = s->device->ops;
    RtMany *m = en->many;
    if (en->graph) ops->graph_free(en->graph);
    for (int i = 0; m && i < WAYS; i++)
        if (m->graph[i]) ops->graph_free(m->graph[i]);
    for (int i = 0; m && i < PARTS; i++)
        if (m->part[i]) ops->graph_free(m->part[i]);
    if (m && m->begin) ops->event_free(m->begin);
    if (m && m->end) ops->event_free(m->end);
    free(m);
    en->graph = NULL;
    en->many = NULL;
    en->graph_nodes = 0;
    en->why_not[0] = 0;
}

RtCode rt_entry_some(RtSession *s, RtEntry *en, int64_t left, int64_t *done, RtError *e)
{
    const RtDeviceOps *ops = s->device->ops;
    rt_entry_enqueued(en);
    rt_entry_changes(s, en);
    *done = 1;
    // The first execution is not recorded: libraries allocate memory and load code in it.
    if (ops->capture_begin && en->warm && !en->graph && !en->why_not[0]) record_one(s, en);
    if (en->graph && !en->many) record_many(s, en, left);
    if (en->many && !en->way && left >= 2 * en->many->times) {
        *done = 2 * en->many->times;
        return measure(s, en, e);
    }
    RtGraph *many =
        en->many && left >= en->many->times ? graph_of(en, en->way ? en->way : ONE_ROW) : NULL;
    if (many) {
        *done = en->many->times;
        return ops->graph_launch(s->stream, many, e);
    }
    if (en->many && en->way && (many = graph_of_part(s, en, left, done)))
        return ops->graph_launch(s->stream, many, e);
    *done = 1;
    if (en->graph) return ops->graph_launch(s->stream, en->graph, e);
    RtCode code = rt_entry_steps(s, en, NULL, e);
    en->warm = true;
    en->ran |= !code;
    return code;
}

bool rt_uses_cuda_graph(RtSession *s, RtProgram *p, const char *entry, const char **why_not)
{
    RtError e = {0};
    RtEntry *en = rt_entry_find(s, p, entry, &e);
    *why_not = !en                              ? "there is no such entry"
               : !s->device->ops->capture_begin ? "the CPU has no graphs"
               : en->graph                      ? ""
               : en->why_not[0]                 ? en->why_not
                                                : "it has not run twice yet";
    return en && en->graph;
}

int rt_graph_executions(RtSession *s, RtProgram *p, const char *entry)
{
    RtError e = {0};
    RtEntry *en = rt_entry_find(s, p, entry, &e);
    if (!en || !en->graph) return 0;
    return en->many && graph_of(en, en->way ? en->way : ONE_ROW) ? en->many->times : 1;
}

void rt_graph_way(RtSession *s, RtProgram *p, const char *entry, char *out, size_t n)
{
    static const char *const names[WAYS] = {"", "in a row", "side by side"};
    RtError e = {0};
    RtEntry *en = rt_entry_find(s, p, entry, &e);
    size_t at = 0;
    *out = 0;
    if (!en || !en->way) return;
    for (int way = ONE_ROW; way < WAYS && at < n; way++)
        if (en->way_seconds[way] > 0)
            at += (size_t)plain_format(out + at, n - at, "%s %.2f us, ", names[way],
                                       en->way_seconds[way] * 1e6);
    if (at < n) snprintf(out + at, n - at, "taken: %s", names[en->way]);
}

int rt_graph_kernel_nodes(RtSession *s, RtProgram *p, const char *entry)
{
    RtError e = {0};
    RtEntry *en = rt_entry_find(s, p, entry, &e);
    return en && en->graph ? en->graph_nodes : -1;
}
