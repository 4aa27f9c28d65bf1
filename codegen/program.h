// Program: the result of the compiler and everything the runtime knows. Plain data in one arena
// (strings, arrays and indices, no pointers between tables), so that it can be written to model.bin
// as it is.
#ifndef CODEGEN_PROGRAM_H
#define CODEGEN_PROGRAM_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"

enum { PROG_MAX_RANK = 8, PROG_MAX_DEVICES = 16, PROG_VERSION = 20 };

// Element types with the names and order of ir/dtypes.def (the runtime does not know ir/).
typedef enum ProgDType {
    PD_BOOL,
    PD_U8,
    PD_I32,
    PD_U32,
    PD_I64,
    PD_BF16,
    PD_F16,
    PD_F32,
    PD_F64,
    PD_COUNT
} ProgDType;
int prog_dtype_bytes(ProgDType t);
const char *prog_dtype_name(ProgDType t);

typedef struct ProgType {
    ProgDType dtype;
    int32_t rank;
    int64_t dim[PROG_MAX_RANK];
} ProgType;
int64_t prog_type_bytes(const ProgType *t);
// "f32[60000, 784]"; a negative size is free: "f32[*, 784]".
void prog_type_text(char *out, size_t n, const ProgType *t);
bool prog_type_equal(const ProgType *a, const ProgType *b);
// Stores one element of value [v], rounded to the type, at [at] (aligned to its size).
void prog_store(ProgDType t, void *at, double v);
double prog_load(ProgDType t, const void *at);

typedef enum ProgCellKind {
    PC_PARAM,
    PC_STATE,
    PC_SCRATCH,
    PC_SETTING,
    PC_CONTROL,
    PC_PREPARED, // written by an entry that prepares another one; allocated when that entry runs
} ProgCellKind;

typedef struct ProgCell {
    const char *name;
    ProgCellKind kind;
    ProgType type;
    double initial;                      // every element, before the init entry runs
    bool frozen, optimizer, first_batch; // as in ir/module.h
} ProgCell;

// Where a buffer is. The executor resolves a buffer to an address. Cells of the same name are one
// allocation, however many programs of a session use them.
typedef enum ProgRegion {
    PR_ARENA,  // temporaries of an entry: arena + offset
    PR_CELL,   // cells[index]
    PR_INPUT,  // inputs[index] of the entry
    PR_OUTPUT, // outputs[index] of the entry: its own buffer, valid until the next run
    PR_CONST,  // consts[index]
    PR_ERROR,  // the entry's error record, ProgError
    PR_ROWS,   // the row table of the bound data set: i32 row numbers
    PR_DEVICE, // the number of the device among those that share the work, i64
} ProgRegion;

typedef struct ProgBuffer {
    const char *name; // the name of the model's value, for reports
    ProgRegion region;
    int32_t index;
    int64_t offset, bytes;
    int32_t first, last; // steps between which it is live (temporaries)
    ProgType type;
    const char *loc; // "mlp.net:11", or ""
} ProgBuffer;

// The record a kernel writes when a check fails; the first writer wins by compare-and-swap on code.
// Kernels that write cells read code first and do nothing when it is not 0.
typedef struct ProgError {
    uint32_t code;   // 0: none; else 1 + index into ProgEntry.checks
    uint32_t device; // of those that share the work: whose part it was
    int64_t value, index, step;
} ProgError;

typedef enum ProgCheckKind { CHECK_INDEX, CHECK_ASSERT } ProgCheckKind;
typedef struct ProgCheck {
    ProgCheckKind kind;
    const char *message, *loc; // "index of gather", "mlp.net:12"
    int64_t bound;             // CHECK_INDEX: indices must be in 0..bound
} ProgCheck;

typedef enum ProgArgKind {
    PA_BUFFER,     // pointer to buffers[index] + [value] bytes + iteration * stride[depth] in loops
    PA_LOOP_INDEX, // i64: the current iteration of the loop at depth [index]
    PA_INT,        // i64 constant [value]
} ProgArgKind;

