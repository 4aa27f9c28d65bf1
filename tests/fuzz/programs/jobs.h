// Trials in processes of their own, which may crash or hang.
#ifndef PROGRAMS_JOBS_H
#define PROGRAMS_JOBS_H

#include <sys/types.h>

#include "tests/fuzz/programs/programs.h"
#include "tests/fuzz/programs/trial.h"

enum { MOST_BATCH = 64 };

typedef struct Report { // what a child leaves in memory shared with its parent
    Outcome out[MOST_BATCH];
    uint32_t ops[OP_COUNT];
    int64_t compared, undecided;
    bool finished;
} Report;

typedef struct Options {
    const char *device, *folder;
    uint64_t seed;
    int batch;
    double limit; // seconds of a batch
} Options;

Report *report_new(void); // shared
void report_clear(Report *r);
// Starts a child that tries the text; parts of its process group end with it.
// wide: see Trial.
pid_t job_start(const Options *o, const Variant *v, const char *text, const char *wide, Report *r);
// The same in this process.
void job_here(const Options *o, const Variant *v, const char *text, const char *wide, Report *r);
// Ends a child that is over its time, with all it has started.
void job_kill(pid_t pid);
// One text, tried in a child; what became of model m<number>.
Outcome job_try(const Options *o, const Variant *v, const char *text, const char *wide, int number,
                Report *r);
void job_ended(Report *r, int status, bool hung, int n); // marks what is unknown

// shrink.c: a smaller draft that fails the same way.
Draft draft_shrink(const Options *o, const Variant *v, const Draft *d, Outcome *outcome, Report *r);
char *file_of(Arena *a, const Draft *drafts, int n);      // text of several drafts
char *wide_file_of(Arena *a, const Draft *drafts, int n); // their plain path, or NULL: small ones

#endif
