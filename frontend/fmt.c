// netc fmt: formats a source. It works on tokens, so comments and the author's line breaks stay;
// indentation, spaces, blank lines and superfluous semicolons are decided here.
#include <string.h>

#include "frontend/ast.h"
#include "frontend/parse.h"
#include "frontend/token.h"

enum {
    STEP = 4,
    RETURN_STEP = 7
}; // RETURN_STEP: a continued list of returned values is aligned
   // with its first value

typedef struct Level { // an open bracket
    int kind;
    int indent;     // of the line with the bracket, or of the one that this line goes on with
    int stmt, hang; // of the statement that contains it
} Level;

typedef struct Trail {          // a comment after code
    size_t line, code, comment; // offsets in the text: of the line, of the end of the code, of the
                                // comment
} Trail;

typedef struct Fmt {
    Arena *arena;
    const Source *src;
    Buf out;
    const Tokens *raw, *laid; // laid: the same tokens after layout, without comments and newlines
    uint32_t at;              // index in laid of the next token
    VEC(Level) stack;
    VEC(Trail) trails;
    size_t line;    // offset of the current line
    int indent;     // of the current line
    int stmt, hang; // of the current statement: indentation of its line, additional indentation of
                    // continued lines
    int prev;       // kind of the last token on this line, 0 at its start
    int before;     // kind of the last token that is not a comment
    bool unary;     // the last token is a sign, not an operator
} Fmt;

static bool opens(int k)
{
    return k == '(' || k == '[' || k == '{' || k == T_ATTRS || k == T_REGION;
}

static bool closes(int k)
{
    return k == ')' || k == ']' || k == '}' || k == T_END_ATTRS;
}

static bool block(int k)
{
    return k == '{' || k == T_REGION;
}

static bool ends_operand(int k)
{
    return k == T_NAME || k == T_INT || k == T_FLOAT || k == T_STRING || k == T_TRUE ||
           k == T_FALSE || k == ')' || k == ']' || k == T_ELLIPSIS;
}

static int innermost(const Fmt *f)
{
    return f->stack.n ? f->stack.at[f->stack.n - 1].kind : 0;
}

// Whether there is a space between the last token and a token of kind k.
static bool space_before(const Fmt *f, int k)
{
    int p = f->prev, in = innermost(f);
    if (!p || f->unary) return false;
    if (p == '(' || p == '[' || p == T_ATTRS || p == '.' || p == T_RANGE) return false;
    if (k == ')' || k == ']' || k == T_END_ATTRS || k == ',' || k == ';' || k == '.' ||
        k == T_RANGE)
        return false;
    if (block(p)) return k != '}';
    if (k == ':') return p == ',';
    if (p == ':') return in != '[';
    if ((k == '=' || p == '=') && in == T_ATTRS) return false;
    if (k == '(') return !ends_operand(p) && p != T_GRAD;
    if (k == '[') return !ends_operand(p);
    return true;
}

// Whether the next token begins a statement or ends a block.
static bool at_statement(const Fmt *f)
{
    if (!f->at) return true;
    int p = f->laid->list.at[f->at - 1].kind, k = f->laid->list.at[f->at].kind;
    return p == T_SEP || p == '{' || p == T_ARROW || k == T_SEP || k == '}' || k == T_END;
}

// The indentation of a line that begins with the raw token i.
static int line_indent(const Fmt *f, uint32_t i)
{
    const Token *t = f->raw->list.at;
    uint32_t depth = f->stack.n, at = f->at;
    for (; depth && t[i].kind != T_COMMENT && t[i].kind != T_NEWLINE; i++, at++, depth--)
        if (!closes(f->laid->list.at[at].kind))
            break; // only brackets closed at the beginning of
                   // the line count
    if (depth < f->stack.n) return f->stack.at[depth].indent;
    if (f->stack.n && !block(innermost(f))) return f->stack.at[f->stack.n - 1].indent + STEP;
    int base = f->stack.n ? f->stack.at[f->stack.n - 1].indent + STEP : 0;
    if (at_statement(f)) return base;
    int k = f->laid->list.at[f->at].kind;
    bool clause = (k == T_ELSE || k == T_GRAD) && f->laid->list.at[f->at - 1].kind == '}';
    return f->stmt + (clause ? 0 : f->hang);
}

static void put(Fmt *f, const Token *t, int kind)
{
    bool sign = kind == '-' && !ends_operand(f->before) && f->before != T_END_ATTRS;
    if (space_before(f, kind)) buf_char(&f->out, ' ');
    buf_bytes(&f->out, f->src->text + t->span.begin, t->span.end - t->span.begin);
    f->unary = sign;
    f->prev = f->before = kind;
    if (opens(kind)) {
        vec_push(f->arena, &f->stack, (Level){kind, f->indent, f->stmt, f->hang});
    } else if (closes(kind) && f->stack.n) {
        Level l = f->stack.at[--f->stack.n];
        f->stmt = l.stmt;
        f->hang = l.hang;
        if (l.indent < f->indent) f->indent = l.indent; // what follows goes on with that line
    }
}

