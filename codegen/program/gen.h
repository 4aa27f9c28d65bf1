// Private to planning (codegen.c, frame.c, product_step.c, convolution_step.c, loops.c, order.c):
// one entry while it is turned into steps.
#ifndef CODEGEN_GEN_H
#define CODEGEN_GEN_H

#include "codegen/codegen.h"
#include "codegen/kernel.h"
#include "codegen/matmul/gemm.h"
#include "ir/eval.h"

typedef VEC(uint32_t) Ids;

typedef struct Gen { // for one module
    Arena *arena;
    Diags *diags;
    Module *module;
    const CodegenOptions *options;
    const Target *target;
    VEC(ProgKernel) kernels, generated; // generated: before kernels were replaced by edited ones
    IdMap kernel_of;                    // identity -> kernel index
    IdMap printed;                      // see LowerCtx
    StrMap names;                       // names of kernels in use
    VEC(ProgGemm) gemms;
    VEC(ProgConst) consts;
    unsigned prelude_parts; // see LowerCtx; of all entries
    bool failed;
} Gen;

typedef struct GenEntry { // for one entry, including its regions
    Gen *gen;
    const Entry *entry;
    LowerCtx lower;
    VEC(ProgBuffer) buffers;
    VEC(ProgStep) steps;
    VEC(ProgInput) inputs;
    VEC(ProgOutput) outputs;
    int32_t *cell_buffer;              // by cell index: its buffer + 1; 0: none yet
    int32_t error_buffer, rows_buffer; // + 1; 0: none yet
    bool checked;                      // some kernel writes the error record
} GenEntry;

enum { PLACE_NONE = -1 }; // ProgArg.kind of a node that has no memory

// The destination of a result of the graph: an output, a cell, or in a region the buffer that
// passes a value to the next iteration or stacks it.
typedef struct Sink {
    const Node *root; // output or assign; NULL in a region
    const Node *value;
    const Node *stored; // the node that a group stores for it: root or value; NULL: it is copied
    ProgArg target;
    ProgArg from; // if no group stores it, where it is copied from at the end
    bool commit;  // the target has an old value, so it is written after all reads of that
    bool cell;    // a commit that depends on the error record
    bool in_place, done;
    uint32_t item; // the item that stores it
} Sink;

typedef struct Item { // something to order: a launch, or the copy of a leaf to a sink
    VEC(Group *) groups;
    int32_t sink;           // for a copy: index in sinks; otherwise -1
    Ids defs;               // values stored, as node ids; region ops by their own id
    Ids uses;               // values read
    Ids leaves;             // leaves read (param, state, input, region_param), by node id
    bool reads_cursor;      // reads data through the row table
    Ids sinks;              // indices of the sinks that it stores
    LoweredKernel *kernels; // of a lowered launch
    int nkernels;
    bool lowered;
    bool checks;       // may write the error record
    uint32_t position; // in the chosen order
} Item;

typedef struct Frame { // for one graph: the entry's or a region's
    GenEntry *e;
    Graph *g;
    int depth;         // number of enclosing loops
    const Node *loop;  // the loop whose region it is, or NULL
    ProgArg *place;    // by node id
    ProgArg counter;   // of a loop: the numbers of its iterations in memory, once they are there
    ProgArg **results; // by node id of a region op: memory of each result
    VEC(Sink) sinks;
    VEC(Item) items;
    uint32_t *order;  // of items
    int32_t cursor;   // buffer of the entry's cursor cell; -1: none
    uint8_t *commits; // by node id; see LowerCtx
    uint32_t *reader; // by node id: 1 + the only item that reads it, or UINT32_MAX: several do
    bool checks;      // some item may write the error record; set with [reader]
    bool *begun;      // by node id of a concatenation stored in parts: a part was stored
} Frame;

// codegen.c
int32_t gen_buffer(GenEntry *e, ProgRegion region, int32_t index, int64_t bytes, const Type *type,
                   const char *name, const char *loc);
int32_t gen_const(GenEntry *e, const Value *v, const char *name, const char *loc);
ProgArg gen_temp(GenEntry *e, const Type *type, const char *name, Loc loc);
ProgArg gen_bytes(GenEntry *e, int64_t bytes, const char *name); // scratch memory
ProgArg gen_cell(GenEntry *e, const char *cell);
ProgArg gen_arg(int32_t buffer); // PA_BUFFER without strides
// Adds a kernel or finds an equal one; returns its index. contract: what an edited kernel must
// match; NULL: the kernel cannot be edited.
int32_t gen_kernel(Gen *g, const ProgKernel *k, const char *contract);
ProgStep *gen_step(GenEntry *e, ProgStepKind kind, int nargs, int depth, const char *name, Loc loc);
void gen_zero(GenEntry *e, ProgArg at, int64_t bytes, int depth, const char *name, Loc loc);
void gen_copy(GenEntry *e, ProgArg from, ProgArg to, int64_t bytes, int depth, bool commits,
              const char *name, Loc loc);
