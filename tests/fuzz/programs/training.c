// A random network with a train block: layers, a loss, an optimizer. One a file.
#include "tests/fuzz/programs/programs.h"

#define SOME(r, list) ((list)[random_below((r), (int)(sizeof(list) / sizeof *(list)))])

static const int sizes[] = {1, 2, 3, 5, 7, 8, 13, 16, 17, 32, 33, 64};

// %i: the layer's number; %w: a width.
static const char *const layers[] = {
    "relu(linear(h, %w) as l%i)",
    "tanh(linear(h, %w) as l%i)",
    "gelu(linear(h, %w, use_bias = false) as l%i)",
    "sigmoid(linear(h, %w) as l%i) * (linear(h, %w) as g%i)",
    "h + (linear(h, dim(h, -1)) as l%i)",
    "layer_norm(h) as l%i",
    "rms_norm(h) as l%i",
    "batch_norm(h) as l%i",
    "dropout(h, 0.3)",
    "matmul(softmax(matmul(h, transpose(h)) / 4), h)",
    "attention((linear(h, 16) as q%i), (linear(h, 16) as k%i), (linear(h, 8) as v%i), causal = "
    "true)",
    "attention((linear(h, 8) as q%i), (linear(h, 8) as k%i), h, window = 9, cap = 2.0, drop = 0.2)",
    "heads(attention(heads(linear(h, 32) as q%i), heads(linear(h, 16) as k%i), heads(linear(h, 16) "
    "as "
    "v%i)))",
    "h * stop_gradient(sigmoid(h)) + mean(h, 0)",
    "concat([h, square(h)], 1)",
    "cumsum(h, 1) * 0.2",
    "h[:, ::2] + 0.5",
    "h + (embedding(i1, 64, dim(h, -1)) as l%i)",
};
static const char *const losses[] = {
    "cross_entropy(logits, i1)", "mse(logits, 0.5)", "cross_entropy(logits, i1, smoothing = 0.1)",
    "huber(logits, 0.25) + mean(h * h)", "bce_with_logits(logits, 1)"};
static const char *const clips[] = {"", "", "    clip clip_global_norm(0.5)\n",
                                    "    clip clip_value(0.05)\n"};
static const char *const optimizers[] = {
    "sgd(lr = 0.1)",
    "sgd(lr = 0.1, momentum = 0.9, weight_decay = 0.01)",
    "sgd(lr = 0.1, momentum = 0.9, nesterov = true)",
    "adam(lr = 0.01)",
    "adamw(lr = cosine(0.01, steps = 100, warmup = 10))",
    "rmsprop(lr = 0.01, momentum = 0.5)",
    "adagrad(lr = 0.1)",
};

static void print_layer(const char *pattern, int number, int width, Buf *out)
{
    buf_str(out, "    h = ");
    for (const char *p = pattern; *p; p++)
        if (*p == '%')
            buf_printf(out, "%d", *++p == 'w' ? width : number);
        else
            buf_char(out, *p);
    buf_char(out, '\n');
}

void training_print(uint64_t seed, int devices, Buf *out)
{
    Random r = {seed};
    int classes = 2 + random_below(&r, 11), n = random_below(&r, 4);
    buf_printf(out,
               "use nn\nuse optim\ndim batch = %d\n"
               "fn heads(x) {\n"
               "    if rank(x) == 2 { return transpose(reshape(x, [batch, -1, 8]), [1, 0, 2]) }\n"
               "    return reshape(transpose(x, [1, 0, 2]), [batch, -1])\n}\n"
               "model t(n0: f32[batch, %d], i1: i32[batch] in "
               "0..%d) {\n    h = n0\n",
               SOME(&r, sizes) * devices, SOME(&r, sizes), classes);
    for (int i = 0; i < n; i++) {
        print_layer(SOME(&r, layers), i, SOME(&r, sizes), out);
    }
    buf_printf(out, "    logits = linear(h, %d) as last\n    return loss = %s, logits\n}\n",
               classes, SOME(&r, losses));
    buf_str(out, "train t {\n");
    if (random_chance(&r, 30)) buf_printf(out, "    accumulate %d\n", 2 + random_below(&r, 3));
    buf_printf(out, "    minimize loss\n%s    update %s\n}\n", SOME(&r, clips),
               SOME(&r, optimizers));
}
