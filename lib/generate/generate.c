// netc_generate: prompts pass through an entry that computes the logits of the next token, which is
// drawn from them and fed back. All texts of an entry with states advance by one position at the
// same time, whether the token comes from the prompt or was drawn, so each text is the same as if
// it were written alone.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "lib/api/keep.h"
#include "lib/generate/draw.h"

typedef struct Way { // an entry that takes tokens
    const ProgEntry *e;
    Loaded *l;
    int64_t width;        // tokens per text and execution
    unsigned char *input; // the bound input
} Way;

typedef struct Writer {
    netc_session *s;
    const netc_generate_options *o;
    Way step, prefill; // prefill: not used if it has no entry, or if the prompt is too short
    Draw draw;
    int64_t texts;         // number of texts in a batch; the inputs are (texts, width)
    int64_t count;         // number of logits per token
    const ProgOutput *out; // (texts, count) or (texts, width, count)
    const netc_prompt *prompt;
    int64_t nprompts, all; // all: number of texts to write, one per prompt, or with one prompt as
                           // many as fit in a batch
    int64_t longest;       // length of the longest prompt
    // For the texts of the current batch:
    int64_t first;   // number of the first text
    int64_t *token;  // (texts, longest + length): the prompt, followed by tokens drawn so far
    int64_t *known;  // by text: number of these tokens
    int64_t fed;     // if there are states: how many tokens of each text have been fed
    bool *ended;     // by text
    bool *said;      // (texts, count): tokens that occur in a text; NULL: not needed
    char *logits;    // output of the step
    Candidate *work; // [count]
} Writer;

static const netc_prompt *prompt_of(const Writer *w, int64_t text)
{
    return &w->prompt[w->nprompts == 1 ? 0 : text];
}

static const ProgOutput *logits_of(const ProgEntry *e)
{
    for (int i = 0; i < e->noutputs; i++)
        if (!strcmp(e->outputs[i].name, "logits")) return &e->outputs[i];
    return NULL;
}

// *writes: whether e writes states. *all: whether the other entry writes all states that e writes.
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

// The type of the only input if it can be tokens; otherwise NULL.
static const ProgType *tokens_of(const ProgEntry *e)
{
    const ProgType *in = e->ninputs == 1 ? &e->inputs[0].type : NULL;
    return in && in->rank == 2 && in->dtype >= PD_U8 && in->dtype <= PD_I64 ? in : NULL;
}

// Checks that the entry maps tokens to logits; sets its width.
static netc_status look_at(Writer *w, netc_error **err)
{
    const ProgEntry *e = w->step.e;
    const ProgType *in = tokens_of(e);
    w->out = logits_of(e);
    const ProgType *out = w->out ? &w->out->type : NULL;
    if (!in)
        return lib_fail(
            err, NETC_INVALID,
            "'%s' cannot generate text: it must have one input, of tokens, such as u8[1, 1]",
            e->name);
    if (!out) return no_output(e, "logits", err);
    w->texts = in->dim[0];
    w->step.width = in->dim[1];
    bool each = out->rank == 3 && out->dim[1] == w->step.width;
    if (out->dtype < PD_BF16 || out->dim[0] != w->texts ||
        !(each || (out->rank == 2 && w->step.width == 1)))
        return lib_fail(err, NETC_INVALID,
                        "the logits of '%s' must be floats [%" PRId64 ", %" PRId64
                        ", vocabulary], a row for each token of its input",
                        e->name, w->texts, w->step.width);
    w->count = out->dim[out->rank - 1];
    bool states, all;
    const Program *p = w->step.l->build->program;
    netc_status status = compare_states(p, e, e, &states, &all, err);
    if (status != NETC_OK || !states || w->step.width == 1) return status;
    return lib_fail(err, NETC_INVALID,
                    "'%s' has states and takes %" PRId64
                    " tokens at once; with states it must take one: [%" PRId64
                    ", 1]; another model, 'prefill', may take the beginning of the prompt",
                    e->name, w->step.width, w->texts);
}

