// The parts of a report that come from files: the times of netc profile --json, the lines of netc
// train --log.
#include <math.h>
#include <string.h>

#include "lib/inspect/page.h"

static const char *read_file(Page *v, const char *path, size_t *n) // NULL: an error was reported
{
    void *bytes;
    RtError e = {0};
    if (!rt_file_read(v->arena, path, &bytes, n, &e)) return bytes ? bytes : "";
    lib_fail_rt(v->err, &e);
    return NULL;
}

static const char *string_of(const JsonValue *object, const char *key)
{
    const JsonValue *x = json_get(object, key);
    return x && x->kind == JSON_STRING ? x->string : NULL;
}

static double number_of(const JsonValue *object, const char *key, double otherwise)
{
    const JsonValue *x = json_get(object, key);
    return x && x->kind == JSON_NUMBER ? x->number : otherwise;
}

// -- a profile ------------------------------------------------------------------------------------

netc_status page_profile_read(Page *v, Measured *out)
{
    *out = (Measured){.path = v->o->profile};
    if (!out->path) return NETC_OK;
    size_t n;
    const char *text = read_file(v, out->path, &n), *wrong = NULL;
    if (!text) return NETC_INVALID;
    const JsonValue *top = json_parse(v->arena, text, n, &wrong);
    if (!top) return lib_fail(v->err, NETC_INVALID, "%s is no JSON: %s", out->path, wrong);
    const JsonValue *steps = top->kind == JSON_OBJECT ? json_get(top, "steps") : NULL;
    out->entry = steps ? string_of(top, "entry") : NULL;
    out->device = steps ? string_of(top, "device") : NULL;
    if (!out->entry || !out->device || steps->kind != JSON_ARRAY)
        return lib_fail(v->err, NETC_INVALID,
                        "%s holds no profile; 'netc profile MODEL --json' writes one", out->path);
    out->top = top;
    return NETC_OK;
}

static netc_status other_build(Page *v, const Measured *m, int row, const char *what)
{
    return lib_fail(v->err, NETC_INVALID,
                    "%s was measured for another build than this: its row %d %s. Profile it again, "
                    "or give the same model, -D, --precision and --target here",
                    m->path, row, what);
}

// Checks that a row belongs to a step of the plan: it has the same line of the model and, if it has
// the same name, the same number of bytes. (A kernel has another name if another schedule was
// measured.)
static netc_status check_row(Page *v, const Measured *m, const JsonValue *row, int number)
{
    const JsonValue *place = row->kind == JSON_OBJECT ? json_get(row, "step") : NULL;
    const char *name = place ? string_of(row, "name") : NULL, *line = string_of(row, "line");
    if (!name || !line || !place->is_int)
        return lib_fail(v->err, NETC_INVALID,
                        "%s: row %d has no step, name and line; profile it again with this netc",
                        m->path, number);
    for (int i = 0; i < v->items.n; i++) {
        const Item *x = &v->items.at[i];
        if (x->step - v->e->steps != place->integer) continue;
        if (strcmp(x->line, line))
            return other_build(
                v, m, number,
                arena_printf(v->arena, "is of line '%s', and here '%s'", line, x->line));
        if (!strcmp(x->name, name) && number_of(row, "bytes", -1) != (double)x->cost.bytes)
            return other_build(v, m, number, "moves other bytes");
        return NETC_OK;
    }
    return other_build(v, m, number, "is not a step of it");
}

netc_status page_profile(Page *v, const Measured *m)
{
    Json *j = v->j;
    json_key(j, "profile");
    if (!m->top) {
        json_null(j);
        return NETC_OK;
    }
    static const char *const numbers[] = {
        "copy_bytes_per_s",    "seconds", "low",           "high",
        "sum_seconds",         "items",   "floor_seconds", "apart_seconds",
        "empty_launch_seconds"};
    json_object(j);
    json_key(j, "device"), json_string(j, m->device);
    const char *cache = string_of(m->top, "cache");
    json_key(j, "cache"), json_string(j, cache ? cache : "warm");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_key(j, numbers[i]), json_double(j, number_of(m->top, numbers[i], 0));
    json_key(j, "matmul"), json_object(j);
    const JsonValue *rates = json_get(m->top, "matmul_flops_per_s");
    for (const JsonValue *x = rates && rates->kind == JSON_OBJECT ? rates->child : NULL; x;
         x = x->next)
        if (x->kind == JSON_NUMBER) json_key(j, x->key), json_double(j, x->number);
    json_end(j);
    json_key(j, "rows"), json_array(j); // [place, name, calls, seconds, low, high, floor, flops]
    netc_status status = NETC_OK;
    int number = 0;
    for (const JsonValue *x = json_get(m->top, "steps")->child; x && status == NETC_OK;
         x = x->next) {
        status = check_row(v, m, x, ++number);
        if (status != NETC_OK) break;
        json_array(j);
        json_int(j, json_get(x, "step")->integer);
        json_int(j, page_text(v, string_of(x, "name")));
        json_double(j, number_of(x, "calls", 1));
        json_double(j, number_of(x, "seconds", 0));
        json_double(j, number_of(x, "low", 0)), json_double(j, number_of(x, "high", 0));
        json_double(j, number_of(x, "floor_seconds", 0));
        json_double(j, number_of(x, "flops", 0));
        json_end(j);
    }
    json_end(j), json_end(j);
    return status;
}

