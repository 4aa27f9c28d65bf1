// The executor and the CPU device on Programs built by hand.
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data.h"
#include "runtime/device.h"
#include "tests/unit/unit.h"

static const char prelude[] =
    "#include <math.h>\n"
    "typedef struct NcPar { void (*run)(void *ctx, long n, void (*body)(void *arg, long begin, "
    "long end),\n"
    "    void *arg); void *ctx; } NcPar;\n"
    "typedef struct Err { unsigned code, r; long long value, index, step; } Err;\n";

// w += x[rows[cursor + i]] summed over the batch of 2; cursor += 2. Gated by the error record; a
// value over 100 fails check 1.
static const char k_step[] =
    "void k_step(void *const *args, const NcPar *par) {\n"
    "    (void)par;\n"
    "    const float *x = args[0]; const int *rows = args[1]; long long *cursor = args[2];\n"
    "    float *w = args[3]; Err *err = args[4]; float *out = args[5];\n"
    "    float s = 0;\n"
    "    for (int i = 0; i < 2; i++) s += x[rows[*cursor + i]];\n"
    "    if (s > 100 && !err->code) { err->code = 1; err->value = (long long)s; err->index = 3; }\n"
    "    *out = s;\n"
    "    if (err->code) return;\n"
    "    *w += s; *cursor += 2;\n"
    "}\n";
// y[i] = 10 * outer + inner, at the places the loops' strides give
static const char k_loop[] = "void k_loop(void *const *args, const NcPar *par) {\n"
                             "    (void)par;\n"
                             "    float *y = args[0]; long long outer = *(long long *)args[1], "
                             "inner = *(long long *)args[2];\n"
                             "    long long c = *(long long *)args[3];\n"
                             "    *y = (float)(c * outer + inner);\n"
                             "}\n";

static ProgType type(ProgDType t, int rank, int64_t a, int64_t b)
{
    ProgType p = {.dtype = t, .rank = rank};
    p.dim[0] = a;
    p.dim[1] = b;
    return p;
}

typedef struct Model {
    Program p;
    ProgCell cells[2];
    ProgEntry entries[3];
    ProgKernel kernels[2];
    ProgGemm gemm;
    ProgBuffer train_buffers[6], loop_buffers[1], mm_buffers[4];
    ProgArg train_args[6], loop_args[4], mm_args[4];
    ProgStep train_steps[1], loop_steps[3], mm_steps[1];
    ProgInput train_inputs[1], mm_inputs[3];
    ProgOutput train_outputs[1], loop_outputs[1], mm_outputs[1];
    ProgCheck checks[1];
} Model;

static ProgArg buffer(int i, bool written)
{
    return (ProgArg){.kind = PA_BUFFER, .index = i, .written = written};
}

static void build_train(Model *m)
{
    m->cells[0] =
        (ProgCell){.name = "w", .kind = PC_PARAM, .type = type(PD_F32, 1, 1, 0), .initial = 0.5};
    m->cells[1] = (ProgCell){.name = "@cursor", .kind = PC_CONTROL, .type = type(PD_I64, 0, 0, 0)};
    m->kernels[0] = (ProgKernel){.name = "step", .symbol = "k_step", .text = k_step};
    m->train_inputs[0] = (ProgInput){.name = "x", .type = type(PD_F32, 1, 2, 0), .data = true};
    m->train_outputs[0] = (ProgOutput){.name = "s", .type = type(PD_F32, 0, 0, 0)};
    ProgRegion regions[] = {PR_INPUT, PR_ROWS, PR_CELL, PR_CELL, PR_ERROR, PR_OUTPUT};
    int index[] = {0, 0, 1, 0, 0, 0};
    for (int i = 0; i < 6; i++) {
        m->train_buffers[i] =
            (ProgBuffer){.region = regions[i], .index = index[i], .bytes = 8, .name = "b"};
        m->train_args[i] = buffer(i, i >= 2);
    }
    m->train_steps[0] = (ProgStep){.kind = PS_KERNEL,
                                   .nargs = 6,
                                   .args = m->train_args,
                                   .name = "step",
                                   .loc = "m.net:3",
                                   .commits = true};
    m->checks[0] =
        (ProgCheck){.kind = CHECK_INDEX, .message = "index of x", .loc = "m.net:3", .bound = 100};
    m->entries[0] = (ProgEntry){.name = "train",
                                .kind = PK_TRAIN,
                                .ninputs = 1,
                                .inputs = m->train_inputs,
                                .noutputs = 1,
                                .outputs = m->train_outputs,
                                .nbuffers = 6,
                                .buffers = m->train_buffers,
                                .nsteps = 1,
                                .steps = m->train_steps,
                                .nchecks = 1,
                                .checks = m->checks,
                                .rows = true,
                                .cursor = "@cursor",
                                .batch = 2};
}

