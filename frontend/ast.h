// The syntax tree that the grammar builds: names and places in the source. Elaboration gives it
// meaning.
#ifndef FRONTEND_AST_H
#define FRONTEND_AST_H

#include "base/diag.h"

typedef struct Expr Expr;
typedef struct Stmt Stmt;
typedef struct Block Block;

typedef enum BinaryOp {
    BIN_ADD,
    BIN_SUB,
    BIN_MUL,
    BIN_DIV,
    BIN_FLOORDIV,
    BIN_MOD,
    BIN_POW, // + - * / // % **
    BIN_EQ,
    BIN_NE,
    BIN_LT,
    BIN_LE,
    BIN_GT,
    BIN_GE,
    BIN_AND,
    BIN_OR, // == != < <= > >= and or
} BinaryOp;

typedef enum UnaryOp { UN_NEG, UN_NOT } UnaryOp; // -x, not x

typedef enum ExprKind {
    EXPR_INT,
    EXPR_FLOAT,
    EXPR_BOOL,
    EXPR_STRING,
    EXPR_NAME,   // text
    EXPR_MEMBER, // a.text: a parameter by its path (wte.weight)
    EXPR_UNARY,
    EXPR_BINARY,
    EXPR_CALL,     // a(items...), named arguments in item.name; in dumps attributes, regions
    EXPR_INDEX,    // a[items...]
    EXPR_SLICE,    // only in EXPR_INDEX: a..., with fields lo, hi, step (each may be NULL)
    EXPR_ELLIPSIS, // only in EXPR_INDEX: ...
    EXPR_LIST,     // [a, b]
    EXPR_TUPLE,    // a, b (only in return, assignment and for)
    EXPR_RANGE,    // lo..hi, exclusive
    EXPR_AS,       // a as SCOPE: text is a part of the scope
    EXPR_REUSE,    // a reuse SCOPE
    EXPR_WITH,     // a with b: a function of each parameter
    EXPR_COND,     // if a then b else c, on a compile-time condition
    EXPR_ERROR,    // after a syntax error; elaborates to a poison value
} ExprKind;

// A type as written: f32[batch, 28, 28] in 0..10. dtype NULL: an untyped parameter.
typedef struct TypeExpr {
    Span span;
    const char *dtype;
    bool has_shape;
    VEC(Expr *) dims;
    Expr *low, *high; // range, or NULL
} TypeExpr;

typedef struct Item { // an argument, list element, attribute or returned value
    const char *name; // or NULL
    Span name_span;
    Expr *value;
} Item;

// A scope name: parts joined by '.', each a word with an optional index (h[i]) or one string.
typedef struct ScopeName {
    Span span;
    VEC(struct ScopePart {
        const char *text;
        Expr *index; // or NULL
    })
    parts;
} ScopeName;

struct Expr {
    ExprKind kind;
    uint32_t depth; // depth of the tree below; limited, so that readers may recurse
    Span span;
    Span op_span; // of the operator, name or callee, where type errors are marked
    const char *text;
    int64_t i;
    double f;
    BinaryOp binary;
    UnaryOp unary;
    Expr *a, *b, *c;
    Expr *lo, *hi, *step;
    VEC(Item) items;
    VEC(Item) attrs;      // @{...}; values are literals, names of types, or lists of these
    VEC(Block *) regions; // dumps only: { (p0, p1) -> ... }
    ScopeName *scope;
};

typedef struct Param { // of a function, a model or a region
    const char *name;
    Span span;
    TypeExpr *type;  // or NULL
    Expr *otherwise; // default, or NULL
} Param;

struct Block {
    Span span;
    VEC(Param) params; // regions of dumps only
    VEC(Stmt *) stmts;
};

typedef enum StmtKind {
    STMT_LET,         // names = expr             (names.n > 1 unpacks a tuple; "_" discards)
    STMT_UPDATE_CELL, // target <- expr        (target: name, member or index expression)
    STMT_EXPR,        // a call for its effect
    STMT_RETURN,      // items, named or not
    STMT_FOR,         // for names in expr { body }, unrolled
    STMT_IF,          // if expr { body } else { orelse }
    STMT_PARAM,       // param name: type = expr [frozen]
    STMT_STATE,       // state name: type = expr; flag: scratch
    STMT_LOOP,        // loop name in lo..hi carry names over items { body }; emit inside
    STMT_EMIT,        // emit name = expr         (stacked by the enclosing loop)
    STMT_TAP,         // tap expr [as name]
    STMT_ASSERT,      // assert cond, "message" (name: the message)
    // inside an extern fn
    STMT_OUT,       // out name: type
    STMT_LAUNCH,    // launch name[expr](names...) items
    STMT_REFERENCE, // reference { body }
    STMT_CPU,       // cpu text
    // top level
    STMT_USE,     // use name, or use "path.net" (flag: a path)
    STMT_CONST,   // const name = expr        (-D overrides)
    STMT_DIM,     // dim name [= expr]
    STMT_SETTING, // setting name = expr
    STMT_FN,      // fn name(params) body [grad(gparams) gbody]; text: extern, from that file
    STMT_MODEL,   // model name(params) body
    STMT_TRAIN,   // train name [as program] { body }
    STMT_ENTRY,   // dumps: entry name @{...} body
    STMT_CELL,    // dumps: cell "name": type @{...}
    STMT_MODULE,  // dumps: module name @{version, stage}
    // inside train
    STMT_MINIMIZE,   // minimize expr [over set]
    STMT_CLIP,       // clip call: a function of the list of gradients
    STMT_UPDATE,     // update call [for set]
    STMT_ACCUMULATE, // accumulate expr
    STMT_EVALUATE,   // evaluate with expr
    STMT_RECOMPUTE,  // recompute expr: a pattern of layers
} StmtKind;

enum { MAX_PARAMS = 64 }; // of a function

struct Stmt {
    StmtKind kind;
    Span span;
    Span name_span;
    const char *name;
    const char *text; // FN: the file of an extern one; CPU: the file
    const char *cuda; // FN: the CUDA code of an elementwise one; expr is its reference, items its
                      // gradients
    Span text_span;   // of either
    const char *program; // TRAIN: its name; by default, the model's name
    VEC(Item) names;     // LET, FOR, LOOP carried: name and name_span
    VEC(Item) items;     // RETURN; LOOP scanned (name = expr); ENTRY, CELL, MODULE attributes
    VEC(Param) params, gparams;
    TypeExpr *type;
    Expr *target, *expr, *set;
    Expr *cond; // LOOP: it goes on while this is true
    Block *body, *orelse, *gbody;
    bool flag;        // STATE: scratch; PARAM: frozen; FN: has a gradient
    ScopeName *scope; // TAP
};

typedef struct File {
    uint32_t source; // index into Diags.sources
    VEC(Stmt *) stmts;
} File;

// Parses a source that was added to diags. Syntax errors are reported there, several in one run;
// then the tree has holes (EXPR_ERROR) and must not be elaborated. Never NULL.
File *parse_source(Arena *a, Diags *d, uint32_t source);

// netc fmt: the formatted source, with its comments. NULL after a syntax error, which is reported.
const char *format_source(Arena *a, Diags *d, uint32_t source);

#endif
