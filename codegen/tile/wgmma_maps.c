// The tensor maps for bulk copies of the matrices of a product by groups of four warps.
//
// Row pitches and starts of copies must be multiples of 16 bytes. The left operand may have rows
// that are not aligned: then every second, fourth or eighth row has the same alignment. These rows
// get a map of their own (ProgMap.apart), and a tile consists of rows of one map. Copies begin at
// the multiple of 16 bytes before their rows; the elements in between are cleared, and the copies
// of the right operand, whose rows are along k, begin the same number of rows before its first one,
// where they read zeros.
#include "codegen/tile/wgmma.h"

#include "codegen/tile/tile.h"

// UNIT: elements of 16 bytes. MOST_STAYING: bytes of an operand that stays; they leave room for
// three places of the ring. ADDRESSES: registers for addresses and arithmetic. HALF: half of a
// thread's registers. SHARED_MEMORY: bytes a block has on GPUs with groups of four warps;
// OTHER_SHARED: of these, for barriers and alignment. MOST_WIDE: columns of an instruction.
// MOST_BESIDE: registers for the tensors that a part of the results reads, if sums over rows are
// added up too; _HALF: if the sums of the product take half of a thread's registers.
enum {
    UNIT = 8,
    MOST_OPERANDS = 2,
    MOST_STAYING = 150 << 10,
    SHARED_MEMORY = 227 << 10,
    OTHER_SHARED = 2 << 10,
    ADDRESSES = 88,
    HALF = 128,
    MOST_WIDE = 256,
    MOST_BESIDE = 48,
    MOST_BESIDE_HALF = 32
};

static GroupOperand matrix(const Body *b, int axis)
{
    GroupOperand x = {0};
    const Inst *v = &b->insts.at[b->insts.at[axis == 1 ? b->dot.a : b->dot.b].a[0]];
    int64_t by_axis, by_k, by_batch;
    if (v->kind != KI_LOAD || v->pred >= 0 || v->ix->has_value ||
        v->ix->axes & ~(1ull | 1ull << axis | 1ull << b->col) || v->ix->constant < 0 ||
        !ix_stride(v->ix, axis, &by_axis) || !ix_stride(v->ix, b->col, &by_k) ||
        !ix_stride(v->ix, 0, &by_batch))
        return x;
    x.along_k = by_k == 1;
    x.map = (ProgMap){.offset = v->ix->constant,
                      .rows = b->axis[x.along_k ? axis : b->col].extent,
                      .cols = b->axis[x.along_k ? b->col : axis].extent,
                      .pitch = x.along_k ? by_axis : by_k,
                      .box_cols = STEP,
                      .apart = 1};
    if (b->axis[0].extent > 1) { // several products, a plane each
        x.map.planes[0] = b->axis[0].extent;
        x.map.planes[1] = 1;
        x.map.plane_pitch[0] = x.map.plane_pitch[1] = by_batch;
        if (by_batch < UNIT || by_batch % UNIT) return x;
    }
    x.fits = (x.along_k ? by_k : by_axis) == 1 && x.map.pitch >= x.map.cols;
    return x;
}

static GroupOperand operand(const Body *b, int axis)
{
    const BodyWindows *w = b->dot.windows[axis - 1];
    GroupOperand x = matrix(b, axis);
    return x.fits || !w ? x : (GroupOperand){true, w->along_k, w->map};
}

static bool is_even(const ProgMap *m)
{
    return m->pitch % UNIT == 0 && m->offset % UNIT == 0;
}

bool group_uneven(const Body *b)
{
    const GroupOperand x = operand(b, 1);
    return x.fits && x.along_k && !is_even(&x.map);
}

int group_apart(const Body *b)
{
    if (!group_uneven(b)) return 1;
    int64_t rest = operand(b, 1).map.pitch % UNIT;
    return rest % 2 ? 8 : rest % 4 ? 4 : rest ? 2 : 1;
}

// Whether the last step along the contracted axis may read beyond it: what is beyond has to be zero
// for one operand. A matrix ends there, but after the windows of one product follow those of the
// next.
static bool ends_in_zeros(const Body *b, const GroupOperand *left, const GroupOperand *right)
{
    const bool on = left->map.image[0] && !left->along_k && right->map.image[0] && !right->along_k;
    return !on || b->axis[0].extent == 1 || b->axis[b->col].extent % STEP == 0;
}

