// The data that a thread of a sweep holds, as CUDA C: its columns, its share of the next rows in
// shared memory, its elements at the edges, and values that all rows share.
#include <string.h>

#include "codegen/cuda/sweep_cuda.h"

bool sweep_over_rows(const Sweep *w, int load)
{
    return w->b->insts.at[load].axes >> 0 & 1;
}

bool sweep_is_held(const Sweep *w, int load)
{
    return sweep_held(w->b, &w->b->insts.at[load]);
}

bool sweep_in_registers(const Sweep *w, int load)
{
    return !sweep_over_rows(w, load) && w->b->sched.row.keep_in == KEEP_REGISTERS;
}

const char *sweep_in_tile(const Sweep *w)
{
    return w->b->sched.row.keep > 1 ? "[tile]" : "[0]";
}

// -- rows of a turn -------------------------------------------------------------------------------

void sweep_take_row(Sweep *w, int r)
{
    Scope *s = w->e->scope;
    w->row = r;
    w->e = w->of_row[r];
    w->e->scope = s;
}

static void *copied(Arena *a, const void *from, size_t bytes)
{
    return memcpy(arena_alloc(a, bytes), from, bytes);
}

Emit *sweep_another_row(const Emit *e, int r)
{
    Emit *o = copied(e->arena, e, sizeof *e);
    size_t n = e->body->insts.n + 1;
    o->bind = copied(e->arena, e->bind, n * sizeof *e->bind);
    o->name = NEW_ARRAY(e->arena, const char *, n);
    o->element = NEW_ARRAY(e->arena, const char *, n);
    o->inverse = NEW_ARRAY(e->arena, const char *, n);
    o->inverse_in = NEW_ARRAY(e->arena, Scope *, n);
    o->axis = copied(e->arena, e->axis, BODY_MAX_AXES * sizeof *e->axis);
    const char *end = emit_text(o, "_r%d", r);
    for (size_t i = 0; i + 1 < n; i++) {
        size_t have = e->name[i] ? strlen(e->name[i]) : 0, tail = strlen(end);
        if (have < tail || strcmp(e->name[i] + have - tail, end) != 0) continue;
        end = emit_text(o, "_%s", end);
        i = (size_t)-1; // restart with the new suffix
    }
    for (size_t i = 0; i + 1 < n; i++)
        if (e->name[i]) o->name[i] = emit_text(o, "%s%s", e->name[i], end);
    o->own_axis = copied(e->arena, e->own_axis, BODY_MAX_AXES * sizeof *e->own_axis);
    o->axis[0] = o->own_axis[0] = emit_text(o, "%s%s", e->axis[0], end);
    return o;
}

// The condition that the row being printed exists; NULL: always.
static const char *row_guard(const Sweep *w)
{
    if (!w->in_row) return NULL;
    return w->row ? emit_text(w->e, "more_%d", w->row) : w->even ? NULL : "mine";
}

// A thread's vectors of columns: one per tile.
static Steps tiles_of(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    const char *row = row_guard(w);
    int64_t least = w->uneven ? least_between(w->b, w->cols) : w->cols;
    Steps t = steps_at(
        e, "tile", s->row.keep, w->first, emit_plus(e, w->uneven ? "head" : "0", member_column(e)),
        w->uneven ? "end" : emit_number(e, w->cols), least / ((int64_t)s->team * s->vector));
    if (row) t.guard = t.guard ? emit_text(e, "%s && (%s)", row, t.guard) : row;
    return t;
}

void sweep_open_tiles(Sweep *w)
{
    const Steps t = tiles_of(w);
    open_steps(w->e, &t);
    w->e->axis[w->b->col] = w->first;
}

void sweep_close_tiles(Sweep *w)
{
    const Steps t = tiles_of(w);
    w->e->axis[w->b->col] = w->col;
    close_steps(w->e, &t);
}

void sweep_open_edges(Sweep *w)
{
    open_edge(w->e);
    w->edges = true;
}

void sweep_close_edges(Sweep *w)
{
    close_edge(w->e, row_guard(w));
    w->edges = false;
}

// Loads the elements at the edges of held loads: those that vary over the [rows], or the others.
static void load_edges(Sweep *w, bool rows)
{
    Emit *e = w->e;
    sweep_open_edges(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (sweep_is_held(w, at) && sweep_over_rows(w, at) == rows)
            emit(e, "%s_edge%s = %s;", e->name[at], rows ? "_next" : "", emit_element(e, at));
    }
    sweep_close_edges(w);
}

// -- held loads -----------------------------------------------------------------------------------

