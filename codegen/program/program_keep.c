// Reduces a program to fewer outputs, and to the inputs that these need.
#include <string.h>

#include "codegen/program.h"

typedef struct Keep {
    Program *p;
    ProgEntry *e;
    // By old number: the new number, or -1. For those that are dropped, the memory that replaces
    // them: a constant, or an offset in the arena.
    int32_t *input, *output, *constant;
    int64_t *offset;
} Keep;

static bool needed(const ProgEntry *e, const ProgInput *in, const bool *wanted)
{
    bool found = in->always || (in->data && e->rows);
    for (int32_t i = 0; i < in->noutputs; i++) found = found || wanted[in->outputs[i]];
    return found;
}

// A constant within the range of the input: zeros if possible.
static int32_t stand_in(Program *p, const ProgInput *in)
{
    int64_t bytes = prog_type_bytes(&in->type), size = prog_dtype_bytes(in->type.dtype);
    char *data = arena_alloc(p->arena, (size_t)bytes + 1);
    bool zero = !in->has_range || (in->low <= 0 && in->high >= 0);
    memset(data, 0, (size_t)bytes);
    for (int64_t at = 0; !zero && at < bytes; at += size)
        prog_store(in->type.dtype, data + at, (double)in->low);
    ProgConst *all = NEW_ARRAY(p->arena, ProgConst, p->nconsts + 1);
    if (p->nconsts) memcpy(all, p->consts, (size_t)p->nconsts * sizeof *all);
    all[p->nconsts] = (ProgConst){in->type, data};
    p->consts = all;
    return p->nconsts++;
}

static void keep_inputs(Keep *k, const bool *wanted)
{
    ProgEntry *e = k->e;
    int32_t n = 0;
    for (int32_t i = 0; i < e->ninputs; i++) {
        ProgInput *in = &e->inputs[i];
        k->input[i] = needed(e, in, wanted) ? n : -1;
        if (k->input[i] < 0) k->constant[i] = stand_in(k->p, in);
        int32_t left = 0;
        for (int32_t o = 0; o < in->noutputs; o++)
            if (wanted[in->outputs[o]]) in->outputs[left++] = k->output[in->outputs[o]];
        in->noutputs = left;
        if (k->input[i] >= 0) e->inputs[n++] = *in;
    }
    e->ninputs = n;
}

static void keep_outputs(Keep *k, const bool *wanted)
{
    ProgEntry *e = k->e;
    int32_t n = 0;
    for (int32_t i = 0; i < e->noutputs; i++) {
        k->output[i] = wanted[i] ? n : -1;
        if (wanted[i]) {
            e->outputs[n++] = e->outputs[i];
        } else {
            k->offset[i] = (e->arena_bytes + 255) / 256 * 256;
            e->arena_bytes = k->offset[i] + prog_type_bytes(&e->outputs[i].type);
        }
    }
    e->noutputs = n;
}

void program_keep(Program *p, ProgEntry *e, const bool *wanted)
{
    Arena *a = p->arena;
    Keep k = {p,
              e,
              NEW_ARRAY(a, int32_t, e->ninputs + 1),
              NEW_ARRAY(a, int32_t, e->noutputs + 1),
              NEW_ARRAY(a, int32_t, e->ninputs + 1),
              NEW_ARRAY(a, int64_t, e->noutputs + 1)};
    keep_outputs(&k, wanted);
    keep_inputs(&k, wanted);
    for (int32_t i = 0; i < e->nbuffers; i++) {
        ProgBuffer *b = &e->buffers[i];
        int32_t old = b->index;
        if (b->region == PR_INPUT && (b->index = k.input[old]) < 0)
            b->region = PR_CONST, b->index = k.constant[old];
        else if (b->region == PR_OUTPUT && (b->index = k.output[old]) < 0)
            b->region = PR_ARENA, b->index = 0, b->offset = k.offset[old];
    }
}
