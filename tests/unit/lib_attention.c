// What the attention pass finds: a table of spellings, each with the kernels that it has to become,
// its values and gradients with and without the pass by the evaluator.
#include "tests/unit/attention.h"

typedef struct Case {
    const char *name;
    const char *leaves; // parameters and inputs of the model
    const char *body;   // y of q, k and v, or of what [leaves] has
    int kernels[3];     // forward, for queries, for keys and values, in the train entry
    const char *inputs;
    const char *why; // the cause for --why where it is not taken
} Case;

#define QKV                                                                                        \
    "    param q: f32[2, 3, 40, 8] = normal(1)\n"                                                  \
    "    param k: f32[2, 3, 40, 8] = normal(1)\n"                                                  \
    "    param v: f32[2, 3, 40, 8] = normal(1)\n"
#define CROSS                                                                                      \
    "    param q: f32[2, 3, 33, 8] = normal(1)\n"                                                  \
    "    param k: f32[2, 3, 50, 8] = normal(1)\n"                                                  \
    "    param v: f32[2, 3, 50, 16] = normal(1)\n"
#define S "    s = matmul(q, transpose(k)) * 0.35\n"

static const Case cases[] = {
    {"plain", QKV, S "    y = matmul(softmax(s), v)\n", {1, 1, 1}, "", NULL},
    {"causal",
     QKV,
     S "    c = expand(iota(40), 1) >= iota(40)\n"
       "    y = matmul(softmax(where(c, s, -inf)), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"causal by -1e9",
     QKV,
     S "    c = expand(iota(40), 1) >= iota(40)\n"
       "    y = matmul(softmax(s + where(c, 0.0, -1e9)), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"causal by 1 - c",
     QKV,
     S "    c = cast(expand(iota(40), 1) >= iota(40), f32)\n"
       "    y = matmul(softmax(s + (1 - c) * -1e9), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"causal by a sum with -inf",
     QKV,
     S "    c = expand(iota(40), 1) >= iota(40)\n"
       "    y = matmul(softmax(where(c, 0.0, -inf) + s), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"cross", CROSS, S "    y = matmul(softmax(s), v)\n", {1, 1, 1}, "", NULL},
    {"scaled query",
     QKV,
     "    y = matmul(softmax(matmul(q * 0.35, transpose(k))), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"scaled key",
     QKV,
     "    y = matmul(softmax(matmul(q, transpose(k / 3))), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"by hand",
     QKV,
     S "    e = exp(s - max(s, -1, keep = true))\n"
       "    y = matmul(e / sum(e, -1, keep = true), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"by hand, no maximum",
     QKV,
     S "    e = exp(s)\n"
       "    y = matmul(e / sum(e, -1, keep = true), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"by reciprocal",
     QKV,
     S "    e = exp(s - stop_gradient(max(s, -1, keep = true)))\n"
       "    y = matmul(e * (1 / sum(e, -1, keep = true)), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"divided at the end",
     QKV,
     S "    e = exp(s - stop_gradient(max(s, -1, keep = true)))\n"
       "    y = matmul(e, v) / sum(e, -1, keep = true)\n",
     {1, 1, 1},
     "",
     NULL},
    {"log softmax", QKV, S "    y = matmul(exp(log_softmax(s)), v)\n", {1, 1, 1}, "", NULL},
    {"keys first",
     QKV,
     "    s = matmul(k, transpose(q)) * 0.35\n"
     "    y = matmul(transpose(softmax(s, -2)), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"turned keys",
     "    param q: f32[2, 3, 40, 8] = normal(1)\n"
     "    param k: f32[2, 3, 8, 40] = normal(1)\n"
     "    param v: f32[2, 3, 40, 8] = normal(1)\n",
     "    y = matmul(softmax(matmul(q, k)), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"cast", QKV, S "    y = matmul(cast(cast(softmax(s), bf16), f32), v)\n", {1, 1, 1}, "", NULL},
    {"window",
     QKV,
     S "    d = expand(iota(40), 1) - iota(40)\n"
       "    y = matmul(softmax(where(d >= 0 and d < 8, s, -inf)), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"padding",
     QKV,
     S "    m = reshape(mask, [2, 1, 1, 40]) > 0\n"
       "    y = matmul(softmax(where(m, s, -1e30)), v)\n",
     {1, 1, 1},
     ", mask: u8[2, 40]",
     NULL},
    {"alibi",
     QKV,
     S "    slope = exp(cast(iota(3), f32) * -0.7)\n"
       "    d = cast(iota(40) - expand(iota(40), 1), f32)\n"
       "    y = matmul(softmax(s + reshape(slope, [3, 1, 1]) * d), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"bias", QKV, S "    y = matmul(softmax(s + b), v)\n", {1, 1, 1}, ", b: f32[3, 40, 40]", NULL},
    {"soft cap", QKV, S "    y = matmul(softmax(3 * tanh(s / 3)), v)\n", {1, 1, 1}, "", NULL},
    {"capped and causal",
     QKV,
     S "    c = expand(iota(40), 1) >= iota(40)\n"
       "    y = matmul(softmax(where(c, 3 * tanh(s / 3), -inf)), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"dropout", QKV, S "    y = matmul(dropout(softmax(s), 0.3), v)\n", {1, 1, 1}, "", NULL},
    {"dropout, causal",
     QKV,
     S "    c = expand(iota(40), 1) >= iota(40)\n"
       "    y = matmul(dropout(softmax(where(c, s, -inf)), 0.3), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"grouped",
     "    param q: f32[2, 6, 40, 8] = normal(1)\n"
     "    param k: f32[2, 3, 40, 8] = normal(1)\n"
     "    param v: f32[2, 3, 40, 8] = normal(1)\n",
     "    kk = reshape(expand(k, 2) + zeros([2, 3, 2, 40, 8]), [2, 6, 40, 8])\n"
     "    vv = reshape(expand(v, 2) + zeros([2, 3, 2, 40, 8]), [2, 6, 40, 8])\n"
     "    y = matmul(softmax(matmul(q, transpose(kk)) * 0.35), vv)\n",
     {1, 1, 1},
     "",
     NULL},
    {"grouped, five axes",
     "    param q: f32[2, 6, 40, 8] = normal(1)\n"
     "    param k: f32[2, 3, 40, 8] = normal(1)\n"
     "    param v: f32[2, 3, 40, 8] = normal(1)\n",
     "    qq = reshape(q, [2, 3, 2, 40, 8])\n"
     "    y = matmul(softmax(matmul(qq, transpose(expand(k, 2))) * 0.35), expand(v, 2))\n",
     {1, 1, 1},
     "",
     NULL},
    {"multi-query",
     "    param q: f32[2, 6, 40, 8] = normal(1)\n"
     "    param k: f32[2, 1, 40, 8] = normal(1)\n"
     "    param v: f32[2, 1, 40, 8] = normal(1)\n",
     "    y = matmul(softmax(matmul(q, transpose(k)) * 0.35), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"one head",
     "    param q: f32[40, 8] = normal(1)\n"
     "    param k: f32[40, 8] = normal(1)\n"
     "    param v: f32[40, 8] = normal(1)\n",
     "    y = matmul(softmax(matmul(q, transpose(k)) * 0.35), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"head of 6",
     "    param q: f32[2, 40, 6] = normal(1)\n",
     "    y = matmul(softmax(matmul(q, transpose(q))), q)\n",
     {1, 1, 1},
     "",
     NULL},
    {"flat heads",
     QKV,
     "    f = reshape(matmul(q, transpose(k)), [6, 40, 40]) * 0.35\n"
     "    y = matmul(softmax(f), reshape(v, [6, 40, 8]))\n",
     {1, 1, 1},
     "",
     NULL},
    {"heads as they lie",
     "    param w: f32[48, 144] = normal(0.3)\n    param x: f32[2, 40, 48] = normal(1)\n",
     "    q, k, v = split(matmul(x, w), 3)\n"
     "    q = transpose(reshape(q, [2, 40, 6, 8]), [0, 2, 1, 3])\n"
     "    k = transpose(reshape(k, [2, 40, 6, 8]), [0, 2, 1, 3])\n"
     "    v = transpose(reshape(v, [2, 40, 6, 8]), [0, 2, 1, 3])\n"
     "    p = softmax(matmul(q, transpose(k)) / sqrt(8))\n"
     "    y = reshape(transpose(matmul(p, v), [0, 2, 1, 3]), [2, 40, 48])\n",
     {1, 1, 1},
     "",
     NULL},
    {"fixed keys",
     "    param q: f32[2, 3, 40, 8] = normal(1)\n",
     S "    y = matmul(softmax(s), v)\n",
     {1, 1, 0},
     ", k: f32[2, 3, 40, 8], v: f32[2, 3, 40, 8]",
     NULL},
    {"twice",
     QKV,
     S "    a = matmul(softmax(s), v)\n"
       "    y = matmul(softmax(matmul(a, transpose(k))), v)\n",
     {2, 2, 2},
     "",
     NULL},
    {"library, everything",
     "    param q: f32[2, 6, 40, 8] = normal(1)\n    param k: f32[2, 3, 40, 8] = normal(1)\n    "
     "param v: f32[2, 3, 40, 8] = normal(1)\n",
     "    seen = reshape(pad, [2, 1, 1, 40]) > 0 or expand(iota(40), 1) == iota(40)\n"
     "    y = attention(q, k, v, causal = true, window = 10, cap = 5.0, drop = 0.1, mask = seen)\n",
     {1, 1, 1},
     ", pad: u8[2, 40]",
     NULL},
    {"library, ALiBi",
     "    param x: f32[2, 40, 80] = normal(1)\n",
     "    q, k, v = split(x, [48, 16, 16])\n"
     "    q = transpose(reshape(q, [2, 40, 6, 8]), [0, 2, 1, 3])\n"
     "    k = transpose(reshape(k, [2, 40, 2, 8]), [0, 2, 1, 3])\n"
     "    v = transpose(reshape(v, [2, 40, 2, 8]), [0, 2, 1, 3])\n"
     "    d = cast(iota(40) - expand(iota(40), 1), f32)\n"
     "    y = attention(q, k, v, mask = reshape(slope, [6, 1, 1]) * d, scale = 0.2)\n",
     {1, 1, 1},
     ", slope: f32[6]",
     NULL},
    {"bf16 in the text",
     QKV,
     "    s = matmul(cast(q, bf16), transpose(cast(k, bf16)))\n"
     "    p = softmax(cast(s, f32) * 0.35)\n"
     "    y = cast(matmul(cast(p, bf16), cast(v, bf16)), f32)\n",
     {1, 1, 1},
     "",
     NULL},
    {"bf16 from end to end",
     "    param q0: f32[2, 40, 8] = normal(1)\n",
     "    q = cast(q0, bf16)\n"
     "    y = cast(matmul(softmax(matmul(q, transpose(q)) * cast(0.35, bf16)), q), f32)\n",
     {1, 1, 1},
     "",
     NULL},
    {"rotated",
     QKV,
     "    c = cos(cast(expand(iota(40), 1) * (1 + iota(4)), f32) * 0.1)\n"
     "    n = sin(cast(expand(iota(40), 1) * (1 + iota(4)), f32) * 0.1)\n"
     "    qa, qb = split(q, 2)\n"
     "    ka, kb = split(k, 2)\n"
     "    q1 = concat([qa * c - qb * n, qb * c + qa * n], -1)\n"
     "    k1 = concat([ka * c - kb * n, kb * c + ka * n], -1)\n"
     "    y = attention(q1, k1, v, causal = true)\n",
     {1, 1, 1},
     "",
     NULL},
    {"normed heads",
     QKV,
     "    q1 = q * rsqrt(mean(q * q, -1, keep = true) + 1e-5)\n"
     "    k1 = k * rsqrt(mean(k * k, -1, keep = true) + 1e-5)\n"
     "    y = attention(q1, k1, v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"self, shared projection",
     "    param x: f32[2, 40, 16] = normal(1)\n",
     "    y = attention(x, x, x, causal = true)\n",
     {1, 1, 1},
     "",
     NULL},
    {"probabilities weighted by rows",
     QKV,
     S "    y = matmul(softmax(s) * reshape(1 + cast(iota(40), f32) * 0.1, [40, 1]), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"probabilities weighted by columns",
     QKV,
     S "    y = matmul(softmax(s) * (1 + cast(iota(40), f32) * 0.1), v)\n",
     {1, 1, 1},
     "",
     NULL},
    {"a length that is an input",
     QKV,
     S "    y = matmul(softmax(where(iota(40) < n, s, -inf)), v)\n",
     {1, 1, 1},
     ", n: i32",
     NULL},
    {"lengths of each example",
     QKV,
     S "    y = matmul(softmax(where(iota(40) <= reshape(n, [2, 1, 1, 1]), s, -inf)), v)\n",
     {1, 1, 1},
     ", n: i32[2]",
     NULL},
    {"relative positions from a table",
     QKV,
     S "    bias = table[expand(iota(40), 1) - iota(40) + 40]\n"
       "    y = matmul(softmax(s + bias), v)\n",
     {1, 1, 1},
     ", table: f32[80]",
     NULL},
    {"a temperature that is an input",
     QKV,
     S "    y = matmul(softmax(s * (1 + abs(sum(n)))), v)\n",
     {1, 1, 1},
     ", n: f32[1]",
     NULL},
    {"heads as long as there are rows",
     "    param q: f32[2, 40, 40] = normal(1)\n    param k: f32[2, 40, 40] = normal(1)\n"
     "    param v: f32[2, 40, 40] = normal(1)\n",
     "    y = attention(q, k, v, causal = true)\n",
     {1, 1, 1},
     "",
     NULL},
    {"forty of everything",
     "    param q: f32[40, 40, 40] = normal(1)\n",
     "    y = attention(q, transpose(q), q * q, causal = true)\n",
     {1, 1, 1},
     "",
     NULL},
    // not taken
    {"two values",
     QKV,
     S "    p = softmax(s)\n    y = matmul(p, v) + matmul(p, v * v)\n",
     {0, 0, 0},
     "",
     "form"},
    {"shared by two",
     "    param w: f32[48, 144] = normal(0.3)\n    param x: f32[2, 40, 48] = normal(1)\n",
     "    q, k, v = split(matmul(x, w), 3)\n"
     "    q = transpose(reshape(q, [2, 40, 6, 8]), [0, 2, 1, 3])\n"
     "    k = transpose(reshape(k, [2, 40, 6, 8]), [0, 2, 1, 3])\n"
     "    v = transpose(reshape(v, [2, 40, 6, 8]), [0, 2, 1, 3])\n"
     "    a = attention(q, k, v, causal = true)\n"
     "    b = attention(q, k, v, scale = 0.2)\n"
     "    y = a * a + b * b\n",
     {0, 0, 0},
     "",
     "form"},
    {"scores read",
     QKV,
     S "    p = softmax(s)\n    y = matmul(p, v) + sum(p * p)\n",
     {0, 0, 0},
     "",
     "form"},
    {"learned bias",
     QKV "    param b: f32[3, 40, 40] = normal(1)\n",
     S "    y = matmul(softmax(s + b), v)\n",
     {0, 0, 0},
     "",
     "scores"},
    {"short",
     "    param q: f32[2, 24, 8] = normal(1)\n",
     "    y = matmul(softmax(matmul(q, transpose(q))), q)\n",
     {0, 0, 0},
     "",
     "short"},
    {"probabilities read",
     QKV,
     S "    p = softmax(s)\n    y = matmul(p, v) + max(stop_gradient(p)) * 0.1\n",
     {0, 0, 0},
     "",
     "scores"},
    {"logarithms of sums read",
     QKV,
     S "    y = matmul(softmax(s), v) + sum(stop_gradient(logsumexp(s))) * 0.01\n",
     {0, 0, 0},
     "",
     "scores"},
    {"two products make scores",
     QKV,
     "    y = matmul(softmax(matmul(q, transpose(k)) + matmul(k, transpose(q))), v)\n",
     {0, 0, 0},
     "",
     "form"},
    {"head of 264",
     "    param q: f32[1, 33, 264] = normal(0.1)\n",
     "    y = matmul(softmax(matmul(q, transpose(q))), q)\n",
     {0, 0, 0},
     "",
     "head"},
    {"whole numbers of probabilities",
     QKV,
     S "    p = softmax(s)\n"
       "    y = matmul(p + stop_gradient(cast(cast(p * 8, i32), f32)), v)\n",
     {0, 0, 0},
     "",
     "form"},
    {"sums of whole numbers",
     QKV,
     S "    e = exp(s - stop_gradient(max(s, -1, keep = true)))\n"
       "    l = stop_gradient(cast(sum(cast(e * 8, i32), -1, keep = true), f32)) + 1\n"
       "    y = matmul(e / l, v)\n",
     {0, 0, 0},
     "",
     NULL},
    {"more than the sum",
     QKV,
     S "    e = exp(s - stop_gradient(max(s, -1, keep = true)))\n"
       "    y = matmul(e / (sum(e, -1, keep = true) + 1), v)\n",
     {0, 0, 0},
     "",
     "form"},
    {"no product behind", QKV, S "    y = softmax(s) * 2 + sum(v)\n", {0, 0, 0}, "", NULL},
};

static char *model_of(Arena *a, const Case *c)
{
    return arena_printf(
        a,
        "use nn\nuse optim\n"
        "model m(t: f32[1]%s) {\n%s%s"
        "    r = cast(iota(numel(y)), f32) * 0.37\n"
        "    return loss = sum(y * reshape(r - floor(r), shape(y))) * 0.1 + sum(t), y\n}\n"
        "train m {\n    minimize loss\n    update sgd(lr = 1)\n}\n",
        c->inputs, c->leaves, c->body);
}

static void show_refused(Arena *a, const Case *c, const Run *r) // for whom a test fails
{
    const Entry *e = module_entry(r->m, "train");
    for (uint32_t i = 0; i < e->refused.n; i++)
        printf("    %s: %s\n", c->name, unfused_text(a, &e->refused.at[i]));
}

// Each call is a group of its own, alone in its launch; its results are stored by it, nothing
// inside.
static void check_groups(const Case *c, const Graph *g)
{
    const Fusion *f = g->fusion;
    uint32_t *alone = calloc(f->launches + 1, sizeof *alone);
    for (uint32_t i = 0; i < f->groups.n; i++) alone[f->groups.at[i].launch]++;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const Node *call = n->op == OP_get ? n->args[0] : n;
        if (call->op != OP_call || (n == call && node_result_count(call) > 1)) continue;
        uint32_t at = f->group_of[n->id];
        const Group *gr = at ? &f->groups.at[at - 1] : NULL;
        bool among = false;
        for (uint32_t k = 0; gr && k < gr->outs.n; k++) among |= gr->outs.at[k] == n;
        CHECK_MSG(gr && gr->kind == GROUP_CALL && gr->anchor == call && among &&
                      (int)gr->outs.n == node_result_count(call) && alone[gr->launch] == 1,
                  "%s: v%u is in no group of its call", c->name, n->id);
        const Graph *region = call->regions[0];
        bool stored = !region->fusion || region->fusion->groups.n;
        for (uint32_t k = 0; !stored && k < region->nodes.n; k++)
            stored = region->fusion->group_of[k] != 0;
        CHECK_MSG(!stored, "%s: a call stores something in its region", c->name);
        for (uint32_t k = 0; k < call->nargs; k++) {
            const Node *a = call->args[k];
            double v;
            CHECK_MSG(f->group_of[a->id] || node_in_memory(a) || node_const_value(a, &v),
                      "%s: operand %u of a call is in no memory", c->name, k);
        }
    }
    free(alone);
}

// Masks that were added are conditions: what they hide can be left out.
static void check_masks(const Case *c, const Graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op != OP_call) continue;
        int adds = 0, selects = 0;
        for (uint32_t k = 0; k < n->regions[0]->nodes.n; k++) {
            const Node *x = n->regions[0]->nodes.at[k];
            adds += x->op == OP_add && x->type.rank == 4;
            selects += x->op == OP_select && x->type.rank == 4;
        }
        CHECK_MSG(!adds && selects == 1, "%s: %d sums and %d conditions", c->name, adds, selects);
    }
}

static const char *const call_names[] = {"attention", "attention_dq", "attention_dkv"};

static void test_case(const Case *c, Precision precision)
{
    Arena *a = arena_new();
    Run with, without;
    Target t = target_cuda(90, true);
    if (run(a, &with, c->name, model_of(a, c), precision, t, NULL) &&
        run(a, &without, c->name, model_of(a, c), precision, t, "attention")) {
        for (int i = 0; i < 3; i++)
            CHECK_MSG(count_calls(with.train, call_names[i]) == c->kernels[i],
                      "%s, precision %d: %d calls of %s, not %d", c->name, precision,
                      count_calls(with.train, call_names[i]), call_names[i], c->kernels[i]);
        const Entry *e = module_entry(with.m, "train");
        const char *why = e->refused.n ? unfused_cause(e->refused.at[0].cause) : NULL;
        CHECK_MSG(why == c->why || (why && c->why && !strcmp(why, c->why)), "%s: '%s', not '%s'",
                  c->name, why ? why : "", c->why ? c->why : "");
        if (unit_failed) show_refused(a, c, &with);
        check_groups(c, with.train);
        if (!strncmp(c->name, "causal by", 9)) check_masks(c, with.train);
        compare(c->name, &with.result.assigns, &without.result.assigns);
        compare(c->name, &with.result.outputs, &without.result.outputs);
    }
    arena_free(a);
}

// In a loop over micro-batches, and in an entry without gradients.
static void test_entries(void)
{
    static const char text[] =
        "use nn\nuse optim\ndim batch = 4\n"
        "model m(x: f32[batch, 40, 16]) {\n"
        "    q, k, v = split(linear(x, 48) as qkv, 3)\n"
        "    y = attention(q, k, v, causal = true, drop = 0.1)\n"
        "    return loss = mean(y * y), y\n}\n"
        "train m {\n    accumulate 2\n    minimize loss\n    update sgd(lr = 1)\n}\n";
    Arena *a = arena_new();
    Run with, without;
    Target t = target_cuda(90, true);
    if (run(a, &with, "accumulate", text, PREC_BF16, t, NULL) &&
        run(a, &without, "accumulate", text, PREC_BF16, t, "attention")) {
        int found[3] = {0};
        for (uint32_t i = 0; i < with.train->nodes.n; i++)
            for (uint32_t k = 0; k < with.train->nodes.at[i]->nregions; k++)
                for (int c = 0; c < 3; c++)
                    found[c] += count_calls(with.train->nodes.at[i]->regions[k], call_names[c]);
        CHECK_MSG(found[0] == 1 && found[1] == 1 && found[2] == 1, "accumulate: %d %d %d calls",
                  found[0], found[1], found[2]);
        CHECK(count_calls(module_entry(with.m, "m")->graph, "attention") == 1);
        CHECK(count_calls(module_entry(with.m, "eval")->graph, "attention") == 1);
        compare("accumulate", &with.result.assigns, &without.result.assigns);
    }
    arena_free(a);
}

// The same on the CPU: a loop for each kernel.
static void test_loops(const Case *c, Precision precision)
{
    Arena *a = arena_new();
    Run with, without;
    Target t = target_cpu(2, true);
    if (run(a, &with, c->name, model_of(a, c), precision, t, NULL) &&
        run(a, &without, c->name, model_of(a, c), precision, t, "attention")) {
        int loops = 0, most = c->kernels[0] + c->kernels[1] + c->kernels[2];
        for (uint32_t i = 0; i < with.train->nodes.n; i++)
            loops += with.train->nodes.at[i]->op == OP_loop;
        CHECK_MSG(!most || loops == most, "%s: %d loops, not %d", c->name, loops, most);
        if (unit_failed) show_refused(a, c, &with);
        check_groups(c, with.train);
        compare(c->name, &with.result.assigns, &without.result.assigns);
        compare(c->name, &with.result.outputs, &without.result.outputs);
    }
    arena_free(a);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name)) continue;
        test_case(&cases[i], PREC_F32);
        test_case(&cases[i], PREC_BF16);
        test_loops(&cases[i], PREC_F32);
        test_loops(&cases[i], PREC_BF16);
    }
    if (argc == 1) test_entries();
    return unit_done();
}
