// Error bounds of values that are read by an index, or that are an index: where an index or an
// order is uncertain.
#include "ir/bound_ops.h"

// -- indexed access -------------------------------------------------------------------------------

static bool undecided(const Value *index)
{
    int64_t n = type_count(&index->type);
    for (int64_t i = 0; i < n && index->error[0]; i++)
        if (index->error[BELOW][i] > 0 || index->error[ABOVE][i] > 0) return true;
    return false;
}

static void nothing_is_known(Eval *e, Value *out)
{
    value_errors(e->env->arena, out);
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < type_count(&out->type); i++) out->error[side][i] = INFINITY;
}

void bound_dynamic_slice(Eval *e, const Node *n, Value *const *args, Value *out)
{
    bound_along(e, n, args, out, 1);
    for (uint32_t k = 1; k < n->nargs; k++)
        if (undecided(args[k])) nothing_is_known(e, out);
}

void bound_dynamic_update(Eval *e, const Node *n, Value *const *args, Value *out)
{
    bound_along(e, n, args, out, 2);
    for (uint32_t k = 2; k < n->nargs; k++)
        if (undecided(args[k])) nothing_is_known(e, out);
}

// If an index is uncertain, the result may be any element that the index may select.
void bound_gather(Eval *e, const Node *n, Value *const *args, Value *out)
{
    bound_along(e, n, args, out, 1);
    if (!undecided(args[1])) return;
    if (!out->error[0]) value_errors(e->env->arena, out);
    const Value *data = args[0], *index = args[1];
    int64_t axis = attr_int(n, ATTR_axis, 0), size = data->type.dim[axis], inner = 1;
    int64_t picks = type_count(&index->type), count = type_count(&out->type);
    for (int k = (int)axis + 1; k < data->type.rank; k++) inner *= data->type.dim[k];
    for (int64_t to = 0; to < count; to++) {
        int64_t p = to / inner % picks, o = to / inner / picks, i = to % inner;
        double v = value_get(out, to), error[] = {out->error[BELOW][to], out->error[ABOVE][to]};
        double at = (double)index->i[p];
        int64_t low = (int64_t)larger(at - index->error[BELOW][p], 0);
        int64_t high = (int64_t)smaller(at + index->error[ABOVE][p], (double)size - 1);
        for (int64_t k = low; k <= high && low < high; k++) {
            int64_t from = (o * size + k) * inner + i;
            double x = value_get(data, from);
            bound_admit(error, v, data->error[0] ? x - data->error[BELOW][from] : x);
            bound_admit(error, v, data->error[0] ? x + data->error[ABOVE][from] : x);
        }
        for (int side = 0; side < 2; side++) out->error[side][to] = error[side];
    }
}

void bound_scatter(Eval *e, const Node *n, Value *const *args, Value *out)
{
    bool any = args[0]->error[0] || args[2]->error[0];
    for (int side = 0; side < 2 && any; side++) {
        Value *errors[] = {bound_part(e, args[0], (Part)side), args[1],
                           bound_part(e, args[2], (Part)side)};
        out->error[side] = bound_rerun(e, eval_rule(n->op), n, errors, &out->type);
    }
    if (undecided(args[1])) nothing_is_known(e, out);
}

// Evaluates the op with all operands at their lower and upper ends, as for a maximum
// (bound_monotone).
void bound_scatter_max(Eval *e, const Node *n, Value *const *args, Value *out)
{
    if (args[0]->error[0] || args[2]->error[0]) {
        value_errors(e->env->arena, out);
        for (Part p = LOWEST; p <= NO_NUMBER; p++) {
            Value *at[] = {bound_part(e, args[0], p), args[1], bound_part(e, args[2], p)};
            const double *x = bound_rerun(e, eval_rule(n->op), n, at, &out->type);
            for (int64_t i = 0; i < type_count(&out->type); i++) {
                double error[] = {out->error[BELOW][i], out->error[ABOVE][i]};
                bound_admit(error, value_get(out, i), x[i]);
                for (int side = 0; side < 2; side++) out->error[side][i] = error[side];
            }
        }
    }
    if (undecided(args[1])) nothing_is_known(e, out);
}

// -- places ---------------------------------------------------------------------------------------

// The lines of a shape along one axis; neighbouring elements of a line are [step] apart.
typedef struct Lines {
    int64_t count, size, step;
} Lines;

