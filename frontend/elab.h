// Internals of elaboration, AST -> graphs: compile-time values, scopes, cells, regions. Included
// only by elab*.c and frontend.c.
#ifndef FRONTEND_ELAB_H
#define FRONTEND_ELAB_H

#include "frontend/ast.h"
#include "frontend/frontend.h"

// -- values ---------------------------------------------------------------------------------------
typedef enum ValKind {
    V_ABSENT, // an argument not given
    V_NONE,   // `none`
    V_POISON, // after an error that has been reported
    V_TENSOR, // node
    V_INT,
    V_FLOAT,
    V_BOOL, // V_BOOL, V_INT and V_FLOAT are weak: they take the type of the tensor they are
            // combined with
    V_STRING,
    V_LIST,
    V_TUPLE, // seq; a tuple may have names
    V_RANGE, // lo..hi
    V_FN,
    V_DTYPE,
    V_CELL, // a cell: reads as a tensor, can be written with <-
    V_FILE, // a used file: nn.linear
} ValKind;

typedef struct Elab Elab;
typedef struct Val Val;
typedef struct Fn Fn;
typedef VEC(Node *) NodeList;
typedef struct ECell ECell;
typedef struct EFile EFile;

typedef struct Seq {
    uint32_t n;
    Val *at;
    uint64_t weight;    // see elab_limit.c; 0: not computed yet
    const char **names; // NULL: no names
    const Span *spans;  // where a model returns its results; otherwise NULL
} Seq;

struct Val {
    ValKind kind;
    Sym sym;           // V_INT: the dimension variable with this value, or 0
    uint16_t constant; // 1 + index in Elab.constants of the const with this value, or 0
    union {
        Node *node;
        int64_t i;
        double f;
        bool b;
        const char *s;
        Seq *seq;
        struct {
            int64_t lo, hi;
        } range;
        Fn *fn;
        DType dtype;
        ECell *cell;
        EFile *file;
    };
};

// A built-in function. params: names separated by spaces; "?" marks an optional one, "*" after the
// last means any number of further arguments.
typedef struct Call {
    Span span;     // of the call
    const Expr *x; // or NULL
    Val *arg;      // one per parameter, V_ABSENT if not given
    Span *arg_span;
} Call;
typedef struct Builtin {
    const char *name, *params;
    Val (*run)(Elab *e, const Call *c);
} Builtin;

typedef struct Sig { // the parameters
    int n;
    struct SigParam {
        const char *name;
        bool required;
    } p[];
} Sig;

struct Fn {
    const char *name;
    const Sig *sig;
    const Stmt *stmt;       // a user's function or model, or
    const Builtin *builtin; // a built-in, or
    Op op;                  // an elementwise op or a reduction (is_op)
    bool is_op;
    EFile *file;    // the file of stmt
    Val *bound;     // arguments of a partial application, V_ABSENT if not given; NULL: none
    bool evaluated; // evaluated(f): called as outside of training
};

// -- names ----------------------------------------------------------------------------------------
typedef enum GlobalState { GLOBAL_NEW, GLOBAL_RUNNING, GLOBAL_DONE } GlobalState;
typedef struct Global {
    const Stmt *stmt;
    EFile *file;
    GlobalState state;
    Val value;
} Global;

struct EFile {
    const char *name; // "nn", or the path as used
    File *ast;
    bool library;
    StrMap globals; // name -> Global *
    VEC(EFile *) uses;
};

typedef struct Scope { // of parameter names
    struct Scope *up;
    const char *name;
    const char *path; // computed by scope_path; NULL until then
    bool reuse;       // by `reuse`: its parameters must exist
    bool of_cell;     // named after the parameter that a function of an update or of `with` gets
} Scope;

typedef struct Frame { // a function being elaborated
    struct Frame *up;
    const Stmt *fn; // NULL at top level
    const char *name;
    EFile *file;
    StrMap vars; // name -> Val *
    Scope *scope;
    Loc call; // the calls that led here
    uint32_t id;
    const char *let_name; // the name that is being defined
    bool returned;
    bool gradient; // of the function's own gradient, not of its body
    Val result;
} Frame;

