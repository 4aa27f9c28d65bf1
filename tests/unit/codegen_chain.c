// Chains of products: which of them are generated kernels that their activations are part of, and
// which are the library's; that nothing a step touches lies in the place of something that is live
// then; and that the program is read as it was written.
#include <string.h>

#include "codegen/codegen.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

typedef struct World {
    Arena *a;
    Diags *d;
    Module *m;
    Graph *g;
    Target target;
    bool no_reuse;
} World;

static World world(void)
{
    World w = {.a = arena_new()};
    w.d = diags_new(w.a);
    w.m = module_new(w.a, w.d, "test");
    w.g = graph_new(w.a, w.d, NULL);
    w.target = target_cuda(90, true);
    return w;
}

static Node *cell(World *w, Op op, const char *name, int64_t rows, int64_t cols)
{
    Type t = type_make(DT_F32, 2, (int64_t[]){rows, cols});
    Cell c = {.name = name, .kind = op == OP_param ? CELL_PARAM : CELL_STATE, .type = t};
    module_add_cell(w->m, &c);
    return graph_leaf_cell(w->g, op, name, &t);
}

static const ProgEntry *compile(World *w)
{
    Entry e = {.name = "train", .kind = ENTRY_TRAIN, .graph = w->g, .batch = 1};
    vec_push(w->a, &w->m->entries, e);
    PassOptions po = {.target = &w->target};
    CodegenOptions co = {.target = &w->target, .no_reuse = w->no_reuse, .tf32 = true};
    Program *p = passes_run(w->m, &po, NULL) ? codegen(w->m, &co) : NULL;
    Buf b = buf_new(w->a), again = buf_new(w->a);
    if (!p) {
        diags_render(w->d, &b, false);
        printf("%s", b.data);
        CHECK(p != NULL);
        return NULL;
    }
    const char *error;
    program_write(p, &b);
    Program *q = program_read(w->a, b.data, b.len, &error);
    CHECK_MSG(q != NULL, "%s", error);
    if (q) program_write(q, &again);
    CHECK(again.len == b.len && !memcmp(again.data, b.data, b.len));
    return &p->entries[0];
}

// x, then as many matmuls and activations, each result an output as well where [taps].
static void chain(World *w, int layers, int64_t rows, int64_t width)
{
    Node *h = cell(w, OP_state, "x", rows, width);
    for (int i = 0; i < layers; i++) {
        Node *weight = cell(w, OP_param, arena_printf(w->a, "w%d", i), width, width);
        h = graph_unary(w->g, OP_tanh, graph_matmul(w->g, h, weight));
    }
    int64_t both[] = {0, 1};
    graph_root(w->g, OP_output, graph_reduce(w->g, OP_sum, h, both, 2, false), "sum");
    graph_root(w->g, OP_output, h, "h");
}

static bool overlap(const ProgBuffer *a, const ProgBuffer *b)
{
    return a->region == PR_ARENA && b->region == PR_ARENA && a->bytes && b->bytes &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void check_places(const ProgEntry *e, bool reuse)
{
    for (int32_t i = 0; i < e->nbuffers; i++)
        for (int32_t k = 0; k < i; k++) {
            const ProgBuffer *a = &e->buffers[i], *b = &e->buffers[k];
            bool together = a->first <= b->last && b->first <= a->last;
            CHECK((reuse && !together) || !overlap(a, b));
        }
}

static int count_steps(const ProgEntry *e, ProgStepKind kind)
{
    int n = 0;
    for (int32_t i = 0; i < e->nsteps; i++) n += e->steps[i].kind == kind;
    return n;
}

// A product and its activation are one kernel, and the sum of the last result is another.
static void test_generated(int64_t width, bool no_reuse)
{
    World w = world();
    w.no_reuse = no_reuse;
    chain(&w, 4, width, width);
    const ProgEntry *e = compile(&w);
    if (e) {
        CHECK_MSG(count_steps(e, PS_GEMM) == 0, "width %d", (int)width);
        CHECK_MSG(e->nsteps >= 5 && e->nsteps <= 6, "width %d: %d steps", (int)width, e->nsteps);
        check_places(e, !no_reuse);
    }
    arena_free(w.a);
}

// Two chains that never meet: a product of one and a product of the other are one launch.
static void test_side_by_side(void)
{
    World w = world();
    Node *x = cell(&w, OP_state, "x", 16, 48);
    for (int c = 0; c < 2; c++) {
        Node *h = x;
        for (int i = 0; i < 3; i++)
            h = graph_unary(
                w.g, OP_tanh,
                graph_matmul(w.g, h, cell(&w, OP_param, arena_printf(w.a, "w%d%d", c, i), 48, 48)));
        graph_root(w.g, OP_output, h, c ? "one" : "other");
    }
    const ProgEntry *e = compile(&w);
    if (e) {
        CHECK(e->nsteps == 3);
        CHECK(count_steps(e, PS_GEMM) == 0);
        check_places(e, true);
    }
    arena_free(w.a);
}

static void test_library(void)
{
    World w = world();
    chain(&w, 4, 2048, 512);
    const ProgEntry *e = compile(&w);
    if (e) {
        CHECK(count_steps(e, PS_GEMM) == 4);
        check_places(e, true);
    }
    arena_free(w.a);
}

int main(void)
{
    test_generated(64, false);
    test_generated(64, true);
    test_generated(288, false);
    test_side_by_side();
    test_library();
    return unit_done();
}
