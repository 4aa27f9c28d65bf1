// Shared by the CUDA and the C printer: instructions as text, each placed in the outermost loop
// where everything it depends on is known.
#ifndef CODEGEN_PRINT_H
#define CODEGEN_PRINT_H

#include "base/map.h"
#include "codegen/ir/body.h"

// A line of a scope's text that declares an index.
typedef struct Declared {
    const char *name;
    size_t begin, end;
} Declared;

// The body of an open loop (or of the function). Text can still be added to an outer scope while an
// inner one is open: it is placed before the inner loop. This hoists loop-invariant values.
typedef struct Scope {
    struct Scope *up;
    uint64_t axes; // the axes of this loop
    int depth, indent;
    bool open;
    bool guard; // not all threads execute it, so memory that other threads write must not be read
                // outside of it
    Buf text;
    VEC(Declared) declared;
    size_t lone_begin, lone_end; // the place of the last block of an inner scope without a head
} Scope;

typedef struct Binding {
    Scope *scope;
    const char *text; // the temporary, or an expression for the value
} Binding;

// CUDA: the elements that a thread computes in an open loop, for which it draws random words
// together (print_draws.c).
typedef struct Neighbours {
    Scope *scope; // of the loop; NULL: none
    // Along an axis, [width] of them: [base], a multiple of the width, and [lane].
    int axis, width;
    const char *base, *lane;
    // A thread's part of a tile of attention's scores, columns j * 8 and on: the loop over j.
    Scope *tile;
} Neighbours;

typedef struct Emit Emit;
struct Emit {
    Arena *arena;
    const Kernel *kernel;
    const Body *body;
    bool cuda, pretty;
    Scope *scope;          // innermost
    Binding *bind;         // by instruction
    const char **name;     // by instruction: its temporary
    const char **axis;     // by axis: the expression of its index
    const char **own_axis; // by axis: its variable, in scopes that know the axis
    StrMap *names;         // all names of variables
    StrMap *quotients;     // CUDA: a quotient or remainder as text -> Binding (print_index.c)
    bool in_value;         // an instruction is being printed
    const char **element;  // by instruction: a loaded element that is in registers already, or NULL
    const char **place;    // by store: where emit_stores writes instead of its buffer, or NULL
    bool *converted;      // by instruction, then by store: element or place has the arithmetic type
    const bool *live;     // by instruction: something stored depends on it
    const bool *moved;    // C, by instruction: values stored unchanged (body_moved); or NULL
    const char *where;    // the source line of the last printed line
    const char **inverse; // by instruction: the temporary with its reciprocal, if printed
    Scope **inverse_in;
    // CUDA, until the wait for the previous kernel has been printed: loads become prefetches
    // (prefetch_cuda.c). Afterwards follow is NULL, and values are printed no further out than
    // [floor], since text outside of it may run before the wait.
    const char *follow, *check; // check: of the error record, printed after the wait
    Scope *floor;
    int joins; // number of reductions of whole blocks so far
    // C: the loop over this axis stays within one period of [period] elements, which begins at
    // [round]; 0: no such limit.
    int round_axis;
    int64_t period;
    const char *round;
    bool pieces; // C: the open loop processes a piece of the elements (halves_c.c)
    bool few;    // C: so few elements that their floats stay in registers
    bool called; // C: sines and cosines are called, not inlined
    int waves;   // C: number of them printed so far
    const char **buf_name;
    Neighbours near;
};

Emit emit_begin(const Kernel *k, const Body *b, bool pretty, bool cuda);
Scope *emit_open(Emit *e, uint64_t axes); // a new innermost scope
void emit_declare_in(Emit *e, Scope *s, const char *name, const char *line);
// The outermost open scope in which all axes have values.
Scope *home_of(const Emit *e, uint64_t axes);
// Drops the declarations of the innermost scope that nothing uses, and the braces of a block at its
// end if it declares no name of the scope. Closing a scope does, too.
void emit_finish(Emit *e);
bool text_uses(const char *text, const char *name); // as a whole word
// Closes the scope: its text is added to the outer one, between the two lines. NULL: no line.
void emit_close(Emit *e, const char *head, const char *tail);
// The same, between the line [head] and "}".
void emit_end(Emit *e, const char *head, ...) __attribute__((format(printf, 2, 3)));
// The same, as the body of an unrolled loop (CUDA); emit_times: of a loop with [n] iterations,
// counted by [name]. If there is only one, it is no loop, and emit_count returns "0" instead of the
// name.
void emit_unrolled(Emit *e, const char *head, ...) __attribute__((format(printf, 2, 3)));
void emit_times(Emit *e, const char *name, int64_t n);
const char *emit_count(const char *name, int64_t n);
// The same, as the body of: for (type name = from; name < end; name += by).
void emit_loop(Emit *e, const char *type, const char *name, const char *from, const char *end,
               int64_t by);
