// Prediction: runs a model over a whole data set, batch by batch in order, and writes each
// example's outputs as they are computed, or passes them to the caller. The last, smaller batch is
// a specialisation of its own; a model.bin without code for it computes it by smaller batches that
// it has. Files are replaced only when everything is written.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/folders.h"
#include "base/plain.h"
#include "lib/lib.h"
#include "runtime/host/file.h"

typedef struct Written { // an output and its file
    const char *name;
    enum { NPY, TABLE, ARCHIVE, CALLER } kind;
    RtWriter file;       // not used for an archive
    RtNpz *archive, own; // own: of the first output that is written to this file
    int part;            // index in the archive
    bool open;
    ProgType type; // of a whole batch
    int64_t row;   // bytes per example
    void *room;
} Written;

typedef struct Predicting {
    netc_session *s;
    const netc_predict_options *o;
    Loaded *l;
    const ProgEntry *e;
    int64_t examples;
    RtInput *in;
    const RtArray **data; // by input
    void **gathered;      // by input: rows gathered from data that are not in memory
    Written *out;
} Predicting;

static netc_status only_model(netc_session *s, const char **entry, netc_error **err)
{
    Loaded *l;
    netc_status status = session_loaded(s, "", "", &l, err);
    if (status != NETC_OK) return status;
    const Program *p = l->build->program;
    int models = 0;
    for (int i = 0; i < p->nentries; i++)
        if (p->entries[i].kind == PK_MODEL) *entry = p->entries[i].name, models++;
    if (models == 1) return NETC_OK;
    return lib_fail(err, NETC_INVALID, "%s has %d models; say which, with --entry NAME",
                    s->program->name, models);
}

static netc_status find_inputs(Predicting *p, netc_error **err)
{
    const ProgEntry *e = p->e;
    netc_status status = dataset_load(p->o->data, p->s->program, err);
    if (status == NETC_OK) status = need_data(e, p->o->data, "--data", err);
    p->examples = -1;
    for (int i = 0; i < e->ninputs && status == NETC_OK; i++) {
        const ProgInput *in = &e->inputs[i];
        if (!in->data)
            return lib_fail(err, NETC_INVALID,
                            "input '%s' of '%s' takes no examples: its axis 0 is not a dimension "
                            "that all inputs share; netc run gives it a value",
                            in->name, e->name);
        const RtArray *a = p->data[i] = dataset_find(p->o->data, in->name);
        ProgType want = in->type;
        want.dim[0] = a->type.rank ? a->type.dim[0] : 0;
        char x[160], y[160];
        prog_type_text(x, sizeof x, &in->type);
        prog_type_text(y, sizeof y, &a->type);
        if (!prog_type_equal(&want, &a->type))
            return lib_fail(
                err, NETC_INVALID,
                "input '%s' of '%s' is %s (axis 0 is the batch), its data is %s (axis 0 "
                "is the examples)",
                in->name, e->name, x, y);
        if (p->examples >= 0 && a->type.dim[0] != p->examples)
            return lib_fail(err, NETC_INVALID,
                            "the data disagree: '%s' has %" PRId64 " example%s, '%s' has %" PRId64,
                            e->inputs[0].name, p->examples, plural(p->examples), in->name,
                            a->type.dim[0]);
        p->examples = a->type.dim[0];
        p->in[i].name = in->name;
        if (a->source && !(p->gathered[i] = malloc((size_t)prog_type_bytes(&in->type) + 1)))
            return OUT_OF_MEMORY(err);
    }
    if (status != NETC_OK || p->examples >= 0) return status;
    return lib_fail(err, NETC_INVALID, "'%s' has no input that takes examples", e->name);
}

static netc_status find_output(Predicting *p, const char *name, Written *w, netc_error **err)
{
    const ProgEntry *e = p->e;
    for (int i = 0; i < e->noutputs; i++) {
        if (strcmp(e->outputs[i].name, name)) continue;
        w->name = name;
        w->type = e->outputs[i].type;
        char text[160];
        prog_type_text(text, sizeof text, &w->type);
        if (!w->type.rank || w->type.dim[0] != e->batch)
            return lib_fail(
                err, NETC_INVALID,
                "output '%s' of '%s' is %s: it has no value for each example of a batch of %" PRId64
                "; netc eval computes results over all examples",
                name, e->name, text, e->batch);
        w->row = prog_type_bytes(&w->type) / e->batch;
        w->room = malloc((size_t)prog_type_bytes(&w->type) + 1);
        return w->room ? NETC_OK : OUT_OF_MEMORY(err);
    }
    return no_output(e, name, err);
}

