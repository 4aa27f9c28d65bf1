// Internal: the table of cells of one session, or of several that share it.
#ifndef RUNTIME_EXEC_CELLS_H
#define RUNTIME_EXEC_CELLS_H

#include "runtime/exec/exec.h"

RtCells *rt_cells_new(RtDevice *d); // NULL when out of memory
void rt_cells_release(RtCells *c);
// out[i]: the cell for p->cells[i], which is created with its initial value if the name is new.
RtCode rt_cells_attach(RtCells *c, RtStream *stream, const Program *p, RtCell **out, RtError *e);

RtCode rt_cell_memory(RtCells *c, RtCell *x, RtError *e); // for a prepared cell

#endif
