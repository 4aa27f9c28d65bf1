// From the groups of a launch to kernels: bodies, scratch buffers, names, text.
#include <string.h>

#include "base/embedded.h"
#include "codegen/c/print_c.h"
#include "codegen/cuda/print_cuda.h"
#include "codegen/ir/rewrite.h"
#include "codegen/launch/launch.h"
#include "codegen/lower/lower.h"
#include "codegen/schedule/knobs.h"
#include "codegen/tile/tile.h"

// The embedded files of a prelude, concatenated. One copy per context, since the files are
// constants.
const char *lower_prelude(Arena *a, const Target *t, unsigned parts)
{
    static const char *const c[] = {"c_head.h", "c_math.h", "common.h",   "c_tail.h", "c_sort.h",
                                    "c_turn.h", "c_half.h", "c_random.h", NULL};
    const char *const cuda[] = {"cuda_head.h",
                                "common.h",
                                "cuda_tail.h",
                                "cuda_sort.h",
                                "cuda_sync.h",
                                "cuda_mma.h",
                                "cuda_tile.h",
                                "cuda_random.h",
                                "cuda_attention.h",
                                parts & PRELUDE_GROUPS ? "cuda_wgmma.h" : "",
                                parts & PRELUDE_RADIX ? "cuda_radix.h" : "",
                                NULL};
    Buf out = buf_new(a);
    for (const char *const *want = t->kind == TARGET_CUDA ? cuda : c; *want; want++)
        for (const EmbeddedFile *f = prelude_files; f->name; f++)
            if (!strcmp(f->name, *want)) buf_bytes(&out, f->text, f->len);
    return out.data;
}

// Adds the buffers for partial results of split reductions, which the second kernel combines.
static void add_scratch(LowerCtx *ctx, Body *b, int *count)
{
    Kernel k = {.arena = ctx->arena, .ctx = ctx};
    Emit e = emit_begin(&k, b, false, false);
    int n;
    const int *r = stage_reductions(&e, 0, &n);
    int64_t elems = body_rows(b) * b->sched.split;
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        for (int p = 0; p < inst_acc(v)->nparts; p++)
            vec_push(ctx->arena, &b->bufs,
                     (BodyBuf){.kind = KA_SCRATCH,
                               .type = acc_part_type(v, p),
                               .elems = elems,
                               .scratch = (*count)++,
                               .read = true,
                               .written = true});
    }
}

static uint64_t place_key(const Ix *ix, const BodyBuf *buf)
{
    return hash_mix((uint64_t)(uintptr_t)ix,
                    hash_mix((uint64_t)buf->elems, (uint64_t)dtype_info[buf->type].bits));
}

// Finds the arguments of which each thread accesses only one element, at its own index. In bodies
// with rows, or contractions, values per row or result are accessed by the thread that computes it.
static void find_in_place(Body *b)
{
    bool map = b->sched.kind == SCHED_MAP;
    if (!map && (!b->commits || b->serial_cols)) return;
    uint64_t wide = 0; // axes with more than one element
    for (int i = 0; i < b->npar; i++)
        if (b->axis[i].extent > 1) wide |= 1ull << i;
    // Elements that are stored and loaded, by index, number of elements and width.
    IdMap stored = idmap_new(b->ix->arena), loaded = idmap_new(b->ix->arena);
    const Ix **at = NEW_ARRAY(b->ix->arena, const Ix *, b->bufs.n + 1);
    uint32_t *stores = NEW_ARRAY(b->ix->arena, uint32_t, b->bufs.n + 1);
    bool *mixed = NEW_ARRAY(b->ix->arena, bool, b->bufs.n + 1);
    for (uint32_t j = 0; j < b->insts.n; j++) {
        const Inst *v = &b->insts.at[j];
        if (v->kind != KI_LOAD) continue;
        if ((at[v->buf] && at[v->buf] != v->ix) || (v->axes & ~v->ix->axes) ||
            (!map && v->axes >> b->npar))
            mixed[v->buf] = true;
        at[v->buf] = v->ix;
    }
    for (uint32_t w = 0; w < b->stores.n; w++)
        if (b->stores.at[w].buf >= 0) stores[b->stores.at[w].buf]++;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t w = 0; w < b->stores.n; w++) {
            const BodyStore *s = &b->stores.at[w];
            if (s->buf < 0 || s->joins || stores[s->buf] > 1)
                continue; // (1: it is not stored in
                          // pieces)
            BodyBuf *out = &b->bufs.at[s->buf];
            if (s->ix->has_value || out->read || (s->ix->axes & wide) != wide) continue;
            if (!map && s->ix->axes >> b->npar) continue;
            uint64_t key = place_key(s->ix, out);
            idmap_set(&stored, key, 1);
            if (pass && idmap_get(&loaded, key, NULL)) out->in_place = true;
        }
        for (uint32_t i = 0; i < b->bufs.n && !pass; i++) {
            BodyBuf *in = &b->bufs.at[i];
            if (in->kind != KA_NODE || in->written || !in->read || !at[i] || mixed[i]) continue;
            uint64_t key = place_key(at[i], in);
            idmap_set(&loaded, key, 1);
            if (idmap_get(&stored, key, NULL)) in->in_place = true;
        }
    }
}

