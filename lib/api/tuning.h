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
    const char *name, *device, *schedule, *note; // note: behind the '#', "" for none
    uint64_t key;                                // Body.key
    int line;                                    // in the file; 0: not from a file
} TuneEntry;

struct TuneFile {
    const char *path;
    VEC(TuneEntry) kernels;
    VEC(const char *) others; // lines "key: value" about anything else: the matmul library
};

// Text of a file (path: for messages, its head line is asked for) or of a choice table (path NULL:
// what is no sound line about a kernel is left alone). NULL when sound, else what is wrong.
const char *tune_parse(Arena *a, const char *path, const char *text, size_t n, TuneFile *out);
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
    const char *device;    // whose entries count; NULL: nobody's
    const TuneFile *given; // the only source when not NULL: a checkpoint's
    const TuneFile *file;  // the model's tuning file, or NULL
    IdMap taken;           // Body.key -> text
    int of_file, of_cache;
} Schedules;
// The main program of a model, not one specialised for a last batch or a check.
bool build_is_main(const Build *b);
void schedules_begin(netc_program *p, Build *b, Schedules *s, ScheduleSource *source);
// After code generation: the program's choice table, notes, what --locked has to say.
void schedules_end(Schedules *s, Program *p);
// Whether the build runs by the very schedules of this choice table.
bool schedules_same(const Build *b, const char *choices);
RtKey schedule_cache_key(const char *device, uint64_t body);
// Fails when the program is locked and the build is not wholly by its tuning file.
netc_status schedules_locked(netc_program *p, const Build *b, netc_error **err);
// Of a program for both targets: a target the file knows nothing of runs by the cost model, unless
// that is true of both. Either may be NULL.
netc_status schedules_locked_both(netc_program *p, const Build *cpu, const Build *cuda,
                                  netc_error **err);

#endif
