// Chains of products: which of them are generated kernels that their activations are part of, and
// which are the library's; that nothing a step touches lies in the place of something that is live
// then; and that the program is read as it was written.
#include "tests/unit/codegen_world.h"

static World world(void)
{
    World w = world_on(arena_new(), target_cuda(90, true));
    w.options.tf32 = true;
    return w;
}

static Node *matrix(World *w, Op op, const char *name, int64_t rows, int64_t columns)
{
    return cell(w, op, name, f32(2, rows, columns));
}

static const ProgEntry *compile(World *w)
{
    const Program *p = compile_on(w, "train", ENTRY_TRAIN, NULL);
    return p ? &p->entries[0] : NULL;
}

// x, then as many matmuls and activations, each result an output as well where [taps].
static void chain(World *w, int layers, int64_t rows, int64_t width)
{
    Node *h = matrix(w, OP_state, "x", rows, width);
    for (int i = 0; i < layers; i++) {
        Node *weight = matrix(w, OP_param, arena_printf(w->a, "w%d", i), width, width);
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

// A product and its activation are one kernel, and the sum of the last result is another.
static void test_generated(int64_t width, bool no_reuse)
{
    World w = world();
    w.options.no_reuse = no_reuse;
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
    Node *x = matrix(&w, OP_state, "x", 16, 48);
    for (int c = 0; c < 2; c++) {
        Node *h = x;
        for (int i = 0; i < 3; i++)
            h = graph_unary(
                w.g, OP_tanh,
                graph_matmul(w.g, h,
                             matrix(&w, OP_param, arena_printf(w.a, "w%d%d", c, i), 48, 48)));
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
