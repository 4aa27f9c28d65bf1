// The region of one kernel, in the form that codegen takes (docs/fusion.md):
//
//   rows are queries   m = max(x), e = exp(x - m), l = sum(e), u = dot(cast(g(e)), v),
//                      results u / l and, when the backward kernels need it, m + log(l);
//                      for parts of the columns u, m and l, which are combined afterwards
//   backward           p = exp(x - lse), dot(cast(f(p, dP, rows, columns)), w);
//                      rows are queries for their gradient, keys for those of keys and values
//
// Scores are f32 from the dot on: casts to 16 bits and back are dropped.
#include <math.h>

#include "passes/attention/attention.h"

typedef struct Write {
    Kernel *k;
    Lift l;
    AtomSet all, rows;
    Lifted prob; // exponentials; in the forward part not divided by their sum
} Write;

static Lifted none(void)
{
    return (Lifted){0};
}

static Lifted ew2(Write *w, Op op, Lifted a, Lifted b)
{
    return a.n && b.n ? lift_ew(&w->l, op, (Lifted[]){a, b}, 2, NULL) : none();
}

// -- probabilities --------------------------------------------------------------------------------

static Lifted scores(Write *w)
{
    Core *c = w->k->core;
    Lifted x = lift(&w->l, c->x, &c->place);
    if (c->times) x = ew2(w, OP_mul, x, lift(&w->l, c->times, &c->place));
    return (Lifted){lift_to(&w->l, x, w->all), w->all};
}

static Lifted exponential(Write *w, Lifted x)
{
    const Core *c = w->k->core;
    Attrs at = {0};
    if (attr_int(c->e, ATTR_approx, 0)) attr_set_int(&at, ATTR_approx, 1);
    graph_stamp(w->l.g, c->e, c->e->name);
    return x.n ? lift_ew(&w->l, OP_exp, &x, 1, &at) : none();
}

static Node *row_argument(Write *w, int row)
{
    Space *s = &w->l.space;
    Type t = type_scalar(DT_F32);
    for (int i = 0; i < s->n - 1; i++)
        if (w->rows & atom_bit(i)) t.dim[t.rank++] = s->size[i];
    Node *x = lift_arg(&w->l, &(Arg){.row = row, .type = DT_F32}, &t);
    return lift_rows(&w->l, x, w->rows);
}

// -- sums of products -----------------------------------------------------------------------------

static Lifted value_of(Write *w, const Factor *f)
{
    Kernel *k = w->k;
    switch (f->kind) {
    case F_PROB: return w->prob;
    case F_DOT: return lift_inner(&w->l, f->n, f->op);
    case F_ROWDOT:
        for (uint32_t i = 0; i < k->rowdots.n; i++)
            if (factor_equal(&k->rowdots.at[i], f))
                return (Lifted){row_argument(w, 1 + (int)i), w->rows};
        vec_push(w->l.a, &k->rowdots, *f);
        return (Lifted){row_argument(w, (int)k->rowdots.n), w->rows};
    case F_TOTAL: return none();
    default: return lift(&w->l, f->n, &f->place);
    }
}

static Lifted times(Write *w, Lifted product, const Factor *f)
{
    Lifted v = value_of(w, f);
    int power = f->power < 0 ? -f->power : f->power;
    for (int i = 0; i < power; i++) {
        if (!product.n && f->power > 0)
            product = v;
        else
            product = ew2(w, f->power > 0 ? OP_mul : OP_div,
                          product.n ? product : lift_number(&w->l, 1), v);
    }
    return product;
}

// The product of t's factors except masks and those in [without]; no node stands for 1.
static Lifted product_of(Write *w, const Term *t, const Term *without, Lifted first)
{
    for (int i = 0; i < t->n; i++) {
        bool left_out = t->f[i].kind == F_MASK;
        for (int k = 0; without && k < without->n; k++)
            left_out |= factor_equal(&without->f[k], &t->f[i]);
        if (!left_out) first = times(w, first, &t->f[i]);
    }
    return first;
}

static Lifted scaled(Write *w, Lifted v, double c)
{
    if (!v.n) return lift_number(&w->l, c);
    if (c == 1) return v;
    if (c == -1) return lift_ew(&w->l, OP_neg, &v, 1, NULL);
    return ew2(w, OP_mul, v, lift_number(&w->l, c));
}

static Term common_to_all(const Terms *s)
{
    Term common = {.c = s->t[0].c};
    for (int i = 0; i < s->t[0].n; i++) {
        bool all = true;
        for (int t = 1; t < s->n && all; t++) {
            bool has = false;
            for (int k = 0; k < s->t[t].n; k++) has |= factor_equal(&s->t[t].f[k], &s->t[0].f[i]);
            all = has;
        }
        if (all) common.f[common.n++] = s->t[0].f[i];
    }
    for (int t = 1; t < s->n; t++)
        if (fabs(s->t[t].c) != fabs(common.c)) common.c = 1;
    return common;
}

