// Syntax errors: their messages, and where parsing continues after them.
#include <string.h>

#include "ir/type.h"
#include "frontend/parse.h"

static bool opens(int k)
{
    return k == '(' || k == '[' || k == '{' || k == T_ATTRS || k == T_REGION;
}

static bool closes(int k)
{
    return k == ')' || k == ']' || k == '}' || k == T_END_ATTRS;
}

// The first token of the statement that contains token k. Skips brackets.
static uint32_t statement_start(const Tokens *t, uint32_t k)
{
    while (k) {
        int kind = t->list.at[k - 1].kind;
        if (kind == T_SEP || kind == '{' || kind == T_ARROW) break;
        k = closes(kind) ? t->match[k - 1] : k - 1;
    }
    return k;
}

static bool has_block(int head)
{
    return head == T_FN || head == T_MODEL || head == T_TRAIN || head == T_ENTRY || head == T_FOR ||
           head == T_IF || head == T_LOOP;
}

// Moves the lexer to where parsing can continue after an error at token k: the end of its statement
// or, if the error is in front of the statement's block, that block.
static void resume(Parser *p, uint32_t k)
{
    const Tokens *t = p->tokens;
    uint32_t start = statement_start(t, k), at = k;
    bool head = has_block(t->list.at[start].kind) && k > start;
    for (uint32_t j = start; head && j < k; j++) {
        if (t->list.at[j].kind == '{') head = false; // the error is after the block
        if (opens(t->list.at[j].kind) && t->match[j] < k) j = t->match[j];
    }
    for (;; at++) {
        int kind = t->list.at[at].kind;
        if (kind == T_END || kind == T_SEP || kind == '}' || (head && kind == '{')) break;
        if (opens(kind)) at = t->match[at];
    }
    p->inject = head && t->list.at[at].kind != '{' ? 2 : 0;
    p->at = at;
}

static const char *token_words(Parser *p, const Token *t)
{
    const Source *src = &p->diags->sources.at[t->span.source];
    switch (t->kind) {
    case T_END: return "end of the file";
    case T_SEP: return src->text[t->span.begin] == ';' ? "';'" : "end of the line";
    case T_NAME: return arena_printf(p->arena, "name '%s'", t->text);
    }
    if (t->span.begin == t->span.end) return "end of the line";
    uint32_t n = t->span.end - t->span.begin;
    const char *kind = t->kind == T_INT || t->kind == T_FLOAT ? "number " : "";
    if (t->kind == T_STRING)
        return arena_printf(p->arena, "string %.*s%s", (int)(n < 40 ? n : 40),
                            src->text + t->span.begin, n > 40 ? "..." : "");
    return arena_printf(p->arena, "%s'%.*s'", kind, (int)n, src->text + t->span.begin);
}

static bool is_word(const Token *t)
{
    return t->text && t->kind != T_NAME && t->kind != T_INT && t->kind != T_FLOAT &&
           t->kind != T_STRING;
}

static bool starts_operand(int k)
{
    return k == T_NAME || k == T_INT || k == T_FLOAT || k == T_STRING || k == T_TRUE ||
           k == T_FALSE;
}

static const char *expected_words(Parser *p, const Expected *e, const Token *before)
{
    if (before->kind == T_RETURN) return "a value";
    if (e->integer) return e->statement ? "a statement" : "an expression";
    Buf b = buf_new(p->arena);
    int n = e->n + e->operator;
    for (int k = 0; k < n; k++)
        buf_printf(&b, "%s%s",
                   !k          ? ""
                   : k + 1 < n ? ", "
                               : " or ",
                   k < e->n ? e->list[k] : "an operator");
    return b.data;
}

// Whether the scanner or the layout has reported an error in this statement. Further errors in it
// would be consequences.
static bool blamed(const Parser *p, uint32_t start, uint32_t k)
{
    Span from = p->tokens->list.at[start].span, to = p->tokens->list.at[k].span;
    for (uint32_t i = p->first_diag; i < p->diags->list.n; i++) {
        Span at = p->diags->list.at[i].span;
        if (at.source == p->source && at.begin >= from.begin && at.begin <= to.begin) return true;
    }
    return false;
}

// The innermost bracket that contains token k, or 0.
static int enclosing(const Tokens *t, uint32_t k)
{
    while (k--) {
        int kind = t->list.at[k].kind;
        if (opens(kind)) return kind;
        if (closes(kind)) k = t->match[k];
    }
    return 0;
}

