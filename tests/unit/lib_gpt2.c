// samples/gpt2/gpt2.net beside an independent GPT-2 (tests/golden/gpt2/make.py): logits, gradients,
// twenty steps of AdamW and a text, from weights in the published checkpoint's names and layout.
// Runs from the root of the repository.
#include <math.h>
#include <stdarg.h>

#include "base/map.h"
#include "runtime/data.h"
#include "tests/unit/api.h"

static const char here[] = "tests/golden/gpt2";
static Arena *arena;
static RtTensors expected;

static const RtTensor *find(const char *prefix, const char *name)
{
    for (int i = 0; i < expected.n; i++)
        if (!strncmp(expected.at[i].name, prefix, strlen(prefix)) &&
            !strcmp(expected.at[i].name + strlen(prefix), name))
            return &expected.at[i];
    printf("no %s%s in the goldens\n", prefix, name);
    exit(1);
}

// The sample, its training replaced by the golden's, with models that show logits and gradients.
static char *text_of_sample(void)
{
    void *bytes;
    size_t n;
    RtError e = {0};
    if (rt_file_read(arena, "samples/gpt2/gpt2.net", &bytes, &n, &e))
        printf("%s\n", e.text), exit(1);
    char *train = strstr(bytes, "train gpt2");
    CHECK(train);
    if (train) *train = 0;
    Buf b = buf_new(arena);
    buf_printf(&b,
               "%s\nmodel shown(tokens: i32[batch, T] in 0..vocab) {\n"
               "    return logits = (network(tokens, 0, attention(causal = true)) as \"\")\n}\n"
               "model slopes(tokens: i32[batch, T + 1] in 0..vocab) {\n"
               "    z = network(tokens[:, :T], 0, attention(causal = true)) as \"\"\n"
               "    loss = cross_entropy(z, tokens[:, 1:])\n    return loss",
               (char *)bytes);
    for (int i = 0, k = 0; i < expected.n; i++) {
        const char *name = expected.at[i].name;
        if (strncmp(name, "grad/", 5)) continue;
        buf_printf(&b, ", g%d = grad(loss, ", k++);
        if (!strncmp(name, "grad/h.", 7))
            buf_printf(&b, "h[%c]%s)", name[7], name + 8);
        else
            buf_printf(&b, "%s)", name + 5);
    }
    buf_str(&b,
            "\n}\ntrain gpt2 {\n    minimize loss\n    clip clip_global_norm(1.0)\n"
            "    update adamw(lr = 0.01, beta2 = 0.95, weight_decay = 0.1) for params(rank = 2)\n"
            "    update adamw(lr = 0.01, beta2 = 0.95, weight_decay = 0) for rest\n}\n");
    return b.data;
}

static netc_program *sample(void)
{
    static const char *const sizes[] = {"layers=2",   "width=16", "heads=2", "vocab=41",
                                        "context=12", "T=8",      "piece=3", "batch=2"};
    NETC_INIT(netc_compile_options, o);
    o.defines = sizes, o.ndefines = sizeof sizes / sizeof *sizes;
    netc_program *p = NULL;
    netc_error *err = NULL;
    FINE(netc_compile_text(ctx, "gpt2.net", text_of_sample(), &o, &p, &err));
    return p;
}

static netc_session *loaded(netc_program *p)
{
    static const char *const buffers[] = {"h.*.attn.bias"};
    NETC_INIT(netc_load_options, o);
    o.weights_only = true;
    o.ignore = buffers, o.nignore = 1;
    netc_session *s = opened(p, 0, NULL);
    netc_error *err = NULL;
    FINE(netc_state_load(s, here, &o, &err));
    return s;
}

static netc_tensor like(const RtTensor *t, void *data)
{
    netc_tensor out = {
        .dtype = t->type.dtype == PD_I32 ? NETC_I32 : NETC_F32, .rank = t->type.rank, .data = data};
    for (int i = 0; i < t->type.rank; i++) out.dim[i] = t->type.dim[i];
    return out;
}

// The largest difference over the largest element.
static void near(const char *what, const RtTensor *want, const float *have, double most)
{
    const float *w = want->data;
    int64_t n = prog_type_bytes(&want->type) / 4;
    double top = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        top = fmax(top, fabs(w[i]));
        worst = isnan(have[i]) ? INFINITY : fmax(worst, fabs(w[i] - have[i]));
    }
    CHECK_MSG(worst <= most * top, "%s: %g of %g", what, worst, top);
}

