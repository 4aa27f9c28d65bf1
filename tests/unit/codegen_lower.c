// Every kind of body, lowered for the CPU, compiled by cc and run against the evaluator; the CUDA
// text of each is compiled by NVRTC where there is one.
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/ir/body.h"
#include "codegen/kernel.h"
#include "ir/eval.h"
#include "tests/unit/lower_cuda.h"
#include "tests/unit/unit.h"

enum { MAX_CASES = 768, MAX_GROUPS = 6, MAX_KERNELS = 16 };

typedef struct Case {
    const char *name;
    Graph *g;
    int ngroups, nkernels, ncuda;
    GroupKind kind[MAX_GROUPS];
    LoweredKernel *kernels[2][MAX_GROUPS]; // CPU, CUDA
    int count[2][MAX_GROUPS];
    double tolerance;    // relative to results of 1 and more, absolute below
    double tiny;         // not 0: relative down to results of this size
    int checks_expected; // an index out of range is expected
    bool twice;          // is run twice on the GPU
} Case;

typedef struct Suite {
    Arena *a;
    Diags *d;
    Module *m;
    Entry entry;
    Target cpu, cuda;
    Case cases[MAX_CASES];
    int n;
    Buf c, cu, few; // few: every fourth kernel of cu
    int nkernels;
    StrMap c_seen, cu_seen;
    const char *only;
    bool cuda_only; // what follows would take too long on a CPU
    bool twice;     // what follows joins sums of several blocks: two runs must give the same bits
    double tiny;    // of the cases added from here on
    bool ran[RUN_ATTENTION_GROUPS + 1]; // by ScheduleVariant: some case's body has it
} Suite;

static Graph *begin(Suite *s)
{
    return graph_new(s->a, s->d, NULL);
}

static Node *in(Graph *g, const char *name, DType t, int rank, const int64_t *dim)
{
    Type ty = type_make(t, rank, dim);
    return graph_input(g, name, &ty, "arg");
}
#define IN(g, name, t, ...)                                                                        \
    in(g, name, t, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

static void out(Graph *g, Node *v, const char *name)
{
    graph_root(g, OP_output, v, name);
}

// The variant is one of the kind's, and numbers of other kinds are not there: nothing tells the
// ways of a kind apart by them.
static void check_variant(Suite *s, const Case *c, const Body *b)
{
    static const int kinds[] = {
        [RUN_MAP] = 1 << SCHED_MAP,
        [RUN_TRANSPOSE] = 1 << SCHED_MAP,
        [RUN_INTERLEAVED] = 1 << SCHED_MAP,
        [RUN_REUSE] = 1 << SCHED_MAP,
        [RUN_ROWS] = 1 << SCHED_ROW,
        [RUN_SCAN] = 1 << SCHED_ROW,
        [RUN_SORT] = 1 << SCHED_ROW,
        [RUN_RADIX] = 1 << SCHED_ROW,
        [RUN_FIRST] = 1 << SCHED_ROW,
        [RUN_IN_ORDER] = 1 << SCHED_ROW | 1 << SCHED_COLUMN,
        [RUN_RECURRENCE] = 1 << SCHED_COLUMN,
        [RUN_COLUMNS] = 1 << SCHED_COLUMN,
        [RUN_BINS] = 1 << SCHED_COLUMN,
        [RUN_SWEEP] = 1 << SCHED_SWEEP,
        [RUN_TILES] = 1 << SCHED_TILE,
        [RUN_MMA] = 1 << SCHED_TILE,
        [RUN_F32_RING] = 1 << SCHED_TILE,
        [RUN_GROUPS] = 1 << SCHED_TILE,
        [RUN_WARP_TILES] = 1 << SCHED_TILE,
        [RUN_ATTENTION] = 1 << SCHED_ATTENTION,
        [RUN_ATTENTION_GROUPS] = 1 << SCHED_ATTENTION,
    };
    static const Schedule none;
    const Schedule *x = &b->sched;
    bool row = x->kind == SCHED_ROW || x->kind == SCHED_SWEEP,
         tile = x->kind == SCHED_TILE || x->kind == SCHED_ATTENTION;
    CHECK_MSG(kinds[x->variant] >> x->kind & 1, "%s: variant %d of kind %d", c->name, x->variant,
              x->kind);
    CHECK_MSG(x->kind == SCHED_MAP || !memcmp(&x->map, &none.map, sizeof x->map), "%s", c->name);
    CHECK_MSG(row || !memcmp(&x->row, &none.row, sizeof x->row), "%s", c->name);
    CHECK_MSG(x->kind == SCHED_SWEEP || !memcmp(&x->sweep, &none.sweep, sizeof x->sweep), "%s",
              c->name);
    CHECK_MSG(tile || !memcmp(&x->tile, &none.tile, sizeof x->tile), "%s", c->name);
    s->ran[x->variant] = true;
}

static void lower_case(Suite *s, Case *c, const Target *t, Buf *text, StrMap *seen)
{
    LowerCtx ctx = {.arena = s->a, .diags = s->d, .target = t, .module = s->m, .entry = &s->entry};
    Fusion *f = c->g->fusion;
    int w = t->kind == TARGET_CUDA;
    for (int i = 0; i < c->ngroups; i++) {
        Group *group = &f->groups.at[i];
        c->count[w][i] = lower_launch(&ctx, c->g, &group, 1, &c->kernels[w][i]);
        CHECK_MSG(c->count[w][i] > 0, "%s: lower_launch failed", c->name);
        for (int k = 0; k < c->count[w][i]; k++) {
            for (int n = 0; w && n < c->kernels[w][i][k].nbodies; n++)
                check_variant(s, c, c->kernels[w][i][k].body[n]);
            ProgKernel *p = &c->kernels[w][i][k].prog;
            if (strmap_has(seen, p->symbol)) continue;
            strmap_set(seen, p->symbol, p);
            buf_str(text, p->text);
            if (w && s->nkernels++ % 4 == 0) buf_str(&s->few, p->text);
            CHECK(strlen(p->annotated) > 0 && strstr(p->annotated, p->name));
            if (getenv("SHOW")) printf("%s\n", p->annotated);
        }
    }
}

// No kernel asks for more shared memory than a block of the target may have.
static void check_limits(Suite *s, Case *c)
{
    static const int archs[] = {80, 86, 90, 100, 120};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        Target t = target_cuda(archs[i], false);
        LowerCtx ctx = {
            .arena = s->a, .diags = s->d, .target = &t, .module = s->m, .entry = &s->entry};
        for (int k = 0; k < c->ngroups; k++) {
            Group *group = &c->g->fusion->groups.at[k];
            LoweredKernel *lowered;
            int n = lower_launch(&ctx, c->g, &group, 1, &lowered);
            for (int j = 0; j < n; j++)
                CHECK_MSG(lowered[j].prog.shared_bytes <= t.shared_per_block,
                          "%s: %u bytes of shared memory on sm_%d", c->name,
                          lowered[j].prog.shared_bytes, archs[i]);
        }
    }
}

