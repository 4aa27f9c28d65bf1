// base/: arena, buffers, maps, JSON, diagnostics.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/json.h"
#include "base/map.h"
#include "base/names.h"
#include "base/plain.h"
#include "tests/unit/unit.h"

static Arena *arena;

static void arenas(void)
{
    size_t before = arena_bytes(arena);
    char *p = arena_alloc(arena, 3), *q = arena_alloc(arena, 40 << 20);
    CHECK(((uintptr_t)p & 15) == 0 && ((uintptr_t)q & 15) == 0);
    CHECK(!p[0] && !p[2] && !q[(40 << 20) - 1] && arena_bytes(arena) >= before + (40u << 20));
    CHECK(!strcmp(arena_printf(arena, "%d-%s", 7, "x"), "7-x"));
    CHECK(!strcmp(arena_strndup(arena, "abcdef", 3), "abc"));
    VEC(int) v = {0};
    for (int i = 0; i < 1000; i++) vec_push(arena, &v, i * i);
    CHECK(v.n == 1000 && v.at[999] == 999 * 999 && v.at[0] == 0);
    Arena *small = arena_new();
    jmp_buf oom;
    volatile int caught = 0;
    if (!setjmp(oom)) {
        arena_on_oom(small, &oom);
        arena_array(small, SIZE_MAX / 2, 16); // the product overflows
    } else {
        caught = 1;
    }
    CHECK(caught);
    arena_free(small);
}

// Arenas inside another: emptied, their memory is used again, zeroed; freed with the whole.
static void arenas_inside(void)
{
    enum { MANY = 5 << 20 };
    Arena *whole = arena_new(), *first = arena_inside(whole), *second = arena_inside(whole);
    size_t before = arena_bytes(whole);
    char *small = arena_strdup(first, "kept"), *a = memset(arena_alloc(second, MANY), 1, MANY);
    char *own = memset(arena_alloc(second, 100), 1, 100);
    arena_empty(second);
    char *b = arena_alloc(arena_inside(whole), MANY), *c = arena_alloc(second, 100);
    CHECK(a == b && c == own && !b[0] && !b[MANY - 1] && !c[0] && !c[99]);
    CHECK(!strcmp(small, "kept") && arena_bytes(whole) - before < 1000);
    arena_empty(first);
    arena_empty(first); // holds nothing
    jmp_buf oom;
    volatile bool caught = false;
    if (!setjmp(oom)) {
        arena_on_oom(whole, &oom);
        arena_array(first, SIZE_MAX / 2, 16);
    } else {
        caught = true;
    }
    CHECK(caught);
    arena_free(whole);
}

// What the formatter of texts and integers says, beside snprintf.
#define CHECK_FORMAT(...)                                                                          \
    do {                                                                                           \
        char want[64], got[64], part[8];                                                           \
        int n = snprintf(want, sizeof want, __VA_ARGS__);                                          \
        CHECK(plain_format(got, sizeof got, __VA_ARGS__) == n);                                    \
        CHECK_MSG(!strcmp(got, want), "%s instead of %s", got, want);                              \
        CHECK(plain_format(NULL, 0, __VA_ARGS__) == n);                                            \
        CHECK(plain_format(part, sizeof part, __VA_ARGS__) == n);                                  \
        CHECK(strlen(part) == (n < 7 ? (size_t)n : 7) && !strncmp(part, want, 7));                 \
    } while (0)

