// Loads and stores of whole vectors along an axis, as CUDA C.
#include <string.h>
#include "codegen/cuda/print_cuda.h"

static bool vector_place(const Emit *e, const Ix *x, int axis, int width, int buf)
{
    int64_t stride;
    int bytes = element_bytes(e->body, buf);
    if (!x || width * bytes > 32 || !buf_begins(e->body, buf, width)) return false;
    if (e->body->sched.kind == SCHED_COLUMN && axis == 0) return ix_vectors(x, axis, width);
    return ix_stride(x, axis, &stride) && stride == 1 && ix_aligned(x, axis, width);
}

// For a map's load of neighbours whose vectors are not aligned: the number of elements that are,
// which can be loaded together; otherwise 0.
static int aligned_parts(const Emit *e, const Inst *x, int axis, int width)
{
    int64_t stride;
    const int bytes = element_bytes(e->body, x->buf);
    if (e->body->sched.kind != SCHED_MAP || !x->ix || !ix_stride(x->ix, axis, &stride) ||
        stride != 1 || !buf_begins(e->body, x->buf, width))
        return 0;
    int part = width / 2;
    while (part > 1 && !ix_aligned(x->ix, axis, part)) part /= 2;
    return part * bytes > 2 && part > 1 && part * bytes <= 16 ? part : 0;
}

// Whether all elements of each vector are the same one; for column kernels' vectors along the rows.
static bool steady_place(const Emit *e, const Inst *x, int axis, int width)
{
    int64_t step;
    bool aligned;
    return e->body->sched.kind == SCHED_COLUMN && axis == 0 && x->pred < 0 && x->axes & 1 &&
           inst_over(x, e->body->col) && ix_run(x->ix, axis, width, &step, &aligned) && !step;
}

// Whether an instruction compares an index with a bound that no run of [width] contains, such as
// the position where a concatenation goes over from one operand to the next.
static bool bound_between_runs(const Body *b, int inst, int axis, int width)
{
    const Inst *v = &b->insts.at[inst];
    if (v->kind != KI_EW || v->na != 2 || (v->op != OP_lt && v->op != OP_ge)) return false;
    const Inst *at = &b->insts.at[v->a[0]], *bound = &b->insts.at[v->a[1]];
    int64_t step;
    bool aligned;
    return at->kind == KI_INDEX && bound->kind == KI_CONST && bound->ivalue % width == 0 &&
           ix_run(at->ix, axis, width, &step, &aligned) && step == 1 && aligned;
}

// Whether a condition is the same for all lanes, so that condition_text can print it.
static bool same_in_lanes(const Body *b, int inst, int axis, int width)
{
    const Inst *v = &b->insts.at[inst];
    if (v->kind == KI_EW && v->op == OP_and)
        return same_in_lanes(b, v->a[0], axis, width) && same_in_lanes(b, v->a[1], axis, width);
    return inst_steady(b, inst, axis, width) || bound_between_runs(b, inst, axis, width);
}

// Such a condition, for the first lane. Comparisons of indices that differ between lanes are
// printed in place: a variable for the index would be that of all lanes.
static const char *condition_text(Emit *e, const Vectors *v, int inst)
{
    const Body *b = e->body;
    const Inst *x = &b->insts.at[inst];
    const bool column = b->sched.kind == SCHED_COLUMN && v->axis == 0;
    if (!column || v->width == 1 || inst_steady(b, inst, 0, v->width)) return emit_value(e, inst);
    if (x->op == OP_and)
        return emit_text(e, "(%s && %s)", condition_text(e, v, x->a[0]),
                         condition_text(e, v, x->a[1]));
    return emit_text(e, "%s %s %lld", emit_index(e, b->insts.at[x->a[0]].ix),
                     x->op == OP_lt ? "<" : ">=", (long long)b->insts.at[x->a[1]].ivalue);
}

// Whether a load's condition may differ between the lanes of a vector. If it is the same along
// every vector, like that of a window's pixels along the channels, it is tested for the first lane
// only.
static bool leaves_lanes(const Emit *e, const Inst *x, int axis, int width)
{
    const Body *b = e->body;
    if (x->pred < 0 || !inst_over(&b->insts.at[x->pred], axis)) return false;
    bool column = b->sched.kind == SCHED_COLUMN && axis == 0; // only there the first lane is named
    return !column || !inst_placed(b, x->pred) || !same_in_lanes(b, x->pred, axis, width);
}

int vector_width(const Vectors *v, int load)
{
    for (int i = 0; i < v->nloads; i++)
        if (v->loads[i] == load && v->steady[i]) return 1;
    return v->width;
}

