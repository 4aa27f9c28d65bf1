// Recorded graphs without a GPU: the CPU device made to record. A launched graph runs its nodes in a random
// order that its edges allow, so that a missing edge gives another result than the steps in a row.
#include <stdlib.h>
#include <string.h>

#include "runtime/exec.h"
#include "tests/unit/unit.h"

enum { MOST_NODES = 4096, WORDS = MOST_NODES / 64, STEPS = 14, CELLS = 5, TEMPS = 6, ARENA = 64 };

typedef struct Set {
    uint64_t w[WORDS];
    uint64_t recorded; // not 0: of a stream that takes part in the recording
} Set;

struct RtEvent {
    Set after;
    double at;
};

typedef struct Node {
    RtModule *module;
    int kernel;      // -1: a zero
    void *argv[4], *to;
    size_t bytes;
    Set deps;
} Node;

struct RtGraph {
    int n;
    bool row; // every node waits for the one before
    Node *node;
};

typedef struct Fake {
    RtDeviceOps ops;
    bool recording;
    RtGraph *graph;
    RtStream *main, *side[8];
    Set tail[9]; // of main, then of side
    int nside;
    double clock, side_cost; // of a node of a graph with branches; 1 in a row
    int launched[2];         // graphs of one execution excepted: in a row, with branches
    int steps;               // of one execution
    unsigned seed;
} Fake;

// The table of operations has no place for a context.
static Fake *fake;

static unsigned chance(unsigned n)
{
    fake->seed = fake->seed * 1664525u + 1013904223u;
    return (fake->seed >> 16) % n;
}

static Set *tail_of(RtStream *s)
{
    if (s == fake->main) return &fake->tail[0];
    for (int i = 0; i < fake->nside; i++)
        if (fake->side[i] == s) return &fake->tail[i + 1];
    CHECK(fake->nside < 8);
    fake->side[fake->nside] = s;
    memset(&fake->tail[fake->nside + 1], 0, sizeof(Set));
    return &fake->tail[++fake->nside];
}

static void node(RtStream *s, Node n)
{
    RtGraph *g = fake->graph;
    Set *tail = tail_of(s);
    CHECK(g->n < MOST_NODES);
    // A stream takes part in a recording only after it has waited for one that does.
    CHECK(tail->recorded);
    n.deps = *tail;
    Set before = {.recorded = 1};
    if (g->n) before.w[(g->n - 1) / 64] |= 1ull << (g->n - 1) % 64;
    if (memcmp(&before, tail, sizeof before)) g->row = false;
    *tail = (Set){.recorded = 1};
    tail->w[g->n / 64] |= 1ull << g->n % 64;
    g->node[g->n++] = n;
}

static RtCode fake_begin(RtStream *s, RtError *e)
{
    (void)e;
    fake->main = s;
    fake->nside = 0;
    memset(fake->tail, 0, sizeof fake->tail);
    fake->tail[0].recorded = 1;
    fake->graph = calloc(1, sizeof *fake->graph);
    fake->graph->node = calloc(MOST_NODES, sizeof(Node));
    fake->graph->row = true;
    return fake->recording = true, RT_OK;
}

static void fake_graph_free(RtGraph *g)
{
    free(g->node);
    free(g);
}

static RtCode fake_end(RtStream *s, RtGraph **out, int *nodes, RtError *e)
{
    (void)e;
    RtGraph *g = fake->graph;
    Set joined = *tail_of(s);
    int n = 0;
    for (int i = g->n; i-- > 0;)
        if (joined.w[i / 64] >> i % 64 & 1) {
            for (int k = 0; k < WORDS; k++) joined.w[k] |= g->node[i].deps.w[k];
            n++;
        }
    CHECK_MSG(n == g->n, "%d of %d nodes joined", n, g->n);
    fake->recording = false;
    *out = g;
    *nodes = g->n;
    return RT_OK;
}

static RtCode fake_launch(RtStream *s, RtModule *m, int kernel, void *const *argv, RtError *e)
{
    if (!fake->recording) return rt_cpu_ops.launch(s, m, kernel, argv, e);
    Node n = {.module = m, .kernel = kernel};
    memcpy(n.argv, argv, sizeof n.argv);
    return node(s, n), RT_OK;
}