enum { PROG_MAX_LOOP_DEPTH = 8 };
typedef struct ProgArg {
    ProgArgKind kind;
    int32_t index;
    int64_t value;
    int64_t stride[PROG_MAX_LOOP_DEPTH];
    bool written;
    bool joins; // part of the buffer is written, next to what earlier steps have written
} ProgArg;
bool prog_arg_same(const ProgArg *a, const ProgArg *b); // the same memory, in every iteration

// A matrix of 16-bit elements that a kernel reads or writes by bulk copies of one box at a time.
// The description that the copies need is created at the launch and passed as an extra parameter.
// If only every [apart]-th row begins at a multiple of 16 bytes, that parameter is [apart] maps:
// one of rows 0, apart, ..., one of rows 1, apart + 1, ..., each starting at the last such multiple
// before its first element. There may be several equal matrices: planes[0] of them, plane_pitch[0]
// elements apart, and planes[1] times these; copies then select a box by four numbers.
enum { PROG_MAX_MAPS = 6, PROG_MAX_APART = 8, PROG_MAX_MAP_ARGS = 64 };
// The largest step[] of windows, and their axes.
enum { PROG_MAX_STEP = 8, PROG_MAX_IMAGE_AXES = 3 };
typedef struct ProgMap {
    int32_t arg;               // the kernel's argument that it is in
    int64_t offset;            // its offset there, in elements
    int64_t rows, cols, pitch; // elements; pitch: between rows
    int32_t box_rows, box_cols, apart;
    int64_t planes[2], plane_pitch[2]; // planes[0] 0: one matrix
    // Or windows: rows are images, [pitch] apart, of image[2] planes, image_pitch[2] apart, of
    // image[1] lines, image_pitch[1] apart, of image[0] pixels, image_pitch[0] apart, with [cols]
    // channels each. A copy has [box_rows] neighbouring places of windows and one pixel of each,
    // zeros outside of the image. places[]: number of places in an image along each axis, step[]
    // pixels apart, starting at first[]. image[2] 0: images of two axes; image[0] 0: no windows.
    int64_t image[PROG_MAX_IMAGE_AXES], image_pitch[PROG_MAX_IMAGE_AXES];
    int32_t first[PROG_MAX_IMAGE_AXES], places[PROG_MAX_IMAGE_AXES], step[PROG_MAX_IMAGE_AXES];
} ProgMap;
int prog_image_axes(const ProgMap *m); // 2 or 3; 0: no windows

// How a kernel is called. args are the step's, in order.
//   CUDA: extern "C" __global__ void SYMBOL(T0 *a0, long long a1, ...): one parameter an argument,
//         then one for each of its maps.
//   CPU:  void SYMBOL(void *const *args, const NcPar *par): args[i] is the buffer's address, or the
//         address of an int64_t. par is NULL (one thread) or the host's parallel_for:
//         typedef struct NcPar { void (*run)(void *ctx, long n, void (*body)(void *arg, long begin,
//         long end), void *arg); void *ctx; } NcPar;
typedef struct ProgKernel {
    const char *name;      // fc1_linear_relu_bwd_3f2a9c01
    uint64_t identity;     // hash of the canonical kernel
    const char *text;      // CUDA C or C: what is compiled; defines a function called [symbol]
    const char *symbol;    // canonical name in text: k_<identity>
    const char *annotated; // the text for people, with model names and the head comment
    uint32_t grid[3], block[3], cluster; // CUDA launch; cluster 0 or 1: none
    uint32_t shared_bytes;               // dynamic
    int32_t nargs, nmaps;                // nargs: known where there are maps, else 0
    ProgMap maps[PROG_MAX_MAPS];
    int64_t bytes_read, bytes_written, flops;
    // The operations of matrix products among them, and the type of their operands.
    int64_t product_flops;
    ProgDType product_type;
    bool product_tf32;
    double floor_seconds; // the minimum time on a typical device of the target
    const char *schedule; // one line, for people and the tuning file
    const char *file;     // of a user-written kernel, "scan.cu"; "": generated
} ProgKernel;

typedef enum ProgEpilogue {
    PE_NONE,
    PE_BIAS,
    PE_RELU,
    PE_RELU_BIAS,
    PE_GELU,
    PE_GELU_BIAS,
    PE_GELU_AUX_BIAS,
    PE_DGELU,
    PE_GELU_AUX,
} ProgEpilogue;
bool prog_epilogue_bias(ProgEpilogue e); // has a bias argument, or writes its gradient
bool prog_epilogue_aux(ProgEpilogue e);  // reads or writes an auxiliary tensor

