#include "ir/loop.h"

#include <math.h>

#include "ir/range.h"

// Threads of a warp and of a block; few elements leave most threads of a GPU idle anyway.
enum { WARP = 32, MOST_THREADS = 1024, FEW = 1 << 16 };

bool runs_as_kernel(const Node *n)
{
    return node_has(n, OPF_KERNEL) || (n->op == OP_loop && attr_int(n, ATTR_one_kernel, 0));
}

RecurrenceShape recurrence_shape(const Node *loop)
{
    const int64_t carried = attr_int(loop, ATTR_carried, 0);
    RecurrenceShape s = {0};
    for (int64_t i = 0; i < carried; i++) {
        const Type *t = &loop->args[i]->type;
        if (type_count(t) <= s.elements) continue;
        const int64_t last = t->rank ? t->dim[t->rank - 1] : 1;
        s.elements = type_count(t);
        s.lanes = last > 1 && last <= WARP && !(last & (last - 1)) ? last : 0;
        s.row =
            last > 1 && last <= MOST_THREADS && (2 * last >= WARP || s.elements <= FEW) ? t : NULL;
    }
    return s;
}

bool *recurrence_moving(const Graph *body, uint32_t carried)
{
    bool *moving = NEW_ARRAY(body->arena, bool, body->nodes.n + 1);
    for (uint32_t i = 0; i < body->nodes.n; i++) {
        const Node *x = body->nodes.at[i];
        const int64_t index = x->op == OP_region_param ? attr_int(x, ATTR_index, 0) : 0;
        moving[i] = index >= 1 && index <= carried;
        for (uint32_t k = 0; k < x->nargs; k++) moving[i] |= moving[x->args[k]->id];
    }
    return moving;
}

bool recurrence_shifts(const Node *view)
{
    const Op op = view->op;
    return op == OP_slice || op == OP_pad || op == OP_concat || op == OP_reverse;
}

bool recurrence_meets(const Graph *body, uint32_t carried)
{
    bool *live = NEW_ARRAY(body->arena, bool, body->nodes.n + 1),
         *moving = recurrence_moving(body, carried);
    graph_mark_live(body, live);
    for (uint32_t i = 0; i < body->nodes.n; i++)
        if (live[i] && moving[i] && recurrence_shifts(body->nodes.at[i])) return true;
    return false;
}

// Bytes that kernels and the matmul library load or store at once, at most.
enum { WIDEST_ACCESS = 16 };

static const Node *begins_with(const Node *loop, uint32_t operand)
{
    const Graph *body = loop->regions[0];
    for (uint32_t i = 0; i < body->params.n; i++)
        if (attr_int(body->params.at[i], ATTR_index, i) == operand + 1) return body->params.at[i];
    return NULL;
}

bool loop_stacks(const Node *loop, uint32_t carried)
{
    const Graph *body = loop->regions[0];
    const Node *begin = begins_with(loop, carried), *end = body->results.at[carried];
    const int64_t bytes = type_bytes(&end->type);
    // A result that is a parameter is not stored by a kernel of the body; it is copied and cannot
    // be in a stack.
    if (end->op == OP_region_param || !bytes || bytes % WIDEST_ACCESS ||
        end->type.rank == MAX_RANK || attr_int(loop, ATTR_count, 0) < 1)
        return false;
    for (uint32_t i = (uint32_t)attr_int(loop, ATTR_carried, 0); i < body->results.n; i++)
        if (body->results.at[i] == end || body->results.at[i] == begin) return true;
    return false;
}

int loop_stack_of(const Node *loop, uint32_t result, bool *next)
{
    const Node *x = loop->regions[0]->results.at[result];
    const uint32_t carried = (uint32_t)attr_int(loop, ATTR_carried, 0);
    for (uint32_t i = 0; i < carried && result >= carried; i++) {
        *next = loop->regions[0]->results.at[i] == x;
        if ((*next || begins_with(loop, i) == x) && loop_stacks(loop, i)) return (int)i;
    }
    return -1;
}

// -- iterations without effect --------------------------------------------------------------------

static const Node *condition_of(const Node *n)
{
    if (n->op != OP_select) return NULL;
    n = n->args[0];
    while (n->op == OP_broadcast || n->op == OP_reshape) n = n->args[0];
    return n->type.rank ? NULL : n;
}

