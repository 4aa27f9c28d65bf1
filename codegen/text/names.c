// Names, identities, costs and head comments of kernels.
#include <string.h>

#include "base/plain.h"
#include "codegen/schedule/knobs.h"
#include "codegen/text/print.h"

// Words of C and CUDA and their functions, then what the kernels' own text declares:
// tests/layers.sh compares it with the printers.
static const char taken[] =
    " "
    "a abs asm auto b bool break c case catch ceil char class const continue cos default "
    "delete do double else enum erf exp explicit extern false float floor for friend goto if "
    "inline int j0 j1 log long main max min mutable namespace new nullptr operator pow "
    "private protected public register restrict return short signed sin sizeof sqrt static "
    "struct switch tanh template this throw true try typedef typename union unsigned using "
    "virtual void volatile while y0 y1 "
    "acc added after ahead all arg args at band bars base begin blind block bound box boxes by "
    "cell cells chunk chunk_end column count down due early edge edges end end_m entry error "
    "failed first first_k first_m first_row first_tile flat found freed from full given group "
    "half head held hi high hit hit_place hits i inside j joint k k_first kept lane last last_k "
    "last_m last_n leaders leads left left_tile less line live lo look low m member mine more "
    "most n next now o of origin origin_m origin_n other own own_col own_row own_rows pair par "
    "part part_m piece pixel place place_of places q r rank real rest result right right_tile "
    "ring round round_halves row row_first row_of rows s same shift shrink single slot some_m "
    "step steps stop strip sum sums taken task team tile to to_n top total totals turn tx u v "
    "vote w warp warp_m whole whole_m words x y ";

const char *name_identifier(Arena *a, const char *model_name)
{
    char *s = arena_strdup(a, model_name + strspn(model_name, "@._"));
    for (char *p = s; *p; p++)
        if (!plain_alnum(*p)) *p = '_';
    if (strstr(taken, arena_printf(a, " %s ", s))) return arena_printf(a, "%s_", s);
    size_t n = strlen(s); // "v12" and "i3" are generated names, as "x_u" and "x_inverse" for an "x"
    if ((n > 2 && !strcmp(s + n - 2, "_u")) || (n > 8 && !strcmp(s + n - 8, "_inverse")))
        return arena_printf(a, "%s_", s);
    bool ours = n > 1 && (s[0] == 'v' || s[0] == 'i' || s[0] == 'b') &&
                strspn(s + 1, "0123456789") == n - 1;
    return plain_digit(*s) || ours ? arena_printf(a, "m_%s", s) : s;
}

// Appends a path without its indices: "h_attn_q" for "h.3.attn.q".
static void path(Buf *out, const char *name)
{
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, ".");
        if (strspn(p, "0123456789") < n) {
            if (out->len) buf_char(out, '_');
            for (size_t i = 0; i < n; i++)
                if (plain_alnum(p[i]))
                    buf_char(out, p[i]);
                else if (p[i] == '_')
                    buf_char(out, '_');
        }
        p += n + (p[n] == '.');
    }
}

const char *kernel_name(const Kernel *k)
{
    Buf out = buf_new(k->arena);
    const Body *b = k->body[0];
    const char *name = NULL;
    const Node *first = b->group->outs.n ? b->group->outs.at[0] : b->group->anchor;
    for (uint32_t i = 0; i < b->group->outs.n && !name; i++) {
        const Node *n = b->group->outs.at[i];
        name = n->name ? n->name : attr_str(n, ATTR_name);
    }
    if (name) path(&out, name);
    // The reductions and costly ops of the kernel, in order, each once.
    int ops = 0;
    bool used[OP_COUNT] = {false};
    for (int pass = 0; pass < 2 && !(pass && ops); pass++)
        for (uint32_t i = 0; i < b->insts.n && ops < 3; i++) {
            const Inst *v = &b->insts.at[i];
            bool big = v->kind == KI_REDUCE || v->kind == KI_BIN ||
                       (v->kind == KI_EW && op_info(v->op)->flags & OPF_COSTLY);
            if (!(pass ? v->kind == KI_EW || v->kind == KI_CAST : big)) continue;
            Op op = v->kind == KI_CAST            ? OP_cast
                    : v->kind != KI_EW && v->node ? v->node->op
                                                  : v->op;
            if (used[op]) continue;
            used[op] = true;
            ops++;
            buf_printf(&out, "%s%s", out.len ? "_" : "", op_info(op)->name);
        }
    if (!out.len && first) buf_printf(&out, "%s", op_info(first->op)->name);
    if (first && first->role == ROLE_BACKWARD) buf_str(&out, "_bwd");
    if (k->nbodies > 1) buf_printf(&out, "%sx%d", out.len ? "_" : "", k->nbodies);
    if (out.len > 60) out.data[out.len = 60] = 0;
    // A hash of what is computed, so that the name does not depend on the schedule (one kernel or
    // two).
    uint64_t h = 0;
    for (int i = 0; i < k->nbodies; i++) h = hash_mix(h, k->body[i]->key);
    buf_printf(&out, "_%08llx%s", (unsigned long long)(h >> 32),
               k->phase == PHASE_COMBINE ? "_joined" : "");
    return plain_digit(out.data[0]) ? arena_printf(k->arena, "k_%s", out.data) : out.data;
}

