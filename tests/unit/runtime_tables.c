// Tables as text and .npz archives: what is right is read, what is cut, turned or wrong is told;
// what is written is read back as the same bits.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/data.h"
#include "tests/unit/unit.h"

static char dir[] = "/tmp/netc-unit-XXXXXX", path_[300];

static const char *at(const char *name)
{
    snprintf(path_, sizeof path_, "%s/%s", dir, name);
    return path_;
}

static const char *put(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(at(name), "wb");
    if (!f || fwrite(bytes, 1, n, f) != n) exit(1);
    fclose(f);
    return path_;
}

static const char *table(const char *text)
{
    return put("t.csv", text, strlen(text));
}

static void bad(const char *path, const char *part, const ProgType *wanted, const char *why)
{
    RtArray a;
    RtError e = {0};
    RtCode code = rt_array_read(path, part, wanted, &a, &e);
    CHECK_MSG(code == RT_USER && strstr(e.text, why), "wanted '%s', got %d: %s", why, code, e.text);
    CHECK(!a.data);
}

// The elements of the table are these; columns: of axis 1, 0: there is none.
static void good(const char *text, const char *part, const ProgType *wanted, int columns, int n,
                 const double *want)
{
    RtArray a;
    RtError e = {0};
    RtCode code = rt_array_read(table(text), part, wanted, &a, &e);
    CHECK_MSG(!code, "%s: %s", text, e.text);
    if (code) return;
    CHECK_MSG(columns ? a.type.rank == 2 && a.type.dim[1] == columns : a.type.rank == 1,
              "%s: rank %d", text, a.type.rank);
    int64_t width = prog_dtype_bytes(a.type.dtype);
    CHECK_MSG((int64_t)a.bytes == n * width, "%s: %zu bytes", text, a.bytes);
    for (int i = 0; i < n && (int64_t)a.bytes == n * width; i++) {
        double v = prog_load(a.type.dtype, (char *)a.data + i * width);
        CHECK_MSG(v == want[i] || (isnan(v) && isnan(want[i])), "%s: element %d is %.17g", text, i,
                  v);
    }
    rt_array_free(&a);
}

static const ProgType f32 = {.dtype = PD_F32}, f64 = {.dtype = PD_F64}, u8 = {.dtype = PD_U8},
                      i32 = {.dtype = PD_I32}, i64 = {.dtype = PD_I64}, f16 = {.dtype = PD_F16},
                      boolean = {.dtype = PD_BOOL}, any = {.dtype = PD_F64, .rank = 1, .dim = {-1}},
                      pair = {.dtype = PD_F32, .rank = 1, .dim = {2}},
                      square = {.dtype = PD_U8, .rank = 2, .dim = {2, 2}},
                      unknown = {.dtype = PD_U8, .rank = 2, .dim = {-1, 2}};

