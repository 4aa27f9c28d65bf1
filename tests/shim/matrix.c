// What tensor cores compute, for ptx.h: products of a warp, and of four warps. Compiled once, with
// the driver: in the text of kernels they cost more time than all else there.
#include <math.h>
#include <string.h>

#include "tests/shim/late.h"
#include "tests/shim/matrix.h"
#include "tests/shim/shim.h"

// Of grid.c and kernel.h.
const unsigned long long *shim_shuffle_all(unsigned mask, unsigned long long mine);
const unsigned long long *shim_last_to_come(unsigned mask, unsigned long long mine);
unsigned shim_shared_number(const void *p);
void *shim_shared_at(unsigned number);

static float of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float wide(uint32_t bits, int kind)
{
    if (kind == SHIM_TF32) return of_bits(bits & 0xffffe000u); // the upper 19 bits count
    if (kind == SHIM_BRAIN) return of_bits(bits << 16);
    float f = of_bits((bits & 0x7fff) << 13) * 0x1p112f;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((bits & 0x7fff) >= 0x7c00) u |= 0x7f800000u;
    return of_bits(u | (bits & 0x8000) << 16);
}

int shim_lane(void)
{
    return (int)(shim_actor.id % 32);
}

// -- of a warp. The fragments are laid out as the instruction set says: a lane's group is lane / 4,
// its place in the group lane % 4.
typedef struct Fragment { // a lane's registers, and where its sums are
    uint32_t a[4], b[2];
    float *d;
} Fragment;

enum { ROWS = 16 }; // by 8 columns
typedef float Four __attribute__((vector_size(4 * sizeof(float))));
typedef double Exact __attribute__((vector_size(4 * sizeof(double))));
typedef int64_t Bits __attribute__((vector_size(4 * sizeof(int64_t))));

// (wider vectors where the host has them: what is computed is the same)
#if defined(__x86_64__)
#define WIDEST __attribute__((target_clones("avx2", "default")))
#else
#define WIDEST
#endif

static __attribute__((noinline)) float cut_one(double x)
{
    const float f = (float)x;
    return fabsf(f) < INFINITY && fabs((double)f) > fabs(x) ? nextafterf(f, 0) : f;
}

// As tensor cores round: towards zero, so the digits that a float has not are left off. What is
// subnormal as a float, too large for one, or NaN is cut by itself.
static inline __attribute__((always_inline)) void cut(Four *to, const Exact *from)
{
    const int64_t least = 0x3810000000000000, most = 0x47efffffe0000000; // FLT_MIN, FLT_MAX
    const Bits bits = (Bits)*from, size = bits & INT64_MAX;
    const Bits usual = ((size >= least) & (size <= most)) | (size == 0);
    *to = __builtin_convertvector((Exact)(bits & ~(int64_t)0x1fffffff), Four);
    for (int n = 0; n < 4; n++)
        if (!usual[n]) (*to)[n] = cut_one((*from)[n]);
}

// Number i of a lane's registers; each: numbers in a register.
static inline float number(const uint32_t *r, int i, int each, int kind)
{
    return wide(each == 1 ? r[i] : r[i / 2] >> i % 2 * 16 & 0xffff, kind);
}

// The warp's product, of all lanes' fragments.
static inline __attribute__((always_inline)) void product(const unsigned long long *all, int each,
                                                          int kind)
{
    float left[16][ROWS];
    Four right[16][2], d[ROWS][2];
    for (int lane = 0; lane < 32; lane++) {
        const Fragment *f = (const Fragment *)(uintptr_t)all[lane];
        int g = lane / 4, t = lane % 4;
        for (int high = 0; high < 2; high++) {
            for (int e = 0; e < each; e++) {
                int k = (high * 4 + t) * each + e;
                left[k][g] = number(f->a, high * 2 * each + e, each, kind);
                left[k][g + 8] = number(f->a, (high * 2 + 1) * each + e, each, kind);
                right[k][g / 4][g % 4] = number(f->b, high * each + e, each, kind);
            }
            memcpy((float *)d[g + 8 * high] + 2 * t, f->d + 2 * high, 2 * sizeof(float));
        }
    }
    Exact factor[8][2];
    for (int k = 0; k < 8 && kind == SHIM_TF32; k++)
        for (int n = 0; n < 2; n++) factor[k][n] = __builtin_convertvector(right[k][n], Exact);
    for (int i = 0; i < ROWS && kind == SHIM_TF32; i++) {
        Exact a = __builtin_convertvector(d[i][0], Exact),
              b = __builtin_convertvector(d[i][1], Exact);
        for (int k = 0; k < 8; k++) {
            a += (double)left[k][i] * factor[k][0];
            b += (double)left[k][i] * factor[k][1];
        }
        cut(&d[i][0], &a);
        cut(&d[i][1], &b);
    }
    // (four sums side by side: each waits for its own additions only)
    for (int i = 0; i < ROWS && kind != SHIM_TF32; i += 2) {
        Four a = d[i][0], b = d[i][1], c = d[i + 1][0], e = d[i + 1][1];
        for (int k = 0; k < 8 * each; k++) {
            a += left[k][i] * right[k][0];
            b += left[k][i] * right[k][1];
            c += left[k][i + 1] * right[k][0];
            e += left[k][i + 1] * right[k][1];
        }
        d[i][0] = a, d[i][1] = b, d[i + 1][0] = c, d[i + 1][1] = e;
    }
    for (int lane = 0; lane < 32; lane++) {
        float *to = ((const Fragment *)(uintptr_t)all[lane])->d;
        for (int high = 0; high < 2; high++)
            memcpy(to + 2 * high, (float *)d[lane / 4 + 8 * high] + lane % 4 * 2,
                   2 * sizeof(float));
    }
}

