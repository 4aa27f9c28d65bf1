// netc_generate: a prompt goes through an entry that makes logits of tokens; the next token is
// drawn from them and fed back.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/keep.h"
#include "lib/generate/draw.h"

typedef struct Way { // an entry that takes tokens
    const ProgEntry *e;
    Loaded *l;
    int64_t width;        // of each text at once
    unsigned char *input; // what it reads
} Way;

typedef struct Writer {
    netc_session *s;
    const netc_generate_options *o;
    Way step, prefill; // prefill: without an entry, or a prompt long enough, not used
    Draw draw;
    int64_t texts;         // the inputs are [texts, width]
    int64_t count;         // of logits a token
    const ProgOutput *out; // [texts, count] or [texts, width, count]
    int64_t *token;        // (texts, nprompt + length): what was fed and drawn
    bool *ended;           // of each text
    bool *said;            // (texts, count): tokens it has; NULL: nobody asks
    char *logits;          // what the step makes
    Candidate *work;       // of count
} Writer;

static const ProgOutput *logits_of(const ProgEntry *e)
{
    for (int i = 0; i < e->noutputs; i++)
        if (!strcmp(e->outputs[i].name, "logits")) return &e->outputs[i];
    return NULL;
}

// *writes: whether it writes a state. *all: whether the other one writes all that it does.
static netc_status compare_states(const Program *p, const ProgEntry *e, const ProgEntry *other,
                                  bool *writes, bool *all, netc_error **err)
{
    size_t n = (size_t)p->ncells;
    bool *written = malloc(2 * n + 1), *others = written + n;
    if (!written) return OUT_OF_MEMORY(err);
    program_written(p, e, written);
    program_written(p, other, others);
    *writes = false;
    *all = true;
    for (size_t i = 0; i < n; i++)
        if (written[i] && state_is_named(&p->cells[i])) {
            *writes = true;
            *all = *all && others[i];
        }
    free(written);
    return NETC_OK;
}

// The one input, of tokens; NULL: it has none such.
static const ProgType *tokens_of(const ProgEntry *e)
{
    const ProgType *in = e->ninputs == 1 ? &e->inputs[0].type : NULL;
    return in && in->rank == 2 && in->dtype >= PD_U8 && in->dtype <= PD_I64 ? in : NULL;
}

// Whether the entry is one of tokens to logits, and how wide.
static netc_status look_at(Writer *w, netc_error **err)
{
    const ProgEntry *e = w->step.e;
    const ProgType *in = tokens_of(e);
    w->out = logits_of(e);
    const ProgType *out = w->out ? &w->out->type : NULL;
    if (!in)
        return lib_fail(err, NETC_INVALID,
                        "'%s' cannot write: it must have one input, of tokens, such as u8[1, 1]",
                        e->name);
    if (!out) return no_output(e, "logits", err);
    w->texts = in->dim[0];
    w->step.width = in->dim[1];
    bool each = out->rank == 3 && out->dim[1] == w->step.width;
    if (out->dtype < PD_BF16 || out->dim[0] != w->texts ||
        !(each || (out->rank == 2 && w->step.width == 1)))
        return lib_fail(err, NETC_INVALID,
                        "the logits of '%s' must be floats [%" PRId64 ", %" PRId64
                        ", tokens there are], a row for each token of its input",
                        e->name, w->texts, w->step.width);
    w->count = out->dim[out->rank - 1];
    bool states, all;
    const Program *p = w->step.l->build->program;
    netc_status status = compare_states(p, e, e, &states, &all, err);
    if (status != NETC_OK || !states || w->step.width == 1) return status;
    return lib_fail(err, NETC_INVALID,
                    "'%s' has states and takes %" PRId64
                    " tokens at once; with states it takes one: [%" PRId64
                    ", 1], and another, 'prefill', the beginning of the prompt",
                    e->name, w->step.width, w->texts);
}

