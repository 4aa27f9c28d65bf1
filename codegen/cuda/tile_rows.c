// Results from rows of sums in shared memory, as CUDA C: each thread processes vectors of
// neighbours in a row. If the blocks of a cluster divide k, each block computes some rows of their
// tile and reads the partial sums that all blocks have for them. Groups of four warps compute one
// part of the results at a time, each warp its own.
#include "codegen/cuda/tile_print.h"
#include "codegen/tile/wgmma.h"

enum { MOST_EARLY = 64 }; // registers for early loads

typedef struct Share {
    int vectors, threads, line; // line: vectors of a row
    const char *thread, *row, *m, *n;
    bool rest;    // the last block has fewer rows
    bool part;    // a part of the results of one warp of a group
    int64_t high; // rows from one tile to the next
} Share;

// The number of vectors of a row of a part. In a tile narrower than a part only existing vectors
// count, so that all threads have some. To add up rows, a thread must have the same columns in all
// its rows (nc_add_rows).
static int part_line(const RowPrint *w, const Tile *sums)
{
    enum { NARROWEST = 4 };
    const int wide = w->p->side_n < sums->line ? w->p->side_n : sums->line,
              line = wide / w->p->vector;
    if (!body_folds_results(w->e->body)) return line;
    return line <= NARROWEST ? NARROWEST : sums->line / w->p->vector;
}

static Share share_of(const RowPrint *w, const Tile *sums)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const Schedule *s = &e->body->sched;
    const int line = sums->line / p->vector;
    if (sums->of_warp && p->nroles) {
        const int own = part_line(w, sums);
        Share r = {BOX * own, 32, own, "thread", "", "part_m", "part_n", .part = true};
        r.high = group_high(e->body);
        return r;
    }
    if (sums->of_warp) {
        const int rows = sums->lines / (p->warps_m * p->warps_n);
        const char *strip = p->side_m > rows ? emit_text(e, " + strip * %d", rows) : "";
        Share r = {rows * line, 32, line, "lane", "", .n = "origin_n + warp_n", .high = s->tile.m};
        r.m = emit_text(e, "origin_m + warp_m%s", strip);
        return r;
    }
    const int rows = (int)ceil_div(s->tile.m, p->cluster), n = rows * line;
    Share r = {n, s->threads, line, "threadIdx.x", "", "origin_m", "origin_n", .high = s->tile.m};
    r.rest = rows * p->cluster > s->tile.m;
    if (p->nroles) { // the threads of the last role
        const TileRole *role = &p->role[p->nroles - 1];
        r.threads = role->warps * 32;
        r.thread = emit_text(e, "(int)threadIdx.x - %d", role->first * 32);
    }
    if (p->cluster > 1) r.row = emit_text(e, "%s * %d + ", p->nroles ? "rank" : "part", rows);
    return r;
}

static int results_a_thread(const Share *r)
{
    return (r->vectors + r->threads - 1) / r->threads;
}

// Declares the position of vector u of this thread, and opens the scopes of its conditions.
static void open_results(RowPrint *w, const Share *r, const char *base)
{
    Emit *e = w->e;
    slots_open(e, r->threads, r->thread);
    emit(e, "const int row = %sslot / %d, from = %s;", r->row, r->line,
         emit_part(e, "slot", 1, r->line, w->p->vector));
    if (r->rest) emit_open(e, 0);
    const int apart = r->part ? group_apart(e->body) : 1;
    if (r->part && wgmma_strips(e->body))
        group_place(e);
    else
        emit_int(e, e->axis[1], "%s + row%s", r->m, apart > 1 ? emit_text(e, " * %d", apart) : "");
    emit_int(e, base, "%s + from", r->n);
    if (r->part) emit_open(e, 0);
    emit_open(e, 1ull << 1)->guard = true;
}

// The condition that a position of a part is a result: the width of a tile need not be a multiple
// of a part's, and some positions of strips are no results.
static const char *part_has(RowPrint *w, const Share *r)
{
    Emit *e = w->e;
    const BodyStrips *strips = wgmma_strips(e->body);
    const int wide = w->p->side_n;
    const char *in = wide % (r->line * w->p->vector)
                         ? emit_text(e, "part_n + from < origin_n + %d", wide)
                         : "",
               *along = strips ? emit_text(e, "along < %lld", (long long)strips->results) : "";
    return emit_and(e, in, along);
}

