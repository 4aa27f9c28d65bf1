// Contractions for the matmul library: a dot's operands, as they lie in memory, in row-major matmul
// terms. Views between the dot and a stored operand become strides; where they cannot, or the types
// are not the library's, the dot is lowered to a kernel like everything else.
#include "codegen/program/gen.h"
#include "codegen/kernel_ir.h"
#include "ir/axes.h"
#include "ir/strides.h"

#include <string.h>

typedef struct Operand { // a strided view of a stored node
    const Node *stored;
    Strides s;
} Operand;

static bool in_memory(const Frame *f, const Node *n)
{
    if (f->g->fusion->group_of[n->id]) return true;
    if (n->op == OP_get || node_class(n) == CLS_REGION) return true;
    bool counter = n->op == OP_region_param && attr_int(n, ATTR_index, 0) == 0;
    return node_in_memory(n) && !counter && !(f->e->entry->rows && node_is_data(n));
}

static bool operand_of(const Frame *f, const Node *n, Operand *out)
{
    out->stored = n;
    while (!in_memory(f, out->stored)) {
        if (!node_has(out->stored, OPF_STRIDES)) return false;
        out->stored = out->stored->args[0];
    }
    return strides_through(n, out->stored, &out->s);
}

// A (rows, cols) matrix by strides: as stored, or stored transposed.
static bool matrix(int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride, bool *trans,
                   int64_t *ld)
{
    if (rows == 1 && cols == 1)
        row_stride = col_stride = 1;
    else if (rows == 1)
        row_stride = col_stride == 1 ? cols : 1;
    else if (cols == 1)
        col_stride = 1; // one column: any distance between its rows will do
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

typedef struct Match {
    ProgGemm gemm;
    Operand a, b;
    const Node *bias, *aux, *out; // aux: read, or stored beside out
} Match;

static bool types_fit(const Frame *f, DType a, DType b, DType c)
{
    if (a != b || !dtype_is_float(a)) return false;
    bool cuda = f->e->gen->target->kind == TARGET_CUDA;
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

// The value an out stores, through roots and reshapes, which change no byte.
static const Node *through(const Node *n)
{
    while (node_class(n) == CLS_ROOT || node_keeps_all(n)) n = n->args[0];
    return n;
}

// The group's result: the one value it stores besides what its aux is.
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

static bool match(const Frame *f, const Group *gr, Match *m)
{
    const Node *dot = gr->anchor;
    const Target *t = f->e->gen->target;
    memset(m, 0, sizeof *m);
    if (!t->matmul_library || gr->kind != GROUP_DOT || !dot || dot->op != OP_dot || !gr->outs.n)
        return false;
    m->out = result_of(gr);
    if (!m->out || (!gr->epilogue && through(m->out) != dot)) return false;
    ProgGemm *g = &m->gemm;
    if (!epilogue_of(gr->epilogue & ~(unsigned)EPI_CASTS, &g->epilogue) ||
        (gr->epilogue & ~t->epilogues))
        return false;
    DType ta = dot->args[0]->type.dtype, tb = dot->args[1]->type.dtype;
    if (!types_fit(f, ta, tb, m->out->type.dtype)) return false;
    if (!operand_of(f, dot->args[0], &m->a) || !operand_of(f, dot->args[1], &m->b)) return false;
    const DotAxes x = dot_axes(dot, 0), y = dot_axes(dot, 1);
    const Strides *a = &m->a.s, *b = &m->b.s;
    const int nc = x.ncontract;
    int64_t ca[MAX_RANK], cb[MAX_RANK];
    // Contracted axes may be taken in any order: by a's strides, largest first.
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
    const int64_t sizes[] = {g->m, g->n, g->k, g->batch, g->lda, g->ldb}; // the library's are ints
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] > INT32_MAX) return false;
    g->ldc = g->n;
    g->stride_c = g->batch > 1 ? g->m * g->n : 0;
    if (gr->epilogue & EPI_BIAS) {
        Operand b;
        if (!gr->bias || !operand_of(f, gr->bias, &b)) return false;
        int last = b.s.rank - 1;
        for (int i = 0; i <= last; i++) // a vector along n, the same for every row
            if (b.s.dim[i] != 1 && b.s.step[i] != (i == last)) return false;
        if ((last >= 0 ? b.s.dim[last] : 1) != g->n) return false;
        m->bias = b.stored;
        if (m->bias->type.dtype != m->out->type.dtype) return false;
    }
    if (gr->aux) { // a matrix of the result's type and shape, in rows
        Operand aux;
        if (!operand_of(f, gr->aux, &aux) || gr->aux->type.dtype != m->out->type.dtype ||
            type_count(&gr->aux->type) != g->m * g->n * g->batch || !strides_row_major(&aux.s))
            return false;
        m->aux = aux.stored;
    }
    g->a_type = (ProgDType)ta;
    g->b_type = (ProgDType)tb;
    g->c_type = (ProgDType)m->out->type.dtype;
    g->compute = ta == DT_F64 || attr_int(dot, ATTR_accumulate, DT_F32) == DT_F64 ? PD_F64 : PD_F32;
    return ta == DT_F64 || g->compute == PD_F32;
}

