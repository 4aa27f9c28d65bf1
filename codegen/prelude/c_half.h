// netc prelude, C: arrays of halves to floats and back, with the same bits as nc_h2f and nc_f2h, by the
// processor's conversion instructions if it has them: gcc 12 does not use these when it vectorises.

#if defined __AVX512F__
enum { NC_OWN_HALVES = 16 }; // converted at once
typedef float nc_some_floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef short nc_some_halves __attribute__((vector_size(32), aligned(2), may_alias));
#define nc_widened(h)   __builtin_ia32_vcvtph2ps512_mask(h, (nc_some_floats){0}, (uint16_t)-1, 4)
#define nc_narrowed(f) ((nc_some_halves)__builtin_ia32_vcvtps2ph512_mask(f, 0, (nc_some_halves){0}, (uint16_t)-1))
#elif defined __F16C__ && defined __AVX__
enum { NC_OWN_HALVES = 8 };
typedef float nc_some_floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef short nc_some_halves __attribute__((vector_size(16), aligned(2), may_alias));
#define nc_widened(h)   __builtin_ia32_vcvtph2ps256(h)
#define nc_narrowed(f) ((nc_some_halves)__builtin_ia32_vcvtps2ph256(f, 0))
#else
enum { NC_OWN_HALVES = 0 };
#endif

// For few halves: inlined, so that the floats of NC_FEW halves, a number known to the compiler, stay in
// registers.
enum { NC_FEW = 16 };
NC_FN void nc_few_floats_of(float *to, const uint16_t *from, long n)
{
    long i = 0;
#if defined nc_widened
    for (; i + NC_OWN_HALVES <= n; i += NC_OWN_HALVES)
        *(nc_some_floats *)(to + i) = nc_widened(*(const nc_some_halves *)(from + i));
#endif
    #pragma omp simd
    for (long k = i; k < n; k++) to[k] = nc_h2f(from[k]);
}
NC_FN void nc_few_halves_of(uint16_t *to, const float *from, long n)
{
    long i = 0;
#if defined nc_widened
    for (; i + NC_OWN_HALVES <= n; i += NC_OWN_HALVES)
        *(nc_some_halves *)(to + i) = nc_narrowed(*(const nc_some_floats *)(from + i));
#endif
    #pragma omp simd
    for (long k = i; k < n; k++) to[k] = nc_f2h(from[k]);
}
NC_FN void nc_few_round_halves(float *x, long n)
{
    long i = 0;
#if defined nc_widened
    for (; i + NC_OWN_HALVES <= n; i += NC_OWN_HALVES)
        *(nc_some_floats *)(x + i) = nc_widened(nc_narrowed(*(const nc_some_floats *)(x + i)));
#endif
    #pragma omp simd
    for (long k = i; k < n; k++) x[k] = nc_round_f16(x[k]);
}

__attribute__((unused)) NC_BODY void nc_floats_of(float *to, const uint16_t *from, long n)
{
    nc_few_floats_of(to, from, n);
}
__attribute__((unused)) NC_BODY void nc_halves_of(uint16_t *to, const float *from, long n)
{
    nc_few_halves_of(to, from, n);
}
__attribute__((unused)) NC_BODY void nc_round_halves(float *x, long n)
{
    nc_few_round_halves(x, n);
}
