// Reads what a message requests and builds the response around its handler's result.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lsp/lsp.h"

// -- values ---------------------------------------------------------------------------------------
const char *json_text(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->kind == JSON_STRING ? v->string ? v->string : "" : NULL;
}

int64_t json_number(const JsonValue *object, const char *key, int64_t otherwise)
{
    const JsonValue *v = json_get(object, key);
    return v && v->is_int ? v->integer : otherwise;
}

static bool json_says(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->kind == JSON_BOOL && v->boolean;
}

static void put_position(Json *j, const char *key, Position p)
{
    json_key(j, key), json_object(j);
    json_key(j, "line"), json_int(j, p.line);
    json_key(j, "character"), json_int(j, p.character);
    json_end(j);
}

void put_range(Json *j, const char *key, const Text *t, size_t begin, size_t end, bool utf8)
{
    json_key(j, key), json_object(j);
    put_position(j, "start", text_position(t, begin, utf8));
    put_position(j, "end", text_position(t, end, utf8));
    json_end(j);
}

bool put_location(Server *s, Message *m, const Document *d, Json *j, uint32_t source,
                  uint32_t begin, uint32_t end)
{
    Text t;
    const char *uri;
    if (!source_text(s, m->arena, d, source, &t, &uri)) return false;
    json_object(j);
    json_key(j, "uri"), json_string(j, uri);
    put_range(j, "range", &t, begin, end, s->utf8);
    json_end(j);
    return true;
}

// -- sending --------------------------------------------------------------------------------------
void notify_begin(Json *j, Buf *out, const char *method)
{
    *j = json_writer(out);
    j->raw = true; // wire_send replaces what is no UTF-8
    json_object(j);
    json_key(j, "jsonrpc"), json_string(j, "2.0");
    json_key(j, "method"), json_string(j, method);
    json_key(j, "params");
}

void notify_end(Server *s, Json *j)
{
    json_end(j);
    wire_send(&s->wire, j->out);
}

void server_log(Server *s, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    Arena *a = s->initialized ? arena_new() : NULL;
    jmp_buf full;
    if (!a) return;
    if (!setjmp(full)) {
        arena_on_oom(a, &full);
        Buf out = buf_new(a);
        Json j;
        notify_begin(&j, &out, "window/logMessage");
        json_object(&j);
        json_key(&j, "type"), json_int(&j, 2);
        json_key(&j, "message"), json_string(&j, text);
        json_end(&j);
        notify_end(s, &j);
    }
    arena_free(a);
}

static Json answer_begin(Buf *out, const JsonValue *id)
{
    Json j = json_writer(out);
    j.raw = true;
    json_object(&j);
    json_key(&j, "jsonrpc"), json_string(&j, "2.0");
    json_key(&j, "id");
    if (id && id->kind == JSON_STRING)
        json_string(&j, id->string ? id->string : "");
    else if (id && id->is_int)
        json_int(&j, id->integer);
    else
        json_null(&j);
    return j;
}

static void send_error(Server *s, Arena *a, const JsonValue *id, int code, const char *text)
{
    Buf out = buf_new(a);
    Json j = answer_begin(&out, id);
    json_key(&j, "error"), json_object(&j);
    json_key(&j, "code"), json_int(&j, code);
    json_key(&j, "message"), json_string(&j, text);
    json_end(&j), json_end(&j);
    wire_send(&s->wire, &out);
}

void server_bad(Server *s, Arena *a, const char *wrong)
{
    send_error(s, a, NULL, LSP_PARSE_ERROR, wrong);
}

Answer answer_error(Message *m, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    m->wrong = arena_vprintf(m->arena, fmt, args);
    va_end(args);
    m->error = code;
    return ANSWER_ERROR;
}

// -- life cycle -----------------------------------------------------------------------------------
static bool client_lists(const JsonValue *list, const char *what)
{
    for (const JsonValue *v = list ? list->child : NULL; v; v = v->next)
        if (v->kind == JSON_STRING && v->string && !strcmp(v->string, what)) return true;
    return false;
}

