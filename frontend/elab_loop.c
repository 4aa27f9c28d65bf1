// Run-time loops: loop i in lo..hi carry a, b over x = xs while condition { … emit y = … }
#include <string.h>

#include "frontend/elab.h"

enum { MOST_CARRIED = 64 };
typedef struct Loop {
    const Stmt *s;
    int64_t lo, hi;
    Node *init[MOST_CARRIED + 1], *scanned[MOST_CARRIED];
    uint32_t ncarried, nscanned;
    Node *runs; // of a loop with a condition: whether this iteration takes place
} Loop;

static bool emits(const Block *b)
{
    for (uint32_t i = 0; b && i < b->stmts.n; i++) {
        const Stmt *s = b->stmts.at[i];
        if (s->kind == STMT_EMIT) return true;
        if (s->kind != STMT_LOOP && (emits(s->body) || emits(s->orelse))) return true;
    }
    return false;
}

static bool loop_open(Elab *e, Loop *l)
{
    const Stmt *s = l->s;
    Val range = eval(e, s->expr);
    if (range.kind == V_POISON) return false;
    if (range.kind == V_RANGE) {
        l->lo = range.range.lo;
        l->hi = range.range.hi;
    } else if (range.kind != V_INT) {
        fail(e, s->expr->span, "a loop runs over a range like 0..n, found %s", val_text(e, &range));
        return false;
    } else {
        l->hi = range.i;
    }
    if (l->hi <= l->lo && (s->items.n || emits(s->body))) {
        fail(e, s->expr->span, "the range %lld..%lld is empty, and an axis of size 0 cannot be %s",
             (long long)l->lo, (long long)l->hi, s->items.n ? "scanned" : "emitted");
        return false;
    }
    if (s->names.n > MOST_CARRIED || s->items.n > MOST_CARRIED) {
        fail(e, s->span, "a loop carries and scans at most %d values each", MOST_CARRIED);
        return false;
    }
    bool ok = true;
    for (uint32_t i = 0; i < s->names.n; i++) {
        Val v = name_value(e, s->names.at[i].name, s->names.at[i].name_span);
        l->init[i] = to_tensor(e, &v, DT_COUNT, s->names.at[i].name_span);
        ok &= l->init[i] != NULL;
    }
    l->ncarried = s->names.n;
    for (uint32_t i = 0; i < s->items.n; i++) {
        Val v = eval(e, s->items.at[i].value);
        Node *n = to_tensor(e, &v, DT_COUNT, s->items.at[i].value->span);
        l->scanned[i] = n;
        ok &= n != NULL;
        if (n && (n->type.rank == 0 || n->type.dim[0] != l->hi - l->lo)) {
            fail(e, s->items.at[i].value->span,
                 "the loop makes %lld iterations, so axis 0 of %s must have that size",
                 (long long)(l->hi - l->lo), type_text(e, &n->type));
            ok = false;
        }
    }
    l->nscanned = s->items.n;
    return ok;
}

// Whether a loop of this body emits as [name], which the loop then gives a value around it.
static bool emits_as(const Block *b, const char *name)
{
    for (uint32_t i = 0; b && i < b->stmts.n; i++) {
        const Stmt *s = b->stmts.at[i];
        if (s->kind == STMT_EMIT && !strcmp(s->name, name)) return true;
        if (s->kind != STMT_LOOP && (emits_as(s->body, name) || emits_as(s->orelse, name)))
            return true;
    }
    return false;
}

// Whether some statement of a loop's body gives the name a new value, in whichever of its choices.
static bool assigns(const Block *b, const char *name)
{
    for (uint32_t i = 0; b && i < b->stmts.n; i++) {
        const Stmt *s = b->stmts.at[i];
        for (uint32_t k = 0; s->kind == STMT_LET && k < s->names.n; k++)
            if (!strcmp(s->names.at[k].name, name)) return true;
        if (s->kind == STMT_LOOP && emits_as(s->body, name)) return true;
        if (assigns(s->body, name) || assigns(s->orelse, name)) return true;
    }
    return false;
}

