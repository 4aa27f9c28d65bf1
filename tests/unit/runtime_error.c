// rt_fail: the first error wins, with its code and its text; what does not fit is cut.
#include <string.h>

#include "runtime/device.h"
#include "tests/unit/unit.h"

static char line[2048];
static void keep(void *ctx, const char *text)
{
    (void)ctx;
    snprintf(line, sizeof line, "%s", text);
}

int main(void)
{
    RtError e = {0};
    CHECK(rt_fail(&e, RT_ENV, "no %s", "disk") == RT_ENV);
    CHECK(e.code == RT_ENV && !strcmp(e.text, "no disk"));
    // What fails on the way out does not replace it: the code returned is the error's own.
    CHECK(rt_fail(&e, RT_OOM, "out of memory") == RT_ENV);
    CHECK(e.code == RT_ENV && !strcmp(e.text, "no disk"));
    CHECK(rt_fail(NULL, RT_USER, "nobody asks") == RT_USER);
    static char longer[sizeof e.text + 500];
    memset(longer, 'x', sizeof longer - 1);
    RtError cut = {0};
    CHECK(rt_fail(&cut, RT_USER, "%s", longer) == RT_USER &&
          strlen(cut.text) == sizeof cut.text - 1);
    RtCompileOptions o = {.log = keep};
    rt_log(&o, "%d of %s", 3, longer);
    CHECK(!strncmp(line, "3 of xxx", 8) && strlen(line) > 500);
    rt_log(NULL, "nobody listens");
    rt_log(&(RtCompileOptions){0}, "nobody listens");
    return unit_done();
}