// for outer in reverse 0..3 { for inner in 0..4 { y[outer][inner] = 10 * outer + inner } }
static void build_loops(Model *m)
{
    m->kernels[1] = (ProgKernel){.name = "loop", .symbol = "k_loop", .text = k_loop};
    m->loop_outputs[0] = (ProgOutput){.name = "y", .type = type(PD_F32, 2, 3, 4)};
    m->loop_buffers[0] = (ProgBuffer){.region = PR_OUTPUT, .bytes = 48};
    m->loop_args[0] = buffer(0, true);
    m->loop_args[0].stride[0] = 16;
    m->loop_args[0].stride[1] = 4;
    m->loop_args[1] = (ProgArg){.kind = PA_LOOP_INDEX, .index = 0};
    m->loop_args[2] = (ProgArg){.kind = PA_LOOP_INDEX, .index = 1};
    m->loop_args[3] = (ProgArg){.kind = PA_INT, .value = 10};
    m->loop_steps[0] =
        (ProgStep){.kind = PS_LOOP, .count = 3, .first_step = 1, .last_step = 3, .reverse = true};
    m->loop_steps[1] =
        (ProgStep){.kind = PS_LOOP, .count = 4, .first_step = 2, .last_step = 3, .depth = 1};
    m->loop_steps[2] =
        (ProgStep){.kind = PS_KERNEL, .index = 1, .nargs = 4, .args = m->loop_args, .depth = 2};
    m->entries[1] = (ProgEntry){.name = "loops",
                                .kind = PK_MODEL,
                                .noutputs = 1,
                                .outputs = m->loop_outputs,
                                .nbuffers = 1,
                                .buffers = m->loop_buffers,
                                .nsteps = 3,
                                .steps = m->loop_steps,
                                .batch = 1};
}

// relu(a (37, 50) * b (50, 41) + bias)
static void build_mm(Model *m)
{
    m->gemm = (ProgGemm){.name = "mm",
                         .a_type = PD_F32,
                         .b_type = PD_F32,
                         .c_type = PD_F32,
                         .compute = PD_F32,
                         .m = 37,
                         .n = 41,
                         .k = 50,
                         .lda = 50,
                         .ldb = 41,
                         .ldc = 41,
                         .batch = 1,
                         .epilogue = PE_RELU_BIAS};
    m->mm_inputs[0] = (ProgInput){.name = "a", .type = type(PD_F32, 2, 37, 50)};
    m->mm_inputs[1] = (ProgInput){.name = "b", .type = type(PD_F32, 2, 50, 41)};
    m->mm_inputs[2] = (ProgInput){.name = "bias", .type = type(PD_F32, 1, 41, 0)};
    m->mm_outputs[0] = (ProgOutput){.name = "c", .type = type(PD_F32, 2, 37, 41)};
    int order[] = {0, 1, 3, 2};
    for (int i = 0; i < 4; i++) {
        m->mm_buffers[i] =
            (ProgBuffer){.region = i < 3 ? PR_INPUT : PR_OUTPUT, .index = i < 3 ? i : 0};
        m->mm_args[i] = buffer(order[i], order[i] == 3);
    }
    m->mm_steps[0] = (ProgStep){.kind = PS_GEMM, .nargs = 4, .args = m->mm_args};
    m->entries[2] = (ProgEntry){.name = "mm",
                                .kind = PK_MODEL,
                                .ninputs = 3,
                                .inputs = m->mm_inputs,
                                .noutputs = 1,
                                .outputs = m->mm_outputs,
                                .nbuffers = 4,
                                .buffers = m->mm_buffers,
                                .nsteps = 1,
                                .steps = m->mm_steps,
                                .batch = 1};
}