GroupOperand group_operand(const Body *b, int axis)
{
    const GroupOperand left = operand(b, 1), right = operand(b, 2);
    if (!left.fits || !right.fits || !ends_in_zeros(b, &left, &right)) return (GroupOperand){0};
    GroupOperand x = axis == 1 ? left : right;
    if (axis == 1) x.map.apart = group_apart(b);
    bool above = axis == 1 && left.along_k && !right.along_k && !right.map.image[0];
    x.fits = (is_even(&x.map) || above) && x.map.rows >= x.map.apart;
    return x;
}

bool group_has_windows(const Body *b)
{
    const GroupOperand left = group_operand(b, 1), right = group_operand(b, 2);
    return (left.fits && left.map.image[0]) || (right.fits && right.map.image[0]);
}

// The number of maps is limited because a kernel's parameters may take at most 4 KB.
bool group_result(const Body *b, uint32_t i, ProgMap *m)
{
    const BodyStore *s = &b->stores.at[i];
    int apart = group_apart(b);
    int64_t step, pitch;
    if (b->axis[0].extent > 1 || wgmma_shares(&b->sched) || wgmma_by_rows(b) ||
        i >= (apart > 4 ? 2 : PROG_MAX_MAPS - MOST_OPERANDS) || s->buf < 0 || s->joins ||
        s->guard || !s->ix || s->ix->has_value || dtype_info[b->bufs.at[s->buf].type].bits != 16 ||
        s->ix->constant < 0 || !ix_stride(s->ix, 1, &pitch) || !ix_stride(s->ix, 2, &step))
        return false;
    *m = (ProgMap){.offset = s->ix->constant,
                   .rows = b->axis[1].extent,
                   .cols = b->axis[2].extent,
                   .pitch = pitch,
                   .box_rows = BOX,
                   .box_cols = STEP,
                   .apart = apart};
    const int unit = wgmma_strips(b) ? UNIT : 2; // columns stored at a time: by threads, by copies
    return step == 1 && pitch >= m->cols && is_even(m) && m->cols % unit == 0;
}

bool group_boxed(const Body *b, uint32_t i)
{
    ProgMap m;
    return group_result(b, i, &m);
}

// -- what follows from the schedule ---------------------------------------------------------------

int wgmma_staged(const Body *b)
{
    int n = 0;
    for (uint32_t i = 0; i < b->stores.n; i++) n += group_boxed(b, i);
    return n;
}

// The width of tiles. A copy of windows must not begin within the channels of a pixel.
int wgmma_grain(const Body *b)
{
    const GroupOperand right = group_operand(b, 2);
    const bool across = right.fits && right.map.image[0] && !right.along_k;
    if (wgmma_strips(b)) return across && right.map.cols < b->axis[2].extent ? STEP : STEP / 2;
    return b->sched.tile.wgmma == WGMMA_STEPS && !across ? STEP / 2 : STEP;
}

// The rows of a tile that a group multiplies.
static int group_rows_of(const Body *b)
{
    return b->sched.tile.m / (wgmma_together(&b->sched) ? GROUPS : 1);
}

static int sums_registers(const Body *b)
{
    return b->sched.tile.n * group_rows_of(b) / (GROUP_WARPS * 32);
}

// The registers for what a thread loads for a part of the results (16 rows of 64 columns per warp),
// in vectors of eight elements.
static int rest_registers(const Body *b)
{
    int64_t step;
    int n = 0;
    if (wgmma_shares(&b->sched) || b->axis[2].extent % UNIT) return 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_LOAD && !(v->axes >> b->col & 1) && v->axes >> 1 & 1 &&
            !inst_nested(b, v) && b->bufs.at[v->buf].kind != KA_LOOP_INDEX &&
            ix_stride(v->ix, 2, &step) && step == 1 && ix_aligned(v->ix, 2, UNIT))
            n += BOX * STEP / 32 * dtype_info[b->bufs.at[v->buf].type].bits / 32;
    }
    return n;
}

