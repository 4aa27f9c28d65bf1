// Files of tokens: the header of llm.c, and windows over files that are larger than memory.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data/data_read.h"
#include "runtime/data/tokens.h"

// -- the header -----------------------------------------------------------------------------------

enum { MAGIC_16 = 20240520, VERSION_16 = 1, MAGIC_32 = 20240801, VERSION_32 = 7 };

RtTokenHead rt_token_head(bool wide, int64_t tokens)
{
    RtTokenHead h = {{wide ? MAGIC_32 : MAGIC_16, wide ? VERSION_32 : VERSION_16, (int32_t)tokens}};
    return h;
}

static int32_t word(const unsigned char *at, int i)
{
    int32_t v;
    memcpy(&v, at + 4 * i, 4);
    return v;
}

bool rt_token_recognise(const unsigned char *at, size_t n)
{
    return n >= 4 && (word(at, 0) == MAGIC_16 || word(at, 0) == MAGIC_32);
}

bool rt_token_wide(const unsigned char *at)
{
    return word(at, 0) == MAGIC_32;
}

int rt_token_width(const char *path, const unsigned char *at, size_t bytes, RtError *e)
{
    if (bytes < sizeof(RtTokenHead))
        return rt_fail(e, RT_USER, "%s is truncated: it ends within the header of a token file",
                       path),
               0;
    bool wide = rt_token_wide(at);
    int version = wide ? VERSION_32 : VERSION_16, width = wide ? 4 : 2;
    if (word(at, 1) != version)
        return rt_fail(e, RT_USER, "%s is a token file of version %" PRId32 "; %d can be read",
                       path, word(at, 1), version),
               0;
    size_t have = bytes - sizeof(RtTokenHead);
    int64_t count = word(at, 2);
    if (count >= 0 && have % (size_t)width == 0 && have / (size_t)width == (size_t)count)
        return width;
    return rt_fail(e, RT_USER,
                   "%s: its header says %" PRId64
                   " tokens of %d bits, but %zu bytes follow it; it is "
                   "damaged",
                   path, count, 8 * width, have),
           0;
}

static RtCode no_byte(const char *path, int64_t at, int64_t v, int width, RtError *e)
{
    return rt_fail(e, RT_USER,
                   "%s: token %" PRId64 " is %" PRId64
                   ", which is not a u8; %d-bit tokens need an input of i32, u32 or i64",
                   path, at, v, 8 * width);
}

RtCode rt_token_narrow(const char *path, RtBytes *b, int width, RtError *e)
{
    size_t n = b->n / (size_t)width;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = 0;
        memcpy(&v, b->at + i * (size_t)width, (size_t)width);
        if (v > UINT8_MAX) return no_byte(path, (int64_t)i, v, width, e);
        b->at[i] = (unsigned char)v;
    }
    b->n = n;
    return RT_OK;
}

// -- rows that stay in their files ----------------------------------------------------------------

enum { LOOKED_AT = 4096, OPEN = 256, PIECE = 1 << 14 }; // PIECE: bytes read at a time

typedef struct Part {
    char *path;
    int fd; // -1: opened for each row, if it is not among the first OPEN
    size_t head;
    int width; // bytes per token in the file
    int64_t tokens, first, rows;
} Part;

typedef struct RtTokens {
    RtSource source;
    ProgDType type;
    int64_t window, stride; // tokens per row; distance of the beginnings of rows in tokens
    bool has_range;
    int64_t low, high;
    int n;
    Part part[];
} RtTokens;

static void tokens_free(RtSource *s)
{
    RtTokens *t = (RtTokens *)s;
    for (int i = 0; i < t->n; i++) {
        free(t->part[i].path);
        if (t->part[i].fd >= 0) close(t->part[i].fd);
    }
    free(t);
}

static void tokens_range(RtSource *s, int64_t low, int64_t high)
{
    RtTokens *t = (RtTokens *)s;
    t->has_range = true;
    t->low = low;
    t->high = high;
}