// An unrolled loop of one statement, in which emit_count is used.
void emit_each(Emit *e, const char *name, int64_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Sums, multiples and parts of integers, without operations that have no effect: x + y; x * times;
// x / by % over * times (over 0: without %).
const char *emit_plus(Emit *e, const char *x, const char *y);
const char *emit_scaled(Emit *e, const char *x, int64_t times);
const char *emit_part(Emit *e, const char *x, int64_t by, int64_t over, int64_t times);
// Closes the innermost scope without adding lines. Text added to outer scopes later comes after it.
void emit_settle(Emit *e);
// Conditions, "" if they are always true: x && y; at < end, unless [certain].
const char *emit_and(Emit *e, const char *x, const char *y);
const char *emit_below(Emit *e, const char *at, int64_t end, bool certain);
void emit_if(Emit *e, const char *condition); // closes the innermost scope, as the body of an if
// The position, but at most [last], unless it is [certain] to be no greater.
const char *emit_clamped(Emit *e, const char *at, int64_t last, bool certain);
// The address of an element: "&buf[index]", or "buf".
const char *emit_address(Emit *e, const char *buf, const char *index);
const char *emit_element(Emit *e, int load); // what a load reads: "buf[index]"
const char *emit_place(Emit *e, int load);   // its address
// Formatted in the arena.
const char *emit_text(Emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *emit_number(Emit *e, int64_t n);
const char *int_type(const Emit *e);     // the type of index arithmetic
const char *block_number(const Emit *e); // CUDA: the number of the block in this type
// Adds lines of text to the innermost scope; emit_line: to any open scope.
void emit(Emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Prints const int NAME = ...;, in the type of index arithmetic. The line is dropped if the scope
// turns out not to use the name.
void emit_int(Emit *e, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The same for any line that declares it.
void emit_declare(Emit *e, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void emit_line(Emit *e, Scope *s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void emit_bind(Emit *e, int inst, Scope *s, const char *text);
// The name of the temporary of an instruction, which is printed first if necessary.
const char *emit_value(Emit *e, int inst);
// Adds x to a running sum; r becomes the sum including x or, if exclusive, without it.
void emit_scan(Emit *e, int r, const char *acc, const char *x);
const char *emit_index(Emit *e, const Ix *x);
const char *emit_index_at(Emit *e, const Ix *x, int axis, const char *place); // with [axis] = place
// print_draws.c: what the instruction draws, a KI_RANDOM of this seed and count.
const char *emit_draw(Emit *e, int inst, const char *seed, const char *count);
// Converts from the arithmetic type to the stored type.
const char *emit_stored(Emit *e, DType t, const char *value);
// The instruction whose value is stored: if storing rounds, that before the last rounding.
int emit_unrounded(const Emit *e, const BodyStore *s);
// Prints the stores over the columns of a stage in the innermost scope; -1: the stores of whole
// rows.
void emit_stores(Emit *e, int stage);
void emit_store(Emit *e, const BodyStore *s); // one of them, to memory
const char *emit_scratch(Emit *e, int nth);   // the name of the body's nth scratch buffer
const char *emit_literal(const Emit *e, DType t, int64_t i, double f);

const char *type_storage(DType t);
const char *type_math(DType t);

static inline long long extent_of(const Body *b, int axis) // for printf's %lld
{
    return b->axis[axis].extent;
}

// Whether instruction v depends on the axis.
static inline bool inst_over(const Inst *v, int axis)
{
    return axis >= 0 && (v->axes >> axis & 1);
}
// The reductions over the columns that stage s computes.
const int *stage_reductions(const Emit *e, int stage, int *n);

// -- layout.c -------------------------------------------------------------------------------------
// Appends a line with that indentation, broken where it is too long.
void wrap_line(Buf *out, int indent, const char *text, size_t n);
// Whether a block, of lines with that indentation, declares a name that occurs in [before]; NULL:
// any name.
bool needs_braces(Arena *a, const char *block, int indent, const char *before);
void append_outdented(Buf *out, const char *block); // appends it without its outermost indentation

// -- names and comments (names.c) -----------------------------------------------------------------
const char *name_identifier(Arena *a, const char *model_name); // "h.0.attn" -> "h_0_attn"
const char *kernel_name(const Kernel *k);
void kernel_comment(const Kernel *k, const ProgKernel *p, const Target *t, Buf *out);
void kernel_costs(const Kernel *k, const Target *t, ProgKernel *p); // bytes, flops, floor

#endif
