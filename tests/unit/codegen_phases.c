// Joined kernels: which steps of a training entry may run as the phases of one kernel, in what
// order, and that nothing a phase touches lies in the place of something else it touches.
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
    bool phases, no_reuse;
    EntryKind kind;
} World;

static World world(void)
{
    World w = {.a = arena_new(), .kind = ENTRY_TRAIN, .phases = true};
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
    Entry e = {.name = "train", .kind = w->kind, .graph = w->g, .batch = 1};
    vec_push(w->a, &w->m->entries, e);
    PassOptions po = {.target = &w->target};
    CodegenOptions co = {
        .target = &w->target, .phases = w->phases, .no_reuse = w->no_reuse, .tf32 = true};
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

// Steps of one phase: none writes what another touches, by name or by place.
static void check_phase(const ProgEntry *e, int32_t first, int32_t last)
{
    for (int32_t i = first; i < last; i++)
        for (int32_t k = first; k < last; k++)
            for (int32_t x = 0; x < e->steps[i].nargs && k != i; x++)
                for (int32_t y = 0; y < e->steps[k].nargs; y++) {
                    const ProgArg *a = &e->steps[i].args[x], *b = &e->steps[k].args[y];
                    if (a->kind != PA_BUFFER || b->kind != PA_BUFFER || !a->written) continue;
                    CHECK(a->index != b->index);
                    CHECK(a->index == b->index ||
                          !overlap(&e->buffers[a->index], &e->buffers[b->index]));
                }
}

static void check_joins(const ProgEntry *e)
{
    for (int32_t j = 0; j < e->njoins; j++) {
        const ProgJoin *join = &e->joins[j];
        CHECK(join->nphases >= 2);
        for (int32_t i = 0, at = join->first_step; i < join->nphases; at = join->phase_end[i++])
            check_phase(e, at, join->phase_end[i]);
        // It takes every buffer of its steps, and writes what they write.
        for (int32_t i = join->first_step; i < join->last_step; i++)
            for (int32_t k = 0; k < e->steps[i].nargs; k++) {
                const ProgArg *a = &e->steps[i].args[k];
                bool found = a->kind != PA_BUFFER;
                for (int32_t n = 0; n < join->step.nargs && !found; n++)
                    found = join->step.args[n].index == a->index &&
                            (join->step.args[n].written || !a->written);
                CHECK(found);
            }
    }
}

static void test_chain(bool no_reuse)
{
    World w = world();
    w.no_reuse = no_reuse;
    chain(&w, 4, 64, 64);
    const ProgEntry *e = compile(&w);
    if (e) {
        CHECK(e->njoins == 1);
        CHECK(e->njoins && e->joins[0].nphases >= 4);
        check_joins(e);
    }
    arena_free(w.a);
}

// Two chains that never meet: their steps share phases.
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
        CHECK(e->njoins == 1 && e->joins[0].nphases == 3);
        check_joins(e);
    }
    arena_free(w.a);
}

static void test_none(void)
{
    World w = world();
    w.phases = false;
    chain(&w, 4, 64, 64);
    const ProgEntry *e = compile(&w);
    CHECK(e && e->njoins == 0);
    arena_free(w.a);

    w = world();
    w.kind = ENTRY_EVAL; // runs too seldom to be compiled twice
    chain(&w, 4, 64, 64);
    e = compile(&w);
    CHECK(e && e->njoins == 0);
    arena_free(w.a);

    w = world();
    w.target = target_cuda(80, true);
    chain(&w, 4, 64, 64);
    e = compile(&w);
    CHECK(e && e->njoins == 0 && strstr(e->join_note, "no clusters"));
    arena_free(w.a);

    w = world();
    chain(&w, 4, 2048, 512); // left to the library
    e = compile(&w);
    CHECK(e && e->njoins == 0 && strstr(e->join_note, "library"));
    arena_free(w.a);

    w = world();
    chain(&w, 4, 288, 288); // generated, but with more tiles than a cluster takes
    e = compile(&w);
    CHECK(e && strstr(e->join_note, "wider"));
    if (e) check_joins(e);
    arena_free(w.a);
}

int main(void)
{
    test_chain(false);
    test_chain(true);
    test_side_by_side();
    test_none();
    return unit_done();
}
