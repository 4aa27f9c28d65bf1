// Names and their places.
#ifndef LSP_NAMES_H
#define LSP_NAMES_H

#include "lsp/lsp.h"

typedef struct Place {
    const Document *in; // whose survey knows it
    const char *path;
    uint32_t source, begin, end, flags; // source: of that survey
} Place;
typedef VEC(Place) Places;

// What the name at the byte means; NULL: nothing of a file's. use may be NULL.
const Decl *decl_at(const Document *d, size_t at, const Use **use);
// In every document that is open and the files that they use.
Places places_of(Server *s, Arena *a, const Document *d, const Decl *what);
Answer request_place(Server *s, Message *m, Document **d, size_t *at);
const char *signature_text(Arena *a, const Builtin *b); // of one that has params
int symbol_kind(const char *kind);

#endif
