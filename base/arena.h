// One arena per compilation: everything that a compile stage allocates lives in it and is freed at
// once. When memory runs out, arenas longjmp to the handler set by arena_on_oom, so no compile
// stage checks for NULL and the library never aborts.
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;

Arena *arena_new(void); // NULL when out of memory
void arena_free(Arena *a);
// [handler] receives 1 when an allocation fails; it must outlive every allocation made under it.
void arena_on_oom(Arena *a, jmp_buf *handler);
// Jumps to that handler; for code that runs out of memory outside the arena.
_Noreturn void arena_exhausted(Arena *a);
size_t arena_bytes(const Arena *a); // bytes handed out so far
// A sub-arena of [whole] for memory that can be released earlier. It is freed with [whole] and uses
// its handler. (A sub-arena of a sub-arena becomes another sub-arena of the outer one.)
Arena *arena_inside(Arena *whole);
// Releases everything allocated in a sub-arena; later sub-arenas of the same arena reuse the
// memory.
void arena_empty(Arena *a);

void *arena_alloc(Arena *a, size_t bytes);          // zeroed, 16-byte aligned, never NULL
void *arena_array(Arena *a, size_t n, size_t size); // n * size bytes; checks for overflow
// Like arena_alloc, but returns NULL when out of memory: for callers with resources that a longjmp
// would leak.
void *arena_try(Arena *a, size_t bytes);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

#define NEW(a, T)          ((T *)arena_alloc((a), sizeof(T)))
#define NEW_ARRAY(a, T, n) ((T *)arena_array((a), (size_t)(n), sizeof(T)))

// Growing arrays: VEC(int) v = {0}; vec_push(arena, &v, 7); v.at[0]; v.n.
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *at;                                                                                     \
        uint32_t n, cap;                                                                           \
    }
#define vec_push(a, v, ...)                                                                        \
    (((v)->n == (v)->cap                                                                           \
          ? (void)((v)->at = vec_grow_((a), (v)->at, (v)->n, &(v)->cap, sizeof *(v)->at))          \
          : (void)0),                                                                              \
     (v)->at[(v)->n++] = (__VA_ARGS__))
void *vec_grow_(Arena *a, void *at, uint32_t n, uint32_t *cap, size_t size);

#endif
