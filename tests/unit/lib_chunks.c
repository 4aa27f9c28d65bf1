// Heads (passes/chunks) in many spellings: found, with values and gradients of the unsplit graph by
// the evaluator; what is refused, and why. Then heads put together at random; one argument: how
// many.
#include "tests/unit/attention.h"

typedef struct Case {
    const char *name, *leaves, *body; // x (27, 6) and w (40, 6) are there; loss is what is left
    int loops;
    const char *outputs, *why;
} Case;

#define LOGITS "    l = matmul(x, transpose(w))\n"

static const Case cases[] = {
    {"cross entropy", "", LOGITS "    loss = cross_entropy(l, y)\n", 1, "", NULL},
    {"label smoothing", "", LOGITS "    loss = cross_entropy(l, y, 0.1)\n", 1, "", NULL},
    {"soft cap", "", LOGITS "    loss = cross_entropy(5 * tanh(l / 5), y)\n", 1, "", NULL},
    {"weights", "    param by: f32[27] = normal(1)\n",
     LOGITS "    nll = logsumexp(l, -1) - sum(where(expand(y, -1) == iota(40), l, 0), -1)\n"
            "    loss = sum(nll * exp(by)) / sum(exp(by))\n",
     1, "", NULL},
    {"ignored rows", "",
     LOGITS "    nll = logsumexp(l, -1) - sum(where(expand(y, -1) == iota(40), l, 0), -1)\n"
            "    seen = cast(y != 1, f32)\n"
            "    loss = sum(where(y != 1, nll, 0)) / maximum(sum(seen), 1)\n",
     1, "", NULL},
    {"z-loss", "",
     LOGITS "    loss = cross_entropy(l, y) + 0.01 * mean(square(logsumexp(l, -1)))\n", 1, "",
     NULL},
    {"tied embedding", "",
     "    l = matmul(x + w[y], transpose(w))\n    loss = cross_entropy(l, y)\n", 1, "", NULL},
    {"accuracy", "", LOGITS "    loss = cross_entropy(l, y)\n", 1, ", a = accuracy(l, y)", NULL},
    {"largest", "", LOGITS "    loss = cross_entropy(l, y)\n", 1, ", a = max(l, -1), b = argmax(l)",
     NULL},
    {"bias and temperature", "    param b: f32[40] = normal(1)\n    param t: f32[] = 0.4\n",
     "    l = (matmul(x, transpose(w)) + b) * exp(t)\n    loss = cross_entropy(l, y)\n", 1, "",
     NULL},
    {"a factor a row", "    param t: f32[27, 1] = normal(1)\n",
     "    l = matmul(x, transpose(w)) * t\n    loss = cross_entropy(l, y)\n", 1, "", NULL},
    {"batches of rows", "",
     "    l = matmul(reshape(x, [3, 9, 6]), transpose(w))\n"
     "    loss = cross_entropy(l, reshape(y, [3, 9]))\n",
     1, "", NULL},
    {"batches, then rows", "",
     "    l = reshape(matmul(reshape(x, [3, 9, 6]), transpose(w)), [27, 40])\n"
     "    loss = cross_entropy(l, y)\n",
     1, "", NULL},
    {"masked columns", "", LOGITS "    loss = cross_entropy(where(iota(40) < 37, l, -inf), y)\n", 1,
     "", NULL},
    {"fewer columns", "", LOGITS "    loss = cross_entropy(l[:, :37], y)\n", 1, "", NULL},
    {"rows that count", "",
     LOGITS "    loss = cross_entropy(l + cast(expand(iota(27), 1), f32) * 0.01 * l, y)\n", 1, "",
     NULL},
    {"a mask of its own", "    param m: f32[27, 40] = normal(1)\n",
     LOGITS "    loss = cross_entropy(l + stop_gradient(m), y) + 0.1 * sum(m)\n", 1, "", NULL},
    {"contrastive", "    param z: f32[27, 6] = normal(1)\n",
     "    loss = cross_entropy(matmul(x, transpose(z)) / 0.3, iota(27)) + 0.1 * sum(w)\n", 1, "",
     NULL},
    {"hinge", "",
     LOGITS "    loss = mean(max(l, -1) - sum(where(expand(y, -1) == iota(40), l, 0), -1))\n", 1,
     "", NULL},
    {"two heads", "    param v: f32[44, 6] = normal(1)\n",
     LOGITS "    loss = cross_entropy(l, y) + 0.5 * cross_entropy(matmul(x, transpose(v)), y)\n", 2,
     "", NULL},
    {"a mask that learns", "    param m: f32[27, 40] = normal(1)\n",
     LOGITS "    loss = cross_entropy(l + m, y)\n", 0, "", "whole"},
    {"largest of all", "", LOGITS "    loss = cross_entropy(l, y) + 0.1 * max(l)\n", 0, "",
     "whole"},
    {"columns reduced, too", "", LOGITS "    loss = cross_entropy(l, y) + mean(logsumexp(l, 0))\n",
     0, "", "whole"},
    {"dropout", "", LOGITS "    loss = cross_entropy(dropout(l, 0.5), y)\n", 0, "", "whole"},
    {"no rows reduced", "", LOGITS "    loss = mean(square(l))\n", 0, "", NULL},
    {"a hidden layer", "    param u: f32[6, 40] = normal(1)\n",
     "    h = tanh(matmul(x, transpose(w)))\n    loss = cross_entropy(matmul(h, transpose(u)), "
     "y)\n",
     0, "", NULL},
};

