// Maps: bodies that compute outs element by element over one space. Values that consist of pieces
// (concat, pad) are stored piecewise: the space is cut where a value changes from one operand to
// the next, until each piece reads one of them. Pieces of the same size are several stores of one
// body, which computes what they have in common once; further outs of that size are stored by the
// same body. Bodies for different sizes run in the same launch.
#include <string.h>

#include "codegen/lower/lower.h"

// Spaces of fewer than FEW elements are not cut: choosing an operand costs nothing there.
enum { FEW = 1024, MOST_PIECES = 256, MOST_STORES_CPU = 32, MOST_STORES_CUDA = 8 };
// Pieces that share a body on CUDA load at most this many bytes per element: a thread, which has
// vectors of them, must hold all loads in registers.
enum { MOST_LOADED = 96 };

typedef struct Cut {
    int axis;
    int64_t at;
} Cut;

struct LowerCuts {
    VEC(Cut) at;
    const Ix *flat;   // the index of the element in the whole space
    const Node *like; // a node with as many elements; in its shape, more cuts may be found
};

typedef struct Piece { // a box in the space
    int64_t at[MAX_RANK], size[MAX_RANK];
} Piece;

typedef struct Map {
    LowerCtx *ctx;
    Graph *g;
    const Group *group;
    Node *const *outs;
    int n;
    int64_t dim[MAX_RANK]; // sizes of the space
    int rank;
    VEC(Piece) pieces;
    NodeList beside; // outs of the same size as the pieces, stored together with them
    bool updates;    // outs are states of which only a part is written
} Map;

static const Node *changed_by(const Node *n)
{
    return n->op == OP_assign ? n->args[0] : n;
}

// If n is stored into a state of which only a part changes: the update. NULL: the state is written
// completely.
static const Node *update_of(const LowerCtx *ctx, const Graph *g, const Node *n)
{
    if (!lower_commits(ctx, n)) return NULL;
    if (lower_changes_part(ctx, n)) return n;
    const Node *u = n->op == OP_assign ? n->args[0] : NULL;
    if (!u || !node_has(u, OPF_PART) || g->fusion->group_of[u->id]) return NULL;
    const Node *s = u->args[0];
    bool own = node_has(s, OPF_CELL) && !strcmp(attr_str(s, ATTR_name), attr_str(n, ATTR_name));
    return own && s->type.rank > 0 ? u : NULL;
}

// Whether all outs are such updates, with parts of one shape.
static bool all_update(const Map *m)
{
    const Node *first = update_of(m->ctx, m->g, m->outs[0]);
    for (int i = 0; i < m->n && first; i++) {
        const Node *u = update_of(m->ctx, m->g, m->outs[i]);
        if (!u || !shape_equal(&u->args[1]->type, &first->args[1]->type)) return false;
    }
    return first != NULL;
}

// Stores the element of an update at idx into the state.
static void lower_update(Lower *l, const Node *n, const Ix *const *idx)
{
    const Node *update = changed_by(n), *part = update->args[1];
    const Type *t = &update->type;
    const Ix *at[MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        const Node *start = update->args[2 + i];
        at[i] = ix_add(l->body->ix, idx[i], lower_start(l, start, t->dim[i] - part->type.dim[i]));
    }
    int buf = lower_buf(l, KA_NODE, n, t->dtype, type_count(t));
    l->body->bufs.at[buf].part = type_count(&part->type);
    lower_store(l, buf, ix_linear(l->body->ix, at, t->dim, t->rank), lower_value(l, part, idx, -1));
    l->body->commits = true;
    lower_error_buf(l);
}

static const Type *space_of(const Map *m, const Node *out)
{
    return m->updates ? &changed_by(out)->args[1]->type : lower_space(out);
}