static void build(Model *m)
{
    memset(m, 0, sizeof *m);
    build_train(m);
    build_loops(m);
    build_mm(m);
    m->p = (Program){.model = "m",
                     .target = "cpu",
                     .ncells = 2,
                     .cells = m->cells,
                     .nentries = 3,
                     .entries = m->entries,
                     .nkernels = 2,
                     .kernels = m->kernels,
                     .ngemms = 1,
                     .gemms = &m->gemm,
                     .prelude = prelude,
                     .choices = ""};
}

static float cell(RtSession *s)
{
    RtError e = {0};
    float w = -1;
    CHECK(rt_cell_read(s, "w", &w, sizeof w, &e) == RT_OK);
    return w;
}

static void test_train(RtSession *s, RtProgram *p)
{
    RtError e = {0};
    float x[6] = {1, 2, 3, 4, 5, 1000}, out;
    int32_t rows[6] = {4, 3, 0, 1, 5, 5};
    RtDataBinding b = {"x", x, 4, NULL};
    CHECK(fabsf(cell(s) - 0.5f) < 1e-6);
    CHECK(rt_run(s, p, "train", NULL, 0, 1, &e) == RT_USER); // nothing bound
    e = (RtError){0};
    CHECK_MSG(rt_data_bind(s, p, "train", &b, 1, 6, &e) == RT_OK, "%s", e.text);
    CHECK(rt_rows_set(s, p, "train", (int32_t[]){6}, 1, &e) == RT_USER);
    e = (RtError){0};
    CHECK_MSG(rt_rows_set(s, p, "train", rows, 6, &e) == RT_OK, "%s", e.text);
    CHECK_MSG(rt_run(s, p, "train", NULL, 0, 2, &e) == RT_OK, "%s", e.text);
    CHECK_MSG(rt_sync(s, &e) == RT_OK, "%s", e.text);
    CHECK(cell(s) == 12.5f);
    CHECK(rt_output_read(s, p, "train", "s", &out, sizeof out, &e) == RT_OK && out == 3);
    // The third batch fails its check: nothing changes, later executions neither.
    CHECK(rt_run(s, p, "train", NULL, 0, 2, &e) == RT_USER); // only one batch is left
    e = (RtError){0};
    CHECK(rt_run(s, p, "train", NULL, 0, 1, &e) == RT_OK);
    CHECK(rt_sync(s, &e) == RT_CHECK);
    CHECK_MSG(strstr(e.text, "m.net:3: index of x: 2000 at element 3 is outside 0..100") != NULL,
              "%s", e.text);
    CHECK(cell(s) == 12.5f);
    e = (RtError){0};
    CHECK(rt_sync(s, &e) == RT_OK); // told once
    // The same batch again after the cursor is moved.
    int64_t cursor = 2;
    CHECK(rt_cell_write(s, "@cursor", &cursor, 8, &e) == RT_OK);
    CHECK(rt_run(s, p, "train", NULL, 0, 1, &e) == RT_OK && rt_sync(s, &e) == RT_OK);
    CHECK(cell(s) == 15.5f);
    // Inputs instead of the table.
    float direct[2] = {0.25f, 0.25f};
    RtInput in = {"x", direct, false};
    CHECK_MSG(rt_run(s, p, "train", &in, 1, 3, &e) == RT_OK && rt_sync(s, &e) == RT_OK, "%s",
              e.text);
    CHECK(cell(s) == 17.0f);
    // And the table again.
    CHECK(rt_rows_set(s, p, "train", rows, 4, &e) == RT_OK);
    CHECK(rt_run(s, p, "train", NULL, 0, 2, &e) == RT_OK && rt_sync(s, &e) == RT_OK);
    CHECK(cell(s) == 29.0f);
}

