// Synchronisation of a tile program with roles: inserts all mbarriers, fences, turns and waits.
//
// Asynchronous ops complete some time after they are issued, and roles run concurrently. How an
// access to a tile waits for the access before it depends on what makes the two:
//
//     bulk copy -> any role            mbarrier "full": the bytes of a place have arrived
//     any role -> bulk copy            mbarrier "empty": each warp arrives there when its reads are
//                                      complete
//     threads -> asynchronous access   a proxy fence of the threads that wrote, then their barrier
//     threads -> threads of a warp     a barrier
//     bulk store -> threads            a wait until at most n stores are pending, then a barrier
//     sums -> blocks of a cluster      mbarrier "written", at which each warp of each block arrives
//     reads of these -> bulk copy      a proxy fence, then mbarrier "read", likewise
//     threads -> sums of products      a fence of the tensor cores (wgmma.fence)
//     sums of products -> threads      a wait for all products
//
// Products read their operands until they complete. A group goes on to the next step before that,
// so it releases a place of the ring one step later. The exception: if the groups divide the steps,
// so that the other group multiplies the next step at the same time, and the ring has too few
// places for both, a group waits for its products.
#include "codegen/tile/sync.h"

enum { FEW_PLACES = 3 }; // per group
enum { UNDER_WAY = 1 };  // groups of products that are pending when a step ends: its own

static int role_at(const TileProgram *p, int i)
{
    while (p->op[i].kind != T_ROLE) i--;
    return p->op[i].role;
}

static bool loads(const TileOp *op)
{
    return op->kind == T_LOAD && op->how == BY_BULK;
}

// The tiles in shared memory that the op reads.
static uint32_t reads(const TileProgram *p, const TileOp *op)
{
    uint32_t all = op->kind == T_CLEAR ? 1u << op->dst : 0;
    if (op->a >= 0 && tile_shared(&p->tile[op->a])) all |= 1u << op->a;
    if (op->b >= 0 && tile_shared(&p->tile[op->b])) all |= 1u << op->b;
    return all;
}

// The tiles in shared memory that threads write in the op.
static uint32_t writes(const TileProgram *p, const TileOp *op)
{
    bool threads = op->kind == T_CLEAR || op->kind == T_MAP || op->kind == T_MOVE;
    return threads && op->dst >= 0 && tile_shared(&p->tile[op->dst]) ? 1u << op->dst : 0;
}

static bool asynchronous(const TileOp *op)
{
    return op->how == BY_TENSOR || op->how == BY_BULK;
}

// -- rings ----------------------------------------------------------------------------------------

static int add_bar(TileProgram *p, const char *name, uint32_t tiles)
{
    TileBar *bar = &p->bar[p->nbars];
    *bar = (TileBar){.name = name, .tiles = tiles};
    for (int t = 0; t < p->ntiles; t++)
        if (tiles >> t & 1) {
            bar->places = p->tile[t].places;
            bar->bytes += p->tile[t].bytes;
        }
    return p->nbars++;
}

// Guards a loop that reads places of the ring, in ops [first] to [last]. A group passes its turn on
// when it has seen all places of its tile full: the parity of an mbarrier identifies a phase only
// to threads that know that the phase before it has ended.
static void guard_reader(Sync *s, int loop, int first, int last, int full, int empty)
{
    const TileProgram *p = &s->from;
    const TileRole *role = &p->role[role_at(p, loop)];
    uint32_t tiles = s->p->bar[full].tiles, read = 0;
    for (int i = first; i <= last; i++) read |= reads(p, &p->op[i]);
    bool peers = false, tensor = p->op[last].how == BY_TENSOR;
    for (int t = 0; t < p->ntiles; t++) peers |= (read & tiles) >> t & 1 && p->tile[t].peers;
    s->p->bar[empty].arrivals +=
        role->warps / (role->turns || role->steps ? role->groups : 1) * (peers ? p->cluster : 1);
    s->p->bar[empty].of_cluster |= peers;

    if (role->turns) sync_before(s, loop, (TileOp){T_TURN, .shift = -1});
    sync_before(s, first, (TileOp){T_AWAIT, .bar = full, .filled = tiles});
    if (role->turns) sync_before(s, first, (TileOp){T_PASS, .shift = 1, .when = THE_LAST});

    TileOp arrive = {T_ARRIVE, .bar = empty, .scope = peers ? OF_CLUSTER : OF_BLOCK};
    if (!tensor) {
        sync_behind(s, last, (TileOp){T_BARRIER, .scope = OF_WARP, .freed = read});
        sync_behind(s, last, arrive);
        return;
    }
    if (role->steps && p->tile[0].places < FEW_PLACES * role->groups) {
        sync_behind(s, last, (TileOp){T_WAIT, BY_TENSOR, .count = 0});
        sync_behind(s, last, arrive);
        return;
    }
    arrive.shift = -1;
    if (p->op[loop].trips > 1) {
        sync_behind(s, last, (TileOp){T_WAIT, BY_TENSOR, .count = UNDER_WAY});
        sync_behind(s, last, arrive);
    }
    int end = tile_end_of(p, loop);
    sync_behind(s, end, (TileOp){T_WAIT, BY_TENSOR, .count = 0});
    sync_behind(s, end, arrive);
}

