// Contractions for the matmul library: the operands of a dot, as they lie in memory, in terms of a
// row-major matmul. Views between the dot and a stored operand become strides. Where this is not
// possible, or the types are not the library's, the dot is lowered to a kernel like everything
// else.
#include "codegen/matmul/gemm.h"

#include <string.h>

#include "ir/axes.h"

static bool in_memory(const GemmFrom *f, const Node *n)
{
    if (f->graph->fusion->group_of[n->id]) return true;
    if (node_has(n, OPF_RESULT) || node_class(n) == CLS_REGION) return true;
    bool counter = n->op == OP_region_param && attr_int(n, ATTR_index, 0) == 0;
    return node_in_memory(n) && !counter && !(f->entry->rows && node_is_data(n));
}

bool gemm_operand(const GemmFrom *f, const Node *n, GemmOperand *out)
{
    out->stored = n;
    while (!in_memory(f, out->stored)) {
        if (!node_has(out->stored, OPF_STRIDES)) return false;
        out->stored = out->stored->args[0];
    }
    return strides_through(n, out->stored, &out->s);
}

// Expresses strides as a (rows, cols) matrix, stored directly or transposed.
static bool matrix(int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride, bool *trans,
                   int64_t *ld)
{
    if (rows == 1 && cols == 1)
        row_stride = col_stride = 1;
    else if (rows == 1)
        row_stride = col_stride == 1 ? cols : 1;
    else if (cols == 1)
        col_stride = 1; // one column: the distance of its rows does not matter
    if (col_stride == 1 && row_stride >= cols) {
        *trans = false;
        *ld = row_stride;
        return true;
    }
    if (row_stride == 1 && col_stride >= rows) {
        *trans = true;
        *ld = col_stride;
        return true;
    }
    return false;
}

static bool types_fit(const GemmFrom *f, DType a, DType b, DType c)
{
    if (a != b || !dtype_is_float(a)) return false;
    bool cuda = f->target->kind == TARGET_CUDA;
    if (a == DT_F32 || a == DT_F64) return c == a;
    return cuda && (c == a || c == DT_F32);
}

static bool epilogue_of(unsigned bits, ProgEpilogue *out)
{
    switch (bits) {
    case 0: *out = PE_NONE; return true;
    case EPI_BIAS: *out = PE_BIAS; return true;
    case EPI_RELU: *out = PE_RELU; return true;
    case EPI_RELU | EPI_BIAS: *out = PE_RELU_BIAS; return true;
    case EPI_GELU: *out = PE_GELU; return true;
    case EPI_GELU | EPI_BIAS: *out = PE_GELU_BIAS; return true;
    case EPI_GELU_AUX: *out = PE_GELU_AUX; return true;
    case EPI_GELU_AUX | EPI_BIAS: *out = PE_GELU_AUX_BIAS; return true;
    case EPI_DGELU: *out = PE_DGELU; return true;
    default: return false;
    }
}

// The value that an out stores, looking through roots and reshapes, which change no byte.
static const Node *through(const Node *n)
{
    while (node_class(n) == CLS_ROOT || node_keeps_all(n)) n = n->args[0];
    return n;
}

// The group's result: the only value it stores other than its aux.
static const Node *result_of(const Group *gr)
{
    const Node *out = NULL;
    for (uint32_t i = 0; i < gr->outs.n; i++) {
        const Node *n = gr->outs.at[i];
        if (n == gr->aux) continue;
        if (out && through(n) != through(out)) return NULL;
        if (!out) out = n;
    }
    return out;
}

// The stored node behind n, if that is a row-major matrix with the type and size of the result.
static const Node *like_result(const GemmFrom *f, const GemmMatch *m, const Node *n)
{
    const ProgGemm *g = &m->gemm;
    GemmOperand x;
    bool like = gemm_operand(f, n, &x) && n->type.dtype == m->out->type.dtype &&
                type_count(&n->type) == g->m * g->n * g->batch && strides_row_major(&x.s);
    return like ? x.stored : NULL;
}

