// Sums over the rows of a result of a product by groups of four warps, as CUDA C. A lane of a warp
// has two neighbouring columns of each 64 of a tile. It reads them from the warp's boxes in shared
// memory, as they are stored, and keeps the sums in registers from tile to tile. Results that are
// stored by rows are added up when they are computed (tile_rows.c).
#include "codegen/cuda/tile_print.h"
#include "codegen/ir/reduction.h"
#include "codegen/tile/wgmma.h"

static int columns_of(const RolePrint *w) // number of groups of 64 columns of a tile
{
    return (int)ceil_div(w->p->side_n, STEP);
}

// Adds the rows of the boxes of this part of the results. With strips, some rows are no results.
void group_add(RolePrint *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const BodyStrips *s = wgmma_strips(b);
    const int added = wgmma_added(b);
    int box = 0;
    for (int i = 0; i < added; i++) box += group_boxed(b, (uint32_t)i);
    if (w->p->side_n < STEP) // the other columns of the box have not been written
        emit(e, "if (thread * 2 < %d)", w->p->side_n);
    emit(e, "nc_add_box_%s<%lld, %lld>(totals[%s], box%s, part_m, %lld);",
         b->bufs.at[b->stores.at[added].buf].type == DT_BF16 ? "b" : "h",
         s ? (long long)s->results : 1, s ? (long long)s->pitch : 1,
         emit_part(e, "part", w->below, 0, 1), box ? emit_text(e, " + %d", box * BOX * STEP) : "",
         (long long)wgmma_rows(b));
}

// What a store keeps of the reduction of one column (BodyStore.kept).
static const char *kept(Emit *e, const BodyStore *s)
{
    const Accumulator *a = accumulator(s->fold->op);
    if (!a->runs) return "nc_total(sum, n)";
    return s->kept == a->nparts ? "n" : emit_text(e, "nc_moments(sum, n)%s", a->parts[s->kept]);
}

// Results by rows: of each 64 columns a lane has one of the sums for eight columns.
static void rows_kept(RolePrint *w, int sums)
{
    Emit *e = w->e;
    const int tile = w->p->side_n;
    emit_open(e, 0);
    emit(e, "const int from = i * %d + thread %% 8 * 8;", STEP);
    emit(e, "if (thread / 8 < %d && from < %d)", sums, tile);
    emit(e, "    for (int lane = 0; lane < 8; lane++)");
    emit(e, "        kept[thread / 8 * %d + from + lane] = totals[i][lane];", tile);
    emit_times(e, "i", columns_of(w));
}

void group_totals_kept(RolePrint *w, const Tile *joint)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const int tile = w->p->side_n, warps = GROUPS * GROUP_WARPS;
    emit(e, "float *const kept = (float *)(ring + %d) + (threadIdx.x / 32 - %d) * %d;",
         joint->offset, GROUP_WARPS, joint->lines / warps * tile);
    if (wgmma_by_rows(b)) {
        rows_kept(w, joint->lines / warps);
        return;
    }
    emit_open(e, 0);
    emit(e, "const int from = i * %d + thread * 2;", STEP);
    emit(e, "const float n = (float)totals[i].rows;");
    emit_open(e, 0);
    emit(e, "const NcRun<float> &sum = totals[i].of[lane];");
    for (uint32_t i = 0, line = 0; i < b->stores.n; i++)
        if (b->stores.at[i].fold)
            emit(e, "kept[%d + from + lane] = %s;", (int)line++ * tile, kept(e, &b->stores.at[i]));
    emit_end(e, "for (int lane = 0; lane < 2 && from < %d; lane++) {", tile);
    emit_times(e, "i", columns_of(w));
}

// Combines the warps' accumulators of one sum of a column, pairwise and neighbours first, and
// stores the result. The lines of a warp's memory from [line] on hold its accumulator's parts.
static void join_warps(RolePrint *w, const Tile *joint, uint32_t store, int line)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const BodyStore *s = &b->stores.at[store];
    const Accumulator *a = accumulator(s->fold->op);
    const int tile = w->p->side_n, warps = GROUPS * GROUP_WARPS,
              apart = joint->lines / warps * tile;
    const char *type = a->type ? emit_text(e, a->type, "float") : "float";
    emit_open(e, 0);
    emit(e, "%s of[%d];", type, warps);
    emit_open(e, 0);
    emit(e, "const float *const kept = joint + i * %d;", apart);
    for (int k = 0; a->runs && k < a->nparts; k++)
        emit(e, "of[i]%s = kept[%d];", a->parts[k], (line + k) * tile);
    if (a->runs)
        emit(e, "of[i].n = kept[%d];", (line + a->nparts) * tile);
    else
        emit(e, "of[i] = kept[%d];", line * tile);
    emit_times(e, "i", warps);
    emit(e, "#pragma unroll");
    emit(e, "for (int by = 1; by < %d; by *= 2)", warps);
    emit(e, "#pragma unroll");
    emit(e, "    for (int i = 0; i < %d; i += 2 * by) of[i] = %s::of(of[i], of[i + by]);", warps,
         a->functor);
    for (int k = 0; k < (a->runs ? a->nparts + 1 : 1); k++)
        emit(e, "%s[(%s)part * %lld + column] = of[0]%s;", e->buf_name[s[k].buf], int_type(e),
             extent_of(b, 2),
             !a->runs        ? ""
             : k < a->nparts ? a->parts[k]
                             : ".n");
    emit_end(e, "{");
}

void group_totals(RolePrint *w, const Tile *joint)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const int tile = w->p->side_n;
    emit_open(e, 0);
    emit(e, "const int from = threadIdx.x - %d, column = %s + from;", GROUP_WARPS * 32,
         emit_part(e, "first_tile", 1, w->across, tile));
    emit(e, "const int part = %s;", emit_part(e, "first_tile", w->across, 0, 1));
    emit_open(e, 0);
    emit(e, "const float *const joint = (const float *)(ring + %d) + from;", joint->offset);
    for (uint32_t i = 0, line = 0; i < b->stores.n; i++) {
        if (!b->stores.at[i].fold) continue;
        if (!b->stores.at[i].kept) join_warps(w, joint, i, (int)line);
        line++;
    }
    emit_end(e, "if (from < %d && column < %lld) {", tile, extent_of(b, 2));
    emit_end(e, "{");
}
