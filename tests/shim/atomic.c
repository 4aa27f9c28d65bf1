// What atomic operations compute; grid.c says what they order.
#include <string.h>

#include "tests/shim/shim.h"

static unsigned long long sign_extended(unsigned long long v, int bytes)
{
    return bytes == 4 ? (unsigned long long)(long long)(int)(unsigned)v : v;
}

bool shim_operate(void *p, int bytes, char op, unsigned long long v, unsigned long long want,
                  unsigned long long *before)
{
    unsigned long long old = 0, r;
    shim_atomic_place(p, (size_t)bytes, op == 'w' || op == '=');
    memcpy(&old, p, (size_t)bytes);
    long long so = (long long)sign_extended(old, bytes), sv = (long long)sign_extended(v, bytes);
    switch (op) {
    case '+': r = old + v; break;
    case '>': r = so > sv ? old : v; break;
    case '<': r = so < sv ? old : v; break;
    case 'g': r = old > v ? old : v; break;
    case 'l': r = old < v ? old : v; break;
    case '&': r = old & v; break;
    case '|': r = old | v; break;
    case '^': r = old ^ v; break;
    case '?': r = old == (bytes == 4 ? (unsigned)want : want) ? v : old; break;
    case 'r': r = old; break;
    default: r = v;
    }
    bool changes = memcmp(&r, &old, (size_t)bytes) != 0;
    memcpy(p, &r, (size_t)bytes);
    *before = old;
    return changes;
}
