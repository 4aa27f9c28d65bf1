// The cost of recomputing a value, by the device's rates.
#include "passes/recompute/recompute.h"

enum {
    DRAW = 100,
    COSTLY = 20,
    SCATTERED = 8
}; // DRAW, COSTLY: in additions; SCATTERED: in
   // contiguous accesses

double recompute_move(const Target *t, double bytes)
{
    return bytes / (t && t->bytes_per_second > 0 ? t->bytes_per_second : 1e11);
}

static double compute(const Target *t, double operations)
{
    return operations / (t && t->f32_flops > 0 ? t->f32_flops : 1e12);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double product_seconds(const Target *t, const Node *n)
{
    int axes;
    const int64_t *axis = attr_ints(n, ATTR_contract_a, &axes);
    double flops = 2 * (double)type_count(&n->type);
    for (int i = 0; i < axes; i++) flops *= (double)n->args[0]->type.dim[axis[i]];
    bool half = dtype_info[n->args[0]->type.dtype].bits == 16;
    double rate = t ? target_product_flops(t, half, false) : 0;
    return flops / (rate > 0 ? rate : 1e12);
}

// Seconds of the regions of a loop (all iterations) or of a call; of a call with a gradient rule,
// of its first region.
static double region_seconds(const Target *t, const Node *n)
{
    double all = 0;
    for (uint32_t k = 0; k < n->nregions && k < 1; k++)
        for (uint32_t i = 0; i < n->regions[k]->nodes.n; i++)
            all += recompute_seconds(t, n->regions[k]->nodes.at[i]);
    return n->op == OP_loop ? all * (double)attr_int(n, ATTR_count, 1) : all;
}

double recompute_seconds(const Target *t, const Node *n)
{
    double count = (double)type_count(&n->type);
    switch (node_class(n)) {
    case CLS_ELEMENTWISE: return compute(t, count * (node_has(n, OPF_COSTLY) ? COSTLY : 1));
    case CLS_REDUCE: return compute(t, (double)type_count(&n->args[0]->type));
    case CLS_DOT: {
        double bytes = (double)type_bytes(&n->type);
        for (uint32_t k = 0; k < n->nargs; k++) bytes += (double)type_bytes(&n->args[k]->type);
        return larger(product_seconds(t, n), recompute_move(t, bytes));
    }
    case CLS_REGION: return region_seconds(t, n);
    case CLS_INDEX:
    case CLS_SCAN: return recompute_move(t, SCATTERED * (double)type_bytes(&n->type));
    case CLS_LEAF: return node_has(n, OPF_DRAWN) ? compute(t, count * DRAW) : 0;
    default: return 0;
    }
}
