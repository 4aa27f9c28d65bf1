// Open addressing with linear probing; tables grow at two thirds full.
#include "base/map.h"

#include <string.h>

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
    const unsigned char *s = p;
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    for (; n >= 8; s += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = hash_mix(h, w);
    }
    uint64_t tail = n;
    for (size_t i = 0; i < n; i++) tail |= (uint64_t)s[i] << (8 * (i + 1));
    return hash_mix(h, tail);
}

uint64_t hash_str(const char *s)
{
    return hash_bytes(s, strlen(s), 0);
}

StrMap strmap_new(Arena *a)
{
    StrMap m = {.arena = a};
    return m;
}

static uint32_t str_find(const StrMap *m, const char *key, uint64_t hash)
{
    uint32_t mask = m->slot_cap - 1, i = (uint32_t)hash & mask;
    for (; m->slot[i]; i = (i + 1) & mask) {
        const struct StrEntry *e = &m->entry[m->slot[i] - 1];
        if (e->hash == hash && !strcmp(e->key, key)) break;
    }
    return i;
}

void *strmap_get_hashed(const StrMap *m, const char *key, uint64_t hash)
{
    if (!m->n) return NULL;
    uint32_t at = m->slot[str_find(m, key, hash)];
    return at ? m->entry[at - 1].value : NULL;
}

void *strmap_get(const StrMap *m, const char *key)
{
    return m->n ? strmap_get_hashed(m, key, hash_str(key)) : NULL;
}

bool strmap_has(const StrMap *m, const char *key)
{
    return m->n && m->slot[str_find(m, key, hash_str(key))];
}

void strmap_set(StrMap *m, const char *key, void *value)
{
    uint64_t hash = hash_str(key);
    if ((m->n + 1) * 3 > m->slot_cap * 2) {
        m->slot_cap = m->slot_cap ? m->slot_cap * 2 : 16;
        m->slot = NEW_ARRAY(m->arena, uint32_t, m->slot_cap);
        for (uint32_t k = 0; k < m->n; k++) {
            uint32_t i = (uint32_t)m->entry[k].hash & (m->slot_cap - 1);
            while (m->slot[i]) i = (i + 1) & (m->slot_cap - 1);
            m->slot[i] = k + 1;
        }
    }
    uint32_t i = str_find(m, key, hash);
    if (m->slot[i]) {
        m->entry[m->slot[i] - 1].value = value;
        return;
    }
    if (m->n == m->entry_cap)
        m->entry = vec_grow_(m->arena, m->entry, m->n, &m->entry_cap, sizeof *m->entry);
    m->entry[m->n] = (struct StrEntry){key, value, hash};
    m->slot[i] = ++m->n;
}

IdMap idmap_new(Arena *a)
{
    IdMap m = {.arena = a};
    return m;
}

static uint32_t id_find(const IdMap *m, uint64_t key)
{
    uint32_t mask = m->cap - 1, i = (uint32_t)hash_mix(key, 1) & mask;
    while (m->slot[i].used && m->slot[i].key != key) i = (i + 1) & mask;
    return i;
}

bool idmap_get(const IdMap *m, uint64_t key, uint64_t *value)
{
    if (!m->n) return false;
    const struct IdSlot *s = &m->slot[id_find(m, key)];
    if (s->used && value) *value = s->value;
    return s->used;
}

void idmap_set(IdMap *m, uint64_t key, uint64_t value)
{
    if ((m->n + 1) * 3 > m->cap * 2) {
        struct IdSlot *old = m->slot;
        uint32_t n = m->cap;
        m->cap = n ? n * 2 : 16;
        m->slot = NEW_ARRAY(m->arena, struct IdSlot, m->cap);
        for (uint32_t k = 0; k < n; k++)
            if (old[k].used) m->slot[id_find(m, old[k].key)] = old[k];
    }
    struct IdSlot *s = &m->slot[id_find(m, key)];
    if (!s->used) m->n++;
    *s = (struct IdSlot){key, value, true};
}
