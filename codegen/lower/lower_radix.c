// Radix sort on CUDA of rows too long for shared memory, or of few rows: by digits of up to 8 bits
// of keys in the order of the values (nc_sort_key), from the last digit on. For each digit, blocks
// with a chunk of a row each count the elements of every digit; then they move their elements
// behind those with smaller digits and those of preceding chunks with the same. Elements keep their
// order within a digit, so the sort is stable. What is moved are values and their positions.
// (Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs", 2009.)
#include "codegen/lower/lower.h"
#include "ir/range.h"

enum { PLACES, KEYS = 2, COUNTS = 4 }; // scratch buffers; two of places and of keys by turns
enum { MOST_BITS = 8, WAVES = 2 };

typedef struct Radix {
    LowerCtx *ctx;
    Graph *g;
    const Group *group;
    const Node *n;
    int64_t axis, rows, cols;
    int64_t chunk, chunks; // columns of a block, blocks of a row
    int low, passes, bits; // the first bit of the first digit; digits and their bits
} Radix;

// The bits of a key that differ, from *low on.
static int bits_of(const Node *x, int *low)
{
    const DType t = x->type.dtype;
    *low = t == DT_BF16 ? 16 : t == DT_F16 ? 13 : 0; // as f32, the others are 0 (or a NaN's)
    const int all = t == DT_BF16 || t == DT_F16 ? 32 : dtype_info[t].bits;
    return dtype_is_float(t) ? all - *low : range_bits(x);
}

static int buffer(Lower *l, int which, DType t, int64_t elems, bool read)
{
    const int buf = lower_buf(l, KA_SCRATCH, NULL, t, elems);
    l->body->bufs.at[buf].scratch = which;
    l->body->bufs.at[buf].read = read;
    return buf;
}

static int load(Lower *l, int buf, const Ix *ix, int pred)
{
    return lower_inst(l, (Inst){.kind = KI_LOAD,
                                .type = l->body->bufs.at[buf].type,
                                .buf = buf,
                                .pred = pred,
                                .ix = ix});
}

// What the body of a pass knows of an element.
typedef struct Element {
    const Ix *line, *row, *flat; // the block's chunk; the row; the position in scratch buffers
    const Ix *col;               // in the row
    int own;                     // the axis of the chunk's columns
    int inside, value;           // bool, or -1: always; its value
} Element;

static Element begin(const Radix *r, Lower *l, int pass)
{
    IxCtx *c = l->body->ix;
    Element e = {.inside = -1};
    const int64_t all = r->rows * r->chunks;
    e.line = ix_axis(c, lower_new_axis(l, all), all);
    l->body->npar = 1;
    l->body->serial_cols = true;
    e.own = l->body->col = lower_new_axis(l, r->chunk);
    e.row = ix_div(c, e.line, r->chunks);
    e.col =
        ix_add(c, ix_scale(c, ix_mod(c, e.line, r->chunks), r->chunk), ix_axis(c, e.own, r->chunk));
    e.flat = ix_add(c, ix_scale(c, e.row, r->cols), e.col);
    if (r->cols % r->chunk) {
        const int at = lower_index(l, e.col);
        e.inside = lower_two(l, OP_lt, DT_BOOL, at,
                             lower_const_int(l, l->body->insts.at[at].type, r->cols));
    }
    if (pass) {
        const int keys = buffer(l, KEYS + pass % 2, math_type(r->n->args[0]->type.dtype),
                                r->rows * r->cols, true);
        e.value = load(l, keys, e.flat, e.inside);
    } else {
        const Ix *at[MAX_RANK];
        lower_around(c, &r->n->args[0]->type, r->axis, e.row, e.col, at);
        e.value = lower_value(l, r->n->args[0], at, e.inside);
    }
    return e;
}

// moves: where the element comes to lie in its row; [place], unless -1: its position, which is
// moved with the value. Otherwise: how many elements of the chunk have the digit that is the
// column's number.
static int by_digit(const Radix *r, Lower *l, const Element *e, int pass, int counts, bool moves,
                    int place)
{
    return lower_inst(l, (Inst){.kind = KI_SORT,
                                .type = DT_I32,
                                .acc = l->body->insts.at[e->value].type,
                                .na = place < 0 ? 1 : 2,
                                .a = {e->value, place},
                                .buf = counts,
                                .axis = e->own,
                                .down = attr_int(r->n, ATTR_descending, 0) != 0,
                                .places = moves,
                                .low = r->low + pass * r->bits,
                                .bits = r->bits,
                                .bound = r->cols,
                                .node = r->n});
}

