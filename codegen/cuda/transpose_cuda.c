// Maps with loads that are contiguous along another axis than the stores, as CUDA C: a block
// processes a 32 x 32 tile of the two axes. Such loads go through shared memory: they are loaded
// along their contiguous axis and used along the other, so that both sides of the transpose access
// whole lines.
#include "codegen/text/print.h"

static bool turned(const Emit *e, uint32_t i)
{
    const Body *b = e->body;
    const Inst *v = &b->insts.at[i];
    int64_t along, across;
    return e->live[i] && v->kind == KI_LOAD && v->pred < 0 && !v->ix->has_value &&
           !inst_nested(b, v) && ix_stride(v->ix, b->npar - 1, &along) && along > 1 &&
           ix_stride(v->ix, b->sched.map.transpose - 1, &across) && across == 1;
}

void transpose_cuda(Emit *e)
{
    const Body *b = e->body;
    const char *t = int_type(e);
    int inner = b->npar - 1, p = b->sched.map.transpose - 1;
    const char *x = e->axis[inner], *y = e->axis[p];
    long long nx = extent_of(b, inner), ny = extent_of(b, p);
    emit(e, "const int tx = threadIdx.x %% 32, ty = threadIdx.x / 32;");
    emit(e, "const %s first_%s = %s;", t, x, emit_part(e, "block", 1, (nx + 31) / 32, 32));
    int64_t stride = (nx + 31) / 32;
    for (int i = inner; i-- > 0;) {
        int64_t count = i == p ? (ny + 31) / 32 : b->axis[i].extent;
        emit(e, "const %s %s%s = %s;", t, i == p ? "first_" : "", e->axis[i],
             emit_part(e, "block", stride, count, i == p ? 32 : 1));
        stride *= count;
    }
    uint64_t both = 1ull << inner | 1ull << p, others = ((1ull << b->npar) - 1) & ~both;
    emit_open(e, others);
    e->scope->indent--;
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (turned(e, i))
            emit(e, "__shared__ %s %s_tile[32][33];", type_storage(load_dtype(b, i)), e->name[i]);
    emit_open(e, 0);
    emit(e, "const %s %s = first_%s + ty + u, %s = first_%s + tx;", t, x, x, y, y);
    emit_open(e, both);
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (turned(e, i)) emit(e, "%s_tile[ty + u][tx] = %s;", e->name[i], emit_element(e, (int)i));
    emit_end(e, "if (%s < %lld && %s < %lld) {", x, nx, y, ny);
    emit_unrolled(e, "for (int u = 0; u < 32; u += 8) {");
    emit(e, "__syncthreads();");
    for (uint32_t i = 0; i < b->insts.n; i++)
        if (turned(e, i)) e->element[i] = emit_text(e, "%s_tile[tx][ty + u]", e->name[i]);
    emit_open(e, 0);
    emit(e, "const %s %s = first_%s + tx, %s = first_%s + ty + u;", t, x, x, y, y);
    emit_open(e, both);
    emit_stores(e, -1);
    emit_end(e, "if (%s < %lld && %s < %lld) {", x, nx, y, ny);
    emit_unrolled(e, "for (int u = 0; u < 32; u += 8) {");
    emit_close(e, NULL, NULL);
}
