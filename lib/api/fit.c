// How much may be kept for the backward part so that an entry's temporaries are within a limit:
// what a plan really takes is known when it is made, so a few are made.
#include "lib/lib.h"

enum { TRIALS = 6, CLOSE = 25, MARGIN = 64 }; // CLOSE: within a 25th of the limit is close enough

int64_t fit_kept(int64_t limit, int64_t peak, Peak *peak_of, void *ctx)
{
    int64_t kept = limit;          // of the plan in hand, which takes [peak]
    int64_t fits = 0, exceeds = 0; // the most that fits, the least that does not; 0: none yet
    int64_t least = peak, best = kept;
    for (int i = 0; i < TRIALS && peak >= 0; i++) {
        bool within = peak <= limit;
        if (within && kept > fits) fits = kept;
        if (!within && (!exceeds || kept < exceeds)) exceeds = kept;
        bool better = i == 0 || peak < least;
        if (better) least = peak, best = kept;
        if (within && limit - peak < limit / CLOSE) break;
        int64_t next = kept + limit - peak - (within ? 0 : limit / MARGIN);
        if (next < kept / 2) next = kept / 2 + 1;     // what is held does not follow that far
        if (!fits && !better) next = best + best / 4; // what is made again takes more than it saves
        if (fits && (next <= fits || (exceeds && next >= exceeds)))
            next = exceeds ? fits + (exceeds - fits) / 2 : kept;
        if (next == kept || (fits && exceeds && exceeds - fits < limit / CLOSE)) break;
        kept = next;
        peak = peak_of(ctx, kept);
    }
    return fits ? fits : best;
}
