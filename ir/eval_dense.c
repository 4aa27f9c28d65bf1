// The evaluator's elementwise ops, views, reductions and dot.
#include <string.h>

#include "ir/axes.h"
#include "ir/eval_ops.h"

// -- walking an index space -----------------------------------------------------------------------

// Iterates over an index space in row-major order, with the offsets in up to two arrays that have
// strides of their own.
typedef struct Walk {
    int rank;
    int64_t dim[MAX_RANK], at[MAX_RANK], stride[2][MAX_RANK], offset[2];
    int64_t left; // elements not yet visited, including the current one
} Walk;

static Walk walk_begin(int rank, const int64_t *dim, const int64_t *stride0, int64_t offset0,
                       const int64_t *stride1, int64_t offset1)
{
    Walk w = {.rank = rank, .offset = {offset0, offset1}, .left = 1};
    for (int i = 0; i < rank; i++) {
        w.dim[i] = dim[i];
        w.stride[0][i] = stride0[i];
        w.stride[1][i] = stride1 ? stride1[i] : 0;
        w.left *= dim[i];
    }
    return w;
}

static void walk_next(Walk *w)
{
    w->left--;
    for (int i = w->rank - 1; i >= 0; i--) {
        w->offset[0] += w->stride[0][i];
        w->offset[1] += w->stride[1][i];
        if (++w->at[i] < w->dim[i]) return;
        w->at[i] = 0;
        w->offset[0] -= w->stride[0][i] * w->dim[i];
        w->offset[1] -= w->stride[1][i] * w->dim[i];
    }
}

// to[...] = from[...] over the index space [dim], each side with its own strides. The last axis is
// a plain loop.
static void copy_strided(Value *to, const int64_t *to_stride, int64_t to_offset, const Value *from,
                         const int64_t *from_stride, int64_t from_offset, int rank,
                         const int64_t *dim)
{
    int64_t n = rank ? dim[rank - 1] : 1, st = rank ? to_stride[rank - 1] : 0;
    int64_t sf = rank ? from_stride[rank - 1] : 0;
    Walk w = walk_begin(rank ? rank - 1 : 0, dim, to_stride, to_offset, from_stride, from_offset);
    for (; w.left > 0; walk_next(&w)) {
        int64_t t = w.offset[0], f = w.offset[1];
        if (value_is_float(to))
            for (int64_t i = 0; i < n; i++) to->f[t + i * st] = from->f[f + i * sf];
        else
            for (int64_t i = 0; i < n; i++) to->i[t + i * st] = from->i[f + i * sf];
    }
}

// out[i] = from[i . stride + offset] for every index i of out.
static void view(Value *out, const Value *from, const int64_t *stride, int64_t offset)
{
    int64_t own[MAX_RANK];
    type_strides(&out->type, own);
    copy_strided(out, own, 0, from, stride, offset, out->type.rank, out->type.dim);
}

// -- elementwise ----------------------------------------------------------------------------------

static void round_floats(Value *v, bool round)
{
    const DType t = v->type.dtype;
    int64_t count = round && value_is_float(v) ? type_count(&v->type) : 0;
    if (t == DT_F32)
        for (int64_t i = 0; i < count; i++) v->f[i] = (float)v->f[i];
    else if (t != DT_F64)
        for (int64_t i = 0; i < count; i++) v->f[i] = scalar_round_half(t, v->f[i]);
}

void eval_elementwise(Eval *e, const Node *n, Value *const *args, Value *out)
{
    int64_t count = type_count(&n->type);
    const Value *a = args[0], *b = n->nargs > 1 ? args[1] : a, *c = n->nargs > 2 ? args[2] : a;
    DType operand = args[n->nargs - 1]->type.dtype, result = n->type.dtype;
    bool converts = op_info(n->op)->flags & OPF_CONVERTS, round = e->env->round;
    if (dtype_is_float(operand) && !converts) { // most elements of a check
        scalar_on_floats[n->op](out->f, a->f, b->f, c->f, count);
        round_floats(out, round);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        Scalar x = value_at(a, i);
        value_put(out, i,
                  converts ? scalar_cast(operand, result, x, round)
                           : scalar_apply(n->op, operand, result, x, value_at(b, i), value_at(c, i),
                                          round));
    }
}

