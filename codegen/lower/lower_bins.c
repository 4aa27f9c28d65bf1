// scatter_add on CUDA: bins in shared memory.
//
// A block takes neighbouring columns off the scattered axis, a share of the bins along it, and a
// range of the updates. Each thread adds to its own column of the bins in the order of the updates,
// so that there are no conflicts: many updates of one bin cost no more than others. If the columns
// are fewer than the threads of a block, its teams of threads, one thread a column, divide the
// bins. Where the updates are in the order of their bins (passes/scatter.c), a block has
// neighbouring bins, whose updates are neighbours, too. Otherwise it looks at all updates for those
// of its bins.
//
// Where there are many updates a bin, they are split into ranges: each leaves its partial bins in
// memory, and a second body adds these in order. The order of additions is fixed: runs agree to the
// bit.
//
// A bin with a large share of the updates would still take long, as its block adds them one after
// another. So chunks of the updates are looked at by a body before: updates that it can add up, as
// they are of the same bin, become one.
#include "codegen/lower/lower.h"

typedef struct Bins {
    LowerCtx *ctx;
    Graph *g;
    const Group *group;
    Node *n;
    DType sum;
    int64_t axis, places, cols, count;  // cols: results with the same index; count: number of
                                        // updates
    int64_t held, shares, ranges, each; // each: updates per range
    int64_t ordered, chunk; // the updates are in the order of their bins, at most so many of each;
                            // chunks of so many of them are added up first; 0: not so
    // If they are not in order, a chunk becomes [entries] updates: its own, then [rows] sums.
    int64_t entries, rows;
} Bins;

static void choose(Bins *p)
{
    enum {
        BUDGET = 96 << 10,
        LIST = 36 << 10,
        LEAST = 64,
        ORDERED = 16 << 10,
        BLOCKS = 4,
        SMALL = 24 << 10,
        FEW_SHARES = 32
    };
    const Target *t = p->ctx->target;
    const int64_t threads = bins_threads(p->cols, p->ordered),
                  teams = bins_teams(p->cols, p->ordered),
                  bytes = bins_apart(p->cols, p->ordered) * math_bytes(p->sum);
    // Few columns: a block has many bins, so few blocks look at each update. If they are very few,
    // blocks are smaller, and more of them work at the same time.
    const bool narrow = bins_apart(p->cols, p->ordered) < threads;
    const int64_t room =
        narrow && p->places * bytes <= FEW_SHARES * (int64_t)SMALL ? SMALL : BUDGET;
    // (ordered bins: few for each block, so that many blocks load at the same time)
    int64_t budget = p->ordered ? ORDERED : at_most(room, t->shared_per_block - LIST),
            most = budget / bytes;
    if (p->ordered && teams > 1) { // each team has as many
        most = at_most(most, ceil_div(p->places, BLOCKS * (int64_t)t->units));
        p->held = ceil_div(most, teams) * teams;
        p->shares = ceil_div(p->places, p->held);
    } else {
        p->shares = ceil_div(p->places, most > 1 ? most : 1);
        p->held = ceil_div(p->places, p->shares);
    }
    int64_t across = bins_blocks_across(p->cols) * p->shares;
    int64_t fit = narrow ? 2 * (BUDGET + LIST) / (p->held * bytes + LIST / 2)
                         : 2 * BUDGET / (p->held * bytes),
            resident = at_most(fit, t->threads_per_unit / (threads * teams));
    int64_t ranges = at_most(resident * t->units / across, p->count / LEAST);
    if (p->ordered) ranges = 1;
    // Partial sums should be at most half of what is added up; those of few columns should cost as
    // much as looking for the updates.
    ranges = at_most(ranges, narrow ? target_narrow_ranges(p->count, p->places * p->cols)
                                    : p->count / (2 * p->places));
    p->each = ceil_div(p->count, ranges > 1 ? ranges : 1);
    p->ranges = ceil_div(p->count, p->each);
}

