// Models compiled one way for one device, and run on inputs made up from their names.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/scalar.h"
#include "tests/fuzz/programs/random.h"
#include "tests/fuzz/programs/trial.h"

const char *optional_passes(Arena *a, const char *but)
{
    Buf list = buf_new(a);
    for (int i = 0; i < pass_count; i++)
        if (pass_table[i].kind != PASS_REQUIRED && strcmp(pass_table[i].name, but) != 0)
            buf_printf(&list, "%s%s", list.len ? "," : "", pass_table[i].name);
    return list.data;
}

int side_devices(const char *device)
{
    int n = 1;
    for (const char *p = device; (p = strchr(p, ',')); p++) n++;
    return n;
}

netc_status side_open(netc_context *c, const char *text, const char *device, const Variant *v,
                      uint64_t seed, Side *out, netc_error **err)
{
    NETC_INIT(netc_compile_options, o);
    NETC_INIT(netc_session_options, so);
    o.precision = v->precision;
    Arena *a = arena_new();
    o.skip_passes = v->skip && !strcmp(v->skip, "*") ? optional_passes(a, "") : v->skip;
    o.no_matmul_library = v->no_library;
    o.no_reuse = v->no_reuse;
    o.memory_limit = v->memory_limit;
    o.target = strncmp(device, "cuda", 4) ? "cpu" : "cuda";
    o.devices = side_devices(device);
    so.seed = (int64_t)(seed % 1000003);
    *out = (Side){0};
    netc_status status = netc_compile_text(c, "programs.net", text, &o, &out->program, err);
    arena_free(a);
    if (status != NETC_OK || !strcmp(device, "noise")) return status;
    status = netc_session_create(out->program, device, &so, &out->session, err);
    return status == NETC_INVALID ? NETC_INTERNAL : status; // the text was right
}

void side_close(Side *s)
{
    netc_session_free(s->session);
    netc_program_release(s->program);
}

// -- inputs ---------------------------------------------------------------------------------------

// The ends of types, and what is no number.
static double special(Random *r, DType t)
{
    static const double reals[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, 3, 1e-3};
    static const double whole[] = {0, 1, -1, INT32_MAX, INT32_MIN, 0x1p40, -0x1p40, 255, 7, 2};
    return (dtype_is_float(t) ? reals : whole)[random_below(r, 10)];
}

static double element(Random *r, char fill, DType t)
{
    if (fill == 'x' && t != DT_BOOL) return special(r, t);
    if (t == DT_BOOL) return random_below(r, 2);
    if (dtype_is_float(t) && fill == 'q') return random_below(r, 17) / 4.0 - 2; // many equal ones
    if (!dtype_is_float(t) && fill == 'i') return random_below(r, 64);
    double normal = sqrt(-2 * log(random_unit(r))) * cos(2 * M_PI * random_unit(r));
    if (dtype_is_float(t)) return normal * (fill == 's' ? 0.01 : fill == 'w' ? 30 : 1);
    double v = trunc(fill == 'w' ? normal * 1000 : normal * 2);
    return t == DT_U8 || t == DT_U32 ? fabs(v) : v;
}

// n3_f16 is rounded to f16 whatever its type; n3 to f32.
static DType rounded_to(const char *name, DType t)
{
    const char *mark = strchr(name, '_');
    DType r = DT_F32;
    if (!dtype_is_float(t)) return t;
    if (mark) dtype_parse(mark + 1, &r);
    return r;
}

void *fill_input(Arena *a, const char *name, const Type *t, int64_t low, int64_t high,
                 uint64_t seed)
{
    int64_t n = type_count(t), size = dtype_info[t->dtype].bits / 8;
    char *bytes = arena_alloc(a, (size_t)(n * size) + 16);
    Random r = {hash_mix(hash_str(name), seed)};
    const DType rounding = rounded_to(name, t->dtype);
    for (int64_t i = 0; i < n; i++) {
        Scalar s;
        double v = low < high ? (double)(low + random_below(&r, (int)(high - low)))
                              : element(&r, *name, t->dtype);
        if (dtype_is_float(t->dtype))
            s.f = scalar_round(rounding, v);
        else
            s.i = scalar_to_int(t->dtype, v);
        scalar_store(t->dtype, bytes + i * size, s);
    }
    return bytes;
}

StrMap fill_leaves(Arena *a, const Graph *g, bool cells, uint64_t seed)
{
    StrMap out = strmap_new(a);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (cells ? n->op != OP_param && n->op != OP_state : n->op != OP_input) continue;
        const char *name = attr_str(n, ATTR_name);
        void *bytes = fill_input(a, name, &n->type, attr_int(n, ATTR_low_bound, 0),
                                 attr_int(n, ATTR_high_bound, 0), seed);
        strmap_set(&out, name, as_value(a, &n->type, bytes));
    }
    return out;
}

static Type type_of(const ProgType *t)
{
    return type_make((DType)t->dtype, t->rank, t->dim);
}

static netc_status bind_all(Side *s, const ProgEntry *e, uint64_t seed, Arena *a, netc_error **err)
{
    netc_status status = NETC_OK;
    for (int i = 0; i < e->ninputs && status == NETC_OK; i++) {
        const ProgInput *in = &e->inputs[i];
        Type t = type_of(&in->type);
        netc_tensor given =
            tensor_of(&in->type, fill_input(a, in->name, &t, in->has_range ? in->low : 0,
                                            in->has_range ? in->high : 0, seed));
        status = netc_bind(s->session, e->name, in->name, &given, err);
    }
    return status;
}

// -- results --------------------------------------------------------------------------------------

Value *as_value(Arena *a, const Type *t, const void *bytes)
{
    Value *v = NEW(a, Value);
    *v = value_new(a, t);
    value_from_bytes(v, bytes);
    return v;
}

netc_status side_run(Side *s, const char *entry, uint64_t seed, int times, Arena *a,
                     StrMap *outputs, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    *outputs = strmap_new(a);
    netc_status status = session_entry(s->session, entry, &l, &e, err);
    if (status == NETC_OK) status = bind_all(s, e, seed, a, err);
    if (status == NETC_OK) status = netc_run(s->session, entry, times, err);
    if (status == NETC_OK) status = netc_sync(s->session, err);
    for (int i = 0; status == NETC_OK && i < e->noutputs; i++) {
        Type t = type_of(&e->outputs[i].type);
        netc_tensor out =
            tensor_of(&e->outputs[i].type, arena_alloc(a, (size_t)type_bytes(&t) + 16));
        status = netc_read(s->session, entry, e->outputs[i].name, &out, err);
        if (status == NETC_OK) strmap_set(outputs, e->outputs[i].name, as_value(a, &t, out.data));
    }
    return status;
}

netc_status side_cells(Side *s, Arena *a, StrMap *cells, netc_error **err)
{
    *cells = strmap_new(a);
    for (int i = 0; i < rt_cell_count(s->session->rt); i++) {
        const ProgCell *c = rt_cell_info(s->session->rt, i);
        size_t n = (size_t)prog_type_bytes(&c->type);
        void *bytes = arena_alloc(a, n + 16);
        RtError e = {0};
        if (rt_cell_read(s->session->rt, c->name, bytes, n, &e)) return lib_fail_rt(err, &e);
        Type t = type_of(&c->type);
        strmap_set(cells, c->name, as_value(a, &t, bytes));
    }
    return NETC_OK;
}
