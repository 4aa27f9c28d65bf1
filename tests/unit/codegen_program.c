// A program as bytes: written and read back it is the same bytes; damage is refused, never a crash.
#include <string.h>

#include "codegen/program.h"
#include "tests/unit/unit.h"

static ProgType type(ProgDType t, int rank, int64_t d0, int64_t d1)
{
    return (ProgType){.dtype = t, .rank = rank, .dim = {d0, d1}};
}

static ProgArg arg(int32_t buffer, bool written)
{
    return (ProgArg){.kind = PA_BUFFER, .index = buffer, .written = written};
}

static void add_tables(Arena *a, Program *p)
{
    p->ncells = 2;
    p->cells = NEW_ARRAY(a, ProgCell, 2);
    p->cells[0] = (ProgCell){.name = "w", .type = type(PD_F32, 2, 8, 4), .initial = 0.1};
    p->cells[1] = (ProgCell){.name = "@cursor", .kind = PC_CONTROL, .type = type(PD_I64, 0, 0, 0)};
    p->nconsts = 1;
    p->consts = NEW_ARRAY(a, ProgConst, 1);
    p->consts[0] = (ProgConst){.type = type(PD_I64, 1, 3, 0), .data = "01234567abcdefgh76543210"};
    p->nkernels = 1;
    p->kernels = NEW_ARRAY(a, ProgKernel, 1);
    p->kernels[0] = (ProgKernel){.name = "relu_1",
                                 .identity = 0x1234567890abcdefu,
                                 .text = "void k_1(void){}",
                                 .symbol = "k_1",
                                 .annotated = "// relu",
                                 .grid = {2, 1, 1},
                                 .block = {128, 1, 1},
                                 .flops = 7,
                                 .floor_seconds = 1e-7,
                                 .schedule = "fast"};
    p->ngemms = 1;
    p->gemms = NEW_ARRAY(a, ProgGemm, 1);
    p->gemms[0] = (ProgGemm){.name = "mm",
                             .loc = "m.net:1",
                             .a_type = PD_F32,
                             .b_type = PD_F32,
                             .c_type = PD_F32,
                             .compute = PD_F32,
                             .trans_b = true,
                             .m = 16,
                             .n = 8,
                             .k = 4,
                             .lda = 4,
                             .ldb = 4,
                             .ldc = 8,
                             .batch = 1,
                             .epilogue = PE_BIAS,
                             .workspace = 256,
                             .choice_key = "gemm x"};
}

static void add_interface(Arena *a, ProgEntry *e)
{
    e->name = "train";
    e->kind = PK_TRAIN;
    e->batch = 16;
    e->rows = true;
    e->cursor = "@cursor";
    e->arena_bytes = 2048;
    e->peak_bytes = 2000;
    e->ninputs = 1;
    e->inputs = NEW_ARRAY(a, ProgInput, 1);
    e->inputs[0] = (ProgInput){.name = "x",
                               .type = type(PD_F32, 2, 16, 4),
                               .batch_axis_micro = 1,
                               .noutputs = 1,
                               .outputs = NEW_ARRAY(a, int32_t, 1)};
    e->noutputs = 1;
    e->outputs = NEW_ARRAY(a, ProgOutput, 1);
    e->outputs[0] = (ProgOutput){.name = "y", .type = type(PD_F32, 2, 16, 8)};
    e->ndims = 1;
    e->dims = NEW_ARRAY(a, ProgDim, 1);
    e->dims[0] = (ProgDim){.name = "batch", .value = 16, .batch = true};
    e->nchecks = 1;
    e->checks = NEW_ARRAY(a, ProgCheck, 1);
    e->checks[0] =
        (ProgCheck){.kind = CHECK_INDEX, .message = "label", .loc = "m.net:3", .bound = 10};
}

static void add_buffers(Arena *a, ProgEntry *e)
{
    const ProgBuffer buffers[] = {
        {.name = "w", .region = PR_CELL, .index = 0, .bytes = 128, .type = type(PD_F32, 2, 8, 4)},
        {.name = "x", .region = PR_INPUT, .bytes = 256, .type = type(PD_F32, 2, 16, 4)},
        {.name = "y", .region = PR_OUTPUT, .bytes = 512, .type = type(PD_F32, 2, 16, 8)},
        {.name = "t", .offset = 0, .bytes = 512, .last = 3, .type = type(PD_F32, 2, 16, 8)},
        {.name = "ws", .offset = 512, .bytes = 256, .type = type(PD_U8, 1, 256, 0)},
        {.name = "err",
         .region = PR_ERROR,
         .bytes = sizeof(ProgError),
         .type = type(PD_U8, 1, 32, 0)},
        {.name = "rows", .region = PR_ROWS, .type = type(PD_I32, 0, 0, 0)},
        {.name = "bias", .offset = 768, .bytes = 32, .type = type(PD_F32, 1, 8, 0)},
        {.name = "one", .region = PR_CONST, .bytes = 24, .type = type(PD_I64, 1, 3, 0)},
    };
    e->nbuffers = sizeof buffers / sizeof *buffers;
    e->buffers = NEW_ARRAY(a, ProgBuffer, e->nbuffers);
    memcpy(e->buffers, buffers, sizeof buffers);
}

