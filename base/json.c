#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"

Json json_writer(Buf *out)
{
    return (Json){.out = out};
}

static void separate(Json *j)
{
    if (j->comma) buf_char(j->out, ',');
    j->comma = true;
}

// Bytes of the UTF-8 character at s; 0: there is none. (The NUL at the end is part of no
// character.)
static int utf8_bytes(const unsigned char *s)
{
    int n = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    bool longer = (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xf0 && s[1] < 0x90);
    bool none = (*s == 0xed && s[1] >= 0xa0) || (*s == 0xf4 && s[1] >= 0x90);
    return longer || none ? 0 : n;
}

static void quote(const Json *j, const char *s)
{
    Buf *out = j->out;
    buf_char(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            buf_char(out, '\\'), buf_char(out, (char)c);
        else if (c == '\n')
            buf_str(out, "\\n");
        else if (c < ' ')
            buf_printf(out, "\\u%04x", c);
        else if (c < 0x80 || j->raw)
            buf_char(out, (char)c);
        else {
            int n = utf8_bytes((const unsigned char *)s);
            if (!n) buf_printf(out, "\\udc%02x", c);
            if (n) buf_bytes(out, s, (size_t)n), s += n - 1;
        }
    }
    buf_char(out, '"');
}

static void open(Json *j, char bracket, bool object)
{
    separate(j);
    buf_char(j->out, bracket);
    j->depth++;
    uint64_t bit = (uint64_t)1 << (j->depth & 63);
    j->object = object ? j->object | bit : j->object & ~bit;
    j->comma = false;
}

void json_object(Json *j)
{
    open(j, '{', true);
}

void json_array(Json *j)
{
    open(j, '[', false);
}

void json_end(Json *j)
{
    buf_char(j->out, j->object >> (j->depth & 63) & 1 ? '}' : ']');
    j->depth--;
    j->comma = true;
}

void json_key(Json *j, const char *key)
{
    separate(j);
    quote(j, key);
    buf_char(j->out, ':');
    j->comma = false;
}

void json_string(Json *j, const char *s)
{
    separate(j);
    quote(j, s);
}

void json_int(Json *j, int64_t v)
{
    separate(j);
    buf_printf(j->out, "%" PRId64, v);
}

void json_double(Json *j, double v)
{
    separate(j);
    if (isfinite(v))
        buf_double(j->out, v);
    else
        buf_str(j->out, "null");
}

void json_bool(Json *j, bool v)
{
    separate(j);
    buf_str(j->out, v ? "true" : "false");
}

void json_null(Json *j)
{
    separate(j);
    buf_str(j->out, "null");
}

enum { DEEPEST = 64 };

typedef struct Reader {
    Arena *arena;
    const char *at, *end, *begin;
    const char *error;
    bool loose;
} Reader;

static void fail(Reader *r, const char *what)
{
    if (!r->error)
        r->error = arena_printf(r->arena, "%s at byte %zu", what, (size_t)(r->at - r->begin));
}

static void skip_space(Reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
}

