// Layout: decides which newlines end a statement and which words are keywords, and checks that
// brackets balance. So the grammar needs no feedback into the scanner, and a missing bracket is
// reported where it was opened instead of at the end of the file.
#include <string.h>

#include "base/names.h"
#include "frontend/parse.h"
#include "frontend/token.h"

typedef struct Open {
    int kind;        // '(', '[', '{', T_ATTRS or T_REGION
    uint32_t index;  // index in out
    uint32_t indent; // of the line with the bracket
    Span span;
} Open;

typedef struct Layout {
    Arena *arena;
    Diags *diags;
    const Tokens *raw;
    Tokens *out;
    VEC(Open) stack;
    VEC(uint32_t) match; // parallel to out->list
    uint32_t *raw_match; // index of the bracket that closes a raw '(', or 0
    int prev;            // kind of the last token in out, T_SEP at the start
    uint32_t indent;     // of the current line
} Layout;

static bool ends_expr(int k)
{
    return k == T_NAME || k == T_INT || k == T_FLOAT || k == T_STRING || k == T_TRUE ||
           k == T_FALSE || k == ')' || k == ']' || k == T_END_ATTRS || k == '}' || k == T_ELLIPSIS;
}

static bool ends_statement(int k)
{
    return ends_expr(k) || k == T_RETURN || k == T_FROZEN;
}

static bool starts_expr(int k)
{
    return k == T_NAME || k == T_INT || k == T_FLOAT || k == T_STRING || k == T_TRUE ||
           k == T_FALSE || k == T_IF || k == T_RETURN || k == T_FOR;
}

static bool starts_statement(int prev)
{
    return prev == T_SEP || prev == '{' || prev == T_ARROW;
}

static const char *bracket_text(int k)
{
    return k == '(' ? "(" : k == '[' ? "[" : k == T_ATTRS ? "@{" : "{";
}

static int closer_of(int k)
{
    return k == '(' ? ')' : k == '[' ? ']' : k == T_ATTRS ? T_END_ATTRS : '}';
}

static bool is_block(int k)
{
    return k == '{' || k == T_REGION;
}

static void put(Layout *l, Token t)
{
    vec_push(l->arena, &l->out->list, t);
    vec_push(l->arena, &l->match, 0);
    l->prev = t.kind;
}

static void put_closer(Layout *l, Token t)
{
    Open o = l->stack.at[--l->stack.n];
    t.kind = closer_of(o.kind);
    uint32_t index = l->out->list.n;
    put(l, t);
    l->match.at[index] = o.index;
    l->match.at[o.index] = index;
}

// Closes the innermost bracket, which the text does not close.
static void close_unclosed(Layout *l)
{
    Open o = l->stack.at[l->stack.n - 1];
    diag_span(l->diags, o.span, "this '%s' is never closed", bracket_text(o.kind));
    uint32_t at = l->out->list.at[l->out->list.n - 1].span.end;
    put_closer(l, (Token){.span = {o.span.source, at, at}});
}

static uint32_t next_raw(const Layout *l, uint32_t i)
{
    const Token *t = l->raw->list.at;
    for (i++; t[i].kind == T_NEWLINE || t[i].kind == T_COMMENT;) i++;
    return i;
}

static void match_parens(Layout *l)
{
    uint32_t n = l->raw->list.n;
    VEC(uint32_t) open = {0};
    l->raw_match = NEW_ARRAY(l->arena, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        int k = l->raw->list.at[i].kind;
        if (k == '(') vec_push(l->arena, &open, i);
        if (k == ')' && open.n) l->raw_match[open.at[--open.n]] = i;
    }
}

// Whether a '{' opens a region of a dump: { (params) -> statements }.
static bool opens_region(const Layout *l, uint32_t i)
{
    uint32_t paren = next_raw(l, i);
    uint32_t close = l->raw->list.at[paren].kind == '(' ? l->raw_match[paren] : 0;
    return close && l->raw->list.at[next_raw(l, close)].kind == T_ARROW;
}

// Whether a word in a dump is the name of a primitive: word(...) @{...}.
static bool attributed_call(const Layout *l, uint32_t i)
{
    const Token *t = l->raw->list.at;
    uint32_t close = t[i + 1].kind == '(' ? l->raw_match[i + 1] : 0;
    return close && t[next_raw(l, close)].kind == T_ATTRS;
}

