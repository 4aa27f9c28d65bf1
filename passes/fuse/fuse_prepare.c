// Before placement: consumers of every node, and what has to be stored whatever the kernels are.
#include "ir/loop.h"
#include "ir/range.h"
#include "passes/fuse/fuse.h"

bool fuse_is_anchor(const Node *n)
{
    return node_has(n, OPF_WHOLE);
}

bool fuse_of_call(const Node *n)
{
    return node_has(n, OPF_RESULT) && runs_as_kernel(n->args[0]);
}

bool fuse_in_memory(const Fuse *f, const Node *n)
{
    return node_in_memory(n) && !(f->rows && node_is_data(n));
}

bool fuse_stored(const Fuse *f, const Node *n)
{
    return f->mat[n->id] || node_in_memory(n);
}

// The value behind views that a library or a loop can read through.
static Node *behind_views(Node *n, bool in_order)
{
    while (in_order ? node_keeps_all(n) : node_has(n, OPF_STRIDES)) n = n->args[0];
    return n;
}

static void force(Fuse *f, Node *n)
{
    double v;
    if (node_in_memory(n) || node_has(n, OPF_RESULT)) return;
    if (node_has(n, OPF_LITERAL) && node_const_value(n, &v)) return;
    f->forced[n->id] = true;
}

bool fuse_may_fail(const Node *n)
{
    return node_has(n, OPF_SCATTERS) ? range_index_may_fail(n)
                                     : range_index_may_fail(n) || node_has(n, OPF_CHECKS);
}

static bool is_wide(const Node *n)
{
    return dtype_info[n->type.dtype].bits > 16;
}

static bool goes_on(const Node *n)
{
    return node_class(n) == CLS_ELEMENTWISE || node_keeps_all(n) || n->op == OP_repair;
}

// A dot over windows of 16-bit values stores 16-bit results by bulk copies. If costly functions
// follow, which would stall the multiplication, and their results are needed in more than 16 bits,
// they are computed by the readers of the dot, which then read only half as many bytes.
static void mark_wide(Fuse *f)
{
    Graph *g = f->g;
    bool *dear = NEW_ARRAY(f->a, bool, g->nodes.n + 1),
         *tail = NEW_ARRAY(f->a, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *x = g->nodes.at[i];
        dear[i] = node_has(x, OPF_COSTLY);
        for (uint32_t k = 0; k < x->nargs && (goes_on(x) || x->op == OP_broadcast); k++)
            dear[i] |= dear[x->args[k]->id];
    }
    for (uint32_t i = 0; i < g->results.n; i++) f->wide[g->results.at[i]->id] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *x = g->nodes.at[i];
        if (!f->live[i]) continue;
        f->wide[i] &= is_wide(x);
        bool wide = goes_on(x) ? f->wide[i] : node_class(x) != CLS_ROOT || is_wide(x->args[0]);
        for (uint32_t k = 0; k < x->nargs; k++) {
            f->wide[x->args[k]->id] |= wide;
            tail[x->args[k]->id] |= goes_on(x) && (tail[i] || (dear[i] && f->wide[i]));
        }
        f->apart[i] = x->op == OP_dot && tail[i] && fuse_generated(f->options, x) &&
                      fuse_reads_windows(f->options, x) && !is_wide(x->args[0]);
    }
}

// A scalar computed from a cell that this entry also writes (such as the step in a learning-rate
// schedule) is stored before the updates: they are one kernel, in which a block must not read what
// another one has written. The same holds for a scalar that meets scalars of another such cell.
static void force_counters(Fuse *f)
{
    Graph *g = f->g;
    StrMap written = strmap_new(f->a);
    const uint32_t several = UINT32_MAX;
    // By id: 1 + index of the cell's root, or [several].
    uint32_t *depends = NEW_ARRAY(f->a, uint32_t, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (g->roots.at[i]->op == OP_assign)
            strmap_set(&written, attr_str(g->roots.at[i], ATTR_name), (void *)(uintptr_t)(i + 1));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.at[i];
        if (!f->live[i]) continue;
        if (node_has(n, OPF_CELL))
            depends[i] = n->type.rank == 0
                             ? (uint32_t)(uintptr_t)strmap_get(&written, attr_str(n, ATTR_name))
                             : 0;
        bool scalar = n->type.rank == 0 && node_class(n) == CLS_ELEMENTWISE;
        for (uint32_t k = 0; k < n->nargs && scalar; k++) {
            uint32_t cell = depends[n->args[k]->id];
            if (cell) depends[i] = !depends[i] || depends[i] == cell ? cell : several;
        }
        bool meets = n->type.rank > 0 || (scalar && depends[i] == several);
        for (uint32_t k = 0; k < n->nargs && meets && f->late[i]; k++) {
            const Node *a = n->args[k];
            if (depends[a->id] && depends[a->id] != depends[i] && node_class(a) != CLS_LEAF)
                f->forced[a->id] = true;
        }
    }
}

static void count_readers(Fuse *f)
{
    Graph *g = f->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *x = g->nodes.at[i];
        if (!f->live[i]) continue;
        if (fuse_may_fail(x) || x->nregions) f->checks = true;
        for (uint32_t k = 0; k < x->nargs; k++) {
            f->uses[x->args[k]->id]++;
            f->user[x->args[k]->id] = x;
        }
    }
    for (uint32_t i = 0; i < g->results.n; i++) {
        Node *r = g->results.at[i];
        f->uses[r->id] += 2; // the result is also read outside
        if (node_class(r) != CLS_LEAF || node_has(r, OPF_MADE)) force(f, r);
    }
}

