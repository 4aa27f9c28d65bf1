// Sums over the rows are fused into the row kernel over the same rows.
//
// A layer norm's backward kernel goes through rows, and the gradients of weight and bias are sums
// over the same rows of values that it computes or reads. As a group of its own such a sum would
// read its operands again. Here it becomes part of the row group (Group.folded): each block keeps a
// partial sum for every column over its rows, and a small second kernel adds the partial sums.
#include <stdlib.h>

#include "passes/fuse/fuse.h"

enum {
    SMALL_BYTES = 8 << 20,    // smaller column sums are delayed until they can share a launch
    ROWS_A_UNIT = 32,         // with fewer rows, the partial sums are as large as the values that
                              // would be read again
    MOST_PARTIALS = 28 << 10, // elements that a block holds in registers
    MOST_SUMS = 16
};

typedef struct Folder {
    Fuse *f;
    uint32_t *has;  // by id: mark of the row group that computes or reads it
    uint32_t *seen; // by id: mark of the last traversal
    uint32_t mark;
    // Of the last column group looked at:
    int sums;        // its reductions
    int shared, own; // large values it reads: those that the row group reads or computes, and
                     // others
    int64_t bytes;   // bytes per row of those that are loaded
    int level;       // the first level at which everything it reads is stored
} Folder;

static bool over_leading_axes(const Cluster *c)
{
    bool kept = false;
    for (int i = 0, k = 0; i < c->full.rank; i++) {
        bool reduced = k < c->naxes && c->axes[k] == i;
        k += reduced;
        if (c->full.dim[i] == 1) continue;
        if (reduced && kept) return false;
        kept |= !reduced;
    }
    return true;
}

// Whether the rows of one are the columns of the other.
static bool transposed(const Cluster *row, const Cluster *column)
{
    return row->kind == GROUP_ROW && row->trailing && column->kind == GROUP_COLUMN &&
           row->rows == column->cols && row->cols == column->rows && over_leading_axes(column);
}

static bool can_fold(const Node *n)
{
    DType t = n->type.dtype;
    return node_class(n) == CLS_REDUCE && op_keeps_one(n->op) && t != DT_BOOL && t != DT_U8;
}

static void read_stored(Folder *x, const Node *n)
{
    if (x->f->level[n->id] + 1 > x->level) x->level = x->f->level[n->id] + 1;
}

// Marks what the row group computes and reads.
static void mark_row(Folder *x, const Slot *row)
{
    Fuse *f = x->f;
    Nodes work = {0};
    x->mark++;
    for (uint32_t i = 0; i < row->group.outs.n; i++) vec_push(f->a, &work, row->group.outs.at[i]);
    while (work.n) {
        Node *n = work.at[--work.n];
        if (x->has[n->id] == x->mark) continue;
        x->has[n->id] = x->mark;
        bool outside = f->mat[n->id] && fuse_cluster(f, n) != row->cluster;
        if (node_class(n) != CLS_LEAF && !outside) fuse_push_args(f, &work, n);
    }
}

// Traverses from what a column group stores to its sums, whose operands go to [below]. false: a
// value on the way is not computed from the sums column by column.
static bool above_sums(Folder *x, const Slot *column, const Slot *row, Nodes *below)
{
    Fuse *f = x->f;
    Nodes work = {0};
    for (uint32_t i = 0; i < column->group.outs.n; i++)
        vec_push(f->a, &work, column->group.outs.at[i]);
    while (work.n) {
        Node *n = work.at[--work.n];
        uint32_t c = fuse_cluster(f, n);
        OpClass class = node_class(n);
        if (!fuse_first_visit(x->seen, x->mark, n)) continue;
        if (c == row->cluster) return false;
        if (c == column->cluster && class == CLS_REDUCE) {
            if (!can_fold(n)) return false;
            x->sums++;
            fuse_push_args(f, below, n);
        } else if (c != column->cluster && f->mat[n->id]) {
            read_stored(x, n);
        } else if (class == CLS_ELEMENTWISE || class == CLS_VIEW || class == CLS_ROOT) {
            fuse_push_args(f, &work, n);
        } else if (class != CLS_LEAF) {
            return false;
        }
    }
    return true;
}

