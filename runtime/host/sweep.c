// Who may write a file, and cleaning up after a process that was killed while writing. Files are
// written under the name of the file they will replace, cut if it is long, plus ".netc-" and six
// letters, and are locked until they are renamed: a process that gets the lock knows that no other
// is writing.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folders.h"
#include "runtime/host/file.h"

#define MARK ".netc-"
enum { LETTERS = 6, ROOM = NAME_MAX - (sizeof MARK - 1) - LETTERS };

// How much of a file's name is kept in that of its temporary file: whole characters of UTF-8.
static size_t kept(const char *name)
{
    size_t n = strlen(name);
    if (n <= ROOM) return n;
    for (n = ROOM; n > 1 && ((unsigned char)name[n] & 0xc0) == 0x80;) n--;
    return n;
}

char *rt_file_beside(const char *path, unsigned mode, int *fd)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int begin = (int)(name - path + (ptrdiff_t)kept(name));
    size_t n = (size_t)begin + sizeof MARK + LETTERS;
    char *temporary = malloc(n);
    struct stat st;
    *fd = -1;
    if (!temporary) return NULL;
    // If another process removed the file before it was locked, creates it again.
    do {
        if (*fd >= 0) close(*fd);
        snprintf(temporary, n, "%.*s" MARK "XXXXXX", begin, path);
        *fd = rt_file_new(temporary, mode);
    } while (*fd >= 0 && !flock(*fd, LOCK_EX) && !fstat(*fd, &st) && !st.st_nlink);
    return temporary;
}

static bool is_random(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    return strlen(name) == LETTERS && strspn(name, letters) == LETTERS;
}

static bool is_left_over(const char *name, const char *of)
{
    size_t n = kept(of), mark = sizeof MARK - 1;
    return !strncmp(name, of, n) && !strncmp(name + n, MARK, mark) && is_random(name + n + mark);
}

static void sweep_one(int dir, const char *name)
{
    struct stat st;
    int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !flock(fd, LOCK_EX | LOCK_NB))
        unlinkat(dir, name, 0);
    close(fd);
}

// Opens the folder of the file that path refers to; *name: the file's name in it.
static DIR *open_folder(const char *path, char **name)
{
    char *folder = link_target(path), *slash = folder ? strrchr(folder, '/') : NULL;
    *name = folder ? strdup(slash ? slash + 1 : folder) : NULL;
    if (slash) *slash = 0;
    DIR *d = !*name ? NULL : opendir(!slash ? "." : *folder ? folder : "/");
    free(folder);
    return d;
}

void rt_file_sweep(const char *path)
{
    char *name;
    DIR *d = open_folder(path, &name);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_left_over(e->d_name, name)) sweep_one(dirfd(d), e->d_name);
    if (d) closedir(d);
    free(name);
}

int rt_file_lock_folder(const char *path)
{
    char *name;
    DIR *d = open_folder(path, &name);
    int fd = d ? fcntl(dirfd(d), F_DUPFD_CLOEXEC, 0) : -1;
    if (d) closedir(d);
    free(name);
    if (fd < 0 || !flock(fd, LOCK_EX)) return fd;
    close(fd);
    return -1;
}

static void sweep_folder(int in, const char *name)
{
    struct stat st;
    int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool own =
        fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB);
    int copy = own ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) unlinkat(fd, e->d_name, 0); // (files only)
    if (d) unlinkat(in, name, AT_REMOVEDIR);
    if (d)
        closedir(d);
    else if (copy >= 0)
        close(copy);
    if (fd >= 0) close(fd);
}

// Removes folders whose names are that of path up to its six letters.
static void sweep_folders(const char *path)
{
    char *name;
    DIR *d = open_folder(path, &name);
    size_t n = name ? strlen(name) - LETTERS : 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, name, n) && is_random(e->d_name + n))
            sweep_folder(dirfd(d), e->d_name);
    if (d) closedir(d);
    free(name);
}

int rt_folder_temporary(char *path)
{
    enum { TRIES = 100 };
    struct stat st, now;
    char *letters = path + strlen(path) - LETTERS;
    sweep_folders(path);
    // If another process removed the folder before it was locked, creates it again.
    for (int i = 0; i < TRIES; i++) {
        memset(letters, 'X', LETTERS);
        if (!mkdtemp(path)) return -1;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT) return rmdir(path), -1;
        if (fd < 0) continue;
        flock(fd, LOCK_EX); // (without locks, nobody sweeps)
        if (!fstat(fd, &st) && !stat(path, &now) && st.st_ino == now.st_ino) return fd;
        close(fd);
        rmdir(path);
    }
    return errno = EBUSY, -1;
}
