// A file of models on a device, and each model beside the evaluator.
#include "tests/fuzz/programs/trial.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/scalar.h"
#include "lib/lib.h"
#include "tests/fuzz/programs/random.h"

const char *const state_names[STATES] = {"unknown", "fine",    "refused", "wrong",
                                         "failed",  "crashed", "hung"};

const char *all_optional_passes(void)
{
    static char list[256];
    if (*list) return list;
    for (int i = 0; i < pass_count; i++)
        if (pass_table[i].optional)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? "," : "",
                     pass_table[i].name);
    return list;
}

// -- inputs ---------------------------------------------------------------------------------------

static double element(Random *r, char fill, DType t)
{
    double normal = sqrt(-2 * log(random_unit(r))) * cos(2 * M_PI * random_unit(r));
    if (t == DT_BOOL) return random_below(r, 2);
    if (dtype_is_float(t)) {
        if (fill == 'q') return random_below(r, 17) / 4.0 - 2; // many equal ones
        return normal * (fill == 's' ? 0.01 : fill == 'w' ? 30 : 1);
    }
    if (fill == 'i') return random_below(r, 64);
    double v = trunc(fill == 'w' ? normal * 1000 : normal * 2);
    return t == DT_U8 || t == DT_U32 ? fabs(v) : v;
}

static void *fill_input(Arena *a, const char *name, const Type *t, int64_t low, int64_t high,
                        uint64_t seed)
{
    int64_t n = type_count(t), size = dtype_info[t->dtype].bits / 8;
    char *bytes = arena_alloc(a, (size_t)(n * size) + 16);
    Random r = {hash_mix(hash_str(name), seed)};
    for (int64_t i = 0; i < n; i++) {
        double v = low < high ? (double)(low + random_below(&r, (int)(high - low)))
                              : element(&r, *name, t->dtype);
        Scalar s = {.f = v};
        if (!dtype_is_float(t->dtype)) s.i = scalar_to_int(t->dtype, v);
        scalar_store(t->dtype, bytes + i * size, s);
    }
    return bytes;
}

static Value *as_value(Arena *a, const Type *t, const void *bytes)
{
    Value *v = NEW(a, Value);
    *v = value_new(a, t);
    value_from_bytes(v, bytes);
    return v;
}

// -- one entry ------------------------------------------------------------------------------------

typedef struct Run {
    const Trial *t;
    Arena *arena;
    netc_session *session;
    netc_error *err;
    Outcome *out;
} Run;

static void said(Outcome *o, enum State state, netc_error *err)
{
    o->state = state;
    snprintf(o->why, sizeof o->why, "%s", netc_error_text(err));
    for (char *p = o->why; *p; p++)
        if (*p == '\n') *p = ' ';
}

static bool read_cells(Run *r, StrMap *cells)
{
    *cells = strmap_new(r->arena);
    for (int i = 0; i < rt_cell_count(r->session->rt); i++) {
        const ProgCell *c = rt_cell_info(r->session->rt, i);
        size_t n = (size_t)prog_type_bytes(&c->type);
        void *bytes = arena_alloc(r->arena, n + 16);
        RtError e = {0};
        if (rt_cell_read(r->session->rt, c->name, bytes, n, &e)) {
            r->out->state = FAILED;
            snprintf(r->out->why, sizeof r->out->why, "%.390s", e.text);
            return false;
        }
        Type t = type_make((DType)c->type.dtype, c->type.rank, c->type.dim);
        strmap_set(cells, c->name, as_value(r->arena, &t, bytes));
    }
    return true;
}

// An input may be all gone from the compiled program: multiplied by nothing, say.
static bool takes_input(Run *r, const char *entry, const char *name)
{
    netc_port port;
    for (int i = 0; i < netc_input_count(r->session->program, entry); i++)
        if (netc_input_info(r->session->program, entry, i, &port, NULL) == NETC_OK &&
            !strcmp(port.name, name))
            return true;
    return false;
}

static bool bind_inputs(Run *r, const Entry *e, StrMap *inputs)
{
    *inputs = strmap_new(r->arena);
    for (uint32_t i = 0; i < e->graph->nodes.n; i++) {
        const Node *n = e->graph->nodes.at[i];
        if (n->op != OP_input) continue;
        const char *name = attr_str(n, ATTR_name);
        netc_tensor t = {.dtype = (netc_dtype)n->type.dtype, .rank = n->type.rank};
        memcpy(t.dim, n->type.dim, sizeof t.dim);
        t.data = fill_input(r->arena, name, &n->type, attr_int(n, ATTR_low_bound, 0),
                            attr_int(n, ATTR_high_bound, 0), r->t->seed);
        strmap_set(inputs, name, as_value(r->arena, &n->type, t.data));
        if (takes_input(r, e->name, name) &&
            netc_bind(r->session, e->name, name, &t, &r->err) != NETC_OK)
            return false;
    }
    return true;
}

