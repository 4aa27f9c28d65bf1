// The weights of attention from its scores, as CUDA C: element by element, in registers.
//
// The code is printed twice: for a warp's tile that is completely within the mask, elements need
// not be tested.
#include "codegen/cuda/attention_print.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LOG2E 1.44269504

typedef struct Weights {
    AttentionPrint *w;
    Vectors v;   // loads of two neighbouring columns at once
    bool masks;  // the tile may extend beyond the last column
    bool inside; // all conditions on positions are true
    bool exact;  // masked scores may contribute
} Weights;

// The element of the thread's row i, and of column v (0 or 1) of its pair of columns j.
static const char *sum_at(Emit *e, const char *name)
{
    return emit_text(e, "%s[i / 2][j][i %% 2 * 2 + v]", name);
}

// -- masks of positions ---------------------------------------------------------------------------

// The expression text + by * name.
static const char *plus(Emit *e, const char *text, int64_t by, const char *name)
{
    if (!by) return text;
    const char *sign = by < 0 ? (*text ? " - " : "-") : *text ? " + " : "";
    long long size = by < 0 ? -by : by;
    if (size == 1) return emit_text(e, "%s%s%s", text, sign, name);
    return emit_text(e, "%s%s%lld * %s", text, sign, size, name);
}

const char *attention_shifted(AttentionPrint *w, const char *text, int64_t by, int bound)
{
    const AttentionBound *x = &w->range.at[bound];
    if (x->shift < 0 && !x->batch) return text;
    if (!strcmp(text, "0")) text = "";
    if (x->shift >= 0)
        text = plus(w->e, text, by * x->sign, emit_text(w->e, "shift_%d", x->first_shift));
    if (x->batch)
        text = plus(w->e, text, by * x->side, emit_text(w->e, "of_batch_%d", x->first_batch));
    return text;
}

const char *attention_within(AttentionPrint *w, bool all)
{
    Emit *e = w->e;
    const char *text = "";
    for (int i = 0; i < w->range.n; i++) {
        const AttentionBound *x = &w->range.at[i];
        // The bound is strictest at one corner of the tile, weakest at the opposite one.
        int64_t least = x->constant;
        if ((x->row > 0) != all) least += x->row * (w->p->side_m - 1);
        if ((x->col > 0) != all) least += x->col * (w->p->side_n - 1);
        const char *sum = plus(e, plus(e, "", x->col, "next"), x->row, "top");
        sum = attention_shifted(w, sum, 1, i);
        text = emit_and(e, text, emit_text(e, "%s >= %lld", sum, -(long long)least));
    }
    return text;
}

// -- loops over a thread's scores -----------------------------------------------------------------

// Whether the conditions on positions are tested as limits of a row's columns.
static bool limits(const Weights *x)
{
    return x->w->groups && !x->inside;
}

static void open_rows(const Weights *x)
{
    Emit *e = x->w->e;
    int64_t rows = e->body->axis[1].extent;
    const char *row = "own_rows + i / 2 * 16 + i % 2 * 8", *row_name = e->axis[1];
    emit_open(e, 1ull << 1);
    emit_int(e, e->axis[1], "%s",
             emit_clamped(e, row, rows - 1, rows % e->body->sched.tile.m == 0));
    for (int i = 0; i < x->w->range.n && x->inside; i++)
        emit_bind(e, x->w->range.at[i].inst, e->scope, x->w->range.at[i].holds ? "true" : "false");
    for (int i = 0; i < x->w->range.n && limits(x); i++) {
        const AttentionBound *r = &x->w->range.at[i];
        const char *bound = plus(e, "", -r->col * r->row, row_name);
        bound = plus(e, bound, -r->col * r->constant, "1");
        bound = attention_shifted(x->w, bound, -r->col, i);
        emit(e, "const int limit_%d = %s - next - lane %% 4 * 2;", i, bound);
    }
}

// Binds the conditions on positions to comparisons of a column in the tile with the row's limits.
static void bind_limits(const Weights *x)
{
    Emit *e = x->w->e;
    for (int i = 0; i < x->w->range.n && limits(x); i++) {
        const AttentionBound *r = &x->w->range.at[i];
        const char *text =
            emit_text(e, "(j * 8 + v %s limit_%d)",
                      r->holds ? (r->col < 0 ? "<=" : ">=") : (r->col < 0 ? ">" : "<"), i);
        emit_bind(e, r->inst, e->scope, text);
    }
}

enum { PART = 4 }; // a part of a tile, which a warp may skip: this many groups of 8 columns

