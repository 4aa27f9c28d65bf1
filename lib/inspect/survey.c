// netc_survey: answers an editor's questions about a text, as JSON. Places are byte offsets in
// numbered sources.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "frontend/parse.h"
#include "frontend/survey.h"
#include "lib/lib.h"

enum { MOST_ERRORS = 100, MOST_TOKENS = 400000 };

typedef struct Request {
    netc_context *c;
    const char *name, *text;
    const netc_survey_options *o;
    Arena *arena;
    char *json;
} Request;

// The path of a used file, relative to the folder of the using one, so that files of the same name
// are distinguished.
static const char *resolve(void *ctx, Arena *a, const char *from, const char *name, size_t *len,
                           const char **path)
{
    const netc_context *c = ctx;
    const char *slash = strrchr(from, '/');
    *path = name[0] == '/' || !slash ? arena_strdup(a, name)
                                     : arena_printf(a, "%.*s/%s", (int)(slash - from), from, name);
    char *text = c->o.resolve(c->o.user, from, *path, len);
    if (!text) return NULL;
    const char *copy = arena_strndup(a, text, *len);
    free(text);
    return copy;
}

static void place(Json *j, Span s)
{
    json_key(j, "source"), json_int(j, s.source);
    json_key(j, "begin"), json_int(j, s.begin);
    json_key(j, "end"), json_int(j, s.end);
}

static void text_or_null(Json *j, const char *key, const char *text)
{
    json_key(j, key);
    if (text)
        json_string(j, text);
    else
        json_null(j);
}

static void put_diagnostics(Json *j, const Diags *d)
{
    json_key(j, "diagnostics"), json_array(j);
    for (uint32_t i = 0; i < d->list.n; i++) {
        const Diag *g = &d->list.at[i];
        json_object(j);
        json_key(j, "message"), json_string(j, g->text);
        if (g->placed) place(j, g->span);
        json_key(j, "notes"), json_array(j);
        for (uint32_t k = 0; k < g->notes.n; k++) {
            const DiagNote *n = &g->notes.at[k];
            json_object(j);
            json_key(j, "message"), json_string(j, n->text);
            if (n->span.source || n->span.end) place(j, n->span);
            json_end(j);
        }
        json_end(j), json_end(j);
    }
    json_end(j);
    json_key(j, "more"), json_int(j, (int64_t)d->errors - d->list.n);
}

static void put_files(Json *j, const Survey *s, const Diags *d)
{
    json_key(j, "sources"), json_array(j);
    for (uint32_t i = 0; i < d->sources.n; i++) {
        json_object(j);
        json_key(j, "path"), json_string(j, d->sources.at[i].path);
        json_key(j, "library"), json_bool(j, d->sources.at[i].library);
        json_end(j);
    }
    json_end(j);
    json_key(j, "source"), json_int(j, s->source);
    json_key(j, "core"), json_int(j, s->core);
    json_key(j, "files"), json_array(j);
    for (uint32_t i = 0; i < s->files.n; i++) {
        json_object(j);
        json_key(j, "source"), json_int(j, s->files.at[i].source);
        json_key(j, "name"), json_string(j, s->files.at[i].name);
        json_key(j, "uses"), json_array(j);
        for (uint32_t k = 0; k < s->files.at[i].uses.n; k++) json_int(j, s->files.at[i].uses.at[k]);
        json_end(j), json_end(j);
    }
    json_end(j);
}

static void put_names(Json *j, const Survey *s)
{
    json_key(j, "decls"), json_array(j);
    for (uint32_t i = 0; i < s->decls.n; i++) {
        const Decl *d = &s->decls.at[i];
        json_object(j);
        json_key(j, "kind"), json_string(j, decl_kind_names[d->kind]);
        json_key(j, "name"), json_string(j, d->name);
        place(j, d->span);
        json_key(j, "from"), json_int(j, d->whole.begin);
        json_key(j, "to"), json_int(j, d->whole.end);
        json_key(j, "owner"), json_int(j, d->owner);
        if (d->head) json_key(j, "head"), json_string(j, d->head);
        if (d->doc) json_key(j, "doc"), json_string(j, d->doc);
        json_end(j);
    }
    json_end(j);
    json_key(j, "uses"), json_array(j); // source, begin, end, declaration, flags for each
    for (uint32_t i = 0; i < s->uses.n; i++) {
        const Use *u = &s->uses.at[i];
        json_int(j, u->span.source), json_int(j, u->span.begin), json_int(j, u->span.end);
        json_int(j, u->decl), json_int(j, u->flags);
    }
    json_end(j);
    json_key(j, "names"), json_array(j);
    for (uint32_t i = 0; i < s->names.n; i++) json_string(j, s->names.at[i]);
    json_end(j);
}

