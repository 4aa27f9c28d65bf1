// The kernels that the runtime brings as PTX: gated copies and fills, and what it measures with.
#include <string.h>

#include "tests/shim/shim.h"

static bool fill(const Launch *l, size_t each)
{
    void *const *p = l->params;
    char *to = *(char **)p[0];
    const char *from = *(const char **)p[1];
    size_t n = *(size_t *)p[2] * each;
    const uint32_t *gate = *(const uint32_t **)p[3];
    if (!shim_touch(gate, 4, false)) return false;
    if (*gate) return true;
    if (!shim_touch(to, n, true)) return false;
    if (from) {
        shim_filled(to, n, from);
        memmove(to, from, n);
    } else {
        memset(to, 0, n);
    }
    return true;
}

static bool fill_1(const Launch *l)
{
    return fill(l, 1);
}

static bool fill_16(const Launch *l)
{
    return fill(l, 16);
}

static bool take_error(const Launch *l)
{
    enum { RECORD = 32 };
    char *to = *(char **)l->params[0];
    const char *from = *(const char **)l->params[1];
    const int n = *(int *)l->params[2];
    if (!shim_touch(from, (size_t)n * RECORD, false)) return false;
    for (int i = 0; i < n; i++, from += RECORD) {
        if (!*(const uint32_t *)from) continue;
        if (!shim_touch(to, RECORD, true)) return false;
        memcpy(to, from, RECORD);
        ((uint32_t *)to)[1] = (uint32_t)i;
        break;
    }
    return true;
}

// Kernels that wait for those of other devices cannot run here, one after the other: the shim's
// devices say that they have no atomic operations on each other's memory.
static bool trade(const Launch *l)
{
    (void)l;
    return false;
}

// What the runtime measures with, at a speed a GPU could have. The same copy over and over changes
// the shadow once.
static bool copy_wide(const Launch *l)
{
    static const char *to_before, *from_before;
    static size_t bytes_before;
    char *to = *(char **)l->params[0];
    const char *from = *(const char **)l->params[1];
    size_t n = (size_t)l->grid.x * 4 * 4096;
    if (to != to_before || from != from_before || n != bytes_before) {
        if (!shim_touch(to, n, true)) return false;
        shim_filled(to, n, from);
        to_before = to, from_before = from, bytes_before = n;
    }
    memmove(to, from, n);
    shim_clock += 2 * (double)n / 4e12;
    return true;
}

static bool wait_some(const Launch *l)
{
    shim_clock += 1e-9 * (double)*(uint64_t *)l->params[0];
    return true;
}

typedef struct Builtin {
    const char *name;
    bool (*run)(const Launch *l);
    size_t sizes[9];
} Builtin;
static const Builtin builtins[] = {
    {"fill_1", fill_1, {8, 8, 8, 8, 0}},
    {"fill_16", fill_16, {8, 8, 8, 8, 0}},
    {"take_error", take_error, {8, 8, 4, 0}},
    {"trade", trade, {8, 8, 8, 4, 4, 4, 4, 4, 0}},
    {"copy_wide", copy_wide, {8, 8, 0}},
    {"wait", wait_some, {8, 0}},
};

void shim_builtin(CuFunction f)
{
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (!strcmp(f->name, builtins[i].name)) {
            f->builtin = builtins[i].run;
            f->sizes = builtins[i].sizes;
        }
}
