// Kernel IR as CUDA C: rows, columns and elements bound to blocks, threads and vectors.
#include <string.h>

#include "codegen/cuda/print_cuda.h"

// -- vectors along an axis ------------------------------------------------------------------------

static bool vector_place(const Emit *e, const Ix *x, int axis, int width, int buf)
{
    int64_t stride;
    int bytes = dtype_info[e->body->bufs.at[buf].type].bits / 8;
    return x && ix_stride(x, axis, &stride) && stride == 1 && ix_aligned(x, axis, width) &&
           width * bytes <= 32;
}

// A map's load of p[at % n], where at goes along with the axis: the n that its place goes round at;
// 0: it is not one.
static int64_t goes_round(const Emit *e, const Inst *x, int axis)
{
    const Body *b = e->body;
    const Ix *at = x->ix;
    int bytes = dtype_info[b->bufs.at[x->buf].type].bits / 8;
    int64_t stride;
    if (b->sched.kind != SCHED_MAP || x->pred >= 0 || (bytes != 2 && bytes != 4)) return 0;
    if (at->n != 1 || at->constant || at->at[0].coeff != 1 || at->at[0].term->kind != IT_MOD)
        return 0;
    const IxTerm *t = at->at[0].term;
    bool along = ix_stride(t->e, axis, &stride) && stride == 1 && t->by >= 16;
    return along && t->by == b->bufs.at[x->buf].elems ? t->by : 0;
}

Vectors find_vectors(const Emit *e, int axis, int width)
{
    Vectors v = {.axis = axis, .width = width};
    const Body *b = e->body;
    if (width < 2) return v;
    for (uint32_t i = 0; i < b->insts.n && v.nloads < MAX_VECTORS; i++) {
        const Inst *x = &b->insts.at[i];
        bool guarded = x->pred >= 0 && inst_over(&b->insts.at[x->pred < 0 ? 0 : x->pred], axis);
        if (e->live[i] && x->kind == KI_LOAD && !guarded &&
            (vector_place(e, x->ix, axis, width, x->buf) || goes_round(e, x, axis)))
            v.loads[v.nloads++] = (int)i;
    }
    for (uint32_t i = 0; i < b->stores.n && i < 256; i++) {
        const BodyStore *s = &b->stores.at[i];
        v.store[i] =
            s->buf >= 0 && !s->add && !s->guard && vector_place(e, s->ix, axis, width, s->buf);
    }
    return v;
}

const char *vec_type(Emit *e, DType t, int width)
{
    return emit_text(e, "NcVec<%s, %d>", type_storage(t), width);
}

bool is_plain(const Emit *e, int load)
{
    const Inst *v = &e->body->insts.at[load];
    return v->pred < 0 && !v->ix->has_value && v->stage == 0;
}

static int64_t array_bytes(const BodyBuf *b)
{
    return b->elems * (dtype_info[b->type].bits / 8);
}

// Rows and maps that read and write arrays larger than the second-level cache: lines read are kept
// there longest, so that those written go to memory early and in order. On an H200 softmax of
// bf16[32768, 4096] went from 4080 to 4247 GB/s. Not where rows share lines of memory: of rows of
// 1000 columns softmax went from 4091 to 4147, but layer norm made 3800 where a build without had
// made 4159.
const char *load_word(const Emit *e, const Inst *load)
{
    const Body *b = e->body;
    int64_t cache = e->kernel->ctx->target->l2_bytes, written = 0;
    for (uint32_t i = 0; i < b->bufs.n; i++)
        if (b->bufs.at[i].written && array_bytes(&b->bufs.at[i]) > written)
            written = array_bytes(&b->bufs.at[i]);
    const BodyBuf *from = &b->bufs.at[load->buf];
    int line = 128 * 8 / dtype_info[from->type].bits; // elements
    bool streams = b->sched.kind == SCHED_MAP ||
                   (b->sched.kind == SCHED_ROW && ix_aligned(load->ix, b->col, line));
    return streams && !from->written && !from->in_place && array_bytes(from) > cache &&
                   written > cache
               ? "keep"
               : "load";
}

