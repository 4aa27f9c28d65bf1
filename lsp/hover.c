// Hover text of a name or a value: its declaration, its type and shape under the current
// dimensions, and, once the text has been compiled in the background, the kernels that compute its
// line.
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "lsp/names.h"

static void put_code(Buf *b, const char *text)
{
    buf_printf(b, "%s```netc\n%s\n```\n", b->len ? "\n" : "", text);
}

// -- kernels --------------------------------------------------------------------------------------
static bool has_line(const JsonValue *step, const char *line)
{
    const JsonValue *lines = json_get(step, "lines");
    for (const JsonValue *v = lines ? lines->child : NULL; v; v = v->next)
        if (v->string && !strcmp(v->string, line)) return true;
    const char *own = json_text(step, "line");
    return own && !strcmp(own, line);
}

static void put_amount(Buf *b, double v, const char *unit)
{
    static const char *const large[] = {"", "k", "M", "G", "T"};
    int i = 0;
    while (v >= 1000 && i < 4) v /= 1000, i++;
    buf_printf(b, v < 10 && i ? "%.2f %s%s" : "%.0f %s%s", v, large[i], unit);
}

static void put_once(Buf *b, const char *line)
{
    if (!b->len || !strstr(b->data, line)) buf_str(b, line);
}

static void put_kernel(Buf *b, const JsonValue *step, const char *entry)
{
    Buf line = buf_new(b->arena);
    const JsonValue *bytes = json_get(step, "bytes"), *floor = json_get(step, "floor_seconds");
    buf_printf(&line, "- `%s` (%s): ", json_text(step, "name"), entry);
    if (bytes) put_amount(&line, bytes->number, "B");
    if (floor) buf_printf(&line, ", floor %.2f µs", floor->number * 1e6);
    const char *schedule = json_text(step, "schedule");
    buf_printf(&line, "%s%s\n", schedule && *schedule ? ", " : "", schedule ? schedule : "");
    put_once(b, line.data);
}

// Whether a line such as "h.0.mlp.h -> dot: …" is about how the value h is used.
static bool is_about(const char *text, const char *name)
{
    const char *end = strstr(text, " ->");
    size_t n = strlen(name);
    if (!end || (size_t)(end - text) < n || memcmp(end - n, name, n)) return false;
    return end - n == text || end[-(ptrdiff_t)n - 1] == '.';
}

static void put_stored(Buf *b, const JsonValue *entry, const char *line, const char *name,
                       int *room)
{
    const JsonValue *stored = json_get(entry, "stored");
    for (const JsonValue *v = stored ? stored->child : NULL; v && *room > 0; v = v->next) {
        const char *text = json_text(v, "text"), *at = json_text(v, "line");
        if (!text || !at || !(name ? is_about(text, name) : !strcmp(at, line))) continue;
        size_t before = b->len;
        put_once(b, arena_printf(b->arena, "- stored: %s\n", text));
        *room -= b->len != before;
    }
}

static void put_kernels(Buf *b, const Document *d, const char *line, const char *name)
{
    enum { KERNELS = 6, REASONS = 4 };
    Buf found = buf_new(b->arena);
    const JsonValue *inspect = json_get(d->kernels, "inspect"), *why = json_get(d->kernels, "why");
    const JsonValue *all = json_get(inspect, "entries");
    int kernels = KERNELS, reasons = REASONS;
    for (const JsonValue *e = all ? all->child : NULL; e; e = e->next) {
        const JsonValue *steps = json_get(e, "steps");
        for (const JsonValue *x = steps ? steps->child : NULL; x && kernels > 0; x = x->next) {
            size_t before = found.len;
            if (has_line(x, line)) put_kernel(&found, x, json_text(e, "name"));
            kernels -= found.len != before;
        }
    }
    all = json_get(why, "entries");
    for (const JsonValue *e = all ? all->child : NULL; e; e = e->next)
        put_stored(&found, e, line, name, &reasons);
    if (found.len)
        buf_printf(b, "%sThis line, on %s:\n%s", b->len ? "\n" : "", json_text(inspect, "target"),
                   found.data);
}

// Waits a little for the kernels. false: they are not available yet.
static bool kernels_ready(Server *s, Message *m, Document *d)
{
    enum { PATIENCE = 1500 }; // milliseconds
    if (d->kernels_stale) kernels_begin(s, d);
    if (!d->kernels_job.pid) return true;
    if (!m->since) m->since = clock_now();
    return clock_now() - m->since > PATIENCE * 1e-3;
}

// -- what is declared -----------------------------------------------------------------------------
static void put_decl(Server *s, Buf *b, const Document *d, const Decl *x, const Use *use)
{
    const Survey *v = d->survey;
    const Value *value = survey_value(v, use->begin, use->end);
    if (!value && x->source == v->source) value = survey_value(v, x->begin, x->end);
    bool callable = !strcmp(x->kind, "fn") || !strcmp(x->kind, "model");
    if (x->head && (callable || !x->owner))
        put_code(b, x->head);
    else if (value)
        put_code(b, arena_printf(b->arena, "%s: %s", x->name, value->text));
    else
        put_code(b, x->head ? x->head : x->name);
    if (x->head && !callable && !x->owner && value) buf_printf(b, "\nnow `%s`\n", value->text);
    if (!strcmp(x->kind, "argument") && x->owner)
        buf_printf(b, "\nargument of `%s`\n", v->decls.at[x->owner - 1].name);
    else if (!callable && x->owner)
        buf_printf(b, "\n%s of `%s`\n", x->kind, v->decls.at[x->owner - 1].name);
    if (x->doc) buf_printf(b, "\n%s\n", x->doc);
    if (x->source < v->sources.n && v->sources.at[x->source].library)
        buf_printf(b, "\n%s\n", v->sources.at[x->source].path);
    (void)s;
}