// Chunks of updates that are in no order: as many as a block has threads, if there are so many of
// them that a bin may take long.
static void choose_frequent(Bins *p)
{
    enum { LEAST = 4096, ROWS = 8 };
    if (p->ordered || p->each < LEAST || p->places > INT32_MAX) return;
    p->chunk = (int64_t)bins_threads(p->cols, false) * bins_teams(p->cols, false);
    p->rows = ROWS;
    p->entries = p->chunk + p->rows;
    const int64_t chunks = ceil_div(p->count, p->chunk), each = ceil_div(chunks, p->ranges);
    p->each = each * p->entries;
    p->ranges = ceil_div(chunks, each);
}

// A bin may have a large share of the updates. A block would add them one after another, so chunks
// of sorted updates that are all of one bin are added up before, if a bin can have several. Then at
// most two chunks and the sums of the others are left for the block, which takes the least time if
// these are about as many.
static void choose_chunk(Bins *p)
{
    enum { LEAST = 128, SEVERAL = 4 };
    int64_t chunk = LEAST;
    if (!p->ordered) return;
    while (4 * chunk * chunk < p->count) chunk *= 2;
    p->chunk = p->ordered >= SEVERAL * chunk ? chunk : 0;
}

// The buffer with partial sums: for each range, one per element of the result; or for each chunk.
static int parts(const Bins *p, Lower *l)
{
    const bool chunks = p->ordered && p->chunk;
    int64_t sums = chunks ? ceil_div(p->count, p->chunk) : p->ranges * p->places;
    int buf = lower_buf(l, KA_SCRATCH, NULL, p->sum, sums * p->cols);
    l->body->bufs.at[buf].scratch = 0;
    return buf;
}

static const Ix *part(const Bins *p, IxCtx *c, const Ix *range, const Ix *place, const Ix *col)
{
    const int64_t dim[] = {p->ranges, p->places, p->cols};
    const Ix *at[] = {range, place, col};
    return ix_linear(c, at, dim, 3);
}

static bool finish(const Bins *p, Lower *l, BodyList *out)
{
    if (l->failed) return lower_failed(l, p->n);
    lower_finish(l);
    vec_push(p->ctx->arena, out, l->body);
    return true;
}

// Only results with updates are stored, where they are: a thread reads and writes its own ones
// only, unless the updates are computed from the same cell.
static void change_part(Body *b, int old, int buf, int64_t updates)
{
    const int from = b->insts.at[old].buf;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].kind == KI_LOAD && b->insts.at[i].buf == from && (int)i != old) return;
    b->bins.part = true;
    b->bufs.at[from].in_place = b->bufs.at[buf].in_place = true;
    b->bufs.at[from].part = b->bufs.at[buf].part = updates;
}

// The place of the update at column [from]: an instruction of its own, over the columns even if all
// updates have the same place. Results are printed as values at this place, in another loop
// (codegen/cuda/bins_cuda.c).
static int update_place(Lower *l, Node *n, const Ix *from, int guard)
{
    const int where = lower_place(l, n, from, guard);
    const Inst *v = &l->body->insts.at[where];
    const uint64_t column = 1ull << l->body->col;
    if (v->axes & column) return where;
    return lower_inst(
        l, (Inst){.kind = KI_CAST, .type = v->type, .na = 1, .a = {where}, .axes = column});
}

// The sum of the update's chunk.
static int load_chunk(const Bins *p, Lower *l, const Ix *from, const Ix *col)
{
    IxCtx *c = l->body->ix;
    const int buf = parts(p, l);
    l->body->bufs.at[buf].read = true;
    const Ix *at = ix_add(c, ix_scale(c, ix_div(c, from, p->chunk), p->cols), col);
    return lower_inst(l, (Inst){.kind = KI_LOAD, .type = p->sum, .buf = buf, .pred = -1, .ix = at});
}