static const JsonValue *path(const JsonValue *v, const char *words)
{
    char word[64];
    while (v && *words) {
        size_t n = strcspn(words, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        v = json_get(v, word);
        words += n + (words[n] == '.');
    }
    return v;
}

// Reads {"defines": {"batch": 4}, "target": "sm_90", "precision": "bf16"}.
static void take_options(Server *s, const JsonValue *o)
{
    const JsonValue *defines = json_get(o, "defines");
    uint32_t n = defines ? defines->n : 0;
    const char **all = NEW_ARRAY(s->options, const char *, (size_t)s->ndefines + n + 1);
    for (int i = 0; i < s->ndefines; i++) all[i] = s->defines[i];
    for (const JsonValue *v = defines ? defines->child : NULL; v && v->key; v = v->next) {
        Buf b = buf_new(s->options);
        buf_printf(&b, "%s=", v->key);
        if (v->kind == JSON_STRING)
            buf_str(&b, v->string ? v->string : "");
        else if (v->kind == JSON_BOOL)
            buf_str(&b, v->boolean ? "true" : "false");
        else if (v->kind == JSON_NUMBER)
            buf_double(&b, v->number);
        else
            continue;
        all[s->ndefines++] = b.data;
    }
    s->defines = all;
    const char *target = json_text(o, "target"), *precision = json_text(o, "precision");
    s->target = target ? arena_strdup(s->options, target) : NULL;
    s->precision = precision ? arena_strdup(s->options, precision) : NULL;
}

static void put_flag(Json *j, const char *key)
{
    json_key(j, key), json_bool(j, true);
}

static void put_strings(Json *j, const char *key, const char *const *at)
{
    json_key(j, key), json_array(j);
    for (; *at; at++) json_string(j, *at);
    json_end(j);
}

static void put_capabilities(const Server *s, Json *j)
{
    static const char *const starts[] = {".", "\"", NULL}, *const calls[] = {"(", ",", NULL};
    static const char *const actions[] = {"quickfix", NULL};
    json_key(j, "capabilities"), json_object(j);
    json_key(j, "positionEncoding"), json_string(j, s->utf8 ? "utf-8" : "utf-16");
    json_key(j, "textDocumentSync"), json_object(j);
    put_flag(j, "openClose");
    json_key(j, "change"), json_int(j, 2);
    json_key(j, "save"), json_object(j), put_flag(j, "includeText"), json_end(j);
    json_end(j);
    put_flag(j, "hoverProvider");
    put_flag(j, "definitionProvider");
    put_flag(j, "referencesProvider");
    put_flag(j, "documentHighlightProvider");
    put_flag(j, "documentSymbolProvider");
    put_flag(j, "documentFormattingProvider");
    put_flag(j, "inlayHintProvider");
    json_key(j, "renameProvider"), json_object(j), put_flag(j, "prepareProvider"), json_end(j);
    json_key(j, "completionProvider"), json_object(j);
    put_strings(j, "triggerCharacters", starts), json_end(j);
    json_key(j, "signatureHelpProvider"), json_object(j);
    put_strings(j, "triggerCharacters", calls), json_end(j);
    json_key(j, "codeActionProvider"), json_object(j);
    put_strings(j, "codeActionKinds", actions), json_end(j);
    json_end(j);
}

static Answer answer_initialize(Server *s, Message *m, Json *j)
{
    if (s->initialized) return answer_error(m, LSP_INVALID_REQUEST, "initialized twice");
    s->initialized = true;
    const JsonValue *can = json_get(m->params, "capabilities");
    s->utf8 = client_lists(path(can, "general.positionEncodings"), "utf-8");
    s->markdown = client_lists(path(can, "textDocument.hover.contentFormat"), "markdown");
    s->snippets = json_says(path(can, "textDocument.completion.completionItem"), "snippetSupport");
    s->watches = json_says(path(can, "workspace.didChangeWatchedFiles"), "dynamicRegistration");
    take_options(s, json_get(m->params, "initializationOptions"));
    json_object(j);
    put_capabilities(s, j);
    json_key(j, "serverInfo"), json_object(j);
    json_key(j, "name"), json_string(j, "netc");
    json_key(j, "version"), json_string(j, netc_version());
    json_end(j), json_end(j);
    return ANSWER_DONE;
}

static Answer answer_shutdown(Server *s, Message *m, Json *j)
{
    (void)m;
    s->stopping = true;
    json_null(j);
    return ANSWER_DONE;
}

// -- notifications --------------------------------------------------------------------------------
static void did_open(Server *s, Message *m)
{
    const JsonValue *d = json_get(m->params, "textDocument");
    const char *uri = json_text(d, "uri"), *text = json_text(d, "text");
    if (!uri || !text || !document_open(s, uri, text, json_number(d, "version", 0)))
        server_log(s, "didOpen: it has no uri that can be a file's name, or no text");
}

static Document *changed(Server *s, Message *m)
{
    const char *uri = json_text(json_get(m->params, "textDocument"), "uri");
    Document *d = uri ? document_find(s, uri) : NULL;
    if (!d) server_log(s, "%s: %s is not open", m->method, uri ? uri : "a document without a uri");
    return d;
}

static void did_change(Server *s, Message *m)
{
    Document *d = changed(s, m);
    if (!d) return;
    const JsonValue *changes = json_get(m->params, "contentChanges");
    int64_t version = json_number(json_get(m->params, "textDocument"), "version", d->version);
    if (version < d->version)
        server_log(s, "didChange: version %lld of %s comes after %lld; it is applied in this order",
                   (long long)version, d->path, (long long)d->version);
    d->version = version;
    for (const JsonValue *c = changes ? changes->child : NULL; c; c = c->next)
        if (!document_change(s, d, c))
            server_log(s,
                       "didChange: a change of %s without a text or with no range; it is ignored",
                       d->path);
}

static void did_save(Server *s, Message *m)
{
    Document *d = changed(s, m);
    const char *text = json_text(m->params, "text");
    if (d && text && strcmp(text, d->text)) document_set(s, d, text, strlen(text));
    if (d) d->saved = true;
}

static void did_close(Server *s, Message *m)
{
    Document *d = changed(s, m);
    if (!d) return;
    diagnostics_clear(s, d);
    document_close(s, d);
}

// Asks the client to report when a .net file changes on disk, which open documents may use.
static void initialized(Server *s, Message *m)
{
    if (!s->watches) return;
    Buf out = buf_new(m->arena);
    Json j;
    notify_begin(&j, &out, "client/registerCapability");
    json_object(&j);
    json_key(&j, "registrations"), json_array(&j), json_object(&j);
    json_key(&j, "id"), json_string(&j, "files");
    json_key(&j, "method"), json_string(&j, "workspace/didChangeWatchedFiles");
    json_key(&j, "registerOptions"), json_object(&j);
    json_key(&j, "watchers"), json_array(&j), json_object(&j);
    json_key(&j, "globPattern"), json_string(&j, "**/*.net");
    json_end(&j), json_end(&j), json_end(&j);
    json_end(&j), json_end(&j), json_end(&j);
    json_key(&j, "id"), json_string(&j, "watch"); // a request; the answer is not needed
    notify_end(s, &j);
}

// (Of an open document the editor's text counts, not that on disk.)
static void did_change_files(Server *s, Message *m)
{
    const JsonValue *changes = json_get(m->params, "changes");
    bool others = false;
    for (const JsonValue *c = changes ? changes->child : NULL; c && !others; c = c->next) {
        const char *uri = json_text(c, "uri");
        others = uri && !document_find(s, uri);
    }
    if (others) documents_reread(s);
}

static bool same_id(const JsonValue *a, const JsonValue *b)
{
    if (!a || !b || a->kind != b->kind) return false;
    return a->kind == JSON_STRING ? !strcmp(a->string ? a->string : "", b->string ? b->string : "")
                                  : a->is_int && b->is_int && a->integer == b->integer;
}

static void cancel(Server *s, Message *m)
{
    const JsonValue *id = json_get(m->params, "id");
    for (Message **at = &s->waiting; *at; at = &(*at)->next) {
        Message *w = *at;
        if (!same_id(w->id, id)) continue;
        *at = w->next;
        send_error(s, w->arena, w->id, LSP_CANCELLED, "cancelled");
        arena_free(w->arena);
        return;
    }
}

// -- methods --------------------------------------------------------------------------------------
// Returns the text as the server has it, so that clients can verify that both are in sync.
static Answer answer_text(Server *s, Message *m, Json *j)
{
    const Document *d = document_asked(s, m);
    if (!d) return ANSWER_ERROR;
    json_object(j);
    json_key(j, "version"), json_int(j, d->version);
    json_key(j, "text"), json_string(j, d->text);
    json_end(j);
    return ANSWER_DONE;
}

static const struct {
    const char *method;
    Handler *handler;
} requests[] = {
    {"netc/text", answer_text},
    {"initialize", answer_initialize},
    {"shutdown", answer_shutdown},
    {"textDocument/codeAction", answer_code_action},
    {"textDocument/hover", answer_hover},
    {"textDocument/inlayHint", answer_inlay},
    {"textDocument/definition", answer_definition},
    {"textDocument/references", answer_references},
    {"textDocument/documentHighlight", answer_highlight},
    {"textDocument/documentSymbol", answer_symbols},
    {"textDocument/prepareRename", answer_prepare_rename},
    {"textDocument/rename", answer_rename},
    {"textDocument/completion", answer_completion},
    {"textDocument/signatureHelp", answer_signature},
    {"textDocument/formatting", answer_format},
};

static const struct {
    const char *method;
    void (*run)(Server *s, Message *m);
} notifications[] = {
    {"textDocument/didOpen", did_open},
    {"textDocument/didChange", did_change},
    {"textDocument/didSave", did_save},
    {"textDocument/didClose", did_close},
    {"$/cancelRequest", cancel},
    {"initialized", initialized},
    {"workspace/didChangeWatchedFiles", did_change_files},
};

static void notified(Server *s, Message *m)
{
    if (!strcmp(m->method, "exit")) {
        s->ended = true;
        return;
    }
    for (size_t i = 0; i < sizeof notifications / sizeof *notifications; i++)
        if (!strcmp(m->method, notifications[i].method) && s->initialized && !s->stopping)
            notifications[i].run(s, m);
}

// true: the message was answered, and its memory is freed.
static bool try_answer(Server *s, Message *m, Handler *handler)
{
    Buf out = buf_new(m->arena);
    Json j = answer_begin(&out, m->id);
    json_key(&j, "result");
    m->error = 0;
    Answer answer = handler(s, m, &j);
    if (answer == ANSWER_WAIT) return false;
    if (answer == ANSWER_ERROR || m->error)
        send_error(s, m->arena, m->id, m->error, m->wrong);
    else
        json_end(&j), wire_send(&s->wire, &out);
    arena_free(m->arena);
    return true;
}

static Handler *handler_of(const char *method)
{
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (!strcmp(requests[i].method, method)) return requests[i].handler;
    return NULL;
}

static void requested(Server *s, Message *m)
{
    Handler *handler = handler_of(m->method);
    int code = 0;
    const char *wrong = "";
    if (s->stopping)
        code = LSP_INVALID_REQUEST, wrong = "the server was told to shut down";
    else if (!s->initialized && handler != answer_initialize)
        code = LSP_NOT_INITIALIZED, wrong = "the first request must be initialize";
    else if (!handler)
        code = LSP_NO_METHOD, wrong = arena_printf(m->arena, "there is no method %s", m->method);
    if (code) {
        send_error(s, m->arena, m->id, code, wrong);
        arena_free(m->arena);
    } else if (!try_answer(s, m, handler)) {
        Message **end = &s->waiting;
        while (*end) end = &(*end)->next;
        m->next = NULL;
        *end = m;
    }
}

void server_message(Server *s, Message *m, char *text, size_t len)
{
    const char *error = NULL;
    // (A text that cannot be taken in would leave the client and the server with different ones.)
    const JsonValue *root = json_parse_loose(m->arena, text, len, &error);
    const char *wrong = error ? error : NULL;
    int code = LSP_PARSE_ERROR;
    const JsonValue *id = root ? json_get(root, "id") : NULL;
    m->method = root ? json_text(root, "method") : NULL;
    m->params = root ? json_get(root, "params") : NULL;
    if (id && id->kind == JSON_NULL) id = NULL;
    m->id = id;
    if (root && !m->method && (json_get(root, "result") || json_get(root, "error"))) {
        arena_free(m->arena); // an answer to a request that was not sent
        return;
    }
    if (root && !m->method)
        wrong = "neither a request nor a notification: no method", code = LSP_INVALID_REQUEST;
    else if (id && id->kind != JSON_STRING && !id->is_int)
        wrong = "an id is a string or an integer", code = LSP_INVALID_REQUEST;
    if (wrong) {
        send_error(s, m->arena, id, code, wrong);
        arena_free(m->arena);
    } else if (id) {
        requested(s, m);
    } else {
        notified(s, m);
        arena_free(m->arena);
    }
}

// true: the request is finished.
static bool retry(Server *s, Message *m)
{
    jmp_buf full;
    if (setjmp(full)) {
        server_log(s, "out of memory: a request was lost");
        arena_free(m->arena);
        return true;
    }
    arena_on_oom(m->arena, &full);
    return try_answer(s, m, handler_of(m->method));
}

void server_retry(Server *s)
{
    for (Message **at = &s->waiting; *at;) {
        Message *m = *at, *next = m->next;
        if (retry(s, m))
            *at = next;
        else
            at = &m->next;
    }
}
