// Kernel IR as C: tasks run in parallel, inner loops are vectorised.
#include <string.h>

#include "codegen/text/accumulator.h"
#include "codegen/c/print_c.h"

// The position of the largest element of a row; also if columns are spread over lanes (row_c.c).
static bool has_place(const Emit *e, int axis)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (e->live[i] && v->kind == KI_REDUCE && v->axis == axis && inst_acc(v)->place)
            return true;
    }
    return false;
}

bool c_plain_over(const Emit *e, int axis)
{
    return c_plain_in_turns(e, axis) && !has_place(e, axis);
}

bool c_plain_in_turns(const Emit *e, int axis)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (!e->live[i]) continue;
        bool over = inst_over(v, axis) || (v->kind == KI_REDUCE && v->axis == axis);
        if (over && (v->kind == KI_CHECK || v->kind == KI_ASSERT || v->kind == KI_SCAN ||
                     (v->kind == KI_REDUCE && v->axis != b->col)))
            return false;
    }
    return true;
}

int64_t c_period(const Emit *e, int axis, int64_t least)
{
    const int64_t period = body_period(e->body, e->live, axis);
    return period >= least && c_plain_over(e, axis) ? period : 0;
}

void c_open_loop(Emit *e, int axis, int64_t period)
{
    e->round_axis = axis;
    e->period = period;
    if (e->period) {
        e->round = emit_text(e, "%s_round", e->axis[axis]);
        emit_open(e, 0);
    }
    emit_open(e, 1ull << axis);
}

void c_close_loop(Emit *e, const char *from, const char *to, bool whole, const char *pragma)
{
    const char *a = e->axis[e->round_axis], *r = e->round, *lo = from, *hi = to, *outer = NULL;
    long long by = e->period;
    if (by && whole && e->body->axis[e->round_axis].extent % by == 0) {
        lo = r;
        hi = emit_text(e, "%s + %lld", r, by);
        outer = emit_text(e, "for (long %s = %s; %s < %s; %s += %lld) {", r, from, r, to, r, by);
    } else if (by) {
        lo = emit_text(e, "%s_from", a);
        hi = emit_text(e, "%s_to", a);
        outer = emit_text(e,
                          "for (long %s = %s - %s %% %lld; %s < %s; %s += %lld) {\n"
                          "    const long %s = %s > %s ? %s : %s;\n"
                          "    const long %s = %s + %lld < %s ? %s + %lld : %s;",
                          r, from, from, by, r, to, r, by, lo, r, from, r, from, hi, r, by, to, r,
                          by, to);
    }
    emit_end(e, "%s%sfor (long %s = %s; %s < %s; %s++) {", pragma, *pragma ? "\n" : "", a, lo, a,
             hi, a);
    if (outer) emit_end(e, "%s", outer);
    e->period = 0;
}

const char *c_omp_reduction(Emit *e, const int *r, int n, const char *suffix)
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

bool c_integers(const Emit *e, const int *r, int n)
{
    for (int i = 0; i < n; i++)
        if (!dtype_is_float(e->body->insts.at[r[i]].acc)) return true;
    return false;
}

bool c_float_sum(const Inst *v)
{
    return v->kind == KI_REDUCE && op_info(v->op)->acc == ACC_SUM && math_bytes(v->acc) == 4 &&
           dtype_is_float(v->acc);
}

const char *c_acc_type(DType t)
{
    return t == DT_BOOL ? "uint8_t" : type_math(t);
}

const char *c_start(Emit *e, const Inst *v, const char *first)
{
    if (v->kind == KI_SCAN) return emit_identity(e, v->op, v->acc);
    return inst_acc(v)->place ? emit_text(e, "(int32_t)%s", first)
                              : emit_identity(e, v->op, v->acc);
}

