// A recurrence as CUDA C (codegen/lower/lower_recurrence.c): a thread per row keeps the carried
// values in registers. What some iterations read, which does not depend on carried values, is
// loaded before the first of them, so that it is in flight at the same time; or (skew) while those
// before them are computed, in variables "next".
#include "codegen/cuda/print_cuda.h"

// Declares the carried values before the first iteration.
static void print_first(Emit *e)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_CARRIED || !e->live[i]) continue;
        emit(e, "%s %s = %s;", type_math(v->type), e->name[i], emit_value(e, v->a[0]));
        emit_bind(e, (int)i, e->scope, e->name[i]);
    }
}

static bool is_shared(const Emit *e, int carried)
{
    for (uint32_t i = 0; i < e->body->insts.n; i++) {
        const Inst *v = &e->body->insts.at[i];
        if (v->kind == KI_NEIGHBOUR && e->live[i] && v->a[0] == carried) return true;
    }
    return false;
}

// Stores the carried values that others read, as those of iteration [i].
static void share_values(Emit *e, const char *i, bool declare)
{
    const Body *b = e->body;
    for (int k = 0; k < (int)b->insts.n; k++) {
        const Inst *v = &b->insts.at[k];
        if (v->kind != KI_CARRIED || !e->live[k] || !is_shared(e, k)) continue;
        if (declare)
            emit(e, "__shared__ %s %s_row[2][%lld];", type_math(v->type), e->name[k],
                 (long long)b->meets);
        emit(e, "if (mine) %s_row[%s][threadIdx.x] = %s;", e->name[k], i, e->name[k]);
    }
    emit(e, "__syncthreads();");
}

// The element of a row that a thread has; threads behind the row only load what the last one does.
static const char *print_element(Emit *e)
{
    const long long n = e->body->meets;
    emit(e, "const bool mine = threadIdx.x < %lld;", n);
    emit_int(e, "row", "%s * %lld + (mine ? threadIdx.x : %lld)", block_number(e), n, n - 1);
    return "mine";
}

// All next values are known before one of them replaces the current one.
static void print_next(Emit *e)
{
    const Body *b = e->body;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < b->stores.n; i++) {
            const BodyStore *s = &b->stores.at[i];
            if (!s->carries || !e->live[s->carries - 1]) continue; // (nothing reads it)
            const char *name = e->name[s->carries - 1];
            if (!pass)
                emit(e, "const %s %s_next = %s;", type_math(b->insts.at[s->carries - 1].type), name,
                     emit_value(e, s->value));
            else
                emit(e, "%s = %s_next;", name, name);
        }
}

// Loads what the iterations from [first] on read, into variables [name]_[suffix].
static void load_iterations(Emit *e, const Vectors *v, const char *first, const char *suffix)
{
    const char *i = e->axis[e->body->col];
    Steps s = steps_at(e, "u", e->body->sched.unroll, i, emit_plus(e, first, "u"), "count", 0);
    s.axes = 1ull << e->body->col;
    open_steps(e, &s);
    for (int k = 0; k < v->nloads; k++)
        print_vector_load(e, v, v->loads[k],
                          emit_text(e, "%s_%s[u]", e->name[v->loads[k]], suffix));
    close_steps(e, &s);
}

static void declare_loads(Emit *e, const Vectors *v, const char *suffix)
{
    for (int k = 0; k < v->nloads; k++)
        emit(e, "%s %s_%s[%d];", slot_type(e, v, v->loads[k]), e->name[v->loads[k]], suffix,
             e->body->sched.unroll);
}

static void take_next(Emit *e, const Vectors *v)
{
    emit_open(e, 0);
    for (int k = 0; k < v->nloads; k++)
        emit(e, "%s[u] = %s_next[u];", slot_name(e, v->loads[k]), e->name[v->loads[k]]);
    emit_unrolled(e, "for (int u = 0; u < %d; u++) {", e->body->sched.unroll);
}

static bool reads_iteration(const Emit *e, int load)
{
    return is_plain(e, load) && e->body->insts.at[load].axes >> e->body->col & 1;
}

void recurrence_cuda(Emit *e)
{
    const Body *b = e->body;
    Vectors v = {.width = 1};
    const int unroll = b->sched.unroll;
    const char *leader = b->meets ? print_element(e) : print_row_number(e, block_number(e)),
               *c = e->axis[b->col], *first = unroll > 1 ? emit_text(e, "%s_first", c) : c,
               *count = emit_number(e, extent_of(b, b->col));
    open_row(e);
    print_first(e);
    if (b->meets) share_values(e, "0", true);
    Steps steps = {.count = 1};
    if (unroll > 1) {
        emit_int(e, "count", "nc_unknown(%s)", count);
        steps = steps_at(e, "u", unroll, c, emit_text(e, "%s + u", first), "count", 0);
        add_loads(e, &v, reads_iteration);
    }
    const bool ahead = b->sched.skew && v.nloads;
    if (ahead) declare_loads(e, &v, "next"), load_iterations(e, &v, "0", "next");
    steps.axes = 1ull << b->col;
    emit_open(e, unroll > 1 ? 0 : steps.axes);
    declare_loads(e, &v, "vec");
    if (ahead) {
        take_next(e, &v);
        load_iterations(e, &v, emit_text(e, "%s + %d", first, unroll), "next");
    } else if (v.nloads) {
        load_iterations(e, &v, first, "vec");
    }
    open_steps(e, &steps);
    for (int i = 0; i < v.nloads; i++) bind_element(e, &v, v.loads[i], steps_slot(e, &steps));
    if (b->meets) emit_open(e, 0);
    lane_stores(e, &v, 0);
    print_next(e);
    if (b->meets) emit_if(e, "mine");
    if (b->meets) share_values(e, emit_text(e, "(%s + 1) & 1", c), false);
    release_elements(e, &v);
    close_steps(e, &steps);
    emit_loop(e, int_type(e), first, "0", count, unroll);
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (b->insts.at[i].kind == KI_LAST && e->live[i])
            emit_bind(e, (int)i, e->scope, e->name[b->insts.at[i].a[0]]);
    print_row_stores(e, leader);
    emit_close(e, NULL, NULL);
}