// Whether a warp tests which parts of the tile are masked for all of its rows; their weights are 0.
static bool in_parts(const Weights *x)
{
    return x->w->edge && limits(x) && !x->exact && x->w->range.n && x->w->cols / 2 % PART == 0;
}

static void print_seen(const Weights *x)
{
    Emit *e = x->w->e;
    for (int i = 0; i < x->w->range.n && in_parts(x); i++) {
        const AttentionBound *r = &x->w->range.at[i];
        // The weakest limit of the columns among the warp's rows.
        int64_t most = r->constant + (r->row > 0 ? r->row * (x->w->p->side_m - 1) : 0);
        const char *sum = plus(e, "", -r->col * r->row, "top");
        sum = attention_shifted(x->w, plus(e, sum, -r->col * most, "1"), -r->col, i);
        emit(e, "const int seen_%d = %s - next;", i, *sum ? sum : "0");
    }
}

// The condition that a part is masked for all rows of the warp.
static const char *hidden_part(const Weights *x)
{
    Emit *e = x->w->e;
    const char *text = "";
    for (int i = 0; i < x->w->range.n; i++) {
        const char *end = x->w->range.at[i].col < 0 ? " >" : emit_text(e, " + %d <", PART * 8 - 1);
        text =
            emit_text(e, "%s%spiece * %d%s seen_%d", text, *text ? " || " : "", PART * 8, end, i);
    }
    return text;
}

static void close_rows(const Weights *x)
{
    Emit *e = x->w->e;
    emit_times(e, "i", x->w->rows);
}

// Whether groups issue a load, which varies over the columns only, before they test whether the
// mask cuts the tile: so it is in flight during the products.
static bool is_early(const AttentionPrint *w, int load)
{
    return w->groups && w->e->body->attention.high < 0 &&
           !(w->e->body->insts.at[load].axes >> 1 & 1);
}

static const char *weights_name(const AttentionPrint *w, int k)
{
    return w->p->tile[w->p->out[k].weights].name;
}

static void open_part(const Weights *x, bool weighs)
{
    Emit *e = x->w->e;
    emit_open(e, 0);
    emit(e, "if (%s) {", hidden_part(x));
    for (int k = 0; k < e->body->attention.nouts && weighs; k++) {
        emit(e, "    #pragma unroll");
        emit(e, "    for (int j = 0; j < %d; j++)", PART * 2);
        emit(e, "        %s[i / 2][piece * %d + j / 2][i %% 2 * 2 + j %% 2] = 0;",
             weights_name(x->w, k), PART);
    }
    emit(e, "    continue;");
    emit(e, "}");
}

// Opens the loops over columns. Beyond the last column, indices are clamped to it.
static void open_cols(Weights *x, bool loads, bool weighs)
{
    Emit *e = x->w->e;
    const Body *b = e->body;
    const char *col = e->axis[b->col], *first = emit_text(e, "%s_first", col);
    int64_t extent = b->axis[b->col].extent;
    const char *place = "next + j * 8 + lane % 4 * 2";
    bool pairs = loads && extent % 2 == 0;
    if (in_parts(x)) open_part(x, weighs);
    emit_open(e, 1ull << b->col);
    emit_declare(e, "place_of", "const int place_of = %s;", place);
    if (pairs) {
        emit_int(e, first, "%s", emit_clamped(e, "place_of", extent - 2, !x->masks));
        x->v.base = first;
        for (int i = 0; i < x->v.nloads; i++) {
            const int load = x->v.loads[i];
            bool there = is_early(x->w, load);
            if (!there) print_slot(e, &x->v, load);
            e->element[load] = emit_text(e, "%s%s.at[v]", slot_name(e, load), there ? "[j]" : "");
        }
    }
    emit_open(e, 1ull << b->col);
    const char *own = emit_text(e, "%s + v", pairs ? first : "place_of");
    emit_int(e, col, "%s", emit_clamped(e, own, extent - 1, pairs || !x->masks));
    e->near = (Neighbours){.scope = e->scope,
                           .axis = b->col,
                           .width = pairs ? 2 : 1,
                           .base = first,
                           .lane = "v",
                           .tile = e->scope->up};
    bind_limits(x);
}

static void close_cols(Weights *x)
{
    Emit *e = x->w->e;
    for (int i = 0; i < x->v.nloads; i++) e->element[x->v.loads[i]] = NULL;
    e->near = (Neighbours){0};
    emit_times(e, "v", 2);
    emit_line(e, e->scope->up, "#pragma unroll");
    if (!in_parts(x)) {
        emit_end(e, "for (int j = 0; j < %d; j++) {", x->w->cols / 2);
        return;
    }
    emit_end(e, "for (int j = piece * %d; j < piece * %d + %d; j++) {", PART, PART, PART);
    emit_times(e, "piece", x->w->cols / 2 / PART);
}

