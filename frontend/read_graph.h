// Reads the text form of graphs (ir/print.c) back into a Module.
#ifndef FRONTEND_READ_GRAPH_H
#define FRONTEND_READ_GRAPH_H

#include "frontend/ast.h"
#include "ir/module.h"

// Is this file a dump? Then it starts with a module statement.
bool is_graph_dump(const File *file);
// The module a dump describes, with the stage after which it was printed. NULL after an error,
// which is reported. Every graph is rebuilt through graph_node, so what is not a legal graph is
// refused.
Module *read_module(Arena *a, Diags *d, File *file);

#endif
