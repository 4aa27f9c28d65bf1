// Tile programs of attention as CUDA C, with the functions of prelude/cuda_attention.h.
#include "codegen/cuda/attention_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// -- places ---------------------------------------------------------------------------------------

bool attention_down(const AttentionPrint *w)
{
    const Body *b = w->e->body;
    int64_t last = (b->axis[1].extent - 1) / b->sched.tile.m * b->sched.tile.m;
    return attention_columns_at(b, &w->range, 0) <= attention_columns_at(b, &w->range, last);
}

static void print_places(AttentionPrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    long long tiles = ceil_div(b->axis[1].extent, s->tile.m);
    emit(e, "const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;");
    emit_int(e, e->axis[0], "%s", emit_part(e, "block", tiles, 0, 1));
    // Tiles with the most columns start first.
    if (!attention_down(w) || tiles == 1)
        emit(e, "const int origin = %s;", emit_part(e, "block", 1, tiles, s->tile.m));
    else
        emit(e, "const int origin = (%lld - block %% %lld) * %d;", tiles - 1, tiles, s->tile.m);
    emit_declare(e, "top", "const int top = origin + warp * %d;", w->p->side_m);
    emit_declare(e, "own_rows", "const int own_rows = top + lane / 4;");
    const char *type = type_storage(w->p->type);
    for (int i = 0; i < w->p->ntiles; i++) {
        const Tile *t = &w->p->tile[i];
        if (!tile_shared(t)) continue;
        const int offset = t->offset / (int)(dtype_info[t->type].bits / 8);
        emit(e, "%s *const %s = %s;", type, t->name,
             emit_plus(e, emit_text(e, "(%s *)nc_shared", type), emit_number(e, offset)));
    }
}

// The text of k * (origin + row) + n.
static const char *at_row(Emit *e, int64_t k, int64_t row, int64_t n)
{
    n += k * row;
    const char *x = k == 0 ? "" : k == 1 ? "origin" : emit_text(e, "%lld * origin", (long long)k);
    if (!*x) return emit_number(e, n);
    return n ? emit_text(e, "%s %c %lld", x, n < 0 ? '-' : '+', (long long)llabs(n)) : x;
}

// A bound: relative to scores above it, exp of a masked score is 0 (e^-104 < 2^-150 rounds to 0).
static const char *lowest(AttentionPrint *w)
{
    double above = fabs(w->range.mask) * 0x1p-22; // for the rounding of the sum
    return emit_literal(w->e, DT_F32, 0, w->range.mask + above + 104);
}

static int queries_of(const AttentionPrint *w)
{
    const Body *b = w->e->body;
    return b->insts.at[w->range.statistic].axes >> b->col & 1 ? b->col : 1;
}

// Sets "low" if scores are not above the mask, by the statistics of rows, or of columns, in memory.
static void print_low(AttentionPrint *w, const char *thread, int threads)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const int axis = queries_of(w);
    long long extent = extent_of(b, axis);
    const char *at = e->axis[axis];
    emit_open(e, 1ull << axis);
    if (axis == 1)
        emit_int(e, at, "nc_min(origin + u, %lld)", extent - 1);
    else
        emit_int(e, at, "u");
    emit(e, "low |= %s!(%s > %s);", w->whole == WHOLE_SOME ? "!blind && " : "",
         emit_value(e, w->range.statistic), lowest(w));
    emit_loop(e, "int", "u", thread, emit_number(e, axis == 1 ? b->sched.tile.m : extent), threads);
}

static void print_lows(AttentionPrint *w)
{
    Emit *e = w->e;
    emit_each(e, "i", w->rows, "low |= %s!(high[i] > %s);",
              w->whole == WHOLE_SOME ? "!blind && " : "", lowest(w));
}

void attention_judge(AttentionPrint *w)
{
    if (w->whole == WHOLE_ALL) return;
    if (w->e->body->attention.high >= 0)
        print_lows(w);
    else
        print_low(w, "lane", 32);
}

// Uses all columns if the mask is not below all scores.
static void print_doubt(AttentionPrint *w)
{
    Emit *e = w->e;
    emit(e, "bool low = false;");
    print_low(w, "threadIdx.x", e->body->sched.threads);
    emit(e, "const bool all = __syncthreads_or(low);");
    emit(e, "if (all) { // the mask is not below all scores");
    emit(e, "    first = 0;");
    emit(e, "    steps = %lld;", (long long)w->p->steps);
    emit(e, "}");
}

