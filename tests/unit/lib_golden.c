// What another framework computes: every model of tests/golden beside what JAX gave for it in
// double precision (tests/golden/make.py), as kernels in f64 and f32 and through the reference
// evaluator, which kernels are checked against everywhere else. Evaluator and printers share the op
// table; this holds both. A file of both types runs its kernels in one of them each day (SEED;
// SHIM_ALL: in both): they are the same text but for the type.
//
// GOLDEN_DEVICE=cuda:0: the kernels of that device. Runs from the root of the repository.
#include <ctype.h>
#include <math.h>
#include <time.h>

#include "frontend/frontend.h"
#include "ir/eval.h"
#include "passes/passes.h"
#include "runtime/data.h"
#include "tests/unit/api.h"

static const char *const files[] = {"elementwise", "integers", "reductions", "views",
                                    "products",    "layers",   "networks",   "convolutions",
                                    "library",     "training", "weights"};

typedef struct Golden {
    Arena *a;
    const char *name, *real; // the file, the element type its models have
    RtTensors t;
    StrMap by_name; // RtTensor *
    char *text;
    size_t len;
    int compared;
} Golden;

static const RtTensor *find(Golden *g, const char *model, const char *part, const char *name)
{
    return strmap_get(&g->by_name, arena_printf(g->a, "%s/%s/%s", model, part, name));
}

// Training is eight steps, each seeing the last one's cells, which are compared like results.
static int times(const char *entry)
{
    return strcmp(entry, "train") ? 1 : 8;
}

static bool has_goldens(const Golden *g, const char *entry)
{
    size_t n = strlen(entry);
    for (int i = 0; i < g->t.n; i++)
        if (!strncmp(g->t.at[i].name, entry, n) && g->t.at[i].name[n] == '/') return true;
    return false;
}

// A tensor of the file as an evaluator's value of type [t], which may differ in its float type.
static Value *value_of(Golden *g, const RtTensor *from, const Type *to)
{
    Type stored = type_make((DType)from->type.dtype, from->type.rank, from->type.dim);
    Value *raw = NEW(g->a, Value), *v = NEW(g->a, Value);
    *raw = value_new(g->a, &stored);
    value_from_bytes(raw, from->data);
    *v = value_new(g->a, to);
    if (type_count(to) != type_count(&stored) ||
        dtype_is_float(to->dtype) != dtype_is_float(stored.dtype))
        return NULL;
    for (int64_t i = 0; i < type_count(to); i++) {
        if (dtype_is_float(to->dtype))
            v->f[i] = raw->f[i];
        else
            v->i[i] = raw->i[i];
    }
    return v;
}

// Each element within what its own inputs' rounding can do; what is exact, exactly; NaN and Inf
// alike.
static void compare(Golden *g, const char *model, const char *name, const Value *have)
{
    enum { SLACK = 160 };
    // In f64 JAX rounds as well, and where it cancels, as in the second gradient of tanh, more.
    // What layers compute of parameters alone is f32, as batch norm's scale.
    bool layers = !strcmp(g->name, "layers") || !strcmp(g->name, "networks");
    double eps = have->type.dtype == DT_F64 && !layers ? 0x1p-51 : 0x1p-24;
    const RtTensor *want = find(g, model, "out", name), *unit = find(g, model, "unit", name);
    CHECK_MSG(want, "%s.net: %s has a result '%s' that the file does not", g->name, model, name);
    Value *w = want ? value_of(g, want, &have->type) : NULL;
    CHECK_MSG(w && have->type.rank == want->type.rank &&
                  !memcmp(have->type.dim, want->type.dim, 8 * (size_t)have->type.rank),
              "%s.net: %s.%s has another type or shape", g->name, model, name);
    if (!w) return;
    g->compared++;
    for (int64_t i = 0; i < type_count(&w->type); i++) {
        double a = value_get(have, i), b = value_get(w, i);
        double allowed = unit ? SLACK * eps * (double)((const float *)unit->data)[i] + 16 * eps : 0;
        bool same = isfinite(b) ? fabs(a - b) <= allowed : isnan(b) ? isnan(a) : a == b;
        if (same) continue;
        CHECK_MSG(false,
                  "%s.net in %s: %s.%s[%lld] is %.17g, JAX gives %.17g, allowed difference %.3g",
                  g->name, g->real, model, name, (long long)i, a, b, allowed);
        return;
    }
    CHECK(true);
}

