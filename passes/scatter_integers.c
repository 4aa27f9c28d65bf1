// Sums of floats by index as sums of integers, whose order does not matter, so that they can be
// added up by atomics (pass scatter):
//
//     scatter_add(x, index, u)   becomes   most = scatter_max(0, index, |u|)
//                                          unit = ufp(most) / 2^c
//                                          s = scatter_add(0, index, i64(round(u / unit[index])))
//                                          x + s * unit                   (in f64)
//
// Each place has a unit of its own: its largest update is less than 2^(c + 1) units. A place of k
// updates needs c + 1 + log2(k) <= 62, so for up to 2^20 of them numbers of 24 bits that are down
// to 2^17 times smaller than the largest one are added exactly, and of others 2^-41 of the largest
// one is lost: less than sums of f32 in any order lose. (Demmel and Nguyen, "Fast Reproducible
// Floating-Point Summation", 2013, have several such units; one suffices, since what is lost is
// small compared with the largest update.) Units are powers of two, and f64 holds them all.
//
// If the largest update is infinite, infinities are counted instead: positive ones in the lower
// bits, negative ones above. If it is NaN, so is the sum. (A sum of -0 alone is 0.)
#include <math.h>

#include "passes/scatter.h"

enum { NEGATIVE = 31 }; // the first bit of the number of negative infinities

static Node *filled(Graph *g, const Type *t, DType dtype, double v)
{
    Type to = *t;
    to.dtype = dtype;
    return graph_broadcast_to(g, graph_const(g, dtype, v), &to);
}

static Node *is(Graph *g, Op op, Node *x, double v)
{
    return graph_binary(g, op, x, filled(g, &x->type, x->type.dtype, v));
}

static Node *either(Graph *g, Node *which, double a, Node *b)
{
    return graph_select(g, which, filled(g, &b->type, b->type.dtype, a), b);
}

// The updates u in units of their places, or (most: not finite) what counts infinities.
static Node *in_units(Graph *g, Node *u, Node *most, double scale)
{
    Node *top = graph_cast(g, graph_unary(g, OP_ufp, most), DT_F64),
         *per = graph_binary(g, OP_div, filled(g, &u->type, DT_F64, scale), top),
         *units = graph_binary(g, OP_mul, graph_cast(g, u, DT_F64), per),
         *whole = graph_cast(g, graph_unary(g, OP_round, units), DT_I64),
         *none = filled(g, &u->type, DT_I64, 0),
         *low = either(g, is(g, OP_eq, u, -INFINITY), ldexp(1, NEGATIVE), none),
         *infinite = either(g, is(g, OP_eq, u, INFINITY), 1, low);
    return graph_select(g, graph_unary(g, OP_isfinite, most), whole, infinite);
}

// The sums, of so many units or infinities, as f64.
static Node *of_units(Graph *g, Node *sum, Node *most, double scale)
{
    const Type *t = &sum->type;
    Node *top = graph_cast(g, graph_unary(g, OP_ufp, most), DT_F64),
         *unit = graph_binary(g, OP_div, top, filled(g, t, DT_F64, scale)),
         *real = graph_binary(g, OP_mul, graph_cast(g, sum, DT_F64), unit),
         *bits = filled(g, t, DT_I64, ldexp(1, NEGATIVE) - 1),
         *high = is(g, OP_ne, graph_binary(g, OP_bit_and, sum, bits), 0),
         *low = is(g, OP_ge, sum, ldexp(1, NEGATIVE)),
         *below = either(g, high, NAN, filled(g, t, DT_F64, -INFINITY)),
         *infinite = graph_select(g, low, below, filled(g, t, DT_F64, INFINITY)),
         *odd = either(g, graph_binary(g, OP_ne, most, most), NAN, infinite);
    return graph_select(g, graph_unary(g, OP_isfinite, most), real, odd);
}

Node *scatter_integers(Graph *g, const Node *n, Node *const *map, int64_t most)
{
    int exponent;
    frexp((double)most, &exponent); // most < 2^exponent
    const double scale = ldexp(1, 61 - exponent);
    const int64_t axis = attr_int(n, ATTR_axis, 0);
    Node *x = map[n->args[0]->id], *index = map[n->args[1]->id],
         *u = graph_cast(g, map[n->args[2]->id], DT_F32), *none = filled(g, &n->type, DT_F32, 0),
         *zero = filled(g, &n->type, DT_I64, 0);
    Node *largest =
        graph_along(g, OP_scatter_max, (Node *[]){none, index, graph_unary(g, OP_abs, u)}, 3, axis);
    Node *own = graph_along(g, OP_gather, (Node *[]){largest, index}, 2, axis);
    Node *sum = graph_along(g, OP_scatter_add, (Node *[]){zero, index, in_units(g, u, own, scale)},
                            3, axis);
    graph_stamp(g, n, NULL);
    Node *all = of_units(g, sum, largest, scale);
    return graph_cast(g, graph_binary(g, OP_add, graph_cast(g, x, DT_F64), all), n->type.dtype);
}
