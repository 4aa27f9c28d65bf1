// What tensor cores compute, for ptx.h: products of a warp, and of four warps. Compiled once, with
// the driver: in the text of kernels they cost more time than all else there.
#include <math.h>
#include <string.h>

#include "tests/shim/late.h"
#include "tests/shim/matrix.h"
#include "tests/shim/shim.h"

// Of grid.c and kernel.h.
const unsigned long long *shim_shuffle_all(unsigned mask, unsigned long long mine);
void *shim_own_place(void);
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
typedef struct Fragment { // the numbers that a lane's registers hold
    float a[8], b[4];
} Fragment;
_Static_assert(sizeof(Fragment) <= SHIM_OWN * sizeof(unsigned long long), "a lane's own place");

// As tensor cores round: towards zero.
static float cut(double x)
{
    const float f = (float)x;
    return fabsf(f) < INFINITY && fabs((double)f) > fabs(x) ? nextafterf(f, 0) : f;
}

// each: numbers in a register.
static inline __attribute__((always_inline)) void matrix(float *d, const uint32_t *a,
                                                         const uint32_t *b, int each, int kind)
{
    int lane = shim_lane(), g = lane / 4, t = lane % 4;
    Fragment *mine = shim_own_place();
    for (int i = 0; i < 4 * each; i++)
        mine->a[i] = wide(each == 1 ? a[i] : a[i / 2] >> i % 2 * 16 & 0xffff, kind);
    for (int i = 0; i < 2 * each; i++)
        mine->b[i] = wide(each == 1 ? b[i] : b[i / 2] >> i % 2 * 16 & 0xffff, kind);
    const unsigned long long *all = shim_shuffle_all(0xffffffffu, (uintptr_t)mine);
    double sum[4] = {d[0], d[1], d[2], d[3]};
    // (the four sums side by side: each waits for its own additions only)
    for (int high = 0; high < 2; high++)
        for (int owner = 0; owner < 4; owner++) {
            const Fragment *x = (const Fragment *)(uintptr_t)all[g * 4 + owner];
            const Fragment *y = (const Fragment *)(uintptr_t)all[2 * t * 4 + owner];
            const Fragment *z = (const Fragment *)(uintptr_t)all[(2 * t + 1) * 4 + owner];
            for (int e = 0; e < each; e++) {
                float upper = x->a[high * 2 * each + e], lower = x->a[(high * 2 + 1) * each + e];
                float left = y->b[high * each + e], right = z->b[high * each + e];
                sum[0] += (double)upper * left;
                sum[1] += (double)upper * right;
                sum[2] += (double)lower * left;
                sum[3] += (double)lower * right;
            }
        }
    for (int i = 0; i < 4; i++) d[i] = cut(sum[i]);
}

void shim_matrix(float *d, const unsigned *a, const unsigned *b, int kind)
{
    if (kind == SHIM_TF32)
        matrix(d, a, b, 1, SHIM_TF32);
    else
        matrix(d, a, b, 2, kind);
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

static const uint16_t *place(const Operand *o, int i, int k)
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
    float *all = e->p, right[16];
    int lane = shim_lane();
    reads(&b, 0, e->n, lane);
    for (int j = 0; j < e->n / 4; j++) {
        for (int k = 0; k < 16; k++)
            right[k] = wide(*place(&b, j / 2 * 8 + lane % 4 * 2 + j % 2, k), kind);
        for (int h = 0; h < 2; h++) {
            float *d = &all[j / 2 * 4 + h * 2 + j % 2], sum = e->add ? *d : 0;
            for (int k = 0; k < 16; k++) sum += left[h][k] * right[k];
            *d = sum;
        }
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
