// Epilogues of matmul library calls: bias, rounding to a narrower type, an activation, the
// auxiliary output (the value before it, kept for the backward part), an activation's gradient.
//
// A chain of elementwise nodes is recognised by what it computes, not by how it is written: it is
// evaluated at sample points and compared with the library's functions. So GELU in its tanh form is
// found however a model spells it, and the exact one (erf), which differs by 5e-4, is not mistaken
// for it.
#include <math.h>

#include "ir/scalar.h"
#include "passes/fuse/fuse.h"

enum { MOST_NODES = 96, SAMPLES = 41 };

static bool only_user(const Fuse *f, const Node *n)
{
    return f->uses[n->id] == 1 && f->user[n->id];
}

Node *fuse_next(const Fuse *f, const Node *n)
{
    return n && only_user(f, n) ? f->user[n->id] : NULL;
}

Node *fuse_other_operand(const Node *n, const Node *one)
{
    return n->args[0] == one ? n->args[1] : n->args[0];
}

static bool is_cast(const Node *n, DType to)
{
    return n && n->op == OP_cast && n->type.dtype == to;
}

// If n broadcasts a vector along the last axis to every row, with element type t: the vector.
// Otherwise NULL. The library reads it in the type of its result, so a widened vector is read
// before the cast.
static Node *bias_vector(const Node *n, DType t)
{
    if (n->op != OP_broadcast) return NULL;
    Node *b = n->args[0];
    int count;
    const int64_t *dims = attr_ints(n, ATTR_dims, &count);
    int last = n->type.rank - 1;
    for (int i = 0; i < b->type.rank; i++)
        if (b->type.dim[i] != 1 && dims[i] != last) return NULL;
    double v;
    if (type_count(&b->type) != n->type.dim[last] || node_const_value(b, &v)) return NULL;
    if (b->type.dtype != t && b->op == OP_cast) b = b->args[0];
    return b->type.dtype == t ? b : NULL;
}

// Whether the only free axis of the dot's second operand is the last axis of the result.
static bool columns_are_b(const Node *dot)
{
    int nb, nc;
    attr_ints(dot, ATTR_batch_b, &nb);
    attr_ints(dot, ATTR_contract_b, &nc);
    return dot->args[1]->type.rank - nb - nc == 1;
}

void fuse_take(Fuse *f, Node *dot, Node *end, unsigned bits)
{
    f->absorbed[f->epilogue[dot->id]->id] = dot;
    f->absorbed[dot->id] = f->absorbed[end->id] = dot;
    f->epilogue[dot->id] = end;
    f->epilogue_bits[dot->id] |= bits;
}

// Folds the chain: dot, cast to f32, + bias, cast to the operands' type. Each step must be the only
// reader of the one before.
static void linear_part(Fuse *f, Node *dot, unsigned can)
{
    f->epilogue[dot->id] = dot;
    DType low = dot->args[0]->type.dtype;
    bool narrow = low != DT_F32 && low != DT_F64 && (can & EPI_CASTS);
    Node *n = fuse_next(f, dot), *at = dot, *sum = NULL;
    if (narrow && dot->type.dtype == low && is_cast(n, DT_F32)) {
        at = n;
        n = fuse_next(f, n);
    }
    Node *other =
        n && n->op == OP_add && n->args[0] != n->args[1] ? fuse_other_operand(n, at) : NULL;
    if (other && (can & EPI_BIAS) && columns_are_b(dot)) {
        Node *after = fuse_next(f, n);
        bool rounds = narrow && at->type.dtype != low && is_cast(after, low);
        DType result = rounds ? low : at->type.dtype;
        Node *bias = rounds || at == dot ? bias_vector(other, result) : NULL;
        if (bias) {
            sum = n;
            f->bias[dot->id] = bias;
            fuse_take(f, dot, n, EPI_BIAS);
            if (!rounds) return;
            n = after;
        }
    }
    if (!narrow || !is_cast(n, low) || (sum ? sum : at) != n->args[0] ||
        (sum ? sum : at)->type.dtype == low)
        return;
    fuse_take(f, dot, n, EPI_CASTS);
}

