// Sums of a product and a stored value of the same size, computed by the matmul library on the way:
// a residual connection, x + linear(h), or the two products of a recurrent step.
//
// The library adds in f32 and rounds once, also a product that is rounded before the sum
// (ir/bound.h admits that), and applies a ReLU after it. The sum is left to another kernel if that
// reduces it, too, as a norm does: it reads both operands in any case.
#include "passes/fuse/fuse.h"

typedef struct Readers { // by id: how a value is read, through elementwise code and views
    bool *reduced;       // by a reduction
    bool *stored;        // by something that needs it in memory
} Readers;

static Readers readers_of(const Fuse *f)
{
    const Graph *g = f->g;
    Readers r = {NEW_ARRAY(f->a, bool, g->nodes.n + 1), NEW_ARRAY(f->a, bool, g->nodes.n + 1)};
    for (uint32_t i = 0; i < g->results.n; i++) r.stored[g->results.at[i]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *n = g->nodes.at[i];
        if (!f->live[i] || n->op == OP_assign) continue;
        const OpClass c = node_class(n);
        const bool whole = c == CLS_ELEMENTWISE || node_has(n, OPF_PERMUTES); // reads all elements
        for (uint32_t k = 0; k < n->nargs; k++) {
            const uint32_t a = n->args[k]->id;
            r.reduced[a] |= c == CLS_REDUCE || (whole && r.reduced[i]);
            if (c == CLS_VIEW) r.stored[a] |= r.stored[i];
            if (c != CLS_VIEW && c != CLS_ELEMENTWISE && c != CLS_REDUCE) r.stored[a] = true;
        }
    }
    return r;
}

// Whether n is stored even if no library call reads it.
static bool stored_anyway(const Fuse *f, const Readers *r, const Node *n)
{
    const Node *dot = f->absorbed[n->id];
    switch (node_class(n)) {
    case CLS_REDUCE:
    case CLS_DOT:
    case CLS_REGION: return true;
    case CLS_ELEMENTWISE: break;
    default: return node_has(n, OPF_RESULT) || (fuse_in_memory(f, n) && !node_has(n, OPF_CELL));
    }
    return dot ? f->epilogue[dot->id] == n : r->stored[n->id] && f->uses[n->id] > 1;
}

// The stored value that the library can add in the place of n, the operand of a sum whose result is
// stored as [to]. NULL: there is none.
static Node *addend(const Fuse *f, const Readers *r, Node *n, DType to)
{
    if (n->type.dtype != to && n->op == OP_cast) n = n->args[0];
    if (n->type.dtype != to) return NULL;
    while (node_keeps_all(n)) n = n->args[0];
    return stored_anyway(f, r, n) ? n : NULL;
}

static bool is_zero(const Node *n)
{
    double v;
    return node_const_value(n, &v) && v == 0;
}

// The maximum of n and 0, if nothing else reads n.
static Node *relu_of(const Fuse *f, Node *n)
{
    Node *y = fuse_next(f, n);
    return y && y->op == OP_maximum && y->args[0] != y->args[1] && is_zero(fuse_other_operand(y, n))
               ? y
               : NULL;
}

// Folds add(end of the chain, a stored value), the ReLU of it and the rounding of that. Each step
// must be the only reader of the one before.
static void fold_sum(Fuse *f, const Readers *r, Node *dot, unsigned can)
{
    const DType low = dot->args[0]->type.dtype;
    Node *chain[5], *n = f->epilogue[dot->id], *end, *relu = NULL, *next;
    int len = 0;
    const DType from = n->type.dtype;
    if (from != DT_F32 && (next = fuse_next(f, n)) && next->op == OP_cast &&
        next->type.dtype == DT_F32)
        n = chain[len++] = next; // the library need not round before it adds
    Node *sum = fuse_next(f, n);
    if (!sum || sum->op != OP_add || sum->args[0] == sum->args[1] || f->absorbed[sum->id]) return;
    Node *other = fuse_other_operand(sum, n);
    end = chain[len++] = sum;
    if ((can & EPI_RELU) && (next = relu_of(f, end))) end = relu = chain[len++] = next;
    next = fuse_next(f, end);
    if (end->type.dtype != low && next && next->op == OP_cast && next->type.dtype == low &&
        (can & EPI_CASTS)) {
        end = chain[len++] = next;
        if (!relu && (can & EPI_RELU) && (next = relu_of(f, end))) end = relu = chain[len++] = next;
    }
    const bool rounds = end->type.dtype != DT_F32;
    const Node *bias = f->bias[dot->id];
    if (rounds ? end->type.dtype != low : from != DT_F32) return;
    if (bias && bias->type.dtype != end->type.dtype) return;
    other = addend(f, r, other, end->type.dtype);
    if (!other || r->reduced[end->id] || !r->stored[end->id]) return;
    f->residual[dot->id] = other;
    for (int i = 0; i < len; i++) f->absorbed[chain[i]->id] = dot;
    fuse_take(f, dot, end, EPI_RESIDUAL | (relu ? EPI_RELU : 0) | (rounds ? EPI_CASTS : 0));
}

void fuse_residuals(Fuse *f, unsigned can)
{
    const unsigned activations = EPI_RELU | EPI_GELU | EPI_GELU_AUX | EPI_DGELU;
    if (!(can & EPI_RESIDUAL)) return;
    const Readers r = readers_of(f);
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        Node *n = f->g->nodes.at[i];
        if (f->live[i] && n->op == OP_dot && !fuse_generated(f->options, n) &&
            !(f->epilogue_bits[i] & activations))
            fold_sum(f, &r, n, can);
    }
}