// -- where to cut ---------------------------------------------------------------------------------

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Finds where e, which must depend on only one axis, reaches bound (or falls below it, if it is
// decreasing). false: it depends on several axes or is not monotonic.
static bool crossing(const Ix *e, int64_t bound, Cut *cut)
{
    if (e->n != 1) return false;
    const IxTerm *t = e->at[0].term;
    int64_t coeff = e->at[0].coeff, rest = bound - e->constant;
    int64_t first = coeff > 0 ? -floor_div(-rest, coeff) : floor_div(rest, coeff) + 1;
    if (t->kind == IT_DIV) return crossing(t->e, first * t->by, cut);
    *cut = (Cut){t->id, first};
    return t->kind == IT_AXIS;
}

void lower_cut(Lower *l, const Node *n, const Ix *const *idx, const Ix *e, int64_t bound)
{
    struct LowerCuts *c = l->cuts;
    Cut cut;
    if (!c || e->low >= bound || e->high < bound) return;
    if (crossing(e, bound, &cut) && cut.axis < l->body->npar)
        vec_push(l->ctx->arena, &c->at, cut);
    else if (ix_linear(l->body->ix, idx, n->type.dim, n->type.rank) == c->flat)
        c->like = n;
}

// -- a body ---------------------------------------------------------------------------------------

// Lowers pieces of the same size as one body. Its axes have the extents [walk], which are that size
// with some axes merged.
static Lower lower_pieces(const Map *m, const Piece *piece, int npieces, const int64_t *walk,
                          int nwalk, struct LowerCuts *cuts)
{
    Lower l = lower_begin(m->ctx, m->g, m->group);
    IxCtx *c = l.body->ix;
    const Ix *axis[MAX_RANK], *in[MAX_RANK], *at[MAX_RANK], *idx[MAX_RANK];
    for (int i = 0; i < nwalk; i++) axis[i] = ix_axis(c, lower_new_axis(&l, walk[i]), walk[i]);
    l.body->npar = nwalk;
    ix_delinear(c, ix_linear(c, axis, walk, nwalk), piece->size, m->rank, in);
    l.cuts = cuts;
    for (int p = 0; p < npieces; p++) {
        for (int i = 0; i < m->rank; i++) at[i] = ix_add(c, in[i], ix_const(c, piece[p].at[i]));
        const Ix *flat = ix_linear(c, at, m->dim, m->rank);
        if (cuts) cuts->flat = flat;
        for (int i = 0; i < m->n; i++) {
            const Type *t = space_of(m, m->outs[i]);
            ix_delinear(c, flat, t->dim, t->rank, idx);
            (m->updates ? lower_update : lower_out)(&l, m->outs[i], idx);
        }
    }
    l.cuts = NULL;
    for (uint32_t i = 0; i < m->beside.n; i++) {
        const Type *t = lower_space(m->beside.at[i]);
        ix_delinear(c, ix_linear(c, in, piece->size, m->rank), t->dim, t->rank, idx);
        lower_out(&l, m->beside.at[i], idx);
    }
    return l;
}

static bool mergeable(const Body *b, int hi, int lo)
{
    int64_t e = b->axis[lo].extent;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].ix && !ix_mergeable(b->insts.at[i].ix, hi, lo, e)) return false;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].ix && !ix_mergeable(b->stores.at[i].ix, hi, lo, e)) return false;
    return true;
}

// Whether a space whose rows cannot be read as vectors should be flattened to one axis, which can.
// It should if everything that depends on all of it is stored like the result, or in longer rows
// (their elements are then loaded one by one, but from lines that are read completely). Other
// operands (a bias, a factor per row) get their index by a division.
static bool flat_is_faster(const LowerCtx *ctx, const Body *b)
{
    const int64_t narrow = 4, large = 1 << 16;
    uint64_t all = (1ull << b->npar) - 1;
    if (ctx->target->kind != TARGET_CUDA || b->npar < 2 || body_rows(b) < large ||
        b->axis[b->npar - 1].extent % narrow == 0 || !b->stores.n || !b->stores.at[0].ix)
        return false;
    bool wide = false;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_REDUCE || (v->kind == KI_LOAD && (v->pred >= 0 || v->ix->has_value)))
            return false;
        int64_t step;
        bool runs = v->kind == KI_LOAD && v->ix->axes == all &&
                    ix_stride(v->ix, b->npar - 1, &step) && step == 1;
        if (v->kind == KI_LOAD && v->ix->axes == all && !runs) return false;
        wide |= runs;
    }
    return wide;
}

// If elements are repeated a few times, or distributed over a few indices: the length of a short
// axis that is split off the innermost one, and that the CPU writes out (codegen/c/few_c.c).
// Otherwise 0.
static int64_t short_period(const LowerCtx *ctx, const Body *b)
{
    const int inner = b->npar - 1;
    if (ctx->target->kind != TARGET_CPU || b->axis[inner].extent < FEW / 16) return 0;
    const int64_t period = body_period(b, body_live(ctx->arena, b), inner);
    return period > 1 && period <= BODY_FEW && b->axis[inner].extent % period == 0 ? period : 0;
}

// The divisor by which all loads' indices split an axis into two; 0: they do not, or differently.
static int64_t split_of(const Body *b, int axis)
{
    int64_t by = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Ix *ix = b->insts.at[i].kind == KI_LOAD ? b->insts.at[i].ix : NULL;
        for (int k = 0; ix && k < ix->n; k++) {
            const IxTerm *t = ix->at[k].term, *of = t;
            if (t->kind != IT_DIV && t->kind != IT_MOD) continue;
            if (t->e->n == 1 && !t->e->constant && t->e->at[0].coeff == 1) of = t->e->at[0].term;
            if (of->kind != IT_AXIS || of->id != axis) continue;
            if (by && by != t->by) return 0;
            by = t->by;
        }
    }
    return by && b->axis[axis].extent % by == 0 ? by : 0;
}