static RtCode fake_zero(RtStream *s, void *to, size_t bytes, const void *gate, RtError *e)
{
    if (!fake->recording) return rt_cpu_ops.zero(s, to, bytes, gate, e);
    return node(s, (Node){.kernel = -1, .to = to, .bytes = bytes}), RT_OK;
}

static RtCode fake_graph_launch(RtStream *s, RtGraph *g, RtError *e)
{
    static bool done[MOST_NODES];
    Set over = {.recorded = 0};
    memset(done, 0, sizeof done);
    for (int left = g->n; left > 0; left--) {
        int pick = -1, ready = 0, seen = 0;
        for (int i = 0; i < g->n && seen < 32; i++) {
            if (done[i]) continue;
            seen++;
            bool ok = true;
            for (int k = 0; k < WORDS && ok; k++) ok = !(g->node[i].deps.w[k] & ~over.w[k]);
            if (ok && chance((unsigned)++ready) == 0) pick = i;
        }
        CHECK(pick >= 0);
        if (pick < 0) return RT_OK;
        Node *n = &g->node[pick];
        RtCode code = n->kernel < 0 ? rt_cpu_ops.zero(s, n->to, n->bytes, NULL, e)
                                    : rt_cpu_ops.launch(s, n->module, n->kernel, n->argv, e);
        if (code) return code;
        done[pick] = true;
        over.w[pick / 64] |= 1ull << pick % 64;
    }
    if (g->n > fake->steps) fake->launched[g->row ? 0 : 1]++;
    fake->clock += g->n * (g->row ? 1 : fake->side_cost);
    return RT_OK;
}

static RtCode fake_event_new(RtDevice *d, RtEvent **out, RtError *e)
{
    (void)d, (void)e;
    *out = calloc(1, sizeof **out);
    return RT_OK;
}

static void fake_event_free(RtEvent *v)
{
    free(v);
}

static RtCode fake_event_record(RtEvent *v, RtStream *s, RtError *e)
{
    (void)e;
    if (fake->recording) v->after = *tail_of(s);
    v->at = fake->clock;
    return RT_OK;
}

static RtCode fake_event_wait(RtStream *s, RtEvent *v, RtError *e)
{
    (void)e;
    Set *tail = tail_of(s);
    for (int i = 0; i < WORDS; i++) tail->w[i] |= v->after.w[i];
    tail->recorded |= v->after.recorded;
    return RT_OK;
}

static RtCode fake_event_sync(RtEvent *v, RtError *e)
{
    (void)v, (void)e;
    return RT_OK;
}

static RtCode fake_event_seconds(RtEvent *begin, RtEvent *end, double *seconds, RtError *e)
{
    (void)e;
    *seconds = end->at - begin->at;
    return RT_OK;
}

// -- programs -------------------------------------------------------------------------------------------
static const char prelude[] = "typedef struct NcPar NcPar;\n";
static const char k_mix[] =
    "void k_mix(void *const *args, const NcPar *par) {\n"
    "    (void)par;\n"
    "    unsigned long long *o = args[0]; const unsigned long long *a = args[1], *b = args[2];\n"
    "    unsigned long long k = *(unsigned long long *)args[3];\n"
    "    for (int i = 0; i < 2; i++) o[i] = o[i] * 3 + a[i] * 5 + b[i] * 7 + k;\n"
    "}\n";

typedef struct Model {
    Program p;
    ProgCell cells[CELLS];
    char names[CELLS][8];
    ProgEntry entry;
    ProgKernel kernel;
    ProgBuffer buffers[CELLS + TEMPS];
    ProgArg args[STEPS][4];
    ProgStep steps[STEPS];
} Model;

static const ProgType pair = {.dtype = PD_I64, .rank = 1, .dim = {2}};