// A convolution of images x (images, image..., channels) by weights w (results, size..., channels),
// all of them dense: y (images, places..., results), with
//     y(b, o, r) = sum over t, c of x(b, o * step + t * dilation - before, c) w(r, t, c)
// PV_INPUT computes the gradient of x from those of y (A) and w (B), PV_WEIGHT that of w from those
// of y (A) and x (B).
typedef enum ProgConvKind { PV_NONE, PV_FORWARD, PV_INPUT, PV_WEIGHT } ProgConvKind;
typedef struct ProgConv {
    ProgConvKind kind;
    int32_t axes; // of an image: 2 or 3
    int64_t images, channels, results;
    int64_t image[PROG_MAX_IMAGE_AXES], size[PROG_MAX_IMAGE_AXES], places[PROG_MAX_IMAGE_AXES];
    int64_t step[PROG_MAX_IMAGE_AXES], dilation[PROG_MAX_IMAGE_AXES];
    int64_t before[PROG_MAX_IMAGE_AXES], after[PROG_MAX_IMAGE_AXES]; // zeros around an image
    int64_t parts; // C has so many parts, of which the result is the sum: the library stores it as
                   // the first and zeros in the others
} ProgConv;

// C = A * B on row-major operands: A is (m, k) or, when trans_a, stored (k, m); B is (k, n) or,
// when trans_b, stored (n, k); C is (m, n). ld*: elements between rows as stored. Or a convolution,
// of m * n results that are sums of k products each, by a library that may be absent: then
// [kernel] computes it.
typedef struct ProgGemm {
    const char *name, *loc;
    ProgDType a_type, b_type, c_type, compute; // compute PD_F32, or PD_F64
    bool tf32;                                 // tensor-core f32 allowed
    bool trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    int64_t batch, stride_a, stride_b, stride_c; // elements; batch 1: none
    ProgConv conv;                               // kind PV_NONE: a product of matrices
    ProgEpilogue epilogue;
    bool residual; // a matrix like C is added before the activation
    // Arguments of the step: A, B, C, then residual, bias and aux where there are such, then
    // workspace.
    int64_t workspace;      // bytes planned for it
    const char *choice_key; // the line of the choice table that picks its algorithm
    // 1 + a generated kernel that computes the same, for cases where the library has no algorithm
    // or is slower; 0: none. Its kernel_args arguments follow the library's in the step.
    int32_t kernel, kernel_args;
    // 1 + a kernel that runs after the library's call and whose work [kernel] includes; 0: none.
    // Its arguments come last.
    int32_t follower, follower_args;
} ProgGemm;
enum { PROG_MAX_KERNEL_ARGS = 32, PROG_MAX_GEMM_ARGS = 7 + 2 * PROG_MAX_KERNEL_ARGS };
int prog_gemm_args(const ProgGemm *g); // of the library's call
// The elements from the first to the last of operand 0 to 2: A, B, C. false: more than can be.
bool prog_gemm_elements(const ProgGemm *g, int operand, int64_t *out);
// Which operand of a convolution is x, w or y.
int prog_conv_operand(const ProgConv *c, char of);
// "gradient of weights, 64 images 28x28x256, windows 3x3, 128 results at 28x28 places"
void prog_conv_print(const ProgConv *c, Buf *out);

typedef enum ProgStepKind {
    PS_KERNEL, // kernels[index]
    PS_GEMM,   // gemms[index]
    PS_COPY,   // args[0] to args[1], [bytes]
    PS_ZERO,   // args[0], [bytes]
    PS_LOOP,   // repeats steps [first_step, last_step) [count] times
    // Between the devices that share the work: args[1] of each receives [bytes] of args[0] of every
    // device, in their order. count: 0: the same bytes for all; 1: part d for device d.
    PS_EXCHANGE,
    PS_AGREE, // args[0], the error record: all take over that of the first device that has failed
    PS_SKIP,  // first in a loop on a CPU: if args[0], a bool, is false, the iteration has no effect
              // and the rest of it does not run; nor do further ones if the bool has no stride
} ProgStepKind;

