// Statistics of a vector, computed by each row of the matrix that it is multiplied with.
//
// In matmul(rms_norm(x), transpose(w)) of one token the sum of squares is one row, and a kernel of
// its own that everything waits for. Written over all rows of w, it is a sum over the columns that
// the product's kernel goes through anyway: some operations more, a launch less.
#include "passes/vectors.h"

// MOST_ROWS: what all rows recompute must be short compared with a launch.
enum { MOST_NODES = 48, MOST_COLUMNS = 8192, MOST_ROWS = 16384 };

typedef struct Spread {
    Graph *g;
    const SpreadTo *to;
    int64_t cols;
    const Node *seen[MOST_NODES]; // what the vector is computed from, beginning with itself
    Node *made[MOST_NODES];
    bool through[MOST_NODES]; // its operands were visited
    bool cloned[MOST_NODES];  // recomputed for every row; the others are read as they are
    int n;
} Spread;

static int place_of(const Spread *s, const Node *x)
{
    for (int i = 0; i < s->n; i++)
        if (s->seen[i] == x) return i;
    return -1;
}

static bool is_whole(const Spread *s, const Node *x)
{
    return type_count(&x->type) == s->cols;
}

static bool is_sum_of_all(const Spread *s, const Node *x)
{
    return node_class(x) == CLS_REDUCE && x->nargs == 1 && is_whole(s, x->args[0]) &&
           type_count(&x->type) == 1 && x->type.dtype == x->args[0]->type.dtype;
}

// Whether x can be computed over the rows from its operands.
static bool goes_through(const Spread *s, const Node *x)
{
    if (!is_whole(s, x) && type_count(&x->type) != 1) return false;
    if (is_sum_of_all(s, x)) return true;
    if (node_class(x) == CLS_ELEMENTWISE) return !(is_whole(s, x) && node_has(x, OPF_COSTLY));
    return (node_keeps_all(x) || x->op == OP_broadcast) && // in order
           (is_whole(s, x->args[0]) || type_count(&x->args[0]->type) == 1);
}

// Whether x has readers other than the visited nodes and products: then it is stored in any case.
static bool read_elsewhere(const Spread *s, const Node *x)
{
    uint32_t inside = s->to->by_products[x->id];
    for (int i = 0; i < s->n; i++)
        for (uint32_t k = 0; s->through[i] && k < s->seen[i]->nargs; k++)
            inside += s->seen[i]->args[k] == x;
    return s->to->uses[x->id] > inside;
}

// The last of the undecided nodes in program order, so that all readers of a node are decided
// before it; -1: none is left.
static int next_of(const Spread *s, const bool *done)
{
    int last = -1;
    for (int i = 0; i < s->n; i++)
        if (!done[i] && (last < 0 || s->seen[i]->id > s->seen[last]->id)) last = i;
    return last;
}

// Collects the nodes between the vector and stored values. false: too many.
static bool collect(Spread *s, const Node *vector)
{
    bool done[MOST_NODES] = {0};
    s->seen[s->n++] = vector;
    for (int i = 0; i >= 0; i = next_of(s, done)) {
        const Node *x = s->seen[i];
        done[i] = true;
        s->through[i] = goes_through(s, x) && !(i > 0 && is_whole(s, x) && read_elsewhere(s, x));
        for (uint32_t k = 0; s->through[i] && k < x->nargs; k++) {
            if (place_of(s, x->args[k]) >= 0) continue;
            if (s->n == MOST_NODES) return false;
            s->seen[s->n++] = x->args[k];
        }
    }
    return true;
}

// Marks what depends on a sum over the whole vector, and what such a sum adds up. Returns whether
// the vector depends on such a sum, but on none that depends on another: two sums in a row take
// longer than a launch (layer norms of GPT-2, one token on an H100: 273 us instead of 256).
// Operands have lower ids than their readers.
static bool mark(Spread *s)
{
    bool depends[MOST_NODES] = {0}, added[MOST_NODES] = {0};
    int order[MOST_NODES];
    for (int i = 0; i < s->n; i++) { // in ascending order of ids
        int at = i;
        for (; at > 0 && s->seen[order[at - 1]]->id > s->seen[i]->id; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int j = 0; j < s->n; j++) {
        const int i = order[j];
        const Node *x = s->seen[i];
        bool sum = s->through[i] && is_sum_of_all(s, x);
        depends[i] = sum;
        for (uint32_t k = 0; s->through[i] && k < x->nargs; k++) {
            bool below = depends[place_of(s, x->args[k])];
            if (sum && below) return false;
            depends[i] |= below;
        }
    }
    for (int j = s->n; j-- > 0;) {
        const int i = order[j];
        const Node *x = s->seen[i];
        s->cloned[i] = s->through[i] && (depends[i] || added[i]);
        for (uint32_t k = 0; k < x->nargs && s->cloned[i]; k++)
            added[place_of(s, x->args[k])] |= is_sum_of_all(s, x) || added[i];
    }
    return depends[0];
}

// A value with one element as a vector with one element per row.
static Node *each_row(const Spread *s, Node *x)
{
    Type rows = type_make(x->type.dtype, 1, &s->to->rows);
    return graph_broadcast_to(s->g, graph_reshape(s->g, x, 0, NULL), &rows);
}

// x, which has one element or is a whole vector, over rows, or over rows and columns.
static Node *make(Spread *s, const Node *x)
{
    const int at = place_of(s, x);
    Graph *g = s->g;
    const int64_t all[2] = {s->to->rows, s->cols}, dims[2] = {0, 1}, last = 1;
    Type whole = type_make(x->type.dtype, 2, all);
    if (s->made[at]) return s->made[at];
    Node *args[3] = {NULL}, *made;
    graph_stamp(g, x, NULL);
    if (!s->cloned[at]) {
        made = s->to->map[x->id];
        made = is_whole(s, x) ? graph_broadcast_to(g, graph_reshape(g, made, 1, &s->cols), &whole)
                              : each_row(s, made);
        return s->made[at] = made;
    }
    for (uint32_t k = 0; k < x->nargs; k++) args[k] = make(s, x->args[k]);
    if (node_class(x) == CLS_ELEMENTWISE) {
        made = graph_node(g, x->op, args, (int)x->nargs, x->attrs);
    } else if (node_class(x) == CLS_REDUCE) {
        Attrs attrs = attrs_copy(x->attrs);
        attr_set_ints(g, &attrs, ATTR_axes, &last, 1);
        made = graph_node(g, x->op, args, 1, &attrs);
    } else if (is_whole(s, x) && !is_whole(s, x->args[0])) {
        Attrs attrs = {0};
        attr_set_ints(g, &attrs, ATTR_shape, all, 2);
        attr_set_ints(g, &attrs, ATTR_dims, dims, 1);
        made = graph_node(g, OP_broadcast, args, 1, &attrs);
    } else {
        made = args[0];
    }
    return s->made[at] = made;
}

Node *vector_spread(Graph *g, const Node *vector, const SpreadTo *to)
{
    Spread s = {.g = g, .to = to, .cols = type_count(&vector->type)};
    if (s.cols > MOST_COLUMNS || s.cols < 2 || to->rows > MOST_ROWS) return NULL;
    return collect(&s, vector) && mark(&s) ? make(&s, vector) : NULL;
}
