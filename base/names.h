// The end of an error about an unknown name: a similar name, or the names that exist.
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include <stddef.h>

// The candidate with the smallest edit distance to [name], or NULL if none is close enough.
const char *suggest(const char *name, const char *const *candidates, size_t n);

typedef struct Advice {
    char text[480]; // to be appended to the message
} Advice;
// "; did you mean 'y'?" or "".
Advice advise_near(const char *name, const char *const *known, size_t n);
// The same or, if nothing is similar, the names that exist: "; there are 'a', 'b' and 7 more", ";
// there are none". A name that occurs twice in [known] is listed once.
Advice advise(const char *name, const char *const *known, size_t n);

#endif
