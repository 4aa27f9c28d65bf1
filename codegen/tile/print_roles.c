// Tile programs with roles as CUDA C, op by op, in the words of prelude/cuda_wgmma.h.
//
// A thread that multiplies holds pairs of neighbours of the sums, and computes what follows (any
// fused expression, any number of results) pair by pair: 16 rows of 64 neighbours at a time a warp.
#include "codegen/tile/print.h"
#include "codegen/wgmma.h"

enum { STAGE = BOX * STEP }; // elements of a box

typedef struct Print {
    Emit *e;
    const TileProgram *p;
    const Tile *boxes; // NULL: none
    int below;         // 64 rows each: parts of a group's sums that lie below each other
    int64_t across;    // tiles side by side
    int apart;         // rows of a tile are so many apart
} Print;

static bool together(const Print *w)
{
    return w->p->warps_m > 1;
}

static const char *names(Print *w, uint32_t tiles)
{
    const char *s = "";
    for (int i = 0; i < w->p->ntiles; i++)
        if (tiles >> i & 1) s = emit_text(w->e, "%s%s%s", s, *s ? ", " : "", w->p->tile[i].name);
    return s;
}

// "// left, right: there"
static const char *reason(Print *w, const TileOp *op)
{
    if (!op->filled && !op->freed) return "";
    return emit_text(w->e, " // %s: %s", names(w, op->filled ? op->filled : op->freed),
                     op->filled ? "there" : "free");
}

// The left operand's rows that this group multiplies.
static const char *rows(Print *w)
{
    const Tile *left = &w->p->tile[0];
    if (!left->of_group) return left->name;
    return emit_text(w->e, "%s + group * %d", left->name, left->bytes / w->p->warps_m);
}

// -- operands -------------------------------------------------------------------------------------

// The copies of one step's tile to its place.
static void print_load(Print *w, const TileOp *op)
{
    Emit *e = w->e;
    const Tile *t = &w->p->tile[op->dst];
    const Schedule *s = &e->body->sched;
    int side = t->axis == 1 ? s->tile_m : s->tile_n, by = t->peers ? s->cluster : 1;
    const char *origin = t->axis == 1 ? "origin_m" : "origin_n", *share = "", *behind = "";
    const char *map =
        emit_text(e, "%s_map%s", t->name, t->axis == 1 && w->apart > 1 ? ".of[rest]" : "");
    const char *copy =
        t->peers ? emit_text(e, "nc_copy_box_to(%d, ", (1 << by) - 1) : "nc_copy_box(";
    if (t->peers) { // this block's share of the box's lines
        int lines = (t->along_k ? side : STEP) / by;
        behind = emit_text(e, " + rank * %d", lines * LINE);
        share = emit_text(e, " + rank * %d", lines);
    }
    if (t->along_k) {
        if (t->axis == 1 && w->apart > 1) share = emit_text(e, " / %d", w->apart);
        emit_line(e, e->scope, "%s%s%s, %s, first, %s%s, full + place);", copy, t->name, behind,
                  map, origin, share);
        return;
    }
    bool one = side == STEP;
    if (!one) {
        emit_line(e, e->scope, "#pragma unroll");
        emit_line(e, e->scope, "for (int i = 0; i < %d; i += %d)", side, STEP);
    }
    emit_line(e, e->scope, "%s%s%s%s%s, %s, %s%s, first%s%s, full + place);", one ? "" : "    ",
              copy, t->name, one ? "" : emit_text(e, " + i * %d", LINE), behind, map, origin,
              one ? "" : " + i", group_uneven(e->body) ? " - shift" : "", share);
}

static void print_clear(Print *w)
{
    emit_line(w->e, w->e->scope, "nc_clear_before<%d>(%s, shift);", w->p->side_m, rows(w));
}

// acc += left right, in columns of the atom.
static void print_multiply(Print *w, const TileOp *op)
{
    Emit *e = w->e;
    const TileAtom *atom = w->p->atom;
    const Tile *x = &w->p->tile[op->a], *y = &w->p->tile[op->b];
    bool one = w->below == 1;
    emit_line(e, e->scope, "#pragma unroll");
    emit_line(e, e->scope, "for (int k = 0; k < %d; k++)", STEP / atom->k);
    if (!one) {
        emit_line(e, e->scope, "    #pragma unroll");
        emit_line(e, e->scope, "    for (int i = 0; i < %d; i++)", w->below);
    }
    emit_line(e, e->scope, "%s%s<%d, %d>(acc[%s], x + k * %d%s, y + k * %d, step + k > 0);",
              one ? "    " : "        ", atom->multiply, !x->along_k, !y->along_k, one ? "0" : "i",
              x->along_k ? 2 : LINE, one ? "" : emit_text(e, " + i * %d", atom->m * LINE / 16),
              y->along_k ? 2 : LINE);
}

