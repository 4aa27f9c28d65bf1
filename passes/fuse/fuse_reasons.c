// Why two values are not computed by one kernel, in the user's terms. docs/fusion.md explains each.
#include "passes/fuse/fuse.h"

static const char *name_of(Arena *a, const Node *n)
{
    const char *name = n->name ? n->name : attr_str(n, ATTR_name);
    return name ? name : arena_printf(a, "%s", op_info(n->op)->name);
}

const char *unfused_cause(UnfusedCause cause)
{
    static const char *const names[WHY_COUNT] = {
        [WHY_CONTRACTION] = "matmul",
        [WHY_ROWS] = "rows",
        [WHY_COST] = "cost",
        [WHY_SIZE] = "size",
        [WHY_ARGS] = "buffers",
        [WHY_CYCLE] = "cycle",
        [WHY_LOOP] = "loop",
        [WHY_SCAN] = "scan",
        [WHY_ROOT] = "stored",
        [WHY_UPDATE] = "update",
        [WHY_OPTION] = "option",
        [WHY_FEW_ROWS] = "few-rows",
        [WHY_MANY_COLUMNS] = "many-columns",
        [WHY_SCORES] = "scores",
        [WHY_FORM] = "form",
        [WHY_HEAD] = "head",
        [WHY_SHORT] = "short",
        [WHY_WHOLE] = "whole",
        [WHY_EXTERN] = "extern",
        [WHY_TURNED] = "turned",
    };
    return cause < WHY_COUNT ? names[cause] : NULL;
}

static const char *cause_text(Arena *a, const Unfused *u)
{
    long long x = (long long)u->a, y = (long long)u->b;
    switch (u->cause) {
    case WHY_CONTRACTION: return "crosses a matmul";
    case WHY_ROWS: return arena_printf(a, "different rows: %lld against %lld", x, y);
    case WHY_COST:
        return arena_printf(a, "%lld consumers, recomputing costs %lld flops per element", x, y);
    case WHY_SIZE: return arena_printf(a, "the kernel would grow past %lld operations", x);
    case WHY_ARGS: return arena_printf(a, "%lld buffers, a kernel takes %lld", x, y);
    case WHY_CYCLE: return "the two would wait for each other";
    case WHY_LOOP: return "crosses a loop";
    case WHY_SCAN: return "a sorted, scanned or scattered value is complete before it is read";
    case WHY_ROOT: return "the value is stored anyway";
    case WHY_UPDATE: return "updates run together when all gradients are there";
    case WHY_FEW_ROWS:
        return arena_printf(a, "%lld rows, sums over them join a row kernel from %lld on", x, y);
    case WHY_MANY_COLUMNS:
        return arena_printf(a, "%lld sums of %lld columns are more than a block can hold", x, y);
    case WHY_SCORES: return "no attention kernel: this needs the scores, too";
    case WHY_FORM: return "no attention kernel: this takes the scores in a form that none has";
    case WHY_HEAD:
        return arena_printf(
            a, "no attention kernel: a head dimension of %lld, not of %lld, 2 of them, ... 256", x,
            y);
    case WHY_SHORT:
        return arena_printf(a, "no attention kernel: %lld rows and %lld columns, fewer than 32", x,
                            y);
    case WHY_WHOLE:
        return arena_printf(a, "not made by parts of its %lld rows of %lld: this reads all of it",
                            x, y);
    case WHY_EXTERN: return "a kernel of your own reads and writes memory";
    case WHY_TURNED:
        return arena_printf(a, "stored in the order in which each element is read %lld times", x);
    case WHY_OPTION: return "fusion was switched off";
    case WHY_COUNT: break;
    }
    return "";
}

const char *unfused_text(Arena *a, const Unfused *u)
{
    return arena_printf(a, "%s -> %s: %s", name_of(a, u->producer), name_of(a, u->consumer),
                        cause_text(a, u));
}

// -- of every edge that was not fused -------------------------------------------------------------

static const Group *group_of(const Fuse *f, const Node *n)
{
    uint32_t g = f->fusion->group_of[n->id];
    return g ? &f->fusion->groups.at[g - 1] : NULL;
}

