// Random programs: what they are made of. A Draft is a list of statements; everything that can be
// found out of a statement's operands and raw choices (types, attributes, how large its values may
// be) is found by derive(), so that a draft stays well formed while it is cut down.
#ifndef PROGRAMS_PROGRAMS_H
#define PROGRAMS_PROGRAMS_H

#include "ir/graph.h"
#include "ir/scalar.h"
#include "tests/fuzz/programs/random.h"

enum { MAX_STATEMENTS = 48, MAX_OPERANDS = 4, RAW = 6, SAMPLES = 8, LITERAL = -1, FILLS = 6 };

typedef struct Kind Kind;

typedef struct Statement {
    const Kind *kind;
    Op op;                    // of the kinds that stand for many
    int n, arg[MAX_OPERANDS]; // earlier statements, or LITERAL
    uint32_t raw[RAW];        // choices that derive() makes attributes of
    Type leaf;                // of a leaf: its type
    // Derived:
    Type type;
    double sample[SAMPLES]; // what elements may be, roughly: keeps values within range
    uint64_t smooth;        // statements that a gradient from here reaches, itself one
    bool live, output;
} Statement;

enum SizeClass { SIZE_TINY, SIZE_SMALL, SIZE_ROWS, SIZE_LARGE, SIZE_CLASSES };

typedef struct Draft {
    int number; // within its file: model m<number>
    enum SizeClass size;
    bool wide; // printed with f64 for every float type: the plain path's program
    int n;
    Statement at[MAX_STATEMENTS];
} Draft;

// A draft in the making.
typedef struct Maker {
    Draft *d;
    Random random;
    int ndims;
    int64_t dims[6];        // sizes that axes are made of
    int64_t most;           // elements of a value
    double work, most_work; // element operations so far, and at most
    bool wild;              // infinities and NaN are welcome
} Maker;

struct Kind {
    const char *name;
    int weight;
    // Fills op, arg and raw; may append statements that it needs. false: nothing fits here.
    bool (*choose)(Maker *m, Statement *s);
    // Fills what is derived. false: the operands do not fit.
    bool (*derive)(const Draft *d, Statement *s);
    // The statement as text, named v[number].
    void (*print)(const Draft *d, const Statement *s, Buf *out);
};
extern const Kind kind_input, kind_elementwise;

// -- generate.c -----------------------------------------------------------------------------------
Draft draft_make(uint64_t seed, enum SizeClass size, int number);
// Appends a statement whose operands are set. Its number, or -1: it does not fit or its values
// would leave the range.
int append(Maker *m, const Statement *s);
int append_leaf(Maker *m, DType t, int rank, const int64_t *dim);
int append_op(Maker *m, Op op, int a, int b,
              int c); // elementwise; LITERAL operands: raw[0], raw[1]
int append_cast(Maker *m, int a, DType t);
// Some earlier value that fits, or -1. The newer ones come up more often.
int pick(Maker *m, bool (*fits)(const Statement *s, const void *arg), const void *arg);
int pick_class(Maker *m, DTypeClass c, int least_rank); // makes one where there is none
int64_t some_dim(Maker *m);
double draft_work(const Draft *d, const Statement *s); // element operations it takes, about

// -- draft.c --------------------------------------------------------------------------------------
bool draft_derive(Draft *d); // all of it again; false: it no longer fits
void draft_live(Draft *d);   // what the outputs need; outputs must be chosen
void draft_print(const Draft *d, Buf *out);
extern const char draft_header[]; // what stands at the top of a file of drafts

// -- gradients.c ----------------------------------------------------------------------------------
// Outputs that give one gradient by two ways, a number behind each.
#define TWICE_ONCE  "once"
#define TWICE_AGAIN "again"
// w[number], the gradient v[number] by another way; false: nothing is printed.
bool apart_print(const Draft *d, const Statement *s, Buf *out);

// -- training.c -----------------------------------------------------------------------------------
// A file of its own: model t and how it is trained, with a batch that the devices can divide.
void training_print(uint64_t seed, int devices, Buf *out);

// -- what statements share ------------------------------------------------------------------------

static inline const Statement *operand(const Draft *d, const Statement *s, int i)
{
    return s->arg[i] == LITERAL ? NULL : &d->at[s->arg[i]];
}
static inline DTypeClass class_of(const Statement *s)
{
    return dtype_info[s->type.dtype].class;
}
// Literals, by what stands beside them.
double literal_value(const Statement *s, int i, DType t);
void print_operand(const Draft *d, const Statement *s, int i, Buf *out);
void print_list(const int64_t *v, int n, Buf *out); // [1, 2]
int number_of(const Draft *d, const Statement *s);
void name_of(const Draft *d, const Statement *s, Buf *out);
static inline const char *type_name(const Draft *d, DType t)
{
    return dtype_info[d->wide && dtype_is_float(t) ? DT_F64 : t].name;
}
static inline uint64_t hash_axis(uint32_t choice, int axis) // a seed for choices an axis
{
    return choice * 0x9e3779b97f4a7c15u + (uint64_t)axis * 0xd1b54a32d192ed03u;
}
// Samples of a one-operand statement, and a smooth path through it.
void derive_same(const Draft *d, Statement *s);

#endif
