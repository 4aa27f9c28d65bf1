#include "base/diag.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/plain.h"

Diags *diags_new(Arena *a)
{
    Diags *d = NEW(a, Diags);
    d->arena = a;
    d->max_errors = 20;
    source_add(d, "", "", 0, true);
    vec_push(a, &d->locs, (LocEntry){0});
    return d;
}

const char *text_on_one_line(Arena *a, const char *text, size_t n)
{
    char *out = arena_strndup(a, text, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)out[i] < ' ' || out[i] == 127) out[i] = ' ';
    return out;
}

uint32_t source_add(Diags *d, const char *path, const char *text, size_t len, bool library)
{
    Source s = {.path = arena_strdup(d->arena, path), .text = arena_strndup(d->arena, text, len)};
    s.shown = text_on_one_line(d->arena, path, strlen(path));
    s.len = len;
    s.library = library;
    s.nlines = 1;
    for (size_t i = 0; i < len; i++) s.nlines += text[i] == '\n';
    s.line_start = NEW_ARRAY(d->arena, uint32_t, s.nlines);
    s.line_text = NEW_ARRAY(d->arena, const char *, s.nlines);
    uint32_t line = 0;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n') s.line_start[++line] = (uint32_t)i + 1;
    vec_push(d->arena, &d->sources, s);
    return d->sources.n - 1;
}

Loc loc_add(Diags *d, Span span, Loc caller, const char *callee)
{
    vec_push(d->arena, &d->locs, (LocEntry){span, caller, callee});
    return d->locs.n - 1;
}

static Span loc_span(const Diags *d, Loc loc)
{
    return d->locs.at[loc].span;
}

Span loc_user_span(const Diags *d, Loc loc)
{
    for (Loc l = loc; l; l = d->locs.at[l].caller)
        if (!d->sources.at[d->locs.at[l].span.source].library) return d->locs.at[l].span;
    return loc_span(d, loc);
}

