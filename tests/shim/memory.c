// Device memory with a shadow: what is allocated, what was written, which thread read and wrote a
// word last. The compiler's thread sanitizer calls the hooks below before every access.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/shim/late.h"
#include "tests/shim/shim.h"

enum { RED = 512, ALIGN = 512 }; // bytes nobody owns around an allocation

// Four bytes of memory. A mask has a bit a byte.
typedef struct Word {
    uint32_t writer, written; // thread and time
    uint32_t reader[2], read[2];
    uint32_t life; // shared memory: of the block that used it
    uint32_t valid : 4, owned : 4, wmask : 4, rmask0 : 4, rmask1 : 4; // masks
    uint32_t coming : 1, leaving : 1; // a copy has yet to write it, to read it
} Word;

typedef struct Range {
    size_t at, bytes, room;
    int device;
    struct Range *next;
} Range;

typedef struct Memory {
    char *base;
    size_t bytes, used;
    Word *shadow;
    Range *list;           // allocations in order of place
    uintptr_t known[1024]; // pages of the host's that are there while [code] runs, by their hash
    const Code *code;
    size_t dynamic;
    char *const *slot;
    int ranks;
    Word *shared; // [ranks][words of code->vars]
    size_t shared_words;
    uintptr_t vars; // code->vars, of whose bytes the first [inside] are there for any launch
    size_t words, inside;
} Memory;

static Memory mem;
unsigned long long shim_accesses;

static bool reserve(void)
{
    if (mem.base) return true;
    size_t bytes = (size_t)1 << 30;
    const char *text = getenv("SHIM_MEMORY");
    if (text) bytes = (size_t)strtoull(text, NULL, 10) / 4096 * 4096;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    void *shadow = mmap(NULL, bytes / 4 * sizeof(Word), PROT_READ | PROT_WRITE, flags, -1, 0);
    if (base == MAP_FAILED || shadow == MAP_FAILED) return false;
    mem.base = base;
    mem.bytes = bytes;
    mem.shadow = shadow;
    return true;
}

size_t shim_memory_used(void)
{
    return mem.used;
}

size_t shim_memory_total(void)
{
    return reserve() ? mem.bytes : 0;
}

static void own(size_t at, size_t bytes, bool yes)
{
    if (!yes) memset(&mem.shadow[at / 4], 0, (bytes + 3) / 4 * sizeof(Word));
    for (size_t i = 0; i < bytes && yes; i += 4) {
        size_t left = bytes - i;
        mem.shadow[(at + i) / 4] = (Word){.owned = left >= 4 ? 15 : (1u << left) - 1};
    }
}

CuResult shim_alloc(CuPtr *p, size_t bytes)
{
    if (!reserve()) return CU_OUT_OF_MEMORY;
    size_t room = (bytes + 2 * RED + ALIGN - 1) / ALIGN * ALIGN, at = 0;
    if (room < bytes) return CU_OUT_OF_MEMORY;
    Range **link = &mem.list;
    while (*link && (*link)->at - at < room) {
        at = (*link)->at + (*link)->room;
        link = &(*link)->next;
    }
    if (at + room > mem.bytes) return CU_OUT_OF_MEMORY;
    Range *r = malloc(sizeof *r);
    if (!r) return CU_OUT_OF_MEMORY;
    *r = (Range){at, bytes, room, shim_device(), *link};
    *link = r;
    mem.used += room;
    memset(mem.base + at, 0xff, room); // NaN, should it be read
    own(at + RED, bytes, true);
    *p = (CuPtr)(uintptr_t)(mem.base + at + RED);
    return CU_OK;
}

CuResult shim_release(CuPtr p)
{
    for (Range **link = &mem.list; *link; link = &(*link)->next) {
        Range *r = *link;
        if (p != (CuPtr)(uintptr_t)(mem.base + r->at + RED)) continue;
        own(r->at + RED, r->bytes, false);
        mem.used -= r->room;
        *link = r->next;
        free(r);
        return CU_OK;
    }
    return 1; // invalid value
}

