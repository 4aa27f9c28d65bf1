// A small contraction on tensor cores as CUDA C, for latency: a warp takes a tile of 16 x 8, 16 x
// 16 or 32 x 32 results, or shares its columns (k) with others, and fetches its operands from
// memory straight into the registers the tensor core reads. All loads of a stretch of columns are
// in flight at once, and there is no barrier before the sums of the warps meet.
//
// Which columns meet in one instruction, and which rows of an operand it takes for its own, does
// not matter as long as all agree: thread 4 g + t takes columns 4 t .. 4 t + 3 of a chunk of 16,
// and neighbouring rows from g times their number on. So either lies side by side for a vector
// load.
#include "codegen/cuda/print_cuda.h"

enum { DEPTH = 16 }; // columns of a chunk

// Rows of the operands a thread takes.
static int rows_of(const Body *b, int axis)
{
    return (axis == 1 ? b->sched.tile.m : b->sched.tile.n) / 8;
}

// Chunks a warp takes in all, and how many of them are in flight: by the registers they take.
static int64_t chunks_of(const Body *b)
{
    int64_t chunks = (b->axis[b->col].extent + DEPTH - 1) / DEPTH;
    return (chunks + b->sched.tile.share - 1) / b->sched.tile.share;
}

static int chunks_at_once(const Body *b)
{
    int64_t n = chunks_of(b), most = 96 / (4 * (rows_of(b, 1) + rows_of(b, 2)));
    int64_t stretches = ceil_div(n, most); // as many each
    return stretches ? (int)(ceil_div(n, stretches)) : 1;
}

