// Opening contexts, programs and data; errors and interrupts.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

bool color_wanted(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

int fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs(color_wanted(STDERR_FILENO) ? "\033[1;31merror:\033[0m " : "error: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return 1;
}

int report_error(netc_error *err)
{
    netc_status status = netc_error_status(err);
    fprintf(stderr, "%s\n",
            color_wanted(STDERR_FILENO) ? netc_error_colored(err) : netc_error_text(err));
    netc_error_free(err);
    return status == NETC_CANCELLED                                ? 130
           : status == NETC_INVALID || status == NETC_CHECK_FAILED ? 1
                                                                   : 2;
}

int exit_code(netc_status status, netc_error *err)
{
    if (status == NETC_OK) return 0;
    if (err) return report_error(err);
    if (status == NETC_OUT_OF_MEMORY) fail("out of memory");
    return status == NETC_INVALID ? 1 : 2;
}

static void print_note(void *verbose, const char *line)
{
    // Warnings and notes about fallbacks are always shown, other messages only with -v.
    if (verbose || !strncmp(line, "note:", 5) || !strncmp(line, "warning:", 8))
        fprintf(stderr, "%s\n", line);
}

static void print_verbose(void *unused, const char *line)
{
    (void)unused;
    print_note("", line);
}

static void print_notes(void *unused, const char *line)
{
    (void)unused;
    print_note(NULL, line);
}

netc_status open_context(const Common *c, netc_context **out, netc_error **err)
{
    NETC_INIT(netc_context_options, o);
    o.cache_dir = c->cache_dir;
    o.log = c->quiet ? NULL : c->verbose ? print_verbose : print_notes;
    o.cancel = interrupted;
    return netc_context_create(&o, out, err);
}

int run_command(const Option *own, int n, Common *c, Body *body, void *args)
{
    netc_context *ctx = NULL;
    netc_error *err = NULL;
    netc_status status = open_context(c, &ctx, &err);
    if (status == NETC_OK) status = body(args, ctx, &err);
    netc_context_free(ctx);
    free_command(own, n, c);
    return exit_code(status, err);
}

int run_verb(const char *verb, const Option *own, int n, Common *c, int argc, char **argv,
             Body *body, void *args)
{
    int code;
    return read_command(verb, own, n, c, &c->words, argc, argv, &code)
               ? run_command(own, n, c, body, args)
               : code;
}

void compile_options(const Common *c, netc_compile_options *o)
{
    o->defines = c->defines.at;
    o->ndefines = c->defines.n;
    o->precision = c->precision;
    o->program = c->program;
    o->skip_passes = c->skip_passes;
    o->memory_limit = c->memory_limit;
    o->no_reuse = c->no_reuse;
    o->no_matmul_library = c->no_matmul_library;
    o->rebuild = c->rebuild;
    o->tune_file = c->tune_file;
    o->locked = c->locked;
}

const char *device_target(const char *device)
{
    return device && !strncmp(device, "cpu", 3)    ? "cpu"
           : device && !strncmp(device, "cuda", 4) ? "cuda"
                                                   : NULL;
}

int device_count(const char *device)
{
    int n = 1;
    for (const char *p = device; p && (p = strchr(p, ',')); p++) n++;
    return n;
}

netc_status open_program(const Common *c, netc_context *ctx, const char *target, int devices,
                         const StringList *entries, const netc_dataset *data,
                         const netc_dataset *eval_data, netc_program **out, netc_error **err)
{
    NETC_INIT(netc_compile_options, o);
    compile_options(c, &o);
    o.target = target;
    o.devices = devices;
    o.data = data;
    o.eval_data = eval_data;
    o.entries = entries ? entries->at : NULL;
    o.nentries = entries ? entries->n : 0;
    return netc_compile_file(ctx, c->words.at[0], &o, out, err);
}

netc_status add_data(netc_dataset *d, const StringList *words, netc_error **err)
{
    for (int i = 0; i < words->n; i++) {
        const char *word = words->at[i], *eq = strchr(word, '='), *colon;
        if (!eq || eq == word || !eq[1]) {
            fail("--data needs NAME=FILE, not '%s'", word);
            return NETC_INVALID;
        }
        char *name = strndup(word, (size_t)(eq - word)), *path = strdup(eq + 1);
        // FILE:PART, unless a file has this name.
        colon = path && access(path, F_OK) ? strrchr(path, ':') : NULL;
        if (colon) path[colon - path] = 0;
        netc_status status =
            name && path ? netc_dataset_add_file(d, name, path, colon ? colon + 1 : NULL, err)
                         : NETC_OUT_OF_MEMORY;
        free(name);
        free(path);
        if (status != NETC_OK) return status;
    }
    return NETC_OK;
}

netc_status open_data(netc_context *ctx, const StringList *words, const ImageOptions *images,
                      netc_dataset **out, netc_error **err)
{
    if (!words->n) return NETC_OK;
    netc_status status = netc_dataset_create(ctx, out, err);
    if (status == NETC_OK && images)
        status = netc_dataset_images(*out, images->resize, images->skip_bad, err);
    return status == NETC_OK ? add_data(*out, words, err) : status;
}

const char *model_of(netc_program *p)
{
    for (int i = 0; i < netc_entry_count(p); i++) {
        const char *name = netc_entry_name(p, i);
        bool other = !strcmp(name, "init") || !strcmp(name, "train") || !strcmp(name, "eval");
        if (!other && !strchr(name, '.')) return name; // (prepare.MODEL is none)
    }
    return NULL;
}

const char *entry_of(netc_program *p, const char *asked)
{
    if (asked) return asked;
    for (int i = 0; i < netc_entry_count(p); i++)
        if (!strcmp(netc_entry_name(p, i), "train")) return "train";
    return model_of(p);
}

Timing timing_default(void)
{
    return (Timing){.repeats = 25};
}

void time_options(const Timing *t, netc_time_options *o)
{
    o->steps = t->steps;
    o->repeats = t->repeats;
    o->seed = t->seed;
}

static netc_status load_weights(netc_session *s, const Weights *w, netc_error **err)
{
    const char *idle = w->map.n           ? "--map"
                       : w->allow_missing ? "--allow-missing"
                       : w->ignore.n      ? "--ignore"
                       : w->transpose.n   ? "--transpose"
                                          : NULL;
    if (!w->file && idle)
        return fail("%s applies to the file of --weights; give --weights FILE", idle), NETC_INVALID;
    if (!w->file) return NETC_OK;
    NETC_INIT(netc_load_options, o);
    o.map = w->map.at;
    o.nmap = w->map.n;
    o.allow_missing = w->allow_missing;
    o.ignore = w->ignore.at;
    o.nignore = w->ignore.n;
    o.transpose = w->transpose.at;
    o.ntranspose = w->transpose.n;
    o.weights_only = true;
    return netc_state_load(s, w->file, &o, err);
}

bool is_source(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && !strcmp(dot, ".net");
}

void note_untrained(netc_session *s, const Weights *w, const Common *c)
{
    if (w->file || c->quiet || !is_source(c->words.at[0]) || netc_state_count(s) < 1) return;
    fputs("note: parameters have their initial values; --weights FILE.safetensors loads others\n",
          stderr);
}

static netc_status apply_settings(netc_session *s, const StringList *words, netc_error **err)
{
    for (int i = 0; i < words->n; i++) {
        const char *word = words->at[i], *eq = strchr(word, '=');
        char *end = NULL, *name = eq ? strndup(word, (size_t)(eq - word)) : NULL;
        double value = eq ? strtod(eq + 1, &end) : 0;
        netc_status status = NETC_INVALID;
        if (!name || end == eq + 1 || *end)
            fail("--set needs NAME=NUMBER, not '%s'", word);
        else if (value - value != 0 && strpbrk(eq + 1, "0123456789"))
            fail("--set %s: the number is too large; write inf for infinity", word);
        else
            status = netc_set(s, name, value, err);
        free(name);
        if (status != NETC_OK) return status;
    }
    return NETC_OK;
}

netc_status open_session(netc_program *p, const char *device, int64_t seed, const Weights *w,
                         const StringList *settings, netc_session **out, netc_error **err)
{
    NETC_INIT(netc_session_options, o);
    o.seed = seed;
    netc_status status = netc_session_create(p, device, &o, out, err);
    if (status == NETC_OK) status = load_weights(*out, w, err);
    return status == NETC_OK ? apply_settings(*out, settings, err) : status;
}

char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, cap = 0, got = 1;
    while (f && got) {
        if (n + 4096 > cap) {
            char *more = realloc(text, cap = cap ? 2 * cap : 65536);
            if (!more) break;
            text = more;
        }
        got = fread(text + n, 1, cap - n - 1, f);
        n += got;
    }
    bool ok = f && text && !got && !ferror(f); // got: there was no memory for the rest
    if (f) fclose(f);
    if (ok && memchr(text, 0, n)) ok = false, errno = EILSEQ; // "invalid character"
    if (ok)
        text[n] = 0;
    else
        free(text), text = NULL;
    return text;
}