int shim_holder(const void *p)
{
    for (Range *r = mem.list; r; r = r->next)
        if ((size_t)((const char *)p - mem.base) - r->at < r->room) return r->device;
    return -1;
}

bool shim_allocation(const void *p, CuPtr *start, size_t *bytes)
{
    for (Range *r = mem.list; r; r = r->next) {
        size_t at = (size_t)((const char *)p - mem.base) - r->at - RED;
        if (at >= r->bytes) continue;
        *start = (CuPtr)(uintptr_t)(mem.base + r->at + RED);
        *bytes = r->bytes;
        return true;
    }
    return false;
}

static bool on_device(const void *p)
{
    return mem.base && (uintptr_t)p - (uintptr_t)mem.base < mem.bytes;
}

static Word *word_at(const void *p)
{
    return &mem.shadow[((uintptr_t)p - (uintptr_t)mem.base) / 4];
}

static unsigned mask_of(uintptr_t p, size_t left)
{
    unsigned from = p & 3, n = left < 4 - from ? (unsigned)left : 4 - from;
    return ((1u << n) - 1) << from;
}

// Writes to a word by a kernel that is not run here, or by a copy: no thread of another races with
// it.
static void written(Word *w, unsigned mask)
{
    w->valid |= mask;
    w->wmask |= mask;
    w->writer = 0;
    w->written = shim_actor.now;
}

bool shim_touch(const void *p, size_t bytes, bool write)
{
    if (!bytes) return true;
    if (!on_device(p) || !on_device((const char *)p + bytes - 1)) return false;
    unsigned bad = 0;
    Word *w = word_at(p);
    for (uintptr_t a = (uintptr_t)p, end = a + bytes; a < end; a = (a | 3) + 1, w++) {
        unsigned m = mask_of(a, end - a);
        bad |= m & ~(write ? w->owned : w->owned & w->valid);
        if (write) written(w, m);
    }
    return !bad;
}

void shim_unwritten(void *p, size_t bytes)
{
    Word *w = word_at(p);
    for (uintptr_t a = (uintptr_t)p, end = a + bytes; a < end; a = (a | 3) + 1, w++)
        w->valid &= ~mask_of(a, end - a);
}

// Which bytes of the word that [a] lies in were written.
static unsigned valid_at(uintptr_t a)
{
    return on_device((const void *)a) ? word_at((const void *)a)->valid : 15;
}

void shim_filled(void *p, size_t bytes, const void *from)
{
    uintptr_t to = (uintptr_t)p, at = (uintptr_t)from, end = to + bytes;
    Word *w = word_at(p);
    for (uintptr_t next; to < end; at += next - to, to = next, w++) {
        next = (to | 3) + 1;
        unsigned m = mask_of(to, end - to),
                 valid = valid_at(at) >> (at & 3); // of four from [at] on
        if (at & 3) valid |= valid_at(at + 4) << (4 - (at & 3));
        w->valid = (w->valid & ~m) | (valid << (to & 3) & m);
    }
}

// shim_copied of whole words (from: of the source; NULL: it is not on the device).
static bool copied_words(Word *w, size_t n, const Word *from)
{
    unsigned owned = 15;
    for (size_t i = 0; i < n; i++) {
        owned &= w[i].owned;
        w[i].writer = 0;
        w[i].written = shim_actor.now;
        w[i].wmask = 0;
        w[i].valid = from ? from[i].valid : 15;
    }
    return owned == 15;
}

bool shim_copied(void *p, size_t bytes, const void *from)
{
    if (!bytes) return true;
    if (!on_device(p) || !on_device((char *)p + bytes - 1)) return false;
    const bool along = from && on_device(from);
    if (!(((uintptr_t)p | bytes) & 3) && !(along && (uintptr_t)from & 3))
        return copied_words(word_at(p), bytes / 4, along ? word_at(from) : NULL);
    bool ok = shim_touch(p, bytes, true);
    Word *w = word_at(p);
    for (uintptr_t a = (uintptr_t)p, end = a + bytes; a < end; a = (a | 3) + 1, w++)
        w->wmask &= ~mask_of(a, end - a);
    if (along) shim_filled(p, bytes, from);
    return ok;
}

