// netc: the command line. A first word that is not a verb is a model to compile.
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/names.h"
#include "cli/cli.h"

const Verb verbs[] = {
    {"compile", "Compile a model to one file, or show any stage as text.",
     "MODEL.net [-o MODEL.bin] [--emit STAGE] [--dump DIR]",
     "netc mlp.net -o mlp.bin --arch sm_80,sm_90\nnetc --emit cuda mlp.net", verb_compile, 1, 1,
     "one model"},
    {"init", "Write the initial values of parameters and states to a checkpoint.",
     "init MODEL -o FILE.safetensors [--seed N]",
     "netc init mlp.net -o start.safetensors --seed 3\nnetc inspect mlp.net --params", verb_init, 1,
     1, "one model"},
    {"train", "Train a model on data.",
     "train MODEL --data NAME=FILE ... [--epochs N] [--save FILE]",
     "netc train mlp.net --data image=train-images-idx3-ubyte.gz --data "
     "label=train-labels-idx1-ubyte.gz "
     "--epochs 5 --save mlp.safetensors",
     verb_train, 1, 1, "one model"},
    {"eval", "Evaluate a model on data.", "eval MODEL --data NAME=FILE ... [--weights FILE]",
     "netc eval mlp.net --data image=t10k-images-idx3-ubyte.gz --data "
     "label=t10k-labels-idx1-ubyte.gz "
     "--weights mlp.safetensors",
     verb_eval, 1, 1, "one model"},
    {"predict", "Run a model over a data set and write its output for every example.",
     "predict MODEL --data NAME=FILE ... -o [NAME=]FILE.npy [--weights FILE]",
     "netc predict mlp.net --weights mlp.safetensors --data image=t10k-images-idx3-ubyte.gz "
     "-o logits=logits.npy",
     verb_predict, 1, 1, "one model"},
    {"run", "Run a model on arrays.",
     "run MODEL --input NAME=FILE.npy --output NAME=FILE.npy [--weights FILE]",
     "netc run mlp.bin --input image=digits.npy --output logits=logits.npy --weights "
     "mlp.safetensors",
     verb_run, 1, 1, "one model"},
    {"generate", "Generate text with a trained model.",
     "generate MODEL --weights FILE [--prompt TEXT] [--length N]",
     "netc generate samples/shakespeare/gpt.net --weights gpt.safetensors --prompt \"ROMEO:\"",
     verb_generate, 1, 1, "one model"},
    {"tokenize", "Turn text into tokens for --data, and back.",
     "tokenize [FILE ...] --tokenizer T [-o TOKENS.bin] [--decode]",
     "netc tokenize book.txt --tokenizer gpt2/ -o book.bin --end '<|endoftext|>'\n"
     "echo Hello | netc tokenize --tokenizer gpt2/\n"
     "netc tokenize --decode book.bin --tokenizer gpt2/",
     verb_tokenize, 0, INT_MAX, "files of text"},
    {"inspect", "Show kernels, their cost and the memory plan, or compare two builds.",
     "inspect MODEL [KERNEL | OTHER] [--entry NAME] [--params] [--why] [--target T] [--cards]",
     "netc inspect mlp.net --params\nnetc inspect mlp.net --target sm_90 --cards\n"
     "netc inspect mlp.net --why\n"
     "netc inspect before.bin after.bin",
     verb_inspect, 1, 2, "a model, and at most a kernel of it or another build"},
    {"report", "Write one HTML page: graph, memory, roofline and timeline of a step, loss curves.",
     "report MODEL -o report.html [--entry NAME] [--profile FILE] [--log FILE ...]",
     "netc report mlp.net -o report.html\n"
     "netc profile mlp.net --json > mlp.json && netc train mlp.net ... --log mlp.jsonl\n"
     "netc report mlp.net --profile mlp.json --log mlp.jsonl -o report.html",
     verb_report, 1, 1, "one model"},
    {"check", "Check gradients and kernels against the reference.", "check MODEL",
     "netc check mlp.net", verb_check, 1, 1, "one model"},
    {"profile", "Time every kernel of an entry and compare it with the device's limits.",
     "profile MODEL [--entry NAME] [--data NAME=FILE] [--cold] [--trace FILE]",
     "netc profile mlp.net --device cuda:0\nnetc profile mlp.net --entry mlp -D batch=512 --json\n"
     "netc profile mlp.net --trace mlp.trace.json",
     verb_profile, 1, 1, "one model"},
    {"bench", "Measure a model's steps, compilation and memory, or compare two results.",
     "bench MODEL [-o FILE.jsonl] | --compare FIRST.jsonl SECOND.jsonl",
     "netc bench mlp.net --device cuda:0 -o before.jsonl\n"
     "netc bench --compare before.jsonl after.jsonl",
     verb_bench, 1, 2, "one model, or two files with --compare"},
    {"tune", "Search for faster schedules and write them to MODEL.tune.",
     "tune MODEL.net [--budget SECONDS] [--kernel NAME]",
     "netc tune mlp.net --budget 30\nnetc tune mlp.net --device cuda:0 -D batch=512", verb_tune, 1,
     1, "one model"},
    {"doctor", "Show what this machine has and what to install.", "doctor", "netc doctor",
     verb_doctor, 0, 0, "no file: it examines this machine"},
    {"show", "Show the contents of files of tensors, data and compiled models.", "show FILE ...",
     "netc show mlp.safetensors\nnetc show train-images-idx3-ubyte.gz mlp.bin", verb_show, 1,
     INT_MAX, "files to show"},
    {"fmt", "Format model files.", "fmt FILE.net ... [--check]", "netc fmt mlp.net", verb_fmt, 1,
     INT_MAX, "files to format"},
    {"lsp", "Language server for editors (docs/editors.md).", "lsp [-D NAME=VALUE]", "netc lsp",
     verb_lsp, 0, 0, "no file: it reads messages from standard input"},
    {0},
};
const int verb_count = sizeof verbs / sizeof *verbs - 1;