// Prepares the last batch, which may be smaller; fails if the model does not allow that.
static netc_status plan_tail(Predicting *p, netc_error **err)
{
    const ProgCell *mine, *its;
    char define[128]; // of its first call
    const int64_t rest = p->examples % p->e->batch;
    LastText last;
    last_text(&last, rest);
    if (!last_batch(p->e, p->examples, define, sizeof define)) {
        if (!rest) return NETC_OK;
        return lib_fail(err, NETC_INVALID,
                        "the batch of '%s' is a number, not a dim, and %s %s not fill a batch",
                        p->e->name, last, rest == 1 ? "does" : "do");
    }
    snprintf(define, sizeof define, "%s=%" PRId64, batch_dim(p->e),
             batches_piece(p->s->program, p->e, rest));
    netc_status status = session_differs(p->s, define, p->e->name, &mine, &its, err);
    if (status != NETC_OK || !its) return status;
    return lib_fail(
        err, NETC_INVALID,
        "%s %s not fill a batch of %" PRId64
        ", and '%s' is as large as the batch; give one that divides %" PRId64 " with -D %s=N",
        last, rest == 1 ? "does" : "do", p->e->batch, mine->name, p->examples, batch_dim(p->e));
}

static ProgType of_all(const Predicting *p, const Written *w)
{
    ProgType all = w->type;
    all.dim[0] = p->examples;
    return all;
}

// Opens the archive of output [first], to which later outputs with the same file are written, too.
static RtCode open_archive(Predicting *p, int first, RtError *e)
{
    Written *w = &p->out[first];
    RtTensor *t = calloc((size_t)p->o->noutputs, sizeof *t);
    if (!t) return rt_fail(e, RT_OOM, "out of memory");
    int n = 0;
    for (int i = first; i < p->o->noutputs; i++) {
        if (!same_target(p->o->files[i], p->o->files[first])) continue;
        p->out[i].archive = &w->own;
        p->out[i].part = n;
        t[n++] = (RtTensor){p->out[i].name, of_all(p, &p->out[i]), NULL};
    }
    RtCode code = rt_npz_begin(&w->own, p->o->files[first], t, n, e);
    w->open = !code;
    free(t);
    return code;
}

static RtCode open_file(Predicting *p, int i, RtError *e)
{
    Written *w = &p->out[i];
    if (p->o->rows) {
        w->kind = CALLER;
        return RT_OK;
    }
    const char *path = p->o->files[i];
    w->kind = rt_csv_named(path) ? TABLE : rt_npz_named(path) ? ARCHIVE : NPY;
    if (w->kind == ARCHIVE) return w->archive ? RT_OK : open_archive(p, i, e);
    for (int k = 0; k < i; k++) // (the second would replace the first, unless it is a device)
        if (same_target(p->o->files[k], path) && p->out[k].file.temporary)
            return rt_fail(
                e, RT_USER,
                "%s cannot hold both '%s' and '%s'; give each a file of its own, or name "
                "it .npz",
                path, p->out[k].name, w->name);
    ProgType all = of_all(p, w);
    char head[RT_NPY_HEAD];
    size_t n;
    if (rt_npy_head(path, &all, head, &n, e) || rt_writer_begin(&w->file, path, e)) return e->code;
    w->open = true;
    return w->kind == NPY ? rt_writer_put(&w->file, head, n, e) : RT_OK;
}

// Writes n examples of output i from its buffer.
static RtCode put_rows(Predicting *p, int i, int64_t n, RtError *e)
{
    Written *w = &p->out[i];
    size_t bytes = (size_t)(n * w->row);
    ProgType rows = w->type;
    rows.dim[0] = n;
    netc_tensor t = tensor_of(&rows, w->room);
    switch (w->kind) {
    case CALLER: return p->o->rows(p->o->user, i, &t, p->examples), RT_OK;
    case TABLE: return rt_csv_put(&w->file, &rows, w->room, e);
    case ARCHIVE: return rt_npz_put(w->archive, w->part, w->room, bytes, e);
    default: return rt_npy_put(&w->file, w->type.dtype, w->room, bytes, e);
    }
}

static RtCode close_file(Written *w, RtCode code, RtError *e)
{
    if (!w->open) return code;
    return w->kind == ARCHIVE ? rt_npz_end(&w->own, code, e) : rt_writer_end(&w->file, code, e);
}

