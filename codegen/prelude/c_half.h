// netc prelude, C: runs of halves to floats and back, to the bits of nc_h2f and nc_f2h, by the processor's own
// conversions where it has them: gcc 12 makes no vectors of those.

#if defined __F16C__ && defined __AVX__
#define NC_OWN_HALVES
typedef float nc_floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef short nc_halves_8 __attribute__((vector_size(16), aligned(2), may_alias));
// Whether one of 16 floats is a NaN. Processors make them quiet, and keep digits of them that we do not.
NC_FN bool nc_any_nan(nc_floats a, nc_floats b)
{
    return __builtin_ia32_movmskps256(__builtin_ia32_cmpps256(a, b, 3)) != 0;
}
#endif

__attribute__((unused)) NC_BODY void nc_floats_of(float *to, const uint16_t *from, long n)
{
    long i = 0;
#if defined NC_OWN_HALVES
    for (; i + 16 <= n; i += 16) {
        const nc_floats a = __builtin_ia32_vcvtph2ps256(*(const nc_halves_8 *)(from + i)),
                        b = __builtin_ia32_vcvtph2ps256(*(const nc_halves_8 *)(from + i + 8));
        *(nc_floats *)(to + i) = a;
        *(nc_floats *)(to + i + 8) = b;
        for (long k = i; k < i + 16 && nc_any_nan(a, b); k++) to[k] = nc_h2f(from[k]);
    }
#endif
    #pragma omp simd
    for (long k = i; k < n; k++) to[k] = nc_h2f(from[k]);
}
__attribute__((unused)) NC_BODY void nc_halves_of(uint16_t *to, const float *from, long n)
{
    long i = 0;
#if defined NC_OWN_HALVES
    for (; i + 16 <= n; i += 16) {
        const nc_floats a = *(const nc_floats *)(from + i), b = *(const nc_floats *)(from + i + 8);
        *(nc_halves_8 *)(to + i) = __builtin_ia32_vcvtps2ph256(a, 0);
        *(nc_halves_8 *)(to + i + 8) = __builtin_ia32_vcvtps2ph256(b, 0);
        for (long k = i; k < i + 16 && nc_any_nan(a, b); k++) to[k] = nc_f2h(from[k]);
    }
#endif
    #pragma omp simd
    for (long k = i; k < n; k++) to[k] = nc_f2h(from[k]);
}
__attribute__((unused)) NC_BODY void nc_round_halves(float *x, long n)
{
    long i = 0;
#if defined NC_OWN_HALVES
    for (; i + 8 <= n; i += 8) {
        const nc_floats a = *(const nc_floats *)(x + i);
        *(nc_floats *)(x + i) =
            __builtin_ia32_vcvtph2ps256((nc_halves_8)__builtin_ia32_vcvtps2ph256(a, 0));
    }
#endif
    #pragma omp simd
    for (long k = i; k < n; k++) x[k] = nc_round_f16(x[k]);
}
