// What training writes for TensorBoard, and a table of its scalars (tensorboard.c).
#ifndef CLI_TENSORBOARD_H
#define CLI_TENSORBOARD_H

#include <stdio.h>

#include "cli/cli.h"
#include "cli/events.h"

typedef struct Board {
    const char *folder; // NULL: not requested
    Events events;
    FILE *table; // scalars.csv
    bool more;   // append to the table
    bool table_failed, told;
    netc_program *program;
    netc_session *session;
    const StringList *watch;
} Board;
// Opens the folder's files. more: append to an existing table; otherwise it is replaced when
// training begins. false: an error was reported.
bool board_open(Board *b, const char *folder, bool more, int *code);
void board_event(Board *b, const netc_event *e);
bool board_close(Board *b); // false: not everything was written, which was reported

#endif