// Reads up to n bytes; returns how many. -1: errno has the reason.
static ssize_t read_at(int fd, void *to, size_t n, int64_t from)
{
    size_t got = 0;
    while (got < n) {
        ssize_t k = pread(fd, (char *)to + got, n - got, (off_t)from + (off_t)got);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return -1;
        if (!k) break;
        got += (size_t)k;
    }
    return (ssize_t)got;
}

// Finds the format of a file's tokens. *width 0: it must be read in another way. RT_USER: damaged.
// b: has the file's size, but only its first LOOKED_AT bytes.
static RtCode layout(const char *path, const RtBytes *b, const char *part, ProgDType type,
                     size_t *head, int *width, RtError *e)
{
    int own = (int)prog_dtype_bytes(type);
    *head = 0;
    *width = 0;
    if (part && (!strcmp(part, "u16") || !strcmp(part, "u32"))) {
        *width = strcmp(part, "u16") ? 4 : 2;
    } else if (part && !strcmp(part, "raw")) {
        *width = own;
    } else if (!part && rt_token_recognise(b->at, b->n)) {
        *head = sizeof(RtTokenHead);
        *width = rt_token_width(path, b->at, b->n, e);
        if (!*width) return e->code;
    } else if (!part && !rt_npy_recognise(b) && !rt_path_ends(path, ".npy") &&
               !rt_csv_named(path) && !rt_npz_named(path) && !rt_idx_recognise(path, b) &&
               !rt_cifar_recognise(path, part, b)) {
        RtError foreign = {0};
        if (!rt_foreign_check(path, b, true, &foreign))
            *width = rt_path_ends(path, ".txt") ? 1 : own;
    }
    // (tokens written by netc tokenize are never of 8 bits; an input of bytes takes them, too)
    if ((*width > own && !*head) || (b->n - *head) % (size_t)(*width ? *width : 1)) *width = 0;
    return RT_OK;
}

// Opens a regular file; reads its first bytes to b->at and its size to b->n.
static bool open_part(const char *path, int *fd, RtBytes *b)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return false;
    if (!fstat(*fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
        b->n = (size_t)st.st_size;
        size_t n = b->n < LOOKED_AT ? b->n : LOOKED_AT;
        if (read_at(*fd, b->at, n, 0) == (ssize_t)n) return true;
    }
    close(*fd);
    return false;
}

static RtCode add_part(RtTokens *t, const char *path, const char *part, bool *fits, RtError *e)
{
    Part *p = &t->part[t->n];
    unsigned char head[LOOKED_AT];
    RtBytes b = {.at = head};
    *fits = false;
    if (!open_part(path, &p->fd, &b)) return RT_OK;
    t->n++;
    if (b.n > 1 && head[0] == 0x1f && head[1] == 0x8b) return RT_OK;
    if (layout(path, &b, part, t->type, &p->head, &p->width, e)) return e->code;
    if (!p->width || !(p->path = strdup(path))) return RT_OK;
    if (t->n > OPEN) close(p->fd), p->fd = -1;
    p->tokens = (int64_t)((b.n - p->head) / (size_t)p->width);
    *fits = p->tokens >= t->window;
    return RT_OK;
}

// Numbers the rows; returns their count.
static int64_t count_rows(RtTokens *t, bool anywhere)
{
    int64_t tokens = 0, rows = 0;
    for (int i = 0; i < t->n; i++) tokens += t->part[i].tokens;
    t->stride = anywhere ? 1 + tokens / INT32_MAX : t->window - 1;
    for (int i = 0; i < t->n; i++) {
        t->part[i].first = rows;
        t->part[i].rows = (t->part[i].tokens - t->window) / t->stride + 1;
        rows += t->part[i].rows;
    }
    return rows;
}

