// Programs with a tile per warp (tile/warps.c) as CUDA C. All loads of a stretch of columns are in
// flight at once, and there is no barrier until the sums of the warps are added.
//
// Which columns of an operand an instruction multiplies together, and in which order it takes rows,
// is free as long as both operands agree. In a chunk, thread 4 g + t has columns 4 t .. 4 t + 3 of
// f32, or 8 t .. 8 t + 7 of 16-bit floats as four pairs, and warp_rows neighbouring rows, from
// g * warp_rows on. So a vector load may be along the columns or along the rows.
#include "codegen/cuda/tile_print.h"

#include <string.h>

// Whether all elements that threads load are inside of the matrix: along the operand's own axis,
// and along the columns.
static void find_inside(const Body *b, int axis, bool *inside)
{
    inside[0] = b->axis[axis].extent % (8 * warp_rows(b, axis)) == 0;
    inside[1] =
        b->axis[b->col].extent % (4ll * warp_columns(b) * warp_sharing(b) * warp_chunks(b)) == 0;
}

// The element of an operand in registers at [row] and [column].
static const char *element(Emit *e, const char *of, const char *row, const char *column)
{
    return emit_text(e, warp_narrow(e->body) ? "%s[%s].at[%s]" : "%s[%s][%s]", of, row, column);
}

// Loads the operand's values into [to] (row, column): rows from [at] on along its axis, columns
// from "k_first" on; 0 outside of the matrix.
static void fetch(Emit *e, const Tile *t, const char *at, const char *to)
{
    const Body *b = e->body;
    const int axis = t->axis, rows = warp_rows(b, axis), columns = warp_columns(b);
    bool by_k = t->along_k, inside[2];
    find_inside(b, axis, inside);
    // The outer loop is over rows (columns); vectors are along the other axis.
    const int outer = by_k ? axis : b->col, inner = by_k ? b->col : axis,
              count = by_k ? rows : columns, width = by_k ? columns : rows;
    const char *outer_first = by_k ? "row_first" : "k_first",
               *inner_first = by_k ? "k_first" : "row_first";
    emit_open(e, 0);
    emit_int(e, "row_first", "%s", at);
    emit_open(e, 0);
    const char *o = emit_count("o", count), *v = emit_count("v", width);
    emit_int(e, e->axis[outer], "%s", emit_plus(e, outer_first, o));
    const char *one = element(e, to, by_k ? o : v, by_k ? v : o);
    emit_each(e, "v", width, "%s = 0;", one);
    // Loads that depend only on the row (column) may be lookups, so they must not be outside.
    emit_open(e, 1ull << outer);
    operand_vector(e, t->inst, inner, width, inside[by_k], inner_first, one);
    operand_close(e, inside[!by_k], e->axis[outer], b->axis[outer].extent);
    emit_times(e, "o", count);
    emit_end(e, "{");
}

// The same for 16-bit floats that are not aligned vectors: computed as floats, then converted.
static void fetch_packed(Emit *e, const Tile *t, const char *at, const char *to,
                         const TileAtom *atom)
{
    const int rows = warp_rows(e->body, t->axis);
    emit_open(e, 0);
    emit(e, "NcVec<float, 8> given[%d];", rows);
    fetch(e, t, at, "given");
    const char *row = emit_count("row", rows);
    emit_each(e, "row", rows, "%s[%s] = %s(given[%s]);", to, row, atom->pack, row);
    emit_end(e, "{");
}

// The same for aligned vectors of 16-bit floats. Vectors along the columns are used as they are.
// Otherwise a vector has rows of one column; its elements are paired with the next column's.
static void fetch_pairs(Emit *e, const Tile *t, const char *at, const char *to)
{
    const Body *b = e->body;
    const int axis = t->axis, rows = warp_rows(b, axis), columns = warp_columns(b);
    const bool by_k = t->along_k;
    const int count = by_k ? rows : columns, width = by_k ? columns : rows;
    bool inside[2];
    find_inside(b, axis, inside);
    emit_open(e, 0);
    if (!by_k) emit(e, "NcVec<uint16_t, %d> line[%d];", rows, columns);
    emit_open(e, 1ull << axis | 1ull << b->col);
    const char *o = emit_count("o", count);
    emit_int(e, e->axis[axis], "%s", by_k ? emit_plus(e, at, o) : at);
    emit_int(e, e->axis[b->col], "%s", by_k ? "k_first" : emit_plus(e, "k_first", o));
    const char *there = operand_there(e, t, inside[0], inside[1]), *from = emit_place(e, t->inst);
    const char *load = emit_text(e, "nc_%s<%d>(%s)", e->follow ? "prefetch" : "load", width, from);
    if (*there) load = emit_text(e, "%s ? %s : NcVec<uint16_t, %d>{}", there, load, width);
    emit(e, "%s[%s] = %s;", by_k ? to : "line", o, load);
    emit_times(e, "o", count);
    if (!by_k) {
        emit(e, "#pragma unroll");
        emit(e, "for (int i = 0; i < %d; i++) // row, pair of columns", rows * columns / 2);
        emit(e,
             "    %s[i / 4].at.of[i %% 4] = line[i %% 4 * 2].at[i / 4] | "
             "(uint32_t)line[i %% 4 * 2 + 1].at[i / 4] << 16;",
             to);
    }
    emit_end(e, "{");
}

