// Compares gradients with finite differences, in double precision and with fixed random numbers.
//
// Each tensor is probed along at least 8 random directions and 32 coordinates (all of them if it
// has fewer), each with three step sizes extrapolated to zero. A probe that crosses a kink (its
// differences disagree with each other; the gradient is not consulted) is drawn again, a few times;
// if it still does, it is left out. A probe passes if |fd - g| <= 1e-6 * max(|fd|, |g|) + 1e-9.
#ifndef IR_CHECK_H
#define IR_CHECK_H

#include "ir/eval.h"

typedef struct CheckProbe {
    int64_t coordinate; // or -1: a random direction
    double difference;  // from finite differences
    double gradient;    // from the graph
} CheckProbe;

typedef enum CheckVerdict {
    CHECK_OK,        // all kept probes pass, and nine of ten were kept
    CHECK_BAD,       // a kept probe fails, or the gradient is not finite
    CHECK_UNDECIDED, // all kept probes pass, but fewer than nine of ten, or none, were kept
} CheckVerdict;

typedef struct CheckTensor {
    const char *name;
    int probes, kept, failed; // kept: probes that crossed no kink
    double error;     // the largest |fd - g| / (1e-6 * max(|fd|, |g|) + 1e-9); passes up to 1
    CheckProbe worst; // the probe with that error
    CheckVerdict verdict;
} CheckTensor;

typedef struct CheckReport {
    VEC(CheckTensor) tensors;
    bool ok;       // none is CHECK_BAD
    int partly;    // tensors that are CHECK_UNDECIDED of which some probes were kept
    int none;      // ... of which no probe was kept
    bool infinite; // the loss is not finite at this point, so nothing was compared
} CheckReport;

// [forward] must have an output [loss], a float scalar. [gradients] must have outputs "grad:NAME",
// each of the type of the leaf NAME (a cell, else an input). Both are evaluated in env, which
// provides every leaf; env->round is ignored. Returns false only if something could not be
// evaluated (reported through the diags of the graph); whether the gradients are correct is
// out->ok.
bool check_gradients(const Graph *forward, const char *loss, const Graph *gradients,
                     const EvalEnv *env, uint64_t seed, CheckReport *out);

// Writes one line per tensor, with the worst probe of those that fail.
void check_print(const CheckReport *r, Buf *out);

#endif