// -- cells ----------------------------------------------------------------------------------------
struct ECell {
    Cell cell;
    uint32_t index; // in order of definition
    Node *cur; // current value, in the graph of the entry or of an enclosing region; NULL: not read
               // yet
    bool written;
    uint32_t writer;         // id of the frame that wrote it
    const struct With *with; // the other weights that the writing call ran with, or NULL
    uint32_t pass;           // Elab.pass when it was written
    uint32_t defined_in;     // the number of the elaboration that last defined it
    const char *model;       // the model whose elaboration first defined it
    bool in_model;           // read or written by a model
    bool of_cell;            // defined in such a scope
    Node *init;  // its initial value in the init graph, which may read cells; NULL: cell.initial
    Node *first; // if cell.first_batch: its initial value in the graph of ENTRY_FIRST_BATCH
    bool in_set; // in the set of the current `minimize`, and not updated yet
    uint32_t set_at; // its index in that set
    bool updated;    // by some minimize of the train block
    bool trained;    // written by a step of the training program
};

// -- regions --------------------------------------------------------------------------------------
typedef struct Region {
    struct Region *up;
    Graph *g;
    VEC(Node *) outer;       // captured values, which are nodes of the enclosing graph
    VEC(ECell *) cell;       // of each the cell whose value it is, or NULL
    VEC(const void *) key;   // of each its key in inner
    IdMap inner;             // outer node, or the cell whose value it is -> the region's parameter
    VEC(Node *) assert_cond; // asserted after the region; of a loop stacked
    VEC(const char *) assert_text;
    VEC(const char *) emit_name;
    VEC(Node *) emit;
    bool no_cells; // a function with its own gradient: parameters cannot be defined inside
    bool asserts;  // of such a function's body: its asserts are results, and asserted by the caller
    bool again;    // elaborated a second time, with its captured values declared
    bool loop;     // a loop in the source: emit is allowed
    bool poisoned; // an emitted value is poison after a reported error
    // Of a loop in the source: cells that an iteration writes, which are carried.
    VEC(ECell *) written;
    VEC(Node *) before; // the value of each outside the loop
    Node *round;        // of a loop: the number of the iteration, from 0; otherwise NULL
    int64_t rounds;
    Frame *frame; // of a loop in the source: the frame with the names that its body assigns;
                  // otherwise NULL
    StrMap own, borrowed; // of a loop in the source: names assigned inside; outer names read inside
} Region;

// -- weights --------------------------------------------------------------------------------------
typedef struct With { // inside `f(x) with F`, each parameter p is read as F(p)
    struct With *up;  // the enclosing `with`, whose result F is applied to
    Val fn;
    const char *as; // the name in `as NAME`, or NULL
    Span span;
    Graph *g; // the graph of F's nodes, which are created once per parameter and call
    Region *region;
    IdMap values; // ECell -> Val *
} With;

// -- the elaborator -------------------------------------------------------------------------------
typedef struct TrainState TrainState;

struct Elab {
    Arena *arena;
    Diags *diags;
    Module *module;
    const FrontendOptions *options;
    VEC(EFile *) files; // files.at[0] is the one that is compiled
    StrMap by_path;     // path -> EFile *
    StrMap builtins;    // name -> Fn *, of those used so far
    EFile *core;        // std/core.net, used by every file
    StrMap defines;     // name -> Val *: values of -D and of data bindings
    StrMap define_used;
    StrMap sym_index;            // dimension name -> (void *)(index)
    StrMap dims;                 // name -> DimBinding *
    VEC(const Stmt *) constants; // the consts of the user's files, in order of evaluation

    Graph *root;         // of the entry being built
    VEC(Graph *) rounds; // graphs of loops that are finished
    Graph *g;            // root, or the innermost region's
    Graph *init;
    Region *region; // NULL at the root
    Frame *frame;
    With *with;            // of the current call, or NULL
    uint32_t frames;       // number of frame ids given out
    uint32_t elaborations; // number of elaborations of models so far
    uint32_t elaboration;  // the current one; see ECell.defined_in
    const char *model;     // the model being elaborated
    int depth;
    const void *stack; // stack address when elaboration began
    int own_gradients; // number of enclosing functions with their own gradient
    int64_t unrolled;

