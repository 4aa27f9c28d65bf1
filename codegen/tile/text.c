// Tile programs as text (netc --emit tile).
#include <string.h>

#include "codegen/tile/tile.h"

enum { MOST_DEPTH = 4 };

// Tiles in registers: what they belong to.
static const char *owner(const TileProgram *p, const Tile *t)
{
    if (p->nroles) return t->lines > 1 ? " of each group" : "";
    return p->atom->word ? " of each warp" : " of each thread";
}

// Tiles in shared memory: how they are filled.
static const char *origin(const Tile *t)
{
    if (t->of_warp) return "; each warp its own part";
    if (t->stays && t->plain) return "; from memory as it lies, once";
    if (t->layout == L_ROWS || t->layout == L_JOINT) return "";
    if (t->windows) return "; windows in images, copied in bulk";
    if (t->layout == L_BULK) return "; copied in bulk";
    return t->plain ? "; from memory as it lies" : "; computed";
}

static void print_tile(const TileProgram *p, const Tile *t, Buf *out)
{
    static const char *const layouts[] = {
        [L_PAD] = "padded", [L_ACROSS] = "across", [L_SWIZZLE] = "swizzled",
        [L_ROWS] = "rows",  [L_JOINT] = "joint",   [L_BULK] = "in boxes"};
    const char *type = dtype_info[t->type].name;
    buf_printf(out, "  %-10s ", t->name);
    switch (t->layout) {
    case L_SUMS:
    case L_SCORES:
    case L_WEIGHTS:
        if (p->varies)
            buf_printf(out, "registers: %s of %d rows of each group\n", type, p->atom->m);
        else
            buf_printf(out, "registers: %s %dx%d%s\n", type, t->lines, t->line, owner(p, t));
        break;
    case L_OPERAND:
        buf_printf(out, "registers: %s %dx%d%s, from memory\n", type, t->lines, t->line,
                   owner(p, t));
        break;
    case L_TOTALS:
        buf_printf(out, "registers: of %d columns of results, of each warp, of all its tiles\n",
                   t->line);
        break;
    case L_VECTORS:
        buf_printf(out, "registers: the share of a thread of %d tiles %s\n", t->places,
                   p->tile[t->axis - 1].name);
        break;
    case L_RESULTS: buf_str(out, "registers: what results need besides the sums\n"); break;
    default:
        buf_printf(out, "shared:    %s %dx%d, %s, lines of %d, %d place%s of %d bytes at %d%s\n",
                   type, t->lines, t->line, layouts[t->layout], t->pitch, t->places,
                   t->places > 1 ? "s" : "", t->bytes, t->offset, origin(t));
    }
}

static void print_names(const TileProgram *p, uint32_t tiles, const char *what, Buf *out)
{
    for (int i = 0, n = 0; i < p->ntiles; i++)
        if (tiles >> i & 1) buf_printf(out, "%s%s", n++ ? ", " : what, p->tile[i].name);
}

// "left[step + 2]": a tile, with the place that an iteration uses.
static void print_ref(const TileProgram *p, const TileOp *op, int tile, const char *loop, Buf *out)
{
    const Tile *t = &p->tile[tile];
    buf_str(out, t->name);
    if (!*loop || t->places == 1 || !tile_shared(t)) return;
    if (p->varies && !strcmp(loop, "tile")) {
        buf_printf(out, "[%s step]", op->shift ? "last" : "first");
        return;
    }
    buf_printf(out, op->shift ? "[%s + %d]" : "[%s]", loop, op->shift);
}

// "full[step - 1]": an mbarrier, with its place.
static void print_bar(const TileProgram *p, const TileOp *op, const char *loop, Buf *out)
{
    if (p->bar[op->bar].by_tile)
        buf_printf(out, "%s[tile]", p->bar[op->bar].name);
    else if (!strcmp(loop, "tile") && p->bar[op->bar].places == 1)
        buf_str(out, p->bar[op->bar].name);
    else if (!strcmp(loop, "tile"))
        buf_printf(out, "%s[%s step]", p->bar[op->bar].name,
                   p->varies && !op->shift ? "first" : "last");
    else
        buf_printf(out, op->shift ? "%s[%s - %d]" : "%s[%s]", p->bar[op->bar].name, loop,
                   -op->shift);
    if (op->count) buf_str(out, " of the round before");
    print_names(p, op->filled, op->kind == T_ANNOUNCE ? ": of " : ": there ", out);
    print_names(p, op->freed, ": free ", out);
}

static const char *groups_of(const TileOp *op)
{
    return op->how == BY_TENSOR ? " of products" : op->how == BY_BULK ? " of stores" : "";
}