int fail_to_read_text(const char *path, const char *wanted)
{
    if (!*path) return fail("the name of a file is empty: name one");
    if (errno == EILSEQ) return fail("%s is not text: %s", path, wanted);
    return fail("cannot read %s: %s", path, strerror(errno));
}

bool write_text(const char *path, const char *text)
{
    struct stat st;
    // beside: written to a temporary file next to it; otherwise the path is a link or a pipe
    bool there = !lstat(path, &st), beside = !there || S_ISREG(st.st_mode);
    char *temporary = NULL;
    if (asprintf(&temporary, beside ? "%s.netc-new" : "%s", path) < 0)
        return fail("out of memory"), false;
    if (beside) remove(temporary); // left by a process that was killed
    int fd = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC | (beside ? O_EXCL : O_TRUNC), 0666);
    FILE *f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    bool ok = f && fputs(text, f) >= 0 && !fflush(f);
    if (ok && beside && there) ok = !fchmod(fd, st.st_mode & 0777);
    int why = errno;
    if (f && fclose(f) && ok) ok = false, why = errno;
    if (!f && fd >= 0) close(fd);
    if (ok && beside && rename(temporary, path)) ok = false, why = errno;
    if (!ok) {
        if (fd >= 0 && beside) remove(temporary);
        errno = why;
        fail_to_write(path);
    }
    free(temporary);
    return ok;
}

// Global, since a signal handler has no other access to data.
static volatile sig_atomic_t stop_asked;

static void on_interrupt(int signal)
{
    if (stop_asked) _exit(128 + signal);
    stop_asked = 1;
    static const char text[] = "\nfinishing the step; press Ctrl-C again to end at once\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
}

// The terminal, or the reader of the output, is gone. Further output would be lost, but training
// can still save its parameters. May be signalled more than once.
static void on_hangup(int signal)
{
    (void)signal;
    stop_asked = 1;
}

void catch_interrupt(void)
{
    struct sigaction a = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, now;
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    a.sa_handler = on_hangup;
    sigaction(SIGPIPE, &a, NULL);
    // (it is ignored under nohup)
    if (!sigaction(SIGHUP, NULL, &now) && now.sa_handler != SIG_IGN) sigaction(SIGHUP, &a, NULL);
}

bool interrupted(void *unused)
{
    (void)unused;
    return stop_asked;
}
