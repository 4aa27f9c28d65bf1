// netc report: one page of HTML.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct ReportArgs {
    Common common;
    const char *out, *entry, *target, *profile;
    StringList logs;
} ReportArgs;

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    ReportArgs *a = args;
    netc_program *p = NULL;
    char *html = NULL;
    NETC_INIT(netc_compile_options, c);
    NETC_INIT(netc_report_options, o);
    compile_options(&a->common, &c);
    if (!take_target(a->target, &c, &o.target)) return NETC_INVALID;
    o.entry = a->entry, o.profile = a->profile;
    o.logs = a->logs.at, o.nlogs = a->logs.n;
    netc_status status = netc_compile_file(ctx, a->common.words.at[0], &c, &p, err);
    if (status == NETC_OK) status = netc_report(p, &o, &html, err);
    if (status == NETC_OK && !write_text(a->out, html)) status = NETC_ENVIRONMENT;
    if (status == NETC_OK && !a->common.quiet) printf("wrote %s\n", a->out);
    netc_free(html);
    netc_program_release(p);
    return status;
}

int verb_report(int argc, char **argv)
{
    ReportArgs a = {0};
    const Option options[] = {
        {"--output", "-o", OPT_OUTPUT, &a.out, "FILE", "the page to write (.html)"},
        {"--entry", "-e", OPT_STRING, &a.entry, "NAME",
         "which entry (default train, else the first model)"},
        {"--profile", NULL, OPT_INPUT, &a.profile, "FILE",
         "measured times: what 'netc profile MODEL --json' printed"},
        {"--log", NULL, OPT_LIST, &a.logs, "FILE",
         "curves: what 'netc train --log FILE' wrote; several are compared"},
        {"--target", NULL, OPT_STRING, &a.target, "T",
         "cpu, cuda, sm_80, sm_90, sm_100; default: the profile's, or what would run here"},
    };
    int code;
    if (!read_command("report", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    if (!a.out) code = fail("name the page to write: netc report MODEL -o report.html");
    if (!a.out || !output_named(a.out, ".html", "a page is written", &code)) {
        free_command(OPTIONS(options), &a.common);
        return code;
    }
    return run_command(OPTIONS(options), &a.common, run, &a);
}
