// Sums by index whose updates are sorted by place (passes/scatter.c), as CUDA C: a team of threads
// has neighbouring places, so its updates are neighbours, too. A search finds the first and the
// last of them.
//
// Where a place may have many updates (Body.bins.chunk), chunks of them have been added up by a
// kernel before, each by a team of its own. Both kernels are printed here.
#include "codegen/cuda/print_cuda.h"

enum { WARP = 32, FLIGHT = 16, FEW = 4 }; // FLIGHT, FEW: updates loaded before they are added

// Only the first and the last place can be outside of all blocks' places, so these two are checked.
static void print_checks(Emit *e)
{
    const Body *b = e->body;
    emit_open(e, 1ull << b->col);
    emit_int(e, e->axis[b->col], "(%s)threadIdx.x * %lld", int_type(e), extent_of(b, b->col) - 1);
    emit(e, "(void)%s;", emit_value(e, b->bins.place));
    emit_end(e, "if (block == 0 && threadIdx.x < 2) {");
}

// Updates are added in two loops: [flight] at a time from number [at] on, as long as there are as
// many before [end]; then (last) to the end. Opens such a loop, and the one that loads its updates.
static void open_flight(Emit *e, int flight)
{
    const Body *b = e->body;
    emit_open(e, 0);
    emit(e, "%s x[%d];", type_math(b->insts.at[b->bins.sum].type), flight);
    emit(e, "int place[%d];", flight);
    emit_open(e, 1ull << b->col);
}

// Loads an update, whose column is known, and opens the loop that adds the loaded ones.
static void load_flight(Emit *e, int flight)
{
    const Body *b = e->body;
    emit(e, "place[u] = (int)(%s - (%s)%s * %lld);", emit_value(e, b->bins.ordered), int_type(e),
         e->axis[0], (long long)b->bins.held);
    emit(e, "x[u] = %s;", emit_value(e, b->insts.at[b->bins.sum].a[0]));
    emit_times(e, "u", flight);
    emit_open(e, 0);
}

static void close_flight(Emit *e, const char *at, const char *end, int flight, bool last)
{
    emit_times(e, "u", flight);
    if (last)
        emit_end(e, "for (; %s < %s; %s += %d) {", at, end, at, flight);
    else
        emit_end(e, "for (; %s + %d <= %s; %s += %d) {", at, flight, end, at, flight);
}

// The index at the column in question, as [found].
static void print_found(Emit *e)
{
    const Body *b = e->body;
    emit(e, "const %s found = %s;", type_math(b->insts.at[b->bins.ordered].type),
         emit_value(e, b->bins.ordered));
}

// -- chunks of updates of one place ---------------------------------------------------------------

// Declares same, which is what columns of a chunk must share.
static void print_same(Emit *e)
{
    const Body *b = e->body;
    const char *it = int_type(e), *c = e->axis[b->col];
    const long long chunk = b->bins.chunk;
    emit_open(e, 1ull << b->col);
    emit(e, "return %s;", emit_value(e, b->bins.same));
    emit_close(e, emit_text(e, "const auto same = [&](const %s %s) {", it, c), "};");
    emit(e,
         "const auto single = [&](const %s chunk) { return same(chunk) == same(chunk + %lld); };",
         it, chunk - 1);
}

static bool adds_chunks(const Body *b) // (to be used by the next body)
{
    return b->bins.same != b->bins.ordered;
}

// The team's chunk, if its updates are of one place; otherwise nothing.
static void print_own_chunk(Emit *e)
{
    const Body *b = e->body;
    const char *it = int_type(e);
    const long long chunk = b->bins.chunk;
    const char *own = emit_scaled(e, e->axis[0], b->bins.held);
    if (bins_teams_of(b) > 1) own = emit_text(e, "(%s)", emit_plus(e, own, "team"));
    emit(e, "%s next = (%s)%s * %lld;", it, it, own, chunk);
    emit(e, "const %s end = next < %lld && single(next) ? next + %lld : next;", it,
         extent_of(b, b->col), chunk);
}

// Code between these two adds the updates from [next] on that are before [stop], where the sums of
// chunks begin; close_chunks adds these to the variable [total], between the statements [before]
// and [after].
static void open_chunks(Emit *e)
{
    const long long chunk = e->body->bins.chunk;
    emit_open(e, 0);
    emit(e, "%s stop = (next + %lld) / %lld * %lld;", int_type(e), chunk - 1, chunk, chunk);
    emit(e, "while (stop + %lld <= end && !single(stop)) stop += %lld;", chunk, chunk);
    emit(e, "if (stop + %lld > end) stop = end;", chunk);
}

