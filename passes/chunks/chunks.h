// Private to the chunks pass. A HEAD is a dot of shape (rows, columns) and what is computed from
// its rows one by one, down to values that are small or summed over the rows.
#ifndef PASSES_CHUNKS_H
#define PASSES_CHUNKS_H

#include "ir/axes.h"
#include "passes/passes.h"

// The role of a node in a head.
typedef enum Part {
    PART_NONE,
    PART_ROWS, // computed in the loop: its first axes are the rows
    PART_SUM,  // computed in the loop: a sum over the rows
} Part;

// How a head reads a node outside of it. A node may be read both by rows and as a whole.
typedef enum Read {
    READ_NOT,
    READ_MADE,  // recomputed in the loop
    READ_TAKEN, // read from memory: sliced (by rows) or captured (whole)
} Read;

typedef struct Head {
    Graph *g;
    Node *seed; // the product
    int64_t rows, cols;
    bool *live;     // by id
    Part *part;     // by id
    Read *by_rows;  // by id: how it is read row by row
    Read *whole;    // by id: how it is read as a whole in every iteration
    int8_t *prefix; // by id, of parts and values read by rows: how many of its first axes are the
                    // rows
    bool *leaves;   // by id: PART_ROWS that is read outside of the head
    const Node *refused_at, *refused_by; // a large value, and its reader outside of the head
} Head;

// Whether the dot begins a head. false: *refused says whether only its readers prevent it.
bool head_find(Head *h, Graph *g, Node *seed, bool *live, bool *refused);
// Whether operand k of a node computed in the loop is read row by row; otherwise it is read as a
// whole.
bool head_reads_rows(const Head *h, const Node *n, uint32_t k);
int head_broadcast_axes(const Head *h, const Node *broadcast); // number of axes of its operand that
                                                               // are rows
// Builds dst: a copy of the graph in which the head is a loop over chunks of this many rows.
Graph *head_build(const Head *h, int64_t each);

#endif
