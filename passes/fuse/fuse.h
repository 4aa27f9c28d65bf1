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

typedef enum Pos { POS_NONE, POS_FULL, POS_ROW } Pos; // over rows and columns, or one a row

typedef struct Cluster { // reductions over the same rows and columns, in stages
    uint32_t parent;     // union-find, by index
    GroupKind kind;
    int level;
    Type full; // of the reduced operand
    int64_t axes[MAX_RANK];
    int naxes;
    int64_t rows, cols;
    bool trailing; // the reduced axes are the last ones
    bool open;     // values over all columns may follow a reduction
    uint32_t size;
    Node *anchor; // of a generated contraction
} Cluster;

typedef struct Fuse {
    Graph *g;
    Arena *a;
    const Target *target;
    const PassOptions *options;
    bool top;    // the entry's own graph, no region
    bool rows;   // data inputs are read through the row table
    bool checks; // something may fail: an assert, an index that is not proved to be in range
    bool again;  // placement found more to force, or to join
    int32_t backward_level; // the latest of the backward part so far
    int32_t check_level;    // of the last check, as far as known; INT32_MAX: not known
    bool small;             // on CUDA: has contractions that are generated

    bool *live;
    uint32_t *uses;       // live consumers, an operand read twice counts twice
    Node **user;          // the last consumer
    bool *forced;         // must be stored
    bool *wide;           // read in more than 16 bits, by more than elementwise code that rounds it
    bool *apart;          // by id of a dot: what is wide behind it is computed by who reads it
    bool *becomes;        // large, stored, and taken by a state as it is
    bool *late;           // elementwise and read only on the way into cells: part of the update
    int64_t *turned;      // stored in the order of those who read it across: how often each element
    uint32_t *cost_users; // forced because it is costly: how many kernels would compute it
    float *cost_flops;
    Node **epilogue; // by id of a dot: the last node folded into it, itself when none
    Node **absorbed; // by id of nodes folded into a dot (the last included): the dot
    unsigned *epilogue_bits;
    Node **bias;
    Node **kept;   // the value before a dot's activation, stored too
    Node **aux;    // that, or the value a gradient's epilogue reads
    Node ***inner; // the nodes of the activation or gradient folded in, by id of the dot
    int *ninner;

    // placement
    int32_t *level;
    uint32_t *cluster; // index + 1
    uint8_t *pos;
    bool *mat;       // stored
    uint16_t *depth; // of the expression a kernel computes for it, down to stored values
    uint16_t *reads; // stored values a free node reads at most; counted anew near the cap
    uint16_t *size;  // what a kernel computes for an element of it (fuse_size), or more
    bool *spread;    // a free value made of what is read at several places
    bool *too_big;   // stored because its expression is as large as one kernel may have
    bool *checked;   // free and computed through an index that may be out of range
    Node **base;     // the largest stored value a free node reads; reductions of one base join
    VEC(Cluster) clusters;
    IdMap cluster_of; // hash of base and domain -> index + 1

    uint32_t *map; // by id of stored free nodes: union-find of maps, id + 1
    Fusion *fusion;
    Unfused *no_fold; // by cluster: why its sums did not join the kernel that takes these rows
} Fuse;

typedef struct Slot { // a group under construction; sorted by level and program order
    int level;
    uint32_t first; // smallest id it stores
    Group group;
    int latest; // level at which it may run without a reader waiting; INT32_MAX: nothing reads it
    uint32_t cluster; // index + 1, 0: none
    bool commits, checks, movable, tiled;
    bool becomes;  // stores a large value that a state takes: into its cell, behind all checks
    bool part;     // ... or the part of the state that it changes
    int64_t bytes; // it works on: of the reduced operand, or of what a map stores
} Slot;
typedef VEC(Slot) Slots;

// Walks from results to operands: whether the walk with this mark meets n for the first time;
// pushes the operands of n.
typedef VEC(Node *) Nodes;
bool fuse_first_visit(uint32_t *seen, uint32_t mark, const Node *n);
void fuse_push_args(Fuse *f, Nodes *work, const Node *n);

// x behind the others, unless it stands among them. false: there is no room for it.
bool fuse_push_new(Node **seen, int *n, int most, Node *x);

