// Products compiled for a device so slow that at sizes the reference evaluator can follow odd ones
// are padded, and generated kernels stand beside the library's calls and what follows these. What
// the program is like; and, where there is a GPU, that the results are the evaluator's.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/eval.h"
#include "passes/passes.h"
#include "runtime/runtime.h"
#include "tests/unit/unit.h"

static RtDevice *device;

static const char odd_sizes[] = "const m = 40\nconst k = 33\nconst n = 51\n",
                  // as tf32 smaller ones are generated
    larger_sizes[] = "const m = 332\nconst k = 257\nconst n = 131\n";
static const char odd[] =
    "use nn\n"
    // inputs and outputs are the caller's, dense
    "model plain(x: bf16[m, k], w: bf16[k, n], b: bf16[n]) { return y = matmul(x, w) + b }\n"
    "model turned(x: bf16[k, m], w: bf16[n, k]) { return y = matmul(transpose(x), transpose(w)) }\n"
    // a value that products read and that is an output too; one that only a kernel of ours makes
    "model chain(x: bf16[m, k], w: bf16[n, k], v: bf16[k, n]) {\n"
    "    h = matmul(x, transpose(w))\n"
    "    g = cast(gelu_tanh(cast(h, f32)), bf16)\n"
    "    z = cast(cast(g, f32) * 2 + 1, bf16)\n"
    "    return g, back = matmul(g, transpose(v)), c = sum(cast(g, f32), axis=0), d = matmul(z, "
    "transpose(v))\n"
    "}\n"
    "model rows(x: bf16[m, k], w: bf16[k, 24]) {\n"
    "    s = cast(softmax(cast(x, f32)), bf16)\n"
    "    y = matmul(s, w)\n"
    "    return s, y, high = max(y, 1), total = sum(cast(exp(y), f32))\n"
    "}\n"
    "model batched(x: f16[3, m, k], w: f16[3, k, n]) {\n"
    "    y = matmul(x, w)\n"
    "    return y, z = matmul(transpose(y, [0, 2, 1]), x)\n"
    "}\n"
    "model gradients(x: bf16[m, k], w: bf16[n, k], b: bf16[n], dy: bf16[m, n]) {\n"
    "    y = matmul(x, transpose(w)) + b\n"
    "    total = sum(cast(gelu_tanh(cast(y, f32)), f32) * cast(dy, f32))\n"
    "    return y, dx = grad(total, x), dw = grad(total, w), db = grad(total, b)\n"
    "}\n"
    // what an epilogue makes of zeros is no zero
    "model fills(x: bf16[m, k], w: bf16[k, n], v: bf16[n, k]) {\n"
    "    a = cast(exp(0.1 * cast(matmul(x, w), f32)), bf16)\n"
    "    return both = matmul(a, transpose(a)), one = matmul(a, v)\n"
    "}\n"
    "model shaped(x: bf16[4, m // 4, k], w: bf16[k, n]) {\n"
    "    return y = reshape(matmul(x, w), [m, n])\n"
    "}\n"
    // what the padding would add to sums and products, if nothing replaced it
    "fn soft(a) = cuda \"fmaxf(a, 0.0f) + log1pf(expf(-fabsf(a)))\" reference maximum(a, 0) + "
    "log(1 "
    "+ exp(-abs(a)))\n"
    "model strange(x: bf16[m, k], w: bf16[n, k], v: bf16[n, k]) {\n"
    "    z = cast(matmul(x, transpose(w)), f32)\n"
    "    j = iota([m, n], 1)\n"
    "    later = where(j == maximum(j, expand(iota([m]), 1)), exp(z), 0.0)\n"
    "    large = cast((cast(z * 8, i64) + 9007199254740993) % 1000, f32)\n"
    "    x_inf = where(iota([m, k], 0) == 3, inf, x)\n"
    "    held = minimum(maximum(cast(matmul(x_inf, transpose(abs(w) + 1)), f32), -2), 2)\n"
    "    far = matmul(cast(where(z == 0, inf, z), bf16), v)\n"
    "    return own = sum(soft(z), 1), later = sum(later, 1), large = sum(large, 1), held = "
    "sum(held, "
    "1), far\n"
    "}\n"
    // reductions of padded rows; labels known to be in range, and others
    "model rated(x: bf16[m, k], w: bf16[n, k], b: f32[n]) {\n"
    "    z = cast(matmul(x, transpose(w)), f32) + b\n"
    "    l = cross_entropy(z, iota([m]) * 7 % n)\n"
    "    far = where(iota([m, n], 1) == expand(iota([m]) * 3, 1), exp(z), 0.0)\n"
    "    return l, dx = grad(l, x), dw = grad(l, w), db = grad(l, b), high = max(z, 1), low = "
    "min(z, 1),\n"
    "        picked = sum(far, 1), count = sum(z > 0.25, 1), total = sum(exp(z)), part = "
    "sum(exp(z), 0)\n"
    "}\n";