// Roots of the graph become the outs of one group; [groups] of inner nodes come before, in order.
static void add(Suite *s, const char *name, Graph *g, GroupKind kind, int ninner, Node **inner,
                GroupKind *inner_kind, double tolerance)
{
    if (s->only && !strstr(name, s->only)) return;
    CHECK_MSG(s->d->errors == 0, "%s: graph has errors", name);
    CHECK_MSG(s->n < MAX_CASES, "%s: more than %d cases", name, MAX_CASES);
    if (s->n >= MAX_CASES) return;
    Case *c = &s->cases[s->n++];
    *c = (Case){.name = arena_strdup(s->a, name),
                .g = g,
                .tolerance = tolerance,
                .tiny = s->tiny,
                .twice = s->twice};
    Fusion *f = NEW(s->a, Fusion);
    f->group_of = NEW_ARRAY(s->a, uint32_t, g->nodes.n + 1);
    for (int i = 0; i < ninner; i++) {
        Group gr = {.kind = inner_kind[i], .id = (uint32_t)i, .launch = (uint32_t)i};
        vec_push(s->a, &gr.outs, inner[i]);
        gr.anchor = inner[i];
        vec_push(s->a, &f->groups, gr);
        f->group_of[inner[i]->id] = (uint32_t)i + 1;
    }
    Group gr = {.kind = kind, .id = (uint32_t)ninner, .launch = (uint32_t)ninner};
    for (uint32_t i = 0; i < g->roots.n; i++) {
        Node *r = g->roots.at[i];
        Node *v = kind >= GROUP_LOOP ? r->args[0] : r; // (an anchor)
        vec_push(s->a, &gr.outs, v);
        if (!strncmp(attr_str(r, ATTR_name), "fold", 4)) vec_push(s->a, &gr.folded, v);
        gr.anchor = v;
        f->group_of[v->id] = (uint32_t)ninner + 1;
    }
    vec_push(s->a, &f->groups, gr);
    f->launches = (uint32_t)ninner + 1;
    g->fusion = f;
    c->ngroups = ninner + 1;
    lower_case(s, c, &s->cuda, &s->cu, &s->cu_seen);
    if (!s->cuda_only) lower_case(s, c, &s->cpu, &s->c, &s->c_seen);
}

// -- running --

