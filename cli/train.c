// netc train: reads data, shows progress and writes a log and checkpoints.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/json.h"
#include "base/plain.h"
#include "cli/tensorboard.h"

typedef struct Display {
    bool quiet, json, terminal, line_open;
    FILE *log;
    const char *log_path;
    bool log_failed, log_goes_on;
    Board board;
    int64_t first;             // of this run
    char *trained, *evaluated; // the last line of each, with -q
} Display;

static void log_line(Display *d, const netc_event *e, FILE *out)
{
    fprintf(out, "{\"step\":%" PRId64 ",\"epoch\":%.4g", e->step, e->epochs_done);
    for (int i = 0; i < e->nmetrics; i++) {
        double v = e->metrics[i].value;
        if (v - v == 0)
            fprintf(out, ",\"%s\":%.9g", e->metrics[i].name, v);
        else
            fprintf(out, ",\"%s\":null", e->metrics[i].name);
    }
    fprintf(out, ",\"seconds\":%.6g}\n", e->seconds);
    if ((fflush(out) || ferror(out)) && out == d->log) d->log_failed = true;
}

static void close_line(Display *d)
{
    if (d->line_open) putchar('\n');
    d->line_open = false;
}

static void print_metrics(FILE *out, const netc_event *e)
{
    for (int i = 0; i < e->nmetrics; i++)
        fprintf(out, " %s %.*g%s", e->metrics[i].name, 5, e->metrics[i].value,
                i + 1 < e->nmetrics ? "," : "");
}

// Prints progress. On a terminal, the line overwrites the previous one and is cut to the terminal's
// width.
static void progress(Display *d, const netc_event *e)
{
    char *line = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&line, &n);
    if (!out) return;
    fprintf(out, "step %*" PRId64 "/%" PRId64, e->total > 99999 ? 7 : 5, e->step, e->total);
    if (e->epochs) fprintf(out, " epoch %" PRId64 "/%" PRId64, e->epoch, e->epochs);
    fprintf(out, " |");
    print_metrics(out, e);
    fprintf(out, " | %.0f items/s | %.1f s, %.1f s left", e->items_per_second, e->seconds,
            e->seconds_left);
    if (fclose(out) || !line) return;
    struct winsize w;
    if (d->terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col > 20 && n > w.ws_col - 1u)
        line[w.ws_col - 1] = 0;
    if (d->terminal && d->line_open) fputs("\r\033[K", stdout);
    fputs(line, stdout);
    free(line);
    d->line_open = d->terminal;
    if (!d->terminal) putchar('\n');
}

// Keeps output for -q: the last line of training and, if there was one, of evaluation.
static void quiet_event(Display *d, const netc_event *e)
{
    char **line = e->kind == NETC_EVENT_PROGRESS ? &d->trained
                  : e->kind == NETC_EVENT_EVAL   ? &d->evaluated
                                                 : NULL;
    if (line) {
        size_t n = 0;
        free(*line);
        *line = NULL;
        FILE *out = open_memstream(line, &n);
        if (!out) return;
        fprintf(out, "step %" PRId64 "/%" PRId64 "%s |", e->step, e->total,
                e->kind == NETC_EVENT_EVAL ? " evaluated" : "");
        print_metrics(out, e);
        fclose(out);
    }
    if (e->kind != NETC_EVENT_END) return;
    if (d->trained) puts(d->trained);
    if (d->evaluated) puts(d->evaluated);
    if (e->text) puts(e->text);
    fflush(stdout);
}

static void on_event(void *user, const netc_event *e)
{
    Display *d = user;
    board_event(&d->board, e);
    // Clears an existing log only when there is something new to write. (A pipe cannot be cleared.)
    if (e->kind == NETC_EVENT_START && d->log && !d->log_goes_on)
        (void)!ftruncate(fileno(d->log), 0);
    if ((e->kind == NETC_EVENT_PROGRESS || e->kind == NETC_EVENT_EVAL) && d->log)
        log_line(d, e, d->log);
    if (d->json) {
        if (e->kind == NETC_EVENT_PROGRESS || e->kind == NETC_EVENT_EVAL) log_line(d, e, stdout);
        return;
    }
    if (d->quiet) {
        quiet_event(d, e);
        return;
    }
    switch (e->kind) {
    case NETC_EVENT_START:
        d->first = e->step;
        fputs(e->text, stdout);
        break;
    case NETC_EVENT_PROGRESS: progress(d, e); break;
    case NETC_EVENT_EVAL:
        close_line(d);
        printf("step %" PRId64 "/%" PRId64 " evaluated |", e->step, e->total);
        print_metrics(stdout, e);
        putchar('\n');
        break;
    case NETC_EVENT_SAVED:
        close_line(d);
        printf("saved %s at step %" PRId64 "\n", e->text, e->step);
        break;
    case NETC_EVENT_END:
        close_line(d);
        printf("%" PRId64 " step%s in %.2f s", e->step - d->first, plural(e->step - d->first),
               e->seconds);
        for (int i = 0; i < e->nmetrics; i++)
            printf(", %s %.9g", e->metrics[i].name, e->metrics[i].value);
        putchar('\n');
        if (e->text) printf("%s\n", e->text);
        break;
    }
    fflush(stdout);
}