void print_vector_load(Emit *e, const Vectors *v, int load, const char *slot, bool declare)
{
    const Inst *x = &e->body->insts.at[load];
    const char *t = vec_type(e, e->body->bufs.at[x->buf].type, v->width),
               *buf = e->buf_name[x->buf];
    const char *pred = x->pred >= 0 ? emit_value(e, x->pred) : NULL;
    const BodyBuf *b = &e->body->bufs.at[x->buf];
    const char *at = emit_index(e, x->ix), *left = "";
    if (v->open && b->elems % v->width)
        left = emit_text(e, ", %lld - (%s)", (long long)b->elems, at);
    bool stream = v->streams && inst_over(x, e->body->col) && !b->written && !b->in_place;
    const char *from = emit_text(e, "nc_%s<%d>(%s + (%s)%s)",
                                 e->follow ? "prefetch"
                                 : stream  ? "fetch"
                                           : load_word(e, x),
                                 v->width, buf, at, left);
    int64_t round = goes_round(e, x, v->axis);
    if (round)
        from = emit_text(e, "nc_load_round<%d>(%s, %s, %lld)", v->width, buf, at, (long long)round);
    if (pred) from = emit_text(e, "%s ? %s : %s{}", pred, from, t);
    emit_line(e, e->scope, "%s%s%s = %s;", declare ? t : "", declare ? " " : "", slot, from);
}

const char *slot_name(Emit *e, int load)
{
    return emit_text(e, "%s_vec", e->name[load]);
}

void print_lane(Emit *e, const Vectors *v, const char *index)
{
    for (int i = 0; i < v->nloads; i++) {
        const char *at = emit_text(e, "%s%s.at[lane]", slot_name(e, v->loads[i]),
                                   is_plain(e, v->loads[i]) ? index : "");
        e->element[v->loads[i]] = at;
    }
}

// Maps that commit look at the error record last: its load is in flight with all the others.
static void stop_if_failed(Emit *e)
{
    if (e->body->commits && e->body->sched.kind == SCHED_MAP)
        emit_line(e, e->scope, "if (failed) return; // a check has failed: nothing is committed");
}

static bool wants_store(const Emit *e, uint32_t i, int stage)
{
    const BodyStore *s = &e->body->stores.at[i];
    if (s->fold) return false; // once a block (sweep_cuda.c)
    return store_over(e->body, s, e->body->col) ? s->stage == stage : stage < 0;
}

// Stored 16-bit floats are converted two at a time, when the vector is whole.
static const char *packs(DType t)
{
    return t == DT_BF16 ? "nc_pack_b" : t == DT_F16 ? "nc_pack_h" : NULL;
}

void close_lane_loop(Emit *e, int width)
{
    emit_close(e,
               emit_text(e, "#pragma unroll\n%*sfor (int lane = 0; lane < %d; lane++) {",
                         e->scope->up->indent * 4, "", width),
               "}");
}

void lane_stores(Emit *e, const Vectors *v, int stage)
{
    const Body *b = e->body;
    for (int pass = 0; pass < 2; pass++) {
        bool direct = false; // some store goes straight to memory
        for (uint32_t i = 0; i < b->stores.n; i++)
            direct |=
                wants_store(e, i, stage) && b->stores.at[i].buf >= 0 && !(i < 256 && v->store[i]);
        if (pass && direct) stop_if_failed(e);
        for (uint32_t i = 0; i < b->stores.n; i++) {
            const BodyStore *s = &b->stores.at[i];
            if (!wants_store(e, i, stage)) continue;
            const char *x = emit_value(e, s->buf < 0 ? s->value : emit_unrounded(e, s));
            if (s->ix) emit_index(e, s->ix);
            if (pass == 0 || s->buf < 0) continue;
            if (i < 256 && v->store[i])
                emit_line(e, e->scope, "out%u.at[lane] = %s;", i,
                          packs(b->bufs.at[s->buf].type)
                              ? x
                              : emit_stored(e, b->bufs.at[s->buf].type, x));
            else
                emit_store(e, s);
        }
    }
}

void open_stores(Emit *e, const Vectors *v, int stage)
{
    for (uint32_t i = 0; i < e->body->stores.n && i < 256; i++)
        if (v->store[i] && wants_store(e, i, stage)) {
            DType t = e->body->bufs.at[e->body->stores.at[i].buf].type;
            emit_line(e, e->scope, "%s out%u;",
                      packs(t) ? emit_text(e, "NcVec<float, %d>", v->width)
                               : vec_type(e, t, v->width),
                      i);
        }
}

