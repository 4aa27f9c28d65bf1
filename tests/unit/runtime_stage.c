// A data set that does not fit the device, on a device that is the CPU pretending to have memory of
// its own and too little of it.
#include <stdlib.h>
#include <string.h>

#include "runtime/data.h"
#include "runtime/device.h"
#include "tests/unit/unit.h"

static const char text[] = "typedef struct NcPar { int x; } NcPar;\n"
                           // seen[step] = the sum of the batch; cursor += 4; step += 1
                           "void k(void *const *args, const NcPar *par) {\n"
                           "    (void)par;\n"
                           "    const int *x = args[0], *rows = args[1]; long long *cursor = "
                           "args[2], *seen = args[3], *step = args[4];\n"
                           "    const unsigned char *y = args[5];\n"
                           "    long long s = 0;\n"
                           "    for (int i = 0; i < 4; i++) s += x[2 * rows[*cursor + i]] + 1000 * "
                           "x[2 * rows[*cursor + i] + 1]\n"
                           "        + 1000000LL * y[rows[*cursor + i]];\n"
                           "    seen[(*step)++] = s; *cursor += 4;\n"
                           "}\n";

static size_t small = 1000, host_allocs;
static bool memory(RtDevice *d, size_t *free_bytes, size_t *total_bytes)
{
    (void)d;
    *free_bytes = *total_bytes = small;
    return true;
}

static RtCode host_alloc(RtDevice *d, size_t bytes, void **out, RtError *e)
{
    host_allocs++;
    return rt_cpu_ops.host_alloc(d, bytes, out, e);
}

enum { EXAMPLES = 203, BATCH = 4, STEPS = 50 };

static ProgType type(ProgDType t, int rank, int64_t a, int64_t b)
{
    return (ProgType){.dtype = t, .rank = rank, .dim = {a, b}};
}

static int32_t x[EXAMPLES * 2], rows[EXAMPLES];
static uint8_t y[EXAMPLES];

static void batches_are_right(const int64_t *seen, int64_t first, int round, int classes)
{
    for (int64_t i = 0; i < STEPS - first; i++) {
        int64_t want = 0;
        for (int k = 0; k < BATCH; k++) {
            int32_t r = rows[(first + i) * BATCH + k];
            want += r + 1000 * (r % 7) + 1000000 * (r % classes);
        }
        CHECK_MSG(seen[i] == want, "round %d batch %d: %lld, not %lld", round, (int)i,
                  (long long)seen[i], (long long)want);
    }
}

// An epoch in launches of growing length; in the second round from its middle, as after resuming.
static void epoch(RtSession *s, RtProgram *q, int round, int classes)
{
    RtError e = {0};
    int64_t seen[100], zero = 0, first = round == 1 ? 23 : 0, cursor = first * BATCH;
    rt_shuffle(rows, EXAMPLES, 5, round);
    CHECK_MSG(rt_rows_set(s, q, "train", rows, EXAMPLES, &e) == RT_OK, "%s", e.text);
    CHECK(rt_cell_write(s, "step", &zero, 8, &e) == RT_OK);
    if (first) CHECK(rt_cell_write(s, "@cursor", &cursor, 8, &e) == RT_OK);
    for (int64_t left = STEPS - first, n = 1; left > 0; left -= n, n = n * 2 + 1) {
        if (n > left) n = left;
        CHECK_MSG(rt_run(s, q, "train", NULL, 0, n, &e) == RT_OK && rt_sync(s, &e) == RT_OK, "%s",
                  e.text);
    }
    CHECK(rt_run(s, q, "train", NULL, 0, 1, &e) == RT_USER); // 3 rows are left
    e = (RtError){0};
    CHECK(rt_cell_read(s, "seen", seen, sizeof seen, &e) == RT_OK);
    batches_are_right(seen, first, round, classes);
}