void span_line_col(const Diags *d, Span s, uint32_t *line, uint32_t *col)
{
    const Source *src = &d->sources.at[s.source];
    uint32_t at = s.begin < src->len ? s.begin : (uint32_t)src->len, low = 0, high = src->nlines;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (src->line_start[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    *line = low + 1;
    *col = at - src->line_start[low] + 1;
}

const char *loc_text(const Diags *d, Loc loc)
{
    if (!loc) return "";
    Span s = loc_user_span(d, loc);
    uint32_t line, col;
    span_line_col(d, s, &line, &col);
    const Source *src = &d->sources.at[s.source];
    if (!src->line_text) return arena_printf(d->arena, "%s:%u", src->shown, line);
    const char **text = &src->line_text[line - 1];
    if (!*text) *text = arena_printf(d->arena, "%s:%u", src->shown, line);
    return *text;
}

// The bounds of the source line that holds byte [at].
static void line_bounds(const Source *src, uint32_t at, uint32_t *begin, uint32_t *end)
{
    uint32_t len = (uint32_t)src->len;
    if (at > len) at = len;
    *begin = *end = at;
    while (*begin && src->text[*begin - 1] != '\n') --*begin;
    while (*end < len && src->text[*end] != '\n') ++*end;
}

const char *loc_line(const Diags *d, Loc loc)
{
    Span s = loc_user_span(d, loc);
    const Source *src = &d->sources.at[s.source];
    uint32_t b, e;
    line_bounds(src, s.begin, &b, &e);
    bool quoted = false;
    for (uint32_t i = b; i < e; i++) {
        if (src->text[i] == '"') quoted = !quoted;
        if (src->text[i] == '#' && !quoted) e = i;
    }
    while (b < e && (src->text[b] == ' ' || src->text[b] == '\t')) b++;
    while (e > b && (src->text[e - 1] == ' ' || src->text[e - 1] == '\t')) e--;
    return text_on_one_line(d->arena, src->text + b, e - b);
}

static Diag *not_kept(Diags *d, Diag diag)
{
    Diag *lost = NEW(d->arena, Diag);
    *lost = diag;
    return lost;
}

static Diag *add(Diags *d, Diag diag)
{
    d->errors++;
    if (d->errors > d->max_errors) return not_kept(d, diag);
    vec_push(d->arena, &d->list, diag);
    return &d->list.at[d->list.n - 1];
}

static bool is_said(const Diags *d, const Diag *diag)
{
    for (uint32_t i = 0; i < d->list.n; i++) {
        const Diag *x = &d->list.at[i];
        if (x->placed && x->span.source == diag->span.source && x->span.begin == diag->span.begin &&
            x->span.end == diag->span.end && !strcmp(x->text, diag->text))
            return true;
    }
    return false;
}

Diag *diag_span(Diags *d, Span span, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    Diag diag = {.span = span, .placed = true, .text = arena_vprintf(d->arena, fmt, args)};
    va_end(args);
    return add(d, diag);
}

static void call_chain(Diags *d, Diag *diag, Loc loc)
{
    enum { SHOWN = 8 };
    Span shown = diag->span;
    int n = 0;
    for (Loc l = loc; l && n < SHOWN; l = d->locs.at[l].caller) {
        const LocEntry *e = &d->locs.at[l];
        if (e->span.source == shown.source && e->span.begin == shown.begin) continue;
        if (l == loc)
            diag_note_span(d, diag, e->span, "raised here");
        else
            diag_note_span(d, diag, e->span, "in '%s', called from here",
                           e->callee ? e->callee : "?");
        n++;
    }
}

Diag *diag_error(Diags *d, Loc loc, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    Diag new = {.span = loc_user_span(d, loc), .placed = loc != 0};
    new.text = arena_vprintf(d->arena, fmt, args);
    va_end(args);
    bool again = new.placed &&is_said(d, &new);
    d->repeats += again;
    Diag *diag = again ? not_kept(d, new) : add(d, new);
    call_chain(d, diag, loc);
    return diag;
}

void diag_note_span(Diags *d, Diag *diag, Span span, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vec_push(d->arena, &diag->notes, (DiagNote){span, arena_vprintf(d->arena, fmt, args)});
    va_end(args);
}

void diag_note(Diags *d, Diag *diag, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vec_push(d->arena, &diag->notes, (DiagNote){{0}, arena_vprintf(d->arena, fmt, args)});
    va_end(args);
}

static void render_place(const Diags *d, Buf *out, Span s)
{
    uint32_t line, col;
    span_line_col(d, s, &line, &col);
    buf_printf(out, "%s:%u:%u: ", d->sources.at[s.source].shown, line, col);
}

static bool starts_column(char c) // false for a UTF-8 continuation byte
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

// Prints the source line and a caret under the span. Control characters and tabs become single
// spaces; of a long line, only the surroundings of the span are shown.
static void render_line(const Diags *d, Buf *out, Span s, const char *on, const char *off)
{
    enum { BEFORE = 80, AFTER = 120 };
    const Source *src = &d->sources.at[s.source];
    const char *text = src->text;
    uint32_t b, e, line, col;
    line_bounds(src, s.begin, &b, &e);
    span_line_col(d, s, &line, &col);
    bool from = s.begin - b > BEFORE && e - b > BEFORE + AFTER, to = e - s.begin > BEFORE + AFTER;
    if (from) b = s.begin - BEFORE;
    if (to) e = s.begin + AFTER;
    while (from && b < s.begin && !starts_column(text[b])) b++;
    while (to && e > s.begin && !starts_column(text[e])) e--;
    buf_printf(out, "%5u | %s", line, from ? "..." : "");
    for (uint32_t i = b; i < e; i++) buf_char(out, (unsigned char)text[i] < ' ' ? ' ' : text[i]);
    buf_printf(out, "%s\n      | %s", to ? "..." : "", from ? "   " : "");
    for (uint32_t i = b; i < s.begin && i < e; i++)
        if (starts_column(text[i])) buf_char(out, ' ');
    uint32_t end = s.end < e ? s.end : e;
    buf_str(out, on);
    buf_char(out, '^');
    for (uint32_t i = s.begin + 1; i < end; i++)
        if (starts_column(text[i])) buf_char(out, '~');
    buf_printf(out, "%s\n", off);
}

void diags_render(const Diags *d, Buf *out, bool color)
{
    const char *bold = color ? "\033[1m" : "", *red = color ? "\033[1;31m" : "";
    const char *cyan = color ? "\033[1;36m" : "", *off = color ? "\033[0m" : "";
    for (uint32_t i = 0; i < d->list.n; i++) {
        const Diag *g = &d->list.at[i];
        buf_str(out, bold);
        if (g->placed) render_place(d, out, g->span);
        buf_printf(out, "%serror: %s%s%s%s\n", red, off, bold, g->text, off);
        if (g->placed) render_line(d, out, g->span, red, off);
        for (uint32_t k = 0; k < g->notes.n; k++) {
            const DiagNote *n = &g->notes.at[k];
            bool placed = n->span.source || n->span.end;
            if (placed) render_place(d, out, n->span);
            buf_printf(out, "%s%snote:%s %s\n", placed ? "" : "  ", cyan, off, n->text);
            if (placed) render_line(d, out, n->span, cyan, off);
        }
    }
    if (d->errors > d->max_errors)
        buf_printf(out, "%u more error%s not shown\n", d->errors - d->max_errors,
                   plural(d->errors - d->max_errors));
}

static void json_place(const Diags *d, Json *j, Span s)
{
    uint32_t line, col;
    span_line_col(d, s, &line, &col);
    json_key(j, "file"), json_string(j, d->sources.at[s.source].path);
    json_key(j, "line"), json_int(j, line);
    json_key(j, "column"), json_int(j, col);
}

void diags_json(const Diags *d, Buf *out)
{
    Json j = json_writer(out);
    json_array(&j);
    for (uint32_t i = 0; i < d->list.n; i++) {
        const Diag *g = &d->list.at[i];
        json_object(&j);
        json_key(&j, "severity"), json_string(&j, "error");
        json_key(&j, "message"), json_string(&j, g->text);
        if (g->placed) json_place(d, &j, g->span);
        json_key(&j, "notes"), json_array(&j);
        for (uint32_t k = 0; k < g->notes.n; k++) {
            json_object(&j);
            json_key(&j, "message"), json_string(&j, g->notes.at[k].text);
            if (g->notes.at[k].span.source) json_place(d, &j, g->notes.at[k].span);
            json_end(&j);
        }
        json_end(&j), json_end(&j);
    }
    json_end(&j);
}
