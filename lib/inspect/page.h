// The parts of netc_report: the facts about an entry, as one JSON object in a page.
#ifndef LIB_PAGE_H
#define LIB_PAGE_H

#include "lib/inspect/inspect.h"

typedef struct Page {
    netc_program *p;
    const netc_report_options *o;
    Build *b;
    const ProgEntry *e;
    Items items; // of the entry, in the order of execution
    Arena *arena;
    netc_error **err;
    Json *j;
    StrMap at;           // text -> 1 + its number
    VEC(const char *) s; // texts, which rows refer to by number, since most occur often
} Page;

int64_t page_text(Page *v, const char *text); // number of a text
// page_graph.c: writes steps, loops, buffers and the model's lines.
void page_graph(Page *v);

typedef struct Measured { // a file written by netc profile --json
    const char *path;
    const JsonValue *top; // NULL: not given
    const char *entry, *device;
} Measured;
// page_files.c. Reads whole files; errors have the file and line.
netc_status page_profile_read(Page *v, Measured *out);
netc_status page_profile(Page *v, const Measured *m); // of v->e; fails if it was measured for
                                                      // another build
netc_status page_logs(Page *v);

#endif
