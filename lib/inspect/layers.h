// The layers of a model: the scopes that hold parameters, nested, and what one execution of the
// forward pass computes in each.
#ifndef LIB_LAYERS_H
#define LIB_LAYERS_H

#include "ir/module.h"

typedef struct Layer Layer;
struct Layer {
    const char *name;   // its own: "h.0", "attn"; a number belongs to the word before it
    Layer *up;          // NULL: the whole model
    VEC(Layer *) below; // in the order of their first parameters
    const Node *out;    // the last value that is read outside of it, or NULL
    int64_t params;     // elements of parameters; like the following, including inner layers
    int64_t frozen, param_bytes;
    int64_t flops;       // a multiplication and an addition of a product count as two, everything
                         // else as one per element
    int64_t activations; // bytes of the values that other layers read
};

// Length of the first name in a path: a word with the number after it, if any ("h.0").
size_t layer_name(const char *path);
// Layers of an entry's graph as elaborated, with all parameters of its module.
Layer *layers_of(Arena *a, const Module *m, const Graph *g);
// Whether the two, including their inner layers, differ only in names.
bool layers_equal(const Layer *x, const Layer *y);

#endif
