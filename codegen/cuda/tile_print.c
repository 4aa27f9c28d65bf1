// Tile programs as CUDA C, op by op, with the functions of prelude/cuda_tile.h.
#include "codegen/cuda/tile_print.h"

enum { MOST_UNROLLED = 16 };

typedef RowPrint Print;

static int64_t tiles_along(const Body *b, int axis)
{
    return ceil_div(b->axis[axis].extent, axis == 1 ? b->sched.tile.m : b->sched.tile.n);
}

// Declares the tile of the result that this block computes, and the part of it of this warp.
static void print_places(Print *w)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const Body *b = e->body;
    int64_t across = tiles_along(b, 2), down = tiles_along(b, 1);
    const char *tile = "block";
    if (p->atom->word) {
        emit(e, "const int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;");
        emit(e, "const int warp_m = %s, warp_n = %s;",
             p->warps_m == 1 ? "0" : emit_part(e, "warp", p->warps_n * p->warps_k, 0, p->side_m),
             emit_part(e, "warp", p->warps_k, p->warps_n, p->side_n));
    }
    if (p->cluster > 1) {
        emit(e, "const int part = block %% %d, first_part = nc_cluster_rank() - part;", p->cluster);
        emit(e, "const int tile = block / %d;", p->cluster);
        tile = "tile";
    }
    emit_int(e, e->axis[0], "%s",
             b->axis[0].extent == 1 ? "0" : emit_part(e, tile, down * across, 0, 1));
    emit(e, "const int origin_m = %s, origin_n = %s;",
         emit_part(e, tile, across, b->axis[0].extent == 1 && down > 1 ? 0 : down, b->sched.tile.m),
         emit_part(e, tile, 1, across, b->sched.tile.n));
}

static void print_tiles(Print *w)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const char *type = p->atom->word ? type_storage(p->type) : plain_type(p);
    emit(e, "%s *const left = (%s *)nc_shared, *const right = left + %d;", type, type,
         p->tile[0].places * tile_elements(&p->tile[0]));
    for (int i = 0; i < p->ntiles; i++) {
        const Tile *t = &p->tile[i];
        if (t->layout == L_VECTORS && !p->atom->word)
            emit(e, "%s %s[%d];", type, t->name, tile_vectors(p, &p->tile[t->axis - 1]));
        else if (t->layout == L_VECTORS)
            emit(e, "%s %s[%d];", vec_type(e, t->type, p->vector), t->name,
                 t->places * tile_vectors(p, &p->tile[t->axis - 1]));
    }
}

// -- ops ------------------------------------------------------------------------------------------

// Declares "next", the first column of an iteration.
static void print_next(Print *w, const char *iteration)
{
    Emit *e = w->e;
    const char *t = int_type(e);
    int64_t columns = (int64_t)e->body->sched.tile.k * w->p->cluster;
    emit(e, "const %s next = %s%s * %lld%s;", t, e->body->sched.wide ? "(int64_t)" : "", iteration,
         (long long)columns,
         w->p->cluster > 1 ? emit_text(e, " + part * %d", e->body->sched.tile.k) : "");
}

static void print_load(Print *w, const TileOp *op)
{
    const Tile *t = &w->p->tile[op->dst];
    if (op->how == BY_ASYNC)
        operand_copy(w->e, w->p, t);
    else
        operand_fetch(w->e, w->p, &w->p->tile[t->axis - 1], "");
}

static void print_multiply(Print *w, const TileOp *op)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const TileAtom *atom = p->atom;
    int down = p->side_m / atom->m, across = p->side_n / atom->n,
        chunks = e->body->sched.tile.k / atom->k, by = p->warps_k;
    emit(e, "const int place = step %% %d;", p->tile[0].places);
    emit(e, "#pragma unroll");
    if (by > 1)
        emit(e, "for (int c = warp %% %d; c < %d; c += %d) {", by, chunks, by);
    else
        emit(e, "for (int c = 0; c < %d; c++) {", chunks);
    emit(e, "    uint32_t x[%d][4], y[%d][2];", down, across);
    for (int side = 0; side < 2; side++) {
        const Tile *t = &p->tile[side ? op->b : op->a];
        emit(e, "    nc_%s_%s<%d, %s>(%s, %s + place * %d, %s, c);", t->name, atom->word, t->pitch,
             t->along_k ? "true" : "false", side ? "y" : "x", t->name, tile_elements(t),
             side ? "warp_n" : "warp_m");
    }
    emit(e, "    %s(acc, x, y);", atom->multiply);
    emit(e, "}");
}