static const Node *owner(const Node *n) // the region op whose result it is, otherwise n itself
{
    return node_has(n, OPF_RESULT) ? n->args[0] : n;
}

static Unfused reason(const Fuse *f, const Node *p, const Node *c)
{
    Unfused u = {.producer = p, .consumer = c};
    const Group *from = group_of(f, p), *to = group_of(f, c);
    GroupKind a = from->kind, b = to ? to->kind : GROUP_MAP;
    uint32_t cp = fuse_cluster(f, p), cc = fuse_cluster(f, c);
    const Cluster *kp = cp ? &f->clusters.at[cp - 1] : NULL,
                  *kc = cc ? &f->clusters.at[cc - 1] : NULL;
    if (a == GROUP_LOOP || c->op == OP_loop) {
        u.cause = WHY_LOOP;
    } else if (a == GROUP_SCAN || a == GROUP_SCATTER || b == GROUP_SCAN || b == GROUP_SCATTER) {
        u.cause = WHY_SCAN;
    } else if (owner(p)->op == OP_extern || c->op == OP_extern) {
        u.cause = WHY_EXTERN;
    } else if (a == GROUP_DOT || a == GROUP_CALL || node_class(c) == CLS_DOT || c->op == OP_call ||
               f->absorbed[c->id]) {
        u.cause = WHY_CONTRACTION;
    } else if (node_class(c) == CLS_ROOT) {
        u.cause = WHY_ROOT;
    } else if (f->late[c->id]) {
        u.cause = WHY_UPDATE;
    } else if (f->too_big[p->id]) {
        int size = f->spread[p->id] ? f->size[p->id] : f->depth[p->id];
        u.cause = size < f->reads[p->id] ? WHY_ARGS : WHY_SIZE;
        u.a = u.cause == WHY_ARGS ? f->reads[p->id] : size;
        u.b = f->target ? f->target->max_kernel_args : 0;
    } else if (f->cost_users[p->id]) {
        u.cause = WHY_COST;
        u.a = f->cost_users[p->id];
        u.b = (int64_t)f->cost_flops[p->id];
    } else if (!kp || kp->kind == GROUP_MAP) {
        u.cause = WHY_ROOT; // stored because of another reader
    } else if (kc && kp->rows == kc->rows && kp->cols == kc->cols) {
        u.cause = WHY_CYCLE;
    } else {
        u.cause = WHY_ROWS;
        u.a = kp->rows;
        u.b = kc ? kc->rows : type_count(&c->type);
    }
    return u;
}

void fuse_explain(Fuse *f)
{
    Fusion *fu = f->fusion;
    IdMap told = idmap_new(f->a);
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        Node *c = f->g->nodes.at[i];
        if (!f->live[i]) continue;
        for (uint32_t k = 0; k < c->nargs; k++) {
            Node *p = c->args[k];
            if (!fu->group_of[p->id] || f->turned[p->id]) continue;
            if (fu->group_of[p->id] == fu->group_of[c->id]) continue;
            if (fuse_cluster(f, p) && fuse_cluster(f, p) == fuse_cluster(f, c)) continue;
            if (f->absorbed[c->id] && f->absorbed[c->id] == f->absorbed[p->id]) continue;
            if (node_has(c, OPF_RESULT) || node_class(c) == CLS_VIEW)
                continue; // reported for the reader of the view
            Unfused u = reason(f, p, c);
            uint64_t key = (uint64_t)p->id << 8 | (uint64_t)u.cause; // each value and cause is
                                                                     // reported once
            if (idmap_get(&told, key, NULL)) continue;
            idmap_set(&told, key, 1);
            vec_push(f->a, &fu->unfused, u);
        }
    }
    for (uint32_t i = 0; i < f->g->nodes.n; i++) {
        const Node *n = f->g->nodes.at[i];
        if (!f->live[i] || !f->turned[i] || !fu->group_of[i]) continue;
        const Unfused u = {n, f->user[i], WHY_TURNED, f->turned[i], 0};
        vec_push(f->a, &fu->unfused, u);
    }
    for (uint32_t i = 0; i < f->clusters.n; i++)
        if (f->no_fold[i].consumer) vec_push(f->a, &fu->unfused, f->no_fold[i]);
}
