// Loads of which a thread needs one, such as those of a concatenation's operands: all of them share
// one vector, which is loaded from a place chosen before the loop over the columns.
#include "codegen/cuda/print_cuda.h"

static bool is_among(const Emit *e, int load, int first)
{
    return e->live[load] && inst_choice(e->body, load, e->body->sched.vector) == first;
}

int chosen_load(const Emit *e, int load)
{
    const Schedule *s = &e->body->sched;
    const bool chooses = s->kind == SCHED_COLUMN && s->variant == RUN_COLUMNS && !e->body->uneven;
    return chooses ? inst_choice(e->body, load, s->vector) : load;
}

// How many loads share the vector of load [first].
static int sharing(const Emit *e, int first)
{
    int n = 0;
    for (int i = first; i < (int)e->body->insts.n; i++) n += is_among(e, i, first);
    return chosen_load(e, first) == first ? n : 0;
}

static int64_t column_step(const Emit *e, int load)
{
    int64_t step = 0;
    ix_stride(e->body->insts.at[load].ix, e->body->col, &step);
    return step;
}

static const Ix *along_columns(const Emit *e, int64_t step)
{
    const Body *b = e->body;
    return ix_scale(b->ix, ix_axis(b->ix, b->col, b->axis[b->col].extent), step);
}

// Whether the columns have the same distance in memory for all loads of load [first]'s vector.
static bool keeps_step(const Emit *e, int first)
{
    for (int i = first; i < (int)e->body->insts.n; i++)
        if (is_among(e, i, first) && column_step(e, i) != column_step(e, first)) return false;
    return true;
}

// Whether each line of memory is read once, by one thread, and nothing is written there.
static bool is_streamed(const Emit *e, const Vectors *v, int first)
{
    bool all = v->streams;
    for (int i = first; i < (int)e->body->insts.n; i++) {
        if (!is_among(e, i, first)) continue;
        const BodyBuf *from = &e->body->bufs.at[e->body->insts.at[i].buf];
        all &= !from->written && !from->in_place;
    }
    return all;
}

bool shares_vector(const Emit *e, int load)
{
    return sharing(e, load) > 1;
}

void print_choice(Emit *e, const Vectors *v, int first)
{
    const Body *b = e->body;
    const char *name = e->name[first];
    const bool same = keeps_step(e, first);
    const char *position = emit_text(e, "%s_position", name);
    emit_int(e, position, "%s",
             emit_index_at(e, b->insts.at[b->insts.at[first].position].ix, 0, v->base));
    emit(e, "const %s *%s_at = nullptr;", type_storage(load_dtype(b, first)), name);
    if (!same) emit(e, "int %s_step = 0;", name);
    for (int i = first; i < (int)b->insts.n; i++) {
        const Inst *x = &b->insts.at[i];
        if (!is_among(e, i, first)) continue;
        const Ix *at = ix_add(b->ix, x->ix, along_columns(e, -column_step(e, i)));
        emit(e, "if (%s >= %lld && %s < %lld) %s_at = %s%s;", position, (long long)x->needed_from,
             position, (long long)x->needed_to, name,
             emit_address(e, e->buf_name[x->buf], emit_index_at(e, at, 0, v->base)),
             same ? "" : emit_text(e, ", %s_step = %lld", name, (long long)column_step(e, i)));
    }
}

const char *choice_text(Emit *e, const Vectors *v, int first)
{
    const Body *b = e->body;
    const char *name = e->name[first], *at;
    if (keeps_step(e, first))
        at = emit_index(e, along_columns(e, column_step(e, first)));
    else
        at = emit_text(e, "%s * %s_step", e->axis[b->col], name);
    return emit_text(e, "%s_at ? nc_%s<%d>(%s) : NcVec<%s, %d>{}", name,
                     is_streamed(e, v, first) ? "fetch" : "load", v->width,
                     emit_address(e, emit_text(e, "%s_at", name), at),
                     type_storage(load_dtype(b, first)), v->width);
}
