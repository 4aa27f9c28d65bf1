// The parts of model.c that creating a model needs.
#ifndef NETC_PY_MODEL_H
#define NETC_PY_MODEL_H

#include "python/ext/py.h"

Model *model_new(State *s, PyObject *class, Model *parent); // NULL: an exception is set
// Hooks of the context; user: the model.
void model_log(void *user, const char *line);
bool model_cancelled(void *user);
#endif
