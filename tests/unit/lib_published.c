// samples/gpt2, llama and bert beside independent ones (tests/golden/*/make.py): logits, gradients,
// twenty steps of AdamW and texts, from weights in the published checkpoints' names and layouts;
// those files read, converted and written. Runs from the root of the repository.
#include <math.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "base/half.h"
#include "base/map.h"
#include "runtime/data.h"
#include "tests/unit/api.h"

typedef struct Sample {
    const char *folder, *path; // of the golden and of the text
    const char *trained;       // the model that the goldens train
    const char *const *defines, *const *ignore, *const *map;
    const char *models; // that show logits, and the loss of `slopes`, less its gradients
    int parameters;     // that are trained
} Sample;

static const char *const none[] = {NULL};
static const char *const gpt2_sizes[] = {
    "layers=2", "width=16", "heads=2", "vocab=41", "context=12", "T=8", "piece=3", "batch=2", NULL};
static const char *const gpt2_buffers[] = {"h.*.attn.bias", NULL};
static const char *const llama_sizes[] = {"layers=2",  "width=16",    "heads=4",    "kv_heads=2",
                                          "head=8",    "hidden=24",   "vocab=41",   "base=10000",
                                          "stretch=8", "trained=128", "tied=false", "context=12",
                                          "T=8",       "piece=3",     "batch=2",    NULL};
static const char *const llama_buffers[] = {"*.rotary_emb.inv_freq", NULL};
static const char *const bert_sizes[] = {"layers=2", "width=16",   "heads=2", "hidden=32",
                                         "vocab=41", "context=12", "T=8",     "mask=3",
                                         "drop=0.0", "batch=2",    NULL};
static const char *const bert_buffers[] = {"cls.seq_relationship.*", NULL};
static const char *const bert_names[] = {"*.gamma=*.weight", "*.beta=*.bias", NULL};
static const char decoder[] =
    "model shown(tokens: i32[batch, T] in 0..vocab) {\n"
    "    return logits = (network(tokens, 0, attention(causal = true)) as \"\")\n}\n"
    "model slopes(tokens: i32[batch, T + 1] in 0..vocab) {\n"
    "    z = network(tokens[:, :T], 0, attention(causal = true)) as \"\"\n"
    "    loss = cross_entropy(z, tokens[:, 1:])\n";
static const char encoder[] =
    "model shown(tokens: i32[batch, T] in 0..vocab) {\n"
    "    return logits = (network(tokens, zeros([batch, T], i32)) as \"\")\n}\n"
    "fn missed(tokens, shown) {\n"
    "    return masked_loss(network(shown, zeros([batch, T], i32)) as \"\", tokens, shown == "
    "mask)\n}\n"
    "model taught(tokens: i32[batch, T] in 0..vocab, shown: i32[batch, T]) {\n"
    "    return loss = (missed(tokens, shown) as \"\")\n}\n"
    "model slopes(tokens: i32[batch, T] in 0..vocab, shown: i32[batch, T]) {\n"
    "    loss = missed(tokens, shown) as \"\"\n";
static const Sample gpt2 = {"tests/golden/gpt2",
                            "samples/gpt2/gpt2.net",
                            "gpt2",
                            gpt2_sizes,
                            gpt2_buffers,
                            none,
                            decoder,
                            28};
static const Sample llama = {"tests/golden/llama",
                             "samples/llama/llama.net",
                             "llama",
                             llama_sizes,
                             llama_buffers,
                             none,
                             decoder,
                             21};
static const Sample bert = {"tests/golden/bert",
                            "samples/bert/bert.net",
                            "taught",
                            bert_sizes,
                            bert_buffers,
                            bert_names,
                            encoder,
                            42};
static Arena *arena;
static RtTensors expected; // of the sample in hand

static int count(const char *const *list)
{
    int n = 0;
    while (list[n]) n++;
    return n;
}

static const RtTensor *find(const char *prefix, const char *name)
{
    for (int i = 0; i < expected.n; i++)
        if (!strncmp(expected.at[i].name, prefix, strlen(prefix)) &&
            !strcmp(expected.at[i].name + strlen(prefix), name))
            return &expected.at[i];
    printf("no %s%s in the goldens\n", prefix, name);
    exit(1);
}