static void test_loops(RtSession *s, RtProgram *p)
{
    RtError e = {0};
    float y[12];
    CHECK(rt_run(s, p, "loops", NULL, 0, 1, &e) == RT_OK && rt_sync(s, &e) == RT_OK);
    CHECK(rt_output_read(s, p, "loops", "y", y, sizeof y, &e) == RT_OK);
    for (int i = 0; i < 12; i++) CHECK(y[i] == (float)(10 * (i / 4) + i % 4));
    CHECK(rt_output_read(s, p, "loops", "y", y, 4, &e) == RT_USER);
}

static void test_matmul(RtSession *s, RtProgram *p)
{
    RtError e = {0};
    static float a[37 * 50], b[50 * 41], bias[41], c[37 * 41];
    for (int i = 0; i < 37 * 50; i++) a[i] = (float)(i % 17 - 8) / 8;
    for (int i = 0; i < 50 * 41; i++) b[i] = (float)(i % 13 - 6) / 4;
    for (int i = 0; i < 41; i++) bias[i] = (float)i - 20;
    RtInput in[] = {{"a", a, false}, {"b", b, false}, {"bias", bias, false}};
    CHECK(rt_run(s, p, "mm", in, 2, 1, &e) == RT_USER && strstr(e.text, "'bias'"));
    e = (RtError){0};
    CHECK_MSG(rt_run(s, p, "mm", in, 3, 1, &e) == RT_OK && rt_sync(s, &e) == RT_OK, "%s", e.text);
    CHECK(rt_output_read(s, p, "mm", "c", c, sizeof c, &e) == RT_OK);
    for (int i = 0; i < 37; i++)
        for (int j = 0; j < 41; j++) {
            double v = bias[j];
            for (int k = 0; k < 50; k++) v += (double)a[i * 50 + k] * b[k * 41 + j];
            CHECK(fabs(c[i * 41 + j] - (v < 0 ? 0 : v)) < 1e-3);
        }
}

static void test_errors(RtDevice *d, Model *m)
{
    RtError e = {0};
    RtCompileOptions o = {.may_spawn = true};
    RtProgram *p = NULL;
    RtSession *s = NULL;
    m->kernels[0].text = "void k_step(void *const *args, const NcPar *par) { this is not C }\n";
    CHECK(rt_program_load(d, &m->p, NULL, 0, &o, &p, &e) == RT_ENV && !p);
    CHECK_MSG(strstr(e.text, "this") != NULL, "%s", e.text);
    m->kernels[0].text = k_step;
    e = (RtError){0};
    o.may_spawn = false;
    CHECK(rt_program_load(d, &m->p, NULL, 0, &o, &p, &e) == RT_ENV &&
          strstr(e.text, "not allowed"));
    e = (RtError){0};
    CHECK(rt_device_open("gpu", NULL, &d, &e) == RT_USER);
    (void)s;
}

static long par_calls;
static void par(void *user, long n, void (*body)(void *arg, long begin, long end), void *arg)
{
    (void)user;
    par_calls++;
    for (long i = n - 1; i >= 0; i--) body(arg, i, i + 1);
}

