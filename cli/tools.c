// The short verbs: check, doctor, fmt.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/cli.h"

static void print_json_string(const char *s)
{
    Arena *a = arena_new();
    jmp_buf full;
    if (a && !setjmp(full)) {
        arena_on_oom(a, &full);
        Buf text = buf_new(a);
        Json j = json_writer(&text);
        json_string(&j, s);
        fwrite(text.data, 1, text.len, stdout);
    }
    if (a) arena_free(a);
}

typedef struct CheckArgs {
    Common common;
    const char *device, *kernel;
    int64_t seed;
    bool json;
} CheckArgs;

static netc_status check(void *args, netc_context *ctx, netc_error **err)
{
    CheckArgs *a = args;
    netc_program *p = NULL;
    char *report = NULL;
    netc_status status =
        open_program(&a->common, ctx, NULL, device_count(a->device), NULL, NULL, NULL, &p, err);
    if (status == NETC_OK)
        status = a->kernel ? netc_check_kernel(p, a->device, a->kernel, &report, err)
                           : netc_check(p, a->device, a->seed, &report, err);
    if (report && a->json) {
        printf("{\"ok\":%s,\"report\":", status == NETC_OK ? "true" : "false");
        print_json_string(report);
        puts("}");
    } else if (report && !(a->common.quiet && status == NETC_OK)) {
        fputs(report, stdout);
    }
    netc_free(report);
    netc_program_release(p);
    return status;
}

int verb_check(int argc, char **argv)
{
    CheckArgs a = {0};
    const Option options[] = {
        seed_option(&a.seed, "random seed of made-up data (default 0)"),
        device_option(&a.device),
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "print one JSON object: ok, report"},
        {"--kernel", NULL, OPT_STRING, &a.kernel, "NAME",
         "compare only this kernel, edited or tuned, with the generated one, and time both"},
    };
    return run_verb("check", OPTIONS(options), &a.common, argc, argv, check, &a);
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
    const Option options[] = {{"--json", NULL, OPT_FLAG, &d.json, NULL, "print JSON"}};
    if (!read_command("doctor", OPTIONS(options), NULL, &words, argc, argv, &code)) return code;
    netc_context *ctx = NULL;
    netc_error *err = NULL;
    if (open_context(&c, &ctx, &err) != NETC_OK) return report_error(err);
    netc_doctor(ctx, finding, &d);
    if (d.json) puts("]");
    netc_context_free(ctx);
    return 0;
}

int verb_show(int argc, char **argv)
{
    StringList words = {0};
    int code, failed = 0;
    if (!read_command("show", NULL, 0, NULL, &words, argc, argv, &code)) return code;
    for (int i = 0; i < words.n; i++) {
        char *text = NULL;
        netc_error *err = NULL;
        if (netc_show(words.at[i], &text, &err) == NETC_OK)
            fputs(text, stdout);
        else
            failed = report_error(err);
        netc_free(text);
    }
    list_free(&words);
    return failed;
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
            int failed = fail_to_read_text(path, "netc fmt formats model files");
            code = code ? code : failed;
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