static void close_chunks(Emit *e, const char *before, const char *after)
{
    const Body *b = e->body;
    const char *it = int_type(e);
    const long long chunk = b->bins.chunk;
    emit(e, "next = stop;");
    emit_open(e, 0); // the chunks of the same place: a binary search for the last of them
    emit(e, "%s low = stop / %lld + 1, high = end / %lld;", it, chunk, chunk);
    emit_open(e, 0);
    emit(e, "const %s half = low + (high - low) / 2;", it);
    emit(e, "if (same(half * %lld + %lld) == same(stop)) low = half + 1;", chunk, chunk - 1);
    emit(e, "else high = half;");
    emit_end(e, "while (low < high) {");
    emit(e, "const int place = (int)(same(stop) - (%s)%s * %lld);", it, e->axis[0],
         (long long)b->bins.held);
    emit(e, "%s", before);
    emit(e, "#pragma unroll %d", FLIGHT);
    emit_open(e, 1ull << b->col);
    emit_int(e, e->axis[b->col], "next");
    emit(e, "total += %s;", emit_value(e, b->insts.at[b->bins.sum].a[1]));
    emit_end(e, "for (; next < low * %lld; next += %lld) {", chunk, chunk);
    if (after) emit(e, "%s", after);
    emit_end(e, "if (stop < end) {");
    emit_end(e, "while (next < end) {");
}

// -- a part of a warp for each team ---------------------------------------------------------------

// The team's columns begin at [next] and end before [end]: a binary search in even and odd lanes.
static void print_search(Emit *e)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col], *it = int_type(e);
    const long long held = b->bins.held, each = held / bins_teams_of(b);
    emit(e, "%s low = 0, high = %lld;", it, extent_of(b, b->col));
    emit(e, "const long long bound = (long long)%s * %lld + (team + lane %% 2) * %lld;", e->axis[0],
         held, each);
    emit_open(e, 1ull << b->col);
    emit_int(e, c, "low + (high - low) / 2");
    print_found(e);
    emit(e, "if ((long long)found < bound) low = %s + 1;", c);
    emit(e, "else high = %s;", c);
    emit_end(e, "while (low < high) {");
    emit(e, "%s next = __shfl_sync(0xffffffffu, low, lane & ~1);", it);
    emit(e, "const %s end = __shfl_sync(0xffffffffu, low, lane | 1);", it);
}

// Adds the columns from [next] on.
static void print_add(Emit *e, const char *end, int flight, bool last)
{
    const Body *b = e->body;
    open_flight(e, flight);
    emit_int(e, e->axis[b->col], "%s",
             last ? emit_text(e, "nc_min(next + u, (%s)(%s - 1))", int_type(e), end) : "next + u");
    load_flight(e, flight);
    emit(e, "%ssums[place[u] * %d] += x[u];", last ? emit_text(e, "if (next + u < %s) ", end) : "",
         bins_team_threads(b));
    close_flight(e, "next", end, flight, last);
}

static void print_add_all(Emit *e)
{
    const Body *b = e->body;
    const bool chunks = b->bins.chunk && !adds_chunks(b);
    const char *end = chunks ? "stop" : "end";
    if (chunks) open_chunks(e);
    print_add(e, end, FLIGHT, false);
    print_add(e, end, FEW, true);
    if (chunks)
        close_chunks(e,
                     emit_text(e, "%s total = sums[place * %d];",
                               type_math(b->insts.at[b->bins.sum].type), bins_team_threads(b)),
                     emit_text(e, "sums[place * %d] = total;", bins_team_threads(b)));
}

// -- whole warps for the columns of a place -------------------------------------------------------
//
// A warp then has one range of updates. Each of its lanes looks at one of the next 32: it computes
// what all columns of this update share (its index, what that selects, a weight), and all get it
// from there. The updates after them are looked at ahead, while these are loaded and added. The sum
// of a place stays in a register until the place changes.

// The shared values, of those that the sum is computed from. [shared] has room for all
// instructions.
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