// Sets the results of the region: next carried values, emitted values, asserts.
static bool loop_results(Elab *e, Loop *l, Region *r)
{
    const uint32_t carried = l->ncarried + (l->runs != NULL);
    bool ok = !r->poisoned, assigned = false;
    const Item *idle = NULL; // the first that no iteration assigns
    for (uint32_t i = 0; i < l->ncarried; i++) {
        const Item *item = &l->s->names.at[i];
        Val v = name_value(e, item->name, item->name_span);
        Node *n = to_tensor(e, &v, l->init[i]->type.dtype, item->name_span);
        if (!n) {
            ok = false;
            continue;
        }
        if (!type_equal(&n->type, &l->init[i]->type)) {
            Diag *d = error_at(
                e, item->name_span,
                "the carried value '%s' enters the loop as %s and leaves an iteration as %s",
                item->name, type_text(e, &l->init[i]->type), type_text(e, &n->type));
            diag_note(e->diags, d, "start it with the right type: zeros(shape) or cast(…)");
            ok = false;
        }
        if (assigns(l->s->body, item->name))
            assigned = true;
        else if (!idle)
            idle = item;
        vec_push(e->arena, &r->g->results, n);
    }
    if (l->runs) vec_push(e->arena, &r->g->results, l->runs);
    for (uint32_t i = 0; i < r->written.n; i++)
        vec_push(e->arena, &r->g->results, r->written.at[i]->cur);
    for (uint32_t i = 0; i < r->emit.n; i++) vec_push(e->arena, &r->g->results, r->emit.at[i]);
    for (uint32_t i = 0; i < r->assert_cond.n; i++) {
        Node *holds = r->assert_cond.at[i];
        if (l->runs) holds = graph_unary(e->g, OP_not, holds); // false if it does not take place
        vec_push(e->arena, &r->g->results, holds);
    }
    if (ok && idle && (assigned || r->g->results.n > carried)) {
        Diag *d = error_at(e, idle->name_span,
                           "the loop carries '%s', but its body never assigns it", idle->name);
        diag_note(
            e->diags, d,
            "if it is to change, assign it; a value that stays the same is read without being "
            "carried");
        return false;
    }
    if (!ok || assigned || r->g->results.n > carried) return ok;
    fail(e, l->s->span, "this loop %s, emits nothing and writes no state",
         l->ncarried ? "assigns nothing that it carries" : "carries nothing");
    return false;
}

// The body with the parameters [moved] moved to index [first], in the given order.
static Graph *params_moved(Elab *e, const Graph *old, Node *const *moved, uint32_t n,
                           uint32_t first)
{
    bool *taken = NEW_ARRAY(e->arena, bool, old->nodes.n + 1);
    VEC(const Node *) order = {0};
    for (uint32_t i = 0; i < first; i++) vec_push(e->arena, &order, old->params.at[i]);
    for (uint32_t i = 0; i < n; i++) {
        vec_push(e->arena, &order, moved[i]);
        taken[moved[i]->id] = true;
    }
    for (uint32_t i = first; i < old->params.n; i++)
        if (!taken[old->params.at[i]->id]) vec_push(e->arena, &order, old->params.at[i]);
    Remap r = remap_begin(old, elab_graph(e));
    for (uint32_t i = 0; i < order.n; i++) {
        graph_stamp(r.dst, order.at[i], NULL);
        Node *in = r.map[order.at[i]->id] = graph_region_param(r.dst, &order.at[i]->type);
        memcpy(in->type.sym, order.at[i]->type.sym, sizeof in->type.sym);
        node_pass_name(order.at[i], in);
    }
    for (uint32_t i = 0; i < old->nodes.n; i++) remap_node(&r, old->nodes.at[i]);
    return remap_end(&r);
}

