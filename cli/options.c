// Command-line options from tables, with suggestions for misspelt ones.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "cli/cli.h"

enum { MOST_OPTIONS = 48 }; // of a verb, including the common ones

static void print_help(const Verb *verb, const Option *options, int n)
{
    printf("%s\n\nusage: netc %s\n\n", verb->summary, verb->usage);
    for (int i = 0; i < n; i++) {
        char head[80];
        const Option *o = &options[i];
        snprintf(head, sizeof head, "%s%s%s%s%s", o->alias ? o->alias : "", o->alias ? ", " : "",
                 o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-28s %s\n", head, o->help);
    }
    printf("  %-28s %s\n\n", "-h, --help", "this text");
    printf("example%s:\n", strchr(verb->example, '\n') ? "s" : "");
    for (const char *line = verb->example; *line;) {
        int len = (int)strcspn(line, "\n");
        printf("  %.*s\n", len, line);
        line += len + (line[len] == '\n');
    }
}

bool list_add(StringList *l, const char *word)
{
    const char **more = realloc(l->at, (size_t)(l->n + 1) * sizeof *more);
    if (!more) return fail("out of memory"), false;
    l->at = more;
    l->at[l->n++] = word;
    return true;
}

void list_free(StringList *l)
{
    free(l->at);
    *l = (StringList){0};
}

static bool store(const Option *o, const char *value)
{
    static const char *const above[] = {"", " above 0"};
    char *end;
    double real;
    errno = 0;
    switch (o->kind) {
    case OPT_FLAG: *(bool *)o->to = true; return true;
    case OPT_INPUT:
    case OPT_OUTPUT:
    case OPT_STRING: *(const char **)o->to = value; return true;
    case OPT_OUTPUTS:
    case OPT_LIST: return list_add(o->to, value);
    case OPT_INT:
    case OPT_COUNT:
        *(int64_t *)o->to = strtoll(value, &end, 10);
        if (*value && !*end && !errno && (o->kind == OPT_INT || *(int64_t *)o->to > 0)) return true;
        if (*value && !*end && errno == ERANGE)
            fail("%s needs a whole number from %lld to %lld, not '%s'", o->name,
                 o->kind == OPT_COUNT ? 1LL : (long long)INT64_MIN, (long long)INT64_MAX, value);
        else
            fail("%s needs a whole number%s, not '%s'", o->name, above[o->kind == OPT_COUNT],
                 value);
        return false;
    case OPT_BYTES:
        if (read_bytes(value, o->to)) return true;
        fail("%s needs a number of bytes, like 5e9, 6GB or 512MiB, not '%s'", o->name, value);
        return false;
    case OPT_REAL:
    case OPT_POSITIVE:
        real = *(double *)o->to = strtod(value, &end);
        if (*value && !*end && !errno && (o->kind == OPT_REAL || (real > 0 && real - real == 0)))
            return true;
        fail("%s needs a number%s, not '%s'", o->name, above[o->kind == OPT_POSITIVE], value);
        return false;
    }
    return false;
}

static const Option *find(const Option *options, int n, const char *word, size_t len)
{
    for (int i = 0; i < n; i++) {
        if (strlen(options[i].name) == len && !strncmp(options[i].name, word, len))
            return &options[i];
        if (options[i].alias && strlen(options[i].alias) == len &&
            !strncmp(options[i].alias, word, len))
            return &options[i];
    }
    return NULL;
}

static const char *suggest_option(const char *name, const char *const *options, size_t n)
{
    const char *bare[MOST_OPTIONS];
    for (size_t i = 0; i < n; i++) bare[i] = options[i] + 2;
    const char *near = suggest(name + strspn(name, "-"), bare, n);
    return near ? near - 2 : NULL;
}

// Options of other tools and other verbs, and what to use instead, if the verb has it.
static const char *elsewhere(const char *name, const Option *options, int n)
{
    static const struct {
        const char *name, *has, *text; // has "": whatever the verb has
    } known[] = {
        {"--lr", "",
         "the learning rate is in the model's 'update'; if it is a setting, --set changes it"},
        {"--learning-rate", "",
         "the learning rate is in the model's 'update'; if it is a setting, --set changes it"},
        {"--batch", "", "-D batch=N changes a model's 'dim batch'"},
        {"--batch-size", "", "-D batch=N changes a model's 'dim batch'"},
        {"--cpu", "--device", "write --device cpu"},
        {"--gpu", "--device", "write --device cuda"},
        {"--cuda", "--device", "write --device cuda"},
        {"--cpu", "--target", "write --target cpu"},
        {"--gpu", "--target", "write --target cuda"},
        {"--cuda", "--target", "write --target cuda"},
        {"--device", "--target", "nothing is run here; --target cpu or cuda says what for"},
        {"--target", "--device", "--device cpu or cuda says where it runs"},
        {"--seconds", "--budget", "write --budget SECONDS"},
        {"--input", "--data", "--data NAME=FILE gives the examples of an input"},
        {"--data", "--input",
         "--input NAME=FILE gives the whole input; 'netc predict' and 'netc eval' "
         "take --data"},
        {"--load", "--weights", "--weights FILE reads parameters"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *has = known[i].has;
        if (!strcmp(known[i].name, name) && (!*has || find(options, n, has, strlen(has))))
            return known[i].text;
    }
    return NULL;
}

static bool unknown(const Verb *verb, const Option *options, int n, const char *word)
{
    const char *names[MOST_OPTIONS];
    size_t count = 0;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (int i = 0; i < n; i++) names[count++] = options[i].name;
    const char *other = elsewhere(name, options, n);
    if (other) return fail("unknown option %s; %s", name, other), false;
    // (the dashes do not count as correct letters)
    const char *near = strlen(name) > 2 ? suggest_option(name, names, count) : NULL;
    // A prefix of an option's name is taken for that option.
    for (size_t i = 0; !near && strlen(name) > 3 && i < count; i++)
        if (!strncmp(names[i], name, strlen(name))) near = names[i];
    if (near)
        fail("unknown option %s; did you mean %s?", name, near);
    else
        fail("unknown option %s; 'netc %s --help' lists them", name, verb->name);
    return false;
}

static bool parse(const Verb *verb, const Option *options, int noptions, int argc, char **argv,
                  StringList *words, bool *done)
{
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (only_words || word[0] != '-' || !word[1]) {
            if (!list_add(words, word)) return false;
            continue;
        }
        if (!strcmp(word, "--")) {
            only_words = true;
            continue;
        }
        if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
            print_help(verb, options, noptions);
            return *done = true;
        }
        // Reads --name value, --name=value, or -Dvalue.
        size_t len = !strncmp(word, "--", 2) ? strcspn(word, "=") : strlen(word);
        const Option *o = find(options, noptions, word, len);
        const char *value = o && word[len] == '=' ? word + len + 1 : NULL;
        if (!o && word[1] != '-' && (o = find(options, noptions, word, 2)) && o->kind != OPT_FLAG)
            value = word + 2;
        if (!o || (o->kind == OPT_FLAG && value)) return unknown(verb, options, noptions, word);
        if (o->kind != OPT_FLAG && !value) {
            if (i + 1 == argc)
                return fail("%s needs a value: %s %s", o->name, o->name, o->value), false;
            value = argv[++i];
        }
        if (!store(o, value)) return false;
    }
    if (words->n >= verb->least && words->n <= verb->most) return true;
    if (words->n > verb->most && verb->most == 1)
        return fail("give %s, not also '%s': netc %s", verb->words, words->at[1], verb->usage),
               false;
    return fail("give %s: netc %s", verb->words, verb->usage), false;
}

