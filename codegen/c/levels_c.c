// Maps of costly functions of costly functions: for each level of them a loop over a few hundred
// elements, whose values are kept in arrays. In a single loop the functions of one element would
// wait for each other, and processors do not look far enough ahead to start the next element
// meanwhile. Rounding to 16-bit floats is also a level: whole arrays are rounded with the
// processor's conversions (nc_round_halves).
#include "codegen/c/print_c.h"

#include <string.h>

enum { MOST_ARRAYS = 16 };

// Whether a value is rounded to f16 and then used in computations. (A value that is only stored is
// rounded by the store.)
static bool is_rounded(const Emit *e, uint32_t i, int axis)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[i];
    if (!e->live[i] || v->kind != KI_CAST || v->type != DT_F16 || v->keep ||
        strcmp(type_math(v->from), "float") || !(v->axes >> axis & 1))
        return false;
    for (uint32_t k = i + 1; k < b->insts.n; k++)
        for (int j = 0; e->live[k] && j < b->insts.at[k].na; j++)
            if (b->insts.at[k].a[j] == (int)i) return true;
    return false;
}

// Whether a value is only used after rounding to f16. Then it is computed in the loop that rounds
// it.
static bool is_only_rounded(const Emit *e, uint32_t i, int axis)
{
    const Body *b = e->body;
    bool rounded = false;
    for (uint32_t k = i + 1; k < b->insts.n; k++)
        for (int j = 0; e->live[k] && j < b->insts.at[k].na; j++)
            if (b->insts.at[k].a[j] == (int)i) {
                if (!is_rounded(e, k, axis)) return false;
                rounded = true;
            }
    for (uint32_t k = 0; k < b->stores.n; k++) rounded &= b->stores.at[k].value != (int)i;
    return rounded;
}

static bool is_costly(const Inst *v, int axis)
{
    return v->kind == KI_EW && op_info(v->op)->flags & OPF_COSTLY && !v->text &&
           v->axes >> axis & 1 && (v->type == DT_F32 || v->type == DT_F64);
}

static int costly_functions(const Emit *e, int axis)
{
    int n = 0;
    for (uint32_t i = 0; i < e->body->insts.n; i++)
        n += e->live[i] && is_costly(&e->body->insts.at[i], axis);
    return n;
}

// Sets the level of each value: the number of costly functions along the longest chain that leads
// to it, over [axis]. Returns the number of loops.
static int find_levels(const Emit *e, int axis, int *level)
{
    const Body *b = e->body;
    int most = 1;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        level[i] = 0;
        for (int k = 0; k < v->na; k++)
            if (level[v->a[k]] > level[i]) level[i] = level[v->a[k]];
        const bool costly = is_costly(v, axis) && !is_only_rounded(e, i, axis);
        const bool rounded = is_rounded(e, i, axis);
        level[i] += costly || rounded;
        if (e->live[i] && level[i] + rounded > most) most = level[i] + rounded;
    }
    return most;
}

// Whether the value itself is the costly function (or rounding) of its level, not computed from
// one.
static bool reaches(const Emit *e, uint32_t i, const int *level)
{
    const Inst *v = &e->body->insts.at[i];
    int before = 0;
    for (int k = 0; k < v->na; k++)
        if (level[v->a[k]] > before) before = level[v->a[k]];
    return e->live[i] && level[i] > before;
}

// Whether they are random words that neighbours along the axis draw in sequence.
static bool is_drawn(const Emit *e, uint32_t i, int axis)
{
    const Inst *v = &e->body->insts.at[i];
    int64_t step;
    if (!e->live[i] || v->kind != KI_RANDOM || v->ix->has_value) return false;
    for (int k = 0; k < v->na; k++)
        if (e->body->insts.at[v->a[k]].axes >> axis & 1) return false;
    return ix_stride(v->ix, axis, &step) && step == 1;
}

