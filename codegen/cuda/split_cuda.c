// How ranges are divided, as CUDA C: into the steps of a thread, with guards only for steps that
// may be outside of the range; into parts, one per block; and, for rows that are not aligned, into
// the vectors between aligned positions and the single elements before and after them (edges).
#include <string.h>

#include "codegen/cuda/print_cuda.h"

// Where loads are issued ahead, all steps are guarded, needed or not (whole = 0). Without branches
// between the loads and their uses, NVRTC 13.0 moves each load to its use: sums of 512 columns then
// take 32 registers per thread instead of 64, and no loads are in flight.

// -- steps of a thread ----------------------------------------------------------------------------

const char *steps_guard(Emit *e, const Steps *s, const char *at, const char *end, int64_t whole)
{
    if (whole >= s->count) return NULL;
    if (whole < 1) return emit_text(e, "%s < %s", at, end);
    // No branch for each of the other steps, so that their loads overlap.
    return emit_text(e, "%s < %lld || %s < %s", s->index, (long long)whole, at, end);
}

Steps steps_at(Emit *e, const char *index, int count, const char *name, const char *at,
               const char *end, int64_t whole)
{
    Steps s = {.index = index, .count = count};
    s.place = emit_text(e, "const %s %s = %s;", int_type(e), name, at);
    s.guard = steps_guard(e, &s, name, end, whole);
    return s;
}

const char *steps_slot(Emit *e, const Steps *s)
{
    return s->count > 1 ? emit_text(e, "[%s]", s->index) : "[0]";
}

// Splits a number into the indices of the axes before [naxes]; the last of these has [stride].
static void print_position(Emit *e, const char *number, int64_t stride, int naxes)
{
    const Body *b = e->body;
    for (int i = naxes; i-- > 0;) {
        const char *q =
            stride == 1 ? number : emit_text(e, "nc_quo(%s, %lld)", number, (long long)stride);
        if (b->axis[i].extent == 1) q = "0";
        emit_int(e, e->axis[i], "%s",
                 i == 0 || b->axis[i].extent == 1
                     ? q
                     : emit_text(e, "nc_rem(%s, %lld)", q, extent_of(b, i)));
        stride *= b->axis[i].extent;
    }
}

void open_steps(Emit *e, const Steps *s)
{
    if (s->place || s->count > 1) emit_open(e, s->guard ? 0 : s->axes);
    if (s->place && s->placed)
        emit_declare(e, s->placed, "%s", s->place);
    else if (s->place)
        emit(e, "%s", s->place);
    if (s->guard) emit_open(e, s->axes);
    if (s->inside) emit(e, "%s", s->inside);
    if (s->number) print_position(e, s->number, s->stride, s->naxes);
}

void close_steps(Emit *e, const Steps *s)
{
    if (s->guard) emit_end(e, "if (%s) {", s->guard);
    if (s->count > 1) {
        emit_unrolled(e, "for (int %s = 0; %s < %d; %s++) {", s->index, s->index, s->count,
                      s->index);
    } else if (s->place) {
        emit_end(e, "{");
    }
}

void load_steps(Emit *e, const Vectors *v, const bool *ahead, const Steps *s)
{
    bool any = false;
    for (int i = 0; i < v->nloads; i++) {
        const int load = v->loads[i];
        any |= ahead[load];
        if (ahead[load] && chosen_load(e, load) == load)
            emit(e, "%s %s[%d];", slot_type(e, v, load), slot_name(e, load), s->count);
    }
    if (!any) return;
    open_steps(e, s);
    for (int i = 0; i < v->nloads; i++)
        if (ahead[v->loads[i]])
            print_vector_load(e, v, v->loads[i],
                              emit_text(e, "%s%s", slot_name(e, v->loads[i]), steps_slot(e, s)));
    close_steps(e, s);
}

// -- parts of the columns -------------------------------------------------------------------------

void declare_part(Emit *e, int64_t columns)
{
    const long long cols = e->body->axis[e->body->col].extent, part = columns;
    emit_int(e, "lo", "part * %lld < %lld ? part * %lld : %lld", part, cols, part, cols);
    emit_int(e, "hi", "lo + %lld < %lld ? lo + %lld : %lld", part, cols, part, cols);
}

// -- rows that are not aligned --------------------------------------------------------------------

void declare_edges(Emit *e, const char *lo, const char *hi)
{
    const Body *b = e->body;
    int width = b->sched.vector, margin = b->sched.row.margin;
    bool whole = !strcmp(lo, "0");
    const char *from = whole ? "" : emit_text(e, " - %s", lo),
               *first = emit_index_at(e, b->uneven, b->col, lo);
    emit(e, "const int head = %s(int)(-(%s) & %d);", whole ? "" : emit_text(e, "%s + ", lo), first,
         b->sched.row.line - 1);
    const char *last = margin ? emit_text(e, "%s - %d", hi, margin) : hi;
    const char *vectors = emit_text(e, "(%s - head) / %d * %d", last, width, width);
    if (margin && !whole) vectors = emit_text(e, "(%s > head ? %s : 0)", last, vectors);
    emit(e, "const int end = head + %s;", vectors);
    emit(e, "const int edges = head%s + %s - end;", from, hi);
    emit(e, "const int edge = member + (member < head%s ? %s : end - head%s);", from,
         whole ? "0" : lo, whole ? "" : emit_text(e, " + %s", lo));
}

int64_t least_between(const Body *b, int64_t cols)
{
    const Schedule *s = &b->sched;
    int64_t least = cols - (s->row.line - 1) - s->row.margin;
    return least > 0 ? least / s->vector * s->vector : 0;
}

void open_edge(Emit *e)
{
    emit_open(e, 1ull << e->body->col);
    emit_int(e, e->axis[e->body->col], "edge");
}

void close_edge(Emit *e, const char *only)
{
    emit_if(e, emit_and(e, only ? only : "", "member < edges"));
}

void store_between(const Emit *e, Vectors *v)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->stores.n && i < MAX_STORES; i++) {
        const BodyStore *s = &b->stores.at[i];
        v->store[i] = s->buf >= 0 && !s->joins && !s->guard && !s->fold && s->ix &&
                      body_aligned(b, s->ix, v->width) && v->width * element_bytes(b, s->buf) <= 32;
    }
}
