// Renaming: all places at once, or none. It is tried on a copy of the texts first: a name that is
// part of parameter names must not silently change a checkpoint.
#include <string.h>

#include "lsp/child.h"
#include "lsp/names.h"

static bool is_word(const char *name)
{
    for (const char *p = name; *p; p++) {
        char c = *p | 32;
        bool letter = (c >= 'a' && c <= 'z') || *p == '_', digit = *p >= '0' && *p <= '9';
        if (!letter && (p == name || !digit)) return false;
    }
    return *name && strcmp(name, "_");
}

static bool lists(const JsonValue *list, const char *name)
{
    for (const JsonValue *v = list ? list->child : NULL; v; v = v->next)
        if (v->string && !strcmp(v->string, name)) return true;
    return false;
}

// Why this name cannot be changed; NULL: it can.
static const char *refusal(Message *m, const Document *d, const Decl *decl)
{
    const Survey *v = d->survey;
    if (!decl) return "only a name that a file defines can be renamed";
    if (d->library || (decl->source < v->sources.n && v->sources.at[decl->source].library))
        return arena_printf(m->arena, "'%s' belongs to the standard library", decl->name);
    return NULL;
}

static bool is_output(const Decl *x)
{
    return !strcmp(x->kind, "output");
}

// Why the new name is not possible; NULL: it is.
static const char *collision(Message *m, const Document *d, const Decl *decl, const char *to)
{
    const Survey *v = d->survey;
    Arena *a = m->arena;
    if (!is_word(to))
        return arena_printf(a, "'%s' is not a name: letters, digits and '_', no digit first", to);
    if (lists(json_get(v->json, "reserved"), to)) return arena_printf(a, "'%s' is a keyword", to);
    if (lists(json_get(v->json, "types"), to)) return arena_printf(a, "'%s' is a type", to);
    if (survey_builtin(v, to)) return arena_printf(a, "'%s' is built in", to);
    for (uint32_t i = 0; i < v->decls.n; i++) {
        const Decl *x = &v->decls.at[i];
        if (strcmp(x->name, to) || x == decl) continue;
        bool same = x->owner == decl->owner && x->source == decl->source;
        bool top = !x->owner && (!decl->owner || survey_sees(v, x->source));
        bool hides = x->owner && !decl->owner && survey_file_sees(v, x->source, decl->source) &&
                     !v->sources.at[x->source].library;
        // Named results and variables have different scopes.
        if (same && decl->owner && is_output(x) != is_output(decl)) continue;
        if (same || top || hides)
            return arena_printf(a, "there is %s %s '%s' already%s",
                                strchr("aeiou", *x->kind) ? "an" : "a", x->kind, to,
                                hides ? ", which would hide it" : "");
    }
    return NULL;
}

// -- edits ----------------------------------------------------------------------------------------
static const char *replacement(Message *m, const Decl *decl, const Place *p, const char *to)
{
    if (!(p->flags & USE_OUTPUT)) return to;
    return is_output(decl) ? arena_printf(m->arena, "%s = %s", to, decl->name)
                           : arena_printf(m->arena, "%s = %s", decl->name, to);
}

static void put_changes(Server *s, Message *m, const Decl *decl, const Places *all, const char *to,
                        Json *j)
{
    json_object(j);
    json_key(j, "changes"), json_object(j);
    for (uint32_t i = 0; i < all->n; i++) {
        const char *uri, *other;
        Text t;
        bool first = true;
        for (uint32_t k = 0; k < i; k++) first = first && strcmp(all->at[k].path, all->at[i].path);
        if (!first || !source_text(s, m->arena, all->at[i].in, all->at[i].source, &t, &uri))
            continue;
        json_key(j, uri), json_array(j);
        for (uint32_t k = i; k < all->n; k++) {
            const Place *p = &all->at[k];
            if (strcmp(p->path, all->at[i].path)) continue;
            if (!source_text(s, m->arena, p->in, p->source, &t, &other)) continue;
            json_object(j);
            put_range(j, "range", &t, p->begin, p->end, s->utf8);
            json_key(j, "newText"), json_string(j, replacement(m, decl, p, to));
            json_end(j);
        }
        json_end(j);
    }
    json_end(j), json_end(j);
}

// -- the trial ------------------------------------------------------------------------------------
typedef struct Trial {
    Server *s;
    Message *m;
    Document *d;
    const Decl *decl;
    const Places *all;
    const char *to;
} Trial;

