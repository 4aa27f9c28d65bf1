// The layers of a model: the scopes that hold parameters, nested, and what one execution of the
// forward pass computes in each.
#ifndef LIB_LAYERS_H
#define LIB_LAYERS_H

#include "ir/module.h"

typedef struct Layer Layer;
struct Layer {
    const char *name;   // its own: "h.0", "attn"; a number goes with the word before it
    Layer *up;          // NULL: the whole model
    VEC(Layer *) below; // in the order of their first parameter
    const Node *out;    // the last value that leaves it, or NULL
    int64_t params;     // elements of parameters, those below included, as in all that follows
    int64_t frozen, param_bytes;
    int64_t flops;       // a multiply and an add of a product are two, all else is one an element
    int64_t activations; // bytes of the values that another layer reads
};

// The length of the first name of a path: a word, with the number behind it ("h.0").
size_t layer_name(const char *path);
// Of an entry's graph as it was elaborated, and all parameters of its module.
Layer *layers_of(Arena *a, const Module *m, const Graph *g);
// Whether nothing but the name differs, in them and below.
bool layers_equal(const Layer *x, const Layer *y);

#endif
