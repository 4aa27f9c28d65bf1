// The differences between two builds: kernels that appeared, disappeared or changed, and the sizes
// of their plans.
//
// A kernel's name ends in eight digits of its identity. Equal names mean equal code. Names that
// differ only in these digits, and library calls of another shape, mean the same place with other
// code.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/inspect/inspect.h"

typedef enum Change { GONE, NEW_HERE, CHANGED, RESCHEDULED, EQUAL } Change;
static const char *const change_name[] = {"removed", "added", "changed", "rescheduled", "same"};

typedef struct Pair {
    Change change;
    const Item *a, *b; // NULL: only in the other program
} Pair;

typedef VEC(Pair) Pairs;

static size_t stem(const char *name)
{
    size_t n = strlen(name);
    bool digits = n > 9 && name[n - 9] == '_' && strspn(name + n - 8, "0123456789abcdef") == 8;
    return digits ? n - 9 : n;
}

static bool same_stem(const Item *a, const Item *b)
{
    size_t n = stem(a->name);
    return a->step->kind == b->step->kind && n == stem(b->name) && !strncmp(a->name, b->name, n);
}

static bool equal(const Item *a, const Item *b)
{
    return !strcmp(a->types, b->types) && a->cost.bytes == b->cost.bytes &&
           a->cost.flops == b->cost.flops && a->calls == b->calls;
}

static Change judge(const Item *a, const Item *b)
{
    if (strcmp(a->name, b->name) || !equal(a, b)) return CHANGED;
    if (a->k && b->k &&
        (strcmp(a->schedule, b->schedule) || a->blocks != b->blocks ||
         memcmp(a->k->block, b->k->block, sizeof a->k->block) || a->k->cluster != b->k->cluster))
        return RESCHEDULED;
    return EQUAL;
}

// Matches items by full name, in order, then the others by their names without digits.
static Pairs match(Arena *arena, const Items *a, const Items *b)
{
    Pairs out = {0};
    int *of_a = NEW_ARRAY(arena, int, a->n + 1);
    bool *used = NEW_ARRAY(arena, bool, b->n + 1);
    for (int i = 0; i < a->n; i++) of_a[i] = -1;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < a->n; i++)
            for (int k = 0; k < b->n && of_a[i] < 0; k++) {
                const Item *x = &a->at[i], *y = &b->at[k];
                bool same = round ? same_stem(x, y)
                                  : x->step->kind == y->step->kind && !strcmp(x->name, y->name);
                if (!used[k] && same) of_a[i] = k, used[k] = true;
            }
    for (int i = 0; i < a->n; i++) {
        const Item *y = of_a[i] >= 0 ? &b->at[of_a[i]] : NULL;
        Pair p = {y ? judge(&a->at[i], y) : GONE, &a->at[i], y};
        vec_push(arena, &out, p);
    }
    for (int k = 0; k < b->n; k++) {
        Pair p = {NEW_HERE, NULL, &b->at[k]};
        if (!used[k]) vec_push(arena, &out, p);
    }
    return out;
}

static void number(Buf *out, const char *what, int64_t a, int64_t b)
{
    if (a != b) buf_printf(out, "; %s %" PRId64 " -> %" PRId64, what, a, b);
}

static void pair_text(const Pair *p, Buf *out)
{
    const Item *x = p->a ? p->a : p->b;
    buf_printf(out, "  %-11s %s  %s", change_name[p->change], p->b ? p->b->name : x->name, x->line);
    if (!p->a || !p->b) {
        buf_printf(out, "; bytes %" PRId64 ", flops %" PRId64 ", floor %.2f us\n", x->cost.bytes,
                   x->cost.flops, x->cost.floor * 1e6);
        return;
    }
    if (strcmp(p->a->name, p->b->name)) buf_printf(out, " (was %s)", p->a->name);
    if (strcmp(p->a->types, p->b->types))
        buf_printf(out, "; types %s, were %s", p->b->types, p->a->types);
    number(out, "calls", p->a->calls, p->b->calls);
    number(out, "bytes", p->a->cost.bytes, p->b->cost.bytes);
    number(out, "flops", p->a->cost.flops, p->b->cost.flops);
    number(out, "registers", p->a->info.registers, p->b->info.registers);
    number(out, "blocks", p->a->blocks, p->b->blocks);
    if (strcmp(p->a->schedule, p->b->schedule))
        buf_printf(out, "; schedule '%s' -> '%s'", p->a->schedule, p->b->schedule);
    buf_char(out, '\n');
}