// Products with a stride along the contracted axis of both operands.
static const char strided[] =
    "use nn\n"
    "model one(x: f32[m, k], dy: f32[m, n]) { return dw = matmul(transpose(dy), x) }\n"
    "model several(x: f32[m, k], w: f32[n, k], b: f32[n], v: f32[2 * n, k], u: f32[k, n]) {\n"
    "    y = gelu(matmul(x, transpose(w)) + b)\n"
    "    z = tanh(matmul(x, transpose(v)))\n"
    "    l = sum(square(matmul(y, transpose(u)))) + sum(z * z * z)\n"
    "    return l, dw = grad(l, w), dv = grad(l, v), du = grad(l, u), db = grad(l, b)\n"
    "}\n"
    "model batched(x: f32[2, m, k], y: f32[2, m, n]) {\n"
    "    return z = einsum(\"bmk,bmn->bnk\", x, exp(y))\n"
    "}\n"
    // an operand of products along other axes; axes that are one, in the other's order
    "model along(x: f32[16, m // 16, k], y: f32[16, m // 16, n], z: f32[16, n], w: f32[m // 16, "
    "16, n]) {\n"
    "    return a = einsum(\"pmk,pmn->kn\", x, y), b = einsum(\"pmk,pn->mkn\", x, z),\n"
    "        c = einsum(\"pmk,mpn->nk\", x, w)\n"
    "}\n"
    // nothing to gain: one operand has none, a column is a vector
    "model other(x: f32[m, k], w: f32[n, k], c: f32[m, 1]) {\n"
    "    return y = matmul(x, transpose(w)), s = matmul(transpose(x), c)\n"
    "}\n";

static uint64_t seed = 88172645463325252u;

static double draw(void) // -1 to 1, by eighths
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)((int)(seed >> 33) % 9) / 8;
}

// What a library's epilogue cannot do, which a generated kernel does with the product.
static const char behind[] =
    "use nn\n"
    "const m = 40\n"
    "const k = 48\n"
    "const n = 56\n"
    "model exact(x: bf16[m, k], w: bf16[n, k], b: bf16[n]) {\n"
    "    z = matmul(x, transpose(w)) + b\n"
    "    return y = cast(gelu(cast(z, f32)), bf16)\n"
    "}\n"
    "model several(x: bf16[m, k], w: bf16[n, k], more: bf16[m, n], s: bf16[n]) {\n"
    "    z = matmul(x, transpose(w))\n"
    "    a = cast(tanh(cast(z, f32)) * cast(s, f32), bf16)\n"
    "    return a, c = a + more\n"
    "}\n"
    "model kept(x: bf16[m, k], w: bf16[n, k], more: bf16[m, n]) {\n"
    "    z = matmul(x, transpose(w))\n"
    "    return z, a = cast(tanh(cast(z, f32)), bf16) * more\n"
    "}\n"
    "model turned(x: bf16[m, k], w: bf16[n, k], more: bf16[n, m]) {\n" // no element of the
                                                                       // product's
    "    z = matmul(x, transpose(w))\n"
    "    return a = transpose(cast(tanh(cast(z, f32)), bf16)) * more\n"
    "}\n";