// Tiles side by side read the same rows of the left operand, so each takes its share of the steps.
static void print_reduce(Print *w, const TileOp *op)
{
    Emit *e = w->e;
    const Tile *t = &w->p->tile[op->a];
    emit_line(e, e->scope, "float sum[8] = {};");
    emit_line(e, e->scope, "if (due == 0) nc_sum_rows_%s<%d>(sum, nc_shared_place(left + piece));",
              t->type == DT_BF16 ? "b" : "h", t->lines);
}

static void print_row_sums(Print *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    Scope *in = e->scope;
    long long k = b->axis[b->col].extent;
    emit_line(e, in, "if (due == 0) {");
    emit_line(e, in, "    nc_sums_joined(sum);");
    emit_line(e, in, "    #pragma unroll");
    emit_line(e, in, "    for (int j = 0; j < 4; j++) {");
    emit_line(e, in, "        const int i = first + (warp %% 2 * 4 + j) * 8 + thread * 2;");
    emit_line(e, in, "        const NcVec<float, 2> pair = {sum[2 * j], sum[2 * j + 1]};");
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (b->stores.at[i].fold)
            emit_line(e, in,
                      "        if (thread < 4 && origin_m < %lld && i < %lld) nc_store<2>(%s + "
                      "((%s)(origin_m / %d) * %lld + i), pair);",
                      (long long)b->axis[1].extent, k, e->buf_name[b->stores.at[i].buf],
                      int_type(e), b->sched.tile_m, k);
    emit_line(e, in, "    }");
    emit_line(e, in, "}");
}

// -- results --------------------------------------------------------------------------------------

static bool is_staged(const Body *b, uint32_t store)
{
    ProgMap m;
    return group_result(b, store, &m);
}

// Where this part of the results is, and its boxes in shared memory.
static void print_part(Print *w)
{
    Emit *e = w->e;
    Scope *in = e->scope;
    const char *row =
                   w->below > 1 ? emit_text(e, "part %% %d * %d + ", w->below, w->p->atom->m) : "",
               *column = number(e, "part", w->below, 0, STEP);
    if (together(w)) row = emit_text(e, "group * %d + %s", w->p->side_m, row);
    row = emit_text(e, "%swarp * %d", row, BOX);
    if (w->apart > 1) row = emit_text(e, "(%s) * %d", row, w->apart);
    emit_line(e, in, "const int part_m = origin_m + %s, part_n = origin_n + %s;", row, column);
    if (!w->boxes) return;
    const char *place = w->boxes->places > 1 ? emit_text(e, " + part %% %d * %d", w->boxes->places,
                                                         wgmma_staged(e->body) * STAGE)
                                             : "";
    emit_line(e, in, "uint16_t *const box = boxes%s;", place);
}

// Pairs of neighbours: kept for this warp's boxes, or to where they belong.
static void store_pairs(Emit *e, Vectors *v)
{
    const Body *b = e->body;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        if (!is_staged(b, i)) continue;
        DType t = b->bufs.at[b->stores.at[i].buf].type;
        v->store[i] = false;
        emit_line(e, e->scope, "pairs%u[pair %% 4] = %s(out%u).at.of[0];", i,
                  t == DT_BF16 ? "nc_pack_b" : "nc_pack_h", i);
    }
    flush_stores(e, v, -1);
}

// Four pairs of a thread: 16 columns of the box, whose 16-byte pieces are exchanged by the row.
static void put_pairs(Print *w)
{
    Emit *e = w->e;
    int n = 0;
    if (!w->boxes) return;
    emit_line(e, e->scope, "if (pair %% 4 == 3) {");
    for (uint32_t i = 0; i < e->body->stores.n; i++)
        if (is_staged(e->body, i))
            emit_line(e, e->scope, "    nc_put_matrices4<%d>(to ^ pair / 4 * 32, pairs%u);",
                      STAGE * 2 * n++, i);
    emit_line(e, e->scope, "}");
}

