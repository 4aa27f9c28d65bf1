// Tuning files and choice tables: text in, entries out, and back.
#include "lib/api/tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/plain.h"

static const char head[] = "# netc tune 1";

// Parses "kernel NAME 0123456789abcdef @ DEVICE: SCHEDULE  # NOTE". NULL: correct; otherwise the
// error.
static const char *parse_kernel(Arena *a, const char *line, TuneEntry *e)
{
    static const char form[] =
        "a line about a kernel is: kernel NAME IDENTITY @ DEVICE: SCHEDULE  # NOTE";
    const char *name = line + strlen("kernel "), *id = strchr(name, ' '),
               *device = id ? strstr(id, " @ ") : NULL,
               *text = device ? strstr(device, ": ") : NULL;
    if (!text) return form;
    char *end;
    e->name = arena_strndup(a, name, (size_t)(id - name));
    e->key = strtoull(id + 1, &end, 16);
    if (end != device || device - id != 17 || strspn(id + 1, "0123456789abcdefABCDEF") != 16)
        return form;
    e->device = arena_strndup(a, device + 3, (size_t)(text - device - 3));
    const char *note = strstr(text, " #");
    size_t n = note ? (size_t)(note - text - 2) : strlen(text + 2);
    while (n > 0 && plain_space(text[2 + n - 1])) n--;
    e->schedule = arena_strndup(a, text + 2, n);
    e->note = note ? arena_strdup(a, note + 2 + strspn(note + 2, " ")) : "";
    return n ? NULL : form;
}

static const char *at_line(Arena *a, const char *path, int line, const char *what)
{
    return arena_printf(a, "%s:%d: %s", path, line, what);
}

const char *tune_parse(Arena *a, const char *path, const char *text, size_t n, TuneFile *out)
{
    *out = (TuneFile){.path = path};
    text = arena_strndup(a, text, n);
    if (path && strncmp(text, head, sizeof head - 1))
        return arena_printf(a, "%s is not a tuning file: its first line is not '%s'", path, head);
    if (path && strlen(text) < n)
        return arena_printf(a, "%s is damaged: there is a zero byte in it", path);
    if (path && text[n - 1] != '\n')
        return arena_printf(a,
                            "%s is truncated: its last line does not end; remove it, and 'netc "
                            "tune' writes it again",
                            path);
    int number = 0;
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        number++;
        const char *line = arena_strndup(a, at, (size_t)(end - at));
        if (!*line || *line == '#') continue;
        if (strncmp(line, "kernel ", 7)) {
            if (path && !strstr(line, ": "))
                return at_line(a, path, number, "a line is KEY: VALUE");
            vec_push(a, &out->others, line);
            continue;
        }
        TuneEntry e = {.line = path ? number : 0};
        const char *wrong = parse_kernel(a, line, &e);
        if (wrong && path) return at_line(a, path, number, wrong);
        const TuneEntry *twice = wrong ? NULL : tune_find(out, e.key, e.device);
        if (twice && path)
            return at_line(a, path, number,
                           arena_printf(a, "this kernel already has line %d", twice->line));
        if (!wrong && !twice) vec_push(a, &out->kernels, e);
    }
    return NULL;
}

const char *choices_wrong(const char *text)
{
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        const char *colon = memmem(at, (size_t)(end - at), ": ", 2);
        if (at + strspn(at, " \t\r") < end && *at != '#' && !colon) return at;
    }
    return NULL;
}

TuneEntry *tune_find(const TuneFile *t, uint64_t key, const char *device)
{
    for (uint32_t i = 0; i < t->kernels.n; i++)
        if (t->kernels.at[i].key == key && !strcmp(t->kernels.at[i].device, device))
            return &t->kernels.at[i];
    return NULL;
}

void tune_print_line(const TuneEntry *e, bool note, Buf *out)
{
    buf_printf(out, "kernel %s %016llx @ %s: %s", e->name, (unsigned long long)e->key, e->device,
               e->schedule);
    if (note && *e->note) buf_printf(out, "  # %s", e->note);
    buf_char(out, '\n');
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void tune_print(Arena *a, const TuneFile *t, Buf *out)
{
    const char **line = NEW_ARRAY(a, const char *, t->kernels.n + t->others.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < t->kernels.n; i++) {
        Buf one = buf_new(a);
        tune_print_line(&t->kernels.at[i], true, &one);
        line[n++] = one.data;
    }
    for (uint32_t i = 0; i < t->others.n; i++) line[n++] = arena_printf(a, "%s\n", t->others.at[i]);
    qsort(line, n, sizeof *line, by_text);
    buf_printf(out,
               "%s: measured choices, one line per kernel or matmul; compilation reads this file "
               "automatically\n# kernel NAME IDENTITY @ DEVICE: SCHEDULE  # by the cost model -> "
               "by this schedule\n",
               head);
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(line[i], line[i - 1])) buf_str(out, line[i]);
}

netc_status tune_load(netc_program *p, netc_error **err)
{
    const char *path = p->settings.tune_file;
    if (!path || !*path) return NETC_OK;
    if (access(path, F_OK) && !p->settings.tune_file_named) {
        if (!p->settings.locked) return NETC_OK;
        return lib_fail(err, NETC_INVALID,
                        "there is no %s to lock the schedules to; 'netc tune %s' measures and "
                        "writes it",
                        path, p->name);
    }
    void *bytes = NULL;
    size_t n = 0;
    RtError e = {0};
    if (rt_file_read(p->arena, path, &bytes, &n, &e)) return lib_fail_rt(err, &e);
    p->tuning = NEW(p->arena, TuneFile);
    const char *wrong = tune_parse(p->arena, path, bytes, n, p->tuning);
    return wrong ? lib_fail(err, NETC_INVALID, "%s", wrong) : NETC_OK;
}