// The warp's columns begin at [next] and end before [end]: half of its lanes search for either, at
// 16 columns at once.
static void print_wide_search(Emit *e)
{
    const Body *b = e->body;
    const char *it = int_type(e);
    const long long cols = extent_of(b, b->col);
    emit(e, "%s low = 0, high = %lld;", it, cols);
    emit(e, "const long long bound = (long long)(%s + lane / 16) * %lld;", e->axis[0],
         (long long)b->bins.held);
    emit_open(e, 1ull << b->col);
    emit(e, "const %s step = (high - low + 16) / 17, at = low + (lane %% 16 + 1) * step - 1;", it);
    emit_int(e, e->axis[b->col], "nc_max(nc_min(at, (%s)%lld), (%s)0)", it, cols - 1, it);
    print_found(e);
    emit(e, "const uint32_t less = __ballot_sync(0xffffffffu, at < high && (long long)found < "
            "bound);");
    emit(e, "const int count = __popc(less >> lane / 16 * 16 & 0xffff);");
    emit_open(e, 0);
    emit(e, "low += count * step;");
    emit(e, "if (count < 16) high = nc_min(high, low + step - 1);");
    emit_end(e, "if (low < high) {");
    emit_end(e, "while (__any_sync(0xffffffffu, low < high)) {");
    emit(e, "%s next = __shfl_sync(0xffffffffu, low, 0);", it);
    emit(e, "const %s end = __shfl_sync(0xffffffffu, low, 16);", it);
}

// Declares Looked, the shared values of an update, and look, which computes them.
static void print_look(Emit *e, const int *shared, int n)
{
    const Body *b = e->body;
    const char *all = "";
    emit_open(e, 0);
    for (int k = n; k-- > 0;)
        emit(e, "%s %s;", type_math(b->insts.at[shared[k]].type), e->name[shared[k]]);
    emit_close(e, "struct Looked {", "};");
    emit_open(e, 1ull << b->col);
    for (int k = n; k-- > 0;)
        all = emit_text(e, "%s%s%s", all, *all ? ", " : "", emit_value(e, shared[k]));
    emit(e, "return {%s};", all);
    emit_close(e,
               emit_text(e, "const auto look = [&](const %s %s) -> Looked {", int_type(e),
                         e->axis[b->col]),
               "};");
}

// Adds updates from [first] on of the [count] that the warp has looked at.
static void print_add_looked(Emit *e, const int *shared, int n, int flight, bool last)
{
    const Body *b = e->body;
    const char *c = e->axis[b->col];
    open_flight(e, flight);
    e->axis[b->col] = last ? "(next + nc_min(first + u, count - 1))" : "(next + first + u)";
    for (int k = n; k-- > 0;) {
        const char *name = e->name[shared[k]];
        emit(e, "const %s %s_u = __shfl_sync(0xffffffffu, now.%s, first + u);",
             type_math(b->insts.at[shared[k]].type), name, name);
        emit_bind(e, shared[k], e->scope, emit_text(e, "%s_u", name));
    }
    load_flight(e, flight);
    e->axis[b->col] = c;
    if (last) emit(e, "if (first + u >= count) break;");
    emit(e, "if (place[u] != held) begin(place[u]);");
    emit(e, "total += x[u];");
    close_flight(e, "first", "count", flight, last);
}

static void print_add_shared(Emit *e)
{
    const Body *b = e->body;
    const bool chunks = b->bins.chunk && !adds_chunks(b);
    const char *it = int_type(e), *end = chunks ? "stop" : "end";
    int *shared = NEW_ARRAY(e->arena, int, b->insts.n);
    const int n = find_shared(e, shared);
    print_look(e, shared, n);
    emit(e, "%s total = 0;", type_math(b->insts.at[b->bins.sum].type));
    emit(e, "int held = -1;");
    emit_open(e, 0);
    emit(e, "if (held >= 0) sums[held * %d] = total;", bins_team_threads(b));
    emit(e, "held = place;");
    emit(e, "total = 0;");
    emit_close(e, "const auto begin = [&](int place) {", "};");
    if (chunks) open_chunks(e);
    emit(e, "Looked ahead = look(nc_max(nc_min(next + lane, (%s)(%s - 1)), (%s)0));", it, end, it);
    emit_open(e, 0);
    emit(e, "const Looked now = ahead;");
    emit(e, "if (next + %d < %s) ahead = look(nc_min(next + %d + lane, (%s)(%s - 1)));", WARP, end,
         WARP, it, end);
    emit(e, "const int count = (int)nc_min(%s - next, (%s)%d);", end, it, WARP);
    emit(e, "int first = 0;");
    print_add_looked(e, shared, n, FLIGHT, false);
    print_add_looked(e, shared, n, FEW, true);
    emit_end(e, "for (; next < %s; next += %d) {", end, WARP);
    if (chunks) close_chunks(e, "if (place != held) begin(place);", NULL);
    emit(e, "begin(-1);");
}

void bins_ordered_cuda(Emit *e)
{
    const bool wide = bins_team_threads(e->body) % WARP == 0;
    if (e->body->bins.chunk) print_same(e);
    if (adds_chunks(e->body)) {
        print_own_chunk(e);
    } else {
        print_checks(e);
        if (wide)
            print_wide_search(e);
        else
            print_search(e);
    }
    if (wide)
        print_add_shared(e);
    else
        print_add_all(e);
}
