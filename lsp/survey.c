// The result of netc_survey as tables.
#include <string.h>

#include "lsp/lsp.h"

static uint32_t number(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->is_int && v->integer >= 0 ? (uint32_t)v->integer : 0;
}

static const JsonValue *first(const JsonValue *json, const char *key)
{
    const JsonValue *v = json_get(json, key);
    return v ? v->child : NULL;
}

static void read_sources(Arena *a, Survey *v)
{
    for (const JsonValue *x = first(v->json, "sources"); x; x = x->next) {
        const JsonValue *library = json_get(x, "library");
        vec_push(
            a, &v->sources,
            (SourceFile){.path = json_text(x, "path"), .library = library && library->boolean});
    }
    for (const JsonValue *x = first(v->json, "files"); x; x = x->next) {
        uint32_t at = number(x, "source");
        if (at >= v->sources.n) continue;
        v->sources.at[at].name = json_text(x, "name");
        v->sources.at[at].uses = json_get(x, "uses");
    }
}

Survey *survey_read(Arena *a, const char *text, size_t len)
{
    const char *error;
    Survey *v = NEW(a, Survey);
    v->json = json_parse(a, text, len, &error);
    if (!v->json || !json_get(v->json, "decls")) return NULL;
    v->source = number(v->json, "source");
    v->core = number(v->json, "core");
    read_sources(a, v);
    for (const JsonValue *x = first(v->json, "decls"); x; x = x->next)
        vec_push(a, &v->decls,
                 (Decl){json_text(x, "kind"), json_text(x, "name"), json_text(x, "head"),
                        json_text(x, "doc"), number(x, "source"), number(x, "begin"),
                        number(x, "end"), number(x, "from"), number(x, "to"), number(x, "owner")});
    for (const JsonValue *x = first(v->json, "uses"); x;) {
        uint32_t n[5] = {0};
        for (int i = 0; i < 5 && x; i++, x = x->next) n[i] = (uint32_t)x->integer;
        if (n[3] < v->decls.n) vec_push(a, &v->uses, (Use){n[0], n[1], n[2], n[3], n[4]});
    }
    for (const JsonValue *x = first(v->json, "values"); x; x = x->next)
        vec_push(a, &v->values,
                 (Value){number(x, "begin"), number(x, "end"), json_text(x, "text"),
                         json_get(x, "tensor")->boolean});
    for (const JsonValue *x = first(v->json, "tokens"); x;) {
        uint32_t n[3] = {0};
        for (int i = 0; i < 3 && x; i++, x = x->next) n[i] = (uint32_t)x->integer;
        vec_push(a, &v->tokens, (Tok){(int)n[0], n[1], n[2]});
    }
    for (const JsonValue *x = first(v->json, "builtins"); x; x = x->next)
        vec_push(a, &v->builtins, (Builtin){json_text(x, "name"), json_text(x, "params")});
    return v;
}

const Use *survey_use(const Survey *v, uint32_t at)
{
    const Use *found = NULL;
    for (uint32_t i = 0; i < v->uses.n; i++) {
        const Use *u = &v->uses.at[i];
        if (u->source != v->source || u->begin > at || at > u->end) continue;
        // Prefers a name that contains the byte to one that ends there.
        if (!found || found->end == at) found = u;
    }
    return found;
}

const Value *survey_value(const Survey *v, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < v->values.n; i++)
        if (v->values.at[i].begin == begin && v->values.at[i].end == end) return &v->values.at[i];
    return NULL;
}

const Value *survey_innermost(const Survey *v, uint32_t at)
{
    const Value *found = NULL;
    for (uint32_t i = 0; i < v->values.n; i++) {
        const Value *x = &v->values.at[i];
        if (x->begin <= at && at < x->end &&
            (!found || x->end - x->begin < found->end - found->begin))
            found = x;
    }
    return found;
}

bool survey_elaborated(const Survey *v)
{
    const JsonValue *x = v ? json_get(v->json, "elaborated") : NULL;
    return x && x->boolean;
}

bool survey_has_model(const Survey *v)
{
    for (uint32_t i = 0; v && i < v->decls.n; i++)
        if (v->decls.at[i].source == v->source && !strcmp(v->decls.at[i].kind, "model"))
            return true;
    return false;
}

bool survey_file_sees(const Survey *v, uint32_t from, uint32_t source)
{
    if (source == from || (source && source == v->core)) return true;
    if (from >= v->sources.n || !v->sources.at[from].uses) return false;
    for (const JsonValue *x = v->sources.at[from].uses->child; x; x = x->next)
        if (x->integer == source) return true;
    return false;
}

bool survey_sees(const Survey *v, uint32_t source)
{
    return survey_file_sees(v, v->source, source);
}

const Decl *survey_function(const Survey *v, const char *name)
{
    const Decl *found = NULL;
    for (uint32_t i = 0; i < v->decls.n; i++) {
        const Decl *d = &v->decls.at[i];
        bool function = !strcmp(d->kind, "fn") || !strcmp(d->kind, "model");
        if (!function || strcmp(d->name, name) || !survey_sees(v, d->source)) continue;
        if (!found || d->source == v->source) found = d;
    }
    return found;
}

const Builtin *survey_builtin(const Survey *v, const char *name)
{
    for (uint32_t i = 0; i < v->builtins.n; i++)
        if (!strcmp(v->builtins.at[i].name, name)) return &v->builtins.at[i];
    return NULL;
}