static double volume(const Body *b, uint64_t axes)
{
    double n = 1;
    for (int i = 0; i < b->naxes; i++)
        if (axes >> i & 1) n *= (double)b->axis[i].extent;
    return n;
}

// Whether an instruction runs in a kernel that only computes partial sums of rows, or in the kernel
// that combines these, which begins after the reductions.
static bool in_phase(const Body *b, const Inst *v, bool parts, bool joins)
{
    bool inside = b->col >= 0 && v->axes >> b->col & 1;
    if (parts) return inside || v->kind == KI_REDUCE;
    return !joins || (!inside && v->kind != KI_REDUCE);
}

// Adds the operations of the product that a body is about.
static void add_product(const Kernel *k, const Body *b, int at, ProgKernel *p)
{
    if (at < 0) return;
    const Inst *sum = &b->insts.at[at];
    const Type *t = sum->node && sum->node->nargs == 2 ? &sum->node->args[0]->type : NULL;
    if (!t || !dtype_is_float(t->dtype)) return;
    p->product_flops += (int64_t)(2 * volume(b, b->insts.at[sum->a[0]].axes | 1ull << sum->axis));
    p->product_type = (ProgDType)t->dtype;
    p->product_tf32 = k->ctx->tf32 && t->dtype == DT_F32;
}

static void product_costs(const Kernel *k, const Body *b, ProgKernel *p)
{
    add_product(k, b, b->dot.sum, p);
    for (int i = 0; i < b->attention.nscores; i++) add_product(k, b, b->attention.score[i].sum, p);
    for (int i = 0; i < b->attention.nouts; i++) add_product(k, b, b->attention.out[i].sum, p);
}

// The axes of sums that hardly any element needs: what is computed along them costs nothing.
static uint64_t axes_left_out(const Body *b)
{
    uint64_t axes = 0;
    for (uint32_t i = 0; i < b->insts.n; i++) {
        const Inst *v = &b->insts.at[i];
        if (v->kind == KI_REDUCE && v->unless && v->axis != b->col) axes |= 1ull << v->axis;
    }
    return axes;
}