// A query whose keys are all masked by a number attends to all of them.
AttentionWhole attention_blind(const AttentionPrint *w)
{
    if (isinf(w->range.mask) || !w->range.blind_end) return WHOLE_NEVER;
    return queries_of(w) == 1 ? WHOLE_SOME : WHOLE_ALL;
}

void attention_whole(AttentionPrint *w)
{
    const AttentionRange *r = &w->range;
    if (w->whole == WHOLE_SOME)
        emit(w->e, "const bool blind = origin >= %lld && origin < %lld;",
             (long long)r->blind - w->e->body->sched.tile.m + 1, (long long)r->blind_end);
}

// Declares the terms known only at run time. They are clamped to [-far, far], beyond all rows and
// columns, so that sums do not overflow.
static void print_shifts(AttentionPrint *w)
{
    const int far = 1 << 25;
    for (int i = 0; i < w->range.n; i++) {
        const AttentionBound *x = &w->range.at[i];
        if (x->batch && x->first_batch == i)
            emit(w->e, "const int of_batch_%d = (int)(%s);", i, emit_index(w->e, x->batch));
        if (x->shift < 0 || x->first_shift < i) continue;
        const char *type = w->e->body->insts.at[x->shift].type == DT_I64 ? "ll" : "";
        emit(w->e, "const int shift_%d = (int)nc_max(nc_min(%s, %d%s), -%d%s);", i,
             emit_value(w->e, x->shift), far, type, far, type);
    }
}

// With groups there is at least one step.
void attention_columns(AttentionPrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const AttentionRange r = w->range;
    long long cols = extent_of(b, b->col), last = s->tile.m - 1;
    const char *from = "0", *to = emit_number(e, cols);
    print_shifts(w);
    for (int i = 0; i < r.n; i++) {
        const AttentionBound *x = &r.at[i];
        // The bound is weakest at the tile's first row, or at its last.
        int64_t row = x->row > 0 ? last : 0;
        if (x->col > 0)
            from = emit_text(e, "nc_max(%s, %s)", from,
                             attention_shifted(w, at_row(e, -x->row, row, -x->constant), -1, i));
        else
            to = emit_text(e, "nc_min(%s, %s)", to,
                           attention_shifted(w, at_row(e, x->row, row, x->constant + 1), 1, i));
    }
    if (!r.n || w->whole == WHOLE_ALL) {
        emit(e, "const int first = 0, steps = %lld;", (long long)w->p->steps);
        return;
    }
    emit(e, "// Columns that the mask leaves to some of the rows.");
    const char *fixed = isinf(r.mask) ? "const " : "";
    emit(e, "const int end = %s;", to);
    if (w->groups) {
        const bool some = w->whole == WHOLE_SOME;
        attention_whole(w);
        emit(e, "const int first = %snc_min(%s, %lld) / %d * %d;", some ? "blind ? 0 : " : "", from,
             cols - 1, s->tile.k, s->tile.k);
        emit(e, "const int steps = %snc_max(end - first + %d, %d) / %d;",
             some ? emit_text(e, "blind ? %lld : ", (long long)w->p->steps) : "", s->tile.k - 1,
             s->tile.k, s->tile.k);
        return;
    }
    emit(e, "%sint first = %s / %d * %d;", fixed, from, s->tile.k, s->tile.k);
    emit(e, "%sint steps = end > first ? (end - first + %d) / %d : 0;", fixed, s->tile.k - 1,
         s->tile.k);
    if (!isinf(r.mask) && !w->again) print_doubt(w);
}

// -- copies ---------------------------------------------------------------------------------------

