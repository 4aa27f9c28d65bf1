// The first elements of rows in order on the CPU: those found so far are held in order, and an
// element that comes before the last of them is inserted. Of a row in random order few are.
#include "codegen/c/print_c.h"

enum { MOST_TASKS = 64 };

int64_t first_c(Emit *e)
{
    const Body *b = e->body;
    const int at = body_sort(b);
    const Inst *v = &b->insts.at[at];
    const char *r = e->axis[0], *c = e->axis[b->col], *x = e->name[at], *type = type_math(v->type),
               *key = math_bytes(v->acc) > 4 ? "uint64_t" : "uint32_t";
    const long long rows = body_rows(b), cols = extent_of(b, b->col), first = body_first(b),
                    last = first - 1, tasks = at_most(rows, MOST_TASKS);
    emit_open(e, 0);
    emit_open(e, 1);
    // Aligned, because gcc 12 copies 48 bytes of an array below the stack pointer by an aligned
    // load of the last 16 that are not.
    emit(e, "%s %s_key[%lld] NC_LINES;", key, x, first);
    emit(e, "%s %s_held[%lld] NC_LINES;", type, x, first);
    emit(e, "long %s_n = 0;", x);
    emit_open(e, 1ull << b->col);
    const char *value = emit_value(e, v->a[0]);
    emit(e, "const %s %s_new = %snc_key(%s%s);", key, x, v->down ? "~" : "",
         v->acc == DT_BOOL ? "(int32_t)" : "", value);
    emit(e, "if (%s_n == %lld && %s_new >= %s_key[%lld]) continue;", x, first, x, x, last);
    emit(e, "long %s_at = %s_n < %lld ? %s_n++ : %lld;", x, x, first, x, last);
    emit(e, "for (; %s_at > 0 && %s_new < %s_key[%s_at - 1]; %s_at--) {", x, x, x, x, x);
    emit(e, "    %s_key[%s_at] = %s_key[%s_at - 1];", x, x, x, x);
    emit(e, "    %s_held[%s_at] = %s_held[%s_at - 1];", x, x, x, x);
    emit(e, "}");
    emit(e, "%s_key[%s_at] = %s_new;", x, x, x);
    emit(e, "%s_held[%s_at] = %s;", x, x, v->places ? emit_text(e, "(int32_t)%s", c) : value);
    emit_end(e, "for (long %s = 0; %s < %lld; %s++) {", c, c, cols, c);
    emit_open(e, 1ull << b->col);
    emit(e, "const %s %s = %s_held[%s];", type, x, x, c);
    emit_bind(e, at, e->scope, x);
    emit_stores(e, 0);
    emit_end(e, "for (long %s = 0; %s < %lld; %s++) {", c, c, first, c);
    emit_end(e, "for (long %s = task; %s < %lld; %s += %lld) {", r, r, rows, r, tasks);
    emit_end(e, "for (long task = begin; task < end; task++) {");
    return tasks;
}
