// Tables of numbers as text, .csv and .tsv: one example per line, with or without a header line.
// Numbers are read the same in every locale. Lines that are blank or begin with # are skipped.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/names.h"
#include "base/plain.h"
#include "runtime/data/data_read.h"

bool rt_csv_named(const char *path)
{
    return rt_path_named(path, ".csv .tsv ");
}

enum { MOST_COLUMNS = 1 << 20, LONGEST = 400 }; // LONGEST: characters of a number

typedef struct Field {
    const char *at;
    size_t n;
} Field;

typedef struct Table {
    const char *path;
    const char *at, *end; // at: the next line
    int64_t line;         // its number, from 1
    char separator;
    Field *field; // of the current line
    int64_t n, cap;
    char **name; // names of the columns, or NULL
    int64_t columns;
    int64_t *taken; // the columns that are read, in order
    int64_t ntaken;
    RtError *e;
} Table;

// -- lines and fields -----------------------------------------------------------------------------

static bool blank(char c)
{
    return c == ' ' || c == '\r' || c == '\t';
}

static Field trimmed(const char *at, size_t n)
{
    while (n && blank(at[n - 1])) n--;
    while (n && blank(*at)) at++, n--;
    return (Field){at, n};
}

static bool add_field(Table *t, Field f)
{
    if (t->n == t->cap) {
        int64_t cap = t->cap ? 2 * t->cap : 16;
        Field *more = cap <= MOST_COLUMNS ? realloc(t->field, (size_t)cap * sizeof *more) : NULL;
        if (!more)
            return rt_fail(t->e, cap > MOST_COLUMNS ? RT_USER : RT_OOM,
                           cap > MOST_COLUMNS ? "%s:%" PRId64 ": more columns than a table may have"
                                              : "%s:%" PRId64 ": out of memory",
                           t->path, t->line),
                   false;
        t->field = more;
        t->cap = cap;
    }
    t->field[t->n++] = f;
    return true;
}

// Reads a field from p on, without its quotes. *next: the separator after it, or the end of the
// line.
static bool take_field(Table *t, const char *p, const char *stop, Field *out, const char **next)
{
    while (p < stop && *p != t->separator && blank(*p)) p++;
    if (p == stop || *p != '"') {
        const char *end = memchr(p, t->separator, (size_t)(stop - p));
        *next = end ? end : stop;
        *out = trimmed(p, (size_t)(*next - p));
        return true;
    }
    const char *close = ++p;
    while (close < stop && (*close != '"' || (close + 1 < stop && close[1] == '"')))
        close += 1 + (*close == '"');
    *next = close < stop ? close + 1 : stop;
    while (*next < stop && **next != t->separator && blank(**next)) ++*next;
    if (close == stop || (*next < stop && **next != t->separator))
        return rt_fail(t->e, RT_USER, "%s:%" PRId64 ": a quote that does not end with its field",
                       t->path, t->line),
               false;
    *out = trimmed(p, (size_t)(close - p));
    return true;
}

// Reads the fields of the next line that is not empty. false: there is none, or an error was
// reported.
static bool next_line(Table *t)
{
    for (t->n = 0; t->at < t->end; t->line++) {
        const char *p = t->at, *stop = memchr(p, '\n', (size_t)(t->end - p));
        if (!stop) stop = t->end;
        t->at = stop < t->end ? stop + 1 : stop;
        if (memchr(p, 0, (size_t)(stop - p))) {
            rt_fail(t->e, RT_USER, "%s:%" PRId64 ": there is a zero byte in it, so it is no text",
                    t->path, t->line);
            return false;
        }
        Field whole = trimmed(p, (size_t)(stop - p));
        if (!whole.n || *whole.at == '#') continue;
        if (stop > p && stop[-1] == '\r') stop--;
        if (!t->separator)
            t->separator = rt_path_named(t->path, ".tsv ")                                 ? '\t'
                           : memchr(p, ';', (size_t)(stop - p))                            ? ';'
                           : memchr(p, ',', (size_t)(stop - p))                            ? ','
                           : !rt_csv_named(t->path) && memchr(p, '\t', (size_t)(stop - p)) ? '\t'
                                                                                           : ',';
        for (;; p++) {
            Field f;
            if (!take_field(t, p, stop, &f, &p) || !add_field(t, f)) return false;
            if (p == stop) break;
        }
        t->line++;
        return true;
    }
    return false;
}