// Draws the words from [first] to before [last], at most [size], into an array.
static void draw(Emit *e, uint32_t i, int axis, const char *first, const char *last, int64_t size)
{
    const Inst *v = &e->body->insts.at[i];
    const char *c = e->axis[axis], *seed = emit_value(e, v->a[0]), *count = emit_value(e, v->a[1]),
               *at = emit_index_at(e, v->ix, axis, first);
    emit(e, "uint32_t %s_drawn[%lld] NC_LINES;", e->name[i], (long long)size);
    emit(e, "nc_randoms_%d(%s_drawn, %s - %s, %s, %s, %s, (uint64_t)(%s), %d);", (int)v->ivalue,
         e->name[i], last, first, seed, count, e->buf_name[v->buf], at, v->lane);
    const char *place = strcmp(first, "0") ? emit_text(e, "%s - %s", c, first) : c;
    e->element[i] = emit_text(e, "%s_drawn[%s]", e->name[i], place);
}

void c_draw_row(Emit *e)
{
    enum { LONGEST = 8192, MOST = 2 }; // (arrays on the stack)
    const int axis = e->body->col;
    const int64_t cols = e->body->axis[axis].extent;
    int drawn = 0;
    for (uint32_t i = 0; i < e->body->insts.n && cols <= LONGEST; i++)
        if (drawn < MOST && is_drawn(e, i, axis)) {
            draw(e, i, axis, "0", emit_text(e, "%lld", (long long)cols), cols);
            drawn++;
        }
}

bool c_levels(Emit *e, int axis, const char *from, const char *to)
{
    const Body *b = e->body;
    int *level = NEW_ARRAY(e->arena, int, b->insts.n + 1), arrays = 0;
    int most = find_levels(e, axis, level), drawn = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        arrays += reaches(e, i, level) && level[i] < most;
        drawn += is_drawn(e, i, axis);
    }
    if ((most < 2 && !drawn) || arrays + drawn > MOST_ARRAYS || !c_plain_over(e, axis) ||
        c_period(e, axis, ROUND))
        return false;
    const char *c = e->axis[axis], *first = emit_text(e, "piece_%s", c),
               *last = emit_text(e, "piece_end_%s", c);
    e->few = !drawn && costly_functions(e, axis) < 2 && c_fits_few(e, axis, -1);
    const int size = e->few ? C_FEW : C_PIECE;
    emit_open(e, 0);
    Scope *piece = e->scope;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (is_drawn(e, i, axis)) draw(e, i, axis, first, last, C_PIECE);
    c_take_halves(e, axis, -1, first, last);
    for (int l = 1; l <= most; l++) {
        c_open_loop(e, axis, 0);
        for (uint32_t i = 0; i < b->insts.n; i++)
            if (reaches(e, i, level) && level[i] < l) {
                e->element[i] = emit_text(e, "%s_level[%s - %s]", e->name[i], c, first);
                e->converted[i] = true;
            }
        for (uint32_t i = 0; i < b->insts.n && l < most; i++) {
            if (!reaches(e, i, level) || level[i] != l) continue;
            emit_line(e, piece, "%s %s_level[%d] NC_LINES;", type_math(b->insts.at[i].type),
                      e->name[i], size);
            const int value = is_rounded(e, i, axis) ? b->insts.at[i].a[0] : (int)i;
            emit(e, "%s_level[%s - %s] = %s;", e->name[i], c, first, emit_value(e, value));
        }
        if (l == most) emit_stores(e, -1);
        c_close_loop(e, first, last, false, C_SIMD);
        for (uint32_t i = 0; i < b->insts.n && l < most; i++)
            if (level[i] == l && reaches(e, i, level) && is_rounded(e, i, axis))
                emit_line(e, piece, "nc_%sround_halves(%s_level, %s - %s);", e->few ? "few_" : "",
                          e->name[i], last, first);
    }
    c_give_halves(e, axis, first, last);
    c_close_piece(e, first, last, from, to);
    return true;
}
