// Attention put together at random: shapes, how heads lie, where the scale stands, masks, how the
// softmax is spelled, dropout. Each one has to be found, and its values and gradients are those of
// the plain graph by the evaluator. One argument: how many.
#include "tests/unit/attention.h"

typedef struct Draw {
    Arena *a;
    uint32_t state;
    Buf leaves, body, inputs;
    int b, h, g, t, s, d, n;
} Draw;

static int draw(Draw *r, int n)
{
    r->state = r->state * 1664525u + 1013904223u;
    return (int)((uint64_t)(r->state >> 8) * (uint64_t)n >> 24);
}

// A tensor [b, heads, length, size]: as a parameter of that shape, or of another with views of it.
static void make_tensor(Draw *r, const char *name, int heads, int length, int size)
{
    int lies = draw(r, 4);
    if (lies == 0) { // heads inside
        buf_printf(&r->leaves, "    param %s0: f32[%d, %d, %d] = normal(1)\n", name, r->b, length,
                   heads * size);
        buf_printf(&r->body, "    %s = transpose(reshape(%s0, [%d, %d, %d, %d]), [0, 2, 1, 3])\n",
                   name, name, r->b, length, heads, size);
    } else if (lies == 1) { // part of a larger one
        buf_printf(&r->leaves, "    param %s0: f32[%d, %d, %d, %d] = normal(1)\n", name, r->b,
                   heads, length + 8, size);
        buf_printf(&r->body, "    %s = %s0[:, :, 8:%d]\n", name, name, length + 8);
    } else if (lies == 2) { // the head dimension is not the innermost one
        buf_printf(&r->leaves, "    param %s0: f32[%d, %d, %d, %d] = normal(1)\n", name, r->b,
                   heads, size, length);
        buf_printf(&r->body, "    %s = transpose(%s0)\n", name, name);
    } else {
        buf_printf(&r->leaves, "    param %s0: f32[%d, %d, %d, %d] = normal(1)\n", name, r->b,
                   heads, length, size);
        buf_printf(&r->body, "    %s = %s0\n", name, name);
    }
}

static void share_heads(Draw *r, const char *name)
{
    if (r->g == r->h) return;
    if (draw(r, 2))
        buf_printf(&r->body, "    %s = repeat_heads(%s, %d)\n", name, name, r->h / r->g);
    else
        buf_printf(&r->body,
                   "    %s = reshape(expand(%s, 2) + zeros([%d, %d, %d, dim(%s, -2), dim(%s, -1)]),"
                   " [%d, %d, dim(%s, -2), dim(%s, -1)])\n",
                   name, name, r->b, r->g, r->h / r->g, name, name, r->b, r->h, name, name);
}

