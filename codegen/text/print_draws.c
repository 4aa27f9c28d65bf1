// Random words as text. Elements share blocks of Philox (ir/philox.h), so a thread computes a block
// once for the neighbours that it has: before the loop over the lanes of a vector; in attention,
// for a row of four tiles of scores, whose blocks the threads of a warp compute by turns and
// exchange.
#include "codegen/text/print.h"

#include <string.h>

// Whether elements that follow each other along the axis draw one after the other.
static bool follows(const Emit *e, const Inst *v, int axis)
{
    int64_t step;
    for (int k = 0; k < v->na; k++)
        if (e->body->insts.at[v->a[k]].axes >> axis & 1) return false;
    return !v->ix->has_value && ix_stride(v->ix, axis, &step) && step == 1;
}

static bool declares(const Scope *s, const char *name)
{
    for (uint32_t i = 0; i < s->declared.n; i++)
        if (!strcmp(s->declared.at[i].name, name)) return true;
    return false;
}

// Of scores, where rows or columns of the tile draw one after the other: half of a word.
static const char *of_scores(Emit *e, int at, const char *seed, const char *count)
{
    enum { EIGHT = 8 }; // draws of 16 bits in a block
    const int col = e->body->col, row = 1;
    const Inst *v = &e->body->insts.at[at];
    Scope *loop = e->near.tile;
    const char *words = arena_printf(e->arena, "%s_words", e->name[at]), *own = e->axis[row],
               *index;
    const bool along = follows(e, v, col), aligned = ix_aligned(v->ix, along ? col : row, EIGHT);
    if (!along) e->axis[row] = arena_printf(e->arena, "(%s / 8 * 8)", own);
    index = emit_index_at(e, v->ix, col,
                          along ? "(next + (j + lane % 4) * 8)"
                                : "(next + (j + lane / 8) * 8 + lane % 4 * 2 + lane / 4 % 2)");
    e->axis[row] = own;
    if (!declares(loop->up, words)) // (by an earlier loop over the tiles)
        emit_declare_in(e, loop->up, words, arena_printf(e->arena, "uint32_t %s[4];", words));
    emit_line(e, loop, "if (j %% 4 == 0) nc_draw_%s<%s>(%s, %s, %s, %s, %s);",
              along ? "row" : "column", aligned ? "true" : "false", words, seed, count,
              e->buf_name[v->buf], index);
    return arena_printf(e->arena, "nc_half(%s[j %% 4], v)", words);
}

const char *emit_draw(Emit *e, int at, const char *seed, const char *count)
{
    const Inst *v = &e->body->insts.at[at];
    const Neighbours *n = &e->near;
    const char *site = e->buf_name[v->buf];
    if (n->tile && v->ivalue == 16 && (follows(e, v, e->body->col) || follows(e, v, 1)))
        return of_scores(e, at, seed, count);
    if (n->scope && n->width > 1 && v->ivalue < 128 && follows(e, v, n->axis) &&
        ix_aligned(v->ix, n->axis, n->width)) {
        const char *all = arena_printf(e->arena, "%s_all", e->name[at]);
        if (!declares(n->scope->up, all)) // (by an earlier loop over the lanes)
            emit_declare_in(
                e, n->scope->up, all,
                emit_text(e, "const NcVec<uint32_t, %d> %s = nc_draws<%d>(%s, %s, %s, %s, %d, %d);",
                          n->width, all, n->width, seed, count, site,
                          emit_index_at(e, v->ix, n->axis, n->base), (int)v->ivalue, v->lane));
        return arena_printf(e->arena, "%s.at[%s]", all, n->lane);
    }
    return arena_printf(e->arena, "nc_random(%s, %s, %s, %s, %d, %d)", seed, count, site,
                        emit_index(e, v->ix), (int)v->ivalue, v->lane);
}