static void print_map(Print *w)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const char *base = emit_text(e, "%s_first", e->axis[2]);
    Scope *in = e->scope;
    if (w->boxes) emit_line(e, in, "const uint32_t to = nc_place_anew(box + at);");
    for (uint32_t i = 0; i < b->stores.n; i++)
        if (is_staged(b, i)) emit_line(e, in, "uint32_t pairs%u[4];", i);
    emit_open(e, 0);
    emit_line(e, e->scope,
              "const int row = pair %% 2 * 8 + thread / 4, from = pair / 2 * 8 + thread %% 4 * 2;");
    emit_line(e, e->scope, "const float *const sums = acc[%s] + %s + pair * 2;",
              w->below > 1 ? emit_text(e, "part %% %d", w->below) : "0",
              number(e, "part", w->below, 0, STEP / 2));
    emit_line(e, e->scope, "const %s %s = part_m + row%s, %s = part_n + from;", int_type(e),
              e->axis[1], w->apart > 1 ? emit_text(e, " * %d", w->apart) : "", base);
    finish_vector(e, base, 2, (int64_t)b->sched.tile_m * b->sched.cluster * w->apart, "sums[lane]",
                  store_pairs);
    put_pairs(w);
    emit_line(e, in, "#pragma unroll");
    emit_close(e, "for (int pair = 0; pair < 16; pair++) {", "}");
}

// The boxes that a warp has in shared memory: one thread starts their copies.
static void print_store(Print *w)
{
    Emit *e = w->e;
    int n = 0;
    emit_line(e, e->scope, "if (thread == 0) {");
    for (uint32_t i = 0; i < e->body->stores.n; i++) {
        if (!is_staged(e->body, i)) continue;
        emit_line(e, e->scope, "    nc_write_box(out%u_map%s, box%s, part_n, part_m%s);", i,
                  w->apart > 1 ? ".of[rest]" : "", n ? emit_text(e, " + %d", STAGE * n) : "",
                  w->apart > 1 ? emit_text(e, " / %d", w->apart) : "");
        n++;
    }
    emit_line(e, e->scope, "    nc_boxes_end();");
    emit_line(e, e->scope, "}");
}

// -- synchronisation ------------------------------------------------------------------------------

static void print_barrier(Print *w, const TileOp *op)
{
    static const char *const words[] = {[OF_WARP] = "__syncwarp()",
                                        [OF_CLUSTER] = "nc_cluster_wait()",
                                        [OF_GROUP] = "nc_group_wait(group)"};
    emit_line(w->e, w->e->scope, "%s;%s", words[op->scope],
              op->scope == OF_CLUSTER ? " // none leaves while another arrives at its mbarriers"
                                      : reason(w, op));
}

// One thread of a warp, or one for each block of the cluster.
static void print_arrive(Print *w, const TileOp *op, bool inside)
{
    Emit *e = w->e;
    bool all = op->scope == OF_CLUSTER;
    const char *who = all ? emit_text(e, "thread < %d", w->p->cluster) : "thread == 0",
               *block = all                 ? "thread"
                        : w->p->cluster > 1 ? "rank"
                                            : "0";
    emit_line(e, e->scope, "if (%s%s) nc_bar_arrive(%s + %s, %s);",
              op->shift && inside ? "step > 0 && " : "", who, w->p->bar[op->bar].name,
              op->shift ? "before" : "place", block);
}

// All mbarriers are set up by one thread.
static void print_ready(Print *w)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    Scope *top = e->scope;
    const TileBar *full = &p->bar[0], *empty = &p->bar[1];
    emit_line(e, top, "if (threadIdx.x == 0) nc_ring_begin<%d>(%s, %d, %s, %d);", full->places,
              full->name, full->arrivals, empty->name, empty->arrivals);
    emit_line(e, top, "nc_bars_ready();");
}

// -- roles and loops ------------------------------------------------------------------------------

static int end_of(const TileProgram *p, int i)
{
    for (int depth = 0;; i++) {
        depth += p->op[i].kind == T_LOOP || p->op[i].kind == T_TILES;
        depth -= p->op[i].kind == T_END;
        if (!depth) return i;
    }
}

static bool has(const TileProgram *p, int from, TileKind kind)
{
    for (int i = from; p->op[i].kind != T_END; i++)
        if (p->op[i].kind == kind) return true;
    return false;
}

static void print_ops(Print *w, int from, int to, const TileOp *loop);