// -- numbers --------------------------------------------------------------------------------------

typedef struct Number {
    double v;
    int64_t i;
    bool whole; // i is exact
} Number;

// If the digits fit and the power of ten is exact, one operation gives the nearest double.
static bool short_number(Field f, Number *out)
{
    static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *p = f.at, *end = f.at + f.n;
    bool minus = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    int64_t v = 0;
    int digits = 0, power = 0, e = 0;
    bool point = false, some = false;
    for (; p < end && (plain_digit(*p) || (*p == '.' && !point)); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        some = true;
        digits += digits || *p != '0';
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v))
            return false; // (negative, since there is one more negative number)
        power -= point;
    }
    if (!some) return false;
    bool exponent = p < end && (*p == 'e' || *p == 'E');
    if (exponent) {
        bool down = ++p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        if (p == end) return false;
        for (; p < end && plain_digit(*p) && e < 1000; p++) e = 10 * e + (*p - '0');
        power += down ? -e : e;
    }
    if (p != end) return false;
    if (!minus && __builtin_sub_overflow(0, v, &v)) return false;
    *out = (Number){.i = v, .whole = !point && !exponent};
    if (!out->whole && (digits > 15 || power < -22 || power > 22)) return false;
    out->v = power < 0 ? (double)v / ten[-power] : (double)v * ten[power];
    if (minus && !v) out->v = -0.0;
    return true;
}

// word: in lower case.
static bool is_word(Field f, const char *word)
{
    if (f.n != strlen(word)) return false;
    for (size_t i = 0; i < f.n; i++)
        if ((plain_alpha(f.at[i]) ? f.at[i] | 32 : f.at[i]) != word[i]) return false;
    return true;
}

static bool number(Field f, Number *out)
{
    if (short_number(f, out)) return true;
    bool yes = is_word(f, "true"); // as in Python
    if (yes || is_word(f, "false")) return *out = (Number){.v = yes, .i = yes, .whole = true}, true;
    char text[LONGEST + 1], *end;
    // (strtod also accepts hexadecimal numbers, "infinity" and "nan(...)", which are not meant
    // here)
    if (!f.n || f.n > LONGEST || memchr(f.at, 'x', f.n) || memchr(f.at, 'X', f.n) ||
        memchr(f.at, '(', f.n))
        return false;
    memcpy(text, f.at, f.n);
    text[f.n] = 0;
    double v = plain_double(text, &end);
    *out = (Number){.v = v};
    return *end == 0 && end != text && !(isinf(v) && strpbrk(text, "0123456789"));
}

// Whether it is written as a number that no double holds, such as 1e400.
static bool too_large(Field f)
{
    char text[LONGEST + 1], *end;
    if (!f.n || f.n > LONGEST || !memchr("+-.0123456789", *f.at, 13)) return false;
    memcpy(text, f.at, f.n);
    text[f.n] = 0;
    return isinf(plain_double(text, &end)) && !*end && strpbrk(text, "0123456789");
}

