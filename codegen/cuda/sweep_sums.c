// Sums of a sweep, as CUDA C: those of a row, combined across its team, and those over the rows, of
// which each block stores a partial sum.
#include "codegen/cuda/sweep_cuda.h"

// -- combination across a team --------------------------------------------------------------------

static bool joins_several(const Sweep *w, const Inst *x)
{
    return w->b->sched.team > 1 && !inst_acc(x)->place;
}

static bool one_join(const Inst *a, const Inst *b)
{
    return a->op == b->op && acc_type(a) == acc_type(b);
}

Sum *sweep_sums_at_once(const Sweep *w, int stage, int *n)
{
    int count, later = 0, together = w->b->sched.sweep.together;
    const int *r = stage_reductions(w->e, stage, &count), *next = NULL;
    if (w->skewed && w->in_row && stage == 1) next = stage_reductions(w->e, 0, &later);
    Sum *sums = NEW_ARRAY(w->e->arena, Sum, count * together + later + 1);
    *n = 0;
    for (int i = 0; i < count; i++)
        for (int q = 0; q < together; q++) sums[(*n)++] = (Sum){q, r[i]};
    for (int i = 0; i < later; i++) sums[(*n)++] = (Sum){1, next[i]};
    return sums;
}

int sweep_count_sites(const Sweep *w)
{
    int sites = 0;
    for (int stage = w->skewed; stage < w->b->nstages; stage++) {
        int n;
        const Sum *sums = sweep_sums_at_once(w, stage, &n);
        for (int i = 0; i < n && (!w->rare || stage != w->rare); i++) {
            const Inst *x = &w->b->insts.at[sums[i].r];
            bool first = joins_several(w, x);
            for (int k = 0; k < i && first; k++) first = !one_join(x, &w->b->insts.at[sums[k].r]);
            sites += first;
        }
    }
    return sites;
}

static bool is_rare(const Sweep *w, int r)
{
    return w->rare && w->b->insts.at[r].stage == w->rare + 1;
}

// Variables for sums of the next row (skewed) and of a rare stage are declared in an outer scope.
void sweep_bind_joined(Sweep *w, Sum s, const char *value)
{
    Emit *e = w->of_row[s.row];
    const char *type = emit_text(e, "const %s ", type_math(w->b->insts.at[s.r].type));
    bool declared = (w->skewed && s.row) || is_rare(w, s.r);
    emit(w->e, "%s%s = %s;", declared ? "" : type, e->name[s.r], value);
    emit_bind(e, s.r, w->e->scope, e->name[s.r]);
}

// One combination for each kind of sums (op and type).
void sweep_print_joins(Sweep *w, const Sum *sums, int n)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    for (int i = 0; i < n; i++) {
        const Inst *x = &w->b->insts.at[sums[i].r];
        Emit *own = w->of_row[sums[i].row];
        const char *functor = inst_acc(x)->functor;
        if (own->bind[sums[i].r].scope == e->scope) continue;
        if (!joins_several(w, x)) {
            const char *acc = acc_name(own, sums[i].r), *all = acc;
            if (s->team > 1) all = emit_text(e, "nc_team<%s, %d>(%s)", functor, s->team, acc);
            sweep_bind_joined(w, sums[i], acc_joined(e, x, acc, all));
            continue;
        }
        const char *name = emit_text(e, "%s_all", e->name[sums[i].r]), *list = "";
        const int slots = w->sites > 1 || is_rare(w, sums[i].r) ? 1 : s->sweep.ahead;
        int count = 0, at = 0;
        for (int k = i; k < n; k++)
            if (one_join(x, &w->b->insts.at[sums[k].r]))
                list = emit_text(e, "%s%s%s", list, count++ ? ", " : "",
                                 acc_name(w->of_row[sums[k].row], sums[k].r));
        emit(e, "%s %s[%d] = {%s};", type_math(acc_type(x)), name, count, list);
        emit(e, "nc_teams<%s, %d, %d, %d>(%s%s);", functor, s->team, w->site++, slots, name,
             slots > 1 && w->in_row ? ", slot" : "");
        for (int k = i; k < n; k++)
            if (one_join(x, &w->b->insts.at[sums[k].r]))
                sweep_bind_joined(w, sums[k], emit_text(e, "%s[%d]", name, at++));
    }
}