static bool add_up_chunks(const Bins *p, BodyList *out)
{
    Lower l = lower_begin(p->ctx, p->g, p->group);
    Body *b = l.body;
    IxCtx *c = b->ix;
    const Node *index = p->n->args[1], *updates = p->n->args[2];
    const Ix *at[MAX_RANK];
    const int64_t chunks = p->count / p->chunk, held = bins_teams(p->cols, true);
    lower_new_axis(&l, ceil_div(chunks, held));
    const Ix *col = ix_axis(c, lower_new_axis(&l, p->cols), p->cols);
    b->npar = 2;
    b->serial_cols = true;
    b->col = lower_new_axis(&l, chunks * p->chunk);
    const Ix *from = ix_axis(c, b->col, chunks * p->chunk);
    const int chunk = lower_index(&l, ix_div(c, from, p->chunk));
    const int same = lower_value(&l, index, &from, -1);
    lower_around(c, &updates->type, p->axis, col, from, at);
    const int v = lower_cast(&l, lower_value(&l, updates, at, -1), p->sum, NULL);
    const int sum = lower_inst(&l, (Inst){.kind = KI_BIN,
                                          .type = p->sum,
                                          .na = 2,
                                          .a = {v, same}, // (so that it is computed)
                                          .axis = b->col,
                                          .node = p->n});
    b->bins.sum = sum;
    b->bins.place = b->bins.ordered = chunk;
    b->bins.same = same;
    b->bins.places = chunks;
    b->bins.shares = ceil_div(chunks, held);
    b->bins.held = held;
    b->bins.chunk = p->chunk;
    const Ix *place = ix_value(c, chunk, 0, chunks - 1, b->insts.at[chunk].axes);
    lower_store(&l, parts(p, &l), ix_add(c, ix_scale(c, place, p->cols), col), sum);
    return finish(p, &l, out);
}

// What chunks of updates that are in no order become: the bin of each entry, or -1, and the sums.
static int entry_places(const Bins *p, Lower *l)
{
    const int buf =
        lower_buf(l, KA_SCRATCH, NULL, DT_I32, ceil_div(p->count, p->chunk) * p->entries);
    l->body->bufs.at[buf].scratch = 1;
    return buf;
}

static int entry_sums(const Bins *p, Lower *l)
{
    const int buf =
        lower_buf(l, KA_SCRATCH, NULL, p->sum, ceil_div(p->count, p->chunk) * p->rows * p->cols);
    l->body->bufs.at[buf].scratch = 2;
    return buf;
}

static bool add_up_frequent(const Bins *p, BodyList *out)
{
    Lower l = lower_begin(p->ctx, p->g, p->group);
    Body *b = l.body;
    IxCtx *c = b->ix;
    const Node *updates = p->n->args[2];
    const Ix *at[MAX_RANK];
    const int64_t chunks = ceil_div(p->count, p->chunk), rows = chunks * p->rows;
    lower_new_axis(&l, chunks);
    const Ix *col = ix_axis(c, lower_new_axis(&l, p->cols), p->cols);
    b->npar = 2;
    b->serial_cols = true;
    b->col = lower_new_axis(&l, p->count);
    const Ix *from = ix_axis(c, b->col, p->count);
    const int row = lower_index(&l, ix_div(c, from, ceil_div(p->count, rows)));
    b->bins.same = update_place(&l, p->n, from, -1);
    lower_around(c, &updates->type, p->axis, col, from, at);
    const int v = lower_cast(&l, lower_value(&l, updates, at, -1), p->sum, NULL);
    b->bins.sum = lower_inst(
        &l,
        (Inst){.kind = KI_BIN, .type = p->sum, .na = 1, .a = {v}, .axis = b->col, .node = p->n});
    b->bins.place = row;
    b->bins.ordered = -1;
    b->bins.places = rows;
    b->bins.shares = chunks;
    b->bins.held = p->rows;
    b->bins.chunk = p->chunk;
    const Ix *place = ix_value(c, row, 0, rows - 1, b->insts.at[row].axes);
    lower_store(&l, entry_sums(p, &l), ix_add(c, ix_scale(c, place, p->cols), col), b->bins.sum);
    lower_store(&l, entry_places(p, &l), from, lower_cast(&l, b->bins.same, DT_I32, NULL));
    return finish(p, &l, out);
}