// Which tile of the result this is; where the left operand's rows begin anywhere also the number
// of the tile's map, and where its rows begin in it.
static void print_origin(Print *w, const TileRole *role)
{
    Emit *e = w->e;
    const Schedule *s = &e->body->sched;
    const char *rank = s->cluster > 1 ? emit_text(e, " * %d + rank", s->cluster) : "";
    Scope *in = e->scope;
    ProgMap m;
    bool along_k;
    if (role->thread || role->groups) // row sums do without
        emit_line(e, in, "const int origin_n = %s;", number(e, "tile", 1, w->across, s->tile_n));
    group_operand(e->body, 1, &m, &along_k);
    const char *down = number(e, "tile", w->across * w->apart, 0, 1);
    if (*rank) down = emit_text(e, "(%s%s)", down, rank);
    if (w->apart > 1) {
        emit_line(e, in, "const int rest = %s;", number(e, "tile", w->across, w->apart, 1));
        emit_line(e, in, "const int origin_m = %s * %d + rest;", down, s->tile_m * w->apart);
    } else {
        emit_line(e, in, "const int origin_m = %s * %d;", down, s->tile_m);
    }
    if (!group_uneven(e->body)) return;
    int pitch = (int)(m.pitch % 8), offset = (int)(m.offset % 8);
    const char *begins = w->apart == 1 ? ""
                         : pitch == 1  ? "rest"
                                       : emit_text(e, "rest * %d", pitch);
    if (!*begins)
        begins = emit_text(e, "%d", offset);
    else if (offset)
        begins = emit_text(e, "(%s + %d)", begins, offset);
    emit_line(e, in, "const int shift = %s %% 8;", begins);
}

// The block's tiles, or those of a group, which knows its place in the ring by the steps that all
// tiles before have taken.
static void print_tiles(Print *w, int from, int to, const TileRole *role)
{
    Emit *e = w->e;
    const TileOp *op = &w->p->op[from];
    long long tiles = op->trips, steps = w->p->steps;
    Scope *out = e->scope;
    if (role->groups) emit_line(e, out, "int taken = 0; // steps, by tiles before");
    if (role->turns) emit_line(e, out, "int turn = 0;");
    emit_open(e, 0);
    print_origin(w, role);
    if (role->turns) {
        emit_line(e, e->scope, "turn ^= 1;");
        emit_line(e, e->scope, "if (turn == group) { // the other group's");
        emit_line(e, e->scope, "    taken += %lld;", steps);
        emit_line(e, e->scope, "    continue;");
        emit_line(e, e->scope, "}");
    }
    if (role->groups) {
        int places = w->p->tile[0].places;
        emit_line(e, e->scope, "int place = taken %% %d, parity = taken / %d %% 2, before = 0;",
                  places, places);
        emit_line(e, e->scope, "taken += %lld;", steps);
    }
    print_ops(w, from + 1, to, NULL);
    emit_close(
        e, emit_text(e, "for (int tile = first_tile; tile < %lld; tile += %d) {", tiles, op->count),
        "}");
}

// A loop over the places of the ring.
static void print_steps(Print *w, int from, int to)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const TileOp *loop = &p->op[from];
    const Tile *left = &p->tile[0], *right = &p->tile[1];
    Scope *out = e->scope;
    bool multiplies = has(p, from, T_MMA), sums = has(p, from, T_REDUCE);
    if (sums)
        emit_line(e, out, "int due = tile %% %lld; // 0: the step is this tile's",
                  (long long)w->across);
    emit_open(e, 0);
    Scope *in = e->scope;
    int at = from + 1; // where the place is used first
    while (!multiplies && p->op[at].kind != T_LOAD && p->op[at].kind != T_REDUCE) at++;
    print_ops(w, from + 1, at, loop);
    emit_line(e, in, "%suint8_t *const left = ring + place * %d%s;",
              multiplies || sums ? "const " : "", left->apart,
              sums ? "" : emit_text(e, ", *const right = left + %d", right->offset));
    if (multiplies)
        emit_line(e, in, "const uint64_t x = nc_operand(%s), y = nc_operand(right);", rows(w));
    print_ops(w, at, to, loop);
    if (multiplies) emit_line(e, in, "before = place;");
    if (sums) emit_line(e, in, "if (++due == %lld) due = 0;", (long long)w->across);
    emit_line(e, in, "if (++place == %d) place = 0, parity ^= 1;", left->places);
    long long trips = loop->trips;
    emit_close(e,
               multiplies ? emit_text(e, "for (int step = 0; step < %lld; step++) {", trips)
                          : emit_text(e, "for (int first = 0; first < %lld; first += %d) {",
                                      trips * STEP, STEP),
               "}");
}

