// The public interface called wrongly or oddly: types and counts that are none, objects freed by a
// process that was forked from their own.
#include <math.h>
#include <sys/wait.h>

#include "tests/unit/api.h"

static void tensors(void)
{
    netc_error *err = NULL;
    float values[4] = {1, 2, 3, 4};
    netc_tensor t = floats(values, 1, 4, 0);
    netc_dataset *d = NULL;
    FINE(netc_dataset_create(ctx, &d, &err));
    for (int i = 0; i < 5; i++) {
        static const char *const why[] = {"element type 50", "element type -1", "rank 9",
                                          "negative or impossible", "no data"};
        netc_tensor bad = t;
        if (i < 2) bad.dtype = i ? (netc_dtype)-1 : (netc_dtype)50;
        if (i == 2) bad.rank = 9;
        if (i == 3) bad.dim[0] = -4;
        if (i == 4) bad.data = NULL;
        REFUSED(NETC_INVALID, why[i], netc_array_write(file("bad.npy"), &bad, &err));
        REFUSED(NETC_INVALID, why[i], netc_dataset_add_array(d, "x", &bad, &err));
    }
    CHECK(access(file("bad.npy"), F_OK) != 0);
    netc_tensor odd = t; // between two elements
    odd.dim[0] = 3;
    odd.data = (char *)values + 2;
    static const char words[] = "is not aligned to its elements' 4 bytes";
    REFUSED(NETC_INVALID, words, netc_dataset_add_array(d, "x", &odd, &err));
    netc_dataset_free(d);
    netc_program *p = compiled("model m(x: f32[3]) {\n    return y = x + 1\n}\n");
    netc_session *s = opened(p, 0, NULL);
    REFUSED(NETC_INVALID, words, netc_bind(s, "m", "x", &odd, &err));
    REFUSED(NETC_INVALID, words, netc_bind_output(s, "m", "y", &odd, &err));
    odd.data = values + 1;
    FINE(netc_bind(s, "m", "x", &odd, &err));
    FINE(netc_run(s, "m", 1, &err));
    odd.data = values;
    FINE(netc_read(s, "m", "y", &odd, &err));
    CHECK(values[0] == 3 && values[2] == 5);
    netc_session_free(s);
    netc_program_release(p);
    CHECK(!strcmp(netc_dtype_name((netc_dtype)50), "?") && !netc_dtype_size((netc_dtype)50));
}