static void fetch_operand(Emit *e, const TileProgram *p, const Tile *t, const char *at,
                          const char *to)
{
    if (t->plain)
        fetch_pairs(e, t, at, to);
    else if (warp_narrow(e->body))
        fetch_packed(e, t, at, to, p->atom);
    else
        fetch(e, t, at, to);
}

// The results that a thread computes. All their loads are issued together, and so are their stores.
typedef struct Results {
    int count;
    const char *own, *tile; // the name and the number of the tile of result i
    const char *m, *n;      // its row and column in the tile
    const char *at;         // the index of its partial sums in shared memory; NULL: in registers
    const char *guard;      // the condition that it exists; "": always
    int loads[MAX_VECTORS], nloads;
} Results;

typedef struct Print {
    Emit *e;
    const TileProgram *p;
    long long tiles_m, tiles_n; // along the rows and the columns of a matrix
    Results results;
    const bool *ready; // by instruction
    bool early[2];     // by operand: it is loaded before the wait for the preceding kernel
} Print;

// The condition that the tile with that number exists.
static const char *tile_there(const Print *w, const char *tile)
{
    const Body *b = w->e->body;
    const int64_t tiles = b->axis[0].extent * w->tiles_m * w->tiles_n;
    return emit_below(w->e, tile, tiles, tiles % (8 / b->sched.tile.share) == 0);
}

// Where tile number [tile] begins along the rows and the columns of its matrix, and the number of
// the matrix, of which there may be only one.
static const char *tile_row(const Print *w, const char *tile)
{
    const bool one = w->e->body->axis[0].extent == 1;
    const int64_t over = one && w->tiles_m > 1 ? 0 : w->tiles_m;
    return emit_part(w->e, tile, w->tiles_n, over, w->e->body->sched.tile.m);
}
static const char *tile_column(const Print *w, const char *tile)
{
    return emit_part(w->e, tile, 1, w->tiles_n, w->e->body->sched.tile.n);
}
static const char *tile_matrix(const Print *w, const char *tile)
{
    return emit_part(w->e, tile, w->tiles_m * w->tiles_n, w->e->body->axis[0].extent == 1, 1);
}

// Opens the loop over results, and declares their axes.
static void open_results(const Print *w)
{
    Emit *e = w->e;
    const Results *r = &w->results;
    emit_open(e, 0);
    if (strcmp(r->own, r->tile)) emit_int(e, r->own, "%s", r->tile);
    emit_int(e, e->axis[0], "%s", tile_matrix(w, r->own));
    emit_int(e, e->axis[1], "%s", emit_plus(e, tile_row(w, r->own), r->m));
    emit_int(e, e->axis[2], "%s", emit_plus(e, tile_column(w, r->own), r->n));
    emit_open(e, 7)->guard = true; // the condition includes that the matrix exists
}

static void close_results(const Print *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const char *there = tile_there(w, w->results.own);
    for (int axis = 1; axis <= 2; axis++) {
        const int64_t extent = b->axis[axis].extent;
        const bool certain = extent % (8 * warp_rows(b, axis)) == 0;
        there = emit_and(e, there, emit_below(e, e->axis[axis], extent, certain));
    }
    emit_if(e, emit_and(e, there, w->results.guard));
    emit_times(e, "i", w->results.count);
}

