// Options that a caller gives.
#include <string.h>

#include "lib/lib.h"

// More than any options struct of a later version will have: a size that was not set.
enum { LARGEST = 4096 };

netc_status options_take(const char *type, void *own, size_t room, const void *given,
                         netc_error **err)
{
    size_t size;
    if (!given) return NETC_OK;
    memcpy(&size, given, sizeof size); // their first field
    if (size < sizeof size || size > LARGEST)
        return lib_fail(err, NETC_INVALID,
                        "the size of the %s is %zu; declare them with NETC_INIT(%s, NAME), which "
                        "sets it",
                        type, size, type);
    memcpy(own, given, size < room ? size : room);
    return NETC_OK;
}

netc_status options_names(const char *field, const char *const *names, int n, netc_error **err)
{
    if (n < 0)
        return lib_fail(err, NETC_INVALID, "%s: %d is a count, which cannot be negative", field, n);
    for (int i = 0; i < n; i++)
        if (!names || !names[i])
            return lib_fail(err, NETC_INVALID, "%s: number %d of %d is NULL", field, i, n);
    return NETC_OK;
}
