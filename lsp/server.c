// The server's loop: it first reads messages, then analyses the documents they changed, then
// answers the requests that wait for an analysis.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "lsp/lsp.h"
#include "lsp/serve.h"

enum { RUNNING = 2 }; // limit of concurrent analyses

// false: there is no complete message.
static bool take_message(Server *s)
{
    Arena *a = arena_new();
    jmp_buf full;
    if (!a) return false;
    if (setjmp(full)) {
        arena_free(a);
        server_log(s, "out of memory: a message was lost");
        return true;
    }
    arena_on_oom(a, &full);
    char *text;
    size_t len;
    const char *wrong;
    WireEvent event = wire_take(&s->wire, a, &text, &len, &wrong);
    if (event == WIRE_BAD) server_bad(s, a, wrong);
    if (event == WIRE_MESSAGE) {
        Message *m = NEW(a, Message);
        m->arena = a;
        server_message(s, m, text, len);
    } else {
        arena_free(a);
    }
    return event != WIRE_NONE;
}

static int running(const Server *s)
{
    int n = 0;
    for (const Document *d = s->documents; d; d = d->next) n += d->job.pid != 0;
    return n;
}

static void begin_analyses(Server *s)
{
    for (Document *d = s->documents; d && running(s) < RUNNING; d = d->next)
        if (d->stale && !d->job.pid) analysis_begin(s, d);
    // Saved texts are compiled, to find the errors that only the passes find.
    for (Document *d = s->documents; d; d = d->next) {
        if (!d->saved || d->stale) continue;
        d->saved = false;
        if (d->kernels_stale && survey_elaborated(d->survey) && survey_has_model(d->survey))
            kernels_begin(s, d);
    }
}

static void kernels_done(Document *d)
{
    const char *error;
    jmp_buf full;
    d->kernels_arena = arena_new();
    if (d->kernels_arena && setjmp(full)) arena_free(d->kernels_arena), d->kernels_arena = NULL;
    if (d->kernels_arena && d->kernels_job.data) {
        arena_on_oom(d->kernels_arena, &full);
        d->kernels = json_parse(d->kernels_arena, d->kernels_job.data, d->kernels_job.len, &error);
    }
    free(d->kernels_job.data);
    d->kernels_job = (Job){0};
}

static void look_after(Server *s)
{
    int status;
    for (Document *d = s->documents; d; d = d->next) {
        if (d->job.pid && job_read(&d->job, &status)) {
            document_analysed(d);
            diagnostics_publish(s, d);
        }
        if (d->kernels_job.pid && job_read(&d->kernels_job, &status)) {
            kernels_done(d);
            if (json_get(d->kernels, "error")) diagnostics_publish(s, d);
        }
    }
}

// Waits until something can be read, or a short time if a message waits.
static bool wait_for_something(Server *s)
{
    enum { MOST = 256, SOON = 100 };
    struct pollfd on[MOST] = {{.fd = s->wire.in, .events = POLLIN}};
    nfds_t n = 1;
    for (Document *d = s->documents; d && n + 2 < MOST; d = d->next) {
        if (d->job.pid) on[n++] = (struct pollfd){.fd = d->job.fd, .events = POLLIN};
        if (d->kernels_job.pid)
            on[n++] = (struct pollfd){.fd = d->kernels_job.fd, .events = POLLIN};
    }
    while (poll(on, n, s->waiting ? SOON : -1) < 0 && errno == EINTR) {
    }
    return on[0].revents != 0;
}

// Reads all available messages before any work is begun.
static void read_all(Server *s)
{
    struct pollfd in = {.fd = s->wire.in, .events = POLLIN};
    do {
        wire_read(&s->wire);
        while (!s->ended && take_message(s)) {
        }
    } while (!s->wire.ended && !s->ended && poll(&in, 1, 0) > 0);
}

int lsp_serve(int in, int out, const char *const *defines, int ndefines)
{
    Server s = {.wire = {.in = in, .out = out}, .options = arena_new()};
    jmp_buf full;
    if (!s.options) return 2;
    if (setjmp(full)) return 2;
    arena_on_oom(s.options, &full);
    signal(SIGPIPE, SIG_IGN);
    s.defines = NEW_ARRAY(s.options, const char *, ndefines + 1);
    for (int i = 0; i < ndefines; i++) s.defines[s.ndefines++] = defines[i];
    while (!s.ended && !s.wire.ended && !s.wire.broken) {
        if (wait_for_something(&s)) read_all(&s);
        if (s.ended) break;
        look_after(&s);
        server_retry(&s);
        begin_analyses(&s);
    }
    while (s.waiting) {
        Message *m = s.waiting;
        s.waiting = m->next;
        arena_free(m->arena);
    }
    while (s.documents) document_close(&s, s.documents);
    free(s.wire.data);
    arena_free(s.options);
    return s.stopping ? 0 : 1;
}
