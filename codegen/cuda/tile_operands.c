// Operands of tile programs as CUDA C: copied asynchronously if they are plain aligned arrays,
// otherwise computed into registers and stored to shared memory from there.
#include "codegen/cuda/tile_print.h"

void slots_open(Emit *e, int threads, const char *thread)
{
    emit_open(e, 0);
    emit(e, "const int slot = u * %d + %s;", threads, thread);
}

void slots_close(Emit *e, int n, int threads, const char *thread)
{
    const char *there = n % threads ? emit_text(e, " && u * %d + %s < %d", threads, thread, n) : "";
    emit_unrolled(e, "for (int u = 0; u < %d%s; u++) {", (int)ceil_div(n, threads), there);
}

// Opens a loop over u, and declares the line, and the vector in it, that this thread processes.
static void open_vectors(Emit *e, const TileProgram *p, const Tile *t)
{
    slots_open(e, e->body->sched.threads, "threadIdx.x");
    emit(e, "const int line = slot / %d, part = slot %% %d;", t->line / p->vector,
         t->line / p->vector);
}

static void close_vectors(Emit *e, const TileProgram *p, const Tile *t)
{
    slots_close(e, t->lines * t->line / p->vector, e->body->sched.threads, "threadIdx.x");
}

// The address of that vector in shared memory.
static const char *vector_place(Emit *e, const TileProgram *p, const Tile *t)
{
    const char *at = t->layout == L_PAD ? emit_text(e, "line * %d + part * %d", t->pitch, p->vector)
                                        : emit_text(e, "nc_swizzled<%d, %s>(line, part)", t->line,
                                                    t->along_k ? "true" : "false");
    return emit_text(e, "%s + place * %d + %s", t->name, t->lines * t->pitch, at);
}

// Whether all tiles are completely inside of the matrix along the axis.
static bool inside(const TileProgram *p, const Tile *t, int axis)
{
    const Body *b = p->body;
    int64_t side =
        axis != b->col ? (t->along_k ? t->lines : t->line) : (int64_t)b->sched.tile.k * p->cluster;
    return b->axis[axis].extent % side == 0;
}

static const char *origin(const Tile *t)
{
    return t->axis == 1 ? "origin_m" : "origin_n";
}

const char *operand_there(Emit *e, const Tile *t, bool rows_inside, bool columns_inside)
{
    const Body *b = e->body;
    const int pred = b->insts.at[t->inst].pred;
    const char *given = pred >= 0 ? emit_value(e, pred) : "",
               *row = emit_below(e, e->axis[t->axis], b->axis[t->axis].extent, rows_inside),
               *column = emit_below(e, e->axis[b->col], b->axis[b->col].extent, columns_inside);
    return emit_and(e, emit_and(e, row, column), given);
}

void operand_copy(Emit *e, const TileProgram *p, const Tile *t)
{
    const Body *b = e->body;
    const char *k = e->axis[b->col], *own = e->axis[t->axis];
    open_vectors(e, p, t);
    e->scope->axes = 1ull << t->axis | 1ull << b->col;
    emit_int(e, t->along_k ? own : k, "%s + line", t->along_k ? origin(t) : "next");
    emit_int(e, t->along_k ? k : own, "%s + part * %d", t->along_k ? "next" : origin(t), p->vector);
    const char *there = operand_there(e, t, inside(p, t, t->axis), inside(p, t, b->col)),
               *from = emit_place(e, t->inst);
    emit(e, "nc_copy16(%s, %s, %s);", vector_place(e, p, t), from, *there ? there : "true");
    close_vectors(e, p, t);
}

// Declares an index along an axis, clamped to the last [width] elements.
static void name_inside(Emit *e, int axis, const char *name, const char *place, int width)
{
    long long last = extent_of(e->body, axis) - width;
    emit_int(e, name, "%s < %lld ? %s : %lld", place, last, place, last);
}

// Outside of the matrix, elements at the edge are read instead and, along the columns, replaced by
// zeros: loads inside of branches would not be in flight together.
void operand_fetch(Emit *e, const TileProgram *p, const Tile *t, const char *at)
{
    if (t->layout == L_ACROSS) {
        plain_fetch(e, t);
        return;
    }
    const Body *b = e->body;
    int inner = t->along_k ? b->col : t->axis, outer = t->along_k ? t->axis : b->col;
    const char *first = emit_text(e, "%s_first", e->axis[inner]),
               *kept = emit_text(e, "%s_next[%su]", t->name, at),
               *to = p->atom->pack ? emit_text(e, "%s_of", t->name) : kept,
               *line = emit_text(e, "%s + line", t->along_k ? origin(t) : "next"),
               *part = emit_text(e, "%s + part * %d", t->along_k ? "next" : origin(t), p->vector);
    // as_one: a vector is inside or outside as a whole.
    bool as_one = b->axis[inner].extent % p->vector == 0, whole = inside(p, t, inner);
    open_vectors(e, p, t);
    name_inside(e, outer, e->axis[outer], line, 1);
    if (as_one)
        name_inside(e, inner, first, part, p->vector);
    else
        emit_int(e, first, "%s", part);
    if (p->atom->pack)
        emit(e, "NcVec<float, %d> %s = {};", p->vector, to);
    else
        emit(e, "%s = {};", to);
    emit_open(e, 1ull << outer); // values that depend on the line only are computed here, once
    operand_vector(e, t->inst, inner, p->vector, whole || as_one, first,
                   emit_text(e, "%s.at[v]", to));
    emit_end(e, "{");
    if (p->atom->pack) emit(e, "%s = %s(%s);", kept, p->atom->pack, to);
    if (!inside(p, t, b->col) && (!t->along_k || as_one))
        emit(e, "if (%s >= %lld) %s = {};", t->along_k ? part : line, extent_of(b, b->col), kept);
    close_vectors(e, p, t);
}

void operand_put(Emit *e, const TileProgram *p, const Tile *t, const char *at)
{
    if (t->layout == L_ACROSS) {
        plain_put(e, t);
        return;
    }
    open_vectors(e, p, t);
    emit(e, "nc_store<%d>(%s, %s_next[%su]);", p->vector, vector_place(e, p, t), t->name, at);
    close_vectors(e, p, t);
}
