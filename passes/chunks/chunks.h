// Private to the chunks pass: a HEAD is a product (rows, columns) and what is made of each of its
// rows by itself, down to values that are small or sums over the rows.
#ifndef PASSES_CHUNKS_H
#define PASSES_CHUNKS_H

#include "ir/axes.h"
#include "passes/passes.h"

// What a node of the graph is to a head.
typedef enum Part {
    PART_NONE,
    PART_ROWS, // in the loop: its first axes are the rows
    PART_SUM,  // in the loop: a sum over the rows
} Part;

// How a node that is not of the head is read by it. A node may be read both ways.
typedef enum Read {
    READ_NOT,
    READ_MADE,  // computed again in the loop
    READ_TAKEN, // what is stored: by slices (as rows), or where it lies (whole)
} Read;

typedef struct Head {
    Graph *g;
    Node *seed; // the product
    int64_t rows, cols;
    bool *live;     // by node: something needs it
    Part *part;     // by node
    Read *by_rows;  // by node: read row by row
    Read *whole;    // ... all of it in every round
    int8_t *prefix; // by node: how many of its first axes are the rows; of parts and of by_rows
    bool *leaves;   // by node: PART_ROWS that others read
    const Node *refused_at, *refused_by; // what is too large to leave, and its reader
} Head;

// Whether the product begins a head. false: *refused says whether it is one but for what reads it.
bool head_find(Head *h, Graph *g, Node *seed, bool *live, bool *refused);
// Whether operand k of a part, or of what is made in the loop, is read row by row; else whole.
bool head_reads_rows(const Head *h, const Node *n, uint32_t k);
int head_spread_axes(const Head *h, const Node *broadcast); // of its operand: those that are rows
// dst: a copy of the graph in which the head is a loop, so many rows a round.
Graph *head_build(const Head *h, int64_t each);

#endif