// Fills to[row][column] with operand [inst]: rows from [at] on along its axis, columns from k_first
// on; 0 outside.
static void fetch(Emit *e, int inst, int axis, const char *at, const char *to)
{
    const Body *b = e->body;
    const char *it = b->sched.wide ? "int64_t" : "int", *a = e->axis[axis], *k = e->axis[b->col];
    int64_t extent[2] = {b->axis[axis].extent, b->axis[b->col].extent}; // rows, columns
    int rows = rows_of(b, axis);
    bool by_k = operand_along_k(b, inst);
    bool inside[2] = {extent[0] % (8 * rows) == 0,
                      extent[1] % ((int64_t)DEPTH * b->sched.tile.share * chunks_at_once(b)) == 0};
    // the loop outside takes one row (column) each, the vector lies along the other
    int outer = by_k ? axis : b->col, inner = by_k ? b->col : axis, width = by_k ? 4 : rows;
    const char *outer_axis = by_k ? a : k;
    const char *outer_first = by_k ? "row_first" : "k_first",
               *inner_first = by_k ? "k_first" : "row_first";
    emit_open(e, 0);
    emit_line(e, e->scope, "const %s row_first = %s;", it, at);
    emit_open(e, 0);
    Scope *each = e->scope;
    emit_line(e, each, "const %s %s = %s + o;", it, outer_axis, outer_first);
    emit_line(e, each, "#pragma unroll");
    emit_line(e, each, "for (int v = 0; v < %d; v++) %s[%s][%s] = 0;", width, to, by_k ? "o" : "v",
              by_k ? "v" : "o");
    // What only the row (column) decides may be a lookup: none outside.
    emit_open(e, 1ull << outer);
    operand_vector(e, inst, inner, width, inside[by_k], inner_first,
                   emit_text(e, "%s[%s][%s]", to, by_k ? "o" : "v", by_k ? "v" : "o"));
    operand_close(e, inside[!by_k], outer_axis, extent[!by_k]);
    emit_close(e,
               emit_text(e, "#pragma unroll\n%*sfor (int o = 0; o < %d; o++) {",
                         e->scope->up->indent * 4, "", by_k ? rows : 4),
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

static int64_t count_tiles(const Body *b, int64_t *m, int64_t *n)
{
    *m = (b->axis[1].extent + b->sched.tile.m - 1) / b->sched.tile.m;
    *n = (b->axis[2].extent + b->sched.tile.n - 1) / b->sched.tile.n;
    return b->axis[0].extent * *m * *n;
}

// Opens the loop over results with their axes known.
static void open_results(Emit *e, const Results *r)
{
    const Body *b = e->body;
    const char *it = b->sched.wide ? "int64_t" : "int";
    int64_t tiles_m, tiles_n;
    count_tiles(b, &tiles_m, &tiles_n);
    emit_open(e, 1);
    Scope *in = e->scope;
    emit_line(e, in, "const %s own = %s;", it, r->tile);
    emit_line(e, in, "const %s %s = own / %lld;", it, e->axis[0], (long long)(tiles_m * tiles_n));
    emit_line(e, in, "const %s %s = own / %lld %% %lld * %d + %s;", it, e->axis[1],
              (long long)tiles_n, (long long)tiles_m, b->sched.tile.m, r->m);
    emit_line(e, in, "const %s %s = own %% %lld * %d + %s;", it, e->axis[2], (long long)tiles_n,
              b->sched.tile.n, r->n);
    emit_open(e, 1ull << 1 | 1ull << 2)->guard = true;
}

static void close_results(Emit *e, const Results *r)
{
    const Body *b = e->body;
    int64_t tiles_m, tiles_n, tiles = count_tiles(b, &tiles_m, &tiles_n);
    Buf guard = buf_new(e->arena);
    if (tiles % (8 / b->sched.tile.share)) buf_printf(&guard, "own < %lld", (long long)tiles);
    for (int axis = 1; axis <= 2; axis++)
        if (b->axis[axis].extent % (8 * rows_of(b, axis)))
            buf_printf(&guard, "%s%s < %lld", guard.len ? " && " : "", e->axis[axis],
                       (long long)b->axis[axis].extent);
    if (*r->guard) buf_printf(&guard, "%s%s", guard.len ? " && " : "", r->guard);
    emit_close(e, guard.len ? emit_text(e, "if (%s) {", guard.data) : "{", "}");
    emit_close(e,
               emit_text(e, "#pragma unroll\n%*sfor (int i = 0; i < %d; i++) {",
                         e->scope->up->indent * 4, "", r->count),
               "}");
}

// What results are made of beside their sums is fetched before the product begins: [ready], by
// instruction, before the wait for the kernel in front; then the others.
static void fetch_results(Emit *e, Results *r, const bool *ready)
{
    const Body *b = e->body;
    const bool *operand = operand_expression(e, b->dot.a, b->dot.b);
    enum { MOST_AHEAD = 48 }; // values a thread fetches
    int first = r->nloads;
    for (uint32_t i = 0; i < b->insts.n && (r->nloads + 1) * r->count <= MOST_AHEAD; i++) {
        const Inst *x = &b->insts.at[i];
        bool over = x->axes & (1ull << 1 | 1ull << 2) && !inst_over(x, b->col);
        if (!e->live[i] || x->kind != KI_LOAD || operand[i] || !over || !is_plain(e, (int)i))
            continue;
        if (b->bufs.at[x->buf].kind == KA_LOOP_INDEX || ready[i] != (e->follow != NULL)) continue;
        r->loads[r->nloads++] = (int)i;
        emit_line(e, e->scope, "%s %s[%d];", vec_type(e, b->bufs.at[x->buf].type, 1),
                  slot_name(e, (int)i), r->count);
    }
    if (r->nloads == first) return;
    open_results(e, r);
    Vectors v = {.axis = 2, .width = 1};
    for (int i = first; i < r->nloads; i++)
        print_vector_load(e, &v, r->loads[i], emit_text(e, "%s[i]", slot_name(e, r->loads[i])),
                          false);
    close_results(e, r);
}

// What becomes of the sums.
static void finish(Emit *e, Results *r, const char *sum)
{
    const Body *b = e->body;
    open_results(e, r);
    for (int i = 0; i < r->nloads; i++)
        e->element[r->loads[i]] = emit_text(e, "%s[i].at[0]", slot_name(e, r->loads[i]));
    if (b->sched.tile.share > 1) {
        emit_line(e, e->scope, "const int at = threadIdx.x + i * 256;");
        emit_line(e, e->scope, "float sum = 0;");
        emit_line(e, e->scope, "#pragma unroll");
        emit_line(e, e->scope, "for (int w = 0; w < %d; w++)", b->sched.tile.share);
        emit_line(e, e->scope, "    sum = sum + parts[at / %d * %d + w][at %% %d];",
                  b->sched.tile.m * b->sched.tile.n, b->sched.tile.share,
                  b->sched.tile.m * b->sched.tile.n);
    }
    emit_bind(e, b->dot.sum, e->scope, sum);
    if (b->commits)
        emit_line(e, e->scope, "if (failed) return; // a check has failed: nothing is committed");
    emit_stores(e, -1);
    close_results(e, r);
}

// The operands a warp multiplies: those that are [ready], or the others.
typedef struct Operands {
    int inst[2];
    bool ready[2];
} Operands;

static const char *const side[] = {"left", "right"};

static void declare_operands(Emit *e, const Operands *o, bool ready)
{
    for (int i = 0; i < 2; i++)
        if (o->ready[i] == ready)
            emit_line(e, e->scope, "float %s[%d][%d][4];", side[i], chunks_at_once(e->body),
                      rows_of(e->body, 1 + i));
}

// Fetches them for a stretch of columns, from chunk number "chunk" of the warp's own on.
static void fetch_operands(Emit *e, const Operands *o, bool ready)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    Scope *stretch = e->scope;
    emit_open(e, 0);
    emit_line(e, e->scope, "const %s k_first = ((chunk + c) * %d%s) * %d + lane %% 4 * 4;",
              s->wide ? "int64_t" : "int", s->tile.share,
              s->tile.share > 1 ? emit_text(e, " + warp %% %d", s->tile.share) : "", DEPTH);
    for (int i = 0; i < 2; i++)
        if (o->ready[i] == ready)
            fetch(e, o->inst[i], 1 + i,
                  emit_text(e, "first_%c + lane / 4 * %d", "mn"[i], rows_of(b, 1 + i)),
                  emit_text(e, "%s[c]", side[i]));
    emit_close(e,
               emit_text(e, "#pragma unroll\n%*sfor (int c = 0; c < %d; c++) {",
                         stretch->indent * 4, "", chunks_at_once(b)),
               "}");
}

// Opens what each tile does; closes it.
static void open_tile(Emit *e)
{
    int64_t m, n;
    count_tiles(e->body, &m, &n);
    emit_open(e, 1);
    emit_line(e, e->scope, "const %s %s = tile / %lld;", e->body->sched.wide ? "int64_t" : "int",
              e->axis[0], (long long)(m * n));
}

static void close_tile(Emit *e)
{
    int64_t m, n, tiles = count_tiles(e->body, &m, &n);
    bool all = tiles % (8 / e->body->sched.tile.share) == 0;
    emit_close(e, all ? "{" : emit_text(e, "if (tile < %lld) {", (long long)tiles), "}");
}

// What is known before the wait for the kernel in front: operands that are one stretch of columns,
// and what results are made of beside.
static void prefetch(Emit *e, Results *r, Operands *o, const bool *ready)
{
    const Body *b = e->body;
    for (int i = 0; i < 2; i++)
        o->ready[i] = ready[o->inst[i]] && chunks_of(b) <= chunks_at_once(b);
    fetch_results(e, r, ready);
    if (o->ready[0] || o->ready[1]) {
        declare_operands(e, o, true);
        open_tile(e);
        emit_line(e, e->scope, "const int chunk = 0;");
        fetch_operands(e, o, true);
        close_tile(e);
    }
    emit_prefetch(e, 0);
    emit_follow(e);
}

void warp_tile_cuda(Emit *e)
{
    const Body *b = e->body;
    const Schedule *s = &b->sched;
    const char *it = s->wide ? "int64_t" : "int";
    int64_t tiles_m, tiles_n, each = chunks_of(b);
    int unroll = chunks_at_once(b), left = rows_of(b, 1), right = rows_of(b, 2);
    int groups = 8 / s->tile.share,
        size = s->tile.m * s->tile.n; // of warps, each with a tile of its own
    const char *mma = b->dot.tensor == TENSOR_F32 ? "nc_mma_f32" : "nc_mma";
    Scope *top = e->scope;
    count_tiles(b, &tiles_m, &tiles_n);
    emit_line(e, top, "const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;");
    emit_line(e, top, "const %s tile = (%s)block * %d + warp%s;", it, it, groups,
              s->tile.share > 1 ? emit_text(e, " / %d", s->tile.share) : "");
    emit_line(e, top, "const int first_m = tile / %lld %% %lld * %d, first_n = tile %% %lld * %d;",
              (long long)tiles_n, (long long)tiles_m, s->tile.m, (long long)tiles_n, s->tile.n);
    Results r = {.count = 2 * left * right,
                 .tile = "tile",
                 .m = emit_text(e, "lane / 4 * %d + i / %d", left, 2 * right),
                 .n = emit_text(e, "lane %% 4 * %d + i %% %d", 2 * right, 2 * right),
                 .guard = ""};
    if (s->tile.share > 1) {
        r.count = (groups * size + 255) / 256;
        r.tile = emit_text(e, "(%s)block * %d + (threadIdx.x + i * 256) / %d", it, groups, size);
        r.m = emit_text(e, "(threadIdx.x + i * 256) %% %d / %d", size, s->tile.n);
        r.n = emit_text(e, "threadIdx.x %% %d", s->tile.n);
        if (groups * size < 256) r.guard = emit_text(e, "threadIdx.x < %d", groups * size);
    }
    Operands o = {.inst = {b->dot.a, b->dot.b}};
    const bool *ready =
        e->follow ? known_early(e->arena, b) : NEW_ARRAY(e->arena, bool, b->insts.n);
    if (e->follow) prefetch(e, &r, &o, ready);
    emit_open(e, 0);
    fetch_results(e, &r, ready);
    emit_line(e, e->scope, "float sums[%d][%d][4] = {};", left / 2, right);
    if (s->tile.share > 1)
        emit_line(e, e->scope, "float (*const parts)[%d] = (float (*)[%d])nc_shared;", size, size);
    open_tile(e);
    emit_open(e, 0); // a stretch of chunks
    Scope *stretch = e->scope;
    declare_operands(e, &o, false);
    fetch_operands(e, &o, false);
    emit_line(e, stretch, "#pragma unroll");
    emit_line(e, stretch, "for (int i = 0; i < %d; i++) { // chunk, two columns, tiles of 16 x 8",
              unroll * 2 * (left / 2) * right);
    emit_line(e, stretch,
              "    const int c = i / %d, q = i / %d %% 2 * 2, m = i / %d %% %d, n = i %% %d;",
              left * right, left / 2 * right, right, left / 2, right);
    emit_line(e, stretch, "    %s(sums[m][n], left[c][2 * m][q], left[c][2 * m + 1][q],", mma);
    emit_line(e, stretch,
              "        left[c][2 * m][q + 1], left[c][2 * m + 1][q + 1], right[c][n][q],");
    emit_line(e, stretch, "        right[c][n][q + 1]);");
    emit_line(e, stretch, "}");
    if (each > unroll)
        emit_close(e,
                   emit_text(e, "for (%s chunk = 0; chunk < %lld; chunk += %d) {", it,
                             (long long)each, unroll),
                   "}");
    else
        emit_close(e, emit_text(e, "{\n%*sconst int chunk = 0;", (stretch->indent) * 4, ""), "}");
    close_tile(e);
    const char *result = emit_text(e, "sums[i / %d][i %% %d][i / %d %% 2 * 2 + i / %d %% 2]",
                                   4 * right, right, 2 * right, right);
    if (s->tile.share > 1) {
        emit_line(e, e->scope, "#pragma unroll");
        emit_line(e, e->scope, "for (int i = 0; i < %d; i++)", 2 * left * right);
        emit_line(e, e->scope,
                  "    parts[warp][(lane / 4 * %d + i / %d) * %d + lane %% 4 * %d + i %% %d] = %s;",
                  left, 2 * right, s->tile.n, 2 * right, 2 * right, result);
        emit_line(e, e->scope, "__syncthreads();");
    }
    finish(e, &r, s->tile.share > 1 ? "sum" : result);
    emit_close(e, "{", "}");
}
