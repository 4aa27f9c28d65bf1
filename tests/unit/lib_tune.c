// Every legal value of every knob, alone, for kernels of every schedule: it lowers, it is what the
// text said, and NVRTC compiles it. Texts of choice tables, sound and not.
#include <stdlib.h>
#include <string.h>

#include "codegen/schedule/knobs.h"
#include "lib/tune/tune.h"
#include "tests/unit/unit.h"

static const char model[] =
    "use nn\n"
    "model net(x: f32[64, 96], label: u8[64] in 0..10) {\n"
    "    h = relu(linear(x, 256) as a)\n"
    "    n = layer_norm(h) as norm\n"
    "    logits = linear(n, 10) as b\n"
    "    return loss = cross_entropy(logits, label)\n"
    "}\n"
    "model long(x: bf16[8, 40000]) { return y = softmax(cast(x, f32)) }\n"
    "model columns(x: f32[20000, 96]) { return y = sum(x, 0), z = transpose(exp(x)) }\n"
    "model all(x: f32[3000000]) { return y = mean(x * x) }\n"
    "model back(x: bf16[65536, 96], dy: bf16[65536, 96]) {\n"
    "    v = cast(x, f32)\n"
    "    y = layer_norm(v) as other\n"
    "    total = sum(y * cast(dy, f32))\n"
    "    return dx = cast(grad(total, v), bf16), dw = grad(total, other.weight)\n"
    "}\n"
    "model runs(x: f32[64, 100]) { return y = cumsum(x, 1), z = sort(x[:, :64]), w = sort(x) }\n";

typedef struct One {
    uint64_t key;
    const char *text;
} One;

static const char *find_one(void *ctx, uint64_t key)
{
    const One *o = ctx;
    return o->key == key ? o->text : NULL;
}

static netc_context *context;

static Build *build(netc_program **p, bool cuda, bool library)
{
    NETC_INIT(netc_compile_options, o);
    netc_error *err = NULL;
    Build *b = NULL;
    o.no_matmul_library = !library;
    if (netc_compile_text(context, "test.net", model, &o, p, &err) != NETC_OK ||
        build_get(*p, cuda, "", "", &b, &err) != NETC_OK)
        printf("%s\n", netc_error_text(err));
    return b;
}

typedef struct Tried {
    int candidates, compiled, kinds[SCHED_TILE + 1];
    bool tried[SCHED_TILE + 1][32]
              [KNOB_VALUES]; // one kernel is compiled of each kind, knob and place of value
    bool nvrtc, full;
} Tried;

// The candidates of one launch, as one program for the compiler.
static void try_launch(Build *b, const LaunchRecord *r, Tried *t)
{
    Arena *a = arena_new();
    Bench bench = {.context = context, .like = b->program, .launch = r, .arena = a};
    const Target *target = r->ctx.target;
    Candidate base = {0};
    CHECK(bench_lower(&bench, NULL, NULL, &base));
    VEC(ProgKernel) kernels = {0};
    for (int k = 0; k < base.nkernels; k++)
        for (int n = 0; n < base.kernels[k].nbodies; n++) {
            const Body *body = base.kernels[k].body[n];
            t->kinds[body->sched.kind]++;
            for (const Knob *knob = knobs; knob->name; knob++) {
                int64_t value[KNOB_VALUES];
                int values = knob->legal(body, target, value);
                bool own = values == 0;
                for (int i = 0; i < values; i++) own |= value[i] == knob_get(knob, body);
                CHECK_MSG(own, "%s: %s=%lld is not among its legal values",
                          base.kernels[k].prog.name, knob->name, (long long)knob_get(knob, body));
                for (int i = 0; i < values; i++) {
                    Body other = *body;
                    knobs_set(&knob, &value[i], 1, &other, target);
                    One one = {body->key, schedule_text(a, &other, target, true)};
                    Candidate c = {0};
                    CHECK(bench_lower(&bench, find_one, &one, &c));
                    const Body *got = NULL;
                    for (int j = 0; j < c.nkernels && !got; j++)
                        for (int m = 0; m < c.kernels[j].nbodies; m++)
                            if (c.kernels[j].body[m]->key == body->key) got = c.kernels[j].body[m];
                    CHECK_MSG(got && !strcmp(schedule_text(a, got, target, true), one.text),
                              "wanted %s, got %s", one.text,
                              got ? schedule_text(a, got, target, true) : "nothing");
                    for (int j = 0; j < c.nkernels; j++) vec_push(a, &kernels, c.kernels[j].prog);
                    t->candidates++;
                }
            }
        }
    Program p = *b->program;
    p.kernels = kernels.at;
    p.nkernels = (int)kernels.n;
    RtImage *images;
    int n = 0;
    RtError e = {0};
    RtCompileOptions o = {.threads = 0};
    if (b->cuda && t->nvrtc && rt_compile_cuda(a, &p, "sm_90", &o, &images, &n, &e)) {
        if (strstr(e.text, "does not compile"))
            CHECK_MSG(false, "%s", e.text);
        else
            t->nvrtc = false;
    }
    t->compiled += n;
    arena_free(a);
}

static void candidates(bool cuda)
{
    netc_program *p = NULL;
    Tried t = {.nvrtc = true, .full = getenv("FULL") != NULL};
    Build *b = build(&p, cuda, false);
    CHECK(b);
    for (uint32_t i = 0; b && i < b->launches.n; i++)
        if (b->launches.at[i].ctx.entry->kind != ENTRY_INIT) try_launch(b, &b->launches.at[i], &t);
    for (int k = 0; k <= SCHED_TILE; k++)
        CHECK_MSG(t.kinds[k] || (k == SCHED_SWEEP && !cuda), "no %s schedule",
                  schedule_kind_name(k));
    CHECK_MSG(t.candidates > (cuda ? 200 : 20), "%d candidates", t.candidates);
    if (cuda && !t.nvrtc) printf("skip: no NVRTC: candidates are not compiled\n");
    CHECK(!cuda || !t.nvrtc || t.compiled > 20);
    netc_program_release(p);
}

int main(void)
{
    NETC_INIT(netc_context_options, o);
    o.cache_dir = "";
    CHECK(netc_context_create(&o, &context, NULL) == NETC_OK);
    candidates(true);
    candidates(false);
    netc_context_free(context);
    return unit_done();
}
