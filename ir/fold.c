// Folding: nodes that need not be made.
#include "ir/door.h"

Node *fold_node(Graph *g, const Infer *in)
{
    (void)g;
    (void)in;
    return NULL;
}