void shim_shared_map(const Code *c, size_t dynamic_bytes, char *const *slot, int ranks)
{
    size_t words = (c->vars_bytes + 3) / 4;
    if (words * (size_t)ranks > mem.shared_words) {
        free(mem.shared);
        mem.shared_words = words * (size_t)ranks;
        mem.shared = calloc(mem.shared_words, sizeof(Word));
        if (!mem.shared) abort();
    } else if (mem.code != c || mem.ranks != ranks) {
        memset(mem.shared, 0, mem.shared_words * sizeof(Word));
    }
    memset(mem.known, 0, sizeof mem.known);
    mem.code = c;
    mem.dynamic = dynamic_bytes;
    mem.slot = slot;
    mem.ranks = ranks;
    mem.vars = (uintptr_t)c->vars;
    mem.words = words;
    mem.inside = c->vars_bytes;
    if (c->dynamic_bytes > dynamic_bytes)
        mem.inside = (size_t)(c->dynamic - c->vars) + dynamic_bytes;
}

// -- the hooks ------------------------------------------------------------------------------------
static void name_place(char *out, size_t n, uintptr_t a, bool shared)
{
    if (shared) {
        const char *d = mem.code->dynamic;
        size_t at = a - (uintptr_t)mem.code->vars, dyn = (size_t)(d - mem.code->vars);
        if (at >= dyn)
            snprintf(out, n, "dynamic shared memory at byte %zu", at - dyn);
        else
            snprintf(out, n, "shared memory at byte %zu", at);
        return;
    }
    for (Range *r = mem.list; r; r = r->next) {
        uintptr_t first = (uintptr_t)mem.base + r->at;
        if (a - first >= r->room) continue;
        long long at = (long long)(a - first) - RED;
        snprintf(out, n, "device memory at byte %lld of an allocation of %zu", at, r->bytes);
        return;
    }
    snprintf(out, n, "device memory that is not allocated (%p)", (void *)a);
}

// Two threads may write the same value to a word: whether they do is seen after the second write.
typedef struct Same {
    uintptr_t at;
    unsigned bytes;
    char value[4];
    bool shared;
    uint32_t other, id;
} Same;
static Same same;

static __attribute__((noinline, cold)) void race(uintptr_t a, bool shared, const char *before,
                                                 uint32_t id, const char *now)
{
    char place[160];
    name_place(place, sizeof place, a, shared);
    shim_fault("race in %s: %s by thread %u of block %u, then %s by thread %u of block %u, with no "
               "barrier between",
               place, before, id & 1023, id >> 10, now, shim_actor.id & 1023, shim_actor.id >> 10);
}

static __attribute__((noinline)) void settle(void)
{
    Same s = same;
    same.bytes = 0;
    if (!memcmp((const void *)s.at, s.value, s.bytes)) return;
    char place[160];
    name_place(place, sizeof place, s.at, s.shared);
    shim_fault("race in %s: threads %u of block %u and %u of block %u write different values, with "
               "no barrier between",
               place, s.other & 1023, s.other >> 10, s.id & 1023, s.id >> 10);
}

void shim_settle(void)
{
    if (same.bytes) settle();
}

static void same_value(uintptr_t a, unsigned m, uint32_t other, bool shared)
{
    unsigned bytes = (unsigned)__builtin_popcount(m);
    if (same.bytes) return; // of a wide write one word stands for all
    same = (Same){a, bytes, "", shared, other, shim_actor.id};
    memcpy(same.value, (const void *)a, bytes);
}