void flush_stores(Emit *e, const Vectors *v, int stage)
{
    stop_if_failed(e);
    for (uint32_t i = 0; i < e->body->stores.n && i < 256; i++) {
        const BodyStore *s = &e->body->stores.at[i];
        DType t = s->buf < 0 ? DT_F32 : e->body->bufs.at[s->buf].type;
        if (v->store[i] && wants_store(e, i, stage))
            emit_line(e, e->scope, "nc_store<%d>(%s + (%s), %s);", v->width, e->buf_name[s->buf],
                      emit_index(e, s->ix),
                      packs(t) ? emit_text(e, "%s(out%u)", packs(t), i) : emit_text(e, "out%u", i));
    }
}

// -- map ------------------------------------------------------------------------------------------

// Splits vector number "j" into the axes; the innermost gets its first element under the name base.
static void print_axes(Emit *e, int width, const char *base)
{
    const Body *b = e->body;
    int inner = b->npar - 1;
    const char *t = int_type(e);
    if (b->npar == 1) {
        emit_line(e, e->scope, "const %s %s = j%s;", t, base,
                  width > 1 ? emit_text(e, " * %d", width) : "");
        return;
    }
    const char *left = "j";
    int64_t extent = b->axis[inner].extent / width;
    emit_line(e, e->scope, "const %s %s = nc_rem(%s, %lld)%s;", t, base, left, (long long)extent,
              width > 1 ? emit_text(e, " * %d", width) : "");
    int64_t stride = extent;
    for (int i = inner; i-- > 0;) {
        const char *q = stride == 1 ? "j" : emit_text(e, "nc_quo(j, %lld)", (long long)stride);
        emit_line(e, e->scope, "const %s %s = %s;", t, e->axis[i],
                  i == 0 ? q : emit_text(e, "nc_rem(%s, %lld)", q, (long long)b->axis[i].extent));
        stride *= b->axis[i].extent;
    }
}

typedef struct Map {
    Vectors v;
    const char *axis, *base; // names: the innermost axis, the first of a vector's places along it
    const char *limit;       // vectors there are
    const char *number;      // declares the vector's number j
} Map;

static Map map_of(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *t = int_type(e);
    Map m = {.v = find_vectors(e, b->npar - 1, s->vector), .axis = e->axis[b->npar - 1]};
    m.base = s->vector > 1 ? emit_text(e, "%s_first", m.axis) : m.axis;
    m.limit = b->npar > 1     ? emit_text(e, "%lld", (long long)(body_rows(b) / s->vector))
              : s->vector > 1 ? emit_text(e, "n / %d", s->vector)
                              : "n";
    m.number = s->unroll == 1
                   ? emit_text(e, "const %s j = (%s)block * %d + threadIdx.x;", t, t, s->threads)
                   : emit_text(e, "const %s j = ((%s)block * %d + u) * %d + threadIdx.x;", t, t,
                               s->unroll, s->threads);
    return m;
}

static void close_unrolled(Emit *e)
{
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int u = 0; u < %d; u++) {", e->body->sched.unroll), "}");
}

// Prints vector loads of the plain or of the other kind, where the axes are known.
static void map_loads(Emit *e, const Map *m, bool plain, bool ahead)
{
    const Vectors *v = &m->v;
    e->axis[v->axis] = m->base;
    for (int i = 0; i < v->nloads; i++) {
        if (ahead && is_plain(e, v->loads[i]) != plain) continue;
        const char *slot = slot_name(e, v->loads[i]);
        bool early = ahead && plain;
        print_vector_load(e, v, v->loads[i], early ? emit_text(e, "%s[u]", slot) : slot, !early);
    }
    e->axis[v->axis] = m->axis;
}

// All loads that need nothing but their place, before the first value is computed.
static void prefetch_loads(Emit *e, const Map *m)
{
    const Body *b = e->body;
    const Vectors *v = &m->v;
    for (int i = 0; i < v->nloads; i++)
        if (is_plain(e, v->loads[i]))
            emit_line(e, e->scope, "%s %s[%d];",
                      vec_type(e, b->bufs.at[b->insts.at[v->loads[i]].buf].type, v->width),
                      slot_name(e, v->loads[i]), b->sched.unroll);
    emit_open(e, (1ull << v->axis) - 1); // loop over u
    emit_line(e, e->scope, "%s", m->number);
    emit_open(e, 0); // in range
    print_axes(e, b->sched.vector, m->base);
    map_loads(e, m, true, true);
    emit_close(e, emit_text(e, "if (j < %s) {", m->limit), "}");
    close_unrolled(e);
}

