// Data files and checkpoints: what is right is read, what is damaged is told.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <dirent.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/data.h"
#include "runtime/data/tokens.h"
#include "tests/unit/unit.h"

static char dir[] = "/tmp/netc-unit-XXXXXX", path_[2][300];

static const char *at(const char *name)
{
    static int turn;
    turn ^= 1;
    snprintf(path_[turn], sizeof path_[turn], "%s/%s", dir, name);
    return path_[turn];
}

static const char *put(const char *name, const void *bytes, size_t n)
{
    const char *path = at(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n) exit(1);
    fclose(f);
    return path;
}

static int files(void)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *x; (x = readdir(d));) n += x->d_name[0] != '.';
    closedir(d);
    return n;
}

// Reading must fail with a text that holds [why].
static void bad(const char *path, const char *part, const ProgType *wanted, const char *why)
{
    RtArray a;
    RtError e = {0};
    RtCode code = rt_array_read(path, part, wanted, &a, &e);
    CHECK_MSG(code == RT_USER && strstr(e.text, why), "wanted '%s', got %d: %s", why, code, e.text);
    CHECK(!a.data);
}

static void test_idx(void)
{
    unsigned char idx[] = {0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6};
    RtArray a;
    RtError e = {0};
    ProgType wanted = {.dtype = PD_U8, .rank = 1, .dim = {2}};
    const char *p = put("a-idx2-ubyte", idx, sizeof idx);
    CHECK_MSG(rt_array_read(p, NULL, &wanted, &a, &e) == RT_OK, "%s", e.text);
    CHECK(a.type.rank == 2 && a.type.dim[0] == 3 && a.type.dim[1] == 2 && a.bytes == 6 &&
          ((unsigned char *)a.data)[5] == 6);
    CHECK(rt_array_check_range(&a, p, 0, 7, &e) == RT_OK);
    CHECK(rt_array_check_range(&a, p, 0, 6, &e) == RT_USER && strstr(e.text, "example 2 holds 6"));
    rt_array_free(&a);
    wanted.dim[0] = 4;
    bad(p, NULL, &wanted, "u8[3, 2], the model expects u8[*, 4]");
    wanted.dim[0] = -1;
    wanted.dtype = PD_F32;
    bad(p, NULL, &wanted, "expects f32[*, *]");
    bad(put("b-idx2-ubyte", idx, sizeof idx - 1), NULL, NULL, "truncated");
    bad(put("b-idx2-ubyte", idx, 6), NULL, NULL, "within its header");
    bad(put("b-idx2-ubyte", "\0\0\x09\1\0\0\0\0", 8), NULL, NULL, "type 0x09");
    bad(put("b-idx2-ubyte", "\1\0\x08\1\0\0\0\0", 8), NULL, NULL, "not an IDX");
    unsigned char huge[4 + 32] = {0, 0, 14, 8};
    memset(huge + 4, 0xff, 32);
    bad(put("b-idx2-ubyte", huge, sizeof huge), NULL, NULL, "more than any memory");
    bad(at("none"), NULL, NULL, "No such file");
    bad(dir, NULL, NULL, "folder");
    // i32 is big-endian in the file.
    unsigned char ints[] = {0, 0, 12, 1, 0, 0, 0, 1, 0, 0, 1, 2};
    e = (RtError){0};
    CHECK(rt_array_read(put("ints", ints, sizeof ints), NULL, NULL, &a, &e) == RT_OK);
    CHECK(a.type.dtype == PD_I32 && *(int32_t *)a.data == 258);
    rt_array_free(&a);
    // gzip
    gzFile z = gzopen(at("c-idx2-ubyte.gz"), "wb");
    gzwrite(z, idx, sizeof idx);
    gzclose(z);
    CHECK(rt_array_read(at("c-idx2-ubyte.gz"), NULL, NULL, &a, &e) == RT_OK && a.bytes == 6);
    rt_array_free(&a);
    CHECK(truncate(at("c-idx2-ubyte.gz"), 25) == 0);
    bad(at("c-idx2-ubyte.gz"), NULL, NULL, "truncated");
    // Several files.
    char list[700];
    snprintf(list, sizeof list, "%s/a-idx2-ubyte,%s/a-idx2-ubyte", dir, dir);
    CHECK(rt_array_read(list, NULL, NULL, &a, &e) == RT_OK && a.type.dim[0] == 6 && a.bytes == 12);
    rt_array_free(&a);
    snprintf(list, sizeof list, "%s/a-idx2-ubyte,%s/ints", dir, dir);
    bad(list, NULL, NULL, "cannot be joined");
    snprintf(list, sizeof list, "%s/a-idx2-ubyte,", dir);
    bad(list, NULL, NULL, "empty");
}

