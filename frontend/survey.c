// Surveys: the values of names, the heads and comments of declarations, built-in functions.
#include "frontend/survey.h"

#include <string.h>

#include "base/plain.h"
#include "frontend/elab_survey.h"

const char *const decl_kind_names[] = {"fn",    "model", "const", "dim",    "setting", "argument",
                                       "local", "param", "state", "output", "train"};

enum { LONGEST = 200 };

// -- values ---------------------------------------------------------------------------------------
static const Type *type_of(const Val *v)
{
    return v->kind == V_TENSOR ? &v->node->type : v->kind == V_CELL ? &v->cell->cell.type : NULL;
}

static void put_value(Elab *e, Buf *b, const Val *v, int depth)
{
    const Type *t = type_of(v);
    uint32_t n = v->kind == V_LIST || v->kind == V_TUPLE ? v->seq->n : 0;
    if (t) {
        type_print(b, t, e->module->symbols.at);
    } else if (v->kind == V_FLOAT) {
        buf_double(b, v->f);
    } else if (v->kind == V_INT) {
        buf_printf(b, "%lld", (long long)v->i);
    } else if (v->kind == V_STRING) {
        buf_printf(b, "\"%.*s\"", LONGEST, v->s);
    } else if (v->kind == V_LIST || v->kind == V_TUPLE) {
        buf_char(b, v->kind == V_LIST ? '[' : '(');
        for (uint32_t i = 0; i < n && b->len < LONGEST && depth < 4; i++) {
            if (i) buf_str(b, ", ");
            put_value(e, b, &v->seq->at[i], depth + 1);
        }
        if (b->len >= LONGEST || depth >= 4) buf_str(b, ", …");
        buf_char(b, v->kind == V_LIST ? ']' : ')');
    } else if (v->kind == V_RANGE) {
        buf_printf(b, "%lld..%lld", (long long)v->range.lo, (long long)v->range.hi);
    } else {
        buf_str(b, val_text(e, v));
    }
}

// A hash that distinguishes the values at one place without printing them.
static uint64_t fingerprint(const Val *v)
{
    const Type *t = type_of(v);
    if (t) {
        uint64_t h = hash_mix(t->dtype, t->rank);
        for (int i = 0; i < t->rank; i++) h = hash_mix(h, (uint64_t)t->dim[i]);
        return h;
    }
    if (v->kind == V_INT || v->kind == V_FLOAT) return (uint64_t)v->i;
    if (v->kind == V_FN) return hash_str(v->fn->name);
    return v->kind == V_BOOL ? v->b : 2 + (uint64_t)v->kind;
}

static void another(Elab *e, Seen *seen, const Val *v)
{
    uint64_t print = fingerprint(v);
    for (uint32_t i = 0; i < seen->variants; i++)
        if (seen->print[i] == print) return;
    if (seen->variants == SEEN_VARIANTS) return;
    Buf b = buf_new(e->arena);
    buf_printf(&b, "%s, ", seen->text);
    put_value(e, &b, v, 0);
    seen->print[seen->variants++] = print;
    if (seen->variants == SEEN_VARIANTS) buf_str(&b, ", …");
    seen->text = b.data;
}

void survey_value(Elab *e, Span span, const Val *v)
{
    Survey *s = e->options->survey;
    if (!s || v->kind == V_POISON || v->kind == V_ABSENT || span.source != s->source) return;
    uint64_t key = (uint64_t)span.begin << 32 | span.end, at;
    if (idmap_get(&s->seen_at, key, &at)) {
        another(e, &s->seen.at[at], v);
        return;
    }
    Buf b = buf_new(e->arena);
    put_value(e, &b, v, 0);
    idmap_set(&s->seen_at, key, s->seen.n);
    vec_push(s->arena, &s->seen, (Seen){span, b.data, type_of(v) != NULL, 1, {fingerprint(v)}});
}