static bool same_starts(const Node *slice, const Node *update)
{
    bool same = slice->nargs + 1 == update->nargs;
    for (uint32_t k = 1; same && k < slice->nargs; k++)
        same = slice->args[k] == update->args[k + 1];
    return same;
}

// Whether n is the value [was] where the condition is false.
static bool stays(const Node *n, const Node *was, const Node *condition)
{
    if (n == was) return true;
    if (condition_of(n) == condition) return n->args[2] == was;
    if (n->op != OP_dynamic_update || condition_of(n->args[1]) != condition) return false;
    const Node *part = n->args[1]->args[2];
    return part->op == OP_dynamic_slice && part->args[0] == n->args[0] && same_starts(part, n) &&
           stays(n->args[0], was, condition);
}

// Whether c, a bool, is false where the condition is.
static bool implies(const Node *c, const Node *condition)
{
    return c == condition ||
           (c->op == OP_and && (implies(c->args[0], condition) || implies(c->args[1], condition)));
}

// Whether n is 0 where the condition is false.
static bool is_zero_without(const Node *n, const Node *condition)
{
    const Node *c = condition_of(n);
    double v;
    if (!c || !node_const_value(n->args[2], &v) || v != 0 || signbit(v)) return false;
    return implies(c, condition) || is_zero_without(n->args[1], condition);
}

// The first condition that a result depends on, also through the update of a part.
static const Node *first_condition(const Graph *body)
{
    for (uint32_t k = 0; k < body->results.n; k++) {
        const Node *n = body->results.at[k];
        const Node *c = condition_of(n->op == OP_dynamic_update ? n->args[1] : n);
        if (c) return c;
    }
    return NULL;
}

static bool is_read(const Graph *body, const Node *x)
{
    bool any = !x;
    for (uint32_t i = 0; i < body->nodes.n && x; i++)
        for (uint32_t k = 0; k < body->nodes.at[i]->nargs; k++)
            any |= body->nodes.at[i]->args[k] == x;
    for (uint32_t k = 0; k < body->results.n && x; k++) any |= body->results.at[k] == x;
    return any;
}

// The parameter of the body of n, a loop, that is false where the flag around it is, or NULL.
static const Node *flag_within(const Node *n, const Node *flag)
{
    const uint32_t first = (uint32_t)(attr_int(n, ATTR_carried, 0) + attr_int(n, ATTR_scanned, 0));
    for (uint32_t k = first; n->op == OP_loop && k < n->nargs; k++)
        if (implies(n->args[k], flag)) return begins_with(n, k);
    return NULL;
}

// Whether an index may be out of range that is not replaced by 0 where the flag is false. flag:
// NULL in a region that does not read it.
static bool may_fail(const Graph *body, const Node *flag)
{
    bool any = false;
    for (uint32_t i = 0; i < body->nodes.n && !any; i++) {
        const Node *n = body->nodes.at[i];
        any = range_index_may_fail(n) && !(flag && is_zero_without(n->args[1], flag));
        for (uint32_t k = 0; k < n->nregions; k++)
            any |= may_fail(n->regions[k], flag ? flag_within(n, flag) : NULL);
    }
    return any;
}

const Node *loop_flag(const Node *loop)
{
    const Graph *body = loop->regions[0];
    const uint32_t carried = (uint32_t)attr_int(loop, ATTR_carried, 0),
                   scanned = (uint32_t)attr_int(loop, ATTR_scanned, 0);
    const Node *condition = first_condition(body), *flag = NULL;
    if (!condition) return NULL;
    for (uint32_t i = 0; i < body->params.n; i++) {
        const Node *p = body->params.at[i];
        const int64_t index = attr_int(p, ATTR_index, i);
        if (p == condition && index > carried && index <= carried + scanned) flag = p;
    }
    for (uint32_t k = 0; k < body->results.n; k++) {
        const Node *n = body->results.at[k], *was = k < carried ? begins_with(loop, k) : NULL;
        if (n == condition && was && n->op == OP_and && (n->args[0] == was || n->args[1] == was))
            flag = was;
        else if (n == condition && n == flag && k < carried && !is_read(body, was))
            continue; // (see ir/loop.h)
        else if (k < carried ? !was || !stays(n, was, condition) || loop_stacks(loop, k)
                             : !is_zero_without(n, condition))
            return NULL;
    }
    return flag && !may_fail(body, flag) ? flag : NULL;
}
