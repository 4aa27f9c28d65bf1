// Every failing allocation (tests/unit/oom.h) on the other ways through the interface: hooks, what
// a host asks, tensors of others, data of every kind, weights of another model, kernels that are
// edited, tuned and checked.
#include <sys/stat.h>

#include "tests/unit/oom.h"

static const char *const text =
    "use nn\n"
    "use optim\n"
    "use \"parts.net\"\n"
    "dim batch = 8\n"
    "setting rate = 0.1\n"
    "model line(x: f32[batch, 3], t: f32[batch]) {\n"
    "    h = bent(linear(x, 2) as fc)\n"
    "    tap h\n"
    "    y = sum(h, 1)\n"
    "    return loss = mean((y - t) * (y - t)), y\n"
    "}\n"
    "model words(w: u8[batch, 16]) { return most = mean(cast(w, f32)) }\n"
    "train line {\n"
    "    minimize loss\n"
    "    update adamw(lr = rate)\n"
    "}\n";

static char *parts(void *user, const char *from, const char *name, size_t *length)
{
    static const char part[] = "fn bent(x) { return tanh(x) }\n";
    (void)user, (void)from;
    if (strcmp(name, "parts.net")) return NULL;
    *length = sizeof part - 1;
    return __real_strdup(part); // the library's allocations fail, not the host's
}

static void no_line(void *user, const char *line)
{
    (void)user, (void)line;
}

static netc_status make_context(World *w)
{
    NETC_INIT(netc_context_options, o);
    o.cache_dir = cache;
    o.threads = 2;
    o.resolve = parts;
    o.log = no_line;
    netc_status status = netc_context_create(&o, &w->c, &w->err);
    if (status == NETC_OK) netc_context_prepare(w->c, "cpu"); // a failure is the session's
    return status;
}

static netc_status compile(World *w)
{
    NETC_INIT(netc_compile_options, o);
    FILE *f = fopen(file("line.tune"), "w");
    if (!f || fputs("# netc tune 1\n", f) < 0 || fclose(f)) return NETC_INTERNAL;
    o.dump_dir = file("dump");
    o.kernels_dir = file("kernels");
    o.tune_file = file("line.tune");
    o.memory_limit = 4096;
    return netc_compile_text(w->c, "line.net", text, &o, &w->p, &w->err);
}

static netc_status make_session(World *w)
{
    return netc_session_create(w->p, "cpu", NULL, &w->s, &w->err);
}

static netc_status part_of_it(World *w) // one entry, one output
{
    static const char *const entries[] = {"line"}, *const outputs[] = {"y"};
    netc_program *p = NULL;
    NETC_INIT(netc_compile_options, o);
    o.entries = entries, o.nentries = 1;
    o.outputs_of = "line";
    o.outputs = outputs, o.noutputs = 1;
    netc_status status = netc_compile_text(w->c, "line.net", text, &o, &p, &w->err);
    netc_program_release(p);
    return status;
}

static netc_status ask(World *w)
{
    netc_program *p = netc_program_retain(w->p);
    netc_status status = NETC_OK;
    netc_port port;
    netc_memory memory;
    for (int i = 0; i < netc_entry_count(p); i++) {
        const char *entry = netc_entry_name(p, i);
        for (int k = 0; status == NETC_OK && k < netc_input_count(p, entry); k++)
            status = netc_input_info(p, entry, k, &port, &w->err);
        for (int k = 0; status == NETC_OK && k < netc_output_count(p, entry); k++)
            status = netc_output_info(p, entry, k, &port, &w->err);
    }
    netc_program_release(p);
    if (status == NETC_OK) status = netc_session_memory(w->s, "train", &memory, &w->err);
    if (!*netc_session_device(w->s) || netc_graph_kernels(w->s, "train") > 0) return NETC_INTERNAL;
    for (int i = 0; status == NETC_OK && i < netc_state_count(w->s); i++) {
        float v[8];
        status = netc_state_info(w->s, i, &port, &w->err);
        if (status != NETC_OK || strcmp(port.name, "fc.weight")) continue;
        netc_tensor t = floats(v, 2, port.dim[0], port.dim[1]);
        status = netc_state_read(w->s, port.name, &t, &w->err);
        if (status == NETC_OK) status = netc_state_write(w->s, port.name, &t, &w->err);
    }
    return status == NETC_OK ? netc_state_check(w->s, &w->err) : status;
}

// What is refused says so, or that there was no memory to say it.
static netc_status refused_call(World *w, netc_status status, netc_error **err)
{
    netc_error *e = *err;
    *err = NULL;
    if (status == NETC_OUT_OF_MEMORY) return w->err = e, status;
    bool told = status == NETC_INVALID && e && *netc_error_text(e) &&
                netc_error_json(e)[0] == '[' && *netc_error_colored(e);
    netc_error_free(e);
    return told ? NETC_OK : NETC_INTERNAL;
}