typedef struct TrainArgs {
    Common common;
    Weights weights;
    StringList data, eval_data, watch, set;
    const char *device, *save, *save_best, *resume, *log, *tensorboard;
    netc_train_options o;
    ImageOptions images;
    int64_t seed;
    bool json, random_windows;
} TrainArgs;

static netc_status train(TrainArgs *a, netc_context *ctx, Display *d, netc_error **err)
{
    netc_program *p = NULL;
    netc_session *s = NULL;
    StringList watched = {0};
    bool evaluates = a->eval_data.n || a->o.split;
    const StringList entries = {(const char *[]){"train", "eval"}, evaluates ? 2 : 1};
    netc_context_prepare(ctx, a->device);
    netc_status status = open_data(ctx, &a->data, &a->images, &a->o.data, err);
    if (status == NETC_OK && a->random_windows && a->o.data)
        status = netc_dataset_random_windows(a->o.data, err);
    if (status == NETC_OK) status = open_data(ctx, &a->eval_data, &a->images, &a->o.eval_data, err);
    if (status == NETC_OK)
        status = open_program(&a->common, ctx, device_target(a->device), device_count(a->device),
                              &entries, a->o.data, a->o.eval_data, &p, err);
    if (status == NETC_OK)
        status = open_session(p, a->device, a->seed, &a->weights, &a->set, &s, err);
    if (status == NETC_OK) {
        a->o.size = sizeof a->o;
        a->o.save = a->save;
        a->o.save_best = a->save_best;
        a->o.resume = a->resume;
        d->board.program = p;
        d->board.session = s;
        d->board.watch = &watched;
        a->o.event = on_event;
        a->o.user = d;
        if (a->watch.n)
            status = netc_watched(s, a->watch.at, a->watch.n, &watched.at, &watched.n, err);
        a->o.watch = watched.at;
        a->o.nwatch = watched.n;
        catch_interrupt();
        if (status == NETC_OK) status = netc_train(s, &a->o, err);
        close_line(d);
    }
    netc_free((void *)watched.at);
    netc_session_free(s);
    netc_program_release(p);
    netc_dataset_free(a->o.data);
    netc_dataset_free(a->o.eval_data);
    return status;
}

// Whether the file of --save-best, named after --save, is not the file of --weights, which would be
// lost. false: an error was reported; exit with *code.
static bool best_apart(const TrainArgs *a, int *code)
{
    static const char *const ends[] = {".safetensors.index.json", ".safetensors", ""};
    if (!a->save || !a->save_best || !a->weights.file) return true;
    size_t n = strlen(a->save), end = 0;
    const char *const *e = ends;
    while ((end = strlen(*e)) > n || strcmp(a->save + n - end, *e)) e++;
    char *best = NULL;
    if (asprintf(&best, "%.*s.best%s", (int)(n - end), a->save, *e) < 0)
        return *code = fail("out of memory"), false;
    bool apart = output_apart(best, a->weights.file, "read by --weights", code);
    free(best);
    return apart;
}