const Verb *find_verb(const char *name)
{
    for (int i = 0; i < verb_count; i++)
        if (!strcmp(verbs[i].name, name)) return &verbs[i];
    return NULL;
}

static void usage(FILE *out)
{
    fprintf(out,
            "netc %s: a compiler for neural networks\n\n"
            "usage: netc MODEL.net [-o MODEL.bin] [options]\n"
            "       netc VERB ... ; netc VERB --help\n\n",
            netc_version());
    for (int i = 0; i < verb_count; i++)
        fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(out, "\nexample:\n  %s\n\n", find_verb("train")->example);
    fputs("A MODEL.bin holds machine code, and init, train, eval, predict, run, generate, profile "
          "and bench run it with your rights:\ntake one only from a source you would take a "
          "program from. With --rebuild they compile its source instead.\n",
          out);
}

// Checks that all output was written.
static int finish(int code)
{
    bool lost = fflush(stdout) != 0;
    lost = ferror(stdout) || lost;
    if (code || !lost) return code;
    return fail("standard output could not be written completely"), 2;
}

// Opens those of the standard streams that were closed (netc ... >&-), since the next file, a log
// or a checkpoint, would otherwise take the stream's number and receive what is printed. Reading
// and printing fail as they did on the closed stream.
static void keep_standard_numbers(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0) return;
}

// OpenBLAS selects kernels by the processor's model number, and the oldest ones for processors that
// it does not know. Selects them by the processor's features instead, unless the user has chosen.
static void choose_matmul_kernels(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_is("intel") || !__builtin_cpu_supports("avx2")) return;
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    setenv("OPENBLAS_CORETYPE", wide ? "SkylakeX" : "Haswell", 0);
#endif
}

int main(int argc, char **argv)
{
    keep_standard_numbers();
    choose_matmul_kernels();
    // If a reader stops early (netc … | head), commands that only print are ended, but training
    // continues to its checkpoint.
    signal(SIGPIPE, argc > 1 && !strcmp(argv[1], "train") ? SIG_IGN : SIG_DFL);
    signal(SIGXFSZ, SIG_IGN); // exceeding a file-size limit is then an error, like a full disk
    if (argc < 2) return usage(stderr), 1;
    char *help[] = {"--help"};
    if (!strcmp(argv[1], "help") && argc > 2 && find_verb(argv[2]))
        return finish(find_verb(argv[2])->run(1, help));
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return usage(stdout), finish(0);
    if (!strcmp(argv[1], "--version")) return printf("netc %s\n", netc_version()), finish(0);
    const Verb *verb = find_verb(argv[1]);
    if (verb) return finish(verb->run(argc - 2, argv + 2));
    // A word that is neither a verb, an option nor a file is most likely a misspelt verb.
    struct stat st;
    if (argv[1][0] != '-' && !strchr(argv[1], '.') && stat(argv[1], &st)) {
        const char *names[32];
        for (int i = 0; i < verb_count; i++) names[i] = verbs[i].name;
        const char *near = suggest(argv[1], names, (size_t)verb_count);
        if (near) return fail("unknown verb '%s'; did you mean '%s'?", argv[1], near);
        return fail("'%s' is neither a verb nor a file; 'netc --help' lists the verbs", argv[1]);
    }
    for (int i = 2; i < argc; i++) // (after an option, it may be the option's value)
        if (argv[i - 1][0] != '-' && find_verb(argv[i]) && stat(argv[i], &st))
            return fail("the verb comes first: netc %s ...", argv[i]);
    return finish(verb_compile(argc - 1, argv + 1));
}