static Lifted masked(Write *w, Lifted v, const Term *t, const Term *without)
{
    for (int i = 0; i < t->n && v.n; i++) {
        const Factor *f = &t->f[i];
        bool left_out = f->kind != F_MASK;
        for (int k = 0; without && k < without->n; k++) left_out |= factor_equal(&without->f[k], f);
        if (left_out) continue;
        Lifted cond = lift(&w->l, f->n, &f->place), zero = lift_number(&w->l, 0);
        if (!cond.n) return none();
        v = lift_ew(&w->l, OP_select,
                    (Lifted[]){cond, f->negated ? zero : v, f->negated ? v : zero}, 3, NULL);
    }
    return v;
}

// The sum of all terms, with common factors multiplied once.
static Lifted sum_of(Write *w, const Terms *s)
{
    Term common = common_to_all(s);
    Lifted sum = none(), v;
    for (int t = 0; t < s->n && s->n > 1; t++) {
        double c = s->t[t].c / common.c;
        v = product_of(w, &s->t[t], &common, none());
        bool minus = c < 0 && sum.n;
        v = masked(w, scaled(w, v, minus ? -c : c), &s->t[t], &common);
        sum = sum.n ? ew2(w, minus ? OP_sub : OP_add, sum, v) : v;
        if (!sum.n) return none();
    }
    // Starts with a probability, if there is one among the common factors.
    for (int i = 1; i < common.n; i++)
        if (common.f[i].kind == F_PROB) {
            Factor f = common.f[0];
            common.f[0] = common.f[i];
            common.f[i] = f;
        }
    if (sum.n && common.n && common.f[0].kind == F_PROB) {
        sum = ew2(w, OP_mul, w->prob, sum);
        common.f[0] = common.f[--common.n];
    }
    v = product_of(w, &common, NULL, sum);
    return masked(w, scaled(w, v, common.c), &common, NULL);
}

// -- products over the scores ---------------------------------------------------------------------

static DType stored_type(const Outer *o)
{
    DType t = o->dot->type.dtype;
    for (int i = 0; i < o->ntail; i++)
        if (dtype_info[o->tail[i]->type.dtype].bits < dtype_info[t].bits)
            t = o->tail[i]->type.dtype;
    return t;
}

Node *kernel_views(Graph *g, const Core *c, const Outer *o, Node *x)
{
    const Place *p = &o->result;
    int over = o->kind == OUT_KEY ? space_row(&c->space) : space_col(&c->space);
    int at[MOST_ATOMS], n = 0, m = 0;
    int64_t perm[MAX_RANK];
    AtomSet have = place_atoms(&c->place) & ~atom_bit(over);
    for (int i = 0; i < c->space.n; i++)
        if (have & atom_bit(i)) at[i] = n++;
    for (int k = 0; k < p->rank; k++) {
        for (int i = p->start[k]; i < p->start[k + 1]; i++) perm[m++] = at[p->atom[i]];
        if (k == o->rest) perm[m++] = n;
    }
    x = graph_permute(g, x, perm);
    x = graph_reshape(g, x, o->dot->type.rank, o->dot->type.dim);
    for (int i = 0; i < o->ntail; i++) {
        const Node *t = o->tail[i];
        graph_stamp(g, t, t->name);
        if (node_has(t, OPF_PERMUTES)) x = graph_node(g, t->op, &x, 1, t->attrs);
    }
    return x;
}

Node *kernel_joined(Graph *g, const Core *c, const Outer *o, Node *const *result)
{
    Node *x = parts_join(g, result[0], result[1], result[2]);
    return kernel_views(g, c, o, graph_cast(g, x, stored_type(o)));
}

// In a loop, the views are applied to the stacked results after it.
static void give_result(Write *w, const Outer *o, Node *x)
{
    x = graph_cast(w->l.g, x, stored_type(o));
    if (!w->l.start) x = kernel_views(w->l.g, w->k->core, o, x);
    vec_push(w->l.g->arena, &w->l.g->results, x);
}

// x with its axis [axis], the columns, divided into parts if there are any.
static Node *divided(const Write *w, Node *x, int axis)
{
    int64_t parts = w->k->core->parts;
    return parts ? parts_divide(w->l.g, x, axis, parts) : x;
}

