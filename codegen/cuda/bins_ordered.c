// Sums by index whose updates are sorted by place (passes/scatter.c), as CUDA C: a team of threads
// has neighbouring places, so its updates are neighbours, too. A search finds the first and the
// last of them.
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
static void print_add(Emit *e, int flight, bool last)
{
    const Body *b = e->body;
    open_flight(e, flight);
    emit_int(e, e->axis[b->col], "%s",
             last ? emit_text(e, "nc_min(next + u, (%s)(end - 1))", int_type(e)) : "next + u");
    load_flight(e, flight);
    emit(e, "%ssums[place[u] * %d] += x[u];", last ? "if (next + u < end) " : "",
         bins_team_threads(b));
    close_flight(e, "next", "end", flight, last);
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
    emit_open(e, 0);
    emit(e, "if (held >= 0) sums[held * %d] = total;", bins_team_threads(b));
    emit(e, "held = place[u];");
    emit(e, "total = 0;");
    emit_end(e, "if (place[u] != held) {");
    emit(e, "total += x[u];");
    close_flight(e, "first", "count", flight, last);
}

static void print_add_shared(Emit *e)
{
    const Body *b = e->body;
    const char *it = int_type(e);
    int *shared = NEW_ARRAY(e->arena, int, b->insts.n);
    const int n = find_shared(e, shared);
    print_look(e, shared, n);
    emit(e, "Looked ahead = look(nc_max(nc_min(next + lane, (%s)(end - 1)), (%s)0));", it, it);
    emit(e, "%s total = 0;", type_math(b->insts.at[b->bins.sum].type));
    emit(e, "int held = -1;");
    emit_open(e, 0);
    emit(e, "const Looked now = ahead;");
    emit(e, "if (next + %d < end) ahead = look(nc_min(next + %d + lane, (%s)(end - 1)));", WARP,
         WARP, it);
    emit(e, "const int count = (int)nc_min(end - next, (%s)%d);", it, WARP);
    emit(e, "int first = 0;");
    print_add_looked(e, shared, n, FLIGHT, false);
    print_add_looked(e, shared, n, FEW, true);
    emit_end(e, "for (; next < end; next += %d) {", WARP);
    emit(e, "if (held >= 0) sums[held * %d] = total;", bins_team_threads(b));
}

void bins_ordered_cuda(Emit *e)
{
    print_checks(e);
    if (bins_team_threads(e->body) % WARP == 0) {
        print_wide_search(e);
        print_add_shared(e);
    } else {
        print_search(e);
        print_add(e, FLIGHT, false);
        print_add(e, FEW, true);
    }
}