static void npy(const char *name, const char *dict, int version, const void *data, size_t n)
{
    char b[1024] = "\x93NUMPY";
    size_t len = strlen(dict), begin = version == 1 ? 10 : 12;
    b[6] = (char)version;
    b[8] = (char)len;
    memcpy(b + begin, dict, len);
    memcpy(b + begin + len, data, n);
    put(name, b, begin + len + n);
}

static void test_npy(void)
{
    float f[6] = {1, 2, 3, 4, 5, 6};
    RtArray a;
    RtError e = {0};
    for (int v = 1; v <= 3; v++) {
        npy("a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n", v, f,
            sizeof f);
        CHECK_MSG(rt_array_read(at("a.npy"), NULL, NULL, &a, &e) == RT_OK, "%s", e.text);
        CHECK(a.type.dtype == PD_F32 && a.type.rank == 2 && a.type.dim[1] == 2 &&
              ((float *)a.data)[5] == 6);
        rt_array_free(&a);
    }
    npy("a.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", 1, f, sizeof f);
    bad(at("a.npy"), NULL, NULL, "ascontiguousarray");
    npy("a.npy", "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 2), }", 1, f, sizeof f);
    bad(at("a.npy"), NULL, NULL, "big-endian");
    npy("a.npy", "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }", 1, f, sizeof f);
    bad(at("a.npy"), NULL, NULL, "astype");
    npy("a.npy", "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }", 1, f,
        sizeof f);
    bad(at("a.npy"), NULL, NULL, "");
    npy("a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3), }", 1, f, sizeof f);
    bad(at("a.npy"), NULL, NULL, "truncated");
    npy("a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1), }", 1, f, sizeof f);
    bad(at("a.npy"), NULL, NULL, "after its end");
    npy("a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 1,
        f, 24);
    bad(at("a.npy"), NULL, NULL, "more than any memory");
    npy("a.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 1,
        f, 24);
    bad(at("a.npy"), NULL, NULL, "cannot be understood");
    npy("a.npy", "{'descr': '<f4'", 1, f, 24);
    bad(at("a.npy"), NULL, NULL, "cannot be understood");
    put("a.npy", "\x93NUMPY\1\0\xff\xff{}", 12);
    bad(at("a.npy"), NULL, NULL, "truncated");
    ProgType t = {.dtype = PD_F32, .rank = 1, .dim = {6}};
    CHECK(rt_npy_write(at("w.npy"), &t, f, &e) == RT_OK);
    CHECK(rt_array_read(at("w.npy"), NULL, NULL, &a, &e) == RT_OK && a.type.rank == 1 &&
          a.bytes == 24 && !memcmp(a.data, f, 24));
    rt_array_free(&a);
    t.rank = 0;
    CHECK(rt_npy_write(at("w.npy"), &t, f, &e) == RT_OK);
    CHECK(rt_array_read(at("w.npy"), NULL, NULL, &a, &e) == RT_OK && a.type.rank == 0 &&
          a.bytes == 4);
    rt_array_free(&a);
}

// What the first bytes tell, and reading that has begun.
static bool type_of(const char *path, ProgType *t)
{
    RtFiles *f = rt_files_new(path);
    bool known = rt_files_type(f, NULL, t);
    rt_files_free(f);
    return known;
}

