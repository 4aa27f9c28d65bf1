// The layout of a kernel's text. Long lines are broken as a person would: at commas and operators,
// as far out as possible, with the rest indented. Blocks lose the braces that nothing needs.
#include <string.h>

#include "base/plain.h"
#include "codegen/text/print.h"

enum { COLUMNS = 100, INDENT = 4, OPENING = 9 };

static bool in_word(char c)
{
    return plain_alnum(c) || c == '_';
}

static bool starts(const char *p, const char *end, const char *with)
{
    const size_t n = strlen(with);
    return (size_t)(end - p) >= n && !memcmp(p, with, n);
}

// -- long lines -----------------------------------------------------------------------------------

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
    if (*p == '<' && in_word(before) && after != '=') return 1;
    if (*p == '>' && before != ' ' && before != '-') return -1;
    return 0;
}

// Where to break a line of which [width] characters fit: the last of the outermost places; after
// "=" if all that follows fits. If there is none, the next one. NULL: nowhere.
static const char *find_break(const char *text, const char *end, long width)
{
    enum { LEVELS = 16 }; // of a depth
    const char *best = NULL, *assigned = NULL;
    int depth = 0, least = 0, angles = 0; // angles: angle brackets that are open
    for (const char *p = text; p < end && (p - text <= width || !best); p++) {
        const int level = p - text > INDENT && !angles ? binding(p, end) : -1;
        if (level >= 0 && (!best || depth * LEVELS + level <= least)) {
            best = p;
            least = depth * LEVELS + level;
        }
        if (!depth && p - text > INDENT && starts(p - 3, end, " = ")) assigned = p;
        const int step = depth_step(p, text, end);
        depth += step;
        if (*p == '<' || *p == '>') angles += step;
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

// -- braces ---------------------------------------------------------------------------------------

static const char *after_word(const char *p)
{
    while (in_word(*p)) p++;
    return p;
}

// Whether a line declares a variable: it begins with two words, a type and a name.
static bool is_declaration(const char *line)
{
    static const char *const others[] = {"for", "if", "while", "return", "else", NULL};
    const char *p = after_word(line);
    if (p == line) return false;
    for (const char *const *o = others; *o; o++)
        if (strlen(*o) == (size_t)(p - line) && !memcmp(line, *o, (size_t)(p - line))) return false;
    if (*p == '<')
        while (*p && *p != '\n' && *p++ != '>') {
        }
    return *p == ' ' && (in_word(p[1]) || strchr("*&(", p[1]));
}

// Whether a name that the line declares occurs in [text]. (Names that it only uses, after "=", do
// not matter.)
static bool declares_one_of(Arena *a, const char *line, const char *text)
{
    bool value = false;
    int depth = 0;
    for (const char *p = line; *p && *p != '\n'; p++) {
        if (strchr("([{", *p) && value) depth++;
        if (strchr(")]}", *p) && value) depth--;
        if (*p == ',' && !depth) value = false;
        if (*p == '=') value = true;
        if (value || !in_word(*p) || (p > line && in_word(p[-1]))) continue;
        const char *end = after_word(p);
        const bool named = strchr("[;,)", *end) || starts(end, end + strlen(end), " =") ||
                           starts(end, end + strlen(end), " {");
        if (named && text_uses(text, arena_strndup(a, p, (size_t)(end - p)))) return true;
    }
    return false;
}

bool needs_braces(Arena *a, const char *block, int indent, const char *before)
{
    for (const char *line = block, *next; *line; line = next) {
        next = strchr(line, '\n');
        next = next ? next + 1 : line + strlen(line);
        if ((int)strspn(line, " ") != indent || !is_declaration(line + indent)) continue;
        if (!before || declares_one_of(a, line + indent, before)) return true;
    }
    return false;
}

void append_outdented(Buf *out, const char *block)
{
    for (const char *line = block, *next; *line; line = next) {
        next = strchr(line, '\n');
        next = next ? next + 1 : line + strlen(line);
        const size_t blanks = strspn(line, " ");
        const char *from = line + (blanks < INDENT ? blanks : INDENT);
        buf_bytes(out, from, (size_t)(next - from));
    }
}
