// The pass table and its runner: time, verify, dump, skip, stop.
#include "base/clock.h"
#include "passes/passes.h"
#include "base/names.h"

#include <string.h>

const Pass pass_table[] = {
    {"join_products", "on a GPU products of one operand with several weights become one",
     pass_join_products, PASS_OPTIONAL},
    {"autodiff", "gradients as ordinary graph; calls are inlined", pass_autodiff, PASS_REQUIRED},
    {"loop_masks", "iterations after the end of a loop with a condition have no effect",
     pass_loop_masks, PASS_REQUIRED},
    {"extern", "the user's kernels that a device cannot run are replaced by their references",
     pass_extern, PASS_REQUIRED},
    {"fold_scales", "on a GPU scales of channels, computed from parameters, become part of weights",
     pass_fold_scales, PASS_ROUNDS},
    {"precision", "low-precision operands of matmuls, f32 everywhere else", pass_precision,
     PASS_REQUIRED},
    {"narrow", "states that are only read rounded to 16 bits are stored in 16 bits", pass_narrow,
     PASS_ROUNDS},
    {"invariants", "values that do not change between iterations are computed before the loop",
     pass_invariants, PASS_OPTIONAL},
    {"loop_sums", "sums that a loop carries become one sum after it", pass_loop_sums,
     PASS_OPTIONAL},
    {"vectorize", "loops that carry nothing, or only add up, are computed for all iterations at once",
     pass_vectorize, PASS_OPTIONAL},
    {"fission",
     "on a GPU a loop keeps what its carried values need; the rest is computed for all iterations",
     pass_fission, PASS_OPTIONAL},
    {"loop_casts", "values that loops carry or stack only to be rounded are stored rounded",
     pass_loop_casts, PASS_OPTIONAL},
    {"early_casts", "what is only copied, or maximised, before it is rounded is rounded first",
     pass_early_casts, PASS_OPTIONAL},
    {"simplify", "algebra over several nodes, dead code, transposes into matmuls", pass_simplify,
     PASS_OPTIONAL},
    {"row_updates", "on a GPU an update of few rows of a parameter changes only these",
     pass_row_updates, PASS_OPTIONAL},
    {"variance", "deviations from a mean sum to zero; variance of columns in one pass over memory",
     pass_variance, PASS_OPTIONAL},
    {"shard", "several devices share the work of a step: each computes its part of the batch",
     pass_shard, PASS_REQUIRED},
    {"short_axes", "on a GPU shifted values along a short axis are a value for each position",
     pass_short_axes, PASS_OPTIONAL},
    {"contract", "a product that only sums read becomes one operation with them", pass_contract,
     PASS_ROUNDS},
    {"approx", "functions whose results end in 16 bits use a GPU's cheaper forms", pass_approx,
     PASS_ROUNDS},
    {"attention", "a softmax of products between products is one kernel, its gradient two",
     pass_attention, PASS_ROUNDS},
    {"chunks", "under a memory limit, large products whose rows are reduced are computed in parts",
     pass_chunks, PASS_OPTIONAL},
    {"widen", "on the CPU products of 16-bit floats are those of f32, rounded", pass_widen,
     PASS_OPTIONAL},
    {"merge_groups", "grouped convolutions are those of all channels if that is faster",
     pass_merge_groups, PASS_OPTIONAL},
    {"few_results",
     "on a GPU gradients of weights of few results take windows of the results' gradient",
     pass_few_results, PASS_OPTIONAL},
    {"patches", "on a GPU windows of images with few channels are stored", pass_patches,
     PASS_OPTIONAL},
    {"channels",
     "on a GPU images whose channels are no multiple of 8 are stored with zeros behind them",
     pass_channels, PASS_OPTIONAL},
    {"vectors", "on a GPU a model's product of a matrix and a vector is a sum of products",
     pass_vectors, PASS_OPTIONAL},
    {"prepare", "values that depend only on a model's parameters are computed once", pass_prepare,
     PASS_OPTIONAL},
    {"scatter", "on a GPU updates by index are combined in ways that need no order, or sorted first",
     pass_scatter, PASS_OPTIONAL},
    {"long_scans", "on a GPU running reductions along a long axis of few rows are computed in pieces",
     pass_long_scans, PASS_OPTIONAL},
    {"first_sorted", "a sort of which only the first few elements are read finds only these",
     pass_first_sorted, PASS_OPTIONAL},
    {"layout", "a tensor that a product reads by windows is stored in reading order", pass_layout,
     PASS_OPTIONAL},
    {"recompute", "cheap forward values are computed again in the backward part", pass_recompute,
     PASS_OPTIONAL},
    {"recurrences", "on a GPU a loop that is computed element by element is one kernel",
     pass_recurrences, PASS_OPTIONAL},
    {"loop_stores", "values that a loop stacks are stored by the kernels that compute them",
     pass_loop_stores, PASS_OPTIONAL},
    {"fuse", "groups of nodes that become one kernel; skipped: one kernel per node", pass_fuse,
     PASS_OPTIONAL},
};
const int pass_count = sizeof pass_table / sizeof *pass_table;

static bool name_in_list(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && *p;) {
        const char *end = strchr(p, ',');
        size_t len = end ? (size_t)(end - p) : strlen(p);
        if (len == n && !memcmp(p, name, n)) return true;
        p = end ? end + 1 : NULL;
    }
    return false;
}

