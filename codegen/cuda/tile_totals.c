// Sums over the rows of a result of a product by groups of warps, as CUDA C. A lane of a warp has
// two neighbouring columns of each 64 that a tile has, reads them from the warp's boxes in shared
// memory, as they are stored, and keeps the sums in registers from tile to tile.
#include "codegen/cuda/tile_print.h"
#include "codegen/ir/reduction.h"
#include "codegen/tile/wgmma.h"

static int columns_of(const RolePrint *w) // each of 64
{
    return (int)ceil_div(w->p->side_n, STEP);
}

void group_totals_begin(RolePrint *w)
{
    emit_line(w->e, w->e->scope, "NcTotals totals[%d] = {};", columns_of(w));
}

// The rows of the boxes of this part of the results. Of strips some are none.
void group_add(RolePrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const BodyStrips *s = wgmma_strips(b);
    const int added = wgmma_added(b);
    int box = 0;
    ProgMap m;
    for (int i = 0; i < added; i++) box += group_result(b, (uint32_t)i, &m);
    emit_line(e, e->scope, "nc_add_box_%s<%lld, %lld>(totals[%s], box%s, part_m, %lld);",
              b->bufs.at[b->stores.at[added].buf].type == DT_BF16 ? "b" : "h",
              s ? (long long)s->results : 1, s ? (long long)s->pitch : 1,
              number(e, "part", w->below, 0, 1), box ? emit_text(e, " + %d", box * BOX * STEP) : "",
              (long long)wgmma_rows(b));
}

// What the reduction keeps, of column i of two.
static const char *kept(Emit *e, const BodyStore *s)
{
    const Accumulator *a = accumulator(s->fold->op);
    if (!a->runs) return "nc_total(sum, n)";
    return s->kept == a->nparts ? "n" : emit_text(e, "nc_moments(sum, n)%s", a->parts[s->kept]);
}

void group_totals(RolePrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const long long wide = b->axis[2].extent;
    const int tile = w->p->side_n;
    emit_open(e, 0);
    emit_line(e, e->scope, "const int from = i * %d + thread * 2, column = %s%sfrom;", STEP,
              number(e, "first_tile", 1, w->across, tile), " + ");
    emit_line(e, e->scope, "const int part = %s * %d + threadIdx.x / 32 - %d;",
              number(e, "first_tile", w->across, 0, 1), FOLDING_WARPS, GROUP_WARPS);
    emit_open(e, 0);
    emit_line(e, e->scope, "const float n = (float)totals[i].rows;");
    for (uint32_t k = 0; k < b->stores.n; k++) {
        const BodyStore *s = &b->stores.at[k];
        if (!s->fold) continue;
        emit_open(e, 0);
        emit_line(e, e->scope, "NcVec<float, 2> all;");
        emit_line(e, e->scope, "#pragma unroll");
        emit_open(e, 0);
        emit_line(e, e->scope, "const NcRun<float> &sum = totals[i].of[lane];");
        emit_line(e, e->scope, "all.at[lane] = %s;", kept(e, s));
        emit_close(e, "for (int lane = 0; lane < 2; lane++) {", "}");
        emit_line(e, e->scope, "nc_store<2>(%s + ((%s)part * %lld + column), all);",
                  e->buf_name[s->buf], int_type(e), wide);
        emit_close(e, "{", "}");
    }
    emit_close(e, emit_text(e, "if (from < %d && column < %lld) {", tile, wide), "}");
    emit_line(e, e->scope->up, "#pragma unroll");
    emit_close(e, emit_text(e, "for (int i = 0; i < %d; i++) {", columns_of(w)), "}");
}
