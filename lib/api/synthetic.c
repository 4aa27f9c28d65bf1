// Made-up inputs for checks and profiles, a function of the seed alone.
#include "lib/api/synthetic.h"

#include <math.h>

static double uniform(uint64_t *s) // splitmix64, in (0, 1)
{
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

void synthetic_fill(const ProgInput *in, int64_t seed, void *bytes)
{
    uint64_t s = hash_mix(hash_str(in->name), (uint64_t)seed);
    int64_t n = prog_type_bytes(&in->type) / prog_dtype_bytes(in->type.dtype);
    bool real = in->type.dtype >= PD_BF16;
    double low = in->has_range ? (double)in->low : 0;
    double high = in->has_range ? (double)in->high : in->type.dtype == PD_U8 ? 256 : 2;
    for (int64_t i = 0; i < n; i++) {
        double u = uniform(&s);
        double v =
            real ? sqrt(-2 * log(u)) * cos(2 * M_PI * uniform(&s)) : floor(low + u * (high - low));
        prog_store(in->type.dtype, (char *)bytes + i * prog_dtype_bytes(in->type.dtype), v);
    }
}

static netc_status bind_input(netc_session *s, const char *entry, const ProgInput *in, int64_t seed,
                              Arena *a, netc_error **err)
{
    void *bytes = arena_alloc(a, (size_t)prog_type_bytes(&in->type) + 1);
    synthetic_fill(in, seed, bytes);
    netc_tensor t = tensor_of(&in->type, bytes);
    return netc_bind(s, entry, in->name, &t, err);
}

netc_status synthetic_bind(netc_session *s, const char *entry, int64_t seed, Arena *a,
                           netc_error **err)
{
    Loaded *l;
    const ProgEntry *e;
    ProgInput first;
    netc_status status = session_entry(s, entry, &l, &e, err);
    for (int i = 0; status == NETC_OK && i < e->ninputs; i++)
        status = bind_input(s, entry, &e->inputs[i], seed, a, err);
    for (int i = 0; status == NETC_OK && e->kind == PK_TRAIN &&
                    program_first_input(l->build->program, i, &first);
         i++)
        status = bind_input(s, entry, &first, seed, a, err);
    return status;
}