static void close_results(RowPrint *w, const Share *r, const char *base)
{
    Emit *e = w->e;
    emit_if(e, result_inside(e, base, r->high));
    if (r->part) emit_if(e, part_has(w, r));
    if (r->rest) emit_end(e, "if (row < %d) { // else another block's", e->body->sched.tile.m);
    slots_close(e, r->vectors, r->threads, r->thread);
}

// Whether a load can be issued before the sums are known: its index and condition do not depend on
// loaded values. (Parts leave out loads that all rows share, which stay in the L1 cache.)
static bool comes_early(const Emit *e, int load, bool part)
{
    const Inst *v = &e->body->insts.at[load];
    if (part && !inst_over(v, 1)) return false;
    return !v->ix->has_value && !v->stage && (v->pred < 0 || inst_placed(e->body, v->pred));
}

// Chooses the loads that come before the sums, as registers allow, and declares their arrays, for
// [parts] parts.
static void choose_early(RowPrint *w, const Share *r, int parts)
{
    Emit *e = w->e;
    const Body *b = e->body;
    Vectors *v = &w->results;
    int taken = 0, each = results_a_thread(r);
    *v = result_vectors(e, w->p->vector);
    for (int i = 0; i < v->nloads; i++) {
        int load = v->loads[i];
        const DType t = load_dtype(b, load);
        const int registers = (int)ceil_div(dtype_info[t].bits * w->p->vector, 32) * each;
        if (!comes_early(e, load, r->part) || taken + registers > MOST_EARLY) continue;
        taken += registers;
        v->loads[i] = v->loads[w->early];
        v->loads[w->early++] = load;
        emit(e, "%s %s[%d];", slot_type(e, v, load), slot_name(e, load), parts * each);
    }
}

// Issues these loads, into the element [slot] of their arrays.
static void load_early(RowPrint *w, const Share *r, const char *slot)
{
    Emit *e = w->e;
    const Vectors *v = &w->results;
    const char *base = emit_text(e, "%s_first", e->axis[2]);
    if (!w->early) return;
    open_results(w, r, base);
    w->results.base = base;
    for (int i = 0; i < w->early; i++)
        print_vector_load(e, v, v->loads[i],
                          emit_text(e, "%s[%s]", slot_name(e, v->loads[i]), slot));
    close_results(w, r, base);
}

void rows_rest(RowPrint *w, const Tile *sums)
{
    Share r = share_of(w, sums);
    choose_early(w, &r, 1);
    load_early(w, &r, "u");
    if (w->e->body->commits && !w->p->nroles) stop_if_failed(w->e); // roles have tested it before
}

static const char *part_slot(Emit *e, const char *part, const Share *r)
{
    return emit_text(e, "%s * %d + u", part, results_a_thread(r));
}

void rows_declare_part(RowPrint *w, const Tile *sums)
{
    Share r = share_of(w, sums);
    choose_early(w, &r, wgmma_parts(w->e->body));
}

void rows_load_part(RowPrint *w, const Tile *sums, const char *part)
{
    Share r = share_of(w, sums);
    load_early(w, &r, part_slot(w->e, part, &r));
}

void rows_map(RowPrint *w, const Tile *sums)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const char *base = emit_text(e, "%s_first", e->axis[2]);
    Share r = share_of(w, sums);
    ResultVector v = {.base = base, .width = p->vector, .early = w->early, .slot = "u"};
    if (r.part) {
        v.slot = part_slot(e, "part", &r);
        v.sum = "sum.at[lane]";
        v.joined = "const NcVec<float, 8> sum = nc_of_part(sums, row, from);";
    } else if (sums->of_warp) {
        w->results = result_vectors(e, p->vector);
        v.sum = emit_text(e, "sums[row * %d + from + lane]", sums->pitch);
    } else {
        v.sum = "sum.at[lane]";
        v.joined = emit_text(
            e, "const NcVec<float, 4> sum = nc_joined<%d, %d, %d>(sums + row * %d + from, %s);",
            p->warps_k, p->cluster, e->body->sched.tile.m * sums->pitch, sums->pitch,
            p->cluster > 1 && !p->nroles ? "first_part" : "0");
    }
    const bool adds = body_folds_results(e->body);
    if (adds) {
        v.added = "added";
        emit(e, "float added[%d][8] = {};", ROW_SUMS);
    }
    open_results(w, &r, base);
    result_vector(e, &w->results, &v);
    close_results(w, &r, base);
    if (adds) // to the totals of this part's columns
        emit(e, "nc_add_rows<%d>(totals[%s], added, thread);", r.line,
             emit_part(e, "part", p->side_m / p->atom->m, 0, 1));
}
