// A lab: some kernels run alone on a device, on buffers of their own, to compare and to time them.
// Buffers exist several times over, so that what is timed is not read from the cache by accident.
#ifndef RUNTIME_LAB_H
#define RUNTIME_LAB_H

#include "runtime/runtime.h"

typedef enum RtLabFill {
    LAB_NUMBERS, // floats in 0.25..1.25, integers in [low, high), as a function of the place
    LAB_ZERO,
} RtLabFill;

typedef struct RtLabBuffer {
    ProgDType type;
    int64_t count; // elements
    RtLabFill fill;
    int64_t low, high; // of integers
    bool written;
} RtLabBuffer;

typedef enum RtLabArgKind { LAB_BUFFER, LAB_SCRATCH, LAB_VALUE } RtLabArgKind;
typedef struct RtLabArg {
    RtLabArgKind kind;
    int buffer;    // LAB_BUFFER
    int64_t value; // LAB_VALUE; LAB_SCRATCH: the byte it begins at
} RtLabArg;

typedef struct RtLabCall { // one kernel of a program; calls of a trial run in order
    int kernel, nargs;
    const RtLabArg *args;
} RtLabCall;

typedef struct RtTrial {
    RtProgram *program;
    const RtLabCall *calls;
    int ncalls;
    int64_t scratch; // bytes
} RtTrial;

typedef struct RtLab RtLab;
// RT_OOM when not even one set of the buffers fits the device.
RtCode rt_lab_new(RtDevice *d, const RtLabBuffer *buffers, int n, RtLab **out, RtError *e);
void rt_lab_free(RtLab *lab);
// Puts the buffers back as they were and runs the trial once.
RtCode rt_lab_run(RtLab *lab, const RtTrial *t, RtError *e);
// What a buffer holds after rt_lab_run: its elements, or LAB_PIECES pieces spread over it where it
// is larger than LAB_WHOLE. Returns bytes; *at is the caller's to free.
enum { LAB_WHOLE = 16 << 20, LAB_PIECES = 64 };
RtCode rt_lab_read(RtLab *lab, int buffer, void **at, size_t *bytes, RtError *e);
// Seconds of one execution, by events: the median of several rounds, each over all sets of buffers,
// as a graph where the device has graphs. *spread: between the quartiles.
RtCode rt_lab_time(RtLab *lab, const RtTrial *t, double *seconds, double *spread, RtError *e);

#endif