// On CUDA: the axes walk[0..n-1] with those that loads split in two as two axes each, if the loads
// are then interleaved (ir/interleaved.c). Returns their number; 0: they are not.
static int split_phases(const Map *m, const Body *b, const Piece *piece, int npieces,
                        const int64_t *walk, int n, int64_t *split)
{
    const int64_t large = 1 << 16;
    const int vector = 8; // the widest; the body is interleaved with narrower ones, too
    int count = 0;
    if (m->ctx->target->kind != TARGET_CUDA || body_rows(b) < large) return 0;
    for (int i = 0; i < n; i++) {
        const int64_t by = split_of(b, i);
        if (count + (by > 0) >= MAX_RANK) return 0;
        if (by) split[count++] = walk[i] / by;
        split[count++] = by ? by : walk[i];
    }
    if (count == n) return 0;
    Lower l = lower_pieces(m, piece, npieces, split, count, NULL);
    l.body->sched.vector = vector;
    const bool found = !l.failed && body_interleaved(l.body);
    l.body->sched.vector = 0;
    return found ? count : 0;
}

// l: the pieces, lowered over all axes of the space.
static bool finish_body(const Map *m, Lower l, const Piece *piece, int npieces, BodyList *out)
{
    int64_t merged[MAX_RANK];
    int n = 0;
    // Merges axes that all accesses traverse as one.
    for (int i = 0; i < m->rank; i++)
        if (i > 0 && mergeable(l.body, i - 1, i))
            merged[n - 1] *= piece->size[i];
        else
            merged[n++] = piece->size[i];
    if (n != m->rank) l = lower_pieces(m, piece, npieces, merged, n, NULL);
    int64_t split[MAX_RANK];
    const int nsplit = l.failed ? 0 : split_phases(m, l.body, piece, npieces, merged, n, split);
    if (nsplit) l = lower_pieces(m, piece, npieces, split, n = nsplit, NULL);
    if (!nsplit && flat_is_faster(m->ctx, l.body)) {
        for (int i = 1; i < n; i++) merged[0] *= merged[i];
        l = lower_pieces(m, piece, npieces, merged, 1, NULL);
    }
    if (l.failed) return lower_failed(&l, m->outs[0]);
    const int64_t period = short_period(m->ctx, l.body);
    if (period && n < MAX_RANK) {
        merged[n - 1] /= period;
        merged[n++] = period;
        l = lower_pieces(m, piece, npieces, merged, n, NULL);
        if (l.failed) return lower_failed(&l, m->outs[0]);
    }
    lower_finish(&l);
    vec_push(m->ctx->arena, out, l.body);
    return true;
}

// -- pieces ---------------------------------------------------------------------------------------

static void take_shape(Map *m, const Type *t)
{
    m->rank = 0;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] != 1) m->dim[m->rank++] = t->dim[i];
    if (m->rank == 0) m->dim[m->rank++] = 1;
}

static Piece whole(const Map *m)
{
    Piece all = {0};
    memcpy(all.size, m->dim, sizeof all.size);
    return all;
}

static int64_t elements(const Map *m, const Piece *p)
{
    int64_t n = 1;
    for (int i = 0; i < m->rank; i++) n *= p->size[i];
    return n;
}

// The first cut of the axis after [after], or the end of the piece.
static int64_t next_cut(const struct LowerCuts *c, int axis, int64_t after, int64_t end)
{
    for (uint32_t i = 0; i < c->at.n; i++)
        if (c->at.at[i].axis == axis && c->at.at[i].at > after && c->at.at[i].at < end)
            end = c->at.at[i].at;
    return end;
}

// Cuts the space until there is nothing to cut, or too many pieces. The last piece comes first.
static void find_pieces(Map *m)
{
    VEC(Piece) work = {0};
    vec_push(m->ctx->arena, &work, whole(m));
    while (work.n) {
        Piece p = work.at[--work.n];
        struct LowerCuts cuts = {0};
        if (elements(m, &p) >= FEW && m->pieces.n + work.n < MOST_PIECES)
            lower_pieces(m, &p, 1, p.size, m->rank, &cuts);
        if (!cuts.at.n) {
            vec_push(m->ctx->arena, &m->pieces, p);
            continue;
        }
        int axis = cuts.at.at[0].axis;
        for (int64_t at = 0, end = p.size[axis]; at < end;) {
            int64_t next = next_cut(&cuts, axis, at, end);
            Piece part = p;
            part.at[axis] += at;
            part.size[axis] = next - at;
            vec_push(m->ctx->arena, &work, part);
            at = next;
        }
    }
}

