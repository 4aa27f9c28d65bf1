// Inside the elaboration of a train block: elab_train.c, elab_sets.c, elab_accumulate.c.
#ifndef FRONTEND_ELAB_TRAIN_H
#define FRONTEND_ELAB_TRAIN_H

#include "frontend/elab.h"

typedef VEC(ECell *) CellList;
typedef VEC(Node *) NodeList;

struct TrainState {
    Frame *frame;
    const Stmt *model;
    EFile *model_file;
    ModelInputs inputs;
    const char *batch;
    int64_t accumulate;
    Val *input;     // the model's inputs, whole
    Seq *first;     // outputs of the first elaboration: what is reported
    uint32_t from;  // elaborations from this one on define the model's parameters
    NodeList seen;  // value of each cell when the model was last elaborated
    NodeList entry; // and before the first
    bool ran, minimized;
    bool open; // a group is open
    Span group;
    bool updating; // an update of the group has run
    CellList set;
    NodeList grad;
};

// elab_train.c
NodeList train_cells(Elab *e); // the value of every cell now
bool is_state(const ECell *c);
Seq *train_model(Elab *e, TrainState *t, Val *inputs); // its outputs, NULL after an error
void train_bind(Elab *e, TrainState *t, const Seq *outputs);
Node *train_loss(Elab *e, const Stmt *minimize);
bool train_choose(Elab *e, TrainState *t, const Stmt *minimize); // fills t->set
// d loss / d p for every parameter of the set, in the current graph.
bool train_gradients(Elab *e, TrainState *t, const Stmt *minimize, Node *loss, NodeList *out);
void train_finite(Elab *e, const Stmt *minimize, Node *loss); // asserts it

// elab_sets.c
CellList train_all(Elab *e, TrainState *t); // the model's parameters that are not frozen
bool train_set(Elab *e, const Expr *x, CellList *out);

// elab_accumulate.c
bool train_accumulated(Elab *e, TrainState *t, const Stmt *minimize);

#endif
