// Tile programs as text, for people (netc --emit tile).
#include "codegen/tile/tile.h"

static void print_tile(const TileProgram *p, const Tile *t, Buf *out)
{
    static const char *const layouts[] = {"sums",   "vectors", "results",  "scores", "weights",
                                          "padded", "across",  "swizzled", "rows"};
    buf_printf(out, "  %-10s ", t->name);
    if (t->layout == L_SUMS)
        buf_printf(out, "registers: %s %dx%d of each %s\n",
                   dtype_info[p->type == DT_BF16 || p->type == DT_F16 ? DT_F32 : p->type].name,
                   p->atom->word ? p->side_m
                   : p->each     ? p->each
                                 : 4,
                   p->atom->word ? p->side_n
                   : p->each     ? p->each
                                 : 2,
                   p->atom->word ? "warp" : "thread");
    else if (t->layout == L_VECTORS)
        buf_printf(out, "registers: the share of a thread of %d tiles %s\n", t->places,
                   p->tile[t->axis - 1].name);
    else if (t->layout == L_SCORES || t->layout == L_WEIGHTS)
        buf_printf(out, "registers: %s %dx%d of each warp\n", dtype_info[t->type].name, p->side_m,
                   p->side_n);
    else if (t->layout == L_RESULTS)
        buf_str(out, "registers: what results need besides the sums\n");
    else
        buf_printf(out, "shared:    %s %dx%d, %s, lines of %d, %d place%s of %d bytes at %d%s\n",
                   dtype_info[t->type].name, t->lines, t->line, layouts[t->layout], t->pitch,
                   t->places, t->places > 1 ? "s" : "", t->bytes, t->offset,
                   t->of_warp             ? "; each warp its own part"
                   : t->stays && t->plain ? "; from memory as it lies, once"
                   : t->layout == L_ROWS  ? ""
                   : t->plain             ? "; from memory as it lies"
                                          : "; computed");
}

static void print_names(const TileProgram *p, uint32_t tiles, const char *what, Buf *out)
{
    for (int i = 0, n = 0; i < p->ntiles; i++)
        if (tiles >> i & 1) buf_printf(out, "%s%s", n++ ? ", " : what, p->tile[i].name);
}

// "left[step + 2]": the tile's place of an iteration.
static void print_ref(const TileProgram *p, const TileOp *op, int tile, const char *loop, Buf *out)
{
    const Tile *t = &p->tile[tile];
    buf_str(out, t->name);
    if (!*loop || t->places == 1) return;
    buf_printf(out, op->shift ? "[%s + %d]" : "[%s]", loop, op->shift);
}

static void print_op(const TileProgram *p, const TileOp *op, const char *loop, Buf *out)
{
    static const char *const scopes[] = {"warp", "block", "cluster", "cluster, before it ends"};
    switch (op->kind) {
    case T_FILL: buf_printf(out, "fill %s = 0", p->tile[op->dst].name); break;
    case T_LOAD:
        buf_str(out, "load ");
        print_ref(p, op, op->dst, loop, out);
        buf_str(out, op->how == BY_ASYNC ? ", asynchronously" : "");
        break;
    case T_MOVE:
        buf_str(out, "move ");
        print_ref(p, op, op->dst, loop, out);
        buf_str(out, " = ");
        print_ref(p, op, op->a, loop, out);
        break;
    case T_MMA:
        buf_printf(out, "mma %s += ", p->tile[op->dst].name);
        print_ref(p, op, op->a, loop, out);
        buf_str(out, " ");
        print_ref(p, op, op->b, loop, out);
        break;
    case T_MAP:
        buf_printf(out, "map %s = BODY(%s", op->dst < 0 ? "results" : p->tile[op->dst].name,
                   p->tile[op->a].name);
        if (op->b >= 0) buf_printf(out, ", %s", p->tile[op->b].name);
        buf_char(out, ')');
        break;
    case T_LOOP:
        buf_printf(out, "loop %s: %lld times", loop, (long long)op->trips);
        if (op->early) buf_printf(out, ", from %d before on", op->early);
        break;
    case T_COMMIT: buf_str(out, "commit"); break;
    case T_WAIT: buf_printf(out, "wait until %d groups are under way", op->count); break;
    case T_BARRIER:
        buf_printf(out, "barrier of the %s:", scopes[op->scope]);
        print_names(p, op->filled, " there ", out);
        print_names(p, op->freed, op->filled ? "; free " : " free ", out);
        break;
    case T_END: break;
    }
    if (op->shift) buf_str(out, ", if there is such a step");
    buf_char(out, '\n');
}

// What a loop goes over, by what is in it.
static const char *loop_name(const TileProgram *p, int i)
{
    for (; p->op[i].kind != T_END; i++) {
        if (p->op[i].kind == T_MMA) return "step";
        if (p->op[i].kind == T_MAP) return "strip";
    }
    return "first";
}

static void product_head(const TileProgram *p, Buf *out)
{
    const Schedule *s = &p->body->sched;
    buf_printf(out, "product %lldx%lldx%lld of %lld, by %s %dx%dx%d\n",
               (long long)p->body->axis[1].extent, (long long)p->body->axis[2].extent,
               (long long)p->body->axis[p->body->col].extent, (long long)p->body->axis[0].extent,
               p->atom->name, p->atom->m, p->atom->n, p->atom->k);
    buf_printf(out,
               "  block: %dx%d results, %d columns at once; warps: %dx%d of %dx%d, %d share the "
               "columns; %d block%s of a cluster\n",
               s->tile_m, s->tile_n, s->tile_k, p->warps_m, p->warps_n, p->side_m, p->side_n,
               p->warps_k, p->cluster, p->cluster > 1 ? "s" : "");
}

static void attention_head(const TileProgram *p, Buf *out)
{
    const Body *b = p->body;
    buf_printf(out, "attention of %lld rows to %lld columns, %lld times, by %s %dx%dx%d\n",
               (long long)b->axis[1].extent, (long long)b->axis[b->col].extent,
               (long long)b->axis[0].extent, p->atom->name, p->atom->m, p->atom->n, p->atom->k);
    buf_printf(out, "  block: %d rows, %d columns at once; %d warps of %d rows\n", b->sched.tile_m,
               b->sched.tile_k, p->warps_m, p->side_m);
}

void tile_text(const TileProgram *p, Buf *out)
{
    (p->body->attention.nouts ? attention_head : product_head)(p, out);
    for (int i = 0; i < p->ntiles; i++) print_tile(p, &p->tile[i], out);
    const char *loop = "";
    int64_t trips = 0;
    int depth = 1;
    for (int i = 0; i < p->nops; i++) {
        const TileOp *op = &p->op[i];
        if (op->kind == T_LOOP) trips = op->trips + op->early;
        if (op->shift && op->shift >= trips) continue; // no step is
        if (op->kind == T_LOOP) loop = loop_name(p, i);
        if (op->kind == T_END) {
            loop = "";
            depth--;
            continue;
        }
        buf_pad(out, depth * 2, ' ');
        print_op(p, op, loop, out);
        depth += op->kind == T_LOOP;
    }
}
