// Maps with interleaved loads (ir/interleaved.c) as CUDA C: a thread has a vector of the innermost
// axis for all phases. It loads the runs of elements that these need, in pieces of 16 bytes where
// they are aligned, and every phase takes its elements from registers.
#include "codegen/cuda/print_cuda.h"

static bool is_run(const Emit *e, int i)
{
    return e->live[i] && body_interleaves(e->body, &e->body->insts.at[i]);
}

// The outer axes but the phases, from the number of the thread's vector.
static void print_place(Emit *e, uint64_t phases)
{
    const Body *b = e->body;
    const int inner = b->npar - 1;
    int64_t stride = b->axis[inner].extent / b->sched.vector, left = body_rows(b) / stride;
    left /= b->sched.vector * body_phases(b, phases);
    for (int i = inner; i-- > 0;) {
        const int64_t extent = b->axis[i].extent;
        if (phases >> i & 1) continue;
        const char *at = emit_text(e, "nc_quo(j, %lld)", (long long)stride);
        if (extent < left) at = emit_text(e, "nc_rem(%s, %lld)", at, (long long)extent);
        emit_int(e, e->axis[i], "%s", extent == 1 ? "0" : at);
        stride *= extent;
        left /= extent;
    }
}

// Loads the run of elements of a vector for all phases.
static void print_run(Emit *e, const Vectors *v, int load, uint64_t phases)
{
    const Body *b = e->body;
    const Inst *x = &b->insts.at[load];
    const int piece = body_interleaved_piece(b, x, phases);
    const Ix *from = x->ix;
    int64_t step, stride;
    ix_stride(from, v->axis, &step);
    for (int i = 0; i < v->axis; i++)
        if (phases >> i & 1 && ix_stride(from, i, &stride))
            from =
                ix_add(b->ix, from, ix_scale(b->ix, ix_axis(b->ix, i, b->axis[i].extent), -stride));
    const int count = (int)(step * v->width / piece);
    const char *own = e->axis[v->axis], *name = slot_name(e, load);
    e->axis[v->axis] = v->base;
    const char *at = emit_index(e, from);
    e->axis[v->axis] = own;
    emit(e, "%s %s[%d];", vec_type(e, load_dtype(b, load), piece), name, count);
    emit_each(e, "piece", count, "%s[%s] = nc_%s<%d>(&%s[%s]);", name, emit_count("piece", count),
              load_word(e, x), piece, e->buf_name[x->buf],
              emit_plus(e, at, emit_scaled(e, emit_count("piece", count), piece)));
}

// From here on the load's value is the lane's element of its run, in this phase.
static void bind_run(Emit *e, const Vectors *v, int load, uint64_t phases)
{
    const Body *b = e->body;
    const Inst *x = &b->insts.at[load];
    const int piece = body_interleaved_piece(b, x, phases);
    int64_t stride;
    ix_stride(x->ix, v->axis, &stride);
    const char *at = emit_scaled(e, "lane", stride);
    for (int i = 0; i < v->axis; i++)
        if (phases >> i & 1 && ix_stride(x->ix, i, &stride) && stride)
            at = emit_plus(e, at, emit_scaled(e, e->axis[i], stride));
    e->element[load] =
        emit_text(e, "%s[(%s) / %d].at[(%s) %% %d]", slot_name(e, load), at, piece, at, piece);
}

void interleaved_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const int inner = b->npar - 1;
    const uint64_t phases = body_interleaved(b), outer = (1ull << inner) - 1;
    const int64_t n = body_rows(b) / s->vector / body_phases(b, phases),
                  across = b->axis[inner].extent / s->vector;
    Vectors v = find_vectors(e, inner, s->vector);
    v.base = emit_text(e, "%s_first", e->axis[inner]);
    emit_prefetch(e, 0);
    emit_follow(e);
    emit_int(e, "j", "%s * %d + threadIdx.x", block_number(e), s->threads);
    emit_open(e, outer & ~phases);
    e->scope->guard = true;
    emit_int(e, v.base, "%s",
             emit_scaled(e, emit_text(e, "nc_rem(j, %lld)", (long long)across), s->vector));
    print_place(e, phases);
    for (int i = 0; i < (int)b->insts.n; i++)
        if (is_run(e, i)) print_run(e, &v, i, phases);
    for (int i = 0; i < v.nloads; i++)
        if (!(b->insts.at[v.loads[i]].axes & phases)) print_slot(e, &v, v.loads[i]);
    for (int i = 0; i < inner; i++)
        if (phases >> i & 1) emit_open(e, 1ull << i);
    for (int i = 0; i < v.nloads; i++)
        if (b->insts.at[v.loads[i]].axes & phases) print_slot(e, &v, v.loads[i]);
    open_stores(e, &v, -1);
    open_lanes(e, &v, e->axis[inner]);
    for (int i = 0; i < v.nloads; i++) bind_element(e, &v, v.loads[i], "");
    for (int i = 0; i < (int)b->insts.n; i++)
        if (is_run(e, i)) bind_run(e, &v, i, phases);
    lane_stores(e, &v, -1);
    close_lanes(e, &v);
    flush_stores(e, &v, -1);
    for (int i = inner; i-- > 0;)
        if (phases >> i & 1) emit_times(e, e->axis[i], b->axis[i].extent);
    if (n % s->threads)
        emit_end(e, "if (j < %lld) {", (long long)n);
    else
        emit_end(e, "{");
}
