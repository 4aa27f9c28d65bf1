// Tile programs of attention by groups of four warps as CUDA C, with the functions of
// prelude/cuda_wgmma.h. The code that uses scores and results is the same as without groups,
// because wgmma distributes the elements of 16 rows over the threads of a warp as mma.sync does.
#include "codegen/cuda/attention_print.h"
#include "codegen/tile/wgmma.h"

#include <string.h>

enum { GROUP_ROWS = 64 };

static const Tile *tile_of(const AttentionPrint *g, const TileOp *op) // guarded by its mbarrier
{
    return &g->p->tile[__builtin_ctz(g->p->bar[op->bar].tiles)];
}

// -- places ---------------------------------------------------------------------------------------

// The position in the tile's ring: how often the block has used the ring before this step.
static const char *position(const AttentionPrint *g, const Tile *t, int shift)
{
    if (t->stays) return "round";
    if (!strcmp(g->step, "0")) return "taken";
    return emit_text(g->e, shift ? "(taken + %s - 1)" : "(taken + %s)", g->step);
}

static const char *place_text(const AttentionPrint *g, const Tile *t, int shift)
{
    return emit_part(g->e, position(g, t, shift), 1, t->places, 1);
}

static const char *at_place(const AttentionPrint *g, const Tile *t, int shift)
{
    return emit_plus(g->e, t->name, emit_scaled(g->e, place_text(g, t, shift), t->bytes));
}

// -- copies ---------------------------------------------------------------------------------------

static const char *plane_name(const AttentionPrint *g, int tile, int k)
{
    const Tile *t = &g->p->tile[tile];
    return emit_index(g->e, group_factor(g->e->body, t->inst, t->axis, t->head).plane[k]);
}

static void print_load(AttentionPrint *g, const TileOp *op)
{
    Emit *e = g->e;
    const Tile *t = &g->p->tile[op->dst];
    const char *bar = g->p->bar[op->bar].name, *place = place_text(g, t, 0);
    for (int from = 0; from < t->line; from += STEP) {
        const char *part = emit_number(e, from / STEP * t->lines * LINE),
                   *to = emit_plus(e, at_place(g, t, 0), part);
        emit(e, "nc_copy_box4(%s, %s_map, %d, %s, %s, %s, %s + %s);", to, t->name, from,
             t->stays ? "origin" : "next", plane_name(g, op->dst, 0), plane_name(g, op->dst, 1),
             bar, place);
    }
}

// -- products -------------------------------------------------------------------------------------

static void print_multiply(AttentionPrint *g, const TileOp *op)
{
    Emit *e = g->e;
    const TileProgram *p = g->p;
    const Tile *to = &p->tile[op->dst], *left = &p->tile[op->a], *right = &p->tile[op->b];
    const char *word = p->atom->multiply, *y = emit_text(e, "%s_y", to->name);
    bool scores = to->layout == L_SCORES;
    emit(e, "const uint64_t %s = nc_operand(%s, %d);", y, at_place(g, right, op->shift),
         right->lines);
    emit(e, "#pragma unroll");
    emit(e, "for (int c = 0; c < %d; c++)", (scores ? left->line : p->side_n) / 16);
    if (scores) {
        const bool far = left->line > STEP;
        const char *down = far ? emit_text(e, " + c / 4 * %d", left->lines * 8) : "",
                   *across = far ? emit_text(e, " + c / 4 * %d", right->lines * 8) : "";
        emit(
            e,
            "    nc_product_%s<0, 0>(nc_flat(%s), %s_%s + c %% 4 * 2%s, %s + c %% 4 * 2%s, c > 0);",
            word, to->name, left->name, left->places > 1 ? "now" : "x", down, y, across);
        return;
    }
    const char *more = !strcmp(g->step, "steps") ? "steps > 1"
                       : op->shift               ? "step > 1"
                                                 : "step > 0";
    emit(e, "    nc_product_left_%s<1>(nc_flat(%s), left_%s[c][0], %s + c * %d, c > 0 || %s);",
         word, to->name, left->name, y, LINE, more);
}

