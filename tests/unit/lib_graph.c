// The samples' training steps as recorded graphs, several executions in each and steps side by
// side, against the same steps in a row: every cell the same to the bit.
#include <unistd.h>

#include "lib/lib.h"
#include "lib/api/synthetic.h"
#include "tests/unit/recorder.h"

enum { TIMES = 420, EXAMPLES = 256 };

typedef struct Trained {
    netc_session *s;
    Loaded *l;
} Trained;

static void bind(Trained *t, Arena *a)
{
    const ProgEntry *e = NULL;
    netc_error *err = NULL;
    RtError re = {0};
    CHECK(session_entry(t->s, "train", &t->l, &e, &err) == NETC_OK);
    RtDataBinding *b = NEW_ARRAY(a, RtDataBinding, e->ninputs + 1);
    for (int i = 0; i < e->ninputs; i++) {
        ProgInput in = e->inputs[i];
        in.type.dim[0] = EXAMPLES;
        void *bytes = arena_alloc(a, (size_t)prog_type_bytes(&in.type) + 1);
        synthetic_fill(&in, 7, bytes);
        b[i] = (RtDataBinding){in.name, bytes, prog_type_bytes(&in.type) / EXAMPLES, NULL};
    }
    int64_t n = TIMES * e->batch;
    int32_t *rows = NEW_ARRAY(a, int32_t, n);
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)(i * 37 % EXAMPLES);
    CHECK_MSG(!rt_data_bind(t->s->rt, t->l->rt, "train", b, e->ninputs, EXAMPLES, &re) &&
                  !rt_rows_set(t->s->rt, t->l->rt, "train", rows, n, &re),
              "%s", re.text);
}

static void train(Trained *t)
{
    RtError e = {0};
    int64_t times[] = {1, 1, 150, TIMES - 152};
    for (int i = 0; i < 4 && !e.code; i++)
        rt_run(t->s->rt, t->l->rt, "train", NULL, 0, times[i], &e);
    if (!e.code) rt_sync(t->s->rt, &e);
    CHECK_MSG(!e.code, "%s", e.text);
}

static void sample(netc_context *c, const char *path, const char *define, bool library)
{
    Arena *a = arena_new();
    netc_error *err = NULL;
    netc_program *p = NULL;
    Trained t[2] = {0}; // in a row, as graphs
    const char *defines[] = {define};
    netc_compile_options o = {.size = sizeof o,
                              .defines = defines,
                              .ndefines = 1,
                              .target = "cpu",
                              .no_reuse = true,
                              .no_matmul_library = !library};
    netc_status status = netc_compile_file(c, path, &o, &p, &err);
    CHECK_MSG(status == NETC_OK, "%s: %s", path, err ? netc_error_text(err) : "");
    for (int i = 0; i < 2 && status == NETC_OK; i++) {
        status = netc_session_create(p, "cpu", NULL, &t[i].s, &err);
        CHECK_MSG(status == NETC_OK, "%s: %s", path, err ? netc_error_text(err) : "");
    }
    if (status == NETC_OK) {
        fake->launched[0] = fake->launched[1] = 0;
        fake->steps = 1 << 30;
        for (int i = 0; i < 2; i++) {
            bind(&t[i], a);
            if (i) {
                fake->steps =
                    (int)rt_entry_find(t[i].s->rt, t[i].l->rt, "train", &(RtError){0})->launches;
                t[i].s->device->ops = &fake->ops;
            }
            train(&t[i]);
            const char *why;
            CHECK_MSG(!i || rt_uses_cuda_graph(t[i].s->rt, t[i].l->rt, "train", &why), "%s: %s",
                      path, why);
            for (int k = 0; i && k < rt_cell_count(t[0].s->rt); k++) {
                const ProgCell *cell = rt_cell_info(t[0].s->rt, k);
                size_t n = (size_t)prog_type_bytes(&cell->type);
                void *one = arena_alloc(a, n + 1), *other = arena_alloc(a, n + 1);
                RtError e = {0};
                CHECK(!rt_cell_read(t[0].s->rt, cell->name, one, n, &e));
                CHECK(!rt_cell_read(t[1].s->rt, cell->name, other, n, &e));
                CHECK_MSG(!memcmp(one, other, n), "%s: %s differs", path, cell->name);
            }
        }
        CHECK_MSG(fake->launched[1] > 0, "%s: no graph with branches", path);
    }
    for (int i = 0; i < 2; i++) netc_session_free(t[i].s);
    netc_program_release(p);
    netc_error_free(err);
    arena_free(a);
}

int main(void)
{
    Fake f;
    fake_init(&f);
    f.side_cost = 0.5;
    netc_context *c = NULL;
    netc_error *err = NULL;
    char dir[] = "/tmp/netc-unit-XXXXXX";
    if (!mkdtemp(dir)) return 1;
    netc_context_options o = {.size = sizeof o, .cache_dir = dir};
    CHECK(netc_context_create(&o, &c, &err) == NETC_OK);
    sample(c, "samples/mnist/mlp.net", "hidden=16", true);
    sample(c, "samples/mnist/mlp.net", "hidden=16", false);
    sample(c, "samples/gan/gan.net", "batch=8", true);
    sample(c, "samples/regression/house.net", "batch=8", true);
    netc_context_free(c);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return unit_done();
}