// Loads a tile's lines from memory, in a scope that knows "next", the first column, and "place".
static void print_copy(AttentionPrint *w, const Tile *t)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const Inst *v = t->plain ? inst_uncast(b, t->inst) : &b->insts.at[t->inst];
    const char *it = int_type(e), *line = e->axis[t->axis], *head = e->axis[t->head],
               *from = t->stays ? "origin" : "next",
               *place = t->places > 1 ? emit_text(e, "place * %d + ", tile_elements(t)) : "";
    int width = t->plain ? w->p->vector : 1, parts = t->line / width, n = t->lines * parts,
        threads = b->sched.threads;
    int64_t lines = b->axis[t->axis].extent, ends = b->axis[t->head].extent;
    slots_open(e, threads, "threadIdx.x");
    e->scope->axes = 1ull << t->axis | 1ull << t->head;
    emit(e, "const int line = slot / %d, part = slot %% %d%s;", parts, parts,
         width > 1 ? emit_text(e, " * %d", width) : "");
    const char *there =
        emit_below(e, emit_text(e, "%s + line", from), lines, lines % t->lines == 0);
    there = emit_and(e, there, emit_below(e, "part", ends, ends % t->line == 0));
    const char *to = emit_text(e, "%s + %sline * %d + part", t->name, place, t->pitch);
    if (t->plain) {
        emit(e, "const %s %s = %s + line, %s = part;", it, line, from, head);
        emit(e, "nc_copy16(%s, %s, %s);", to,
             emit_address(e, e->buf_name[v->buf], emit_index(e, v->ix)), *there ? there : "true");
    } else { // any expression, at indices clamped to existing elements
        emit(e, "const %s %s = nc_min(%s + line, %lld), %s = nc_min(part, %lld);", it, line, from,
             (long long)lines - 1, head, (long long)ends - 1);
        const char *x = emit_stored(e, t->type, emit_value(e, t->inst));
        emit(e, "*(%s) = %s%s%s;", to, *there ? emit_text(e, "%s ? ", there) : "", x,
             *there ? " : 0" : "");
    }
    emit_line(e, e->scope->up, t->plain ? "#pragma unroll" : "#pragma unroll 1");
    emit_end(e, "for (int u = 0; u < %d%s; u++) {", (int)ceil_div(n, threads),
             n % threads ? emit_text(e, " && u * %d + threadIdx.x < %d", threads, n) : "");
}

// The loads for iteration [step], if there is such an iteration: the loads from op i on. Returns
// the number of the op after them.
static int print_copies(AttentionPrint *w, int i, const char *step)
{
    Emit *e = w->e;
    emit_open(e, 0);
    const char *own = strchr(step, '+') ? emit_text(e, "(%s)", step) : step;
    emit(e, "const int next = %s;",
         emit_plus(e, "first", emit_scaled(e, own, e->body->sched.tile.k)));
    emit_declare(e, "place", "const int place = %s;",
                 emit_part(e, own, 1, e->body->sched.tile.ring, 1));
    for (; w->p->op[i].kind == T_LOAD; i++) print_copy(w, &w->p->tile[w->p->op[i].dst]);
    emit_end(e, "if (%s) {", strcmp(step, "0") ? emit_text(e, "%s < steps", step) : "steps > 0");
    return i;
}

// -- products -------------------------------------------------------------------------------------

static void print_multiply(AttentionPrint *w, const TileOp *op)
{
    Emit *e = w->e;
    const TileProgram *p = w->p;
    const TileAtom *atom = p->atom;
    const Tile *to = &p->tile[op->dst], *left = &p->tile[op->a], *right = &p->tile[op->b];
    bool scores = to->layout == L_SCORES;
    int down = p->side_m / atom->m, across = (scores ? p->side_n : right->line) / atom->n;
    int chunks = (scores ? left->line : p->side_n) / atom->k;
    const char *place =
        right->places > 1 ? emit_text(e, " + place * %d", tile_elements(right)) : "";
    if (scores) emit(e, "float %s[%d][%d][4] = {};", to->name, down, across);
    emit(e, "#pragma unroll");
    emit(e, "for (int c = 0; c < %d; c++) {", chunks);
    emit(e, "    uint32_t x[%d][4], y[%d][2];", down, across);
    if (scores) {
        emit(e, "    nc_rows_%s<%d>(x, %s, warp * %d, c);", atom->word, left->pitch, left->name,
             p->side_m);
        emit(e, "    nc_cols_%s<%d>(y, %s%s, c);", atom->word, right->pitch, right->name, place);
    } else {
        const char *pack = atom->operand == DT_F32 ? "32" : atom->operand == DT_BF16 ? "b" : "h";
        emit(e, "    nc_weights_%s(x, %s, c);", pack, left->name);
        emit(e, "    nc_values_%s<%d>(y, %s%s, c);", atom->word, right->pitch, right->name, place);
    }
    emit(e, "    %s(%s, x, y);", atom->multiply, to->name);
    emit(e, "}");
}

// -- results --------------------------------------------------------------------------------------

static bool stored_along(const BodyStore *s, int head)
{
    return s->ix && s->ix->axes >> head & 1;
}

// Whether two neighbours along the head dimension can be stored at once.
static bool in_pairs(const Body *b, const BodyStore *s, int head)
{
    int64_t step;
    DType t = b->bufs.at[s->buf].type;
    return (t == DT_F32 || t == DT_BF16 || t == DT_F16) && !s->guard && !s->ix->has_value &&
           ix_stride(s->ix, head, &step) && step == 1 && ix_aligned(s->ix, head, 2) &&
           b->axis[head].extent % 2 == 0;
}