// Changes a text in a child process, to find out what it would mean.
static void change_text(Trial *t, const char *path)
{
    const Places *all = t->all;
    Text text = {0};
    const char *uri;
    Buf b = buf_new(t->m->arena);
    size_t at = 0;
    for (;;) { // places need not be sorted
        const Place *next = NULL;
        for (uint32_t k = 0; k < all->n; k++)
            if (!strcmp(all->at[k].path, path) && all->at[k].begin >= at &&
                (!next || all->at[k].begin < next->begin))
                next = &all->at[k];
        if (!next) break;
        if (!text.at && !source_text(t->s, t->m->arena, next->in, next->source, &text, &uri))
            return;
        buf_bytes(&b, text.at + at, next->begin - at);
        buf_str(&b, replacement(t->m, t->decl, next, t->to));
        at = next->end;
    }
    if (!text.at) return;
    buf_bytes(&b, text.at + at, text.len - at);
    Document *open = document_find(t->s, uri);
    if (open)
        document_set(t->s, open, b.data, b.len);
    else
        document_open(t->s, uri, b.data, 0);
}

static void try_names(void *arg, int fd)
{
    Trial *t = arg;
    for (uint32_t i = 0; i < t->all->n; i++) {
        bool first = true;
        for (uint32_t k = 0; k < i; k++)
            first = first && strcmp(t->all->at[k].path, t->all->at[i].path);
        if (first) change_text(t, t->all->at[i].path);
    }
    child_survey(t->s, t->d, fd);
}

// How the meaning of the texts would change; NULL: not at all.
static const char *difference(Trial *t)
{
    const Survey *old = t->d->survey;
    if (!survey_elaborated(old)) return NULL; // there are errors, so there is nothing to compare
    size_t len;
    char *text = child_run(t->s, try_names, t, t->m->arena, &len);
    Survey *new = text ? survey_read(t->m->arena, text, len) : NULL;
    if (!new) return "it could not be tried";
    if (!survey_elaborated(new)) {
        const JsonValue *list = json_get(new->json, "diagnostics");
        return arena_printf(t->m->arena, "the text would then have an error: %s",
                            list && list->child ? json_text(list->child, "message") : "?");
    }
    static const char *const meant[] = {"param", "state", "model", "output", "train", "setting"};
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (!strcmp(t->decl->kind, meant[i])) return NULL; // other names depend on it
    const JsonValue *a = json_get(old->json, "names"), *b = json_get(new->json, "names");
    for (a = a->child, b = b->child; a && b; a = a->next, b = b->next)
        if (strcmp(a->string, b->string))
            return arena_printf(t->m->arena,
                                "'%s' would be called '%s'; give it its name first, with 'as' "
                                "behind the call or in quotes",
                                a->string, b->string);
    return NULL;
}

// -- requests -------------------------------------------------------------------------------------
Answer answer_prepare_rename(Server *s, Message *m, Json *j)
{
    Document *d;
    size_t at;
    const Use *use;
    Answer answer = request_place(s, m, &d, &at);
    if (answer != ANSWER_DONE) return answer;
    const Decl *decl = decl_at(d, at, &use);
    const char *why = refusal(m, d, decl);
    if (why) return answer_error(m, LSP_FAILED, "%s", why);
    json_object(j);
    put_range(j, "range", &d->lines, use->begin, use->end, s->utf8);
    json_key(j, "placeholder"), json_string(j, decl->name);
    json_end(j);
    return ANSWER_DONE;
}

Answer answer_rename(Server *s, Message *m, Json *j)
{
    Document *d;
    size_t at;
    const char *to = json_text(m->params, "newName");
    if (!to) return answer_error(m, LSP_INVALID_PARAMS, "no newName");
    Answer answer = request_place(s, m, &d, &at);
    if (answer != ANSWER_DONE) return answer;
    for (const Document *x = s->documents; x; x = x->next)
        if (x->stale) return ANSWER_WAIT;
    const Decl *decl = decl_at(d, at, NULL);
    const char *why = refusal(m, d, decl);
    if (!why && !strcmp(to, decl->name)) return json_null(j), ANSWER_DONE;
    if (!why) why = collision(m, d, decl, to);
    if (!why) {
        Places all = places_of(s, m->arena, d, decl);
        why = difference(&(Trial){s, m, d, decl, &all, to});
        if (!why) put_changes(s, m, decl, &all, to, j);
    }
    return why ? answer_error(m, LSP_FAILED, "%s", why) : ANSWER_DONE;
}