static void add_steps(Arena *a, ProgEntry *e)
{
    e->nsteps = 5;
    e->steps = NEW_ARRAY(a, ProgStep, 5);
    for (int i = 0; i < 5; i++) e->steps[i].args = NEW_ARRAY(a, ProgArg, 8);
    ProgStep *s = e->steps;
    s[0].kind = PS_ZERO;
    s[0].bytes = 32;
    s[0].nargs = 1;
    s[0].args[0] = arg(7, true);
    s[1].kind = PS_GEMM;
    s[1].nargs = 5;
    s[1].args[0] = arg(1, false);
    s[1].args[1] = arg(0, false);
    s[1].args[2] = arg(3, true);
    s[1].args[3] = arg(7, false);
    s[1].args[4] = arg(4, true);
    s[2].kind = PS_LOOP;
    s[2].count = 3;
    s[2].first_step = 3;
    s[2].last_step = 4;
    s[3].kind = PS_KERNEL;
    s[3].depth = 1;
    s[3].nargs = 7;
    s[3].commits = true;
    s[3].name = "relu_1";
    s[3].args[0] = arg(3, false);
    s[3].args[1] = arg(0, true);
    s[3].args[2] = arg(5, false);
    s[3].args[3] = arg(6, false);
    s[3].args[4] = (ProgArg){.kind = PA_LOOP_INDEX, .index = 0};
    s[3].args[5] = arg(8, false);
    s[3].args[5].stride[0] = 8;
    s[3].args[6] = (ProgArg){.kind = PA_INT, .value = -5};
    s[4].kind = PS_COPY;
    s[4].bytes = 512;
    s[4].nargs = 2;
    s[4].args[0] = arg(3, false);
    s[4].args[1] = arg(2, true);
}

// A program with one of everything.
static Program *sample(Arena *a)
{
    Program *p = NEW(a, Program);
    p->arena = a;
    p->model = "m";
    p->target = "sm_90";
    p->cuda = true;
    p->prelude = "// prelude\n";
    p->choices = "gemm x 3\n";
    p->nentries = 1;
    p->entries = NEW_ARRAY(a, ProgEntry, 1);
    add_tables(a, p);
    add_interface(a, &p->entries[0]);
    add_buffers(a, &p->entries[0]);
    add_steps(a, &p->entries[0]);
    return p;
}

// Each is possible, all of them are not.
static void add_outputs(Arena *a, ProgEntry *e)
{
    static const char *const name[] = {"b", "c"};
    ProgOutput *out = NEW_ARRAY(a, ProgOutput, 3);
    out[0] = e->outputs[0];
    for (int i = 0; i < 2; i++)
        out[1 + i] = (ProgOutput){.name = name[i], .type = type(PD_U8, 1, (int64_t)3 << 46, 0)};
    e->outputs = out;
    e->noutputs = 3;
}

static void add_input(Arena *a, ProgEntry *e)
{
    ProgInput *in = NEW_ARRAY(a, ProgInput, 2);
    in[0] = e->inputs[0];
    in[1] = (ProgInput){.name = "z", .type = type(PD_U8, 2, INT64_MAX, 0), .batch_axis_micro = 1};
    e->inputs = in;
    e->ninputs = 2;
}

static void refused(Arena *a, const char *what, Program *p)
{
    const char *why = program_validate(p), *error;
    CHECK_MSG(why != NULL, "%s was taken", what);
    Buf b = buf_new(a);
    program_write(p, &b);
    CHECK(!program_read(a, b.data, b.len, &error) && error);
}

// What was written reads back as the same program.
static Buf round_trip(Arena *a)
{
    const char *error;
    Program *p = sample(a);
    const char *wrong = program_validate(p);
    CHECK_MSG(!wrong, "%s", wrong);
    Buf first = buf_new(a), again = buf_new(a), print = buf_new(a), print2 = buf_new(a);
    program_write(p, &first);
    Program *q = program_read(a, first.data, first.len, &error);
    CHECK_MSG(q != NULL, "%s", error);
    if (q) {
        program_write(q, &again);
        CHECK(first.len == again.len && !memcmp(first.data, again.data, first.len));
        program_print(p, &print);
        program_print(q, &print2);
        CHECK(!strcmp(print.data, print2.data));
        CHECK(strstr(print.data, "matmul") && strstr(print.data, "loop") &&
              strstr(print.data, "relu_1"));
        CHECK(program_entry(q, "train") && !program_entry(q, "eval"));
    }
    return first;
}