static char *model_of(Arena *a, const char *leaves, const char *body, const char *outputs)
{
    return arena_printf(
        a,
        "use nn\nuse optim\n"
        "model m(t: f32[1], y: i32[27] in 0..6) {\n    param x: f32[27, 6] = normal(1)\n"
        "    param w: f32[40, 6] = normal(1)\n%s%s    return loss = loss + sum(t)%s\n}\n"
        "train m {\n    minimize loss\n    update sgd(lr = 1)\n}\n",
        leaves, body, outputs);
}

static int count_loops(const Graph *g)
{
    int n = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        n += g->nodes.at[i]->op == OP_loop;
        for (uint32_t k = 0; k < g->nodes.at[i]->nregions; k++)
            n += count_loops(g->nodes.at[i]->regions[k]);
    }
    return n;
}

// Whether something as large as rows x columns is computed outside of loops.
static bool stores_whole(const Graph *g, int64_t count)
{
    for (uint32_t i = 0; i < g->fusion->groups.n; i++)
        for (uint32_t k = 0; k < g->fusion->groups.at[i].outs.n; k++)
            if (type_count(&g->fusion->groups.at[i].outs.at[k]->type) >= count) return true;
    return false;
}

// The model with and without the pass, for a number of bytes at a time.
static void check(Arena *a, const char *name, const char *text, const Case *c, Precision precision,
                  int64_t bytes)
{
    Run with, without;
    const Target t = target_cuda(90, true);
    PassOptions o = {.target = &t, .precision = precision, .chunk_bytes = bytes}, plain = o;
    plain.skip = "chunks";
    if (!run_with(a, &with, name, text, o) || !run_with(a, &without, name, text, plain)) return;
    int loops = count_loops(with.train);
    CHECK_MSG(loops == c->loops, "%s: %d loops, not %d\n%s", name, loops, c->loops, text);
    bool other = c->leaves && strstr(c->leaves, "27, 40"); // (has a gradient as large)
    CHECK_MSG(!c->loops || other || !stores_whole(with.train, 27 * 37),
              "%s: something whole is stored", name);
    const Entry *e = module_entry(with.m, "train");
    const char *why = e->refused.n ? unfused_cause(e->refused.at[0].cause) : NULL;
    CHECK_MSG(why == c->why || (why && c->why && !strcmp(why, c->why)), "%s: '%s', not '%s'", name,
              why ? why : "", c->why ? c->why : "");
    CHECK_MSG(e->refused.n <= 1, "%s: refused %u times", name, e->refused.n);
    compare(name, &with.result.assigns, &without.result.assigns);
    compare(name, &with.result.outputs, &without.result.outputs);
}