static void print_pack(AttentionPrint *g, const TileOp *op)
{
    Emit *e = g->e;
    const char *name = g->p->tile[op->dst].name;
    emit(e, "#pragma unroll");
    emit(e, "for (int c = 0; c < %d; c++) %s(left_%s[c], %s, c);", g->p->side_n / 16,
         g->p->atom->pack, name, name);
}

static void print_shrink(AttentionPrint *g, const TileOp *op)
{
    Emit *e = g->e;
    const TileProgram *p = g->p;
    emit(e, "#pragma unroll");
    emit(e, "for (int j = 0; j < %d; j++)", p->tile[p->out[0].values].line / 2);
    emit(e, "    %s[0][j / 4][j %% 4] *= shrink[j %% 4 / 2];", p->tile[op->dst].name);
}

// -- ops ------------------------------------------------------------------------------------------

static void print_ready(AttentionPrint *g)
{
    const TileProgram *p = g->p;
    Emit *e = g->e;
    emit(e, "if (threadIdx.x == 0) {");
    for (int i = 0; i < p->nbars; i += 2)
        emit(e, "    nc_ring_begin<%d>(%s, %d, %s, %d);", p->bar[i].places, p->bar[i].name,
             p->bar[i].arrivals, p->bar[i + 1].name, p->bar[i + 1].arrivals);
    if (g->again) emit(e, "    nc_vote_begin(vote, %d);", e->body->sched.threads);
    emit(e, "}");
    emit(e, "nc_bars_ready();");
}

static void print_await(AttentionPrint *g, const TileOp *op)
{
    Emit *e = g->e;
    const TileBar *bar = &g->p->bar[op->bar];
    const Tile *t = tile_of(g, op);
    const char *over = emit_part(e, position(g, t, op->shift), t->places, 0, 1);
    emit(e, "nc_bar_wait(%s + %s, %s);%s", bar->name, place_text(g, t, op->shift),
         op->count ? emit_text(e, "(%s + 1) %% 2", over) : emit_text(e, "%s %% 2", over),
         tile_reason(e, g->p, op));
}

// After the wait, nc_settled keeps the compiler from moving uses of the products' registers before
// it.
static void print_wait(AttentionPrint *g, int i)
{
    Emit *e = g->e;
    const TileProgram *p = g->p;
    const TileOp *op = &p->op[i], *next = op;
    emit(e, "nc_products_done<%d>();", op->count);
    while (next->kind == T_WAIT || next->kind == T_ARRIVE) next++;
    uint32_t tiles = 0;
    if (next->dst >= 0 && next->kind != T_MOVE) tiles |= 1u << next->dst;
    if (next->a >= 0) tiles |= 1u << next->a;
    if (next->b >= 0) tiles |= 1u << next->b;
    for (; next->kind == T_MAP && next->dst < 0; next++) tiles |= 1u << next->a;
    for (int t = 0; t < p->ntiles; t++)
        if (tiles >> t & 1) emit(e, "nc_settled(%s);", p->tile[t].name);
}

static void print_ops(AttentionPrint *g, int from, int to);

static void print_steps(AttentionPrint *g, int from, int to)
{
    Emit *e = g->e;
    emit_open(e, 0);
    g->step = "step";
    emit(e, "const int next = first + %s * %d;", g->down ? "(steps - 1 - step)" : "step",
         e->body->sched.tile.k);
    print_ops(g, from + 1, to);
    emit_line(e, e->scope->up, "#pragma unroll 1");
    emit_end(e, "for (int step = %d; step < steps; step++) {", g->p->op[from].early < 0);
    g->step = "steps";
}

