// The parts of a body, added one by one: instructions (equal ones once), buffers, axes, checks,
// stores.
#include <string.h>

#include "codegen/ir/reduction.h"
#include "codegen/lower/lower.h"

int lower_ix_stage(const Lower *l, const Ix *e)
{
    int stage = 0;
    if (!e || !e->has_value) return 0;
    for (int i = 0; i < e->n; i++) {
        const IxTerm *t = e->at[i].term;
        int s = t->kind == IT_VALUE ? l->body->insts.at[t->id].stage : lower_ix_stage(l, t->e);
        stage = s > stage ? s : stage;
    }
    return stage;
}

int lower_inst(Lower *l, Inst i)
{
    Body *b = l->body;
    i.axes |= i.ix ? i.ix->axes : 0;
    int stage = lower_ix_stage(l, i.ix);
    uint64_t h = hash_mix(hash_mix(hash_mix(0x1257, i.kind), i.type), i.op); // as in lower_value.c
    for (int k = 0; k < i.na; k++) {
        i.axes |= b->insts.at[i.a[k]].axes;
        if (b->insts.at[i.a[k]].stage > stage) stage = b->insts.at[i.a[k]].stage;
        h = hash_mix(h, (uint64_t)i.a[k]);
    }
    bool guarded = i.kind == KI_LOAD || i.kind == KI_CHECK;
    if (guarded && i.pred >= 0) {
        i.axes |= b->insts.at[i.pred].axes;
        if (b->insts.at[i.pred].stage > stage) stage = b->insts.at[i.pred].stage;
    }
    if (i.text) h = hash_mix(h, hash_str(i.text));
    if (i.kind == KI_REDUCE) {
        i.axes &= ~(1ull << i.axis);
        if (i.axis == b->col) {
            stage++;
            if (!l->call)
                i.axes |= (1ull << b->npar) - 1; // computed once per row, even if there is only one
                                                 // row
        }
    }
    if (i.kind == KI_LAST) {
        i.axes &= ~(1ull << i.axis);
        stage++;
    }
    if (i.kind == KI_SCAN || i.kind == KI_SORT || i.kind == KI_BIN || i.kind == KI_CARRIED ||
        i.kind == KI_LANES || i.kind == KI_NEIGHBOUR)
        i.axes |= 1ull << i.axis | ((1ull << b->npar) - 1);
    i.stage = stage;
    uint64_t bits;
    memcpy(&bits, &i.fvalue, sizeof bits);
    const uint64_t rest[] = {(uint64_t)(guarded ? i.pred : -1),
                             (uint64_t)(uintptr_t)i.ix,
                             (uint64_t)i.buf,
                             (uint64_t)i.axis,
                             (uint64_t)i.lane * 4 + 2 * i.approx + i.repeats,
                             (uint64_t)i.unless,
                             (uint64_t)i.from,
                             (uint64_t)i.acc,
                             bits,
                             (uint64_t)i.ivalue,
                             (uint64_t)(i.low * 64 + i.bits),
                             (uint64_t)i.bound};
    h = hash_bytes(rest, sizeof rest, h);
    uint64_t at;
    if (idmap_get(&l->memo, h, &at)) return (int)at;
    vec_push(l->ctx->arena, &b->insts, i);
    idmap_set(&l->memo, h, b->insts.n - 1);
    return (int)b->insts.n - 1;
}

int lower_const_int(Lower *l, DType t, int64_t v)
{
    if (dtype_is_float(t))
        return lower_inst(l, (Inst){.kind = KI_CONST, .type = t, .fvalue = (double)v});
    return lower_inst(l, (Inst){.kind = KI_CONST, .type = t, .ivalue = v});
}

int lower_ew(Lower *l, Op op, DType type, const int *a, int na, const Node *node)
{
    Inst i = {.kind = KI_EW, .type = type, .op = op, .na = na, .node = node};
    memcpy(i.a, a, sizeof *a * (size_t)na);
    return lower_inst(l, i);
}

int lower_two(Lower *l, Op op, DType type, int a, int b)
{
    return lower_ew(l, op, type, (int[]){a, b}, 2, NULL);
}