Node *loop_node(Elab *e, Region *r, int64_t count, Node *const *init, uint32_t ncarried,
                Node *const *scanned, uint32_t nscanned, int runs)
{
    uint32_t n = ncarried + nscanned + r->outer.n, at = 0, first_outer = 1 + ncarried + nscanned;
    Node **args = NEW_ARRAY(e->arena, Node *, n + 1);
    Node **written = NEW_ARRAY(e->arena, Node *, r->written.n + 1); // their parameters of the
                                                                    // region
    bool *carried = NEW_ARRAY(e->arena, bool, r->outer.n + 1);
    for (uint32_t i = 0; i < ncarried; i++) args[at++] = init[i];
    for (uint32_t i = 0; i < r->written.n; i++) {
        uint64_t in = 0;
        idmap_get(&r->inner, (uintptr_t)r->written.at[i], &in);
        written[i] = (Node *)(uintptr_t)in;
        uint32_t k = (uint32_t)attr_int(written[i], ATTR_index, 0) - first_outer;
        carried[k] = true;
        args[at++] = r->outer.at[k];
    }
    for (uint32_t i = 0; i < nscanned; i++) args[at++] = scanned[i];
    for (uint32_t i = 0; i < r->outer.n; i++)
        if (!carried[i]) args[at++] = r->outer.at[i];
    Graph *body = r->written.n ? params_moved(e, r->g, written, r->written.n, 1 + ncarried) : r->g;
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_count, count);
    attr_set_int(&attrs, ATTR_carried, ncarried + r->written.n);
    attr_set_int(&attrs, ATTR_scanned, nscanned);
    if (!r->loop) attr_set_int(&attrs, ATTR_apart, 1); // (micro-batches)
    if (runs >= 0) attr_set_int(&attrs, ATTR_runs, runs);
    return graph_region_node(e->g, OP_loop, args, (int)n, &attrs, &body, 1);
}

// For a loop that was not elaborated because of an error: prevents further errors about values that
// it should have emitted.
static void poison_emitted(Elab *e, const Block *b)
{
    for (uint32_t i = 0; b && i < b->stmts.n; i++) {
        const Stmt *s = b->stmts.at[i];
        if (s->kind == STMT_EMIT) name_bind(e, s->name, val_poison());
        poison_emitted(e, s->body);
        poison_emitted(e, s->orelse);
    }
}

// Whether the iteration whose values have just been bound takes place: so did all before it, and
// the condition holds. flag: whether all before it did. NULL after an error.
//
// It also takes place if an assertion within the condition fails, since only iterations that take
// place report that.
static Node *loop_condition(Elab *e, const Stmt *s, Node *flag)
{
    Val v = eval(e, s->cond);
    Node *holds = to_tensor(e, &v, DT_BOOL, s->cond->span);
    if (!holds) return NULL;
    if (holds->type.dtype != DT_BOOL || holds->type.rank) {
        Diag *d = error_at(e, s->cond->span, "the condition of a loop is one bool, found %s",
                           type_text(e, &holds->type));
        if (holds->type.rank) diag_note(e->diags, d, "use any(…) or all(…)");
        return NULL;
    }
    for (uint32_t k = 0; k < e->region->assert_cond.n; k++) {
        Node *fails = graph_unary(e->g, OP_not, e->region->assert_cond.at[k]);
        holds = graph_binary(e->g, OP_or, holds, fails);
    }
    return graph_binary(e->g, OP_and, flag, holds);
}