// Somebody meets a copy that is not waited for.
static __attribute__((noinline, cold)) void still(const Word *w, uintptr_t a, const char *how)
{
    char place[160];
    name_place(place, sizeof place, a, true);
    shim_fault("%s of what an asynchronous copy has yet to %s: %s, by thread %u of block %u", how,
               w->coming ? "write" : "read", place, shim_actor.id & 1023, shim_actor.id >> 10);
}

// An access to bytes that are not there, or that nobody wrote.
static __attribute__((noinline, cold)) void absent(const Word *w, uintptr_t a, unsigned m,
                                                   bool write, bool shared)
{
    char place[160];
    name_place(place, sizeof place, a, shared);
    if ((w->owned & m) != m)
        shim_fault("%s out of bounds: %s, by thread %u of block %u", write ? "write" : "read",
                   place, shim_actor.id & 1023, shim_actor.id >> 10);
    else
        shim_fault("read of what was never written: %s, by thread %u of block %u", place,
                   shim_actor.id & 1023, shim_actor.id >> 10);
}

// Whether any byte of shared memory there was written, of these [bytes] from [from] on.
static bool any_valid(uintptr_t from, size_t bytes);

// from, bytes: of the whole access: bytes of shared memory that were never written may be read,
// being padding between others that were.
// (compiled into each hook, where most of its arguments are constants)
static inline __attribute__((always_inline)) void
check_word(Word *w, uintptr_t a, unsigned m, bool write, bool shared, uintptr_t from, size_t bytes)
{
    const Actor *t = &shim_actor;
    uint32_t id = t->id, now = t->now;
    if (shared && w->life != t->life) *w = (Word){.life = t->life, .owned = 15};
    if (w->coming || (w->leaving && write)) still(w, a, write ? "write" : "read");
    if ((w->owned & m) != m ||
        (!write && (w->valid & m) != m && !(shared && bytes > 4 && any_valid(from, bytes))))
        absent(w, a, m, write, shared);
    if (w->wmask & m && w->writer != id && !shim_ordered(w->writer, w->written)) {
        if (!write) race(a, shared, "written", w->writer, "read");
        same_value(a, m, w->writer, shared);
    }
    if (write) {
        if (w->rmask0 & m && w->reader[0] != id && !shim_ordered(w->reader[0], w->read[0]))
            race(a, shared, "read", w->reader[0], "written");
        if (w->rmask1 & m && w->reader[1] != id && !shim_ordered(w->reader[1], w->read[1]))
            race(a, shared, "read", w->reader[1], "written");
        w->wmask = w->writer == id && w->written == now ? w->wmask | m : m;
        w->writer = id;
        w->written = now;
        w->valid |= m;
        return;
    }
    // Two different readers are remembered: whoever writes next is not one of them.
    bool first = w->reader[0] == id || !w->rmask0 ||
                 (w->reader[1] != id && shim_ordered(w->reader[0], w->read[0]));
    if (first) {
        w->rmask0 = w->reader[0] == id && w->read[0] == now ? w->rmask0 | m : m;
        w->reader[0] = id;
        w->read[0] = now;
    } else {
        w->rmask1 = w->reader[1] == id && w->read[1] == now ? w->rmask1 | m : m;
        w->reader[1] = id;
        w->read[1] = now;
    }
}

// The shadow of shared memory at a, live or another block's copy; NULL: not shared. *left: bytes
// from there on that are.
static Word *shared_word(uintptr_t a, uintptr_t *live)
{
    const Code *c = mem.code;
    size_t words = (c->vars_bytes + 3) / 4, at = a - (uintptr_t)c->vars;
    if (at < c->vars_bytes) {
        *live = a;
        return &mem.shared[shim_actor.rank * words + at / 4];
    }
    for (int r = 0; r < mem.ranks && mem.slot; r++) {
        at = a - (uintptr_t)mem.slot[r];
        if (at >= c->vars_bytes) continue;
        *live = (uintptr_t)c->vars + at;
        return &mem.shared[(size_t)r * words + at / 4];
    }
    return NULL;
}