// -- options that several verbs have --------------------------------------------------------------

Option device_option(const char **to)
{
    return (Option){"--device", NULL, OPT_STRING,
                    to,         "D",  "cuda:0, cpu, several: cuda:0,1; default: a GPU if there is one"};
}

Option examples_option(StringList *to)
{
    return (Option){"--data", NULL,        OPT_LIST,
                    to,       "NAME=FILE", "the examples of an input; also FILE:PART, FILE,FILE"};
}

Option data_option(StringList *to)
{
    return (Option){"--data",    NULL,
                    OPT_LIST,    to,
                    "NAME=FILE", "data to run on; default: made up within the inputs' ranges"};
}

Option seed_option(int64_t *to, const char *help)
{
    return (Option){"--seed", NULL, OPT_INT, to, "N", help};
}

Option entry_option(const char **to)
{
    return (Option){"--entry", "-e",   OPT_STRING,
                    to,        "NAME", "the model to use, if the file has several"};
}

Option set_option(StringList *to)
{
    return (Option){"--set", NULL, OPT_LIST, to, "NAME=VALUE", "change a setting"};
}

Option resize_option(ImageOptions *i)
{
    return (Option){"--resize", NULL, OPT_FLAG,
                    &i->resize, NULL, "scale and crop images to the input's size"};
}

Option skip_option(ImageOptions *i)
{
    return (Option){"--skip-bad", NULL, OPT_FLAG,
                    &i->skip_bad, NULL, "skip images that cannot be decoded"};
}