static void print_op(AttentionPrint *g, int i)
{
    Emit *e = g->e;
    const TileProgram *p = g->p;
    const TileOp *op = &p->op[i];
    bool alone = !strcmp(g->step, "0"), more = i > 0 && p->op[i - 1].kind == T_MAP;
    switch (op->kind) {
    case T_READY: print_ready(g); break;
    case T_AWAIT: print_await(g, op); break;
    case T_ANNOUNCE:
        emit(e, "nc_bar_expect(%s + %s, %d);", p->bar[op->bar].name,
             place_text(g, tile_of(g, op), 0), p->bar[op->bar].bytes);
        break;
    case T_ARRIVE:
        emit(e, "if (%slane == 0) nc_bar_arrive(%s + %s, 0);",
             op->shift && !strcmp(g->step, "step") && e->body->sched.skew == 0 ? "step > 0 && "
                                                                               : "",
             p->bar[op->bar].name, place_text(g, tile_of(g, op), op->shift));
        break;
    case T_LOAD: print_load(g, op); break;
    case T_FILL: break; // the first product overwrites the sums
    case T_BEGIN: emit(e, "nc_products_begin();"); break;
    case T_MMA: print_multiply(g, op); break;
    case T_COMMIT: emit(e, "nc_products_end();"); break;
    case T_WAIT: print_wait(g, i); break;
    case T_MAP:
        if (op->dst < 0) {
            if (!more) attention_results(g);
            break;
        }
        g->edge = alone;
        if (alone)
            emit(e, "const int next = first%s;",
                 g->down ? emit_text(e, " + (steps - 1) * %d", e->body->sched.tile.k) : "");
        attention_weights(g);
        break;
    case T_SHRINK: print_shrink(g, op); break;
    case T_MOVE: print_pack(g, op); break;
    case T_JUDGE: attention_judge(g); break;
    default: break;
    }
}

static void print_ops(AttentionPrint *g, int from, int to)
{
    const TileProgram *p = g->p;
    for (int i = from; i < to; i++) {
        if (p->op[i].kind == T_LOOP) {
            print_steps(g, i, tile_end_of(p, i));
            i = tile_end_of(p, i);
            continue;
        }
        print_op(g, i);
    }
}

// -- roles ----------------------------------------------------------------------------------------

// The idle time of the blocks, in columns, if tiles are computed in pairs or one by one. The mask
// may leave different numbers of columns to different tiles of rows. In pairs, a block computes
// those with the most and the fewest columns among the remaining tiles of a head. If that leaves
// more of the device idle (few tiles), tiles are computed one by one, longest first, for as many
// heads at a time as the L2 cache holds the columns of.
static int64_t idle_in(const AttentionPrint *g, bool pairs)
{
    // BEGIN: the fixed cost of a tile, in columns.
    enum { MOST_TILES = 1 << 17, BEGIN = 96, UNITS = 1024 };
    const Body *b = g->e->body;
    int64_t n = ceil_div(b->axis[1].extent, b->sched.tile.m), tiles = b->axis[0].extent * n;
    int64_t blocks = b->sched.blocks, load[UNITS] = {0}, all = 0, most = 0;
    if (tiles > MOST_TILES || blocks > UNITS) return pairs ? 0 : 1;
    for (int64_t i = 0; i < tiles; i++) {
        int64_t section = attention_section(b) * n, in = i % section,
                heads = at_most(section, tiles - i + in) / n;
        int64_t nth = i % n, down = pairs ? (nth % 2 ? n - 1 - nth / 2 : nth / 2) : in / heads;
        int64_t row = attention_down(g) ? n - 1 - down : down;
        int64_t cost = BEGIN + attention_columns_at(b, &g->range, row * b->sched.tile.m);
        int64_t *own = &load[(pairs ? i / 2 : i) % blocks];
        *own += cost;
        all += cost;
        if (*own > most) most = *own;
    }
    return most * blocks - all;
}