// The bin of entry [from], which is valid where the guard is true.
static int entry_place(const Bins *p, Lower *l, const Ix *from, int *guard)
{
    const int buf = entry_places(p, l);
    l->body->bufs.at[buf].read = true;
    const int where = lower_inst(
        l, (Inst){.kind = KI_LOAD, .type = DT_I32, .buf = buf, .pred = *guard, .ix = from});
    const int none = lower_const_int(l, DT_I32, 0);
    *guard = lower_both(l, *guard, lower_two(l, OP_ge, DT_BOOL, where, none));
    return where;
}

// The value of entry [from]: an update, or one of the sums.
static int entry_value(const Bins *p, Lower *l, const Ix *from, const Ix *col, int guard)
{
    IxCtx *c = l->body->ix;
    const Node *updates = p->n->args[2];
    const Ix *at[MAX_RANK], *chunk = ix_div(c, from, p->entries),
                            *number = ix_mod(c, from, p->entries);
    const int i = lower_index(l, number),
              end = lower_const_int(l, l->body->insts.at[i].type, p->chunk),
              single = lower_two(l, OP_lt, DT_BOOL, i, end), buf = entry_sums(p, l);
    l->body->bufs.at[buf].read = true;
    lower_around(c, &updates->type, p->axis, col, ix_add(c, ix_scale(c, chunk, p->chunk), number),
                 at);
    const int v = lower_value(l, updates, at, lower_both(l, guard, single));
    const Ix *row =
        ix_add(c, ix_scale(c, chunk, p->rows), ix_add(c, number, ix_const(c, -p->chunk)));
    const int sum = lower_inst(l, (Inst){.kind = KI_LOAD,
                                         .type = p->sum,
                                         .buf = buf,
                                         .pred = lower_both(l, guard, lower_not(l, single)),
                                         .ix = ix_add(c, ix_scale(c, row, p->cols), col)});
    const int which[] = {single, lower_cast(l, v, p->sum, NULL), sum};
    return lower_ew(l, OP_select, p->sum, which, 3, p->n);
}

static bool add_up(const Bins *p, BodyList *out)
{
    Lower l = lower_begin(p->ctx, p->g, p->group);
    Body *b = l.body;
    IxCtx *c = b->ix;
    const Type *t = &p->n->type, *ut = &p->n->args[2]->type;
    const Ix *at[MAX_RANK], *to[MAX_RANK];
    int64_t slots = p->shares * p->ranges;
    const Ix *slot = ix_axis(c, lower_new_axis(&l, slots), slots);
    const Ix *col = ix_axis(c, lower_new_axis(&l, p->cols), p->cols);
    b->npar = 2;
    b->serial_cols = true;
    b->col = lower_new_axis(&l, p->each);
    const Ix *range = ix_div(c, slot, p->shares);
    const Ix *from = ix_add(c, ix_scale(c, range, p->each), ix_axis(c, b->col, p->each));
    const int64_t all = p->entries ? ceil_div(p->count, p->chunk) * p->entries : p->count;
    int guard = -1;
    if (all % p->each) {
        int i = lower_index(&l, from);
        int end = lower_const_int(&l, b->insts.at[i].type, all);
        guard = lower_two(&l, OP_lt, DT_BOOL, i, end);
    }
    int where = p->entries ? entry_place(p, &l, from, &guard) : update_place(&l, p->n, from, guard);
    const bool checks = b->insts.at[where].kind == KI_CHECK;
    b->bins.ordered = !p->ordered ? -1 : checks ? b->insts.at[where].a[0] : where;
    b->bins.same = b->bins.ordered;
    if (p->ordered && checks) { // an error names the update's position before it was moved
        const Node *perm = p->n->args[1]->args[1];
        int moved = lower_value(&l, (Node *)perm, &from, -1);
        b->insts.at[where].ix = ix_value(c, moved, 0, p->count - 1, b->insts.at[moved].axes);
    }
    const Ix *place = ix_value(c, where, 0, p->places - 1, b->insts.at[where].axes);
    if (p->shares > 1 && !p->ordered) {
        int share = lower_index(&l, ix_mod(c, place, p->shares));
        int mine = lower_index(&l, ix_mod(c, slot, p->shares));
        int hit = lower_two(&l, OP_eq, DT_BOOL, share, mine);
        guard = lower_both(&l, guard, hit);
    }
    int v, chunk = 0;
    if (p->entries) {
        v = entry_value(p, &l, from, col, guard);
    } else {
        lower_around(c, ut, p->axis, col, from, at);
        v = lower_cast(&l, lower_value(&l, p->n->args[2], at, guard), p->sum, NULL);
        if (p->chunk) chunk = load_chunk(p, &l, from, col);
    }
    v = lower_inst(&l, (Inst){.kind = KI_BIN,
                              .type = p->sum,
                              .na = p->ordered && p->chunk ? 2 : 1,
                              .a = {v, chunk},
                              .axis = b->col,
                              .node = p->n});
    b->bins.sum = v;
    b->bins.chunk = p->ordered ? p->chunk : 0;
    b->bins.place = where;
    b->bins.places = p->places;
    b->bins.shares = p->shares;
    b->bins.held = p->held;
    if (p->ranges > 1) {
        lower_store(&l, parts(p, &l), part(p, c, range, place, col), v);
    } else {
        lower_around(c, t, p->axis, col, place, to);
        const int old = lower_value(&l, p->n->args[0], to, -1),
                  sum[] = {old, lower_cast(&l, v, t->dtype, NULL)};
        v = lower_ew(&l, OP_add, t->dtype, sum, 2, p->n);
        const int buf = lower_buf(&l, KA_NODE, p->n, t->dtype, type_count(t));
        lower_store(&l, buf, ix_linear(c, to, t->dim, t->rank), v);
        lower_committed(&l, p->n);
        if (lower_changes_part(p->ctx, p->n)) change_part(b, old, buf, type_count(ut));
    }
    b->stores.at[0].guard = guard + 1;
    return finish(p, &l, out);
}

