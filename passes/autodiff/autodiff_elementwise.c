// Gradients of elementwise ops.
#include "passes/autodiff/autodiff_rules.h"

#include <math.h>

void grad_add(Rule *r)
{
    rule_give(r, 0, r->dy);
    rule_give(r, 1, r->dy);
}

void grad_sub(Rule *r)
{
    rule_give(r, 0, r->dy);
    if (rule_wants(r, 1)) rule_give(r, 1, U(neg, r->dy));
}

void grad_mul(Rule *r)
{
    if (rule_wants(r, 0)) rule_give(r, 0, B(mul, r->dy, A(1)));
    if (rule_wants(r, 1)) rule_give(r, 1, B(mul, r->dy, A(0)));
}

void grad_fma(Rule *r)
{
    grad_mul(r);
    rule_give(r, 2, r->dy);
}

void grad_div(Rule *r)
{
    if (rule_wants(r, 0)) rule_give(r, 0, B(div, r->dy, A(1)));
    if (rule_wants(r, 1)) rule_give(r, 1, U(neg, B(div, B(mul, r->dy, r->n), A(1))));
}

void grad_mod(Rule *r) // a - floor(a / b) * b
{
    rule_give(r, 0, r->dy);
    if (rule_wants(r, 1)) rule_give(r, 1, U(neg, B(mul, r->dy, B(floordiv, A(0), A(1)))));
}

void grad_neg(Rule *r)
{
    rule_give(r, 0, U(neg, r->dy));
}

void grad_abs(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, U(sign, A(0))));
}

// If both operands are equal, each gets half of the gradient. A constant counts as the extremum
// then, so ReLU has slope 0 at 0. With a constant, the comparison reads the result instead of the
// operand, so the operand need not be kept.
static void extremum(Rule *r, Op beats)
{
    Node *n = r->n;
    double c;
    for (uint32_t i = 0; i < 2; i++) {
        Node *mine = A(i), *other = A(1 - i);
        if (!rule_wants(r, i)) continue;
        Node *zero = number(r, n, 0);
        if (node_const_value(other, &c)) {
            Node *wins = graph_binary(r->g, beats, n, other);
            rule_give(r, i, graph_select(r->g, wins, r->dy, zero));
            continue;
        }
        Node *wins = graph_binary(r->g, beats, mine, other);
        Node *half = B(mul, r->dy, number(r, n, 0.5));
        Node *tie = graph_select(r->g, B(eq, mine, other), half, zero);
        rule_give(r, i, graph_select(r->g, wins, r->dy, tie));
    }
}

void grad_maximum(Rule *r)
{
    extremum(r, OP_gt);
}

void grad_minimum(Rule *r)
{
    extremum(r, OP_lt);
}

void grad_pow(Rule *r)
{
    Node *a = A(0), *b = A(1), *zero = number(r, r->n, 0);
    double e;
    if (rule_wants(r, 0) && node_const_value(b, &e) && e == 2) {
        rule_give(r, 0, B(mul, r->dy, B(mul, a, number(r, r->n, 2))));
    } else if (rule_wants(r, 0)) { // b * a^(b-1), and 0 where b is 0 even at a = 0
        Node *d = B(mul, b, B(pow, a, B(sub, b, number(r, r->n, 1))));
        d = graph_select(r->g, B(eq, b, zero), zero, d);
        rule_give(r, 0, B(mul, r->dy, d));
    }
    if (rule_wants(r, 1)) { // y * log(a), and 0 at a = 0
        Node *d = graph_select(r->g, B(eq, a, zero), zero, B(mul, r->n, U(log, a)));
        rule_give(r, 1, B(mul, r->dy, d));
    }
}

void grad_sqrt(Rule *r)
{
    rule_give(r, 0, B(div, B(mul, r->dy, number(r, r->n, 0.5)), r->n));
}

void grad_rsqrt(Rule *r) // -1/2 y^3
{
    Node *cube = B(mul, B(mul, r->n, r->n), r->n);
    rule_give(r, 0, B(mul, B(mul, r->dy, cube), number(r, r->n, -0.5)));
}

void grad_exp(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, r->n));
}

void grad_expm1(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, B(add, r->n, number(r, r->n, 1))));
}

void grad_log(Rule *r)
{
    rule_give(r, 0, B(div, r->dy, A(0)));
}

void grad_log1p(Rule *r)
{
    rule_give(r, 0, B(div, r->dy, B(add, A(0), number(r, r->n, 1))));
}

void grad_sin(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, U(cos, A(0))));
}

void grad_cos(Rule *r)
{
    rule_give(r, 0, U(neg, B(mul, r->dy, U(sin, A(0)))));
}

void grad_tanh(Rule *r)
{
    rule_give(r, 0, B(mul, r->dy, B(sub, number(r, r->n, 1), B(mul, r->n, r->n))));
}

// 2 / sqrt(pi) * exp(-a^2), with the factor as a summand of the exponent: rounded to f32 it is
// wrong by a fourteenth of what the factor would be.
void grad_erf(Rule *r)
{
    Node *factor = number(r, r->n, log(M_2_SQRTPI));
    rule_give(r, 0, B(mul, r->dy, U(exp, B(sub, factor, B(mul, A(0), A(0))))));
}

void grad_sigmoid(Rule *r)
{
    Node *slope = B(mul, r->n, B(sub, number(r, r->n, 1), r->n));
    rule_give(r, 0, B(mul, r->dy, slope));
}

void grad_select(Rule *r)
{
    Node *zero = number(r, r->n, 0);
    if (rule_wants(r, 1)) rule_give(r, 1, graph_select(r->g, A(0), r->dy, zero));
    if (rule_wants(r, 2)) rule_give(r, 2, graph_select(r->g, A(0), zero, r->dy));
}

void grad_autocast(Rule *r)
{
    rule_give(r, 0, U(autocast, r->dy));
}

void grad_cast(Rule *r)
{
    rule_give(r, 0, graph_cast(r->g, r->dy, A(0)->type.dtype));
}
