// Launches equal to earlier ones take their kernels without being lowered, and kernels like earlier
// ones their text without being printed: the program is the same, byte for byte, as one of which
// each was lowered and printed, and what was lowered names the same nodes.
#include <glob.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/ir/body.h"
#include "frontend/frontend.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

static int equal, shared; // programs; bodies that were taken from an earlier launch

// The program as bytes; empty where the model is not for this target. What was lowered is added to
// the log.
static Buf program_of(Arena *a, const char *path, const char *text, size_t len, const Target *t,
                      Precision precision, bool print_each, LaunchLog *log)
{
    Diags *d = diags_new(a);
    Buf out = buf_new(a);
    const Define layers = {.name = "layers",
                           .value = "3"}; // of deep samples; those of bench/ are as they are
    FrontendOptions fo = {.scale_loss = precision == PREC_F16,
                          .defines = &layers,
                          .ndefines = !strncmp(path, "samples", 7) && strstr(text, "const layers")};
    PassOptions po = {.target = t, .precision = precision};
    CodegenOptions co = {
        .target = t, .tf32 = precision == PREC_TF32, .print_each = print_each, .log = log};
    Module *m = frontend_compile(a, d, path, text, len, &fo);
    Program *p = m && !d->errors && passes_run(m, &po, NULL) ? codegen(m, &co) : NULL;
    if (p) program_write(p, &out);
    return out;
}

// Nodes of two equal graphs.
static bool same_node(const Node *a, const Node *b)
{
    return a && b ? a->id == b->id && a->op == b->op && a->loc == b->loc : !a && !b;
}

static bool same_bodies(const Body *a, const Body *b)
{
    bool same = a->group->id == b->group->id && a->insts.n == b->insts.n &&
                a->stores.n == b->stores.n && a->bufs.n == b->bufs.n && a->key == b->key &&
                same_node(a->group->anchor, b->group->anchor);
    for (uint32_t i = 0; i < a->insts.n && same; i++)
        same = same_node(a->insts.at[i].node, b->insts.at[i].node) &&
               a->insts.at[i].kind == b->insts.at[i].kind;
    for (uint32_t i = 0; i < a->stores.n && same; i++)
        same = same_node(a->stores.at[i].fold, b->stores.at[i].fold);
    for (uint32_t i = 0; i < a->bufs.n && same; i++)
        same = same_node(a->bufs.at[i].node, b->bufs.at[i].node);
    return same;
}

static bool same_launches(const LaunchRecord *a, const LaunchRecord *b)
{
    bool same = a->nkernels == b->nkernels && a->ngroups == b->ngroups;
    for (int i = 0; i < a->nkernels && same; i++) {
        const LoweredKernel *x = &a->kernels[i], *y = &b->kernels[i];
        same = x->nbodies == y->nbodies && x->nargs == y->nargs && x->loc == y->loc &&
               !strcmp(x->prog.name, y->prog.name) && !strcmp(x->contract, y->contract);
        for (int k = 0; k < x->nargs && same; k++)
            same = same_node(x->args[k].node, y->args[k].node);
        for (int k = 0; k < x->nbodies && same; k++) same = same_bodies(x->body[k], y->body[k]);
    }
    return same;
}

// Bodies have index expressions of their own, unless they were taken.
static void count_shared(Arena *a, const LaunchLog *log)
{
    IdMap launch = idmap_new(a);
    for (uint32_t i = 0; i < log->n; i++)
        for (int k = 0; k < log->at[i].nkernels; k++)
            for (int n = 0; n < log->at[i].kernels[k].nbodies; n++) {
                uint64_t at = i, ix = (uint64_t)(uintptr_t)log->at[i].kernels[k].body[n]->ix;
                if (!idmap_get(&launch, ix, &at)) idmap_set(&launch, ix, i);
                shared += at != i;
            }
}

static void check(const char *path, const char *text, size_t len, const Target *t,
                  Precision precision)
{
    Arena *a = arena_new();
    LaunchLog taken = {0}, each = {0};
    Buf x = program_of(a, path, text, len, t, precision, false, &taken),
        y = program_of(a, path, text, len, t, precision, true, &each);
    CHECK_MSG(x.len == y.len && !memcmp(x.data, y.data, x.len), "%s for %s", path, t->name);
    CHECK(taken.n == each.n);
    for (uint32_t i = 0; i < taken.n && i < each.n; i++)
        CHECK_MSG(same_launches(&taken.at[i], &each.at[i]), "%s for %s: launch %u", path, t->name,
                  i);
    count_shared(a, &taken);
    equal += x.len > 0;
    arena_free(a);
}

