// The buffer protocol, found at run time (py.h says why).
#include <dlfcn.h>

#include "python/ext/py.h"

static void *symbol(const char *name)
{
    void *p = dlsym(RTLD_DEFAULT, name);
    if (!p) PyErr_Format(PyExc_ImportError, "netc: this Python has no %s", name);
    return p;
}

bool buffers_find(Buffers *b)
{
    *(void **)&b->check = symbol("PyObject_CheckBuffer");
    *(void **)&b->get = b->check ? symbol("PyObject_GetBuffer") : NULL;
    *(void **)&b->release = b->get ? symbol("PyBuffer_Release") : NULL;
    return b->release != NULL;
}
