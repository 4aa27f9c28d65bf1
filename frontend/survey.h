// What an editor asks about a file: where names are defined and used, and their values. A survey is
// recorded while the file is compiled; if the text has errors it holds what could be read.
#ifndef FRONTEND_SURVEY_H
#define FRONTEND_SURVEY_H

#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "frontend/token.h"

typedef enum DeclKind {
    DECL_FN,
    DECL_MODEL,
    DECL_CONST,
    DECL_DIM,
    DECL_SETTING,
    DECL_ARGUMENT, // of a function, or an input of a model
    DECL_LOCAL,
    DECL_PARAM,
    DECL_STATE,
    DECL_OUTPUT,  // a named result of a model
    DECL_PROGRAM, // a train block
} DeclKind;
extern const char *const decl_kind_names[];

typedef struct Decl {
    DeclKind kind;
    const char *name;
    Span span;        // of the name
    Span whole;       // of the statement
    uint32_t owner;   // 1 + the function, model or train block that it belongs to; 0: the file
    const char *head; // "fn linear(x, width, use_bias = true)", as in the source; or NULL
    const char *doc;  // the comment above it, or after it on the same line; or NULL
} Decl;

enum {
    USE_WRITE = 1,    // a value is assigned to the name
    USE_ARGUMENT = 2, // the name of an argument in a call
    USE_OUTPUT = 4,   // a returned value that is just a name, which is also the name of the output
};
typedef struct Use {
    Span span;
    uint32_t decl;
    uint32_t flags;
} Use;

enum { SEEN_VARIANTS = 3 };
typedef struct Seen { // the values of the expression at a span
    Span span;
    const char *text; // "f32[batch=128, 10]", "12"; all of them if there are several
    bool tensor;
    uint32_t variants;
    uint64_t print[SEEN_VARIANTS]; // hash of each
} Seen;

struct Survey {
    Arena *arena;
    const Diags *diags;
    VEC(Decl) decls; // including the top level of the standard library's files that are used
    VEC(Use) uses;   // in the user's files
    VEC(Seen) seen;
    IdMap seen_at, decl_at; // by span; by statement
    // Parameters, states, inputs and outputs, which other files may refer to.
    VEC(const char *) names;
    Tokens tokens;   // of the file itself
    uint32_t source; // the file itself
    uint32_t core;   // std/core.net, which every file uses; 0: none
    VEC(struct SurveyFile {
        uint32_t source;
        const char *name;   // as in NAME.linear
        VEC(uint32_t) uses; // sources
    })
    files;
    bool elaborated; // without errors
};

typedef struct BuiltinInfo {
    const char *name, *params; // "x axis? keep?"; NULL: no function
} BuiltinInfo;

// Runs the frontend on the text; errors are in d. Never NULL.
Survey *frontend_survey(Arena *a, Diags *d, const char *path, const char *text, size_t len,
                        const FrontendOptions *o);
// All built-in names that no file defines; ended by a row without a name.
const BuiltinInfo *frontend_builtins(Arena *a);
#endif
