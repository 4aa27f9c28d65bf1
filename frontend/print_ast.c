// The syntax tree as text, one statement per line: for netc --emit ast and for comparing trees.
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/ast.h"

static const char *const binary_text[] = {
    [BIN_ADD] = "+", [BIN_SUB] = "-",  [BIN_MUL] = "*", [BIN_DIV] = "/",   [BIN_FLOORDIV] = "//",
    [BIN_MOD] = "%", [BIN_POW] = "**", [BIN_EQ] = "==", [BIN_NE] = "!=",   [BIN_LT] = "<",
    [BIN_LE] = "<=", [BIN_GT] = ">",   [BIN_GE] = ">=", [BIN_AND] = "and", [BIN_OR] = "or",
};

static void print_expr(Buf *b, const Expr *e);
static void print_block(Buf *b, const Block *block, int indent);

static void print_string(Buf *b, const char *s)
{
    buf_char(b, '"');
    for (; *s; s++) {
        if ((unsigned char)*s < ' ')
            buf_printf(b, "\\x%02x", (unsigned char)*s);
        else
            buf_printf(b, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    buf_char(b, '"');
}

static void print_item(Buf *b, const Item *item)
{
    if (item->name) buf_printf(b, "%s%s", item->name, item->value ? "=" : "");
    if (item->value) print_expr(b, item->value);
}

static void print_items(Buf *b, const Item *items, uint32_t n, const char *sep)
{
    for (uint32_t k = 0; k < n; k++) {
        if (k) buf_str(b, sep);
        print_item(b, &items[k]);
    }
}

static void print_scope(Buf *b, const ScopeName *s)
{
    for (uint32_t k = 0; k < s->parts.n; k++) {
        if (k) buf_char(b, '.');
        print_string(b, s->parts.at[k].text);
        if (!s->parts.at[k].index) continue;
        buf_char(b, '[');
        print_expr(b, s->parts.at[k].index);
        buf_char(b, ']');
    }
}

static void print_type(Buf *b, const TypeExpr *t)
{
    buf_str(b, t->dtype);
    if (t->has_shape) {
        buf_char(b, '[');
        for (uint32_t k = 0; k < t->dims.n; k++) {
            if (k) buf_str(b, ", ");
            print_expr(b, t->dims.at[k]);
        }
        buf_char(b, ']');
    }
    if (!t->low) return;
    buf_str(b, " in ");
    print_expr(b, t->low);
    buf_str(b, "..");
    print_expr(b, t->high);
}

static void print_params(Buf *b, const Param *params, uint32_t n)
{
    buf_char(b, '(');
    for (uint32_t k = 0; k < n; k++) {
        buf_printf(b, "%s%s", k ? ", " : "", params[k].name);
        if (params[k].type) {
            buf_str(b, ": ");
            print_type(b, params[k].type);
        }
        if (params[k].otherwise) {
            buf_str(b, " = ");
            print_expr(b, params[k].otherwise);
        }
    }
    buf_char(b, ')');
}

// Prints (head a b c), with _ for absent parts.
static void print_parts(Buf *b, const char *head, const Expr *const *parts, int n)
{
    buf_printf(b, "(%s", head);
    for (int k = 0; k < n; k++) {
        buf_char(b, ' ');
        if (parts[k])
            print_expr(b, parts[k]);
        else
            buf_char(b, '_');
    }
    buf_char(b, ')');
}

static void print_regions(Buf *b, const Expr *e)
{
    for (uint32_t k = 0; k < e->regions.n; k++) {
        buf_str(b, " region");
        print_params(b, e->regions.at[k]->params.at, e->regions.at[k]->params.n);
        print_block(b, e->regions.at[k], 8);
    }
}

static void print_expr(Buf *b, const Expr *e)
{
    switch (e->kind) {
    case EXPR_INT: buf_printf(b, "%lld", (long long)e->i); break;
    case EXPR_FLOAT: buf_double(b, e->f); break;
    case EXPR_BOOL: buf_str(b, e->i ? "true" : "false"); break;
    case EXPR_STRING: print_string(b, e->text); break;
    case EXPR_NAME: buf_str(b, e->text); break;
    case EXPR_MEMBER:
        print_expr(b, e->a);
        buf_printf(b, ".%s", e->text);
        break;
    case EXPR_UNARY:
        print_parts(b, e->unary == UN_NEG ? "-" : "not", (const Expr *[]){e->a}, 1);
        break;
    case EXPR_BINARY:
        print_parts(b, binary_text[e->binary], (const Expr *[]){e->a, e->b}, 2);
        break;
    case EXPR_CALL:
        print_expr(b, e->a);
        buf_char(b, '(');
        print_items(b, e->items.at, e->items.n, ", ");
        buf_char(b, ')');
        if (e->attrs.n) {
            buf_str(b, " @{");
            print_items(b, e->attrs.at, e->attrs.n, ", ");
            buf_char(b, '}');
        }
        print_regions(b, e);
        break;
    case EXPR_INDEX:
        print_expr(b, e->a);
        buf_char(b, '[');
        print_items(b, e->items.at, e->items.n, ", ");
        buf_char(b, ']');
        break;
    case EXPR_SLICE: print_parts(b, "slice", (const Expr *[]){e->lo, e->hi, e->step}, 3); break;
    case EXPR_ELLIPSIS: buf_str(b, "..."); break;
    case EXPR_LIST:
    case EXPR_TUPLE:
        buf_str(b, e->kind == EXPR_LIST ? "[" : "(tuple ");
        print_items(b, e->items.at, e->items.n, ", ");
        buf_char(b, e->kind == EXPR_LIST ? ']' : ')');
        break;
    case EXPR_RANGE: print_parts(b, "range", (const Expr *[]){e->lo, e->hi}, 2); break;
    case EXPR_AS:
    case EXPR_REUSE:
        buf_str(b, e->kind == EXPR_AS ? "(as " : "(reuse ");
        print_scope(b, e->scope);
        buf_char(b, ' ');
        print_expr(b, e->a);
        buf_char(b, ')');
        break;
    case EXPR_WITH: print_parts(b, "with", (const Expr *[]){e->a, e->b}, 2); break;
    case EXPR_COND: print_parts(b, "if", (const Expr *[]){e->a, e->b, e->c}, 3); break;
    case EXPR_ERROR: buf_str(b, "(error)"); break;
    }
}

static const char *const stmt_text[] = {
    [STMT_LET] = "let",
    [STMT_UPDATE_CELL] = "write",
    [STMT_EXPR] = "do",
    [STMT_RETURN] = "return",
    [STMT_FOR] = "for",
    [STMT_IF] = "if",
    [STMT_PARAM] = "param",
    [STMT_STATE] = "state",
    [STMT_LOOP] = "loop",
    [STMT_EMIT] = "emit",
    [STMT_TAP] = "tap",
    [STMT_ASSERT] = "assert",
    [STMT_OUT] = "out",
    [STMT_LAUNCH] = "launch",
    [STMT_REFERENCE] = "reference",
    [STMT_CPU] = "cpu",
    [STMT_USE] = "use",
    [STMT_CONST] = "const",
    [STMT_DIM] = "dim",
    [STMT_SETTING] = "setting",
    [STMT_FN] = "fn",
    [STMT_MODEL] = "model",
    [STMT_TRAIN] = "train",
    [STMT_ENTRY] = "entry",
    [STMT_CELL] = "cell",
    [STMT_MODULE] = "module",
    [STMT_MINIMIZE] = "minimize",
    [STMT_CLIP] = "clip",
    [STMT_UPDATE] = "update",
    [STMT_ACCUMULATE] = "accumulate",
    [STMT_EVALUATE] = "evaluate with",
    [STMT_RECOMPUTE] = "recompute",
};

static void print_stmt(Buf *b, const Stmt *s, int indent)
{
    bool callable = s->kind == STMT_FN || s->kind == STMT_MODEL;
    bool quoted =
        s->kind == STMT_ASSERT || s->kind == STMT_CELL || (s->kind == STMT_USE && s->flag);
    buf_pad(b, indent, ' ');
    buf_str(b, stmt_text[s->kind]);
    if (s->kind == STMT_STATE && s->flag) buf_str(b, " scratch");
    if (s->kind == STMT_PARAM && s->flag) buf_str(b, " frozen");
    if (s->name) buf_char(b, ' ');
    if (s->name && quoted)
        print_string(b, s->name);
    else if (s->name)
        buf_str(b, s->name);
    if (s->program && strcmp(s->program, s->name)) buf_printf(b, " as %s", s->program);
    if (callable) print_params(b, s->params.at, s->params.n);
    if (s->text) {
        buf_str(b, callable ? " from " : " ");
        print_string(b, s->text);
    }
    if (s->cuda) {
        buf_str(b, " cuda ");
        print_string(b, s->cuda);
    }
    if (s->names.n) {
        buf_char(b, ' ');
        print_items(b, s->names.at, s->names.n, ", ");
    }
    if (s->type) {
        buf_str(b, ": ");
        print_type(b, s->type);
    }
    if (s->target) {
        buf_char(b, ' ');
        print_expr(b, s->target);
    }
    if (s->expr) {
        buf_str(b, s->kind == STMT_UPDATE_CELL ? " <- " : " = ");
        print_expr(b, s->expr);
    }
    if (s->scope) {
        buf_str(b, " as ");
        print_scope(b, s->scope);
    }
    if (s->items.n) {
        buf_str(b, s->kind == STMT_LOOP ? " over " : " ");
        print_items(b, s->items.at, s->items.n, ", ");
    }
    if (s->set) {
        buf_str(b, " for ");
        print_expr(b, s->set);
    }
    if (s->cond) {
        buf_str(b, " while ");
        print_expr(b, s->cond);
    }
    buf_char(b, '\n');
    if (s->body) print_block(b, s->body, indent + 4);
    if (s->orelse) {
        buf_pad(b, indent, ' ');
        buf_str(b, "else\n");
        print_block(b, s->orelse, indent + 4);
    }
    if (s->gbody) {
        buf_pad(b, indent, ' ');
        buf_str(b, "grad");
        print_params(b, s->gparams.at, s->gparams.n);
        buf_char(b, '\n');
        print_block(b, s->gbody, indent + 4);
    }
}

static void print_block(Buf *b, const Block *block, int indent)
{
    if (block->params.n || (b->len && b->data[b->len - 1] == ')')) buf_char(b, '\n');
    for (uint32_t k = 0; k < block->stmts.n; k++) print_stmt(b, block->stmts.at[k], indent);
}

void frontend_print_ast(Arena *a, Diags *d, uint32_t source, Buf *out)
{
    const File *f = parse_source(a, d, source);
    for (uint32_t k = 0; k < f->stmts.n; k++) print_stmt(out, f->stmts.at[k], 0);
}