static void evaluate(Golden *g, const Entry *entry, const Module *m)
{
    EvalEnv env = {.arena = g->a, .inputs = strmap_new(g->a), .cells = strmap_new(g->a)};
    EvalResult out = {0};
    for (uint32_t i = 0; i < entry->graph->nodes.n; i++) {
        const Node *n = entry->graph->nodes.at[i];
        if (n->op != OP_input) continue;
        const RtTensor *t = find(g, entry->name, "in", attr_str(n, ATTR_name));
        CHECK_MSG(t, "%s.net: %s has no input '%s'", g->name, entry->name, attr_str(n, ATTR_name));
        if (t) strmap_set(&env.inputs, attr_str(n, ATTR_name), value_of(g, t, &n->type));
    }
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *cell = &m->cells.at[i];
        const RtTensor *t = find(g, entry->name, "cell", cell->name);
        Value *zero = NEW(g->a, Value);
        *zero = value_new(g->a, &cell->type);
        strmap_set(&env.cells, cell->name, t ? value_of(g, t, &cell->type) : zero);
    }
    for (int k = 0; k < times(entry->name); k++) {
        out = (EvalResult){0};
        CHECK(eval_graph(entry->graph, &env, &out));
        for (uint32_t i = 0; i < out.assigns.n; i++)
            strmap_set(&env.cells, out.assigns.entry[i].key, out.assigns.entry[i].value);
    }
    for (uint32_t i = 0; i < out.outputs.n; i++)
        compare(g, entry->name, out.outputs.entry[i].key, out.outputs.entry[i].value);
    for (uint32_t i = 0; i < m->cells.n; i++)
        if (find(g, entry->name, "out", m->cells.at[i].name))
            compare(g, entry->name, m->cells.at[i].name,
                    strmap_get(&env.cells, m->cells.at[i].name));
}

static void evaluate_all(Golden *g)
{
    Diags *d = diags_new(g->a);
    Define real = {.name = "real", .value = g->real};
    FrontendOptions fo = {.defines = &real, .ndefines = strstr(g->text, "const real") != NULL};
    Target target = target_cpu(1, true);
    PassOptions po = {.target = &target, .skip = "simplify,recompute,fuse"};
    Module *m = frontend_compile(g->a, d, g->name, g->text, g->len, &fo);
    CHECK(m && !d->errors && passes_run(m, &po, NULL));
    for (uint32_t i = 0; m && i < m->entries.n; i++)
        if (has_goldens(g, m->entries.at[i].name)) evaluate(g, &m->entries.at[i], m);
}

static netc_tensor tensor_of(Golden *g, const netc_port *port, const RtTensor *from)
{
    netc_tensor t = {.dtype = port->dtype, .rank = port->rank};
    memcpy(t.dim, port->dim, sizeof t.dim);
    Type type = type_make((DType)port->dtype, port->rank, port->dim);
    t.data = arena_alloc(g->a, (size_t)type_bytes(&type) + 1);
    Value *v = from ? value_of(g, from, &type) : NULL;
    if (v) value_to_bytes(v, t.data);
    return t;
}

static void compare_port(Golden *g, const char *model, const netc_port *port, const netc_tensor *t)
{
    Type type = type_make((DType)port->dtype, port->rank, port->dim);
    Value v = value_new(g->a, &type);
    value_from_bytes(&v, t->data);
    compare(g, model, port->name, &v);
}

