// Sums by index (scatter_add) as CUDA C: a block finds the updates of its bins, in order, and adds
// them up in shared memory. A thread adds up one column of the result for each of its team's bins,
// so threads share only the list of the updates found.
#include "codegen/cuda/print_cuda.h"

enum { FLIGHT = 16, FEW = 4 }; // numbers of updates that are loaded before they are added

// Finds the block's updates among those from "from" on: "hit" and "hit_place" contain their numbers
// and bins, "all" is how many there are.
static void print_find(Emit *e, int guard, int looks)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *it = int_type(e);
    const long long cols = extent_of(b, b->col);
    const int warps = b->sched.threads / 32;
    emit(e, "uint32_t hits[%d];", looks);
    emit(e, "%s place[%d];", it, looks);
    emit(e, "int all = 0, at = 0;");
    emit_open(e, 1ull << b->col);
    const char *look = emit_count("look", looks),
               *turn = emit_plus(e, emit_scaled(e, "warp", looks), look);
    if (looks > 1) turn = emit_text(e, "(%s)", turn);
    emit(e, "const %s own = from + %s * 32 + lane;", it, turn);
    emit_int(e, c, "nc_min(own, (%s)%lld)", it, cols - 1);
    const char *hit =
        emit_and(e, emit_text(e, "own < %lld", cols), guard < 0 ? "" : emit_value(e, guard));
    emit(e, "place[%s] = %s;", look,
         emit_part(e, emit_value(e, b->bins.place), b->bins.shares, 0, 1));
    emit(e, "hits[%s] = __ballot_sync(0xffffffffu, %s);", look, hit);
    emit(e, "all += __popc(hits[%s]);", look);
    emit_times(e, "look", looks);
    emit(e, "if (lane == 0) found[warp] = all;");
    emit(e, "__syncthreads();");
    emit(e, "all = 0;");
    emit_open(e, 0);
    emit(e, "at += other < warp ? found[other] : 0;");
    emit(e, "all += found[other];");
    emit_end(e, "for (int other = 0; other < %d; other++) {", warps);
    emit_open(e, 0);
    emit_open(e, 0);
    emit(e, "const int to = at + __popc(hits[%s] & ((1u << lane) - 1));", look);
    emit(e, "hit[to] = from + %s * 32 + lane;", turn);
    emit(e, "hit_place[to] = place[%s];", look);
    emit_end(e, "if (hits[%s] >> lane & 1) {", look);
    emit(e, "at += __popc(hits[%s]);", look);
    emit_times(e, "look", looks);
    emit(e, "__syncthreads();");
}

// The conditions of the guard are true for the updates found.
static void bind_true(Emit *e, int guard)
{
    const Inst *v = &e->body->insts.at[guard];
    emit_bind(e, guard, e->scope, "true");
    for (int i = 0; v->kind == KI_EW && v->op == OP_and && i < v->na; i++) bind_true(e, v->a[i]);
}

// Adds updates of the set [mine], loading [flight] of them at a time: while there are as many, or
// (last) all of them, repeating loads of the last one.
static void print_add(Emit *e, int guard, int flight, bool last)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col];
    emit_open(e, 0);
    emit(e, "%s x[%d];", type_math(b->insts.at[b->bins.sum].type), flight);
    emit(e, "int at[%d];", flight);
    if (last) emit(e, "const int left = __popc(mine);");
    emit_open(e, 1ull << b->col);
    emit(e, "at[u] = %s;",
         last ? "u && !mine ? at[u - 1] : next + __ffs(mine) - 1" : "next + __ffs(mine) - 1");
    emit(e, "mine &= mine - 1;");
    emit_int(e, c, "hit[at[u]]");
    if (guard >= 0) bind_true(e, guard);
    emit(e, "x[u] = %s;", emit_value(e, b->insts.at[b->bins.sum].a[0]));
    emit_times(e, "u", flight);
    emit_open(e, 0);
    emit(e, "%ssums[hit_place[at[u]] * %d] += x[u];", last ? "if (u < left) " : "",
         bins_apart_of(b));
    emit_times(e, "u", flight);
    emit_end(e, last ? "while (mine) {" : "while (__popc(mine) >= %d) {", flight);
}