// Finds the entry that reads the prompt in pieces, if there is one and the prompt is long enough.
// An entry with the default name that is not suitable is ignored.
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
    if (w->longest <= in->dim[1]) w->prefill.e = NULL;
    return NETC_OK;
}

static netc_status check_options(Writer *w, netc_error **err)
{
    const netc_generate_options *o = w->o;
    if (w->nprompts < 1 || !w->prompt) return lib_fail(err, NETC_INVALID, "no prompt was given");
    for (int64_t i = 0; i < w->nprompts; i++) {
        const netc_prompt *p = &w->prompt[i];
        char which[32] = "";
        if (w->nprompts > 1) snprintf(which, sizeof which, " %" PRId64, i + 1);
        if (p->n < 1 || !p->tokens)
            return lib_fail(err, NETC_INVALID,
                            w->nprompts > 1
                                ? "prompt%s is empty; a text begins with at least one token"
                                : "the prompt%s is empty; a text begins with at least one token",
                            which);
        if (p->n > w->longest) w->longest = p->n;
    }
    if (!(o->temperature >= 0) || o->temperature > 1e6)
        return lib_fail(err, NETC_INVALID,
                        "the temperature is %g; it must be from 0 (no draw) to 1e6",
                        o->temperature);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return lib_fail(err, NETC_INVALID, "top_p is %g, not between 0 and 1", o->top_p);
    if (!(o->repetition_penalty >= 0) || o->repetition_penalty > 1e6)
        return lib_fail(err, NETC_INVALID,
                        "the repetition penalty is %g; it must be above 0 (1: none), at most 1e6",
                        o->repetition_penalty);
    if (o->top_k < 0 || o->length < 0)
        return lib_fail(err, NETC_INVALID, "%s is negative", o->top_k < 0 ? "top_k" : "length");
    if (w->longest > INT32_MAX || o->length > INT32_MAX)
        return lib_fail(err, NETC_INVALID, "a text of more than 2^31 tokens");
    return NETC_OK;
}

static netc_status check_prompts(const Writer *w, netc_error **err)
{
    const ProgInput *in = &w->step.e->inputs[0];
    int64_t low = in->has_range ? in->low : 0;
    int64_t most = in->has_range ? in->high - 1 : in->type.dtype == PD_U8 ? 255 : INT32_MAX;
    for (int64_t i = 0; i < w->nprompts; i++)
        for (int64_t k = 0; k < w->prompt[i].n; k++) {
            int64_t token = w->prompt[i].tokens[k];
            if (token >= 0 && token >= low && token <= most) continue;
            char which[32] = "the prompt";
            if (w->nprompts > 1) snprintf(which, sizeof which, "prompt %" PRId64, i + 1);
            return lib_fail(err, NETC_INVALID,
                            "token %" PRId64 " of %s is %" PRId64
                            ", which the input '%s' of '%s' does not take: %" PRId64 " to %" PRId64,
                            k + 1, which, token, in->name, w->step.e->name, low, most);
        }
    return NETC_OK;
}

static netc_status make_room(Writer *w, netc_error **err)
{
    size_t texts = (size_t)w->texts, row = (size_t)(w->longest + w->o->length);
    bool remember = w->o->repetition_penalty && w->o->repetition_penalty != 1, lost = false;
    w->token = calloc(texts, row * sizeof *w->token);
    w->known = calloc(texts, sizeof *w->known);
    w->ended = calloc(texts, sizeof *w->ended);
    w->logits = malloc((size_t)prog_type_bytes(&w->out->type));
    w->work = malloc((size_t)w->count * sizeof *w->work);
    if (remember) lost = !(w->said = calloc(texts, (size_t)w->count));
    for (int k = 0; k < 2; k++) {
        Way *way = k ? &w->prefill : &w->step;
        if (way->e) way->input = calloc(1, (size_t)prog_type_bytes(&way->e->inputs[0].type));
        lost = lost || (way->e && !way->input);
    }
    if (!w->token || !w->known || !w->ended || !w->logits || !w->work || lost)
        return OUT_OF_MEMORY(err);
    w->all = w->nprompts == 1 ? w->texts : w->nprompts;
    return NETC_OK;
}