#define WANT(...)                                                                                  \
    (sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[])                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_right(void)
{
    good("1,2\n3,4\n", NULL, &pair, 2, WANT(1, 2, 3, 4));
    good("1,2\r\n3,4", NULL, &pair, 2, WANT(1, 2, 3, 4));
    good("\xef\xbb\xbfx,y\n1,2\n", NULL, &pair, 2, WANT(1, 2));
    good("\n# said\nx,y\n\n1 , 2\n  \n 3,\t4 \n", NULL, &pair, 2, WANT(1, 2, 3, 4));
    good("1;2\n3;4\n", NULL, &pair, 2, WANT(1, 2, 3, 4));
    good("\"1\",\"2\"\n", NULL, &pair, 2, WANT(1, 2));
    good("a,\"b, \"\"c\"\"\",d\n1,2,3\n4,5,6\n", "b, \"c\"", &f32, 0, WANT(2, 5));
    good("a,b,c\n1,2,3\n4,5,6\n", "c", &f32, 0, WANT(3, 6));
    good("a,b,c\n1,2,3\n4,5,6\n", "1", &f32, 0, WANT(2, 5));
    good("a,b,c\n1,2,3\n4,5,6\n", "b-c", &pair, 2, WANT(2, 3, 5, 6));
    good("a-b,c-d,e\n1,2,3\n", "c-d-e", &pair, 2, WANT(2, 3)); // names may have dashes
    good("a-b,c-d,e\n1,2,3\n", "a-b", &f32, 0, WANT(1));
    good("a,b,c,d,e\n1,2,3,4,5\n", "e,a", &pair, 2, WANT(5, 1)); // in the order that is given
    good("a,b,c,d,e\n1,2,3,4,5\n6,7,8,9,0\n", "b,3-e", &any, 3, WANT(2, 4, 5, 7, 9, 0));
    good("\"a,b\",b,c\n1,2,3\n", "a,b", &f32, 0, WANT(1)); // a name may have a comma
    // Names beside whole numbers in ascending order, as of a data frame without names of columns.
    good("country,2001,2002\n7,1,2\n", "1-2", &pair, 2, WANT(1, 2));
    good("label,0,1\n7,1,2\n", "label", &f32, 0, WANT(7));
    good("label,0\n7,1\n", "0", &f32, 0, WANT(1));
    good(",a,b\n0,1,2\n", "a-b", &pair, 2, WANT(1, 2));
    good(",0,1\n5,1,2\n", "1-2", &pair, 2, WANT(0, 1, 1, 2));       // numbers alone are an example
    good("true,inf,nan,other\n5,1,2,3\n", "inf", &f32, 0, WANT(1)); // words
    good("a,a,b\n1,2,3\n", "b", &f32, 0, WANT(3));
    good("a,a,b\n1,2,3\n", "1", &f32, 0, WANT(2));
    good("x,y\n1,kept apart\n", "x", &f32, 0, WANT(1)); // other columns may hold text
    good("1,2,3\n", NULL, &any, 3, WANT(1, 2, 3));
    good("0\n", NULL, &f32, 0, WANT(0));
    good("1e3,-.5,+7,2.,1E-2,nan,-inf\n", NULL, &any, 7,
         WANT(1000, -0.5, 7, 2, 0.01, NAN, -INFINITY));
    good("0.1,123456789.125,1e-300,17976931348623157e292,4.9e-324\n", NULL, &any, 5,
         WANT(0.1, 123456789.125, 1e-300, 1.7976931348623157e308, 4.9e-324));
    good("0.30000000000000004\n9007199254740993\n", NULL, &f64, 0,
         WANT(0.30000000000000004, 9007199254740992.0));
    good("255\n0\n3.0\n1e2\n", NULL, &u8, 0, WANT(255, 0, 3, 100));
    good("0\n1\n", NULL, &boolean, 0, WANT(0, 1));
    good("-2147483648\n", NULL, &i32, 0, WANT(-2147483648.0));
    RtArray a;
    RtError e = {0};
    CHECK(!rt_array_read(table("1,2,3,4\n5,6,7,8\n"), NULL, &square, &a, &e) && a.type.rank == 3 &&
          a.type.dim[0] == 2 && a.type.dim[2] == 2 && ((unsigned char *)a.data)[7] == 8);
    rt_array_free(&a);
    CHECK(
        !rt_array_read(table("-9223372036854775808\n9223372036854775807\n"), NULL, &i64, &a, &e) &&
        ((int64_t *)a.data)[0] == INT64_MIN && ((int64_t *)a.data)[1] == INT64_MAX);
    rt_array_free(&a);
    CHECK(!rt_array_read(put("t.tsv", "1\t2\n", 4), NULL, &pair, &a, &e) && a.bytes == 8);
    rt_array_free(&a);
}