// The scores of a query do not depend on the bias that all its keys have: what is left of that
// gradient is rounding, of which AdamW makes steps.
static bool means_nothing(const char *name)
{
    return strstr(name, "self.key.bias") != NULL;
}

// "h.0.attn" as an expression: "h[0].attn"
static const char *path_of(const char *name)
{
    Buf b = buf_new(arena);
    for (const char *p = name; *p; p++)
        if (p[0] == '.' && p[1] >= '0' && p[1] <= '9' && p[2] == '.')
            buf_printf(&b, "[%c]", *++p);
        else
            buf_char(&b, *p);
    return b.data;
}

// The sample, its training replaced by the golden's, with models that show logits and gradients.
static char *text_of(const Sample *x)
{
    void *bytes;
    size_t n;
    RtError e = {0};
    if (rt_file_read(arena, x->path, &bytes, &n, &e)) printf("%s\n", e.text), exit(1);
    char *train = strstr(bytes, "\ntrain ");
    CHECK(train);
    if (train) *train = 0;
    Buf b = buf_new(arena);
    buf_printf(&b, "%s\n%s    return loss", (char *)bytes, x->models);
    for (int i = 0, k = 0; i < expected.n; i++)
        if (!strncmp(expected.at[i].name, "grad/", 5))
            buf_printf(&b, ", g%d = grad(loss, %s)", k++, path_of(expected.at[i].name + 5));
    buf_printf(
        &b,
        "\n}\ntrain %s {\n    minimize loss\n    clip clip_global_norm(1.0)\n"
        "    update adamw(lr = 0.01, beta2 = 0.95, weight_decay = 0.1) for params(rank = 2)\n"
        "    update adamw(lr = 0.01, beta2 = 0.95, weight_decay = 0) for rest\n}\n",
        x->trained);
    return b.data;
}

static netc_program *sample(const Sample *x)
{
    NETC_INIT(netc_compile_options, o);
    o.defines = x->defines, o.ndefines = count(x->defines);
    netc_program *p = NULL;
    netc_error *err = NULL;
    RtError e = {0};
    rt_tensors_free(&expected);
    if (rt_safetensors_read(arena, arena_printf(arena, "%s/expected.safetensors", x->folder),
                            &expected, &e))
        printf("%s\n", e.text), exit(1);
    FINE(netc_compile_text(ctx, "sample.net", text_of(x), &o, &p, &err));
    return p;
}

static netc_session *loaded(const Sample *x, netc_program *p)
{
    NETC_INIT(netc_load_options, o);
    o.weights_only = true;
    o.ignore = x->ignore, o.nignore = count(x->ignore);
    o.map = x->map, o.nmap = count(x->map);
    netc_session *s = opened(p, 0, NULL);
    netc_error *err = NULL;
    FINE(netc_state_load(s, x->folder, &o, &err));
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

// What the entry makes of tensors of the goldens: all that are bound are [2, 8] or [2, 9].
static void bind(netc_session *s, const char *entry, const char *input, const char *golden,
                 int width)
{
    static int32_t rows[4][2][9];
    static int turn;
    int32_t(*to)[9] = rows[turn++ % 4], *flat = to[0];
    const RtTensor *t = find("", golden);
    netc_error *err = NULL;
    for (int i = 0; i < 2; i++)
        memcpy(flat + i * width, (const int32_t *)t->data + i * t->type.dim[1],
               (size_t)width * sizeof *flat);
    netc_tensor all = {.dtype = NETC_I32, .rank = 2, .dim = {2, width}, .data = flat};
    FINE(netc_bind(s, entry, input, &all, &err));
}

static void same(netc_session *s, const char *entry, const char *output, const char *prefix,
                 const char *golden, double most)
{
    const RtTensor *want = find(prefix, golden);
    float *room = arena_array(arena, (size_t)prog_type_bytes(&want->type), 1);
    netc_tensor out = like(want, room);
    netc_error *err = NULL;
    FINE(netc_read(s, entry, output, &out, &err));
    near(want->name, want, room, most);
}

static void values(const Sample *x)
{
    netc_program *p = sample(x);
    netc_session *s = loaded(x, p);
    netc_error *err = NULL;
    bool hides = x == &bert;
    bind(s, "shown", "tokens", hides ? "shown" : "tokens", 8);
    FINE(netc_run(s, "shown", 1, &err));
    same(s, "shown", "logits", "", "logits", 2e-5);
    bind(s, "slopes", "tokens", "tokens", hides ? 8 : 9);
    if (hides) bind(s, "slopes", "shown", "shown", 8);
    FINE(netc_run(s, "slopes", 1, &err));
    same(s, "slopes", "loss", "", "loss", 1e-6);
    int k = 0;
    for (int i = 0; i < expected.n; i++) {
        const char *name = expected.at[i].name;
        if (strncmp(name, "grad/", 5)) continue;
        const char *g = arena_printf(arena, "g%d", k++);
        if (!means_nothing(name)) same(s, "slopes", g, "", name, 5e-5);
    }
    CHECK_MSG(k == x->parameters, "%d gradients", k);
    if (hides) {
        bind(s, "features", "tokens", "tokens", 8);
        bind(s, "features", "kind", "kind", 8);
        FINE(netc_run(s, "features", 1, &err));
        same(s, "features", "states", "", "states", 2e-5);
        same(s, "features", "pooled", "", "pooled", 2e-5);
    }
    netc_session_free(s);
    netc_program_release(p);
}

static void training(const Sample *x)
{
    netc_program *p = sample(x);
    netc_session *s = loaded(x, p);
    netc_dataset *d = NULL;
    netc_error *err = NULL;
    FINE(netc_dataset_create(ctx, &d, &err));
    for (int k = 0; k < (x == &bert ? 2 : 1); k++) {
        const RtTensor *data = find("", k ? "shown" : "tokens");
        netc_tensor t = like(data, (void *)(uintptr_t)data->data);
        FINE(netc_dataset_add_array(d, data->name, &t, &err));
    }
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
        if (strstr(want->name, "c_attn.bias")) // the keys' part: see means_nothing
            memcpy(room + 16, (const float *)want->data + 16, 16 * sizeof *room);
        if (!means_nothing(want->name)) near(want->name, want, room, 1e-3);
        n++;
    }
    CHECK_MSG(n == x->parameters, "%d parameters", n);
    netc_dataset_free(d);
    netc_session_free(s);
    netc_program_release(p);
}

