// Analyses, each in a separate process: a copy of the server with all its texts, which writes its
// results to a pipe. A change of a text ends it; a crash or unbounded memory use does not affect
// the server.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lsp/child.h"

enum { SURVEY_SECONDS = 20, KERNELS_SECONDS = 120, LARGEST_ANSWER = 256 << 20 };

// -- in the child ---------------------------------------------------------------------------------
typedef struct Child {
    const Server *server;
    const Document *document;
} Child;

// The text of a used file: from the editor if it is open there, otherwise from disk.
static char *resolve(void *user, const char *from, const char *name, size_t *length)
{
    const Child *c = user;
    char joined[8192];
    const char *slash = strrchr(c->document->path, '/');
    (void)from;
    if (name[0] != '/' && slash) { // netc_compile passes the name as written
        snprintf(joined, sizeof joined, "%.*s/%s", (int)(slash - c->document->path),
                 c->document->path, name);
        name = joined;
    }
    const Document *open = document_of_path(c->server, name);
    if (open) {
        *length = open->len;
        return strdup(open->text);
    }
    FILE *f = file_open(name);
    if (!f) return NULL;
    char *text = malloc(LSP_LARGEST_TEXT + 1);
    *length = text ? fread(text, 1, LSP_LARGEST_TEXT, f) : 0;
    if (text) text[*length] = 0;
    if (ferror(f)) free(text), text = NULL; // it is a folder
    fclose(f);
    return text;
}

void child_send(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) _exit(3);
        p += k;
        n -= (size_t)k;
    }
}

static netc_context *context(const Child *c)
{
    netc_context *ctx = NULL;
    NETC_INIT(netc_context_options, o);
    o.resolve = resolve;
    o.user = (void *)(uintptr_t)c;
    o.threads = 1;
    if (netc_context_create(&o, &ctx, NULL) != NETC_OK) _exit(3);
    return ctx;
}

static void make_survey(const void *arg, int fd)
{
    const Child *c = arg;
    NETC_INIT(netc_survey_options, o);
    o.defines = c->server->defines;
    o.ndefines = c->server->ndefines;
    char *json = NULL;
    if (netc_survey(context(c), c->document->path, c->document->text, &o, &json, NULL) != NETC_OK)
        _exit(3);
    child_send(fd, json, strlen(json));
}

// The definitions that this text has: the others are for other files of the folder.
static int known_defines(const Child *c, const char **out)
{
    const Survey *v = c->document->survey;
    int n = 0;
    for (int i = 0; i < c->server->ndefines; i++) {
        const char *define = c->server->defines[i];
        size_t len = strcspn(define, "=");
        bool known = false;
        for (uint32_t k = 0; v && k < v->decls.n; k++) {
            const Decl *x = &v->decls.at[k];
            known = known || (!x->owner && x->source == v->source && strlen(x->name) == len &&
                              !strncmp(x->name, define, len));
        }
        if (known) out[n++] = define;
    }
    return n;
}

// Writes {"inspect": …, "why": …}, {"error": […]} with errors in the text that only the passes
// find, or {"failed": […]} if something else is missing.
static void make_kernels(const void *arg, int fd)
{
    const Child *c = arg;
    NETC_INIT(netc_compile_options, o);
    NETC_INIT(netc_inspect_options, list);
    setpriority(PRIO_PROCESS, 0, 5); // lower priority than answers that the user is waiting for
    netc_program *p = NULL;
    netc_error *err = NULL;
    char *json = NULL, *why = NULL;
    const char **defines = calloc((size_t)c->server->ndefines + 1, sizeof *defines);
    if (!defines) _exit(3);
    o.defines = defines;
    o.ndefines = known_defines(c, defines);
    o.precision = c->server->precision;
    list.target = c->server->target;
    list.json = true;
    if (list.target && !strncmp(list.target, "sm_", 3)) {
        o.arch = atoi(list.target + 3);
        list.target = "cuda";
    }
    netc_status status =
        netc_compile_text(context(c), c->document->path, c->document->text, &o, &p, &err);
    if (status == NETC_OK) status = netc_inspect(p, &list, &json, &err);
    list.why = true;
    if (status == NETC_OK) status = netc_inspect(p, &list, &why, &err);
    if (status == NETC_OK) {
        child_send(fd, "{\"inspect\":", 11), child_send(fd, json, strlen(json));
        child_send(fd, ",\"why\":", 7), child_send(fd, why, strlen(why));
    } else {
        const char *list_of = netc_error_json(err);
        const char *key = netc_error_status(err) == NETC_INVALID ? "{\"error\":" : "{\"failed\":";
        child_send(fd, key, strlen(key)), child_send(fd, list_of, strlen(list_of));
    }
    child_send(fd, "}", 1);
}