// Of few columns: the block loads as many of the updates found as it has threads, a column of one
// each; then each team adds those of its bins.
static void print_add_narrow(Emit *e, int guard)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *own = e->axis[1];
    const int cols = bins_apart_of(b), each = b->sched.threads / cols;
    const char *row = cols > 1 ? emit_text(e, "threadIdx.x / %d", cols) : "threadIdx.x";
    emit_open(e, 0);
    emit(e, "const int last = nc_min(first + %d, all);", each);
    emit_open(e, 1ull << b->col | 2);
    emit_int(e, c, "hit[first + %s]", row);
    e->axis[1] = "column";
    emit_int(e, e->axis[1], "%s", cols > 1 ? emit_text(e, "threadIdx.x %% %d", cols) : "0");
    if (guard >= 0) bind_true(e, guard);
    emit(e, "added[threadIdx.x] = %s;", emit_value(e, b->insts.at[b->bins.sum].a[0]));
    e->axis[1] = own;
    emit_end(e, "if (first + (int)%s < last) {", row);
    emit(e, "__syncthreads();");
    emit_open(e, 0);
    emit(e,
         "uint32_t mine = __ballot_sync(0xffffffffu, next + lane < last && "
         "hit_place[nc_min(next + lane, last - 1)] %% %d == team);",
         bins_teams_of(b));
    emit_open(e, 0);
    emit(e, "const int at = next + __ffs(mine) - 1;");
    emit(e, "if (inside) sums[%s] += added[%s + own_col];", emit_scaled(e, "hit_place[at]", cols),
         emit_scaled(e, "(at - first)", cols));
    emit_end(e, "for (; mine; mine &= mine - 1) {");
    emit_end(e, "for (int next = first; next < last; next += 32) {");
    emit(e, "__syncthreads();");
    emit_end(e, "for (int first = 0; first < all; first += %d) {", each);
}

// Adds the updates found that are of the team's bins; a warp looks at 32 of them at a time.
static void print_add_found(Emit *e, int guard)
{
    if (bins_narrow(e->body)) {
        print_add_narrow(e, guard);
        return;
    }
    const int n = bins_teams_of(e->body);
    emit_open(e, 0);
    if (n > 1)
        emit(e,
             "uint32_t mine = __ballot_sync(0xffffffffu, next + lane < all && "
             "hit_place[nc_min(next + lane, all - 1)] %% %d == team);",
             n);
    else
        emit(e, "uint32_t mine = all - next < 32 ? (1u << (all - next)) - 1 : 0xffffffffu;");
    print_add(e, guard, FLIGHT, false);
    print_add(e, guard, FEW, true);
    emit_end(e, "for (int next = 0; next < all; next += 32) {");
}

// Code of a loop over the places of the thread's team.
static const char *over_places(Emit *e)
{
    const Body *b = e->body;
    const long long held = b->bins.held, each = held / bins_teams_of(b);
    if (bins_teams_of(b) == 1) return emit_text(e, "for (int held = 0; held < %lld; held++)", held);
    if (b->bins.ordered < 0)
        return emit_text(e, "for (int held = team; held < %lld; held += %d)", held,
                         bins_teams_of(b));
    return emit_text(e, "for (int held = team * %lld; held < (team + 1) * %lld; held++)", each,
                     each);
}

// -- frequent places of a chunk -------------------------------------------------------------------

