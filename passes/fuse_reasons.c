// Why two values are not computed by one kernel, in the user's terms. docs/fusion.md explains each.
#include "passes/passes.h"

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
        return arena_printf(a, "%lld consumers, recomputing costs %lld flops an element", x, y);
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