void child_survey(const Server *s, const Document *d, int fd)
{
    make_survey(&(Child){s, d}, fd);
}

// -- in the server --------------------------------------------------------------------------------
static bool begin(Server *s, Job *j, void (*work)(const void *arg, int fd), const void *arg,
                  int seconds)
{
    int ends[2];
    job_end(j);
    if (pipe2(ends, O_CLOEXEC)) return false;
    pid_t server = getpid(), pid = fork();
    if (pid < 0) return close(ends[0]), close(ends[1]), false;
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != server) _exit(3);
        int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, s->wire.in); // output of libraries must not be mixed with messages
        dup2(nothing, s->wire.out);
        struct rlimit most = {(rlim_t)seconds, (rlim_t)seconds};
        setrlimit(RLIMIT_CPU, &most);
        work(arg, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *j = (Job){.pid = pid, .fd = ends[0]};
    return true;
}

void analysis_begin(Server *s, Document *d)
{
    if (d->len > LSP_LARGEST_TEXT) {
        d->stale = false;
        d->fault = "this text is too long to be analysed while typing (more than 4 MiB); 'netc' "
                   "compiles it";
        diagnostics_publish(s, d);
    } else if (!begin(s, &d->job, make_survey, &(Child){s, d}, SURVEY_SECONDS)) {
        d->stale = false;
        server_log(s, "cannot start a process to analyse %s: %s", d->path, strerror(errno));
    }
}

void kernels_begin(Server *s, Document *d)
{
    d->kernels_stale = false;
    if (d->len <= LSP_LARGEST_TEXT)
        begin(s, &d->kernels_job, make_kernels, &(Child){s, d}, KERNELS_SECONDS);
}

void job_end(Job *j)
{
    if (j->pid) {
        kill(j->pid, SIGKILL);
        while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        close(j->fd);
    }
    free(j->data);
    *j = (Job){0};
}

bool job_read(Job *j, int *status)
{
    for (;;) {
        if (j->cap - j->len < 65536) {
            size_t cap = j->cap * 2 + 131072;
            char *more = cap > LARGEST_ANSWER ? NULL : realloc(j->data, cap);
            if (!more) break;
            j->data = more;
            j->cap = cap;
        }
        ssize_t n = read(j->fd, j->data + j->len, j->cap - j->len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return false;
        if (n <= 0) break;
        j->len += (size_t)n;
    }
    kill(j->pid, SIGKILL); // its output is complete
    while (waitpid(j->pid, status, 0) < 0 && errno == EINTR) {
    }
    close(j->fd);
    j->pid = 0;
    return true;
}

typedef struct Work {
    void (*work)(void *arg, int fd);
    void *arg;
} Work;

static void do_work(const void *arg, int fd)
{
    const Work *w = arg;
    w->work(w->arg, fd);
}

char *child_run(Server *s, void (*work)(void *arg, int fd), void *arg, Arena *a, size_t *len)
{
    enum { MILLISECONDS = 5000 };
    Job j = {0};
    int status = 0;
    char *text = NULL;
    if (!begin(s, &j, do_work, &(Work){work, arg}, MILLISECONDS / 1000)) return NULL;
    bool done = false;
    for (struct pollfd on = {.fd = j.fd, .events = POLLIN}; !done;) {
        if (poll(&on, 1, MILLISECONDS) <= 0) break;
        done = job_read(&j, &status);
    }
    *len = j.len;
    if (done && j.data) text = arena_try(a, j.len + 1);
    if (text) memcpy(text, j.data, j.len);
    job_end(&j);
    return text;
}