static void counts(void)
{
    netc_error *err = NULL;
    netc_program *p = NULL;
    for (int i = 0; i < 2; i++) {
        NETC_INIT(netc_compile_options, o);
        (i ? (o.noutputs = -3) : (o.ndefines = -2));
        REFUSED(NETC_INVALID, "is a count, which cannot be negative",
                netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    }
    p = compiled(model);
    netc_session *s = opened(p, 0, NULL);
    FINE(netc_state_save(s, file("s.safetensors"), &err));
    NETC_INIT(netc_load_options, load);
    load.nmap = -2;
    REFUSED(NETC_INVALID, "map: -2 is a count",
            netc_state_load(s, file("s.safetensors"), &load, &err));
    NETC_INIT(netc_train_options, train);
    train.nwatch = -1;
    REFUSED(NETC_INVALID, "watch: -1 is a count", netc_train(s, &train, &err));
    REFUSED(NETC_INVALID, "-1 times", netc_run(s, "train", -1, &err));
    REFUSED(NETC_INVALID, "names: -1 is a count",
            netc_arrays_write(file("n.npz"), NULL, NULL, -1, &err));
    CHECK(access(file("n.npz"), F_OK) != 0);
    netc_session_free(s);
    netc_program_release(p);
}

// Options whose size nobody set, lists that are shorter than their count, no options at all.
static void options(void)
{
    static const char size[] = "declare them with NETC_INIT(netc_", *const names[] = {"batch=4",
                                                                                      NULL};
    netc_error *err = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_context *c = NULL;
    const netc_context_options none = {0};
    REFUSED(NETC_INVALID, size, netc_context_create(&none, &c, &err));
    const int64_t batches[] = {0, -1};
    for (int i = 0; i < 5; i++) {
        static const char *const why[] = {
            "defines: number 1 of 2 is NULL", "entries: 1 of them, but none are given",
            "batches: 2 of them, but none are given", size, "batches: 0 is no size of a batch"};
        NETC_INIT(netc_compile_options, o);
        if (i == 0) o.defines = names, o.ndefines = 2;
        if (i == 1) o.nentries = 1;
        if (i == 2) o.nbatches = 2;
        if (i == 3) o.size = 1;
        if (i == 4) o.batches = batches, o.nbatches = 2;
        REFUSED(NETC_INVALID, why[i], netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    }
    for (int i = 0; i < 2; i++) {
        NETC_INIT(netc_compile_options, o);
        o.arch = i ? 9 : -90;
        REFUSED(NETC_INVALID, "no architecture sm_",
                netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    }
    p = compiled(model);
    netc_session_options so = {.seed = 3};
    REFUSED(NETC_INVALID, size, netc_session_create(p, "cpu", &so, &s, &err));
    s = opened(p, 0, NULL);
    netc_train_options to = {.size = 1 << 20, .steps = 3};
    REFUSED(NETC_INVALID, size, netc_train(s, &to, &err));
    REFUSED(NETC_INVALID, "'train' needs data for inputs 'x', 't'", netc_train(s, NULL, &err));
    REFUSED(NETC_INVALID, "netc_predict needs data", netc_predict(s, NULL, NULL, &err));
    netc_tokenizer *bytes = NULL;
    FINE(netc_tokenizer_open("bytes", NULL, &bytes, &err));
    REFUSED(NETC_INVALID, "needs an output", netc_tokenize(bytes, NULL, NULL, NULL, &err));
    netc_tokenizer_free(bytes);
    netc_session_free(s);
    netc_program_release(p);
}

// What was said too late, or is no text of its kind: refused, and nothing is changed by it.
static void late(void)
{
    netc_error *err = NULL;
    netc_program *p = NULL;
    float x[60] = {0}, t[20] = {0};
    netc_tensor tx = floats(x, 2, 20, 3), tt = floats(t, 1, 20, 0);
    netc_dataset *d = NULL;
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_images(d, true, false, &err));
    FINE(netc_dataset_add_array(d, "x", &tx, &err));
    FINE(netc_dataset_add_array(d, "t", &tt, &err));
    FINE(netc_dataset_images(d, false, false, &err));
    NETC_INIT(netc_compile_options, o);
    o.data = d;
    FINE(netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    REFUSED(NETC_INVALID, "before the data set is used: give other settings to a new one",
            netc_dataset_images(d, true, true, &err));
    netc_program_release(p);
    netc_dataset_free(d);
    o.data = NULL;
    o.choices = "# a note\n\nfirst: 1\nno table at all\nkernel\n";
    REFUSED(NETC_INVALID, "choices: 'no table at all' is no line of a choice table",
            netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    o.choices = "# a note\n\nfirst: 1\n";
    FINE(netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    netc_program_release(p);
}

// Schedules that read a length of the training which the caller did not write.
static void lengths(void)
{
    static const char text[] =
        "use nn\n"
        "use optim\n"
        "model m(x: f32[2, 3]) {\n"
        "    y = linear(x, 1) as fc\n"
        "    return loss = mean(square(y))\n"
        "}\n"
        "train m {\n"
        "    minimize loss\n"
        "    update sgd(lr = linear_decay(0.1, steps = total) * 0.5 ** epoch)\n"
        "}\n";
    netc_error *err = NULL;
    netc_program *p = compiled(text);
    netc_session *s = opened(p, 0, NULL), *again = NULL;
    float x[6] = {1, 2, 3, 4, 5, 6}, before[3], after[3];
    int64_t n = 2;
    netc_tensor tx = floats(x, 2, 2, 3), tn = {.dtype = NETC_I64, .data = &n};
    netc_tensor tb = floats(before, 2, 1, 3), ta = floats(after, 2, 1, 3);
    FINE(netc_bind(s, "train", "x", &tx, &err));
    REFUSED(NETC_INVALID, "write the state '@total'", netc_run(s, "train", 1, &err));
    FINE(netc_state_write(s, "@total", &tn, &err));
    REFUSED(NETC_INVALID, "write the state '@epoch_steps'", netc_run(s, "train", 1, &err));
    FINE(netc_state_write(s, "@epoch_steps", &tn, &err));
    FINE(netc_state_read(s, "fc.weight", &tb, &err));
    FINE(netc_run(s, "train", 1, &err));
    FINE(netc_state_read(s, "fc.weight", &ta, &err));
    CHECK(memcmp(before, after, sizeof after) != 0);
    // A session that takes over from this one goes on; one that loads its checkpoint must be told.
    again = opened(p, 0, NULL);
    FINE(netc_bind(again, "train", "x", &tx, &err));
    FINE(netc_state_save(s, file("lengths.safetensors"), &err));
    FINE(netc_state_load(again, file("lengths.safetensors"), NULL, &err));
    REFUSED(NETC_INVALID, "write the state '@total'", netc_run(again, "train", 1, &err));
    FINE(netc_adopt(again, s, NULL, &err));
    FINE(netc_run(again, "train", 1, &err));
    netc_session_free(again);
    netc_session_free(s);
    netc_program_release(p);
}

typedef struct Rows {
    float y[20];
    int n, calls;
    int64_t total;
} Rows;

static void keep_rows(void *user, int i, const netc_tensor *t, int64_t total)
{
    Rows *r = user;
    if (i || t->rank != 1 || r->n + t->dim[0] > 20) return;
    memcpy(r->y + r->n, t->data, (size_t)t->dim[0] * sizeof *r->y);
    r->n += (int)t->dim[0];
    r->calls++;
    r->total = total;
}

// Predictions into memory of the caller: 20 examples in batches of 8.
static void rows(void)
{
    netc_error *err = NULL;
    float x[60], t[20] = {0}, w[3] = {1, 10, 100}, b = 0.5f;
    for (int i = 0; i < 60; i++) x[i] = (float)(i % 7);
    netc_tensor tx = floats(x, 2, 20, 3), tt = floats(t, 1, 20, 0), tw = floats(w, 2, 1, 3);
    netc_tensor tb = floats(&b, 1, 1, 0);
    netc_program *p = compiled(model);
    netc_session *s = opened(p, 0, NULL);
    FINE(netc_state_write(s, "fc.weight", &tw, &err));
    FINE(netc_state_write(s, "fc.bias", &tb, &err));
    netc_dataset *d = NULL;
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &tx, &err));
    FINE(netc_dataset_add_array(d, "t", &tt, &err));
    static const char *const outputs[] = {"y"};
    Rows got = {0};
    int64_t examples = 0;
    NETC_INIT(netc_predict_options, o);
    o.data = d;
    o.outputs = outputs;
    o.noutputs = 1;
    REFUSED(NETC_INVALID, "a file or rows()", netc_predict(s, &o, &examples, &err));
    o.rows = keep_rows;
    o.user = &got;
    FINE(netc_predict(s, &o, &examples, &err));
    CHECK(examples == 20 && got.n == 20 && got.calls == 3 && got.total == 20);
    for (int i = 0; i < 20; i++)
        CHECK(got.y[i] == x[3 * i] + 10 * x[3 * i + 1] + 100 * x[3 * i + 2] + 0.5f);
    // A file for two outputs.
    static const char *const twice[] = {"y", "y"};
    const char *const files[] = {file("rows.npy"), file("rows.npy")};
    o.outputs = twice;
    o.noutputs = 2;
    o.rows = NULL;
    o.files = files;
    REFUSED(NETC_INVALID, "rows.npy cannot hold both 'y' and 'y'",
            netc_predict(s, &o, &examples, &err));
    CHECK(access(files[0], F_OK) != 0);
    char other[200];
    snprintf(other, sizeof other, "%s/./rows.npy", dir);
    const char *const two[] = {files[0], other};
    o.files = two;
    REFUSED(NETC_INVALID, "rows.npy cannot hold both 'y' and 'y'",
            netc_predict(s, &o, &examples, &err));
    netc_dataset_free(d);
    netc_session_free(s);
    netc_program_release(p);
}

// An entry that was left out is not one that the model lacks.
static void left_out(void)
{
    static const char *const entries[] = {"line"};
    netc_error *err = NULL;
    netc_program *p = NULL;
    NETC_INIT(netc_compile_options, o);
    o.entries = entries;
    o.nentries = 1;
    FINE(netc_compile_text(ctx, "line.net", model, &o, &p, &err));
    netc_session *s = opened(p, 0, NULL);
    REFUSED(NETC_INVALID, "has no entry 'train'; there are 'init' and 'line'",
            netc_run(s, "train", 1, &err));
    netc_session_free(s);
    netc_program_release(p);
    p = compiled("model m(x: f32[3]) {\n    return y = x\n}\n");
    s = opened(p, 0, NULL);
    REFUSED(NETC_INVALID, "it has no block 'train MODEL", netc_run(s, "train", 1, &err));
    netc_session_free(s);
    netc_program_release(p);
}

typedef struct Nested {
    netc_session *s;
    netc_train_options *o;
    int refused, evaluated;
} Nested;

// An event hook that trains, and one that looks at what is trained.
static void nested_event(void *user, const netc_event *e)
{
    Nested *n = user;
    netc_error *err = NULL;
    netc_metric *metrics = NULL;
    int count = 0;
    double rate = 0;
    if (e->kind != NETC_EVENT_PROGRESS) return;
    netc_times times;
    netc_profile_result *profile = NULL;
    static const char why[] = "is being trained";
    n->refused +=
        refused(netc_train(n->s, n->o, &err), NETC_INVALID, &err, why) &&
        refused(netc_time(n->s, "train", NULL, &times, &err), NETC_INVALID, &err, why) &&
        refused(netc_profile(n->s, "train", NULL, &profile, &err), NETC_INVALID, &err, why);
    bool looked = fine(netc_evaluate(n->s, n->o->data, &metrics, &count, &err), &err) &&
                  fine(netc_get(n->s, "rate", &rate, &err), &err);
    n->evaluated += looked && count == 1 && rate > 0;
    netc_free(metrics);
}

static void counted_event(void *user, const netc_event *e)
{
    (void)e;
    ++*(int *)user;
}

// A checkpoint that cannot be written is reported before the first step, not after the last.
static void unwritable(void)
{
    netc_error *err = NULL;
    netc_program *p = compiled(model);
    netc_session *s = opened(p, 0, NULL);
    float x[16 * 3] = {1, 2, 3}, t[16] = {1};
    netc_tensor tx = floats(x, 2, 16, 3), tt = floats(t, 1, 16, 0);
    netc_dataset *d = NULL;
    int events = 0;
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &tx, &err));
    FINE(netc_dataset_add_array(d, "t", &tt, &err));
    NETC_INIT(netc_train_options, o);
    o.data = d;
    o.event = counted_event;
    o.user = &events;
    o.save = "";
    REFUSED(NETC_INVALID, "the name of a file is empty", netc_train(s, &o, &err));
    o.save = file("none/a.safetensors");
    REFUSED(NETC_INVALID, "none/a.safetensors: No such file", netc_train(s, &o, &err));
    o.save = file("none/a.safetensors.index.json");
    REFUSED(NETC_INVALID, "a.safetensors.index.json: No such file", netc_train(s, &o, &err));
    CHECK(!events);
    o.save = "/dev/null";
    o.epochs = 2;
    o.steps = 3;
    REFUSED(NETC_INVALID, "--epochs or --steps, not both", netc_train(s, &o, &err));
    o.epochs = 0;
    FINE(netc_train(s, &o, &err));
    CHECK(events > 0);
    netc_dataset_free(d);
    netc_session_free(s);
    netc_program_release(p);
}

static void nested(void)
{
    netc_error *err = NULL;
    netc_program *p = compiled(model);
    float x[64 * 3], t[64], weight[2][3];
    for (int i = 0; i < 64 * 3; i++) x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 64; i++) t[i] = (float)(i % 5);
    netc_tensor tx = floats(x, 2, 64, 3), tt = floats(t, 1, 64, 0);
    netc_dataset *d = NULL;
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &tx, &err));
    FINE(netc_dataset_add_array(d, "t", &tt, &err));
    for (int hooked = 0; hooked < 2; hooked++) {
        netc_session *s = opened(p, 0, NULL);
        NETC_INIT(netc_train_options, o);
        Nested n = {s, &o, 0, 0};
        o.data = d;
        o.steps = 20;
        o.report_every = 5;
        if (hooked) o.event = nested_event;
        o.user = &n;
        FINE(netc_train(s, &o, &err));
        CHECK(n.refused == 4 * hooked && n.evaluated == 4 * hooked);
        netc_tensor tw = floats(weight[hooked], 2, 1, 3);
        FINE(netc_state_read(s, "fc.weight", &tw, &err));
        o.steps = 1;
        o.event = NULL;
        FINE(netc_train(s, &o, &err)); // and then it may
        netc_session_free(s);
    }
    CHECK(!memcmp(weight[0], weight[1], sizeof weight[0]));
    netc_dataset_free(d);
    netc_program_release(p);
}