// Sums over the rows of a product's left operand: its kernel takes them on the way; alone, and in
// clusters, where rows straddle lines of memory.
static const char beside[] = "use nn\n"
                             "fn sums(x) { return sum(cast(x, f32), axis=0) }\n"
                             "model brain(x: bf16[216, 128], w: bf16[128, 256]) {\n"
                             "    return s = cast(sums(x), bf16), y = matmul(x, w)\n"
                             "}\n"
                             "model half(x: f16[488, 72], w: f16[184, 72], b: f16[72]) {\n"
                             "    y = matmul(x, transpose(w))\n"
                             "    return y, s = sums(x) / 3 + cast(b, f32)\n"
                             "}\n";

// Not of the left operand's rows, not of what tiles hold, or what the product itself reads.
static const char apart[] =
    "const m = 216\n"
    "const k = 128\n"
    "const n = 128\n"
    "fn sums(x) { return sum(cast(x, f32), axis=0) }\n"
    "model right(x: bf16[m, k], w: bf16[k, n]) { return s = sums(w), y = matmul(x, w) }\n"
    "model turned(x: bf16[k, m], w: bf16[k, n]) { return s = sums(x), y = matmul(transpose(x), w) "
    "}\n"
    "model squares(x: bf16[m, k], w: bf16[k, n]) { return s = sums(x * x), y = matmul(x, w) }\n"
    "model bias(x: bf16[m, k], w: bf16[k, n]) { return y = matmul(x, w) + cast(sums(x), bf16) }\n";

// [out]: what the text means, without the passes that are to be compared with it.
static Program *compile_in(Precision precision, Arena *a, const Target *target, const char *text,
                           Module **out)
{
    Diags *d = diags_new(a);
    FrontendOptions fo = {0};
    Module *m = frontend_compile(a, d, "test", text, strlen(text), &fo);
    *out = frontend_compile(a, d, "test", text, strlen(text), &fo);
    CHECK(m && *out && !d->errors);
    if (!m || !*out || d->errors) return NULL;
    PassOptions po = {.target = target, .precision = precision}, meant = po;
    meant.references = true;
    meant.skip = "fuse";
    CodegenOptions co = {.target = target, .tf32 = precision == PREC_TF32};
    CHECK(passes_run(m, &po, NULL) && passes_run(*out, &meant, NULL) && !d->errors);
    Program *p = d->errors ? NULL : codegen(m, &co);
    CHECK(p != NULL);
    return p;
}

static Program *compile(Arena *a, const Target *target, const char *text, Module **out)
{
    return compile_in(PREC_F32, a, target, text, out);
}

// Three sizes that the day draws: a multiple of 4, and others.
static void draw_sizes(int *size)
{
    const char *day = getenv("SEED");
    uint64_t state = 0x9e3779b97f4a7c15u * (day ? strtoull(day, NULL, 10) + 1 : 1);
    for (int i = 0; i < 3; i++) {
        state ^= state >> 29;
        state *= 0xbf58476d1ce4e5b9u;
        size[i] = 1 + (int)(state >> 40) % 70;
    }
    size[0] = 4 + 4 * (size[0] % 15);
    printf("sizes %d %d %d\n", size[0], size[1], size[2]);
}

static const char *sized(Arena *a, const char *text, int m, int k, int n)
{
    return arena_printf(a, "%sconst m = %d\nconst k = %d\nconst n = %d\n", text, m, k, n);
}

// The models of odd sizes, with f32 in the place of 16-bit floats.
static const char *odd_f32(Arena *a)
{
    const char *text = arena_printf(a, "%s%s", odd, larger_sizes);
    char *s = arena_strdup(a, text), *to = s;
    while (*text) {
        size_t half = !strncmp(text, "bf16", 4) ? 4 : !strncmp(text, "f16", 3) ? 3 : 0;
        memcpy(to, half ? "f32" : text, half ? 3 : 1);
        to += half ? 3 : 1;
        text += half ? half : 1;
    }
    *to = 0;
    return s;
}