// fuse_prepare.c
void fuse_prepare(Fuse *f); // live nodes, consumers, epilogues, what must be stored
bool fuse_in_memory(const Fuse *f, const Node *n); // a leaf kernels read as a buffer
bool fuse_stored(const Fuse *f, const Node *n);    // read from memory, not computed again
bool fuse_is_anchor(const Node *n);
bool fuse_of_call(const Node *n); // one of several results
bool fuse_may_fail(const Node *n);

// fuse_place.c
void fuse_place(Fuse *f);                            // levels and clusters
void fuse_unplace(Fuse *f);                          // no node has a place
uint32_t fuse_cluster(const Fuse *f, const Node *n); // index + 1 of its cluster, 0: none

// fuse_size.c
enum { SURE_SIZE = 40 }; // up to which the sizes of operands may be added up
// How many values a kernel computes and loads for an element of free n, each at each place it is
// read at; whether most are at several places; whether that is more than one kernel should.
int fuse_size(const Fuse *f, const Node *n, bool *spread, bool *too_big);

// fuse_turned.c
void fuse_turn(Fuse *f); // forces what is read across

// fuse_epilogue.c
void fuse_epilogues(Fuse *f);

// fuse_dot.c
// The same graph when nothing is to do.
Graph *fuse_legalize(Graph *g, bool rows, const PassOptions *o);
// Whether a matmul library can read operand [side] of the dot from where [stored] lies, through the
// views between.
bool fuse_dot_reads(const Node *dot, int side, const Node *stored);

// fuse_pad.c
Graph *fuse_pad(Graph *g, const PassOptions *o); // the same graph when nothing is to do

// fuse_small.c
// Whether this dot gets a generated kernel (o NULL: none does). It is a cluster then, not an
// anchor.
bool fuse_generated(const PassOptions *o, const Node *dot);
// Whether it does, but is so large that it shares its launch with updates only.
bool fuse_tiled(const PassOptions *o, const Node *dot);
// Whether the operand is computed inside it.
bool fuse_inlines(const PassOptions *o, const Node *dot, int side);
bool fuse_reads_windows(const PassOptions *o, const Node *dot);
// If not: what is stored for it, which it reads through views.
Node *fuse_read(const PassOptions *o, const Node *dot, int side);
// Operands that both parts read get a clone each.
Graph *fuse_split_operands(Graph *g, const PassOptions *o);

// fuse_map.c
bool fuse_decide(Fuse *f); // which free values to store; true: something new was forced
uint32_t fuse_map_of(const Fuse *f, uint32_t id); // union-find

// fuse_adopt.c
void fuse_adopt(Fuse *f); // outputs that a row kernel computes in any case

// fuse_near.c
// Groups that may absorb others, by a key. The nearest are tried first, before and behind in turn,
// at most NEAR_TRIES of them: in a deep network every block has its own.
enum { NEAR_TRIES = 16 };
typedef bool SlotKey(const Fuse *f, const Slot *s, uint64_t *key, bool *takes); // false: neither
typedef struct Near {
    uint32_t *before, *after; // by slot: the next one that takes, + 1
} Near;
typedef struct NearWalk {
    const Near *near;
    uint32_t before, after;
    int left;
} NearWalk;
Near fuse_near(Fuse *f, const Slots *slots, SlotKey *key);
NearWalk fuse_near_walk(const Near *near, uint32_t slot);
bool fuse_near_next(NearWalk *w, uint32_t *slot); // false: there is none left

// fuse_sweep.c
void fuse_sweeps(Fuse *f, Slots *slots); // sums over the rows join the kernel that takes the rows

// fuse_assemble.c
void fuse_assemble(Fuse *f, Slots *slots); // concatenations whose parts are stored into them

// fuse_pieces.c
void fuse_pieces(Fuse *f, Slots *slots); // what is like the pieces of a value joins these

// fuse_columns.c
void fuse_columns(Fuse *f, Slots *slots); // maps join the sums over their rows

// fuse_launch.c
void fuse_groups(Fuse *f); // fusion->groups, each with its launch
// Puts what [from] stores into [to], whose level is no lower; the others are left without outs.
void fuse_take_over(Fuse *f, Slot *to, Slot *from);
void fuse_drop_empty(Slots *slots);
GroupKind fuse_anchor_kind(const Node *anchor);

// fuse_reasons.c
void fuse_explain(Fuse *f); // fusion->unfused

#endif