static void map_vector(Emit *e, const Map *m, bool ahead)
{
    const Vectors *v = &m->v;
    map_loads(e, m, false, ahead);
    open_stores(e, v, -1);
    emit_open(e, 1ull << v->axis);
    emit_line(e, e->scope, "const %s %s = %s + lane;", int_type(e), m->axis, m->base);
    print_lane(e, v, ahead ? "[u]" : "");
    lane_stores(e, v, -1);
    close_lane_loop(e, v->width);
    e->axis[v->axis] = m->base;
    flush_stores(e, v, -1);
    e->axis[v->axis] = m->axis;
}

// The last elements, fewer than a vector.
static void map_tail(Emit *e, const Map *m)
{
    const char *t = int_type(e);
    const Vectors none = {.axis = m->v.axis, .width = 1};
    for (int i = 0; i < m->v.nloads; i++) e->element[m->v.loads[i]] = NULL;
    emit_open(e, 1ull << m->v.axis);
    emit_line(e, e->scope, "const %s %s = n - 1 - (%s)threadIdx.x;", t, m->axis, t);
    lane_stores(e, &none, -1);
    emit_close(e, emit_text(e, "if (block == 0 && threadIdx.x < n %% %d) {", m->v.width), "}");
}

static void print_map(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const uint64_t inner = 1ull << (b->npar - 1);
    Map m = map_of(e);
    bool ahead = false;
    emit_prefetch(e, 0);
    emit_follow(e);
    for (int i = 0; i < m.v.nloads && s->unroll > 1; i++) ahead |= is_plain(e, m.v.loads[i]);
    if (ahead) prefetch_loads(e, &m);
    if (s->unroll > 1) emit_open(e, 0);
    emit_line(e, e->scope, "%s", m.number);
    emit_open(e, (inner - 1) | (s->vector > 1 ? 0 : inner)); // in range
    e->scope->guard = true;
    print_axes(e, s->vector, m.base);
    if (s->vector > 1)
        map_vector(e, &m, ahead);
    else
        lane_stores(e, &m.v, -1);
    emit_close(e, emit_text(e, "if (j < %s) {", m.limit), "}");
    if (s->unroll > 1) close_unrolled(e);
    if (b->npar == 1 && s->vector > 1) map_tail(e, &m);
}

// -- rows: teams of threads -----------------------------------------------------------------------

// x of all threads of a row's team.
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

void accumulate(Emit *e, int r, const char *axis)
{
    const Inst *v = &e->body->insts.at[r];
    const char *acc = emit_text(e, "%s_acc", e->name[r]);
    if (v->kind == KI_SCAN)
        emit_scan(e, r, acc, emit_value(e, v->a[0]));
    else
        emit_line(e, e->scope, "%s = %s;", acc, acc_step(e, v, acc, axis));
}

void declare_accumulator(Emit *e, Scope *row, int r)
{
    const Inst *v = &e->body->insts.at[r];
    if (v->kind == KI_SCAN)
        emit_line(e, row, "%s %s_acc = 0;", type_math(acc_type(v)), e->name[r]);
    else
        emit_line(e, row, "%s %s_acc = %s;", acc_struct(e, v), e->name[r], acc_start(e, v));
}

void print_joined(Emit *e, int r)
{
    const Inst *x = &e->body->insts.at[r];
    const char *acc = emit_text(e, "%s_acc", e->name[r]);
    if (x->kind == KI_SCAN) return;
    emit_line(e, e->scope, "const %s %s = %s;", type_math(x->type), e->name[r],
              acc_joined(e, x, acc, join(e, x->op, acc)));
    emit_bind(e, r, e->scope, e->name[r]);
}

void store_parts(Emit *e, int r, int *scratch, const char *at)
{
    const Accumulator *a = inst_acc(&e->body->insts.at[r]);
    emit_line(e, e->scope, "%s[%s] = %s;", scratch_of(e, (*scratch)++), at, e->name[r]);
    for (int p = 1; p < a->nparts; p++)
        emit_line(e, e->scope, "%s[%s] = %s_acc%s;", scratch_of(e, (*scratch)++), at, e->name[r],
                  a->parts[p]);
}

