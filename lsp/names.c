// Where a name is defined and used, and what a file defines.
#include <string.h>

#include "lsp/names.h"

const Decl *decl_at(const Document *d, size_t at, const Use **use)
{
    const Use *u = d->survey ? survey_use(d->survey, (uint32_t)at) : NULL;
    if (use) *use = u;
    return u ? &d->survey->decls.at[u->decl] : NULL;
}

static const char *path_of(const Document *d, uint32_t source)
{
    const Survey *v = d->survey;
    return source == v->source ? d->path : source < v->sources.n ? v->sources.at[source].path : "";
}

// The index of the same declaration in another document's survey, or UINT32_MAX.
static uint32_t as_known_to(const Document *d, const Document *other, const Decl *what)
{
    for (uint32_t i = 0; i < other->survey->decls.n; i++) {
        const Decl *x = &other->survey->decls.at[i];
        if (x->begin == what->begin && x->end == what->end && !strcmp(x->kind, what->kind) &&
            !strcmp(path_of(other, x->source), path_of(d, what->source)))
            return i;
    }
    return UINT32_MAX;
}

static bool is_known(const Places *all, const Place *p)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->at[i].begin == p->begin && !strcmp(all->at[i].path, p->path)) {
            all->at[i].flags |= p->flags;
            return true;
        }
    return false;
}

Places places_of(Server *s, Arena *a, const Document *d, const Decl *what)
{
    Places all = {0};
    for (const Document *x = s->documents; x; x = x->next) {
        uint32_t decl = x->survey && !x->stale ? as_known_to(d, x, what) : UINT32_MAX;
        for (uint32_t i = 0; decl != UINT32_MAX && i < x->survey->uses.n; i++) {
            const Use *u = &x->survey->uses.at[i];
            if (u->decl != decl) continue;
            Place p = {x, path_of(x, u->source), u->source, u->begin, u->end, u->flags};
            if (!is_known(&all, &p)) vec_push(a, &all, p);
        }
    }
    return all;
}

// For `use nn`: the file whose name contains the byte.
static bool used_file(const Document *d, size_t at, uint32_t *source)
{
    const Survey *v = d->survey;
    for (uint32_t i = 1; v && i < v->tokens.n; i++) {
        const Tok *t = &v->tokens.at[i], *before = t - 1;
        if (at < t->begin || at > t->end || before->end - before->begin != 3 ||
            memcmp(d->text + before->begin, "use", 3))
            continue;
        for (uint32_t k = 1; k < v->sources.n; k++) {
            const char *name = v->sources.at[k].name;
            size_t n = name ? strlen(name) : 0;
            const char *found =
                n && k != v->source ? memmem(d->text + t->begin, t->end - t->begin, name, n) : NULL;
            const char *end = d->text + t->end;
            if (found && (found + n == end || found[n] == '.' || found[n] == '"'))
                return *source = k, true;
        }
    }
    return false;
}

// The document and byte of a request, after its survey was made. ANSWER_DONE: continue.
Answer request_place(Server *s, Message *m, Document **d, size_t *at)
{
    *d = document_asked(s, m);
    if (!*d || !position_asked(s, m, *d, "position", at)) return ANSWER_ERROR;
    return (*d)->stale ? ANSWER_WAIT : ANSWER_DONE;
}

Answer answer_definition(Server *s, Message *m, Json *j)
{
    Document *d;
    size_t at;
    uint32_t source;
    Answer answer = request_place(s, m, &d, &at);
    if (answer != ANSWER_DONE) return answer;
    const Decl *decl = decl_at(d, at, NULL);
    bool done = decl && put_location(s, m, d, j, decl->source, decl->begin, decl->end);
    if (!done && used_file(d, at, &source)) done = put_location(s, m, d, j, source, 0, 0);
    if (!done && decl && decl->source < d->survey->sources.n &&
        d->survey->sources.at[decl->source].library)
        server_log(s,
                   "'%s' is in the standard library, which cannot be written to the cache: set "
                   "XDG_CACHE_HOME to a folder that can be written to",
                   decl->name);
    if (!done) json_null(j);
    return ANSWER_DONE;
}

