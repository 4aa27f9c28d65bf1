// The end of an error about an unknown name: a similar name, or the names that exist.
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include <stddef.h>

// The candidate closest to [name] by edit distance, or NULL when none is close enough to suggest.
const char *suggest(const char *name, const char *const *candidates, size_t n);

typedef struct Advice {
    char text[480]; // to stand directly behind the message
} Advice;
// "; did you mean 'y'?" or "".
Advice advise_near(const char *name, const char *const *known, size_t n);
// The same, or else what there is: "; there are 'a', 'b' and 7 more", "; there are none". A name
// that stands twice among the known is told once.
Advice advise(const char *name, const char *const *known, size_t n);

#endif
