// netc MODEL.net: compiles, or shows a stage.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

// Writes the stages after the passes, in addition to the numbered graphs.
static netc_status dump_stages(netc_program *p, const char *dir, netc_error **err)
{
    static const struct {
        const char *stage, *file;
    } stages[] = {{"ast", "ast.txt"}, {"fused", "fused.net"}, {"plan", "plan.txt"},
                  {"c", "kernels.c"}, {"cuda", "kernels.cu"}, {"dot", "graph.dot"}};
    netc_status status = NETC_OK;
    for (size_t i = 0; status == NETC_OK && i < sizeof stages / sizeof *stages; i++) {
        char *text = NULL, path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, stages[i].file);
        status = netc_program_emit(p, stages[i].stage, &text, err);
        if (status == NETC_OK && !write_text(path, text)) status = NETC_ENVIRONMENT;
        netc_free(text);
    }
    return status;
}

enum { MOST_BATCHES = 64 };

typedef struct CompileArgs {
    Common common;
    int64_t devices;
    const char *out, *emit, *dump, *archs, *target, *weights, *batch, *entries;
    StringList names;              // from the list [entries]
    char *names_text;              // what they point to
    int64_t batches[MOST_BATCHES]; // numbers from the list [batch]
    int nbatches;
    bool json;
} CompileArgs;

// Parses a list such as "1,100". false: an error was reported; exit with *code.
static bool read_batches(CompileArgs *a, int *code)
{
    const char *at = a->batch;
    bool sound = true;
    while (at && sound) {
        char *end;
        errno = 0;
        long long size = strtoll(at, &end, 10);
        sound =
            end != at && !errno && size > 0 && (!*end || *end == ',') && a->nbatches < MOST_BATCHES;
        if (sound) a->batches[a->nbatches++] = size;
        at = *end ? end + 1 : NULL;
    }
    if (!sound)
        *code = fail("--batch needs sizes, at most %d, such as 1,100, not '%s'", MOST_BATCHES,
                     a->batch);
    else if (a->batch && (!a->out || a->emit))
        *code = fail("--batch applies to a compiled model; name its file with -o FILE");
    return !*code;
}

// Parses a list such as "predict,next". false: an error was reported; exit with *code.
static bool read_entries(CompileArgs *a, int *code)
{
    if (!a->entries) return true;
    if (a->common.locked)
        *code = fail("--locked applies to all kernels of the model: give it without --entries");
    else if (!(a->names_text = strdup(a->entries)))
        *code = fail("out of memory");
    char *rest = a->names_text;
    while (rest && !*code) {
        char *name = strsep(&rest, ",");
        if (!*name)
            *code = fail("--entries needs names, such as predict,next, not '%s'", a->entries);
        else if (!list_add(&a->names, name))
            *code = 2;
    }
    return !*code;
}

// Creates the folder. false: an error was reported; exit with *code.
static bool make_folder(const char *path, int *code)
{
    struct stat st;
    if (!mkdir(path, 0777)) return true;
    int why = errno;
    if (!stat(path, &st) && S_ISDIR(st.st_mode)) return true;
    *code = fail("cannot make the folder %s: %s", path, strerror(why));
    return false;
}

// --emit needs a single target; a model.bin has code for both by default.
static const char *target_of(const CompileArgs *a)
{
    if (a->target || !a->emit) return a->target;
    return !strcmp(a->emit, "cuda") || !strcmp(a->emit, "ptx") || !strcmp(a->emit, "tile") ? "cuda"
                                                                                           : NULL;
}

// The architecture in --arch; 0 if there are several.
static int one_arch(const char *archs)
{
    int arch = 0;
    const char *sm = archs && !strchr(archs, ',') ? strstr(archs, "sm_") : NULL;
    return sm && sscanf(sm, "sm_%d", &arch) == 1 ? arch : 0;
}

// Whether the file's name is not that of a format of tensors, data or compiled models, as which no
// stage is written. false: an error was reported; exit with *code.
static bool text_named(const char *path, int *code)
{
    static const char *const binary[] = {".bin", ".safetensors", ".npy",  ".npz", ".png",
                                         ".pt",  ".pth",         ".onnx", ".so",  ".o"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof binary / sizeof *binary; i++)
        if (!strcmp(dot, binary[i])) {
            *code = fail("%s: --emit writes text; name the file accordingly, such as .txt", path);
            return false;
        }
    return true;
}

