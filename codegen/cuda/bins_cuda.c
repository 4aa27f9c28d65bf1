// Sums by index (scatter_add) as CUDA C: a block finds the updates of its bins, in order, and adds
// them up in shared memory. A thread adds up one column of the result for each of its team's bins,
// so threads share only the list of the updates found.
#include "codegen/cuda/print_cuda.h"

enum { FLIGHT = 16, FEW = 4 }; // numbers of updates that are loaded before they are added

static int team_threads(const Body *b)
{
    return bins_threads(b->axis[1].extent, b->bins.ordered >= 0);
}

static int teams(const Body *b)
{
    return bins_teams(b->axis[1].extent, b->bins.ordered >= 0);
}

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
    emit(e, "#pragma unroll");
    emit_open(e, 1ull << b->col);
    emit(e, "const %s own = from + (warp * %d + look) * 32 + lane;", it, looks);
    emit_int(e, c, "nc_min(own, (%s)%lld)", it, cols - 1);
    const char *hit = guard < 0 ? "true" : emit_value(e, guard);
    emit(e, "place[look] = %s / %lld;", emit_value(e, b->bins.place), (long long)b->bins.shares);
    emit(e, "hits[look] = __ballot_sync(0xffffffffu, own < %lld && %s);", cols, hit);
    emit(e, "all += __popc(hits[look]);");
    emit_end(e, "for (int look = 0; look < %d; look++) {", looks);
    emit(e, "if (lane == 0) found[warp] = all;");
    emit(e, "__syncthreads();");
    emit(e, "all = 0;");
    emit_open(e, 0);
    emit(e, "at += other < warp ? found[other] : 0;");
    emit(e, "all += found[other];");
    emit_end(e, "for (int other = 0; other < %d; other++) {", warps);
    emit(e, "#pragma unroll");
    emit_open(e, 0);
    emit_open(e, 0);
    emit(e, "const int to = at + __popc(hits[look] & ((1u << lane) - 1));");
    emit(e, "hit[to] = from + (warp * %d + look) * 32 + lane;", looks);
    emit(e, "hit_place[to] = place[look];");
    emit_end(e, "if (hits[look] >> lane & 1) {");
    emit(e, "at += __popc(hits[look]);");
    emit_end(e, "for (int look = 0; look < %d; look++) {", looks);
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
    const char *step = emit_text(e, "for (int u = 0; u < %d; u++) {", flight);
    emit_open(e, 0);
    emit(e, "%s x[%d];", type_math(b->insts.at[b->bins.sum].type), flight);
    emit(e, "int at[%d];", flight);
    if (last) emit(e, "const int left = __popc(mine);");
    emit(e, "#pragma unroll");
    emit_open(e, 1ull << b->col);
    emit(e, "at[u] = %s;",
         last ? "u && !mine ? at[u - 1] : next + __ffs(mine) - 1" : "next + __ffs(mine) - 1");
    emit(e, "mine &= mine - 1;");
    emit_int(e, c, "hit[at[u]]");
    if (guard >= 0) bind_true(e, guard);
    emit(e, "x[u] = %s;", emit_value(e, b->insts.at[b->bins.sum].a[0]));
    emit_end(e, "%s", step);
    emit(e, "#pragma unroll");
    emit_open(e, 0);
    emit(e, "%ssums[hit_place[at[u]] * %d] += x[u];", last ? "if (u < left) " : "",
         team_threads(b));
    emit_end(e, "%s", step);
    emit_end(e, last ? "while (mine) {" : "while (__popc(mine) >= %d) {", flight);
}

// Adds the updates found that are of the team's bins; a warp looks at 32 of them at a time.
static void print_add_found(Emit *e, int guard)
{
    const int n = teams(e->body);
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
    const long long held = b->bins.held, each = held / teams(b);
    if (teams(b) == 1) return emit_text(e, "for (int held = 0; held < %lld; held++)", held);
    if (b->bins.ordered < 0)
        return emit_text(e, "for (int held = team; held < %lld; held += %d)", held, teams(b));
    return emit_text(e, "for (int held = team * %lld; held < (team + 1) * %lld; held++)", each,
                     each);
}

