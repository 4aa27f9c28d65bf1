// Rows as C: one task a row.
#include "codegen/accumulator.h"
#include "codegen/print_c.h"

// Sums of rounds (c_open_loop) of up to so many elements are kept apart, an element each, until
// their end: joining the lanes of a vector takes longer than a short round.
enum { CHUNK = 4096, MOST_LANES = 256 };

// Costly values that several stages need are computed by the first and kept in an array.
static void recall(Emit *e, int stage, const char *c)
{
    const Body *b = e->body;
    for (uint32_t i = 0; b->sched.row_bytes && i < b->insts.n; i++)
        if (e->live[i] && b->insts.at[i].keep && b->insts.at[i].first_use < stage)
            e->element[i] = emit_text(e, "%s_row[%s]", e->name[i], c);
}

static void remember(Emit *e, int stage, const char *c)
{
    const Body *b = e->body;
    for (uint32_t i = 0; b->sched.row_bytes && i < b->insts.n; i++)
        if (e->live[i] && b->insts.at[i].keep && b->insts.at[i].first_use == stage)
            emit_line(e, e->scope, "%s_row[%s] = %s;", e->name[i], c, emit_value(e, (int)i));
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
    c_open_loop(e, b->col);
    recall(e, stage, c);
    long long lanes = e->period <= MOST_LANES ? e->period : 0;
    for (int i = 0; i < n; i++)
        c_accumulate(e, r[i],
                     lanes ? emit_text(e, "%s_lane[%s - %s]", e->name[r[i]], c, e->round)
                           : emit_text(e, "%s_acc", e->name[r[i]]),
                     emit_text(e, "%s_best", e->name[r[i]]), c, lo);
    emit_stores(e, stage);
    remember(e, stage, c);
    // (operands that do not vary over the columns are in the row's text by now)
    bool simd = c_plain_over(e, b->col) && !b->serial_cols && !c_integers(e, r, n);
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        const char *t = type_math(v->acc), *name = e->name[r[i]];
        if (v->kind == KI_SCAN) {
            emit_line(e, row, "%s %s_acc = 0;", t, name);
            continue;
        }
        bool part = chunked && c_float_sum(v);
        if (part) emit_line(e, row, "double %s_total = 0;", name);
        emit_line(e, part ? chunk : row, "%s %s_acc = %s;", inst_acc(v)->place ? "int32_t" : t,
                  name, inst_acc(v)->place ? "0" : emit_identity(e, v->op, v->acc));
        if (inst_acc(v)->place) emit_line(e, row, "%s %s_best = 0;", t, name);
        if (!lanes) continue;
        emit_line(e, chunk, "%s %s_lane[%lld];", t, name, lanes);
        emit_line(e, chunk, "for (long k = 0; k < %lld; k++) %s_lane[k] = %s;", lanes, name,
                  emit_identity(e, v->op, v->acc));
    }
    const char *joined = lanes ? "" : c_omp_reduction(e, r, n, "_acc");
    c_close_loop(e, from, to, simd ? emit_text(e, "#pragma omp simd%s", joined) : "");
    for (int i = 0; i < n && lanes; i++) {
        const Inst *v = &b->insts.at[r[i]];
        const char *acc = emit_text(e, "%s_acc", e->name[r[i]]);
        emit_line(e, chunk, "for (long k = 0; k < %lld; k++)", lanes);
        emit_line(e, chunk, "    %s = %s;", acc,
                  emit_combine(e, v->op, v->acc, acc, emit_text(e, "%s_lane[k]", e->name[r[i]])));
    }
    if (chunked) {
        for (int i = 0; i < n; i++)
            if (c_float_sum(&b->insts.at[r[i]]))
                emit_line(e, chunk, "%s_total += %s_acc;", e->name[r[i]], e->name[r[i]]);
        emit_close(
            e,
            emit_text(e,
                      "for (long chunk = %s; chunk < %s; chunk += %d) {\n%*sconst long chunk_end = "
                      "chunk + %d < %s ? chunk + %d : %s;",
                      lo, hi, CHUNK, row->indent * 4 + 4, "", CHUNK, hi, CHUNK, hi),
            "}");
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
    for (uint32_t i = 0; b->sched.row_bytes && i < b->insts.n; i++)
        if (e->live[i] && b->insts.at[i].keep)
            emit_line(e, e->scope, "%s %s_row[%lld];", type_math(b->insts.at[i].type), e->name[i],
                      (long long)cols);
    emit_open(e, 1);
    if (!partial) {
        for (int s = 0; s < b->nstages; s++)
            row_stage(e, s, "0", emit_text(e, "%lld", (long long)cols), cols);
        emit_stores(e, -1);
        emit_close(e, emit_text(e, "for (long %s = begin; %s < end; %s++) {", r, r, r), "}");
        return b->axis[0].extent;
    }
    int64_t part = ceil_div(cols, split);
    emit_line(e, e->scope, "const long %s = task / %lld, part = task %% %lld;", r, (long long)split,
              (long long)split);
    emit_line(e, e->scope, "const long lo = part * %lld < %lld ? part * %lld : %lld;",
              (long long)part, (long long)cols, (long long)part, (long long)cols);
    emit_line(e, e->scope, "const long hi = lo + %lld < %lld ? lo + %lld : %lld;", (long long)part,
              (long long)cols, (long long)part, (long long)cols);
    row_stage(e, 0, "lo", "hi", part);
    int n;
    const int *red = stage_reductions(e, 0, &n);
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *v = &b->insts.at[red[i]];
        emit_line(e, e->scope, "%s[%s] = %s;", c_scratch(e, k++), c_part_place(e, "part"),
                  e->name[red[i]]);
        if (inst_acc(v)->place)
            emit_line(e, e->scope, "%s[%s] = %s_best;", c_scratch(e, k++), c_part_place(e, "part"),
                      e->name[red[i]]);
    }
    emit_close(e, "for (long task = begin; task < end; task++) {", "}");
    return b->axis[0].extent * split;
}