// The order of rows in the sums depends on the left operand's layout: if it is contiguous along its
// rows (m), nc_left has taken neighbouring rows in pairs.
static void print_sums(Print *w, const TileOp *op)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const Tile *t = &p->tile[op->dst], *left = &p->tile[0];
    if (t->of_warp) {
        emit(e, "nc_put_strip<%d>(sums, acc[strip]);", t->pitch);
        return;
    }
    const char *row = p->warps_k == 1 ? "warp_m"
                                      : emit_text(e, "(warp %% %d * %d + warp_m)", p->warps_k,
                                                  e->body->sched.tile.m);
    emit(e, "float *const sums = (float *)nc_shared;");
    emit(e, "nc_put_sums<%d, %s>(sums + %s * %d + warp_n, acc);", t->pitch,
         left->along_k ? "false" : "true", row, t->pitch);
}

// -- synchronisation ------------------------------------------------------------------------------

void tile_barrier(Emit *e, const TileProgram *p, const TileOp *op)
{
    static const char *const words[] = {"__syncwarp", "__syncthreads", "nc_cluster_wait",
                                        "nc_cluster_leave"};
    emit(e, "%s(); // %s: %s", words[op->scope],
         tile_names(e, p, op->filled ? op->filled : op->freed),
         op->filled ? "there" : "has been read");
}

// -- loops ----------------------------------------------------------------------------------------

static int print_op(Print *w, int i, const TileOp *loop);

// Copies for the first iterations: a place each.
static void first_copies(Print *w, int from, int to)
{
    Emit *e = w->e;
    int n = (int)w->p->op[from].trips;
    emit_open(e, 0);
    if (n == 1) emit(e, "const int place = 0;");
    print_next(w, "place");
    for (int i = from + 1; i < to; i++)
        if (w->p->op[i].kind == T_LOAD)
            print_load(w, &w->p->op[i]);
        else
            print_op(w, i, &w->p->op[from]);
    emit_end(e, n == 1 ? "{" : "for (int place = 0; place < %d; place++) {", n);
}

// The first iterations of an operand that is computed: [together] of them are loaded, then moved.
static void first_fetches(Print *w, int from, int to)
{
    Emit *e = w->e;
    const TileOp *loop = &w->p->op[from];
    int n = (int)loop->trips, together = loop->together;
    const Tile *t = &w->p->tile[w->p->op[to - 1].dst];
    const char *at = together > 1 ? emit_text(e, "at * %d + ", tile_vectors(w->p, t)) : "",
               *rest = n > together && n % together ? emit_text(e, " && first + at < %d", n) : "",
               *place = emit_plus(e, n > together ? "first" : "0", emit_count("at", together));
    emit_open(e, 0);
    for (int pass = 0; pass < 2; pass++) {
        emit_open(e, 0);
        emit(e, "const int place = %s;", place);
        if (pass == 0) print_next(w, "place");
        (pass == 0 ? operand_fetch : operand_put)(e, w->p, t, at);
        if (together > 1)
            emit_unrolled(e, "for (int at = 0; at < %d%s; at++) {", together, rest);
        else
            emit_end(e, "{");
    }
    if (n > together)
        emit_unrolled(e, "for (int first = 0; first < %d; first += %d) {", n, together);
    else
        emit_end(e, "{");
}

// The ops from [i] on that belong to the same later iteration, if there is such an iteration.
static int print_later(Print *w, int i, const TileOp *loop)
{
    Emit *e = w->e;
    const TileProgram *p = w->p;
    int shift = p->op[i].shift, to = i;
    int64_t trips = loop->trips;
    while (p->op[to].shift == shift) to++;
    if (shift - loop->early >= trips) return to; // there is none
    const char *later = emit_text(e, "(step + %d)", shift);
    bool loads = tile_has(p, i, to, T_LOAD);
    emit_open(e, 0);
    if (loads) print_next(w, later);
    if (p->tile[0].places > 1 &&
        (tile_has(p, i, to, T_MOVE) || p->op[i].how == BY_ASYNC || p->op[to - 1].how == BY_ASYNC))
        emit(e, "const int place = %s %% %d;", later, p->tile[0].places);
    for (; i < to; i++)
        if (p->op[i].kind == T_LOAD)
            print_load(w, &p->op[i]);
        else
            operand_put(e, p, &p->tile[p->op[i].dst], "");
    emit_end(e, "if (step + %d < %lld) {", shift, (long long)trips);
    return to;
}