// -- texts ----------------------------------------------------------------------------------------
const char *survey_text(const Survey *s, Span span)
{
    const char *text = s->diags->sources.at[span.source].text;
    Buf b = buf_new(s->arena);
    bool gap = false;
    for (uint32_t i = span.begin; i < span.end && b.len < 4 * LONGEST; i++) {
        if (text[i] == '#')
            while (i < span.end && text[i] != '\n') i++;
        gap = gap || plain_space(text[i]);
        if (i >= span.end || plain_space(text[i])) continue;
        if (gap && b.len && b.data[b.len - 1] != '(') buf_char(&b, ' ');
        gap = false;
        buf_char(&b, text[i]);
    }
    return b.data ? b.data : "";
}

const char *survey_head(const Survey *s, const Stmt *x)
{
    Span span = x->span;
    if (x->body) span.end = x->body->span.begin;
    if (span.end < span.begin) span.end = span.begin;
    return survey_text(s, span);
}

// If the line that ends at [end] is only a comment: where the comment begins. Otherwise NULL.
static const char *comment_line(const char *text, const char *end, const char **begin)
{
    const char *p = end;
    while (p > text && p[-1] != '\n') p--;
    *begin = p;
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    return p < end && *p == '#' ? p : NULL;
}

// "# -- layers ------", "########": the heading of a part of the file, which describes no
// statement.
static bool is_ruler(const char *p, const char *end)
{
    while (end > p && plain_space(end[-1])) end--;
    return end - p >= 4 && strchr("-=#*~_", end[-1]) && end[-2] == end[-1] && end[-3] == end[-1] &&
           end[-4] == end[-1];
}

const char *survey_doc(const Survey *s, Span span)
{
    const Source *src = &s->diags->sources.at[span.source];
    const char *text = src->text, *line = text + span.begin, *first = NULL, *begin;
    while (line > text && line[-1] != '\n') line--;
    for (const char *at = line, *p; at > text; at = first = begin) {
        p = comment_line(text, at - 1, &begin);
        if (!p || is_ruler(p, at - 1)) break;
    }
    Buf b = buf_new(s->arena);
    if (first) {
        for (const char *p = first; p < line;) {
            const char *end = strchr(p, '\n');
            while (*p != '#') p++;
            p++;
            if (*p == ' ') p++;
            if (b.len) buf_char(&b, '\n');
            buf_bytes(&b, p, (size_t)(end - p - (end > p && end[-1] == '\r')));
            p = end + 1;
        }
        return b.data ? b.data : "";
    }
    const char *end = strchrnul(text + span.end, '\n'), *p = text + span.end;
    if (strchr(survey_text(s, span), '{'))
        return NULL; // a statement with a body: what follows the brace does not describe it
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    if (p >= end || *p != '#') return NULL;
    if (end[-1] == '\r') end--;
    p += p[1] == ' ' ? 2 : 1;
    return arena_strndup(s->arena, p, (size_t)(end - p));
}

// -- built-ins ------------------------------------------------------------------------------------
const BuiltinInfo *frontend_builtins(Arena *a)
{
    enum { MOST = 4096 };
    const char **names = NEW_ARRAY(a, const char *, MOST);
    uint32_t n = 0;
    builtin_names(NULL, names, &n, MOST);
    BuiltinInfo *out = NEW_ARRAY(a, BuiltinInfo, n + 1);
    static const char *const operands[] = {"", "a", "a b", "a b c"};
    for (uint32_t i = 0; i < n; i++) {
        const Builtin *b = builtin_find(names[i]);
        Op op;
        out[i].name = names[i];
        if (b)
            out[i].params = b->params;
        else if (op_parse(names[i], &op))
            out[i].params = op_info(op)->class == CLS_REDUCE ? "x axis? keep?"
                            : op_info(op)->arity <= 3        ? operands[op_info(op)->arity]
                                                             : NULL;
    }
    return out;
}
