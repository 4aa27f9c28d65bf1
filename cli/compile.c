// netc MODEL.net: compile, or show a stage.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

// What follows the passes, beside the numbered graphs.
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

int verb_compile(int argc, char **argv)
{
    Common c = {0};
    const char *out = NULL, *emit = NULL, *dump = NULL, *archs = NULL, *target = NULL,
               *weights = NULL;
    bool json = false;
    const Option options[] = {
        {"--output", "-o", OPT_OUTPUT, &out, "FILE", "write model.bin here; with --emit, the text"},
        {"--emit", NULL, OPT_STRING, &emit, "STAGE",
         "print ast, ir, grad, fused, plan, cuda, c, ptx or dot"},
        {"--dump", NULL, OPT_STRING, &dump, "DIR",
         "write the graph after every pass that changed it"},
        {"--arch", NULL, OPT_STRING, &archs, "LIST",
         "CUDA architectures; default sm_80,sm_90,sm_100"},
        {"--target", NULL, OPT_STRING, &target, "T", "cpu, cuda or all (default)"},
        {"--weights", NULL, OPT_STRING, &weights, "FILE", "put these weights into model.bin"},
        {"--json", NULL, OPT_FLAG, &json, NULL, "errors as JSON on standard output"},
    };
    int code;
    if (!read_command("compile", OPTIONS(options), &c, &c.words, argc, argv, &code)) return code;
    if (dump && mkdir(dump, 0777)) {
        struct stat st;
        int why = errno;
        if (stat(dump, &st) || !S_ISDIR(st.st_mode)) {
            free_command(OPTIONS(options), &c);
            return fail("cannot make the folder %s: %s", dump, strerror(why));
        }
    }

    netc_context *ctx = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    netc_status status = open_context(&c, &ctx, &err);
    if (status == NETC_OK) {
        NETC_INIT(netc_compile_options, o);
        compile_options(&c, &o);
        o.dump_dir = dump;
        // One of the stages needs one target; model.bin holds both unless told otherwise.
        o.target = target                                                    ? target
                   : emit && (!strcmp(emit, "cuda") || !strcmp(emit, "ptx")) ? "cuda"
                                                                             : NULL;
        // (several: what all of them have)
        const char *sm = archs && !strchr(archs, ',') ? strstr(archs, "sm_") : NULL;
        int arch = 0;
        if (sm && sscanf(sm, "sm_%d", &arch) == 1) o.arch = arch;
        status = netc_compile_file(ctx, c.words.at[0], &o, &p, &err);
    }
    if (status == NETC_OK && emit) {
        char *text = NULL;
        status = netc_program_emit(p, emit, &text, &err);
        if (status == NETC_OK && !out) fputs(text, stdout);
        if (status == NETC_OK && out && !write_text(out, text)) status = NETC_ENVIRONMENT;
        netc_free(text);
    }
    if (status == NETC_OK && dump) status = dump_stages(p, dump, &err);
    if (status == NETC_OK && out && !emit) {
        if (weights) {
            status = netc_session_create(p, "cpu", NULL, &s, &err);
            if (status == NETC_OK) status = netc_state_load(s, weights, NULL, &err);
        }
        if (status == NETC_OK) status = netc_program_save(p, out, archs, s, &err);
        if (status == NETC_OK && !c.quiet) {
            struct stat st;
            stat(out, &st);
            printf("%s: %.1f KiB\n", out, (double)st.st_size / 1024);
        }
    }
    if (status == NETC_OK && !out && !emit && !dump && !c.quiet)
        printf("%s compiles; -o FILE writes it, --emit STAGE shows it\n", c.words.at[0]);
    netc_session_free(s);
    netc_program_release(p);
    netc_context_free(ctx);
    free_command(OPTIONS(options), &c);
    if (status != NETC_OK && json) {
        puts(netc_error_json(err));
        fflush(stdout);
    }
    return exit_code(status, err);
}