// Every entry of the cache becomes a whole one, under its own key, that is no object.
static int spoil(const RtCompileOptions *o)
{
    int n = 0;
    DIR *d = opendir(o->cache_dir);
    for (struct dirent *x; d && (x = readdir(d));) {
        char path[600];
        RtKey k;
        snprintf(path, sizeof path, "%s/%s", o->cache_dir, x->d_name);
        FILE *f = x->d_name[0] == '.' ? NULL : fopen(path, "rb");
        bool read = f && !fseek(f, 8, SEEK_SET) && fread(&k, sizeof k, 1, f) == 1;
        if (f) fclose(f);
        if (!read) continue;
        rt_cache_put(o, k, "no object", 9);
        n++;
    }
    if (d) closedir(d);
    return n;
}

int main(void)
{
    Model m;
    RtDevice *d = NULL;
    RtProgram *p = NULL;
    RtSession *s = NULL, *shared = NULL;
    RtError e = {0};
    char dir[] = "/tmp/netc-unit-XXXXXX";
    if (!mkdtemp(dir)) return 1;
    RtCompileOptions o = {.cache_dir = dir, .may_spawn = true};
    build(&m);
    CHECK(rt_device_open("cpu", NULL, &d, &e) == RT_OK && !rt_device_is_cuda(d));
    CHECK_MSG(rt_program_load(d, &m.p, NULL, 0, &o, &p, &e) == RT_OK, "%s", e.text);
    if (!p) return unit_done();
    CHECK(rt_session_new(d, NULL, &s, &e) == RT_OK);
    CHECK_MSG(rt_session_attach(s, p, &e) == RT_OK, "%s", e.text);
    CHECK(rt_cell_count(s) == 2 && !strcmp(rt_cell_info(s, 0)->name, "w"));
    test_train(s, p);
    test_loops(s, p);
    test_matmul(s, p);
    RtProgram *again = NULL;
    CHECK(spoil(&o) == 1);
    CHECK_MSG(rt_program_load(d, &m.p, NULL, 0, &o, &again, &e) == RT_OK, "%s", e.text);
    rt_program_free(again);
    // Another program of the session brings the same cell with another type.
    Model other;
    RtProgram *q = NULL;
    build(&other);
    other.cells[0].type = type(PD_F32, 1, 7, 0);
    o.may_spawn = false; // from the cache
    CHECK_MSG(rt_program_load(d, &other.p, NULL, 0, &o, &q, &e) == RT_OK, "%s", e.text);
    CHECK(rt_session_attach(s, q, &e) == RT_USER && strstr(e.text, "f32[1]") &&
          strstr(e.text, "f32[7]"));
    rt_program_free(q);
    // Shared cells, the host's threads.
    e = (RtError){0};
    RtSessionOptions so = {.share = s, .parallel_for = par};
    CHECK(rt_session_new(d, &so, &shared, &e) == RT_OK &&
          rt_session_attach(shared, p, &e) == RT_OK);
    CHECK(cell(shared) == 29.0f);
    test_matmul(shared, p);
    RtProfile profile;
    RtProfileOptions po = {.repeats = 3, .cold = true};
    Arena *a = arena_new();
    CHECK(rt_profile(shared, p, "mm", &po, a, &profile, &e) == RT_OK && profile.nsteps == 1 &&
          profile.steps[0].calls == 1 && profile.nslices == 1 && profile.slices[0].at == 0 &&
          profile.steps[0].low <= profile.steps[0].high && profile.apart > 0);
    double seconds[2], rate;
    CHECK(rt_time(shared, p, "mm", 3, 2, seconds, &e) == RT_OK && seconds[0] > 0);
    CHECK(rt_copy_rate(d, &rate, &e) == RT_OK && rate > 0);
    CHECK(rt_time(shared, p, "mm", 0, 2, seconds, &e) == RT_USER);
    e = (RtError){0};
    arena_free(a);
    rt_program_free(p); // sessions keep it
    rt_session_free(s);
    test_matmul(shared, p);
    rt_session_free(shared);
    test_errors(d, &m);
    rt_device_close(d);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return unit_done();
}