// -- sums over the rows ---------------------------------------------------------------------------

static const char *fold_type(const Sweep *w, const BodyStore *s)
{
    return type_math(w->b->bufs.at[s->buf].type);
}

void sweep_declare_folds(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    for (uint32_t i = 0; i < w->b->stores.n; i++) {
        const BodyStore *x = &w->b->stores.at[i];
        if (!x->fold) continue;
        const char *zero = emit_identity(e, x->fold->op, w->b->bufs.at[x->buf].type);
        emit(e, "NcVec<%s, %d> part%u[%d]; // %s over the rows of this block", fold_type(w, x),
             s->vector, i, s->row.keep, op_info(x->fold->op)->name);
        emit(e, "nc_fill<%d>(part%u, %s);", s->row.keep, i, zero);
        if (w->uneven) emit(e, "%s part%u_edge = %s;", fold_type(w, x), i, zero);
    }
}

void sweep_print_folds(Sweep *w, int stage)
{
    Emit *e = w->e;
    for (uint32_t i = 0; i < w->b->stores.n; i++) {
        const BodyStore *s = &w->b->stores.at[i];
        if (!s->fold || s->stage != stage) continue;
        DType t = w->b->bufs.at[s->buf].type;
        const char *part = w->edges ? emit_text(e, "part%u_edge", i)
                                    : emit_text(e, "part%u%s.at[%s]", i, sweep_in_tile(w),
                                                emit_count("lane", w->b->sched.vector));
        const char *sum = emit_taken(e, s->fold->op, t, part, s->value);
        emit(e, "%s = %s;", part, sum);
    }
}

// Stores a block's partial sums from registers to scratch. Several teams are combined through
// shared memory first. Vectors for which scratch is not aligned go through it, too, so that
// adjacent threads store adjacent elements. (On an H200 layer norm backward of bf16[8000, 12289]
// takes 155 us; it takes 178 if each lane stores eight elements one by one, to 32 sectors per
// warp.)
void sweep_print_parts(Sweep *w)
{
    Emit *e = w->e;
    const Schedule *s = &w->b->sched;
    for (uint32_t i = 0; i < w->b->stores.n; i++) {
        const BodyStore *x = &w->b->stores.at[i];
        if (!x->fold) continue;
        const char *t = fold_type(w, x), *to = e->buf_name[x->buf];
        int bytes = math_bytes(w->b->bufs.at[x->buf].type);
        bool joined = w->teams > 1 || (w->uneven && s->shared_bytes >= w->cols * bytes);
        const char *share = emit_text(e, "%s + %s * %lld", to, block_number(e), w->cols);
        if (joined) {
            const char *team = emit_text(e, " + team * %lld", w->cols);
            emit(e, "__syncthreads();");
            share = emit_text(e, "(%s *)nc_shared%s", t, w->teams > 1 ? team : "");
        }
        sweep_open_tiles(w);
        if (!w->uneven && s->vector * bytes <= 32) {
            emit(e, "nc_store<%d>(%s + %s, part%u%s);", s->vector, share, w->first, i,
                 sweep_in_tile(w));
        } else {
            const char *lane = emit_count("lane", s->vector);
            emit_each(e, "lane", s->vector, "(%s)[%s] = part%u%s.at[%s];", share,
                      emit_plus(e, w->first, lane), i, sweep_in_tile(w), lane);
        }
        sweep_close_tiles(w);
        if (w->uneven) emit(e, "if (member < edges) (%s)[edge] = part%u_edge;", share, i);
        if (!joined) continue;
        emit(e, "__syncthreads();");
        emit_open(e, 0);
        emit(e, "%s all = ((%s *)nc_shared)[c];", t, t);
        if (w->teams > 1) {
            const char *next = emit_text(e, "((%s *)nc_shared)[k * %lld + c]", t, w->cols);
            emit(e, "for (int k = 1; k < %d; k++)", w->teams);
            emit(e, "    all = %s;",
                 emit_combine(e, x->fold->op, w->b->bufs.at[x->buf].type, "all", next));
        }
        emit(e, "%s[%s * %lld + c] = all;", to, block_number(e), w->cols);
        emit_loop(e, "int", "c", "threadIdx.x", emit_number(e, w->cols), s->threads);
    }
}
