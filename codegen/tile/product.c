// The tile program of a contraction whose operands pass through tiles in shared memory (with tensor
// cores: a ring of them), and the table of the matrix instructions.
#include "codegen/tile/tile.h"

enum { VECTOR_BYTES = 16, MMA_WARPS_M = 2, MMA_WARPS_N = 4, MMA_AHEAD = 4, MMA_STRIP = 16 };

static const TileAtom atoms[] = {
    {"bf16", DT_BF16, 0, 16, 8, 16, "16", "nc_multiply_b", "nc_pack_b"},
    {"f16", DT_F16, 0, 16, 8, 16, "16", "nc_multiply_h", "nc_pack_h"},
    {"tf32", DT_F32, TENSOR_TF32, 16, 8, 8, "32", "nc_multiply_tf32", NULL},
    {"f32 as three tf32", DT_F32, TENSOR_F32, 16, 8, 8, "32", "nc_multiply_f32", NULL},
};
// Without tensor cores: one multiplication and addition at a time, of any type.
static const TileAtom fma = {"fma", DT_BOOL, 0, 1, 1, 1, NULL, NULL, NULL};

static const TileAtom *atom_of(DType type, int tensor)
{
    for (size_t i = 0; i < sizeof atoms / sizeof *atoms; i++)
        if (atoms[i].operand == type && (type != DT_F32 || atoms[i].tensor == tensor))
            return &atoms[i];
    return NULL;
}

const TileAtom *tile_atom(const Body *b)
{
    if (b->attention.nouts) return atom_of(attention_type(b), b->attention.tensor);
    if (b->sched.variant == RUN_TILES) return &fma;
    DType type = mma_fits(b) ? narrow_type(b, b->dot.a) : DT_F32;
    return atom_of(type, b->dot.tensor);
}

// Whether every vector along the axis is contiguous in memory.
static bool runs_along(const Inst *v, int axis, int width)
{
    int64_t step;
    bool aligned;
    return ix_run(v->ix, axis, width, &step, &aligned) && step == 1;
}

// Whether the operand is contiguous along its own axis (m or n) and not along the columns (k).
static bool lies_across(const Body *b, int inst, int axis, int width)
{
    const Inst *v = inst_first(b, inst);
    return v->kind == KI_LOAD && !v->ix->has_value && runs_along(v, axis, width) &&
           !runs_along(v, b->col, width);
}

bool tile_copies(const Body *b, int inst, DType type, int inner, int width)
{
    const Inst *v = &b->insts.at[inst];
    int64_t step;
    bool aligned;
    return v->kind == KI_LOAD && b->bufs.at[v->buf].type == type &&
           b->bufs.at[v->buf].kind != KA_LOOP_INDEX && !v->ix->has_value &&
           ix_run(v->ix, inner, width, &step, &aligned) && step == 1 && aligned &&
           (v->pred < 0 || inst_steady(b, v->pred, inner, width)) && buf_begins(b, v->buf, width) &&
           b->axis[inner].extent % width == 0;
}

// The tile of an operand without tensor cores: computed element by element.
static Tile plain_operand(const TileProgram *p, int axis)
{
    const Body *b = p->body;
    const Schedule *s = &b->sched;
    int64_t step = 0;
    Tile t = {.name = axis == 1 ? "left" : "right", .axis = axis, .type = p->type};
    t.layout = L_ACROSS;
    t.inst = axis == 1 ? b->dot.a : b->dot.b;
    const Inst *v = inst_first(b, t.inst);
    t.along_k = v->kind == KI_LOAD && ix_stride(v->ix, b->col, &step) && step == 1;
    t.lines = s->tile.k;
    t.line = axis == 1 ? s->tile.m : s->tile.n;
    t.pitch = t.line + (p->each ? 4 : 1);
    t.bytes = t.lines * t.pitch * math_bytes(p->type);
    return t;
}

// The tile of an operand; places and offset are not set yet.
static Tile operand(const TileProgram *p, int axis)
{
    const Body *b = p->body;
    const Schedule *s = &b->sched;
    if (p->atom == &fma) return plain_operand(p, axis);
    bool narrow = p->atom->operand != DT_F32;
    int side = axis == 1 ? s->tile.m : s->tile.n, given = axis == 1 ? b->dot.a : b->dot.b;
    Tile t = {.name = axis == 1 ? "left" : "right", .axis = axis, .type = p->atom->operand};
    t.inst = narrow ? b->insts.at[given].a[0] : given;
    t.along_k =
        narrow ? !lies_across(b, t.inst, axis, p->vector) : operand_along_k(b, t.inst, p->vector);
    int inner = t.along_k ? b->col : axis;
    t.plain = tile_copies(b, t.inst, t.type, inner, p->vector);
    t.layout = narrow ? L_PAD : L_SWIZZLE;
    t.lines = t.along_k ? side : s->tile.k;
    t.line = t.along_k ? s->tile.k : side;
    t.pitch = t.line + (narrow ? p->vector : 0);
    t.bytes = t.lines * t.pitch * (dtype_info[t.type].bits / 8);
    return t;
}

// The operands' tiles. A ring for mma has MMA_AHEAD places if both operands are copied
// asynchronously, two if one of them is computed.
static void add_operands(TileProgram *p)
{
    const Schedule *s = &p->body->sched;
    Tile left = operand(p, 1), right = operand(p, 2);
    int places = s->variant == RUN_F32_RING  ? s->tile.staged
                 : p->atom == &fma           ? 1
                 : left.plain && right.plain ? MMA_AHEAD
                                             : 2;
    left.places = right.places = places;
    right.offset = places * left.bytes;
    tile_add(p, left);
    tile_add(p, right);
}

