// netc tune: measures schedules, writes MODEL.tune.
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct Shown {
    bool quiet;
    int faster, kernels;
    double before, after; // sums over the kernels that were searched, not weighted
} Shown;

static void show(void *user, const netc_tune_event *e)
{
    Shown *s = user;
    switch (e->kind) {
    case NETC_TUNE_START:
        if (s->quiet) break;
        if (e->total)
            printf("%s: %d launches to search\n", e->device, e->total);
        else
            printf("%s: every kernel already has a schedule; --again repeats the measurements\n",
                   e->device);
        break;
    case NETC_TUNE_SKIPPED:
        if (!e->schedule)
            fprintf(stderr, "note: kernel %s is left unchanged: %s\n", e->kernel, e->text);
        else
            fprintf(stderr, "note: kernel %s: %s: skipped: %s\n", e->kernel, e->schedule, e->text);
        break;
    case NETC_TUNE_KERNEL:
        s->kernels++;
        s->faster += e->after < e->before;
        s->before += e->before;
        s->after += e->after;
        if (s->quiet) break;
        printf("%5.1f %%  %9.2f -> %9.2f us  %3d tried%s  %s\n         %s\n", 100 * e->share,
               e->before * 1e6, e->after * 1e6, e->tried, e->finished ? "" : " (time over)",
               e->kernel, e->after < e->before ? e->schedule : "the cost model's schedule is kept");
        break;
    case NETC_TUNE_END:
        if (s->quiet || !e->total) break;
        printf("%d of %d searched, %d faster: %.2f -> %.2f us for one call of each\n", e->done,
               e->total, s->faster, s->before * 1e6, s->after * 1e6);
        printf("wrote %s%s\n", e->text,
               e->finished ? "; compilation uses it automatically"
                           : "; run the same command to continue");
        break;
    }
    fflush(stdout);
}

typedef struct TuneArgs {
    Common common;
    netc_tune_options o;
    const char *device;
} TuneArgs;

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    TuneArgs *a = args;
    netc_program *p = NULL;
    Shown shown = {.quiet = a->common.quiet};
    NETC_INIT(netc_compile_options, c);
    compile_options(&a->common, &c);
    // The file to be written need not exist.
    if (c.tune_file && access(c.tune_file, F_OK)) c.tune_file = "";
    a->o.file = a->common.tune_file;
    a->o.event = show;
    a->o.user = &shown;
    catch_interrupt();
    netc_status status = netc_compile_file(ctx, a->common.words.at[0], &c, &p, err);
    if (status == NETC_OK) status = netc_tune(p, a->device, &a->o, err);
    netc_program_release(p);
    return status;
}

int verb_tune(int argc, char **argv)
{
    TuneArgs a = {.o = {.size = sizeof a.o, .seconds = 60}};
    const Option options[] = {
        {"--budget", NULL, OPT_REAL, &a.o.seconds, "SECONDS", "time for measuring (default 60)"},
        device_option(&a.device),
        {"--kernel", NULL, OPT_STRING, &a.o.kernel, "NAME",
         "only this kernel (netc inspect names it)"},
        {"--again", NULL, OPT_FLAG, &a.o.again, NULL, "repeat earlier measurements"},
        {"--prune", NULL, OPT_FLAG, &a.o.prune, NULL,
         "remove this device's lines of kernels that the model no longer has"},
    };
    int code;
    if (!read_command("tune", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    if (!(a.o.seconds > 0)) {
        free_command(OPTIONS(options), &a.common);
        return fail("a budget of %g seconds leaves no time to measure: give --budget more than 0",
                    a.o.seconds);
    }
    code = run_command(OPTIONS(options), &a.common, run, &a);
    return !code && interrupted(NULL) ? 130 : code;
}
