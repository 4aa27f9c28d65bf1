// A microbenchmark: runs a few kernels alone on a device, on buffers of their own, to compare and
// to time them. Buffers exist several times, so that timed kernels do not read from the cache by
// accident.
#ifndef RUNTIME_LAB_H
#define RUNTIME_LAB_H

#include "runtime/runtime.h"

typedef enum RtMicrobenchFill {
    MICROBENCH_NUMBERS, // floats in 0.25..1.25, integers in [low, high), as a function of the place
    MICROBENCH_ZERO,
} RtMicrobenchFill;

typedef struct RtMicrobenchBuffer {
    ProgDType type;
    int64_t count; // elements
    RtMicrobenchFill fill;
    int64_t low, high; // of integers
    bool written;
} RtMicrobenchBuffer;

typedef enum RtMicrobenchArgKind {
    MICROBENCH_BUFFER,
    MICROBENCH_SCRATCH,
    MICROBENCH_VALUE
} RtMicrobenchArgKind;
typedef struct RtMicrobenchArg {
    RtMicrobenchArgKind kind;
    int buffer;    // MICROBENCH_BUFFER
    int64_t value; // MICROBENCH_VALUE; MICROBENCH_SCRATCH: the byte it begins at
} RtMicrobenchArg;

typedef struct RtMicrobenchCall { // one kernel of a program; calls of a trial run in order
    int kernel, nargs;
    const RtMicrobenchArg *args;
} RtMicrobenchCall;

typedef struct RtTrial {
    RtProgram *program;
    const RtMicrobenchCall *calls;
    int ncalls;
    int64_t scratch; // bytes
} RtTrial;

typedef struct RtMicrobench RtMicrobench;
// RT_OOM when not even one set of the buffers fits the device.
RtCode rt_microbench_new(RtDevice *d, const RtMicrobenchBuffer *buffers, int n, RtMicrobench **out,
                         RtError *e);
void rt_microbench_free(RtMicrobench *bench);
// Puts the buffers back as they were and runs the trial once.
RtCode rt_microbench_run(RtMicrobench *bench, const RtTrial *t, RtError *e);
// What a buffer holds after rt_microbench_run: its elements, or MICROBENCH_PIECES pieces spread
// over it where it is larger than MICROBENCH_WHOLE. Returns bytes; *at is the caller's to free.
enum { MICROBENCH_WHOLE = 16 << 20, MICROBENCH_PIECES = 64 };
RtCode rt_microbench_read(RtMicrobench *bench, int buffer, void **at, size_t *bytes, RtError *e);
// Seconds of one execution, by events: the median of several rounds, each over all sets of buffers,
// as a graph where the device has graphs. *spread: between the quartiles.
RtCode rt_microbench_time(RtMicrobench *bench, const RtTrial *t, double *seconds, double *spread,
                          RtError *e);

#endif
