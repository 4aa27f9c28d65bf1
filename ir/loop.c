#include "ir/loop.h"

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

static const Node *begins_with(const Node *loop, uint32_t carried)
{
    const Graph *body = loop->regions[0];
    for (uint32_t i = 0; i < body->params.n; i++)
        if (attr_int(body->params.at[i], ATTR_index, i) == carried + 1) return body->params.at[i];
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