// Folds max(x, 0), if it is the only reader of the end of the chain.
static void plain_relu(Fuse *f, Node *dot, unsigned can)
{
    Node *x = f->epilogue[dot->id], *n = fuse_next(f, x);
    double zero;
    if (!n || n->op != OP_maximum || !(can & EPI_RELU) || !(can & EPI_BIAS) ||
        !columns_are_b(dot) || n->args[0] == n->args[1])
        return;
    if (node_const_value(fuse_other_operand(n, x), &zero) && zero == 0)
        fuse_take(f, dot, n, EPI_RELU);
}

// -- functions by their values --------------------------------------------------------------------

typedef struct Function { // of one or two results of dots; the nodes are in ascending order of ids
    Node *node[MOST_NODES];
    int n;
    Node *var[2];
    int nvars;
} Function;

// Collects the expression that computes [out] from results of contractions and constants. false: it
// reads something else, or is too large.
static bool function_of(Node *const *end_of, Node *out, Function *fn)
{
    Node *stack[MOST_NODES * 3];
    int nstack = 0;
    double v;
    *fn = (Function){0};
    stack[nstack++] = out;
    while (nstack) {
        Node *n = stack[--nstack];
        bool known = false;
        for (int i = 0; i < fn->n && !known; i++) known = fn->node[i] == n;
        if (known) continue;
        if (fn->n == MOST_NODES || nstack + 3 > MOST_NODES * 3) return false;
        int at = fn->n++;
        for (; at > 0 && fn->node[at - 1]->id > n->id; at--) fn->node[at] = fn->node[at - 1];
        fn->node[at] = n;
        if (n != out && end_of[n->id]) {
            if (fn->nvars == 2) return false;
            fn->var[fn->nvars++] = n;
            continue;
        }
        if (node_const_value(n, &v)) continue;
        if (node_class(n) != CLS_ELEMENTWISE || !shape_equal(&n->type, &out->type)) return false;
        for (uint32_t k = 0; k < n->nargs; k++) stack[nstack++] = n->args[k];
    }
    return fn->nvars > 0 && shape_equal(&fn->var[0]->type, &out->type) &&
           (fn->nvars == 1 || shape_equal(&fn->var[1]->type, &out->type));
}

static int index_of(const Function *fn, const Node *n)
{
    for (int i = 0; i < fn->n; i++)
        if (fn->node[i] == n) return i;
    return 0;
}

