// Kernel IR as C: tasks run in parallel, inner loops vectorise.
#include <string.h>

#include "codegen/accumulator.h"
#include "codegen/print.h"

enum { CHUNK = 4096 };

// Whether anything computed over [axis] calls for scalar code (checks, loops of their own, argmax).
static bool plain_over(const Emit *e, int axis)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (!e->live[i]) continue;
        bool over = inst_over(v, axis) || (v->kind == KI_REDUCE && v->axis == axis);
        if (over && (v->kind == KI_CHECK || v->kind == KI_ASSERT || v->kind == KI_SCAN ||
                     (v->kind == KI_REDUCE && v->axis != b->col) ||
                     (v->kind == KI_REDUCE && inst_acc(v)->place)))
            return false;
    }
    return true;
}

static const char *omp_reduction(Emit *e, const int *r, int n, const char *suffix)
{
    Buf o = buf_new(e->arena);
    for (int i = 0; i < n; i++) {
        const Inst *v = &e->body->insts.at[r[i]];
        const Accumulator *a = inst_acc(v);
        buf_printf(&o, " reduction(%s : %s%s)",
                   v->acc == DT_BOOL && a->bool_omp ? a->bool_omp : a->omp, e->name[r[i]], suffix);
    }
    return o.data;
}

static bool float_sum(const Inst *v)
{
    return v->kind == KI_REDUCE && op_info(v->op)->acc == ACC_SUM && math_bytes(v->acc) == 4 &&
           dtype_is_float(v->acc);
}

// One step of a reduction or scan on element x, in the innermost scope; acc names the accumulator.
static void accumulate(Emit *e, int r, const char *acc, const char *best, const char *axis,
                       const char *first)
{
    const Inst *v = &e->body->insts.at[r];
    Scope *s = e->scope;
    const char *x = emit_value(e, v->a[0]);
    if (v->kind == KI_SCAN) {
        if (v->exclusive) emit_line(e, s, "const %s %s = %s;", type_math(v->type), e->name[r], acc);
        emit_line(e, s, "%s = %s + %s;", acc, acc, x);
        if (!v->exclusive)
            emit_line(e, s, "const %s %s = %s;", type_math(v->type), e->name[r], acc);
        emit_bind(e, r, s, e->name[r]);
    } else if (inst_acc(v)->place) {
        emit_line(e, s, "if (%s == %s || %s > %s || (%s != %s && %s == %s)) {", axis, first, x,
                  best, x, x, best, best);
        emit_line(e, s, "    %s = %s;", best, x);
        emit_line(e, s, "    %s = (int32_t)%s;", acc, axis);
        emit_line(e, s, "}");
    } else {
        emit_line(e, s, "%s = %s;", acc, emit_combine(e, v->op, v->acc, acc, x));
    }
}

// -- map
// ---------------------------------------------------------------------------------------------------

// One axis: tasks are its elements, and the text does not depend on how many there are.
static int64_t print_flat(Emit *e)
{
    const char *a = e->axis[0];
    emit_open(e, 1);
    emit_stores(e, -1);
    const char *head = emit_text(e, "for (long %s = begin; %s < end; %s++) {", a, a, a);
    emit_close(e, plain_over(e, 0) ? emit_text(e, "#pragma omp simd\n    %s", head) : head, "}");
    return e->body->axis[0].extent;
}

static int64_t print_map(Emit *e)
{
    const Body *b = e->body;
    int inner = b->npar - 1;
    if (inner == 0) return print_flat(e);
    int64_t extent = b->axis[inner].extent, tile = b->sched.tile,
            tiles = extent > 0 ? (extent + tile - 1) / tile : 0;
    int64_t outer = 1;
    for (int i = 0; i < inner; i++) outer *= b->axis[i].extent;
    emit_open(e, (1ull << inner) - 1);
    if (tiles > 1)
        emit_line(e, e->scope, "const long begin_%s = task %% %lld * %lld;", e->axis[inner],
                  (long long)tiles, (long long)tile);
    int64_t stride = tiles > 1 ? tiles : 1;
    for (int i = inner; i-- > 0;) {
        const char *q = stride == 1 ? "task" : emit_text(e, "task / %lld", (long long)stride);
        emit_line(e, e->scope, "const long %s = %s;", e->axis[i],
                  i == 0 ? q : emit_text(e, "%s %% %lld", q, (long long)b->axis[i].extent));
        stride *= b->axis[i].extent;
    }
    const char *lo = "0", *hi = emit_text(e, "%lld", (long long)extent);
    if (tiles > 1) {
        lo = emit_text(e, "begin_%s", e->axis[inner]);
        emit_line(e, e->scope, "const long end_%s = %s + %lld < %s ? %s + %lld : %s;",
                  e->axis[inner], lo, (long long)tile, hi, lo, (long long)tile, hi);
        hi = emit_text(e, "end_%s", e->axis[inner]);
    }
    emit_open(e, 1ull << inner);
    emit_stores(e, -1);
    const char *a = e->axis[inner];
    const char *head = emit_text(e, "for (long %s = %s; %s < %s; %s++) {", a, lo, a, hi, a);
    emit_close(e, plain_over(e, inner) ? emit_text(e, "#pragma omp simd\n        %s", head) : head,
               "}");
    emit_close(e, "for (long task = begin; task < end; task++) {", "}");
    return outer * tiles;
}

