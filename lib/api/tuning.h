// Schedules chosen by measurement or by hand, on their way from a file into a build.
//
// They are lines of the choice table, as are the matmul library's algorithms:
//     kernel NAME IDENTITY @ DEVICE: SCHEDULE  # NOTE
// A tuning file is such a table after one head line; a checkpoint and a model.bin hold one, too.
#ifndef LIB_TUNING_H
#define LIB_TUNING_H

#include "lib/lib.h"
#include "runtime/device.h"

typedef struct TuneEntry {
    const char *name, *device, *schedule, *note; // note: the text after '#', or ""
    uint64_t key;                                // Body.key
    int line;                                    // in the file; 0: not from a file
} TuneEntry;

struct TuneFile {
    const char *path;
    VEC(TuneEntry) kernels;
    VEC(const char *) others; // other lines "key: value", from the matmul library
};

// Parses the text of a tuning file (path: for messages; the first line must be the head line) or of
// a choice table (path NULL: incorrect lines about kernels are ignored). NULL: correct; otherwise
// the error.
const char *tune_parse(Arena *a, const char *path, const char *text, size_t n, TuneFile *out);
// The first line of a choice table that is none; NULL: there is no such line.
const char *choices_wrong(const char *text);
void tune_print(Arena *a, const TuneFile *t, Buf *out); // sorted, with the head line
void tune_print_line(const TuneEntry *e, bool note, Buf *out);
// The entry for a kernel on a device, or NULL.
TuneEntry *tune_find(const TuneFile *t, uint64_t key, const char *device);
// Reads the program's tuning file, if it has one, into p->tuning.
netc_status tune_load(netc_program *p, netc_error **err);

// -- one build's schedules (api/schedules.c) ------------------------------------------------------
typedef struct Schedules {
    netc_program *p;
    Build *b;
    const char *device;    // whose entries are used; NULL: none
    const TuneFile *given; // a checkpoint's; if not NULL, the only source
    const TuneFile *file;  // the model's tuning file, or NULL
    IdMap taken;           // Body.key -> text
    int of_file, of_cache;
} Schedules;
// Whether it is a main build of a model, not one for a last batch or a check.
bool build_is_main(const Build *b);
// The device whose lines of a tuning file are used for the build: a GPU's model, or "cpu". If no
// GPU is known yet, it is the first of the file (*several: of those that it has). NULL: none is
// known.
const char *schedules_device(const netc_program *p, const Build *b, bool *several);
void schedules_begin(netc_program *p, Build *b, Schedules *s, ScheduleSource *source);
// To be called after code generation: sets the program's choice table, prints notes, and checks
// --locked.
void schedules_end(Schedules *s, Program *p);
// Whether the build uses the same schedules as this choice table.
bool schedules_same(const Build *b, const char *choices);
RtKey schedule_cache_key(const char *device, uint64_t body);
// Fails if the program is locked and the tuning file lacks kernels of the build.
netc_status schedules_locked(netc_program *p, const Build *b, netc_error **err);
// The same for a program with both targets: a target for which the file has no line uses the cost
// model, unless this holds for both. Either build may be NULL.
netc_status schedules_locked_both(netc_program *p, const Build *cpu, const Build *cuda,
                                  netc_error **err);

#endif