static void test_gpt2(void)
{
    values(&gpt2);
    training(&gpt2);
}

static void test_llama(void)
{
    values(&llama);
    training(&llama);
}

static void test_bert(void)
{
    values(&bert);
    training(&bert);
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

static void writing(const Sample *x)
{
    netc_program *p = sample(x);
    netc_session *s = loaded(x, p);
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
        REFUSED(NETC_CHECK_FAILED, "longer than the positions", netc_generate(s, &o, &err));
        CHECK(w.n == 6);
        int32_t longer[14] = {0};
        o.prompt = longer, o.nprompt = 14, w.n = 0;
        REFUSED(NETC_CHECK_FAILED, "longer than the positions", netc_generate(s, &o, &err));
        CHECK(w.n == 0);
    }
    netc_session_free(s);
    netc_program_release(p);
}

static void test_text(void)
{
    writing(&gpt2);
    writing(&llama);
}

// -- files ----------------------------------------------------------------------------------------

static const RtTensor *tensor_in(const RtTensors *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->at[i].name, name)) return &t->at[i];
    return NULL;
}

static int parts_in(const char *mark)
{
    char command[300];
    snprintf(command, sizeof command, "exit $(ls %s/%s.safetensors 2>/dev/null | wc -l)", dir,
             mark);
    int status = system(command);
    return WEXITSTATUS(status);
}