// The entry that takes the prompt in pieces, if there is one and the prompt is long enough. One
// that only happens to be called so is left out.
static netc_status look_at_prefill(Writer *w, netc_error **err)
{
    const char *asked = w->o->prefill;
    const Program *p = w->step.l->build->program;
    bool next = !strcmp(w->step.e->name, "next");
    const char *name = asked ? asked : next ? "prefill" : "";
    const ProgEntry *e = *name ? program_entry(p, name) : NULL;
    if (!e) return asked && *asked ? no_entry(w->s->program, p, name, err) : NETC_OK;
    const ProgType *in = tokens_of(e), *one = &w->step.e->inputs[0].type;
    if (!in || in->dtype != one->dtype || in->dim[0] != w->texts || in->dim[1] < 1 ||
        w->step.width != 1) {
        if (!asked) return NETC_OK;
        return lib_fail(err, NETC_INVALID,
                        "'%s' cannot take the prompt of '%s': it must have one input %s[%" PRId64
                        ", n], and the other one %s[%" PRId64 ", 1]",
                        name, w->step.e->name, prog_dtype_name(one->dtype), w->texts,
                        prog_dtype_name(one->dtype), w->texts);
    }
    bool states, all;
    netc_status status = compare_states(p, w->step.e, e, &states, &all, err);
    if (status != NETC_OK || (!all && !asked)) return status;
    if (!all)
        return lib_fail(err, NETC_INVALID,
                        "'%s' cannot take the prompt of '%s': it does not write all of its states",
                        name, w->step.e->name);
    w->prefill = (Way){e, w->step.l, in->dim[1], NULL};
    if (w->o->nprompt <= in->dim[1]) w->prefill.e = NULL;
    return NETC_OK;
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
    if (!(o->repetition_penalty >= 0) || o->repetition_penalty > 1e6)
        return lib_fail(err, NETC_INVALID, "the repetition penalty is %g; it is 1 (none) or more",
                        o->repetition_penalty);
    if (o->top_k < 0 || o->length < 0)
        return lib_fail(err, NETC_INVALID, "%s is negative", o->top_k < 0 ? "top_k" : "length");
    if (o->nprompt > INT32_MAX || o->length > INT32_MAX)
        return lib_fail(err, NETC_INVALID, "a text of more than 2^31 tokens");
    return NETC_OK;
}

static netc_status check_prompt(const Writer *w, netc_error **err)
{
    const ProgInput *in = &w->step.e->inputs[0];
    for (int64_t k = 0; k < w->o->nprompt; k++) {
        int64_t token = w->o->prompt[k];
        if (token < 0 || (in->type.dtype == PD_U8 && token > 255) ||
            (in->has_range && (token < in->low || token >= in->high)))
            return lib_fail(err, NETC_INVALID,
                            "token %" PRId64 " of the prompt is %" PRId64
                            ", which the input '%s' of '%s' does not take: %" PRId64 " to %" PRId64,
                            k + 1, token, in->name, w->step.e->name, in->has_range ? in->low : 0,
                            in->has_range             ? in->high - 1
                            : in->type.dtype == PD_U8 ? 255
                                                      : INT32_MAX);
    }
    return NETC_OK;
}

static netc_status make_room(Writer *w, netc_error **err)
{
    int64_t all = w->o->nprompt + w->o->length;
    bool remember = w->o->repetition_penalty && w->o->repetition_penalty != 1, lost = false;
    w->token = calloc((size_t)w->texts, (size_t)all * sizeof *w->token);
    w->ended = calloc((size_t)w->texts, sizeof *w->ended);
    w->logits = malloc((size_t)prog_type_bytes(&w->out->type));
    w->work = malloc((size_t)w->count * sizeof *w->work);
    if (remember) lost = !(w->said = calloc((size_t)w->texts, (size_t)w->count));
    for (int k = 0; k < 2; k++) {
        Way *way = k ? &w->prefill : &w->step;
        if (way->e) way->input = calloc(1, (size_t)prog_type_bytes(&way->e->inputs[0].type));
        lost = lost || (way->e && !way->input);
    }
    if (!w->token || !w->ended || !w->logits || !w->work || lost) return OUT_OF_MEMORY(err);
    for (int64_t i = 0; i < w->texts; i++)
        for (int64_t k = 0; k < w->o->nprompt; k++) {
            int32_t token = w->o->prompt[k];
            w->token[i * all + k] = token;
            if (remember && token < w->count) w->said[i * w->count + token] = true;
        }
    return NETC_OK;
}

// Runs the entry on n tokens of each text from [first] on; what stands behind them is 0.
static netc_status feed(Writer *w, Way *way, int64_t first, int64_t n, netc_error **err)
{
    int64_t all = w->o->nprompt + w->o->length;
    int64_t bytes = prog_dtype_bytes(way->e->inputs[0].type.dtype);
    for (int64_t i = 0; i < w->texts; i++)
        for (int64_t k = 0; k < way->width; k++) {
            int64_t token = k < n ? w->token[i * all + first + k] : 0;
            // (little endian, as everywhere here)
            memcpy(way->input + (i * way->width + k) * bytes, &token, (size_t)bytes);
        }
    RtInput in = {way->e->inputs[0].name, way->input, false};
    RtError re = {0};
    if (rt_run(w->s->rt, way->l->rt, way->e->name, &in, 1, 1, &re) || rt_sync(w->s->rt, &re))
        return lib_fail_rt(err, &re);
    return NETC_OK;
}

