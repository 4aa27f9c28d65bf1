// Products that the matmul library may compute, and when a generated kernel is a second candidate.
#ifndef CODEGEN_GEMM_H
#define CODEGEN_GEMM_H

#include "codegen/kernel.h"
#include "ir/strides.h"

typedef struct GemmFrom { // the context of a product
    const Graph *graph;
    const Entry *entry;
    const Target *target;
    bool tf32; // f32 products may use tensor cores
} GemmFrom;

typedef struct GemmOperand { // a stored node with strides
    const Node *stored;
    Strides s;
} GemmOperand;

typedef struct GemmMatch {
    ProgGemm gemm;
    GemmOperand a, b;
    const Node *bias, *residual, *aux, *out; // aux: read, or stored in addition to out
} GemmMatch;

// -- gemm.c: the library call that computes the group's contraction and its epilogue. false: there
// is none.
bool gemm_match(const GemmFrom *f, const Group *gr, GemmMatch *m);
// Whether the library computes it; otherwise it is lowered.
bool gemm_possible(const GemmFrom *f, const Group *gr);

// The stored node that n is a view of, in terms of strides. false: there is none, or not in these
// terms.
bool gemm_operand(const GemmFrom *f, const Node *n, GemmOperand *out);

// -- convolution.c: a contraction with windows in images as a convolution by a library
typedef struct ConvMatch {
    ProgGemm gemm;
    const Node *a, *b; // stored
    // The group stores the image's pixels class by class: those whose position along an axis leaves
    // the same remainder modulo the step. So many of each class along an axis, also beyond the end
    // of the image, where they are zeros. The library stores them in their order.
    bool classes;
    int64_t of_class[PROG_MAX_IMAGE_AXES];
} ConvMatch;
// false: it is none that the library computes with results of the type that the dot has, or that
// the group stores if it only rounds them. [stored]: whether the library's result is what the group
// stores; otherwise it is the dot's, and the rest of the group follows.
bool conv_match(const GemmFrom *f, const Group *gr, ConvMatch *m, bool *stored);

// -- candidate.c: whether the library may be unable to compute this product on some device (16-bit
// rows that are no multiple of 16 bytes, epilogues beyond a bias and a ReLU); whether it takes so
// long that a second candidate may pay; whether this kernel may be faster.
bool candidate_may_be_needed(const Target *t, const ProgGemm *g);
bool candidate_may_pay(const Target *t, const ProgGemm *g);
bool candidate_may_win(const Target *t, const LoweredKernel *k);
// Whether a convolution takes long enough for a library to be tried instead of the kernel.
bool candidate_convolution(const Target *t, const ProgGemm *g);

#endif