static void test_files(void)
{
    unsigned char idx[] = {0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6};
    float x[6] = {1, 2, 3, 4, 5, 6};
    char list[1400];
    ProgType t;
    gzFile z = gzopen(at("d-idx2-ubyte.gz"), "wb");
    gzwrite(z, idx, sizeof idx);
    gzclose(z);
    CHECK(type_of(at("d-idx2-ubyte.gz"), &t) && t.dtype == PD_U8 && t.rank == 2 && t.dim[0] == 3 &&
          t.dim[1] == 2);
    npy("f.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 1, x, sizeof x);
    CHECK(type_of(at("f.npy"), &t) && t.dtype == PD_F32 && t.rank == 2 && t.dim[0] == 3);
    CHECK(!type_of(put("raw", x, sizeof x), &t) && !type_of(at("none"), &t));
    CHECK(!type_of(put("short-idx2-ubyte", idx, 10), &t));
    npy("g.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 70), }", 1, x, sizeof x);
    CHECK(!type_of(at("g.npy"), &t)); // so many it cannot hold
    CHECK(mkfifo(at("pipe-idx2-ubyte"), 0600) == 0 && !type_of(at("pipe-idx2-ubyte"), &t));
    snprintf(list, sizeof list, "%s/f.npy,%s/f.npy", dir, dir);
    CHECK(!type_of(list, &t));

    RtArray a;
    RtError e = {0};
    RtFiles *f = rt_files_new(list);
    rt_files_begin(f);
    rt_files_begin(f); // no second time
    CHECK(rt_files_array(f, NULL, NULL, &a, &e) == RT_OK && a.type.dim[0] == 6 && a.bytes == 48 &&
          ((float *)a.data)[11] == 6);
    rt_array_free(&a);
    rt_files_free(f);
    snprintf(list, sizeof list, "%s/f.npy,%s/none", dir, dir);
    f = rt_files_new(list);
    rt_files_begin(f);
    CHECK(rt_files_array(f, NULL, NULL, &a, &e) == RT_USER && strstr(e.text, "none: No such") &&
          !a.data);
    rt_files_free(f);
    f = rt_files_new(list);
    rt_files_begin(f);
    rt_files_free(f); // never asked for
    f = rt_files_new(at("pipe-idx2-ubyte"));
    rt_files_begin(f);
    rt_files_free(f); // ... nor written to by anybody

    // A file that is asked for again is read again.
    put("late", idx, 10);
    f = rt_files_new(at("late"));
    rt_files_begin(f);
    CHECK(rt_files_array(f, "part", NULL, &a, &e) == RT_USER);
    put("late", x, sizeof x);
    e = (RtError){0};
    CHECK(rt_files_array(f, NULL, NULL, &a, &e) == RT_OK && a.bytes == sizeof x);
    rt_array_free(&a);
    rt_files_free(f);
}

static void test_raw(void)
{
    RtArray a;
    RtError e = {0};
    ProgType window = {.dtype = PD_U8, .rank = 1, .dim = {5}};
    const char *text = put("t.txt", "abcdefghijklm", 13);
    CHECK_MSG(rt_array_read(text, NULL, &window, &a, &e) == RT_OK, "%s", e.text);
    CHECK(a.type.rank == 2 && a.type.dim[0] == 3 && a.type.dim[1] == 5 &&
          !memcmp(a.data, "abcdeefghiijklm", 15));
    rt_array_free(&a);
    window.dtype = PD_I32;
    CHECK(rt_array_read(text, NULL, &window, &a, &e) == RT_OK && ((int32_t *)a.data)[14] == 'm');
    rt_array_free(&a);
    window.dim[0] = 14;
    bad(text, NULL, &window, "fewer than one window");
    window.dim[0] = -1;
    bad(text, NULL, &window, "known length");
    uint16_t words[] = {1, 2, 50256};
    window.dim[0] = 2;
    CHECK(rt_array_read(put("t.bin", words, 6), "u16", &window, &a, &e) == RT_OK &&
          ((int32_t *)a.data)[3] == 50256);
    rt_array_free(&a);
    bad(at("t.bin"), NULL, &window, "not a whole number");
    ProgType table = {.dtype = PD_U8, .rank = 2, .dim = {3, 1}};
    CHECK(rt_array_read(at("t.bin"), NULL, &table, &a, &e) == RT_OK && a.type.rank == 3 &&
          a.type.dim[0] == 2);
    rt_array_free(&a);
    table.dim[0] = 4;
    bad(at("t.bin"), NULL, &table, "not a whole number of examples");
    // CIFAR-10
    static unsigned char batch[2 * 3073];
    batch[0] = 7, batch[1] = 1, batch[3073] = 9, batch[3074] = 2;
    put("data_batch_1.bin", batch, sizeof batch);
    CHECK(rt_array_read(at("data_batch_1.bin"), "images", NULL, &a, &e) == RT_OK &&
          a.type.rank == 4 && a.bytes == 6144 && ((unsigned char *)a.data)[3072] == 2);
    rt_array_free(&a);
    CHECK(rt_array_read(at("data_batch_1.bin"), "labels", NULL, &a, &e) == RT_OK &&
          a.type.rank == 1 && ((unsigned char *)a.data)[1] == 9);
    rt_array_free(&a);
    bad(at("data_batch_1.bin"), "pixels", NULL, "pixels");
    bad(at("data_batch_1.bin"), NULL, NULL, "say which");
    bad(put("data_batch_1.bin", batch, 4000), "images", NULL, "not a multiple");
}

// Bytes of other formats are no elements, unless the caller says so.
static void test_foreign(void)
{
    static const struct {
        const char *name, *bytes;
        size_t n;
        const char *why;
    } cases[] = {
        {"a.dat", "PK\3\4 more bytes!", 16, "zip archive"},
        {"a.pt", "PK\3\4 more bytes!", 16, "torch.load"},
        {"a", "\x89PNG\r\n\x1a\n12345678", 16, "PIL"},
        {"b", "\xff\xd8\xff\xe0 a jpeg image", 16, "JPEG"},
        {"c", "\x89HDF\r\n\x1a\n12345678", 16, "h5py"},
        {"d", "PAR1 and columns", 16, "read_parquet"},
        {"e", "RIFF1234WAVEfmt ", 16, "WAV"},
        {"f", "\x80\4\x95 pickled object", 16, "pickle"},
        {"g", "%PDF-1.7 and text", 16, "PDF"},
        {"h", "%\0\0\0\0\0\0\0{\"x\": {}}", 16, "--weights"},
        {"i.safetensors", "0123456789abcdef", 16, "--weights"},
        {"j", "7z\xbc\xaf\x27\x1c 12345678", 16, "7z"},
        {"k", RT_CONTAINER_MAGIC "\0 and more", 16, "compiled model"},
        {"l.json", "[1, 2, 3, 4]    ", 16, "JSON"},
    };
    ProgType wanted = {.dtype = PD_U8, .rank = 0};
    RtError e = {0};
    RtArray a;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = put(cases[i].name, cases[i].bytes, cases[i].n);
        bad(path, NULL, &wanted, cases[i].why);
        bad(path, NULL, &wanted, ":raw");
        CHECK_MSG(rt_array_read(path, "raw", &wanted, &a, &e) == RT_OK && a.bytes == cases[i].n &&
                      !memcmp(a.data, cases[i].bytes, a.bytes),
                  "%s: %s", cases[i].name, e.text);
        rt_array_free(&a);
        unlink(path);
    }
    static unsigned char tar[1024];
    memcpy(tar + 257, "ustar", 5);
    bad(put("m", tar, sizeof tar), NULL, &wanted, "tar archive");
    // A text that begins like one of them is a text.
    CHECK(rt_array_read(put("n.txt", "GIF8 is a magic", 15), NULL, &wanted, &a, &e) == RT_OK &&
          a.bytes == 15);
    rt_array_free(&a);
    // An array under "raw" is its bytes, the header's too.
    unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3};
    CHECK(rt_array_read(put("o-idx1-ubyte", idx, 11), "raw", &wanted, &a, &e) == RT_OK &&
          a.bytes == 11);
    rt_array_free(&a);
}