// Generated rather than called.
static bool is_generated(const Gen *gen, const Group *gr, const ProgGemm *g)
{
    bool plain = !(gr->epilogue & ~(unsigned)(EPI_BIAS | EPI_RELU | EPI_GELU));
    bool f32 =
        g->a_type == PD_F32 && g->b_type == PD_F32 && g->c_type == PD_F32 && g->compute == PD_F32;
    if (gen->target->kind != TARGET_CUDA && (g->m == 1 || g->n == 1)) return plain; // memory bound
    return plain && f32 &&
           target_generated_product(gen->target, g->batch, g->m, g->n, g->k, gen->options->tf32);
}

bool gemm_possible(Frame *f, const Group *gr)
{
    Match m;
    return match(f, gr, &m) && !is_generated(f->e->gen, gr, &m.gemm);
}

// Room for split reductions over k. A handful of copies of c is what they use.
static int64_t workspace_bytes(const Target *t, const ProgGemm *g)
{
    if (t->kind != TARGET_CUDA) return 0;
    int64_t c = g->m * g->n * g->batch * 4 * 8, most = 32 << 20;
    c = (c + 255) / 256 * 256;
    return c < most ? c : most;
}

// Puts a kernel of the step into the program: 1 + its index, 0 where it cannot be called from
// there. Its arguments go to args.
static int32_t add_kernel(Frame *f, LoweredKernel *k, ProgArg *args, IdMap *scratch)
{
    Gen *gen = f->e->gen;
    if (k->nargs > PROG_MAX_KERNEL_ARGS) return 0;
    for (int i = 0; i < k->nargs; i++)
        if (!frame_bind(f, &k->args[i], &args[i], scratch)) return 0;
    if (gen->options->log) k->contract = gen_contract(f->e, args, k->nargs);
    int32_t index = gen_kernel(gen, &k->prog, k->contract);
    k->prog.name = gen->kernels.at[index].name;
    return index + 1;
}

static bool is_sums(const Item *tail)
{
    return tail->groups.at[0]->kind == GROUP_COLUMN;
}

// The product and its tail as one group: what follows it element by element (what only that reads
// is not stored), or sums over the rows of its left operand.
static Group *with_tail(Frame *f, const Group *gr, const Item *tail)
{
    Arena *a = f->e->gen->arena;
    const Group *next = tail->groups.at[0];
    bool sums = is_sums(tail);
    Group *wide = NEW(a, Group);
    *wide = *gr;
    memset(&wide->outs, 0, sizeof wide->outs);
    wide->inner = NEW_ARRAY(a, Node *, (uint32_t)gr->ninner + gr->outs.n + next->outs.n + 1);
    if (gr->ninner) memcpy(wide->inner, gr->inner, (size_t)gr->ninner * sizeof *gr->inner);
    for (uint32_t i = 0; i < gr->outs.n; i++) {
        wide->inner[wide->ninner++] = gr->outs.at[i];
        if (sums || frame_wanted(f, gr->outs.at[i], tail)) vec_push(a, &wide->outs, gr->outs.at[i]);
    }
    for (uint32_t i = 0; i < next->outs.n; i++) {
        wide->inner[wide->ninner++] = next->outs.at[i];
        vec_push(a, &wide->outs, next->outs.at[i]);
        if (sums) vec_push(a, &wide->folded, next->outs.at[i]);
    }
    return wide;
}

