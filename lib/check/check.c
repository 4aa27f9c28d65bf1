// netc_check: compares gradients with finite differences and kernels with the evaluator.
#include "lib/check/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/synthetic.h"

// LARGER: factor of the values of ROUND_MOVED. For ROUND_UNEVEN: SMALL is the smallest factor, and
// LARGE and LARGEST are exponents of the smallest and largest powers of two in rows of mixed sizes.
enum { LARGER = 4, LARGE = 4, LARGEST = 12, BEHIND = 256 };
#define SMALL 0x1p-6

Module *checking_try(Checking *c, const char *define, Diags **d)
{
    *d = diags_new(c->arena);
    FrontendOptions fo = lib_frontend_options(c->p, c->arena, define, "");
    Module *m = frontend_compile(c->arena, *d, c->p->name, c->p->text, c->p->len, &fo);
    return (*d)->errors ? NULL : m;
}

Module *checking_module(Checking *c, const char *define, Diags **d)
{
    Module *m = checking_try(c, define, d);
    if (m) return m;
    c->status = lib_fail_diags(c->err, NETC_INVALID, *d);
    return NULL;
}

// Factor of element i. Uneven data has three kinds of rows: small ones, in which a sum's initial
// value would be visible; plain ones; and rows of mixed sizes, in which each power of two is half
// as frequent as the one before, so that the largest element is far from the next. Every fourth
// column is small, too.
static double factor(const Type *t, CheckRound round, int64_t i)
{
    if (round == ROUND_FIRST) return 1;
    if (round == ROUND_MOVED) return LARGER;
    int64_t columns = t->rank && t->dim[t->rank - 1] ? t->dim[t->rank - 1] : 1;
    int64_t column = i % columns, row = i / columns % 3;
    if (row == 1 || column % 4 == 1) return SMALL;
    if (row == 2 || round == ROUND_SMALL) return 1;
    int size = LARGE;
    for (uint64_t h = hash_mix((uint64_t)i, 0); h & 1 && size < LARGEST; h >>= 1) size++;
    return ldexp(1, size);
}

void *checking_data(Checking *c, const Node *n, const Type *t, CheckRound round)
{
    ProgInput in = {.name = attr_str(n, ATTR_name),
                    .has_range = attr_find(n, ATTR_high_bound) != NULL,
                    .low = attr_int(n, ATTR_low_bound, 0),
                    .high = attr_int(n, ATTR_high_bound, 0)};
    in.type.dtype = (ProgDType)t->dtype;
    in.type.rank = t->rank;
    memcpy(in.type.dim, t->dim, sizeof in.type.dim);
    // (bytes after the end, which a device would read without an error, are NaN)
    void *bytes = arena_alloc(c->arena, (size_t)type_bytes(t) + BEHIND);
    memset((char *)bytes + type_bytes(t), 0xff, BEHIND);
    synthetic_fill(&in, c->seed + round, bytes);
    for (int64_t i = 0; round && dtype_is_float(t->dtype) && i < type_count(t); i++) {
        char *at = (char *)bytes + i * prog_dtype_bytes(in.type.dtype);
        prog_store(in.type.dtype, at, factor(t, round, i) * prog_load(in.type.dtype, at));
    }
    return bytes;
}

Value *checking_input(Checking *c, const Node *n)
{
    Value *v = NEW(c->arena, Value);
    *v = value_new(c->arena, &n->type);
    value_from_bytes(v, checking_data(c, n, &n->type, ROUND_FIRST));
    return v;
}

const char checking_made_up[] =
    "\n  (the data are made up, within the ranges that inputs declare, as in 'x: i32[n] in 0..10'; "
    "--seed N makes up others)";

// Warns about gradients that finite differences could not decide: nothing was found to differ in
// them, but a mistake might not be noticed.
static void warn_kinks(Checking *c)
{
    static const char what[] = "at a kink (of max, abs or a comparison) finite differences say "
                               "nothing. Check at another point: --seed N, other sizes or initial "
                               "values.\n";
    if (c->none)
        buf_printf(c->out, "WARNING: %d gradient%s could not be compared at all: %s", c->none,
                   c->none == 1 ? "" : "s", what);
    if (c->partly)
        buf_printf(c->out, "WARNING: %d gradient%s could be compared only in part: %s", c->partly,
                   c->partly == 1 ? "" : "s", what);
}

static void check(void *arg)
{
    Checking *c = arg;
    const Module *plain = check_module(c);
    if (plain) check_all_gradients(c);
    if (c->status == NETC_OK) check_all_kernels(c, plain);
    if (c->status == NETC_OK) warn_kinks(c);
}

netc_status netc_check(netc_program *p, const char *device, int64_t seed, char **report,
                       netc_error **err)
{
    Checking c = {
        .p = p, .device = device, .seed = seed, .arena = arena_new(), .err = err, .ok = true};
    *report = NULL;
    if (!c.arena) return OUT_OF_MEMORY(err);
    Buf out = {0};
    jmp_buf oom;
    if (!setjmp(oom)) {
        arena_on_oom(c.arena, &oom);
        out = buf_new(c.arena);
        c.out = &out;
        check(&c);
        if (c.status == NETC_OK) *report = strdup(out.data);
    } else {
        c.status = OUT_OF_MEMORY(err);
    }
    arena_free(c.arena);
    if (c.status != NETC_OK) return c.status;
    if (!*report) return OUT_OF_MEMORY(err);
    return c.ok ? NETC_OK
                : lib_fail(err, NETC_CHECK_FAILED, "%s: something differs; the report says what",
                           p->name);
}
