// Loads of which at most one is needed: a sum over the columns of a concatenation along the rows
// reads, for each row, one operand of the concatenation. Which one depends on a position, an index
// along the rows.
#include "codegen/ir/rewrite.h"

typedef struct Range { // positions from begin to end; none if end <= begin
    int64_t begin, end;
} Range;

static Range both(Range a, Range b)
{
    return (Range){a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

static void include(Range *to, Range r)
{
    if (r.end <= r.begin) return;
    if (to->end <= to->begin) *to = r;
    if (r.begin < to->begin) to->begin = r.begin;
    if (r.end > to->end) to->end = r.end;
}

static Range positions_of(const Body *b, int position)
{
    const Ix *at = b->insts.at[position].ix;
    return (Range){at->low, at->high + 1};
}

// Where a condition holds. false: it does not depend on the position only.
static bool holds(const Body *b, int inst, int position, Range *r)
{
    const Inst *v = &b->insts.at[inst];
    const Range all = positions_of(b, position);
    if (v->kind != KI_EW || v->na != 2) return false;
    if (v->op == OP_and) {
        Range other;
        if (!holds(b, v->a[0], position, r) || !holds(b, v->a[1], position, &other)) return false;
        *r = both(*r, other);
        return true;
    }
    const Inst *bound = &b->insts.at[v->a[1]];
    if ((v->op != OP_lt && v->op != OP_ge) || v->a[0] != position || bound->kind != KI_CONST)
        return false;
    *r = both(all,
              v->op == OP_lt ? (Range){all.begin, bound->ivalue} : (Range){bound->ivalue, all.end});
    return true;
}

// The positions where each instruction's value is needed, or more.
static const Range *needed_at(Arena *a, const Body *b, int position)
{
    const Range all = positions_of(b, position);
    Range *needed = NEW_ARRAY(a, Range, b->insts.n + 1);
    uint64_t *anywhere = NEW_ARRAY(a, uint64_t, b->insts.n + 1);
    for (uint32_t i = 0; i < b->stores.n; i++) store_mark(&b->stores.at[i], 1, anywhere);
    for (uint32_t i = b->insts.n; i-- > 0;) { // backwards: operands precede their users
        const Inst *v = &b->insts.at[i];
        if (anywhere[i]) needed[i] = all;
        if (v->unless) anywhere[v->unless - 1] = 1;
        if (v->kind != KI_EW && v->kind != KI_CAST) {
            inst_mark(b, (int)i, 1, anywhere);
            continue;
        }
        Range yes = all, no = all, r;
        if (v->kind == KI_EW && v->op == OP_select && holds(b, v->a[0], position, &r)) {
            yes = r;
            if (r.begin == all.begin)
                no.begin = r.end;
            else if (r.end == all.end)
                no.end = r.begin;
        }
        for (int k = 0; k < v->na; k++) {
            const bool chosen = v->kind == KI_EW && v->op == OP_select && k > 0;
            include(&needed[v->a[k]], chosen ? both(needed[i], k == 1 ? yes : no) : needed[i]);
        }
    }
    return needed;
}

// Whether the load's predicate holds wherever its value is needed.
static bool qualifies(const Body *b, const Inst *v, int position, Range needed)
{
    int64_t step;
    Range r;
    return v->kind == KI_LOAD && !v->choice && v->pred >= 0 && !v->ix->has_value && v->stage == 0 &&
           b->bufs.at[v->buf].kind == KA_NODE && v->axes >> b->col & 1 && v->axes & 1 &&
           ix_stride(v->ix, b->col, &step) && needed.begin < needed.end &&
           holds(b, v->pred, position, &r) && r.begin <= needed.begin && needed.end <= r.end;
}

// Whether the load at [first] and those with it have the type of load v, and are needed elsewhere.
static bool is_apart(const Body *b, const Inst *v, int position, uint32_t first, Range needed)
{
    const Inst *f = &b->insts.at[first];
    if (f->position != position || b->bufs.at[f->buf].type != b->bufs.at[v->buf].type) return false;
    for (uint32_t i = first; i < b->insts.n; i++) {
        const Inst *x = &b->insts.at[i];
        const Range common = both(needed, (Range){x->needed_from, x->needed_to});
        if (x->choice == (int)first + 1 && common.begin < common.end) return false;
    }
    return true;
}

static void mark_choices(Arena *a, Body *b, int position)
{
    const Range *needed = needed_at(a, b, position);
    const bool *live = body_live(a, b);
    for (uint32_t i = 0; i < b->insts.n; i++) {
        Inst *v = &b->insts.at[i];
        if (!live[i] || !qualifies(b, v, position, needed[i])) continue;
        uint32_t first = 0;
        while (first < i && (b->insts.at[first].choice != (int)first + 1 ||
                             !is_apart(b, v, position, first, needed[i])))
            first++;
        v->choice = (int)first + 1;
        v->position = position;
        v->needed_from = needed[i].begin;
        v->needed_to = needed[i].end;
    }
}

void body_mark_choices(Arena *a, Body *b)
{
    if (b->npar != 1 || b->col < 0 || b->dot.sum >= 0 || b->attention.nouts || b->bins.held) return;
    for (int i = 0; i < (int)b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_INDEX && v->axes == 1 && !v->ix->has_value) mark_choices(a, b, i);
    }
}

// Whether each aligned run of [width] rows needs the load completely or not at all, and a whole
// vector can be loaded for it.
static bool needed_in_runs(const Body *b, const Inst *load, int width)
{
    int64_t step;
    bool aligned;
    const int bytes = element_bytes(b, load->buf);
    if (width * bytes > 32 ||
        (width > 1 && (!ix_vectors(load->ix, 0, width) || !buf_begins(b, load->buf, width))))
        return false;
    return width == 1 || (load->needed_from % width == 0 && load->needed_to % width == 0 &&
                          ix_run(b->insts.at[load->position].ix, 0, width, &step, &aligned) &&
                          step == 1 && aligned);
}

int inst_choice(const Body *b, int load, int width)
{
    const Inst *v = &b->insts.at[load];
    if (!v->choice || !needed_in_runs(b, v, width)) return load;
    for (int i = v->choice - 1; i < load; i++)
        if (b->insts.at[i].choice == v->choice && needed_in_runs(b, &b->insts.at[i], width))
            return i;
    return load;
}
