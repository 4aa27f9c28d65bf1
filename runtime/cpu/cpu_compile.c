// A CPU program's kernels as one shared object: from the cache, else by the system's compiler.
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/clock.h"
#include "base/map.h"
#include "runtime/cpu/cpu.h"

#if defined(__x86_64__)
const char rt_cpu_image_target[] = "cpu-x86_64";
#elif defined(__aarch64__)
const char rt_cpu_image_target[] = "cpu-aarch64";
#else
const char rt_cpu_image_target[] = "cpu-other";
#endif

// If the texts are longer in total, two processes compile them.
enum { BIG_TEXT = 48 << 10 };

// A hash of the processor's features: objects compiled for one processor are not used on another.
static uint64_t rt_cpu_features(void)
{
    uint64_t h = hash_str(rt_cpu_image_target);
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        unsigned v[] = {a, c & ~(1u << 27), d}; // without the bit that says whether the system uses
                                                // XSAVE
        h = hash_bytes(v, sizeof v, h);
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        unsigned v[] = {b, c, d};
        h = hash_bytes(v, sizeof v, h);
    }
#endif
    return h;
}

static uint64_t text_hash(const Program *p)
{
    uint64_t h = hash_str(p->prelude ? p->prelude : "");
    for (int i = 0; i < p->nkernels; i++) h = hash_mix(h, hash_str(p->kernels[i].text));
    return h;
}

uint64_t rt_cpu_image_key(const Program *p)
{
    return hash_mix(text_hash(p), rt_cpu_features());
}

// Divides prelude and kernels into texts to compile, with each symbol once. Returns their number.
static int make_parts(Arena *a, const Program *p, int limit, const char **parts)
{
    StrMap seen = strmap_new(a);
    size_t total = 0;
    for (int i = 0; i < p->nkernels; i++) total += strlen(p->kernels[i].text);
    int n = limit > 1 && total > BIG_TEXT ? 2 : 1;
    Buf b[2];
    for (int i = 0; i < n; i++) {
        b[i] = buf_new(a);
        if (p->prelude) buf_str(&b[i], p->prelude);
        buf_char(&b[i], '\n');
    }
    for (int i = 0; i < 2 * p->nkernels; i++) { // user-written text, which may define macros, comes
                                                // last
        const ProgKernel *k = &p->kernels[i % p->nkernels];
        if (strmap_has(&seen, k->symbol) || (k->file && *k->file) != (i >= p->nkernels)) continue;
        strmap_set(&seen, k->symbol, (void *)k);
        Buf *to = n == 2 && b[1].len < b[0].len ? &b[1] : &b[0];
        buf_str(to, k->text);
        buf_char(to, '\n');
    }
    for (int i = 0; i < n; i++) parts[i] = b[i].data;
    return n;
}

static RtKey cache_key(const Program *p, const CpuCompiler *cc)
{
    RtKey k = rt_key_start("cpu object 2");
    uint64_t id[] = {rt_cpu_features(), cc->identity};
    rt_key_bytes(&k, id, sizeof id);
    rt_key_str(&k, cc->path);
    rt_key_str(&k, p->prelude ? p->prelude : "");
    for (int i = 0; i < p->nkernels; i++) rt_key_str(&k, p->kernels[i].text);
    return k;
}

// If the compiler's error is in user-written text, reports it as the user's error.
static RtCode blame(const Program *p, RtError *e)
{
    for (int i = 0; i < p->nkernels; i++) {
        const char *file = p->kernels[i].file;
        if (e->code == RT_ENV && file && *file && strstr(e->text, file)) e->code = RT_USER;
    }
    return e->code;
}

RtCode rt_compile_cpu(Arena *a, const Program *p, const RtCompileOptions *o, RtImage *image,
                      RtError *e)
{
    CpuCompiler cc;
    void *bytes;
    size_t n;
    memset(image, 0, sizeof *image);
    if (rt_cc_find(&cc, e)) return e->code;
    RtKey key = cache_key(p, &cc);
    if (!rt_cache_get(o, key, a, &bytes, &n)) {
        if (!o->may_spawn)
            return rt_fail(
                e, RT_ENV,
                "the program's kernels must be compiled for the CPU, and starting a compiler is "
                "not allowed here; load a model.bin that holds an object for this processor");
        const char *parts[2];
        int nparts = make_parts(a, p, o->threads ? o->threads : rt_cpu_threads(), parts);
        void *object;
        double begin = clock_now();
        if (rt_cc_compile(&cc, parts, nparts, o, &object, &n, e)) return blame(p, e);
        rt_took(o, RT_PHASE_COMPILE, clock_now() - begin);
        rt_cache_put(o, key, object, n);
        bytes = arena_alloc(a, n + 1);
        memcpy(bytes, object, n);
        free(object);
    }
    *image = (RtImage){
        .target = rt_cpu_image_target, .bytes = bytes, .size = n, .key = rt_cpu_image_key(p)};
    return RT_OK;
}