// The word that contains the byte or ends at it.
static const Tok *word_at(const Survey *v, size_t at)
{
    for (uint32_t i = 0; i < v->tokens.n; i++) {
        const Tok *t = &v->tokens.at[i];
        if ((t->kind == 'a' || t->kind == 'k') && t->begin <= at && at <= t->end) return t;
    }
    return NULL;
}

static void put_builtin(Buf *b, const Builtin *x)
{
    const char *head = x->params ? signature_text(b->arena, x) : x->name;
    put_code(b, head);
    buf_str(b, "\nbuilt in\n");
}

Answer answer_hover(Server *s, Message *m, Json *j)
{
    Document *d;
    size_t at;
    const Use *use;
    Answer answer = request_place(s, m, &d, &at);
    if (answer != ANSWER_DONE) return answer;
    if (!d->survey) return json_null(j), ANSWER_DONE;
    const Decl *x = decl_at(d, at, &use);
    const Tok *word = word_at(d->survey, at);
    const Value *value = survey_innermost(d->survey, (uint32_t)at);
    Buf b = buf_new(m->arena);
    size_t begin = at, end = at;
    bool tensor = value && value->tensor;
    if (x) {
        const Value *own = survey_value(d->survey, use->begin, use->end);
        tensor = own && own->tensor;
        put_decl(s, &b, d, x, use);
        begin = use->begin, end = use->end;
    } else if (word) {
        const char *name = arena_strndup(m->arena, d->text + word->begin, word->end - word->begin);
        const Builtin *builtin = survey_builtin(d->survey, name);
        if (builtin && word->kind == 'a') put_builtin(&b, builtin);
        begin = word->begin, end = word->end;
    }
    if (!x && value && !word) {
        put_code(&b, value->text);
        begin = value->begin, end = value->end;
    }
    if (tensor && survey_elaborated(d->survey) && !d->library) {
        if (!kernels_ready(s, m, d)) return ANSWER_WAIT;
        Position p = text_position(&d->lines, at, true);
        const char *line = arena_printf(m->arena, "%s:%u", d->path, p.line + 1);
        if (d->kernels)
            put_kernels(&b, d, line, x ? x->name : NULL);
        else
            buf_str(&b, "\n(its kernels are being compiled)\n");
    }
    if (!b.len) return json_null(j), ANSWER_DONE;
    json_object(j);
    json_key(j, "contents"), json_object(j);
    json_key(j, "kind"), json_string(j, s->markdown ? "markdown" : "plaintext");
    json_key(j, "value"), json_string(j, b.data);
    json_end(j);
    put_range(j, "range", &d->lines, begin, end, s->utf8);
    json_end(j);
    return ANSWER_DONE;
}

// -- inlay hints ----------------------------------------------------------------------------------
Answer answer_inlay(Server *s, Message *m, Json *j)
{
    enum { TYPE = 1, LONGEST = 60 };
    Document *d = document_asked(s, m);
    size_t begin, end;
    if (!d) return ANSWER_ERROR;
    Message part = {.arena = m->arena, .params = json_get(m->params, "range")};
    if (!position_asked(s, &part, d, "start", &begin) || !position_asked(s, &part, d, "end", &end))
        return answer_error(m, LSP_INVALID_PARAMS, "no range");
    if (d->stale) return ANSWER_WAIT;
    json_array(j);
    const Survey *v = d->survey;
    for (uint32_t i = 0; v && i < v->uses.n; i++) {
        const Use *u = &v->uses.at[i];
        const Decl *x = &v->decls.at[u->decl];
        bool local = !strcmp(x->kind, "local");
        bool bare = !strcmp(x->kind, "argument") && x->head && !strchr(x->head, ':');
        if (u->source != v->source || !(u->flags & USE_WRITE) || !(local || bare)) continue;
        if (u->begin < begin || u->end > end) continue;
        const Value *value = survey_value(v, u->begin, u->end);
        if (!value || !value->tensor) continue;
        size_t n = strlen(value->text);
        bool cut = n > LONGEST;
        json_object(j);
        Position p = text_position(&d->lines, u->end, s->utf8);
        json_key(j, "position"), json_object(j);
        json_key(j, "line"), json_int(j, p.line);
        json_key(j, "character"), json_int(j, p.character);
        json_end(j);
        json_key(j, "label");
        json_string(j, arena_printf(m->arena, ": %.*s%s",
                                    cut ? (int)strcspn(value->text, "]") + 1 : (int)n, value->text,
                                    cut ? ", …" : ""));
        json_key(j, "kind"), json_int(j, TYPE);
        json_end(j);
    }
    json_end(j);
    return ANSWER_DONE;
}
