// Identities of bodies and kernels: hashes of what they compute, without names, source places,
// schedules or targets; and hashes of everything that their text depends on except names and
// places.
#include <string.h>

#include "codegen/ir/body.h"

static uint64_t hash_ix(const Ix *x)
{
    if (!x) return 7;
    uint64_t h = hash_mix(11, (uint64_t)x->constant);
    for (int i = 0; i < x->n; i++) {
        const IxTerm *t = x->at[i].term;
        h = hash_mix(hash_mix(h, (uint64_t)x->at[i].coeff),
                     hash_mix((uint64_t)t->kind, (uint64_t)t->by));
        h = t->e ? hash_mix(h, hash_ix(t->e)) : hash_mix(h, (uint64_t)t->id);
    }
    return h;
}

// Hashes names of ops, not their numbers, which change when an op is added: tuning files contain
// these hashes.
static uint64_t hash_work(uint64_t h, const Body *b)
{
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        const bool of_op = v->kind == KI_EW || v->kind == KI_REDUCE || v->kind == KI_SCAN;
        const char *op = of_op ? op_info(v->op)->name : "";
        h = hash_mix(hash_mix(h, (uint64_t)v->kind), hash_mix((uint64_t)v->type, hash_str(op)));
        for (int j = 0; j < v->na; j++) h = hash_mix(h, (uint64_t)v->a[j]);
        if (v->text) h = hash_mix(h, hash_str(v->text));
        if (v->unless) h = hash_mix(h, (uint64_t)v->unless);
        if (v->bits) h = hash_mix(h, (uint64_t)(v->low * 64 + v->bits));
        uint64_t bits;
        memcpy(&bits, &v->fvalue, sizeof bits);
        h = hash_mix(h, hash_mix(bits, (uint64_t)v->ivalue));
        h = hash_mix(h, hash_mix((uint64_t)v->pred, (uint64_t)v->buf * 128 + (uint64_t)v->axis));
        h = hash_mix(h, hash_mix((uint64_t)v->acc * 32 + (uint64_t)v->from, (uint64_t)v->lane));
        h = hash_mix(h, hash_mix((uint64_t)v->bound + v->exclusive + 2 * v->down + 4 * v->places +
                                     8 * v->repeats + 16 * v->approx,
                                 hash_ix(v->ix)));
    }
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        const char *joins = s->joins ? op_info((Op)(s->joins - 1))->name : "";
        h = hash_mix(h, hash_mix((uint64_t)s->buf, hash_mix(hash_str(joins), (uint64_t)s->guard)));
        h = hash_mix(h, hash_mix((uint64_t)s->value, hash_ix(s->ix)));
        if (s->fold)
            h = hash_mix(h, hash_mix(hash_str(op_info(s->fold->op)->name), (uint64_t)s->kept));
    }
    if (b->bins.held) h = hash_mix(h, hash_mix((uint64_t)b->bins.held, (uint64_t)b->bins.shares));
    if (b->bins.part) h = hash_mix(h, 1);
    if (b->bins.held && b->bins.ordered >= 0) h = hash_mix(h, (uint64_t)b->bins.ordered + 1);
    if (b->bins.chunk) h = hash_mix(h, (uint64_t)b->bins.chunk);
    if (b->part) h = hash_mix(h, (uint64_t)b->part);
    return h;
}

// A hash of what a body computes, independent of the rest of its launch. Flat maps in one launch
// share a schedule whatever their sizes, so their total size is hashed.
uint64_t body_key(const Body *b)
{
    bool flat = b->npar == 1 && b->col < 0;
    uint64_t h = hash_mix(0x6b657931, (uint64_t)b->npar * 1000 + (uint64_t)(b->col + 1));
    h = hash_mix(h, (uint64_t)(b->crowd ? b->crowd : body_rows(b)));
    for (int i = flat; i < b->naxes; i++) h = hash_mix(h, (uint64_t)b->axis[i].extent);
    for (uint32_t i = 0; i < b->bufs.n; i++) {
        const BodyBuf *u = &b->bufs.at[i];
        if (u->kind == KA_SCRATCH) continue;
        h = hash_mix(h, (uint64_t)u->kind * 64 + (uint64_t)u->type * 2 + u->written);
    }
    return hash_mix(hash_work(h, b), b->commits);
}

uint64_t kernel_identity(const Kernel *k)
{
    uint64_t h = hash_mix(0x6e657463, (uint64_t)k->phase), seen = 0;
    IdMap share = idmap_new(k->arena); // which bodies share a buffer is part of the identity
    for (int n = 0; n < k->nbodies; n++) {
        const Body *b = k->body[n];
        h = hash_mix(h, (uint64_t)b->npar * 1000 + (uint64_t)(b->col + 1));
        for (int i = 0; i < b->naxes; i++) h = hash_mix(h, (uint64_t)b->axis[i].extent);
        for (uint32_t i = 0; i < b->bufs.n; i++) {
            const BodyBuf *u = &b->bufs.at[i];
            h = hash_mix(h, (uint64_t)u->kind * 64 + (uint64_t)u->type * 2 + u->written);
            uint64_t at = seen++, key = hash_mix(hash_mix(0x62, (uint64_t)u->kind),
                                                 (uint64_t)(uintptr_t)u->node);
            key = hash_mix(hash_mix(key, (uint64_t)u->value), (uint64_t)u->scratch);
            if (!idmap_get(&share, key, &at)) idmap_set(&share, key, at);
            h = hash_mix(h, hash_mix(u->in_place, at));
        }
        h = hash_work(h, b);
        h = hash_mix(h, b->commits);
    }
    return h;
}