// The chunk's updates, one a thread, find the first one of the same place in a table of threads
// (where two places meet in a cell, those of the later one are left alone). Places with FEWEST
// updates get rows, in the order of their first updates.
static void print_leaders(Emit *e)
{
    enum { FEWEST = 4 };
    const Body *b = e->body;
    const int threads = b->sched.threads, warps = threads / 32, rows = (int)b->bins.held;
    emit(e, "places[threadIdx.x] = place;");
    emit(e, "__syncthreads();");
    emit(e, "if (real) atomicMin(&cells[place & %d], (int)threadIdx.x);", BINS_CELLS - 1);
    emit(e, "__syncthreads();");
    emit(e, "const int first = cells[place & %d];", BINS_CELLS - 1);
    emit(e, "const bool same = real && places[first] == place;");
    emit(e, "if (same) atomicAdd(&counts[first], 1);");
    emit(e, "__syncthreads();");
    emit(e, "const bool leads = same && first == (int)threadIdx.x && counts[threadIdx.x] >= %d;",
         FEWEST);
    emit(e, "const uint32_t leaders = __ballot_sync(0xffffffffu, leads);");
    emit(e, "if (lane == 0) found[warp] = __popc(leaders);");
    emit(e, "__syncthreads();");
    emit(e, "int own_row = __popc(leaders & ((1u << lane) - 1));");
    emit_open(e, 0);
    emit(e, "own_row += other < warp ? found[other] : 0;");
    emit(e, "used += found[other];");
    emit_end(e, "for (int other = 0; other < %d; other++) {", warps);
    emit(e, "used = nc_min(used, %d);", rows);
    emit(e, "if (leads && own_row < %d) row_of[threadIdx.x] = own_row;", rows);
    emit(e, "__syncthreads();");
    emit(e, "const int row = same ? row_of[first] : -1;");
}

// What is left of the chunk, and the places of its rows.
static void print_entries(Emit *e)
{
    const Body *b = e->body;
    const int threads = b->sched.threads, rows = (int)b->bins.held;
    emit_open(e, 0);
    emit(e, "int *const entry = %s + (size_t)%s * %d;", e->buf_name[b->stores.at[1].buf],
         e->axis[0], threads + rows);
    emit(e, "entry[threadIdx.x] = real && row < 0 ? place : -1;");
    emit(e, "if (leads && own_row < %d) entry[%d + own_row] = place;", rows, threads);
    emit(e, "if (threadIdx.x >= used && threadIdx.x < %d) entry[%d + threadIdx.x] = -1;", rows,
         threads);
    emit_end(e, "if (block %% %lld == 0) {", (long long)bins_blocks_across(b->axis[1].extent));
}

static void print_frequent(Emit *e)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *it = int_type(e),
               *type = type_math(b->insts.at[b->bins.sum].type);
    const int threads = b->sched.threads, warps = threads / 32;
    const long long cols = extent_of(b, b->col);
    emit(e, "%s *const hit = (%s *)((%s *)nc_shared + %lld);", it, it, type,
         (long long)bins_lists(b));
    emit(e, "%s *const hit_place = hit + %d;", it, threads);
    emit(e, "int *const cells = (int *)(hit_place + %d);", threads);
    emit(e, "int *const places = cells + %d, *const counts = places + %d;", BINS_CELLS, threads);
    emit(e, "int *const row_of = counts + %d, *const found = row_of + %d;", threads, threads);
    emit(e, "for (int cell = threadIdx.x; cell < %d; cell += %d) cells[cell] = %d;", BINS_CELLS,
         threads, threads - 1);
    emit(e, "counts[threadIdx.x] = 0;");
    emit(e, "row_of[threadIdx.x] = -1;");
    emit(e, "int all = 0, used = 0;");
    emit_open(e, 1ull << b->col);
    emit(e, "const %s own = (%s)%s * %d + (%s)threadIdx.x;", it, it, e->axis[0], threads, it);
    emit(e, "const bool real = own < %lld;", cols);
    emit_int(e, c, "nc_min(own, (%s)%lld)", it, cols - 1);
    emit(e, "const int place = (int)%s;", emit_value(e, b->bins.same));
    print_leaders(e);
    print_entries(e);
    emit(e, "const uint32_t hits = __ballot_sync(0xffffffffu, row >= 0);");
    emit(e, "if (lane == 0) found[warp] = __popc(hits);");
    emit(e, "__syncthreads();");
    emit(e, "int to = __popc(hits & ((1u << lane) - 1));");
    emit_open(e, 0);
    emit(e, "to += other < warp ? found[other] : 0;");
    emit(e, "all += found[other];");
    emit_end(e, "for (int other = 0; other < %d; other++) {", warps);
    emit_open(e, 0);
    emit(e, "hit[to] = own;");
    emit(e, "hit_place[to] = row;");
    emit_end(e, "if (row >= 0) {");
    emit_end(e, "{");
    emit(e, "__syncthreads();");
    print_add_found(e, -1);
}