// Runs examples [at] to at + n with the build [l].
static RtCode run_batch(Predicting *p, Loaded *l, int64_t at, int64_t n, RtError *e)
{
    for (int i = 0; i < p->e->ninputs; i++) {
        const RtArray *a = p->data[i];
        int64_t row = prog_type_bytes(&p->e->inputs[i].type) / p->e->batch;
        p->in[i].data = (const char *)a->data + at * row;
        if (!a->source) continue;
        for (int64_t k = 0; k < n; k++)
            if (rt_array_row(a, at + k, (char *)p->gathered[i] + k * row, e)) return e->code;
        p->in[i].data = p->gathered[i];
    }
    if (rt_run(p->s->rt, l->rt, p->e->name, p->in, p->e->ninputs, 1, e) || rt_sync(p->s->rt, e))
        return e->code;
    for (int i = 0; i < p->o->noutputs; i++) {
        Written *w = &p->out[i];
        size_t bytes = (size_t)(n * w->row);
        if (rt_output_read(p->s->rt, l->rt, p->e->name, w->name, w->room, bytes, e) ||
            put_rows(p, i, n, e))
            return e->code;
    }
    return RT_OK;
}

static netc_status run_all(Predicting *p, netc_error **err)
{
    RtError e = {0};
    int64_t batch = p->e->batch;
    for (int64_t at = 0, n; at < p->examples; at += n) {
        Loaded *l = p->l;
        n = p->examples - at < batch ? p->examples - at : batch;
        if (n < batch) {
            char define[128];
            n = batches_piece(p->s->program, p->e, n);
            snprintf(define, sizeof define, "%s=%" PRId64, batch_dim(p->e), n);
            netc_status status = session_loaded(p->s, define, p->e->name, &l, err);
            if (status != NETC_OK) return status;
        }
        if (run_batch(p, l, at, n, &e)) return lib_fail_rt(err, &e);
        if (session_cancelled(p->s))
            return lib_fail(err, NETC_CANCELLED,
                            "stopped after %" PRId64 " of %" PRId64 " examples%s", at + n,
                            p->examples, p->o->rows ? "" : "; nothing was written");
        if (p->o->progress) p->o->progress(p->o->user, at + n, p->examples);
    }
    return NETC_OK;
}

static netc_status predict(Predicting *p, netc_error **err)
{
    const netc_predict_options *o = p->o;
    const char *entry = o->entry;
    netc_status status = entry ? NETC_OK : only_model(p->s, &entry, err);
    if (status == NETC_OK) status = session_entry(p->s, entry, &p->l, &p->e, err);
    if (status != NETC_OK) return status;
    if (p->e->kind != PK_MODEL)
        return lib_fail(err, NETC_INVALID, "'%s' is not a model", p->e->name);
    status = session_ready(p->s, p->l, p->e, err);
    if (status != NETC_OK) return status;
    size_t n = (size_t)p->e->ninputs + 1;
    p->in = calloc(n, sizeof *p->in);
    p->data = calloc(n, sizeof *p->data);
    p->gathered = calloc(n, sizeof *p->gathered);
    p->out = calloc((size_t)o->noutputs + 1, sizeof *p->out);
    if (!p->in || !p->data || !p->gathered || !p->out) return OUT_OF_MEMORY(err);
    status = find_inputs(p, err);
    for (int i = 0; i < o->noutputs && status == NETC_OK; i++)
        status = find_output(p, o->outputs[i], &p->out[i], err);
    if (status == NETC_OK) status = plan_tail(p, err);
    RtError e = {0};
    for (int i = 0; i < o->noutputs && status == NETC_OK; i++)
        if (open_file(p, i, &e)) status = lib_fail_rt(err, &e);
    if (status == NETC_OK) status = run_all(p, err);
    RtCode code = status == NETC_OK ? RT_OK : RT_USER;
    for (int i = 0; i < o->noutputs; i++) code = close_file(&p->out[i], code, &e);
    return status == NETC_OK && code ? lib_fail_rt(err, &e) : status;
}

netc_status netc_predict(netc_session *s, const netc_predict_options *options, int64_t *examples,
                         netc_error **err)
{
    netc_predict_options o = {0};
    netc_status status = TAKE_OPTIONS(netc_predict_options, &o, options, err);
    if (status != NETC_OK) return status;
    if (o.noutputs < 1 || !o.data || (!o.files && !o.rows))
        return lib_fail(err, NETC_INVALID,
                        "netc_predict needs data, and at least one output with a file or rows() "
                        "to receive it");
    status = options_names("outputs", o.outputs, o.noutputs, err);
    if (status == NETC_OK && !o.rows) status = options_names("files", o.files, o.noutputs, err);
    if (status != NETC_OK) return status;
    Predicting p = {.s = s, .o = &o};
    status = predict(&p, err);
    if (examples) *examples = status == NETC_OK ? p.examples : 0;
    for (int i = 0; p.gathered && p.e && i < p.e->ninputs; i++) free(p.gathered[i]);
    for (int i = 0; p.out && i < o.noutputs; i++) free(p.out[i].room);
    free(p.in), free(p.data), free(p.gathered), free(p.out);
    return status;
}