// Weights of bf16 in parts, read into f32, are written as they were: types, names, bytes.
static void test_back(void)
{
    netc_program *p = sample(&llama);
    netc_session *s = loaded(&llama, p);
    netc_error *err = NULL;
    RtTensors was, is;
    RtError e = {0};
    const char *index = file("w.safetensors.index.json");
    NETC_INIT(netc_save_options, o);
    o.weights_only = true, o.type = "bf16", o.part_bytes = 4000;
    for (int turn = 0; turn < 3; turn++) { // each beside the one before, which is then removed
        FINE(netc_state_save_as(s, index, &o, &err));
        int plain = parts_in("w-0*-of-0*"), other = parts_in("w-b-0*-of-0*");
        CHECK_MSG(turn == 1 ? !plain && other == 4 : plain == 4 && !other, "%d, %d", plain, other);
    }
    CHECK(!rt_safetensors_read(arena, llama.folder, &was, &e));
    CHECK_MSG(!rt_safetensors_read(arena, index, &is, &e), "%s", e.text);
    CHECK_MSG(is.n == 21 && was.n == 23, "%d, %d", is.n, was.n);
    for (int i = 0; i < is.n; i++) {
        const RtTensor *a = &is.at[i], *b = tensor_in(&was, a->name);
        CHECK_MSG(b && prog_type_equal(&a->type, &b->type) &&
                      !memcmp(a->data, b->data, (size_t)prog_type_bytes(&a->type)),
                  "%s", a->name);
    }
    rt_tensors_free(&was), rt_tensors_free(&is);
    // What cannot be written leaves what is there.
    float big[16] = {[3] = 1e6f};
    netc_tensor t = floats(big, 1, 16, 0);
    FINE(netc_state_write(s, "model.norm.weight", &t, &err));
    o.type = "f16";
    REFUSED(NETC_INVALID, "'model.norm.weight' holds a value that is too large for f16",
            netc_state_save_as(s, index, &o, &err));
    CHECK(parts_in("w-0*-of-0*") == 4 && !parts_in("w-b-0*-of-0*"));
    o.type = "f8";
    REFUSED(NETC_INVALID, "bf16 or f16, not 'f8'", netc_state_save_as(s, index, &o, &err));
    o.type = "f16", o.weights_only = false;
    REFUSED(NETC_INVALID, "only weights alone", netc_state_save_as(s, index, &o, &err));
    // A whole checkpoint in parts.
    FINE(netc_state_save(s, index, &err));
    CHECK(parts_in("w-b-0*-of-0*") == 1 || parts_in("w-0*-of-0*") == 1);
    FINE(netc_state_load(s, index, NULL, &err));
    netc_session_free(s);
    netc_program_release(p);
}

// Parameters of 16 bits take those of 32, unless a value is too large.
static void test_narrow(void)
{
    static const char text[] =
        "model m(x: f32[2]) {\n    param a: bf16[2] = 0\n    param b: f16[2] = 0\n"
        "    return y = x * cast(a, f32) + cast(b, f32)\n}\n";
    netc_program *p = NULL;
    netc_error *err = NULL;
    RtError e = {0};
    FINE(netc_compile_text(ctx, "m.net", text, NULL, &p, &err));
    netc_session *s = opened(p, 0, NULL);
    float a[2] = {1.0f + 1.0f / 256, -1e30f}, b[2] = {1.0f + 3.0f / 2048, 65519};
    double wide[2] = {0.5, 1e-7};
    RtTensor t[] = {{"a", {PD_F32, 1, {2}}, a}, {"b", {PD_F32, 1, {2}}, b}};
    NETC_INIT(netc_load_options, o);
    const char *path = file("m.safetensors");
    uint16_t bits[2];
    netc_tensor out = {.dtype = NETC_BF16, .rank = 1, .dim = {2}, .data = bits};
    o.weights_only = true;
    CHECK(!rt_safetensors_write(path, t, 2, NULL, NULL, 0, &e));
    FINE(netc_state_load(s, path, &o, &err));
    FINE(netc_state_read(s, "a", &out, &err));
    CHECK(bits[0] == 0x3f80 && bits[1] == half_bits(-1e30, HALF_BF16)); // ties to even
    out.dtype = NETC_F16;
    FINE(netc_state_read(s, "b", &out, &err));
    CHECK(bits[0] == 0x3c02 && bits[1] == 0x7bff);
    b[1] = 65520;
    CHECK(!rt_safetensors_write(path, t, 2, NULL, NULL, 0, &e));
    REFUSED(NETC_INVALID,
            "b: the model has f16[2], the file f32[2] of values that are too large for it",
            netc_state_load(s, path, &o, &err));
    o.weights_only = false; // what goes on is what it was
    REFUSED(NETC_INVALID, "a: the model has bf16[2], the file f32[2]",
            netc_state_load(s, path, &o, &err));
    o.weights_only = true;
    t[1] = (RtTensor){"b", {PD_F64, 1, {2}}, wide};
    CHECK(!rt_safetensors_write(path, t, 2, NULL, NULL, 0, &e));
    FINE(netc_state_load(s, path, &o, &err));
    FINE(netc_state_read(s, "b", &out, &err));
    CHECK(bits[0] == 0x3800 && bits[1] == 2);
    netc_session_free(s);
    netc_program_release(p);
}

