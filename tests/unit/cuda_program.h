// Programs written by hand, for tests of the CUDA runtime: one entry "main" over arrays in a
// struct.
#ifndef TESTS_UNIT_CUDA_PROGRAM_H
#define TESTS_UNIT_CUDA_PROGRAM_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

typedef struct Hand {
    Program p;
    ProgEntry entry;
    ProgBuffer buffer[24];
    ProgStep step[16];
    ProgArg arg[16][8];
    ProgKernel kernel[8];
    ProgGemm gemm[4];
    ProgInput input[8];
    ProgOutput output[8];
    ProgCell cell[8];
    ProgCheck check[4];
} Hand;

static inline void hand_init(Hand *h)
{
    memset(h, 0, sizeof *h);
    h->p = (Program){.model = "hand",
                     .target = "sm_90",
                     .cuda = true,
                     .nentries = 1,
                     .prelude = "",
                     .choices = "",
                     .entries = &h->entry,
                     .kernels = h->kernel,
                     .gemms = h->gemm,
                     .cells = h->cell};
    h->entry = (ProgEntry){.name = "main",
                           .kind = PK_MODEL,
                           .inputs = h->input,
                           .outputs = h->output,
                           .buffers = h->buffer,
                           .steps = h->step,
                           .checks = h->check};
}

static inline ProgType hand_vector(ProgDType t, int64_t n)
{
    return (ProgType){.dtype = t, .rank = 1, .dim = {n}};
}

static inline int hand_buffer(Hand *h, ProgRegion r, int index, int64_t offset, ProgType t,
                              const char *name)
{
    h->buffer[h->entry.nbuffers] = (ProgBuffer){.name = name,
                                                .region = r,
                                                .index = index,
                                                .offset = offset,
                                                .bytes = prog_type_bytes(&t),
                                                .type = t,
                                                .loc = "hand.net:7"};
    return h->entry.nbuffers++;
}

static inline int hand_input(Hand *h, const char *name, ProgType t)
{
    h->input[h->entry.ninputs] = (ProgInput){.name = name, .type = t, .batch_axis_micro = 1};
    return hand_buffer(h, PR_INPUT, h->entry.ninputs++, 0, t, name);
}

static inline int hand_output(Hand *h, const char *name, ProgType t)
{
    h->output[h->entry.noutputs] = (ProgOutput){.name = name, .type = t};
    return hand_buffer(h, PR_OUTPUT, h->entry.noutputs++, 0, t, name);
}

static inline int hand_cell(Hand *h, const char *name, ProgType t, double initial)
{
    h->cell[h->p.ncells] =
        (ProgCell){.name = name, .kind = PC_STATE, .type = t, .initial = initial};
    return hand_buffer(h, PR_CELL, h->p.ncells++, 0, t, name);
}

static inline int hand_temp(Hand *h, const char *name, ProgType t)
{
    int64_t at = h->entry.arena_bytes;
    h->entry.arena_bytes += (prog_type_bytes(&t) + 255) / 256 * 256;
    h->entry.peak_bytes = h->entry.arena_bytes;
    return hand_buffer(h, PR_ARENA, 0, at, t, name);
}

static inline int hand_error(Hand *h)
{
    return hand_buffer(h, PR_ERROR, 0, 0, hand_vector(PD_I64, 4), "error");
}

static inline int hand_kernel(Hand *h, const char *text, unsigned grid, unsigned block)
{
    // Every text defines a kernel called k.
    int i = h->p.nkernels++;
    h->kernel[i] = (ProgKernel){.name = "hand_kernel",
                                .identity = 0x1000u + (unsigned)i,
                                .text = text,
                                .symbol = "k",
                                .annotated = text,
                                .grid = {grid, 1, 1},
                                .block = {block, 1, 1},
                                .schedule = ""};
    return i;
}

enum { HAND_LOOP_INDEX = -1 };

static inline ProgStep *hand_step(Hand *h, ProgStepKind kind, int index, int nargs, ...)
{
    va_list va;
    int i = h->entry.nsteps++;
    ProgStep *s = &h->step[i];
    *s = (ProgStep){.kind = kind,
                    .index = index,
                    .nargs = nargs,
                    .args = h->arg[i],
                    .name = "hand_step",
                    .loc = "hand.net:7"};
    va_start(va, nargs);
    for (int k = 0; k < nargs; k++) {
        int b = va_arg(va, int);
        h->arg[i][k] = b == HAND_LOOP_INDEX ? (ProgArg){.kind = PA_LOOP_INDEX}
                                            : (ProgArg){.kind = PA_BUFFER,
                                                        .index = b,
                                                        .written = h->buffer[b].region != PR_INPUT};
    }
    va_end(va);
    return s;
}

typedef struct Loaded {
    RtProgram *p;
    RtSession *s;
} Loaded;

static inline RtCode hand_load(RtDevice *d, const Hand *h, const RtImage *images, int n,
                               const RtCompileOptions *o, Loaded *l, RtError *e)
{
    memset(l, 0, sizeof *l);
    if (rt_program_load(d, &h->p, images, n, o, &l->p, e)) return e->code;
    if (rt_session_new(d, NULL, &l->s, e)) return e->code;
    return rt_session_attach(l->s, l->p, e);
}

static inline void hand_unload(Loaded *l)
{
    rt_session_free(l->s);
    rt_program_free(l->p);
}

#endif