// Traverses the operands of the sums. false: one of them depends on such a sum itself, or cannot be
// computed by the row kernel.
static bool below_sums(Folder *x, const Slot *column, const Slot *row, Nodes *work)
{
    Fuse *f = x->f;
    const Cluster *k = &f->clusters.at[column->cluster - 1];
    while (work->n) {
        Node *n = work->at[--work->n];
        uint32_t c = fuse_cluster(f, n);
        OpClass class = node_class(n);
        if (!fuse_first_visit(x->seen, x->mark, n)) continue;
        if (c == column->cluster || f->checked[n->id]) return false;
        bool large = type_count(&n->type) * 2 >= k->rows * k->cols, has = x->has[n->id] == x->mark;
        bool stored = fuse_stored(f, n);
        if (large && stored) x->bytes += k->rows * (dtype_info[n->type.dtype].bits / 8);
        if (large && (stored || (has && c == row->cluster))) *(has ? &x->shared : &x->own) += 1;
        if (class == CLS_LEAF || (has && c == row->cluster)) continue;
        if (f->mat[n->id] && c != row->cluster)
            read_stored(x, n);
        else if (class == CLS_ELEMENTWISE || class == CLS_VIEW || class == CLS_INDEX ||
                 c == row->cluster)
            fuse_push_args(f, work, n);
        else
            return false;
    }
    return true;
}

static bool no_fold(Fuse *f, const Slot *row, const Slot *column, UnfusedCause cause, int64_t a,
                    int64_t b)
{
    f->no_fold[column->cluster - 1] = (Unfused){.producer = row->group.outs.at[0],
                                                .consumer = column->group.outs.at[0],
                                                .cause = cause,
                                                .a = a,
                                                .b = b};
    return false;
}

static bool can_join(Folder *x, const Slot *row, const Slot *column)
{
    Fuse *f = x->f;
    const Cluster *r = &f->clusters.at[row->cluster - 1];
    if (row->commits || row->checks || row->level > column->latest ||
        !transposed(r, &f->clusters.at[column->cluster - 1]))
        return false;
    mark_row(x, row);
    Nodes below = {0};
    x->sums = x->shared = x->own = x->level = 0;
    x->bytes = 0;
    if (!above_sums(x, column, row, &below) || !below_sums(x, column, row, &below)) return false;
    if (!x->shared || x->own > x->shared || x->level > row->level) return false;
    int64_t units = f->target->units > 0 ? f->target->units : 1,
            sums = x->sums + (int64_t)row->group.folded.n;
    if (r->rows < ROWS_A_UNIT * units)
        return no_fold(f, row, column, WHY_FEW_ROWS, r->rows, ROWS_A_UNIT * units);
    // (a block keeps two rows of what it loads in shared memory)
    if (sums > MOST_SUMS || sums * r->cols > MOST_PARTIALS ||
        2 * x->bytes > f->target->shared_per_block)
        return no_fold(f, row, column, WHY_MANY_COLUMNS, sums, r->cols);
    return true;
}

