// Partitions a graph into groups, each computed by one kernel.
//
// Requires: gradients expanded. Any graph is legal.
// Keeps: every value. Sets Graph.fusion of the graph and of every region in it (ir/fusion.h).
// Breaks: nothing; but a later change of the graph makes the fusion stale.
//
// fuse_prepare.c decides what must be stored, fuse_place.c where nodes can be computed, fuse_map.c
// which shared values are stored rather than recomputed, fuse_adopt.c which outputs existing
// kernels store as well, fuse_launch.c forms groups and launches, fuse_reasons.c explains what was
// not fused. Placement is repeated until no further value has to be stored; values once forced stay
// so, and there are at most three rounds.
#include "ir/loop.h"
#include "passes/fuse/fuse.h"

enum { ROUNDS = 4 };

static void nothing_fused(Fuse *f)
{
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        const Node *n = f->g->nodes.at[i];
        OpClass c = node_class(n);
        if (!f->live[i] || c == CLS_LEAF || c == CLS_VIEW || c == CLS_ROOT ||
            node_has(n, OPF_RESULT))
            continue;
        f->forced[i] = true;
    }
}

// If the pass is skipped: every operation is a group of its own. Its operands are stored; views
// only change the index expression.
static void one_kernel_a_node(Fuse *f)
{
    uint32_t n = f->g->nodes.n + 1;
    fuse_unplace(f);
    f->map = NEW_ARRAY(f->a, uint32_t, n);
    nothing_fused(f);
    f->fusion->group_of = NEW_ARRAY(f->a, uint32_t, n);
    uint32_t *of_call = NEW_ARRAY(f->a, uint32_t, n); // by id of a call: its group
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        Node *x = f->g->nodes.at[i];
        bool root = node_class(x) == CLS_ROOT;
        if (root && !node_has(x, OPF_EFFECT)) {
            Node *a = x->args[0];
            root = !f->forced[a->id] && !fuse_in_memory(f, a) && !node_has(a, OPF_RESULT) &&
                   !(node_has(a, OPF_LITERAL) && a->type.rank == 0);
        }
        if (f->live[i] && fuse_of_call(x)) { // stored by the call's group
            uint32_t at = of_call[x->args[0]->id];
            vec_push(f->a, &f->fusion->groups.at[at].outs, x);
            f->fusion->group_of[i] = at + 1;
        }
        if (!f->live[i] || !(f->forced[i] || root)) continue;
        Group g = {.id = f->fusion->groups.n, .launch = f->fusion->launches++};
        g.kind = node_class(x) == CLS_REDUCE ? GROUP_ROW : GROUP_MAP;
        if (fuse_is_anchor(x)) {
            g.anchor = x;
            g.kind = fuse_anchor_kind(x);
        }
        if (x->op == OP_dot) {
            g.prologue_a = x->args[0];
            g.prologue_b = x->args[1];
        }
        of_call[i] = g.id;
        bool gets = runs_as_kernel(x) && node_result_count(x) > 1;
        if (!gets) vec_push(f->a, &g.outs, x);
        vec_push(f->a, &f->fusion->groups, g);
        f->fusion->group_of[i] = gets ? 0 : g.id + 1;
        for (uint32_t k = 0; k < x->nargs; k++)
            if (f->forced[x->args[k]->id]) {
                Unfused u = {.producer = x->args[k], .consumer = x, .cause = WHY_OPTION};
                vec_push(f->a, &f->fusion->unfused, u);
            }
    }
}

// Nothing is stored inside the region of a call, which is one kernel.
static void nothing_stored(Graph *g)
{
    g->fusion = NEW(g->arena, Fusion);
    g->fusion->group_of = NEW_ARRAY(g->arena, uint32_t, g->nodes.n + 1);
}

static void fuse_graph(Graph *g, bool top, bool rows, const PassOptions *o)
{
    Fuse f = {.g = g, .a = g->arena, .target = o->target, .options = o, .top = top, .rows = rows};
    f.fusion = NEW(g->arena, Fusion);
    g->fusion = f.fusion;
    f.check_level = INT32_MAX;
    fuse_prepare(&f);
    if (pass_skipped(o, "fuse")) {
        one_kernel_a_node(&f);
        return;
    }
    for (int round = 0; round < ROUNDS; round++) {
        fuse_place(&f);
        if (!fuse_decide(&f)) break;
    }
    fuse_adopt(&f);
    fuse_groups(&f);
    fuse_explain(&f);
}

static const Entry *entry_of(const Module *m, const Graph *g)
{
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (m->entries.at[i].graph == g) return &m->entries.at[i];
    return NULL;
}

Graph *pass_fuse(Graph *g, Module *m, const PassOptions *o)
{
    const Entry *entry = entry_of(m, g);
    bool rows = entry && entry->rows;
    const PassOptions *small = pass_skipped(o, "fuse") ? NULL : o;
    g = fuse_split_operands(g, small);
    g = fuse_batch(g, small);
    g = fuse_legalize(g, rows, small);
    g = fuse_pad(g, small);
    g = fuse_kmajor(g, small);
    if (small) g = fuse_cut(g);
    VEC(Graph *) work = {0};
    IdMap seen = idmap_new(g->arena);
    vec_push(g->arena, &work, g);
    while (work.n) {
        Graph *x = work.at[--work.n];
        if (idmap_get(&seen, (uint64_t)(uintptr_t)x, NULL)) continue;
        idmap_set(&seen, (uint64_t)(uintptr_t)x, 1);
        fuse_graph(x, x == g, x == g && rows, o);
        for (uint32_t i = 0; i < x->nodes.n; i++)
            for (uint32_t k = 0; k < x->nodes.at[i]->nregions; k++)
                if (runs_as_kernel(x->nodes.at[i]))
                    nothing_stored(x->nodes.at[i]->regions[k]);
                else
                    vec_push(g->arena, &work, x->nodes.at[i]->regions[k]);
    }
    for (uint32_t i = 0; entry && i < entry->refused.n; i++)
        vec_push(g->arena, &g->fusion->unfused, entry->refused.at[i]);
    return g;
}