static void put_values(Json *j, const Survey *s)
{
    json_key(j, "values"), json_array(j);
    for (uint32_t i = 0; i < s->seen.n; i++) {
        json_object(j);
        json_key(j, "begin"), json_int(j, s->seen.at[i].span.begin);
        json_key(j, "end"), json_int(j, s->seen.at[i].span.end);
        json_key(j, "text"), json_string(j, s->seen.at[i].text);
        json_key(j, "tensor"), json_bool(j, s->seen.at[i].tensor);
        json_end(j);
    }
    json_end(j);
}

static int token_kind(const Token *t)
{
    switch (t->kind) {
    case T_COMMENT: return '#';
    case T_STRING: return '"';
    case T_INT:
    case T_FLOAT: return '0';
    case T_NAME: return 'a';
    case T_GETS: return 'g';
    case T_ATTRS: return '{';
    default: return t->kind < 128 ? t->kind : t->text ? 'k' : 'o';
    }
}

static void put_tokens(Json *j, const Survey *s)
{
    json_key(j, "tokens"), json_array(j); // kind, begin, end for each
    for (uint32_t i = 0; i < s->tokens.list.n && s->tokens.list.n < MOST_TOKENS; i++) {
        const Token *t = &s->tokens.list.at[i];
        if (t->kind == T_NEWLINE || t->kind == T_END) continue;
        json_int(j, token_kind(t)), json_int(j, t->span.begin), json_int(j, t->span.end);
    }
    json_end(j);
}

static void put_words(Json *j, const char *key, const char *(*word)(uint32_t i))
{
    json_key(j, key), json_array(j);
    for (uint32_t i = 0; word(i); i++) json_string(j, word(i));
    json_end(j);
}

static void put_language(Json *j, Arena *a)
{
    json_key(j, "builtins"), json_array(j);
    for (const BuiltinInfo *b = frontend_builtins(a); b->name; b++) {
        json_object(j);
        json_key(j, "name"), json_string(j, b->name);
        text_or_null(j, "params", b->params);
        json_end(j);
    }
    json_end(j);
    put_words(j, "reserved", reserved_word);
    put_words(j, "heads", head_word);
    put_words(j, "clauses", clause_word);
    json_key(j, "types"), json_array(j);
    for (int i = 0; i < DT_COUNT; i++) json_string(j, dtype_info[i].name);
    json_end(j);
    json_key(j, "standard"), json_array(j);
    for (const EmbeddedFile *f = std_files; f->name; f++)
        json_string(j, arena_strndup(a, f->name, strlen(f->name) - strlen(".net")));
    json_end(j);
}

static void survey(void *arg)
{
    Request *r = arg;
    Arena *a = r->arena;
    Diags *d = diags_new(a);
    d->max_errors = MOST_ERRORS;
    FrontendOptions o = {.program = r->o->program};
    Define *defines = NEW_ARRAY(a, Define, r->o->ndefines + 1);
    for (int i = 0; i < r->o->ndefines; i++) {
        const char *text = r->o->defines[i], *eq = strchr(text, '=');
        size_t n = eq ? (size_t)(eq - text) : strlen(text);
        defines[o.ndefines++] = (Define){arena_strndup(a, text, n), eq ? eq + 1 : "true", true};
    }
    o.defines = defines;
    if (r->c->o.resolve) {
        o.resolve = resolve;
        o.resolve_ctx = r->c;
    }
    const Survey *s = frontend_survey(a, d, r->name, r->text, strlen(r->text), &o);
    Buf out = buf_new(a);
    Json j = json_writer(&out);
    json_object(&j);
    put_diagnostics(&j, d);
    put_files(&j, s, d);
    put_names(&j, s);
    put_values(&j, s);
    put_tokens(&j, s);
    put_language(&j, a);
    json_key(&j, "elaborated"), json_bool(&j, s->elaborated);
    json_end(&j);
    r->json = strdup(out.data);
}

netc_status netc_survey(netc_context *c, const char *name, const char *text,
                        const netc_survey_options *o, char **json, netc_error **err)
{
    netc_survey_options all = {0};
    netc_status status = TAKE_OPTIONS(netc_survey_options, &all, o, err);
    if (status == NETC_OK) status = options_names("defines", all.defines, all.ndefines, err);
    if (status != NETC_OK) return status;
    Request r = {c, name, text, &all, arena_new(), NULL};
    if (!r.arena) return OUT_OF_MEMORY(err);
    bool fits = lib_guarded(r.arena, survey, &r);
    arena_free(r.arena);
    if (!fits || !r.json) return OUT_OF_MEMORY(err);
    *json = r.json;
    return NETC_OK;
}

bool netc_standard_file(int i, const char **name, const char **text)
{
    const EmbeddedFile *f = std_files;
    while (f->name && i > 0) f++, i--;
    *name = f->name;
    *text = f->text;
    return f->name != NULL && i == 0;
}