static void packed(const char *name, const void *bytes, size_t n, size_t zeros)
{
    static unsigned char zero[1 << 20];
    gzFile f = gzopen(at(name), "wb1");
    gzwrite(f, bytes, (unsigned)n);
    for (; zeros >= sizeof zero; zeros -= sizeof zero) gzwrite(f, zero, sizeof zero);
    gzclose(f);
}

// Of what is compressed no more is unpacked than its header says there is.
static void test_packed(void)
{
    enum { HUGE = 400 << 20 };
    RtArray a;
    RtError e = {0};
    ProgType byte = {.dtype = PD_U8, .rank = 0}, image = {.dtype = PD_U8, .rank = 2, .dim = {3, 3}};
    unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3}, big[] = {0, 0, 8, 1, 64, 0, 0, 0};
    struct rlimit old, small;
    packed("p-idx1-ubyte.gz", idx, sizeof idx, HUGE);
    packed("q-idx1-ubyte.gz", big, sizeof big, HUGE);
    packed("r.gz", idx, sizeof idx, HUGE);
    packed("s.gz", "unknown", 7, HUGE);
    packed("t.gz", idx, sizeof idx, 0);
    packed("u.gz", "unknown", 7, 0);
    getrlimit(RLIMIT_AS, &old);
    small = old;
