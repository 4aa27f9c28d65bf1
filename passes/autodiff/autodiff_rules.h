// Shared by the gradient rules. There is one function for each name in the column of ops.def. A
// rule reads r->n and r->dy and gives its cotangent to each operand that needs one. If a rule named
// in the table is missing, the program does not compile.
#ifndef PASSES_AUTODIFF_RULES_H
#define PASSES_AUTODIFF_RULES_H

#include "passes/autodiff/autodiff.h"

#define EW(id, arity, flags, type, rule, ...)        void grad_##rule(Rule *r);
#define OP(id, arity, class, flags, type, rule, ...) void grad_##rule(Rule *r);
#include "ir/ops.def"
#undef EW
#undef OP

#define U(op, a)    graph_unary(r->g, OP_##op, a)
#define B(op, a, b) graph_binary(r->g, OP_##op, a, b)
#define A(i)        (r->n->args[i])

// autodiff_window.c
Node *rule_slice(Rule *r, Node *x, const int64_t *start, const int64_t *limit);
// autodiff_views.c
Node *rule_pad(Rule *r, Node *x, const int64_t *low, const int64_t *high); // with zeros

static inline Node *number(Rule *r, const Node *like, double v)
{
    return graph_const(r->g, like->type.dtype, v);
}

#endif