static void formats(void)
{
    CHECK_FORMAT("%s", "");
    CHECK_FORMAT("a%sb%%c%s", "text", "of more than the room there is");
    CHECK_FORMAT("[%5s] [%-5s] [%2s]", "abc", "abc", "abc");
    CHECK_FORMAT("%.*s|%.*s|%.*s", 2, "abc", 9, "abc", -1, "abc");
    CHECK_FORMAT("%c%3c%-3c|", 'x', 'y', 'z');
    CHECK_FORMAT("%d %d %d", 0, INT_MIN, INT_MAX);
    CHECK_FORMAT("%5d|%-5d|%05d|%05d|", 42, -42, 42, -42);
    CHECK_FORMAT("%u %5u %zu", UINT_MAX, 7u, SIZE_MAX);
    CHECK_FORMAT("%ld %lld %lld", -7L, LLONG_MIN, LLONG_MAX);
    CHECK_FORMAT("%lu %llu", 1UL, ULLONG_MAX);
    CHECK_FORMAT("%x %04x %016llx %2x", 255u, 0xabcu, 0x123456789abcdefULL, 4096u);
    CHECK_FORMAT("%.3g %d %a %+d %.2s", 0.1, 3, 1.5, 4, "abc"); // not of these
    Buf b = buf_new(arena);
    for (int i = 0; i < 200; i++) buf_printf(&b, "%s%d", "seventeen letters", i % 10);
    CHECK(b.len == 3600 && !strcmp(b.data + 3582, "seventeen letters9"));
    char *much = arena_printf(arena, "%300d|", 1);
    CHECK(strlen(much) == 301 && !strcmp(much + 298, " 1|"));
}

static void buffers(void)
{
    Buf b = buf_new(arena);
    for (int i = 0; i < 500; i++) buf_printf(&b, "%d,", i);
    CHECK(b.len == strlen(b.data) && !strncmp(b.data, "0,1,2,", 6));
    const double values[] = {0.1, 1e-8, 1.0 / 3, 1e300, -0.0, 5e-324, 123456789, 2.5, 1e22};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        Buf d = buf_new(arena);
        buf_double(&d, values[i]);
        double back = strtod(d.data, NULL);
        CHECK_MSG(!memcmp(&back, &values[i], sizeof back), "%s", d.data);
    }
    Buf d = buf_new(arena);
    buf_double(&d, 0.1);
    CHECK(!strcmp(d.data, "0.1"));
    Buf e = buf_new(arena), f = buf_new(arena);
    int64_t v = INT64_MIN;
    for (int i = 0; i < 500; i++, v = (int64_t)((uint64_t)v * 6364136223846793005u + 1) >> i % 64) {
        buf_int(&e, v);
        buf_printf(&f, "%lld", (long long)v);
    }
    CHECK(e.len == f.len && !strcmp(e.data, f.data));
    buf_pad(&d, 3, '.');
    buf_pad(&d, -3, '.');
    CHECK(!strcmp(d.data, "0.1..."));
    Buf odd = buf_new(arena);
    buf_double(&odd, INFINITY);
    buf_char(&odd, ' ');
    buf_double(&odd, -INFINITY);
    buf_char(&odd, ' ');
    buf_double(&odd, NAN);
    CHECK(!strcmp(odd.data, "inf -inf nan"));
}

static void maps(void)
{
    StrMap m = strmap_new(arena);
    IdMap ids = idmap_new(arena);
    CHECK(!strmap_get(&m, "nothing") && !idmap_get(&ids, 3, NULL));
    static int things[5000];
    for (int i = 0; i < 5000; i++) {
        strmap_set(&m, arena_printf(arena, "key%d", i), &things[i]);
        idmap_set(&ids, (uint64_t)i << 32, (uint64_t)i);
    }
    int wrong = 0;
    for (int i = 0; i < 5000; i++) {
        uint64_t v = 0;
        wrong += strmap_get(&m, arena_printf(arena, "key%d", i)) != &things[i];
        wrong += !idmap_get(&ids, (uint64_t)i << 32, &v) || v != (uint64_t)i;
    }
    CHECK(wrong == 0 && m.n == 5000 && ids.n == 5000);
    strmap_set(&m, "key7", &things[0]);
    CHECK(m.n == 5000 && strmap_get(&m, "key7") == &things[0] && !strcmp(m.entry[7].key, "key7"));
    CHECK(!strmap_has(&m, "key5000") && !idmap_get(&ids, 1, NULL));
    CHECK(hash_mix(1, 2) != hash_mix(2, 1) && hash_bytes("abc", 3, 0) != hash_bytes("abc\0", 4, 0));
}