static void run_model(Golden *g, netc_program *p, netc_session *s, const char *model)
{
    netc_error *err = NULL;
    netc_port port;
    for (int i = 0; i < netc_input_count(p, model); i++) {
        FINE(netc_input_info(p, model, i, &port, &err));
        netc_tensor t = tensor_of(g, &port, find(g, model, "in", port.name));
        FINE(netc_bind(s, model, port.name, &t, &err));
    }
    for (int i = 0; i < netc_state_count(s); i++) {
        FINE(netc_state_info(s, i, &port, &err));
        const RtTensor *cell = find(g, model, "cell", port.name);
        netc_tensor t = tensor_of(g, &port, cell);
        if (cell) FINE(netc_state_write(s, port.name, &t, &err));
    }
    FINE(netc_run(s, model, times(model), &err));
    FINE(netc_sync(s, &err));
    for (int i = 0; i < netc_output_count(p, model); i++) {
        FINE(netc_output_info(p, model, i, &port, &err));
        netc_tensor t = tensor_of(g, &port, NULL);
        FINE(netc_read(s, model, port.name, &t, &err));
        compare_port(g, model, &port, &t);
    }
    for (int i = 0; i < netc_state_count(s); i++) {
        FINE(netc_state_info(s, i, &port, &err));
        if (!find(g, model, "out", port.name)) continue;
        netc_tensor t = tensor_of(g, &port, NULL);
        FINE(netc_state_read(s, port.name, &t, &err));
        compare_port(g, model, &port, &t);
    }
}

static void run_all(Golden *g, const char *device)
{
    NETC_INIT(netc_compile_options, o);
    const char *define = arena_printf(g->a, "real=%s", g->real);
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    o.defines = &define;
    o.ndefines = strstr(g->text, "const real") != NULL;
    FINE(netc_compile_text(ctx, g->name, g->text, &o, &p, &err));
    if (!p) return;
    FINE(netc_session_create(p, device, NULL, &s, &err));
    for (int i = 0; s && i < netc_entry_count(p); i++) {
        const char *name = netc_entry_name(p, i);
        if (has_goldens(g, name)) run_model(g, p, s, name);
    }
    netc_session_free(s);
    netc_program_release(p);
}

static int results(const Golden *g)
{
    int n = 0;
    for (int i = 0; i < g->t.n; i++) n += strstr(g->t.at[i].name, "/out/") != NULL;
    return n;
}

static bool turn(size_t number)
{
    const char *seed = getenv("SEED");
    long long day = seed ? strtoll(seed, NULL, 10) : (long long)time(NULL) / 86400;
    return getenv("SHIM_ALL") || getenv("GOLDEN_DEVICE") || ((long long)number + day) % 2 == 0;
}

// run: the kernels, too; else of a file that has both types the evaluator alone.
static void golden(const char *name, const char *real, bool run)
{
    Golden g = {.a = arena_new(), .name = name, .real = real};
    const char *device = getenv("GOLDEN_DEVICE");
    RtError e = {0};
    void *text;
    CHECK(rt_file_read(g.a, arena_printf(g.a, "tests/golden/%s.net", name), &text, &g.len, &e) ==
          RT_OK);
    CHECK(rt_safetensors_read(g.a, arena_printf(g.a, "tests/golden/%s.safetensors", name), &g.t,
                              &e) == RT_OK);
    CHECK_MSG(!e.code, "%s", e.text);
    if (e.code) return;
    g.text = arena_alloc(g.a, g.len + 1);
    memcpy(g.text, text, g.len);
    g.text[g.len] = 0;
    // (of what trains, the parameters are f32 alone)
    const bool both = strstr(g.text, "const real") != NULL;
    if (!both && !strcmp(real, "f64")) goto done;
    g.by_name = strmap_new(g.a);
    for (int i = 0; i < g.t.n; i++) strmap_set(&g.by_name, g.t.at[i].name, &g.t.at[i]);
    evaluate_all(&g);
    CHECK_MSG(g.compared == results(&g), "%s.net: %d of %d tensors compared", name, g.compared,
              results(&g));
    if (!run && both) goto done;
    g.compared = 0;
    run_all(&g, device ? device : "cpu");
    CHECK_MSG(g.compared == results(&g), "%s.net: %d of %d tensors compared", name, g.compared,
              results(&g));
done:
    rt_tensors_free(&g.t);
    arena_free(g.a);
}

static void all_files(void)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        golden(files[i], "f64", turn(i));
        golden(files[i], "f32", turn(i + 1));
    }
}

int main(void)
{
    static void (*const tests[])(void) = {all_files, NULL};
    return api_main(tests);
}