static void test_wrong(void)
{
    bad(table("1,2\n3\n"), NULL, &pair, "t.csv:2: 1 column, where the first line has 2");
    bad(table("1,2\n\n3,4,5\n"), NULL, &pair, "t.csv:3: 3 columns, where the first line has 2");
    bad(table("a,b\n1,2\n3,\n"), NULL, &pair, "t.csv:3: column 1 ('b') is empty");
    bad(table("1,2\n3,four\n"), NULL, &pair, "t.csv:2: column 1: 'four' is no number");
    bad(table("1,2\n0x10,4\n"), NULL, &pair, "'0x10' is no number");
    bad(table("1;2\n3,5;4\n"), NULL, &pair, "'3,5' is no number; the decimal separator is a point");
    static const char one[] = "but there is only one column, '1.5e+00 2'; values are separated by";
    bad(table("1.5e+00 2\n3 4\n"), NULL, &pair, one); // of numpy.savetxt
    bad(table("a b\n3 4\n"), NULL, &pair, "but there is only one column, 'a b'; values are");
    bad(table("a\tb\n3\t4\n"), NULL, &pair, "'a\tb'; values are separated by commas or semicolons");
    bad(table("a\n3 4\n"), "a", &f32, "'3 4' is no number; values are separated by commas");
    bad(table("1,2\n1e,4\n"), NULL, &pair, "'1e' is no number");
    bad(table("1,2\n1 2,4\n"), NULL, &pair, "'1 2' is no number");
    bad(table("1,2,3\n"), NULL, &pair, "which is 2 of the table's columns, not 3");
    bad(table("1,2\n"), NULL, &f32, "pick it as in FILE:NAME or FILE:0");
    bad(table("1,2\n"), NULL, &unknown, "is not known; give it with -D");
    bad(table("a,b\n1,2\n"), "c", &f32, "has no column 'c'; there are 'a' and 'b'");
    bad(table("1,2\n"), "2", &f32, "has no column '2' (numbers are 0 to 1)");
    bad(table("1,2\n"), "1-0", &f32, "the columns '1-0' end before they begin");
    bad(table("a,b\n1,2\n"), "a-cost", &f32, "has no column 'cost'; there are");
    bad(table("a,b\n1,2\n"), "at-b", &f32, "has no column 'at'; did you mean 'a'?");
    bad(table("a,b\n1,2\n"), "1-4", &f32, "has no column '4'; there are");
    bad(table("a,b\n1,2\n"), "b,c,a", &f32, "has no column 'c'; there are");
    bad(table("a,b\n1,2\n"), "b,", &f32, "has no column ''");
    bad(table("1,2\n"), "-1", &f32, "has no column '-1' (numbers are 0 to 1)");
    bad(table("1,2\n"), "0,1,1", &pair, "which is 2 of the table's columns, not 3");
    bad(table("256\n"), NULL, &u8, "t.csv:1: column 0: '256' is outside of u8");
    bad(table("-1\n"), NULL, &u8, "outside of u8");
    bad(table("2\n"), NULL, &boolean, "outside of bool");
    bad(table("1.5\n"), NULL, &i32, "'1.5' is not a whole number for i32");
    bad(table("nan\n"), NULL, &i32, "not a whole number");
    bad(table("9223372036854775808\n"), NULL, &i64, "not a whole number");
    bad(table("70000\n"), NULL, &f16, "is too large for f16");
    bad(table("1\n1e400\n"), "0", &f32, "t.csv:2: column 0: '1e400' is no number");
    bad(table("1e400\n"), "0", &f32, "t.csv:1: column 0: '1e400' is no number");
    bad(table("1,1e400\n3,4\n"), NULL, &pair, "t.csv:1: column 1: '1e400' is no number");
    // A first line that is neither names nor an example.
    bad(table("1,NA\n3,4\n5,6\n"), NULL, &pair,
        "t.csv:1: column 1: 'NA' is no number, but other columns are: this line is neither an "
        "example nor the names of the columns; write nan for a missing number");
    bad(table("1,?\n3,4\n"), "0", &f32, "column 1: '?' is no number, but");
    bad(table("1,1_000\n3,4\n"), NULL, &pair, "t.csv:1: column 1: '1_000' is no number, but");
    bad(table("2020-01-02,5.5\n"), "1", &f32, "column 0: '2020-01-02' is no number, but");
    bad(table("5.1,3.5,setosa\n4.9,3,setosa\n"), "0-1", &pair,
        "column 2: 'setosa' is no number, but other columns are");
    bad(table("5.1,3.5,setosa\n4.9,3,setosa\n"), "0-1", &pair, "put a line of names before it");
    bad(table("5,3,setosa\n"), "0-1", &pair, "column 2: 'setosa' is no number, but");
    bad(table("7,red\n3,blue\n"), "0", &f32, "column 1: 'red' is no number, but other");
    bad(table("x,-1\n3,4\n"), NULL, &pair, "column 0: 'x' is no number, but");
    bad(table("a,a,b\n1,2,3\n"), "a", &f32,
        "t.csv: columns 0 and 1 are both named 'a'; select one");
    bad(table("a,b,a\n1,2,3\n"), "a-b", &pair, "columns 0 and 2 are both named 'a'");
    bad(table("a,b\n"), NULL, &pair, "holds no lines of numbers");
    bad(table("# only\n\n"), NULL, &pair, "holds no lines of numbers");
    bad(table("\"1,2\n"), NULL, &pair, "t.csv:1: a quote that does not end with its field");
    bad(table("\"1\"2,3\n"), NULL, &pair, "a quote that does not end with its field");
    bad(put("t.csv", "1,\0002\n", 5), NULL, &pair, "t.csv:1: there is a zero byte in it");
    bad(put("t.csv", "1,2\n3,4\0junk\n", 13), NULL, &pair, "t.csv:2: there is a zero byte");
    bad(put("t.csv", "1,2\n#\0\n", 7), NULL, &pair, "t.csv:2: there is a zero byte");
    bad(put("t.npz", "PK\3\4 more bytes!", 16), NULL, &f32, "list of files is missing");
}

