// Private to the attention pass.
//
// The SPACE of a softmax is the index space of its scores: batch axes, rows (queries) and columns
// (keys, the axis that the softmax sums over), divided into ATOMS, factors of the axes that no
// reshape on the way splits further. The PLACE of a value says which atoms each of its axes runs
// over. LIFTING a value writes it into a region in canonical form: its axes are its atoms, batch
// first, then rows, then columns; permutes and reshapes are gone, and the only broadcasts are
// operands of elementwise nodes.
#ifndef PASSES_ATTENTION_H
#define PASSES_ATTENTION_H

#include "ir/axes.h"
#include "passes/passes.h"

enum { MOST_ATOMS = MAX_RANK, MOST_FACTORS = 12, MOST_TERMS = 6, MOST_OUTERS = 8 };

typedef struct Space {
    int n; // atoms; the last two are rows and columns
    int64_t size[MOST_ATOMS];
} Space;

typedef struct Place {
    int rank;
    uint8_t start[MAX_RANK + 1]; // axis k runs over atom[start[k]] to atom[start[k + 1] - 1]
    uint8_t atom[MOST_ATOMS];
} Place;

typedef uint32_t AtomSet; // one bit per atom

static inline bool is_rounding(const Node *n) // of a float to another type of floats
{
    return n->op == OP_cast && dtype_is_float(n->type.dtype) &&
           dtype_is_float(n->args[0]->type.dtype);
}
static inline Node *uncast_float(Node *n) // looks through roundings
{
    while (is_rounding(n) || n->op == OP_stop_gradient) n = n->args[0];
    return n;
}

static inline int space_row(const Space *s)
{
    return s->n - 2;
}
static inline int space_col(const Space *s)
{
    return s->n - 1;
}
static inline AtomSet atom_bit(int atom)
{
    return (AtomSet)1 << atom;
}

// attention_space.c. A Split requests that an atom be divided into two.
typedef struct Split {
    int atom;      // -1: none
    int64_t inner; // the size of the second one
} Split;
AtomSet place_atoms(const Place *p);
AtomSet place_axis(const Place *p, int axis);
bool place_equal(const Place *a, const Place *b);
// The place of operand k of n if n has place p; for elementwise ops, broadcasts, permutes and
// reshapes. false: it has none, or (if split->atom >= 0) only after that atom is divided.
bool place_below(const Space *s, const Node *n, const Place *p, uint32_t k, Place *out,
                 Split *split);
// The inverse: the place of n, given the place p of its operand.
bool place_above(const Space *s, const Node *n, const Place *p, Place *out, Split *split);
// The place of the operand of a sum over the columns.
bool place_summed(const Space *s, const Node *sum, const Place *p, Place *out);

// -- lifting (attention_lift.c) -------------------------------------------------------------------

enum { MOST_VIEWS = 24 };

typedef struct Arg { // an operand of a call
    Node *old;       // in the old graph; NULL: see [row]
    int row;         // a value with one element per row: 0 is lse, others are Kernel.rowdots
    int nviews;      // number of views (the last one first) and permutes through which it is stored
    Node *view[MOST_VIEWS];
    DType type; // its type as an operand
    int nperm;
    int64_t perm[MAX_RANK];
} Arg;

typedef struct Lifted {
    Node *n; // NULL: not possible
    AtomSet atoms;
} Lifted;

typedef struct Known {
    const Node *old;
    Place place;
    Lifted v;
    uint32_t next; // next entry with the same hash, as index + 1
} Known;

typedef struct Lift {
    Arena *a;
    Graph *g; // the region under construction
    Space space;
    bool turned; // rows and columns are exchanged: keys are rows
    VEC(Arg) args;
    // The region computes only this many rows, beginning at [start]. NULL: all rows.
    Node *start;
    int64_t part;
    uint32_t first;      // number of parameters before those of [args]
    const bool *outside; // by id: elementwise nodes that are parameters; NULL: none
    IdMap memo;          // hash of node and place -> index in [known], + 1
    VEC(Known) known;
    int depth;
} Lift;

