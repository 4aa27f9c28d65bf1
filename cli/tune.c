// netc tune: measures schedules, writes MODEL.tune.
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct Shown {
    bool quiet, verbose;
    int faster, kernels;
    double before, after; // of what was searched, weighted by nothing: a sum over kernels
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
            printf("%s: every kernel has its schedule; --again measures anew\n", e->device);
        break;
    case NETC_TUNE_SKIPPED:
        if (!e->schedule)
            fprintf(stderr, "note: kernel %s is left as it is: %s\n", e->kernel, e->text);
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
               e->kernel, e->after < e->before ? e->schedule : "the cost model's schedule stays");
        break;
    case NETC_TUNE_END:
        if (s->quiet || !e->total) break;
        printf("%d of %d searched, %d faster: %.2f -> %.2f us for one call of each\n", e->done,
               e->total, s->faster, s->before * 1e6, s->after * 1e6);
        printf("wrote %s%s\n", e->text,
               e->finished ? "; compilation uses it by itself"
                           : "; the same command goes on where this ended");
        break;
    }
    fflush(stdout);
}

int verb_tune(int argc, char **argv)
{
    Common c = {0};
    const char *device = NULL, *kernel = NULL;
    double budget = 60;
    bool again = false, prune = false;
    const Option options[] = {
        {"--budget", NULL, OPT_REAL, &budget, "SECONDS", "time for measuring (default 60)"},
        device_option(&device),
        {"--kernel", NULL, OPT_STRING, &kernel, "NAME", "only this kernel (netc inspect names it)"},
        {"--again", NULL, OPT_FLAG, &again, NULL, "measure anew what was measured before"},
        {"--prune", NULL, OPT_FLAG, &prune, NULL,
         "drop the device's lines whose kernel is gone from the model"},
    };
    int code;
    if (!read_command("tune", OPTIONS(options), &c, &c.words, argc, argv, &code)) return code;
    if (!(budget > 0)) {
        free_command(OPTIONS(options), &c);
        return fail("a budget of %g seconds leaves no time to measure: give --budget more than 0",
                    budget);
    }
    netc_context *ctx = NULL;
    netc_program *p = NULL;
    netc_error *err = NULL;
    Shown shown = {.quiet = c.quiet, .verbose = c.verbose};
    NETC_INIT(netc_compile_options, co);
    compile_options(&c, &co);
    NETC_INIT(netc_tune_options, o);
    o.seconds = budget;
    o.kernel = kernel;
    o.again = again;
    o.prune = prune;
    o.file = c.tune_file;
    o.event = show;
    o.user = &shown;
    catch_interrupt();
    // A file that is to be written need not be there.
    if (c.tune_file && access(c.tune_file, F_OK)) co.tune_file = "";
    netc_status status = open_context(&c, &ctx, &err);
    if (status == NETC_OK) status = netc_compile_file(ctx, c.words.at[0], &co, &p, &err);
    if (status == NETC_OK) status = netc_tune(p, device, &o, &err);
    netc_program_release(p);
    netc_context_free(ctx);
    free_command(OPTIONS(options), &c);
    if (status != NETC_OK) return exit_code(status, err);
    return interrupted(NULL) ? 130 : 0;
}