static uint64_t rng(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

static void fill(Value *v, const Node *n, uint64_t seed)
{
    uint64_t state = seed;
    int64_t count = type_count(&v->type), high = attr_int(n, ATTR_high_bound, 0);
    for (int64_t i = 0; i < count; i++) {
        double u = (double)rng(&state) / 2147483648.0;
        if (dtype_is_float(v->type.dtype))
            v->f[i] = (float)((double)(int)((u - 0.5) * 4096) / 512);
        else if (v->type.dtype == DT_BOOL)
            v->i[i] = u > 0.5;
        else
            v->i[i] = (int64_t)(u * (double)(high ? high : 7));
        if (dtype_is_float(v->type.dtype) && strstr(attr_str(n, ATTR_name), "pos"))
            v->f[i] = fabs(v->f[i]) + 0.0625;
        if (dtype_is_float(v->type.dtype) && strstr(attr_str(n, ATTR_name), "small"))
            v->f[i] *= 0.125;
        if (dtype_is_float(v->type.dtype) && strstr(attr_str(n, ATTR_name), "far"))
            v->f[i] = 10000 + v->f[i] * 0.5 + (i < 7 ? 3000 : 0); // the first few are farther still
        if (dtype_is_float(v->type.dtype) && strstr(attr_str(n, ATTR_name), "wide")) {
            static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, 0x1p127};
            v->f[i] = ldexp((float)(v->f[i] * 0.3), (int)(rng(&state) % 250) - 125);
            if (i % 29 == 28) v->f[i] = special[i / 29 % 7];
        }
    }
}

// Rows as attention masks make them: long runs of -inf; the first rows are all -inf, have inf, NaN.
static void mask(Value *v, const Type *t)
{
    int64_t cols = t->dim[t->rank - 1];
    for (int64_t i = 0; i < type_count(t); i++) {
        int64_t row = i / cols, col = i % cols;
        if (row == 0 || col < cols / 2 || col % 97 > 80) v->f[i] = -INFINITY;
        if (row == 1 && col == cols - 1) v->f[i] = INFINITY;
        if (row == 2 && col == cols / 3) v->f[i] = NAN;
    }
}

// Whether a result of type t is what double precision gives, to the case's tolerance.
static bool agrees(const Case *c, DType t, double x, double y)
{
    double most = t == DT_F16 ? 65504 : 3.3895e38, least = c->tiny > 0 ? c->tiny : 1;
    if ((x != x && y != y) || x == y) return true;
    if (dtype_is_float(t) && t != DT_F64 && isinf(x)) return fabs(y) > most && (x > 0) == (y > 0);
    return fabs(x - y) <= c->tolerance * (fabs(y) > least ? fabs(y) : least);
}

static void run_cpu(Case *c, void *lib, void **memory, ProgError *error)
{
    void *scratch[64] = {0};
    for (int i = 0; i < c->ngroups; i++)
        for (int k = 0; k < c->count[0][i]; k++) {
            LoweredKernel *lk = &c->kernels[0][i][k];
            void *args[256];
            for (int a = 0; a < lk->nargs; a++) {
                KernelArg *ka = &lk->args[a];
                if (ka->kind == KA_SCRATCH && !scratch[ka->scratch])
                    scratch[ka->scratch] = malloc((size_t)ka->scratch_bytes + 1);
                args[a] = ka->kind == KA_NODE      ? memory[ka->node->id]
                          : ka->kind == KA_ERROR   ? (void *)error
                          : ka->kind == KA_SCRATCH ? scratch[ka->scratch]
                                                   : (void *)&ka->value;
            }
            void (*fn)(void *const *, const void *);
            *(void **)&fn = dlsym(lib, lk->prog.symbol);
            CHECK_MSG(fn, "%s: no symbol %s", c->name, lk->prog.symbol);
            if (fn) fn(args, NULL);
        }
    for (int i = 0; i < 64; i++) free(scratch[i]);
}

static void run_gpu(Suite *s, Case *c, Gpu *g, void **memory, ProgError *error)
{
    uint64_t scratch[64] = {0}, record, *at = NEW_ARRAY(s->a, uint64_t, c->g->nodes.n + 1);
    g->alloc(&record, sizeof *error);
    g->zero(record, 0, sizeof *error);
    for (uint32_t i = 0; i < c->g->nodes.n; i++) {
        size_t bytes = (size_t)type_bytes(&c->g->nodes.at[i]->type);
        g->alloc(&at[i], bytes + 16);
        g->to(at[i], memory[i], bytes);
    }
    for (int i = 0; i < c->ngroups; i++)
        for (int k = 0; k < c->count[1][i]; k++) {
            LoweredKernel *lk = &c->kernels[1][i][k];
            const ProgKernel *p = &lk->prog;
            void *args[256], *fn = NULL;
            for (int a = 0; a < lk->nargs; a++) {
                KernelArg *ka = &lk->args[a];
                if (ka->kind == KA_SCRATCH && !scratch[ka->scratch])
                    g->alloc(&scratch[ka->scratch], (size_t)ka->scratch_bytes + 1);
                args[a] = ka->kind == KA_NODE      ? (void *)&at[ka->node->id]
                          : ka->kind == KA_ERROR   ? (void *)&record
                          : ka->kind == KA_SCRATCH ? (void *)&scratch[ka->scratch]
                                                   : (void *)&ka->value;
            }
            CHECK_MSG(g->function(&fn, g->module, p->symbol) == 0, "%s: no symbol %s", c->name,
                      p->symbol);
            if (p->shared_bytes)
                CHECK(g->set(fn, 8, (int)p->shared_bytes) == 0); // most dynamic shared memory
            int rc = gpu_launch(g, fn, p, args);
            int rc2 = g->sync();
            CHECK_MSG(rc == 0 && rc2 == 0, "%s: launch %d, sync %d", c->name, rc, rc2);
        }
    for (uint32_t i = 0; i < c->g->nodes.n; i++) {
        g->from(memory[i], at[i], (size_t)type_bytes(&c->g->nodes.at[i]->type));
        g->release(at[i]);
    }
    g->from(error, record, sizeof *error);
    g->release(record);
    for (int i = 0; i < 64; i++)
        if (scratch[i]) g->release(scratch[i]);
}

