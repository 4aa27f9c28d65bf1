// Diagnostics while typing, and the corrections that messages propose.
#include <string.h>

#include "lsp/lsp.h"

enum { ERROR = 1, WARNING = 2 };

typedef struct Fault { // a diagnostic of the survey
    const char *text;
    const JsonValue *notes;
    bool placed;
    uint32_t source, begin, end;
} Fault;

static Fault fault_of(const JsonValue *x)
{
    return (Fault){json_text(x, "message"),
                   json_get(x, "notes"),
                   json_get(x, "source") != NULL,
                   (uint32_t)json_number(x, "source", 0),
                   (uint32_t)json_number(x, "begin", 0),
                   (uint32_t)json_number(x, "end", 0)};
}

// The word after `use` through which the file uses the source. false: it does not.
static bool use_of(const Document *d, uint32_t source, uint32_t *begin, uint32_t *end)
{
    const Survey *v = d->survey;
    const char *name = source < v->sources.n ? v->sources.at[source].name : NULL;
    for (uint32_t i = 0; name && i + 1 < v->tokens.n; i++) {
        const Tok *t = &v->tokens.at[i], *next = t + 1;
        if (t->end - t->begin != 3 || memcmp(d->survey_text + t->begin, "use", 3)) continue;
        if (!memmem(d->survey_text + next->begin, next->end - next->begin, name, strlen(name)))
            continue;
        *begin = next->begin;
        *end = next->end;
        return true;
    }
    return false;
}

static void place(const Document *d, Fault *f)
{
    if (f->placed && f->source == d->survey->source) return;
    uint32_t begin = 0, end = 0;
    if (f->placed) use_of(d, f->source, &begin, &end);
    if (!end) end = d->lines.nlines > 1 ? d->lines.line[1] - 1 : (uint32_t)d->len;
    f->begin = begin;
    f->end = end;
}

static void put_related(Server *s, Message *m, const Document *d, const Fault *f, Json *j)
{
    Buf plain = buf_new(m->arena); // notes without a source place
    json_key(j, "relatedInformation"), json_array(j);
    if (f->placed && f->source != d->survey->source) {
        json_object(j);
        json_key(j, "location");
        if (!put_location(s, m, d, j, f->source, f->begin, f->end)) json_null(j);
        json_key(j, "message"), json_string(j, f->text);
        json_end(j);
    }
    for (const JsonValue *n = f->notes ? f->notes->child : NULL; n; n = n->next) {
        Text t;
        const char *uri;
        uint32_t source = (uint32_t)json_number(n, "source", 0);
        if (!json_get(n, "source") || !source_text(s, m->arena, d, source, &t, &uri)) {
            buf_printf(&plain, "\n%s", json_text(n, "message"));
            continue;
        }
        json_object(j);
        json_key(j, "location");
        put_location(s, m, d, j, source, (uint32_t)json_number(n, "begin", 0),
                     (uint32_t)json_number(n, "end", 0));
        json_key(j, "message"), json_string(j, json_text(n, "message"));
        json_end(j);
    }
    json_end(j);
    json_key(j, "message");
    json_string(j, arena_printf(m->arena, "%s%s", f->text, plain.data ? plain.data : ""));
}

static void put_fault(Server *s, Message *m, const Document *d, Fault f, Json *j)
{
    Fault shown = f;
    place(d, &shown);
    json_object(j);
    put_range(j, "range", &d->lines, shown.begin, shown.end, s->utf8);
    json_key(j, "severity"), json_int(j, ERROR);
    json_key(j, "source"), json_string(j, "netc");
    put_related(s, m, d, &f, j);
    json_end(j);
}