static void print_parts(Print *w, int from, int to)
{
    Emit *e = w->e;
    Scope *out = e->scope;
    emit_open(e, 0);
    print_part(w);
    print_ops(w, from + 1, to, &w->p->op[from]);
    emit_line(e, out, "#pragma unroll");
    emit_close(
        e,
        emit_text(e, "for (int part = 0; part < %lld; part++) {", (long long)w->p->op[from].trips),
        "}");
}

static void print_op(Print *w, int i, const TileOp *loop)
{
    const TileOp *op = &w->p->op[i];
    const TileProgram *p = w->p;
    Emit *e = w->e;
    Scope *in = e->scope;
    const char *bar = p->bar[op->bar].name;
    switch (op->kind) {
    case T_READY: print_ready(w); break;
    case T_AWAIT: emit_line(e, in, "nc_bar_wait(%s + place, parity);%s", bar, reason(w, op)); break;
    case T_ANNOUNCE:
        emit_line(e, in, "nc_bar_expect(%s + place, %d);", bar, p->bar[op->bar].bytes);
        break;
    case T_ARRIVE: print_arrive(w, op, loop); break;
    case T_TURN: emit_line(e, in, "if (tile != first_tile) nc_turn_wait(group);"); break;
    case T_PASS: {
        int tiles = i;
        while (p->op[tiles].kind != T_TILES) tiles--;
        emit_line(e, in, "if (step == %lld && tile + %d < %lld) nc_turn_pass(group ^ 1);",
                  (long long)loop->trips - 1, p->op[tiles].count, (long long)p->op[tiles].trips);
        break;
    }
    case T_FENCE: emit_line(e, in, "nc_fence_written();"); break;
    case T_BARRIER: print_barrier(w, op); break;
    case T_BEGIN: emit_line(e, in, "nc_products_begin();"); break;
    case T_COMMIT:
        if (op->how == BY_TENSOR) emit_line(e, in, "nc_products_end();");
        break; // (that of stores is the storing thread's)
    case T_WAIT:
        emit_line(e, in, "%s<%d>();%s", op->how == BY_TENSOR ? "nc_products_done" : "nc_boxes_read",
                  op->count, reason(w, op));
        if (op->how == BY_TENSOR && !op->count) emit_line(e, in, "nc_settled(acc);");
        break;
    case T_FILL: // by the first product
        emit_line(e, in, "float acc[%d][%d];", w->below, p->side_n / 2);
        break;
    case T_LOAD: print_load(w, op); break;
    case T_CLEAR: print_clear(w); break;
    case T_MMA: print_multiply(w, op); break;
    case T_REDUCE: print_reduce(w, op); break;
    case T_MAP:
        if (p->tile[op->a].lines > 1)
            print_map(w);
        else
            print_row_sums(w);
        break;
    case T_STORE: print_store(w); break;
    default: break;
    }
}

// Those of a loop's first step stand behind one condition.
static void print_ops(Print *w, int from, int to, const TileOp *loop)
{
    Emit *e = w->e;
    const TileProgram *p = w->p;
    for (int i = from; i < to; i++) {
        const TileOp *op = &p->op[i];
        if (op->kind == T_LOOP) {
            int end = end_of(p, i);
            (has(p, i, T_AWAIT) ? print_steps : print_parts)(w, i, end);
            i = end;
        } else if (op->when == THE_FIRST) {
            emit_open(e, 0);
            for (; p->op[i].when == THE_FIRST; i++) print_op(w, i, loop);
            i--;
            emit_close(e, "if (step == 0 && shift > 0) {", "}");
        } else {
            print_op(w, i, loop);
        }
    }
}