static Lines lines_of(const Type *t, int64_t axis)
{
    Lines l = {1, t->dim[axis], 1};
    for (int i = 0; i < t->rank; i++) {
        if (i != axis) l.count *= t->dim[i];
        if (i > axis) l.step *= t->dim[i];
    }
    return l;
}

static int64_t line_begin(const Lines *l, int64_t k)
{
    return k / l->step * l->size * l->step + k % l->step;
}

// Whether b may be in front of a: whether an element b, which is no larger, may be at least as
// large as a; for a minimum (b no smaller), whether it may be at least as small.
static bool may_pass(const Value *v, int64_t a, int64_t b)
{
    double x = value_get(v, a), y = value_get(v, b);
    if (x < y) return x + v->error[ABOVE][a] >= y - v->error[BELOW][b];
    double reach = v->error[BELOW][a] + v->error[ABOVE][b];
    return reach > 0 && !(x - y > reach);
}

void bound_argmax(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    if (!v->error[0]) return;
    Lines l = lines_of(&v->type, attr_ints(n, ATTR_axes, NULL)[0]);
    value_errors(e->env->arena, out);
    for (int64_t k = 0; k < l.count; k++) {
        int64_t at = line_begin(&l, k), best = out->i[k];
        double error[2] = {0};
        for (int64_t i = 0; i < l.size; i++)
            if (may_pass(v, at + best * l.step, at + i * l.step))
                bound_admit(error, (double)best, (double)i);
        for (int side = 0; side < 2; side++) out->error[side][k] = error[side];
    }
}

// What is known of the elements on one side of a place in the sorted order, ascending or
// descending.
typedef struct Order {
    double certain, uncertain; // of elements with error 0, and of the others: the largest before
                               // the place, or the smallest from it on; NaN: none
} Order;

// Includes an element in one side of a cut: the end of its error that is nearest to the other side,
// as a rank (negated if descending). NaN ranks above all numbers.
static void take_in(Order *o, const Value *v, int64_t at, bool falling, bool before)
{
    double x = value_get(v, at), below = v->error[BELOW][at], above = v->error[ABOVE][at];
    bool sure = below == 0 && above == 0, up = before != falling;
    double end = up ? (above == INFINITY ? INFINITY : x + above)
                    : (below == INFINITY ? -INFINITY : x - below);
    if (isnan(end)) end = INFINITY;
    if (falling) end = -end;
    double *side = sure ? &o->certain : &o->uncertain;
    *side = before ? larger(*side, end) : smaller(*side, end);
}

// A cut of the order is certain if no element before it can move behind one after it. Between two
// such cuts, each element may be at any of the places. What comes before and after the places that
// the result holds is known from the order of the whole row.
void bound_argsort(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    if (!v->error[0]) return;
    const int64_t axis = attr_int(n, ATTR_axis, 0);
    Lines l = lines_of(&v->type, axis), held = lines_of(&out->type, axis);
    Type all = v->type;
    all.dtype = out->type.dtype;
    Value order = value_new(e->env->arena, &all);
    eval_rule(n->op)(e, n, args, &order);
    bool falling = attr_int(n, ATTR_descending, 0);
    Order *rest = NEW_ARRAY(e->env->arena, Order, l.size + 1); // by place: elements from it on
    value_errors(e->env->arena, out);
    for (int64_t k = 0; k < l.count; k++) {
        int64_t at = line_begin(&l, k), result = line_begin(&held, k);
        rest[l.size] = (Order){NAN, NAN};
        for (int64_t i = l.size; i-- > 0;) {
            rest[i] = rest[i + 1];
            take_in(&rest[i], v, at + order.i[at + i * l.step] * l.step, falling, false);
        }
        for (int64_t i = 0, end; i < held.size; i = end) {
            Order first = {NAN, NAN};
            int64_t low = l.size, high = 0;
            for (end = i; end < l.size; end++) {
                bool pass = first.uncertain >= rest[end].certain ||
                            first.uncertain >= rest[end].uncertain ||
                            first.certain >= rest[end].uncertain;
                if (end > i && !pass) break;
                int64_t p = order.i[at + end * l.step];
                take_in(&first, v, at + p * l.step, falling, true);
                low = p < low ? p : low;
                high = p > high ? p : high;
            }
            for (int64_t j = i; j < end && j < held.size; j++) {
                int64_t to = result + j * l.step;
                out->error[BELOW][to] = (double)(out->i[to] - low);
                out->error[ABOVE][to] = (double)(high - out->i[to]);
            }
        }
    }
}
