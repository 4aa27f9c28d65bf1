// One thread per row processes its columns in order, as CUDA C: for bodies that cannot be divided
// among a team (scatter), and for scans and merges of many rows.
#include "codegen/cuda/print_cuda.h"

// The condition on which a column belongs to a row's share, if rows store only columns of their
// share and all rows of a warp have the same share (scatter); otherwise -1.
static int shared_guard(const Body *b)
{
    int guard = b->stores.n ? b->stores.at[0].guard - 1 : -1;
    if (guard < 0 || b->sched.threads % 32 || body_rows(b) % 32) return -1;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].guard - 1 != guard) return -1;
    const Inst *v = &b->insts.at[guard];
    if (v->kind != KI_EW || v->op != OP_eq || inst_over(&b->insts.at[v->a[0]], 0)) return -1;
    const Inst *own = &b->insts.at[v->a[1]];
    if (own->kind != KI_INDEX || own->ix->n != 1 || inst_over(own, b->col)) return -1;
    const IxTerm *t = own->ix->at[0].term;
    return t->kind == IT_DIV && t->by % 32 == 0 ? guard : -1;
}

// A warp tests 32 columns at once and processes those of its share in order.
static void print_shares(Emit *e, int guard)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *it = int_type(e);
    long long cols = extent_of(b, b->col);
    emit_open(e, 0);
    emit(e, "uint32_t hits;");
    emit_open(e, 1ull << b->col);
    emit(e, "const %s own = from + threadIdx.x %% 32;", it);
    emit_int(e, c, "nc_min(own, (%s)%lld)", it, cols - 1);
    const char *hit = emit_value(e, guard);
    emit(e, "hits = __ballot_sync(0xffffffffu, own < %lld && %s);", cols, hit);
    emit_end(e, "{");
    emit_open(e, 1ull << b->col);
    emit_int(e, c, "from + __ffs(hits) - 1");
    emit_bind(e, guard, e->scope, "true");
    for (uint32_t i = 0; i < b->stores.n; i++) {
        BodyStore s = b->stores.at[i];
        s.guard = 0;
        emit_store(e, &s);
    }
    emit_end(e, "for (; hits; hits &= hits - 1) {");
    emit_loop(e, it, "from", "0", emit_number(e, cols), 32);
}

void in_order_cuda(Emit *e)
{
    const Body *b = e->body;
    const int guard = shared_guard(b);
    const Vectors none = {.width = 1};
    const char *leader = print_row_number(e, block_number(e)), *c = e->axis[b->col];
    open_row(e);
    for (int stage = 0; stage < b->nstages; stage++) {
        int n;
        const int *r = stage_reductions(e, stage, &n);
        declare_accumulators(e, stage);
        if (guard >= 0 && b->nstages == 1 && !n) {
            print_shares(e, guard);
            continue;
        }
        emit_open(e, 1ull << b->col);
        accumulate(e, stage, c);
        lane_stores(e, &none, stage);
        emit_loop(e, int_type(e), c, "0", emit_number(e, extent_of(b, b->col)), 1);
        for (int i = 0; i < n; i++) print_joined(e, r[i]);
    }
    print_row_stores(e, leader);
    emit_close(e, NULL, NULL);
}
