// The compile cache: hits, damage, folders that cannot be written, many writers at once.
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/device.h"
#include "tests/unit/unit.h"

static int lines;
static void log_line(void *ctx, const char *line)
{
    (void)ctx, (void)line;
    lines++;
}

static RtKey key(const char *s)
{
    RtKey k = rt_key_start("test 1");
    rt_key_str(&k, s);
    return k;
}

static int files(const char *dir, char *one, size_t n)
{
    DIR *d = opendir(dir);
    int count = 0;
    for (struct dirent *x; d && (x = readdir(d));)
        if (x->d_name[0] != '.') {
            count++;
            snprintf(one, n, "%s/%s", dir, x->d_name);
        }
    if (d) closedir(d);
    return count;
}

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int count = 0;
    while (d && readdir(d)) count++;
    if (d) closedir(d);
    return count;
}

static RtCompileOptions shared;
static void *hammer(void *arg)
{
    Arena *a = arena_new();
    for (int i = 0; i < 200; i++) {
        char text[32];
        void *bytes;
        size_t n;
        snprintf(text, sizeof text, "entry %d", i % 10);
        if (rt_cache_get(&shared, key(text), a, &bytes, &n) &&
            (n != strlen(text) || memcmp(bytes, text, n)))
            *(int *)arg = 1;
        rt_cache_put(&shared, key(text), text, strlen(text));
    }
    arena_free(a);
    return NULL;
}

int main(void)
{
    char dir[] = "/tmp/netc-unit-XXXXXX", sub[100], file[600];
    if (!mkdtemp(dir)) return 1;
    snprintf(sub, sizeof sub, "%s/a/b", dir);
    RtCompileOptions o = {.cache_dir = sub, .log = log_line};
    Arena *a = arena_new();
    void *bytes;
    size_t n;
    int files_open = open_files();
    CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && !lines);
    rt_cache_put(&o, key("x"), "hello", 5);
    CHECK(rt_cache_get(&o, key("x"), a, &bytes, &n) && n == 5 && !memcmp(bytes, "hello", 5));
    CHECK(!rt_cache_get(&o, key("y"), a, &bytes, &n));
    CHECK(!rt_cache_fault(sub) && rt_cache_fault("/proc/none"));
    // Parts of a key do not run together.
    RtKey p = key("a"), q = key("ab");
    rt_key_str(&p, "bc");
    rt_key_str(&q, "c");
    CHECK(p.a != q.a && p.b != q.b);
    // A flipped bit, a truncated entry: absent, removed, said.
    CHECK(files(sub, file, sizeof file) == 1);
    FILE *f = fopen(file, "r+b");
    fseek(f, -1, SEEK_END);
    fputc('O', f);
    fclose(f);
    CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 1 &&
          files(sub, file, sizeof file) == 0);
    rt_cache_put(&o, key("x"), "hello", 5);
    CHECK(files(sub, file, sizeof file) == 1 && truncate(file, 20) == 0);
    CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 2);
    // What others could have written is no entry, and stays; a folder open to them is not used.
    rt_cache_put(&o, key("x"), "hello", 5);
    CHECK(files(sub, file, sizeof file) == 1 && chmod(file, 0620) == 0);
    CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 3);
    CHECK(files(sub, file, sizeof file) == 1 && chmod(file, 0644) == 0);
    CHECK(rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 3);
    if (chown(file, 4711, 4711) == 0) { // root's tests only
        CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 4);
        CHECK(chown(file, 0, 0) == 0 && chown(sub, 4711, 4711) == 0);
        CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 5);
        rt_cache_put(&o, key("y"), "hello", 5);
        CHECK(files(sub, file, sizeof file) == 1 && lines == 6 && rt_cache_fault(sub));
        CHECK(chown(sub, 0, 0) == 0);
    }
    CHECK(chmod(sub, 0777) == 0);
    lines = 0;
    CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 1 && rt_cache_fault(sub));
    CHECK(chmod(sub, 0700) == 0 && rt_cache_get(&o, key("x"), a, &bytes, &n));
    char moved[120];
    snprintf(moved, sizeof moved, "%s/moved", dir);
    CHECK(rename(file, moved) == 0 && symlink(moved, file) == 0);
    CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n));
    CHECK(unlink(file) == 0 && unlink(moved) == 0);
    lines = 2;
    // A full disk leaves nothing behind.
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    static char big[5000];
    rt_cache_put(&o, key("big"), big, sizeof big);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK(lines == 3 && files(sub, file, sizeof file) == 0);
    CHECK(!rt_cache_get(&o, key("big"), a, &bytes, &n));
    // No folder, and one that cannot be made.
    o.cache_dir = NULL;
    rt_cache_put(&o, key("x"), "hello", 5);
    CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 3);
    o.cache_dir = "/proc/none";
    rt_cache_put(&o, key("x"), "hello", 5);
    CHECK(!rt_cache_get(&o, key("x"), a, &bytes, &n) && lines == 4);
    atomic_bool told = false; // said once to who remembers
    o.unwritable = &told;
    rt_cache_put(&o, key("x"), "hello", 5);
    rt_cache_put(&o, key("y"), "hello", 5);
    CHECK(told && lines == 5);
    // Many at once.
    shared.cache_dir = sub;
    pthread_t t[4];
    int wrong[4] = {0};
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, hammer, &wrong[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        CHECK(!wrong[i]);
    }
    CHECK(files(sub, file, sizeof file) == 10);
    CHECK(open_files() == files_open); // whatever was found
    arena_free(a);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return unit_done();
}