// Axes that follow each other in memory are one for the library, and aligned together. Sums stay
// one kernel, though only one of them could read padded rows alone.
static const char merged[] =
    "use nn\n"
    "model rates(x: bf16[32768, 512], w: bf16[1003, 512], t: i32[32768] in 0..1003) {\n"
    "    z = cast(matmul(x, transpose(w)), f32)\n"
    "    l = cross_entropy(z, t)\n"
    "    return l, right = mean(argmax(z, 1) == t), dx = grad(l, x)\n"
    "}\n"
    "model sums(x: bf16[32768, 512], w: bf16[1003, 512], u: f32[32768, 1003]) {\n"
    "    z = cast(matmul(x, transpose(w)), f32)\n"
    "    return a = sum(z, 1), b = sum(z * u, 1)\n"
    "}\n"
    "model merged(x: bf16[65536, 512], w: bf16[512, 256, 2], v: bf16[65536, 128, 4]) {\n"
    "    return y = einsum(\"mk,knj->mnj\", x, w), z = einsum(\"mab,mk->abk\", v, x)\n"
    "}\n";

static void check_merged(Arena *a)
{
    Module *m;
    Target t = target_cuda(90, true);
    Program *p = compile(a, &t, merged, &m);
    if (!p) return;
    CHECK(p->ngemms == 5);
    int large = 0; // kernels that read all of z
    const ProgEntry *rates = program_entry(p, "rates");
    for (int i = 0; i < rates->nsteps; i++)
        large += rates->steps[i].kind == PS_KERNEL &&
                 p->kernels[rates->steps[i].index].bytes_read > 32768 * 1003;
    CHECK_MSG(large == 1, "%d kernels read all logits", large);
    const ProgEntry *sums = program_entry(p, "sums"); // w is padded, the product, its sums
    CHECK(sums->nsteps == 3 && sums->steps[2].kind == PS_KERNEL);
    CHECK_MSG(p->kernels[sums->steps[2].index].bytes_read < 200e6, "z is read twice");
    for (int i = 0; i < p->ngemms; i++) {
        const ProgGemm *g = &p->gemms[i];
        if (g->m == 32768) continue;
        int64_t columns = g->m == 65536 ? g->n : g->m;
        CHECK_MSG(columns == 512, "%lld x %lld x %lld", (long long)g->m, (long long)g->n,
                  (long long)g->k);
    }
}

// The library adds the bias of a padded product, which is padded in the type in which it reads it.
static const char biased[] =
    "use nn\n"
    "model head(x: f32[32768, 512], t: i32[32768] in 0..1003) {\n"
    "    return l = cross_entropy(linear(x, 1003), t)\n"
    "}\n";

static void check_biased(Arena *a)
{
    Module *m;
    Target t = target_cuda(90, true);
    Program *p = compile_in(PREC_BF16, a, &t, biased, &m);
    if (!p) return;
    CHECK(p->ngemms == 1);
    const ProgGemm *g = &p->gemms[0];
    CHECK_MSG(g->n > 1003 && g->epilogue == PE_BIAS && g->c_type == PD_BF16,
              "%lld columns, epilogue %d, type %d", (long long)g->n, (int)g->epilogue,
              (int)g->c_type);
}

// On sm_90 a product of an operand with odd rows is not worth a copy; the other one is turned.
static const char uneven[] =
    "const m = 32768\n"
    "const n = 768\n"
    "const k = 4097\n"
    "model forward(x: bf16[m, k], w: bf16[n, k]) { return y = matmul(x, transpose(w)) }\n"
    "model both(x: bf16[m, k], w: bf16[n, k], dy: bf16[m, n]) {\n"
    "    return y = matmul(x, transpose(w)), dw = matmul(transpose(dy), x)\n"
    "}\n";

static void check_uneven(Arena *a)
{
    Module *m;
    Target t = target_cuda(90, true);
    Program *p = compile(a, &t, uneven, &m);
    if (!p) return;
    const ProgEntry *forward = program_entry(p, "forward"), *both = program_entry(p, "both");
    const ProgStep *last = &forward->steps[forward->nsteps - 1];
    CHECK(forward->nsteps == 2 && last->kind == PS_GEMM);
    const ProgGemm *g = &p->gemms[last->index];
    CHECK(g->lda == 4097 && g->ldb == 768 && g->kernel);
    CHECK(g->kernel && p->kernels[g->kernel - 1].maps[0].apart == 8);
    for (int i = 0; i < both->nsteps; i++) // what one of two needs padded both read
        if (both->steps[i].kind == PS_GEMM) CHECK(p->gemms[both->steps[i].index].lda % 8 == 0);
}

