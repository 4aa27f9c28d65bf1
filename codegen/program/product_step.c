// The step of a product that the matmul library computes, with the generated kernel that computes
// the same and with what follows it, if there are such: measurements decide which of them runs.
#include "codegen/program/gen.h"
#include "codegen/ir/body.h"
#include "codegen/tile/wgmma.h"
#include "ir/axes.h"
#include "ir/strides.h"

#include <string.h>

GemmFrom frame_gemms(const Frame *f)
{
    const Gen *gen = f->e->gen;
    return (GemmFrom){f->g, f->e->entry, gen->target, gen->options->tf32};
}

// Bytes of workspace for split-K: HANDFUL copies of the result. For few results with long sums, as
// many copies as keep the device busy, with parts of at least PART bytes of an operand's row.
static int64_t workspace_bytes(const Target *t, const ProgGemm *g)
{
    enum { HANDFUL = 8, LEAST_SHARED = 32, PART = 256 }; // bytes of an operand's row
    if (t->kind != TARGET_CUDA) return 0;
    const int64_t most = 32 << 20, share = target_idle_share(t, g->batch, g->m, g->n),
                  parts = g->k * prog_dtype_bytes(g->a_type) / PART;
    int64_t copies = HANDFUL * share;
    if (share > 1 && copies < LEAST_SHARED) copies = LEAST_SHARED;
    if (copies > parts) copies = parts;
    if (copies > t->units) copies = t->units;
    if (copies < HANDFUL) copies = HANDFUL;
    int64_t c = g->m * g->n * g->batch * 4 * copies;
    c = (c + 255) / 256 * 256;
    return c < most ? c : most;
}

int32_t frame_step_kernel(Frame *f, LoweredKernel *k, ProgArg *args, IdMap *scratch)
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

static bool is_sums(const Item *follower)
{
    return follower->groups.at[0]->kind == GROUP_COLUMN;
}

// The product and its follower as one group. The follower is elementwise code (then values that
// only it reads are not stored), or sums over the rows of the left operand or of the result.
static Group *with_follower(Frame *f, const Group *gr, const Item *follower)
{
    Arena *a = f->e->gen->arena;
    const Group *next = follower->groups.at[0];
    bool sums = is_sums(follower);
    Group *wide = NEW(a, Group);
    *wide = *gr;
    memset(&wide->outs, 0, sizeof wide->outs);
    wide->inner = NEW_ARRAY(a, Node *, (uint32_t)gr->ninner + gr->outs.n + next->outs.n + 1);
    if (gr->ninner) memcpy(wide->inner, gr->inner, (size_t)gr->ninner * sizeof *gr->inner);
    for (uint32_t i = 0; i < gr->outs.n; i++) {
        wide->inner[wide->ninner++] = gr->outs.at[i];
        if (sums || frame_wanted(f, gr->outs.at[i], follower))
            vec_push(a, &wide->outs, gr->outs.at[i]);
    }
    for (uint32_t i = 0; i < next->outs.n; i++) {
        wide->inner[wide->ninner++] = next->outs.at[i];
        vec_push(a, &wide->outs, next->outs.at[i]);
        if (sums) vec_push(a, &wide->folded, next->outs.at[i]);
    }
    return wide;
}

// Lowers the product together with its follower (both), and the first kernel of the follower alone.
// Returns the number of kernels in [both]: the one that computes both and, for sums, the one that
// combines partial sums, which is the same in both cases. 0: no single kernel computes both.
static int lower_both_ways(Frame *f, Group *const *wide, const Item *follower, LoweredKernel **both,
                           LoweredKernel **alone)
{
    LowerCtx *c = &f->e->lower;
    bool sums = is_sums(follower);
    int n = lower_launch(c, f->g, wide, 1, both);
    *alone = follower->kernels;
    if (n != 1 + sums || !candidate_may_win(c->target, *both)) return 0;
    if (!sums) return n;
    if (!body_folds((*both)->body[0])) return 0;
    c->part = (*both)->body[0]->sched.tile.m;
    bool parts = lower_launch(c, f->g, follower->groups.at, 1, alone) == 2;
    c->part = 0;
    return parts ? n : 0;
}

bool frame_adds_columns(const LoweredKernel *k)
{
    const Body *b = k->body[0];
    return k->nbodies == 1 && wgmma_may_add_columns(b) && !body_folds(b);
}

LoweredKernel *frame_with_sums(Frame *f, const Item *it, const Item *sums, int *n)
{
    Group **groups = NEW_ARRAY(f->e->gen->arena, Group *, 1);
    LoweredKernel *both;
    groups[0] = with_follower(f, it->groups.at[0], sums);
    *n = lower_launch(&f->e->lower, f->g, groups, 1, &both);
    if (*n != 2 || !body_folds_results(both->body[0])) return NULL;
    frame_unlog(f, it->kernels);
    frame_unlog(f, sums->kernels);
    frame_log(f, groups, 1, both, *n);
    return both;
}