// For places in order: the team's columns begin at [next] and end before [end]. A binary search
// finds both, in even and odd lanes. Only the first and the last place can be outside of all
// blocks' places, so these two are checked.
static void print_ordered(Emit *e)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *it = int_type(e),
               *t = type_math(b->insts.at[b->bins.ordered].type);
    const long long cols = extent_of(b, b->col), held = b->bins.held;
    emit_open(e, 1ull << b->col);
    emit_int(e, c, "(%s)threadIdx.x * %lld", it, cols - 1);
    emit(e, "(void)%s;", emit_value(e, b->bins.place));
    emit_end(e, "if (block == 0 && threadIdx.x < 2) {");
    emit(e, "%s low = 0, high = %lld;", it, cols);
    if (teams(b) > 1)
        emit(e, "const long long bound = (long long)%s * %lld + (team + lane %% 2) * %lld;",
             e->axis[0], held, held / teams(b));
    else
        emit(e, "const long long bound = (long long)(%s + lane %% 2) * %lld;", e->axis[0], held);
    emit_open(e, 1ull << b->col);
    emit_int(e, c, "low + (high - low) / 2");
    emit(e, "const %s found = %s;", t, emit_value(e, b->bins.ordered));
    emit(e, "if ((long long)found < bound) low = %s + 1;", c);
    emit(e, "else high = %s;", c);
    emit_end(e, "while (low < high) {");
    emit(e, "%s next = __shfl_sync(0xffffffffu, low, lane & ~1);", it);
    emit(e, "const %s end = __shfl_sync(0xffffffffu, low, lane | 1);", it);
}

// Adds the columns from [next] on, [flight] at a time: as long as there are as many, or (last) to
// the end.
static void print_add_ordered(Emit *e, int flight, bool last)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *at = "next + u", *it = int_type(e);
    const char *step = emit_text(e, "for (int u = 0; u < %d; u++) {", flight);
    emit_open(e, 0);
    emit(e, "%s x[%d];", type_math(b->insts.at[b->bins.sum].type), flight);
    emit(e, "int place[%d];", flight);
    emit(e, "#pragma unroll");
    emit_open(e, 1ull << b->col);
    emit_int(e, c, "%s", last ? emit_text(e, "nc_min(%s, (%s)(end - 1))", at, it) : at);
    emit(e, "place[u] = (int)(%s - (%s)%s * %lld);", emit_value(e, b->bins.ordered), it, e->axis[0],
         (long long)b->bins.held);
    emit(e, "x[u] = %s;", emit_value(e, b->insts.at[b->bins.sum].a[0]));
    emit_end(e, "%s", step);
    emit(e, "#pragma unroll");
    emit_open(e, 0);
    emit(e, "%ssums[place[u] * %d] += x[u];", last ? emit_text(e, "if (%s < end) ", at) : "",
         team_threads(b));
    emit_end(e, "%s", step);
    emit_end(e,
             last ? "for (; next < end; next += %d) {" : "for (; next + %d <= end; next += %d) {",
             flight, flight);
}

// The values of updates that all columns share, of those that the sum is computed from: at most
// [shared] has room for all instructions.
static int find_shared(const Emit *e, int *shared)
{
    const Body *b = e->body;
    const uint64_t others = ~(1ull | 1ull << b->col);
    uint64_t *marks = NEW_ARRAY(e->arena, uint64_t, b->insts.n);
    int n = 0;
    marks[b->bins.ordered] = marks[b->insts.at[b->bins.sum].a[0]] = 1;
    for (uint32_t i = b->insts.n; i-- > 0;) {
        const Inst *v = &b->insts.at[i];
        if (!marks[i] || v->kind == KI_INDEX || !inst_over(v, b->col)) continue;
        if (v->axes & others)
            inst_mark(b, (int)i, 1, marks);
        else
            shared[n++] = (int)i;
    }
    return n;
}

// Adds updates from [first] on of the [count] that the warp's lanes have looked at, [flight] at a
// time: as long as there are as many, or (last) to the end.
static void print_add_looked(Emit *e, const int *shared, int n, int flight, bool last)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *const step =
                                         emit_text(e, "for (int u = 0; u < %d; u++) {", flight);
    emit_open(e, 0);
    emit(e, "%s x[%d];", type_math(b->insts.at[b->bins.sum].type), flight);
    emit(e, "int place[%d];", flight);
    emit(e, "#pragma unroll");
    emit_open(e, 1ull << b->col);
    e->axis[b->col] = last ? "(next + nc_min(first + u, count - 1))" : "(next + first + u)";
    for (int k = 0; k < n; k++) {
        const char *name = e->name[shared[k]];
        emit(e, "const %s %s_u = __shfl_sync(0xffffffffu, %s, first + u);",
             type_math(b->insts.at[shared[k]].type), name, name);
        emit_bind(e, shared[k], e->scope, emit_text(e, "%s_u", name));
    }
    emit(e, "place[u] = (int)(%s - (%s)%s * %lld);", emit_value(e, b->bins.ordered), int_type(e),
         e->axis[0], (long long)b->bins.held);
    emit(e, "x[u] = %s;", emit_value(e, b->insts.at[b->bins.sum].a[0]));
    emit_end(e, "%s", step);
    e->axis[b->col] = c;
    emit(e, "#pragma unroll");
    emit_open(e, 0);
    emit(e, "%ssums[place[u] * %d] += x[u];", last ? "if (first + u < count) " : "",
         team_threads(b));
    emit_end(e, "%s", step);
    emit_end(e,
             last ? "for (; first < count; first += %d) {"
                  : "for (; first + %d <= count; first += %d) {",
             flight, flight);
}