// -- errors found by the passes
// ---------------------------------------------------------------------
// Finds the word at a place, which is a line and a byte of a file.
static void word_at(const Document *d, const JsonValue *x, uint32_t *begin, uint32_t *end)
{
    const char *file = json_text(x, "file");
    int64_t line = json_number(x, "line", 0), column = json_number(x, "column", 1);
    *begin = *end = 0;
    if (!file || strcmp(file, d->path) || line < 1 || line > d->lines.nlines) return;
    *begin = *end = d->lines.line[line - 1] + (uint32_t)(column > 0 ? column - 1 : 0);
    for (uint32_t i = 0; i < d->survey->tokens.n; i++)
        if (d->survey->tokens.at[i].begin == *begin) *end = d->survey->tokens.at[i].end;
}

static void put_late(Server *s, Message *m, const Document *d, const JsonValue *x, Json *j)
{
    uint32_t begin, end;
    Buf text = buf_new(m->arena);
    buf_str(&text, json_text(x, "message"));
    json_object(j);
    word_at(d, x, &begin, &end);
    put_range(j, "range", &d->lines, begin, end, s->utf8);
    json_key(j, "severity"), json_int(j, ERROR);
    json_key(j, "source"), json_string(j, "netc");
    json_key(j, "relatedInformation"), json_array(j);
    const JsonValue *notes = json_get(x, "notes");
    for (const JsonValue *n = notes ? notes->child : NULL; n; n = n->next) {
        word_at(d, n, &begin, &end);
        if (!end) {
            buf_printf(&text, "\n%s", json_text(n, "message"));
            continue;
        }
        json_object(j);
        json_key(j, "location");
        put_location(s, m, d, j, d->survey->source, begin, end);
        json_key(j, "message"), json_string(j, json_text(n, "message"));
        json_end(j);
    }
    json_end(j);
    json_key(j, "message"), json_string(j, text.data);
    json_end(j);
}

static void put_remark(Server *s, const Document *d, const char *text, Json *j)
{
    json_object(j);
    put_range(j, "range", &d->lines, 0, 0, s->utf8);
    json_key(j, "severity"), json_int(j, WARNING);
    json_key(j, "source"), json_string(j, "netc");
    json_key(j, "message"), json_string(j, text);
    json_end(j);
}

static void publish(Server *s, Message *m, const Document *d, bool any)
{
    Buf out = buf_new(m->arena);
    Json j;
    notify_begin(&j, &out, "textDocument/publishDiagnostics");
    json_object(&j);
    json_key(&j, "uri"), json_string(&j, d->uri);
    if (any) json_key(&j, "version"), json_int(&j, d->version);
    json_key(&j, "diagnostics"), json_array(&j);
    const JsonValue *list = any && d->survey ? json_get(d->survey->json, "diagnostics") : NULL;
    for (const JsonValue *x = list ? list->child : NULL; x; x = x->next)
        put_fault(s, m, d, fault_of(x), &j);
    const JsonValue *late = any && d->survey ? json_get(d->kernels, "error") : NULL;
    for (const JsonValue *x = late ? late->child : NULL; x; x = x->next)
        if (json_text(x, "message")) put_late(s, m, d, x, &j);
    int64_t more = list ? json_number(d->survey->json, "more", 0) : 0;
    if (more > 0)
        put_remark(s, d,
                   arena_printf(m->arena, "%lld more error%s not shown", (long long)more,
                                more == 1 ? " is" : "s are"),
                   &j);
    if (any && d->fault) put_remark(s, d, d->fault, &j);
    json_end(&j), json_end(&j);
    notify_end(s, &j);
}

static void publish_guarded(Server *s, const Document *d, bool any)
{
    Message m = {.arena = arena_new()};
    jmp_buf full;
    if (!m.arena) return;
    if (!setjmp(full)) {
        arena_on_oom(m.arena, &full);
        publish(s, &m, d, any);
    }
    arena_free(m.arena);
}

void diagnostics_publish(Server *s, Document *d)
{
    publish_guarded(s, d, true);
}

void diagnostics_clear(Server *s, const Document *d)
{
    publish_guarded(s, d, false);
}

