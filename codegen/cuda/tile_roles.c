// Tile programs with roles as CUDA C, op by op, with the functions of prelude/cuda_wgmma.h: roles,
// loops, and synchronisation. The ops on tiles are in tile_groups.c.
#include "codegen/cuda/tile_print.h"
#include "codegen/tile/wgmma.h"

// -- synchronisation ------------------------------------------------------------------------------

static void print_barrier(RolePrint *w, const TileOp *op)
{
    static const char *const words[] = {[OF_WARP] = "__syncwarp()",
                                        [OF_CLUSTER] = "nc_cluster_wait()",
                                        [OF_GROUP] = "nc_group_wait(group)",
                                        [OF_ROLE] = "nc_groups_wait()"};
    emit(w->e, "%s;%s", words[op->scope],
         op->scope == OF_CLUSTER ? " // none leaves while another arrives at its mbarriers"
                                 : tile_reason(w->e, w->p, op));
}

// One thread of a warp arrives, or one for each block of the cluster.
static void print_arrive(RolePrint *w, const TileOp *op, bool inside)
{
    Emit *e = w->e;
    bool all = op->scope == OF_CLUSTER;
    const char *who = all ? emit_text(e, "thread < %d", w->p->cluster) : "thread == 0",
               *block = all                 ? "thread"
                        : w->p->cluster > 1 ? "rank"
                                            : "0";
    if (w->p->bar[op->bar].by_tile) {
        emit(e, "if (%s) nc_bar_tell(%s, %s);", who, w->p->bar[op->bar].name, block);
        return;
    }
    emit(e, "if (%s%s) nc_bar_arrive(%s + %s, %s);", op->shift && inside ? "step > 0 && " : "", who,
         w->p->bar[op->bar].name, op->shift ? "before" : "place", block);
}

// One thread initialises all mbarriers.
static void print_ready(RolePrint *w)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const TileBar *full = &p->bar[0], *empty = &p->bar[1];
    emit(e, "if (threadIdx.x == 0) nc_ring_begin<%d>(%s, %d, %s, %d);", full->places, full->name,
         full->arrivals, empty->name, empty->arrivals);
    for (const TileBar *b = empty + 1; b < &p->bar[p->nbars]; b++)
        emit(e, "if (threadIdx.x == 0) nc_bar_init(%s, %d);", b->name, b->arrivals);
    emit(e, "nc_bars_ready();");
}

// -- roles and loops ------------------------------------------------------------------------------

// Whether the role releases places of the ring one step later.
static bool given_later(const TileProgram *p, int i)
{
    for (const int end = tile_next_role(p, i); i < end; i++)
        if (p->op[i].kind == T_ARRIVE && p->op[i].shift) return true;
    return false;
}

static void print_ops(RolePrint *w, int from, int to, const TileOp *loop);

// Declares the origin of the tile; if the left operand's rows are not aligned, also the number of
// the tile's map ("rest") and the misalignment of its rows ("shift").
static void print_origin(RolePrint *w, const TileRole *role)
{
    Emit *e = w->e;
    const Schedule *s = &e->body->sched;
    const char *rank =
        s->cluster > 1 && !w->p->split ? emit_text(e, " * %d + rank", s->cluster) : "";
    if (role->thread || role->groups) // the role that sums rows does not need it
        emit(e, "const int origin_n = %s;", emit_part(e, "tile", 1, w->across, s->tile.n));
    if (w->batch > 1)
        emit(e, "const int %s = %s;", e->axis[0], emit_part(e, "tile", w->across * w->down, 0, 1));
    const char *down = emit_part(e, "tile", w->across * w->apart, w->batch > 1 ? w->down : 0, 1);
    if (*rank) down = emit_text(e, "(%s%s)", down, rank);
    if (w->apart > 1) {
        emit(e, "const int rest = %s;", emit_part(e, "tile", w->across, w->apart, 1));
        emit(e, "const int origin_m = %s * %d + rest;", down, s->tile.m * w->apart);
    } else {
        emit(e, "const int origin_m = %s * %d;", down, s->tile.m);
    }
    if (!group_uneven(e->body)) return;
    const ProgMap m = group_operand(e->body, 1).map;
    int pitch = (int)(m.pitch % 8), offset = (int)(m.offset % 8);
    const char *begins = w->apart == 1 ? ""
                         : pitch == 1  ? "rest"
                                       : emit_text(e, "rest * %d", pitch);
    if (!*begins)
        begins = emit_number(e, offset);
    else if (offset)
        begins = emit_text(e, "(%s + %d)", begins, offset);
    emit(e, "const int shift = %s %% 8;", begins);
}

