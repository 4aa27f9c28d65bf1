// Compares every entry on the device with the reference evaluator: fused, unfused, without the
// library.
#include <stdlib.h>
#include <string.h>

#include "ir/bound.h"
#include "lib/check/check.h"
#include "runtime/host/file.h"

typedef struct Variant {
    const char *name;
    bool plain;                             // without all passes that the reference leaves out, too
    bool no_library, no_reuse, as_compiled; // as_compiled: measured schedules, edited kernels
} Variant;

enum {
    ENOUGH_DECIDED = 75, // percent of an entry's elements that should be decided in some variant
    MOST_TOLD = 6,       // tensors listed as undecided, per entry and variant
};

typedef struct Comparison { // of one entry in one variant
    Checking *c;
    netc_session *s;
    Loaded *l;
    const ProgEntry *e;
    const char *variant;
    int compared, wrong, vague; // vague: tensors of which a large part is undecided
    int64_t elements, undecided;
    bool again;   // a later execution, with extreme values, of which much is undecided on purpose
    double worst; // largest error divided by what is allowed
} Comparison;

static void compare(Comparison *k, const char *what, const char *name, const Value *have,
                    const Value *want, const Value *before)
{
    Agreement a = bound_compare(have, want, before);
    k->compared++;
    if (a.worst > k->worst) k->worst = a.worst;
    k->elements += a.compared;
    k->undecided += a.undecided;
    if (!k->again && a.undecided * 10 > a.compared && k->vague++ < MOST_TOLD)
        buf_printf(k->c->out, "  undecided: %lld of %lld elements of %s in %s (%s)\n",
                   (long long)a.undecided, (long long)a.compared, name, k->e->name, k->variant);
    if (!a.wrong) return;
    k->wrong++;
    buf_printf(k->c->out,
               "  WRONG %s of %s (%s): %s[%lld] is %.9g, the reference %.9g, allowed difference "
               "%.2g; %lld of %lld elements are wrong\n",
               what, k->e->name, k->variant, name, (long long)a.at, a.have, a.want, a.allowed,
               (long long)a.wrong, (long long)a.compared);
}

static void wrong(Comparison *k, const char *what, const char *name)
{
    k->wrong++;
    buf_printf(k->c->out, "  WRONG cell of %s (%s): %s %s\n", k->e->name, k->variant, name, what);
}

static Value *from_bytes(Arena *a, const Type *t, const void *bytes)
{
    Value *v = NEW(a, Value);
    *v = value_new(a, t);
    value_from_bytes(v, bytes);
    return v;
}

static bool failed(Comparison *k, const RtError *e)
{
    if (e->code == RT_CHECK && k->c->status == NETC_OK)
        k->c->status = lib_fail(k->c->err, NETC_CHECK_FAILED, "%s%s", e->text, checking_made_up);
    else if (e->code && k->c->status == NETC_OK)
        k->c->status = lib_fail_rt(k->c->err, e);
    return k->c->status != NETC_OK;
}

// -- cells ----------------------------------------------------------------------------------------

// The values of all cells; NULL: failed.
static const void **read_cells(Comparison *k)
{
    RtSession *rt = k->s->rt;
    const void **out = NEW_ARRAY(k->c->arena, const void *, rt_cell_count(rt) + 1);
    for (int i = 0; i < rt_cell_count(rt); i++) {
        const ProgCell *cell = rt_cell_info(rt, i);
        size_t n = (size_t)prog_type_bytes(&cell->type);
        void *bytes = arena_alloc(k->c->arena, n + 1);
        RtError e = {0};
        rt_cell_read(rt, cell->name, bytes, n, &e);
        if (failed(k, &e)) return NULL;
        out[i] = bytes;
    }
    return out;
}

static void write_cells(Comparison *k, const StrMap *values)
{
    RtSession *rt = k->s->rt;
    for (int i = 0; i < rt_cell_count(rt) && k->c->status == NETC_OK; i++) {
        const ProgCell *cell = rt_cell_info(rt, i);
        const Value *v = strmap_get(values, cell->name);
        size_t n = (size_t)prog_type_bytes(&cell->type);
        void *bytes = arena_alloc(k->c->arena, n + 1);
        RtError e = {0};
        if (!v) continue;
        value_to_bytes(v, bytes);
        rt_cell_write(rt, cell->name, bytes, n, &e);
        failed(k, &e);
    }
}