// Joins the parts of each row in order, then whatever follows.
int64_t combine_c(Emit *e)
{
    const Body *b = e->body;
    const char *r = e->axis[0];
    emit_open(e, 1);
    Scope *row = e->scope;
    int n;
    const int *red = stage_reductions(e, 0, &n);
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *v = &b->insts.at[red[i]];
        const char *t = c_float_sum(v) ? "double" : type_math(v->acc), *name = e->name[red[i]];
        const char *loop =
            emit_text(e, "for (long part = 0; part < %lld; part++)", (long long)b->sched.split);
        const char *x = emit_text(e, "%s[%s]", c_scratch(e, k++), c_part_place(e, "part"));
        if (inst_acc(v)->place) {
            const char *best = emit_text(e, "%s[%s]", c_scratch(e, k++), c_part_place(e, "part"));
            emit_line(e, row, "%s %s_best = 0;", t, name);
            emit_line(e, row, "int32_t %s_acc = 0;", name);
            emit_line(e, row, "%s {", loop);
            emit_line(e, row, "    const %s v = %s;", t, best);
            emit_line(e, row,
                      "    if (part == 0 || v > %s_best || (v != v && %s_best == %s_best)) {", name,
                      name, name);
            emit_line(e, row, "        %s_best = v;", name);
            emit_line(e, row, "        %s_acc = %s;", name, x);
            emit_line(e, row, "    }");
            emit_line(e, row, "}");
        } else {
            emit_line(e, row, "%s %s_acc = %s;", t, name, emit_identity(e, v->op, v->acc));
            emit_line(e, row, "%s", loop);
            emit_line(e, row, "    %s_acc = %s;", name,
                      emit_combine(e, v->op, v->acc, emit_text(e, "%s_acc", name), x));
        }
        emit_line(e, row, "const %s %s = (%s)%s_acc;", type_math(v->type), name, type_math(v->type),
                  name);
        emit_bind(e, red[i], row, name);
    }
    emit_stores(e, -1);
    emit_close(e, emit_text(e, "for (long %s = begin; %s < end; %s++) {", r, r, r), "}");
    return b->axis[0].extent;
}
