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

enum { PLACE_NONE = -1 }; // ProgArg.kind of a node without memory

// The destination of a result of the graph: an output, a cell or, in a region, the buffer that
// passes a value to the next iteration or stacks it.
typedef struct Sink {
    const Node *root; // output or assign; NULL in a region
    const Node *value;
    const Node *stored; // the node that a group stores for it: root, value, or NULL: it is copied
    ProgArg target;
    ProgArg from; // copied from here at the end if nothing stores it
    bool commit;  // target holds an old value: it is written after all reads of that
    bool cell;    // a commit that depends on the error record
    bool in_place, done;
    uint32_t item; // the item that stores it
} Sink;

typedef struct Item { // what is ordered: a launch, or the copy of a leaf to a sink
    VEC(Group *) groups;
    int32_t sink;           // copy: index into sinks, else -1
    Ids defs;               // values stored (node ids; region ops by their own id)
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

typedef struct Frame { // one graph: the entry's or a region's
    GenEntry *e;
    Graph *g;
    int depth;         // enclosing loops
    const Node *loop;  // the loop whose region it is; NULL: none
    ProgArg *place;    // by node id
    ProgArg **results; // by node id of a region op: the memory of each result
    VEC(Sink) sinks;
    VEC(Item) items;
    uint32_t *order;  // items
    int32_t cursor;   // buffer of the entry's cursor cell, -1: none
    uint8_t *commits; // by node id, for LowerCtx
    bool *begun;      // by node id of a concatenation stored in parts: some part has been stored
} Frame;

// codegen.c
int32_t gen_buffer(GenEntry *e, ProgRegion region, int32_t index, int64_t bytes, const Type *type,
                   const char *name, const char *loc);
int32_t gen_const(GenEntry *e, const Value *v, const char *name, const char *loc);
ProgArg gen_temp(GenEntry *e, const Type *type, const char *name, Loc loc);
ProgArg gen_bytes(GenEntry *e, int64_t bytes, const char *name); // scratch
ProgArg gen_cell(GenEntry *e, const char *cell);
ProgArg gen_arg(int32_t buffer); // PA_BUFFER without strides
// Adds a kernel or finds an equal one; returns its index. contract: what an edited kernel must
// agree with; NULL: it cannot be edited.
int32_t gen_kernel(Gen *g, const ProgKernel *k, const char *contract);
ProgStep *gen_step(GenEntry *e, ProgStepKind kind, int nargs, int depth, const char *name, Loc loc);
void gen_copy(GenEntry *e, ProgArg from, ProgArg to, int64_t bytes, int depth, bool commits,
              const char *name, Loc loc);
// What an edited kernel must agree with: its arguments, their element types and shapes.
const char *gen_contract(GenEntry *e, const ProgArg *args, int nargs);
void gen_internal(Gen *g, Loc loc, const char *what); // reports a bug in the compiler

// needs.c: sets `always` and `outputs` of the inputs. Checks must be known.
void entry_needs(Arena *a, const Graph *g, ProgEntry *e);

// frame.c
Frame *frame_new(GenEntry *e, Graph *g, int depth);
// Whether a kernel of this region, or of one inside it, may write the error record.
bool region_checks(Arena *a, const Node *region_op);
bool frame_generate(Frame *f); // sinks and the memory of leaves must be set
void frame_lowers(Frame *f);   // what is lowered from now on belongs to this graph
// The memory of a node, with the loop index as an element of a constant.
ProgArg frame_memory(Frame *f, const Node *n);
// The buffer or number for a kernel's argument; [scratch]: the scratch buffers of one launch.
// false: the argument has no memory.
bool frame_bind(Frame *f, const KernelArg *a, ProgArg *out, IdMap *scratch);
void frame_sink(Frame *f, Sink s);
// follower.c: the item that may become part of the step of the product at [at] in the order; NULL:
// none.
const Item *frame_follower(Frame *f, uint32_t at);
// Moves sums that a product's kernel could also compute directly after it, unless a map that could
// become part of it is there.
void frame_bring_sums(Frame *f);
// Whether anything other than [reader] reads what the value's group stores.
bool frame_wanted(const Frame *f, const Node *n, const Item *reader);
// Adds steps for lowered kernels, with the launch's scratch buffers. false: an error was reported.
bool frame_kernels(Frame *f, LoweredKernel *ks, int n, IdMap *scratch);
// Adds a launch that was lowered to the log, if one is kept.
void frame_log(const Frame *f, Group *const *groups, int ngroups, LoweredKernel *kernels,
               int nkernels);
void frame_unlog(const Frame *f, const LoweredKernel *kernels); // other kernels do their work
int64_t node_bytes(const Node *n);

// order.c: fills f->order and every item's position.
void order_items(Frame *f);

// commit.c: on a GPU, copies that commit become kernels, because a copy cannot read the error
// record.
void gen_gate_copies(GenEntry *e);

// product_step.c: the library's product, with a generated kernel that computes the same.
GemmFrom frame_gemms(const Frame *f);
// The left operand of a product if a generated kernel may also sum up its rows; NULL: none will.
const Node *frame_gemm_sums(Frame *f, const Group *gr);
// Whether the kernel of a product also stores the values whose rows it could sum up.
bool frame_adds_columns(const LoweredKernel *k);
// The product, whose kernel is generated in any case, with sums over the rows of its result and the
// kernel that combines their parts. NULL: no single kernel does both; [*n]: the number of kernels.
LoweredKernel *frame_with_sums(Frame *f, const Item *it, const Item *sums, int *n);
// [*follower]: the map that follows the product, or sums over the rows of its left operand, or
// NULL; set to NULL if it is not part of the step.
bool frame_product(Frame *f, Group *gr, const Item **follower);

// loops.c
bool loop_generate(Frame *f, const Group *gr);

#endif
