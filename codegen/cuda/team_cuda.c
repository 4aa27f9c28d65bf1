// Teams of threads that process a row each, as CUDA C: the number of the row, accumulators and
// their combination across the team, and stores of values that belong to a whole row.
#include <string.h>

#include "codegen/cuda/print_cuda.h"

// The combination of x over all threads of a row's team.
static const char *join(Emit *e, Op op, const char *x)
{
    const Schedule *s = &e->body->sched;
    const char *functor = accumulator(op)->functor;
    if (s->team == 1) return x;
    if (s->team <= 32) return emit_text(e, "nc_team<%s, %d>(%s)", functor, s->team, x);
    if (s->cluster > 1)
        return emit_text(e, "nc_cluster<%s, %d, %d, %d>(%s)", functor, s->team, s->cluster,
                         e->joins++, x);
    return emit_text(e, "nc_team<%s, %d, %d>(%s)", functor, s->team, e->joins++ % 2, x);
}

const char *acc_name(Emit *e, int r)
{
    return emit_text(e, "%s_acc", e->name[r]);
}

void accumulate(Emit *e, int stage, const char *axis)
{
    int n;
    const int *r = stage_reductions(e, stage, &n);
    for (int i = 0; i < n; i++) {
        const Inst *v = &e->body->insts.at[r[i]];
        const char *acc = acc_name(e, r[i]);
        if (v->kind == KI_SCAN)
            emit_scan(e, r[i], acc, emit_value(e, v->a[0]));
        else
            emit(e, "%s = %s;", acc, acc_step(e, v, acc, axis));
    }
}

void declare_accumulators(Emit *e, int stage)
{
    int n;
    const int *r = stage_reductions(e, stage, &n);
    for (int i = 0; i < n; i++) {
        const Inst *v = &e->body->insts.at[r[i]];
        const bool scans = v->kind == KI_SCAN;
        emit(e, "%s %s_acc = %s;", scans ? type_math(acc_type(v)) : acc_struct(e, v), e->name[r[i]],
             scans ? emit_identity(e, v->op, v->acc) : acc_start(e, v));
    }
}

void print_joined(Emit *e, int r)
{
    const Inst *x = &e->body->insts.at[r];
    if (x->kind == KI_SCAN) return;
    const char *acc = acc_name(e, r);
    emit(e, "const %s %s = %s;", type_math(x->type), e->name[r],
         acc_joined(e, x, acc, join(e, x->op, acc)));
    emit_bind(e, r, e->scope, e->name[r]);
}

void store_parts(Emit *e, int r, int *scratch, const char *at)
{
    const Accumulator *a = inst_acc(&e->body->insts.at[r]);
    emit(e, "%s[%s] = %s;", emit_scratch(e, (*scratch)++), at, e->name[r]);
    for (int p = 1; p < a->nparts; p++)
        emit(e, "%s[%s] = %s_acc%s;", emit_scratch(e, (*scratch)++), at, e->name[r], a->parts[p]);
}

void print_row_stores(Emit *e, const char *leader)
{
    const Body *b = e->body;
    if (!body_stores_rows(b)) return;
    bool in_place = false; // other threads may still have to read what the leader overwrites
    for (uint32_t i = 0; i < b->bufs.n; i++) in_place |= b->bufs.at[i].in_place;
    Vectors none = {.width = 1};
    if (in_place && strcmp(leader, "true")) {
        for (uint32_t i = 0; i < b->stores.n; i++)
            if (!store_over(b, &b->stores.at[i], b->col)) emit_value(e, b->stores.at[i].value);
        emit(e, "__syncthreads();");
    }
    if (!strcmp(leader, "true")) {
        lane_stores(e, &none, -1);
        return;
    }
    emit_open(e, 0);
    e->scope->guard = true;
    lane_stores(e, &none, -1);
    emit_end(e, "if (%s) {", leader);
}

const char *member_column(Emit *e)
{
    const Schedule *s = &e->body->sched;
    const char *number = s->row.keep > 1 ? emit_text(e, "(tile * %d + member)", s->team) : "member";
    return emit_scaled(e, number, s->vector);
}

bool all_have_rows(const Body *b)
{
    return body_rows(b) % (b->sched.threads / b->sched.team) == 0;
}

const char *print_row_number(Emit *e, const char *block)
{
    const Schedule *s = &e->body->sched;
    long long rows = body_rows(e->body);
    int per_block = s->threads / s->team;
    bool exact = all_have_rows(e->body), alone = s->team == 1;
    if (!alone)
        emit(e, "const int member = threadIdx.x %% %d;", s->team);
    else if (s->row.keep)
        emit_declare(e, "member", "const int member = 0;");
    const char *thread = emit_part(e, "threadIdx.x", s->team, 0, 1);
    if (per_block > 1) block = emit_text(e, "%s * %d + %s", block, per_block, thread);
    emit_int(e, "row", "%s", block);
    if (!exact && alone) emit(e, "if (row >= %lld) return;", rows);
    if (!exact && !alone)
        emit_declare(e, "mine",
                     "const bool mine = row < %lld; // the others compute the last row once more",
                     rows);
    return alone ? "true" : exact ? "member == 0" : "mine && member == 0";
}

void open_row(Emit *e)
{
    const Body *b = e->body;
    int indent = e->scope->indent;
    bool spare = !all_have_rows(b) && b->sched.team > 1;
    emit_open(e, 1);
    e->scope->indent = indent;
    if (spare)
        emit_int(e, e->axis[0], "mine ? row : %lld", (long long)body_rows(b) - 1);
    else
        e->axis[0] = e->own_axis[0] = "row"; // in all that follows
}

const char *part_of_row(Emit *e)
{
    return emit_text(e, "%s * %lld + part", e->axis[0], (long long)e->body->sched.split);
}

// The second kernel, if the columns are divided into parts: combines these.
void combine_cuda(Emit *e)
{
    const Schedule *s = &e->body->sched;
    const char *leader = print_row_number(e, block_number(e));
    int n;
    const int *r = stage_reductions(e, 0, &n);
    open_row(e);
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *x = &e->body->insts.at[r[i]];
        const char *part[2] = {"", ""}, *acc = acc_name(e, r[i]);
        emit(e, "%s %s = %s;", acc_struct(e, x), acc, acc_start(e, x));
        for (int p = 0; p < inst_acc(x)->nparts; p++)
            part[p] = emit_text(e, "%s[%s]", emit_scratch(e, k++), part_of_row(e));
        emit(e, "for (%s part = %s; part < %lld; part += %d)", int_type(e),
             s->team > 1 ? "member" : "0", (long long)s->split, s->team);
        emit(e, "    %s = %s;", acc,
             acc_join(e, x, acc, acc_of_parts(e, x, part[0], part[1], NULL)));
        print_joined(e, r[i]);
    }
    print_row_stores(e, leader);
    emit_close(e, NULL, NULL);
}
