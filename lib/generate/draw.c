// Draws a token from logits: tokens that the text already has become less likely (Keskar et al.
// 2019); softmax at a temperature; only the most likely tokens (top-k: Fan et al. 2018; top-p,
// nucleus sampling: Holtzman et al. 2020); and one of them by a random number from Philox.
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "ir/philox.h"
#include "lib/generate/draw.h"

static double value_at(ProgDType type, const void *p, int64_t i)
{
    switch (type) {
    case PD_F32: return ((const float *)p)[i];
    case PD_F64: return ((const double *)p)[i];
    case PD_F16: return half_value(((const uint16_t *)p)[i], HALF_F16);
    default: return half_value(((const uint16_t *)p)[i], HALF_BF16);
    }
}

// Descending order; equal logits are ordered by token, so that the order is the same everywhere.
static int by_logit(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

// A number in (0, 1).
static double number(const Draw *d, int64_t row, int64_t place)
{
    uint64_t high = philox_word(d->seed, (uint64_t)place, (uint64_t)row, 0, 32, 0);
    uint64_t low = philox_word(d->seed, (uint64_t)place, (uint64_t)row, 0, 32, 1);
    return ((double)((high << 20) ^ (low >> 12)) + 0.5) / 0x1p52;
}

int64_t draw_token(const Draw *d, ProgDType type, const void *logits, int64_t n, int64_t row,
                   int64_t place, Candidate *work)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++) {
        double v = value_at(type, logits, i);
        if (isnan(v)) return -1;
        if (d->said && d->said[i] && d->penalty) v = v > 0 ? v / d->penalty : v * d->penalty;
        work[i] = (Candidate){v, i};
        if (best < 0 || v > work[best].logit) best = i;
    }
    if (best < 0 || !isfinite(work[best].logit) || d->temperature == 0)
        return best < 0 || work[best].logit == -INFINITY ? -1 : best;
    bool few = (d->top_k > 0 && d->top_k < n) || (d->top_p > 0 && d->top_p < 1);
    double top = work[best].logit, sum = 0;
    if (few) qsort(work, (size_t)n, sizeof *work, by_logit);
    if (d->top_k > 0 && d->top_k < n) n = d->top_k;
    for (int64_t i = 0; i < n; i++)
        sum += work[i].logit = exp((work[i].logit - top) / d->temperature);
    if (d->top_p > 0 && d->top_p < 1) {
        double kept = 0, enough = d->top_p * sum;
        int64_t i = 0;
        while (i < n && kept < enough) kept += work[i++].logit;
        n = i;
        sum = kept;
    }
    double left = number(d, row, place) * sum;
    int64_t last = 0;
    for (int64_t i = 0; i < n; i++) {
        if (work[i].logit <= 0) continue; // never drawn
        last = i;
        if ((left -= work[i].logit) < 0) break;
    }
    return work[last].token;
}