static void pair_json(const Pair *p, Json *j)
{
    json_object(j);
    json_key(j, "change"), json_string(j, change_name[p->change]);
    for (int side = 0; side < 2; side++) {
        const Item *x = side ? p->b : p->a;
        if (!x) continue;
        json_key(j, side ? "second" : "first"), json_object(j);
        json_key(j, "name"), json_string(j, x->name);
        json_key(j, "line"), json_string(j, x->line);
        json_key(j, "calls"), json_int(j, x->calls);
        json_key(j, "bytes"), json_int(j, x->cost.bytes);
        json_key(j, "flops"), json_int(j, x->cost.flops);
        json_key(j, "schedule"), json_string(j, x->schedule);
        json_key(j, "types"), json_string(j, x->types);
        json_end(j);
    }
    json_end(j);
}

static void entry(const Inspect *v, const Items *a, const Items *b, Json *j, Buf *out)
{
    Pairs pairs = match(v->arena, a, b);
    int count[EQUAL + 1] = {0};
    for (uint32_t i = 0; i < pairs.n; i++) count[pairs.at[i].change]++;
    if (v->o->json) {
        json_object(j);
        json_key(j, "name"), json_string(j, a->e->name);
        for (int i = 0; i <= EQUAL; i++) json_key(j, change_name[i]), json_int(j, count[i]);
        for (int side = 0; side < 2; side++) {
            const Items *t = side ? b : a;
            json_key(j, side ? "second" : "first"), json_object(j);
            json_key(j, "calls"), json_int(j, t->calls);
            json_key(j, "bytes"), json_int(j, t->bytes);
            json_key(j, "flops"), json_int(j, t->flops);
            json_key(j, "floor_seconds"), json_double(j, t->floor);
            json_key(j, "arena_bytes"), json_int(j, t->e->arena_bytes);
            json_end(j);
        }
        json_key(j, "steps"), json_array(j);
    } else {
        buf_printf(out,
                   "entry %s: calls %" PRId64 " -> %" PRId64 ", bytes %" PRId64 " -> %" PRId64
                   ", flops %" PRId64 " -> %" PRId64 ", floor %.2f -> %.2f us, temporaries %" PRId64
                   " -> %" PRId64 " bytes\n",
                   a->e->name, a->calls, b->calls, a->bytes, b->bytes, a->flops, b->flops,
                   a->floor * 1e6, b->floor * 1e6, a->e->arena_bytes, b->e->arena_bytes);
    }
    for (int change = 0; change < EQUAL; change++)
        for (uint32_t i = 0; i < pairs.n; i++) {
            if ((int)pairs.at[i].change != change) continue;
            if (v->o->json)
                pair_json(&pairs.at[i], j);
            else
                pair_text(&pairs.at[i], out);
        }
    if (v->o->json)
        json_end(j), json_end(j);
    else
        buf_printf(out, "  %d the same\n", count[EQUAL]);
}

// Whether the two are builds of one model: they share parameters or, if there are none, kernels.
static bool related(const Program *a, const Program *b)
{
    bool params = false;
    for (int i = 0; i < a->ncells; i++)
        for (int k = 0; k < b->ncells; k++) {
            if (a->cells[i].kind != PC_PARAM || b->cells[k].kind != PC_PARAM) continue;
            if (!strcmp(a->cells[i].name, b->cells[k].name)) return true;
            params = true;
        }
    for (int i = 0; i < a->nkernels && !params; i++)
        for (int k = 0; k < b->nkernels; k++)
            if (a->kernels[i].identity == b->kernels[k].identity) return true;
    return false;
}

static const char *file_of(const netc_program *p)
{
    return p->embedded ? p->embedded->path : p->name;
}

netc_status inspect_compare(const Inspect *v, Buf *out)
{
    const Program *p = v->b->program, *q = v->other->program;
    if (!related(p, q))
        return lib_fail(v->err, NETC_INVALID,
                        "%s and %s are different models: they share no parameter", file_of(v->p),
                        file_of(v->o->other));
    Json j = json_writer(out);
    if (v->o->json) {
        json_object(&j);
        json_key(&j, "target"), json_string(&j, p->target);
        json_key(&j, "entries"), json_array(&j);
    } else {
        buf_printf(out, "%s -> %s, for %s\n", file_of(v->p), file_of(v->o->other), v->note);
    }
    for (int i = 0; i < p->nentries; i++) {
        if (!inspect_shows(v, p->entries[i].name)) continue;
        const ProgEntry *e = program_entry(q, p->entries[i].name);
        if (!e) {
            if (!v->o->json) buf_printf(out, "entry %s: removed\n", p->entries[i].name);
            continue;
        }
        Items a = items_of(v->arena, v->b, &p->entries[i]), b = items_of(v->arena, v->other, e);
        entry(v, &a, &b, &j, out);
    }
    for (int i = 0; i < q->nentries; i++)
        if (!v->o->json && !v->o->entry && !program_entry(p, q->entries[i].name))
            buf_printf(out, "entry %s: added\n", q->entries[i].name);
    if (v->o->json) json_end(&j), json_end(&j), buf_char(out, '\n');
    return NETC_OK;
}