void kernel_costs(const Kernel *k, const Target *t, ProgKernel *p)
{
    double flops = 0, read = 0, written = 0;
    for (int n = 0; n < k->nbodies; n++) {
        const Body *b = k->body[n];
        // (Updates of chunks with one index count where they would be added up otherwise.)
        if (b->bins.chunk && b->bins.same != b->bins.ordered) continue;
        // By buffer: elements read, at most those of the space in which it is read.
        double *reach = NEW_ARRAY(k->arena, double, b->bufs.n + 1);
        const uint64_t left_out = axes_left_out(b);
        bool joins = k->phase == PHASE_COMBINE,
             parts = k->phase == PHASE_PARTIAL && b->col >= 0 && b->sched.split > 1;
        for (uint32_t j = 0; j < b->insts.n; j++)
            if (b->insts.at[j].kind == KI_LOAD && !(b->insts.at[j].axes & left_out) &&
                in_phase(b, &b->insts.at[j], parts, joins))
                reach[b->insts.at[j].buf] += volume(b, b->insts.at[j].axes);
        for (uint32_t i = 0; i < b->bufs.n; i++) {
            const BodyBuf *u = &b->bufs.at[i];
            double bytes = (double)dtype_info[u->type].bits / 8;
            if (u->kind == KA_SCRATCH) { // partial sums have the type of the accumulator
                double sums = (bytes < 4 ? 4 : bytes) * (double)u->elems;
                written += parts || (b->bins.held && !u->read) ? sums : 0;
                read += joins || (b->bins.held && u->read) ? sums : 0;
                flops += joins ? (double)u->elems : 0;
            }
            if (u->kind != KA_NODE) continue;
            const double most = (double)(u->part ? u->part : u->elems);
            if (u->read) read += bytes * (reach[i] < most ? reach[i] : most);
            bool here = !(parts || joins) || body_stores_columns(b, (int)i) == parts;
            if (u->written && here) written += bytes * most;
        }
        for (uint32_t i = 0; i < b->insts.n; i++) {
            const Inst *v = &b->insts.at[i];
            if (!in_phase(b, v, parts, joins)) continue;
            // (each update belongs to one of the shares)
            double shares = b->bins.held && v->axes & 2 ? (double)b->bins.shares : 1;
            if (v->axes & left_out) continue;
            if (v->kind == KI_EW || v->kind == KI_BIN) flops += volume(b, v->axes) / shares;
            if (v->kind == KI_REDUCE && !v->unless)
                flops += volume(b, v->axes | b->insts.at[v->a[0]].axes | 1ull << v->axis);
        }
        const int64_t before = p->product_flops;
        if (k->phase == PHASE_WHOLE) product_costs(k, b, p);
        if (b->dot.deep) { // products with zeros between groups do not count
            const double groups = (double)b->dot.deep / (double)b->dot.channels,
                         zeros = (double)(p->product_flops - before) * (1 - 1 / groups);
            p->product_flops -= (int64_t)zeros;
            flops -= zeros;
        }
    }
    p->bytes_read = (int64_t)read;
    p->bytes_written = (int64_t)written;
    p->flops = (int64_t)flops;
    bool half = p->product_type == PD_BF16 || p->product_type == PD_F16;
    double least[] = {(read + written) / t->bytes_per_second,
                      (flops - (double)p->product_flops) / t->f32_flops,
                      (double)p->product_flops / target_product_flops(t, half, p->product_tf32)};
    for (int i = 0; i < 3; i++)
        if (least[i] > p->floor_seconds) p->floor_seconds = least[i];
}

static const char *amount(Arena *a, double v, const char *unit)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T"};
    int i = 0;
    for (; v >= 1000 && i < 4; i++) v /= 1000;
    return arena_printf(a, "%.*f %s%s", v < 10 && i ? 2 : v < 100 && i ? 1 : 0, v, prefix[i], unit);
}

void kernel_comment(const Kernel *k, const ProgKernel *p, const Target *t, Buf *out)
{
    Arena *a = k->arena;
    Diags *d = k->ctx->diags;
    buf_printf(out, "// %s", k->name);
    if (k->phase != PHASE_WHOLE)
        buf_str(out, k->phase == PHASE_PARTIAL ? " (parts)" : " (joins the parts)");
    buf_char(out, '\n');
    const char *shown[12];
    int lines = 0;
    for (int n = 0; n < k->nbodies; n++)
        for (uint32_t i = 0; i < k->body[n]->insts.n && lines < 12; i++) {
            const Node *node = k->body[n]->insts.at[i].node;
            if (!node || !node->loc || k->body[n]->insts.at[i].kind == KI_LOAD) continue;
            const char *where = loc_text(d, node->loc);
            bool again = !*where;
            for (int at = 0; at < lines; at++) again |= !strcmp(where, shown[at]);
            if (again) continue;
            shown[lines++] = where;
            buf_printf(out, "// %-24s %s\n", where, loc_line(d, node->loc));
        }
    for (int n = 0; n < k->nbodies && n < 4; n++) {
        buf_str(out, "//");
        for (int w = 0; w < 2; w++) {
            if (w) buf_str(out, " ->");
            for (uint32_t i = 0; i < k->body[n]->bufs.n; i++) {
                const BodyBuf *u = &k->body[n]->bufs.at[i];
                if (u->kind != KA_NODE || u->written != (w == 1)) continue;
                buf_char(out, ' ');
                type_print(
                    out, node_class(u->node) == CLS_ROOT ? &u->node->args[0]->type : &u->node->type,
                    NULL);
            }
        }
        buf_char(out, '\n');
    }
    if (k->nbodies > 4) buf_printf(out, "// and %d more alike\n", k->nbodies - 4);
    buf_printf(out, "// reads %s, writes %s, %s, floor %.2f us\n",
               amount(a, (double)p->bytes_read, "B"), amount(a, (double)p->bytes_written, "B"),
               amount(a, (double)p->flops, "FLOP"), p->floor_seconds * 1e6);
    buf_printf(out, "// schedule: %s\n", schedule_text(a, k->body[0], t, false));
}