static bool join(const Bins *p, BodyList *out)
{
    Lower l = lower_begin(p->ctx, p->g, p->group);
    IxCtx *c = l.body->ix;
    const Type *t = &p->n->type;
    const Ix *at[MAX_RANK];
    int64_t all = type_count(t);
    const Ix *flat = ix_axis(c, lower_new_axis(&l, all), all);
    l.body->npar = 1;
    const Ix *place = ix_div(c, flat, p->cols), *col = ix_mod(c, flat, p->cols);
    int axis = l.body->col = lower_new_axis(&l, p->ranges), buf = parts(p, &l);
    l.body->joins = true;
    l.body->bufs.at[buf].read = true;
    int x = lower_inst(&l, (Inst){.kind = KI_LOAD,
                                  .type = p->sum,
                                  .buf = buf,
                                  .pred = -1,
                                  .ix = part(p, c, ix_axis(c, axis, p->ranges), place, col)});
    int sum = lower_inst(&l, (Inst){.kind = KI_REDUCE,
                                    .op = OP_sum,
                                    .type = p->sum,
                                    .acc = p->sum,
                                    .na = 1,
                                    .a = {x},
                                    .axis = axis,
                                    .node = p->n});
    lower_around(c, t, p->axis, col, place, at);
    int both[] = {lower_value(&l, p->n->args[0], at, -1), lower_cast(&l, sum, t->dtype, NULL)};
    int v = lower_ew(&l, OP_add, t->dtype, both, 2, p->n);
    return lower_deliver(&l, p->n, ix_linear(c, at, t->dim, t->rank), v, out);
}

bool lower_bins(LowerCtx *ctx, Graph *g, const Group *group, Node *n, BodyList *out)
{
    Bins p = {.ctx = ctx, .g = g, .group = group, .n = n, .axis = attr_int(n, ATTR_axis, 0)};
    p.sum = math_type(n->type.dtype);
    p.places = n->type.dim[p.axis];
    p.cols = lower_rows_around(&n->type, p.axis);
    p.count = n->args[2]->type.dim[p.axis];
    p.ordered = n->args[1]->op == OP_gather ? attr_int(n, ATTR_ordered, 0) : 0;
    choose(&p);
    choose_chunk(&p);
    choose_frequent(&p);
    if (p.chunk && !(p.ordered ? add_up_chunks : add_up_frequent)(&p, out)) return false;
    return add_up(&p, out) && (p.ranges == 1 || join(&p, out));
}