Answer answer_references(Server *s, Message *m, Json *j)
{
    Document *d;
    size_t at;
    Answer answer = request_place(s, m, &d, &at);
    if (answer != ANSWER_DONE) return answer;
    const Decl *decl = decl_at(d, at, NULL);
    const JsonValue *also = json_get(json_get(m->params, "context"), "includeDeclaration");
    bool declaration = !also || also->kind != JSON_BOOL || also->boolean;
    json_array(j);
    Places all = {0};
    if (decl) all = places_of(s, m->arena, d, decl);
    bool told = false;
    for (uint32_t i = 0; i < all.n; i++) {
        const Place *p = &all.at[i];
        bool itself = p->begin == decl->begin && !strcmp(p->path, path_of(d, decl->source));
        told = told || itself;
        if (!itself || declaration) put_location(s, m, p->in, j, p->source, p->begin, p->end);
    }
    if (decl && declaration && !told)
        put_location(s, m, d, j, decl->source, decl->begin, decl->end);
    json_end(j);
    return ANSWER_DONE;
}

Answer answer_highlight(Server *s, Message *m, Json *j)
{
    enum { READ = 2, WRITE = 3 };
    Document *d;
    size_t at;
    Answer answer = request_place(s, m, &d, &at);
    if (answer != ANSWER_DONE) return answer;
    const Use *use;
    json_array(j);
    for (uint32_t i = 0; decl_at(d, at, &use) && i < d->survey->uses.n; i++) {
        const Use *u = &d->survey->uses.at[i];
        if (u->decl != use->decl || u->source != d->survey->source) continue;
        json_object(j);
        put_range(j, "range", &d->lines, u->begin, u->end, s->utf8);
        json_key(j, "kind"), json_int(j, u->flags & USE_WRITE ? WRITE : READ);
        json_end(j);
    }
    json_end(j);
    return ANSWER_DONE;
}

// -- symbols --------------------------------------------------------------------------------------
int symbol_kind(const char *kind)
{
    static const struct {
        const char *kind;
        int symbol;
    } known[] = {{"fn", 12},    {"model", 5}, {"const", 14}, {"dim", 26},  {"setting", 7},
                 {"train", 24}, {"param", 8}, {"state", 8},  {"output", 7}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].kind, kind)) return known[i].symbol;
    return 13; // the number of variables in the protocol
}

static bool is_part(const Decl *x)
{
    return !strcmp(x->kind, "param") || !strcmp(x->kind, "state") || !strcmp(x->kind, "output");
}

static void put_symbol(Server *s, const Document *d, uint32_t i, Json *j)
{
    const Survey *v = d->survey;
    const Decl *x = &v->decls.at[i];
    const Value *value = survey_value(v, x->begin, x->end);
    json_object(j);
    json_key(j, "name"), json_string(j, *x->name ? x->name : "?");
    const char *detail = value ? value->text : x->kind;
    json_key(j, "detail"), json_string(j, detail);
    json_key(j, "kind"), json_int(j, symbol_kind(x->kind));
    put_range(j, "range", &d->lines, x->from < x->begin ? x->from : x->begin,
              x->to > x->end ? x->to : x->end, s->utf8);
    put_range(j, "selectionRange", &d->lines, x->begin, x->end, s->utf8);
    json_key(j, "children"), json_array(j);
    for (uint32_t k = 0; k < v->decls.n && !x->owner; k++)
        if (v->decls.at[k].owner == i + 1 && is_part(&v->decls.at[k])) put_symbol(s, d, k, j);
    json_end(j), json_end(j);
}

Answer answer_symbols(Server *s, Message *m, Json *j)
{
    Document *d = document_asked(s, m);
    if (!d) return ANSWER_ERROR;
    if (d->stale) return ANSWER_WAIT;
    json_array(j);
    for (uint32_t i = 0; d->survey && i < d->survey->decls.n; i++) {
        const Decl *x = &d->survey->decls.at[i];
        if (x->source == d->survey->source && !x->owner) put_symbol(s, d, i, j);
    }
    json_end(j);
    return ANSWER_DONE;
}