// Outputs of a second run are the same to the bit.
static void run_again(Suite *s, Case *c, Gpu *gpu, void **memory)
{
    Graph *g = c->g;
    ProgError error = {0};
    void **again = NEW_ARRAY(s->a, void *, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        size_t bytes = (size_t)type_bytes(&g->nodes.at[i]->type);
        again[i] = malloc(bytes + 1);
        memcpy(again[i], memory[i], bytes);
    }
    run_gpu(s, c, gpu, again, &error);
    for (uint32_t r = 0; r < g->roots.n; r++) {
        const Node *root = g->roots.at[r],
                   *at = g->fusion->group_of[root->id] ? root : root->args[0];
        CHECK_MSG(!memcmp(again[at->id], memory[at->id], (size_t)type_bytes(&root->type)),
                  "%s %s: two runs differ", c->name, attr_str(root, ATTR_name));
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) free(again[i]);
}

// On the CPU when lib is given, else on the GPU.
static void run_case(Suite *s, Case *c, void *lib, Gpu *gpu)
{
    Graph *g = c->g;
    if (lib && !c->count[0][0]) return;
    void **memory = NEW_ARRAY(s->a, void *, g->nodes.n + 1);
    EvalEnv env = {.arena = s->a, .inputs = strmap_new(s->a), .cells = strmap_new(s->a)};
    ProgError error = {0};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        memory[i] = aligned_alloc(64, (size_t)(type_bytes(&n->type) + 128) / 64 * 64);
        memset(memory[i], 0xee, (size_t)type_bytes(&n->type));
        if (n->op == OP_input) {
            Value *v = NEW(s->a, Value);
            *v = value_new(s->a, &n->type);
            fill(v, n, i * 77 + 5);
            if (strstr(attr_str(n, ATTR_name), "masked")) mask(v, &n->type);
            value_to_bytes(v, memory[i]);
            value_from_bytes(v, memory[i]);
            strmap_set(&env.inputs, attr_str(n, ATTR_name), v);
        }
    }
    EvalResult want;
    CHECK(eval_graph(g, &env, &want));
    if (lib)
        run_cpu(c, lib, memory, &error);
    else
        run_gpu(s, c, gpu, memory, &error);
    if (gpu && c->twice) run_again(s, c, gpu, memory);
    CHECK_MSG((error.code != 0) == (c->checks_expected != 0), "%s: error record %u", c->name,
              error.code);
    for (uint32_t r = 0; r < g->roots.n; r++) {
        Node *root = g->roots.at[r];
        if (root->op != OP_output) continue;
        Value *w = strmap_get(&want.outputs, attr_str(root, ATTR_name));
        Node *at = g->fusion->group_of[root->id] ? root : root->args[0];
        Value got = value_new(s->a, &root->type);
        value_from_bytes(&got, memory[at->id]);
        int64_t count = type_count(&root->type), bad = 0, where = -1;
        for (int64_t i = 0; i < count; i++) {
            bool ok = agrees(c, root->type.dtype, value_get(&got, i), value_get(w, i));
            if (!ok && bad++ == 0) where = i;
        }
        CHECK_MSG(bad == 0, "%s %s: %lld of %lld differ, first [%lld]: %.9g, not %.9g", c->name,
                  attr_str(root, ATTR_name), (long long)bad, (long long)count, (long long)where,
                  value_get(&got, where), value_get(w, where));
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) free(memory[i]);
}

static void cuda(Suite *s)
{
    Gpu g = gpu_open();
    if (!g.nvrtc) {
        printf("skipped: no NVRTC: the CUDA text is not compiled\n");
        return;
    }
    static const int arch[] = {90, 80, 100}; // the last two differ in a few lines of the prelude
    for (int i = 0; i < (getenv("QUICK") ? 1 : 3) && !(g.arch && getenv("QUICK")); i++)
        CHECK_MSG(gpu_compile(&g, s->a, i ? s->few.data : s->cu.data, arch[i]), "NVRTC: sm_%d",
                  arch[i]);
    if (!g.arch) {
        printf("skipped: no GPU: the CUDA kernels are not run\n");
        return;
    }
    void *bin = gpu_compile(&g, s->a, s->cu.data, g.arch);
    CHECK(bin && g.load(&g.module, bin) == 0);
    // (QUICK, on the device of the host: every second case, the others when it is run again, which
    // is five days later: tests/shim/unit.sh)
    const char *seed = getenv("SEED");
    const int each = getenv("QUICK") ? 2 : 1;
    for (int i = seed && each > 1 ? atoi(seed) / 5 % 2 : 0; g.module && i < s->n; i += each)
        run_case(s, &s->cases[i], NULL, &g);
}