enum {
    AFTER_NAME = 1,
    AFTER_STRING = 2,
    AFTER_NUMBER = 4,
    AFTER_PAREN = 8,
    AFTER_PREFIX = 16,
    TOP = 32,
    AFTER_BRACE = 64,
    AFTER_MINUS = 128
};

// Words that begin a statement if the next token fits. TOP: outside of all braces, always.
static const struct Head {
    const char *text;
    int kind, after;
} heads[] = {
    {"fn", T_FN, AFTER_NAME | TOP},
    {"extern", T_EXTERN, AFTER_NAME | TOP},
    {"model", T_MODEL, AFTER_NAME | TOP},
    {"train", T_TRAIN, AFTER_NAME | TOP},
    {"use", T_USE, AFTER_NAME | AFTER_STRING | TOP},
    {"const", T_CONST, AFTER_NAME | TOP},
    {"dim", T_DIM, AFTER_NAME | TOP},
    {"setting", T_SETTING, AFTER_NAME | TOP},
    {"entry", T_ENTRY, AFTER_NAME | AFTER_STRING | TOP},
    {"cell", T_CELL, AFTER_STRING | TOP},
    {"module", T_MODULE, AFTER_NAME | AFTER_STRING | TOP},
    {"param", T_PARAM, AFTER_NAME},
    {"state", T_STATE, AFTER_NAME},
    {"scratch", T_SCRATCH, AFTER_NAME},
    {"loop", T_LOOP, AFTER_NAME},
    {"emit", T_EMIT, AFTER_NAME},
    {"tap", T_TAP, AFTER_NAME | AFTER_PAREN | AFTER_MINUS},
    {"assert", T_ASSERT, AFTER_NAME | AFTER_NUMBER | AFTER_PAREN | AFTER_PREFIX | AFTER_MINUS},
    {"minimize", T_MINIMIZE, AFTER_NAME | AFTER_NUMBER | AFTER_PAREN | AFTER_MINUS},
    {"clip", T_CLIP, AFTER_NAME},
    {"update", T_UPDATE, AFTER_NAME},
    {"evaluate", T_EVALUATE, AFTER_NAME},
    {"recompute", T_RECOMPUTE, AFTER_NAME | AFTER_STRING},
    {"out", T_OUT, AFTER_NAME},
    {"launch", T_LAUNCH, AFTER_NAME},
    {"reference", T_REFERENCE, AFTER_BRACE},
    {"cpu", T_CPU, AFTER_STRING},
    {"accumulate", T_ACCUMULATE, AFTER_NAME | AFTER_NUMBER | AFTER_PAREN},
};

static const struct Head *head_of(const Token *t)
{
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
        if (!strcmp(heads[k].text, t->text)) return &heads[k];
    return NULL;
}

const char *head_word(uint32_t i)
{
    return i < sizeof heads / sizeof *heads ? heads[i].text : NULL;
}

// Words that word_kind recognizes elsewhere than at the beginning of a statement.
const char *clause_word(uint32_t i)
{
    static const char *const words[] = {"carry", "over", "while", "frozen",
                                        "with",  "grad", "cuda",  "from"};
    return i < sizeof words / sizeof *words ? words[i] : NULL;
}

const char *nearest_head(const char *word)
{
    enum { COUNT = sizeof heads / sizeof *heads };
    const char *words[COUNT + 1];
    for (size_t k = 0; k < COUNT; k++) words[k] = heads[k].text;
    words[COUNT] = "return";
    return suggest(word, words, COUNT + 1);
}

static bool reserved(int k)
{
    return k == T_IF || k == T_ELSE || k == T_THEN || k == T_FOR || k == T_IN || k == T_AS ||
           k == T_REUSE || k == T_AND || k == T_OR || k == T_NOT || k == T_RETURN || k == T_TRUE ||
           k == T_FALSE;
}

static bool follows(const struct Head *h, const Token *next)
{
    switch (next->kind) {
    case T_NAME: return h->after & AFTER_NAME;
    case T_STRING: return h->after & AFTER_STRING;
    case T_INT:
    case T_FLOAT: return h->after & AFTER_NUMBER;
    case '(': return h->after & AFTER_PAREN;
    case '{': return h->after & AFTER_BRACE;
    case '-': return h->after & AFTER_MINUS;
    case T_NOT:
    case T_TRUE:
    case T_FALSE:
    case T_IF:
        if (h->after & AFTER_PREFIX) return true;
        break;
    }
    // A keyword used as a name: treated as a declaration, so that the error says what is wrong.
    return reserved(next->kind) &&
           (next[1].kind == ':' || next[1].kind == '=' || next[1].kind == '(') &&
           h->after & AFTER_NAME;
}