// -- results --------------------------------------------------------------------------------------

// Stores results: the store's value, with the sum of a bin in place of the update.
static void print_results(Emit *e)
{
    const Body *b = e->body;
    BodyStore s = b->stores.at[0];
    s.guard = 0;
    emit(e, "#pragma unroll 8");
    emit_open(e, 0);
    const bool frequent = b->bins.ordered < 0 && b->bins.chunk;
    if (b->bins.ordered >= 0 || frequent)
        emit(e, "const %s place = %s * %lld + held;", int_type(e), e->axis[0],
             (long long)b->bins.held);
    else
        emit_int(e, "place", "%s",
                 emit_plus(e, emit_scaled(e, "held", b->bins.shares),
                           emit_part(e, e->axis[0], 1, b->bins.shares, 1)));
    emit_open(e, 0);
    emit_bind(e, b->bins.place, e->scope, "place");
    emit(e, "const %s sum = sums[%s];", type_math(b->insts.at[b->bins.sum].type),
         emit_scaled(e, "held", bins_apart_of(b)));
    emit_bind(e, b->bins.sum, e->scope, "sum");
    if (b->bins.part) emit_open(e, 0);
    emit_store(e, &s);
    if (b->bins.part) emit_end(e, "if (sum != 0) {");
    emit_end(e, "if (inside && %s) {",
             frequent ? "held < used" : emit_text(e, "place < %lld", (long long)b->bins.places));
    emit_end(e, "%s {", over_places(e));
}

// The sums of a block's places, whose updates may be anywhere.
static void print_unordered(Emit *e)
{
    const Body *b = e->body;
    const int guard = b->stores.at[0].guard - 1, threads = b->sched.threads, looks = bins_looks(b);
    const char *it = int_type(e), *type = type_math(b->insts.at[b->bins.sum].type);
    emit(e, "%s *const hit = (%s *)((%s *)nc_shared + %lld);", it, it, type,
         (long long)bins_lists(b));
    emit(e, "%s *const hit_place = hit + %d;", it, looks * threads);
    emit(e, "int *const found = (int *)(hit_place + %d);", looks * threads);
    emit_open(e, 0);
    print_find(e, guard, looks);
    print_add_found(e, guard);
    emit_loop(e, it, "from", "0", emit_number(e, extent_of(b, b->col)), looks * threads);
}

void bins_cuda(Emit *e)
{
    const Body *b = e->body;
    const int threads = bins_team_threads(b);
    const char *it = int_type(e), *type = type_math(b->insts.at[b->bins.sum].type);
    const long long cols = b->axis[1].extent, across = bins_blocks_across(cols);
    emit_open(e, 3);
    e->scope->indent = e->scope->up->indent;
    emit(e, "const int lane = threadIdx.x %% 32, warp = threadIdx.x / 32;");
    emit_int(e, e->axis[0], "block / %lld", across);
    if (bins_teams_of(b) > 1) emit(e, "const int team = threadIdx.x / %d;", threads);
    emit(e, "const int own_col = threadIdx.x%s;",
         bins_teams_of(b) > 1 ? emit_text(e, " %% %d", threads) : "");
    emit(e, "const %s result = %s %% %lld * %d + own_col;", it, block_number(e), across, threads);
    emit(e, "const bool inside = result < %lld;", cols);
    emit_int(e, e->axis[1], "nc_min(result, (%s)%lld)", it, cols - 1);
    emit(e, "%s *const sums = (%s *)nc_shared + own_col;", type, type);
    emit(e, "%s %ssums[%s] = 0;", over_places(e), bins_narrow(b) ? "if (inside) " : "",
         emit_scaled(e, "held", bins_apart_of(b)));
    if (bins_narrow(b))
        emit(e, "%s *const added = (%s *)nc_shared + %lld;", type, type, (long long)bins_sums(b));
    if (b->bins.ordered >= 0)
        bins_ordered_cuda(e);
    else if (b->bins.chunk)
        print_frequent(e);
    else
        print_unordered(e);
    print_results(e);
    emit_close(e, NULL, NULL);
}