// -- rows: one task a row
// --------------------------------------------------------------------------------------

static const char *part_place(Emit *e, const char *part)
{
    const Body *b = e->body;
    if (b->sched.kind == SCHED_COLUMN)
        return emit_text(e, "%s * %lld + %s", part, (long long)b->axis[0].extent, e->axis[0]);
    return emit_text(e, "%s * %lld + %s", e->axis[0], (long long)b->sched.split, part);
}

// Scratch buffers in the order reductions use them: one each, argmax a second for the value.
static const char *scratch_of(Emit *e, int nth)
{
    for (uint32_t i = 0; i < e->body->bufs.n; i++)
        if (e->body->bufs.at[i].kind == KA_SCRATCH && nth-- == 0) return e->buf_name[i];
    return "0";
}

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
    for (int i = 0; i < n; i++) chunked |= float_sum(&b->insts.at[r[i]]) && length > CHUNK;
    const char *from = chunked ? "chunk" : lo, *to = chunked ? "chunk_end" : hi;
    if (chunked) emit_open(e, 0);
    Scope *chunk = e->scope;
    emit_open(e, 1ull << b->col);
    recall(e, stage, c);
    for (int i = 0; i < n; i++)
        accumulate(e, r[i], emit_text(e, "%s_acc", e->name[r[i]]),
                   emit_text(e, "%s_best", e->name[r[i]]), c, lo);
    emit_stores(e, stage);
    remember(e, stage, c);
    // (operands that do not vary over the columns are in the row's text by now)
    bool simd = plain_over(e, b->col) && !b->serial_cols;
    for (int i = 0; i < n; i++) {
        const Inst *v = &b->insts.at[r[i]];
        const char *t = type_math(v->acc), *name = e->name[r[i]];
        if (v->kind == KI_SCAN) {
            emit_line(e, row, "%s %s_acc = 0;", t, name);
            continue;
        }
        bool part = chunked && float_sum(v);
        if (part) emit_line(e, row, "double %s_total = 0;", name);
        emit_line(e, part ? chunk : row, "%s %s_acc = %s;", inst_acc(v)->place ? "int32_t" : t,
                  name, inst_acc(v)->place ? "0" : emit_identity(e, v->op, v->acc));
        if (inst_acc(v)->place) emit_line(e, row, "%s %s_best = 0;", t, name);
    }
    const char *pragma =
        simd ? emit_text(e, "#pragma omp simd%s\n", omp_reduction(e, r, n, "_acc")) : "";
    emit_close(e,
               emit_text(e, "%s%*sfor (long %s = %s; %s < %s; %s++) {", pragma,
                         simd ? chunk->indent * 4 : 0, "", c, from, c, to, c),
               "}");
    if (chunked) {
        for (int i = 0; i < n; i++)
            if (float_sum(&b->insts.at[r[i]]))
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
        bool part = chunked && float_sum(v);
        emit_line(e, row, "const %s %s = %s%s_%s;", type_math(v->type), e->name[r[i]],
                  part ? "(float)" : "", e->name[r[i]], part ? "total" : "acc");
        emit_bind(e, r[i], row, e->name[r[i]]);
    }
}

static int64_t print_row(Emit *e, bool partial)
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
    int64_t part = (cols + split - 1) / split;
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
        emit_line(e, e->scope, "%s[%s] = %s;", scratch_of(e, k++), part_place(e, "part"),
                  e->name[red[i]]);
        if (inst_acc(v)->place)
            emit_line(e, e->scope, "%s[%s] = %s_best;", scratch_of(e, k++), part_place(e, "part"),
                      e->name[red[i]]);
    }
    emit_close(e, "for (long task = begin; task < end; task++) {", "}");
    return b->axis[0].extent * split;
}