// The quick conversions beside those by arithmetic: every f16 and bf16, and floats near and
// between.
static void test_halves(void)
{
    uint64_t state = 1;
    for (uint32_t h = 0; h < 65536; h++)
        for (int k = 0; k < 2; k++) {
            int kind = k ? HALF_F16 : HALF_BF16;
            double slow = half_value((uint16_t)h, kind);
            float quick = half_float((uint16_t)h, kind);
            CHECK_MSG(slow != slow ? quick != quick
                                   : quick == slow && !signbit(quick) == !signbit(slow),
                      "%04x", h);
        }
    for (int i = 0; i < 200000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t bits = (uint32_t)(state >> 32);
        float v;
        if (i % 4 == 0) bits = (bits & 0xffff0000u) + 0x7ffe + bits % 4; // about a tie
        memcpy(&v, &bits, sizeof v);
        uint16_t slow = half_bits(v, HALF_BF16), quick = half_bf16(v);
        CHECK_MSG(v != v ? (quick & 0x7fff) > 0x7f80 : quick == slow, "%08x: %04x, %04x", bits,
                  quick, slow);
        // (of f16: numbers about its range, some of them ties)
        if (i % 2 == 0) bits = (bits & 0x80fff000u) + (0x33u + (unsigned)i % 24) * 0x1000000u;
        memcpy(&v, &bits, sizeof v);
        slow = half_bits(v, HALF_F16), quick = half_f16(v);
        CHECK_MSG(v != v ? (quick & 0x7fff) > 0x7c00 : quick == slow, "%08x: %04x, %04x", bits,
                  quick, slow);
    }
}

// A file that holds matrices the other way round, as linear layers do where GPT-2 has its own.
static void test_turned(void)
{
    static const char *const which[] = {"h.*.mlp.*.weight", NULL}, *const nothing[] = {"g.*", NULL};
    netc_program *p = sample(&gpt2);
    netc_session *s = opened(p, 0, NULL);
    netc_error *err = NULL;
    RtError e = {0};
    RtTensors t;
    CHECK(!rt_safetensors_read(arena, gpt2.folder, &t, &e));
    for (int i = 0; i < t.n; i++) {
        RtTensor *x = &t.at[i];
        if (!strstr(x->name, ".mlp.") || x->type.rank != 2) continue;
        int64_t rows = x->type.dim[0], columns = x->type.dim[1];
        float *turned = arena_array(arena, (size_t)(rows * columns), sizeof *turned);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                turned[c * rows + r] = ((const float *)x->data)[r * columns + c];
        x->type.dim[0] = columns, x->type.dim[1] = rows;
        x->data = turned;
    }
    const char *path = file("linear.safetensors");
    CHECK(!rt_safetensors_write(path, t.at, t.n, NULL, NULL, 0, &e));
    rt_tensors_free(&t);
    NETC_INIT(netc_load_options, o);
    o.weights_only = true;
    o.ignore = gpt2_buffers, o.nignore = 1;
    REFUSED(NETC_INVALID, "4 tensors differ", netc_state_load(s, path, &o, &err));
    o.transpose = nothing, o.ntranspose = 1;
    REFUSED(NETC_INVALID, "'g.*' is to be transposed but matches no matrix of",
            netc_state_load(s, path, &o, &err));
    o.transpose = which;
    FINE(netc_state_load(s, path, &o, &err));
    bind(s, "shown", "tokens", "tokens", 8);
    FINE(netc_run(s, "shown", 1, &err));
    same(s, "shown", "logits", "", "logits", 2e-5);
    netc_session_free(s);
    netc_program_release(p);
}

// What does not fit is all named: missing, extra, of another shape, transposed.
static void test_files(void)
{
    const char *here = gpt2.folder;
    netc_program *p = sample(&gpt2);
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
        {"{", "is not an index of safetensors files"},
        {"{\"weight_map\": {\"a\": \"../turned.safetensors\"}}",
         "'a' must be in a file in the same folder"},
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
    static void (*const tests[])(void) = {test_gpt2,  test_llama,  test_bert,   test_text,
                                          test_back,  test_narrow, test_halves, test_turned,
                                          test_files, NULL};
    arena = arena_new();
    if (!arena) return printf("out of memory\n"), 1;
    int code = api_main(tests);
    rt_tensors_free(&expected);
    arena_free(arena);
    return code;
}