static void test_values(void)
{
    netc_program *p = sample();
    netc_session *s = loaded(p);
    netc_error *err = NULL;
    const RtTensor *data = find("", "tokens"), *logits = find("", "logits");
    int32_t rows[2][9], short_rows[2][8];
    memcpy(rows, data->data, sizeof rows);
    for (int i = 0; i < 2; i++) memcpy(short_rows[i], rows[i], sizeof short_rows[i]);
    netc_tensor all = {.dtype = NETC_I32, .rank = 2, .dim = {2, 9}, .data = rows};
    netc_tensor shorter = {.dtype = NETC_I32, .rank = 2, .dim = {2, 8}, .data = short_rows};
    float *room = arena_array(arena, 1 << 14, sizeof *room), loss;
    netc_tensor out = like(logits, room), scalar = floats(&loss, 0, 0, 0);
    FINE(netc_bind(s, "shown", "tokens", &shorter, &err));
    FINE(netc_run(s, "shown", 1, &err));
    FINE(netc_read(s, "shown", "logits", &out, &err));
    near("logits", logits, room, 2e-5);
    FINE(netc_bind(s, "slopes", "tokens", &all, &err));
    FINE(netc_run(s, "slopes", 1, &err));
    FINE(netc_read(s, "slopes", "loss", &scalar, &err));
    near("loss", find("", "loss"), &loss, 1e-6);
    int k = 0;
    for (int i = 0; i < expected.n; i++) {
        const RtTensor *want = &expected.at[i];
        if (strncmp(want->name, "grad/", 5)) continue;
        out = like(want, room);
        FINE(netc_read(s, "slopes", arena_printf(arena, "g%d", k++), &out, &err));
        near(want->name, want, room, 5e-5);
    }
    CHECK(k == 28);
    netc_session_free(s);
    netc_program_release(p);
}

static void test_training(void)
{
    netc_program *p = sample();
    netc_session *s = loaded(p);
    netc_dataset *d = NULL;
    netc_error *err = NULL;
    const RtTensor *data = find("", "tokens");
    netc_tensor tokens = like(data, (void *)(uintptr_t)data->data);
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_array(d, "tokens", &tokens, &err));
    NETC_INIT(netc_train_options, o);
    o.data = d;
    o.steps = 20;
    o.no_shuffle = true;
    FINE(netc_train(s, &o, &err));
    float *room = arena_array(arena, 1 << 14, sizeof *room);
    int n = 0;
    for (int i = 0; i < expected.n; i++) {
        const RtTensor *want = &expected.at[i];
        if (strncmp(want->name, "after/", 6)) continue;
        netc_tensor out = like(want, room);
        FINE(netc_state_read(s, want->name + 6, &out, &err));
        // Scores do not depend on the keys' bias: its gradient is rounding, which AdamW makes steps
        // of.
        if (strstr(want->name, "c_attn.bias"))
            memcpy(room + 16, (const float *)want->data + 16, 16 * sizeof *room);
        near(want->name, want, room, 1e-3);
        n++;
    }
    CHECK(n == 28);
    netc_dataset_free(d);
    netc_session_free(s);
    netc_program_release(p);
}

typedef struct Written {
    int n;
    int64_t token[16];
} Written;

static bool told(void *user, int64_t row, int64_t token)
{
    Written *w = user;
    w->token[w->n++ % 16] = token;
    return row == 0;
}

static void test_text(void)
{
    netc_program *p = sample();
    netc_session *s = loaded(p);
    netc_error *err = NULL;
    const int32_t *text = find("", "text")->data;
    for (int pieces = 0; pieces < 2; pieces++) {
        Written w = {0};
        NETC_INIT(netc_generate_options, o);
        o.prompt = text, o.nprompt = 7, o.length = 5;
        o.token = told, o.user = &w;
        o.prefill = pieces ? NULL : "";
        FINE(netc_generate(s, &o, &err));
        CHECK(w.n == 5);
        for (int i = 0; i < 5; i++) CHECK(w.token[i] == text[7 + i]);
        // Twelve positions there are: the thirteenth token is drawn, what follows it is not.
        o.length = 7;
        w.n = 0;
        REFUSED(NETC_CHECK_FAILED, "longer than the positions there are",
                netc_generate(s, &o, &err));
        CHECK(w.n == 6);
        int32_t longer[14] = {0};
        o.prompt = longer, o.nprompt = 14, w.n = 0;
        REFUSED(NETC_CHECK_FAILED, "longer than the positions there are",
                netc_generate(s, &o, &err));
        CHECK(w.n == 0);
    }
    netc_session_free(s);
    netc_program_release(p);
}