static bool same_arg(const KernelArg *a, const BodyBuf *u)
{
    return a->kind == u->kind && a->node == u->node && a->value == u->value &&
           (u->kind != KA_SCRATCH || a->scratch == u->scratch);
}

static bool commits_part(const LowerCtx *ctx, const Node *n)
{
    return n->op == OP_assign || (ctx->commits && ctx->commits[n->id] == COMMIT_PART);
}

// Collects the kernel's arguments: the buffers of its bodies in order; on CUDA, each buffer once.
// (The C printer passes each body its part of the argument array.)
static void collect_args(LowerCtx *ctx, const Kernel *k, LoweredKernel *out)
{
    bool cuda = ctx->target->kind == TARGET_CUDA;
    int n = 0;
    for (int i = 0; i < k->nbodies; i++) n += (int)k->body[i]->bufs.n;
    out->args = NEW_ARRAY(ctx->arena, KernelArg, n + 1);
    int *users = NEW_ARRAY(ctx->arena, int, n + 1);
    IdMap seen = idmap_new(ctx->arena), first = idmap_new(ctx->arena);
    for (int i = 0; i < k->nbodies; i++) {
        Body *b = k->body[i];
        int shared = -1;
        b->arg = NEW_ARRAY(ctx->arena, int, b->bufs.n + 1);
        for (uint32_t j = 0; j < b->bufs.n; j++) {
            const BodyBuf *u = &b->bufs.at[j];
            uint64_t at,
                key = hash_mix(hash_mix((uint64_t)u->kind + 1, (uint64_t)(uintptr_t)u->node),
                               hash_mix((uint64_t)u->value, (uint64_t)u->scratch));
            if (cuda && idmap_get(&seen, key, &at) && same_arg(&out->args[at], u)) {
                b->arg[j] = (int)at;
            } else {
                b->arg[j] = out->nargs;
                idmap_set(&seen, key, (uint64_t)out->nargs);
                out->args[out->nargs++] = (KernelArg){.kind = u->kind,
                                                      .node = u->node,
                                                      .value = u->value,
                                                      .scratch = u->scratch,
                                                      .same_as = -1};
            }
            KernelArg *a = &out->args[b->arg[j]];
            users[b->arg[j]]++;
            bool before = k->phase == PHASE_COMBINE && body_stores_columns(b, (int)j);
            a->written |= (u->written && !before) || (u->kind == KA_ERROR && b->can_fail);
            a->updates |= u->written && u->part && u->node && commits_part(ctx, u->node);
            if (u->kind == KA_SCRATCH) {
                a->scratch_bytes = u->elems * math_bytes(u->type);
                a->scratch_type = math_type(u->type);
            }
            if (u->in_place && u->written && shared < 0) shared = b->arg[j];
        }
        for (uint32_t j = 0; j < b->bufs.n; j++)
            if (b->bufs.at[j].in_place) out->args[b->arg[j]].same_as = shared;
        out->commits |= b->commits;
    }
    // A buffer that several bodies access cannot share memory with another one.
    for (int i = 0; i < out->nargs; i++) {
        uint64_t j, key = (uint64_t)(uintptr_t)out->args[i].node;
        if (out->args[i].kind != KA_NODE) continue;
        if (users[i] > 1) out->args[i].same_as = -1;
        if (idmap_get(&first, key, &j))
            out->args[i].same_as = out->args[j].same_as = -1;
        else
            idmap_set(&first, key, (uint64_t)i);
    }
}

// The bodies as they are printed, after rewrites. Removing a stage is worth the additional
// exponentials if every stage reads the row again. (On the CPU, tasks have the row in a cache, and
// keep the exponentials.)
static Body **rewritten(LowerCtx *ctx, Body *const *body, int n)
{
    Body **out = NEW_ARRAY(ctx->arena, Body *, n + 1);
    for (int i = 0; i < n; i++) {
        body_mark_quotients(body[i]);
        body_mark_picks(body[i]);
        if (ctx->target->kind == TARGET_CPU) body_round_late(ctx->arena, body[i]);
        bool streams = ctx->target->kind == TARGET_CUDA && row_streams(body[i]);
        Body *online = streams ? body_join_online(ctx->arena, body[i]) : NULL;
        out[i] = online ? online : body[i];
    }
    return out;
}

