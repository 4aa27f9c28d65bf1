// Whether a candidate computes what its launch should: within the evaluator's bound for each
// element, if there are results of the evaluator (tune/tune_expect.c). For the launches of a large
// model these would take minutes, so their candidates are compared with the default schedule's
// results, with one tolerance per buffer, from its largest element: how large the terms of an
// element's sum were is not known there.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/bound.h"
#include "lib/tune/tune.h"

static double element(ProgDType t, const void *x, int64_t i)
{
    return prog_load(t, (const char *)x + i * prog_dtype_bytes(t));
}

static double epsilon(ProgDType t)
{
    return t == PD_BF16 ? 0x1p-7 : t == PD_F16 ? 0x1p-10 : t == PD_F64 ? 0x1p-52 : 0x1p-23;
}

static double magnitude(ProgDType t, const void *x, size_t bytes)
{
    double largest = 0;
    for (int64_t i = 0; i < (int64_t)bytes / prog_dtype_bytes(t); i++) {
        double v = fabs(element(t, x, i));
        if (v > largest && isfinite(v)) largest = v;
    }
    return largest;
}

// The first element in which two results differ by more than [allowed], or -1. A few integers may
// differ, if they are computed from sums that are rounded differently.
static int64_t first_wrong(ProgDType t, const void *x, const void *y, size_t bytes, double allowed)
{
    size_t size = (size_t)prog_dtype_bytes(t), n = bytes / size, other = 0;
    int64_t last = -1;
    for (size_t i = 0; i < n; i++) {
        if (!memcmp((const char *)x + i * size, (const char *)y + i * size, size)) continue;
        double a = element(t, x, (int64_t)i), b = element(t, y, (int64_t)i);
        if ((isnan(a) && isnan(b)) || a == b) continue;
        if (!isfinite(a) || !isfinite(b)) return (int64_t)i;
        if (t >= PD_BF16 && fabs(a - b) > allowed) return (int64_t)i;
        if (fabs(a - b) > 1) other++, last = (int64_t)i;
    }
    return t < PD_BF16 && other * 1000 > n ? last : -1;
}

// The difference that rounding may cause: from another order of additions, or from fusing a product
// and a sum into one operation. A sum whose last bits differ may be rounded to the next number of a
// 16-bit type on the way to a result of a finer type.
static double allowed(const Bench *b, const Candidate *c, int buffer)
{
    enum { ROUNDINGS = 2 };
    double ulps = c->reorders ? 32 * sqrt((double)b->longest) : 8;
    return fmax(ulps * epsilon(b->buffer[buffer].type), ROUNDINGS * b->coarsest) *
           b->magnitude[buffer];
}

// Why a buffer with the contents [have] after the candidate's run is wrong, or NULL.
static const char *difference(Bench *b, const Candidate *c, int buffer, const void *have, size_t n)
{
    const char *format =
        "its result differs from the %s's: element %lld of buffer %d is %.9g, not %.9g";
    if (b->want[buffer]) {
        Value v = value_new(b->arena, &b->want[buffer]->type);
        value_from_bytes(&v, have);
        Agreement k = bound_compare(&v, b->want[buffer], NULL);
        return k.wrong ? arena_printf(b->arena, format, "evaluator", (long long)k.at, buffer,
                                      k.have, k.want)
                       : NULL;
    }
    ProgDType t = b->buffer[buffer].type;
    const void *right = b->reference[buffer];
    int64_t at =
        memcmp(right, have, n) ? first_wrong(t, right, have, n, allowed(b, c, buffer)) : -1;
    return at >= 0 ? arena_printf(b->arena, format, "default", (long long)at, buffer,
                                  element(t, have, at), element(t, right, at))
                   : NULL;
}

bool bench_keep_reference(Bench *b, RtError *e)
{
    b->reference = NEW_ARRAY(b->arena, void *, b->nbuffers + 1);
    b->reference_bytes = NEW_ARRAY(b->arena, size_t, b->nbuffers + 1);
    b->magnitude = NEW_ARRAY(b->arena, double, b->nbuffers + 1);
    if (rt_microbench_run(b->bench, &b->base.trial, e)) return false;
    for (int i = 0; i < b->nbuffers; i++) {
        if (!b->buffer[i].written || b->buffer[i].fill == MICROBENCH_ZERO) continue;
        if (rt_microbench_read(b->bench, i, &b->reference[i], &b->reference_bytes[i], e))
            return false;
        b->magnitude[i] = magnitude(b->buffer[i].type, b->reference[i], b->reference_bytes[i]);
    }
    bench_expect(b);
    for (int i = 0; i < b->nbuffers; i++) { // if results with the default schedule are not equal,
                                            // tuning is impossible
        const char *why =
            b->want[i] ? difference(b, &b->base, i, b->reference[i], b->reference_bytes[i]) : NULL;
        if (!why) continue;
        lib_log(b->context,
                "warning: kernel %s as generated: %s; other schedules are compared with it: this "
                "is a bug in netc, please report it with the model",
                b->base.kernels[0].prog.name, why);
        b->want[i] = NULL;
    }
    return true;
}

bool bench_check(Bench *b, Candidate *c)
{
    RtError e = {0};
    if (rt_microbench_run(b->bench, &c->trial, &e)) {
        c->wrong = bench_first_line(b->arena, e.text);
        c->no_memory = e.code == RT_OOM;
        return false;
    }
    for (int i = 0; i < b->nbuffers && !c->wrong; i++) {
        void *have = NULL;
        size_t n = 0;
        if (!b->reference[i]) continue;
        c->wrong = rt_microbench_read(b->bench, i, &have, &n, &e)
                       ? bench_first_line(b->arena, e.text)
                       : difference(b, c, i, have, n);
        free(have);
        c->no_memory = e.code == RT_OOM;
    }
    return !c->wrong;
}
