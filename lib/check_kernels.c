// Every entry on the device against the reference evaluator: fused, unfused, without the library.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/axes.h"
#include "lib/check.h"
#include "lib/synthetic.h"

// What a run may differ by from exact arithmetic. The one place that says so: per tensor, the
// largest difference that rounding every result to its own type makes in the evaluator (its
// conditioning), times SLACK for another order of operations, plus a few units in the last place of
// the tensor's largest element, growing with the square root of the longest sum.
enum { SLACK = 32, ULPS = 8 };

static double epsilon(DType t, Precision p)
{
    if (p == PREC_TF32 || p == PREC_F16 || t == DT_F16) return 0x1p-10;
    if (p == PREC_BF16 || t == DT_BF16) return 0x1p-7;
    return t == DT_F64 ? 0x1p-52 : 0x1p-23;
}

static double magnitude(const Value *v)
{
    double m = 0;
    for (int64_t i = 0; i < type_count(&v->type); i++) {
        double x = fabs(value_get(v, i));
        if (isfinite(x) && x > m) m = x;
    }
    return m;
}

static double tolerance(const Value *exact, const Value *rounded, int64_t longest, DType narrowest,
                        Precision p)
{
    double noise = 0;
    for (int64_t i = 0; i < type_count(&exact->type); i++) {
        double d = fabs(value_get(exact, i) - value_get(rounded, i));
        if (isfinite(d) && d > noise) noise = d;
    }
    if (!dtype_is_float(exact->type.dtype)) return SLACK * noise;
    return SLACK * noise + ULPS * epsilon(narrowest, p) * sqrt((double)longest) * magnitude(exact);
}

// The float type with the coarsest rounding in the graph: a sum of f32 values is no better kept in
// f64.
static DType narrowest_float(const Graph *g)
{
    DType t = DT_F64;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        DType own = g->nodes.at[i]->type.dtype;
        if (dtype_is_float(own) && epsilon(own, PREC_F32) > epsilon(t, PREC_F32)) t = own;
    }
    return t;
}

// The most elements any reduction or contraction of the graph adds up.
static int64_t longest_sum(const Graph *g)
{
    int64_t longest = 1;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (node_class(n) != CLS_DOT && node_class(n) != CLS_REDUCE) continue;
        int64_t k = reduced_count(n);
        if (k > longest) longest = k;
    }
    return longest;
}

typedef struct Comparison {
    Checking *c;
    const char *variant, *entry;
    int64_t longest;
    DType narrowest;
    int compared, wrong;
    double worst; // error over tolerance
} Comparison;

static void compare(Comparison *k, const char *what, const char *name, const Value *have,
                    const Value *exact, const Value *rounded)
{
    Precision p = k->c->p->settings.precision;
    double allowed = tolerance(exact, rounded, k->longest, k->narrowest, p), worst = 0;
    int64_t at = -1;
    for (int64_t i = 0; i < type_count(&exact->type); i++) {
        double a = value_get(have, i), b = value_get(exact, i), r = value_get(rounded, i);
        if (!isfinite(b) || !isfinite(r)) continue; // nothing to hold the device to
        double d = fabs(a - b);
        if (!(d <= worst)) worst = d, at = i;
        if (isnan(a)) break;
    }
    k->compared++;
    double share = allowed > 0 ? worst / allowed : worst > 0 ? INFINITY : 0;
    if (share > k->worst) k->worst = share;
    if (worst <= allowed) return;
    k->wrong++;
    k->c->ok = false;
    buf_printf(
        k->c->out,
        "  WRONG %s of %s (%s): %s[%lld] is %.9g, the reference %.9g, allowed difference %.2g\n",
        what, k->entry, k->variant, name, (long long)at, value_get(have, at), value_get(exact, at),
        allowed);
}

static Value *from_bytes(Arena *a, const Type *t, const void *bytes)
{
    Value *v = NEW(a, Value);
    *v = value_new(a, t);
    value_from_bytes(v, bytes);
    return v;
}

static bool read_cells(Checking *c, netc_session *s, StrMap *cells)
{
    *cells = strmap_new(c->arena);
    for (int i = 0; i < rt_cell_count(s->rt); i++) {
        const ProgCell *cell = rt_cell_info(s->rt, i);
        size_t n = (size_t)prog_type_bytes(&cell->type);
        void *bytes = arena_alloc(c->arena, n + 1);
        RtError e = {0};
        if (rt_cell_read(s->rt, cell->name, bytes, n, &e)) {
            c->status = lib_fail_rt(c->err, &e);
            return false;
        }
        Type t = type_make((DType)cell->type.dtype, cell->type.rank, cell->type.dim);
        strmap_set(cells, cell->name, from_bytes(c->arena, &t, bytes));
    }
    return true;
}