void c_accumulate(Emit *e, int r, const char *acc, const char *best, const char *axis)
{
    const Inst *v = &e->body->insts.at[r];
    Scope *s = e->scope;
    const char *x = emit_value(e, v->a[0]);
    if (v->kind == KI_SCAN) {
        emit_scan(e, r, acc, x);
    } else if (inst_acc(v)->place) {
        // The first one if several are equal; NaN counts as the largest.
        const char *k = emit_text(e, "(int32_t)%s", axis), *name = e->name[r];
        if (!dtype_is_float(v->acc)) {
            emit_line(e, s, "%s = %s > %s ? %s : %s;", acc, x, best, k, acc);
            emit_line(e, s, "%s = %s > %s ? %s : %s;", best, x, best, x, best);
            return;
        }
        emit_line(e, s, "const %s %s_stays = nc_stays(%s, %s);",
                  math_bytes(v->acc) == 8 ? "int64_t" : "int32_t", name, best, x);
        emit_line(e, s, "%s = nc_either_i((int32_t)%s_stays, %s, %s);", acc, name, acc, k);
        emit_line(e, s, "%s = nc_either(%s_stays, %s, %s);", best, name, best, x);
    } else {
        emit_line(e, s, "%s = %s;", acc, emit_combine(e, v->op, v->acc, acc, x));
    }
}

const char *c_part_place(Emit *e, const char *part)
{
    const Body *b = e->body;
    if (b->sched.kind == SCHED_COLUMN)
        return emit_text(e, "%s * %lld + %s", part, (long long)b->axis[0].extent, e->axis[0]);
    return emit_text(e, "%s * %lld + %s", e->axis[0], (long long)b->sched.split, part);
}

// -- map ------------------------------------------------------------------------------------------

// A map with one axis: tasks are its elements, so the text does not depend on their number.
static int64_t print_flat(Emit *e)
{
    if (c_levels(e, 0, "begin", "end")) return e->body->axis[0].extent;
    const bool simd = c_plain_over(e, 0);
    c_open_pieces(e, 0, c_period(e, 0, ROUND), -1, simd);
    emit_stores(e, -1);
    c_close_pieces(e, "begin", "end", false, simd ? C_SIMD : "");
    return e->body->axis[0].extent;
}

// Chooses the axes that a task loops over, from [*from] on, and the part [*tile] of the first of
// them. Rows that are too short for a task are combined, so that the task number is divided into
// indices only once, and loops over whole axes surround the inner loop.
static void task_axes(const Body *b, int *from, int64_t *tile)
{
    enum { ELEMENTS = 4096, TASKS = 64 };
    int64_t most = body_rows(b) / TASKS, inside;
    most = most < ELEMENTS ? most : ELEMENTS;
    *from = b->npar - 1;
    inside = b->axis[*from].extent;
    *tile = b->sched.task;
    if (*tile < inside) return;
    while (*from > 0 && inside * 2 <= most) {
        int64_t extent = b->axis[--*from].extent, n = most / inside;
        *tile = extent < 2 * n ? extent : n;
        if (*tile < extent) return;
        inside *= extent;
    }
}