static void print_role(const TileProgram *p, const TileOp *op, Buf *out)
{
    if (op->role == ALL_ROLES) {
        buf_str(out, "all");
        return;
    }
    const TileRole *r = &p->role[op->role];
    buf_printf(out, "%s: ", r->name);
    if (r->thread)
        buf_str(out, "a thread");
    else
        buf_printf(out, "warps %d to %d", r->first, r->first + r->warps - 1);
    if (r->groups)
        buf_printf(out, ", %d groups %s", r->groups,
                   r->turns   ? "that take turns, a tile each"
                   : r->steps ? "that share a tile's steps"
                              : "that share a tile's rows");
    buf_printf(out, ", %d registers", r->registers);
}

// What an op says. %D, %A, %B: its tiles with their places; %d, %a, %b: their names; %m: its
// mbarrier, %y: that one's bytes; %i: iterations; %c: its count; %g: what its groups consist of;
// %f: the tiles it is for. The rest is in print_more.
static const char *const formats[] = {
    [T_FILL] = "fill %d = 0",
    [T_LOAD] = "load %D",
    [T_MOVE] = "move %D = %A",
    [T_MMA] = "mma %d += %A %B",
    [T_MAP] = "map ",
    [T_LOOP] = "loop ",
    [T_END] = "",
    [T_ROLE] = "",
    [T_AGAIN] = "loop again: with all columns, where scores may not be above the mask",
    [T_TILES] = "loop tile: %i in steps of %c",
    [T_CLEAR] = "clear what is before the rows of %D",
    [T_REDUCE] = "reduce %d ",
    [T_STORE] = "store %A",
    [T_SHRINK] = "shrink %d to the scale of these scores",
    [T_JUDGE] = "judge whether scores are above the mask",
    [T_COMMIT] = "commit%g",
    [T_WAIT] = "wait until %c group",
    [T_BARRIER] = "barrier of the ",
    [T_READY] = "set up mbarriers",
    [T_AWAIT] = "await %m",
    [T_ANNOUNCE] = "announce %y bytes at %m",
    [T_ARRIVE] = "arrive at %m",
    [T_FENCE] = "fence for bulk copies and products%f",
    [T_BEGIN] = "fence for sums",
    [T_TURN] = "wait for the turn behind the tile before",
    [T_PASS] = "pass the turn to the next tile",
};

static void print_format(const TileProgram *p, const TileOp *op, const char *loop,
                         const char *format, Buf *out)
{
    for (const char *c = format; *c; c++) {
        if (*c != '%') {
            buf_char(out, *c);
            continue;
        }
        switch (*++c) {
        case 'D': print_ref(p, op, op->dst, loop, out); break;
        case 'A': print_ref(p, op, op->a, loop, out); break;
        case 'B': print_ref(p, op, op->b, loop, out); break;
        case 'd': buf_str(out, p->tile[op->dst].name); break;
        case 'a': buf_str(out, p->tile[op->a].name); break;
        case 'b': buf_str(out, p->tile[op->b].name); break;
        case 'm': print_bar(p, op, loop, out); break;
        case 'y': buf_int(out, p->bar[op->bar].bytes); break;
        case 'i': buf_int(out, op->trips); break;
        case 'c': buf_int(out, op->count); break;
        case 'g': buf_str(out, groups_of(op)); break;
        case 'f': print_names(p, op->filled | op->freed, ": ", out); break;
        default: break;
        }
    }
}

static void print_map(const TileProgram *p, const TileOp *op, const char *loop, Buf *out)
{
    const TileLayout to = op->dst < 0 ? L_TOTALS : p->tile[op->dst].layout;
    print_format(p, op, loop, to == L_TOTALS ? "results" : "%D", out);
    if (to != L_TOTALS && !p->varies && to != L_WEIGHTS) buf_str(out, " and results");
    print_format(p, op, loop, op->b < 0 ? " = BODY(%a" : " = BODY(%a, %b", out);
    buf_str(out, to == L_TOTALS && p->split ? " of all blocks)" : ")");
    if (to == L_TOTALS && op->dst >= 0) print_format(p, op, loop, ", %d += its terms", out);
}

static void print_more(const TileProgram *p, const TileOp *op, const char *loop, Buf *out)
{
    static const char *const scopes[] = {"warp",  "block", "cluster", "cluster, before it ends",
                                         "group", "role"};
    static const char *const copied[] = {"", ", asynchronously", ", by bulk copies", ""};
    switch (op->kind) {
    case T_LOAD:
        buf_str(out, copied[op->how]);
        if (op->how == BY_BULK && p->tile[op->dst].peers) buf_str(out, ", a share for each block");
        break;
    case T_MAP: print_map(p, op, loop, out); break;
    case T_LOOP:
        buf_printf(out, p->varies ? "%s: up to %lld times" : "%s: %lld times", loop,
                   (long long)op->trips);
        if (op->early < 0) buf_str(out, ", but the first");
        if (op->early > 0) buf_printf(out, ", from %d before on", op->early);
        break;
    case T_ROLE: print_role(p, op, out); break;
    case T_REDUCE: {
        const bool adds = p->tile[op->dst].layout == L_TOTALS;
        print_format(p, op, loop, adds ? "+= rows of %A" : "= rows of %A", out);
        if (!adds) buf_str(out, ", in this tile's share of the steps");
        break;
    }
    case T_STORE: buf_str(out, op->how == BY_BULK ? ", by bulk copies" : ", by its threads"); break;
    case T_WAIT:
        buf_printf(out, op->count == 1 ? "%s is under way" : "s%s are under way", groups_of(op));
        print_names(p, op->freed, ": free ", out);
        break;
    case T_BARRIER:
        buf_printf(out, "%s%s", scopes[op->scope], op->filled || op->freed ? ":" : "");
        print_names(p, op->filled, " there ", out);
        print_names(p, op->freed, op->filled ? "; free " : " free ", out);
        break;
    case T_ARRIVE: buf_str(out, op->scope == OF_CLUSTER ? " of all blocks" : ""); break;
    default: break;
    }
}

