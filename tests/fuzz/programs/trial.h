// One try of a file of models: compiled for a device in one of the ways a compilation can go, run
// twice, and compared with the evaluator or, where that is too slow, with the plain path: the same
// models with f64 for every float, on the CPU, a kernel a node.
#ifndef PROGRAMS_TRIAL_H
#define PROGRAMS_TRIAL_H

#include "ir/eval.h"
#include "lib/lib.h"
#include "passes/passes.h"

typedef struct Variant {
    const char *name, *skip, *precision; // skip "*": every optional pass
    bool no_library, no_reuse;
    int64_t memory_limit;
} Variant;
extern const Variant variants[]; // the first is the default
extern const int variant_count;

enum State { UNKNOWN, FINE, REFUSED, WRONG, FAILED, CRASHED, HUNG, STATES };
extern const char *const state_names[STATES];

typedef struct Outcome {
    enum State state;
    char why[400];
} Outcome;

typedef struct Trial {
    const char *text, *device; // "noise": the evaluator itself, its roundings falling otherwise
    const char *wide;          // the text of the plain path; NULL: the evaluator
    const Variant *variant;
    uint64_t seed;                 // of the inputs
    uint32_t *ops;                 // [OP_COUNT] how often each op stood in a graph
    int64_t *compared, *undecided; // elements; those that the bound says nothing about
} Trial;
// Models are called m0, m1, ...; out[i] is what became of m<i>. Those of which nothing is known
// (the whole file failed) keep their state.
void trial_run(const Trial *t, Outcome *out, int n);
// The models as they are elaborated, with all that cannot be left out and nothing else.
Module *plain_module(const Trial *t, Arena *a, netc_program *p);

int model_number(const Entry *e); // m7: 7; of a file with train: 0

// -- noise.c: the evaluator against its own bound, without a compiler behind it --------------------
bool trial_is_noise(const Trial *t);
void noise_run(const Trial *t, const Module *m, Precision p, Outcome *out, int n);

// -- side.c: models compiled, and run on made-up inputs -------------------------------------------
typedef struct Side {
    netc_program *program;
    netc_session *session;
} Side;
int side_devices(const char *device); // how many it names
netc_status side_open(netc_context *c, const char *text, const char *device, const Variant *v,
                      uint64_t seed, Side *out, netc_error **err);
void side_close(Side *s);
// Values by name. NETC_CHECK_FAILED and the like with *err.
netc_status side_run(Side *s, const char *entry, uint64_t seed, int times, Arena *a,
                     StrMap *outputs, netc_error **err);
netc_status side_cells(Side *s, Arena *a, StrMap *cells, netc_error **err);
const char *optional_passes(Arena *a, const char *but); // "simplify,fuse,..."
// Bytes of an input, a function of its name, type and range and of the seed.
void *fill_input(Arena *a, const char *name, const Type *t, int64_t low, int64_t high,
                 uint64_t seed);
// Such values for a graph's inputs, or for its cells, by name.
StrMap fill_leaves(Arena *a, const Graph *g, bool cells, uint64_t seed);
Value *as_value(Arena *a, const Type *t, const void *bytes);

// -- reference.c: what the values should be -------------------------------------------------------
typedef struct Reference {
    bool evaluated;        // else the plain path's
    StrMap exact, rounded; // outputs, and cells under their names
    double epsilon;        // plain path: of the coarsest rounding, grown by the longest sum
} Reference;
bool evaluate(Arena *a, const Graph *g, EvalEnv *env, Precision p, Reference *out);
double coarseness(const Graph *g, Precision p); // Reference.epsilon
// false: an element is not what it may be; [why] says which.
bool reference_holds(const Trial *t, const Reference *r, const char *name, const Value *have,
                     char *why, size_t size);

#endif