static uint64_t hash_ints(uint64_t h, const int64_t *v, size_t n)
{
    for (size_t i = 0; i < n; i++) h = hash_mix(h, (uint64_t)v[i]);
    return h;
}

#define HASH_INTS(h, ...)                                                                          \
    hash_ints(h, (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static uint64_t hash_schedule(uint64_t h, const Schedule *s)
{
    h = HASH_INTS(h, s->kind, s->variant, s->threads, s->resident, s->blocks, s->shared_bytes,
                  s->wide, s->vector, s->unroll, s->team, s->split, s->task, s->cluster, s->skew);
    h = HASH_INTS(h, s->map.transpose, s->map.reuse, s->row.keep_in, s->row.keep_bytes, s->row.keep,
                  s->row.cols, s->row.line, s->row.margin);
    h = HASH_INTS(h, s->sweep.walkers, s->sweep.together, s->sweep.ahead);
    return HASH_INTS(h, s->tile.m, s->tile.n, s->tile.k, s->tile.each, s->tile.share,
                     s->tile.staged, s->tile.wgmma, s->tile.ring);
}

// Hashes what analyses found out about a body; most of it follows from its instructions.
static uint64_t hash_facts(uint64_t h, const Body *b)
{
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        h = HASH_INTS(h, v->na, v->pred, v->buf, v->axis, v->lane, v->exclusive, v->down, v->places,
                      v->approx, v->repeats, v->unless, v->quotient, v->once, v->under, v->keep,
                      v->first_use, v->kept_at, v->acc, v->from, v->bound, (int64_t)v->axes,
                      v->stage, v->low, v->bits);
        for (int k = 0; v->at && k < v->node->type.rank; k++) // (ix does not contain it)
            h = HASH_INTS(h, v->node->type.dim[k], (int64_t)hash_ix(v->at[k]));
        for (int k = 0; v->seen_at && k < v->seen->rank; k++)
            h = HASH_INTS(h, v->seen->dim[k], (int64_t)hash_ix(v->seen_at[k]));
    }
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        h = HASH_INTS(h, s->buf, s->value, s->stage, s->joins, s->guard, s->fold != NULL, s->kept);
        if (s->atomic) h = hash_mix(h, 1);
        if (s->carries) h = HASH_INTS(h, s->carries);
    }
    for (uint32_t i = 0; i < b->bufs.n; i++) {
        const BodyBuf *u = &b->bufs.at[i];
        h = HASH_INTS(h, u->kind, u->type, u->elems, u->read, u->written, u->in_place,
                      u->kind == KA_NODE && node_in_memory(u->node));
    }
    h = HASH_INTS(h, b->naxes, b->npar, b->col, b->serial_cols, b->nstages, b->rare, b->joins,
                  b->beside, b->commits, b->can_fail, b->error_buf, b->part, b->crowd);
    h = HASH_INTS(h, b->dot.sum, b->dot.a, b->dot.b, b->dot.tensor);
    if (b->dot.deep) h = HASH_INTS(h, b->dot.deep, b->dot.channels, b->dot.results);
    h = HASH_INTS(h, b->bins.sum, b->bins.place, b->bins.ordered, b->bins.same, b->bins.places,
                  b->bins.shares, b->bins.held, b->bins.chunk, b->bins.part);
    h = HASH_INTS(h, b->attention.nscores, b->attention.nouts, b->attention.high, b->attention.exp,
                  b->attention.total, b->attention.tensor);
    for (int i = 0; i < b->attention.nscores; i++) {
        const BodyScore *s = &b->attention.score[i];
        h = HASH_INTS(h, s->sum, s->rows, s->cols, s->axis);
    }
    for (int i = 0; i < b->attention.nouts; i++) {
        const BodyWeighted *w = &b->attention.out[i];
        h = HASH_INTS(h, w->sum, w->weight, w->value, w->axis);
    }
    return hash_mix(h, hash_ix(b->uneven));
}

bool carried_between(const LowerCtx *c, const BodyBuf *u)
{
    return u->kind == KA_NODE && u->node->op == OP_region_param &&
           attr_int(u->node, ATTR_index, 0) <= c->carried;
}

uint64_t body_text_key(const LowerCtx *c, const Body *b)
{
    uint64_t h = hash_schedule(hash_facts(hash_work(0, b), b), &b->sched);
    for (int i = 0; i < b->naxes; i++) h = hash_mix(h, (uint64_t)b->axis[i].extent);
    // (carried values cannot be prefetched before the previous kernel has ended)
    for (uint32_t j = 0; j < b->bufs.n; j++) h = HASH_INTS(h, carried_between(c, &b->bufs.at[j]));
    return h;
}

uint64_t kernel_text_key(const Kernel *k, const ProgKernel *p)
{
    const LowerCtx *c = k->ctx;
    uint64_t h = HASH_INTS(k->identity, k->nbodies, c->is_region, c->initial, c->tf32, c->part,
                           p->bytes_read, p->bytes_written, p->flops);
    for (int i = 0; i < k->nbodies; i++) {
        const Body *b = k->body[i];
        h = hash_mix(h, body_text_key(c, b));
        for (uint32_t j = 0; j < b->bufs.n; j++) h = HASH_INTS(h, b->arg[j]);
    }
    return h;
}