const char *scratch_of(Emit *e, int nth)
{
    for (uint32_t i = 0; i < e->body->bufs.n; i++)
        if (e->body->bufs.at[i].kind == KA_SCRATCH && nth-- == 0) return e->buf_name[i];
    return "0";
}

// Stores of whole rows: by one thread of the team.
void print_row_stores(Emit *e, const char *leader)
{
    const Body *b = e->body;
    bool any = false;
    for (uint32_t i = 0; i < b->stores.n; i++) any |= !store_over(b, &b->stores.at[i], b->col);
    if (!any) return;
    bool in_place = false; // every thread may have read what the leader is about to write
    for (uint32_t i = 0; i < b->bufs.n; i++) in_place |= b->bufs.at[i].in_place;
    Vectors none = {.width = 1};
    Scope *row = e->scope;
    if (in_place && strcmp(leader, "true")) {
        for (uint32_t i = 0; i < b->stores.n; i++)
            if (!store_over(b, &b->stores.at[i], b->col)) emit_value(e, b->stores.at[i].value);
        emit_line(e, row, "__syncthreads();");
    }
    emit_open(e, 0);
    e->scope->guard = true;
    lane_stores(e, &none, -1);
    emit_close(e, emit_text(e, "if (%s) {", leader), "}");
}

// Whether the blocks' teams are as many as the rows, so that each has one.
static bool all_have_rows(const Body *b)
{
    return body_rows(b) % (b->sched.threads / b->sched.team) == 0;
}

const char *print_row_number(Emit *e, const char *block)
{
    const Schedule *s = &e->body->sched;
    const char *t = int_type(e);
    long long rows = body_rows(e->body);
    int per_block = s->threads / s->team;
    bool exact = all_have_rows(e->body), alone = s->team == 1;
    if (!alone)
        emit_line(e, e->scope, "const int member = threadIdx.x %% %d;", s->team);
    else if (s->keep)
        emit_line(e, e->scope, "const int member = 0;");
    emit_line(e, e->scope, "const %s row = (%s)(%s)%s;", t, t, block,
              per_block == 1 ? ""
                             : emit_text(e, " * %d + threadIdx.x%s", per_block,
                                         alone ? "" : emit_text(e, " / %d", s->team)));
    if (!exact && alone) emit_line(e, e->scope, "if (row >= %lld) return;", rows);
    if (!exact && !alone)
        emit_line(e, e->scope,
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
    emit_line(e, e->scope, "const %s %s = %s;", int_type(e), e->axis[0],
              spare ? emit_text(e, "mine ? row : %lld", (long long)body_rows(b) - 1) : "row");
}

const char *part_of_row(Emit *e)
{
    return emit_text(e, "%s * %lld + part", e->axis[0], (long long)e->body->sched.split);
}

// The second kernel of rows whose columns are cut into parts: joins these.
static void print_combine(Emit *e)
{
    const Schedule *s = &e->body->sched;
    const char *leader = print_row_number(e, "block");
    int n;
    const int *r = stage_reductions(e, 0, &n);
    open_row(e);
    for (int i = 0, k = 0; i < n; i++) {
        const Inst *x = &e->body->insts.at[r[i]];
        const char *part[2] = {"", ""}, *acc = emit_text(e, "%s_acc", e->name[r[i]]);
        declare_accumulator(e, e->scope, r[i]);
        for (int p = 0; p < inst_acc(x)->nparts; p++)
            part[p] = emit_text(e, "%s[%s]", scratch_of(e, k++), part_of_row(e));
        emit_line(e, e->scope, "for (%s part = %s; part < %lld; part += %d)", int_type(e),
                  s->team > 1 ? "member" : "0", (long long)s->split, s->team);
        emit_line(e, e->scope, "    %s = %s;", acc,
                  acc_join(e, x, acc, acc_of_parts(e, x, part[0], part[1], NULL)));
        print_joined(e, r[i]);
    }
    print_row_stores(e, leader);
    emit_close(e, NULL, NULL);
}

// Where each row stores only columns that are its share, and a warp's rows have the same share
// (scatter): that condition; -1: it is not so.
static int shared_guard(const Body *b)
{
    int guard = b->stores.n ? b->stores.at[0].guard - 1 : -1;
    if (guard < 0 || b->sched.threads % 32 || body_rows(b) % 32) return -1;
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].guard - 1 != guard) return -1;
    const Inst *v = &b->insts.at[guard];
    if (v->kind != KI_EW || v->op != OP_eq || inst_over(&b->insts.at[v->a[0]], 0)) return -1;
    const Inst *own = &b->insts.at[v->a[1]];
    if (own->kind != KI_INDEX || own->ix->n != 1 || inst_over(own, b->col)) return -1;
    const IxTerm *t = own->ix->at[0].term;
    return t->kind == IT_DIV && t->by % 32 == 0 ? guard : -1;
}

