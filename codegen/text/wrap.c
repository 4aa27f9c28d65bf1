// Long lines of a kernel's text, broken as a person would: at commas and operators, as far out as
// possible, with the rest indented.
#include <string.h>

#include "base/plain.h"
#include "codegen/text/print.h"

enum { COLUMNS = 100, INDENT = 4, OPENING = 9 };

static bool starts(const char *p, const char *end, const char *with)
{
    const size_t n = strlen(with);
    return (size_t)(end - p) >= n && !memcmp(p, with, n);
}

// How well the operators at a place where a line may be broken (before p) hold together; 0: a comma
// or semicolon; the most: an opening bracket; -1: no such place.
static int binding(const char *p, const char *end)
{
    static const char *const operators[] = {"? ", ": ", "|| ", "&& ", "| ", "+ ", "- ", "* ", NULL};
    if (p[-1] == '(') return OPENING;
    if (p[-1] != ' ') return -1;
    if (p[-2] == ',' || p[-2] == ';') return 0;
    for (int i = 0; operators[i]; i++)
        if (starts(p, end, operators[i])) return i + 1;
    return -1;
}

// +1 or -1 if a bracket opens or closes at p, the angle brackets of templates among them (those of
// comparisons have spaces around them).
static int depth_step(const char *p, const char *text, const char *end)
{
    if (strchr("([{", *p)) return 1;
    if (strchr(")]}", *p)) return -1;
    const char before = p > text ? p[-1] : ' ', after = p + 1 < end ? p[1] : ' ';
    if (*p == '<' && (plain_alnum(before) || before == '_') && after != '=') return 1;
    if (*p == '>' && before != ' ' && before != '-') return -1;
    return 0;
}

// Where to break a line of which [width] characters fit: the last of the outermost places; after
// "=" if all that follows fits. If there is none, the next one. NULL: nowhere.
static const char *find_break(const char *text, const char *end, long width)
{
    enum { LEVELS = 16 }; // of a depth
    const char *best = NULL, *assigned = NULL;
    int depth = 0, least = 0;
    for (const char *p = text; p < end && (p - text <= width || !best); p++) {
        const int level = p - text > INDENT ? binding(p, end) : -1;
        if (level >= 0 && (!best || depth * LEVELS + level <= least)) {
            best = p;
            least = depth * LEVELS + level;
        }
        if (!depth && p - text > INDENT && starts(p - 3, end, " = ")) assigned = p;
        depth += depth_step(p, text, end);
    }
    return assigned && (!best || least >= LEVELS) && end - assigned <= width - INDENT ? assigned
                                                                                      : best;
}

void wrap_line(Buf *out, int indent, const char *text, size_t n)
{
    // (of a declaration's parameters, which stand on lines of their own, all lines are indented
    // alike)
    const bool inside = *text && strchr(text, '(') == NULL && n && text[n - 1] == ')';
    const char *end = text + n, *comment = NULL;
    for (const char *p = text; !comment && p < end - 3; p++)
        if (starts(p, end, " // ")) comment = p;
    if (indent + (long)n > COLUMNS && comment) { // the comment goes before the line
        buf_pad(out, indent, ' ');
        buf_printf(out, "%.*s\n", (int)(end - comment - 1), comment + 1);
        end = comment;
    }
    for (bool first = true; first || text < end; first = false) {
        const long width = COLUMNS - indent;
        const char *next = end;
        if (end - text > width && *text != '#' && *text != '/') next = find_break(text, end, width);
        if (!next) next = end;
        const char *last = next;
        while (last > text && last[-1] == ' ') last--;
        buf_pad(out, indent, ' ');
        buf_bytes(out, text, (size_t)(last - text));
        buf_char(out, '\n');
        text = next;
        if (first && !inside) indent += INDENT;
    }
}
