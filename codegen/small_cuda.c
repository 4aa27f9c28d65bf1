// A small contraction on tensor cores as CUDA C, for latency: a warp takes a tile of 16 x 8
// results, or shares its columns (k) with others, and fetches its operands from memory straight
// into the registers the tensor core reads. All loads of a stretch of columns are in flight at
// once, and there is no barrier before the sums of the warps meet.
//
// A thread takes four neighbouring columns at once: which columns meet in one instruction does not
// matter as long as both operands agree.
#include "codegen/print_cuda.h"

enum { DEPTH = 16, MOST_CHUNKS = 8 }; // columns of a chunk; chunks in flight

static const char *f(Emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static const char *f(Emit *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *s = arena_vprintf(e->arena, fmt, args);
    va_end(args);
    return s;
}

// Chunks a warp takes in all, and how many of them are in flight.
static int64_t chunks_of(const Body *b)
{
    int64_t chunks = (b->axis[b->col].extent + DEPTH - 1) / DEPTH;
    return (chunks + b->sched.share - 1) / b->sched.share;
}

static int chunks_at_once(const Body *b)
{
    int64_t n = chunks_of(b);
    return n < MOST_CHUNKS ? (int)n : MOST_CHUNKS;
}

static bool *expression_of(Emit *e, int a, int b) // instructions below either
{
    const Body *body = e->body;
    bool *mine = NEW_ARRAY(e->arena, bool, body->insts.n + 1);
    mine[a] = mine[b] = true;
    for (int i = a > b ? a : b; i >= 0; i--) {
        const Inst *x = &body->insts.at[i];
        for (int j = 0; j < x->na && mine[i]; j++) mine[x->a[j]] = true;
        if (mine[i] && x->pred >= 0 && (x->kind == KI_LOAD || x->kind == KI_CHECK))
            mine[x->pred] = true;
    }
    return mine;
}

// Fills to[0..3] with operand [inst] at columns k .. k + 3 of the row [axis] = [at]; 0 outside.
static void fetch(Emit *e, int inst, int axis, const char *at, const char *to)
{
    const Body *b = e->body;
    const char *it = b->sched.wide ? "int64_t" : "int", *a = e->axis[axis], *k = e->axis[b->col];
    int64_t rows = b->axis[axis].extent, cols = b->axis[b->col].extent;
    bool inside_rows = rows % (axis == 1 ? 16 : 8) == 0;
    bool inside_cols = cols % ((int64_t)DEPTH * b->sched.share * chunks_at_once(b)) == 0;
    Scope *out = e->scope;
    emit_line(e, out, "#pragma unroll");
    emit_line(e, out, "for (int q = 0; q < 4; q++) %s[q] = 0;", to);
    emit_open(e, 1ull << axis);
    emit_line(e, e->scope, "const %s %s = %s;", it, a, at);
    // k is the first of four columns here: vectors of four where they lie side by side
    Vectors v = find_vectors(e, b->col, 4);
    e->axis[b->col] = "k_first";
    emit_open(e, 0);
    int used = 0;
    const bool *mine = expression_of(e, inst, inst);
    int loads[MAX_VECTORS];
    for (int i = 0; i < v.nloads; i++)
        if (mine[v.loads[i]] && cols % 4 == 0) loads[used++] = v.loads[i];
    for (int i = 0; i < used; i++) {
        print_vector_load(e, &v, loads[i], slot_name(e, loads[i]), true);
        e->element[loads[i]] = f(e, "%s.at[q]", slot_name(e, loads[i]));
    }
    e->axis[b->col] = k;
    emit_open(e, 1ull << b->col);
    emit_line(e, e->scope, "const %s %s = k_first + q;", it, k);
    emit_open(e, 0);
    const char *x = emit_value(e, inst);
    emit_line(e, e->scope, "%s[q] = %s;", to, x);
    if (inside_cols || cols % 4 == 0)
        emit_close(e, "{", "}");
    else
        emit_close(e, f(e, "if (%s < %lld) {", k, (long long)cols), "}");
    emit_close(
        e, f(e, "#pragma unroll\n%*sfor (int q = 0; q < 4; q++) {", e->scope->up->indent * 4, ""),
        "}");
    for (int i = 0; i < used; i++) e->element[loads[i]] = NULL;
    const char *rows_text = inside_rows ? "" : f(e, "%s < %lld", a, (long long)rows);
    const char *cols_text = inside_cols ? "" : f(e, "k_first < %lld", (long long)cols);
    if (inside_rows && inside_cols)
        emit_close(e, "{", "}");
    else
        emit_close(
            e, f(e, "if (%s%s%s) {", rows_text, *rows_text && *cols_text ? " && " : "", cols_text),
            "}");
    emit_close(e, "{", "}");
}

// Results a thread finishes: in one row of loads and stores, so that they are in flight together.
typedef struct Results {
    int count;
    const char *tile, *m, *n; // of result i
    const char *guard;        // whether there is one; "": always
    int loads[MAX_VECTORS], nloads;
} Results;

// Opens the loop over results with their axes known.
static void open_results(Emit *e, const Results *r)
{
    const Body *b = e->body;
    const char *it = b->sched.wide ? "int64_t" : "int";
    int64_t tiles_m = (b->axis[1].extent + 15) / 16, tiles_n = (b->axis[2].extent + 7) / 8;
    emit_open(e, 1);
    Scope *in = e->scope;
    emit_line(e, in, "const %s own = %s;", it, r->tile);
    emit_line(e, in, "const %s %s = own / %lld;", it, e->axis[0], (long long)(tiles_m * tiles_n));
    emit_line(e, in, "const %s %s = own / %lld %% %lld * 16 + %s;", it, e->axis[1],
              (long long)tiles_n, (long long)tiles_m, r->m);
    emit_line(e, in, "const %s %s = own %% %lld * 8 + %s;", it, e->axis[2], (long long)tiles_n,
              r->n);
    emit_open(e, 1ull << 1 | 1ull << 2);
}

static void close_results(Emit *e, const Results *r)
{
    const Body *b = e->body;
    int64_t tiles =
        b->axis[0].extent * ((b->axis[1].extent + 15) / 16) * ((b->axis[2].extent + 7) / 8);
    Buf guard = buf_new(e->arena);
    if (tiles % (8 / b->sched.share)) buf_printf(&guard, "own < %lld", (long long)tiles);
    for (int axis = 1; axis <= 2; axis++)
        if (b->axis[axis].extent % (axis == 1 ? 16 : 8))
            buf_printf(&guard, "%s%s < %lld", guard.len ? " && " : "", e->axis[axis],
                       (long long)b->axis[axis].extent);
    if (*r->guard) buf_printf(&guard, "%s%s", guard.len ? " && " : "", r->guard);
    emit_close(e, guard.len ? f(e, "if (%s) {", guard.data) : "{", "}");
    emit_close(e,
               f(e, "#pragma unroll\n%*sfor (int i = 0; i < %d; i++) {", e->scope->up->indent * 4,
                 "", r->count),
               "}");
}

// What results are made of beside their sums is fetched before the product begins.
static void fetch_ahead(Emit *e, Results *r)
{
    const Body *b = e->body;
    const bool *operand = expression_of(e, b->dot.a, b->dot.b);
    for (uint32_t i = 0; i < b->insts.n && r->nloads < 16; i++) {
        const Inst *x = &b->insts.at[i];
        bool over = x->axes & (1ull << 1 | 1ull << 2) && !inst_over(x, b->col);
        if (!e->live[i] || x->kind != KI_LOAD || operand[i] || !over || !is_plain(e, (int)i))
            continue;
        if (b->bufs.at[x->buf].kind == KA_LOOP_INDEX) continue;
        r->loads[r->nloads++] = (int)i;
        emit_line(e, e->scope, "%s %s[%d];", vec_type(e, b->bufs.at[x->buf].type, 1),
                  slot_name(e, (int)i), r->count);
    }
    if (!r->nloads) return;
    open_results(e, r);
    Vectors v = {.axis = 2, .width = 1};
    for (int i = 0; i < r->nloads; i++)
        print_vector_load(e, &v, r->loads[i], f(e, "%s[i]", slot_name(e, r->loads[i])), false);
    close_results(e, r);
}

// What becomes of the sums.
static void finish(Emit *e, Results *r, const char *sum)
{
    const Body *b = e->body;
    open_results(e, r);
    for (int i = 0; i < r->nloads; i++)
        e->element[r->loads[i]] = f(e, "%s[i].at[0]", slot_name(e, r->loads[i]));
    if (b->sched.share > 1) {
        emit_line(e, e->scope, "float sum = 0;");
        emit_line(e, e->scope, "#pragma unroll");
        emit_line(e, e->scope, "for (int w = 0; w < %d; w++)", b->sched.share);
        emit_line(e, e->scope,
                  "    sum = sum + parts[(threadIdx.x + i * 256) / 128 * %d + w][(threadIdx.x + i "
                  "* 256) %% 128];",
                  b->sched.share);
    }
    emit_bind(e, b->dot.sum, e->scope, sum);
    if (b->commits)
        emit_line(e, e->scope, "if (failed) return; // a check has failed: nothing is committed");
    emit_stores(e, -1);
    close_results(e, r);
}

void small_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *it = s->wide ? "int64_t" : "int";
    int64_t tiles_m = (b->axis[1].extent + 15) / 16, tiles_n = (b->axis[2].extent + 7) / 8;
    int64_t tiles = b->axis[0].extent * tiles_m * tiles_n, each = chunks_of(b);
    int unroll = chunks_at_once(b);
    int groups = 8 / s->share; // of warps, each with a tile of its own
    bool all = tiles % groups == 0;
    Scope *top = e->scope;
    emit_line(e, top, "const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;");
    emit_line(e, top, "const %s tile = (%s)block * %d + warp%s;", it, it, groups,
              s->share > 1 ? f(e, " / %d", s->share) : "");
    emit_line(e, top, "const int first_m = tile / %lld %% %lld * 16, first_n = tile %% %lld * 8;",
              (long long)tiles_n, (long long)tiles_m, (long long)tiles_n);
    Results r = {.count = 4,
                 .tile = "tile",
                 .m = "lane / 4 + i / 2 * 8",
                 .n = "lane % 4 * 2 + i % 2",
                 .guard = ""};
    if (s->share > 1) {
        r.count = groups < 2 ? 1 : groups / 2;
        r.tile = f(e, "(%s)block * %d + (threadIdx.x + i * 256) / 128", it, groups);
        r.m = "threadIdx.x % 128 / 8";
        r.n = "threadIdx.x % 8";
        if (groups < 2) r.guard = "threadIdx.x < 128";
    }
    emit_open(e, 0);
    fetch_ahead(e, &r);
    emit_line(e, e->scope, "float sums[4] = {};");
    if (s->share > 1)
        emit_line(e, e->scope, "float (*const parts)[128] = (float (*)[128])nc_shared;");
    emit_open(e, 1);
    emit_line(e, e->scope, "const %s %s = tile / %lld;", it, e->axis[0],
              (long long)(tiles_m * tiles_n));
    emit_open(e, 0); // a stretch of chunks
    Scope *stretch = e->scope;
    emit_line(e, stretch, "float left[%d][2][4], right[%d][4];", unroll, unroll);
    emit_open(e, 0);
    Scope *in = e->scope;
    emit_line(e, in, "const %s k_first = ((chunk + c) * %d%s) * %d + lane %% 4 * 4;", it, s->share,
              s->share > 1 ? f(e, " + warp %% %d", s->share) : "", DEPTH);
    emit_open(e, 0);
    fetch(e, b->dot.a, 1, "first_m + lane / 4 + half * 8", "left[c][half]");
    emit_close(
        e, f(e, "#pragma unroll\n%*sfor (int half = 0; half < 2; half++) {", in->indent * 4, ""),
        "}");
    fetch(e, b->dot.b, 2, "first_n + lane / 4", "right[c]");
    emit_close(
        e,
        f(e, "#pragma unroll\n%*sfor (int c = 0; c < %d; c++) {", stretch->indent * 4, "", unroll),
        "}");
    emit_line(e, stretch, "#pragma unroll");
    emit_line(e, stretch, "for (int c = 0; c < %d; c++)", unroll);
    emit_line(e, stretch, "    #pragma unroll");
    emit_line(e, stretch, "    for (int q = 0; q < 4; q += 2)");
    emit_line(e, stretch, "        nc_mma(sums, left[c][0][q], left[c][1][q], left[c][0][q + 1],");
    emit_line(e, stretch, "               left[c][1][q + 1], right[c][q], right[c][q + 1]);");
    if (each > unroll)
        emit_close(
            e, f(e, "for (%s chunk = 0; chunk < %lld; chunk += %d) {", it, (long long)each, unroll),
            "}");
    else
        emit_close(e, f(e, "{\n%*sconst int chunk = 0;", (stretch->indent) * 4, ""), "}");
    emit_close(e, all ? "{" : f(e, "if (tile < %lld) {", (long long)tiles), "}");
    if (s->share > 1) {
        emit_line(e, e->scope, "#pragma unroll");
        emit_line(e, e->scope, "for (int i = 0; i < 4; i++)");
        emit_line(
            e, e->scope,
            "    parts[warp][(lane / 4 + i / 2 * 8) * 8 + lane %% 4 * 2 + i %% 2] = sums[i];");
        emit_line(e, e->scope, "__syncthreads();");
    }
    finish(e, &r, s->share > 1 ? "sum" : "sums[i]");
    emit_close(e, "{", "}");
}
