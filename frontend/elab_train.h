// Internal to the elaboration of a train block: elab_train.c, elab_sets.c, elab_accumulate.c.
#ifndef FRONTEND_ELAB_TRAIN_H
#define FRONTEND_ELAB_TRAIN_H

#include "frontend/elab.h"

typedef VEC(ECell *) CellList;

typedef struct Recomputed { // recompute "pattern"
    const char *pattern;
    Span span;
} Recomputed;

struct TrainState {
    Frame *frame;
    const Stmt *train, *model;
    EFile *model_file;
    ModelInputs inputs;
    const char *batch;
    int64_t accumulate;
    VEC(Recomputed) recomputed;
    Val *input;     // the model's inputs, for the whole batch
    Seq *first;     // outputs of the first elaboration, which are the ones reported
    uint32_t from;  // number of the first elaboration, which defines the model's parameters
    NodeList seen;  // value of each cell when the model was last elaborated
    NodeList entry; // value of each cell before the first elaboration
    bool ran, minimized;
    bool open; // a group is open
    Span group;
    bool updating; // an update of the group has been elaborated
    CellList set;
    NodeList grad;
    Node *finite; // with loss scaling: whether losses and gradients so far are finite
};

// elab_train.c
NodeList train_cells(Elab *e); // the value of every cell now
bool is_state(const ECell *c);
Seq *train_model(Elab *e, TrainState *t, Val *inputs); // its outputs, NULL after an error
void train_bind(Elab *e, TrainState *t, const Seq *outputs);
Node *train_loss(Elab *e, const Stmt *minimize);
bool train_choose(Elab *e, TrainState *t, const Stmt *minimize); // fills t->set
// Takes the gradients of the loss with respect to all parameters of the set, in the current graph.
// With loss scaling they are those of the scaled loss; train_unscale divides t->grad by the scale.
bool train_gradients(Elab *e, TrainState *t, const Stmt *minimize, Node *loss, NodeList *out);

// elab_scale.c
// Requires that value, the loss or [what] of it, is finite: asserts it or, while a smaller loss
// scale may help, skips the step.
void train_finite(Elab *e, TrainState *t, const Stmt *minimize, Node *value, const char *what);
void train_unscale(Elab *e, TrainState *t, const Stmt *minimize);

// elab_sets.c
CellList train_all(Elab *e, TrainState *t); // the model's parameters that are not frozen
bool train_set(Elab *e, const Expr *x, CellList *out);

// elab_accumulate.c
bool train_accumulated(Elab *e, TrainState *t, const Stmt *minimize);

#endif