typedef struct Own {
    netc_session *s;
    float first; // loss of the first report of training
    int refused;
} Own;

static void own_event(void *user, const netc_event *e)
{
    Own *o = user;
    netc_error *err = NULL;
    if (e->kind == NETC_EVENT_START) o->first = NAN;
    if (e->kind == NETC_EVENT_PROGRESS && isnan(o->first)) o->first = (float)e->metrics[0].value;
    if (e->kind == NETC_EVENT_EVAL) FINE(netc_run(o->s, "eval", 3, &err));
    if (e->kind == NETC_EVENT_PROGRESS)
        o->refused +=
            refused(netc_run(o->s, "train", 1, &err), NETC_INVALID, &err, "is being trained");
}

// Metrics are of the evaluation or of the steps since the last report, whatever the caller ran
// before or between them; tally(x) of a run of the caller's is of that run.
static void own_runs(void)
{
    static const char text[] = "use optim\n"
                               "dim batch = 8\n"
                               "model mean_of(x: f32[batch]) {\n"
                               "    param w: f32[] = 2\n"
                               "    y = x * w\n"
                               "    return loss = mean(y), n = tally(sum(x * 0 + 1))\n"
                               "}\n"
                               "train mean_of {\n    minimize loss\n    update sgd(lr = 0)\n}\n";
    netc_error *err = NULL;
    netc_program *p = compiled(text);
    netc_session *s = opened(p, 0, NULL);
    netc_dataset *d = NULL;
    netc_metric *m = NULL;
    netc_profile_result *profile = NULL;
    int count = 0, seen = 0;
    float x[20], other[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    double n = 0;
    for (int i = 0; i < 20; i++) x[i] = (float)i;
    netc_tensor tx = floats(x, 1, 20, 0), to = floats(other, 1, 8, 0);
    netc_tensor tn = {.dtype = NETC_F64, .data = &n};
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &tx, &err));
    FINE(netc_bind(s, "eval", "x", &to, &err));
    FINE(netc_bind(s, "train", "x", &to, &err));
    NETC_INIT(netc_time_options, timing);
    NETC_INIT(netc_train_options, o);
    Own own = {.s = s};
    timing.repeats = 2;
    timing.steps = 1;
    o.data = o.eval_data = d;
    o.no_shuffle = true;
    o.report_every = o.eval_every = 1;
    o.event = own_event;
    o.user = &own;
    for (int how = 0; how < 4; how++) { // (how 0: nothing before)
        if (how == 1) FINE(netc_run(s, "eval", 5, &err));
        if (how == 1) FINE(netc_run(s, "train", 5, &err));
        if (how == 2) FINE(netc_profile(s, "eval", &timing, &profile, &err));
        netc_free(profile), profile = NULL;
        if (how == 2) FINE(netc_profile(s, "train", &timing, &profile, &err));
        netc_free(profile), profile = NULL;
        if (how < 3) FINE(netc_evaluate(s, d, &m, &count, &err)); // (how 3: after the training's)
        seen += how < 3 && count == 2 && m[0].value == 19 && m[1].value == 20;
        netc_free(m), m = NULL;
        FINE(netc_train(s, &o, &err));
        CHECK_MSG(own.first == 7, "after %d the first report is %g", how, (double)own.first);
    }
    CHECK(seen == 3 && own.refused == 8);
    for (int i = 0; i < 2; i++) {
        FINE(netc_run(s, "eval", 1, &err));
        FINE(netc_read(s, "eval", "n", &tn, &err));
        CHECK_MSG(n == 8, "the tally of a run is %g", n);
    }
    netc_dataset_free(d);
    netc_session_free(s);
    netc_program_release(p);
}