// -- the cases --

static Node *softmax(Graph *g, Node *x)
{
    int64_t axis[1] = {x->type.rank - 1};
    Node *e = graph_unary(g, OP_exp,
                          graph_binary(g, OP_sub, x, graph_reduce(g, OP_max, x, axis, 1, true)));
    return graph_binary(g, OP_div, e, graph_reduce(g, OP_sum, e, axis, 1, true));
}

static void maps(Suite *s)
{
    static const int64_t sizes[][2] = {{1, 1},   {1, 7}, {13, 17},    {64, 128}, {3, 1000},
                                       {257, 1}, {0, 5}, {100, 9000}, {67, 4099}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t m = sizes[i][0], n = sizes[i][1];
        Graph *g = begin(s);
        Node *x = IN(g, "x", DT_F32, m, n), *b = IN(g, "b", DT_F32, n),
             *r = IN(g, "r", DT_F32, m, 1);
        out(g, graph_unary(g, OP_tanh, graph_binary(g, OP_add, graph_binary(g, OP_mul, x, r), b)),
            "y");
        out(g, graph_binary(g, OP_maximum, x, graph_const(g, DT_F32, 0)), "z");
        add(s, arena_printf(s->a, "map %lldx%lld", (long long)m, (long long)n), g, GROUP_MAP, 0,
            NULL, NULL, 1e-5);
    }
    Graph *g = begin(s); // vectors go round at the end of the row that they add
    Node *x = IN(g, "x", DT_BF16, 33, 12289);
    out(g, graph_binary(g, OP_mul, x, IN(g, "b", DT_BF16, 12289)), "y");
    add(s, "round", g, GROUP_MAP, 0, NULL, NULL, 1e-2);

    g = begin(s);
    x = IN(g, "x", DT_F32, 6, 10, 4);
    Node *t = graph_permute(g, x, (int64_t[]){2, 0, 1});
    Node *v = graph_reshape(g, t, 2, (int64_t[]){24, 10});
    Node *sl = graph_slice(g, v, (int64_t[]){1, 2}, (int64_t[]){23, 9}, (int64_t[]){3, 2});
    out(g, graph_binary(g, OP_mul, sl, sl), "y");
    add(s, "views", g, GROUP_MAP, 0, NULL, NULL, 1e-6);

    static const int64_t turned[][3] = {{3, 150, 170}, {1, 512, 256}, {40, 33, 64}, {270, 1024, 2}};
    for (int i = 0; i < 4; i++) { // transposes, the last in runs, with two operands beside
        int64_t b = turned[i][0], m = turned[i][1], n = turned[i][2];
        g = begin(s);
        x = graph_permute(g, IN(g, "x", i == 1 ? DT_BF16 : DT_F32, b, m, n), (int64_t[]){0, 2, 1});
        out(g, graph_binary(g, OP_mul, graph_cast(g, x, DT_F32), IN(g, "y", DT_F32, b, n, m)), "y");
        out(g, graph_binary(g, OP_add, graph_cast(g, x, DT_F32), IN(g, "row", DT_F32, m)), "z");
        add(s, arena_printf(s->a, "turned %d", i), g, GROUP_MAP, 0, NULL, NULL, 1e-6);
    }

    g = begin(s);
    x = IN(g, "x", DT_F32, 5, 6);
    Attrs at = {0};
    attr_set_ints(g, &at, ATTR_low, (int64_t[]){2, 1}, 2);
    attr_set_ints(g, &at, ATTR_high, (int64_t[]){0, 3}, 2);
    Node *pad = graph_node(g, OP_pad, (Node *[]){x, graph_const(g, DT_F32, -1)}, 2, &at);
    Attrs cat = {0};
    attr_set_int(&cat, ATTR_axis, 1);
    Node *y = IN(g, "y", DT_F32, 7, 3);
    Node *all = graph_node(g, OP_concat, (Node *[]){pad, y, pad}, 3, &cat);
    Attrs rev = {0};
    attr_set_ints(g, &rev, ATTR_axes, (int64_t[]){1}, 1);
    out(g, graph_node(g, OP_reverse, &all, 1, &rev), "y");
    out(g, graph_reshape(g, all, 1, (int64_t[]){7 * 23}), "flat");
    add(s, "pad concat reverse", g, GROUP_MAP, 0, NULL, NULL, 1e-6);

    g = begin(s);
    Type seed_t = type_scalar(DT_I64);
    Node *seed = graph_input(g, "seed", &seed_t, "arg"),
         *step = graph_input(g, "step", &seed_t, "arg");
    Attrs ra = {0};
    attr_set_ints(g, &ra, ATTR_shape, (int64_t[]){33, 5}, 2);
    attr_set_int(&ra, ATTR_dtype, DT_U32);
    attr_set_int(&ra, ATTR_site, 0x123456789abcdefll);
    attr_set_int(&ra, ATTR_bits, 128);
    attr_set_int(&ra, ATTR_lane, 2);
    Node *bits = graph_node(g, OP_random, (Node *[]){seed, step}, 2, &ra);
    out(g, bits, "bits");
    for (int b = 16; b <= 64; b *= 2) {
        attr_set_int(&ra, ATTR_bits, b);
        attr_set_int(&ra, ATTR_lane, b / 64);
        out(g, graph_node(g, OP_random, (Node *[]){seed, step}, 2, &ra),
            arena_printf(g->arena, "of_%d", b));
    }
    out(g,
        graph_binary(
            g, OP_mul,
            graph_cast(g, graph_binary(g, OP_shr, bits, graph_const_int(g, DT_U32, 8)), DT_F32),
            graph_const(g, DT_F32, 0x1p-24)),
        "uniform");
    add(s, "random", g, GROUP_MAP, 0, NULL, NULL, 0);
}