// Draws token [place] of every text that goes on. *going: whether any does.
static netc_status draw_all(Writer *w, int64_t place, int64_t row, bool *going, netc_error **err)
{
    const ProgType *t = &w->out->type;
    int64_t all = w->o->nprompt + w->o->length, width = prog_dtype_bytes(t->dtype);
    RtError re = {0};
    if (rt_output_read(w->s->rt, w->step.l->rt, w->step.e->name, "logits", w->logits,
                       (size_t)prog_type_bytes(t), &re))
        return lib_fail_rt(err, &re);
    *going = false;
    for (int64_t i = 0; i < w->texts; i++) {
        int64_t rows = t->rank == 3 ? w->step.width : 1;
        const char *at = w->logits + (i * rows + row) * w->count * width;
        w->draw.said = w->said ? w->said + i * w->count : NULL;
        int64_t token = draw_token(&w->draw, t->dtype, at, w->count, i, place, w->work);
        if (token < 0)
            return lib_fail(err, NETC_CHECK_FAILED,
                            "the logits of '%s' after %" PRId64
                            " tokens hold a NaN, or nothing finite",
                            w->step.e->name, place);
        w->token[i * all + place] = token;
        if (w->said) w->said[i * w->count + token] = true;
        if (!w->ended[i] && w->o->token) w->ended[i] = !w->o->token(w->o->user, i, token);
        *going = *going || !w->ended[i];
    }
    return NETC_OK;
}

// Runs what is left of the first n tokens of each text. *fed: how many were; *row: that of the
// logits which follow the last.
static netc_status advance(Writer *w, int64_t n, int64_t *fed, int64_t *row, netc_error **err)
{
    netc_status status = NETC_OK;
    *row = 0;
    if (w->step.width > 1) { // a window: what stands behind the last token does not count
        int64_t first = n > w->step.width ? n - w->step.width : 0;
        *row = n - first - 1;
        *fed = n;
        return feed(w, &w->step, first, n - first, err);
    }
    while (*fed < n && status == NETC_OK) {
        if (session_cancelled(w->s)) return lib_fail(err, NETC_CANCELLED, "writing was stopped");
        bool many = w->prefill.e && n - *fed > w->prefill.width;
        Way *way = many ? &w->prefill : &w->step;
        status = feed(w, way, *fed, way->width, err);
        *fed += way->width;
    }
    return status;
}

static netc_status write_texts(Writer *w, netc_error **err)
{
    bool going = true;
    int64_t row, fed = 0, end = w->o->nprompt + w->o->length;
    netc_status status = NETC_OK;
    for (int64_t n = w->o->nprompt; n < end && going && status == NETC_OK; n++) {
        if (session_cancelled(w->s)) return lib_fail(err, NETC_CANCELLED, "writing was stopped");
        status = advance(w, n, &fed, &row, err);
        if (status == NETC_OK) status = draw_all(w, n, row, &going, err);
    }
    return status;
}

netc_status netc_generate(netc_session *s, const netc_generate_options *options, netc_error **err)
{
    netc_generate_options o = {0};
    if (!options) return lib_fail(err, NETC_INVALID, "netc_generate wants options");
    memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    Writer w = {.s = s,
                .o = &o,
                .draw = {o.temperature, o.top_k, o.top_p, o.seed, o.repetition_penalty, NULL}};
    Kept *kept[2] = {0};
    netc_status status = check_options(&o, err);
    if (status == NETC_OK)
        status = session_entry(s, o.entry ? o.entry : "next", &w.step.l, &w.step.e, err);
    if (status == NETC_OK) status = look_at(&w, err);
    if (status == NETC_OK) status = look_at_prefill(&w, err);
    if (status == NETC_OK) status = check_prompt(&w, err);
    if (status == NETC_OK) status = make_room(&w, err);
    const Way *ways[] = {&w.step, &w.prefill};
    for (int k = 0; k < 2 && status == NETC_OK; k++)
        if (ways[k]->e)
            status = kept_new(s, ways[k]->l->build->program, ways[k]->e, false, &kept[k], err);
    if (status == NETC_OK) {
        status = write_texts(&w, err);
        for (int k = 0; k < 2; k++) {
            if (!kept[k]) continue;
            netc_status back = kept_put_back(kept[k], status == NETC_OK ? err : NULL);
            if (status == NETC_OK) status = back;
        }
    }
    kept_free(kept[0]), kept_free(kept[1]);
    free(w.token), free(w.ended), free(w.said), free(w.logits), free(w.work);
    free(w.step.input), free(w.prefill.input);
    return status;
}
