// Event files for TensorBoard: records of protocol buffers, each with its checksums.
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Message { // a protocol buffer under way
    unsigned char *at;
    size_t n, room;
    bool failed; // no memory
} Message;
void message_int(Message *m, int field, uint64_t v);
void message_double(Message *m, int field, double v);
void message_float(Message *m, int field, float v);
void message_bytes(Message *m, int field, const void *bytes, size_t n);
void message_text(Message *m, int field, const char *text);
void message_raw(Message *m, const void *bytes, size_t n); // as they are
void message_in(Message *m, int field, Message *part);     // frees it
void message_free(Message *m);

typedef struct Events {
    int fd;      // -1: none
    int why;     // errno of what could not be written; nothing is written behind it
    int64_t end; // of the last whole record
} Events;
// Creates a new file in the folder, and the folder if necessary. false: errno.
bool events_open(Events *f, const char *folder);
// Writes an event of this step with the message [what] as its field [field] (5: a summary, 4: a
// graph); frees it.
void events_put(Events *f, int64_t step, int field, Message *what);
bool events_close(Events *f); // whether all was written

#endif
