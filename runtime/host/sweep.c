// Who may write a file, and cleaning up after a process that was killed while writing. Files are
// written under the name of the file they will replace, plus ".netc-" and six letters, and are
// locked until they are renamed: a process that gets the lock knows that no other is writing.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folders.h"
#include "runtime/host/file.h"

#define MARK ".netc-"
enum { LETTERS = 6 };

char *rt_file_beside(const char *path, unsigned mode, int *fd)
{
    size_t n = strlen(path) + sizeof MARK + LETTERS;
    char *temporary = malloc(n);
    struct stat st;
    *fd = -1;
    if (!temporary) return NULL;
    // If another process removed the file before it was locked, creates it again.
    do {
        if (*fd >= 0) close(*fd);
        snprintf(temporary, n, "%s" MARK "XXXXXX", path);
        *fd = rt_file_new(temporary, mode);
    } while (*fd >= 0 && !flock(*fd, LOCK_EX) && !fstat(*fd, &st) && !st.st_nlink);
    return temporary;
}

static bool is_left_over(const char *name, const char *of)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t n = strlen(of), mark = sizeof MARK - 1;
    return !strncmp(name, of, n) && !strncmp(name + n, MARK, mark) &&
           strlen(name + n + mark) == LETTERS && strspn(name + n + mark, letters) == LETTERS;
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