// Issues the loads that results need besides their sums, before the product: first those that are
// [ready], before the wait for the preceding kernel; after the wait, the others.
static void fetch_results(Print *w)
{
    Emit *e = w->e;
    Results *r = &w->results;
    const Body *b = e->body;
    const bool *operand = operand_expression(e, b->dot.a, b->dot.b);
    const Vectors v = {.axis = 2, .width = 1};
    enum { MOST_AHEAD = 48 }; // values that a thread loads
    int first = r->nloads;
    for (uint32_t i = 0; i < b->insts.n && (r->nloads + 1) * r->count <= MOST_AHEAD; i++) {
        const Inst *x = &b->insts.at[i];
        bool over = x->axes & (1ull << 1 | 1ull << 2) && !inst_over(x, b->col);
        if (!e->live[i] || x->kind != KI_LOAD || operand[i] || !over || !is_plain(e, (int)i))
            continue;
        if (b->bufs.at[x->buf].kind == KA_LOOP_INDEX || w->ready[i] != (e->follow != NULL))
            continue;
        r->loads[r->nloads++] = (int)i;
        emit(e, "%s %s[%d];", slot_type(e, &v, (int)i), slot_name(e, (int)i), r->count);
    }
    if (r->nloads == first) return;
    open_results(w);
    for (int i = first; i < r->nloads; i++)
        print_vector_load(
            e, &v, r->loads[i],
            emit_text(e, "%s[%s]", slot_name(e, r->loads[i]), emit_count("i", r->count)));
    close_results(w);
}

// Computes and stores the results.
static void finish(const Print *w, const char *sum)
{
    Emit *e = w->e;
    const Results *r = &w->results;
    const Body *b = e->body;
    open_results(w);
    for (int i = 0; i < r->nloads; i++)
        e->element[r->loads[i]] =
            emit_text(e, "%s[%s].at[0]", slot_name(e, r->loads[i]), emit_count("i", r->count));
    if (b->sched.tile.share > 1) {
        const int share = b->sched.tile.share, size = b->sched.tile.m * b->sched.tile.n;
        const char *at = r->at;
        if (strcmp(at, "threadIdx.x")) emit_declare(e, at = "at", "const int at = %s;", r->at);
        emit(e, "float sum = 0;");
        emit(e, "#pragma unroll");
        emit(e, "for (int w = 0; w < %d; w++)", warp_sharing(b));
        if (b->sched.cluster > 1)
            emit(e, "    sum = sum + *nc_of_block(&parts[w %% %d][%s], first_part + w / %d);",
                 share, at, share);
        else
            emit(e, "    sum = sum + parts[%s][%s];",
                 emit_plus(e, w->p->warps_m > 1 ? emit_part(e, at, size, 0, share) : "0", "w"),
                 w->p->warps_m > 1 ? emit_text(e, "%s %% %d", at, size) : at);
    }
    emit_bind(e, b->dot.sum, e->scope, sum);
    if (b->commits) stop_if_failed(e);
    emit_stores(e, -1);
    close_results(w);
}

static void declare_operands(const Print *w, bool early)
{
    const Body *b = w->e->body;
    for (int i = 0; i < 2; i++)
        if (w->early[i] == early)
            emit(w->e, warp_narrow(b) ? "NcVec<uint16_t, 8> %s[%d][%d];" : "float %s[%d][%d][4];",
                 w->p->tile[i].name, warp_chunks(b), warp_rows(b, 1 + i));
}

// Loads the operands for a stretch of columns, from chunk number "chunk" of this warp on.
static void fetch_operands(const Print *w, bool early)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const int share = w->p->warps_k, cluster = w->p->cluster;
    const char *c = emit_count("c", warp_chunks(b)),
               *chunk = emit_plus(e, w->p->steps > 1 ? "chunk" : "0", c);
    if (strchr(chunk, '+') && share * cluster > 1) chunk = emit_text(e, "(%s)", chunk);
    chunk = emit_scaled(e, chunk, share * cluster);
    if (cluster > 1) chunk = emit_plus(e, chunk, emit_scaled(e, "part", share));
    // (% also where it changes nothing: with it the compiler knows which columns are inside.)
    if (share > 1) chunk = emit_plus(e, chunk, emit_part(e, "warp", 1, share, 1));
    if (strchr(chunk, '+')) chunk = emit_text(e, "(%s)", chunk);
    emit_open(e, 0);
    emit_int(e, "k_first", "%s",
             emit_plus(e, emit_scaled(e, chunk, 4 * warp_columns(b)),
                       emit_text(e, "lane %% 4 * %d", warp_columns(b))));
    for (int i = 0; i < 2; i++)
        if (w->early[i] == early)
            fetch_operand(e, w->p, &w->p->tile[i],
                          emit_plus(e, i ? "first_n" : "first_m",
                                    emit_part(e, "lane", 4, 0, warp_rows(b, 1 + i))),
                          emit_text(e, "%s[%s]", w->p->tile[i].name, c));
    emit_times(e, "c", warp_chunks(b));
}

