// Recorded graphs of random programs: several executions, steps side by side.
#include "tests/unit/recorder.h"

enum { STEPS = 14, CELLS = 5, TEMPS = 6, ARENA = 64 };

// -- programs -------------------------------------------------------------------------------------
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
        m->cells[i] =
            (ProgCell){.name = m->names[i], .kind = PC_STATE, .type = pair, .initial = i + 1};
        m->buffers[i] =
            (ProgBuffer){.region = PR_CELL, .index = i, .bytes = 16, .type = pair, .name = "c"};
    }
    for (int i = 0; i < TEMPS; i++)
        m->buffers[CELLS + i] = (ProgBuffer){.region = PR_ARENA,
                                             .offset = (int64_t)chance(ARENA / 8 - 1) * 8,
                                             .bytes = 16,
                                             .type = pair,
                                             .name = "t"};
    m->kernel = (ProgKernel){.name = "mix", .symbol = "k_mix", .text = k_mix};
    for (int i = 0; i < STEPS; i++) {
        ProgArg *a = m->args[i];
        bool zero = i < TEMPS;
        for (int k = 0; k < 3; k++)
            a[k] = (ProgArg){
                .kind = PA_BUFFER, .index = (int)chance(CELLS + TEMPS), .written = k == 0};
        a[3] = (ProgArg){.kind = PA_INT, .value = i};
        if (zero) a[0].index = CELLS + i;
        m->steps[i] = (ProgStep){.kind = zero ? PS_ZERO : PS_KERNEL,
                                 .bytes = zero ? 16 : 0,
                                 .args = a,
                                 .nargs = zero ? 1 : 4,
                                 .name = "s",
                                 .loc = ""};
    }
    m->entry = (ProgEntry){.name = "main",
                           .kind = PK_MODEL,
                           .nbuffers = CELLS + TEMPS,
                           .buffers = m->buffers,
                           .nsteps = STEPS,
                           .steps = m->steps,
                           .batch = 1,
                           .arena_bytes = ARENA};
    m->p = (Program){.model = "m",
                     .target = "cpu",
                     .ncells = CELLS,
                     .cells = m->cells,
                     .nentries = 1,
                     .entries = &m->entry,
                     .nkernels = 1,
                     .kernels = &m->kernel,
                     .prelude = prelude,
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
        CHECK_MSG(rt_run(s, p, "main", NULL, 0, 14 * 16 + 5, &e) == RT_OK, "%s",
                  e.text); // 14 a graph
        bool side = fake->launched[1] > 0;
        branched += side;
        if (side) { // three rounds of two launches each, then the faster; four of the five left
                    // over
            CHECK_MSG(fake->launched[0] == (round % 2 ? 6 : 11) &&
                          fake->launched[1] == (round % 2 ? 11 : 6),
                      "%d %d", fake->launched[0], fake->launched[1]);
        } else {
            CHECK(fake->launched[0] == 17);
        }
        // Recorded anew after an address changed, the faster way only.
        RtEntry *en = rt_entry_find(s, p, "main", &e);
        rt_entry_unresolve(s, en);
        int row = fake->launched[0];
        CHECK_MSG(rt_run(s, p, "main", NULL, 0, 100, &e) == RT_OK && rt_sync(s, &e) == RT_OK, "%s",
                  e.text);
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
        m.buffers[CELLS] =
            (ProgBuffer){.region = PR_ERROR, .bytes = sizeof(ProgError), .name = "error"};
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

// Executions that take long are not gathered: a run seldom has so many.
static void test_long(RtDevice *d, const RtCompileOptions *o)
{
    Model m;
    RtProgram *p = NULL;
    RtSession *s = NULL;
    RtError e = {0};
    build(&m);
    m.kernel.bytes_read = 250 << 20; // about 50 us for each of 8 kernels
    CHECK_MSG(rt_program_load(d, &m.p, NULL, 0, o, &p, &e) == RT_OK, "%s", e.text);
    if (!p) return;
    CHECK(rt_session_new(d, NULL, &s, &e) == RT_OK && rt_session_attach(s, p, &e) == RT_OK);
    CHECK(rt_run(s, p, "main", NULL, 0, 2, &e) == RT_OK);
    CHECK_MSG(rt_run(s, p, "main", NULL, 0, 10, &e) == RT_OK, "%s", e.text);
    int times = rt_graph_executions(s, p, "main");
    CHECK_MSG(times == 4, "%d", times);
    rt_program_free(p);
    rt_session_free(s);
}

static size_t few_bytes;
static size_t needs_few(const RtModule *m, int gemm)
{
    (void)m, (void)gemm;
    return few_bytes;
}

// Two products have the same planned workspace: side by side when their algorithms need little of
// it, and the parts they use do not overlap.
static void test_workspace(RtDevice *d, Fake *f, const RtCompileOptions *o)
{
    enum { ALL = 4096 };
    for (int part = 0; part < 2; part++) {
        Model m;
        RtProgram *p = NULL;
        RtSession *s = NULL;
        RtError e = {0};
        ProgGemm g = {.name = "g",
                      .loc = "",
                      .a_type = PD_F32,
                      .b_type = PD_F32,
                      .c_type = PD_F32,
                      .compute = PD_F32,
                      .m = 2,
                      .n = 1,
                      .k = 2,
                      .lda = 2,
                      .ldb = 1,
                      .ldc = 1,
                      .batch = 1,
                      .workspace = ALL,
                      .choice_key = "g"};
        build(&m);
        m.p.gemms = &g;
        m.p.ngemms = 1;
        m.entry.nsteps = 2;
        m.entry.arena_bytes = ALL;
        for (int i = 0; i < 2; i++) { // c2 and c3 from c0 and c1
            ProgArg *a = m.args[i];
            m.buffers[CELLS + i] =
                (ProgBuffer){.region = PR_ARENA, .bytes = ALL, .type = pair, .name = "w"};
            for (int k = 0; k < 4; k++)
                a[k] = (ProgArg){.kind = PA_BUFFER, .index = k, .written = k > 1};
            a[2].index = 2 + i;
            a[3].index = CELLS + i;
            m.steps[i] = (ProgStep){.kind = PS_GEMM, .args = a, .nargs = 4, .name = "g", .loc = ""};
        }
        f->ops.gemm_scratch = needs_few;
        few_bytes = part ? ALL : 4;
        CHECK_MSG(rt_program_load(d, &m.p, NULL, 0, o, &p, &e) == RT_OK, "%s", e.text);
        if (!p) return;
        CHECK(rt_session_new(d, NULL, &s, &e) == RT_OK && rt_session_attach(s, p, &e) == RT_OK);
        RtEntry *en = rt_entry_find(s, p, "main", &e);
        CHECK(rt_entry_memory(s, en, &e) == RT_OK);
        rt_entry_resolve(s, en);
        const char *one = en->slot[en->step[0].first_arg + 3].p,
                   *two = en->slot[en->step[1].first_arg + 3].p, *arena = s->arena;
        CHECK(one >= arena && two >= arena && one + few_bytes <= arena + ALL &&
              two + few_bytes <= arena + ALL);
        CHECK(part || one + few_bytes <= two || two + few_bytes <= one);
        RtBranches *b = rt_branches_new(s, en);
        CHECK((b != NULL) == (part == 0));
        rt_branches_free(b);
        f->ops.gemm_scratch = NULL;
        rt_program_free(p);
        rt_session_free(s);
    }
}

int main(void)
{
    RtDevice *d = NULL;
    RtError e = {0};
    Fake f;
    char dir[] = "/tmp/netc-unit-XXXXXX";
    if (!mkdtemp(dir)) return 1;
    RtCompileOptions o = {.cache_dir = dir, .may_spawn = true};
    fake_init(&f);
    CHECK(rt_device_open("cpu", NULL, &d, &e) == RT_OK);
    d->ops = &f.ops;
    test_random(d, &o);
    test_commit(d, &o);
    test_long(d, &o);
    test_workspace(d, &f, &o);
    d->ops = &rt_cpu_ops;
    rt_device_close(d);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return unit_done();
}
