// Bump allocation in chunks whose size doubles up to a bound; a larger request gets a chunk of its
// own. The largest chunks are mapped with all their pages present: a graph of many layers fills
// hundreds of megabytes, and a page fault for every 4 KB would cost more than clearing them. (Huge
// pages are the cheapest, except where a virtual machine returns freed ones to its host: each new
// one then costs 30 times as much.)
#include "base/arena.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/plain.h"

enum { FIRST_CHUNK = 64 << 10, LARGEST_CHUNK = 2 << 20, ALIGN = 16 };

typedef struct Chunk {
    struct Chunk *next;
    size_t size; // of the whole chunk
    _Alignas(16) unsigned char data[];
} Chunk;

struct Arena {
    Chunk *chunks;
    unsigned char *at, *end;
    size_t next_chunk, bytes;
    jmp_buf *oom;
    Arena *whole;           // the arena that contains it, or NULL
    Arena *inside, *beside; // the first sub-arena; the next sub-arena of the same arena
    Chunk *spare;           // zeroed chunks for sub-arenas
};

Arena *arena_new(void)
{
    Arena *a = calloc(1, sizeof *a);
    if (a) a->next_chunk = FIRST_CHUNK;
    return a;
}

static void free_chunks(Chunk *c)
{
    for (Chunk *next; c; c = next) {
        next = c->next;
        if (c->size == LARGEST_CHUNK)
            munmap(c, c->size);
        else
            free(c);
    }
}

void arena_free(Arena *a)
{
    if (!a) return;
    for (Arena *i = a->inside; i; i = i->beside) free_chunks(i->chunks);
    free_chunks(a->spare);
    free_chunks(a->chunks); // (contains the sub-arenas)
    free(a);
}

Arena *arena_inside(Arena *whole)
{
    if (whole->whole) whole = whole->whole;
    Arena *a = arena_alloc(whole, sizeof *a);
    a->next_chunk = FIRST_CHUNK;
    a->whole = whole;
    a->beside = whole->inside;
    return whole->inside = a;
}

void arena_empty(Arena *a)
{
    for (Chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        // Clears what was used; the rest is zero. Only in the newest chunk is it known how much was
        // used.
        unsigned char *used = c == a->chunks ? a->at : (unsigned char *)c + c->size;
        memset(c->data, 0, (size_t)(used - c->data));
        c->next = a->whole->spare;
        a->whole->spare = c;
    }
    a->chunks = NULL;
    a->at = a->end = NULL;
    a->next_chunk = FIRST_CHUNK;
}

void arena_on_oom(Arena *a, jmp_buf *handler)
{
    a->oom = handler;
}

size_t arena_bytes(const Arena *a)
{
    return a->bytes;
}

void arena_exhausted(Arena *a)
{
    if (a->whole) a = a->whole;
    if (a->oom) longjmp(*a->oom, 1);
    // An arena without a handler is a programming error of the caller, which cannot be handled.
    abort();
}

// Zeroed; NULL when out of memory.
static Chunk *chunk_new(size_t size)
{
    enum { KIND = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE };
    if (size != LARGEST_CHUNK) return calloc(1, size);
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, KIND, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

// A chunk of at least that size that a sub-arena has released, or NULL.
static Chunk *take_spare(Arena *whole, size_t least)
{
    for (Chunk **at = &whole->spare; *at; at = &(*at)->next) {
        Chunk *c = *at;
        if (c->size < least) continue;
        *at = c->next;
        return c;
    }
    return NULL;
}

static bool new_chunk(Arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX - sizeof(Chunk)) return false;
    size_t least = sizeof(Chunk) + bytes, size = least > a->next_chunk ? least : a->next_chunk;
    Chunk *c = a->whole ? take_spare(a->whole, least) : NULL;
    if (c)
        size = c->size;
    else if (!(c = chunk_new(size)))
        return false;
    c->size = size;
    c->next = a->chunks;
    a->chunks = c;
    a->at = c->data;
    a->end = (unsigned char *)c + size;
    if (a->next_chunk < LARGEST_CHUNK) a->next_chunk *= 2;
    return true;
}

void *arena_try(Arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX - ALIGN) return NULL;
    bytes = bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if (bytes > (size_t)(a->end - a->at) && !new_chunk(a, bytes)) return NULL;
    void *p = a->at;
    a->at += bytes;
    a->bytes += bytes;
    return p;
}

void *arena_alloc(Arena *a, size_t bytes)
{
    void *p = arena_try(a, bytes);
    if (!p) arena_exhausted(a);
    return p;
}

void *arena_array(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) arena_exhausted(a);
    return arena_alloc(a, bytes);
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(Arena *a, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    char few[256];
    int n = plain_vformat(few, sizeof few, fmt, args);
    char *p = arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
    if (n >= (int)sizeof few)
        plain_vformat(p, (size_t)n + 1, fmt, again);
    else if (n > 0)
        memcpy(p, few, (size_t)n);
    va_end(again);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *p = arena_vprintf(a, fmt, args);
    va_end(args);
    return p;
}

void *vec_grow_(Arena *a, void *at, uint32_t n, uint32_t *cap, size_t size)
{
    if (*cap > UINT32_MAX / 2) arena_exhausted(a);
    *cap = *cap ? *cap * 2 : 8;
    void *bigger = arena_array(a, *cap, size);
    if (n) memcpy(bigger, at, n * size);
    return bigger;
}