static netc_status refusals(World *w)
{
    netc_error *err = NULL;
    netc_tensor t = floats(points.t, 1, 8, 0);
    netc_status status = refused_call(w, netc_state_read(w->s, "fc.wight", &t, &err), &err);
    if (status == NETC_OK) status = refused_call(w, netc_bind(w->s, "line", "x", &t, &err), &err);
    if (status == NETC_OK) status = refused_call(w, netc_set(w->s, "speed", 1, &err), &err);
    if (status == NETC_OK) status = refused_call(w, netc_read(w->s, "line", "z", &t, &err), &err);
    return status == NETC_OK ? refused_call(w, netc_run(w->s, "lines", 1, &err), &err) : status;
}

typedef struct Managed { // DLPack 0.8
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
    void *manager;
    void (*deleter)(struct Managed *);
} Managed;

static netc_status bind_dlpack(World *w)
{
    static int64_t shape[2] = {8, 3};
    static Managed m = {.device_type = 1, .ndim = 2, .code = 2, .bits = 32, .lanes = 1};
    m.data = points.x, m.shape = shape;
    netc_tensor t = floats(points.t, 1, 8, 0);
    netc_status status = netc_bind_dlpack(w->s, "line", "x", &m, &w->err);
    if (status == NETC_OK) status = netc_bind(w->s, "line", "t", &t, &w->err);
    if (status == NETC_OK) status = netc_run(w->s, "line", 1, &w->err);
    return status == NETC_OK ? netc_sync(w->s, &w->err) : status;
}

static netc_status make_files(World *w)
{
    netc_tensor x = floats(points.x, 2, 20, 3), t = floats(points.t, 1, 20, 0);
    netc_status status = netc_array_write(file("x.npy"), &x, &w->err);
    if (status == NETC_OK) status = netc_array_write(file("t.npy"), &t, &w->err);
    FILE *f = fopen(file("words.txt"), "w");
    for (int i = 0; f && i < 40; i++) fputs("so many words ", f);
    return f && !fclose(f) ? status : NETC_INTERNAL;
}

static netc_status make_data(World *w)
{
    char joined[256];
    snprintf(joined, sizeof joined, "%s,%s", file("x.npy"), file("x.npy"));
    netc_status status = netc_dataset_create(w->c, &w->d, &w->err);
    if (status == NETC_OK) status = netc_dataset_add_file(w->d, "x", joined, NULL, &w->err);
    snprintf(joined, sizeof joined, "%s,%s", file("t.npy"), file("t.npy"));
    if (status == NETC_OK) status = netc_dataset_add_file(w->d, "t", joined, NULL, &w->err);
    if (status == NETC_OK) status = netc_dataset_create(w->c, &w->file, &w->err);
    if (status == NETC_OK)
        status = netc_dataset_add_file(w->file, "w", file("words.txt"), NULL, &w->err);
    return status;
}

static netc_status from_files(World *w) // a file, with the batch that the data give
{
    netc_program *p = NULL;
    NETC_INIT(netc_compile_options, o);
    o.data = w->d;
    o.whole_data = true;
    o.precision = "f16";
    FILE *f = fopen(file("other.net"), "w");
    if (!f || fputs(model, f) < 0 || fclose(f)) return NETC_INTERNAL;
    netc_status status = netc_compile_file(w->c, file("other.net"), &o, &p, &w->err);
    netc_program_release(p);
    return status;
}

static netc_status words(World *w) // windows of a text
{
    netc_times times;
    NETC_INIT(netc_time_options, o);
    o.data = w->file;
    o.steps = o.repeats = 1;
    return netc_time(w->s, "words", &o, &times, &w->err);
}

static void no_event(void *user, const netc_event *e)
{
    (void)user, (void)e;
}

static netc_status train(World *w)
{
    static const char *const watch[] = {"h"};
    NETC_INIT(netc_train_options, o);
    o.data = o.eval_data = w->d;
    o.epochs = 1.5;
    o.keep_last_partial = o.no_shuffle = true;
    o.save = file("trained.safetensors");
    o.watch = watch, o.nwatch = 1;
    o.event = no_event;
    return netc_train(w->s, &o, &w->err);
}

static netc_status weights(World *w)
{
    static const char *const map[] = {"fc.*=fc.*"};
    NETC_INIT(netc_load_options, o);
    o.map = map, o.nmap = 1;
    o.allow_missing = o.weights_only = true;
    return netc_state_load(w->s, file("trained.safetensors"), &o, &w->err);
}

// The name of the first kernel that the list of knobs holds.
static netc_status first_kernel(World *w, const char *target, char *out, size_t n)
{
    char *knobs = NULL;
    netc_status status = netc_program_knobs(w->p, target, NULL, &knobs, &w->err);
    const char *at = status == NETC_OK ? strstr(knobs, "kernel ") : NULL;
    if (at) snprintf(out, n, "%.*s", (int)strcspn(at + 7, "/ "), at + 7);
    netc_free(knobs);
    return status == NETC_OK && !at ? NETC_INTERNAL : status;
}

static netc_status knobs_of_one(World *w)
{
    char kernel[200], *knobs = NULL;
    netc_status status = first_kernel(w, "cuda", kernel, sizeof kernel);
    if (status == NETC_OK) status = netc_program_knobs(w->p, "cuda", kernel, &knobs, &w->err);
    netc_free(knobs);
    return status;
}

