// Rows as C: one task per row.
#include "codegen/text/accumulator.h"
#include "codegen/c/print_c.h"

#include <math.h>
#include <string.h>

// MOST_LANES: if a round (c_open_loop) has at most so many elements, each position of it has an
// accumulator of its own until the end, since adding up the lanes of a vector takes longer than a
// short round.
enum { CHUNK = 4096, MOST_LANES = 256 };

// Stages that find the maximum or minimum of floats, or its position, distribute elements over so
// many lanes.
enum { TURN = 64, LEAST_TURNS = 2 };

// Whether a reduction uses lanes; also long f64 sums, since a vector has so few f64 that each
// addition would wait for the previous one.
static bool in_turns(const Inst *v, int64_t length)
{
    enum { LONG = 512 };
    return c_ordered(v) || (v->kind == KI_REDUCE &&
                            (inst_acc(v)->place || (inst_acc(v)->adds && !inst_acc(v)->runs &&
                                                    length >= LONG && v->acc == DT_F64)));
}

static void lane_accumulate(Emit *e, int r, const char *lane, const char *c)
{
    const char *acc = emit_text(e, "%s_lane%s", e->name[r], lane);
    if (c_stored_order(e, r))
        c_order_accumulate(e, r, acc);
    else
        c_accumulate(e, r, acc, emit_text(e, "%s_best_lane%s", e->name[r], lane), c);
}

static void declare_lanes(Emit *e, Scope *s, int r, int64_t lanes, const char *first)
{
    const Inst *v = &e->body->insts.at[r];
    const bool stored = c_stored_order(e, r);
    if (inst_acc(v)->place) {
        emit_line(e, s, "int32_t %s_lane[%lld] NC_LINES;", e->name[r], (long long)lanes);
        emit_line(e, s, "%s %s_best_lane[%lld] NC_LINES;", c_acc_type(v->acc), e->name[r],
                  (long long)lanes);
        emit_line(e, s, "for (long k = 0; k < %lld; k++) {", (long long)lanes);
        emit_line(e, s, "    %s_lane[k] = %s;", e->name[r], c_start(e, v, first));
        emit_line(e, s, "    %s_best_lane[k] = %s;", e->name[r], emit_identity(e, v->op, v->acc));
        emit_line(e, s, "}");
        return;
    }
    const char *t = stored ? "int16_t" : c_acc_type(v->acc);
    const char *start = stored ? c_order_start(e, r) : emit_identity(e, v->op, v->acc);
    emit_line(e, s, "%s %s_lane[%lld] NC_LINES;", t, e->name[r], (long long)lanes);
    emit_line(e, s, "for (long k = 0; k < %lld; k++) %s_lane[k] = %s;", (long long)lanes,
              e->name[r], start);
}

static void join_lanes(Emit *e, Scope *s, int r, int64_t lanes)
{
    const Inst *v = &e->body->insts.at[r];
    const char *name = e->name[r], *acc = emit_text(e, "%s_acc", name),
               *x = emit_text(e, "%s_lane", name), *all = emit_text(e, "%s[0]", x);
    if (inst_acc(v)->place) {
        emit_line(e, s, "nc_join_places(%s_best_lane, %s, %lld);", name, x, (long long)lanes);
        // other chunks of the row have been before, and the first of equals stays
        const char *stays = dtype_is_float(v->acc) ? "nc_stays(%s_best, %s_best_lane[0])"
                                                   : "%s_best >= %s_best_lane[0]";
        emit_line(e, s, "if (!(%s)) {", emit_text(e, stays, name, name));
        emit_line(e, s, "    %s = %s;", acc, all);
        emit_line(e, s, "    %s_best = %s_best_lane[0];", name, name);
        emit_line(e, s, "}");
        return;
    }
    if (c_ordered(v)) { // compilers can reduce integers in the order of the values by vectors
        const bool stored = c_stored_order(e, r);
        const char *sign = inst_acc(v)->start == START_HIGH ? "-" : "",
                   *last = emit_text(e, "%s_last", name),
                   *key = stored ? x : emit_text(e, "%s_key", name),
                   *t = stored                    ? "int16_t"
                        : math_bytes(v->acc) == 8 ? "int64_t"
                                                  : "int32_t";
        if (!stored) {
            emit_line(e, s, "%s %s[%lld] NC_LINES;", t, key, (long long)lanes);
            emit_line(e, s, C_SIMD);
            emit_line(e, s, "for (long k = 0; k < %lld; k++) %s[k] = nc_order(%s%s[k]);",
                      (long long)lanes, key, sign, x);
        }
        emit_line(e, s, "%s %s = %s[0];", t, last, key);
        emit_line(e, s, "for (long k = 0; k < %lld; k++) %s = nc_max%s(%s, %s[k]);",
                  (long long)lanes, last, stored ? "_s" : "", last, key);
        all = stored ? c_order_result(e, r, last) : emit_text(e, "%snc_in_order(%s)", sign, last);
    } else { // by halves: in a sequential chain, each operation would wait for the previous one
        const char *left = emit_text(e, "%s[k]", x),
                   *right = emit_text(e, "%s[(n + 1) / 2 + k]", x);
        emit_line(e, s, "for (long n = %lld; n > 1; n = (n + 1) / 2)", (long long)lanes);
        emit_line(e, s, "    for (long k = 0; k < n / 2; k++)");
        emit_line(e, s, "        %s = %s;", left, emit_combine(e, v->op, v->acc, left, right));
    }
    emit_line(e, s, "%s = %s;", acc, emit_combine(e, v->op, v->acc, acc, all)); // combines with
                                                                                // other chunks
}

