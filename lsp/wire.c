// Reads messages: a header with Content-Length, an empty line, and that many bytes. Anything else
// is skipped up to the next message.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lsp/lsp.h"

static const char header[] = "Content-Length:";
enum { LONGEST_HEADER = 4096, BLOCK = 65536 };

bool wire_read(Wire *w)
{
    if (w->cap - w->len < BLOCK) {
        size_t cap = w->cap * 2 + BLOCK;
        char *more = realloc(w->data, cap);
        if (!more) return w->ended = true, false;
        w->data = more;
        w->cap = cap;
    }
    ssize_t n = read(w->in, w->data + w->len, w->cap - w->len);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return w->ended = true, false;
    w->len += (size_t)n;
    return true;
}

static void drop(Wire *w, size_t n)
{
    memmove(w->data, w->data + n, w->len - n);
    w->len -= n;
    if (w->cap > 4 << 20 && w->len < 1 << 20) { // frees memory after a large message
        char *less = realloc(w->data, 2 << 20);
        if (less) w->data = less, w->cap = 2 << 20;
    }
}

// Where the next header after [from] may begin: at a complete header, or at the beginning of one at
// the end of the data.
static size_t next_header(const Wire *w, size_t from)
{
    size_t n = sizeof header - 1;
    for (size_t i = from; i < w->len; i++) {
        size_t rest = w->len - i;
        if (!strncasecmp(w->data + i, header, rest < n ? rest : n)) return i;
    }
    return w->len;
}

static WireEvent bad(Wire *w, size_t from, const char *text, const char **wrong)
{
    drop(w, next_header(w, from));
    *wrong = text;
    return WIRE_BAD;
}

// The number after Content-Length; false: invalid.
static bool read_length(const char *at, const char *end, size_t *out)
{
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    const char *first = at;
    for (*out = 0; at < end && *at >= '0' && *at <= '9' && at - first < 18; at++)
        *out = *out * 10 + (size_t)(*at - '0');
    const char *last = at;
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
    return at == end && last > first;
}

WireEvent wire_take(Wire *w, Arena *a, char **text, size_t *len, const char **wrong)
{
    if (w->skip) {
        size_t n = w->skip < w->len ? w->skip : w->len;
        w->skip -= n;
        drop(w, n);
        if (w->skip) return WIRE_NONE;
    }
    if (!w->len) return WIRE_NONE;
    char *end = memmem(w->data, w->len, "\r\n\r\n", 4);
    if (!end && w->len <= LONGEST_HEADER) {
        // Data that cannot become a header are reported at once.
        size_t n = sizeof header - 1;
        bool may = !strncasecmp(w->data, header, w->len < n ? w->len : n) ||
                   !strncasecmp(w->data, "Content-Type:", w->len < 13 ? w->len : 13);
        return may ? WIRE_NONE : bad(w, 1, "no Content-Length where a message begins", wrong);
    }
    if (!end || end - w->data > LONGEST_HEADER)
        return bad(w, 1, "no end of the header where a message begins", wrong);
    size_t size = 0;
    bool known = false;
    for (char *line = w->data, *stop; line < end; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end + 1 - line));
        if (!stop) stop = end;
        size_t n = sizeof header - 1;
        if ((size_t)(stop - line) < n || strncasecmp(line, header, n)) continue;
        if (!read_length(line + n, stop, &size))
            return bad(w, (size_t)(end + 4 - w->data), "Content-Length is no number", wrong);
        known = true;
    }
    size_t begin = (size_t)(end + 4 - w->data);
    if (!known) return bad(w, begin, "a header without Content-Length", wrong);
    if (size > LSP_LARGEST_MESSAGE) {
        // A message that is too large is skipped; if its length is impossible, only the header is
        // skipped.
        if (size > (size_t)1 << 32) return bad(w, begin, "a message of impossible length", wrong);
        drop(w, begin);
        w->skip = size;
        *wrong = "a message of more than 64 MiB";
        return WIRE_BAD;
    }
    if (w->len - begin < size) return WIRE_NONE;
    *text = arena_strndup(a, w->data + begin, size);
    *len = size;
    drop(w, begin + size);
    return WIRE_MESSAGE;
}

static void write_all(Wire *w, const char *p, size_t n)
{
    while (n && !w->broken) {
        ssize_t k = write(w->out, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) {
            w->broken = true;
            return;
        }
        p += k;
        n -= (size_t)k;
    }
}

// Replaces bytes that are not valid UTF-8, which a text may contain, by '?'.
static void make_utf8(char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)p[i];
        size_t more = c < 0x80                ? 0
                      : c >= 0xc2 && c < 0xe0 ? 1
                      : c >= 0xe0 && c < 0xf0 ? 2
                      : c >= 0xf0 && c < 0xf5 ? 3
                                              : 9;
        bool good = more < 4 && i + more < n;
        for (size_t k = 1; good && k <= more; k++) good = ((unsigned char)p[i + k] & 0xc0) == 0x80;
        if (good && c == 0xe0) good = (unsigned char)p[i + 1] >= 0xa0;
        if (good && c == 0xed) good = (unsigned char)p[i + 1] < 0xa0;
        if (good && c == 0xf0) good = (unsigned char)p[i + 1] >= 0x90;
        if (good && c == 0xf4) good = (unsigned char)p[i + 1] < 0x90;
        if (!good) p[i] = '?';
        i += good ? more + 1 : 1;
    }
}

void wire_send(Wire *w, const Buf *body)
{
    char head[64];
    make_utf8(body->data, body->len);
    Buf b = buf_new(body->arena);
    buf_printf(&b, "Content-Length: %zu\r\n\r\n", body->len);
    memcpy(head, b.data, b.len);
    write_all(w, head, b.len);
    write_all(w, body->data, body->len);
}