// In the layout of the sums a thread would load pairs of elements, and these loads would wait for
// memory one after the other: on an H100 a gradient with a residual and two masks took 283 us, its
// product alone 70. (If the sums take more than half of the registers, this is no faster: 134 us
// instead of 132 for a product of GPT-2 with its residual.)
bool wgmma_by_rows(const Body *b)
{
    return sums_registers(b) <= HALF && rest_registers(b) > 0;
}

int wgmma_added(const Body *b)
{
    const BodyStore *fold = NULL;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (!s->fold) continue;
        const Accumulate acc = (Accumulate)op_info(s->fold->op)->acc;
        if ((acc != ACC_SUM && acc != ACC_MOMENTS) || b->bufs.at[s->buf].type != DT_F32 ||
            (fold && s->value != fold->value))
            return -1;
        fold = s;
    }
    for (uint32_t i = 0; fold && i < b->stores.n; i++)
        for (int at = fold->value; group_boxed(b, i); at = b->insts.at[at].a[0]) {
            if (at == b->stores.at[i].value) return (int)i;
            if (b->insts.at[at].kind != KI_CAST || b->insts.at[at].type != DT_F32) break;
        }
    return -1;
}

static int kept_sums(const Body *b)
{
    int kept = 0;
    for (uint32_t i = 0; i < b->stores.n; i++) kept += b->stores.at[i].fold != NULL;
    return kept;
}

// Only sums in f32: other accumulators would take too many registers. Also only if few tensors are
// read: on an H100, gradients of 64 and 128 channels that read two or three tensors took 0.80 of
// the time of separate kernels for gradient and sums; with five tensors 1.04 and 1.2 of it.
static bool adds_by_rows(const Body *b)
{
    const int most = sums_registers(b) < HALF ? MOST_BESIDE : MOST_BESIDE_HALF;
    if (kept_sums(b) > ROW_SUMS || rest_registers(b) > most) return false;
    for (uint32_t i = 0; i < b->stores.n; i++) {
        const BodyStore *s = &b->stores.at[i];
        if (s->fold &&
            ((Accumulate)op_info(s->fold->op)->acc != ACC_SUM || b->bufs.at[s->buf].type != DT_F32))
            return false;
    }
    return true;
}

int wgmma_joint_bytes(const Body *b)
{
    return GROUPS * GROUP_WARPS * kept_sums(b) * b->sched.tile.n * 4;
}

bool wgmma_may_add_columns(const Body *b)
{
    const Schedule *s = &b->sched;
    return s->variant == RUN_GROUPS && s->cluster == 1 && group_apart(b) == 1 &&
           b->axis[0].extent == 1 && (wgmma_staged(b) > 0 || wgmma_by_rows(b)) &&
           sums_registers(b) <= HALF && !(b->dot.windows[1] && b->dot.windows[1]->live);
}

bool wgmma_adds_columns(const Body *b)
{
    return body_folds_results(b) && wgmma_may_add_columns(b) &&
           (wgmma_by_rows(b) ? adds_by_rows(b) : wgmma_added(b) >= 0) &&
           wgmma_joint_bytes(b) <= b->sched.tile.ring * wgmma_place_apart(b) &&
           b->sched.blocks % ceil_div(b->axis[2].extent, b->sched.tile.n) == 0;
}

int wgmma_ahead(const Body *b)
{
    const int rest = rest_registers(b),
              added = body_folds_results(b) ? UNIT * (int)ceil_div(b->sched.tile.n, STEP) : 0,
              room = wgmma_registers(b) - sums_registers(b) - added - ADDRESSES;
    return rest && room > 0 ? (int)at_most(room / rest, wgmma_parts(b)) : 0;
}

int wgmma_parts(const Body *b)
{
    return group_rows_of(b) / ATOM_ROWS * (int)ceil_div(b->sched.tile.n, STEP);
}

int wgmma_part_bytes(const Body *b)
{
    const int warps = GROUPS * GROUP_WARPS;
    if (wgmma_by_rows(b)) return warps * BOX * STEP * (int)sizeof(float);
    return wgmma_stages(b) * wgmma_staged(b) * warps * BOX * LINE;
}

// How many times over a warp has room for its staged results. If rows are summed, places of the
// ring are in use for longer, so the ring needs the memory more: on an H200 a gradient with respect
// to an input, with its bias gradient, is a fortieth faster with one stage, a product without sums
// as much slower. With strips there is one, because their places are large.
int wgmma_stages(const Body *b)
{
    return wgmma_staged(b) > 2 || body_folds_left(b) || wgmma_strips(b) ? 1 : 2;
}