// For a map's load of p[at % n], where consecutive elements along the axis have consecutive at: n;
// for other loads 0.
static int64_t goes_round(const Emit *e, const Inst *x, int axis)
{
    const Body *b = e->body;
    const Ix *at = x->ix;
    int bytes = element_bytes(b, x->buf);
    int64_t stride;
    if (b->sched.kind != SCHED_MAP || x->pred >= 0 || (bytes != 2 && bytes != 4) ||
        !buf_begins(b, x->buf, 16 / bytes))
        return 0;
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
        if (!e->live[i] || x->kind != KI_LOAD || inst_nested(b, x)) continue;
        const bool shared = chosen_load(e, (int)i) != (int)i || shares_vector(e, (int)i);
        if (!shared && leaves_lanes(e, x, axis, width)) continue;
        v.steady[v.nloads] = steady_place(e, x, axis, width);
        if (v.steady[v.nloads] || vector_place(e, x->ix, axis, width, x->buf) ||
            goes_round(e, x, axis) || aligned_parts(e, x, axis, width))
            v.loads[v.nloads++] = (int)i;
    }
    for (uint32_t i = 0; i < b->stores.n && i < MAX_STORES; i++) {
        const BodyStore *s = &b->stores.at[i];
        v.store[i] =
            s->buf >= 0 && !s->joins && !s->guard && vector_place(e, s->ix, axis, width, s->buf);
    }
    return v;
}

void add_loads(const Emit *e, Vectors *v, bool (*wanted)(const Emit *e, int load))
{
    for (int i = 0; i < (int)e->body->insts.n && v->nloads < MAX_VECTORS; i++)
        if (e->live[i] && e->body->insts.at[i].kind == KI_LOAD && wanted(e, i))
            v->loads[v->nloads++] = i;
}

const char *vec_type(Emit *e, DType t, int width)
{
    return emit_text(e, "NcVec<%s, %d>", type_storage(t), width);
}

bool is_plain(const Emit *e, int load)
{
    const Inst *v = &e->body->insts.at[load];
    return v->pred < 0 && !v->ix->has_value && v->stage == 0 && !inst_nested(e->body, v);
}

static int64_t array_bytes(const BodyBuf *b)
{
    return b->elems * (dtype_info[b->type].bits / 8);
}

// The suffix of the prelude's function for a load ("nc_" and this). In rows and maps that read and
// write arrays larger than the L2 cache, lines that are read are kept there longest (nc_keep), so
// that lines that are written go to memory early and in order: on an H200 softmax of
// bf16[32768, 4096] went from 4080 to 4247 GB/s. This is not done if rows share lines of memory:
// with rows of 1000 columns, softmax went from 4091 to 4147 GB/s, but layer norm from 4159 to 3800.
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
    const bool keeps = streams && !from->written && !from->in_place && array_bytes(from) > cache &&
                       written > cache;
    return keeps ? "keep" : "load";
}

// Whether an unaligned load always has the same misalignment as load [like].
static bool moves_with(const Body *b, int load, int like)
{
    const Inst *x = &b->insts.at[load], *y = &b->insts.at[like < 0 ? load : like];
    return like >= 0 && x->ix == y->ix &&
           dtype_info[b->bufs.at[x->buf].type].bits == dtype_info[b->bufs.at[y->buf].type].bits;
}

// Whether each element of the buffer is loaded about once, unlike in overlapping windows or
// broadcasts.
static bool loaded_once(const Body *b, int buf)
{
    double loaded = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        double times = 1;
        for (int k = 0; k < b->naxes; k++)
            if (k < b->npar || v->axes >> k & 1) times *= (double)b->axis[k].extent;
        if (v->kind == KI_LOAD && v->buf == buf) loaded += times;
    }
    return loaded < 2 * (double)b->bufs.at[buf].elems;
}