static void test_cases(void)
{
    static const Precision precisions[] = {PREC_F32, PREC_BF16, PREC_F16};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int p = 0; p < 3; p++) {
            Arena *a = arena_new();
            const Case *c = &cases[i];
            // rows of a round: 9 of 27; 5, and two are left over
            const char *text = model_of(a, c->leaves, c->body, c->outputs);
            int bits = p ? 2 : 4;
            check(a, c->name, text, c, precisions[p], 9 * 44 * bits);
            check(a, c->name, text, c, precisions[p], 5 * 44 * bits);
            arena_free(a);
        }
}

// Nothing happens without a limit, nor where a product is small for it; in micro-batches it does.
static void test_limits(void)
{
    static const char text[] =
        "use nn\nuse optim\ndim batch = 4096\n"
        "model m(x: f32[batch, 8], y: i32[batch] in 0..6) {\n"
        "    return loss = cross_entropy(linear(x, 512, use_bias = false) as out, y)\n}\n"
        "train m {\n    accumulate 2\n    minimize loss\n    update sgd(lr = 1)\n}\n";
    const int64_t limits[] = {0, 64 << 20, 16 << 20};
    const int loops[] = {0, 0, 1}; // 4 MB of 8 MB; of 2 MB: at least 2048 rows
    for (int i = 0; i < 3; i++) {
        Arena *a = arena_new();
        Diags *d = diags_new(a);
        const Target t = target_cuda(90, true);
        Module *m = frontend_compile(a, d, "case.net", text, strlen(text), &(FrontendOptions){0});
        PassOptions o = {.target = &t, .memory_limit = limits[i]};
        CHECK(m && passes_run(m, &o, NULL));
        const Graph *g = m ? module_entry(m, "eval")->graph : NULL;
        CHECK_MSG(g && count_loops(g) == loops[i], "limit %lld", (long long)limits[i]);
        arena_free(a);
    }
}

// In a loop over micro-batches, over several axes of rows, with values by place and row.
static void test_accumulate(void)
{
    static const char text[] =
        "use nn\nuse optim\ndim batch = 3\n"
        "model m(x: f32[batch, 7, 6], y: i32[batch, 7] in 0..3, m: u8[batch, 7] in 0..2) {\n"
        "    l = linear(x, 40) as out\n"
        "    nll = logsumexp(l, -1) - sum(where(expand(y, -1) == iota(40), l, 0), -1)\n"
        "    by = cast(m, f32) * cast(iota(7) + 1, f32)\n"
        "    return loss = sum(nll * by) / (1 + sum(by))\n}\n"
        "train m {\n    accumulate 2\n    minimize loss\n    update sgd(lr = 1)\n}\n";
    static const Case c = {.loops = 2};
    for (int rows = 4; rows <= 7; rows += 3) {
        Arena *a = arena_new();
        check(a, "micro-batches", text, &c, PREC_F32, 40 * 4 * rows);
        arena_free(a);
    }
}