static void print_role(Print *w, int at)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const TileRole *role = &p->role[p->op[at].role];
    Scope *out = e->scope;
    if (!role->groups) {
        emit_open(e, 0);
        int round = 0;
        for (int i = at + 1; p->op[i].kind != T_END; i++)
            if (p->op[i].kind == T_AWAIT) round = p->op[i].count;
        emit_line(e, e->scope, "int place = 0, parity = %d;%s", round,
                  round ? " // of the round before" : "");
        if (!role->thread)
            emit_line(e, e->scope,
                      "const int piece = (warp %% 2 * 4 + thread / 8 ^ thread %% 8) * 16 + thread "
                      "%% 8 * %d;",
                      LINE);
    } else if (w->boxes) {
        emit_line(
            e, out,
            "const int at = thread %% 16 * 64 + (thread / 16 ^ thread %% 8) * 8; // in a box");
    }
    for (int i = at + 1; i < p->nops && p->op[i].kind != T_ROLE; i++)
        if (p->op[i].kind == T_TILES) {
            int end = end_of(p, i);
            print_tiles(w, i, end, role);
            i = end;
        } else {
            print_op(w, i, NULL);
        }
    if (role->groups) return;
    emit_close(e,
               role->thread ? emit_text(e, "if (threadIdx.x == 0) { // %s", role->name)
                            : emit_text(e, "if (warp >= %d) { // %s", role->first, role->name),
               "}");
}

static int next_role(const TileProgram *p, int i)
{
    while (i < p->nops && p->op[i].kind != T_ROLE) i++;
    return i;
}

// Warps 0 to 3 have the roles that do not multiply.
static void print_roles(Print *w)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    int i = next_role(p, 0), last = p->nroles - 1;
    print_ops(w, 0, i, NULL);
    emit_open(e, 0);
    emit_line(e, e->scope, "nc_registers_give<%d>();", p->role[0].registers);
    for (; p->op[i].role != last; i = next_role(p, i + 1)) print_role(w, i);
    emit_line(e, e->scope, "__syncwarp();");
    emit_close(e, "if (group < 0) {", "} else {");
    emit_open(e, 0);
    emit_line(e, e->scope, "nc_registers_take<%d>();", p->role[last].registers);
    print_role(w, i);
    emit_close(e, NULL, "}");
    for (i = next_role(p, i + 1) + 1; i < p->nops; i++) print_op(w, i, NULL); // of all
}

// Where this thread is, and what lies where in shared memory.
static void print_places(Print *w)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    Scope *top = e->scope;
    emit_line(e, top, "const int %s = 0;", e->axis[0]);
    emit_line(e, top,
              "const int group = (int)threadIdx.x / 128 - 1; // -1: copies, others: multiply");
    emit_line(e, top, "const int warp = threadIdx.x / 32 %% 4, thread = threadIdx.x %% 32;");
    if (p->cluster > 1) emit_line(e, top, "const int rank = nc_cluster_rank();");
    emit_line(e, top, "const int first_tile = %s;", number(e, "block", p->cluster, 0, 1));
    emit_line(e, top, "uint8_t *const ring = nc_bulk_shared();");
    if (w->boxes)
        emit_line(e, top,
                  "uint16_t *const boxes = (uint16_t *)(ring + %d) + (threadIdx.x / 32 - %d) * %d;",
                  w->boxes->offset, GROUP_WARPS, w->boxes->places * wgmma_staged(e->body) * STAGE);
    emit_line(e, top, "uint64_t *const full = (uint64_t *)(ring + %d), *const empty = full + %d;",
              p->shared, p->tile[0].places);
}

void tile_roles_cuda(Emit *e, const TileProgram *p)
{
    const Body *b = e->body;
    Print w = {.e = e, .p = p, .below = p->side_m / p->atom->m, .apart = group_apart(b)};
    w.across = ceil_div(b->axis[2].extent, b->sched.tile_n);
    for (int i = 0; i < p->ntiles; i++)
        if (p->tile[i].of_warp) w.boxes = &p->tile[i];
    emit_open(e, 1); // batch: one
    e->scope->indent--;
    print_places(&w);
    print_roles(&w);
    emit_close(e, NULL, NULL);
}

// -- the kernel's maps ----------------------------------------------------------------------------

static const char *parameter(Emit *e, const ProgMap *m, const char *name)
{
    const char *type = m->apart > 1 ? emit_text(e, "NcMaps<%d>", m->apart) : "NcMap";
    return emit_text(e, ", const __grid_constant__ %s %s", type, name);
}

const char *wgmma_parameters(Emit *e)
{
    ProgMap m;
    bool along_k;
    const char *all = "";
    for (int axis = 1; axis <= 2; axis++) {
        group_operand(e->body, axis, &m, &along_k);
        all = emit_text(e, "%s%s", all, parameter(e, &m, axis == 1 ? "left_map" : "right_map"));
    }
    for (uint32_t i = 0; i < e->body->stores.n; i++)
        if (group_result(e->body, i, &m))
            all = emit_text(e, "%s%s", all, parameter(e, &m, emit_text(e, "out%u_map", i)));
    return all;
}