// Adds a kernel that computes the same product, for devices on which the library has no algorithm
// or is slower. If it may be faster, it also computes the product's follower, which then becomes
// part of the step (otherwise *follower becomes NULL). Arguments are appended to args. Returns
// their number; 0: there is no such kernel. [*behind]: a kernel that runs after the step in any
// case, with buffers [scratch]; NULL: none.
static int alternative(Frame *f, Group *gr, const Item **follower, ProgGemm *g, ProgArg *args,
                       LoweredKernel **behind, IdMap *scratch)
{
    GenEntry *e = f->e;
    const Target *t = e->gen->target;
    bool needed = candidate_may_be_needed(t, g), pays = candidate_may_pay(t, g);
    const Item *next = pays ? *follower : NULL;
    LoweredKernel *ks, *alone;
    Group **groups = NEW_ARRAY(e->gen->arena, Group *, 1);
    int n = 0;
    *follower = NULL;
    *behind = NULL;
    if (next) {
        groups[0] = with_follower(f, gr, next);
        n = lower_both_ways(f, groups, next, &ks, &alone);
        if (n) g->kernel = frame_step_kernel(f, ks, args, scratch);
        if (g->kernel) g->follower = frame_step_kernel(f, alone, args + ks->nargs, scratch);
        if (g->follower) *follower = next;
        if (!g->follower) g->kernel = 0;
        if (g->follower && n > 1) {
            *behind = ks + 1;
            frame_unlog(f, next->kernels);
        }
    }
    if (!*follower && (needed || pays)) {
        groups[0] = gr;
        n = lower_launch(&e->lower, f->g, groups, 1, &ks);
        if (n == 1 && (needed || candidate_may_win(t, ks)))
            g->kernel = frame_step_kernel(f, ks, args, scratch);
    }
    if (!g->kernel) return 0;
    frame_log(f, groups, 1, ks, n);
    g->kernel_args = ks->nargs;
    g->follower_args = *follower ? alone->nargs : 0;
    return g->kernel_args + g->follower_args;
}

const Node *frame_gemm_sums(Frame *f, const Group *gr)
{
    GemmMatch m;
    const Target *t = f->e->gen->target;
    const GemmFrom from = frame_gemms(f);
    bool may = t->group_products && gemm_match(&from, gr, &m) && !m.gemm.trans_a &&
               m.gemm.batch == 1 && m.gemm.a_type != PD_F32 && candidate_may_pay(t, &m.gemm);
    return may ? m.a.stored : NULL;
}

static const char *product_name(const Gen *gen, const Node *dot, const GemmMatch *m)
{
    if (m->out->name || dot->name) return m->out->name ? m->out->name : dot->name;
    const char *a = m->a.stored->name, *b = m->b.stored->name;
    return a && b ? arena_printf(gen->arena, "%s_%s", a, b) : "matmul";
}

// A choice holds for all products with this key.
static const char *choice_key(const Gen *gen, const ProgGemm *g)
{
    return arena_printf(gen->arena, "gemm %s%s%s %c%c %lld %lld %lld %lld epilogue %d%s%s",
                        prog_dtype_name(g->a_type), prog_dtype_name(g->b_type),
                        prog_dtype_name(g->c_type), g->trans_a ? 't' : 'n', g->trans_b ? 't' : 'n',
                        (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->batch,
                        (int)g->epilogue, g->residual ? " residual" : "", g->tf32 ? " tf32" : "");
}

// The arguments of the call. Returns their number; 0: one has no buffer.
static int call_args(Frame *f, const Group *gr, const GemmMatch *m, ProgArg *args)
{
    GenEntry *e = f->e;
    int n = 0;
    args[n++] = frame_memory(f, m->a.stored);
    args[n++] = frame_memory(f, m->b.stored);
    args[n] = f->place[m->out->id];
    args[n++].written = true;
    if (m->residual) args[n++] = frame_memory(f, m->residual);
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

void frame_product_step(Frame *f, const ProgGemm *g, ProgArg *args, int own, int n, Loc loc)
{
    Gen *gen = f->e->gen;
    for (int i = own; i < n; i++)
        for (int k = 0; k < own; k++)
            args[i].written |= args[k].written && prog_arg_same(&args[k], &args[i]);
    vec_push(gen->arena, &gen->gemms, *g);
    ProgStep *s = gen_step(f->e, PS_GEMM, n, f->depth, g->name, loc);
    memcpy(s->args, args, (size_t)n * sizeof *args);
    s->index = (int32_t)gen->gemms.n - 1;
}

// Adds the step of the call, with the kernel that computes the same, if there is one.
static bool add_product(Frame *f, Group *gr, GemmMatch *m, const Item **follower)
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
    n += alternative(f, gr, follower, g, args + n, &behind, &scratch);
    frame_product_step(f, g, args, own, n, gr->anchor->loc);
    return !behind || frame_kernels(f, behind, 1, &scratch);
}

bool frame_product(Frame *f, Group *gr, const Item **follower)
{
    GenEntry *e = f->e;
    GemmMatch m;
    const Item *follows = *follower;
    *follower = NULL;
    const GemmFrom from = frame_gemms(f);
    if (!gemm_possible(&from, gr) || !gemm_match(&from, gr, &m)) return false;
    ProgGemm *g = &m.gemm;
    const Node *dot = gr->anchor;
    const ProgArg c = f->place[m.out->id];
    const int64_t bytes = type_bytes(&m.out->type);
    g->name = product_name(e->gen, dot, &m);
    g->loc = loc_text(e->gen->diags, dot->loc);
    g->tf32 = e->gen->options->tf32 && g->a_type == PD_F32;
    if (bytes > 0 && g->k == 0 && !gr->epilogue) { // an empty sum
        gen_zero(e, c, bytes, f->depth, g->name, dot->loc);
    } else if (bytes > 0) {
        if (!add_product(f, gr, &m, &follows)) return false;
        *follower = follows;
    }
    for (uint32_t i = 0; i < gr->outs.n; i++)
        if (gr->outs.at[i] != m.out && gr->outs.at[i] != gr->aux)
            gen_copy(e, c, f->place[gr->outs.at[i]->id], bytes, f->depth, false, g->name, dot->loc);
    return true;
}