// Every row of memory that a product walks along is a multiple of 16 bytes; no operand is moved
// that an epilogue could leave padded.
static void check_plan(const Program *p, int unit)
{
    CHECK_MSG(p->ngemms >= 12, "%d products", p->ngemms);
    for (int i = 0; i < p->ngemms; i++) {
        const ProgGemm *g = &p->gemms[i];
        bool k_inside = !g->trans_a || g->trans_b;
        CHECK_MSG((g->lda | g->ldb | g->ldc | g->n) % unit == 0 &&
                      (!k_inside || g->k % unit == 0) && (!g->trans_a || g->m % unit == 0),
                  "%s: %lld x %lld x %lld, rows of %lld, %lld, %lld", g->name, (long long)g->m,
                  (long long)g->n, (long long)g->k, (long long)g->lda, (long long)g->ldb,
                  (long long)g->ldc);
    }
    const ProgEntry *chain = program_entry(p, "chain");
    int kernels = 0, epilogues = 0;
    for (int i = 0; i < chain->nsteps; i++) {
        kernels += chain->steps[i].kind == PS_KERNEL;
        epilogues += chain->steps[i].kind == PS_GEMM && p->gemms[chain->steps[i].index].epilogue;
    }
    CHECK_MSG(kernels <= 4 && epilogues == (unit == 8), // (f32 has no GELU there)
              "%d kernels, %d epilogues", kernels, epilogues);
}

// With TF32 on sm_90, at least one operand of each product has the contracted axis inside.
static void check_strided(Arena *a)
{
    const Target hopper = target_cuda(90, true), ampere = target_cuda(80, true);
    const struct {
        const Target *target;
        Precision precision;
    } with[] = {{&hopper, PREC_TF32}, {&hopper, PREC_BF16}, {&ampere, PREC_TF32}};
    for (int w = 0; w < 3; w++) {
        Module *m;
        Program *p = compile_in(with[w].precision, a, with[w].target,
                                sized(a, strided, 16384, 1024, 1536), &m);
        int apart = 0;
        for (int i = 0; p && i < p->ngemms; i++)
            apart += p->gemms[i].trans_a && !p->gemms[i].trans_b;
        CHECK_MSG(p && (apart > 0) == (w > 0), "%d: %d products", w, apart);
    }
}

static void run_entry(Arena *a, const Module *m, const Program *p, RtProgram *rt, RtSession *s,
                      int entry)
{
    const ProgEntry *e = &p->entries[entry];
    EvalEnv env = {.arena = a, .inputs = strmap_new(a), .cells = strmap_new(a)};
    RtInput *in = NEW_ARRAY(a, RtInput, e->ninputs + 1);
    RtError err = {0};
    EvalResult want = {0};
    for (int i = 0; i < e->ninputs; i++) {
        Type t = type_make((DType)e->inputs[i].type.dtype, e->inputs[i].type.rank,
                           e->inputs[i].type.dim);
        Value *v = NEW(a, Value);
        *v = value_new(a, &t);
        for (int64_t k = 0; k < type_count(&t); k++) v->f[k] = draw() - 0.5;
        void *bytes = arena_alloc(a, (size_t)type_bytes(&t));
        value_to_bytes(v, bytes);
        strmap_set(&env.inputs, e->inputs[i].name, v);
        in[i] = (RtInput){e->inputs[i].name, bytes, false};
    }
    CHECK(eval_graph(m->entries.at[entry].graph, &env, &want));
    CHECK_MSG(!rt_run(s, rt, e->name, in, e->ninputs, 1, &err) && !rt_sync(s, &err), "%s: %s",
              e->name, err.text);
    for (int i = 0; i < e->noutputs && !err.code; i++) {
        const Value *v = strmap_get(&want.outputs, e->outputs[i].name);
        size_t n = (size_t)type_bytes(&v->type);
        void *bytes = arena_alloc(a, n);
        Value got = value_new(a, &v->type);
        CHECK(!rt_output_read(s, rt, e->name, e->outputs[i].name, bytes, n, &err));
        value_from_bytes(&got, bytes);
        double worst = 0, scale = 0;
        for (int64_t k = 0; k < type_count(&v->type); k++) {
            double x = value_get(&got, k), y = value_get(v, k);
            if (isfinite(x) && isfinite(y)) {
                worst = fmax(worst, fabs(x - y));
                scale = fmax(scale, fabs(y));
            } else if (isnan(x) ? !isnan(y) : x != y) {
                worst = INFINITY;
            }
        }
        CHECK_MSG(worst <= 0.02 * scale, "%s: %s differs by %g of %g", e->name, e->outputs[i].name,
                  worst, scale);
    }
}