// Updates run together at the end. Their arithmetic is kept out of reduction kernels.
static void mark_late(Fuse *f)
{
    Graph *g = f->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        OpClass c = node_class(g->nodes.at[i]);
        f->late[i] = f->live[i] && (c == CLS_ELEMENTWISE || c == CLS_VIEW);
    }
    for (uint32_t i = 0; i < g->results.n; i++) f->late[g->results.at[i]->id] = false;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const Node *x = g->nodes.at[i];
        for (uint32_t k = 0; k < x->nargs && f->live[i]; k++)
            if (x->op != OP_assign && !f->late[i]) f->late[x->args[k]->id] = false;
    }
}

// Stored windows (passes/patches.c) are copied from a stored image, each element several times.
static void force_image(Fuse *f, const Node *stored)
{
    if (stored->op != OP_stop_gradient) return;
    Node *n = stored->args[0];
    if (n->op == OP_select) n = n->args[1]; // zeros behind each line
    bool windows = false;
    for (; node_class(n) == CLS_VIEW; n = n->args[0]) windows |= n->op == OP_window;
    if (windows) force(f, n);
}

// Forces the values from which a dot reads its operands, through views, without a copy.
static void force_factors(Fuse *f, const Node *dot)
{
    for (int k = 0; k < 2; k++) {
        Node *s = behind_views(dot->args[k], false);
        bool seen_through = fuse_dot_reads(dot, k, s);
        force(f, seen_through ? s : dot->args[k]);
        force_image(f, s);
        // Data read through the row table has no address, so a view of it is stored.
        s = dot->args[k];
        while (node_has(s, OPF_STRIDES) && s->args[0]->op != OP_input) s = s->args[0];
        if (seen_through && node_has(s, OPF_STRIDES) && !fuse_in_memory(f, s->args[0])) force(f, s);
    }
    if (f->bias[dot->id]) force(f, behind_views(f->bias[dot->id], false));
    if (f->residual[dot->id]) force(f, f->residual[dot->id]);
}

// Whether n could be computed from a cell by the kernel that reads it; [reads]: of its operands.
static bool reads_cell(const Node *n, const bool *reads)
{
    const OpClass c = node_class(n);
    if (node_has(n, OPF_CELL)) return n->type.rank > 0;
    if ((c != CLS_ELEMENTWISE && c != CLS_VIEW && c != CLS_INDEX) || node_has(n, OPF_WHOLE))
        return false;
    for (uint32_t k = 0; k < n->nargs; k++)
        if (reads[n->args[k]->id]) return true;
    return false;
}

// Forces the operands of library calls, regions and anchors, and updates of a cell's rows that are
// computed from cells: otherwise none of these could be changed where it is.
static void force_operands(Fuse *f)
{
    Graph *g = f->g;
    bool *reads = NEW_ARRAY(f->a, bool, g->nodes.n + 1);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        Node *x = g->nodes.at[i];
        if (!f->live[i]) continue;
        reads[i] = reads_cell(x, reads);
        if (node_has(x, OPF_SCATTERS) && node_has(x->args[0], OPF_CELL) && reads[x->args[2]->id])
            force(f, x->args[2]);
        if (fuse_generated(f->options, x)) {
            f->small |= f->options->target->kind == TARGET_CUDA; // (launches on a CPU are cheap)
            for (int k = 0; k < 2; k++)
                if (!fuse_inlines(f->options, x, k)) force(f, fuse_read(f->options, x, k));
        } else if (node_class(x) == CLS_DOT) {
            force_factors(f, x);
        } else if (x->op == OP_extern || x->op == OP_exchange) { // these take addresses
            for (uint32_t k = 0; k < x->nargs; k++) {
                Node *s = behind_views(x->args[k], true);
                force(f, node_in_memory(s) && !fuse_in_memory(f, s) ? x->args[k] : s);
            }
        } else if (node_class(x) == CLS_REGION) {
            double v;
            for (uint32_t k = 0; k < x->nargs; k++) // the planner writes constants out
                if (!node_const_value(x->args[k], &v)) force(f, x->args[k]);
        } else if (node_has(x, OPF_ADDRESSES)) {
            force(f, behind_views(x->args[0], true));
        }
    }
}

void fuse_prepare(Fuse *f)
{
    Graph *g = f->g;
    uint32_t n = g->nodes.n + 1;
    f->live = NEW_ARRAY(f->a, bool, n);
    f->uses = NEW_ARRAY(f->a, uint32_t, n);
    f->user = NEW_ARRAY(f->a, Node *, n);
    f->forced = NEW_ARRAY(f->a, bool, n);
    f->cost_users = NEW_ARRAY(f->a, uint32_t, n);
    f->cost_flops = NEW_ARRAY(f->a, float, n);
    f->epilogue = NEW_ARRAY(f->a, Node *, n);
    f->absorbed = NEW_ARRAY(f->a, Node *, n);
    f->epilogue_bits = NEW_ARRAY(f->a, unsigned, n);
    f->bias = NEW_ARRAY(f->a, Node *, n);
    f->residual = NEW_ARRAY(f->a, Node *, n);
    f->kept = NEW_ARRAY(f->a, Node *, n);
    f->aux = NEW_ARRAY(f->a, Node *, n);
    f->inner = NEW_ARRAY(f->a, Node **, n);
    f->ninner = NEW_ARRAY(f->a, int, n);
    f->wide = NEW_ARRAY(f->a, bool, n);
    f->apart = NEW_ARRAY(f->a, bool, n);
    f->late = NEW_ARRAY(f->a, bool, n);
    f->turned = NEW_ARRAY(f->a, int64_t, n);
    graph_mark_live(g, f->live);
    count_readers(f);
    mark_wide(f);
    mark_late(f);
    force_counters(f);
    fuse_epilogues(f);
    force_operands(f);
    fuse_turn(f);
}