static void json(void)
{
    Buf b = buf_new(arena);
    Json j = json_writer(&b);
    json_object(&j);
    json_key(&j, "a\"b"), json_string(&j, "line\n\\");
    json_key(&j, "list"), json_array(&j);
    json_int(&j, -5), json_double(&j, 0.5), json_double(&j, INFINITY), json_bool(&j, true);
    json_end(&j), json_end(&j);
    CHECK(!strcmp(b.data, "{\"a\\\"b\":\"line\\n\\\\\",\"list\":[-5,0.5,null,true]}"));
    const char *error = NULL;
    JsonValue *v = json_parse(arena, b.data, b.len, &error);
    CHECK(v && v->kind == JSON_OBJECT && v->n == 2);
    CHECK(v && !strcmp(json_get(v, "a\"b")->string, "line\n\\"));
    static const char pair[] = "[\"\\ud83d\\ude00 \\u00e9\"]", half[] = "[\"\\ud83d\\u0041\"]";
    const JsonValue *s = json_parse(arena, pair, sizeof pair - 1, &error);
    CHECK(s && !strcmp(s->child->string, "\xf0\x9f\x98\x80 \xc3\xa9"));
    CHECK(!json_parse(arena, half, sizeof half - 1, &error) && strstr(error, "surrogate"));
    static const char odd[] = "[\"\\ud83d\\u0041\\u0000\\udc00\\ud83d\\ude00\\ud83d!\"]",
                      end[] = "\"\\ud83d\\u\"";
    s = json_parse_loose(arena, odd, sizeof odd - 1, &error);
    CHECK(s && !strcmp(s->child->string, "\xef\xbf\xbd"
                                         "A\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd!"));
    CHECK(!json_parse_loose(arena, end, sizeof end - 1, &error));
    // Names of files: any bytes are read as they were written, by what is valid JSON.
    static const char name[] = "\xff\xc3\xa9\xed\xa0\x80\xf0\x9f\x98\x80\xc0\xaf\xe2\x82";
    Buf bytes = buf_new(arena);
    Json names = json_writer(&bytes);
    json_array(&names), json_string(&names, name), json_end(&names);
    CHECK(!strcmp(bytes.data, "[\"\\udcff\xc3\xa9\\udced\\udca0\\udc80\xf0\x9f\x98\x80"
                              "\\udcc0\\udcaf\\udce2\\udc82\"]"));
    s = json_parse(arena, bytes.data, bytes.len, &error);
    CHECK(s && !strcmp(s->child->string, name));
    const JsonValue *list = v ? json_get(v, "list") : NULL;
    CHECK(list && list->n == 4 && list->child->is_int && list->child->integer == -5);
    CHECK(list && list->child->next->number == 0.5 && list->child->next->next->kind == JSON_NULL);
    const char *const bad[] = {"",          "{",           "[1,]", "{\"a\"}",
                               "\"abc",     "[1 2]",       "nul",  "{\"a\":1}x",
                               "\"\\u12\"", "\"\\u0000\"", "-",    "\"\x01\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error = NULL;
        JsonValue *none = json_parse(arena, bad[i], strlen(bad[i]), &error);
        CHECK_MSG(!none && error, "'%s' was taken", bad[i]);
    }
    char deep[400];
    memset(deep, '[', sizeof deep);
    CHECK(!json_parse(arena, deep, sizeof deep, &error));
}

static void long_line(void) // only what stands around the span is shown
{
    Diags *d = diags_new(arena);
    char text[2001];
    memset(text, 'a', 2000);
    memcpy(text + 1000, "HERE", 5);
    memset(text + 1004, 'b', 996);
    uint32_t s = source_add(d, "m.net", text, 2000, false);
    diag_span(d, (Span){s, 1000, 1004}, "wrong");
    Buf b = buf_new(arena);
    diags_render(d, &b, false);
    CHECK(b.len < 500 && strstr(b.data, "m.net:1:1001: error: wrong\n    1 | ...aaaa"));
    const char *here = strstr(b.data, "HERE"), *caret = strstr(b.data, "^~~~\n");
    CHECK(here && strstr(here, "bbb...\n"));
    const char *line = strstr(b.data, "    1 | "), *under = strstr(b.data, "\n      | ");
    CHECK(here && caret && here - line == caret - (under + 1));
}

