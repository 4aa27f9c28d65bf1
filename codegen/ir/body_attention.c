// The parts of an attention body: the products that give scores, the products of weights and
// values, and what the softmax keeps of a row.
#include "codegen/ir/body.h"

DType attention_type(const Body *b)
{
    return b->insts.at[b->attention.score[0].sum].node->args[0]->type.dtype;
}

static bool over(const Body *b, int inst, int axis)
{
    return b->insts.at[inst].axes >> axis & 1;
}

// Adds the sum to the scores if it is a product of rows and columns over an axis of its own.
static bool add_score(Body *b, int sum)
{
    const Inst *v = &b->insts.at[sum], *p = &b->insts.at[v->a[0]];
    if (v->op != OP_sum || p->kind != KI_EW || p->op != OP_mul ||
        b->attention.nscores == MOST_PRODUCTS)
        return false;
    int rows = over(b, p->a[0], b->col) ? 1 : 0;
    BodyScore s = {sum, p->a[rows], p->a[1 - rows], v->axis};
    if (over(b, s.rows, b->col) || over(b, s.cols, 1) || !v->node || v->node->op != OP_dot)
        return false;
    b->attention.score[b->attention.nscores++] = s;
    return true;
}

// Adds the sum over the columns to the results if its terms are a weight times a value that depends
// on the head dimension, or on the columns only.
static bool add_sum(Body *b, int sum)
{
    const Inst *v = &b->insts.at[sum], *p = &b->insts.at[v->a[0]];
    if (v->op == OP_max && b->attention.high < 0) {
        b->attention.high = sum;
        return true;
    }
    if (v->op != OP_sum) return false;
    for (int head = 2; head < b->npar && p->kind == KI_EW && p->op == OP_mul; head++)
        for (int k = 0; k < 2; k++) {
            if (!over(b, p->a[k], head)) continue;
            if (b->attention.nouts == MOST_PRODUCTS || over(b, p->a[k], 1)) return false;
            b->attention.out[b->attention.nouts++] =
                (BodyWeighted){sum, p->a[1 - k], p->a[k], head};
            return true;
        }
    if (b->attention.total >= 0) return false;
    b->attention.total = sum;
    return true;
}

bool attention_find(Body *b)
{
    b->attention.high = b->attention.exp = b->attention.total = -1;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_REDUCE) continue;
        if (!(v->axis == b->col ? add_sum(b, (int)i) : add_score(b, (int)i))) return false;
    }
    for (uint32_t i = 0; i < b->insts.n && b->attention.high >= 0; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind != KI_EW || v->op != OP_exp || v->stage != 1 || !over(b, (int)i, b->col))
            continue;
        if (b->attention.exp >= 0) return false;
        b->attention.exp = (int)i;
    }
    if (!b->attention.nouts || !b->attention.nscores) return false;
    if ((b->attention.high >= 0) != (b->attention.exp >= 0)) return false;
    DType type = attention_type(b);
    for (int i = 0; i < b->attention.nscores; i++)
        for (int k = 0; k < 2; k++)
            if (b->insts.at[b->attention.score[i].sum].node->args[k]->type.dtype != type)
                return false;
    b->attention.tensor = type == DT_F32 ? TENSOR_F32 : 0;
    return type == DT_F32 || type == DT_BF16 || type == DT_F16;
}
