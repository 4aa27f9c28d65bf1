// The short verbs: check, doctor, fmt.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/cli.h"

static void print_json_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') putchar('\\');
        if ((unsigned char)*s < 32)
            printf("\\u%04x", *s);
        else
            putchar(*s);
    }
    putchar('"');
}

// Opens a model for a verb that reads it; the caller frees what it got.
typedef struct Opened {
    netc_context *ctx;
    netc_program *p;
    netc_error *err;
    netc_status status;
} Opened;

static Opened open_model(const Common *c, const char *path, const char *target)
{
    Opened o = {0};
    o.status = open_context(c, &o.ctx, &o.err);
    if (o.status == NETC_OK) o.status = open_program(c, o.ctx, path, target, NULL, &o.p, &o.err);
    return o;
}

static int close_model(Opened *o)
{
    netc_program_release(o->p);
    netc_context_free(o->ctx);
    return exit_code(o->status, o->err);
}

int verb_check(int argc, char **argv)
{
    Common c = {0};
    int64_t seed = 0;
    const char *device = NULL, *kernel = NULL;
    bool json = false;
    const Option options[] = {
        seed_option(&seed, "of made-up data (default 0)"),
        device_option(&device),
        {"--json", NULL, OPT_FLAG, &json, NULL, "as one JSON object: ok, report"},
        {"--kernel", NULL, OPT_STRING, &kernel, "NAME",
         "only this kernel, edited or tuned: against the generated one, and timed"},
    };
    int code;
    if (!read_command("check", OPTIONS(options), &c, &c.words, argc, argv, &code)) return code;
    Opened o = open_model(&c, c.words.at[0], NULL);
    char *report = NULL;
    if (o.status == NETC_OK)
        o.status = kernel ? netc_check_kernel(o.p, device, kernel, &report, &o.err)
                          : netc_check(o.p, device, seed, &report, &o.err);
    if (report && json) {
        printf("{\"ok\":%s,\"report\":", o.status == NETC_OK ? "true" : "false");
        print_json_string(report);
        puts("}");
    } else if (report && !(c.quiet && o.status == NETC_OK)) {
        fputs(report, stdout);
    }
    netc_free(report);
    free_command(OPTIONS(options), &c);
    return close_model(&o);
}

typedef struct Doctor {
    bool json, color, any;
} Doctor;

static void finding(void *user, const char *what, bool ok, const char *detail)
{
    Doctor *d = user;
    if (d->json) {
        printf("%s{\"what\":", d->any ? "," : "[");
        print_json_string(what);
        printf(",\"ok\":%s,\"detail\":", ok ? "true" : "false");
        print_json_string(detail);
        putchar('}');
    } else {
        printf("%s%s%s %-16s %s\n", d->color ? (ok ? "\033[32m" : "\033[33m") : "",
               ok ? "yes" : "no ", d->color ? "\033[0m" : "", what, detail);
    }
    d->any = true;
}

int verb_doctor(int argc, char **argv)
{
    Common c = {0};
    StringList words = {0};
    Doctor d = {.color = color_wanted(STDOUT_FILENO)};
    int code;
    const Option options[] = {{"--json", NULL, OPT_FLAG, &d.json, NULL, "as JSON"}};
    if (!read_command("doctor", OPTIONS(options), NULL, &words, argc, argv, &code)) return code;
    netc_context *ctx = NULL;
    netc_error *err = NULL;
    if (open_context(&c, &ctx, &err) != NETC_OK) return report_error(err);
    netc_doctor(ctx, finding, &d);
    if (d.json) puts("]");
    netc_context_free(ctx);
    return 0;
}

int verb_fmt(int argc, char **argv)
{
    StringList words = {0};
    bool check = false;
    const Option options[] = {{"--check", NULL, OPT_FLAG, &check, NULL,
                               "change nothing; exit 1 when a file would change"}};
    int code;
    if (!read_command("fmt", OPTIONS(options), NULL, &words, argc, argv, &code)) return code;
    for (int i = 0; i < words.n; i++) {
        const char *path = words.at[i];
        char *text = read_text(path), *out = NULL;
        netc_error *err = NULL;
        if (!text) {
            fail("cannot read %s: %s", path, strerror(errno));
            code = code ? code : 1;
        } else if (netc_format(NULL, path, text, &out, &err) != NETC_OK) {
            report_error(err);
            code = 1;
        } else if (strcmp(text, out)) {
            if (check)
                printf("%s would change\n", path), code = 1;
            else if (!write_text(path, out))
                code = 2;
        }
        free(text);
        netc_free(out);
    }
    list_free(&words);
    return code;
}