// The temporaries overlap; each pair of them is zeroed first by one step.
static void build(Model *m)
{
    memset(m, 0, sizeof *m);
    for (int i = 0; i < CELLS; i++) {
        snprintf(m->names[i], sizeof m->names[i], "c%d", i);
        m->cells[i] = (ProgCell){.name = m->names[i], .kind = PC_STATE, .type = pair, .initial = i + 1};
        m->buffers[i] = (ProgBuffer){.region = PR_CELL, .index = i, .bytes = 16, .type = pair, .name = "c"};
    }
    for (int i = 0; i < TEMPS; i++)
        m->buffers[CELLS + i] = (ProgBuffer){.region = PR_ARENA, .offset = (int64_t)chance(ARENA / 8 - 1) * 8,
                                             .bytes = 16, .type = pair, .name = "t"};
    m->kernel = (ProgKernel){.name = "mix", .symbol = "k_mix", .text = k_mix};
    for (int i = 0; i < STEPS; i++) {
        ProgArg *a = m->args[i];
        bool zero = i < TEMPS;
        for (int k = 0; k < 3; k++)
            a[k] = (ProgArg){.kind = PA_BUFFER, .index = (int)chance(CELLS + TEMPS), .written = k == 0};
        a[3] = (ProgArg){.kind = PA_INT, .value = i};
        if (zero) a[0].index = CELLS + i;
        m->steps[i] = (ProgStep){.kind = zero ? PS_ZERO : PS_KERNEL, .bytes = zero ? 16 : 0, .args = a,
                                 .nargs = zero ? 1 : 4, .name = "s", .loc = ""};
    }
    m->entry = (ProgEntry){.name = "main", .kind = PK_MODEL, .nbuffers = CELLS + TEMPS, .buffers = m->buffers,
                           .nsteps = STEPS, .steps = m->steps, .batch = 1, .arena_bytes = ARENA};
    m->p = (Program){.model = "m", .target = "cpu", .ncells = CELLS, .cells = m->cells, .nentries = 1,
                     .entries = &m->entry, .nkernels = 1, .kernels = &m->kernel, .prelude = prelude,
                     .choices = ""};
}

// The cells after so many executions, computed in a row.
static void expect(const Model *m, int times, uint64_t cell[CELLS][2])
{
    uint64_t arena[ARENA / 8] = {0};
    for (int i = 0; i < CELLS; i++) cell[i][0] = cell[i][1] = (uint64_t)i + 1;
    while (times-- > 0)
        for (int i = 0; i < STEPS; i++) {
            uint64_t *at[3];
            for (int k = 0; k < 3; k++) {
                int b = m->args[i][k].index;
                at[k] = b < CELLS ? cell[b] : arena + m->buffers[b].offset / 8;
            }
            for (int k = 0; k < 2; k++)
                at[0][k] = i < TEMPS ? 0 : at[0][k] * 3 + at[1][k] * 5 + at[2][k] * 7 + (uint64_t)i;
        }
}