static int by_id(const void *a, const void *b)
{
    const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void join(Fuse *f, Slot *row, Slot *column)
{
    Group *g = &row->group;
    for (uint32_t i = 0; i < column->group.outs.n; i++) {
        Node *n = column->group.outs.at[i];
        vec_push(f->a, &g->outs, n);
        vec_push(f->a, &g->folded, n);
        f->level[n->id] = row->level;
    }
    qsort(g->outs.at, g->outs.n, sizeof *g->outs.at, by_id);
    row->first = g->outs.at[0]->id;
    if (column->latest < row->latest) row->latest = column->latest;
    column->group.outs.n = 0;
}

// By id: read from memory by a group.
static bool *find_read(Fuse *f, const Slots *slots)
{
    bool *read = NEW_ARRAY(f->a, bool, f->g->nodes.n + 1);
    uint32_t *seen = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    for (uint32_t i = 0; i < f->g->results.n; i++) read[f->g->results.at[i]->id] = true;
    for (uint32_t i = 0; i < f->g->roots.n; i++) { // (roots without a group are copied)
        const Node *r = f->g->roots.at[i], *a = r->args[0];
        if (!f->mat[r->id] || !fuse_cluster(f, r) || fuse_cluster(f, r) != fuse_cluster(f, a))
            read[a->id] = true;
    }
    for (uint32_t s = 0; s < slots->n; s++) {
        Nodes work = {0};
        const Group *g = &slots->at[s].group;
        for (uint32_t i = 0; i < g->outs.n; i++) vec_push(f->a, &work, g->outs.at[i]);
        while (work.n) {
            Node *n = work.at[--work.n];
            if (seen[n->id] == s + 1) continue;
            seen[n->id] = s + 1;
            for (uint32_t i = 0; i < n->nargs; i++) {
                Node *a = n->args[i];
                bool own = slots->at[s].cluster && fuse_cluster(f, a) == slots->at[s].cluster;
                if (f->mat[a->id] && !own)
                    read[a->id] = true;
                else
                    vec_push(f->a, &work, a);
            }
        }
    }
    return read;
}

// Values that only the moved sums have read need not be stored any more.
static void drop_unread(Fuse *f, Slots *slots)
{
    const bool *read = find_read(f, slots);
    for (uint32_t s = 0; s < slots->n; s++) {
        Group *g = &slots->at[s].group;
        uint32_t kept = 0;
        for (uint32_t i = 0; i < g->outs.n; i++) {
            Node *n = g->outs.at[i];
            if (!g->folded.n || read[n->id] || f->forced[n->id] || node_class(n) == CLS_ROOT ||
                fuse_cluster(f, n) != slots->at[s].cluster)
                g->outs.at[kept++] = n;
            else
                f->mat[n->id] = false;
        }
        g->outs.n = kept;
        if (kept) slots->at[s].first = g->outs.at[0]->id;
    }
}

static bool by_rows_and_columns(const Fuse *f, const Slot *s, uint64_t *key, bool *takes)
{
    if (!s->cluster || s->bytes <= SMALL_BYTES) return false;
    const Cluster *c = &f->clusters.at[s->cluster - 1];
    *takes = s->group.kind == GROUP_ROW;
    if (!*takes && s->group.kind != GROUP_COLUMN) return false;
    *key = *takes ? hash_mix((uint64_t)c->rows, (uint64_t)c->cols)
                  : hash_mix((uint64_t)c->cols, (uint64_t)c->rows);
    return true;
}

void fuse_sweeps(Fuse *f, Slots *slots)
{
    f->no_fold = NEW_ARRAY(f->a, Unfused, f->clusters.n + 1);
    if (!f->target || f->target->kind != TARGET_CUDA)
        return; // other devices have the operands in
                // their caches
    Folder x = {.f = f};
    x.has = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    x.seen = NEW_ARRAY(f->a, uint32_t, f->g->nodes.n + 1);
    Near near = fuse_near(f, slots, by_rows_and_columns);
    bool any = false;
    for (uint32_t i = 0; i < slots->n; i++) {
        Slot *s = &slots->at[i];
        if (!s->cluster || s->group.kind != GROUP_COLUMN || s->commits || s->checks ||
            s->bytes <= SMALL_BYTES)
            continue;
        NearWalk w = fuse_near_walk(&near, i);
        for (uint32_t at; fuse_near_next(&w, &at);)
            if (can_join(&x, &slots->at[at], s)) {
                join(f, &slots->at[at], s);
                f->no_fold[s->cluster - 1].consumer = NULL;
                any = true;
                break;
            }
    }
    if (!any) return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < slots->n; i++)
        if (slots->at[i].group.outs.n) slots->at[kept++] = slots->at[i];
    slots->n = kept;
    drop_unread(f, slots);
}
