// Kernels like earlier ones take their text without being printed: the program is the same, byte
// for byte, as one whose kernels were printed one by one.
#include <glob.h>
#include <string.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

static int equal;

// The program as bytes; empty where the model is not for this target.
static Buf program_of(Arena *a, const char *path, const char *text, size_t len, const Target *t,
                      Precision precision, bool print_each)
{
    Diags *d = diags_new(a);
    Buf out = buf_new(a);
    const Define layers = {.name = "layers",
                           .value = "3"}; // of deep samples; those of bench/ are as they are
    FrontendOptions fo = {.scale_loss = precision == PREC_F16,
                          .defines = &layers,
                          .ndefines = !strncmp(path, "samples", 7) && strstr(text, "const layers")};
    PassOptions po = {.target = t, .precision = precision};
    CodegenOptions co = {.target = t, .tf32 = precision == PREC_TF32, .print_each = print_each};
    Module *m = frontend_compile(a, d, path, text, len, &fo);
    Program *p = m && !d->errors && passes_run(m, &po, NULL) ? codegen(m, &co) : NULL;
    if (p) program_write(p, &out);
    return out;
}

static void check(const char *path, const char *text, size_t len, const Target *t,
                  Precision precision)
{
    Arena *a = arena_new();
    Buf x = program_of(a, path, text, len, t, precision, false),
        y = program_of(a, path, text, len, t, precision, true);
    CHECK_MSG(x.len == y.len && !memcmp(x.data, y.data, x.len), "%s for %s", path, t->name);
    equal += x.len > 0;
    arena_free(a);
}

static void check_files(const char *pattern, const Target *t, Precision precision)
{
    glob_t found = {0};
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "rb");
        static char text[1 << 20];
        size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
        text[len] = 0;
        if (f) fclose(f);
        CHECK(len > 0 && len < sizeof text);
        check(found.gl_pathv[i], text, len, t, precision);
    }
    globfree(&found);
}

int main(void)
{
    const Target gpu = target_cuda(90, true), own = target_cuda(80, false),
                 cpu = target_cpu(2, true);
    check_files("samples/*/*.net", &gpu, PREC_F32);
    check_files("samples/*/*.net", &cpu, PREC_F32);
    check_files("tests/shim/net/*.net", &own, PREC_TF32);
    check_files("tests/net/fuse/*.net", &gpu, PREC_BF16);
    check_files("bench/*.net", &gpu, PREC_BF16);
    CHECK(equal > 60);
    return unit_done();
}