static int64_t *row_of(const Writer *w, int64_t i)
{
    return w->token + i * (w->longest + w->o->length);
}

// Begins the texts from w->first on. If fewer than a batch are left, the last rows are not used.
static void begin_texts(Writer *w)
{
    if (w->said) memset(w->said, 0, (size_t)(w->texts * w->count));
    w->fed = 0;
    for (int64_t i = 0; i < w->texts; i++) {
        int64_t text = w->first + i < w->all ? w->first + i : w->all - 1;
        const netc_prompt *p = prompt_of(w, text);
        w->known[i] = p->n;
        w->ended[i] = w->first + i >= w->all || !w->o->length;
        for (int64_t k = 0; k < p->n; k++) {
            int32_t token = p->tokens[k];
            row_of(w, i)[k] = token;
            if (w->said && token < w->count) w->said[i * w->count + token] = true;
        }
    }
}

// The smallest number of tokens of a text that has not ended. 0: all have ended.
static int64_t fewest_known(const Writer *w)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->texts; i++)
        if (!w->ended[i] && (!n || w->known[i] < n)) n = w->known[i];
    return n;
}

// Number of tokens of a text that are before its window.
static int64_t before_window(const Writer *w, int64_t i)
{
    return w->known[i] > w->step.width ? w->known[i] - w->step.width : 0;
}

// Runs the entry with the next tokens of each text. If it has a window, with the last tokens,
// followed by zeros. A text that has ended repeats its last token.
static netc_status feed(Writer *w, Way *way, netc_error **err)
{
    int64_t bytes = prog_dtype_bytes(way->e->inputs[0].type.dtype);
    bool window = w->step.width > 1;
    for (int64_t i = 0; i < w->texts; i++)
        for (int64_t k = 0; k < way->width; k++) {
            int64_t at = k + (window ? before_window(w, i) : w->fed), known = w->known[i];
            int64_t token = at < known ? row_of(w, i)[at] : window ? 0 : row_of(w, i)[known - 1];
            // (little endian)
            memcpy(way->input + (i * way->width + k) * bytes, &token, (size_t)bytes);
        }
    RtInput in = {way->e->inputs[0].name, way->input, false};
    RtError re = {0};
    if (rt_run(w->s->rt, way->l->rt, way->e->name, &in, 1, 1, &re) || rt_sync(w->s->rt, &re))
        return lib_fail_rt(err, &re);
    w->fed += way->width;
    return NETC_OK;
}

// Feeds the remaining ones of the first n tokens of each text.
static netc_status advance(Writer *w, int64_t n, netc_error **err)
{
    if (w->step.width > 1) return feed(w, &w->step, err);
    netc_status status = NETC_OK;
    while (w->fed < n && status == NETC_OK) {
        if (session_cancelled(w->s)) return lib_fail(err, NETC_CANCELLED, "writing was stopped");
        bool many = w->prefill.e && n - w->fed > w->prefill.width;
        status = feed(w, many ? &w->prefill : &w->step, err);
    }
    return status;
}

// The number of earlier texts with the same prompt, which distinguishes the random draws of texts
// with equal prompts.
static int64_t turn_of(const Writer *w, int64_t text)
{
    if (w->nprompts == 1) return text;
    const netc_prompt *mine = &w->prompt[text];
    int64_t turn = 0;
    for (const netc_prompt *p = w->prompt; p < mine; p++)
        turn +=
            p->n == mine->n && !memcmp(p->tokens, mine->tokens, (size_t)p->n * sizeof *p->tokens);
    return turn;
}

// Draws the next token of text i of the batch from its logits.
static netc_status draw_one(Writer *w, int64_t i, const char *logits, netc_error **err)
{
    int64_t place = w->known[i], text = w->first + i;
    w->draw.said = w->said ? w->said + i * w->count : NULL;
    int64_t token = draw_token(&w->draw, w->out->type.dtype, logits, w->count, turn_of(w, text),
                               place, w->work);
    if (token < 0)
        return lib_fail(err, NETC_CHECK_FAILED,
                        "the logits of '%s' after %" PRId64
                        " token%s hold a NaN, or nothing finite",
                        w->step.e->name, place, plural(place));
    row_of(w, i)[place] = token;
    w->known[i]++;
    if (w->said) w->said[i * w->count + token] = true;
    w->ended[i] = w->known[i] == prompt_of(w, text)->n + w->o->length;
    if (w->o->token && !w->o->token(w->o->user, text, token)) w->ended[i] = true;
    return NETC_OK;
}