// -- archives -------------------------------------------------------------------------------------

static unsigned char *whole(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    static unsigned char bytes[1 << 16];
    *n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    return bytes;
}

static void little(unsigned char **p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++, v >>= 8) *(*p)++ = (unsigned char)v;
}

// An archive as savez_compressed makes it, of one file.
static size_t deflated(unsigned char *to, const char *name, const unsigned char *bytes, size_t n)
{
    unsigned char packed[4096], *p = to;
    z_stream s = {0};
    deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    s.next_in = (unsigned char *)bytes, s.avail_in = (uInt)n;
    s.next_out = packed, s.avail_out = sizeof packed;
    deflate(&s, Z_FINISH);
    size_t k = s.total_out, len = strlen(name);
    deflateEnd(&s);
    uint64_t crc = crc32(0, bytes, (uInt)n);
    for (int list = 0; list < 2; list++) {
        if (list) memcpy(p, packed, k), p += k;
        little(&p, list ? 0x02014b50 : 0x04034b50, 4);
        if (list) little(&p, 20, 2);
        little(&p, 20, 2), little(&p, 0, 2), little(&p, 8, 2), little(&p, 0, 4);
        little(&p, crc, 4), little(&p, k, 4), little(&p, n, 4), little(&p, len, 2),
            little(&p, 0, 2);
        if (list) little(&p, 0, 6), little(&p, 0, 4), little(&p, 0, 4);
        memcpy(p, name, len), p += len;
    }
    size_t list = 30 + len + k;
    little(&p, 0x06054b50, 4), little(&p, 0, 4), little(&p, 1, 2), little(&p, 1, 2);
    little(&p, (size_t)(p - to) - 12 - list, 4), little(&p, list, 4), little(&p, 0, 2);
    return (size_t)(p - to);
}