static void check_files(const char *pattern, const Target *t, Precision precision)
{
    glob_t found = {0};
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "rb");
        static char text[1 << 20];
        size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
        text[len] = 0;
        if (f) fclose(f);
        CHECK(len > 0 && len < sizeof text);
        check(found.gl_pathv[i], text, len, t, precision);
    }
    globfree(&found);
}

enum { KINDS = 11 };
typedef struct Kind { // of random networks
    const char *head, *layers[KINDS];
} Kind;

static const Kind rows = {
    "use nn\nuse optim\nmodel m(x: f32[16, 24], y: f32[16, 24]) {\nh = linear(x, 24) as first\n",
    {
        "h = relu(linear(h, 24) as a[%d])\n",
        "h = h + (gelu_tanh(linear(h, 24) as b[%d]))\n",
        "h = h + (gelu_tanh(linear(h, 40) as up[%d]))[:, 0:24]\n",
        "h = layer_norm(h) as c[%d]\n",
        "name%d = softmax(h) * 2\n h = h - name%d\n",
        "name = softmax(h) * 3\n h = h - name\n",
        "h = h / (1 + sqrt(mean(h * h, 1, keep = true)))\n",
        "h = cumsum(h, 1) * 0.1\n",
        "h = dropout(h, 0.1)\n",
        "h = matmul(softmax(matmul(h, transpose(h))), h)\n",
        "h = h + mean(h, 0, keep = true)\n",
    }};

static const Kind images = {
    "use nn\nuse conv\nuse optim\nmodel m(x: f32[4, 16, 16, 32], y: f32[4, 16, 16, 32]) {\nh = "
    "conv2d(x, 32, 1) as first\n",
    {
        "h = relu(conv2d(h, 32, 3) as a[%d])\n",
        "h = relu(batch_norm(conv2d(h, 32, 3, use_bias = false) as b[%d]) as bn[%d])\n",
        "h = h + (depthwise(h, 3) as c[%d])\n",
        "h = h + relu(depthwise(h, 5) as d[%d])\n",
        "h = conv2d(h, 32, 1) as e[%d]\n",
        "h = batch_norm(h) as f[%d]\n",
        "h = h + max_pool(h, 3, stride = 1, padding = \"same\")\n",
        "h = relu(h + (conv2d(h, 32, 3) as g[%d]))\n",
        "h = h / (1 + sqrt(mean(h * h, -1, keep = true)))\n",
        "h = dropout(h, 0.1)\n",
        "h = h * sigmoid(conv2d(h, 32, 1) as gate[%d])\n",
    }};

// Layers drawn from a few kinds, so that some are equal and others differ in an operation, a size,
// a number or a name.
static void check_random(const Kind *kind, const Target *t, Precision precision, int programs)
{
    uint64_t s = 1;
    for (int i = 0; i < programs; i++) {
        Arena *a = arena_new();
        Buf b = buf_new(a);
        buf_str(&b, kind->head);
        int kinds[3];
        for (int k = 0; k < 3; k++)
            kinds[k] = (int)((s = s * 6364136223846793005u + 1442695040888963407u) >> 33) % KINDS;
        for (int k = 0; k < 12; k++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            const char *layer =
                kind->layers[(s >> 40) % 8 ? kinds[k % 3] : (int)((s >> 33) % KINDS)];
            char text[160];
            snprintf(text, sizeof text, layer, k, k);
            buf_str(&b, text);
        }
        buf_str(&b, "return loss = mean(square(h - y))\n}\n"
                    "train m { minimize loss\n update adamw(lr = 1e-3) }\n");
        int before = equal;
        check("random.net", b.data, b.len, t, precision);
        CHECK_MSG(equal == before + 1, "it does not compile:\n%s", b.data);
        arena_free(a);
    }
}

int main(void)
{
    const Target gpu = target_cuda(90, true), own = target_cuda(80, false),
                 cpu = target_cpu(2, true);
    check_files("samples/*/*.net", &gpu, PREC_F32);
    check_files("samples/*/*.net", &cpu, PREC_F32);
    check_files("tests/shim/net/*.net", &own, PREC_TF32);
    check_files("tests/net/fuse/*.net", &gpu, PREC_BF16);
    check_files("bench/*.net", &gpu, PREC_BF16);
    check_random(&rows, &gpu, PREC_BF16, 20);
    check_random(&rows, &own, PREC_F32, 20);
    check_random(&rows, &cpu, PREC_F32, 20);
    CHECK(equal > 120);
    CHECK_MSG(shared > 200, "%d bodies were taken", shared);
    const int of_rows = shared;
    check_random(&images, &gpu, PREC_BF16, 10);
    check_random(&images, &own, PREC_F32, 10);
    check_random(&images, &cpu, PREC_F32, 10);
    CHECK_MSG(shared > of_rows + 100, "%d bodies were taken of images", shared - of_rows);
    return unit_done();
}