void shim_bulk_place(void *p, size_t bytes); // called by kernels (ptx.h)
void shim_bulk_place(void *p, size_t bytes)
{
    uintptr_t live, a = (uintptr_t)p;
    for (uintptr_t end = a + bytes; a < end; a += 4) {
        Word *w = shared_word(a, &live);
        if (w) *w = (Word){.life = shim_actor.life, .owned = 15, .valid = 15};
    }
}

// -- asynchronous copies (late.h) -----------------------------------------------------------------
// The word of shared memory at [a] in this life of its block.
static Word *shared_now(uintptr_t a, uintptr_t *live)
{
    Word *w = shared_word(a, live);
    if (!w) shim_fault("an asynchronous copy of what is not shared memory (%p)", (void *)a);
    if (w->life != shim_actor.life) *w = (Word){.life = shim_actor.life, .owned = 15};
    return w;
}

void shim_coming(void *p, unsigned long long bytes, int ordered)
{
    uintptr_t live, a = (uintptr_t)p & ~(uintptr_t)3, end = (uintptr_t)p + bytes;
    for (; a < end; a += 4) {
        Word *w = shared_now(a, &live);
        if (w->coming || w->leaving) still(w, live, "another copy");
        if (ordered) { // as if it were written now; what it holds counts when it has come
            unsigned valid = w->valid;
            check_word(w, live, 15, true, true, live, 4);
            w->valid = valid;
        }
        w->coming = 1;
    }
}

void shim_came(void *p, unsigned long long bytes)
{
    uintptr_t live, a = (uintptr_t)p & ~(uintptr_t)3, end = (uintptr_t)p + bytes;
    for (; a < end; a += 4) shared_now(a, &live)->coming = 0;
}

void shim_thread_wrote(void *p)
{
    uintptr_t live;
    Word *w = shared_now((uintptr_t)p, &live);
    if (w->coming || w->leaving) still(w, live, "change");
    w->wmask = 15;
    w->writer = shim_actor.id;
    w->written = shim_actor.now;
}

void shim_proxy_reads(const void *p, unsigned long long bytes)
{
    uintptr_t live, a = (uintptr_t)p & ~(uintptr_t)3, end = (uintptr_t)p + bytes;
    for (; a < end; a += 4) {
        const Word *w = shared_now(a, &live);
        if (w->coming) still(w, live, "use");
        if (w->wmask && w->written > shim_fenced(w->writer)) {
            char place[160];
            name_place(place, sizeof place, live, true);
            shim_fault("%s: what thread %u wrote there is used by a bulk copy or a product, with "
                       "no fence of that thread between",
                       place, w->writer & 1023);
        }
    }
}

void shim_leaving(void *p, unsigned long long bytes)
{
    uintptr_t live, a = (uintptr_t)p & ~(uintptr_t)3, end = (uintptr_t)p + bytes;
    for (; a < end; a += 4) shared_now(a, &live)->leaving = 1;
}

void shim_left(void *p, unsigned long long bytes)
{
    uintptr_t live, a = (uintptr_t)p & ~(uintptr_t)3, end = (uintptr_t)p + bytes;
    for (; a < end; a += 4) shared_now(a, &live)->leaving = 0;
}

static bool any_valid(uintptr_t from, size_t bytes)
{
    uintptr_t live;
    for (uintptr_t a = from, end = from + bytes; a < end; a = (a | 3) + 1) {
        const Word *w = shared_word(a, &live);
        if (w && w->life == shim_actor.life && w->valid) return true;
    }
    return false;
}

// Whether the host has memory at [a]: constants of the compiled kernel, registers of a warp's
// others.
static bool is_host(uintptr_t a)
{
    unsigned char there;
    uintptr_t page = a & ~4095ul, *known = &mem.known[(uint32_t)(a / 4096) * 0x9e3779b1u >> 22];
    if (page && page == *known) return true;
    if (mincore((void *)page, 1, &there)) return false;
    *known = page;
    return true;
}