#include "tests/unit/lower_pieces.h"

static void casts(Suite *s)
{
    static const DType all[] = {DT_BOOL, DT_U8,  DT_I32, DT_U32, DT_I64,
                                DT_BF16, DT_F16, DT_F32, DT_F64};
    for (int i = 0; i < 9; i++) {
        Graph *g = begin(s);
        Node *x = IN(g, "x", all[i], 37);
        for (int j = 0; j < 9; j++) {
            Node *y = graph_cast(g, x, all[j]);
            if (all[j] != DT_BOOL)
                y = graph_binary(g, OP_mul, y,
                                 graph_cast(g, graph_const_int(g, DT_I32, 3), all[j]));
            out(g, y, dtype_info[all[j]].name);
        }
        add(s, arena_printf(s->a, "cast %s", dtype_info[all[i]].name), g, GROUP_MAP, 0, NULL, NULL,
            2e-2);
    }
}

static void functions(Suite *s)
{
    static const struct {
        Op op;
        const char *input;
    } unary[] = {{OP_neg, "x"},      {OP_abs, "x"},      {OP_sign, "x"},      {OP_sqrt, "pos"},
                 {OP_rsqrt, "pos"},  {OP_exp, "x"},      {OP_expm1, "x"},     {OP_log, "pos"},
                 {OP_log1p, "pos"},  {OP_sin, "x"},      {OP_cos, "x"},       {OP_tanh, "x"},
                 {OP_erf, "x"},      {OP_sigmoid, "x"},  {OP_floor, "x"},     {OP_ceil, "x"},
                 {OP_round, "x"},    {OP_isfinite, "x"}, {OP_expm1, "small"}, {OP_erf, "small"},
                 {OP_tanh, "small"}, {OP_ufp, "x"},      {OP_ufp, "small"}};
    for (int d = 0; d < 2; d++) {
        Graph *g = begin(s);
        for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
            DType t = d ? DT_F64 : DT_F32;
            Node *x = IN(g, unary[i].input, t, 201);
            out(g, graph_unary(g, unary[i].op, x),
                arena_printf(s->a, "%s %s", op_info(unary[i].op)->name, unary[i].input));
        }
        add(s, d ? "functions f64" : "functions f32", g, GROUP_MAP, 0, NULL, NULL,
            d ? 1e-12 : 1e-6);
    }
    static const DType types[] = {DT_U8, DT_I32, DT_U32, DT_I64, DT_F32, DT_F64};
    static const Op binary[] = {OP_add,     OP_sub,     OP_mul, OP_floordiv, OP_mod,
                                OP_minimum, OP_maximum, OP_eq,  OP_lt,       OP_ge};
    for (int i = 0; i < 6; i++) {
        Graph *g = begin(s);
        Node *x = IN(g, "x", types[i], 45), *y = IN(g, "y", types[i], 45);
        for (size_t j = 0; j < sizeof binary / sizeof *binary; j++)
            out(g, graph_binary(g, binary[j], x, y), op_info(binary[j])->name);
        add(s, arena_printf(s->a, "arithmetic %s", dtype_info[types[i]].name), g, GROUP_MAP, 0,
            NULL, NULL, 1e-6);
    }
}