// Joins the parts of each row in order, then whatever follows.
static int64_t print_combine(Emit *e)
{
    const Body *b = e->body;
    const char *r = e->axis[0];
    emit_open(e, 1);
    Scope *row = e->scope;
    int n;
    const int *red = stage_reductions(e, 0, &n);
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *v = &b->insts.at[red[i]];
        const char *t = float_sum(v) ? "double" : type_math(v->acc), *name = e->name[red[i]];
        const char *loop =
            emit_text(e, "for (long part = 0; part < %lld; part++)", (long long)b->sched.split);
        const char *x = emit_text(e, "%s[%s]", scratch_of(e, k++), part_place(e, "part"));
        if (inst_acc(v)->place) {
            const char *best = emit_text(e, "%s[%s]", scratch_of(e, k++), part_place(e, "part"));
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

// -- columns: one task a tile of neighbouring rows
// ---------------------------------------------------------------

static void bind_earlier(Emit *e, int stage)
{
    for (int s = 0; s < stage; s++) {
        int n;
        const int *r = stage_reductions(e, s, &n);
        for (int i = 0; i < n; i++)
            if (e->body->insts.at[r[i]].kind == KI_REDUCE)
                emit_bind(e, r[i], e->scope,
                          emit_text(e, "%s%s[%s - first]",
                                    float_sum(&e->body->insts.at[r[i]]) ? "(float)" : "",
                                    e->name[r[i]], e->axis[0]));
    }
}

static void close_tile_loop(Emit *e, bool simd)
{
    const char *r = e->axis[0];
    emit_close(e,
               emit_text(e, "%s%*sfor (long %s = first; %s < last; %s++) {",
                         simd ? "#pragma omp simd\n" : "", simd ? e->scope->up->indent * 4 : 0, "",
                         r, r, r),
               "}");
}

static int64_t print_column(Emit *e, bool partial)
{
    const Body *b = e->body;
    int64_t rows = b->axis[0].extent, cols = b->axis[b->col].extent,
            split = partial ? b->sched.split : 1;
    int64_t tile = b->sched.tile, tiles = rows > 0 ? (rows + tile - 1) / tile : 0,
            part = (cols + split - 1) / split;
    const char *c = e->axis[b->col];
    bool simd = plain_over(e, 0);
    emit_open(e, 0);
    Scope *task = e->scope;
    emit_line(e, task, "const long first = task / %lld * %lld;", (long long)split, (long long)tile);
    emit_line(e, task, "const long last = first + %lld < %lld ? first + %lld : %lld;",
              (long long)tile, (long long)rows, (long long)tile, (long long)rows);
    if (partial) {
        emit_line(e, task, "const long part = task %% %lld;", (long long)split);
        emit_line(e, task, "const long lo = part * %lld < %lld ? part * %lld : %lld;",
                  (long long)part, (long long)cols, (long long)part, (long long)cols);
        emit_line(e, task, "const long hi = lo + %lld < %lld ? lo + %lld : %lld;", (long long)part,
                  (long long)cols, (long long)part, (long long)cols);
    }
    const char *lo = partial ? "lo" : "0",
               *hi = partial ? "hi" : emit_text(e, "%lld", (long long)cols);
    for (int s = 0; s < b->nstages; s++) {
        int n;
        const int *r = stage_reductions(e, s, &n);
        for (int i = 0; i < n; i++) {
            const Inst *v = &b->insts.at[r[i]];
            const char *t = float_sum(v) && part > 1024 ? "double" : type_math(v->acc),
                       *name = e->name[r[i]];
            if (v->kind == KI_REDUCE && inst_acc(v)->place) {
                emit_line(e, task, "%s %s_best[%lld];", t, name, (long long)tile);
                t = "int32_t";
            }
            const char *array = v->kind == KI_SCAN ? emit_text(e, "%s_acc", name) : name;
            emit_line(e, task, "%s %s[%lld];", t, array, (long long)tile);
            emit_line(e, task, "for (long k = 0; k < last - first; k++)");
            emit_line(e, task, "    %s[k] = %s;", array,
                      v->kind == KI_SCAN || inst_acc(v)->place ? "0"
                                                               : emit_identity(e, v->op, v->acc));
        }
        emit_open(e, 1ull << b->col);
        emit_open(e, 1);
        bind_earlier(e, s);
        for (int i = 0; i < n; i++) {
            const Inst *v = &b->insts.at[r[i]];
            const char *slot = emit_text(e, "%s%s[%s - first]", e->name[r[i]],
                                         v->kind == KI_SCAN ? "_acc" : "", e->axis[0]);
            accumulate(e, r[i], slot,
                       emit_text(e, "%s_best[%s - first]", e->name[r[i]], e->axis[0]), c, lo);
        }
        emit_stores(e, s);
        close_tile_loop(e, simd);
        emit_close(e, emit_text(e, "for (long %s = %s; %s < %s; %s++) {", c, lo, c, hi, c), "}");
    }
    bool rest = partial;
    for (uint32_t i = 0; i < b->stores.n; i++) rest |= !store_over(b, &b->stores.at[i], b->col);
    if (!rest) {
        emit_close(e, "for (long task = begin; task < end; task++) {", "}");
        return tiles * split;
    }
    emit_open(e, 1);
    bind_earlier(e, b->nstages);
    if (partial) {
        int n;
        const int *r = stage_reductions(e, 0, &n);
        for (int i = 0, k = 0; i < n; i++) {
            emit_line(e, e->scope, "%s[%s] = %s;", scratch_of(e, k++), part_place(e, "part"),
                      e->bind[r[i]].text);
            if (inst_acc(&b->insts.at[r[i]])->place)
                emit_line(e, e->scope, "%s[%s] = %s_best[%s - first];", scratch_of(e, k++),
                          part_place(e, "part"), e->name[r[i]], e->axis[0]);
        }
    } else {
        emit_stores(e, -1);
    }
    close_tile_loop(e, simd);
    emit_close(e, "for (long task = begin; task < end; task++) {", "}");
    return tiles * split;
}

// -- functions
// -------------------------------------------------------------------------------------------------------

static void declare_buffers(Emit *e)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->bufs.n; i++) {
        const BodyBuf *u = &b->bufs.at[i];
        const char *name = e->buf_name[i];
        if (u->kind == KA_ERROR)
            emit_line(e, e->scope, "NcError *const %s = args[%u];", name, i);
        else if (u->kind == KA_LOOP_INDEX || u->kind == KA_INT)
            emit_line(e, e->scope, "const int64_t %s = *(const int64_t *)args[%u];", name, i);
        else if (u->kind == KA_SCRATCH)
            emit_line(e, e->scope, "%s *const restrict %s = args[%u];", type_math(u->type), name,
                      i);
        else
            emit_line(e, e->scope, "%s%s *const %s%s = args[%u];", u->written ? "" : "const ",
                      type_storage(u->type), u->in_place ? "" : "restrict ", name, i);
    }
    if (b->commits)
        emit_line(e, e->scope, "if (%s->code) return; // a check has failed: nothing is committed",
                  e->buf_name[b->error_buf]);
}