static void print_loop(Print *w, int from, int to)
{
    Emit *e = w->e;
    const TileOp *loop = &w->p->op[from];
    const Schedule *s = &e->body->sched;
    bool columns = tile_has(w->p, from, to, T_MMA);
    const char *name = columns ? "step" : "strip";
    if (columns && !loop->early)
        emit_settle(e); // single values that results need are loaded while the first tiles arrive
    else if (!columns)
        emit(e, "float *const sums = (float *)nc_shared + warp * %d;",
             16 * w->p->tile[w->p->op[to - 1].a].pitch);
    emit_open(e, 0);
    bool once = loop->trips == 1 && !loop->early;
    if (once) emit(e, "const int %s = 0;", name);
    for (int i = from + 1; i < to;) i = print_op(w, i, loop);
    // The ring's steps are unrolled: all of them, or as many as the ring has places, so that a
    // step's place is a constant. If several blocks share a multiprocessor they are not, because
    // registers are few and a block works while others wait.
    const int64_t times = !s->tile.staged || s->resident > 1 ? 1
                          : loop->trips <= MOST_UNROLLED     ? loop->trips
                                                             : s->tile.staged;
    if (loop->trips > 1 && !loop->early)
        emit_line(e, e->scope->up, columns ? "#pragma unroll %d" : "#pragma unroll", (int)times);
    emit_end(e, once ? "{" : "for (int %s = %d; %s < %lld; %s++) {", name, -loop->early, name,
             (long long)loop->trips, name);
}

static int print_op(Print *w, int i, const TileOp *loop)
{
    const TileOp *op = &w->p->op[i];
    Emit *e = w->e;
    bool plain = !w->p->atom->word;
    if (op->shift) return print_later(w, i, loop);
    switch (op->kind) {
    case T_LOOP: {
        int end = tile_end_of(w->p, i);
        if (op->trips && (tile_has(w->p, i, end, T_MMA) || tile_has(w->p, i, end, T_MAP)))
            print_loop(w, i, end);
        else if (op->trips)
            (op->together ? first_fetches : first_copies)(w, i, end);
        return end + 1;
    }
    case T_FILL:
        if (plain)
            plain_fill(e, w->p);
        else
            emit(e, "float acc[%d][%d][4] = {};", w->p->side_m / w->p->atom->m,
                 w->p->side_n / w->p->atom->n);
        break;
    case T_LOAD:
        while (op->kind != T_MAP) op++;
        rows_rest(w, &w->p->tile[op->a]);
        break;
    case T_MOVE: (plain ? plain_move : print_sums)(w, op); break;
    case T_MMA: (plain ? plain_multiply : print_multiply)(w, op); break;
    case T_MAP:
        if (plain)
            plain_map(e, w->p);
        else
            rows_map(w, &w->p->tile[op->a]);
        break;
    case T_COMMIT: emit(e, "nc_copies_end();"); break;
    case T_WAIT: emit(e, "nc_copied<%d>();", op->count); break;
    case T_BARRIER: tile_barrier(e, w->p, op); break;
    case T_END:
    default: break; // ops of programs with roles
    }
    return i + 1;
}

void tile_program_cuda(Emit *e)
{
    TileProgram p = tile_program(e->body);
    Print w = {.e = e, .p = &p};
    if (p.nroles || e->body->sched.variant == RUN_WARP_TILES) {
        (p.nroles ? tile_roles_cuda : tile_warps_cuda)(e, &p);
        return;
    }
    emit_open(e, 1); // batch
    e->scope->indent--;
    print_places(&w);
    print_tiles(&w);
    for (int i = 0; i < p.nops;) i = print_op(&w, i, NULL);
    emit_close(e, NULL, NULL);
}
