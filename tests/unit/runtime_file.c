// Files that are replaced as a whole, while others sweep what killed writers have left behind.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
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

int main(void)
{
    char dir[] = "/tmp/netc-file-XXXXXX", path[64];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/target", dir);
    many_writers(path);
    CHECK(!unlink(path) && !rmdir(dir)); // nothing else is left
    return unit_done();
}