// What an edited kernel must match: its arguments with their element types and shapes.
const char *gen_contract(GenEntry *e, const ProgArg *args, int nargs);
void gen_internal(Gen *g, Loc loc, const char *what); // reports a bug in the compiler

// needs.c: sets `always` and `outputs` of the inputs. Checks must be known.
void entry_needs(Arena *a, const Graph *g, ProgEntry *e);

// frame.c
Frame *frame_new(GenEntry *e, Graph *g, int depth);
// Whether a kernel of this region, or of a region inside it, may write the error record.
bool region_checks(Arena *a, const Node *region_op);
bool frame_generate(Frame *f); // sinks, and the memory of leaves, must be set
void frame_lowers(Frame *f);   // what is lowered from now on belongs to this graph
// The memory of a node; a loop index is an element of a constant.
ProgArg frame_memory(Frame *f, const Node *n);
// The buffer or number for a kernel's argument. [scratch]: the scratch buffers of one launch.
// false: the argument has no memory.
bool frame_bind(Frame *f, const KernelArg *a, ProgArg *out, IdMap *scratch);
void frame_sink(Frame *f, Sink s);
// follower.c: the item that may become part of the step of the product at position [at]; NULL:
// none.
const Item *frame_follower(Frame *f, uint32_t at);
// Moves sums that a product's kernel could compute, too, directly after the product, unless a map
// is there that could become part of its step.
void frame_bring_sums(Frame *f);
// Whether n is a concatenation, the parts of which are stored by the kernels that compute them.
bool frame_assembles(const Frame *f, const Node *n);
// Whether anything except [reader] reads a value that a group stores.
bool frame_wanted(const Frame *f, const Node *n, const Item *reader);
// Adds steps for lowered kernels, with the scratch buffers of the launch. false: an error was
// reported.
bool frame_kernels(Frame *f, LoweredKernel *ks, int n, IdMap *scratch);
// Adds a lowered launch to the log, if there is one.
void frame_log(const Frame *f, Group *const *groups, int ngroups, LoweredKernel *kernels,
               int nkernels);
void frame_unlog(const Frame *f, const LoweredKernel *kernels); // removes kernels that others
                                                                // replace
int64_t node_bytes(const Node *n);
void frame_copies(Frame *f, Sink *s); // stores the sink's value elsewhere, not in place

// gates.c: once the item's places are chosen: kernels that must not test the error record, or that
// cannot store only a part since they do not store in place, are to be lowered again. false: none.
bool frame_ungate(Frame *f, const Item *it);

// order.c: sets f->order and the position of every item.
void order_items(Frame *f);

// commit.c: on a GPU, turns copies that commit into kernels, since a copy cannot read the error
// record.
void gen_gate_copies(GenEntry *e);

// product_step.c: the library's product, with a generated kernel as an alternative.
GemmFrom frame_gemms(const Frame *f);
// The left operand of a product if a generated kernel may also sum over its rows; otherwise NULL.
const Node *frame_gemm_sums(Frame *f, const Group *gr);
// Whether the product's kernel could also sum over the rows of the values it stores.
bool frame_adds_columns(const LoweredKernel *k);
// For a product whose kernel is generated in any case: the kernel with sums over the rows of its
// result, and the kernel that combines partial sums. NULL: no single kernel does both; [*n]: the
// number of kernels.
LoweredKernel *frame_with_sums(Frame *f, const Item *it, const Item *sums, int *n);
// [*follower]: the map after the product, or sums over the rows of its left operand, or NULL; set
// to NULL if it does not become part of the step.
bool frame_product(Frame *f, Group *gr, const Item **follower);

// Adds a kernel of a product's step to the program, with its arguments in args. Returns 1 + its
// index; 0: it cannot be called from there.
int32_t frame_step_kernel(Frame *f, LoweredKernel *k, ProgArg *args, IdMap *scratch);
// Adds the step. args: [own] of the library's call, then those of kernels, [n] in all. What the
// call writes and the kernel after it reads is written by the step.
void frame_product_step(Frame *f, const ProgGemm *g, ProgArg *args, int own, int n, Loc loc);

// convolution_step.c: if the item is a convolution that a library may compute faster than its
// kernel, adds the step of both. false: it is none.
bool frame_convolution(Frame *f, const Item *it);

// exchange_step.c: steps between devices that share the work.
bool frame_exchange(Frame *f, const Group *gr);
void frame_agree(Frame *f); // if there are several devices, and a kernel may have found an error

// loops.c
bool loop_generate(Frame *f, const Group *gr);

#endif
