// Files that are replaced as a whole, while others sweep what killed writers have left behind.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/host/file.h"
#include "tests/unit/unit.h"

enum { WRITERS = 3, WRITES = 200, BYTES = 5000 };

typedef struct Writing {
    const char *path;
    char letter;
    int failed;
    RtError first; // mistake
} Writing;

static void *write_often(void *arg)
{
    Writing *w = arg;
    char bytes[BYTES];
    memset(bytes, w->letter, sizeof bytes);
    for (int i = 0; i < WRITES; i++)
        if (rt_file_write(w->path, bytes, sizeof bytes, w->failed ? &(RtError){0} : &w->first))
            w->failed++;
    return NULL;
}

static atomic_bool ended;

static void *sweep_often(void *path)
{
    while (!ended) rt_file_sweep(path);
    return NULL;
}

// What is written is nobody's to sweep, from its creation until it has the other's name.
static void many_writers(const char *path)
{
    pthread_t writer[WRITERS], sweeper;
    Writing w[WRITERS];
    CHECK(!pthread_create(&sweeper, NULL, sweep_often, (void *)path));
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (Writing){path, (char)('a' + i), 0, {0}};
        CHECK(!pthread_create(&writer[i], NULL, write_often, &w[i]));
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writer[i], NULL);
        CHECK_MSG(!w[i].failed, "%d of %d writes failed: %s", w[i].failed, WRITES, w[i].first.text);
    }
    ended = true;
    pthread_join(sweeper, NULL);
    RtError e = {0};
    RtBytes b;
    CHECK(!rt_bytes_read_raw(path, &b, &e));
    CHECK(b.n == BYTES && b.at[0] >= 'a' && b.at[0] < 'a' + WRITERS);
    CHECK(!memcmp(b.at, b.at + 1, b.n - 1)); // of one writer
    free(b.at);
}

static char *folder_in(const char *dir, char path[80])
{
    snprintf(path, 80, "%s/work-XXXXXX", dir);
    return path;
}

static void *work_often(void *dir)
{
    char path[80], file[100];
    long failed = 0;
    for (int i = 0; i < WRITES; i++) {
        int fd = rt_folder_temporary(folder_in(dir, path));
        snprintf(file, sizeof file, "%s/0.c", path);
        int in = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        failed += fd < 0 || in < 0 || unlink(file) || rmdir(path);
        close(in);
        close(fd);
    }
    return (void *)failed;
}

// Folders of threads at work stay; that of a killed process, whose lock is gone, is removed with
// its files. Others of such a name stay, too.
static void folders(const char *dir)
{
    char first[80], second[80], third[80], file[100], other[80], deep[100];
    int one = rt_folder_temporary(folder_in(dir, first));
    CHECK(one >= 0);
    snprintf(file, sizeof file, "%s/0.c", first);
    CHECK(!rt_file_write(file, "x", 1, &(RtError){0}));
    snprintf(other, sizeof other, "%s/work-longer_", dir);
    snprintf(deep, sizeof deep, "%s/work-abcdef/sub", dir);
    CHECK(!mkdir(other, 0700));
    deep[strlen(deep) - 4] = 0;
    CHECK(!mkdir(deep, 0700));
    deep[strlen(deep)] = '/';
    CHECK(!mkdir(deep, 0700));
    int two = rt_folder_temporary(folder_in(dir, second));
    CHECK(two >= 0 && !access(file, F_OK));
    close(one);
    int three = rt_folder_temporary(folder_in(dir, third));
    CHECK(three >= 0 && access(first, F_OK) && !access(second, F_OK) && !access(third, F_OK));
    pthread_t worker[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        CHECK(!pthread_create(&worker[i], NULL, work_often, (void *)(uintptr_t)dir));
    for (int i = 0; i < WRITERS; i++) {
        void *failed;
        CHECK(!pthread_join(worker[i], &failed) && !failed);
    }
    CHECK(!access(deep, F_OK) && !rmdir(other) && !rmdir(second) && !rmdir(third));
    CHECK(!rmdir(deep));
    deep[strlen(deep) - 4] = 0;
    CHECK(!rmdir(deep));
    close(two);
    close(three);
}

int main(void)
{
    char dir[] = "/tmp/netc-file-XXXXXX", path[64];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/target", dir);
    many_writers(path);
    folders(dir);
    CHECK(!unlink(path) && !rmdir(dir)); // nothing else is left
    return unit_done();
}