Lift lift_begin(const Graph *src, Graph *region, const Space *s, bool turned);
Lifted lift(Lift *l, Node *n, const Place *p);
Node *lift_arg(Lift *l, const Arg *arg, const Type *t); // the parameter
// v broadcast to these atoms.
Node *lift_to(Lift *l, Lifted v, AtomSet atoms);
Lifted lift_ew(Lift *l, Op op, const Lifted *args, int nargs, const Attrs *attrs);
Lifted lift_number(Lift *l, double v);
// A sum, or an fma, of scores and an additive mask, as a select (attention_mask.c). No node if it
// is something else.
Lifted lift_masked(Lift *l, Op op, const Lifted *args);
// x, whose axes have place p, with its axes in canonical order. The axis [rest] (-1: none) is kept
// and becomes the last one. NULL: it would have too many axes.
Node *lift_canonical(const Lift *l, Node *x, const Place *p, int rest);
// The rows of x that the region computes; x is canonical over these atoms.
Node *lift_rows(const Lift *l, Node *x, AtomSet atoms);
// x, over the atoms [have] and any further axes, broadcast over the atoms [want].
Node *lift_spread(const Lift *l, Node *x, AtomSet have, AtomSet want);

// -- contractions (attention_dot.c) ---------------------------------------------------------------

typedef struct Operand { // an operand of a dot, in terms of the space
    Node *x;             // what the dot reads, except for its type
    DType type;          // the type that the dot reads
    Node *base;          // the value that it is a view of
    double factor;       // x is this factor times the view
    int nviews;
    Node *view[MOST_VIEWS]; // from x down to base, roundings left out
    int64_t rest;           // the axis that is not part of the space: e or n
    Place place;            // of x; the axis [rest] has no atoms
    bool inner;             // [rest] has stride 1 in memory
} Operand;

// Whether the dot n, whose result has place p, multiplies rows by columns over a head dimension.
// Sets its operands; out[0] has the rows.
bool inner_dot(const Space *s, const Node *n, const Place *p, Operand out[2]);
// Whether the dot n, whose operand [side] has place p, sums over columns or rows. Sets the other
// operand, and the place of the result, whose axis *rest comes from that operand.
bool outer_dot(const Space *s, const Node *n, int side, const Place *p, Operand *other,
               Place *result, int *rest, int *over);
// The atoms of p (the place of the dot's result) along which operand [side] varies; it may be
// repeated along others by views. *split: an atom that must be divided.
AtomSet operand_varies(const Space *s, const Node *n, int side, const Place *p, Split *split);
Node *operand_views(Graph *g, const Operand *op, Node *base); // x without its factor, recomputed
                                                              // from the base
void operand_find_base(Operand *op); // sets base, factor and views from x, type and rest
Lifted lift_inner(Lift *l, const Node *n, const Operand op[2]);
Node *lift_operand(Lift *l, const Operand *op, AtomSet atoms); // with the axis [rest] last

// -- sums of products (attention_terms.c) ---------------------------------------------------------

typedef enum FactorKind {
    F_VALUE,
    F_MASK,  // 1 where n holds (if negated: does not hold), otherwise 0, even if other factors are
             // not finite
    F_PROB,  // the softmax: exp(x - lse)
    F_TOTAL, // sum of the exponentials, one value per row
    F_DOT,   // another product of rows and columns
    F_ROWDOT // the sum over n of [op] times the result of the product [outer], one value per row
} FactorKind;

typedef struct Factor {
    FactorKind kind;
    bool negated;
    int power;
    Node *n;
    Place place;
    const Operand *op; // DOT: two; ROWDOT: rows
    int outer;
    const Node *key; // the same for equal factors
    AtomSet atoms;
} Factor;

