// Inputs bound to entries, runs, and outputs read.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

Bound *bound_find(const netc_session *s, const char *entry, const char *input)
{
    Bound *b = s->bound;
    while (b && (strcmp(b->entry, entry) || strcmp(b->input, input))) b = b->next;
    return b;
}

static void unbind(netc_session *s, Bound *b)
{
    Bound **at = &s->bound;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    dlpack_release(s, b);
    free(b->entry);
    free(b->input);
    free(b);
}

void bound_free(netc_session *s)
{
    while (s->bound) unbind(s, s->bound);
    dlpack_settle(s);
}

static ProgType type_of(const netc_tensor *t)
{
    ProgType p = {.dtype = (ProgDType)t->dtype, .rank = t->rank};
    for (int i = 0; i < t->rank && i < PROG_MAX_RANK; i++) p.dim[i] = t->dim[i];
    return p;
}

netc_status tensor_type(const char *what, const netc_tensor *t, ProgType *out, netc_error **err)
{
    if ((unsigned)t->dtype >= PD_COUNT)
        return lib_fail(err, NETC_INVALID, "%s has the element type %d, which does not exist", what,
                        (int)t->dtype);
    if (t->rank < 0 || t->rank > PROG_MAX_RANK)
        return lib_fail(err, NETC_INVALID, "%s has rank %d; there are 0 to %d axes", what, t->rank,
                        PROG_MAX_RANK);
    *out = type_of(t);
    int64_t bytes = prog_type_bytes(out);
    if (bytes < 0)
        return lib_fail(err, NETC_INVALID, "%s has an axis of a negative or impossible size", what);
    return t->data || !bytes ? NETC_OK : lib_fail(err, NETC_INVALID, "%s has no data", what);
}

netc_status same_type(const char *what, const char *name, const ProgType *want,
                      const netc_tensor *t, netc_error **err)
{
    if (t->rank < 0 || t->rank > PROG_MAX_RANK)
        return lib_fail(err, NETC_INVALID,
                        "the tensor given for %s '%s' has rank %d; there are at most %d axes", what,
                        name, t->rank, PROG_MAX_RANK);
    ProgType have = type_of(t);
    if (prog_type_equal(&have, want)) {
        if (t->data || prog_type_bytes(want) <= 0) return NETC_OK;
        return lib_fail(err, NETC_INVALID, "the tensor given for %s '%s' has no data", what, name);
    }
    char a[160], b[160];
    prog_type_text(a, sizeof a, want);
    prog_type_text(b, sizeof b, &have);
    return lib_fail(err, NETC_INVALID, "%s '%s' is %s, the tensor given is %s", what, name, a, b);
}

// The dimension of which the tensor has another value, if that is all that is wrong with it: the
// batch.
static const ProgDim *other_batch(const ProgEntry *e, const ProgType *want, const netc_tensor *t)
{
    if (t->rank != want->rank || t->rank < 1 || t->dim[0] < 1) return NULL;
    ProgType have = type_of(t);
    if (have.dim[0] == want->dim[0]) return NULL;
    have.dim[0] = want->dim[0];
    for (int i = 0; i < e->ndims && prog_type_equal(&have, want); i++)
        if (e->dims[i].batch && e->dims[i].value == want->dim[0]) return &e->dims[i];
    return NULL;
}

static netc_status fail_for_batch(const char *input, const ProgType *want, const netc_tensor *t,
                                  const char *dim, netc_error **err)
{
    char a[160], b[160];
    ProgType have = type_of(t);
    prog_type_text(a, sizeof a, want);
    prog_type_text(b, sizeof b, &have);
    return lib_fail(err, NETC_INVALID,
                    "input '%s' is %s, the tensor given is %s; compile it with %s=%lld for this "
                    "batch (-D, in Python a variant)",
                    input, a, b, dim, (long long)t->dim[0]);
}

static netc_status no_input(const ProgEntry *e, const char *input, netc_error **err)
{
    const char *names[64];
    size_t n = 0;
    for (int i = 0; i < e->ninputs && n < 64; i++) names[n++] = e->inputs[i].name;
    return lib_fail(err, NETC_INVALID, "'%s' has no input '%s'%s", e->name, input,
                    advise(input, names, n).text);
}

// The entry's input or, of "train", one that only the first batch's initial values read.
static bool bindable(const Program *p, const ProgEntry *e, const char *input, ProgInput *out)
{
    for (int i = 0; i < e->ninputs; i++)
        if (!strcmp(e->inputs[i].name, input)) return *out = e->inputs[i], true;
    for (int i = 0; e->kind == PK_TRAIN && program_first_input(p, i, out); i++)
        if (!strcmp(out->name, input)) return true;
    return false;
}