// Adds the updates from [next] to [end]. What does not depend on the column is computed once for
// the columns of a warp: each lane looks at one of 32 updates.
static void print_add_shared(Emit *e)
{
    const Body *b = e->body;
    const char *it = int_type(e);
    int *shared = NEW_ARRAY(e->arena, int, b->insts.n);
    const int n = find_shared(e, shared);
    emit_open(e, 1ull << b->col);
    emit_int(e, e->axis[b->col], "nc_min(next + lane, (%s)(end - 1))", it);
    emit(e, "const int count = (int)nc_min(end - next, (%s)32);", it);
    for (int k = n; k-- > 0;) emit_value(e, shared[k]);
    emit(e, "int first = 0;");
    print_add_looked(e, shared, n, FLIGHT, false);
    print_add_looked(e, shared, n, FEW, true);
    emit_end(e, "for (; next < end; next += 32) {");
}

// Stores results: the store's value, with the sum of a bin in place of the update.
static void print_results(Emit *e)
{
    const Body *b = e->body;
    BodyStore s = b->stores.at[0];
    s.guard = 0;
    emit(e, "#pragma unroll 8");
    emit_open(e, 0);
    if (b->bins.ordered >= 0)
        emit(e, "const %s place = %s * %lld + held;", int_type(e), e->axis[0],
             (long long)b->bins.held);
    else
        emit(e, "const %s place = held * %lld + %s %% %lld;", int_type(e),
             (long long)b->bins.shares, e->axis[0], (long long)b->bins.shares);
    emit_open(e, 0);
    emit_bind(e, b->bins.place, e->scope, "place");
    emit(e, "const %s sum = sums[held * %d];", type_math(b->insts.at[b->bins.sum].type),
         team_threads(b));
    emit_bind(e, b->bins.sum, e->scope, "sum");
    if (b->bins.part) emit_open(e, 0);
    emit_store(e, &s);
    if (b->bins.part) emit_end(e, "if (sum != 0) {");
    emit_end(e, "if (inside && place < %lld) {", (long long)b->bins.places);
    emit_end(e, "%s {", over_places(e));
}

// The sums of a block's places, whose updates may be anywhere.
static void print_unordered(Emit *e)
{
    const Body *b = e->body;
    const int guard = b->stores.at[0].guard - 1, threads = b->sched.threads, looks = bins_looks(b);
    const char *it = int_type(e), *type = type_math(b->insts.at[b->bins.sum].type);
    emit(e, "%s *const hit = (%s *)((%s *)nc_shared + %lld);", it, it, type,
         (long long)b->bins.held * team_threads(b));
    emit(e, "%s *const hit_place = hit + %d;", it, looks * threads);
    emit(e, "int *const found = (int *)(hit_place + %d);", looks * threads);
    emit_open(e, 0);
    print_find(e, guard, looks);
    print_add_found(e, guard);
    emit_end(e, "for (%s from = 0; from < %lld; from += %d) {", it, extent_of(b, b->col),
             looks * threads);
}

void bins_cuda(Emit *e)
{
    const Body *b = e->body;
    const int threads = team_threads(b);
    const char *it = int_type(e), *type = type_math(b->insts.at[b->bins.sum].type);
    const long long cols = b->axis[1].extent, across = bins_blocks_across(cols);
    emit_open(e, 3);
    e->scope->indent = e->scope->up->indent;
    emit(e, "const int lane = threadIdx.x %% 32, warp = threadIdx.x / 32;");
    emit_int(e, e->axis[0], "block / %lld", across);
    if (teams(b) > 1) emit(e, "const int team = threadIdx.x / %d;", threads);
    emit(e, "const int own_col = threadIdx.x%s;",
         teams(b) > 1 ? emit_text(e, " %% %d", threads) : "");
    emit(e, "const %s result = (%s)(block %% %lld) * %d + own_col;", it, it, across, threads);
    emit(e, "const bool inside = result < %lld;", cols);
    emit_int(e, e->axis[1], "nc_min(result, (%s)%lld)", it, cols - 1);
    emit(e, "%s *const sums = (%s *)nc_shared + own_col;", type, type);
    emit(e, "%s sums[held * %d] = 0;", over_places(e), threads);
    if (b->bins.ordered >= 0) {
        print_ordered(e);
        if (threads % 32 == 0) {
            print_add_shared(e);
        } else {
            print_add_ordered(e, FLIGHT, false);
            print_add_ordered(e, FEW, true);
        }
    } else {
        print_unordered(e);
    }
    print_results(e);
    emit_close(e, NULL, NULL);
}
