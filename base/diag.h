// Source files, locations and diagnostics. A Span is a byte range of a source; a Loc is a span plus
// the chain of calls it was reached through, so that every later stage can point into the model.
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"

typedef struct Span {
    uint32_t source;     // index into Diags.sources
    uint32_t begin, end; // byte offsets, end exclusive
} Span;

typedef uint32_t Loc; // index into Diags.locs; 0 means "nowhere"

typedef struct Source {
    const char *path;
    const char *shown; // the path, made printable on one line, as shown in messages, comments and
                       // texts
    const char *text;  // NUL-terminated
    size_t len;
    bool library;                 // part of the embedded standard library
    uint32_t *line_start, nlines; // byte offsets of lines, for binary search
    const char **line_text;       // results of loc_text, by line
} Source;

typedef struct DiagNote {
    Span span; // source 0 with begin == end == 0: a note without a place
    const char *text;
} DiagNote;

typedef struct Diag {
    Span span;
    bool placed; // span is meaningful
    const char *text;
    VEC(DiagNote) notes;
} Diag;

typedef struct LocEntry {
    Span span;
    Loc caller;         // 0 at top level
    const char *callee; // the function entered here, for "in linear(...), called from here"
} LocEntry;

typedef struct Diags {
    Arena *arena;
    VEC(Source) sources; // sources.at[0] is a nameless empty source
    VEC(LocEntry) locs;  // locs.at[0] is "nowhere"
    VEC(Diag) list;
    uint32_t errors;
    uint32_t repeats;    // errors that were reported before; see diag_error
    uint32_t max_errors; // further errors are counted, not kept; default 20
} Diags;

// The text with control characters replaced by spaces, for comments, which must end with their
// line.
const char *text_on_one_line(Arena *a, const char *text, size_t n);

Diags *diags_new(Arena *a);
uint32_t source_add(Diags *d, const char *path, const char *text, size_t len, bool library);
Loc loc_add(Diags *d, Span span, Loc caller, const char *callee);
// The innermost place outside the standard library: the line of the user's model that is
// responsible.
Span loc_user_span(const Diags *d, Loc loc);
void span_line_col(const Diags *d, Span s, uint32_t *line, uint32_t *col); // both from 1
// "mlp.net:11" of loc_user_span, or "" for nowhere. In the arena.
const char *loc_text(const Diags *d, Loc loc);
// The source line of loc_user_span, trimmed, without its comment. In the arena.
const char *loc_line(const Diags *d, Loc loc);

// Each returns the new diagnostic for notes, never NULL. Messages start lower case, no full stop.
Diag *diag_span(Diags *d, Span span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// Reports an error at loc, at the user's line, with a note for every call that led there. The same
// message for the same line is reported once, since a line may be elaborated many times.
Diag *diag_error(Diags *d, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_note(Diags *d, Diag *diag, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_note_span(Diags *d, Diag *diag, Span span, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// Renders every diagnostic: path:line:col: error: text, the line, a caret under the span, notes.
void diags_render(const Diags *d, Buf *out, bool color);
void diags_json(const Diags *d, Buf *out); // an array of objects

#endif