static void print_result(AttentionPrint *w, int k)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const int head = b->attention.out[k].axis, line = w->p->tile[w->p->out[k].values].line;
    const char *name = w->p->tile[w->p->out[k].tile].name, *h = e->axis[head];
    bool pairs = true;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (stored_along(&b->stores.at[i], head)) pairs &= in_pairs(b, &b->stores.at[i], head);
    emit_open(e, pairs ? 0 : 1ull << head)->guard = true;
    emit_int(e, pairs ? "from" : h, "%s",
             pairs ? "j * 8 + lane % 4 * 2" : "j / 2 * 8 + lane % 4 * 2 + j % 2");
    const char *inside =
        line == b->axis[head].extent
            ? ""
            : emit_text(e, "if (%s < %lld) ", pairs ? "from" : h, extent_of(b, head));
    if (!pairs) {
        emit_bind(e, b->attention.out[k].sum, e->scope,
                  emit_text(e, "%s[i / 2][j / 2][i %% 2 * 2 + j %% 2]", name));
        emit_open(e, 0)->guard = true;
        for (uint32_t i = 0; i < b->stores.n; i++)
            if (stored_along(&b->stores.at[i], head)) emit_store(e, &b->stores.at[i]);
        emit_end(e, "%s{", inside);
    }
    for (uint32_t i = 0; i < b->stores.n && pairs; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (!stored_along(s, head)) continue;
        DType t = b->bufs.at[s->buf].type;
        emit(e, "NcVec<float, 2> pair_%u;", i);
        emit_open(e, 1ull << head);
        emit_int(e, h, "from + v");
        emit_bind(e, b->attention.out[k].sum, e->scope,
                  emit_text(e, "%s[i / 2][j][i %% 2 * 2 + v]", name));
        emit(e, "pair_%u.at[v] = %s;", i, emit_value(e, emit_unrounded(e, s)));
        emit_times(e, "v", 2);
        emit(e, "%snc_store<2>(%s, %s(pair_%u));", inside,
             emit_address(e, e->buf_name[s->buf], emit_index_at(e, s->ix, head, "from")),
             packs(t) ? packs(t) : "", i);
    }
    emit_times(e, "j", line / 8 * (pairs ? 1 : 2));
}

void attention_results(AttentionPrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    bool rows = false;
    emit_open(e, 1ull << 1)->guard = true;
    emit_int(e, e->axis[1], "own_rows + i / 2 * 16 + i %% 2 * 8");
    emit_open(e, 0)->guard = true;
    if (b->attention.high >= 0) emit_bind(e, b->attention.high, e->scope, "high[i]");
    if (b->attention.total >= 0) {
        emit_line(e, e->scope->up, "const float whole = nc_row_sum(total[i]);");
        emit_bind(e, b->attention.total, e->scope, "whole");
    }
    for (int k = 0; k < b->attention.nouts; k++) print_result(w, k);
    for (uint32_t i = 0; i < b->stores.n; i++) {
        bool head = false;
        for (int k = 0; k < b->attention.nouts; k++)
            head |= stored_along(&b->stores.at[i], b->attention.out[k].axis);
        if (head) continue;
        if (!rows) emit_open(e, 0)->guard = true;
        rows = true;
        emit_store(e, &b->stores.at[i]);
    }
    if (rows) emit_end(e, "if (lane %% 4 == 0) {");
    emit_end(e, "if (%s < %lld) {", e->axis[1], extent_of(b, 1));
    emit_times(e, "i", w->rows);
}

// -- ops ------------------------------------------------------------------------------------------

// A loop around the steps that runs them again with all columns if, at the end, the mask turns out
// not to be below all scores.
static void open_again(AttentionPrint *w)
{
    Emit *e = w->e;
    const TileProgram *p = w->p;
    for (int k = 0; k < e->body->attention.nouts; k++)
        emit(e, "float %s[%d][%d][4];", p->tile[p->out[k].tile].name, w->rows / 2,
             p->tile[p->out[k].values].line / p->atom->n);
    emit(e, "float high[%d], total[%d];", w->rows, w->rows);
    emit_open(e, 0);
}

static void close_again(AttentionPrint *w)
{
    Emit *e = w->e;
    emit(e, "bool low = false; // a row's scores are not all above the mask");
    print_lows(w);
    emit(e, "if (all || !__syncthreads_or(low)) break;");
    emit(e, "first = 0;");
    emit(e, "steps = %lld;", (long long)w->p->steps);
    emit_end(e, "for (bool all = false;; all = true) {");
}