// Whether the model declares the input although nothing needs it.
static bool is_left_out(netc_program *p, const ProgEntry *e, const char *input)
{
    const char *name;
    for (int i = 0; (name = netc_declared_input(p, e->name, i)); i++)
        if (!strcmp(name, input)) return true;
    return false;
}

// Elements must be aligned to their size, since kernels read them directly.
netc_status aligned(const char *name, const netc_tensor *t, const ProgType *type, netc_error **err)
{
    int64_t width = prog_dtype_bytes(type->dtype);
    if (t->on_device || !((uintptr_t)t->data % (uintptr_t)width)) return NETC_OK;
    return lib_fail(err, NETC_INVALID,
                    "the tensor given for '%s' is not aligned to its elements' %" PRId64 " bytes",
                    name, width);
}

// If the tensor is in device memory, checks its pointer.
static netc_status check_pointer(const netc_session *s, const char *name, const netc_tensor *t,
                                 const ProgType *type, netc_error **err)
{
    RtError e = {0};
    if (prog_type_bytes(type) <= 0) return NETC_OK;
    if (!t->on_device) return aligned(name, t, type, err);
    if (!rt_device_is_cuda(s->device))
        return lib_fail(err, NETC_INVALID, "'%s' is a device pointer, the session runs on the CPU",
                        name);
    // Kernels and the matmul library read 16 bytes at a time.
    if ((uintptr_t)t->data % 16)
        return lib_fail(err, NETC_INVALID,
                        "the device pointer for '%s' must be aligned to 16 bytes", name);
    if (rt_device_owns(s->device, t->data, (size_t)prog_type_bytes(type), &e))
        return lib_fail(err, NETC_INVALID, "the device pointer for '%s': %s", name, e.text);
    return NETC_OK;
}

netc_status netc_bind(netc_session *s, const char *entry, const char *input, const netc_tensor *t,
                      netc_error **err)
{
    Loaded *l;
    const ProgEntry *en;
    netc_status status = session_entry(s, entry, &l, &en, err);
    if (status != NETC_OK) return status;
    ProgInput in;
    if (!bindable(l->build->program, en, input, &in)) {
        if (!is_left_out(s->program, en, input)) return no_input(en, input, err);
        lib_log(s->context,
                "note: input '%s' of '%s' is not needed for the requested outputs and is ignored",
                input, entry);
        return NETC_OK;
    }
    Bound *b = bound_find(s, entry, input);
    if (!t) {
        if (b) unbind(s, b);
        return NETC_OK;
    }
    const ProgDim *batch = other_batch(en, &in.type, t);
    if (batch) return fail_for_batch(input, &in.type, t, batch->name, err);
    status = same_type("input", input, &in.type, t, err);
    if (status != NETC_OK) return status;
    status = check_pointer(s, input, t, &in.type, err);
    if (status != NETC_OK) return status;
    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b) return OUT_OF_MEMORY(err);
        b->entry = strdup(entry);
        b->input = strdup(input);
        if (!b->entry || !b->input) {
            free(b->entry), free(b->input), free(b);
            return OUT_OF_MEMORY(err);
        }
        b->next = s->bound;
        s->bound = b;
    }
    dlpack_release(s, b);
    b->data = t->data;
    b->device = t->on_device;
    return NETC_OK;
}

// An error if the schedules of a training step read a length of the training that the caller has
// not written. They would compute with 0, a learning rate of 0 for example.
static netc_status lengths_told(netc_session *s, Loaded *l, const ProgEntry *e, netc_error **err)
{
    bool any = false;
    for (int i = 0; i < rt_cell_count(s->rt) && !any; i++)
        any = program_told(rt_cell_info(s->rt, i)) && rt_cell_waits(s->rt, i);
    const char *cell = any ? rt_entry_untold(s->rt, l->rt, e->name) : NULL;
    if (!cell) return NETC_OK;
    bool total = !strcmp(cell, CELL_TOTAL);
    return lib_fail(
        err, NETC_INVALID,
        "'%s' uses '%s', but the number of steps of %s is not known: write the state "
        "'%s' (i64) first, in Python m.state[\"%s\"] = N (netc train and netc_train do so)",
        e->name, total ? "total" : "epoch", total ? "the training" : "an epoch", cell, cell);
}