static const char *masked(const Weights *x, const char *value, const char *otherwise)
{
    const Body *b = x->w->e->body;
    if (!x->masks) return value;
    return emit_text(x->w->e, "place_of + v < %lld ? %s : %s", extent_of(b, b->col), value,
                     otherwise);
}

static const char *score_name(const AttentionPrint *w, int k)
{
    return w->p->tile[w->p->score[k].tile].name;
}

static void bind_scores(const Weights *x)
{
    Emit *e = x->w->e;
    for (int i = 0; i < e->body->attention.nscores; i++)
        emit_bind(e, e->body->attention.score[i].sum, e->scope, sum_at(e, score_name(x->w, i)));
}

// The instruction of a weight before it is rounded to the type of the product's operands.
static int unrounded(const Body *b, int inst, DType type)
{
    const Inst *v = &b->insts.at[inst];
    while (v->kind == KI_CAST && (v->type == type || v->from == type)) {
        inst = v->a[0];
        v = &b->insts.at[inst];
    }
    return inst;
}

// The value of a condition if all conditions on positions hold: 1 true, 0 false, -1 unknown.
static int known(const AttentionPrint *w, int inst)
{
    const Inst *v = &w->e->body->insts.at[inst];
    for (int i = 0; i < w->range.n; i++)
        if (w->range.at[i].inst == inst) return w->range.at[i].holds;
    if (v->kind != KI_EW || (v->op != OP_and && v->op != OP_or && v->op != OP_not)) return -1;
    int x = known(w, v->a[0]);
    if (v->op == OP_not) return x < 0 ? -1 : !x;
    int y = known(w, v->a[1]), ends = v->op == OP_or;
    return x == ends || y == ends ? ends : x < 0 || y < 0 ? -1 : !ends;
}

// Whether the value is a constant no greater than the mask: a score with it has weight 0.
static bool hides(const Weights *x, int inst)
{
    const Inst *v = &x->w->e->body->insts.at[inst];
    return v->kind == KI_CONST && dtype_is_float(v->type) && v->fvalue <= x->w->range.mask;
}

// If the value, where it is not masked, is the first score times a positive constant: that
// constant; otherwise 0. (Groups also handle values that are masked: seen_score.)
static double multiple_of_score(const Weights *x, int inst)
{
    Emit *e = x->w->e;
    const Body *b = e->body;
    const Inst *v = &b->insts.at[inst];
    if (x->exact || (!x->inside && !x->w->groups)) return 0;
    while (v->kind == KI_EW && v->op == OP_select) {
        int holds = known(x->w, v->a[0]);
        if (holds < 0) return 0;
        if (!x->inside && !hides(x, v->a[1 + holds])) return 0;
        inst = v->a[2 - holds];
        v = &b->insts.at[inst];
    }
    const int score = b->attention.score[0].sum;
    double times = inst == score ? 1 : 0;
    for (int k = 0; k < 2 && v->kind == KI_EW && v->op == OP_mul; k++) {
        const Inst *c = &b->insts.at[v->a[k]];
        if (v->a[1 - k] == score && c->kind == KI_CONST && c->fvalue > 0) times = c->fvalue;
    }
    const Inst *over = v->kind == KI_EW && v->op == OP_div ? &b->insts.at[v->a[1]] : NULL;
    if (over && v->a[0] == score && over->kind == KI_CONST && over->fvalue > 0)
        times = 1 / over->fvalue;
    return times;
}

// The score, or minus infinity where the value is masked. If the mask is a finite number, groups
// check at the end whether that makes a difference.
static const char *seen_score(const Weights *x, int inst)
{
    Emit *e = x->w->e;
    const char *text = sum_at(e, score_name(x->w, 0));
    const Inst *v = &e->body->insts.at[inst];
    for (; v->kind == KI_EW && v->op == OP_select && !x->inside;) {
        int holds = known(x->w, v->a[0]);
        const char *seen = emit_value(e, v->a[0]);
        text = emit_text(e, holds ? "(%s ? %s : -NC_INF)" : "(%s ? -NC_INF : %s)", seen, text);
        v = &e->body->insts.at[v->a[2 - holds]];
    }
    return text;
}

static const char *constant(Emit *e, double v)
{
    return emit_literal(e, DT_F32, 0, v);
}

