// Chooses how many bytes may be kept for the backward part so that an entry's temporaries stay
// within a limit: the peak is known only after planning, so a few values are tried. If none fits,
// the error names the values that are live at the peak.
#include <inttypes.h>
#include <string.h>

#include "lib/lib.h"

enum { TRIALS = 6, CLOSE = 25, MARGIN = 64 }; // CLOSE: stops within 1/25 of the limit
enum { SHARES = 5, SHOWN = 6 };

int64_t fit_kept(int64_t limit, int64_t peak, Peak *peak_of, void *ctx)
{
    int64_t kept = limit;          // of the current plan, whose memory is [peak]
    int64_t fits = 0, exceeds = 0; // the largest that fits, the smallest that does not; 0: none so
                                   // far
    int64_t least = peak, best = kept;
    for (int i = 0; i < TRIALS && peak >= 0; i++) {
        bool within = peak <= limit;
        if (within && kept > fits) fits = kept;
        if (!within && (!exceeds || kept < exceeds)) exceeds = kept;
        bool better = i == 0 || peak < least;
        if (better) least = peak, best = kept;
        if (within && limit - peak < limit / CLOSE) break;
        int64_t next = kept + limit - peak - (within ? 0 : limit / MARGIN);
        if (next < kept / 2) next = kept / 2 + 1; // the peak decreases less than the kept bytes
        if (!fits && peak > least)
            next = best + best / 4; // recomputed values take more memory than is saved
        if (fits && (next <= fits || (exceeds && next >= exceeds)))
            next = exceeds ? fits + (exceeds - fits) / 2 : kept;
        if (next == kept || (fits && exceeds && exceeds - fits < limit / CLOSE)) break;
        kept = next;
        peak = peak_of(ctx, kept);
    }
    // If none fits, looks for the plan with the least memory, for the error message: keeping
    // everything, or less, may take less.
    for (int i = SHARES + 1; i > 0 && !fits && peak >= 0; i--) {
        kept = i > SHARES ? INT64_MAX : least / SHARES * i;
        peak = peak_of(ctx, kept);
        if (peak >= 0 && peak < least) least = peak, best = kept;
        if (peak >= 0 && peak <= limit) fits = kept;
    }
    return fits ? fits : best;
}

static bool stands(const ProgBuffer *b, int32_t step)
{
    return b->region == PR_ARENA && b->first <= step && step <= b->last;
}

// The step with the most memory for temporaries.
static int32_t fullest_step(const ProgEntry *e)
{
    int64_t most = -1;
    int32_t at = 0;
    for (int32_t step = 0; step < e->nsteps; step++) {
        int64_t bytes = 0;
        for (int i = 0; i < e->nbuffers; i++)
            if (stands(&e->buffers[i], step)) bytes += e->buffers[i].bytes;
        if (bytes > most) most = bytes, at = step;
    }
    return at;
}

static void list_largest(const ProgEntry *e, int32_t step, Buf *out)
{
    const ProgBuffer *last = NULL;
    for (int n = 0; n < SHOWN; n++) {
        const ProgBuffer *next = NULL;
        for (int i = 0; i < e->nbuffers; i++) { // the next largest one, in descending order
            const ProgBuffer *b = &e->buffers[i];
            if (!stands(b, step) || !b->bytes || (last && b->bytes > last->bytes) ||
                (last && b->bytes == last->bytes && b <= last))
                continue;
            if (!next || b->bytes > next->bytes) next = b;
        }
        if (!next) return;
        char type[160];
        prog_type_text(type, sizeof type, &next->type);
        buf_printf(out, "\n  %12" PRId64 " bytes  %s %s  %s", next->bytes, next->name, type,
                   next->loc);
        last = next;
    }
}

typedef struct Holding {
    Arena *arena;
    const ProgEntry *e;
    Buf text;
} Holding;

static void describe(void *arg)
{
    Holding *h = arg;
    h->text = buf_new(h->arena);
    buf_str(&h->text, "");
    list_largest(h->e, fullest_step(h->e), &h->text);
}

netc_status fit_met(int64_t limit, const ProgEntry *e, netc_error **err)
{
    if (limit <= 0 || e->arena_bytes <= limit) return NETC_OK;
    Arena *a = arena_new();
    Holding h = {a, e, {0}};
    netc_status status = NETC_OUT_OF_MEMORY;
    if (a && lib_guarded(a, describe, &h))
        status = lib_fail(err, NETC_INVALID,
                          "the memory limit of %" PRId64
                          " bytes cannot be met: the temporaries of '%s' need %" PRId64
                          ", the least that was found. A smaller batch or micro-batches "
                          "(accumulate) need less. The largest that are live at the same time:%s",
                          limit, e->name, e->arena_bytes, h.text.data);
    else
        OUT_OF_MEMORY(err);
    arena_free(a);
    return status;
}
