// Event files for TensorBoard: records of protocol buffers, each with its checksums.
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Message { // a protocol buffer under construction
    unsigned char *at;
    size_t n, room;
    bool failed; // out of memory
} Message;
void message_int(Message *m, int field, uint64_t v);
void message_double(Message *m, int field, double v);
void message_float(Message *m, int field, float v);
void message_bytes(Message *m, int field, const void *bytes, size_t n);
void message_text(Message *m, int field, const char *text);
void message_raw(Message *m, const void *bytes, size_t n); // appended unchanged
void message_in(Message *m, int field, Message *part);     // appends [part] as a field and frees it
void message_free(Message *m);

typedef struct Events {
    int fd;      // -1: none
    int why;     // errno of the first failed write; nothing is written after it
    int64_t end; // end of the last complete record
} Events;
// Creates a new file in the folder, and the folder if necessary. false: see errno.
bool events_open(Events *f, const char *folder);
// Writes an event for this step with the message [what] as field [field] (5: a summary, 4: a
// graph), and frees [what].
void events_put(Events *f, int64_t step, int field, Message *what);
bool events_close(Events *f); // whether everything was written

#endif