// Rows of as many axes as there may be, some of size 1; columns of many.
static void test_ranks(void)
{
    static const char *const shapes[][2] = {
        {"3, 1, 1, 3, 1, 1, 3", "matmul(x, w)"},
        {"1, 27", "matmul(x, w) * expand(r, 1)"},
        {"27, 1", "matmul(x, w)"},
        {"27", "sum(reshape(matmul(x, w), [27, 1, 1, 1, 1, 1, 2, 20]), 6)"}};
    static const Case c = {.loops = 1};
    for (int i = 0; i < 4; i++) {
        Arena *a = arena_new();
        const char *text = arena_printf(
            a,
            "use nn\nuse optim\nmodel m(r: f32[27]) {\n"
            "    param x: f32[%s, 6] = normal(1)\n    param w: f32[6, 40] = normal(1)\n"
            "    l = %s\n    loss = mean(logsumexp(l, -1)) + 0.1 * max(x)\n    return loss\n}\n"
            "train m {\n    minimize loss\n    update sgd(lr = 1)\n}\n",
            shapes[i][0], shapes[i][1]);
        check(a, "many axes", text, &c, PREC_F32, 40 * 4 * 9);
        check(a, "many axes", text, &c, PREC_F32, 40 * 4 * 5);
        arena_free(a);
    }
}

// -- at random ------------------------------------------------------------------------------------

static uint32_t state = 1;

static int draw(int n)
{
    state = state * 1664525u + 1013904223u;
    return (int)((uint64_t)(state >> 8) * (uint64_t)n >> 24);
}

static const char *pick(const char *const *of)
{
    int n = 0;
    while (of[n]) n++;
    return of[draw(n)];
}

static void test_random(int count)
{
    static const char *const products[] = {
        "    l = matmul(x, transpose(w))\n",
        "    l = matmul(tanh(x) * 2, transpose(w))\n",
        "    l = matmul(x + w[y], transpose(w)) + b\n",
        "    l = matmul(reshape(x, [9, 3, 6]), transpose(w))\n    l = reshape(l, [27, 40])\n",
        "    l = matmul(x, reshape(v, [6, 40]))\n",
        NULL};
    static const char *const changes[] = {"",
                                          "    l = l * 0.3\n",
                                          "    l = 4 * tanh(l / 4)\n",
                                          "    l = where(iota(40) % 7 == 6, -1e9, l)\n",
                                          "    l = l + b\n",
                                          "    l = l * exp(r)\n",
                                          "    l = l - mean(l, -1, keep = true)\n",
                                          NULL};
    static const char *const losses[] = {
        "    loss = cross_entropy(l, y)\n",
        "    loss = cross_entropy(l, y, 0.2)\n",
        "    loss = sum((logsumexp(l, -1) - l_y) * cast(y != 2, f32)) / 27\n",
        "    loss = cross_entropy(l, y) + 0.1 * mean(square(logsumexp(l, -1)))\n",
        "    loss = mean(square(variance(l, -1))) - mean(l_y)\n",
        "    loss = mean(sum(softmax(l) * softmax(l), -1) - l_y)\n",
        NULL};
    static const char *const outputs[] = {"", ", a = accuracy(l, y)", ", m = max(l, -1)", NULL};
    for (int i = 0; i < count; i++) {
        Arena *a = arena_new();
        Buf body = buf_new(a);
        buf_str(&body, pick(products));
        for (int k = draw(4); k > 0; k--) {
            int at = draw(7);
            buf_str(&body, changes[at]);
        }
        buf_str(&body, "    l_y = sum(where(expand(y, -1) == iota(40), l, 0), -1)\n");
        buf_str(&body, pick(losses));
        buf_str(&body, "    loss = loss + 0.1 * (sum(b) + sum(r) + sum(v) + sum(w))\n");
        const char *text = model_of(a,
                                    "    param b: f32[40] = normal(1)\n    param r: f32[27, 1] = "
                                    "normal(0.3)\n    param v: f32[2, 3, 40] = normal(1)\n",
                                    body.data, pick(outputs));
        const Case c = {.loops = 1};
        check(a, arena_printf(a, "random %d", i), text, &c, draw(2) ? PREC_F32 : PREC_BF16,
              40 * 4 * (1 + draw(12)));
        arena_free(a);
    }
}

int main(int argc, char **argv)
{
    test_cases();
    test_limits();
    test_accumulate();
    test_ranks();
    test_random(argc > 1 ? atoi(argv[1]) : 150);
    return unit_done();
}