// A profile times what a kernel behind the library's call takes as a call of its own, and names a
// kernel in the library's place.
static void profile_entry(Arena *a, const Program *p, RtProgram *rt, RtSession *s, int entry)
{
    const ProgEntry *en = &p->entries[entry];
    RtError e = {0};
    RtProfile pr;
    RtProfileOptions o = {.repeats = 1};
    CHECK_MSG(!rt_profile(s, rt, en->name, &o, a, &pr, &e), "%s: %s", en->name, e.text);
    int at = 0;
    for (int i = 0; i < en->nsteps && !e.code; i++) {
        const ProgGemm *g = en->steps[i].kind == PS_GEMM ? &p->gemms[en->steps[i].index] : NULL;
        const RtStepTime *t = &pr.steps[at++];
        bool alone = g && t->kernel >= 0;
        CHECK(at <= pr.nsteps && t->step == i && !t->behind && t->calls == 1);
        if (g) CHECK(t->kernel == (alone ? g->kernel - 1 : -1));
    }
    for (int i = 0; i < en->nsteps && !e.code; i++) {
        const ProgGemm *g = en->steps[i].kind == PS_GEMM ? &p->gemms[en->steps[i].index] : NULL;
        if (!g || !g->follower || pr.steps[i].kernel >= 0) continue;
        const RtStepTime *t = &pr.steps[at++];
        CHECK(at <= pr.nsteps && t->step == i && t->behind && t->kernel == g->follower - 1);
        CHECK(t->calls == 1 && t->info.threads > 0);
    }
    CHECK(e.code || (at == pr.nsteps && pr.nslices == at));
    for (int i = 1; i < pr.nslices; i++) // in the order they ran
        CHECK(pr.slices[i].begin >= pr.slices[i - 1].begin &&
              pr.steps[pr.slices[i].at].step >= pr.steps[pr.slices[i - 1].at].step);
}

static void run_all(Arena *a, const Module *m, const Program *p, bool by_kernel)
{
    RtError e = {0};
    RtProgram *rt = NULL;
    RtSession *s = NULL;
    RtCompileOptions o = {0};
    CHECK_MSG(!rt_program_load(device, p, NULL, 0, &o, &rt, &e) &&
                  !rt_session_new(device, NULL, &s, &e) && !rt_session_attach(s, rt, &e),
              "%s", e.text);
    if (by_kernel && !e.code) CHECK(strstr(rt_choices(rt, a), ": kernel  # library "));
    for (int i = 0; i < p->nentries && !e.code; i++)
        if (p->entries[i].kind == PK_MODEL) {
            run_entry(a, m, p, rt, s, i);
            profile_entry(a, p, rt, s, i);
        }
    rt_session_free(s);
    rt_program_free(rt);
}

// The step of the product does what follows it, by two kernels or by one.
static void check_tails(const Program *p)
{
    for (int i = 0; i < p->nentries; i++) {
        const ProgEntry *e = &p->entries[i];
        if (e->kind != PK_MODEL) continue;
        bool turned = !strcmp(e->name, "turned");
        const ProgGemm *g = &p->gemms[e->steps[0].index];
        CHECK(e->nsteps == (turned ? 2 : 1) && e->steps[0].kind == PS_GEMM && g->kernel);
        CHECK_MSG(!g->follower == turned, "%s", e->name);
        if (!g->follower) continue;
        // the value before is stored only where it is an output
        CHECK(g->kernel_args == (!strcmp(e->name, "several") ? 6 : 5) - !strcmp(e->name, "exact"));
    }
}