bool pass_skipped(const PassOptions *o, const char *name)
{
    return name_in_list(o->skip, name);
}

const char *passes_of_kind(Arena *a, PassKind kind)
{
    Buf list = buf_new(a);
    for (int i = 0; i < pass_count; i++)
        if (pass_table[i].kind == kind)
            buf_printf(&list, "%s%s", list.len ? "," : "", pass_table[i].name);
    return list.data;
}

static const Pass *pass_find(const char *name)
{
    for (int i = 0; i < pass_count; i++)
        if (!strcmp(pass_table[i].name, name)) return &pass_table[i];
    return NULL;
}

static void unknown_pass(Module *m, const char *name, bool optional_only)
{
    const char *names[sizeof pass_table / sizeof *pass_table];
    Buf list = buf_new(m->arena);
    int n = 0;
    for (int i = 0; i < pass_count; i++) {
        if (optional_only && pass_table[i].kind == PASS_REQUIRED) continue;
        names[n++] = pass_table[i].name;
        buf_printf(&list, "%s%s", n > 1 ? ", " : "", pass_table[i].name);
    }
    Diag *d = diag_error(m->diags, 0, "there is no pass '%s'%s", name,
                         advise_near(name, names, (size_t)n).text);
    diag_note(m->diags, d, "%s: %s", optional_only ? "passes that can be skipped" : "passes",
              list.data);
}

static bool check_options(Module *m, const PassOptions *o)
{
    uint32_t before = m->diags->errors;
    for (const char *p = o->skip; p && *p;) {
        const char *end = strchr(p, ',');
        const char *name = arena_strndup(m->arena, p, end ? (size_t)(end - p) : strlen(p));
        const Pass *pass = pass_find(name);
        if (*name && !pass) {
            unknown_pass(m, name, true);
        } else if (pass && pass->kind == PASS_REQUIRED) {
            Diag *d = diag_error(m->diags, 0, "the pass '%s' cannot be skipped", name);
            diag_note(m->diags, d, "later passes need a graph that has been through it");
        }
        p = end ? end + 1 : NULL;
    }
    if (o->stop_before && *o->stop_before && !pass_find(o->stop_before))
        unknown_pass(m, o->stop_before, false);
    return m->diags->errors == before;
}

// Index of the first pass to run: the one after the stage at which the dump was printed. Fusion
// always runs, since its groups are not part of the text. -1 after an error.
static int first_pass(Module *m)
{
    if (!m->stage || !strcmp(m->stage, "elaborate")) return 0;
    const Pass *p = pass_find(m->stage);
    if (!p) {
        unknown_pass(m, m->stage, false);
        return -1;
    }
    return p->run == pass_fuse ? (int)(p - pass_table) : (int)(p - pass_table) + 1;
}

// Runs a pass in an arena of its own, since what it allocates lives only as long as the graph that
// it builds, or as the pass. Fusion's result is kept with its graph.
static Graph *run(const Pass *p, Graph *was, Module *m, const PassOptions *o)
{
    if (p->run == pass_fuse) return p->run(was, m, o);
    Arena *before = was->arena, *own = arena_inside(m->arena);
    was->arena = own;
    Graph *g = p->run(was, m, o);
    was->arena = before;
    if (g == was) arena_empty(own);
    return g;
}

// Frees the memory of a graph that a pass has replaced. (That of the frontend belongs to the
// module.)
static void drop(Graph *was, const Graph *g, const Module *m)
{
    if (was->arena != g->arena && was->arena != m->arena) arena_empty(was->arena);
}

bool passes_run(Module *m, const PassOptions *o, PassTiming *timings)
{
    int first = first_pass(m);
    if (first < 0 || !check_options(m, o)) return false;
    for (int i = 0; timings && i < pass_count; i++)
        timings[i] = (PassTiming){pass_table[i].name, 0};
    for (int i = first, number = 0; i < pass_count; i++) {
        const Pass *p = &pass_table[i];
        if (o->stop_before && !strcmp(o->stop_before, p->name)) break;
        // Codegen needs the result of fusion: if it is skipped, every node is a group of its own
        // (fuse.c).
        const bool left_out = o->references && p->kind == PASS_OPTIONAL;
        if ((left_out || pass_skipped(o, p->name)) && p->run != pass_fuse) continue;
        uint32_t errors = m->diags->errors;
        double begin = clock_now();
        bool changed = false;
        for (uint32_t k = 0; k < m->entries.n; k++) {
            Graph *was = m->entries.at[k].graph, *g = run(p, was, m, o);
            if (m->diags->errors != errors) return false;
            if (g != was && !o->verify_last && !graph_verify(g, p->name)) return false;
            changed |= o->dump && g != was && !graph_equal(g, was);
            m->entries.at[k].graph = g; // (the pass may have added entries)
            drop(was, g, m);
        }
        if (timings) timings[i].seconds = clock_now() - begin;
        if (changed && o->dump) o->dump(o->dump_ctx, ++number, p->name, m);
    }
    bool holds = true;
    for (uint32_t k = 0; k < m->entries.n && holds && o->verify_last; k++)
        holds = graph_verify(m->entries.at[k].graph, "all passes (NETC_VERIFY=1 finds the one)");
    return holds;
}