static __attribute__((noinline, cold)) void early_write(void)
{
    shim_fault("write of device memory before the wait for the kernel before, by thread %u of "
               "block %u",
               shim_actor.id & 1023, shim_actor.id >> 10);
}

static __attribute__((noinline, cold)) void early_read(void)
{
    shim_fault("read of what the kernel before wrote, before the wait for it, by thread %u of "
               "block %u",
               shim_actor.id & 1023, shim_actor.id >> 10);
}

static inline __attribute__((always_inline)) void
on_device_word(Word *w, uintptr_t a, unsigned m, bool write, uintptr_t from, size_t bytes)
{
    if (shim_actor.ahead && w->wmask & m && w->written > shim_actor.before) early_read();
    if (m) check_word(w, a, m, write, false, from, bytes);
}

// (the size and the kind are constants in each hook, which are most of what a kernel costs here)
static inline __attribute__((always_inline)) void on_device_access(uintptr_t a, size_t bytes,
                                                                   bool write)
{
    uintptr_t from = a, end = a + bytes;
    if (shim_actor.ahead && write) early_write();
    for (; a < end; a = (a | 3) + 1) {
        if (!on_device((const void *)a)) shim_fault("access beyond the device's memory");
        on_device_word(word_at((const void *)a), a, mask_of(a, end - a), write, from, bytes);
    }
}

// The same of whole words.
static inline __attribute__((always_inline)) void on_device_words(uintptr_t a, size_t bytes,
                                                                  bool write)
{
    Word *w = word_at((const void *)a);
    if (shim_actor.ahead && write) early_write();
    if (!on_device((const void *)(a + bytes - 1))) shim_fault("access beyond the device's memory");
    // A line of 16 bytes may reach past the end: one of its bytes is there.
    bool line = false;
    for (size_t i = 0; i < 4 && bytes == 16 && !write; i++) line |= (w[i].owned & w[i].valid) != 0;
    for (size_t i = 0; i < bytes / 4; i++)
        on_device_word(w + i, a + 4 * i, line ? w[i].owned & w[i].valid : 15, write, a, bytes);
}

// Not of device memory, in general.
static __attribute__((noinline)) void access_elsewhere(uintptr_t a, size_t bytes, bool write)
{
    uintptr_t from = a, end = a + bytes;
    for (uintptr_t live; a < end; a = (a | 3) + 1) {
        Word *w = shared_word(a, &live);
        if (!w) {
            if (write || !is_host(a))
                shim_fault("%s of an address that is neither device nor shared memory (%p), by "
                           "thread %u of block %u",
                           write ? "write" : "read", (void *)a, shim_actor.id & 1023,
                           shim_actor.id >> 10);
            return;
        }
        size_t dyn = live - (uintptr_t)mem.code->dynamic;
        if (dyn < mem.code->dynamic_bytes && dyn >= mem.dynamic)
            shim_fault("%s at byte %zu of dynamic shared memory, of which the launch has %zu, by "
                       "thread %u of block %u",
                       write ? "write" : "read", dyn, mem.dynamic, shim_actor.id & 1023,
                       shim_actor.id >> 10);
        check_word(w, live, mask_of(live, end - a), write, true, from, bytes);
    }
}

static inline __attribute__((always_inline)) bool seen(uintptr_t a)
{
    if (!shim_running || a - (uintptr_t)shim_actor.stack < shim_actor.stack_bytes) return false;
    shim_accesses++;
    shim_settle();
    return true;
}

static inline __attribute__((always_inline)) void access(uintptr_t a, size_t bytes, bool write)
{
    if (!seen(a)) return;
    if (!on_device((const void *)a))
        access_elsewhere(a, bytes, write);
    else if (bytes % 4 || a % (bytes == 16 ? 16 : 4))
        on_device_access(a, bytes, write);
    else
        on_device_words(a, bytes, write);
}

static __attribute__((noinline, cold)) void misaligned(uintptr_t a, size_t bytes, bool write)
{
    shim_fault("misaligned %s of %zu bytes at %p, by thread %u of block %u",
               write ? "write" : "read", bytes, (void *)a, shim_actor.id & 1023,
               shim_actor.id >> 10);
}