static int64_t print_map(Emit *e)
{
    const Body *b = e->body;
    int inner = b->npar - 1, from, few = few_axis_c(e);
    if (inner == 0) return print_flat(e);
    if (few >= 0) return few_c(e, few);
    int64_t tile;
    task_axes(b, &from, &tile);
    const char *first = e->axis[from];
    int64_t extent = b->axis[from].extent, tiles = extent > 0 ? ceil_div(extent, tile) : 0;
    int64_t outer = 1;
    for (int i = 0; i < from; i++) outer *= b->axis[i].extent;
    emit_open(e, (1ull << from) - 1);
    if (tiles > 1)
        emit(e, "const long begin_%s = task %% %lld * %lld;", first, (long long)tiles,
             (long long)tile);
    int64_t stride = tiles > 1 ? tiles : 1;
    for (int i = from; i-- > 0;) {
        const char *q = stride == 1 ? "task" : emit_text(e, "task / %lld", (long long)stride);
        emit_declare(e, e->axis[i], "const long %s = %s;", e->axis[i],
                     i == 0 ? q : emit_text(e, "%s %% %lld", q, (long long)b->axis[i].extent));
        stride *= b->axis[i].extent;
    }
    const char *lo = "0", *hi = emit_text(e, "%lld", (long long)extent);
    if (tiles > 1) {
        lo = emit_text(e, "begin_%s", first);
        emit(e, "const long end_%s = %s + %lld < %s ? %s + %lld : %s;", first, lo, (long long)tile,
             hi, lo, (long long)tile, hi);
        hi = emit_text(e, "end_%s", first);
    }
    for (int i = from; i < inner; i++) emit_open(e, 1ull << i);
    bool whole = from < inner || tiles <= 1;
    const char *begin = from < inner ? "0" : lo,
               *end = from < inner ? emit_text(e, "%lld", (long long)b->axis[inner].extent) : hi;
    if (!c_levels(e, inner, begin, end)) {
        const bool simd = c_plain_over(e, inner);
        c_open_pieces(e, inner, c_period(e, inner, ROUND), -1, simd);
        emit_stores(e, -1);
        c_close_pieces(e, begin, end, whole, simd ? C_SIMD : "");
    }
    for (int i = inner; i-- > from;) {
        const char *a = e->axis[i], *to = emit_text(e, "%lld", (long long)b->axis[i].extent);
        emit_end(e, "for (long %s = %s; %s < %s; %s++) {", a, i == from ? lo : "0", a,
                 i == from ? hi : to, a);
    }
    emit_end(e, "for (long task = begin; task < end; task++) {");
    return outer * tiles;
}

// -- functions ------------------------------------------------------------------------------------

static void declare_buffers(Emit *e)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->bufs.n; i++) {
        const BodyBuf *u = &b->bufs.at[i];
        const char *name = e->buf_name[i];
        if (u->kind == KA_ERROR)
            emit_declare(e, name, "NcError *const %s = args[%u];", name, i);
        else if (u->kind == KA_LOOP_INDEX || u->kind == KA_INT)
            emit_declare(e, name, "const int64_t %s = *(const int64_t *)args[%u];", name, i);
        else if (u->kind == KA_SCRATCH)
            emit_declare(e, name, "%s *const restrict %s = args[%u];", c_acc_type(u->type), name,
                         i);
        else
            emit_declare(e, name, "%s%s *const %s%s = args[%u];", u->written ? "" : "const ",
                         type_storage(u->type), u->in_place ? "" : "restrict ", name, i);
    }
    if (b->commits)
        emit(e, "if (%s->code) return; // a check has failed: nothing is committed",
             e->buf_name[b->error_buf]);
}

static int64_t print_body(Emit *e, bool partial)
{
    switch (e->body->sched.variant) {
    case RUN_MAP: return print_map(e);
    case RUN_TRANSPOSE: return turned_map_c(e);
    case RUN_ROWS: return row_c(e, partial);
    case RUN_SORT: return sort_c(e);
    case RUN_FIRST: return first_c(e);
    case RUN_TILES: return tile_c(e);
    case RUN_BESIDE:
    default: return column_c(e, partial);
    }
}

typedef enum Part { WHOLE, PARTIAL, COMBINE } Part;

// Inlined, a sine is a hundred instructions, and gcc's time grows with the square of a loop's
// length (25 s for 25 sines and 25 cosines). A function that needs more of them than this calls
// them, which makes it up to 1.6 times as slow.
enum { MOST_WAVES = 8 };

// The text of one function after its name. Sets the number of its tasks.
static const char *print_part(const Kernel *k, const Body *b, bool pretty, Part part,
                              int64_t *tasks)
{
    Emit e;
    Scope *root;
    bool called = false;
    for (;;) {
        e = emit_begin(k, b, pretty, false);
        e.called = called;
        root = emit_open(&e, 0);
        emit_declare(&e, "args", "void *const *args = arg;");
        declare_buffers(&e);
        *tasks = part == COMBINE ? combine_c(&e) : print_body(&e, part == PARTIAL);
        if (called || e.waves <= MOST_WAVES) break;
        called = true;
    }
    emit_finish(&e);
    Buf out = buf_new(k->arena);
    buf_printf(&out, "(void *arg, long begin, long end)\n{\n%s}\n\n", root->text.data);
    return out.data;
}