// The value of the function, without rounding.
static double value_at_point(const Function *fn, const double *x)
{
    Scalar v[MOST_NODES];
    for (int i = 0; i < fn->n; i++) {
        const Node *n = fn->node[i];
        double c;
        Scalar a[3] = {{0}, {0}, {0}};
        bool given = false;
        for (int k = 0; k < fn->nvars; k++)
            if (n == fn->var[k]) v[i].f = x[k], given = true;
        if (given) continue;
        if (node_const_value(n, &c)) {
            if (dtype_is_float(n->type.dtype))
                v[i].f = c;
            else
                v[i].i = (int64_t)c;
            continue;
        }
        for (uint32_t k = 0; k < n->nargs && k < 3; k++) a[k] = v[index_of(fn, n->args[k])];
        DType operand = n->args[n->nargs - 1]->type.dtype;
        v[i] = op_info(n->op)->flags & OPF_CONVERTS
                   ? scalar_cast(operand, n->type.dtype, a[0], false)
                   : scalar_apply(n->op, operand, n->type.dtype, a[0], a[1], a[2], false);
    }
    return v[fn->n - 1].f;
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double gelu(double x) // the form with tanh
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

static double sample(int i)
{
    return (i - SAMPLES / 2) * 0.3125 + 0.01;
}

static bool is_function(const Function *fn, double (*want)(double))
{
    for (int i = 0; i < SAMPLES; i++) {
        double x = sample(i), y = value_at_point(fn, &x);
        if (!(fabs(y - want(x)) <= 1e-6 * (1 + fabs(x)))) return false;
    }
    return fn->nvars == 1;
}

// Whether the function is var[grad] times the slope at its other variable.
static bool is_gradient(const Function *fn, double (*slope)(double), int grad)
{
    for (int i = 0; i < SAMPLES; i++) {
        double x[2];
        x[grad] = i % 3 ? 1.5 - i % 7 : 3;
        x[!grad] = sample(i);
        double want = x[grad] * slope(x[!grad]);
        if (!(fabs(value_at_point(fn, x) - want) <= 1e-6 * (1 + fabs(want)))) return false;
    }
    return fn->nvars == 2;
}

// -- activations ----------------------------------------------------------------------------------

// gone: nodes of the function that nothing outside of it reads, so they need not be computed.
// Returns whether the variable [var] has no other readers, either.
static bool inner_nodes(const Fuse *f, const Function *fn, const Node *var, bool *gone)
{
    uint32_t inside[MOST_NODES] = {0};
    bool all = true;
    for (int i = fn->n - 1; i >= 0; i--) {
        const Node *n = fn->node[i];
        double v;
        gone[i] = false;
        if (n == fn->var[0] || n == fn->var[1]) {
            all &= n != var || inside[i] == f->uses[n->id];
            continue;
        }
        if (node_const_value(n, &v)) continue;
        bool last = i == fn->n - 1;
        gone[i] = !last && inside[i] == f->uses[n->id];
        if (!last && !gone[i]) continue; // it is computed elsewhere, so its operands are read there
        for (uint32_t k = 0; k < n->nargs; k++) inside[index_of(fn, n->args[k])]++;
    }
    return all;
}

// The dot computes the whole function, even if parts of it are computed elsewhere, too.
static void keep_function(Fuse *f, const Function *fn, const Node *dot, const bool *gone)
{
    Node **inner = NEW_ARRAY(f->a, Node *, (uint32_t)fn->n);
    int n = 0;
    for (int i = 0; i < fn->n; i++) {
        bool var = fn->node[i] == fn->var[0] || fn->node[i] == fn->var[1];
        if (gone[i]) f->live[fn->node[i]->id] = false;
        if (!var && i < fn->n - 1) inner[n++] = fn->node[i];
    }
    f->inner[dot->id] = inner;
    f->ninner[dot->id] = n;
}

static bool is_low(const Node *n)
{
    return n->type.dtype == DT_BF16 || n->type.dtype == DT_F16;
}

// Whether the auxiliary tensor is a row-major matrix with rows that are a multiple of 16 bytes.
static bool aux_fits(const Node *end, const Node *dot)
{
    return columns_are_b(dot) && end->type.dim[end->type.rank - 1] % 8 == 0;
}

// Folds y = activation(z), where z is the result of a contraction. If z has other readers, it is
// stored, too.
static void forward(Fuse *f, const Function *fn, Node *dot, Node *y, unsigned can)
{
    Node *z = fn->var[0];
    bool gone[MOST_NODES], alone = inner_nodes(f, fn, z, gone);
    if (z->type.dtype != y->type.dtype || !columns_are_b(dot)) return;
    if (alone && (can & EPI_RELU) && is_function(fn, relu)) {
        fuse_take(f, dot, y, EPI_RELU);
    } else if ((can & (alone ? EPI_GELU : EPI_GELU_AUX)) && (alone || aux_fits(z, dot)) &&
               is_function(fn, gelu)) {
        fuse_take(f, dot, y, alone ? EPI_GELU : EPI_GELU_AUX);
        if (!alone) f->kept[dot->id] = f->aux[dot->id] = z;
    } else {
        return;
    }
    keep_function(f, fn, dot, gone);
}

// Folds y = dz * slope(z), where dz is the result of this contraction, and z is stored by an
// earlier one.
static void backward(Fuse *f, const Function *fn, Node *const *end_of, int grad, Node *y,
                     unsigned can)
{
    Node *dz = fn->var[grad], *z = fn->var[!grad], *dot = end_of[dz->id], *from = end_of[z->id];
    bool gone[MOST_NODES];
    if (!(can & EPI_DGELU) || dz->type.dtype != y->type.dtype || z->type.dtype != y->type.dtype ||
        f->epilogue_bits[dot->id] & ~(unsigned)EPI_CASTS || !aux_fits(dz, dot) || z->id > dz->id)
        return;
    if (f->epilogue[from->id] != z && f->kept[from->id] != z) return; // z is not stored
    if (!inner_nodes(f, fn, dz, gone) || !is_gradient(fn, gelu_slope, grad)) return;
    f->aux[dot->id] = z;
    fuse_take(f, dot, y, EPI_DGELU);
    keep_function(f, fn, dot, gone);
}

static Node *behind(Node *n)
{
    while (node_has(n, OPF_PERMUTES)) n = n->args[0];
    return n;
}

// By id: elementwise values that are stored in any case, since matmuls or outputs read them.
static bool *wanted(const Fuse *f)
{
    bool *want = NEW_ARRAY(f->a, bool, f->g->nodes.n + 1);
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        const Node *n = f->g->nodes.at[i];
        if (!f->live[i] || (n->op != OP_dot && n->op != OP_output)) continue;
        for (uint32_t k = 0; k < n->nargs; k++) want[behind(n->args[k])->id] = true;
    }
    for (uint32_t i = 0; i < f->g->results.n; i++) want[f->g->results.at[i]->id] = true;
    return want;
}