// A failed run is reported once; its outputs are not read as if it had succeeded, and training that
// begins then says that it was not one of its steps.
static void failed_runs(void)
{
    static const char text[] = "use optim\n"
                               "dim batch = 4\n"
                               "model m(x: f32[batch]) {\n"
                               "    param w: f32[] = 1\n"
                               "    assert min(x) > 0, \"x is above 0\"\n"
                               "    return loss = mean(x * w)\n"
                               "}\n"
                               "train m {\n    minimize loss\n    update sgd(lr = 0.1)\n}\n";
    netc_error *err = NULL;
    netc_program *p = compiled(text);
    netc_session *s = opened(p, 0, NULL);
    netc_dataset *d = NULL;
    float bad[4] = {1, -1, 1, 1}, good[4] = {1, 2, 3, 4}, loss = 0;
    netc_tensor tb = floats(bad, 1, 4, 0), tg = floats(good, 1, 4, 0);
    netc_tensor tl = {.dtype = NETC_F32, .data = &loss};
    static const char *const entries[] = {"m", "train"};
    for (int i = 0; i < 2; i++) {
        FINE(netc_bind(s, entries[i], "x", &tb, &err));
        FINE(netc_run(s, entries[i], 1, &err));
        REFUSED(NETC_CHECK_FAILED, "x is above 0", netc_read(s, entries[i], "loss", &tl, &err));
        REFUSED(NETC_CHECK_FAILED, "'loss' has no value",
                netc_read(s, entries[i], "loss", &tl, &err));
    }
    FINE(netc_bind(s, "m", "x", &tg, &err));
    FINE(netc_run(s, "m", 1, &err));
    FINE(netc_read(s, "m", "loss", &tl, &err));
    CHECK(loss == 2.5f);
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_array(d, "x", &tg, &err));
    NETC_INIT(netc_train_options, o);
    o.data = d;
    FINE(netc_run(s, "train", 1, &err));
    REFUSED(NETC_CHECK_FAILED, "because an earlier run failed: ", netc_train(s, &o, &err));
    FINE(netc_train(s, &o, &err));
    netc_dataset_free(d);
    netc_session_free(s);
    netc_program_release(p);
}