// A warp looks at 32 columns at once, and takes those of its share in order.
static void print_shares(Emit *e, int guard)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *it = int_type(e);
    long long cols = (long long)b->axis[b->col].extent;
    emit_open(e, 0);
    emit_line(e, e->scope, "uint32_t hits;");
    emit_open(e, 1ull << b->col);
    emit_line(e, e->scope, "const %s own = from + (int)threadIdx.x %% 32;", it);
    emit_line(e, e->scope, "const %s %s = nc_min(own, (%s)%lld);", it, c, it, cols - 1);
    const char *hit = emit_value(e, guard);
    emit_line(e, e->scope, "hits = __ballot_sync(0xffffffffu, own < %lld && %s);", cols, hit);
    emit_close(e, "{", "}");
    emit_open(e, 1ull << b->col);
    emit_line(e, e->scope, "const %s %s = from + __ffs(hits) - 1;", it, c);
    emit_bind(e, guard, e->scope, "true");
    for (uint32_t i = 0; i < b->stores.n; i++) {
        BodyStore s = b->stores.at[i];
        s.guard = 0;
        emit_store(e, &s);
    }
    emit_close(e, "for (; hits; hits &= hits - 1) {", "}");
    emit_close(e, emit_text(e, "for (%s from = 0; from < %lld; from += 32) {", it, cols), "}");
}

// A thread a row, its columns in order: what no team can share out.
static void print_in_order(Emit *e)
{
    const Body *b = e->body;
    const int guard = shared_guard(b);
    const Vectors none = {.width = 1};
    const char *leader = print_row_number(e, "block"), *c = e->axis[b->col];
    open_row(e);
    Scope *row = e->scope;
    for (int stage = 0; stage < b->nstages; stage++) {
        int n;
        const int *r = stage_reductions(e, stage, &n);
        for (int i = 0; i < n; i++) declare_accumulator(e, row, r[i]);
        if (guard >= 0 && b->nstages == 1 && !n) {
            print_shares(e, guard);
            continue;
        }
        emit_open(e, 1ull << b->col);
        for (int i = 0; i < n; i++) accumulate(e, r[i], c);
        lane_stores(e, &none, stage);
        emit_close(e,
                   emit_text(e, "for (%s %s = 0; %s < %lld; %s += 1) {", int_type(e), c, c,
                             (long long)b->axis[b->col].extent, c),
                   "}");
        for (int i = 0; i < n; i++) print_joined(e, r[i]);
    }
    print_row_stores(e, leader);
    emit_close(e, NULL, NULL);
}

void body_cuda(Emit *e, KernelPhase phase)
{
    const Schedule *s = &e->body->sched;
    bool serial = e->body->serial_cols;
    switch (s->kind) {
    case SCHED_TILE: (s->share ? small_cuda : tile_program_cuda)(e); break;
    case SCHED_ATTENTION: attention_cuda(e); break;
    case SCHED_SWEEP: sweep_cuda(e); break;
    case SCHED_MAP: (s->transpose ? transpose_cuda : s->reuse ? reuse_cuda : print_map)(e); break;
    case SCHED_COLUMN:
        if (serial)
            print_in_order(e);
        else
            column_cuda(e, phase);
        break;
    case SCHED_ROW:
        if (serial)
            (s->row_bytes ? sort_cuda : s->team > 1 ? scan_cuda : print_in_order)(e);
        else if (phase == PHASE_COMBINE)
            print_combine(e);
        else
            row_cuda(e, phase);
        break;
    }
}
