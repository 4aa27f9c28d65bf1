// Private to the tuner: one launch of a build, run alone on a device under the schedules to be
// compared.
#ifndef LIB_TUNE_H
#define LIB_TUNE_H

#include "codegen/schedule/knobs.h"
#include "ir/eval.h"
#include "lib/api/tuning.h"
#include "runtime/exec/microbench.h"

// A launch under given schedules. Its kernels are compiled and measured when needed.
typedef struct Candidate {
    const char *schedule; // of the body that is being searched
    LoweredKernel *kernels;
    int nkernels;
    bool reorders; // adds sums in a different order than with the cost model's schedule
    RtProgram *rt; // compiled, one for a whole batch of candidates; NULL: not yet
    bool owner;    // the first of its batch, which frees rt
    int first;     // index of its first kernel in rt
    RtTrial trial;
    double seconds;    // 0: not measured
    const char *wrong; // why it cannot be used, or NULL
    bool no_memory;    // it could not be compared for lack of memory, which says nothing about it
} Candidate;

typedef struct Bench { // a launch on a device
    netc_context *context;
    RtDevice *device;
    const char *device_name;
    const Program *like; // for prelude and target
    const LaunchRecord *launch;
    Arena *arena;
    RtMicrobench *bench;
    RtMicrobenchBuffer *buffer;
    int nbuffers;
    IdMap buffer_of;  // KernelArg -> buffer
    void **reference; // by buffer: the result with the cost model's schedule, or NULL
    size_t *reference_bytes;
    const Value **want; // by buffer: the evaluator's result with error bounds; NULL: not computed
    double *magnitude;  // by buffer: magnitude of its largest element
    int64_t longest;    // the largest number of elements that one of its sums adds
    double coarsest;    // of 16-bit types to which it rounds values on the way; see tune_bench.c
    bool use_cache;     // of measured times
    Candidate base;     // with the cost model's schedules
} Bench;

// Lowers the launch with the schedules that [find] returns. false: it cannot be lowered.
bool bench_lower(Bench *b, const char *(*find)(void *ctx, uint64_t key), void *ctx, Candidate *out);
int bench_buffer(const Bench *b, const KernelArg *a); // -1: none
RtCode bench_open(Bench *b,
                  RtError *e); // prepares the microbenchmark, and runs and times the base candidate
void bench_close(Bench *b);
// Compiles candidates, in parallel if the device allows it. If one does not compile, its [wrong] is
// set. Skips candidates with cached times.
void bench_compile(Bench *b, Candidate *const *c, int n);
// Runs a compiled candidate, compares its results and times it; sets seconds or wrong.
void bench_measure(Bench *b, Candidate *c);
// Times both alternately; sets the seconds of each, and the noise.
RtCode bench_duel(Bench *b, Candidate *x, Candidate *y, double *noise, RtError *e);
bool bench_cached(Bench *b, Candidate *c); // uses a cached time, if there is one
void bench_release(Candidate *c);
const char *bench_first_line(Arena *a, const char *text); // of an error

// -- comparing results (tune/tune_equal.c) --------------------------------------------------------
bool bench_keep_reference(Bench *b, RtError *e); // keeps the results of the base candidate
// Runs a compiled candidate and compares its results. false: wrong is set.
bool bench_check(Bench *b, Candidate *c);
// Sets want, after the base candidate was run (tune/tune_expect.c).
void bench_expect(Bench *b);

// -- the search over one launch (tune/tune_search.c) ----------------------------------------------
typedef struct Search {
    Bench *bench;
    bool (*stop)(void *ctx); // whether the time is over or a stop was requested
    void (*skipped)(void *ctx, const char *schedule, const char *why);
    void *ctx;
    IdMap *chosen;   // Body.key -> schedule text; the keys of the launch are added
    bool skip_known; // keys that are in [chosen] already keep their schedule
    // Results.
    double before, after;
    int tried;
    bool finished;
} Search;
RtCode search_launch(Search *s, RtError *e);

#endif