// Takes text, schedule and launch from an equal kernel that was printed before. Equal blocks of a
// network have such kernels; names of values are those of the first. false: there is none.
static bool take_printed(const LowerCtx *ctx, uint64_t key, ProgKernel *p)
{
    uint64_t at;
    if (!ctx->printed || !idmap_get(ctx->printed, key, &at)) return false;
    const ProgKernel *known = (const ProgKernel *)(uintptr_t)at;
    if (strcmp(known->name, p->name)) return false;
    p->text = known->text;
    p->annotated = known->annotated;
    p->schedule = known->schedule;
    memcpy(p->grid, known->grid, sizeof p->grid);
    memcpy(p->block, known->block, sizeof p->block);
    p->cluster = known->cluster;
    p->shared_bytes = known->shared_bytes;
    p->nargs = known->nargs;
    p->nmaps = known->nmaps;
    memcpy(p->maps, known->maps, sizeof p->maps);
    return true;
}

Loc kernel_loc(const Body *b)
{
    const Group *g = b->group;
    const Node *blame = g->outs.n ? g->outs.at[0] : g->anchor;
    return blame ? blame->loc : 0;
}

static LoweredKernel make(LowerCtx *ctx, Body **body, int n, KernelPhase phase)
{
    bool cuda = ctx->target->kind == TARGET_CUDA;
    Kernel k = {.arena = ctx->arena, .ctx = ctx, .body = body, .nbodies = n, .phase = phase};
    LoweredKernel out = {.body = body, .nbodies = n};
    ProgKernel *p = &out.prog;
    k.identity = kernel_identity(&k);
    k.symbol = arena_printf(ctx->arena, "k_%016llx", (unsigned long long)k.identity);
    k.name = kernel_name(&k);
    k.loc = out.loc = kernel_loc(body[0]);
    collect_args(ctx, &k, &out);
    kernel_costs(&k, ctx->target, p);
    p->name = k.name;
    p->identity = k.identity;
    p->symbol = k.symbol;
    p->grid[0] = p->grid[1] = p->grid[2] = p->block[0] = p->block[1] = p->block[2] = 1;
    uint64_t key = ctx->printed ? kernel_text_key(&k, p) : 0;
    if (take_printed(ctx, key, p)) return out;
    p->schedule = schedule_text(ctx->arena, body[0], ctx->target, false);
    for (int i = 0; cuda && i < n; i++) { // text is printed only for verified programs
        if (!tile_made(&body[i]->sched) || body_rows(body[i]) == 0) continue;
        TileProgram program = tile_program(body[i]);
        const char *wrong = tile_verify(ctx->arena, &program, 1);
        if (wrong)
            diag_error(ctx->diags, k.loc, "internal error: the tile program of %s: %s", k.name,
                       wrong);
    }
    Buf pretty = buf_new(ctx->arena);
    kernel_comment(&k, p, ctx->target, &pretty);
    k.body = rewritten(ctx, body, n);
    p->text = cuda ? print_cuda(&k, false, p) : print_c(&k, false);
    if (p->nmaps) p->nargs = out.nargs;
    buf_str(&pretty, cuda ? print_cuda(&k, true, p) : print_c(&k, true));
    p->annotated = pretty.data;
    if (ctx->printed) {
        ProgKernel *known = NEW(ctx->arena, ProgKernel);
        *known = *p;
        idmap_set(ctx->printed, key, (uint64_t)(uintptr_t)known);
    }
    return out;
}

// A GPU launches at most 2^31 - 1 blocks at once; clusters may round their number up a little.
static bool launchable(LowerCtx *ctx, const BodyList *list)
{
    int64_t blocks = 0;
    for (uint32_t i = 0; i < list->n; i++) blocks += list->at[i]->sched.blocks;
    if (blocks < INT32_MAX - 16) return true;
    diag_error(ctx->diags, kernel_loc(list->at[0]),
               "this needs %lld blocks of threads, but a GPU launches fewer than 2^31: make the "
               "tensor smaller, or process it in parts",
               (long long)blocks);
    return false;
}

// Maps in one launch share the device, so they are scheduled for their total size. So the updates
// of a large and of a small parameter are one body.
static void schedule_maps_together(LowerCtx *ctx, const BodyList *all)
{
    int64_t crowd = 0;
    for (uint32_t i = 0; i < all->n; i++)
        if (all->at[i]->npar == 1 && all->at[i]->col < 0) crowd += body_rows(all->at[i]);
    for (uint32_t i = 0; i < all->n; i++) {
        Body *b = all->at[i];
        if (b->npar != 1 || b->col >= 0) continue;
        b->crowd = crowd;
        schedule_body(ctx, b);
    }
}