typedef struct Term {
    double c;
    int n;
    Factor f[MOST_FACTORS];
} Term;

typedef struct Terms {
    int n;
    Term t[MOST_TERMS];
} Terms;

typedef enum OuterKind { OUT_FORWARD, OUT_QUERY, OUT_KEY } OuterKind;

enum { MOST_TAIL = 12, MOST_INNER = 8, MOST_PROBS = 4 };

typedef struct Outer { // a product that sums over scores
    Node *dot;
    int side;    // which operand is the scores
    Place place; // the place of the scores
    Operand other;
    Place result;
    int rest; // the result's axis that comes from the other operand
    OuterKind kind;
    Terms terms;
    Node *tail[MOST_TAIL]; // casts and views that only read each other: the kernel applies them
    int ntail;
    bool divided; // the division by the sum is one of them
} Outer;

typedef struct Kernel Kernel;

typedef struct OddHead { // a head dimension that no kernel takes, but a longer one
    Node *dot;           // NULL: there is none
    int side;            // whose operand has it; -1: it is contracted
    int64_t axis;        // of that operand
    int64_t unit;        // of what the longer one is a multiple
} OddHead;

typedef struct Core { // a softmax of products
    Graph *g;
    Node *e, *sum;
    Place place; // of e
    Space space;
    Split split;            // an atom that must be divided, if requested
    Node *x, *times;        // the scores are x, times [times] if that is not NULL
    Node *prob[MOST_PROBS]; // exponentials that are divided by the sum already
    int nprobs;
    Lift scratch;
    VEC(Terms *) spare; // sums not in use while others are expanded
    IdMap below, hot;   // by id, as far as computed: whether e depends on it (down to [lowest]);
                        // result of core_hot
    uint32_t lowest;
    const bool *outside;     // by id: costly but small, so kernels read it from memory
    Node *inner[MOST_INNER]; // products from which the scores are computed, and others of the same
                             // size
    int ninner;
    Outer outer[MOST_OUTERS];
    int nouters;
    bool planned;  // kernels will compute it
    bool rows;     // the rows are the space's last atom before the columns
    bool few;      // rows may be a batch axis that the columns do not have (heads of a group)
    int64_t parts; // number of parts into which the columns are divided; 0: not divided
    Kernel *lse;   // the kernel that returns the logarithm of each row's sum
    bool refused;
    Unfused why;
    OddHead odd;
} Core;

static inline Node *outer_end(const Outer *o)
{
    return o->ntail ? o->tail[o->ntail - 1] : o->dot;
}

// Expands n, at place p, into a sum of products of probabilities and other factors. false: n has no
// such form, or it is too long.
bool terms_of(Core *c, Node *n, const Place *p, Terms *out);
bool term_push(Term *t, const Factor *f); // multiplies by f; false: too many factors

// A power of the rows' sums, for softmaxes that divide after the dot with the values
// (attention_total.c).
Factor total_factor(const Core *c, int power);
// Whether n, at place p, is the sum of the exponentials, broadcast along the columns.
bool is_total(const Core *c, const Node *n, const Place *p);
// Removes a division by the sum from the operand. Returns the power of the sum that it had, 0 or
// -1.
int operand_total(const Core *c, Operand *op);
// Expands n, at place p, if it is a sum over the head dimension [rest] of the product of a forward
// result and another value, divided by powers of the sum.
bool sum_over_head(Core *c, Node *n, const Place *p, int rest, Term *out);
// Whether the exponential n is e / sum, computed by subtracting the logarithm of the sum in the
// exponent.
bool is_probability(Core *c, Node *n);
bool factor_equal(const Factor *a, const Factor *b);

typedef struct Outside { // values that kernels read from memory, by id
    int64_t count;       // number of scores
    const bool *is;
} Outside;