static double work_of(const Body *b)
{
    const int costly = 8; // in additions, when vectorized
    double each = 1;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        bool dear =
            v->kind == KI_RANDOM || (v->kind == KI_EW && op_info(v->op)->flags & OPF_COSTLY);
        each += dear ? costly : 1;
    }
    double n = (double)body_rows(b) * each;
    if (b->col >= 0) n *= (double)b->axis[b->col].extent;
    for (int i = b->npar; i < b->naxes; i++)
        if (i != b->col) n *= (double)b->axis[i].extent;
    return n;
}

// Bodies that run at the same time share one parallel loop of about ALL_UNITS units, of which each
// gets a number in proportion to its work. So many small bodies need only one fork.
enum { ALL_UNITS = 4096 };

typedef struct Call {
    const char *function;
    int64_t tasks;
    double work;
    int arg;
} Call;
typedef VEC(Call) Calls;

static void print_calls(Kernel *k, const char *symbol, const Calls *c, Buf *functions, Buf *calls)
{
    double work = 0;
    int64_t at = 0;
    for (uint32_t i = 0; i < c->n; i++) work += c->at[i].work;
    if (c->n == 1)
        buf_printf(calls, "    nc_parallel(par, %lld, %.3g, %s, (void *)(args + %d));\n",
                   (long long)c->at[0].tasks, work, c->at[0].function, c->at[0].arg);
    if (c->n < 2) return;
    const char *name = arena_printf(k->arena, "%s_all", symbol);
    buf_printf(functions, "NC_BODY void %s(void *arg, long begin, long end)\n{\n", name);
    buf_str(functions, "    void *const *args = arg;\n");
    for (uint32_t i = 0; i < c->n; i++) {
        const Call *x = &c->at[i];
        int64_t units = (int64_t)(ALL_UNITS * (work > 0 ? x->work / work : 0)) + 1;
        buf_printf(functions,
                   "    nc_share(begin, end, %lld, %lld, %lld, %s, (void *)(args + %d));\n",
                   (long long)at, (long long)units, (long long)x->tasks, x->function, x->arg);
        at += units;
    }
    buf_str(functions, "}\n\n");
    buf_printf(calls, "    nc_parallel(par, %lld, %.3g, %s, (void *)args);\n", (long long)at, work,
               name);
}

const char *print_c(Kernel *k, bool pretty)
{
    Buf out = buf_new(k->arena), calls = buf_new(k->arena);
    StrMap seen = strmap_new(k->arena); // function text -> its name: equal bodies share a function
    const char *symbol = pretty ? k->name : k->symbol;
    int functions = 0, arg = 0;
    Calls first = {0}, joins = {0};
    for (int i = 0; i < k->nbodies; i++) {
        const Body *b = k->body[i];
        bool split = b->col >= 0 && b->sched.split > 1;
        for (Part p = split ? PARTIAL : WHOLE; p <= (split ? COMBINE : WHOLE); p++) {
            Call c = {.arg = arg};
            const char *text = print_part(k, b, false, p, &c.tasks);
            c.function = strmap_get(&seen, text);
            if (!c.function) { // (the annotated text is that of the first of equal bodies)
                c.function = arena_printf(k->arena, "%s_%d", symbol, functions++);
                strmap_set(&seen, text, (void *)c.function);
                buf_printf(&out, "NC_BODY void %s%s", c.function,
                           pretty ? print_part(k, b, true, p, &c.tasks) : text);
            }
            c.work = p == COMBINE ? (double)c.tasks * (double)b->sched.split : work_of(b);
            vec_push(k->arena, p == COMBINE ? &joins : &first, c);
        }
        arg += (int)b->bufs.n;
    }
    print_calls(k, symbol, &first, &out, &calls);
    print_calls(k, arena_printf(k->arena, "%s_joins", symbol), &joins, &out, &calls);
    buf_printf(&out, "void %s(void *const *args, const NcPar *par)\n{\n%s}\n",
               pretty ? k->name : k->symbol, calls.data);
    return out.data;
}