// -- views ----------------------------------------------------------------------------------------

void eval_reshape(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    *out = *args[0];
    out->type = n->type;
}

void eval_permute(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    const int64_t *perm = attr_ints(n, ATTR_perm, NULL);
    int64_t own[MAX_RANK], stride[MAX_RANK];
    type_strides(&args[0]->type, own);
    for (int i = 0; i < n->type.rank; i++) stride[i] = own[perm[i]];
    view(out, args[0], stride, 0);
}

void eval_broadcast(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    const int64_t *dims = attr_ints(n, ATTR_dims, NULL);
    int64_t own[MAX_RANK], stride[MAX_RANK] = {0};
    type_strides(&args[0]->type, own);
    for (int i = 0; i < args[0]->type.rank; i++)
        if (args[0]->type.dim[i] == n->type.dim[dims[i]]) stride[dims[i]] = own[i];
    view(out, args[0], stride, 0);
}

void eval_slice(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    const int64_t *start = attr_ints(n, ATTR_start, NULL), *step = attr_ints(n, ATTR_stride, NULL);
    int64_t own[MAX_RANK], stride[MAX_RANK], offset = 0;
    type_strides(&args[0]->type, own);
    for (int i = 0; i < n->type.rank; i++) {
        stride[i] = own[i] * step[i];
        offset += own[i] * start[i];
    }
    view(out, args[0], stride, offset);
}

void eval_reverse(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    int naxes;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    int64_t stride[MAX_RANK], offset = 0;
    type_strides(&args[0]->type, stride);
    for (int i = 0; i < naxes; i++) {
        offset += stride[axes[i]] * (n->type.dim[axes[i]] - 1);
        stride[axes[i]] = -stride[axes[i]];
    }
    view(out, args[0], stride, offset);
}

void eval_window(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    const WindowAxes w = window_axes(n->attrs);
    int64_t own[MAX_RANK], stride[MAX_RANK];
    type_strides(&args[0]->type, own);
    for (int i = 0; i < args[0]->type.rank; i++) stride[i < w.at ? i : i + w.n] = own[i];
    for (int i = 0; i < w.n; i++) {
        stride[w.axis[i]] = own[w.axis[i]] * w.stride[i];
        stride[w.at + i] = own[w.axis[i]] * w.dilation[i];
    }
    view(out, args[0], stride, 0);
}

void eval_pad(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    const int64_t *low = attr_ints(n, ATTR_low, NULL);
    int64_t count = type_count(&n->type), to[MAX_RANK], from[MAX_RANK], offset = 0;
    for (int64_t i = 0; i < count; i++) value_put(out, i, value_at(args[1], 0));
    type_strides(&n->type, to);
    type_strides(&args[0]->type, from);
    for (int i = 0; i < n->type.rank; i++) offset += low[i] * to[i];
    copy_strided(out, to, offset, args[0], from, 0, n->type.rank, args[0]->type.dim);
}

void eval_concat(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    int64_t axis = attr_int(n, ATTR_axis, 0), to[MAX_RANK], from[MAX_RANK], offset = 0;
    type_strides(&n->type, to);
    for (uint32_t i = 0; i < n->nargs; i++) {
        type_strides(&args[i]->type, from);
        copy_strided(out, to, offset, args[i], from, 0, n->type.rank, args[i]->type.dim);
        offset += to[axis] * args[i]->type.dim[axis];
    }
}

