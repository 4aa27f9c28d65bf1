#include <stdlib.h>
#include "lib/lib.h"
netc_status netc_check(netc_program *p, int64_t seed, char **report, netc_error **err)
{
    (void)p; (void)seed; *report = NULL;
    return lib_fail(err, NETC_INTERNAL, "check");
}
