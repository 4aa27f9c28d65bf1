// Suggestions for misspelt names, and lists of the names that exist.
#include "base/names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/plain.h"

// Cost of a mistake: an additional, missing or wrong letter; two letters swapped, a common typing
// error.
enum { WRONG = 3, SWAPPED = 2 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Whether letters differ, ignoring case: Conv2d, ReLU.
static bool differ(char a, char b)
{
    return (plain_alpha(a) ? a | 32 : a) != (plain_alpha(b) ? b | 32 : b);
}

static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t na = strlen(a), nb = strlen(b), rows[3][LONGEST + 1];
    if (na > LONGEST || nb > LONGEST) return WRONG * LONGEST;
    for (size_t j = 0; j <= nb; j++) rows[0][j] = WRONG * j;
    for (size_t i = 1; i <= na; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = WRONG * i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = above[j - 1] + (differ(a[i - 1], b[j - 1]) ? WRONG : 0);
            row[j] = least(row[j], least(above[j], row[j - 1]) + WRONG);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + SWAPPED);
        }
    }
    return rows[na % 3][nb];
}

const char *suggest(const char *name, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    size_t letters = strlen(name), nearest = WRONG * (letters / 3 + 2); // about a third of the
                                                                        // letters may be wrong
    for (size_t i = 0; i < n; i++) {
        size_t d = edit_distance(name, candidates[i]);
        if (d < nearest && d < WRONG * letters) {
            nearest = d;
            best = candidates[i];
        }
    }
    return best;
}

Advice advise_near(const char *name, const char *const *known, size_t n)
{
    Advice a = {""};
    const char *near = suggest(name, known, n);
    if (near) snprintf(a.text, sizeof a.text, "; did you mean '%s'?", near);
    return a;
}

static bool stands_before(const char *const *known, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(known[k], known[i])) return true;
    return false;
}

Advice advise(const char *name, const char *const *known, size_t n)
{
    enum { MOST = 12, ROOM = 24 }; // ROOM: for " and 4294967295 more"
    Advice a = advise_near(name, known, n);
    if (*a.text) return a;
    size_t different = 0, shown = 0, len = 0;
    for (size_t i = 0; i < n; i++) different += !stands_before(known, i);
    if (!different) return (Advice){"; there are none"};
    len = (size_t)snprintf(a.text, sizeof a.text, different == 1 ? "; there is" : "; there are");
    for (size_t i = 0; i < n && shown < MOST; i++) {
        size_t size = strlen(known[i]) + strlen(" and ''");
        if (stands_before(known, i) || len + size + ROOM > sizeof a.text) continue;
        const char *between = !shown ? " " : shown + 1 == different ? " and " : ", ";
        len += (size_t)snprintf(a.text + len, sizeof a.text - len, "%s'%s'", between, known[i]);
        shown++;
    }
    if (!shown) return (Advice){""}; // all names are too long
    if (shown < different)
        snprintf(a.text + len, sizeof a.text - len, " and %zu more", different - shown);
    return a;
}
