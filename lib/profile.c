// netc_profile: every step of an entry timed on its own, on synthetic data.
#include <stdio.h>
#include <stdlib.h>

#include "lib/lib.h"
#include "lib/synthetic.h"

typedef struct Profile {
    netc_session *s;
    const char *entry;
    int repeats;
    Arena *arena;
    netc_error **err;
    netc_status status;
    netc_time *times;
    int n;
} Profile;

static void profile(void *arg)
{
    Profile *p = arg;
    Loaded *l;
    const ProgEntry *e;
    p->status = session_entry(p->s, p->entry, &l, &e, p->err);
    if (p->status == NETC_OK) p->status = synthetic_bind(p->s, p->entry, 0, p->arena, p->err);
    if (p->status == NETC_OK) p->status = netc_run(p->s, p->entry, 3, p->err);
    if (p->status == NETC_OK) p->status = netc_sync(p->s, p->err);
    if (p->status != NETC_OK) return;
    RtStepTime *t = NULL;
    RtError re = {0};
    if (rt_profile(p->s->rt, l->rt, p->entry, p->repeats, p->arena, &t, &p->n, &re)) {
        p->status = lib_fail_rt(p->err, &re);
        return;
    }
    p->times = calloc((size_t)p->n + 1, sizeof *p->times);
    for (int i = 0; p->times && i < p->n; i++) {
        netc_time *out = &p->times[i];
        snprintf(out->name, sizeof out->name, "%s", t[i].name ? t[i].name : "");
        snprintf(out->loc, sizeof out->loc, "%s", t[i].loc ? t[i].loc : "");
        out->seconds = t[i].seconds;
        out->calls = t[i].calls;
    }
}

netc_status netc_profile(netc_session *s, const char *entry, int repeats, netc_time **times, int *n,
                         netc_error **err)
{
    Profile p = {.s = s, .entry = entry, .repeats = repeats, .arena = arena_new(), .err = err};
    if (!p.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(p.arena, profile, &p)) p.status = OUT_OF_MEMORY(err);
    arena_free(p.arena);
    *n = p.n;
    *times = p.times;
    if (p.status != NETC_OK) return p.status;
    return p.times ? NETC_OK : OUT_OF_MEMORY(err);
}