#ifndef __SANITIZE_ADDRESS__ // which reserves terabytes
    small.rlim_cur = 256 << 20;
#endif
    setrlimit(RLIMIT_AS, &small);
    bad(at("p-idx1-ubyte.gz"), NULL, &byte, "has bytes after its end: its header says u8[3]");
    bad(at("q-idx1-ubyte.gz"), NULL, &image, "the model expects");
    bad(at("r.gz"), NULL, &byte, "something compressed that is neither");
    bad(at("s.gz"), NULL, &byte, "something compressed that is neither");
    setrlimit(RLIMIT_AS, &old);
    CHECK(rt_array_read(at("t.gz"), NULL, &byte, &a, &e) == RT_OK && a.bytes == 3);
    rt_array_free(&a);
    bad(at("u.gz"), NULL, &byte, "something compressed that is neither");
    CHECK(rt_array_read(at("u.gz"), "raw", &byte, &a, &e) == RT_OK && a.bytes == 7);
    rt_array_free(&a);
}

static void test_shuffle(void)
{
    int32_t a[1000], b[1000];
    int seen[1000] = {0}, moved = 0;
    rt_shuffle(a, 1000, 1, 0);
    rt_shuffle(b, 1000, 1, 0);
    CHECK(!memcmp(a, b, sizeof a));
    for (int i = 0; i < 1000; i++) seen[a[i]]++, moved += a[i] != i;
    for (int i = 0; i < 1000; i++) CHECK(seen[i] == 1);
    CHECK(moved > 900);
    rt_shuffle(b, 1000, 1, 1);
    CHECK(memcmp(a, b, sizeof a));
    rt_shuffle(b, 1000, 2, 0);
    CHECK(memcmp(a, b, sizeof a));
}

