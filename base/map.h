// Hash maps in an arena: string -> pointer, and 64-bit key -> 64-bit value. Insertion order is
// kept.
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>

#include "base/arena.h"

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
uint64_t hash_str(const char *s);
static inline uint64_t hash_mix(uint64_t a, uint64_t b) // combines two hashes, order matters
{
    uint64_t h = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2));
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    return h;
}

typedef struct StrMap {
    Arena *arena;
    struct StrEntry {
        const char *key;
        void *value;
        uint64_t hash;
    } * entry; // entry[0..n) in insertion order
    uint32_t n, entry_cap, *slot, slot_cap;
} StrMap;

StrMap strmap_new(Arena *a);
void *strmap_get(const StrMap *m, const char *key);                       // NULL when absent
void *strmap_get_hashed(const StrMap *m, const char *key, uint64_t hash); // hash: hash_str(key)
bool strmap_has(const StrMap *m, const char *key);
void strmap_set(StrMap *m, const char *key, void *value); // inserts or replaces; key is not copied

typedef struct IdMap {
    Arena *arena;
    struct IdSlot {
        uint64_t key, value;
        bool used;
    } * slot;
    uint32_t n, cap;
} IdMap;

IdMap idmap_new(Arena *a);
bool idmap_get(const IdMap *m, uint64_t key, uint64_t *value); // value may be NULL
void idmap_set(IdMap *m, uint64_t key, uint64_t value);

#endif