    StrMap cells; // name -> ECell *
    VEC(ECell *) cell_list;
    IdMap checked;   // index of <- -> the bound below which an assert keeps it
    IdMap std_names; // nodes named by the standard library; a name given by the user replaces
                     // theirs
    StrMap texts;    // path -> text of a kernel file, with a first line that names the file
    StrMap sites;    // scope path -> (void *)(number of random draws in it)
    bool training;
    EntryKind kind;
    const char *entry;   // name of the entry
    VEC(Node *) tallied; // the results of tally(x)
    // Counts executions of an entry that draws random numbers and does not train; otherwise NULL.
    ECell *runs;
    TrainState *train;
    uint32_t writes;    // number of writes of cells so far
    uint32_t effects;   // number of statements so far that do more than give values
    uint32_t pass;      // `update` statements of the train block so far
    bool replay;        // a model is elaborated again for the same entry: taps and asserts are not
                        // repeated
    bool reads_inputs;  // the current init value depends on inputs of the model
    bool first_batch;   // ENTRY_FIRST_BATCH is being elaborated
    bool stopped;       // a limit of elab_limit.c was exceeded, which has been reported
    size_t before;      // bytes of the arena when elaboration began
    uint32_t sizing;    // id of the frame in which an axis size is evaluated, or 0
    bool allow_unbound; // frontend_decls: an unbound dimension is not an error
};

