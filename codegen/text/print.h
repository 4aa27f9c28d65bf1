// Shared by the CUDA and the C printer: instructions as text, each placed in the outermost loop
// where everything it depends on is known.
#ifndef CODEGEN_PRINT_H
#define CODEGEN_PRINT_H

#include "codegen/ir/body.h"

// An open loop body (or the function itself). Text may still be added to an outer scope while an
// inner one is open: it is placed before the inner loop, which is how loop-invariant values are
// hoisted.
typedef struct Scope {
    struct Scope *up;
    uint64_t axes; // the axes of this loop
    int depth, indent;
    bool open;
    bool guard; // not every thread runs it: values of memory that others write must not be read
                // outside of it
    Buf text;
} Scope;

typedef struct Binding {
    Scope *scope;
    const char *text; // the temporary, or an expression that names the value
} Binding;

typedef struct Emit Emit;
struct Emit {
    Arena *arena;
    const Kernel *kernel;
    const Body *body;
    bool cuda, pretty;
    Scope *scope;         // innermost
    Binding *bind;        // by instruction
    const char **name;    // by instruction: its temporary
    const char **axis;    // by axis: the expression of its value here
    const char **element; // by instruction: a load's element already in registers, or NULL
    const char **place;   // by store: where emit_stores writes it instead of its buffer, or NULL
    bool *converted;      // by instruction, then by store: element or place has the arithmetic type
    const bool *live;     // by instruction: something stored depends on it
    const bool *moved;    // C, by instruction: values stored as they are read (body_moved); or NULL
    bool *nested;         // by axis: it is the axis of a nested reduction
    const char *where;    // the model's line of the last printed line
    const char **inverse; // by instruction: the temporary of its reciprocal, if one was printed
    Scope **inverse_in;
    // CUDA, until the wait for the preceding kernel is printed: what is fetched now is prefetched
    // (prefetch_cuda.c). Then follow is NULL, and values are printed no further out than [floor],
    // since text outside of it may precede the wait.
    const char *follow, *check; // check: of the error record, printed behind the wait
    Scope *floor;
    int joins; // reductions of whole blocks so far
    // C: the loop over this axis stays within one period of [period] elements, which begins at
    // [round]; 0: anywhere.
    int round_axis;
    int64_t period;
    const char *round;
    bool pieces; // C: the open loop processes a piece of some elements (halves_c.c)
    bool few;    // C: ... of so few elements that their floats stay in registers
    const char **buf_name;
};

Emit emit_begin(const Kernel *k, const Body *b, bool pretty, bool cuda);
Scope *emit_open(Emit *e, uint64_t axes); // a new innermost scope
// Closes the scope: its text is added to the outer one, between the two lines; NULL: no line.
void emit_close(Emit *e, const char *head, const char *tail);
// ... between the line [head] and "}".
void emit_end(Emit *e, const char *head, ...) __attribute__((format(printf, 2, 3)));
// ... as the body of an unrolled loop (CUDA); of one with [n] iterations, counted by [name].
void emit_unrolled(Emit *e, const char *head, ...) __attribute__((format(printf, 2, 3)));
void emit_times(Emit *e, const char *name, int64_t n);
// Closes the innermost scope without lines around it: text that is added to outer scopes from now
// on follows its present text.
void emit_settle(Emit *e);
// Conditions, "" where they always hold: x && y; at < end, unless that is certain.
const char *emit_and(Emit *e, const char *x, const char *y);
const char *emit_below(Emit *e, const char *at, int64_t end, bool certain);
void emit_if(Emit *e, const char *condition); // ends the innermost scope, on that condition
// Formatted in the arena.
const char *emit_text(Emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *int_type(const Emit *e); // the type of index arithmetic
// Adds lines of text to the innermost scope; emit_line: to any open one.
void emit(Emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// const int NAME = ...;, in the type of index arithmetic.
void emit_int(Emit *e, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void emit_line(Emit *e, Scope *s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void emit_bind(Emit *e, int inst, Scope *s, const char *text);
// The name of its temporary; prints it first if necessary.
const char *emit_value(Emit *e, int inst);
// Adds x to a running sum: r becomes the sum with x, or without it.
void emit_scan(Emit *e, int r, const char *acc, const char *x);
const char *emit_index(Emit *e, const Ix *x);
const char *emit_index_at(Emit *e, const Ix *x, int axis, const char *place); // [axis] is at place
// Converts from the arithmetic type to the stored type.
const char *emit_stored(Emit *e, DType t, const char *value);
// The instruction whose value is stored: rounding once suffices if storing rounds.
int emit_unrounded(const Emit *e, const BodyStore *s);
// Prints, in the innermost scope, the stores over the columns of a stage; -1: the stores of whole
// rows.
void emit_stores(Emit *e, int stage);
void emit_store(Emit *e, const BodyStore *s); // one of them, to memory
const char *emit_literal(Arena *a, DType t, int64_t i, double f);

const char *type_storage(DType t);
const char *type_math(DType t);

static inline long long extent_of(const Body *b, int axis) // for printf's %lld
{
    return b->axis[axis].extent;
}

// Whether instruction v varies over the axis, itself or through its place (stores).
static inline bool inst_over(const Inst *v, int axis)
{
    return axis >= 0 && (v->axes >> axis & 1);
}
// The reductions over the columns that stage s computes.
const int *stage_reductions(const Emit *e, int stage, int *n);

// -- names and comments (names.c) -----------------------------------------------------------------
const char *name_identifier(Arena *a, const char *model_name); // "h.0.attn" -> "h_0_attn"
const char *kernel_name(const Kernel *k);
void kernel_comment(const Kernel *k, const ProgKernel *p, const Target *t, Buf *out);
void kernel_costs(const Kernel *k, const Target *t, ProgKernel *p); // bytes, flops, floor

#endif