// The tiles in a row of tiles have different numbers of steps. So tiles are assigned to blocks in
// bands of as many rows of tiles as there are blocks and, within a band, column by column, longest
// first: every block gets the same number of tiles of each length.
static void print_banded(RolePrint *w, int blocks)
{
    Emit *e = w->e;
    const Schedule *s = &e->body->sched;
    const long long across = w->across, down = w->down, band = blocks * across,
                    whole = down / blocks, rest = down % blocks;
    const bool rising = wgmma_live_steps(e->body, across - 1) > wgmma_live_steps(e->body, 0);
    const char *high = !rest    ? emit_number(e, blocks)
                       : !whole ? emit_number(e, rest)
                                : emit_text(e, "(band < %lld ? %d : %lld)", whole, blocks, rest);
    emit(e, "const int band = tile / %lld, in = tile %% %lld, high = %s;", band, band, high);
    emit(e, "const int origin_n = (%sin / high) * %d;",
         rising ? emit_text(e, "%lld - ", across - 1) : "", s->tile.n);
    emit(e, "const int origin_m = (band * %d + in %% high) * %d;", blocks, s->tile.m);
}

// Declares which pixels the tile has weights for, as bits, and the number of its steps.
static void print_live(RolePrint *w, const TileRole *role)
{
    Emit *e = w->e;
    const Body *b = e->body;
    const char *text = "";
    uint32_t last = wgmma_live(b, w->across - 1);
    for (int64_t i = 0; i + 1 < w->across; i++)
        if (wgmma_live(b, i) != wgmma_live(b, i + 1))
            text = emit_text(e, "%sorigin_n < %lld ? 0x%x : ", text,
                             (long long)(i + 1) * b->sched.tile.n, (unsigned)wgmma_live(b, i));
    emit(e, "const uint32_t live = %s0x%x; // pixels there are weights for", text, (unsigned)last);
    if (role->groups)
        emit(e, "const int steps = __popc(live) * %lld;",
             (long long)wgmma_skips(b)->live_run / STEP);
}

// The loop over the tiles of a block. A group's place in the ring follows from the number of steps
// of all tiles before.
static void print_tiles(RolePrint *w, int from, int to, const TileRole *role)
{
    Emit *e = w->e;
    const TileOp *op = &w->p->op[from];
    const char *steps = w->p->skips ? "steps" : emit_number(e, w->p->steps);
    if (role->groups) emit(e, "int taken = 0; // steps, by tiles before");
    if (role->turns) emit(e, "int turn = 0;");
    if (w->p->split) emit(e, "int round = 1;");
    emit_open(e, w->batch > 1);
    if (w->p->skips) {
        print_banded(w, op->count);
        print_live(w, role);
    } else {
        print_origin(w, role);
    }
    if (w->p->split) emit(e, "round ^= 1;");
    if (role->turns) {
        emit(e, "turn ^= 1;");
        emit(e, "if (turn == group) { // the other group's");
        emit(e, "    taken += %s;", steps);
        emit(e, "    continue;");
        emit(e, "}");
    }
    if (role->groups) {
        int places = w->p->tile[0].places;
        emit(e, "int place = taken %% %d%s, parity = taken / %d %% 2%s;", places,
             role->steps ? " + group" : "", places, given_later(w->p, from) ? ", before = 0" : "");
        emit(e, "taken += %s;", steps);
    }
    print_ops(w, from + 1, to, NULL);
    emit_loop(e, "int", "tile", "first_tile", emit_number(e, op->trips), op->count);
}