// The scope of a warp's tile, if it exists.
static void open_tile(const Print *w)
{
    emit_open(w->e, 1);
    emit_int(w->e, w->e->axis[0], "%s", tile_matrix(w, "tile"));
}

static void close_tile(const Print *w)
{
    emit_if(w->e, tile_there(w, "tile"));
}

// The loads before the wait for the preceding kernel: operands that are loaded in one stretch, and
// what results need besides their sums.
static void prefetch(Print *w)
{
    Emit *e = w->e;
    for (int i = 0; i < 2; i++) w->early[i] = w->ready[w->p->tile[i].inst] && w->p->steps == 1;
    fetch_results(w);
    if (w->early[0] || w->early[1]) {
        declare_operands(w, true);
        open_tile(w);
        fetch_operands(w, true);
        close_tile(w);
    }
    emit_prefetch(e, 0);
    emit_follow(e);
}

static void print_places(Print *w)
{
    Emit *e = w->e;
    const Schedule *s = &e->body->sched;
    emit_declare(e, "warp", "const int warp = threadIdx.x / 32;");
    emit_declare(e, "lane", "const int lane = threadIdx.x %% 32;");
    if (s->cluster > 1) {
        emit(e, "const int part = block %% %d, first_part = nc_cluster_rank() - part;", s->cluster);
        emit_int(e, "tile", "block / %d", s->cluster);
    } else {
        const char *own = s->tile.share == 8 ? "0" : emit_part(e, "warp", s->tile.share, 0, 1);
        emit_int(e, "tile", "%s",
                 emit_plus(e, emit_scaled(e, block_number(e), w->p->warps_m), own));
    }
    emit_int(e, "first_m", "%s", tile_row(w, "tile"));
    emit_int(e, "first_n", "%s", tile_column(w, "tile"));
}

// A thread's results: in its warp's own tile, or in tiles whose partial sums are in shared memory.
static Results results_of(const Print *w)
{
    Emit *e = w->e;
    const Schedule *s = &e->body->sched;
    const int left = warp_rows(e->body, 1), right = warp_rows(e->body, 2), groups = w->p->warps_m,
              size = s->tile.m * s->tile.n;
    if (s->tile.share == 1)
        return (Results){.count = 2 * left * right,
                         .own = "tile",
                         .tile = "tile",
                         .m = emit_plus(e, emit_part(e, "lane", 4, 0, left),
                                        emit_part(e, "i", 2 * right, left == 1, 1)),
                         .n = emit_text(e, "lane %% 4 * %d + i %% %d", 2 * right, 2 * right),
                         .guard = ""};
    // The blocks of a cluster have one tile, and each block a share of its results.
    const int own = groups * size / s->cluster;
    Results r = {.count = (own + 255) / 256, .own = "tile", .tile = "tile", .guard = ""};
    r.at = emit_plus(e, s->cluster > 1 ? emit_text(e, "part * %d", own) : "0",
                     emit_plus(e, "threadIdx.x", emit_scaled(e, emit_count("i", r.count), 256)));
    const char *at = strchr(r.at, '+') ? emit_text(e, "(%s)", r.at) : r.at;
    if (groups > 1 && s->cluster == 1) {
        r.own = "own";
        r.tile = emit_text(e, "%s * %d + %s / %d", block_number(e), groups, at, size);
    }
    r.m = emit_part(e, at, 1, groups * s->cluster > 1 ? size : 0, 1);
    r.m = emit_part(e, r.m, s->tile.n, 0, 1);
    r.n = emit_text(e, "threadIdx.x %% %d", s->tile.n); // shares begin at the start of a row
    if (own < 256) r.guard = emit_text(e, "threadIdx.x < %d", own);
    return r;
}

// -- ops ------------------------------------------------------------------------------------------

static void print_fill(const Print *w)
{
    Emit *e = w->e;
    const int size = w->p->side_m * w->p->side_n;
    emit(e, "float sums[%d][%d][4] = {};", warp_rows(e->body, 1) / 2, warp_rows(e->body, 2));
    if (w->p->warps_k > 1)
        emit(e, "float (*const parts)[%d] = (float (*)[%d])nc_shared;", size, size);
}

