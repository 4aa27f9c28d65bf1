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

static const char *loaded_place(Sweep *w, int load)
{
    const Inst *x = &w->b->insts.at[load];
    return emit_address(w->e, w->e->buf_name[x->buf], emit_index(w->e, x->ix));
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
    Steps t = {.index = "tile", .count = s->row.keep};
    const char *at = t.count > 1 ? emit_text(e, "(tile * %d + member)", s->team) : "member";
    t.place = emit_text(e, "const %s %s = %s%s%s;", w->t, w->first, w->uneven ? "head + " : "", at,
                        s->vector > 1 ? emit_text(e, " * %d", s->vector) : "");
    int64_t least = w->uneven ? least_between(w->b, w->cols) : w->cols;
    t.guard = steps_guard(e, &t, w->first, w->uneven ? "end" : emit_text(e, "%lld", w->cols),
                          least / ((int64_t)s->team * s->vector));
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

const char *sweep_shared_slot(Sweep *w, int load, bool edge)
{
    return edge ? emit_text(w->e, "%s_edge", w->of_row[0]->name[load])
                : emit_text(w->e, "%s%s", slot_name(w->of_row[0], load), sweep_in_tile(w));
}

const char *sweep_hold_place(Sweep *w, int load, const char *slot)
{
    const Schedule *s = &w->b->sched;
    const char *tile = emit_part(w->e, s->row.keep > 1 ? "tile" : "0", 1, 0, vector_step(w));
    if (!sweep_over_rows(w, load)) slot = "0";
    if (strchr(slot, '+')) slot = emit_text(w->e, "(%s)", slot);
    const char *row = emit_part(w->e, slot, 1, 0, s->row.keep * vector_step(w));
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
            emit(e, "%s %s[%d];", vec_type(e, load_dtype(w->b, at), w->v.width), slot_name(e, at),
                 s->row.keep);
        } else {
            emit(e, "%s *const %s = %s + %s;", t, hold_name(w, at), in_shared(e, t, offset),
                 emit_part(e, "threadIdx.x", 1, 0, w->v.width));
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
        if (!sweep_is_held(w, at) || sweep_over_rows(w, at)) continue;
        const char *slot = sweep_in_registers(w, at)
                               ? emit_text(e, "%s%s", slot_name(e, at), sweep_in_tile(w))
                               : slot_name(e, at);
        if (!sweep_in_registers(w, at))
            emit(e, "%s %s;", vec_type(e, load_dtype(w->b, at), w->v.width), slot);
        print_vector_load(e, &shared, at, slot);
        if (!sweep_in_registers(w, at))
            emit(e, "nc_store<%d>(%s, %s);", w->v.width, sweep_hold_place(w, at, "0"), slot);
    }
    sweep_close_tiles(w);
    if (!w->uneven) return;
    sweep_open_edges(w);
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (sweep_is_held(w, at) && !sweep_over_rows(w, at))
            emit(e, "%s_edge = %s[%s];", e->name[at], e->buf_name[w->b->insts.at[at].buf],
                 emit_index(e, w->b->insts.at[at].ix));
    }
    sweep_close_edges(w);
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
                 loaded_place(w, at));
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
    print_copies(w, together > 1 ? emit_plus(e, emit_part(e, slot, 1, 0, together), "r") : slot);
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
    sweep_open_edges(w);
    e->axis[0] = next;
    for (int i = 0; i < w->v.nloads; i++) {
        int at = w->v.loads[i];
        if (sweep_is_held(w, at) && sweep_over_rows(w, at))
            emit(e, "%s_edge_next = %s[%s];", e->name[at], e->buf_name[w->b->insts.at[at].buf],
                 emit_index(e, w->b->insts.at[at].ix));
    }
    e->axis[0] = row;
    sweep_close_edges(w);
    emit_end(e, "if (%s < %lld) {", next, w->rows);
}