// A loop over steps, each with a place of the ring.
static void print_steps(RolePrint *w, int from, int to)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const TileOp *loop = &p->op[from];
    const Tile *left = &p->tile[0], *right = &p->tile[1];
    const BodyStrips *strips = wgmma_right_strips(e->body);
    bool multiplies = tile_has(p, from, to, T_MMA), sums = tile_has(p, from, to, T_REDUCE);
    if (sums) emit(e, "int due = tile %% %lld; // 0: the step is this tile's", w->across);
    emit_open(e, 0);
    const bool computed = !multiplies && (wgmma_strips(e->body) || wgmma_chunks(e->body));
    if (computed) group_first(w);
    if (p->skips && !multiplies)
        emit(e, "if (!(live >> first / %lld & 1)) continue;",
             (long long)wgmma_skips(e->body)->live_run);
    int at = from + 1; // the first op that uses the place
    while (!multiplies && p->op[at].kind != T_LOAD && p->op[at].kind != T_REDUCE) at++;
    print_ops(w, from + 1, at, loop);
    emit(e, "%suint8_t *const left = ring + place * %d%s;", multiplies || sums ? "const " : "",
         left->apart,
         sums || right->stays ? "" : emit_text(e, ", *const right = left + %d", right->offset));
    if (multiplies)
        emit(e, "const uint64_t x = nc_operand(%s), y = nc_operand(right%s%s);", group_rows(w),
             right->stays ? emit_text(e, " + step * %lld", (long long)right->bytes / p->steps) : "",
             strips ? emit_text(e, ", %d", strips->apart) : "");
    print_ops(w, at, to, loop);
    if (multiplies && given_later(p, from)) emit(e, "before = place;");
    if (sums) emit(e, "if (++due == %lld) due = 0;", w->across);
    if (multiplies && p->warps_k > 1) // the groups have alternate places
        emit(e, "if ((place += %d) >= %d) place = group, parity ^= 1;", p->warps_k, left->places);
    else
        emit(e, "if (++place == %d) place = 0, parity ^= 1;", left->places);
    const int64_t trips = loop->trips;
    if (multiplies || computed)
        emit_end(e, "for (int step = 0; step < %s; step++) {",
                 multiplies && p->skips ? "steps" : emit_number(e, trips));
    else if (p->split) // this block's range of k
        emit_end(e, "for (int first = %s, i = 0; i < %lld; i++, first += %d) {",
                 emit_scaled(e, p->cluster > 1 ? "rank" : "0", trips * STEP), (long long)trips,
                 STEP);
    else
        emit_loop(e, "int", "first", "0", emit_number(e, trips * STEP), STEP);
}

static void print_parts(RolePrint *w, int from, int to)
{
    Emit *e = w->e;
    emit_open(e, 0);
    group_part(w, "part");
    print_ops(w, from + 1, to, &w->p->op[from]);
    emit_times(e, "part", w->p->op[from].trips);
}

static const Tile *rows_of(const TileProgram *p)
{
    const Tile *t = p->tile;
    while (t->layout != L_ROWS) t++;
    return t;
}

// Loads what a part of the results needs besides its sums: this part, or the one op->shift later.
static void print_rest(RolePrint *w, const TileOp *op, const TileOp *loop)
{
    Emit *e = w->e;
    const Tile *sums = rows_of(w->p);
    if (!w->rows.early) return;
    if (!op->shift) {
        rows_load_part(&w->rows, sums, "part");
        return;
    }
    emit_open(e, 0);
    emit(e, "const int next = part + %d;", op->shift);
    group_part(w, "next");
    rows_load_part(&w->rows, sums, "next");
    emit_end(e, "if (part + %d < %lld) {", op->shift, (long long)loop->trips);
}

static void print_await(RolePrint *w, const TileOp *op)
{
    const TileBar *bar = &w->p->bar[op->bar];
    const char *why = tile_reason(w->e, w->p, op);
    if (bar->once)
        emit(w->e, "nc_bar_wait(%s, 0);%s", bar->name, why);
    else if (bar->by_tile)
        emit(w->e, "nc_bar_hear(%s, round%s);%s", bar->name, op->count ? " ^ 1" : "", why);
    else
        emit(w->e, "nc_bar_wait(%s + place, parity);%s", bar->name, why);
}

// Passes the turn on in the last step, if there is a next tile.
static void print_pass(RolePrint *w, int i, const TileOp *loop)
{
    const TileOp *tiles = &w->p->op[i];
    while (tiles->kind != T_TILES) tiles--;
    emit(w->e, "if (step == %s && tile + %d < %lld) nc_turn_pass(group ^ 1);",
         w->p->skips ? "steps - 1" : emit_number(w->e, loop->trips - 1), tiles->count,
         (long long)tiles->trips);
}

static void print_wait(RolePrint *w, const TileOp *op)
{
    const bool products = op->how == BY_TENSOR;
    emit(w->e, "%s<%d>();%s", products ? "nc_products_done" : "nc_boxes_read", op->count,
         tile_reason(w->e, w->p, op));
    if (products && !op->count && !w->p->split) emit(w->e, "nc_settled(acc);");
}