static void test_archives(void)
{
    float x[6] = {1, -2, 3.5f, 0, 1e-30f, 6};
    int64_t y[2] = {INT64_MIN, 7};
    uint16_t z[2] = {0x3f80, 0xc000}; // bf16: 1, -2
    const RtTensor t[] = {{"x", {.dtype = PD_F32, .rank = 2, .dim = {2, 3}}, x},
                          {"layer.y", {.dtype = PD_I64, .rank = 1, .dim = {2}}, y},
                          {"z", {.dtype = PD_BF16, .rank = 1, .dim = {2}}, z}};
    RtArray a;
    RtError e = {0};
    CHECK(!rt_npz_write(at("a.npz"), t, 3, &e));
    CHECK(!rt_array_read(at("a.npz"), "x", NULL, &a, &e) && a.bytes == sizeof x &&
          !memcmp(a.data, x, sizeof x));
    rt_array_free(&a);
    CHECK(!rt_array_read(at("a.npz"), "layer.y", &i64, &a, &e) && !memcmp(a.data, y, sizeof y));
    rt_array_free(&a);
    CHECK(!rt_array_read(at("a.npz"), "z", &f32, &a, &e) && ((float *)a.data)[1] == -2);
    rt_array_free(&a);
    bad(at("a.npz"), NULL, NULL, "holds 3 arrays; say which, as in");
    bad(at("a.npz"), "layer.z", NULL, "has no array 'layer.z'; did you mean 'layer.y'?");
    bad(at("a.npz"), "x", &i32, "the model expects i32");
    const RtTensor slash = {"a/b", t[0].type, x};
    CHECK(rt_npz_write(at("s.npz"), &slash, 1, &e) == RT_USER && access(at("s.npz"), F_OK));

    // Every cut and every turned bit: an error, or the same values.
    size_t n;
    unsigned char bytes[8192], *read = whole(at("a.npz"), &n);
    int kept = 0;
    memcpy(bytes, read, n);
    for (size_t i = 1; i < n; i++) {
        e = (RtError){0};
        CHECK(rt_array_read(put("c.npz", bytes, i), "x", NULL, &a, &e) == RT_USER && !a.data);
    }
    for (size_t i = 0; i < 8 * n; i++) {
        e = (RtError){0};
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        RtCode code = rt_array_read(put("c.npz", bytes, n), "x", NULL, &a, &e);
        CHECK_MSG(code == RT_USER || (!code && a.bytes == sizeof x && !memcmp(a.data, x, sizeof x)),
                  "bit %zu: %d %s", i, code, e.text);
        kept += !code;
        if (!code) rt_array_free(&a);
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    CHECK(kept > 0 && kept < (int)(7 * n));

    // The same deflated.
    CHECK(!rt_npy_write(at("x.npy"), &t[0].type, x, &e));
    unsigned char npy[1024];
    read = whole(at("x.npy"), &n);
    memcpy(npy, read, n);
    n = deflated(bytes, "x.npy", npy, n);
    CHECK(!rt_array_read(put("d.npz", bytes, n), NULL, NULL, &a, &e) &&
          !memcmp(a.data, x, sizeof x));
    rt_array_free(&a);
    for (size_t i = 0; i < 8 * n; i++) {
        e = (RtError){0};
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        RtCode code = rt_array_read(put("c.npz", bytes, n), NULL, NULL, &a, &e);
        CHECK_MSG(code == RT_USER || (!code && a.bytes == sizeof x && !memcmp(a.data, x, sizeof x)),
                  "deflated, bit %zu: %d %s", i, code, e.text);
        if (!code) rt_array_free(&a);
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
    }
}

// A table cut anywhere or with any bit turned is read or refused; written, it comes back as it was.
static void test_damage(void)
{
    const char text[] = "a,\"b\"\n1.5,-2e3\n# no\n\"3\",4\n";
    size_t n = sizeof text - 1;
    char bytes[sizeof text];
    RtArray a;
    for (size_t i = 0; i < 9 * n; i++) {
        RtError e = {0};
        memcpy(bytes, text, n);
        if (i < 8 * n) bytes[i / 8] ^= (char)(1 << i % 8);
        RtCode code =
            rt_array_read(put("t.csv", bytes, i < 8 * n ? n : i - 8 * n), NULL, &pair, &a, &e);
        CHECK_MSG(code == RT_OK || code == RT_USER, "%zu: %d", i, code);
        if (!code) rt_array_free(&a);
    }
    uint64_t seed = 7;
    for (int round = 0; round < 400; round++) {
        static const ProgDType types[] = {PD_F32, PD_F64, PD_F16, PD_BF16, PD_I64,
                                          PD_I32, PD_U32, PD_U8,  PD_BOOL};
        ProgDType d = types[round % 9];
        unsigned char data[6 * 8];
        for (size_t i = 0; i < sizeof data; i++)
            seed = seed * 6364136223846793005u + 1442695040888963407u,
            data[i] = d == PD_BOOL ? seed >> 63 : (unsigned char)(seed >> 56);
        ProgType t = {.dtype = d, .rank = 2, .dim = {3, 2}},
                 wanted = {.dtype = d, .rank = 1, .dim = {2}};
        RtError e = {0};
        CHECK(!rt_csv_write(at("w.csv"), &t, data, &e));
        RtCode code = rt_array_read(at("w.csv"), NULL, &wanted, &a, &e);
        CHECK_MSG(!code && a.type.dim[0] == 3, "%s: %s", prog_dtype_name(d), e.text);
        int64_t width = prog_dtype_bytes(d);
        for (int i = 0; !code && i < 6; i++) {
            double v = prog_load(d, data + i * width), w = prog_load(d, (char *)a.data + i * width);
            CHECK_MSG(isnan(v)
                          ? isnan(w)
                          : !memcmp(data + i * width, (char *)a.data + i * width, (size_t)width),
                      "%s: %.17g came back as %.17g", prog_dtype_name(d), v, w);
        }
        if (!code) rt_array_free(&a);
    }
}

int main(void)
{
    if (!mkdtemp(dir)) return 1;
    test_right();
    test_wrong();
    test_archives();
    test_damage();
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) ? 1 : unit_done();
}
