// .net text -> Module.
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "ir/module.h"

typedef struct Define {       // -D name=value, or a value that the data imply
    const char *name, *value; // the value's text is an expression of the language
    bool from_data;           // -D overrides it, and it overrides the default
} Define;

typedef struct Survey Survey; // frontend/survey.h

typedef struct FrontendOptions {
    const Define *defines;
    uint32_t ndefines;
    // The names of the requested entries; none: all of the file ("init", "train", "eval", every
    // model). If init is among them, the others are elaborated, too, for the cells they define;
    // their errors then become notes of the module.
    const char *const *entries;
    uint32_t nentries;
    const char *program; // the name of the train block to use; NULL: the first of the file
    bool training;       // `training` is true in models, too
    bool scale_loss;     // train entries scale their losses for f16 (elab_scale.c)
    // Resolves `use "path"` and `use name` of user files; NULL: the file system, relative to the
    // using file. Returns the text in the arena and its display path, or NULL if there is no such
    // file.
    const char *(*resolve)(void *ctx, Arena *a, const char *from, const char *name, size_t *len,
                           const char **path);
    void *resolve_ctx;
    Survey *survey; // to be filled, or NULL
} FrontendOptions;

// The inputs and free dimensions of a model before any data is bound; for the data layer.
typedef struct InputDecl {
    const char *model, *name;
    DType dtype;
    uint8_t rank;
    // If the axis is a single dimension variable: its name, else NULL.
    const char *dim_name[MAX_RANK];
    int64_t dim[MAX_RANK]; // with defaults and -D applied; -1 if it has no value
    bool has_range;
    int64_t low, high;
    Span span;
} InputDecl;
typedef struct FileDecls {
    VEC(InputDecl) inputs; // of every model
    VEC(const char *) models;
    const char *trains;         // the model that the train block names, or NULL
    bool averaged;              // its `evaluate with` gives `eval` other weights than that model
    VEC(const char *) programs; // the names of all train blocks
    VEC(const char *) dims;     // dimension variables
    VEC(const char *) consts, settings;
} FileDecls;

// Both report through d and return NULL on error. path is for display and for finding `use` files.
Module *frontend_compile(Arena *a, Diags *d, const char *path, const char *text, size_t len,
                         const FrontendOptions *o);
FileDecls *frontend_decls(Arena *a, Diags *d, const char *path, const char *text, size_t len,
                          const FrontendOptions *o);
// Whether one of these definitions would change the value of a name under the options. True also if
// one of them has an error, which is then reported where the definitions are used.
bool frontend_redefines(Arena *a, const char *path, const char *text, size_t len,
                        const FrontendOptions *o, const Define *more, uint32_t n);
void frontend_print_ast(Arena *a, Diags *d, uint32_t source, Buf *out); // netc --emit ast

#endif