// One kernel multiplies and stores the parts of the sums, or a call and a kernel do; what joins the
// parts follows either.
static void check_sums(const Program *p, bool joined)
{
    for (int i = 0; i < p->nentries; i++) {
        const ProgEntry *e = &p->entries[i];
        bool found = false;
        for (int k = 0; k < e->nsteps && e->kind == PK_MODEL; k++) {
            const ProgGemm *g = e->steps[k].kind == PS_GEMM ? &p->gemms[e->steps[k].index] : NULL;
            if (!g || !g->follower) continue;
            found = true;
            CHECK(g->kernel && k + 1 < e->nsteps && e->steps[k + 1].kind == PS_KERNEL);
            const ProgKernel *kernel = &p->kernels[g->kernel - 1];
            CHECK(strstr(kernel->text, "nc_sum_rows_"));
            CHECK((kernel->cluster > 1) == !strcmp(e->name, "half"));
        }
        if (e->kind == PK_MODEL) CHECK_MSG(found == joined, "%s", e->name);
    }
}

int main(void)
{
    Arena *a = arena_new();
    RtError e = {0};
    Module *m, *after, *with, *without;
    Target slow = target_cuda(90, true), older = target_cuda(80, true);
    slow.bf16_flops = older.bf16_flops = 1e8;
    const char *text = arena_printf(a, "%s%s", odd, odd_sizes);
    Program *p = compile(a, &slow, text, &m), *q = compile(a, &older, behind, &after);
    Module *exact, *single, *other, *drawn;
    int size[3];
    draw_sizes(size);
    Program *today = compile(a, &slow, sized(a, odd, size[0], size[1], size[2]), &drawn);
    Target one = target_cuda(90, true), fast = one;
    one.units = 1;
    one.bf16_flops = 1e12;
    Program *tf32 = compile_in(PREC_TF32, a, &one, odd_f32(a), &single),
            *f32 = compile(a, &one, odd_f32(a), &exact);
    Module *major;
    Target quick = one;
    quick.bf16_flops = 9e12;
    Program *turned = compile_in(
        PREC_TF32, a, &quick,
        sized(a, strided, 16 * (size[1] % 8) + 512, size[1] % 30 + 140, size[2] % 30 + 140),
        &major);
    int copies = 0; // what is executed has some
    for (int i = 0; turned && i < turned->nkernels; i++)
        copies += strstr(turned->kernels[i].name, "_turned") != NULL;
    CHECK_MSG(copies > 0, "no operand is stored again");
    check_strided(a);
    slow.units = 2;
    Program *r = compile(a, &slow, beside, &with), *s = compile(a, &slow, apart, &without);
    check_uneven(a);
    check_biased(a);
    check_merged(a);
    if (p) check_plan(p, 8);
    if (tf32) check_plan(tf32, 4);
    for (int i = 0; f32 && i < f32->ngemms; i++) // nothing is gained
        CHECK((f32->gemms[i].lda | f32->gemms[i].ldb | f32->gemms[i].ldc) % 4);
    if (q) check_tails(q);
    if (r) check_sums(r, true);
    if (s) check_sums(s, false);
    // at these sizes no copy pays on the device itself
    Program *plain = compile(a, &fast, text, &other);
    for (int i = 0; plain && i < plain->ngemms; i++)
        CHECK((plain->gemms[i].lda | plain->gemms[i].ldb | plain->gemms[i].ldc) % 8);
    if (!p || !q || !r || rt_device_open("cuda:0", NULL, &device, &e)) {
        printf("skipped: no GPU: %s\n", e.text);
        printf("%d passed, %d failed, 1 skipped\n", unit_passed, unit_failed);
        arena_free(a);
        return unit_failed != 0;
    }
    run_all(a, m, p, false);
    if (tf32) run_all(a, single, tf32, false);
    if (today) run_all(a, drawn, today, false);
    if (turned) run_all(a, major, turned, false);
    run_all(a, after, q, false);
    run_all(a, with, r, false);
    if (strstr(rt_device_model(device), "shim")) { // a slow library: by the kernels
        setenv("SHIM_LT", "slow", 1);
        run_all(a, after, q, true);
        run_all(a, with, r, true);
    }
    rt_device_close(device);
    arena_free(a);
    return unit_done();
}
