// Sorted rows on the CPU: the keys of a row and their positions are sorted by bytes in scratch
// memory of the task (nc_sort), and then every column stores the value that belongs there. Short
// rows are sorted by counting (lower_ordered.c).
#include "codegen/c/print_c.h"

enum { MOST_TASKS = 64 };

static int64_t tasks_of(const Body *b) // each has scratch memory for a row, and processes several
{
    return at_most(body_rows(b), MOST_TASKS);
}

static bool is_wide(const Inst *v)
{
    return math_bytes(v->acc) > 4;
}

void sort_c_scratch(Arena *a, Body *b, int *count)
{
    int at = body_sort(b);
    if (at < 0 || body_first(b)) return;
    const Inst *v = &b->insts.at[at];
    int64_t elems = tasks_of(b) * b->axis[b->col].extent;
    // two keys and positions per element, and the values
    int64_t pairs = elems * (is_wide(v) ? 4 : 2);
    BodyBuf u = {.kind = KA_SCRATCH, .type = DT_I64, .elems = pairs, .read = true, .written = true};
    u.scratch = (*count)++;
    vec_push(a, &b->bufs, u);
    if (v->places) return;
    u.type = v->acc;
    u.elems = elems;
    u.scratch = (*count)++;
    vec_push(a, &b->bufs, u);
}

int64_t sort_c(Emit *e)
{
    const Body *b = e->body;
    int at = body_sort(b);
    const Inst *v = &b->insts.at[at];
    const char *r = e->axis[0], *c = e->axis[b->col], *x = e->name[at], *s = is_wide(v) ? "l" : "w";
    long long rows = b->axis[0].extent, cols = b->axis[b->col].extent, tasks = tasks_of(b);
    emit_open(e, 0);
    emit(e, "NcPlace_%s *const %s_keys = (NcPlace_%s *)%s + task * %lld;", s, x, s,
         emit_scratch(e, 0), 2 * cols);
    if (!v->places) { // (for bool, the memory is bytes)
        const char *t = type_math(v->acc);
        emit(e, "%s *const %s_value = (%s *)%s + task * %lld;", t, x, t, emit_scratch(e, 1), cols);
    }
    emit_open(e, 1);
    Scope *row = e->scope;
    const char *columns = emit_text(e, "for (long %s = 0; %s < %lld; %s++) {", c, c, cols, c);
    emit_open(e, 1ull << b->col);
    const char *value = emit_value(e, v->a[0]);
    emit(e, "%s_keys[%s].key = %snc_key(%s%s);", x, c, v->down ? "~" : "",
         v->acc == DT_BOOL ? "(int32_t)" : "", value);
    emit(e, "%s_keys[%s].from = %s;", x, c, c);
    if (!v->places) emit(e, "%s_value[%s] = %s;", x, c, value);
    emit_end(e, "%s", columns);
    emit_line(e, row,
              "const NcPlace_%s *const %s_order = nc_sort_%s(%s_keys, %s_keys + %lld, %lld);", s, x,
              s, x, x, cols, cols);
    emit_open(e, 1ull << b->col);
    const char *from = emit_text(e, "%s_order[%s].from", x, c);
    emit(e, "const %s %s = %s;", type_math(v->type), x,
         v->places ? emit_text(e, "(int32_t)%s", from) : emit_text(e, "%s_value[%s]", x, from));
    emit_bind(e, at, e->scope, x);
    emit_stores(e, 0);
    emit_end(e, "%s", columns);
    emit_end(e, "for (long %s = task; %s < %lld; %s += %lld) {", r, r, rows, r, tasks);
    emit_end(e, "for (long task = begin; task < end; task++) {");
    return tasks;
}