// -- forward --------------------------------------------------------------------------------------

// Updates the row's maximum, and computes the factor by which its sums so far shrink.
static void print_high(Weights *x, double times)
{
    Emit *e = x->w->e;
    const Body *b = e->body;
    const int high = b->attention.high, score = b->insts.at[high].a[0];
    const char *at = sum_at(e, score_name(x->w, 0));
    emit(e, "float most = -NC_INF;");
    open_cols(x, !times, false);
    if (!times) bind_scores(x);
    if (!times || !x->inside) {
        const char *value = times ? seen_score(x, score) : emit_value(e, score);
        emit(e, "%s = %s;", at, masked(x, value, "-NC_INF"));
    }
    emit(e, "most = fmaxf(most, %s);", at);
    close_cols(x);
    const char *of_row = times && times != 1
                             ? emit_text(e, "nc_row_max(most) * %s", constant(e, times))
                             : "nc_row_max(most)";
    emit(e, "most = fmaxf(high[i], %s);", of_row);
    emit(e, "// (a row without a score yet has none to be below)");
    emit(e, "const float base = most == -NC_INF ? 0.0f : most;");
    const char *word = b->insts.at[b->attention.exp].approx ? "nc_exp_16" : "nc_exp";
    emit(e, "%s = %s(high[i] - base);", x->w->groups ? "shrink[i]" : "const float shrink", word);
    emit(e, "high[i] = most;");
}

// Whether the value is the row's maximum, or the maximum of that and a number below all others.
// ("base" likewise stands for the maximum when all scores are minus infinity.)
static bool is_highest(const Body *b, int inst)
{
    const Inst *v = &b->insts.at[inst];
    if (v->kind != KI_EW || v->op != OP_maximum) return inst == b->attention.high;
    const Inst *least = &b->insts.at[v->a[1]];
    return v->a[0] == b->attention.high && least->kind == KI_CONST && least->fvalue <= -FLT_MAX;
}

// Exponentials are relative to the row's maximum so far; whenever it grows, the row's sum and
// results so far are scaled down (the online softmax of Milakov and Gimelshein, 2018).
static void print_online(Weights *x)
{
    AttentionPrint *w = x->w;
    Emit *e = w->e;
    const Body *b = e->body;
    const int high = b->attention.high, below = b->attention.exp, score = b->insts.at[high].a[0];
    const Inst *exp = &b->insts.at[below], *sub = &b->insts.at[exp->a[0]];
    const char *at = sum_at(e, score_name(w, 0));
    bool plain = exp->approx && sub->kind == KI_EW && sub->op == OP_sub && sub->a[0] == score &&
                 is_highest(b, sub->a[1]);
    double times = plain ? multiple_of_score(x, score) : 0;
    print_seen(x);
    open_rows(x);
    print_high(x, times);
    if (plain && !x->exact) emit(e, "const float shift = base * -%sf;", "1.44269504");
    emit(e, "float more = 0;");
    emit_bind(e, high, e->scope, "base");
    open_cols(x, true, true);
    emit_bind(e, score, e->scope, at);
    if (plain) {
        const char *scale = constant(e, LOG2E * (times ? times : 1));
        emit(e, "const float part = nc_exp2_16(%s);",
             x->exact ? emit_text(e, "(%s - base) * %s", at, scale)
                      : emit_text(e, "nc_fma(%s, %s, shift)", at, scale));
        emit_bind(e, below, e->scope, "part");
    }
    const char *part = emit_value(e, below);
    const char *weight = emit_value(e, unrounded(b, b->attention.out[0].weight, w->p->type));
    emit(e, "more += %s;", part);
    emit(e, "%s = %s;", sum_at(e, weights_name(w, 0)), weight);
    close_cols(x);
    emit(e, "total[i] = total[i] * shrink%s + more;", w->groups ? "[i]" : "");
    const TileProgram *p = w->p;
    if (w->groups) { // the results' products may be pending: T_SHRINK scales them later
        close_rows(x);
        return;
    }
    int places = p->tile[p->out[0].values].line / p->atom->n;
    const char *result = p->tile[p->out[0].tile].name;
    emit(e, "#pragma unroll");
    emit(e, "for (int j = 0; j < %d; j++)", places * 2);
    emit(e, "    %s[i / 2][j / 2][i %% 2 * 2 + j %% 2] *= shrink;", result);
    close_rows(x);
}

// -- backward -------------------------------------------------------------------------------------