static bool has_shape(const Map *m, const Piece *p, const Type *t)
{
    int at = 0;
    for (int i = 0; i < m->rank; i++) {
        if (p->size[i] == 1) continue;
        while (at < t->rank && t->dim[at] == 1) at++;
        if (at == t->rank || t->dim[at++] != p->size[i]) return false;
    }
    while (at < t->rank && t->dim[at] == 1) at++;
    return at == t->rank;
}

// How many of n pieces of one size one body computes: as many as its threads have registers for.
// *l: these, lowered.
static uint32_t pieces_together(const Map *m, const Piece *piece, uint32_t n, Lower *l)
{
    for (;; n /= 2) {
        int bytes = 0;
        *l = lower_pieces(m, piece, (int)n, piece->size, m->rank, NULL);
        for (uint32_t i = 0; i < l->body->insts.n; i++) {
            const Inst *v = &l->body->insts.at[i];
            if (v->kind == KI_LOAD && v->axes >> (m->rank - 1) & 1)
                bytes += element_bytes(l->body, v->buf);
        }
        if (n == 1 || bytes <= MOST_LOADED || m->ctx->target->kind != TARGET_CUDA) return n;
    }
}

// Moves outs from [rest] to the map if they have the size of its pieces and one body can store all.
static void take_beside(Map *m, uint32_t most, NodeList *rest)
{
    for (uint32_t i = 1; i < m->pieces.n; i++)
        if (memcmp(m->pieces.at[i].size, m->pieces.at[0].size, sizeof m->pieces.at[0].size)) return;
    Lower l;
    const uint32_t n = m->pieces.n, stores = n * (uint32_t)m->n;
    if (n > most || pieces_together(m, m->pieces.at, n, &l) < n) return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rest->n; i++) {
        Node *x = rest->at[i];
        bool takes = stores + m->beside.n < most && !m->updates && !node_has(x, OPF_EFFECT) &&
                     has_shape(m, &m->pieces.at[0], lower_space(x));
        if (takes)
            vec_push(m->ctx->arena, &m->beside, x);
        else
            rest->at[kept++] = x;
    }
    rest->n = kept;
}

// Creates one or several bodies for each size of pieces.
static bool join_pieces(Map *m, NodeList *rest, BodyList *out)
{
    uint32_t most = m->ctx->target->kind == TARGET_CUDA ? MOST_STORES_CUDA : MOST_STORES_CPU;
    if (rest) take_beside(m, most, rest);
    bool *done = NEW_ARRAY(m->ctx->arena, bool, m->pieces.n + 1);
    for (uint32_t i = m->pieces.n; i-- > 0;) {
        VEC(Piece) alike = {0};
        VEC(uint32_t) number = {0};
        for (uint32_t k = i + 1; k-- > 0 && alike.n < most;) {
            const Piece *p = &m->pieces.at[k];
            if (done[k] || memcmp(p->size, m->pieces.at[i].size, sizeof p->size)) continue;
            vec_push(m->ctx->arena, &alike, *p);
            vec_push(m->ctx->arena, &number, k);
        }
        if (!alike.n) continue;
        Lower l;
        const uint32_t n = pieces_together(m, alike.at, alike.n, &l);
        for (uint32_t k = 0; k < n; k++) done[number.at[k]] = true;
        if (!finish_body(m, l, alike.at, (int)n, out)) return false;
        if (n < alike.n) i++; // the others of this size
    }
    return true;
}

bool lower_map(LowerCtx *ctx, Graph *g, const Group *group, Node *const *outs, int n,
               NodeList *rest, BodyList *out)
{
    Map m = {.ctx = ctx, .g = g, .group = group, .outs = outs, .n = n};
    m.updates = all_update(&m);
    take_shape(&m, space_of(&m, outs[0]));
    Piece all = whole(&m);
    struct LowerCuts cuts = {0};
    Lower l = lower_pieces(&m, &all, 1, all.size, m.rank, &cuts);
    if (elements(&m, &all) < FEW || l.failed || (!cuts.at.n && !cuts.like))
        return finish_body(&m, l, &all, 1, out);
    // Pieces are boxes in the shape of the concatenated or padded value, even behind reshapes.
    if (!cuts.at.n) take_shape(&m, &cuts.like->type);
    find_pieces(&m);
    return join_pieces(&m, rest, out);
}
