// netc_format and netc_doctor.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/ast.h"
#include "lib/lib.h"

typedef struct Format {
    const char *name, *text;
    Arena *arena;
    netc_error **err;
    netc_status status;
    char *out;
} Format;

// The text with the line ends of the source: \r\n if its first line ends so.
static const char *line_ends(Arena *a, const char *text, const char *source)
{
    const char *first = strchr(source, '\n');
    if (!first || first == source || first[-1] != '\r') return text;
    Buf b = buf_new(a);
    for (const char *p = text; *p; p++) {
        if (*p == '\n') buf_char(&b, '\r');
        buf_char(&b, *p);
    }
    return b.data ? b.data : "";
}

static void format(void *arg)
{
    Format *f = arg;
    Diags *d = diags_new(f->arena);
    const char *out =
        format_source(f->arena, d, source_add(d, f->name, f->text, strlen(f->text), false));
    if (!out || d->errors)
        f->status = lib_fail_diags(f->err, NETC_INVALID, d);
    else
        f->out = strdup(line_ends(f->arena, out, f->text));
}

netc_status netc_format(netc_context *c, const char *name, const char *text, char **formatted,
                        netc_error **err)
{
    (void)c;
    Format f = {name, text, arena_new(), err, NETC_OK, NULL};
    if (!f.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(f.arena, format, &f)) f.status = OUT_OF_MEMORY(err);
    arena_free(f.arena);
    if (f.status != NETC_OK) return f.status;
    *formatted = f.out;
    return f.out ? NETC_OK : OUT_OF_MEMORY(err);
}

void netc_doctor(netc_context *c,
                 void (*line)(void *user, const char *what, bool ok, const char *detail),
                 void *user)
{
    rt_doctor(line, user);
    char detail[4300];
    const char *fault = c->cache_dir ? rt_cache_fault(c->cache_dir) : NULL;
    snprintf(detail, sizeof detail, "%s%s%s%s",
             c->cache_dir ? c->cache_dir
                          : "off; set HOME or XDG_CACHE_HOME to keep compiled kernels",
             fault ? ": " : "", fault ? fault : "",
             fault ? "; kernels are compiled again in every process" : "");
    line(user, "compile cache", c->cache_dir && !fault, detail);
}