int verb_train(int argc, char **argv)
{
    TrainArgs a = {0};
    const Option options[] = {
        examples_option(&a.data),
        {"--eval-data", NULL, OPT_LIST, &a.eval_data, "NAME=FILE", "examples to evaluate on"},
        IMAGE_OPTIONS(&a.images),
        {"--split", NULL, OPT_POSITIVE, &a.o.split, "S",
         "train on this share of the data, evaluate on the rest"},
        {"--epochs", NULL, OPT_POSITIVE, &a.o.epochs, "N", "passes over the data (default 1)"},
        {"--steps", NULL, OPT_COUNT, &a.o.steps, "N", "how many steps, instead of epochs"},
        device_option(&a.device),
        seed_option(&a.seed, "random seed of weights, dropout and shuffling (default 0)"),
        {"--save", NULL, OPT_OUTPUT, &a.save, "FILE",
         "save when training ends (.safetensors; several files: .safetensors.index.json)"},
        part_option(&a.o.part_bytes),
        {"--save-every", NULL, OPT_COUNT, &a.o.save_every, "N", "also save every N steps"},
        {"--save-best", NULL, OPT_STRING, &a.save_best, "METRIC",
         "also keep the checkpoint of the best evaluation by METRIC: accuracy, loss, x:min"},
        {"--patience", NULL, OPT_COUNT, &a.o.patience, "N",
         "stop after N evaluations without improvement of METRIC, or else of the loss"},
        {"--resume", NULL, OPT_STRING, &a.resume, "FILE",
         "continue from a checkpoint, to the same bits"},
        WEIGHTS_OPTIONS(&a.weights),
        {"--eval-every", NULL, OPT_COUNT, &a.o.eval_every, "N",
         "steps between evaluations (default: an epoch)"},
        {"--report-every", NULL, OPT_COUNT, &a.o.report_every, "N", "steps between progress lines"},
        {"--log", NULL, OPT_OUTPUT, &a.log, "FILE",
         "write a JSON object per line: step, epoch, every scalar output"},
        {"--tensorboard", NULL, OPT_STRING, &a.tensorboard, "DIR",
         "write event files for TensorBoard, and scalars.csv"},
        {"--watch", NULL, OPT_LIST, &a.watch, "NAME",
         "log mean, deviation and extremes of parameters, taps: a name or a pattern, 'h.*.attn'"},
        set_option(&a.set),
        {"--random-windows", NULL, OPT_FLAG, &a.random_windows, NULL,
         "start windows of tokens at random positions, drawn from the seed"},
        {"--no-shuffle", NULL, OPT_FLAG, &a.o.no_shuffle, NULL, "read the examples in order"},
        {"--keep-last", NULL, OPT_FLAG, &a.o.keep_last_partial, NULL,
         "also train on the last, smaller batch of an epoch"},
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "print the log's lines on standard output"},
    };
    int code;
    if (!read_command("train", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    if (a.o.epochs > 0 && a.o.steps) code = fail("give --epochs or --steps, not both");
    if (a.resume && a.weights.file)
        code = fail("give --resume or --weights, not both: a checkpoint holds all parameters");
    if (!code && a.save) checkpoint_named(a.save, "a checkpoint is written", &code);
    // (--save may be the file of --resume, and then goes on with it.)
    const char *const checkpoints[] = {a.save, a.resume};
    for (int i = 0; i < 2 && !code; i++) output_apart(a.log, checkpoints[i], "a checkpoint", &code);
    if (!code) best_apart(&a, &code);
    if (!code) output_of_objects(a.log, "training log", &code);
    if (code) {
        free_command(OPTIONS(options), &a.common);
        return code;
    }
    Display d = {.quiet = a.common.quiet,
                 .json = a.json,
                 .terminal = isatty(STDOUT_FILENO),
                 .log_goes_on = a.resume != NULL};
    if (a.log && !(d.log = fopen(a.log, "a"))) {
        code = fail_to_write(a.log);
        free_command(OPTIONS(options), &a.common);
        return code;
    }
    if (!board_open(&d.board, a.tensorboard, a.resume != NULL, &code)) {
        if (d.log) fclose(d.log);
        free_command(OPTIONS(options), &a.common);
        return code;
    }
    netc_context *ctx = NULL;
    netc_error *err = NULL;
    netc_status status = open_context(&a.common, &ctx, &err);
    if (status == NETC_OK) status = train(&a, ctx, &d, &err);
    netc_context_free(ctx);
    free(d.trained), free(d.evaluated);
    if (d.log && fclose(d.log)) d.log_failed = true;
    bool board_whole = board_close(&d.board);
    free_command(OPTIONS(options), &a.common);
    if (status == NETC_CANCELLED) {
        fprintf(stderr, "%s\n", netc_error_text(err));
        netc_error_free(err);
        return 130;
    }
    if (status != NETC_OK) return exit_code(status, err);
    if (d.log_failed) return fail("the log %s could not be written completely", a.log), 2;
    return board_whole ? 0 : 2;
}