// Whether it is a word that says that a number is missing.
static bool missing(Field f)
{
    static const char *const none[] = {"na", "n/a", "null", "none", "-", "?"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (is_word(f, none[i])) return true;
    return false;
}

// Whether it seems to be several values behind each other, with blanks as numpy.savetxt writes them
// or with the tabs of a table that is named .csv.
static bool several(Field f)
{
    Number x;
    size_t first = 0;
    while (first < f.n && !blank(f.at[first])) first++;
    return memchr(f.at, '\t', f.n) || (first < f.n && number((Field){f.at, first}, &x));
}

static const char separators[] =
    "; values are separated by commas or semicolons, in a .tsv file by tabs";

// Advice about text where a number is expected.
static const char *instead(Field f)
{
    Number x;
    const char *comma = memchr(f.at, ',', f.n);
    if (missing(f)) return "; write nan for a missing number, with an input of floats";
    if (several(f)) return separators;
    if (comma && number((Field){f.at, (size_t)(comma - f.at)}, &x))
        return "; the decimal separator is a point, and thousands have none";
    bool text = f.n && plain_alpha(*f.at);
    return text ? "; columns of text cannot be read: give each class a number, starting from 0"
                : "";
}

// Stores the number as an element of the type. NULL: done; otherwise the reason why it is not one.
static const char *store(ProgDType t, void *at, Number x)
{
    static const struct {
        int64_t low, high;
    } range[] = {[PD_BOOL] = {0, 1},
                 [PD_U8] = {0, 255},
                 [PD_I32] = {INT32_MIN, INT32_MAX},
                 [PD_U32] = {0, UINT32_MAX},
                 [PD_I64] = {INT64_MIN, INT64_MAX}};
    if (t >= PD_BF16) {
        prog_store(t, at, x.v);
        return isfinite(x.v) && !isfinite(prog_load(t, at)) ? "is too large for" : NULL;
    }
    if (!x.whole) {
        if (!(fabs(x.v) < 9007199254740992.0) || x.v != floor(x.v))
            return "is not a whole number for";
        x.i = (int64_t)x.v;
    }
    if (x.i < range[t].low || x.i > range[t].high) return "is outside of";
    memcpy(at, &x.i, (size_t)prog_dtype_bytes(t)); // little-endian: the low bytes come first
    return NULL;
}

// -- the table ------------------------------------------------------------------------------------

// Whether the text may be meant as a number: a missing one, one with separators of thousands or a
// decimal comma, a date.
static bool like_number(Field f)
{
    bool sign = f.n && strchr("+-.", *f.at), all = f.n > sign && plain_digit(f.at[sign]);
    for (size_t i = 0; i < f.n && all; i++)
        all = plain_digit(f.at[i]) || strchr(".eE+-_,'", f.at[i]);
    return all || missing(f);
}

// Whether the first line has names, not an example. A line of text alone does, and so does one of
// text and several whole numbers in ascending order, such as "country,2001,2002", or 0. Any other
// mixture is an error, since an example would be lost.
static RtCode has_names(const Table *t, bool *names)
{
    int64_t text = -1, like = -1, numbers = 0, before = -1;
    bool ascending = true;
    Number x = {0};
    for (int64_t i = 0; i < t->n; i++) {
        Field f = t->field[i];
        bool digits = false, plain = f.n > 0;
        for (size_t k = 0; k < f.n; k++) {
            digits |= plain_digit(f.at[k]);
            plain &= plain_digit(f.at[k]);
        }
        if (!f.n) continue;
        if (!number(f, &x) && !too_large(f)) {
            if (text < 0) text = i;
            if (like < 0 && like_number(f)) like = i;
        } else if (digits) { // ("true", "nan" and "inf" may be names)
            numbers++;
            ascending = ascending && plain && x.i > before;
            before = x.i;
        }
    }
    *names = text >= 0;
    if (text < 0 || !numbers || (ascending && like < 0 && (numbers > 1 || !before))) return RT_OK;
    const Field *f = &t->field[like >= 0 ? like : text];
    const char *advice = instead(*f);
    return rt_fail(
        t->e, RT_USER,
        "%s:%" PRId64 ": column %" PRId64 ": '%.*s' is no number, but other columns are: "
        "this line is neither an example nor the names of the columns%s%s",
        t->path, t->line - 1, (int64_t)(f - t->field), (int)(f->n < 40 ? f->n : 40), f->at, advice,
        missing(*f) ? ""
                    : "; if it is an example, put a line of names before it, otherwise begin its "
                      "names with letters");
}

static bool keep_names(Table *t)
{
    t->name = calloc((size_t)t->n, sizeof *t->name);
    for (int64_t i = 0; t->name && i < t->n; i++) {
        const Field *f = &t->field[i];
        char *to = t->name[i] = malloc(f->n + 1);
        if (!to) break;
        for (size_t k = 0; k < f->n; k++) {
            *to++ = f->at[k];
            k += f->at[k] == '"' && k + 1 < f->n && f->at[k + 1] == '"';
        }
        *to = 0;
    }
    return t->name && t->name[t->n - 1];
}

// The column with a name, or with a number from 0 on; -1: there is none. If a second column has the
// name, it is stored in *twice.
static int64_t column(const Table *t, const char *word, size_t n, int64_t *twice)
{
    int64_t v = 0, found = -1;
    for (int64_t i = 0; t->name && i < t->columns; i++) {
        if (strlen(t->name[i]) != n || memcmp(t->name[i], word, n)) continue;
        if (found >= 0) return *twice = i, found;
        found = i;
    }
    if (found >= 0) return found;
    for (size_t i = 0; i < n; i++) {
        if (!plain_digit(word[i]) || v > MOST_COLUMNS) return -1;
        v = 10 * v + (word[i] - '0');
    }
    return n && v < t->columns ? v : -1;
}

static RtCode named_twice(const Table *t, int64_t second)
{
    int64_t first = 0;
    while (strcmp(t->name[first], t->name[second])) first++;
    return rt_fail(t->e, RT_USER,
                   "%s: columns %" PRId64 " and %" PRId64
                   " are both named '%.60s'; select one by its number, or rename it",
                   t->path, first, second, t->name[second]);
}

static RtCode take(Table *t, int64_t first, int64_t last)
{
    int64_t n = t->ntaken + last - first + 1;
    if (n > MOST_COLUMNS)
        return rt_fail(t->e, RT_USER, "%s: more than %d columns are selected", t->path,
                       MOST_COLUMNS);
    int64_t *more = realloc(t->taken, (size_t)n * sizeof *more);
    if (!more) return rt_fail(t->e, RT_OOM, "%s does not fit in memory", t->path);
    for (t->taken = more; first <= last; first++) more[t->ntaken++] = first;
    return RT_OK;
}

static RtCode no_column(const Table *t, const char *word, size_t n)
{
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), word);
    const char *known[64];
    int64_t count = t->name ? (t->columns < 64 ? t->columns : 64) : 0;
    for (int64_t i = 0; i < count; i++) known[i] = t->name[i];
    return rt_fail(t->e, RT_USER, "%s has no column '%s'%s (numbers are 0 to %" PRId64 ")", t->path,
                   name, count ? advise(name, known, (size_t)count).text : "", t->columns - 1);
}

