// Philox4x32 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011) with
// the ten rounds that its authors recommend; with seven, the fewest for which they found no failure
// in TestU01's BigCrush, for draws of 16 bits, the masks of dropout.
//
// A block of four words, the same on every device:
//     key     = { seed low ^ 0x9E3779B9 * count high, seed high ^ site high }
//     counter = { block low, block high, count low, site low }
// where seed and count are the operands of a random op and site is its attribute. Under one seed no
// two counts share their words.
//
// Neighbouring elements, in row-major order, share a block: eight of 16 bits, four of one word, two
// of two words. A kernel computes it once for those that a thread or its neighbours have.
#ifndef IR_PHILOX_H
#define IR_PHILOX_H

#include <stdint.h>

static inline void philox4x32(const uint32_t counter[4], const uint32_t key[2], int rounds,
                              uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < rounds; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// Word [lane] of a block, for draws of so many [bits].
static inline uint32_t philox_word(uint64_t seed, uint64_t count, uint64_t site, uint64_t block,
                                   int bits, int lane)
{
    uint32_t out[4];
    uint32_t key[2] = {(uint32_t)seed ^ 0x9E3779B9u * (uint32_t)(count >> 32),
                       (uint32_t)(seed >> 32) ^ (uint32_t)(site >> 32)};
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)count,
                           (uint32_t)site};
    philox4x32(counter, key, bits > 16 ? 10 : 7, out);
    return out[lane & 3];
}

// What element [index] of a random op draws, which has so many [bits]: 16, 32, or word [lane] of 64
// or 128.
static inline uint32_t philox_draw(uint64_t seed, uint64_t count, uint64_t site, uint64_t index,
                                   int bits, int lane)
{
    const int each = 128 / bits, place = (int)(index % (uint64_t)each) * bits / 32 + lane;
    const uint32_t word = philox_word(seed, count, site, index / (uint64_t)each, bits, place);
    return bits > 16 ? word : index % 2 ? word >> 16 : word & 0xffff;
}

#endif