// Cheaper forms where results are 16-bit floats, and divisions by a row's number: over the whole
// range of the argument, relative to the result.
static void approximations(Suite *s)
{
    static const Op ops[] = {OP_exp, OP_tanh, OP_erf, OP_sigmoid};
    static const char *const inputs[] = {"wide", "x", "small", "wide small"};
    for (int h = 0; h < 2; h++) {
        Graph *g = begin(s);
        for (int i = 0; i < 4 * 4; i++) {
            if (h && i / 4 % 3 == 0) continue; // f16 ends at 65504
            Node *x = IN(g, inputs[i / 4], DT_F32, 2040);
            out(g, graph_cast(g, graph_unary(g, ops[i % 4], x), h ? DT_F16 : DT_BF16),
                arena_printf(s->a, "%s %s", op_info(ops[i % 4])->name, inputs[i / 4]));
        }
        s->tiny = h ? 0x1p-14 : 0x1p-125;
        add(s, h ? "functions to f16" : "functions to bf16", g, GROUP_MAP, 0, NULL, NULL,
            h ? 0x1.1p-11 : 0x1.04p-8);
    }
    for (int k = 0; k < 4; k++) { // divisors that differ by row; by element, rounded to bf16
        Graph *g = begin(s);
        Node *x = IN(g, "wide", DT_F32, 60, 64);
        Node *q = graph_binary(g, OP_div, x, IN(g, "wide by", DT_F32, 60, k & 2 ? 1 : 64));
        out(g, k & 1 ? graph_cast(g, q, DT_BF16) : q, "q");
        int64_t last[1] = {1};
        if (k == 0) out(g, graph_unary(g, OP_sqrt, graph_unary(g, OP_abs, x)), "root");
        if (k & 2) out(g, graph_reduce(g, OP_max, q, last, 1, false), "NaN wins");
        add(s, arena_printf(s->a, "division %d", k), g, k & 2 ? GROUP_ROW : GROUP_MAP, 0, NULL,
            NULL, k & 1 ? 0x1.04p-8 : 2.5e-7);
    }
    s->tiny = 0;
}

#include "tests/unit/lower_rows.h"

#include "tests/unit/lower_columns.h"

#include "tests/unit/lower_indexed.h"

#include "tests/unit/lower_ordered.h"

#include "tests/unit/lower_rounds.h"

static void contractions(Suite *s)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {5, 7, 3},      {64, 64, 64},
                                       {33, 65, 129}, {128, 10, 784}, {2, 300, 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < 4; k++) {
            int64_t m = sizes[i][0], n = sizes[i][1], d = sizes[i][2];
            Graph *g = begin(s);
            Node *a = k & 1 ? graph_permute(g, IN(g, "a", DT_F32, d, m), (int64_t[]){1, 0})
                            : IN(g, "a", DT_F32, m, d);
            Node *b = k & 2 ? graph_permute(g, IN(g, "b", DT_F32, n, d), (int64_t[]){1, 0})
                            : IN(g, "b", DT_F32, d, n);
            Node *c = graph_binary(g, OP_add, graph_matmul(g, a, b), IN(g, "bias", DT_F32, n));
            out(g, graph_binary(g, OP_maximum, c, graph_const(g, DT_F32, 0)), "y");
            add(s,
                arena_printf(s->a, "dot %lldx%lldx%lld %d", (long long)m, (long long)n,
                             (long long)d, k),
                g, GROUP_DOT, 0, NULL, NULL, 1e-4);
        }
    // Of many tiles, which tasks take by several, with any of them cut short.
    static const DType types[] = {DT_BF16, DT_F16, DT_F64, DT_I32};
    uint64_t state = 12;
    for (int i = 0; i < 12; i++) {
        int64_t batch = 1 + rng(&state) % 2, m = 500 + rng(&state) % 80, n = 500 + rng(&state) % 80;
        int64_t d = 1 + rng(&state) % (i % 3 ? 20 : 280);
        if (i % 3 == 0) m = 2 + rng(&state) % 60, n = 2 + rng(&state) % 60;
        DType t = i % 2 ? DT_F32 : types[rng(&state) % 4];
        bool turn_a = rng(&state) % 2, turn_b = rng(&state) % 2;
        Graph *g = begin(s);
        Node *a = IN(g, "a", t, batch, turn_a ? d : m, turn_a ? m : d);
        Node *b = IN(g, "b", t, batch, turn_b ? n : d, turn_b ? d : n);
        if (turn_a) a = graph_permute(g, a, (int64_t[]){0, 2, 1});
        if (turn_b) b = graph_permute(g, b, (int64_t[]){0, 2, 1});
        Node *c = graph_matmul(g, a, b);
        if (rng(&state) % 2) c = graph_binary(g, OP_add, c, IN(g, "bias", t, n));
        out(g, c, "y");
        add(s, arena_printf(s->a, "dots %d", i), g, GROUP_DOT, 0, NULL, NULL, 1e-2);
    }
    for (int i = 0; i < 4; i++) {
        Graph *g = begin(s);
        Node *a = IN(g, "a", types[i], 3, 20, 31), *b = IN(g, "b", types[i], 3, 31, 18);
        out(g, graph_matmul(g, a, b), "y");
        add(s, arena_printf(s->a, "batched dot %s", dtype_info[types[i]].name), g, GROUP_DOT, 0,
            NULL, NULL, 1e-2);
    }
}

#include "tests/unit/lower_sweeps.h"