static uint32_t line_of(const Parser *p, const Token *t)
{
    uint32_t line, col;
    span_line_col(p->diags, t->span, &line, &col);
    return line;
}

// Notes that a statement continues on the next line because a line ends in an operator, perhaps by
// mistake.
static void note_continuation(Parser *p, Diag *g, uint32_t start, uint32_t k)
{
    const Token *t = p->tokens->list.at;
    uint32_t line = line_of(p, &t[k]);
    if (enclosing(p->tokens, k) == '(' || enclosing(p->tokens, k) == '[') return;
    for (uint32_t i = k; i > start; i--) {
        if (line_of(p, &t[i - 1]) == line) continue;
        diag_note_span(p->diags, g, t[i - 1].span,
                       "the statement continues from here: a line does not end after '%.*s'",
                       (int)(t[i - 1].span.end - t[i - 1].span.begin),
                       p->diags->sources.at[p->source].text + t[i - 1].span.begin);
        return;
    }
}

// Suggests the right words if a statement that was not parsed begins with a word of another
// language.
static bool note_foreign(Parser *p, Diag *g, const Token *head)
{
    static const struct {
        const char *word, *instead;
    } table[] = {
        {"elif", "write 'else if'"},
        {"def", "functions begin with 'fn'"},
        {"func", "functions begin with 'fn'"},
        {"function", "functions begin with 'fn'"},
        {"import", "other files are read with 'use'"},
        {"from", "other files are read with 'use'"},
        {"let", "a value gets its name by 'x = ...' alone"},
        {"var", "a value gets its name by 'x = ...' alone"},
        {"while", "a loop has a largest number of iterations: 'loop i in 0..n carry x while x > 1'"},
        {"class", "layers are functions: 'fn name(x) { ... }'"},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (head->kind == T_NAME && !strcmp(head->text, table[k].word))
            return diag_note(p->diags, g, "%s", table[k].instead), true;
    return false;
}

static bool compares(int kind)
{
    return kind == '<' || kind == '>' || kind == T_LE || kind == T_GE || kind == T_EQ ||
           kind == T_NE;
}

static bool joins(int kind)
{
    return compares(kind) || kind == '+' || kind == '*' || kind == '/' || kind == '%' ||
           kind == T_POW || kind == T_AND || kind == T_OR || kind == T_AS || kind == T_REUSE;
}

// Suggests what may have been meant by the token at k and those before it.
static void note_meant(Parser *p, Diag *g, int head, uint32_t k)
{
    const Token *t = &p->tokens->list.at[k];
    DType type;
    if (t->kind == '(' && k && t[-1].kind == T_NAME && dtype_parse(t[-1].text, &type))
        diag_note(p->diags, g, "a shape is written in square brackets: %s[4, 3]", t[-1].text);
    if (t->kind == '=' && (head == T_PARAM || head == T_STATE) && k && t[-1].kind == T_NAME)
        diag_note(p->diags, g, "the type comes before the value: %s: f32[3] = 0", t[-1].text);
    if (k > 1 && t[-1].kind == '.' && t[-2].kind == T_INT)
        diag_note(p->diags, g, "a number needs digits after its point: %s.0", t[-2].text);
    if ((t->kind == T_INT || t->kind == T_FLOAT) && k && t[-1].kind == T_NAME &&
        !strcmp(t[-1].text, "clip"))
        diag_note(p->diags, g, "clip takes a function of the gradients: clip_global_norm(1.0)");
    if (k && t[-1].kind == T_NAME && !strcmp(t[-1].text, "lambda"))
        diag_note(p->diags, g, "a function has a name: fn f(x) { return ... }, beside the model");
    if (t->kind == T_STRING && k && t[-1].kind == T_NAME && !strcmp(t[-1].text, "f"))
        diag_note(p->diags, g, "strings are concatenated with +: \"h.\" + str(i)");
    if (compares(t->kind) && k && (starts_operand(t[-1].kind) || closes(t[-1].kind)))
        diag_note(p->diags, g, "comparisons cannot be chained; write a < b and b < c");
    if (t->kind == ',' && enclosing(p->tokens, k) == '(' &&
        (starts_operand(t[-1].kind) || closes(t[-1].kind)))
        diag_note(p->diags, g, "a list, a shape too, is written in square brackets: [3, 4]");
}

static void describe(Parser *p, uint32_t k, uint32_t start, const Expected *e)
{
    const Token *t = &p->tokens->list.at[k];
    int head = p->tokens->list.at[start].kind, in = enclosing(p->tokens, k);
    const char *what = token_words(p, t);
    bool after_operand = k && (starts_operand(t[-1].kind) || closes(t[-1].kind));
    if (t->kind == '=' && (head == T_IF || head == T_ASSERT))
        diag_span(p->diags, t->span, "'=' gives a name to a value; to compare, write '=='");
    else if (is_word(t) && ((e->name && !e->integer) || t[1].kind == '=' || t[1].kind == T_GETS ||
                            (in == '(' && (head == T_FN || head == T_MODEL))))
        diag_span(p->diags, t->span, "%s is a keyword and cannot be a name", what);
    else if (after_operand && starts_operand(t->kind) && (in == '(' || in == '[' || in == T_ATTRS))
        diag_span(p->diags, t->span, "missing ',' before %s", what);
    else if (t->kind == T_GETS)
        diag_span(p->diags, t->span,
                  "'<-' writes a state and cannot stand here; for 'less than minus' write '< -'");
    else {
        const char *words = expected_words(p, e, t - (k > 0));
        Diag *g = diag_span(p->diags, t->span, "unexpected %s%s%s", what,
                            *words ? ", expected " : "", words);
        if (head == T_ENTRY)
            diag_note(p->diags, g, "write 'model'; 'entry' is for printed graphs only");
        if (head == T_LOOP && (t->kind == T_CARRY || t->kind == T_OVER))
            diag_note(p->diags, g, "the order is 'loop i in 0..n carry x over y = ys while x > 1'");
        if (t->kind == T_IF && after_operand)
            diag_note(p->diags, g, "a choice is written 'if condition then a else b'");
        if (t->kind == T_FOR && in == '[')
            diag_note(p->diags, g,
                      "a list is built in a loop: l = []; for v in list { l = l + [2 * v] }");
        if (head == T_ASSERT && (t->kind == T_SEP || t->kind == '}'))
            diag_note(p->diags, g, "say what went wrong: assert condition, \"message\"");
        if ((head == T_PARAM || head == T_STATE) && t->kind == T_SEP)
            diag_note(p->diags, g,
                      "give its initial value: '= 0', or a function such as uniform(-1, 1)");
        if (head == T_LOOP && t->kind == T_SEP)
            diag_note(
                p->diags, g,
                "'carry', 'over' and 'while' stand in the line of 'loop'; end a line with one of them, "
                "or with a comma, to go on in the next");
        if (k == start && t->kind == T_FLOORDIV)
            diag_note(p->diags, g, "a comment begins with '#'");
        if (k == start && k && joins(t->kind))
            diag_note(p->diags, g, "to continue the line before, end it with %s, or use brackets",
                      what);
        note_meant(p, g, head, k);
        bool foreign = note_foreign(p, g, &p->tokens->list.at[start]);
        if (!foreign && k == start + 1 && head == T_NAME && starts_operand(t->kind)) {
            const char *word = p->tokens->list.at[start].text, *near = nearest_head(word);
            if (near && strcmp(near, word)) diag_note(p->diags, g, "did you mean '%s'?", near);
        }
        note_continuation(p, g, start, k);
    }
}

void syntax_error(Parser *p, bool at_end, const Expected *e)
{
    uint32_t k = p->at - (!at_end && p->at); // index of the unexpected token, the last one
                                             // delivered
    if (k + 1 <= p->last_error || p->diags->errors > p->diags->max_errors) {
        p->dead = true;
        return;
    }
    p->last_error = k + 1;
    uint32_t start = statement_start(p->tokens, k);
    if (!blamed(p, start, k)) describe(p, k, start, e);
    resume(p, k);
}

void sort_syntax_errors(Parser *p)
{
    Diag *at = p->diags->list.at;
    for (uint32_t i = p->first_diag + 1; i < p->diags->list.n; i++) {
        Diag moved = at[i];
        uint32_t k = i;
        for (; k > p->first_diag && moved.span.begin < at[k - 1].span.begin; k--) at[k] = at[k - 1];
        at[k] = moved;
    }
}
