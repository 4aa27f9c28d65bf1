// Microseconds of a training step by the ways of enqueueing it: one graph a step, several steps a
// graph in a row, several with branches. Synthetic data, resident on the device.
//
//   step MODEL [NAME=VALUE...] [precision] [--no-reuse] [cpu]     e.g. step bench/mlp.net batch=512
//   tf32
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/lib.h"
#include "lib/api/synthetic.h"
#include "runtime/exec/exec.h"

enum { STEPS = 2000, ROUNDS = 5 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static bool bind(netc_session *s, Loaded *l, const ProgEntry *e, Arena *a, RtError *err)
{
    int64_t examples = e->batch * 8;
    RtDataBinding *b = NEW_ARRAY(a, RtDataBinding, e->ninputs + 1);
    for (int i = 0; i < e->ninputs; i++) {
        ProgInput in = e->inputs[i];
        in.type.dim[0] = examples;
        void *bytes = arena_alloc(a, (size_t)prog_type_bytes(&in.type) + 1);
        synthetic_fill(&in, 7, bytes);
        b[i] = (RtDataBinding){in.name, bytes, prog_type_bytes(&in.type) / examples};
    }
    return rt_data_bind(s->rt, l->rt, "train", b, e->ninputs, examples, err) == RT_OK;
}

// Every cell's bytes, to begin each way from the same state and to compare where it ends.
typedef struct Cells {
    int n;
    void **at;
    size_t *bytes;
} Cells;

static Cells read_cells(netc_session *s, Arena *a, RtError *err)
{
    Cells c = {.n = rt_cell_count(s->rt)};
    c.at = NEW_ARRAY(a, void *, c.n + 1);
    c.bytes = NEW_ARRAY(a, size_t, c.n + 1);
    for (int i = 0; i < c.n && !err->code; i++) {
        const ProgCell *cell = rt_cell_info(s->rt, i);
        c.bytes[i] = (size_t)prog_type_bytes(&cell->type);
        c.at[i] = arena_alloc(a, c.bytes[i] + 1);
        rt_cell_read(s->rt, cell->name, c.at[i], c.bytes[i], err);
    }
    return c;
}

static void write_cells(netc_session *s, const Cells *c, RtError *err)
{
    for (int i = 0; i < c->n && !err->code; i++)
        rt_cell_write(s->rt, rt_cell_info(s->rt, i)->name, c->at[i], c->bytes[i], err);
}

static bool equal_cells(const Cells *x, const Cells *y)
{
    for (int i = 0; i < x->n; i++)
        if (memcmp(x->at[i], y->at[i], x->bytes[i]) != 0) return false;
    return true;
}

static double measure(netc_session *s, Loaded *l, const ProgEntry *e, int64_t at_once,
                      const int32_t *rows, RtError *err)
{
    double best = 0;
    for (int round = 0; round <= ROUNDS && !err->code; round++) {
        rt_rows_set(s->rt, l->rt, "train", rows, STEPS * e->batch, err);
        rt_sync(s->rt, err);
        double begin = now();
        for (int64_t i = 0; i < STEPS && !err->code; i += at_once)
            rt_run(s->rt, l->rt, "train", NULL, 0, at_once, err);
        rt_sync(s->rt, err);
        double t = (now() - begin) / STEPS;
        if (round && (best == 0 || t < best)) best = t; // the first is a warm-up
    }
    return best;
}

int main(int argc, char **argv)
{
    netc_context *c = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    const char *defines[32], *device = "cuda:0";
    netc_compile_options o = {.size = sizeof o, .defines = defines};
    if (argc < 2 || argc > 32)
        return fprintf(stderr, "usage: step MODEL [NAME=VALUE...] [tf32] [--no-reuse]\n"), 1;
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "--no-reuse"))
            o.no_reuse = true;
        else if (!strcmp(argv[i], "cpu"))
            device = "cpu";
        else if (strchr(argv[i], '='))
            defines[o.ndefines++] = argv[i];
        else
            o.precision = argv[i];
    Loaded *l = NULL;
    const ProgEntry *e = NULL;
    if (netc_context_create(NULL, &c, &err) != NETC_OK ||
        netc_compile_file(c, argv[1], &o, &p, &err) != NETC_OK ||
        netc_session_create(p, device, NULL, &s, &err) != NETC_OK ||
        session_entry(s, "train", &l, &e, &err) != NETC_OK)
        return fprintf(stderr, "%s\n", netc_error_text(err)), 2;
    Arena *a = arena_new();
    RtError re = {0};
    int32_t *rows = NEW_ARRAY(a, int32_t, STEPS * e->batch);
    for (int64_t i = 0; i < STEPS * e->batch; i++) rows[i] = (int32_t)(i * 37 % (e->batch * 8));
    bool ok = bind(s, l, e, a, &re);
    RtEntry *en = rt_entry_find(s->rt, l->rt, "train", &re);
    if (ok && en) {
        Cells start = read_cells(s, a, &re), end[3];
        double single = measure(s, l, e, 1, rows, &re), way[3];
        for (int w = 2; w >= 0; w--) { // the measured choice last
            rt_entry_unresolve(s->rt, en);
            en->way = w;
            write_cells(s, &start, &re);
            way[w] = measure(s, l, e, STEPS, rows, &re);
            end[w] = read_cells(s, a, &re);
        }
        bool same = equal_cells(&end[1], &end[2]);
        printf("{\"model\": \"%s\", \"options\": \"", argv[1]);
        for (int i = 2; i < argc; i++) printf("%s%s", i > 2 ? " " : "", argv[i]);
        printf("\", \"batch\": %lld, \"kernel_nodes\": %d, \"one_a_graph_us\": %.2f, "
               "\"in_a_row_us\": %.2f, \"side_by_side_us\": %.2f, \"chosen\": %d, "
               "\"chosen_us\": %.2f, \"same_bits\": %s}\n",
               (long long)e->batch, (int)en->launches, single, way[1], way[2], en->way, way[0],
               same ? "true" : "false");
        if (!same) re.code = RT_CHECK;
    }
    if (re.code) fprintf(stderr, "%s\n", re.text);
    arena_free(a);
    netc_session_free(s);
    netc_program_release(p);
    netc_context_free(c);
    return re.code ? 2 : 0;
}