static RtCode outside(const RtTokens *t, const Part *p, int64_t at, int64_t v, RtError *e)
{
    return rt_fail(e, RT_USER,
                   "%s: token %" PRId64 " is %" PRId64 ", the model says its values are in %" PRId64
                   "..%" PRId64 " (%" PRId64 " to %" PRId64 ")",
                   p->path, at, v, t->low, t->high, t->low, t->high - 1);
}

static RtCode read_part(const Part *p, void *to, size_t n, int64_t from, RtError *e)
{
    int fd = p->fd >= 0 ? p->fd : open(p->path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read_at(fd, to, n, from) : -1;
    int why = errno;
    if (fd >= 0 && p->fd < 0) close(fd);
    if (got < 0) return rt_fail(e, RT_USER, "cannot read %s: %s", p->path, strerror(why));
    if ((size_t)got == n) return RT_OK;
    return rt_fail(e, RT_USER, "%s became shorter while it was read", p->path);
}

static RtCode tokens_row(const RtTokens *t, int64_t row, void *to, RtError *e)
{
    const Part *p = t->part;
    while (row >= p->first + p->rows) p++;
    unsigned char piece[PIECE];
    int64_t at = (row - p->first) * t->stride, own = prog_dtype_bytes(t->type), n;
    char *o = to;
    for (int64_t done = 0; done < t->window; done += n) {
        const unsigned char *from = piece;
        n = t->window - done < PIECE / p->width ? t->window - done : PIECE / p->width;
        int64_t first = at + done, place = (int64_t)p->head + first * p->width;
        if (read_part(p, piece, (size_t)(n * p->width), place, e)) return e->code;
        for (int64_t i = 0; i < n; i++, from += p->width, o += own) {
            int64_t v = 0;
            memcpy(&v, from, (size_t)p->width); // little-endian
            if (t->type == PD_I32 && p->width == 4) v = (int32_t)v;
            if (t->has_range && (v < t->low || v >= t->high)) return outside(t, p, first + i, v, e);
            if (own == 1 && v > UINT8_MAX) return no_byte(p->path, first + i, v, p->width, e);
            memcpy(o, &v, (size_t)own);
        }
    }
    return RT_OK;
}

static RtCode tokens_rows(const RtSource *s, const int32_t *rows, int64_t n, void *to, RtError *e)
{
    const RtTokens *t = (const RtTokens *)s;
    size_t row = (size_t)(t->window * prog_dtype_bytes(t->type));
    for (int64_t i = 0; i < n; i++)
        if (tokens_row(t, rows[i], (char *)to + (size_t)i * row, e)) return e->code;
    return RT_OK;
}

RtCode rt_tokens_open(const char *const *paths, int n, const char *part, const ProgType *wanted,
                      bool anywhere, size_t least, RtArray *out, RtError *e)
{
    *out = (RtArray){0};
    bool fits = wanted && wanted->rank == 1 && wanted->dim[0] > 1 && wanted->dtype >= PD_U8 &&
                wanted->dtype <= PD_I64;
    RtTokens *t = fits ? calloc(1, sizeof *t + (size_t)n * sizeof *t->part) : NULL;
    if (!t) return RT_OK;
    t->type = wanted->dtype;
    t->window = wanted->dim[0];
    RtCode code = RT_OK;
    for (int i = 0; i < n && fits && !code; i++) code = add_part(t, paths[i], part, &fits, e);
    int64_t rows = fits && !code ? count_rows(t, anywhere) : 0, bytes;
    if (code || !rows ||
        __builtin_mul_overflow(rows * prog_dtype_bytes(t->type), t->window, &bytes) ||
        (size_t)bytes <= least) {
        tokens_free(&t->source);
        return code;
    }
    t->source = (RtSource){.rows = tokens_rows,
                           .range = tokens_range,
                           .step = (t->window - 1 + t->stride - 1) / t->stride,
                           .free = tokens_free};
    *out = (RtArray){.type = {.dtype = t->type, .rank = 2, .dim = {rows, t->window}},
                     .bytes = (size_t)bytes,
                     .source = &t->source};
    return RT_OK;
}