static Node *outer_product(Write *w, const Outer *o, Lifted z)
{
    Graph *g = w->l.g;
    bool keys = o->kind == OUT_KEY;
    AtomSet rows = atom_bit(keys ? space_col(&w->l.space) : space_row(&w->l.space));
    Node *left = lift_to(&w->l, z, w->all), *right = lift_operand(&w->l, &o->other, w->all & ~rows);
    if (!left || !right) return NULL;
    left = divided(w, graph_cast(g, left, right->type.dtype), left->type.rank - 1);
    right = divided(w, right, right->type.rank - 2);
    int64_t batch[MAX_RANK], last = left->type.rank - 1, inner = last - 1;
    for (int i = 0; i < inner; i++) batch[i] = i;
    graph_stamp(g, o->dot, o->dot->name);
    return graph_dot(g, left, right, batch, batch, (int)inner, &last, &inner, 1, DT_F32);
}

// Computes for each row the maximum score, the exponentials of the scores minus it, and their sum.
static bool softmax(Write *w, Node **high, Node **total)
{
    const Core *c = w->k->core;
    Graph *g = w->l.g;
    Lifted x = scores(w);
    if (!x.n) return false;
    Node *in = divided(w, x.n, x.n->type.rank - 1);
    int64_t last = in->type.rank - 1;
    graph_stamp(g, c->e, NULL);
    *high = graph_reduce(g, OP_max, in, &last, 1, false);
    Lifted below = {*high, w->rows};
    if (c->parts) {
        *high = parts_high(g, *high);
        below = (Lifted){parts_undo(g, parts_spread(g, *high, &in->type)), w->all};
    }
    w->prob = exponential(w, ew2(w, OP_sub, x, below));
    if (!w->prob.n) return false;
    graph_stamp(g, c->sum, c->sum->name);
    *total = graph_reduce(g, OP_sum, divided(w, w->prob.n, x.n->type.rank - 1), &last, 1, false);
    return true;
}

static bool forward(Write *w)
{
    Kernel *k = w->k;
    Graph *g = w->l.g;
    const Outer *o = k->outer[0];
    Node *high, *total;
    if (!softmax(w, &high, &total)) return false;
    Lifted z = sum_of(w, &o->terms);
    Node *u = z.n ? outer_product(w, o, z) : NULL;
    if (!u) return false;
    if (k->core->parts) {
        vec_push(g->arena, &g->results, u);
        vec_push(g->arena, &g->results, high);
        vec_push(g->arena, &g->results, total);
        return true;
    }
    Attrs div = {0};
    Node *wide = parts_spread(g, total, &u->type);
    if (attr_int(k->core->e, ATTR_approx, 0)) attr_set_int(&div, ATTR_approx, 1);
    u = graph_node(g, OP_div, (Node *[]){u, wide}, 2, &div);
    give_result(w, o, u);
    if (!k->lse) return true;
    Node *lse = graph_binary(g, OP_add, high, graph_unary(g, OP_log, total));
    vec_push(g->arena, &g->results, lse);
    return true;
}

static bool backward(Write *w)
{
    Kernel *k = w->k;
    Lifted x = scores(w);
    w->prob = exponential(w, ew2(w, OP_sub, x, (Lifted){row_argument(w, 0), w->rows}));
    if (!w->prob.n) return false;
    for (int i = 0; i < k->nouters; i++) {
        const Outer *o = k->outer[i];
        Lifted z = sum_of(w, &o->terms);
        Node *u = z.n ? outer_product(w, o, z) : NULL;
        if (!u) return false;
        give_result(w, o, u);
    }
    return true;
}

// Sets the first row of an iteration.
static void begin_loop(Write *w)
{
    Kernel *k = w->k;
    Graph *g = w->l.g;
    Type counter = type_scalar(DT_I64);
    Node *i = graph_region_param(g, &counter);
    w->l.first = 1;
    w->l.part = k->rows;
    w->l.start = graph_binary(g, OP_mul, i, graph_const_int(g, DT_I64, k->rows));
}

bool kernel_write(Kernel *k)
{
    Core *c = k->core;
    Write w = {.k = k};
    w.l = lift_begin(c->g, graph_inside(c->g), &c->space, k->kind == OUT_KEY);
    w.l.outside = c->outside;
    w.all = place_atoms(&c->place);
    w.rows = w.all & ~atom_bit(space_col(&c->space));
    if (k->rows) begin_loop(&w);
    if (!(k->kind == OUT_FORWARD ? forward(&w) : backward(&w))) return false;
    k->region = w.l.g;
    k->args.n = 0;
    for (uint32_t i = 0; i < w.l.args.n; i++) vec_push(c->g->arena, &k->args, w.l.args.at[i]);
    return true;
}