static bool accept(Reader *r, char c)
{
    skip_space(r);
    if (r->at >= r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static int hex4(Reader *r)
{
    int v = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = r->at < r->end ? *r->at : 0;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return fail(r, "bad \\u escape"), 0;
        v = v * 16 + digit;
    }
    return v;
}

static void put_utf8(Buf *b, int c)
{
    if (c < 0x80) {
        buf_char(b, (char)c);
    } else if (c < 0x800) {
        buf_char(b, (char)(0xc0 | c >> 6)), buf_char(b, (char)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        buf_char(b, (char)(0xe0 | c >> 12)), buf_char(b, (char)(0x80 | (c >> 6 & 63)));
        buf_char(b, (char)(0x80 | (c & 63)));
    } else {
        buf_char(b, (char)(0xf0 | c >> 18)), buf_char(b, (char)(0x80 | (c >> 12 & 63)));
        buf_char(b, (char)(0x80 | (c >> 6 & 63))), buf_char(b, (char)(0x80 | (c & 63)));
    }
}

// Reads what follows \u. A surrogate pair, two escapes, is one character.
static int escaped(Reader *r)
{
    int c = hex4(r);
    if (c < 0xd800 || c >= 0xdc00 || r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
        return c;
    const char *next = r->at;
    r->at += 2;
    int low = hex4(r);
    if (low >= 0xdc00 && low < 0xe000) return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    if (r->loose)
        r->at = next;
    else
        fail(r, "half of a surrogate pair");
    return c;
}

// Strings end with NUL, so they cannot contain it.
static void put_character(Reader *r, Buf *b, int c)
{
    if (r->loose && (!c || (c >= 0xd800 && c < 0xe000))) c = 0xfffd;
    if (!c) fail(r, "\\u0000 in a string cannot be read");
    if (c >= 0xdc80 && c < 0xdd00)
        buf_char(b, (char)(c & 0xff)); // a byte that is no UTF-8, as it is written above
    else
        put_utf8(b, c);
}

static const char *read_string(Reader *r)
{
    Buf b = buf_new(r->arena);
    if (!accept(r, '"')) return fail(r, "expected a string"), "";
    while (r->at < r->end && *r->at != '"' && !r->error) {
        char c = *r->at++;
        if (c != '\\') {
            if ((unsigned char)c < ' ') fail(r, "control character in a string");
            buf_char(&b, c);
            continue;
        }
        c = r->at < r->end ? *r->at++ : 0;
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *p = c ? strchr(from, c) : NULL;
        if (p)
            buf_char(&b, to[p - from]);
        else if (c == 'u')
            put_character(r, &b, escaped(r));
        else
            fail(r, "bad escape");
    }
    if (r->at >= r->end)
        fail(r, "unterminated string");
    else
        r->at++;
    return b.data;
}

static void read_number(Reader *r, JsonValue *v)
{
    char text[64];
    size_t n = 0;
    bool integer = true;
    while (r->at < r->end && *r->at && strchr("+-0123456789.eE", *r->at) && n < sizeof text - 1) {
        if (strchr(".eE", *r->at)) integer = false;
        text[n++] = *r->at++;
    }
    text[n] = 0;
    char *end;
    v->kind = JSON_NUMBER;
    v->number = plain_double(text, &end);
    if (!n || *end) fail(r, "expected a value");
    errno = 0;
    if (integer) v->integer = strtoll(text, NULL, 10);
    v->is_int = integer && !errno;
}

static JsonValue *read_value(Reader *r, int depth)
{
    JsonValue *v = NEW(r->arena, JsonValue);
    if (depth > DEEPEST) return fail(r, "nested too deeply"), v;
    skip_space(r);
    static const struct {
        const char *word;
        JsonKind kind;
        bool value;
    } words[] = {{"null", JSON_NULL, 0}, {"true", JSON_BOOL, 1}, {"false", JSON_BOOL, 0}};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i].word);
        if ((size_t)(r->end - r->at) >= n && !memcmp(r->at, words[i].word, n)) {
            r->at += n;
            v->kind = words[i].kind;
            v->boolean = words[i].value;
            return v;
        }
    }
    if (r->at < r->end && *r->at == '"') {
        v->kind = JSON_STRING;
        v->string = read_string(r);
        return v;
    }
    bool object = accept(r, '{');
    if (!object && !accept(r, '[')) return read_number(r, v), v;
    v->kind = object ? JSON_OBJECT : JSON_ARRAY;
    char close = object ? '}' : ']';
    if (accept(r, close)) return v;
    JsonValue **tail = &v->child;
    do {
        const char *key = object ? read_string(r) : NULL;
        if (object && !accept(r, ':')) fail(r, "expected ':'");
        if (r->error) return v;
        *tail = read_value(r, depth + 1);
        (*tail)->key = key;
        tail = &(*tail)->next;
        v->n++;
    } while (!r->error && accept(r, ','));
    if (!r->error && !accept(r, close))
        fail(r, object ? "expected ',' or '}'" : "expected ',' or ']'");
    return v;
}

static JsonValue *read_all(Reader r, const char **error)
{
    JsonValue *v = read_value(&r, 0);
    skip_space(&r);
    if (!r.error && r.at != r.end) fail(&r, "text after the value");
    *error = r.error;
    return r.error ? NULL : v;
}

JsonValue *json_parse(Arena *a, const char *text, size_t len, const char **error)
{
    return read_all((Reader){.arena = a, .at = text, .end = text + len, .begin = text}, error);
}

JsonValue *json_parse_loose(Arena *a, const char *text, size_t len, const char **error)
{
    return read_all((Reader){a, text, text + len, text, NULL, true}, error);
}

const JsonValue *json_get(const JsonValue *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (const JsonValue *v = object->child; v; v = v->next)
        if (!strcmp(v->key, key)) return v;
    return NULL;
}
