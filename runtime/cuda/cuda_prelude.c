// The part of the prelude that a kernel needs. NVRTC processes one text at a time, however many
// threads call it, so reading a prelude of which most kernels use a tenth would be most of a
// program's compilation on a machine with many cores.
//
// A prelude is split at its blank lines. A name with one of its prefixes (nc_, NC_, Nc) belongs to
// the paragraph that mentions it first, which declares it. A kernel gets the paragraphs of the
// names it mentions, and of the names these mention. So overloads of one name for plain types must
// be in one paragraph. Macros paste letters onto names: so mentioning a name also
// mentions the name with such a suffix, and the name without its suffix (a kernel edited by hand
// may call nc_floordiv_i).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "base/map.h"
#include "runtime/cuda/cuda.h"

typedef struct Paragraph {
    const char *text;
    size_t len;
} Paragraph;

struct CudaPrelude {
    int n;
    Paragraph *at;
    bool *needs; // n * n: whether paragraph i needs paragraph j; true for i = j
    IdMap owner; // hash of a name -> paragraph
};

static bool in_name(char c)
{
    return plain_alnum(c) || c == '_';
}

// The next name at or after p with a prefix that the prelude uses; skips comments. NULL: none
// before end.
static const char *next_name(const char *p, const char *end, size_t *len)
{
    while (p < end) {
        if (end - p > 1 && p[0] == '/' && p[1] == '/') {
            while (p < end && *p != '\n') p++;
        } else if (in_name(*p)) {
            const char *begin = p;
            while (p < end && in_name(*p)) p++;
            *len = (size_t)(p - begin);
            if (*len > 2 && (begin[0] | 32) == 'n' && (begin[1] | 32) == 'c') return begin;
        } else {
            p++;
        }
    }
    return NULL;
}

static void need(const CudaPrelude *c, const char *name, size_t len, bool *needed)
{
    static const char *const ends[] = {"", "_", "_f", "_d", "_i", "_u", "_l"};
    char with[80];
    uint64_t i;
    if (len + 3 > sizeof with) return;
    memcpy(with, name, len);
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        size_t n = strlen(ends[k]);
        memcpy(with + len, ends[k], n);
        if (idmap_get(&c->owner, hash_bytes(with, len + n, 0), &i)) needed[i] = true;
    }
    while (len > 0 && name[len - 1] != '_') len--;
    if (idmap_get(&c->owner, hash_bytes(name, len, 0), &i)) needed[i] = true;
}

static void need_all(const CudaPrelude *c, const char *text, size_t n, bool *needed)
{
    size_t len;
    for (const char *p = text; (p = next_name(p, text + n, &len)); p += len)
        need(c, p, len, needed);
}

CudaPrelude *cuda_prelude_new(Arena *a, const char *text)
{
    CudaPrelude *c = NEW(a, CudaPrelude);
    VEC(Paragraph) all = {0};
    *c = (CudaPrelude){.owner = idmap_new(a)};
    for (const char *p = text, *end; p && *p; p = end) {
        end = strstr(p, "\n\n");
        end = end ? end + 2 : p + strlen(p);
        vec_push(a, &all, (Paragraph){p, (size_t)(end - p)});
    }
    c->at = all.at;
    c->n = (int)all.n;
    for (int i = 0; i < c->n; i++) {
        size_t len;
        const Paragraph *g = &c->at[i];
        for (const char *p = g->text; (p = next_name(p, g->text + g->len, &len)); p += len) {
            uint64_t id = hash_bytes(p, len, 0);
            if (!idmap_get(&c->owner, id, NULL)) idmap_set(&c->owner, id, (uint64_t)i);
        }
    }
    c->needs = NEW_ARRAY(a, bool, c->n * c->n + 1);
    for (int i = 0; i < c->n; i++) {
        bool *row = c->needs + i * c->n;
        need_all(c, c->at[i].text, c->at[i].len, row);
        row[i] = true;
    }
    for (int via = 0; via < c->n; via++)
        for (int i = 0; i < c->n; i++)
            for (int k = 0; c->needs[i * c->n + via] && k < c->n; k++)
                c->needs[i * c->n + k] |= c->needs[via * c->n + k];
    return c;
}

// Sets those of [needed] that [text] needs; [mentioned]: room for n more. Both are false before.
static void find_needed(const CudaPrelude *c, const char *text, bool *mentioned, bool *needed)
{
    need_all(c, text, strlen(text), mentioned);
    if (c->n) mentioned[0] = true; // the paragraph with the types is always needed
    for (int i = 0; i < c->n; i++)
        for (int k = 0; mentioned[i] && k < c->n; k++) needed[k] |= c->needs[i * c->n + k];
}

// The paragraphs that [text] needs, with room for [more] bytes after them.
static char *paragraphs(const CudaPrelude *c, const char *text, size_t more)
{
    bool *mentioned = calloc((size_t)c->n + 1, 1), *needed = calloc((size_t)c->n + 1, 1);
    size_t n = more + 1;
    if (mentioned && needed) find_needed(c, text, mentioned, needed);
    for (int i = 0; needed && i < c->n; i++) n += needed[i] ? c->at[i].len : 0;
    char *out = mentioned && needed ? malloc(n) : NULL, *p = out;
    for (int i = 0; out && i < c->n; i++) {
        if (!needed[i]) continue;
        memcpy(p, c->at[i].text, c->at[i].len);
        p += c->at[i].len;
    }
    if (out) *p = 0;
    free(mentioned);
    free(needed);
    return out;
}

void rt_cuda_prelude(Buf *out, const char *prelude, const char *text)
{
    Arena *a = out->arena;
    const CudaPrelude *c = cuda_prelude_new(a, prelude);
    bool *needed = NEW_ARRAY(a, bool, c->n + 1);
    find_needed(c, text, NEW_ARRAY(a, bool, c->n + 1), needed);
    for (int i = 0; i < c->n; i++)
        if (needed[i]) buf_bytes(out, c->at[i].text, c->at[i].len);
}

char *cuda_prelude_with(const CudaPrelude *c, const char *name, const char *text)
{
    char *out = paragraphs(c, text, strlen(name) + strlen(text) + 32);
    if (out) sprintf(out + strlen(out), "\n#line 1 \"%s.cu\"\n%s", name, text);
    return out;
}