static void test_safetensors(void)
{
    double d[2] = {1.5, -2};
    float f[3] = {1, 2, 3};
    uint8_t u[3] = {7, 8, 9};
    RtTensor t[] = {{"bytes", {.dtype = PD_U8, .rank = 1, .dim = {3}}, u},
                    {"h.0.weight", {.dtype = PD_F32, .rank = 2, .dim = {1, 3}}, f},
                    {"d", {.dtype = PD_F64, .rank = 1, .dim = {2}}, d},
                    {"none", {.dtype = PD_F32, .rank = 1, .dim = {0}}, f}};
    const char *keys[] = {"netc", "quote"}, *values[] = {"1", "a \"b\"\n"};
    RtError e = {0};
    RtTensors r;
    Arena *a = arena_new();
    const char *path = at("c.safetensors");
    CHECK_MSG(rt_safetensors_write(path, t, 4, keys, values, 2, &e) == RT_OK, "%s", e.text);
    CHECK_MSG(rt_safetensors_read(a, path, &r, &e) == RT_OK, "%s", e.text);
    CHECK(r.n == 4 && r.nmeta == 2 && !strcmp(r.meta_values[1], values[1]));
    for (int i = 0; i < r.n; i++)
        for (int k = 0; k < 4; k++) {
            if (strcmp(r.at[i].name, t[k].name)) continue;
            CHECK(r.at[i].type.dtype == t[k].type.dtype && r.at[i].type.rank == t[k].type.rank);
            CHECK(!memcmp(r.at[i].data, t[k].data, (size_t)prog_type_bytes(&t[k].type)));
        }
    rt_tensors_free(&r);
    // Every truncation is found.
    struct stat st;
    CHECK(stat(path, &st) == 0);
    for (off_t n = st.st_size - 1; n >= 0; n--) {
        if (truncate(path, n)) break;
        e = (RtError){0};
        CHECK(rt_safetensors_read(a, path, &r, &e) == RT_USER && !r.owned);
    }
    static const struct {
        const char *head, *why;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", "disagrees"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", "beyond"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", "gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         "overlaps"},
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[0,8]}}", "F8_E4M3"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}",
         "disagrees"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,8]}}", "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "place"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":1}", "twice"},
        {"{\"a\":", "JSON"},
        {"{\"a\":1}", "not described"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char b[400] = {0};
        size_t n = strlen(cases[i].head);
        b[0] = (char)n;
        memcpy(b + 8, cases[i].head, n);
        put("x.safetensors", b, 8 + n + 8);
        e = (RtError){0};
        CHECK_MSG(rt_safetensors_read(a, at("x.safetensors"), &r, &e) == RT_USER &&
                      strstr(e.text, cases[i].why),
                  "%s: %s", cases[i].why, e.text);
    }
    arena_free(a);
}

static void test_full_disk(void)
{
    static float big[1 << 16];
    RtTensor t = {"w", {.dtype = PD_F32, .rank = 1, .dim = {4}}, big};
    RtError e = {0};
    RtTensors r;
    Arena *a = arena_new();
    const char *path = at("full.safetensors");
    CHECK(rt_safetensors_write(path, &t, 1, NULL, NULL, 0, &e) == RT_OK);
    int before = files();
    struct rlimit old, small = {4096, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    t.type.dim[0] = 1 << 16;
    CHECK(rt_safetensors_write(path, &t, 1, NULL, NULL, 0, &e) == RT_ENV);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_MSG(strstr(e.text, "unchanged") != NULL, "%s", e.text);
    CHECK(files() == before);
    e = (RtError){0};
    CHECK(rt_safetensors_read(a, path, &r, &e) == RT_OK && r.n == 1 && r.at[0].type.dim[0] == 4);
    rt_tensors_free(&r);
    CHECK(rt_safetensors_write(at("no/such/folder"), &t, 1, NULL, NULL, 0, &e) == RT_USER);
    arena_free(a);
}

static void test_container(void)
{
    RtSection s[] = {{"source", "model", 5}, {"image sm_90 1f", "\0\1\2", 3}, {"empty", "", 0}}, *r;
    RtError e = {0};
    int n;
    Arena *a = arena_new();
    const char *path = at("m.bin");
    CHECK(rt_container_write(path, s, 3, &e) == RT_OK);
    CHECK_MSG(rt_container_read(a, path, &r, &n, &e) == RT_OK, "%s", e.text);
    CHECK(n == 3 && !strcmp(r[1].name, "image sm_90 1f") && r[1].size == 3 &&
          !memcmp(r[1].bytes, "\0\1\2", 3));
    FILE *f = fopen(path, "rb");
    char whole[1024];
    size_t size = fread(whole, 1, sizeof whole, f);
    fclose(f);
    // Every flipped bit of a section or the table is found, every truncation, every added byte.
    int found = 0, tried = 0;
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            whole[i] ^= (char)(1 << bit);
            put("x.bin", whole, size);
            whole[i] ^= (char)(1 << bit);
            e = (RtError){0};
            RtCode code = rt_container_read(a, at("x.bin"), &r, &n, &e);
            tried++;
            found += code == RT_USER;
        }
    CHECK_MSG(found > tried - 3 * 16 * 4, "%d of %d", found,
              tried); // zeros between sections do not count
    for (size_t i = 0; i < size; i++) {
        put("x.bin", whole, i);
        e = (RtError){0};
        CHECK(rt_container_read(a, at("x.bin"), &r, &n, &e) == RT_USER);
    }
    put("x.bin", whole, size + 1);
    e = (RtError){0};
    CHECK(rt_container_read(a, at("x.bin"), &r, &n, &e) == RT_USER && strstr(e.text, "damaged"));
    arena_free(a);
}