typedef struct Users {
    Graph *g;
    bool *live;
    uint32_t *first; // by id: index in [user] of its first live user; the results of a region count
                     // as one, NULL
    Node **user;
    VEC(Outside) outside; // those found so far
} Users;

// -- the scores (attention_scores.c) --------------------------------------------------------------

// Values met during a traversal, each with its place.
enum { MOST_SEEN = 512 };
typedef struct Seen {
    Node *n;
    Place place;
} Seen;
// Appends a value unless it is known already. false: no space left.
bool push_seen(Seen *seen, int *count, Node *n, const Place *p);

bool core_space(Core *c); // sets the atoms from the axes of the exponentials, the summed axis last
bool core_split(Core *c); // divides the requested atom; false: it is the rows or the columns
// Finds the products from which the exponent is computed; the first one determines the rows. false:
// there is none.
bool core_products(Core *c, const Users *u);
void core_scores(Core *c); // sets x and times

// -- finding (attention_find.c) -------------------------------------------------------------------

Users users_of(Graph *g);
bool core_refuse(Core *c, UnfusedCause why, const Node *at, int64_t a, int64_t b); // returns false
// The softmax whose sum of exponentials is [sum]. NULL: its scores depend on no dot, or no dot
// reads it.
Core *core_find(Users *u, Node *sum, const PassOptions *o);
// Whether n depends, through elementwise code, views and reductions, on the exponentials or on
// products of their size that the exponentials do not depend on.
bool core_hot(Core *c, const Node *n);

// -- head dimensions (attention_heads.c) ----------------------------------------------------------

// The graph with zeros added to the head dimensions for which cores were refused; NULL: there are
// none.
Graph *attention_heads(Graph *g, Core *const *cores, uint32_t ncores);

// -- kernels (attention_kernel.c) -----------------------------------------------------------------

struct Kernel {
    Core *core;
    OuterKind kind;
    Outer *outer[2]; // one per result
    int nouters;
    bool lse;     // has one more result, the last one: lse
    int64_t rows; // rows per iteration of a loop; 0: a call
    Graph *region;
    VEC(Arg) args;
    VEC(Factor) rowdots; // operands with Arg.row = 1 + index
    Node *lse_made;      // lse in the new graph
};

// Builds the region. false: not possible.
bool kernel_write(Kernel *k);
// Brings a canonical result into the layout of the value in the graph, after the views that the
// kernel applies. A final widening cast is not part of the region.
Node *kernel_views(Graph *g, const Core *c, const Outer *o, Node *x);
// The same if the columns are divided into parts: combines the parts' results.
Node *kernel_joined(Graph *g, const Core *c, const Outer *o, Node *const *result);

// -- parts of the columns (attention_parts.c) -----------------------------------------------------

int64_t attention_parts(const Core *c); // number of parts; 0: not divided
// Reshapes (..., row, column) to (..., part, row, column in the part), likewise (..., column, n).
// axis: that of the columns.
Node *parts_divide(Graph *g, Node *x, int axis, int64_t parts);
Node *parts_undo(Graph *g, Node *x); // reshapes (..., part, row, column) back to (..., row, column)
// The maximum scores, with a finite number instead of -inf, so that exponentials there are 0.
Node *parts_high(Graph *g, Node *high);
Node *parts_spread(Graph *g, Node *x, const Type *to); // broadcast along the axes that follow
// The softmax's product with the values, from those of parts, (..., part, row, n) and (..., part,
// row).
Node *parts_join(Graph *g, Node *sum, Node *high, Node *total);

// -- loops, where there are no such kernels (attention_loop.c) ------------------------------------

// Rows per iteration; 0: the scores are small enough to be computed without a loop.
int64_t loop_rows(const Core *c, OuterKind kind, const PassOptions *o);
// Builds the kernel in g as a loop over chunks of rows. result: indexed like the results of the
// call that it replaces.
void loop_make(Graph *g, Kernel *k, Node *const *args, Node **result);

#endif