typedef enum Part { WHOLE, PARTIAL, COMBINE } Part;

// The text of one function after its name, and how many tasks it has.
static const char *print_part(const Kernel *k, const Body *b, bool pretty, Part part,
                              int64_t *tasks)
{
    Emit e = emit_begin(k, b, pretty, false);
    Buf out = buf_new(k->arena);
    Scope *root = emit_open(&e, 0);
    emit_line(&e, root, "void *const *args = arg;");
    declare_buffers(&e);
    if (part == COMBINE)
        *tasks = print_combine(&e);
    else if (b->sched.kind == SCHED_TILE)
        *tasks = tile_c(&e);
    else if (b->sched.kind == SCHED_MAP)
        *tasks = print_map(&e);
    else if (b->sched.kind == SCHED_ROW)
        *tasks = print_row(&e, part == PARTIAL);
    else
        *tasks = print_column(&e, part == PARTIAL);
    buf_printf(&out, "(void *arg, long begin, long end)\n{\n%s}\n\n", root->text.data);
    return out.data;
}

static double work_of(const Body *b)
{
    double n = (double)body_rows(b) * (b->insts.n + 1);
    if (b->col >= 0) n *= (double)b->axis[b->col].extent;
    for (int i = b->npar; i < b->naxes; i++)
        if (i != b->col) n *= (double)b->axis[i].extent;
    return n;
}

const char *print_c(Kernel *k, bool pretty)
{
    Buf out = buf_new(k->arena), calls = buf_new(k->arena);
    StrMap seen = strmap_new(k->arena); // function text -> its name: equal bodies are one function
    int functions = 0, arg = 0;
    for (int i = 0; i < k->nbodies; i++) {
        const Body *b = k->body[i];
        bool split = b->col >= 0 && b->sched.split > 1;
        for (Part p = split ? PARTIAL : WHOLE; p <= (split ? COMBINE : WHOLE); p++) {
            int64_t tasks;
            const char *text = print_part(k, b, false, p, &tasks), *name = strmap_get(&seen, text);
            if (!name) { // (the text for people shows the first of equal bodies)
                name = arena_printf(k->arena, "%s_%d", pretty ? "body" : k->symbol, functions++);
                strmap_set(&seen, text, (void *)name);
                buf_printf(&out, "static void %s%s", name,
                           pretty ? print_part(k, b, true, p, &tasks) : text);
            }
            buf_printf(&calls, "    nc_parallel(par, %lld, %.3g, %s, (void *)(args + %d));\n",
                       (long long)tasks,
                       p == COMBINE ? (double)tasks * (double)b->sched.split : work_of(b), name,
                       arg);
        }
        arg += (int)b->bufs.n;
    }
    buf_printf(&out, "void %s(void *const *args, const NcPar *par)\n{\n%s}\n",
               pretty ? k->name : k->symbol, calls.data);
    return out.data;
}