// Ops on tiles.
static void print_tile_op(RolePrint *w, const TileOp *op, const TileOp *loop)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const bool by_rows = wgmma_by_rows(e->body);
    const Tile *dst = op->dst >= 0 ? &p->tile[op->dst] : NULL,
               *a = op->a >= 0 ? &p->tile[op->a] : NULL;
    switch (op->kind) {
    case T_FILL: // the first product overwrites the sums
        if (dst->layout == L_TOTALS) {
            emit(e, by_rows ? "float totals[%d][8] = {};" : "NcTotals totals[%d] = {};",
                 (int)ceil_div(p->side_n, STEP));
            break;
        }
        emit(e, "float acc[%d][%d];", w->below, p->side_n / 2);
        if (by_rows) rows_declare_part(&w->rows, rows_of(p));
        break;
    case T_LOAD:
        if (op->how == BY_BULK)
            group_load(w, op);
        else if (p->split)
            rows_rest(&w->rows, rows_of(p));
        else
            print_rest(w, op, loop);
        break;
    case T_MOVE:
        if (dst->layout == L_JOINT)
            group_totals_kept(w, dst);
        else
            group_sums(w, op);
        break;
    case T_CLEAR: emit(e, "nc_clear_before<%d>(%s, shift);", p->side_m, group_rows(w)); break;
    case T_MMA: group_multiply(w, op); break;
    case T_REDUCE:
        if (dst->layout == L_TOTALS)
            group_add(w);
        else
            group_reduce(w, op);
        break;
    case T_MAP:
        if (a->layout == L_ROWS)
            rows_map(&w->rows, a);
        else if (a->layout == L_JOINT)
            group_totals(w, a);
        else if (a->lines > 1)
            group_map(w);
        else
            group_row_sums(w);
        break;
    case T_STORE: group_store(w); break;
    default: break;
    }
}

static void print_op(RolePrint *w, int i, const TileOp *loop)
{
    const TileOp *op = &w->p->op[i];
    const TileBar *bar = &w->p->bar[op->bar];
    Emit *e = w->e;
    switch (op->kind) {
    case T_READY: print_ready(w); break;
    case T_AWAIT: print_await(w, op); break;
    case T_ANNOUNCE:
        emit(e, "nc_bar_expect(%s%s, %d);", bar->name, bar->once ? "" : " + place", bar->bytes);
        break;
    case T_ARRIVE: print_arrive(w, op, loop); break;
    case T_TURN: emit(e, "if (tile != first_tile) nc_turn_wait(group);"); break;
    case T_PASS: print_pass(w, i, loop); break;
    case T_FENCE: emit(e, "nc_fence_written();"); break;
    case T_BARRIER: print_barrier(w, op); break;
    case T_BEGIN: emit(e, "nc_products_begin();"); break;
    case T_COMMIT: // for stores, group_store prints it for the storing thread
        if (op->how == BY_TENSOR) emit(e, "nc_products_end();");
        break;
    case T_WAIT: print_wait(w, op); break;
    default: print_tile_op(w, op, loop); break;
    }
}

// Consecutive ops of a loop's first step share one condition.
static void print_ops(RolePrint *w, int from, int to, const TileOp *loop)
{
    Emit *e = w->e;
    const TileProgram *p = w->p;
    for (int i = from; i < to; i++) {
        const TileOp *op = &p->op[i];
        if (op->kind == T_LOOP) {
            int end = tile_end_of(p, i);
            (tile_has(p, i, end, T_AWAIT) ? print_steps : print_parts)(w, i, end);
            i = end;
        } else if (op->when == THE_FIRST) {
            emit_open(e, 0);
            for (; p->op[i].when == THE_FIRST; i++) print_op(w, i, loop);
            i--;
            emit_end(e, "if (step == 0 && shift > 0) {");
        } else {
            print_op(w, i, loop);
        }
    }
}