static void test_random(RtDevice *d, const RtCompileOptions *o)
{
    int branched = 0;
    for (int round = 0; round < 24; round++) {
        Model m;
        RtProgram *p = NULL;
        RtSession *s = NULL;
        RtError e = {0};
        const char *why;
        fake->launched[0] = fake->launched[1] = 0;
        fake->side_cost = round % 2 ? 0.5 : 2;
        fake->steps = STEPS;
        build(&m);
        CHECK_MSG(rt_program_load(d, &m.p, NULL, 0, o, &p, &e) == RT_OK, "%s", e.text);
        if (!p) return;
        CHECK(rt_session_new(d, NULL, &s, &e) == RT_OK && rt_session_attach(s, p, &e) == RT_OK);
        CHECK_MSG(rt_run(s, p, "main", NULL, 0, 2, &e) == RT_OK, "%s", e.text);
        CHECK_MSG(rt_uses_cuda_graph(s, p, "main", &why), "%s", why);
        CHECK(rt_graph_kernel_nodes(s, p, "main") == STEPS);
        CHECK(!fake->launched[0] && !fake->launched[1]); // too short a run to record more
        CHECK_MSG(rt_run(s, p, "main", NULL, 0, 14 * 16 + 5, &e) == RT_OK, "%s", e.text); // 14 a graph
        bool side = fake->launched[1] > 0;
        branched += side;
        if (side) { // three rounds of two launches each, then the faster
            CHECK_MSG(fake->launched[0] == (round % 2 ? 6 : 10) && fake->launched[1] == (round % 2 ? 10 : 6),
                      "%d %d", fake->launched[0], fake->launched[1]);
        } else {
            CHECK(fake->launched[0] == 16);
        }
        // Recorded anew after an address changed, the faster way only.
        RtEntry *en = rt_entry_find(s, p, "main", &e);
        rt_entry_unresolve(s, en);
        int row = fake->launched[0];
        CHECK_MSG(rt_run(s, p, "main", NULL, 0, 100, &e) == RT_OK && rt_sync(s, &e) == RT_OK, "%s", e.text);
        CHECK(!side || (fake->launched[0] > row) == (round % 2 == 0));
        CHECK(rt_graph_kernel_nodes(s, p, "main") == STEPS);
        uint64_t want[CELLS][2], got[2];
        expect(&m, 2 + 14 * 16 + 5 + 100, want);
        for (int i = 0; i < CELLS; i++) {
            CHECK(rt_cell_read(s, m.names[i], got, sizeof got, &e) == RT_OK);
            CHECK_MSG(!memcmp(got, want[i], sizeof got), "round %d: c%d differs", round, i);
        }
        rt_program_free(p);
        rt_session_free(s);
    }
    CHECK_MSG(branched > 12, "%d of 24 programs have branches", branched);
}

// A step that commits waits for every check before it, which it does not name.
static void test_commit(RtDevice *d, const RtCompileOptions *o)
{
    Model m;
    RtProgram *p = NULL;
    RtSession *s = NULL;
    RtError e = {0};
    for (int commits = 0; commits < 2; commits++) {
        build(&m);
        m.buffers[CELLS] = (ProgBuffer){.region = PR_ERROR, .bytes = sizeof(ProgError), .name = "error"};
        m.args[0][0].index = CELLS; // the check
        m.steps[0].kind = PS_ZERO;
        m.args[1][0].index = 1; // a cell
        m.steps[1].kind = PS_ZERO;
        m.steps[1].commits = commits;
        m.entry.nsteps = 2;
        CHECK_MSG(rt_program_load(d, &m.p, NULL, 0, o, &p, &e) == RT_OK, "%s", e.text);
        if (!p) return;
        CHECK(rt_session_new(d, NULL, &s, &e) == RT_OK && rt_session_attach(s, p, &e) == RT_OK);
        RtEntry *en = rt_entry_find(s, p, "main", &e);
        rt_entry_resolve(s, en);
        RtBranches *b = rt_branches_new(s, en);
        CHECK((b == NULL) == (commits == 1));
        rt_branches_free(b);
        rt_program_free(p);
        rt_session_free(s);
    }
}

int main(void)
{
    RtDevice *d = NULL;
    RtError e = {0};
    Fake f = {.ops = rt_cpu_ops, .seed = 5};
    char dir[] = "/tmp/netc-unit-XXXXXX";
    if (!mkdtemp(dir)) return 1;
    RtCompileOptions o = {.cache_dir = dir, .may_spawn = true};
    fake = &f;
    f.ops.capture_begin = fake_begin;
    f.ops.capture_end = fake_end;
    f.ops.graph_launch = fake_graph_launch;
    f.ops.graph_free = fake_graph_free;
    f.ops.launch = fake_launch;
    f.ops.zero = fake_zero;
    f.ops.event_new = fake_event_new;
    f.ops.event_free = fake_event_free;
    f.ops.event_record = fake_event_record;
    f.ops.event_wait = fake_event_wait;
    f.ops.event_sync = fake_event_sync;
    f.ops.event_seconds = fake_event_seconds;
    CHECK(rt_device_open("cpu", &d, &e) == RT_OK);
    d->ops = &f.ops;
    test_random(d, &o);
    test_commit(d, &o);
    d->ops = &rt_cpu_ops;
    rt_device_close(d);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return unit_done();
}