typedef struct ProgStep {
    ProgStepKind kind;
    int32_t index;
    int32_t nargs;
    ProgArg *args;
    int64_t bytes, count;
    int32_t first_step, last_step; // the body follows its PS_LOOP step directly
    bool reverse;                  // PS_LOOP: iterations run from count - 1 down to 0
    int32_t depth;                 // number of enclosing loops
    bool commits;                  // writes cells
    const char *name, *loc;
} ProgStep;

typedef enum ProgEntryKind { PK_INIT, PK_TRAIN, PK_EVAL, PK_MODEL } ProgEntryKind;

typedef struct ProgInput {
    const char *name;
    ProgType type;
    bool data;      // axis 0 counts examples; read through the row table if the entry has rows
    bool has_range; // integer values must be in low..high
    int64_t low, high;
    int32_t batch_axis_micro;   // micro-batches stacked in axis 0 (1: none)
    bool always;                // needed for all outputs: for a check, or a state
    int32_t noutputs, *outputs; // those it is needed for, ascending
} ProgInput;

typedef struct ProgOutput {
    const char *name;
    ProgType type;
    bool tap;
} ProgOutput;

typedef struct ProgDim {
    const char *name;
    int64_t value;
    bool batch;
} ProgDim;

typedef struct ProgEntry {
    const char *name;
    ProgEntryKind kind;
    int32_t ninputs, noutputs, nbuffers, nsteps, ndims, nchecks;
    ProgInput *inputs;
    ProgOutput *outputs;
    ProgBuffer *buffers;
    ProgStep *steps;
    ProgDim *dims;
    ProgCheck *checks;
    bool rows;          // data inputs are read through the row table
    const char *cursor; // cell, or NULL
    int64_t batch;
    int64_t arena_bytes; // temporaries
    int64_t peak_bytes; // the most bytes of temporaries that are live at once, from the independent
                        // verifier
} ProgEntry;

typedef struct ProgConst {
    ProgType type;
    const void *data;
} ProgConst;

typedef struct Program {
    Arena *arena;
    const char *model;  // name
    const char *target; // "cpu", "sm_90"; CUDA programs carry text for any architecture
    bool cuda;
    int32_t devices; // that share the work of a step
    int32_t ncells, nentries, nkernels, ngemms, nconsts;
    ProgCell *cells;
    ProgEntry *entries;
    ProgKernel *kernels;
    ProgGemm *gemms;
    ProgConst *consts;
    const char *prelude; // text before every kernel's
    const char *choices; // the choice table: lines "key value"; may be ""
} Program;

const ProgEntry *program_entry(const Program *p, const char *name); // NULL when absent
// written: set, by cell index, to whether some step of the entry writes the cell.
void program_written(const Program *p, const ProgEntry *e, bool *written);
// Whether it is a length of the training, which its schedules read and whoever trains must write.
bool program_told(const ProgCell *c);
// Whether it is "init.1" and so on, which compute cells from others.
bool program_derives(const ProgEntry *e);
// "init.batch": computes the cells that wait for the first batch (ProgCell.first_batch).
#define PROG_FIRST_BATCH "init.batch"
bool program_reads_first(const ProgEntry *e);
// Whether it is "prepare.next" or the like, which runs before "next" if a cell that it reads has
// changed since it last ran.
bool program_prepares(const ProgEntry *e);
// The number of the entry that prepares e; -1: none.
int program_preparing(const Program *p, const ProgEntry *e);
bool program_is_hidden(const ProgEntry *e); // one of these: it is not requested by name
// Reduces the entry to the outputs [wanted] (by number) and the inputs that they need. Its steps
// stay the same: other outputs become temporaries, and other inputs are zeros, or the smallest
// value of their range.
void program_keep(Program *p, ProgEntry *e, const bool *wanted);
void program_print(const Program *p, Buf *out); // netc --emit plan
// Checks offsets, indices and ranges of a program read from a file; NULL if valid, else what is
// wrong.
const char *program_validate(const Program *p);
// model.bin sections hold this form; reading never trusts a length. NULL with *error on damage.
void program_write(const Program *p, Buf *out);
Program *program_read(Arena *a, const void *bytes, size_t n, const char **error);

#endif