static void print_op(const TileProgram *p, const TileOp *op, const char *loop, Buf *out)
{
    print_format(p, op, loop, formats[op->kind], out);
    print_more(p, op, loop, out);
    if (op->when && !p->varies)
        buf_printf(out, ", in the %s step", op->when == THE_FIRST ? "first" : "last");
    if (op->kind == T_TURN || op->kind == T_PASS)
        buf_str(out, ", if there is one");
    else if (!p->varies && op->shift && *loop && strcmp(loop, "tile"))
        buf_str(out, ", if there is such a step");
    buf_char(out, '\n');
}

// The name of a loop's index, which depends on the ops inside it.
static const char *loop_name(const TileProgram *p, int i)
{
    if (p->op[i].kind == T_TILES) return "tile";
    if (p->op[i].kind == T_AGAIN) return "again";
    for (; p->op[i].kind != T_END; i++) {
        if (p->op[i].kind == T_MMA || p->op[i].kind == T_REDUCE) return "step";
        if (p->op[i].kind == T_LOAD && p->op[i].how == BY_BULK) return "step";
        if (p->op[i].kind == T_MAP) return p->nroles ? "part" : "strip";
    }
    return "first";
}

static void print_bars(const TileProgram *p, Buf *out)
{
    for (int i = 0; i < p->nbars; i++) {
        const TileBar *bar = &p->bar[i];
        buf_printf(out, "  %-10s mbarriers:", bar->name);
        print_names(p, bar->tiles, " one a place of ", out);
        buf_printf(out, "; %d arrive%s in each phase\n", bar->arrivals,
                   bar->arrivals == 1 ? "s" : "");
    }
}

static void product_head(const TileProgram *p, Buf *out)
{
    const Schedule *s = &p->body->sched;
    buf_printf(out, "product %lldx%lldx%lld of %lld, by %s %dx%dx%d\n",
               (long long)p->body->axis[1].extent, (long long)p->body->axis[2].extent,
               (long long)p->body->axis[p->body->col].extent, (long long)p->body->axis[0].extent,
               p->atom->name, p->atom->m, p->atom->n, p->atom->k);
    buf_printf(out, "  block: %dx%d results, %d columns at once; ", s->tile.m, s->tile.n,
               s->tile.k);
    if (!p->nroles)
        buf_printf(out, "warps: %dx%d of %dx%d, %d share the columns; ", p->warps_m, p->warps_n,
                   p->side_m, p->side_n, p->warps_k);
    buf_printf(out, "%d block%s of a cluster%s\n", p->cluster, p->cluster > 1 ? "s" : "",
               p->split ? " share the columns" : "");
}

static void attention_head(const TileProgram *p, Buf *out)
{
    const Body *b = p->body;
    buf_printf(out, "attention of %lld rows to %lld columns, %lld times, by %s %dx%dx%d\n",
               (long long)b->axis[1].extent, (long long)b->axis[b->col].extent,
               (long long)b->axis[0].extent, p->atom->name, p->atom->m, p->atom->n, p->atom->k);
    buf_printf(out, "  block: %d rows, %d columns at once; %d warps of %d rows\n", b->sched.tile.m,
               b->sched.tile.k, p->warps_m, p->side_m);
}

void tile_text(const TileProgram *p, Buf *out)
{
    (p->body->attention.nouts ? attention_head : product_head)(p, out);
    for (int i = 0; i < p->ntiles; i++) print_tile(p, &p->tile[i], out);
    print_bars(p, out);
    const char *loop[MOST_DEPTH] = {""}; // by depth, from 1 on
    int64_t trips = 0;
    int depth = 0, role = 0;
    for (int i = 0; i < p->nops; i++) {
        const TileOp *op = &p->op[i];
        bool begins = tile_begins(op);
        if (begins) trips = op->trips + op->early;
        if (op->shift && op->shift >= trips && !p->varies) continue; // left out in all iterations
        if (op->kind == T_END) {
            depth--;
            continue;
        }
        if (begins) loop[++depth] = loop_name(p, i);
        if (op->kind == T_ROLE) role = 0;
        buf_pad(out, (depth + role + !begins) * 2, ' ');
        print_op(p, op, loop[depth], out);
        if (op->kind == T_ROLE) role = 1;
    }
}
