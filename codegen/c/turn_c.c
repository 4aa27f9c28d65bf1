// Short rows as C: the rows of a task are transposed (nc_turn), so that vectors run across rows and
// nothing has to be reduced within a vector.
#include "codegen/c/print_c.h"

// An access that is transposed through an array of the task, from or to rows that are [pitch]
// apart. Numbers of accesses count the instructions first, then the stores.
typedef struct Turned {
    const char *array;
    const Ix *at;
    int buf;
    int64_t pitch;
} Turned;

static bool turned(Emit *e, uint32_t i, Turned *out)
{
    const Body *b = e->body;
    if (b->sched.variant != RUN_BESIDE) return false;
    if (i < b->insts.n) {
        const Inst *v = &b->insts.at[i];
        if (!e->live[i] || v->kind != KI_LOAD) return false;
        *out = (Turned){.at = v->ix, .buf = v->buf, .array = emit_text(e, "%s_turned", e->name[i])};
    } else {
        const BodyStore *s = &b->stores.at[i - b->insts.n];
        if (s->buf < 0) return false;
        *out = (Turned){.at = s->ix, .buf = s->buf};
        out->array = emit_text(e, "out%u_turned", i - b->insts.n);
    }
    out->pitch = beside_pitch(b, out->at);
    return out->pitch > 0;
}

const char *turn_begin(Emit *e, int buf, const Ix *at, const int axis[2], const char *const to[2])
{
    const char *was[2] = {e->axis[axis[0]], e->axis[axis[1]]};
    for (int i = 0; i < 2; i++) e->axis[axis[i]] = to[i];
    const char *text = emit_text(e, "%s + (%s)", e->buf_name[buf], emit_index(e, at));
    for (int i = 0; i < 2; i++) e->axis[axis[i]] = was[i];
    return text;
}

// The address of the first row of the task.
static const char *begin_of(Emit *e, const Turned *t)
{
    return turn_begin(e, t->buf, t->at, (int[]){0, e->body->col}, (const char *[]){"first", "0"});
}

int turn_bits(const Body *b, int buf)
{
    return dtype_info[b->bufs.at[buf].type].bits;
}

void turn_in(Emit *e)
{
    const Body *b = e->body;
    const long long cols = b->axis[b->col].extent, task = b->sched.task;
    Turned t;
    for (uint32_t i = 0; i < b->insts.n + b->stores.n; i++) {
        if (!turned(e, i, &t)) continue;
        emit(e, "%s %s[%lld] NC_LINES;", type_storage(b->bufs.at[t.buf].type), t.array,
             cols * task);
        if (i < b->insts.n)
            emit(e, "nc_turn_%d(%s, %lld, last - first, %lld, %s, %lld);", turn_bits(b, t.buf),
                 begin_of(e, &t), (long long)t.pitch, cols, t.array, task);
    }
}

void turn_elements(Emit *e)
{
    const Body *b = e->body;
    Turned t;
    for (uint32_t i = 0; i < b->insts.n + b->stores.n; i++) {
        if (!turned(e, i, &t)) continue;
        const char *element = emit_text(e, "%s[%s * %lld + %s - first]", t.array, e->axis[b->col],
                                        (long long)b->sched.task, e->axis[0]);
        *(i < b->insts.n ? &e->element[i] : &e->place[i - b->insts.n]) = element;
    }
}

void turn_out(Emit *e)
{
    const Body *b = e->body;
    Turned t;
    for (uint32_t i = b->insts.n; i < b->insts.n + b->stores.n; i++)
        if (turned(e, i, &t))
            emit(e, "nc_turn_%d(%s, %lld, %lld, last - first, %s, %lld);", turn_bits(b, t.buf),
                 t.array, (long long)b->sched.task, (long long)b->axis[b->col].extent,
                 begin_of(e, &t), (long long)t.pitch);
}
