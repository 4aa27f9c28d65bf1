// Compares two files of results. A file is JSON lines, one measurement per line, as written by netc
// bench and bench/*.sh.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

typedef struct Result {
    const char *what, *unit, *precision, *peer, *hardware; // "" if the line does not have them
    double value;
    double low, high; // quartiles; equal to value if the line has none
    bool spread;      // the line has quartiles
} Result;

typedef struct Results {
    VEC(Result) rows; // the last line of each key, since a file may have been appended to
} Results;

// -- reading --------------------------------------------------------------------------------------

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

static Result *find(const Results *r, const Result *like)
{
    for (uint32_t i = 0; i < r->rows.n; i++)
        if (same_key(&r->rows.at[i], like)) return &r->rows.at[i];
    return NULL;
}

// Parses one line into *out. false: an error was reported.
static bool take_line(Arena *a, const char *path, int row, const char *line, size_t n, Results *out)
{
    const char *error = NULL;
    JsonValue *v = json_parse(a, arena_strndup(a, line, n), n, &error);
    if (!v) return fail("%s:%d: this is not JSON: %s", path, row, error), false;
    Result r = {.what = text(v, "what"),
                .unit = text(v, "unit"),
                .precision = text(v, "precision"),
                .peer = text(v, "peer"),
                .hardware = text(v, "hardware")};
    if (!*r.what || !number(v, "value", &r.value))
        return fail("%s:%d: a result must have \"what\" and \"value\"", path, row), false;
    r.low = r.high = r.value;
    r.spread = number(v, "low", &r.low) && number(v, "high", &r.high);
    Result *old = find(out, &r);
    if (old)
        *old = r;
    else
        vec_push(a, &out->rows, r);
    return true;
}

// Reads a file of results. false: an error was reported: the file cannot be read, or a line is not
// a result.
static bool read_results(Arena *a, const char *path, Results *out)
{
    char *whole = read_text(path);
    if (!whole) return !fail_to_read_text(path, "netc bench -o writes files to compare");
    bool ok = true;
    int count = 0;
    for (const char *line = whole; *line && ok;) {
        size_t n = strcspn(line, "\n");
        count++;
        if (strspn(line, " \t\r") < n) ok = take_line(a, path, count, line, n, out);
        line += n + (line[n] == '\n');
    }
    free(whole);
    if (ok && !out->rows.n) ok = !fail("%s holds no results", path);
    return ok;
}

// -- comparing ------------------------------------------------------------------------------------

typedef enum Verdict {
    SAME,
    FASTER,
    SLOWER,
    CHANGED,
    VERDICTS
} Verdict; // CHANGED: neither is
           // better

// *ratio: how many times better b is than a; 1 if the line does not say which is better. The
// results differ if their ranges between the quartiles do not overlap and the values differ by more
// than [least]; for a line without quartiles, by more than 2.5 times that.
static Verdict judge(const Result *a, const Result *b, double least, double *ratio)
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

typedef struct Counts {
    int verdict[VERDICTS], common, only_first, only_second;
} Counts;

static void counts_json(Json *j, const Counts *n)
{
    json_key(j, "better"), json_int(j, n->verdict[FASTER]);
    json_key(j, "worse"), json_int(j, n->verdict[SLOWER]);
    json_key(j, "same"), json_int(j, n->verdict[SAME]);
    json_key(j, "only_first"), json_int(j, n->only_first);
    json_key(j, "only_second"), json_int(j, n->only_second);
}

static void counts_text(const Counts *n)
{
    printf("%d rows: %d better, %d worse, %d within the spread", n->common, n->verdict[FASTER],
           n->verdict[SLOWER], n->verdict[SAME]);
    if (n->only_first || n->only_second)
        printf("; %d only in the first, %d only in the second", n->only_first, n->only_second);
    putchar('\n');
}

static Counts print_rows(Json *j, const Results *a, const Results *b, double least)
{
    Counts n = {0};
    for (uint32_t i = 0; i < a->rows.n; i++) {
        const Result *x = &a->rows.at[i], *y = find(b, x);
        double ratio;
        if (!y) {
            n.only_first++;
            continue;
        }
        Verdict v = judge(x, y, least, &ratio);
        n.common++;
        n.verdict[v]++;
        if (j)
            row_json(j, x, y, v, ratio);
        else
            row_text(x, y, v, ratio);
    }
    for (uint32_t i = 0; i < b->rows.n; i++) n.only_second += !find(a, &b->rows.at[i]);
    return n;
}

static bool any_common(const Results *a, const Results *b)
{
    for (uint32_t i = 0; i < a->rows.n; i++)
        if (find(b, &a->rows.at[i])) return true;
    return false;
}

static int compare(Arena *arena, const char *first, const char *second, double least, bool json)
{
    Results a = {0}, b = {0};
    if (!read_results(arena, first, &a) || !read_results(arena, second, &b)) return 1;
    if (!any_common(&a, &b))
        return fail("%s and %s have no row in common: they are of different models, entries or "
                    "precisions",
                    first, second);
    const char *h = a.rows.at[0].hardware, *k = b.rows.at[0].hardware;
    if (strcmp(h, k))
        fprintf(stderr, "note: the first was measured on '%s', the second on '%s'\n", h, k);
    Counts n;
    if (json) {
        Buf out = buf_new(arena);
        Json j = json_writer(&out);
        json_object(&j), json_key(&j, "rows"), json_array(&j);
        n = print_rows(&j, &a, &b, least);
        json_end(&j);
        counts_json(&j, &n);
        json_end(&j);
        puts(out.data);
    } else {
        printf("%-44s %12s %12s %-8s %9s\n", "what", "first", "second", "unit", "better");
        n = print_rows(NULL, &a, &b, least);
        counts_text(&n);
    }
    return n.verdict[SLOWER] ? 3 : 0;
}

int compare_results(const char *first, const char *second, double least, bool json)
{
    Arena *a = arena_new();
    jmp_buf oom;
    int code;
    if (!a || setjmp(oom)) {
        code = fail("out of memory") + 1;
    } else {
        arena_on_oom(a, &oom);
        code = compare(a, first, second, least, json);
    }
    arena_free(a);
    return code;
}