static void staged(RtSession *s, RtProgram *q)
{
    RtError e = {0};
    RtDataBinding b[] = {{"x", x, 8, NULL}, {"y", y, 1, NULL}};
    for (int i = 0; i < EXAMPLES; i++) x[2 * i] = i, x[2 * i + 1] = i % 7;
    for (int round = 0; round < 3; round++) {
        int classes = round < 2 ? 5 : 3;
        for (int i = 0; i < EXAMPLES; i++) y[i] = (uint8_t)(i % classes);
        if (round == 2) { // now it fits; other data lie where the old ones did
            small = 1 << 20;
            host_allocs = 0;
        }
        CHECK_MSG(rt_data_bind(s, q, "train", b, 2, EXAMPLES, &e) == RT_OK, "%s", e.text);
        CHECK(round < 2 ? host_allocs > 0 : host_allocs == 0);
        epoch(s, q, round, classes);
    }
}

// Data as arguments are copied to the device.
static void direct(RtSession *s, RtProgram *q)
{
    RtError e = {0};
    int32_t two[8] = {1, 0, 1, 0, 1, 0, 1, 0};
    uint8_t labels[4] = {1, 1, 1, 1};
    RtInput in[] = {{"x", two, false}, {"y", labels, false}};
    int64_t seen[100], zero = 0;
    CHECK(rt_cell_write(s, "step", &zero, 8, &e) == RT_OK);
    CHECK_MSG(rt_run(s, q, "train", in, 2, 2, &e) == RT_OK && rt_sync(s, &e) == RT_OK, "%s",
              e.text);
    CHECK(rt_cell_read(s, "seen", seen, sizeof seen, &e) == RT_OK && seen[0] == 4000004 &&
          seen[1] == 4000004);
}

int main(void)
{
    RtDeviceOps ops = rt_cpu_ops;
    ops.unified = false;
    ops.memory = memory;
    ops.host_alloc = host_alloc;
    ProgCell cells[] = {
        {.name = "@cursor", .kind = PC_CONTROL, .type = type(PD_I64, 0, 0, 0)},
        {.name = "seen", .kind = PC_STATE, .type = type(PD_I64, 1, 100, 0), .initial = -1},
        {.name = "step", .kind = PC_STATE, .type = type(PD_I64, 0, 0, 0)}};
    ProgInput inputs[] = {{.name = "x", .type = type(PD_I32, 2, BATCH, 2), .data = true},
                          {.name = "y", .type = type(PD_U8, 1, BATCH, 0), .data = true}};
    ProgBuffer buffers[] = {{.region = PR_INPUT},
                            {.region = PR_ROWS},
                            {.region = PR_CELL, .index = 0},
                            {.region = PR_CELL, .index = 1},
                            {.region = PR_CELL, .index = 2},
                            {.region = PR_INPUT, .index = 1}};
    ProgArg args[6];
    for (int i = 0; i < 6; i++) args[i] = (ProgArg){.kind = PA_BUFFER, .index = i};
    ProgStep step = {.kind = PS_KERNEL, .nargs = 6, .args = args};
    ProgKernel kernel = {.name = "k", .symbol = "k", .text = text};
    ProgEntry entry = {.name = "train",
                       .kind = PK_TRAIN,
                       .ninputs = 2,
                       .inputs = inputs,
                       .nbuffers = 6,
                       .buffers = buffers,
                       .nsteps = 1,
                       .steps = &step,
                       .rows = true,
                       .cursor = "@cursor",
                       .batch = BATCH};
    Program p = {.model = "m",
                 .target = "cpu",
                 .ncells = 3,
                 .cells = cells,
                 .nentries = 1,
                 .entries = &entry,
                 .nkernels = 1,
                 .kernels = &kernel,
                 .choices = ""};
    RtDevice *d;
    RtProgram *q;
    RtSession *s;
    RtError e = {0};
    RtCompileOptions o = {.may_spawn = true};
    CHECK(rt_device_open("cpu", NULL, &d, &e) == RT_OK);
    d->ops = &ops;
    CHECK_MSG(rt_program_load(d, &p, NULL, 0, &o, &q, &e) == RT_OK, "%s", e.text);
    CHECK(rt_session_new(d, NULL, &s, &e) == RT_OK && rt_session_attach(s, q, &e) == RT_OK);
    staged(s, q);
    direct(s, q);
    rt_program_free(q);
    rt_session_free(s);
    d->ops = &rt_cpu_ops;
    rt_device_close(d);
    return unit_done();
}
