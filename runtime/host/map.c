// Files as memory. Who shortens a file meanwhile ends the process that reads it, as with any map.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/host/file.h"

bool rt_map_file(const char *path, RtMap *out)
{
    struct stat st;
    *out = (RtMap){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    void *p = MAP_FAILED;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return false;
    *out = (RtMap){p, (size_t)st.st_size};
    return true;
}

void rt_map_free(RtMap *m)
{
    if (m->at) munmap((void *)m->at, m->n);
    *m = (RtMap){0};
}
