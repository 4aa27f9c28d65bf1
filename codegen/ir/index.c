// Index expressions: interned sums, simplified by the ranges of their terms when they are created.
#include "codegen/ir/index.h"

#include <string.h>

IxCtx *ix_new(Arena *a)
{
    IxCtx *c = NEW(a, IxCtx);
    c->arena = a;
    c->sums = idmap_new(a);
    c->terms = idmap_new(a);
    return c;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t gcd(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a;
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

typedef struct Parts { // a sum under construction
    int64_t constant;
    int n, cap;
    struct IxPart *at;
} Parts;

static void parts_add(IxCtx *c, Parts *p, const IxTerm *t, int64_t coeff)
{
    if (coeff == 0) return;
    int i = 0;
    while (i < p->n && p->at[i].term->serial < t->serial) i++;
    if (i < p->n && p->at[i].term == t) {
        p->at[i].coeff += coeff;
        if (p->at[i].coeff == 0) {
            memmove(&p->at[i], &p->at[i + 1], sizeof p->at[0] * (size_t)(p->n - i - 1));
            p->n--;
        }
        return;
    }
    if (p->n == p->cap) {
        int cap = p->cap ? p->cap * 2 : 8;
        struct IxPart *at = NEW_ARRAY(c->arena, struct IxPart, cap);
        if (p->n) memcpy(at, p->at, sizeof *at * (size_t)p->n);
        p->at = at;
        p->cap = cap;
    }
    memmove(&p->at[i + 1], &p->at[i], sizeof p->at[0] * (size_t)(p->n - i));
    p->at[i] = (struct IxPart){coeff, t};
    p->n++;
}

static void parts_sum(IxCtx *c, Parts *p, const Ix *e, int64_t by)
{
    p->constant += e->constant * by;
    for (int i = 0; i < e->n; i++) parts_add(c, p, e->at[i].term, e->at[i].coeff * by);
}

static const Ix *intern(IxCtx *c, const Parts *p)
{
    uint64_t h = hash_mix(0x1d, (uint64_t)p->constant);
    for (int i = 0; i < p->n; i++)
        h = hash_mix(hash_mix(h, p->at[i].term->serial), (uint64_t)p->at[i].coeff);
    uint64_t v;
    if (idmap_get(&c->sums, h, &v)) return (const Ix *)(uintptr_t)v;
    Ix *e = arena_alloc(c->arena, sizeof *e + sizeof e->at[0] * (size_t)p->n);
    e->constant = e->low = e->high = p->constant;
    e->n = p->n;
    for (int i = 0; i < p->n; i++) {
        const IxTerm *t = p->at[i].term;
        int64_t k = p->at[i].coeff;
        e->at[i] = p->at[i];
        e->low += k * (k > 0 ? t->low : t->high);
        e->high += k * (k > 0 ? t->high : t->low);
        e->axes |= t->axes;
        e->has_value |= t->kind == IT_VALUE || (t->e && t->e->has_value);
    }
    idmap_set(&c->sums, h, (uint64_t)(uintptr_t)e);
    return e;
}

static const IxTerm *term(IxCtx *c, IxTerm want)
{
    // Each number is mixed into a hash, not into another number: see value_key in lower_value.c.
    uint64_t h = hash_mix(0x7e, (uint64_t)want.kind), v;
    h = hash_mix(hash_mix(h, (uint64_t)(uint32_t)want.id), (uint64_t)(uintptr_t)want.e);
    h = hash_mix(h, (uint64_t)want.by);
    if (idmap_get(&c->terms, h, &v)) return (const IxTerm *)(uintptr_t)v;
    IxTerm *t = NEW(c->arena, IxTerm);
    *t = want;
    t->serial = c->serials++;
    idmap_set(&c->terms, h, (uint64_t)(uintptr_t)t);
    return t;
}

const Ix *ix_term(IxCtx *c, const IxTerm *t)
{
    struct IxPart part = {1, t};
    if (t->low == t->high) return ix_const(c, t->low);
    return intern(c, &(Parts){0, 1, 1, &part});
}

const Ix *ix_const(IxCtx *c, int64_t v)
{
    return intern(c, &(Parts){.constant = v});
}

const Ix *ix_axis(IxCtx *c, int axis, int64_t extent)
{
    return ix_term(c, term(c, (IxTerm){.kind = IT_AXIS,
                                       .id = axis,
                                       .high = extent > 0 ? extent - 1 : 0,
                                       .axes = 1ull << axis}));
}

const Ix *ix_value(IxCtx *c, int inst, int64_t low, int64_t high, uint64_t axes)
{
    return ix_term(
        c, term(c, (IxTerm){.kind = IT_VALUE, .id = inst, .low = low, .high = high, .axes = axes}));
}

// b * (X % d) + b * d * (X / d) becomes b * X
static bool recombine(IxCtx *c, Parts *p)
{
    for (int i = 0; i < p->n; i++) {
        const IxTerm *t = p->at[i].term;
        if (t->kind != IT_MOD) continue;
        int64_t b = p->at[i].coeff;
        const Ix *q = ix_div(c, t->e, t->by);
        if (q->n != 1 || q->constant != 0 || q->at[0].coeff != 1) continue;
        for (int j = 0; j < p->n; j++) {
            if (p->at[j].term != q->at[0].term || p->at[j].coeff != b * t->by) continue;
            const Ix *x = t->e;
            parts_add(c, p, q->at[0].term, -b * t->by);
            parts_add(c, p, t, -b);
            parts_sum(c, p, x, b);
            return true;
        }
    }
    return false;
}

static const Ix *finish(IxCtx *c, Parts *p)
{
    while (recombine(c, p))
        ;
    return intern(c, p);
}

const Ix *ix_add(IxCtx *c, const Ix *a, const Ix *b)
{
    Parts p = {0};
    parts_sum(c, &p, a, 1);
    parts_sum(c, &p, b, 1);
    return finish(c, &p);
}

const Ix *ix_scale(IxCtx *c, const Ix *a, int64_t by)
{
    Parts p = {0};
    parts_sum(c, &p, a, by);
    return finish(c, &p);
}

// Divides a sum and its divisor by the greatest common divisor of all coefficients and the divisor.
static const Ix *shrink(IxCtx *c, const Parts *rest, int64_t *by)
{
    int64_t g = *by;
    for (int i = 0; i < rest->n; i++) g = gcd(rest->at[i].coeff, g);
    Parts p = {.constant = floor_div(rest->constant, g)};
    for (int i = 0; i < rest->n; i++) parts_add(c, &p, rest->at[i].term, rest->at[i].coeff / g);
    *by /= g;
    return finish(c, &p);
}

// Finds the largest step that divides the divisor, such that all terms that are no multiples of it
// add up to less than the step; moves these terms to [below]. For example i0 in (1000 * i1 + i0) /
// 3000, which is i1 / 3 if i0 < 1000.
static void split_step(IxCtx *c, Parts *rest, int64_t by, Parts *below)
{
    const Parts all = *rest;
    int64_t step = 1;
    for (int i = 0; i < all.n; i++) {
        int64_t g = gcd(all.at[i].coeff, by), low, high;
        if (g <= step || g == by) continue;
        low = high = all.constant - floor_div(all.constant, g) * g;
        Parts large = {.constant = all.constant - low}, small = {.constant = low};
        for (int k = 0; k < all.n; k++) {
            const struct IxPart *p = &all.at[k];
            parts_add(c, p->coeff % g ? &small : &large, p->term, p->coeff);
            if (p->coeff % g == 0) continue;
            low += p->coeff * (p->coeff > 0 ? p->term->low : p->term->high);
            high += p->coeff * (p->coeff > 0 ? p->term->high : p->term->low);
        }
        if (low < 0 || high >= g) continue;
        *rest = large;
        *below = small;
        step = g;
    }
}

const Ix *ix_div(IxCtx *c, const Ix *a, int64_t by)
{
    if (by == 1) return a;
    Parts whole = {.constant = floor_div(a->constant, by)}, rest = {0}, below = {0};
    rest.constant = a->constant - whole.constant * by;
    for (int i = 0; i < a->n; i++)
        if (a->at[i].coeff % by == 0)
            parts_add(c, &whole, a->at[i].term, a->at[i].coeff / by);
        else
            parts_add(c, &rest, a->at[i].term, a->at[i].coeff);
    split_step(c, &rest, by, &below);
    const Ix *r = shrink(c, &rest, &by);
    if (r->low >= 0 && r->high < by) return finish(c, &whole);
    const Ix *q;
    const IxTerm *t = r->n == 1 && r->constant == 0 && r->at[0].coeff == 1 ? r->at[0].term : NULL;
    if (by == 1)
        q = r;
    else if (t && t->kind == IT_DIV)
        q = ix_div(c, t->e, t->by * by);
    else if (t && t->kind == IT_MOD && t->by % by == 0)
        q = ix_mod(c, ix_div(c, t->e, by), t->by / by);
    else
        q = ix_term(c, term(c, (IxTerm){.kind = IT_DIV,
                                        .e = r,
                                        .by = by,
                                        .low = floor_div(r->low, by),
                                        .high = floor_div(r->high, by),
                                        .axes = r->axes}));
    parts_sum(c, &whole, q, 1);
    return finish(c, &whole);
}

const Ix *ix_mod(IxCtx *c, const Ix *a, int64_t by)
{
    if (by == 1) return ix_const(c, 0);
    Parts rest = {.constant = a->constant - floor_div(a->constant, by) * by};
    for (int i = 0; i < a->n; i++) {
        int64_t k = a->at[i].coeff % by;
        parts_add(c, &rest, a->at[i].term, k);
    }
    const Ix *r = intern(c, &rest);
    if (r->low >= 0 && r->high < by) return r;
    int64_t small = by;
    int64_t g, low;
    Parts below = {0};
    split_step(c, &rest, by, &below);
    r = shrink(c, &rest, &small);
    g = by / small;
    low = rest.constant % g;
    const Ix *m;
    const IxTerm *t = r->n == 1 && r->constant == 0 && r->at[0].coeff == 1 ? r->at[0].term : NULL;
    if (small == 1)
        m = ix_const(c, 0);
    else if (r->low >= 0 && r->high < small)
        m = r;
    else if (t && t->kind == IT_MOD && t->by % small == 0)
        m = ix_mod(c, t->e, small);
    else
        m = ix_term(
            c,
            term(c, (IxTerm){
                        .kind = IT_MOD, .e = r, .by = small, .high = small - 1, .axes = r->axes}));
    below.constant += low;
    return ix_add(c, ix_scale(c, m, g), intern(c, &below));
}

const Ix *ix_linear(IxCtx *c, const Ix *const *idx, const int64_t *dim, int rank)
{
    Parts p = {0};
    int64_t stride = 1;
    for (int i = rank; i-- > 0;) {
        parts_sum(c, &p, idx[i], stride);
        stride *= dim[i];
    }
    return finish(c, &p);
}

void ix_delinear(IxCtx *c, const Ix *flat, const int64_t *dim, int rank, const Ix **idx)
{
    int64_t stride = 1;
    for (int i = rank; i-- > 0;) {
        int64_t d = dim[i] > 0 ? dim[i] : 1;
        idx[i] = ix_mod(c, ix_div(c, flat, stride), d);
        stride *= d;
    }
}

bool ix_is_const(const Ix *e, int64_t *v)
{
    *v = e->constant;
    return e->n == 0;
}

bool ix_stride(const Ix *e, int axis, int64_t *stride)
{
    *stride = 0;
    for (int i = 0; i < e->n; i++) {
        const IxTerm *t = e->at[i].term;
        if (!(t->axes >> axis & 1)) continue;
        if (t->kind != IT_AXIS) return false;
        *stride = e->at[i].coeff;
    }
    return true;
}

bool ix_aligned(const Ix *e, int axis, int64_t v)
{
    if (e->constant % v) return false;
    for (int i = 0; i < e->n; i++)
        if (!(e->at[i].term->kind == IT_AXIS && e->at[i].term->id == axis) && e->at[i].coeff % v)
            return false;
    return true;
}

static bool term_run(const IxTerm *t, int axis, int64_t width, int64_t *step)
{
    bool aligned = true;
    *step = 0;
    if (!(t->axes >> axis & 1)) return true;
    if (t->kind == IT_VALUE) return false;
    if (t->kind == IT_AXIS) {
        *step = 1;
        return true;
    }
    if (!ix_run(t->e, axis, width, step, &aligned)) return false;
    if (*step && (!aligned || t->by % width)) return false;
    if (t->kind == IT_DIV) *step = 0;
    return true;
}

bool ix_run(const Ix *e, int axis, int64_t width, int64_t *step, bool *aligned)
{
    int64_t each;
    *step = 0;
    *aligned = e->constant % width == 0;
    for (int i = 0; i < e->n; i++) {
        if (!term_run(e->at[i].term, axis, width, &each)) return false;
        if (!each)
            *aligned &= e->at[i].coeff % width == 0;
        else if (*step || e->at[i].coeff != 1)
            return false;
        else
            *step = 1;
    }
    return true;
}

int64_t ix_at(const Ix *e, const int64_t *at)
{
    int64_t sum = e->constant;
    for (int i = 0; i < e->n; i++) {
        const IxTerm *t = e->at[i].term;
        int64_t v = t->kind == IT_AXIS ? at[t->id] : t->kind == IT_VALUE ? 0 : ix_at(t->e, at);
        int64_t rest = t->by ? (v % t->by + t->by) % t->by : 0;
        if (t->kind == IT_DIV) v = (v - rest) / t->by;
        if (t->kind == IT_MOD) v = rest;
        sum += e->at[i].coeff * v;
    }
    return sum;
}

bool ix_vectors(const Ix *e, int axis, int64_t width)
{
    int64_t step;
    bool aligned;
    return ix_run(e, axis, width, &step, &aligned) && step == 1 && aligned;
}

bool ix_mergeable(const Ix *e, int hi, int lo, int64_t extent)
{
    uint64_t both = 1ull << hi | 1ull << lo;
    int64_t khi = 0, klo = 0;
    for (int i = 0; i < e->n; i++) {
        const IxTerm *t = e->at[i].term;
        if (!(t->axes & both)) continue;
        if (t->kind == IT_AXIS)
            *(t->id == hi ? &khi : &klo) = e->at[i].coeff;
        else if (t->kind != IT_VALUE && !ix_mergeable(t->e, hi, lo, extent))
            return false; // (expressions inside of a computed value are checked separately)
    }
    return khi == klo * extent;
}