// Selects the columns of "price", "3" or "first-last". A name may contain dashes.
static RtCode pick_range(Table *t, const char *word, size_t n)
{
    int64_t twice = -1, first = column(t, word, n, &twice), last = first;
    const char *missing = word; // what no column is called
    size_t length = n;
    const char *dash = first < 0 ? memchr(word, '-', n) : NULL;
    for (; dash; dash = memchr(dash + 1, '-', n - (size_t)(dash + 1 - word))) {
        size_t before = (size_t)(dash - word);
        twice = -1;
        int64_t from = column(t, word, before, &twice);
        int64_t to = column(t, dash + 1, n - before - 1, &twice);
        if (from >= 0 && to >= from) {
            first = from, last = to;
            break;
        }
        if (from >= 0 && to >= 0)
            return rt_fail(t->e, RT_USER, "%s: the columns '%.*s' end before they begin", t->path,
                           (int)n, word);
        if (from >= 0 && before + 1 < n) missing = dash + 1, length = n - before - 1;
        if (to >= 0 && before) missing = word, length = before;
    }
    if (first < 0) return no_column(t, missing, length);
    return twice >= 0 ? named_twice(t, twice) : take(t, first, last);
}

// Selects the columns of "price", "3", "first-last", or of several such words between commas.
static RtCode pick(Table *t, const char *part)
{
    if (!part) return take(t, 0, t->columns - 1);
    int64_t twice;
    if (column(t, part, strlen(part), &twice) >= 0) return pick_range(t, part, strlen(part));
    for (size_t n;; part += n + 1) {
        n = strcspn(part, ",");
        if (pick_range(t, part, n)) return t->e->code;
        if (!part[n]) return RT_OK;
    }
}