static void print_multiply(const Print *w)
{
    Emit *e = w->e;
    const int left = warp_rows(e->body, 1), right = warp_rows(e->body, 2);
    const bool narrow = warp_narrow(e->body);
    if (narrow) emit(e, "nc_begin(sums, left, right);");
    // Loops over the chunks, over the halves of their columns, and over tiles of 16 x 8.
    const int chunks = warp_chunks(e->body);
    const char *c = emit_count("c", chunks), *n = emit_count("n", right),
               *m = emit_count("m", left / 2),
               *first = emit_text(e, "left[%s][%s]", c, emit_scaled(e, m, 2)),
               *second = emit_text(e, "left[%s][%s]", c, left == 2 ? "1" : "2 * m + 1"),
               *other = emit_text(e, "right[%s][%s]", c, n),
               *sum = emit_text(e, "sums[%s][%s]", m, n);
    const bool halves = w->p->atom->tensor != TENSOR_F32;
    for (int i = 0; i < 3 + halves; i++) emit_open(e, 0);
    if (!halves) {
        emit(e, "nc_mma_f32(%s, %s, %s, %s);", sum, first, second, other);
    } else if (narrow) {
        emit(e, "const uint32_t a[4] = {%s.at.of[q], %s.at.of[q],", first, second);
        emit(e, "                       %s.at.of[q + 1], %s.at.of[q + 1]};", first, second);
        emit(e, "const uint32_t b[2] = {%s.at.of[q], %s.at.of[q + 1]};", other, other);
        emit(e, "nc_mma_%s(%s, a, b);", w->p->atom->operand == DT_BF16 ? "b" : "h", sum);
    } else {
        emit(e, "nc_mma(%s, %s[q], %s[q], %s[q + 1], %s[q + 1], %s[q], %s[q + 1]);", sum, first,
             second, first, second, other, other);
    }
    emit_times(e, "n", right);
    emit_times(e, "m", left / 2);
    if (halves) emit_unrolled(e, "for (int q = 0; q < 4; q += 2) {");
    emit_times(e, "c", chunks);
}

// The loop over the warp's stretches of columns, up to its T_END.
static void print_loop(const Print *w, const TileOp *loop)
{
    Emit *e = w->e;
    open_tile(w);
    emit_open(e, 0);
    for (const TileOp *op = loop + 1; op->kind != T_END; op++) {
        if (op->kind == T_MMA) print_multiply(w);
        if (op->kind != T_LOAD || op->dst > 0) continue; // one loop loads both operands
        declare_operands(w, false);
        fetch_operands(w, false);
    }
    if (w->p->steps > 1)
        emit_loop(e, int_type(e), "chunk", "0", emit_number(e, warp_all_chunks(e->body)),
                  warp_chunks(e->body));
    else
        emit_end(e, "{");
    close_tile(w);
}

static const char *result(const Print *w)
{
    Emit *e = w->e;
    const int left = warp_rows(e->body, 1), right = warp_rows(e->body, 2);
    if (left == 2 && right == 1) return "sums[0][0][i]";
    const char *row = emit_part(e, "i", 2 * right, left > 2 ? 2 : 0, 2);
    return emit_text(e, "sums[%s][%s][%s + %s]", emit_part(e, "i", 4 * right, left == 2, 1),
                     emit_part(e, "i", 1, right, 1), row, emit_part(e, "i", right, 2, 1));
}

static void print_move(const Print *w)
{
    Emit *e = w->e;
    const int left = warp_rows(e->body, 1), right = warp_rows(e->body, 2);
    emit_each(e, "i", 2 * left * right,
              "parts[warp][(lane / 4 * %d + i / %d) * %d + lane %% 4 * %d + i %% %d] = %s;", left,
              2 * right, w->p->side_n, 2 * right, 2 * right, result(w));
}

void tile_warps_cuda(Emit *e, const TileProgram *p)
{
    Print w = {.e = e, .p = p};
    w.tiles_m = ceil_div(e->body->axis[1].extent, p->side_m);
    w.tiles_n = ceil_div(e->body->axis[2].extent, p->side_n);
    print_places(&w);
    w.results = results_of(&w);
    w.ready =
        e->follow ? known_early(e->kernel, e->body) : NEW_ARRAY(e->arena, bool, e->body->insts.n);
    if (e->follow) prefetch(&w);
    emit_open(e, 0);
    for (const TileOp *op = p->op; op < p->op + p->nops; op++) switch (op->kind) {
        case T_LOAD: fetch_results(&w); break;
        case T_FILL: print_fill(&w); break;
        case T_LOOP:
            print_loop(&w, op);
            while (op->kind != T_END) op++;
            break;
        case T_MOVE: print_move(&w); break;
        case T_BARRIER: tile_barrier(e, p, op); break;
        case T_MAP: finish(&w, p->warps_k > 1 ? "sum" : result(&w)); break;
        default: break;
        }
    emit_end(e, "{");
}