netc_status netc_run(netc_session *s, const char *entry, int64_t times, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    netc_status status = session_entry(s, entry, &l, &e, err);
    if (status != NETC_OK) return status;
    if (times < 0)
        return lib_fail(err, NETC_INVALID, "'%s' cannot be run %lld times", entry,
                        (long long)times);
    status = session_may_run(s, e, err);
    if (status != NETC_OK) return status;
    RtInput *in = calloc((size_t)e->ninputs + 1, sizeof *in);
    if (!in) return OUT_OF_MEMORY(err);
    int n = 0;
    for (int i = 0; i < e->ninputs && status == NETC_OK; i++) {
        const Bound *b = bound_find(s, entry, e->inputs[i].name);
        if (b)
            in[n++] = (RtInput){b->input, b->data, b->device};
        else
            status = lib_fail(
                err, NETC_INVALID,
                "input '%s' of '%s' has no value; bind it first (netc run: --input %s=FILE, or "
                "ask only for outputs that do not need it: --output NAME=FILE)",
                e->inputs[i].name, entry, e->inputs[i].name);
    }
    RtError re = {0};
    if (status == NETC_OK && e->kind == PK_TRAIN) status = lengths_told(s, l, e, err);
    if (status == NETC_OK)
        status = e->kind == PK_TRAIN ? session_first_inputs(s, err) : session_ready(s, l, e, err);
    // Outside of an evaluation, tally(x) is x of the current batch.
    if (status == NETC_OK && e->kind == PK_EVAL && !netc_capturing(s))
        status = clear_tallies(s, l->build->program, e, err);
    if (status == NETC_OK && rt_run(s->rt, l->rt, entry, in, n, times, &re))
        status = lib_fail_rt(err, &re);
    free(in);
    return status;
}

netc_status session_output(netc_session *s, const char *entry, const char *output, Loaded **l,
                           const ProgType **type, netc_error **err)
{
    const ProgEntry *e;
    netc_status status = session_entry(s, entry, l, &e, err);
    if (status != NETC_OK) return status;
    for (int i = 0; i < e->noutputs; i++)
        if (!strcmp(e->outputs[i].name, output)) return *type = &e->outputs[i].type, NETC_OK;
    return no_output(e, output, err);
}

netc_status no_output(const ProgEntry *e, const char *output, netc_error **err)
{
    const char *names[64];
    size_t n = 0;
    for (int i = 0; i < e->noutputs && n < 64; i++) names[n++] = e->outputs[i].name;
    return lib_fail(err, NETC_INVALID, "'%s' has no output '%s'%s", e->name, output,
                    advise(output, names, n).text);
}

netc_status netc_after(netc_session *s, void *stream, netc_error **err)
{
    RtError e = {0};
    return rt_meet(s->rt, stream, false, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status netc_before(netc_session *s, void *stream, netc_error **err)
{
    RtError e = {0};
    return rt_meet(s->rt, stream, true, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status netc_sync(netc_session *s, netc_error **err)
{
    RtError e = {0}, ignored = {0};
    RtCode code = rt_sync(s->rt, &e);
    if (!code || !rt_wait(s->rt, &ignored))
        dlpack_settle(s); // (a check that failed, but no capture)
    return code ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status netc_read(netc_session *s, const char *entry, const char *output, netc_tensor *t,
                      netc_error **err)
{
    Loaded *l;
    const ProgType *type;
    netc_status status = session_output(s, entry, output, &l, &type, err);
    if (status == NETC_OK) status = same_type("output", output, type, t, err);
    if (status == NETC_OK && t->on_device) status = check_pointer(s, output, t, type, err);
    if (status != NETC_OK) return status;
    RtError e = {0};
    size_t bytes = (size_t)prog_type_bytes(type);
    RtCode code = (t->on_device ? rt_output_copy : rt_output_read)(s->rt, l->rt, entry, output,
                                                                   t->data, bytes, &e);
    if (!code && !t->on_device) dlpack_settle(s); // (it has waited)
    return code ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status netc_bind_output(netc_session *s, const char *entry, const char *output,
                             const netc_tensor *t, netc_error **err)
{
    Loaded *l;
    const ProgType *type;
    RtError e = {0};
    netc_status status = session_output(s, entry, output, &l, &type, err);
    if (status == NETC_OK && t) status = same_type("output", output, type, t, err);
    if (status == NETC_OK && t) status = check_pointer(s, output, t, type, err);
    if (status != NETC_OK) return status;
    if (t && !t->on_device && rt_device_is_cuda(s->device))
        return lib_fail(
            err, NETC_INVALID,
            "memory for output '%s' must be on %s (on_device); netc_read copies to the host",
            output, netc_session_device(s));
    void *at = t && prog_type_bytes(type) ? t->data : NULL;
    return rt_output_place(s->rt, l->rt, entry, output, at, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}