// The kind of the word at raw[i] in its context.
static int word_kind(const Layout *l, uint32_t i)
{
    const Token *t = &l->raw->list.at[i];
    const Token *next = t + 1; // raw ends with T_END, so there is one
    const Open *top = l->stack.n ? &l->stack.at[l->stack.n - 1] : NULL;
    if (l->prev == '.' || l->prev == T_AS || l->prev == T_REUSE) return T_NAME;
    if (top && top->kind == T_ATTRS && next->kind == '=') return T_NAME;
    if (t->kind != T_NAME) {
        // Dumps call primitives by name: and(a, b), not(a) @{...}. A function cannot be declared
        // with these names.
        if ((t->kind == T_AND || t->kind == T_OR) && next->kind == '(' && !ends_expr(l->prev) &&
            l->prev != T_FN && l->prev != T_MODEL)
            return T_NAME;
        return t->kind == T_NOT && attributed_call(l, i) ? T_NAME : t->kind;
    }
    if (starts_statement(l->prev)) {
        const struct Head *h = head_of(t);
        if (attributed_call(l, i)) return T_NAME;
        if (h && (follows(h, next) || (h->after & TOP && !l->stack.n))) return h->kind;
        return T_NAME;
    }
    if (l->prev == T_SCRATCH && !strcmp(t->text, "state")) return T_STATE;
    if (!l->stack.n && next->kind == T_STRING) { // fn f(a) = cuda "…" … grad "…"
        if (l->prev == '=' && !strcmp(t->text, "cuda")) return T_CUDA;
        if (ends_expr(l->prev) && !strcmp(t->text, "grad")) return T_GRAD;
    }
    if (!l->stack.n && l->prev == T_STRING && !strcmp(t->text, "reference")) return T_REFERENCE;
    if (l->prev == T_EXTERN && !strcmp(t->text, "fn")) return T_FN;
    if (!l->stack.n && l->prev == ')' && next->kind == T_STRING && !strcmp(t->text, "from"))
        return T_FROM;
    if (!l->stack.n && l->prev == '}' && next->kind == '(' && !strcmp(t->text, "grad"))
        return T_GRAD;
    if (l->prev == T_EVALUATE && !strcmp(t->text, "with")) return T_WITH;
    if (ends_expr(l->prev)) {
        if (!strcmp(t->text, "with")) return T_WITH;
        if (!strcmp(t->text, "over")) return T_OVER;
        if (!strcmp(t->text, "carry")) return T_CARRY;
        if (!strcmp(t->text, "while")) return T_WHILE;
        if (!strcmp(t->text, "frozen")) return T_FROZEN;
    }
    return T_NAME;
}

static bool continues_statement(const Layout *l, uint32_t i)
{
    const Token *t = &l->raw->list.at[i];
    if (t->kind == T_ELSE || t->kind == T_THEN || t->kind == '{' || t->kind == '}') return true;
    if (t->kind != T_NAME || l->stack.n) return false;
    if (!strcmp(t->text, "grad"))
        return (l->prev == '}' && t[1].kind == '(') ||
               (ends_expr(l->prev) && t[1].kind == T_STRING);
    return l->prev == T_STRING && !strcmp(t->text, "reference");
}

// Closes brackets before a line that looks like a new statement: it follows a complete expression
// inside an open ( or [, and is not indented more than the line with the bracket.
static void close_at_new_line(Layout *l, const Token *t)
{
    if (!ends_expr(l->prev) || !starts_expr(t->kind)) return;
    while (l->stack.n && !is_block(l->stack.at[l->stack.n - 1].kind) &&
           l->indent <= l->stack.at[l->stack.n - 1].indent)
        close_unclosed(l);
}

// Closes all braces before a top-level declaration in the first column: they must have been
// forgotten.
static void close_at_declaration(Layout *l, const Token *t)
{
    const struct Head *h = t->kind == T_NAME ? head_of(t) : NULL;
    if (!h || !(h->after & TOP) || l->indent || !follows(h, t + 1)) return;
    while (l->stack.n) close_unclosed(l);
}

