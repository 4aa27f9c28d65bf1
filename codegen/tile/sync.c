// Synchronisation of a tile program without roles: inserts all barriers, commits of groups of
// copies and waits for them.
//
// The program is simulated with enough iterations to show every dependence. An access to shared
// memory depends on earlier ones: a write on the reads of what it overwrites, a read on the write
// of what it reads. Each such pair needs a barrier at one of the program points between the two; if
// the first is an asynchronous copy, the thread that issued it must also wait for it before that
// barrier. A small set of points is chosen that covers all pairs: pairs with the fewest candidate
// points come first, and a wait for copies comes as late as possible. A second simulation counts
// how many groups of copies may be pending at each wait.
#include "codegen/tile/sync.h"

enum { MOST_NEEDS = 128, GAPS = TILE_MOST_OPS + 1 }; // gap: the point before an op, or the end

typedef struct Need { // a barrier is needed in one of these gaps
    uint64_t gaps;
    TileScope scope;
    bool arrives;     // it is for a copy to arrive: the latest gap is the best
    int passed[GAPS]; // when each gap was passed last
    uint32_t filled, freed;
} Need;

typedef struct Spot { // a place of a tile; times 0: never
    int wrote, read[TILE_MOST_OPS];
    int group; // the group of the copy that wrote it; 0: none, or it has been read since
} Spot;

typedef struct Threads {
    const TileProgram *p;
    int now, iteration_began, groups;
    int passed[GAPS], begun[GAPS]; // when a gap was passed last; how many groups had begun then
    Spot cell[TILE_MOST_TILES][TILE_MOST_PLACES];
    Need need[MOST_NEEDS];
    int nneeds, visits[GAPS];
    bool counts; // this is the second simulation
    bool chosen[GAPS];
    TileOp barrier[GAPS];
    int under_way[GAPS]; // how many groups may be pending there; -1: no wait
} Threads;

// Whether a barrier may be inserted there: not between loads and moves in a loop with `together`.
static bool open_gap(const TileProgram *p, int gap)
{
    for (int i = gap; i-- > 0 && p->op[i].kind != T_END;)
        if (p->op[i].kind == T_LOOP) return !p->op[i].together;
    return true;
}

static void add_need(Threads *s, int since, int tile, bool filled, TileScope scope, bool arrives)
{
    Need n = {.scope = scope, .arrives = arrives};
    if (arrives && since < s->iteration_began) since = s->iteration_began;
    for (int g = 0; g <= s->p->nops; g++) {
        n.passed[g] = s->passed[g];
        if (s->passed[g] > since && open_gap(s->p, g)) n.gaps |= 1ull << g;
    }
    *(filled ? &n.filled : &n.freed) = 1u << tile;
    for (int i = 0; i < s->nneeds; i++) {
        Need *o = &s->need[i];
        if (o->gaps != n.gaps || o->scope != n.scope || o->arrives != arrives) continue;
        o->filled |= n.filled;
        o->freed |= n.freed;
        return;
    }
    if (s->nneeds < MOST_NEEDS) s->need[s->nneeds++] = n;
}

// A place that a copy wrote is read: the wait for its group is at the last chosen gap passed since.
static void count_groups(Threads *s, const Spot *c)
{
    int last = -1;
    for (int g = 0; g <= s->p->nops; g++)
        if (s->chosen[g] && s->barrier[g].scope != OF_WARP && s->passed[g] > c->wrote &&
            (last < 0 || s->passed[g] > s->passed[last]))
            last = g;
    if (last < 0) return;
    int left = s->begun[last] - c->group;
    if (s->under_way[last] < 0 || left < s->under_way[last]) s->under_way[last] = left;
}

