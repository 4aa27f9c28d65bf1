// Every entry on the device against the reference evaluator: fused, unfused, without the library.
#include <stdlib.h>
#include <string.h>

#include "ir/bound.h"
#include "lib/check.h"
#include "lib/synthetic.h"

typedef struct Comparison {
    Checking *c;
    const char *variant, *entry;
    int compared, wrong;
    int64_t elements, undecided;
    double worst; // error over tolerance
} Comparison;

static void compare(Comparison *k, const char *what, const char *name, const Value *have,
                    const Value *want)
{
    Agreement a = bound_compare(have, want);
    k->compared++;
    if (a.worst > k->worst) k->worst = a.worst;
    k->elements += a.compared;
    k->undecided += a.undecided;
    if (a.undecided * 10 > a.compared)
        buf_printf(k->c->out, "  undecided: %lld of %lld elements of %s in %s (%s)\n",
                   (long long)a.undecided, (long long)a.compared, name, k->entry, k->variant);
    if (!a.wrong) return;
    k->wrong++;
    k->c->ok = false;
    buf_printf(k->c->out,
               "  WRONG %s of %s (%s): %s[%lld] is %.9g, the reference %.9g, allowed difference "
               "%.2g; %lld of %lld elements are wrong\n",
               what, k->entry, k->variant, name, (long long)a.at, a.have, a.want, a.allowed,
               (long long)a.wrong, (long long)a.compared);
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

static void run_once(Checking *c, netc_session *s, const Entry *entry)
{
    // The row table of bound arrays begins at 0, and so must the cursor the evaluator sees.
    if (c->status == NETC_OK && entry->cursor)
        c->status = session_set_control(s, entry->cursor, 0, c->err);
    if (c->status == NETC_OK) c->status = netc_run(s, entry->name, 1, c->err);
    if (c->status == NETC_OK) c->status = netc_sync(s, c->err);
}

// Runs the entry once so that its states are no longer what they begin as, zeros mostly, of which
// results say little; its parameters are put back.
static void move_states(Checking *c, netc_session *s, const Entry *entry)
{
    StrMap before;
    if (!read_cells(c, s, &before)) return;
    run_once(c, s, entry);
    for (int i = 0; i < rt_cell_count(s->rt) && c->status == NETC_OK; i++) {
        const ProgCell *cell = rt_cell_info(s->rt, i);
        if (cell->kind != PC_PARAM) continue;
        size_t n = (size_t)prog_type_bytes(&cell->type);
        void *bytes = arena_alloc(c->arena, n + 1);
        RtError e = {0};
        value_to_bytes(strmap_get(&before, cell->name), bytes);
        if (rt_cell_write(s->rt, cell->name, bytes, n, &e)) c->status = lib_fail_rt(c->err, &e);
    }
}

// One execution of an entry in session s, compared with the evaluator on the entry's plain graph.
static void check_entry(Checking *c, netc_session *s, const Entry *entry, const char *variant)
{
    Graph *g = entry->graph;
    Comparison k = {.c = c, .variant = variant, .entry = entry->name};
    EvalEnv env = {.arena = c->arena,
                   .inputs = strmap_new(c->arena),
                   .bound = true,
                   .tf32 = c->p->settings.precision == PREC_TF32};
    EvalResult want = {0};
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_input)
            strmap_set(&env.inputs, attr_str(g->nodes.at[i], ATTR_name),
                       checking_input(c, g->nodes.at[i]));
    c->status = synthetic_bind(s, entry->name, c->seed, c->arena, c->err);
    if (c->status == NETC_OK) move_states(c, s, entry);
    if (c->status == NETC_OK && entry->cursor)
        c->status = session_set_control(s, entry->cursor, 0, c->err);
    if (c->status != NETC_OK || !read_cells(c, s, &env.cells)) return;
    run_once(c, s, entry);
    StrMap after;
    if (c->status != NETC_OK || !read_cells(c, s, &after)) return;
    if (!eval_graph(g, &env, &want)) {
        c->status = lib_fail_diags(c->err, NETC_INTERNAL, g->diags);
        return;
    }
    for (uint32_t i = 0; i < want.outputs.n && c->status == NETC_OK; i++) {
        const char *name = want.outputs.entry[i].key;
        const Value *v = want.outputs.entry[i].value;
        netc_tensor t = {.dtype = (netc_dtype)v->type.dtype, .rank = v->type.rank};
        memcpy(t.dim, v->type.dim, sizeof t.dim);
        t.data = arena_alloc(c->arena, (size_t)type_bytes(&v->type) + 1);
        c->status = netc_read(s, entry->name, name, &t, c->err);
        if (c->status == NETC_OK)
            compare(&k, "output", name, from_bytes(c->arena, &v->type, t.data), v);
    }
    for (uint32_t i = 0; i < want.assigns.n && c->status == NETC_OK; i++) {
        const char *name = want.assigns.entry[i].key;
        const Value *have = strmap_get(&after, name);
        if (have) compare(&k, "cell", name, have, want.assigns.entry[i].value);
    }
    double decided = k.elements ? 100 - 100 * (double)k.undecided / (double)k.elements : 100;
    buf_printf(
        c->out,
        "  %-8s %-12s %3d tensors, worst %.3f of what is allowed, %.3g %% of elements decided%s\n",
        entry->name, variant, k.compared, k.worst, decided, k.wrong ? "  WRONG" : "");
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
    o.skip_passes = !v->skip           ? set->skip_passes
                    : set->skip_passes ? arena_printf(c->arena, "%s,%s", v->skip, set->skip_passes)
                                       : v->skip;
    o.memory_limit = set->memory_limit;
    o.phases = set->phases;
    o.arch = set->arch;
    o.no_matmul_library = v->no_library || set->no_matmul_library;
    o.no_reuse = v->no_reuse || set->no_reuse;
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
                      .skip = "loop_sums,simplify,moments,recompute,fuse"};
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
