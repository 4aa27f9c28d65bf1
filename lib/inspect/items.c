// The steps of an entry with what netc inspect reports about each; registers and occupancy from
// cubins.
#include "lib/inspect/items.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cubin.h"
#include "runtime/host/threads.h"

Target target_of_program(const Program *p)
{
    int arch = 90;
    if (!p->cuda) return target_cpu(rt_cpu_threads(), true); // the same as for one compiled here
    if (p->target) sscanf(p->target, "sm_%d", &arch);
    return target_cuda(arch, true);
}

// The share of a multiprocessor's threads that are resident, from the resources of a kernel; -1:
// unknown.
static double occupancy_of(const RtKernelInfo *info, int threads, const Target *t)
{
    enum { MOST_BLOCKS = 32, REGISTER_UNIT = 256, RESERVED = 1024 };
    if (info->registers < 0 || threads < 1 || t->kind != TARGET_CUDA) return -1;
    int warps = (threads + t->warp - 1) / t->warp;
    int64_t each = ((int64_t)info->registers * t->warp + REGISTER_UNIT - 1) / REGISTER_UNIT *
                   REGISTER_UNIT * warps;
    int64_t blocks = t->threads_per_unit / (warps * t->warp);
    if (each > 0 && t->registers_per_unit / each < blocks) blocks = t->registers_per_unit / each;
    int64_t shared = info->shared_bytes + RESERVED;
    if (t->shared_per_unit / shared < blocks) blocks = t->shared_per_unit / shared;
    if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
    return (double)(blocks * threads) / t->threads_per_unit;
}

RtKernelInfo kernel_info(const Build *b, const ProgKernel *k, const Target *t,
                         const RtImage **image)
{
    RtKernelInfo info = {-1, -1, -1, -1, -1}, one;
    *image = NULL;
    int best = 0;
    for (int i = 0; i < b->nimages; i++) {
        const RtImage *im = &b->images[i];
        int arch;
        if (im->identity != k->identity || sscanf(im->target, "sm_%d", &arch) != 1) continue;
        int score = arch == t->arch ? 2 : 1;
        if (score <= best || !rt_cubin_info(im->bytes, im->size, arch, k->symbol, &one)) continue;
        best = score;
        info = one;
        *image = im;
    }
    if (!best) return info;
    info.shared_bytes += (int)k->shared_bytes;
    info.threads = (int)(k->block[0] * k->block[1] * k->block[2]);
    info.occupancy = occupancy_of(&info, info.threads, t);
    return info;
}

static void type_set(Buf *out, const ProgEntry *e, const ProgStep *s, bool written)
{
    bool seen[PD_COUNT] = {false};
    for (int i = 0; i < s->nargs; i++) {
        if (s->args[i].kind != PA_BUFFER || s->args[i].written != written) continue;
        const ProgBuffer *b = &e->buffers[s->args[i].index];
        // Tables and counters of the executor are not tensors of the model.
        bool own = b->region == PR_ERROR || b->region == PR_ROWS ||
                   (b->region == PR_CELL && b->name && b->name[0] == '@');
        if (own || seen[b->type.dtype]) continue;
        seen[b->type.dtype] = true;
        buf_printf(out, "%s%s", out->len ? " " : "", prog_dtype_name(b->type.dtype));
    }
}

static const char *types_of(Arena *a, const Program *p, const ProgEntry *e, const ProgStep *s)
{
    Buf out = buf_new(a), to = buf_new(a);
    if (s->kind == PS_GEMM) {
        const ProgGemm *g = &p->gemms[s->index];
        if (g->conv.kind) {
            prog_conv_print(&g->conv, &out);
            buf_printf(&out, ", %s%s", prog_dtype_name(g->a_type), g->tf32 ? ", tf32" : "");
            return out.data;
        }
        if (g->batch > 1) buf_printf(&out, "%" PRId64 " of ", g->batch);
        buf_printf(&out, "%" PRId64 "x%" PRId64 "x%" PRId64 " %s %s -> %s%s", g->m, g->n, g->k,
                   prog_dtype_name(g->a_type), prog_dtype_name(g->b_type),
                   prog_dtype_name(g->c_type), g->tf32 && g->a_type == PD_F32 ? ", tf32" : "");
        return out.data;
    }
    type_set(&out, e, s, false), type_set(&to, e, s, true);
    buf_printf(&out, "%s-> %s", out.len ? " " : "", to.data ? to.data : "");
    return out.data;
}

static Item item(Arena *a, const Build *b, const ProgEntry *e, const ProgStep *s,
                 const Target *target, const Rates *r, int64_t calls)
{
    const Program *p = b->program;
    Item v = {.step = s,
              .name = step_name(p, s),
              .kind = step_kind(s),
              .line = s->loc ? s->loc : "",
              .schedule = "",
              .types = types_of(a, p, e, s),
              .calls = calls,
              .cost = step_cost(p, s, r),
              .info = {-1, -1, -1, -1, -1}};
    v.floor = v.cost.floor * (double)calls;
    if (s->kind != PS_KERNEL) return v;
    v.k = &p->kernels[s->index];
    v.schedule = v.k->schedule ? v.k->schedule : "";
    if (!p->cuda) return v;
    const RtImage *image;
    v.info = kernel_info(b, v.k, target, &image);
    v.blocks = (int64_t)v.k->grid[0] * v.k->grid[1] * v.k->grid[2];
    return v;
}

static void add(Items *t, Arena *a, const Build *b, const Target *target, const Rates *r, int first,
                int last, int64_t calls)
{
    for (int i = first; i < last; i++) {
        const ProgStep *s = &t->e->steps[i];
        if (s->kind == PS_LOOP) {
            add(t, a, b, target, r, s->first_step, s->last_step, calls * s->count);
            i = s->last_step - 1;
            continue;
        }
        Item v = item(a, b, t->e, s, target, r, calls);
        t->at[t->n++] = v;
        t->calls += calls;
        t->bytes += calls * v.cost.bytes;
        t->flops += calls * v.cost.flops;
        t->floor += v.floor;
    }
}

Items items_of(Arena *a, const Build *b, const ProgEntry *e)
{
    Items t = {.e = e, .at = NEW_ARRAY(a, Item, e->nsteps + 1)};
    Target target = target_of_program(b->program);
    Rates r = rates_of_target(&target);
    add(&t, a, b, &target, &r, 0, e->nsteps, 1);
    return t;
}

static int by_cost(const void *x, const void *y)
{
    const Item *a = x, *b = y;
    if (a->floor != b->floor) return a->floor < b->floor ? 1 : -1;
    int64_t p = a->calls * a->cost.bytes, q = b->calls * b->cost.bytes;
    if (p != q) return p < q ? 1 : -1;
    return (a->step > b->step) - (a->step < b->step);
}

void items_by_cost(Items *t)
{
    qsort(t->at, (size_t)t->n, sizeof *t->at, by_cost);
}
