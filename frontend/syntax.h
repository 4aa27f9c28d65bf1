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
    int inject;          // 2: an empty block is still to be delivered, 1: its closing brace
    uint32_t last_error; // index of the token of the last syntax error, plus one
    uint32_t first_diag; // in diags->list, of this file
    bool dead;           // give up: no way to go on
    File *file;
} Parser;

// A list of one: most lists stay so, and files can be long.
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
// Notes that e holds child; reports a tree too deep for recursive readers.
void expr_holds(Parser *p, Expr *e, const Expr *child);
Stmt *stmt_new(Parser *p, StmtKind kind, Span span);
Stmt *stmt_named(Parser *p, StmtKind kind, Span span, const Token *name);
// The names of an assignment, from expressions that must be names.
void stmt_targets(Parser *p, Stmt *s, const Exprs *targets);
Expr *expr_tuple(Parser *p, const Exprs *values); // or the one value itself
void type_range(Parser *p, TypeExpr *t, Expr *range);
void attach_attrs(Parser *p, Expr *call, const Items *attrs, Span end);
void attach_region(Parser *p, Expr *call, Block *region);
// Reports statements where they make no sense (a model inside a function, an assignment outside).
void check_places(Parser *p, const File *f);

// What the grammar would have taken where it met something else.
typedef struct Expected {
    bool name, integer, statement, operator;
    const char *list[6]; // the words for tokens that are no operators, as far as there is room
    int n;
} Expected;

// Reports the token delivered last (or the end) and moves the lexer to where parsing can go on.
void syntax_error(Parser *p, bool at_end, const Expected *e);
// Scanner, layout and grammar report in turn; the reader wants the order of the text.
void sort_syntax_errors(Parser *p);

#endif