// The product with its tail, and the first kernel of the tail alone. Returns how many kernels the
// former are: that which does both, and for sums what joins their parts, the same ones for either.
// 0: no one kernel does both.
static int lower_both_ways(Frame *f, Group *const *wide, const Item *tail, LoweredKernel **both,
                           LoweredKernel **alone)
{
    LowerCtx *c = &f->e->lower;
    bool sums = is_sums(tail);
    int n = lower_launch(c, f->g, wide, 1, both);
    *alone = tail->kernels;
    if (n != 1 + sums || !rival_may_win(c->target, *both)) return 0;
    if (!sums) return n;
    if (!body_folds((*both)->body[0])) return 0;
    c->part = (*both)->body[0]->sched.tile_m;
    bool parts = lower_launch(c, f->g, tail->groups.at, 1, alone) == 2;
    c->part = 0;
    return parts ? n : 0;
}

// A kernel that computes the same: for where the library has no algorithm, or is slower. Where it
// may be faster it also does the product's tail (else *tail becomes NULL), which then is part of
// the step. The arguments of both go to args. Returns how many; 0 where there is none. [*behind]:
// what runs after the step, whichever of both it takes, over [scratch]; NULL: nothing.
static int alternative(Frame *f, Group *gr, const Item **tail, ProgGemm *g, ProgArg *args,
                       LoweredKernel **behind, IdMap *scratch)
{
    GenEntry *e = f->e;
    const Target *t = e->gen->target;
    bool needed = rival_may_lack(t, g), pays = rival_may_pay(t, g);
    const Item *next = pays ? *tail : NULL;
    LoweredKernel *ks, *alone;
    Group **groups = NEW_ARRAY(e->gen->arena, Group *, 1);
    int n = 0;
    *tail = NULL;
    *behind = NULL;
    if (next) {
        groups[0] = with_tail(f, gr, next);
        n = lower_both_ways(f, groups, next, &ks, &alone);
        if (n) g->kernel = add_kernel(f, ks, args, scratch);
        if (g->kernel) g->tail = add_kernel(f, alone, args + ks->nargs, scratch);
        if (g->tail) *tail = next;
        if (!g->tail) g->kernel = 0;
        if (g->tail && n > 1) {
            *behind = ks + 1;
            frame_unlog(f, next->kernels);
        }
    }
    if (!*tail && (needed || pays)) {
        groups[0] = gr;
        n = lower_launch(&e->lower, f->g, groups, 1, &ks);
        if (n == 1 && (needed || rival_may_win(t, ks)))
            g->kernel = add_kernel(f, ks, args, scratch);
    }
    if (!g->kernel) return 0;
    frame_log(f, groups, 1, ks, n);
    g->kernel_args = ks->nargs;
    g->tail_args = *tail ? alone->nargs : 0;
    return g->kernel_args + g->tail_args;
}

const Node *gemm_sums(Frame *f, const Group *gr)
{
    Match m;
    const Target *t = f->e->gen->target;
    bool may = t->group_products && match(f, gr, &m) && !m.gemm.trans_a && m.gemm.batch == 1 &&
               rival_may_pay(t, &m.gemm);
    return may ? m.a.stored : NULL;
}

static const char *product_name(const Gen *gen, const Node *dot, const Match *m)
{
    if (m->out->name || dot->name) return m->out->name ? m->out->name : dot->name;
    const char *a = m->a.stored->name, *b = m->b.stored->name;
    return a && b ? arena_printf(gen->arena, "%s_%s", a, b) : "matmul";
}

