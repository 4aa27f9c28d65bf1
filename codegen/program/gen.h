// Private to planning (codegen.c, frame.c, product_step.c, loops.c, order.c): one entry while it is
// turned into steps.
#ifndef CODEGEN_GEN_H
#define CODEGEN_GEN_H

#include "codegen/codegen.h"
#include "codegen/kernel.h"
#include "codegen/matmul/gemm.h"
#include "ir/eval.h"

typedef VEC(uint32_t) Ids;

typedef struct Gen { // one module
    Arena *arena;
    Diags *diags;
    Module *module;
    const CodegenOptions *options;
    const Target *target;
    VEC(ProgKernel) kernels, generated; // generated: before they were edited
    IdMap kernel_of;                    // identity -> kernel index
    IdMap printed;                      // LowerCtx's
    StrMap names;                       // kernel names taken
    VEC(ProgGemm) gemms;
    VEC(ProgConst) consts;
    bool group_products; // LowerCtx's, of all entries
    bool failed;
} Gen;

typedef struct GenEntry { // one entry, its regions included
    Gen *gen;
    const Entry *entry;
    LowerCtx lower;
    VEC(ProgBuffer) buffers;
    VEC(ProgStep) steps;
    VEC(ProgInput) inputs;
    VEC(ProgOutput) outputs;
    int32_t *cell_buffer;              // by cell index: its buffer + 1, 0: none yet
    int32_t error_buffer, rows_buffer; // + 1, 0: none yet
    bool checked;                      // some kernel writes the error record
} GenEntry;

enum { PLACE_NONE = -1 }; // ProgArg.kind of a node that has no place yet

// Where a result of the graph goes: an output, a cell, or in a region the buffer that carries a
// value to the next iteration or stacks it.
typedef struct Sink {
    const Node *root; // output or assign; NULL in a region
    const Node *value;
    const Node *stored; // what a group stores for it: root, value, or NULL: it is copied
    ProgArg target;
    ProgArg from; // copied from here at the end, when nothing stores it
    bool commit;  // target holds an old value: written once all reads of it are over
    bool cell;    // a commit that the error record gates
    bool in_place, done;
    uint32_t item; // that stores it
} Sink;

typedef struct Item { // what is ordered: a launch, or the copy of a leaf to a sink
    VEC(Group *) groups;
    int32_t sink;           // copy: index into sinks, else -1
    Ids defs;               // values stored (node ids; region ops by their own id)
    Ids uses;               // values read
    Ids leaves;             // leaves read (param, state, input, region_param), by node id
    bool reads_cursor;      // reads data through the row table
    Ids sinks;              // sinks it stores, indices
    LoweredKernel *kernels; // of a launch that is lowered
    int nkernels;
    bool lowered;
    bool checks;       // may write the error record
    uint32_t position; // in the chosen order
} Item;

typedef struct Frame { // one graph: the entry's or a region's
    GenEntry *e;
    Graph *g;
    int depth;         // loops around it
    const Node *loop;  // whose region it is; NULL: none
    ProgArg *place;    // by node id
    ProgArg **results; // by node id of a region op: a place for each result
    VEC(Sink) sinks;
    VEC(Item) items;
    uint32_t *order;  // items
    int32_t cursor;   // buffer of the entry's cursor cell, -1: none
    uint8_t *commits; // by node id, for LowerCtx
    bool *begun; // by node id of a concatenation that is stored part by part: some part is there
} Frame;

// codegen.c
int32_t gen_buffer(GenEntry *e, ProgRegion region, int32_t index, int64_t bytes, const Type *type,
                   const char *name, const char *loc);
int32_t gen_const(GenEntry *e, const Value *v, const char *name, const char *loc);
ProgArg gen_temp(GenEntry *e, const Type *type, const char *name, Loc loc);
ProgArg gen_bytes(GenEntry *e, int64_t bytes, const char *name); // scratch
ProgArg gen_cell(GenEntry *e, const char *cell);
ProgArg gen_arg(int32_t buffer); // PA_BUFFER without strides
// Index of an equal one or a new one. contract: what an edited one must agree to; NULL: not to be
// edited.
int32_t gen_kernel(Gen *g, const ProgKernel *k, const char *contract);
ProgStep *gen_step(GenEntry *e, ProgStepKind kind, int nargs, int depth, const char *name, Loc loc);
void gen_copy(GenEntry *e, ProgArg from, ProgArg to, int64_t bytes, int depth, bool commits,
              const char *name, Loc loc);
// What an edited kernel must agree to: its arguments, their element types and shapes.
const char *gen_contract(GenEntry *e, const ProgArg *args, int nargs);
void gen_internal(Gen *g, Loc loc, const char *what); // an error that is the compiler's fault

// needs.c: sets always and outputs of the inputs. Checks are known.
void entry_needs(Arena *a, const Graph *g, ProgEntry *e);

// frame.c
Frame *frame_new(GenEntry *e, Graph *g, int depth);
// May a kernel of this region, or of one inside it, write the error record?
bool region_checks(Arena *a, const Node *region_op);
bool frame_generate(Frame *f); // sinks and leaf places are set
void frame_lowers(Frame *f);   // what is lowered now is of this graph
// The same, but in memory: the loop index as an element of a constant.
ProgArg frame_memory(Frame *f, const Node *n);
// The buffer or number that a kernel's argument stands for; [scratch]: the scratch buffers of one
// launch. false when it has no place.
bool frame_bind(Frame *f, const KernelArg *a, ProgArg *out, IdMap *scratch);
void frame_sink(Frame *f, Sink s);
// follower.c: the item that may be part of the step of the product at [at] of the order; NULL:
// none.
const Item *frame_follower(Frame *f, uint32_t at);
// Sums that a product's kernel could take on its way come right behind it, unless a map does that
// it could make part of itself.
void frame_bring_sums(Frame *f);
// Whether anything but [reader] reads what the value's group stores.
bool frame_wanted(const Frame *f, const Node *n, const Item *reader);
// Steps of lowered kernels, over the launch's scratch buffers. false: reported.
bool frame_kernels(Frame *f, LoweredKernel *ks, int n, IdMap *scratch);
// Adds a launch that was lowered to the log, if one is kept.
void frame_log(const Frame *f, Group *const *groups, int ngroups, LoweredKernel *kernels,
               int nkernels);
void frame_unlog(const Frame *f, const LoweredKernel *kernels); // others do their work
int64_t node_bytes(const Node *n);

// order.c: fills f->order and every item's position.
void order_items(Frame *f);

// commit.c: copies that commit become kernels on a GPU, where a copy cannot look at the error
// record.
void gen_gate_copies(GenEntry *e);

// product_step.c: the library's product, beside it a kernel that computes the same.
GemmFrom frame_gemms(const Frame *f);
// The left operand of a product beside which a generated kernel may add up its rows; NULL: none
// will.
const Node *frame_gemm_sums(Frame *f, const Group *gr);
// Whether the kernel of a product stores what it could add up the rows of on the way.
bool frame_adds_columns(const LoweredKernel *k);
// The product, whose kernel is generated in any case, with sums over the rows of its result, and
// what joins their parts. NULL: no one kernel does both; [*n]: how many they are.
LoweredKernel *frame_with_sums(Frame *f, const Item *it, const Item *sums, int *n);
// [*follower]: the map that follows the product, or sums over the rows of its left operand, or
// NULL; comes back as NULL where it is not part of the step.
bool frame_product(Frame *f, Group *gr, const Item **follower);

// loops.c
bool loop_generate(Frame *f, const Group *gr);

#endif