// One execution of an entry in session s, compared with the evaluator on the entry's plain graph.
static void check_entry(Checking *c, netc_session *s, const Entry *entry, const char *variant)
{
    Graph *g = entry->graph;
    Comparison k = {.c = c,
                    .variant = variant,
                    .entry = entry->name,
                    .longest = longest_sum(g),
                    .narrowest = narrowest_float(g)};
    EvalEnv env = {.arena = c->arena, .inputs = strmap_new(c->arena)};
    EvalResult exact = {0}, rounded = {0};
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_input)
            strmap_set(&env.inputs, attr_str(g->nodes.at[i], ATTR_name),
                       checking_input(c, g->nodes.at[i]));
    c->status = synthetic_bind(s, entry->name, c->seed, c->arena, c->err);
    // The row table of bound arrays begins at 0, and so must the cursor the evaluator sees.
    if (c->status == NETC_OK && entry->cursor)
        c->status = session_set_control(s, entry->cursor, 0, c->err);
    if (c->status != NETC_OK || !read_cells(c, s, &env.cells)) return;
    if (c->status == NETC_OK) c->status = netc_run(s, entry->name, 1, c->err);
    if (c->status == NETC_OK) c->status = netc_sync(s, c->err);
    StrMap after;
    if (c->status != NETC_OK || !read_cells(c, s, &after)) return;
    bool ran = eval_graph(g, &env, &exact);
    env.round = true;
    if (!ran || !eval_graph(g, &env, &rounded)) {
        c->status = lib_fail_diags(c->err, NETC_INTERNAL, g->diags);
        return;
    }
    for (uint32_t i = 0; i < exact.outputs.n && c->status == NETC_OK; i++) {
        const char *name = exact.outputs.entry[i].key;
        const Value *v = exact.outputs.entry[i].value;
        netc_tensor t = {.dtype = (netc_dtype)v->type.dtype, .rank = v->type.rank};
        memcpy(t.dim, v->type.dim, sizeof t.dim);
        t.data = arena_alloc(c->arena, (size_t)type_bytes(&v->type) + 1);
        c->status = netc_read(s, entry->name, name, &t, c->err);
        if (c->status == NETC_OK)
            compare(&k, "output", name, from_bytes(c->arena, &v->type, t.data), v,
                    strmap_get(&rounded.outputs, name));
    }
    for (uint32_t i = 0; i < exact.assigns.n && c->status == NETC_OK; i++) {
        const char *name = exact.assigns.entry[i].key;
        const Value *have = strmap_get(&after, name);
        if (have)
            compare(&k, "cell", name, have, exact.assigns.entry[i].value,
                    strmap_get(&rounded.assigns, name));
    }
    buf_printf(c->out, "  %-8s %-12s %3d tensors, worst %.3f of what is allowed%s\n", entry->name,
               variant, k.compared, k.worst, k.wrong ? "  WRONG" : "");
}

typedef struct Variant {
    const char *name, *skip;
    bool no_library, no_reuse, as_compiled; // as_compiled: measured schedules, edited kernels
} Variant;

static void check_variant(Checking *c, const Module *plain, const Variant *v)
{
    const Settings *set = &c->p->settings;
    static const char *const precision[] = {"f32", "tf32", "bf16", "f16"};
    NETC_INIT(netc_compile_options, o);
    o.defines = set->defines;
    o.ndefines = set->ndefines;
    o.precision = precision[set->precision];
    o.skip_passes = v->skip;
    o.no_matmul_library = v->no_library || set->no_matmul_library;
    o.no_reuse = v->no_reuse;
    if (v->as_compiled && c->p->tuning) o.tune_file = set->tune_file;
    o.locked = v->as_compiled && set->locked;
    if (v->as_compiled && c->p->edited) o.kernels_dir = set->kernels_dir;
    netc_program *p = NULL;
    netc_session *s = NULL;
    NETC_INIT(netc_session_options, so);
    so.seed = c->seed;
    c->status = netc_compile_text(c->p->context, c->p->name, c->p->text, &o, &p, c->err);
    if (c->status == NETC_OK) c->status = netc_session_create(p, c->device, &so, &s, c->err);
    for (uint32_t i = 0; c->status == NETC_OK && i < plain->entries.n; i++)
        if (plain->entries.at[i].kind != ENTRY_INIT)
            check_entry(c, s, &plain->entries.at[i], v->name);
    netc_session_free(s);
    netc_program_release(p);
}

void check_all_kernels(Checking *c)
{
    static const Variant variants[] = {
        {"fused", NULL, false, false, true},
        {"unfused", "simplify,recompute,fuse", false, true, false},
        {"no library", NULL, true, false, false},
    };
    Diags *d;
    Module *plain = checking_module(c, "", &d);
    Target target = target_cpu(1, true);
    PassOptions po = {.target = &target,
                      .precision = c->p->settings.precision,
                      .skip = "simplify,recompute,fuse"};
    if (!plain) return;
    if (!passes_run(plain, &po, NULL) || d->errors) {
        c->status = lib_fail_diags(c->err, NETC_INTERNAL, d);
        return;
    }
    buf_printf(c->out, "kernels on %s against the reference evaluator\n",
               c->device ? c->device : "the default device");
    // Without the library the first is the last, but for what was measured or edited.
    int n = sizeof variants / sizeof *variants;
    if (c->p->settings.no_matmul_library && !c->p->tuning && !c->p->edited) n--;
    for (int i = 0; i < n && c->status == NETC_OK; i++) check_variant(c, plain, &variants[i]);
}