// Checks that the columns of a line are an example of the wanted type.
static RtCode fit(const Table *t, const ProgType *wanted, ProgType *out)
{
    int64_t taken = t->ntaken, need = 1;
    *out = (ProgType){.dtype = PD_F32, .rank = 2, .dim = {0, taken}};
    if (!wanted) return RT_OK;
    *out = (ProgType){.dtype = wanted->dtype, .rank = wanted->rank + 1};
    bool known = true;
    for (int i = 0; i < wanted->rank; i++) {
        known =
            known && wanted->dim[i] >= 0 && !__builtin_mul_overflow(need, wanted->dim[i], &need);
        out->dim[i + 1] = wanted->dim[i];
    }
    if (!known && wanted->rank == 1) out->dim[1] = need = taken, known = true;
    char text[200];
    prog_type_text(text, sizeof text, wanted);
    if (known && need == taken) return RT_OK;
    if (!known)
        return rt_fail(t->e, RT_USER,
                       "%s: the size of an example, %s, is not known; give it with -D", t->path,
                       text);
    const Field *f = t->field;
    if (t->columns == 1 && need > 1 && (several(*f) || memchr(f->at, ' ', f->n)))
        return rt_fail(t->e, RT_USER,
                       "%s: an example of the model's input is %s, but there is only one column, "
                       "'%.*s'%s",
                       t->path, text, (int)(f->n < 40 ? f->n : 40), f->at, separators);
    char range[32] = ""; // such as there might be
    if (need > 1) snprintf(range, sizeof range, " or FILE:0-%" PRId64, need - 1);
    return rt_fail(t->e, RT_USER,
                   "%s: an example of the model's input is %s, which is %" PRId64
                   " of the table's columns, not %" PRId64 "; pick %s as in FILE:NAME%s FILE:0%s",
                   t->path, text, need, taken, need > 1 ? "them" : "it", need > 1 ? "," : " or",
                   range);
}

// behind: text to append directly to [why].
static RtCode bad_value(const Table *t, int64_t column, const char *why, const char *behind)
{
    const Field *f = &t->field[column];
    char name[80] = "";
    if (t->name) snprintf(name, sizeof name, " ('%.60s')", t->name[column]);
    return rt_fail(t->e, RT_USER,
                   f->n ? "%s:%" PRId64 ": column %" PRId64 "%s: '%.*s' %s%s"
                        : "%s:%" PRId64 ": column %" PRId64 "%s is empty",
                   t->path, t->line - 1, column, name, (int)(f->n < 40 ? f->n : 40), f->at, why,
                   behind);
}

// Stores the current line as the next row.
static RtCode take_line(Table *t, const ProgType *type, unsigned char *to)
{
    if (t->n != t->columns)
        return rt_fail(t->e, RT_USER,
                       "%s:%" PRId64 ": %" PRId64 " column%s, where the first line has %" PRId64,
                       t->path, t->line - 1, t->n, t->n == 1 ? "" : "s", t->columns);
    size_t width = (size_t)prog_dtype_bytes(type->dtype);
    for (int64_t k = 0; k < t->ntaken; k++, to += width) {
        const int64_t i = t->taken[k];
        Number x;
        if (!number(t->field[i], &x)) return bad_value(t, i, "is no number", instead(t->field[i]));
        const char *wrong = store(type->dtype, to, x);
        if (wrong) {
            char of[16];
            snprintf(of, sizeof of, " %s", prog_dtype_name(type->dtype));
            return bad_value(t, i, wrong, of);
        }
    }
    return RT_OK;
}

static RtCode take_lines(Table *t, const ProgType *type, RtArray *out)
{
    size_t row = (size_t)t->ntaken * (size_t)prog_dtype_bytes(type->dtype), cap = 0;
    *out = (RtArray){.type = *type};
    RtCode code = RT_OK;
    do {
        if (out->bytes + row > cap) {
            cap = 2 * cap + row + 4096;
            unsigned char *more = realloc(out->data, cap);
            if (!more) {
                code = rt_fail(t->e, RT_OOM, "%s does not fit in memory", t->path);
                break;
            }
            out->data = more;
        }
        code = take_line(t, type, (unsigned char *)out->data + out->bytes);
        out->bytes += row;
        out->type.dim[0]++;
    } while (!code && next_line(t));
    if (!code) code = t->e->code;
    if (code) rt_array_free(out);
    return code;
}

