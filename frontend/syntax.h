// Internal to the parser: its state and the constructors of the tree.
#ifndef FRONTEND_SYNTAX_H
#define FRONTEND_SYNTAX_H

#include "frontend/ast.h"
#include "frontend/token.h"

typedef struct Items {
    VEC(Item) list;
} Items;
typedef struct Params {
    VEC(Param) list;
} Params;
typedef struct Exprs {
    VEC(Expr *) list;
} Exprs;

typedef struct Parser {
    Arena *arena;
    Diags *diags;
    uint32_t source;
    const Tokens *tokens;
    uint32_t at;         // index of the next token
    int inject;          // 2: an empty block must still be delivered, 1: its closing brace
    uint32_t last_error; // index of the token of the last syntax error, plus one
    uint32_t first_diag; // the first diagnostic of this file in diags->list
    bool dead;           // parsing cannot continue
    File *file;
} Parser;

// A list of one element, allocated exactly: most lists stay like that, and files can be long.
#define VEC_ONE(a, v, ...)                                                                         \
    ((v)->at = arena_alloc((a), sizeof *(v)->at), (v)->at[0] = (__VA_ARGS__), (v)->n = (v)->cap = 1)
#define VEC_TAKE(dst, src) ((dst).at = (src).at, (dst).n = (src).n, (dst).cap = (src).cap)

Span span_join(Span a, Span b);
Expr *expr_new(Parser *p, ExprKind kind, Span span);
Expr *expr_token(Parser *p, ExprKind kind, const Token *t);
Expr *expr_unary(Parser *p, UnaryOp op, Span op_span, Expr *a);
Expr *expr_binary(Parser *p, BinaryOp op, Span op_span, Expr *a, Expr *b);
Expr *expr_postfix(Parser *p, ExprKind kind, Expr *a, Span end); // call, index, member
Expr *expr_scoped(Parser *p, ExprKind kind, Expr *a, Span op_span, ScopeName *scope);
// Updates the depth of e for a child; reports trees that are too deep for recursive functions.
void expr_holds(Parser *p, Expr *e, const Expr *child);
Stmt *stmt_new(Parser *p, StmtKind kind, Span span);
Stmt *stmt_named(Parser *p, StmtKind kind, Span span, const Token *name);
// The names on the left of an assignment, from expressions, which must be names.
void stmt_targets(Parser *p, Stmt *s, const Exprs *targets);
Expr *expr_tuple(Parser *p, const Exprs *values); // a tuple, or the value itself if there is one
void type_range(Parser *p, TypeExpr *t, Expr *range);
void attach_attrs(Parser *p, Expr *call, const Items *attrs, Span end);
void attach_region(Parser *p, Expr *call, Block *region);
// Reports statements in places where they are not allowed (a model inside a function, an assignment
// outside of one).
void check_places(Parser *p, const File *f);

// What the grammar would have accepted instead of the current token.
typedef struct Expected {
    bool name, integer, statement, operator;
    const char *list[6]; // other tokens, as far as there is space
    int n;
} Expected;

// Reports the last token (or the end) as a syntax error and moves the lexer to where parsing can
// continue.
void syntax_error(Parser *p, bool at_end, const Expected *e);
// Scanner, layout and grammar run one after the other. Sorts their errors by source position.
void sort_syntax_errors(Parser *p);

#endif
