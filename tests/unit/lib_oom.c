// Every failing allocation (tests/unit/oom.h) on the way of a model: compiled, run, trained, saved,
// measured.
#include "tests/unit/oom.h"

static netc_status make_context(World *w)
{
    NETC_INIT(netc_context_options, o);
    o.cache_dir = cache;
    o.threads = 2;
    return netc_context_create(&o, &w->c, &w->err);
}

static netc_status compile(World *w)
{
    NETC_INIT(netc_compile_options, o);
    const char *const defines[] = {"batch=8"};
    o.defines = defines;
    o.ndefines = 1;
    return netc_compile_text(w->c, "line.net", model, &o, &w->p, &w->err);
}

static netc_status refuse_model(World *w) // an error's text is memory, too
{
    netc_program *p = NULL;
    netc_error *err = NULL;
    netc_status status =
        netc_compile_text(w->c, "bad.net", "model m(x: f32[3]) { return y = z }\n", NULL, &p, &err);
    if (status == NETC_OUT_OF_MEMORY) return w->err = err, status;
    bool told = status == NETC_INVALID && (netc_error_status(err) == NETC_OUT_OF_MEMORY ||
                                           strstr(netc_error_text(err), "'z'"));
    netc_error_free(err);
    netc_program_release(p);
    return told ? NETC_OK : NETC_INTERNAL;
}

static netc_status show(World *w)
{
    static const char *const stages[] = {"ast", "fused", "plan", "c", "dot"};
    netc_status status = NETC_OK;
    for (size_t i = 0; i < sizeof stages / sizeof *stages && status == NETC_OK; i++) {
        char *text = NULL;
        status = netc_program_emit(w->p, stages[i], &text, &w->err);
        netc_free(text);
    }
    for (int i = 0; i < 4 && status == NETC_OK; i++) {
        char *text = NULL;
        NETC_INIT(netc_inspect_options, o);
        o.target = "cpu";
        o.why = i == 1, o.params = i == 2, o.json = i == 3;
        status = netc_inspect(w->p, &o, &text, &w->err);
        netc_free(text);
    }
    char *text = NULL;
    if (status == NETC_OK) status = netc_program_knobs(w->p, "cpu", NULL, &text, &w->err);
    netc_free(text);
    text = NULL;
    if (status == NETC_OK) status = netc_format(w->c, "line.net", model, &text, &w->err);
    netc_free(text);
    return status;
}

static netc_status make_session(World *w)
{
    return netc_session_create(w->p, "cpu", NULL, &w->s, &w->err);
}

static netc_status step(netc_session *s, netc_error **err)
{
    float loss;
    netc_tensor x = floats(points.x, 2, 8, 3), t = floats(points.t, 1, 8, 0);
    netc_tensor out = floats(&loss, 0, 0, 0);
    netc_status status = netc_bind(s, "train", "x", &x, err);
    if (status == NETC_OK) status = netc_bind(s, "train", "t", &t, err);
    if (status == NETC_OK) status = netc_run(s, "train", 2, err);
    if (status == NETC_OK) status = netc_sync(s, err);
    return status == NETC_OK ? netc_read(s, "train", "loss", &out, err) : status;
}

static netc_status run_steps(World *w)
{
    return step(w->s, &w->err);
}

static netc_status read_dlpack(World *w)
{
    struct { // as DLPack 0.8 lays it out, up to its deleter
        char tensor[48];
        void *manager;
        void (*deleter)(void *self);
    } *managed = NULL;
    void *out = NULL;
    netc_status status = netc_read_dlpack(w->s, "train", "loss", &out, &w->err);
    managed = out;
    if (managed) managed->deleter(managed);
    return status;
}

static netc_status save_and_load(World *w)
{
    netc_status status = netc_state_save(w->s, file("state.safetensors"), &w->err);
    if (status == NETC_OK) status = netc_state_load(w->s, file("state.safetensors"), NULL, &w->err);
    double rate;
    if (status == NETC_OK) status = netc_set(w->s, "rate", 0.05, &w->err);
    return status == NETC_OK ? netc_get(w->s, "rate", &rate, &w->err) : status;
}

static netc_status adopt(World *w)
{
    netc_status status = netc_session_create(w->p, "cpu", NULL, &w->other, &w->err);
    return status == NETC_OK ? netc_adopt(w->other, w->s, NULL, &w->err) : status;
}

