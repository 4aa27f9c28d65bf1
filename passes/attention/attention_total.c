// Softmaxes that divide by the sum of exponentials after the dot with the values, (e v) / l, as the
// kernel does in any case. In their gradient the division is applied to what the backward dots
// read, and a sum over the head dimension replaces one over the columns:
//
//     u = e v, y = u / l:   du = dy / l,  dl = -sum_n(dy y / l),  de = du vT + dl
#include "passes/attention/attention.h"

Factor total_factor(const Core *c, int power)
{
    AtomSet rows = place_atoms(&c->place) & ~atom_bit(space_col(&c->space));
    return (Factor){.kind = F_TOTAL, .power = power, .atoms = rows};
}

bool is_total(const Core *c, const Node *n, const Place *p)
{
    Place at = *p, below;
    Split split;
    for (; n != c->sum; n = n->args[0]) {
        if (is_rounding(n)) continue;
        if (!node_has(n, OPF_STRIDES) || !place_below(&c->space, n, &at, 0, &below, &split))
            return false;
        at = below;
    }
    return place_summed(&c->space, n, &at, &below) && place_equal(&below, &c->place);
}

int operand_total(const Core *c, Operand *op)
{
    Node *n = uncast_float(op->x);
    if (n->op != OP_div || !is_total(c, n->args[1], &op->place)) return 0;
    op->x = n->args[0];
    operand_find_base(op);
    return -1;
}

// Whether n, at place p, is the result of the forward dot o.
static bool is_result(const Outer *o, Node *n, const Place *p)
{
    return o->kind == OUT_FORWARD && n == uncast_float(outer_end(o)) && place_equal(p, &o->result);
}

static int result_of(const Core *c, Node *n, const Place *p)
{
    for (int u = 0; u < c->nouters; u++)
        if (is_result(&c->outer[u], uncast_float(n), p)) return u;
    return -1;
}

bool sum_over_head(Core *c, Node *n, const Place *p, int rest, Term *out)
{
    Factor f = {.kind = F_ROWDOT, .power = 1, .outer = -1}, total = total_factor(c, 0);
    Node *other = NULL;
    double v;
    *out = (Term){.c = 1};
    while (!other) {
        n = uncast_float(n);
        if (n->op == OP_neg) {
            out->c = -out->c;
            n = n->args[0];
        } else if (n->op == OP_div && is_total(c, n->args[1], p)) {
            total.power--;
            n = n->args[0];
        } else if (n->op == OP_mul) {
            int k = result_of(c, n->args[0], p) >= 0 ? 0 : 1;
            f.outer = result_of(c, n->args[k], p);
            if (f.outer >= 0) {
                other = uncast_float(n->args[1 - k]);
            } else if (node_const_value(n->args[1], &v)) {
                out->c *= v;
                n = n->args[0];
            } else {
                return false;
            }
        } else {
            return false;
        }
    }
    Operand *op = NEW(c->scratch.a, Operand);
    *op = (Operand){.x = other, .rest = rest, .place = *p};
    op->type = c->outer[f.outer].other.type; // in the type in which the products read it: then
                                             // equal values have equal keys
    operand_find_base(op);
    out->c *= op->factor;
    op->factor = 1;
    f.atoms = place_atoms(p);
    f.key = lift_operand(&c->scratch, op, f.atoms);
    f.op = op;
    return f.key && term_push(out, &f) && (!total.power || term_push(out, &total));
}