// Guards the loop that fills a ring, whose first load is op [load], and the loops that read it.
static void guard_ring(Sync *s, int loop, int load)
{
    const TileProgram *p = &s->from;
    uint32_t tiles = 0;
    for (int i = load; p->op[i].kind != T_END; i++) {
        if (!loads(&p->op[i])) continue;
        tiles |= 1u << p->op[i].dst;
        s->from.op[i].bar = s->p->nbars; // "full"
    }
    int full = add_bar(s->p, "full", tiles), empty = add_bar(s->p, "empty", tiles);
    s->p->bar[full].arrivals = 1;
    sync_before(s, load, (TileOp){T_AWAIT, .bar = empty, .count = 1, .freed = tiles});
    sync_before(s, load, (TileOp){T_ANNOUNCE, .bar = full, .filled = tiles});
    for (int i = 0; i < p->nops; i++) {
        if (p->op[i].kind != T_LOOP || i == loop) continue;
        int first = -1, last = -1;
        for (int in = i; in < tile_end_of(p, i); in++)
            if (reads(p, &p->op[in]) & tiles) last = in, first = first < 0 ? in : first;
        if (first >= 0) guard_reader(s, i, first, last, full, empty);
    }
}

// A tile that stays is copied once; roles that read it wait for the copy before their loop over
// tiles.
static void guard_staying(Sync *s, int load)
{
    const TileProgram *p = &s->from;
    const uint32_t tile = 1u << p->op[load].dst;
    const int bar = add_bar(s->p, "stays", tile);
    s->p->bar[bar].once = true;
    s->p->bar[bar].arrivals = 1;
    s->from.op[load].bar = bar;
    sync_before(s, load, (TileOp){T_ANNOUNCE, .bar = bar, .filled = tile});
    for (int i = 0, tiles = 0; i < p->nops; i++) {
        if (p->op[i].kind == T_TILES) tiles = i;
        if (reads(p, &p->op[i]) & tile)
            sync_before(s, tiles, (TileOp){T_AWAIT, .bar = bar, .filled = tile});
    }
}

// -- sums that the blocks of a cluster share ------------------------------------------------------

static bool overlaps(const TileProgram *p, int a, int b)
{
    for (int i = 0; i < p->tile[a].places; i++)
        for (int j = 0; j < p->tile[b].places; j++)
            if (tile_overlaps(&p->tile[a], i, &p->tile[b], j)) return true;
    return false;
}

static uint32_t overlapped(const TileProgram *p, int by)
{
    uint32_t tiles = 0;
    for (int t = 0; t < p->ntiles; t++)
        if (t != by && tile_shared(&p->tile[t]) && overlaps(p, by, t)) tiles |= 1u << t;
    return tiles;
}

// Op [move] writes the totals of the warps in place of the ring, which the other group may still be
// reading; then all warps read them.
static void guard_joint(Sync *s, int move)
{
    const int joint = s->from.op[move].dst;
    TileOp before = {T_BARRIER, .scope = OF_ROLE, .freed = overlapped(&s->from, joint)};
    sync_before(s, move, before);
    sync_behind(s, move, (TileOp){T_BARRIER, .scope = OF_ROLE, .filled = 1u << joint});
}

static int add_cluster_bar(Sync *s, const char *name, int tile, int warps)
{
    int bar = add_bar(s->p, name, 1u << tile);
    s->p->bar[bar].by_tile = s->p->bar[bar].of_cluster = true;
    s->p->bar[bar].arrivals = warps * s->from.cluster;
    return bar;
}

// Op [move] writes the sums in place of the ring, and op [map] reads those of all blocks. The
// role's products read the ring until they complete.
static void guard_sums(Sync *s, int move, int map)
{
    const TileProgram *p = &s->from;
    const TileRole *role = &p->role[role_at(p, move)];
    int sums = p->op[move].dst;
    const uint32_t own = 1u << sums, ring = overlapped(p, sums);
    int written = add_cluster_bar(s, "written", sums, role->warps),
        read = add_cluster_bar(s, "read", sums, role->warps);
    if (role->groups > 1)
        sync_before(s, move, (TileOp){T_BARRIER, .scope = OF_ROLE, .freed = ring});
    sync_behind(s, move, (TileOp){T_BARRIER, .scope = OF_WARP, .filled = own});
    sync_behind(s, move, (TileOp){T_ARRIVE, .bar = written, .scope = OF_CLUSTER});
    sync_before(s, map, (TileOp){T_AWAIT, .bar = written, .filled = own});
    sync_behind(s, map, (TileOp){T_FENCE, .freed = own});
    sync_behind(s, map, (TileOp){T_BARRIER, .scope = OF_WARP, .freed = own});
    sync_behind(s, map, (TileOp){T_ARRIVE, .bar = read, .scope = OF_CLUSTER});
    for (int i = 0; i < p->nops; i++) { // loops that fill this memory wait before they start
        if (p->op[i].kind != T_LOOP) continue;
        bool fills = false;
        for (int in = i; in < tile_end_of(p, i); in++)
            fills |= loads(&p->op[in]) && ring >> p->op[in].dst & 1;
        if (fills) sync_before(s, i, (TileOp){T_AWAIT, .bar = read, .count = 1, .freed = own});
    }
}