// Offset in [whole] at which a dynamic slice of the shape [part] begins, with its starts clamped so
// that it fits.
static int64_t dynamic_offset(const Type *whole, const Type *part, Value *const *starts)
{
    int64_t stride[MAX_RANK], offset = 0;
    type_strides(whole, stride);
    for (int i = 0; i < whole->rank; i++) {
        int64_t at = starts[i]->i[0], last = whole->dim[i] - part->dim[i];
        offset += stride[i] * (at < 0 ? 0 : at > last ? last : at);
    }
    return offset;
}

void eval_dynamic_slice(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    int64_t stride[MAX_RANK];
    type_strides(&args[0]->type, stride);
    view(out, args[0], stride, dynamic_offset(&args[0]->type, &n->type, args + 1));
}

void eval_dynamic_update(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    int64_t to[MAX_RANK], from[MAX_RANK];
    type_strides(&n->type, to);
    type_strides(&args[1]->type, from);
    view(out, args[0], to, 0);
    int64_t offset = dynamic_offset(&n->type, &args[1]->type, args + 2);
    copy_strided(out, to, offset, args[1], from, 0, n->type.rank, args[1]->type.dim);
}

// -- reductions -----------------------------------------------------------------------------------

// An operand's axes, divided into kept and reduced ones.
typedef struct Axes {
    int kept, reduced;
    int64_t kept_dim[MAX_RANK], kept_stride[MAX_RANK];
    int64_t dim[MAX_RANK], stride[MAX_RANK];
} Axes;

static Axes split_axes(const Node *n, const Type *t)
{
    Axes s = {0};
    int naxes, k = 0;
    const int64_t *axes = attr_ints(n, ATTR_axes, &naxes);
    int64_t own[MAX_RANK];
    type_strides(t, own);
    for (int i = 0; i < t->rank; i++) {
        if (k < naxes && axes[k] == i) {
            k++;
            s.dim[s.reduced] = t->dim[i];
            s.stride[s.reduced++] = own[i];
        } else {
            s.kept_dim[s.kept] = t->dim[i];
            s.kept_stride[s.kept++] = own[i];
        }
    }
    return s;
}

// Reduces with an elementwise op, in double or int64_t; rounds or wraps once at the end.
static void reduce(Eval *e, const Node *n, const Value *v, Value *out, Op step, Scalar begin)
{
    Axes s = split_axes(n, &v->type);
    DType wide = value_is_float(v) ? DT_F64 : DT_I64;
    Walk w = walk_begin(s.kept, s.kept_dim, s.kept_stride, 0, NULL, 0);
    for (int64_t at = 0; w.left > 0; walk_next(&w), at++) {
        Scalar acc = begin;
        Walk r = walk_begin(s.reduced, s.dim, s.stride, w.offset[0], NULL, 0);
        for (; r.left > 0; walk_next(&r))
            acc = scalar_apply(step, wide, wide, acc, value_at(v, r.offset[0]), acc, false);
        value_put(out, at, scalar_cast(wide, out->type.dtype, acc, e->env->round));
    }
}

// Sums floats and carries along what each addition rounds off (Neumaier), so that finite
// differences of a sum over thousands of elements keep all their digits.
static void float_sum(Eval *e, const Node *node, const Value *v, Value *out)
{
    Axes s = split_axes(node, &v->type);
    int outer = s.reduced ? s.reduced - 1 : 0; // the last axis is a plain loop
    int64_t n = s.reduced ? s.dim[outer] : 1, stride = s.reduced ? s.stride[outer] : 0;
    Walk w = walk_begin(s.kept, s.kept_dim, s.kept_stride, 0, NULL, 0);
    for (int64_t at = 0; w.left > 0; walk_next(&w), at++) {
        double sum = 0, lost = 0;
        Walk r = walk_begin(outer, s.dim, s.stride, w.offset[0], NULL, 0);
        for (; r.left > 0; walk_next(&r))
            for (int64_t i = 0; i < n; i++) {
                double x = v->f[r.offset[0] + i * stride], next = sum + x;
                lost += fabs(sum) >= fabs(x) ? sum - next + x : x - next + sum;
                sum = next;
            }
        if (isfinite(sum)) sum += lost;
        out->f[at] = e->env->round ? scalar_round(out->type.dtype, sum) : sum;
    }
}