// The choice made for one product is that of all of the same key.
static const char *choice_key(const Gen *gen, const ProgGemm *g)
{
    return arena_printf(gen->arena, "gemm %s%s%s %c%c %lld %lld %lld %lld epilogue %d%s",
                        prog_dtype_name(g->a_type), prog_dtype_name(g->b_type),
                        prog_dtype_name(g->c_type), g->trans_a ? 't' : 'n', g->trans_b ? 't' : 'n',
                        (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->batch,
                        (int)g->epilogue, g->tf32 ? " tf32" : "");
}

// The call's arguments; returns how many, 0 where one has no buffer.
static int call_args(Frame *f, const Group *gr, const Match *m, ProgArg *args)
{
    GenEntry *e = f->e;
    int n = 0;
    args[n++] = frame_memory(f, m->a.stored);
    args[n++] = frame_memory(f, m->b.stored);
    args[n] = f->place[m->out->id];
    args[n++].written = true;
    if (m->bias) args[n++] = frame_memory(f, m->bias);
    if (m->aux) {
        args[n] = frame_memory(f, m->aux);
        args[n++].written = f->g->fusion->group_of[m->aux->id] == gr->id + 1;
    }
    if (m->gemm.workspace) {
        args[n] = gen_bytes(e, m->gemm.workspace, "matmul workspace");
        args[n++].written = true;
    }
    for (int i = 0; i < n; i++)
        if ((int)args[i].kind != PA_BUFFER) {
            gen_internal(e->gen, gr->anchor->loc, "a matmul operand without a buffer");
            return 0;
        }
    return n;
}

// The step of the call, with the kernel that computes the same, where there is one.
static bool add_product(Frame *f, Group *gr, Match *m, const Item **tail)
{
    GenEntry *e = f->e;
    Gen *gen = e->gen;
    ProgGemm *g = &m->gemm;
    ProgArg args[PROG_MAX_GEMM_ARGS];
    LoweredKernel *behind = NULL;
    g->workspace = workspace_bytes(gen->target, g);
    int own = call_args(f, gr, m, args), n = own;
    if (!own) return false;
    g->choice_key = choice_key(gen, g);
    IdMap scratch = idmap_new(gen->arena);
    n += alternative(f, gr, tail, g, args + n, &behind, &scratch);
    for (int i = own; i < n; i++) // what the call writes and the tail reads: the step writes it
        for (int k = 0; k < own; k++)
            args[i].written |=
                args[k].written && args[k].index == args[i].index && (int)args[i].kind == PA_BUFFER;
    vec_push(gen->arena, &gen->gemms, *g);
    ProgStep *s = gen_step(e, PS_GEMM, n, f->depth, g->name, gr->anchor->loc);
    memcpy(s->args, args, (size_t)n * sizeof *args);
    s->index = (int32_t)gen->gemms.n - 1;
    return !behind || frame_kernels(f, behind, 1, &scratch);
}

bool gemm_generate(Frame *f, Group *gr, const Item **tail)
{
    GenEntry *e = f->e;
    Match m;
    const Item *follows = *tail;
    *tail = NULL;
    if (!gemm_possible(f, gr) || !match(f, gr, &m)) return false;
    ProgGemm *g = &m.gemm;
    const Node *dot = gr->anchor;
    const ProgArg c = f->place[m.out->id];
    const int64_t bytes = type_bytes(&m.out->type);
    g->name = product_name(e->gen, dot, &m);
    g->loc = loc_text(e->gen->diags, dot->loc);
    g->tf32 = e->gen->options->tf32 && g->a_type == PD_F32;
    if (bytes > 0 && g->k == 0 && !gr->epilogue) { // an empty sum
        ProgStep *s = gen_step(e, PS_ZERO, 1, f->depth, g->name, dot->loc);
        s->args[0] = c;
        s->args[0].written = true;
        s->bytes = bytes;
    } else if (bytes > 0) {
        if (!add_product(f, gr, &m, &follows)) return false;
        *tail = follows;
    }
    for (uint32_t i = 0; i < gr->outs.n; i++)
        if (gr->outs.at[i] != m.out && gr->outs.at[i] != gr->aux)
            gen_copy(e, c, f->place[gr->outs.at[i]->id], bytes, f->depth, false, g->name, dot->loc);
    return true;
}