// Compares the cells that the entry writes with the evaluator's values. The others must be
// unchanged.
static void compare_cells(Comparison *k, const Execution *x, const void *const *before,
                          const void *const *after)
{
    RtSession *rt = k->s->rt;
    for (int i = 0; i < rt_cell_count(rt); i++) {
        const ProgCell *cell = rt_cell_info(rt, i);
        const Value *want = strmap_get(&x->want.assigns, cell->name);
        if (want)
            compare(k, "cell", cell->name, from_bytes(k->c->arena, &want->type, after[i]), want,
                    strmap_get(&x->cells, cell->name));
        else if (memcmp(before[i], after[i], (size_t)prog_type_bytes(&cell->type)) != 0)
            wrong(k, "changed, and the entry does not write it", cell->name);
    }
}

// -- executions -----------------------------------------------------------------------------------

static void bind_table(Comparison *k, const Execution *x)
{
    RtError e = {0};
    RtDataBinding *b = NEW_ARRAY(k->c->arena, RtDataBinding, k->e->ninputs + 1);
    int n = 0;
    for (int i = 0; i < k->e->ninputs; i++) {
        const Given *g = strmap_get(&x->inputs, k->e->inputs[i].name);
        if (g->row_bytes) b[n++] = (RtDataBinding){g->name, g->bytes, g->row_bytes, NULL};
    }
    if (!rt_data_bind(k->s->rt, k->l->rt, k->e->name, b, n, x->examples, &e))
        rt_rows_set(k->s->rt, k->l->rt, k->e->name, x->rows, x->nrows, &e);
    failed(k, &e);
}

// Executes the entry [times] times with the current cells.
static RtCode run(Comparison *k, const Execution *x, int64_t times, RtError *e)
{
    RtInput *in = NEW_ARRAY(k->c->arena, RtInput, k->e->ninputs + 1);
    int n = 0;
    for (int i = 0; i < k->e->ninputs; i++) {
        const Given *g = strmap_get(&x->inputs, k->e->inputs[i].name);
        if (!g->row_bytes) in[n++] = (RtInput){g->name, g->bytes, false};
    }
    if (rt_run(k->s->rt, k->l->rt, k->e->name, in, n, times, e)) return e->code;
    return rt_sync(k->s->rt, e);
}

static const void *read_output(Comparison *k, const ProgOutput *o)
{
    RtError e = {0};
    size_t n = (size_t)prog_type_bytes(&o->type);
    void *bytes = arena_alloc(k->c->arena, n + 1);
    rt_output_read(k->s->rt, k->l->rt, k->e->name, o->name, bytes, n, &e);
    return failed(k, &e) ? NULL : bytes;
}

// Two executions enqueued together must give the same bits as one after the other; the first has
// been done already. Both may end with the same failed assertion, since training on made-up data
// may diverge.
static void run_twice(Comparison *k, const Execution *x)
{
    RtError e = {0}, other = {0};
    run(k, x, 1, &e);
    const void **apart = read_cells(k);
    if (apart) write_cells(k, &x->cells);
    if (k->c->status != NETC_OK) return;
    run(k, x, 2, &other);
    if (e.code && e.code != RT_CHECK) failed(k, &e);
    if (e.code != other.code) failed(k, e.code ? &e : &other);
    const void **at_once = k->c->status == NETC_OK ? read_cells(k) : NULL;
    for (int i = 0; at_once && i < rt_cell_count(k->s->rt); i++) {
        const ProgCell *cell = rt_cell_info(k->s->rt, i);
        if (memcmp(apart[i], at_once[i], (size_t)prog_type_bytes(&cell->type)) != 0)
            wrong(k, "differs between two executions enqueued together and one by one", cell->name);
    }
}

static void execute(Comparison *k, const Execution *x)
{
    RtError e = {0};
    if (x->rows) bind_table(k, x);
    if (k->c->status == NETC_OK) write_cells(k, &x->cells);
    const void **before = k->c->status == NETC_OK ? read_cells(k) : NULL;
    char broken[200] = "";
    if (before && !rt_guards_set(k->s->rt, k->l->rt, k->e->name, &e)) run(k, x, 1, &e);
    if (before && !e.code)
        rt_guards_check(k->s->rt, k->l->rt, k->e->name, broken, sizeof broken, &e);
    const void **after = before && !failed(k, &e) ? read_cells(k) : NULL;
    if (*broken) {
        k->wrong++;
        buf_printf(k->c->out, "  WRONG store of %s (%s): %s\n", k->e->name, k->variant, broken);
    }
    for (int i = 0; after && i < k->e->noutputs; i++) {
        const ProgOutput *o = &k->e->outputs[i];
        const Value *want = strmap_get(&x->want.outputs, o->name);
        const void *have = want ? read_output(k, o) : NULL;
        if (have)
            compare(k, "output", o->name, from_bytes(k->c->arena, &want->type, have), want, NULL);
    }
    if (after && k->c->status == NETC_OK) compare_cells(k, x, before, after);
}

