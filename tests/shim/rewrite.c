// CUDA text to C++ for the host: inline PTX becomes calls of functions named after the instruction
// (ptx.h), dynamic shared memory an array of its own, kernels plain functions. Everything else is
// macros and functions of kernel.h.
//
//   asm volatile("mma.sync.x {%0,%1}, {%2}, [%3 + 8];" : "+f"(a), "+f"(b) : "r"(c), "l"(p));
//   ->  { ptx_mma_sync_x(a, b, c, (p) + (8)); }
//
// Several instructions, declared registers, predicates and labels are understood.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/shim/shim.h"

static char problem[512];

typedef struct Asm {
    Buf text;                 // of the template
    const char *operand[160]; // C expressions
    int n;
} Asm;

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

// Past a string, character or comment that begins at p; p itself when none does.
static const char *skip_quiet(const char *p)
{
    if (*p == '"' || *p == '\'') {
        char q = *p++;
        while (*p && *p != q) p += *p == '\\' && p[1] ? 2 : 1;
        return *p ? p + 1 : p;
    }
    if (p[0] == '/' && p[1] == '/') return p + strcspn(p, "\n");
    if (p[0] == '/' && p[1] == '*') {
        const char *end = strstr(p + 2, "*/");
        return end ? end + 2 : p + strlen(p);
    }
    return p;
}

// The place of the bracket that closes the one at p.
static const char *closing(const char *p)
{
    int depth = 0;
    while (*p) {
        const char *q = skip_quiet(p);
        if (q != p) {
            p = q;
            continue;
        }
        if (*p == '(' || *p == '[' || *p == '{') depth++;
        if (*p == ')' || *p == ']' || *p == '}')
            if (--depth == 0) return p;
        p++;
    }
    return NULL;
}

static const char *spaces(const char *p)
{
    while (isspace((unsigned char)*p)) p++;
    return p;
}

// A string literal's characters; returns its end.
static const char *literal(const char *p, Buf *out)
{
    for (p++; *p && *p != '"'; p++) {
        if (*p == '\\' && *++p == 'n')
            buf_char(out, '\n');
        else if (p[-1] == '\\' && *p == 't')
            buf_char(out, ' ');
        else
            buf_char(out, *p);
    }
    return *p ? p + 1 : p;
}

// ("template" : outputs : inputs : clobbers), from after the first bracket to its closing one.
static bool read_asm(Arena *arena, const char *p, const char *end, Asm *a)
{
    a->text = buf_new(arena);
    for (p = spaces(p); *p == '"'; p = spaces(p)) p = literal(p, &a->text);
    for (int section = 0; p < end && section < 2; section++) {
        if (*p++ != ':') return false;
        for (p = spaces(p); p < end && *p != ':'; p = spaces(p)) {
            if (*p == ',') p = spaces(p + 1);
            Buf constraint = buf_new(arena);
            if (*p != '"') return false;
            p = spaces(literal(p, &constraint));
            const char *close = *p == '(' ? closing(p) : NULL;
            if (!close || a->n == 160) return false;
            a->operand[a->n++] = arena_strndup(arena, p, (size_t)(close + 1 - p));
            p = close + 1;
        }
    }
    return true;
}

// -- PTX ------------------------------------------------------------------------------------------
// One operand: %0, a name, a number, [address], {a, b}; vectors are taken apart.
static const char *operand(const char *p, const Asm *a, Buf *out)
{
    bool address = false;
    for (;; p++) {
        if (*p == '[') {
            address = true;
            buf_char(out, '(');
        } else if (*p == ']') {
            buf_char(out, ')');
            address = false;
        } else if (*p == '%' && isdigit((unsigned char)p[1])) {
            char *end;
            long n = strtol(p + 1, &end, 10);
            buf_str(out, n < a->n ? a->operand[n] : "(no such operand)");
            p = end - 1;
        } else if (p[0] == '%' && p[1] == '%') {
            buf_str(out, "SREG_");
            for (p += 2; word_char(*p) || *p == '.'; p++) buf_char(out, *p == '.' ? '_' : *p);
            p--;
        } else if (*p == '{' || *p == '}' || *p == '|') {
            buf_str(out, *p == '|' ? ", " : "");
        } else if (*p == ',' && address) {
            buf_str(out, "), ("); // coordinates of a tensor
        } else if (!*p || *p == ',' || *p == ';') {
            return p;
        } else {
            buf_char(out, *p);
        }
    }
}

static void registers(const char *p, Buf *out)
{
    const char *end = p + strcspn(p, " \n");
    char kind[16];
    snprintf(kind, sizeof kind, "%.*s", (int)(end - p), p);
    const char *type = !strcmp(kind, ".pred") ? "bool"
                       : strstr(kind, "f32")  ? "float"
                       : strstr(kind, "f64")  ? "double"
                       : strstr(kind, "64")   ? "uint64_t"
                       : strstr(kind, "16")   ? "uint16_t"
                                              : "uint32_t";
    const char *stop = strchr(end, ';');
    buf_printf(out, "%s %.*s; ", type, stop ? (int)(stop - end) : (int)strlen(end), end);
}