void eval_sum(Eval *e, const Node *n, Value *const *args, Value *out)
{
    if (value_is_float(out))
        float_sum(e, n, args[0], out);
    else
        reduce(e, n, args[0], out, OP_add, (Scalar){.i = 0});
}

void eval_prod(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Scalar one = {.i = 1};
    if (value_is_float(out)) one.f = 1;
    reduce(e, n, args[0], out, OP_mul, one);
}

void eval_max(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const DType t = n->type.dtype;
    Scalar low = {.i = t == DT_BOOL ? 0 : scalar_to_int(t, -INFINITY)};
    if (value_is_float(out)) low.f = -INFINITY;
    reduce(e, n, args[0], out, OP_maximum, low);
}

void eval_min(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Scalar high = {.i = scalar_to_int(n->type.dtype, INFINITY)};
    if (value_is_float(out)) high.f = INFINITY;
    reduce(e, n, args[0], out, OP_minimum, high);
}

// Two passes: the sum of squared deviations from the mean of the first pass.
void eval_sqdev(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *v = args[0];
    Axes s = split_axes(n, &v->type);
    Walk w = walk_begin(s.kept, s.kept_dim, s.kept_stride, 0, NULL, 0);
    for (int64_t at = 0; w.left > 0; walk_next(&w), at++) {
        Walk r = walk_begin(s.reduced, s.dim, s.stride, w.offset[0], NULL, 0);
        double sum = 0, count = (double)r.left, all = 0;
        for (; r.left > 0; walk_next(&r)) sum += v->f[r.offset[0]];
        r = walk_begin(s.reduced, s.dim, s.stride, w.offset[0], NULL, 0);
        for (; r.left > 0; walk_next(&r)) {
            double d = v->f[r.offset[0]] - sum / count;
            all += d * d;
        }
        out->f[at] = e->env->round ? scalar_round(out->type.dtype, all) : all;
    }
}

void eval_argmax(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    const Value *v = args[0];
    Axes s = split_axes(n, &v->type);
    Walk w = walk_begin(s.kept, s.kept_dim, s.kept_stride, 0, NULL, 0);
    for (int64_t at = 0; w.left > 0; walk_next(&w), at++) {
        int64_t best = 0;
        for (int64_t i = 1; i < s.dim[0]; i++) { // the first NaN, otherwise the first of the
                                                 // largest elements
            Scalar x = value_at(v, w.offset[0] + i * s.stride[0]);
            Scalar y = value_at(v, w.offset[0] + best * s.stride[0]);
            if (value_is_float(v) ? y.f == y.f && (x.f > y.f || x.f != x.f) : x.i > y.i) best = i;
        }
        out->i[at] = best;
    }
}

// -- dot ------------------------------------------------------------------------------------------

// [v] with its axes in the order of the three lists, dense. If v is in that order already, its own
// data.
static Value regroup(Arena *a, const Value *v, const int64_t *first, int nfirst,
                     const int64_t *second, int nsecond, const int64_t *third, int nthird)
{
    Type t = type_scalar(v->type.dtype);
    int64_t own[MAX_RANK], stride[MAX_RANK];
    type_strides(&v->type, own);
    const int64_t *list[] = {first, second, third};
    int n[] = {nfirst, nsecond, nthird};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < n[k]; i++) {
            stride[t.rank] = own[list[k][i]];
            t.dim[t.rank++] = v->type.dim[list[k][i]];
        }
    }
    type_strides(&t, own);
    if (!memcmp(own, stride, (size_t)t.rank * sizeof *own)) return *v;
    Value out = value_new(a, &t);
    view(&out, v, stride, 0);
    return out;
}

