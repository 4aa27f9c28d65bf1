// Completion and signatures. Both look only at the words before the cursor, since the text around
// it is seldom complete.
#include <dirent.h>
#include <string.h>

#include "lsp/names.h"

enum { // kinds of completions in the protocol
    KIND_FUNCTION = 3,
    KIND_FIELD = 5,
    KIND_VARIABLE = 6,
    KIND_CLASS = 7,
    KIND_MODULE = 9,
    KIND_PROPERTY = 10,
    KIND_KEYWORD = 14,
    KIND_FILE = 17,
    KIND_FOLDER = 19,
    KIND_CONSTANT = 21,
    KIND_TYPE = 25,
};

typedef struct Cursor {
    Server *s;
    Arena *a;
    const Document *d;
    const Survey *v;
    size_t at, word; // word: beginning of the word at the cursor
    uint32_t token;  // number of tokens that end at or before [word]
    Json *j;
    StrMap given;
} Cursor;

typedef struct CallPlace { // a position in a call: f(a, b, |
    const char *name;      // NULL: not in a call
    int argument;
    const char *named; // for NAME = …; otherwise NULL
    uint32_t open;     // token of its bracket
} CallPlace;

static bool is_text(const Cursor *c, uint32_t i, const char *text)
{
    const Tok *t = &c->v->tokens.at[i];
    size_t n = strlen(text);
    return t->end - t->begin == n && !memcmp(c->d->text + t->begin, text, n);
}

static const char *token_text(const Cursor *c, uint32_t i)
{
    const Tok *t = &c->v->tokens.at[i];
    return arena_strndup(c->a, c->d->text + t->begin, t->end - t->begin);
}

static bool word_char(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static Cursor cursor_at(Server *s, Message *m, const Document *d, size_t at, Json *j)
{
    Cursor c = {s, m->arena, d, d->survey, at, at, 0, j, strmap_new(m->arena)};
    while (c.word && word_char(d->text[c.word - 1])) c.word--;
    while (c.token < c.v->tokens.n && c.v->tokens.at[c.token].end <= c.word) c.token++;
    return c;
}

static CallPlace call_place(const Cursor *c)
{
    CallPlace p = {0};
    int depth = 0;
    for (uint32_t i = c->token; i-- > 0;) {
        int k = c->v->tokens.at[i].kind;
        if (k == ')' || k == ']' || k == '}') depth++;
        if (depth && (k == '(' || k == '[' || k == '{')) {
            depth--;
            continue;
        }
        if (depth) continue;
        if (k == '{') break;
        if (k == '[') p.argument = 0, p.named = NULL; // the call around an index
        if (k == ',') p.argument++;
        if (k == '=' && !p.argument && i) p.named = token_text(c, i - 1);
        if (k != '(') continue;
        bool name = i && c->v->tokens.at[i - 1].kind == 'a';
        bool head = i > 1 && (is_text(c, i - 2, "fn") || is_text(c, i - 2, "model"));
        if (name && !head) p.name = token_text(c, i - 1), p.open = i;
        if (name) break;
        p.argument = 0, p.named = NULL; // brackets around a value
    }
    return p;
}

// -- completion -----------------------------------------------------------------------------------
static void offer(Cursor *c, const char *label, int kind, const char *detail, const char *doc,
                  const char *insert)
{
    static const char order[] = {
        [KIND_PROPERTY] = '0', [KIND_VARIABLE] = '1', [KIND_FUNCTION] = '2', [KIND_KEYWORD] = '4'};
    // `dim` is both a keyword and a function.
    const char *key = arena_printf(c->a, "%d %s", kind == KIND_KEYWORD, label);
    if (strmap_has(&c->given, key)) return;
    strmap_set(&c->given, key, c);
    json_object(c->j);
    json_key(c->j, "label"), json_string(c->j, label);
    json_key(c->j, "kind"), json_int(c->j, kind);
    if (detail) json_key(c->j, "detail"), json_string(c->j, detail);
    if (doc) json_key(c->j, "documentation"), json_string(c->j, doc);
    if (insert) json_key(c->j, "insertText"), json_string(c->j, insert);
    char rank = kind < (int)sizeof order && order[kind] ? order[kind] : '3';
    json_key(c->j, "sortText"), json_string(c->j, arena_printf(c->a, "%c%s", rank, label));
    json_end(c->j);
}

static int kind_of(const Decl *x)
{
    if (!strcmp(x->kind, "fn")) return KIND_FUNCTION;
    if (!strcmp(x->kind, "model")) return KIND_CLASS;
    if (!strcmp(x->kind, "param") || !strcmp(x->kind, "state")) return KIND_FIELD;
    return x->owner ? KIND_VARIABLE : KIND_CONSTANT;
}

static void offer_decl(Cursor *c, const Decl *x)
{
    const Value *value = x->source == c->v->source ? survey_value(c->v, x->begin, x->end) : NULL;
    offer(c, x->name, kind_of(x), value && x->owner ? value->text : x->head, x->doc, NULL);
}

// In  use "parts/a|  the path up to the cursor; NULL: it is not in such a path.
static const char *quoted_path(const Cursor *c)
{
    const char *end = c->d->text + c->at, *p = end;
    while (p > c->d->text && p[-1] != '\n') p--;
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    if (end - p < 5 || memcmp(p, "use", 3)) return NULL;
    for (p += 3; p < end && (*p == ' ' || *p == '\t'); p++) {
    }
    if (p == end || (*p != '"' && *p != '\'') || memchr(p + 1, *p, (size_t)(end - p - 1)))
        return NULL;
    return arena_strndup(c->a, p + 1, (size_t)(end - p - 1));
}

// path: that of a file in quotes, as far as it is written, or NULL: a name is being written.
static void offer_files(Cursor *c, const char *path)
{
    const JsonValue *all = json_get(c->v->json, "standard");
    for (const JsonValue *v = all && !path ? all->child : NULL; v; v = v->next)
        offer(c, v->string, KIND_MODULE, "the standard library", NULL, NULL);
    const char *slash = strrchr(c->d->path, '/'), *last = path ? strrchr(path, '/') : NULL;
    if (!slash) return;
    const char *in =
        arena_printf(c->a, "%.*s/%.*s", path && *path == '/' ? 0 : (int)(slash - c->d->path),
                     c->d->path, last ? (int)(last - path) + 1 : 0, path ? path : "");
    DIR *folder = opendir(in);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        size_t n = strlen(e->d_name);
        bool itself = !last && !strcmp(e->d_name, slash + 1);
        if (path && e->d_type == DT_DIR && *e->d_name != '.')
            offer(c, arena_printf(c->a, "%s/", e->d_name), KIND_FOLDER, NULL, NULL, NULL);
        if (n < 5 || strcmp(e->d_name + n - 4, ".net") || itself) continue;
        offer(c, arena_strndup(c->a, e->d_name, path ? n : n - 4), KIND_FILE, e->d_name, NULL,
              NULL);
    }
    if (folder) closedir(folder);
}