static const char *load_text(Emit *e, const Vectors *v, int load)
{
    const Body *b = e->body;
    const Inst *x = &b->insts.at[load];
    const BodyBuf *from = &b->bufs.at[x->buf];
    const int width = vector_width(v, load), part = aligned_parts(e, x, v->axis, width);
    const int64_t round = goes_round(e, x, v->axis);
    const char *pred = x->pred >= 0 ? condition_text(e, v, x->pred) : NULL, *text;
    const char *buf = e->buf_name[x->buf], *at = emit_index(e, x->ix),
               *place = emit_address(e, buf, at),
               *left = emit_text(e, "%lld - (%s)", (long long)from->elems, at);
    if (round) {
        text = emit_text(e, "nc_load_round<%d>(%s, %s, %lld)", width, buf, at, (long long)round);
    } else if (part && !vector_place(e, x->ix, v->axis, width, x->buf)) {
        text = emit_text(e, "nc_load_parts<%d, %d>(%s + (%s))", width, part, buf, at);
    } else if (v->any && v->any[load]) {
        // With a margin, the lines around a vector are always within the array.
        const bool margin = b->sched.row.margin > 0;
        text = emit_text(e, "nc_load_any<%d>(%s, %s%s)", width, place, margin ? "64" : left,
                         margin && moves_with(b, load, v->moved) ? ", words" : "");
    } else {
        // Columns have many narrow vectors: issued early, they would take too many registers.
        const bool wide = width * element_bytes(b, x->buf) == 16 || b->sched.kind == SCHED_ROW;
        const bool stream = v->streams && wide && inst_over(x, b->col) && !from->written &&
                            !from->in_place && loaded_once(b, x->buf);
        const bool open = v->open && from->elems % width;
        text = emit_text(e, "nc_%s<%d>(%s%s%s)",
                         e->follow ? "prefetch"
                         : stream  ? "fetch"
                                   : load_word(e, x),
                         width, place, open ? ", " : "", open ? left : "");
    }
    return pred ? emit_text(e, "%s ? %s : %s{}", pred, text, slot_type(e, v, load)) : text;
}

void print_vector_load(Emit *e, const Vectors *v, int load, const char *slot)
{
    if (chosen_load(e, load) != load) return;
    const char *own = e->axis[v->axis];
    if (v->base) e->axis[v->axis] = v->base;
    const char *from = shares_vector(e, load) ? choice_text(e, v, load) : load_text(e, v, load);
    e->axis[v->axis] = own;
    emit(e, "%s = %s;", slot, from);
}

void print_slot(Emit *e, const Vectors *v, int load)
{
    print_vector_load(e, v, load, emit_text(e, "%s %s", slot_type(e, v, load), slot_name(e, load)));
}

const char *slot_type(Emit *e, const Vectors *v, int load)
{
    return vec_type(e, load_dtype(e->body, load), vector_width(v, load));
}

const char *slot_name(Emit *e, int load)
{
    return emit_text(e, "%s_vec", e->name[chosen_load(e, load)]);
}

void open_lanes(Emit *e, const Vectors *v, const char *axis)
{
    emit_open(e, 1ull << v->axis);
    const char *lane = emit_count("lane", v->width), *at = emit_plus(e, v->base, lane);
    if (strcmp(at, axis)) emit_int(e, axis, "%s", at);
    e->near = (Neighbours){
        .scope = e->scope, .axis = v->axis, .width = v->width, .base = v->base, .lane = lane};
}

void close_lanes(Emit *e, const Vectors *v)
{
    e->near = (Neighbours){0};
    emit_times(e, "lane", v->width);
}

void bind_element(Emit *e, const Vectors *v, int load, const char *index)
{
    e->element[load] = emit_text(e, "%s%s.at[%s]", slot_name(e, load), index,
                                 emit_count("lane", vector_width(v, load)));
}

void release_elements(Emit *e, const Vectors *v)
{
    for (int i = 0; i < v->nloads; i++) e->element[v->loads[i]] = NULL;
}

void stop_if_failed(Emit *e)
{
    emit(e, "if (failed) return; // a check has failed: nothing is committed");
}

// Maps that commit test the error record only before they store, so that its load is in flight
// together with all others.
static bool tests_late(const Body *b)
{
    return b->commits && b->sched.kind == SCHED_MAP;
}

static bool wants_store(const Emit *e, uint32_t i, int stage)
{
    const BodyStore *s = &e->body->stores.at[i];
    if (s->fold) return false; // partial results over rows are stored by other code
    return store_over(e->body, s, e->body->col) ? s->stage == stage : stage < 0;
}

const char *packs(DType t)
{
    return t == DT_BF16 ? "nc_pack_b" : t == DT_F16 ? "nc_pack_h" : NULL;
}

void load_stacks(Emit *e, const Stacks *s)
{
    const Body *b = e->body;
    for (int i = 0; i < (int)b->insts.n; i++) {
        const Stack *k = &s->load[i];
        if (!k->width) continue;
        const Inst *v = &b->insts.at[i];
        const char *slot = emit_text(e, "%s_row", e->name[k->first]);
        if (k->first == i) {
            const char *at = emit_index(e, ix_add(b->ix, v->ix, ix_const(b->ix, -k->lane)));
            emit(e, "const %s %s = nc_%s<%d>(%s);", vec_type(e, load_dtype(b, i), k->width), slot,
                 load_word(e, v), k->width, emit_address(e, e->buf_name[v->buf], at));
        }
        e->element[i] = emit_text(e, "%s.at[%d]", slot, k->lane);
    }
}