static netc_status eject(World *w)
{
    char kernel[200], *path = NULL;
    netc_status status = first_kernel(w, "cuda", kernel, sizeof kernel);
    if (status == NETC_OK) status = netc_program_eject(w->p, kernel, &path, &w->err);
    if (path) remove(path);
    netc_free(path);
    return status;
}

static netc_status show(World *w)
{
    static const char *const stages[] = {"ir", "grad", "cuda"};
    char *out = NULL;
    netc_status status = NETC_OK;
    for (size_t i = 0; i < sizeof stages / sizeof *stages && status == NETC_OK; i++) {
        status = netc_program_emit(w->p, stages[i], &out, &w->err);
        netc_free(out);
        out = NULL;
    }
    NETC_INIT(netc_inspect_options, o);
    o.target = "cuda";
    o.why = true;
    if (status == NETC_OK) status = netc_inspect(w->p, &o, &out, &w->err);
    netc_free(out);
    out = NULL;
    NETC_INIT(netc_report_options, r);
    r.target = "cuda";
    if (status == NETC_OK) status = netc_report(w->p, &r, &out, &w->err);
    netc_free(out);
    return status;
}

static netc_status check_kernel(World *w)
{
    char kernel[200], *report = NULL;
    netc_status status = first_kernel(w, "cpu", kernel, sizeof kernel);
    if (status == NETC_OK) status = netc_check_kernel(w->p, "cpu", kernel, &report, &w->err);
    netc_free(report);
    return status;
}

static netc_status tune(World *w)
{
    NETC_INIT(netc_tune_options, o);
    o.seconds = 0.02;
    o.file = file("new.tune");
    o.again = o.prune = true;
    return netc_tune(w->p, "cpu", &o, &w->err);
}

static void no_finding(void *user, const char *what, bool ok, const char *detail)
{
    (void)user, (void)what, (void)ok, (void)detail;
}

static netc_status doctor(World *w)
{
    netc_doctor(w->c, no_finding, NULL);
    return NETC_OK;
}

// A tokenizer.json, and a text by it.
static netc_status tokenize(World *w)
{
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 5, \"content\": \"<|end|>\", \"special\": true}],"
        " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true},"
        " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"abab\": 3,"
        " \"\\u0120\": 4}, \"merges\": [\"a b\", [\"ab\", \"ab\"]]}}";
    static const char words_of[] = "abab ab<|end|>ba";
    FILE *f = fopen(file("tokenizer.json"), "w"), *g = fopen(file("abab.txt"), "w");
    bool ok = f && g && fputs(json, f) >= 0 && fputs(words_of, g) >= 0;
    ok = (!f || !fclose(f)) && (!g || !fclose(g)) && ok;
    if (!ok) return NETC_INTERNAL;
    char path[300], to[300];
    snprintf(path, sizeof path, "%s", file("abab.txt"));
    snprintf(to, sizeof to, "%s", file("abab.bin"));
    const char *files[] = {path, path};
    netc_tokenizer *t = NULL;
    int32_t *tokens = NULL;
    int64_t n = 0;
    NETC_INIT(netc_tokenize_options, o);
    o.files = files, o.nfiles = 2;
    o.output = to;
    o.end = "<|end|>";
    netc_status status = netc_tokenizer_open(file("tokenizer.json"), NULL, &t, &w->err);
    if (status == NETC_OK)
        status = netc_tokenizer_encode(t, words_of, strlen(words_of), false, &tokens, &n, &w->err);
    if (status == NETC_OK && (n != 8 || tokens[1] != 3 || tokens[4] != 5)) status = NETC_INTERNAL;
    if (status == NETC_OK) status = netc_tokenize(t, &o, &n, NULL, &w->err);
    if (status == NETC_OK && n != 18) status = NETC_INTERNAL;
    netc_free(tokens);
    netc_tokenizer_free(t);
    return status;
}

static const Step tokens[] = {{"tokenize", tokenize}, {0}};
static const Step whole[] = {
    {"context, prepared", make_context},
    {"compile with hooks", compile},
    {"session", make_session},
    {"an output", part_of_it},
    {"ask", ask},
    {"refusals", refusals},
    {"dlpack", bind_dlpack},
    {"files", make_files},
    {"data", make_data},
    {"from files", from_files},
    {"words", words},
    {"train", train},
    {"weights", weights},
    {"emit, inspect", show},
    {"knobs", knobs_of_one},
    {"eject", eject},
    {0},
};
// What takes long by its nature.
static const Step slow[] = {{"context", make_context},
                            {"compile", compile},
                            {"check a kernel", check_kernel},
                            {"tune", tune},
                            {"doctor", doctor},
                            {0}};
static const Path paths[] = {{"tokens", tokens, true, 80, 1},
                             {"the other ways", whole, true, 80, 1},
                             {"slow tools", slow, true, 5, 30}};

static void undo(World *w, const Step *s)
{
    if (s->make != make_data) return;
    netc_dataset_free(w->d), w->d = NULL;
    netc_dataset_free(w->file), w->file = NULL;
}

int main(void)
{
    return oom_main(paths, sizeof paths / sizeof *paths);
}