// Timing with [restore]: parameters, counters and lengths of training are as before.
static void restored(void)
{
    static const char text[] = "use nn\n"
                               "use optim\n"
                               "dim batch = 4\n"
                               "model m(x: f32[batch, 3]) {\n"
                               "    state middle: f32[3] = mean(x, 0)\n"
                               "    y = linear(dropout(x - middle, 0.5), 1) as fc\n"
                               "    return loss = mean(square(y))\n"
                               "}\n"
                               "train m {\n"
                               "    minimize loss\n"
                               "    update sgd(lr = linear_decay(0.1, steps = total))\n"
                               "}\n";
    netc_error *err = NULL;
    netc_program *p = compiled(text);
    float x[12], w[2][3], middle[3];
    for (int i = 0; i < 12; i++) x[i] = (float)(i * i % 7);
    netc_tensor tx = floats(x, 2, 4, 3), tm = floats(middle, 1, 3, 0);
    int64_t total = 9;
    netc_tensor tt = {.dtype = NETC_I64, .data = &total};
    for (int timed = 0; timed < 2; timed++) {
        netc_session *s = opened(p, 0, NULL);
        NETC_INIT(netc_time_options, o);
        netc_profile_result *profile = NULL;
        netc_times times;
        o.steps = o.repeats = 2;
        o.restore = true;
        if (timed) FINE(netc_profile(s, "train", &o, &profile, &err));
        REFUSED(NETC_INVALID, "'middle' has no value yet", netc_state_check(s, &err));
        netc_free(profile);
        FINE(netc_bind(s, "train", "x", &tx, &err));
        REFUSED(NETC_INVALID, "write the state '@total'", netc_run(s, "train", 1, &err));
        FINE(netc_state_write(s, "@total", &tt, &err));
        FINE(netc_run(s, "train", 2, &err));
        if (timed) FINE(netc_time(s, "train", &o, &times, &err));
        FINE(netc_run(s, "train", 2, &err));
        netc_tensor tw = floats(w[timed], 2, 1, 3);
        FINE(netc_state_read(s, "fc.weight", &tw, &err));
        FINE(netc_state_read(s, "middle", &tm, &err));
        FINE(netc_state_check(s, &err));
        CHECK(middle[0] == 1.75f);
        netc_session_free(s);
    }
    CHECK(!memcmp(w[0], w[1], sizeof w[0]));
    netc_program_release(p);
}