// Offers what may follow NAME. : definitions of the file with that name, or parameters whose path
// begins with it.
static void offer_members(Cursor *c, uint32_t dot)
{
    uint32_t first = dot;
    while (first >= 2 && c->v->tokens.at[first].kind == '.' &&
           c->v->tokens.at[first - 1].kind == 'a')
        first -= 2;
    size_t from = c->v->tokens.at[first + (c->v->tokens.at[first].kind == '.' ? 0 : 1)].begin;
    if (c->v->tokens.at[first].kind == '.' && first) from = c->v->tokens.at[first - 1].begin;
    const char *path = arena_strndup(c->a, c->d->text + from, c->v->tokens.at[dot].end - from);
    size_t n = strlen(path);
    const JsonValue *names = json_get(c->v->json, "names");
    for (const JsonValue *v = names ? names->child : NULL; v; v = v->next) {
        if (strncmp(v->string, path, n) || strchr(v->string, ' ')) continue;
        const char *rest = v->string + n;
        offer(c, arena_strndup(c->a, rest, strcspn(rest, ".")), KIND_FIELD, v->string, NULL, NULL);
    }
    for (uint32_t k = 0; k < c->v->decls.n; k++) {
        const Decl *x = &c->v->decls.at[k];
        const char *file = x->source < c->v->sources.n ? c->v->sources.at[x->source].name : NULL;
        if (!x->owner && file && n && strlen(file) == n - 1 && !strncmp(file, path, n - 1))
            offer_decl(c, x);
    }
}

static void offer_arguments(Cursor *c)
{
    CallPlace p = call_place(c);
    const Decl *fn = p.name ? survey_function(c->v, p.name) : NULL;
    const Builtin *b = p.name && !fn ? survey_builtin(c->v, p.name) : NULL;
    if (p.named) return; // the value of a named argument is being written
    for (uint32_t i = 0; fn && i < c->v->decls.n; i++) {
        const Decl *x = &c->v->decls.at[i];
        if (x->owner != (uint32_t)(fn - c->v->decls.at) + 1 || strcmp(x->kind, "argument"))
            continue;
        const char *label = arena_printf(c->a, "%s =", x->name);
        offer(c, label, KIND_PROPERTY, x->head, NULL, arena_printf(c->a, "%s = ", x->name));
    }
    for (const char *w = b && b->params ? b->params : ""; *w;) {
        size_t n = strcspn(w, " ?");
        const char *name = arena_strndup(c->a, w, n);
        offer(c, arena_printf(c->a, "%s =", name), KIND_PROPERTY, NULL, NULL,
              arena_printf(c->a, "%s = ", name));
        w += n;
        w += strspn(w, " ?");
    }
}