// The threads that multiply get as many registers as possible; the warps that copy get what remains
// of an average of 168 per thread. (Those that also sum rows need some more.)
int wgmma_registers(const Body *b)
{
    bool tight = b->sched.tile.m * b->sched.tile.n > 192 * 128 || wgmma_staged(b) > 1;
    return (tight ? 240 : 232) - (body_folds_left(b) ? 8 : 0);
}

int wgmma_sharing(const Schedule *s)
{
    return wgmma_shares(s) ? s->cluster : 1;
}

int64_t wgmma_tiles(const Body *b)
{
    const Schedule *s = &b->sched;
    int64_t high = (int64_t)s->tile.m * (s->cluster / wgmma_sharing(s)), apart = group_apart(b);
    return b->axis[0].extent * apart * ceil_div(ceil_div(wgmma_rows(b), apart), high) *
           ceil_div(b->axis[2].extent, s->tile.n);
}

int64_t wgmma_steps(const Body *b)
{
    const BodyStrips *strips = wgmma_strips(b);
    const int64_t chunks = wgmma_chunks(b);
    if (chunks)
        return b->axis[b->col].extent / b->dot.deep / (strips ? strips->pixels : 1) * chunks;
    if (strips) return b->axis[b->col].extent / STEP / strips->pixels;
    strips = wgmma_right_strips(b);
    if (strips) return ceil_div(strips->images * strips->lines * strips->pitch, STEP);
    int64_t all = ceil_div(b->axis[b->col].extent + (group_uneven(b) ? 7 : 0), STEP);
    int groups = b->sched.tile.wgmma == WGMMA_STEPS ? GROUPS : 1;
    return groups * ceil_div(all, (int64_t)groups * wgmma_sharing(&b->sched));
}

int64_t wgmma_chunks(const Body *b)
{
    const Schedule *s = &b->sched;
    const int64_t deep = b->dot.deep, results = b->dot.results;
    if (!deep || s->tile.n % results || b->axis[b->col].extent % deep || wgmma_shares(s) ||
        s->cluster > 1 || group_apart(b) > 1 || body_folds_left(b) || wgmma_right_strips(b) ||
        wgmma_skips(b))
        return 0;
    const int64_t channels = s->tile.n / results * b->dot.channels;
    return channels % STEP == 0 && channels < deep ? channels / STEP : 0;
}

const BodyWindows *wgmma_skips(const Body *b)
{
    const Schedule *s = &b->sched;
    const BodyWindows *w = b->dot.windows[1];
    if (!w || !w->live || wgmma_shares(s) || wgmma_strips(b) || s->cluster > 1 ||
        group_apart(b) > 1 || matrix(b, 2).fits)
        return NULL;
    const int64_t all = b->axis[b->col].extent / STEP;
    for (int64_t i = 0; i < ceil_div(b->axis[2].extent, s->tile.n); i++)
        if (wgmma_live_steps(b, i) < all) return w;
    return NULL;
}

uint32_t wgmma_live(const Body *b, int64_t across)
{
    const int64_t chunks = b->sched.tile.n / STEP, all = b->axis[2].extent / STEP;
    uint32_t live = 0;
    for (int64_t i = across * chunks; i < (across + 1) * chunks && i < all; i++)
        live |= b->dot.windows[1]->live[i];
    return live;
}

int64_t wgmma_live_steps(const Body *b, int64_t across)
{
    int64_t n = 0;
    for (uint32_t live = wgmma_live(b, across); live; live &= live - 1) n++;
    return n * (b->dot.windows[1]->live_run / STEP);
}

int wgmma_wide(const Body *b)
{
    const GroupOperand right = group_operand(b, 2);
    int n = b->sched.tile.n;
    return right.fits && right.along_k ? n : (n + STEP - 1) / STEP * STEP;
}

// -- strips ---------------------------------------------------------------------------------------