// Applies schedules chosen by hand or measured, and removes what a kernel with several bodies
// cannot have. ordered: each body is a kernel of its own.
static void schedule_in_launch(LowerCtx *ctx, const BodyList *all, bool ordered)
{
    int64_t tiles = 0;
    int threads = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const Schedule *s = &all->at[i]->sched;
        if (s->tile.staged) tiles += s->blocks;
        if (s->threads > threads) threads = s->threads;
    }
    for (uint32_t i = 0; i < all->n; i++) {
        Body *b = all->at[i];
        staged_beside(ctx->target, b, tiles);
        if (ctx->target->kind == TARGET_CUDA && !ordered) row_widen(b, ctx->target, threads);
        schedule_override(ctx, b);
        if (ctx->part && b->sched.kind == SCHED_COLUMN && schedule_can_split(b)) {
            b->part = ctx->part;
            b->sched.split = ceil_div(b->axis[b->col].extent, b->part);
            schedule_derive(b, ctx->target);
        }
        if (wgmma_fits(b, ctx->target) || attention_groups_fit(b, ctx->target))
            ctx->prelude_parts |= PRELUDE_GROUPS;
        if (b->sched.variant == RUN_RADIX) ctx->prelude_parts |= PRELUDE_RADIX;
        if (b->attention.nouts && (all->n == 1 || ordered)) continue; // each is a kernel of its own
        if (all->n == 1 || b->sched.variant == RUN_F32_RING ||
            (b->sched.cluster == 1 && !schedule_in_groups(&b->sched)))
            continue;
        b->sched.cluster = 1;    // neighbouring blocks belong to different bodies
        b->sched.tile.wgmma = 0; // (its tensor maps are parameters of the kernel)
        schedule_derive(b, ctx->target);
    }
}

// Adds scratch buffers to the bodies. split: those with split columns, which a second kernel
// combines. behind: bodies computed from partial sums of others. false: an error was reported.
static bool add_second_halves(LowerCtx *ctx, Graph *g, const BodyList *all, BodyList *split,
                              BodyList *behind)
{
    int scratch = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        Body *b = all->at[i], *next;
        find_in_place(b);
        if (ctx->target->kind != TARGET_CUDA) sort_c_scratch(ctx->arena, b, &scratch);
        if (body_folds(b)) {
            if (!lower_joined(ctx, g, b, &scratch, &next)) return false;
            schedule_body(ctx, next);
            schedule_override(ctx, next);
            vec_push(ctx->arena, behind, next);
        }
        if (b->col >= 0 && b->sched.split > 1) {
            add_scratch(ctx, b, &scratch);
            vec_push(ctx->arena, split, b);
        }
    }
    return true;
}

static int lower_groups(LowerCtx *ctx, Graph *g, Group *const *groups, int ngroups,
                        LoweredKernel **out)
{
    const bool cuda = ctx->target->kind == TARGET_CUDA;
    bool ordered_any = false;
    BodyList all = {0}, split = {0}, behind = {0};
    for (int i = 0; i < ngroups; i++) {
        bool ordered;
        if (!launch_bodies(ctx, g, groups[i], &all, &ordered)) return -1;
        ordered_any |= ordered;
    }
    if (!ordered_any) schedule_maps_together(ctx, &all);
    schedule_in_launch(ctx, &all, ordered_any);
    if (!add_second_halves(ctx, g, &all, &split, &behind)) return -1;
    if (cuda && (!launchable(ctx, &all) || !launchable(ctx, &behind))) return -1;
    VEC(LoweredKernel) kernels = {0};
    if (ordered_any) {
        for (uint32_t i = 0; i < all.n; i++)
            vec_push(ctx->arena, &kernels, make(ctx, &all.at[i], 1, PHASE_WHOLE));
    } else if (all.n) {
        bool two = cuda && split.n;
        vec_push(ctx->arena, &kernels,
                 make(ctx, all.at, (int)all.n, two ? PHASE_PARTIAL : PHASE_WHOLE));
        if (two) vec_push(ctx->arena, &kernels, make(ctx, split.at, (int)split.n, PHASE_COMBINE));
        if (behind.n)
            vec_push(ctx->arena, &kernels, make(ctx, behind.at, (int)behind.n, PHASE_WHOLE));
    }
    *out = kernels.at;
    return (int)kernels.n;
}

int lower_launch(LowerCtx *ctx, Graph *g, Group *const *groups, int ngroups, LoweredKernel **out)
{
    if (groups[0]->kind == GROUP_CALL && groups[0]->anchor->op == OP_extern)
        return lower_extern(ctx, g, groups[0], out);
    int n = launch_repeats(ctx, g, groups, ngroups, out);
    if (n) return n;
    uint32_t checks = ctx->checks.n; // each is a source place of its own
    n = lower_groups(ctx, g, groups, ngroups, out);
    if (n > 0 && ctx->checks.n == checks) launch_remember(ctx, groups, ngroups, *out, n);
    return n;
}
