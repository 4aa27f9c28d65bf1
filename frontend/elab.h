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
    V_POISON, // after an error that was reported
    V_TENSOR, // node
    V_INT,
    V_FLOAT,
    V_BOOL, // weak: they take the type of the tensor they meet
    V_STRING,
    V_LIST,
    V_TUPLE, // seq; a tuple may have names
    V_RANGE, // lo..hi
    V_FN,
    V_DTYPE,
    V_CELL, // a handle: reads as a tensor, can be written with <-
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
    uint64_t weight;    // of elab_limit.c; 0: not counted yet
    const char **names; // NULL: nameless
    const Span *spans;  // what a model's return gives: where each stands; else NULL
} Seq;

struct Val {
    ValKind kind;
    Sym sym;           // V_INT: the dimension variable it came from, or 0
    uint16_t constant; // 1 + index into Elab.constants: the const whose value it is; or 0
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

// A built-in function. params: names separated by spaces, "?" after an optional one; "*" after the
// last: any number of such.
typedef struct Call {
    Span span;     // of the call
    const Expr *x; // or NULL
    Val *arg;      // one a parameter, V_ABSENT where not given
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
    EFile *file;    // where stmt stands
    Val *bound;     // arguments a partial application holds, V_ABSENT where open; NULL: none
    bool evaluated; // its calls are as outside of training: evaluated(f)
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
    const char *path; // computed by scope_path; NULL until asked for
    bool reuse;       // opened by `reuse`: parameters must exist
} Scope;

typedef struct Frame { // a function being elaborated
    struct Frame *up;
    const Stmt *fn; // NULL at top level
    const char *name;
    EFile *file;
    StrMap vars; // name -> Val *
    Scope *scope;
    Loc call; // the chain of calls that led here
    uint32_t id;
    const char *let_name; // the name being defined
    bool returned;
    Val result;
} Frame;

// -- cells ----------------------------------------------------------------------------------------
struct ECell {
    Cell cell;
    uint32_t index; // in order of definition
    Node *cur;      // its value now, in the entry's graph or a region around; NULL: not read yet
    bool written;
    uint32_t writer;     // frame that wrote it
    uint32_t pass;       // Elab.pass then
    uint32_t defined_in; // the elaboration that last defined it
    const char *model;   // the model whose elaboration defined it first
    bool in_model;       // read or written by a model
    Node *init;      // its first value in the init graph, which may read cells; NULL: cell.initial
    Node *first;     // cell.first_batch: its first value in the graph of ENTRY_FIRST_BATCH
    bool in_set;     // of the open minimize, and not updated yet
    uint32_t set_at; // its index in that set
    bool updated;    // by some minimize of the train block
};

// -- regions --------------------------------------------------------------------------------------
typedef struct Region {
    struct Region *up;
    Graph *g;
    VEC(Node *) outer;       // captured values, as nodes of the graph around
    IdMap inner;             // outer node, or cell whose value it is -> the region's parameter
    VEC(Node *) assert_cond; // stacked and asserted outside
    VEC(const char *) assert_text;
    VEC(const char *) emit_name;
    VEC(Node *) emit;
    bool no_cells;        // a function with its own gradient: no parameters inside
    bool loop;            // a loop of the user's: emit is allowed
    bool poisoned;        // something emitted has no value, for a reason that was said
    VEC(ECell *) written; // of a loop of the user's: what a round writes, so that it is carried
    VEC(Node *) before;   // of each: its value around the loop
    Node *round;          // of a loop: the number of the round, from 0; else NULL
    int64_t rounds;
    Frame *frame;         // of a loop of the user's: whose names its body assigns; else NULL
    StrMap own, borrowed; // of it: the names bound inside; those read inside as they were before
} Region;

// -- weights --------------------------------------------------------------------------------------
typedef struct With { // the body of `f(x) with F` reads a parameter p as F(p)
    struct With *up;  // which is F(what the weights around make of p)
    Val fn;
    const char *as; // the name it was given, or NULL
    Span span;
    Graph *g; // where F's nodes are made: once a parameter, for all of the call
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
    VEC(EFile *) files; // files.at[0] is the one compiled
    StrMap by_path;     // path -> EFile *
    StrMap builtins;    // name -> Fn *, of those that were named so far
    EFile *core;        // std/core.net, used by every file
    StrMap defines;     // name -> Val *, evaluated -D and data bindings
    StrMap define_used;
    StrMap sym_index;            // dimension name -> (void *)(index)
    StrMap dims;                 // name -> DimBinding *
    VEC(const Stmt *) constants; // of the user's, as they are evaluated

    Graph *root;         // of the entry being built
    VEC(Graph *) rounds; // of the loops that are closed
    Graph *g;            // root, or the innermost region's
    Graph *init;
    Region *region; // NULL at the root
    Frame *frame;
    With *with;            // of the call being elaborated, or NULL
    uint32_t frames;       // ids handed out
    uint32_t elaborations; // of models so far
    uint32_t elaboration;  // the current one; see ECell.defined_in
    const char *model;     // being elaborated
    int depth;
    const void *stack; // where it began
    int own_gradients; // functions with their own gradient around this place
    int64_t unrolled;

    StrMap cells; // name -> ECell *
    VEC(ECell *) cell_list;
    IdMap checked;   // indices of <- that an assert keeps below the number given
    IdMap std_names; // nodes named by the standard library: a user's name is better
    StrMap texts;    // path -> text of a file of kernels, from the line that names it on
    StrMap sites;    // scope path -> (void *)(draws made there)
    bool training;
    EntryKind kind;
    const char *entry;   // its name
    VEC(Node *) tallied; // what tally(x) gave
    ECell *runs;         // counts the executions of an entry that draws and does not train; or NULL
    TrainState *train;
    uint32_t writes;    // of cells so far
    uint32_t pass;      // `update` statements of the train block so far
    bool replay;        // a model elaborated again in one entry: no second taps or asserts
    bool reads_inputs;  // what is being made in the init graph depends on inputs of the model
    bool first_batch;   // ENTRY_FIRST_BATCH is being elaborated
    bool stopped;       // the text grew beyond all bounds; that was said
    uint32_t sizing;    // the frame in which the size of an axis is evaluated, or 0
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
// What an operation gives, whose nodes are the current graph's from [first] on: a tensor of its own
// even where it is an operand unchanged, as of a cast to the type that it has.
Val val_apart(Elab *e, Val v, uint32_t first);
bool val_missing(const Val *v); // absent or none
// How it would be written, its text at the span where nothing shorter says it: "0",
// "uniform(-0.1, 0.1)" of a function that waits for the shape.
const char *val_source(Elab *e, const Val *v, Span span);
const char *val_text(Elab *e, const Val *v); // "an integer", "a tensor f32[3]", for messages
bool val_is_tensor(const Val *v);            // a tensor or a cell
bool val_is_weak(const Val *v);              // int, float, bool
bool val_number(const Val *v, double *out);  // int or float
bool val_equal(const Val *a, const Val *b);  // compile-time values
// Reports at span and returns poison.
Val fail(Elab *e, Span span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
Diag *error_at(Elab *e, Span span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void at_span(Elab *e, Span span); // the place of the nodes made next
const char *type_text(Elab *e, const Type *t);
Val seq_item(Elab *e, const Val *v, uint32_t i); // of a list, tuple or range
bool seq_length(const Val *v, uint32_t *n);

// elab_limit.c: how large things may become. Each reports.
bool list_fits(Elab *e, uint64_t n, Span span);
bool string_fits(Elab *e, uint64_t bytes, Span span);
Val bounded(Elab *e, Val v, Span span); // v, or poison where it is a list that holds too much
bool out_of_bounds(Elab *e, Span span); // elaboration must stop

// elab_convert.c
// The tensor v stands for, owned by the current graph; NULL after reporting. weak: the type a
// number takes (DT_COUNT: f32 for floats, i64 for integers, bool).
Node *to_tensor(Elab *e, const Val *v, DType weak, Span span);
bool to_int(Elab *e, const Val *v, Span span, const char *what, int64_t *out);
// What a const or a dim holds does not suit: reported where it is defined, once for all its uses.
// text is what is wanted, found what it holds.
void fail_defined(Elab *e, const Stmt *definition, Span use, const char *text, const char *found);
bool to_bool(Elab *e, const Val *v, Span span, const char *what, bool *out);
bool to_axis(Elab *e, const Val *v, Span span, int rank, int *out);
bool to_axes(Elab *e, const Val *v, Span span, int rank, int64_t *axes,
             int *n); // one or a list; ascending
// A list of sizes, or one size. sym may be NULL. Sizes are checked to be positive.
bool to_shape(Elab *e, const Val *v, Span span, Type *out);
bool to_ints(Elab *e, const Val *v, Span span, int64_t *out, int max, int *n);
bool check_size(Elab *e, const Type *t, Span span); // positive, count does not overflow
// Brings operands to one type by the rules of mixing; false after reporting.
bool join_operands(Elab *e, const char *what, Val *v, const Span *span, int n, Node **out, Span at);

// elab_op.c
Val apply_op(Elab *e, Op op, Val *v, const Span *spans, int n, Span at);
Val apply_reduce(Elab *e, Op op, const Call *c);
Val binary_values(Elab *e, BinaryOp op, Val a, Val b, Span sa, Span sb, Span at);

// elab_name.c
Global *global_find(Elab *e, EFile *f, const char *name, Span span, bool report);
Val global_value(Elab *e, Global *g, Span span);
Val name_value(Elab *e, const char *name, Span span);
bool name_try(Elab *e, const char *name, Span span, Val *out); // false when unknown; no report
// Reports it. size: it should be the size of an axis. (elab_unknown.c)
Val name_unknown(Elab *e, const char *name, Span span, bool size);
// How what other libraries call so is written here, as a function or (member) behind a point; or
// NULL.
const char *foreign_name(const char *name, bool member);
void name_bind(Elab *e, const char *name, Val v);
bool name_try_around(Elab *e, const char *name, Span span, Val *out); // but for the function's own
// What a statement assigns: as name_bind, but what a loop read as it was before must be carried.
void name_assign(Elab *e, const char *name, Span span, Val v);
Scope *scope_child(Elab *e, Scope *up, const char *name, bool reuse);
const char *scope_path(Elab *e, Scope *s);                // "" at the root
const char *scope_name_text(Elab *e, const ScopeName *s); // "h.0.attn"; NULL after reporting
Sym sym_of(Elab *e, const char *dim);

// elab_expr.c
Val eval(Elab *e, const Expr *x);
Val eval_named(Elab *e, const Expr *x, const char *name); // defines [name]
Val eval_size(Elab *e, const Expr *x);                    // what stands for an axis of a type
bool eval_type(Elab *e, const TypeExpr *t, Type *out);
bool eval_dtype(Elab *e, const TypeExpr *t, DType *out);
bool eval_bool(Elab *e, const Expr *x, const char *what, bool *out);

// elab_index.c
Val index_value(Elab *e, const Expr *x, Val base);
Val index_update(Elab *e, const Expr *x, Node *base, Val value);

// elab_joint.c
typedef struct Joined { // some axes of a tensor moved together and taken as one
    int axis, rank;     // that one among the result's
    int64_t dim[MAX_RANK];
    int64_t perm[MAX_RANK], back[MAX_RANK], apart[MAX_RANK]; // there and back; as moved
} Joined;
// Of n axes in ascending order: where they stand, or in front where others are between them, as
// NumPy's.
void axes_joined(const Type *t, const int *axis, int n, Joined *out);
Node *join_axes(Elab *e, Node *x, const Joined *j);
Type joined_type(const Type *t, const Joined *j, const Type *index); // of what x[index] reads
// scatter or its kin of values v of that type.
Node *joined_scatter(Elab *e, Op op, Node *x, const Joined *j, Node *index, Node *v);
// The index of axes of these sizes taken as one, whose own indices broadcast. NULL after reporting.
Node *joint_index(Elab *e, Node *const *index, int n, const int64_t *size, Span span);

// elab_with.c
// What the call is made with; NULL where fn is none, or after reporting.
With *with_new(Elab *e, const Expr *fn);
With *with_entry(Elab *e, const Expr *fn);    // for all of an entry, said at the file's top level
Val with_value(Elab *e, ECell *c, Span span); // what the cell is where it is read
// A function that waits, and the name behind it: sgd(lr = 0.1) as slow. false after reporting.
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
// With the function's leading parameters given: what a partial application waits for. scope NULL:
// the name being defined, else the function's own.
Val call_leading(Elab *e, Val callee, const Val *v, uint32_t n, Span span, Scope *scope);
const Sig *fn_signature(Elab *e, const Fn *fn); // what Fn.sig is, of one without
const char *fn_missing(Elab *e, const Fn *fn);  // "'p', 'g'", or NULL when none
// "has 1 of the 2 arguments that it needs: f(x, y)", "still waits for 'x', 'y'", or NULL
const char *fn_lack(Elab *e, const Fn *fn);
// Gives the parameters their arguments, or what they are otherwise, in the frame of the call.
bool fn_bind(Elab *e, const Fn *fn, Val *args, const Span *spans);
Val fn_body(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope);

// elab_builtin.c, elab_shape.c, elab_gather.c
const Builtin *builtin_find(const char *name);
extern const Builtin shape_builtins[], index_builtins[], window_builtins[]; // ended by {0},
extern const Builtin einsum_builtins[];                                     // as is this
Node *tensor_arg(Elab *e, const Call *c, int i);                            // NULL after reporting
Val run_tally(Elab *e, const Call *c);                                      // elab_tally.c
// By node of the entry's graph: is it made of a tally behind the first [from] of them?
bool *tally_reached(Elab *e, uint32_t from);
void tally_keep(Elab *e, const char *entry, const char *output, Node *n); // for the runtime
void builtin_names(Elab *e, const char **out, uint32_t *n, uint32_t max);

// elab_random.c
Val random_bits(Elab *e, const Call *c);

// elab_stmt.c
void exec_block(Elab *e, const Block *b);
void exec(Elab *e, const Stmt *s);

// elab_cell.c
// What stands for n, computed of a model's inputs, in the init graph.
bool cell_of_inputs(Elab *e, Node *n);
Node *cell_stand_in(Elab *e, const Node *n);
ECell *cell_control(Elab *e, const char *name);
ECell *cell_counter(Elab *e, const char *name, const Type *t); // not saved, 0 at first
ECell *cell_setting(Elab *e, const Stmt *s, EFile *f);
Node *cell_read(Elab *e, ECell *c, Span span);
Node *cell_on_entry(Elab *e, const ECell *c); // its value when the entry begins, in the root graph
void cell_set(Elab *e, ECell *c, Node *n);    // its value from here on
// Behind a loop whose rounds wrote it, and before which it was c->cur again: n, which loops around
// carry.
void cell_leaves_loop(Elab *e, ECell *c, Node *n);
void exec_param(Elab *e, const Stmt *s);
void exec_update_cell(Elab *e, const Stmt *s);
Node *control_f32(Elab *e, const char *name, Span span);
void cells_begin_entry(Elab *e);
void cells_assign_roots(Elab *e);
Val path_value(Elab *e, const char *path, Span span); // a cell by path, V_ABSENT when there is none

// elab_region.c
Graph *elab_graph(Elab *e); // a new one, plain
bool graph_owns(const Graph *g, const Node *n);
Node *own(Elab *e, Node *n, Span span);       // in the current graph, captured when from around
Node *own_cell(Elab *e, ECell *c, Span span); // a cell's value, apart from other names of that
// The loops between here and where the cell has its value are to carry it. false: something else is
// between.
bool loops_carry(Elab *e, ECell *c);
// Whether y is made of x, both of the current graph, around the region only, where both come from.
bool region_cuts(Elab *e, Node *y, Node *x);
Region *region_open(Elab *e);
Node *region_param(Elab *e, Region *r, const Type *t);
void region_close(Elab *e, Region *r);
bool region_is_micro(const Region *r); // the loop over micro-batches itself
void region_assert(Elab *e, Node *cond, const char *text);
// What the region's rounds write is carried behind init, and its results come behind those of init.
Node *loop_node(Elab *e, Region *r, int64_t count, Node *const *init, uint32_t ncarried,
                Node *const *scanned, uint32_t nscanned);
void exec_loop(Elab *e, const Stmt *s);
void exec_emit(Elab *e, const Stmt *s);

// frontend.c
// The text of a user's file, named as in [from]; NULL: cannot be read. path: for display.
const char *file_text(Elab *e, const EFile *from, const char *name, size_t *len, const char **path);

// elab_extern.c
// Opens a frame for what stands in the braces of a function with text of the user's own.
void text_frame(Elab *e, const Fn *fn, const Stmt *s, Span call, Scope *scope, Frame *f);
Val call_extern(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope);

// elab_element.c
Val call_element(Elab *e, Fn *fn, Val *args, const Span *spans, Span span, Scope *scope);

// elab_rule.c
// What a function's own gradient gives for an argument of type t: `none` is zeros. NULL: no tensor.
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
bool input_range(Elab *e, const Param *p, ModelInput *in);     // states it in [in], checked
Node *make_input(Elab *e, const ModelInput *in, int64_t rows); // rows > 0 replaces axis 0 of data
// Elaborates a model's body on values for its inputs; the result is a named tuple.
Val model_run(Elab *e, const Stmt *model, EFile *f, Val *inputs, Span span);
void entries_elaborate(Elab *e);
int64_t batch_size(Elab *e, const char *batch);

// elab_forgive.c
typedef struct Before { // where an entry begins that is not run
    uint32_t diags, errors, cells;
} Before;
Before elab_before(const Elab *e);
void elab_forget(Elab *e, const Before *b); // the cells defined since then
// Errors since then become a note of the module, and what was defined is not. false: there were
// some.
bool elab_forgive(Elab *e, const Before *b, const char *name);

// elab_scale.c: loss scaling, where the train entry has it; else values pass through
Node *loss_scaled(Elab *e, Node *loss, Span span);
Node *gradient_unscaled(Elab *e, Node *gradient, Span span);
// The roots of a step that is skipped unless [finite]: what was written is kept as it was.
void scale_commits(Elab *e, Node *finite);

// elab_program.c
typedef struct TrainProgram {
    const Stmt *train, *model; // NULL: the file has none
    EFile *file;               // where the model stands
} TrainProgram;
// The train block that the options ask for. false after reporting what is wrong with one of them.
bool program_choose(Elab *e, TrainProgram *out);
bool program_of(Elab *e, const Stmt *train, TrainProgram *out);
const Stmt *program_evaluate(const Stmt *train); // its `evaluate with`, or NULL

// elab_train.c
typedef struct TrainResult {
    Seq *outputs; // of the model; NULL after an error
    ModelInputs inputs;
    const char *batch;
    int64_t accumulate;
    Node *finite; // losses and gradients are; NULL: nothing is scaled
} TrainResult;
TrainResult train_elaborate(Elab *e, const TrainProgram *p);
bool exec_train_stmt(Elab *e, const Stmt *s); // false: an ordinary statement
Val train_params(Elab *e, const Call *c);     // params(pattern, rank, shape)
Val train_rest(Elab *e, Span span);

#endif
