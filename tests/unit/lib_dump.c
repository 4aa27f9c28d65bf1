// The dump of every sample, before the passes and after each, reads back to equal graphs; in f32
// and in f16 with its scaled losses.
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "frontend/read_graph.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

static const char *rendered(Arena *a, Diags *d)
{
    Buf b = buf_new(a);
    diags_render(d, &b, false);
    return b.data;
}

static void check_stage(const char *path, const char *text, size_t len, const char *stop_before,
                        Precision precision)
{
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    const Define layers = {.name = "layers", .value = "2"}; // of the deep ones
    FrontendOptions o = {.scale_loss = precision == PREC_F16,
                         .defines = &layers,
                         .ndefines = strstr(text, "const layers") != NULL};
    PassOptions po = {.target = &(Target){0}, .precision = precision, .stop_before = stop_before};
    Module *m = frontend_compile(a, d, path, text, len, &o);
    CHECK_MSG(m && !d->errors, "%s\n%s", path, rendered(a, d));
    bool ran = m && !d->errors && passes_run(m, &po, NULL);
    CHECK_MSG(ran, "%s before %s\n%s", path, stop_before, rendered(a, d));
    if (!ran) {
        arena_free(a);
        return;
    }
    Buf dump = buf_new(a);
    module_print(m, stop_before, &dump);
    uint32_t source = source_add(d, "dump.net", dump.data, dump.len, false);
    File *file = parse_source(a, d, source);
    Module *back = d->errors ? NULL : read_module(a, d, file);
    CHECK_MSG(back && !strcmp(back->stage, stop_before), "%s before %s\n%s", path, stop_before,
              rendered(a, d));
    CHECK(back && back->entries.n == m->entries.n && back->cells.n == m->cells.n);
    for (uint32_t k = 0; back && k < m->entries.n && k < back->entries.n; k++) {
        const Entry *was = &m->entries.at[k], *is = &back->entries.at[k];
        CHECK_MSG(!strcmp(was->name, is->name) && graph_equal(was->graph, is->graph) &&
                      graph_verify(is->graph, "reading"),
                  "%s, entry %s before %s\n%s", path, was->name, stop_before, rendered(a, d));
    }
    arena_free(a);
}

int main(void)
{
    static const char *const stages[] = {"autodiff", "precision", "simplify",
                                         "contract", "recompute", "fuse"};
    glob_t found = {0};
    glob("samples/*/*.net", 0, NULL, &found);
    CHECK(found.gl_pathc > 0);
    for (size_t k = 0; k < found.gl_pathc; k++) {
        FILE *f = fopen(found.gl_pathv[k], "rb");
        static char text[1 << 20];
        size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
        text[len] = 0;
        if (f) fclose(f);
        for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
            for (int half = 0; half < 2; half++)
                check_stage(found.gl_pathv[k], text, len, stages[s], half ? PREC_F16 : PREC_F32);
    }
    globfree(&found);
    return unit_done();
}