static void open_bracket(Layout *l, Token t, uint32_t raw_index)
{
    if (t.kind == '{' && opens_region(l, raw_index)) t.kind = T_REGION;
    while (t.kind == '{' && l->stack.n && !is_block(l->stack.at[l->stack.n - 1].kind))
        close_unclosed(l); // a block is never inside round or square brackets
    if (l->stack.n == MAX_NESTING) {
        diag_span(l->diags, t.span, "brackets are nested more than %d deep", MAX_NESTING);
        l->out->fatal = true;
    }
    vec_push(l->arena, &l->stack, (Open){t.kind, l->out->list.n, l->indent, t.span});
    put(l, t);
}

static bool closes(int closer, int open)
{
    return closer == '}' ? open != '(' && open != '[' : closer == closer_of(open);
}

static void close_bracket(Layout *l, Token t)
{
    uint32_t k = l->stack.n; // the nearest bracket that t closes
    while (k && !closes(t.kind, l->stack.at[k - 1].kind)) {
        if (t.kind != '}' && is_block(l->stack.at[k - 1].kind)) k = 1;
        k--;
    }
    if (!k) {
        if (l->stack.n && !is_block(l->stack.at[l->stack.n - 1].kind)) {
            Open o = l->stack.at[l->stack.n - 1];
            Diag *g = diag_span(l->diags, t.span, "'%c' does not close the '%s' before it", t.kind,
                                bracket_text(o.kind));
            diag_note_span(l->diags, g, o.span, "'%s' opened here", bracket_text(o.kind));
            put_closer(l, t);
            return;
        }
        diag_span(l->diags, t.span, "'%c' closes nothing: there is no open '%s' here", t.kind,
                  t.kind == ')'   ? "("
                  : t.kind == ']' ? "["
                                  : "{");
        return;
    }
    while (l->stack.n > k) close_unclosed(l);
    put_closer(l, t);
}

// Whether the last token is a sign rather than a subtraction.
static bool after_sign(const Layout *l)
{
    uint32_t n = l->out->list.n;
    return l->prev == '-' && (n < 2 || !ends_expr(l->out->list.at[n - 2].kind));
}

void layout_tokens(Arena *a, Diags *d, const Tokens *raw, Tokens *out)
{
    *out = (Tokens){.fatal = raw->fatal};
    Layout l = {.arena = a, .diags = d, .raw = raw, .out = out, .prev = T_SEP};
    match_parens(&l);
    out->list.cap = l.match.cap = raw->list.n + 8;
    out->list.at = NEW_ARRAY(a, Token, out->list.cap);
    l.match.at = NEW_ARRAY(a, uint32_t, l.match.cap);
    bool newline = false, semicolon = false;
    uint32_t line_start = 0;
    Span sep = {0};
    for (uint32_t i = 0; i < raw->list.n && !out->fatal; i++) {
        Token t = raw->list.at[i];
        bool in_block = !l.stack.n || is_block(l.stack.at[l.stack.n - 1].kind);
        if (t.kind == T_COMMENT) continue;
        if (t.kind == T_NEWLINE || (t.kind == ';' && in_block)) {
            if (!newline && !semicolon) sep = t.span;
            if (t.kind == ';')
                semicolon = true;
            else
                newline = true, line_start = t.span.end;
            continue;
        }
        if (newline || !l.out->list.n) {
            l.indent = t.span.begin - line_start;
            if (!in_block) close_at_new_line(&l, &t);
            close_at_declaration(&l, &raw->list.at[i]);
            in_block = !l.stack.n || is_block(l.stack.at[l.stack.n - 1].kind);
        }
        if (t.kind == T_END)
            while (l.stack.n) close_unclosed(&l);
        bool ended = l.prev != T_SEP && l.prev != '{' && l.prev != T_ARROW && t.kind != '}' &&
                     t.kind != T_END;
        if (in_block && ended &&
            (semicolon || (newline && ends_statement(l.prev) && !continues_statement(&l, i))))
            put(&l, (Token){.kind = T_SEP, .span = sep});
        newline = semicolon = false;
        if (t.kind == '(' || t.kind == '[' || t.kind == '{' || t.kind == T_ATTRS) {
            open_bracket(&l, t, i);
        } else if (t.kind == ')' || t.kind == ']' || t.kind == '}') {
            close_bracket(&l, t);
        } else {
            if (t.text && (t.kind == T_NAME || reserved(t.kind))) t.kind = word_kind(&l, i);
            if (t.kind == T_INT && t.i == INT64_MIN && *t.text != '0' && !after_sign(&l))
                diag_span(d, t.span, "integer %s does not fit in 64 bits", t.text);
            put(&l, t);
        }
    }
    out->match = l.match.at;
}