static inline __attribute__((always_inline)) void aligned(uintptr_t a, size_t bytes, bool write)
{
    if (shim_running && a % bytes) misaligned(a, bytes, write);
    if (!seen(a)) return;
    if (on_device((const void *)a)) {
        if (bytes < 4)
            on_device_access(a, bytes, write);
        else
            on_device_words(a, bytes, write);
        return;
    }
    // The block's own shared memory, past which the launch has none: most accesses. (Its words are
    // aligned as those of memory are.)
    uintptr_t at = a - mem.vars;
    if (at >= mem.inside || at + bytes > mem.inside) {
        access_elsewhere(a, bytes, write);
        return;
    }
    Word *w = mem.shared + shim_actor.rank * mem.words + at / 4;
    if (bytes <= 4) {
        check_word(w, a, ((1u << bytes) - 1) << (bytes < 4 ? a & 3 : 0), write, true, a, bytes);
        return;
    }
    for (size_t i = 0; i < bytes / 4; i++) check_word(w + i, a + 4 * i, 15, write, true, a, bytes);
}

#define HOOKS(n)                                                                                   \
    void __tsan_read##n(uintptr_t a)                                                               \
    {                                                                                              \
        aligned(a, n, false);                                                                      \
    }                                                                                              \
    void __tsan_write##n(uintptr_t a)                                                              \
    {                                                                                              \
        aligned(a, n, true);                                                                       \
    }                                                                                              \
    void __tsan_volatile_read##n(uintptr_t a)                                                      \
    {                                                                                              \
        aligned(a, n, false);                                                                      \
    }                                                                                              \
    void __tsan_volatile_write##n(uintptr_t a)                                                     \
    {                                                                                              \
        aligned(a, n, true);                                                                       \
    }                                                                                              \
    void __tsan_unaligned_read##n(uintptr_t a)                                                     \
    {                                                                                              \
        access(a, n, false);                                                                       \
    }                                                                                              \
    void __tsan_unaligned_write##n(uintptr_t a)                                                    \
    {                                                                                              \
        access(a, n, true);                                                                        \
    }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

// Structs. Of those in device memory all are vectors, which want to be aligned.
static void range(uintptr_t a, size_t n, bool write)
{
    size_t unit = n > 16 ? 16 : n;
    if (shim_running && on_device((const void *)a) && (n & (n - 1)) == 0 && a % unit)
        misaligned(a, unit, write);
    access(a, n, write);
}
void __tsan_read_range(uintptr_t a, size_t n)
{
    range(a, n, false);
}
void __tsan_write_range(uintptr_t a, size_t n)
{
    range(a, n, true);
}
void __tsan_init(void) {}
void __tsan_func_entry(void *pc)
{
    (void)pc;
}
void __tsan_func_exit(void) {}

// -- atomics: no race with each other or with plain accesses --------------------------------------
void shim_atomic_place(void *p, size_t bytes, bool write)
{
    uintptr_t a = (uintptr_t)p, live;
    if (a % bytes) shim_fault("misaligned atomic access at %p", p);
    Word *w = on_device(p) ? word_at(p) : shared_word(a, &live);
    unsigned m = mask_of(a, bytes);
    bool shared = !on_device(p);
    if (!w) shim_fault("atomic access to neither device nor shared memory (%p)", p);
    for (size_t i = 0; i < (bytes + 3) / 4; i++) {
        if (shared && w[i].life != shim_actor.life)
            w[i] = (Word){.life = shim_actor.life, .owned = 15};
        if ((w[i].owned & m) != m) shim_fault("atomic access out of bounds (%p)", p);
        if ((w[i].valid & m) != m && !write) shim_fault("atomic access to what was never written");
        w[i].valid |= m;
    }
}

// -- called by kernels (kernel.h)
void shim_copy(void *to, const void *from, size_t bytes);
void shim_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
