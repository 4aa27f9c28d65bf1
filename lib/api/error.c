// Error objects: they hold the whole diagnostic, rendered when the error is created.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "lib/lib.h"

// Returned if there is no memory for an error object; never freed.
static const netc_error no_memory = {NETC_OUT_OF_MEMORY, "error: out of memory",
                                     "error: out of memory",
                                     "[{\"severity\":\"error\",\"message\":\"out of memory\"}]"};

static netc_error *make(netc_status status, const char *text, const char *colored, const char *json)
{
    netc_error *e = calloc(1, sizeof *e);
    if (!e) return (netc_error *)&no_memory;
    *e = (netc_error){status, strdup(text), strdup(colored), strdup(json)};
    if (e->text && e->colored && e->json) return e;
    netc_error_free(e);
    return (netc_error *)&no_memory;
}

static netc_status plain(netc_error **err, netc_status status, const char *text)
{
    if (!err || *err) return status;
    Arena *a = arena_new();
    jmp_buf oom;
    if (!a || setjmp(oom)) {
        arena_free(a);
        *err = (netc_error *)&no_memory;
        return status;
    }
    arena_on_oom(a, &oom);
    Buf json = buf_new(a);
    Json j = json_writer(&json);
    json_array(&j), json_object(&j);
    json_key(&j, "severity"), json_string(&j, "error");
    json_key(&j, "message"), json_string(&j, text);
    json_end(&j), json_end(&j);
    *err = make(status, arena_printf(a, "error: %s", text),
                arena_printf(a, "\033[1;31merror:\033[0m %s", text), json.data);
    arena_free(a);
    return status;
}

netc_status lib_fail(netc_error **err, netc_status status, const char *fmt, ...)
{
    char text[6000];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = plain_vformat(text, sizeof text, fmt, args);
    va_end(args);
    char *longer = n >= (int)sizeof text ? malloc((size_t)n + 1) : NULL; // if there is no memory,
                                                                         // the text is cut
    if (longer) plain_vformat(longer, (size_t)n + 1, fmt, again);
    va_end(again);
    plain(err, status, longer ? longer : text);
    free(longer);
    return status;
}

static char *with_note(char *text, const char *note)
{
    size_t n = strlen(text) + strlen(note) + 16;
    char *longer = malloc(n);
    if (!longer) return text;
    snprintf(longer, n, "%s\n  note: %s", text, note);
    free(text);
    return longer;
}

void lib_error_note(netc_error **err, const char *fmt, ...)
{
    char note[1000];
    va_list args;
    if (!err || !*err || *err == &no_memory) return;
    va_start(args, fmt);
    plain_vformat(note, sizeof note, fmt, args);
    va_end(args);
    (*err)->text = with_note((*err)->text, note);
    (*err)->colored = with_note((*err)->colored, note);
}

netc_status lib_no_graph(netc_error **err, const netc_program *p, const char *what)
{
    return lib_fail(err, NETC_INVALID,
                    "%s holds no graph, which %s needs; --rebuild compiles its source again",
                    p->embedded ? p->embedded->path : p->name, what);
}

bool lib_names_kernel(const char *asked, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(asked, name, n)) return false;
    if (!asked[n]) return true;
    const char *part = asked + n + 1;
    size_t digits = asked[n] == '/' ? strspn(part, "0123456789") : 0;
    return digits && !part[digits];
}

netc_status lib_no_kernel(netc_error **err, const Program *p, const char *name)
{
    enum { MOST = 3 };
    char text[600] = "";
    const char **names = calloc((size_t)p->nkernels + 1, sizeof *names), *near[MOST];
    int n = 0;
    if (!names) return OUT_OF_MEMORY(err);
    for (int i = 0; i < p->nkernels; i++) {
        names[i] = p->kernels[i].name;
        if (n < MOST && strstr(names[i], name)) near[n++] = names[i];
    }
    if (!n && (near[0] = suggest(name, names, (size_t)p->nkernels))) n = 1;
    free(names);
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                 i == 0      ? "; did you mean "
                 : i < n - 1 ? ", "
                             : " or ",
                 near[i]);
    return lib_fail(err, NETC_INVALID, "there is no kernel '%s' for %s%s%s", name, p->target, text,
                    n         ? "?"
                    : p->cuda ? "; netc inspect MODEL --target cuda lists them"
                              : "; netc inspect MODEL --target cpu lists them");
}

netc_status lib_fail_rt(netc_error **err, const RtError *e)
{
    static const netc_status status[] = {
        [RT_OK] = NETC_INTERNAL,       [RT_USER] = NETC_INVALID,       [RT_ENV] = NETC_ENVIRONMENT,
        [RT_OOM] = NETC_OUT_OF_MEMORY, [RT_CHECK] = NETC_CHECK_FAILED, [RT_CANCEL] = NETC_CANCELLED,
    };
    return plain(err, status[e->code],
                 e->text[0] ? e->text : "the runtime failed without a message");
}

netc_status lib_fail_diags(netc_error **err, netc_status status, const Diags *d)
{
    if (!err || *err) return status;
    Buf text = buf_new(d->arena), colored = buf_new(d->arena), json = buf_new(d->arena);
    diags_render(d, &text, false);
    diags_render(d, &colored, true);
    diags_json(d, &json);
    if (text.len && text.data[text.len - 1] == '\n') text.data[text.len - 1] = 0;
    if (colored.len && colored.data[colored.len - 1] == '\n') colored.data[colored.len - 1] = 0;
    *err = make(status, text.data, colored.data, json.data);
    return status;
}

netc_status netc_error_status(const netc_error *e)
{
    return e ? e->status : NETC_OK;
}

const char *netc_error_text(const netc_error *e)
{
    return e ? e->text : "";
}

const char *netc_error_colored(const netc_error *e)
{
    return e ? e->colored : "";
}

const char *netc_error_json(const netc_error *e)
{
    return e ? e->json : "[]";
}

void netc_error_free(netc_error *e)
{
    if (!e || e == &no_memory) return;
    free(e->text);
    free(e->colored);
    free(e->json);
    free(e);
}

bool lib_guarded(Arena *a, void (*fn)(void *arg), void *arg)
{
    jmp_buf oom;
    if (setjmp(oom)) {
        arena_on_oom(a, NULL);
        return false;
    }
    arena_on_oom(a, &oom);
    fn(arg);
    arena_on_oom(a, NULL);
    return true;
}