Option weights_option(Weights *w)
{
    return (Option){
        "--weights", NULL,   OPT_INPUT,
        &w->file,    "FILE", "read parameters (.safetensors, an index of several files, a folder)"};
}

Option map_option(Weights *w)
{
    return (Option){"--map", NULL,      OPT_LIST,
                    &w->map, "A.*=B.*", "rename tensors of the weights file"};
}

Option missing_option(Weights *w)
{
    return (Option){
        "--allow-missing", NULL, OPT_FLAG,
        &w->allow_missing, NULL, "keep the initial values of tensors that the weights file lacks"};
}

Option ignore_option(Weights *w)
{
    return (Option){
        "--ignore", NULL,
        OPT_LIST,   &w->ignore,
        "PATTERN",  "tensors of the weights file that the model may lack: 'h.*.attn.bias'"};
}

Option transpose_option(Weights *w)
{
    return (Option){
        "--transpose", NULL,
        OPT_LIST,      &w->transpose,
        "PATTERN",     "parameters that the weights file stores transposed: 'h.*.weight'"};
}

Option part_option(int64_t *to)
{
    return (Option){"--part-size", NULL,
                    OPT_BYTES,     to,
                    "BYTES",       "size of each file of a checkpoint: 2GB (default 5e9)"};
}

Option steps_option(Timing *t)
{
    return (Option){"--steps", NULL,
                    OPT_COUNT, &t->steps,
                    "N",       "executions enqueued in a row (default: as many as fill 10 ms)"};
}

Option repeats_option(Timing *t)
{
    return (Option){"--repeats", NULL,
                    OPT_COUNT,   &t->repeats,
                    "N",         "number of measurements; the median is reported (default 25)"};
}

enum { COMMON_OPTIONS = 13 };

static void common_options(Common *c, Option out[COMMON_OPTIONS])
{
    const Option rows[] = {
        {"--define", "-D", OPT_LIST, &c->defines, "NAME=VALUE",
         "override a const, dim or setting of the model"},
        {"--program", NULL, OPT_STRING, &c->program, "NAME",
         "choose one of several train blocks by its name (default: the first)"},
        {"--precision", NULL, OPT_STRING, &c->precision, "P", "f32 (default), tf32, bf16 or f16"},
        {"--skip-passes", NULL, OPT_STRING, &c->skip_passes, "A,B", "skip these optional passes"},
        {"--memory-limit", NULL, OPT_BYTES, &c->memory_limit, "BYTES",
         "limit for temporaries (6e9, 6GB): recompute values, split large products"},
        {"--no-reuse", NULL, OPT_FLAG, &c->no_reuse, NULL, "do not let temporaries share memory"},
        {"--no-library", NULL, OPT_FLAG, &c->no_matmul_library, NULL,
         "compute matrix products with generated kernels, without a library"},
        {"--rebuild", NULL, OPT_FLAG, &c->rebuild, NULL,
         "compile a model.bin's source instead of running its machine code with your rights"},
        {"--tune-file", NULL, OPT_INPUT, &c->tune_file, "FILE",
         "measured schedules (default: MODEL.tune if it exists; '' for none)"},
        {"--locked", NULL, OPT_FLAG, &c->locked, NULL,
         "fail unless the tuning file has a line for each of the model's kernels"},
        {"--cache-dir", NULL, OPT_STRING, &c->cache_dir, "DIR",
         "folder of the compile cache; '' for none"},
        {"--quiet", "-q", OPT_FLAG, &c->quiet, NULL, "errors and results only"},
        {"--verbose", "-v", OPT_FLAG, &c->verbose, NULL,
         "report what is compiled and which fallbacks are used"},
    };
    _Static_assert(sizeof rows / sizeof *rows == COMMON_OPTIONS, "one more, or one less");
    memcpy(out, rows, sizeof rows);
}

void free_command(const Option *own, int n, Common *c)
{
    for (int i = 0; i < n; i++)
        if (own[i].kind == OPT_LIST || own[i].kind == OPT_OUTPUTS) list_free(own[i].to);
    if (c) list_free(&c->words), list_free(&c->defines);
}

bool read_command(const char *verb, const Option *own, int n, Common *c, StringList *words,
                  int argc, char **argv, int *code)
{
    Option all[MOST_OPTIONS];
    int count = n;
    bool done = false;
    if (n) memcpy(all, own, (size_t)n * sizeof *own);
    if (c) common_options(c, all + n), count += COMMON_OPTIONS;
    *code = !parse(find_verb(verb), all, count, argc, argv, words, &done);
    if (!*code && !done && outputs_apart(all, count, words, c != NULL, code)) return true;
    free_command(own, n, c);
    list_free(words);
    return false;
}
