// netc lsp: the language server, on standard input and output.
#include <unistd.h>

#include "cli/cli.h"
#include "lsp/serve.h"

int verb_lsp(int argc, char **argv)
{
    StringList words = {0}, defines = {0};
    bool stdio;
    int code;
    const Option options[] = {
        {"--define", "-D", OPT_LIST, &defines, "NAME=VALUE",
         "override a const, dim or setting, as for the other verbs"},
        {"--stdio", NULL, OPT_FLAG, &stdio, NULL,
         "use standard input and output (always the case; some editors pass this option)"},
    };
    if (!read_command("lsp", OPTIONS(options), NULL, &words, argc, argv, &code)) return code;
    code = lsp_serve(STDIN_FILENO, STDOUT_FILENO, defines.at, defines.n);
    free_command(OPTIONS(options), NULL);
    list_free(&words);
    return code;
}
