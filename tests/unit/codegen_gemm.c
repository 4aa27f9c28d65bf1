// Contractions as library calls: random batch, free and contracted axes behind random transposes,
// reshapes and broadcasts; the call, played on doubles, must give what the evaluator gives.
#include <math.h>
#include <string.h>

#include "codegen/codegen.h"
#include "ir/eval.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

static uint64_t seed = 0x2545f4914f6cdd1du;

static uint32_t draw(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 20) % n);
}

// An operand with the wanted dims, stored in some other order, sometimes broadcast along an axis.
static Node *operand(Graph *g, const char *name, const int64_t *dim, int rank, bool may_repeat)
{
    int64_t perm[MAX_RANK], back[MAX_RANK], stored[MAX_RANK];
    for (int i = 0; i < rank; i++) perm[i] = i;
    if (draw(2)) // swap two axes in memory
        for (int i = 0; i < rank; i++) {
            int k = (int)draw((uint32_t)rank);
            int64_t t = perm[i];
            perm[i] = perm[k], perm[k] = t;
        }
    for (int i = 0; i < rank; i++) stored[perm[i]] = dim[i], back[i] = perm[i];
    int repeat = may_repeat && draw(3) == 0 ? 0 : -1; // axis 0 is a batch axis
    Type t = {.dtype = DT_F32};
    int64_t shape[MAX_RANK];
    int64_t dims[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        shape[i] = stored[i];
        if (repeat >= 0 && i == back[repeat]) continue;
        dims[t.rank] = i;
        t.dim[t.rank++] = stored[i];
    }
    Node *x = graph_input(g, name, &t, "arg");
    if (repeat >= 0) {
        Attrs a = {0};
        attr_set_ints(g, &a, ATTR_shape, shape, rank);
        attr_set_ints(g, &a, ATTR_dims, dims, t.rank);
        x = graph_node(g, OP_broadcast, &x, 1, &a);
    }
    return graph_permute(g, x, back);
}

static double read_at(const Value *v, const ProgEntry *e, const ProgArg *arg, int64_t at)
{
    const ProgBuffer *b = &e->buffers[arg->index];
    CHECK(at >= 0 && at * prog_dtype_bytes(b->type.dtype) < b->bytes);
    return value_get(v, at);
}

// Plays the only matmul of the program; false when the graph was lowered to something else.
static bool play(const Program *p, Value *const *inputs, double *out)
{
    const ProgEntry *e = &p->entries[0];
    const ProgStep *s = &e->steps[0];
    if (e->nsteps != 1 || s->kind != PS_GEMM) return false;
    const ProgGemm *g = &p->gemms[s->index];
    const Value *a = inputs[e->buffers[s->args[0].index].index];
    const Value *b = inputs[e->buffers[s->args[1].index].index];
    CHECK(e->buffers[s->args[2].index].region == PR_OUTPUT);
    for (int64_t z = 0; z < g->batch; z++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < g->k; k++)
                    sum +=
                        read_at(a, e, &s->args[0],
                                z * g->stride_a + (g->trans_a ? k * g->lda + i : i * g->lda + k)) *
                        read_at(b, e, &s->args[1],
                                z * g->stride_b + (g->trans_b ? j * g->ldb + k : k * g->ldb + j));
                out[z * g->stride_c + i * g->ldc + j] = sum;
            }
    return true;
}

static bool one(Arena *a)
{
    Diags *d = diags_new(a);
    Module *m = module_new(a, d, "test");
    Graph *g = graph_new(a, d, NULL);
    int nb = (int)draw(3), nk = draw(8) ? 1 + (int)draw(2) : 0;
    int nm = draw(8) ? 1 + (int)draw(2) : 0,
        nn = draw(8) ? 1 + (int)draw(2) : 0; // vectors are rare
    int64_t da[MAX_RANK], db[MAX_RANK], ba[2], bb[2], ca[2], cb[2];
    int ra = 0, rb = 0;
    for (int i = 0; i < nb; i++) ba[i] = ra, bb[i] = rb, da[ra++] = db[rb++] = 1 + draw(3);
    for (int i = 0; i < nm; i++) da[ra++] = draw(6) ? 2 + draw(4) : 1;
    // (other products are generated: target_row_by_row, target_narrow_product)
    for (int i = 0; i < nk; i++)
        ca[i] = ra, cb[i] = rb, da[ra++] = db[rb++] = (nk == 1 ? 9 : 3) + draw(5);
    for (int i = 0; i < nn; i++) db[rb++] = draw(6) ? (nn == 1 ? 17 : 5) + draw(4) : 1;
    Node *x = operand(g, "x", da, ra, nb > 0), *y = operand(g, "y", db, rb, nb > 0);
    graph_root(g, OP_output, graph_dot(g, x, y, ba, bb, nb, ca, cb, nk, DT_F32), "z");
    Target target = target_cpu(2, true);
    Entry entry = {.name = "e", .kind = ENTRY_MODEL, .graph = g, .batch = 1};
    vec_push(a, &m->entries, entry);
    PassOptions po = {.target = &target};
    CodegenOptions co = {.target = &target};
    EvalEnv env = {.arena = a, .inputs = strmap_new(a), .cells = strmap_new(a)};
    Value values[2], *inputs[2] = {0};
    Program *p = passes_run(m, &po, NULL) ? codegen(m, &co) : NULL;
    CHECK(p && p->entries[0].ninputs <= 2);
    if (!p) return false;
    for (int i = 0; i < p->entries[0].ninputs; i++) {
        const ProgInput *in = &p->entries[0].inputs[i];
        Type t = type_make(DT_F32, in->type.rank, in->type.dim);
        values[i] = value_new(a, &t);
        for (int64_t k = 0; k < type_count(&t); k++) values[i].f[k] = (double)draw(100) / 10 - 5;
        strmap_set(&env.inputs, in->name, &values[i]);
        inputs[i] = &values[i];
    }
    EvalResult r = {0};
    CHECK(eval_graph(m->entries.at[0].graph, &env, &r));
    const Value *want = strmap_get(&r.outputs, "z");
    int64_t n = type_count(&want->type);
    double *got = NEW_ARRAY(a, double, n + 1);
    if (!play(p, inputs, got)) return false;
    double worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(got[i] - want->f[i]));
    CHECK_MSG(worst < 1e-6, "batch %d, m %d, n %d, k %d axes: off by %g", nb, nm, nn, nk, worst);
    return true;
}

int main(void)
{
    Arena *a = arena_new();
    jmp_buf oom;
    if (setjmp(oom)) return 2;
    arena_on_oom(a, &oom);
    int taken = 0;
    for (int i = 0; i < 1200; i++) taken += one(a);
    CHECK_MSG(taken > 150, "only %d of 1200 dots are library calls", taken);
    arena_free(a);
    return unit_done();
}