static void change_scores(Draw *r)
{
    bool input = false, masked = false, by_sum = false;
    for (int k = draw(r, 4); k > 0; k--) {
        // Of a row that is hidden as a whole by numbers that are added doubles know more than f32
        // do.
        int kind = draw(r, 10);
        bool mask = kind == 0 || kind == 1 || kind == 3, sum = kind >= 7;
        if ((mask && by_sum) || (sum && (masked || by_sum))) continue;
        masked |= mask;
        by_sum |= sum;
        switch (kind) {
        case 7: // a mask that is added, of positions
            buf_printf(&r->body,
                       "    s = s + where(expand(iota(%d), 1) + 3 >= iota(%d), 0.0, %s)\n", r->t,
                       r->s, draw(r, 2) ? "-inf" : "-1e9");
            break;
        case 8:
            buf_printf(&r->body,
                       "    s = s + (1 - cast(expand(iota(%d), 1) + 3 >= iota(%d), f32)) * -1e9\n",
                       r->t, r->s);
            break;
        case 0: // no later key
            buf_printf(&r->body, "    s = where(expand(iota(%d), 1) + %d >= iota(%d), s, %s)\n",
                       r->t, r->s > r->t ? r->s - r->t : 0, r->s, draw(r, 2) ? "-inf" : "-1e9");
            break;
        case 1: // a window
            buf_printf(&r->body,
                       "    d%d = expand(iota(%d), 1) - iota(%d)\n"
                       "    s = where(d%d > -%d and d%d < 60, s, -1e9)\n",
                       k, r->t, r->s, k, 3 + draw(r, 9), k);
            break;
        case 2: buf_printf(&r->body, "    s = %d * tanh(s / %d)\n", k + 1, k + 1); break;
        case 3:
            if (!input) buf_printf(&r->inputs, ", seen: u8[%d, %d]", r->b, r->s);
            input = true;
            buf_printf(&r->body, "    s = where(reshape(seen, [%d, 1, 1, %d]) > 0, s, -1e9)\n",
                       r->b, r->s);
            break;
        case 4:
            buf_printf(&r->inputs, ", bias%d: f32[%d, %d, %d]", k, r->h, r->t, r->s);
            buf_printf(&r->body, "    s = s + bias%d\n", k);
            break;
        case 5:
            buf_printf(&r->body,
                       "    s = s - reshape(exp(cast(iota(%d), f32) * -0.5), [%d, 1, 1]) *"
                       " cast(abs(expand(iota(%d), 1) - iota(%d)), f32)\n",
                       r->h, r->h, r->t, r->s);
            break;
        case 6: buf_printf(&r->body, "    s = s * 0.%d\n", 3 + k); break;
        default:
            buf_printf(&r->body, "    s = s + where(iota(%d) %% %d == 0, -1e9, 0.0)\n", r->s,
                       5 + k);
            break;
        }
    }
}

// The softmax p; false: exponentials e, whose sum the product is divided by.
static bool add_softmax(Draw *r)
{
    switch (draw(r, 8)) {
    case 6: buf_str(&r->body, "    e = exp(s - max(s, -1, keep = true))\n"); return false;
    case 7:
        buf_str(&r->body, "    e = exp(s - stop_gradient(max(s, -1, keep = true)))\n");
        return false;
    case 0:
        buf_str(&r->body, "    e = exp(s - max(s, -1, keep = true))\n"
                          "    p = e / sum(e, -1, keep = true)\n");
        break;
    case 1:
        buf_str(&r->body, "    e = exp(s - stop_gradient(max(s, -1, keep = true)))\n"
                          "    p = e * (1 / sum(e, -1, keep = true))\n");
        break;
    case 2: buf_str(&r->body, "    p = exp(log_softmax(s))\n"); break;
    case 3: buf_str(&r->body, "    p = transpose(softmax(transpose(s), -2))\n"); break;
    case 4: buf_str(&r->body, "    p = exp(s - logsumexp(s, -1, keep = true))\n"); break;
    default: buf_str(&r->body, "    p = softmax(s)\n"); break;
    }
    if (!draw(r, 3)) buf_str(&r->body, "    p = dropout(p, 0.2)\n");
    if (!draw(r, 4)) buf_str(&r->body, "    p = cast(cast(p, bf16), f32)\n");
    return true;
}

