// The images in a folder or an archive. Folders are read class by class and file by file, each in
// byte order, so that numbers and labels are the same on every machine.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/data/images.h"

enum { DEEPEST = 16 };

RtCode rt_list_add(RtListing *l, const RtListed *x, RtError *e)
{
    if (l->n == l->room) {
        int64_t room = l->room ? 2 * l->room : 256;
        RtListed *more = realloc(l->image, (size_t)room * sizeof *more);
        if (more) l->image = more, l->room = room;
    }
    if (l->n < l->room && x->name) return l->image[l->n++] = *x, RT_OK;
    free(x->name);
    return rt_fail(e, RT_OOM, "out of memory");
}

static char **add_name(char **names, int n, const char *name)
{
    char **more = realloc(names, (size_t)(n + 1) * sizeof *more);
    if (!more || !(more[n] = strdup(name))) return free(more), NULL;
    return more;
}

void rt_list_free(RtListing *l)
{
    for (int64_t i = 0; i < l->n; i++) free(l->image[i].name);
    for (int i = 0; i < l->nclasses; i++) free(l->classes[i]);
    for (int i = 0; i < l->ntars; i++) free(l->tars[i]);
    free(l->image), free(l->classes), free(l->tars);
    *l = (RtListing){0};
}

// -- folders --------------------------------------------------------------------------------------
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_hidden(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static RtCode list_folder(RtListing *l, const char *path, int64_t label, int depth, RtError *e)
{
    struct dirent **in;
    int n = scandir(path, &in, not_hidden, by_bytes);
    if (n < 0) return rt_fail(e, RT_USER, "cannot open the folder %s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char *name = NULL;
        struct stat st;
        if (!e->code && asprintf(&name, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
                                 in[i]->d_name) < 0)
            name = NULL, rt_fail(e, RT_OOM, "out of memory");
        bool there = !e->code && !stat(name, &st);
        if (there && S_ISDIR(st.st_mode) && depth > DEEPEST) {
            rt_fail(e, RT_USER, "%s: folders within folders, more than %d deep", name, DEEPEST);
        } else if (there && S_ISDIR(st.st_mode)) {
            bool is_class = depth == 0;
            char **names = is_class ? add_name(l->classes, l->nclasses, in[i]->d_name) : NULL;
            if (is_class && !names) rt_fail(e, RT_OOM, "out of memory");
            if (names) l->classes = names, l->nclasses++;
            if (!e->code) list_folder(l, name, is_class ? l->nclasses - 1 : label, depth + 1, e);
        } else if (there && rt_image_named(name)) {
            rt_list_add(l, &(RtListed){.name = name, .tar = -1, .label = label}, e);
            name = NULL;
        }
        free(name);
        free(in[i]);
    }
    free(in);
    return e->code;
}

// An error: a folder has files but no images, so it is not a class.
static RtCode empty_class(const RtListing *l, const char *path, RtError *e)
{
    bool *has = calloc((size_t)l->nclasses + 1, 1);
    if (!has) return rt_fail(e, RT_OOM, "out of memory");
    for (int64_t i = 0; i < l->n; i++)
        if (l->image[i].label >= 0) has[l->image[i].label] = true;
    for (int i = 0; i < l->nclasses && !e->code; i++)
        if (!has[i])
            rt_fail(e, RT_USER, "%s: the folder '%s' would be a class, but holds no image", path,
                    l->classes[i]);
    free(has);
    return e->code;
}

RtCode rt_list_folder(RtListing *l, const char *path, RtError *e)
{
    RtError own = {0}; // (e may contain an earlier error)
    if (list_folder(l, path, -1, 0, &own)) return *e = own, own.code;
    int64_t loose = 0;
    for (int64_t i = 0; i < l->n; i++) loose += l->image[i].label < 0;
    if (!l->n) return rt_fail(e, RT_USER, "%s: there is no PNG or JPEG image in this folder", path);
    if (loose && l->nclasses)
        return rt_fail(
            e, RT_USER,
            "%s holds images next to folders of classes; put each image into a class's folder",
            path);
    l->labels = l->nclasses > 0;
    return empty_class(l, path, e);
}

// -- archives -------------------------------------------------------------------------------------
struct archive;
struct archive_entry;
enum { ARCHIVE_END = 1, ARCHIVE_FINE = 0, ARCHIVE_WARN = -20, REGULAR = 0100000, BLOCK = 10240 };

typedef struct Tar { // libarchive
    struct archive *(*read_new)(void);
    int (*read_support_format_tar)(struct archive *);
    int (*read_open_filename)(struct archive *, const char *, size_t);
    int (*read_next_header)(struct archive *, struct archive_entry **);
    ssize_t (*read_data)(struct archive *, void *, size_t);
    const char *(*entry_pathname)(struct archive_entry *);
    int64_t (*entry_size)(struct archive_entry *);
    unsigned (*entry_filetype)(struct archive_entry *);
    int64_t (*filter_bytes)(struct archive *, int);
    const char *(*error_string)(struct archive *);
    int (*read_free)(struct archive *);
} Tar;

static bool tar_open(Tar *t)
{
    static const struct {
        const char *name;
        size_t at;
    } rows[] = {
#define ROW(f) {"archive_" #f, offsetof(Tar, f)}
        ROW(read_new),           ROW(read_support_format_tar),
        ROW(read_open_filename), ROW(read_next_header),
        ROW(read_data),          ROW(entry_pathname),
        ROW(entry_size),         ROW(entry_filetype),
        ROW(filter_bytes),       ROW(error_string),
        ROW(read_free),
#undef ROW
    };
    void *lib = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (size_t i = 0; lib && i < sizeof rows / sizeof *rows; i++) {
        void *f = dlsym(lib, rows[i].name);
        if (!f) return false;
        memcpy((char *)t + rows[i].at, &f, sizeof f);
    }
    return lib != NULL;
}

bool rt_tar_readable(const char **why)
{
    Tar t;
    bool there = tar_open(&t);
    *why = there ? NULL : "libarchive.so.13 was not found (Debian: libarchive13)";
    return there;
}

typedef struct Sample { // consecutive files with the same name up to the first dot
    char *key;
    int64_t image; // -1: none yet
    int64_t label;
} Sample;

static void end_sample(RtListing *l, Sample *s)
{
    if (s->image >= 0) l->image[s->image].label = s->label;
    l->labels = l->labels || (s->image >= 0 && s->label >= 0);
    free(s->key);
    *s = (Sample){.image = -1, .label = -1};
}

static RtCode take_label(const Tar *t, struct archive *a, const char *path, const char *name,
                         Sample *s, RtError *e)
{
    char text[32] = "", *end;
    ssize_t n = t->read_data(a, text, sizeof text - 1);
    long long v = n > 0 ? strtoll(text, &end, 10) : -1;
    if (n <= 0 || end == text || v < 0 || end[strspn(end, " \r\n\t")])
        return rt_fail(e, RT_USER, "%s: %s holds no class number", path, name);
    s->label = v;
    return RT_OK;
}

static RtCode take_member(RtListing *l, const Tar *t, struct archive *a, const char *path,
                          struct archive_entry *x, Sample *s, RtError *e)
{
    const char *name = t->entry_pathname(x), *slash = name ? strrchr(name, '/') : NULL;
    const char *dot = name ? strchr(slash ? slash : name, '.') : NULL;
    if (!dot || t->entry_filetype(x) != REGULAR) return RT_OK;
    if (!s->key || strncmp(s->key, name, (size_t)(dot - name)) || s->key[dot - name]) {
        end_sample(l, s);
        s->key = strndup(name, (size_t)(dot - name));
        if (!s->key) return rt_fail(e, RT_OOM, "out of memory");
    }
    if (!strcmp(dot, ".cls")) return take_label(t, a, path, name, s, e);
    if (!rt_image_named(name) || strchr(dot + 1, '.'))
        return RT_OK; // "seg.png" is not the
                      // sample's image
    if (s->image >= 0)
        return rt_fail(e, RT_USER, "%s: the sample '%s' has two images", path, s->key);
    RtListed image = {
        .tar = l->ntars - 1, .at = t->filter_bytes(a, 0), .size = t->entry_size(x), .label = -1};
    if (asprintf(&image.name, "%s: %s", path, name) < 0) image.name = NULL;
    s->image = l->n;
    return rt_list_add(l, &image, e);
}

RtCode rt_list_tar(RtListing *l, const char *path, RtError *e)
{
    Tar t;
    const char *why;
    if (!tar_open(&t))
        return rt_tar_readable(&why),
               rt_fail(e, RT_ENV, "%s is an archive, and %s; install it, nothing has to be rebuilt",
                       path, why);
    char **names = add_name(l->tars, l->ntars, path);
    if (!names) return rt_fail(e, RT_OOM, "out of memory");
    l->tars = names, l->ntars++;
    struct archive *a = t.read_new();
    struct archive_entry *x;
    Sample s = {.image = -1, .label = -1};
    int64_t before = l->n;
    int rc = a ? t.read_support_format_tar(a) : ARCHIVE_WARN - 1;
    if (rc == ARCHIVE_FINE) rc = t.read_open_filename(a, path, BLOCK);
    RtCode code = RT_OK;
    while (!code && (rc == ARCHIVE_FINE || rc == ARCHIVE_WARN)) {
        rc = t.read_next_header(a, &x);
        if (rc == ARCHIVE_FINE || rc == ARCHIVE_WARN) code = take_member(l, &t, a, path, x, &s, e);
    }
    end_sample(l, &s);
    if (!code && rc != ARCHIVE_END)
        code = rt_fail(e, RT_USER,
                       "%s is not a complete tar archive (a compressed one must be unpacked): %s",
                       path, a && t.error_string(a) ? t.error_string(a) : "out of memory");
    if (a) t.read_free(a);
    if (!code && l->n == before)
        code = rt_fail(e, RT_USER, "%s: there is no PNG or JPEG image in this archive", path);
    return code;
}
