// Private to the fuse pass.
//
// Every live node gets a LEVEL: the earliest round of kernels that can compute it. What a kernel of
// level l stores is read by kernels of higher levels only, so that groups cannot depend on each
// other in a cycle, whatever is put together within a level. A node is
//   free        computed wherever it is read: elementwise, views, gathers over stored values;
//   in a CLUSTER  computed inside one reduction kernel, because it depends on a reduction there;
//   an anchor   (matmul, loop, sort, scatter) always stored.
#ifndef PASSES_FUSE_H
#define PASSES_FUSE_H

#include "ir/fusion.h"
#include "passes/passes.h"

typedef enum Pos { POS_NONE, POS_FULL, POS_ROW } Pos; // over rows and columns; one value per row

typedef struct Cluster { // reductions over the same rows and columns, in stages
    uint32_t parent;     // union-find, by index
    GroupKind kind;
    int level;
    Type full; // of the reduced operand
    int64_t axes[MAX_RANK];
    int naxes;
    int64_t rows, cols;
    bool trailing; // the reduced axes are the last ones
    bool open;     // values over all columns may follow one of its reductions
    uint32_t size;
    Node *anchor; // if it is a generated contraction: the dot
} Cluster;

typedef struct Fuse {
    Graph *g;
    Arena *a;
    const Target *target;
    const PassOptions *options;
    bool top;    // the entry's own graph, not a region
    bool rows;   // data inputs are read through the row table
    bool checks; // something may fail: an assert, or an index that is not proved to be in range
    bool again;  // further values to force or to merge were found: place everything again
    int32_t backward_level; // the highest level of the backward part so far
    int32_t check_level;    // level of the last check, as far as known; INT32_MAX: unknown
    bool small;             // on CUDA: some contractions are generated

    bool *live;
    uint32_t *uses; // number of live consumers; an operand read twice counts twice
    Node **user;    // the last consumer
    bool *forced;   // must be stored
    bool *wide;     // a consumer other than elementwise code that rounds it reads it in more than
                    // 16 bits
    bool *apart;    // by id of a dot: the part after it that is wide is computed by its readers
    bool *becomes;  // large, stored, and assigned to a state unchanged
    bool *late;     // elementwise, and read only by updates of cells: part of the update
    // If it is stored in another order for readers that access it with a stride: how often each
    // element is read. Otherwise 0.
    int64_t *turned;
    // If it is forced because it is costly: the number of kernels that would compute it.
    uint32_t *cost_users;
    float *cost_flops;
    Node **epilogue; // by id of a dot: the last node folded into it, or the dot itself
    Node **absorbed; // by id of nodes folded into a dot (including the last): the dot
    unsigned *epilogue_bits;
    Node **bias;
    Node **residual; // by id of a dot: the stored value that the library adds to it
    Node **kept;     // by id of a dot: the value before its activation, if that is stored, too
    Node **aux;    // by id of a dot: that value, or the value that the epilogue of a gradient reads
    Node ***inner; // by id of a dot: the nodes of the activation or gradient that are folded in
    int *ninner;

    // placement
    int32_t *level;
    uint32_t *cluster; // index + 1
    uint8_t *pos;
    bool *mat;       // is stored
    uint16_t *depth; // depth of the expression that a kernel computes for it, from stored values
    // Upper bound of the number of stored values that a free node reads; counted exactly near the
    // limit.
    uint16_t *reads;
    uint16_t *size; // upper bound of the values that a kernel computes for one element of it
                    // (fuse_size)
    bool *spread;   // a free value that depends on values read at several positions
    bool *too_big;  // stored because its expression is larger than a kernel should be
    bool *checked;  // free, and computed through an index that may be out of range
    // The largest stored value that a free node reads; reductions with the same base share a
    // cluster.
    Node **base;
    VEC(Cluster) clusters;
    IdMap cluster_of; // hash of base and domain -> index + 1

    uint32_t *map; // by id of stored free nodes: union-find of maps, as id + 1
    Fusion *fusion;
    Unfused *no_fold; // by cluster: why its sums were not fused into the kernel of their rows
} Fuse;

typedef struct Slot { // a group under construction; sorted by level and program order
    int level;
    uint32_t first; // smallest id of the nodes it stores
    Group group;
    int latest;       // the last level at which it may run without delaying a reader; INT32_MAX: no
                      // readers
    uint32_t cluster; // index + 1, 0: none
    bool commits, checks, movable, tiled;
    bool windows;  // a product over windows that takes longer than a launch
    bool divided;  // a product whose long sums the blocks of clusters divide
    bool becomes;  // stores a large value that is assigned to a state: directly in its cell, after
                   // all checks
    bool part;     // stores the part of a state that changes
    int64_t bytes; // size of what it works on: the reduced operand, or what a map stores
} Slot;
typedef VEC(Slot) Slots;

// For traversals from results to operands: whether n is visited for the first time with this mark;
// fuse_push_args pushes the operands of n.
typedef VEC(Node *) Nodes;
bool fuse_first_visit(uint32_t *seen, uint32_t mark, const Node *n);
void fuse_push_args(Fuse *f, Nodes *work, const Node *n);

// Appends x unless it is present. false: no space left.
bool fuse_push_new(Node **seen, int *n, int most, Node *x);

// fuse_prepare.c
void fuse_prepare(Fuse *f); // finds live nodes, consumers and epilogues, and what must be stored
bool fuse_in_memory(const Fuse *f, const Node *n); // a leaf that kernels read from a buffer
bool fuse_stored(const Fuse *f, const Node *n);    // read from memory instead of being recomputed
bool fuse_is_anchor(const Node *n);
bool fuse_of_call(const Node *n); // one of several results of a call
bool fuse_may_fail(const Node *n);

