// netc_generate: a prompt goes through an entry that makes logits of tokens; the next token is
// drawn from them and fed back.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/keep.h"
#include "lib/generate/draw.h"

typedef struct Writer {
    netc_session *s;
    const netc_generate_options *o;
    const ProgEntry *e;
    Loaded *l;
    Draw draw;
    int64_t texts, width;  // the input is [texts, width]
    int64_t count;         // of logits a token
    const ProgOutput *out; // [texts, count] or [texts, width, count]
    int64_t *token;        // (texts, nprompt + length): what was fed and drawn
    bool *ended;           // of each text
    unsigned char *input;  // what the entry reads,
    char *logits;          // and makes
    Candidate *work;       // of count
} Writer;

static const ProgOutput *logits_of(const ProgEntry *e)
{
    for (int i = 0; i < e->noutputs; i++)
        if (!strcmp(e->outputs[i].name, "logits")) return &e->outputs[i];
    return NULL;
}

static netc_status writes_state(const Writer *w, bool *out, netc_error **err)
{
    const Program *p = w->l->build->program;
    bool *written = malloc((size_t)p->ncells + 1);
    if (!written) return OUT_OF_MEMORY(err);
    program_written(p, w->e, written);
    *out = false;
    for (int i = 0; i < p->ncells; i++) *out = *out || (written[i] && state_is_named(&p->cells[i]));
    free(written);
    return NETC_OK;
}

// Whether the entry is one of tokens to logits, and how wide.
static netc_status look_at(Writer *w, netc_error **err)
{
    const ProgEntry *e = w->e;
    const ProgType *in = e->ninputs == 1 ? &e->inputs[0].type : NULL;
    w->out = logits_of(e);
    const ProgType *out = w->out ? &w->out->type : NULL;
    if (!in || in->rank != 2 || in->dtype < PD_U8 || in->dtype > PD_I64)
        return lib_fail(err, NETC_INVALID,
                        "'%s' cannot write: it must have one input, of tokens, such as u8[1, 1]",
                        e->name);
    if (!out) return no_output(e, "logits", err);
    w->texts = in->dim[0];
    w->width = in->dim[1];
    bool each = out->rank == 3 && out->dim[1] == w->width;
    if (out->dtype < PD_BF16 || out->dim[0] != w->texts ||
        !(each || (out->rank == 2 && w->width == 1)))
        return lib_fail(err, NETC_INVALID,
                        "the logits of '%s' must be floats [%" PRId64 ", %" PRId64
                        ", tokens there are], a row for each token of its input",
                        e->name, w->texts, w->width);
    w->count = out->dim[out->rank - 1];
    bool states = false;
    netc_status status = w->width > 1 ? writes_state(w, &states, err) : NETC_OK;
    if (status != NETC_OK || !states) return status;
    return lib_fail(err, NETC_INVALID,
                    "'%s' has states and takes %" PRId64
                    " tokens at once; with states it takes one: [%" PRId64 ", 1]",
                    e->name, w->width, w->texts);
}

static netc_status check_options(const netc_generate_options *o, netc_error **err)
{
    if (o->nprompt < 1 || !o->prompt)
        return lib_fail(err, NETC_INVALID,
                        "the prompt is empty; a text begins with a token at least");
    if (!(o->temperature >= 0) || o->temperature > 1e6)
        return lib_fail(err, NETC_INVALID, "the temperature is %g; it is 0 (no draw) or more",
                        o->temperature);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return lib_fail(err, NETC_INVALID, "top_p is %g, not between 0 and 1", o->top_p);
    if (o->top_k < 0 || o->length < 0)
        return lib_fail(err, NETC_INVALID, "%s is negative", o->top_k < 0 ? "top_k" : "length");
    if (o->nprompt > INT32_MAX || o->length > INT32_MAX)
        return lib_fail(err, NETC_INVALID, "a text of more than 2^31 tokens");
    return NETC_OK;
}

static netc_status check_prompt(const Writer *w, netc_error **err)
{
    const ProgInput *in = &w->e->inputs[0];
    for (int64_t k = 0; k < w->o->nprompt; k++) {
        int64_t token = w->o->prompt[k];
        if (token < 0 || (in->type.dtype == PD_U8 && token > 255) ||
            (in->has_range && (token < in->low || token >= in->high)))
            return lib_fail(err, NETC_INVALID,
                            "token %" PRId64 " of the prompt is %" PRId64
                            ", which the input '%s' of '%s' does not take: %" PRId64 " to %" PRId64,
                            k + 1, token, in->name, w->e->name, in->has_range ? in->low : 0,
                            in->has_range             ? in->high - 1
                            : in->type.dtype == PD_U8 ? 255
                                                      : INT32_MAX);
    }
    return NETC_OK;
}