// Closes a loop over groups of TURN columns, and the remainder; the open scope is its body.
static void close_turns(Emit *e, const char *turn, const char *from, const char *to, bool whole)
{
    const char *c = e->axis[e->body->col];
    Scope *body = e->scope;
    emit_end(e, "#pragma omp simd\nfor (long %s = %s; %s < %s + %d; %s++) {", c, turn, c, turn,
             TURN, c);
    emit_end(e, "for (long %s = %s; %s + %d <= %s; %s += %d) {", turn, from, turn, TURN, to, turn,
             TURN);
    if (whole) return;
    Scope *s = e->scope;
    emit_line(e, s, "for (long %s = %s - (%s - %s) %% %d; %s < %s; %s = %s) {", turn, to, to, from,
              TURN, turn, to, turn, to);
    emit_line(e, s, "    #pragma omp simd");
    emit_line(e, s, "    for (long %s = %s; %s < %s; %s++) {", c, turn, c, to, c);
    buf_bytes(&s->text, body->text.data, body->text.len);
    emit_line(e, s, "    }");
    emit_line(e, s, "}");
}

// The same, within a loop over whole rounds, from 0 on.
static void close_rounds(Emit *e, const char *turn, const char *to)
{
    const char *r = e->round;
    const long long by = e->period;
    close_turns(e, turn, r, emit_text(e, "(%s + %lld)", r, by), by % TURN == 0);
    emit_end(e, "for (long %s = 0; %s < %s; %s += %lld) {", r, r, to, r, by);
    e->period = 0;
}

// Lanes are in memory, so each group of elements waits for the stores of the one before. If a stage
// has few instructions, and nothing but reductions, TOGETHER groups (or rounds) are combined in
// registers first.
enum { TOGETHER = 4, FEW_INSTS = 8, MOST_TOGETHER = 1024 };

bool c_is_light(const Body *b, const int *r, int n)
{
    bool light = b->nstages == 1 && b->insts.n <= FEW_INSTS;
    for (int i = 0; i < n; i++)
        light &= b->insts.at[r[i]].kind == KI_REDUCE && !inst_acc(&b->insts.at[r[i]])->place;
    for (uint32_t i = 0; i < b->stores.n; i++) light &= !store_over(b, &b->stores.at[i], b->col);
    return light;
}