static const char *statement(const char *p, const Asm *a, Buf *out)
{
    if (*p == '@') {
        bool no = p[1] == '!';
        p += no ? 2 : 1;
        buf_str(out, no ? "if (!" : "if (");
        while (*p == '%' || word_char(*p)) {
            if (*p == '%' && isdigit((unsigned char)p[1])) {
                char *end;
                long n = strtol(p + 1, &end, 10);
                buf_str(out, n < a->n ? a->operand[n] : "0");
                p = end;
            } else {
                buf_char(out, *p++);
            }
        }
        buf_str(out, ") ");
        p = spaces(p);
    }
    const char *name = p;
    while (word_char(*p) || *p == '.' || (p[0] == ':' && p[1] == ':') ||
           (p > name && p[-1] == ':' && p[0] == ':'))
        p++;
    size_t n = (size_t)(p - name);
    if (*p == ':' && n) { // a label
        buf_printf(out, "%.*s:; ", (int)n, name);
        return p + 1;
    }
    if (n == 4 && !strncmp(name, ".reg", 4)) {
        registers(spaces(p), out);
        p = strchr(p, ';');
        return p ? p + 1 : "";
    }
    if (n >= 3 && !strncmp(name, "bra", 3)) {
        p = spaces(p);
        size_t m = strcspn(p, "; \n");
        buf_printf(out, "goto %.*s; ", (int)m, p);
        p = strchr(p, ';');
        return p ? p + 1 : "";
    }
    buf_str(out, "ptx_");
    for (size_t i = 0; i < n; i++) buf_char(out, word_char(name[i]) ? name[i] : '_');
    buf_char(out, '(');
    for (p = spaces(p); *p && *p != ';'; p = spaces(p)) {
        p = operand(p, a, out);
        if (*p == ',') {
            buf_str(out, ", ");
            p++;
        }
    }
    buf_str(out, "); ");
    return *p ? p + 1 : p;
}

static void instructions(const Asm *a, Buf *out)
{
    const char *p = a->text.data ? a->text.data : "";
    buf_str(out, "{ ");
    for (p = spaces(p); *p; p = spaces(p)) {
        if (*p == '{' || *p == '}') {
            buf_char(out, *p++);
            buf_char(out, ' ');
        } else if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (*p == ';') {
            p++;
        } else {
            p = statement(p, a, out);
        }
    }
    buf_str(out, "}");
}

// -- the text -------------------------------------------------------------------------------------
// A pointer to memory that SHARED declares.
static const char *dynamic_shared(const char *p, bool inside, Buf *out)
{
    // extern __shared__ [alignas(..)] TYPE NAME[];
    const char *end = strchr(p, '['), *name = end, *type;
    if (!end) return NULL;
    while (name > p && word_char(name[-1])) name--;
    type = name;
    while (type > p && isspace((unsigned char)type[-1])) type--;
    const char *type_end = type;
    while (type > p && (word_char(type[-1]) || type[-1] == ':')) type--;
    int nt = (int)(type_end - type), nn = (int)(end - name);
    buf_printf(out, "%s%.*s *const %.*s = (%.*s *)::shim_shared;", inside ? "" : "static ", nt,
               type, nn, name, nt, type);
    p = strchr(end, ';');
    return p ? p + 1 : NULL;
}

#define SHARED                                                                                     \
    "static __attribute__((aligned(1024))) char shim_shared[%d];\n"                                \
    "extern \"C\" void *shim_dynamic(void) { return shim_shared; }\n"

static bool starts(const char *p, const char *word)
{
    return !strncmp(p, word, strlen(word)) && !word_char(p[strlen(word)]);
}

// *shared: some kernel has dynamic shared memory.
static bool rewrite(Arena *arena, const char *p, Buf *out, bool *shared)
{
    char before = 0;
    int depth = 0; // 2: of a kernel's namespace
    while (*p) {
        const char *q = skip_quiet(p);
        if (!word_char(before) && starts(p, "extern")) {
            const char *next = spaces(p + 6);
            if (!strncmp(next, "\"C\"", 3)) { // kernels of a batch live in namespaces
                p = next + 3;
                continue;
            }
            if (starts(next, "__shared__")) {
                *shared = true;
                p = dynamic_shared(next + 10, depth > 2, out);
                if (!p) return false;
                continue;
            }
        }
        if (!word_char(before) && (starts(p, "asm") || starts(p, "__asm__"))) {
            const char *open = spaces(p + strcspn(p, " ("));
            while (word_char(*open))
                open = spaces(open + strspn(open, "_abcdefghijklmnopqrstuvwxyz"));
            const char *close = *open == '(' ? closing(open) : NULL;
            Asm a = {.n = 0};
            if (!close || !read_asm(arena, open + 1, close, &a)) {
                snprintf(problem, sizeof problem, "inline assembly the shim cannot read: %.200s",
                         p);
                return false;
            }
            instructions(&a, out);
            p = close + 1;
            if (*spaces(p) == ';') p = spaces(p) + 1;
            before = '}';
            continue;
        }
        if (q == p) q = p + 1, depth += (*p == '{') - (*p == '}');
        buf_bytes(out, p, (size_t)(q - p));
        before = q[-1];
        p = q;
    }
    return true;
}

// SHIM_CUT: OLD=>NEW, everywhere.
const char *shim_cut(Arena *arena, const char *text)
{
    const char *how = getenv("SHIM_CUT"), *arrow = how ? strstr(how, "=>") : NULL;
    if (!arrow) return text;
    const char *old = arena_strndup(arena, how, (size_t)(arrow - how));
    Buf out = buf_new(arena);
    for (const char *at; (at = strstr(text, old)); text = at + strlen(old)) {
        buf_bytes(&out, text, (size_t)(at - text));
        buf_str(&out, arrow + 2);
    }
    buf_str(&out, text);
    return out.data;
}

char *shim_rewrite(const char *text, const char **why)
{
    Arena *arena = arena_new();
    if (!arena) abort();
    Buf out = buf_new(arena);
    problem[0] = 0;
    bool shared = false, ok = rewrite(arena, text, &out, &shared);
    const char *body = out.data ? out.data : "";
    if (shared) body = arena_printf(arena, SHARED "%s", SHIM_DYNAMIC, body);
    char *result = ok ? strdup(body) : NULL;
    if (!ok) *why = *problem ? problem : "text the shim cannot read";
    arena_free(arena);
    return result;
}