static void print_fill(AttentionPrint *w, const TileOp *op)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    if (w->again) {
        emit(e, "nc_clear(%s);", p->tile[op->dst].name);
        return;
    }
    for (int k = 0; k < e->body->attention.nouts; k++)
        if (p->out[k].tile == op->dst)
            emit(e, "float %s[%d][%d][4] = {};", p->tile[op->dst].name, w->rows / 2,
                 p->tile[p->out[k].values].line / p->atom->n);
}

// Whether the remaining ops of the loop, from op i on, do not wait for other warps.
static bool alone(const TileProgram *p, int i)
{
    for (; p->op[i].kind != T_END; i++)
        if (p->op[i].kind != T_MMA && p->op[i].kind != T_MAP) return false;
    return true;
}

static int print_op(AttentionPrint *w, int i)
{
    const TileProgram *p = w->p;
    const TileOp *op = &p->op[i];
    Emit *e = w->e;
    Scope *inner = NULL;
    bool more = i > 0 && p->op[i - 1].kind == T_MAP && op->kind == T_MAP && op->dst < 0;
    switch (op->kind) {
    case T_LOAD:
        if (op->shift) return print_copies(w, i, emit_text(e, "step + %d", op->shift));
        print_copy(w, &p->tile[op->dst]);
        break;
    case T_FILL: print_fill(w, op); break;
    case T_MMA: print_multiply(w, op); break;
    case T_MAP:
        if (op->dst >= 0)
            attention_weights(w);
        else if (!more)
            attention_results(w);
        break;
    case T_LOOP:
        emit_open(e, 0);
        if (p->op[i + 1].kind == T_LOAD && !p->op[i + 1].shift) { // the first iterations' loads
            int end = print_copies(w, i + 1, emit_count("early", op->trips));
            for (; p->op[end].kind != T_END; end++) print_op(w, end);
            emit_end(e, op->trips == 1 ? "{" : "for (int early = 0; early < %lld; early++) {",
                     (long long)op->trips);
            return end + 1;
        }
        emit(e, "const int next = first + step * %d, place = step %% %d;", e->body->sched.tile.k,
             e->body->sched.tile.ring);
        for (i++; p->op[i].kind != T_END;) {
            if (p->op[i].kind == T_MMA && !inner && w->range.n && alone(p, i))
                inner = emit_open(e, 0); // this warp's rows may need none of the tile's columns
            i = print_op(w, i);
        }
        if (inner)
            emit_end(e, "if (%s%s) {", isinf(w->range.mask) ? "" : "all || ",
                     attention_within(w, false));
        emit_line(e, e->scope->up, "#pragma unroll 1");
        emit_end(e, "for (int step = 0; step < steps; step++) {");
        break;
    case T_COMMIT: emit(e, "nc_copies_end();"); break;
    case T_WAIT: emit(e, "nc_copied<%d>();", op->count); break;
    case T_BARRIER: tile_barrier(e, p, op); break;
    default: break; // not in these programs
    }
    return i + 1;
}

void attention_statistics(AttentionPrint *w)
{
    Emit *e = w->e;
    if (e->body->attention.high < 0) return;
    if (!w->again || w->groups) emit(e, "float high[%d], total[%d];", w->rows, w->rows);
    emit(e, "#pragma unroll");
    emit(e, "for (int i = 0; i < %d; i++) {", w->rows);
    emit(e, "    high[i] = -NC_INF;");
    emit(e, "    total[i] = 0;");
    emit(e, "}");
}

AttentionPrint attention_begin(Emit *e, const TileProgram *p)
{
    const Body *b = e->body;
    AttentionPrint w = {.e = e, .p = p, .rows = p->side_m / 8, .cols = p->side_n / 4};
    w.masks = b->axis[b->col].extent % b->sched.tile.k != 0;
    w.range = attention_range(b);
    return w;
}

void attention_cuda(Emit *e)
{
    TileProgram p = tile_program(e->body);
    const Body *b = e->body;
    AttentionPrint w = attention_begin(e, &p);
    if (p.nroles) {
        attention_groups_cuda(e, &p);
        return;
    }
    emit_open(e, 1); // batch
    e->scope->indent--;
    print_places(&w);
    w.again = b->attention.high >= 0 && w.range.n && !isinf(w.range.mask);
    attention_columns(&w);
    int i = 0;
    while (p.op[i].kind != T_FILL) i = print_op(&w, i);
    if (w.again) open_again(&w);
    attention_statistics(&w);
    while (p.op[i].kind != T_MAP || p.op[i].dst >= 0) i = print_op(&w, i);
    if (w.again) close_again(&w);
    while (i < p.nops) i = print_op(&w, i);
    emit_close(e, NULL, NULL);
}