// Offers the words of the function around the cursor, which the syntax tree may lack while it is
// being written.
static void offer_locals(Cursor *c)
{
    uint32_t first = 0, last = c->v->tokens.n;
    for (uint32_t i = 0; i < c->v->tokens.n; i++) {
        size_t at = c->v->tokens.at[i].begin;
        bool top = (!at || c->d->text[at - 1] == '\n') && c->v->tokens.at[i].kind == 'a';
        if (top && i < c->token) first = i;
        if (top && i > c->token && last == c->v->tokens.n) last = i;
    }
    static const char *const bodies[] = {"fn", "model", "train", "extern"};
    bool body = false;
    for (size_t k = 0; k < sizeof bodies / sizeof *bodies && first < c->v->tokens.n; k++)
        body = body || is_text(c, first, bodies[k]);
    for (uint32_t i = 0; i < c->v->decls.n && body; i++) {
        const Decl *x = &c->v->decls.at[i];
        const Decl *owner = x->owner ? &c->v->decls.at[x->owner - 1] : NULL;
        if (owner && owner->source == c->v->source && owner->from <= c->at && c->at <= owner->to &&
            *x->name)
            offer_decl(c, x);
    }
    for (uint32_t i = first; i + 1 < last && body; i++) {
        const Tok *t = &c->v->tokens.at[i], *next = t + 1;
        bool given =
            t->kind == 'a' && (next->kind == '=' || next->kind == ',' || next->kind == ')');
        if (given && !(t->begin <= c->at && c->at <= t->end) && i && t[-1].kind != '.')
            offer(c, token_text(c, i), KIND_VARIABLE, NULL, NULL, NULL);
    }
}

static void offer_words(Cursor *c, const char *key, int kind)
{
    const JsonValue *all = json_get(c->v->json, key);
    for (const JsonValue *v = all ? all->child : NULL; v; v = v->next)
        offer(c, v->string, kind, NULL, NULL, NULL);
}

static void offer_everything(Cursor *c)
{
    offer_arguments(c);
    for (uint32_t i = 0; i < c->v->decls.n; i++) {
        const Decl *x = &c->v->decls.at[i];
        if (!x->owner && *x->name && strcmp(x->kind, "train") && survey_sees(c->v, x->source))
            offer_decl(c, x);
    }
    offer_locals(c);
    for (uint32_t i = 0; i < c->v->builtins.n; i++) {
        const Builtin *b = &c->v->builtins.at[i];
        offer(c, b->name, b->params ? KIND_FUNCTION : KIND_CONSTANT,
              b->params ? signature_text(c->a, b) : NULL, NULL, NULL);
    }
    for (uint32_t i = 0; i < c->v->sources.n; i++)
        if (c->v->sources.at[i].name && i != c->v->source && survey_sees(c->v, i))
            offer(c, c->v->sources.at[i].name, KIND_MODULE, NULL, NULL, NULL);
    offer_words(c, "heads", KIND_KEYWORD);
    offer_words(c, "clauses", KIND_KEYWORD);
    offer_words(c, "reserved", KIND_KEYWORD);
    offer_words(c, "types", KIND_TYPE);
}

// Whether a type is expected: after the ':' of an argument, a parameter or a state.
static bool wants_type(const Cursor *c)
{
    if (!c->token || c->v->tokens.at[c->token - 1].kind != ':') return false;
    int depth = 0;
    for (uint32_t i = c->token - 1; i-- > 0;) {
        int k = c->v->tokens.at[i].kind;
        if (k == ']' || k == ')' || k == '}') depth++;
        if (k != '[' && k != '(' && k != '{') continue;
        if (!depth--) return k != '[';
    }
    return true;
}