void release_stacks(Emit *e, const Stacks *s)
{
    for (uint32_t i = 0; i < e->body->insts.n; i++)
        if (s->load[i].width) e->element[i] = NULL;
}

// Stores the stack that begins with store [first] as a vector.
static void store_stack(Emit *e, const Stacks *s, uint32_t first)
{
    const Body *b = e->body;
    const BodyStore *own = &b->stores.at[first];
    const int width = s->store[first].width;
    const DType t = b->bufs.at[own->buf].type;
    const char **of = NEW_ARRAY(e->arena, const char *, width);
    for (uint32_t i = first; i < b->stores.n; i++) {
        const BodyStore *x = &b->stores.at[i];
        if (s->store[i].width != width || s->store[i].first != (int)first) continue;
        const char *value = emit_value(e, emit_unrounded(e, x));
        of[s->store[i].lane] = packs(t) ? value : emit_stored(e, t, value);
    }
    const char *type = packs(t) ? emit_text(e, "NcVec<float, %d>", width) : vec_type(e, t, width),
               *list = of[0];
    for (int i = 1; i < width; i++) list = emit_text(e, "%s, %s", list, of[i]);
    const Ix *at = ix_add(b->ix, own->ix, ix_const(b->ix, -s->store[first].lane));
    emit(e, "const %s out%u = {{%s}};", type, first, list);
    emit(e, "nc_store<%d>(%s, %s%sout%u%s);", width,
         emit_address(e, e->buf_name[own->buf], emit_index(e, at)), packs(t) ? packs(t) : "",
         packs(t) ? "(" : "", first, packs(t) ? ")" : "");
}

void lane_stores(Emit *e, const Vectors *v, int stage)
{
    const Body *b = e->body;
    for (int pass = 0; pass < 2; pass++) {
        bool direct = false; // some store goes element by element, straight to memory
        for (uint32_t i = 0; i < b->stores.n; i++)
            direct |= wants_store(e, i, stage) && b->stores.at[i].buf >= 0 &&
                      !(i < MAX_STORES && v->store[i]);
        if (pass && direct && tests_late(b)) stop_if_failed(e);
        for (uint32_t i = 0; i < b->stores.n; i++) {
            const BodyStore *s = &b->stores.at[i];
            if (!wants_store(e, i, stage)) continue;
            const char *x = emit_value(e, s->buf < 0 ? s->value : emit_unrounded(e, s));
            if (s->ix) emit_index(e, s->ix);
            if (pass == 0 || s->buf < 0) continue;
            if (v->stacks && v->stacks->store[i].width) {
                if (v->stacks->store[i].first == (int)i) store_stack(e, v->stacks, i);
                continue;
            }
            const DType t = b->bufs.at[s->buf].type;
            if (i < MAX_STORES && v->store[i])
                emit(e, "out%u.at[lane] = %s;", i, packs(t) ? x : emit_stored(e, t, x));
            else
                emit_store(e, s);
        }
    }
}

void open_stores(Emit *e, const Vectors *v, int stage)
{
    for (uint32_t i = 0; i < e->body->stores.n && i < MAX_STORES; i++)
        if (v->store[i] && wants_store(e, i, stage)) {
            DType t = e->body->bufs.at[e->body->stores.at[i].buf].type;
            emit(e, "%s out%u;",
                 packs(t) ? emit_text(e, "NcVec<float, %d>", v->width) : vec_type(e, t, v->width),
                 i);
        }
}

void flush_stores(Emit *e, const Vectors *v, int stage)
{
    if (tests_late(e->body)) stop_if_failed(e);
    for (uint32_t i = 0; i < e->body->stores.n && i < MAX_STORES; i++) {
        const BodyStore *s = &e->body->stores.at[i];
        DType t = s->buf < 0 ? DT_F32 : e->body->bufs.at[s->buf].type;
        if (!v->store[i] || !wants_store(e, i, stage)) continue;
        const char *at = emit_index_at(e, s->ix, v->axis, v->base ? v->base : e->axis[v->axis]);
        emit(e, packs(t) ? "nc_store<%d>(%s, %s(out%u));" : "nc_store<%d>(%s, %sout%u);", v->width,
             emit_address(e, e->buf_name[s->buf], at), packs(t) ? packs(t) : "", i);
    }
}
