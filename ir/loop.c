#include "ir/loop.h"

enum { WARP = 32 };

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
    }
    return s;
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