int lower_not(Lower *l, int a)
{
    return lower_ew(l, OP_not, DT_BOOL, &a, 1, NULL);
}

int lower_cast(Lower *l, int a, DType to, const Node *node)
{
    DType from = l->body->insts.at[a].type;
    if (from == to) return a;
    return lower_inst(
        l, (Inst){.kind = KI_CAST, .type = to, .from = from, .na = 1, .a = {a}, .node = node});
}

int lower_index(Lower *l, const Ix *e)
{
    DType t = e->low >= INT32_MIN && e->high <= INT32_MAX ? DT_I32 : DT_I64;
    int64_t v;
    if (ix_is_const(e, &v)) return lower_const_int(l, t, v);
    return lower_inst(l, (Inst){.kind = KI_INDEX, .type = t, .ix = e});
}

int lower_both(Lower *l, int a, int b)
{
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return a == b ? a : lower_two(l, OP_and, DT_BOOL, a, b);
}

int lower_select(Lower *l, int cond, int a, int b, const Node *n)
{
    return lower_ew(l, OP_select, n->type.dtype, (int[]){cond, a, b}, 3, n);
}

int lower_new_axis(Lower *l, int64_t extent)
{
    Body *b = l->body;
    if (b->naxes == BODY_MAX_AXES) {
        l->failed = true;
        return b->naxes - 1;
    }
    b->axis[b->naxes].extent = extent;
    return b->naxes++;
}

int lower_buf(Lower *l, KernelArgKind kind, const Node *n, DType type, int64_t elems)
{
    Body *b = l->body;
    // (Nodes are at least 16 bytes apart.)
    uint64_t at, key = (uint64_t)(uintptr_t)n * 8 + (uint64_t)kind;
    if (!l->buf_of.arena) l->buf_of = idmap_new(l->ctx->arena);
    if (kind != KA_SCRATCH && idmap_get(&l->buf_of, key, &at)) return (int)at;
    if (kind != KA_SCRATCH) idmap_set(&l->buf_of, key, b->bufs.n);
    vec_push(l->ctx->arena, &b->bufs,
             (BodyBuf){.kind = kind, .node = n, .type = type, .elems = elems});
    return (int)b->bufs.n - 1;
}

int lower_error_buf(Lower *l)
{
    return l->body->error_buf = lower_buf(l, KA_ERROR, NULL, DT_U8, 0);
}

static int lower_int(Lower *l, int purpose, int64_t value)
{
    uint64_t at, key = hash_mix(hash_mix(0x1247, (uint64_t)purpose), (uint64_t)value);
    if (!l->buf_of.arena) l->buf_of = idmap_new(l->ctx->arena);
    if (idmap_get(&l->buf_of, key, &at)) return (int)at;
    vec_push(l->ctx->arena, &l->body->bufs,
             (BodyBuf){.kind = KA_INT, .type = DT_I64, .elems = 1, .value = value, .read = true});
    idmap_set(&l->buf_of, key, l->body->bufs.n - 1);
    return (int)l->body->bufs.n - 1;
}

int lower_site(Lower *l, int64_t site)
{
    return lower_int(l, 1, site);
}

int lower_check(Lower *l, ProgCheckKind kind, const char *message, Loc loc, int64_t bound)
{
    LowerCtx *c = l->ctx;
    const char *where = loc_text(c->diags, loc);
    for (uint32_t i = 0; i < c->checks.n; i++) {
        ProgCheck *p = &c->checks.at[i];
        if (p->kind == kind && p->bound == bound && !strcmp(p->message, message) &&
            !strcmp(p->loc, where))
            return lower_int(l, 2, i + 1);
    }
    vec_push(c->arena, &c->checks,
             (ProgCheck){.kind = kind, .message = message, .loc = where, .bound = bound});
    return lower_int(l, 2, c->checks.n);
}

void lower_store(Lower *l, int buf, const Ix *ix, int value)
{
    l->body->bufs.at[buf].written = true;
    vec_push(l->ctx->arena, &l->body->stores, (BodyStore){.buf = buf, .ix = ix, .value = value});
}
