// Contexts: options, hooks, the location of the compile cache.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folders.h"
#include "base/plain.h"
#include "lib/lib.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define VERSION_TEXT                                                                               \
    TEXT(NETC_VERSION_MAJOR) "." TEXT(NETC_VERSION_MINOR) "." TEXT(NETC_VERSION_PATCH)

const char *netc_version(void)
{
    return VERSION_TEXT;
}

int netc_abi(void)
{
    return NETC_ABI;
}

static void forward_log(void *ctx, const char *line)
{
    const netc_context *c = ctx;
    if (c->o.log) c->o.log(c->o.user, line);
}

void lib_log(const netc_context *c, const char *fmt, ...)
{
    if (!c->o.log) return;
    char line[1024];
    va_list args;
    va_start(args, fmt);
    plain_vformat(line, sizeof line, fmt, args);
    va_end(args);
    c->o.log(c->o.user, line);
}

static void add_phase(void *ctx, RtPhase phase, double seconds)
{
    netc_context *c = ctx;
    netc_phases *p = &c->phases;
    double *const of[RT_PHASES] = {
        [RT_PHASE_COMPILE] = &p->compile, [RT_PHASE_COMPILE_CPU] = &p->compile_cpu,
        [RT_PHASE_LIBRARY] = &p->library, [RT_PHASE_LOAD] = &p->load,
        [RT_PHASE_SEARCH] = &p->search,   [RT_PHASE_CHOOSE] = &p->choose,
    };
    pthread_mutex_lock(&c->lock);
    *of[phase] += seconds;
    pthread_mutex_unlock(&c->lock);
}

void context_add_text(netc_context *c, double seconds)
{
    pthread_mutex_lock(&c->lock);
    c->phases.text += seconds;
    pthread_mutex_unlock(&c->lock);
}

void netc_context_phases(netc_context *c, netc_phases *out)
{
    pthread_mutex_lock(&c->lock);
    netc_phases p = c->phases;
    pthread_mutex_unlock(&c->lock);
    p.size = out->size;
    memcpy(out, &p, out->size < sizeof p ? out->size : sizeof p);
}

void context_log_phases(netc_context *c)
{
    NETC_INIT(netc_phases, p);
    netc_context_phases(c, &p);
    lib_log(c,
            "ready: text %.2f s, compiler %.2f s (%.2f s of processor time), at the same time "
            "library %.2f s and search %.2f s; load %.2f s, choose %.2f s",
            p.text, p.compile, p.compile_cpu, p.library, p.search, p.load, p.choose);
}

netc_status netc_context_create(const netc_context_options *o, netc_context **out, netc_error **err)
{
    netc_context_options own = {0};
    netc_status status = TAKE_OPTIONS(netc_context_options, &own, o, err);
    if (status != NETC_OK) return status;
    netc_context *c = calloc(1, sizeof *c);
    if (!c) return OUT_OF_MEMORY(err);
    if (pthread_mutex_init(&c->lock, NULL)) {
        free(c);
        return OUT_OF_MEMORY(err);
    }
    c->o = own;
    if (!c->o.cache_dir)
        c->cache_dir = cache_folder();
    else if (*c->o.cache_dir)
        c->cache_dir = strdup(c->o.cache_dir);
    c->o.cache_dir = c->cache_dir;
    c->compile = (RtCompileOptions){.cache_dir = c->cache_dir,
                                    .unwritable = &c->unwritable,
                                    .threads = c->o.threads,
                                    .may_spawn = !c->o.no_spawn,
                                    .log = forward_log,
                                    .log_ctx = c,
                                    .took = add_phase,
                                    .took_ctx = c};
    *out = c;
    return NETC_OK;
}

void netc_context_free(netc_context *c)
{
    if (!c) return;
    prepare_end(c);
    pthread_mutex_destroy(&c->lock);
    free(c->cache_dir);
    free(c);
}

void netc_free(void *p)
{
    free(p);
}

// netc_dtype and ProgDType have the same order.
const char *netc_dtype_name(netc_dtype t)
{
    return prog_dtype_name((ProgDType)t);
}

size_t netc_dtype_size(netc_dtype t)
{
    return (size_t)prog_dtype_bytes((ProgDType)t);
}