// to[j] += x[k] * from[k * n + j] for k in 0..4, in this order, so that an element of [to] is
// loaded and stored once for four products; unrolled by four so that the compiler vectorizes it.
static void add_floats4(double *restrict to, const double *x, const double *from, int64_t n)
{
    const double *f0 = from, *f1 = f0 + n, *f2 = f1 + n, *f3 = f2 + n;
    const double x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (int64_t c = j; c < j + 4; c++)
            to[c] = to[c] + x0 * f0[c] + x1 * f1[c] + x2 * f2[c] + x3 * f3[c];
    for (; j < n; j++) to[j] = to[j] + x0 * f0[j] + x1 * f1[j] + x2 * f2[j] + x3 * f3[j];
}

static void add_floats(double *restrict to, double x, const double *from, int64_t n)
{
    for (int64_t j = 0; j < n; j++) to[j] += x * from[j];
}

// One row of the result: to[n] += x[K] * from[K, n].
static void add_row(double *restrict to, const double *x, const double *from, int64_t K, int64_t n)
{
    int64_t k = 0;
    for (; k + 4 <= K; k += 4) add_floats4(to, x + k, from + k * n, n);
    for (; k < K; k++) add_floats(to, x[k], from + k * n, n);
}

static void add_ints(int64_t *restrict to, int64_t x, const int64_t *restrict from, int64_t n)
{
    for (int64_t j = 0; j < n; j++) to[j] += x * from[j];
}

void eval_dot(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Arena *arena = e->env->arena;
    DotAxes x = dot_axes(n, 0), y = dot_axes(n, 1);
    DotSizes size = dot_sizes(n);
    int64_t M = size.m, N = size.n, K = size.k;
    Value a = regroup(arena, args[0], x.batch, x.nbatch, x.free, x.nfree, x.contract, x.ncontract);
    Value b = regroup(arena, args[1], y.batch, y.nbatch, y.contract, y.ncontract, y.free, y.nfree);
    DType t = out->type.dtype;
    for (int64_t row = 0; row < size.batch * M; row++) {
        int64_t rb = row / M * K * N;
        if (dtype_is_float(t))
            add_row(out->f + row * N, a.f + row * K, b.f + rb, K, N);
        else
            for (int64_t k = 0; k < K; k++)
                add_ints(out->i + row * N, a.i[row * K + k], b.i + rb + k * N, N);
        DType wide = dtype_is_float(t) ? DT_F64 : DT_I64;
        for (int64_t j = 0; j < N; j++)
            value_put(out, row * N + j,
                      scalar_cast(wide, t, value_at(out, row * N + j), e->env->round));
    }
}

void eval_repair_places(Arena *a, const Node *n, Type *dot, int64_t **place)
{
    const int64_t *perm = attr_ints(n, ATTR_perm, NULL), count = type_count(&n->type);
    int64_t stride[MAX_RANK];
    *dot = n->type;
    for (int i = 0; i < n->type.rank; i++) dot->dim[perm[i]] = n->type.dim[i];
    type_strides(dot, stride);
    *place = NEW_ARRAY(a, int64_t, count + 1);
    for (int64_t at = 0; at < count; at++) {
        int64_t rest = at;
        for (int i = n->type.rank; i-- > 0; rest /= n->type.dim[i])
            (*place)[at] += rest % n->type.dim[i] * stride[perm[i]];
    }
}

void eval_repair(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Value *y = args[2];
    const int64_t count = type_count(&y->type);
    bool finite = true;
    for (int64_t i = 0; i < count; i++) finite &= isfinite(y->f[i]);
    memcpy(out->f, y->f, sizeof *out->f * (size_t)count);
    if (finite) return;
    Type dot;
    int64_t *place;
    eval_repair_places(e->env->arena, n, &dot, &place);
    Value exact = value_new(e->env->arena, &dot);
    eval_dot(e, n, args, &exact);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(y->f[i])) out->f[i] = exact.f[place[i]];
}