static const char *hold_name(Sweep *w, int load)
{
    return emit_text(w->e, "%s_%s", w->of_row[0]->name[load],
                     sweep_over_rows(w, load) ? "rows" : "held");
}

// The distance in shared memory, in elements, between a thread's consecutive vectors of one row.
static int vector_step(const Sweep *w)
{
    return w->b->sched.threads * w->b->sched.vector;
}

const char *sweep_hold_place(Sweep *w, int load, const char *slot)
{
    const Schedule *s = &w->b->sched;
    const char *tile = emit_scaled(w->e, s->row.keep > 1 ? "tile" : "0", vector_step(w));
    if (!sweep_over_rows(w, load)) slot = "0";
    if (strchr(slot, '+')) slot = emit_text(w->e, "(%s)", slot);
    const char *row = emit_scaled(w->e, slot, s->row.keep * vector_step(w));
    return emit_plus(w->e, hold_name(w, load), emit_plus(w->e, row, tile));
}

void sweep_declare_held(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    int64_t offset = 0;
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        const char *t = type_storage(load_dtype(w->b, at));
        if (!sweep_is_held(w, at)) continue;
        if (sweep_in_registers(w, at)) {
            emit(e, "%s %s[%d];", slot_type(e, &w->v, at), slot_name(e, at), s->row.keep);
        } else {
            emit(e, "%s *const %s = %s + %s;", t, hold_name(w, at), in_shared(e, t, offset),
                 emit_scaled(e, "threadIdx.x", w->v.width));
            offset += sweep_held_bytes(w->b, &w->b->insts.at[at]);
        }
        for (int r = 0; w->uneven && r < (sweep_over_rows(w, at) ? s->sweep.together : 1); r++)
            emit(e, "%s %s_edge%s = 0;", t, w->of_row[r]->name[at],
                 sweep_over_rows(w, at) ? "_next" : "");
    }
}

// Loads the values that all rows share, once.
void sweep_fetch_shared(Sweep *w)
{
    Emit *e = w->e;
    Vectors shared = w->v;
    bool *any = NEW_ARRAY(e->arena, bool, w->b->insts.n + 1);
    for (int i = 0; i < w->v.nloads; i++) any[w->v.loads[i]] = w->uneven;
    shared.any = any;
    sweep_open_tiles(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        const char *slot = slot_name(e, at);
        if (!sweep_is_held(w, at) || sweep_over_rows(w, at)) continue;
        if (sweep_in_registers(w, at)) {
            print_vector_load(e, &shared, at, emit_text(e, "%s%s", slot, sweep_in_tile(w)));
            continue;
        }
        emit(e, "%s %s;", slot_type(e, &w->v, at), slot);
        print_vector_load(e, &shared, at, slot);
        emit(e, "nc_store<%d>(%s, %s);", w->v.width, sweep_hold_place(w, at, "0"), slot);
    }
    sweep_close_tiles(w);
    if (w->uneven) load_edges(w, false);
}

// Copies the row "next", if there is one, into a slot.
static void print_copies(Sweep *w, const char *slot)
{
    Emit *e = w->e;
    const char *row = e->axis[0];
    emit_open(e, 0);
    e->axis[0] = "next";
    sweep_open_tiles(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (sweep_is_held(w, at) && sweep_over_rows(w, at))
            emit(e, "nc_copy<%d>(%s, %s);", w->v.width, sweep_hold_place(w, at, slot),
                 emit_place(e, at));
    }
    sweep_close_tiles(w);
    e->axis[0] = row;
    emit_end(e, "if (next < %lld) {", w->rows);
}

void sweep_print_turn(Sweep *w, const char *begin, const char *slot)
{
    Emit *e = w->e;
    int together = w->b->sched.sweep.together;
    emit_open(e, 0);
    emit(e, "const %s next = %s%s;", w->t, begin,
         together > 1 ? emit_text(e, " + r * %lld", w->step) : "");
    print_copies(w, together > 1 ? emit_plus(e, emit_scaled(e, slot, together), "r") : slot);
    emit_end(e, "%s",
             together > 1 ? emit_text(e, "for (int r = 0; r < %d; r++) {", together) : "{");
    emit(e, "nc_copies_end();");
}

// Elements at the edges are not copied to shared memory: registers hold those of the next turn.
void sweep_fetch_edges(Sweep *w, const char *next)
{
    Emit *e = w->e;
    const char *row = e->axis[0];
    if (w->row) next = emit_text(e, "(%s + %lld)", next, w->step * w->row);
    emit_open(e, 0);
    e->axis[0] = next;
    load_edges(w, true);
    e->axis[0] = row;
    emit_end(e, "if (%s < %lld) {", next, w->rows);
}