static void put_comment(Fmt *f, const Token *t)
{
    uint32_t end = t->span.end;
    while (end > t->span.begin && (unsigned char)f->src->text[end - 1] <= ' ') end--;
    if (f->prev) {
        vec_push(f->arena, &f->trails, (Trail){f->line, f->out.len, f->out.len + 2});
        buf_str(&f->out, "  ");
    }
    buf_bytes(&f->out, f->src->text + t->span.begin, end - t->span.begin);
    f->prev = T_COMMENT;
}

// Whether a newline is removed: before '{', and between '}' and a clause that continues the
// statement.
static bool joins(const Fmt *f, uint32_t i)
{
    const Token *t = f->raw->list.at;
    while (t[i].kind == T_NEWLINE) i++;
    if (t[i].kind == T_COMMENT || f->prev == T_COMMENT || !f->prev) return false;
    int k = f->laid->list.at[f->at].kind;
    return k == '{' || (f->before == '}' && (k == T_ELSE || k == T_GRAD));
}

// A ';' is kept only between two statements on one line.
static bool semicolon_stays(const Fmt *f, uint32_t i)
{
    const Token *t = f->raw->list.at;
    int next = t[i + 1].kind;
    return f->prev && f->prev != ';' && !block(f->prev) && f->prev != T_ARROW && next != ';' &&
           next != T_NEWLINE && next != T_COMMENT && next != '}' && next != T_END;
}

static void begin_line(Fmt *f, uint32_t i, int blank)
{
    bool first = !f->out.len;
    bool opened = block(f->before) || f->before == T_ARROW;
    bool closing = f->laid->list.at[f->at].kind == '}' && f->raw->list.at[i].kind != T_COMMENT;
    if (blank && !first && !(opened && f->prev != T_COMMENT) && !closing) buf_char(&f->out, '\n');
    f->indent = line_indent(f, i);
    f->line = f->out.len;
    buf_pad(&f->out, f->indent, ' ');
    f->prev = 0;
}

static void format(Fmt *f)
{
    int newlines = 1; // since the last token
    for (uint32_t i = 0; f->raw->list.at[i].kind != T_END; i++) {
        const Token *t = &f->raw->list.at[i];
        if (t->kind == T_NEWLINE) {
            if (!newlines && joins(f, i)) continue;
            if (!newlines) buf_char(&f->out, '\n');
            newlines++;
            continue;
        }
        if (t->kind == ';' && (newlines || !semicolon_stays(f, i))) {
            if (f->laid->list.at[f->at].kind == T_SEP && newlines) f->at++;
            continue;
        }
        while (t->kind != T_COMMENT && f->laid->list.at[f->at].kind == T_SEP) f->at++;
        if (newlines) begin_line(f, i, newlines > 1);
        newlines = 0;
        if (t->kind == T_COMMENT) {
            put_comment(f, t);
        } else if (t->kind == ';') {
            put(f, t, ';');
        } else {
            int kind = f->laid->list.at[f->at].kind;
            if (at_statement(f)) {
                f->stmt = f->indent;
                f->hang = kind == T_RETURN ? RETURN_STEP : STEP;
            }
            put(f, t, kind);
            f->at++;
        }
    }
    if (!newlines) buf_char(&f->out, '\n');
}

static size_t columns(const char *s, size_t n)
{
    size_t c = 0;
    for (size_t i = 0; i < n; i++) c += ((unsigned char)s[i] & 0xC0) != 0x80;
    return c;
}

// Aligns comments after code on consecutive lines.
static const char *align_comments(const Fmt *f)
{
    Buf out = buf_new(f->arena);
    const char *text = f->out.data;
    size_t done = 0, n = f->trails.n;
    for (size_t i = 0, end; i < n; i = end) {
        size_t widest = 0;
        for (end = i; end < n; end++) {
            const Trail *t = &f->trails.at[end];
            size_t gap = end > i ? t->line - f->trails.at[end - 1].comment : 0;
            if (gap && memchr(text + t->line - gap, '\n', gap - 1)) break;
            size_t w = columns(text + t->line, t->code - t->line);
            widest = w > widest ? w : widest;
        }
        for (size_t k = i; k < end; k++) {
            const Trail *t = &f->trails.at[k];
            buf_bytes(&out, text + done, t->code - done);
            buf_pad(&out, (int)(widest - columns(text + t->line, t->code - t->line) + 2), ' ');
            done = t->comment;
        }
    }
    buf_bytes(&out, text + done, f->out.len - done);
    return out.data;
}

const char *format_source(Arena *a, Diags *d, uint32_t source)
{
    uint32_t errors = d->errors;
    parse_source(a, d, source);
    if (d->errors != errors) return NULL;
    Tokens raw, laid;
    scan_source(a, d, source, &raw);
    layout_tokens(a, d, &raw, &laid);
    Fmt f = {
        .arena = a, .src = &d->sources.at[source], .out = buf_new(a), .raw = &raw, .laid = &laid};
    format(&f);
    return align_comments(&f);
}