static RtCode parse(Table *t, const char *part, const ProgType *wanted, RtArray *out)
{
    ProgType type;
    if (next_line(t)) {
        t->columns = t->n;
        bool names;
        if (has_names(t, &names)) return t->e->code;
        if (names && !keep_names(t))
            return rt_fail(t->e, RT_OOM, "%s does not fit in memory", t->path);
        if (pick(t, part) || fit(t, wanted, &type)) return t->e->code;
        if (!names || next_line(t)) return take_lines(t, &type, out);
    }
    if (t->e->code) return t->e->code;
    return rt_fail(t->e, RT_USER, "%s holds no lines of numbers", t->path);
}

RtCode rt_csv_parse(const char *path, const char *part, const ProgType *wanted, RtBytes *b,
                    RtArray *out, RtError *e)
{
    Table t = {.path = path, .at = (const char *)b->at, .line = 1, .e = e};
    t.end = t.at + b->n;
    *e = (RtError){0};
    if (b->n >= 3 && !memcmp(t.at, "\xef\xbb\xbf", 3)) t.at += 3; // a byte-order mark
    const bool wide = b->n >= 2 && (!memcmp(t.at, "\xff\xfe", 2) || !memcmp(t.at, "\xfe\xff", 2));
    RtCode code = wide ? rt_fail(e, RT_USER, "%s is UTF-16: save it as UTF-8", path)
                       : parse(&t, part, wanted, out);
    for (int64_t i = 0; t.name && i < t.columns; i++) free(t.name[i]);
    free(t.name);
    free(t.taken);
    free(t.field);
    if (!code) free(b->at);
    return code;
}

// -- writing --------------------------------------------------------------------------------------

typedef struct Written {
    RtWriter *file;
    RtError *e;
    size_t n;
    char room[8192];
} Written;

// The smallest number of digits that distinguishes the value from its neighbours.
static int digits_of(ProgDType t, double v)
{
    char text[40];
    int most = t == PD_F64 ? 17 : t == PD_F32 ? 9 : t == PD_F16 ? 5 : 4;
    for (int k = most - 3; k < most; k++) {
        plain_format(text, sizeof text, "%.*g", k, v);
        double back = plain_double(text, NULL);
        if (t == PD_F32) back = (float)back;
        if (t == PD_F16 || t == PD_BF16)
            back = half_round(back, t == PD_F16 ? HALF_F16 : HALF_BF16);
        if (back == v) return k;
    }
    return most;
}

static RtCode element(Written *w, ProgDType t, const void *at, char behind)
{
    enum { WIDEST = 40 };
    if (w->n + WIDEST > sizeof w->room) {
        if (rt_writer_put(w->file, w->room, w->n, w->e)) return w->e->code;
        w->n = 0;
    }
    char *to = w->room + w->n;
    double v = prog_load(t, at);
    if (t >= PD_BF16) {
        w->n += (size_t)(isnan(v) ? snprintf(to, WIDEST, "nan%c", behind)
                                  : plain_format(to, WIDEST, "%.*g%c", digits_of(t, v), v, behind));
        return RT_OK;
    }
    int64_t i = 0;
    memcpy(&i, at, (size_t)prog_dtype_bytes(t));
    w->n += (size_t)snprintf(to, WIDEST, "%" PRId64 "%c", t == PD_I32 ? (int32_t)i : i, behind);
    return RT_OK;
}

RtCode rt_csv_put(RtWriter *file, const ProgType *type, const void *data, RtError *e)
{
    Written w = {.file = file, .e = e};
    int64_t width = prog_dtype_bytes(type->dtype), n = prog_type_bytes(type) / width;
    int64_t rows = type->rank ? type->dim[0] : 1, columns = rows ? n / rows : 0;
    char separator = rt_path_named(file->path, ".tsv ") ? '\t' : ',';
    RtCode code = RT_OK;
    for (int64_t i = 0; i < n && !code; i++)
        code = element(&w, type->dtype, (const char *)data + i * width,
                       (i + 1) % columns ? separator : '\n');
    return code ? code : rt_writer_put(file, w.room, w.n, e);
}

RtCode rt_csv_write(const char *path, const ProgType *type, const void *data, RtError *e)
{
    RtWriter w;
    if (prog_type_bytes(type) < 0) return rt_fail(e, RT_USER, "%s: the array is too big", path);
    if (rt_writer_begin(&w, path, e)) return e->code;
    return rt_writer_end(&w, rt_csv_put(&w, type, data, e), e);
}