// elab_value.c
Val val_node(Node *n);
Val val_int(int64_t i);
Val val_float(double f);
Val val_bool(bool b);
Val val_string(const char *s);
Val val_poison(void);
Val val_none(void);
Val val_seq(Elab *e, ValKind kind, uint32_t n);
Val val_cell(ECell *c);
// The result of an operation that created the nodes of the current graph from [first] on. It gets a
// node of its own even if it is an unchanged operand, as after a cast to the same type.
Val val_apart(Elab *e, Val v, uint32_t first);
bool val_missing(const Val *v); // absent or none
// The value as source text: "0", or "uniform(-0.1, 0.1)" for a function that still needs a shape;
// otherwise the text at the span.
const char *val_source(Elab *e, const Val *v, Span span);
const char *val_text(Elab *e, const Val *v); // "an integer", "a tensor f32[3]", for messages
bool val_is_tensor(const Val *v);            // a tensor or a cell
bool val_is_weak(const Val *v);              // int, float, bool
bool val_number(const Val *v, double *out);  // int or float
bool val_equal(const Val *a, const Val *b);  // compile-time values
// Reports at span and returns poison.
Val fail(Elab *e, Span span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
Diag *error_at(Elab *e, Span span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void at_span(Elab *e, Span span); // sets the source place of the nodes created next
const char *type_text(Elab *e, const Type *t);
Val seq_item(Elab *e, const Val *v, uint32_t i); // of a list, tuple or range
bool seq_length(const Val *v, uint32_t *n);

// elab_limit.c: limits on sizes. Each function reports the error.
bool list_fits(Elab *e, uint64_t n, Span span);
bool string_fits(Elab *e, uint64_t bytes, Span span);
Val bounded(Elab *e, Val v, Span span); // v, or poison if it is a list that is too large
bool out_of_bounds(Elab *e, Span span); // whether elaboration must stop

// elab_convert.c
// v as a tensor of the current graph; NULL after reporting an error. weak: the type that a number
// gets (DT_COUNT: f32 for floats, i64 for integers, bool for bools).
Node *to_tensor(Elab *e, const Val *v, DType weak, Span span);
bool int_fits(DType t, int64_t v); // true for floats
bool to_int(Elab *e, const Val *v, Span span, const char *what, int64_t *out);
// Reports, once and at its definition, that the value of a const or a dim is not suitable. text:
// what is expected; found: its value.
void fail_defined(Elab *e, const Stmt *definition, Span use, const char *text, const char *found);
bool to_bool(Elab *e, const Val *v, Span span, const char *what, bool *out);
bool to_axis(Elab *e, const Val *v, Span span, int rank, int *out);
bool to_axes(Elab *e, const Val *v, Span span, int rank, int64_t *axes,
             int *n); // one integer or a list; ascending
// A list of sizes, or one size. sym may be NULL. Checks that sizes are positive.
bool to_shape(Elab *e, const Val *v, Span span, Type *out);
bool to_ints(Elab *e, const Val *v, Span span, int64_t *out, int max, int *n);
bool check_size(Elab *e, const Type *t, Span span); // sizes are positive, and their product does
                                                    // not overflow
// Converts operands to a common type by the language's rules; false after reporting an error.
bool join_operands(Elab *e, const char *what, Val *v, const Span *span, int n, Node **out, Span at);

// elab_op.c
Val apply_op(Elab *e, Op op, Val *v, const Span *spans, int n, Span at);
Val apply_reduce(Elab *e, Op op, const Call *c);
Val binary_values(Elab *e, BinaryOp op, Val a, Val b, Span sa, Span sb, Span at);

// elab_name.c
Global *global_find(Elab *e, EFile *f, const char *name, Span span, bool report);
Val global_value(Elab *e, Global *g, Span span);
Val name_value(Elab *e, const char *name, Span span);
bool name_try(Elab *e, const char *name, Span span, Val *out); // false: unknown; not reported
// Reports an unknown name. size: it was used as the size of an axis. (elab_unknown.c)
Val name_unknown(Elab *e, const char *name, Span span, bool size);
// The name in this language of what other libraries call [name], a function or a member; or NULL.
const char *foreign_name(const char *name, bool member);
void name_bind(Elab *e, const char *name, Val v);
// The same, but without the names of the function's own frame.
bool name_try_around(Elab *e, const char *name, Span span, Val *out);
// Assignment by a statement: like name_bind, but a name whose outer value a loop has read must be
// carried.
void name_assign(Elab *e, const char *name, Span span, Val v);
Scope *scope_child(Elab *e, Scope *up, const char *name, bool reuse);
const char *scope_path(Elab *e, Scope *s);                // "" at the root
const char *scope_name_text(Elab *e, const ScopeName *s); // "h.0.attn"; NULL after reporting
Sym sym_of(Elab *e, const char *dim);

// elab_expr.c
Val eval(Elab *e, const Expr *x);
Val eval_named(Elab *e, const Expr *x, const char *name); // an expression whose value gets [name]
Val eval_size(Elab *e, const Expr *x);                    // the size of an axis in a type
bool eval_type(Elab *e, const TypeExpr *t, Type *out);
bool eval_dtype(Elab *e, const TypeExpr *t, DType *out);
bool eval_bool(Elab *e, const Expr *x, const char *what, bool *out);

// elab_index.c
// Of an index of an axis, what is known while compiling, an integer or those of lists: negative
// ones become places counted from the begin. False after reporting one outside of the axis.
bool index_known(Elab *e, Val *v, int64_t size, int axis, Span span);
Val index_value(Elab *e, const Expr *x, Val base);
Val index_update(Elab *e, const Expr *x, Node *base, Val value);

// elab_joint.c
typedef struct Joined { // some axes of a tensor, moved together and merged into one
    int axis, rank;     // the position of the merged axis in the result, and the rank of the result
    int64_t dim[MAX_RANK];
    // The permutation and its inverse, and the sizes after it.
    int64_t perm[MAX_RANK], back[MAX_RANK], apart[MAX_RANK];
} Joined;
// Merges n axes, given in ascending order. The merged axis is at their position if they are
// adjacent, otherwise at the front, as in NumPy.
void axes_joined(const Type *t, const int *axis, int n, Joined *out);
Node *join_axes(Elab *e, Node *x, const Joined *j);
Type joined_type(const Type *t, const Joined *j, const Type *index); // the type of x[index]
// scatter or a variant of it with values v, which have the type of x[index].
Node *joined_scatter(Elab *e, Op op, Node *x, const Joined *j, Node *index, Node *v);
// Computes the index into the merged axis from those of the axes, which have these sizes. The
// indices broadcast. NULL after reporting an error.
Node *joint_index(Elab *e, Node *const *index, int n, const int64_t *size, Span span);

// elab_with.c
// The With for a call; NULL if fn is `none`, or after reporting an error.
With *with_new(Elab *e, const Expr *fn);
With *with_entry(Elab *e, const Expr *fn); // for a whole entry, evaluated at the file's top level
Val with_value(Elab *e, ECell *c, Span span); // the value as which the cell is read
// Notes that evaluations read states in place of trained parameters which training never changes.
void with_tell_untrained(Elab *e, const With *w);
// Evaluates a function that still needs arguments, and its name: sgd(lr = 0.1) as slow. false after
// reporting an error.
bool eval_waiting(Elab *e, const Expr *x, Val *fn, const char **as);

// elab_call.c
typedef struct CallSite { // call(…) as scope, reuse scope, with F
    const Expr *call, *with;
    const ScopeName *scope;
    bool reuse;
} CallSite;
Val call_expr(Elab *e, const CallSite *at);
typedef struct Arg {
    const char *name; // or NULL
    Span span, name_span;
    Val v;
} Arg;
// Calls a function (or partial application) with values for its first parameters. scope NULL: that
// of the name being defined, otherwise that of the function's name.
Val call_leading(Elab *e, Val callee, const Val *v, uint32_t n, Span span, Scope *scope);
const Sig *fn_signature(Elab *e, const Fn *fn); // Fn.sig; computed on first use
const char *fn_missing(Elab *e, const Fn *fn);  // "'p', 'g'": required parameters without
                                                // arguments; NULL: none
// "has 1 of the 2 arguments that it needs: f(x, y)", "still needs 'x', 'y'", or NULL.
const char *fn_lack(Elab *e, const Fn *fn);
// Binds the parameters to their arguments or defaults, in the frame of the call.
bool fn_bind(Elab *e, const Fn *fn, Val *args, const Span *spans);
Val fn_body(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope);

// elab_builtin.c, elab_shape.c, elab_gather.c
const Builtin *builtin_find(const char *name);
extern const Builtin shape_builtins[], index_builtins[], window_builtins[]; // ended by {0},
extern const Builtin einsum_builtins[];                                     // like this one
Node *tensor_arg(Elab *e, const Call *c, int i);                            // NULL after reporting
Val run_tally(Elab *e, const Call *c);                                      // elab_tally.c
// By node of the entry's graph: whether it depends on a tally, not counting the first [from]
// tallies.
bool *tally_reached(Elab *e, uint32_t from);
void tally_keep(Elab *e, const char *entry, const char *output, Node *n); // creates a cell for the
                                                                          // runtime
void builtin_names(Elab *e, const char **out, uint32_t *n, uint32_t max);

// elab_random.c
Val random_bits(Elab *e, const Call *c);

// elab_stmt.c
void exec_block(Elab *e, const Block *b);
void exec(Elab *e, const Stmt *s);

// elab_cell.c
// cell_of_inputs: whether n is computed from a model's inputs. cell_stand_in: a node of the same
// type in the init graph that represents it.
bool cell_of_inputs(Elab *e, Node *n);
Node *cell_stand_in(Elab *e, const Node *n);
ECell *cell_control(Elab *e, const char *name);
ECell *cell_counter(Elab *e, const char *name, const Type *t); // not saved, initially 0
ECell *cell_setting(Elab *e, const Stmt *s, EFile *f);
Node *cell_read(Elab *e, ECell *c, Span span);
// The value of the cell at the beginning of the entry, in the root graph.
Node *cell_on_entry(Elab *e, const ECell *c);
void cell_set(Elab *e, ECell *c, Node *n); // sets its current value
// A value n that is written to the cell `name`, or to a part of one (NULL), of type t: of its
// element type. Floats are cast, others are an error, for which it returns NULL.
Node *stored_as(Elab *e, Node *n, const Type *t, const char *name, Span span);
// Sets the value of a cell to n after a loop whose iterations wrote it (c->cur is its value before
// the loop). Enclosing loops carry it, too.
void cell_leaves_loop(Elab *e, ECell *c, Node *n);
void exec_param(Elab *e, const Stmt *s);
void exec_update_cell(Elab *e, const Stmt *s);
Node *control_f32(Elab *e, const char *name, Span span);
void cells_begin_entry(Elab *e);
void cells_assign_roots(Elab *e);
// A cell by its path; V_ABSENT if there is none.
Val path_value(Elab *e, const char *path, Span span);

// elab_region.c
Graph *elab_graph(Elab *e); // a new plain graph
bool graph_owns(const Graph *g, const Node *n);
// n as a node of the current graph; captured if it belongs to an enclosing one.
Node *own(Elab *e, Node *n, Span span);
Node *own_cell(Elab *e, ECell *c, Span span); // the value of a cell; not shared with equal values
// Makes the loops between the current graph and that of the cell's value carry the cell. false: one
// of the regions between is not a loop.
bool loops_carry(Elab *e, ECell *c);
// What n, a value in the graph of r, is outside of the regions that capture it.
const Node *region_origin(const Region *r, const Node *n);
// Whether y depends on x, both of the current graph, but only through the enclosing graphs.
bool region_cuts(Elab *e, Node *y, Node *x);
Region *region_open(Elab *e);
Node *region_param(Elab *e, Region *r, const Type *t);
void region_close(Elab *e, Region *r);
bool region_is_micro(const Region *r); // whether it is the loop over micro-batches
void region_assert(Elab *e, Node *cond, const char *text);

// elab_loop.c
// Creates the loop. Cells that its iterations write are carried after [init]; their results follow
// those of [init]. runs: which of [init] says whether an iteration takes place; -1: all do.
Node *loop_node(Elab *e, Region *r, int64_t count, Node *const *init, uint32_t ncarried,
                Node *const *scanned, uint32_t nscanned, int runs);
void exec_loop(Elab *e, const Stmt *s);
void exec_emit(Elab *e, const Stmt *s);

// frontend.c
// The text of a user's file that the file [from] names; NULL if it cannot be read. path: for
// messages.
const char *file_text(Elab *e, const EFile *from, const char *name, size_t *len, const char **path);

// elab_extern.c
// Opens a frame for the statements in the braces of a user-written kernel or elementwise function.
void text_frame(Elab *e, const Fn *fn, const Stmt *s, Span call, Scope *scope, Frame *f);
Val call_extern(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope);

// elab_element.c
Val call_element(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope);

// elab_rule.c
// The result of a function's own gradient for an argument of type t; `none` becomes zeros. NULL: it
// is not a tensor.
Node *own_gradient(Elab *e, const Val *v, const Type *t, Span span);
Val call_with_gradient(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope);

// elab_entry.c
typedef struct ModelInput {
    const char *name;
    Type type;
    bool data;
    bool has_range;
    int64_t low, high;
    Span span;
} ModelInput;
typedef VEC(ModelInput) ModelInputs;
bool model_inputs(Elab *e, const Stmt *model, EFile *f, ModelInputs *out, const char **batch);
bool input_range(Elab *e, const Param *p, ModelInput *in); // evaluates and checks the range in [in]
Node *make_input(Elab *e, const ModelInput *in, int64_t rows); // rows > 0: replaces axis 0 of data
                                                               // inputs
// Elaborates the body of a model with these values for its inputs. The result is a tuple with
// names.
Val model_run(Elab *e, const Stmt *model, EFile *f, Val *inputs, Span span);
void entries_elaborate(Elab *e);
int64_t batch_size(Elab *e, const char *batch);
bool entry_wanted(const Elab *e, const char *name); // whether it is among those to compile

// elab_forgive.c
typedef struct Before { // the state before the elaboration of an entry that is not run
    uint32_t diags, errors, cells;
} Before;
Before elab_before(const Elab *e);
void elab_forget(Elab *e, const Before *b); // removes the cells defined since then
// If there were errors since [b]: replaces them by a note of the module, removes what was defined,
// and returns false.
bool elab_forgive(Elab *e, const Before *b, const char *name);

// elab_scale.c: loss scaling, if the train entry uses it; otherwise values are unchanged.
Node *loss_scaled(Elab *e, Node *loss, Span span);
Node *gradient_unscaled(Elab *e, Node *gradient, Span span);
// Creates the roots of a step: if [finite] is false, cells keep their values.
void scale_commits(Elab *e, Node *finite);

// elab_program.c
typedef struct TrainProgram {
    const Stmt *train, *model; // NULL: the file has none
    EFile *file;               // the model's file
} TrainProgram;
// Selects the train block that the options name. false after reporting an error.
bool program_choose(Elab *e, TrainProgram *out);
bool program_of(Elab *e, const Stmt *train, TrainProgram *out);
const Stmt *program_evaluate(const Stmt *train); // the expression of its `evaluate with`, or NULL

// elab_train.c
typedef struct TrainResult {
    Seq *outputs; // of the model; NULL after an error
    ModelInputs inputs;
    const char *batch;
    int64_t accumulate;
    Node *finite; // whether losses and gradients are finite; NULL: no loss scaling
} TrainResult;
TrainResult train_elaborate(Elab *e, const TrainProgram *p);
bool exec_train_stmt(Elab *e, const Stmt *s); // false: an ordinary statement
Val train_params(Elab *e, const Call *c);     // params(pattern, rank, shape)
Val train_rest(Elab *e, Span span);

#endif