// Draws a token for every text whose tokens have all been fed.
static netc_status draw_all(Writer *w, netc_error **err)
{
    const ProgType *t = &w->out->type;
    int64_t bytes = w->count * prog_dtype_bytes(t->dtype);
    bool window = w->step.width > 1;
    RtError re = {0};
    if (rt_output_read(w->s->rt, w->step.l->rt, w->step.e->name, "logits", w->logits,
                       (size_t)prog_type_bytes(t), &re))
        return lib_fail_rt(err, &re);
    netc_status status = NETC_OK;
    for (int64_t i = 0; i < w->texts && status == NETC_OK; i++) {
        if (w->ended[i] || (!window && w->known[i] != w->fed)) continue;
        int64_t row = window ? i * w->step.width + w->known[i] - before_window(w, i) - 1 : i;
        status = draw_one(w, i, w->logits + row * bytes, err);
    }
    return status;
}

static netc_status write_texts(Writer *w, Kept *const *kept, netc_error **err)
{
    netc_status status = NETC_OK;
    for (w->first = 0; w->first < w->all && status == NETC_OK; w->first += w->texts) {
        for (int k = 0; k < 2 && w->first && status == NETC_OK; k++)
            if (kept[k]) status = kept_put_back(kept[k], err);
        begin_texts(w);
        for (int64_t n; status == NETC_OK && (n = fewest_known(w));) {
            if (session_cancelled(w->s))
                return lib_fail(err, NETC_CANCELLED, "writing was stopped");
            status = advance(w, n, err);
            if (status == NETC_OK) status = draw_all(w, err);
        }
    }
    return status;
}

netc_status netc_generate(netc_session *s, const netc_generate_options *options, netc_error **err)
{
    netc_generate_options o = {0};
    netc_status status = TAKE_OPTIONS(netc_generate_options, &o, options, err);
    if (status != NETC_OK) return status;
    Writer w = {.s = s,
                .o = &o,
                .draw = {o.temperature, o.top_k, o.top_p, o.seed, o.repetition_penalty, NULL}};
    const netc_prompt one = {o.prompt, o.nprompt};
    w.prompt = o.texts || o.ntexts ? o.texts : &one;
    w.nprompts = o.texts || o.ntexts ? o.ntexts : 1;
    Kept *kept[2] = {0};
    status = check_options(&w, err);
    if (status == NETC_OK)
        status = session_entry(s, o.entry ? o.entry : "next", &w.step.l, &w.step.e, err);
    if (status == NETC_OK) status = session_ready(s, w.step.l, w.step.e, err);
    if (status == NETC_OK) status = look_at(&w, err);
    if (status == NETC_OK) status = look_at_prefill(&w, err);
    if (status == NETC_OK) status = check_prompts(&w, err);
    if (status == NETC_OK) status = make_room(&w, err);
    const Way *ways[] = {&w.step, &w.prefill};
    for (int k = 0; k < 2 && status == NETC_OK; k++)
        if (ways[k]->e)
            status = kept_new(s, ways[k]->l->build->program, ways[k]->e, false, &kept[k], err);
    if (status == NETC_OK) {
        status = write_texts(&w, kept, err);
        for (int k = 0; k < 2; k++) {
            if (!kept[k]) continue;
            netc_status back = kept_put_back(kept[k], status == NETC_OK ? err : NULL);
            if (status == NETC_OK) status = back;
        }
    }
    kept_free(kept[0]), kept_free(kept[1]);
    free(w.token), free(w.known), free(w.ended), free(w.said), free(w.logits), free(w.work);
    free(w.step.input), free(w.prefill.input);
    return status;
}
