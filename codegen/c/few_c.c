// Maps with a very short axis, such as the colours of pixels or repeated elements: the elements of
// this axis are written out one after the other inside a loop over a longer axis. So vectors run
// along the longer axis, and values that are a few elements apart in memory (which compilers can
// interleave) are read and written once.
#include "codegen/c/print_c.h"

// Whether a load is contiguous along [axis], and its stride along the innermost axis is the extent
// of [axis]: rows of a few elements, transposed.
static bool is_turned(const Emit *e, int axis)
{
    const Body *b = e->body;
    int64_t along, across;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (e->live[i] && v->kind == KI_LOAD && !v->ix->has_value &&
            ix_stride(v->ix, axis, &across) && across == 1 &&
            ix_stride(v->ix, b->npar - 1, &along) && along == b->axis[axis].extent)
            return true;
    }
    return false;
}

// Whether no load and no store has a condition. (gcc 12.2 makes wrong vectors of neighbouring
// conditional loads, which read other addresses.)
static bool is_unconditional(const Emit *e)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (e->live[i] && b->insts.at[i].kind == KI_LOAD && b->insts.at[i].pred >= 0) return false;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].guard) return false;
    return true;
}

// Whether elements that follow each other along [axis] are close in memory wherever that is known.
// (gcc 12.2 interleaves all that lies between them: for rows of 4096 it takes minutes.)
static bool is_close(const Emit *e, int axis)
{
    enum { APART = 64 };
    const Body *b = e->body;
    int64_t step;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (e->live[i] && v->kind == KI_LOAD && ix_stride(v->ix, axis, &step) &&
            (step > APART || step < -APART))
            return false;
    }
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (s->buf >= 0 && ix_stride(s->ix, axis, &step) && (step > APART || step < -APART))
            return false;
    }
    return true;
}

static int along(const Body *b, int few)
{
    return few == b->npar - 1 ? few - 1 : b->npar - 1;
}

int few_axis_c(const Emit *e)
{
    enum { INSTS = 256, LEAST = 16 };
    const Body *b = e->body;
    int few = -1;
    if (b->npar < 2 || b->naxes > b->npar || !is_unconditional(e)) return -1;
    for (int i = b->npar; i-- > 0 && few < 0;) {
        const int64_t n = b->axis[i].extent;
        if (n > 1 && n <= BODY_FEW && (i == b->npar - 1 || is_turned(e, i))) few = i;
    }
    if (few < 0 || b->axis[along(b, few)].extent < LEAST ||
        b->axis[few].extent * (int64_t)b->insts.n > INSTS || !is_close(e, along(b, few)))
        return -1;
    return c_plain_over(e, few) && c_plain_over(e, along(b, few)) ? few : -1;
}

int64_t few_c(Emit *e, int few)
{
    enum { ELEMENTS = 4096, LINE = 64 }; // of a task; tasks begin at cache lines
    const Body *b = e->body;
    const int v = along(b, few);
    const char *a = e->axis[v], *f = e->axis[few];
    const long long extent = b->axis[v].extent, tile = ELEMENTS / b->axis[few].extent / LINE * LINE;
    int64_t tasks = ceil_div(extent, tile);
    emit_open(e, ((1ull << b->npar) - 1) & ~(1ull << few) & ~(1ull << v));
    emit(e, "const long first_%s = task %% %lld * %lld;", a, (long long)tasks, tile);
    emit(e, "const long last_%s = first_%s + %lld < %lld ? first_%s + %lld : %lld;", a, a, tile,
         extent, a, tile, extent);
    for (int i = b->npar; i-- > 0;) {
        if (i == few || i == v) continue;
        emit_declare(e, e->axis[i], "const long %s = task / %lld %% %lld;", e->axis[i],
                     (long long)tasks, (long long)b->axis[i].extent);
        tasks *= b->axis[i].extent;
    }
    c_open_loop(e, v, c_period(e, v, ROUND));
    for (long long k = 0; k < b->axis[few].extent; k++) {
        e->axis[few] = emit_text(e, "%lld", k);
        emit_open(e, 1ull << few);
        emit_stores(e, -1);
        emit_end(e, "{");
    }
    e->axis[few] = f;
    c_close_loop(e, emit_text(e, "first_%s", a), emit_text(e, "last_%s", a), false, C_SIMD);
    emit_end(e, "for (long task = begin; task < end; task++) {");
    return tasks;
}
