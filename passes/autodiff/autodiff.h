// Private to automatic differentiation: one reverse sweep over a graph.
#ifndef PASSES_AUTODIFF_H
#define PASSES_AUTODIFF_H

#include "ir/graph.h"

typedef struct Autodiff {
    Arena *arena;
    IdMap augmented; // Graph * -> IdMap *: id of a loop -> id of the loop that replaces it
    IdMap owner;     // region Graph * -> Node * whose region it is
    IdMap parent;    // region Graph * -> Graph * of that node
} Autodiff;

// A sweep visits nodes 0..n of g from the last to the first. Gradient nodes are appended after
// them.
typedef struct Sweep {
    Autodiff *ad;
    Graph *g;
    uint32_t n;
    bool *need;      // by id: lies between the variables and the seeds, and passes gradients on
    bool *asked;     // by id: is a variable, so its complete gradient is needed
    Node **cot;      // by id: sum of the cotangents so far; NULL: zero
    Node ***results; // by id: for region ops with several results, one cotangent per result
} Sweep;

// One application of a rule: the forward node and the cotangent of its value.
typedef struct Rule {
    Sweep *s;
    Graph *g;
    Node *n, *dy;
    Node **dres; // region ops: one cotangent per result (NULL: zero); dy is not used
} Rule;

Sweep sweep_begin(Autodiff *ad, Graph *g, uint32_t n);
void sweep_mark(Sweep *s, Node *const *variables, uint32_t nvariables); // fills need
void sweep_seed(Sweep *s, Node *n, Node *cot);
void sweep_run(Sweep *s);

bool rule_wants(const Rule *r, uint32_t arg);
void rule_give(Rule *r, uint32_t arg, Node *d); // adds d to the operand's cotangent
Node *zeros_like(Graph *g, const Type *t);
// Reports an error: an op with the rule `none` is on the path.
void autodiff_no_gradient(const Sweep *s, const Node *n);

// autodiff_rules.c
void rule_apply(Rule *r);
bool op_passes_gradient(Op op); // false: its rule is `zero`

// autodiff_views.c
Node *autodiff_sum(Graph *g, Node *a, Node *b); // of two cotangents of one value

// autodiff_region.c
void grad_call_region(Rule *r);
void grad_loop_region(Rule *r);

#endif