// Prints the loop over TOGETHER groups of [lanes] elements (or rounds) at a time, as far as they
// are complete. Returns the text of the first element that is left.
static const char *together(Emit *e, const int *r, int n, const char *from, const char *to,
                            int64_t lanes, bool rounds)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *turn = emit_text(e, "%s_first", c);
    const long long turns = TOGETHER * lanes;
    emit_open(e, 0);
    emit_open(e, 0);
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        const bool stored = c_stored_order(e, r[i]);
        emit(e, "%s %s_some = %s;", stored ? "int16_t" : c_acc_type(v->acc), e->name[r[i]],
             stored ? c_order_start(e, r[i]) : emit_identity(e, v->op, v->acc));
    }
    for (int k = 0; k < TOGETHER; k++) {
        e->axis[b->col] = emit_text(e, "(%s + %lld)", c, k * (long long)lanes);
        if (rounds) {
            e->round_axis = b->col;
            e->period = lanes;
            e->round = emit_text(e, "(%s + %lld)", turn, k * (long long)lanes);
        }
        emit_open(e, 1ull << b->col);
        for (int i = 0; i < n; i++) {
            const char *some = emit_text(e, "%s_some", e->name[r[i]]);
            if (c_stored_order(e, r[i]))
                c_order_accumulate(e, r[i], some);
            else
                c_accumulate(e, r[i], some, "", c);
        }
        emit_end(e, "{");
    }
    e->axis[b->col] = c;
    e->period = 0;
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        const char *lane = emit_text(e, "%s_lane[%s - %s]", e->name[r[i]], c, turn),
                   *some = emit_text(e, "%s_some", e->name[r[i]]);
        emit(e, "%s = %s;", lane,
             c_stored_order(e, r[i]) ? emit_text(e, "nc_max_s(%s, %s)", lane, some)
                                     : emit_combine(e, v->op, v->acc, lane, some));
    }
    emit_end(e, "#pragma omp simd\nfor (long %s = %s; %s < %s + %lld; %s++) {", c, turn, c, turn,
             (long long)lanes, c);
    emit_end(e, "for (long %s = %s; %s + %lld <= %s; %s += %lld) {", turn, from, turn, turns, to,
             turn, turns);
    return emit_text(e, "(%s - (%s - %s) %% %lld)", to, to, from, turns);
}

// Declares the accumulators of a stage: in [row], those that continue over chunks, and in [chunk]
// the others.
static void declare_sums(Emit *e, Scope *row, Scope *chunk, const int *r, int n, int64_t lanes,
                         const char *lo)
{
    for (int i = 0; i < n; i++) {
        const Inst *v = &e->body->insts.at[r[i]];
        const char *t = c_acc_type(v->acc), *name = e->name[r[i]];
        if (v->kind == KI_SCAN) {
            emit_line(e, row, "%s %s_acc = %s;", t, name, c_start(e, v, lo));
            continue;
        }
        bool part = chunk != row && c_float_sum(v);
        if (part) emit_line(e, row, "double %s_total = 0;", name);
        emit_line(e, part ? chunk : row, "%s %s_acc = %s;", inst_acc(v)->place ? "int32_t" : t,
                  name, c_start(e, v, lo));
        if (inst_acc(v)->place)
            emit_line(e, row, "%s %s_best = %s;", t, name, emit_identity(e, v->op, v->acc));
        if (lanes) declare_lanes(e, chunk, r[i], lanes, lo);
    }
}

static bool is_light_sum(const Inst *v, int bytes)
{
    return v->kind == KI_REDUCE && inst_acc(v)->adds && !inst_acc(v)->runs &&
           math_bytes(v->acc) == bytes;
}

// The best number of lanes for sums and products of cheap elements over a short row, for which the
// longest vectors leave large remainders and take long to add up. 0: the processor's vectors.
static int lanes_of_short(const Emit *e, const int *r, int n, int64_t length)
{
    enum { SHORTEST = 5, MIDDLE = 72, LONGEST = 128 };
    const Body *b = e->body;
    const int bytes = math_bytes(b->insts.at[r[0]].acc);
    bool few = true; // four lanes suffice
    if (length < SHORTEST || length >= LONGEST || bytes < 4) return 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        const bool costly =
            v->kind == KI_RANDOM || (v->kind == KI_EW && op_info(v->op)->flags & OPF_COSTLY);
        if (!e->live[i] || !(v->axes >> b->col & 1)) continue;
        if (costly) return 0;
        if (v->kind != KI_LOAD) continue;
        const DType t = b->bufs.at[v->buf].type;
        few &= dtype_info[t].bits >= 32;
        if (t == DT_F16 && length % 16 == 0) return 0; // they are converted 16 at a time
    }
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        if (!is_light_sum(v, bytes)) return 0;
        few &= inst_acc(v)->start == START_ZERO;
    }
    if (bytes == 8) return length % 8 && few ? 4 : 0;
    return length % 8 && length < MIDDLE && few ? 4 : 8;
}