static netc_status emit_stage(netc_program *p, const CompileArgs *a, netc_error **err)
{
    char *text = NULL;
    netc_status status = netc_program_emit(p, a->emit, &text, err);
    if (status == NETC_OK && !a->out) fputs(text, stdout);
    if (status == NETC_OK && a->out && !write_text(a->out, text)) status = NETC_ENVIRONMENT;
    netc_free(text);
    return status;
}

static netc_status save(netc_program *p, const CompileArgs *a, netc_error **err)
{
    netc_session *s = NULL;
    netc_status status = NETC_OK;
    if (a->weights) {
        status = netc_session_create(p, "cpu", NULL, &s, err);
        NETC_INIT(netc_load_options, o);
        o.weights_only = true;
        if (status == NETC_OK) status = netc_state_load(s, a->weights, &o, err);
    }
    if (status == NETC_OK) status = netc_program_save(p, a->out, a->archs, s, err);
    if (status == NETC_OK && !a->common.quiet) {
        struct stat st;
        stat(a->out, &st);
        printf("%s: %.1f KiB\n", a->out, (double)st.st_size / 1024);
    }
    netc_session_free(s);
    return status;
}

static netc_status compile(const CompileArgs *a, netc_context *ctx, netc_error **err)
{
    netc_program *p = NULL;
    const char *model = a->common.words.at[0];
    NETC_INIT(netc_compile_options, o);
    compile_options(&a->common, &o);
    o.dump_dir = a->dump;
    o.target = target_of(a);
    o.devices = (int)a->devices;
    o.arch = one_arch(a->archs);
    o.batches = a->batches;
    o.nbatches = a->nbatches;
    o.entries = a->names.at;
    o.nentries = a->names.n;
    netc_status status = netc_compile_file(ctx, model, &o, &p, err);
    if (status == NETC_OK && a->emit) status = emit_stage(p, a, err);
    if (status == NETC_OK && a->dump) status = dump_stages(p, a->dump, err);
    if (status == NETC_OK && a->out && !a->emit) status = save(p, a, err);
    if (status == NETC_OK && !a->out && !a->emit && !a->dump && !a->common.quiet)
        printf("%s compiles; -o FILE writes it, --emit STAGE shows it\n", model);
    netc_program_release(p);
    return status;
}

static netc_status run(void *args, netc_context *ctx, netc_error **err)
{
    CompileArgs *a = args;
    netc_status status = compile(a, ctx, err);
    if (status != NETC_OK && a->json) {
        puts(netc_error_json(*err));
        fflush(stdout);
    }
    return status;
}

int verb_compile(int argc, char **argv)
{
    CompileArgs a = {0};
    const Option options[] = {
        {"--output", "-o", OPT_OUTPUT, &a.out, "FILE",
         "write model.bin here; with --emit, the text"},
        {"--emit", NULL, OPT_STRING, &a.emit, "STAGE",
         "print ast, ir, grad, fused, plan, tile, cuda, c, ptx or dot"},
        {"--dump", NULL, OPT_STRING, &a.dump, "DIR",
         "write the graph after every pass that changed it"},
        {"--arch", NULL, OPT_STRING, &a.archs, "LIST",
         "CUDA architectures; default sm_80,sm_90,sm_100"},
        {"--target", NULL, OPT_STRING, &a.target, "T", "cpu, cuda or all (default)"},
        {"--devices", NULL, OPT_INT, &a.devices, "N", "how many share the work of a step; default: 1"},
        {"--weights", NULL, OPT_INPUT, &a.weights, "FILE", "put these weights into model.bin"},
        {"--batch", NULL, OPT_STRING, &a.batch, "LIST",
         "further batch sizes that model.bin can run without a compiler: 1,100"},
        {"--entries", NULL, OPT_STRING, &a.entries, "LIST",
         "compile only these entries (default: all): predict, or train,eval"},
        {"--json", NULL, OPT_FLAG, &a.json, NULL, "print errors as JSON on standard output"},
    };
    int code = 0;
    if (!read_command("compile", OPTIONS(options), &a.common, &a.common.words, argc, argv, &code))
        return code;
    bool named =
        !a.out || (a.emit ? text_named(a.out, &code)
                          : output_named(a.out, ".bin", "a compiled model is written", &code));
    bool ready = named && read_batches(&a, &code) && read_entries(&a, &code) &&
                 (!a.dump || make_folder(a.dump, &code));
    if (ready)
        code = run_command(OPTIONS(options), &a.common, run, &a);
    else
        free_command(OPTIONS(options), &a.common);
    list_free(&a.names);
    free(a.names_text);
    return code;
}
