#include "cli/results.h"

#include <math.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const JsonValue *line, const char *key)
{
    const JsonValue *v = json_get(line, key);
    return v && v->kind == JSON_STRING ? v->string : "";
}

static bool number(const JsonValue *line, const char *key, double *out)
{
    const JsonValue *v = json_get(line, key);
    if (!v || v->kind != JSON_NUMBER) return false;
    *out = v->number;
    return true;
}

static bool same_key(const Result *a, const Result *b)
{
    return !strcmp(a->what, b->what) && !strcmp(a->unit, b->unit) &&
           !strcmp(a->precision, b->precision) && !strcmp(a->peer, b->peer);
}

const Result *results_find(const Results *r, const Result *like)
{
    for (uint32_t i = 0; i < r->rows.n; i++)
        if (same_key(&r->rows.at[i], like)) return &r->rows.at[i];
    return NULL;
}

bool results_read(Arena *a, const char *path, Results *out)
{
    char *whole = read_text(path);
    if (!whole) return fail("cannot read %s: %s", path, strerror(errno)), false;
    bool ok = true;
    int count = 0;
    for (const char *line = whole; *line && ok;) {
        size_t n = strcspn(line, "\n");
        const char *error = NULL;
        count++;
        if (n && strspn(line, " \t\r") < n) {
            JsonValue *v = json_parse(a, arena_strndup(a, line, n), n, &error);
            Result r = {.what = text(v, "what"),
                        .unit = text(v, "unit"),
                        .precision = text(v, "precision"),
                        .peer = text(v, "peer"),
                        .hardware = text(v, "hardware")};
            if (!v) {
                ok = !fail("%s:%d: this is no JSON: %s", path, count, error);
            } else if (!*r.what || !number(v, "value", &r.value)) {
                ok = !fail("%s:%d: a result has \"what\" and \"value\"", path, count);
            } else {
                r.low = r.high = r.value;
                r.spread = number(v, "low", &r.low) && number(v, "high", &r.high);
                Result *old = (Result *)(uintptr_t)results_find(out, &r);
                if (old)
                    *old = r;
                else
                    vec_push(a, &out->rows, r);
            }
        }
        line += n + (line[n] == '\n');
    }
    free(whole);
    if (ok && !out->rows.n) ok = !fail("%s holds no result", path);
    return ok;
}

Verdict results_judge(const Result *a, const Result *b, double least, double *ratio)
{
    size_t n = strlen(a->unit);
    bool rate = n > 1 && !strcmp(a->unit + n - 2, "/s");
    bool known = rate || !strcmp(a->unit, "s") || !strcmp(a->unit, "us") ||
                 !strcmp(a->unit, "ms") || !strcmp(a->unit, "bytes");
    *ratio = 1;
    if (!known || !(a->value > 0) || !(b->value > 0))
        return a->value == b->value || (isnan(a->value) && isnan(b->value)) ? SAME : CHANGED;
    *ratio = rate ? b->value / a->value : a->value / b->value;
    bool both = a->spread && b->spread;
    double more = *ratio > 1 ? *ratio - 1 : 1 / *ratio - 1;
    bool apart = b->low > a->high || b->high < a->low;
    if (!apart || more <= (both ? least : 2.5 * least)) return SAME;
    return *ratio > 1 ? FASTER : SLOWER;
}

static void row_text(const Result *a, const Result *b, Verdict v, double ratio)
{
    static const char *const words[] = {"", "better", "WORSE", "differs"};
    printf("%-44s %12.5g %12.5g %-8s %8.3fx  %s\n", a->what, a->value, b->value, a->unit, ratio,
           words[v]);
}

static void row_json(Json *j, const Result *a, const Result *b, Verdict v, double ratio)
{
    static const char *const words[] = {"same", "better", "worse", "differs"};
    json_object(j);
    json_key(j, "what"), json_string(j, a->what);
    json_key(j, "unit"), json_string(j, a->unit);
    json_key(j, "precision"), json_string(j, a->precision);
    json_key(j, "peer"), json_string(j, a->peer);
    json_key(j, "first"), json_double(j, a->value);
    json_key(j, "second"), json_double(j, b->value);
    json_key(j, "ratio"), json_double(j, ratio);
    json_key(j, "verdict"), json_string(j, words[v]);
    json_end(j);
}

typedef struct Compare {
    const char *first, *second;
    double least;
    bool json;
} Compare;

static int compare(const Compare *c, Arena *arena)
{
    Results a = {0}, b = {0};
    Buf out = buf_new(arena);
    Json j = json_writer(&out);
    int common = 0, count[4] = {0};
    if (!results_read(arena, c->first, &a) || !results_read(arena, c->second, &b)) return 1;
    for (uint32_t i = 0; i < a.rows.n; i++) common += results_find(&b, &a.rows.at[i]) != NULL;
    if (!common)
        return fail("%s and %s have no row in common: they are of different models, entries or "
                    "precisions",
                    c->first, c->second);
    const char *h = a.rows.at[0].hardware, *k = b.rows.at[0].hardware;
    if (strcmp(h, k))
        fprintf(stderr, "note: the first was measured on '%s', the second on '%s'\n", h, k);
    if (c->json)
        json_object(&j), json_key(&j, "rows"), json_array(&j);
    else
        printf("%-44s %12s %12s %-8s %9s\n", "what", "first", "second", "unit", "better");
    for (uint32_t i = 0; i < a.rows.n; i++) {
        const Result *x = &a.rows.at[i], *y = results_find(&b, x);
        double ratio;
        if (!y) continue;
        Verdict v = results_judge(x, y, c->least, &ratio);
        count[v]++;
        (c->json ? row_json(&j, x, y, v, ratio) : row_text(x, y, v, ratio));
    }
    int only[2] = {(int)a.rows.n - common, 0};
    for (uint32_t i = 0; i < b.rows.n; i++) only[1] += !results_find(&a, &b.rows.at[i]);
    if (c->json) {
        json_end(&j);
        json_key(&j, "better"), json_int(&j, count[FASTER]);
        json_key(&j, "worse"), json_int(&j, count[SLOWER]);
        json_key(&j, "same"), json_int(&j, count[SAME]);
        json_key(&j, "only_first"), json_int(&j, only[0]);
        json_key(&j, "only_second"), json_int(&j, only[1]);
        json_end(&j);
        puts(out.data);
    } else {
        printf("%d rows: %d better, %d worse, %d within the spread", common, count[FASTER],
               count[SLOWER], count[SAME]);
        if (only[0] || only[1])
            printf("; %d only in the first, %d only in the second", only[0], only[1]);
        putchar('\n');
    }
    return count[SLOWER] ? 3 : 0;
}

int compare_results(const char *first, const char *second, double least, bool json)
{
    Compare c = {first, second, least, json};
    Arena *a = arena_new();
    jmp_buf oom;
    int code;
    if (!a || setjmp(oom)) {
        code = fail("out of memory") + 1;
    } else {
        arena_on_oom(a, &oom);
        code = compare(&c, a);
    }
    arena_free(a);
    return code;
}
