// Maps whose loads are a few elements apart along the innermost axis, while the elements in between
// belong to other indices of outer axes, as in shuffled pixels:
//
//     y(b, h, u, w, v, c) = x(b, h, w, c, u, v)      u, v: 0 and 1
//
// These are the body's phases. A thread that computes its results for all phases reads whole runs
// of x.
#include "codegen/ir/body.h"

enum { MOST_STEP = 8, MOST_BYTES = 256, LEAST_PIECE = 8, PIECE = 16 };

static bool is_interleaved(const Body *b, const Inst *v, int64_t *step)
{
    return v->kind == KI_LOAD && v->pred < 0 && !v->ix->has_value && !inst_nested(b, v) &&
           ix_stride(v->ix, b->npar - 1, step) && *step > 1 && *step <= MOST_STEP;
}

// The axes along which the load reads the elements that lie between those of two neighbours: their
// strides are those of a dense array. 0: there are others between them.
static uint64_t phases_of(const Body *b, const Inst *v, int64_t step)
{
    uint64_t phases = 0;
    int64_t dense = 1, stride;
    for (int a = b->npar - 1; dense < step && a-- > 0;) {
        if (!ix_stride(v->ix, a, &stride)) return 0;
        if (stride != dense || phases >> a & 1 || b->axis[a].extent < 2) continue;
        phases |= 1ull << a;
        dense *= b->axis[a].extent;
        a = b->npar - 1;
    }
    return dense == step ? phases : 0;
}

int body_interleaved_piece(const Body *b, const Inst *v, uint64_t phases)
{
    const int inner = b->npar - 1, bytes = element_bytes(b, v->buf);
    int64_t step, stride;
    if (!ix_stride(v->ix, inner, &step)) return 0;
    int piece = PIECE / bytes;
    for (; piece * bytes >= LEAST_PIECE; piece /= 2) {
        bool aligned = v->ix->constant % piece == 0 && buf_begins(b, v->buf, piece) &&
                       b->sched.vector * step % piece == 0;
        for (int a = 0; a < inner && aligned; a++)
            aligned = phases >> a & 1 || (ix_stride(v->ix, a, &stride) && stride % piece == 0);
        if (aligned) return piece;
    }
    return 0;
}

uint64_t body_interleaved(const Body *b)
{
    uint64_t phases = 0;
    int64_t step, bytes = 0;
    if (b->npar < 2 || b->col >= 0 || b->commits || b->sched.vector < 2) return 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (!is_interleaved(b, v, &step)) continue;
        const uint64_t own = phases_of(b, v, step);
        if (!own || (phases && own != phases) || !body_interleaved_piece(b, v, own)) return 0;
        phases = own;
        bytes += step * b->sched.vector * element_bytes(b, v->buf);
    }
    return bytes <= MOST_BYTES ? phases : 0;
}

bool body_interleaves(const Body *b, const Inst *v)
{
    int64_t step;
    return is_interleaved(b, v, &step);
}

int64_t body_phases(const Body *b, uint64_t phases)
{
    int64_t n = 1;
    for (int a = 0; a < b->npar; a++)
        if (phases >> a & 1) n *= b->axis[a].extent;
    return n;
}