// -- logs -----------------------------------------------------------------------------------------

typedef struct Series {
    const char *name;
    VEC(double) x, y;
} Series;
typedef VEC(Series) AllSeries;

static Series *series_of(Page *v, AllSeries *all, const char *name)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (!strcmp(all->at[i].name, name)) return &all->at[i];
    Series s = {.name = name};
    vec_push(v->arena, all, s);
    return &all->at[all->n - 1];
}

static const char *take_line(Page *v, AllSeries *all, const char *line, size_t n)
{
    const char *wrong = NULL;
    const JsonValue *x = json_parse(v->arena, line, n, &wrong);
    if (!x) return arena_printf(v->arena, "no JSON: %s", wrong);
    const JsonValue *step = x->kind == JSON_OBJECT ? json_get(x, "step") : NULL;
    if (!step || step->kind != JSON_NUMBER) return "no object with a number \"step\"";
    for (const JsonValue *m = x->child; m; m = m->next) {
        if (m == step || !strcmp(m->key, "epoch") || !strcmp(m->key, "seconds")) continue;
        bool gone = m->kind == JSON_NULL; // a non-finite value: a gap
        if (m->kind != JSON_NUMBER && !gone)
            return arena_printf(v->arena, "no number: \"%s\"", m->key);
        Series *s = series_of(v, all, m->key);
        vec_push(v->arena, &s->x, step->number);
        vec_push(v->arena, &s->y, gone ? (double)INFINITY : m->number);
    }
    return NULL;
}

// Reduces a series to at most MOST points: the minimum and maximum of each of half as many
// intervals.
static void series_json(Json *j, const Series *s)
{
    enum { MOST = 1600 };
    uint32_t n = s->x.n, pieces = n > MOST ? MOST / 2 : n;
    json_object(j);
    json_key(j, "name"), json_string(j, s->name);
    json_key(j, "of"), json_int(j, n);
    for (int axis = 0; axis < 2; axis++) {
        json_key(j, axis ? "y" : "x"), json_array(j);
        for (uint32_t p = 0; p < pieces; p++) {
            uint32_t begin = (uint32_t)((uint64_t)p * n / pieces),
                     end = (uint32_t)((uint64_t)(p + 1) * n / pieces), low = begin, high = begin;
            for (uint32_t i = begin; i < end; i++) {
                if (s->y.at[i] < s->y.at[low]) low = i;
                if (s->y.at[i] > s->y.at[high]) high = i;
            }
            uint32_t first = low < high ? low : high, second = low < high ? high : low;
            json_double(j, axis ? s->y.at[first] : s->x.at[first]);
            if (second != first) json_double(j, axis ? s->y.at[second] : s->x.at[second]);
        }
        json_end(j);
    }
    json_end(j);
}

static netc_status log_json(Page *v, const char *path)
{
    size_t n;
    const char *text = read_file(v, path, &n);
    if (!text) return NETC_INVALID;
    AllSeries all = {0};
    bool cut = false;
    int number = 0;
    for (const char *line = text, *end = text + n; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((stop ? stop : end) - line);
        number++;
        bool blank = strspn(line, " \t\r") >= len;
        const char *wrong = blank ? NULL : take_line(v, &all, line, len);
        if (wrong && stop)
            return lib_fail(v->err, NETC_INVALID,
                            "%s:%d is %s; 'netc train --log' writes one object per line", path,
                            number, wrong);
        cut = cut || wrong; // the last line of a log that is still being written, or whose run was
                            // killed
        line += len + 1;
    }
    if (!all.n)
        return lib_fail(v->err, NETC_INVALID,
                        "%s holds no values; 'netc train --log' writes one object per line", path);
    json_object(v->j);
    json_key(v->j, "name"), json_string(v->j, path);
    json_key(v->j, "cut"), json_bool(v->j, cut);
    json_key(v->j, "series"), json_array(v->j);
    for (uint32_t i = 0; i < all.n; i++) series_json(v->j, &all.at[i]);
    json_end(v->j), json_end(v->j);
    return NETC_OK;
}

netc_status page_logs(Page *v)
{
    netc_status status = NETC_OK;
    json_key(v->j, "logs"), json_array(v->j);
    for (int i = 0; i < v->o->nlogs && status == NETC_OK; i++) status = log_json(v, v->o->logs[i]);
    json_end(v->j);
    return status;
}