// Rows that stay in their files against the same read as a whole, over two files and both widths.
static void test_tokens(void)
{
    enum { N = 100, WINDOW = 9 };
    struct {
        RtTokenHead head;
        uint16_t at[N];
    } narrow = {.head = rt_token_head(false, N)};
    struct {
        RtTokenHead head;
        uint32_t at[N];
    } wide = {.head = rt_token_head(true, N)};
    for (int i = 0; i < N; i++)
        narrow.at[i] = (uint16_t)(i * 37 % 50000), wide.at[i] = (uint32_t)i * 70001u;
    char paths[2][300], list[700];
    snprintf(paths[0], sizeof paths[0], "%s", put("narrow.bin", &narrow, sizeof narrow));
    snprintf(paths[1], sizeof paths[1], "%s", put("wide.bin", &wide, sizeof wide));
    snprintf(list, sizeof list, "%s,%s", paths[0], paths[1]);
    const char *two[] = {paths[0], paths[1]};
    ProgType wanted = {.dtype = PD_I32, .rank = 1, .dim = {WINDOW}};
    RtArray whole, stays;
    RtError e = {0};
    CHECK_MSG(rt_array_read(list, NULL, &wanted, &whole, &e) == RT_OK && !whole.source, "%s",
              e.text);
    CHECK_MSG(rt_tokens_open(two, 2, NULL, &wanted, false, 0, &stays, &e) == RT_OK && stays.source,
              "%s", e.text);
    CHECK(prog_type_equal(&whole.type, &stays.type) && whole.bytes == stays.bytes &&
          whole.type.dim[0] == 24);
    for (int64_t i = 0; i < whole.type.dim[0]; i++) {
        int32_t x[WINDOW], y[WINDOW];
        CHECK(!rt_array_row(&whole, i, x, &e) && !rt_array_row(&stays, i, y, &e) &&
              !memcmp(x, y, sizeof x));
    }
    rt_array_free(&whole);
    int32_t row[WINDOW];
    CHECK(rt_array_check_range(&stays, "x", 0, 50000, &e) == RT_OK &&
          rt_array_row(&stays, 0, row, &e) == RT_OK);
    CHECK(rt_array_row(&stays, 12, row, &e) == RT_USER &&
          strstr(e.text, "wide.bin: token 1 is 70001"));
    rt_array_free(&stays);
    // Windows that begin anywhere: the first and the last of each file.
    CHECK(rt_tokens_open(two, 2, NULL, &wanted, true, 0, &stays, &e) == RT_OK && stays.source);
    int64_t each = N - WINDOW + 1;
    CHECK(stays.type.dim[0] == 2 * each && stays.source->step == WINDOW - 1);
    for (int64_t at = 0; at < each; at += each - 1) {
        CHECK(!rt_array_row(&stays, at, row, &e) && row[0] == at * 37 && row[2] == (at + 2) * 37);
        CHECK(!rt_array_row(&stays, each + at, row, &e) && row[1] == (at + 1) * 70001);
    }
    rt_array_free(&stays);
    // Too few to be worth it; of another kind; damaged.
    CHECK(rt_tokens_open(two, 2, NULL, &wanted, false, 1 << 20, &stays, &e) == RT_OK &&
          !stays.source);
    two[1] = put("t.npy", "\x93NUMPY and more", 15);
    CHECK(rt_tokens_open(two, 2, NULL, &wanted, false, 0, &stays, &e) == RT_OK && !stays.source);
    narrow.head.word[2]++;
    bad(put("wrong.bin", &narrow, sizeof narrow), NULL, &wanted,
        "its header says 101 tokens of 16 bits, but 200");
    two[1] = at("wrong.bin");
    e = (RtError){0};
    CHECK(rt_tokens_open(two, 2, NULL, &wanted, false, 0, &stays, &e) == RT_USER && !stays.source);
    // More files than stay open; one that becomes shorter.
    const char *many[300];
    for (int i = 0; i < 300; i++) many[i] = paths[0];
    e = (RtError){0};
    CHECK(rt_tokens_open(many, 300, NULL, &wanted, false, 0, &stays, &e) == RT_OK && stays.source);
    CHECK(rt_array_row(&stays, 299 * 12 + 1, row, &e) == RT_OK && row[0] == 8 * 37);
    CHECK(!truncate(paths[0], (off_t)(sizeof narrow - 2 * N)));
    for (int64_t i = 0; i < 300 * 12; i += 299 * 12) {
        e = (RtError){0};
        CHECK(rt_array_row(&stays, i, row, &e) == RT_USER &&
              strstr(e.text, "narrow.bin became shorter while it was read"));
    }
    rt_array_free(&stays);
    // As bytes, where they are: read whole, and left in their file.
    wanted.dtype = PD_U8;
    bad(paths[1], NULL, &wanted,
        "token 1 is 70001, which is not a u8; 32-bit tokens need an input of i32");
    unsigned char bytes[WINDOW], same[WINDOW];
    two[0] = paths[1];
    e = (RtError){0};
    CHECK(rt_tokens_open(two, 1, NULL, &wanted, false, 0, &stays, &e) == RT_OK &&
          rt_array_row(&stays, 0, bytes, &e) == RT_USER &&
          strstr(e.text, "wide.bin: token 1 is 70001, which is not a u8; 32-bit tokens need"));
    rt_array_free(&stays);
    for (int i = 0; i < N; i++) narrow.at[i] = (uint16_t)(255 - i);
    narrow.head.word[2] = N;
    two[0] = put("narrow.bin", &narrow, sizeof narrow);
    CHECK(rt_tokens_open(two, 1, NULL, &wanted, false, 0, &stays, &e) == RT_OK && stays.source);
    CHECK(rt_array_read(two[0], NULL, &wanted, &whole, &e) == RT_OK && whole.type.dtype == PD_U8 &&
          whole.type.dim[0] == 12);
    CHECK(!rt_array_row(&whole, 11, bytes, &e) && bytes[0] == 255 - 88 && bytes[8] == 255 - 96);
    CHECK(!rt_array_row(&stays, 11, same, &e) && !memcmp(bytes, same, sizeof same));
    rt_array_free(&whole);
    rt_array_free(&stays);
    bad(two[0], "u32", &wanted, "32-bit tokens need");
    // A window that is read in several pieces.
    enum { LONG = 9000 };
    static uint16_t tokens[2 * LONG];
    static int32_t window[LONG];
    for (int i = 0; i < 2 * LONG; i++) tokens[i] = (uint16_t)(3 * i);
    wanted = (ProgType){.dtype = PD_I32, .rank = 1, .dim = {LONG}};
    two[0] = put("long.bin", tokens, sizeof tokens);
    CHECK(rt_tokens_open(two, 1, "u16", &wanted, false, 0, &stays, &e) == RT_OK && stays.source &&
          !rt_array_row(&stays, 1, window, &e));
    int right = 0;
    for (int i = 0; i < LONG; i++) right += window[i] == 3 * (LONG - 1 + i);
    CHECK(right == LONG);
    rt_array_free(&stays);
}

int main(void)
{
    if (!mkdtemp(dir)) return 1;
    test_idx();
    test_npy();
    test_files();
    test_raw();
    test_tokens();
    test_foreign();
    test_packed();
    test_shuffle();
    test_safetensors();
    test_full_disk();
    test_container();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return unit_done();
}
