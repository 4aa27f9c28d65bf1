// Reads the text form of graphs (ir/print.c) back into a Module.
#ifndef FRONTEND_READ_GRAPH_H
#define FRONTEND_READ_GRAPH_H

#include "frontend/ast.h"
#include "ir/module.h"

// Whether this file is the text form of graphs: it then starts with a module statement.
bool is_graph_dump(const File *file);
// Reads the module, with the stage after which it was printed. NULL after an error, which is
// reported. Every graph is built through graph_node, so an illegal graph is refused.
Module *read_module(Arena *a, Diags *d, File *file);

#endif