// Op number i accesses a place of a tile.
static void access(Threads *s, int i, int tile, int place, bool writes)
{
    const Tile *t = &s->p->tile[tile];
    Spot *own = &s->cell[tile][place];
    bool peers = s->p->op[i].kind == T_MAP && s->p->cluster > 1;
    for (int o = 0; o < s->p->ntiles; o++)
        for (int at = 0; tile_shared(&s->p->tile[o]) && at < s->p->tile[o].places; at++) {
            Spot *c = &s->cell[o][at];
            if (!tile_overlaps(t, place, &s->p->tile[o], at) || (!writes && c != own)) continue;
            TileScope scope = peers ? OF_CLUSTER : t->of_warp && c == own ? OF_WARP : OF_BLOCK;
            if (c->wrote && c->group && s->counts) count_groups(s, c);
            if (c->wrote && !s->counts) add_need(s, c->wrote, o, !writes, scope, c->group > 0);
            c->group = 0;
            for (int r = 0; writes && r < s->p->nops; r++) {
                if (c->read[r] && !s->counts) add_need(s, c->read[r], o, false, scope, false);
                c->read[r] = 0;
            }
            if (writes) c->wrote = 0;
        }
    if (!writes) own->read[i] = s->now;
    if (!writes) return;
    own->wrote = s->now;
    bool copied = s->p->op[i].kind == T_LOAD;
    own->group = copied ? s->groups + 1 : 0;
}

static void visit(Threads *s, int gap)
{
    s->now++;
    s->passed[gap] = s->now;
    s->begun[gap] = s->groups;
    s->visits[gap]++;
}

static bool ends_group(const TileProgram *p, int i)
{
    bool next = i + 1 < p->nops && p->op[i + 1].kind == T_LOAD && p->op[i + 1].how == BY_ASYNC;
    return p->op[i].kind == T_LOAD && p->op[i].how == BY_ASYNC && !next;
}

// Runs op number i in an iteration of a loop with [trips] iterations; returns the next op's number.
static int run(Threads *s, int i, int64_t iteration, int64_t trips)
{
    const TileProgram *p = s->p;
    const TileOp *op = &p->op[i];
    visit(s, i);
    if (op->kind == T_LOOP) {
        int next = i + 1;
        int64_t n = tile_iterations(p, op->trips, 3);
        while (p->op[next].kind != T_END) next++;
        for (int64_t k = -op->early; k < n; k++) {
            s->iteration_began = s->now;
            for (int in = i + 1; in < next;) in = run(s, in, k, n);
            visit(s, next);
        }
        return next + 1;
    }
    int64_t about = iteration + op->shift;
    if (about >= 0 && (about < trips || !op->shift)) {
        if (op->kind == T_MMA)
            for (int side = 0; side < 2; side++) {
                int t = side ? op->b : op->a;
                if (!tile_shared(&p->tile[t])) continue;
                access(s, i, t, tile_place(&p->tile[t], about), false);
            }
        if (op->kind == T_MAP && tile_shared(&p->tile[op->a])) access(s, i, op->a, 0, false);
        if ((op->kind == T_LOAD || op->kind == T_MOVE) && tile_shared(&p->tile[op->dst]))
            access(s, i, op->dst, tile_place(&p->tile[op->dst], about), true);
    }
    if (ends_group(p, i)) s->groups++;
    return i + 1;
}

static void run_all(Threads *s)
{
    const TileProgram *p = s->p;
    s->now = s->groups = 0;
    for (int t = 0; t < TILE_MOST_TILES; t++)
        for (int at = 0; at < TILE_MOST_PLACES; at++) s->cell[t][at] = (Spot){0};
    for (int g = 0; g < GAPS; g++) s->passed[g] = s->visits[g] = 0;
    for (int i = 0; i < p->nops;) i = run(s, i, 0, 1);
    visit(s, p->nops);
    // A block must not end while others read its shared memory.
    for (int t = 0; t < p->ntiles && p->cluster > 1; t++)
        for (int r = 0; r < p->nops && !s->counts; r++)
            if (s->cell[t][0].read[r] && p->op[r].kind == T_MAP)
                add_need(s, s->cell[t][0].read[r], t, false, TO_LEAVE, false);
}

static bool before(const Need *a, const Need *b) // a has a wider scope, or fewer candidates
{
    if (a->scope != b->scope) return a->scope > b->scope;
    return __builtin_popcountll(a->gaps) < __builtin_popcountll(b->gaps);
}

static bool served(const Threads *s, const Need *n)
{
    for (int g = 0; g <= s->p->nops; g++)
        if (n->gaps >> g & 1 && s->chosen[g] && s->barrier[g].scope >= n->scope) return true;
    return false;
}

// How many more needs a barrier of that scope in that gap would serve.
static int serves(const Threads *s, int gap, TileScope scope)
{
    int n = 0;
    for (int i = 0; i < s->nneeds; i++)
        n += s->need[i].gaps >> gap & 1 && s->need[i].scope <= scope && !served(s, &s->need[i]);
    return n;
}

