// Names and their places.
#ifndef LSP_NAMES_H
#define LSP_NAMES_H

#include "lsp/lsp.h"

typedef struct Place {
    const Document *in; // whose survey has it
    const char *path;
    uint32_t source, begin, end, flags; // source: index in that survey
} Place;
typedef VEC(Place) Places;

// The declaration of the name at the byte; NULL: it is not declared in a file. use may be NULL.
const Decl *decl_at(const Document *d, size_t at, const Use **use);
// All places of the name in open documents and the files that they use.
Places places_of(Server *s, Arena *a, const Document *d, const Decl *what);
Answer request_place(Server *s, Message *m, Document **d, size_t *at);
const char *signature_text(Arena *a, const Builtin *b); // of a built-in with parameters
int symbol_kind(const char *kind);

#endif
