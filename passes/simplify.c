// What one node at a time cannot see: dead code.
//
// Requires: gradients expanded. Keeps: every value. Breaks: nothing.
#include "passes/passes.h"

Graph *pass_simplify(Graph *g, Module *m, const PassOptions *o)
{
    (void)m;
    (void)o;
    return graph_copy_live(g);
}