static netc_status make_room(Writer *w, netc_error **err)
{
    int64_t all = w->o->nprompt + w->o->length;
    w->token = calloc((size_t)w->texts, (size_t)all * sizeof *w->token);
    w->ended = calloc((size_t)w->texts, sizeof *w->ended);
    w->input = calloc(1, (size_t)prog_type_bytes(&w->e->inputs[0].type));
    w->logits = malloc((size_t)prog_type_bytes(&w->out->type));
    w->work = malloc((size_t)w->count * sizeof *w->work);
    if (!w->token || !w->ended || !w->input || !w->logits || !w->work) return OUT_OF_MEMORY(err);
    for (int64_t i = 0; i < w->texts; i++)
        for (int64_t k = 0; k < w->o->nprompt; k++) w->token[i * all + k] = w->o->prompt[k];
    return NETC_OK;
}

static void put_token(Writer *w, int64_t at, int64_t token)
{
    ProgDType type = w->e->inputs[0].type.dtype;
    int64_t width = prog_dtype_bytes(type);
    memcpy(w->input + at * width, &token, (size_t)width); // little endian, as everywhere here
}

// Runs the entry so that it has seen [n] tokens of each text. *row: that of the logits which
// follow the last.
static netc_status feed(Writer *w, int64_t n, int64_t *row, netc_error **err)
{
    int64_t all = w->o->nprompt + w->o->length;
    // What stands behind the last token does not count: models of windows are causal.
    int64_t first = n > w->width ? n - w->width : 0;
    for (int64_t i = 0; i < w->texts; i++)
        for (int64_t k = 0; k < w->width; k++)
            put_token(w, i * w->width + k, first + k < n ? w->token[i * all + first + k] : 0);
    *row = w->out->type.rank == 3 ? n - first - 1 : 0;
    RtInput in = {w->e->inputs[0].name, w->input, false};
    RtError re = {0};
    if (rt_run(w->s->rt, w->l->rt, w->e->name, &in, 1, 1, &re) || rt_sync(w->s->rt, &re))
        return lib_fail_rt(err, &re);
    return NETC_OK;
}

// Draws token [place] of every text that goes on. *going: whether any does.
static netc_status draw_all(Writer *w, int64_t place, int64_t row, bool *going, netc_error **err)
{
    const ProgType *t = &w->out->type;
    int64_t all = w->o->nprompt + w->o->length, width = prog_dtype_bytes(t->dtype);
    RtError re = {0};
    if (rt_output_read(w->s->rt, w->l->rt, w->e->name, "logits", w->logits,
                       (size_t)prog_type_bytes(t), &re))
        return lib_fail_rt(err, &re);
    *going = false;
    for (int64_t i = 0; i < w->texts; i++) {
        int64_t rows = t->rank == 3 ? w->width : 1;
        const char *at = w->logits + (i * rows + row) * w->count * width;
        int64_t token = draw_token(&w->draw, t->dtype, at, w->count, i, place, w->work);
        if (token < 0)
            return lib_fail(err, NETC_CHECK_FAILED,
                            "the logits of '%s' after %" PRId64
                            " tokens hold a NaN, or nothing finite",
                            w->e->name, place);
        w->token[i * all + place] = token;
        if (!w->ended[i] && w->o->token) w->ended[i] = !w->o->token(w->o->user, i, token);
        *going = *going || !w->ended[i];
    }
    return NETC_OK;
}

static netc_status write_texts(Writer *w, netc_error **err)
{
    bool going = true, stepwise = w->width == 1;
    int64_t row, end = w->o->nprompt + w->o->length;
    netc_status status = NETC_OK;
    // One token at a time all of the prompt is fed; a window has it at once.
    for (int64_t n = stepwise ? 1 : w->o->nprompt; n < end && going && status == NETC_OK; n++) {
        if (session_cancelled(w->s)) return lib_fail(err, NETC_CANCELLED, "writing was stopped");
        status = feed(w, n, &row, err);
        if (status == NETC_OK && n >= w->o->nprompt) status = draw_all(w, n, row, &going, err);
    }
    return status;
}

netc_status netc_generate(netc_session *s, const netc_generate_options *options, netc_error **err)
{
    netc_generate_options o = {0};
    if (!options) return lib_fail(err, NETC_INVALID, "netc_generate wants options");
    memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    Writer w = {.s = s, .o = &o, .draw = {o.temperature, o.top_k, o.top_p, o.seed}};
    Kept *kept = NULL;
    netc_status status = check_options(&o, err);
    if (status == NETC_OK) status = session_entry(s, o.entry ? o.entry : "next", &w.l, &w.e, err);
    if (status == NETC_OK) status = look_at(&w, err);
    if (status == NETC_OK) status = check_prompt(&w, err);
    if (status == NETC_OK) status = make_room(&w, err);
    if (status == NETC_OK) status = kept_new(s, w.l->build->program, w.e, false, &kept, err);
    if (status == NETC_OK) {
        status = write_texts(&w, err);
        netc_status back = kept_put_back(kept, status == NETC_OK ? err : NULL);
        if (status == NETC_OK) status = back;
    }
    kept_free(kept);
    free(w.token), free(w.ended), free(w.input), free(w.logits), free(w.work);
    return status;
}