// Several updates in one launch: equal bodies become one function.
static void side_by_side(Suite *s)
{
    Graph *g = begin(s);
    Fusion *f = NEW(s->a, Fusion);
    Node *roots[3];
    static const int64_t sizes[] = {1000, 10, 784};
    for (int i = 0; i < 3; i++) {
        Node *p = in(g, arena_printf(s->a, "p%d", i), DT_F32, 1, &sizes[i]),
             *d = in(g, arena_printf(s->a, "d%d", i), DT_F32, 1, &sizes[i]);
        roots[i] = graph_root(
            g, OP_output,
            graph_binary(g, OP_sub, p, graph_binary(g, OP_mul, d, graph_const(g, DT_F32, 0.1))),
            arena_printf(s->a, "o%d", i));
    }
    f->group_of = NEW_ARRAY(s->a, uint32_t, g->nodes.n + 1);
    Group *list[3];
    for (int i = 0; i < 3; i++) {
        Group gr = {.kind = GROUP_MAP, .id = (uint32_t)i};
        vec_push(s->a, &gr.outs, roots[i]);
        vec_push(s->a, &f->groups, gr);
        f->group_of[roots[i]->id] = (uint32_t)i + 1;
    }
    g->fusion = f;
    for (int i = 0; i < 3; i++) list[i] = &f->groups.at[i];
    LowerCtx ctx = {
        .arena = s->a, .diags = s->d, .target = &s->cuda, .module = s->m, .entry = &s->entry};
    LoweredKernel *k;
    CHECK(lower_launch(&ctx, g, list, 3, &k) == 1);
    CHECK(k[0].nargs == 9);
    int bodies = 0;
    for (const char *p = k[0].prog.text; (p = strstr(p, "__forceinline__ void")); p++) bodies++;
    CHECK_MSG(bodies == 1, "%d bodies for equal updates", bodies);
    for (int i = 0; i < 9; i++) CHECK(k[0].args[i].kind == KA_NODE && k[0].args[i].same_as >= 0);
    buf_str(&s->cu, k[0].prog.text);
    if (getenv("SHOW")) printf("%s\n", k[0].prog.annotated);
}

static void host(Suite *s)
{
    Arena *a = s->a;
    char dir[] = "/tmp/netc_lower_XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    const char *src = arena_printf(a, "%s/k.c", dir), *so = arena_printf(a, "%s/k.so", dir);
    FILE *f = fopen(src, "w");
    fputs(s->c.data, f);
    fclose(f);
    int rc = system(arena_printf( // (-O2 would take half as long again, nearly all of the test)
        a,
        "${CC:-cc} -std=gnu17 -O1 -fno-ivopts -ftree-vectorize -march=native -fopenmp-simd "
        "-ffp-contract=off "
        "-fno-math-errno -fno-trapping-math -Wall -Werror=incompatible-pointer-types "
        "-Wno-unused-variable -Wno-tautological-compare -shared -fPIC -o %s %s -lm",
        so, src));
    CHECK_MSG(rc == 0, "cc failed on %s", src);
    void *lib = rc == 0 ? dlopen(so, RTLD_NOW) : NULL;
    for (int i = 0; lib && i < s->n; i++) run_case(s, &s->cases[i], lib, NULL);
    if (getenv("KEEP")) {
        f = fopen(arena_printf(a, "%s/k.cu", dir), "w");
        fputs(s->cu.data, f);
        fclose(f);
        printf("kept %s\n", dir);
    } else {
        unlink(src);
        unlink(so);
        rmdir(dir);
    }
}

int main(void)
{
    Arena *a = arena_new();
    static Suite suite;
    Suite *s = &suite;
    s->a = a;
    s->d = diags_new(a);
    s->m = module_new(a, s->d, "test");
    s->only = getenv("ONLY");
    s->cpu = target_cpu(2, false);
    s->cuda = target_cuda(90, false);
    s->c = buf_new(a);
    s->cu = buf_new(a);
    s->few = buf_new(a);
    s->c_seen = strmap_new(a);
    s->cu_seen = strmap_new(a);
    buf_str(&s->c, lower_prelude(a, &s->cpu, 0));
    buf_str(&s->cu, lower_prelude(a, &s->cuda, PRELUDE_RADIX));
    buf_str(&s->few, s->cu.data);
    maps(s);
    pieces(s);
    casts(s);
    functions(s);
    approximations(s);
    rows(s);
    columns(s);
    rounds(s);
    extremes(s);
    vectors(s);
    indexed(s);
    ordered(s);
    contractions(s);
    sweeps(s);
    if (!s->only) side_by_side(s);
    for (int i = 0; i < RUN_TILES && !s->only; i++)
        CHECK_MSG(s->ran[i], "no case has a body of variant %d", i);
    if (s->d->errors) {
        Buf b = buf_new(a);
        diags_render(s->d, &b, false);
        printf("%s", b.data);
    }
    if (!getenv("QUICK")) host(s);
    if (!getenv("NO_NVRTC")) cuda(s);
    int result = unit_done();
    arena_free(a);
    return result;
}
