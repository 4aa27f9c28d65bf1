// One try of a file of models: compiled for a device in one of the ways a compilation can go, run,
// and compared with the evaluator.
#ifndef PROGRAMS_TRIAL_H
#define PROGRAMS_TRIAL_H

#include "ir/eval.h"
#include "passes/passes.h"

typedef struct Variant {
    const char *name, *skip, *precision;
    bool no_library, no_reuse;
    int64_t memory_limit;
} Variant;
extern const Variant variants[]; // the first is the default
extern const int variant_count;
const char *all_optional_passes(void); // "simplify,fuse,..."

enum State { UNKNOWN, FINE, REFUSED, WRONG, FAILED, CRASHED, HUNG, STATES };
extern const char *const state_names[STATES];

typedef struct Outcome {
    enum State state;
    char why[400];
} Outcome;

typedef struct Trial {
    const char *text, *device;
    const Variant *variant;
    uint64_t seed;      // of the inputs
    uint32_t *ops;      // [OP_COUNT] how often each op stood in a graph, or NULL
    int64_t *undecided; // elements that the bound says nothing about, or NULL
    int64_t *compared;  // all elements, or NULL
} Trial;
// Models are called m0, m1, ...; out[i] is what became of m<i>. Those of which nothing is known
// (the whole file failed) keep their state.
void trial_run(const Trial *t, Outcome *out, int n);

// bound.c: whether an element may be what it is. Each call compares all elements of a tensor; the
// first that is off is described in why.
typedef struct Reference {
    const Graph *graph; // plain
    EvalResult exact, rounded;
    DType narrowest;
    int64_t longest;
    Precision precision;
} Reference;
bool reference_make(Arena *a, const Graph *g, EvalEnv *env, Precision p, Reference *out);
bool reference_holds(const Trial *t, const Reference *r, const char *name, bool cell,
                     const Value *have, char *why, size_t size);

#endif
