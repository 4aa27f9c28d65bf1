// Passes are rows of a table; the runner times, verifies and dumps. No pass prints.
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H

#include "ir/fusion.h"
#include "ir/module.h"
#include "ir/target.h"

typedef enum Precision { PREC_F32, PREC_TF32, PREC_BF16, PREC_F16 } Precision;

typedef struct PassOptions {
    const Target *target;
    Precision precision;
    int64_t memory_limit; // bytes of temporaries; 0: none
    // The part of memory_limit for forward values that are kept for the backward part: the cheapest
    // per byte are recomputed until the others fit. 0: all of the limit.
    int64_t kept_bytes;
    // Bytes of scores computed per iteration if attention is a loop over rows; 0: 32 MB.
    int64_t attention_bytes;
    // Bytes of a product computed per iteration of a loop over chunks of rows; 0: depends on the
    // memory limit.
    int64_t chunk_bytes;
    // Devices that share the work of a step; 0 or 1: one.
    int devices;
    // A training step whose batch they cannot divide is computed whole by each, not refused: the
    // last, smaller batch of an epoch.
    bool odd_batch;
    // Optional passes to skip, comma-separated names ("simplify,recompute"); NULL: none.
    const char *skip;
    const char *stop_before; // a pass name, or NULL
    // Verifies only the result of all passes, not of each: verification takes a tenth of their
    // time.
    bool verify_last;
    // For an evaluator that kernels are compared with: user-written kernels are replaced by their
    // reference graphs, and no optional pass runs except those that change what is rounded.
    bool references;
    // Called after each pass that changed a graph; NULL: no dumps. [number] counts from 1.
    void (*dump)(void *ctx, int number, const char *pass, const Module *m);
    void *dump_ctx;
} PassOptions;

// Whether a GPU multiplies operands of this type on tensor cores.
static inline bool pass_on_tensor_cores(const PassOptions *o, DType operand)
{
    return operand == DT_BF16 || operand == DT_F16 ||
           (operand == DT_F32 && o->precision == PREC_TF32);
}

// The longest rows of queries, keys and values that an attention kernel multiplies on a GPU.
enum { PASS_LONGEST_HEAD = 256 };

// A value of ATTR_clone on a view: it is recomputed, and only after the gradients that come first.
enum { CLONE_LATER = 3 };

typedef struct PassTiming {
    const char *pass;
    double seconds;
} PassTiming;

typedef enum PassKind {
    PASS_REQUIRED,
    PASS_OPTIONAL, // can be skipped
    PASS_ROUNDS,   // can be skipped, and changes what is rounded, or how
} PassKind;

typedef struct Pass {
    const char *name, *doc;
    // Returns the rebuilt graph, or g itself when nothing changed. Errors go to g->diags.
    Graph *(*run)(Graph *g, Module *m, const PassOptions *o);
    PassKind kind;
} Pass;

extern const Pass pass_table[];
extern const int pass_count;

// Runs the table over every entry's graph, in place in the module. false on error.
bool passes_run(Module *m, const PassOptions *o, PassTiming *timings /* [pass_count], or NULL */);
bool pass_skipped(const PassOptions *o, const char *name); // named in the skip list
const char *passes_of_kind(Arena *a, PassKind kind);       // as PassOptions.skip names them
// The cause's word, as listed in docs/fusion.md; NULL after the last.
const char *unfused_cause(UnfusedCause cause);
const char *unfused_text(Arena *a, const Unfused *u); // one line in the user's terms

Graph *pass_autodiff(Graph *g, Module *m, const PassOptions *o);
Graph *pass_loop_masks(Graph *g, Module *m, const PassOptions *o);
Graph *pass_extern(Graph *g, Module *m, const PassOptions *o);
Graph *pass_invariants(Graph *g, Module *m, const PassOptions *o);
Graph *pass_early_casts(Graph *g, Module *m, const PassOptions *o);
Graph *pass_loop_casts(Graph *g, Module *m, const PassOptions *o);
Graph *pass_vectorize(Graph *g, Module *m, const PassOptions *o);
Graph *pass_fission(Graph *g, Module *m, const PassOptions *o);
Graph *pass_shard(Graph *g, Module *m, const PassOptions *o);
Graph *pass_recurrences(Graph *g, Module *m, const PassOptions *o);
Graph *pass_loop_stores(Graph *g, Module *m, const PassOptions *o);
Graph *pass_loop_sums(Graph *g, Module *m, const PassOptions *o);
Graph *pass_join_products(Graph *g, Module *m, const PassOptions *o);
Graph *pass_fold_scales(Graph *g, Module *m, const PassOptions *o);
Graph *pass_precision(Graph *g, Module *m, const PassOptions *o);
Graph *pass_simplify(Graph *g, Module *m, const PassOptions *o);
Graph *pass_row_updates(Graph *g, Module *m, const PassOptions *o);
Graph *pass_variance(Graph *g, Module *m, const PassOptions *o);
Graph *pass_short_axes(Graph *g, Module *m, const PassOptions *o);
Graph *pass_contract(Graph *g, Module *m, const PassOptions *o);
Graph *pass_approx(Graph *g, Module *m, const PassOptions *o);
Graph *pass_attention(Graph *g, Module *m, const PassOptions *o);
Graph *pass_chunks(Graph *g, Module *m, const PassOptions *o);
Graph *pass_widen(Graph *g, Module *m, const PassOptions *o);
Graph *pass_merge_groups(Graph *g, Module *m, const PassOptions *o);
Graph *pass_few_results(Graph *g, Module *m, const PassOptions *o);
Graph *pass_patches(Graph *g, Module *m, const PassOptions *o);
Graph *pass_channels(Graph *g, Module *m, const PassOptions *o);
Graph *pass_vectors(Graph *g, Module *m, const PassOptions *o);
Graph *pass_prepare(Graph *g, Module *m, const PassOptions *o);
Graph *pass_narrow(Graph *g, Module *m, const PassOptions *o);
Graph *pass_scatter(Graph *g, Module *m, const PassOptions *o);
Graph *pass_long_scans(Graph *g, Module *m, const PassOptions *o);
Graph *pass_first_sorted(Graph *g, Module *m, const PassOptions *o);
Graph *pass_layout(Graph *g, Module *m, const PassOptions *o);
Graph *pass_recompute(Graph *g, Module *m, const PassOptions *o);
Graph *pass_fuse(Graph *g, Module *m, const PassOptions *o);

#endif