void exec_loop(Elab *e, const Stmt *s)
{
    Loop l = {.s = s};
    if (!loop_open(e, &l)) {
        for (uint32_t k = 0; k < s->names.n; k++) name_bind(e, s->names.at[k].name, val_poison());
        poison_emitted(e, s->body);
        return;
    }
    for (uint32_t k = 0; l.hi <= l.lo && k < l.ncarried; k++) // no iteration
        name_assign(e, s->names.at[k].name, s->names.at[k].name_span, val_node(l.init[k]));
    if (l.hi <= l.lo) return;
    at_span(e, s->span);
    Loc loc = e->g->loc;
    Region *r = region_open(e);
    r->loop = true;
    r->frame = e->frame;
    r->own = strmap_new(e->arena);
    r->borrowed = strmap_new(e->arena);
    Type index = type_scalar(DT_I64);
    Node *i = r->round = region_param(e, r, &index);
    r->rounds = l.hi - l.lo;
    for (uint32_t k = 0; k < l.ncarried; k++)
        name_bind(e, s->names.at[k].name, val_node(region_param(e, r, &l.init[k]->type)));
    const Type bool_type = type_scalar(DT_BOOL);
    Node *flag = s->cond ? region_param(e, r, &bool_type) : NULL;
    for (uint32_t k = 0; k < l.nscanned; k++) {
        Type slice = l.scanned[k]->type;
        slice.rank--;
        memmove(slice.dim, slice.dim + 1, sizeof slice.dim - sizeof *slice.dim);
        memmove(slice.sym, slice.sym + 1, sizeof slice.sym - sizeof *slice.sym);
        slice.dim[MAX_RANK - 1] = 0;
        name_bind(e, s->items.at[k].name, val_node(region_param(e, r, &slice)));
    }
    if (l.lo) i = graph_binary(e->g, OP_add, i, graph_const_int(e->g, DT_I64, l.lo));
    name_bind(e, s->name, val_node(i));
    uint32_t errors = e->diags->errors;
    if (flag) l.runs = loop_condition(e, s, flag);
    exec_block(e, s->body);
    bool ok = e->diags->errors == errors;
    if (ok && e->frame->returned) {
        fail(e, s->span, "a loop cannot return; carry or emit the value");
        ok = false;
    }
    ok = ok && loop_results(e, &l, r);
    region_close(e, r);
    vec_push(e->arena, &e->rounds, r->g);
    e->g->loc = loc;
    for (uint32_t k = 0; k < r->written.n; k++) r->written.at[k]->cur = r->before.at[k];
    uint32_t carried = l.ncarried, at = 0;
    if (flag) l.init[carried++] = graph_full_like(e->g, flag, 1);
    Node *n = ok ? loop_node(e, r, l.hi - l.lo, l.init, carried, l.scanned, l.nscanned,
                             flag ? (int)l.ncarried : -1)
                 : NULL;
    for (uint32_t k = 0; k < l.ncarried; k++)
        name_assign(e, s->names.at[k].name, s->names.at[k].name_span,
                    n ? val_node(graph_result(e->g, n, (int)at++)) : val_poison());
    at += flag != NULL;
    for (uint32_t k = 0; n && k < r->written.n; k++)
        cell_leaves_loop(e, r->written.at[k], graph_result(e->g, n, (int)at++));
    for (uint32_t k = 0; k < r->emit.n; k++)
        name_bind(e, r->emit_name.at[k],
                  n ? val_node(graph_result(e->g, n, (int)at++)) : val_poison());
    for (uint32_t k = 0; n && k < r->assert_cond.n; k++) {
        Node *holds = graph_result(e->g, n, (int)at++);
        region_assert(e, flag ? graph_unary(e->g, OP_not, holds) : holds, r->assert_text.at[k]);
    }
    // Names bound inside the loop are not visible after it.
    for (uint32_t k = 0; k < l.nscanned; k++) name_bind(e, s->items.at[k].name, val_poison());
}

void exec_emit(Elab *e, const Stmt *s)
{
    Region *r = e->region;
    Val v = eval_named(e, s->expr, s->name);
    if (!r || !r->loop) {
        fail(e, s->span, "'emit' can be used only inside a loop");
        return;
    }
    Node *n = to_tensor(e, &v, DT_COUNT, s->expr->span);
    if (!n) {
        r->poisoned = true;
        name_bind(e, s->name, val_poison());
        return;
    }
    for (uint32_t i = 0; i < r->emit.n; i++)
        if (!strcmp(r->emit_name.at[i], s->name)) {
            fail(e, s->span, "'%s' is emitted twice", s->name);
            return;
        }
    vec_push(e->arena, &r->emit_name, s->name);
    vec_push(e->arena, &r->emit, n);
}
