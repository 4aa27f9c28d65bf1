// The first error is kept, and its code is returned.
#include <stdarg.h>
#include <stdio.h>

#include "base/plain.h"
#include "runtime/device.h"

RtCode rt_fail(RtError *e, RtCode code, const char *fmt, ...)
{
    if (e && e->code == RT_OK) {
        va_list args;
        va_start(args, fmt);
        e->code = code;
        plain_vformat(e->text, sizeof e->text, fmt, args);
        va_end(args);
    }
    return e ? e->code : code;
}

void rt_log(const RtCompileOptions *o, const char *fmt, ...)
{
    if (!o || !o->log) return;
    char line[1024];
    va_list args;
    va_start(args, fmt);
    plain_vformat(line, sizeof line, fmt, args);
    va_end(args);
    o->log(o->log_ctx, line);
}

void rt_took(const RtCompileOptions *o, RtPhase phase, double seconds)
{
    if (o && o->took) o->took(o->took_ctx, phase, seconds);
}