bool gemm_match(const GemmFrom *f, const Group *gr, GemmMatch *m)
{
    const Node *dot = gr->anchor;
    const Target *t = f->target;
    memset(m, 0, sizeof *m);
    if (!t->matmul_library || gr->kind != GROUP_DOT || !dot || dot->op != OP_dot || !gr->outs.n)
        return false;
    m->out = result_of(gr);
    if (!m->out || (!gr->epilogue && through(m->out) != dot)) return false;
    ProgGemm *g = &m->gemm;
    if (!epilogue_of(gr->epilogue & ~(unsigned)(EPI_CASTS | EPI_RESIDUAL), &g->epilogue) ||
        (gr->epilogue & ~t->epilogues))
        return false;
    DType ta = dot->args[0]->type.dtype, tb = dot->args[1]->type.dtype;
    if (!types_fit(f, ta, tb, m->out->type.dtype)) return false;
    if (!gemm_operand(f, dot->args[0], &m->a) || !gemm_operand(f, dot->args[1], &m->b))
        return false;
    const DotAxes x = dot_axes(dot, 0), y = dot_axes(dot, 1);
    const Strides *a = &m->a.s, *b = &m->b.s;
    const int nc = x.ncontract;
    int64_t ca[MAX_RANK], cb[MAX_RANK];
    // Contracted axes may be in any order: sorted by a's strides, largest first.
    for (int i = 0; i < nc; i++) {
        int k = i;
        for (; k > 0 && a->step[ca[k - 1]] < a->step[x.contract[i]]; k--)
            ca[k] = ca[k - 1], cb[k] = cb[k - 1];
        ca[k] = x.contract[i];
        cb[k] = y.contract[i];
    }
    int64_t am, ak, bk, bn, k2, batch2;
    if (!strides_run(a, x.free, x.nfree, &g->m, &am) || !strides_run(a, ca, nc, &g->k, &ak) ||
        !strides_run(b, cb, nc, &k2, &bk) || !strides_run(b, y.free, y.nfree, &g->n, &bn) ||
        !strides_run(a, x.batch, x.nbatch, &g->batch, &g->stride_a) ||
        !strides_run(b, y.batch, y.nbatch, &batch2, &g->stride_b))
        return false;
    if (!matrix(g->m, am, g->k, ak, &g->trans_a, &g->lda) ||
        !matrix(g->k, bk, g->n, bn, &g->trans_b, &g->ldb))
        return false;
    const int64_t sizes[] = {g->m, g->n, g->k, g->batch, g->lda, g->ldb}; // the library takes ints
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] > INT32_MAX) return false;
    g->ldc = g->n;
    g->stride_c = g->batch > 1 ? g->m * g->n : 0;
    if (gr->epilogue & EPI_BIAS) {
        GemmOperand b;
        if (!gr->bias || !gemm_operand(f, gr->bias, &b)) return false;
        int last = b.s.rank - 1;
        for (int i = 0; i <= last; i++) // a vector along n, the same for every row
            if (b.s.dim[i] != 1 && b.s.step[i] != (i == last)) return false;
        if ((last >= 0 ? b.s.dim[last] : 1) != g->n) return false;
        m->bias = b.stored;
        if (m->bias->type.dtype != m->out->type.dtype) return false;
    }
    if ((gr->aux && !(m->aux = like_result(f, m, gr->aux))) ||
        (gr->residual && !(m->residual = like_result(f, m, gr->residual))))
        return false;
    g->residual = m->residual != NULL;
    g->a_type = (ProgDType)ta;
    g->b_type = (ProgDType)tb;
    g->c_type = (ProgDType)m->out->type.dtype;
    g->compute = ta == DT_F64 || attr_int(dot, ATTR_accumulate, DT_F32) == DT_F64 ? PD_F64 : PD_F32;
    return ta == DT_F64 || g->compute == PD_F32;
}

// Whether the product is generated instead of computed by the library.
static bool is_generated(const GemmFrom *f, const Group *gr, const ProgGemm *g)
{
    bool plain = !(gr->epilogue & ~(unsigned)(EPI_BIAS | EPI_RELU | EPI_GELU | EPI_RESIDUAL));
    bool f32 =
        g->a_type == PD_F32 && g->b_type == PD_F32 && g->c_type == PD_F32 && g->compute == PD_F32;
    if (target_row_by_row(f->target, g->m, g->n, g->k)) return plain;
    const bool f64 = g->a_type == PD_F64 && g->b_type == PD_F64 && g->c_type == PD_F64;
    if (target_narrow_product(f->target, f64 ? 2 * g->n : g->n)) return plain && (f32 || f64);
    return plain && f32 && target_generated_product(f->target, g->batch, g->m, g->n, g->k, f->tf32);
}

bool gemm_possible(const GemmFrom *f, const Group *gr)
{
    GemmMatch m;
    return gemm_match(f, gr, &m) && !is_generated(f, gr, &m.gemm);
}