static void print_tile(AttentionPrint *g)
{
    Emit *e = g->e;
    const Body *b = e->body;
    long long heads = b->axis[0].extent, tiles = ceil_div(b->axis[1].extent, b->sched.tile.m);
    long long section = attention_section(b);
    if (g->pairs) {
        emit(e, "const int %s = tile / %lld, nth = tile %% %lld;", e->axis[0], tiles, tiles);
        emit(e, "const int down = nth %% 2 ? %lld - nth / 2 : nth / 2;", tiles - 1);
    } else if (section >= heads) {
        emit(e, "const int %s = tile %% %lld, down = tile / %lld;", e->axis[0], heads, heads);
    } else {
        emit(e, "const int begin = tile / %lld * %lld, heads = %s;", section * tiles, section,
             heads % section ? emit_text(e, "nc_min(%lld, %lld - begin)", section, heads)
                             : emit_number(e, section));
        emit(e, "const int inside = tile - begin * %lld, down = inside / heads;", tiles);
        emit(e, "const int %s = begin + inside - down * heads;", e->axis[0]);
    }
    if (attention_down(g))
        emit(e, "const int origin = (%lld - down) * %d;", tiles - 1, b->sched.tile.m);
    else
        emit(e, "const int origin = down * %d;", b->sched.tile.m);
}

static void print_products(AttentionPrint *g)
{
    Emit *e = g->e;
    const TileProgram *p = g->p;
    const Body *b = e->body;
    emit(e, "const int top = origin + group * %d + warp * 16, own_rows = top + lane / 4;",
         GROUP_ROWS);
    for (int i = 0; i < b->attention.nscores; i++)
        emit(e, "float %s[1][%d][4];", p->tile[p->score[i].tile].name, p->side_n / 8);
    for (int i = 0; i < b->attention.nouts; i++) {
        emit(e, "float %s[1][%d][4];", p->tile[p->out[i].tile].name,
             p->tile[p->out[i].values].line / 8);
        emit(e, "uint32_t left_%s[%d][1][4];", p->tile[p->out[i].weights].name, p->side_n / 16);
    }
    for (int i = 0; i < p->score[0].tile; i++)
        if (p->tile[i].stays && p->tile[i].places > 1)
            emit(e, "const uint64_t %s_now = %s_x + round %% %d * %d;", p->tile[i].name,
                 p->tile[i].name, p->tile[i].places, p->tile[i].bytes / 16);
    if (b->attention.high >= 0) emit(e, "float shrink[2];");
    attention_statistics(g);
}

static void print_tiles(AttentionPrint *g, int from, int to, const TileRole *role)
{
    const bool passes = role->groups || role->thread; // it uses the rings
    Emit *e = g->e;
    const TileOp *op = &g->p->op[from];
    emit_open(e, 1); // batch
    print_tile(g);
    (passes ? attention_columns : attention_whole)(g);
    g->step = "0";
    if (role->groups) print_products(g);
    print_ops(g, from + 1, to);
    if (passes) emit(e, "taken += steps;");
    if (passes) emit(e, "round++;");
    if (!g->pairs)
        emit_loop(e, "int", "tile", "block", emit_number(e, op->trips), op->count);
    else
        emit_end(e,
                 "for (int turn = 0, tile = block * 2; tile < %lld; "
                 "turn++, tile = (turn / 2 * %d + block) * 2 + turn %% 2) {",
                 (long long)op->trips, op->count);
}

// One pass over all tiles of the role whose ops follow op [at].
static void print_role(AttentionPrint *g, int at)
{
    const TileProgram *p = g->p;
    for (int i = at + 1; i < tile_next_role(p, at + 1); i++)
        if (p->op[i].kind == T_TILES) {
            print_tiles(g, i, tile_end_of(p, i), &p->role[p->op[at].role]);
            i = tile_end_of(p, i);
        }
}

static void begin_role(AttentionPrint *g)
{
    Emit *e = g->e;
    emit(e, "uint32_t taken = 0, round = 0; // steps and tiles before");
    if (g->again) emit(e, "bool low = false; // some row's scores are not all above the mask");
    g->whole = attention_blind(g);
}