static void diagnostics(void)
{
    Diags *d = diags_new(arena);
    static const char user[] = "a = 1\nx = linear(y, 3)  # note\n",
                      std[] = "fn linear(x, n) {\n}\n";
    uint32_t s = source_add(d, "mlp.net", user, strlen(user), false);
    uint32_t lib = source_add(d, "std/nn.net", std, strlen(std), true);
    Loc call = loc_add(d, (Span){s, 10, 22}, 0, "linear");
    Loc inner = loc_add(d, (Span){lib, 3, 9}, call, NULL);
    CHECK(!strcmp(loc_text(d, inner), "mlp.net:2") && !strcmp(loc_text(d, 0), ""));
    CHECK(!strcmp(loc_line(d, inner), "x = linear(y, 3)"));
    diag_note(d, diag_error(d, inner, "f32[%d] does not fit", 3), "try another");
    Buf b = buf_new(arena);
    diags_render(d, &b, false);
    CHECK_MSG(strstr(b.data, "mlp.net:2:5: error: f32[3] does not fit\n"
                             "    2 | x = linear(y, 3)  # note\n"
                             "      |     ^~~~~~~~~~~~\n"),
              "%s", b.data);
    CHECK(strstr(b.data, "std/nn.net:1:4: note:") && strstr(b.data, "note: try another"));
    CHECK(d->errors == 1);
    for (int i = 0; i < 30; i++) diag_error(d, 0, "error %d", i);
    Buf many = buf_new(arena);
    diags_render(d, &many, false);
    CHECK(d->list.n == d->max_errors && strstr(many.data, "11 more errors not shown"));
    long_line();
    Buf text = buf_new(arena);
    diags_json(d, &text);
    const char *error;
    CHECK(json_parse(arena, text.data, text.len, &error));
}

static bool advises(const char *name, const char *const *known, size_t n, const char *text)
{
    return !strcmp(advise(name, known, n).text, text);
}

static void names(void)
{
    const char *const known[] = {"linear", "flatten", "softmax", "flatten"};
    CHECK(!strcmp(suggest("liner", known, 3), "linear"));
    CHECK(!strcmp(suggest("sotfmax", known, 3), "softmax"));
    CHECK(!suggest("convolution", known, 3) && !suggest("x", known, 0));
    CHECK(advises("liner", known, 4, "; did you mean 'linear'?"));
    CHECK(advises("x", known, 4, "; there are 'linear', 'flatten' and 'softmax'"));
    CHECK(advises("x", known, 2, "; there are 'linear' and 'flatten'"));
    CHECK(advises("x", known, 1, "; there is 'linear'") &&
          advises("x", known, 0, "; there are none"));
    CHECK(!*advise_near("x", known, 4).text);
    const char *many[100];
    for (int i = 0; i < 100; i++) many[i] = arena_printf(arena, "name_%d", i);
    Advice some = advise("x", many, 100);
    CHECK(strstr(some.text, "'name_0', 'name_1', ") && strstr(some.text, " and 88 more"));
    char *longest = arena_alloc(arena, 1000); // a name that fits nowhere
    memset(longest, 'n', 999);
    const char *const two[] = {longest, "short"};
    CHECK(advises("x", two, 1, ""));
    CHECK(advises("x", two, 2, "; there are 'short' and 1 more"));
    for (int i = 0; i < 100; i++) many[i] = arena_printf(arena, "%090d", i);
    CHECK(strlen(advise("x", many, 100).text) < sizeof some.text);
    CHECK(strstr(advise("x", many, 100).text, "more"));
}

int main(void)
{
    arena = arena_new();
    arenas();
    arenas_inside();
    formats();
    buffers();
    maps();
    names();
    json();
    diagnostics();
    arena_free(arena);
    return unit_done();
}
