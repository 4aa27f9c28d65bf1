// A microbenchmark: runs a few kernels alone on a device, on buffers of their own, to compare and
// to time them. Buffers exist several times, so that timed kernels do not read from the cache by
// accident.
#ifndef RUNTIME_LAB_H
#define RUNTIME_LAB_H

#include "runtime/runtime.h"

typedef enum RtMicrobenchFill {
    MICROBENCH_NUMBERS, // floats in 0.25..1.25, integers in [low, high), which depend on the index
    MICROBENCH_ZERO,
} RtMicrobenchFill;

typedef struct RtMicrobenchBuffer {
    ProgDType type;
    int64_t count; // elements
    RtMicrobenchFill fill;
    int64_t low, high; // for integers
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
    int64_t value; // MICROBENCH_VALUE: the value; MICROBENCH_SCRATCH: offset in bytes
} RtMicrobenchArg;

typedef struct RtMicrobenchCall { // one kernel of a program; the calls of a trial run in order
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
// RT_OOM if a single set of the buffers does not fit the device.
RtCode rt_microbench_new(RtDevice *d, const RtMicrobenchBuffer *buffers, int n, RtMicrobench **out,
                         RtError *e);
void rt_microbench_free(RtMicrobench *bench);
// Restores the contents of the buffers and runs the trial once.
RtCode rt_microbench_run(RtMicrobench *bench, const RtTrial *t, RtError *e);
// The contents of a buffer after rt_microbench_run: all of it or, if it is larger than
// MICROBENCH_WHOLE, MICROBENCH_PIECES pieces distributed over it. Sets the number of bytes; the
// caller frees *at.
enum { MICROBENCH_WHOLE = 16 << 20, MICROBENCH_PIECES = 64 };
RtCode rt_microbench_read(RtMicrobench *bench, int buffer, void **at, size_t *bytes, RtError *e);
// Seconds of one execution, from events: the median of several rounds over all sets of buffers; as
// a graph if the device has graphs. *spread: difference of the quartiles.
RtCode rt_microbench_time(RtMicrobench *bench, const RtTrial *t, double *seconds, double *spread,
                          RtError *e);

#endif