// A hash of what the steps of an entry launch and of the buffers they use, but not of the buffers'
// addresses. 0: the library is called, too.
static uint64_t launches_of(const Program *p, const ProgEntry *e)
{
    uint64_t hash = 1;
    for (int i = 0; i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        if (s->kind == PS_GEMM) return 0;
        hash = hash_mix(hash_mix(hash, s->kind), (uint64_t)s->count);
        hash = hash_mix(hash_mix(hash, (uint64_t)s->last_step), s->reverse);
        for (int k = 0; k < s->nargs; k++) {
            const ProgArg *a = &s->args[k];
            hash = hash_mix(hash_mix(hash, a->kind), (uint64_t)a->index);
            hash = hash_bytes(a->stride, sizeof a->stride, hash_mix(hash, (uint64_t)a->value));
        }
        if (s->kind != PS_KERNEL) continue;
        const ProgKernel *k = &p->kernels[s->index];
        hash = hash_bytes(k->text, strlen(k->text), hash);
        hash = hash_bytes(k->grid, sizeof k->grid, hash_bytes(k->block, sizeof k->block, hash));
        hash = hash_mix(hash_mix(hash, k->cluster), k->shared_bytes);
    }
    return hash ? hash : 1;
}

// Checks the first [n] executions [x] of one entry. If the launches are the same as in the first
// variant, which checked all executions, only the last one is repeated: it shows the effect of
// another memory layout.
static void check_entry(Checking *c, netc_session *s, Execution **x, uint32_t n, const Variant *v)
{
    Comparison k = {.c = c, .s = s, .variant = v->name};
    c->status = session_entry(s, x[0]->entry->name, &k.l, &k.e, c->err);
    uint64_t launches = c->status == NETC_OK ? launches_of(k.l->build->program, k.e) : 0;
    bool again = launches && launches == x[0]->launches;
    // The execution that decides the most counts, since all run the same kernels.
    double decided = again ? x[0]->decided : 0;
    if (v->as_compiled) x[0]->launches = launches;
    for (uint32_t i = again ? n - 1 : 0; i < n && c->status == NETC_OK; i++) {
        int64_t elements = k.elements, undecided = k.undecided;
        k.again = i > 0;
        execute(&k, x[i]);
        elements = k.elements - elements;
        undecided = k.undecided - undecided;
        double share = elements ? 100 - 100 * (double)undecided / (double)elements : 100;
        if (share > decided) decided = share;
    }
    if (c->status == NETC_OK && v->as_compiled && k.e->kind == PK_TRAIN) run_twice(&k, x[n - 1]);
    if (c->status != NETC_OK) return;
    c->ok = c->ok && !k.wrong;
    if (!k.compared && !k.wrong) { // an init entry that writes nothing
        x[0]->decided = 100;
        return;
    }
    if (decided > x[0]->decided) x[0]->decided = decided;
    if (k.vague > MOST_TOLD)
        buf_printf(c->out, "  undecided: much of %d more tensors in %s (%s)\n", k.vague - MOST_TOLD,
                   k.e->name, v->name);
    buf_printf(
        c->out,
        "  %-8s %-12s %3d tensors, worst %.3f of what is allowed, %.3g %% of elements decided%s\n",
        k.e->name, v->name, k.compared, k.worst, decided, k.wrong ? "  WRONG" : "");
}

static void check_variant(Checking *c, Reference *r, const Variant *v)
{
    const Settings *set = &c->p->settings;
    NETC_INIT(netc_compile_options, o);
    o.defines = set->defines;
    o.ndefines = set->ndefines;
    o.program = set->program;
    o.precision = precision_text(set->precision);
    o.skip_passes = set->skip_passes;
    if (v->plain)
        o.skip_passes = arena_printf(c->arena, "%s,%s", passes_of_kind(c->arena, PASS_OPTIONAL),
                                     set->skip_passes ? set->skip_passes : "");
    o.memory_limit = set->memory_limit;
    o.entries = set->entries;
    o.nentries = set->nentries;
    o.arch = set->arch;
    o.devices = set->devices;
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
    if (c->status == NETC_OK) rt_session_spoil(s->rt);
    for (uint32_t i = 0, n; c->status == NETC_OK && i < r->n; i += n) {
        for (n = 1; i + n < r->n && r->at[i + n]->entry == r->at[i]->entry;) n++;
        check_entry(c, s, &r->at[i], n, v);
    }
    for (Loaded *l = s ? s->loaded : NULL; l; l = l->next) {
        const char *kernel = rt_defect(l->rt);
        if (!kernel) continue;
        buf_printf(c->out, "  WRONG kernel %s (%s): does not compute what the library computes\n",
                   kernel, v->name);
        c->ok = false;
    }
    netc_session_free(s);
    netc_program_release(p);
}