static void share_out(TileProgram *p)
{
    const Schedule *s = &p->body->sched;
    bool plain = p->atom == &fma, ring = s->variant == RUN_F32_RING;
    p->each = s->tile.each;
    p->warps_m = ring ? s->tile.m / STAGED_SIDE : MMA_WARPS_M;
    p->warps_n = ring ? s->tile.n / STAGED_SIDE : MMA_WARPS_N;
    p->warps_k = ring ? staged_sharing(s) : plain && !s->tile.each ? s->threads / 32 : 1;
    if (plain) p->warps_m = p->warps_n = 1;
    p->side_m = s->tile.m / p->warps_m;
    p->side_n = s->tile.n / p->warps_n;
    p->cluster = ring ? s->cluster : 1;
    int64_t step = (int64_t)s->tile.k * p->cluster;
    p->steps = ceil_div(p->body->axis[p->body->col].extent, step);
}

// Sums pass through shared memory, so that results are stored by whole vectors. Those of 16-bit
// products do so one strip of each warp at a time; those of other products, whose warps divide the
// columns, all at once. With tensor cores they overwrite the operands.
static int add_sums(TileProgram *p)
{
    const int n = p->body->sched.tile.n, lines = p->warps_k * p->body->sched.tile.m;
    Tile t;
    if (p->atom == &fma) { // after the operands
        t = tile_rows("sums", L_ROWS, p->type, lines, n, n);
        t.offset = p->tile[1].offset + p->tile[1].bytes;
    } else if (p->body->sched.variant == RUN_F32_RING) {
        t = tile_rows("sums", L_ROWS, DT_F32, lines, n, staged_pitch(p->body));
    } else {
        t = tile_rows("sums", L_ROWS, DT_F32, p->warps_m * p->warps_n * MMA_STRIP, p->side_n,
                      p->side_n + 4);
        t.of_warp = true;
    }
    return tile_add(p, t);
}

static void begin(const Body *b, TileProgram *p)
{
    *p = (TileProgram){.body = b, .atom = tile_atom(b)};
    bool plain = p->atom == &fma;
    p->type = plain ? b->insts.at[b->dot.sum].acc : p->atom->operand;
    p->vector = plain ? 1 : VECTOR_BYTES * 8 / (int)dtype_info[p->type].bits;
    share_out(p);
    add_operands(p);
}

int mma_shared_bytes(const Body *b)
{
    TileProgram p;
    begin(b, &p);
    const Tile *right = &p.tile[1], *sums = &p.tile[add_sums(&p)];
    int operands = right->offset + right->places * right->bytes;
    return operands > sums->bytes ? operands : sums->bytes;
}

void tile_product(const Body *b, TileProgram *p)
{
    if (b->sched.variant == RUN_GROUPS || b->sched.variant == RUN_WARP_TILES) {
        (b->sched.variant == RUN_GROUPS ? tile_groups : tile_warps)(b, p);
        return;
    }
    begin(b, p);
    const Schedule *s = &b->sched;
    bool plain = p->atom == &fma;
    // The sums of a warp, or of a thread.
    int lines = p->side_m, line = p->side_n;
    if (plain) lines = p->each ? p->each : 4, line = p->each ? p->each : 2;
    const int acc = tile_registers(p, "acc", L_SUMS, plain ? p->type : DT_F32, lines, line);
    bool direct = plain && p->each; // sums go to memory from registers
    int sums = direct ? acc : add_sums(p), places = p->tile[0].places;
    tile_do(p, T_FILL, acc, NO_TILE);
    TileOp *loop = tile_begin(p, T_LOOP, p->steps);
    loop->rolled = plain; // operands may be long expressions, which should be printed only once
    loop->ahead = plain ? 1 : (int)at_most(p->steps, p->steps <= places ? places : places - 1);
    for (int i = 0; i < 2; i++) {
        if (p->tile[i].plain) {
            tile_load(p, BY_ASYNC, i);
            continue;
        }
        Tile next = {i ? "right_next" : "left_next", L_VECTORS, p->tile[i].type, .places = 1};
        next.axis = i + 1;
        int registers = tile_add(p, next);
        tile_load(p, BY_BODY, registers);
        tile_do(p, T_MOVE, i, registers);
    }
    tile_mma(p, BY_BODY, acc, 0, 1);
    tile_end(p);
    const bool strips = !plain && s->variant != RUN_F32_RING;
    if (strips) tile_begin(p, T_LOOP, p->side_m / MMA_STRIP);
    if (!direct) tile_do(p, T_MOVE, sums, acc);
    if (s->variant == RUN_F32_RING)
        tile_load(p, BY_BODY, tile_registers(p, "rest", L_RESULTS, DT_F32, 0, 0));
    tile_do(p, T_MAP, NO_TILE, sums);
    if (strips) tile_end(p);
}

TileProgram tile_program(const Body *b)
{
    TileProgram p;
    if (b->sched.variant == RUN_ATTENTION_GROUPS)
        tile_attention_groups(b, &p);
    else if (b->sched.variant == RUN_ATTENTION)
        tile_attention(b, &p);
    else
        tile_product(b, &p);
    tile_pipeline(&p);
    tile_synchronise(&p);
    return p;
}

// -- the f32 ring ---------------------------------------------------------------------------------

int staged_sharing(const Schedule *s)
{
    return STAGED_WARPS / (s->tile.m / STAGED_SIDE * (s->tile.n / STAGED_SIDE));
}

// Pads rows so that the stores of half a warp go to different banks.
int staged_pitch(const Body *b)
{
    return b->sched.tile.n + (operand_along_k(b, b->dot.a, 4) ? 8 : 4);
}