// Chooses a gap for a need: one that is passed less often (but a wait for copies stays in the step
// that needs it), then one that serves more needs, then the latest.
static void serve(Threads *s, const Need *n)
{
    int best = -1, most = 0;
    if (served(s, n)) return;
    for (int g = 0; g <= s->p->nops; g++) {
        if (!(n->gaps >> g & 1)) continue;
        int more = serves(s, g, n->scope);
        bool better = best < 0 || more > most || (more == most && n->passed[g] > n->passed[best]);
        if (best >= 0 && !n->arrives && s->visits[g] != s->visits[best])
            better = s->visits[g] < s->visits[best];
        if (better) best = g, most = more;
    }
    if (best < 0) return;
    s->chosen[best] = true;
    s->barrier[best] = (TileOp){T_BARRIER, .scope = n->scope};
}

// Records which tiles each barrier is for.
static void explain(Threads *s)
{
    for (int i = 0; i < s->nneeds; i++)
        for (int g = 0; g <= s->p->nops; g++)
            if (s->need[i].gaps >> g & 1 && s->barrier[g].scope >= s->need[i].scope) {
                s->barrier[g].filled |= s->need[i].filled;
                s->barrier[g].freed |= s->need[i].freed;
            }
}

// -- inserting ------------------------------------------------------------------------------------

void sync_begin(Sync *s, TileProgram *p)
{
    s->from = *p;
    s->p = p;
    for (int i = 0; i <= TILE_MOST_OPS; i++) s->before[i].n = s->behind[i].n = 0;
}

static void insert(Inserted *to, TileOp op)
{
    op.dst = op.a = op.b = NO_TILE;
    to->op[to->n++] = op;
}

void sync_before(Sync *s, int i, TileOp op)
{
    insert(&s->before[i], op);
}

void sync_behind(Sync *s, int i, TileOp op)
{
    insert(&s->behind[i], op);
}

void sync_product(Sync *s, int i)
{
    Inserted own = {0}, *to = &s->behind[i];
    insert(&s->before[i], (TileOp){.kind = T_BEGIN});
    insert(&own, (TileOp){.kind = T_COMMIT, .how = BY_TENSOR});
    for (int k = 0; k < to->n; k++) insert(&own, to->op[k]);
    *to = own;
}

static void add_all(TileProgram *p, const Inserted *in)
{
    for (int k = 0; k < in->n; k++) tile_op(p, in->op[k]);
}

void sync_end(Sync *s)
{
    s->p->nops = 0;
    for (int i = 0; i <= s->from.nops; i++) {
        add_all(s->p, &s->before[i]);
        if (i < s->from.nops) tile_op(s->p, s->from.op[i]);
        add_all(s->p, &s->behind[i]);
    }
}

// -------------------------------------------------------------------------------------------------

static void sort_needs(Threads *s)
{
    for (int i = 1; i < s->nneeds; i++)
        for (int j = i; j > 0 && before(&s->need[j], &s->need[j - 1]); j--) {
            Need swap = s->need[j];
            s->need[j] = s->need[j - 1];
            s->need[j - 1] = swap;
        }
}

static void synchronise_threads(TileProgram *p)
{
    Sync inserted;
    sync_begin(&inserted, p);
    Threads s = {.p = &inserted.from};
    run_all(&s);
    sort_needs(&s);
    for (int i = 0; i < s.nneeds; i++) serve(&s, &s.need[i]);
    explain(&s);
    for (int g = 0; g < GAPS; g++) s.under_way[g] = -1;
    s.counts = true;
    run_all(&s);
    for (int i = 0; i <= s.p->nops; i++) {
        if (s.under_way[i] >= 0)
            sync_before(&inserted, i, (TileOp){T_WAIT, .count = s.under_way[i]});
        if (s.chosen[i]) sync_before(&inserted, i, s.barrier[i]);
        if (i < s.p->nops && ends_group(s.p, i))
            sync_behind(&inserted, i, (TileOp){.kind = T_COMMIT});
    }
    sync_end(&inserted);
}

void tile_synchronise(TileProgram *p)
{
    if (!p->nroles)
        synchronise_threads(p);
    else if (p->varies)
        tile_synchronise_scores(p);
    else
        tile_synchronise_roles(p);
}