// Warns if most elements are undecided: the check would then pass whatever the kernels compute.
static void warn_undecided(Checking *c, const Reference *r)
{
    const char *advice = c->p->settings.precision == PREC_F32 ? "" : "--precision f32, ";
    for (uint32_t i = 0; i < r->n; i++) {
        const Execution *x = r->at[i];
        if (i > 0 && r->at[i - 1]->entry == x->entry) continue;
        if (x->decided < ENOUGH_DECIDED)
            buf_printf(c->out,
                       "WARNING: only %.3g %% of the elements of '%s' are decided: for the others, "
                       "rounding may have as much effect as a bug. Check with %sother sizes, or "
                       "inputs whose range is stated.\n",
                       x->decided, x->entry->name, advice);
    }
}

// The target for the passes, which depends on the kind of device. Without a device, the CPU.
static Target target_of(const Checking *c)
{
    RtError e = {0};
    RtDevice *d = NULL;
    rt_device_open(c->device && *c->device ? c->device : "auto", NULL, &d, &e);
    bool cuda = d && rt_device_is_cuda(d);
    if (d) rt_device_close(d);
    return cuda ? target_cuda(90, true) : target_cpu(1, true);
}

// About the memory that the evaluator takes for a graph: it keeps every value, of a float also how
// far off it may be on both sides. (A little less, so that nothing is refused that would fit.)
static double evaluator_bytes(const Graph *g)
{
    double bytes = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Type *t = &g->nodes.at[i]->type;
        bytes += (double)type_count(t) *
                 (dtype_is_float(t->dtype) ? 3 * sizeof(double) : sizeof(int64_t));
    }
    return 0.9 * bytes;
}

// Whether every entry can be evaluated in the memory that is free. Otherwise the process would be
// killed, after minutes.
static bool evaluator_fits(Checking *c, const Module *m)
{
    size_t available, total;
    if (!rt_host_memory(&available, &total)) return true;
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const double need = evaluator_bytes(m->entries.at[i].graph);
        if (need < (double)available) continue;
        c->status = lib_fail(
            c->err, NETC_OUT_OF_MEMORY,
            "to check '%s', the reference evaluator needs about %.1f GB of memory, and %.1f GB are "
            "free: check smaller sizes (-D NAME=VALUE, as of the batch)",
            m->entries.at[i].name, need / 1e9, (double)available / 1e9);
        return false;
    }
    return true;
}

Module *check_module(Checking *c)
{
    Diags *d;
    Module *plain = checking_module(c, "", &d);
    Target target = target_of(c);
    const char *skipped = c->p->settings.skip_passes; // of these, some round otherwise
    PassOptions po = {.target = &target,
                      .precision = c->p->settings.precision,
                      .references = true,
                      .skip = arena_printf(c->arena, "fuse,%s", skipped ? skipped : "")};
    if (!plain) return NULL;
    if (!passes_run(plain, &po, NULL) || d->errors) {
        c->status = lib_fail_diags(c->err, NETC_INTERNAL, d);
        return NULL;
    }
    return evaluator_fits(c, plain) ? plain : NULL;
}

void check_all_kernels(Checking *c, const Module *plain)
{
    static const Variant variants[] = {
        {.name = "fused", .as_compiled = true},
        {.name = "unfused", .plain = true, .no_reuse = true},
        // (fused kernels, and writes outside of temporaries)
        {.name = "no library", .no_library = true, .no_reuse = true},
    };
    Reference *r = check_reference(c, plain);
    if (c->status != NETC_OK) return;
    buf_printf(c->out, "kernels on %s against the reference evaluator\n",
               c->device ? c->device : "the default device");
    // Without the library, the last variant equals the first one, unless there are measured
    // schedules or edited kernels.
    int n = sizeof variants / sizeof *variants;
    if (c->p->settings.no_matmul_library && !c->p->tuning && !c->p->edited) n--;
    // For tests of a kernel that the first one has, at sizes at which the others have been checked.
    if (getenv("NETC_CHECK_FUSED")) {
        buf_str(c->out, "  only the fused build is checked (NETC_CHECK_FUSED)\n");
        n = 1;
    }
    for (int i = 0; i < n && c->status == NETC_OK; i++) check_variant(c, r, &variants[i]);
    if (c->status == NETC_OK) warn_undecided(c, r);
}