static void row_stage(Emit *e, int stage, const char *lo, const char *hi, int64_t length)
{
    const Body *b = e->body;
    int n;
    const int *r = stage_reductions(e, stage, &n);
    const char *c = e->axis[b->col];
    Scope *row = e->scope;
    bool chunked = false;
    for (int i = 0; i < n; i++) chunked |= c_float_sum(&b->insts.at[r[i]]) && length > CHUNK;
    const char *from = chunked ? "chunk" : lo, *to = chunked ? "chunk_end" : hi;
    if (chunked) emit_open(e, 0);
    Scope *chunk = e->scope;
    bool simd = !b->serial_cols && !c_integers(e, r, n), turns = false;
    for (int i = 0; i < n; i++) turns |= in_turns(&b->insts.at[r[i]], length);
    const int64_t period = c_period(e, b->col, ROUND);
    const bool in_rounds = period && !strcmp(lo, "0") && b->axis[b->col].extent % period == 0;
    turns &= simd && c_plain_in_turns(e, b->col) && !(period && (chunked || !in_rounds)) &&
             (period ? period : length) >= LEAST_TURNS * TURN;
    simd &= turns || c_plain_over(e, b->col);
    const bool light = simd && c_is_light(b, r, n);
    // Combines whole rounds instead of groups within each.
    const bool rounds = light && in_rounds && !chunked && period <= MOST_TOGETHER &&
                        b->axis[b->col].extent >= 2 * TOGETHER * period;
    turns &= !rounds;
    const int64_t lanes = turns ? TURN : rounds || period <= MOST_LANES ? period : 0;
    const bool many = rounds || (light && turns && !period);
    if (many) {
        declare_sums(e, row, chunk, r, n, lanes, lo);
        from = together(e, r, n, from, to, lanes, rounds);
    }
    c_open_loop(e, b->col, period);
    const char *turn = turns ? emit_text(e, "%s_turn", c) : e->round;
    if (turns) emit_open(e, 1ull << b->col);
    c_recall(e, stage, c);
    for (int i = 0; i < n; i++)
        if (lanes)
            lane_accumulate(e, r[i], emit_text(e, "[%s - %s]", c, turn), c);
        else
            c_accumulate(e, r[i], emit_text(e, "%s_acc", e->name[r[i]]),
                         emit_text(e, "%s_best", e->name[r[i]]), c);
    emit_stores(e, stage);
    c_remember(e, stage, c);
    // (operands that are constant over the columns have been printed in the row's scope)
    if (!many) declare_sums(e, row, chunk, r, n, lanes, lo);
    const char *joined = lanes ? "" : c_omp_reduction(e, r, n, "_acc");
    const int few = n && !lanes && !period && simd ? lanes_of_short(e, r, n, length) : 0;
    if (few) joined = emit_text(e, " simdlen(%d)%s", few, joined);
    bool all = lanes ? b->axis[b->col].extent % lanes == 0 : !strcmp(from, "0");
    if (turns && period)
        close_rounds(e, turn, to);
    else if (turns)
        close_turns(e, turn, from, to, all && !chunked && !strcmp(lo, "0"));
    else
        c_close_loop(e, from, to, all, simd ? emit_text(e, "#pragma omp simd%s", joined) : "");
    for (int i = 0; i < n && lanes; i++) join_lanes(e, chunk, r[i], lanes);
    if (chunked) {
        const int step = lanes && !turns && all ? CHUNK / (int)lanes * (int)lanes : CHUNK;
        for (int i = 0; i < n; i++)
            if (c_float_sum(&b->insts.at[r[i]]))
                emit_line(e, chunk, "%s_total += %s_acc;", e->name[r[i]], e->name[r[i]]);
        emit_end(e,
                 "for (long chunk = %s; chunk < %s; chunk += %d) {\n    const long chunk_end = "
                 "chunk + %d < %s ? chunk + %d : %s;",
                 lo, hi, step, step, hi, step, hi);
    }
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        if (v->kind == KI_SCAN) continue;
        bool part = chunked && c_float_sum(v);
        emit_line(e, row, "const %s %s = %s%s_%s;", type_math(v->type), e->name[r[i]],
                  part ? "(float)" : "", e->name[r[i]], part ? "total" : "acc");
        emit_bind(e, r[i], row, e->name[r[i]]);
    }
}