// (the last lane to come computes what the others, which still wait, have brought)
WIDEST void shim_matrix(float *d, const unsigned *a, const unsigned *b, int kind)
{
    Fragment mine = {.d = d};
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    const unsigned long long *all = shim_last_to_come(0xffffffffu, (uintptr_t)&mine);
    if (!all) return;
    if (kind == SHIM_TF32)
        product(all, 1, SHIM_TF32);
    else if (kind == SHIM_BRAIN)
        product(all, 2, SHIM_BRAIN);
    else
        product(all, 2, SHIM_HALF);
}

// -- of four warps, each thread its own sums
typedef struct Operand { // from a descriptor: place, distance of 64 neighbours, distance of 8 rows
    const char *zero;    // where the shared address 0 would be
    unsigned at, far, rows;
    bool k_rows;
} Operand;

static Operand operand(unsigned long long desc, bool k_rows)
{
    unsigned first = shim_shared_number(shim_dynamic_place());
    return (Operand){.zero = (const char *)shim_shared_at(first) - first,
                     .at = (first & 0xff000000u) | (unsigned)(desc & 0x3fff) << 4,
                     .far = (unsigned)(desc >> 16 & 0x3fff) << 4,
                     .rows = (unsigned)(desc >> 32 & 0x3fff) << 4,
                     .k_rows = k_rows};
}

static inline __attribute__((always_inline)) const uint16_t *place(const Operand *o, int i, int k)
{
    unsigned n = (unsigned)i, m = (unsigned)k;
    unsigned x = o->k_rows ? n / 64 * o->far + n % 64 * 2 + m / 8 * o->rows + m % 8 * 128
                           : n / 8 * o->rows + n % 8 * 128 + m * 2;
    x += o->at;
    return (const uint16_t *)(o->zero + (x ^ (x >> 7 & 7) << 4)); // shim_turned (ptx.h)
}

// That the product reads n rows from row i on, in pieces of 16 bytes: every 32nd of them.
static void reads(const Operand *o, int i, int n, int from)
{
    int inner = o->k_rows ? n / 8 : 2, pieces = (o->k_rows ? 16 : n) * inner;
    for (int p = from; p < pieces && shim_late; p += 32)
        shim_proxy_reads(o->k_rows ? place(o, i + p % inner * 8, p / inner)
                                   : place(o, i + p / inner, p % inner * 8),
                         16);
}

// left: of a in registers, as they were when the product began. The lanes of a warp share out b to
// look at.
static inline __attribute__((always_inline)) void sums(const ShimLate *e, float left[2][16],
                                                       int kind)
{
    const Operand b = operand(e->b, e->k[1]);
    float *d = e->p;
    int lane = shim_lane();
    Four rows[16]; // (two rows by two neighbouring columns: four sums side by side)
    for (int k = 0; k < 16; k++) rows[k] = (Four){left[0][k], left[0][k], left[1][k], left[1][k]};
    reads(&b, 0, e->n, lane);
    for (int col = lane % 4 * 2; col < e->n; col += 8, d += 4) {
        Four sum = {0};
        if (e->add) memcpy(&sum, d, sizeof sum);
        for (int k = 0; k < 16 && b.k_rows; k++) {
            const uint16_t *at = place(&b, col, k);
            float x = wide(at[0], kind), y = wide(at[1], kind);
            sum += rows[k] * (Four){x, y, x, y};
        }
        for (int k = 0; k < 16 && !b.k_rows; k += 8) { // (16 bytes lie side by side)
            const uint16_t *at = place(&b, col, k), *next = place(&b, col + 1, k);
            for (int i = 0; i < 8; i++) {
                float x = wide(at[i], kind), y = wide(next[i], kind);
                sum += rows[k + i] * (Four){x, y, x, y};
            }
        }
        memcpy(d, &sum, sizeof sum);
    }
}

static void product_sums(const ShimLate *e, float left[2][16])
{
    if (e->kind == SHIM_BRAIN)
        sums(e, left, SHIM_BRAIN);
    else
        sums(e, left, SHIM_HALF);
}

void shim_product_now(const ShimLate *e)
{
    const Operand a = operand(e->a, e->k[0]);
    const int lane = shim_lane(), first = (int)((shim_actor.id & 1023) / 32 % 4) * 16;
    float left[2][16];
    reads(&a, first, 16, lane);
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 16; k++)
            left[h][k] = wide(*place(&a, first + lane / 4 + 8 * h, k), e->kind);
    product_sums(e, left);
}

// The registers of a thread's own pairs; the other threads of its rows have the rest.
void shim_left_product_now(const ShimLate *e)
{
    const int row = shim_lane() / 4;
    float left[2][16];
    for (int half = 0; half < 2; half++) {
        const unsigned long long *all = shim_shuffle_all(0xffffffffu, e->map[1 + half]);
        for (int h = 0; h < 2; h++)
            for (int t = 0; t < 4; t++)
                for (int i = 0; i < 2; i++)
                    left[h][half * 8 + t * 2 + i] =
                        wide((uint16_t)(all[row * 4 + t] >> (32 * h + 16 * i)), e->kind);
    }
    product_sums(e, left);
}