// What does not fit is all named: missing, extra, of another shape, transposed.
static void test_files(void)
{
    netc_program *p = sample();
    netc_session *s = opened(p, 0, NULL);
    netc_error *err = NULL;
    NETC_INIT(netc_load_options, o);
    o.weights_only = true;
    REFUSED(NETC_INVALID,
            "2 tensors differ:\n  h.0.attn.bias: only in the file\n  h.1.attn.bias: only in",
            netc_state_load(s, here, &o, &err));
    char path[200];
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", here);
    REFUSED(NETC_INVALID, "wte.weight: the model has f32[41, 16], the file has no such tensor",
            netc_state_load(s, path, &o, &err));
    // A part turned, one gone.
    RtTensors t;
    RtError e = {0};
    CHECK(rt_safetensors_read(arena, here, &t, &e) == RT_OK);
    int n = 0;
    for (int i = 0; i < t.n; i++) {
        RtTensor x = t.at[i];
        if (!strcmp(x.name, "ln_f.bias")) continue;
        if (!strcmp(x.name, "h.1.mlp.c_fc.weight")) x.type.dim[0] = 64, x.type.dim[1] = 16;
        t.at[n++] = x;
    }
    CHECK(rt_safetensors_write(file("turned.safetensors"), t.at, n, NULL, NULL, 0, &e) == RT_OK);
    rt_tensors_free(&t);
    static const char *const patterns[] = {"h.*.attn.bias"};
    o.ignore = patterns, o.nignore = 1;
    netc_status status = netc_state_load(s, file("turned.safetensors"), &o, &err);
    const char *said = netc_error_text(err);
    CHECK_MSG(status == NETC_INVALID && strstr(said, "2 tensors differ") &&
                  strstr(said,
                         "h.1.mlp.c_fc.weight: the model has f32[16, 64], the file f32[64, 16], "
                         "which is its transpose") &&
                  strstr(said, "ln_f.bias: the model has f32[16], the file has no such tensor"),
              "%s", said);
    netc_error_free(err), err = NULL;
    // An index that is wrong.
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"{}", "has no weight_map"},
        {"{", "is no index of safetensors files"},
        {"{\"weight_map\": {\"a\": \"../turned.safetensors\"}}", "'a' is in no file beside it"},
        {"{\"weight_map\": {\"a\": \"none.safetensors\"}}", "none.safetensors: No such file"},
        {"{\"weight_map\": {\"a\": \"turned.safetensors\"}}", "'a' is not in turned.safetensors"},
        {"{\"weight_map\": {\"ln_f.weight\": \"turned.safetensors\", \"wte.weight\": "
         "\"again.safetensors\"}}",
         "two of its files hold"},
    };
    char copy[400];
    snprintf(copy, sizeof copy, "cp %s/turned.safetensors %s/again.safetensors", dir, dir);
    CHECK(!system(copy));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FILE *f = fopen(file("x.index.json"), "w");
        CHECK(f && fputs(wrong[i].text, f) >= 0 && !fclose(f));
        REFUSED(NETC_INVALID, wrong[i].why, netc_state_load(s, file("x.index.json"), &o, &err));
    }
    netc_session_free(s);
    netc_program_release(p);
}

int main(void)
{
    static void (*const tests[])(void) = {test_values, test_training, test_text, test_files, NULL};
    RtError e = {0};
    arena = arena_new();
    if (!arena ||
        rt_safetensors_read(arena, "tests/golden/gpt2/expected.safetensors", &expected, &e))
        return printf("%s\n", e.text), 1;
    int code = api_main(tests);
    rt_tensors_free(&expected);
    arena_free(arena);
    return code;
}