static bool compare_outputs(Run *r, const Entry *e, const Reference *ref)
{
    for (uint32_t i = 0; i < ref->exact.outputs.n; i++) {
        const char *name = ref->exact.outputs.entry[i].key;
        const Value *v = ref->exact.outputs.entry[i].value;
        netc_tensor t = {.dtype = (netc_dtype)v->type.dtype, .rank = v->type.rank};
        memcpy(t.dim, v->type.dim, sizeof t.dim);
        t.data = arena_alloc(r->arena, (size_t)type_bytes(&v->type) + 16);
        if (netc_read(r->session, e->name, name, &t, &r->err) != NETC_OK) return false;
        if (reference_holds(r->t, ref, name, false, as_value(r->arena, &v->type, t.data),
                            r->out->why, sizeof r->out->why))
            continue;
        r->out->state = WRONG;
        return true;
    }
    StrMap after;
    if (!ref->exact.assigns.n) return true;
    if (!read_cells(r, &after)) return true;
    for (uint32_t i = 0; i < ref->exact.assigns.n; i++) {
        const char *name = ref->exact.assigns.entry[i].key;
        const Value *have = strmap_get(&after, name);
        if (have && !reference_holds(r->t, ref, name, true, have, r->out->why, sizeof r->out->why))
            r->out->state = WRONG;
    }
    return true;
}

static void run_entry(Run *r, const Entry *e)
{
    EvalEnv env = {.arena = r->arena};
    Reference ref;
    r->out->state = FINE;
    bool ok = bind_inputs(r, e, &env.inputs) && read_cells(r, &env.cells);
    if (r->out->state == FAILED) return;
    ok = ok && netc_run(r->session, e->name, 1, &r->err) == NETC_OK &&
         netc_sync(r->session, &r->err) == NETC_OK;
    if (ok && !reference_make(r->arena, e->graph, &env,
                              (Precision)r->session->program->settings.precision, &ref)) {
        r->out->state = FAILED;
        snprintf(r->out->why, sizeof r->out->why, "the evaluator cannot run this");
        return;
    }
    ok = ok && compare_outputs(r, e, &ref);
    if (!ok) said(r->out, FAILED, r->err);
}

// -- a file ---------------------------------------------------------------------------------------

static void count_ops(const Graph *g, uint32_t *ops)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        ops[g->nodes.at[i]->op]++;
        for (uint32_t k = 0; k < g->nodes.at[i]->nregions; k++)
            count_ops(g->nodes.at[i]->regions[k], ops);
    }
}

// The models as they are elaborated, with all that cannot be left out and nothing else.
static Module *plain_module(Run *r, netc_program *p)
{
    Diags *d = diags_new(r->arena);
    FrontendOptions fo = lib_frontend_options(p, r->arena, "", "");
    Module *m = frontend_compile(r->arena, d, "programs.net", r->t->text, strlen(r->t->text), &fo);
    Target target = target_cpu(1, true);
    PassOptions po = {
        .target = &target, .precision = p->settings.precision, .skip = all_optional_passes()};
    if (!m || d->errors) return NULL;
    for (uint32_t i = 0; i < m->entries.n && r->t->ops; i++)
        count_ops(m->entries.at[i].graph, r->t->ops);
    return passes_run(m, &po, NULL) && !d->errors ? m : NULL;
}

static int number_in(const char *name, int n) // m7: 7
{
    if (name[0] != 'm' || !isdigit((unsigned char)name[1])) return -1;
    int i = atoi(name + 1);
    return i < n ? i : -1;
}

// In an arena of its own, freed before it returns.
static void run_alone(const Run *r, const Entry *e, Outcome *out)
{
    Run one = {.t = r->t, .session = r->session, .out = out, .arena = arena_new()};
    jmp_buf oom;
    if (!setjmp(oom)) {
        arena_on_oom(one.arena, &oom);
        run_entry(&one, e);
    } else {
        snprintf(out->why, sizeof out->why, "out of memory while checking");
        out->state = FAILED;
    }
    netc_error_free(one.err);
    arena_free(one.arena);
}

static void run_all(Run *r, const Module *m, Outcome *out, int n)
{
    for (uint32_t i = 0; i < m->entries.n; i++) {
        int k = number_in(m->entries.at[i].name, n);
        if (k >= 0) run_alone(r, &m->entries.at[i], &out[k]);
    }
}

void trial_run(const Trial *t, Outcome *out, int n)
{
    Run r = {.t = t, .arena = arena_new()};
    NETC_INIT(netc_context_options, co);
    NETC_INIT(netc_compile_options, o);
    NETC_INIT(netc_session_options, so);
    netc_context *ctx = NULL;
    netc_program *p = NULL;
    co.cache_dir = "";
    o.precision = t->variant->precision;
    o.skip_passes = t->variant->skip && !strcmp(t->variant->skip, "*") ? all_optional_passes()
                                                                       : t->variant->skip;
    o.no_matmul_library = t->variant->no_library;
    o.no_reuse = t->variant->no_reuse;
    o.memory_limit = t->variant->memory_limit;
    o.target = strncmp(t->device, "cuda", 4) ? "cpu" : "cuda";
    so.seed = (int64_t)(t->seed % 1000003);
    netc_status status = netc_context_create(&co, &ctx, &r.err);
    if (status == NETC_OK) status = netc_compile_text(ctx, "programs.net", t->text, &o, &p, &r.err);
    bool refused = status == NETC_INVALID;
    if (status == NETC_OK) status = netc_session_create(p, t->device, &so, &r.session, &r.err);
    Module *m = status == NETC_OK ? plain_module(&r, p) : NULL;
    if (m)
        run_all(&r, m, out, n);
    else
        for (int i = 0; i < n; i++) said(&out[i], refused ? REFUSED : FAILED, r.err);
    netc_error_free(r.err);
    netc_session_free(r.session);
    netc_program_release(p);
    netc_context_free(ctx);
    arena_free(r.arena);
}
