// The language server (docs/editors.md).
#ifndef LSP_SERVE_H
#define LSP_SERVE_H

// Answers the messages read from [in] until the client sends exit or [in] ends. defines are
// "NAME=VALUE". Returns the process's exit code.
int lsp_serve(int in, int out, const char *const *defines, int ndefines);

#endif