// fuse_place.c
void fuse_place(Fuse *f);                            // sets levels and clusters
void fuse_unplace(Fuse *f);                          // removes all nodes from their clusters
uint32_t fuse_cluster(const Fuse *f, const Node *n); // index of its cluster + 1; 0: none

// fuse_size.c
enum { SURE_SIZE = 40 }; // up to this limit, sizes of operands may be added up instead of counted
// Returns how many values a kernel computes and loads for one element of the free node n, where a
// value counts once per position at which it is read. *spread: most are read at several positions.
// *too_big: they are more than a kernel should compute.
int fuse_size(const Fuse *f, const Node *n, bool *spread, bool *too_big);

// fuse_turned.c
void fuse_turn(Fuse *f); // forces values to be stored that are read with a stride

// fuse_epilogue.c
void fuse_epilogues(Fuse *f);
// Extends the chain that is folded into the dot by [end], with TargetEpilogue bits.
void fuse_take(Fuse *f, Node *dot, Node *end, unsigned bits);
Node *fuse_next(const Fuse *f, const Node *n); // the only reader of n; NULL: there are others
Node *fuse_other_operand(const Node *n, const Node *one); // of a node with two operands
// fuse_residual.c
void fuse_residuals(Fuse *f, unsigned can); // can: the target's epilogues

// fuse_dot.c
// Returns the same graph if there is nothing to do.
Graph *fuse_legalize(Graph *g, bool rows, const PassOptions *o);
// Whether a matmul library can read operand [side] of the dot directly from [stored], through the
// views between them.
bool fuse_dot_reads(const Node *dot, int side, const Node *stored);
bool fuse_dot_needs_order(const Node *dot, int side); // whether it must be copied for that
// order[i]: which of its contracted axes has the i-th largest stride in the first operand.
void fuse_dot_contracts(const Node *dot, int *order);

// fuse_batch.c
Graph *fuse_batch(Graph *g, const PassOptions *o); // returns the same graph if there is nothing to do

// fuse_cut.c
Graph *fuse_cut(Graph *g);
// fuse_pad.c
Graph *fuse_pad(Graph *g, const PassOptions *o); // returns the same graph if there is nothing to do
// fuse_kmajor.c
Graph *fuse_kmajor(Graph *g, const PassOptions *o); // likewise

// fuse_small.c
// Whether this dot gets a generated kernel (none does if o is NULL). Then it is a cluster, not an
// anchor.
bool fuse_generated(const PassOptions *o, const Node *dot);
// Whether it gets one, but is so large that it may share its launch only with updates.
bool fuse_tiled(const PassOptions *o, const Node *dot);
// Whether the kernel computes the operand itself. Otherwise it reads, through views, a stored
// value, fuse_read.
bool fuse_inlines(const PassOptions *o, const Node *dot, int side);
// The stored value from which the kernel reads the operand through views.
Node *fuse_read(const PassOptions *o, const Node *dot, int side);
bool fuse_reads_windows(const PassOptions *o, const Node *dot);
// Whether such a product is computed by one tile per warp (target_few_results).
bool fuse_few_results(const PassOptions *o, const Node *dot);
// Operands that the forward and the backward part read get a clone for each.
Graph *fuse_split_operands(Graph *g, const PassOptions *o);

// fuse_map.c
bool fuse_decide(Fuse *f); // decides which free values to store; true: a further value was forced
uint32_t fuse_map_of(const Fuse *f, uint32_t id); // union-find

// fuse_adopt.c
void fuse_adopt(Fuse *f); // lets a row kernel also store outputs that it computes anyway

// fuse_near.c
// Groups that may absorb others with the same key. The nearest are tried first, alternately before
// and after, at most NEAR_TRIES of them, since in a deep network every block has its own.
enum { NEAR_TRIES = 16 };
typedef bool SlotKey(const Fuse *f, const Slot *s, uint64_t *key, bool *takes); // false: neither
                                                                                // absorbs nor is
                                                                                // absorbed
typedef struct Near {
    uint32_t *before, *after; // by slot: the next one before or after it that can absorb, + 1
} Near;
typedef struct NearWalk {
    const Near *near;
    uint32_t before, after;
    int left;
} NearWalk;
Near fuse_near(Fuse *f, const Slots *slots, SlotKey *key);
NearWalk fuse_near_walk(const Near *near, uint32_t slot);
bool fuse_near_next(NearWalk *w, uint32_t *slot); // false: there is no further one

// fuse_sweep.c
void fuse_sweeps(Fuse *f, Slots *slots); // sums over rows are fused into the kernel of these rows

// fuse_assemble.c
void fuse_assemble(Fuse *f, Slots *slots); // parts of a concatenation are stored directly into it

// fuse_pieces.c
// Maps of the size of a concatenation's parts are merged with the map of the concatenation.
void fuse_pieces(Fuse *f, Slots *slots);

// fuse_columns.c
void fuse_columns(Fuse *f, Slots *slots); // maps are fused into the sums over their rows

// fuse_launch.c
void fuse_groups(Fuse *f); // sets fusion->groups, each with its launch
// Moves what [from] stores to [to], whose level must not be lower. [from] keeps no outs.
void fuse_take_over(Fuse *f, Slot *to, Slot *from);
void fuse_drop_empty(Slots *slots);
GroupKind fuse_anchor_kind(const Node *anchor);

// fuse_reasons.c
void fuse_explain(Fuse *f); // sets fusion->unfused

#endif