// If a result is a reshape of the product, the library writes the product directly to it.
static void results_in_shape(Fuse *f)
{
    bool *result = NEW_ARRAY(f->a, bool, f->g->nodes.n + 1);
    for (uint32_t i = 0; i < f->g->roots.n; i++)
        if (f->g->roots.at[i]->op == OP_output) result[f->g->roots.at[i]->args[0]->id] = true;
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        Node *dot = f->g->nodes.at[i];
        if (!f->live[i] || dot->op != OP_dot || fuse_generated(f->options, dot)) continue;
        Node *n = fuse_next(f, f->epilogue[i]);
        if (n && n->op == OP_reshape && result[n->id] && !f->absorbed[n->id])
            fuse_take(f, dot, n, 0);
    }
}

void fuse_epilogues(Fuse *f)
{
    unsigned can = f->target ? f->target->epilogues : 0;
    const unsigned activations = EPI_RELU | EPI_GELU | EPI_GELU_AUX | EPI_DGELU;
    Node **end_of = NEW_ARRAY(f->a, Node *, f->g->nodes.n + 1); // by id: the contraction whose
                                                                // folded chain ends there
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        Node *n = f->g->nodes.at[i];
        if (!f->live[i] || n->op != OP_dot) continue;
        f->epilogue[i] = n;
        if (fuse_generated(f->options, n))
            continue; // the generated kernel includes whatever
                      // follows (fuse_small.c)
        linear_part(f, n, can);
        end_of[f->epilogue[i]->id] = n;
        plain_relu(f, n, can);
    }
    fuse_residuals(f, can);
    bool *want = wanted(f);
    for (uint32_t i = 0; i < f->g->nodes.n && (can & activations); i++) {
        Node *y = f->g->nodes.at[i];
        Function fn;
        if (!f->live[i] || !want[i] || !is_low(y) || f->absorbed[i] || !function_of(end_of, y, &fn))
            continue;
        Node *dot = end_of[fn.var[0]->id];
        if (fn.nvars == 1) {
            if (!(f->epilogue_bits[dot->id] & (activations | EPI_RESIDUAL)))
                forward(f, &fn, dot, y, can);
            continue;
        }
        for (int grad = 0; grad < 2 && !f->absorbed[i]; grad++)
            backward(f, &fn, end_of, grad, y, can);
    }
    results_in_shape(f);
}
