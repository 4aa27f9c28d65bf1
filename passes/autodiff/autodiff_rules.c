// The table of gradient rules, and the rules of leaves and regions.
#include "passes/autodiff/autodiff_rules.h"

void grad_zero(Rule *r)
{
    (void)r;
}

void grad_none(Rule *r)
{
    autodiff_no_gradient(r->s, r->n);
}

void grad_leaf(Rule *r)
{
    (void)r;
}

void grad_variable(Rule *r)
{
    rule_give(r, 0, r->dy);
}

void grad_call(Rule *r)
{
    grad_call_region(r);
}

void grad_extern(Rule *r)
{
    if (r->n->nregions == 2) {
        grad_call_region(r);
        return;
    }
    autodiff_no_gradient(r->s, r->n);
    for (uint32_t i = 0; i < r->n->nargs; i++) // operands are not the cause of the error
        if (rule_wants(r, i)) rule_give(r, i, zeros_like(r->g, &r->n->args[i]->type));
}

void grad_loop(Rule *r)
{
    grad_loop_region(r);
}

void grad_get(Rule *r)
{
    Node *op = A(0);
    int64_t index = attr_int(r->n, ATTR_index, 0);
    Node ***all = &r->s->results[op->id];
    if (!*all) *all = NEW_ARRAY(r->g->arena, Node *, node_result_count(op));
    Node **slot = &(*all)[index];
    *slot = *slot ? autodiff_sum(r->g, *slot, r->dy) : r->dy;
}

static void (*const rules[OP_COUNT])(Rule *) = {
#define EW(id, arity, flags, type, rule, ...)        [OP_##id] = grad_##rule,
#define OP(id, arity, class, flags, type, rule, ...) [OP_##id] = grad_##rule,
#include "ir/ops.def"
#undef EW
#undef OP
};

void rule_apply(Rule *r)
{
    rules[r->n->op](r);
}

bool op_passes_gradient(Op op)
{
    return rules[op] != grad_zero;
}
