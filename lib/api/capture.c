// API functions for captured runs (runtime/exec/exec_capture.c).
#include "lib/lib.h"

bool netc_capturing(netc_session *s)
{
    return rt_captured(s->rt);
}

netc_status netc_warm_up(netc_session *s, const char *entry, netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    RtError re = {0};
    netc_status status = session_entry(s, entry, &l, &e, err);
    if (status == NETC_OK) status = session_ready(s, l, e, err);
    if (status != NETC_OK) return status;
    return rt_warm_up(s->rt, l->rt, entry, &re) ? lib_fail_rt(err, &re) : NETC_OK;
}

int64_t netc_temporaries(netc_session *s, const char *entry)
{
    Loaded *l;
    const ProgEntry *e;
    if (session_entry(s, entry, &l, &e, NULL) != NETC_OK) return -1;
    return rt_temporaries(s->rt, l->rt, entry);
}

netc_status netc_bind_temporaries(netc_session *s, const char *entry, void *device, size_t bytes,
                                  netc_error **err)
{
    enum { ALIGN = 256 };
    Loaded *l;
    const ProgEntry *e;
    RtError re = {0};
    netc_status status = session_entry(s, entry, &l, &e, err);
    if (status != NETC_OK) return status;
    int64_t need = rt_temporaries(s->rt, l->rt, entry);
    if (device && bytes < (size_t)need)
        return lib_fail(err, NETC_INVALID, "temporaries of '%s' take %lld bytes, %zu were given",
                        entry, (long long)need, bytes);
    if ((uintptr_t)device % ALIGN)
        return lib_fail(err, NETC_INVALID,
                        "memory for temporaries of '%s' must be aligned to %d bytes", entry, ALIGN);
    if (device && (!rt_device_is_cuda(s->device) || rt_device_owns(s->device, device, bytes, &re)))
        return lib_fail(err, NETC_INVALID, "memory for temporaries of '%s': %s", entry,
                        *re.text ? re.text : "the session runs on the CPU");
    return rt_temporaries_place(s->rt, l->rt, entry, device, &re) ? lib_fail_rt(err, &re) : NETC_OK;
}