// Everything once more, with all columns, for the role whose ops follow op [at], on a condition.
static void print_again(AttentionPrint *g, int at, const char *condition)
{
    const TileProgram *p = g->p;
    if (!g->again) return;
    g->whole = WHOLE_ALL;
    emit_open(g->e, 0);
    print_role(g, at);
    const bool votes = p->op[tile_end_of(p, at + 1) - 1].kind == T_BARRIER;
    emit_end(g->e, condition, votes ? "nc_any_role(vote, low)" : "low");
}

// The roles that do not multiply are in warps 0 to 3.
static void print_others(AttentionPrint *g, int at, int to)
{
    const TileProgram *p = g->p;
    Emit *e = g->e;
    begin_role(g);
    for (int i = at; i < to; i = tile_next_role(p, i + 1)) {
        const TileRole *role = &p->role[p->op[i].role];
        emit_open(e, 0);
        print_role(g, i);
        emit_end(e, "%s",
                 role->thread ? emit_text(e, "if (threadIdx.x == 0) { // %s", role->name)
                              : emit_text(e, "if (warp == %d) { // %s", role->first, role->name));
    }
    if (g->again) emit(e, "__syncwarp();");
    print_again(g, at, "if (%s && threadIdx.x == 0) {");
}

static void print_places(AttentionPrint *g)
{
    Emit *e = g->e;
    const TileProgram *p = g->p;
    int bars = 0;
    emit(e, "const int group = (int)threadIdx.x / 128 - 1; // -1: copies, others: multiply");
    emit(e, "const int warp = threadIdx.x / 32 %% 4, lane = threadIdx.x %% 32;");
    emit(e, "uint8_t *const ring = nc_bulk_shared();");
    for (int i = 0; i < p->score[0].tile; i++)
        emit(e, "uint8_t *const %s = ring + %d;", p->tile[i].name, p->tile[i].offset);
    emit(e, "uint64_t *const bars = (uint64_t *)(ring + %d);", p->shared);
    for (int i = 0; i < p->nbars; bars += p->bar[i++].places)
        emit(e, "uint64_t *const %s = bars + %d;", p->bar[i].name, bars);
    if (g->again) emit(e, "NcVote *const vote = (NcVote *)(bars + %d);", bars);
}

void attention_groups_cuda(Emit *e, const TileProgram *p)
{
    AttentionPrint g = attention_begin(e, p);
    g.step = "0";
    g.groups = true;
    g.down = attention_down(&g) && g.range.n;
    g.pairs = g.range.n && idle_in(&g, true) < idle_in(&g, false);
    const int first = tile_next_role(p, 0);
    int last = p->nops - 1;
    while (p->op[last].kind != T_ROLE) last--;
    g.again = p->op[first + 1].kind == T_AGAIN;
    print_places(&g);
    for (int i = 0; i < first; i++) print_op(&g, i);
    emit_open(e, 0);
    emit(e, "nc_registers_give<%d>();", p->role[0].registers);
    print_others(&g, first, last);
    emit_close(e, "if (group < 0) {", "} else {");
    emit_open(e, 0);
    emit(e, "nc_registers_take<%d>();", p->role[p->nroles - 1].registers);
    for (int t = 0; t < p->score[0].tile; t++)
        if (p->tile[t].stays)
            emit(e, "const uint64_t %s_x = nc_operand(%s + group * %d, %d);", p->tile[t].name,
                 p->tile[t].name, GROUP_ROWS * LINE, p->tile[t].lines);
    begin_role(&g);
    print_role(&g, last);
    print_again(&g, last, "if (%s) { // again, with what is hidden");
    emit_close(e, NULL, "}");
}

const char *attention_groups_parameters(Emit *e)
{
    TileProgram p;
    const char *all = "";
    attention_tiles(e->body, &p);
    for (int i = 0; i < p.score[0].tile; i++)
        all = emit_text(e, "%s, const __grid_constant__ NcMap %s_map", all, p.tile[i].name);
    return all;
}