static netc_status write_arrays(World *w)
{
    netc_tensor x = floats(points.x, 2, 40, 3), back = {0};
    netc_status status = netc_array_write(file("x.npy"), &x, &w->err);
    if (status == NETC_OK) status = netc_array_read(file("x.npy"), &back, &w->err);
    netc_free(back.data);
    return status;
}

static netc_status make_data(World *w)
{
    netc_tensor t = floats(points.t, 1, 40, 0);
    netc_status status = netc_dataset_create(w->c, &w->d, &w->err);
    if (status == NETC_OK) status = netc_dataset_add_file(w->d, "x", file("x.npy"), NULL, &w->err);
    return status == NETC_OK ? netc_dataset_add_array(w->d, "t", &t, &w->err) : status;
}

static netc_status train(World *w)
{
    static const char *const watch[] = {"fc.weight"};
    NETC_INIT(netc_train_options, o);
    o.data = w->d;
    o.split = 0.8;
    o.steps = 9;
    o.eval_every = 4;
    o.save_every = 4;
    o.save = file("trained.safetensors");
    o.watch = watch;
    o.nwatch = 1;
    return netc_train(w->s, &o, &w->err);
}

static netc_status evaluate(World *w)
{
    netc_metric *m = NULL;
    int n;
    netc_status status = netc_evaluate(w->s, w->d, &m, &n, &w->err);
    netc_free(m);
    return status;
}

static netc_status resume(World *w)
{
    NETC_INIT(netc_train_options, o);
    o.data = w->d;
    o.steps = 12;
    o.resume = file("trained.safetensors");
    return netc_train(w->other, &o, &w->err);
}

static netc_status measure(World *w)
{
    netc_times times;
    NETC_INIT(netc_time_options, o);
    o.steps = 1;
    o.repeats = 1;
    return netc_time(w->s, "line", &o, &times, &w->err);
}

static netc_status profile(World *w)
{
    netc_profile_result *r = NULL;
    NETC_INIT(netc_time_options, o);
    o.steps = 1;
    o.repeats = 1;
    netc_status status = netc_profile(w->s, "line", &o, &r, &w->err);
    netc_free(r);
    return status;
}

static netc_status write_bin(World *w)
{
    return netc_program_save(w->p, file("line.bin"), "ptx_80", w->s, &w->err);
}

static netc_status run_bin(World *w)
{
    netc_session *s = NULL;
    netc_program *p = NULL;
    netc_status status = netc_compile_file(w->c, file("line.bin"), NULL, &p, &w->err);
    if (status == NETC_OK) status = netc_session_create(p, "cpu", NULL, &s, &w->err);
    if (status == NETC_OK) status = step(s, &w->err);
    netc_session_free(s);
    netc_program_release(p);
    return status;
}

static netc_status check(World *w)
{
    char *report = NULL;
    netc_status status = netc_check(w->p, "cpu", 0, &report, &w->err);
    netc_free(report);
    return status;
}

static const Step whole[] = {
    {"context", make_context},
    {"compile", compile},
    {"wrong model", refuse_model},
    {"emit, inspect", show},
    {"session", make_session},
    {"run", run_steps},
    {"dlpack", read_dlpack},
    {"save, load", save_and_load},
    {"adopt", adopt},
    {"arrays", write_arrays},
    {"data", make_data},
    {"train", train},
    {"evaluate", evaluate},
    {"resume", resume},
    {"measure", measure},
    {"model.bin", write_bin},
    {"run model.bin", run_bin},
    {"check", check},
    {0},
};
// Without a cache, so that kernels are compiled.
static const Step cold[] = {{"context", make_context},
                            {"compile", compile},
                            {"session", make_session},
                            {"run", run_steps},
                            {0}};
// What takes a second by its nature.
static const Step slow[] = {{"context", make_context},
                            {"compile", compile},
                            {"session", make_session},
                            {"profile", profile},
                            {0}};
static const Path paths[] = {{"all", whole, true, 80, 1},
                             {"nothing cached", cold, false, 6, 1},
                             {"slow", slow, true, 3, 30}};

static void undo(World *w, const Step *s)
{
    if (s->make == adopt) netc_session_free(w->other), w->other = NULL;
    if (s->make == make_data) netc_dataset_free(w->d), w->d = NULL;
}

int main(void)
{
    return oom_main(paths, sizeof paths / sizeof *paths);
}