// (The printer leaves out what lies behind a row.)
static bool finish(const Radix *r, Lower *l, BodyList *out)
{
    if (l->failed) return lower_failed(l, r->n);
    lower_finish(l);
    vec_push(r->ctx->arena, out, l->body);
    return true;
}

static bool count(const Radix *r, int pass, BodyList *out)
{
    Lower l = lower_begin(r->ctx, r->g, r->group);
    IxCtx *c = l.body->ix;
    const Element e = begin(r, &l, pass);
    const int64_t digits = 1 << r->bits;
    const int to = buffer(&l, COUNTS, DT_I32, r->rows * r->chunks * digits, false);
    const Ix *digit = ix_mod(c, ix_axis(c, e.own, r->chunk), digits); // (only these are stored)
    lower_store(&l, to, ix_add(c, ix_scale(c, e.line, digits), digit),
                by_digit(r, &l, &e, pass, to, false, -1));
    return finish(r, &l, out);
}

static bool move(const Radix *r, int pass, BodyList *out)
{
    Lower l = lower_begin(r->ctx, r->g, r->group);
    IxCtx *c = l.body->ix;
    const Element e = begin(r, &l, pass);
    const int64_t all = r->rows * r->cols;
    const int counts = buffer(&l, COUNTS, DT_I32, r->rows * r->chunks << r->bits, true);
    int place = -1;
    const bool values = r->n->op == OP_sort, last = pass == r->passes - 1;
    if (!values)
        place = pass ? load(&l, buffer(&l, PLACES + pass % 2, DT_I32, all, true), e.flat, e.inside)
                     : lower_cast(&l, lower_index(&l, e.col), DT_I32, NULL);
    const int v = by_digit(r, &l, &e, pass, counts, true, place);
    const Ix *to = ix_value(c, v, 0, r->cols - 1, l.body->insts.at[v].axes);
    if (last) {
        const Type *t = &r->n->type;
        const Ix *at[MAX_RANK];
        lower_around(c, t, r->axis, e.row, to, at);
        lower_store(&l, lower_buf(&l, KA_NODE, r->n, t->dtype, type_count(t)),
                    ix_linear(c, at, t->dim, t->rank),
                    values ? e.value : lower_cast(&l, place, t->dtype, r->n));
        return finish(r, &l, out);
    }
    const Ix *flat = ix_add(c, ix_scale(c, e.row, r->cols), to);
    const int next = (pass + 1) % 2;
    lower_store(&l, buffer(&l, KEYS + next, math_type(r->n->args[0]->type.dtype), all, false), flat,
                e.value);
    if (!values) lower_store(&l, buffer(&l, PLACES + next, DT_I32, all, false), flat, place);
    return finish(r, &l, out);
}

bool lower_radix(LowerCtx *ctx, Graph *g, const Group *group, const Node *n, BodyList *out)
{
    const Type *t = &n->args[0]->type;
    Radix r = {.ctx = ctx, .g = g, .group = group, .n = n, .axis = attr_int(n, ATTR_axis, 0)};
    r.rows = lower_rows_around(t, r.axis);
    r.cols = t->dim[r.axis];
    const int bits = bits_of(n->args[0], &r.low);
    r.passes = (int)ceil_div(bits, MOST_BITS);
    r.bits = (int)ceil_div(bits, r.passes);
    const int64_t tiles = ceil_div(r.cols, RADIX_TILE), device = WAVES * ctx->target->units,
                  most = r.rows < device ? ceil_div(device, r.rows) : 1;
    r.chunk = RADIX_TILE * ceil_div(tiles, most);
    r.chunks = ceil_div(r.cols, r.chunk);
    for (int pass = 0; pass < r.passes; pass++)
        if (!count(&r, pass, out) || !move(&r, pass, out)) return false;
    return true;
}
