// Attributes: small sorted sets of key and value.
#include <string.h>

#include "ir/door.h"

// The slot of key k, inserted in sorted order if absent; NULL if the set is full, which the
// constructor of nodes then reports.
static AttrValue *slot(Attrs *a, AttrKey k)
{
    int i = 0;
    while (i < a->n && a->at[i].key < k) i++;
    if (i == a->n || a->at[i].key != k) {
        if (a->n == (int)(sizeof a->at / sizeof a->at[0])) return NULL;
        memmove(a->at + i + 1, a->at + i, (size_t)(a->n - i) * sizeof a->at[0]);
        a->n++;
    }
    a->at[i] = (AttrValue){.key = k};
    return &a->at[i];
}

void attr_set_int(Attrs *a, AttrKey k, int64_t v)
{
    AttrValue *s = slot(a, k);
    if (s) s->i = v;
}

void attr_set_float(Attrs *a, AttrKey k, double v)
{
    AttrValue *s = slot(a, k);
    if (s) s->f = v == v ? v : __builtin_nan(""); // one NaN, so that equal sets have equal bits
}

void attr_set_str(Graph *g, Attrs *a, AttrKey k, const char *v)
{
    AttrValue *s = slot(a, k);
    if (s) s->s = arena_strdup(g->arena, v);
}

void attr_set_ints(Graph *g, Attrs *a, AttrKey k, const int64_t *v, int n)
{
    AttrValue *s = slot(a, k);
    if (!s) return;
    int64_t *copy = NEW_ARRAY(g->arena, int64_t, n ? n : 1);
    if (n) memcpy(copy, v, (size_t)n * sizeof *v);
    s->n = n;
    s->ints = copy;
}

Attrs attrs_copy(const Attrs *a)
{
    Attrs copy = {.n = a->n};
    memcpy(copy.at, a->at, (size_t)a->n * sizeof *a->at);
    return copy;
}

void attr_remove(Attrs *a, AttrKey k)
{
    int kept = 0;
    for (int i = 0; i < a->n; i++)
        if (a->at[i].key != k) a->at[kept++] = a->at[i];
    a->n = kept;
}

const AttrValue *attrs_find(const Attrs *a, AttrKey k)
{
    for (int i = 0; i < a->n; i++)
        if (a->at[i].key == k) return &a->at[i];
    return NULL;
}

int64_t attrs_int(const Attrs *a, AttrKey k, int64_t otherwise)
{
    const AttrValue *v = attrs_find(a, k);
    return v ? v->i : otherwise;
}

const int64_t *attrs_ints(const Attrs *a, AttrKey k, int *count)
{
    const AttrValue *v = attrs_find(a, k);
    if (count) *count = v ? v->n : 0;
    return v ? v->ints : NULL;
}

static bool value_equal(const AttrValue *a, const AttrValue *b)
{
    if (a->key != b->key) return false;
    switch (attr_kind(a->key)) {
    case AK_INT:
    case AK_DTYPE:
    case AK_FLOAT: return a->i == b->i; // floats are compared by their bits
    case AK_STR: return !strcmp(a->s, b->s);
    case AK_INTS: return a->n == b->n && !memcmp(a->ints, b->ints, (size_t)a->n * sizeof *a->ints);
    }
    return false;
}

bool attrs_equal(const Attrs *a, const Attrs *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (!value_equal(&a->at[i], &b->at[i])) return false;
    return true;
}

uint64_t attrs_hash(const Attrs *a, uint64_t seed)
{
    for (int i = 0; i < a->n; i++) {
        const AttrValue *v = &a->at[i];
        seed = hash_mix(seed, v->key);
        switch (attr_kind(v->key)) {
        case AK_INT:
        case AK_DTYPE:
        case AK_FLOAT: seed = hash_mix(seed, (uint64_t)v->i); break;
        case AK_STR: seed = hash_mix(seed, hash_str(v->s)); break;
        case AK_INTS: seed = hash_bytes(v->ints, (size_t)v->n * sizeof *v->ints, seed); break;
        }
    }
    return seed;
}

const AttrValue *attr_find(const Node *n, AttrKey k)
{
    return attrs_find(n->attrs, k);
}

int64_t attr_int(const Node *n, AttrKey k, int64_t otherwise)
{
    return attrs_int(n->attrs, k, otherwise);
}

double attr_float(const Node *n, AttrKey k, double otherwise)
{
    const AttrValue *v = attrs_find(n->attrs, k);
    return v ? v->f : otherwise;
}

const char *attr_str(const Node *n, AttrKey k)
{
    const AttrValue *v = attrs_find(n->attrs, k);
    return v ? v->s : NULL;
}

const int64_t *attr_ints(const Node *n, AttrKey k, int *count)
{
    return attrs_ints(n->attrs, k, count);
}