int64_t row_c(Emit *e, bool partial)
{
    const Body *b = e->body;
    int64_t cols = b->axis[b->col].extent, split = b->sched.split;
    const char *r = e->axis[0];
    c_declare_kept(e, cols);
    emit_open(e, 1);
    if (!partial) {
        c_draw_row(e);
        for (int s = 0; s < b->nstages; s++)
            row_stage(e, s, "0", emit_text(e, "%lld", (long long)cols), cols);
        emit_stores(e, -1);
        emit_end(e, "for (long %s = begin; %s < end; %s++) {", r, r, r);
        return b->axis[0].extent;
    }
    int64_t part = ceil_div(cols, split), period = c_period(e, b->col, ROUND);
    if (period && period <= MOST_LANES) part = ceil_div(part, period) * period; // whole rounds
    emit(e, "const long %s = task / %lld, part = task %% %lld;", r, (long long)split,
         (long long)split);
    emit(e, "const long lo = part * %lld < %lld ? part * %lld : %lld;", (long long)part,
         (long long)cols, (long long)part, (long long)cols);
    emit(e, "const long hi = lo + %lld < %lld ? lo + %lld : %lld;", (long long)part,
         (long long)cols, (long long)part, (long long)cols);
    row_stage(e, 0, "lo", "hi", part);
    int n;
    const int *red = stage_reductions(e, 0, &n);
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *v = &b->insts.at[red[i]];
        emit(e, "%s[%s] = %s;", emit_scratch(e, k++), c_part_place(e, "part"), e->name[red[i]]);
        if (inst_acc(v)->place)
            emit(e, "%s[%s] = %s_best;", emit_scratch(e, k++), c_part_place(e, "part"),
                 e->name[red[i]]);
    }
    emit_end(e, "for (long task = begin; task < end; task++) {");
    return b->axis[0].extent * split;
}

static const char *part_of(Emit *e, int nth, const char *part)
{
    return emit_text(e, "%s[%s]", emit_scratch(e, nth), c_part_place(e, part));
}

// Combines the parts of a reduction, which are in scratch buffer number k (for a position, the
// values are in the next one).
static void join_parts(Emit *e, Scope *row, const Inst *v, const char *name, int k)
{
    const char *loop =
        emit_text(e, "for (long part = 0; part < %lld; part++)", (long long)e->body->sched.split);
    const char *t = c_float_sum(v) ? "double" : c_acc_type(v->acc), *x = part_of(e, k, "part");
    if (inst_acc(v)->place) {
        emit_line(e, row, "%s %s_best = 0;", t, name);
        emit_line(e, row, "int32_t %s_acc = 0;", name);
        emit_line(e, row, "%s {", loop);
        emit_line(e, row, "    const %s v = %s;", t, part_of(e, k + 1, "part"));
        emit_line(e, row, "    if (part == 0 || v > %s_best || (v != v && %s_best == %s_best)) {",
                  name, name, name);
        emit_line(e, row, "        %s_best = v;", name);
        emit_line(e, row, "        %s_acc = %s;", name, x);
        emit_line(e, row, "    }");
        emit_line(e, row, "}");
        return;
    }
    emit_line(e, row, "%s %s_acc = %s;", t, name, emit_identity(e, v->op, v->acc));
    emit_line(e, row, "%s", loop);
    emit_line(e, row, "    %s_acc = %s;", name,
              emit_combine(e, v->op, v->acc, emit_text(e, "%s_acc", name), x));
}

// Combines the parts of each row in order, then computes what follows. Parts of columns are
// adjacent: they are combined in a loop of their own, which compilers vectorize whatever follows.
int64_t combine_c(Emit *e)
{
    const Body *b = e->body;
    int n;
    const int *red = stage_reductions(e, 0, &n);
    bool beside = b->sched.kind == SCHED_COLUMN && c_plain_over(e, 0);
    for (int i = 0; i < n; i++) beside &= !inst_acc(&b->insts.at[red[i]])->place;
    const char *r = e->axis[0], *pragma = beside ? "#pragma omp simd\n" : "",
               *rows = emit_text(e, "%sfor (long %s = begin; %s < end; %s++) {", pragma, r, r, r);
    for (int i = 0; i < n && beside; i++) {
        const Inst *v = &b->insts.at[red[i]];
        emit_open(e, 0);
        join_parts(e, e->scope, v, e->name[red[i]], i);
        emit(e, "%s = %s_acc;", part_of(e, i, "0"), e->name[red[i]]);
        emit_end(e, "%s", rows);
    }
    emit_open(e, 1);
    Scope *row = e->scope;
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *v = &b->insts.at[red[i]];
        const char *t = type_math(v->type), *name = e->name[red[i]];
        if (!beside) join_parts(e, row, v, name, k);
        emit_line(e, row, "const %s %s = (%s)%s;", t, name, t,
                  beside ? part_of(e, i, "0") : emit_text(e, "%s_acc", name));
        emit_bind(e, red[i], row, name);
        k += inst_acc(v)->place ? 2 : 1;
    }
    emit_stores(e, -1);
    emit_end(e, "%s", rows);
    return b->axis[0].extent;
}