static void print_role(RolePrint *w, int at)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    const TileRole *role = &p->role[p->op[at].role];
    if (!role->groups) {
        emit_open(e, 0);
        int round = 0;
        for (int i = at + 1; p->op[i].kind != T_END; i++)
            if (p->op[i].kind == T_AWAIT) round = p->op[i].count;
        emit(e, "int place = 0, parity = %d;%s", round, round ? " // of the round before" : "");
        if (!role->thread)
            emit(e,
                 "const int piece = (warp %% 2 * 4 + thread / 8 ^ thread %% 8) * 16 + thread "
                 "%% 8 * %d;",
                 LINE);
    } else if (w->boxes) {
        emit(e, "const int at = thread %% 16 * 64 + (thread / 16 ^ thread %% 8) * 8; // in a box");
    }
    for (int i = at + 1; i < tile_next_role(p, at + 1); i++)
        if (p->op[i].kind == T_TILES) {
            print_tiles(w, i, tile_end_of(p, i), role);
            i = tile_end_of(p, i);
        } else {
            print_op(w, i, NULL);
        }
    if (role->groups) return;
    emit_end(e, "%s",
             role->thread ? emit_text(e, "if (threadIdx.x == 0) { // %s", role->name)
                          : emit_text(e, "if (warp >= %d) { // %s", role->first, role->name));
}

// The roles that do not multiply are in warps 0 to 3.
static void print_roles(RolePrint *w)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    int i = tile_next_role(p, 0), last = p->nroles - 1;
    print_ops(w, 0, i, NULL);
    emit_open(e, 0);
    emit(e, "nc_registers_give<%d>();", p->role[0].registers);
    for (; p->op[i].role != last; i = tile_next_role(p, i + 1)) print_role(w, i);
    emit(e, "__syncwarp();");
    emit_close(e, "if (group < 0) {", "} else {");
    emit_open(e, 0);
    emit(e, "nc_registers_take<%d>();", p->role[last].registers);
    print_role(w, i);
    emit_close(e, NULL, "}");
    for (i = tile_next_role(p, i + 1) + 1; i < p->nops; i++) print_op(w, i, NULL); // ALL_ROLES
}

// Declares the thread's group, warp and lane, and the addresses in shared memory.
static void print_places(RolePrint *w)
{
    const TileProgram *p = w->p;
    Emit *e = w->e;
    if (w->batch == 1) emit(e, "const int %s = 0;", e->axis[0]);
    emit(e, "const int group = (int)threadIdx.x / 128 - 1; // -1: copies, others: multiply");
    emit(e, "const int warp = threadIdx.x / 32 %% 4, thread = threadIdx.x %% 32;");
    if (p->cluster > 1) emit(e, "const int rank = nc_cluster_rank();");
    emit(e, "const int first_tile = %s;", emit_part(e, "block", p->cluster, 0, 1));
    emit(e, "uint8_t *const ring = nc_bulk_shared();");
    if (w->boxes)
        emit(e, "uint16_t *const boxes = (uint16_t *)(ring + %d) + (threadIdx.x / 32 - %d) * %d;",
             w->boxes->offset, GROUP_WARPS, w->boxes->places * wgmma_staged(e->body) * BOX * STEP);
    emit(e, "uint64_t *const full = (uint64_t *)(ring + %d), *const empty = full + %d;", p->shared,
         p->tile[0].places);
    if (p->tile[1].stays) emit(e, "uint8_t *const right = ring + %d;", p->tile[1].offset);
    if (p->split) emit(e, "float *const sums = (float *)ring;");
    if (wgmma_by_rows(e->body))
        emit(e, "float *const sums = (float *)(ring + %d) + (threadIdx.x / 32 - %d) * %d;",
             rows_of(p)->offset, GROUP_WARPS, BOX * STEP);
    for (int i = 2; i < p->nbars; i++)
        emit(e, "uint64_t *const %s = full + %d;", p->bar[i].name, 2 * p->tile[0].places + i - 2);
}

void tile_roles_cuda(Emit *e, const TileProgram *p)
{
    const Body *b = e->body;
    RolePrint w = {.e = e, .p = p, .below = p->side_m / p->atom->m, .apart = group_apart(b)};
    w.rows = (RowPrint){.e = e, .p = p};
    w.across = ceil_div(b->axis[2].extent, b->sched.tile.n);
    w.down = ceil_div(wgmma_rows(b), b->sched.tile.m);
    w.batch = b->axis[0].extent;
    for (int i = 0; i < p->ntiles; i++)
        if (p->tile[i].of_warp && p->tile[i].layout == L_BULK) w.boxes = &p->tile[i];
    emit_open(e, w.batch == 1); // with several products, the batch index is known in each tile
    e->scope->indent--;
    print_places(&w);
    print_roles(&w);
    emit_close(e, NULL, NULL);
}