static void damaged(Arena *a, Buf first)
{
    const char *error;
    // Cut short anywhere: refused.
    for (size_t n = 0; n < first.len; n++) {
        char *cut = arena_alloc(a, n + 1);
        memcpy(cut, first.data, n);
        CHECK(!program_read(a, cut, n, &error) && error);
    }
    // Any byte changed: refused or sound, and then writing it works.
    for (size_t i = 0; i < first.len; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            char *bad = arena_alloc(a, first.len);
            memcpy(bad, first.data, first.len);
            bad[i] ^= (char)(1 << bit);
            Program *r = program_read(a, bad, first.len, &error);
            Buf out = buf_new(a);
            if (r) program_print(r, &out), program_write(r, &out);
            CHECK(r || error);
        }
}

static void impossible(Arena *a)
{
    // What would lead the runtime outside.
#define BREAK(what, change)                                                                        \
    do {                                                                                           \
        Program *p = sample(a);                                                                    \
        ProgEntry *e = &p->entries[0];                                                             \
        (void)e;                                                                                   \
        change;                                                                                    \
        refused(a, what, p);                                                                       \
    } while (0)
    BREAK("a buffer past the arena", e->buffers[3].offset = 1792);
    BREAK("a negative offset", e->buffers[3].offset = -256);
    BREAK("an offset into a cell", e->buffers[0].offset = 16);
    BREAK("outputs that together overflow", add_outputs(a, e));
    BREAK("an axis hidden by an empty one", add_input(a, e));
    BREAK("a copy of the row table", (e->steps[4].bytes = 0, e->steps[4].args[0].index = 6));
    BREAK("a matmul of a data set", e->inputs[0].data = true);
    BREAK("an input needed for an output that is not there", e->inputs[0].outputs[0] = 1);
    BREAK("a cell of another size", e->buffers[0].bytes = 64);
    BREAK("a cell that is not there", e->buffers[0].index = 2);
    BREAK("an input that is not there", e->buffers[1].index = -1);
    BREAK("a kernel that is not there", e->steps[3].index = 1);
    BREAK("a matmul that is not there", e->steps[1].index = -1);
    BREAK("a matmul too large for its buffers", p->gemms[0].m = 17);
    BREAK("a matmul with a short row", p->gemms[0].lda = 3);
    BREAK("a matmul with a long row", p->gemms[0].lda = 5);
    BREAK("a matmul with too many batches", (p->gemms[0].batch = 2, p->gemms[0].stride_c = 128));
    BREAK("a matmul without its bias", e->steps[1].nargs = 4);
    BREAK("a copy past its end", e->steps[4].bytes = 513);
    BREAK("a copy to a constant", e->steps[4].args[1].index = 8);
    BREAK("a zero past its end", e->steps[0].bytes = 33);
    BREAK("a stride that leaves", e->steps[3].args[5].stride[0] = 16);
    BREAK("a stride outside a loop", e->steps[4].args[0].stride[0] = 8);
    BREAK("a stride backwards", e->steps[3].args[5].stride[0] = -8);
    BREAK("a stride that leaves from further on", e->steps[3].args[5].value = 16);
    BREAK("a copy that begins too far on", e->steps[4].args[0].value = 4);
    BREAK("a copy that begins before its buffer", e->steps[4].args[0].value = -4);
    BREAK("an iteration outside a loop", e->steps[3].args[4].index = 1);
    BREAK("a loop past the end", e->steps[2].last_step = 6);
    BREAK("a loop before itself", e->steps[2].first_step = 2);
    BREAK("an empty loop", e->steps[2].last_step = 3);
    BREAK("a wrong depth", e->steps[3].depth = 0);
    BREAK("rows without rows", e->rows = false);
    BREAK("a cursor that is no cell", e->cursor = "w");
    BREAK("two cells with the same name", p->cells[1].name = "w");
    BREAK("a size that overflows",
          (p->cells[0].type.dim[0] = (int64_t)1 << 40, p->cells[0].type.dim[1] = (int64_t)1 << 40));
    BREAK("a kernel without threads", p->kernels[0].block[0] = 0);
    BREAK("a kernel with too many threads", p->kernels[0].block[1] = 64);
    BREAK("a symbol that is no name", p->kernels[0].symbol = "k; system");
#undef BREAK
}

int main(void)
{
    Arena *a = arena_new();
    jmp_buf oom;
    if (setjmp(oom)) return 2;
    arena_on_oom(a, &oom);
    damaged(a, round_trip(a));
    impossible(a);
    arena_free(a);
    return unit_done();
}