static char *make(Draw *r)
{
    r->leaves = buf_new(r->a);
    r->body = buf_new(r->a);
    r->inputs = buf_new(r->a);
    r->b = 1 + draw(r, 2);
    r->g = 1 + draw(r, 3);
    r->h = r->g * (1 + draw(r, 2));
    r->t = 32 + draw(r, 10);
    r->s = draw(r, 2) ? r->t : 32 + draw(r, 30);
    r->d = 8 * (1 + draw(r, 2));
    r->n = draw(r, 2) ? r->d : 8 * (1 + draw(r, 3));
    make_tensor(r, "q", r->h, r->t, r->d);
    make_tensor(r, "k", r->g, r->s, r->d);
    make_tensor(r, "v", r->g, r->s, r->n);
    share_heads(r, "k");
    share_heads(r, "v");
    static const char *const products[] = {
        "    s = matmul(q, transpose(k)) * 0.3\n",
        "    s = matmul(q * 0.3, transpose(k))\n",
        "    s = matmul(q, transpose(k * 0.3))\n",
        "    s = matmul(q, transpose(k)) / 3\n",
        "    s = transpose(matmul(k, transpose(q))) * 0.3\n",
    };
    buf_str(&r->body, products[draw(r, 5)]);
    change_scores(r);
    bool divided = add_softmax(r);
    static const char *const results[] = {
        "    y = matmul(p, v)\n",
        "    y = reshape(transpose(matmul(p, v), [0, 2, 1, 3]), [dim(q, 0), dim(q, 2), -1])\n",
        "    y = matmul(p, v) * 2 + 1\n",
        "    y = transpose(matmul(transpose(v), transpose(p)))\n",
    };
    if (divided)
        buf_str(&r->body, results[draw(r, 4)]);
    else
        buf_str(&r->body, "    y = matmul(e, v) / sum(e, -1, keep = true)\n");
    return arena_printf(
        r->a,
        "use nn\nuse optim\n"
        "model m(t: f32[1]%s) {\n%s%s"
        "    r = cast(iota(numel(y)), f32) * 0.37\n"
        "    return loss = sum(y * reshape(r - floor(r), shape(y))) * 0.1 + sum(t), y\n}\n"
        "train m {\n    minimize loss\n    update sgd(lr = 1)\n}\n",
        r->inputs.data ? r->inputs.data : "", r->leaves.data, r->body.data);
}

static int count_kernels(const Graph *g)
{
    static const char *const calls[] = {"attention", "attention_dq", "attention_dkv"};
    int found = 0;
    for (int i = 0; i < 3; i++) found += count_calls(g, calls[i]);
    for (uint32_t i = 0; i < g->nodes.n; i++) found += g->nodes.at[i]->op == OP_loop;
    return found;
}

static void test_one(uint32_t seed)
{
    Draw r = {.a = arena_new(), .state = seed * 2654435761u + 1};
    char *text = make(&r);
    const char *name = arena_printf(r.a, "seed %u", seed);
    static const Precision precisions[] = {PREC_F32, PREC_BF16, PREC_F16, PREC_BF16};
    Precision precision = precisions[draw(&r, 4)];
    bool cpu = draw(&r, 3) == 0;
    Target t = cpu ? target_cpu(2, true) : target_cuda(90, true);
    int failed = unit_failed;
    Run with, without;
    if (run(r.a, &with, name, text, precision, t, NULL) &&
        run(r.a, &without, name, text, precision, t, "attention")) {
        int found = count_kernels(with.train);
        const Entry *e = module_entry(with.m, "train");
        CHECK_MSG(found == 3, "%s: %d kernels (%s)", name, found,
                  e->refused.n ? unfused_text(r.a, &e->refused.at[0]) : "not found");
        // What netc check and the fuzzer compare with: the same, whatever other passes have done.
        Run plain;
        if (run(r.a, &plain, name, text, precision, t,
                "invariants,loop_sums,fission,loop_casts,early_casts,simplify,variance,contract,"
                "approx,recompute,fuse"))
            CHECK_MSG(count_kernels(plain.train) == found, "%s: %d kernels without other passes",
                      name, count_kernels(plain.train));
        compare(name, &with.result.assigns, &without.result.assigns);
        compare(name, &with.result.outputs, &without.result.outputs);
    }
    if (unit_failed != failed)
        printf("%s, precision %d%s:\n%s", name, precision, cpu ? ", cpu" : "", text);
    arena_free(r.a);
}

int main(int argc, char **argv)
{
    uint32_t first = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 150;
    for (uint32_t i = 0; i < count; i++) test_one(first + i);
    return unit_done();
}