// -- writes of threads and asynchronous reads -----------------------------------------------------

static TileScope scope_of(const TileProgram *p, uint32_t tiles)
{
    for (int t = 0; t < p->ntiles; t++)
        if (tiles >> t & 1 && !p->tile[t].of_warp) return OF_GROUP;
    return OF_WARP;
}

// The least number of groups of stores that are issued from one store of a place to the next write
// of that place by threads, in a loop that is executed repeatedly.
static int stores_between(const Tile *t, int64_t trips)
{
    int64_t stored[TILE_MOST_PLACES] = {0}, fewest = TILE_MOST_PLACES, now = 0;
    for (int again = 0; again < 3; again++)
        for (int64_t i = 0; i < at_most(trips, 2 * t->places); i++) {
            int place = tile_place(t, i);
            if (stored[place]) fewest = at_most(fewest, now - stored[place]);
            stored[place] = ++now;
        }
    return (int)fewest;
}

static void guard_writes(Sync *s, int i, int loop)
{
    const TileProgram *p = &s->from;
    uint32_t tiles = writes(p, &p->op[i]);
    TileOp fence = {T_FENCE, .filled = tiles, .when = p->op[i].when};
    TileOp barrier = {T_BARRIER, .scope = scope_of(p, tiles), .filled = tiles, .when = fence.when};
    for (int j = i + 1; j < tile_end_of(p, loop); j++) {
        const TileOp *next = &p->op[j];
        if (!(reads(p, next) & tiles)) continue;
        bool threads = next->kind == T_MAP || (next->kind == T_STORE && next->how == BY_BODY);
        if (threads) { // the same threads read
            sync_behind(s, i, barrier);
            sync_behind(s, j, (TileOp){T_BARRIER, .scope = scope_of(p, tiles), .freed = tiles});
            return;
        }
        if (!asynchronous(next)) continue;
        sync_behind(s, i, fence);
        sync_behind(s, i, barrier);
        if (next->kind != T_STORE) return;
        int count = stores_between(&p->tile[next->a], p->op[loop].trips);
        sync_before(s, i, (TileOp){T_WAIT, BY_BULK, .count = count, .freed = tiles});
        sync_before(s, i, (TileOp){T_BARRIER, .scope = scope_of(p, tiles), .freed = tiles});
        sync_behind(s, j, (TileOp){T_COMMIT, .how = BY_BULK});
        sync_before(s, tile_next_role(p, j), (TileOp){T_WAIT, BY_BULK, .count = 0});
        return;
    }
}

static void guard(Sync *s)
{
    const TileProgram *p = &s->from;
    int loop = -1, guarded = -1;
    for (int i = 0; i < p->nops; i++) {
        const TileOp *op = &p->op[i];
        if (op->kind == T_LOOP) loop = i;
        if (loads(op) && !p->tile[op->dst].stays && guarded != loop)
            guard_ring(s, guarded = loop, i);
    }
    for (int i = 0; i < p->nops; i++)
        if (loads(&p->op[i]) && p->tile[p->op[i].dst].stays) guard_staying(s, i);
    for (int i = 0; i < p->nops; i++) {
        const TileOp *op = &p->op[i];
        if (op->kind == T_LOOP) loop = i;
        if (op->kind == T_MMA && op->how == BY_TENSOR) sync_product(s, i);
        if (op->kind == T_MOVE && p->tile[op->dst].layout == L_JOINT) {
            guard_joint(s, i);
        } else if (op->kind == T_MOVE && p->tile[op->dst].layout == L_ROWS &&
                   !p->tile[op->dst].of_warp) {
            int map = i;
            while (p->op[map].kind != T_MAP) map++;
            guard_sums(s, i, map);
        } else if (writes(p, op)) {
            guard_writes(s, i, loop);
        }
    }
}

void tile_synchronise_roles(TileProgram *p)
{
    Sync s;
    sync_begin(&s, p);
    sync_before(&s, 0, (TileOp){.kind = T_READY});
    guard(&s);
    // Blocks arrive at each other's mbarriers and read each other's sums, so they end together.
    if (p->cluster > 1) {
        sync_behind(&s, s.from.nops, (TileOp){T_ROLE, .role = ALL_ROLES});
        sync_behind(&s, s.from.nops, (TileOp){T_BARRIER, .scope = OF_CLUSTER});
    }
    sync_end(&s);
}
