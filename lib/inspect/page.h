// The parts of netc_report: the facts about an entry, as one JSON object in a page.
#ifndef LIB_PAGE_H
#define LIB_PAGE_H

#include "lib/inspect/inspect.h"

typedef struct Page {
    netc_program *p;
    const netc_report_options *o;
    Build *b;
    const ProgEntry *e;
    Items items; // the entry's, as they run
    Arena *arena;
    netc_error **err;
    Json *j;
    StrMap at;           // text -> 1 + its number
    VEC(const char *) s; // texts that rows name by number: most occur many times
} Page;

int64_t page_text(Page *v, const char *text); // its number
// page_graph.c: steps, loops, buffers and the model's lines.
void page_graph(Page *v);

typedef struct Measured { // what netc profile --json wrote
    const char *path;
    const JsonValue *top; // NULL: none is given
    const char *entry, *device;
} Measured;
// page_files.c. Whole files; an error names file and line.
netc_status page_profile_read(Page *v, Measured *out);
netc_status page_profile(Page *v, const Measured *m); // of v->e; an error: of another build
netc_status page_logs(Page *v);

#endif
