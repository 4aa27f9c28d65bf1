// Runs short work in a separate process and waits for it.
#ifndef LSP_CHILD_H
#define LSP_CHILD_H

#include "lsp/lsp.h"

// Runs work in a child process, so it may do anything to the server's memory. Returns what it
// wrote, in the arena; NULL: it failed or took too long.
char *child_run(Server *s, void (*work)(void *arg, int fd), void *arg, Arena *a, size_t *len);
void child_survey(const Server *s, const Document *d, int fd);
void child_send(int fd, const char *p, size_t n);

#endif