// The map of the left operand with its rows as the positions of images, one image after the other,
// in the same order as the positions of the windows.
static bool image_of_rows(const Body *b, const BodyStrips *s, ProgMap *m)
{
    const GroupOperand left = matrix(b, 1);
    *m = left.map;
    if (!left.fits || left.along_k || !is_even(m)) return false;
    const int64_t parts = m->planes[0] ? m->planes[0] : 1;
    if (parts > 1 && m->plane_pitch[0] != m->rows * m->pitch) return false;
    m->image[0] = s->results;
    m->image[1] = s->lines;
    m->image_pitch[0] = m->pitch;
    m->image_pitch[1] = m->pitch * s->results;
    m->pitch *= s->results * s->lines;
    m->rows = parts * s->images;
    m->planes[0] = 0;
    for (int i = 0; i < 2; i++) {
        m->first[i] = 0;
        m->step[i] = 1;
    }
    m->places[0] = (int32_t)s->pitch;
    m->places[1] = (int32_t)s->lines;
    return true;
}

bool group_right_strips(const Body *b, ProgMap *left)
{
    const BodyWindows *w = b->dot.windows[1];
    return w && w->strips.pixels && !w->along_k && w->strips.pixels * STEP <= MOST_WIDE &&
           image_of_rows(b, &w->strips, left);
}

const BodyStrips *wgmma_right_strips(const Body *b)
{
    ProgMap m;
    return b->sched.tile.wgmma == WGMMA_STRIPS && group_right_strips(b, &m)
               ? &b->dot.windows[1]->strips
               : NULL;
}

int wgmma_right_rows(const Body *b)
{
    const BodyStrips *s = wgmma_right_strips(b);
    return STEP + (s ? (s->pixels - 1) * s->apart : 0);
}

const BodyStrips *wgmma_strips(const Body *b)
{
    const BodyWindows *w = b->dot.windows[0];
    const bool strips =
        b->sched.tile.wgmma == WGMMA_STRIPS || b->sched.tile.wgmma == WGMMA_SHARED_STRIPS;
    return strips && w && w->along_k && w->strips.pixels ? &w->strips : NULL;
}

int64_t wgmma_rows(const Body *b)
{
    const BodyStrips *s = wgmma_strips(b);
    return s ? b->axis[1].extent / s->results * s->pitch : b->axis[1].extent;
}

int wgmma_strip_rows(const Body *b)
{
    const BodyStrips *s = wgmma_strips(b);
    return b->sched.tile.m + (s ? (s->pixels - 1) * s->apart : 0);
}

// Bulk copies begin at multiples of eight lines.
static int whole_lines(int bytes)
{
    return (int)ceil_div(bytes, 8 * LINE) * 8 * LINE;
}

// The bytes of shared memory beside two places of the ring, for a tile of both groups: its places
// have twice the height.
static int room_beside_ring(const Body *b)
{
    return SHARED_MEMORY - OTHER_SHARED - wgmma_part_bytes(b) -
           2 * whole_lines(wgmma_strip_rows(b) * LINE);
}

// Whether all tiles have the same columns of the right operand and these fit: then it is copied
// once per block.
bool wgmma_stays(const Body *b)
{
    const BodyStrips *s = wgmma_strips(b);
    const int64_t lines = b->axis[b->col].extent / STEP * wgmma_wide(b);
    return s && b->axis[0].extent == 1 && b->axis[2].extent <= b->sched.tile.n &&
           lines <= MOST_STAYING / LINE &&
           (!wgmma_together(&b->sched) || lines * LINE <= room_beside_ring(b));
}

int wgmma_tile_bytes(const Body *b, int axis)
{
    const BodyStrips *s = wgmma_strips(b);
    if (axis == 1) return wgmma_strip_rows(b) * LINE;
    if (wgmma_right_strips(b)) return wgmma_right_rows(b) * LINE;
    int64_t of = wgmma_stays(b) ? b->axis[b->col].extent / STEP : s ? s->pixels : 1;
    return wgmma_wide(b) * LINE * (int)of;
}

int wgmma_place_apart(const Body *b)
{
    return whole_lines(wgmma_tile_bytes(b, 1)) +
           (wgmma_stays(b) ? 0 : whole_lines(wgmma_tile_bytes(b, 2)));
}

int wgmma_right_offset(const Body *b)
{
    return whole_lines(wgmma_tile_bytes(b, 1));
}

// Pads rows so that the stores of a warp go to different banks.
int wgmma_pitch(const Schedule *s)
{
    return (s->tile.n + 31) / 32 * 32 + 8;
}