Answer answer_completion(Server *s, Message *m, Json *j)
{
    Document *d;
    size_t at;
    Answer answer = request_place(s, m, &d, &at);
    if (answer != ANSWER_DONE) return answer;
    json_array(j);
    if (!d->survey) return json_end(j), ANSWER_DONE;
    Cursor c = cursor_at(s, m, d, at, j);
    const Tok *in = NULL; // the comment or string that contains the cursor
    for (uint32_t i = 0; i < c.v->tokens.n; i++) {
        const Tok *t = &c.v->tokens.at[i];
        bool inside = t->begin < at && (at < t->end || (t->kind == '#' && at == t->end));
        if ((t->kind == '#' || t->kind == '"') && inside) in = t, c.token = i;
    }
    const char *path = quoted_path(&c);
    if (path || (c.token && is_text(&c, c.token - 1, "use")))
        offer_files(&c, path);
    else if (in)
        ;
    else if (c.token && c.v->tokens.at[c.token - 1].kind == '.')
        offer_members(&c, c.token - 1);
    else if (wants_type(&c))
        offer_words(&c, "types", KIND_TYPE);
    else
        offer_everything(&c);
    json_end(j);
    return ANSWER_DONE;
}

// -- signatures -----------------------------------------------------------------------------------
// The text "sum(x, axis = …, keep = …)".
const char *signature_text(Arena *a, const Builtin *b)
{
    Buf out = buf_new(a);
    buf_printf(&out, "%s(", b->name);
    for (const char *w = b->params; *w;) {
        size_t n = strcspn(w, " ?");
        buf_printf(&out, "%s%.*s%s", w == b->params ? "" : ", ", (int)n, w,
                   w[n] == '?' ? " = …" : "");
        w += n;
        w += strspn(w, " ?");
    }
    buf_char(&out, ')');
    return out.data;
}

typedef struct Signature {
    const char *label, *doc;
    VEC(const char *) params; // as in the label
    int active;
} Signature;

static void from_decl(Cursor *c, const Decl *fn, const CallPlace *p, Signature *out)
{
    Buf label = buf_new(c->a);
    buf_printf(&label, "%s(", fn->name);
    for (uint32_t i = 0; i < c->v->decls.n; i++) {
        const Decl *x = &c->v->decls.at[i];
        if (x->owner != (uint32_t)(fn - c->v->decls.at) + 1 || strcmp(x->kind, "argument"))
            continue;
        if (!x->head) continue; // an argument of the gradient
        if (p->named && !strcmp(p->named, x->name)) out->active = (int)out->params.n;
        buf_printf(&label, "%s%s", out->params.n ? ", " : "", x->head);
        vec_push(c->a, &out->params, x->head);
    }
    buf_char(&label, ')');
    out->label = label.data;
    out->doc = fn->doc;
}

static void from_builtin(Cursor *c, const Builtin *b, const CallPlace *p, Signature *out)
{
    out->label = signature_text(c->a, b);
    for (const char *w = b->params; *w;) {
        size_t n = strcspn(w, " ?");
        const char *name = arena_strndup(c->a, w, n);
        if (p->named && !strcmp(p->named, name)) out->active = (int)out->params.n;
        vec_push(c->a, &out->params, name);
        w += n;
        w += strspn(w, " ?");
    }
}

Answer answer_signature(Server *s, Message *m, Json *j)
{
    Document *d;
    size_t at;
    Answer answer = request_place(s, m, &d, &at);
    if (answer != ANSWER_DONE) return answer;
    if (!d->survey) return json_null(j), ANSWER_DONE;
    Cursor c = cursor_at(s, m, d, at, j);
    while (c.token < c.v->tokens.n && c.v->tokens.at[c.token].end <= at) c.token++;
    CallPlace p = call_place(&c);
    const Decl *fn = p.name ? survey_function(c.v, p.name) : NULL;
    const Builtin *b = p.name && !fn ? survey_builtin(c.v, p.name) : NULL;
    if (!fn && !(b && b->params)) return json_null(j), ANSWER_DONE;
    Signature sig = {.active = p.argument};
    if (fn)
        from_decl(&c, fn, &p, &sig);
    else
        from_builtin(&c, b, &p, &sig);
    json_object(j);
    json_key(j, "signatures"), json_array(j), json_object(j);
    json_key(j, "label"), json_string(j, sig.label);
    if (sig.doc) json_key(j, "documentation"), json_string(j, sig.doc);
    json_key(j, "parameters"), json_array(j);
    for (uint32_t i = 0; i < sig.params.n; i++) {
        json_object(j);
        json_key(j, "label"), json_string(j, sig.params.at[i]);
        json_end(j);
    }
    json_end(j), json_end(j), json_end(j);
    json_key(j, "activeSignature"), json_int(j, 0);
    json_key(j, "activeParameter"), json_int(j, sig.active);
    json_end(j);
    return ANSWER_DONE;
}