// The threads of a session, of a data set being read and of a device being opened are the parent's.
static void forked(void)
{
    netc_error *err = NULL;
    netc_program *p =
        compiled("model wide(x: f32[300000]) {\n    return y = exp(x), z = sum(x)\n}\n");
    netc_session *s = opened(p, 0, NULL);
    float *x = calloc(300000, sizeof *x);
    netc_tensor t = floats(x, 1, 300000, 0);
    netc_dataset *d = NULL;
    FINE(netc_array_write(file("x.npy"), &t, &err));
    FINE(netc_dataset_create(ctx, &d, &err));
    FINE(netc_dataset_add_file(d, "x", file("x.npy"), NULL, &err));
    FINE(netc_bind(s, "wide", "x", &t, &err));
    FINE(netc_run(s, "wide", 3, &err));
    FINE(netc_sync(s, &err));
    netc_context_prepare(ctx, "cpu");
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        alarm(1200); // a hang ends here
        bool ok = netc_run(s, "wide", 1, NULL) == NETC_OK && netc_sync(s, NULL) == NETC_OK;
        netc_session_free(s);
        netc_dataset_free(d);
        netc_program_release(p);
        netc_context_free(ctx);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_MSG(WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with %x", status);
    FINE(netc_run(s, "wide", 1, &err));
    FINE(netc_sync(s, &err));
    netc_session_free(s);
    netc_dataset_free(d);
    netc_program_release(p);
    free(x);
}

int main(void)
{
    setenv("OMP_NUM_THREADS", "3", 1); // threads, however many cores there are
    void (*const tests[])(void) = {tensors,  counts,     options,  lengths,     rows,
                                   left_out, nested,     own_runs, failed_runs, restored,
                                   forked,   unwritable, late,     NULL};
    return api_main(tests);
}