// -- corrections ----------------------------------------------------------------------------------
// The text in quotes after [words]; NULL: [words] do not occur.
static const char *quoted(Arena *a, const char *text, const char *words)
{
    const char *at = strstr(text, words);
    if (!at) return NULL;
    at += strlen(words);
    const char *end = strchr(at, '\'');
    return end ? arena_strndup(a, at, (size_t)(end - at)) : NULL;
}

static void put_edit(Server *s, const Document *d, Json *j, size_t begin, size_t end,
                     const char *text)
{
    json_object(j);
    put_range(j, "range", &d->lines, begin, end, s->utf8);
    json_key(j, "newText"), json_string(j, text);
    json_end(j);
}

// Where to insert another `use`: after the last one, otherwise before the first word.
static size_t place_for_use(const Document *d)
{
    const Survey *v = d->survey;
    size_t at = d->len;
    bool found = false;
    for (uint32_t i = 0; i < v->tokens.n; i++) {
        const Tok *t = &v->tokens.at[i];
        Position p = text_position(&d->lines, t->begin, true);
        bool use = t->end - t->begin == 3 && !memcmp(d->text + t->begin, "use", 3) && !p.character;
        if (use)
            at = p.line + 1 < d->lines.nlines ? d->lines.line[p.line + 1] : d->len;
        else if (t->kind != '#' && !found && at == d->len)
            at = d->lines.line[p.line];
        found = found || use;
    }
    return at;
}

static void put_action(Server *s, Message *m, const Document *d, const Fault *f, Json *j)
{
    Arena *a = m->arena;
    const char *wrong = quoted(a, f->text, "'"), *right = quoted(a, f->text, "did you mean '");
    const char *use = quoted(a, f->text, "rite 'use ");
    const char *at = NULL;
    if (right && wrong && f->end <= d->len && f->begin <= f->end)
        at = memmem(d->text + f->begin, f->end - f->begin, wrong, strlen(wrong));
    if (right && !at) right = NULL;
    if (!right && !use) return;
    json_object(j);
    json_key(j, "title");
    json_string(j, right && use ? arena_printf(a, "Write '%s' and 'use %s'", right, use)
                   : right      ? arena_printf(a, "Write '%s'", right)
                                : arena_printf(a, "Write 'use %s'", use));
    json_key(j, "kind"), json_string(j, "quickfix");
    json_key(j, "isPreferred"), json_bool(j, true);
    json_key(j, "diagnostics"), json_array(j), put_fault(s, m, d, *f, j), json_end(j);
    json_key(j, "edit"), json_object(j);
    json_key(j, "changes"), json_object(j);
    json_key(j, d->uri), json_array(j);
    if (use) {
        size_t place = place_for_use(d);
        put_edit(s, d, j, place, place, arena_printf(a, "use %s\n", use));
    }
    if (right)
        put_edit(s, d, j, (size_t)(at - d->text), (size_t)(at - d->text) + strlen(wrong), right);
    json_end(j), json_end(j), json_end(j), json_end(j);
}

static bool range_asked(Server *s, Message *m, const Document *d, size_t *begin, size_t *end)
{
    Message part = *m;
    part.params = json_get(m->params, "range");
    bool ok =
        position_asked(s, &part, d, "start", begin) && position_asked(s, &part, d, "end", end);
    m->error = part.error;
    m->wrong = part.wrong;
    return ok;
}

Answer answer_code_action(Server *s, Message *m, Json *j)
{
    size_t begin, end;
    Document *d = document_asked(s, m);
    if (!d || !range_asked(s, m, d, &begin, &end)) return ANSWER_ERROR;
    if (d->stale) return ANSWER_WAIT;
    const JsonValue *list = d->survey ? json_get(d->survey->json, "diagnostics") : NULL;
    json_array(j);
    for (const JsonValue *x = list ? list->child : NULL; x; x = x->next) {
        Fault f = fault_of(x);
        if (f.placed && f.source == d->survey->source && f.begin <= end && begin <= f.end)
            put_action(s, m, d, &f, j);
    }
    json_end(j);
    return ANSWER_DONE;
}
