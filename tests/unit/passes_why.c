// Every cause for a value that is stored between kernels has a word and a row in docs/fusion.md,
// and the row tells its numbers.
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "tests/unit/unit.h"

static char *read_doc(void)
{
    FILE *f = fopen("docs/fusion.md", "rb");
    static char text[1 << 17];
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return text;
}

static Node *value(Arena *a, const char *name)
{
    Node *n = NEW(a, Node);
    n->name = name;
    return n;
}

int main(void)
{
    char *doc = read_doc();
    Arena *a = arena_new();
    CHECK_MSG(*doc, "docs/fusion.md cannot be read; run from the repository's root");
    CHECK(!unfused_cause(WHY_COUNT));
    Node *from = value(a, "from"), *to = value(a, "to");
    for (int i = 0; i < WHY_COUNT; i++) {
        const char *word = unfused_cause((UnfusedCause)i);
        CHECK_MSG(word && *word, "cause %d has no word in passes/fuse/fuse_reasons.c", i);
        if (!word) continue;
        for (int k = 0; k < i; k++)
            CHECK_MSG(strcmp(word, unfused_cause((UnfusedCause)k)), "two causes are '%s'", word);
        Unfused u = {from, to, (UnfusedCause)i, 111, 222};
        const char *text = unfused_text(a, &u);
        CHECK_MSG(!strncmp(text, "from -> to: ", 12) && text[12], "%s: '%s'", word, text);
        const char *row = strstr(doc, arena_printf(a, "| `%s` |", word));
        CHECK_MSG(row, "docs/fusion.md has no row for the cause '%s'", word);
        if (!row) continue;
        // The second column is the text, its numbers as *a* and *b*.
        char cell[256] = "";
        size_t n = 0;
        for (const char *p = strstr(row + 2, "| ") + 2; *p && *p != '|' && n < 255; p++) {
            bool first = !strncmp(p, "*a*", 3), second = !strncmp(p, "*b*", 3);
            if (!first && !second) {
                cell[n++] = *p;
                continue;
            }
            n += (size_t)snprintf(cell + n, sizeof cell - n, "%s", first ? "111" : "222");
            p += 2;
        }
        while (n && cell[n - 1] == ' ') n--;
        cell[n] = 0;
        CHECK_MSG(!strcmp(cell, text + 12), "%s: docs say '%s', --why says '%s'", word, cell,
                  text + 12);
    }
    arena_free(a);
    return unit_done();
}