// Computes approximate exponentials exp(x - y) with one fma and a power of 2.
static void bind_exponentials(const Weights *x)
{
    Emit *e = x->w->e;
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (!e->live[i] || v->kind != KI_EW || v->op != OP_exp || !v->approx ||
            !(v->axes >> b->col & 1))
            continue;
        const Inst *sub = &b->insts.at[v->a[0]];
        if (sub->kind != KI_EW || sub->op != OP_sub) continue;
        double times = multiple_of_score(x, sub->a[0]);
        const char *from = times ? seen_score(x, sub->a[0]) : emit_value(e, sub->a[0]);
        const char *y = emit_value(e, sub->a[1]), *name = emit_text(e, "part_%u", i);
        const char *scale = constant(e, LOG2E * (times ? times : 1));
        emit(e, "const float %s = nc_exp2_16(%s);", name,
             x->exact ? emit_text(e, "(%s - %s) * %s", from, y, scale)
                      : emit_text(e, "nc_fma(%s, %s, %s * -1.44269504f)", from, scale, y));
        emit_bind(e, (int)i, e->scope, name);
    }
}

static void print_each(Weights *x)
{
    AttentionPrint *w = x->w;
    Emit *e = w->e;
    const Body *b = e->body;
    print_seen(x);
    open_rows(x);
    open_cols(x, true, true);
    bind_scores(x);
    bind_exponentials(x);
    for (int k = 0; k < b->attention.nouts; k++) {
        const char *value = emit_value(e, unrounded(b, b->attention.out[k].weight, w->p->type));
        emit(e, "%s = %s;", sum_at(e, weights_name(w, k)), masked(x, value, "0.0f"));
    }
    close_cols(x);
    close_rows(x);
}

// The loads of two neighbouring columns.
static Vectors find_loads(const AttentionPrint *w)
{
    const Body *b = w->e->body;
    Vectors v = {0};
    int kept = 0;
    if (b->axis[b->col].extent % 2 == 0) v = find_vectors(w->e, b->col, 2);
    for (int i = 0; i < v.nloads; i++)
        if (is_plain(w->e, v.loads[i])) v.loads[kept++] = v.loads[i];
    v.nloads = kept;
    return v;
}

static void print_early(AttentionPrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const char *col = e->axis[b->col], *place = "next + j * 8 + lane % 4 * 2";
    const Vectors v = find_loads(w);
    for (int i = 0; i < v.nloads; i++) {
        const int load = v.loads[i];
        if (!is_early(w, load)) continue;
        emit(e, "%s %s[%d];", slot_type(e, &v, load), slot_name(e, load), w->cols / 2);
        emit_open(e, 1ull << b->col);
        e->axis[b->col] = w->masks ? emit_clamped(e, place, extent_of(b, b->col) - 2, false)
                                   : emit_text(e, "(%s)", place);
        print_vector_load(e, &v, load, emit_text(e, "%s[j]", slot_name(e, load)));
        e->axis[b->col] = col;
        emit_times(e, "j", w->cols / 2);
    }
}

static void print_one(AttentionPrint *w, bool inside, bool exact)
{
    Weights x = {.w = w, .masks = w->masks && !inside, .inside = inside, .exact = exact};
    x.v = find_loads(w);
    (w->e->body->attention.high >= 0 ? print_online : print_each)(&x);
}

void attention_weights(AttentionPrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    for (int k = 0; k < b->attention.nouts; k++)
        emit(e, "float %s[%d][%d][4];", weights_name(w, k), w->rows / 2, w->cols / 2);
    print_early(w);
    if (!w->range.n && !w->masks) {
        print_one(w, true, false);
        return;
    }
    const bool whole = w->whole == WHOLE_SOME;
    if (w->whole == WHOLE_ALL) {
        print_one(w, false, true);
        return;
    }
    if (whole) {
        emit_open(e, 0);
        print_one(w, false, true);
        emit_close(e, "if (blind) { // what is hidden counts, too", w->edge ? "} else {" : NULL);
    }
    const char *within = attention_within(w, true);
    if (w->masks)
        within = emit_and(e, within,
                          emit_text(e, "next + %d <= %lld", b->sched.tile.k, extent_of(b, b->col)));
    if (w->edge) {
        if (whole) emit_open(e, 0);
        print_one(w, false, false);
        if (whole) emit_close(e, NULL, "}");
        return;
    }
    emit_open(e, 0);
    print_one(w, true, false);
    emit_close(e, emit_text(e, "%sif (%s) { // all of it counts", whole ? "} else " : "", within),
               "} else {");
    emit_open(e, 0);
    print_one(w, false, false);
    emit_close(e, NULL, "}");
}
